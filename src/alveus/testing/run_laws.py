"""Laws of runs: inputs and their order, steps and durable calls, status changes, fences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import pytest

from alveus.errors import (
    AlveusError,
    Conflict,
    IdempotencyConflict,
    InvalidInput,
    KeyBusy,
    NotFound,
    StaleRun,
    TooLarge,
)
from alveus.store import (
    Accepted,
    Batch,
    Begin,
    Commit,
    DurableCall,
    Lease,
    NamedRequest,
    Node,
    Progress,
    Put,
    QueuedInput,
    Run,
    RunStatus,
    Scope,
    StatusChange,
    Step,
    StepDone,
    Store,
)
from alveus.testing.batches import (
    ADA,
    BOB,
    HANDBOOK,
    NOW,
    SECOND,
    Laws,
    add,
    at_once,
    batch,
    present,
    refused,
    write,
)
from alveus.testing.reads import differences, reads

CY = Scope("app", "cy")
BEGIN = Begin(NOW, ("greet", "note"))


def queued_input(
    event_id: str, request: str = "asked", *, scope: Scope = ADA, event: str = '"hello"'
) -> QueuedInput:
    """Return an input with an id."""
    label = f"event {event_id}"
    return QueuedInput(scope, event, NOW, event_id.encode(), request.encode(), label)


def accept(store: Store, scope: Scope = ADA, *, agent: str = "helper", time: int = NOW) -> int:
    """Accept one input. Return the id of its run."""
    return present(store.accept(agent, [QueuedInput(scope, '"hello"', time)])[0].run)


def leased(store: Store, scope: Scope = ADA, owner: str = "one") -> Lease:
    """Return the lease of a free scope."""
    return present(store.acquire_lease(scope, owner))


def turn(store: Store, run: int, status: RunStatus, error: str | None = None) -> None:
    """Change the status of a run, whatever the present status is."""
    found = there(store, run)
    store.commit(batch(StatusChange(run, found.status, status, error), scope=found.scope))


def end(store: Store, run: int, outputs: Sequence[str] = (), *, time: int = NOW) -> int:
    """Commit the only step of a run. Return the number of the commit."""
    scope = there(store, run).scope
    lease = leased(store, scope)
    step = Step(run, 0, "greet", outputs=outputs, begin=BEGIN, done=True)
    return store.commit(batch(step, scope=scope, under=lease, release=True, time=time)).number


def there(store: Store, run: int) -> Run:
    """Return a run that must exist."""
    return present(store.run(run))


class LaneLaws(Laws):
    """Laws of `accept`, `queued_runs`, `waiting_lanes`, `runs` and `retry_run`.

    A lane is the queue of the runs of one agent and one key.
    """

    def test_an_accepted_input_is_a_waiting_run(self, store: Store) -> None:
        """An accepted input has its event and time, has not begun, and is the first of its lane."""
        answer = store.accept("helper", [QueuedInput(ADA, '"hello"', NOW)])
        run = present(answer[0].run)
        assert answer == [Accepted(run, 0, repeated=False, lease=None, first=True)]
        assert store.run(run) == Run(run, "helper", ADA, 0, "waiting", '"hello"', NOW)
        assert (store.steps(run), store.durable_calls(run, 0), store.run_outputs(run)) == (
            [],
            [],
            [],
        )
        assert store.run(run + 1) is None

    def test_inputs_are_numbered_by_agent_and_key(self, store: Store) -> None:
        """Numbers in a lane start at 0 and have no gaps. Run ids rise over all agents."""
        inputs = [QueuedInput(scope, f"{i}", NOW) for i, scope in enumerate((ADA, BOB, ADA, ADA))]
        answers = store.accept("helper", inputs)
        answers += store.accept("other", inputs[:1]) + store.accept("helper", inputs[:2])
        answers += store.accept("helper", [QueuedInput(Scope("other app", "ada"), "7", NOW)])
        assert [answer.number for answer in answers] == [0, 0, 1, 2, 0, 3, 1, 0]
        ids = [answer.run or 0 for answer in answers]
        assert ids == sorted(set(ids))
        assert [there(store, run).event for run in ids] == [*"01230017"]

    def test_the_first_of_a_lane_is_marked(self, store: Store) -> None:
        """An input is first if no earlier run of its lane waits or is parked."""
        one = accept(store)
        assert [a.first for a in store.accept("helper", [QueuedInput(ADA, "2", NOW)])] == [False]
        assert [a.first for a in store.accept("other", [QueuedInput(ADA, "2", NOW)])] == [True]
        turn(store, one, "parked")
        assert [a.first for a in store.accept("helper", [QueuedInput(ADA, "3", NOW)])] == [False]
        for run in store.queued_runs("helper", ADA):
            turn(store, run.id, "discarded")
        assert [a.first for a in store.accept("helper", [QueuedInput(ADA, "4", NOW)] * 2)] == [
            True,
            False,
        ]

    def test_nothing_is_accepted_of_nothing(self, store: Store) -> None:
        """An empty list of inputs is accepted, and changes nothing."""
        assert store.accept("helper", [], owner="one") == []

    @pytest.mark.parametrize("bad", [Scope("other app", "ada"), HANDBOOK])
    def test_inputs_are_of_keys_of_one_space(self, store: Store, bad: Scope) -> None:
        """Inputs of a key in another space refuse the whole call."""
        with pytest.raises(InvalidInput):
            store.accept("helper", [QueuedInput(ADA, "1", NOW), QueuedInput(bad, "2", NOW)])
        assert store.runs("app") == store.runs("other app") == []

    def test_a_key_with_an_input_is_a_key(self, store: Store) -> None:
        """A key with an input is listed before its first commit. No commit number moves."""
        write(store, scope=BOB)
        accept(store)
        assert (store.keys("app"), store.spaces()) == (["ada", "bob"], ["app"])
        assert store.commit_at(NOW) == 1

    def test_a_repeated_event_id_is_the_first_run(self, store: Store) -> None:
        """A repeated event id of an agent returns its first run, whatever the run's status."""
        first, again = store.accept("helper", [queued_input("e"), queued_input("e")])
        assert again == replace(first, repeated=True)
        assert store.accept("helper", [queued_input("e")]) == [again]
        assert first.run is not None
        end(store, first.run)
        assert store.accept("helper", [queued_input("e")]) == [replace(again, first=False)]
        assert not store.accept("other", [queued_input("e")])[0].repeated
        elsewhere = Scope("other app", "ada")
        assert not store.accept("helper", [queued_input("e", scope=elsewhere)])[0].repeated
        assert [run.number for run in store.runs("app", agent="helper")] == [0]

    def test_an_event_id_holds_for_all_keys_of_an_agent(self, store: Store) -> None:
        """An event id of one key is the same input for every key of its agent."""
        first = store.accept("helper", [queued_input("e")])[0]
        assert store.accept("helper", [queued_input("e", scope=BOB)])[0].run == first.run
        assert store.runs("app", key="bob") == []

    def test_an_event_id_of_another_request_is_refused(self, store: Store) -> None:
        """An event id with another request refuses the whole call. The error has the label."""
        store.accept("helper", [queued_input("e")])
        with pytest.raises(IdempotencyConflict, match="event e"):
            store.accept(
                "helper",
                [QueuedInput(ADA, "1", NOW), queued_input("f"), queued_input("e", "other")],
                owner="one",
            )
        assert len(store.runs("app")) == 1
        assert list(store.stats().leases) == []
        answer = store.accept("helper", [queued_input("f", "another")])
        assert [(a.number, a.repeated) for a in answer] == [(1, False)]
        with pytest.raises(IdempotencyConflict):
            store.accept("helper", [queued_input("g"), queued_input("g", "other")])

    def test_equal_events_without_an_id_are_two_runs(self, store: Store) -> None:
        """Events without an id are never compared."""
        answers = store.accept("helper", [QueuedInput(ADA, '"hello"', NOW)] * 2)
        assert [(a.number, a.repeated) for a in answers] == [(0, False), (1, False)]

    def test_accept_takes_the_leases_of_its_keys(self, store: Store) -> None:
        """`accept` takes the leases of the keys that are free, or that the owner holds already."""
        theirs = leased(store, BOB, "two")
        inputs = [QueuedInput(scope, "1", NOW) for scope in (ADA, BOB, ADA, CY)]
        found = [answer.lease for answer in store.accept("helper", inputs, owner="one")]
        expected = [(ADA, "one"), None, (ADA, "one"), (CY, "one")]
        assert [lease and (lease.scope, lease.owner) for lease in found] == expected
        assert found[0] == found[2] == store.acquire_lease(ADA, "one")
        assert store.acquire_lease(ADA, "two") is None
        assert store.acquire_lease(BOB, "two") == theirs
        answer = store.accept("helper", [QueuedInput(ADA, "1", NOW)], owner="one")
        assert answer[0].lease == found[0]

    def test_accept_takes_over_from_the_dead(self, store: Store) -> None:
        """A dead owner's lease is taken over under a higher epoch, and the old owner is fenced."""
        before = store.accept("helper", [QueuedInput(ADA, "1", NOW)], owner="one")[0]
        self.kill_owner(store, "one")
        after = store.accept("helper", [QueuedInput(ADA, "2", NOW)], owner="two")[0]
        assert before.lease is not None
        assert after.lease is not None
        assert after.lease.epoch > before.lease.epoch
        refused(store, StaleRun, batch(epoch=before.lease.epoch))
        assert store.commit(batch(epoch=after.lease.epoch)).number

    def test_a_repeated_input_takes_the_lease_while_its_run_waits(self, store: Store) -> None:
        """A repeated input takes the lease only while its run waits."""
        run = present(store.accept("helper", [queued_input("e")])[0].run)
        lease = present(store.accept("helper", [queued_input("e")], owner="one")[0].lease)
        store.release_lease(lease)
        for status in ("parked", "discarded"):
            turn(store, run, status)
            assert store.accept("helper", [queued_input("e")], owner="one")[0].lease is None
        assert list(store.stats().leases) == []

    def test_a_lane_is_read_in_order(self, store: Store) -> None:
        """A lane contains waiting and parked runs in order, separate from other lanes."""
        one, two, three = (accept(store) for _ in range(3))
        accept(store, BOB)
        accept(store, agent="other")
        turn(store, two, "parked", '"why"')
        end(store, one)
        assert [run.id for run in store.queued_runs("helper", ADA)] == [two, three]
        assert [run.id for run in store.queued_runs("helper", ADA, limit=1)] == [two]
        assert store.queued_runs("helper", ADA)[0] == there(store, two)
        assert [run.id for run in store.queued_runs("helper", ADA, past_parked=True)] == [three]
        assert store.queued_runs("helper", ADA, past_parked=True, limit=0) == []
        assert store.run_statuses([three, one, two, 99]) == {
            one: "done", two: "parked", three: "waiting",
        }  # fmt: skip
        assert store.run_statuses([]) == {}
        assert store.queued_runs("nobody", ADA) == store.queued_runs("helper", CY) == []

    def test_lanes_where_something_waits(self, store: Store) -> None:
        """Lanes are ordered by the id of the next run in each.

        A lane that a parked run blocks is listed only on request.
        """
        ada, bob = accept(store), accept(store, BOB)
        accept(store)
        accept(store, CY, agent="other")
        accept(store, Scope("other app", "ada"))
        assert store.waiting_lanes("helper", "app", past_parked=False) == [ADA, BOB]
        assert store.waiting_lanes("helper", "app", past_parked=False, limit=1) == [ADA]
        turn(store, ada, "parked")
        turn(store, bob, "parked")
        assert store.waiting_lanes("helper", "app", past_parked=False) == []
        assert store.waiting_lanes("helper", "app", past_parked=True) == [ADA]
        accept(store, BOB)
        assert store.waiting_lanes("helper", "app", past_parked=True) == [ADA, BOB]
        turn(store, ada, "discarded")
        assert store.waiting_lanes("helper", "app", past_parked=False) == [ADA]
        turn(store, bob, "waiting")
        assert store.waiting_lanes("helper", "app", past_parked=True) == [BOB, ADA]
        assert store.waiting_lanes("nobody", "app", past_parked=True) == []

    def test_runs_are_listed_latest_first(self, store: Store) -> None:
        """Runs are filtered by agent, key and status, and paged by id."""
        ids = [accept(store, scope) for scope in (ADA, BOB, ADA)] + [accept(store, agent="other")]
        later = [run.id for run in store.runs("app", before=ids[3], after=ids[0])]
        assert later == [ids[2], ids[1]]
        accept(store, Scope("other app", "ada"))
        turn(store, ids[0], "parked")
        asked: list[tuple[list[Run], list[int]]] = [
            (store.runs("app"), [3, 2, 1, 0]),
            (store.runs("app", agent="helper"), [2, 1, 0]),
            (store.runs("app", key="ada"), [3, 2, 0]),
            (store.runs("app", key="ada", agent="helper", status="waiting"), [2]),
            (store.runs("app", status="parked"), [0]),
            (store.runs("app", status="done"), []),
            (store.runs("app", before=ids[2], limit=1), [1]),
            (store.runs("app", agent="nobody"), []),
            (store.runs("app", key="nobody"), []),
            (store.runs("nowhere"), []),
        ]
        for found, expected in asked:
            assert [run.id for run in found] == [ids[i] for i in expected]
            assert found == [there(store, run.id) for run in found]

    def test_figures_of_runs(self, store: Store) -> None:
        """`stats` counts waiting, parked and ended runs."""
        ids = [accept(store) for _ in range(6)]
        turn(store, ids[0], "parked")
        turn(store, ids[1], "discarded")
        end(store, ids[2])
        turn(store, ids[3], "parked")
        store.retry_run(ids[3], last=True, time=NOW)
        found = store.stats()
        assert (found.runs_waiting, found.runs_parked, found.runs_ended) == (3, 1, 3)

    def test_a_parked_run_waits_again_at_its_position(self, store: Store) -> None:
        """A retried run keeps its position, error, steps and contents, and continues there."""
        run, later = accept(store), accept(store)
        lease = leased(store)
        store.commit(batch(Step(run, 0, "greet", sensory="1", begin=BEGIN), under=lease))
        turn(store, run, "parked", '"why"')
        parked = there(store, run)
        assert store.retry_run(run, last=False, time=NOW + SECOND) == run
        assert there(store, run) == replace(parked, status="waiting")
        assert there(store, run).error == '"why"'
        assert [step.sensory for step in store.steps(run)] == ["1"]
        assert [found.id for found in store.queued_runs("helper", ADA)] == [run, later]

    def test_a_parked_run_is_taken_over_by_a_later_one(self, store: Store) -> None:
        """A later run takes the input of a parked run to the end of the lane.

        The parked run ends.
        """
        run, later = accept(store), accept(store)
        turn(store, run, "parked", '"why"')
        heir = store.retry_run(run, last=True, time=NOW + SECOND)
        assert heir > later
        found = there(store, heir)
        assert found == Run(heir, "helper", ADA, 2, "waiting", '"hello"', NOW + SECOND, origin=run)
        before = there(store, run)
        assert (before.status, before.ended, before.error) == ("retried", NOW + SECOND, '"why"')
        assert [each.id for each in store.queued_runs("helper", ADA)] == [later, heir]
        assert store.accept("helper", [QueuedInput(ADA, "1", NOW)])[0].number == 3

    def test_only_what_is_parked_is_retried(self, store: Store) -> None:
        """A retry of a run that waits, has ended or does not exist is refused. No number moves."""
        run = accept(store)
        for last in (True, False):
            with pytest.raises(StaleRun) as caught:
                store.retry_run(run, last=last, time=NOW)
            assert (caught.value.expected, caught.value.found) == ("parked", "waiting")
            with pytest.raises(NotFound):
                store.retry_run(run + 1, last=last, time=NOW)
        turn(store, run, "discarded")
        number = store.commit_at(NOW)
        with pytest.raises(StaleRun):
            store.retry_run(run, last=True, time=NOW)
        other = accept(store)
        turn(store, other, "parked")
        store.retry_run(other, last=True, time=NOW)
        assert store.commit_at(NOW) == number + 1
        assert len(store.runs("app")) == 3

    def test_a_retry_takes_its_name_with_it(self, store: Store) -> None:
        """A repeated retry with a name returns the first answer, whatever the run became since."""
        run, other = accept(store), accept(store)
        for last, name in ((False, b"first"), (True, b"second")):
            turn(store, run, "parked")
            named = NamedRequest(name, b"retry", "retry")
            number = store.commit_at(NOW)
            heir = store.retry_run(run, last=last, time=NOW, named=named)
            assert (heir == run) == (not last)
            turn(store, heir, "parked")
            assert store.retry_run(run, last=last, time=NOW, named=named) == heir
            assert there(store, heir).status == "parked"
            done = present(store.commit_of_op(name, request=b"retry", label="retry"))
            assert (done.number, done.result) == (number + 1, heir)
            if not last:
                turn(store, heir, "waiting")
        with pytest.raises(IdempotencyConflict):
            store.retry_run(other, last=False, time=NOW, named=replace(named, request=b"other"))

    def test_a_run_is_given_up_under_a_name(self, store: Store) -> None:
        """A repeated discard with a name is adopted, although the run has ended."""
        run = accept(store)
        turn = StatusChange(run, "waiting", "discarded")
        discard = replace(batch(turn), op=b"give up", result=run)
        first = store.commit(discard)
        assert store.commit(discard) == replace(first, adopted=True)
        with pytest.raises(InvalidInput):
            replace(batch(Step(run, 0, "greet", begin=BEGIN)), op=b"greet")

    def test_threads_accept_without_gaps(self, store: Store) -> None:
        """Numbers and ids of concurrent accepts are in the same order. Only one run is first."""

        def play(i: int) -> list[Accepted]:
            each = [QueuedInput(ADA, f"{i}.{j}", NOW) for j in range(5)]
            return [
                a for j in range(5) for a in store.accept("helper", each[j : j + 2], owner=f"{i}")
            ]

        answers = [answer for part in at_once(8, play) for answer in part]
        answers.sort(key=lambda answer: answer.number)
        assert [answer.number for answer in answers] == list(range(72))
        assert all((one.run or 0) < (two.run or 0) for one, two in pairwise(answers))
        assert [answer.first for answer in answers] == [True] + [False] * 71
        assert len({answer.lease for answer in answers if answer.lease is not None}) == 1
        assert [run.number for run in store.queued_runs("helper", ADA)] == list(range(72))

    def test_of_one_event_id_exactly_one_run_is_made(self, store: Store) -> None:
        """Concurrent accepts of one event id all get the same run."""
        answers = at_once(8, lambda i: store.accept("helper", [queued_input("e", event=f"{i}")])[0])
        assert len({answer.run for answer in answers}) == 1
        assert sorted(answer.repeated for answer in answers) == [False] + [True] * 7

    def test_steps_of_many_keys_are_done_at_once(self, store: Store) -> None:
        """Threads accept, run and end inputs of many keys at the same time."""

        def play(i: int) -> int:
            scope = Scope("app", f"{i}")
            for j in range(10):
                answer = store.accept("helper", [QueuedInput(scope, f"{j}", NOW)], owner=f"{i}")[0]
                lease = present(answer.lease)
                assert (answer.number, answer.first) == (j, True)
                step = Step(answer.run or 0, 0, "greet", begin=BEGIN, outputs=[f"{i}.{j}"])
                last = replace(step, ordinal=1, done=True)
                for done in store.commit_many(
                    [batch(step, under=lease), batch(last, under=lease, release=True)]
                ):
                    committed(done)
            return len(store.queued_runs("helper", scope))

        assert at_once(8, play) == [0] * 8
        outputs = store.outputs("helper", "app", limit=1_000)
        assert len(outputs) == 160
        for i in range(8):
            mine = [output.event for output in outputs if output.key == f"{i}"]
            assert mine == [f"{i}.{j}" for j in range(10) for _ in range(2)]
        assert list(store.stats().leases) == []


