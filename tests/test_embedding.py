"""The one that embeds in the background: it fills, takes over, tells what failed, and stops."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from alveus import Memory
from alveus.errors import EmbedderConflict
from alveus.search import embedding_worker
from alveus.values.forks import Flag
from doors import Letters
from waiting import LIMIT_S, wait_until

CHILD = """
import os, sys, time
sys.path.insert(0, sys.argv[2])
from doors import Letters
from alveus import Memory

class Loud(Letters):
    def embed(self, texts):
        os.write(1, f"embedded {len(texts)}\\n".encode())
        return super().embed(texts)

with Memory.open(sys.argv[1], embedder=Loud(instant=False)) as memory:
    memory.key("child").add("from the child")
    sys.stdin.read() if sys.argv[3] == "stay" else None
    if sys.argv[3] == "fork":
        if os.fork() == 0:
            sys.stdin.read()
            os._exit(0)
        os.write(1, b"forked\\n")
        time.sleep(60)
"""


class Gate(Letters):
    """An embedder that waits, when it is told to, in the middle of its work."""

    def __init__(self) -> None:
        super().__init__(instant=False)
        self.entered, self.open = threading.Event(), threading.Event()

    def embed(self, texts):
        self.entered.set()
        assert self.open.wait(LIMIT_S)
        return super().embed(texts)


def start(path: Path, what: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", CHILD, str(path), str(Path(__file__).parent), what]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def line(child: subprocess.Popen[bytes]) -> bytes:
    assert child.stdout is not None
    return child.stdout.readline()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "app.db"


@pytest.mark.parametrize("url", [":memory:", "app.db"])
def test_what_is_added_is_embedded_behind_it(tmp_path: Path, monkeypatch, url: str) -> None:
    """add returns at once; a thread of its own fills in the vectors, also after a rest."""
    monkeypatch.chdir(tmp_path)
    gate = Gate()
    with Memory.open(url, embedder=gate) as memory:
        memory.key("ada").add("x")
        memory.key("ada").add_many(["y", "z"])
        assert memory.stats().pending == 3
        gate.open.set()
        wait_until(lambda: memory.stats().pending == 0)
        memory.key("bob").add("after a rest")
        wait_until(lambda: memory.stats().pending == 0)


def test_what_was_left_is_embedded_when_the_store_is_opened(path: Path) -> None:
    """Nobody has to add or search first."""
    with Memory.open(path, embedder=Letters(instant=False)) as memory:
        memory._engine.worker._stop.set()
        memory.key("ada").add("x")
    with Memory.open(path, embedder=Letters(instant=False)) as memory:
        wait_until(lambda: memory.stats().pending == 0)


def test_quick_embedders_need_nobody(path: Path) -> None:
    """Neither one that runs in the commit, nor one without vectors, starts a thread."""
    for number, quick in enumerate((Letters(), "words")):
        with Memory.open(path, space=str(number), embedder=quick) as memory:
            memory.key("ada").add("x")
            assert memory.stats().pending == 0
            assert memory._engine.worker._thread is None


def test_closing_waits_for_one_batch_only(path: Path) -> None:
    """What is under way is finished, the rest stays pending."""
    gate = Gate()
    memory = Memory.open(path, embedder=gate)
    memory.key("ada").add_many([f"n{i}" for i in range(5 * embedding_worker.BATCH)])
    assert gate.entered.wait(LIMIT_S)
    closing = threading.Thread(target=memory.close)
    closing.start()
    wait_until(memory._engine.worker._stop.is_set)
    gate.open.set()
    closing.join(LIMIT_S)
    assert not closing.is_alive()
    with Memory.open(path, mode="ro", embedder=Letters()) as reader:
        assert reader.stats().pending == 4 * embedding_worker.BATCH


def test_closing_is_not_missed_between_two_looks(path: Path) -> None:
    """A close that comes just before the worker goes to rest does not leave it resting."""

    class Late(Flag):
        def clear(self) -> None:
            worker._stop.set()
            self.set()
            super().clear()

    with Memory.open(path, embedder=Letters(instant=False)) as memory:
        worker = memory._engine.worker
        worker._wake = Late()
        memory.key("ada").add("x")
        assert worker._thread is not None
        worker._thread.join(LIMIT_S)
        assert not worker._thread.is_alive()


def test_a_failure_is_kept_and_tried_again(path: Path, monkeypatch) -> None:
    """stats tells what the worker stumbled over; items stay pending until it goes well."""
    monkeypatch.setattr(embedding_worker, "REST_S", 0.01)
    slow = Letters(instant=False)
    slow.broken = RuntimeError("no route to the model")
    with Memory.open(path, embedder=slow) as memory:
        memory.key("ada").add("x")
        wait_until(lambda: memory.stats().failure)
        assert "no route" in str(memory.stats().failure)
        assert memory.stats().pending == 1
        slow.broken = None
        wait_until(lambda: memory.stats().pending == 0)
        wait_until(lambda: memory.stats().failure is None)


def test_closing_does_not_wait_for_a_failing_embedder(path: Path, monkeypatch) -> None:
    """Its rest between two tries ends with the memory."""
    monkeypatch.setattr(embedding_worker, "REST_S", 3600)
    slow = Letters(instant=False)
    slow.broken = RuntimeError("no")
    memory = Memory.open(path, embedder=slow)
    memory.key("ada").add("x")
    wait_until(lambda: memory.stats().failure)
    closing = threading.Thread(target=memory.close)
    closing.start()
    closing.join(LIMIT_S)
    assert not closing.is_alive()


def test_the_worker_of_a_space_embedded_anew_stops(path: Path) -> None:
    """Its vectors would be of the wrong embedder: it keeps the conflict, and writes none."""
    gate = Gate()
    with Memory.open(path, embedder=gate) as memory:
        memory.key("ada").add("x")
        assert gate.entered.wait(LIMIT_S)
        Memory.reindex(path, embedder=Letters(name="other"))
        gate.open.set()
        wait_until(lambda: memory.stats().failure)
        assert isinstance(memory._engine.worker.failure, EmbedderConflict)
        memory._engine.worker.notify()
        assert memory._engine.worker._stop.is_set()
    with Memory.open(path, embedder=Letters(name="other")) as memory:
        assert [h.item.text for h in memory.key("ada").search("x")] == ["x"]


def test_spaces_with_other_embedders_are_left_alone(path: Path) -> None:
    """One store, two embedders: each embeds what its own spaces and knowledge wait for."""
    one = Letters(instant=False, name="one")
    two = Letters(instant=False, name="two")
    with (
        Memory.open(path, space="a", embedder=one) as a,
        Memory.open(path, space="b", embedder=two) as b,
    ):
        for memory in (a, b):
            memory._engine.worker._stop.set()
            memory.key("ada").add_many([f"{memory.space}{i}" for i in range(50)])
            memory.knowledge.set("facts").add(f"{memory.space} knows")
        assert b.settle()
        assert set(two.asked) == {f"b{i}" for i in range(50)} | {"b knows"}
        assert one.asked == []
        assert a.stats().pending == 51
        assert a.settle()
        assert all(text.startswith("a") for text in one.asked)
        assert a.stats().pending == 0


def test_spaces_with_other_embedders_do_not_wait_for_each_other(path: Path) -> None:
    """Each embedder has a worker in the background, even while the other's is at work."""
    gate = Gate()
    with (
        Memory.open(path, space="a", embedder=gate) as a,
        Memory.open(path, space="b", embedder=Letters(instant=False, name="two")) as b,
    ):
        a.key("ada").add("x")
        assert gate.entered.wait(LIMIT_S)
        b.key("ada").add("y")
        wait_until(lambda: b.stats().pending == 1)
        gate.open.set()
        wait_until(lambda: a.stats().pending == 0)


