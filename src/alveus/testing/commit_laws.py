"""Laws of commits: whole or not at all, named, in the journal, alone and in groups."""

from __future__ import annotations

from dataclasses import replace

import pytest

from alveus.errors import (
    AlveusError,
    DuplicateItem,
    IdempotencyConflict,
    InvalidInput,
    KeyBusy,
    KeyFull,
    NotAnObject,
    NotFound,
    ObjectInTheWay,
    SetDefinitionConflict,
    SetFull,
    StaleItem,
    StaleRun,
)
from alveus.store import (
    Batch,
    Clear,
    Commit,
    Create,
    Define,
    Definition,
    Delete,
    Effects,
    Erasure,
    Limits,
    Node,
    Put,
    QueuedInput,
    Refresh,
    Replace,
    Retire,
    Scope,
    SetRef,
    Step,
    Store,
)
from alveus.testing.batches import (
    ADA,
    BOB,
    DAY,
    HANDBOOK,
    NOTES,
    NOW,
    SECOND,
    AnyChange,
    Laws,
    add,
    at_once,
    batch,
    present,
    record,
    refused,
    write,
)
from alveus.testing.reads import FAR, differences, reads
from alveus.testing.run_laws import BEGIN, PUT, accept, committed, leased, queued_input, there
from alveus.values.storable import Path, Value

FULL = SetRef(ADA, "full")
BOOK = SetRef(HANDBOOK, "book")

GOOD: tuple[AnyChange, ...] = (
    Create(("made",)),
    Put(("made", "value"), 1),
    Put(("value",), 2),
    Create(("other value",)),
    Delete(("object",)),
    Define(SetRef(ADA, "defined"), Definition(capacity=5)),
    Define(NOTES, Definition(capacity=9), replace=True),
    add("new"),
    add("newer", to=SetRef(ADA, "new set")),
    add("known", to=BOOK),
    Replace(NOTES, 1, record("old", "newer text")),
    Retire(NOTES, "older", 1),
)
BAD: dict[str, tuple[type[AlveusError], tuple[AnyChange, ...]]] = {
    "below a value": (NotAnObject, (Put(("value", "below"), 1),)),
    "below nothing": (NotAnObject, (Create(("nothing", "below")),)),
    "over an object": (ObjectInTheWay, (Put(("other object",), 1),)),
    "live id": (DuplicateItem, (add("old"),)),
    "live id in knowledge": (DuplicateItem, (add("page", to=BOOK),)),
    "old version": (StaleItem, (Retire(NOTES, "old", 1),)),
    "nothing to replace": (StaleItem, (Replace(NOTES, 1, record("nobody")),)),
    "no set": (StaleItem, (Retire(SetRef(ADA, "no set"), "old", 1),)),
    "full set": (SetFull, (add("too much", to=FULL),)),
    "defined otherwise": (SetDefinitionConflict, (Define(FULL, Definition()),)),
    "another key": (InvalidInput, (add("new", to=SetRef(BOB, "notes")),)),
}


def furnish(store: Store) -> None:
    """Fill a store with something of everything."""
    write(store, Put(("value",), 1), Create(("object",)), Put(("object", "field"), [1]))
    write(store, Put(("other value",), 1), Create(("other object",)))
    write(store, add("old"), add("older"), add("page", to=BOOK))
    write(store, Define(FULL, Definition(capacity=1, compaction="reject")), add("i", to=FULL))


