"""The memory of one key, and knowledge: what `Memory.key` and `Memory.knowledge` give."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta, tzinfo
from types import TracebackType
from typing import (
    TYPE_CHECKING,
    Literal,
    NamedTuple,
    NoReturn,
    Self,
    TypeVar,
    Unpack,
    cast,
    overload,
)

from alveus import conversation as conversations
from alveus import facts as fact_rooms
from alveus.errors import (
    Conflict,
    DuplicateItem,
    HistoryPruned,
    InvalidInput,
    SetMoved,
    StaleItem,
    StaleRun,
    StoreReadOnly,
    Unusable,
)
from alveus.errors.short_repr import short_repr
from alveus.llm import MEMORY_DEFAULT, ChatModel, RerankerChoice
from alveus.memory.prompt import Prompts, Sources
from alveus.search.projection import Colouring, MapPoints
from alveus.search.query import search_options
from alveus.search.signals import Signals
from alveus.sets import KnowledgeSet, MemorySet, refuse_upkeep
from alveus.sets.admission import Quarantine, Rule, plans
from alveus.sets.batch import Draft
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
    suggest_names_in,
    suggest_names_in_part,
)
from alveus.values.lazy import lazy_attribute
from alveus.values.markup import Figure, Html
from alveus.values.storable import Value, checked_function, checked_prefix, flag
from alveus.values.times import Zone

Result = TypeVar("Result")

DEFAULT_SET = "default"

SHOWN = 20
"""Sets, and names of an exact tree, that a notebook shows."""


def _rules(admission: Sequence[Rule | Callable[..., object]] | None) -> object:
    return None if admission is None else plans(admission)


def _shown(value: object) -> str:
    """Return a value of an exact tree on one line; of an object the names of its fields."""
    from alveus.values import html

    if not isinstance(value, MemoryObject):
        return html.one_line(wire.encode(cast("Value", value)))
    names = value.names(limit=SHOWN + 1)
    more = ", …" if len(names) > SHOWN else ""
    return html.one_line(f"{{{', '.join(names[:SHOWN])}{more}}}")


class Inside(NamedTuple):
    """What named sets are made of: what the memory works with, where changes go, and whose."""

    engine: Engine
    writer: Writer
    scope: Scope


@suggest_names_in_part
class OwnerSets:
    """Named sets of one owner, and the calls that go to its set "default"."""

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
        """Return what a notebook shows below the title."""
        from alveus.values import html

        counts = self.sets(counts=True)
        more = len(counts) - SHOWN
        rows = [*counts.items()][:SHOWN]
        notes = [html.soft(f"… and {html.counted(more, 'more set')}")] if more > 0 else []
        return [html.table(["Set", "Items"], rows), *notes] if rows else [html.soft("no sets yet")]

    @property
    def inside(self) -> Inside:
        """What it is made of, for rooms of alveus that keep something in its sets."""
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
        """Return the names of the sets that something was added to, sorted.

        Args:
            prefix: Only names that begin with it.
            counts: Return a dict: by name, how many items there are. Items are not counted for
                that: each set knows its number.
        """
        begin = checked_prefix(prefix)
        if not flag(counts, "counts"):
            return [name for name in self._writer.sets(self._scope) if name.startswith(begin)]
        items = self._writer.counts(self._scope)
        return {name: count for name, count in items.items() if name.startswith(begin)}

    @property
    def quarantine(self) -> Quarantine:
        """What rules of admission keep out of all its sets."""
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
    ) -> Hits:
        """Search sets together, all of them unless *sets* names some; see `MemorySet.search`.

        Args:
            prefix: Instead of *sets*: those whose names begin with it.
        """
        at = None if as_of is None else self._writer.moment_of(as_of)
        options = search_options(
            limit, where, at, signals, valid_at, min_score=min_score, reranker=reranker
        )
        return self._writer.search(self._named(sets, prefix), query, options)

    def points(
        self,
        *,
        sets: Sequence[str] | None = None,
        where: Where | None = None,
        limit: int | None = None,
    ) -> MapPoints:
        """Return the items of all sets, or of those in *sets*, in one plane; see `MemorySet`."""
        return self._writer.points(self._named(sets), where=where, limit=limit)

    def map(
        self,
        *,
        sets: Sequence[str] | None = None,
        colour: Colouring = "set",
        where: Where | None = None,
        limit: int | None = None,
    ) -> Figure:
        """Return a picture of what `points` returns; see `MemorySet.map`."""
        return self.points(sets=sets, where=where, limit=limit).plot(colour=colour)

    def _named(
        self, sets: Sequence[str] | None, prefix: str | None = None
    ) -> Scope | builtins.list[SetRef]:
        """Return the sets of these names, or whose names begin so, or the scope of all."""
        if prefix is not None:
            if sets is not None:
                raise InvalidInput("search takes sets or prefix=, one of them")
            sets = self.sets(prefix=prefix)
        if sets is None:
            return self._scope
        if not isinstance(sets, (list, tuple)):
            raise InvalidInput(f"sets must be a list of names, not {short_repr(sets)}")
        return [SetRef(self._scope, name) for name in dict.fromkeys(map(set_name, sets))]


def default_set(sets: KeySets) -> MemorySet:
    """Return the set "default", without the checks of `set`: it is asked for at every call."""
    return sets._default_set  # noqa: SLF001 - of this file  # pyright: ignore[reportPrivateUsage] - of this file


@suggest_names_in_part
class KeySets(OwnerSets):
    """The long-term memory of one key."""

    def __repr__(self) -> str:
        return f"<long-term memory of key {self._scope.key!r}>"

    @hint_positionals("a value under a name is of exact memory: short_term.set(name, value)")
    def set(self, name: str, *, ttl: Ttl | None = None, **options: Unpack[SetOptions]) -> MemorySet:
        """Return a set; writes nothing: what is asked for is kept with its first add.

        Args:
            ttl: How long items stay that are added or updated through what is returned, unless
                the call says; with ``refresh="read"`` also from when its `get` or `search`
                returned them. It is not kept with the set.
            options: ``capacity compaction capacity_tokens capacity_bytes high_water low_water
                execution retention signals admission item_type``; see `SetOptions`.

        Raises:
            SetDefinitionConflict: It exists, and is otherwise; `MemorySet.redefine` changes it.
        """
        check_keywords(self, "set", options, SetOptions)
        made = stored_options(options, self._writer)
        return self._make(self._writer, SetRef(self._scope, set_name(name)), made, ttl=ttl)

    def conversation(
        self, name: str, *, timezone: tzinfo | str | None = None
    ) -> conversations.ConversationMemory:
        """Return a conversation: messages in their order, in the set *name*; writes nothing.

        Args:
            timezone: Where it happens, as a name, an offset or a tzinfo: "yesterday" is counted
                by it in messages whose timestamp has no offset. None: where the memory's reader is.

        Raises:
            InvalidInput: There is no such zone.
        """
        zone = None if timezone is None else Zone.of(timezone)
        ref = SetRef(self._scope, set_name(name))
        return conversations.ConversationMemory(self._writer, ref, zone)

    # Of the set "default":
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
        """Return a set; the name Flink Agents gives to `set`."""
        return self.set(name)

    @property
    def long_term_memory(self) -> Self:
        """This; the name Flink Agents gives to it."""
        return self


@suggest_names_in
class KnowledgeMemory(OwnerSets):
    """Sets that belong to no key: all memories with this knowledge on the store share them."""

    _make = KnowledgeSet

    def __init__(self, engine: Engine, scope: Scope, writer: Writer | None = None) -> None:
        super().__init__(engine, writer or CommitWriter(engine, scope), scope)

    if not TYPE_CHECKING:  # a type checker would take every name for one of a knowledge

        def __getattr__(self, name: str) -> NoReturn:
            """Raise the error of a name that is none of a knowledge, but perhaps of its sets."""
            raise no_attribute(self, name, KnowledgeSet, 'a set has it: knowledge.set("…")')

    def __repr__(self) -> str:
        return f"<knowledge {self._scope.space!r}>"

    @property
    def name(self) -> str:
        """What it is named; the space's name unless another was given."""
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
        """Return a set. It changes only by explicit calls.

        Raises:
            InvalidInput: A capacity, compaction or retention is given: it takes none.
        """
        given = {"capacity": capacity, "compaction": compaction, "retention": retention}
        refuse_upkeep(given)
        made = self._set(name, item_type=item_type, admission=_rules(admission))
        assert isinstance(made, KnowledgeSet)  # noqa: S101 - `_make` says so
        return made


