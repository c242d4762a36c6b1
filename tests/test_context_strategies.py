"""Hybrid, Semantic, Hierarchical and Linked: each against what it says, and a model of it."""

from __future__ import annotations

import math
import threading
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alveus import Memory
from alveus.agents.windows import (
    Hierarchical,
    Hybrid,
    Input,
    Layer,
    Linked,
    Observation,
    Reply,
    Semantic,
    Stamp,
)
from alveus.errors import BudgetTooSmall, EmbedderFailed, InvalidInput, NotFound
from alveus.text.budget import Budget
from alveus.text.messages import Message


class Letters:
    """An embedder by which texts of one first letter are alike; it fails when it is told to."""

    name, dimensions, instant = "letters", 26, True

    def __init__(self):
        self.fails: Exception | None = None
        self.asked = 0

    def embed(self, texts):
        if self.fails is not None:
            raise self.fails
        self.asked += len(texts)
        codes = np.array([ord((text or " ")[0].upper()) for text in texts])
        return (codes[:, None] == np.arange(65, 91)).astype(np.float32)


WINDOWS = {
    "hybrid": lambda **k: Hybrid(5, keep_recent=3, **k),
    "semantic": lambda **k: Semantic(top_k=3, cap=8, embedder=Letters(), **k),
    "searching": lambda **k: Semantic(top_k=3, cap=8, **k),
    "hierarchical": lambda **k: Hierarchical(
        Layer(2, 30), Layer(3, evict="least important"), 4, **k
    ),
    "linked": lambda **k: Linked(top_k=2, cap=8, hops=2, embedder=Letters(), **k),
}


def cycle(name, importance=0.0, **kwargs):
    reply = Reply(Message(name.lower(), "assistant"), importance=importance)
    return Observation(name, reply, **kwargs)


def names(observations):
    return [one.query.content.content for one in observations]


def shown(window, prompt: str | None = "p", **kwargs):
    return [m.content for m in window.context(prompt, **kwargs) if m.role != "assistant"]


def filled(window, texts):
    made = [cycle(text) for text in texts]
    for one in made:
        window.commit(one)
    return made


@pytest.fixture
def memory():
    with Memory.open(embedder="static") as opened:
        yield opened


# --- laws of every window ---------------------------------------------------------------------


@st.composite
def conversations(draw):
    """Observations of random sizes, importance and order, some of which answer a tool call."""
    made: list[Observation] = []
    calls: list[str] = []
    for number in range(draw(st.integers(1, 14))):
        call = f"call{number}" if draw(st.booleans()) else None
        answers = (calls.pop(),) if calls and draw(st.booleans()) else ()
        letter = draw(st.sampled_from("ABCXYZ"))
        asked = Message(
            f"{letter}{number} " + "word " * draw(st.integers(0, 9)),
            "tool" if answers else "user",
            answers=answers,
        )
        said = Message("r " * draw(st.integers(0, 9)), "assistant", calls=(call,) if call else ())
        if call:
            calls.append(call)
        links = (made[draw(st.integers(0, number - 1))].created,) if number else ()
        importance = draw(st.sampled_from([0.0, 0.3, 0.5, 0.6, 1.0]))
        made.append(
            Observation(asked, Reply(said, None, importance), links=links, created=Stamp.new())
        )
    return draw(st.permutations(made))


@pytest.mark.parametrize("kind", WINDOWS)
@given(observations=conversations(), tokens=st.integers(5, 120), with_prompt=st.booleans())
def test_a_context_keeps_to_its_budget(kind, observations, tokens, with_prompt):
    """Never over budget, the prompt last, in order, units whole, the newest if there is room."""
    with Memory.open(embedder="static") as opened:
        window = WINDOWS[kind](stratum="Be brief.", memory=opened.key("ada"))
        gone: list[str] = []
        for one in observations:
            gone += [str(old.created) for old in window.commit(one)]
        held = window.observations()
        kept = [str(one.created) for one in held]
        assert sorted(gone + kept) == sorted(str(one.created) for one in observations)
        prompt = "A question" if with_prompt else None
        budget = Budget(tokens)
        fixed = [Message.stratum("Be brief."), *([Message(prompt)] if prompt else [])]
        if budget.size(fixed) > tokens:
            with pytest.raises(BudgetTooSmall):
                window.context(prompt, budget_tokens=tokens)
            return
        found = window.context(prompt, budget_tokens=tokens)
    assert budget.size(found) <= tokens
    assert found[0] == fixed[0]
    assert not prompt or found[-1] == fixed[1]
    middle = found[1:-1] if prompt else found[1:]
    told = [(query, reply) for query, reply in zip(middle[::2], middle[1::2], strict=True)]
    order = [str(one.created) for one in held if one.messages in told]
    assert [one.messages for one in held if str(one.created) in order] == told
    assert order == sorted(order)
    for unit in units(held):
        assert len({str(one.created) in order for one in unit}) == 1
    newest = next(unit for unit in units(held) if held[-1] in unit)
    if budget.size([m for one in newest for m in one.messages]) + budget.size(fixed) <= tokens:
        assert held[-1].messages in told


