"""Every error alveus raises, as one tree.

::

    AlveusError
    ├── InvalidInput (ValueError)      an argument cannot be used; nothing was changed
    │   ├── InvalidValue (TypeError)       a value that cannot be stored
    │   ├── InvalidPath                    a path into an exact tree that cannot be used
    │   ├── InvalidName                    a name of a space, key, set or item that cannot be used
    │   ├── InvalidTime                    a time without a zone, or out of range
    │   ├── InvalidState (KeyError)        a state to load lacks a field
    │   ├── NotJson (JSONDecodeError)      a text that is not JSON
    │   ├── InvalidFilter                  a `where=` that cannot be understood
    │   └── InvalidPlan                    a plan of compaction that cannot be carried out
    ├── TreeConflict (ValueError)      an exact tree has something else at the path of a call
    │   ├── NotAnObject                    an object is needed, but a value or nothing is there
    │   └── ObjectInTheWay                 a value cannot be set at the path of an object
    ├── Conflict                       another writer was first; nothing was changed
    │   ├── StaleRun                       a tree changed, or a lease or a run was taken over
    │   ├── StaleItem                      an item has a newer version, or was deleted
    │   ├── DuplicateItem                  an item with this id is already in the set
    │   ├── IdempotencyConflict            an idempotency key was used for another request
    │   ├── SetDefinitionConflict          a set exists with another definition
    │   ├── SetMoved                       a set changed since an add to it was checked
    │   ├── CompactionChanged              a compaction cannot be undone: its items have changed
    │   ├── LearningChanged                a learning cannot be undone: its facts have changed
    │   ├── EmbedderConflict               a space has vectors of another embedder
    │   └── CompareFailed                  compare-and-set found another value
    ├── NotFound (LookupError)         an item, set, run or file does not exist
    │   ├── NoSuchPlace (IndexError)       a memory of messages has no message at a position
    │   ├── OutputsPruned                  outputs past a position are no longer kept
    │   ├── HistoryPruned                  a moment of the past is no longer kept
    │   └── Forgotten                      a `forget` erased the data
    ├── RunFailed                      an action, or code that it calls, failed
    │   ├── RunParked                      a run failed, and waits for a retry or a discard
    │   ├── RunDiscarded                   a run was discarded, so it has no outputs
    │   ├── AgentChanged                   a run needs an action that its agent no longer has
    │   ├── PromptAborted                  a reasoner or a tool aborted a prompt
    │   ├── NonDeterministicAction         a repeated task made other durable calls than before
    │   └── DurableCallFailed              a durable call raised an error that cannot be rebuilt
    ├── Rejected (ValueError)          a rule of admission keeps an item out of a set
    ├── RuleFailed                     a rule of admission raised or answered wrongly
    ├── LimitReached                   a limit was reached
    │   ├── SetFull                        a set with compaction="reject" is at its capacity
    │   ├── KeyFull                        a key is at its limit of items or bytes
    │   ├── BudgetTooSmall                 the fixed part of a prompt exceeds the budget of tokens
    │   ├── EpochsSpent                    a model reached the limit of requests of one prompt
    │   ├── RunTooLong                     a run reached its agent's limit of tasks
    │   └── TooLarge                       a value, text, path or batch is larger than accepted
    ├── Unavailable                    try again later, or elsewhere; nothing was changed
    │   ├── StoreBusy                      another process held the write lock too long
    │   ├── KeyBusy                        a key was busy with other writes for too long
    │   ├── SetBusy                        another thread or process compacts the set
    │   ├── RunPending                     a run did not end in the time that the caller waits
    │   ├── StoreFull                      the disk has no room
    │   └── StoreReadOnly                  the file or the handle cannot be written
    ├── ServerUnreachable (ConnectionError)  a server of alveus gave no answer
    ├── Unusable                       this handle or file cannot be used
    │   ├── StoreClosed                    used after close
    │   │   └── SessionClosed (RuntimeError)   a session of the OpenAI Agents SDK used after close
    │   ├── ForkedStore                    used in a child process after fork
    │   ├── NotPicklable (TypeError)       an open memory was pickled, or copied deeply
    │   ├── ModelMissing                   a language model lacks its package or its key
    │   ├── ModelClosed                    a language model was called after it was closed
    │   ├── TemplatesMissing               the package that renders prompts is not installed
    │   ├── ScriptEnded                    `ScriptedChat` was called more often than it has answers
    │   ├── AccessDenied                   the user of a server may not use that space or table
    │   ├── NotAStore                      the file is something else
    │   ├── StoreDamaged                   the store's file is damaged
    │   ├── StoreTooNew                    the file was written by a newer alveus
    │   ├── StoreTooOld                    the store is of an older alveus, and not yet migrated
    │   └── Unsupported                    this platform, file system or option is not supported
    ├── EmbedderFailed (RuntimeError)  an embedder raised or answered wrongly
    │   └── EmbedderMissing                an embedder's package is missing, or there is no embedder
    ├── RerankerFailed (RuntimeError)  a re-ranker raised or answered wrongly
    ├── StrategyFailed                 a strategy of compaction raised, or cannot be found here
    └── ModelFailed                    a language model raised
        ├── ModelUnavailable               the model cannot be reached, is busy or slow: try again
        ├── ModelRefused                   the model refused the request, and will do so again
        └── ModelAnswerInvalid             the model's answer cannot be used
"""

