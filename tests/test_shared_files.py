"""One file is open once in a process, however many memories are opened on it."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider

from alveus import Memory
from alveus.errors import ForkedStore, StoreBusy, StoreClosed
from alveus.store import Scope, Store
from alveus.store.sqlite import SharedStore, SqliteStore, checksums
from alveus.telemetry import OpenTelemetry
from alveus.testing.past_laws import PersistenceLaws
from alveus.testing.run_laws import LaneLaws
from harness.store.group_laws import GroupLaws
from harness.store.store_laws import HandleLaws, ThreadLaws
from waiting import wait_until

TEXTS = ["Green tea in the morning.", "The cat sleeps.", "A tent for two."]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "app.db"


def opened(path: Path, **options: Any) -> Memory:
    chosen: dict[str, Any] = {"embedder": "static", "durability": "normal"}
    return Memory.open(path, **chosen | options)


def open_file(memory: Memory) -> SqliteStore:
    """What a memory has in common with others."""
    assert isinstance(memory.store, SharedStore)
    return memory.store.common("a test", lambda store: store)


def descriptors(path: Path) -> int:
    """How many descriptors this process has on a store's files."""
    listed = Path("/proc/self/fd")
    if not listed.exists():  # macOS: only Linux tells
        return 0
    return sum(os.path.realpath(link).startswith(str(path)) for link in listed.iterdir())


class TestShared(HandleLaws, ThreadLaws, GroupLaws, LaneLaws, PersistenceLaws):
    """What a store promises holds for a handle, while another one is open beside it.

    The laws about what is written are those of the store itself, which `TestSqlite` is held to.
    """

    @pytest.fixture(autouse=True)
    def _others(self):
        self.others: list[Store] = []
        yield
        for other in self.others:
            other.close()

    def open(self, path):
        self.others.append(SharedStore.open(path))
        return SharedStore.open(path)

    def kill_owner(self, store, owner):
        assert isinstance(store, SharedStore)
        assert store._owners is not None
        store._owners.dismiss(owner)


# --- what is shared ------------------------------------------------------------------------------


def test_a_second_memory_opens_nothing_again(path: Path) -> None:
    """Connections, locks and the index of search are there once; what one adds the other finds."""
    with opened(path) as one:
        one.key("ada").add_many(TEXTS)
        one.key("ada").search("tea")
        before, cached = descriptors(path), one.stats().cache_bytes
        with opened(path, space="other") as other, opened(path) as two:
            assert descriptors(path) == before
            assert open_file(one) is open_file(two) is open_file(other)
            assert two.stats().cache_bytes == cached > 0
            two.key("ada").add("Black tea at noon.")
            assert len(one.key("ada").search("tea", limit=2)) == 2
            assert [*other.keys()] == []


@pytest.mark.parametrize(
    "options",
    [{"mode": "ro"}, {"durability": "full"}, {"wait_s": 3}],
    ids=["read-only", "durability", "patience"],
)
def test_what_is_opened_otherwise_is_another_file(path: Path, options: dict[str, Any]) -> None:
    """How a file is opened is never that of somebody else's memory."""
    with opened(path) as one, opened(path, **options) as two, opened(path, **options) as three:
        assert open_file(one) is not open_file(two)
        assert open_file(two) is open_file(three)


def test_a_memory_with_telemetry_has_a_file_of_its_own(path: Path) -> None:
    """What it tells are its own calls, never those of others."""
    telemetry = OpenTelemetry(tracer_provider=TracerProvider())
    with opened(path) as one, opened(path, telemetry=telemetry) as two:
        assert isinstance(one.store, SharedStore)
        assert not isinstance(two.store, SharedStore)


def test_embedders_of_two_spaces_are_not_mixed(path: Path) -> None:
    """Each memory searches by its own embedder, and the index goes with its last memory."""
    with opened(path) as one:
        one.key("ada").add_many(TEXTS)
        two = opened(path, space="other", embedder="words")
        two.key("ada").add_many(TEXTS)
        assert one.key("ada").search("kitten", limit=1)[0].item.text == TEXTS[1]
        assert len(two.key("ada").search("kitten")) == 0
        assert two.stats().cache_bytes > 0
        index = two._index
        two.close()
        assert index.stats().sets == 0
        assert one.stats().cache_bytes > 0


# --- closing -------------------------------------------------------------------------------------


