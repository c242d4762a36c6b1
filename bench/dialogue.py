"""A conversation: what a message, its end, a search, a context and a summary cost as it grows.

    python bench/dialogue.py                        1,000 and 10,000 messages, in a file
    python bench/dialogue.py --sizes 1000,100000 --log

Each size is a conversation of its own key in one file. It is filled in batches; then what is timed
are single calls: an add of one message (a commit each), the last 20 messages, what a model is told,
a search, a context of 2,000 tokens, a mark on one message, and a compression of 50 new ones.
"""

from __future__ import annotations

import argparse
import shlex
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

if not __package__:
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from alveus import Memory
from alveus.agents.messages import ConversationMemory
from bench import measure
from bench.measure import Report, Result

FILLED = 1_000
"""Messages that are added at once where only the size matters."""

SUBJECTS = ("tea", "the bus", "her garden", "the meeting", "a novel", "the weather", "his knee")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what *arguments* (default: the command line) ask for."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    asked = _parser().parse_args(arguments)
    found: list[Result] = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "talk.db"
        with Memory.open(path, embedder=asked.embedder, durability=asked.durability) as memory:
            for size in map(int, asked.sizes.split(",")):
                found += _costs(memory, size, asked.rounds)
        where = measure.machine(Path(folder))
    measure.show(found, title=f"dialogue · {where.line()}")
    if asked.log:
        command = shlex.join(["python", "bench/dialogue.py", *words])
        measure.append_log(Report("dialogue", command, where, found))
    return 0


def _message(n: int) -> dict[str, Any]:
    role = ("user", "assistant")[n % 2]
    text = f"Line {n}: {SUBJECTS[n * n % len(SUBJECTS)]} came up again, for the {n}th time"
    return {"role": role, "content": text}


def _costs(memory: Memory, size: int, rounds: int) -> Iterator[Result]:
    key = memory.key(f"of {size}")
    talk = key.conversation("talk")
    took = measure.once(lambda: _fill(talk, size)).per(size)
    yield Result("alveus", f"add, {FILLED:,} at once", size, figure=took, note="a message")
    memory.settle()
    last = talk.add(_message(size))
    calls: dict[str, Callable[[int], object]] = {
        "add one": lambda n: talk.add(_message(size + n)),
        "the last 20": lambda _: talk.get_memory(recent_n=20),
        "search": lambda n: talk.search(SUBJECTS[n % len(SUBJECTS)], limit=10),
        "context of 2,000 tokens": lambda _: key.context(
            "What of the garden?", budget_tokens=2_000
        ),
        "mark one": lambda n: talk.update_messages_mark(f"m{n}", msg_ids=last),
    }
    for name, call in calls.items():
        yield Result("alveus", name, size, figure=measure.timed(call, rounds, warm=2))
    yield Result("alveus", "sum up all of it", size, figure=measure.once(talk.compress))
    talk.add([_message(size + n) for n in range(50)])
    yield Result("alveus", "sum up 50 more", size, figure=measure.once(talk.compress))
    told = measure.timed(lambda _: talk.messages(), rounds)
    yield Result("alveus", "what a model is told then", size, figure=told)


def _fill(talk: ConversationMemory, size: int) -> None:
    with measure.progress("fill", total=size) as step:
        for first in range(0, size, FILLED):
            talk.add([_message(n) for n in range(first, min(size, first + FILLED))])
            for _ in range(min(FILLED, size - first)):
                step("fill")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="bench/dialogue.py", description="Measure conversations.")
    parser.add_argument("--sizes", default="1000,10000", help="messages of each conversation")
    parser.add_argument("--rounds", type=int, default=30, help="calls of each kind")
    parser.add_argument("--durability", default="full", choices=["full", "normal"])
    parser.add_argument("--embedder", default="static")
    parser.add_argument("--log", action="store_true", help="append the result to LOG.md")
    return parser


if __name__ == "__main__":
    sys.exit(main())
