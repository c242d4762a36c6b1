"""The door: opening, closing, what a memory says of itself, and what several of them see."""

from __future__ import annotations

import re
import subprocess
import sys
from copy import copy
from datetime import datetime, timedelta
from enum import Enum
from pathlib import Path
from typing import Any, cast

import pytest

from alveus import AsyncMemory, Memory, Ttl
from alveus.errors import (
    EmbedderConflict,
    InvalidInput,
    InvalidName,
    InvalidTime,
    InvalidValue,
    NotAStore,
    NotFound,
    StoreBusy,
    StoreClosed,
    StoreDamaged,
    StoreReadOnly,
    Unsupported,
)
from alveus.store import Scope
from alveus.store.sqlite import SqliteStore
from doors import START, Clock, Letters
from hardship import DROP_RIGHTS, closed_folder, shut
from waiting import LIMIT_S


def texts(memory: Memory, key: str = "ada") -> list[str | None]:
    return [item.text for item in memory.key(key).list()]


@pytest.mark.parametrize("url", ["{}", "sqlite:///{}"])
def test_a_path_and_its_url_are_one_store(tmp_path: Path, url: str) -> None:
    """A path goes as it is; sqlite:/// goes before the whole of it."""
    path = tmp_path / "app.db"
    with Memory.open(path, embedder="words") as memory:
        memory.key("ada").add("x")
    with Memory.open(url.format(path)) as memory:
        assert texts(memory) == ["x"]
        assert memory.store.location == str(path)


def test_a_relative_path_is_found_from_here(tmp_path: Path, monkeypatch) -> None:
    """Where the process is decides; later changes of folder do not move the store."""
    monkeypatch.chdir(tmp_path)
    with Memory.open("sqlite:///app.db", embedder="words") as memory:
        memory.key("ada").add("x")
        monkeypatch.chdir("/")
        memory.key("ada").add("y")
        assert texts(memory) == ["x", "y"]
    assert (tmp_path / "app.db").exists()


def test_ram_keeps_nothing() -> None:
    """A memory in RAM is empty each time, and is nobody else's."""
    with Memory.open(embedder="words") as one, Memory.open(":memory:", embedder="words") as two:
        one.key("ada").add("x")
        assert texts(two) == []


