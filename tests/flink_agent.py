"""The agent of the Flink scenarios: two actions, each attempt with a token of its own."""

from __future__ import annotations

import os
import random
import time
import uuid
from pathlib import Path

from alveus import Agent, Event, InputEvent, OutputEvent, action
from alveus.errors import StaleRun
from alveus.runs.runner.flink.subtask import Subtask
from alveus.store.sql import transaction

PAUSE_S = float(os.environ.get("FLINK_AGENT_PAUSE_S", "0.005"))
"""How long an action takes, as if it asked a model."""


class Half(Event):
    """Goes from the first action to the second."""

    n: int
    token: str


@action(InputEvent)
def first(event, ctx):
    """Leave a token in each memory; how many items differs from attempt to attempt."""
    token = uuid.uuid4().hex
    memory = ctx.short_term_memory
    memory.set("log", [*memory.get("log", []), [event.input, token]])
    memory.set("count", memory.get("count", 0) + 1)
    ctx.sensory_memory.set("token", token)
    for number in range(random.randint(1, 3)):
        ctx.long_term_memory.add(token, id=f"item {event.input} {number} {token}")
    time.sleep(random.random() * PAUSE_S)  # noqa: TID251 - it is the action that is slow
    ctx.send_event(Half(event.input, token))


@action(Half)
def second(event, ctx):
    """Ask once, and put out what both actions have."""
    asked = ctx.durable(ask, event.n)
    time.sleep(random.random() * PAUSE_S)  # noqa: TID251 - it is the action that is slow
    token, count = ctx.sensory_memory.get("token"), ctx.short_term_memory.get("count")
    ctx.send_event(OutputEvent([event.n, event.token, token, count, asked]))


def ask(n):
    """Return what no other call has."""
    time.sleep(random.random() * PAUSE_S)  # noqa: TID251 - it is the action that is slow
    return f"{n} {uuid.uuid4().hex}"


COUNTER = Agent("counter", actions=[first, second])


@action(InputEvent)
def follow(event, ctx):
    """Wait for a sign, or fail until there is one, if the input says so."""
    signs = Path(os.environ["FLINK_AGENT_SIGNS"])
    if event.input == "wait":
        while not (signs / "answered").exists():
            time.sleep(0.02)  # noqa: TID251 - it is the action that is slow
    if event.input == "fail" and not (signs / "mended").exists():
        raise RuntimeError("no model today")
    ctx.send_event(OutputEvent(event.input))


SIGNS = Agent("signs", actions=[follow])


@action(InputEvent)
def hold(event, ctx):
    """Write which process this is, once that process may go on."""
    signs, mine = Path(os.environ["FLINK_AGENT_SIGNS"]), os.getpid()
    (signs / f"begun-{mine}").touch()
    while not (signs / f"go-{mine}").exists():
        time.sleep(0.001)  # noqa: TID251 - it is the action that is slow
    ctx.short_term_memory.set("by", mine)
    ctx.long_term_memory.add(f"by {mine}")
    ctx.send_event(OutputEvent(mine))


HOLDING = Agent("holding", actions=[hold])


# --- sabotage, in the workers ---------------------------------------------------------------------


def _watch_fences(*, off: bool) -> None:
    """Leave a sign where a lease that was taken over is refused; *off*: and let it pass."""
    signs, check = Path(os.environ["FLINK_AGENT_SIGNS"]), transaction.check_leases

    def check_leases(batch, holder, is_alive):
        try:
            check(batch, holder, is_alive)
        except StaleRun:
            (signs / f"refused-{os.getpid()}").touch()
            if not off:
                raise

    transaction.check_leases = check_leases


def _forget_event_ids() -> None:
    """Have an input that comes again taken for another one: nothing recorded is adopted."""
    submit_all = Subtask._submit_all

    def submit_as_others(self, inputs):
        return submit_all(self, [i._replace(event_id=uuid.uuid4().hex) for i in inputs])

    Subtask._submit_all = submit_as_others


match os.environ.get("FLINK_AGENT_SABOTAGE"):
    case "epoch" | "nothing" as what:
        _watch_fences(off=what == "epoch")
    case "adoption":
        _forget_event_ids()
    case _:
        pass
