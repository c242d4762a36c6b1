"""FlinkRunner: an agent as a part of a Flink job, each input exactly once.

Flink sends the inputs of a key to one parallel part of the job, in order. After a failure it sends
the inputs since the last checkpoint again. In each part a local runner runs the agent on the store.
A committed run is not run again: its recorded outputs are emitted.
"""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import alveus
from alveus.embed import Embedder
from alveus.errors import InvalidInput, NotFound, Unsupported
from alveus.errors.short_repr import short_repr
from alveus.runs.agent import Agent, DispatchTable
from alveus.runs.runner.flink.records import Extract
from alveus.runs.runner.flink.settings import FlinkSettings, Mode
from alveus.runs.runner.flink.subtask import FlinkJob
from alveus.runs.runner.local_runner import CONCURRENCY
from alveus.store import Retain
from alveus.values.storable import counted

if TYPE_CHECKING:
    from pyflink.datastream import DataStream, StreamExecutionEnvironment


class FlinkRunner:
    """Runs an agent inside a Flink job.

    Args:
        agent: A subclass of `Agent`, or an instance of one. Workers import the agent by its name
            in a module or script.
        store_url: The store of items, journal and exact memory: ``postgresql://…``, which all
            workers must reach, or a path if all workers are on one machine.
        name: The name under which the store keeps inbox, run numbers and outputs. The default is
            the name of the agent.
        space, knowledge, embedder: As for `Memory.open`, in every worker.
        mode: With "concurrent", different keys run side by side, and a slow action delays only its
            key. With "synchronous", each parallel part of the job runs one input after the other.
        concurrency: The largest number of keys in work at once in each parallel part.
        capacity: The largest number of inputs that each part hands to its runner at once. Further
            inputs wait in keyed state.
        hot_for: How long a key without inputs keeps the copy of its exact memory in keyed state.
        checkpoints: Where Flink keeps checkpoints: a folder, or a URL that Flink can write to.
        interval_s: The seconds between checkpoints.
        parallelism: The number of parallel parts; None means Flink's default.
        retain: How long ended runs are kept. With checkpoints in a local folder, runs that some
            checkpoint does not cover are kept longer.
        overrides: Settings of Flink by name, which override the settings of alveus.

    Raises:
        InvalidInput: A setting cannot be used, or *agent* is not an agent that workers can import.
    """

    def __init__(  # noqa: PLR0913 - all but the first two by name
        self,
        agent: Agent | type[Agent],
        store_url: str,
        *,
        name: str | None = None,
        space: str = "default",
        knowledge: str | None = None,
        embedder: str | Embedder | None = None,
        mode: Mode = "concurrent",
        concurrency: int = CONCURRENCY,
        capacity: int = 1_000,
        hot_for: timedelta = timedelta(hours=1),
        checkpoints: str | None = None,
        interval_s: float = 5.0,
        parallelism: int | None = None,
        retain: Retain | None = None,
        overrides: Mapping[str, str] | None = None,
    ) -> None:
        self.name = DispatchTable.of(agent, name=name).name
        self.settings = FlinkSettings(
            self.name, mode, checkpoints, interval_s, parallelism, overrides
        )
        if retain is not None and retain.count is not None:
            raise InvalidInput(
                "retain=Retain(count=…) could prune inputs that a restored job needs; on Flink "
                "pass an age: Retain(age=…)"
            )
        if not isinstance(hot_for, timedelta) or hot_for < timedelta(seconds=1):  # pyright: ignore[reportUnnecessaryIsInstance] - user input
            raise InvalidInput(f"hot_for must be a timedelta of 1 s or more, not {hot_for!r}")
        if store_url == ":memory:" or not isinstance(store_url, str):  # pyright: ignore[reportUnnecessaryIsInstance] - user input
            raise InvalidInput(
                "store_url must be postgresql://…, or a path if one machine runs the whole job, "
                f"not {short_repr(store_url)}"
            )
        self._files, self._folders = files_of(agent), folders_of(agent)
        self._job = FlinkJob(
            agent=reference_to(agent),
            store_url=_absolute(store_url),
            name=self.name,
            space=space,
            knowledge=knowledge,
            embedder=embedder,
            mode=mode,
            concurrency=counted(concurrency, "concurrency"),
            capacity=counted(capacity, "capacity"),
            hot_for=hot_for,
            retain=retain,
            checkpoints=self.settings.local_checkpoints,
        )

    def build(
        self,
        stream: DataStream,
        *,
        key: Extract | None = None,
        value: Extract | None = None,
        event_id: Extract | None = None,
    ) -> DataStream:
        """Return the outputs of the agent on the inputs of a stream, as lines of JSON.

        An output is ``{"key": …, "id": …, "run": …, "number": …, "position": …, "output": …}``.
        Here "id" is the id of the input, "run" the id of the run, "number" the number of the run
        among the runs of the key, and "position" the number of the output in the run. Pass the
        returned stream to `problems` to get the inputs that cannot be run and the parked runs.

        Args:
            stream: A stream of records. A record is ``(key, value, id)``, a dict with these names,
                or such a dict as JSON, unless the functions below return all three parts.
            key: A function that returns the key of a record: a str, int, bool, float or bytes; see
                `key_text`.
            value: A function that returns the value of a record: a storable value, which becomes
                an `InputEvent`, or an event.
            event_id: A function that returns the id of a record, by which an input that comes again
                is recognised.
        """
        job = _flink()
        inputs = (
            stream.process(job.ReadInputs(key, value, event_id), output_type=job.INPUT_TYPE)
            .name(f"{self.name}: inputs")
            .uid(f"alveus-{self.name}-inputs")
        )
        outputs = (
            inputs.key_by(_key, key_type=job.TEXT)
            .process(job.RunAgent(self._job), output_type=job.TEXT)
            .name(f"{self.name}: runs")
            .uid(f"alveus-{self.name}-runs")
        )
        if self.settings.parallelism is not None:
            outputs.set_parallelism(self.settings.parallelism)
        self._inputs = inputs
        return outputs

    def problems(self, outputs: DataStream) -> DataStream:
        """Return the inputs that cannot be run and the runs that are parked, as lines of JSON.

        Args:
            outputs: The stream that `build` returned last.
        """
        tag = _flink().PROBLEMS
        return self._inputs.get_side_output(tag).union(outputs.get_side_output(tag))

    def environment(
        self, *, jobmanager: str | None = None, resume: str | None = None
    ) -> StreamExecutionEnvironment:
        """Return an environment of Flink with the settings of this runner, and the agent's files.

        Args:
            jobmanager: The ``host:port`` of a cluster. With None, Flink runs in this process, for
                this job alone.
            resume: The checkpoint from which the job continues, or "latest". With None, the job
                begins anew.
        """
        job = _flink()
        settings = self.settings.at(jobmanager).resumed(resume)
        if jobmanager is None and self._folders:
            settings = settings.with_overrides({"python.pythonpath": ":".join(self._folders)})
        return job.environment(settings, self._files)

    def run(
        self,
        source: str,
        sink: str,
        *,
        watch: bool = False,
        jobmanager: str | None = None,
        resume: str | None = None,
    ) -> None:
        """Run the agent on the lines of files, and write its outputs. Return when all is done.

        Args:
            source: A file of lines ``{"key": …, "value": …, "id": …}``, or a folder of such files.
            sink: A folder for the outputs. Its files appear with the checkpoints that cover them.
                The problems are written to the folder ``problems`` in it.
            watch: Whether to continue with files that are added to the folder *source*, until the
                job is cancelled.
            jobmanager: The ``host:port`` of a cluster. With None, Flink runs in this process, for
                this job alone.
            resume: The checkpoint from which the job continues, or "latest". Outputs that the
                checkpoint covers are not written again. With None, the job begins anew, and the
                outputs of all inputs are written.

        Raises:
            NotFound: *source* does not exist.
            Unsupported: Flink, or Java, is not installed here.
            Unavailable: The cluster does not answer.
            RunFailed: The job failed.
        """
        env = self._on_files(source, sink, watch=watch, jobmanager=jobmanager, resume=resume)
        with _flink().java_errors():
            env.execute(self.job_name)

    def submit(
        self,
        source: str,
        sink: str,
        *,
        jobmanager: str,
        watch: bool = False,
        resume: str | None = None,
    ) -> str:
        """Send the job of `run` to a cluster, and return its id at once."""
        env = self._on_files(source, sink, watch=watch, jobmanager=jobmanager, resume=resume)
        with _flink().java_errors():
            return str(env.execute_async(self.job_name).get_job_id())

    @property
    def job_name(self) -> str:
        """The name of the job on Flink's pages."""
        return f"alveus: {self.name}"

    def _on_files(
        self, source: str, sink: str, *, watch: bool, jobmanager: str | None, resume: str | None
    ) -> StreamExecutionEnvironment:
        """Return an environment with a job that reads inputs from files, and writes files.

        Raises:
            NotFound: *source* does not exist.
        """
        if "://" not in source and not Path(source).exists():
            raise NotFound(f"there is no file or folder of inputs {source}")
        env, job = self.environment(jobmanager=jobmanager, resume=resume), _flink()
        with job.java_errors():
            outputs = self.build(job.lines(env, source, watch=watch))
            job.write(outputs, sink, uid=f"alveus-{self.name}-outputs")
            problems, below = self.problems(outputs), f"{sink.rstrip('/')}/problems"
            job.write(problems, below, uid=f"alveus-{self.name}-problems")
        return env


