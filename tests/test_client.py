"""The client: `Memory.open` of a server's address, beside a memory in RAM, and through kills."""
# ruff: noqa: PT012 - what raises is the end of a block, and what it serves is in it

from __future__ import annotations

import asyncio
import random
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from functools import partial
from http.server import SimpleHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from alveus import AsyncMemory, Item, KeyBatch, KeyMemory, Memory, Signals, __version__
from alveus.errors import (
    AccessDenied,
    AlveusError,
    IdempotencyConflict,
    InvalidInput,
    KeyBusy,
    NotAStore,
    Rejected,
    ServerUnreachable,
    SetMoved,
    StaleItem,
    StaleRun,
    StoreClosed,
    StoreFull,
    StoreReadOnly,
    Unsupported,
    Unusable,
)
from alveus.memory.memory import RemoteMemory
from alveus.memory.remote import connection
from alveus.server.app import ServerLimits
from alveus.server.callers import Memories
from alveus.server.tokens import TokenFile
from alveus.sets.admission import Secrets
from alveus.sets.forgetting import Receipt
from alveus.state import MISSING, MemoryObject
from answering import Answers, listening
from pages import blocks
from scale import COUNTS
from test_server import Served, ServedHere, serving
from waiting import LIMIT_S, SHORT_S, wait_until

NAMES = ["a", "b", "a.b", "a.c", "b.x.y", ("d.e", "f"), "", "a..b"]
VALUES = [None, True, 0, 2**70, 1.5, "tea", "ä€", b"\0\xff", [1, [b"x"]], {"$a": {"b": 1}}, {}]
TEXTS = ["green tea", "a window seat", "two tents", "a table by the window"]


def over_http(served: Served | ServedHere, **options: Any) -> Memory:
    return Memory.open(f"http://127.0.0.1:{served.port}", **options)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedHere]:
    made = ServedHere(tmp_path_factory.mktemp("served"))
    yield made
    made.stop()


# --- call by call -----------------------------------------------------------------------------


