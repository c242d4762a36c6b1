"""Laws of what a batch tells of a run: steps, durable calls, turns, and their fencing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fornix.errors import (
    Conflict,
    FornixError,
    InvalidInput,
    KeyBusy,
    NotFound,
    StaleRun,
    TooLarge,
)
from fornix.store import (
    Batch,
    Begin,
    Commit,
    DurableCall,
    Lease,
    Node,
    Progress,
    Put,
    StatusChange,
    Step,
    StepDone,
    Store,
)
from fornix.testing.batches import ADA, BOB, NOW, SECOND, Laws, add, batch, write
from fornix.testing.lanes import BEGIN, accept, leased, there, told, turn
from fornix.testing.reads import differences, reads

PUT = Put(("a",), 1)


def begun(store: Store) -> tuple[int, Lease]:
    """Return a run that has done its first step, and the lease it did it under."""
    run, lease = accept(store), leased(store)
    step = Step(run, 0, "greet", sent="[]", sensory='"felt"', looked='"seen"', begin=BEGIN)
    store.commit(told(step, epoch=lease.epoch))
    return run, lease


def call(
    run: int, position: int = 0, outcome: str | None = None, *, ordinal: int = 1
) -> DurableCall:
    """Return a durable call: pending, or returned if it has an outcome."""
    status = "pending" if outcome is None else "returned"
    return DurableCall(run, ordinal, position, "fetch", "digest", status, outcome)


def committed(answer: Commit | FornixError) -> Commit:
    """Return the answer to a batch that was taken."""
    assert isinstance(answer, Commit)
    return answer


class ProgressLaws(Laws):
    """What becomes of a run, commit by commit."""

    # --- steps

    def test_a_step_is_kept_with_what_it_changed(self, store: Store) -> None:
        """One commit has both; `steps` says which, and `effects` shows it."""
        run, lease = accept(store), leased(store)
        step = Step(run, 0, "greet", "[1]", '"felt"', '"seen"', begin=BEGIN)
        commit = store.commit(told(step, epoch=lease.epoch, base=0, state=[PUT]))
        assert store.steps(run) == [
            StepDone(run, 0, "greet", commit.number, "[1]", '"felt"', '"seen"', None)
        ]
        effects = store.effects(commit.number)
        assert effects is not None
        assert list(effects.put) == [(("a",), Node(is_object=False, value=1))]
        assert (commit.adopted, store.head(ADA)) == (False, commit.number)

    def test_steps_are_read_by_ordinal(self, store: Store) -> None:
        """In whatever order they were done; a skipped one with its error; other runs' are apart."""
        run, lease = begun(store)
        other = accept(store)
        store.commit(told(Step(run, 2, "last"), epoch=lease.epoch))
        store.commit(told(Step(run, 1, "note", skipped='"error"'), epoch=lease.epoch))
        store.commit(told(Step(other, 0, "greet", begin=BEGIN), epoch=lease.epoch))
        assert [(s.ordinal, s.action, s.skipped) for s in store.steps(run)] == [
            (0, "greet", None),
            (1, "note", '"error"'),
            (2, "last", None),
        ]
        assert [step.action for step in store.steps(other)] == ["greet"]

    def test_a_second_step_of_a_name_changes_nothing(self, store: Store) -> None:
        """It adopts the first, with all of its batch: number, time and result are the first's."""
        run, lease = accept(store), leased(store)
        step = Step(run, 0, "greet", outputs=["1"], begin=BEGIN)
        first = store.commit(
            replace(told(step, epoch=lease.epoch, base=0, state=[PUT]), result=["first"])
        )
        before = reads(store, now=NOW)
        again = Step(run, 0, "other", outputs=["2", "3"], begin=Begin(0, ()), done=True)
        batch = told(again, epoch=lease.epoch, base=first.number, state=[Put(("b",), 2)])
        answer = store.commit(replace(batch, items=[add("i")], release=True, time=NOW + SECOND))
        assert answer == replace(first, adopted=True)
        assert not differences(before, reads(store, now=NOW))
        assert [output.event for output in store.outputs_of(run)] == ["1"]
        assert (there(store, run).status, there(store, run).now) == ("waiting", NOW)
        assert store.lease(ADA, "two") is None

    def test_a_step_is_adopted_before_anything_is_checked(self, store: Store) -> None:
        """Its lease may be another's by now, its run ended, its base old."""
        run, lease = accept(store), leased(store)
        work = told(
            Step(run, 0, "greet", begin=BEGIN, done=True),
            epoch=lease.epoch,
            base=0,
            state=[PUT],
            release=True,
        )
        first = store.commit(work)
        assert leased(store, owner="two").epoch > lease.epoch
        assert store.commit(work) == replace(first, adopted=True)

    def test_what_a_run_sent_out_is_kept_in_order(self, store: Store) -> None:
        """With its place in the run, its key and the time of its commit."""
        run, lease = begun(store)
        commit = store.commit(
            told(Step(run, 1, "note", outputs=["1", "2"]), epoch=lease.epoch, time=NOW + SECOND)
        )
        store.commit(told(Step(run, 2, "note", outputs=["3"]), epoch=lease.epoch))
        found = store.outputs_of(run)
        assert [(o.event, o.run, o.number, o.ordinal, o.key) for o in found] == [
            ("1", run, 0, 1, "ada"),
            ("2", run, 0, 1, "ada"),
            ("3", run, 0, 2, "ada"),
        ]
        assert [o.time for o in found] == [commit.time] * 3
        positions = [o.position for o in found]
        assert positions == sorted(set(positions))

    def test_the_first_commit_of_a_run_begins_it(self, store: Store) -> None:
        """Its time and its actions stay; later ones are ignored."""
        run, lease = begun(store)
        assert there(store, run).now == NOW
        assert there(store, run).actions == ("greet", "note")
        again = Begin(NOW + SECOND, ("other",))
        store.commit(told(Step(run, 1, "note", begin=again), epoch=lease.epoch))
        store.commit(told(replace(call(run, ordinal=2), begin=again), epoch=lease.epoch))
        assert there(store, run).now == NOW
        assert there(store, run).actions == ("greet", "note")

    @pytest.mark.parametrize("kind", ["step", "call", "turn"])
    def test_a_run_may_begin_with_anything(self, store: Store, kind: str) -> None:
        """A step, a durable call, or being parked at once; an empty list of actions is one."""
        run, lease = accept(store), leased(store)
        begin = Begin(NOW, ())
        ways: dict[str, Progress] = {
            "step": Step(run, 0, "greet", begin=begin),
            "call": DurableCall(run, 0, 0, "fetch", "digest", "pending", begin=begin),
            "turn": StatusChange(run, "waiting", "parked", begin=begin),
        }
        store.commit(told(ways[kind], epoch=lease.epoch))
        assert (there(store, run).now, there(store, run).actions) == (NOW, ())

    def test_a_first_step_or_call_without_a_begin_is_refused(self, store: Store) -> None:
        """What replays a run needs it."""
        run, lease = accept(store), leased(store)
        for progress in (Step(run, 0, "greet"), call(run)):
            with pytest.raises(InvalidInput):
                store.commit(told(progress, epoch=lease.epoch))
        assert (store.steps(run), store.calls(run, 1)) == ([], [])

    def test_the_last_step_ends_the_run(self, store: Store) -> None:
        """In its own commit: done, at its time, without error or sensory memory."""
        run, lease = begun(store)
        turn(store, run, "parked", '"why"')
        turn(store, run, "waiting")
        commit = store.commit(
            told(Step(run, 1, "note", sensory="2", done=True), epoch=lease.epoch, time=NOW + SECOND)
        )
        found = there(store, run)
        assert (found.status, found.ended, found.error) == ("done", commit.time, None)
        assert [step.sensory for step in store.steps(run)] == [None, None]
        assert [step.looked for step in store.steps(run)] == ['"seen"', None]
        assert store.queue("helper", ADA) == []

    def test_an_only_step_leaves_no_sensory_memory(self, store: Store) -> None:
        """It begins the run and ends it."""
        run, lease = accept(store), leased(store)
        step = Step(run, 0, "greet", sensory="1", begin=BEGIN, done=True)
        store.commit(told(step, epoch=lease.epoch))
        assert [done.sensory for done in store.steps(run)] == [None]
        assert there(store, run).actions == BEGIN.actions

    def test_a_commit_gives_its_lease_back(self, store: Store) -> None:
        """If it says so; then the key is free for anyone, and the epoch no longer holds."""
        run, lease = begun(store)
        store.commit(told(Step(run, 1, "note"), epoch=lease.epoch, release=True))
        with pytest.raises(StaleRun):
            store.commit(told(Step(run, 2, "note"), epoch=lease.epoch))
        assert leased(store, owner="two").epoch > lease.epoch

    # --- durable calls

    def test_durable_calls_are_read_by_position(self, store: Store) -> None:
        """Of one task; without what their commit did beside."""
        run, lease = begun(store)
        for each in (call(run, 1, "1"), call(run, 0, "0"), call(run, 0, "other", ordinal=2)):
            store.commit(told(each, epoch=lease.epoch))
        assert store.calls(run, 1) == [call(run, 0, "0"), call(run, 1, "1")]
        assert store.calls(run, 2) == [call(run, 0, "other", ordinal=2)]
        assert store.calls(run, 0) == store.calls(run + 1, 1) == []

    def test_a_pending_call_is_replaced(self, store: Store) -> None:
        """By another attempt, or by what it returned or raised."""
        run, lease = begun(store)
        ways = (
            call(run),
            replace(call(run), attempts=2, digest="new"),
            replace(call(run), status="raised", outcome='"error"', attempts=3),
        )
        for each in ways:
            assert not store.commit(told(each, epoch=lease.epoch)).adopted
            assert store.calls(run, 1) == [each]

    def test_a_complete_call_stands(self, store: Store) -> None:
        """A second one adopts it, before anything is checked, and changes nothing."""
        run, lease = begun(store)
        first = store.commit(told(call(run, 0, "1"), epoch=lease.epoch))
        store.release(lease)
        for other in (call(run, 0, "2"), call(run)):
            work = told(other, epoch=lease.epoch, base=7, state=[PUT])
            assert store.commit(work) == replace(first, adopted=True)
        assert store.calls(run, 1) == [call(run, 0, "1")]

    def test_calls_are_truncated_from_a_position_on(self, store: Store) -> None:
        """What stood there and past it in the task is forgotten; the rest stays."""
        run, lease = begun(store)
        for position in range(4):
            store.commit(told(call(run, position, "old"), epoch=lease.epoch))
        store.commit(told(call(run, 0, "old", ordinal=2), epoch=lease.epoch))
        new = replace(call(run, 1), name="other")
        store.commit(told(replace(new, truncate=True), epoch=lease.epoch))
        assert store.calls(run, 1) == [call(run, 0, "old"), new]
        assert store.calls(run, 2) == [call(run, 0, "old", ordinal=2)]

    def test_calls_stay_when_their_run_ended(self, store: Store) -> None:
        """Until it is pruned."""
        run, lease = begun(store)
        store.commit(told(call(run, 0, "1"), epoch=lease.epoch))
        store.commit(told(Step(run, 1, "note", done=True), epoch=lease.epoch))
        assert store.calls(run, 1) == [call(run, 0, "1")]

    # --- turns

    def test_a_turn_changes_the_status(self, store: Store) -> None:
        """If it is as expected; under a lease or outside one; it is a commit."""
        run, lease = begun(store)
        store.commit(told(StatusChange(run, "waiting", "parked", '"why"'), epoch=lease.epoch))
        assert (there(store, run).status, there(store, run).error) == ("parked", '"why"')
        assert there(store, run).ended is None
        number = store.commit(told(StatusChange(run, "parked", "waiting"))).number
        assert (there(store, run).status, there(store, run).error) == ("waiting", '"why"')
        effects = store.effects(number)
        assert effects is not None
        assert effects.scope == ADA

    def test_a_turn_from_another_status_is_refused(self, store: Store) -> None:
        """Somebody else decided before; the error says what."""
        run = accept(store)
        before = there(store, run)
        with pytest.raises(StaleRun) as caught:
            store.commit(told(StatusChange(run, "parked", "discarded")))
        assert (caught.value.expected, caught.value.found) == ("parked", "waiting")
        assert there(store, run) == before

    def test_a_parked_run_keeps_its_sensory_memory(self, store: Store) -> None:
        """It may go on; one that is given up never does."""
        run, _ = begun(store)
        turn(store, run, "parked")
        assert [step.sensory for step in store.steps(run)] == ['"felt"']

    @pytest.mark.parametrize("status", ["discarded", "retried", "done"])
    def test_a_turn_may_end_a_run(self, store: Store, status: str) -> None:
        """From waiting or parked: it has an end, and sensory memory no more."""
        for parked in (True, False):
            run, lease = begun(store)
            if parked:
                turn(store, run, "parked", '"why"')
            store.commit(
                told(
                    StatusChange(run, there(store, run).status, status),  # pyright: ignore[reportArgumentType] - one of them
                    time=NOW + SECOND,
                )
            )
            found = there(store, run)
            assert (found.status, found.ended) == (status, NOW + SECOND)
            assert (found.error is None) == (status == "done" or not parked)
            assert [step.sensory for step in store.steps(run)] == [None]
            store.release(lease)

    def test_what_ended_stays_so(self, store: Store) -> None:
        """No turn brings it back."""
        run = accept(store)
        turn(store, run, "discarded")
        with pytest.raises(InvalidInput):
            StatusChange(run, "discarded", "waiting")
        with pytest.raises(StaleRun):
            store.commit(told(StatusChange(run, "waiting", "parked")))

    @pytest.mark.parametrize("status", ["parked", "discarded"])
    def test_a_run_that_does_not_wait_takes_no_steps(self, store: Store, status: str) -> None:
        """Whoever runs it while somebody discards it is stopped at its next commit."""
        run, lease = begun(store)
        turn(store, run, status)  # pyright: ignore[reportArgumentType] - one of them
        for progress in (Step(run, 1, "note"), call(run)):
            with pytest.raises(StaleRun) as caught:
                store.commit(told(progress, epoch=lease.epoch, base=0, state=[PUT]))
            assert (caught.value.expected, caught.value.found) == ("waiting", status)
        assert (len(store.steps(run)), store.calls(run, 1)) == (1, [])

    # --- guards

    def test_there_must_be_such_a_run(self, store: Store) -> None:
        """Of the batch's own key."""
        run, lease = begun(store)
        others = leased(store, BOB)
        every: list[Progress] = [
            Step(run, 1, "x"),
            call(run),
            StatusChange(run, "waiting", "parked"),
        ]
        for progress in every:
            with pytest.raises(NotFound):
                store.commit(told(replace(progress, run=run + 1), epoch=lease.epoch))
            with pytest.raises(InvalidInput):
                store.commit(told(progress, scope=BOB, epoch=others.epoch))

    def test_a_zombie_tells_nothing_of_a_run(self, store: Store) -> None:
        """Once its lease was taken over, or given back."""
        run, zombie = begun(store)
        self.kill_owner(store, "one")
        heir = leased(store, owner="two")
        every: list[Progress] = [
            Step(run, 1, "x"),
            call(run),
            StatusChange(run, "waiting", "parked"),
        ]
        for progress in every:
            with pytest.raises(StaleRun) as caught:
                store.commit(told(progress, epoch=zombie.epoch))
            assert (caught.value.expected, caught.value.found) == (zombie.epoch, heir.epoch)
        assert there(store, run).status == "waiting"
        for progress in every:
            store.commit(told(progress, epoch=heir.epoch))

    def test_a_refused_step_leaves_nothing(self, store: Store) -> None:
        """Whatever its batch failed for, its place is free, its lease held, the run not begun."""
        run, lease = accept(store), leased(store)
        write(store, add("i"))
        step = Step(run, 0, "greet", outputs=["1"], begin=BEGIN, done=True)
        good = told(step, epoch=lease.epoch, base=0, state=[PUT], release=True)
        before, accepted = reads(store, now=NOW), there(store, run)
        for bad in (replace(good, base=7), replace(good, items=[add("i")])):
            with pytest.raises(Conflict):
                store.commit(bad)
            assert not differences(before, reads(store, now=NOW))
            assert there(store, run) == accepted
            assert (store.steps(run), store.outputs_of(run)) == ([], [])
        assert store.lease(ADA, "one") == lease
        assert not store.commit(good).adopted
        assert [output.event for output in store.outputs("helper", "app")] == ["1"]

    def test_what_contradicts_itself_is_no_batch(self) -> None:
        """A step is named by its run, and done under a lease."""
        step = Step(1, 0, "greet")
        for fields in ({"op": b"op", "epoch": 1}, {}, {"epoch": None, "release": True}):
            with pytest.raises(InvalidInput):
                Batch(scope=ADA, time=NOW, run=step, **fields)  # pyright: ignore[reportArgumentType] - fields of Batch
        with pytest.raises(InvalidInput):
            Batch(scope=ADA, time=NOW, release=True)

    def test_places_have_bounds(self) -> None:
        """So that a place in a run is a number."""
        for bad in (-1, 1 << 20):
            with pytest.raises(TooLarge):
                Step(1, bad, "greet")
            with pytest.raises(TooLarge):
                DurableCall(1, bad, 0, "fetch", "digest", "pending")
            with pytest.raises(TooLarge):
                DurableCall(1, 0, bad, "fetch", "digest", "pending")

    # --- writes outside a run

    def test_a_tree_is_not_changed_beside_its_run(self, store: Store) -> None:
        """While somebody alive runs the key; items, and other keys, go in."""
        lease = leased(store)
        before = reads(store, now=NOW)
        with pytest.raises(KeyBusy) as caught:
            write(store, PUT, add("i"))
        assert caught.value.key == "ada"
        assert not differences(before, reads(store, now=NOW))
        write(store, add("i"))
        write(store, PUT, scope=BOB)
        assert store.commit(batch(PUT, base=0, epoch=lease.epoch)).number == store.head(ADA)
        store.release(lease)
        write(store, Put(("a",), 2))

    def test_the_dead_hinder_nobody(self, store: Store) -> None:
        """Their lease is as none, and is left as it is."""
        lease = leased(store)
        self.kill_owner(store, "one")
        write(store, PUT)
        assert leased(store, owner="two").epoch > lease.epoch

    def test_an_op_is_adopted_beside_a_run(self, store: Store) -> None:
        """A repetition changes nothing, so it is in nobody's way."""
        work = batch(PUT, base=0, op=b"op")
        first = store.commit(work)
        leased(store)
        assert store.commit(work) == replace(first, adopted=True)
