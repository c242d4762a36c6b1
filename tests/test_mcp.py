"""MCP: real processes and the official client, over stdio and HTTP; attacked, scoped and killed."""

from __future__ import annotations

import asyncio
import io
import json
import os
import random
import signal
import subprocess
import sys
import threading
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
import uvicorn
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp_types import TextResourceContents
from sse_starlette.sse import AppStatus

import warm
from alveus import Memory
from alveus.memory.memory_tools import READING
from alveus.server import listening
from alveus.server.mcp.http import create_mcp_app, let_calls_end
from alveus.server.mcp.served_key import IDEMPOTENCY_KEY, TOOLS, Asker, ServedKey
from alveus.server.mcp.server import MemoryHandlers
from alveus.server.mcp.stdio import serve_stdio
from alveus.server.tokens import TokenFile
from scale import COUNTS
from waiting import LIMIT_S, wait_until

ERAS = ("auto", "legacy")
"""The revision of 2026 without a handshake, and those before it."""

HELLO = {
    "jsonrpc": "2.0",
    "id": "hello",
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}


def command(folder, *words, key="ada"):
    place = ["--db", str(folder / "memory.db"), "--embedder", "words"]
    return [sys.executable, "-m", "alveus", "mcp", "--key", key, *place, *map(str, words)]


@asynccontextmanager
async def over_stdio(folder, *words, key="ada", era="auto"):
    program, *rest = command(folder, *words, key=key)
    with (folder / "stderr.txt").open("a") as errors:
        parameters = StdioServerParameters(command=program, args=rest)
        async with Client(stdio_client(parameters, errlog=errors), mode=era) as client:
            yield client


@asynccontextmanager
async def over_http(url, *, token=None, era="auto"):
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=LIMIT_S) as http_client,
        Client(streamable_http_client(url, http_client=http_client), mode=era) as client,
    ):
        yield client


class ServedOverHttp:
    """A server in a process of its own, which comes back to the same port."""

    def __init__(self, folder, *words):
        self._command, self._port = command(folder, "--http", "--json", *words), 0
        self.start()

    def start(self):
        self.process = warm.Popen(
            [*self._command, "--port", str(self._port)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "the server did not come up"
        self.url = json.loads(line)["url"]
        self._port = int(self.url.removesuffix("/mcp").rsplit(":", 1)[1])

    def stop(self, how=signal.SIGTERM):
        self.process.send_signal(how)
        self.process.wait(LIMIT_S)
        assert self.process.stdout is not None
        self.process.stdout.close()


@contextmanager
def serving(folder, *words):
    served = ServedOverHttp(folder, *words)
    try:
        yield served
    finally:
        served.stop()


@contextmanager
def served_here(memory, *, tokens=None, asker=Asker(), **options):  # noqa: B008 - frozen
    """Serve key "ada" in a thread of this process, so that what it does is measured."""
    app = create_mcp_app(ServedKey(memory.key("ada"), **options), tokens=tokens, asker=asker)
    with running(app) as url:
        yield url


@contextmanager
def running(app):
    """Serve an app in a thread of this process."""
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="critical"))
    thread = threading.Thread(target=server.run)
    thread.start()
    wait_until(lambda: server.started)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        server.should_exit = True
        thread.join(LIMIT_S)


@pytest.fixture
def memory(tmp_path):
    with Memory.open(tmp_path / "memory.db", embedder="words") as opened:
        yield opened


def text_of(result) -> str:
    (content,) = result.content
    assert "Traceback" not in content.text
    return content.text


async def told(client, tool, /, *, meta=None, **arguments) -> str:
    """Call a tool that must do it; return what it says."""
    result = await client.call_tool(tool, arguments, meta=meta)
    assert not result.is_error, result
    return text_of(result)


async def refused(client, tool, /, *, meta=None, **arguments) -> str:
    """Call a tool that must refuse; return why."""
    result = await client.call_tool(tool, arguments, meta=meta)
    assert result.is_error, result
    return text_of(result)


async def remembered(client, text, **more) -> str:
    return (await told(client, "remember", text=text, **more)).removeprefix("Remembered as ")[:-1]


def once(name):
    return {IDEMPOTENCY_KEY: name}


# --- what a client sees ---------------------------------------------------------------------------


