"""`alveus serve` beside mem0's server: requests per second, and how long one takes.

    python bench/server.py                  five rounds, some three minutes
    python bench/server.py --quick          a smoke run
    python bench/server.py --log            results go into LOG.md

Each server is a process of its own; they take turns in short rounds, and a ratio is made of two
turns of the same round. Clients are threads with one connection each, which ask as fast as they
are answered. alveus keeps its items in a file or on PostgreSQL, mem0 on the same PostgreSQL with
pgvector (bench/peers/mem0_server.py). All embed texts with the same `static` embedder, and wait
for the disk before they answer.
"""

from __future__ import annotations

import argparse
import http.client
import json
import shlex
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import psutil

if not __package__:
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from bench import measure
from bench.corpus import Corpus
from bench.measure import Report, Sheet, number, percentile
from bench.postgres_server import SETTINGS, Server
from bench.turns import rotated

PEER = "mem0"
SYSTEMS = ("alveus-sqlite", "alveus-postgres", PEER)
KEYS = 20
PER_KEY = 50
CLIENTS = 16
START_S = 120.0
WORK = Path(__file__).resolve().parent / ".work"


class Call(NamedTuple):
    """A request: its path, and what it carries."""

    path: str
    body: object


class Asked(NamedTuple):
    """How systems are asked to do the same.

    Attributes:
        alveus: The request for a key and a text.
        mem0: The same to mem0; None: it has nothing like it.
    """

    name: str
    alveus: Callable[[str, str], Call]
    mem0: Callable[[str, str], Call] | None


OPERATIONS = (
    Asked(
        "add",
        lambda key, text: Call(f"/v1/items?key={key}", {"items": [{"text": text}]}),
        lambda key, text: Call(
            "/memories", {"user_id": key, "messages": [{"role": "user", "content": text}]}
        ),
    ),
    Asked(
        "search",
        lambda key, text: Call(f"/v1/search?key={key}", {"query": text, "limit": 10}),
        lambda key, text: Call("/search", {"user_id": key, "query": text}),
    ),
    Asked(
        "context",
        lambda key, text: Call(f"/v1/context?key={key}", {"query": text, "budget_tokens": 500}),
        None,
    ),
)


class Measured:
    """What one system did at one operation: a rate per round, and how long each request took."""

    def __init__(self) -> None:
        self.rates: list[float] = []
        self.samples: list[float] = []
        self.cpu_s = 0.0

    def cells(self, other: Measured | None) -> tuple[str, ...]:
        """The figures of a row, compared with *other*."""
        low, high = min(self.rates), max(self.rates)
        times = ""
        if other is not None and other is not self:
            ratios = [a / b for a, b in zip(self.rates, other.rates, strict=True)]
            middle = statistics.median(ratios)
            times = f"{number(middle)} ({number(min(ratios))}-{number(max(ratios))})"
        return (
            f"{statistics.median(self.rates):,.0f}",
            f"{low:,.0f}-{high:,.0f}",
            number(statistics.median(self.samples)),
            number(percentile(self.samples, 99)),
            number(round(self.cpu_s * 1e3 / len(self.samples), 3)),
            times,
        )


HEADINGS = (
    *("operation", "system", "requests/s", "spread", "p50, ms", "p99, ms"),
    *("CPU of server, ms", f"x {PEER}"),
)


class Running:
    """A server in a process of its own, and how it is asked."""

    def __init__(self, name: str, words: Sequence[str], port: int, log: Path) -> None:
        self.name, self._port = name, port
        with log.open("wb") as told:
            self._child = subprocess.Popen(words, stdout=told, stderr=told)
        self.process = psutil.Process(self._child.pid)
        self._wait(log)

    def _wait(self, log: Path) -> None:
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline:
            if self._child.poll() is not None:
                break
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self._port)) == 0:
                    return
            time.sleep(0.05)
        self.close()
        raise RuntimeError(f"{self.name} does not answer: {log.read_text()[-2000:]}")

    def connect(self) -> http.client.HTTPConnection:
        """Return a connection that stays open."""
        return http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)

    def request(self, asked: Asked, key: str, text: str) -> Call | None:
        """Return what is sent; None: it cannot do that."""
        made = asked.mem0 if self.name == PEER else asked.alveus
        return None if made is None else made(key, text)

    def cpu_s(self) -> float:
        """CPU time of the process so far."""
        times = self.process.cpu_times()
        return times.user + times.system

    def close(self) -> None:
        """Stop it."""
        self._child.terminate()
        self._child.wait()


def ask(connection: http.client.HTTPConnection, call: Call) -> Any:
    """Return what a server answers.

    Raises:
        RuntimeError: It refuses.
    """
    body = json.dumps(call.body).encode()
    connection.request("POST", call.path, body, {"Content-Type": "application/json"})
    response = connection.getresponse()
    told = response.read()
    if response.status >= 300:
        raise RuntimeError(f"{call.path}: {response.status} {told[:300]!r}")
    return json.loads(told)


