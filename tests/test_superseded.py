"""What is current stands before what is outdated: in every store, at every size of set."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from alveus import Item, Memory
from alveus.errors import InvalidInput
from alveus.memory.keys import KeyMemory
from alveus.memory.memory_tools import memory_tools
from alveus.search.superseded import CURRENT, candidates
from postgres_server import url_for

DAY = datetime(2026, 1, 1, tzinfo=UTC)
LISBON, PORTO, FARO = "I live in Lisbon.", "I live in Porto.", "I live in Faro."
WHERE = "Where do I live?"
STORES = ["ram", "file", pytest.param("postgres", marks=pytest.mark.server)]


@pytest.fixture(params=STORES)
def memory(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Memory]:
    """A memory on each store."""
    urls: dict[str, str | Path] = {"ram": ":memory:", "file": tmp_path / "a.db"}
    url = urls.get(request.param) or url_for(tmp_path)
    with Memory.open(url, embedder="words") as memory:
        yield memory


@pytest.fixture
def ada(memory: Memory) -> KeyMemory:
    """A key."""
    return memory.key("ada")


def on(day: int, text: str, **fields: Any) -> Item:
    """An item of a day."""
    return Item(text, time=DAY + timedelta(days=day), **fields)


def texts(found: Sequence[Any]) -> list[str]:
    """The texts of hits or of items."""
    return [one.item.text if hasattr(one, "item") else one.text for one in found]


def test_the_latest_stands_first_and_has_the_others(ada: KeyMemory) -> None:
    """By the time of the items, whenever they were added; the parts say what it gained."""
    ada.add_many([on(2, PORTO), on(3, FARO), on(1, LISBON), on(4, "I live music.")])
    hits = ada.search(WHERE)
    assert texts(hits)[0] == FARO
    assert texts(hits[0].supersedes) == [PORTO, LISBON]
    assert not {PORTO, LISBON} & {*texts(hits)}
    for hit in hits:
        assert sum(hit.parts.values()) == pytest.approx(hit.score)
        assert hit.parts.get(CURRENT, 0.0) >= 0
    scores = [hit.score for hit in hits]
    assert scores == sorted(scores, reverse=True)


def test_items_of_one_time_are_in_the_order_of_their_adding(ada: KeyMemory) -> None:
    """The time of an item decides, and then the commit."""
    for text in (PORTO, LISBON):
        ada.add(on(1, text))
    assert texts(ada.search(WHERE)) == [LISBON]


def test_what_is_shown_follows_and_what_is_hidden_is_nowhere(ada: KeyMemory) -> None:
    """Each value of `superseded`; with a limit, the latest takes the place of the earlier."""
    ada.add_many([on(1, LISBON), on(2, PORTO), on(0, "The live show was good.")])
    shown = ada.search(WHERE, superseded="show")
    assert texts(shown)[:2] == [PORTO, LISBON]
    assert {*texts(shown)} == {*texts(ada.search(WHERE, valid_at="any"))}
    hidden = ada.search(WHERE, superseded="hide")
    assert texts(hidden)[0] == PORTO
    assert LISBON not in texts(hidden)
    assert all(hit.supersedes == () for hit in (*shown, *hidden))
    assert texts(ada.search(WHERE, limit=1)) == [PORTO]
    assert texts(ada.set("default").search(WHERE, superseded="hide", limit=1)) == [PORTO]


def test_the_past_is_as_it_was(ada: KeyMemory) -> None:
    """A later item replaces nothing at an earlier time, by either clock; at any time, nothing."""
    ada.add(on(1, LISBON))
    ada.add(on(9, PORTO))
    assert texts(ada.search(WHERE, as_of=1)) == [LISBON]
    then = ada.search(WHERE, valid_at=DAY + timedelta(days=5))
    assert texts(then[0].supersedes) == []
    assert {*texts(then)} == {LISBON, PORTO}
    assert texts(ada.search(WHERE, valid_at=DAY + timedelta(days=9))) == [PORTO]
    assert {*texts(ada.search(WHERE, valid_at="any"))} == {LISBON, PORTO}


def test_an_item_of_the_future_replaces_nothing(ada: KeyMemory) -> None:
    """It is not so yet."""
    ada.add_many([on(1, LISBON), Item(PORTO, time=datetime.now(UTC) + timedelta(days=90))])
    assert {*texts(ada.search(WHERE))} == {LISBON, PORTO}


def test_the_latest_is_found_behind_the_limit(ada: KeyMemory) -> None:
    """Among more hits than are returned."""
    ada.add_many([on(1, LISBON), *[on(1, "Live!")] * (candidates(2) - 2), on(2, PORTO)])
    plain = texts(ada.search("live in Lisbon", limit=30, valid_at="any"))
    assert (plain[0], plain[-1]) == (LISBON, PORTO)
    hits = ada.search("live in Lisbon", limit=2)
    assert texts(hits) == [PORTO, "Live!"]
    assert texts(hits[0].supersedes) == [LISBON]


def test_items_of_others_are_not_compared(ada: KeyMemory) -> None:
    """Of other speakers, other sets, or with other words in their metadata."""
    ada.add_many([on(1, LISBON, speaker="Ben"), on(2, PORTO, speaker="Kim")])
    assert {*texts(ada.search(WHERE))} == {LISBON, PORTO}
    tea = ada.set("tea")
    tea.add_many([on(1, LISBON, role="user"), on(2, PORTO, role="assistant")])
    assert {*texts(tea.search(WHERE))} == {LISBON, PORTO}
    cake = ada.set("cake")
    cake.add_many([on(1, LISBON, metadata={"of": "Ben"}), on(2, PORTO, metadata={"of": "Kim"})])
    assert {*texts(cake.search(WHERE))} == {LISBON, PORTO}
    one, two = ada.set("one"), ada.set("two")
    one.add(on(1, LISBON))
    two.add(on(2, PORTO))
    assert {*texts(ada.search(WHERE, sets=["one", "two"]))} == {LISBON, PORTO}
    echo = ada.set("echo")
    echo.add_many([on(1, LISBON, role="assistant"), on(2, PORTO, role="user")])
    assert texts(echo.search(WHERE)) == [PORTO]


def test_only_what_is_returned_was_read(ada: KeyMemory) -> None:
    """A folded item does not count as read."""
    old, new = ada.add_many([on(1, LISBON), on(2, PORTO)])
    ada.search(WHERE)
    read = {item.id: item.accessed for item in ada.list()}
    assert read[old] is None
    assert read[new] is not None


def test_drafts_replace_what_is_committed(ada: KeyMemory) -> None:
    """A batch sees its own items as the latest."""
    ada.add(on(1, LISBON))
    with ada.batch() as batch:
        batch.add(on(2, PORTO))
        assert texts(batch.search(WHERE)) == [PORTO]
    assert texts(ada.search(WHERE)) == [PORTO]


def test_what_says_that_something_changed_is_put_before(ada: KeyMemory) -> None:
    """The later text first; the earlier one stays a hit, also behind texts without a cue."""
    has, sold = "I have a red Mazda.", "I sold the Mazda."
    ada.add_many([on(1, has), on(2, sold), on(3, "The red bus is late."), on(4, "Sold!")])
    question = "Do I have a red Mazda?"
    assert texts(ada.search(question, valid_at="any"))[0] == has
    hits = ada.search(question)
    assert texts(hits)[:2] == [sold, has]
    assert hits[0].supersedes == ()
    assert hits[0].parts[CURRENT] > 0
    assert texts(ada.search(question, valid_at=DAY + timedelta(days=1)))[0] == has
    ada.set("others").add_many([on(1, has, speaker="Ben"), on(2, sold, speaker="Kim")])
    assert texts(ada.set("others").search(question))[0] == has


def test_a_prompt_holds_what_is_current(ada: KeyMemory) -> None:
    """And with "show" what is outdated too."""
    ada.add_many([on(1, LISBON), on(2, PORTO)])
    made = ada.context(WHERE, budget_tokens=500)
    assert "Lisbon" not in made.text
    (folded,) = [piece for piece in made.why if piece.text == LISBON]
    assert not folded.shown
    assert folded.reason.endswith("replaces it: it says so later")
    shown = ada.context(WHERE, budget_tokens=500, superseded="show").text
    assert "Lisbon" in shown
    assert "Porto" in shown


@pytest.mark.parametrize("wrong", ["", "Fold", None, True, 1])
def test_a_wrong_value_is_refused(ram: Memory, wrong: Any) -> None:
    """By every call that has it, before anything is read."""
    ada = ram.key("ada")
    problem = "superseded must be 'fold', 'show' or 'hide'"
    for call in (ada.search, ada.set("notes").search, ada.conversation("c").search, ada.context):
        with pytest.raises(InvalidInput, match=problem):
            call(WHERE, superseded=wrong)


def test_a_tool_shows_what_is_outdated_if_it_is_asked_to(ada: KeyMemory) -> None:
    """By recall and by context."""
    ada.add_many([on(1, LISBON), on(2, PORTO)])
    tools = memory_tools(ada, only=["recall", "context"])
    for name in ("recall", "context"):
        folded, shown = (
            tools.call(name, {"query": WHERE, **how}).text for how in ({}, {"superseded": "show"})
        )
        assert "Lisbon" not in folded
        assert "Lisbon" in shown
        assert tools.call(name, {"query": WHERE, "superseded": "hide"}).is_error


NOUNS = ("budget", "deadline", "colour", "city")
VALUES = ("5", "9", "teal", "Rome", "Pisa", "red")
FORMS = ("The {} is {}.", "My {} is {}.", "The {} was changed to {}.", "A {} of {} is nice.")


def test_no_hit_is_lost_and_the_others_keep_their_order(memory: Memory) -> None:
    """Of random items: with "show" each hit stays, with "fold" it stays or is under another."""
    rng = random.Random(7)
    for number in range(12):
        key = memory.key(f"k{number}")
        made = {rng.choice(FORMS).format(rng.choice(NOUNS), rng.choice(VALUES)) for _ in range(12)}
        key.add_many([on(rng.randrange(9), text) for text in sorted(made)])
        query = f"What is the {rng.choice(NOUNS)}?"
        plain = {hit.item.text: hit.score for hit in key.search(query, limit=20, valid_at="any")}
        shown, folded = (key.search(query, limit=20, superseded=how) for how in ("show", "fold"))
        assert sorted(texts(shown)) == sorted(plain)
        under = [text for hit in folded for text in texts(hit.supersedes)]
        assert sorted([*texts(folded), *under]) == sorted(plain)
        for hit in (*shown, *folded):
            gained = hit.score - plain[hit.item.text]
            assert hit.parts.get(CURRENT, 0.0) == pytest.approx(gained)
        scores = [hit.score for hit in shown]
        assert scores == sorted(scores, reverse=True)
        again = key.search(query, limit=20)
        assert [(hit.item.id, hit.score) for hit in again] == [
            (hit.item.id, hit.score) for hit in folded
        ]
        for hit in folded:
            assert all(hit.item.time >= old.time for old in hit.supersedes)
