"""Agents at work: what users write, one run, one task, durable calls, runners."""
