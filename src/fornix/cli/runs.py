"""Runs as they are, and what is decided of them: list, show, retry, discard."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any, cast

import click

from fornix.cli import completion_names, output
from fornix.cli.options import Whole, command, shared
from fornix.cli.session import Session
from fornix.cli.trace import Trace, TraceStep, input_of
from fornix.errors import StaleRun
from fornix.memory.memory import Memory
from fornix.runs.runner.run_records import given_up, overtaken
from fornix.store import Run, RunStatus
from fornix.store.progress import LARGEST
from fornix.values import wire
from fornix.values.storable import moment
from fornix.values.times import stamp

STATUSES: tuple[RunStatus, ...] = ("waiting", "parked", "done", "discarded", "retried")

PAGE = 500

RUN = click.argument("number", metavar="RUN", type=Whole(1, LARGEST))
RUNS = click.argument("numbers", metavar="RUN…", nargs=-1, type=Whole(1, LARGEST))

agent_option = click.option("--agent", "-a", metavar="NAME", help="Only runs of this agent.")
key_option = click.option(
    "--key",
    "-k",
    metavar="KEY",
    shell_complete=completion_names.keys,
    help="Only runs of this key.",
)
all_option = click.option(
    "--all", "every", is_flag=True, help="All that are parked, by the filters."
)


@click.group("runs", params=shared(hidden=True))
def runs() -> None:
    """Look at runs, and decide what becomes of those that failed.

    A run is what an agent does with one input. It waits until it is done; if an action fails it is
    parked, and later inputs of its key wait behind it (unless the agent says on_failed="next").
    """


# --- list and show ----------------------------------------------------------------------------


@command("list")
@agent_option
@key_option
@click.option("--status", "-s", type=click.Choice(STATUSES), help="Only runs that are so.")
@click.option(
    "--limit", "-n", type=Whole(1, 1_000_000), default=100, show_default=True,
    help="Most runs shown.",
)  # fmt: skip
def list_runs(
    session: Session, *, agent: str | None, key: str | None, status: RunStatus | None, limit: int
) -> None:
    """List runs, the latest first: number, status, agent, key, age, and what parked it.

    With --json a line per run: {"run": …, "agent": …, "key": …, "number": …, "status": …,
    "accepted": …, "begun": …, "ended": …, "origin": …, "error": {"action": …, "type": …,
    "message": …}}; error is null where nothing parked it.
    """
    with session.open(mode="ro") as memory:
        for row in _found(memory, agent, key, status, limit):
            if session.json:
                output.document(_fields(row))
            else:
                click.echo(_line(row))


def _found(
    memory: Memory, agent: str | None, key: str | None, status: RunStatus | None, limit: int
) -> Iterator[Run]:
    before: int | None = None
    while limit > 0:
        rows = memory.store.runs(
            memory.space,
            agent=agent,
            key=key,
            status=status,
            before=before,
            limit=min(limit, PAGE),
        )
        yield from rows
        if len(rows) < PAGE:
            return
        before, limit = rows[-1].id, limit - len(rows)


def error_of(row: Run) -> dict[str, Any] | None:
    """Return what is kept of the error that parked a run."""
    return None if row.error is None else cast("dict[str, Any]", wire.decode(row.error))


def _fields(row: Run) -> dict[str, output.Json]:
    error = error_of(row)
    return {
        "run": row.id,
        "agent": row.agent,
        "key": row.scope.key,
        "number": row.number,
        "status": row.status,
        "accepted": stamp(moment(row.accepted)),
        "begun": None if row.now is None else stamp(moment(row.now)),
        "ended": None if row.ended is None else stamp(moment(row.ended)),
        "origin": row.origin,
        "error": error and {name: error[name] for name in ("action", "type", "message")},
    }


def _line(row: Run) -> str:
    age = output.span(max(0.0, time.time() - row.accepted / 1e6))
    words = [row.agent, str(row.scope.key), f"#{row.number}", f"{age} ago"]
    error = error_of(row)
    if error is not None:
        words.append(f"{error['action']}: {error['type']}: {error['message']}")
    return f"{row.id:>6}  {row.status:<9}  " + "  ".join(map(output.one_line, words))


@command("show")
@RUN
def show_run(session: Session, *, number: int) -> None:
    """Show a run: its input, what was done so far, and the error that parked it.

    The error comes with its traceback.
    With --json one object: what list prints, and {"input": …, "steps": […], "open": …,
    "outputs": […]}; steps and open as fornix replay prints them, and the error has its
    "traceback".
    """
    with session.open(mode="ro") as memory:
        row = require(session, memory, number)
        traced = Trace(memory, row)
        if session.json:
            output.document(_fields(row) | {"error": error_of(row)} | traced.document())
            return
        output.facts([*_facts(row), *_done(traced)])
        error = error_of(row)
        if error is not None:
            click.echo(f"\n{output.plain(error['traceback']).rstrip()}")


def _facts(row: Run) -> list[tuple[str, str]]:
    told = _fields(row)
    facts = [
        ("run", f"{row.id}, number {row.number} of key {row.scope.key!r}, agent {row.agent!r}"),
        ("status", row.status),
        ("accepted", str(told["accepted"])),
        ("begun", str(told["begun"] or "not yet")),
        ("ended", str(told["ended"] or "not yet")),
        ("input", output.inline(output.wired(input_of(row)))),
    ]
    if row.origin is not None:
        facts.append(("instead of", f"run {row.origin}"))
    error = error_of(row)
    if error is not None:
        said = f"{error['type']}: {error['message']}"
        facts.append(("parked by", f"{said} in action {error['action']!r}"))
    return [(name, output.one_line(fact)) for name, fact in facts]


def _done(traced: Trace) -> Iterator[tuple[str, str]]:
    """Yield what was done so far, a line per step."""
    for step in traced.steps():
        yield f"step {step['step']}", output.one_line(_brief(step))
    unfinished = traced.unfinished()
    if unfinished is not None:
        calls = len(unfinished["calls"])
        yield f"step {unfinished['step']}", f"not done, but {calls:,} durable calls are recorded"


def _brief(step: TraceStep) -> str:
    """Return what a step did."""
    counts = {
        "short-term changes": len(step["wrote"]["short_term"]),
        "sensory changes": len(step["wrote"]["sensory"] or ()),
        "items": len(step["wrote"]["items"]),
        "durable calls": len(step["calls"]),
        "events": len(step["sent"]),
        "outputs": len(step["outputs"]),
    }
    did = ", ".join(f"{count:,} {what}" for what, count in counts.items() if count)
    skipped = "it failed, and its agent went on without it" if step["skipped"] else ""
    return f"{step['action']}, commit {step['commit']}: {skipped or did or 'no changes'}"


# --- retry and discard ------------------------------------------------------------------------


@command("retry")
@RUNS
@all_option
@agent_option
@key_option
def retry(
    session: Session, *, numbers: Sequence[int], every: bool, agent: str | None, key: str | None
) -> None:
    """Let parked runs try again: fornix runs retry 17 18, or --all.

    A run goes on at the action that failed; what was committed before stands, and so do its
    durable calls that returned. If later runs of its key went on meanwhile, its input is run
    again behind them, as a new run. Whoever runs the agent takes it up: a process that serves, or
    fornix recover. With --json a line per run: {"run": …, "status": …, "by": …}; by is the run
    that has its input now.
    """
    with session.open() as memory:
        rows = _chosen(session, memory, numbers, agent, key, every=every)
        for row in rows:
            if row.status != "parked":
                what, own = f"run {row.id}", row.scope.key or ""
                raise StaleRun(own, expected="parked", found=row.status, what=what)
        for row in rows:
            last = overtaken(memory.store, row)
            by = memory.store.retry(row.id, last=last, time=memory.engine.clock())
            said = f"run {row.id} will be tried again"
            told = f"{said} as run {by}, behind those that went on" if last else said
            session.done(
                told, {"run": row.id, "status": "retried" if last else "waiting", "by": by}
            )


@command("discard")
@RUNS
@all_option
@agent_option
@key_option
def discard(
    session: Session, *, numbers: Sequence[int], every: bool, agent: str | None, key: str | None
) -> None:
    """Give runs up: fornix runs discard 17 18, or --all that are parked.

    What their finished actions committed stands; what is left is never done, and what waits behind
    them goes on. One that is named may also wait, or be under way: its action commits nothing.
    With --json a line per run: {"run": …, "status": "discarded"}.
    """
    with session.open() as memory:
        rows = _chosen(session, memory, numbers, agent, key, every=every)
        batches = [given_up(row, memory.engine.clock()) for row in rows]
        for row, batch in zip(rows, batches, strict=True):
            memory.store.commit(batch)
            session.done(f"run {row.id} is discarded", {"run": row.id, "status": "discarded"})


def _chosen(
    session: Session,
    memory: Memory,
    numbers: Sequence[int],
    agent: str | None,
    key: str | None,
    *,
    every: bool,
) -> list[Run]:
    """Return the runs that are named, or all that are parked, the earliest first."""
    if bool(numbers) == (every or agent is not None or key is not None):
        raise click.UsageError("name runs, or --all with --agent and --key as filters; not both")
    if not numbers and not every:
        raise click.UsageError("add --all to do it with all parked runs that the filters leave")
    if not numbers:
        return list(_found(memory, agent, key, "parked", 1 << 62))[::-1]
    return [require(session, memory, number) for number in sorted(set(numbers))]


def require(session: Session, memory: Memory, number: int) -> Run:
    """Return a run of the space; end the command if there is none."""
    row = memory.store.run(number)
    if row is None or row.scope.space != memory.space:
        session.nothing(f"space {memory.space!r} has no run {number} (any more)")
    return row


for _command in (list_runs, show_run, retry, discard):
    runs.add_command(_command)
