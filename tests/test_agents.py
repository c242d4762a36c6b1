"""Agents: which actions they have, in which order, and what is refused."""

from __future__ import annotations

import functools
from typing import Any, cast

import pytest

from alveus import Agent, Event, InputEvent, LocalRunner, Memory, OutputEvent, Retry, action
from alveus.errors import InvalidInput, InvalidName, StoreReadOnly
from alveus.runs.agent import DispatchTable
from doors import Letters


class Other(Event):
    pass


@action(InputEvent)
def outside(event, ctx):
    ctx.send_event(OutputEvent(event.input))


def names(agent, **options) -> list[str]:
    return list(DispatchTable.of(agent, **options).actions)


@pytest.fixture
def memory():
    with Memory.open(embedder=Letters()) as memory:
        yield memory


def handled(memory, agent, value: object = 1) -> list[object]:
    with LocalRunner(agent, memory) as runner:
        return list(runner.handle("ada", value))


# --- where an action is -------------------------------------------------------------------------


class Everywhere(Agent):
    @action(InputEvent)
    def method(self, event, ctx):
        ctx.send_event(OutputEvent(["method", isinstance(self, Agent)]))

    @action(InputEvent)
    @staticmethod
    def above(event, ctx):
        ctx.send_event(OutputEvent("above"))

    @staticmethod
    @action(InputEvent)
    def below(event, ctx):
        ctx.send_event(OutputEvent("below"))

    @classmethod
    @action(InputEvent)
    def of_class(cls, event, ctx):
        ctx.send_event(OutputEvent(["class", issubclass(cls, Agent)]))

    @action(InputEvent)
    async def awaited(self, event, ctx):
        ctx.send_event(OutputEvent("async"))

    @action(InputEvent)
    @staticmethod
    async def awaited_above(event, ctx):
        ctx.send_event(OutputEvent("async above"))

    @staticmethod
    @action(InputEvent)
    async def awaited_below(event, ctx):
        ctx.send_event(OutputEvent("async below"))

    def helper(self, event, ctx):
        raise AssertionError


def test_actions_are_found_wherever_they_are(memory):
    """Methods, static ones with the mark above and below, class methods, async; in order."""
    given = [
        ["method", True],
        "above",
        "below",
        ["class", True],
        "async",
        "async above",
        "async below",
    ]
    assert handled(memory, Everywhere) == given
    assert handled(memory, Everywhere()) == given


def test_functions_and_bound_methods_are_actions_too(memory):
    """Of an agent that is put together in code; after those of its class."""
    agent = Everywhere(actions=[outside, staticmethod(action(InputEvent)(lambda_like))])
    assert names(agent)[-2:] == ["outside", "lambda_like"]
    assert handled(memory, agent)[-2:] == [1, "given"]
    method = cast("Any", Everywhere().method)
    assert handled(memory, Agent("bound", actions=[method])) == [["method", True]]


def lambda_like(event, ctx):
    ctx.send_event(OutputEvent("given"))


def test_a_decorator_above_an_action_is_part_of_it(memory):
    """What wraps the function is called, not what it wraps."""
    calls = []

    def logged(function):
        @functools.wraps(function)
        def inner(*args):
            calls.append("before")
            return function(*args)

        return inner

    class Wrapped(Agent):
        @logged
        @action(InputEvent)
        def method(self, event, ctx):
            calls.append("method")

    handled(memory, Wrapped)
    handled(memory, Agent("given", actions=[logged(outside)]))
    assert calls == ["before", "method", "before"]


def test_bases_come_first_and_overriding_keeps_the_place():
    class Base(Agent):
        @action(InputEvent)
        def one(self, event, ctx): ...

        @action(InputEvent)
        def two(self, event, ctx): ...

        @action(InputEvent)
        def three(self, event, ctx): ...

    class Derived(Base):
        @action(Other)
        def four(self, event, ctx): ...

        @action(Other)
        def one(self, event, ctx): ...

        def two(self, event, ctx):
            """Not an action any more."""

    plan = DispatchTable.of(Derived)
    assert list(plan.actions) == ["one", "three", "four"]
    assert plan.actions["one"].events == (Other,)
    assert names(Base) == ["one", "two", "three"]


