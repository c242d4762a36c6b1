"""Strategies of compaction, and plans that are checked before anything happens."""

from __future__ import annotations

import math
import tracemalloc
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alveus import CompactionPlan, Derived, Item, Memory, Merge, Summarize, Trim
from alveus.errors import AlveusError, InvalidPlan, SetFull
from alveus.llm import ScriptedChat
from alveus.sets.compaction.planning import alike
from alveus.testing import Clock
from compacting import loose, numbered, ticking, whole
from doors import texts


@pytest.fixture
def clock() -> Clock:
    return ticking()


@pytest.fixture
def embedder() -> str:
    return "static"


# --- plans ------------------------------------------------------------------------------------

BAD = [
    (None, "must be a CompactionPlan"),
    ({"retire": []}, "must be a CompactionPlan"),
    (CompactionPlan(retire="note 0"), "list of ids as its .retire"),
    (CompactionPlan(retire=loose([1])), "has a int among the ids"),
    (CompactionPlan(retire=["0", "0"]), "names item '0' twice"),
    (
        CompactionPlan(add=[Derived(["0", "1"], "a"), Derived(["1", "2"], "b")]),
        "names item '1' twice",
    ),
    (CompactionPlan(retire=["0"], add=[Derived(["0"], "a")]), "names item '0' twice"),
    (CompactionPlan(add=[Derived([], "a")]), "has no sources"),
    (CompactionPlan(add=[Derived(["0"], "  ")]), "has an empty text"),
    (CompactionPlan(add=[Derived(["0"], 7)]), "has an empty text"),
    (CompactionPlan(add=[Derived(["0"], {"text": 7})]), "has an empty text"),
    (CompactionPlan(add=loose(["a"])), "has a str as add"),
    (CompactionPlan(add=[Derived(["0", "1", "2"], object(), "a")]), "cannot be stored"),
    (
        CompactionPlan(add=[Derived(["0", "1", "2"], "a", metadata=loose(["a"]))]),
        "cannot be stored",
    ),
    (CompactionPlan(add=[Derived(["0", "1", "2"], "a", importance=7)]), "cannot be stored"),
    (CompactionPlan(add=[Derived(["0", "1", "2"], "a\ud800")]), "cannot be stored"),
]


@pytest.mark.parametrize(("bad", "says"), BAD)
def test_a_bad_plan_is_named_and_nothing_changes(ram: Memory, bad: object, says: str) -> None:
    """A plan is checked before anything happens."""

    def plan(items: Sequence[Item], capacity: int | None) -> CompactionPlan:
        return loose(bad)

    notes = ram.key("ada").set("n", capacity=3, compaction="reject")
    notes.redefine(capacity=5)
    notes.add_many([Item(f"note {n}", id=str(n)) for n in range(5)])
    notes.redefine(capacity=3)
    before = notes.list()
    with pytest.raises(InvalidPlan, match=says):
        notes.compact(plan)
    assert notes.list() == before


