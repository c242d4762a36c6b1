"""Flipped bits, lost sectors, pages in each other's place: told as damage, never as an answer."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from random import Random

import apsw
import pytest
from click.testing import CliRunner

from alveus import Memory
from alveus.cli.app import alveus
from alveus.errors import NotAStore, StoreDamaged, Unsupported
from alveus.store.sqlite import SqliteStore, checksums
from alveus.store.sqlite.connection import connect
from alveus.values import wire
from damaging import MAGIC, MISPLACED, PAGE, WAYS, Question, damaged_copy, examine, plant, questions
from scale import COUNTS


@dataclass
class Sound:
    """A closed store, and all that it answers."""

    content: bytes
    asked: dict[str, Question]
    expected: dict[str, object]


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Sound:
    """A store that holds something of every kind."""
    folder = tmp_path_factory.mktemp("sound")
    plant(folder / "app.db")
    content = (folder / "app.db").read_bytes()
    (folder / "copy.db").write_bytes(content)  # without side files, as the damaged ones
    with Memory.open(folder / "copy.db", embedder="static", mode="ro") as memory:
        asked = questions(memory)
        expected = {name: question(memory) for name, question in asked.items()}
    assert len(asked) > 100
    return Sound(content, asked, expected)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "app.db"


def test_a_sound_file_is_called_sound(sound: Sound, path: Path) -> None:
    """And answers as it did."""
    path.write_bytes(sound.content)
    verdict = examine(path, sound.asked, sound.expected)
    assert (verdict.told, verdict.wrong, verdict.foreign) == ([], [], [])
    assert verdict.sound


@pytest.mark.parametrize("how", [how for how in WAYS if how != "swap"])
def test_damage_is_told_and_never_answered(sound: Sound, path: Path, how: str) -> None:
    """Each question gets its answer or StoreDamaged; a deep examination tells of every damage.

    A page that is no more than zeros has a checksum that is right: a question may be answered
    wrongly then, but the file is not called sound.
    """
    for seed in range(COUNTS.damages // len(WAYS)):
        what = damaged_copy(sound.content, path, how, Random(f"{how} {seed}"))
        verdict = examine(path, sound.asked, sound.expected)
        says = f"{how} {seed}: {what}: {verdict}"
        assert not verdict.foreign, says
        assert not (verdict.wrong and verdict.sound), says
        if how not in MISPLACED:
            assert not verdict.wrong, says
            assert not verdict.sound, says
        if verdict.opened is not None:
            assert isinstance(verdict.opened, StoreDamaged), says
            assert str(path) in str(verdict.opened), says
            assert "alveus restore BACKUP" in str(verdict.opened), says


def test_pages_in_each_others_place_are_noticed_nearly_always(sound: Sound, path: Path) -> None:
    """Their checksums are right: only the structure of the file tells, as a whole."""
    missed, trials = 0, COUNTS.damages // len(WAYS)
    for seed in range(trials):
        damaged_copy(sound.content, path, "swap", Random(f"swap {seed}"))
        verdict = examine(path, sound.asked, sound.expected)
        missed += bool(verdict.wrong) and verdict.sound
    assert missed <= trials // 20


def test_only_a_wrong_magic_makes_it_no_store(sound: Sound, path: Path) -> None:
    """Every bit of the file's head: another program's file by the first 16 bytes alone."""
    for at in range(100):
        content = bytearray(sound.content)
        content[at] ^= 1 << at % 8
        path.write_bytes(content)
        with pytest.raises(NotAStore if at < MAGIC else StoreDamaged, match=r"app\.db"):
            Memory.open(path, mode="ro").close()


def leaf_of(content: bytes, path: Path, table: str) -> int:
    """Return the number of the first page of a table."""
    path.write_bytes(content)
    db = connect(path)
    sql = "SELECT min(pageno) FROM dbstat WHERE name = ? AND pagetype = 'leaf'"
    number = int(db.execute(sql, (table,)).get)
    db.close()
    return number


def hit(content: bytes, path: Path, table: str) -> None:
    """Write a copy of a file in which one bit of a table is flipped."""
    page = leaf_of(content, path, table)
    changed = bytearray(content)
    changed[page * PAGE - 100] ^= 1
    path.write_bytes(changed)


def test_a_damaged_file_is_not_copied_as_if_it_were_sound(sound: Sound, path: Path) -> None:
    """Backup, repair and restore refuse it, and leave nothing."""
    hit(sound.content, path, "item")
    before, copy = path.read_bytes(), path.with_name("copy.db")
    with (
        Memory.open(path, embedder="static", mode="ro") as memory,
        pytest.raises(StoreDamaged, match="checksum"),
    ):
        memory.backup(copy)
    assert not copy.exists()
    with pytest.raises(StoreDamaged, match="repair cannot correct"):
        Memory.repair(path)
    with pytest.raises(StoreDamaged) as error:
        Memory.restore(path.with_name("new.db"), path)
    assert error.value.path == str(path), "the backup is damaged, not the store"
    assert path.read_bytes()[PAGE:] == before[PAGE:], "the first page counts openings"


@pytest.mark.parametrize("table", ["item", "node", "scope"])
def test_a_damaged_store_takes_a_backup(sound: Sound, path: Path, table: str) -> None:
    """Which is what every error over it says to do; nothing of the damage is left."""
    backup = path.with_name("backup.db")
    backup.write_bytes(sound.content)
    hit(sound.content, path, table)
    Memory.restore(path, backup)
    verdict = examine(path, sound.asked, sound.expected)
    assert (verdict.told, verdict.wrong, verdict.foreign) == ([], [], [])
    assert verdict.sound


def test_the_doctor_names_no_repair_that_would_be_refused(sound: Sound, path: Path) -> None:
    """Of a damaged file it says to restore a backup; of a wrong count, that a repair may do."""
    hit(sound.content, path, "item")
    said = CliRunner().invoke(alveus, ["--db", str(path), "doctor"]).stdout
    assert "does not match its checksum; restore a backup: alveus restore BACKUP" in said
    assert "--repair" not in said
    path.write_bytes(sound.content)
    db = connect(path)
    db.execute("UPDATE memory_set SET items = items + 1")
    db.close()
    said = CliRunner().invoke(alveus, ["--db", str(path), "doctor"]).stdout
    assert "sets whose count is wrong; alveus doctor --repair may mend it" in said


def test_writing_hides_no_damage(sound: Sound, path: Path) -> None:
    """Adds, updates and sweeps beside a damaged page: it is still told of afterwards."""
    hit(sound.content, path, "item")
    done = 0
    with Memory.open(path, embedder="static") as memory:
        for n in range(40):
            for key in (*memory.keys(), "new"):
                try:
                    memory.key(key).add(f"window {n} " * 30)
                    memory.key(key).short_term.set(f"n.{n}", "window " * 30)
                    done += 1
                except StoreDamaged:
                    continue
    assert done
    with Memory.open(path, embedder="static", mode="ro") as memory:
        assert isinstance(memory.store, SqliteStore)
        assert any("checksum" in problem for problem in memory.store.problems(deep=True))


def test_the_command_line_tells_of_damage_in_one_line(sound: Sound, path: Path) -> None:
    """Exit code 1, no traceback; doctor names the table; --json has the type."""
    hit(sound.content, path, "run")
    run = CliRunner().invoke
    plain = run(alveus, ["runs", "list", "--quiet", "--db", str(path)])
    told = run(alveus, ["backup", str(path) + ".copy", "--db", str(path), "--json"])
    deep = run(alveus, ["doctor", "--deep", "--db", str(path), "--json"])
    assert (plain.exit_code, told.exit_code, deep.exit_code) == (1, 1, 1)
    assert plain.stderr.startswith("alveus: ")
    assert plain.stderr.count("\n") == 1
    assert json.loads(told.stderr)["error"]["type"] == "StoreDamaged"
    says = [f["says"] for f in json.loads(deep.stdout)["findings"] if f["state"] == "wrong"]
    assert any("page" in line and "checksum" in line for line in says)
    assert any("table run cannot be read" in line for line in says)


# --- files whose pages have no checksums ---------------------------------------------------------


def without_checksums(content: bytes, path: Path) -> None:
    """Write to *path* what an alveus without the checksum VFS would have made of a store."""
    made = path.with_name("made.db")
    made.write_bytes(content)
    db = apsw.Connection(str(path))
    source = connect(made, read_only=True)
    db.execute("CREATE TABLE x (y)")  # its pages reserve nothing, and a table by table copy neither
    db.execute("DROP TABLE x")
    for (sql,) in source.execute(
        "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite%' "
        "ORDER BY type != 'table'"
    ):
        if not sql.startswith("CREATE TRIGGER"):
            db.execute(sql)
    for (table,) in source.execute(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%'"
    ).fetchall():
        rows = source.execute(f"SELECT * FROM {table}").fetchall()  # noqa: S608 - ours
        if rows:
            marks = ", ".join("?" * len(rows[0]))
            with db:
                db.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)  # noqa: S608 - ours
    for (sql,) in source.execute("SELECT sql FROM sqlite_schema WHERE type = 'trigger'"):
        db.execute(sql)
    db.execute("DELETE FROM note WHERE name = ?", (checksums.MARK,))
    db.pragma("application_id", source.pragma("application_id"))
    db.pragma("user_version", source.pragma("user_version"))
    db.close()
    source.close()
    made.unlink()


def has_checksums(path: Path) -> bool:
    with Memory.open(path, embedder="static", mode="ro") as memory:
        assert isinstance(memory.store, SqliteStore)
        assert memory.store.problems(deep=True) == []
        return memory.store.has_checksums()


def test_a_file_works_without_checksums_until_it_is_repaired(sound: Sound, path: Path) -> None:
    """Written, backed up, restored: with and without, into each other."""
    backup = path.with_name("backup.db")
    without_checksums(sound.content, path)
    with Memory.open(path, embedder="static") as memory:
        memory.key("ada").add_many([f"window {n} " * 60 for n in range(300)])
        memory.backup(backup)
    assert not has_checksums(path)
    assert not has_checksums(backup)
    other = path.with_name("other.db")
    with Memory.open(other, embedder="static") as memory:
        memory.key("bob").add_many([f"window {n} " * 60 for n in range(900)])
        memory.backup(path.with_name("sound.db"))
    assert has_checksums(path.with_name("sound.db"))
    Memory.restore(other, backup)  # a file with them from one without
    assert has_checksums(other)
    doctor = CliRunner().invoke(alveus, ["doctor", "--db", str(path)])
    assert "alveus doctor --repair adds them" in doctor.stdout
    assert "checksums given to every page" in Memory.repair(path)
    assert has_checksums(path)
    with Memory.open(path, embedder="static") as memory:
        assert len(memory.key("ada").list()) == 300


def test_a_file_without_checksums_takes_a_backup_that_has_them(sound: Sound, path: Path) -> None:
    """Each page is written with its checksum, also those that leave the cache early."""
    without_checksums(sound.content, path)
    backup = path.with_name("backup.db")
    with Memory.open(path.with_name("other.db"), embedder="static") as memory:
        memory.key("bob").add_many([f"window {n} " * 60 for n in range(900)])
        memory.backup(backup)
    Memory.restore(path, backup)
    assert has_checksums(path)


def test_a_file_with_checksums_is_not_written_without(
    sound: Sound, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where this apsw lacks the checksum VFS it is refused: it would be told as damaged later."""
    path.write_bytes(sound.content)
    monkeypatch.setattr(checksums, "vfs", lambda: None)
    with pytest.raises(Unsupported, match="install apsw as a wheel"):
        Memory.open(path)
    assert path.read_bytes() == sound.content
    with Memory.open(path.with_name("plain.db"), embedder="words") as memory:
        memory.key("ada").add("works")
        assert isinstance(memory.store, SqliteStore)
        assert not memory.store.has_checksums()


