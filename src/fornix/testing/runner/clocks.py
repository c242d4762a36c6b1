"""Laws of wall clocks that are wrong for a while: nothing runs twice, nothing is lost by it."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from fornix.errors import InvalidInput
from fornix.events.events import InputEvent, OutputEvent
from fornix.memory.memory import Memory
from fornix.runs.agent import action
from fornix.runs.task import RunnerContext
from fornix.store import Retain
from fornix.testing.runner.runner_laws import Hall, RunnerLaws

EVENTS = 50
HOUR = timedelta(hours=1)
BARE = Retain(age=timedelta(days=7), dedupe_for=timedelta(days=90), dedupe_count=0)
"""Age alone decides, so that no floor hides what a clock does."""


@action(InputEvent)
def tally(event: InputEvent, ctx: RunnerContext) -> None:
    """Count each input."""
    ctx.short_term_memory.increment("seen")
    ctx.send_event(OutputEvent(event.input))


def tidy(memory: Memory) -> None:
    """Let go of all that age gives up, by the rule of a sweep without its floor."""
    memory.sweep()
    memory.store.sweep(now=memory.engine.clock.settle(), ops_kept=0)


class WrongClockLaws(RunnerLaws):
    """What holds where the clock of a memory jumps, and comes back."""

    @pytest.mark.parametrize("days", [365, 3650, -365, -20000])
    def test_redelivered_events_are_recognised(self, hall: Hall, days: int) -> None:
        """All of them, whatever was pruned while the clock was wrong, and afterwards."""
        runner = hall.serve(tally, retain=BARE)
        for n in range(EVENTS):
            runner.handle("ada", n, event_id=f"e{n}")
        self.clock.move(days=days)
        assert runner.prune() == 0
        runner.handle("ada", "meanwhile", event_id="meanwhile")
        self.clock.move(days=-days)
        assert runner.prune() == 0
        again = [runner.handle("ada", n, event_id=f"e{n}") for n in range(EVENTS)]
        assert again == [(n,) for n in range(EVENTS)]
        runner.handle("ada", "meanwhile", event_id="meanwhile")
        assert hall.memory.key("ada").short_term.get("seen") == EVENTS + 1

    @pytest.mark.parametrize("days", [365, -365])
    def test_a_repeated_request_is_recognised(self, hall: Hall, days: int) -> None:
        """Swept or not."""
        ada = hall.memory.key("ada")
        ada.short_term.once("visit").increment("visits")
        self.clock.move(days=days)
        tidy(hall.memory)
        ada.short_term.once("meanwhile").increment("visits")
        self.clock.move(days=-days)
        tidy(hall.memory)
        ada.short_term.once("visit").increment("visits")
        ada.short_term.once("meanwhile").increment("visits")
        assert ada.short_term.get("visits") == 2

    def test_what_a_wrong_clock_hides_comes_back(self, hall: Hall) -> None:
        """Items, exact values, versions and moments of the past; a sweep takes none of them."""
        ada = hall.memory.key("ada")
        offers = ada.set("offers", capacity=2, compaction="trim", retention=timedelta(days=30))
        offers.add("10 %", id="offer", expire_at=self.clock.now + timedelta(days=40))
        offers.add("5 %", id="other")
        offers.update("other", "6 %")
        ada.short_term.set("code", 42, ttl=timedelta(days=40))
        ada.short_term.set("code", 43, ttl=timedelta(days=40))
        then = self.clock.now
        self.clock.move(days=365)
        assert (offers.get("offer"), "code" in ada.short_term) == (None, False)
        tidy(hall.memory)
        offers.add("7 %", id="more")
        with pytest.raises(InvalidInput, match="corroborated"):
            hall.memory.prune_history(before=self.clock.now - timedelta(days=90))
        self.clock.move(days=-365)
        tidy(hall.memory)
        assert [item.id for item in offers.list()] == ["offer", "other", "more"]
        assert [item.version for item in offers.history("other")] == [1, 2]
        assert ada.short_term.get("code") == 43
        assert ada.short_term.at(then).get("code") == 43

    def test_what_really_expired_goes(self, hall: Hall) -> None:
        """Once the time has elapsed, all of it is let go."""
        runner, ada = hall.serve(tally, retain=BARE), hall.memory.key("ada")
        runner.handle("ada", 1, event_id="e")
        ada.set("offers").add("10 %", id="offer", expire_at=self.clock.now + HOUR)
        ada.short_term.once("visit").increment("visits")
        self.clock.elapse(days=91)
        assert runner.prune() == 1
        tidy(hall.memory)
        ada.short_term.once("visit").increment("visits")
        runner.handle("ada", 1, event_id="e")
        assert (ada.short_term.get("visits"), ada.short_term.get("seen")) == (2, 2)
        assert ada.set("offers").history("offer")[-1].retired is not None

    def test_times_heal_when_the_clock_does(self, hall: Hall) -> None:
        """The next commit has the right time again, and each moment of before means what it did."""
        ada = hall.memory.key("ada")
        marks: list[tuple[datetime, object]] = []

        def written(value: int) -> datetime:
            ada.short_term.set("n", value)
            item = ada.get(ada.add(f"{value}"))
            assert item is not None
            assert item.created is not None
            marks.append((self.clock.now, value))
            return item.created

        written(1)
        self.clock.elapse(hours=1)
        written(2)
        for days in (365, -365):
            right = self.clock.now
            self.clock.move(days=days)
            written(3)
            marks.pop()
            self.clock.move(days=-days)
            self.clock.elapse(hours=1)
            assert right < written(4) <= self.clock.now
            assert [ada.short_term.at(when).get("n") for when, _ in marks] == [n for _, n in marks]
        assert [item.text for item in ada.list(as_of=marks[1][0])] == ["1", "2"]
        assert ada.short_term.at(marks[-1][0] + HOUR).get("n") == 4

    def test_a_clock_that_stays_ahead_is_believed_after_a_day(self, hall: Hall) -> None:
        """As after a host was off: a day of elapsed time, seen at work, proves it."""
        runner = hall.serve(tally, retain=BARE)
        runner.handle("ada", 1, event_id="e")
        self.clock.move(days=365)
        for hour in range(30):
            assert runner.prune() == (hour >= 24)
            if hour >= 24:
                break
            self.clock.elapse(hours=1)

    def test_a_clock_that_stays_behind_is_believed_after_a_day(self, hall: Hall) -> None:
        """It had been ahead all the time: commits do not stay in the future."""
        ada = hall.memory.key("ada")
        before = self.clock.now
        self.clock.move(days=-365)
        for hour in range(30):
            ada.short_term.set("n", hour)
            hall.memory.sweep()
            self.clock.elapse(hours=1)
        created = ada.get(ada.add("x"))
        assert created is not None
        assert created.created is not None
        assert created.created <= self.clock.now < before