@pytest.mark.parametrize(
    ("settings", "error", "words"),
    [
        ({"url": "mysql://host/db"}, Unsupported, "mysql"),
        ({"url": ""}, InvalidInput, "path"),
        ({"url": b"app.db"}, InvalidInput, "path"),
        ({"mode": "wr"}, InvalidInput, "mode"),
        ({"durability": "half"}, InvalidInput, "durability"),
        ({"mode": "ro"}, StoreReadOnly, "RAM"),
        ({"space": ""}, InvalidName, "space"),
        ({"knowledge": ""}, InvalidName, "knowledge"),
        ({"space": 7}, InvalidName, "space"),
        ({"embedder": "nobody"}, InvalidInput, "nobody"),
        ({"embedder": 7}, InvalidInput, "embedder"),
        ({"url": "no/such/folder/app.db"}, NotFound, "folder"),
        ({"url": "none.db", "mode": "ro"}, NotFound, "none.db"),
    ],
)
def test_bad_settings_are_named(tmp_path: Path, monkeypatch, settings, error, words: str) -> None:
    """Nothing is opened, and nothing made."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error, match=words):
        Memory.open(**settings)
    assert list(tmp_path.iterdir()) == []


def test_closing_twice_is_fine_and_then_nothing_works(tmp_path: Path) -> None:
    """A closed memory says so in every call, on a file and in RAM."""
    for url in (tmp_path / "app.db", ":memory:"):
        memory = Memory.open(url, embedder=Letters())
        ada = memory.key("ada")
        item_id = ada.add("x")
        batch = ada.batch()
        memory.close()
        memory.close()
        for call in (
            lambda ada=ada: ada.add("y"),
            lambda ada=ada: ada.list(),
            lambda ada=ada, i=item_id: ada.get(i),
            lambda ada=ada: ada.search("x"),
            lambda ada=ada: ada.sets(),
            lambda ada=ada: ada.short_term.set("a", 1),
            lambda ada=ada: ada.short_term.get("a"),
            batch.__enter__,
            memory.stats,
            memory.sweep,
            lambda memory=memory: list(memory.keys()),
            lambda memory=memory: memory.knowledge.set("s").add("x"),
        ):
            with pytest.raises(StoreClosed):
                call()


def test_nothing_of_a_store_is_left_open(tmp_path: Path) -> None:
    """Closed, a memory gives back every descriptor and thread; so does one that failed to open."""
    fds = Path("/proc/self/fd")
    before = len(list(fds.iterdir()))
    text = tmp_path / "notes.txt"
    text.write_text("not a database, but long enough to be read as a header " * 20)
    for n in range(20):
        with Memory.open(tmp_path / "app.db", embedder=Letters(instant=False)) as memory:
            memory.key("ada").add(f"x{n}")
            memory.key("ada").search("x")
        with pytest.raises(NotAStore):
            Memory.open(text, embedder="words")
        with pytest.raises(EmbedderConflict):
            Memory.open(tmp_path / "app.db", embedder="words")
    assert len(list(fds.iterdir())) <= before + 2


def test_two_memories_on_one_file_see_each_others_writes_at_once(tmp_path: Path) -> None:
    """What returned is seen by the next call of the other: items, search, tree, sets, keys."""
    path = tmp_path / "app.db"
    with Memory.open(path, embedder=Letters()) as one, Memory.open(path, embedder=Letters()) as two:
        for n in range(20):
            writer, reader = (one, two) if n % 2 else (two, one)
            key = f"key {n % 3}"
            item_id = writer.key(key).add(f"text number {n}")
            assert reader.key(key).get(item_id) is not None
            assert reader.key(key).search(f"number {n}", limit=1)[0].item.id == item_id
            writer.key(key).short_term.set("n", n)
            assert reader.key(key).short_term.get("n") == n
            assert reader.key(key).short_term.increment("n") == n + 1
            assert writer.key(key).short_term.get("n") == n + 1
            reader.key(key).delete(item_id)
            assert writer.key(key).get(item_id) is None
            assert list(writer.keys()) == list(reader.keys())
        assert one.stats().store.commits == two.stats().store.commits == 80


def test_keys_page_in_code_point_order(tmp_path: Path) -> None:
    """All keys of the space, whatever characters they have, more than a page of them."""
    odd = ["a", "a\0b", "a\x01", "Z", "é", "\U0001f98a", "\uffff", " ", "%", "key'--"]
    names = sorted([*odd, *(f"k{n}" for n in range(1_010))])
    for url in (tmp_path / "app.db", ":memory:"):
        with Memory.open(url, embedder="words", durability="normal") as memory:
            for name in names:
                memory.key(name).add("x")
            assert list(memory.keys()) == names
            assert memory.stats().store.keys == len(names)


def test_what_is_only_looked_at_makes_no_key(tmp_path: Path) -> None:
    """Opening a key, a set, a knowledge, and reading them writes nothing."""
    with Memory.open(tmp_path / "app.db", embedder="words") as memory:
        ada = memory.key("ada")
        ada.set("notes", capacity=3)
        assert ada.list() == []
        assert ada.search("x") == ()
        assert memory.knowledge.sets() == []
        assert ada.short_term.to_dict() == {}
        with ada.batch():
            pass
        assert list(memory.keys()) == []
        assert memory.stats().store.commits == 0


def test_a_space_and_a_knowledge_remember_their_embedder(tmp_path: Path) -> None:
    """Asked for none it is theirs; asked for another it is refused, and all stays as it was."""
    path = tmp_path / "app.db"
    Memory.open(path, embedder="words").close()
    with Memory.open(path) as memory:
        assert memory.embedder.name == "words"
        assert memory.stats().embedder == "words"
    with pytest.raises(EmbedderConflict, match=r"default.*words.*letters"):
        Memory.open(path, embedder=Letters())
    with Memory.open(path, space="other", embedder=Letters()) as memory:
        assert memory.embedder.name == "letters"
    with pytest.raises(EmbedderConflict, match="'default'"):
        Memory.open(path, space="third", knowledge="default", embedder=Letters())
    with Memory.open(path, space="third", knowledge="default") as memory:
        assert memory.embedder.name == "words", "a refused opening was remembered"
    with pytest.raises(EmbedderConflict, match="'other'"):
        Memory.open(path, space="default", knowledge="other")


def test_knowledge_of_two_spaces_is_one(tmp_path: Path) -> None:
    """By default a knowledge has the name of its space; who names it shares it; no key does."""
    path = tmp_path / "app.db"
    with (
        Memory.open(path, space="a", embedder=Letters()) as a,
        Memory.open(path, space="b", knowledge="a", embedder=Letters()) as b,
        Memory.open(path, space="c", embedder=Letters()) as c,
    ):
        assert (a.knowledge.name, b.knowledge.name, c.knowledge.name) == ("a", "a", "c")
        b.knowledge.set("facts").add("Bees dance.")
        a.key("ada").add("private")
        assert [h.item.text for h in a.knowledge.search("bees")] == ["Bees dance."]
        assert c.knowledge.sets() == []
        assert list(b.keys()) == []
        assert b.key("ada").search("private") == ()
        assert a.stats().knowledge == b.stats().knowledge == "a"


def test_the_clock_gives_every_time(tmp_path: Path) -> None:
    """Times of items, expiries and as_of come from the clock that was passed; it may go back."""
    for url in (tmp_path / "app.db", ":memory:"):
        clock = Clock()
        with Memory.open(
            url, embedder="words", clock=clock, short_term_ttl=Ttl(timedelta(hours=1))
        ) as memory:
            ada = memory.key("ada")
            item = ada.get(ada.add("x"))
            assert item is not None
            assert item.created is not None
            assert START < item.created <= clock.now
            ada.short_term.set("a", 1)
            clock.move(minutes=59)
            assert ada.short_term.get("a") == 1
            clock.move(minutes=2)
            assert ada.short_term.get("a") is None
            clock.move(days=-300)
            again = ada.get(ada.add("y"))
            assert again is not None
            assert again.created is not None
            assert again.created >= item.created, "a commit's time went back"
            clock.elapse(days=301)
            assert memory.sweep() >= 1
            assert memory.sweep() == 0


def test_a_clock_without_a_zone_is_refused() -> None:
    """Its meaning would depend on the machine."""
    with pytest.raises(InvalidTime, match="clock"):
        Memory.open(embedder="words", clock=lambda: datetime(2026, 1, 1))  # noqa: DTZ001 - on purpose


def test_figures_tell_what_is_there(tmp_path: Path) -> None:
    """Commits, keys, sets, items, nodes, what waits and for how long, files, leases."""
    clock = Clock()
    slow = Letters(instant=False)
    slow.broken = RuntimeError("not now")
    with Memory.open(tmp_path / "app.db", embedder=slow, clock=clock, space="app") as memory:
        ada = memory.key("ada")
        ada.add_many(["a", "b"])
        ada.short_term.set("x.y", 1)
        memory.store.acquire_lease(Scope("app", "ada"), "me")
        clock.move(seconds=90)
        stats = memory.stats()
        assert (stats.space, stats.knowledge, stats.embedder) == ("app", "app", "letters")
        assert stats.location == str(tmp_path / "app.db")
        assert (stats.store.commits, stats.store.keys, stats.store.sets) == (2, 1, 1)
        assert (stats.store.items, stats.store.item_versions, stats.store.nodes) == (2, 2, 2)
        assert stats.pending == 2
        assert 90 <= stats.queue_age_s < 91
        assert stats.store.file_bytes + stats.wal_bytes > 4096
        assert [(lease.scope.key, lease.owner) for lease in stats.leases] == [("ada", "me")]
        slow.broken = None
        assert memory.settle(LIMIT_S)
        assert (memory.stats().pending, memory.stats().queue_age_s) == (0, 0)
        assert "app.db" in repr(memory)
        assert memory.space == "app"


def test_settle_says_when_it_is_not_in_time(tmp_path: Path) -> None:
    """It embeds a batch at least, tells how far it is, and gives up after the time given."""
    with Memory.open(tmp_path / "app.db", embedder=Letters(instant=False)) as memory:
        memory._engine.worker._stop.set()  # nobody embeds in the background
        memory.key("ada").add_many([f"n{i}" for i in range(100)])
        done: list[int] = []
        assert not memory.settle(0, progress=done.append)
        assert memory.stats().pending == 100 - sum(done)
        assert memory.settle(60, progress=done.append)
        assert sum(done) == 100
        assert memory.settle(0)


def test_reading_only(tmp_path: Path) -> None:
    """mode="ro" reads everything, changes nothing, sees a writer's changes, and says what it is."""
    path = tmp_path / "app.db"
    with Memory.open(path, embedder=Letters()) as writer:
        writer.key("ada").add("green tea", id="x")
        writer.key("ada").short_term.set("a", 1)
        with Memory.open(path, embedder=Letters(), mode="ro") as reader:
            ada = reader.key("ada")
            assert [h.item.text for h in ada.search("tea")] == ["green tea"]
            assert ada.short_term.get("a") == 1
            for call in (
                lambda: ada.add("y"),
                lambda: ada.delete("x"),
                lambda: ada.update("x", "y"),
                lambda: ada.short_term.set("a", 2),
                reader.sweep,
                lambda: reader.knowledge.set("s").add("x"),
            ):
                with pytest.raises(StoreReadOnly, match="read-only"):
                    call()
            with pytest.raises(StoreReadOnly), ada.batch() as batch:
                batch.add("y")
            writer.key("ada").add("black coffee")
            assert [h.item.text for h in ada.search("coffee", limit=1)] == ["black coffee"]
            assert reader.stats().store.commits == 3
            reader.backup(tmp_path / "copy.db")
        with pytest.raises(EmbedderConflict):
            Memory.open(path, embedder="words", mode="ro")
    with Memory.open(tmp_path / "copy.db", mode="ro", embedder=Letters()) as copy:
        assert texts(copy) == ["green tea", "black coffee"]


