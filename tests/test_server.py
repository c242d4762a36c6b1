"""The server: a real process over real connections, attacked, limited and killed."""

from __future__ import annotations

import asyncio
import base64
import http.client
import itertools
import json
import os
import random
import re
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlencode

import pytest
import uvicorn

import warm
from alveus import Memory
from alveus.errors import AlveusError, InvalidInput
from alveus.server.app import ServerLimits, create_app
from alveus.server.inspector import add_inspector
from alveus.server.tokens import TokenFile
from postgres_server import OwnServer, url_for
from scale import COUNTS, SCALE
from waiting import LIMIT_S, wait_until


class Asked:
    """What can be asked of a server, wherever it runs."""

    port = 0

    def __init__(self):
        self._clients = []

    def client(self, token=None):
        """Return a connection, which ends with the server."""
        made = Client(self.port, token)
        self._clients.append(made)
        return made

    def ask(self, method, path, body=None, /, *, token=None, **query):
        """Return status and JSON of an answer, over a connection of its own."""
        client = Client(self.port, token)
        try:
            return client.ask(method, path, body, **query)
        finally:
            client.close()

    def hang_up(self):
        """Close the connections that are left."""
        while self._clients:
            self._clients.pop().close()


class Served(Asked):
    """A server in a process of its own."""

    def __init__(self, folder, *words, port=0):
        self._command = [
            sys.executable, "-m", "alveus", "serve", "--json", "--db", str(folder / "memory.db"),
            "--embedder", "words", *map(str, words),
        ]  # fmt: skip
        self.port = port
        super().__init__()
        self.start()

    def start(self):
        """Start it, on the port that it had."""
        self.process = warm.Popen(
            [*self._command, "--port", str(self.port)], stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "the server did not come up"
        self.port = int(json.loads(line)["url"].rsplit(":", 1)[1])

    def stop(self, how=signal.SIGTERM):
        """End it; return with what code it ended."""
        self.hang_up()
        self.process.send_signal(how)
        code = self.process.wait(LIMIT_S)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code


class Client:
    """One connection, kept; headers of the last answer are in `headers`."""

    def __init__(self, port, token=None):
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=LIMIT_S)
        self._token = token

    def ask(self, method, path, body=None, headers=None, /, **query) -> tuple[int, Any]:
        given = {"Content-Type": "application/json", **(headers or {})}
        if self._token is not None:
            given["Authorization"] = f"Bearer {self._token}"
        place = f"{path}?{urlencode(query, doseq=True)}" if query else path
        text = body if isinstance(body, (bytes, type(None))) else json.dumps(body).encode()
        self._connection.request(method, place, text, given)
        answer = self._connection.getresponse()
        self.headers = answer.headers
        content = answer.read()
        is_json = answer.headers["Content-Type"] == "application/json"
        return answer.status, json.loads(content) if is_json and content else content.decode()

    def close(self):
        self._connection.close()


@contextmanager
def serving(folder, *words):
    served = Served(folder, *words)
    try:
        yield served
    finally:
        if served.process.poll() is None:
            assert served.stop() in (0, -signal.SIGTERM)


class PromptServer(uvicorn.Server):
    """Ends a hundredth of a second after it is asked to; uvicorn looks every tenth."""

    async def main_loop(self):
        ticks = 0
        while not await self.on_tick(ticks):
            ticks += 1
            await asyncio.sleep(0.01)


class ServedHere(Asked):
    """A server in a thread of this process: what a test asks of it is measured."""

    embedder = "words"

    def __init__(self, folder, *, tokens=None, limits=ServerLimits(), writes=False, telemetry=None):  # noqa: B008 - frozen
        super().__init__()
        self.file, self._telemetry = folder / "memory.db", telemetry
        self._door = socket.create_server(("127.0.0.1", 0))
        self._door.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # as `listen` does
        self.port = self._door.getsockname()[1]
        self.app = create_app(self.open_space, tokens=tokens, limits=limits, telemetry=telemetry)
        add_inspector(self.app, space="default", writes=writes)
        self._server = PromptServer(uvicorn.Config(self.app, log_level="warning"))
        self._thread = threading.Thread(target=self._server.run, args=([self._door],))
        self._thread.start()
        wait_until(lambda: self._server.started)

    def open_space(self, space):
        """Open the memory of a space."""
        told = self._telemetry
        return Memory.open(self.file, space=space, embedder=self.embedder, telemetry=told)

    def stop(self):
        """End it."""
        self.hang_up()
        self._server.should_exit = True
        self._thread.join(LIMIT_S)
        self._door.close()


@pytest.fixture
def served(tmp_path):
    made = ServedHere(tmp_path)
    yield made
    made.stop()


def test_tokens_and_limits_hold_here_too(tmp_path):
    """The same as in a process of its own, once each."""
    file = TokenFile(tmp_path / "tokens.json")
    reader = file.add("reader", access="read", space="default", keys="ada")
    admin = file.add("admin", access="admin", space=None, keys="")
    made = ServedHere(tmp_path, tokens=file, limits=ServerLimits(body_bytes=500, rate=1_000))
    body = {"items": [{"value": "Tea."}]}
    wanted = [
        (admin, "POST", "/v1/items", body, {"key": "ada"}, 201),
        (admin, "POST", "/v1/items", {"items": [{"value": "x" * 999}]}, {"key": "ada"}, 413),
        (admin, "GET", "/v1/runs", None, {}, 200),
        (admin, "POST", "/v1/runs/discard", None, {"run": 7}, 404),
        (admin, "GET", "/metrics", None, {}, 200),
        (admin, "GET", "/v1/compactions", None, {"key": "ada"}, 200),
        (admin, "POST", "/v1/compactions/undo", None, {"key": "ada", "id": 1}, 404),
        (admin, "POST", "/v1/items", b"[" * 400, {"key": "ada"}, 400),
        (admin, "BREW", "/v1/items", None, {}, 405),
        (reader, "GET", "/v1/items", None, {"key": "ada", "where": "{}"}, 200),
        (reader, "GET", "/v1/items", None, {"key": "ada", "where": "["}, 400),
        (reader, "GET", "/v1/items", None, {"key": "bob"}, 403),
        (reader, "GET", "/v1/items", None, {"key": "ada", "space": "other"}, 403),
        (reader, "POST", "/v1/items", body, {"key": "ada"}, 403),
        (reader, "GET", "/v1/runs", None, {"key": "ada"}, 200),
        (reader, "GET", "/metrics", None, {}, 403),
        ("nothing", "GET", "/v1/keys", None, {}, 401),
    ]
    try:
        for token, method, path, sent, query, status in wanted:
            found = made.ask(method, path, sent, token=token, **query)
            assert found[0] == status, (path, found)
    finally:
        made.stop()


