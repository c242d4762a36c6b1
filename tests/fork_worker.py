"""Trials of forks: processes that write, fork, close, look at the files and die, all at random.

Started without a memory open, it forks the processes of one trial after the other, so that a trial
takes no interpreter's start. A line of stdin is a trial: the path of its store, and its seed. The
answer is a line of JSON: what its processes wrote into one pipe until the last of them ended.
"""

from __future__ import annotations

import faulthandler
import json
import os
import random
import select
import signal
import sqlite3
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

from alveus import Memory
from alveus.embed import open_embedder
from alveus.errors import ForkedStore, StoreClosed
from alveus.store.sqlite import database_file

LIMIT_S = 120.0
"""How long a trial may take before it counts as hung."""

PAUSE_S = 0.01  # nothing is waited for
"""Longest pause between two steps: a trial is not to be all in one time slice."""


class Actor:
    """One process of a trial."""

    def __init__(self, path: str, name: str, seed: object, acks: int, depth: int = 0) -> None:
        self.path, self.name, self.acks, self.depth = path, name, acks, depth
        self.random = random.Random(f"{seed} {name}")
        self.memory: Memory | None = None
        self.children = 0
        self.opened = 0
        self.stop = threading.Event()
        self.threads: list[threading.Thread] = []

    def say(self, *words: object) -> None:
        os.write(self.acks, (" ".join(map(str, words)) + "\n").encode())

    # --- steps

    def open(self) -> Memory:
        if self.memory is None:
            self.memory = Memory.open(self.path, embedder="words", durability="normal")
            self.opened += 1
        return self.memory

    def add(self, who: str = "main") -> None:
        memory = self.open()
        for _ in range(self.random.randint(1, 4)):
            self.add_one(memory, who)

    def add_one(self, memory: Memory, who: str) -> None:
        item = f"{self.name}:{who}:{self.opened}:{time.monotonic_ns()}"
        memory.key(self.name[:4]).add(f"said by {item}", id=item)
        self.say("ack", item)

    def read(self) -> None:
        memory = self.open()
        memory.key("root").search("said", limit=3)
        memory.key("root").list(limit=5)

    def start_thread(self) -> None:
        if len(self.threads) < 2:
            memory, who = self.open(), f"t{len(self.threads)}-{self.opened}"
            thread = threading.Thread(target=self.write_on, args=(memory, who), daemon=True)
            self.threads.append(thread)
            thread.start()

    def write_on(self, memory: Memory, who: str) -> None:
        """Write and search until the memory is closed, or the thread is told to stop."""
        try:
            while not self.stop.is_set():
                self.add_one(memory, who)
                memory.key("root").search("said", limit=2)
        except StoreClosed:
            pass
        except BaseException:  # noqa: BLE001 - told, and looked at by the test
            self.say("error", json.dumps(traceback.format_exc()))

    def close(self) -> None:
        if self.memory is not None:
            self.memory.close()
        self.memory = None
        for thread in self.threads:
            thread.join()
        self.threads.clear()

    def fork(self) -> None:
        if self.depth == 2:
            return
        self.children += 1
        name = f"{self.name}.{self.children}"
        if os.fork() == 0:
            inherited = self.memory
            seed = self.random.random()
            run(lambda: Actor(self.path, name, seed, self.acks, self.depth + 1).live(inherited))

    def care(self) -> None:
        """What keeps SQLite busy for longer, or rewrites its files."""
        memory = self.open()
        which = self.random.randrange(4)
        if which == 0:
            memory.sweep()
        elif which == 1:
            memory.backup(f"{self.path}.{os.getpid()}.{time.monotonic_ns()}")
        elif which == 2:
            memory.key("gone").add("to be forgotten", id=self.name, on_existing="keep")
            memory.key("gone").forget(self.name)
            memory.scrub()
        else:
            memory.store.problems()  # pyright: ignore[reportAttributeAccessIssue] - of `SqliteStore`

    def look_at_files(self) -> None:
        """What other code in a process does to the files, which drops its POSIX locks."""
        if self.memory is None:
            return  # there may be no store yet, and sqlite3 would make a file
        if self.random.random() < 0.5:
            for suffix in ("", "-wal", "-shm"):
                with suppress(FileNotFoundError):
                    Path(self.path + suffix).read_bytes()
        else:
            with suppress(sqlite3.Error), closing(sqlite3.connect(self.path)) as db:
                db.execute("SELECT count(*) FROM item").fetchall()

    # --- lives

    def live(self, inherited: Memory | None = None) -> None:
        if inherited is not None:
            self.expect_forked(inherited)
        steps = (self.add, self.fork, self.read, self.start_thread, self.close, self.care)
        for _ in range(self.random.randint(3, 7)):
            self.random.choice((*steps, self.add, self.fork, self.look_at_files))()
            time.sleep(self.random.random() * PAUSE_S)  # noqa: TID251 - a trial has its moments
        if inherited is not None and self.random.random() < 0.3:
            inherited.close()
        self.end()

    def end(self) -> None:
        how = self.random.randrange(4)
        if how == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        if how < 3:
            self.close()
        if how == 1:
            while self.children:  # outlives its children, or is outlived by them
                os.wait()
                self.children -= 1

    def visit(self) -> None:
        """Come and go: what a third process does."""
        for _ in range(self.random.randint(2, 5)):
            time.sleep(self.random.random() * 2 * PAUSE_S)  # noqa: TID251 - as above
            self.add()
            if self.random.random() < 0.7:
                self.close()
        self.end()

    def expect_forked(self, inherited: Memory) -> None:
        calls: list[Callable[[], object]] = [  # a handle too may need what another thread held
            lambda: inherited.key("root").add("never"),
            lambda: inherited.key("root").search("said"),
            lambda: inherited.key("root").short_term.set("a", 1),
            lambda: inherited.key("root").list(limit=1),
            inherited.sweep,
        ]
        for number in self.random.sample(range(len(calls)), 2):
            try:
                calls[number]()
                self.say("error", json.dumps(f"inherited call {number} was answered"))
            except ForkedStore:
                pass
        if self.random.random() < 0.5:
            inherited.close()


