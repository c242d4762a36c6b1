"""The memory of one key, and knowledge: the objects of `Memory.key` and `Memory.knowledge`."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta, tzinfo
from typing import Literal, NamedTuple, Self, TypeVar, Unpack, cast, overload

from alveus import conversation as conversations
from alveus import facts as fact_rooms
from alveus.errors import (
    DuplicateItem,
    HistoryPruned,
    InvalidInput,
    SetMoved,
    StaleItem,
    StaleRun,
    StoreReadOnly,
    Unusable,
)
from alveus.llm import MEMORY_DEFAULT, ChatModel, RerankerChoice
from alveus.memory.maintenance import Difference, difference, set_names
from alveus.memory.prompt import Prompts, Sources
from alveus.search.projection import Colouring, MapPoints
from alveus.search.query import search_options
from alveus.search.signals import Signals
from alveus.search.superseded import Superseded
from alveus.sets import KnowledgeSet, MemorySet, refuse_upkeep
from alveus.sets.admission import Quarantine, Rule, plans
from alveus.sets.batch import OUTSIDE_BLOCK, SECOND_BLOCK, Draft
from alveus.sets.commits import CommitWriter, commit_draft
from alveus.sets.compaction import Given
from alveus.sets.forgetting import HowForgotten, Receipt, Scrub, forget_items, forget_key
from alveus.sets.set_editor import owner_text
from alveus.sets.set_options import SetOptions, stored_options
from alveus.sets.set_reads import GetsItems
from alveus.sets.writer import Engine, Where, Writer
from alveus.state import (
    Backoff,
    BatchTree,
    CommittedTree,
    ExactMemory,
    MemoryObject,
    SetValue,
    Snapshot,
    Ttl,
    root_of,
)
from alveus.store import Commit, Scope, SetRef, TreeDelta, parts_of
from alveus.store.items import Hits
from alveus.store.records import id_of
from alveus.store.scope import set_name
from alveus.store.times import AsOf, Moment, ValidAt, check_tree
from alveus.values import wire
from alveus.values.keywords import (
    check_keywords,
    delegated,
    hint_positionals,
    hints_at,
    suggest_names_in,
    suggest_names_in_part,
)
from alveus.values.lazy import lazy_attribute
from alveus.values.markup import Figure, Html
from alveus.values.storable import Value, checked_function, checked_prefix, choice, flag
from alveus.values.times import Zone

Result = TypeVar("Result")

DEFAULT_SET = "default"

SHOWN = 20
"""The most sets, and the most names of an exact tree, that a notebook shows."""


def _shown(value: object) -> str:
    """Return a value of an exact tree as one line; of an object, show the names of its fields."""
    from alveus.values import html

    if not isinstance(value, MemoryObject):
        return html.one_line(wire.encode(cast("Value", value)))
    names = value.names(limit=SHOWN + 1)
    more = ", …" if len(names) > SHOWN else ""
    return html.one_line(f"{{{', '.join(names[:SHOWN])}{more}}}")


class Inside(NamedTuple):
    """The parts of an `OwnerSets`: the memory's engine, the writer of changes, and the scope."""

    engine: Engine
    writer: Writer
    scope: Scope


