"""alveus on SQLite and on PostgreSQL, beside pgvector alone and LangGraph's Postgres store.

    python bench/stores.py                       keys of 100 items, and one of 100,000
    python bench/stores.py --million --log       one of 1,000,000 too; results go into LOG.md
    python bench/stores.py --quick               a smoke run, under a minute
    python bench/stores.py --systems alveus-sqlite,alveus-postgres --only search,adds

All systems are open at once, on one disk and one PostgreSQL server, which is started here and
removed at the end. They take turns in short rounds, so that a busy machine slows all of them alike.
Texts are generated, their vectors come from alveus's `static` embedder, and every system reads them
from the same dictionary: what embedding takes is a row of its own.
"""

from __future__ import annotations

import argparse
import multiprocessing
import shlex
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from importlib import import_module
from itertools import count
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

if not __package__:
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from alveus.embed import open_embedder
from bench import measure, peers
from bench.corpus import Corpus, Rows, Vectors
from bench.measure import Report
from bench.peers import EVERYWHERE
from bench.turns import PEER, Measured, Operation, Turns, mean, rotated, sheet

SYSTEMS: Mapping[str, tuple[str, str]] = {
    "alveus-sqlite": ("bench.peers.ours", "Alveus"),
    "alveus-postgres": ("bench.peers.ours", "AlveusPostgres"),
    "pgvector-hnsw": ("bench.peers.on_postgres", "Pgvector"),
    "pgvector-exact": ("bench.peers.on_postgres", "PgvectorExact"),
    "langgraph-postgres": ("bench.peers.langgraph_postgres", "LangGraphPostgres"),
}
ON_A_FILE = ("alveus-sqlite",)
OPERATIONS = ("add", "batch", "get", "search", "runs", "adds", "across")
LIMIT = 10
PER_KEY = 100
WARM_KEYS = 20
WRITTEN_KEYS = 20
"""Keys that the measured adds go to, so that those that are searched stay as they are."""
FRESH = 4096
"""Texts for adds; after so many they come again under other ids."""
MANY = 100_000
"""Past so many items an exact search takes half a minute, and few are asked."""
FEW = 3
PROCESSES = (1, 2, 4, 8, 16)
RUNS_AT_ONCE = 64
"""Runs of one turn: one for each of the agent's keys."""
WORK = Path(__file__).resolve().parent / ".work"


class Scale(NamedTuple):
    """How much is measured.

    Attributes:
        keys: Keys of 100 items.
        rounds: Turns that each system has at an operation.
        turn_s: How long a turn lasts.
        questions: Different questions; each round asks its share of them.
        recalled: How many of them tell what is found.
        exact: How many of them are also answered exactly, for recall.
        processes: How many processes add at once.
    """

    keys: int
    rounds: int
    turn_s: float
    questions: int
    recalled: int
    exact: int
    processes: Sequence[int]


FULL = Scale(
    keys=200, rounds=5, turn_s=1.5, questions=5_000, recalled=200, exact=20, processes=PROCESSES
)
QUICK = Scale(keys=30, rounds=2, turn_s=0.1, questions=100, recalled=20, exact=5, processes=(1, 2))


class StaticTexts:
    """The vectors of alveus's `static` embedder, each text's computed once: a look-up, no model.

    `keep` learns texts for good, `turn_to` until it is called again.
    """

    name = "bench-static"
    instant = True

    def __init__(self) -> None:
        self._embedder = open_embedder("static")
        self.dimensions = self._embedder.dimensions
        self._kept: dict[str, Any] = {}
        self._passing: dict[str, Any] = {}

    def keep(self, texts: Sequence[str]) -> None:
        self._kept.update(zip(texts, self._embedder.embed(texts), strict=True))

    def turn_to(self, texts: Sequence[str]) -> None:
        self._passing = dict(zip(texts, self._embedder.embed(texts), strict=True))

    def embed(self, texts: Sequence[str]) -> Vectors:
        found = [self._kept.get(text, self._passing.get(text)) for text in texts]
        known = [each for each in found if each is not None]
        if not known or len(known) < len(found):
            return self._embedder.embed(texts)
        return np.stack(known)


