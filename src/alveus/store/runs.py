"""The records of runs, which `Lanes` reads and writes.

A text described as "wire" is a storable value in wire form, which the store does not interpret.
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
"""The most tasks of a run, durable calls of a task, or outputs of a step."""

RunStatus: TypeAlias = Literal["waiting", "parked", "done", "discarded", "retried"]
"""The state of a run.

Waiting: the run is queued, or under way. Parked: the run failed, and waits for a user's decision.
Retried: a later run took over the input of the parked run.
"""

_MICROSECOND = timedelta(microseconds=1)

ENDED = frozenset[RunStatus]({"done", "discarded", "retried"})
"""The final statuses: a run with one of them never changes again."""


@dataclass(frozen=True, slots=True)
class QueuedInput:
    """An event from outside, to be run for a key.

    Attributes:
        event: Wire.
        event_id: The digest of the event id that the sender gave, or None. The agent accepts each
            event id once.
        request: The digest of the request, which must be equal in a repetition.
        label: The name of the event id in an error.
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
        run: The id of the input's run, or None if that run was pruned. If *repeated*, this is the
            run of the first input with the event id.
        number: The index of the run among all runs of the agent and key, from 0.
        repeated: Whether an earlier input had the same event id.
        lease: The lease of the key, or None. The caller gets the lease if it requested the lease,
            the lease was free, and the run waits.
        first: Whether the run waits, and no earlier run of the agent and key waits or is parked.
    """

    run: int | None
    number: int
    repeated: bool
    lease: Lease | None
    first: bool


def space_of(inputs: Sequence[QueuedInput]) -> str:
    """Return the space of *inputs*.

    Raises:
        InvalidInput: The inputs belong to several spaces, or one belongs to knowledge.
    """
    space = inputs[0].scope.space
    for each in inputs:
        if each.scope.space != space:
            raise InvalidInput(
                f"inputs of spaces {space!r} and {each.scope.space!r} must be accepted one by one"
            )
        if each.scope.key is None:
            raise InvalidInput("an input needs a key; knowledge has no runs")
    return space


@dataclass(frozen=True, slots=True)
class Run:
    """A run, as the store keeps it.

    Attributes:
        id: Unique in the store, never reused, rising in the order in which inputs were accepted.
        number: The index of the run among all runs of the agent and key, from 0.
        event: Wire: the input.
        accepted: When the input was accepted.
        now, actions: The run's time, and the actions that the input triggered. Both are None until
            a part of the run is committed.
        ended: When the run ended, or None.
        error: Wire: the error that parked the run, or None.
        origin: The id of the run whose input this run took over, or None.
        forgotten: Whether the records of the run were erased. Then *event* is empty, and the run
            has no steps or outputs.
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
    """The time of a run, and the actions that its input triggers.

    The first commit of a run stores both.
    """

    now: int
    actions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Step:
    """A finished task of a run.

    (run, ordinal) names the step: a second batch with the same step changes nothing.

    Attributes:
        ordinal: The index of the task among the tasks of the run, from 0.
        sent: Wire: the events that the task sent, each with the actions that the event triggers.
        sensory: Wire: the task's changes of sensory memory. The store deletes them when the run
            ends.
        read_set: What the task read, as in `ReadSet`, or None if that is not kept.
        outputs: The events that the task sent to the world, in order; each is wire.
        skipped: Wire: the error that the agent skipped, or None. With an error, the step changes
            nothing else.
        begin: The `Begin` of the run, in its first commit; later None.
        done: Whether the run ends with this step.
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
        """Raise `TooLarge` if the ordinal, or the number of outputs, is too large."""
        _check_position(self.ordinal, "tasks of a run")
        if len(self.outputs) > MAX_POSITIONS:
            _check_position(len(self.outputs) - 1, "outputs of a task")


CallStatus: TypeAlias = Literal["pending", "returned", "raised"]


@dataclass(frozen=True, slots=True)
class DurableCall:
    """A durable call of a task, which is pending or completed.

    A batch with a call replaces a pending call at the same position. If the call at that position
    is completed, the batch changes nothing.

    Attributes:
        position: The index of the call among the durable calls of the task, from 0.
        name: The name of the called function.
        digest: The digest of the arguments.
        outcome: Wire: the result of the call, or the error that it raised; None while pending.
        begin: The `Begin` of the run, in its first commit; later None.
        truncate: Delete the task's calls at this position and later positions first.
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
        """Raise `TooLarge` if the ordinal or the position is too large."""
        _check_position(self.ordinal, "tasks of a run")
        _check_position(self.position, "durable calls of a task")


@dataclass(frozen=True, slots=True)
class StatusChange:
    """A change of a run's status, without a step or a call.

    The commit raises `StaleRun` if the run's status is not *expected*.

    Attributes:
        error: Wire: why the run is parked. If None, the stored error stays. The status "done"
            deletes the stored error.
        begin: The `Begin` of the run, in its first commit; later None.
    """

    run: int
    expected: RunStatus
    status: RunStatus
    error: str | None = None
    begin: Begin | None = None

    def __post_init__(self) -> None:
        """Raise `InvalidInput` if *expected* is a final status, which never changes."""
        if self.expected in ENDED:
            raise InvalidInput(f"run {self.run} is {self.expected} and must stay so")


Progress: TypeAlias = Step | DurableCall | StatusChange


def _check_position(position: int, what: str) -> None:
    if not 0 <= position < MAX_POSITIONS:
        raise TooLarge(f"there may be at most {MAX_POSITIONS:,} {what}")


@dataclass(frozen=True, slots=True)
class StepDone:
    """A committed step, with the fields of `Step` that are kept.

    Attributes:
        commit: The number of the commit that stored the step.
        sensory: As in `Step`, but None once the run has ended.
    """

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
    """An output: an event that a run sent to the world.

    Attributes:
        position: Unique in the store; rises in the order of commits.
        run: The id of the run.
        number: The index of the run among all runs of the agent and key.
        ordinal: The index of the task among the tasks of the run.
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
    """How long ended runs are kept. Older runs are pruned in the background.

    A run is pruned once *age* has passed since it ended, or once *count* other runs of its agent
    have ended later. It stays until every named consumer has read its outputs, and the outputs of
    all runs that ended earlier.

    Attributes:
        age: How long an ended run is kept, or None for no limit by age.
        count: How many ended runs of an agent are kept, or None for no limit by number.
        dedupe_for: An event id is recognised for at least this long, and until its run has ended.
        dedupe_count: The event ids of this many last inputs are recognised, however old they are.
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
        """The age in microseconds, or None."""
        return None if self.age is None else self.age // _MICROSECOND

    @property
    def dedupe_us(self) -> int:
        """How long event ids are recognised, in microseconds."""
        return self.dedupe_for // _MICROSECOND
