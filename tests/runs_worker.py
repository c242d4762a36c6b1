"""A process that runs agents and is going to be killed; its agents never do the same twice.

``python runs_worker.py ORDERS`` takes a JSON object: the database, the world's file, inputs to
submit, whether to serve afterwards. ``ALVEUS_CRASH=POINT:COUNT`` ends it, by SIGKILL, when it comes
to a point for the COUNT-th time; with ``:wait=FILE`` it waits there until the file exists instead,
with ``:lose`` each COUNT-th answer is lost.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import secrets
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

from alveus import (
    Agent,
    Event,
    InputEvent,
    Item,
    LocalRunner,
    Memory,
    OutputEvent,
    RunnerContext,
    action,
)
from alveus.errors import StoreBusy
from alveus.runs.run import LiveRun
from alveus.store.sql.lanes import InputWriter
from alveus.store.sql.transaction import Transaction
from alveus.store.sqlite import SqliteStore
from waiting import LIMIT_S, wait_until

EMBEDDER = "words"
CONSUMER = "mailer"
MAILBOX = "the mailbox"


def fresh() -> str:
    """Return a token that nobody draws twice."""
    return f"~{secrets.token_hex(6)}"


# --- the world ----------------------------------------------------------------------------------


class Declined(Exception):
    """The world says no, and that is final."""


class Broken(Exception):
    """The world cannot do it now."""


class World:
    """What durable calls ask for: an append-only file, in which every call that was made stands."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.broken = Path(f"{path} is broken")

    def is_broken(self) -> bool:
        """Tell whether it cannot do anything now."""
        return self.broken.exists()

    def call(self, name: str) -> str:
        """Note that something was done, and return its token."""
        token = fresh()
        line = json.dumps([name, token, os.getpid()]) + "\n"
        file = os.open(self._path, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)
        try:
            os.write(file, line.encode())
            os.fsync(file)
        finally:
            os.close(file)
        return token

    def calls(self) -> list[tuple[str, str, int]]:
        """Return what was done: names, tokens and processes, in order."""
        if not self._path.exists():
            return []
        return [tuple(json.loads(line)) for line in self._path.read_text().splitlines()]

    def find(self, name: str) -> str | None:
        """Return the token under which something was done, or None."""
        return next((token for found, token, _ in self.calls() if found == name), None)

    # What agents call. A name never depends on an attempt.

    def charge(self, name: str, declines: bool) -> str:
        """Do something that cannot be looked up later."""
        token = self.call(name)
        if declines:
            raise Declined(token)
        return token

    def confirm(self, name: str, token: str) -> list[str]:
        """Do something that can be looked up."""
        return [self.call(name), token]

    async def weigh(self, name: str) -> str:
        """Do something that can be looked up, awaited."""
        return await asyncio.to_thread(self.call, name)


# --- the agents ---------------------------------------------------------------------------------


class Part(Event):
    token: str


class Ended(Event):
    tokens: list[list[str]]


class Counted(Event):
    token: str


class Told(Event):
    token: str
    counted: str


def leave(
    ctx: RunnerContext, place: str, token: str, *others: str | None, items: bool = True
) -> None:
    """Write a token, and what came with it, wherever an action can write."""
    agent, number = ctx.run.agent, ctx.run.number
    told: list[Any] = [number, place, f"~{number} {ctx.now.isoformat()}", token, *others]
    ctx.sensory_memory.set((place, "token"), token)
    short = ctx.short_term_memory
    short.set((agent, "last", place), token)
    short.set((agent, "runs", str(number), place), told)
    short.append((agent, "log"), told)
    short.increment((agent, "count"))
    if not items:
        return
    where: dict[str, Any] = {"agent": agent, "key": ctx.key, "run": number, "place": place}
    metadata = {**where, "token": token, "others": [*others]}
    sets = ctx.long_term_memory
    sets.set("notes").add(f"{place} of {number}", metadata=metadata)
    latest = Item(f"{place} of {number}", id=f"{agent} {place}", metadata=metadata)
    sets.set("latest").add(latest, on_existing="update")
    ctx.knowledge.set("handbook").add(f"{place} of {number}", metadata=metadata)