from __future__ import annotations

from collections.abc import Sequence
from json import JSONDecodeError
from pathlib import Path

from alveus.errors.root import AlveusError
from alveus.errors.short_repr import short_repr


class InvalidInput(AlveusError, ValueError):
    """An argument cannot be used; nothing was changed."""


class InvalidValue(InvalidInput, TypeError):
    """A value cannot be stored. The message says which part, why, and how to convert it.

    Attributes:
        where: The position of the part inside the value, such as ``value[2]['bad']``.
    """

    def __init__(self, where: str, problem: str, *, hint: str = "") -> None:
        self.where = where
        super().__init__(f"{where}: {problem}{'; ' + hint if hint else ''}")


class InvalidPath(InvalidInput):
    """A path into an exact tree cannot be used."""

    def __init__(self, path: object, problem: str) -> None:
        self.path = path
        super().__init__(f"path {short_repr(path)}: {problem}")


class InvalidName(InvalidInput):
    """The name of a space, key, set or item cannot be used."""


class InvalidTime(InvalidInput):
    """A time has no zone, or lies outside the years 1 to 9999."""


class InvalidState(InvalidInput, KeyError):
    """A state to load lacks a field; nothing was changed."""

    def __str__(self) -> str:
        return str(self.args[0])


class NotJson(InvalidInput, JSONDecodeError):
    """A text is not JSON; `pos` is the position of the fault, in characters.

    The message does not repeat the text.
    """

    def __init__(self, problem: str, pos: int) -> None:
        JSONDecodeError.__init__(self, problem, "", pos)


class InvalidFilter(InvalidInput):
    """A filter ``where=`` cannot be understood; the message names the part at fault."""


class InvalidPlan(InvalidInput):
    """A plan of compaction cannot be carried out; the set is unchanged.

    Attributes:
        strategy: The strategy that made the plan: ``module:qualname``, or the name of a built-in
            strategy.
    """

    def __init__(self, set_name: str, problem: str, *, strategy: str) -> None:
        self.set_name, self.strategy = set_name, strategy
        super().__init__(
            f"the plan of strategy {strategy!r} for set {set_name!r} {problem}; the set is "
            "unchanged; correct the strategy, or redefine() the set with another compaction"
        )


class TreeConflict(AlveusError, ValueError):
    """The exact tree has something else at the path of a call; nothing was changed."""

    def __init__(self, path: str, problem: str) -> None:
        self.path = path
        super().__init__(f"{path!r}: {problem}")