async def walk(client):
    """Use every tool, resource and prompt, as a client that has just been connected."""
    tools = (await client.list_tools()).tools
    assert [tool.name for tool in tools] == [*TOOLS]
    assert {tool.name for tool in tools if tool.annotations.read_only_hint} == {*READING}
    assert all(tool.title and tool.description for tool in tools)
    item = await remembered(client, "Ada lives in Lisbon.")
    assert item in await told(client, "recall", query="Where does Ada live?")
    await told(client, "correct", id=item, text="Ada lives in Porto.")
    asked = await told(client, "context", query="Where does Ada live?", budget_tokens=500)
    assert "Porto" in asked
    assert "Lisbon" not in asked
    other = await remembered(client, "Ada likes tea.", when="2026-05-03")
    listed = await told(client, "list", limit=1)
    assert listed.count("\n- ") == 1
    assert f'list with after="{item}"' in listed
    assert other in await told(client, "list", after=item)
    explained = await told(client, "explain", id=item)
    assert explained.index("Lisbon") < explained.index("Porto")
    await told(client, "forget", id=item)
    assert "Porto" not in await told(client, "context", query="Where does Ada live?")
    await read_all(client, other)


async def read_all(client, item):
    """Read every resource and get every prompt, where *item* says that Ada likes tea."""
    uris = [resource.uri for resource in (await client.list_resources()).resources]
    assert uris == ["alveus://sets", "alveus://blocks/human"]
    read = [(await client.read_resource(uri)).contents[0].text for uri in uris]
    assert read == ['{"default": 1}', "Name: Ada"]
    templates = (await client.list_resource_templates()).resource_templates
    assert [template.name for template in templates] == ["memory", "block"]
    (item_read,) = (await client.read_resource(f"alveus://memories/default/{item}")).contents
    assert json.loads(item_read.text)["text"] == "Ada likes tea."
    names = [prompt.name for prompt in (await client.list_prompts()).prompts]
    asking = await client.get_prompt(names[0], {"question": "What does Ada drink?"})
    assert "tea" in asking.messages[0].content.text
    keeping = await client.get_prompt(names[1])
    assert "recall" in keeping.messages[0].content.text


def prepared(folder):
    """Make a memory whose key has a block, and another key and space with secrets."""
    for space, key in (("default", "ada"), ("default", "bob"), ("other", "ada")):
        with Memory.open(folder / "memory.db", space=space, embedder="words") as memory:
            memory.key(key).blocks.set("human", "Name: Ada" if (space, key) == OWN else "swordfish")
            if (space, key) != OWN:
                memory.key(key).set("hidden").add("The password is swordfish.", id="secret")
                memory.key(key).add("The password is swordfish.", id="secret")


OWN = ("default", "ada")


@pytest.mark.parametrize("era", ERAS)
def test_a_client_of_a_process_over_stdio(tmp_path, era):
    async def work():
        async with over_stdio(tmp_path, era=era) as client:
            await walk(client)

    prepared(tmp_path)
    asyncio.run(work())
    assert (tmp_path / "stderr.txt").read_text().count("\n") == 1  # which file it uses


def test_clients_of_a_process_over_http(tmp_path):
    async def work(url):
        for era in ERAS:
            async with over_http(url, era=era) as client:
                await walk(client)
                await told(client, "forget", id=last_id(await told(client, "list")))

    prepared(tmp_path)
    with serving(tmp_path) as served:
        asyncio.run(work(served.url))


def last_id(listed):
    return listed.splitlines()[-1].split()[1]


def test_the_same_in_this_process(memory):
    async def over(url):
        for era in ERAS:
            async with over_http(url, era=era) as client:
                await walk(client)
                await told(client, "forget", id=last_id(await told(client, "list")))

    memory.key("ada").blocks.set("human", "Name: Ada")
    with served_here(memory) as url:
        asyncio.run(over(url))


def test_two_clients_of_one_file_share_it(tmp_path):
    """Each application starts a server of its own."""

    async def work():
        async with over_stdio(tmp_path) as first, over_stdio(tmp_path) as second:
            item = await remembered(first, "Ada lives in Lisbon.")
            assert item in await told(second, "recall", query="Where does Ada live?")
            await told(second, "correct", id=item, text="Porto.")
            assert "Porto." in await told(first, "list")

    asyncio.run(work())


# --- what a model gets wrong ----------------------------------------------------------------------

ODD = (None, True, 0, -1, 51, 1.5, "", "x" * 9_000, "a\0b", [], {}, ["x"], {"a": {}})


