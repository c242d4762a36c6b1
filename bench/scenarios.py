"""What is done to each system: fill it, then one operation after another, each timed; in a process
of its own."""

from __future__ import annotations

import shutil
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from alveus.embed import open_embedder
from bench import measure
from bench.corpus import DIMENSIONS, KINDS, Corpus, CorpusEmbedder, Rows
from bench.floor import floor_of
from bench.measure import Figure, Result, timed
from bench.peers import EVERYWHERE, Peer, offline, peer
from bench.peers.ours import Alveus

PER_SCOPE = 100
"""Items of one user in the layout `many`."""
AT_ONCE = 1000
"""Items per call while filling."""
LIMIT = 10
THREADS = 16
FRESH = 16_000
"""Items made for the adds that follow the filling."""
FLOOR = 300
"""Adds that are done once more by apsw alone."""
MANY = 100_000
"""Past so many items an exact search takes half a minute, and few are asked."""

METHODS = {"add": "add_one", "busy": "add_one", "filtered": "search_filtered", "threads": "add_one"}
"""The method of a peer that an operation is made of, where it has another name."""
LAYOUTS = ("many", "one")
"""`many`: scopes of 100 items each, searches stay in one; `one`: all in one scope, searches go
through everything."""


@dataclass(frozen=True)
class Job:
    """One system, filled with *items* in *layout*, doing *operations*; at most *budget_s* for each,
    on one *core*."""

    system: str
    layout: str
    items: int
    operations: tuple[str, ...]
    budget_s: float
    core: int
    seed: int
    work: Path
    questions: Rows
    truth: Sequence[Sequence[str]]

    @property
    def title(self) -> str:
        scopes = "many scopes" if self.layout == "many" else "one scope"
        return f"{self.system}, {self.items:,} items, {scopes}"


def run(job: Job, lines: Path) -> None:
    """Do *job* and append its results to *lines*; the body of the child process."""
    offline(job.work)
    measure.one_core(job.core)
    folder = job.work / "data"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    scenario = Scenario(job, folder)
    try:
        for each in scenario.results():
            measure.write_lines(lines, [each])
    finally:
        scenario.close()
        shutil.rmtree(folder, ignore_errors=True)