def test_exact_memory_is_read_and_written(served):
    """Values with their ETags; a write that comes too late changes nothing."""
    client = served.client()
    place = {"key": "a/b & ä", "path": "profile.city"}
    assert client.ask("PUT", "/v1/exact", {"value": "Lisbon"}, **place)[0] == 200
    first = client.headers["ETag"]
    assert client.ask("GET", "/v1/exact", **place) == (
        200,
        {"path": "profile.city", "value": "Lisbon", "is_object": False},
    )
    assert client.headers["ETag"] == first
    match = {"If-Match": first}
    assert client.ask("PUT", "/v1/exact", {"value": "Porto"}, match, **place)[0] == 200
    status, told = client.ask("PUT", "/v1/exact", {"value": "Faro"}, match, **place)
    assert (status, told["error"]["type"]) == (412, "CompareFailed")
    whole = client.ask("GET", "/v1/exact", key=place["key"])[1]
    assert (whole["value"], whole["is_object"]) == ({"profile": {"city": "Porto"}}, True)
    assert client.ask("DELETE", "/v1/exact", **place) == (200, {"removed": True})
    assert client.ask("GET", "/v1/exact", **place)[0] == 404


def test_who_opens_the_server_in_a_browser_is_told_where_to_look(served):
    """The first page that a browser asks for is not there."""
    status, told = served.client().ask("GET", "/")
    assert (status, told["error"]["message"].endswith(", and /ui/ shows the memory")) == (404, True)


def test_items_are_added_changed_found_and_forgotten(served):
    """The way of an item, and its versions."""
    client = served.client()
    ids = {"items": [{"value": "Prefers tea.", "id": "one/1", "metadata": {"kind": "drink"}}]}
    assert client.ask("POST", "/v1/items", ids, key="ada") == (201, {"ids": ["one/1"]})
    assert client.ask("POST", "/v1/items", ids, key="ada")[0] == 409
    one = {"key": "ada", "id": "one/1"}
    assert client.ask("GET", "/v1/item", **one)[1]["text"] == "Prefers tea."
    match = {"If-Match": client.headers["ETag"]}
    status, item = client.ask("PATCH", "/v1/item", {"value": "Prefers coffee."}, match, **one)
    assert (status, item["version"], item["metadata"]) == (200, 2, {"kind": "drink"})
    assert client.ask("PATCH", "/v1/item", {"value": "…"}, match, **one)[0] == 412
    assert client.ask("DELETE", "/v1/item", None, match, **one)[0] == 412
    asked = {"query": "coffee", "where": {"kind": "drink"}}
    (hit,) = client.ask("POST", "/v1/search", asked, key="ada")[1]["hits"]
    assert hit["item"]["id"] == "one/1"
    assert hit["score"] == pytest.approx(sum(hit["parts"].values()))
    prompt = client.ask("POST", "/v1/context", {"query": "coffee"}, key="ada")[1]
    assert "Prefers coffee." in prompt["text"]
    texts = [v["text"] for v in client.ask("GET", "/v1/item/history", **one)[1]["versions"]]
    assert texts == ["Prefers tea.", "Prefers coffee."]
    assert client.ask("DELETE", "/v1/item", **one) == (200, {"deleted": 1})
    status, receipt = client.ask("POST", "/v1/forget", {"everything": True}, key="ada")
    assert (status, receipt["state"]) == (200, "scrubbed")
    assert client.ask("GET", "/v1/keys")[1] == {"keys": [], "more": False}
    kept = client.ask("GET", "/v1/receipts")[1]["receipts"]
    assert [each["id"] for each in kept] == [receipt["id"]]


def test_a_write_that_comes_too_late_changes_nothing(served):
    """Also of knowledge, also a removal; a repeated one is answered as before."""
    client = served.client()
    new = {"items": [{"value": "Be brief.", "id": "rule"}]}
    client.ask("POST", "/v1/items", new)
    client.ask("PATCH", "/v1/item", {"value": "Be kind."}, id="rule")
    late, now = {"If-Match": '"1"'}, {"If-Match": '"2"', "Idempotency-Key": "retire"}
    status, told = client.ask("DELETE", "/v1/item", None, late, id="rule")
    assert (status, told["error"]["type"]) == (412, "StaleItem")
    for _ in range(2):
        assert client.ask("DELETE", "/v1/item", None, now, id="rule") == (200, {"deleted": 1})
    for method, body in (("PUT", {"value": "Faro"}), ("DELETE", None)):
        place = {"key": "ada", "path": f"{method}.city"}
        client.ask("PUT", "/v1/exact", {"value": "Lisbon"}, **place)
        first = client.headers["ETag"]
        client.ask("PUT", "/v1/exact", {"value": "Porto"}, **place)
        now = {"If-Match": client.headers["ETag"], "Idempotency-Key": method}
        assert client.ask(method, "/v1/exact", body, {"If-Match": first}, **place)[0] == 412
        answers = [client.ask(method, "/v1/exact", body, now, **place) for _ in range(2)]
        assert answers[0][0] == 200
        assert answers[0] == answers[1]


def test_a_write_of_what_is_there_changes_nothing_that_is_not(served):
    """`If-Match: *` is for whatever is there; what is gone is no longer what was read either."""
    client = served.client()
    ever = {"If-Match": "*"}
    one, place = {"key": "ada", "id": "one"}, {"key": "ada", "path": "city"}
    assert client.ask("PUT", "/v1/exact", {"value": "Faro"}, ever, **place)[0] == 412
    assert client.ask("GET", "/v1/exact", **place)[0] == 404
    client.ask("PUT", "/v1/exact", {"value": "Faro"}, **place)
    read = {"If-Match": client.headers["ETag"]}
    assert client.ask("PUT", "/v1/exact", {"value": "Porto"}, ever, **place)[0] == 200
    assert client.ask("PUT", "/v1/exact", {"value": "Faro"}, ever, **place)[0] == 200
    assert client.ask("DELETE", "/v1/exact", None, ever, **place) == (200, {"removed": True})
    for late in (ever, read):
        status, told = client.ask("DELETE", "/v1/exact", None, late, **place)
        assert (status, told["error"]["type"]) == (412, "CompareFailed")
    new = {"items": [{"value": "Prefers tea.", "id": "one"}]}
    client.ask("POST", "/v1/items", new, key="ada")
    changed = client.ask("PATCH", "/v1/item", {"value": "Prefers coffee."}, ever, **one)
    assert (changed[0], changed[1]["version"]) == (200, 2)
    assert client.ask("PATCH", "/v1/item", {"value": "x"}, {"If-Match": "x"}, **one)[0] == 400
    done = ever | {"Idempotency-Key": "retire"}
    for _ in range(2):
        assert client.ask("DELETE", "/v1/item", None, done, **one) == (200, {"deleted": 1})
    assert client.ask("PATCH", "/v1/item", {"value": "x"}, ever, **one)[0] == 404
    for late, kind in ((ever, "CompareFailed"), ({"If-Match": '"2"'}, "StaleItem")):
        status, told = client.ask("DELETE", "/v1/item", None, late, **one)
        assert (status, told["error"]["type"]) == (412, kind)
    assert client.ask("DELETE", "/v1/item", **one) == (200, {"deleted": 0})


