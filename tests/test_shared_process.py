"""What alveus has in common with other code of its process: neither changes the other.

Libraries with native parts, each in an environment with alveus, are in tests/neighbours.
"""

from __future__ import annotations

import ctypes
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from alveus import Memory
from alveus.errors import Unsupported
from alveus.store.sqlite import SqliteStore, checksums
from alveus.values.sqlite_connections import PlainConnection
from compiling import compiled_in, exported


def test_what_alveus_compiles_exports_nothing_but_its_entry(tmp_path):
    """Python calls that by its name; no other library may find one of ours instead of its own."""
    module = compiled_in(tmp_path)
    if module is not None:
        assert exported(Path(str(module.__file__))) == {"PyInit__native"}


AT_WORK = """
import ctypes, os, sys
import apsw
from alveus import Memory

def state():
    with apsw.Connection(":memory:") as db:
        functions = set(db.execute("SELECT name FROM pragma_function_list"))
        settings = [db.pragma(name) for name in ("foreign_keys", "recursive_triggers")]
    return apsw.vfs_names()[0], list(apsw.connection_hooks), functions, settings

before = state()
with Memory.open(sys.argv[1]) as memory:
    memory.key("ada").add("green tea")
    assert memory.key("ada").search("tea")
    assert state() == before
assert state() == before
everybody = ctypes.CDLL(None)
print([name for name in sys.argv[2:] if hasattr(everybody, name)])
maps = "/proc/self/maps"  # of Linux
print(os.path.exists(maps) and sum("sqlite_extra" in line for line in open(maps)))
"""


def test_alveus_at_work_adds_nothing_to_its_process(tmp_path):
    """No name that others could bind to, no default, no function of the program's connections."""
    names = ["sqlite3_api", "sqlite3_cksumvfs_init", "PyInit__native"]
    words = [sys.executable, "-c", AT_WORK, str(tmp_path / "m.db"), *names]
    told = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (told.stdout.split()[0], told.stderr) == ("[]", "")
    assert told.stdout.split()[1] in ("0", "False")


def test_the_hooks_of_the_program_do_not_see_connections_of_alveus(tmp_path, monkeypatch):
    """They are for its own, which get them also while alveus opens one; whatever they raise."""
    seen: list[apsw.Connection] = []

    def hook(connection: apsw.Connection) -> None:
        assert not isinstance(connection, PlainConnection)
        connection.pragma("journal_mode", "wal")
        connection.pragma("foreign_keys", True)
        seen.append(connection)

    monkeypatch.setattr(apsw, "connection_hooks", [hook])
    hooks = apsw.connection_hooks
    with Memory.open(tmp_path / "m.db", embedder="words") as memory:
        memory.key("ada").add("green tea")
        assert memory.key("ada").search("tea")
        assert isinstance(memory.store, SqliteStore)
        assert memory.store.has_checksums()
    assert not seen
    assert apsw.connection_hooks is hooks
    with closing(apsw.Connection(":memory:")) as db:
        assert seen == [db]


def test_a_hook_that_is_added_while_alveus_opens_a_connection_stays(tmp_path, monkeypatch):
    """As one that another thread adds; that thread's connections have all hooks meanwhile."""
    calls: list[str] = []

    def first(_connection: apsw.Connection) -> None:
        calls.append("first")

    def second(_connection: apsw.Connection) -> None:
        calls.append("second")

    monkeypatch.setattr(apsw, "connection_hooks", [first])
    hooks = apsw.connection_hooks

    def meanwhile() -> None:
        apsw.connection_hooks.append(second)
        apsw.Connection(":memory:").close()

    class Opening(apsw.VFS):
        def xFullPathname(self, name: str) -> str:  # noqa: N802 - SQLite's name
            thread = threading.Thread(target=meanwhile)
            thread.start()
            thread.join()
            return super().xFullPathname(name)

    vfs = Opening("opening", "unix")
    PlainConnection(str(tmp_path / "a.db"), vfs="opening").close()
    vfs.unregister()
    assert apsw.connection_hooks is hooks
    assert hooks == [first, second]
    assert calls == ["first", "second"]


def test_the_default_vfs_of_the_program_is_not_alveus(tmp_path):
    """A store is opened by the checksum VFS on the system's, whichever is the default."""
    opened: list[object] = []

    class Default(apsw.VFS):
        def xOpen(self, name, flags):  # noqa: N802 - SQLite's name
            opened.append(name)
            return super().xOpen(name, flags)

    default = Default("the program's", "", makedefault=True)
    try:
        with Memory.open(tmp_path / "m.db", embedder="words") as memory:
            memory.key("ada").add("green tea")
            assert isinstance(memory.store, SqliteStore)
            assert memory.store.has_checksums()
        assert apsw.vfs_names()[0] == "the program's"
    finally:
        default.unregister()
    assert not opened
    assert checksums.VFS in apsw.vfs_names()


SETTINGS = """
import sys, threading
import apsw
apsw.shutdown()
{setting}
from alveus import Memory, errors
try:
    with Memory.open(sys.argv[1], embedder="words") as memory:
        def work(n):
            for i in range(5):
                memory.key(f"k{{n % 2}}").add("green tea " * 50, id=f"{{n}} {{i}}")
                memory.key(f"k{{n % 2}}").search("tea")
        threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert memory.store.problems(deep=True) == [] and memory.store.has_checksums()
    print("works")
except errors.Unsupported as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("apsw.config(apsw.SQLITE_CONFIG_MULTITHREAD)", "works"),
        ("apsw.config(apsw.SQLITE_CONFIG_SINGLETHREAD)", "one thread"),
        ("apsw.config(apsw.SQLITE_CONFIG_MMAP_SIZE, 1 << 28, 1 << 30)", "works"),
        ("apsw.config(apsw.SQLITE_CONFIG_URI, 1)", "works"),
        ("apsw.soft_heap_limit(200_000)", "limits SQLite's memory"),
        ("apsw.config(apsw.SQLITE_CONFIG_LOG, lambda code, message: None)", "works"),
    ],
)
def test_settings_of_sqlite_by_the_program_leave_alveus_as_it_is(tmp_path, setting, said):
    """Or one clear error says which of them alveus cannot live with."""
    words = [sys.executable, "-c", SETTINGS.format(setting=setting), str(tmp_path / "m.db")]
    told = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (said in told.stdout, told.stderr) == (True, "")


def test_a_limit_of_memory_that_the_program_sets_later_is_refused(tmp_path):
    """By the next connection, also of a store that is open."""
    with Memory.open(tmp_path / "app.db", embedder="words") as memory:
        memory.key("ada").add("tea")
    apsw.soft_heap_limit(200_000)
    try:
        with pytest.raises(Unsupported, match="limits SQLite's memory"):
            Memory.open(tmp_path / "app.db", embedder="words")
    finally:
        apsw.soft_heap_limit(0)
    with Memory.open(tmp_path / "app.db", embedder="words") as memory:
        assert [item.value for item in memory.key("ada").list()] == ["tea"]


def test_without_a_file_in_memory_the_checksum_vfs_comes_from_a_temporary_one(monkeypatch):
    """As on macOS, or where a sandbox forbids it; nothing of it stays."""
    monkeypatch.delattr("os.memfd_create", raising=False)
    library = checksums._library(checksums._file().read_bytes())
    assert isinstance(library, ctypes.CDLL)
    assert library.sqlite3_cksumvfs_init
    assert not Path(library._name).exists()