class Calls:
    """Calls at random, each a function of a memory: of its key, a batch, or its past."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)

    def call(self) -> Callable[[Any], Any]:
        """Return a call of a key or of a batch."""
        return self.dice.choice([self.exact, self.exact, self.items, self.read])()

    def exact(self) -> Callable[[Any], Any]:
        dice = self.dice
        path, other, value = dice.choice(NAMES), dice.choice(NAMES), dice.choice(VALUES)
        by = dice.choice([1, -2, 0.5])
        calls: list[Callable[[Any], Any]] = [
            lambda k: k.short_term.set(path, value),
            lambda k: k.short_term.set(path, value, ttl=timedelta(days=9)),
            lambda k: k.short_term.get(path, "nothing"),
            lambda k: path in k.short_term,
            lambda k: k.short_term.append(path, value),
            lambda k: k.short_term.increment(path, by),
            lambda k: k.short_term.update(path, value, expected=MISSING),
            lambda k: k.short_term.update(path, by, expected=value),
            lambda k: k.short_term.new_object(path, overwrite=by == 1),
            lambda k: k.short_term.delete(path),
            lambda k: k.short_term.move(path, other),
            lambda k: k.short_term.set(other, k.short_term.get_object(path)),
            lambda k: k.short_term.get_object(path).get_fields(),
            lambda k: k.short_term.get_object(path).names(prefix="a", limit=2, newest_first=True),
            lambda k: k.short_term.to_dict(),
            lambda k: list(k.short_term.walk()),
            lambda k: k.short_term.get_object(path).clear(),
            lambda k: k.blocks.set("human", "Ada"),
        ]
        return dice.choice(calls)

    def items(self) -> Callable[[Any], Any]:
        dice = self.dice
        name, one, two = dice.choice("xy"), f"i{dice.randrange(9)}", f"i{dice.randrange(9)}"
        text, value = dice.choice(TEXTS), dice.choice(VALUES)
        existing = dice.choice(["error", "keep", "update"])
        made = Item({"text": text, "v": value}, id=two, metadata={"n": len(text)}, session="s")
        calls: list[Callable[[Any], Any]] = [
            lambda k: k.set(name).add(text, id=one, on_existing=existing, importance=0.5),
            lambda k: k.set(name).add_many([Item(text, id=one), made], on_existing=existing),
            lambda k: k.set(name).update(one, text, metadata={"v": value}),
            lambda k: k.set(name).update(one, speaker="Ada", if_version=2),
            lambda k: k.set(name).delete([one, two]),
            lambda k: k.set(name).delete(where={"n": {"gt": 10}}),
            lambda k: k.set(name).supersede(one, text, new_id=f"{two}'", role="user"),
            lambda k: k.set(name).pop(1),
            lambda k: k.set("small", capacity=2).add(text, id=one, on_existing="update"),
            lambda k: k.knowledge.set("all").add(text, id=one, on_existing="keep"),
        ]
        return dice.choice(calls)

    def read(self) -> Callable[[Any], Any]:
        dice = self.dice
        name, one, text = dice.choice("xy"), f"i{dice.randrange(9)}", dice.choice(TEXTS)
        calls: list[Callable[[Any], Any]] = [
            lambda k: k.set(name).get([one, "i3"]),
            lambda k: k.set(name).list(where={"n": 9}, newest_first=True),
            lambda k: k.set(name).list(limit=2, after=one),
            lambda k: k.set(name).recent(2),
            lambda k: [*k.set(name)],
            lambda k: k.set(name).history(one),
            lambda k: k.set(name).search(text, limit=3, signals=Signals(recency=0)),
            lambda k: k.search(text, sets=["x", "small"], where={"$id": {"in": [one, "i1"]}}),
            lambda k: k.search(text, prefix="s", min_score=0.1),
            lambda k: k.knowledge.search(text),
            lambda k: k.sets(counts=True),
            lambda k: len(k.set("small")),
            lambda k: k.set("small").definition,
            lambda k: k.context(text, budget_tokens=200, exact="a", sets=["x", "y"]),
        ]
        return dice.choice(calls)


def outcome(call: Callable[[Any], Any], of: Any) -> Any:
    """Return what a call answers, without its times, or its error."""
    try:
        return plain(call(of))
    except AlveusError as error:
        return type(error), str(error)


def plain(answer: Any) -> Any:
    """Return an answer as it can be compared."""
    if isinstance(answer, Item):
        times = dict.fromkeys(["time", "created", "updated", "accessed", "retired"])
        return replace(answer, **times, valid_from=None, valid_to=None)
    if isinstance(answer, MemoryObject):
        return "an object", answer.path
    if isinstance(answer, dict):
        return {name: plain(value) for name, value in answer.items()}
    if hasattr(answer, "score") and hasattr(answer, "item"):
        parts = {name: pytest.approx(part) for name, part in answer.parts.items()}
        return plain(answer.item), pytest.approx(answer.score), parts
    if isinstance(answer, (list, tuple)):
        return [plain(value) for value in answer]
    return getattr(answer, "text", answer)


@pytest.mark.parametrize("seed", range(2))
def test_calls_answer_as_they_do_in_ram(served: ServedHere, seed: int) -> None:
    """The same calls, in and outside of batches, the same answers and errors."""
    calls = Calls(seed)
    with Memory.open(embedder="words") as memory, over_http(served, space=f"s{seed}") as remote:
        both = memory.key("ada"), remote.key("ada")
        for _ in range(COUNTS.random_ops // 12):
            if calls.dice.random() < 0.15:
                in_batch = [calls.call() for _ in range(calls.dice.randrange(5))]
                raises = calls.dice.random() < 0.2
                found = [batched(key, in_batch, raises) for key in both]
            else:
                call = calls.call()
                found = [outcome(call, key) for key in both]
            assert found[0] == found[1]
        assert plain(both[0].short_term.to_dict()) == plain(both[1].short_term.to_dict())
        assert [*memory.keys()] == [*remote.keys()] == [*remote.keys(prefix="a")]


def batched(key: KeyMemory, calls: list[Callable[[Any], Any]], raises: bool) -> list[Any]:
    """Return what calls of one batch answer, and whether it was committed."""
    answers: list[Any] = []
    with suppress(ZeroDivisionError), key.batch() as batch:
        answers += [outcome(call, batch) for call in calls]
        answers.append(1 // (not raises))
    return [*answers, batch.committed is not None]


def test_the_first_page_needs_another_url_alone(
    served: ServedHere, capsys: pytest.CaptureFixture[str]
) -> None:
    """The program of the README prints over HTTP what it prints on a file."""
    page = Path(__file__).parent.parent / "README.md"
    (program,) = (block.code for block in blocks(page) if 'seats.", metadata' in block.code)
    before = served.app.state.memories
    with Memory.open() as inner:
        served.app.state.memories = Memories(lambda _: inner)
        for url in (":memory:", f"http://127.0.0.1:{served.port}"):
            exec(program.replace("app.db", url), {})  # noqa: S102 - what it says is what is tried
    served.app.state.memories = before
    first, second = capsys.readouterr().out.split("}\n")[:2]
    assert "Prefers window seats." in first
    assert first == second


# --- once -------------------------------------------------------------------------------------


class Killer(threading.Thread):
    """Kills a server soon after it is told that a call begins, and starts it again."""

    def __init__(self, served: Served) -> None:
        super().__init__()
        self.served, self.dice, self.kills = served, random.Random(7), 0
        self.begun, self.ends = threading.Event(), threading.Event()

    def run(self) -> None:
        """Kill until it is told to end."""
        while not self.ends.is_set():
            wait_until(lambda: self.begun.is_set() or self.ends.is_set())
            self.begun.clear()
            time.sleep(self.dice.random() * 0.02)  # noqa: TID251 - until the kill
            self.served.stop(signal.SIGKILL)
            self.served.start()
            self.kills += 1


def test_writes_are_made_once_whatever_is_killed(tmp_path: Path) -> None:
    """The server is killed before, between and during calls; the answers are as in RAM."""
    made, calls = Served(tmp_path), Calls(11)
    killer = Killer(made)
    with Memory.open(embedder="words") as memory, over_http(made, timeout_s=LIMIT_S) as remote:
        both = memory.key("ada"), remote.key("ada")
        killer.start()
        try:
            while killer.kills < max(1, COUNTS.kills // 8):
                killer.begun.set()
                call, other, is_batch = calls.call(), calls.exact(), calls.dice.random() < 0.3
                found = [
                    batched(key, [call, other], False) if is_batch else outcome(call, key)
                    for key in both
                ]
                assert found[0] == found[1]
                assert both[0].short_term.increment("calls") == both[1].short_term.increment(
                    "calls"
                )
                _ = both[0].add("one more"), both[1].add("one more")
        finally:
            killer.ends.set()
            killer.join()
        for read in (lambda k: k.short_term.to_dict(), lambda k: k.set("x").list(), len_of):
            assert outcome(read, both[0]) == outcome(read, both[1])
    made.stop()


def len_of(key: KeyMemory) -> int:
    return len(key.set("default"))


def test_what_is_forgotten_is_gone_and_the_receipt_says_so(served: ServedHere) -> None:
    """Items, those of a filter in all sets, knowledge, a key; once under a name."""
    with Memory.open(embedder="words") as memory, over_http(served, space="forgets") as remote:
        receipts: list[list[Receipt]] = []
        for each in (memory, remote):
            ada, book = each.key("ada"), each.knowledge.set("book")
            ada.add_many([Item(text, id=text, metadata={"n": 1}) for text in ("a", "b", "c")])
            ada.set("notes").add("d", metadata={"n": 2})
            book.add("e", id="e")
            found = [
                ada.forget("a", dry_run=True),
                ada.forget("a", idempotency_key="once"),
                ada.forget("a", idempotency_key="once"),
                ada.set("default").forget(where={"n": 1}, scrub="later"),
                ada.forget(where={"n": 2}),
                book.forget(["e"]),
                each.forget("ada"),
            ]
            assert found[1].id == found[2].id
            assert {receipt.id for receipt in each.receipts()} >= {found[1].id, found[-1].id}
            assert (each.receipts(limit=0), [*each.keys()]) == ([], [])
            receipts.append(found)
            with pytest.raises(InvalidInput):
                ada.forget("a", where={})
            with pytest.raises(Unusable), ada.batch() as batch:
                batch.set("notes").forget("a")
        for one, other in zip(*receipts, strict=True):
            assert one.counts.get("items") == other.counts.get("items")
            assert one.changed == other.changed
            assert one.out_of_reach[:1] == other.out_of_reach[:1]
    assert served.ask("POST", "/v1/call", {"call": "key.forget"})[0] == 400
    add = {"call": "set.add_many", "set": {"name": "notes"}, "items": [{"value": "x", "id": "x"}]}
    assert served.ask("POST", "/v1/call", add, key="x")[0] == 200
    for more in ({"where": {}}, {"of": "key"}):  # which would be more than the item
        wrong = {"call": "key.forget", "ids": ["x"], **more}
        assert served.ask("POST", "/v1/call", wrong, key="x")[0] == 400
    found = served.ask("POST", "/v1/call", {"call": "key.sets", "counts": True}, key="x")
    assert found[1]["result"] == {"notes": 1}


def test_a_set_that_is_open_is_made_again_once_its_key_was_forgotten(served: ServedHere) -> None:
    """As on a file: with the capacity and the rules that it was opened with, in a batch too."""
    with over_http(served) as memory:
        ada = memory.key("ada of rules")
        facts = ada.set("facts", capacity=2, admission=[Secrets()])
        facts.add("tea", idempotency_key="first")
        assert facts.add("tea", idempotency_key="first") == facts.list()[0].id
        memory.forget("ada of rules")
        assert facts.definition.capacity == 2
        with pytest.raises(Rejected, match="secret"):
            facts.add("The deploy key is AKIA" + "QWERTYUIOPASDFGH")
        facts.add_many(["a", "b", "c"])
        assert (len(facts), ada.set("facts").definition.capacity) == (2, 2)
        assert facts.redefine(capacity=3).capacity == 3
        facts.add("d")
        assert (len(facts), facts.definition.capacity) == (3, 3)


def test_a_lost_answer_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the connection broke, where the server is busy, or away from a proxy that is before it.

    Not for longer than the timeout.
    """
    answers = [None, (503, "StoreBusy"), (429, "LimitReached"), (502, ""), (200, None)]
    with told(answers) as (url, asked):
        with Memory.open(url) as memory:
            assert memory.key("ada").short_term.increment("n") == 7
        keys = {key for path, key in asked if path.startswith("/v1/call")}
        assert len(keys) == 1
        assert len(asked) == 1 + 5
        monkeypatch.setattr(connection, "FIRST_PAUSE_S", LIMIT_S)  # as long as the timeout
        answers[:] = [(502, "")] * 99
        memory = Memory.open(url, timeout_s=LIMIT_S)
        with memory, pytest.raises(ServerUnreachable, match="proxy") as away:
            memory.key("ada").short_term.increment("n")
        assert away.value.idempotency_key
        answers[:] = [(503, "KeyBusy")] * 99
        with Memory.open(url, timeout_s=LIMIT_S) as memory, pytest.raises(KeyBusy) as caught:
            memory.key("ada").short_term.increment("n")
        assert (caught.value.key, str(caught.value)) == ("ada", "told")
        answers[:] = [(507, "StoreFull")]
        with Memory.open(url) as memory, pytest.raises(StoreFull):
            memory.key("ada").add("x")