def test_head_is_answered_as_get_without_the_body(served):
    """With its status and headers; a stream ends at once, and what is only written has no HEAD."""
    client = served.client()
    client.ask("PUT", "/v1/exact", {"value": "Lisbon"}, key="ada", path="city")
    for path in ("/v1/exact?key=ada&path=city", "/v1/keys", "/health", "/openapi.json", "/ui/"):
        told = []
        for method in ("GET", "HEAD"):
            status, content = client.ask(method, path)
            kept = {n: v for n, v in client.headers.items() if n.lower() != "date"}
            told.append((status, kept, bool(content)))
        (*got, has_body), (*headed, has_none) = told
        assert (headed, has_body, has_none) == (got, True, False), path
    for path, status in {
        "/v1/events": 200,
        "/v1/commits": 200,
        "/v1/export": 200,
        "/v1/exact?key=ada&path=none": 404,
        "/v1/keys?nme=1": 400,
        "/v1/search": 405,
    }.items():
        assert client.ask("HEAD", path) == (status, ""), path
    assert client.headers["Allow"] == "POST"
    assert client.ask("PATCH", "/v1/items")[0] == 405
    assert client.headers["Allow"] == "GET, HEAD, POST"
    counted = client.ask("GET", "/metrics")[1]
    assert 'method="HEAD"' in counted
    assert 'method="HEAD",route="/v1/exact"' in counted.replace(", ", ",")


def test_lists_go_on_where_a_page_ends(served):
    client = served.client()
    for number in range(5):
        body = {"items": [{"value": f"{number}", "id": f"{number}"}]}
        client.ask("POST", "/v1/items", body, key=f"key {number}", set="notes")
        client.ask("POST", "/v1/items", body, set="rules")
    assert client.ask("GET", "/v1/keys", after="key 1", limit=2)[1] == {
        "keys": ["key 2", "key 3"],
        "more": True,
    }
    page = client.ask("GET", "/v1/items", set="rules", limit=3)[1]
    assert (len(page["items"]), page["more"]) == (3, True)
    last = client.ask("GET", "/v1/items", set="rules", after=page["items"][-1]["id"])[1]
    assert ([item["id"] for item in last["items"]], last["more"]) == (["3", "4"], False)
    assert client.ask("GET", "/v1/sets", key="key 0")[1] == {
        "sets": [{"name": "notes", "items": 1}]
    }


def test_a_repeated_request_changes_nothing(served):
    """By its Idempotency-Key, whatever it does; another request of that name is refused."""
    client = served.client()

    def twice(method, path, body, /, **query):
        once = {"Idempotency-Key": f"{method} {path}"}
        first, second = (client.ask(method, path, body, once, **query) for _ in range(2))
        assert first == second
        assert first[0] in (200, 201)

    twice("POST", "/v1/items", {"items": [{"value": "Tea."}, {"value": "Milk."}]}, key="ada")
    (one, two) = client.ask("GET", "/v1/items", key="ada")[1]["items"]
    twice("PATCH", "/v1/item", {"value": "Coffee."}, key="ada", id=one["id"])
    twice("DELETE", "/v1/item", None, key="ada", id=two["id"])
    twice("PUT", "/v1/exact", {"value": 1}, key="ada", path="a")
    twice("DELETE", "/v1/exact", None, key="ada", path="a")
    (left,) = client.ask("GET", "/v1/items", key="ada")[1]["items"]
    assert (left["text"], left["version"]) == ("Coffee.", 2)
    other = {"items": [{"value": "Another."}]}
    once = {"Idempotency-Key": "POST /v1/items"}
    assert client.ask("POST", "/v1/items", other, once, key="ada")[0] == 409


def test_facts_are_learnt_and_shown(served):
    client = served.client()
    texts = {"texts": ["I live in Lisbon.", "My sister Grace lives in Porto."]}
    assert client.ask("POST", "/v1/learn", texts, key="ada")[0] == 200
    facts = client.ask("GET", "/v1/facts", key="ada")[1]["facts"]
    assert any("Lisbon" in fact["text"] for fact in facts)
    page = client.ask("GET", "/v1/about", key="ada", name="Grace")
    assert page[0] == 200
    assert "Porto" in json.dumps(page[1])
    assert client.ask("GET", "/v1/profile", key="ada")[0] == 200


def test_commits_of_others_are_followed(served, tmp_path):
    """By server-sent events, whichever process makes them."""
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=LIMIT_S)
    connection.request("GET", "/v1/commits")
    stream = connection.getresponse()
    assert stream.headers["Content-Type"].startswith("text/event-stream")
    seen = [next(line for line in stream if line.startswith(b"data:"))]
    with Memory.open(tmp_path / "memory.db", embedder="words") as memory:
        memory.key("ada").add("Tea.")
    seen.append(next(line for line in stream if line.startswith(b"data:")))
    connection.close()
    first, second = (int(line.split()[1]) for line in seen)
    assert second == first + 1


def test_an_export_is_streamed_and_the_rest_is_counted(served):
    client = served.client()
    client.ask("POST", "/v1/items", {"items": [{"value": "Tea."}]}, key="ada")
    lines = client.ask("GET", "/v1/export")[1].splitlines()
    assert json.loads(lines[0]) == {"type": "alveus", "format": 1}
    assert "Tea." in lines[-1]
    assert client.ask("GET", "/v1/stats")[1]["store"]["items"] == 1
    assert client.ask("GET", "/ready")[0] == client.ask("GET", "/health")[0] == 200
    assert client.ask("GET", "/v1/nowhere/ada")[0] == 404
    text = client.ask("GET", "/metrics")[1]
    assert 'alveus_http_requests_total{method="POST",route="/v1/items",status="201"} 1.0' in text
    assert "ada" not in text


