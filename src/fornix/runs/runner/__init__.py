"""Runners: agents at work on a memory, each input exactly once."""

from fornix.runs.runner.consumers import Output
from fornix.runs.runner.local_runner import LocalRunner
from fornix.runs.runner.run_records import RunRecord, Runs
from fornix.runs.runner.tickets import Outputs, Ticket

__all__ = ["LocalRunner", "Output", "Outputs", "RunRecord", "Runs", "Ticket"]