ANYTHING = st.recursive(
    st.none() | st.integers() | st.text(max_size=3) | st.sampled_from(["0", "1", "2"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=6,
)


@given(
    retire=ANYTHING,
    add=ANYTHING | st.lists(st.builds(Derived, ANYTHING, ANYTHING, ANYTHING, ANYTHING), max_size=3),
)
def test_no_hostile_plan_breaks_a_set(retire: object, add: object) -> None:
    """Whatever a plan is made of: it is carried out whole, or an error, and nothing changed."""
    with Memory.open(embedder="words") as memory:
        notes = memory.key("ada").set("n")
        notes.add_many([Item(f"note {n}", id=str(n)) for n in range(4)])
        before = notes.list()
        try:
            done = notes.compact(
                lambda _items, _capacity: CompactionPlan(loose(retire), loose(add))
            )
        except AlveusError:
            done = None
        if done is None:
            assert notes.list() == before
        else:
            left = {item.id for item in notes.list()}
            assert left == {"0", "1", "2", "3", *done.added} - set(done.retired)
            notes.undo(done.id)
            assert whole(notes.list()) == whole(before)


HOSTILE = [
    "", "not json", "[]", "{}", '{"summary": ""}', '{"summary": 7}', "x" * 100_000,
    '{"topics": [{"items": [99]}]}', '{"summary": "ok", "more": 1}', "null", '{"summary": null}',
]  # fmt: skip


@pytest.mark.parametrize("answer", HOSTILE)
def test_no_answer_of_a_model_harms_a_set(answer: str) -> None:
    """Whatever a model says, the sources are linked, and an undo brings them back."""
    model = ScriptedChat([answer] * 50)
    with Memory.open(embedder="static", model=model) as memory:
        notes = memory.key("ada").set("n")
        notes.add_many([f"On day {n} the ferry left at {n} o'clock." for n in range(9)])
        before = notes.list()
        done = notes.compact(Summarize(n=9, limit=3))
        assert done is not None
        made = [item for item in notes.list() if item.compacted]
        assert made
        assert all(item.text for item in made)
        assert {item.metadata["summarised_by"] for item in made} <= {
            "extractive",
            f"model:{model.name}",
        }
        notes.undo(done.id)
        assert whole(notes.list()) == whole(before)


def test_a_set_that_needs_its_model_waits_for_it() -> None:
    """With model="need" a failed model leaves the set as it was."""
    with Memory.open(embedder="static", model=ScriptedChat(["nonsense"] * 9)) as memory:
        notes = memory.key("ada").set("n")
        notes.add_many(numbered(5))
        with pytest.raises(AlveusError):
            notes.compact(Summarize(n=4, model="need"))
        assert texts(notes.list()) == numbered(5)


def test_a_summary_says_who_made_it() -> None:
    """A model's summary is named after it, and one without a model says that."""
    with Memory.open(
        embedder="static", model=ScriptedChat(['{"summary": "All by sea."}'])
    ) as memory:
        notes = memory.key("ada").set("n")
        notes.add_many([f"The ferry of day {n} left on time." for n in range(4)])
        notes.compact(Summarize(n=4))
        (summary,) = notes.list()
        assert summary.text == "All by sea."
        assert summary.metadata["summarised_by"].startswith("model:")
        assert notes.compactions()[0].notes["summaries"]
    with Memory.open(embedder="static") as memory:
        notes = memory.key("ada").set("n")
        notes.add_many(numbered(4))
        notes.compact(Summarize(n=4))
        assert notes.list()[0].metadata == {"summarised_by": "extractive"}


# --- strategies -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("by", "left"),
    [
        ("oldest", ["2", "3"]),
        ("importance", ["0", "2"]),
        ("accessed", ["0", "3"]),
        ("score", ["0", "3"]),
    ],
)
def test_trim_retires_what_it_says(memory: Memory, by: str, left: list[str]) -> None:
    """Oldest, least important, least recently used, or the lowest of a weighted score."""
    notes = memory.key("ada").set("n")
    importances = (0.9, 0.1, 0.5, 0.2)
    notes.add_many([Item(f"n {i}", id=str(i), importance=p) for i, p in enumerate(importances)])
    notes.get(["3", "0"])
    strategy = Trim(n=2, by=loose(by))
    if by == "score":
        strategy = Trim(n=2, by="score", importance=0, recency=0, half_life=timedelta(seconds=2))
    notes.compact(strategy)
    assert [item.id for item in notes.list()] == left


def test_topics_are_what_lies_together_by_meaning(memory: Memory) -> None:
    """Summaries stand for items that are alike, and one that is alone stays as it is."""
    notes = memory.key("ada").set("n")
    sea = [f"The ferry sails over the sea at {n} o'clock." for n in ("six", "seven", "eight")]
    tea = [f"Boil water and steep {n} tea leaves in the pot." for n in ("green", "black", "white")]
    notes.add_many([text for pair in zip(sea, tea, strict=True) for text in pair])
    notes.compact(Summarize(n=6, limit=2))
    made = notes.list()
    assert len(made) == 2
    sources = [{item.text for item in notes.sources(str(item.id))} for item in made]
    assert sources == [set(sea), set(tea)]


def test_merge_makes_one_of_near_duplicates(memory: Memory) -> None:
    """The best text stays, all sources are linked, and what is not alike stays alone."""
    notes = memory.key("ada").set("n")
    notes.add("Prefers window seats.", metadata={"from": "a"})
    notes.add("prefers  WINDOW seats.", importance=0.5, metadata={"from": "b"}, speaker="Ada")
    notes.add("Drinks tea.")
    notes.compact(Merge())
    merged, other = notes.list()
    assert (merged.text, merged.metadata) == ("prefers  WINDOW seats.", {"from": "b"})
    assert (merged.importance, merged.speaker, merged.compacted) == (0.5, None, True)
    assert len(notes.sources(str(merged.id))) == 2
    assert not other.compacted
    assert notes.compact(Merge()) is None


def test_labels_stay_where_all_agree(memory: Memory) -> None:
    """Importance is the highest; role, session and speaker stay only if all have the same."""
    notes = memory.key("ada").set("n")
    notes.add("one", importance=0.2, role="user", session="a", speaker="Ada")
    notes.add("two", importance=0.7, role="user", session="b", speaker="Ada")
    notes.compact(Summarize(n=2))
    (made,) = notes.list()
    assert (made.importance, made.role, made.session, made.speaker) == (0.7, "user", None, "Ada")


def test_capacities_in_tokens_and_bytes_hold(memory: Memory) -> None:
    """A set can be bounded by tokens or bytes, and an add makes room for what it brings."""
    for name, capacity in (("t", {"capacity_tokens": 60}), ("b", {"capacity_bytes": 200})):
        notes = memory.key("ada").set(
            name, compaction=Trim(n=1), execution="sync", **loose(capacity)
        )
        for text in numbered(30):
            notes.add(text)
        left = texts(notes.list())
        assert left == numbered(30)[-len(left) :]
        assert 3 < len(left) < 30
    with pytest.raises(SetFull, match="200 bytes"):
        memory.key("ada").set("b").add("x" * 300)


def since(year: int) -> datetime:
    return datetime(year, 1, 1, tzinfo=UTC)


def perhaps(year: int | None) -> datetime | None:
    return None if year is None else since(year)


def test_what_ended_to_hold_is_not_summed_up_with_what_holds(memory: Memory) -> None:
    """A search finds in a summary what holds, and with valid_at= what held; undo gives all back."""
    facts = memory.key("ada").set("facts")
    facts.add("Ada lives in Oslo.", id="0", valid_from=since(2000))
    for number, place in enumerate(("Lisbon", "Porto", "Rome", "Bern"), 1):
        at = since(2000 + number)
        facts.supersede(str(number - 1), f"Ada lives in {place}.", at=at, new_id=str(number))
    facts.add_many(["Ada likes tea.", "Ada has a cat."])
    before = facts.list()
    ended = facts.compact(Summarize(n=3))
    holding = facts.compact(Summarize(n=5))
    assert ended is not None
    assert holding is not None
    assert ended.retired == ("0", "1", "2")
    assert [(item.valid_from, item.valid_to) for item in facts.list()] == [
        (since(2000), since(2003)),
        (since(2003), since(2004)),
        (since(2004), None),
    ]
    (now,) = facts.search("where does Ada live")
    assert now.item.id == holding.added[0]
    assert "Bern" in str(now.item.text)
    assert "Rome" not in str(now.item.text)
    (then,) = facts.search("where does Ada live", valid_at=since(2001))
    assert then.item.id == ended.added[0]
    facts.undo(holding.id)
    facts.undo(ended.id)
    assert whole(facts.list()) == whole(before)


def test_what_begins_or_ends_later_is_left_alone_by_summaries(memory: Memory) -> None:
    """It would go on holding in a summary, or hold too soon."""
    notes = memory.key("ada").set("n")
    notes.add("An offer.", valid_to=since(2100))
    notes.add("A rule to come.", valid_from=since(2100))
    notes.add_many(numbered(3))
    notes.compact(Summarize(n=5))
    made, *left = notes.list()
    assert not made.compacted or len(made.sources) == 3
    assert {"An offer.", "A rule to come."} <= set(texts([made, *left]))
    assert len(notes) == 3


def test_few_of_one_kind_do_not_keep_the_others_from_being_summed_up(memory: Memory) -> None:
    """If most of the oldest ended to hold, and are too few, those that hold are taken."""
    notes = memory.key("ada").set("n")
    for text in numbered(3):
        notes.add(text, valid_to=since(2001), time=since(2000))
    notes.add_many(numbered(6, 3))
    done = notes.compact(Summarize(n=4, limit=3))
    assert done is not None
    assert not set(texts(notes.list())[:3]) - set(numbered(3))


@pytest.mark.parametrize(
    ("spans", "expected"),
    [
        ([(2000, None), (2001, None)], (2001, None)),
        ([(2000, 2003), (2001, 2004)], (2001, 2003)),
        ([(2000, 2001), (2001, 2004)], (2000, 2004)),
        ([(2000, 2001), (2001, None)], (2000, None)),
        ([(None, 2001), (2001, 2002)], (None, 2002)),
        ([(None, None), (2001, 2002)], (2001, 2002)),
        ([(2001, 2002), (2001, 2002)], (2001, 2002)),
    ],
)
def test_what_stands_for_others_holds_while_all_of_them_do(
    memory: Memory,
    spans: list[tuple[int | None, int | None]],
    expected: tuple[int | None, int | None],
) -> None:
    """If they never held together, it holds from the first of them to the last."""
    notes = memory.key("ada").set("n")
    ids = [
        notes.add("a fact", valid_from=perhaps(begin), valid_to=perhaps(end))
        for begin, end in spans
    ]
    notes.compact(lambda items, capacity: CompactionPlan(add=[Derived(ids, "All of it.")]))
    (made,) = notes.list()
    begin, end = expected
    assert (made.valid_from, made.valid_to) == (perhaps(begin), perhaps(end))


def test_very_many_that_say_the_same_are_merged_in_little_memory() -> None:
    """What is found to be led by another is not compared with the rest: no square of pairs."""
    count = 4_000
    rows = np.full((count, 16), 0.25, dtype=np.float32)
    tracemalloc.start()
    try:
        groups = alike(rows, numbered(count), [None] * count, 0.95)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert groups == [list(range(count))]
    assert peak < 20_000_000


def test_nearly_the_same_is_led_by_the_first_that_leads() -> None:
    """Across and within the blocks that are compared at once, and only among one kind."""
    angles = [0.0, 0.2, 0.4, 1.5] * 100
    rows = np.array([[math.cos(a), math.sin(a)] for a in angles], dtype=np.float32)
    kinds = ["one"] * 396 + ["other"] * 4
    groups = alike(rows, numbered(len(angles)), kinds, math.cos(0.25))
    by_angle = [[at for at in range(396) if angles[at] in near] for near in ((0, 0.2), (0.4,))]
    assert groups[:2] == by_angle
    assert groups[2] == [at for at in range(396) if angles[at] > 1]
    assert groups[3] == [396, 397]
