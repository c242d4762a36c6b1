"""Windows that search by meaning: `Semantic`, and `Linked`, which also follows links."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Unpack, cast

import numpy as np
from numpy.typing import NDArray

from alveus.agents.windows.observation import (
    RELATED,
    Observation,
    ObservationHeader,
    Stamp,
    item_of_observation,
    messages_of,
    value_of,
    vectors_of,
    with_metadata,
)
from alveus.agents.windows.window import Settings, Window, WindowRequest, check_settings
from alveus.agents.windows.window_contents import Column, WindowIndex
from alveus.embed import LARGEST, Embedder, Vector, open_embedder, pack_vector
from alveus.errors import EmbedderFailed, InvalidInput, NotFound
from alveus.search.index import Quantised, quantised
from alveus.search.query import SearchOptions
from alveus.search.similarity import Nearness
from alveus.sets.batch import AFTER_ALL
from alveus.sets.set_editor import SetEditor
from alveus.sets.writer import PlannedWrite, Writer
from alveus.store import ItemRecord, Replace, StoredItem
from alveus.store.items import Item
from alveus.text.messages import Message
from alveus.values.lazy_dataclass import dataclass
from alveus.values.storable import checked_name, checked_number, counted

SIDES = 2
"""The number of vectors of an observation: one for the query and one for the reply."""

BLOCK = 512
"""How many slots are compared at once. Their float32 rows fit a processor's cache."""


class Rows:
    """Two int8 vectors for each slot of a `WindowIndex`. A missing vector is stored as zeros.

    Used under the lock of the window's mirror.
    """

    def __init__(self, dimensions: int) -> None:
        self._rows: NDArray[np.int8] = np.zeros((0, SIDES, dimensions), np.int8)
        self._norms: Column = np.zeros((0, SIDES))
        self._first: Column = np.zeros(0, np.int64)

    def missing(self, index: WindowIndex) -> list[ObservationHeader]:
        """Return the observations without vectors here, among them all observations of a batch."""
        self._grow(len(index.live))
        slots = index.slots
        first = index.first[slots]
        unknown = (self._first[slots] != first) | (first >= AFTER_ALL)
        return [index.at(int(slot)) for slot in slots[unknown]]

    def put(
        self, index: WindowIndex, entry: ObservationHeader, sides: Sequence[Vector | None]
    ) -> None:
        """Store the vectors of an observation, if the window still holds it."""
        if entry.id not in index:
            return
        slot = index.slot(entry.id)
        self._grow(len(index.live))
        self._rows[slot], self._first[slot] = 0, entry.first
        for side, vector in enumerate(sides):
            if vector is not None and (largest := float(np.abs(vector).max(initial=0.0))):
                self._rows[slot, side] = np.rint(vector * (LARGEST / largest))
        self._norms[slot] = np.sqrt(np.square(self._rows[slot].astype(np.float64)).sum(axis=1))

    def cosines(self, index: WindowIndex, query: Quantised) -> Column:
        """Return, by slot, the cosine of *query* with the nearer vector of each observation.

        An observation without vectors has -inf.

        The result is the same on every machine: see `alveus.search.index.vectors`.
        """
        size = len(index.live)
        self._grow(size)
        found = np.full(size, -np.inf)
        for at in range(0, size, BLOCK):
            rows = self._rows[at : min(at + BLOCK, size)]
            products = rows.reshape(-1, rows.shape[2]).astype(np.float32) @ query.whole
            norms = self._norms[at : at + len(rows)] * query.norm
            each = np.full(norms.shape, -np.inf)
            np.divide(products.reshape(norms.shape), norms, out=each, where=norms > 0)
            found[at : at + len(rows)] = each.max(axis=1)
        found[~index.live | (self._first[:size] != index.first)] = -np.inf
        return found

    def _grow(self, size: int) -> None:
        more = size - len(self._first)
        if more > 0:
            self._rows = np.concatenate(
                (self._rows, np.zeros((more, *self._rows.shape[1:]), np.int8))
            )
            self._norms = np.concatenate((self._norms, np.zeros((more, SIDES))))
            self._first = np.concatenate((self._first, np.full(more, -1)))


SEMANTIC_CAP = 10_000
"""The default cap of a window by meaning, in units."""

MOST_FOUND = 200
"""The most units that a window by meaning shows."""

HITS = 4
"""How many hits a search returns per shown unit: a unit may have several observations."""

