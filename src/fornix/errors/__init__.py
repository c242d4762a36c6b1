"""Every error fornix raises, as one tree.

::

    FornixError
    ├── InvalidInput (ValueError)      what was passed cannot be used; nothing was changed
    │   ├── InvalidValue (TypeError)       a value that cannot be stored
    │   ├── InvalidPath                    a path into an exact tree
    │   ├── InvalidName                    a space, key, set or id
    │   ├── InvalidTime                    a time without a zone, or out of range
    │   ├── InvalidFilter                  a `where=` that cannot be understood
    │   └── InvalidPlan                    a plan of compaction that cannot be carried out
    ├── TreeConflict (ValueError)      the exact tree has something else at this path
    │   ├── NotAnObject                    an object was needed, a value or nothing is there
    │   └── ObjectInTheWay                 a value was to be set where an object is
    ├── Conflict                       somebody else was first; nothing was changed
    │   ├── StaleRun                       the key's tree or run moved on, or its lease
    │   ├── StaleItem                      an item has a newer version, or is gone
    │   ├── DuplicateItem                  an id is taken
    │   ├── IdempotencyConflict            an idempotency key was used for another request
    │   ├── SetDefinitionConflict          a set exists with another definition
    │   ├── CompactionChanged              a compaction to undo is not as it was left
    │   ├── EmbedderConflict               a space remembers another embedder
    │   └── CompareFailed                  compare-and-set found another value
    ├── NotFound (LookupError)         there is no such item, set, run or file
    │   ├── OutputsPruned                  outputs past a position are no longer kept
    │   └── HistoryPruned                  a moment of the past is no longer kept
    ├── RunFailed                      an action, or the code it calls, did not do its part
    │   ├── RunParked                      a run whose outputs were awaited failed, and waits
    │   ├── RunDiscarded                   a run whose outputs were awaited was given up
    │   ├── AgentChanged                   a run needs an action that its agent no longer has
    │   ├── NonDeterministicAction         a task that began anew made other durable calls
    │   └── DurableCallFailed              a durable call raised, as its record says
    ├── LimitReached                   a limit that somebody chose
    │   ├── SetFull                        a set with compaction="reject" is at its capacity
    │   ├── KeyFull                        a key's limit of items or bytes
    │   ├── RunTooLong                     a run has done as many tasks as its agent may
    │   └── TooLarge                       a value, text, path or batch beyond what is accepted
    ├── Unavailable                    try again later, or elsewhere; nothing was changed
    │   ├── StoreBusy                      another process held the write lock too long
    │   ├── KeyBusy                        a key's lane stayed occupied too long
    │   ├── SetBusy                        a set is being compacted by somebody else
    │   ├── RunPending                     a run was not over in the time it was given
    │   ├── StoreFull                      the disk has no room
    │   └── StoreReadOnly                  the file or the handle cannot be written
    ├── Unusable                       this handle or file cannot serve
    │   ├── StoreClosed                    used after close
    │   ├── ForkedStore                    used in a child process after fork
    │   ├── WrongLoop                      an async handle used from another event loop
    │   ├── ModelMissing                   a language model's package or key is not there
    │   ├── ModelClosed                    a language model was asked after its close
    │   ├── ScriptEnded                    `ScriptedChat` was asked once more than it has answers
    │   ├── NotAStore                      the file is something else, or damaged
    │   ├── StoreTooNew                    the file was written by a newer fornix
    │   └── Unsupported                    this platform, file system or option is not supported
    ├── EmbedderFailed                 an embedder raised or answered wrongly
    │   └── EmbedderMissing                its package is not installed
    ├── StrategyFailed                 a strategy of compaction raised, or cannot be found here
    └── ModelFailed                    a language model raised
        ├── ModelUnavailable               it cannot be reached, is busy or too slow: try again
        ├── ModelRefused                   it turned the request down: repeating it changes nothing
        └── ModelAnswerInvalid             it answered, with something that cannot be used
"""

from __future__ import annotations

from pathlib import Path

from fornix.errors.compaction import CompactionChanged, InvalidPlan, SetBusy, StrategyFailed
from fornix.errors.models import (
    ModelAnswerInvalid,
    ModelClosed,
    ModelFailed,
    ModelMissing,
    ModelRefused,
    ModelUnavailable,
    ScriptEnded,
)
from fornix.errors.root import (
    Conflict,
    FornixError,
    InvalidInput,
    LimitReached,
    NotFound,
    Unavailable,
    Unusable,
)

