"""Windows: the laws of every memory of an agent's window, and what those of alveus promise."""

from __future__ import annotations

import doctest
import gc
import math
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alveus import Memory
from alveus.agents.storage import SWEEP_EVERY
from alveus.agents.windows import (
    Combined,
    ContextMemory,
    Explicit,
    Importance,
    Input,
    Observation,
    Priority,
    Recency,
    Reflection,
    Reply,
    Stamp,
    Stream,
    Void,
)
from alveus.errors import (
    AlveusError,
    BudgetTooSmall,
    DuplicateItem,
    InvalidInput,
    InvalidName,
    SetMoved,
    Unusable,
)
from alveus.sets.admission import Size
from alveus.store.ram.rows import ItemRow
from alveus.testing import ContextContract
from alveus.testing.window_contract import numbered
from alveus.text.budget import Budget
from alveus.text.messages import Message
from scale import COUNTS

SHARED_S = COUNTS.contention_s
"""How long threads are in each other's way: 20 s where tests are run in full."""


def wrong(value) -> Any:
    """What a type does not allow, and somebody does."""
    return value


def test_the_example_of_the_docstring_runs():
    """What `help(ContextMemory)` tells a user to write works as it stands there."""
    (example,) = [one for one in doctest.DocTestFinder().find(ContextMemory) if one.examples]
    assert doctest.DocTestRunner().run(example).failed == 0


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

    test_a_commit_keeps_a_copy = wrong(None)  # it keeps what it is given
    test_an_observation_that_is_committed_again_is_there_once = wrong(None)  # it is listed twice
    test_calls_and_answers_stay_together = wrong(None)  # it knows of no tools

    shows, seconds = 20, SHARED_S / 4

    def make(self):
        return Locked(threading.Lock())


def unlocked_window():
    window = Stream(20)
    window._mirror._mutex = window._turn = wrong(NoLock())
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
    """What a commit rests on is held against what came since: who was late plans anew."""
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


# --- what is refused ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"cap": "3"}, "the cap of a window"),
        ({"cap": True}, "the cap of a window"),
        ({"cap": 0}, "None: no limit"),
        ({"cap": 2.0}, "the cap of a window"),
        ({"cap": 2, "keep_recent": 3}, "keep_recent must be a whole number, from 0 to 2"),
        ({"keep_recent": True}, "keep_recent"),
        ({"evict": "newest"}, "evict of a window must be 'oldest', 'least important' or"),
        ({"profile": "go"}, "profile of a window must be 'alveus' or 'thinker'"),
        ({"budget_tokens": 0}, "budget_tokens must be a whole number"),
        ({"budget_tokens": "10"}, "budget_tokens must be a whole number"),
        ({"budget_tokens": True}, "budget_tokens must be a whole number"),
        ({"scorer": 3}, "a scorer must be a function or an object"),
        ({"stratum": 3}, "the content of a message must be a str"),
        ({"memory": 3}, "need the memory of a key"),
        ({"now": "noon"}, "now must be a datetime"),
    ],
)
def test_settings_that_mean_nothing_are_refused(settings, says):
    """In one sentence that says which, before anything is made."""
    with pytest.raises(InvalidInput, match=says) as caught:
        Stream(**settings)
    assert "\n" not in str(caught.value)


def test_names_that_cannot_name_a_set_are_refused():
    """Those of alveus itself among them, in RAM too."""
    for name in ("", wrong(3), "\x1ahidden", "\ud800"):
        with pytest.raises(InvalidName):
            Stream(name=name)
        with Memory.open() as memory, pytest.raises(InvalidName):
            Stream(name=name, memory=memory.key("ada"))


def reply(**noted):
    return Reply(Message("r", "assistant"), **noted)


