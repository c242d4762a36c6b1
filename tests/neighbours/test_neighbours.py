"""alveus and other libraries with native code live in one process, whoever comes first."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from neighbours.libraries import ALONE, TOGETHER

PROCESS = Path(__file__).with_name("process.py")

ROUNDS = int(os.environ.get("ALVEUS_NEIGHBOUR_ROUNDS", "1"))
"""How many processes each test starts, one after the other."""

ORDERS = ("alveus first", "alveus last", "interleaved")

LIMIT_S = 600


def outcome(command: list[str]) -> tuple[int, str]:
    """Return how a process ended and its last line; what it wrote besides goes to pytest."""
    done = subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, check=False, timeout=LIMIT_S
    )
    sys.stderr.write(done.stderr)
    return done.returncode, done.stdout.strip().rpartition("\n")[2]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", [library.__name__ for library in (*TOGETHER, *ALONE)])
def test_a_neighbour_and_alveus_do_their_work_in_one_process(name, order):
    """Neither ends the process or changes an answer; every page of alveus is sound, in a fork too.

    Found with sqlite-vec, which had a variable in common with the checksum VFS.
    """
    for seed in range(ROUNDS):
        assert outcome([str(PROCESS), order, str(seed), name]) == (0, "alive")


@pytest.mark.parametrize("order", ORDERS)
def test_all_neighbours_and_alveus_do_their_work_in_one_process(order):
    """The neighbours come in another order in each process."""
    names = [library.__name__ for library in TOGETHER]
    for seed in range(ROUNDS):
        assert outcome([str(PROCESS), order, str(seed), *names]) == (0, "alive")


PATCH = "from gevent import monkey; monkey.patch_all()\n"

GREENLETS = """
import os, sys, threading
import gevent
from alveus import Memory
from alveus.errors import ForkedStore
with Memory.open(sys.argv[1], embedder="words") as memory:
    def work(number):
        ada = memory.key(f"k{number % 3}")
        for n in range(10):
            ada.add(f"green tea {number} {n}", id=f"{number} {n}")
            ada.short_term.set(f"n{number}", n)
            assert ada.get(f"{number} {n}").text.startswith("green")
            assert ada.search("tea")
            gevent.sleep(0)
    greenlets = [gevent.spawn(work, number) for number in range(8)]
    threads = [threading.Thread(target=work, args=(number,)) for number in range(8, 12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    gevent.joinall(greenlets, raise_error=True)
    assert sum(len(memory.key(f"k{n}").list(limit=1000)) for n in range(3)) == 120
    child = os.fork()
    if not child:
        try:
            memory.key("k0").list()
        except ForkedStore:
            with Memory.open(sys.argv[1], embedder="words") as again:
                again.key("k0").add("of a child", id="c")
        sys.stdout.flush()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert memory.key("k0").get("c") is not None
    assert memory.store.problems(deep=True) == []
print("alive")
"""


def test_greenlets_use_a_memory_where_gevent_came_first(tmp_path):
    """As threads do, and across a fork."""
    for number in range(ROUNDS):
        told = outcome(["-c", PATCH + GREENLETS, str(tmp_path / f"{number}.db")])
        assert told == (0, "alive")


REFUSED = """
try:
    use()
except Unsupported as error:
    print(error)
"""

OPENS_AFTER = f"""
import sys
from alveus import Memory
from alveus.errors import Unsupported
{PATCH}
def use():
    Memory.open(sys.argv[1])
{REFUSED}
"""

OPEN_BEFORE = f"""
import sys
from alveus import Memory
from alveus.errors import Unsupported
memory = Memory.open(sys.argv[1], embedder="words")
ada = memory.key("ada")
ada.add("green tea", id="t")
{PATCH}
def use():
    {{call}}
{REFUSED}
"""


@pytest.mark.parametrize(
    "code",
    [
        OPENS_AFTER,
        *(
            OPEN_BEFORE.format(call=call)
            for call in (
                "ada.add('black tea')",
                "ada.search('tea')",
                "ada.list()",
                "ada.short_term.set('a', 1)",
                "memory.key('bob').add('x')",
                "memory.close()",
            )
        ),
    ],
    ids=["open", "add", "search", "list", "set", "other key", "close"],
)
def test_one_error_says_that_gevent_came_too_late(tmp_path, code):
    """It comes from each use of a file: locks of before would let two greenlets in at once."""
    status, said = outcome(["-c", code, str(tmp_path / "m.db")])
    assert status == 0
    assert "gevent.monkey.patch_all()" in said
    assert "replace them before" in said