def test_methods_that_nobody_knows_are_counted_as_one(served):
    """Whoever makes up methods makes no series of metrics for each."""
    client = served.client()
    for method in ("FOO", "BAR"):
        assert client.ask(method, "/v1/keys")[0] == 405
    text = client.ask("GET", "/metrics")[1]
    assert 'requests_total{method="_OTHER",route="/v1/keys",status="405"} 2.0' in text
    assert "FOO" not in text


# --- bad input ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "path", "body", "query", "status"),
    [
        ("POST", "/v1/items", b"{", {"key": "ada"}, 400),
        ("POST", "/v1/items", b'{"items": [{"value": NaN}]}', {"key": "ada"}, 400),
        ("POST", "/v1/items", {"items": [{"value": "a", "colour": 1}]}, {"key": "ada"}, 400),
        ("POST", "/v1/items", {"items": []}, {"key": "ada"}, 400),
        ("POST", "/v1/items", {"items": [{"value": "a"}]}, {"key": ""}, 400),
        ("POST", "/v1/items", {"items": [{"value": "a"}]}, {"kye": "ada"}, 400),
        ("POST", "/v1/items", {"items": [{"value": "a", "time": 2025}]}, {"key": "ada"}, 400),
        ("POST", "/v1/items", {"items": [{"value": "a", "time": "2025"}]}, {"key": "ada"}, 400),
        ("POST", "/v1/items", {"items": [{"value": "a", "valid_to": "9"}]}, {"key": "ada"}, 400),
        ("POST", "/v1/items", {"items": [{"value": {"$bytes": "?"}}]}, {"key": "ada"}, 400),
        ("POST", "/v1/items", b"[" * 10_000, {"key": "ada"}, 400),
        ("PUT", "/v1/exact", {"value": 1}, {"key": "ada", "path": "a..b"}, 400),
        ("PUT", "/v1/exact", {"value": 1}, {"key": "ada", "path": "[1]"}, 400),
        ("PUT", "/v1/exact", {"value": 1}, {"key": "ada", "path": ""}, 400),
        ("GET", "/v1/exact", None, {"key": "ada", "as_of": "9" * 5_000}, 400),
        ("GET", "/v1/items", None, {"key": "ada", "where": "["}, 400),
        ("GET", "/v1/items", None, {"key": "ada", "where": '{"$nope": 1}'}, 400),
        ("GET", "/v1/items", None, {"key": "ada", "limit": 0}, 400),
        ("POST", "/v1/search", {"query": "a", "limit": 10**9}, {"key": "ada"}, 400),
        ("POST", "/v1/forget", {}, {"key": "ada"}, 400),
        ("POST", "/v1/learn", {}, {"key": "ada"}, 400),
        ("POST", "/v1/runs/retry", None, {"run": 7}, 404),
        ("GET", "/v1/about", None, {"key": "ada", "name": "Nobody"}, 404),
        ("GET", "/v1/receipts", None, {"space": ""}, 400),
        ("BREW", "/v1/items", None, {}, 405),
        ("GET", "/v1/items?key=ada&key=bob", None, {}, 400),
        ("POST", "/v1/items?key=ada&key=ada", {"items": [{"value": "a"}]}, {}, 400),
    ],
)  # fmt: skip
def test_bad_input_is_one_clear_error(shared, method, path, body, query, status):
    """And nothing is changed."""
    answered, told = shared.ask(method, path, body, **query)
    assert (answered, set(told["error"])) == (status, {"type", "message", "facts"})
    assert "Traceback" not in told["error"]["message"]
    assert shared.ask("GET", "/v1/keys")[1]["keys"] == []
    assert shared.ask("GET", "/v1/sets")[1]["sets"] == []


@pytest.mark.parametrize(
    ("body", "headers", "query", "said"),
    [
        (b"{bad", {}, {}, "not JSON (Expecting property name"),
        (b'"\xe9"', {}, {}, "body: is not UTF-8"),
        (b"[" * 100_000, {}, {}, "body: its JSON is nested too deep"),
        (b"9" * 5_000, {}, {}, "body: has a number with too many digits"),
        (b'{"items": [{"value": {"a": 1, "a": 2}}]}', {}, {}, "body: the field 'a' occurs twice"),
        (b"{}", {"Content-Type": "text/plain"}, {}, "header Content-Type: application/json"),
        (b"{}", {}, {"key": ["ada", "bob"]}, "/v1/items takes one 'key', but the request has two"),
        (b"{}", {}, {"kye": "ada"}, "/v1/items has no parameter 'kye'; did you mean 'key'?"),
        (b'{"items": [{"time": 2025}]}', {}, {}, "the time 2025 is not understood"),
        (b'{"items": [{"time": "2025-01-31"}]}', {}, {}, "no zone; add Z for UTC"),
    ],
)
def test_an_error_says_what_to_send_instead(shared, body, headers, query, said):
    """The mistakes of a first request by hand."""
    client = shared.client()
    status, told = client.ask("POST", "/v1/items", body, headers, **query)
    shared.hang_up()
    assert status == 400
    assert said in told["error"]["message"]


@pytest.mark.parametrize("header", ["Idempotency-Key", "If-Match"])
def test_a_header_that_is_there_twice_is_refused(shared, header):
    """Only the first one was read: a request that a proxy named anew was taken for another one."""
    connection = http.client.HTTPConnection("127.0.0.1", shared.port, timeout=LIMIT_S)
    connection.putrequest("POST", "/v1/items?key=ada")
    body = b'{"items": [{"value": "a"}]}'
    for name, value in (
        (header, '"1"'),
        (header, '"2"'),
        ("Content-Type", "application/json"),
        ("Content-Length", str(len(body))),
    ):
        connection.putheader(name, value)
    connection.endheaders(body)
    answer = connection.getresponse()
    assert (answer.status, f"only one header {header}" in answer.read().decode()) == (400, True)
    connection.close()
    assert shared.ask("GET", "/v1/keys")[1]["keys"] == []


