"""How long it takes to forget: to erase a key or an item, and to scrub the store after it.

python bench/forgetting.py --keys 100 --items 1000 --log
"""

from __future__ import annotations

import argparse
import random
import shlex
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

if not __package__:
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from alveus import Memory
from alveus.store import Add, Batch, ItemRecord, Scope, SetRef
from bench import measure
from bench.measure import Report, Result

CHARACTERS = 1_200


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what *arguments* (default: the command line) ask for."""
    words = sys.argv[1:] if arguments is None else arguments
    asked = _parser().parse_args(arguments)
    with (
        tempfile.TemporaryDirectory() as folder,
        Memory.open(Path(folder) / "app.db", embedder="words", durability="normal") as memory,
        measure.progress("forgetting", total=asked.keys + 3) as step,
    ):
        for number in range(asked.keys):
            _fill(memory, f"key {number}", asked.items)
            step("items")
        found = _measured(memory, asked.keys, asked.items, step)
    where = measure.machine(Path.cwd())
    measure.show(found, title=f"forgetting · {where.line()}")
    if asked.log:
        command = shlex.join(["python", "bench/forgetting.py", *words])
        measure.append_log(Report("forgetting", command, where, found))
    return 0


def _measured(memory: Memory, keys: int, items: int, step: Callable[[str], None]) -> list[Result]:
    stats = memory.store.stats()
    size = (stats.file_bytes + stats.wal_bytes) / 1e6
    one, last = memory.key("key 1"), f"key {keys - 1}"
    tasks: list[tuple[str, int, Callable[[], object]]] = [
        ("erase an item", 1, lambda: one.forget("7", scrub="later")),
        ("erase a key", items, lambda: memory.forget(last, scrub="later")),
        ("scrub", items * keys, memory.scrub),
    ]
    found: list[Result] = []
    for name, count, work in tasks:
        found.append(_timed(name, count, work, f"a store of {size:.0f} MB"))
        step(name)
    return found


def _fill(memory: Memory, key: str, count: int) -> None:
    chance = random.Random(key)
    ref = SetRef(Scope(memory.space, key), "default")
    records = [
        ItemRecord(
            str(i), None, chance.randbytes(CHARACTERS // 2).hex(), terms=chance.randbytes(250)
        )
        for i in range(count)
    ]
    items = [Add(ref, record) for record in records]
    memory.store.commit(Batch(scope=ref.scope, time=memory.engine.clock(), items=items))


def _timed(name: str, count: int, work: Callable[[], object], note: str) -> Result:
    began = time.perf_counter()
    work()
    return Result("alveus", name, count, value=time.perf_counter() - began, unit="s", note=note)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="bench/forgetting.py", description="Measure forgetting.")
    parser.add_argument("--keys", type=int, default=100)
    parser.add_argument("--items", type=int, default=1_000, help="of each key")
    parser.add_argument("--log", action="store_true", help="append the results to LOG.md")
    return parser


if __name__ == "__main__":
    sys.exit(main())