WRONG = {
    "no observation": lambda: "hello",
    "importance NaN": lambda: Observation("q", reply(importance=math.nan)),
    "importance 2": lambda: Observation("q", reply(importance=2)),
    "importance True": lambda: Observation("q", reply(importance=True)),
    "importance None": lambda: Observation("q", reply(importance=None)),
    "importance str": lambda: Observation("q", reply(importance="0.5")),
    "scored_by 3": lambda: Observation("q", reply(scored_by=3, importance=0.5)),
    "outcome": lambda: Observation("q", "r", outcome=wrong("fine")),
    "created": lambda: Observation("q", "r", created=wrong("yesterday")),
    "created 3": lambda: Observation("q", "r", created=wrong(3)),
    "links": lambda: Observation("q", "r", links=wrong("abc")),
    "links None": lambda: Observation("q", "r", links=wrong(None)),
    "a link": lambda: Observation("q", "r", links=wrong(("abc",))),
    "a vector of NaN": lambda: Observation("q", reply(relevance=np.array([math.nan]))),
    "a vector of words": lambda: Observation("q", reply(relevance=["a"])),
    "a table": lambda: Observation("q", reply(relevance=np.zeros((2, 2)))),
    "an empty vector": lambda: Observation("q", reply(relevance=[])),
    "a str as content": lambda: Observation("q", Reply(wrong("r"))),
    "no text": lambda: Observation("\ud800", "r"),
}


@pytest.mark.parametrize("make", [Stream, Priority, Importance])
@pytest.mark.parametrize("wrong", WRONG)
def test_what_cannot_be_kept_is_refused_and_changes_nothing(make, wrong):
    """One sentence says which part it is."""
    window = make(1)
    window.commit(numbered(1))
    with pytest.raises(InvalidInput) as caught:
        window.commit(WRONG[wrong]())
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300
    assert window.context(None) == [*numbered(1).messages]


def test_a_set_that_holds_something_else_is_not_taken_for_a_window():
    """Whether its items are of another type, of any, or one of them was put in by hand."""
    with Memory.open(embedder="words") as memory:
        key = memory.key("ada")
        key.set("notes").add("tea")
        key.set("talk", item_type="message").add("tea")
        for name in ("notes", "talk"):
            window = Stream(memory=key, name=name)
            with pytest.raises(InvalidInput, match="not observations; give the window another set"):
                window.commit(numbered(1))
            with pytest.raises(InvalidInput, match="not observations; give the window another set"):
                window.context(None)
        window = Stream(memory=key)
        window.commit(numbered(1))
        key.set("stream").add("tea", id="by hand")
        with pytest.raises(InvalidInput, match=r"item 'by hand' of set .* is not an observation"):
            window.context(None)
        key.set("stream").delete("by hand")
        assert window.context(None) == [*numbered(1).messages]


def test_a_set_with_rules_of_admission_is_not_taken_for_a_window():
    """A window keeps all that is said; rules of the memory for sets without any do not count."""
    rules = [Size(min_chars=1000)]
    with Memory.open(embedder="words", admission=rules) as memory:
        window = Stream(memory=memory.key("ada"))
        window.commit(numbered(1))
        assert len(window) == 1
        memory.key("ada").set("stream").redefine(admission=rules)
        with pytest.raises(InvalidInput, match="redefine"):
            window.commit(numbered(2))
        memory.key("ada").set("stream").redefine(admission=[])
        window.commit(numbered(2))
        assert len(window) == 2


def test_another_observation_of_one_id_is_refused():
    """One that was changed since it was committed is another one."""
    window, one = Stream(), numbered(1)
    window.commit(one)
    one.reply.importance = 0.9  # what is noted of it is no part of what was said
    assert window.commit(one) == ()
    one.reply.content = Message("something else", "assistant")
    with pytest.raises(DuplicateItem, match=one.created):
        window.commit(one)


def test_a_scorer_that_uses_the_window_it_serves():
    """It may look before anything is locked; later it is told what to do, and all goes on."""

    class Curious(Recency):
        does = "look"

        def score(self, observation, *, now, newest):
            if self.does == "look":
                window.context(None)
            return super().score(observation, now=now, newest=newest)

    curious = Curious()
    window = Priority(2, scorer=curious)
    window.commit(numbered(1))
    curious.does = "look later"
    window.commit(numbered(2))
    curious.does = "look"
    with pytest.raises(Unusable, match="the scorer of window"):
        window.commit(numbered(3))
    curious.does = "nothing"
    window.commit(numbered(4))
    assert len(window) == 2


# --- what is kept -------------------------------------------------------------------------------