@pytest.mark.parametrize("wrong", ["/v1/items?key=andr%E9", "/v1/memories/andr%E9/", "/v1/%ff"])
def test_a_name_that_is_no_utf_8_is_refused(shared, wrong):
    """All such bytes would be read as U+FFFD, so different users would share a memory."""
    status, told = shared.ask("POST", wrong, {"items": [{"value": "a"}]})
    assert (status, told["error"]["type"]) == (400, "InvalidInput")
    assert "not UTF-8" in told["error"]["message"]
    assert shared.ask("GET", "/v1/keys")[1]["keys"] == []


def test_a_condition_that_is_not_looked_at_is_refused(shared):
    """It says: write nothing over what is there; whoever sends it relies on that."""
    client = shared.client()
    for method in ("PUT", "DELETE"):
        asked = {"value": 1} if method == "PUT" else None
        given = (method, "/v1/exact", asked, {"If-None-Match": "*"})
        status, told = client.ask(*given, key="ada", path="a")
        assert (status, "exact.update" in told["error"]["message"]) == (400, True)
    assert client.ask("GET", "/v1/keys", None, {"If-None-Match": "*"})[0] == 200
    shared.hang_up()
    call = {"call": "exact.update", "path": ["a"], "value": 1}
    assert shared.ask("POST", "/v1/call", call, key="ada")[0] == 200
    assert shared.ask("POST", "/v1/call", call, key="ada")[0] == 412
    assert shared.ask("POST", "/v1/forget", {"everything": True}, key="ada")[0] == 200


def test_a_path_that_is_no_list_is_told_as_a_path(shared):
    """And not as the filter that other addresses take as JSON."""
    status, told = shared.ask("GET", "/v1/exact", None, key="ada", path="[")
    assert (status, told["error"]["message"]) == (
        400, 'path must be names joined by dots, or a list like ["a.b", "c"]',
    )  # fmt: skip


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("shared")) as made:
        yield made


ALL_PHASES = "examples,coverage,fuzzing"
PHASES = {"quick": "examples,fuzzing", "full": ALL_PHASES, "soak": ALL_PHASES}