def test_reading_only_says_what_is_not_embedded(tmp_path: Path) -> None:
    """A reader cannot embed: its searches are partial, and settle says that it is not so."""
    path = tmp_path / "app.db"
    with Memory.open(path, embedder=Letters(instant=False)) as writer:
        writer._engine.worker._stop.set()
        writer.key("ada").add("green tea")
        with Memory.open(path, embedder=Letters(instant=False), mode="ro") as reader:
            assert reader.key("ada").search("tea").partial
            assert not reader.settle(0)
            writer.settle()
            assert not reader.key("ada").search("tea").partial
            assert reader.settle(0)


def test_a_still_store_is_read_without_a_trace(tmp_path: Path) -> None:
    """?immutable=1 on a read-only URL makes no file beside a store at rest."""
    path = tmp_path / "app.db"
    with Memory.open(path, embedder="words") as memory:
        memory.key("ada").add("x")
    before = sorted(p.name for p in tmp_path.rglob("*"))
    with Memory.open(f"sqlite:///{path}?immutable=1", mode="ro") as memory:
        assert texts(memory) == ["x"]
        assert sorted(p.name for p in tmp_path.rglob("*")) == before


READ_AS_NOBODY = (
    """
import sys
from alveus import Memory
with Memory.open(embedder="words") as memory:  # imports, while files can be read
    memory.key("ada").add("x")
    memory.key("ada").search("x")
from alveus.store.sqlite import checksums
checksums.vfs()
"""
    + DROP_RIGHTS
    + """
with Memory.open(sys.argv[1], mode="ro") as memory:
    print([item.text for item in memory.key("ada").list()], len(memory.key("ada").search("tea")))
"""
)


