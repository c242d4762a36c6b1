"""Ranges: the latest of many names, the first of many, and a filtered search over many sets.

    python bench/ranges.py                       alveus and bare SQLite, one table
    python bench/ranges.py --calls 500

`latest` reads the last of 2,000 checkpoints, its name and its value; `first` the names of the first
10 of 5,000 fields; `search` asks 20 sets of 100 items each, with a filter. SQLite does the first
two with one indexed statement each, and searches with its FTS5 and a filter on JSON. Its file has
the same durability, and holds nothing else.
"""

from __future__ import annotations

import argparse
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

if not __package__:
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from alveus import Memory

CHECKPOINTS, FIELDS, SETS, ITEMS = 2_000, 5_000, 20, 100
WANTED = 10
WORDS = ("kite", "river", "ticket", "window", "garden", "violin", "harbour", "lantern")


def text_of(number: int) -> str:
    """Return the text of an item."""
    words = (WORDS[(number * step) % len(WORDS)] for step in (1, 3, 5))
    return f"{' '.join(words)} {number}"


def alveus_calls(folder: Path) -> tuple[Memory, dict[str, Callable[[], object]]]:
    """Return a filled memory, and the calls to time."""
    memory = Memory.open(folder / "alveus.db", embedder="words")
    key = memory.key("ada")
    with key.batch() as batch:
        for number in range(CHECKPOINTS):
            batch.short_term.set(("points", f"{number:08}"), {"step": number, "text": "x" * 100})
        for number in range(FIELDS):
            batch.short_term.set(("fields", f"{number:08}"), number)
    for number in range(SETS):
        items = [text_of(number * ITEMS + n) for n in range(ITEMS)]
        with key.batch() as batch:
            for n, text in enumerate(items):
                batch.set(f"docs/{number:02}").add(text, metadata={"even": n % 2 == 0})
    points = key.short_term.get_object("points")
    fields = key.short_term.get_object("fields")

    def latest() -> object:
        (name,) = points.names(limit=1, newest_first=True)
        return name, points.get((name,))

    return memory, {
        "latest of 2,000": latest,
        "latest, by all names": lambda: points.get((points.get_field_names()[-1],)),
        "first 10 of 5,000": lambda: fields.names(limit=WANTED),
        "first 10, by all names": lambda: fields.get_field_names()[:WANTED],
        "filtered search, 20 sets": lambda: key.search(
            "harbour kite", prefix="docs/", where={"even": True}
        ),
        "keys by prefix": lambda: list(memory.keys(prefix="a")),
        "counts of 20 sets": lambda: key.sets(prefix="docs/", counts=True),
    }


def sqlite_calls(folder: Path) -> tuple[sqlite3.Connection, dict[str, Callable[[], object]]]:
    """Return a filled database, and the calls to time."""
    db = sqlite3.connect(folder / "bare.db")
    db.executescript(
        "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;"
        "CREATE TABLE node (parent TEXT, name TEXT, value TEXT, PRIMARY KEY (parent, name))"
        " WITHOUT ROWID;"
        "CREATE VIRTUAL TABLE doc USING fts5(text, home UNINDEXED, metadata UNINDEXED);"
    )
    points = [("points", f"{n:08}", f'{{"step": {n}, "text": "{"x" * 100}"}}')
              for n in range(CHECKPOINTS)]  # fmt: skip
    fields = [("fields", f"{n:08}", str(n)) for n in range(FIELDS)]
    db.executemany("INSERT INTO node VALUES (?, ?, ?)", [*points, *fields])
    docs = [
        (text_of(n), f"docs/{n // ITEMS:02}", f'{{"even": {n % ITEMS % 2 == 0!s}}}'.lower())
        for n in range(SETS * ITEMS)
    ]
    db.executemany("INSERT INTO doc VALUES (?, ?, ?)", docs)
    db.commit()
    last = "SELECT name, value FROM node WHERE parent = 'points' ORDER BY name DESC LIMIT 1"
    first = f"SELECT name FROM node WHERE parent = 'fields' ORDER BY name LIMIT {WANTED}"  # noqa: S608 - ours
    search = (
        "SELECT rowid, bm25(doc) FROM doc WHERE doc MATCH 'harbour OR kite' AND home GLOB 'docs/*'"
        " AND json_extract(metadata, '$.even') ORDER BY rank LIMIT 10"
    )
    return db, {
        "latest of 2,000": lambda: db.execute(last).fetchone(),
        "first 10 of 5,000": lambda: db.execute(first).fetchall(),
        "filtered search, 20 sets": lambda: db.execute(search).fetchall(),
    }


def median_ms(call: Callable[[], object], calls: int) -> float:
    """Return the median time of a call, after ten that are not counted."""
    for _ in range(10):
        call()
    times: list[float] = []
    for _ in range(calls):
        began = time.perf_counter()
        call()
        times.append(time.perf_counter() - began)
    return statistics.median(times) * 1000


def main(given: list[str] | None = None) -> int:
    """Fill, time, and print one table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--calls", type=int, default=200, help="timed calls of each")
    calls: int = parser.parse_args(given).calls
    with tempfile.TemporaryDirectory() as folder:
        memory, ours = alveus_calls(Path(folder))
        db, theirs = sqlite_calls(Path(folder))
        print("| call | alveus, ms | SQLite, ms | x |\n| --- | ---: | ---: | ---: |")
        for name, call in ours.items():
            took = median_ms(call, calls)
            other = median_ms(theirs[name], calls) if name in theirs else None
            beside = "" if other is None else f"{other:.3f}"
            times = "" if other is None else f"{took / other:.1f}"
            print(f"| {name} | {took:.3f} | {beside} | {times} |", flush=True)
        memory.close()
        db.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