def test_whatever_its_description_allows_is_answered(tmp_path):
    """Schemathesis asks: no 500, and each answer as described."""
    with serving(tmp_path) as served:
        assert served.ask("GET", "/openapi.json")[0] == 200  # made once; it is waited 10 s for
        url = f"http://127.0.0.1:{served.port}/openapi.json"
        done = subprocess.run(
            [
                sys.executable, "-m", "schemathesis.cli", "run", url, "--no-color",
                "--checks", "all",
                # What a schema cannot say of a filter, a path or a time, and what is no fault:
                "--exclude-checks", "positive_data_acceptance,negative_data_rejection",
                "--max-examples", str(max(5, COUNTS.fuzz_examples // 20)), "--seed", "1",
                "--exclude-path-regex", "^/v1/(commits|events)$",
                "--generation-database", "none", "--phases", PHASES[SCALE],
                "--request-timeout", str(LIMIT_S),
            ],
            capture_output=True, text=True, check=False, cwd=tmp_path,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout[-4000:]
        assert served.process.poll() is None


def test_a_request_has_a_largest_size(tmp_path):
    """Also where it does not say how large it is; the connection of another goes on."""
    with serving(tmp_path, "--max-body", "0.1") as served:
        body = {"items": [{"value": "x" * 200_000}]}
        assert served.ask("POST", "/v1/items", body, key="ada")[0] == 413
        with socket.create_connection(("127.0.0.1", served.port), timeout=LIMIT_S) as raw:
            head = "POST /v1/items?key=ada HTTP/1.1\r\nHost: localhost\r\n"
            raw.sendall(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode())
            with raw.makefile("rb") as answer:
                raw.sendall((b"fffe\r\n" + b"x" * 0xFFFE + b"\r\n") * 2)
                assert b" 413 " in answer.readline()
        assert served.ask("GET", "/v1/keys")[1]["keys"] == []


def test_keys_are_listed_as_far_as_a_token_reaches(tmp_path):
    """Of a beginning that the token has and one that is asked for, both hold."""
    file = TokenFile(tmp_path / "tokens.json")
    ada = file.add("ada", access="read", space=None, keys="ada-")
    with Memory.open(tmp_path / "memory.db", embedder="words") as memory:
        for key in ("ada", "ada-1", "ada-2", "bea"):
            memory.key(key).short_term.set("n", 1)
    made = ServedHere(tmp_path, tokens=file)
    try:
        for prefix, listed in (
            ("", ["ada-1", "ada-2"]),
            ("ad", ["ada-1", "ada-2"]),
            ("ada-2", ["ada-2"]),
            ("b", []),
        ):
            told = made.ask("GET", "/v1/keys", token=ada, prefix=prefix)
            assert told == (200, {"keys": listed, "more": False})
        told = made.ask("GET", "/v1/keys", token=ada, after="ada-1")
        assert told == (200, {"keys": ["ada-2"], "more": False})
    finally:
        made.stop()


def test_guesses_of_tokens_are_counted_together(tmp_path):
    """Many secrets from one place are one client; a token that is known is another."""
    file = TokenFile(tmp_path / "tokens.json")
    known = file.add("reader", access="read", space=None, keys="")
    made = ServedHere(tmp_path, tokens=file, limits=ServerLimits(rate=0.5))  # one at once
    try:
        guesses = (made.ask("GET", "/v1/keys", token=f"alveus_{n}")[0] for n in range(200))
        assert next(status for status in guesses if status != 401) == 429
        assert made.ask("GET", "/v1/keys", token=known)[0] == 200
    finally:
        made.stop()


@pytest.mark.parametrize("path", ["/v1/items", "/v3/memories/add/", "/v1/memory_stores"])
def test_nobody_without_a_token_has_a_body_read(tmp_path, path):
    """It is told at once, whatever is announced; else its bodies would fill the server's RAM."""
    file = TokenFile(tmp_path / "tokens.json")
    file.add("reader", access="read", space=None, keys="")
    made = ServedHere(tmp_path, tokens=file)
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9000000\r\n\r\n"
    try:
        with socket.create_connection(("127.0.0.1", made.port), timeout=LIMIT_S) as client:
            client.sendall(head.encode())
            assert b" 401 " in client.makefile("rb").readline()
    finally:
        made.stop()


def test_tokens_changed_by_many_at_once_are_all_changed(tmp_path):
    """Processes wait for each other: no change undoes another, and a killed one is in no way."""
    tokens = tmp_path / "tokens.json"
    TokenFile(tokens).add("old", access="read", space=None, keys="")
    (tmp_path / "tokens.json.part").write_text("what a kill left")
    program = (
        "import pathlib, sys; from alveus.server.tokens import TokenFile\n"
        "sys.stdin.readline()\n"
        "file = TokenFile(pathlib.Path(sys.argv[1]))\n"
        "for n in range(10):\n"
        "    file.add(f'{sys.argv[2]} {n}', access='read', space=None, keys='')\n"
        "    file.rotate(f'{sys.argv[2]} {n}')\n"
        "    if n % 2: file.revoke(f'{sys.argv[2]} {n}')\n"
    )
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", program, str(tokens), name], stdin=subprocess.PIPE, text=True
        )
        for name in ("one", "two", "three")
    ]
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("go\n")
        writer.stdin.flush()
    for writer in writers:
        writer.communicate(timeout=LIMIT_S)
    assert [writer.returncode for writer in writers] == [0, 0, 0]
    kept = {f"{name} {n}" for name in ("one", "two", "three") for n in range(0, 10, 2)}
    assert {token.name for token in TokenFile(tokens).tokens()} == {"old", *kept}
    assert [path.name for path in tmp_path.iterdir()] == ["tokens.json"]
    assert stat.S_IMODE(tokens.stat().st_mode) == 0o600


def test_a_digest_that_is_none_is_told(tmp_path):
    """A file of tokens that somebody wrote by hand is refused by name, not by an error of ours."""
    file = TokenFile(tmp_path / "tokens.json")
    file.add("reader", access="read", space=None, keys="")
    text = (tmp_path / "tokens.json").read_text()
    digest = json.loads(text)["tokens"][0]["digest"]
    (tmp_path / "tokens.json").write_text(text.replace(digest, "é" * 60))
    with pytest.raises(InvalidInput, match="'reader' has a digest"):
        file.find("alveus_x")


def test_a_client_may_ask_so_often(tmp_path):
    with serving(tmp_path, "--rate", "0.5") as served:
        statuses = [served.ask("GET", "/v1/keys")[0] for _ in range(4)]
        assert statuses[0] == 200
        assert statuses[-1] == 429
        assert served.ask("GET", "/health")[0] == 200


def test_what_is_refused_is_counted(tmp_path):
    """Also where no address was looked for; its headers are those of every answer."""
    file = TokenFile(tmp_path / "tokens.json")
    one, other = (file.add(name, access="write", space=None, keys="") for name in ("one", "other"))
    admin = file.add("admin", access="admin", space=None, keys="")
    limits = ServerLimits(body_bytes=500, rate=0.5)  # one at once
    made = ServedHere(tmp_path, tokens=file, limits=limits)
    client = Client(made.port, one)
    try:
        assert client.ask("GET", "/v1/keys?prefix=%E9")[0] == 400
        assert client.headers["Cache-Control"] == "no-store"
        body = {"items": [{"value": "x" * 999}]}
        assert made.ask("POST", "/v1/items", body, token=other, key="ada")[0] == 413
        assert any(made.ask("GET", "/v1/keys", token=one)[0] == 429 for _ in range(200))
        counted = made.ask("GET", "/metrics", token=admin)[1]
    finally:
        client.close()
        made.stop()
    for status in (400, 413, 429):
        assert f'status="{status}"' in counted


def test_a_wrong_method_is_told_the_right_ones(served):
    """Also at addresses that are not described."""
    client = Client(served.port)
    for method, path, right in (
        ("GET", "/v3/memories/add/", "POST"),
        ("PATCH", "/v1/memories/x/", "DELETE, GET, HEAD, PUT"),
        ("PUT", "/v1/memory_stores/x", "DELETE, GET, HEAD, POST"),
        ("POST", "/ui/", "GET, HEAD"),
        ("POST", "/ready", "GET, HEAD"),
    ):
        assert client.ask(method, path)[0] == 405
        assert client.headers["Allow"] == right, path
    client.close()


def test_whether_it_is_ready_is_told_in_json_whatever_fails(tmp_path, caplog):
    """A cause that nobody expected is in the log, as of other addresses."""

    class Broken(ServedHere):
        def open_space(self, space):
            raise RuntimeError(space)

    made = Broken(tmp_path)
    try:
        status, told = made.ask("GET", "/ready")
        assert (status, told["error"]["type"]) == (500, "InternalError")
        assert told["error"]["facts"]["reference"] in caplog.text
    finally:
        made.stop()


# --- who may do what ------------------------------------------------------------------------------


def test_without_tokens_only_programs_of_this_machine_are_served(served):
    """No page of a browser is, whatever name leads here."""
    client = served.client()
    for headers in ({"Origin": "https://evil.example"}, {"Host": "evil.example"}):
        status, told = client.ask("GET", "/v1/keys", None, headers)
        assert (status, told["error"]["type"]) == (403, "AccessDenied")
    words = ["serve", "--host", "192.0.2.1", "--db", "memory.db"]
    done = subprocess.run(
        [sys.executable, "-m", "alveus", *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "alveus token new" in done.stderr


def test_no_token_reaches_beyond_its_scope(tmp_path):
    """Random tokens, spaces, keys and calls, against a table of what each may."""
    file = TokenFile(tmp_path / "tokens.json")
    dice = random.Random(4)
    spaces, keys = (None, "one", "two"), ("", "ada", "ada-")
    scopes = list(itertools.product(("read", "write", "admin"), spaces, keys))
    secrets = {
        file.add(f"token {number}", access=access, space=space, keys=beginning): scope
        for number, scope in enumerate(scopes)
        for access, space, beginning in [scope]
    }
    assert stat.S_IMODE((tmp_path / "tokens.json").stat().st_mode) == 0o600
    text = (tmp_path / "tokens.json").read_text()
    assert not any(secret in text for secret in secrets)
    calls = {
        "read": ("POST", "/v1/search", {"query": "tea"}),
        "write": ("POST", "/v1/items", {"items": [{"value": "tea"}]}),
        "admin": ("GET", "/v1/export", None),
    }
    levels = list(calls)
    with serving(tmp_path, "--tokens", tmp_path / "tokens.json") as served:
        for _ in range(COUNTS.server_tries):
            secret = dice.choice(list(secrets))
            access, space, beginning = secrets[secret]
            need, where = dice.choice(levels), dice.choice(("one", "two"))
            key = dice.choice((None, "ada", "ada-1", "bob", "ADA", "ad"))
            method, path, body = calls[need]
            query = {"space": where} | ({} if key is None else {"key": key})
            status, told = served.ask(method, path, body, token=secret, **query)
            may = levels.index(access) >= levels.index(need) and space in (None, where)
            if key or need != "read":  # without a key it is about knowledge, or about all keys
                may &= (key or "").startswith(beginning)
            assert (status in (200, 201)) == may, (secrets[secret], need, where, key, status, told)
            assert status in (200, 201, 403)
        for wrong in ("", "alveus_nothing", next(iter(secrets))[:-1], "ä"):
            assert served.ask("GET", "/v1/keys", token=wrong.encode().decode("latin-1"))[0] == 401


def test_tokens_change_without_a_restart(tmp_path):
    """A new one holds from the next request on, a revoked or rotated one no longer."""

    def token(*words):
        done = subprocess.run(
            [sys.executable, "-m", "alveus", "token", *words, "--tokens", str(file), "--json"],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        return [json.loads(line) for line in done.stdout.splitlines()]

    file = tmp_path / "tokens.json"
    first = token("new", "first", "--access", "admin")[0]["token"]
    with serving(tmp_path, "--tokens", file, "--host", "127.0.0.1") as served:
        assert served.ask("GET", "/v1/keys", token=first)[0] == 200
        second = token("new", "second", "--access", "read")[0]["token"]
        assert served.ask("GET", "/v1/keys", token=second)[0] == 200
        rotated = token("rotate", "second")[0]["token"]
        assert served.ask("GET", "/v1/keys", token=second)[0] == 401
        assert served.ask("GET", "/v1/keys", token=rotated)[0] == 200
        token("revoke", "second")
        assert served.ask("GET", "/v1/keys", token=rotated)[0] == 401
        assert [each["name"] for each in token("list")] == ["first"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("serve", "--db", "text.db"), "NotAStore"),
        (("serve", "--port", "{port}"), "Unusable"),
        (("serve", "--host", "nowhere.invalid", "--tokens", "tokens.json"), "Unusable"),
        (("serve", "--tokens", "none.json"), "NotFound"),
        (("serve", "--tokens", "text.db"), "InvalidInput"),
        (("serve", "--embedder", "nonsense"), "InvalidInput"),
        (("ui",), "NotFound"),
        (("ui", "--db", "text.db"), "NotAStore"),
        (("ui", "--tokens", "none.json"), "NotFound"),
        (("token", "list", "--tokens", "none.json"), "NotFound"),
        (("token", "new", "one", "--tokens", "tokens.json"), "InvalidInput"),
        (("token", "new", "", "--tokens", "tokens.json"), "InvalidName"),
        (("token", "revoke", "two", "--tokens", "tokens.json"), "NotFound"),
        (("token", "rotate", "two", "--tokens", "tokens.json"), "NotFound"),
    ],
)
def test_a_server_that_cannot_start_says_why(tmp_path, words, said):
    """In one line, and it makes nothing."""
    (tmp_path / "text.db").write_text("dear diary\n" * 500)
    TokenFile(tmp_path / "tokens.json").add("one", access="read", space=None, keys="")
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = subprocess.run(
            [
                sys.executable, "-m", "alveus", *(word.format(port=port) for word in words),
                "--json", *([] if "--db" in words or words[0] == "token" else ["--db", "new.db"]),
            ],
            capture_output=True, text=True, check=False, cwd=tmp_path,
        )  # fmt: skip
    assert done.returncode == 1, done.stderr
    (line,) = done.stderr.splitlines()
    assert json.loads(line)["error"]["type"] == said, line
    kept = {path: path.read_bytes() for path in tmp_path.iterdir() if path in before}
    assert kept == before


LISTENING = {
    "serve": ("serve", "--db", "new.db"),
    "ui": ("ui", "--write", "--db", "new.db"),
    "mcp": ("mcp", "--key", "ada", "--http", "--db", "new.db"),
}


def listening(folder, name, stdout):
    """Start what listens until it is stopped."""
    Memory.open(folder / "new.db", embedder="words").close()
    return subprocess.Popen(
        [sys.executable, "-m", "alveus", *LISTENING[name], "--port", "0", "--embedder", "words"],
        stdout=stdout, stderr=subprocess.PIPE, text=True, cwd=folder,
    )  # fmt: skip


@pytest.mark.parametrize("name", LISTENING)
@pytest.mark.parametrize(
    ("how", "code"), [(signal.SIGTERM, 0), (signal.SIGHUP, 0), (signal.SIGINT, 130)]
)
def test_a_signal_ends_what_listens_in_good_order(tmp_path, name, how, code):
    """With the code that `run --serve` and `--watch` end with; a closed terminal is one, too."""
    with listening(tmp_path, name, subprocess.PIPE) as process:
        assert process.stdout is not None
        assert "listening on" in (said := process.stdout.readline()) or "inspector" in said
        process.send_signal(how)
        _, told = process.communicate(timeout=LIMIT_S)
    assert (process.returncode, "Traceback" in told) == (code, False), told


@pytest.mark.parametrize("name", LISTENING)
def test_a_request_that_never_comes_whole_keeps_no_server(tmp_path, name):
    """It ends after a second Ctrl-C, or in good time, and says no more than that."""
    with listening(tmp_path, name, subprocess.PIPE) as process:
        assert process.stdout is not None
        place = re.search(r":(\d+)", process.stdout.readline())
        assert place is not None
        port = int(place[1])
        with socket.create_connection(("127.0.0.1", port), LIMIT_S) as client:
            head = f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Length: 50"
            kinds = "application/json\r\nAccept: application/json, text/event-stream"
            client.sendall(f"{head}\r\nContent-Type: {kinds}\r\n\r\n{{".encode())
            process.send_signal(signal.SIGINT)
            wait_until(lambda: not _listens(port))
            process.send_signal(signal.SIGINT)
            _, told = process.communicate(timeout=LIMIT_S)
    assert process.returncode in (130, -signal.SIGINT)
    assert "Traceback" not in told
    assert "Exception" not in told


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), LIMIT_S).close()
    except ConnectionRefusedError:
        return False
    return True