__all__ = [
    "AgentChanged",
    "CompactionChanged",
    "CompareFailed",
    "Conflict",
    "DuplicateItem",
    "DurableCallFailed",
    "EmbedderConflict",
    "EmbedderFailed",
    "EmbedderMissing",
    "ForkedStore",
    "FornixError",
    "IdempotencyConflict",
    "InvalidFilter",
    "InvalidInput",
    "InvalidName",
    "InvalidPath",
    "InvalidPlan",
    "InvalidTime",
    "InvalidValue",
    "KeyBusy",
    "KeyFull",
    "LimitReached",
    "ModelAnswerInvalid",
    "ModelClosed",
    "ModelFailed",
    "ModelMissing",
    "ModelRefused",
    "ModelUnavailable",
    "NonDeterministicAction",
    "NotAStore",
    "NotAnObject",
    "NotFound",
    "ObjectInTheWay",
    "OutputsPruned",
    "RunDiscarded",
    "RunFailed",
    "RunParked",
    "RunPending",
    "ScriptEnded",
    "SetBusy",
    "SetDefinitionConflict",
    "SetFull",
    "StaleItem",
    "StaleRun",
    "StoreBusy",
    "StoreClosed",
    "StoreFull",
    "StoreReadOnly",
    "StoreTooNew",
    "StrategyFailed",
    "TooLarge",
    "TreeConflict",
    "Unavailable",
    "Unsupported",
    "Unusable",
    "WrongLoop",
]


class InvalidValue(InvalidInput, TypeError):
    """A value cannot be stored; the message says where in it, why, and how to convert.

    Attributes:
        where: The place inside the value, such as ``value[2]['bad']``.
    """

    def __init__(self, where: str, problem: str, *, hint: str = "") -> None:
        self.where = where
        super().__init__(f"{where}: {problem}{'; ' + hint if hint else ''}")


class InvalidPath(InvalidInput):
    """A path into an exact tree cannot be used."""

    def __init__(self, path: object, problem: str) -> None:
        self.path = path
        super().__init__(f"path {path!r}: {problem}")


class InvalidName(InvalidInput):
    """The name of a space, key, set or item cannot be used."""


class InvalidTime(InvalidInput):
    """A time has no zone, or lies outside the years 1 to 9999."""


class InvalidFilter(InvalidInput):
    """A ``where=`` cannot be understood; the message names the place in it."""


class TreeConflict(FornixError, ValueError):
    """The exact tree has something else at this path; nothing was changed."""

    def __init__(self, path: str, problem: str) -> None:
        self.path = path
        super().__init__(f"{path!r}: {problem}")


class NotAnObject(TreeConflict):
    """An object was needed at this path, but a value or nothing is there."""


class ObjectInTheWay(TreeConflict):
    """A value was to be put where an object is."""


class StaleRun(Conflict):
    """The exact tree of a key moved on since it was read, its lease was taken over, or its run.

    Attributes:
        expected, found: Numbers of commits or epochs; of a run that moved on, its status.
    """

    def __init__(
        self, key: str, *, expected: int | str, found: int | str, what: str = "commit"
    ) -> None:
        self.key, self.expected, self.found = key, expected, found
        super().__init__(
            f"key {key!r}: this work started from {what} {expected}, "
            f"but {what} {found} is now the latest; read again and repeat it"
            if isinstance(found, int)
            else f"key {key!r}: {what} is {found}, not {expected}; look at it again"
        )


class StaleItem(Conflict):
    """An item changed, or was deleted, since the version that a change was based on."""

    def __init__(self, item_id: str, *, expected: int, found: int | None) -> None:
        self.item_id, self.expected, self.found = item_id, expected, found
        now = "it is gone" if found is None else f"version {found} is now the latest"
        super().__init__(
            f"item {item_id!r}: the change was based on version {expected}, but {now}; "
            "get it again and repeat the change"
        )


class DuplicateItem(Conflict):
    """An id is already in the set."""

    def __init__(self, item_id: str, *, set_name: str) -> None:
        self.item_id, self.set_name = item_id, set_name
        super().__init__(
            f"set {set_name!r} already has an item {item_id!r}; "
            "pass on_existing='keep' or 'update', or another id"
        )