WHOLE = (
    f'HTTP/1.1 200 OK\r\nAlveus-Version: {__version__}\r\nContent-Length: 13\r\n\r\n{{"result": 7}}'
).encode()


def test_an_answer_that_is_cut_off_anywhere_is_asked_for_again() -> None:
    """In its head too, by an orderly end of the connection, as of a proxy that is stopped."""
    cut = [WHOLE[:end] for end in range(len(WHOLE))]
    answers: list[Any] = []
    with told(answers) as (url, asked), Memory.open(url, timeout_s=LIMIT_S) as memory:
        for one in cut:
            answers[:] = [one, WHOLE]
            assert memory.key("ada").short_term.increment("n") == 7, one
        keys = [key for path, key in asked if path.startswith("/v1/call")]
    assert keys[::2] == keys[1::2]
    assert len(set(keys)) == len(cut)


@pytest.mark.parametrize("whole", [0, len(WHOLE) - 13])
def test_an_answer_that_trickles_is_given_up(whole: int) -> None:
    """In its head or its body; each byte comes in time, and all of them do not."""
    answers: list[Any] = [[WHOLE[:whole], *(WHOLE[at : at + 1] for at in range(whole, len(WHOLE)))]]
    with told(answers) as (url, _), Memory.open(url) as memory:
        ada = impatient(memory).key("ada")
        with pytest.raises(ServerUnreachable, match="did not answer within"):
            ada.short_term.increment("n")


