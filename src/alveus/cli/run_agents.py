"""Agents at work: run, recover."""

from __future__ import annotations

import os
import threading
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import field
from pathlib import Path
from typing import IO

import click

from alveus.cli import options
from alveus.cli import output as show
from alveus.cli.agent_import import AGENT, load
from alveus.cli.input_files import Line, Lines, batches_of_stdin, count
from alveus.cli.output import sink
from alveus.cli.session import Session
from alveus.errors import AlveusError, InvalidInput, NotFound, RunFailed, RunParked, Unavailable
from alveus.memory.memory import Memory
from alveus.runs.runner import LocalRunner, Output, Outputs
from alveus.runs.runner.local_runner import CONCURRENCY, OnParked
from alveus.store import Run
from alveus.transfer.import_source import numbered_lines
from alveus.values.forks import NO_THREAD, Flag, began
from alveus.values.lazy_dataclass import dataclass
from alveus.values.storable import checked

TOLD = 5
"""Failed runs that the error names one by one."""

POLL_S = 0.2
"""How often a consumer looks whether it is to end."""

PAGE = 1000

name_option = options.option(
    "--name NAME", "The name of the runner and its inbox.  [default: the agent's]"
)
concurrency_option = options.option(
    "--concurrency COUNT",
    "Run COUNT keys at once.",
    type=options.Whole(1, 1000),
    default=CONCURRENCY,
)
actions_knowledge_option = options.knowledge_option(
    "The knowledge for its actions.  [default: the space's]"
)


@options.command("run")
@AGENT
@options.option(
    "--input -i file FILE",
    'Read inputs from FILE, a line each; "-": from stdin.',
    type=click.Path(allow_dash=True),
)
@options.option(
    "--output -o FILE",
    "Write outputs to FILE, as --json prints them; it appears when all inputs are done.",
    type=click.Path(),
)
@options.force_option
@options.option(
    "--again WORD",
    "Run lines without ids once more: with another WORD they are other inputs.",
    default="",
)
@options.option(
    "--retry-parked", "Retry runs of these inputs that are parked, after their cause was corrected."
)
@options.option("--serve", "Then go on with what arrives in the inbox.")
@options.option(
    "--consumer NAME", "With --serve: print outputs of the agent that this consumer has not read."
)
@name_option
@concurrency_option
@actions_knowledge_option
def run_command(  # noqa: PLR0913 - an option each, as click passes them
    session: Session,
    *,
    agent: str,
    file: str | None,
    output: str | None,
    force: bool,
    again: str,
    retry_parked: bool,
    serve: bool,
    consumer: str | None,
    name: str | None,
    concurrency: int,
    knowledge: str | None,
) -> None:
    """Run an agent on inputs, each input once.

    AGENT is FILE.py:NAME or MODULE:NAME. Each line of the input is
    {"key": "ada", "value": …, "id": "…"}; the id may be left out. Inputs of one key run one after
    the other, in the order of the lines; different keys run side by side.

    If the command is stopped by Ctrl-C or a kill, repeat it: it continues where it was. Inputs
    that were done are not run again, and give their first outputs. A line without an id gets one
    from its text, its place and the lines before it, so lines may be appended to the file, but not
    inserted. To run the same lines once more on purpose, add --again WORD.

    With --json a line per input, in their order: {"line": …, "key": …, "id": …, "run": …,
    "number": …, "repeated": …, "outputs": […]}, or with "error" instead of "outputs".
    Exit code 1 if a run failed: it is parked, and later inputs of its key wait; see alveus runs.
    After its cause was corrected, repeat the command with --retry-parked.

    --serve works until SIGTERM (exit code 0) or Ctrl-C (130); unfinished runs stay in the inbox.

    Example: alveus run my_agent.py:Shop --input events.jsonl
    """
    if file is None and not serve:
        raise click.UsageError("name the inputs: --input FILE, or wait for them with --serve")
    if serve and output is not None:
        raise click.UsageError("--serve has no end, and so no --output; use --consumer NAME")
    if consumer is not None and not serve:
        raise click.UsageError("--consumer goes with --serve")
    if output == "-":
        raise click.UsageError("--json prints the outputs on stdout; name a file for --output")
    plan = load(agent, name=name)
    with ExitStack() as stack:
        feed = None if file is None else stack.enter_context(_feed(file, again))
        memory = stack.enter_context(session.open(knowledge=knowledge, make=Memory.stats))
        runner = LocalRunner(plan.agent, memory, name=plan.name, concurrency=concurrency)
        stack.enter_context(runner)
        if feed is not None:
            with nullcontext() if output is None else sink(output, force=force) as write:
                tally = _run(session, runner, feed, write, retry_parked=retry_parked)
            _sum_up(session, tally, output, goes_on=serve)
        if serve:
            _serve(session, runner, consumer)


