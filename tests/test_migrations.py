"""Schemas: what migrates a file, by a step that is made up, and what refuses one."""

from __future__ import annotations

import ast
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import apsw
import pytest
from click.testing import CliRunner

from alveus import Memory
from alveus.cli import alveus
from alveus.errors import NotAStore, StoreTooNew, StoreTooOld
from alveus.store.postgres import schema as postgres_schema
from alveus.store.sql.connection import migrations
from alveus.store.sqlite import SqliteStore, checksums, schema
from alveus.store.sqlite.connection import connect
from made_up_step import AFTER, BEFORE, STEP, add_step, as_before
from scale import COUNTS

Ids = list[tuple[str, float]]


def shape(db: apsw.Connection) -> dict[str, object]:
    """Return all that is declared in a file, without its comments."""
    found: dict[str, object] = {}
    for kind, name, text in db.execute("SELECT type, name, sql FROM sqlite_schema"):
        lines = (line.split("--", 1)[0] for line in (text or "").splitlines())
        found[f"{kind} {name}"] = re.sub(r"\s*([,()])\s*", r"\1", " ".join(" ".join(lines).split()))
    return found


def contents(memory: Memory) -> Ids:
    """Return the ids of the items of a key, and how important each is."""
    return [(item.id, item.importance) for item in memory.key("ada").list()]


@pytest.fixture
def expected(tmp_path: Path) -> Ids:
    """Make a file of the schema before the made-up step; return what it holds."""
    path = tmp_path / "app.db"
    with Memory.open(path, embedder="words") as memory:
        ada = memory.key("ada")
        for number in range(50):
            ada.add(f"green tea {number}", id=f"i{number}", importance=number / 100)
        ada.set("default").update("i0", "white tea")
        ada.set("default").delete("i1")
        found = contents(memory)
    as_before(path)
    return found


@pytest.mark.parametrize("of", [schema, postgres_schema], ids=["sqlite", "postgres"])
def test_each_schema_after_the_first_has_a_script_that_leads_to_it(of) -> None:
    """Without gaps, in both stores."""
    assert [*migrations(of.MIGRATIONS, after=1)] == [*range(2, of.SCHEMA + 1)]


def test_only_later_scripts_are_made_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    """What is in the folder besides them is none."""
    for name in ("0003_three.sql", "0002_two.sql", "0010_ten.sql", "notes.txt"):
        (tmp_path / name).write_text(name, encoding="utf-8")
    assert migrations(tmp_path, after=2) == {3: "0003_three.sql", 10: "0010_ten.sql"}
    assert [*migrations(tmp_path, after=0)] == [2, 3, 10]
    assert migrations(tmp_path / "none", after=0) == {}


@pytest.mark.usefixtures("expected")
def test_a_migrated_file_is_as_a_new_one(tmp_path: Path, monkeypatch) -> None:
    """What the step declares is what `schema.sql` says."""
    add_step(monkeypatch, tmp_path)
    for name in ("app.db", "new.db"):
        Memory.open(tmp_path / name, embedder="words").close()
    with (
        closing(connect(tmp_path / "app.db")) as migrated,
        closing(connect(tmp_path / "new.db")) as fresh,
    ):
        assert shape(migrated) == shape(fresh)
        assert len(shape(fresh)) > 20
        for db in (migrated, fresh):
            assert db.pragma("user_version") == AFTER
            assert db.pragma("application_id") == schema.APPLICATION_ID


def test_who_opens_a_file_to_write_migrates_it(tmp_path: Path, monkeypatch, expected: Ids) -> None:
    """Once, and with all that it holds; it goes on as any other file does."""
    add_step(monkeypatch, tmp_path)
    for _ in range(2):
        with Memory.open(tmp_path / "app.db") as memory:
            assert contents(memory) == expected
            assert isinstance(memory.store, SqliteStore)
            assert memory.store.problems(deep=True) == []
            assert len(memory.key("ada").search("tea", limit=99)) == len(expected)
    with Memory.open(tmp_path / "app.db") as memory:
        memory.key("ada").set("default").delete("i2")
        memory.key("ada").add("mint tea", id="new")
        assert isinstance(memory.store, SqliteStore)
        assert memory.store.problems(deep=True) == []


