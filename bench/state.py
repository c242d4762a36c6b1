"""Exact memory: what reading and writing a tree costs, alone, and beside a million nodes.

    python bench/state.py                        alveus, a dict, and LangGraph's SqliteSaver
    python bench/state.py --nodes 1000000 --log
    python bench/state.py --systems dict,langgraph-saver

`set` is one durable commit each; `set in a batch` is one field of a batch of 1,000. An action reads
and writes ten fields and commits once. A dict is the floor: it keeps nothing. The saver writes its
whole state at every step, and keeps every step. The floor of what alveus writes is apsw alone: the
same rows, in the same transactions.
"""

from __future__ import annotations

import argparse
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, Protocol

if not __package__:
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from bench import measure, peers
from bench.measure import Figure, Report, Result, timed

if TYPE_CHECKING:
    from bench.floor import Floor

WORK = Path(__file__).resolve().parent / ".work"
KEY = "ada"
FIELDS = 10
IN_BATCH = 1000
FILL_AT_ONCE = 10_000
SIBLINGS = (10, 10_000)
DEEP = "a.b.c.d"


class Tree(Protocol):
    """An exact memory of one key. What a system has not, it names in `lacks` (by operation), with
    the reason."""

    name: str
    durable: bool
    lacks: Mapping[str, str]

    def open(self, folder: Path) -> None: ...
    def fill(self, paths: Sequence[str]) -> None:
        """Set every path, all in one commit."""

    def set(self, path: str, value: object) -> None: ...
    def get(self, path: str) -> object: ...
    def fields(self, path: str) -> object:
        """The direct fields of the object at *path*, with their values."""

    def action(self, paths: Sequence[str], value: int) -> None:
        """Read and write every path, then commit once."""

    def close(self) -> None: ...


class Dict:
    """A nested dict."""

    name = "dict"
    durable = False
    lacks: Mapping[str, str] = MappingProxyType({})

    def open(self, folder: Path) -> None:
        self._root: dict = {}

    def fill(self, paths: Sequence[str]) -> None:
        for path in paths:
            self.set(path, 1)

    def set(self, path: str, value: object) -> None:
        *above, last = path.split(".")
        place: dict = self._root
        for name in above:
            place = place.setdefault(name, {})
        place[last] = value

    def get(self, path: str):
        place = self._root
        for name in path.split("."):
            place = place[name]
        return place

    def fields(self, path: str) -> object:
        return dict(self.get(path))

    def action(self, paths: Sequence[str], value: int) -> None:
        for path in paths:
            self.get(path)
            self.set(path, value)

    def close(self) -> None:
        self._root = {}


class Saver:
    """LangGraph's SqliteSaver: the state of a thread as one checkpoint per step."""

    name = "langgraph-saver"
    durable = True
    lacks: Mapping[str, str] = dict.fromkeys(
        ("set", "set in a batch", "get", "get deep", "fields", "sibling"),
        "reads and writes whole states only",
    )

    def open(self, folder: Path) -> None:
        import sqlite3  # here and below: only this system needs them

        from langgraph.checkpoint.base import empty_checkpoint
        from langgraph.checkpoint.sqlite import SqliteSaver

        self._empty = empty_checkpoint
        self._connection = sqlite3.connect(folder / "saver.db", check_same_thread=False)
        self._saver = SqliteSaver(self._connection)
        self._config = {"configurable": {"thread_id": KEY, "checkpoint_ns": ""}}

    def action(self, paths: Sequence[str], value: int) -> None:
        found = self._saver.get_tuple(self._config)
        state = dict(found.checkpoint["channel_values"]) if found else {}
        for path in paths:
            state.get(path)
            state[path] = value
        checkpoint = self._empty()
        checkpoint["channel_values"] = state
        self._saver.put(
            self._config, checkpoint, {"source": "loop", "step": value, "parents": {}}, {}
        )

    def close(self) -> None:
        self._connection.close()

    def fill(self, paths: Sequence[str]) -> None:
        raise NotImplementedError

    def set(self, path: str, value: object) -> None:
        raise NotImplementedError

    def get(self, path: str) -> object:
        raise NotImplementedError

    def fields(self, path: str) -> object:
        raise NotImplementedError


