"""Another process beside one that forgets: it has caches, reads, or is killed while it forgets.

``python forgetting_worker.py MODE DATABASE …``; a line on standard output says that it is ready,
or what it is done with; a line on standard input has it go on.
"""

from __future__ import annotations

import sys
from pathlib import Path

import apsw

from alveus import Memory
from alveus.search.index import set_loader

LARGE = 20
"""Sets of so many items are sealed here."""

WORDS = ("window", "nothing", "canary")


def say(word: str) -> None:
    """Print a line, at once."""
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


def cache(path: Path, *keys: str) -> None:
    """Search, so that caches and sealed files are made; later search, seal and write again."""
    set_loader.LARGE = LARGE
    with Memory.open(path, embedder="words") as memory:

        def look() -> None:
            memory.knowledge.search("canary", limit=50)
            for key in keys:
                for word in WORDS:
                    memory.key(key).search(word, limit=50)

        look()
        memory.sweep()
        say("ready")
        sys.stdin.readline()
        memory.knowledge.set("book").add("Something new.")
        look()
        memory.sweep()
    say("closed")


def read(path: Path) -> None:
    """Keep an old state of the store open."""
    db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    db.execute("BEGIN")
    db.execute("SELECT count(*) FROM item").fetchall()
    say("ready")
    sys.stdin.readline()
    db.execute("ROLLBACK")
    db.close()
    say("closed")


def forget(path: Path, *keys: str) -> None:
    """Forget key after key, and scrub after each."""
    with Memory.open(path, embedder="words") as memory:
        say("ready")
        for key in keys:
            memory.forget(key, scrub="later")
            memory.key("other").add("Still here.")
            memory.scrub()
            say(f"done {key}")
    say("closed")


if __name__ == "__main__":
    {"cache": cache, "read": read, "forget": forget}[sys.argv[1]](Path(sys.argv[2]), *sys.argv[3:])