class NotAnObject(TreeConflict):
    """An object was needed at this path, but a value or nothing is there."""


class ObjectInTheWay(TreeConflict):
    """A value cannot be put at the path of an object."""


class Conflict(AlveusError):
    """Another writer was first; nothing was changed."""


class StaleRun(Conflict):
    """The tree of a key changed since it was read, or its lease or its run was taken over.

    Attributes:
        expected, found: Two numbers of commits or epochs, or two statuses of a run.
        what: The thing that was compared: "commit", the "epoch" of a lease, or the run.
    """

    def __init__(
        self, key: str, *, expected: int | str, found: int | str, what: str = "commit"
    ) -> None:
        self.key, self.expected, self.found, self.what = key, expected, found, what
        super().__init__(
            f"key {key!r}: this work started from {what} {expected}, "
            f"but {what} {found} is now the latest; read again and repeat it"
            if isinstance(found, int)
            else f"key {key!r}: {what} is {found}, not {expected}; read it again"
        )


class StaleItem(Conflict):
    """An item changed, or was deleted, since the version that a change was based on."""

    def __init__(self, item_id: str, *, expected: int, found: int | None) -> None:
        self.item_id, self.expected, self.found = item_id, expected, found
        now = "the item was deleted" if found is None else f"version {found} is now the latest"
        super().__init__(
            f"item {item_id!r}: the change was based on version {short_repr(expected)}, but {now}; "
            "get it again and repeat the change"
        )


class DuplicateItem(Conflict):
    """A set already has an item with the id of an added item."""

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
            f"{what} {idempotency_key!r} was used before with other arguments; repeat the first "
            f"request exactly, or use a new {what}"
        )


class SetDefinitionConflict(Conflict):
    """A set exists with another definition than the requested one."""

    def __init__(self, set_name: str, *, asked: object, found: object) -> None:
        self.set_name, self.asked, self.found = set_name, asked, found
        super().__init__(
            f"set {set_name!r} exists with {found}, not {short_repr(asked)}; open it without "
            "these arguments, change it with redefine(), or use another set"
        )


class SetMoved(Conflict):
    """A set got other items, or other rules of admission, since an add to it was checked."""

    def __init__(self, set_name: str, *, what: str = "other items") -> None:
        self.set_name = set_name
        super().__init__(f"set {set_name!r} got {what} after this add was checked; repeat the add")


class CompactionChanged(Conflict):
    """A compaction cannot be undone, because items that it made or retired have changed."""

    def __init__(self, compaction: int, problem: str) -> None:
        self.compaction = compaction
        super().__init__(f"compaction {compaction} cannot be undone: {problem}")


class LearningChanged(Conflict):
    """Learnings cannot be undone, because facts that they added or changed have changed since.

    Attributes:
        learnings: The ids of the learnings to undo.
        by: The ids of later learnings that changed the facts; empty if a caller changed them.
        facts: The ids of the changed facts.
    """

    def __init__(
        self, learnings: Sequence[str], *, by: Sequence[str], facts: Sequence[str]
    ) -> None:
        self.learnings, self.by, self.facts = tuple(learnings), tuple(by), tuple(facts)
        what = f"fact {facts[0]!r}" if len(facts) == 1 else f"{len(facts)} of their facts"
        reason = (
            f"the later learning {by[0]!r} changed {what}; undo it first, or in the same call"
            if len(by) == 1
            else f"{len(by)} later learnings changed {what}; undo those in the same call"
            if by
            else f"{what} changed since; restore the earlier version, or delete the facts"
        )
        super().__init__(f"learning {', '.join(map(repr, learnings))} cannot be undone: {reason}")