class Teller(Agent):
    """Four actions, a fan-out of two equal events, durable calls of every kind."""

    def __init__(self, world: Path) -> None:
        super().__init__()
        self.world = World(world)

    @action(InputEvent)
    def take(self, event: InputEvent, ctx: RunnerContext) -> None:
        token, found = fresh(), ctx.sensory_memory.to_dict()
        leave(ctx, "take", token, f"{len(found)} left over", str(event.input["n"]))
        ctx.send_event(Part(token))
        ctx.send_event(Part(token))
        ctx.send_event(OutputEvent({"take": token}))

    @action(InputEvent)
    async def weigh(self, event: InputEvent, ctx: RunnerContext) -> None:
        token, name = fresh(), f"weigh {ctx.run.id}"
        took = ctx.sensory_memory.get("take.token")
        weigh = ctx.durable.using(reconcile=lambda: self.world.find(name) or self.world.call(name))
        weight = await weigh(self.world.weigh, name)
        leave(ctx, "weigh", token, took, weight)
        ctx.send_event(OutputEvent({"weigh": token, "weight": weight}))

    @action(Part)
    def part(self, event: Part, ctx: RunnerContext) -> None:
        token, place = fresh(), f"part {event.id.rpartition('.')[2]}"
        try:
            charged = ctx.durable(self.world.charge, f"charge {event.id}", ctx.run.number % 4 == 3)
        except Declined as error:
            charged = str(error)
        name = f"confirm {event.id}"
        confirmed = ctx.durable.using(
            reconcile=lambda: [self.world.find(name) or self.world.call(name), charged]
        )(self.world.confirm, name, charged)
        leave(ctx, place, token, event.token, charged, *confirmed)
        ctx.sensory_memory.append("parts", [place, token])
        parts = ctx.sensory_memory.get("parts")
        if len(parts) == 2:
            ctx.send_event(Ended(parts))

    @action(Ended)
    def end(self, event: Ended, ctx: RunnerContext) -> None:
        token, felt = fresh(), ctx.sensory_memory.to_dict()
        leave(ctx, "end", token, *(token for _, token in event.tokens))
        if ctx.run.number == 1 and self.world.is_broken():
            raise Broken(token)
        ctx.send_event(OutputEvent({"end": token, "felt": felt, "parts": event.tokens}))


class Counter(Agent):
    """Quick actions, so that many keys share a commit; one of them only sends."""

    @action(InputEvent)
    def count(self, event: InputEvent, ctx: RunnerContext) -> None:
        token, found = fresh(), ctx.sensory_memory.to_dict()
        leave(ctx, "count", token, f"{len(found)} left over", str(event.input["n"]), items=False)
        ctx.long_term_memory.set("counts").add(
            "a count",
            metadata={"agent": "Counter", "key": ctx.key, "run": ctx.run.number, "token": token},
        )
        ctx.send_event(Counted(token))

    @action(Counted)
    def tell(self, event: Counted, ctx: RunnerContext) -> None:
        token = fresh()
        ctx.send_event(OutputEvent({"tell": token, "counted": event.token}))
        ctx.send_event(Told(token, event.token))

    @action(Told)
    def end(self, event: Told, ctx: RunnerContext) -> None:
        token, felt = fresh(), ctx.sensory_memory.to_dict()
        leave(ctx, "end", token, event.token, event.counted, items=False)
        ctx.send_event(OutputEvent({"end": token, "felt": felt}))


def agents(world: Path) -> dict[str, Agent]:
    """Return the agents, by name."""
    return {"Teller": Teller(world), "Counter": Counter()}


# --- where it dies ------------------------------------------------------------------------------


class Fuse:
    """Does something when a point is reached for the n-th time, or each n-th time."""

    def __init__(self, count: int, then: Callable[[], None], *, each: bool) -> None:
        self._count, self._then, self._each = count, then, each
        self._reached = 0
        self._lock = threading.Lock()

    def burn(self) -> None:
        """Come to the point."""
        with self._lock:
            self._reached += 1
            now = self._reached == self._count
            if now and self._each:
                self._reached = 0
        if now:
            self._then()


def die() -> None:
    """End, as by a power cut."""
    os.kill(os.getpid(), signal.SIGKILL)


def hold(file: Path) -> None:
    """Stay until a file exists."""
    say("held")
    wait_until(file.exists)


def lose() -> NoReturn:
    """Have a caller believe that nothing was written."""
    raise StoreBusy("the answer was lost")


