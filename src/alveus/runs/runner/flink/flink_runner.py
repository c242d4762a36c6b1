"""FlinkRunner: an agent as a part of a Flink job, each input exactly once.

Flink sends the inputs of a key to one place, in order, and sends them again from the last
checkpoint when something fails. There a local runner runs the agent on the store, which knows what
was done: a run that was committed is not run again, its recorded outputs are emitted.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alveus.embed import Embedder
from alveus.errors import InvalidInput, NotFound, Unsupported
from alveus.errors.short_repr import short_repr
from alveus.runs.agent import Agent, DispatchTable
from alveus.runs.runner.flink.records import Extract
from alveus.runs.runner.flink.settings import FlinkSettings
from alveus.runs.runner.flink.subtask import FlinkJob, Mode
from alveus.runs.runner.flink.workers import files_of, folders_of, reference_to
from alveus.runs.runner.local_runner import CONCURRENCY
from alveus.store import Retain
from alveus.values.storable import counted

if TYPE_CHECKING:
    from pyflink.datastream import DataStream, StreamExecutionEnvironment


class FlinkRunner:
    """Runs an agent inside a Flink job.

    Args:
        agent: A subclass of `Agent`, or an instance of one, which workers import by the name that
            its module, or script, gives it.
        store_url: The store of items, journal and exact memory: ``postgresql://…``, which all
            workers can reach; a path, where all of them are on one machine.
        name: Names the inbox, the numbers of runs and the outputs; by default the agent's name.
        space, knowledge, embedder: As for `Memory.open`, in every worker.
        mode: "concurrent": keys side by side, a slow action holds up its own key alone.
            "synchronous": one input after the other in each parallel part of the job.
        concurrency: Keys at work at once in each parallel part.
        capacity: Inputs that each part hands to its runner at once; the others wait in keyed state.
        hot_for: How long a key without inputs keeps the copy of its exact memory in keyed state.
        checkpoints: Where Flink keeps checkpoints: a folder, or a URL that Flink can write to.
        interval_s: Seconds between checkpoints.
        parallelism: Parallel parts; None: Flink's default.
        retain: What is kept of runs that ended. Runs that a checkpoint in a local folder does not
            cover are kept beyond it.
        overrides: Settings of Flink by name, which go before those of alveus; see `settings`.

    Raises:
        InvalidInput: A setting cannot be used, or the agent is none.
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
                "retain=Retain(count=…) could prune what a restored job asks for again; on Flink "
                "name an age"
            )
        if not isinstance(hot_for, timedelta) or hot_for < timedelta(seconds=1):  # pyright: ignore[reportUnnecessaryIsInstance] - user input
            raise InvalidInput(f"hot_for must be a timedelta of 1 s or more, not {hot_for!r}")
        if store_url == ":memory:" or not isinstance(store_url, str):  # pyright: ignore[reportUnnecessaryIsInstance] - user input
            raise InvalidInput(
                f"store_url must be postgresql://…, or a path on a machine that runs the whole "
                f"job, not {short_repr(store_url)}"
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

        An output is ``{"key": …, "id": …, "run": …, "number": …, "position": …, "output": …}``:
        the id of its input, the run and its number among those of the key, and the place of the
        output in its run. What cannot be run, and runs that are parked, are in `problems` of what
        this returns.

        Args:
            stream: Records: ``(key, value, id)``, dicts with these names, or such dicts as JSON.
            key: Takes the key out of a record: a str, or an int, bool, float or bytes, for which
                see `key_text`.
            value: Takes the value out: a storable one, for an `InputEvent`.
            event_id: Takes the id out, by which an input is recognised when it comes again.
        """
        from alveus.runs.runner.flink.operators import INPUT_TYPE, ReadInputs, RunAgent

        _types = _pyflink_types()
        inputs = (
            stream.process(ReadInputs(key, value, event_id), output_type=INPUT_TYPE)
            .name(f"{self.name}: inputs")
            .uid(f"alveus-{self.name}-inputs")
        )
        outputs = (
            inputs.key_by(_key, key_type=_types.STRING())
            .process(RunAgent(self._job), output_type=_types.STRING())
            .name(f"{self.name}: runs")
            .uid(f"alveus-{self.name}-runs")
        )
        if self.settings.parallelism is not None:
            outputs.set_parallelism(self.settings.parallelism)
        self._inputs = inputs
        return outputs

    def problems(self, outputs: DataStream) -> DataStream:
        """Return what could not be run, and which runs are parked, as lines of JSON.

        Args:
            outputs: What `build` returned last.
        """
        from alveus.runs.runner.flink.operators import PROBLEMS

        rejected = self._inputs.get_side_output(PROBLEMS)
        return rejected.union(outputs.get_side_output(PROBLEMS))

    def environment(
        self, *, jobmanager: str | None = None, resume: str | None = None
    ) -> StreamExecutionEnvironment:
        """Return an environment of Flink with the settings of this runner, and the agent's files.

        Args:
            jobmanager: ``host:port`` of a cluster; None: Flink runs here, for this job alone.
            resume: The checkpoint to go on from, or "latest".
        """
        _types = _pyflink_types()
        from alveus.runs.runner.flink.job import environment

        settings = self.settings.at(jobmanager).resumed(resume)
        if jobmanager is None and self._folders:
            settings = settings.with_overrides({"python.pythonpath": ":".join(self._folders)})
        return environment(settings, self._files)

    def run(
        self,
        source: str,
        sink: str,
        *,
        watch: bool = False,
        jobmanager: str | None = None,
        resume: str | None = None,
    ) -> None:
        """Run the agent on the lines of files, and write its outputs; return when all is done.

        Args:
            source: A file of lines ``{"key": …, "value": …, "id": …}``, or a folder of them.
            sink: A folder for the outputs; its files appear with the checkpoints that cover them.
                Problems are in the folder ``problems`` below it.
            watch: Go on with files that are added to the folder, until the job is cancelled.
            jobmanager: ``host:port`` of a cluster; None: Flink runs here, for this job alone.
            resume: The checkpoint to go on from, or "latest". Outputs that it covers are not
                written again; without one, the outputs of all inputs are.

        Raises:
            NotFound: There are no such inputs.
            Unsupported: Flink, or Java, is not installed here.
            Unavailable: The cluster does not answer.
            RunFailed: The job failed.
        """
        _check_source(source)
        env = self.environment(jobmanager=jobmanager, resume=resume)
        from alveus.runs.runner.flink.job import told

        with told():
            self._files_job(env, source, sink, watch=watch).execute(self.job_name)

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
        _check_source(source)
        env = self.environment(jobmanager=jobmanager, resume=resume)
        from alveus.runs.runner.flink.job import told

        with told():
            self._files_job(env, source, sink, watch=watch)
            return str(env.execute_async(self.job_name).get_job_id())

    @property
    def job_name(self) -> str:
        """How Flink's own pages name the job."""
        return f"alveus: {self.name}"

    def _files_job(
        self, env: StreamExecutionEnvironment, source: str, sink: str, *, watch: bool
    ) -> StreamExecutionEnvironment:
        from alveus.runs.runner.flink.job import lines, write

        outputs = self.build(lines(env, source, watch=watch))
        below = f"{sink.rstrip('/')}/problems"
        write(outputs, sink, uid=f"alveus-{self.name}-outputs")
        write(self.problems(outputs), below, uid=f"alveus-{self.name}-problems")
        return env


def _key(record: Any) -> str:  # noqa: ANN401 - Flink's tuple
    return record[0]


def _check_source(source: str) -> None:
    if "://" not in source and not Path(source).exists():
        raise NotFound(f"{source}: there is no such file or folder of inputs")


def _absolute(store_url: str) -> str:
    return store_url if "://" in store_url else str(Path(store_url).absolute())


def _pyflink_types() -> Any:  # noqa: ANN401 - a class of Flink
    try:
        from pyflink.common import Types
    except ModuleNotFoundError as error:
        raise Unsupported(
            "Apache Flink is not installed here; pip install 'alveus[flink]', in an environment "
            "of its own with Python 3.11 or 3.12, and Java 17"
        ) from error
    return Types
