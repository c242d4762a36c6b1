"""What works in the background ends before Python does, whether or not the memory was closed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from waiting import LIMIT_S

HEAD = """
import os, sys, threading, time
import numpy as np
from fornix import Derived, CompactionPlan, Item, Memory
from fornix.values import background_thread

began = threading.Event()

def work():
    began.set()
    time.sleep(0.3)
    os.write(1, b"whole\\n")

class Slow:
    name, dimensions, instant = "slow", 2, False
    def embed(self, texts):
        work()
        return np.full((len(texts), 2), 0.5**0.5, dtype=np.float32)

def slow(items, capacity):
    work()
    return CompactionPlan(add=[Derived([item.id for item in items], "all of it")])
"""

EMBEDS = """
memory = Memory.open(sys.argv[1], embedder=Slow())
memory.key("ada").add("x")
began.wait()
"""

COMPACTS = """
memory = Memory.open(sys.argv[1], embedder="words")
notes = memory.key("ada").set("talk", capacity=4, compaction=slow)
notes.add_many(["a", "b", "c", "d"])
began.wait()
"""

GOES_ON = """
background_thread.AT_EXIT_S = 0.1
hangs = threading.Event()
work = hangs.wait
thread = background_thread.BackgroundThread(hangs.wait, "hangs", lambda: os.write(1, b"asked\\n"))
thread.start()
"""

CLOSES = """
import atexit
atexit.register(lambda: memory.close())
"""

WRITES = """
import atexit

def at_exit():
    memory.key("ada").short_term.set("a", 1)
    memory.close()
    with Memory.open(sys.argv[1], embedder="words") as again:
        os.write(1, b"%d\\n" % again.key("ada").short_term.get("a"))

atexit.register(at_exit)
memory = Memory.open(sys.argv[1], embedder="words")
"""


def output(code: str, path: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", HEAD + code, str(path)],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=True,
    )
    assert not done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "code",
    [EMBEDS, COMPACTS, EMBEDS + CLOSES, EMBEDS + "raise SystemExit(0)"],
    ids=["embeds", "compacts", "is closed at exit", "exits"],
)
def test_a_process_ends_after_what_it_does_in_the_background(tmp_path: Path, code: str) -> None:
    """Stopped in the midst of a product of matrices, a thread has some processes never end."""
    assert output(code, tmp_path / "app.db") == "whole\n"


def test_a_memory_is_open_until_python_ends(tmp_path: Path) -> None:
    """Also for what was to be done at the end before the memory was opened."""
    assert output(WRITES, tmp_path / "app.db") == "1\n"


def test_a_process_does_not_wait_for_ever(tmp_path: Path) -> None:
    """What hangs is asked to end, and left."""
    assert output(GOES_ON, tmp_path / "app.db") == "asked\n"
