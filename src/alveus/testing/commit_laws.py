"""Laws of commits: they are atomic, may have names, and are in the journal."""

from __future__ import annotations

from dataclasses import replace

import pytest

from alveus.errors import (
    AlveusError,
    DuplicateItem,
    IdempotencyConflict,
    InvalidInput,
    KeyFull,
    NotAnObject,
    ObjectInTheWay,
    SetDefinitionConflict,
    SetFull,
    StaleItem,
    StaleRun,
)
from alveus.store import (
    Batch,
    Create,
    Define,
    Definition,
    Delete,
    Effects,
    Limits,
    Node,
    Put,
    Replace,
    Retire,
    Scope,
    SetRef,
    Store,
)
from alveus.testing.batches import (
    ADA,
    BOB,
    BOOK,
    DAY,
    HANDBOOK,
    NOTES,
    NOW,
    SECOND,
    AnyChange,
    Laws,
    add,
    batch,
    present,
    record,
    refused,
    write,
)
from alveus.testing.reads import differences, reads

FULL = SetRef(ADA, "full")

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
    """Fill a store with data of every kind."""
    write(store, Put(("value",), 1), Create(("object",)), Put(("object", "field"), [1]))
    write(store, Put(("other value",), 1), Create(("other object",)))
    write(store, add("old"), add("older"), add("page", to=BOOK))
    write(store, Define(FULL, Definition(capacity=1, compaction="reject")), add("i", to=FULL))


class CommitLaws(Laws):
    """Laws of a commit as a whole."""

    def test_numbers_start_at_one_and_rise(self, store: Store) -> None:
        """Numbers count the commits of the whole store, over all keys."""
        numbers = [write(store, add(f"{i}"), scope=ADA).number for i in range(2)]
        numbers.append(write(store, Put(("a",), 1), scope=BOB).number)
        assert numbers[0] == 1
        assert numbers == sorted(set(numbers))

    def test_a_commit_is_visible_to_every_read_after_it(self, store: Store) -> None:
        """Tree, items, journal and change log all show the commit at once."""
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
        """A commit returns its number, its time, its result, and whether it was adopted.

        The journal keeps all of them, and the scope. A batch without changes is a commit too.
        """
        answer = store.commit(batch(*changes, result={"answer": [1, None, b"\0"]}))
        assert (answer.number, answer.time, answer.adopted) == (1, NOW, False)
        assert answer.result == {"answer": [1, None, b"\0"]}
        found = present(store.effects(answer.number))
        assert (found.commit, found.scope) == (answer, ADA)
        assert (list(found.put_nodes), len(found.begun_items)) == ([], len(changes))

    def test_commit_times_never_go_back(self, store: Store) -> None:
        """The time of a commit is the caller's clock or, if later, the time of the last commit."""
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
        """A refused batch changes no tree, item, set, journal, change log or count."""
        furnish(store)
        before = reads(store, now=NOW, scopes=[BOB])
        error, bad = BAD[fault]
        refused(store, error, *GOOD, *bad, time=NOW + SECOND)
        assert not differences(before, reads(store, now=NOW, scopes=[BOB]))
        assert store.commit_at(NOW + SECOND) == store.commit_at(NOW)

    @pytest.mark.parametrize("fault", BAD)
    def test_after_a_refused_batch_a_good_one_commits(self, store: Store, fault: str) -> None:
        """A refused batch leaves no trace: the same changes can be committed afterwards."""
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
        """A batch over a key's limits changes nothing."""
        furnish(store)
        refused(store, KeyFull, *GOOD, limits=Limits(items=1))

    # --- the base of the tree

    def test_head_is_the_last_commit_that_changed_the_tree(self, store: Store) -> None:
        """The head starts at 0.

        Items, empty batches, other keys and a base alone do not move the head.
        """
        assert store.head(ADA) == 0
        head = write(store, Put(("a",), 1)).number
        write(store, add("i"))
        store.commit(batch())
        store.commit(batch(add("j"), base=head))
        write(store, Put(("a",), 1), scope=BOB)
        assert store.head(ADA) == head

    def test_a_stale_base_is_refused(self, store: Store) -> None:
        """A batch with the base of an earlier tree is refused. The error names the latest commit.

        A base in the future, and a change of the tree without a base, are refused too.
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
        """The base guards only the tree. Adds of items without a base succeed, whatever changed."""
        write(store, Put(("a",), 1))
        store.commit(batch(add("i")))
        assert store.get(NOTES, ["i"])[0] is not None

    # --- the epoch of a lease

    def test_a_zombie_is_refused(self, store: Store) -> None:
        """After its lease was taken over, an owner can commit nothing more."""
        zombie = present(store.acquire_lease(ADA, "one"))
        self.kill_owner(store, "one")
        heir = present(store.acquire_lease(ADA, "two"))
        error = refused(store, StaleRun, batch(add("i"), under=zombie))
        assert (error.expected, error.found) == (zombie.epoch, heir.epoch)
        assert store.get(NOTES, ["i"]) == [None]

    def test_an_epoch_without_a_lease_is_refused(self, store: Store) -> None:
        """An epoch is refused if the lease was never taken, or was released."""
        refused(store, StaleRun, batch(epoch=1))
        lease = present(store.acquire_lease(ADA, "one"))
        store.release_lease(lease)
        refused(store, StaleRun, batch(under=lease))

    def test_an_epoch_belongs_to_its_key(self, store: Store) -> None:
        """The lease of another key is refused, even of a key with the same name in another space.

        A commit under the valid lease is accepted. Outside a run, no lease is needed.
        """
        lease = present(store.acquire_lease(ADA, "one"))
        for scope in (BOB, Scope("other app", "ada"), Scope("ada", None)):
            refused(store, StaleRun, batch(scope=scope, under=lease))
        assert store.commit(batch(add("i"), under=lease)).number
        assert store.commit(batch(add("j"))).number

    # --- reach

    def test_a_batch_may_change_knowledge_too(self, store: Store) -> None:
        """A batch may also change knowledge, and may have a scope of knowledge."""
        found = effects_of(store, add("i"), add("page", to=BOOK))
        assert {item.set for item in found.begun_items} == {NOTES, BOOK}
        assert found.scope == ADA
        commit = store.commit(batch(add("another page", to=BOOK), scope=HANDBOOK))
        assert present(store.effects(commit.number)).scope == HANDBOOK

    def test_a_batch_has_one_key(self, store: Store) -> None:
        """A batch cannot change sets of another key, even with the same name in another space."""
        for scope in (BOB, Scope("other app", "ada")):
            refused(store, InvalidInput, batch(add("i", to=SetRef(scope, "notes"))))
            refused(store, InvalidInput, batch(Define(SetRef(scope, "notes"), Definition())))


def first() -> Batch:
    """Return a named batch with a caller's request."""
    return batch(add("i"), op=b"op", request=b"asked", label="order-991", result={"id": "i"})


