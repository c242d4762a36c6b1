"""Import: the whole file is checked first, then it is committed in chunks, each of them once."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from itertools import groupby, islice
from pathlib import Path
from typing import Literal, TypeAlias

from alveus.errors import AlveusError, Conflict, DuplicateItem, InvalidInput, StaleRun
from alveus.facts.learning_records import LearningRecords
from alveus.memory.keys import KeyBatch
from alveus.memory.memory import Memory
from alveus.sets import OnExisting
from alveus.sets.commits import CommitWriter
from alveus.store import Batch, Define, ItemChange, Past, Scope, SetRef
from alveus.store.items import Item
from alveus.store.records import item_of
from alveus.transfer.export import scope_of
from alveus.transfer.foreign_formats import Skipped, Target
from alveus.transfer.history import Replay
from alveus.transfer.import_formats import (
    Entry,
    Layout,
    LeftOut,
    entries,
    has_history,
    identity,
    layout_of,
)
from alveus.transfer.import_source import Invalid, Source
from alveus.transfer.langgraph import is_sqlite, langgraph_file
from alveus.transfer.lines import (
    CommitLine,
    ItemBegun,
    ItemLine,
    ItemLocation,
    LearntLine,
    NodeLine,
    SetLine,
    differs,
)
from alveus.values import wire
from alveus.values.lazy_dataclass import dataclass
from alveus.values.retries import TRIES, call_with_retries
from alveus.values.storable import choice, microseconds, moment

CHUNK = 500
"""Lines of one commit, and entries between two progress reports."""

WINDOW = 8 * CHUNK
"""Entries of several keys that are read and sorted by key before they are written."""

SAMPLE = 3
"""Items in the sample of a survey."""

NAMED = 1_000
"""Most unusable records that a survey names. It counts all."""

OnInvalid: TypeAlias = Literal["skip", "error"]
"""The treatment of an unusable record: leave out and name it, or refuse the file."""


@contextmanager
def opened(path: str | os.PathLike[str]) -> Generator[Source]:
    """Open a file to import: JSON, or the SQLite file of a LangGraph store.

    This process must not have that SQLite file open: closing a file drops the process's locks on
    it.

    Raises:
        InvalidInput: The path is a folder or a pipe, or an SQLite file of another program.
        OSError: The file cannot be opened.
    """
    path = Path(path)
    if path.is_dir():
        raise InvalidInput(f"{path} is a folder; pass a file in the folder")
    if path.exists() and not path.is_file():
        raise InvalidInput(f"{path} is not a regular file; pipe its contents in (import -)")
    if is_sqlite(path):
        with langgraph_file(path) as file:
            yield file
        return
    with path.open("rb") as handle:
        yield Source(str(path), handle)


@dataclass(frozen=True, slots=True)
class Survey:
    """The contents of a file.

    Attributes:
        layout: The format of the file.
        entries: The number of entries to write: items, sets, nodes of exact memory.
        items: The number of items (in a history: versions) by key and set. The key is None for
            knowledge.
        skipped: The number of left-out parts, by reason.
        sample: The first items, each with its key and set.
        invalid: The number of unusable records. Each message of a conversation counts as one.
        problems: File, line and reason of the first `NAMED` unusable records.
        replaced: The number of characters that were not text, and became U+FFFD.
    """

    layout: Layout
    entries: int
    items: Mapping[tuple[str | None, str], int]
    skipped: Mapping[str, int]
    sample: tuple[ItemLine, ...]
    invalid: int = 0
    problems: tuple[str, ...] = ()
    replaced: int = 0

    @property
    def keys(self) -> int:
        """The number of keys with items."""
        return len({key for key, _ in self.items if key is not None})


def survey(
    source: Source,
    layout: Layout,
    target: Target | None,
    *,
    on_invalid: OnInvalid = "error",
    progress: Callable[[int], None] = lambda _count: None,
) -> Survey:
    """Read a whole file and return its contents. Nothing is written.

    Args:
        on_invalid: "error" refuses a file with an unusable record, or with two records of one item
            or field. "skip" counts and names such records. A file without any usable record is
            refused, as is a history with an invalid line.
        progress: Called with the number of entries read since the last call.

    Raises:
        InvalidInput: The file cannot be read, or is refused.
    """
    items: Counter[tuple[str | None, str]] = Counter()
    skipped: Counter[str] = Counter()
    sample: list[ItemLine] = []
    errors: list[InvalidInput] = []
    count = invalid = replaced = 0
    for _, entry in entries(source, layout, target):
        if isinstance(entry, Skipped):
            skipped[entry.reason] += 1
            continue
        if isinstance(entry, Invalid):
            if on_invalid == "error":
                raise entry.error
            invalid += 1
            errors += [entry.error][: NAMED - len(errors)]
            continue
        count += 1
        replaced += entry.replaced if isinstance(entry, ItemLine | NodeLine) else 0
        lines = _items(entry)
        items.update((line.key, line.set) for line in lines)
        sample += lines[: SAMPLE - len(sample)]
        if not count % CHUNK:
            progress(CHUNK)
    if errors and not count:
        raise errors[0]
    problems = tuple(map(str, errors))
    return Survey(layout, count, items, skipped, tuple(sample), invalid, problems, replaced)


def _items(entry: Entry) -> list[ItemLine]:
    if isinstance(entry, CommitLine):
        return [part.line for part in entry.parts if isinstance(part, ItemBegun)]
    return [entry] if isinstance(entry, ItemLine) else []


def survey_file(
    path: str | os.PathLike[str],
    *,
    layout: Layout | Literal["auto"] = "auto",
    target: Target | None = None,
    on_invalid: OnInvalid = "skip",
) -> Survey:
    """Return the contents of a file that `import_file` would import. Nothing is written.

    Raises:
        InvalidInput: The format is not recognised, or `survey` refuses the file.
    """
    with opened(path) as source:
        chosen = layout_of(source) if layout == "auto" else layout
        return survey(source, chosen, target, on_invalid=on_invalid)


@dataclass(frozen=True, slots=True)
class Loaded:
    """The counts of an import.

    Attributes:
        added: New items.
        kept: Existing items that stay unchanged.
        updated: Existing items that were replaced.
        sets: Sets that were made, or got another definition.
        values: Values and objects of exact memory that were written.
        values_kept: Existing values and objects that stay unchanged.
        expired: Items, values and objects that expired before the write.
        commits: Commits of a history that were repeated. `added` counts their versions of items.
        commits_kept: Commits of a history that an earlier import had repeated.
        linked: Items that were linked to their sources.
        unlinked: Items with a missing source. They keep the id of the source in `sources`, but
            their lineage ends there, and forgetting the source does not reach them.
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
        """Return the sums of both counts."""
        names = [field.name for field in fields(Loaded)]
        return Loaded(*(getattr(self, name) + getattr(other, name) for name in names))


