"""Agents at work: run, recover."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import threading
import traceback
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import field
from hashlib import blake2b
from io import BufferedReader
from pathlib import Path
from types import ModuleType
from typing import IO, Any, NoReturn, cast

import click

from alveus.cli import options, output
from alveus.cli.options import argument, option
from alveus.cli.output import sink
from alveus.cli.runs import found_runs
from alveus.cli.session import Session
from alveus.errors import AlveusError, InvalidInput, NotFound, RunFailed, RunParked, Unavailable
from alveus.memory.memory import Memory
from alveus.runs import agent as agent_module
from alveus.runs.agent import Agent, DispatchTable
from alveus.runs.durable_calls import message_of
from alveus.runs.runner import LocalRunner, Output, Outputs
from alveus.runs.runner.local_runner import CONCURRENCY, OnParked
from alveus.store import Run
from alveus.transfer.import_source import line_error, numbered_lines
from alveus.values import wire
from alveus.values.forks import NO_THREAD, Flag, began
from alveus.values.lazy_dataclass import dataclass
from alveus.values.storable import Value, checked, checked_name

MOST_NAMED = 5
"""Most failed runs that the error names one by one."""

POLL_S = 0.2
"""How many seconds a consumer waits between two checks for a stop signal."""

SHAPE = 'write {"key": "ada", "value": …}, and "id": "…" if it has one'

BLOCK = 1 << 16

AGENT = argument("AGENT")
RUNNER_NAME = option("--name NAME", "The name of the runner and its inbox.  [default: the agent's]")
CONCURRENT_KEYS = option(
    "--concurrency COUNT",
    "Run COUNT keys at once.",
    type=options.Whole(1, 1000),
    default=CONCURRENCY,
)
ACTIONS_KNOWLEDGE = options.knowledge_option(
    "The knowledge for its actions.  [default: the space's]"
)


@options.command("run")
def run_command(
    session: Session,
    *,
    agent: str = AGENT,
    file: str | None = option(
        "--input -i FILE",
        'Read inputs from FILE, a line each; "-": from stdin.',
        type=click.Path(allow_dash=True),
    ),
    target: str | None = option(
        "--output -o FILE",
        "Write outputs to FILE, as --json prints them; it appears when all inputs are done.",
        type=click.Path(),
    ),
    force: bool = options.FORCE,
    again: str = option(
        "--again WORD",
        "Run lines without ids once more: with another WORD they are other inputs.",
        default="",
    ),
    retry_parked: bool = option(
        "--retry-parked",
        "Retry runs of these inputs that are parked, after their cause was corrected.",
    ),
    serve: bool = option("--serve", "Then continue with inputs that arrive in the inbox."),
    consumer: str | None = option(
        "--consumer NAME",
        "With --serve: print outputs of the agent that this consumer has not read.",
    ),
    name: str | None = RUNNER_NAME,
    concurrency: int = CONCURRENT_KEYS,
    knowledge: str | None = ACTIONS_KNOWLEDGE,
) -> None:
    """Run an agent on inputs, each input once.

    AGENT is FILE.py:NAME or MODULE:NAME. Each line of the input is
    {"key": "ada", "value": …, "id": "…"}; the id may be left out. Inputs of one key run one after
    the other, in the order of the lines; different keys run side by side.

    If the command is stopped by Ctrl-C or a kill, repeat it: it continues where it was. Inputs
    that were done are not run again, and give their first outputs. A line without an id gets one
    from its text, its position and the lines before it, so lines may be appended to the file, but
    not inserted. To run the same lines once more on purpose, add --again WORD.

    With --json a line per input, in their order: {"line": …, "key": …, "id": …, "run": …,
    "number": …, "repeated": …, "outputs": […]}, or with "error" instead of "outputs".
    Exit code 1 if a run failed: it is parked, and later inputs of its key wait; see alveus runs.
    After its cause was corrected, repeat the command with --retry-parked.

    --serve works until SIGTERM (exit code 0) or Ctrl-C (130); unfinished runs stay in the inbox.

    Example: alveus run my_agent.py:Shop --input events.jsonl
    """
    if file is None and not serve:
        raise click.UsageError("inputs are needed: --input FILE, or --serve to wait for inputs")
    if serve and target is not None:
        raise click.UsageError(
            "--serve and --output cannot be combined, since --serve does not end; pass "
            "--consumer NAME instead"
        )
    if consumer is not None and not serve:
        raise click.UsageError("--consumer needs --serve; add --serve, or leave out --consumer")
    if target == "-":
        raise click.UsageError("--json and --output - both use stdout; pass a file for --output")
    plan = load(agent, name=name)
    with ExitStack() as stack:
        feed = None if file is None else stack.enter_context(_feed(file, again))
        memory = stack.enter_context(session.open(knowledge=knowledge, make=Memory.stats))
        runner = LocalRunner(plan.agent, memory, name=plan.name, concurrency=concurrency)
        stack.enter_context(runner)
        if feed is not None:
            with nullcontext() if target is None else sink(target, force=force) as write:
                tally = _run(session, runner, feed, write, retry_parked=retry_parked)
            _sum_up(session, tally, target, goes_on=serve)
        if serve:
            _serve(session, runner, consumer)


# --- inputs -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Line:
    """An input, read from a line.

    Attributes:
        number: The number of the line, from 1.
        event_id: The id in the line, or an id made from the text of the line, its position and all
            lines before it.
        has_id: True if the id is in the line.
    """

    number: int
    key: str
    value: Value
    event_id: str
    has_id: bool


class Lines:
    """Reads the inputs in lines, in order. An input without an id gets an id.

    The id contains the input's number and a digest of this line and all lines before it. Equal
    lines have equal ids in every file, and appended lines change no earlier id.

    Args:
        name: The name of the file in errors.
        again: A word in the ids that are made. With another word, the same lines are new inputs.
    """

    def __init__(self, name: str, *, again: str = "") -> None:
        self._name, self._again = name, again
        self._last, self._count = b"", 0

    def read(self, texts: Iterator[tuple[int, str]]) -> Iterator[Line]:
        """Yield the inputs of numbered lines.

        Raises:
            InvalidInput: A line cannot be used.
        """
        for number, text in texts:
            try:
                yield self._line(number, text)
            except (ValueError, RecursionError) as error:
                raise line_error(self._name, number, str(error), SHAPE) from None

    def _line(self, number: int, text: str) -> Line:
        self._last = blake2b(text.encode(), digest_size=16, key=self._last).digest()
        self._count += 1
        try:
            found = wire.decode_user_json(text)
        except ValueError as error:
            problem = f"is not JSON that alveus reads ({error})"
            raise InvalidInput(problem) from None
        if not isinstance(found, dict):
            problem = f"is JSON, but not an object: {text[:40]}"
            raise InvalidInput(problem)
        fields = cast("dict[str, object]", found)
        missing = [name for name in ("key", "value") if name not in fields]
        other = sorted(fields.keys() - {"key", "value", "id"})
        if missing or other:
            raise InvalidInput(
                f"has no field {missing[0]!r}" if missing else f"has an unknown field {other[0]!r}"
            )
        key = checked_name(fields["key"], "a key")
        value = checked(found["value"])
        if found.get("id") is None:
            event_id = f"input {self._count} {self._last.hex()} {self._again}".rstrip()
            return Line(number, key, value, event_id, has_id=False)
        return Line(number, key, value, checked_name(fields["id"], "an event id"), has_id=True)


def _count_inputs(handle: IO[bytes], name: str) -> int:
    """Check all inputs of a file. Return their number.

    Raises:
        InvalidInput: A line cannot be used, or repeats the id of another line.
    """
    handle.seek(0)
    counted = 0
    used: dict[str, tuple[int, bytes]] = {}
    for line in Lines(name).read(numbered_lines(name, handle)):
        counted += 1
        if line.has_id:
            digest = wire.digest([line.key, line.value], salt=b"")
            first, known = used.setdefault(line.event_id, (line.number, digest))
            if known != digest:
                problem = f"line {first} has the same id {line.event_id!r} and other contents"
                raise line_error(name, line.number, problem, "give each input another id")
    return counted


def _batches_of_stdin(lines: Lines) -> Iterator[Iterator[Line]]:
    """Yield inputs of stdin as they arrive, because the writing program may wait for outputs."""
    number, rest = 0, b""
    stdin = cast("BufferedReader", sys.stdin.buffer)
    while block := stdin.read1(BLOCK):
        *whole, rest = (rest + block).split(b"\n")
        yield lines.read(numbered_lines("stdin", whole, lines_before=number))
        number += len(whole)
    yield lines.read(numbered_lines("stdin", [rest], lines_before=number))


@dataclass(frozen=True, slots=True)
class Feed:
    """Inputs: a whole file, or lines of a pipe as they arrive."""

    name: str
    batches: Iterator[Iterator[Line]]
    total: int | None


@contextmanager
def _feed(file: str, again: str) -> Generator[Feed]:
    """Open the inputs. A file is checked whole before the first input runs."""
    if file == "-":
        yield Feed("stdin", _batches_of_stdin(Lines("stdin", again=again)), None)
        return
    name = click.format_filename(file)
    if Path(file).is_dir():
        raise InvalidInput(f"{name} is a folder; pass a file in the folder")
    with Path(file).open("rb") as handle:
        total = _count_inputs(handle, name)
        handle.seek(0)
        lines = Lines(name, again=again).read(numbered_lines(name, handle))
        yield Feed(name, iter([lines]), total)


@dataclass
class InputTally:
    """The outcomes of inputs.

    Attributes:
        last: The number of the last line. All inputs up to it have an outcome.
        failed: Parked runs, and inputs that wait behind them.
    """

    done: int = 0
    repeated: int = 0
    outputs: int = 0
    failed: int = 0
    last: int = 0
    errors: list[str] = field(default_factory=list[str])

    def add(self, line: Line, outcome: Outputs | AlveusError) -> None:
        """Count an outcome."""
        self.last = line.number
        if isinstance(outcome, NotFound):  # its outputs were pruned already
            self.repeated += 1
        elif isinstance(outcome, AlveusError):
            self.failed += 1
            behind = outcome.behind if isinstance(outcome, RunParked) else None
            if behind is None and len(self.errors) < MOST_NAMED:
                self.errors.append(f"line {line.number}: {outcome}")
        else:
            self.done += not outcome.repeated
            self.repeated += outcome.repeated
            self.outputs += len(outcome)


def _run(
    session: Session,
    runner: LocalRunner,
    feed: Feed,
    write: Callable[[bytes], object] | None,
    *,
    retry_parked: bool,
) -> InputTally:
    """Run inputs. Print and count the outcomes."""
    tally = InputTally()
    try:
        with session.progress("running", total=feed.total) as advance:
            for line, outcome in _outcomes(runner, feed, retry_parked=retry_parked):
                _tell(session, line, outcome, write)
                tally.add(line, outcome)
                advance(1)
    except BaseException as error:
        error.add_note(
            f"{feed.name} was run up to line {tally.last}; the same command goes on from there "
            "and adds nothing twice"
        )
        raise
    return tally


def _sum_up(session: Session, tally: InputTally, target: str | None, *, goes_on: bool) -> None:
    """Print the counts. Raise `RunFailed` if an input failed, unless the command continues."""
    if target is not None or not session.json:
        counts = (
            (tally.done, f"{output.plural(tally.done, 'run')} done"),
            (tally.repeated, f"{tally.repeated:,} accepted before and done"),
            (tally.outputs, output.plural(tally.outputs, "output")),
        )
        summary = ", ".join(said for count, said in counts if count) or "nothing was done"
        session.done(summary, output.attributes(tally, "done repeated outputs failed"))
    if not tally.failed:
        return
    remedy = (
        "`alveus runs list --status parked` shows the errors; correct the cause and repeat this "
        "command with --retry-parked"
    )
    said = f"inputs that failed or wait for a failed run: {tally.failed:,}; {remedy}"
    if not goes_on:
        raise RunFailed("; ".join([said, *tally.errors]))
    session.note(said)


def _outcomes(
    runner: LocalRunner, feed: Feed, *, retry_parked: bool
) -> Iterator[tuple[Line, Outputs | AlveusError]]:
    """Run inputs side by side. Yield their outcomes in the order of the inputs."""
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


def _tell(
    session: Session,
    line: Line,
    outcome: Outputs | AlveusError,
    write: Callable[[bytes], object] | None,
) -> None:
    if write is not None:
        write(output.inline(_fields(line, outcome)).encode("utf-8", "backslashreplace") + b"\n")
    elif session.json:
        output.document(_fields(line, outcome))
    elif isinstance(outcome, Outputs):
        for value in outcome:
            click.echo(_shown(line.key, value))


def _shown(key: str, value: object) -> str:
    text = value if isinstance(value, str) else output.shown(checked(value))
    return f"{click.style(output.one_line(key), bold=True)}: {output.one_line(text)}"


def _fields(line: Line, outcome: Outputs | AlveusError) -> dict[str, output.Json]:
    event_id = line.event_id if line.has_id else None
    head: dict[str, output.Json] = {"line": line.number, "key": line.key, "id": event_id}
    if isinstance(outcome, Outputs):
        values = [output.wired(checked(value)) for value in outcome]
        return head | output.attributes(outcome, "run number repeated") | {"outputs": values}
    return head | {"error": {"type": type(outcome).__name__, "message": str(outcome)}}


# --- the inbox --------------------------------------------------------------------------------


def _serve(session: Session, runner: LocalRunner, consumer: str | None) -> None:
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
        raise Unavailable(f"the runner cannot serve: {NO_THREAD}")
    try:
        while not ended.is_set():
            for each in runner.outputs(consumer=consumer, wait_s=POLL_S):
                _print(session, each)
                if ended.is_set():
                    break
    finally:
        stop.set()
    ended.wait()
    if failures:
        raise failures[0]


def _print(session: Session, found: Output) -> None:
    if session.json:
        fields = output.attributes(found, "position run number key")
        output.document(fields | {"output": output.wired(checked(found.value))})
    else:
        click.echo(_shown(found.key, found.value))


# --- recover ----------------------------------------------------------------------------------


@options.command("recover")
def recover_command(
    session: Session,
    *,
    agent: str = AGENT,
    name: str | None = RUNNER_NAME,
    concurrency: int = CONCURRENT_KEYS,
    knowledge: str | None = ACTIONS_KNOWLEDGE,
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
        were_open = list(found_runs(memory, agent=plan.name, status="waiting"))
        runner = LocalRunner(plan.agent, memory, name=plan.name, concurrency=concurrency)
        with runner, session.progress("recovering"):
            runner.run_until_idle()
        _report(session, memory, were_open, plan.name)


def _report(session: Session, memory: Memory, were_open: list[Run], agent: str) -> None:
    """Print the final states of the waiting runs. Raise `RunFailed` if a run is not done."""
    now = Counter(row.status for each in were_open if (row := memory.store.run(each.id)))
    resumed = sum(each.now is not None for each in were_open)
    left = now["parked"] + now["waiting"]
    fields: dict[str, output.Json] = {
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
            f"runs parked: {now['parked']:,}, waiting: {now['waiting']:,}; `alveus runs list "
            "--status parked` shows the errors"
        )


# --- the agent that is named ------------------------------------------------------------------


def load(named: str, *, name: str | None) -> DispatchTable:
    """Return the plan of the agent named by ``FILE.py:NAME`` or ``MODULE:NAME``.

    Args:
        name: The name of the runner. None means the name of the agent.

    Raises:
        click.UsageError: A name is missing or empty.
        NotFound: The file, the module or the agent does not exist.
        InvalidInput: The import raised (the message names the line), or the object is not an agent
            or has no actions.
    """
    if name == "":
        raise click.UsageError("--name is empty; leave it out (a shell variable may not be set)")
    source, colon, attribute = named.rpartition(":")
    if not colon or not source or not attribute:
        raise click.UsageError(
            f"{named!r} does not name an agent; write my_agent.py:Shop, or package.module:Shop"
        )
    module = _file(source) if source.endswith(".py") or os.sep in source else _module(source)
    found: Any = module
    for part in attribute.split("."):
        found = getattr(found, part, None)
    if found is None:
        raise NotFound(f"{source} has no attribute {attribute!r}; {_offer(module)}")
    try:
        return DispatchTable.of(found, name=name)
    except AlveusError as error:
        raise InvalidInput(f"{source}: {error}") from error
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - a user's __init__: reported with its position
        _refuse(f"{source}: {attribute}", error, "made")


def _offer(module: ModuleType) -> str:
    agents = [name for name, value in vars(module).items() if _is_agent(value)]
    return f"its agents: {', '.join(agents)}" if agents else "it has no Agent"


def _is_agent(value: object) -> bool:
    if isinstance(value, type):
        return issubclass(value, Agent) and value is not Agent
    return isinstance(value, Agent)


def _file(source: str) -> ModuleType:
    """Import a file, which can import other modules of its folder. Return the module."""
    path = Path(source)
    if not path.is_file():
        raise NotFound(
            f"there is no file {source}; pass the path of a Python file, as in my_agent.py:Shop"
        )
    name = path.stem if path.stem not in sys.modules else f"alveus_agent_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path.absolute())
    if spec is None or spec.loader is None:
        raise InvalidInput(f"{source} is not a Python file; pass a file that ends with .py")
    module = importlib.util.module_from_spec(spec)
    with _importing(source, path.absolute().parent):
        sys.modules[name] = module  # dataclasses and durable calls look the module up
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[name]
            raise
    return module


def _module(source: str) -> ModuleType:
    """Return the module of this name, from the working directory or the installed packages."""
    with _importing(source, Path.cwd()):
        return importlib.import_module(source)


@contextmanager
def _importing(source: str, folder: Path) -> Generator[None]:
    """Let the block import modules, also from *folder*. Errors name the line that raised."""
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    try:
        yield
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - a user's module: reported with its position
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if missing is not None and f"{source}.".startswith(f"{missing}."):
            hint = (
                "run the command in a folder from which Python imports it, or pass a file: "
                "my_agent.py:Shop"
            )
            raise NotFound(f"there is no module {missing!r}; {hint}") from None
        _refuse(source, error)


def _refuse(source: str, error: BaseException, done: str = "imported") -> NoReturn:
    if isinstance(error, SyntaxError):
        where = f"{error.filename}:{error.lineno}"
    else:
        frames = traceback.extract_tb(error.__traceback__)
        theirs = [f for f in frames if not _is_machinery(f.filename)] or frames
        where = f"{theirs[-1].filename}:{theirs[-1].lineno}"
    said = message_of(error) if not isinstance(error, SyntaxError) else error.msg
    raise InvalidInput(
        f"{source} cannot be {done}: {where} raised {type(error).__name__}: {said}"
    ) from error


def _is_machinery(file: str) -> bool:
    return file.startswith("<frozen") or file in {__file__, agent_module.__file__}