def test_an_answer_that_comes_twice_is_not_that_of_the_next_request() -> None:
    """As of a proxy that sent a request twice, and hands on both answers."""
    taken, sent = threading.Event(), threading.Event()

    class Handler(Answers):
        protocol_version = "HTTP/1.1"
        number = 0

        def get(self) -> None:
            self.answer({"keys": [], "more": False}, headers=OURS)

        def post(self) -> None:
            self.body()
            Handler.number += 1
            self.answer({"result": Handler.number}, headers=OURS)
            if not sent.is_set():
                assert taken.wait(LIMIT_S)
                self.answer({"result": Handler.number}, headers=OURS)
                sent.set()

    with listening(Handler) as url, Memory.open(url) as memory:
        number = memory.key("ada").short_term
        assert number.increment("n") == 1
        taken.set()
        assert sent.wait(LIMIT_S)
        assert [number.increment("n") for _ in range(2)] == [2, 3]


OURS = {"Alveus-Version": __version__}
"""The header of a server of alveus."""


@contextmanager
def told(answers: list[Any]) -> Iterator[tuple[str, list[Any]]]:
    """Serve answers one after the other, to all but the first question.

    None is a lost one; bytes are sent as they are, and the connection ends; a list of bytes too,
    with a pause after each.
    """
    asked: list[Any] = []
    ends = threading.Event()

    class Handler(Answers):
        protocol_version = "HTTP/1.1"

        def get(self) -> None:
            self._answer(200, {"keys": [], "more": False})

        def post(self) -> None:
            self.body()
            answer = answers.pop(0) if answers else (200, None)
            if answer is None or isinstance(answer, bytes | list):
                asked.append((self.path, self.headers["Idempotency-Key"]))
                for piece in answer if isinstance(answer, list) else [answer or b""]:
                    self.wfile.write(piece)
                    ends.wait(SHORT_S / 2 if isinstance(answer, list) else 0)
                self.close_connection = True
                return
            status, kind = answer
            error = {"error": {"type": kind, "message": "told", "facts": {"key": "ada"}}}
            self._answer(status, {"result": 7} if kind is None else error if kind else "a page")

        def _answer(self, status: int, body: Any) -> None:
            asked.append((self.path, self.headers["Idempotency-Key"]))
            after = {"Retry-After": "0" if status != 503 else "soon"}
            self.answer(body, status, OURS | after)

    with listening(Handler) as url:
        try:
            yield url, asked
        finally:
            ends.set()