def test_the_default_way_to_files_stays_that_of_the_program(path: Path) -> None:
    """Other connections of the process do not go through the checksum VFS."""
    Memory.open(path, embedder="words").close()
    assert apsw.vfs_names()[0] != checksums.VFS
    assert checksums.VFS in apsw.vfs_names()


def test_a_stored_value_that_cannot_be_read_is_damage(path: Path) -> None:
    """Of a file without checksums, or one that somebody else wrote into."""
    with Memory.open(path, embedder="words") as memory:
        memory.key("ada").add({"text": "tea", "n": 1}, id="i")
        memory.key("ada").short_term.set("a", [1])
    for sql, read in (
        ("UPDATE item SET value = '{broken'", lambda m: m.key("ada").get("i")),
        ("UPDATE item SET metadata = '[1'", lambda m: m.key("ada").list()),
        ("UPDATE node SET value = '[1'", lambda m: m.key("ada").short_term.get("a")),
        ("UPDATE memory_set SET definition = '{'", lambda m: m.key("ada").list()),
        ("UPDATE item SET id = CAST(x'ff' AS TEXT)", lambda m: m.key("ada").list()),
    ):
        copy = path.with_name("copy.db")
        shutil.copy(path, copy)
        db = connect(copy)
        db.execute(sql)
        db.close()
        with Memory.open(copy, embedder="words", mode="ro") as memory:
            with pytest.raises(StoreDamaged):
                read(memory)
            assert isinstance(memory.store, SqliteStore)
            assert memory.store.problems(deep=True)
    for text in ("{", '{"$bytes": "?"}', '{"$int": "z"}', "[" * 100_000):
        with pytest.raises(StoreDamaged):
            wire.decode(text)