@dataclass(frozen=True, slots=True)
class Imported:
    """The contents of a file, and the counts of its import."""

    survey: Survey
    done: Loaded


def import_file(
    memory: Memory,
    path: str | os.PathLike[str],
    *,
    layout: Layout | Literal["auto"] = "auto",
    target: Target | None = None,
    on_existing: OnExisting = "keep",
    on_invalid: OnInvalid = "skip",
) -> Imported:
    """Import a file; see docs/import-export.md.

    The whole file is read and checked before the first write. It is written in chunks, each of them
    one commit. A repeated call adds nothing twice.

    Args:
        target: The key and set of the items. Required, except for "alveus", and for "items" and
            "mem0" whose records name their keys.
        on_invalid: The treatment of an unusable record; see `survey`.

    Raises:
        InvalidInput: The format is not recognised, or `survey` refuses the file.
    """
    with opened(path) as source:
        if layout == "auto":
            layout = layout_of(source)
        contents = survey(source, layout, target, on_invalid=on_invalid)
        load = Load(memory, on_existing=on_existing, on_invalid=on_invalid)
        done = load.run(source, layout, target)
        return Imported(contents, done)


class Load:
    """An import into one memory. A repeated `run` adds nothing twice."""

    def __init__(
        self, memory: Memory, *, on_existing: OnExisting = "keep", on_invalid: OnInvalid = "error"
    ) -> None:
        self._memory = memory
        self._on_invalid = choice(on_invalid, "on_invalid", "skip", "error")
        self._on_existing = choice(on_existing, "on_existing", "error", "keep", "update")
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
        """Import a file that `survey` has checked. Return the counts of this call.

        Everything that is counted is durable. If the import fails midway, a note of the error names
        the progress.

        Args:
            progress: Called with the number of entries done since the last call.
        """
        if layout == "alveus" and has_history(source):
            replay = Replay(self._memory, source, progress)
            kept = replay.run()
            self.done = Loaded(added=replay.versions, commits=replay.commits, commits_kept=kept)
            return self.done
        last, begun, has_derived = 0, False, False
        self._exported = layout == "alveus"
        try:
            found = self._usable(entries(source, layout, target))
            for number, chunk in _chunks(found, mixed=layout != "alveus"):
                self.done = self.done.plus(self._commit(chunk))
                last, begun = number or last, True
                has_derived |= any(isinstance(e, ItemLine) and _has_sources(e) for e in chunk)
                progress(len(chunk))
            if has_derived and self._exported:
                self._link_sources(source)
        except BaseException as error:
            if begun or not isinstance(error, AlveusError):  # an interrupted commit may be durable
                extent = f"up to {source.at(last)} at least" if last else "in part"
                error.add_note(
                    f"{source.name} was imported {extent}; repeat the same command to continue, "
                    "which adds nothing twice"
                )
            raise
        return self.done

    def _usable(self, found: Iterable[tuple[int, Entry | LeftOut]]) -> Iterator[tuple[int, Entry]]:
        """Yield the entries that can be written.

        Raises:
            InvalidInput: A record is unusable, and `on_invalid` is "error".
        """
        for number, entry in found:
            if isinstance(entry, Invalid):
                if self._on_invalid == "error":
                    raise entry.error
            elif not isinstance(entry, Skipped):
                yield number, entry

    def _commit(self, chunk: Sequence[Entry]) -> Loaded:
        match chunk[0]:
            case SetLine() as line:
                return self.define(line)
            case ItemLine() as line:
                return self._add(line, [e.item for e in chunk if isinstance(e, ItemLine)])
            case LearntLine() as line:
                return self._mark(line, [e for e in chunk if isinstance(e, LearntLine)])
            case NodeLine(key=key):
                nodes = [e for e in chunk if isinstance(e, NodeLine)]
                return call_with_retries(lambda: self._write(key, nodes), on=StaleRun)
            case _:
                raise InvalidInput("a history must be imported completely; leave out the selection")

    def _ref(self, line: SetLine | ItemLine | LearntLine | ItemLocation) -> SetRef:
        return SetRef(scope_of(self._memory, line.key), line.set)

    def define(self, line: SetLine) -> Loaded:
        """Make a set, or check the definition of an existing set. Return the counts."""
        ref, store = self._ref(line), self._memory.store
        info = store.set_info(ref)
        if info is not None and info.definition == line.definition:
            return Loaded()
        change = Define(ref, line.definition, replace=self._on_existing == "update")
        batch = Batch(scope=ref.scope, time=self._memory.engine.clock(), define=[change])
        if info is not None:
            store.commit(batch)
            return Loaded(sets=1)
        # The op is named after the set: of two concurrent imports, one makes the set.
        op = wire.digest(["import", ref.scope.space, ref.scope.key, ref.name], salt=store.salt())
        if store.commit(replace(batch, op=op)).adopted:
            store.commit(batch)  # refused if the other import made another definition
            return Loaded()
        return Loaded(sets=1)

    # --- items --------------------------------------------------------------------------------

    def _add(self, line: ItemLine, items: Sequence[Item]) -> Loaded:
        """Write new items, then changed items. Return the counts."""
        now, total = self._memory.engine.clock(), len(items)
        items = [i for i in items if i.expire_at is None or microseconds(i.expire_at) > now]
        expired = total - len(items)
        owner = self._memory.knowledge if line.key is None else self._memory.key(line.key)
        target_set, ref = owner.set(line.set), self._ref(line)
        add = target_set.add_back if self._exported else target_set.add_many
        if self._on_existing == "error":
            return Loaded(added=len(add(items)), expired=expired)
        # Another process may import the same file; one of the two finds an id in use.
        existing = call_with_retries(lambda: self._add_new(add, ref, items), on=DuplicateItem)
        changed: list[Item] = []
        if self._on_existing == "update":
            changed = [i for i in items if i.id in existing and differs(i, existing[i.id])]
        if changed:
            add(changed, on_existing="update")
        return Loaded(
            added=len(items) - len(existing),
            updated=len(changed),
            kept=len(existing) - len(changed),
            expired=expired,
        )

    def _add_new(
        self, add: Callable[[Sequence[Item]], object], ref: SetRef, items: Sequence[Item]
    ) -> dict[str, Item]:
        """Add the new items in one commit. Return the existing items by id."""
        stored = self._memory.store.get(ref, [item.id or "" for item in items])
        existing = {s.record.id: item_of(s) for s in stored if s is not None}
        add([item for item in items if item.id not in existing])
        return existing

    def _mark(self, line: LearntLine, lines: Sequence[LearntLine]) -> Loaded:
        """Mark messages as learnt, so that no later call learns from them again."""
        ref = self._ref(line)
        writer = CommitWriter(self._memory.engine, ref.scope)
        learnt = {item_id for one in lines for item_id in one.ids}
        failed = {item_id: count for one in lines for item_id, count in one.set_aside.items()}
        LearningRecords(writer, ref.scope).mark(ref, learnt, failed)
        return Loaded()

    # --- exact memory -------------------------------------------------------------------------

    def _write(self, key: str, nodes: Sequence[NodeLine]) -> Loaded:
        written = expired = 0
        now = self._memory.engine.clock()
        with self._memory.key(key).batch() as batch:
            for line in nodes:
                if line.node.expires is not None and line.node.expires <= now:
                    expired += 1
                else:
                    written += self._put(batch, line)
        kept = len(nodes) - written - expired
        return Loaded(values=written, values_kept=kept, expired=expired)

    def _put(self, batch: KeyBatch, line: NodeLine) -> bool:
        """Write a node, unless an existing node has to stay. Return whether it was written."""
        tree, node = batch.short_term, line.node
        if line.path in tree and (node.is_object or self._on_existing != "update"):
            if self._on_existing == "error":
                raise InvalidInput(f"key {line.key!r} already has a value at {line.path!r}")
            return False
        expires = None if node.expires is None else moment(node.expires)
        if node.is_object:
            tree.new_object(line.path, expires_at=expires)
        else:
            tree.set(line.path, node.value, expires_at=expires)
        return True

    # --- links to sources ---------------------------------------------------------------------

    def _link_sources(self, source: Source) -> None:
        """Link the items of an export that was imported whole to their sources.

        A repeated call links nothing twice. An item is linked if the stored item equals the item of
        the file.

        Raises:
            Conflict: Other writers changed the same items again and again.
        """
        lines = (entry for _, entry in entries(source, "alveus", None))
        derived = (line for line in lines if isinstance(line, ItemLine) and _has_sources(line))
        for key, alike in groupby(derived, key=lambda line: line.key):
            while chunk := list(islice(alike, CHUNK)):
                self.done = self.done.plus(self._link(scope_of(self._memory, key), chunk))

    def _link(self, scope: Scope, lines: Sequence[ItemLine]) -> Loaded:
        linked: set[int] = set()
        for _ in range(TRIES):
            missing, unlinked = self._missing(lines)
            if not missing:
                return Loaded(linked=len(linked), unlinked=unlinked)
            linked.update(row for links in missing.values() for row, _ in links)
            changes: list[ItemChange] = [Past(ref, links=links) for ref, links in missing.items()]
            now = self._memory.engine.clock()
            self._memory.store.commit(Batch(scope=scope, time=now, items=changes))
        raise Conflict(
            f"other writers changed items of {scope.key or scope.space!r} during each attempt "
            "to link them to their sources; import again"
        )

    def _missing(
        self, lines: Sequence[ItemLine]
    ) -> tuple[dict[SetRef, list[tuple[int, int]]], int]:
        """Return the missing links by set, and the number of items with a missing source."""
        store = self._memory.store
        missing: dict[SetRef, list[tuple[int, int]]] = {}
        unlinked = 0
        for line in lines:
            ref = self._ref(line)
            (item,) = store.get(ref, [line.item.id or ""])
            if item is None or differs(line.item, item_of(item)):
                continue
            locations = _source_locations(line)
            sources = [store.get(self._ref(one), [one.id])[0] for one in locations]
            linked_rows = [row for _, row in store.source_links([item.row])]
            linked = {version.first for version in store.items_by_row(linked_rows)}
            links = [(item.row, s.row) for s in sources if s is not None and s.first not in linked]
            if links:
                missing.setdefault(ref, []).extend(links)
            unlinked += None in sources or len(locations) < len(set(line.item.sources))
        return missing, unlinked