class Broken(ServedHere):
    """A server that has no answer, nor an error of alveus, for any space."""

    def open_space(self, space):
        """Raise what nobody expects."""
        raise RuntimeError("zzcanary")


def test_an_error_that_nobody_expected_is_told_by_a_reference(tmp_path, caplog):
    """The log has it; the answer has the form of all errors, and no word of it."""
    made = Broken(tmp_path)
    client = made.client()
    place = f"http://127.0.0.1:{made.port}"
    try:
        status, answer = client.ask("GET", "/v1/keys")
        metrics = client.ask("GET", "/metrics")[1]
        mem0 = client.ask("GET", "/v1/entities/")
        stores = client.ask("GET", "/v1/memory_stores")
        with pytest.raises(AlveusError, match="its log has the cause") as raised:
            Memory.open(place)
    finally:
        made.stop()
    told = answer["error"]
    reference = told["facts"]["reference"]
    assert (status, told["type"]) == (500, "InternalError")
    assert reference in told["message"]
    assert "zzcanary" not in json.dumps([answer, mem0, stores]) + str(raised.value)
    assert "its log has" in mem0[1]["detail"]
    assert stores[1]["error"]["type"] == "api_error"
    assert client.headers["Cache-Control"] == "no-store"
    assert 'route="/v1/keys",status="500"' in metrics
    (line,) = [each for each in caplog.records if reference in each.getMessage()]
    assert line.exc_info
    assert str(line.exc_info[1]) == "zzcanary"