@suggest_names_in_part
class OwnerSets:
    """The named sets of a key or a knowledge, and the calls on its set "default"."""

    _make: type[MemorySet] = MemorySet

    def __init__(self, engine: Engine, writer: Writer, scope: Scope) -> None:
        self._engine, self._writer, self._scope = engine, writer, scope

    def _repr_html_(self) -> str:
        from alveus.values import html

        return html.drawn(self._html, repr(self))

    def _html(self) -> Html:
        from alveus.values import html

        return html.frame(self._title(), *self._tables())

    def _title(self) -> str:
        owner = owner_text(self._scope)
        return f"{owner[:1].upper()}{owner[1:]}"

    def _tables(self) -> builtins.list[Html]:
        """Return the tables that a notebook shows below the title."""
        from alveus.values import html

        counts = self.sets(counts=True)
        more = len(counts) - SHOWN
        rows = [*counts.items()][:SHOWN]
        notes = [html.soft(f"… and {html.counted(more, 'more set')}")] if more > 0 else []
        return [html.table(["Set", "Items"], rows), *notes] if rows else [html.soft("no sets yet")]

    @property
    def inside(self) -> Inside:
        """The parts of this object, for packages of alveus that keep data in the sets."""
        return Inside(self._engine, self._writer, self._scope)

    @lazy_attribute
    def _default_set(self) -> MemorySet:
        return self._set(DEFAULT_SET)

    def _set(self, name: str, **options: object) -> MemorySet:
        ref = SetRef(self._scope, set_name(name))
        return self._make(self._writer, ref, options)

    @overload
    def sets(self, *, prefix: str = "", counts: Literal[False] = False) -> builtins.list[str]: ...
    @overload
    def sets(self, *, prefix: str = "", counts: Literal[True]) -> dict[str, int]: ...

    def sets(
        self, *, prefix: str = "", counts: bool = False
    ) -> builtins.list[str] | dict[str, int]:
        """Return the names of the sets that have had an item, sorted.

        Args:
            prefix: Return only names with this prefix.
            counts: Whether to return a dict from each name to the set's number of items. This is
                fast, because each set stores its number of items.
        """
        begin = checked_prefix(prefix)
        if not flag(counts, "counts"):
            return [name for name in self._writer.sets(self._scope) if name.startswith(begin)]
        items = self._writer.counts(self._scope)
        return {name: count for name, count in items.items() if name.startswith(begin)}

    @property
    def quarantine(self) -> Quarantine:
        """The items that admission rules have held back from any of these sets."""
        return Quarantine(self._writer, self._scope)

    def search(  # noqa: PLR0913 - as a set's search
        self,
        query: str,
        *,
        sets: Sequence[str] | None = None,
        prefix: str | None = None,
        limit: int = 10,
        where: Where | None = None,
        as_of: AsOf | None = None,
        signals: Signals | None = None,
        valid_at: ValidAt | None = None,
        min_score: float | None = None,
        reranker: RerankerChoice = MEMORY_DEFAULT,
        superseded: Superseded = "fold",
    ) -> Hits:
        """Search several sets together, by default all of them; see `MemorySet.search`.

        Args:
            sets: The names of the sets to search.
            prefix: Search the sets whose names have this prefix. Pass either *sets* or *prefix*.
        """
        at = None if as_of is None else self._writer.moment_of(as_of)
        options = search_options(
            limit,
            where,
            at,
            signals,
            valid_at,
            min_score=min_score,
            reranker=reranker,
            superseded=superseded,
        )
        return self._writer.search(self._named(sets, prefix), query, options)

    def points(
        self,
        *,
        sets: Sequence[str] | None = None,
        where: Where | None = None,
        limit: int | None = None,
    ) -> MapPoints:
        """Return the items of *sets*, by default all, as points; see `MemorySet.points`."""
        return self._writer.points(self._named(sets), where=where, limit=limit)

    def map(
        self,
        *,
        sets: Sequence[str] | None = None,
        colour: Colouring = "set",
        where: Where | None = None,
        limit: int | None = None,
    ) -> Figure:
        """Return a picture of the points; see `MemorySet.map`."""
        return self.points(sets=sets, where=where, limit=limit).plot(colour=colour)

    def _named(
        self, sets: Sequence[str] | None, prefix: str | None = None
    ) -> Scope | builtins.list[SetRef]:
        """Return the sets with these names or this prefix; if both are None, return the scope."""
        if prefix is not None:
            if sets is not None:
                raise InvalidInput("search() takes sets or prefix=, not both")
            sets = self.sets(prefix=prefix)
        if sets is None:
            return self._scope
        names = dict.fromkeys(map(set_name, set_names(sets)))
        return [SetRef(self._scope, name) for name in names]


def default_set(sets: KeySets) -> MemorySet:
    """Return the set "default", without the checks of `set`: every call on that set comes here."""
    return sets._default_set  # noqa: SLF001 - of this file  # pyright: ignore[reportPrivateUsage] - of this file