def _group(entry: Entry) -> tuple[object, ...]:
    """Return a value that is equal for entries that can be written in one commit."""
    return identity(entry) if isinstance(entry, SetLine) else identity(entry)[:-1]


def _chunks(
    lines: Iterator[tuple[int, Entry]], *, mixed: bool
) -> Iterator[tuple[int, list[Entry]]]:
    """Yield the entries of each commit, after the number of a record.

    Once the entries are committed, all records up to this number are done. The number is 0 if it is
    unknown.

    Args:
        mixed: True if keys may alternate, in any order.
    """
    if not mixed:
        for _, alike in groupby(lines, key=lambda line: _group(line[1])):
            while chunk := list(islice(alike, CHUNK)):
                yield chunk[-1][0], [entry for _, entry in chunk]
        return
    while window := list(islice(lines, WINDOW)):
        groups: dict[tuple[object, ...], list[tuple[int, Entry]]] = {}
        for line in window:
            groups.setdefault(_group(line[1]), []).append(line)
        chunks = [
            group[start : start + CHUNK]
            for group in groups.values()
            for start in range(0, len(group), CHUNK)
        ]
        for chunk in chunks:
            last = chunk[-1][0] if len(groups) == 1 else 0
            if chunk is chunks[-1]:
                last = window[-1][0]
            yield last, [entry for _, entry in chunk]


def _has_sources(line: ItemLine) -> bool:
    return bool(line.linked or line.item.sources)


def _source_locations(line: ItemLine) -> list[ItemLocation]:
    """Return the sources of an item, except the item itself.

    These are the items in `linked`, or, without it, the items of the same set named in `sources`.
    """
    ids = dict.fromkeys(line.item.sources)
    locations = line.linked
    if locations is None:
        locations = [ItemLocation(line.key, line.set, source) for source in ids]
    itself = ItemLocation(line.key, line.set, line.item.id or "")
    return [location for location in locations if location != itself]
