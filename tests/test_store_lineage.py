"""What is checked of links, compactions and counts in a file, and how damage to them shows."""

from __future__ import annotations

from dataclasses import replace

import apsw
import pytest

from alveus.store import Add, Undo
from alveus.store.sqlite import SqliteStore
from alveus.testing import NOTES, add, record, write
from alveus.testing.batches import compact, derived, into


@pytest.fixture
def path(tmp_path):
    return tmp_path / "memory.db"


@pytest.fixture
def store(path):
    made = SqliteStore.open(path, durability="normal")
    write(made, Add(NOTES, replace(record("i"), tokens=3)), add("j"), add("k"))
    write(made, compact(("i", 1), ("j", 1)))
    write(made, derived("d", "k"), into("e", "k"))
    write(made, Undo(NOTES, made.compactions(NOTES)[0].id))
    yield made
    made.close()


def test_a_sound_file_has_no_problems(store):
    """Also with links, compactions and an undo."""
    assert store.problems() == []


DAMAGE = {
    "sets whose tokens are wrong": "UPDATE memory_set SET tokens = tokens + 1",
    "items whose tokens are not those of their features": "UPDATE feature SET tokens = 9",
    "links of versions that are not there": "INSERT INTO link (row, source) VALUES (1, 2)",
    "compactions without a commit or a set": "UPDATE compaction SET set_id = 99",
    "compactions of versions that they did not change": "UPDATE compaction SET retired = added",
}


@pytest.mark.parametrize("what", DAMAGE)
def test_damage_is_found(store, path, what):
    """By what it did."""
    db = apsw.Connection(str(path))
    db.execute(DAMAGE[what])
    db.close()
    assert any(what in problem for problem in store.problems())