NOWHERE = (
    "alveus://nope", "alveus://sets/x", "alveus://sets?x", "alveus://blocks/x", "x", "", "http://[",
    "alveus://memories/default/x", "alveus://memories/x/y", "alveus://memories/%ff/%ed%a0%80",
    "alveus://blocks/", "alveus://memories/default/", "alveus://memories/default/%00",
)  # fmt: skip
"""Addresses of no resource."""


@pytest.mark.parametrize("era", ERAS)
def test_mistakes_are_told_and_change_nothing(memory, era):
    """What is wrong, where, and what to do; the server goes on."""

    async def work():
        dice = random.Random(7)
        async with Client(
            MemoryHandlers(ServedKey(memory.key("ada")), Asker()).server(), mode=era
        ) as c:
            item = await remembered(c, "Ada lives in Lisbon.")
            for _ in range(COUNTS.fuzz_examples * 5):
                names = dice.sample(
                    ["text", "query", "id", "limit", "after", "set", "when", "x"], 2
                )
                result = await c.call_tool(
                    dice.choice([*TOOLS, "burn", ""]), {name: dice.choice(ODD) for name in names}
                )
                assert 0 < len(text_of(result)) < 2_000
            wrong = {
                "argument 'text' is missing": ("remember", {}),
                "no argument 'texts'; the arguments are text, when": ("remember", {"texts": "x"}),
                "must be a date such as 2026-05-03": ("remember", {"text": "x", "when": "soon"}),
                "recall shows the ids": ("correct", {"id": "x", "text": "x"}),
                "no memory 'y'": ("explain", {"id": "y"}),
                "leave out `after`": ("list", {"after": "x"}),
                "there is no set 'x'; the sets are [\"default\"]": ("list", {"set": "x"}),
                "'limit' must be at most 50, not <an int of": (
                    "recall",
                    {"query": "x", "limit": 10**400},
                ),
                "a date such as 2026-05-03, not '9999": (
                    "remember",
                    {"text": "x", "when": "9999-12-31T23:00:00-23:00"},
                ),
                "no memory 'default/'": ("explain", {"id": "default/"}),
                "no item 'default/'": ("list", {"after": "default/"}),
                "must be at least 100": ("context", {"query": "x", "budget_tokens": 1}),
                "There is no tool": ("burn", {}),
                "must be a text of 1 to 1,000 characters": ("remember", {"text": "x"}),
            }
            for says, (tool, arguments) in wrong.items():
                meta: Any = once(7) if "1,000" in says else None
                assert says in await refused(c, tool, meta=meta, **arguments)
            for uri in NOWHERE:
                with pytest.raises(MCPError, match="resources/list"):
                    await c.read_resource(uri)
            for name, given, says in (
                ("nope", {}, "the prompts are answer_from_memory, keep_this_conversation"),
                ("answer_from_memory", {}, "takes question, not none"),
                ("answer_from_memory", {"question": " "}, "1 to 8,000 characters"),
                ("keep_this_conversation", {"x": "y"}, "takes no arguments, not x"),
            ):
                with pytest.raises(MCPError, match=says):
                    await c.get_prompt(name, given)
            return item

    item = asyncio.run(work())
    assert memory.key("ada").get(item).text == "Ada lives in Lisbon."


class Broken(ServedKey):
    """A key of which every call fails as nobody expects."""

    def call(self, asked, asker):
        """Raise."""
        raise RuntimeError("zzcanary")


@pytest.mark.parametrize("era", ERAS)
def test_an_error_that_nobody_expected_is_told_by_a_reference(memory, era, caplog):
    """The log has it; the client is told where, and no word of it."""

    async def work():
        made = MemoryHandlers(Broken(memory.key("ada")), Asker()).server()
        async with Client(made, mode=era) as client:
            with pytest.raises(MCPError) as raised:
                await client.call_tool("recall", {"query": "tea"})
            await client.list_tools()
        return raised.value.error

    error = asyncio.run(work())
    assert error.code == -32603
    assert "zzcanary" not in error.message
    (line,) = [each for each in caplog.records if each.name == "alveus.server.unexpected"]
    assert line.reference in error.message