SCORE_OF_BEST = 3.0
"""The greatest score of a search: 1 for words and 2 for meaning."""

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class NearestObservations:
    """The result of preparing a prompt.

    Attributes:
        scores: The nearness of each hit of a search, at most 1, by id.
        query: The vector of the prompt, if vectors are compared.
        fetched: Observations whose vectors were not in RAM, with their vectors.
    """

    scores: Mapping[str, float]
    query: Quantised | None = None
    fetched: Sequence[tuple[ObservationHeader, tuple[Vector | None, Vector | None]]] = ()


class Semantic(Window):
    """Shows the newest unit and the units nearest to the prompt, in order of time.

    Without *embedder*, the search of the set finds these units: by words and by meaning, with the
    embedder of the memory. With *embedder*, query and reply have a vector each, made at commit
    unless the observation has one (`relevance`). The nearer vector counts. If the embedder fails,
    the observation is stored, and embedded at the next context. Without a prompt, the newest units
    are shown.

    Args:
        top_k: The number of shown units besides the newest.
        embedder: The embedder that makes the vectors, or the name of a bundled embedder. None means
            the embedder of the memory, and in RAM the default embedder.
        cap, stratum, settings: See `Window`; profile is refused.
    """

    kind: ClassVar[str] = "semantic"

    def __init__(
        self,
        cap: int | None = SEMANTIC_CAP,
        stratum: str | Message | None = "",
        *,
        top_k: int = 5,
        embedder: str | Embedder | None = None,
        **settings: Unpack[Settings],
    ) -> None:
        check_settings(self, settings, "profile")
        self._top_k = counted(top_k, "top_k", most=MOST_FOUND)
        self._embedder = None if embedder is None else open_embedder(embedder)
        if self._embedder is not None:
            self._near, self._rows = Nearness(self._embedder), Rows(self._embedder.dimensions)
        else:
            self.ram_embedder = None
        super().__init__(cap, stratum, **settings)

    # --- committing ---------------------------------------------------------------------------

    def item(self, observation: Observation) -> Item:
        """Return the item that keeps an observation, with its vectors; see `Window`."""
        item, embedder = item_of_observation(observation), self._embedder
        given, _ = vectors_of(item.value)
        if embedder is None:
            if any(vector is not None for vector in given):
                raise InvalidInput(
                    f"window {self._name!r} has no embedder, so it cannot use the relevance of "
                    "an observation; open it with the embedder= that made the relevance"
                )
            return item
        for vector in given:
            if vector is not None and len(vector) != embedder.dimensions:
                raise InvalidInput(
                    f"the relevance of an observation has {len(vector)} numbers, but embedder "
                    f"{embedder.name!r} makes {embedder.dimensions}; assign a vector of that "
                    "embedder"
                )
        try:
            query, reply = self._embedded(lambda: observation.messages, given)
        except EmbedderFailed as error:
            _LOG.warning("an observation is kept without vectors", extra={"error": str(error)})
            query, reply = given
        value = cast("dict[str, Any]", item.value) | {"embedder": embedder.name}
        for name, vector in (("query_vector", query), ("reply_vector", reply)):
            if vector is not None:
                value[name] = pack_vector(vector)
        return replace(item, value=value)

    def _embedded(
        self,
        messages: Callable[[], tuple[Message, Message]],
        given: tuple[Vector | None, Vector | None],
    ) -> tuple[Vector, Vector]:
        """Return both vectors. Only vectors that are missing in *given* are made."""
        query, reply = given
        if query is None or reply is None:
            wanted = [m.content for m, v in zip(messages(), given, strict=True) if v is None]
            made = iter(self._near.vectors(wanted))
            query, reply = (next(made) if v is None else v for v in given)
        return query.astype(np.float32), reply.astype(np.float32)

    # --- contexts -----------------------------------------------------------------------------

    def prepare(self, prompt: Message | None, writer: Writer) -> NearestObservations | None:
        """Return the observations near a prompt, or None without a prompt."""
        if prompt is None or not prompt.content.strip():
            return None
        if self._embedder is None:
            options = SearchOptions(limit=HITS * (self._top_k + 1), touch=False)
            hits = writer.search([self._storage.ref(self._name)], prompt.content, options)
            return NearestObservations(
                {str(hit.item.id): hit.score / SCORE_OF_BEST for hit in hits}
            )
        (query,) = self._near.vectors([prompt.content])

        def read_missing(index: WindowIndex) -> tuple[list[ObservationHeader], list[StoredItem]]:
            missing = self._rows.missing(index)
            return missing, self._stored(writer, missing)

        missing, stored = self._read(writer, read_missing)
        found = self._fetched(stored)
        fetched = [(entry, found[entry.id]) for entry in missing if entry.id in found]
        return NearestObservations({}, quantised(query.astype(np.float32)), fetched)

    def _fetched(self, items: Sequence[StoredItem]) -> dict[str, tuple[Vector, Vector]]:
        assert self._embedder is not None  # noqa: S101 - it has vectors
        found: dict[str, tuple[Vector, Vector]] = {}
        for stored in items:
            value = value_of(stored)
            given, by = vectors_of(value)
            if by is not None and by != self._embedder.name:
                raise InvalidInput(
                    f"window {self._name!r} holds vectors of embedder {by!r}, not of "
                    f"{self._embedder.name!r}; open it with embedder {by!r}, or with another "
                    "name="
                )
            found[stored.record.id] = self._embedded(partial(messages_of, value), given)
        return found

    def nearness(self, index: WindowIndex, request: WindowRequest) -> Column:
        """Return, by slot, each observation's nearness to the prompt, at most 1.

        It is -1 if the nearness is unknown, and for all observations without a prompt.
        """
        found = np.full(len(index.live), -1.0)
        near = cast("NearestObservations | None", request.prepared)
        if near is None:
            return found
        if near.query is not None:
            for entry, sides in near.fetched:
                self._rows.put(index, entry, sides)
            return np.maximum(found, self._rows.cosines(index, near.query))
        for item_id, score in near.scores.items():
            if item_id in index:
                found[index.slot(item_id)] = score
        return found

    def hits(self, index: WindowIndex, request: WindowRequest) -> dict[int, float]:
        """Return the nearness of the *top_k* nearest units besides the newest, by slot."""
        near = index.of_units(self.nearness(index, request))
        newest = {int(index.unit[index.slot(unit[0].id)]) for unit in index.last_units(1)}
        units: dict[int, int] = {}
        for slot in index.best_first(near):
            if len(units) == self._top_k:
                break
            if int(index.unit[slot]) not in newest:
                units.setdefault(int(index.unit[slot]), slot)
        return {slot: float(near[slot]) for slot in units.values()}

    def worth(self, index: WindowIndex, request: WindowRequest) -> Column:
        """Return the nearness of the nearest units, and -inf for all others."""
        worth = np.full(len(index.live), -np.inf)
        for slot, near in self.hits(index, request).items():
            worth[slot] = near
        return worth