class CommitLaws(Laws):
    """What a commit does as a whole."""

    def test_numbers_start_at_one_and_rise(self, store: Store) -> None:
        """Whatever the key: the numbers are the store's."""
        numbers = [write(store, add(f"{i}"), scope=ADA).number for i in range(2)]
        numbers.append(write(store, Put(("a",), 1), scope=BOB).number)
        assert numbers[0] == 1
        assert numbers == sorted(set(numbers))

    def test_a_commit_is_visible_to_every_read_after_it(self, store: Store) -> None:
        """Tree, items, journal and change log all show it at once."""
        seq = store.seq()
        commit = write(store, Put(("a",), 1), add("i"))
        assert store.node(ADA, ("a",), at=None, now=NOW) == Node(is_object=False, value=1)
        assert store.get(NOTES, ["i"])[0] is not None
        assert store.effects(commit.number) is not None
        assert store.head(ADA) == commit.number
        assert store.commit_at(NOW) == commit.number
        assert store.seq() > seq

    @pytest.mark.parametrize("changes", [(), (add("i"),)])
    def test_the_answer_says_what_was_committed(
        self, store: Store, changes: tuple[AnyChange, ...]
    ) -> None:
        """Number, time, whether it was adopted, and the result; the journal has it, with its scope.

        A batch that changes nothing is a commit too.
        """
        answer = store.commit(batch(*changes, result={"told": [1, None, b"\0"]}))
        assert (answer.number, answer.time, answer.adopted) == (1, NOW, False)
        assert answer.result == {"told": [1, None, b"\0"]}
        found = present(store.effects(answer.number))
        assert (found.commit, found.scope) == (answer, ADA)
        assert (list(found.put_nodes), len(found.begun_items)) == ([], len(changes))

    def test_commit_times_never_go_back(self, store: Store) -> None:
        """The time is the caller's clock or, if later, the last commit's: of any key."""
        times = (NOW, NOW + SECOND, NOW - SECOND, NOW + SECOND + 1)
        scopes = (ADA, BOB, ADA, BOB)
        found = [
            store.commit(batch(scope=s, time=t)).time for s, t in zip(scopes, times, strict=True)
        ]
        assert found == [NOW, NOW + SECOND, NOW + SECOND, NOW + SECOND + 1]

    @pytest.mark.parametrize("fault", BAD)
    def test_a_batch_that_fails_in_its_last_change_changes_nothing(
        self, store: Store, fault: str
    ) -> None:
        """Not the tree, not items, not sets, not the journal, not the change log, not counts."""
        furnish(store)
        before = reads(store, now=NOW, scopes=[BOB])
        error, bad = BAD[fault]
        refused(store, error, *GOOD, *bad, time=NOW + SECOND)
        assert not differences(before, reads(store, now=NOW, scopes=[BOB]))
        assert store.commit_at(NOW + SECOND) == store.commit_at(NOW)

    @pytest.mark.parametrize("fault", BAD)
    def test_after_a_refused_batch_a_good_one_commits(self, store: Store, fault: str) -> None:
        """What was undone is undone in every sense: the same changes work now."""
        furnish(store)
        last = store.commit_at(NOW)
        error, bad = BAD[fault]
        refused(store, error, *GOOD, *bad)
        assert write(store, *GOOD).number > last
        assert store.node(ADA, ("made", "value"), at=None, now=NOW) == Node(
            is_object=False, value=1
        )
        assert store.node(ADA, ("object", "field"), at=None, now=NOW) is None
        assert [item.record.id for item in store.page(NOTES)] == ["old", "new"]
        assert [item.version for item in store.versions(NOTES, "old")] == [1, 2]

    def test_limits_are_checked_before_anything_stays(self, store: Store) -> None:
        """A batch beyond a key's limits changes nothing either."""
        furnish(store)
        refused(store, KeyFull, *GOOD, limits=Limits(items=1))

    # --- the base of the tree

    def test_head_is_the_last_commit_that_changed_the_tree(self, store: Store) -> None:
        """Items, empty batches, other keys and a base alone do not move it; it starts at 0."""
        assert store.head(ADA) == 0
        head = write(store, Put(("a",), 1)).number
        write(store, add("i"))
        store.commit(batch())
        store.commit(batch(add("j"), base=head))
        write(store, Put(("a",), 1), scope=BOB)
        assert store.head(ADA) == head

    def test_a_stale_base_is_refused(self, store: Store) -> None:
        """Work from an earlier tree must be repeated; the error says from where.

        So must work from a tree that never was, or that only read; a change needs a base.
        """
        refused(store, InvalidInput, batch(Put(("a",), 1)))
        refused(store, StaleRun, batch(Put(("a",), 3), base=1))
        first = write(store, Put(("a",), 1))
        second = write(store, Put(("a",), 2))
        error = refused(store, StaleRun, batch(Put(("a",), 3), base=first.number))
        assert (error.key, error.expected) == ("ada", first.number)
        assert error.found == second.number
        refused(store, StaleRun, batch(add("i"), base=0))

    def test_adds_never_conflict(self, store: Store) -> None:
        """The base guards the tree only: without one, items go in whatever happened since."""
        write(store, Put(("a",), 1))
        store.commit(batch(add("i")))
        assert store.get(NOTES, ["i"])[0] is not None

    # --- the epoch of a lease

    def test_a_zombie_is_refused(self, store: Store) -> None:
        """Once its lease was taken over, nothing of it gets in any more."""
        zombie = present(store.acquire_lease(ADA, "one"))
        self.kill_owner(store, "one")
        heir = present(store.acquire_lease(ADA, "two"))
        error = refused(store, StaleRun, batch(add("i"), under=zombie))
        assert (error.expected, error.found) == (zombie.epoch, heir.epoch)
        assert store.get(NOTES, ["i"]) == [None]

    def test_an_epoch_without_a_lease_is_refused(self, store: Store) -> None:
        """Never taken, or given back: there is nothing to be under."""
        refused(store, StaleRun, batch(epoch=1))
        lease = present(store.acquire_lease(ADA, "one"))
        store.release_lease(lease)
        refused(store, StaleRun, batch(under=lease))

    def test_an_epoch_is_that_of_its_own_key(self, store: Store) -> None:
        """Another key's lease does not count, not even under an equal name elsewhere.

        Under the lease that holds a commit is taken; outside a run none is needed.
        """
        lease = present(store.acquire_lease(ADA, "one"))
        for scope in (BOB, Scope("other app", "ada"), Scope("ada", None)):
            refused(store, StaleRun, batch(scope=scope, under=lease))
        assert store.commit(batch(add("i"), under=lease)).number
        assert store.commit(batch(add("j"))).number

    # --- reach

    def test_a_batch_may_change_knowledge_too(self, store: Store) -> None:
        """Beside items of its key, or alone: its scope is the knowledge then."""
        found = effects_of(store, add("i"), add("page", to=BOOK))
        assert {item.set for item in found.begun_items} == {NOTES, BOOK}
        assert found.scope == ADA
        commit = store.commit(batch(add("another page", to=BOOK), scope=HANDBOOK))
        assert present(store.effects(commit.number)).scope == HANDBOOK

    def test_a_batch_has_one_key(self, store: Store) -> None:
        """It reaches no set of another key, not even of the same name in another space."""
        for scope in (BOB, Scope("other app", "ada")):
            refused(store, InvalidInput, batch(add("i", to=SetRef(scope, "notes"))))
            refused(store, InvalidInput, batch(Define(SetRef(scope, "notes"), Definition())))