def test_one_process_embeds_for_all(path: Path) -> None:
    """Whoever came first embeds what others add; when it is killed, another takes over."""
    child = start(path, "stay")
    try:
        assert line(child) == b"embedded 1\n"
        mine = Letters(instant=False)
        with Memory.open(path, embedder=mine) as memory:
            memory.key("ada").add("x")
            assert line(child) == b"embedded 1\n", "the child was to embed it"
            wait_until(lambda: memory.stats().pending == 0)
            assert mine.asked == []
            child.send_signal(signal.SIGKILL)
            child.wait(LIMIT_S)
            memory.key("ada").add("y")
            wait_until(lambda: memory.stats().pending == 0)
            assert mine.asked == ["y"]
    finally:
        child.kill()
        child.communicate()


def test_a_child_left_behind_does_not_stand_in_for_the_dead(path: Path) -> None:
    """A forked child that outlives its parent holds none of the locks it had."""
    child = start(path, "fork")
    try:
        while line(child) != b"forked\n":
            pass
        child.send_signal(signal.SIGKILL)
        os.waitpid(child.pid, 0)
        with Memory.open(path, embedder=Letters(instant=False), wait_s=LIMIT_S) as memory:
            memory.key("ada").add("y")
            wait_until(lambda: memory.stats().pending == 0)
    finally:
        assert child.stdin is not None
        child.stdin.close()  # the grandchild ends with it
        assert child.stdout is not None
        child.stdout.close()
        child.returncode = -signal.SIGKILL
