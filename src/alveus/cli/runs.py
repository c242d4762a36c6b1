"""Runs as they are, and what is decided of them: list, show, retry, discard."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import click

from alveus.cli import options, output
from alveus.cli.session import Session
from alveus.errors import StaleRun
from alveus.memory.memory import Memory
from alveus.runs.runner.run_records import given_up, overtaken
from alveus.server.json_forms import error_of, run_fields
from alveus.server.run_traces import Trace, TraceStep, input_of
from alveus.store import Run, RunStatus
from alveus.store.runs import LARGEST

STATUSES: tuple[RunStatus, ...] = ("waiting", "parked", "done", "discarded", "retried")

RUN = click.argument("number", metavar="RUN", type=options.Whole(1, LARGEST))
RUNS = click.argument("numbers", metavar="RUN…", nargs=-1, type=options.Whole(1, LARGEST))

agent_option = options.option("--agent -a NAME", "Only runs of this agent.")
runs_key_option = options.key_option("Only runs of this key.")
all_option = options.option("--all every", "All parked runs that the filters leave.")


@click.group("runs", no_args_is_help=False, params=options.shared(hidden=True))
def runs_command() -> None:
    """Look at runs; retry or discard those that failed.

    A run is the work of an agent on one input. If an action fails, the run is parked, and later
    inputs of its key wait behind it (unless the agent has on_failed="next").
    """


# --- list and show ----------------------------------------------------------------------------


@options.command("list")
@agent_option
@runs_key_option
@options.option("--status", "Only runs of this status.", type=click.Choice(STATUSES))
@options.limit_option(100, 1_000_000)
def list_runs(
    session: Session, *, agent: str | None, key: str | None, status: RunStatus | None, limit: int
) -> None:
    """List runs, the latest first.

    With --json a line per run: {"run": …, "agent": …, "key": …, "number": …, "status": …,
    "accepted": …, "begun": …, "ended": …, "origin": …, "error": {"action": …, "type": …,
    "message": …}}; error is null where nothing parked it.

    Example: alveus runs list --status parked
    """
    with session.open(mode="ro") as memory:
        columns = ("run", "status", "agent", "key", "number", "accepted", "error")
        found = _found(memory, agent, key, status, limit)
        session.listing(columns, found, row=_row, fields=run_fields)


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
            limit=min(limit, output.PAGE),
        )
        yield from rows
        if len(rows) < output.PAGE:
            return
        before, limit = rows[-1].id, limit - len(rows)


def _row(row: Run) -> tuple[str, ...]:
    age = output.span(max(0.0, time.time() - row.accepted / 1e6))
    error = error_of(row)
    why = "" if error is None else f"{error['action']}: {error['type']}: {error['message']}"
    key = str(row.scope.key)
    return str(row.id), row.status, row.agent, key, str(row.number), f"{age} ago", why


@options.command("show")
@RUN
def show_run(session: Session, *, number: int) -> None:
    """Show a run: its input, its steps so far, and the error that parked it.

    With --json one object: what list prints, and {"input": …, "steps": […], "open": …,
    "outputs": […]}; steps and open as alveus replay prints them, and the error has its
    "traceback".

    Example: alveus runs show 17
    """
    with session.open(mode="ro") as memory:
        row = require(session, memory, number)
        traced = Trace(memory, row)
        if session.json:
            output.document(run_fields(row) | {"error": error_of(row)} | traced.document())
            return
        output.facts([*_facts(row), *_done(traced)])
        error = error_of(row)
        if error is not None:
            click.echo(f"\n{output.plain(error['traceback']).rstrip()}")


def _facts(row: Run) -> list[tuple[str, str]]:
    told = run_fields(row)
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


@options.command("retry")
@RUNS
@all_option
@agent_option
@runs_key_option
def retry(
    session: Session, *, numbers: Sequence[int], every: bool, agent: str | None, key: str | None
) -> None:
    """Retry parked runs.

    A run resumes at the action that failed; earlier commits and durable calls that returned are
    kept. If later runs of its key were done meanwhile, its input is run again behind them, as a
    new run. A process that serves the agent executes it, or alveus recover. With --json a line
    per run: {"run": …, "status": …, "by": …}; by is the run that has its input now.

    Example: alveus runs retry 17 18
    """
    with session.open() as memory:
        rows = _chosen(session, memory, numbers, agent, key, every=every)
        for row in rows:
            if row.status != "parked":
                what, own = f"run {row.id}", row.scope.key or ""
                raise StaleRun(own, expected="parked", found=row.status, what=what)
        for row in rows:
            last = overtaken(memory.store, row)
            by = memory.store.retry_run(row.id, last=last, time=memory.engine.clock())
            said = f"run {row.id} will be tried again"
            told = f"{said} as run {by}, behind those that went on" if last else said
            session.done(
                told, {"run": row.id, "status": "retried" if last else "waiting", "by": by}
            )


@options.command("discard")
@RUNS
@all_option
@agent_option
@runs_key_option
def discard(
    session: Session, *, numbers: Sequence[int], every: bool, agent: str | None, key: str | None
) -> None:
    """Discard runs that will not be finished.

    What their finished actions committed is kept; the rest is never done, and the runs behind them
    go on. A run that is named may also be waiting or active: its current action commits nothing.
    With --json a line per run: {"run": …, "status": "discarded"}.

    Example: alveus runs discard --all --agent Shop
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
        if next(_found(memory, agent, key, None, 1), None) is None and (agent or key):
            named = [("agent", agent), ("key", key)]
            whose = " and ".join(f"{what} {name!r}" for what, name in named if name is not None)
            session.nothing(f"no run of {whose} is kept; alveus runs list shows those that are")
        parked = list(_found(memory, agent, key, "parked", 1 << 62))[::-1]
        if not parked and not session.json:
            session.note("no run is parked")
        return parked
    return [require(session, memory, number) for number in sorted(set(numbers))]


def require(session: Session, memory: Memory, number: int) -> Run:
    """Return a run of the space; end the command if there is none."""
    row = memory.store.run(number)
    if row is None or row.scope.space != memory.space:
        known = "alveus runs list shows the runs that are kept"
        session.nothing(f"space {memory.space!r} has no run {number}; {known}")
    return row


for _command in (list_runs, show_run, retry, discard):
    runs_command.add_command(_command)