class IdempotencyConflict(Conflict):
    """An idempotency key, or an event id, was used before, for a different request."""

    def __init__(self, idempotency_key: str, *, what: str = "idempotency key") -> None:
        self.idempotency_key = idempotency_key
        super().__init__(
            f"{what} {idempotency_key!r} was used before with other arguments; "
            "repeat the request exactly, or use a new one"
        )


class SetDefinitionConflict(Conflict):
    """A set exists with a definition other than the one asked for."""

    def __init__(self, set_name: str, *, asked: object, found: object) -> None:
        self.set_name, self.asked, self.found = set_name, asked, found
        super().__init__(
            f"set {set_name!r} exists with {found}, not {asked}; "
            "open it without these arguments, or change it with redefine()"
        )


class EmbedderConflict(Conflict):
    """A space, or a knowledge, remembers another embedder than the one that is used.

    Attributes:
        note: The note that remembers it: ``embedder of`` a space or knowledge, and its name.
    """

    def __init__(self, note: str, *, asked: str, found: str) -> None:
        self.note, self.asked, self.found = note, asked, found
        kind, _, name = note.removeprefix("embedder of ").partition(" ")
        super().__init__(
            f"{kind} {name!r} holds vectors of the embedder {found!r}, not {asked!r}; open it with "
            f"embedder={found!r}, or re-embed it: fornix reindex --embedder {asked}"
        )


class CompareFailed(Conflict):
    """Compare-and-set found another value than the expected one."""

    def __init__(self, path: str) -> None:
        self.path = path
        super().__init__(f"{path!r} does not hold the expected value; read it again and repeat")


class OutputsPruned(NotFound):
    """Outputs past a consumer's position are no longer kept.

    Attributes:
        floor: The lowest position from which all are there.
    """

    def __init__(self, agent: str, *, after: int, floor: int) -> None:
        self.agent, self.after, self.floor = agent, after, floor
        super().__init__(
            f"outputs of agent {agent!r} past position {after} were pruned; they are kept from "
            f"{floor} on: read after={floor}, and name a consumer, for whom they are kept"
        )


class HistoryPruned(NotFound):
    """What was there at a moment of the past is no longer kept, so it is not told in part.

    Attributes:
        commit: That moment, as a commit number.
        floor: The first commit from which on the past is whole.
    """

    def __init__(self, what: str, *, commit: int, floor: int) -> None:
        self.commit, self.floor = commit, floor
        super().__init__(
            f"{what} is no longer kept as it was after commit {commit}; its past is whole from "
            f"commit {floor} on: ask for a later moment, or keep more (see retention)"
        )


class RunFailed(FornixError):
    """An action, or the code that it calls, did not do its part."""


class RunParked(RunFailed):
    """A run failed and waits for a decision; later inputs of its key may wait behind it.

    Attributes:
        run: Its id.
        error: The type and message of what its action raised.
        behind: The run whose outputs were awaited, if that is one that waits behind it.
    """

    def __init__(
        self, run: int, key: str, *, action: str, error: str, behind: int | None = None
    ) -> None:
        self.run, self.key, self.action, self.error, self.behind = run, key, action, error, behind
        told = "" if behind is None else f"run {behind} is stored and waits: "
        by = f", its action {action!r} raised" if action else " before its next action, by"
        told += f"run {run} of key {key!r} is parked{by} {error}; look at it with "
        super().__init__(f"{told}`fornix runs show {run}`, then retry or discard it")


class RunDiscarded(RunFailed):
    """A run was given up, or its input was taken over by a later run."""

    def __init__(self, run: int, key: str, *, status: str) -> None:
        self.run, self.key, self.status = run, key, status
        super().__init__(f"run {run} of key {key!r} has no outputs: it was {status}")


class AgentChanged(RunFailed):
    """A run needs an action, or a type of event, that its agent no longer has."""


class NonDeterministicAction(RunFailed):
    """A task that began anew did not make the durable calls it made before.

    Attributes:
        position: Of the call among those of the task, from 0.
    """

    def __init__(self, action: str, *, position: int, recorded: str, found: str) -> None:
        self.action, self.position, self.recorded, self.found = action, position, recorded, found
        super().__init__(
            f"durable call {position} of action {action!r} was {recorded} before, and is {found} "
            "now; call the same functions with the same arguments in the same order, or let the "
            "agent start over from here with on_mismatch='truncate'"
        )


