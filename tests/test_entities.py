"""People, places and things: pages made of facts, their other names, neighbours, profiles."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from alveus import Memory, Signals
from alveus.errors import InvalidInput, NotFound
from alveus.facts import LearnReport

SAID = [
    ("m1", "My sister Grace lives in Lisbon."),
    ("m2", "I love green tea."),
    ("m3", "I work at Acme."),
    ("m4", "I am a nurse."),
]


@pytest.fixture
def memory(tmp_path):
    with Memory.open(tmp_path / "memory.db", embedder="words") as opened:
        yield opened


def talk(key, *said):
    chat = key.conversation("chat")
    for message_id, text in said:
        chat.add({"id": message_id, "role": "user", "name": "Ada", "content": text})
    return key.learn(chat, model=None)


@pytest.fixture
def ada(memory):
    key = memory.key("ada")
    assert isinstance(talk(key, *SAID), LearnReport)
    assert len(key.facts) >= 3
    return key


def texts(facts):
    return [fact.text for fact in facts]


def test_a_page_has_what_is_known_of_somebody(ada):
    page = ada.about("ada")
    assert page.name == "Ada"
    every = texts((*page.facts, *page.relations))
    assert any("tea" in text for text in every)
    assert set(page.sources) <= {message_id for message_id, _ in SAID}
    assert page.sources
    assert page.to_json()["names"] == ["Ada"]
    with pytest.raises(NotFound, match="no fact names 'Nobody'"):
        ada.about("Nobody")
    with pytest.raises(InvalidInput):
        ada.about("")


def test_a_page_follows_learning_and_its_undo(ada):
    before = ada.about("Ada")
    report = talk(ada, ("m9", "I like chess."))
    assert any("chess" in text for text in texts(ada.about("Ada").facts))
    ada.facts.undo(report)
    assert ada.about("Ada") == before


def test_forgetting_a_message_reaches_pages_and_profiles(ada):
    ada.conversation("chat").forget("m2")
    page = ada.about("Ada")
    every = (*page.facts, *page.relations, *page.mentions, *page.timeline, *page.history)
    assert not any("tea" in text for text in texts(every))
    assert "tea" not in ada.profile().text


def test_other_names_are_of_one_entity_until_they_are_split(ada):
    talk(ada, ("m9", "Addie is what my friends call me."))
    names = ada.facts.entities()
    assert "Ada" in names
    page = ada.facts.merge("Ada", "Adele", "Addie")
    assert set(page.names) == {"Ada", "Adele", "Addie"}
    assert ada.about("adele") == page
    assert "Adele" not in ada.facts.entities()
    with pytest.raises(InvalidInput, match="already the same name"):
        ada.facts.merge("Ada", "ADA")
    ada.facts.split("Adele")
    assert set(ada.about("Ada").names) == {"Ada", "Addie"}
    with pytest.raises(NotFound, match="was not merged"):
        ada.facts.split("Adele")
    with pytest.raises(NotFound):
        ada.about("Adele")
    ada.facts.merge("Addie", "Adele")  # of Addie, so of Ada
    assert set(ada.about("Ada").names) == {"Ada", "Addie", "Adele"}


def test_a_page_may_be_called_by_another_of_its_names(ada):
    """Two pages become one under a third name, whatever was merged before."""
    ada.facts.merge("Ada", "Addie")
    ada.facts.merge("Ms Lovelace", "Ada")
    assert set(ada.about("addie").names) == {"Ms Lovelace", "Ada", "Addie"}
    ada.facts.merge("Ada", "Byron")
    assert set(ada.about("byron").names) == {"Ms Lovelace", "Ada", "Addie", "Byron"}


def test_neighbours_are_found_over_steps(ada):
    near = ada.facts.neighbours("Ada", steps=3)
    assert all(step >= 1 for step, _ in near.values())
    assert [step for step, _ in near.values()] == sorted(step for step, _ in near.values())
    assert "Ada" not in near
    with pytest.raises(InvalidInput, match="steps"):
        ada.facts.neighbours("Ada", steps=0)
    with pytest.raises(NotFound):
        ada.facts.neighbours("Nobody")


def test_a_profile_keeps_to_its_budget_and_names_its_sources(ada):
    whole = ada.profile()
    assert whole.name == "Ada"
    assert whole.left_out == 0
    assert whole.tokens <= 300
    assert all(fact.sources for fact in whole.facts)
    small = ada.profile("ada", budget=whole.tokens - 1)
    assert small.tokens < whole.tokens
    assert small.left_out >= 1
    assert small.to_json()["text"] == small.text
    with pytest.raises(NotFound, match=r"about\('Nobody'\) returns events"):
        ada.profile("Nobody")
    with pytest.raises(InvalidInput, match="budget"):
        ada.profile(budget=0)


def test_a_key_without_facts_has_no_profile(memory):
    with pytest.raises(NotFound, match="there are no valid facts"):
        memory.key("eve").profile()


@pytest.mark.parametrize("name", ["\0", "x" * 5000, "{}", "'; DROP", "🦊", "Àda"])
def test_hostile_names_are_names(ada, name):
    with pytest.raises((NotFound, InvalidInput)):
        ada.about(name)
    with pytest.raises((NotFound, InvalidInput)):
        ada.facts.split(name)


# --- at other times -----------------------------------------------------------------------------


def dated(key, message_id, text, when):
    message = {"id": message_id, "role": "user", "name": "Ada", "content": text}
    chat = key.conversation("chat")
    chat.add({**message, "timestamp": f"{when}T10:00:00+00:00"})
    return key.learn(chat, model=None)


@pytest.fixture
def moved(memory):
    key = memory.key("moved")
    first = dated(key, "m1", "I live in Lisbon.", "2024-03-01")
    dated(key, "m2", "I moved to Porto.", "2024-06-01")
    dated(key, "m3", "I saw a whale yesterday.", "2024-07-02")
    return key, first.commit


def test_a_page_is_read_as_of_a_commit(moved):
    key, first = moved
    assert texts(key.about("Ada").relations) == ["Ada moved to Porto."]
    then = key.about("Ada", as_of=first)
    assert texts(then.relations) == ["Ada lives in Lisbon."]
    assert not then.timeline
    assert key.facts.entities(as_of=first) == {"Ada": 1, "Lisbon": 1}
    assert [*key.facts.neighbours("Ada", as_of=first)] == ["Lisbon"]
    assert texts(key.profile("Ada", as_of=first).facts) == ["Ada lives in Lisbon."]
    with pytest.raises(NotFound):
        key.about("Porto", as_of=first)


def test_a_page_is_read_as_it_held_at_a_time(moved):
    key, _ = moved
    march, august = datetime(2024, 3, 9, tzinfo=UTC), datetime(2024, 8, 1, tzinfo=UTC)
    assert texts(key.profile("Ada", valid_at=march).facts) == ["Ada lives in Lisbon."]
    assert texts(key.profile("Ada", valid_at=august).facts) == ["Ada moved to Porto."]
    page = key.about("Ada", valid_at=march)
    assert texts(page.relations) == ["Ada lives in Lisbon."]
    assert not page.history
    assert texts(key.about("Ada", valid_at=august).history) == ["Ada lives in Lisbon."]
    assert len(key.about("Ada", valid_at="any").relations) == 2
    with pytest.raises(InvalidInput):
        key.about("Ada", valid_at=datetime(2024, 1, 1))  # noqa: DTZ001 - without a zone


def test_other_names_are_read_as_they_were(moved):
    key, first = moved
    key.facts.merge("Ada", "Adalina")
    assert key.about("Adalina").name == "Ada"
    with pytest.raises(NotFound):
        key.about("Adalina", as_of=first)


def test_a_time_line_is_in_the_order_of_events(moved):
    key, _ = moved
    dated(key, "m4", "I saw a fox last week.", "2024-05-20")
    lines = key.facts.timeline("Ada")
    assert [fact.text[:14] for fact in lines] == ["Ada saw a fox ", "Ada saw a whal"]
    on_the_day = datetime(2024, 7, 1, 12, tzinfo=UTC)
    assert texts(key.facts.timeline(valid_at=on_the_day)) == ["Ada saw a whale on 1 July 2024."]
    assert key.facts.timeline(valid_at=datetime(2024, 7, 2, tzinfo=UTC)) == []
    assert key.facts.timeline("Nobody") == []


# --- in a search --------------------------------------------------------------------------------


def test_a_search_finds_facts_of_entities_that_the_question_names(memory):
    facts = memory.key("ada").set("facts")
    facts.add(
        "She sings.", id="1", metadata={"entities": ["Grace Hopper", "Ada"], "subject": "Ada"}
    )
    facts.add("He dances.", id="2", metadata={"entities": ["Bob", 7, "Will"]})
    facts.add("It rains.", id="3", metadata={"entities": {"odd": 1}, "subject": None})

    def found(question, weight=0.5):
        hits = facts.search(question, signals=Signals(entities=weight, session=0))
        return {hit.item.id: hit.parts.get("entities", 0.0) for hit in hits}

    assert found("where does grace hopper live?") == {"1": 0.5}
    assert found("what of Bob, and of ADA's?") == {"1": 0.25, "2": 0.25}
    assert found("what of Grace, and will you?") == {}
    assert found("where does grace hopper live?", 0.0) == {}
    with memory.key("ada").batch() as batch:
        batch.set("facts").add("New.", id="4", metadata={"subject": "Grace Hopper"})
        hits = batch.search("grace hopper?", sets=["facts"], signals=Signals(entities=0.5))
        assert {hit.item.id for hit in hits} == {"1", "4"}


# --- in prompts ---------------------------------------------------------------------------------


def test_a_prompt_begins_with_a_profile_that_is_named(moved):
    key, first = moved
    made = key.context("what about the whale?", profile="ada")
    assert 'profile:\n"Ada moved to Porto."' in made.text
    assert made.text.count("Ada moved to Porto") == 1
    profile = [piece for piece in made.why if piece.part == "profile"]
    assert [piece.set_name for piece in profile] == ["facts"]
    then = key.context("hello", profile="Ada", as_of=first, messages=None)
    assert "Ada lives in Lisbon" in then.text
    assert "profile:" not in key.context("hello", profile="Nobody").text
    assert "profile:" not in key.context("hello").text
    small = key.context("what about Porto?", profile="Ada", budget_tokens=60, messages=None)
    assert small.tokens <= 60
    with key.batch() as batch:
        assert "moved to Porto" in batch.context("hello", profile="Ada", messages=None).text
    for wrong in ("", 7, ["Ada"]):
        with pytest.raises(InvalidInput):
            key.context("hello", profile=wrong)