class Alveus:
    """The short-term tree of one key."""

    name = "alveus"
    durable = True
    durability: Literal["full", "normal"] = "full"
    lacks: Mapping[str, str] = MappingProxyType({})

    def open(self, folder: Path) -> None:
        from alveus import Memory

        self._memory = Memory.open(str(folder / "alveus.db"), durability=self.durability)
        self._key = self._memory.key(KEY)
        self._tree = self._key.short_term

    def fill(self, paths: Sequence[str]) -> None:
        with self._key.batch() as batch:
            for path in paths:
                batch.short_term.set(path, 1)

    def set(self, path: str, value: object) -> None:
        self._tree.set(path, value)

    def get(self, path: str) -> object:
        return self._tree.get(path)

    def fields(self, path: str) -> object:
        return self._tree.get_object(path).get_fields()

    def action(self, paths: Sequence[str], value: int) -> None:
        with self._key.batch() as batch:
            for path in paths:
                batch.short_term.get(path)
                batch.short_term.set(path, value)

    def floor(self, write: Callable[[int], object], count: int, folder: Path) -> Floor:
        """What *count* writes take, and by apsw alone."""
        from bench.floor import floor_of

        return floor_of(self._memory, write, count, folder, durability=self.durability)

    def close(self) -> None:
        self._memory.close()


class AlveusNormal(Alveus):
    """Without the sync per commit."""

    name = "alveus-normal"
    durability = "normal"


