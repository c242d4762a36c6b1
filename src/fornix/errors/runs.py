"""What goes wrong with runs, and with the code that they call."""

from __future__ import annotations

from fornix.errors.root import FornixError, LimitReached, NotFound, Unavailable


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
        told = ""
        if behind is not None:
            told = f"run {behind} is stored, and waits; do not pass its input again: "
        by = f", its action {action!r} raised" if action else " before its next action, by"
        super().__init__(
            f"{told}run {run} of key {key!r} is parked{by} {error}; correct the cause and retry it "
            f"(runner.runs.retry({run}), `fornix runs retry {run}`, or its input again with its "
            f"event_id and on_parked='retry'), or give it up (runner.runs.discard({run})); inputs "
            "of the key wait behind it unless the agent says on_failed='next'"
        )


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


class RunTooLong(LimitReached):
    """A run has done as many tasks as its agent's `max_tasks` says, and is not over."""

    def __init__(self, run: int, key: str, *, action: str, limit: int) -> None:
        self.run, self.key, self.action, self.limit = run, key, action, limit
        super().__init__(
            f"run {run} of key {key!r} has done {limit:,} tasks, and {action!r} would be the next; "
            "if its events go round in a circle, mend that and discard it, else raise max_tasks of "
            "its agent and retry it"
        )


class RunPending(Unavailable):
    """A run was not over in time; it goes on all the same."""

    def __init__(self, run: int, key: str, *, wait_s: float) -> None:
        self.run, self.key, self.wait_s = run, key, wait_s
        super().__init__(
            f"run {run} of key {key!r} was not over after {wait_s:g} s; it goes on, and the same "
            "ticket, or the same event id, gives its outputs later"
        )


class PromptAborted(RunFailed):
    """A prompt was given up, by its reasoner or by a tool; raise it in a tool to do so.

    What was asked last is remembered, as aborted.
    """


class EpochsSpent(PromptAborted, LimitReached):
    """A model was asked as often as one prompt may, and no answer was accepted.

    Attributes:
        limit: How often that is.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        super().__init__(
            f"the model was asked {limit} times in one prompt, and none of its answers was the "
            "last; look at what its decoder and reasoner say of them, or raise the limit"
        )