class Scenario:
    """One system under one job: what it holds, and the operations by name."""

    def __init__(self, job: Job, folder: Path) -> None:
        self._job = job
        self._folder = folder
        self._corpus = Corpus(job.seed)
        self._embedder = CorpusEmbedder(self._corpus)
        self._embedder.learn(job.questions)
        self._scopes = max(1, job.items // PER_SCOPE) if job.layout == "many" else 1
        self._next_fresh = 0
        self._next_gone = 0
        self._fresh = self._corpus.take(job.items, FRESH)
        self._before_mb = measure.resident_mb()
        self._peer: Peer = peer(job.system, self._embedder)
        self._is_open = False

    def results(self) -> Iterator[Result]:
        """Every result of the job, in the order in which it is known."""
        most = self._peer.most_items
        if most is not None and self._job.items > most:
            yield self._result("run", note=f"not run with more than {most:,} items")
            return
        self._open()
        yield from self._fill()
        for name, operation in self._operations().items():
            if name not in self._job.operations:
                continue
            method = METHODS.get(name, name)
            if method in self._peer.lacks:
                yield self._result(name, note=self._peer.lacks[method])
                continue
            yield from self._guarded(name, operation)

    def close(self) -> None:
        """Close the system if it is open."""
        if self._is_open:
            self._is_open = False
            self._peer.close()

    def _operations(self) -> dict[str, Callable[[], Iterator[Result]]]:
        return {
            "get": self._get,
            "search": self._search,
            "filtered": self._search_filtered,
            "embed": self._embed,
            "recent": self._recent,
            "add": self._add,
            "batch": self._batch,
            "threads": self._threads,
            "busy": self._busy,
            "delete": self._delete,
            "reopen": self._reopen,
        }

    def _guarded(self, name: str, operation: Callable[[], Iterator[Result]]) -> Iterator[Result]:
        """The results of *operation*; what it raises becomes a result, as one failing operation
        must not hide the others."""
        measure.collect_garbage()
        try:
            yield from operation()
        except Exception as error:  # noqa: BLE001 - the edge of the benchmark: a peer's failure is a finding, and is reported as one
            yield self._result(name, note=f"failed: {type(error).__name__}: {error}"[:200])

    def _open(self) -> None:
        self._peer.open(self._folder, DIMENSIONS)
        self._is_open = True

    def _fill(self) -> Iterator[Result]:
        spent, cpu = 0.0, 0.0
        measure.collect_garbage()
        for start in range(0, self._job.items, AT_ONCE):
            rows = self._corpus.take(start, min(AT_ONCE, self._job.items - start))
            scopes = [self._scope(start + i) for i in range(len(rows))]
            began, began_cpu = time.perf_counter(), time.process_time()
            self._peer.add(rows, scopes)
            spent += time.perf_counter() - began
            cpu += time.process_time() - began_cpu
        began = time.perf_counter()
        self._peer.prepare()
        prepared = time.perf_counter() - began
        yield self._result(
            "fill",
            value=self._job.items / spent,
            unit="items/s",
            note=f"CPU {cpu / self._job.items * 1e6:.0f} us each",
        )
        yield self._result("prepare", value=prepared, unit="s")
        yield self._result(
            "RAM",
            value=measure.resident_mb(),
            unit="MB",
            note=f"{self._before_mb:.0f} before opening",
        )
        yield self._result("disk", value=measure.folder_mb(self._folder), unit="MB")

    def _get(self) -> Iterator[Result]:
        items = self._job.items

        def get(i: int) -> None:
            number = i * 7919 % items
            self._peer.get(f"n{number:08d}", self._scope(number))

        yield self._result("get", figure=self._timed(get, 2000))

    def _search(self) -> Iterator[Result]:
        """In `many`, twenty scopes in turn, so that each was just searched; in `one`, everything,
        and its recall."""
        if self._job.layout == "many":
            scopes = min(20, self._scopes)
            figure = self._timed(lambda i: self._ask(i, f"k{i % scopes}"), 1000, warm=scopes)
            yield self._result("search", figure=figure, note=self._peer.searches)
            return
        yield self._result(
            "search",
            figure=self._timed(lambda i: self._ask(i, None), 500),
            note=self._peer.searches,
        )
        if isinstance(self._peer, Alveus):
            asked = range(3 if self._job.items > MANY else 30)
            same = [self._peer.recall(self._job.questions.texts[i], LIMIT) for i in asked]
            yield self._result(
                "recall", value=sum(same) / len(same), unit="of its own exact search's top 10"
            )
        if "words" not in self._peer.searches:
            found = [self._ask(i, None) for i in range(len(self._job.truth))]
            hits = sum(
                len(set(names) & set(truth))
                for names, truth in zip(found, self._job.truth, strict=True)
            )
            yield self._result(
                "recall", value=hits / sum(map(len, self._job.truth)), unit="of exact top 10"
            )

    def _search_filtered(self) -> Iterator[Result]:
        """As `_search`, among the items of a kind: a hundredth, a tenth, a half of them."""
        questions, scopes = self._job.questions, min(20, self._scopes)

        def ask(i: int, kind: str) -> None:
            at = i % len(questions)
            scope = f"k{i % scopes}" if self._job.layout == "many" else None
            self._peer.search_filtered(
                questions.vectors[at], questions.texts[at], scope, kind, LIMIT
            )

        for kind in ("rare", "tenth", "half"):
            figure = self._timed(lambda i, kind=kind: ask(i, kind), 300, warm=scopes)
            yield self._result(f"filtered {KINDS[kind]:.0%}", figure=figure)

    def _embed(self) -> Iterator[Result]:
        """What a search costs more when its query is embedded by what comes with alveus."""
        if not isinstance(self._peer, Alveus):
            return
        texts = self._job.questions.texts
        for name in ("minilm", "static"):
            embedder = open_embedder(name)
            figure = self._timed(lambda i, e=embedder: e.embed([texts[i % len(texts)]]), 300)
            yield self._result(f"embed {name}", figure=figure, note="a query, besides the search")

    def _recent(self) -> Iterator[Result]:
        yield self._result(
            "recent",
            figure=self._timed(
                lambda i: self._peer.recent(self._scope(i * 7919 % self._job.items), LIMIT), 500
            ),
        )

    def _add(self) -> Iterator[Result]:
        def add(_: int) -> None:
            number = self._take_fresh(1)
            self._peer.add_one(self._fresh.part(number, number + 1), self._scope(number * 7919))

        baseline = self._baseline()
        figure = self._timed(add, 1000).against(baseline)
        yield self._result(
            "sync of 4 KB", figure=baseline, note="append and fdatasync, just before the adds"
        )
        yield self._result("add", figure=figure, note=f"survives {self._peer.durable}")
        if isinstance(self._peer, Alveus) and self._peer.durability == "full":
            number = self._take_fresh(2 * FLOOR)
            rows = [self._fresh.part(number + i, number + i + 1) for i in range(2 * FLOOR)]

            def again(i: int) -> None:
                self._peer.add_one(rows[i], self._scope((number + i) * 7919))

            floor = floor_of(self._peer.memory, again, FLOOR, self._folder)
            yield self._result("floor of an add", figure=floor.bare, note=floor.note)

    def _batch(self) -> Iterator[Result]:
        """One call with 100, then 1000 items of one scope."""
        baseline = self._baseline()
        for size, count in ((100, 20), (1000, 5)):

            def add(_: int, size: int = size) -> None:
                number = self._take_fresh(size)
                self._peer.add(
                    self._fresh.part(number, number + size), [self._scope(number * 7919)] * size
                )

            figure = self._timed(add, count, least=3, tried=1).against(baseline)
            yield self._result(
                f"batch {size}", figure=figure, note=f"{size / figure.p50 * 1000:,.0f} items/s"
            )

    def _threads(self) -> Iterator[Result]:
        """Sixteen threads, each adding items one by one."""
        each, lock, least, most = 25, threading.Lock(), 3, 11  # rounds

        def add_some(worker: int) -> None:
            for _ in range(each):
                with lock:
                    number = self._take_fresh(1)
                self._peer.add_one(self._fresh.part(number, number + 1), self._scope(worker * 7919))

        rates: list[float] = []
        start = time.perf_counter()
        with ThreadPoolExecutor(THREADS) as pool:
            while len(rates) < least or (
                len(rates) < most and time.perf_counter() - start < self._job.budget_s
            ):
                began = time.perf_counter()
                list(pool.map(add_some, range(THREADS)))
                rates.append(THREADS * each / (time.perf_counter() - began))
        yield self._result(
            "threads",
            value=statistics.median(rates),
            unit="adds/s",
            note=f"{THREADS} threads; {min(rates):,.0f}-{max(rates):,.0f}",
        )

    def _busy(self) -> Iterator[Result]:
        """Adds one by one, while another thread of the process does nothing but count."""
        over = threading.Event()

        def spin() -> None:
            n = 0
            while not over.is_set():
                for _ in range(1000):
                    n += 1

        def add(_: int) -> None:
            number = self._take_fresh(1)
            self._peer.add_one(self._fresh.part(number, number + 1), self._scope(number * 7919))

        spinner = threading.Thread(target=spin, daemon=True)
        spinner.start()
        try:
            figure = self._timed(add, 200)
        finally:
            over.set()
            spinner.join()
        yield self._result("add beside", figure=figure, note="a thread that is never idle")

    def _delete(self) -> Iterator[Result]:
        def delete(_: int) -> None:
            number = self._next_gone
            self._next_gone += 1
            self._peer.delete(f"n{number:08d}", self._scope(number))

        baseline, count = self._baseline(), min(500, self._job.items // 2)
        yield self._result("delete", figure=self._timed(delete, count).against(baseline))

    def _reopen(self) -> Iterator[Result]:
        """After the upkeep that its documentation asks for, close and open again in the same
        process; then search where nobody asked since."""
        self._peer.prepare()
        self.close()
        self._peer = peer(self._job.system, self._embedder)
        yield self._result("reopen", figure=measure.once(self._open))
        if self._job.layout == "one":
            yield self._result("first search", figure=measure.once(lambda: self._ask(0, None)))
            return
        count = min(200, self._scopes)
        yield self._result(
            "search cold",
            figure=self._timed(lambda i: self._ask(i, f"k{i % self._scopes}"), count, tried=1),
            note="each in another scope",
        )

    def _ask(self, i: int, scope: str | None) -> list[str]:
        at = i % len(self._job.questions)
        return self._peer.search(
            self._job.questions.vectors[at], self._job.questions.texts[at], scope, LIMIT
        )

    def _scope(self, number: int) -> str:
        return (
            f"k{number // PER_SCOPE % self._scopes}" if self._job.layout == "many" else EVERYWHERE
        )

    def _take_fresh(self, count: int) -> int:
        self._next_fresh += count
        if self._next_fresh > FRESH:
            raise RuntimeError(f"all {FRESH} items for the adds are used; raise FRESH")
        return self._next_fresh - count

    def _timed(
        self,
        operation: Callable[[int], object],
        count: int,
        *,
        warm: int = 0,
        least: int = 10,
        tried: int = 3,
    ) -> Figure:
        """`timed` after *tried* calls that tell how many fit into the budget: at most *count*, at
        least *least*."""
        began = time.perf_counter()
        for i in range(tried):
            operation(i)
        each = (time.perf_counter() - began) / tried
        return timed(
            operation,
            max(least, min(count, int(self._job.budget_s / each))),
            first=tried,
            warm=warm,
        )

    def _baseline(self) -> Figure:
        return measure.sync_baseline(self._folder)

    def _result(
        self,
        operation: str,
        *,
        figure: Figure | None = None,
        value: float | None = None,
        unit: str = "ms",
        note: str = "",
    ) -> Result:
        return Result(
            self._job.system,
            operation,
            self._job.items,
            self._job.layout,
            figure=figure,
            value=value,
            unit=unit,
            note=note,
            version=self._peer.version,
        )
