"""The window that follows links: what was found, and what belongs to it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import ClassVar, Unpack

import numpy as np

from alveus.agents.windows.observation import Observation, Stamp
from alveus.agents.windows.observation_items import RELATED, ObservationHeader, with_metadata
from alveus.agents.windows.semantic import MOST_FOUND, SEMANTIC_CAP, Semantic
from alveus.agents.windows.window import Settings, WindowRequest
from alveus.agents.windows.window_contents import Column, WindowIndex
from alveus.embed import Embedder
from alveus.errors import InvalidInput, NotFound
from alveus.sets.set_editor import SetEditor
from alveus.sets.writer import PlannedWrite, Writer
from alveus.store import ItemRecord, Replace
from alveus.text.messages import Message
from alveus.values.storable import checked_name, checked_number, counted


def expanded(
    hits: Mapping[str, float],
    neighbours: Callable[[str], Iterable[str]],
    *,
    hops: int,
    decay: float,
    cap: int,
) -> dict[str, float]:
    """Return *hits* with what is linked to them, and what each is worth, best first.

    What is linked is worth the best of the ways to it: what the hit at its beginning is worth,
    times *decay* for each hop. Of equals the later id comes first. Circles end where a way is no
    better than one before.

    Args:
        neighbours: Returns the ids that are linked to one.
        hops: How far away.
        cap: The most that are returned besides *hits*, the best.
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
"""The most that links are followed."""


class Linked(Semantic):
    """Shows what `Semantic` finds, and what is linked to that, in order of time.

    A link goes both ways. An observation brings some (``observation.links``), `link` adds others.
    What is linked to a hit is worth *decay* times as much, and so on for each hop. The newest unit
    is a hit as well. Links to what is not held lead nowhere.

    Args:
        cap: How many units it holds; None: any number.
        stratum: What each context begins with; "": nothing.
        top_k: How many units it finds besides the newest.
        hops: How far links are followed.
        decay: What a hop leaves of what a hit is worth.
        linked: How many observations it shows for their links, the best.
        follow: The kinds of links that are followed; None: all.
        embedder: See `Semantic`.
        settings: What every window takes but for profile; see `Window`.
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
            raise InvalidInput(f"follow is a list of kinds of links, not {follow!r}")
        kinds = [checked_name(kind, "a kind of links") for kind in follow or ()]
        self._follow = None if follow is None else frozenset(kinds)
        super().__init__(cap, stratum, top_k=top_k, embedder=embedder, **settings)

    def worth(self, index: WindowIndex, request: WindowRequest) -> Column:
        """Return how near hits are, and what is left of that for what is linked to them."""
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
        """Have two observations belong together; linked before, they change how.

        Durable when it returns.

        Args:
            kind: How they belong together.

        Raises:
            NotFound: The window does not hold both.
        """
        checked_name(kind, "the kind of a link")
        self._change("link", _ids(first, second), kind)

    def unlink(self, first: Stamp | Observation, second: Stamp | Observation) -> None:
        """Have two observations not belong together any more; not linked, they stay so.

        Raises:
            NotFound: The window does not hold both.
        """
        self._change("unlink", _ids(first, second), None)

    def links(self, one: Stamp | Observation) -> Mapping[Stamp, str]:
        """Return what belongs to an observation that is held, by its id, and how.

        Raises:
            NotFound: The window does not hold it.
        """
        (item_id,) = _ids(one)
        with self._mirror.snapshot(self._storage.writer()) as index:
            self._check_there(index, item_id)
            return {Stamp(other): kind for other, kind in sorted(index.linked(item_id).items())}

    def _change(self, name: str, ids: tuple[str, ...], kind: str | None) -> None:
        writer = self._storage.writer()
        first, second = ids
        if first == second:
            raise InvalidInput(f"an observation cannot be linked to itself: {first!r}")
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
                raise NotFound(f"window {self._name!r} holds no observation {item_id!r}")


def _relinked(
    record: ItemRecord, entry: ObservationHeader, other: str, kind: str | None
) -> ItemRecord:
    """Return a record that links to another observation, or, with None, does not."""
    links = [str(link) for link in entry.links if link != other]
    kinds = {link: known for link, known in entry.kinds.items() if link != other}
    if kind is not None:
        links.append(other)
        kinds |= {} if kind == RELATED else {other: kind}
    return with_metadata(with_metadata(record, "links", [*links]), "kinds", {**kinds})


def _ids(*given: Stamp | Observation) -> tuple[str, ...]:
    return tuple(str(one.created if isinstance(one, Observation) else Stamp(one)) for one in given)
