"""A model that finds facts by a script: what tests of learning ask, in whatever process."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from alveus import ScriptedChat
from alveus.llm import ModelMessage

_SAID = re.compile(r"(\w+) (lives in|likes|is not from) ([\w ]+)\.")
"""What the script takes for a fact, in messages of one sentence."""

STARTED = datetime(2026, 3, 1, 9, tzinfo=UTC)

PLACES = ("Porto", "Lisbon", "Faro", "Braga", "Evora")


def said(count: int, start: int = 0) -> list[dict[str, Any]]:
    """Return messages of two people, who move, repeat themselves, and talk of nothing."""
    found: list[dict[str, Any]] = []
    for at in range(start, start + count):
        who = ("Ada", "Bob")[at % 2]
        texts = [
            f"{who} lives in {PLACES[at // 5 % len(PLACES)]}.",
            f"{who} likes tea {at}.",
            "How is the weather?",
            f"{who} likes tea {max(0, at - 2)}.",
        ]
        time = (STARTED + timedelta(minutes=at)).isoformat()
        content = texts[at % len(texts)]
        found.append(
            {"id": f"m{at}", "role": "user", "name": who, "content": content, "timestamp": time}
        )
    return found


def answer(messages: Sequence[ModelMessage], token: Callable[[], str] = lambda: "") -> str:
    """Return what the script says; each answer carries a token of its own."""
    data = json.loads(messages[-1]["content"])
    mark = token()
    if "messages" in data:
        found = [_fact(one, mark) for one in data["messages"]]
        return json.dumps({"facts": [fact for fact in found if fact is not None]})
    return json.dumps({"decisions": [_decision(one) for one in data["candidates"]]})


def _fact(message: Mapping[str, Any], mark: str) -> dict[str, Any] | None:
    found = _SAID.search(message["text"])
    if found is None:
        return None
    return {
        "fact": f"{found[1]} {found[2]} {found[3]}.",
        "subject": found[1],
        "kind": "preference" if found[2] == "likes" else "profile",
        "entities": [found[1], *([f"token {mark}"] if mark else [])],
        "from": None,
        "until": None,
        "confidence": 0.9,
        "evidence": [{"message": message["id"], "quote": found[0]}],
    }


def _decision(candidate: Mapping[str, Any]) -> dict[str, Any]:
    """Return that who lives elsewhere has moved, and that all else is new or said before."""
    text = candidate["fact"]
    for known in candidate["known"]:
        if known["fact"] == text:
            return {"candidate": candidate["id"], "decision": "same", "fact": known["id"]}
    for known in candidate["known"]:
        if "lives in" in text and "lives in" in known["fact"]:
            return {"candidate": candidate["id"], "decision": "replaces", "fact": known["id"]}
    return {"candidate": candidate["id"], "decision": "new", "fact": None}


def scripted(token: Callable[[], str] = lambda: "") -> ScriptedChat:
    """Return the script as a model."""
    return ScriptedChat(lambda messages: answer(messages, token))