@suggest_names_in
class KeyMemory(KeySets, Prompts):
    """All memory of one key: exact (`short_term`) and vague (its sets)."""

    def __init__(self, engine: Engine, scope: Scope, knowledge: str, *, ttl: Ttl | None) -> None:
        super().__init__(engine, CommitWriter(engine, scope), scope)
        self._knowledge, self._ttl = knowledge, ttl
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
        """The key."""
        return self._scope.key or ""

    @property
    def space(self) -> str:
        """The application that the key is of."""
        return self._scope.space

    @property
    def engine(self) -> Engine:
        """What it works with, for the rooms of alveus above it, such as runners."""
        return self._engine

    @property
    def short_term_ttl(self) -> Ttl | None:
        """How long short-term values stay where a write does not say."""
        return self._ttl

    @property
    def short_term(self) -> MemoryObject:
        """The root of its exact tree; each change is a commit."""
        return root_of(self._live)

    @property
    def short_term_memory(self) -> MemoryObject:
        """`short_term`, as Flink Agents names it."""
        return self.short_term

    @property
    def knowledge(self) -> KnowledgeMemory:
        """The knowledge shared by all keys."""
        return KnowledgeMemory(self._engine, Scope(self._knowledge, None))

    def _sources(self) -> Sources:
        knowledge = Scope(self._knowledge, None)
        return Sources(self._writer, self._scope, knowledge, lambda: self.short_term)

    @property
    def facts(self) -> fact_rooms.Facts:
        """What was learnt: the facts of its set "facts", where they come from, and undo."""
        return fact_rooms.facts_of_key(self._engine, self._scope)

    def about(
        self, name: str, *, as_of: AsOf | None = None, valid_at: ValidAt | None = None
    ) -> fact_rooms.EntityPage:
        """Return the page of a person, a place or a thing; see `Facts.about`."""
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
        """Learn facts from a conversation, messages or texts; return what was learnt.

        A conversation is read from where the last call stopped: each message is read once,
        despite crashes and however many processes learn. Texts and messages are added to the
        conversation "learned" first; those without an id get one from what they say, so that a
        repetition adds nothing. For each batch of messages the model is asked for facts, and, if
        facts of the same subjects are known, what becomes of both. Its answers are recorded before
        they are used; the facts, what they supersede and the position are one commit. Nothing
        is locked while a model is asked.

        Args:
            source: A conversation of this key, or messages or texts, one or several.
            model: Who finds the facts. What it says is checked: facts whose sources or quotations
                are wrong are not stored, and counted in `LearnReport.refused`. None: written-down
                rules find what English speakers say of themselves.
            options: How many messages are read at once.
            progress: Called with the number of messages that each commit read.

        Raises:
            ModelAnswerInvalid: No answer could be used; what was read before that is stored.
            ModelFailed: The model could not be asked; the same.
            InvalidInput: *source* cannot be learnt from.
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
        """Erase the whole key, for good; or *ids* of the set "default"; or, of all sets, *where*.

        Of the whole key its tree, sets, runs and name: see `Memory.forget`. Of items: see
        `MemorySet.forget`.
        """
        engine, scope = self._engine, self._scope
        if ids is not None:
            of, key = self.set(DEFAULT_SET), idempotency_key
            return of.forget(ids, where=where, scrub=scrub, dry_run=dry_run, idempotency_key=key)
        how = HowForgotten(scrub, dry_run, idempotency_key)
        if where is None:
            return forget_key(engine, scope, how)
        return forget_items(engine, scope, None, where, how)

    def batch(self, *, idempotency_key: str | None = None) -> KeyBatch:
        """Return a batch: what is done to it in a `with` block is committed when that ends.

        All of it, or, if the block raises, nothing. With an *idempotency_key* the same batch
        again changes nothing: its block reads what was there before the first one (search: what
        is there now), and asking for the same is `KeyBatch.committed` as adopted.

        Raises:
            StaleRun: At the end of the block: it changed the exact tree, and so did another. Not
                of a block that only set values there and read none: the last one to set stays.
            KeyBusy: The same, while somebody went on running the key for `wait_s`.
            InvalidInput: The same, in an action of this very key.
            IdempotencyConflict: The key was used for another batch.
        """
        return KeyBatch(self._engine, self._scope, self._knowledge, self._ttl, idempotency_key)

    def commit(
        self, change: Callable[[KeyBatch], Result], *, idempotency_key: str | None = None
    ) -> Result:
        """Call *change* with a batch, commit what it does, and return what it returned.

        If somebody else changed the exact tree since the batch began, or an item since the batch
        changed it, nothing is committed, and *change* is called again with another batch, which
        reads what is there now. So it should have no effects but on the batch. An item that it
        reads first it updates with ``if_version=item.version``: if the item changed in between,
        *change* is called again too. What else it raises is raised, and nothing is committed.

        Args:
            idempotency_key: As of `batch`.

        Raises:
            KeyBusy: Others changed the same for `wait_s`, or went on running the key.
            StaleItem: *change* asked for the same version twice, and it was not there.
        """
        checked_function(change, "commit takes a function of a batch")
        backoff, stale = Backoff(self._scope, self._engine.wait_s), ""
        while True:
            batch, is_committing = self.batch(idempotency_key=idempotency_key), False
            try:
                with batch:
                    result = change(batch)
                    is_committing = True
            except (StaleRun, StaleItem, DuplicateItem, SetMoved) as error:
                if not (is_committing or _is_new_in_block(error, stale)):
                    raise
                stale = str(error)
                backoff.wait(error)
            else:
                return result


def no_attribute(owner: object, name: str, part: type, said: str) -> AttributeError:
    """Return the error of a name that *owner* has not, but perhaps a *part* of it.

    Reads nothing of *owner*, which may be half made, as by `copy`.

    Args:
        said: The part as a user names it and as he gets it: ``a key has it: memory.key("…")``.
    """
    problem = f"{type(owner).__name__!r} object has no attribute {name!r}"
    if not name.startswith("_") and hasattr(part, name):
        call = "(…)" if callable(getattr(part, name)) else ""
        problem = f"{problem}; {said}.{name}{call}"
    return AttributeError(problem, name=name, obj=owner)


def _is_new_in_block(error: Conflict, before: str) -> bool:
    """Return whether a block that raised this is to be called again."""
    is_stale = isinstance(error, StaleItem) and str(error) != before
    return is_stale or isinstance(error, SetMoved)


class Touched(NamedTuple):
    """A version of an item that a batch changes; *key* is None in knowledge."""

    key: str | None
    set_name: str
    id: str
    version: int


class KeyBatch(KeySets, Prompts):
    """Changes of one key and of knowledge that are committed together.

    Reads see the exact tree as it was when the block began, and the latest items; both with the
    changes of the batch.

    Attributes:
        committed: After the block: the commit; None if there was nothing to commit.
        has_changes: After the block: whether it did anything that can be committed.

    Args:
        base: The commit as of which the exact tree is read; None: the last one.
    """

    def __init__(
        self,
        engine: Engine,
        scope: Scope,
        knowledge: str,
        ttl: Ttl | None,
        idempotency_key: str | None,
        *,
        base: int | None = None,
    ) -> None:
        op = None if idempotency_key is None else engine.op(scope, idempotency_key)
        self._draft = Draft(engine, scope, op)
        super().__init__(engine, self._draft, scope)
        self._op, self._label = op, idempotency_key or ""
        self._knowledge, self._ttl = knowledge, ttl
        self._tree: BatchTree | None = None
        self._root: MemoryObject | None = None
        self._base, self._asked_base = 0, base
        self.committed: Commit | None = None
        self.has_changes = False

    def __repr__(self) -> str:
        return f"<batch of key {self._scope.key!r}>"

    def __enter__(self) -> Self:
        if self._tree is not None:
            raise Unusable("a batch serves one block; ask for another one")
        if self._engine.store.read_only:
            raise StoreReadOnly("this memory was opened with mode='ro'; it takes no batch")
        store, now = self._engine.store, self._engine.clock()
        head = store.head(self._scope)  # before the look-up: after it, it may be that commit
        first = self._op and store.commit_of_op(self._op, request=None, label=self._label)
        if first:  # a repetition reads what the first one read, so that it asks for the same
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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._tree is None or not self._draft.open:  # it has not begun, or has ended
            return
        self._draft.open = False
        state, values = self._tree.finish(
            "a batch is used inside its with block; ask for another one"
        )
        self.has_changes = bool(state or self._draft.items or self._draft.define)
        if kind is not None:
            return
        backoff = Backoff(self._scope, self._engine.wait_s)
        while True:
            try:
                self.committed = self._commit(state)
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
        """The commit as of which the exact tree is read."""
        return self._base

    @property
    def touched(self) -> list[Touched]:
        """What its changes of items rest on, in order: a repetition that touches other is another.

        An item that is added has version 0.
        """
        return [
            Touched(part.set.scope.key, part.set.name, id_of(part), getattr(part, "version", 0))
            for change in self._draft.items
            for part in parts_of(change)
        ]

    def _commit(self, state: Sequence[TreeDelta]) -> Commit | None:
        assert self._tree is not None  # noqa: S101 - the block has begun
        return commit_draft(
            self._engine,
            self._draft,
            op=self._op,
            label=self._label,
            base=self._base if state else None,
            state=state,
            calls=[*self._draft.calls, *self._tree.requests],
        )

    def _overlay(self, now: int) -> BatchTree:
        tree, paths = Snapshot(self._engine.store, self._scope, self._base), self._engine.paths
        return BatchTree.over(tree, kind=paths.kind, now=now, ttl=self._ttl, paths=paths)

    def _laid_over(self, values: Sequence[SetValue]) -> tuple[TreeDelta, ...]:
        """Return what sets *values* in the tree as it is now, which becomes the base."""
        self._base = self._engine.store.head(self._scope)
        overlay = self._overlay(self._engine.clock())
        for location, value, expiry in values:
            overlay.put(location, value, expiry)
        return overlay.deltas()

    @property
    def short_term(self) -> MemoryObject:
        """The root of the key's exact tree, as it was when the block began and changed since."""
        if self._root is None:
            raise Unusable("a batch is used inside its with block; ask for another one")
        return self._root

    @property
    def knowledge(self) -> KnowledgeMemory:
        """The knowledge; its changes are committed with the rest."""
        return KnowledgeMemory(self._engine, Scope(self._knowledge, None), self._draft)

    def _sources(self) -> Sources:
        knowledge = Scope(self._knowledge, None)
        return Sources(self._draft, self._scope, knowledge, lambda: self.short_term)