class DurableCallFailed(RunFailed):
    """A durable call raised an error that cannot be made again from its record.

    Attributes:
        kind: The name of the type of the error that was raised.
    """

    def __init__(self, name: str, *, kind: str, message: str) -> None:
        self.name, self.kind, self.message = name, kind, message
        super().__init__(f"durable call {name!r} raised {kind}: {message}")


class SetFull(LimitReached):
    """A set that refuses what it has no room for is at its capacity.

    Attributes:
        what: Of what it has too many: "items", "tokens" or "bytes".
        compacts: It is compacted by whoever adds to it; else it refuses.
    """

    def __init__(
        self, set_name: str, *, capacity: int, what: str = "items", compacts: bool = False
    ) -> None:
        self.set_name, self.capacity, self.what = set_name, capacity, what
        self.compacts = compacts
        says = ", and its compaction makes no room" if compacts else ""
        super().__init__(
            f"set {set_name!r} is full: its capacity is {capacity} {what}{says}; delete items, "
            "or redefine() it with more room or another compaction"
        )


class KeyFull(LimitReached):
    """A key is at its limit of items or bytes."""

    def __init__(self, key: str, *, what: str, limit: int) -> None:
        self.key, self.what, self.limit = key, what, limit
        super().__init__(f"key {key!r} may hold at most {limit} {what}; delete some, or raise it")


class RunTooLong(LimitReached):
    """A run has done as many tasks as its agent's `max_tasks` says, and is not over."""

    def __init__(self, run: int, key: str, *, action: str, limit: int) -> None:
        self.run, self.key, self.action, self.limit = run, key, action, limit
        super().__init__(
            f"run {run} of key {key!r} has done {limit:,} tasks, and {action!r} would be the next; "
            "if its events go round in a circle, mend that and discard it, else raise max_tasks of "
            "its agent and retry it"
        )


class TooLarge(LimitReached, InvalidInput):
    """A value, text, path or batch is larger than what is accepted."""


class StoreBusy(Unavailable):
    """Another process held the write lock for longer than ``wait_s``."""


class KeyBusy(Unavailable):
    """The lane of a key stayed occupied for longer than ``wait_s``."""

    def __init__(self, key: str, *, wait_s: float) -> None:
        self.key, self.wait_s = key, wait_s
        super().__init__(f"key {key!r} was busy for {wait_s:g} s with other writes; try again")


class RunPending(Unavailable):
    """A run was not over in time; it goes on all the same."""

    def __init__(self, run: int, key: str, *, wait_s: float) -> None:
        self.run, self.key, self.wait_s = run, key, wait_s
        super().__init__(
            f"run {run} of key {key!r} was not over after {wait_s:g} s; it goes on, and the same "
            "ticket, or the same event id, gives its outputs later"
        )


class StoreFull(Unavailable):
    """The disk has no room for this change."""


class StoreReadOnly(Unavailable):
    """The store was opened read-only, or its file cannot be written."""


class StoreClosed(Unusable):
    """A memory or store was used after it was closed."""


class ForkedStore(Unusable):
    """A memory or store was used in a child process after a fork; open it again there."""


class WrongLoop(Unusable):
    """An async memory was used from another event loop than the one it was opened in."""


class NotAStore(Unusable):
    """A file is not a fornix store, or is damaged."""

    def __init__(self, path: Path | str, problem: str) -> None:
        self.path = path
        super().__init__(f"{path}: {problem}")


class StoreTooNew(Unusable):
    """A store was written by a newer fornix than this one."""

    def __init__(self, path: Path | str, *, found: int, known: int) -> None:
        self.path, self.found, self.known = path, found, known
        super().__init__(
            f"{path} has schema {found}, this fornix knows up to {known}; upgrade fornix to open it"
        )


class Unsupported(Unusable):
    """This platform, file system or option is not supported."""


class EmbedderFailed(FornixError):
    """An embedder raised, or answered with the wrong shape."""


class EmbedderMissing(EmbedderFailed):
    """The package that an embedder needs is not installed."""
