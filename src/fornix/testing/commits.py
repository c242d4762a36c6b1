"""Laws of `Ledger.commit`: whole or not at all, numbered, timed, guarded."""

from __future__ import annotations

import pytest

from fornix.errors import (
    DuplicateItem,
    FornixError,
    InvalidInput,
    KeyFull,
    NotAnObject,
    ObjectInTheWay,
    SetDefinitionConflict,
    SetFull,
    StaleItem,
    StaleRun,
)
from fornix.store import (
    Create,
    Define,
    Definition,
    Delete,
    Limits,
    Node,
    Put,
    Replace,
    Retire,
    Scope,
    SetRef,
    Store,
)
from fornix.testing.batches import (
    ADA,
    BOB,
    HANDBOOK,
    NOTES,
    NOW,
    SECOND,
    AnyChange,
    Laws,
    add,
    batch,
    record,
    write,
)
from fornix.testing.reads import differences, reads

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
        found = store.effects(commit.number)
        assert found is not None
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
        before, seq = reads(store, now=NOW, scopes=[BOB]), store.seq()
        error, bad = BAD[fault]
        with pytest.raises(error):
            write(store, *GOOD, *bad, time=NOW + SECOND)
        assert not differences(before, reads(store, now=NOW, scopes=[BOB]))
        assert store.seq() == seq
        assert store.commit_at(NOW + SECOND) == store.commit_at(NOW)

    @pytest.mark.parametrize("fault", BAD)
    def test_after_a_refused_batch_a_good_one_commits(self, store: Store, fault: str) -> None:
        """What was undone is undone in every sense: the same changes work now."""
        furnish(store)
        last = store.commit_at(NOW)
        error, bad = BAD[fault]
        with pytest.raises(error):
            write(store, *GOOD, *bad)
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
        before = reads(store, now=NOW)
        with pytest.raises(KeyFull):
            write(store, *GOOD, limits=Limits(items=1))
        assert not differences(before, reads(store, now=NOW))

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
        with pytest.raises(StaleRun) as caught:
            store.commit(batch(Put(("a",), 3), base=first.number))
        assert (caught.value.key, caught.value.expected) == ("ada", first.number)
        assert caught.value.found == second.number

    def test_a_base_from_the_future_is_refused(self, store: Store) -> None:
        """A base is a number that was read, so it has been."""
        with pytest.raises(StaleRun):
            store.commit(batch(Put(("a",), 3), base=1))

    def test_a_base_is_checked_without_changes_of_the_tree_too(self, store: Store) -> None:
        """An action that only read the tree may ask that it has not moved."""
        write(store, Put(("a",), 1))
        with pytest.raises(StaleRun):
            store.commit(batch(add("i"), base=0))
        assert store.get(NOTES, ["i"]) == [None]

    def test_a_base_does_not_move_the_head_without_changes(self, store: Store) -> None:
        """Only what changes the tree does."""
        head = write(store, Put(("a",), 1)).number
        store.commit(batch(add("i"), base=head))
        assert store.head(ADA) == head

    def test_changes_of_the_tree_need_a_base(self, store: Store) -> None:
        """A forgotten base is an error, not a blind write."""
        with pytest.raises(InvalidInput):
            store.commit(batch(Put(("a",), 1)))

    def test_adds_never_conflict(self, store: Store) -> None:
        """The base guards the tree only: without one, items go in whatever happened since."""
        write(store, Put(("a",), 1))
        store.commit(batch(add("i")))
        assert store.get(NOTES, ["i"])[0] is not None

    # --- the epoch of a lease

    def test_a_commit_under_the_lease_that_holds_is_taken(self, store: Store) -> None:
        """Its epoch is the lease's."""
        lease = store.lease(ADA, "one")
        assert lease is not None
        assert store.commit(batch(add("i"), epoch=lease.epoch)).number

    def test_a_zombie_is_refused(self, store: Store) -> None:
        """Once its lease was taken over, nothing of it gets in any more."""
        zombie = store.lease(ADA, "one")
        self.kill_owner(store, "one")
        heir = store.lease(ADA, "two")
        assert zombie is not None
        assert heir is not None
        with pytest.raises(StaleRun) as caught:
            store.commit(batch(add("i"), epoch=zombie.epoch))
        assert (caught.value.expected, caught.value.found) == (zombie.epoch, heir.epoch)
        assert store.get(NOTES, ["i"]) == [None]

    def test_an_epoch_without_a_lease_is_refused(self, store: Store) -> None:
        """Never taken, or given back: there is nothing to be under."""
        with pytest.raises(StaleRun):
            store.commit(batch(epoch=1))
        lease = store.lease(ADA, "one")
        assert lease is not None
        store.release(lease)
        with pytest.raises(StaleRun):
            store.commit(batch(epoch=lease.epoch))

    def test_an_epoch_is_that_of_its_own_key(self, store: Store) -> None:
        """Another key's lease does not count, not even under an equal name elsewhere."""
        lease = store.lease(ADA, "one")
        assert lease is not None
        for scope in (BOB, Scope("other app", "ada"), Scope("ada", None)):
            with pytest.raises(StaleRun):
                store.commit(batch(scope=scope, epoch=lease.epoch))

    def test_a_commit_outside_a_run_needs_no_lease(self, store: Store) -> None:
        """An epoch that is not given is not checked, whoever runs the key."""
        store.lease(ADA, "one")
        assert store.commit(batch(add("i"))).number

    # --- reach

    def test_a_batch_may_change_knowledge_too(self, store: Store) -> None:
        """Items of its key and of knowledge go in with one commit."""
        commit = write(store, add("i"), add("page", to=BOOK))
        found = store.effects(commit.number)
        assert found is not None
        assert {item.set for item in found.begun} == {NOTES, BOOK}
        assert found.scope == ADA

    def test_a_batch_may_be_of_knowledge_alone(self, store: Store) -> None:
        """Its scope is the knowledge then."""
        commit = store.commit(batch(add("page", to=BOOK), scope=HANDBOOK))
        found = store.effects(commit.number)
        assert found is not None
        assert found.scope == HANDBOOK

    def test_a_batch_has_one_key(self, store: Store) -> None:
        """It reaches no set of another key, not even of the same name in another space."""
        for scope in (BOB, Scope("other app", "ada")):
            with pytest.raises(InvalidInput):
                store.commit(batch(add("i", to=SetRef(scope, "notes"))))
            with pytest.raises(InvalidInput):
                store.commit(batch(Define(SetRef(scope, "notes"), Definition())))