# --- inputs -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Feed:
    """Inputs: all that a file has, or what comes through a pipe, as it comes."""

    name: str
    batches: Iterator[Iterator[Line]]
    total: int | None


@contextmanager
def _feed(file: str, again: str) -> Generator[Feed]:
    """Open what is to be run; a file is read and checked to its end before anything is run."""
    if file == "-":
        yield Feed("stdin", batches_of_stdin(Lines("stdin", again=again)), None)
        return
    name = click.format_filename(file)
    if Path(file).is_dir():
        raise InvalidInput(f"{name} is a folder; name a file in it")
    with Path(file).open("rb") as handle:
        total = count(handle, name)
        yield Feed(name, iter([_lines(name, handle, again)]), total)


def _lines(name: str, handle: IO[bytes], again: str) -> Iterator[Line]:
    handle.seek(0)
    return Lines(name, again=again).read(numbered_lines(name, handle))


@dataclass
class InputTally:
    """What became of inputs.

    Attributes:
        last: The last line that all up to it are done.
        failed: Runs that were parked, and inputs that wait behind those.
    """

    done: int = 0
    repeated: int = 0
    outputs: int = 0
    failed: int = 0
    last: int = 0
    errors: list[str] = field(default_factory=list[str])

    def summary(self) -> str:
        """Return it in words."""
        counts = (
            (self.done, f"{show.plural(self.done, 'run')} done"),
            (self.repeated, f"{self.repeated:,} accepted before and done"),
            (self.outputs, show.plural(self.outputs, "output")),
        )
        return ", ".join(said for count, said in counts if count) or "nothing was done"


def _run(
    session: Session,
    runner: LocalRunner,
    feed: Feed,
    write: Callable[[bytes], object] | None,
    *,
    retry_parked: bool,
) -> InputTally:
    """Run what is fed in, tell what comes of it, and count that."""
    tally = InputTally()
    try:
        with session.progress("running", total=feed.total) as advance:
            for line, outcome in _outcomes(runner, feed, retry_parked=retry_parked):
                _count(tally, line, outcome)
                _tell(session, line, outcome, write)
                tally.last = line.number
                advance(1)
    except BaseException as error:
        error.add_note(
            f"{feed.name} was run up to line {tally.last}; the same command goes on from there "
            "and adds nothing twice"
        )
        raise
    return tally


def _sum_up(session: Session, tally: InputTally, output: str | None, *, goes_on: bool) -> None:
    """Say what was done; what failed is an error, unless the command goes on."""
    if output is not None or not session.json:
        names = ("done", "repeated", "outputs", "failed")
        session.done(tally.summary(), {name: getattr(tally, name) for name in names})
    if not tally.failed:
        return
    remedy = (
        "`alveus runs list --status parked` has them; once the cause is corrected, repeat this "
        "command with --retry-parked"
    )
    said = f"{tally.failed:,} inputs failed, or wait behind one that did; {remedy}"
    if not goes_on:
        raise RunFailed("; ".join([said, *tally.errors]))
    session.note(said)


def _outcomes(
    runner: LocalRunner, feed: Feed, *, retry_parked: bool
) -> Iterator[tuple[Line, Outputs | AlveusError]]:
    """Run inputs side by side; yield what came of each, in their order."""
    for batch in feed.batches:
        ahead: deque[Line] = deque()

        def passed(
            batch: Iterator[Line] = batch, ahead: deque[Line] = ahead
        ) -> Iterator[tuple[str, object, str | None]]:
            for line in batch:
                ahead.append(line)
                yield line.key, line.value, line.event_id

        on_parked: OnParked = "retry" if retry_parked else "raise"
        for outcome in runner.map(passed(), errors="return", on_parked=on_parked):
            yield ahead.popleft(), outcome


def _count(tally: InputTally, line: Line, outcome: Outputs | AlveusError) -> None:
    if isinstance(outcome, NotFound):  # it was done so long ago that its outputs were pruned
        tally.repeated += 1
    elif isinstance(outcome, AlveusError):
        tally.failed += 1
        behind = outcome.behind if isinstance(outcome, RunParked) else None
        if behind is None and len(tally.errors) < TOLD:
            tally.errors.append(f"line {line.number}: {outcome}")
    else:
        tally.done += not outcome.repeated
        tally.repeated += outcome.repeated
        tally.outputs += len(outcome)


def _tell(
    session: Session,
    line: Line,
    outcome: Outputs | AlveusError,
    write: Callable[[bytes], object] | None,
) -> None:
    if write is not None:
        write(show.inline(_fields(line, outcome)).encode("utf-8", "backslashreplace") + b"\n")
    elif session.json:
        show.document(_fields(line, outcome))
    elif isinstance(outcome, Outputs):
        for value in outcome:
            click.echo(_shown(line.key, value))