def test_a_read_only_folder_is_read() -> None:
    """Who may not write to the folder can still open a store at rest, and makes nothing there."""
    with closed_folder() as shared:
        path = shared / "app.db"
        with Memory.open(path, embedder="words") as memory:
            memory.key("ada").add("green tea")
        shut(shared, path)
        code = [sys.executable, "-c", READ_AS_NOBODY, str(path)]
        done = subprocess.run(code, capture_output=True, text=True, check=False, timeout=LIMIT_S)
        assert done.stdout == "['green tea'] 1\n", done.stderr
        assert sorted(p.name for p in shared.iterdir()) == ["app.db", "app.db.alveus"]


def test_backups_and_what_they_refuse(tmp_path: Path) -> None:
    """A backup never writes over anything, and RAM has no file."""
    path, copy = tmp_path / "app.db", tmp_path / "copy.db"
    with Memory.open(path, embedder="words") as memory:
        memory.key("ada").add("x")
        memory.backup(copy)
        with pytest.raises(InvalidInput, match="exists"):
            memory.backup(copy)
        with pytest.raises(InvalidInput, match="exists"):
            memory.backup(path)
    with Memory.open(embedder="words") as memory, pytest.raises(Unsupported):
        memory.backup(tmp_path / "other.db")
    assert sorted(p.name for p in tmp_path.glob("*.db")) == ["app.db", "copy.db"]


