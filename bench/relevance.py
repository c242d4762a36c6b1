"""What a relevance means: how many hits have it that answer a question, and how many that do not.

    python bench/relevance.py DATA.jsonl --embedder minilm --store relevance.db

Every question is asked in its own conversation; every second one in another conversation, where
nothing answers it; and `UNRELATED` prompts in each. The ten best hits of each are counted.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

if not __package__:
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from bench import conversations, measure, retrieval

UNRELATED = (
    "What is 2+2?",
    "Write a haiku about autumn.",
    "Translate 'good morning' into French.",
    "What's the capital of Mongolia?",
    "Explain how a heap sort works.",
    "Who won the world cup in 1998?",
    "Fix this Python error: IndexError list index out of range",
    "hi",
    "thanks!",
    "What is the boiling point of water?",
    "Summarise the plot of Hamlet.",
    "How many planets are there?",
    "Convert 5 miles to kilometres.",
    "Give me a regex for e-mail addresses.",
    "What does HTTP 404 mean?",
    "Tell me a joke.",
    "What's the square root of 144?",
    "List the prime numbers below 20.",
    "How do I centre a div in CSS?",
    "What is the speed of light?",
)
LEAST = (0.1, 0.2, 0.3, 0.5, 0.7)
AWAY = 3
"""How many conversations further on a question is asked that nothing answers."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Count and print."""
    from alveus import Memory

    parser = argparse.ArgumentParser(prog="bench/relevance.py", description="What relevance means.")
    parser.add_argument("data", type=Path, help="conversations, one per line")
    parser.add_argument("--embedder", default="minilm")
    parser.add_argument("--store", type=Path, required=True, help="kept, and used again")
    options = parser.parse_args(arguments)
    every = list(conversations.read(options.data))
    counted: dict[str, list[float]] = {
        name: []
        for name in (
            "items that answer",
            "other items",
            "foreign questions' hits",
            "unrelated prompts' hits",
            "answered questions' best",
            "foreign questions' best",
            "unrelated prompts' best",
        )
    }
    with Memory.open(options.store, embedder=options.embedder) as memory:
        turns = sum(len(each.turns) for each in every)
        with measure.progress("turns", total=turns) as step:
            for each in every:
                retrieval.fill(memory, each, step)
        with measure.progress("conversations", total=len(every)) as step:
            for at, each in enumerate(every):
                key, other = memory.key(each.id), memory.key(every[(at + AWAY) % len(every)].id)
                for number, question in enumerate(each.questions):
                    if not question.gold or str(question.category) == "5":
                        continue
                    hits = [
                        (hit.item.id, hit.relevance or 0.0)
                        for hit in key.search(question.text, min_score=0)
                    ]
                    gold = [value for name, value in hits if name in question.gold]
                    counted["items that answer"] += gold
                    counted["other items"] += [v for name, v in hits if name not in question.gold]
                    if gold:
                        counted["answered questions' best"].append(max(v for _, v in hits))
                    if number % 2:
                        _count(
                            counted, "foreign questions'", other.search(question.text, min_score=0)
                        )
                for prompt in UNRELATED:
                    _count(counted, "unrelated prompts'", key.search(prompt, min_score=0))
                step(each.id)
    print(f"\n{options.embedder:26} {'n':>7} " + " ".join(f"{f'>= {least}':>7}" for least in LEAST))
    for name, values in counted.items():
        shares = (100 * sum(v >= least for v in values) / max(1, len(values)) for least in LEAST)
        print(f"{name:26} {len(values):7} " + " ".join(f"{share:6.1f}%" for share in shares))
    return 0


def _count(counted: dict[str, list[float]], what: str, hits) -> None:
    values = [hit.relevance for hit in hits]
    counted[f"{what} hits"] += values
    counted[f"{what} best"].append(max(values, default=0.0))


if __name__ == "__main__":
    sys.exit(main())