class OpLaws(Laws):
    """Laws of a batch's name (op)."""

    def test_a_second_commit_with_a_name_changes_nothing(self, store: Store) -> None:
        """The first commit with a name stays, whatever a second batch with this name contains."""
        store.commit(batch(Put(("a",), 1), add("i"), base=0, op=b"op"))
        before, seq = reads(store, now=NOW), store.seq()
        head = store.head(ADA)
        again = batch(Put(("a",), 2), add("j"), base=head, op=b"op", time=NOW + SECOND, result=5)
        assert store.commit(again).adopted
        assert not differences(before, reads(store, now=NOW))
        assert store.seq() == seq

    def test_a_repetition_gets_the_first_answer(self, store: Store) -> None:
        """A repetition gets the number, time and result of the first commit.

        This also holds for a batch without changes.
        """
        commit = store.commit(first())
        write(store, Put(("a",), 1), time=NOW + SECOND)
        again = store.commit(first())
        assert (again.adopted, commit.adopted) == (True, False)
        assert (again.number, again.time, again.result) == (commit.number, NOW, {"id": "i"})
        store.commit(batch(op=b"empty", result=[1]))
        assert store.commit(batch(op=b"empty")).result == [1]

    def test_a_repetition_is_taken_before_anything_is_checked(self, store: Store) -> None:
        """A repetition is adopted, even if the first commit moved the head, items or the lease."""
        write(store, add("i"))
        lease = present(store.acquire_lease(ADA, "one"))
        work = batch(Put(("a",), 1), Retire(NOTES, "i", 1), base=0, under=lease, op=b"op")
        number = store.commit(work).number
        store.release_lease(lease)
        assert store.commit(work).number == number

    @pytest.mark.parametrize("request_", [b"asked", None])
    def test_an_equal_request_is_adopted(self, store: Store, request_: bytes | None) -> None:
        """A repetition with an equal request, or without one, is adopted with any contents."""
        commit = store.commit(replace(first(), request=request_))
        again = batch(add("another id"), op=b"op", request=request_, label="order-991")
        assert store.commit(again).number == commit.number

    def test_another_request_is_a_conflict(self, store: Store) -> None:
        """A second request under the same name is refused. The error contains the label."""
        store.commit(first())
        other = replace(first(), request=b"other", items=[add("j")])
        assert refused(store, IdempotencyConflict, other).idempotency_key == "order-991"

    def test_names_differ_in_all_their_bytes(self, store: Store) -> None:
        """Names are compared by all their bytes, NUL included, and over all keys.

        A batch with the op None has no name.
        """
        ops = [b"a", b"a\0", b"a\0b", b"\xff", b"\xff\xfe", b"A", b" a", None, None]
        numbers = [store.commit(batch(op=op)).number for op in ops]
        assert len(set(numbers)) == len(ops)
        assert store.commit(batch(scope=BOB, op=b"a")).number == numbers[0]

    def test_a_name_can_be_looked_up(self, store: Store) -> None:
        """A look-up of a name returns what a repetition would return, or None for a free name."""
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
        """After a refusal, the name can be used again."""
        refused(store, StaleItem, batch(Retire(NOTES, "i", 1), op=b"op"))
        refused(store, StaleRun, batch(Put(("a",), 1), base=7, op=b"op"))
        assert not store.commit(batch(Put(("a",), 1), base=0, op=b"op")).adopted

    def test_a_result_is_kept_as_a_copy(self, store: Store) -> None:
        """Later changes to the result that the caller passed or received change nothing."""
        result: list[object] = [1]
        commit = store.commit(batch(op=b"op", result=result))  # pyright: ignore[reportArgumentType] - a list of storable values
        result.append(2)
        assert isinstance(commit.result, list)
        commit.result.append(3)
        again = store.commit(batch(op=b"op")).result
        assert again == [1]
        assert isinstance(again, list)
        again.append(4)
        assert present(store.effects(commit.number)).commit.result == [1]

    def test_names_are_forgotten_after_their_retention(self, store: Store) -> None:
        """A sweep drops names after 90 days, and not before."""
        store.commit(first())
        store.sweep(now=NOW + 89 * DAY, ops_kept=0)
        assert store.commit(first()).adopted
        assert store.sweep(now=NOW + 91 * DAY, ops_kept=0) > 0
        assert not store.commit(batch(op=b"op", request=b"other")).adopted
        assert store.node(ADA, (), at=None, now=NOW) == Node(is_object=True)


def effects_of(store: Store, *changes: AnyChange) -> Effects:
    """Commit *changes*. Return their effects from the journal."""
    return present(store.effects(write(store, *changes).number))