def test_an_observation_comes_back_as_it_was():
    """From a file, with all that is noted of it; vectors to a 254th of their largest number."""
    vector = np.array([0.5, -0.25, 0.01], np.float32)
    link = Stamp.new()
    one = Observation(
        Input(Message("q", "tool", "ann", answers=("c0",)), vector),
        Reply(Message("r", "assistant", calls=("c1",)), -vector, 0.25, "decoder"),
        created=Stamp.at(datetime(2026, 1, 1, tzinfo=UTC)),
        outcome="rejected",
        links=(link, link),
    )
    with Memory.open(embedder="words") as memory:
        Stream(memory=memory.key("ada")).commit(one)
        (found,) = Stream(memory=memory.key("ada")).observations()
        assert found.messages == one.messages
        assert (found.created, found.outcome, found.links) == (one.created, "rejected", (link,))
        assert (found.reply.importance, found.reply.scored_by) == (0.25, "decoder")
        assert found.accessed is None
        assert found.query.relevance is not None
        assert found.reply.relevance is not None
        assert np.abs(found.query.relevance - vector).max() <= 0.5 / 254 + 1e-7
        assert np.abs(found.reply.relevance + vector).max() <= 0.5 / 254 + 1e-7
        (hit,) = memory.key("ada").search("q")
        assert hit.item.text == "q\nr"


def test_what_was_shown_counts_as_accessed_and_nothing_else():
    """By the context that had room for it; looking at `observations` does not count."""
    window = Stream(2, now=lambda: datetime(2030, 1, 1, tzinfo=UTC))
    window.commit(numbered(1, long=200))
    window.commit(numbered(2))
    window.context("p", budget_tokens=60)
    first, second = window.observations()
    assert first.accessed is None
    assert second.accessed is not None
    assert second.accessed.time() == datetime(2030, 1, 1, tzinfo=UTC)


def test_a_huge_message_is_kept_and_left_out():
    """One of a million characters is no reason to show nothing."""
    window = Stream(3, budget_tokens=100)
    window.commit(numbered(1))
    window.commit(Observation("read this", "x" * 1_000_000))
    assert window.context(None) == [*numbered(1).messages]
    assert len(window.context(None, budget_tokens=Budget(None))) == 4


def test_importance_fades_by_the_hour():
    """What mattered yesterday gives way to what matters less now; the clock alone decides."""
    now = [datetime(2026, 1, 1, tzinfo=UTC)]

    def made(name, importance):
        said = Reply(Message(name, "assistant"), importance=importance, scored_by="me")
        return Observation(name, said, created=Stamp.at(now[0]))

    window = Importance(2, now=lambda: now[0])
    window.commit(made("old", 1.0))
    now[0] += timedelta(hours=23)
    window.commit(made("fresh", 0.1))
    now[0] += timedelta(seconds=1)
    assert [str(o.query.content) for o in window.commit(made("new", 0.0))] == ["old"]


def test_importance_fades_once():
    """What is old as it comes in is scored as it was when it was made, and fades from there."""
    old = Observation("q", "x" * 1000, created=Stamp.at(datetime(2026, 1, 1, tzinfo=UTC)))
    window = Importance()
    window.commit(old)
    assert [one.reply.importance for one in window.observations()] == [1.0]


def test_a_scorer_whose_scores_fall_is_asked_again():
    """`Priority` with `Recency` lets go of the oldest, though all scored 1 as they came."""
    window = Priority(2, scorer=Recency())
    made = [
        Observation(name, "r", created=Stamp.at(datetime(2026, 1, 1, hour, tzinfo=UTC)))
        for hour, name in enumerate("ABC")
    ]
    gone = [window.commit(one) for one in made]
    assert [str(o.query.content) for one in gone for o in one] == ["A"]


def test_a_scorer_that_is_asked_again_sees_what_was_committed():
    """Not its own score of then, which it would weigh in once more."""
    now = [datetime(2026, 1, 1, tzinfo=UTC)]
    scorer = Combined((Explicit(), 1), (Recency(), 1))
    window = Priority(1, scorer=scorer, keep_recent=0, now=lambda: now[0])
    for name, importance in (("old", 0.2), ("new", 0.0)):  # now worth 0.35, not 0.55, and 0.5
        said = Reply(Message("r", "assistant"), importance=importance, scored_by="me")
        window.commit(Observation(name, said, created=Stamp.at(now[0])))
        now[0] += timedelta(hours=1)
    assert [str(one.query) for one in window.observations()] == ["new"]


