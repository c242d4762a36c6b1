"""The promises of every memory of an agent's window, as a class to inherit from."""

from __future__ import annotations

import math
import sys
import threading
import time
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count
from random import Random
from typing import cast

import pytest

from alveus.agents.windows import ContextMemory, Observation
from alveus.errors import BudgetTooSmall
from alveus.text.budget import Budget
from alveus.text.messages import Message

PROMPT = Message("what now?")

THREADS = 8

OFTEN_S = 1e-5  # of the interpreter; no test waits for it
"""Switch interval of Python while threads compete."""


def numbered(number: int, *, long: int = 1) -> Observation:
    """Return an observation whose texts contain *number*."""
    said = " ".join([f"answer {number}", *["and so on"] * (long - 1)])
    return Observation(f"question {number}", said)


class ContextContract:
    """The promises of every memory of an agent's window.

    A test class inherits from this class, and defines how to make a memory and how many
    observations the memory shows::

        class TestLongest(ContextContract):
            shows = 20

            def make(self):
                return Longest(20)

    A law that a memory breaks on purpose is left out by name, with the reason::

        test_a_commit_keeps_a_copy = None  # its owner scores observations later

    Attributes:
        shows: The most observations of a context. Up to this number, a context shows all.
        budget: The budget of the memory's contexts, if they have one. It must be large enough for
            *shows* observations of `numbered`.
        seconds: How long threads compete.
    """

    shows: int = 20
    budget: Budget | None = None
    seconds: float = 1.0

    def make(self) -> ContextMemory:
        """Return an empty memory."""
        raise NotImplementedError

    @pytest.fixture
    def memory(self) -> ContextMemory:
        """An empty memory."""
        return self.make()

    # --- contexts -----------------------------------------------------------------------------

    def test_a_memory_begins_with_nothing(self, memory: ContextMemory) -> None:
        """Before the first commit, a context contains the fixed messages and the prompt."""
        begins = memory.context(None)
        assert memory.context(PROMPT) == [*begins, PROMPT]

    def test_a_commit_is_seen_by_the_next_context(self, memory: ContextMemory) -> None:
        """The next context contains a committed observation whole: the query, then the reply."""
        begins, first = memory.context(None), numbered(1)
        memory.commit(first)
        pair = [*first.messages] if self.shows else []
        assert memory.context(PROMPT) == [*begins, *pair, PROMPT]

    def test_the_prompt_comes_last(self, memory: ContextMemory) -> None:
        """The prompt is last, and occurs once. Without a prompt, the observations are last."""
        filled(memory, 3)
        context = memory.context(PROMPT)
        assert context[-1] == PROMPT
        assert context[:-1] == memory.context(None)

    def test_the_newest_is_shown_however_many_came(self, memory: ContextMemory) -> None:
        """The newest observation is shown, whichever other observations were evicted."""
        begins = memory.context(None)
        newest = filled(memory, 3 * self.shows + 1)[-1]
        pair = [*newest.messages] if self.shows else []
        assert memory.context(None)[-2:] == (pair or begins)

    def test_so_many_are_shown_as_is_said(self, memory: ContextMemory) -> None:
        """All observations are shown up to `shows`, and no more afterwards."""
        begins = memory.context(None)
        for n in range(1, 3 * self.shows + 2):
            memory.commit(numbered(n))
            assert len(pairs(memory.context(None), begins)) == min(n, self.shows)

    def test_observations_stand_in_the_order_in_which_they_were_made(
        self, memory: ContextMemory
    ) -> None:
        """Observations are in the order of creation, whatever the order of commits."""
        begins, made = memory.context(None), [numbered(n) for n in range(min(self.shows, 6))]
        for observation in (*made[1::2], *made[::2]):
            memory.commit(observation)
        assert pairs(memory.context(None), begins) == [one.messages for one in made]

    def test_looking_changes_nothing(self, memory: ContextMemory) -> None:
        """Two contexts are equal, and changes to one do not affect the other."""
        filled(memory, self.shows)
        first = memory.context(PROMPT)
        expected = list(first)
        first.clear()
        assert memory.context(PROMPT) == expected

    def test_calls_and_answers_stay_together(self, memory: ContextMemory) -> None:
        """A tool call and its answer are shown together or not at all."""
        begins = memory.context(None)
        said = {message for one in filled(memory, 2) for message in one.messages}
        calls = Message("look it up", "assistant", calls=("call",))
        memory.commit(Observation("who?", calls))
        memory.commit(Observation(Message("Ann", "tool", answers=("call",)), "it is Ann"))
        for n in range(2 * self.shows):
            memory.commit(numbered(n + 2))
            new = [m for m in memory.context(PROMPT)[len(begins) : -1] if m not in said]
            shown = [(m.calls, m.answers) for m in new if m.calls or m.answers]
            assert shown in ([], [(("call",), ()), ((), ("call",))])

    # --- commits -------------------------------------------------------------------------------

    def test_an_observation_that_is_committed_again_is_there_once(
        self, memory: ContextMemory
    ) -> None:
        """A repeated commit of an observation, as after a crash, changes nothing."""
        begins, first = memory.context(None), numbered(1)
        for observation in (first, numbered(2), first):
            memory.commit(observation)
        shown = pairs(memory.context(None), begins)
        assert shown.count(first.messages) == min(1, self.shows)

    def test_a_commit_keeps_a_copy(self, memory: ContextMemory) -> None:
        """Later changes to an observation do not change the memory."""
        first = numbered(1)
        memory.commit(first)
        context = memory.context(PROMPT)
        first.query.content, first.reply.content = PROMPT, PROMPT
        assert memory.context(PROMPT) == context

    def test_purge_empties(self, memory: ContextMemory) -> None:
        """Purge removes all observations, and commits are possible again. `reset` does the same."""
        begins = memory.context(None)
        for forget in (memory.purge, memory.reset):
            filled(memory, 3)
            forget()
            assert memory.context(None) == begins
        self.test_a_commit_is_seen_by_the_next_context(memory)

    # --- budgets ------------------------------------------------------------------------------

    def test_a_context_is_never_over_its_budget(self, memory: ContextMemory) -> None:
        """A context never exceeds its budget. The newest observation is shown if it fits."""
        budget, random = self.budget or Budget(), Random(1)
        most = math.inf if budget.tokens is None else budget.tokens
        begins = memory.context(None)
        fixed = budget.size([*begins, PROMPT])
        for n in range(60):
            newest = numbered(n, long=random.choice([1, 1, 5, 40, 400]))
            memory.commit(newest)
            *context, prompt = memory.context(PROMPT)
            assert budget.size([*context, prompt]) <= most
            assert prompt == PROMPT
            fits = fixed + budget.size(newest.messages) <= most
            assert (newest.messages in pairs(context, begins)) == (fits and self.shows > 0)

    def test_a_prompt_is_never_cut(self, memory: ContextMemory) -> None:
        """A prompt over the budget is refused. Any other prompt is shown whole."""
        most = None if self.budget is None else self.budget.tokens
        prompt = Message("and so on " * (1000 if most is None else most))
        if most is None:
            assert memory.context(prompt)[-1] == prompt
            return
        with pytest.raises(BudgetTooSmall):
            memory.context(prompt)

    # --- threads ------------------------------------------------------------------------------

    def test_threads_may_share_it(self, memory: ContextMemory) -> None:
        """A context shows the memory at one moment: complete observations, in order, each once.

        Eight threads commit and read. A context has at least the observations whose commits ended
        before the call, and at most those whose commits began before its end. If commits return the
        evicted observations, each observation is either evicted once or held once.
        """
        begins, gone = memory.context(None), list[object]()
        begun, done, made = CallCounter(), CallCounter(), dict[Message, str]()
        end = time.monotonic() + self.seconds

        def work(_thread: int) -> None:
            while True:
                observation = numbered(begun.next())
                made[observation.query.content] = observation.created
                gone.append(memory.commit(observation))
                least = done.next()
                *context, prompt = memory.context(PROMPT)
                shown = [
                    (made[query], str(query), str(reply)) for query, reply in pairs(context, begins)
                ]
                assert prompt == PROMPT
                assert shown == sorted(set(shown)), "not in order, or twice"
                assert all(q.split()[1] == r.split()[1] for _, q, r in shown), "torn"
                assert min(least, self.shows) <= len(shown) <= min(begun.total, self.shows)
                if time.monotonic() > end:
                    return

        with _switching_often(), ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(work, range(THREADS)))
        assert done.total >= THREADS
        left = pairs(memory.context(None), begins)
        assert len(left) == min(self.shows, done.total)
        if all(isinstance(some, (tuple, list)) for some in gone):
            let_go = [one.created for some in cast("list[list[Observation]]", gone) for one in some]
            assert sorted([*let_go, *(made[query] for query, _ in left)]) == sorted(made.values())


@contextmanager
def _switching_often() -> Generator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(OFTEN_S)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def filled(memory: ContextMemory, most: int) -> list[Observation]:
    """Commit observations, numbered from 1. Return them."""
    made = [numbered(n) for n in range(1, most + 1)]
    for observation in made:
        memory.commit(observation)
    return made


def pairs(messages: Sequence[Message], begins: Sequence[Message]) -> list[tuple[Message, Message]]:
    """Return the observations of a context without a prompt, as pairs of query and reply."""
    assert list(messages[: len(begins)]) == list(begins)
    left = messages[len(begins) :]
    assert len(left) % 2 == 0, "half of an observation"
    return list(zip(left[::2], left[1::2], strict=True))


class CallCounter:
    """A counter shared by all callers."""

    def __init__(self) -> None:
        self._mutex, self._numbers, self.total = threading.Lock(), count(1), 0

    def next(self) -> int:
        """Return the next number."""
        with self._mutex:
            self.total = next(self._numbers)
            return self.total
