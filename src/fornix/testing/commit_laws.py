"""Laws of commits: whole or not at all, named, in the journal, alone and in groups."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fornix.errors import (
    DuplicateItem,
    FornixError,
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
from fornix.store import (
    Batch,
    Clear,
    Commit,
    Create,
    Define,
    Definition,
    Delete,
    Effects,
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
from fornix.testing.batches import (
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
from fornix.testing.reads import FAR, differences, reads, tree
from fornix.testing.run_laws import BEGIN, PUT, accept, asked, committed, leased, there
from fornix.values.storable import Path

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
BAD: dict[str, tuple[type[FornixError], tuple[AnyChange, ...]]] = {
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

    def test_the_answer_says_what_was_committed(self, store: Store) -> None:
        """Number, time, whether it was adopted, and the batch's own result."""
        answer = store.commit(batch(add("i"), result={"told": [1, None]}))
        assert (answer.number, answer.time, answer.adopted) == (1, NOW, False)
        assert answer.result == {"told": [1, None]}

    def test_an_empty_batch_commits(self, store: Store) -> None:
        """A batch that changes nothing still has a number and a row in the journal."""
        commit = store.commit(batch(result="done"))
        found = present(store.effects(commit.number))
        assert found.commit == commit
        assert (list(found.put), list(found.begun)) == ([], [])

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
        """Items, empty batches and other keys do not move it; it starts at 0."""
        assert store.head(ADA) == 0
        first = write(store, Put(("a",), 1))
        write(store, add("i"))
        store.commit(batch())
        write(store, Put(("a",), 1), scope=BOB)
        assert store.head(ADA) == first.number

    def test_a_stale_base_is_refused(self, store: Store) -> None:
        """Work that started from an earlier tree must be repeated; the error says from where."""
        first = write(store, Put(("a",), 1))
        second = write(store, Put(("a",), 2))
        error = refused(store, StaleRun, batch(Put(("a",), 3), base=first.number))
        assert (error.key, error.expected) == ("ada", first.number)
        assert error.found == second.number

    def test_a_base_from_the_future_is_refused(self, store: Store) -> None:
        """A base is a number that was read, so it has been."""
        refused(store, StaleRun, batch(Put(("a",), 3), base=1))

    def test_a_base_is_checked_without_changes_of_the_tree_too(self, store: Store) -> None:
        """An action that only read the tree may ask that it has not moved."""
        write(store, Put(("a",), 1))
        refused(store, StaleRun, batch(add("i"), base=0))
        assert store.get(NOTES, ["i"]) == [None]

    def test_a_base_does_not_move_the_head_without_changes(self, store: Store) -> None:
        """Only what changes the tree does."""
        head = write(store, Put(("a",), 1)).number
        store.commit(batch(add("i"), base=head))
        assert store.head(ADA) == head

    def test_changes_of_the_tree_need_a_base(self, store: Store) -> None:
        """A forgotten base is an error, not a blind write."""
        refused(store, InvalidInput, batch(Put(("a",), 1)))

    def test_adds_never_conflict(self, store: Store) -> None:
        """The base guards the tree only: without one, items go in whatever happened since."""
        write(store, Put(("a",), 1))
        store.commit(batch(add("i")))
        assert store.get(NOTES, ["i"])[0] is not None

    # --- the epoch of a lease

    def test_a_commit_under_the_lease_that_holds_is_taken(self, store: Store) -> None:
        """Its epoch is the lease's."""
        assert store.commit(batch(add("i"), epoch=present(store.lease(ADA, "one")).epoch)).number

    def test_a_zombie_is_refused(self, store: Store) -> None:
        """Once its lease was taken over, nothing of it gets in any more."""
        zombie = present(store.lease(ADA, "one"))
        self.kill_owner(store, "one")
        heir = present(store.lease(ADA, "two"))
        error = refused(store, StaleRun, batch(add("i"), under=zombie))
        assert (error.expected, error.found) == (zombie.epoch, heir.epoch)
        assert store.get(NOTES, ["i"]) == [None]

    def test_an_epoch_without_a_lease_is_refused(self, store: Store) -> None:
        """Never taken, or given back: there is nothing to be under."""
        refused(store, StaleRun, batch(epoch=1))
        lease = present(store.lease(ADA, "one"))
        store.release(lease)
        refused(store, StaleRun, batch(under=lease))

    def test_an_epoch_is_that_of_its_own_key(self, store: Store) -> None:
        """Another key's lease does not count, not even under an equal name elsewhere."""
        lease = present(store.lease(ADA, "one"))
        for scope in (BOB, Scope("other app", "ada"), Scope("ada", None)):
            refused(store, StaleRun, batch(scope=scope, under=lease))

    def test_a_commit_outside_a_run_needs_no_lease(self, store: Store) -> None:
        """An epoch that is not given is not checked, whoever runs the key."""
        store.lease(ADA, "one")
        assert store.commit(batch(add("i"))).number

    # --- reach

    def test_a_batch_may_change_knowledge_too(self, store: Store) -> None:
        """Items of its key and of knowledge go in with one commit."""
        commit = write(store, add("i"), add("page", to=BOOK))
        found = present(store.effects(commit.number))
        assert {item.set for item in found.begun} == {NOTES, BOOK}
        assert found.scope == ADA

    def test_a_batch_may_be_of_knowledge_alone(self, store: Store) -> None:
        """Its scope is the knowledge then."""
        commit = store.commit(batch(add("page", to=BOOK), scope=HANDBOOK))
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
        """Number, time and result are the first commit's."""
        commit = store.commit(first())
        write(store, Put(("a",), 1), time=NOW + SECOND)
        again = store.commit(first())
        assert again.adopted
        assert not commit.adopted
        assert (again.number, again.time, again.result) == (commit.number, NOW, {"id": "i"})

    def test_a_repetition_is_taken_before_anything_is_checked(self, store: Store) -> None:
        """Its own first commit moved the head, the items and perhaps the lease."""
        write(store, add("i"))
        lease = present(store.lease(ADA, "one"))
        work = batch(Put(("a",), 1), Retire(NOTES, "i", 1), base=0, under=lease, op=b"op")
        number = store.commit(work).number
        store.release(lease)
        assert store.commit(work).number == number

    def test_an_equal_request_is_adopted(self, store: Store) -> None:
        """Also with other contents: ids and times are made anew each time."""
        commit = store.commit(first())
        again = batch(add("another id"), op=b"op", request=b"asked", label="order-991")
        assert store.commit(again).number == commit.number

    def test_another_request_is_a_conflict(self, store: Store) -> None:
        """A name that is used for two things is the caller's error; it names the label."""
        store.commit(first())
        other = replace(first(), request=b"other", items=[add("j")])
        assert refused(store, IdempotencyConflict, other).idempotency_key == "order-991"

    def test_without_a_request_any_repetition_is_adopted(self, store: Store) -> None:
        """The attempts of a run may differ; the first that committed stands."""
        commit = store.commit(batch(add("i"), op=b"op"))
        assert store.commit(batch(add("j"), op=b"op")).number == commit.number

    def test_nameless_batches_are_never_the_same(self, store: Store) -> None:
        """Two equal events both happen."""
        numbers = {store.commit(batch(result=1)).number for _ in range(2)}
        assert len(numbers) == len(["first", "second"])

    def test_names_are_told_apart_by_all_their_bytes(self, store: Store) -> None:
        """NUL, an empty tail, bytes that are no text."""
        ops = [b"a", b"a\0", b"a\0b", b"\xff", b"\xff\xfe", b"A", b" a"]
        numbers = {store.commit(batch(op=op)).number for op in ops}
        assert len(numbers) == len(ops)

    def test_a_name_is_one_in_the_whole_store(self, store: Store) -> None:
        """Whoever makes names puts the key into them."""
        commit = store.commit(batch(scope=ADA, op=b"op"))
        assert store.commit(batch(scope=BOB, op=b"op")).number == commit.number

    def test_a_name_can_be_looked_up(self, store: Store) -> None:
        """As if it were committed again, but nothing is if it is free."""
        assert store.adopted(b"op", request=b"asked", label="x") is None
        commit = store.commit(first())
        for request in (b"asked", None):
            found = present(store.adopted(b"op", request=request, label="x"))
            assert found.adopted
            assert (found.number, found.time, found.result) == (commit.number, NOW, {"id": "i"})
        with pytest.raises(IdempotencyConflict) as caught:
            store.adopted(b"op", request=b"other", label="x")
        assert caught.value.idempotency_key == "x"
        assert store.adopted(b"another op", request=None, label="x") is None

    def test_a_refused_batch_does_not_take_its_name(self, store: Store) -> None:
        """It may be tried again."""
        refused(store, StaleItem, batch(Retire(NOTES, "i", 1), op=b"op"))
        refused(store, StaleRun, batch(Put(("a",), 1), base=7, op=b"op"))
        assert not store.commit(batch(Put(("a",), 1), base=0, op=b"op")).adopted

    def test_a_batch_without_changes_takes_its_name(self, store: Store) -> None:
        """That nothing was to be done is worth remembering too."""
        store.commit(batch(op=b"op", result=[1]))
        assert store.commit(batch(op=b"op")).result == [1]

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
)


