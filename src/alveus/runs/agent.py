"""Agents: actions, and the events that trigger them.

An agent is a class with methods under `@action`, or an `Agent` with functions::

    class Shop(Agent):
        @action(InputEvent)
        def ordered(self, event, ctx):
            ctx.short_term_memory.append("orders", event.input)
            ctx.send_event(OutputEvent("Thank you!"))


    shop = Agent("shop", actions=[ordered])

Actions are plain or `async` functions ``(event, ctx)``. The changes of an action are committed
atomically, once, when it returns; see `alveus.runs.runner`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, TypeAlias, TypeVar, cast

from alveus.errors import InvalidInput
from alveus.errors.short_repr import short_repr
from alveus.facts import LearnOptions
from alveus.llm import ChatModel
from alveus.state import Ttl
from alveus.store.runs import MAX_POSITIONS
from alveus.values.events import (
    Detail,
    Event,
    InputEvent,
    MemoryEvent,
    MemoryEvents,
    OutputEvent,
    RunBeginEvent,
)
from alveus.values.keywords import suggest_names_in
from alveus.values.lazy_dataclass import dataclass
from alveus.values.retries import ONCE, Retry
from alveus.values.storable import checked_kind, checked_name, choice, counted

OnError: TypeAlias = Literal["fail", "retry", "skip"]
"""The reaction to an action that raises: park the run, retry the action, or skip the action."""

OnFailed: TypeAlias = Literal["wait", "next"]
"""Whether the later inputs of a key wait while a run of the key is parked, or run before it."""

OnMismatch: TypeAlias = Literal["fail", "truncate"]
"""The reaction to a repeated task whose durable calls differ from those of the first attempt."""

Condition: TypeAlias = Callable[[Any], bool]
F = TypeVar("F", bound="Callable[..., Any] | staticmethod[..., Any]")

MAX_TASKS = 10_000
"""The default limit of tasks in a run."""

_MARK = "__alveus_action__"

_SETTINGS = {
    "on_error": ("fail", "retry", "skip"),
    "on_failed": ("wait", "next"),
    "on_mismatch": ("fail", "truncate"),
}


@dataclass(frozen=True, slots=True)
class Marked:
    """The settings that `@action` puts on a function."""

    events: tuple[type[Event], ...]
    when: Condition | None
    on_error: OnError | None
    retry: Retry | None
    adapt: Callable[[Any], Any] | None


@dataclass(frozen=True, slots=True)
class BoundAction:
    """An action of an agent, ready to be called as ``call(event, ctx)``.

    Attributes:
        name: The name of the action in the store, unique in its agent.
        events: The classes of the events that trigger the action.
        when: Only events for which this function returns true trigger the action; None: all do.
        adapt: For `alveus.compat`: makes the context of another system from an `alveus` context.
    """

    name: str
    events: tuple[type[Event], ...]
    call: Callable[[Any, Any], Any]
    when: Condition | None
    on_error: OnError
    retry: Retry
    is_async: bool
    adapt: Callable[[Any], Any] | None = None


def action(
    *events: type[Event],
    when: Condition | None = None,
    on_error: OnError | None = None,
    retry: Retry | None = None,
    adapt: Callable[[Any], Any] | None = None,
) -> Callable[[F], F]:
    """Mark a function as an action that events of exactly these classes trigger.

    The decorator works on functions, methods and static methods, plain or `async`. It may stand
    above or below `@staticmethod`.

    Args:
        when: Only events for which this function returns true trigger the action.
        on_error: What happens if the action raises. "fail" parks the run. "retry" calls the action
            again, and parks the run after the last attempt. "skip" continues without the action.
            The default is the setting of the agent.
        retry: The number of attempts and the pauses of "retry", which it implies.
        adapt: For `alveus.compat`: makes the function's context from an `alveus` context.

    Raises:
        InvalidInput: An argument is not an event class, or a setting cannot be used.
    """
    if not events:
        raise InvalidInput("@action needs the classes of its events, as in @action(InputEvent)")
    for kind in events:
        if not (isinstance(kind, type) and issubclass(kind, Event)):  # pyright: ignore[reportUnnecessaryIsInstance] - user input
            raise InvalidInput(
                "@action needs subclasses of Event, as in @action(InputEvent), not "
                f"{short_repr(kind)}"
            )
        if kind is Event:
            raise InvalidInput(
                "@action cannot take Event itself; define a subclass: class MyEvent(Event): …"
            )
    _check_settings(when, on_error, retry, adapt)
    if retry is not None:
        on_error = "retry"
    marked = Marked(events, when, on_error, retry, adapt)

    def mark(function: F) -> F:
        plain = _plain(function)
        if not callable(plain):
            raise InvalidInput(f"@action must mark a function, not {function!r}")
        if _MARK in getattr(plain, "__dict__", {}):
            raise InvalidInput(
                f"{function!r} is already an action; pass all its events to one @action(…)"
            )
        put_mark(plain, _MARK, marked, decorator="@action")
        return function

    return mark


def put_mark(function: object, name: str, settings: object, *, decorator: str) -> None:
    """Set an attribute of a function, for a decorator.

    Raises:
        InvalidInput: The function takes no attributes.
    """
    try:
        setattr(function, name, settings)
    except AttributeError:
        raise InvalidInput(
            f"{function!r} cannot be marked; put {decorator} on a function that calls it"
        ) from None


def _check_settings(when: object, on_error: object, retry: object, adapt: object) -> None:
    """Raise `InvalidInput` if a setting of an action cannot be used."""
    for name, function in (("when", when), ("adapt", adapt)):
        if function is not None and not callable(function):
            raise InvalidInput(f"{name} must be a function, not {function!r}")
    if inspect.iscoroutinefunction(when):
        raise InvalidInput(f"when must be a plain function, but {when!r} is async")
    if on_error is not None:
        choice(on_error, "on_error", *_SETTINGS["on_error"])
    checked_kind(retry, Retry | None, "retry must be a Retry(…)")
    if retry is not None and on_error not in (None, "retry"):
        raise InvalidInput(f"retry needs on_error='retry', not {on_error!r}")


class Learn:
    """An action that learns facts from a conversation at the end of each turn.

    List it beside your actions::

        agent = Agent("shop", actions=[answer, Learn("chat", model=model)])

    Each committed output triggers the action, and the caller gets the output after the action has
    ended. If learning fails, for example because the model cannot be reached, the failure is
    logged, and the messages are read at the end of a later turn. To learn in the background, use
    ``alveus learn --watch`` instead.

    Args:
        conversation: The name of the conversation, which belongs to the run's key.
        model: The model that finds the facts; a small model is enough. With None, rules for
            English find them.
        options: Here `at_least` is the number of new messages that triggers learning, and
            `calls_per_hour` the limit of model calls.
        on: The classes of the events that trigger the action.
    """

    def __init__(
        self,
        conversation: str = "chat",
        *,
        model: ChatModel | None,
        options: LearnOptions | None = None,
        on: Sequence[type[Event]] = (OutputEvent,),
    ) -> None:
        self._conversation = checked_name(conversation, "a conversation")
        self._model, self._options = model, options
        self.__name__ = f"learn from {conversation}"
        checked_kind(on, list | tuple, "on must be a list of classes of events")
        action(*on, on_error="skip")(self)

    def __call__(self, event: Event, ctx: Any) -> None:  # noqa: ARG002 - an action
        """Learn from the messages that were added since the last time."""
        ctx.learn(self._conversation, model=self._model, options=self._options)


@suggest_names_in
class Agent:
    """Actions with common settings. Make a subclass with methods, or pass functions.

    A subclass sets the attributes below in its body. The constructor takes them too.

    Attributes:
        name: The name under which the store keeps the agent's inbox, run numbers and outputs. The
            default is the name of the class.
        on_error: The default setting of the agent's actions: "fail", "retry" or "skip"; see
            `action`.
        retry: The default number of attempts and pauses of actions with "retry".
        on_failed: What happens to later inputs of a key while a run of the key is parked. With
            "wait" they wait. With "next" they run, and a later retry of the parked run becomes a
            new run behind them.
        max_tasks: The largest number of tasks in a run. A run with more tasks is parked with
            `RunTooLong`, so that actions cannot send each other events for ever.
        on_mismatch: What happens if a repeated task makes other durable calls than before. "fail"
            parks the run. "truncate" deletes the records of the calls from the first difference
            on, and makes the new calls.
        short_term_ttl: How long short-term values stay if a write sets no TTL. With None the
            default of the memory applies.
        memory_events: The memory events that the agent's runs send and store.
    """

    name: str = ""
    on_error: OnError = "fail"
    retry: Retry = Retry()
    on_failed: OnFailed = "wait"
    on_mismatch: OnMismatch = "fail"
    max_tasks: int = MAX_TASKS
    short_term_ttl: Ttl | None = None
    memory_events: MemoryEvents = MemoryEvents()

    def __init__(  # noqa: PLR0913 - the settings of an agent, by name
        self,
        name: str | None = None,
        *,
        actions: Iterable[Callable[..., Any]] = (),
        on_error: OnError | None = None,
        retry: Retry | None = None,
        on_failed: OnFailed | None = None,
        on_mismatch: OnMismatch | None = None,
        max_tasks: int | None = None,
        short_term_ttl: Ttl | None = None,
        memory_events: MemoryEvents | None = None,
    ) -> None:
        given = {
            "name": name,
            "on_error": on_error,
            "retry": retry,
            "on_failed": on_failed,
            "on_mismatch": on_mismatch,
            "max_tasks": max_tasks,
            "short_term_ttl": short_term_ttl,
            "memory_events": memory_events,
        }
        if name is not None:
            checked_name(name, "an agent's name")
        for setting, value in given.items():
            if value is not None:
                setattr(self, setting, value)
        self._given = tuple(checked_kind(actions, Iterable, "actions must be a list of functions"))


@dataclass(frozen=True, slots=True)
class DispatchTable:
    """The actions that each event of an agent triggers.

    Attributes:
        always: The names of the actions that a class of events triggers, for each class whose
            actions have no conditions.
        reported: The classes of the memory events that runs of the agent send, with their detail.
        stored: The classes of the memory events that are stored even if they trigger no action.
    """

    agent: Agent
    name: str
    actions: dict[str, BoundAction]
    by_event: dict[type[Event], tuple[BoundAction, ...]]
    types: dict[str, type[Event]]
    always: dict[type[Event], tuple[str, ...]]
    reported: Mapping[type[MemoryEvent], Detail]
    stored: frozenset[type[MemoryEvent]]

    @classmethod
    def of(cls, agent: Agent | type[Agent], *, name: str | None = None) -> DispatchTable:
        """Return the table of an agent, or of an agent class that can be called without arguments.

        Args:
            name: The name of the agent; None means `Agent.name`.

        Raises:
            InvalidInput: The agent has no action, or two actions or two events have the same name,
                or a setting of the agent cannot be used.
        """
        instance = _instance_of(agent)
        actions: dict[str, BoundAction] = {}
        for bound in _actions(instance):
            if bound.name in actions:
                raise InvalidInput(
                    f"agent {_title(instance)} has two actions with the name {bound.name!r}; "
                    "rename one of them"
                )
            actions[bound.name] = bound
        if not actions:
            raise InvalidInput(
                f"agent {_title(instance)} has no action; mark one with @action(InputEvent), or "
                "pass actions=[…]"
            )
        types: dict[str, type[Event]] = {}
        for kind in (InputEvent, OutputEvent, *(e for a in actions.values() for e in a.events)):
            if types.setdefault(kind.type_name(), kind) is not kind:
                raise InvalidInput(
                    f"two classes of events have the name {kind.type_name()!r}; rename one of them"
                )
        by_event = {
            kind: tuple(a for a in actions.values() if kind in a.events) for kind in types.values()
        }
        chosen = checked_name(_name(instance) if name is None else name, "an agent's name")
        settings = instance.memory_events
        reported = settings.reported(types.values())
        always = {
            kind: tuple(a.name for a in bound)
            for kind, bound in by_event.items()
            if all(a.when is None for a in bound)
        }
        return cls(instance, chosen, actions, by_event, types, always, reported, settings.stored())

    @property
    def class_name(self) -> str:
        """The `Agent.name` that the class of the agent sets, or else the name of the class."""
        kind = type(self.agent)
        return str(kind.name or kind.__name__)

    @property
    def run_begin(self) -> Detail:
        """The detail of short-term memory in a `RunBeginEvent`; "off" if the event is not sent."""
        return self.reported.get(RunBeginEvent, "off")

    def reported_with(
        self, listened: frozenset[type[MemoryEvent]]
    ) -> Mapping[type[MemoryEvent], Detail]:
        """Return the classes of the memory events to send while listeners want *listened*.

        The result is a mapping from each class to its detail.
        """
        if not listened:
            return self.reported
        return self.agent.memory_events.reported({*self.types.values(), *listened})

    def asks_for(self, kind: type[Event]) -> bool:
        """Return whether an input of class *kind* may trigger an action of the agent."""
        return bool(self.by_event.get(kind)) or bool(self.by_event.get(RunBeginEvent))

    def set_off(self, event: Event) -> tuple[str, ...]:
        """Return the names of the actions that *event* triggers, in the order of definition.

        Raises:
            Exception: A condition (``when=``) raised it. A note on the error names the action.
        """
        always = self.always.get(type(event))
        if always is not None:
            return always
        actions = self.by_event.get(type(event), ())
        return tuple(a.name for a in actions if a.when is None or _is_met(a, a.when, event))


def _is_met(action: BoundAction, when: Condition, event: Event) -> bool:
    try:
        return bool(when(event))
    except Exception as error:
        error.add_note(f"in the condition (when=) of action {action.name!r}, on {event.type}")
        raise


def _instance_of(agent: Agent | type[Agent]) -> Agent:
    if isinstance(agent, type) and issubclass(agent, Agent):  # pyright: ignore[reportUnnecessaryIsInstance] - user input
        try:
            agent = agent()
        except TypeError as error:
            raise InvalidInput(
                f"agent {agent.__name__} cannot be made without arguments ({error}); pass an "
                "instance of it"
            ) from error
    checked_kind(agent, Agent, "an agent must be a subclass of Agent, or an instance of one")
    for setting, values in _SETTINGS.items():
        choice(getattr(agent, setting), f"{_title(agent)}.{setting}", *values)
    counted(agent.max_tasks, f"{_title(agent)}.max_tasks", most=MAX_POSITIONS)
    for setting, kind, shown in (
        ("short_term_ttl", Ttl | None, "Ttl(after=…), or None"),
        ("retry", Retry, "a Retry(…)"),
        ("memory_events", MemoryEvents, "MemoryEvents(…)"),
    ):
        checked_kind(getattr(agent, setting), kind, f"{_title(agent)}.{setting} must be {shown}")
    return agent


def _name(agent: Agent) -> str:
    return type(agent).__name__ if agent.name == "" else agent.name


def _title(agent: Agent) -> str:
    return str(_name(agent))


def _actions(agent: Agent) -> Iterable[BoundAction]:
    """Yield the actions of an agent in the order of definition, those of base classes first."""
    defined: dict[str, object] = {}
    for kind in reversed(type(agent).__mro__):
        for name, member in vars(kind).items():
            if name in defined or hasattr(_plain(member), _MARK):
                defined[name] = member  # an override without a mark is no action
    for name, member in defined.items():
        if hasattr(_plain(member), _MARK):
            yield _action(agent, name, getattr(agent, name), _plain(member))
    for function in cast("Sequence[Any]", agent.__dict__.get("_given", ())):
        inner = _plain(function)
        if not hasattr(inner, _MARK):
            raise InvalidInput(
                f"{function!r} is not marked as an action; put @action(InputEvent) above it"
            )
        call = inner if isinstance(function, staticmethod) else function
        yield _action(agent, inner.__name__, call, inner)


def _plain(member: object) -> Any:
    """Return the function inside a static, class or bound method, or else *member* itself."""
    return getattr(member, "__func__", member)


def _check_takes(function: Callable[..., Any], *names: str, what: str) -> None:
    try:
        inspect.signature(function).bind(*names)
    except TypeError:
        raise InvalidInput(
            f"{what} must have the parameters ({', '.join(names)}), not "
            f"{inspect.signature(function)}"
        ) from None
    except ValueError:
        return  # a function in C, without a signature


def _action(agent: Agent, name: str, call: Callable[..., Any], inner: object) -> BoundAction:
    marked: Marked = getattr(inner, _MARK)
    _check_takes(call, "event", "ctx", what=f"action {name!r} of agent {_title(agent)}")
    if marked.when is not None:
        what = f"the when= of action {name!r} of agent {_title(agent)}"
        _check_takes(marked.when, "event", what=what)
    if inspect.isgeneratorfunction(call) or inspect.isasyncgenfunction(call):
        raise InvalidInput(f"action {name!r} must not yield; send events with ctx.send_event(…)")
    on_error = marked.on_error or agent.on_error
    retry = marked.retry or agent.retry
    return BoundAction(
        name=name,
        events=marked.events,
        call=call,
        when=marked.when,
        on_error=on_error,
        retry=retry if on_error == "retry" else replace(ONCE, on=retry.on),
        is_async=inspect.iscoroutinefunction(call),
        adapt=marked.adapt,
    )