def test_an_action_may_have_several_events_and_an_event_several_actions():
    @action(InputEvent, Other)
    def both(event, ctx): ...

    plan = DispatchTable.of(Agent("agent", actions=[both, outside]))
    assert plan.set_off(InputEvent(1)) == ("both", "outside")
    assert plan.set_off(Other()) == ("both",)
    assert plan.set_off(OutputEvent(1)) == ()


# --- names --------------------------------------------------------------------------------------


def test_the_name_of_an_agent(memory):
    """The runner's, or its own, or its class's."""

    class Shop(Agent):
        @action(InputEvent)
        def work(self, event, ctx): ...

    class Named(Shop):
        name = "named"

    assert [
        DispatchTable.of(a).name for a in (Shop, Shop(), Shop("mine"), Named, Named("mine"))
    ] == ["Shop", "Shop", "mine", "named", "mine"]
    assert DispatchTable.of(Named, name="runner's").name == "runner's"
    assert LocalRunner(Shop, memory, name="имя/🦜").name == "имя/🦜"
    for name in (7, "\ud800", b"bytes"):
        with pytest.raises(InvalidName):
            DispatchTable.of(Shop, name=cast("str", name))


# --- what is refused ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mark", "says"),
    [
        (action, "needs the classes of its events"),
        (lambda: action(cast("Any", "input")), "subclasses of Event"),
        (lambda: action(cast("Any", outside)), r"as in @action\(InputEvent\), not <function"),
        (lambda: action(Event), "define a subclass"),
        (lambda: action(InputEvent)(cast("Any", 7)), "must mark a function"),
        (lambda: action(Other)(outside), "already an action"),
        (lambda: action(InputEvent)(cast("Any", len)), "cannot be marked"),
    ],
)
def test_what_cannot_be_marked(mark, says):
    with pytest.raises(InvalidInput, match=says):
        mark()


def test_what_is_no_agent():
    """Each error says what to do."""

    class Empty(Agent):
        def work(self, event, ctx): ...

    class Needy(Agent):
        def __init__(self, needed):
            super().__init__()

    class Same(Event):
        @classmethod
        def type_name(cls):
            return "Other"

    def marked(function, **settings):
        return Agent("agent", actions=[action(InputEvent, **settings)(function)])

    def few(event): ...

    async def steps(event, ctx):
        yield 1

    def plain(event, ctx): ...

    cases = [
        (Empty, "has no action"),
        (Agent("agent"), "has no action"),
        (cast("Any", outside), "an agent must be a subclass of Agent"),
        (Needy, "cannot be made without arguments"),
        (Agent("agent", actions=[outside, outside]), "two actions with the name 'outside'"),
        (Agent("agent", actions=[lambda event, ctx: None]), "not marked"),
        (Agent("agent", actions=[action(Other, Same)(plain)]), "two classes of events"),
        (marked(few), r"must have the parameters \(event, ctx\)"),
        (marked(steps), "must not yield"),
        (Agent("agent", actions=[outside], on_error=cast("Any", "ignore")), "on_error must be"),
        (Agent("agent", actions=[outside], on_failed=cast("Any", "stop")), "on_failed must be"),
        (Agent("agent", actions=[outside], on_mismatch=cast("Any", 1)), "on_mismatch must be"),
        (Agent("agent", actions=[outside], retry=cast("Any", 3)), r"must be a Retry"),
    ]
    for agent, says in cases:
        with pytest.raises(InvalidInput, match=says):
            DispatchTable.of(agent)


