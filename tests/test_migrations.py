"""Schemas: a new file and a migrated one are the same, and newer ones are refused."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import apsw
import pytest
from click.testing import CliRunner

from alveus import Memory
from alveus.cli import alveus
from alveus.errors import NotAStore, StoreTooNew, StoreTooOld, Unusable
from alveus.store import Definition, Scope, SetRef
from alveus.store.sqlite import SqliteStore, checksums
from alveus.store.sqlite.connection import (
    APPLICATION_ID,
    SCHEMA,
    add_word_functions,
    check,
    connect,
    migrate,
    migrations,
    sql,
)
from alveus.values import words
from old_stores import as_schema_1


def shape(db: apsw.Connection) -> dict[str, object]:
    """Return all that is declared in a file, without its comments."""
    found: dict[str, object] = {}
    for kind, name, text in db.execute("SELECT type, name, sql FROM sqlite_schema"):
        lines = (line.split("--", 1)[0] for line in (text or "").splitlines())
        found[f"{kind} {name}"] = re.sub(r"\s*([,()])\s*", r"\1", " ".join(" ".join(lines).split()))
        if kind == "table":
            found[f"columns {name}"] = db.execute(f"PRAGMA table_xinfo({name})").fetchall()
            found[f"options {name}"] = db.execute(f"PRAGMA table_list({name})").fetchall()
        if kind == "index":
            found[f"columns {name}"] = db.execute(f"PRAGMA index_xinfo({name})").fetchall()
    return found


def test_a_migrated_file_is_as_a_new_one() -> None:
    """schema.sql is the whole of it; the migrations, from nothing, lead to the same."""
    fresh, migrated = apsw.Connection(":memory:"), apsw.Connection(":memory:")
    fresh.execute(sql("schema.sql"))
    add_word_functions(migrated)
    for name in migrations().values():
        migrated.execute(sql(name))
    assert shape(fresh) == shape(migrated)
    assert len(shape(fresh)) > 20


@pytest.mark.parametrize(
    ("of", "changed"),
    [
        (1, "DROP TABLE run"),
        (1, "ALTER TABLE change DROP COLUMN rows"),
        (2, "DROP TABLE stub"),
        (2, "ALTER TABLE run DROP COLUMN erased"),
    ],
)
def test_a_schema_that_was_never_released_is_refused(tmp_path: Path, of: int, changed: str) -> None:
    """Before the first release a schema changed while it kept its number: nothing is changed."""
    path = tmp_path / "app.db"
    with closing(apsw.Connection(str(path))) as db:
        add_word_functions(db)
        for number in range(1, of + 1):
            db.execute(sql(migrations()[number]))
        db.execute(changed)
        db.pragma("application_id", APPLICATION_ID)
        db.pragma("user_version", of)
    with pytest.raises(Unusable, match=f"whose schema {of} was another"):
        Memory.open(path, embedder="words")
    with closing(apsw.Connection(str(path))) as db:
        assert db.pragma("user_version") == of


def test_migrations_are_numbered_without_gaps() -> None:
    """A file for each schema number, the last of which this code knows."""
    assert list(migrations()) == list(range(1, SCHEMA + 1))
    assert [name.split("/")[1][:5] for name in migrations().values()] == [
        f"{n:04}_" for n in range(1, SCHEMA + 1)
    ]


def test_a_file_is_brought_up_to_date_step_by_step(tmp_path: Path, monkeypatch) -> None:
    """From an earlier schema only the later scripts run, in one transaction."""
    path = tmp_path / "app.db"
    Memory.open(path, embedder="words").close()
    db = connect(path)
    before = shape(db)
    migrate(db, from_version=SCHEMA)
    assert shape(db) == before
    assert check(db, path) == SCHEMA
    assert db.pragma("application_id") == APPLICATION_ID
    db.close()


def test_a_migration_that_fails_leaves_the_file_as_it_was() -> None:
    """Half a schema is never there."""
    db = apsw.Connection(":memory:")
    db.execute("CREATE TABLE change (x)")  # in the way of the script's last table
    before = shape(db)
    with pytest.raises(apsw.SQLError):
        migrate(db, from_version=0)
    assert shape(db) == before
    assert db.pragma("user_version") == 0


@pytest.mark.parametrize("mode", ["rw", "ro"])
def test_a_newer_file_is_refused(tmp_path: Path, mode) -> None:
    """It says which schema it has, and is not changed."""
    path = tmp_path / "app.db"
    Memory.open(path, embedder="words").close()
    db = connect(path)
    db.pragma("user_version", SCHEMA + 1)
    db.close()
    before = path.read_bytes()
    with pytest.raises(StoreTooNew, match="upgrade") as caught:
        Memory.open(path, mode=mode)
    assert (caught.value.found, caught.value.known) == (SCHEMA + 1, SCHEMA)
    with pytest.raises(StoreTooNew):
        Memory.restore(tmp_path / "other.db", path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("mode", ["rw", "ro"])
def test_a_file_of_another_program_is_refused(tmp_path: Path, mode) -> None:
    """Whatever its version number says."""
    path = tmp_path / "other.db"
    db = apsw.Connection(str(path))
    db.execute("CREATE TABLE theirs (x)")
    db.pragma("user_version", SCHEMA)
    db.close()
    before = path.read_bytes()
    with pytest.raises(NotAStore, match=r"other\.db.*not an alveus store"):
        Memory.open(path, mode=mode)
    assert path.read_bytes() == before


def test_a_store_of_schema_1_is_what_it_was(tmp_path: Path) -> None:
    """Live items and ended ones, texts and other values: counted, found and capable of all."""
    made, path = tmp_path / "made.db", tmp_path / "app.db"
    with Memory.open(made, embedder="words") as memory:
        notes = memory.key("ada").set("notes", capacity=9)
        notes.add("green tea in the morning", id="i")
        notes.add({"text": "black coffee", "cups": 2}, id="j", metadata={"topic": "drinks"})
        notes.add("gone by now", id="gone")
        notes.update("i", "white tea in the morning")
        notes.delete("gone")
        memory.knowledge.set("handbook").add("tea is served at five")
        expected = [hit.item.id for hit in notes.search("tea coffee")]
    as_schema_1(made, path)
    with Memory.open(path) as memory:
        store = memory.store
        assert isinstance(store, SqliteStore)
        assert store.problems(deep=True) == []
        assert store.has_checksums()
        notes = memory.key("ada").set("notes")
        assert [item.version for item in notes.list()] == [2, 1]
        assert [hit.item.id for hit in notes.search("tea coffee")] == expected
        info = store.set_info(SetRef(Scope("default", "ada"), "notes"))
        assert info is not None
        assert (info.items, info.tokens) == (2, sum(f.tokens for f in store.features(info.number)))
        assert info.tokens > 4
        assert (info.next_expiry, info.has_validity) == (None, False)
        assert info.definition == Definition(capacity=9)
        notes.delete("j")
        notes.add("mint tea")
        assert store.problems() == []


def test_who_only_reads_is_told_to_upgrade(tmp_path: Path) -> None:
    """What an earlier schema lacks is no damage, to calls and to commands, nor in a backup."""
    made, path = tmp_path / "made.db", tmp_path / "old.db"
    with Memory.open(made, embedder="words") as memory:
        memory.key("ada").add("green tea")
    as_schema_1(made, path)
    with Memory.open(path, mode="ro") as memory:
        for call in (memory.stats, memory.key("ada").list, lambda: memory.key("ada").search("tea")):
            with pytest.raises(StoreTooOld, match="has schema 1, this alveus needs 6; run: alveus"):
                call()
    command = CliRunner()
    told = command.invoke(alveus, ["doctor", "--db", str(path)])
    assert (told.exit_code, "run: alveus upgrade" in told.stdout) == (1, True)
    words = ["restore", str(path), "--db", str(made), "--yes"]
    assert "made.db now holds what is in" in command.invoke(alveus, words).stdout
    assert "schema 6" in command.invoke(alveus, ["upgrade", "--db", str(path)]).stdout
    for file in (path, made):
        assert (
            "green tea" in command.invoke(alveus, ["list", "--db", str(file), "-k", "ada"]).stdout
        )


@pytest.mark.parametrize("deep", [[], ["--deep"]])
def test_doctor_says_what_becomes_of_an_earlier_schema(tmp_path: Path, deep) -> None:
    """That it is upgraded and how, beforehand; what words read of a text today is no damage."""
    path = tmp_path / "app.db"
    with Memory.open(path, embedder="words") as memory:
        memory.key("ada").add("tea " * 150)
    command = CliRunner()
    now = command.invoke(alveus, ["doctor", "--db", str(path), *deep])
    assert f"✓ schema       {SCHEMA}\n" in now.stdout
    with closing(connect(path)) as db:
        db.execute("UPDATE feature SET terms = x'00'")
        db.pragma("user_version", SCHEMA - 1)
    told = command.invoke(alveus, ["doctor", "--db", str(path), *deep])
    assert told.exit_code == 0, told.stdout
    (line,) = [line for line in told.stdout.splitlines() if " schema  " in line]
    assert line.startswith(f"• schema       {SCHEMA - 1}, of an earlier alveus")
    assert "Take a backup before" in line
    assert "alveus upgrade" in line


NO_CHECKSUMS = """
import sys
from alveus import Memory
from alveus.store.sqlite import checksums
checksums.vfs = lambda: None
with Memory.open(sys.argv[1]) as memory:
    print(memory.key("ada").add("mint tea", id="m"))