def expanded(
    hits: Mapping[str, float],
    neighbours: Callable[[str], Iterable[str]],
    *,
    hops: int,
    decay: float,
    cap: int,
) -> dict[str, float]:
    """Return the worth of *hits* and of the ids linked to them, best first.

    A linked id has the worth of its best path: the worth of the hit at its beginning, times *decay*
    for each hop. Of ids with equal worth, the later id is first.

    Args:
        neighbours: Returns the ids that are linked to an id.
        hops: The most links of a path.
        cap: The most linked ids in the result.
    """
    found = dict(hits)
    edge = set(found)
    for _ in range(hops):
        reached: dict[str, float] = {}
        for one in edge:
            worth = found[one] * decay
            for other in neighbours(one):
                if worth > max(found.get(other, 0.0), reached.get(other, 0.0)):
                    reached[other] = worth
        found |= reached
        edge = set(reached)
    linked = _best_first({one: worth for one, worth in found.items() if one not in hits})
    return dict(_best_first({one: found[one] for one in hits} | dict(linked[:cap])))


def _best_first(worth: Mapping[str, float]) -> list[tuple[str, float]]:
    newest = sorted(worth.items(), reverse=True)
    return sorted(newest, key=lambda pair: -pair[1])


HOPS = 10
"""The greatest number of hops that a window may follow."""


