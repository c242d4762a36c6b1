"""Laws of outputs and of what is pruned: who reads them, and how long they are kept."""

from __future__ import annotations

from datetime import timedelta

import pytest

from fornix.errors import NotFound, OutputsPruned
from fornix.store import DurableCall, QueuedInput, Retain, Scope, Step, Store
from fornix.testing.batches import ADA, BOB, DAY, NOW, SECOND, Laws
from fornix.testing.lanes import BEGIN, accept, asked, end, leased, there, told, turn

ALL = Retain(age=timedelta(microseconds=0), dedupe_for=timedelta(microseconds=0), dedupe_count=0)
"""Keep nothing."""


def events(store: Store, after: int = 0, *, agent: str = "helper", limit: int = 100) -> list[str]:
    """Return the outputs of an agent past a position."""
    return [o.event for o in store.outputs(agent, "app", after=after, limit=limit)]


def position(store: Store, event: str) -> int:
    """Return the position of an output."""
    found = store.outputs("helper", "app", after=store.consumer("helper", "app", "look"))
    store.drop_consumer("helper", "app", "look")
    return next(output.position for output in found if output.event == event)


class OutputLaws(Laws):
    """What `outputs`, `consumer`, `advance`, `drop_consumer` and `prune` promise."""

    # --- outputs

    def test_outputs_are_read_in_the_order_of_commits(self, store: Store) -> None:
        """Of one agent and space, past a position, page by page."""
        runs = [accept(store, scope) for scope in (ADA, BOB, ADA)]
        end(store, runs[1], ["1", "2"])
        end(store, runs[0], ["3"])
        end(store, accept(store, agent="other"), ["theirs"])
        end(store, accept(store, Scope("other app", "ada")), ["elsewhere"])
        end(store, runs[2], ["4"])
        assert events(store) == ["1", "2", "3", "4"]
        page = store.outputs("helper", "app", limit=2)
        assert [output.event for output in page] == ["1", "2"]
        assert events(store, page[-1].position, limit=1) == ["3"]
        assert events(store, store.outputs("helper", "app")[-1].position) == []
        assert events(store, agent="other") == ["theirs"]
        assert events(store, agent="nobody") == []
        assert [output.event for output in store.outputs_of(runs[1])] == ["1", "2"]
        assert store.outputs("helper", "app")[2:3] == store.outputs_of(runs[0])
        assert store.outputs_of(10**6) == []

    # --- consumers

    def test_a_new_consumer_stands_at_the_floor(self, store: Store) -> None:
        """At 0 until something was pruned, also of an agent nobody heard of."""
        assert store.consumer("helper", "app", "mail") == 0
        end(store, accept(store), ["1"])
        assert store.consumer("helper", "app", "mail") == 0
        store.drop_consumer("helper", "app", "mail")
        last = position(store, "1")
        store.prune("helper", "app", ALL, now=NOW)
        assert store.consumer("helper", "app", "mail") == last

    def test_a_consumer_moves_forward_only(self, store: Store) -> None:
        """Each for itself: by name, agent and space."""
        for name, position in (("mail", 5), ("mail", 3), ("log", 2)):
            store.consumer("helper", "app", name)
            store.advance("helper", "app", name, position)
        assert store.consumer("helper", "app", "mail") == 5
        assert store.consumer("helper", "app", "log") == 2
        assert store.consumer("other", "app", "mail") == 0
        assert store.consumer("helper", "other app", "mail") == 0

    def test_a_consumer_that_is_not_there_cannot_advance(self, store: Store) -> None:
        """Somebody dropped it, and what it would read next may be gone."""
        for _ in range(2):
            with pytest.raises(NotFound):
                store.advance("helper", "app", "mail", 1)
            store.consumer("helper", "app", "mail")
            assert store.drop_consumer("helper", "app", "mail")
            assert not store.drop_consumer("helper", "app", "mail")

    # --- pruning

    def test_a_pruned_run_is_gone_with_all_that_hung_on_it(self, store: Store) -> None:
        """What it changed in memory, and its place among commits, stay; ids are not used again."""
        run, lease = accept(store), leased(store)
        call = DurableCall(run, 0, 0, "fetch", "digest", "returned", "1", begin=BEGIN)
        store.commit(told(call, epoch=lease.epoch))
        step = Step(run, 0, "greet", outputs=["1"], done=True)
        number = store.commit(told(step, epoch=lease.epoch, release=True)).number
        assert store.prune("helper", "app", ALL, now=NOW) == 1
        assert store.run(run) is None
        assert (store.steps(run), store.calls(run, 0), store.outputs_of(run)) == ([], [], [])
        assert store.runs("app") == []
        assert store.effects(number) is not None
        assert store.commit_at(NOW) == number
        again = store.accept("helper", [QueuedInput(ADA, "1", NOW)])[0]
        assert again.number == 1
        assert again.run is not None
        assert again.run > run

    def test_runs_are_kept_for_their_age(self, store: Store) -> None:
        """Counted from their end."""
        ids = [accept(store, scope, time=NOW - DAY) for scope in (ADA, BOB)]
        end(store, ids[1], time=NOW)
        end(store, ids[0], time=NOW + SECOND)
        retain = Retain(age=timedelta(microseconds=DAY))
        assert store.prune("helper", "app", retain, now=NOW + DAY - 1) == 0
        assert store.prune("helper", "app", retain, now=NOW + DAY) == 1
        assert [run.id for run in store.runs("app")] == [ids[0]]
        assert store.prune("helper", "app", Retain(age=None), now=NOW + 9 * DAY) == 0

    def test_runs_are_kept_by_count(self, store: Store) -> None:
        """The last ones that ended; of each agent."""
        ids = [accept(store) for _ in range(4)]
        for i, place in enumerate((2, 0, 3, 1)):
            end(store, ids[place], time=NOW + i)
        end(store, accept(store, agent="other"))
        assert store.prune("helper", "app", Retain(age=None, count=4), now=NOW) == 0
        assert store.prune("helper", "app", Retain(age=None, count=2), now=NOW) == 2
        assert [run.id for run in store.runs("app", agent="helper")] == [ids[3], ids[1]]
        assert len(store.runs("app", agent="other")) == 1
        assert store.prune("helper", "app", Retain(age=None, count=0), now=NOW) == 2

    def test_what_has_not_ended_is_never_pruned(self, store: Store) -> None:
        """Waiting or parked, however old; nor its event id."""
        waiting = store.accept("helper", [asked("e")])[0].run
        parked = accept(store)
        turn(store, parked, "parked")
        assert store.prune("helper", "app", ALL, now=NOW + 900 * DAY) == 0
        assert [run.id for run in store.queue("helper", ADA)] == [waiting, parked]
        assert store.accept("helper", [asked("e")])[0].run == waiting

    def test_pruning_takes_the_longest_ended_first(self, store: Store) -> None:
        """As many as asked for; then one goes on."""
        ids = [accept(store) for _ in range(3)]
        for i, place in enumerate((1, 2, 0)):
            end(store, ids[place], [f"{place}"], time=NOW + i)
        late = NOW + SECOND
        assert store.prune("helper", "app", ALL, now=late, limit=2) == 2
        assert [run.id for run in store.runs("app")] == [ids[0]]
        assert store.prune("helper", "app", ALL, now=late, limit=2) == 1
        assert store.prune("helper", "app", ALL, now=late, limit=2) == 0
        assert store.prune("nobody", "app", ALL, now=late) == 0
        assert store.prune("helper", "other app", ALL, now=late) == 0

    def test_pruned_outputs_are_said_to_be_gone(self, store: Store) -> None:
        """Never skipped in silence: whoever would miss some is told where they begin."""
        for text in "123":
            end(store, accept(store), [text])
        floor = position(store, "2")
        store.prune("helper", "app", Retain(age=None, count=1), now=NOW)
        with pytest.raises(OutputsPruned) as caught:
            store.outputs("helper", "app")
        assert (caught.value.agent, caught.value.after, caught.value.floor) == ("helper", 0, floor)
        with pytest.raises(OutputsPruned):
            store.outputs("helper", "app", after=floor - 1)
        assert events(store, floor) == ["3"]
        assert events(store, agent="other") == []

    def test_the_floor_is_past_every_output_that_was_pruned(self, store: Store) -> None:
        """Also where the run that ended last sent its own out first."""
        slow, quick = accept(store), accept(store, BOB)
        lease = leased(store)
        step = Step(slow, 0, "greet", outputs=["1"], begin=BEGIN)
        store.commit(told(step, epoch=lease.epoch))
        end(store, quick, ["2"])
        floor = position(store, "2")
        last = Step(slow, 1, "greet", done=True)
        store.commit(told(last, epoch=lease.epoch, time=NOW + SECOND))
        assert store.prune("helper", "app", ALL, now=NOW + SECOND) == 2
        assert store.consumer("helper", "app", "mail") == floor
        with pytest.raises(OutputsPruned):
            store.outputs("helper", "app", after=floor - 1)

    def test_no_output_goes_before_its_consumers_read_it(self, store: Store) -> None:
        """Every one of them; what ended later waits too, whatever `Retain` says."""
        for scope, outputs in ((ADA, ["1"]), (BOB, ["2", "3"]), (ADA, []), (ADA, ["4"])):
            end(store, accept(store, scope), outputs)
        for name, event in (("mail", "2"), ("log", "4")):
            store.consumer("helper", "app", name)
            store.advance("helper", "app", name, position(store, event))
        assert store.prune("helper", "app", ALL, now=NOW) == 1
        mail = store.consumer("helper", "app", "mail")
        assert events(store, mail) == ["3", "4"]
        store.advance("helper", "app", "mail", position(store, "3"))
        assert store.prune("helper", "app", ALL, now=NOW) == 2
        store.drop_consumer("helper", "app", "mail")
        assert store.prune("helper", "app", ALL, now=NOW) == 1
        assert store.runs("app") == []

    def test_event_ids_outlive_their_runs(self, store: Store) -> None:
        """For as long as repetitions are recognised; the run is said to be gone."""
        run = store.accept("helper", [asked("e")])[0].run
        assert run is not None
        end(store, run)
        retain = Retain(age=timedelta(0), dedupe_for=timedelta(days=1), dedupe_count=0)
        assert store.prune("helper", "app", retain, now=NOW + DAY - 1) == 1
        answer = store.accept("helper", [asked("e")], owner="one")[0]
        assert (answer.run, answer.number, answer.repeated) == (None, 0, True)
        assert (answer.lease, answer.first) == (None, False)
        assert store.prune("helper", "app", retain, now=NOW + DAY) == 0
        again = store.accept("helper", [asked("e", "other")])[0]
        assert (again.number, again.repeated) == (1, False)
        assert again.run is not None
        assert there(store, again.run).event == '"hello"'
