"""The commands of runs: list, show, retry and discard, and replay, which shows their steps."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import click

from alveus.cli import options, output
from alveus.cli.options import argument, option
from alveus.cli.session import Session
from alveus.errors import StaleRun
from alveus.memory.memory import Memory
from alveus.runs.runner.tickets import given_up, overtaken
from alveus.server.json_forms import error_of, run_fields
from alveus.server.traces import Fields, Trace, TraceStep, input_of
from alveus.store import Run, RunStatus
from alveus.store.runs import LARGEST
from alveus.values.lazy_dataclass import dataclass

STATUSES: tuple[RunStatus, ...] = ("waiting", "parked", "done", "discarded", "retried")

RUN = argument("RUN", type=options.Whole(1, LARGEST))
ONLY_AGENT = option("--agent -a NAME", "Only runs of this agent.")
ONLY_KEY = options.key_option("Only runs of this key.")

runs_command = options.group(
    "runs",
    "Look at runs; retry or discard those that failed.\n\n"
    "A run is the work of an agent on one input. If an action fails, the run is parked, and later "
    'inputs of its key wait behind it (unless the agent has on_failed="next").',
)


# --- list and show ----------------------------------------------------------------------------


@options.command("list", runs_command)
def list_runs(
    session: Session,
    *,
    agent: str | None = ONLY_AGENT,
    key: str | None = ONLY_KEY,
    status: RunStatus | None = option(
        "--status", "Only runs of this status.", type=click.Choice(STATUSES)
    ),
    limit: int = options.limit_option(100, 1_000_000),
) -> None:
    """List runs, the latest first.

    With --json a line per run: {"run": …, "agent": …, "key": …, "number": …, "status": …,
    "accepted": …, "begun": …, "ended": …, "origin": …, "error": {"action": …, "type": …,
    "message": …}}; error is null where nothing parked it.

    Example: alveus runs list --status parked
    """
    with session.open(mode="ro") as memory:
        found = found_runs(memory, agent=agent, key=key, status=status, limit=limit)
        columns = ("run", "status", "agent", "key", "number", "accepted", "error")
        session.listing(columns, found, _row, run_fields)


def found_runs(
    memory: Memory,
    *,
    agent: str | None = None,
    key: str | None = None,
    status: RunStatus | None = None,
    limit: int | None = None,
) -> Iterator[Run]:
    """Yield runs of the space, the latest first."""

    def page(before: int | None, size: int) -> Sequence[Run]:
        return memory.store.runs(
            memory.space, agent=agent, key=key, status=status, before=before, limit=size
        )

    return output.paged(page, lambda row: row.id, limit)


def _row(row: Run) -> tuple[str, ...]:
    age = output.span(max(0.0, time.time() - row.accepted / 1e6))
    error = error_of(row)
    why = "" if error is None else f"{error['action']}: {error['type']}: {error['message']}"
    key = str(row.scope.key)
    return str(row.id), row.status, row.agent, key, str(row.number), f"{age} ago", why


@options.command("show", runs_command)
def show_run(session: Session, *, number: int = RUN) -> None:
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
    fields = run_fields(row)
    facts = [
        ("run", f"{row.id}, number {row.number} of key {row.scope.key!r}, agent {row.agent!r}"),
        ("status", row.status),
        ("accepted", str(fields["accepted"])),
        ("begun", str(fields["begun"] or "not yet")),
        ("ended", str(fields["ended"] or "not yet")),
        ("input", output.shown(input_of(row))),
    ]
    if row.origin is not None:
        facts.append(("instead of", f"run {row.origin}"))
    error = error_of(row)
    if error is not None:
        said = f"{error['type']}: {error['message']}"
        facts.append(("parked by", f"{said} in action {error['action']!r}"))
    return [(name, output.one_line(fact)) for name, fact in facts]


def _done(traced: Trace) -> Iterator[tuple[str, str]]:
    """Yield a line per finished step, and a line for the open step."""
    for step in traced.steps():
        yield f"step {step['step']}", output.one_line(_brief(step))
    unfinished = traced.unfinished()
    if unfinished is not None:
        calls = len(unfinished["calls"])
        yield f"step {unfinished['step']}", f"not done, but {calls:,} durable calls are recorded"


def _brief(step: TraceStep) -> str:
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


@dataclass(frozen=True, slots=True)
class Chosen:
    """The runs that a command names, or all parked runs."""

    numbers: Sequence[int]
    every: bool
    agent: str | None
    key: str | None

    def rows(self, session: Session, memory: Memory) -> list[Run]:
        """Return the runs, earliest first. End the command if one does not exist."""
        agent, key = self.agent, self.key
        if bool(self.numbers) == (self.every or agent is not None or key is not None):
            raise click.UsageError(
                "pass the numbers of runs, or --all, which --agent and --key can limit; not both"
            )
        if self.numbers:
            return [require(session, memory, number) for number in sorted(set(self.numbers))]
        if not self.every:
            raise click.UsageError(
                "pass the numbers of runs, or --all for all parked runs that match --agent and "
                "--key"
            )
        if (agent or key) and not list(found_runs(memory, agent=agent, key=key, limit=1)):
            named = [("agent", agent), ("key", key)]
            whose = " and ".join(f"{what} {name!r}" for what, name in named if name is not None)
            session.nothing(f"no run of {whose} is kept; alveus runs list shows those that are")
        parked = list(found_runs(memory, agent=agent, key=key, status="parked"))[::-1]
        if not parked and not session.json:
            session.note("no run is parked")
        return parked


CHOSEN: Any = options.OptionGroup(
    {
        "numbers": argument("RUN…", nargs=-1, type=options.Whole(1, LARGEST)),
        "every": option("--all", "All parked runs that the filters leave."),
        "agent": ONLY_AGENT,
        "key": ONLY_KEY,
    },
    Chosen,
)


@options.command("retry", runs_command)
def retry(session: Session, *, chosen: Chosen = CHOSEN) -> None:
    """Retry parked runs.

    A run resumes at the action that failed; earlier commits and durable calls that returned are
    kept. If later runs of its key were done meanwhile, its input is run again behind them, as a
    new run. A process that serves the agent, or alveus recover, executes it. With --json a line
    per run: {"run": …, "status": …, "by": …}; by is the run that has its input now.

    Example: alveus runs retry 17 18
    """
    with session.open() as memory:
        rows = chosen.rows(session, memory)
        for row in rows:
            if row.status != "parked":
                key, what = row.scope.key or "", f"run {row.id}"
                raise StaleRun(key, expected="parked", found=row.status, what=what)
        for row in rows:
            last = overtaken(memory.store, row)
            by = memory.store.retry_run(row.id, last=last, time=memory.engine.clock())
            behind = f" as run {by}, after the runs that went on" if last else ""
            status = "retried" if last else "waiting"
            fields: dict[str, output.Json] = {"run": row.id, "status": status, "by": by}
            session.done(f"run {row.id} will be tried again{behind}", fields)


@options.command("discard", runs_command)
def discard(session: Session, *, chosen: Chosen = CHOSEN) -> None:
    """Discard runs that will not be finished.

    The commits of their finished actions are kept. The other actions are never run, and later runs
    of their keys continue. A run that is named may also wait or be active. The current action of an
    active run commits nothing. With --json a line per run: {"run": …, "status": "discarded"}.

    Example: alveus runs discard --all --agent Shop
    """
    with session.open() as memory:
        rows = chosen.rows(session, memory)
        batches = [given_up(row, memory.engine.clock()) for row in rows]
        for row, batch in zip(rows, batches, strict=True):
            memory.store.commit(batch)
            session.done(f"run {row.id} is discarded", {"run": row.id, "status": "discarded"})


def require(session: Session, memory: Memory, number: int) -> Run:
    """Return a run of the space. End the command if the run does not exist."""
    row = memory.store.run(number)
    if row is None or row.scope.space != memory.space:
        known = "alveus runs list shows the runs that are kept"
        session.nothing(f"space {memory.space!r} has no run {number}; {known}")
    return row


# --- replay -----------------------------------------------------------------------------------


@options.command("replay")
def replay_command(session: Session, *, number: int = RUN) -> None:
    """Show what each action of a run read, wrote and sent.

    Nothing is run again. Values and items are shown as they were then; values of sensory memory
    only until the run is done. With --json a line per step: {"step": …, "action": …,
    "commit": …, "time": …, "skipped": …, "read": {…}, "wrote": {…}, "calls": […], "sent": […],
    "outputs": […]}.

    Example: alveus replay 17
    """
    with session.open(mode="ro") as memory:
        row = require(session, memory, number)
        trace = Trace(memory, row)
        if not session.json:
            read = output.one_line(output.shown(input_of(row)))
            click.echo(f"run {row.id} of {output.one_line(f'{row.agent}, key {row.scope.key}')}")
            click.echo(f"  input  {read}")
        for step in trace.steps():
            if session.json:
                output.document({**step})  # pyright: ignore[reportArgumentType] - JSON, with its fields typed
            else:
                _show_step(step)
        unfinished = trace.unfinished()
        if unfinished is not None and not session.json:
            click.echo(f"\n{unfinished['step']}  not done yet")
            for line in _calls(unfinished["calls"]):
                click.echo(line)


def _show_step(step: TraceStep) -> None:
    title = click.style(output.one_line(step["action"]), bold=True)
    skipped = "  failed, and was skipped" if step["skipped"] else ""
    click.echo(f"\n{step['step']}  {title}  commit {step['commit']}, {step['time']}{skipped}")
    for line in (*_reads(step), *_writes(step), *_calls(step["calls"]), *_sent(step)):
        click.echo(line)


def _line(verb: str, said: str) -> str:
    return f"  {click.style(verb.ljust(6), dim=True)} {output.one_line(said)}"


def _reads(step: TraceStep) -> Iterator[str]:
    read = step["read"]
    for memory in ("short_term", "sensory"):
        for each in read[memory]:
            yield _line("read", f"{memory} {_node(each)}")
    for each in read["items"]:
        yield _line("read", _item(each))
    for search in read["searches"]:
        yield _line("search", f"{', '.join(search['sets'])}: {search['query']!r}")
        for hit in search["hits"]:
            yield _line("", f"  {_item(hit)}")


def _writes(step: TraceStep) -> Iterator[str]:
    wrote = step["wrote"]
    for each in wrote["short_term"]:
        yield _line("wrote", f"short_term {_node(each)}")
    for each in wrote["sensory"] or ():
        yield _line("wrote", f"sensory {_node(each)}")
    for each in wrote["items"]:
        yield _line(str(each["change"]), _item(each))


def _calls(calls: Iterable[Fields]) -> Iterator[str]:
    for each in calls:
        came = {name: each[name] for name in ("result", "error") if each.get(name) is not None}
        shown = "".join(f" {output.inline(value)}" for value in came.values())
        tries = f" at try {each['attempts']}" if each["attempts"] != 1 else ""
        yield _line("called", f"{each['function']}() {each['status']}{shown}{tries}")


def _sent(step: TraceStep) -> Iterator[str]:
    for each in step["sent"]:
        then = each["sets_off"]
        following = f" -> {', '.join(map(str, then))}" if isinstance(then, list) and then else ""
        yield _line("sent", f"{each['event']} {output.inline(each['data'])}{following}")
    for each in step["outputs"]:
        yield _line("output", f"{each['event']} {output.inline(each['data'])}")


def _node(each: Fields) -> str:
    path = each["path"] if isinstance(each["path"], str) else output.inline(each["path"])
    if "value" in each:
        return f"{path} = {output.inline(each['value'])}"
    said = [name for name in ("object", "missing", "removed", "cleared") if each.get(name)]
    return f"{path or '(all of it)'} {' '.join(said)}"


def _item(each: Fields) -> str:
    text = each["text"]
    return f"{each['set']}/{each['id']}" + ("" if text is None else f": {text}")