class EmbedderConflict(Conflict):
    """A space or a knowledge was written with another embedder than the requested embedder.

    Attributes:
        note: The store's note with the embedder: ``embedder of`` and the space or knowledge.
    """

    def __init__(self, note: str, *, asked: str, found: str) -> None:
        self.note, self.asked, self.found = note, asked, found
        kind, _, name = note.removeprefix("embedder of ").partition(" ")
        super().__init__(
            f"{kind} {name!r} has vectors of embedder {found!r}, not {asked!r}; open it with "
            f"embedder={found!r}, or embed it again: alveus reindex --embedder {asked}"
        )


class CompareFailed(Conflict):
    """Compare-and-set found another value than the expected one."""

    def __init__(self, path: str) -> None:
        self.path = path
        super().__init__(f"{path!r} does not hold the expected value; read it again and retry")


class NotFound(AlveusError, LookupError):
    """An item, set, key or file does not exist."""


class NoSuchPlace(NotFound, IndexError):
    """A memory of messages has no message at a position; nothing was changed.

    Attributes:
        places: The requested positions without a message.
        size: The number of messages. Their positions are 0 to *size* - 1.
    """

    def __init__(self, places: Sequence[int], size: int) -> None:
        self.places, self.size = tuple(places), size
        super().__init__(f"there are {size} messages, none at {[*places]}; positions begin at 0")


class OutputsPruned(NotFound):
    """Outputs past a consumer's position are no longer kept.

    Attributes:
        floor: The lowest position from which all outputs are kept.
    """

    def __init__(self, agent: str, *, after: int, floor: int) -> None:
        self.agent, self.after, self.floor = agent, after, floor
        super().__init__(
            f"outputs of agent {agent!r} after position {after} were pruned; read with "
            f"after={floor}, and use a named consumer to keep later outputs"
        )


class HistoryPruned(NotFound):
    """The state at a moment of the past is no longer kept; no part of it is returned.

    Attributes:
        commit: The number of the commit at that moment.
        floor: The first commit of the complete history.
    """

    def __init__(self, what: str, *, commit: int, floor: int) -> None:
        self.commit, self.floor = commit, floor
        super().__init__(
            f"{what} is no longer kept as of commit {commit}; its history begins at commit "
            f"{floor}: ask for a later moment, or raise the retention"
        )


class Forgotten(NotFound):
    """The target of a reference was erased by a `forget`."""


class RunFailed(AlveusError):
    """An action, or code that it calls, failed."""


class RunParked(RunFailed):
    """A run failed and waits for a decision; later inputs of its key may wait behind it.

    Attributes:
        run: The id of the run.
        error: The type and message of the error that the action raised.
        behind: The id of the run that the caller waits for, if that run is behind this run.
    """

    def __init__(
        self, run: int, key: str, *, action: str, error: str, behind: int | None = None
    ) -> None:
        self.run, self.key, self.action, self.error, self.behind = run, key, action, error, behind
        prefix = ""
        if behind is not None:
            prefix = f"run {behind} is stored, and waits; do not pass its input again: "
        cause = f"its action {action!r} raised" if action else "it failed before its next action:"
        super().__init__(
            f"{prefix}run {run} of key {key!r} is parked, {cause} {error}; correct the cause and "
            f"retry the run (runner.runs.retry({run}), `alveus runs retry {run}`, or pass its "
            f"input again with its event_id and on_parked='retry'), or discard it "
            f"(runner.runs.discard({run})); later inputs of the key wait behind it unless the "
            "agent sets on_failed='next'"
        )


class RunDiscarded(RunFailed):
    """A run was discarded, or a later run took over its input."""

    def __init__(self, run: int, key: str, *, status: str) -> None:
        self.run, self.key, self.status = run, key, status
        super().__init__(f"run {run} of key {key!r} has no outputs, because it was {status}")


class AgentChanged(RunFailed):
    """A run needs an action, or a type of event, that its agent no longer has."""


