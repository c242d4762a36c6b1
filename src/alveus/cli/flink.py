"""Agents on Apache Flink: alveus flink run, submit, explain."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack

import click

from alveus.cli import options
from alveus.cli.agent_import import AGENT, load
from alveus.cli.run_agents import actions_knowledge_option, concurrency_option, name_option
from alveus.cli.session import Session
from alveus.errors import InvalidInput
from alveus.memory.memory import Memory

if TYPE_CHECKING:
    from alveus.runs.runner.flink import FlinkRunner, FlinkSettings


class SettingOptions(TypedDict):
    """The options that say with which settings of Flink a job is run."""

    checkpoints: str | None
    interval: float
    mode: Literal["concurrent", "synchronous"]
    settings: tuple[str, ...]


class JobOptions(SettingOptions):
    """The options that say what a job is."""

    parallelism: int | None
    name: str | None
    concurrency: int
    knowledge: str | None


_SETTINGS = (
    options.option(
        "--checkpoints PLACE",
        "Where Flink keeps checkpoints: a folder, or a URL that it can write to.",
    ),
    options.option(
        "--interval SECONDS",
        "Take a checkpoint every SECONDS.",
        type=options.FiniteRange(0.01, 86_400),
        default=5.0,
    ),
    options.option(
        "--mode WORD",
        "concurrent: a slow action holds up its own key alone; synchronous: one after the other.",
        type=click.Choice(("concurrent", "synchronous")),
        default="concurrent",
    ),
    options.option(
        "--set -D settings NAME=VALUE",
        "A setting of Flink, before those of alveus.",
        multiple=True,
        type=str,
    ),
)

_JOB = (
    *_SETTINGS,
    options.option(
        "--parallelism COUNT",
        "Run COUNT parallel parts.  [default: Flink's]",
        type=options.Whole(1, 32_768),
    ),
    name_option,
    concurrency_option,
    actions_knowledge_option,
)

_FILES = (
    options.option(
        "--source -i PATH",
        "Read inputs from PATH: a file, or a folder, of lines as those of alveus run, with ids.",
        required=True,
    ),
    options.option("--sink -o FOLDER", "Write outputs to FOLDER.", required=True),
    options.option("--watch", "Go on with files that are added to the folder."),
)


def _given(decorators: tuple[options.Decorator[Any], ...]) -> options.Decorator[Any]:
    """Return one decorator that does what several do, the first one on top."""

    def decorate(function: Any) -> Any:  # noqa: ANN401 - what a command is, click says
        for each in reversed(decorators):
            function = each(function)
        return function

    return decorate


@click.group("flink", no_args_is_help=False, params=options.shared(hidden=True))
def flink_command() -> None:
    """Run agents on Apache Flink.

    Needs alveus[flink], in an environment of its own, and Java 17.
    """


@options.command("run")
@AGENT
@_given(_FILES)
@options.option(
    "--resume CHECKPOINT",
    "Go on from a checkpoint; latest: the last complete one, if there is one.",
    default="latest",
)
@_given(_JOB)
def run_on_flink(
    session: Session,
    *,
    agent: str,
    source: str,
    sink: str,
    watch: bool,
    resume: str | None,
    **job: Unpack[JobOptions],
) -> None:
    """Run an agent in a Flink of this machine, which ends with the job.

    If the command is killed, repeat it: it goes on from the last checkpoint, and no input is run
    twice. Without --checkpoints, outputs are written again for all inputs.
    With --json: {"agent": …, "source": …, "sink": …}.

    Example: alveus flink run my_agent.py:Shop -i in.jsonl -o out
    """
    runner = _runner(session, agent, job)
    if resume == "latest" and runner.settings.local_checkpoints is None:
        resume = None
    with session.progress("running on Flink"):
        runner.run(source, sink, watch=watch, resume=resume)
    fields = {"agent": runner.name, "source": source, "sink": sink}
    session.done(
        f"{runner.name}: all inputs of {source} are done; outputs are in {sink}", {**fields}
    )


@options.command("submit")
@AGENT
@_given(_FILES)
@options.option("--jobmanager HOST:PORT", "The REST server of the cluster.", required=True)
@options.option("--resume CHECKPOINT", "Go on from a checkpoint or a savepoint.", type=str)
@_given(_JOB)
def submit_to_flink(  # noqa: PLR0913 - an option each, as click passes them
    session: Session,
    *,
    agent: str,
    source: str,
    sink: str,
    watch: bool,
    jobmanager: str,
    resume: str | None,
    **job: Unpack[JobOptions],
) -> None:
    """Send an agent to a cluster, and print the id of its job.

    The workers need alveus[flink,postgres] in the Python that --set python.executable=PATH names
    (by default this one), and reach the store, the inputs and the outputs under the same names.
    With --json: {"agent": …, "job": …}.

    Example: alveus flink submit agent.py:Shop -i in -o out --jobmanager db:8081
    """
    runner = _runner(session, agent, job)
    number = runner.submit(source, sink, jobmanager=jobmanager, watch=watch, resume=resume)
    fields = {"agent": runner.name, "job": number}
    session.done(f"{runner.name} is job {number} of {jobmanager}", {**fields})


@options.command("explain")
@_given(_SETTINGS)
def explain_flink(session: Session, **chosen: Unpack[SettingOptions]) -> None:
    """List the settings of Flink that alveus chooses, each with the reason.

    With --json a line per setting: {"name": …, "value": …, "reason": …}.

    Example: alveus flink explain --mode synchronous
    """
    session.listing(
        ("setting", "value", "reason"),
        _settings(chosen).all(),
        row=lambda each: (each.name, each.value, each.reason),
        fields=lambda each: {"name": each.name, "value": each.value, "reason": each.reason},
    )


for _command in (run_on_flink, submit_to_flink, explain_flink):
    flink_command.add_command(_command)


def _settings(chosen: SettingOptions) -> FlinkSettings:
    from alveus.runs.runner.flink import FlinkSettings

    return FlinkSettings(
        mode=chosen["mode"],
        checkpoints=chosen["checkpoints"],
        interval_s=chosen["interval"],
        overrides=_overrides(chosen["settings"]),
    )


def _runner(session: Session, agent: str, job: JobOptions) -> FlinkRunner:
    from alveus.runs.runner.flink import FlinkRunner

    plan = load(agent, name=job["name"])
    with session.open(knowledge=job["knowledge"], make=Memory.stats):
        pass  # what is wrong with it is said here, not by each worker
    return FlinkRunner(
        plan.agent,
        session.server or str(session.file),
        name=plan.name,
        space=session.space,
        knowledge=job["knowledge"],
        embedder=session.embedder,
        mode=job["mode"],
        concurrency=job["concurrency"],
        checkpoints=job["checkpoints"],
        interval_s=job["interval"],
        parallelism=job["parallelism"],
        overrides=_overrides(job["settings"]),
    )


def _overrides(settings: tuple[str, ...]) -> dict[str, str]:
    """Return settings of Flink by name."""
    found: dict[str, str] = {}
    for each in settings:
        name, equals, value = each.partition("=")
        if not name or not equals:
            raise InvalidInput(f"--set takes NAME=VALUE, not {each!r}")
        found[name.strip()] = value
    return found
