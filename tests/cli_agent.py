"""Agents for the tests of the command line: imported by name, run in processes that are killed."""

import json
import os
import threading
from pathlib import Path

from alveus import Agent, Event, InputEvent, OutputEvent, action

__all__ = ["json"]


class Counted(Event):
    """What the first action tells the second."""

    count: int


class Counter(Agent):
    """Counts the inputs of a key; fails where it is told to."""

    @action(InputEvent)
    def count(self, event, ctx):
        """Count, in both exact memories, and note it."""
        count = ctx.short_term_memory.increment("count")
        ctx.sensory_memory.set("last", event.input)
        ctx.long_term_memory.get_memory_set("notes").add(f"{event.input}")
        ctx.send_event(Counted(ctx.durable(double, count)))

    @action(Counted)
    def tell(self, event, ctx):
        """Put out what was counted."""
        if ctx.sensory_memory.get("last") == "fail" and not ctx.short_term_memory.get("mended"):
            raise ValueError("told to fail")
        ctx.send_event(OutputEvent({"count": event.count}))


class Next(Counter):
    """Lets later inputs go on."""

    on_failed = "next"


HELD = "ALVEUS_TEST_HELD"
"""Names a number and a file: while it is there, inputs from that number on are not done."""


class Slow(Agent):
    """Waits in each action, so that a kill finds it at work."""

    @action(InputEvent)
    def wait(self, event, ctx):
        """Count, after a while."""
        threading.Event().wait(0.002)  # to be killed in
        first, _, file = os.environ.get(HELD, "").partition(":")
        while file and event.input >= int(first) and Path(file).exists():
            threading.Event().wait(0.002)  # until it is let on
        ctx.short_term_memory.append("seen", event.input)
        ctx.send_event(OutputEvent(event.input))


class Idle(Agent):
    """Has no action."""


def double(count):
    """Return it twice."""
    return 2 * count
