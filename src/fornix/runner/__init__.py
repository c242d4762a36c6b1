"""Runners: agents at work on a memory, each input exactly once."""

from fornix.runner.local import LocalRunner
from fornix.runner.outlet import Output
from fornix.runner.records import RunRecord, Runs
from fornix.runner.tickets import Outputs, Ticket

__all__ = ["LocalRunner", "Output", "Outputs", "RunRecord", "Runs", "Ticket"]
