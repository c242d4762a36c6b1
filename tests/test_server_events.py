"""What a server tells of commits as they happen: to whom, from where on, and across its death."""

from __future__ import annotations

import asyncio
import http.client
import json
import random
import signal
import threading
import time
from contextlib import suppress
from types import SimpleNamespace
from urllib.parse import urlencode

import pytest
from fastapi import Request

from alveus import Memory
from alveus.server import event_streams
from alveus.server.callers import Caller, Memories
from alveus.server.tokens import ANYBODY, TokenFile
from scale import COUNTS
from test_server import Client, Served, ServedHere
from waiting import LIMIT_S, wait_until


class Follower:
    """Follows a stream of events as a browser does: from the last id on, connection after another.

    `events` are those that came, and `ids` their numbers.
    """

    def __init__(self, port, *, token=None, position=None, address="/v1/events", **query):
        self.address = address
        self.port, self.token, self.query, self.position = port, token, query, position
        self.events = []
        self.connect()

    @property
    def ids(self):
        return [event["number"] for event in self.events]

    def connect(self):
        """Connect again, and say what came last."""
        self._connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=LIMIT_S)
        headers = {} if self.position is None else {"Last-Event-ID": str(self.position)}
        if self.token is not None:
            headers["Authorization"] = f"Bearer {self.token}"
        place = f"{self.address}?{urlencode(self.query)}"
        self._connection.request("GET", place, headers=headers)
        self.stream = self._connection.getresponse()

    def next(self):
        """Return the next event, or None where only the position moved."""
        fields = {}
        while line := self.stream.readline().decode().rstrip("\n"):
            name, _, value = line.partition(": ")
            fields[name] = value
        if not fields:
            raise http.client.IncompleteRead(b"")
        self.position = int(fields["id"])
        if "data" not in fields:
            return None
        event = json.loads(fields["data"])
        assert (fields["event"], event["number"]) == ("commit", self.position)
        self.events.append(event)
        return event

    def until(self, commit):
        """Read until a commit has come."""
        while self.position is None or self.position < commit:
            self.next()

    def close(self):
        self.stream.close()
        self._connection.close()


@pytest.fixture
def served(tmp_path):
    made = ServedHere(tmp_path)
    yield made
    made.stop()


@pytest.fixture
def following(served):
    """Make followers of the server, which leave before it goes."""
    made = []

    def follow(**query):
        made.append(Follower(served.port, **query))
        return made[-1]

    yield follow
    for each in made:
        each.close()


def test_events_are_those_of_a_key_or_of_a_beginning_of_keys(served, following):
    """Each says what its commit changed; knowledge is told where nothing narrower is asked for."""
    followers = [
        following(**query)
        for query in ({"key": "ada-1"}, {"prefix": "ada-"}, {}, {"space": "other", "after": 0})
    ]
    for each in followers:
        assert each.stream.headers["X-Accel-Buffering"] == "no"
        assert each.next() is None  # it follows from here on
    with Memory.open(served.file, embedder="words") as memory:
        memory.key("ada-1").add("Tea.", id="tea")
        memory.key("ada-2").short_term.set("city", "Lisbon")
        memory.key("bob").add("Milk.")
        memory.knowledge.set("rules").add("Be brief.")
        memory.key("ada-1").set("default").delete("tea")
        last = memory.stats().store.commits
    wanted = [(1, "ada-1"), (2, "ada-2"), (3, "bob"), (4, None), (5, "ada-1")]
    for follower, told in zip(followers, ([0, 4], [0, 1, 4], [0, 1, 2, 3, 4], []), strict=True):
        expected = [wanted[place] for place in told]
        if expected:
            follower.until(last)
        assert [(event["number"], event["key"]) for event in follower.events] == expected
    first, second = followers[1].events[:2]
    assert first["items"] == [{"kind": "written", "set": "default", "id": "tea", "version": 1}]
    assert second["values"] == [["city"]]


def test_commits_of_a_key_from_before_it_was_forgotten_are_not_told(served, following):
    """Nor is the forgetting: also once the key is used again, and has its name back."""
    with Memory.open(served.file, embedder="words") as memory:
        ada, bob = memory.key("ada"), memory.key("bob")
        ada.add("Tea.", id="tea")
        ada.set("default").forget("tea")
        ada.add("Milk.")
        bob.add("Water.")
        ada.forget()
        ada.add("Juice.", id="juice")
        ada.set("default").forget("juice")
        last = memory.stats().store.commits
    for query, told in (({}, [4, 6, 7]), ({"key": "ada"}, [6, 7])):
        follower = following(after=0, **query)
        follower.until(last)
        assert follower.ids == told
    status, page = served.client().ask("GET", "/v1/journal")
    assert (status, [commit["number"] for commit in page["commits"]]) == (200, [7, 6, 4])