def first() -> Batch:
    """Return a named batch that was asked for by a caller."""
    return batch(add("i"), op=b"op", request=b"asked", label="order-991", result={"id": "i"})


class OpLaws(Laws):
    """What the name of a batch does."""

    def test_a_second_commit_with_a_name_changes_nothing(self, store: Store) -> None:
        """Whatever it carries: the first stands."""
        store.commit(batch(Put(("a",), 1), add("i"), base=0, op=b"op"))
        before, seq = reads(store, now=NOW), store.seq()
        head = store.head(ADA)
        again = batch(Put(("a",), 2), add("j"), base=head, op=b"op", time=NOW + SECOND, result=5)
        assert store.commit(again).adopted
        assert not differences(before, reads(store, now=NOW))
        assert store.seq() == seq

    def test_a_repetition_is_told_the_first_answer(self, store: Store) -> None:
        """Number, time and result are the first commit's, also if that changed nothing."""
        commit = store.commit(first())
        write(store, Put(("a",), 1), time=NOW + SECOND)
        again = store.commit(first())
        assert (again.adopted, commit.adopted) == (True, False)
        assert (again.number, again.time, again.result) == (commit.number, NOW, {"id": "i"})
        store.commit(batch(op=b"empty", result=[1]))
        assert store.commit(batch(op=b"empty")).result == [1]

    def test_a_repetition_is_taken_before_anything_is_checked(self, store: Store) -> None:
        """Its own first commit moved the head, the items and perhaps the lease."""
        write(store, add("i"))
        lease = present(store.acquire_lease(ADA, "one"))
        work = batch(Put(("a",), 1), Retire(NOTES, "i", 1), base=0, under=lease, op=b"op")
        number = store.commit(work).number
        store.release_lease(lease)
        assert store.commit(work).number == number

    @pytest.mark.parametrize("request_", [b"asked", None])
    def test_an_equal_request_is_adopted(self, store: Store, request_: bytes | None) -> None:
        """Also with other contents, which are made anew each time; so is any without a request."""
        commit = store.commit(replace(first(), request=request_))
        again = batch(add("another id"), op=b"op", request=request_, label="order-991")
        assert store.commit(again).number == commit.number

    def test_another_request_is_a_conflict(self, store: Store) -> None:
        """A name that is used for two things is the caller's error; it names the label."""
        store.commit(first())
        other = replace(first(), request=b"other", items=[add("j")])
        assert refused(store, IdempotencyConflict, other).idempotency_key == "order-991"

    def test_names_are_told_apart_by_all_their_bytes(self, store: Store) -> None:
        """NUL, an empty tail, bytes that are no text; but not by key. No name is no name."""
        ops = [b"a", b"a\0", b"a\0b", b"\xff", b"\xff\xfe", b"A", b" a", None, None]
        numbers = [store.commit(batch(op=op)).number for op in ops]
        assert len(set(numbers)) == len(ops)
        assert store.commit(batch(scope=BOB, op=b"a")).number == numbers[0]

    def test_a_name_can_be_looked_up(self, store: Store) -> None:
        """As if it were committed again, but nothing is if it is free."""
        assert store.commit_of_op(b"op", request=b"asked", label="x") is None
        commit = store.commit(first())
        for request in (b"asked", None):
            found = present(store.commit_of_op(b"op", request=request, label="x"))
            assert found.adopted
            assert (found.number, found.time, found.result) == (commit.number, NOW, {"id": "i"})
        with pytest.raises(IdempotencyConflict) as caught:
            store.commit_of_op(b"op", request=b"other", label="x")
        assert caught.value.idempotency_key == "x"
        assert store.commit_of_op(b"another op", request=None, label="x") is None

    def test_a_refused_batch_does_not_take_its_name(self, store: Store) -> None:
        """It may be tried again."""
        refused(store, StaleItem, batch(Retire(NOTES, "i", 1), op=b"op"))
        refused(store, StaleRun, batch(Put(("a",), 1), base=7, op=b"op"))
        assert not store.commit(batch(Put(("a",), 1), base=0, op=b"op")).adopted

    def test_a_result_is_kept_as_a_copy(self, store: Store) -> None:
        """What the caller does to it later, or to what it was told, changes nothing."""
        result: list[object] = [1]
        told = store.commit(batch(op=b"op", result=result))  # pyright: ignore[reportArgumentType] - a list of storable values
        result.append(2)
        assert isinstance(told.result, list)
        told.result.append(3)
        again = store.commit(batch(op=b"op")).result
        assert again == [1]
        assert isinstance(again, list)
        again.append(4)
        assert present(store.effects(told.number)).commit.result == [1]

    def test_names_are_forgotten_after_their_retention(self, store: Store) -> None:
        """A sweep after 90 days drops them; before, it does not."""
        store.commit(first())
        store.sweep(now=NOW + 89 * DAY, ops_kept=0)
        assert store.commit(first()).adopted
        assert store.sweep(now=NOW + 91 * DAY, ops_kept=0) > 0
        assert not store.commit(batch(op=b"op", request=b"other")).adopted
        assert store.node(ADA, (), at=None, now=NOW) == Node(is_object=True)


