"""Agents on Apache Flink: alveus flink run, submit, explain."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypedDict

import click

from alveus.cli import options
from alveus.cli.options import option
from alveus.cli.run_agents import ACTIONS_KNOWLEDGE, AGENT, CONCURRENT_KEYS, RUNNER_NAME, load
from alveus.cli.session import Session
from alveus.errors import InvalidInput
from alveus.memory.memory import Memory

if TYPE_CHECKING:
    from alveus.runs.runner.flink import FlinkRunner


class FlinkOptions(TypedDict):
    """The Flink settings that the options give."""

    checkpoints: str | None
    interval_s: float
    mode: Literal["concurrent", "synchronous"]
    overrides: dict[str, str]


class Job(FlinkOptions):
    """The options of a job."""

    parallelism: int | None
    name: str | None
    concurrency: int
    knowledge: str | None


def _overrides(
    _ctx: click.Context, _param: click.Parameter, settings: tuple[str, ...]
) -> dict[str, str]:
    found: dict[str, str] = {}
    for each in settings:
        name, equals, value = each.partition("=")
        if not name or not equals:
            raise InvalidInput(f"--set needs NAME=VALUE, not {each!r}")
        found[name.strip()] = value
    return found


_SETTING_OPTIONS: dict[str, options.Declared] = {
    "checkpoints": option(
        "--checkpoints PLACE",
        "Where Flink keeps checkpoints: a folder, or a URL that it can write to.",
    ),
    "interval_s": option(
        "--interval SECONDS",
        "Take a checkpoint every SECONDS.",
        type=options.FiniteRange(0.01, 86_400),
        default=5.0,
    ),
    "mode": option(
        "--mode WORD",
        "concurrent: a slow action delays only its key; synchronous: one after the other.",
        type=click.Choice(("concurrent", "synchronous")),
        default="concurrent",
    ),
    "overrides": option(
        "--set -D NAME=VALUE",
        "A setting of Flink, before those of alveus.",
        multiple=True,
        type=str,
        callback=_overrides,
    ),
}
_SETTINGS: Any = options.OptionGroup(_SETTING_OPTIONS, FlinkOptions)
_JOB: Any = options.OptionGroup(
    {
        **_SETTING_OPTIONS,
        "parallelism": option(
            "--parallelism COUNT",
            "Run COUNT parallel parts.  [default: Flink's]",
            type=options.Whole(1, 32_768),
        ),
        "name": RUNNER_NAME,
        "concurrency": CONCURRENT_KEYS,
        "knowledge": ACTIONS_KNOWLEDGE,
    },
    Job,
)
_SOURCE = option(
    "--source -i PATH",
    "Read inputs from PATH: a file, or a folder, of lines as those of alveus run, with ids.",
    required=True,
)
_SINK = option("--sink -o FOLDER", "Write outputs to FOLDER.", required=True)
_WATCH = option("--watch", "Go on with files that are added to the folder.")

flink_command = options.group(
    "flink",
    "Run agents on Apache Flink.\n\nNeeds alveus[flink], in a separate environment, and Java 17.",
)


@options.command("run", flink_command)
def run_on_flink(
    session: Session,
    *,
    agent: str = AGENT,
    source: str = _SOURCE,
    sink: str = _SINK,
    watch: bool = _WATCH,
    resume: str | None = option(
        "--resume CHECKPOINT",
        "Go on from a checkpoint; latest: the last complete one, if there is one.",
        default="latest",
    ),
    job: Job = _JOB,
) -> None:
    """Run an agent in a Flink on this machine. That Flink ends with the job.

    If the command is killed, repeat it: it continues from the last checkpoint, and no input is run
    twice. Without --checkpoints, outputs are written again for all inputs. With --json: {"agent":
    …, "source": …, "sink": …}.

    Example: alveus flink run my_agent.py:Shop -i in.jsonl -o out
    """
    runner = _runner(session, agent, job)
    if resume == "latest" and runner.settings.local_checkpoints is None:
        resume = None
    with session.progress("running on Flink"):
        runner.run(source, sink, watch=watch, resume=resume)
    session.done(
        f"{runner.name}: all inputs of {source} are done; outputs are in {sink}",
        {"agent": runner.name, "source": source, "sink": sink},
    )


@options.command("submit", flink_command)
def submit_to_flink(
    session: Session,
    *,
    agent: str = AGENT,
    source: str = _SOURCE,
    sink: str = _SINK,
    watch: bool = _WATCH,
    jobmanager: str = option(
        "--jobmanager HOST:PORT", "The REST server of the cluster.", required=True
    ),
    resume: str | None = option(
        "--resume CHECKPOINT", "Go on from a checkpoint or a savepoint.", type=str
    ),
    job: Job = _JOB,
) -> None:
    """Send an agent to a cluster, and print the id of its job.

    The workers need alveus[flink,postgres] in the Python that --set python.executable=PATH names
    (by default this one), and reach the store, the inputs and the outputs under the same names.
    With --json: {"agent": …, "job": …}.

    Example: alveus flink submit agent.py:Shop -i in -o out --jobmanager db:8081
    """
    runner = _runner(session, agent, job)
    number = runner.submit(source, sink, jobmanager=jobmanager, watch=watch, resume=resume)
    session.done(
        f"{runner.name} is job {number} of {jobmanager}", {"agent": runner.name, "job": number}
    )


@options.command("explain", flink_command)
def explain_flink(session: Session, *, settings: FlinkOptions = _SETTINGS) -> None:
    """List the settings of Flink that alveus chooses, each with the reason.

    With --json a line per setting: {"name": …, "value": …, "reason": …}.

    Example: alveus flink explain --mode synchronous
    """
    from alveus.runs.runner.flink import FlinkSettings

    session.listing(
        ("setting", "value", "reason"),
        FlinkSettings(**settings).all(),
        lambda each: (each.name, each.value, each.reason),
        lambda each: {"name": each.name, "value": each.value, "reason": each.reason},
    )


def _runner(session: Session, agent: str, job: Job) -> FlinkRunner:
    from alveus.runs.runner.flink import FlinkRunner

    plan = load(agent, name=job["name"])
    job["name"] = plan.name
    with session.open(knowledge=job["knowledge"], make=Memory.stats):
        pass  # an error of opening is raised here, not by each worker
    return FlinkRunner(
        plan.agent,
        session.server or str(session.file),
        space=session.space,
        embedder=session.embedder,
        **job,
    )