def test_a_client_that_returns_misses_nothing(served, following):
    """It says which event came last, however often it went, and how long ago that is."""
    with Memory.open(served.file, embedder="words") as memory:
        ada = memory.key("ada")
        for number in range(450):
            ada.short_term.set("n", number)
            if number % 50 == 0:
                memory.key("bob").short_term.set("n", number)
        last = memory.stats().store.commits
        own = [number for number, scope in memory.store.scopes_of_commits(0) if scope.key == "ada"]
    follower = following(key="ada", after=0)
    while follower.position != last:
        for _ in range(100):
            if follower.position != last:
                follower.next()
        follower.close()
        follower.connect()
    assert follower.ids == own
    client = served.client()
    for position in ("-1", "x", "1.5", str(1 << 70)):
        assert client.ask("GET", "/v1/events", None, {"Last-Event-ID": position})[0] == 400


def test_a_token_follows_what_it_may_read(tmp_path):
    """Keys that begin as it says, and knowledge, as everywhere."""
    file = TokenFile(tmp_path / "tokens.json")
    ada = file.add("ada", access="read", space="default", keys="ada-")
    made = ServedHere(tmp_path, tokens=file)
    try:
        for query in ({"key": "bob"}, {"prefix": "b"}, {"space": "other"}):
            assert made.ask("GET", "/v1/events", token=ada, **query)[0] == 403
        assert made.ask("GET", "/v1/events", token="nothing")[0] == 401  # noqa: S106 - it is none
        with Memory.open(made.file, embedder="words") as memory:
            for key in ("ada-1", "bob", "ada-2"):
                memory.key(key).short_term.set("n", 1)
            memory.knowledge.set("rules").add("Be brief.")
        for query, keys in (
            ({}, ["ada-1", "ada-2", None]),
            ({"prefix": "ada"}, ["ada-1", "ada-2"]),
            ({"prefix": "ada-2"}, ["ada-2"]),
        ):
            follower = Follower(made.port, token=ada, after=0, **query)
            while len(follower.events) < len(keys):
                follower.next()
            follower.close()
            assert [event["key"] for event in follower.events] == keys
    finally:
        made.stop()


def test_a_token_that_is_revoked_or_rotated_ends_its_streams(tmp_path):
    """Nothing of what is committed later comes over them."""
    file = TokenFile(tmp_path / "tokens.json")
    secrets = [file.add(name, access="read", space=None, keys="") for name in ("a", "b", "c")]
    made = ServedHere(tmp_path, tokens=file)
    followers = [Follower(made.port, token=secret, after=0, key="ada") for secret in secrets]
    numbers = Follower(made.port, token=secrets[0], address="/v1/commits")
    try:
        # It may be revoked before that is said.
        assert b"data: 0\n" in iter(numbers.stream.readline, b"")
        file.revoke("a")
        file.rotate("b")
        assert b"data" not in numbers.stream.read()
        for each in followers[:2]:
            with pytest.raises(http.client.IncompleteRead):
                each.until(1)
        with Memory.open(made.file, embedder="words") as memory:
            memory.key("ada").short_term.set("n", 1)
        followers[2].until(1)
        assert [each.ids for each in followers] == [[], [], [1]]
    finally:
        for each in (numbers, *followers):
            each.close()
        made.stop()


class RevokedMeanwhile(event_streams._FollowedKeys):
    """Commits of a key, read while a token is revoked and another one is made."""

    tokens: TokenFile

    def events(self, after):
        """Return what is committed once the token is of no use."""
        self.tokens.revoke("a")
        self.memory.key("ada").short_term.set("n", 1)
        return super().events(after)


