"""The agent of the Flink scenarios: two actions, each attempt with a token of its own."""

from __future__ import annotations

import os
import random
import time
import uuid
from pathlib import Path

from fornix import Agent, Event, InputEvent, OutputEvent, action

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