@pytest.mark.parametrize("name", LISTENING)
def test_what_cannot_say_where_it_listens_ends(tmp_path, name):
    """Quietly, as any command does where nobody reads on."""
    reading, writing = os.pipe()
    os.close(reading)
    with listening(tmp_path, name, writing) as process:
        os.close(writing)
        _, told = process.communicate(timeout=LIMIT_S)
    assert (process.returncode, "Traceback" in told) == (141, False), told


CLIENTS = 64
"""Who write at once while their server is killed."""


# --- kills ----------------------------------------------------------------------------------------


def test_writes_of_many_clients_are_made_once_whatever_is_killed(tmp_path):
    """Each repeats a request until it is answered; the server is killed again and again."""
    served, problems = Served(tmp_path), []
    texts = [f"{number} {number % 10}" for number in range(COUNTS.server_writes)]
    threads = [
        threading.Thread(target=write_each, args=(served, texts[number::CLIENTS], problems))
        for number in range(CLIENTS)
    ]
    for thread in threads:
        thread.start()
    dice, kills = random.Random(5), 0
    while not kills or (kills < COUNTS.kills // 8 and any(each.is_alive() for each in threads)):
        before = log_seen(tmp_path)
        wait_until(lambda b=before: log_seen(tmp_path) != b or not threads[0].is_alive())
        time.sleep(dice.random() * 0.05)  # noqa: TID251 - until the kill
        served.stop(signal.SIGKILL)
        served.start()
        kills += 1
    for thread in threads:
        thread.join()
    served.stop()
    with Memory.open(tmp_path / "memory.db", embedder="words") as memory:
        found = [str(item.text) for key in list(memory.keys()) for item in memory.key(key).list()]
    assert problems == []
    assert sorted(found) == sorted(texts)


def write_each(served, texts, problems):
    """Write items, each request again under its name until there is an answer."""
    client = Client(served.port)
    for text in texts:
        status = None
        while status is None:
            try:
                once = {"Idempotency-Key": text}
                body = {"items": [{"value": text}]}
                status, told = client.ask("POST", "/v1/items", body, once, key=text[-1])
                problems += [told] if status != 201 else []
            except (OSError, http.client.HTTPException):
                client.close()
                client = Client(served.port)
    client.close()


def log_seen(folder):
    """Return what writes change: how large the log of the store is, and when it was written."""
    try:
        found = (folder / "memory.db-wal").stat()
    except FileNotFoundError:
        return None
    return found.st_size, found.st_mtime_ns


def test_bytes_stay_bytes(served, tmp_path):
    """In values, metadata and exact memory: told as in exports, and the same behind the server."""
    raw = {"$bytes": base64.b64encode(bytes(range(256))).decode()}
    item = {"id": "i", "value": {"text": "A picture.", "raw": raw}, "metadata": {"raw": raw}}
    assert served.ask("POST", "/v1/items", {"items": [item]}, key="ada")[0] == 201
    told = served.ask("GET", "/v1/item", key="ada", id="i")[1]
    assert (told["value"]["raw"], told["metadata"]["raw"]) == (raw, raw)
    assert served.ask("PUT", "/v1/exact", {"value": [raw]}, key="ada", path="a")[0] < 300
    assert served.ask("GET", "/v1/exact", key="ada", path="a")[1]["value"] == [raw]
    with Memory.open(tmp_path / "memory.db", embedder="words") as memory:
        found = memory.key("ada").get("i")
        assert found is not None
        assert found.value["raw"] == found.metadata["raw"] == bytes(range(256))


@pytest.mark.server
def test_a_server_whose_store_is_away_lives_and_is_not_ready(tmp_path):
    """And serves again as soon as the store is back."""
    store = OwnServer()
    served = Served(tmp_path, "--db", store.url())
    try:
        assert served.ask("GET", "/ready") == (200, {"status": "ready"})
        store.kill()
        status, answer = served.ask("GET", "/ready")
        assert (status, answer["error"]["type"]) == (503, "Unavailable")
        assert served.ask("GET", "/health")[0] == 200
        store.start()
        assert served.ask("GET", "/ready") == (200, {"status": "ready"})
    finally:
        served.stop()
        store.remove()


def test_two_servers_of_one_postgres_answer_as_one_memory(tmp_path):
    """What one wrote the other finds; a request that both get takes effect once."""
    both = [Served(tmp_path, "--db", url_for(tmp_path), "--telemetry") for _ in range(2)]
    answers: list[Any] = []

    def write(served, text):
        once, body = {"Idempotency-Key": text}, {"items": [{"value": text}]}
        client = Client(served.port)
        answers.append((text, client.ask("POST", "/v1/items", body, once, key="ada")))
        client.close()

    try:
        texts = [f"Note {number}." for number in range(8)]
        threads = [threading.Thread(target=write, args=(s, t)) for t in texts for s in both]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for text in texts:
            first, second = (answer for name, answer in answers if name == text)
            assert first == second
            assert first[0] == 201
        for served in both:
            items = served.ask("GET", "/v1/items", key="ada")[1]["items"]
            assert sorted(item["text"] for item in items) == texts
        assert both[0].ask("PUT", "/v1/exact", {"value": 1}, key="ada", path="a")[0] == 200
        assert both[1].ask("GET", "/v1/exact", key="ada", path="a")[1]["value"] == 1
        hits = both[1].ask("POST", "/v1/search", {"query": "Note 3."}, key="ada")[1]["hits"]
        assert hits[0]["item"]["text"] == "Note 3."
    finally:
        for served in both:
            served.stop()
