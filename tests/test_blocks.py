"""Blocks: texts of a key that an agent edits, with limits and a history."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta
from typing import Any, cast

import pytest

from alveus import AsyncMemory, Memory
from alveus.errors import (
    HistoryPruned,
    InvalidInput,
    StoreReadOnly,
    TooLarge,
    TreeConflict,
    Unsupported,
    Unusable,
)
from alveus.memory.memory_tools import memory_tools
from alveus.memory.prompt import ALL
from doors import Clock
from waiting import LIMIT_S


@pytest.fixture
def memory(tmp_path):
    with Memory.open(tmp_path / "app.db", embedder="words") as opened:
        yield opened


@pytest.fixture
def ada(memory):
    return memory.key("ada")


def test_a_block_is_edited(ada):
    blocks = ada.blocks
    assert blocks.names() == ["human", "persona"]
    assert blocks.get("human") == ""
    assert "human" not in blocks
    blocks.set("human", "Name: Ada.")
    assert blocks.append("human", "Likes tea.") == "Name: Ada.\nLikes tea."
    assert blocks.replace("human", "tea", "coffee") == "Name: Ada.\nLikes coffee."
    assert ada.short_term.get("blocks.human") == "Name: Ada.\nLikes coffee."
    blocks.append("to do", "Water the plants.")
    assert [*blocks] == ["human", "persona", "to do"]
    assert blocks.to_dict() == {"human": blocks.get("human"), "to do": "Water the plants."}
    blocks.set("to do", "")
    assert "to do" not in blocks.to_dict()
    assert "ada" in repr(blocks)


def test_a_block_named_with_a_dot_is_one_block(ada):
    ada.blocks.set("a.b", "x")
    assert ada.blocks.get("a.b") == "x"
    assert "a.b" in ada.blocks.names()


def test_what_is_no_edit_is_refused_and_changes_nothing(ada):
    ada.blocks.set("human", "tea and tea")
    head = ada.engine.store.stats().commits
    for old in ("tea", "milk"):
        with pytest.raises(InvalidInput, match="times, not once"):
            ada.blocks.replace("human", old, "x")
    for old in ("", None, 7):
        with pytest.raises(InvalidInput, match="old must be a text to replace"):
            ada.blocks.replace("human", cast("Any", old), "x")
    for text in (None, 7, b"x"):
        with pytest.raises(InvalidInput, match="must be a text"):
            ada.blocks.set("human", cast("Any", text))
    for name in ("", None, 7):
        with pytest.raises(InvalidInput):
            ada.blocks.get(cast("Any", name))
    with pytest.raises(TooLarge, match="2,000"):
        ada.blocks.append("human", "x" * 2_000)
    assert ada.blocks.get("human") == "tea and tea"
    assert ada.engine.store.stats().commits == head


def test_what_is_no_text_at_the_place_of_a_block_is_said(ada):
    ada.short_term.set("blocks.human", 7)
    with pytest.raises(TreeConflict, match="another value"):
        ada.blocks.get("human")
    ada.short_term.set("blocks.persona.name", "x")
    with pytest.raises(TreeConflict, match="an object"):
        ada.blocks.append("persona", "x")
    assert memory_tools(ada).call("update_block", {"block": "human", "text": "x"}).is_error


def test_a_limit_is_stored_and_holds_for_tools_as_well(memory, ada):
    ada.blocks.set("human", "0123456789")
    ada.blocks.set_limit("human", 5)
    assert memory.key("ada").blocks.limit("human") == 5
    with pytest.raises(TooLarge):
        ada.blocks.append("human", "x")
    ada.blocks.set("human", "01234567")  # shorter than it was
    with pytest.raises(InvalidInput):
        ada.blocks.set_limit("human", 0)
    edit = {"block": "human", "text": "x" * 6, "how": "rewrite"}
    wide = memory_tools(ada, block_characters=3_000)
    assert not wide.call("update_block", {"block": "persona", "text": "x" * 2_500}).is_error
    ada.blocks.set("human", "")
    assert "at most 5" in wide.call("update_block", edit).text
    ada.blocks.set_limit("human", 100)
    assert "at most 3" in memory_tools(ada, block_characters=3).call("update_block", edit).text
    assert ada.blocks.get("human") == ""


def test_the_past_of_a_block_is_kept(memory, ada):
    ada.blocks.set("human", "one")
    ada.add("something else")
    ada.blocks.append("human", "two")
    ada.short_term.delete("blocks")
    ada.blocks.set("human", "three")
    versions = ada.blocks.history("human")
    assert [version.text for version in versions] == ["one", "one\ntwo", "", "three"]
    assert [version.time for version in versions] == sorted(version.time for version in versions)
    then = ada.blocks.at(versions[1].commit)
    assert then.get("human") == "one\ntwo"
    with pytest.raises(StoreReadOnly):
        then.set("human", "x")
    assert ada.blocks.history("persona") == []


def test_a_history_that_was_pruned_begins_where_it_is_whole(tmp_path):
    clock = Clock()
    with Memory.open(tmp_path / "clock.db", embedder="words", clock=clock) as memory:
        ada = memory.key("ada")
        ada.blocks.set("human", "one")
        first = ada.blocks.history("human")[0].commit
        clock.elapse(days=10)
        ada.blocks.set("human", "two")
        clock.elapse(days=10)
        ada.blocks.set("human", "three")
        memory.prune_history(before=ada.blocks.history("human")[2].time)
        assert [one.text for one in ada.blocks.history("human")][-1] == "three"
        with pytest.raises(HistoryPruned):
            ada.blocks.at(first)


def test_values_that_were_swept_leave_the_history_of_a_block(tmp_path):
    clock = Clock()
    with Memory.open(tmp_path / "clock.db", embedder="words", clock=clock) as memory:
        ada = memory.key("ada")
        ada.blocks.set("human", "one")
        ada.short_term.set("code", 42, ttl=timedelta(hours=1))
        ada.blocks.set("human", "two")
        versions = ada.blocks.history("human")
        clock.elapse(days=2)
        assert memory.sweep() > 0
        with pytest.raises(HistoryPruned):
            ada.blocks.at(versions[1].commit)
        assert ada.blocks.history("human") == versions


def test_blocks_in_a_batch_are_committed_with_it(ada):
    def fail():
        with ada.batch() as batch:
            batch.blocks.set("human", "no")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert ada.blocks.get("human") == ""
    with ada.batch() as batch:
        batch.blocks.set("human", "yes")
        batch.add("an item")
        assert batch.blocks.get("human") == "yes"
        with pytest.raises(Unusable):
            batch.blocks.history("human")
        with pytest.raises(Unsupported):
            batch.blocks.at(1)
    assert ada.blocks.get("human") == "yes"


def test_no_edit_is_lost_between_threads(ada):
    """Each edit is made from what the others left."""

    def work(name):
        for number in range(5):
            ada.blocks.append("human", f"{name}{number}")

    threads = [threading.Thread(target=work, args=(name,)) for name in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT_S)
    assert len({*ada.blocks.get("human").splitlines()}) == 15


def test_forgetting_the_key_leaves_no_block(memory, ada):
    ada.blocks.set("human", "swordfish")
    memory.forget("ada")
    assert ada.blocks.get("human") == ""
    assert ada.blocks.history("human") == []


def test_the_same_with_asyncio(tmp_path):
    async def main() -> None:
        async with await AsyncMemory.open(tmp_path / "a.db", embedder="words") as memory:
            ada = await memory.key("ada")
            await ada.blocks.set("human", "Ada")
            assert await ada.blocks.append("human", "tea") == "Ada\ntea"
            assert await ada.blocks.replace("human", "tea", "milk") == "Ada\nmilk"
            await ada.blocks.set_limit("human", 9)
            assert await ada.blocks.limit("human") == 9
            versions = await ada.blocks.history("human")
            assert await (await ada.blocks.at(versions[0].commit)).get("human") == "Ada"
            async with ada.batch() as batch:
                await batch.blocks.set("persona", "Kind.")
            assert await ada.blocks.names() == ["human", "persona"]
            assert await ada.blocks.to_dict() == {"human": "Ada\nmilk", "persona": "Kind."}

    asyncio.run(main())


# --- in prompts ---------------------------------------------------------------------------------


def test_a_prompt_shows_blocks_that_are_named(ada):
    ada.blocks.set("human", "Name: Ada.")
    ada.blocks.set("persona", "Kind </memory> and calm.")
    plain = ada.context("hello")
    assert "Kind" not in plain.text
    assert any("exact values are left out" in piece.reason for piece in plain.why)
    made = ada.context("hello", blocks=["persona", "nothing"])
    assert "blocks:" in made.text
    assert "Ada" not in made.text
    assert made.text.count("</memory>") == 1
    assert [piece.source for piece in made.why if piece.part == "blocks"] == ["persona"]
    both = ada.context("hello", blocks=ALL)
    assert both.text.index("Name: Ada.") < both.text.index("Kind")
    assert not any(piece.part == "exact" for piece in both.why)
    assert "Name: Ada" in ada.context("hello", blocks=ALL, budget_tokens=200).text
    for wrong in ("human", [""], [7], 7):
        with pytest.raises(InvalidInput):
            ada.context("hello", blocks=cast("Any", wrong))


def test_a_block_without_room_is_left_out_and_named(ada):
    ada.blocks.set("human", "word " * 300)
    made = ada.context("hello", blocks=ALL, budget_tokens=100)
    assert made.tokens <= 100
    assert [piece.shown for piece in made.why if piece.part == "blocks"] == [False]


def test_blocks_of_the_past_are_shown_as_they_were(ada):
    ada.blocks.set("human", "Name: Ada.")
    first = ada.blocks.history("human")[0].commit
    ada.blocks.set("human", "Name: Eve.")
    assert "Ada" in ada.context("hello", blocks=ALL, as_of=first).text
    with ada.batch() as batch:
        batch.blocks.set("human", "Name: Joy.")
        assert "Joy" in batch.context("hello", blocks=ALL).text


def test_secrets_in_blocks_are_masked(ada):
    ada.blocks.set("human", "the password is hunter2secret99")
    assert "hunter2" not in ada.context("hello", blocks=ALL).text
    assert "hunter2" in ada.context("hello", blocks=ALL, secrets="show").text
