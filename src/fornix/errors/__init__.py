"""Every error fornix raises, as one tree.

::

    FornixError
    ├── InvalidInput (ValueError)      what was passed cannot be used; nothing was changed
    │   ├── InvalidValue (TypeError)       a value that cannot be stored
    │   ├── InvalidPath                    a path into an exact tree
    │   ├── InvalidName                    a space, key, set or id
    │   ├── InvalidTime                    a time without a zone, or out of range
    │   ├── InvalidState (KeyError)        a state to load has a field too few
    │   ├── NotJson (JSONDecodeError)      a text that was to be JSON
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
    │   ├── SetMoved                       a set moved on since an add to it was checked
    │   ├── CompactionChanged              a compaction to undo is not as it was left
    │   ├── EmbedderConflict               a space remembers another embedder
    │   └── CompareFailed                  compare-and-set found another value
    ├── NotFound (LookupError)         there is no such item, set, run or file
    │   ├── OutputsPruned                  outputs past a position are no longer kept
    │   ├── HistoryPruned                  a moment of the past is no longer kept
    │   └── Forgotten                      it was there, and was forgotten for good
    ├── RunFailed                      an action, or the code it calls, did not do its part
    │   ├── RunParked                      a run whose outputs were awaited failed, and waits
    │   ├── RunDiscarded                   a run whose outputs were awaited was given up
    │   ├── AgentChanged                   a run needs an action that its agent no longer has
    │   ├── PromptAborted                  a prompt was given up by its reasoner or a tool
    │   ├── NonDeterministicAction         a task that began anew made other durable calls
    │   └── DurableCallFailed              a durable call raised, as its record says
    ├── Rejected (ValueError)          a rule of admission keeps an item out of a set
    ├── RuleFailed                     a rule of admission raised or answered wrongly
    ├── LimitReached                   a limit that somebody chose
    │   ├── SetFull                        a set with compaction="reject" is at its capacity
    │   ├── KeyFull                        a key's limit of items or bytes
    │   ├── BudgetTooSmall                 a prompt's fixed part alone has more tokens than it may
    │   ├── EpochsSpent                    a model was asked as often as one prompt may
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
    │   ├── TemplatesMissing               the package that renders prompts is not installed
    │   ├── ScriptEnded                    `ScriptedChat` was asked once more than it has answers
    │   ├── NotAStore                      the file is something else
    │   ├── StoreDamaged                   the store's file does not hold what was written
    │   ├── StoreTooNew                    the file was written by a newer fornix
    │   └── Unsupported                    this platform, file system or option is not supported
    ├── EmbedderFailed (RuntimeError)  an embedder raised or answered wrongly
    │   └── EmbedderMissing                there is none, or its package is not installed
    ├── StrategyFailed                 a strategy of compaction raised, or cannot be found here
    └── ModelFailed                    a language model raised
        ├── ModelUnavailable               it cannot be reached, is busy or too slow: try again
        ├── ModelRefused                   it turned the request down: repeating it changes nothing
        └── ModelAnswerInvalid             it answered, with something that cannot be used
"""

from __future__ import annotations

from json import JSONDecodeError
from pathlib import Path

