"""Origins of items: named sources, lineage, and the results of an undo."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from datetime import datetime
from itertools import islice
from typing import NamedTuple, TypeAlias, cast

from alveus.errors import InvalidInput, NotFound
from alveus.errors.short_repr import short_repr
from alveus.sets.writer import Writer
from alveus.store import Add, ItemChange, ItemRecord, Link, Replace, Scope, SetRef, StoredItem
from alveus.store.items import Item
from alveus.store.records import item_of
from alveus.values.lazy_dataclass import dataclass
from alveus.values.storable import Value, checked_name


def check_sources(sources: object) -> None:
    """Raise unless *sources* are ids.

    Raises:
        InvalidInput: The sources are not a tuple or list of ids.
    """
    if not isinstance(sources, (tuple, list)):
        raise InvalidInput(f"sources must be a tuple of ids of items, not {sources!r}")
    for item_id in cast("Sequence[object]", sources):
        checked_name(item_id, "the id of a source")


def linked(writer: Writer, ref: SetRef, changes: Sequence[ItemChange]) -> list[ItemChange]:
    """Return *changes* with each item linked to the sources that it names by id.

    A replaced item keeps its sources and its links to them.

    A source is looked up in four steps: among the earlier items of *changes*, in the set *ref*, in
    the other sets of the key, and in the sets of knowledge. The first step that finds the id ends
    the search. Live and retired items count.

    Args:
        ref: The set of the call. Items that go to another set, such as a quarantine, are linked as
            if they went to this set.

    Raises:
        NotFound: A source does not exist.
        InvalidInput: An item names itself as a source, or names an id that two sets of the same
            step have.
    """
    if all(isinstance(change, Add) and not change.record.sources for change in changes):
        return list(changes)
    replaced = [change.record.id for change in changes if isinstance(change, Replace)]
    items = filter(None, writer.get(ref, replaced, at=None) if replaced else [])
    sources_by_id = {stored.record.id: stored.record.sources for stored in items}
    new_ids, done = set[str](), list[ItemChange]()
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
    """Return links to the sources of an item. Sources that do not exist are left out."""
    return [
        Link(refs[0], name)
        for name in dict.fromkeys(record.sources)
        if name != record.id and (refs := list(_sets_with(writer, ref, name)))
    ]


def _link(writer: Writer, ref: SetRef, item_id: str, name: str, new_ids: set[str]) -> Link:
    if name == item_id:
        raise InvalidInput(f"item {item_id!r} names itself as a source; pass other ids")
    if name in new_ids:
        return Link(ref, name)
    refs = list(_sets_with(writer, ref, name))
    if not refs:
        raise NotFound(
            f"item {item_id!r} has the source {name!r}, which is not an item of set "
            f"{ref.name!r}, of another set of its key, or of knowledge; add that item first, or "
            "leave out the source"
        )
    if len(refs) > 1:
        names = ", ".join(repr(ref_found.name) for ref_found in refs)
        raise InvalidInput(
            f"item {item_id!r} has the source {name!r}, but the sets {names} all have an item "
            "with that id; give the source another id"
        )
    return Link(refs[0], name)


def _sets_with(writer: Writer, ref: SetRef, name: str) -> Iterator[SetRef]:
    """Yield the sets that have, or had, an item with the id *name*.

    The set *ref* is searched first, then the other sets of its key, then knowledge. The search ends
    after the first of these with a match.
    """
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
"""Characters of a text in a line of a drawn lineage."""

ROWS = 200
"""Lines of a lineage that a notebook shows."""


@dataclass(frozen=True, slots=True)
class CompactionInfo:
    """A finished compaction.

    Attributes:
        id: The id that `MemorySet.undo` takes.
        commit: The number of its commit.
        strategy: The name and settings of its strategy.
        by: Its executor: "sync", "background", "external" or "call".
        retired: Number of retired items, without items that were erased since.
        added: Ids of the items that replace retired items, without items that were erased since.
        erased: Number of retired and added items that were erased since.
        undone: The number of the commit that undid the compaction, or None if it was not undone.
        notes: Further facts, such as the number of summaries by a model.
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
    """The result of an undo.

    Attributes:
        restored: Ids of the restored items.
        missing: Ids of retired items that were erased after the compaction, as far as known.
        removed: Ids of the removed items. They had replaced the restored items.
        erased: Number of items that were erased after the compaction, even if their ids are
            unknown.
    """

    restored: tuple[str, ...]
    missing: tuple[str, ...]
    removed: tuple[str, ...]
    erased: int = 0


