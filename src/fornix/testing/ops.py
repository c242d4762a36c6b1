"""Laws of ops: what has a name is done once, whoever comes again and with whatever."""

from __future__ import annotations

import pytest

from fornix.errors import IdempotencyConflict, StaleItem, StaleRun
from fornix.store import Batch, Node, Put, Retire, Store
from fornix.testing.batches import ADA, BOB, DAY, NOTES, NOW, SECOND, Laws, add, batch, write
from fornix.testing.reads import differences, reads


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
        lease = store.lease(ADA, "one")
        assert lease is not None
        work = batch(Put(("a",), 1), Retire(NOTES, "i", 1), base=0, epoch=lease.epoch, op=b"op")
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
        before = reads(store, now=NOW)
        with pytest.raises(IdempotencyConflict) as caught:
            store.commit(batch(add("j"), op=b"op", request=b"other", label="order-991"))
        assert caught.value.idempotency_key == "order-991"
        assert not differences(before, reads(store, now=NOW))

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
            found = store.adopted(b"op", request=request, label="x")
            assert found is not None
            assert found.adopted
            assert (found.number, found.time, found.result) == (commit.number, NOW, {"id": "i"})
        with pytest.raises(IdempotencyConflict) as caught:
            store.adopted(b"op", request=b"other", label="x")
        assert caught.value.idempotency_key == "x"
        assert store.adopted(b"another op", request=None, label="x") is None

    def test_a_refused_batch_does_not_take_its_name(self, store: Store) -> None:
        """It may be tried again."""
        with pytest.raises(StaleItem):
            store.commit(batch(Retire(NOTES, "i", 1), op=b"op"))
        with pytest.raises(StaleRun):
            store.commit(batch(Put(("a",), 1), base=7, op=b"op"))
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
        found = store.effects(told.number)
        assert found is not None
        assert found.commit.result == [1]

    def test_names_are_forgotten_after_their_retention(self, store: Store) -> None:
        """A sweep after 90 days drops them; before, it does not."""
        store.commit(first())
        store.sweep(now=NOW + 89 * DAY, ops_kept=0)
        assert store.commit(first()).adopted
        assert store.sweep(now=NOW + 91 * DAY, ops_kept=0) > 0
        assert not store.commit(batch(op=b"op", request=b"other")).adopted
        assert store.node(ADA, (), at=None, now=NOW) == Node(is_object=True)