def test_a_store_that_cannot_be_used_is_told(tmp_path):
    """The model reads why; the server lives on."""
    memory = Memory.open(tmp_path / "memory.db", embedder="words")
    server = MemoryHandlers(ServedKey(memory.key("ada")), Asker()).server()
    memory.close()

    async def work():
        async with Client(server) as client:
            for tool, arguments in (("remember", {"text": "x"}), ("recall", {"query": "x"})):
                assert "cannot be used now" in await refused(client, tool, **arguments)
            with pytest.raises(MCPError, match="cannot be used now"):
                await client.list_resources()

    asyncio.run(work())


LINES = (
    HELLO,
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
    {"id": 2, "text": "one"},
    {"id": 2, "text": "one"},
    {"id": "2", "text": "two"},
    {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 99}},
    "no json",
    "[1]",
    {"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": "x", "arguments": [1]}},
    {"jsonrpc": "2.0", "id": 4, "method": "tools/call"},
    {"jsonrpc": "2.0", "id": 5, "method": "burn"},
    '{"jsonrpc": "2.0", "id": 6, "method": "tools/call", "params": {"name": "\\ud800"}}',
    '{"jsonrpc": "2.0", "id": "\\ud800", "method": "ping"}',
    "[" * 100_000,
    {"jsonrpc": "2.0", "id": 1.0, "method": "ping"},
    {"jsonrpc": "2.0", "id": None, "method": "tools/list"},
    {"jsonrpc": "2.0", "method": "notifications/unknown"},
)  # fmt: skip


def written(line):
    if isinstance(line, str):
        return line
    if "text" in line:
        params = {"name": "remember", "arguments": {"text": line["text"]}}
        line = {"jsonrpc": "2.0", "id": line["id"], "method": "tools/call", "params": params}
    return json.dumps(line)


def check_piped(answers):
    by_id = {}
    for answer in answers:
        by_id.setdefault(repr(answer["id"]), []).append(answer)
    assert by_id["'hello'"][0]["result"]["serverInfo"]["name"] == "alveus"
    first, again = by_id["2"]
    assert first["result"] == again["result"]
    assert by_id["'2'"][0]["result"] != first["result"]
    assert "params.arguments" in by_id["3"][0]["error"]["message"]
    assert "Field required" in by_id["4"][0]["error"]["message"]
    assert by_id["5"][0]["error"]["code"] == -32601
    assert "nothing was done" in by_id["6"][0]["error"]["message"]
    nameless = [-32700, -32600, -32600, -32700, -32600, -32600]
    assert [answer["error"]["code"] for answer in by_id["None"]] == nameless
    assert "a whole number" in by_id["None"][-1]["error"]["message"]


def test_all_that_was_piped_is_answered(tmp_path):
    """Also what is no message, and what was sent just before stdin ended."""
    done = subprocess.run(
        command(tmp_path), input="\n".join(map(written, LINES)), capture_output=True, text=True,
        timeout=LIMIT_S, check=True,
    )  # fmt: skip
    check_piped([json.loads(line) for line in done.stdout.splitlines()])
    assert "Traceback" not in done.stderr
    with Memory.open(tmp_path / "memory.db", embedder="words") as memory:
        assert sorted(str(item.text) for item in memory.key("ada").list()) == ["one", "two"]


def test_the_same_pipe_in_this_process(memory, monkeypatch):
    before = signal.getsignal(signal.SIGINT)
    out = io.BytesIO()
    monkeypatch.setattr(
        sys, "stdin", io.TextIOWrapper(io.BytesIO("\n".join(map(written, LINES)).encode()))
    )
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(out))
    serve_stdio(ServedKey(memory.key("ada")), Asker())
    check_piped([json.loads(line) for line in out.getvalue().decode().splitlines()])
    assert signal.getsignal(signal.SIGINT) is before


def test_a_client_that_is_gone_ends_it_quietly(tmp_path):
    """What it was asked is done; a traceback would tell nobody more."""
    with subprocess.Popen(
        command(tmp_path), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True,
    ) as process:  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        print(written(LINES[0]), file=process.stdin, flush=True)
        assert "alveus" in process.stdout.readline()
        process.stdout.close()
        print(written({"id": 1, "text": "one"}), file=process.stdin, flush=True)
        process.stdin.close()
        said = process.stderr.read()
        assert process.wait(LIMIT_S) == 141
    assert "Traceback" not in said
    with Memory.open(tmp_path / "memory.db", embedder="words") as memory:
        assert [item.text for item in memory.key("ada").list()] == ["one"]


