"""Where a job runs, and the files that it reads and writes."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyflink
from py4j.protocol import Py4JJavaError
from pyflink.common import Configuration, Duration, Encoder, WatermarkStrategy
from pyflink.datastream import DataStream, StreamExecutionEnvironment
from pyflink.datastream.connectors.file_system import (
    FileSink,
    FileSource,
    OutputFileConfig,
    RollingPolicy,
    StreamFormat,
)
from pyflink.java_gateway import get_gateway

from alveus.errors import RunFailed, Unavailable, Unsupported
from alveus.runs.runner.flink.settings import FlinkSettings, find_interpreter, flink_path

ANSWER_S = 5
"""How long a cluster is waited for."""

WATCH_S = 1
"""How often is looked for new files."""


def environment(settings: FlinkSettings, files: Sequence[str]) -> StreamExecutionEnvironment:
    """Return an environment of Flink with these settings, which sends files to its workers.

    Raises:
        Unsupported: There is no Java here.
        Unavailable: Nothing answers where the cluster is to be.
        RunFailed: Flink refuses a setting.
    """
    if not (os.environ.get("JAVA_HOME") or shutil.which("java")):
        raise Unsupported(
            "Apache Flink needs Java 17, and there is none on PATH; on Debian and Ubuntu: apt "
            "install openjdk-17-jre-headless"
        )
    if settings.cluster is not None:
        _check_cluster(*settings.cluster)
    find_interpreter()
    with told():
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
    """Refuse a cluster that does not answer: Flink itself would try for a minute."""
    try:
        socket.create_connection((host, port), timeout=ANSWER_S).close()
    except OSError as error:
        raise Unavailable(
            f"{host}:{port}: no job manager of Flink answers there ({error}); --jobmanager names "
            "its REST server, whose port is 8081 by default"
        ) from error


@contextmanager
def told() -> Generator[None]:
    """Raise what fails in Java as an error that says the cause; Flink's log has the rest.

    Raises:
        RunFailed: The job failed, or Flink refused it.
    """
    try:
        yield
    except Py4JJavaError as error:
        cause = error.java_exception
        while (deeper := cause.getCause()) is not None:
            cause = deeper
        first, *_ = str(cause.toString()).splitlines()
        raise RunFailed(f"Flink failed: {first}") from error


def _of_cluster(host: str, port: int, configuration: Configuration) -> StreamExecutionEnvironment:
    """Return the environment of a cluster, which is sent what its workers need to run Python."""
    gateway = get_gateway()
    java: Any = gateway.jvm
    (jar,) = (Path(pyflink.__file__).parent / "opt").glob("flink-python-*.jar")
    jars = gateway.new_array(java.java.lang.String, 1)
    jars[0] = str(jar)
    made = java.org.apache.flink.streaming.api.environment.StreamExecutionEnvironment
    settings = configuration._j_configuration  # noqa: SLF001 - there is no other way to a cluster
    return StreamExecutionEnvironment(made.createRemoteEnvironment(host, port, settings, jars))


def lines(env: StreamExecutionEnvironment, source: str, *, watch: bool) -> DataStream:
    """Return the lines of files as a stream."""
    text = StreamFormat.text_line_format()
    builder = FileSource.for_record_stream_format(text, flink_path(source))
    if watch:
        builder = builder.monitor_continuously(Duration.of_seconds(WATCH_S))
    stream = env.from_source(builder.build(), WatermarkStrategy.no_watermarks(), "inputs")
    return stream.uid("alveus-source")


def write(stream: DataStream, sink: str, *, uid: str) -> None:
    """Write lines to files of a folder, which appear with the checkpoints that cover them."""
    files = (
        FileSink.for_row_format(flink_path(sink), Encoder.simple_string_encoder())
        .with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy())
        .with_output_file_config(
            OutputFileConfig.builder().with_part_prefix("part").with_part_suffix(".jsonl").build()
        )
        .build()
    )
    stream.sink_to(files).uid(uid)