def test_a_runner_needs_a_memory_that_it_can_write(tmp_path):
    agent = Agent("agent", actions=[outside])
    with pytest.raises(InvalidInput, match="needs a Memory"):
        LocalRunner(agent, cast("Any", tmp_path))
    with Memory.open(tmp_path / "m.db", embedder=Letters()) as memory:
        for concurrency in (0, -1, 1.5, "2"):
            with pytest.raises(InvalidInput, match="concurrency"):
                LocalRunner(agent, memory, concurrency=cast("int", concurrency))
    with (
        Memory.open(tmp_path / "m.db", embedder=Letters(), mode="ro") as memory,
        pytest.raises(StoreReadOnly),
    ):
        LocalRunner(agent, memory)


# --- retries ------------------------------------------------------------------------------------


def test_pauses_grow_up_to_the_longest():
    retry = Retry(attempts=10_000, wait_s=1, factor=2, most_s=60, jitter=0)
    assert [retry.pause_s(tried) for tried in (1, 2, 3, 7, 5000)] == [1, 2, 4, 60, 60]
    assert Retry(wait_s=0).pause_s(3) == 0
    pauses = [Retry(wait_s=8, jitter=0.5).pause_s(1) for _ in range(200)]
    assert 4 <= min(pauses) < max(pauses) <= 8


def test_which_errors_are_tried_again():
    retry = Retry(attempts=3, on=(OSError,))
    assert [retry.should_retry(TimeoutError(), tried) for tried in (1, 2, 3)] == [True, True, False]
    assert not retry.should_retry(ValueError(), 1)
    for wrong in ({"attempts": 0}, {"wait_s": -1}, {"factor": 0.5}, {"jitter": 2}, {"most_s": -1}):
        with pytest.raises(InvalidInput):
            Retry(**cast("Any", wrong))


@pytest.mark.parametrize(
    "setting",
    [
        {"when": 3}, {"when": "x"}, {"on_error": "no"}, {"on_error": [3]}, {"retry": 3},
        {"adapt": 3}, {"retry": Retry(), "on_error": "skip"},
    ],
)  # fmt: skip
def test_an_action_refuses_settings_that_make_no_sense(setting):
    """Where it is marked, not when its first event comes."""
    with pytest.raises(InvalidInput, match=next(iter(setting))):
        action(InputEvent, **setting)


def test_a_condition_is_not_async():
    """What it returns would be true, whatever it says."""

    async def condition(event):
        return False

    with pytest.raises(InvalidInput, match=r"plain function, but .* is async"):
        action(InputEvent, when=cast("Any", condition))


@pytest.mark.parametrize("when", [lambda: True, lambda event, ctx: True])
def test_a_condition_takes_the_event(when):
    """Said when the agent is looked through, not when its first event comes."""

    @action(InputEvent, when=when)
    def work(event, ctx): ...

    with pytest.raises(
        InvalidInput, match=r"the when= of action 'work' .* must have the parameters \(event\)"
    ):
        DispatchTable.of(Agent("agent", actions=[work]))


@pytest.mark.parametrize("name", ["", 3, "x" * 5000])
def test_an_agent_that_is_given_a_name_has_one(name):
    """An empty one does not stand for that of its class."""
    with pytest.raises(InvalidInput, match="an agent's name"):
        Agent(name, actions=[outside])
    with pytest.raises(InvalidInput, match="an agent's name"):
        names(Everywhere, name=name)


@pytest.mark.parametrize("actions", [3, outside])
def test_an_agent_takes_a_list_of_actions(actions):
    with pytest.raises(InvalidInput, match="actions must be a list"):
        Agent("one", actions=actions)


@pytest.mark.parametrize("limit", [0, -1, 1.5, "3", 1 << 21])
def test_the_tasks_of_a_run_are_a_number(limit):
    """At most as many as a store can number."""
    with pytest.raises(InvalidInput, match=r"Everywhere\.max_tasks must be a whole number"):
        names(Everywhere(max_tasks=limit))


@pytest.mark.parametrize("setting", ["short_term_ttl", "retry", "memory_events", "on_failed"])
def test_an_agent_refuses_settings_of_another_type(setting):
    with pytest.raises(InvalidInput, match=setting):
        names(Everywhere(**{setting: cast("Any", 3)}))
