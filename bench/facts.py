"""What facts with sources add to turns: `bench/retrieval.py DATA --facts FACTS` runs this.

A scripted model answers with the facts of a file, which a real model found; `learn` checks them,
and keeps them in the set "facts", beside the turns. A turn counts as found if it is found itself,
or by a fact that rests on it. Four systems answer each question: the turns alone, the facts alone,
both, and the facts that `learn(model=None)` takes by its rules. Measured are the share of the gold
turns among the first hits, and in a prompt of so many tokens; what learning costs: calls of the
model, and time per message beside it; and the tokens of the rules' facts beside those of the turns.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from bench import conversations, measure, retrieval
from bench.conversations import Conversation
from bench.measure import Result

CUTS = (5, 10, 20)
BUDGETS = (500, 1_000, 2_000)

ENTITIES = (1.2,)
"""Weights of the signal for entities that a question names, which is off by default."""

Facts = Mapping[str, Sequence[Mapping[str, Any]]]
"""Facts by the id of their conversation."""


def results(asked: argparse.Namespace) -> Iterator[Result]:
    """Yield what turns and facts find, in the store beside `--out`."""
    from alveus import Memory

    facts = _read(asked.facts)
    excluded = set(filter(None, asked.exclude.split(",")))
    found: dict[tuple[str, str], list[tuple[float, int]]] = {}
    learnt = {"model": _Learnt(), "rules": _Learnt()}
    with Memory.open(f"{asked.out}.db", embedder=asked.embedder) as memory:
        for talk in islice(conversations.read(asked.data), asked.conversations):
            questions = [q for q in talk.questions if q.gold and q.category not in excluded]
            with measure.progress(talk.id, total=len(talk.turns) + len(questions)) as step:
                retrieval.fill(memory, talk, step)
                model = _Replay(talk, facts[talk.id])
                sources = _learn(memory, talk, talk.id, model, learnt["model"])
                sources |= _learn(memory, talk, f"{talk.id}, rules", None, learnt["rules"])
                for question in questions:
                    for system, ask in _systems(memory, talk, question.text):
                        for operation, names, tokens in ask:
                            shown = {turn for name in names for turn in sources.get(name, (name,))}
                            share = len(question.gold & shown) / len(question.gold)
                            found.setdefault((operation, system), []).append((share, tokens))
                    step(talk.id)
    for (operation, system), each in sorted(found.items()):
        value, used = (sum(column) / len(each) for column in zip(*each, strict=True))
        note = f"{len(each)} questions"
        if used:
            per_token = 100_000 * value / used
            note += f", {used:,.0f} tokens used, {per_token:.0f} % per 1,000 tokens"
        yield Result(system, operation, len(each), value=100 * value, unit="%", note=note)
    for system, one in learnt.items():
        yield from one.results(system)


@dataclass
class _Learnt:
    """What learning did, of all conversations."""

    messages: int = 0
    facts: int = 0
    refused: int = 0
    calls: int = 0
    seconds: float = 0.0
    turn_tokens: int = 0
    fact_tokens: int = 0

    def results(self, system: str) -> Iterator[Result]:
        """Yield what it cost."""
        count, load = self.messages, f"load {os.getloadavg()[0]:.1f}"
        calls = 100 * self.calls / count
        yield Result(system, "calls in 100 messages", count, value=calls, unit="calls", note="")
        each = 1_000 * self.seconds / count
        yield Result(system, "learn, beside the model", count, value=each, unit="ms", note=load)
        note = f"{self.facts:,} facts, {self.refused:,} refused"
        share = 100 * self.fact_tokens / self.turn_tokens
        operation = "tokens, of those of the turns"
        yield Result(system, operation, count, value=share, unit="%", note=note)


def _read(path: Path) -> Facts:
    found: dict[str, list[Mapping[str, Any]]] = {}
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            fact = json.loads(line)
            found.setdefault(fact["id"], []).append(fact)
    return found


class _Replay:
    """A model that answers with recorded facts, once all turns that one rests on were shown.

    Turns come in the order in which they were added. It decides that every fact is new.
    """

    def __init__(self, talk: Conversation, facts: Sequence[Mapping[str, Any]]) -> None:
        self._turns = [turn for turn in talk.turns if turn.text.strip()]
        self._places = {turn.id: place for place, turn in enumerate(self._turns)}
        self._read = 0
        self.seconds = 0.0
        self._by_place: dict[int, list[Mapping[str, Any]]] = {}
        for fact in facts:
            places = [self._places[name] for name in fact["sources"] if name in self._places]
            if places:
                self._by_place.setdefault(max(places), []).append(fact)

    def __call__(self, messages: Sequence[Mapping[str, Any]]) -> str:
        """Return the answer to a request."""
        begun = time.perf_counter()
        asked = json.loads(messages[-1]["content"])
        if "candidates" in asked:
            ids = [one["id"] for one in asked["candidates"]]
            new = [{"candidate": name, "decision": "new", "fact": None} for name in ids]
            answer = json.dumps({"decisions": new})
        else:
            first, self._read = self._read, self._read + len(asked["messages"])
            answer = json.dumps({"facts": [*self._facts(first, self._read)]})
        self.seconds += time.perf_counter() - begun
        return answer

    def _facts(self, first: int, end: int) -> Iterator[Mapping[str, Any]]:
        for place in range(first, end):
            for fact in self._by_place.get(place, ()):
                places = [self._places[name] for name in fact["sources"] if name in self._places]
                cited = [
                    {"message": one - first + 1, "quote": self._turns[one].text[:2_000]}
                    for one in dict.fromkeys(places)
                    if one >= first
                ]
                yield {
                    "fact": fact["fact"],
                    "subject": fact["speaker"],
                    "kind": "event",
                    "entities": [fact["speaker"]],
                    "evidence": cited,
                }


def _learn(
    memory: Any, talk: Conversation, name: str, replay: _Replay | None, learnt: _Learnt
) -> dict[str, Sequence[str]]:
    """Have a key learn from the turns as messages; return the turns of each fact."""
    from alveus import ScriptedChat
    from alveus.text import tokens

    key = memory.key(name)
    chat = key.conversation("chat")
    chat.add(
        [
            {
                "id": turn.id,
                "role": "user",
                "name": turn.speaker,
                "content": turn.text,
                "timestamp": None if turn.time is None else turn.time.isoformat(),
            }
            for turn in talk.turns
        ]
    )
    memory.settle()
    begun = time.perf_counter()
    report = key.learn(chat, model=None if replay is None else ScriptedChat(replay))
    learnt.seconds += time.perf_counter() - begun - (0.0 if replay is None else replay.seconds)
    memory.settle()
    facts = key.facts.list()
    learnt.messages += len(talk.turns)
    learnt.facts += len(facts)
    learnt.refused += sum(report.refused.values())
    learnt.calls += report.model_calls
    learnt.turn_tokens += sum(tokens(turn.text) for turn in talk.turns)
    learnt.fact_tokens += sum(tokens(fact.text) for fact in facts)
    return {fact.id: fact.sources for fact in facts}


def _systems(
    memory: Any, talk: Conversation, question: str
) -> Iterator[tuple[str, Iterator[tuple[str, list[str], int]]]]:
    rules = f"{talk.id}, rules"
    yield "turns", _asked(memory, talk.id, question, ["default"])
    yield "facts", _asked(memory, talk.id, question, ["facts"])
    yield "turns and facts", _asked(memory, talk.id, question, ["default", "facts"])
    yield "rules", _asked(memory, rules, question, ["facts"])
    for weight in ENTITIES:
        name = f"entities {weight}"
        both = _asked(memory, talk.id, question, ["default", "facts"], weight)
        yield f"turns and facts, {name}", both
        yield f"facts, {name}", _asked(memory, talk.id, question, ["facts"], weight)
        yield f"rules, {name}", _asked(memory, rules, question, ["facts"], weight)


def _asked(
    memory: Any, key: str, question: str, sets: Sequence[str], entities: float = 0.0
) -> Iterator[tuple[str, list[str], int]]:
    """Yield what is measured, the ids that are found, and the tokens that they take."""
    from alveus import Signals

    signals = Signals(entities=entities)
    hits = memory.key(key).search(question, limit=max(CUTS), sets=sets, signals=signals)
    for cut in CUTS:
        yield f"R@{cut}", [hit.item.id for hit in hits[:cut]], 0
    for tokens in BUDGETS:
        made = memory.context(
            question, key=key, budget_tokens=tokens, messages=None, sets=sets, signals=signals
        )
        shown = [name for piece in made.why if piece.shown for name in piece.ids]
        yield f"evidence in {tokens:,} tokens", shown, made.tokens