# --- together ---------------------------------------------------------------------------------


def test_batches_that_get_in_each_others_way_are_refused(served: ServedHere) -> None:
    """Over HTTP as on a file: by what they rest on, and nothing of them is there."""
    with over_http(served, space="rests") as memory, over_http(served, space="rests") as other:
        ada, again = memory.key("ada"), other.key("ada")
        ada.add_many([Item("one", id="a"), Item("two", id="b")])
        ada.short_term.set("n", 1)
        with pytest.raises(StaleRun), ada.batch() as batch:
            batch.short_term.set("m", batch.short_term.get("n"))
            again.short_term.set("n", 2)
        with pytest.raises(StaleItem) as caught, ada.batch() as batch:
            batch.delete("a")
            again.update("a", "one, again")
        assert (caught.value.item_id, caught.value.expected, caught.value.found) == ("a", 1, 2)
        with pytest.raises(StaleItem), ada.batch() as batch:
            batch.update("b", "two, again")
            again.delete("b")
        with pytest.raises(SetMoved), ada.batch() as batch:
            batch.delete(where={})
            again.add("three", id="c")
        with ada.batch() as batch:
            batch.short_term.set("m", 1)
            again.short_term.set("n", 3)
        assert ada.short_term.to_dict() == {"n": 3, "m": 1}
        assert [item.id for item in ada.list()] == ["a", "c"]


def test_a_thread_that_ended_keeps_no_connection(served: ServedHere) -> None:
    """A program with a thread for each request does not run out of files."""

    def count() -> int:
        return len([*Path("/proc/self/fd").iterdir()])

    with over_http(served, space="ended") as memory:
        ada, before = memory.key("ada"), count()
        for _ in range(30):
            thread = threading.Thread(target=ada.list)
            thread.start()
            thread.join()
        wait_until(lambda: count() < before + 10)


def test_threads_share_a_memory_and_each_change_counts(served: ServedHere) -> None:
    """Each thread has its connection; `commit` is repeated until nobody was faster."""
    with over_http(served, space="threads", timeout_s=LIMIT_S) as memory:
        ada = memory.key("ada")

        def count(batch: KeyBatch) -> int:
            n = batch.short_term.get("n", 0)
            batch.short_term.set("n", n + 1)
            item = batch.get("c")
            if item is not None:
                batch.update("c", f"{n + 1}", if_version=item.version)
            return n

        def work() -> None:
            for _ in range(5):
                counts.append(ada.commit(count))
                ada.short_term.increment("m")

        counts: list[int] = []
        ada.add("0", id="c")
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(counts) == [*range(20)]
        assert ada.short_term.to_dict() == {"n": 20, "m": 20}
        item = ada.get("c")
        assert item is not None
        assert (item.text, item.version) == ("20", 21)


