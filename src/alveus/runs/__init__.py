"""Agents, the runs of their inputs, the tasks of a run, durable calls, and runners."""