@pytest.mark.parametrize(
    ("content", "says"),
    [(b"", "is empty"), (b"hello " * 999, "is not an alveus store"), (None, "pass the path")],
)
def test_what_is_no_backup_is_named_and_restores_nothing(tmp_path: Path, content, says) -> None:
    """An empty file, as a copy leaves that found no room, emptied the memory; none is made."""
    path, backup = tmp_path / "app.db", tmp_path / "backup.db"
    with Memory.open(path, embedder="words") as memory:
        memory.key("ada").add("x")
    if content is not None:
        backup.write_bytes(content)
    for place in (path, tmp_path / "fresh.db"):
        with pytest.raises((NotAStore, NotFound), match=rf"backup\.db.*{says}"):
            Memory.restore(place, backup)
    assert not (tmp_path / "fresh.db").exists(), "a store without contents looks like a memory"
    with Memory.open(path) as memory:
        assert texts(memory) == ["x"]


def test_a_backup_with_a_damaged_page_is_restored_nowhere(tmp_path: Path) -> None:
    """Least of all where nothing was: an empty memory would stay there."""
    path, backup = tmp_path / "app.db", tmp_path / "backup.db"
    with Memory.open(path, embedder="words") as memory:
        memory.key("ada").add("x")
        memory.backup(backup)
    damaged = bytearray(backup.read_bytes())
    damaged[-2000] ^= 1
    backup.write_bytes(damaged)
    for place in (path, tmp_path / "fresh.db"):
        with pytest.raises(StoreDamaged, match=r"backup\.db is damaged"):
            Memory.restore(place, backup)
    assert not list(tmp_path.glob("fresh.db*"))
    with Memory.open(path) as memory:
        assert texts(memory) == ["x"]


def test_restoring_is_all_or_nothing(tmp_path: Path) -> None:
    """It needs a backup, and a store that nobody has open; refused, it changes nothing."""
    path, copy = tmp_path / "app.db", tmp_path / "copy.db"
    with Memory.open(path, embedder="words") as memory:
        memory.key("ada").add("x")
        memory.backup(copy)
        memory.key("ada").add("y")
        with pytest.raises(StoreBusy, match="close it"):
            Memory.restore(path, copy)
        assert texts(memory) == ["x", "y"]
    with pytest.raises(Unsupported):
        Memory.restore(":memory:", copy)
    with pytest.raises(NotFound, match="none"):
        Memory.restore(path, tmp_path / "none.db")
    (tmp_path / "text").write_text("hello " * 1000)
    with pytest.raises(NotAStore):
        Memory.restore(path, tmp_path / "text")
    with Memory.open(path) as memory:
        assert texts(memory) == ["x", "y"], "a refused restore changed something"
    Memory.restore(path, copy)
    with Memory.open(path) as memory:
        assert texts(memory) == ["x"]
        memory.key("ada").add("z")
        assert [h.item.text for h in memory.key("ada").search("z", limit=1)] == ["z"]
        assert isinstance(memory.store, SqliteStore)
        assert memory.store.problems() == []


