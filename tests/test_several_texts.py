"""Items of several texts: meaning reads each by itself and the best counts, words read all."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from alveus import Item, Memory
from alveus.embed import embed_windows
from alveus.errors import IdempotencyConflict, InvalidInput, InvalidValue
from alveus.transfer.export import export_lines
from alveus.transfer.importing import import_file
from doors import Letters

FRUIT, STONE = "banana", "zzz xxx zzz"


def meaning(key, query):
    """Return what meaning gave each item that a search found, by id."""
    return {hit.item.id: round(hit.parts["meaning"], 3) for hit in key.search(query)}


def fill(memory):
    """Add an item of one text, one of the same beside another, and one where both are one text."""
    key = memory.key("ada")
    key.add({"n": 1}, id="one", text=FRUIT)
    key.add({"n": 2}, id="best", texts=[STONE, FRUIT])
    key.add({"n": 3}, id="mixed", text=f"{STONE} {FRUIT}")
    return key


@pytest.mark.parametrize("instant", [True, False])
@pytest.mark.parametrize("url", ["file", ":memory:"])
def test_the_best_of_several_texts_counts(tmp_path, url, instant):
    """As if it were the only one, whoever embeds; and words of any text find the item."""
    place = tmp_path / "m.db" if url == "file" else url
    with Memory.open(place, embedder=Letters(instant=instant)) as memory:
        key = fill(memory)
        assert memory.settle()
        for query, other in ((FRUIT, "mixed"), (STONE, "one")):
            found = meaning(key, query)
            assert found["best"] == 2.0 > found[other]
        assert meaning(key, FRUIT)["one"] == 2.0
        assert [hit.item.id for hit in key.search("zzz", where={"$value.n": 2})] == ["best"]


def test_several_texts_are_read_again(tmp_path):
    """By another embedder, after an export and an import, and in what was there before."""

    class Other(Letters):
        def __init__(self):
            super().__init__(name="other")

    path, copy, lines = tmp_path / "m.db", tmp_path / "copy.db", tmp_path / "m.jsonl"
    with Memory.open(path, embedder=Letters()) as memory:
        key = fill(memory)
        key.update("one", texts=[STONE, "kiwi"])
        assert meaning(key, STONE)["one"] == 2.0
        assert meaning(key, FRUIT)["one"] < 2.0
        key.update("one", value={"n": 9}, text="kiwi")
        assert key.history("one")[1].text == f"{STONE}\x1e\nkiwi"
        lines.write_text("\n".join([*export_lines(memory), ""]), encoding="utf-8")
    Memory.reindex(path, embedder=Other())
    with Memory.open(copy, embedder=Letters()) as memory:
        import_file(memory, lines)
    for place, embedder in ((path, Other()), (copy, Letters())):
        with Memory.open(place, embedder=embedder) as memory:
            found = meaning(memory.key("ada"), FRUIT)
            assert found["best"] == 2.0 > found["mixed"]


def test_an_item_says_its_texts_once():
    """A text or texts; a list of 1 to 32; they are a part of the request as they are."""
    with Memory.open(":memory:", embedder=Letters()) as memory:
        key: Any = memory.key("ada")
        wrong: Any
        for wrong in ({"texts": []}, {"texts": ["a"] * 33}, {"texts": "ab"}, {"texts": ["a", 1]}):
            with pytest.raises(InvalidInput, match="texts"):
                key.add("x", **wrong)
        with pytest.raises(InvalidInput, match="text or texts"):
            key.add("x", text="a", texts=["b"])
        with pytest.raises(InvalidValue):
            key.add("x", texts=["\ud800"])
        (item_id,) = key.add_many([Item("x", texts=("a", "b"))])
        assert key.get(item_id).texts is None
        assert key.add(Item("x", text="a"), id="i", texts=["b", "c"]) == "i"
        assert key.get("i").text == "b\x1e\nc"
        once = key.add("y", texts=["a", "b"], idempotency_key="k")
        assert key.add("y", texts=["a", "b"], idempotency_key="k") == once
        with pytest.raises(IdempotencyConflict):
            key.add("y", texts=["a b"], idempotency_key="k")
        key.supersede(once, "z", texts=["d", "e"], new_id="later")
        assert key.get("later").text == "d\x1e\ne"


def test_windows_of_several_texts_are_as_many_as_one_may_have():
    """The first of each text are among them, however long the others are."""

    class Long(Letters):
        def embed_windows(self, texts):
            return [self.embed([text[0]] * 20) for text in texts]

    rows = embed_windows(Long(), ["a", "b\x1ec\x1ed", "e\x1e \x1e"])
    assert [len(one) for one in rows] == [20, 32, 20]
    firsts = Letters().embed(["b", "c", "d"])
    assert np.array_equal(rows[1][:3], firsts)
    assert np.array_equal(rows[1][-2:], firsts[:2])
