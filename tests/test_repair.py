"""What can be made again is made again; what cannot is left alone, and said to be damaged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from alveus import Memory
from alveus.cli.app import alveus
from alveus.errors import StoreBusy, StoreDamaged, Unsupported
from alveus.store.sqlite import SqliteStore
from alveus.store.sqlite.connection import connect
from alveus.testing import differences, reads
from waiting import LIMIT_S

FAR = 1 << 60


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store with items of all kinds, live and ended."""
    path = tmp_path / "app.db"
    with Memory.open(path, embedder="static") as memory:
        notes = memory.key("ada").set("notes")
        notes.add("green tea in the morning", id="i", speaker="Ada", metadata={"caption": "a cup"})
        notes.add({"text": "black coffee", "cups": 2}, id="j", metadata={"topic": "drinks"})
        notes.add({"n": 1}, id="unread", text="")
        notes.add("gone by now", id="gone")
        notes.update("i", "white tea in the morning")
        notes.delete("gone")
        memory.knowledge.set("handbook").add("tea is served at five")
        memory.key("ada").short_term.set("city", "Lisbon")
    return path


def told(path: Path) -> dict[str, object]:
    """Return all that a store answers, and what a search finds with its scores."""
    with Memory.open(path) as memory:
        hits = memory.key("ada").search("tea or coffee in the morning")
        found: dict[str, object] = {"hits": [(h.item.id, round(h.score, 6)) for h in hits]}
        assert isinstance(memory.store, SqliteStore)
        assert memory.store.problems() == []
        found |= reads(memory.store, now=FAR)
    for name in [n for n in found if n == "stored" or " at " in n or n.startswith(("get", "v"))]:
        found.pop(name)  # say when an item was read last, which a search changes
    found.pop("commits")
    return {name: str(said) for name, said in found.items() if "'ada'" not in name or "set" in name}


DAMAGE = {
    "terms": ("UPDATE feature SET terms = x'00'", "features made again"),
    "counts of terms": ("UPDATE feature SET tokens = 0, temporal = 9", "features made again"),
    "columns": ("UPDATE feature SET time = 1, importance = 1, speaker = 'X'", "made again"),
    "some features": ("DELETE FROM feature WHERE row % 2 = 0", "missing features made"),
    "all features": ("DELETE FROM feature", "missing features made"),
    "state of features": ("UPDATE feature SET ended = 99 WHERE ended = 0", "no item removed"),
    "features of nothing": (
        """INSERT INTO feature SELECT set_id, 77, 77, 77, 'x', 1, 1, 0, NULL, NULL, NULL, '{}',
            x'', 0, 0, x'' FROM feature LIMIT 1""",
        "features of no item removed",
    ),
    "lost vectors": ("UPDATE feature SET vectors = x'' WHERE id = 'i'", "vectors to be made"),
    "broken vectors": ("UPDATE feature SET vectors = x'0102'", "vectors to be made again"),
    "tokens of items": ("UPDATE item SET tokens = 99", "counts of tokens made again"),
    "items of sets": ("UPDATE memory_set SET items = 99", "counts of sets made again"),
    "bytes of sets": ("UPDATE memory_set SET bytes = 0", "counts of sets made again"),
    "tokens of sets": ("UPDATE memory_set SET tokens = 0", "counts of sets made again"),
    "retention": ("UPDATE memory_set SET retention = 0", "retentions of sets noted again"),
    "staged": ("INSERT INTO staged VALUES (77, x'01')", "staged vectors of no item removed"),
}


@pytest.mark.parametrize("what", DAMAGE)
def test_what_follows_from_the_rest_is_made_again(path: Path, what: str) -> None:
    """Each derived part; the answers are what they were, and a second repair finds nothing."""
    before = told(path)
    sql, says = DAMAGE[what]
    db = connect(path)
    db.execute(sql)
    db.close()
    done = Memory.repair(path)
    assert any(says in line for line in done), done
    with Memory.open(path) as memory:
        assert memory.settle(LIMIT_S)
    assert not differences(before, told(path))
    assert Memory.repair(path) == []


def test_a_sound_store_is_left_alone(path: Path) -> None:
    """Nothing to do, and nothing is done; how far it is is told."""
    looked: list[int] = []
    assert Memory.repair(path, progress=looked.append) == []
    assert sum(looked) == 6


def test_side_files_are_made_again(path: Path) -> None:
    """They are removed, whatever is in them."""
    folder = Path(f"{path}.alveus") / "index"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "rubbish").write_bytes(b"\0" * 99)
    before = told(path)
    Memory.repair(path)
    assert not (folder / "rubbish").exists()
    assert not differences(before, told(path))


def test_a_damaged_file_is_not_touched(path: Path) -> None:
    """It takes a backup: the error says so."""
    db = connect(path)
    root = db.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'item_order'").get
    size = db.pragma("page_size")
    db.close()
    content = bytearray(path.read_bytes())
    content[(root - 1) * size + 8 : (root - 1) * size + 40] = b"\xff" * 32
    path.write_bytes(content)
    with pytest.raises(StoreDamaged, match="restore a backup"):
        Memory.repair(path)
    assert path.read_bytes()[size:] == bytes(content)[size:]  # the first page counts openings


def test_nobody_else_may_have_it_open(path: Path) -> None:
    """What they keep in RAM would be wrong."""
    with Memory.open(path, mode="ro") as memory:
        memory.key("ada").list()
        with pytest.raises(StoreBusy):
            Memory.repair(path)
    with pytest.raises(Unsupported):
        Memory.repair(":memory:")


def test_doctor_repairs_on_demand(path: Path) -> None:
    """It says what it did; without --repair it only says what is wrong."""
    db = connect(path)
    db.execute("DELETE FROM feature WHERE id = 'i'")
    db.close()
    runner = CliRunner()
    sick = runner.invoke(alveus, ["doctor", "--db", str(path), "--json"])
    assert not json.loads(sick.stdout)["ok"]
    mended = runner.invoke(alveus, ["doctor", "--repair", "--db", str(path), "--json"])
    said = json.loads(mended.stdout)
    assert said["ok"]
    assert "2 missing features made" in [f["says"] for f in said["findings"]]
    assert "nothing waits" in [f["says"] for f in said["findings"]]
    again = runner.invoke(alveus, ["doctor", "--repair", "--db", str(path)])
    assert "nothing had to be" in again.stdout
    nowhere = runner.invoke(alveus, ["doctor", "--repair", "--db", str(path) + "x"])
    assert nowhere.exit_code == 1