FURNITURE: tuple[AnyChange, ...] = (
    Put(("first",), 1),
    Create(("object",)),
    Put(("object", "a"), 1),
    Create(("object", "b")),
    Put(("object", "b", "deep"), 1),
    Put(("last",), 1),
    Put(("mortal",), 1, NOW + SECOND),
)

BELOW = [("object", "a"), ("object", "b"), ("object", "b", "deep")]

EFFECTS: dict[str, tuple[tuple[AnyChange, ...], list[tuple[Path, Value]], list[Path]]] = {
    "a value that is put twice counts once": (
        (Put(("a",), 1), Put(("b",), 1), Put(("a",), 2)),
        [(("a",), 2), (("b",), 1)],
        [],
    ),
    "what came and went in one batch never was": (
        (Create(("c",)), Put(("c", "b"), 1), Put(("d",), 1), Delete(("c",)), Delete(("d",))),
        [],
        [],
    ),
    "what came with the batch that clears the root never was": (
        (Put(("d",), 1), Clear(())),
        [],
        sorted([("first",), ("last",), ("mortal",), ("object",), *BELOW]),
    ),
    "a value that is replaced is put but not removed": (
        (Put(("first",), 2), Create(("last",))),
        [(("first",), 2), (("last",), None)],
        [],
    ),
    "a deleted object takes what is below it along": (
        (Delete(("object",)),),
        [],
        [("object",), *BELOW],
    ),
    "an object that is cleared stays": ((Clear(("object",)),), [], BELOW),
    "a refresh makes no version": ((Refresh(("mortal",), NOW + 2 * SECOND),), [], []),
}