SYSTEMS: dict[str, Callable[[], Tree]] = {
    each.name: each for each in (Alveus, AlveusNormal, Saver, Dict)
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure what *arguments* (default: the command line) ask for; 1 if a system failed."""
    asked = _parser().parse_args(arguments)
    folder = asked.work / "state"
    peers.offline(asked.work)
    measure.one_core(asked.core)
    results: list[Result] = []
    asked.work.mkdir(parents=True, exist_ok=True)
    where = measure.machine(asked.work)
    with measure.progress("state", total=len(asked.systems)) as step:
        for name in asked.systems:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            try:
                results.extend(
                    measured(SYSTEMS[name](), folder, nodes=asked.nodes, count=asked.count)
                )
            except Exception as error:  # noqa: BLE001 - the edge of the benchmark: a system's failure is reported, the others go on
                results.append(
                    Result(
                        name,
                        "run",
                        asked.nodes,
                        note=f"failed: {type(error).__name__}: {error}"[:200],
                    )
                )
            shutil.rmtree(folder, ignore_errors=True)
            step(name)
    measure.show(results, title=f"exact memory · {where.line()}")
    if asked.log:
        command = shlex.join(
            ["python", "bench/state.py", *(sys.argv[1:] if arguments is None else arguments)]
        )
        measure.append_log(Report("state", command, where, results))
    return int(any(each.note.startswith("failed") for each in results))


def measured(tree: Tree, folder: Path, *, nodes: int, count: int) -> Iterator[Result]:
    """Every figure of *tree* in an empty *folder*: first nearly empty, then beside *nodes*
    nodes."""
    tree.open(folder)
    try:
        for items, operations in ((0, _small(tree, count)), (nodes, _large(tree, nodes, count))):
            for name, operation in operations.items():
                if name in tree.lacks:
                    yield Result(tree.name, name, items, note=tree.lacks[name])
                    continue
                yield from _related(tree, folder, name, items, operation)
            if isinstance(tree, Alveus) and not items:
                yield from _floors(tree, folder, count)
    finally:
        tree.close()


def _related(
    tree: Tree, folder: Path, name: str, items: int, operation: Callable[[], Figure]
) -> Iterator[Result]:
    """The figure of *operation*, beside the disk's own sync if the system writes to it."""
    writes = name.startswith(("set", "action", "sibling")) and tree.durable
    baseline = measure.sync_baseline(folder) if writes else None
    figure = operation()
    rate = f"{1000 / figure.p50:,.0f}/s"
    yield Result(
        tree.name, name, items, figure=figure.against(baseline) if baseline else figure, note=rate
    )


def _floors(tree: Alveus, folder: Path, count: int) -> Iterator[Result]:
    """What apsw alone takes for the rows that alveus writes."""
    paths = [f"f{i}" for i in range(FIELDS)]
    batch = [f"b{i}" for i in range(IN_BATCH)]
    few = max(5, count // 100)
    floors = {
        "set": tree.floor(lambda i: tree.set(f"f{i % FIELDS}", -i), count, folder),
        "set in a batch": tree.floor(lambda _: tree.fill(batch), few, folder),
        "action": tree.floor(lambda i: tree.action(paths, -i), count, folder),
    }
    for name, floor in floors.items():
        figure = floor.bare.per(IN_BATCH) if name == "set in a batch" else floor.bare
        yield Result(tree.name, f"floor of {name}", 0, figure=figure, note=floor.note)


def _small(tree: Tree, count: int) -> dict[str, Callable[[], Figure]]:
    paths = [f"f{i}" for i in range(FIELDS)]
    batch = [f"b{i}" for i in range(IN_BATCH)]
    return {
        "set": lambda: timed(lambda i: tree.set(f"f{i % FIELDS}", i), count),
        "set in a batch": lambda: timed(lambda _: tree.fill(batch), max(5, count // 100)).per(
            IN_BATCH
        ),
        "get": lambda: timed(lambda i: tree.get(f"f{i % FIELDS}"), count * 10),
        "get deep": lambda: _deep(tree, count),
        "action": lambda: timed(lambda i: tree.action(paths, i), count),
    }


def _large(tree: Tree, nodes: int, count: int) -> dict[str, Callable[[], Figure]]:
    return {
        "fields": lambda: _fields(tree, nodes, count),
        **{
            f"sibling {siblings}": lambda siblings=siblings: _sibling(tree, siblings, count)
            for siblings in SIBLINGS
            if "sibling" not in tree.lacks
        },
    }


def _deep(tree: Tree, count: int) -> Figure:
    tree.set(DEEP, 1)
    return timed(lambda _: tree.get(DEEP), count * 10)


def _fields(tree: Tree, nodes: int, count: int) -> Figure:
    """`fields` of an object with ten fields, beside *nodes* nodes of another object."""
    tree.fill([f"small.f{i}" for i in range(FIELDS)])
    for start in range(0, nodes, FILL_AT_ONCE):
        tree.fill(
            [
                f"large.o{i // 100}.f{i % 100}"
                for i in range(start, min(nodes, start + FILL_AT_ONCE))
            ]
        )
    return timed(lambda _: tree.fields("small"), count)


def _sibling(tree: Tree, siblings: int, count: int) -> Figure:
    """Writing one field of an object that has *siblings*."""
    tree.fill([f"wide{siblings}.f{i}" for i in range(siblings)])
    return timed(lambda i: tree.set(f"wide{siblings}.f{i % siblings}", i), count)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="bench/state.py", description="Measure exact memory.")
    parser.add_argument(
        "--systems",
        type=measure.some_of(SYSTEMS),
        default=list(SYSTEMS),
        help=f"of {','.join(SYSTEMS)}",
    )
    parser.add_argument(
        "--nodes", type=int, default=1_000_000, help="nodes beside the small object"
    )
    parser.add_argument("--count", type=int, default=1000, help="calls per figure")
    parser.add_argument("--core", type=int, default=0, help="the core that everything runs on")
    parser.add_argument(
        "--work", type=Path, default=WORK, help="a folder on the disk to be measured"
    )
    parser.add_argument("--log", action="store_true", help="append the results to LOG.md")
    return parser


if __name__ == "__main__":
    sys.exit(main())
