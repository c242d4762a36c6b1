"""Agents on Apache Flink: the runner of a key where Flink sends its inputs.

Only `operators` and `job` import Flink, which the extra ``fornix[flink]`` installs.
"""

from fornix.runs.runner.flink.flink_runner import FlinkRunner
from fornix.runs.runner.flink.settings import FlinkSettings

__all__ = ["FlinkRunner", "FlinkSettings"]
