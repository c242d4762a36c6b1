"""Windows: the laws of every memory of an agent's window, and what those of fornix promise."""

from __future__ import annotations

import math
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fornix import Agent, InputEvent, LocalRunner, Memory, OutputEvent, action
from fornix.budget import Budget
from fornix.context import (
    ContextMemory,
    Importance,
    Input,
    Observation,
    Priority,
    Recency,
    Reply,
    Stamp,
    Stream,
    Void,
)
from fornix.errors import (
    BudgetTooSmall,
    DuplicateItem,
    FornixError,
    InvalidInput,
    InvalidName,
    SetMoved,
    Unusable,
)
from fornix.messages import Message
from fornix.testing import ContextContract
from fornix.testing.windows import numbered
from scale import COUNTS

SHARED_S = COUNTS.contention_s * 20 / 15
"""20 s where tests are run in full."""


class TestVoid(ContextContract):
    shows, budget, seconds = 0, Budget(400), 0.1

    def make(self):
        return Void("Be kind.", budget_tokens=self.budget)


class TestStream(ContextContract):
    shows, budget, seconds = 20, Budget(400), SHARED_S

    def make(self):
        return Stream(20, "Be kind.", budget_tokens=self.budget)


class TestPriority(ContextContract):
    shows, budget, seconds = 20, Budget(400), SHARED_S / 4

    def make(self):
        return Priority(20, budget_tokens=self.budget)


class TestImportance(ContextContract):
    shows, budget, seconds = 20, Budget(400), SHARED_S / 4

    def make(self):
        return Importance(20, "Be kind.", budget_tokens=self.budget)


class TestLeastRecentlyUsed(ContextContract):
    shows, budget, seconds = 20, Budget(400), SHARED_S / 4

    def make(self):
        return Stream(20, budget_tokens=self.budget, evict="least recently used")


class TestDurableStream(ContextContract):
    """On a file, which the next process reads."""

    shows, budget, seconds = 20, Budget(400), SHARED_S

    @pytest.fixture(autouse=True)
    def opened(self, tmp_path):
        with Memory.open(tmp_path / "app.db", embedder="words", durability="normal") as memory:
            self.key = memory.key("ada")
            yield

    def make(self):
        return Stream(20, memory=self.key, budget_tokens=self.budget)


# --- what a lock is for -------------------------------------------------------------------------


class NoLock:
    """What stands in a lock's place and locks nothing."""

    def __enter__(self):
        pass

    def __exit__(self, *error):
        pass


class Locked(ContextMemory):
    """The memory of a user: a list, and a lock."""

    def __init__(self, lock):
        self.lock, self.kept = lock, []

    def purge(self):
        with self.lock:
            self.kept = []

    def commit(self, observation):
        with self.lock:
            self.kept.append(observation)
            self.kept.sort(key=lambda one: one.created)
            del self.kept[:-20]

    def context(self, prompt):
        with self.lock:
            told = [message for one in self.kept for message in one.messages]
        return told if prompt is None else [*told, prompt]


class TestUsersOwn(ContextContract):
    """A user's memory is held to the laws, but for those that it does not mean to keep."""

    test_a_commit_keeps_a_copy = None  # it keeps what it is given
    test_an_observation_that_is_committed_again_is_there_once = None  # it is listed twice
    test_calls_and_answers_stay_together = None  # it knows of no tools

    shows, seconds = 20, SHARED_S / 4

    def make(self):
        return Locked(threading.Lock())


def unlocked_window():
    window = Stream(20)
    window._mirror._mutex = window._turn = NoLock()
    return window


@pytest.mark.parametrize("make", [unlocked_window, lambda: Locked(NoLock())])
def test_threads_find_a_memory_without_a_lock(make):
    """The law of threads is one that a memory breaks whose lock is taken out."""
    contract = TestStream()
    contract.seconds = 1.0
    for _ in range(20):
        try:
            contract.test_threads_may_share_it(make())
        except (AssertionError, LookupError, ValueError, RuntimeError):
            return
    pytest.fail("nothing went wrong in 20 s without a lock")


def test_two_that_see_room_for_one_do_not_both_take_it(tmp_path):
    """What a commit rests on is held against what came since; who was late plans anew, or is told."""
    with Memory.open(tmp_path / "app.db", embedder="words") as memory:
        outside = Stream(2, memory=memory.key("ada"))
        outside.commit(numbered(1))
        with pytest.raises(SetMoved), memory.key("ada").batch() as batch:  # noqa: PT012 - the end of the block is what raises
            assert Stream(2, memory=batch).commit(numbered(2)) == ()
            outside.commit(numbered(3))
        assert len(outside) == 2


