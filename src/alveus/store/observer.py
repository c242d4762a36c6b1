"""The hook for telemetry: stores, searches, compactions and runners call an `Observer`.

The observer of a store does nothing until something else is assigned to `Store.observer`. Each
method that returns an `Observed` is called as the work begins, and used as a context manager
around the work.
"""
# ruff: noqa: ARG002 - these observers do nothing

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Self, TypeAlias, TypeVar

from alveus.store.changes import Batch
from alveus.store.progress import DurableCall, QueuedInput, Run
from alveus.store.scope import Lease, Scope, SetRef

R = TypeVar("R")

Outcome: TypeAlias = Literal["done", "parked", "fenced", "interrupted"]


class Observed:
    """Work that is observed, as a context manager; this one does nothing."""

    __slots__ = ()

    def answered(self, answer: R) -> R:
        """Note the answer of the work, and return it."""
        return answer

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        """End the observation, with the error that the work raised, if any."""


class RunObserver:
    """Observes a run from its first task in this process; this one does nothing."""

    def action(self, name: str, attempt: int) -> Observed:
        """Observe a call of an action; *attempt* counts from 1."""
        return IGNORED

    def called(self, call: DurableCall, outcome: str) -> None:
        """Note that a durable call of the last action returned, raised or was replayed."""

    def failed(self, error: BaseException) -> None:
        """Note the error that parks the run."""

    def end(self, outcome: Outcome) -> None:
        """Note that this process has done with the run, for now or for good; twice is fine."""


class Observer:
    """Observes the work on a store; this one does nothing. Its methods raise nothing."""

    def commit(self, batches: Sequence[Batch]) -> Observed:
        """Observe a commit of batches, which answers with a `Commit` or an error for each."""
        return IGNORED

    def transaction(self, callers: Sequence[Observed]) -> Observed:
        """Observe a transaction that does the work of these *callers*."""
        return IGNORED

    def accept(self, agent: str, inputs: Sequence[QueuedInput]) -> Observed:
        """Observe that inputs are accepted; the answer is a list of `Accepted`."""
        return IGNORED

    def leased(self, lease: Lease | None) -> Lease | None:
        """Note a lease that was asked for, and return it."""
        return lease

    def search(self, sets: Sequence[SetRef] | Scope, query: str, limit: int) -> Observed:
        """Observe a search, which answers with `Hits`."""
        return IGNORED

    def compaction(self, ref: SetRef, by: str) -> Observed:
        """Observe a step of a compaction, which answers with a `Compacted`, or None."""
        return IGNORED

    def compaction_due(self, ref: SetRef) -> None:
        """Note that the caller's commit sets off a compaction in the background."""

    def run(self, row: Run, agent: str) -> RunObserver:
        """Return the observer of a run of the agent class *agent*."""
        return IGNORED_RUN

    def close(self) -> None:
        """Note that the memory is closed."""


IGNORED, IGNORED_RUN, UNOBSERVED = Observed(), RunObserver(), Observer()
"""Observe nothing; `UNOBSERVED` is the observer of every store that has no other."""
