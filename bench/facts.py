"""What facts with sources add to turns: `bench/retrieval.py DATA --facts FACTS` runs this.

A fact is an item of its own that names the turns it was drawn from (`sources=`). A turn counts as
found if it is found itself, or a fact that has it among its sources. Three systems answer each
question: the turns alone, turns and facts in one set, and of that set the facts alone. Measured are
the share of the gold turns among the first hits, and in a prompt of so many tokens.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from bench import conversations, measure, retrieval
from bench.conversations import Conversation
from bench.measure import Result

CUTS = (5, 10, 20)
BUDGETS = (500, 1_000, 2_000, 4_000)
AT_ONCE = 64

Facts = Mapping[str, Sequence[Mapping[str, Any]]]
"""Facts by the id of their conversation."""


def results(asked: argparse.Namespace) -> Iterator[Result]:
    """Yield what turns and facts find, in the store beside `--out`."""
    from fornix import Memory

    facts = _read(asked.facts)
    excluded = set(filter(None, asked.exclude.split(",")))
    found: dict[tuple[str, str], list[tuple[float, int]]] = {}
    with Memory.open(f"{asked.out}.db", embedder=asked.embedder) as memory:
        for talk in islice(conversations.read(asked.data), asked.conversations):
            questions = [q for q in talk.questions if q.gold and q.category not in excluded]
            with measure.progress(talk.id, total=len(talk.turns) + len(questions)) as step:
                retrieval.fill(memory, talk, step)
                sources = _fill(memory, talk, facts[talk.id])
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


def _read(path: Path) -> Facts:
    found: dict[str, list[Mapping[str, Any]]] = {}
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            fact = json.loads(line)
            found.setdefault(fact["id"], []).append(fact)
    return found


def _key(talk: Conversation) -> str:
    return f"{talk.id}, with facts"


def _fill(
    memory: Any, talk: Conversation, facts: Sequence[Mapping[str, Any]]
) -> dict[str, Sequence[str]]:
    """Put turns and facts into a key, unless they are there; return the turns of each fact.

    A fact has the time of its first source. It is in a session of its own kind, so that turns have
    the neighbours that they have without facts.
    """
    from fornix import Item

    times = {turn.id: turn.time for turn in talk.turns}
    items = [retrieval.item(turn) for turn in talk.turns]
    sources: dict[str, Sequence[str]] = {}
    for number, fact in enumerate(facts):
        turns = [turn for turn in fact["sources"] if turn in times]
        sources[f"fact {number}"] = turns
        items.append(
            Item(
                fact["fact"],
                id=f"fact {number}",
                time=times[turns[0]] if turns else None,
                speaker=fact["speaker"],
                session=f"{fact['session_id']}, facts",
                sources=tuple(turns),
                metadata={"fact": True},
            )
        )
    key = memory.key(_key(talk))
    for start in range(0, len(items), AT_ONCE):
        key.add_many(items[start : start + AT_ONCE], on_existing="keep")
        memory.settle()
    return sources


def _systems(
    memory: Any, talk: Conversation, question: str
) -> Iterator[tuple[str, Iterator[tuple[str, list[str], int]]]]:
    yield "turns", _asked(memory, talk.id, question, None)
    yield "turns and facts", _asked(memory, _key(talk), question, None)
    yield "facts", _asked(memory, _key(talk), question, {"fact": True})


def _asked(
    memory: Any, key: str, question: str, where: Any
) -> Iterator[tuple[str, list[str], int]]:
    """Yield what is measured, the ids that are found, and the tokens that they take."""
    hits = memory.key(key).search(question, limit=max(CUTS), where=where)
    for cut in CUTS:
        yield f"R@{cut}", [hit.item.id for hit in hits[:cut]], 0
    for tokens in BUDGETS:
        made = memory.context(question, key=key, budget_tokens=tokens, messages=None, where=where)
        shown = [name for piece in made.why if piece.shown for name in piece.ids]
        yield f"evidence in {tokens:,} tokens", shown, made.tokens
