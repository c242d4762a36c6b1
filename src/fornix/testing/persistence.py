"""Laws of stores that last: closed and opened, or opened twice, they are the same."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from fornix.errors import KeyBusy, NotFound, StaleRun
from fornix.store import (
    Add,
    Compact,
    Create,
    Define,
    Definition,
    Delete,
    DurableCall,
    Link,
    Put,
    QueuedInput,
    Replace,
    Retain,
    Retire,
    StatusChange,
    Step,
    Store,
    Undo,
)
from fornix.testing.batches import (
    ADA,
    HANDBOOK,
    NOTES,
    NOW,
    SECOND,
    Laws,
    add,
    batch,
    record,
    write,
)
from fornix.testing.finder import waiting
from fornix.testing.items import only
from fornix.testing.lanes import BEGIN, accept, asked, end, leased, told
from fornix.testing.reads import FAR, Follower, differences, reads
from fornix.testing.sets import BOOK


def furnish(store: Store) -> None:
    """Fill a store with something of everything."""
    write(store, Put(("a",), float("nan")), Create(("o",)), Put(("o", "x"), 1, NOW + SECOND))
    write(store, Define(NOTES, Definition(capacity=9)), add("i"), Add(NOTES, waiting("w")))
    write(store, Delete(("a",)), Replace(NOTES, 1, record("i", "new")), add("page", to=BOOK))
    store.commit(batch(Retire(BOOK, "page", 1), scope=HANDBOOK, op=b"op", result=[1]))
    summary = Add(NOTES, record("sum"), links=[Link(NOTES, "c"), Link(NOTES, "i")], accessed=NOW)
    write(store, add("c"), Compact(NOTES, [("c", 1)], [summary], '{"by": "hand"}'))
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

    def test_a_compaction_is_undone_after_a_close(self, store: Store, path: Path) -> None:
        """What it retired and what was derived is there, and comes back as it was."""
        furnish(store)
        was, done = store.versions(NOTES, "c")[0], store.compactions(NOTES)[0]
        store.close()
        again = self.open(path)
        assert again.compactions(NOTES) == [done]
        assert [row for row, _ in again.derived([was.row])] == list(done.added)
        write(again, Undo(NOTES, done.id))
        found = only(again, "c")
        assert replace(was, row=0, version=2, begun=0, ended=None) == replace(found, row=0, begun=0)
        assert again.get(NOTES, ["sum"]) == [None]
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

    def test_runs_go_on_after_a_close(self, store: Store, path: Path) -> None:
        """Inputs, steps, calls, outputs and consumers are there; numbers and ids go on."""
        first, second = (a.run or 0 for a in store.accept("helper", [asked("e"), asked("f")]))
        lease = leased(store)
        call = DurableCall(first, 0, 0, "fetch", "digest", "pending", begin=BEGIN)
        store.commit(told(call, epoch=lease.epoch))
        step = Step(first, 0, "greet", sensory="1", outputs=["1"])
        work = told(step, epoch=lease.epoch)
        commit = store.commit(work)
        store.consumer("helper", "app", "mail")
        store.advance("helper", "app", "mail", 3)
        before = [store.runs("app"), store.steps(first), store.outputs("helper", "app")]
        store.close()
        again = self.open(path)
        after = [again.runs("app"), again.steps(first), again.outputs("helper", "app")]
        assert after == before
        assert again.calls(first, 0) == [replace(call, begin=None)]
        assert again.consumer("helper", "app", "mail") == 3
        assert again.commit(work) == replace(commit, adopted=True)
        assert again.accept("helper", [asked("e")])[0].run == first
        third = again.accept("helper", [QueuedInput(ADA, "3", NOW)])[0]
        assert (third.number, third.first) == (2, False)
        assert (third.run or 0) > second
        heir = leased(again, owner="two")
        with pytest.raises(StaleRun):
            again.commit(told(Step(first, 1, "note"), epoch=lease.epoch))
        again.commit(told(Step(first, 1, "note", done=True), epoch=heir.epoch))
        assert [found.sensory for found in again.steps(first)] == [None, None]
        assert [run.id for run in again.queue("helper", ADA)] == [second, third.run]
        again.close()

    def test_no_id_of_a_run_is_used_twice(self, store: Store, path: Path) -> None:
        """Not even that of the last one, when it was pruned."""
        run = accept(store)
        end(store, run)
        store.prune("helper", "app", Retain(age=timedelta(microseconds=0)), now=NOW)
        store.close()
        again = self.open(path)
        assert accept(again) > run
        assert [found.number for found in again.runs("app")] == [1]
        again.close()

    def test_two_handles_serve_one_lane(self, store: Store, path: Path) -> None:
        """Each sees what the other accepted, did, parked and pruned; caches or not."""
        other = self.open(path)
        ids = [accept(each) for each in (store, other, store)]
        lease = leased(store)
        step = Step(ids[0], 0, "greet", begin=BEGIN, outputs=["1"])
        work = told(step, epoch=lease.epoch, base=0, state=[Put(("a",), 1)])
        store.commit(work)
        assert other.commit(work).adopted
        with pytest.raises(KeyBusy):
            write(other, Put(("a",), 2))
        other.commit(told(StatusChange(ids[0], "waiting", "parked", '"why"')))
        with pytest.raises(StaleRun):
            store.commit(told(Step(ids[0], 1, "note"), epoch=lease.epoch))
        assert other.retry(ids[0], last=True, time=NOW) > ids[2]
        assert store.accept("helper", [QueuedInput(ADA, "5", NOW)])[0].number == 4
        store.release(lease)
        heir = other.accept("helper", [QueuedInput(ADA, "6", NOW)], owner="two")[0].lease
        assert heir is not None
        assert store.lease(ADA, "one") is None
        other.prune("helper", "app", Retain(age=timedelta(microseconds=0)), now=NOW)
        with pytest.raises(NotFound):
            store.commit(told(StatusChange(ids[0], "waiting", "parked")))
        for each in (store, other):
            assert [run.number for run in each.queue("helper", ADA)] == [1, 2, 3, 4, 5]
        other.close()

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
