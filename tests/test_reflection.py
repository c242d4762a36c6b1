"""Reflection: what has added up is reflected on once, whoever does it and whatever fails."""

from __future__ import annotations

import math
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

import warm
from alveus import Memory, ScriptedChat
from alveus.agents.windows import Hybrid, Observation, Reflection, Reply, Stream
from alveus.errors import InvalidInput, ModelUnavailable
from alveus.text import ExtractiveSummariser
from alveus.text.messages import Message
from layered_worker import seen, window_of
from scale import COUNTS
from waiting import LIMIT_S

WORKER = Path(__file__).with_name("layered_worker.py")


def cycle(name, importance=0.0):
    return Observation(name, Reply(Message(name.lower(), "assistant"), importance=importance))


def names(observations):
    return [one.query.content.content for one in observations]


def of(window):
    return [one for one in window.observations() if "reflection" in (one.reply.scored_by or "")]


def said(window):
    return [one.reply.content.content for one in of(window)]


@pytest.fixture
def memory():
    with Memory.open(embedder="static") as opened:
        yield opened


@given(st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0]), max_size=20))
def test_what_adds_up_is_reflected_on(importance):
    """When the sum reaches the threshold, of all that was in it, and it begins anew."""
    window = Stream(None, reflection=Reflection(1.0, seen))
    expected, total, since = list[str](), 0.0, list[str]()
    for number, value in enumerate(importance):
        window.commit(cycle(str(number), value))
        total += value
        since += [str(number)] if value else []
        if total >= 1.0:
            expected.append("+".join(since))
            total, since = 0.0, []
    assert said(window) == expected


def test_an_insight_names_its_sources(memory):
    """It links to them, matters as much as the most important, and says who made it."""
    told: list[Observation] = []
    window = Stream(memory=memory.key("ada"), reflection=Reflection(1.0, seen, told.append))
    made = [cycle("A", 0.3), cycle("B", 0.7)]
    for one in made:
        window.commit(one)
    (insight,) = of(window)
    assert insight.links == tuple(one.created for one in made)
    assert insight.reply.importance == 0.7
    assert insight.reply.scored_by == "reflection by seen"
    assert [one.created for one in told] == [insight.created]
    assert [m.content for m in window.context("p")][-3:] == [
        "What matters in what was said so far?", "A+B", "p",
    ]  # fmt: skip


def test_what_was_let_go_is_reflected_on(memory):
    """The sources of an insight may have left the window; what they said is in its history."""
    window = Stream(1, memory=memory.key("ada"), reflection=Reflection(1.0, seen))
    gone = [names(window.commit(cycle(name, 0.4))) for name in "ABC"]
    assert said(window) == ["A+B+C"]
    assert gone == [[], ["A"], ["B", "C"]]


def test_the_forgotten_are_not_reflected_on(memory):
    """What was forgotten for good is in no insight, and takes with it those drawn from it."""
    ada = memory.key("ada")
    window = Stream(memory=ada, reflection=Reflection(1.0, seen))
    a, b, c = cycle("A", 0.4), cycle("B", 0.4), cycle("C", 0.4)
    window.commit(a)
    window.commit(b)
    ada.set("stream").forget([str(a.created)])
    window.commit(c)
    assert said(window) == ["B+C"]
    ada.set("stream").forget([str(b.created)])
    assert names(window.observations()) == ["C"]


def test_the_sum_survives_a_restart(tmp_path):
    """What has added up is in the file, not in the process; a window in RAM begins anew."""
    url = str(tmp_path / "app.db")
    for name in "ABC":
        with Memory.open(url, embedder="static") as opened:
            window = Stream(memory=opened.key("ada"), reflection=Reflection(1.0, seen))
            window.commit(cycle(name, 0.4))
            found = said(window)
    assert found == ["A+B+C"]


def test_again_is_not_counted_again(memory):
    """An observation that is committed twice adds up once; purge begins the sum anew."""
    window = Stream(memory=memory.key("ada"), reflection=Reflection(1.0, seen))
    one = cycle("A", 0.6)
    window.commit(one)
    window.commit(one)
    assert said(window) == []
    window.purge()
    window.commit(cycle("B", 0.6))
    assert said(window) == []
    window.commit(cycle("C", 0.6))
    assert said(window) == ["B+C"]


def test_a_failure_is_tried_again(memory, caplog):
    """What cannot be inferred now costs nothing: it is due, and said so, until it is inferred."""
    answers: list[str | Exception] = [OSError("gone"), ModelUnavailable("m", "busy"), "at last"]

    def infer(observations):
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return f"{answer} {seen(observations)}"

    window = Stream(memory=memory.key("ada"), reflection=Reflection(0.5, infer))
    window.commit(cycle("A", 0.6))
    assert isinstance(window.failure, OSError)
    assert "a reflection failed" in caplog.text
    with pytest.raises(ModelUnavailable):
        window.reflect()
    window.commit(cycle("B"))
    assert said(window) == ["at last A"]
    assert window.failure is None
    assert names(window.observations())[:2] == ["A", "B"]


def test_a_fault_in_the_function_is_raised(memory):
    """It is not covered up; the observation is kept, and committing it again changes nothing."""

    def infer(observations):
        raise KeyError(len(observations))

    window = Stream(memory=memory.key("ada"), reflection=Reflection(0.5, infer))
    one = cycle("A", 0.6)
    for _ in range(2):
        with pytest.raises(KeyError):
            window.commit(one)
    assert names(window.observations()) == ["A"]