def _shown(key: str, value: object) -> str:
    text = value if isinstance(value, str) else show.inline(show.wired(checked(value)))
    return f"{click.style(show.one_line(key), bold=True)}: {show.one_line(text)}"


def _fields(line: Line, outcome: Outputs | AlveusError) -> dict[str, show.Json]:
    told: dict[str, show.Json] = {"line": line.number, "key": line.key}
    told["id"] = line.event_id if line.has_id else None
    if isinstance(outcome, Outputs):
        values = [show.wired(checked(value)) for value in outcome]
        rest = {"run": outcome.run, "number": outcome.number, "repeated": outcome.repeated}
        return told | rest | {"outputs": values}
    error = {"type": type(outcome).__name__, "message": str(outcome)}
    return told | {"error": error}


# --- the inbox --------------------------------------------------------------------------------


def _serve(session: Session, runner: LocalRunner, consumer: str | None) -> None:
    """Work on what comes in, until a signal."""
    stop = Flag()
    with session.stopped_by_signals(stop.set):
        session.note(f"serving {runner.name!r}, process {os.getpid()}")
        if consumer is None:
            runner.serve(stop=stop)
        else:
            _consume(session, runner, consumer, stop)


def _consume(session: Session, runner: LocalRunner, consumer: str, stop: Flag) -> None:
    ended, failures = Flag(), list[BaseException]()

    def serve() -> None:
        try:
            runner.serve(stop=stop)
        except BaseException as error:  # noqa: BLE001 - it is raised below
            failures.append(error)
        finally:
            ended.set()

    if not began(threading.Thread(target=serve, name="alveus-serve", daemon=True)):
        raise Unavailable(f"the runner does not serve: {NO_THREAD}")
    try:
        while not ended.is_set():
            for output in runner.outputs(consumer=consumer, wait_s=POLL_S):
                _print(session, output)
                if ended.is_set():
                    break
    finally:
        stop.set()
    ended.wait()
    if failures:
        raise failures[0]


def _print(session: Session, output: Output) -> None:
    if not session.json:
        click.echo(_shown(output.key, output.value))
        return
    told: dict[str, show.Json] = {"position": output.position, "run": output.run}
    told |= {"number": output.number, "key": output.key}
    show.document(told | {"output": show.wired(checked(output.value))})


# --- recover ----------------------------------------------------------------------------------


@options.command("recover")
@AGENT
@name_option
@concurrency_option
@actions_knowledge_option
def recover_command(
    session: Session, *, agent: str, name: str | None, concurrency: int, knowledge: str | None
) -> None:
    """Finish the runs that a crash left.

    Runs every input that waits, and resumes unfinished runs after their last commit. Parked runs
    stay parked: see alveus runs retry.
    With --json: {"resumed": …, "begun": …, "done": …, "parked": …, "waiting": …}; resumed runs
    had begun before. Exit code 1 if one of them is parked now, or waits behind one.

    Example: alveus recover my_agent.py:Shop
    """
    plan = load(agent, name=name)
    with session.open(knowledge=knowledge) as memory:
        were_open = list(_waiting(memory, plan.name))
        runner = LocalRunner(plan.agent, memory, name=plan.name, concurrency=concurrency)
        with runner, session.progress("recovering"):
            runner.run_until_idle()
        _report(session, memory, were_open, plan.name)


def _waiting(memory: Memory, agent: str) -> Iterator[Run]:
    before: int | None = None
    while rows := memory.store.runs(
        memory.space, agent=agent, status="waiting", before=before, limit=PAGE
    ):
        yield from rows
        before = rows[-1].id


def _report(session: Session, memory: Memory, were_open: list[Run], agent: str) -> None:
    """Say what became of runs that waited."""
    now = Counter(row.status for each in were_open if (row := memory.store.run(each.id)))
    resumed = sum(each.now is not None for each in were_open)
    left = now["parked"] + now["waiting"]
    fields: dict[str, show.Json] = {
        "resumed": resumed,
        "begun": len(were_open) - resumed,
        "done": len(were_open) - left,
        "parked": now["parked"],
        "waiting": now["waiting"],
    }
    said = f"{resumed:,} runs of {agent!r} taken up, {fields['begun']:,} begun: "
    session.done(f"{said}{fields['done']:,} done, {left:,} left", fields)
    if left:
        raise RunFailed(
            f"{now['parked']:,} of them are parked, {now['waiting']:,} wait; "
            "`alveus runs list --status parked` shows what failed"
        )
