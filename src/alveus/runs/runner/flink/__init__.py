"""Agents on Apache Flink: the runner of a key where Flink sends its inputs.

Only `job` imports Flink, which the extra ``alveus[flink]`` installs.
"""

from alveus.runs.runner.flink.flink_runner import FlinkRunner
from alveus.runs.runner.flink.settings import FlinkSettings

__all__ = ["FlinkRunner", "FlinkSettings"]