def effects_of(store: Store, *changes: AnyChange) -> Effects:
    """Commit *changes*; return what the journal says they did."""
    return present(store.effects(write(store, *changes).number))


class EffectsLaws(Laws):
    """What `effects` and `commit_at` say."""

    def test_commits_say_whose_they_are(self, store: Store) -> None:
        """In order, past any of them, so many at a time."""
        scopes = [ADA, HANDBOOK, BOB, ADA]
        for scope in scopes:
            write(store, add(f"{store.stats().commits}", to=SetRef(scope, "set")), scope=scope)
        told = [*enumerate(scopes, 1)]
        assert store.scopes_of_commits(0) == told
        assert store.scopes_of_commits(1, limit=2) == told[1:3]
        assert store.scopes_of_commits(len(told)) == []
        store.erase(Erasure(BOB, NOW, "one", whole_key=True))
        found = store.scopes_of_commits(2)
        assert BOB not in [scope for _, scope in found]
        assert [number for number, _ in found] == [3, 4, 5]

    def test_there_are_no_effects_of_what_never_was(self, store: Store) -> None:
        """None, for 0, for negative numbers and for the future."""
        last = write(store, add("i")).number
        assert [store.effects(n) for n in (0, -1, last + 1)] == [None, None, None]

    def test_put_nodes_come_parents_first_and_as_made(self, store: Store) -> None:
        """So that they can be put again in that order."""
        found = effects_of(store, *FURNITURE)
        paths = [path for path, _ in found.put_nodes]
        assert paths == [change.path for change in FURNITURE if isinstance(change, (Put, Create))]
        assert found.removed_paths == []

    @pytest.mark.parametrize("case", EFFECTS)
    def test_effects_name_what_was_put_and_removed(self, store: Store, case: str) -> None:
        """Each node once, as it stands in the end."""
        changes, put, removed = EFFECTS[case]
        write(store, *FURNITURE)
        found = effects_of(store, *changes)
        assert sorted((path, node.value) for path, node in found.put_nodes) == put
        assert sorted(found.removed_paths) == removed

    def test_effects_done_again_give_the_same_tree(self, store: Store) -> None:
        """First what was removed, then what was put: order of fields included."""
        write(store, *FURNITURE)
        model = _ordered(store)
        found = effects_of(
            store,
            Put(("last",), 2),
            Delete(("first",)),
            Put(("first",), 3),
            Delete(("object", "b")),
            Create(("object", "b")),
            Put(("object", "c"), 1),
            Put(("new",), 4),
        )
        for path in found.removed_paths:
            model.pop(path, None)
        for path, node in found.put_nodes:
            model[path] = None if node.is_object else node.value
        for parent in ((), ("object",), ("object", "b")):
            fields = store.children(ADA, parent, at=None, now=NOW)
            again = [path[-1] for path in model if path[:-1] == parent and path]
            assert [name for name, _ in fields] == again
        assert model == _ordered(store)

    def test_effects_name_versions_of_items(self, store: Store) -> None:
        """What began and what ended: an edit is both."""
        write(store, add("old"), add("gone"))
        found = effects_of(
            store, add("new"), Replace(NOTES, 1, record("old", "edited")), Retire(NOTES, "gone", 1)
        )
        begun = [(item.record.id, item.version, item.record.text) for item in found.begun_items]
        assert begun == [("new", 1, "text of new"), ("old", 2, "edited")]
        assert sorted((i.record.id, i.version) for i in found.ended_items) == [
            ("gone", 1),
            ("old", 1),
        ]

    def test_an_item_that_came_and_went_in_one_batch_was_live_at_no_commit(
        self, store: Store
    ) -> None:
        """Its version is kept, so that nothing that was accepted is without a trace."""
        found = effects_of(store, add("i"), Retire(NOTES, "i", 1), add("j"))
        assert [item.record.id for item in found.begun_items] == ["i", "j"]
        assert [item.record.id for item in found.ended_items] == ["i"]
        (version,) = store.versions(NOTES, "i")
        assert version.begin_commit == version.end_commit == found.commit.number
        assert store.get(NOTES, ["i"], at=found.commit.number) == [None]

    def test_later_commits_do_not_change_effects(self, store: Store) -> None:
        """What was put stays readable after it was overwritten or deleted."""
        number = write(store, Put(("a",), 1), Put(("b",), 2), add("i")).number
        write(store, Put(("a",), 5), Delete(("b",)), Replace(NOTES, 1, record("i", "edited")))
        found = present(store.effects(number))
        assert [(path, node.value) for path, node in found.put_nodes] == [(("a",), 1), (("b",), 2)]
        assert [item.record.text for item in found.begun_items] == ["text of i"]

    def test_commit_at_finds_the_last_commit_by_a_time(self, store: Store) -> None:
        """At or before it; of several at one time the last; 0 before all."""
        assert store.commit_at(FAR) == 0
        numbers = [store.commit(batch(time=t)).number for t in (NOW, NOW, NOW + SECOND)]
        found = [store.commit_at(t) for t in (NOW - 1, NOW, NOW + 1, NOW + SECOND, FAR)]
        assert found == [0, numbers[1], numbers[1], numbers[2], numbers[2]]