class Place(NamedTuple):
    """Where one system keeps one set of items: a folder, and a URL if it is on the server."""

    system: str
    folder: Path
    url: str

    def open(self, embedder: StaticTexts) -> Any:
        """The system, opened there."""
        module, made_by = SYSTEMS[self.system]
        more = () if self.system in ON_A_FILE else (self.url,)
        made = getattr(import_module(module), made_by)(embedder, *more)
        made.open(self.folder, embedder.dimensions)
        return made


# --- many processes that add ----------------------------------------------------------------------


class Workers:
    """Processes that have every system open, and add when they are told to."""

    def __init__(self, processes: int, places: Sequence[Place], texts: Sequence[str]) -> None:
        context = multiprocessing.get_context("spawn")
        self._ends: list[Connection] = []
        self._processes = []
        for number_ in range(processes):
            mine, its = context.Pipe()
            child = context.Process(target=work, args=(its, number_, places, texts), daemon=True)
            child.start()
            self._ends.append(mine)
            self._processes.append(child)
        for end in self._ends:
            end.recv()

    def add(self, system: str, processes: int, seconds: float) -> tuple[float, list[float], float]:
        """Have so many processes add one item after the other, each to keys of its own.

        Returns:
            Adds per second, milliseconds of each add, and the CPU seconds of the processes.
        """
        begin = time.monotonic() + 0.05
        for end in self._ends[:processes]:
            end.send((system, begin, seconds))
        answers = [end.recv() for end in self._ends[:processes]]
        samples = [each for found, _, _ in answers for each in found]
        elapsed = max(ended for _, ended, _ in answers) - begin
        return len(samples) / elapsed, samples, sum(cpu for _, _, cpu in answers)

    def close(self) -> None:
        for end in self._ends:
            end.send(None)
        for process in self._processes:
            process.join()


def work(end: Connection, worker: int, places: Sequence[Place], texts: Sequence[str]) -> None:
    """Add when told to; the body of a process."""
    embedder = StaticTexts()
    embedder.keep(texts)
    systems = {place.system: place.open(embedder) for place in places}
    numbers = count()
    for system in systems.values():
        _add(system, f"w{worker}-{next(numbers)}", texts[0], f"w{worker}")
    end.send(None)
    while (told := end.recv()) is not None:
        name, begin, seconds = told
        time.sleep(max(0.0, begin - time.monotonic()))
        cpu, samples = time.process_time(), []
        while time.monotonic() < begin + seconds:
            at = next(numbers)
            began = time.perf_counter()
            _add(systems[name], f"w{worker}-{at}", texts[at % len(texts)], f"w{worker}-{at % 10}")
            samples.append((time.perf_counter() - began) * 1e3)
        end.send((samples, time.monotonic(), time.process_time() - cpu))
    for system in systems.values():
        system.close()


def _add(system: Any, name: str, text: str, scope: str) -> None:
    system.add_one(Rows([name], [text], ["other"], np.empty((1, 0), np.float32)), scope)


# --- what is measured -----------------------------------------------------------------------------