def test_a_batch_is_as_it_was_told_to_be(served: ServedHere) -> None:
    """What it says of itself, before, in and after its block."""
    with over_http(served, space="batch") as memory:
        ada, batch = memory.key("ada"), memory.key("ada").batch(idempotency_key="k")
        with pytest.raises(Unusable):
            _ = batch.short_term
        batch.__exit__(None, None, None)
        for adopted in (False, True):
            with ada.batch(idempotency_key="k") as batch:
                batch.add("once", id="a")
                with pytest.raises(InvalidInput, match="no idempotency_key; pass it to the batch"):
                    batch.add("x", idempotency_key="y")
            assert batch.committed is not None
            assert batch.committed.adopted == adopted
        with pytest.raises(IdempotencyConflict), ada.batch(idempotency_key="k") as batch:
            batch.add("other", id="a")
        with pytest.raises(Unusable):
            batch.add("late")
        with ada.batch() as batch:
            _ = batch.list(), batch.short_term.get("n")
            assert batch.delete("nobody") == 0
        assert (batch.committed, batch.has_changes) == (None, False)
        with pytest.raises(Unsupported, match="the past inside a batch"), ada.batch() as batch:
            batch.short_term.at(1)


def test_it_is_awaited_too(served: ServedHere) -> None:
    """What a memory behind a server does in its own way, it does for asyncio as well."""

    async def talk() -> None:
        url = f"http://127.0.0.1:{served.port}"
        async with await AsyncMemory.open(url, space="awaited") as memory:
            ada = await memory.key("ada")
            await ada.add("Prefers window seats.", id="a")
            await (await ada.set("notes")).add_many(["one", "two"])
            async with ada.batch() as batch:
                await batch.short_term.increment("n")
                await batch.update("a", importance=1)
                assert batch.base == 0
            assert batch.has_changes
            assert batch.touched == [("ada", "default", "a", 1)]
            hits = await ada.search("window", limit=1)
            assert [hit.item.version for hit in hits] == [2]
            assert [item.text for item in await ada.list()] == ["Prefers window seats."]
            assert await ada.short_term.to_dict() == {"n": 1}
            assert await memory.keys() == ["ada"]
            with pytest.raises(Unsupported, match=r"memory\.settle"):
                await memory.settle()
            with pytest.raises(Unsupported, match=r"memory\.subscribe"):
                memory.subscribe(print)

    asyncio.run(talk())


# --- who asks, and where ----------------------------------------------------------------------


def test_a_token_opens_what_it_is_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Given, or in the environment; what it does not reach is AccessDenied."""
    file = TokenFile(tmp_path / "tokens.json")
    reader = file.add("reader", access="read", space="default", keys="")
    writer = file.add("writer", access="write", space="default", keys="ada")
    made = ServedHere(tmp_path, tokens=file, limits=ServerLimits(rate=1_000))
    try:
        for wrong in (None, "of another server"):
            with pytest.raises(AccessDenied, match="ALVEUS_TOKEN"):
                over_http(made, token=wrong)
        with over_http(made, token=writer) as memory:
            memory.key("ada").add("Tea.", id="a")
            for refused in (
                lambda: memory.key("bob").add("x"),
                lambda: memory.key("bob").list(),
                lambda: memory.knowledge.set("x").add("x"),
                lambda: over_http(made, token=writer, space="other"),
            ):
                with pytest.raises(AccessDenied):
                    refused()
            with pytest.raises(AccessDenied), memory.key("ada").batch() as batch:
                batch.knowledge.set("x").add("x")
        monkeypatch.setenv("ALVEUS_TOKEN", reader)
        with over_http(made) as memory:
            assert memory.key("ada").get("a") is not None
            with pytest.raises(AccessDenied):
                memory.key("ada").add("x")
    finally:
        made.stop()


@pytest.mark.parametrize(
    ("url", "options"),
    [
        ("http://", {}),
        ("http://127.0.0.1:port", {}),
        ("http://127.0.0.1:1?x=1", {}),
        ("http://ada:secret@127.0.0.1:1", {}),
        ("http://127.0.0.1:1/a b", {}),
        ("http://127.0.0.1:1/ä", {}),
        ("http://127.0.0.1 :1", {}),
        ("http://127.0.0.1:1\r\nX: y", {}),
        ("http://a..b:1", {}),
        ("HTTP://:1", {}),
        ("localhost:8080", {}),
        ("http://127.0.0.1:1", {"token": " "}),
        ("http://127.0.0.1:1", {"token": b"x"}),
        ("http://127.0.0.1:1", {"timeout_s": 0}),
        ("http://127.0.0.1:1", {"mode": "r"}),
        ("http://127.0.0.1:1", {"space": ""}),
        (":memory:", {"token": "x"}),
        (":memory:", {"timeout_s": 3}),
    ],
)
def test_what_cannot_be_asked_is_told_before_it_is(url: str, options: dict[str, Any]) -> None:
    """One error, which shows no password."""
    with pytest.raises(InvalidInput) as caught:
        Memory.open(url, **options)
    assert "secret" not in str(caught.value)


def test_a_file_may_have_the_name_of_a_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the error says: with ./ before it, or as a path."""
    monkeypatch.chdir(tmp_path)
    for place in ("./localhost:8080", Path("localhost:8080")):
        Memory.open(place, embedder="words").close()
    assert (tmp_path / "localhost:8080").is_file()


