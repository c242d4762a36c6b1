"""A process in which alveus lives with others: `process.py ORDER SEED NEIGHBOUR…`; prints "alive".

What comes first has done its work before the other one is imported; "interleaved" all is imported,
and nothing used, when they begin at once. Then all work together, in threads; alveus looks whether
its files are sound; and a forked child, which inherits all that, uses a memory too.
"""

from __future__ import annotations

import faulthandler
import os
import random
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable
from pathlib import Path

import libraries

ROUNDS = 3
"""How often each thread does its work."""


def alveus(folder: Path) -> None:
    """Use a memory of this thread's, and one that all threads have."""
    from alveus import Memory

    for path in (folder / f"{threading.get_ident()}.db", folder / "all.db"):
        with Memory.open(path, embedder="words") as memory:
            ada = memory.key("ada")
            added = ada.add("green tea is what she drinks")
            ada.short_term.set(f"n{threading.get_ident()}", [1, 2, 3])
            assert ada.get(added) is not None
            assert ada.search("tea")
        with Memory.open(path, mode="ro", embedder="words") as memory:
            assert memory.key("ada").get(added) is not None


def check(folder: Path) -> None:
    """Look at every page and every row of the files."""
    from alveus import Memory
    from alveus.store.sqlite import SqliteStore

    for path in folder.glob("*.db"):
        with Memory.open(path, embedder="words") as memory:
            assert isinstance(memory.store, SqliteStore)
            assert memory.store.has_checksums(), path
            assert memory.store.problems(deep=True) == [], path


def together(works: list[Callable[[], None]]) -> list[BaseException]:
    """Do each work in two threads, over and over, all at once; return what was raised."""
    raised: list[BaseException] = []
    start = threading.Barrier(2 * len(works))

    def do(work: Callable[[], None]) -> None:
        try:
            start.wait(120)
            for _ in range(ROUNDS):
                work()
        except BaseException as error:
            raised.append(error)
            raise

    threads = [threading.Thread(target=do, args=(work,)) for work in works * 2]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return raised


def in_child(work: Callable[[], None]) -> None:
    """Do it in a forked child, whatever threads and locks the neighbours have in this process."""
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
        child = os.fork()
    if not child:
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0


def main(order: str, seed: int, names: list[str]) -> None:
    """Live through it."""
    random.Random(seed).shuffle(names)
    others: list[Callable[[], None]] = [getattr(libraries, name) for name in names]
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)

        def ours() -> None:
            alveus(folder)

        works = {"alveus first": [ours, *others], "alveus last": [*others, ours]}.get(order, [])
        for work in works:
            work()
        if not works:
            for name in ["alveus", *names]:
                libraries.import_of(name)
        raised = together([ours, *others])
        if not raised:
            check(folder)
            in_child(ours)
    sys.stdout.write("alive\n" if not raised else f"{raised}\n")
    sys.exit(bool(raised))


if __name__ == "__main__":
    faulthandler.enable()
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3:])