def test_a_migration_that_fails_leaves_the_file_as_it_was(
    tmp_path: Path, monkeypatch, expected: Ids
) -> None:
    """Half a step is never there, and the step can be made later."""
    path = tmp_path / "app.db"
    with closing(connect(path)) as db:
        before = shape(db)
    with monkeypatch.context() as patch:
        add_step(patch, tmp_path, f"{STEP} CREATE TABLE run (x);")
        with pytest.raises(apsw.SQLError, match="run already exists"):
            Memory.open(path)
    with closing(connect(path)) as db:
        assert shape(db) == before
        assert db.pragma("user_version") == BEFORE
    add_step(monkeypatch, tmp_path)
    with Memory.open(path) as memory:
        assert contents(memory) == expected


def test_a_new_file_that_fails_stays_empty() -> None:
    """Half a schema is never there."""
    db = apsw.Connection(":memory:")
    db.execute("CREATE TABLE change (x)")  # in the way of the script
    before = shape(db)
    with pytest.raises(apsw.SQLError):
        schema.migrate(db, from_version=0)
    assert shape(db) == before
    assert db.pragma("user_version") == 0


KILLED = """
import os, signal, sys
from pathlib import Path
from alveus import Memory
from alveus.store.sqlite import schema
path, folder, steps = sys.argv[1:]
schema.MIGRATIONS, schema.SCHEMA = Path(folder) / "migrations", schema.SCHEMA + 1
migrate = schema.migrate
def watched(db, *, from_version):
    db.set_progress_handler(lambda: os.kill(os.getpid(), signal.SIGKILL), int(steps))
    migrate(db, from_version=from_version)
    os.kill(os.getpid(), signal.SIGKILL)
schema.migrate = watched
Memory.open(path)
"""