class PromptAborted(RunFailed):
    """A reasoner or a tool aborted a prompt; raise this error in a tool to do so.

    The last query is remembered as aborted.
    """


class NonDeterministicAction(RunFailed):
    """A repeated task did not make the durable calls that it made before.

    Attributes:
        position: The position of the call among the calls of the task, from 0.
    """

    def __init__(self, action: str, *, position: int, recorded: str, found: str) -> None:
        self.action, self.position, self.recorded, self.found = action, position, recorded, found
        super().__init__(
            f"durable call {position} of action {action!r} was {recorded} before, and is {found} "
            "now; call the same functions with the same arguments in the same order, or set "
            "on_mismatch='truncate' on the agent to start over from this call"
        )


class DurableCallFailed(RunFailed):
    """A durable call raised an error that cannot be rebuilt from its record.

    Attributes:
        kind: The name of the type of the error that the call raised.
    """

    def __init__(self, name: str, *, kind: str, message: str) -> None:
        self.name, self.kind, self.message = name, kind, message
        super().__init__(f"durable call {name!r} raised {kind}: {message}")


class Rejected(AlveusError, ValueError):
    """A rule of admission keeps an item out of a set; nothing was changed.

    Attributes:
        rule: The name of the rule.
        reason: The reason that the rule gives, which never contains the item's text.
        position: The position of the item in the call, from 0.
    """

    def __init__(self, set_name: str, *, rule: str, reason: str, position: int = 0) -> None:
        self.set_name, self.rule, self.reason, self.position = set_name, rule, reason, position
        which = f"item {position} of the call" if position else "the item"
        super().__init__(f"set {set_name!r} does not take {which}: {reason} (rule {rule!r})")


class RuleFailed(AlveusError):
    """A custom rule of admission is missing, raised, or answered wrongly."""


class LimitReached(AlveusError):
    """A limit was reached; nothing was changed."""


class SetFull(LimitReached):
    """A set with compaction="reject" is at its capacity.

    Attributes:
        what: The unit of the capacity: "items", "tokens" or "bytes".
        compacts: Whether an add to the set also compacts the set.
        strategy: The strategy that could not make room, or None if no strategy was tried.
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
        reason = ", and its compaction makes no room" if compacts else ""
        advice = "delete items"
        if strategy is not None:
            reason = f", and its strategy {strategy!r} makes no room: {problem}"
            advice = "change what the strategy plans, delete items"
        super().__init__(
            f"set {set_name!r} is full: its capacity is {capacity} {what}{reason}; {advice}, "
            "or redefine() it with a larger capacity or another compaction"
        )


class KeyFull(LimitReached):
    """A key is at its limit of items or bytes."""

    def __init__(self, key: str, *, what: str, limit: int) -> None:
        self.key, self.what, self.limit = key, what, limit
        super().__init__(
            f"key {key!r} may hold at most {limit} {what}; delete some, or raise the limit"
        )


class BudgetTooSmall(LimitReached):
    """The fixed part of a prompt has more tokens than the whole prompt may have.

    Attributes:
        budget, fixed: The tokens that the prompt may have, and the tokens of the fixed part.
    """

    def __init__(self, budget: int, fixed: int, *, with_calls: bool = False) -> None:
        self.budget, self.fixed = budget, fixed
        part = "the instructions and the prompt itself"
        if with_calls:
            part = "the instructions, the prompt, and the tool calls that it answers"
        super().__init__(
            f"the budget of {budget} tokens is smaller than {part} ({fixed} tokens); raise the "
            "budget, or shorten that part"
        )


class EpochsSpent(PromptAborted, LimitReached):
    """A model reached the limit of requests of one prompt, and no answer was accepted.

    Attributes:
        limit: The largest number of requests.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        super().__init__(
            f"the model was asked {limit} times for one prompt, and no answer was accepted; "
            "check why the decoder or the reasoner rejects them, or raise the limit"
        )