POINTS: dict[str, tuple[type, str]] = {
    "commit": (SqliteStore, "commit_many"),
    "record": (LiveRun, "_record"),
    "put": (SqliteStore, "commit"),
    "apply": (Transaction, "apply"),
    "accept": (SqliteStore, "accept"),
    "insert": (InputWriter, "_insert"),
    "lease": (SqliteStore, "acquire_lease"),
    "queue": (SqliteStore, "queued_runs"),
    "steps": (SqliteStore, "steps"),
    "calls": (SqliteStore, "durable_calls"),
    "advance": (SqliteStore, "advance_consumer"),
    "call": (World, "call"),
    "look": (World, "is_broken"),
}
"""Where it can die, as "before" or "after" each: apply and insert lie inside a transaction."""

GROUP = 4
"""Tasks that make a commit one of a group."""


class Halfway(list[Any]):
    """The batches of a group; the fuse burns when half of them are applied."""

    def __init__(self, batches: Sequence[Any], fuse: Fuse) -> None:
        super().__init__(batches)
        self._fuse = fuse

    def __iter__(self) -> Iterator[Any]:
        for place in range(len(self)):
            if place == len(self) // 2:
                self._fuse.burn()
            yield self[place]


def lay(crash: str) -> None:
    """Put a fuse where *crash* says: ``before commit:3``, ``after call:1:wait=FILE``.

    ``halfway commit:2`` is inside the second commit that at least `GROUP` tasks share.
    """
    where, count, *rest = crash.split(":", 2)
    when, _, point = where.partition(" ")
    owner, name = POINTS[point]
    plain = getattr(owner, name)
    then: Callable[[], None] = die
    loses = rest == ["lose"]
    if rest:
        then = lose if loses else lambda: hold(Path(rest[0].removeprefix("wait=")))
    fuse = Fuse(int(count), then, each=loses)
    if when == "halfway":

        def halved(store: SqliteStore, batches: Sequence[Any]) -> Any:
            return plain(store, Halfway(batches, fuse) if len(batches) >= GROUP else batches)

        setattr(owner, name, halved)
        return

    def burning(*args: Any, **kwargs: Any) -> Any:
        if when == "before":
            fuse.burn()
        answer = plain(*args, **kwargs)
        if when == "after":
            fuse.burn()
        return answer

    setattr(owner, name, burning)


# --- the program --------------------------------------------------------------------------------


def say(line: str) -> None:
    """Write a line, whole."""
    os.write(1, f"{line}\n".encode())


class Saying(logging.Handler):
    """Writes what is logged to standard output, where the parent reads it."""

    def emit(self, record: logging.LogRecord) -> None:
        say(record.getMessage())


@contextlib.contextmanager
def runners(memory: Memory, world: Path) -> Iterator[dict[str, LocalRunner]]:
    """Open a runner per agent."""
    with contextlib.ExitStack() as stack:
        yield {
            name: stack.enter_context(LocalRunner(agent, memory, concurrency=8))
            for name, agent in agents(world).items()
        }


def deliver(memory: Memory, runner: LocalRunner, *, wait_s: float | None) -> None:
    """Carry outputs to a mailbox, each once: the position is the key of the request."""
    box = memory.key(f"{MAILBOX} {runner.name}").set("mail")
    for output in runner.outputs(consumer=CONSUMER, wait_s=wait_s):
        metadata: dict[str, Any] = {"position": output.position, "value": output.value}
        box.add("mail", metadata=metadata, idempotency_key=f"mail {output.position}")


def main() -> None:
    """Do what was ordered, until somebody kills this."""
    orders = json.loads(sys.argv[1])
    if "ALVEUS_CRASH" in os.environ:
        lay(os.environ["ALVEUS_CRASH"])
    logging.getLogger("alveus").addHandler(Saying())
    say("up")
    world = Path(orders["world"])
    with (
        Memory.open(orders["db"], embedder=EMBEDDER, wait_s=LIMIT_S) as memory,
        runners(memory, world) as by_name,
    ):
        for runner in by_name.values():
            work = threading.Thread(
                target=deliver, args=(memory, runner), kwargs={"wait_s": None}, daemon=True
            )
            work.start()
        for agent, key, value, event_id in orders["inputs"]:
            if agent == "Teller":
                by_name[agent].submit(key, value, event_id=event_id)
        together = [
            (k, v, event_id) for name, k, v, event_id in orders["inputs"] if name != "Teller"
        ]
        list(by_name["Counter"].map(together))
        for runner in by_name.values():
            runner.run_until_idle()
        say("idle")
        threads = [threading.Thread(target=runner.serve) for runner in by_name.values()]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


if __name__ == "__main__":
    from runs_worker import main as start  # errors are recorded under the name others import

    start()