def test_nothing_may_follow(memory):
    """A function that has nothing to say makes no insight, and the sum begins anew."""
    answers = [None, "  ", "yes"]
    window = Stream(memory=memory.key("ada"), reflection=Reflection(0.5, lambda _: answers.pop(0)))
    for name in "ABC":
        window.commit(cycle(name, 0.6))
    assert said(window) == ["yes"]
    answers += [cast("Any", 3)] * 2
    window.commit(cycle("D", 0.6))
    assert isinstance(window.failure, InvalidInput)
    with pytest.raises(InvalidInput, match="a text or None"):
        window.reflect()


def test_reflecting_on_demand(memory):
    """Before it is due, of what has come; of nothing, nothing."""
    window = Stream(memory=memory.key("ada"), reflection=Reflection(9.0, seen))
    assert window.reflect() is None
    window.commit(cycle("A", 0.6))
    made = window.reflect()
    assert made is not None
    assert made.reply.content.content == "A"
    assert window.reflect() is None
    with pytest.raises(InvalidInput, match="open it with reflection="):
        Stream(memory=memory.key("bob")).reflect()


def test_models_and_summarisers_make_insights(memory):
    """A model sums up; where it fails, sentences are chosen, and the insight says so."""
    makers = (
        (ScriptedChat(['{"summary": "Ada is well."}']), "Ada is well.", "reflection by model:"),
        (ScriptedChat([ModelUnavailable("m", "busy")]), None, "reflection by extractive"),
        (ExtractiveSummariser(), None, "reflection by extractive"),
        (None, None, "reflection by extractive"),
    )
    for number, (maker, text, by) in enumerate(makers):
        window = Stream(
            memory=memory.key("ada"), name=str(number), reflection=Reflection(0.5, maker)
        )
        window.commit(Observation("How is Ada?", Reply(Message("She is well."), importance=0.6)))
        (insight,) = of(window)
        assert insight.reply.content.content == text or "She is well" in str(insight.reply.content)
        assert str(insight.reply.scored_by).startswith(by)


def test_in_a_batch_the_sum_is_part_of_it(memory):
    """Given up, nothing has added up; committed, the insight is there with its sources."""
    settings = Reflection(1.0, seen)

    def commit(names, *, fails):
        with memory.key("ada").batch() as batch:
            window = Stream(memory=batch, reflection=settings)
            for name in names:
                window.commit(cycle(name, 0.6))
            if fails:
                raise KeyError

    with pytest.raises(KeyError):
        commit("AB", fails=True)
    commit("C", fails=False)
    window = Stream(memory=memory.key("ada"), reflection=settings)
    assert (names(window.observations()), said(window)) == (["C"], [])
    commit("DE", fails=False)
    assert said(window) == ["C+D"]
    window.commit(cycle("F", 0.6))
    assert said(window) == ["C+D", "E+F"]


def test_threads_reflect_once(memory):
    """However many commit at once: every observation is in one insight, or waits for the next."""
    window = Stream(None, memory=memory.key("ada"), reflection=Reflection(1.0, seen))

    def work(letter):
        for number in range(10):
            window.commit(cycle(f"{letter}{number}", 0.25))

    threads = [threading.Thread(target=work, args=(letter,)) for letter in "ABCD"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    window.commit(cycle("end", 1.0))
    used = [name for text in said(window) for name in text.split("+")]
    every = [f"{letter}{number}" for letter in "ABCD" for number in range(10)]
    assert sorted(used) == sorted([*every, "end"])


def committed_once(url, said_to_be_done):
    """Check that all that was committed is in one layer, and reflected on once."""
    with Memory.open(url, embedder="words") as opened:
        window = window_of(opened)
        window.commit(cycle("end", 1.0))
        layers = [names(layer) for layer in window.layers()]
        used = [name for text in said(window) for name in text.split("+")]
        window.purge()
    every = [name for layer in layers for name in layer if not name.startswith("What matters")]
    assert len(every) == len(set(every))
    assert set(said_to_be_done) <= set(every)
    assert sorted(used) == sorted(every)
    assert [len(layer) for layer in layers[:2]] == [4, 8]


def test_processes_reflect_once(tmp_path):
    """Three processes commit to one window: each observation is in one layer, and one insight."""
    url = str(tmp_path / "app.db")
    command = [sys.executable, str(WORKER), url]
    workers = [warm.Popen([*command, letter, "20"], stdout=subprocess.DEVNULL) for letter in "ABC"]
    for worker in workers:
        assert worker.wait(timeout=LIMIT_S) == 0
    committed_once(url, [f"{letter}{number}" for letter in "ABC" for number in range(20)])


def test_killed_between_layers(tmp_path):
    """Killed at any moment: what was committed is in one layer, and is reflected on once."""
    url = str(tmp_path / "app.db")
    for kill in range(max(3, COUNTS.kills // 10)):
        done: list[str] = []
        for name in ("A", "B", "C"):
            worker = warm.Popen(
                [sys.executable, str(WORKER), url, name], stdout=subprocess.PIPE, text=True
            )
            assert worker.stdout is not None
            first = 5 + (7 * kill + ord(name)) % 6
            done += [worker.stdout.readline().strip() for _ in range(first)]
            worker.kill()
            done += worker.stdout.read().split()
            worker.wait()
            worker.stdout.close()
        committed_once(url, done)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Reflection(0),
        lambda: Reflection(math.nan),
        lambda: Reflection(-1),
        lambda: Reflection(math.inf),
        lambda: Reflection(cast("Any", "1")),
        lambda: Reflection(1, cast("Any", "gpt")),
        lambda: Reflection(1, on_reflection=cast("Any", "print")),
        lambda: Reflection(1, question=cast("Any", None)),
        lambda: Reflection(1, max_tokens=0),
        lambda: Hybrid(reflection=cast("Any", 1.0)),
    ],
)
def test_settings_that_mean_nothing_are_refused(make):
    """Where a window is made, and not when it is used first."""
    with pytest.raises(InvalidInput):
        make()
