"""The parts of a job in Flink's API: operators, environment, sources and sinks.

This is the only module that imports Flink. Operators hold no logic: see `subtask`.
"""

from __future__ import annotations

import os
import shutil
import socket
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyflink
from py4j.protocol import Py4JJavaError
from pyflink.common import Configuration, Duration, Encoder, Types, WatermarkStrategy
from pyflink.datastream import (
    DataStream,
    KeyedProcessFunction,
    OutputTag,
    ProcessFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
    TimeDomain,
)
from pyflink.datastream.connectors.file_system import (
    FileSink,
    FileSource,
    OutputFileConfig,
    RollingPolicy,
    StreamFormat,
)
from pyflink.datastream.state import MapStateDescriptor
from pyflink.java_gateway import get_gateway

from alveus.errors import AlveusError, RunFailed, Unavailable, Unsupported
from alveus.runs.runner.flink.records import Extract, FlinkInput, input_from, problem_line
from alveus.runs.runner.flink.settings import FlinkSettings, find_interpreter, flink_path
from alveus.runs.runner.flink.subtask import Emission, FlinkJob, KeyState, Subtask

TEXT = Types.STRING()
INPUT_TYPE = Types.TUPLE([TEXT, TEXT, TEXT])
PROBLEMS = OutputTag("alveus-problems", TEXT)

POLL_MS = (1, 64)
"""Shortest and longest time, in ms, between two polls of a key that waits for outputs."""

END_OF_INPUT = (1 << 63) - 2
"""The event time at which a bounded input ends, or a job is drained."""


class ReadInputs(ProcessFunction):
    """Makes inputs of the records of a user's stream.

    Records that are not inputs become lines of the stream of problems.
    """

    def __init__(
        self, key: Extract | None, value: Extract | None, event_id: Extract | None
    ) -> None:
        self._parts = key, value, event_id

    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterator[Any]:  # noqa: ANN401, ARG002 - Flink's
        """Yield the input in a record, or the problem if the record is not an input."""
        try:
            yield tuple(input_from(value, *self._parts))
        except AlveusError as error:
            yield PROBLEMS, problem_line(error, given=None, record=value)