def test_of_very_many_the_best_are_shown_and_of_equals_the_newest():
    """However many are equal: none of them is left out while there is room."""
    window = Priority(None, scorer=Explicit())
    made: list[tuple[float, Observation]] = []
    for n in range(400):
        importance = (n * 7 % 4) / 4
        said = Reply(Message("r", "assistant"), importance=importance, scored_by="me")
        made.append((importance, Observation(f"{n:03}", said)))
        window.commit(made[-1][1])
    assert len(window.context(None)) == 800
    best = sorted(made, key=lambda one: (one[0], one[1].created), reverse=True)
    newest, room = made[-1][1], 150
    wanted = {newest.created, *(one.created for _, one in best[: room - 1])}
    told = window.context(None, budget_tokens=Budget(room * 4, len, message_tokens=0))
    assert [m.content for m in told[::2]] == [
        str(one.query) for _, one in made if one.created in wanted
    ]


def test_a_window_in_ram_frees_what_it_let_go():
    """An agent that runs for months holds what its window holds, and no more."""
    window = Stream(5, name="freed")
    for n in range(3 * SWEEP_EVERY):
        window.commit(numbered(n))
    gc.collect()
    rows = [one for one in gc.get_objects() if type(one) is ItemRow]
    assert sum(row.set_rows.ref.name == "freed" for row in rows) <= SWEEP_EVERY + 5


def test_a_reflection_draws_on_what_a_window_in_ram_let_go():
    """It may come long after what it is drawn from was let go."""
    seen: list[Observation] = []

    def infer(sources):
        seen.extend(sources)

    window = Stream(3, reflection=Reflection(1.0, infer))
    for n, importance in enumerate([0.9, *[0.0] * SWEEP_EVERY, 0.9]):
        answer = Message(f"answer {n}", "assistant")
        window.commit(Observation(f"question {n}", Reply(answer, importance=importance)))
    assert [str(one.query) for one in seen] == ["question 0", f"question {SWEEP_EVERY + 1}"]


def test_a_budget_of_the_same_counter_counts_nothing_again():
    """A context under another number of tokens is as cheap as one under the window's own."""
    texts: list[str] = []

    def counter(text):
        texts.append(text)
        return len(text)

    window = Stream(budget_tokens=Budget(1000, counter))
    window.commit(numbered(1))
    window.context(None)
    counted = len(texts)
    assert window.context(None, budget_tokens=Budget(2000, counter)) == [*numbered(1).messages]
    assert len(texts) == counted
    assert window.context(None, budget_tokens=Budget(2, lambda _: 2)) == []


def test_what_is_forgotten_in_the_set_is_gone_from_the_window():
    """For good, from a window that had shown it too."""
    with Memory.open(embedder="words") as memory:
        window, one = Stream(memory=memory.key("ada")), numbered(1)
        window.commit(one)
        window.commit(numbered(2))
        window.context("p")
        memory.key("ada").set("stream").forget(str(one.created))
        assert window.context(None) == [*numbered(2).messages]
        memory.forget("ada")
        assert window.context(None) == []


def test_every_error_of_a_window_is_one_of_alveus():
    """A memory that was closed says so."""
    with Memory.open(embedder="words") as memory:
        window = Stream(memory=memory.key("ada"))
    for call in (lambda: window.commit(numbered(1)), lambda: window.context("p"), window.purge):
        with pytest.raises(AlveusError):
            call()


@pytest.mark.parametrize(("long", "is_shown"), [(7, True), (8, False)])
def test_what_does_not_fit_is_passed_over(long, is_shown):
    """Up to a bound, so that no context looks at all of a large window in vain."""
    window = Stream(budget_tokens=Budget(40, len, message_tokens=0))
    window.commit(Observation("first", "short"))
    for n in range(long):
        window.commit(Observation(f"{n}", "x" * 50))
    window.commit(Observation("last", "short"))
    assert [str(m) for m in window.context(None)][::2] == ["first", "last"][not is_shown :]


def test_an_error_of_a_budget_names_the_calls_that_are_in_it():
    """Who reads that instructions and prompt are too long looks in vain for what is."""
    window = Stream(budget_tokens=Budget(20, len, message_tokens=0))
    window.commit(Observation("q" * 15, Message("r", "assistant", calls=("call",))))
    with pytest.raises(BudgetTooSmall, match=r"the tool calls that it answers \(22 tokens\)"):
        window.context(Message("a" * 6, "tool", answers=("call",)))