@suggest_names_in_part
class KeySets(OwnerSets):
    """The long-term memory of one key."""

    def __repr__(self) -> str:
        return f"<long-term memory of key {self._scope.key!r}>"

    @hint_positionals("a value under a name is of exact memory: short_term.set(name, value)")
    def set(self, name: str, *, ttl: Ttl | None = None, **options: Unpack[SetOptions]) -> MemorySet:
        """Return the set *name*. Nothing is written: the first add stores the definition.

        Args:
            ttl: The default lifetime of items added or updated through the returned object. With
                ``refresh="read"`` a `get` or `search` that returns an item restarts the lifetime of
                the item. The set does not store this default.
            options: ``capacity compaction capacity_tokens capacity_bytes high_water low_water
                execution retention signals admission item_type``; see `SetOptions`.

        Raises:
            SetDefinitionConflict: The set exists with another definition; use `MemorySet.redefine`.
        """
        check_keywords(self, "set", options, SetOptions)
        made = stored_options(options, self._writer)
        return self._make(self._writer, SetRef(self._scope, set_name(name)), made, ttl=ttl)

    def conversation(
        self, name: str, *, timezone: tzinfo | str | None = None
    ) -> conversations.ConversationMemory:
        """Return a conversation: ordered messages in the set *name*. Nothing is written.

        Args:
            timezone: The zone of the conversation, as a name, an offset or a tzinfo. It dates
                "yesterday" in messages whose timestamp has no offset. None means the zone of
                the memory's reader.

        Raises:
            InvalidInput: The zone does not exist.
        """
        zone = None if timezone is None else Zone.of(timezone)
        return self._conversation(SetRef(self._scope, set_name(name)), zone)

    def _conversation(self, ref: SetRef, zone: Zone | None) -> conversations.ConversationMemory:
        return conversations.ConversationMemory(self._writer, ref, zone)

    # Calls on the set "default":
    add = delegated(default_set, MemorySet.add)
    add_many = delegated(default_set, MemorySet.add_many)
    get = cast("GetsItems", delegated(default_set, MemorySet.get))
    list = delegated(default_set, MemorySet.list)
    recent = delegated(default_set, MemorySet.recent)
    update = delegated(default_set, MemorySet.update)
    supersede = delegated(default_set, MemorySet.supersede)
    delete = delegated(default_set, MemorySet.delete)
    pop = delegated(default_set, MemorySet.pop)
    history = delegated(default_set, MemorySet.history)

    def get_memory_set(self, name: str) -> MemorySet:
        """The method `set`, under the name that Flink Agents uses."""
        return self.set(name)

    @property
    def long_term_memory(self) -> Self:
        """This object itself, under Flink Agents' name for the long-term memory."""
        return self


@hints_at(KnowledgeSet, 'a set has it: knowledge.set("…")')
@suggest_names_in
class KnowledgeMemory(OwnerSets):
    """Sets without a key: all memories of a store that name this knowledge share them."""

    _make = KnowledgeSet

    def __init__(self, engine: Engine, scope: Scope, writer: Writer | None = None) -> None:
        super().__init__(engine, writer or CommitWriter(engine, scope), scope)

    def __repr__(self) -> str:
        return f"<knowledge {self._scope.space!r}>"

    @property
    def name(self) -> str:
        """The name of the knowledge, by default the name of the space."""
        return self._scope.space

    def set(
        self,
        name: str,
        *,
        item_type: str | None = None,
        capacity: int | None = None,
        compaction: Given | None = None,
        retention: Literal["keep", "purge"] | timedelta | None = None,
        admission: Sequence[Rule | Callable[..., object]] | None = None,
    ) -> KnowledgeSet:
        """Return a set of the knowledge. The set changes only by explicit calls.

        Raises:
            InvalidInput: *capacity*, *compaction* or *retention* was passed. Knowledge has none of
                these.
        """
        given = {"capacity": capacity, "compaction": compaction, "retention": retention}
        refuse_upkeep(given)
        rules = None if admission is None else plans(admission)
        made = self._set(name, item_type=item_type, admission=rules)
        assert isinstance(made, KnowledgeSet)  # noqa: S101 - `_make` says so
        return made