def effects_of(store: Store, *changes: AnyChange) -> Effects:
    """Commit *changes*; return what the journal says they did."""
    return present(store.effects(write(store, *changes).number))


class EffectsLaws(Laws):
    """What `effects` and `commit_at` say."""

    def test_effects_carry_the_commit_itself(self, store: Store) -> None:
        """As it was answered, with its scope."""
        commit = store.commit(batch(add("i"), result={"a": b"\0"}))
        found = present(store.effects(commit.number))
        assert (found.commit, found.scope) == (commit, ADA)

    def test_there_are_no_effects_of_what_never_was(self, store: Store) -> None:
        """None, for 0, for negative numbers and for the future."""
        last = write(store, add("i")).number
        assert [store.effects(n) for n in (0, -1, last + 1)] == [None, None, None]

    def test_put_nodes_come_parents_first_and_as_made(self, store: Store) -> None:
        """So that they can be put again in that order."""
        found = effects_of(store, *FURNITURE)
        paths = [path for path, _ in found.put]
        assert paths == [change.path for change in FURNITURE if isinstance(change, (Put, Create))]
        assert found.removed == []

    def test_a_value_put_twice_counts_once(self, store: Store) -> None:
        """With what stands there in the end."""
        found = effects_of(store, Put(("a",), 1), Put(("b",), 1), Put(("a",), 2))
        assert [(path, node.value) for path, node in sorted(found.put)] == [
            (("a",), 2),
            (("b",), 1),
        ]

    def test_what_came_and_went_in_one_batch_never_was(self, store: Store) -> None:
        """Neither put nor removed."""
        found = effects_of(
            store, Create(("a",)), Put(("a", "b"), 1), Put(("c",), 1), Delete(("a",)), Clear(())
        )
        assert (list(found.put), list(found.removed)) == ([], [])
        assert tree(store, ADA, now=NOW) == []

    def test_a_replaced_value_is_put_but_not_removed(self, store: Store) -> None:
        """It keeps its place."""
        write(store, *FURNITURE)
        found = effects_of(store, Put(("first",), 2), Create(("last",)))
        assert sorted(path for path, _ in found.put) == [("first",), ("last",)]
        assert list(found.removed) == []

    def test_every_node_of_a_removed_subtree_is_named(self, store: Store) -> None:
        """A deleted object takes what is below it along."""
        write(store, *FURNITURE)
        found = effects_of(store, Delete(("object",)))
        assert sorted(found.removed) == [
            ("object",),
            ("object", "a"),
            ("object", "b"),
            ("object", "b", "deep"),
        ]

    def test_clearing_names_all_but_the_object(self, store: Store) -> None:
        """Which stays."""
        write(store, *FURNITURE)
        found = effects_of(store, Clear(("object",)))
        assert sorted(found.removed) == [("object", "a"), ("object", "b"), ("object", "b", "deep")]

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
        for path in found.removed:
            model.pop(path, None)
        for path, node in found.put:
            model[path] = None if node.is_object else node.value
        for parent in ((), ("object",), ("object", "b")):
            fields = store.children(ADA, parent, at=None, now=NOW)
            again = [path[-1] for path in model if path[:-1] == parent and path]
            assert [name for name, _ in fields] == again
        assert model == _ordered(store)

    def test_a_refresh_makes_no_version(self, store: Store) -> None:
        """It is no effect."""
        write(store, Put(("a",), 1, NOW + SECOND))
        found = effects_of(store, Refresh(("a",), NOW + 2 * SECOND))
        assert (list(found.put), list(found.removed)) == ([], [])

    def test_effects_name_versions_of_items(self, store: Store) -> None:
        """What began and what ended: an edit is both."""
        write(store, add("old"), add("gone"))
        found = effects_of(
            store, add("new"), Replace(NOTES, 1, record("old", "edited")), Retire(NOTES, "gone", 1)
        )
        begun = [(item.record.id, item.version, item.record.text) for item in found.begun]
        assert begun == [("new", 1, "text of new"), ("old", 2, "edited")]
        assert sorted((i.record.id, i.version) for i in found.ended) == [("gone", 1), ("old", 1)]

    def test_an_item_that_came_and_went_in_one_batch_was_live_at_no_commit(
        self, store: Store
    ) -> None:
        """Its version is kept, so that nothing that was accepted is without a trace."""
        found = effects_of(store, add("i"), Retire(NOTES, "i", 1), add("j"))
        assert [item.record.id for item in found.begun] == ["i", "j"]
        assert [item.record.id for item in found.ended] == ["i"]
        (version,) = store.versions(NOTES, "i")
        assert version.begun == version.ended == found.commit.number
        assert store.get(NOTES, ["i"], at=found.commit.number) == [None]

    def test_later_commits_do_not_change_effects(self, store: Store) -> None:
        """What was put stays readable after it was overwritten or deleted."""
        number = write(store, Put(("a",), 1), Put(("b",), 2), add("i")).number
        write(store, Put(("a",), 5), Delete(("b",)), Replace(NOTES, 1, record("i", "edited")))
        found = present(store.effects(number))
        assert [(path, node.value) for path, node in found.put] == [(("a",), 1), (("b",), 2)]
        assert [item.record.text for item in found.begun] == ["text of i"]

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
        store.accept("helper", [asked("e")])
        new = Scope("app", "new")

        def play(i: int) -> int:
            kept = 0
            for j in range(20):
                try:
                    inputs = [
                        QueuedInput(new, f"{i}.{j}", NOW),
                        asked("e", "other" if i % 2 else "asked"),
                    ]
                    kept += store.accept("helper", inputs, owner=f"{i}")[0].number >= 0
                except IdempotencyConflict:
                    continue
            return kept

        assert at_once(4, play) == [20, 0, 20, 0]
        assert [run.number for run in store.queue("helper", new)] == list(range(40))
        assert {lease.owner for lease in store.stats().leases} <= {"0", "2"}