@pytest.mark.parametrize("passed", [("app.db",), (), (Path("app.db"), "default")])
@pytest.mark.parametrize("named", [{}, {"path": "app.db"}])
@pytest.mark.parametrize("kind", [Memory, AsyncMemory])
def test_a_class_that_is_opened_says_so(
    kind: Any, passed: tuple[object, ...], named: dict[str, str]
) -> None:
    """Whoever constructs a memory in place of opening it is told the call, whatever was passed."""
    said = f"{kind.__name__}(…) does not open a memory; write "
    with pytest.raises(TypeError) as told:
        kind(*passed, **named)
    assert str(told.value).startswith(said)
    assert str(told.value).endswith(f'{kind.__name__}.open("app.db")')


@pytest.mark.parametrize("given", ["I live in Lisbon.", ["I live in Lisbon."], 7])
def test_what_is_no_message_is_told_what_one_is(given: Any) -> None:
    """A text alone does not say who said it: the error shows a message."""
    said = 'such as {"role": "user", "content": "I live in Lisbon."}, not '
    with Memory.open(embedder="words") as memory:
        with pytest.raises(InvalidInput, match=re.escape(said)):
            memory.key("ada").conversation("chat").add(given)
        assert memory.key("ada").sets() == []


def test_what_a_key_has_is_told_of_a_memory() -> None:
    """A name that a key has and a memory has not is answered with how a key is asked."""
    with Memory.open(embedder="words") as memory:
        for name, said in {
            "add": 'memory.key("…").add(…)',
            "search": 'memory.key("…").search(…)',
            "short_term": 'memory.key("…").short_term',
        }.items():
            with pytest.raises(AttributeError) as told:
                getattr(memory, name)
            problem = f"'Memory' object has no attribute {name!r}; a key has it: {said}"
            assert (str(told.value), told.value.name) == (problem, name)
        for name in ("ad", "_scope"):
            with pytest.raises(AttributeError, match=f"no attribute '{name}'$"):
                getattr(memory, name)
        assert not hasattr(memory, "add")
        assert copy(memory).space == memory.space


class Person(str, Enum):  # noqa: UP042 - `str` of it is "Person.ADA"
    """Names that are written as an enum."""

    ADA = "ada"


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        (Person.ADA, "use its value"),
        (b"ada", "decode it"),
        (None, "pass a name"),
        (7, r"convert it with str\(\)"),
    ],
)
def test_a_name_that_is_no_text_is_told_how_to_be_one(name: object, hint: str) -> None:
    """And not by `str`, where that makes the name of another key."""
    with Memory.open(embedder="words") as memory:
        with pytest.raises(InvalidName, match=f"a key must be a non-empty str.*; {hint}$"):
            memory.key(cast("str", name))
        with pytest.raises(InvalidValue, match=r"Person\.ADA.*; use key\.value$"):
            memory.key("ada").short_term.set("d", {Person.ADA: 1})


def test_who_learns_is_told_of_facts() -> None:
    """`learn` is looked for where facts are read; other names have no such hint."""
    with Memory.open(embedder="words") as memory:
        facts = memory.key("ada").facts
        for name, problem in {
            "learn": r"learn'; a key learns: key\.learn\(…\)$",
            "add": "add'$",
        }.items():
            with pytest.raises(AttributeError, match=problem):
                getattr(facts, name)
        assert len(copy(facts)) == 0


def test_what_a_set_has_is_told_of_a_knowledge() -> None:
    """A name that a set of a knowledge has is answered with how the set is asked."""
    with Memory.open(embedder="words") as memory:
        said = r"""; a set has it: knowledge\.set\("…"\)\.add\(…\)$"""
        for name, problem in {"add": said, "ad": "no attribute 'ad'$"}.items():
            with pytest.raises(AttributeError, match=problem):
                getattr(memory.knowledge, name)