def test_an_interrupt_ends_it(tmp_path):
    """Though a thread waits for stdin, which stays open."""
    with subprocess.Popen(
        command(tmp_path), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(HELLO) + "\n")
        process.stdin.flush()
        assert process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(LIMIT_S) == -signal.SIGINT


# --- whose memory it is ---------------------------------------------------------------------------


ELSEWHERE = (
    "memories/hidden/secret", "memories/default/secret", "sets/../bob", "blocks/..%2Fbob",
    "blocks/human/../../bob",
)  # fmt: skip
"""Addresses that would be of another key, if there were such."""


def test_a_server_reaches_one_key_of_one_space_alone(tmp_path):
    """Whatever ids and addresses a model makes up."""
    ids = (
        "secret",
        "hidden/secret",
        "bob/secret",
        "../bob/secret",
        "other/ada/secret",
        "default/secret",
    )

    async def work():
        async with over_stdio(tmp_path) as client:
            for wrong in ids:
                for tool, more in (("explain", {}), ("forget", {}), ("correct", {"text": "x"})):
                    assert "swordfish" not in await refused(client, tool, id=wrong, **more)
            for tool in ("recall", "context"):
                assert "swordfish" not in await told(client, tool, query="What is the password?")
            assert "swordfish" not in await told(client, "list")
            await refused(client, "list", set="hidden")
            for place in ELSEWHERE:
                with pytest.raises(MCPError):
                    await client.read_resource(f"alveus://{place}")
            (human,) = (await client.read_resource("alveus://blocks/human")).contents
            assert isinstance(human, TextResourceContents)
            assert human.text == "Name: Ada"

    prepared(tmp_path)
    asyncio.run(work())


def test_tokens_say_who_may_read_and_write(memory, tmp_path):
    """From the next request on; a session is of the token that began it."""
    file = TokenFile(tmp_path / "tokens.json")
    made = {
        "writer": file.add("writer", access="write", space=None, keys=""),
        "reader": file.add("reader", access="read", space="default", keys="ad"),
        "bob": file.add("bob", access="write", space=None, keys="bob"),
        "other": file.add("other", access="admin", space="other", keys=""),
    }

    async def work(url):
        async with over_http(url, token=made["writer"]) as client:
            item = await remembered(client, "Ada lives in Lisbon.")
        for era in ERAS:
            async with over_http(url, token=made["reader"], era=era) as client:
                names = {tool.name for tool in (await client.list_tools()).tools}
                assert names == {*READING}
                assert item in await told(client, "recall", query="Where does Ada live?")
                assert "--access write" in await refused(client, "forget", id=item)
        async with httpx2.AsyncClient() as plain:
            statuses = [await hello(plain, url, made.get(name)) for name in ("bob", "other", "no")]
            wrong = await hello(plain, url, "alveus_nothing")
            session = (await hello(plain, url, made["writer"])).headers["mcp-session-id"]
            stolen = await hello(plain, url, made["reader"], {"mcp-session-id": session})
            file.revoke("writer")
            gone = await hello(plain, url, made["writer"], {"mcp-session-id": session})
            (tmp_path / "tokens.json").write_text("{")
            broken = await hello(plain, url, made["reader"])
        assert [answer.status_code for answer in statuses] == [403, 403, 401]
        assert "only space 'other'" in statuses[1].json()["error"]["message"]
        assert wrong.headers["www-authenticate"] == "Bearer"
        found = [answer.status_code for answer in (wrong, stolen, gone, broken)]
        assert found == [401, 404, 401, 503]

    with served_here(memory, tokens=file) as url:
        asyncio.run(work(url))


async def hello(plain, url, token=None, headers=None):
    given = {"Accept": "application/json, text/event-stream", **(headers or {})}
    if token is not None:
        given["Authorization"] = f"Bearer {token}"
    return await plain.post(url, json=HELLO, headers=given)


def test_without_tokens_only_this_machine_is_served(memory):
    """No page of a browser that was loaded elsewhere, whatever name led it here."""

    async def work(url):
        async with httpx2.AsyncClient() as plain:
            answers = [
                await hello(plain, url, headers={"Host": "evil.example"}),
                await hello(plain, url, headers={"Origin": "https://evil.example"}),
                await hello(plain, url, headers={"X": "y" * 10}),
                await hello(plain, url, headers={"Host": "localhost"}),  # as at port 80
                await plain.post(
                    url, content=b"x" * 1_100_000, headers={"Content-Type": "application/json"}
                ),
            ]
        assert [answer.status_code for answer in answers] == [421, 403, 200, 200, 413]

    with served_here(memory) as url:
        asyncio.run(work(url))