@suggest_names_in
class KeyMemory(KeySets, Prompts):
    """All memory of one key: exact memory (`short_term`) and vague memory (its sets)."""

    def __init__(self, engine: Engine, scope: Scope, *, ttl: Ttl | None) -> None:
        super().__init__(engine, CommitWriter(engine, scope), scope)
        self._ttl = ttl
        self._live: ExactMemory = CommittedTree(
            engine.store,
            scope,
            engine.clock,
            engine.lane(scope),
            wait_s=engine.wait_s,
            ttl=ttl,
            paths=engine.paths,
        )

    def __repr__(self) -> str:
        return f"<key {self.key!r} of space {self._scope.space!r}>"

    def _title(self) -> str:
        return f"Key {self.key!r} of space {self.space!r}"

    def _tables(self) -> builtins.list[Html]:
        from alveus.values import html

        names = self.short_term.names(limit=SHOWN + 1)
        rows = [(name, _shown(self.short_term.get((name,), None))) for name in names[:SHOWN]]
        exact = [html.table(["Exact memory", "Value"], rows)] if rows else []
        more = [html.soft("… and more names")] if len(names) > SHOWN else []
        return [*super()._tables(), *exact, *more]

    @property
    def key(self) -> str:
        """The key whose memory this is."""
        return self._scope.key or ""

    @property
    def space(self) -> str:
        """The space (the application) of the key."""
        return self._scope.space

    @property
    def engine(self) -> Engine:
        """The engine of the memory, for packages of alveus that build on it, such as runners."""
        return self._engine

    @property
    def short_term_ttl(self) -> Ttl | None:
        """The default lifetime of short-term values."""
        return self._ttl

    @property
    def short_term(self) -> MemoryObject:
        """The root of the key's exact tree. Each change of the tree is one commit."""
        return root_of(self._live)

    @property
    def short_term_memory(self) -> MemoryObject:
        """The same object as `short_term`, under Flink Agents' name."""
        return self.short_term

    @property
    def knowledge(self) -> KnowledgeMemory:
        """The knowledge shared by all keys."""
        return KnowledgeMemory(self._engine, self._writer.knowledge)

    def _sources(self) -> Sources:
        return Sources(self._writer, self._scope, lambda: self.short_term)

    @property
    def facts(self) -> fact_rooms.Facts:
        """The learnt facts, from the set "facts": list them, find their sources, undo."""
        return fact_rooms.facts_of_key(self._engine, self._scope)

    def about(
        self, name: str, *, as_of: AsOf | None = None, valid_at: ValidAt | None = None
    ) -> fact_rooms.EntityPage:
        """Return the page of an entity (a person, a location or a thing); see `Facts.about`."""
        return self.facts.about(name, as_of=as_of, valid_at=valid_at)

    def profile(
        self,
        name: str | None = None,
        *,
        budget: int = 300,
        as_of: AsOf | None = None,
        valid_at: ValidAt | None = None,
    ) -> fact_rooms.EntityProfile:
        """Return the profile of an entity; see `Facts.profile`."""
        return self.facts.profile(name, budget=budget, as_of=as_of, valid_at=valid_at)

    def learn(
        self,
        source: fact_rooms.Source,
        *,
        model: ChatModel | None,
        options: fact_rooms.LearnOptions | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> fact_rooms.LearnReport:
        """Learn facts from a conversation, messages or texts; return a report.

        Learning from a conversation continues after the last message that was read. Each message is
        read once, despite crashes and concurrent learners. Texts and messages are added to the
        conversation "learned" first. An item without an id gets an id derived from its text, so a
        repeated call adds nothing. For each batch of messages the model returns facts, and decides
        how they change known facts of the same subjects. The model's answers are recorded before
        they are used. The new facts, the facts that they supersede and the position in the
        conversation are changed in one commit. No lock is held while the model runs.

        Args:
            source: A conversation of this key, or one or several messages or texts.
            model: The model that finds the facts. Its answers are checked: facts with wrong sources
                or quotations are not stored, and are counted in `LearnReport.refused`. With None,
                built-in rules find facts in English statements in the first person.
            options: Settings of learning, such as the number of messages per batch.
            progress: Called after each commit with the number of messages that were read for it.

        Raises:
            ModelAnswerInvalid: No answer could be used. Facts of earlier batches are stored.
            ModelFailed: The model failed. Facts of earlier batches are stored.
            InvalidInput: *source* is not a conversation of this key, messages or texts.
        """
        return fact_rooms.learn(
            self._engine, self._scope, source, model=model, options=options, progress=progress
        )

    def forget(
        self,
        ids: str | Sequence[str] | None = None,
        *,
        where: Where | None = None,
        scrub: Scrub | None = None,
        dry_run: bool = False,
        idempotency_key: str | None = None,
    ) -> Receipt:
        """Erase the whole key, or some of its items, for good; return the receipt.

        Without *ids* and *where*, the key's tree, sets, runs and name are erased; see
        `Memory.forget`. With *ids*, these items of the set "default" are erased. With *where*
        alone, the matching items of all sets are erased. For items see `MemorySet.forget`.
        """
        engine, scope = self._engine, self._scope
        if ids is not None:
            of, key = self.set(DEFAULT_SET), idempotency_key
            return of.forget(ids, where=where, scrub=scrub, dry_run=dry_run, idempotency_key=key)
        how = HowForgotten(scrub, dry_run, idempotency_key)
        if where is None:
            return forget_key(engine, scope, how)
        return forget_items(engine, scope, None, where, how)

    def diff(
        self,
        a: AsOf,
        b: AsOf | None = None,
        *,
        sets: Sequence[str] | None = None,
        tree: Literal["show", "skip"] = "show",
    ) -> Difference:
        """Return the changes in this memory between two moments: commits or times.

        Args:
            b: The later moment; None means now.
            sets: The names of the sets to compare, by default all sets; pass ``[]`` for none.
            tree: "skip" leaves out the exact tree.

        Raises:
            HistoryPruned: The state of one of the moments is no longer kept.
        """
        choice(tree, "tree", "show", "skip")
        return difference(self._engine, self._scope, a, b, sets, tree=tree == "show")

    def batch(self, *, idempotency_key: str | None = None) -> KeyBatch:
        """Return a batch. The changes in its `with` block are one commit when the block ends.

        If the block raises, nothing is committed. A second batch with the same *idempotency_key*
        changes nothing: its block reads the state before the first batch (but search reads the
        present), and `KeyBatch.committed` is marked as adopted if the block makes the same changes.

        Raises:
            StaleRun: At the end of the block: the block and another writer both changed the exact
                tree. Not raised for a block that only set values and read none; the last writer
                wins then.
            KeyBusy: At the end of the block: a run kept the key busy for `wait_s`.
            InvalidInput: At the end of the block: the block is inside an action of the same key.
            IdempotencyConflict: The idempotency key was used for another batch.
        """
        return KeyBatch(self._engine, self._scope, self._ttl, idempotency_key)

    def commit(
        self, change: Callable[[KeyBatch], Result], *, idempotency_key: str | None = None
    ) -> Result:
        """Call *change* with a batch, commit the batch, and return the result of *change*.

        If another writer changed the exact tree since the batch began, or an item since the batch
        changed it, nothing is committed and *change* is called again with a new batch, which reads
        the present state. So *change* should have no effects outside the batch. If *change* reads
        an item first and updates it with ``if_version=item.version``, a concurrent change of the
        item also calls *change* again. Any other error of *change* is raised and nothing is
        committed.

        Args:
            idempotency_key: See `batch`.

        Raises:
            KeyBusy: Other writers changed the same data for `wait_s`, or a run kept the key busy.
            StaleItem: *change* required the same outdated version twice.
        """
        checked_function(change, "commit() needs a function of a batch")
        backoff, stale = Backoff(self._scope, self._engine.wait_s), ""
        while True:
            batch, is_committing = self.batch(idempotency_key=idempotency_key), False
            try:
                with batch:
                    result = change(batch)
                    is_committing = True
            except (StaleRun, StaleItem, DuplicateItem, SetMoved) as error:
                is_new = isinstance(error, StaleItem) and str(error) != stale
                if not (is_committing or is_new or isinstance(error, SetMoved)):
                    raise
                stale = str(error)
                backoff.wait(error)
            else:
                return result


class Touched(NamedTuple):
    """The version of an item that a batch changes; `key` is None for an item of knowledge."""

    key: str | None
    set_name: str
    id: str
    version: int


class KeyBatch(KeySets, Prompts):
    """Changes of one key and of knowledge, committed together.

    Reads return the exact tree as it was when the block began, and the latest items. Both include
    the changes of the batch.

    Attributes:
        committed: The commit, after the block; None if the block changed nothing.
        has_changes: Whether the block made changes, after the block.

    Args:
        base: The number of the commit whose exact tree is read; None means the last commit.
    """

    def __init__(
        self,
        engine: Engine,
        scope: Scope,
        ttl: Ttl | None,
        idempotency_key: str | None,
        *,
        base: int | None = None,
    ) -> None:
        op = None if idempotency_key is None else engine.op(scope, idempotency_key)
        self._draft = Draft(engine, scope, op)
        super().__init__(engine, self._draft, scope)
        self._op, self._label = op, idempotency_key or ""
        self._ttl = ttl
        self._tree: BatchTree | None = None
        self._root: MemoryObject | None = None
        self._base, self._asked_base = 0, base
        self.committed: Commit | None = None
        self.has_changes = False

    def __repr__(self) -> str:
        return f"<batch of key {self._scope.key!r}>"

    def __enter__(self) -> Self:
        if self._tree is not None:
            raise Unusable(SECOND_BLOCK)
        if self._engine.store.read_only:
            raise StoreReadOnly("a batch needs a writable memory; open it without mode='ro'")
        store, now = self._engine.store, self._engine.clock()
        head = store.head(self._scope)  # read first: after the look-up it may be this op's commit
        first = self._op and store.commit_of_op(self._op, request=None, label=self._label)
        if first:  # a repetition reads the state of the first batch
            self._base, now = first.number - 1, first.time
            self._draft.before = Moment(self._base, now)
            check_tree(store, self._scope, self._draft.before)
        else:
            self._base = self._chosen_base(head, now)
        overlay = self._overlay(now)
        overlay.records_requests = self._op is not None
        self._tree = overlay
        self._root = root_of(self._tree)
        self._draft.open = True
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._tree is None or not self._draft.open:  # the block has not begun, or has ended
            return
        self._draft.open = False
        state, values = self._tree.finish(OUTSIDE_BLOCK)
        self.has_changes = bool(state or self._draft.items or self._draft.define)
        if kind is not None:
            return
        backoff = Backoff(self._scope, self._engine.wait_s)
        while True:
            try:
                self.committed = commit_draft(
                    self._engine,
                    self._draft,
                    op=self._op,
                    label=self._label,
                    base=self._base if state else None,
                    state=state,
                    calls=[*self._draft.calls, *self._tree.requests],
                )
            except StaleRun as stale:
                if values is None:
                    raise
                backoff.wait(stale)
                state = self._laid_over(values)
            else:
                return

    def _chosen_base(self, head: int, now: int) -> int:
        asked = self._asked_base
        if asked in (None, head):
            return head
        if asked < head:
            with suppress(HistoryPruned):
                check_tree(self._engine.store, self._scope, Moment(asked, now))
                return asked
        raise StaleRun(self._scope.owner, expected=asked, found=head)

    @property
    def base(self) -> int:
        """The number of the commit whose exact tree is read."""
        return self._base

    @property
    def touched(self) -> list[Touched]:
        """The item versions that the batch changes, in order; an added item has version 0.

        A repetition of the batch must change the same versions.
        """
        return [
            Touched(part.set.scope.key, part.set.name, id_of(part), getattr(part, "version", 0))
            for change in self._draft.items
            for part in parts_of(change)
        ]

    def _overlay(self, now: int) -> BatchTree:
        tree, paths = Snapshot(self._engine.store, self._scope, self._base), self._engine.paths
        return BatchTree.over(tree, kind=paths.kind, now=now, ttl=self._ttl, paths=paths)

    def _laid_over(self, values: Sequence[SetValue]) -> tuple[TreeDelta, ...]:
        """Return deltas that set *values* in the latest tree, which becomes the batch's base."""
        self._base = self._engine.store.head(self._scope)
        overlay = self._overlay(self._engine.clock())
        for location, value, expiry in values:
            overlay.put(location, value, expiry)
        return overlay.deltas()

    @property
    def short_term(self) -> MemoryObject:
        """The root of the key's exact tree, as at the block's start with the batch's changes."""
        if self._root is None:
            raise Unusable(OUTSIDE_BLOCK)
        return self._root

    @property
    def knowledge(self) -> KnowledgeMemory:
        """The knowledge; its changes are part of the batch's commit."""
        return KnowledgeMemory(self._engine, self._writer.knowledge, self._draft)

    def _sources(self) -> Sources:
        return Sources(self._draft, self._scope, lambda: self.short_term)