def test_nobody_there_and_somebody_else_are_one_clear_error(tmp_path: Path) -> None:
    """A dead server, another server, one that is not alveus's JSON, one that is silent."""
    with socket.create_server(("127.0.0.1", 0)) as door:
        port = door.getsockname()[1]
        with pytest.raises(ServerUnreachable, match=r"did not answer within 0\.1 s"):
            Memory.open(f"http://127.0.0.1:{port}", timeout_s=0.1)  # it answers nobody
    with pytest.raises(ServerUnreachable, match="alveus serve") as caught:
        Memory.open(f"http://127.0.0.1:{port}")
    assert isinstance(caught.value, ConnectionError)
    handler = partial(SimpleHTTPRequestHandler, directory=str(tmp_path))
    for content in ("no JSON", "[]", '{"status": "ok"}', None):
        (tmp_path / "v1").mkdir(exist_ok=True)
        (tmp_path / "v1" / "keys").unlink(missing_ok=True)
        if content is not None:
            (tmp_path / "v1" / "keys").write_text(content)
        with listening(handler) as url, pytest.raises(NotAStore, match="no alveus server"):
            Memory.open(url)


def impatient(memory: Memory) -> Memory:
    """Return the memory, which from now on waits for nothing that cannot happen."""
    assert isinstance(memory, RemoteMemory)
    connection = memory._connection
    connection.address = replace(connection.address, timeout_s=SHORT_S)  # nobody answers
    return memory


def test_a_server_that_goes_is_told_of(tmp_path: Path) -> None:
    """A call waits for it as long as it may; a write says how to repeat it."""
    with serving(tmp_path) as made, over_http(made) as memory:
        ada = memory.key("ada")
        ada.add("Tea.", id="a")
        made.stop(signal.SIGKILL)
        impatient(memory)
        with pytest.raises(ServerUnreachable, match="cannot be reached"):
            ada.list()
        with pytest.raises(ServerUnreachable, match="idempotency_key") as caught:
            ada.add("Coffee.")
        assert caught.value.idempotency_key


def test_what_was_closed_and_what_is_read_only_says_so(served: ServedHere) -> None:
    """As a file does."""
    with over_http(served, space="ro", mode="ro") as memory:
        ada = memory.key("ada")
        assert ada.list() == []
        for refused in (
            lambda: ada.add("x"),
            lambda: ada.short_term.set("a", 1),
            lambda: ada.batch().__enter__(),
        ):
            with pytest.raises(StoreReadOnly, match="mode='ro'"):
                refused()
    memory.close()
    with pytest.raises(StoreClosed):
        ada.list()
    with over_http(served, space="ro") as memory:
        past = memory.key("ada").short_term.at(0)
        assert past.to_dict() == {}
        with pytest.raises(StoreReadOnly):
            past.set("a", 1)
        with pytest.raises(Unsupported):
            past.once("k")
        with pytest.raises(InvalidInput):
            memory.key("ada").add("x", idempotency_key="schlüssel")
        assert "space 'ro'" in repr(memory)