def units(held):
    """Observations that belong together by their calls; *held* is in order of time."""
    found: list[list[Observation]] = []
    for one in held:
        joined = [
            unit
            for unit in found
            if any(
                set(other.reply.content.calls) & set(one.query.content.answers) for other in unit
            )
        ]
        found = [unit for unit in found if unit not in joined]
        found.append([o for unit in joined for o in unit] + [one])
    return found


@pytest.mark.parametrize("kind", WINDOWS)
def test_an_empty_window_shows_what_is_fixed(kind, memory):
    """Nothing was committed: the stratum and the prompt, or nothing; purge changes nothing."""
    window = WINDOWS[kind](stratum="s", memory=memory.key("ada"))
    assert [m.content for m in window.context("p")] == ["s", "p"]
    assert WINDOWS[kind](name="x", memory=memory.key("ada")).context(None) == []
    window.purge()
    assert len(window) == 0
    assert memory.key("ada").sets() == []


@pytest.mark.parametrize("kind", WINDOWS)
@pytest.mark.parametrize("prompt", ["", "   ", "?!", "x" * 100_000, "\U0001f600\0"])
def test_any_prompt_will_do(kind, prompt, memory):
    """Blank, without words, very long: the newest is shown, and the prompt."""
    window = WINDOWS[kind](memory=memory.key("ada"))
    filled(window, ["A", "B"])
    found = window.context(prompt)
    assert found[-1].content == prompt
    assert found[-3].content == "B"


@pytest.mark.parametrize("kind", WINDOWS)
def test_a_window_is_there_after_a_restart(kind, tmp_path):
    """What it holds, its order, vectors, links and layers are in the file."""
    url = str(tmp_path / "app.db")
    with Memory.open(url, embedder="static") as opened:
        window = WINDOWS[kind](memory=opened.key("ada"))
        made = filled(window, ["Apple", "Bean", "Cake", "Apricot", "Dill"])
        if isinstance(window, Linked):
            window.link(made[1], made[3])
        opened.settle()
        before = [shown(window, prompt) for prompt in ("Ananas", "Dates", None)]
    with Memory.open(url, embedder="static") as opened:
        window = WINDOWS[kind](memory=opened.key("ada"))
        assert [shown(window, prompt) for prompt in ("Ananas", "Dates", None)] == before
        assert names(window.observations())[-1] == "Dill"


@pytest.mark.parametrize("kind", WINDOWS)
def test_a_batch_is_all_or_nothing(kind, memory):
    """In a batch a window sees what it committed there; given up, nothing of it was done."""
    window = WINDOWS[kind](memory=memory.key("ada"))
    filled(window, ["A", "B", "C"])
    before = names(window.observations())

    def give_up():
        with memory.key("ada").batch() as batch:
            inside = WINDOWS[kind](memory=batch)
            filled(inside, ["D", "E", "F", "G"])
            assert shown(inside, "D")[-2:] == ["G", "D"]
            raise KeyError

    with pytest.raises(KeyError):
        give_up()
    assert names(window.observations()) == before
    with memory.key("ada").batch() as batch:
        filled(WINDOWS[kind](memory=batch), ["D"])
    assert names(window.observations())[-1] == "D"
    assert shown(window, "D")[-2:] == ["D", "D"]