def test_what_was_committed_after_a_token_was_revoked_is_not_told(tmp_path):
    """A read may wait for those of hundreds of streams, and what it finds may be of later."""
    RevokedMeanwhile.tokens = file = TokenFile(tmp_path / "tokens.json")
    secret = file.add("a", access="read", space=None, keys="")
    (token,) = file.tokens()
    headers = [(b"authorization", f"Bearer {secret}".encode())]

    async def told(memory):
        followed = RevokedMeanwhile(memory, "ada", "", knowledge=False)
        caller, request = Caller(token, Memories(lambda _: memory)), request_of(file, headers)
        return [part async for part in event_streams._events(followed, caller, request, 0)]

    with Memory.open(embedder="words") as memory:
        assert asyncio.run(told(memory)) == ["id: 0\n\n"]


def request_of(tokens, headers):
    """Return a request whose client stays, and says nothing more."""

    async def silence():
        await asyncio.Event().wait()
        return {}

    app = SimpleNamespace(state=SimpleNamespace(tokens=tokens, ends=threading.Event()))
    return Request({"type": "http", "app": app, "headers": headers}, silence)


def test_what_is_found_at_once_is_sent_at_once():
    """Between writes the server does not see that the client has gone, and logs each of them."""

    async def told(memory):
        followed = event_streams._FollowedKeys(memory, "ada", "", knowledge=False)
        caller = Caller(ANYBODY, Memories(lambda _: memory))
        parts = event_streams._events(followed, caller, request_of(None, []), 0)
        return [await anext(parts), await anext(parts)]

    with Memory.open(embedder="words") as memory:
        for number in range(3):
            memory.key("ada").short_term.set("n", number)
        assert asyncio.run(told(memory))[1].count("event: commit") == 3


def test_a_position_of_another_store_is_refused(served):
    """An older copy was put in its place: to wait for that commit would be to miss those before."""
    with Memory.open(served.file, embedder="words") as memory:
        memory.key("ada").short_term.set("n", 1)
    for headers, query in (({"Last-Event-ID": "2"}, {}), ({}, {"after": 2})):
        status, told = served.client().ask("GET", "/v1/events", None, headers, **query)
        assert (status, told["error"]["type"]) == (404, "NotFound")
        assert "no commit 2 in this store, whose last commit is 1" in told["error"]["message"]


def test_events_come_once_whenever_the_server_is_killed(tmp_path):
    """A client that returns with its last id has seen each commit of its key, in order, once."""
    served, dice = Served(tmp_path), random.Random(3)
    follower, ends = Follower(served.port, key="ada", after=0), threading.Event()
    threads = [
        threading.Thread(target=follow, args=(follower, ends)),
        threading.Thread(target=write, args=(served, ends)),
    ]
    for thread in threads:
        thread.start()
    for _ in range(max(2, COUNTS.kills // 16)):
        seen = len(follower.events)
        wait_until(lambda s=seen: len(follower.events) > s + 3)
        time.sleep(dice.random() * 0.05)  # noqa: TID251 - until the kill
        served.stop(signal.SIGKILL)
        served.start()
    ends.set()
    threads[1].join()
    client = served.client()
    client.ask("PUT", "/v1/exact", {"value": True}, key="ada", path="last")
    threads[0].join()  # it has seen that
    follower.close()
    served.stop()
    with Memory.open(tmp_path / "memory.db", embedder="words") as memory:
        scopes = memory.store.scopes_of_commits(0, limit=100_000)
    assert follower.ids == [number for number, scope in scopes if scope.key == "ada"]


def follow(follower, ends):
    """Follow, however often the server goes, until the last value of all is told."""
    while not (ends.is_set() and follower.events and follower.events[-1]["values"] == [["last"]]):
        try:
            follower.next()
        except (OSError, http.client.HTTPException):
            follower.close()
            reconnect(follower)


def write(served, ends):
    """Write values of Ada's and Bob's, each again until it is answered."""
    number = 0
    while not ends.is_set():
        number += write_once(served, number)


def reconnect(follower):
    """Connect as soon as the server is there again."""

    def is_there():
        with suppress(OSError, http.client.HTTPException):
            follower.connect()
            return True
        return False

    wait_until(is_there)


def write_once(served, number):
    """Write a value of Ada's and one of Bob's; return whether both were answered."""
    client = Client(served.port)
    try:
        for key in ("ada", "bob"):
            once = {"Idempotency-Key": f"{number}"}
            client.ask("PUT", "/v1/exact", {"value": number}, once, key=key, path="n")
    except (OSError, http.client.HTTPException):
        time.sleep(0.01)  # noqa: TID251 - another process is being started
        return False
    finally:
        client.close()
    return True