def test_a_memory_is_closed_for_itself(path: Path) -> None:
    """Its later calls are refused, others go on; the file is closed with the last of them."""
    one, two = opened(path), opened(path)
    key = one.key("ada")
    key.add_many(TEXTS)
    one.close()
    one.close()
    for call in (
        lambda: key.add("x"),
        lambda: key.search("tea"),
        lambda: key.short_term.set("a", 1),
        key.list,
        one.stats,
        one.sweep,
    ):
        with pytest.raises(StoreClosed, match=r"was closed; open it again"):
            call()
    assert len(two.key("ada").search("tea", limit=1)) == 1
    two.key("ada").short_term.set("a", 1)
    with opened(path) as three:
        two.close()
        assert three.key("ada").short_term.get("a") == 1
    assert descriptors(path) == 0
    assert not Path(f"{path}-wal").exists()


def test_a_memory_that_is_collected_leaves(path: Path) -> None:
    """Without `close` too; the file is closed when nobody has it any more."""
    one, two = opened(path), opened(path)
    two.key("ada").add(TEXTS[0])
    del one
    gc.collect()
    assert two.key("ada").search("tea")
    del two
    gc.collect()
    assert descriptors(path) == 0
    with opened(path) as again:
        assert len(again.key("ada").list()) == 1


def test_owners_die_with_their_own_handle(path: Path) -> None:
    """A lease is free once the memory is closed that took it, whoever else has the file open."""
    ada, bob = Scope("app", "ada"), Scope("app", "bob")
    with opened(path) as one, opened(path) as two:
        first = one.store.acquire_lease(ada, "one")
        assert two.store.acquire_lease(bob, "two") is not None
        assert first is not None
        assert two.store.acquire_lease(ada, "two") is None
        one.close()
        taken = two.store.acquire_lease(ada, "two")
        assert taken is not None
        assert taken.epoch > first.epoch
        with opened(path) as three:
            assert three.store.acquire_lease(bob, "three") is None


def test_owners_die_with_a_handle_that_is_collected(path: Path) -> None:
    """Nobody can give the lease back any more."""
    ada = Scope("app", "ada")
    one, two = SharedStore.open(path), SharedStore.open(path)
    with closing(two):
        assert one.acquire_lease(ada, "one") is not None
        del one
        gc.collect()
        assert two.acquire_lease(ada, "two") is not None


def test_a_lease_that_is_taken_while_its_handle_closes_is_free(path: Path) -> None:
    with opened(path) as one, opened(path) as two:
        ada = Scope("app", "ada")
        ended = threading.Event()

        def take() -> None:
            with suppress(StoreClosed):
                one.store.acquire_lease(ada, "one")
            ended.set()

        with open_file(two).writing():
            thread = threading.Thread(target=take)
            thread.start()
            assert isinstance(one.store, SharedStore)
            owners = one.store._my_owners
            wait_until(lambda: owners)
            one.close()
        thread.join()
        assert ended.is_set()
        assert two.store.acquire_lease(ada, "two") is not None