class Bench:
    """The systems, where they are, and what they are asked."""

    def __init__(self, asked: argparse.Namespace, work: Path, server: Any) -> None:
        self._asked, self._work, self._server = asked, work, server
        self._scale: Scale = QUICK if asked.quick else FULL
        self._corpus = Corpus(asked.seed)
        self._embedder = StaticTexts()
        self._turns = Turns(
            self._scale.rounds, self._scale.turn_s, server.cpu_s if server else lambda: 0.0
        )
        self._fresh = rows_of(self._corpus, 10_000_000, FRESH)
        self._embedder.keep(self._fresh.texts)

    @property
    def steps(self) -> int:
        """How many steps `results` takes."""
        small = 2 + len(set(OPERATIONS[:6]) & set(self._asked.only))
        return small + 4 * len(self._asked.items) * ("across" in self._asked.only)

    def results(self, step: Callable[..., None]) -> Iterator[Measured]:
        """Every result, as it is known."""
        yield self._embedding()
        step("embedding")
        if set(OPERATIONS[:6]) & set(self._asked.only):
            yield from self._within_keys(step)
        for items in self._asked.items if "across" in self._asked.only else ():
            yield from self._across(items, step)

    @contextmanager
    def _opened(self, kind: str) -> Iterator[tuple[list[Place], dict[str, Any]]]:
        """All systems, empty; what they stored is removed at the end."""
        with self._places(kind) as places, ExitStack() as stack:
            opened: dict[str, Any] = {}
            for place in places:
                opened[place.system] = system = place.open(self._embedder)
                stack.callback(system.close)
            yield places, opened

    @contextmanager
    def _places(self, kind: str) -> Iterator[list[Place]]:
        """An empty place for each system; removed at the end."""
        places = [self._place(name, kind) for name in self._asked.systems]
        yield places
        for place in places:
            shutil.rmtree(place.folder)
            if place.url:
                self._server.drop(place.folder.name)

    def _place(self, system: str, kind: str) -> Place:
        folder = self._work / f"{system}-{kind}"
        folder.mkdir()
        made = "" if system in ON_A_FILE else self._server.make(folder.name)
        return Place(system, folder, made)

    def _embedding(self) -> Measured:
        texts, embedder = self._fresh.texts, open_embedder("static")
        figure = measure.timed(lambda i: embedder.embed([texts[i % FRESH]]), 500, warm=10)
        return Measured(
            "embed a text",
            1,
            "all",
            rounds=[figure.low, figure.p50, figure.high],
            client_cpu=figure.cpu,
            note="in no other row",
        )

    # --- keys of 100 items ----------------------------------------------------------------------

    def _within_keys(self, step: Callable[..., None]) -> Iterator[Measured]:
        items = self._scale.keys * PER_KEY
        with self._opened("keys") as (places, systems):
            yield from self._load(systems, items, keys=self._scale.keys)
            step(f"{items:,} items loaded")
            for name, measured in self._parts(items, places, systems).items():
                if name in self._asked.only:
                    yield from measured()
                    step(name)

    def _parts(
        self, items: int, places: Sequence[Place], systems: Mapping[str, Any]
    ) -> dict[str, Callable[[], Iterator[Measured]]]:
        fresh, keys, rounds = self._fresh, self._scale.keys, self._scale.rounds
        per_key = self._scale.questions // WARM_KEYS
        by_key = [self._about(key, per_key) for key in range(WARM_KEYS)]
        warm_questions = [text for texts in zip(*by_key, strict=True) for text in texts]
        cold_questions = [self._about(key, 1)[0] for key in range(WARM_KEYS, keys)]

        def add(system: Any, at: int) -> None:
            _add(system, f"a{at}", fresh.texts[at % FRESH], f"a{at % WRITTEN_KEYS}")

        def add_to_warm(system: Any, at: int) -> None:
            _add(system, f"s{at}", fresh.texts[at % FRESH], f"k{at % WARM_KEYS}")

        def batch(system: Any, at: int) -> None:
            start = at * PER_KEY % (FRESH - PER_KEY)
            part = fresh.part(start, start + PER_KEY)
            named = replace(part, ids=[f"b{at}-{i}" for i in range(PER_KEY)])
            system.add(named, [f"b{at}"] * PER_KEY)

        def get(system: Any, at: int) -> None:
            found = at * 7919 % items
            system.get(f"n{found:08d}", f"k{found // PER_KEY}")

        def first(system: Any, at: int) -> None:
            system.search(None, cold_questions[at], f"k{WARM_KEYS + at}", LIMIT)

        def search(system: Any, at: int) -> None:
            system.search(None, warm_questions[at], f"k{at % WARM_KEYS}", LIMIT)

        def search_again(system: Any, at: int) -> None:
            search(system, at - len(warm_questions))

        def each(*operations: Operation, items: int = items) -> Iterator[Measured]:
            for operation in operations:
                yield from self._turns.measure(operation, items, systems)

        return {
            "get": lambda: each(Operation("get", get, per_call=1)),
            "search": lambda: each(
                Operation(
                    "search a key for the first time", first, most=len(cold_questions) // rounds
                ),
                Operation("search a key", search, most=len(warm_questions) // rounds),
                Operation(
                    "search a key after an add to it", search_again, before=add_to_warm, most=40
                ),
                items=PER_KEY,
            ),
            "add": lambda: each(Operation("add one", add, per_call=1)),
            "batch": lambda: each(Operation("add 100 at once", batch, per_call=PER_KEY)),
            "runs": self._runs,
            "adds": lambda: self._adds(items, places),
        }

    def _about(self, key: int, wanted: int) -> Sequence[str]:
        """Questions about the items of a key."""
        rows = rows_of(self._corpus, key * PER_KEY, PER_KEY)
        texts = questions_of(rows, wanted, key).texts
        self._embedder.keep(texts)
        return texts

    def _adds(self, items: int, places: Sequence[Place]) -> Iterator[Measured]:
        """Adds by several processes at once."""
        scale = self._scale
        workers = Workers(max(scale.processes), places, self._fresh.texts[:500])
        try:
            for processes in scale.processes:
                name = f"adds by {processes} process{'es' if processes > 1 else ''}"
                found = [Measured(name, items, place.system, "/s") for place in places]
                for turn in range(scale.rounds):
                    for each in rotated(found, turn):
                        server = self._turns.server_cpu_s()
                        rate, samples, cpu = workers.add(each.system, processes, scale.turn_s)
                        took = self._turns.server_cpu_s() - server
                        each.rounds.append(rate)
                        known, new = len(each.samples), len(samples)
                        each.client_cpu = mean(each.client_cpu, known, cpu * 1e3 / new, new)
                        each.server_cpu = mean(each.server_cpu, known, took * 1e3 / new, new)
                        each.samples.extend(samples)
                yield from found
        finally:
            workers.close()

    def _runs(self) -> Iterator[Measured]:
        """Runs of the agent of `bench/runs.py`, 64 at a time, each of another key."""
        with self._places("runs") as places, ExitStack() as stack:
            agents: dict[str, Any] = {}
            for place in places:
                if (made := _agent(place)) is not None:
                    agents[place.system] = made
                    stack.callback(made.close)
            operation = Operation(
                "runs of an agent",
                lambda system, at: system.run(at * RUNS_AT_ONCE, RUNS_AT_ONCE),
                per_call=RUNS_AT_ONCE,
            )
            yield from self._turns.measure(operation, RUNS_AT_ONCE, agents)

    # --- one key with all items -----------------------------------------------------------------

    def _across(self, items: int, step: Callable[..., None]) -> Iterator[Measured]:
        """Search in one key that has them all, and how much of the exact answer it finds."""
        scale = self._scale
        questions = self._about_all(items)
        self._embedder.keep(questions.texts)
        with self._opened(f"across{items}") as (_, systems):
            yield from self._load(systems, items, keys=1)
            step(f"{items:,} items loaded")

            def search(system: Any, at: int) -> list[str]:
                return system.search(None, questions.texts[at], None, LIMIT)

            for name, system in systems.items():
                figure = measure.once(lambda system=system: search(system, 0))
                yield Measured("first search across", items, name, rounds=[figure.p50])
            step("first searches")
            most = len(questions) // scale.rounds
            operation = Operation("search across", search, most=most)
            yield from self._turns.measure(operation, items, systems)
            step("searches")
            for name, system in systems.items():
                yield from self._recall(name, system, items, questions, search)
            step("recall")

    def _about_all(self, items: int) -> Rows:
        """Questions about items of ten parts of all."""
        parts = [
            questions_of(rows_of(self._corpus, start, min(500, items // 10)), wanted, start)
            for wanted in [self._scale.questions // 10]
            for start in range(0, items, items // 10)
        ]
        asked = [part.part(at, at + 1) for at in range(len(parts[0])) for part in parts]
        return Rows(
            [row.ids[0] for row in asked],
            [row.texts[0] for row in asked],
            [row.kinds[0] for row in asked],
            parts[0].vectors,
        )

    def _recall(
        self,
        name: str,
        system: Any,
        items: int,
        questions: Rows,
        search: Callable[[Any, int], list[str]],
    ) -> Iterator[Measured]:
        """How much of its own exact answer a system finds, and how often what was asked for."""
        recalled = range(self._scale.recalled)
        asked = range(self._scale.exact if items <= MANY else FEW)
        found = [search(system, at) for at in recalled]
        exact = [system.exact(questions.texts[at], None, LIMIT) for at in asked]
        same = sum(len(set(found[at]) & set(exact[at])) for at in asked)
        recall = 100 * same / sum(map(len, exact))
        right = sum(questions.ids[at] in found[at] for at in recalled)
        note = f"{len(exact)} questions; {system.searches}"
        yield Measured("recall@10", items, name, "%", [recall], note=note)
        share = 100 * right / len(recalled)
        note = f"{len(recalled)} questions"
        yield Measured("found@10", items, name, "%", [share], note=note)

    def _load(self, systems: Mapping[str, Any], items: int, *, keys: int) -> Iterator[Measured]:
        """Fill all systems, a thousand items at a time, in turns."""
        took, cpu, server = (dict.fromkeys(systems, 0.0) for _ in range(3))
        for start in range(0, items, 1000):
            rows = rows_of(self._corpus, start, min(1000, items - start))
            self._embedder.turn_to(rows.texts)
            scopes = [
                f"k{(start + i) // PER_KEY}" if keys > 1 else EVERYWHERE for i in range(len(rows))
            ]
            for name, system in systems.items():
                began = time.perf_counter(), time.process_time(), self._turns.server_cpu_s()
                system.add(rows, scopes)
                took[name] += time.perf_counter() - began[0]
                cpu[name] += time.process_time() - began[1]
                server[name] += self._turns.server_cpu_s() - began[2]
        for name, system in systems.items():
            began = time.perf_counter()
            system.prepare()
            yield Measured(
                f"load into {keys:,} key{'s' if keys > 1 else ''}",
                items,
                name,
                "/s",
                [items / took[name]],
                client_cpu=cpu[name] * 1e3 / items,
                server_cpu=server[name] * 1e3 / items,
                note=f"index {time.perf_counter() - began:.1f} s",
            )


def _agent(place: Place) -> Any:
    """The system of `bench/runs.py` that keeps its runs where *place* is; None: there is none."""
    from bench import runs

    if place.system == "alveus-sqlite":
        return _at(runs.Alveus(place.system, "runs.db", "full"), place)
    if place.system == "alveus-postgres":
        return _at(runs.Alveus(place.system, place.url, "full"), place)
    if place.system == PEER:
        from bench.peers.langgraph_postgres import LangGraphRuns

        return _at(LangGraphRuns(place.url), place)
    return None


def _at(made: Any, place: Place) -> Any:
    made.open(place.folder)
    return made


def rows_of(corpus: Corpus, start: int, rows: int) -> Rows:
    """Items of the corpus, their texts without the names that they begin with."""
    found = corpus.take(start, rows)
    return replace(found, texts=[text.partition(" ")[2] for text in found.texts])


def questions_of(rows: Rows, wanted: int, seed: int) -> Rows:
    """Questions of 4 to 10 words about *rows*, no two alike; the id is that of the item asked for.

    Asking about the same items again never repeats the words: what a system remembers of a
    question is of no use to it.
    """
    rng = np.random.default_rng((seed, 3))
    about: list[int] = rng.permutation(np.resize(np.arange(len(rows)), wanted)).tolist()
    texts: list[str] = []
    for at in about:
        words = rows.texts[at].split()
        chosen = rng.choice(len(words), int(rng.integers(4, 11)), replace=False)
        texts.append(" ".join(words[i] for i in sorted(chosen)))
    none = np.empty((wanted, 0), np.float32)
    return Rows([rows.ids[at] for at in about], texts, [rows.kinds[at] for at in about], none)


# --- the command ----------------------------------------------------------------------------------


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what *arguments* (default: the command line) ask for; 1 if a system failed."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    asked = _parser().parse_args(words)
    asked.items = asked.items or ([2_000] if asked.quick else [100_000])
    if asked.million:
        asked.items.append(1_000_000)
    asked.work.mkdir(parents=True, exist_ok=True)
    peers.offline(asked.work)
    folder = Path(tempfile.mkdtemp(prefix="stores-", dir=asked.work))
    folder.chmod(0o755)  # the server runs as another user, where this is root
    where, began, server = measure.machine(folder), datetime.now(UTC), None
    results: list[Measured] = []
    try:
        if set(asked.systems) - set(ON_A_FILE):
            from bench.postgres_server import Server

            server = Server(folder / "server")
        bench = Bench(asked, folder, server)
        with measure.progress("stores", total=bench.steps) as step:
            results.extend(bench.results(step))  # one by one: a run that fails shows what it has
    finally:
        if server:
            server.close()
        shutil.rmtree(folder, ignore_errors=True)
        shown = sheet(results)
        shown.show(f"stores · {where.line()}")
    if asked.log:
        command = shlex.join(["python", "bench/stores.py", *words])
        notes = _notes(server.version if server else None)
        measure.append_log(Report("stores", command, where, (), notes, began, shown))
    return int(any(each.note.startswith("failed") for each in results))


def _notes(postgresql: str | None) -> list[str]:
    """What one must know to read the table."""
    found = [
        "data: `bench/corpus.py`, vectors of the `static` embedder (256 numbers), looked up",
        (
            "all systems open at once, in turns; p50 is the median of the rounds' medians, spread"
            " the lowest and highest; CPU is ms a call, of the asking process and of the server"
        ),
        (
            "recall@10: how much of its own exact answer a system finds; found@10: how often the"
            " item that the question was made of is among the ten"
        ),
        (
            f"x {PEER}: how many times faster, or more per second (lowest and highest round);"
            " above 1 is better than it"
        ),
    ]
    if postgresql:
        from bench.postgres_server import SETTINGS

        settings = ", ".join(f"{name} {value}" for name, value in SETTINGS.items())
        found.append(f"PostgreSQL {postgresql} on the same machine and disk; {settings}")
    return found


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="bench/stores.py",
        description="Compare alveus on SQLite and PostgreSQL with its peers on PostgreSQL.",
    )
    parser.add_argument(
        "--systems", type=measure.some_of(SYSTEMS), default=list(SYSTEMS), help=",".join(SYSTEMS)
    )
    parser.add_argument(
        "--only",
        type=measure.some_of(OPERATIONS),
        default=list(OPERATIONS),
        help=",".join(OPERATIONS),
    )
    parser.add_argument(
        "--items",
        type=lambda text: [int(part) for part in text.split(",")],
        help="search across so many items in place of 100,000",
    )
    parser.add_argument("--million", action="store_true", help="across 1,000,000 items too")
    parser.add_argument("--quick", action="store_true", help="a smoke run: no figure means much")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--work", type=Path, default=WORK, help="a folder on the disk to measure")
    parser.add_argument("--log", action="store_true", help="append the results to LOG.md")
    return parser


if __name__ == "__main__":
    sys.exit(main())
