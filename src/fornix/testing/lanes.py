"""Laws of `Lanes`: inputs, their order, and what becomes of a run as a whole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import pytest

from fornix.errors import IdempotencyConflict, InvalidInput, NotFound, StaleRun
from fornix.store import (
    Accepted,
    Batch,
    Begin,
    Lease,
    Progress,
    QueuedInput,
    Run,
    RunStatus,
    Scope,
    StatusChange,
    Step,
    Store,
    TreeDelta,
)
from fornix.testing.batches import ADA, BOB, HANDBOOK, NOW, SECOND, Laws, batch, write
from fornix.testing.threads import at_once

CY = Scope("app", "cy")
BEGIN = Begin(NOW, ("greet", "note"))


def asked(
    event_id: str, request: str = "asked", *, scope: Scope = ADA, event: str = '"hello"'
) -> QueuedInput:
    """Return an input that carries an id."""
    label = f"event {event_id}"
    return QueuedInput(scope, event, NOW, event_id.encode(), request.encode(), label)


def accept(store: Store, scope: Scope = ADA, *, agent: str = "helper", time: int = NOW) -> int:
    """Accept one input; return its run."""
    run = store.accept(agent, [QueuedInput(scope, '"hello"', time)])[0].run
    assert run is not None
    return run


def leased(store: Store, scope: Scope = ADA, owner: str = "one") -> Lease:
    """Return the lease of a scope, which is free."""
    lease = store.lease(scope, owner)
    assert lease is not None
    return lease


def told(  # noqa: PLR0913 - the fields of Batch
    progress: Progress,
    *,
    scope: Scope = ADA,
    epoch: int | None = None,
    base: int | None = None,
    state: Sequence[TreeDelta] = (),
    release: bool = False,
    time: int = NOW,
) -> Batch:
    """Return a batch about a run."""
    return Batch(
        scope=scope, time=time, epoch=epoch, base=base, state=state, run=progress, release=release
    )


def turn(store: Store, run: int, status: RunStatus, error: str | None = None) -> None:
    """Change the status of a run, whatever it is."""
    found = there(store, run)
    store.commit(told(StatusChange(run, found.status, status, error), scope=found.scope))


def end(store: Store, run: int, outputs: Sequence[str] = (), *, time: int = NOW) -> int:
    """Do the one step of a run; return its commit."""
    scope = there(store, run).scope
    lease = leased(store, scope)
    step = Step(run, 0, "greet", outputs=outputs, begin=BEGIN, done=True)
    return store.commit(told(step, scope=scope, epoch=lease.epoch, release=True, time=time)).number


def there(store: Store, run: int) -> Run:
    """Return a run, which is there."""
    found = store.run(run)
    assert found is not None
    return found


class LaneLaws(Laws):
    """What `accept`, `queue`, `lanes`, `runs` and `retry` promise."""

    # --- accept

    def test_an_accepted_input_is_a_waiting_run(self, store: Store) -> None:
        """With its event and time, not begun; it is the first of its lane."""
        answer = store.accept("helper", [QueuedInput(ADA, '"hello"', NOW)])
        run = answer[0].run
        assert answer == [Accepted(run, 0, repeated=False, lease=None, first=True)]
        assert run is not None
        assert store.run(run) == Run(run, "helper", ADA, 0, "waiting", '"hello"', NOW)
        assert (store.steps(run), store.calls(run, 0), store.outputs_of(run)) == ([], [], [])
        assert store.run(run + 1) is None

    def test_inputs_are_numbered_by_agent_and_key(self, store: Store) -> None:
        """From 0, without gaps, in the order they were accepted; run ids rise over all."""
        inputs = [QueuedInput(scope, f"{i}", NOW) for i, scope in enumerate((ADA, BOB, ADA, ADA))]
        answers = store.accept("helper", inputs)
        answers += store.accept("other", inputs[:1]) + store.accept("helper", inputs[:2])
        answers += store.accept("helper", [QueuedInput(Scope("other app", "ada"), "7", NOW)])
        assert [answer.number for answer in answers] == [0, 0, 1, 2, 0, 3, 1, 0]
        ids = [answer.run or 0 for answer in answers]
        assert ids == sorted(set(ids))
        assert [there(store, run).event for run in ids] == [*"01230017"]

    def test_the_first_of_a_lane_is_told_so(self, store: Store) -> None:
        """Nothing before it waits or is parked; what ended does not count."""
        one = accept(store)
        assert [a.first for a in store.accept("helper", [QueuedInput(ADA, "2", NOW)])] == [False]
        assert [a.first for a in store.accept("other", [QueuedInput(ADA, "2", NOW)])] == [True]
        turn(store, one, "parked")
        assert [a.first for a in store.accept("helper", [QueuedInput(ADA, "3", NOW)])] == [False]
        for run in store.queue("helper", ADA):
            turn(store, run.id, "discarded")
        assert [a.first for a in store.accept("helper", [QueuedInput(ADA, "4", NOW)] * 2)] == [
            True,
            False,
        ]

    def test_nothing_is_accepted_of_nothing(self, store: Store) -> None:
        """And nothing is refused."""
        assert store.accept("helper", [], owner="one") == []

    @pytest.mark.parametrize("bad", [Scope("other app", "ada"), HANDBOOK])
    def test_inputs_are_of_keys_of_one_space(self, store: Store, bad: Scope) -> None:
        """Otherwise none is kept."""
        with pytest.raises(InvalidInput):
            store.accept("helper", [QueuedInput(ADA, "1", NOW), QueuedInput(bad, "2", NOW)])
        assert store.runs("app") == store.runs("other app") == []

    def test_a_key_with_an_input_is_a_key(self, store: Store) -> None:
        """It is listed before anything was committed to it; no commit number moves."""
        write(store, scope=BOB)
        accept(store)
        assert (store.keys("app"), store.spaces()) == (["ada", "bob"], ["app"])
        assert store.commit_at(NOW) == 1

    # --- event ids

    def test_a_repeated_event_id_is_the_first_run(self, store: Store) -> None:
        """In a later call or the same, whatever became of the run; for another agent it is new."""
        first, again = store.accept("helper", [asked("e"), asked("e")])
        assert again == replace(first, repeated=True)
        assert store.accept("helper", [asked("e")]) == [again]
        assert first.run is not None
        end(store, first.run)
        assert store.accept("helper", [asked("e")]) == [replace(again, first=False)]
        assert not store.accept("other", [asked("e")])[0].repeated
        elsewhere = Scope("other app", "ada")
        assert not store.accept("helper", [asked("e", scope=elsewhere)])[0].repeated
        assert [run.number for run in store.runs("app", agent="helper")] == [0]

    def test_an_event_id_holds_for_all_keys_of_an_agent(self, store: Store) -> None:
        """What was accepted for one key is not run for another."""
        first = store.accept("helper", [asked("e")])[0]
        assert store.accept("helper", [asked("e", scope=BOB)])[0].run == first.run
        assert store.runs("app", key="bob") == []

    def test_an_event_id_of_another_request_is_refused(self, store: Store) -> None:
        """The error has its label; none of the inputs is kept, and no number is lost."""
        store.accept("helper", [asked("e")])
        with pytest.raises(IdempotencyConflict, match="event e"):
            store.accept(
                "helper", [QueuedInput(ADA, "1", NOW), asked("f"), asked("e", "other")], owner="one"
            )
        assert len(store.runs("app")) == 1
        assert list(store.stats().leases) == []
        answer = store.accept("helper", [asked("f", "another")])
        assert [(a.number, a.repeated) for a in answer] == [(1, False)]
        with pytest.raises(IdempotencyConflict):
            store.accept("helper", [asked("g"), asked("g", "other")])

    def test_equal_events_without_an_id_are_two_runs(self, store: Store) -> None:
        """Contents are never compared."""
        answers = store.accept("helper", [QueuedInput(ADA, '"hello"', NOW)] * 2)
        assert [(a.number, a.repeated) for a in answers] == [(0, False), (1, False)]

    # --- leases

    def test_accept_takes_the_leases_of_its_keys(self, store: Store) -> None:
        """Where they are free or the owner's own, as `lease` would."""
        theirs = leased(store, BOB, "two")
        inputs = [QueuedInput(scope, "1", NOW) for scope in (ADA, BOB, ADA, CY)]
        found = [answer.lease for answer in store.accept("helper", inputs, owner="one")]
        assert [lease and (lease.scope, lease.owner) for lease in found] == [
            (ADA, "one"),
            None,
            (ADA, "one"),
            (CY, "one"),
        ]
        assert found[0] == found[2] == store.lease(ADA, "one")
        assert store.lease(ADA, "two") is None
        assert store.lease(BOB, "two") == theirs
        answer = store.accept("helper", [QueuedInput(ADA, "1", NOW)], owner="one")
        assert answer[0].lease == found[0]

    def test_accept_takes_over_from_the_dead(self, store: Store) -> None:
        """Under a higher epoch; whoever had it is fenced."""
        before = store.accept("helper", [QueuedInput(ADA, "1", NOW)], owner="one")[0]
        self.kill_owner(store, "one")
        after = store.accept("helper", [QueuedInput(ADA, "2", NOW)], owner="two")[0]
        assert before.lease is not None
        assert after.lease is not None
        assert after.lease.epoch > before.lease.epoch
        with pytest.raises(StaleRun):
            store.commit(batch(epoch=before.lease.epoch))
        assert store.commit(batch(epoch=after.lease.epoch)).number

    def test_a_repeated_input_takes_the_lease_while_its_run_waits(self, store: Store) -> None:
        """Once it is parked or has ended, there is nothing to run."""
        run = store.accept("helper", [asked("e")])[0].run
        assert run is not None
        lease = store.accept("helper", [asked("e")], owner="one")[0].lease
        assert lease is not None
        store.release(lease)
        for status in ("parked", "discarded"):
            turn(store, run, status)
            assert store.accept("helper", [asked("e")], owner="one")[0].lease is None
        assert list(store.stats().leases) == []

    # --- looking

    def test_a_lane_is_read_in_order(self, store: Store) -> None:
        """What waits or is parked; what ended is not in it; lanes are apart."""
        one, two, three = (accept(store) for _ in range(3))
        accept(store, BOB)
        accept(store, agent="other")
        turn(store, two, "parked", '"why"')
        end(store, one)
        assert [run.id for run in store.queue("helper", ADA)] == [two, three]
        assert [run.id for run in store.queue("helper", ADA, limit=1)] == [two]
        assert store.queue("helper", ADA)[0] == there(store, two)
        assert store.queue("nobody", ADA) == store.queue("helper", CY) == []

    def test_lanes_where_something_waits(self, store: Store) -> None:
        """By the id of the run that is next; one behind a parked run only if asked for."""
        ada, bob = accept(store), accept(store, BOB)
        accept(store)
        accept(store, CY, agent="other")
        accept(store, Scope("other app", "ada"))
        assert store.lanes("helper", "app", past_parked=False) == [ADA, BOB]
        assert store.lanes("helper", "app", past_parked=False, limit=1) == [ADA]
        turn(store, ada, "parked")
        turn(store, bob, "parked")
        assert store.lanes("helper", "app", past_parked=False) == []
        assert store.lanes("helper", "app", past_parked=True) == [ADA]
        accept(store, BOB)
        assert store.lanes("helper", "app", past_parked=True) == [ADA, BOB]
        turn(store, ada, "discarded")
        assert store.lanes("helper", "app", past_parked=False) == [ADA]
        turn(store, bob, "waiting")
        assert store.lanes("helper", "app", past_parked=True) == [BOB, ADA]
        assert store.lanes("nobody", "app", past_parked=True) == []

    def test_runs_are_listed_latest_first(self, store: Store) -> None:
        """By agent, key and status; pages go on below an id."""
        ids = [accept(store, scope) for scope in (ADA, BOB, ADA)] + [accept(store, agent="other")]
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
        """How many wait, are parked, and have ended."""
        ids = [accept(store) for _ in range(6)]
        turn(store, ids[0], "parked")
        turn(store, ids[1], "discarded")
        end(store, ids[2])
        turn(store, ids[3], "parked")
        store.retry(ids[3], last=True, time=NOW)
        found = store.stats()
        assert (found.runs_waiting, found.runs_parked, found.runs_ended) == (3, 1, 3)

    # --- retry

    def test_a_parked_run_waits_again_in_its_place(self, store: Store) -> None:
        """With its error, its steps and what they held, so that it goes on from there."""
        run, later = accept(store), accept(store)
        lease = leased(store)
        store.commit(told(Step(run, 0, "greet", sensory="1", begin=BEGIN), epoch=lease.epoch))
        turn(store, run, "parked", '"why"')
        parked = there(store, run)
        assert store.retry(run, last=False, time=NOW + SECOND) == run
        assert there(store, run) == replace(parked, status="waiting")
        assert there(store, run).error == '"why"'
        assert [step.sensory for step in store.steps(run)] == ["1"]
        assert [found.id for found in store.queue("helper", ADA)] == [run, later]

    def test_a_parked_run_is_taken_over_by_a_later_one(self, store: Store) -> None:
        """Which has its input, at the end of the lane; the parked one has ended."""
        run, later = accept(store), accept(store)
        turn(store, run, "parked", '"why"')
        heir = store.retry(run, last=True, time=NOW + SECOND)
        assert heir > later
        found = there(store, heir)
        assert found == Run(heir, "helper", ADA, 2, "waiting", '"hello"', NOW + SECOND, origin=run)
        before = there(store, run)
        assert (before.status, before.ended, before.error) == ("retried", NOW + SECOND, '"why"')
        assert [each.id for each in store.queue("helper", ADA)] == [later, heir]
        assert store.accept("helper", [QueuedInput(ADA, "1", NOW)])[0].number == 3

    def test_only_what_is_parked_is_retried(self, store: Store) -> None:
        """What waits or has ended is not; nor what is not there. No commit number moves."""
        run = accept(store)
        for last in (True, False):
            with pytest.raises(StaleRun) as caught:
                store.retry(run, last=last, time=NOW)
            assert (caught.value.expected, caught.value.found) == ("parked", "waiting")
            with pytest.raises(NotFound):
                store.retry(run + 1, last=last, time=NOW)
        turn(store, run, "discarded")
        number = store.commit_at(NOW)
        with pytest.raises(StaleRun):
            store.retry(run, last=True, time=NOW)
        other = accept(store)
        turn(store, other, "parked")
        store.retry(other, last=True, time=NOW)
        assert store.commit_at(NOW) == number + 1
        assert len(store.runs("app")) == 3

    # --- threads

    def test_threads_accept_without_gaps(self, store: Store) -> None:
        """Numbers and ids of many at once are in one order; one of them is first, one runs it."""

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
        assert [run.number for run in store.queue("helper", ADA)] == list(range(72))

    def test_of_one_event_id_exactly_one_run_is_made(self, store: Store) -> None:
        """All others are told which."""
        answers = at_once(8, lambda i: store.accept("helper", [asked("e", event=f"{i}")])[0])
        assert len({answer.run for answer in answers}) == 1
        assert sorted(answer.repeated for answer in answers) == [False] + [True] * 7

    def test_steps_of_many_keys_are_done_at_once(self, store: Store) -> None:
        """Accepted, run and ended by threads, with inputs coming in between."""

        def play(i: int) -> int:
            scope = Scope("app", f"{i}")
            for j in range(10):
                answer = store.accept("helper", [QueuedInput(scope, f"{j}", NOW)], owner=f"{i}")[0]
                assert answer.lease is not None
                assert (answer.number, answer.first) == (j, True)
                step = Step(answer.run or 0, 0, "greet", begin=BEGIN, outputs=[f"{i}.{j}"])
                epoch = answer.lease.epoch
                first, second = store.commit_many(
                    [
                        told(step, scope=scope, epoch=epoch),
                        told(
                            replace(step, ordinal=1, done=True),
                            scope=scope,
                            epoch=epoch,
                            release=True,
                        ),
                    ]
                )
                assert not isinstance(first, Exception)
                assert not isinstance(second, Exception)
            return len(store.queue("helper", scope))

        assert at_once(8, play) == [0] * 8
        outputs = store.outputs("helper", "app", limit=1_000)
        assert len(outputs) == 160
        for i in range(8):
            mine = [output.event for output in outputs if output.key == f"{i}"]
            assert mine == [f"{i}.{j}" for j in range(10) for _ in range(2)]
        assert list(store.stats().leases) == []
