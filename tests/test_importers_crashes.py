"""Imports of other formats are killed at random moments, as processes, and repeated."""

from __future__ import annotations

import json
import random
import subprocess
import sys

import apsw
import pytest

import warm
from alveus import Memory
from alveus.store.sqlite import SqliteStore
from alveus.transfer import Selection, export_lines
from scale import COUNTS
from waiting import LIMIT_S, wait_until, written

RECORDS = min(2000, COUNTS.random_ops)
TIME = "2025-02-05T12:00:00Z"
KEYS = 3

KILLS = 2
"""Of one import, before it is left alone."""


def chat(path):
    chats = [
        {
            "id": f"c-{n}",
            "user": f"user-{n % KEYS}",
            "messages": [
                {"role": "user", "content": f"Question {n}, {m}?", "time": TIME} for m in range(10)
            ],
        }
        for n in range(RECORDS // 10)
    ]
    path.write_text("".join(f"{json.dumps(one)}\n" for one in chats))
    return ["--key-from", "user"]


def locomo(path):
    turns = [{"speaker": "Ines", "dia_id": f"D1:{n}", "text": f"Turn {n}."} for n in range(100)]
    talk = {"session_1": turns, "session_1_date_time": "7:42 pm on 5 February, 2025"}
    samples = [{"sample_id": f"s-{n}", "conversation": talk} for n in range(RECORDS // 100)]
    path.write_text(json.dumps(samples))
    return ["--key-from", "sample_id"]


def mem0(path):
    memories = [
        {"id": f"m-{n}", "memory": f"Fact {n}.", "user_id": f"user-{n % KEYS}", "created_at": TIME}
        for n in range(RECORDS)
    ]
    path.write_text(json.dumps({"results": memories}, indent=1))
    return ["--key-from", "user_id"]


def langgraph(path):
    with apsw.Connection(str(path)) as db:
        db.execute("CREATE TABLE store (prefix, key, value, created_at, updated_at)")
        db.executemany(
            "INSERT INTO store VALUES (?, ?, ?, '2025-02-05 12:00:00', '2025-02-05 12:00:00')",
            [
                (f"memories.user-{n % KEYS}", f"k-{n}", json.dumps({"text": f"Fact {n}."}))
                for n in range(RECORDS)
            ],
        )
    db.close()
    return ["--key-from", "namespace.1", "--set-from", "namespace.0"]


def mcp_memory(path):
    entities = [
        {"type": "entity", "name": f"e-{n}", "entityType": "thing", "observations": [f"Seen {n}."],
         "at": TIME}
        for n in range(RECORDS)
    ]  # fmt: skip
    relations = [
        {"type": "relation", "from": f"e-{n}", "to": f"e-{n + 1}", "relationType": "before"}
        for n in range(RECORDS - 1)
    ]
    path.write_text("".join(f"{json.dumps(one)}\n" for one in entities + relations))
    return ["--key", "ada", "--time-from", "at"]


FORMATS = (chat, locomo, mem0, langgraph, mcp_memory)


def start(db, words):
    command = [sys.executable, "-m", "alveus.cli", "--db", str(db), "import", *words]
    return warm.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def killed(db, words, size):
    """Import, and kill the process once its log has grown by so much; return whether it was."""
    log = db.with_name(f"{db.name}-wal")
    before = written(log)
    with start(db, words) as child:
        wait_until(lambda: child.poll() is not None or written(log) - before >= size)
        child.kill()
        _, err = child.communicate(timeout=LIMIT_S)
    assert child.returncode in (0, -9), err
    return child.returncode == -9


def contents(db):
    """What an import leaves: every line of an export, in its order."""
    with Memory.open(db, mode="ro") as memory:
        assert isinstance(memory.store, SqliteStore)
        assert memory.store.problems() == []
        return list(export_lines(memory, Selection()))


@pytest.mark.parametrize("make", FORMATS, ids=lambda make: make.__name__)
def test_an_import_that_is_killed_goes_on(tmp_path, make):
    """Whenever it is killed, the same command again leaves what an undisturbed one leaves."""
    file = tmp_path / "file"
    words = [str(file), *make(file), "--embedder", "words", "--json"]
    with start(tmp_path / "calm.db", words) as child:
        out, err = child.communicate(timeout=LIMIT_S)
    assert child.returncode == 0, err
    counts = json.loads(out)
    assert counts["added"] == counts["items"] == RECORDS
    whole = contents(tmp_path / "calm.db")
    dice = random.Random(make.__name__)
    size = (tmp_path / "calm.db").stat().st_size
    for number in range(max(1, COUNTS.kills // 50)):
        db = tmp_path / f"{number}.db"
        for _ in range(KILLS):
            if not killed(db, words, dice.randrange(size * 2 // 3)):
                break
        with start(db, words) as child:
            out, err = child.communicate(timeout=LIMIT_S)
        assert child.returncode == 0, err
        counts = json.loads(out)
        assert counts["added"] + counts["kept"] == RECORDS
        assert contents(db) == whole