def _key(record: Any) -> str:  # noqa: ANN401 - Flink's tuple
    return record[0]


def _absolute(store_url: str) -> str:
    return store_url if "://" in store_url else str(Path(store_url).absolute())


def _flink():  # noqa: ANN202 - a module has no type with a name
    """Return the module `job`, which imports Flink.

    Raises:
        Unsupported: Flink is not installed.
    """
    try:
        from alveus.runs.runner.flink import job
    except ModuleNotFoundError as error:
        raise Unsupported(
            "Apache Flink is not installed; use a separate environment with Python 3.11 or 3.12 "
            "and Java 17, and run: pip install 'alveus[flink]'"
        ) from error
    return job


# --- the agent, for workers -----------------------------------------------------------------


def reference_to(agent: Agent | type[Agent]) -> str:
    """Return the ``module:name`` by which workers import an agent.

    Raises:
        InvalidInput: No module has the agent under a name.
    """
    for wanted in (agent, type(agent)) if _is_as_its_class_makes_it(agent) else (agent,):
        for module_name in _modules_of(agent):
            module = sys.modules.get(module_name)
            for name, value in vars(module).items() if module else ():
                if value is wanted:
                    return f"{_imported_as(module_name)}:{name}"
    raise InvalidInput(
        f"agent {short_repr(agent)} has no name that Flink's workers can import; assign it to a "
        "variable at the top of a module, as in SHOP = Agent(…) or class Shop(Agent)"
    )