from fornix.errors.compaction import CompactionChanged, InvalidPlan, SetBusy, StrategyFailed
from fornix.errors.conflicts import (
    CompareFailed,
    DuplicateItem,
    EmbedderConflict,
    IdempotencyConflict,
    SetDefinitionConflict,
    SetMoved,
    StaleItem,
    StaleRun,
)
from fornix.errors.models import (
    BudgetTooSmall,
    ModelAnswerInvalid,
    ModelClosed,
    ModelFailed,
    ModelMissing,
    ModelRefused,
    ModelUnavailable,
    ScriptEnded,
    TemplatesMissing,
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
from fornix.errors.runs import (
    AgentChanged,
    DurableCallFailed,
    EpochsSpent,
    NonDeterministicAction,
    OutputsPruned,
    PromptAborted,
    RunDiscarded,
    RunFailed,
    RunParked,
    RunPending,
    RunTooLong,
)
from fornix.errors.shown import shown

__all__ = [
    "AgentChanged",
    "BudgetTooSmall",
    "CompactionChanged",
    "CompareFailed",
    "Conflict",
    "DuplicateItem",
    "DurableCallFailed",
    "EmbedderConflict",
    "EmbedderFailed",
    "EmbedderMissing",
    "EpochsSpent",
    "ForkedStore",
    "FornixError",
    "HistoryPruned",
    "IdempotencyConflict",
    "InvalidFilter",
    "InvalidInput",
    "InvalidName",
    "InvalidPath",
    "InvalidPlan",
    "InvalidState",
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
    "NotJson",
    "ObjectInTheWay",
    "OutputsPruned",
    "PromptAborted",
    "Rejected",
    "RuleFailed",
    "RunDiscarded",
    "RunFailed",
    "RunParked",
    "RunPending",
    "RunTooLong",
    "ScriptEnded",
    "SetBusy",
    "SetDefinitionConflict",
    "SetFull",
    "SetMoved",
    "StaleItem",
    "StaleRun",
    "StoreBusy",
    "StoreClosed",
    "StoreDamaged",
    "StoreFull",
    "StoreReadOnly",
    "StoreTooNew",
    "StrategyFailed",
    "TemplatesMissing",
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


class InvalidState(InvalidInput, KeyError):
    """A state that is to be loaded has a field too few; nothing was changed."""

    def __str__(self) -> str:
        return str(self.args[0])


class NotJson(InvalidInput, JSONDecodeError):
    """A text that was to be JSON is not; what it says is not repeated.

    Attributes:
        pos: Where it stops being JSON, in characters.
    """

    def __init__(self, problem: str, pos: int) -> None:
        JSONDecodeError.__init__(self, problem, "", pos)


class InvalidPath(InvalidInput):
    """A path into an exact tree cannot be used."""

    def __init__(self, path: object, problem: str) -> None:
        self.path = path
        super().__init__(f"path {shown(path)}: {problem}")


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


class Forgotten(NotFound):
    """What was asked for by reference was there once, and was erased by a `forget`."""


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


class Rejected(FornixError, ValueError):
    """A rule of admission keeps an item out of a set; nothing was changed.

    Attributes:
        rule: The name of the rule.
        reason: What it says; never the item's text.
        position: Of the item in the call, from 0.
    """

    def __init__(self, set_name: str, *, rule: str, reason: str, position: int = 0) -> None:
        self.set_name, self.rule, self.reason, self.position = set_name, rule, reason, position
        which = f"item {position} of the call" if position else "the item"
        super().__init__(f"set {set_name!r} does not take {which}: {reason} (rule {rule!r})")


class RuleFailed(FornixError):
    """A rule of admission, of the user's own, is missing, raised, or answered wrongly."""


class SetFull(LimitReached):
    """A set that refuses what it has no room for is at its capacity.

    Attributes:
        what: Of what it has too many: "items", "tokens" or "bytes".
        compacts: It is compacted by whoever adds to it; else it refuses.
        strategy: The strategy that was asked for room and made none; None: none was asked.
    """

    def __init__(
        self,
        set_name: str,
        *,
        capacity: int,
        what: str = "items",
        compacts: bool = False,
        strategy: str | None = None,
        problem: str = "",
    ) -> None:
        self.set_name, self.capacity, self.what = set_name, capacity, what
        self.compacts, self.strategy = compacts, strategy
        says = ", and its compaction makes no room" if compacts else ""
        advice = "delete items"
        if strategy is not None:
            says = f", and its strategy {strategy!r} makes no room: {problem}"
            advice = "change what the strategy plans, delete items"
        super().__init__(
            f"set {set_name!r} is full: its capacity is {capacity} {what}{says}; {advice}, "
            "or redefine() it with more room or another compaction"
        )


class KeyFull(LimitReached):
    """A key is at its limit of items or bytes."""

    def __init__(self, key: str, *, what: str, limit: int) -> None:
        self.key, self.what, self.limit = key, what, limit
        super().__init__(f"key {key!r} may hold at most {limit} {what}; delete some, or raise it")


class TooLarge(LimitReached, InvalidInput):
    """A value, text, path or batch is larger than what is accepted."""


class StoreBusy(Unavailable):
    """Another process held the write lock for longer than ``wait_s``."""


class KeyBusy(Unavailable):
    """The lane of a key stayed occupied for longer than ``wait_s``."""

    def __init__(self, key: str, *, wait_s: float) -> None:
        self.key, self.wait_s = key, wait_s
        super().__init__(f"key {key!r} was busy for {wait_s:g} s with other writes; try again")


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
    """A file is not a fornix store."""

    def __init__(self, path: Path | str, problem: str) -> None:
        self.path = path
        super().__init__(f"{path}: {problem}")


class StoreDamaged(Unusable):
    """The file of a store does not hold what was written: a backup brings it back.

    Attributes:
        path: The file; None: what could not be read does not say.
        problem: What is wrong, and with what.
    """

    def __init__(self, path: Path | str | None, problem: str) -> None:
        self.path, self.problem = path, problem
        super().__init__(
            f"{'the store' if path is None else path} is damaged: {problem}; restore a backup "
            "(fornix restore BACKUP); fornix doctor --deep tells what is hit"
        )


class StoreTooNew(Unusable):
    """A store was written by a newer fornix than this one."""

    def __init__(self, path: Path | str, *, found: int, known: int) -> None:
        self.path, self.found, self.known = path, found, known
        super().__init__(
            f"{path} has schema {found}, this fornix knows up to {known}; upgrade fornix to open it"
        )


class Unsupported(Unusable):
    """This platform, file system or option is not supported."""


class EmbedderFailed(FornixError, RuntimeError):
    """An embedder raised, or answered with the wrong shape."""


class EmbedderMissing(EmbedderFailed):
    """The package that an embedder needs is not installed, or there is no embedder at all."""