class Linked(Semantic):
    """Shows the hits of `Semantic` and the observations linked to them, in order of time.

    Links have no direction. An observation may contain links (``observation.links``), and `link`
    adds further links. An observation linked to a hit is worth *decay* times as much as the hit,
    and so on for each hop. The newest unit is a hit too. Links to observations that left the window
    are ignored.

    Args:
        top_k: The number of found units besides the newest.
        hops: The most links of a path.
        decay: The factor for each hop.
        linked: The most linked observations that are shown. The best are chosen.
        follow: The kinds of links that are followed. None means all kinds.
        cap, stratum, embedder, settings: See `Semantic`.
    """

    kind: ClassVar[str] = "linked"

    def __init__(  # noqa: PLR0913 - all but two by name
        self,
        cap: int | None = SEMANTIC_CAP,
        stratum: str | Message | None = "",
        *,
        top_k: int = 5,
        hops: int = 1,
        decay: float = 0.5,
        linked: int = 5,
        follow: Sequence[str] | None = None,
        embedder: str | Embedder | None = None,
        **settings: Unpack[Settings],
    ) -> None:
        self._hops = counted(hops, "hops", least=0, most=HOPS)
        self._decay = checked_number(decay, "decay", least=0, most=1)
        self._most_linked = counted(linked, "linked", least=0, most=MOST_FOUND)
        if isinstance(follow, str):
            raise InvalidInput(f"follow must be a list of kinds of links, not {follow!r}")
        kinds = [checked_name(kind, "a kind of links") for kind in follow or ()]
        self._follow = None if follow is None else frozenset(kinds)
        super().__init__(cap, stratum, top_k=top_k, embedder=embedder, **settings)

    def worth(self, index: WindowIndex, request: WindowRequest) -> Column:
        """Return the nearness of the hits, and the worth of the observations linked to them."""
        worth = np.full(len(index.live), -np.inf)
        near = {index.at(slot).id: value for slot, value in self.hits(index, request).items()}
        begin = {item_id: value for item_id, value in near.items() if value > 0}
        begin |= {entry.id: 1.0 for unit in index.last_units(1) for entry in unit}

        def neighbours(item_id: str) -> list[str]:
            links = index.linked(item_id)
            follow = self._follow
            return [one for one, kind in links.items() if follow is None or kind in follow]

        reached = expanded(
            begin, neighbours, hops=self._hops, decay=self._decay, cap=self._most_linked
        )
        for item_id, value in (near | reached).items():
            worth[index.slot(item_id)] = value
        return worth

    # --- links --------------------------------------------------------------------------------

    def link(
        self, first: Stamp | Observation, second: Stamp | Observation, kind: str = RELATED
    ) -> None:
        """Link two observations. An existing link gets the new kind.

        The link is durable on return.

        Args:
            kind: The kind of the link.

        Raises:
            NotFound: The window does not hold both observations.
        """
        checked_name(kind, "the kind of a link")
        self._change("link", _ids(first, second), kind)

    def unlink(self, first: Stamp | Observation, second: Stamp | Observation) -> None:
        """Remove the link of two observations, if there is one.

        Raises:
            NotFound: The window does not hold both observations.
        """
        self._change("unlink", _ids(first, second), None)

    def links(self, one: Stamp | Observation) -> Mapping[Stamp, str]:
        """Return the ids that are linked to an observation, and the kinds of the links.

        Raises:
            NotFound: The window does not hold the observation.
        """
        (item_id,) = _ids(one)
        with self._mirror.snapshot(self._storage.writer()) as index:
            self._check_there(index, item_id)
            return {Stamp(other): kind for other, kind in sorted(index.linked(item_id).items())}

    def _change(self, name: str, ids: tuple[str, ...], kind: str | None) -> None:
        writer = self._storage.writer()
        first, second = ids
        if first == second:
            raise InvalidInput(
                f"observation {first!r} cannot be linked to itself; pass two different observations"
            )
        plan = partial(self._relinked, writer, first, second, kind)
        with self._one_by_one():
            editor = SetEditor(writer, self._ref)
            editor.commit(name, [first, second, kind], lambda _: self._read(writer, plan))

    def _relinked(
        self, writer: Writer, first: str, second: str, kind: str | None, index: WindowIndex
    ) -> PlannedWrite:
        self._check_there(index, first, second)
        pairs = [(index[first], second), (index[second], first)]
        linking = [(one, other) for one, other in pairs if other in one.links]
        if kind is not None and not linking:
            linking = pairs[:1]
        stored = self._stored(writer, [entry for entry, _ in linking])
        changes = [
            Replace(one.set, one.version, _relinked(one.record, entry, other, kind))
            for one, (entry, other) in zip(stored, linking, strict=True)
        ]
        return PlannedWrite(changes, None, retry=True)

    def _check_there(self, index: WindowIndex, *ids: str) -> None:
        for item_id in ids:
            if item_id not in index:
                raise NotFound(f"window {self._name!r} has no observation {item_id!r}")


def _relinked(
    record: ItemRecord, entry: ObservationHeader, other: str, kind: str | None
) -> ItemRecord:
    """Return a record with a link to *other*, or without this link if *kind* is None."""
    links = [str(link) for link in entry.links if link != other]
    kinds = {link: known for link, known in entry.kinds.items() if link != other}
    if kind is not None:
        links.append(other)
        kinds |= {} if kind == RELATED else {other: kind}
    return with_metadata(with_metadata(record, "links", [*links]), "kinds", {**kinds})


def _ids(*given: Stamp | Observation) -> tuple[str, ...]:
    return tuple(str(one.created if isinstance(one, Observation) else Stamp(one)) for one in given)