def _is_as_its_class_makes_it(agent: Agent | type[Agent]) -> bool:
    """Return whether *agent* equals an agent that its class makes without arguments."""
    if isinstance(agent, type) or type(agent) is Agent:
        return False
    try:
        return vars(type(agent)()) == vars(agent)
    except TypeError:  # the class needs arguments
        return False


def _imported_as(module_name: str) -> str:
    """Return the name by which workers import a module; a script has the name of its file."""
    file = getattr(sys.modules[module_name], "__file__", None)
    return Path(file).stem if module_name == "__main__" and file else module_name


def files_of(agent: Agent | type[Agent]) -> list[str]:
    """Return the files that a cluster must send to its workers: the agent's single-file modules.

    Packages must be installed where the workers run.
    """
    return [str(path) for path in _sources(agent) if path.is_file()]


def folders_of(agent: Agent | type[Agent]) -> list[str]:
    """Return the folders from which workers on this machine import an agent."""
    return list(dict.fromkeys(str(path.parent) for path in _sources(agent)))


def _sources(agent: Agent | type[Agent]) -> list[Path]:
    """Return the paths of the modules and packages that define an agent and its actions.

    Installed modules and packages, and alveus itself, are left out.
    """
    found: list[Path] = []
    for module_name in _modules_of(agent):
        top = sys.modules.get(module_name.partition(".")[0])
        folders = list(getattr(top, "__path__", ()))
        source = folders[0] if folders else getattr(top, "__file__", None)
        if source is not None and top is not alveus:
            path = Path(source).absolute()
            if not path.is_relative_to(sysconfig.get_path("purelib")):
                found.append(path)
    return found


def _modules_of(agent: Agent | type[Agent]) -> list[str]:
    """Return the names of the modules where an agent and its actions are defined."""
    owner = agent if isinstance(agent, type) else type(agent)
    functions = [action.call for action in DispatchTable.of(agent).actions.values()]
    names = [owner.__module__, *(getattr(f, "__module__", None) for f in functions)]
    return list(dict.fromkeys(name for name in names if isinstance(name, str)))