class RunTooLong(LimitReached):
    """A run has done `max_tasks` tasks, the limit of its agent, and has not ended."""

    def __init__(self, run: int, key: str, *, action: str, limit: int) -> None:
        self.run, self.key, self.action, self.limit = run, key, action, limit
        super().__init__(
            f"run {run} of key {key!r} has done {limit:,} tasks, and {action!r} would be the next; "
            "if its events form a loop, fix the loop and discard the run, else raise max_tasks of "
            "its agent and retry the run"
        )


class TooLarge(LimitReached, InvalidInput):
    """A value, text, path or batch is larger than accepted."""


class Unavailable(AlveusError):
    """The store cannot do the call now; nothing was changed. Try again later, or elsewhere."""


class StoreBusy(Unavailable):
    """Another process held the write lock for longer than ``wait_s``."""


class KeyBusy(Unavailable):
    """A key was busy for longer than ``wait_s``."""

    def __init__(self, key: str, *, wait_s: float) -> None:
        self.key, self.wait_s = key, wait_s
        super().__init__(f"key {key!r} was busy for {wait_s:g} s with other writes; try again")


class SetBusy(Unavailable):
    """Another thread or process is compacting the set."""

    def __init__(self, set_name: str) -> None:
        self.set_name = set_name
        super().__init__(
            f"set {set_name!r} is being compacted by another thread or process; try again"
        )


class RunPending(Unavailable):
    """A run did not end in the time that the caller waits; the run continues."""

    def __init__(self, run: int, key: str, *, wait_s: float) -> None:
        self.run, self.key, self.wait_s = run, key, wait_s
        super().__init__(
            f"run {run} of key {key!r} has not ended after {wait_s:g} s; it continues, and its "
            "ticket or its event id gives its outputs later"
        )


class StoreFull(Unavailable):
    """The disk has no room for this change."""


class StoreReadOnly(Unavailable):
    """The store was opened read-only, or its file cannot be written."""


class ServerUnreachable(AlveusError, ConnectionError):
    """A server of alveus gave no answer; a requested change may have been made.

    Attributes:
        url: The URL of the server.
        idempotency_key: The key of the change, or None. Repeated with it, the change is made once.
    """

    def __init__(self, url: str, problem: str, *, idempotency_key: str | None = None) -> None:
        self.url, self.idempotency_key = url, idempotency_key
        then = "check that `alveus serve` runs there"
        if idempotency_key is not None:
            then += (
                "; the change may have been made: repeat it with "
                f"idempotency_key={idempotency_key!r}, so that it is made once"
            )
        super().__init__(f"{url} {problem}; {then}")


class Unusable(AlveusError):
    """This handle or file cannot be used."""


class StoreClosed(Unusable):
    """A memory or store was used after close. No `RuntimeError`, because LlamaIndex hides those."""


class SessionClosed(StoreClosed, RuntimeError):
    """An `AlveusSession` was used after close. Programs of the SDK catch a `RuntimeError`."""


class ForkedStore(Unusable):
    """A memory or store was used in a child process after a fork; open it again there."""


class NotPicklable(Unusable, TypeError):
    """An open memory, or an object of it, was pickled or copied deeply."""


class ModelMissing(Unusable):
    """A language model lacks its package or its key; nothing was sent."""


class ModelClosed(Unusable):
    """A language model was called after it was closed."""


class TemplatesMissing(Unusable):
    """The package that renders the templates of prompts is not installed."""


class ScriptEnded(Unusable):
    """A `ScriptedChat` was called more often than it has answers.

    Attributes:
        answers: The number of answers that it was given.
    """

    def __init__(self, name: str, *, answers: int) -> None:
        self.name, self.answers = name, answers
        super().__init__(
            f"ScriptedChat {name!r} has no answer left after {answers}; pass more answers, or a "
            "function. Its `asked` shows the requests"
        )