def run(life: Callable[[], object]) -> None:
    """Lead a life to its end, which is that of the process."""
    try:
        life()
    except BaseException:  # noqa: BLE001 - the edge of a process: told, and looked at by the test
        os.write(ACKS, f"error {json.dumps(traceback.format_exc())}\n".encode())
    os._exit(0)


ACKS = 1


def trial(path: str, seed: str) -> dict[str, object]:
    """Let the processes of a trial live; return what they said."""
    global ACKS
    reading, ACKS = os.pipe()
    group = 0
    lives = [Actor(path, "root", seed, ACKS).live]
    lives += [Actor(path, f"visitor{n}", seed, ACKS).visit for n in range(2)]
    for life in lives:
        child = os.fork()
        if child == 0:
            os.setpgid(0, group)
            os.close(reading)
            run(life)
        group = group or child
        os.setpgid(child, group)
    os.close(ACKS)
    said, hung = bytearray(), False
    deadline = time.monotonic() + LIMIT_S  # noqa: TID251 - a guard against hanging
    while True:
        left = max(0.0, deadline - time.monotonic())  # noqa: TID251 - the same
        if hung := not select.select([reading], [], [], left)[0]:
            os.killpg(group, signal.SIGABRT)
            time.sleep(1)  # noqa: TID251 - they tell where they are
            break
        found = os.read(reading, 65536)
        if not found:
            break
        said += found
    os.close(reading)
    if hung:
        os.killpg(group, signal.SIGKILL)
    for _ in lives:
        os.wait()
    return {"hung": hung, "said": said.decode().splitlines()}


def main() -> None:
    """Serve trials."""
    faulthandler.enable()  # tells where a hung process was when it was aborted
    database_file.CHECKPOINT_PAGES = (
        20  # often, so that the log is moved and begun anew in each trial
    )
    open_embedder("words")
    for line in sys.stdin:
        path, seed = line.rstrip("\n").rsplit(" ", 1)
        answer = json.dumps(trial(path, seed))
        sys.stdout.write(answer + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