@pytest.mark.parametrize("kind", WINDOWS)
def test_threads_share_a_window(kind, memory):
    """Each observation is held or was let go, once, whoever committed it; contexts stay whole."""
    window = WINDOWS[kind](memory=memory.key("ada"))
    gone: list[str] = []
    failed: list[BaseException] = []

    def work(letter):
        try:
            for number in range(12):
                gone.extend(names(window.commit(cycle(f"{letter}{number}", 0.6))))
                found = window.context(letter)
                pairs = list(zip(found[:-1:2], found[1:-1:2], strict=True))
                assert all(q.content.lower() == r.content for q, r in pairs)
        except BaseException as error:  # noqa: BLE001 - of a thread, told below
            failed.append(error)

    threads = [threading.Thread(target=work, args=(letter,)) for letter in "ABCD"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    every = sorted(f"{letter}{number}" for letter in "ABCD" for number in range(12))
    assert sorted(gone + names(window.observations())) == every


# --- hybrid -----------------------------------------------------------------------------------


@given(
    st.lists(st.sampled_from([0.0, 0.4, 0.5, 0.6, 0.9]), max_size=20),
    st.integers(1, 3),
    st.integers(0, 3),
)
def test_hybrid_keeps_recent_and_important(importance, recent, important):
    """The newest, and of the others those above the threshold: the best, of equals the newest."""
    window = Hybrid(recent + important, keep_recent=recent)
    model: list[tuple[float, int]] = []
    for number, value in enumerate(importance):
        gone = window.commit(cycle(str(number), value))
        model.append((value, number))
        newest, older = model[-recent:], model[:-recent]
        stay = sorted((one for one in older if one[0] > 0.5), reverse=True)[:important]
        left = [one for one in model if one not in [*newest, *stay]]
        model = sorted([*newest, *stay], key=lambda one: one[1])
        assert names(gone) == [str(number) for _, number in left]
        assert names(window.observations()) == [str(number) for _, number in model]


def test_recent_and_important_take_turns():
    """Where there is no room for all: the newest, the most important, the next newest, …"""
    window = Hybrid(keep_recent=3)
    for name, importance in (("A", 0.6), ("B", 0.9), ("C", 0.7), ("D", 0), ("E", 0), ("F", 0)):
        window.commit(cycle(name, importance))
    budget = Budget(1, counter=lambda text: 1, message_tokens=0)
    rooms = [
        shown(window, None, budget_tokens=Budget(2 * n, budget.counter, 0)) for n in range(1, 7)
    ]
    assert rooms == [
        ["F"], ["B", "F"], ["B", "E", "F"], ["B", "C", "E", "F"], ["B", "C", "D", "E", "F"],
        ["A", "B", "C", "D", "E", "F"],
    ]  # fmt: skip


# --- semantic ---------------------------------------------------------------------------------


def test_the_nearer_side_counts():
    """What was asked and what was answered are compared each for itself."""
    window = Semantic(top_k=1, embedder=Letters())
    for query, reply in (("Apple", "Xenon"), ("Xerxes", "Bean"), ("Cake", "Cake"), ("Z", "Z")):
        window.commit(Observation(query, reply))
    assert shown(window, "Apricot") == ["Apple", "Z", "Apricot"]
    assert shown(window, "Beet") == ["Xerxes", "Z", "Beet"]


def test_relevance_that_is_assigned_is_used():
    """A vector that an observation brings is not made again, and is kept."""
    embedder = Letters()
    window = Semantic(top_k=1, embedder=embedder)
    (like_q,) = embedder.embed(["Q"])
    given = Observation(
        Input(Message("Apple"), like_q), Reply(Message("Bean", "assistant"), like_q)
    )
    embedder.asked = 0
    window.commit(given)
    assert embedder.asked == 0
    filled(window, ["Cake", "Z"])
    assert shown(window, "Quince") == ["Apple", "Z", "Quince"]
    kept = window.observations()[0]
    for vector in (kept.query.relevance, kept.reply.relevance):
        assert vector is not None
        np.testing.assert_allclose(vector, like_q, atol=1e-6)


def test_an_embedder_that_fails_loses_nothing(caplog):
    """The observation is kept without vectors, which are made when the embedder is back."""
    embedder = Letters()
    window = Semantic(top_k=1, embedder=embedder)
    embedder.fails = ConnectionError("no route to host")
    filled(window, ["Apple", "Bean", "Z"])
    assert "without vectors" in caplog.text
    with pytest.raises(EmbedderFailed, match="no route to host"):
        window.context("Apricot")
    assert shown(window, None) == ["Bean", "Z"]
    embedder.fails = None
    assert shown(window, "Apricot") == ["Apple", "Z", "Apricot"]
    asked = embedder.asked
    assert shown(window, "Apricot") == ["Apple", "Z", "Apricot"]
    assert embedder.asked == asked


def test_relevance_may_be_a_list():
    """Whatever NumPy makes a row of is a vector."""
    window = Semantic(top_k=1, embedder=Letters())
    row = cast("Any", [1.0] + [0.0] * 25)
    window.commit(Observation(Input(Message("Quince"), row), "q"))
    filled(window, ["Bean", "Z"])
    assert shown(window, "Apple") == ["Quince", "Z", "Apple"]


@pytest.mark.parametrize("kind", WINDOWS)
def test_a_scorer_that_raises_changes_nothing(kind, memory):
    """Its fault is raised as it is, and what was to be committed is not."""

    def scorer(observation):
        raise ZeroDivisionError

    window = WINDOWS[kind](memory=memory.key("ada"), scorer=scorer)
    with pytest.raises(ZeroDivisionError):
        window.commit(cycle("A"))
    assert len(window) == 0


@pytest.mark.parametrize(
    "vector", [np.ones(3), np.full(26, np.nan), np.full(26, np.inf), np.ones((1, 26)), "x" * 26, []]
)
def test_relevance_that_cannot_be_compared_is_refused(vector):
    """Another width, NaN, another shape: refused where it is committed, and nothing is kept."""
    window = Semantic(embedder=Letters())
    given = Observation(Input(Message("A"), cast("Any", vector)), "a")
    with pytest.raises(InvalidInput, match="relevance"):
        window.commit(given)
    assert len(window) == 0


def test_relevance_without_an_embedder_is_refused():
    """Nobody could compare it: it would be kept for nothing, and nobody would know."""
    window = Semantic()
    with pytest.raises(InvalidInput, match="embedder="):
        window.commit(Observation(Input(Message("A"), np.ones(3, np.float32)), "a"))


def test_vectors_of_another_embedder_are_refused(memory):
    """They cannot be compared; the error says whose they are."""
    filled(Semantic(embedder=Letters(), memory=memory.key("ada")), ["A"])
    window = Semantic(embedder="static", memory=memory.key("ada"))
    with pytest.raises(InvalidInput, match="'letters'"):
        window.context("A")


def test_search_finds_by_words_and_meaning(memory):
    """Without an embedder of its own a window has the set's search."""
    window = Semantic(top_k=1, memory=memory.key("ada"))
    for query, reply in (
        ("What do I drink?", "Green tea."),
        ("Where do I live?", "In Lisbon."),
        ("And now?", "Now it rains."),
    ):
        window.commit(Observation(query, reply))
    assert shown(window, "which beverage?")[0] == "What do I drink?"
    assert shown(window, "Lisbon")[0] == "Where do I live?"


def test_a_blank_observation_has_no_meaning():
    """Nothing to read: it is near nothing, and shown where there is nothing better."""
    window = Semantic(top_k=1, embedder="static")
    for text in ("", "green tea", "rain"):
        window.commit(Observation(text, ""))
    assert shown(window, "which tea?") == ["green tea", "rain", "which tea?"]


# --- hierarchical -----------------------------------------------------------------------------


@given(
    st.lists(st.sampled_from([0.1, 0.5, 0.9]), max_size=25),
    st.lists(
        st.tuples(st.integers(1, 3), st.sampled_from(["oldest", "least important"])),
        min_size=1,
        max_size=4,
    ),
)
def test_layers_hand_on(importance, layers):
    """What is too much in a layer goes to the next, in the order that the layer says."""
    window = Hierarchical(*(Layer(cap, evict=cast("Any", evict)) for cap, evict in layers))
    model: list[list[tuple[float, int]]] = [[] for _ in layers]
    for number, value in enumerate(importance):
        gone = window.commit(cycle(str(number), value))
        moving: list[tuple[float, int]] = [(value, number)]
        for held, (cap, evict) in zip(model, layers, strict=True):
            held.extend(moving)
            moving = []
            while len(held) > cap:
                free = [one for one in held if one[1] != number]
                key = (lambda one: one) if evict == "least important" else (lambda one: one[1])
                victim = min(free, key=key)
                held.remove(victim)
                moving.append(victim)
        assert names(gone) == [str(number) for _, number in moving]
        found = [names(layer) for layer in window.layers()]
        assert found == [[str(n) for _, n in sorted(held, key=lambda o: o[1])] for held in model]


def test_each_layer_has_a_budget():
    """A layer takes no more than its own, the window no more than all of its."""
    counter = Budget(8, lambda text: 1, 0)
    window = Hierarchical(Layer(3, 4), Layer(3, 2), budget_tokens=counter)
    filled(window, "ABCDEF")
    assert shown(window, None) == ["C", "E", "F"]
    assert shown(window, "p", budget_tokens=Budget(3, lambda text: 1, 0)) == ["F", "p"]
    wide = Hierarchical(Layer(3, 4), Layer(3), budget_tokens=Budget(100, lambda text: 1, 0))
    filled(wide, "ABCDEF")
    assert shown(wide, None) == ["A", "B", "C", "E", "F"]
    free = Hierarchical(Layer(3, 4), Layer(3, 4))
    filled(free, "ABCDEF")
    assert shown(free, None) == ["F"]  # each message has more tokens than the others' one


def test_a_call_and_its_answer_move_together():
    """An answer that comes late brings its call back to the first layer; both leave together."""
    window = Hierarchical(1, 1)
    call = Observation("what time?", Message("", "assistant", calls=("c",)))
    window.commit(call)
    window.commit(cycle("B"))
    assert [names(layer) for layer in window.layers()] == [["B"], ["what time?"]]
    window.commit(Observation(Message("noon", "tool", answers=("c",)), "It is noon."))
    assert [names(layer) for layer in window.layers()] == [["what time?", "noon"], ["B"]]
    assert names(window.commit(cycle("C"))) == ["B"]
    assert [names(layer) for layer in window.layers()] == [["C"], ["what time?", "noon"]]
    assert names(window.commit(cycle("D"))) == ["what time?", "noon"]


def test_fewer_layers_than_before(memory):
    """Opened with fewer, the last layer has what the others had, and lets go what is too much."""
    filled(Hierarchical(1, 1, 2, memory=memory.key("ada")), "ABCD")
    window = Hierarchical(1, 1, memory=memory.key("ada"))
    assert [names(layer) for layer in window.layers()] == [["D"], ["A", "B", "C"]]
    assert names(window.commit(cycle("E"))) == ["A", "B", "C"]


def test_layers_of_one_kind_are_two():
    """The same layer twice is two layers of that size."""
    layer = Layer(1)
    window = Hierarchical(layer, layer)
    filled(window, "ABC")
    assert [names(one) for one in window.layers()] == [["C"], ["B"]]


# --- links ------------------------------------------------------------------------------------


@pytest.fixture
def linked(memory):
    return Linked(top_k=1, memory=memory.key("ada"), embedder=Letters(), hops=2)


def test_links_go_both_ways_and_in_circles(linked):
    """A, B and C in a circle, D beyond: two hops from A are B, C and D, from E nobody."""
    a, b, c, d, _, _ = filled(linked, "ABCDEZ")
    for first, second in ((a, b), (b, c), (c, a), (c, d)):
        linked.link(first, second)
    assert shown(linked, "A") == [*"ABCDZ", "A"]
    assert shown(linked, "D") == [*"ABCDZ", "D"]
    assert shown(linked, "E") == [*"EZ", "E"]
    assert linked.links(b) == {a.created: "related", c.created: "related"}


def test_links_that_an_observation_brings(linked):
    """They are followed from both ends; what is not held leads nowhere."""
    a, _ = filled(linked, "AB")
    unknown = Stamp.new()
    linked.commit(cycle("C", links=(a.created, unknown)))
    filled(linked, "Z")
    assert shown(linked, "C") == [*"ACZ", "C"]
    assert shown(linked, "A") == [*"ACZ", "A"]
    assert list(linked.links(a.created).values()) == ["related"]


def test_links_to_the_forgotten_lead_nowhere(linked, memory):
    """Forgotten for good, an observation is no way between others."""
    a, b, c, _ = filled(linked, "ABCZ")
    linked.link(a, b)
    linked.link(b, c)
    assert shown(linked, "A") == [*"ABCZ", "A"]
    memory.key("ada").set("linked").forget([str(b.created)])
    assert shown(linked, "A") == [*"AZ", "A"]
    assert linked.links(a) == {}
    for call in (linked.link, linked.unlink):
        with pytest.raises(NotFound, match="has no observation"):
            call(a, b)
    with pytest.raises(NotFound):
        linked.links(b)


def test_kinds_of_links(memory):
    """A link has a kind, which may change; a window may follow some kinds only."""
    window = Linked(top_k=1, memory=memory.key("ada"), embedder=Letters(), follow=["caused"])
    a, b, c, _ = filled(window, "ABCZ")
    window.link(a, b, "caused")
    window.link(a, c, "before")
    assert shown(window, "A") == [*"ABZ", "A"]
    window.link(c, a, "caused")
    assert window.links(a) == {b.created: "caused", c.created: "caused"}
    assert shown(window, "A") == [*"ABCZ", "A"]
    window.link(b, a)
    window.unlink(c, a)
    window.unlink(c, a)
    assert window.links(a) == {b.created: "related"}
    assert shown(window, "A") == [*"AZ", "A"]


def test_the_best_links_are_shown_first(memory):
    """No more than are asked for: those nearest to a hit, of equals the newest."""
    window = Linked(top_k=1, memory=memory.key("ada"), embedder=Letters(), hops=2, linked=2)
    a, *others, _ = filled(window, "ABCDZ")
    for one in others:
        window.link(a, one)
    assert shown(window, "A") == [*"ACDZ", "A"]
    none = Linked(top_k=1, memory=memory.key("ada"), embedder=Letters(), decay=0)
    assert shown(none, "A") == [*"AZ", "A"]


def test_an_observation_is_not_linked_to_itself(linked):
    """It would be a circle of one; nor to what is no id."""
    (a,) = filled(linked, "A")
    with pytest.raises(InvalidInput, match="itself"):
        linked.link(a, a)
    with pytest.raises(InvalidInput, match="stamp"):
        linked.link(a, cast("Any", "b"))
    for kind in ("", None, "\ud800"):
        with pytest.raises(InvalidInput):
            linked.link(a, a, cast("Any", kind))
    linked.commit(cycle("B", links=(a.created, a.created)))
    assert len(linked.links(a)) == 1


# --- settings ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make",
    [
        lambda: Hybrid(0),
        lambda: Hybrid(cast("Any", 1.5)),
        lambda: Hybrid(2, threshold=math.nan),
        lambda: Hybrid(2, threshold=1.5),
        lambda: Hybrid(2, keep_recent=-1),
        lambda: Hybrid(2, keep_recent=3),
        lambda: Hybrid(profile="thinker"),
        lambda: Hierarchical(2, evict="oldest"),
        lambda: Linked(profile="thinker"),
        lambda: Semantic(top_k=0),
        lambda: Semantic(top_k=201),
        lambda: Semantic(embedder="words"),
        lambda: Semantic(embedder="none"),
        lambda: Semantic(embedder=cast("Any", 3)),
        lambda: Semantic(cap=0),
        Hierarchical,
        lambda: Hierarchical(0),
        lambda: Hierarchical(cast("Any", "4")),
        lambda: Hierarchical(2, keep_recent=3),
        lambda: Layer(0),
        lambda: Layer(1, 0),
        lambda: Layer(1, evict=cast("Any", "newest")),
        lambda: Linked(hops=-1),
        lambda: Linked(hops=11),
        lambda: Linked(decay=math.nan),
        lambda: Linked(decay=1.1),
        lambda: Linked(linked=-1),
        lambda: Linked(follow="caused"),
        lambda: Linked(follow=[cast("Any", 1)]),
    ],
)
def test_settings_that_mean_nothing_are_refused(make):
    """Where a window is made, and not when it is used first."""
    with pytest.raises(InvalidInput):
        make()