class Bench:
    """The servers, and what they are asked."""

    def __init__(self, asked: argparse.Namespace, folder: Path, postgres: Server) -> None:
        self._asked, self._folder, self._postgres = asked, folder, postgres
        corpus = Corpus(7)
        self._texts = [text.partition(" ")[2] for text in corpus.take(0, 4096).texts]
        self._questions = [" ".join(text.split()[2:9]) for text in self._texts[: KEYS * PER_KEY]]
        self._numbers = count()

    def results(self, step: Callable[..., None]) -> Sheet:
        """Measure; return the table."""
        rows: list[tuple[str, ...]] = []
        with ExitStack() as stack:
            servers: list[Running] = []
            for name in self._asked.systems:
                servers.append(self._started(name))
                stack.callback(servers[-1].close)
            for server in servers:
                self._fill(server)
                step(f"{server.name} filled")
            for asked in OPERATIONS:
                found = self._measured(asked, servers)
                step(asked.name)
                theirs = found.get(PEER)
                rows += [(asked.name, name, *each.cells(theirs)) for name, each in found.items()]
        return Sheet(HEADINGS, ("operation", "system"), rows)

    def _started(self, name: str) -> Running:
        folder = self._folder / name
        folder.mkdir()
        port = _free_port()
        if name == PEER:
            module = "bench.peers.mem0_server"
            words = ["-m", module, self._postgres.make(name), str(port), str(folder)]
        else:
            on_file = name == "alveus-sqlite"
            db = str(folder / "app.db") if on_file else self._postgres.make(name)
            words = ["-m", "alveus.cli", "--db", db, "--embedder", "static", "serve"]
            words += ["--port", str(port)]
        return Running(name, [sys.executable, *words], port, folder / "log.txt")

    def _fill(self, server: Running) -> None:
        connection = server.connect()
        for at in range(KEYS * PER_KEY):
            call = server.request(OPERATIONS[0], f"k{at % KEYS}", self._texts[at])
            assert call is not None
            ask(connection, call)
        connection.close()

    def _measured(self, asked: Asked, servers: Sequence[Running]) -> dict[str, Measured]:
        able = [s for s in servers if s.request(asked, "k", "text") is not None]
        found = {server.name: Measured() for server in able}
        for turn in range(self._asked.rounds):
            for server in rotated(list(able), turn):
                self._turn(asked, server, found[server.name])
        return found

    def _turn(self, asked: Asked, server: Running, found: Measured) -> None:
        """Have all clients ask one server for a while."""
        samples: list[float] = []
        problems: list[Exception] = []
        postgres, cpu = self._postgres.cpu_s(), server.cpu_s()
        began = time.perf_counter()
        end = began + self._asked.turn_s

        def client() -> None:
            connection = server.connect()
            mine: list[float] = []
            try:
                while time.perf_counter() < end:
                    call = self._next(asked, server)
                    sent = time.perf_counter()
                    ask(connection, call)
                    mine.append((time.perf_counter() - sent) * 1e3)
            except (OSError, http.client.HTTPException, RuntimeError) as error:
                problems.append(error)
            samples.extend(mine)
            connection.close()

        clients = [threading.Thread(target=client) for _ in range(self._asked.clients)]
        for each in clients:
            each.start()
        for each in clients:
            each.join()
        if problems:
            raise problems[0]
        found.rates.append(len(samples) / (time.perf_counter() - began))
        found.samples.extend(samples)
        on_file = server.name == "alveus-sqlite"
        database = 0.0 if on_file else self._postgres.cpu_s() - postgres
        found.cpu_s += server.cpu_s() - cpu + database

    def _next(self, asked: Asked, server: Running) -> Call:
        at = next(self._numbers)
        adds = asked.name == "add"  # to keys of their own: those that are searched stay as they are
        texts = self._texts if adds else self._questions
        call = server.request(asked, f"{'a' if adds else 'k'}{at % KEYS}", texts[at % len(texts)])
        assert call is not None
        return call


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what *arguments* (default: the command line) ask for."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    asked = _parser().parse_args(words)
    asked.rounds, asked.turn_s = (2, 0.3) if asked.quick else (5, 3.0)
    asked.work.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="server-", dir=asked.work))
    folder.chmod(0o755)  # the server runs as another user, where this is root
    where, began, postgres = measure.machine(folder), datetime.now(UTC), None
    try:
        postgres = Server(folder / "server")
        with measure.progress("server", total=len(asked.systems) + len(OPERATIONS)) as step:
            shown = Bench(asked, folder, postgres).results(step)
    finally:
        if postgres:
            postgres.close()
        shutil.rmtree(folder, ignore_errors=True)
    shown.show(f"server · {where.line()}")
    if asked.log:
        command = shlex.join(["python", "bench/server.py", *words])
        measure.append_log(Report("server", command, where, (), list(_notes(asked)), began, shown))
    return 0


def _notes(asked: argparse.Namespace) -> Iterator[str]:
    """What one must know to read the table."""
    yield (
        f"{asked.clients} clients with a connection each; {KEYS} keys of {PER_KEY} items at the "
        "start; servers, clients and PostgreSQL share the machine"
    )
    yield f"x {PEER}: of the rates of the same round, with the lowest and highest"
    yield "CPU is that of a request, of the server and of PostgreSQL, where it is used"
    settings = ", ".join(f"{name} {value}" for name, value in SETTINGS.items())
    yield f"PostgreSQL on the same machine and disk; {settings}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="bench/server.py", description="Compare alveus serve with mem0's server."
    )
    parser.add_argument(
        "--systems", type=measure.some_of(SYSTEMS), default=list(SYSTEMS), help=",".join(SYSTEMS)
    )
    parser.add_argument("--clients", type=int, default=CLIENTS, help="threads that ask at once")
    parser.add_argument("--quick", action="store_true", help="a smoke run: no figure means much")
    parser.add_argument("--work", type=Path, default=WORK, help="a folder on the disk to measure")
    parser.add_argument("--log", action="store_true", help="append the results to LOG.md")
    return parser


if __name__ == "__main__":
    sys.exit(main())
