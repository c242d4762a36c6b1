"""Runners: agents at work on a memory, each input exactly once."""

from alveus.runs.runner.local_runner import LocalRunner
from alveus.runs.runner.tickets import Output, Outputs, RunRecord, Runs, Ticket

__all__ = ["LocalRunner", "Output", "Outputs", "RunRecord", "Runs", "Ticket"]