PUT = Put(("a",), 1)


def begun(store: Store) -> tuple[int, Lease]:
    """Return a run whose first step is committed, and the lease of that step."""
    run, lease = accept(store), leased(store)
    step = Step(run, 0, "greet", sent="[]", sensory='"felt"', read_set='"seen"', begin=BEGIN)
    store.commit(batch(step, under=lease))
    return run, lease


def call(
    run: int, position: int = 0, outcome: str | None = None, *, ordinal: int = 1
) -> DurableCall:
    """Return a durable call. It is pending without *outcome*, and has returned with one."""
    status = "pending" if outcome is None else "returned"
    return DurableCall(run, ordinal, position, "fetch", "digest", status, outcome)


def committed(answer: Commit | AlveusError) -> Commit:
    """Return *answer*. Fail if it is an error."""
    assert isinstance(answer, Commit)
    return answer


class ProgressLaws(Laws):
    """Laws of a run's progress, commit by commit."""

    def test_a_step_is_kept_with_what_it_changed(self, store: Store) -> None:
        """One commit contains a step and its changes.

        `steps` names the commit, `effects` the step.
        """
        run, lease = accept(store), leased(store)
        step = Step(run, 0, "greet", "[1]", '"felt"', '"seen"', begin=BEGIN)
        commit = store.commit(batch(step, PUT, under=lease, base=0))
        assert store.steps(run) == [
            StepDone(run, 0, "greet", commit.number, "[1]", '"felt"', '"seen"', None)
        ]
        effects = present(store.effects(commit.number))
        assert list(effects.put_nodes) == [(("a",), Node(is_object=False, value=1))]
        assert (commit.adopted, store.head(ADA)) == (False, commit.number)

    def test_steps_are_read_by_ordinal(self, store: Store) -> None:
        """Steps are sorted by ordinal. A skipped step has its error. Other runs are separate."""
        run, lease = begun(store)
        other = accept(store)
        store.commit(batch(Step(run, 2, "last"), under=lease))
        store.commit(batch(Step(run, 1, "note", skipped='"error"'), under=lease))
        store.commit(batch(Step(other, 0, "greet", begin=BEGIN), under=lease))
        expected = [(0, "greet", None), (1, "note", '"error"'), (2, "last", None)]
        assert [(s.ordinal, s.action, s.skipped) for s in store.steps(run)] == expected
        assert [step.action for step in store.steps(other)] == ["greet"]

    def test_a_second_step_of_a_name_changes_nothing(self, store: Store) -> None:
        """A repeated step gets the number, the time and the result of the first step's commit."""
        run, lease = accept(store), leased(store)
        step = Step(run, 0, "greet", outputs=["1"], begin=BEGIN)
        first = store.commit(batch(step, PUT, under=lease, base=0, result=["first"]))
        before = reads(store, now=NOW)
        again = Step(run, 0, "other", outputs=["2", "3"], begin=Begin(0, ()), done=True)
        changes, late = (again, Put(("b",), 2), add("i")), NOW + SECOND
        answer = store.commit(
            batch(*changes, under=lease, base=first.number, release=True, time=late)
        )
        assert answer == replace(first, adopted=True)
        assert not differences(before, reads(store, now=NOW))
        assert [output.event for output in store.run_outputs(run)] == ["1"]
        assert (there(store, run).status, there(store, run).now) == ("waiting", NOW)
        assert store.acquire_lease(ADA, "two") is None

    def test_a_step_is_adopted_before_anything_is_checked(self, store: Store) -> None:
        """A repeated step is adopted even with a lost lease, an ended run or an old base."""
        run, lease = accept(store), leased(store)
        work = batch(
            Step(run, 0, "greet", begin=BEGIN, done=True), PUT, under=lease, base=0, release=True
        )
        first = store.commit(work)
        assert leased(store, owner="two").epoch > lease.epoch
        assert store.commit(work) == replace(first, adopted=True)

    def test_what_a_run_sent_out_is_kept_in_order(self, store: Store) -> None:
        """Outputs keep their position in the run, their key and the time of their commit."""
        run, lease = begun(store)
        commit = store.commit(
            batch(Step(run, 1, "note", outputs=["1", "2"]), under=lease, time=NOW + SECOND)
        )
        store.commit(batch(Step(run, 2, "note", outputs=["3"]), under=lease))
        found = store.run_outputs(run)
        expected = [("1", run, 0, 1, "ada"), ("2", run, 0, 1, "ada"), ("3", run, 0, 2, "ada")]
        assert [(o.event, o.run, o.number, o.ordinal, o.key) for o in found] == expected
        assert [o.time for o in found] == [commit.time] * 3
        positions = [o.position for o in found]
        assert positions == sorted(set(positions))

    def test_the_first_commit_of_a_run_begins_it(self, store: Store) -> None:
        """A run keeps the time and actions of its first commit."""
        run, lease = begun(store)
        assert there(store, run).now == NOW
        assert there(store, run).actions == ("greet", "note")
        again = Begin(NOW + SECOND, ("other",))
        store.commit(batch(Step(run, 1, "note", begin=again), under=lease))
        store.commit(batch(replace(call(run, ordinal=2), begin=again), under=lease))
        assert there(store, run).now == NOW
        assert there(store, run).actions == ("greet", "note")

    @pytest.mark.parametrize("kind", ["step", "call", "turn"])
    def test_a_run_may_begin_with_anything(self, store: Store, kind: str) -> None:
        """A run may begin with a step, a durable call or parking.

        An empty list of actions is valid.
        """
        run, lease = accept(store), leased(store)
        begin = Begin(NOW, ())
        ways: dict[str, Progress] = {
            "step": Step(run, 0, "greet", begin=begin),
            "call": DurableCall(run, 0, 0, "fetch", "digest", "pending", begin=begin),
            "turn": StatusChange(run, "waiting", "parked", begin=begin),
        }
        store.commit(batch(ways[kind], under=lease))
        assert (there(store, run).now, there(store, run).actions) == (NOW, ())

    def test_a_first_step_or_call_without_a_begin_is_refused(self, store: Store) -> None:
        """The first step or call must contain the run's `Begin`, because a replay needs it."""
        run, lease = accept(store), leased(store)
        for progress in (Step(run, 0, "greet"), call(run)):
            refused(store, InvalidInput, batch(progress, under=lease))
        assert (store.steps(run), store.durable_calls(run, 1)) == ([], [])

    def test_the_last_step_ends_the_run(self, store: Store) -> None:
        """The last step ends the run in its commit: done, without error or sensory memory."""
        run, lease = begun(store)
        turn(store, run, "parked", '"why"')
        turn(store, run, "waiting")
        commit = store.commit(
            batch(Step(run, 1, "note", sensory="2", done=True), under=lease, time=NOW + SECOND)
        )
        found = there(store, run)
        assert (found.status, found.ended, found.error) == ("done", commit.time, None)
        assert [step.sensory for step in store.steps(run)] == [None, None]
        assert [step.read_set for step in store.steps(run)] == ['"seen"', None]
        assert store.queued_runs("helper", ADA) == []

    def test_an_only_step_leaves_no_sensory_memory(self, store: Store) -> None:
        """A single step begins and ends its run, and leaves no sensory memory."""
        run, lease = accept(store), leased(store)
        step = Step(run, 0, "greet", sensory="1", begin=BEGIN, done=True)
        store.commit(batch(step, under=lease))
        assert [done.sensory for done in store.steps(run)] == [None]
        assert there(store, run).actions == BEGIN.actions

    def test_a_commit_gives_its_lease_back(self, store: Store) -> None:
        """A commit may release its lease. Then the key is free, and the epoch is invalid."""
        run, lease = begun(store)
        store.commit(batch(Step(run, 1, "note"), under=lease, release=True))
        refused(store, StaleRun, batch(Step(run, 2, "note"), under=lease))
        assert leased(store, owner="two").epoch > lease.epoch

    def test_durable_calls_are_read_by_position(self, store: Store) -> None:
        """The calls of one task are sorted by position, without other changes of their commits."""
        run, lease = begun(store)
        for each in (call(run, 1, "1"), call(run, 0, "0"), call(run, 0, "other", ordinal=2)):
            store.commit(batch(each, under=lease))
        assert store.durable_calls(run, 1) == [call(run, 0, "0"), call(run, 1, "1")]
        assert store.durable_calls(run, 2) == [call(run, 0, "other", ordinal=2)]
        assert store.durable_calls(run, 0) == store.durable_calls(run + 1, 1) == []

    def test_a_pending_call_is_replaced(self, store: Store) -> None:
        """Another attempt, the result or the error replaces a pending call."""
        run, lease = begun(store)
        ways = (
            call(run),
            replace(call(run), attempts=2, digest="new"),
            replace(call(run), status="raised", outcome='"error"', attempts=3),
        )
        for each in ways:
            assert not store.commit(batch(each, under=lease)).adopted
            assert store.durable_calls(run, 1) == [each]

    def test_a_complete_call_stands(self, store: Store) -> None:
        """A completed call stays. A second call at its position adopts it and changes nothing."""
        run, lease = begun(store)
        first = store.commit(batch(call(run, 0, "1"), under=lease))
        store.release_lease(lease)
        for other in (call(run, 0, "2"), call(run)):
            work = batch(other, PUT, under=lease, base=7)
            assert store.commit(work) == replace(first, adopted=True)
        assert store.durable_calls(run, 1) == [call(run, 0, "1")]

    def test_calls_are_truncated_from_a_position_on(self, store: Store) -> None:
        """Truncation deletes the task's calls at a position and after it, and no other calls."""
        run, lease = begun(store)
        for position in range(4):
            store.commit(batch(call(run, position, "old"), under=lease))
        store.commit(batch(call(run, 0, "old", ordinal=2), under=lease))
        new = replace(call(run, 1), name="other")
        store.commit(batch(replace(new, truncate=True), under=lease))
        assert store.durable_calls(run, 1) == [call(run, 0, "old"), new]
        assert store.durable_calls(run, 2) == [call(run, 0, "old", ordinal=2)]

    def test_calls_stay_when_their_run_ended(self, store: Store) -> None:
        """Durable calls exist until their run is pruned."""
        run, lease = begun(store)
        store.commit(batch(call(run, 0, "1"), under=lease))
        store.commit(batch(Step(run, 1, "note", done=True), under=lease))
        assert store.durable_calls(run, 1) == [call(run, 0, "1")]

    def test_a_turn_changes_the_status(self, store: Store) -> None:
        """A status change is a commit, with or without a lease, if the status is as expected."""
        run, lease = begun(store)
        store.commit(batch(StatusChange(run, "waiting", "parked", '"why"'), under=lease))
        assert (there(store, run).status, there(store, run).error) == ("parked", '"why"')
        assert there(store, run).ended is None
        number = store.commit(batch(StatusChange(run, "parked", "waiting"))).number
        assert (there(store, run).status, there(store, run).error) == ("waiting", '"why"')
        assert present(store.effects(number)).scope == ADA

    def test_a_turn_from_another_status_is_refused(self, store: Store) -> None:
        """A change from an unexpected status is refused. The error contains the present status."""
        run = accept(store)
        before = there(store, run)
        error = refused(store, StaleRun, batch(StatusChange(run, "parked", "discarded")))
        assert (error.expected, error.found) == ("parked", "waiting")
        assert there(store, run) == before

    def test_a_parked_run_keeps_its_sensory_memory(self, store: Store) -> None:
        """A parked run keeps its sensory memory. A discarded run does not."""
        run, _ = begun(store)
        turn(store, run, "parked")
        assert [step.sensory for step in store.steps(run)] == ['"felt"']

    @pytest.mark.parametrize("status", ["discarded", "retried", "done"])
    def test_a_turn_may_end_a_run(self, store: Store, status: str) -> None:
        """A status change may end a waiting or parked run, which then has no sensory memory."""
        for parked in (True, False):
            run, lease = begun(store)
            if parked:
                turn(store, run, "parked", '"why"')
            store.commit(
                batch(
                    StatusChange(run, there(store, run).status, status),  # pyright: ignore[reportArgumentType] - one of them
                    time=NOW + SECOND,
                )
            )
            found = there(store, run)
            assert (found.status, found.ended) == (status, NOW + SECOND)
            assert (found.error is None) == (status == "done" or not parked)
            assert [step.sensory for step in store.steps(run)] == [None]
            store.release_lease(lease)

    def test_what_ended_stays_so(self, store: Store) -> None:
        """No status change restarts an ended run."""
        run = accept(store)
        turn(store, run, "discarded")
        with pytest.raises(InvalidInput):
            StatusChange(run, "discarded", "waiting")
        refused(store, StaleRun, batch(StatusChange(run, "waiting", "parked")))

    @pytest.mark.parametrize("status", ["parked", "discarded"])
    def test_a_run_that_does_not_wait_takes_no_steps(self, store: Store, status: str) -> None:
        """A run that does not wait refuses steps, which stops a process that still runs it."""
        run, lease = begun(store)
        turn(store, run, status)  # pyright: ignore[reportArgumentType] - one of them
        for progress in (Step(run, 1, "note"), call(run)):
            error = refused(store, StaleRun, batch(progress, PUT, under=lease, base=0))
            assert (error.expected, error.found) == ("waiting", status)
        assert (len(store.steps(run)), store.durable_calls(run, 1)) == (1, [])

    def test_there_must_be_such_a_run(self, store: Store) -> None:
        """A step must name an existing run of the batch's key."""
        run, lease = begun(store)
        others = leased(store, BOB)
        every: list[Progress] = [
            Step(run, 1, "x"),
            call(run),
            StatusChange(run, "waiting", "parked"),
        ]
        for progress in every:
            refused(store, NotFound, batch(replace(progress, run=run + 1), under=lease))
            refused(store, InvalidInput, batch(progress, scope=BOB, under=others))

    def test_a_zombie_tells_nothing_of_a_run(self, store: Store) -> None:
        """Steps of an owner without the valid lease are refused."""
        run, zombie = begun(store)
        self.kill_owner(store, "one")
        heir = leased(store, owner="two")
        every: list[Progress] = [
            Step(run, 1, "x"),
            call(run),
            StatusChange(run, "waiting", "parked"),
        ]
        for progress in every:
            error = refused(store, StaleRun, batch(progress, under=zombie))
            assert (error.expected, error.found) == (zombie.epoch, heir.epoch)
        assert there(store, run).status == "waiting"
        for progress in every:
            store.commit(batch(progress, under=heir))

    def test_a_refused_step_leaves_nothing(self, store: Store) -> None:
        """A refused step leaves its position free, its lease held, and its run not begun."""
        run, lease = accept(store), leased(store)
        write(store, add("i"))
        step = Step(run, 0, "greet", outputs=["1"], begin=BEGIN, done=True)
        good = batch(step, PUT, under=lease, base=0, release=True)
        before, accepted = reads(store, now=NOW), there(store, run)
        for bad in (replace(good, base=7), replace(good, items=[add("i")])):
            refused(store, Conflict, bad)
            assert not differences(before, reads(store, now=NOW))
            assert there(store, run) == accepted
            assert (store.steps(run), store.run_outputs(run)) == ([], [])
        assert store.acquire_lease(ADA, "one") == lease
        assert not store.commit(good).adopted
        assert [output.event for output in store.outputs("helper", "app")] == ["1"]

    def test_what_contradicts_itself_is_no_batch(self) -> None:
        """A step needs the name of its run and a lease."""
        step = Step(1, 0, "greet")
        for fields in ({"op": b"op", "epoch": 1}, {}, {"epoch": None, "release": True}):
            with pytest.raises(InvalidInput):
                Batch(scope=ADA, time=NOW, run=step, **fields)  # pyright: ignore[reportArgumentType] - fields of Batch
        with pytest.raises(InvalidInput):
            Batch(scope=ADA, time=NOW, release=True)

    def test_positions_have_bounds(self) -> None:
        """Positions in a run are bounded numbers."""
        for bad in (-1, 1 << 20):
            with pytest.raises(TooLarge):
                Step(1, bad, "greet")
            with pytest.raises(TooLarge):
                DurableCall(1, bad, 0, "fetch", "digest", "pending")
            with pytest.raises(TooLarge):
                DurableCall(1, 0, bad, "fetch", "digest", "pending")

    def test_a_tree_is_not_changed_beside_its_run(self, store: Store) -> None:
        """A tree cannot be changed from outside while a live owner runs the key. Items can."""
        lease = leased(store)
        assert refused(store, KeyBusy, PUT, add("i")).key == "ada"
        write(store, add("i"))
        write(store, PUT, scope=BOB)
        assert store.commit(batch(PUT, base=0, under=lease)).number == store.head(ADA)
        store.release_lease(lease)
        write(store, Put(("a",), 2))

    def test_the_dead_hinder_nobody(self, store: Store) -> None:
        """The lease of a dead owner blocks nobody, and stays as it is."""
        lease = leased(store)
        self.kill_owner(store, "one")
        write(store, PUT)
        assert leased(store, owner="two").epoch > lease.epoch

    def test_an_op_is_adopted_beside_a_run(self, store: Store) -> None:
        """An op that is repeated while a run holds the key changes nothing."""
        work = batch(PUT, base=0, op=b"op")
        first = store.commit(work)
        leased(store)
        assert store.commit(work) == replace(first, adopted=True)