def _ordered(store: Store) -> dict[Path, object]:
    """Return the tree by path; fields of an object come in their order."""
    found: dict[Path, object] = {}
    stack: list[Path] = [()]
    while stack:
        parent = stack.pop()
        for name, node in store.children(ADA, parent, at=None, now=NOW):
            found[(*parent, name)] = None if node.is_object else node.value
            if node.is_object:
                stack.append((*parent, name))
    return found


class GroupLaws(Laws):
    """What batches and inputs owe each other when they are written together."""

    def test_many_batches_are_committed_in_order(self, store: Store) -> None:
        """Each has an answer of its own; a later one sees what an earlier one did."""
        run, lease = accept(store), leased(store)
        steps = [
            Step(run, 0, "greet", begin=BEGIN),
            Step(run, 0, "other"),
            Step(run, 1, "note", done=True),
        ]
        answers = [
            committed(answer)
            for answer in store.commit_many([batch(step, under=lease) for step in steps])
        ]
        assert [answer.adopted for answer in answers] == [False, True, False]
        assert answers[1] == replace(answers[0], adopted=True)
        assert answers[2].number == answers[0].number + 1
        assert there(store, run).status == "done"
        assert store.commit_many([]) == []

    def test_a_refused_batch_of_many_leaves_the_others(self, store: Store) -> None:
        """Its error is its answer; the others stand, as if it had never been."""
        run, lease = accept(store), leased(store)
        good = batch(Step(run, 0, "greet", begin=BEGIN, outputs=["1"]), under=lease)
        answers = store.commit_many(
            [
                batch(add("i")),
                batch(add("j"), add("i")),
                good,
                batch(Step(run, 1, "note"), epoch=lease.epoch + 1),
                replace(good, scope=BOB),
                batch(Step(run + 1, 0, "note"), under=lease),
                batch(Put(("b",), 1), base=7, scope=BOB),
                batch(PUT, base=0),
                batch(add("j"), Put(("b",), 1), base=0, under=lease),
            ]
        )
        kinds = [type(answer) for answer in answers]
        assert kinds == [
            Commit,
            DuplicateItem,
            Commit,
            StaleRun,
            Commit,
            NotFound,
            StaleRun,
            KeyBusy,
            Commit,
        ]
        numbers = [committed(answers[i]).number for i in (0, 2, 4, 8)]
        assert numbers == [1, 2, 2, 3]
        assert [item.record.id for item in store.page(NOTES)] == ["i", "j"]
        assert store.head(ADA) == 3
        assert store.node(BOB, ("b",), at=None, now=NOW) is None

    def test_what_a_refused_batch_of_many_made_is_forgotten(self, store: Store) -> None:
        """A key, a set, the begin and the end of a run: the next batch makes them anew."""
        notes = SetRef(BOB, "notes")
        run, lease = accept(store, BOB), leased(store, BOB)
        step = Step(run, 0, "greet", begin=BEGIN, done=True)
        good = batch(step, scope=BOB, under=lease, release=True)
        bad = replace(good, items=[add("i", to=notes), add("i", to=notes)])
        elsewhere = Scope("another app", "bob")
        fresh = batch(add("j", to=SetRef(elsewhere, "notes")), scope=elsewhere)
        refused, first, again, other, last = store.commit_many(
            [bad, replace(good, items=[add("i", to=notes)]), bad, replace(fresh, base=7), fresh]
        )
        assert isinstance(refused, DuplicateItem)
        assert committed(again) == replace(committed(first), adopted=True)
        assert isinstance(other, StaleRun)
        assert committed(last).number == committed(first).number + 1
        assert there(store, run).now == NOW
        assert there(store, run).status == "done"
        for ref, item in ((notes, "i"), (SetRef(elsewhere, "notes"), "j")):
            assert [found.record.id for found in store.page(ref)] == [item]
            found = present(store.set_info(ref))
            assert found.items == 1
        assert store.keys("another app") == ["bob"]
        assert store.accept("helper", [QueuedInput(BOB, "1", NOW)])[0].first

    def test_refused_inputs_leave_nothing_for_others_of_their_group(self, store: Store) -> None:
        """Numbers, leases and event ids of what was refused are free, whoever wrote beside it."""
        store.accept("helper", [queued_input("e")])
        new = Scope("app", "new")

        def play(i: int) -> int:
            kept = 0
            for j in range(20):
                try:
                    inputs = [
                        QueuedInput(new, f"{i}.{j}", NOW),
                        queued_input("e", "other" if i % 2 else "asked"),
                    ]
                    kept += store.accept("helper", inputs, owner=f"{i}")[0].number >= 0
                except IdempotencyConflict:
                    continue
            return kept

        assert at_once(4, play) == [20, 0, 20, 0]
        assert [run.number for run in store.queued_runs("helper", new)] == list(range(40))
        assert {lease.owner for lease in store.stats().leases} <= {"0", "2"}