def test_a_request_whose_id_is_none_is_refused_over_http(memory):
    """The protocol's package takes it for a notification, which is accepted and not answered."""

    async def work(url):
        async with httpx2.AsyncClient() as plain:
            session = (await hello(plain, url)).headers["mcp-session-id"]
            given = {"Accept": "application/json, text/event-stream", "mcp-session-id": session}
            params = {"name": "remember", "arguments": {"text": "x"}}
            asked = {"jsonrpc": "2.0", "method": "tools/call", "params": params}
            answers = [
                await plain.post(url, json={**asked, **odd}, headers=given)
                for odd in ({}, *({"id": odd} for odd in (None, True, 1.5, {}, [])))
            ]
            told = {"jsonrpc": "2.0", "method": "notifications/initialized"}
            accepted = await plain.post(url, json=told, headers=given)
        assert {answer.status_code for answer in answers} == {400}
        assert all("must be a text or a whole" in answer.text for answer in answers)
        assert accepted.status_code == 202

    with served_here(memory) as url:
        asyncio.run(work(url))
    assert len(memory.key("ada").set("default")) == 0


class Waits(ServedKey):
    """A key whose calls wait until they may go on."""

    def __init__(self, key):
        super().__init__(key)
        self.begun, self.goes_on = threading.Event(), threading.Event()

    def call(self, asked, asker):
        """Wait, and call."""
        self.begun.set()
        assert self.goes_on.wait(LIMIT_S)
        return super().call(asked, asker)


@pytest.mark.parametrize("again", [7, "7"])
def test_a_request_that_comes_twice_at_once_is_answered_twice(memory, again):
    """In one session; `mcp` has one place for the answers to an id, and 7 and "7" are one to it."""
    key = Waits(memory.key("ada"))
    app, came = create_mcp_app(key, tokens=None, asker=Asker()), []

    async def counted(scope, receive, send):
        async def noted():
            message = await receive()
            came.append(b"tools/call" in message.get("body", b""))
            if sum(came) == 2:
                key.goes_on.set()
            return message

        await app(scope, noted, send)

    async def work(url):
        async with httpx2.AsyncClient(timeout=LIMIT_S) as plain:
            session = (await hello(plain, url)).headers["mcp-session-id"]
            given = {"Accept": "application/json, text/event-stream", "mcp-session-id": session}
            params = {"name": "remember", "arguments": {"text": "Ada lives in Lisbon."}}
            asked = {"jsonrpc": "2.0", "method": "tools/call", "params": params}
            return await asyncio.gather(*(
                plain.post(url, json={**asked, "id": each}, headers=given) for each in (7, again)
            ))  # fmt: skip

    with running(counted) as url:
        answers = asyncio.run(work(url))
    told = [json.loads(answer.text.partition("data:")[2]) for answer in answers]
    assert [answer["id"] for answer in told] == [7, again]
    assert (told[0] == told[1]) == (again == 7)
    assert len(memory.key("ada").set("default")) == (1 if again == 7 else 2)


def test_a_field_that_is_there_twice_is_refused_over_http(memory):
    """The protocol's package keeps the last one; the other would be lost."""

    async def work(url):
        async with httpx2.AsyncClient() as plain:
            session = (await hello(plain, url)).headers["mcp-session-id"]
            given = {"Accept": "application/json, text/event-stream", "mcp-session-id": session}
            params = '{"name": "remember", "arguments": {"text": "One.", "text": "Two."}}'
            asked = f'{{"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {params}}}'
            given["Content-Type"] = "application/json"
            return await plain.post(url, content=asked, headers=given)

    with served_here(memory) as url:
        answer = asyncio.run(work(url))
    assert answer.status_code == 400
    assert answer.json()["error"]["message"] == "the field 'text' occurs twice; nothing was done"
    assert len(memory.key("ada").set("default")) == 0


