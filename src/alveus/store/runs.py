"""The records of runs, which `Lanes` reads and writes.

Texts marked *wire* are storable values in wire form, which the store does not interpret.
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
"""Parked: failed, until a user decides. Retried: a later run took the input of the parked run."""

_MICROSECOND = timedelta(microseconds=1)

ENDED = frozenset[RunStatus]({"done", "discarded", "retried"})
"""The final statuses: a run with one of them never changes again."""


@dataclass(frozen=True, slots=True)
class QueuedInput:
    """An event from outside, to be run for a key.

    Attributes:
        event: Wire.
        event_id: Digest of the id that its sender gave it, if any; the agent accepts it once.
        request: Digest of the request, which must be equal in a repetition.
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
        lease: The lease of the key, if it was requested and free, and the run waits.
        first: The run waits, and no earlier one of the agent and key waits or is parked.
    """

    run: int | None
    number: int
    repeated: bool
    lease: Lease | None
    first: bool


def space_of(inputs: Sequence[QueuedInput]) -> str:
    """Return the space of *inputs*; `InvalidInput` if they have several, or one has no key."""
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
        now, actions: The run's time, and the actions that the input triggered. None means that no
            part of the run is committed yet.
        error: Wire: the error that parked it, if any.
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


@dataclass(frozen=True, slots=True)
class Begin:
    """The time of a run, and the actions that its input triggers; stored by its first commit."""

    now: int
    actions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Step:
    """A finished task, named by (run, ordinal): a second batch with that step changes nothing.

    Attributes:
        ordinal: Its index among the tasks of the run, from 0.
        sent: Wire: the events it sent, each with the actions that the event triggers.
        sensory: Wire: its changes of sensory memory; deleted when the run ends.
        read_set: See `ReadSet`. None means that its reads are not kept.
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
        _check_position(self.ordinal, "tasks of a run")
        if len(self.outputs) > MAX_POSITIONS:
            _check_position(len(self.outputs) - 1, "outputs of a task")


CallStatus: TypeAlias = Literal["pending", "returned", "raised"]


@dataclass(frozen=True, slots=True)
class DurableCall:
    """A durable call of a task: begun, or completed.

    It replaces a pending call at its position; if that is completed, the batch changes nothing.

    Attributes:
        position: Its index among the durable calls of the task, from 0.
        name: Name of the function.
        digest: Digest of its arguments.
        outcome: Wire: its result, or the error it raised; None while pending.
        truncate: Delete the calls at this position and later ones first.
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
        error: Wire: why it is parked. None keeps the stored error, which "done" deletes.
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
    later; but after every named consumer has read its outputs, and those of runs that ended
    earlier.

    Attributes:
        dedupe_for: Event ids are recognised for at least this long, and until their run has ended.
        dedupe_count: Event ids of this many last inputs are recognised, however old.
    """

    age: timedelta | None = timedelta(days=7)
    count: int | None = None
    dedupe_for: timedelta = timedelta(days=90)
    dedupe_count: int = 10_000

    def __post_init__(self) -> None:
        """Raise `InvalidInput` if a duration or a count is negative, or of another type."""
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