class NotAStore(Unusable):
    """A file is not an alveus store."""

    def __init__(self, path: Path | str, problem: str) -> None:
        self.path = path
        super().__init__(f"{path}: {problem}")


class AccessDenied(Unusable):
    """The user of a server does not have the right to use a space or a table."""


class StoreDamaged(Unusable):
    """The file of a store is damaged; restore a backup.

    Attributes:
        path: The path of the file, or None if it is unknown.
        problem: The damage, in words.
    """

    def __init__(self, path: Path | str | None, problem: str) -> None:
        self.path, self.problem = path, problem
        super().__init__(
            f"{'the store' if path is None else path} is damaged: {problem}; restore a backup "
            "(alveus restore BACKUP). alveus doctor --deep shows which parts are damaged"
        )


class StoreTooNew(Unusable):
    """A store was written by a newer alveus than this one."""

    def __init__(self, path: Path | str, *, found: int, known: int) -> None:
        self.path, self.found, self.known = path, found, known
        super().__init__(f"{path} has schema {found}, alveus knows only {known}; upgrade alveus")


class StoreTooOld(Unusable):
    """A store is of an older alveus; a reader does not migrate it.

    Attributes:
        owner: The server's user who owns the tables and may migrate them, or None for a file.
    """

    def __init__(self, location: str, *, found: int, needed: int, owner: str | None = None) -> None:
        self.location, self.found, self.needed, self.owner = location, found, needed, owner
        who = "" if owner is None else f"have {owner!r}, who owns the tables, "
        super().__init__(
            f"{location} has schema {found}, but alveus needs {needed}; {who}run: alveus upgrade"
        )


class Unsupported(Unusable):
    """This platform, file system or option is not supported."""


class EmbedderFailed(AlveusError, RuntimeError):
    """An embedder raised, or answered with the wrong shape."""


class EmbedderMissing(EmbedderFailed):
    """The package that an embedder needs is not installed, or a memory has no embedder."""


class RerankerFailed(AlveusError, RuntimeError):
    """A re-ranker raised, or did not return one number for each text."""


class StrategyFailed(AlveusError):
    """A strategy of compaction raised, or cannot be found in this process; the set is unchanged.

    Attributes:
        set_name: The set that was to be compacted; "" if the strategy was only looked up.
    """

    def __init__(self, name: str, problem: str, *, set_name: str = "") -> None:
        self.name, self.set_name = name, set_name
        of = f" of set {set_name!r}" if set_name else ""
        super().__init__(
            f"strategy {name!r}{of} {problem}; the set is unchanged; correct the strategy, or "
            "redefine() the set with another compaction"
        )


class ModelFailed(AlveusError):
    """A language model did not answer, or its answer cannot be used.

    Messages contain neither keys nor prompts; the answer of a server is in ``__cause__``.

    Attributes:
        model: The name of the model.
        problem: The fault, in words that the caller may show to the model.
    """

    def __init__(self, model: str, problem: str) -> None:
        self.model, self.problem = model, problem
        super().__init__(f"model {model!r}: {problem}")


class ModelUnavailable(ModelFailed):
    """A language model cannot be reached, is overloaded, or took too long; try again later.

    Attributes:
        status: The HTTP status, or the status that an answer with status 200 reports, or None.
        retry_after_s: The seconds that the server asks the caller to wait, or None.
    """

    def __init__(
        self,
        model: str,
        problem: str,
        *,
        status: int | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        self.status, self.retry_after_s = status, retry_after_s
        super().__init__(model, problem)


class ModelRefused(ModelFailed):
    """A language model refused a request; it will refuse the same request again.

    Attributes:
        status: See `ModelUnavailable`. It is None if the model itself refused.
    """

    def __init__(self, model: str, problem: str, *, status: int | None = None) -> None:
        self.status = status
        super().__init__(model, problem)


class ModelAnswerInvalid(ModelFailed):
    """A language model gave an answer that cannot be used."""
