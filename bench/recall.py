"""How much of what an exact search finds a search by bit codes finds, on the vectors of real talk.

    python bench/recall.py locomo.jsonl --embedder minilm --log

All turns of all conversations of the file go into one set, so large that candidates are found by
bit codes. A search of the past (`as_of`) scores every item, so it tells what is exact.
"""

from __future__ import annotations

import argparse
import shlex
import sys
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

if not __package__:
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from alveus import Item, Memory
from bench import conversations, measure
from bench.measure import Report, Result

LIMIT = 10


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what *arguments* (default: the command line) ask for."""
    words = sys.argv[1:] if arguments is None else arguments
    asked = _parser().parse_args(arguments)
    talks = list(conversations.read(asked.file))
    texts = [turn.text for talk in talks for turn in talk.turns]
    questions = [each.text for talk in talks for each in talk.questions][:: asked.every]
    with (
        tempfile.TemporaryDirectory() as folder,
        Memory.open(
            Path(folder) / "recall.db", embedder=asked.embedder, durability="normal"
        ) as memory,
    ):
        key = memory.key("all")
        with measure.progress("recall", total=len(questions) + 1) as step:
            key.add_many([Item(text) for text in texts if text.strip()])
            memory.settle()
            step("items")
            parts: list[float] = []
            for text in questions:
                near = {hit.item.id for hit in key.search(text, limit=LIMIT)}
                past = key.search(text, limit=LIMIT, as_of=datetime.now(UTC))
                exact = {hit.item.id for hit in past}
                parts.append(len(near & exact) / max(1, len(exact)))
                step("questions")
    found = Result(
        f"alveus, {asked.embedder}",
        "recall",
        len(texts),
        value=sum(parts) / len(parts),
        unit="of its own exact search's top 10",
        note=f"{len(parts)} questions, the worst {min(parts):.1f}",
    )
    where = measure.machine(Path.cwd())
    measure.show([found], title=f"recall · {where.line()}")
    if asked.log:
        command = shlex.join(["python", "bench/recall.py", asked.file.name, *words[1:]])
        measure.append_log(Report("recall", command, where, [found]))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="bench/recall.py", description="Measure recall.")
    parser.add_argument("file", type=Path)
    parser.add_argument("--embedder", default="minilm")
    parser.add_argument("--every", type=int, default=5, help="ask every so many questions")
    parser.add_argument("--log", action="store_true", help="append the result to LOG.md")
    return parser


if __name__ == "__main__":
    sys.exit(main())
