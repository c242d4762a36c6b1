"""Items that searches keep: the same as the store's, and nobody else's."""

import random
from dataclasses import replace

import pytest

from alveus import Item, Memory
from alveus.search import item_cache

VALUES = ["plain", 7, None, {"text": "a dict", "n": [1, {"deep": b"x"}]}, ["a", ["b"]], 1.5]
METADATA = [{}, {"kind": "note", "n": 1}, {"tags": ["a", "b"]}, {"deep": {"er": [1]}}]


@pytest.fixture(params=["file", "ram"])
def memory(request, tmp_path):
    url = ":memory:" if request.param == "ram" else tmp_path / "m.db"
    with Memory.open(url, embedder="words") as memory:
        yield memory


def filled(memory):
    ada = memory.key("ada")
    ada.add_many(
        [
            Item(value, f"{i}{j}", f"apple {i}", metadata, session="s", speaker="Ada")
            for i, value in enumerate(VALUES)
            for j, metadata in enumerate(METADATA)
        ]
    )
    return ada


def test_what_is_kept_is_what_the_store_has(memory):
    """However often it is found, an item is what `list` says it is."""
    ada = filled(memory)
    for _ in range(3):
        found = {hit.item.id: hit.item for hit in ada.search("apple", limit=100)}
        listed = {item.id: item for item in ada.list()}
        assert found.keys() == listed.keys()
        for name, item in listed.items():
            assert replace(found[name], accessed=item.accessed) == item


def test_what_is_given_is_a_copy(memory):
    """What a caller does to an item that was found, the next one does not see."""
    ada = filled(memory)
    for _ in range(3):
        for hit in ada.search("apple", limit=100):
            i, j = map(int, hit.item.id)
            assert (hit.item.value, hit.item.metadata) == (VALUES[i], METADATA[j])
            hit.item.metadata["mine"] = 1
            for part in hit.item.metadata.values():
                if isinstance(part, list):
                    part.append("mine")
            if isinstance(hit.item.value, list):
                hit.item.value.append("mine")
            if isinstance(hit.item.value, dict):
                hit.item.value["n"].append("mine")


def test_a_read_is_seen_by_the_next_search(memory):
    """By whatever way an item was read, and also once that is in the file."""
    ada = filled(memory)
    assert ada.search("apple", limit=1)[0].item.accessed is None
    first = ada.search("apple", limit=1)[0].item
    ada.get(first.id)
    read = ada.list(where={"$id": first.id})[0].accessed
    ada.add("something else")
    second = ada.search("apple", limit=1)[0].item
    assert second.accessed == read > first.accessed > first.created


def test_changes_are_found(memory, monkeypatch):
    """Updates and deletions, at random, while only few items are kept."""
    monkeypatch.setattr(item_cache, "CACHED_ITEMS", 5)
    ada, rng = filled(memory), random.Random(3)
    for number in range(40):
        live = [item.id for item in ada.list()]
        if rng.random() < 0.3:
            ada.delete(rng.choice(live))
        else:
            ada.update(rng.choice(live), value=number, text=f"apple {number}")
        found = {hit.item.id: hit.item.value for hit in ada.search("apple", limit=7)}
        listed = {item.id: item.value for item in ada.list()}
        assert found == {name: listed[name] for name in found}