@dataclass(frozen=True, slots=True)
class Ancestor:
    """A version of an item in a lineage.

    Attributes:
        version: The number of the version; 0 if the item was erased.
        depth: Number of steps from the requested item, by the shortest path.
        retired: True if the version is not live: it was retired, or replaced by a later version.
        erased: True if the item was erased; nothing else is known about the item then.
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
    """An item and all its ancestors.

    Attributes:
        nodes: The item first, then its ancestors, nearest first.
        edges: Pairs of indexes in `nodes`: (derived item, source).
        cut: True if the farthest nodes are left out, because the lineage has too many nodes.
    """

    nodes: tuple[Ancestor, ...]
    edges: tuple[tuple[int, int], ...]
    cut: bool = False

    @property
    def root(self) -> Ancestor:
        """The requested item."""
        return self.nodes[0]

    @property
    def depth(self) -> int:
        """The number of steps to the farthest node."""
        return max(node.depth for node in self.nodes)

    def sources(self, node: Ancestor) -> tuple[Ancestor, ...]:
        """Return the direct sources of a node."""
        if not isinstance(node, Ancestor) or node not in self.nodes:  # pyright: ignore[reportUnnecessaryIsInstance] - user input
            raise InvalidInput(f"sources() needs a node of this lineage, not {short_repr(node)}")
        at = self.nodes.index(node)
        return tuple(self.nodes[source] for derived, source in self.edges if derived == at)

    def text(self) -> str:
        """Return the lineage drawn as a tree with a line per node.

        Where a node occurs again, its sources are not drawn again.
        """
        lines = [
            f"{drawn}{_line(node)}{' …' if again else ''}" for drawn, node, again in self._rows()
        ]
        return "\n".join([*lines, *(["… and more"] if self.cut else [])])

    def _repr_html_(self) -> str:
        from alveus.values import html

        rows = [*islice(self._rows(), ROWS + 1)]
        more = self.cut or len(rows) > ROWS
        tree = html.drawing(
            (drawn, *_described(node, is_above=again)) for drawn, node, again in rows[:ROWS]
        )
        sources = html.counted(len(self.nodes) - 1, "source")
        title = f"Lineage of {self.root.id or 'an erased item'}: {sources}"
        return html.frame(title, tree, notes=["… and more"] if more else [])

    def _rows(self) -> Iterator[tuple[str, Ancestor, bool]]:
        """Yield each line: prefix, node, and whether an earlier line lists the node's sources."""
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


def _described(node: Ancestor, *, is_above: bool) -> tuple[str, str]:
    """Return the text of a node and a note on it."""
    if node.erased:
        return "(erased)", ""
    about = [node.id, *_marks(node), *(["sources above"] if is_above else [])]
    return node.text or "(no text)", ", ".join(about)


def _marks(node: Ancestor) -> list[str]:
    return [m for m, on in (("compacted", node.compacted), ("retired", node.retired)) if on]


MOST_NODES = 10_000
"""Most items in a lineage."""

MaySee: TypeAlias = Callable[[Scope], bool]
"""A function that returns whether the caller may read items of a key, or of knowledge."""


class ItemOrigins(NamedTuple):
    """The sources of items of a set."""

    writer: Writer
    ref: SetRef
    title: str

    def sources(self, id: str, *, may_see: MaySee | None = None) -> list[Item]:
        """Return the items from which an item was derived, as they were then, oldest first.

        Items that are not live have `retired` set. Erased items are left out.

        Args:
            may_see: Decides which items are returned, by their key or knowledge. By default all.

        Raises:
            NotFound: The set never had an item with this id.
        """
        root = self._last(id)
        rows = [source for _, source in self.writer.sources([root.row])]
        found = [
            replace(item_of(stored), retired=at)
            for stored, at in self.writer.rows(rows)
            if may_see is None or may_see(stored.set.scope)
        ]
        return sorted(found, key=lambda item: (item.time, item.id))

    def lineage(self, id: str, *, may_see: MaySee | None = None) -> Lineage:
        """Return an item and all its ancestors as a graph.

        Args:
            may_see: Decides which items are shown, by their key or knowledge. Other items look like
                erased items, and their sources are left out. By default all items are shown.

        Raises:
            NotFound: The set never had an item with this id.
        """
        root = self._last(id)
        nodes, edges = [_ancestor(root, 0)], list[tuple[int, int]]()
        positions, level, depth, cut = {root.row: 0}, [root.row], 0, False
        while level and not cut:
            depth += 1
            pairs = self.writer.sources(level)
            rows = sorted({source for _, source in pairs if source not in positions})
            cut = len(nodes) + len(rows) > MOST_NODES
            rows = rows[: MOST_NODES - len(nodes)]
            there = {
                stored.row: stored
                for stored, _ in self.writer.rows(rows)
                if may_see is None or may_see(stored.set.scope)
            }
            for row in rows:
                positions[row] = len(nodes)
                stored = there.get(row)
                nodes.append(_erased(depth) if stored is None else _ancestor(stored, depth))
            edges += [(positions[row], positions[s]) for row, s in pairs if s in positions]
            level = rows if may_see is None else [row for row in rows if row in there]
        return Lineage(tuple(nodes), tuple(edges), cut)

    def _last(self, item_id: str) -> StoredItem:
        checked_name(item_id, "an item's id")
        live = self.writer.get(self.ref, [item_id], at=None)[0]
        if live is not None:
            return live
        versions = self.writer.versions(self.ref, item_id)
        if not versions:
            raise NotFound(f"{self.title} has no item {item_id!r}")
        return versions[-1][0]


def _ancestor(stored: StoredItem, depth: int) -> Ancestor:
    record = stored.record
    return Ancestor(
        record.id,
        stored.set.name,
        stored.version,
        record.text,
        depth,
        compacted=record.compacted,
        retired=stored.end_commit is not None,
    )


def _erased(depth: int) -> Ancestor:
    return Ancestor("", "", 0, None, depth, retired=True, erased=True)
