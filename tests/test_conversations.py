"""The conversations that ship, and those of the tests: sound, and what the docs say of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
SHIPPED = HERE.parent / "src" / "alveus" / "cli" / "demo" / "conversation.jsonl"
FILES = [SHIPPED, HERE / "data" / "german.jsonl", HERE / "data" / "chinese.jsonl"]


def load(path: Path) -> dict[str, Any]:
    (line,) = path.read_text(encoding="utf-8").splitlines()
    return json.loads(line)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_questions_name_turns_that_exist(path: Path) -> None:
    """Ids are unique, speakers are the two, gold turns and their sessions exist."""
    data = load(path)
    turns = {t["id"]: s["session_id"] for s in data["sessions"] for t in s["turns"]}
    assert len(turns) == sum(len(s["turns"]) for s in data["sessions"])
    assert {t["speaker"] for s in data["sessions"] for t in s["turns"]} == set(data["speakers"])
    assert all(t["text"].strip() for s in data["sessions"] for t in s["turns"])
    assert len({q["id"] for q in data["queries"]}) == len(data["queries"])
    for query in data["queries"]:
        assert query["gold"], query["id"]
        assert {turns[turn] for turn in query["gold"]} == set(query["gold_sessions"])


def test_the_shipped_conversation_is_as_large_as_it_is_said_to_be() -> None:
    """About 300 turns in many sessions, and 60 questions."""
    data = load(SHIPPED)
    assert sum(len(session["turns"]) for session in data["sessions"]) >= 300
    assert len(data["sessions"]) >= 20
    assert len(data["queries"]) == 60