def test_a_request_whose_body_does_not_come_is_refused(memory, caplog):
    """The client has gone, or is silent for too long, as `listening` tells the app alike.

    Without an answer the latter was told of a fault of the server, and so was the log.
    """
    app, sent = create_mcp_app(ServedKey(memory.key("ada")), tokens=None, asker=Asker()), []
    coming: list[dict[str, Any]] = [
        {"type": "http.disconnect"},
        {"type": "http.request", "body": b'{"jsonrpc": "2', "more_body": True},
    ]

    async def receive():
        return coming.pop()

    async def send(message):
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": "/mcp", "headers": []}
    asyncio.run(app(scope, receive, send))
    assert (coming, caplog.records) == ([], [])
    assert sent[0]["status"] == 400
    assert "did not arrive completely; nothing was done" in str(sent[1]["body"])


async def call_while_it_ends(url, key):
    """Have a signal come while a call waits; return what a stream and the call were answered."""
    async with httpx2.AsyncClient(timeout=LIMIT_S) as plain:
        session = (await hello(plain, url)).headers["mcp-session-id"]
        given = {"Accept": "application/json, text/event-stream", "mcp-session-id": session}
        params = {"name": "remember", "arguments": {"text": "Ada lives in Lisbon."}}
        asked = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}
        call = asyncio.ensure_future(plain.post(url, json=asked, headers=given))
        async with plain.stream("GET", url, headers=given) as events:
            await asyncio.to_thread(key.begun.wait, LIMIT_S)
            os.kill(os.getpid(), signal.SIGTERM)
            streamed = await events.aread()
        key.goes_on.set()
        return streamed, (await call).text