def test_a_handle_that_is_collected_while_another_joins_does_not_close_the_file(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last other handle, dropped in a circle."""
    handles = [SharedStore.open(path)]
    finalize = weakref.finalize

    def collecting(*arguments: Any) -> object:
        handles.clear()
        gc.collect()
        return finalize(*arguments)

    monkeypatch.setattr(weakref, "finalize", collecting)
    with closing(SharedStore.open(path)) as joined:
        assert joined.head(Scope("app", "ada")) == 0


def test_a_file_that_others_use_is_not_restored(path: Path, tmp_path: Path) -> None:
    """Neither by another store of this process, nor through one of several handles."""
    backup = tmp_path / "backup.db"
    with opened(path) as one:
        one.key("ada").add(TEXTS[0])
        one.backup(backup)
        one.key("ada").add(TEXTS[1])
        with opened(path) as two:
            assert isinstance(two.store, SharedStore)
            with pytest.raises(StoreBusy, match="open elsewhere"):
                two.store.restore(backup)
            with pytest.raises(StoreBusy):
                Memory.restore(path, backup, wait_s=0)
        assert len(one.key("ada").list()) == 2
        assert isinstance(one.store, SharedStore)
        one.store.restore(backup)
        assert len(one.key("ada").list()) == 1


def test_a_handle_that_is_closed_while_it_is_alone_leaves_the_file_to_others(
    path: Path, monkeypatch
) -> None:
    """Another joins before the log goes; the new log is the file's, not the closed handle's."""
    one, joined = SharedStore.open(path), list[SharedStore]()
    head = checksums.head

    def joining(writer: Any) -> bytes:
        if not joined:
            thread = threading.Thread(target=lambda: joined.append(SharedStore.open(path)))
            thread.start()
            thread.join()
        return head(writer)

    monkeypatch.setattr(checksums, "head", joining)
    with one._alone():
        path.with_suffix(".filler").touch()  # else the new log may get the number of the old one
        closing_it = threading.Thread(target=one.close)
        closing_it.start()
        closing_it.join()
    with closing(joined[0]) as other:
        assert other.put_note("x", "1", expected=None)
    with pytest.raises(StoreClosed):
        one.put_note("y", "1", expected=None)


def test_an_error_of_a_handle_that_is_closed_meanwhile_is_told_as_it_is(
    path: Path, monkeypatch
) -> None:
    """What the system said last is asked of the writer, which the handle may have no more then."""
    with closing(SharedStore.open(path)) as one:
        known = [None, one._writer]
        monkeypatch.setattr(SharedStore, "_writer", property(lambda _store: known.pop()))
        assert one.last_errno == 0
        monkeypatch.undo()


@pytest.mark.parametrize("count", [1, 2, 5])
def test_memories_that_nobody_closed_end_with_python(tmp_path: Path, count: int) -> None:
    """Their connections go before what was prepared on them; freed memory is filled."""
    script = (
        "import sys; from alveus import Memory; "
        "all = [Memory.open(f'{sys.argv[1]}/{n}.db', embedder='words') "
        "for n in range(int(sys.argv[2]))]; "
        "[each.key('ada').short_term.set('a', 1) for each in all]"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path), str(count)],
        env={**os.environ, "MALLOC_PERTURB_": "85"},
        check=False,
    )
    assert done.returncode == 0


def test_another_file_at_the_path_is_opened_anew(path: Path) -> None:
    """A deleted file is nobody's; the new one at its path holds what is written to it."""
    with opened(path) as old:
        old.key("ada").add(TEXTS[0])
        for file in (path, Path(f"{path}-wal"), Path(f"{path}-shm")):
            file.unlink()
        with opened(path) as new, opened(path) as beside:
            assert open_file(new) is open_file(beside) is not open_file(old)
            assert new.key("ada").list() == []
            new.key("ada").add(TEXTS[1])
            assert [item.text for item in beside.key("ada").list()] == [TEXTS[1]]


# --- threads and forks ---------------------------------------------------------------------------


def together(works: list[Callable[[], object]]) -> list[BaseException]:
    """Do all at the same moment, each in a thread; return what went wrong."""
    start, failed = threading.Barrier(len(works)), list[BaseException]()

    def one(work: Callable[[], object]) -> None:
        start.wait()
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - asserted by the caller
            failed.append(error)

    threads = [threading.Thread(target=one, args=[work]) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return failed


def test_threads_open_one_file_at_once(path: Path) -> None:
    """All have it in common afterwards; nothing else stays open, and no add is lost."""
    memories: list[Memory] = []

    def work() -> None:
        memory = opened(path)
        memories.append(memory)
        memory.key("ada").add(f"text {len(memories)}")

    assert together([work] * 8) == []
    assert len({id(open_file(memory)) for memory in memories}) == 1
    assert len(memories[0].key("ada").list()) == 8
    assert together([memory.close for memory in memories]) == []
    assert descriptors(path) == 0


def until_closed(memory: Memory) -> None:
    """Write and search until somebody closes the memory."""
    try:
        while True:
            memory.key("bob").add("a text")
            memory.key("ada").search("tea")
    except StoreClosed:
        pass


def test_a_memory_is_closed_while_others_work(path: Path) -> None:
    """Calls of the closed one end or are refused; those of others neither fail nor are lost."""
    with opened(path) as stays:
        stays.key("ada").add_many(TEXTS)
        done, added = threading.Event(), list[str]()

        def adds() -> None:
            while not done.is_set():
                added.append(stays.key("ada").add(f"more {len(added)}"))
                assert stays.key("ada").search("tea")

        def opens_and_closes() -> None:
            try:
                for turn in range(15):
                    goes = opened(path)
                    beside = threading.Thread(target=until_closed, args=[goes])
                    beside.start()
                    wait_until(lambda turn=turn: len(added) > turn)
                    goes.close()
                    beside.join()
            finally:
                done.set()

        assert together([adds, opens_and_closes]) == []
        assert {item.id for item in stays.key("ada").list()} >= set(added)
        assert open_file(stays).problems() == []
    assert descriptors(path) == 0


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_shares_nothing_with_its_parent(path: Path) -> None:
    """Handles that it inherited are refused, and what it opens is its own."""
    with opened(path) as one, opened(path) as two:
        one.key("ada").add(TEXTS[0])
        child = os.fork()
        if child == 0:
            code = 1
            try:
                for inherited in (one, two):
                    with pytest.raises(ForkedStore):
                        inherited.key("ada").list()
                one.close()
                with opened(path) as mine, opened(path) as again:
                    assert open_file(mine) is open_file(again) is not open_file(one)
                    mine.key("ada").add(TEXTS[1])
                code = 0
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert len(two.key("ada").list()) == 2
        two.key("ada").add(TEXTS[2])
        assert len(one.key("ada").list()) == 3