def test_a_migration_that_is_killed_is_made_by_the_next_opening(
    tmp_path: Path, monkeypatch, expected: Ids
) -> None:
    """At any step of SQLite, and after the last one: nothing is lost, and all is migrated."""
    path, source = tmp_path / "app.db", (tmp_path / "app.db").read_bytes()
    add_step(monkeypatch, tmp_path)
    found = set[int]()
    steps = [round(20 * 1.5**part) for part in range(max(3, COUNTS.kills // 12))]
    for step in [*steps, 1 << 30]:
        path.write_bytes(source)
        words = [sys.executable, "-c", KILLED, str(path), str(tmp_path), str(step)]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        assert done.returncode == -signal.SIGKILL, done.stderr
        with closing(connect(path)) as db:
            found.add(db.pragma("user_version"))
        with Memory.open(path) as memory:
            assert contents(memory) == expected
            assert isinstance(memory.store, SqliteStore)
            assert memory.store.problems(deep=True) == []
        for file in tmp_path.glob("app.db-*"):
            file.unlink()
    assert found == {BEFORE, AFTER}


@pytest.mark.parametrize("mode", ["rw", "ro"])
def test_a_newer_file_is_refused(tmp_path: Path, mode) -> None:
    """It says which schema it has, and is not changed."""
    path = tmp_path / "app.db"
    Memory.open(path, embedder="words").close()
    db = connect(path)
    db.pragma("user_version", schema.SCHEMA + 1)
    db.close()
    before = path.read_bytes()
    with pytest.raises(StoreTooNew, match="upgrade") as caught:
        Memory.open(path, mode=mode)
    assert (caught.value.found, caught.value.known) == (schema.SCHEMA + 1, schema.SCHEMA)
    with pytest.raises(StoreTooNew):
        Memory.restore(tmp_path / "other.db", path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("mode", ["rw", "ro"])
def test_a_file_of_another_program_is_refused(tmp_path: Path, mode) -> None:
    """Whatever its version number says."""
    path = tmp_path / "other.db"
    db = apsw.Connection(str(path))
    db.execute("CREATE TABLE theirs (x)")
    db.pragma("user_version", schema.SCHEMA)
    db.close()
    before = path.read_bytes()
    with pytest.raises(NotAStore, match=r"other\.db.*not an alveus store"):
        Memory.open(path, mode=mode)
    assert path.read_bytes() == before


def test_who_only_reads_does_not_migrate(tmp_path: Path, monkeypatch, expected: Ids) -> None:
    """What the schema before lacks is no damage, to calls and to commands, nor in a backup."""
    path, other = tmp_path / "app.db", tmp_path / "other.db"
    add_step(monkeypatch, tmp_path)
    with Memory.open(path, mode="ro") as memory:
        calls: list[Callable[[], object]] = [memory.stats, memory.key("ada").list]
        for call in calls:
            says = f"has schema {BEFORE}, but alveus needs {AFTER}; run: alveus upgrade"
            with pytest.raises(StoreTooOld, match=says):
                call()
        memory.backup(tmp_path / "backup.db")
    command = CliRunner()
    told = command.invoke(alveus, ["doctor", "--db", str(path)])
    assert (told.exit_code, "run: alveus upgrade" in told.stdout) == (1, True)
    words = ["restore", str(tmp_path / "backup.db"), "--db", str(other), "--yes"]
    assert "other.db now holds what is in" in command.invoke(alveus, words).stdout
    upgraded = command.invoke(alveus, ["upgrade", "--db", str(path)])
    assert upgraded.stdout == f"the memory has schema {AFTER}\n"
    for file in (path, other, tmp_path / "backup.db"):
        with Memory.open(file) as memory:
            assert contents(memory) == expected


@pytest.mark.parametrize("deep", [[], ["--deep"]])
def test_doctor_says_what_becomes_of_an_earlier_schema(
    tmp_path: Path, monkeypatch, expected: Ids, deep
) -> None:
    """That it is upgraded and how, beforehand; what words read of a text by then is no damage."""
    path, command = tmp_path / "app.db", CliRunner()
    with monkeypatch.context() as patch:
        add_step(patch, tmp_path)
        Memory.open(path).close()
        now = command.invoke(alveus, ["doctor", "--db", str(path), *deep])
        assert f"✓ schema       {AFTER}\n" in now.stdout
    with closing(connect(path)) as db:
        db.execute("UPDATE feature SET terms = x'00'")
        db.pragma("user_version", BEFORE)
    add_step(monkeypatch, tmp_path)
    told = command.invoke(alveus, ["doctor", "--db", str(path), *deep])
    assert told.exit_code == 0, told.stdout
    (line,) = [line for line in told.stdout.splitlines() if " schema  " in line]
    assert line.startswith(f"• schema       {BEFORE}, of an earlier alveus")
    assert "Take a backup before" in line
    assert "alveus upgrade" in line


def test_opening_a_file_writes_nothing(tmp_path):
    """Its schema is looked at, and brought up only where it is an earlier one."""
    path, log = tmp_path / "m.db", tmp_path / "m.db-wal"
    with Memory.open(path, embedder="words") as memory:
        memory.key("ada").add("x")
        before = log.read_bytes()
        for _ in range(3):
            Memory.open(path, embedder="words").close()
        assert log.read_bytes() == before


def test_opening_a_file_imports_little(tmp_path):
    """What takes longer to import than a file to open is imported where it is needed."""
    asked = (
        "import sys; from alveus import Memory; before = set(sys.modules)\n"
        "Memory.open(sys.argv[1]).close(); print(sorted(set(sys.modules) - before))"
    )
    words = [sys.executable, "-c", asked, str(tmp_path / "m.db")]
    told = subprocess.run(words, capture_output=True, text=True, check=True)
    new = ast.literal_eval(told.stdout)
    assert "alveus.store.sqlite" in new
    assert not {"importlib.resources", "shutil", "socket", "tempfile", "zipfile"} & set(new)


def test_the_checksum_vfs_is_found_wherever_apsw_keeps_it(tmp_path, monkeypatch):
    """At its usual place at once, elsewhere by apsw's own look-up, or it is missing."""
    for place in (apsw.__file__, str(tmp_path / "apsw.so")):
        monkeypatch.setattr(apsw, "__file__", place)
        assert checksums._file().stem == "cksumvfs"
    monkeypatch.setattr(checksums, "_EXTENSION", "nothing")
    with pytest.raises(LookupError):
        checksums._file()
