"""Where items come from: the sources that they name, their lineage, and what an undo gave back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from datetime import datetime
from itertools import islice
from typing import cast

from alveus.errors import InvalidInput, NotFound
from alveus.errors.short_repr import short_repr
from alveus.sets.writer import Writer
from alveus.store import Add, ItemChange, ItemRecord, Link, Replace, SetRef
from alveus.values.lazy_dataclass import dataclass
from alveus.values.storable import Value, checked_name


def check_sources(sources: object) -> None:
    """Refuse what are no ids of sources.

    Raises:
        InvalidInput: They are not a tuple, or a list, of ids.
    """
    if not isinstance(sources, (tuple, list)):
        raise InvalidInput(f"sources must be a tuple of ids of items, not {sources!r}")
    for item_id in cast("Sequence[object]", sources):
        checked_name(item_id, "the id of a source")


def linked(writer: Writer, ref: SetRef, changes: Sequence[ItemChange]) -> list[ItemChange]:
    """Return *changes*, with each item linked to the sources that it names.

    What replaces an item keeps the sources that it had, as it stays linked to them.

    A source is an item of the same set, live or retired, or one that comes before it in *changes*;
    else of the only other set of its key that has one of this id; else of knowledge.

    Args:
        ref: The set that the call adds to; what it puts elsewhere, as a quarantine, is looked at
            as if it went there.

    Raises:
        NotFound: There is no such source.
        InvalidInput: An item names itself, or an id that several sets have.
    """
    if all(isinstance(change, Add) and not change.record.sources for change in changes):
        return list(changes)
    new_ids, done, sources_by_id = (
        set[str](),
        list[ItemChange](),
        _kept_sources(writer, ref, changes),
    )
    for change in changes:
        done.append(change)
        if isinstance(change, (Add, Replace)) and not change.links:
            earlier = sources_by_id.get(change.record.id, ()) if isinstance(change, Replace) else ()
            record, names = change.record, dict.fromkeys((*earlier, *change.record.sources))
            links = [
                _link(writer, ref, record.id, name, new_ids)
                for name in names
                if name not in earlier
            ]
            if tuple(names) != record.sources or links:
                done[-1] = replace(
                    change, record=replace(record, sources=tuple(names)), links=links
                )
        if isinstance(change, Add) and change.set == ref:
            new_ids.add(change.record.id)
    return done


def known_links(writer: Writer, ref: SetRef, record: ItemRecord) -> list[Link]:
    """Return links to those sources of an item that are there; the others are left out."""
    return [
        Link(refs[0], name)
        for name in dict.fromkeys(record.sources)
        if name != record.id and (refs := list(_places(writer, ref, name)))
    ]


def _kept_sources(
    writer: Writer, ref: SetRef, changes: Sequence[ItemChange]
) -> dict[str, tuple[str, ...]]:
    """Return the sources that what is replaced has, and is linked to as far as they are there."""
    ids = [change.record.id for change in changes if isinstance(change, Replace)]
    items = writer.get(ref, ids, at=None) if ids else []
    return {stored.record.id: stored.record.sources for stored in items if stored is not None}


def _link(writer: Writer, ref: SetRef, item_id: str, name: str, new_ids: set[str]) -> Link:
    if name == item_id:
        raise InvalidInput(f"item {item_id!r} names itself among its sources; name others")
    if name in new_ids:
        return Link(ref, name)
    refs = list(_places(writer, ref, name))
    if not refs:
        raise NotFound(
            f"item {item_id!r} names the source {name!r}, which is no item of set {ref.name!r}, of "
            "the other sets of its key, or of knowledge; add that first, or leave it out of sources"
        )
    if len(refs) > 1:
        names = ", ".join(repr(ref_found.name) for ref_found in refs)
        raise InvalidInput(
            f"item {item_id!r} names the source {name!r}, which the sets {names} have; give items "
            "that others are made of ids of their own"
        )
    return Link(refs[0], name)


def _places(writer: Writer, ref: SetRef, name: str) -> Iterator[SetRef]:
    """Yield the nearest sets that have, or had, an item of an id."""
    if _has(writer, ref, name):
        yield ref
        return
    for scope in writer.origins(ref):
        is_found = False
        for other in (SetRef(scope, of) for of in writer.sets(scope)):
            if other != ref and _has(writer, other, name):
                is_found = True
                yield other
        if is_found:
            return


def _has(writer: Writer, ref: SetRef, name: str) -> bool:
    return writer.get(ref, [name], at=None)[0] is not None or bool(writer.versions(ref, name))


SHOWN = 60
"""Characters of a text that a line of a drawn lineage has."""

ROWS = 200
"""Lines that a notebook shows of a lineage."""


@dataclass(frozen=True, slots=True)
class CompactionInfo:
    """A compaction that was done.

    Attributes:
        id: What `MemorySet.undo` takes.
        commit: The number of its commit.
        strategy: What planned it, and its settings.
        by: Who did it: "sync", "background", "external" or "call".
        retired: How many items went, those that were erased since left out.
        added: Ids of the items that stand for some of them, likewise.
        erased: How many of either were erased since.
        undone: The commit that undid it; None: none did.
        notes: What else there is to say, such as how many summaries were made by whom.
    """

    id: int
    commit: int
    time: datetime
    strategy: Mapping[str, Value]
    by: str
    retired: int
    added: tuple[str, ...]
    erased: int = 0
    undone: int | None = None
    notes: Mapping[str, Value] = field(default_factory=dict[str, Value])


@dataclass(frozen=True, slots=True)
class Undone:
    """What an undo did.

    Attributes:
        restored: Ids of the items that are back, as they were.
        missing: Ids that the compaction retired and that were erased since, as far as they are
            known.
        removed: Ids of the items that stood for them, which are gone.
        erased: How many were erased since, known or not.
    """

    restored: tuple[str, ...]
    missing: tuple[str, ...]
    removed: tuple[str, ...]
    erased: int = 0


@dataclass(frozen=True, slots=True)
class Ancestor:
    """A version of an item in a lineage.

    Attributes:
        version: 0 if it was erased.
        depth: Steps from the item that was asked about, by the shortest way.
        retired: It is not live: it was retired, or has a later version.
        erased: It was erased; nothing is known of it any more.
    """

    id: str
    set_name: str
    version: int
    text: str | None
    depth: int
    compacted: bool = False
    retired: bool = False
    erased: bool = False


@dataclass(frozen=True, slots=True)
class Lineage:
    """An item, and all that it was derived from, to any depth.

    Attributes:
        nodes: The item itself first, then what is nearer before what is farther.
        edges: Pairs of indexes in `nodes`: (what was derived, what from).
        cut: There is more than so many nodes; the farthest are left out.
    """

    nodes: tuple[Ancestor, ...]
    edges: tuple[tuple[int, int], ...]
    cut: bool = False

    @property
    def root(self) -> Ancestor:
        """The item that was asked about."""
        return self.nodes[0]

    @property
    def depth(self) -> int:
        """The steps to the farthest node."""
        return max(node.depth for node in self.nodes)

    def sources(self, node: Ancestor) -> tuple[Ancestor, ...]:
        """Return what a node was derived from."""
        if not isinstance(node, Ancestor) or node not in self.nodes:  # pyright: ignore[reportUnnecessaryIsInstance] - user input
            raise InvalidInput(f"sources takes a node of this lineage, not {short_repr(node)}")
        at = self.nodes.index(node)
        return tuple(self.nodes[source] for derived, source in self.edges if derived == at)

    def text(self) -> str:
        """Return it drawn as a tree, a line per node; what was drawn before is only named."""
        lines = [
            f"{drawn}{_line(node)}{' …' if again else ''}" for drawn, node, again in self._rows()
        ]
        return "\n".join([*lines, *(["… and more"] if self.cut else [])])

    def _repr_html_(self) -> str:
        from alveus.values import html

        rows = [*islice(self._rows(), ROWS + 1)]
        more = self.cut or len(rows) > ROWS
        tree = html.drawing(
            (drawn, *_told(node, is_above=again)) for drawn, node, again in rows[:ROWS]
        )
        sources = html.counted(len(self.nodes) - 1, "source")
        title = f"Lineage of {self.root.id or 'an erased item'}: {sources}"
        return html.frame(title, tree, notes=["… and more"] if more else [])

    def _rows(self) -> Iterator[tuple[str, Ancestor, bool]]:
        """Yield for each line: what is drawn before it, its node, whether its sources are above."""
        below: dict[int, list[int]] = {}
        for derived, source in self.edges:
            below.setdefault(derived, []).append(source)
        drawn = set[int]()
        todo: list[tuple[int, str, str]] = [(0, "", "")]
        while todo:
            at, first, rest = todo.pop()
            again = at in drawn and at in below
            yield first, self.nodes[at], again
            drawn.add(at)
            children = [] if again else below.get(at, [])
            for number, child in reversed(list(enumerate(children))):
                last = number == len(children) - 1
                todo.append(
                    (
                        child,
                        f"{rest}{'└─ ' if last else '├─ '}",
                        f"{rest}{'   ' if last else '│  '}",
                    )
                )


def _line(node: Ancestor) -> str:
    if node.erased:
        return "(erased)"
    said = " ".join((node.text or "").split())
    said = said if len(said) <= SHOWN else f"{said[:SHOWN]}…"
    marked = f"  [{', '.join(marks)}]" if (marks := _marks(node)) else ""
    return f"{node.id}  {said}{marked}"


def _told(node: Ancestor, *, is_above: bool) -> tuple[str, str]:
    """Return what a node says, and what is to be said about it."""
    if node.erased:
        return "(erased)", ""
    about = [node.id, *_marks(node), *(["sources above"] if is_above else [])]
    return node.text or "(no text)", ", ".join(about)


def _marks(node: Ancestor) -> list[str]:
    return [m for m, on in (("compacted", node.compacted), ("retired", node.retired)) if on]
