"""Agents on Apache Flink: each key runs on the worker to which Flink sends the inputs of the key.

Only the module `job` imports Flink, which the extra ``alveus[flink]`` installs.
"""

from alveus.runs.runner.flink.flink_runner import FlinkRunner
from alveus.runs.runner.flink.settings import FlinkSettings

__all__ = ["FlinkRunner", "FlinkSettings"]
