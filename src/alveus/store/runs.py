"""The records of runs in a store; the protocol `Lanes` in `ledger` reads and writes them.

Values are frozen and do no I/O. Texts marked *wire* are storable values in wire form, which the
store does not interpret. Times are microseconds since 1970 in UTC, as int.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Literal, TypeAlias

from alveus.errors import InvalidInput, TooLarge
from alveus.errors.short_repr import short_repr
from alveus.store.scope import Lease, Scope
from alveus.values.lazy_dataclass import dataclass
from alveus.values.storable import counted

LARGEST = 2**63 - 1
"""The largest number that a store can look up."""

MAX_POSITIONS = 1 << 20
"""The number of tasks of a run, durable calls of a task and outputs of a step is below this."""

RunStatus: TypeAlias = Literal["waiting", "parked", "done", "discarded", "retried"]
"""Waiting: accepted and not ended. Parked: failed, until a user decides.

Retried: it was parked, and a later run took its input over.
"""

_MICROSECOND = timedelta(microseconds=1)

ENDED = frozenset[RunStatus]({"done", "discarded", "retried"})
"""The final statuses: a run with one of them never changes again."""


@dataclass(frozen=True, slots=True)
class QueuedInput:
    """An event from outside, to be run for a key.

    Attributes:
        event: Wire.
        event_id: Digest of the id that its sender gave it; a second input of the agent with an
            equal one is not accepted again. None means that it has none.
        request: Digest of the request; with an event id, a repetition must carry an equal one.
        label: Names the event id in an error.
    """

    scope: Scope
    event: str
    time: int
    event_id: bytes | None = None
    request: bytes | None = None
    label: str = ""


@dataclass(frozen=True, slots=True)
class Accepted:
    """The answer to an input, once it is durable.

    Attributes:
        run: The id of its run; of the first one if *repeated*. None means that it was pruned.
        number: Its index among all runs of the agent and key, from 0.
        lease: The right to run the key, if it was requested and free; None for a repeated input
            whose run no longer waits.
        first: The run waits, and no earlier one of the agent and key waits or is parked.
    """

    run: int | None
    number: int
    repeated: bool
    lease: Lease | None
    first: bool


def space_of(inputs: Sequence[QueuedInput]) -> str:
    """Return the common space of *inputs*, at least one.

    Raises:
        InvalidInput: They are of several spaces, or one has no key.
    """
    space = inputs[0].scope.space
    for each in inputs:
        if each.scope.space != space:
            raise InvalidInput(
                f"inputs of space {space!r} and of {each.scope.space!r} are accepted one by one"
            )
        if each.scope.key is None:
            raise InvalidInput("an input is run for a key; knowledge has no lane")
    return space


@dataclass(frozen=True, slots=True)
class Run:
    """A run, as the store keeps it.

    Attributes:
        id: Unique in the store, never reused, rising in the order inputs were accepted.
        number: Its index among all runs of the agent and key, from 0.
        event: Wire: the input.
        accepted: When the input was accepted.
        now: The run's time. None means that no part of it is committed yet.
        actions: Names of the actions that the input triggered. None means the same as for *now*.
        ended: When it was done, discarded or taken over.
        error: Wire: the error that parked it. None means that it never was parked.
        origin: The run whose input this one took over.
        forgotten: Its records were erased: *event* is empty, and it has no steps or outputs.
    """

    id: int
    agent: str
    scope: Scope
    number: int
    status: RunStatus
    event: str
    accepted: int
    now: int | None = None
    actions: tuple[str, ...] | None = None
    ended: int | None = None
    error: str | None = None
    origin: int | None = None
    forgotten: bool = False


# --- a run's changes in a batch ----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Begin:
    """The time of a run, and the actions that its input triggers; stored by its first commit."""

    now: int
    actions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Step:
    """A finished task. Its batch and this step are its only records.

    Its name is (run, ordinal): a second step of that name changes nothing, nor does its batch.

    Attributes:
        ordinal: Its index among the tasks of the run, from 0.
        sent: Wire: the events it sent, each with the actions that the event triggers.
        sensory: Wire: its changes of sensory memory; deleted when the run ends.
        read_set: Wire: its reads. None means that they are not kept.
        outputs: Wire, each: its events for the world, in order.
        skipped: Wire: the error that its agent skipped; the step changed nothing else.
        begin: With the first commit of a run.
        done: The run ends with this step.
    """

    run: int
    ordinal: int
    action: str
    sent: str | None = None
    sensory: str | None = None
    read_set: str | None = None
    outputs: Sequence[str] = ()
    skipped: str | None = None
    begin: Begin | None = None
    done: bool = False

    def __post_init__(self) -> None:
        """Raise if a position is too large."""
        if not 0 <= self.ordinal < MAX_POSITIONS or len(self.outputs) > MAX_POSITIONS:
            _check_position(self.ordinal, "tasks of a run")
            _check_position(len(self.outputs) - 1, "outputs of a task")


CallStatus: TypeAlias = Literal["pending", "returned", "raised"]


@dataclass(frozen=True, slots=True)
class DurableCall:
    """A durable call of a task: begun, or completed.

    A second one at the same position replaces a pending one. A completed one stays, and a batch
    that carries another changes nothing.

    Attributes:
        position: Its index among the durable calls of the task, from 0.
        name: Name of the function.
        digest: Digest of its arguments.
        outcome: Wire: its result, or the error it raised; None while pending.
        truncate: Delete the call at this position and all later ones first.
    """

    run: int
    ordinal: int
    position: int
    name: str
    digest: str
    status: CallStatus
    outcome: str | None = None
    attempts: int = 1
    begin: Begin | None = None
    truncate: bool = False

    def __post_init__(self) -> None:
        """Raise if a position is too large."""
        _check_position(self.ordinal, "tasks of a run")
        _check_position(self.position, "durable calls of a task")


@dataclass(frozen=True, slots=True)
class StatusChange:
    """A change of a run's status alone; refused as `StaleRun` if it is not *expected*.

    Attributes:
        error: Wire: why it is parked, or None to keep the stored error. Finished runs have none.
    """

    run: int
    expected: RunStatus
    status: RunStatus
    error: str | None = None
    begin: Begin | None = None

    def __post_init__(self) -> None:
        """Raise for a change of an ended run: its sensory memory is deleted."""
        if self.expected in ENDED:
            raise InvalidInput(f"run {self.run}: a run that is {self.expected} stays so")


Progress: TypeAlias = Step | DurableCall | StatusChange


def _check_position(position: int, what: str) -> None:
    if not 0 <= position < MAX_POSITIONS:
        raise TooLarge(f"there are at most {MAX_POSITIONS:,} {what}")


# --- reads ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StepDone:
    """A committed step; *sensory* is None once the run has ended."""

    run: int
    ordinal: int
    action: str
    commit: int
    sent: str | None
    sensory: str | None
    read_set: str | None
    skipped: str | None


@dataclass(frozen=True, slots=True)
class StoredOutput:
    """An event for the world.

    Attributes:
        position: Unique in the store; rises in the order of commits.
        event: Wire.
    """

    position: int
    run: int
    number: int
    ordinal: int
    key: str
    event: str
    time: int


@dataclass(frozen=True, slots=True)
class Retain:
    """How long ended runs are kept; older ones are pruned in the background.

    A run is pruned once *age* has passed since it ended, or *count* others of its agent have ended
    later; never before every named consumer has read its outputs, and those of runs that ended
    earlier.

    Attributes:
        age: None means no limit.
        count: None means no limit.
        dedupe_for: Ids of events are recognised for at least this long, and until their run has
            ended.
        dedupe_count: Ids of the store's last inputs, this many, are recognised, however old.
    """

    age: timedelta | None = timedelta(days=7)
    count: int | None = None
    dedupe_for: timedelta = timedelta(days=90)
    dedupe_count: int = 10_000

    def __post_init__(self) -> None:
        """Refuse values out of range.

        Raises:
            InvalidInput: A duration or a count is negative or of another type.
        """
        for name, value in (("age", self.age), ("dedupe_for", self.dedupe_for)):
            is_valid = isinstance(value, timedelta) and value >= timedelta(0)
            if not (is_valid or (value is None and name == "age")):
                raise InvalidInput(
                    f"{name} must be a timedelta of 0 or more, not {short_repr(value)}"
                )
        if self.count is not None:
            counted(self.count, "count", least=0, most=LARGEST)
        counted(self.dedupe_count, "dedupe_count", least=0, most=LARGEST)

    @property
    def age_us(self) -> int | None:
        """The age in microseconds."""
        return None if self.age is None else self.age // _MICROSECOND

    @property
    def dedupe_us(self) -> int:
        """How long ids are recognised, in microseconds."""
        return self.dedupe_for // _MICROSECOND