"""


def test_an_old_file_is_opened_where_pages_get_no_checksums(tmp_path: Path) -> None:
    """The log goes while they would be added, and is there again before anybody asks for it."""
    made, path = tmp_path / "made.db", tmp_path / "old.db"
    with Memory.open(made, embedder="words") as memory:
        memory.key("ada").add("green tea")
    as_schema_1(made, path)
    words = [sys.executable, "-c", NO_CHECKSUMS, str(path)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["m"], done.stderr
    with Memory.open(path) as memory:
        assert [item.text for item in memory.key("ada").list()] == ["green tea", "mint tea"]


def test_words_read_old_items_as_new_ones(tmp_path: Path) -> None:
    """Passages and marks that a file of before schema 6 has not are read when it is opened."""
    texts = ["tea " * 150, "Any tea?", "always serve tea", "tea", "\u8336\u6c34 " * 200]
    made, path = tmp_path / "made.db", tmp_path / "app.db"
    with Memory.open(made, embedder="words") as memory:
        notes = memory.key("ada").set("notes")
        notes.add_many(texts)
        expected = [(h.item.text, h.score, dict(h.parts)) for h in notes.search("tea \u8336\u6c34")]
    with apsw.Connection(str(made)) as db:
        for text in texts[:3] + texts[4:]:
            terms = words.pack(words.unpack(words.analyse(text).packed)[0].tolist())[0]
            row = "(SELECT row FROM item WHERE text = ?)"
            query = f"UPDATE feature SET terms = ?, tokens = 7 WHERE row = {row}"  # noqa: S608 - ours
            db.execute(query, (terms, text))
            db.execute("UPDATE item SET tokens = 7 WHERE text = ?", (text,))
    as_schema_1(made, path)
    with Memory.open(path) as memory:
        assert isinstance(memory.store, SqliteStore)
        assert memory.store.problems(deep=True) == []
        hits = memory.key("ada").set("notes").search("tea \u8336\u6c34")
        assert [(h.item.text, h.score, dict(h.parts)) for h in hits] == expected


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