class RunAgent(KeyedProcessFunction):
    """Runs the agent on the inputs of the keys of one parallel part."""

    def __init__(self, job: FlinkJob) -> None:
        self._job = job
        self._hot_ms = round(job.hot_for.total_seconds() * 1000)

    def open(self, runtime_context: RuntimeContext) -> None:
        """Open the memory, and continue the runs that a crash left unfinished."""
        self._state = KeyState(
            runtime_context.get_map_state(MapStateDescriptor("exact", TEXT, TEXT)),
            runtime_context.get_map_state(MapStateDescriptor("inputs", TEXT, TEXT)),
        )
        self._subtask = Subtask(self._job, self._job.load_agent())
        self._pauses: dict[str, int] = {}
        self._hot_until: dict[str, int] = {}

    def close(self) -> None:
        """Stop the runner, and close the memory."""
        if hasattr(self, "_subtask"):  # `open` was called
            self._subtask.close()

    def process_element(
        self, value: tuple[str, str, str], ctx: KeyedProcessFunction.Context
    ) -> Iterator[Any]:
        """Accept an input, and yield the outputs and problems of its key that are known."""
        given = FlinkInput(*value)
        yield from map(_sent, self._subtask.take(given, self._state))
        now = _now_ms()
        until = self._hot_until[given.key] = (now // self._hot_ms + 2) * self._hot_ms
        ctx.timer_service().register_processing_time_timer(until)
        self._pauses[given.key] = POLL_MS[0]
        self._look_later(given.key, ctx, now)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[Any]:
        """Yield the known outputs and problems of a key.

        If the key had no inputs for long, drop the copy of its exact memory in keyed state.
        """
        key = ctx.get_current_key()
        ends = ctx.time_domain() is TimeDomain.EVENT_TIME
        yield from map(_sent, self._subtask.emit(key, self._state, wait=ends))
        if ends:
            return
        self._look_later(key, ctx, _now_ms())
        if timestamp % self._hot_ms == 0 and timestamp >= self._hot_until.get(key, 0):
            self._hot_until.pop(key, None)
            self._subtask.evict(key, self._state)

    def _look_later(self, key: str, ctx: KeyedProcessFunction.Context, now: int) -> None:
        """Set timers for the next poll of a key that waits for outputs."""
        if self._job.mode == "synchronous":
            return
        timers = ctx.timer_service()
        if not self._subtask.is_waiting(key):
            if self._pauses.pop(key, None) is not None:
                timers.delete_event_time_timer(END_OF_INPUT)
            return
        shortest, longest = POLL_MS
        pause = self._pauses.get(key, shortest)
        self._pauses[key] = min(2 * pause, longest)
        timers.register_processing_time_timer(now + pause)
        timers.register_event_time_timer(END_OF_INPUT)


def _sent(emission: Emission) -> Any:  # noqa: ANN401 - Flink's
    return (PROBLEMS, emission.line) if emission.is_problem else emission.line


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


# --- environments and files -----------------------------------------------------------------

ANSWER_S = 5
"""Longest wait for the answer of a cluster, in seconds."""

WATCH_S = 1
"""Seconds between two checks for new files."""


def environment(settings: FlinkSettings, files: Sequence[str]) -> StreamExecutionEnvironment:
    """Return an environment of Flink with these settings, which sends *files* to its workers.

    Raises:
        Unsupported: Java is not installed.
        Unavailable: The cluster does not answer.
        RunFailed: Flink refuses a setting.
    """
    if not (os.environ.get("JAVA_HOME") or shutil.which("java")):
        raise Unsupported(
            "Apache Flink needs Java 17, but no java is on PATH; on Debian and Ubuntu run: apt "
            "install openjdk-17-jre-headless"
        )
    if settings.cluster is not None:
        _check_cluster(*settings.cluster)
    find_interpreter()
    with java_errors():
        configuration = Configuration()
        for setting in settings.all():
            configuration.set_string(setting.name, setting.value)
        if settings.cluster is None:
            found = StreamExecutionEnvironment.get_execution_environment(configuration)
        else:
            found = _of_cluster(*settings.cluster, configuration)
        if settings.parallelism is not None:
            found.set_parallelism(settings.parallelism)
        for file in files:
            found.add_python_file(file)
        return found


def _check_cluster(host: str, port: int) -> None:
    """Raise `Unavailable` if a cluster does not answer; Flink itself would try for a minute."""
    try:
        socket.create_connection((host, port), timeout=ANSWER_S).close()
    except OSError as error:
        raise Unavailable(
            f"no job manager of Flink answers at {host}:{port} ({error}); pass the address of "
            "its REST server, port 8081 by default, with --jobmanager"
        ) from error


@contextmanager
def java_errors() -> Generator[None]:
    """Raise an error of Java as `RunFailed` with its cause; Flink's log has the rest."""
    try:
        yield
    except Py4JJavaError as error:
        cause = error.java_exception
        while (deeper := cause.getCause()) is not None:
            cause = deeper
        first, *_ = str(cause.toString()).splitlines()
        raise RunFailed(f"Flink failed: {first}") from error


def _of_cluster(host: str, port: int, configuration: Configuration) -> StreamExecutionEnvironment:
    """Return the environment of a cluster whose workers also get Flink's jar for Python."""
    gateway = get_gateway()
    java: Any = gateway.jvm
    (jar,) = (Path(pyflink.__file__).parent / "opt").glob("flink-python-*.jar")
    jars = gateway.new_array(java.java.lang.String, 1)
    jars[0] = str(jar)
    made = java.org.apache.flink.streaming.api.environment.StreamExecutionEnvironment
    settings = configuration._j_configuration  # noqa: SLF001 - there is no other way to a cluster
    return StreamExecutionEnvironment(made.createRemoteEnvironment(host, port, settings, jars))


def lines(env: StreamExecutionEnvironment, source: str, *, watch: bool) -> DataStream:
    """Return the lines of a file, or of the files in a folder, as a stream.

    Args:
        watch: Whether the stream continues with files that are added to the folder later.
    """
    text = StreamFormat.text_line_format()
    builder = FileSource.for_record_stream_format(text, flink_path(source))
    if watch:
        builder = builder.monitor_continuously(Duration.of_seconds(WATCH_S))
    stream = env.from_source(builder.build(), WatermarkStrategy.no_watermarks(), "inputs")
    return stream.uid("alveus-source")


def write(stream: DataStream, sink: str, *, uid: str) -> None:
    """Write the lines of *stream* to files in the folder *sink*.

    A file appears with the checkpoint that covers it.
    """
    files = (
        FileSink.for_row_format(flink_path(sink), Encoder.simple_string_encoder())
        .with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy())
        .with_output_file_config(
            OutputFileConfig.builder().with_part_prefix("part").with_part_suffix(".jsonl").build()
        )
        .build()
    )
    stream.sink_to(files).uid(uid)
