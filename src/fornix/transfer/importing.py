"""Import: what the lines of a file say, committed in chunks, each of them once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, islice

from fornix.errors import DuplicateItem, FornixError, InvalidInput, StaleRun
from fornix.memory.keys import KeyBatch
from fornix.memory.memory import Memory
from fornix.sets import MemorySet, OnExisting
from fornix.store import Batch, Define, Scope, SetRef
from fornix.store.items import Item
from fornix.store.records import item_of
from fornix.transfer.foreign_formats import Target
from fornix.transfer.history_import import Replay
from fornix.transfer.import_entries import (
    AccessedLine,
    CommitLine,
    Entry,
    ItemLine,
    NodeLine,
    SetLine,
    Skipped,
    differs,
)
from fornix.transfer.import_formats import Layout, entries, has_history
from fornix.transfer.import_links import Linking, is_derived
from fornix.transfer.import_source import Source
from fornix.values import wire
from fornix.values.storable import microseconds, moment

CHUNK = 500
"""Lines that one commit holds."""

WINDOW = 8 * CHUNK
"""Items of several keys that are sorted by key before they are written."""

TRIES = 20
"""How often a chunk of exact memory is tried while others write to the same key."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """What an import did.

    Attributes:
        added: Items that are new.
        kept: Items that were there already, and stay as they are.
        updated: Items that were there already, and were replaced.
        sets: Sets that were made, or got another definition.
        values: Values and objects of exact memory that were written.
        values_kept: Those that were there already, and stay.
        expired: Those that expired before they could be written.
        commits: Commits of a history that were done again; `added` are their versions of items.
        commits_kept: Those that had been done before.
        linked: Items that were linked to what they were made of.
        unlinked: Items made of something that is not there, so that their lineage ends, and
            forgetting it does not reach them. They keep its ids as `sources`.
    """

    added: int = 0
    kept: int = 0
    updated: int = 0
    sets: int = 0
    values: int = 0
    values_kept: int = 0
    expired: int = 0
    commits: int = 0
    commits_kept: int = 0
    linked: int = 0
    unlinked: int = 0

    def plus(self, other: Loaded) -> Loaded:
        """Return the sums."""
        names = Loaded.__slots__
        return Loaded(*(getattr(self, name) + getattr(other, name) for name in names))


class Load:
    """An import into one memory; `run` may be repeated, and adds nothing twice."""

    def __init__(self, memory: Memory, *, on_existing: OnExisting = "keep") -> None:
        if on_existing not in ("error", "keep", "update"):
            raise InvalidInput(
                f"on_existing must be 'error', 'keep' or 'update', not {on_existing!r}"
            )
        self._memory = memory
        self._on_existing: OnExisting = on_existing
        self.done = Loaded()
        self._exported = False

    def run(
        self,
        source: Source,
        layout: Layout,
        target: Target | None = None,
        *,
        progress: Callable[[int], None] = lambda _count: None,
    ) -> Loaded:
        """Import a file that was checked; what is counted was written here, and is durable.

        If it fails on the way, the error has a note of how far it came.

        Args:
            progress: Called with the number of entries done since the last call.
        """
        if layout == "fornix" and has_history(source):
            done = Replay(self._memory, source, progress).run()
            self.done = Loaded(added=done.versions, commits=done.commits, commits_kept=done.kept)
            return self.done
        last, begun, derived = 0, False, False
        self._exported = layout == "fornix"
        try:
            for number, chunk in _chunks(entries(source, layout, target), mixed=layout != "fornix"):
                self.done = self.done.plus(self._commit(chunk))
                last, begun = number or last, True
                derived = derived or any(isinstance(e, ItemLine) and is_derived(e) for e in chunk)
                progress(len(chunk))
            if derived and self._exported:
                links = Linking(self._memory).run(source)
                self.done = replace(self.done, linked=links.linked, unlinked=links.unlinked)
        except BaseException as error:
            if begun or not isinstance(error, FornixError):  # what is cut off may be committed
                far = f"up to {source.at(last)} at least" if last else "in part"
                error.add_note(
                    f"{source.name} was imported {far}; "
                    "the same command again goes on from there and adds nothing twice"
                )
            raise
        return self.done

    def _commit(self, chunk: Sequence[Entry]) -> Loaded:
        first = chunk[0]
        if isinstance(first, SetLine):
            return self._define(first)
        if isinstance(first, ItemLine):
            return self._add(first, [e.item for e in chunk if isinstance(e, ItemLine)])
        if isinstance(first, (CommitLine, AccessedLine)):
            raise InvalidInput("a history is imported whole")
        return self._write(first.key, [e for e in chunk if isinstance(e, NodeLine)])

    def _ref(self, line: SetLine | ItemLine) -> SetRef:
        memory = self._memory
        if line.key is None:
            return SetRef(Scope(memory.knowledge.name, None), line.set)
        return SetRef(Scope(memory.space, line.key), line.set)

    def _define(self, line: SetLine) -> Loaded:
        ref, store = self._ref(line), self._memory.store
        info = store.set_info(ref)
        if info is not None and info.definition == line.definition:
            return Loaded()
        change = Define(ref, line.definition, replace=self._on_existing == "update")
        batch = Batch(scope=ref.scope, time=self._memory.engine.clock(), define=[change])
        if info is not None:
            store.commit(batch)
            return Loaded(sets=1)
        # A set is made once, so its name can name the op: of two imports, one made it.
        op = wire.digest(["import", ref.scope.space, ref.scope.key, ref.name], salt=store.salt())
        if store.commit(replace(batch, op=op)).adopted:
            store.commit(batch)  # refused if the other one is otherwise
            return Loaded()
        return Loaded(sets=1)

    # --- items --------------------------------------------------------------------------------

    def _add(self, line: ItemLine, items: Sequence[Item]) -> Loaded:
        """Write what is new, then what is to be replaced; count what was written here."""
        now, given = self._memory.engine.clock(), len(items)
        items = [i for i in items if i.expire_at is None or microseconds(i.expire_at) > now]
        return replace(self._add_living(line, items), expired=given - len(items))

    def _add_living(self, line: ItemLine, items: Sequence[Item]) -> Loaded:
        owner = self._memory.knowledge if line.key is None else self._memory.key(line.key)
        chosen = owner.set(line.set)
        add = chosen.add_back if self._exported else chosen.add_many
        if self._on_existing == "error":
            return Loaded(added=len(add(items)))
        old = self._add_new(chosen, self._ref(line), items)
        changed: list[Item] = []
        if self._on_existing == "update":
            changed = [i for i in items if i.id in old and differs(i, old[i.id])]
        if changed:
            add(changed, on_existing="update")
        added = len(items) - len(old)
        return Loaded(added=added, updated=len(changed), kept=len(old) - len(changed))

    def _add_new(self, chosen: MemorySet, ref: SetRef, items: Sequence[Item]) -> dict[str, Item]:
        """Add the items that are not there, in one commit; return those that were there.

        Another process may import the same file: then one of the two finds an id taken, and looks
        again.
        """
        for left in reversed(range(TRIES)):
            found = self._memory.store.get(ref, [item.id or "" for item in items])
            old = {s.record.id: item_of(s) for s in found if s is not None}
            try:
                new = [item for item in items if item.id not in old]
                (chosen.add_back if self._exported else chosen.add_many)(new)
            except DuplicateItem:
                if not left:
                    raise
            else:
                return old
        raise AssertionError  # the last try returns or raises

    # --- exact memory -------------------------------------------------------------------------

    def _write(self, key: str, nodes: Sequence[NodeLine]) -> Loaded:
        for left in reversed(range(TRIES)):
            try:
                with self._memory.key(key).batch() as batch:
                    return self._put_all(batch, nodes)
            except StaleRun:
                if not left:
                    raise
        raise AssertionError  # the last try returns or raises

    def _put_all(self, batch: KeyBatch, nodes: Sequence[NodeLine]) -> Loaded:
        written = kept = expired = 0
        now = self._memory.engine.clock()
        for line in nodes:
            if line.node.expires is not None and line.node.expires <= now:
                expired += 1
            elif self._put(batch, line):
                written += 1
            else:
                kept += 1
        return Loaded(values=written, values_kept=kept, expired=expired)

    def _put(self, batch: KeyBatch, line: NodeLine) -> bool:
        """Write one node, unless something is there that is to stay; return whether it did."""
        tree, node = batch.short_term, line.node
        if line.path in tree and (node.is_object or self._on_existing != "update"):
            if self._on_existing == "error":
                raise InvalidInput(f"key {line.key!r} has something at {line.path!r} already")
            return False
        expires = None if node.expires is None else moment(node.expires)
        if node.is_object:
            tree.new_object(line.path, expires_at=expires)
        else:
            tree.set(line.path, node.value, expires_at=expires)
        return True


def _chunks(
    found: Iterable[tuple[int, Entry | Skipped]], *, mixed: bool
) -> Iterator[tuple[int, list[Entry]]]:
    """Yield what one commit takes, and up to where all is done with it (0: not known).

    Args:
        mixed: Whether keys may alternate, and their order among each other means nothing.
    """
    lines = ((number, entry) for number, entry in found if not isinstance(entry, Skipped))
    if not mixed:
        for _, like in groupby(lines, key=lambda line: _place(line[1])):
            while chunk := list(islice(like, CHUNK)):
                yield chunk[-1][0], [entry for _, entry in chunk]
        return
    while window := list(islice(lines, WINDOW)):
        places: dict[tuple[object, ...], list[tuple[int, Entry]]] = {}
        for line in window:
            places.setdefault(_place(line[1]), []).append(line)
        pieces = [
            many[at : at + CHUNK] for many in places.values() for at in range(0, len(many), CHUNK)
        ]
        for piece in pieces:
            last = (
                piece[-1] if len(places) == 1 else window[-1] if piece is pieces[-1] else (0, None)
            )
            yield last[0], [entry for _, entry in piece]


def _place(entry: Entry) -> tuple[object, ...]:
    if isinstance(entry, NodeLine):
        return ("node", entry.key)
    if isinstance(entry, (CommitLine, AccessedLine)):
        return ("history",)
    kind = "set" if isinstance(entry, SetLine) else "item"
    return (kind, entry.key, entry.set)