def test_windows_of_one_name_keep_one_bound(tmp_path):
    """Eight of them, on a set that fills up, and on one that is purged by the last."""
    path = tmp_path / "app.db"
    with Memory.open(path, embedder="words", durability="normal") as memory:
        for n in range(8):
            windows = [Stream(3, memory=memory.key(f"{n}")) for _ in range(8)]
            with ThreadPoolExecutor(8) as pool:
                gone = list(pool.map(lambda window: window.commit(numbered(1)), windows))
            assert len(windows[0]) == 3
            assert sum(map(len, gone)) == 5
            with ThreadPoolExecutor(8) as pool:
                futures = [pool.submit(window.commit, numbered(2)) for window in windows[1:]]
                purged = pool.submit(windows[0].purge)
                for future in (purged, *futures):
                    future.result()
            assert len(windows[0]) <= 3
            windows[0].purge()
            assert [len(window) for window in windows] == [0] * 8


# --- budgets ------------------------------------------------------------------------------------

LETTERS = Budget(None, len, message_tokens=1)

SAID = st.text("ab", max_size=12)


@st.composite
def conversations(draw):
    """Observations in the order in which they are committed, some with tools."""
    made, calls = [], list[str]()
    for n in range(draw(st.integers(0, 12))):
        answers = draw(st.lists(st.sampled_from(calls), max_size=2)) if calls else []
        asks = [f"c{n}"] if draw(st.booleans()) else []
        calls += asks
        query = Message(f"{n} {draw(SAID)}", "tool" if answers else "user", answers=tuple(answers))
        reply = Message(draw(SAID), "assistant", calls=tuple(asks))
        importance = draw(st.sampled_from([0.0, 0.2, 0.9, 1.0]))
        made.append(Observation(query, Reply(reply, importance=importance, scored_by="me")))
    return draw(st.permutations(made)), calls


WINDOWS = {
    "stream": Stream,
    "priority": Priority,
    "importance": Importance,
    "least recently used": lambda cap, **more: Stream(cap, evict="least recently used", **more),
}


@pytest.mark.parametrize("kind", WINDOWS)
@given(conversations(), st.integers(1, 8), st.integers(1, 90), SAID, st.data())
def test_a_budget_holds_whatever_is_said(kind, conversation, cap, tokens, stratum, data):
    """Never over it; the prompt last; units whole and in order; the newest where it fits."""
    made, calls = conversation
    answers = data.draw(st.lists(st.sampled_from(calls), max_size=1)) if calls else []
    prompt = Message("p" * data.draw(st.integers(0, 9)), answers=tuple(answers))
    budget = Budget(tokens, len, message_tokens=1)
    window = WINDOWS[kind](cap, stratum=stratum, budget_tokens=budget)
    gone = [one for observation in made for one in window.commit(observation)]
    held = window.observations()
    assert sorted(o.created for o in (*gone, *held)) == sorted(o.created for o in made)
    units = _units(held)
    assert len(units) <= cap
    begins = [Message.stratum(stratum)] if stratum else []
    needed = [o for unit in units if any(_asks(o, answers) for o in unit) for o in unit]
    fixed = budget.size([*begins, prompt, *(m for o in needed for m in o.messages)])
    if fixed > tokens:
        with pytest.raises(BudgetTooSmall):
            window.context(prompt)
        return
    told = window.context(prompt)
    assert budget.size(told) <= tokens
    assert (told[: len(begins)], told[-1]) == (begins, prompt)
    shown = _shown(told[len(begins) : -1], held)
    for unit in units:
        assert {o.created for o in unit} <= shown or not {o.created for o in unit} & shown
    if held:
        newest = next(unit for unit in units if held[-1] in unit)
        more = [m for o in newest if o not in needed for m in o.messages]
        assert (held[-1].created in shown) == (fixed + budget.size(more) <= tokens)


def _asks(observation, answers):
    return bool(set(observation.reply.content.calls) & set(answers))


def _units(held):
    """Observations that belong together, as a model of the rule: by the last who asked."""
    units, callers = [], {}
    for one in held:
        own = [one]
        for call in one.query.content.answers:
            other = callers.get(call)
            if other is not None and other is not own:
                units = [unit for unit in units if unit is not other and unit is not own]
                other += [o for o in own if o not in other]
                callers |= {name: other for name, unit in callers.items() if unit is own}
                own = other
                units.append(own)
        if own not in units:
            units.append(own)
        callers |= dict.fromkeys(one.reply.content.calls, own)
    return units


def _shown(told, held):
    """Which of what is held a context shows, in order and whole."""
    by_query = {o.query.content.content: o for o in held}
    shown = [by_query[message.content] for message in told[::2]]
    assert [m for one in shown for m in one.messages] == told
    created = [one.created for one in shown]
    assert created == sorted(set(created))
    return set(created)