def test_a_call_that_was_begun_is_answered_when_a_signal_comes(memory, monkeypatch):
    """A stream that would go on for good ends at once, and well."""
    monkeypatch.setattr(listening, "GRACE_S", LIMIT_S)
    for name, value in (("enable_automatic_graceful_drain", True), ("should_exit", False)):
        monkeypatch.setattr(AppStatus, name, value)
    key, before = Waits(memory.key("ada")), sys.getswitchinterval()
    app, answers = create_mcp_app(key, tokens=None, asker=Asker()), []

    def work(url):
        answers.extend(asyncio.run(call_while_it_ends(f"{url}/mcp", key)))

    client: list[threading.Thread] = []

    def told(url):
        client.append(threading.Thread(target=work, args=(url,)))
        client[0].start()

    let_calls_end()
    try:
        listening.listen(app, "127.0.0.1", 0, announce=told, stops=app.stop)
    finally:
        sys.setswitchinterval(before)
        key.goes_on.set()
        client[0].join(LIMIT_S)
    assert answers[0] == b""
    assert "Remembered as" in answers[1]
    assert not AppStatus.should_exit  # by which every stream is cut off, half a second later


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--http", "--host", "0.0.0.0"), "alveus token new"),  # noqa: S104 - it is refused
        (("--tokens", "none.json"), "--tokens needs --http"),
        (("--http", "--tokens", "none.json"), "no file of tokens"),
        (("--http", "--port", "1", "--host", "nowhere.invalid"), "needs tokens"),
        (("--read-only",), "there is no memory"),
        (("--embedder", "nonsense"), "nonsense"),
    ],
)
def test_a_server_that_cannot_start_says_why(tmp_path, words, says):
    """In one line, and it makes nothing."""
    done = subprocess.run(
        command(tmp_path, *words), capture_output=True, text=True, check=False,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    assert says in done.stderr
    assert done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_read_only_and_erase(tmp_path):
    async def work():
        async with over_stdio(tmp_path, "--erase", "--set", "notes") as client:
            item = await remembered(client, "the password is swordfish")
            await told(client, "forget", id=item)
            assert "no memory" in await refused(client, "forget", id=item)
            kept = await remembered(client, "Ada likes tea.")
        async with over_stdio(tmp_path, "--read-only", "--set", "notes") as client:
            assert kept in await told(client, "list")
            assert "--read-only" in await refused(client, "remember", text="x")
        return item

    item = asyncio.run(work())
    with Memory.open(tmp_path / "memory.db", embedder="words") as memory:
        assert memory.key("ada").set("notes").history(item) == []
        assert memory.key("ada").sets() == ["notes"]


# --- once -----------------------------------------------------------------------------------------


def test_a_repeated_call_is_done_once(tmp_path):
    """By the client's name for it, across connections; another call of that name is refused."""

    async def work():
        async with over_stdio(tmp_path) as client:
            item = await remembered(client, "Lisbon", meta=once("a"))
            await told(client, "correct", id=item, text="Porto", meta=once("b"))
            await told(client, "forget", id=item, meta=once("c"))
        async with over_stdio(tmp_path, era="legacy") as client:
            assert await remembered(client, "Lisbon", meta=once("a")) == item
            await told(client, "correct", id=item, text="Porto", meta=once("b"))
            await told(client, "forget", id=item, meta=once("c"))
            said = await refused(client, "remember", text="Rome", meta=once("a"))
            assert "was used before with other arguments" in said
        return item

    item = asyncio.run(work())
    with Memory.open(tmp_path / "memory.db", embedder="words") as memory:
        versions = memory.key("ada").history(item)
        assert [version.text for version in versions] == ["Lisbon", "Porto"]
        assert memory.key("ada").list() == []


def test_what_a_killed_server_was_asked_is_there_once(tmp_path):
    """Clients repeat each call under its name until it is answered, while the server is killed."""
    served, answered = ServedOverHttp(tmp_path), list[str]()
    texts = [
        f"{number} {step}" for number in range(4) for step in range(COUNTS.server_writes // 32)
    ]

    async def write(mine, era):
        left = [*mine]
        while left:
            try:
                async with over_http(served.url, era=era) as client:
                    while left:
                        await remembered(client, left[0], meta=once(left[0]))
                        answered.append(left.pop(0))
            except* (MCPError, httpx2.HTTPError, OSError):
                await asyncio.sleep(0.01)  # the server is down

    threads = [
        threading.Thread(target=lambda n=n: asyncio.run(write(texts[n::4], ERAS[n % 2])))
        for n in range(4)
    ]
    for thread in threads:
        thread.start()
    kills, dice = 0, random.Random(11)
    while not kills or (kills < COUNTS.kills // 4 and any(each.is_alive() for each in threads)):
        enough = len(answered) + dice.randrange(1, 20)
        wait_until(lambda e=enough: len(answered) >= e or not any(t.is_alive() for t in threads))
        served.stop(signal.SIGKILL)
        served.start()
        kills += 1
    for thread in threads:
        thread.join(LIMIT_S)
    served.stop()
    with Memory.open(tmp_path / "memory.db", embedder="words") as memory:
        assert sorted(str(item.text) for item in memory.key("ada").list()) == sorted(texts)
    assert sorted(answered) == sorted(texts)


def test_what_a_killed_pipe_was_asked_is_there_once(tmp_path):
    """The same over stdio: killed after some of the answers, everything is sent again."""
    texts = [f"fact {number}" for number in range(20)]
    dice = random.Random(3)

    def call(number, text):
        params = {"name": "remember", "arguments": {"text": text}, "_meta": once(text)}
        return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}

    sent = [HELLO, *(call(number, text) for number, text in enumerate(texts))]
    ids: dict[int, set[str]] = {}
    for is_last in [False] * max(1, COUNTS.kills // 4) + [True]:
        with warm.Popen(
            command(tmp_path), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            stderr=subprocess.DEVNULL,
        ) as process:  # fmt: skip
            assert process.stdin is not None
            assert process.stdout is not None
            for message in sent:
                process.stdin.write(json.dumps(message) + "\n")
            process.stdin.flush()
            for _ in range(len(sent) if is_last else dice.randrange(1, len(sent))):
                answer = json.loads(process.stdout.readline())
                if answer["id"] != "hello":
                    ids.setdefault(answer["id"], set()).add(answer["result"]["content"][0]["text"])
            process.kill()
    assert {number: len(answers) for number, answers in ids.items()} == dict.fromkeys(range(20), 1)
    with Memory.open(tmp_path / "memory.db", embedder="words") as memory:
        assert sorted(str(item.text) for item in memory.key("ada").list()) == sorted(texts)


# --- how it is added to clients -------------------------------------------------------------------


def test_the_lines_of_the_page_are_commands_that_exist():
    """What the page has users paste is JSON, and names options that there are."""
    page = (Path(__file__).parent.parent / "docs" / "mcp.md").read_text(encoding="utf-8")
    blocks = [block.split("```")[0] for block in page.split("```json\n")[1:]]
    assert len(blocks) >= 3
    for block in blocks:
        (servers,) = json.loads(block).values()
        assert servers["memory"]["args"][:2] == ["mcp", "--key"]
