"""Laws of stores that last: closed and opened, or opened twice, they are the same."""

from __future__ import annotations

from pathlib import Path

from fornix.store import Add, Create, Define, Definition, Delete, Put, Replace, Retire, Store
from fornix.testing.batches import ADA, HANDBOOK, NOTES, NOW, SECOND, add, batch, record, write
from fornix.testing.finder import waiting
from fornix.testing.items import only
from fornix.testing.laws import Laws
from fornix.testing.reads import FAR, Follower, differences, reads
from fornix.testing.sets import BOOK


def furnish(store: Store) -> None:
    """Fill a store with something of everything."""
    write(store, Put(("a",), float("nan")), Create(("o",)), Put(("o", "x"), 1, NOW + SECOND))
    write(store, Define(NOTES, Definition(capacity=9)), add("i"), Add(NOTES, waiting("w")))
    write(store, Delete(("a",)), Replace(NOTES, 1, record("i", "new")), add("page", to=BOOK))
    store.commit(batch(Retire(BOOK, "page", 1), scope=HANDBOOK, op=b"op", result=[1]))
    store.put_note("n", "noted", expected=None)


class PersistenceLaws(Laws):
    """What is the same after a close."""

    def test_all_is_there_after_a_close(self, store: Store, path: Path) -> None:
        """Every read, of the past too."""
        furnish(store)
        before, salt, seq = reads(store, now=NOW), store.salt(), store.seq()
        store.close()
        again = self.open(path)
        assert not differences(before, reads(again, now=NOW))
        assert (again.salt(), again.seq(), again.note("n")) == (salt, seq, "noted")
        again.close()

    def test_numbers_go_on(self, store: Store, path: Path) -> None:
        """Of commits, rows and lines: none is used twice; time does not go back."""
        furnish(store)
        number, seq, row = store.commit_at(FAR), store.seq(), only(store, "i").row
        write(store, Retire(NOTES, "i", 2), time=NOW + SECOND)
        store.close()
        again = self.open(path)
        commit = write(again, add("new"))
        assert commit.number > number
        assert commit.time == NOW + SECOND
        assert only(again, "new").row > row
        assert again.seq() > seq
        again.close()

    def test_an_op_is_known_after_a_close(self, store: Store, path: Path) -> None:
        """That is what it is for."""
        furnish(store)
        store.close()
        again = self.open(path)
        answer = again.commit(batch(add("x"), op=b"op"))
        assert (answer.adopted, answer.result) == (True, [1])
        again.close()

    def test_touches_are_flushed_by_a_close(self, store: Store, path: Path) -> None:
        """A kill may lose them, a close does not."""
        furnish(store)
        store.touch([only(store).first], time=NOW + SECOND)
        store.close()
        again = self.open(path)
        assert only(again).accessed == NOW + SECOND
        again.close()

    def test_a_follower_goes_on_after_a_close(self, store: Store, path: Path) -> None:
        """The change log is the same one."""
        furnish(store)
        follower = Follower()
        follower.catch_up(store)
        store.close()
        again = self.open(path)
        write(again, Retire(NOTES, "w", 1), add("j"))
        follower.catch_up(again)
        assert follower.agrees_with(again)
        again.close()

    def test_the_owners_of_a_closed_handle_are_dead(self, store: Store, path: Path) -> None:
        """Their leases are taken over at once."""
        before = store.lease(ADA, "one")
        store.close()
        again = self.open(path)
        after = again.lease(ADA, "two")
        assert before is not None
        assert after is not None
        assert after.epoch > before.epoch
        again.close()

    def test_another_handle_sees_every_commit(self, store: Store, path: Path) -> None:
        """And the other way round, caches or not."""
        other = self.open(path)
        furnish(store)
        assert not differences(reads(store, now=NOW), reads(other, now=NOW))
        write(other, Put(("b",), 1), add("j"), Define(BOOK, Definition(capacity=1), replace=True))
        write(store, Put(("c",), 1), add("k", to=BOOK), add("l", to=BOOK))
        assert not differences(reads(store, now=NOW), reads(other, now=NOW))
        assert other.lease(ADA, "one") is not None
        assert store.lease(ADA, "two") is None
        other.close()
