"""Layers: what a write and a read of each costs, what consolidation costs, and what it loses.

    python bench/layers.py                              writes and reads, beside a plain set
    python bench/layers.py --recall locomo.jsonl        evidence found again, beside a plain set
    python bench/layers.py --recall locomo.jsonl --conversations 2 --log

Fragments are short sentences, some of which are like others. The models are the offline ones.
For `--recall` each conversation is written to a hybrid memory with small layers, turn by turn, and
to a plain set; then both are asked its questions. The file's form is in conversations.py.
"""

from __future__ import annotations

import argparse
import asyncio
import shlex
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Self

if not __package__:
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from alveus import Memory
from alveus.agents.layers import (
    AgentMemoryFragment,
    EnhancedShortTermMemory,
    HybridMemory,
    LongTermMemory,
    OfflineImportanceScorer,
    OfflineInsightExtractor,
    SensoryMemory,
    ShortTermMemory,
)
from bench import conversations, measure
from bench.conversations import Conversation, Turn
from bench.measure import Report, Result
from bench.retrieval import item

CUT = 10
"""Turns, or fragments, that a question may look at."""

SUBJECTS = ("tea", "the bus", "her garden", "the meeting", "a novel", "the weather", "his knee")

LAYERS: dict[str, Callable[[Any], Any]] = {
    "sensory, 10": lambda key: SensoryMemory(10, memory=key),
    "short-term, 10": lambda key: ShortTermMemory(10, memory=key),
    "enhanced, 10": lambda key: EnhancedShortTermMemory(memory=key),
    "long-term": lambda key: LongTermMemory(memory=key),
    "hybrid": lambda key: HybridMemory(memory=key),
    "hybrid, offline models": lambda key: _with_models(HybridMemory(memory=key)),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what *arguments* (default: the command line) ask for."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    asked = _parser().parse_args(arguments)
    found = list(_costs(asked) if asked.recall is None else _recall(asked))
    where = measure.machine(Path.cwd())
    measure.show(found, title=f"layers · {where.line()}")
    if asked.log:
        named = [Path(word).name if Path(word).exists() else word for word in words]
        command = shlex.join(["python", "bench/layers.py", *named])
        measure.append_log(Report("layers", command, where, found))
    return 0


# --- what they cost ---------------------------------------------------------------------------


def _texts(count: int) -> Iterator[str]:
    for n in range(count):
        yield f"Note {n}: {SUBJECTS[n * n % len(SUBJECTS)]} came up again, for the {n}th time"


def _costs(asked: argparse.Namespace) -> Iterator[Result]:
    for place in asked.places.split(","):
        with tempfile.TemporaryDirectory() as folder:
            url = ":memory:" if place == "ram" else str(Path(folder) / "layers.db")
            durability = "full" if place == "full" else "normal"
            with Memory.open(url, embedder=asked.embedder, durability=durability) as memory:
                yield from _plain(memory.key("plain"), place, asked.count)
                for name, make in LAYERS.items():
                    layer = make(memory.key(name))
                    yield from asyncio.run(_cost(layer, f"{name}; {place}", asked.count))


def _plain(key: Any, place: str, count: int) -> Iterator[Result]:
    system, notes = f"plain set; {place}", key.set("notes")
    with _clock() as took:
        for text in _texts(count):
            notes.add(text)
    yield _rate(system, "write", count, took)
    reads = count // 4
    with _clock() as took:
        for n in range(reads):
            notes.search(SUBJECTS[n % len(SUBJECTS)], limit=4)
    yield _rate(system, "read", reads, took)


async def _cost(layer: Any, system: str, count: int) -> list[Result]:
    with _clock() as writing:
        for text in _texts(count):
            await layer.write(AgentMemoryFragment(text))
    reads = count // 4
    with _clock() as reading:
        for n in range(reads):
            await layer.read(SUBJECTS[n % len(SUBJECTS)])
    return [_rate(system, "write", count, writing), _rate(system, "read", reads, reading)]


class _clock:  # noqa: N801 - used like a function
    """Seconds of a block: by the wall, and of this process."""

    def __enter__(self) -> Self:
        self.wall, self.cpu = time.perf_counter(), time.process_time()
        return self

    def __exit__(self, *_: object) -> None:
        self.wall, self.cpu = time.perf_counter() - self.wall, time.process_time() - self.cpu


def _rate(system: str, operation: str, count: int, took: _clock) -> Result:
    note = f"CPU {1000 * took.cpu / count:.2f} ms each"
    return Result(system, operation, count, value=count / took.wall, unit="per s", note=note)


def _with_models(layer: HybridMemory[Any]) -> HybridMemory[Any]:
    layer.initialize(
        importance_scorer=OfflineImportanceScorer(), insight_extractor=OfflineInsightExtractor()
    )
    return layer


# --- what they lose ---------------------------------------------------------------------------


def _recall(asked: argparse.Namespace) -> Iterator[Result]:
    found: dict[str, list[float]] = {}
    turns: dict[str, list[int]] = {}
    talks = islice(conversations.read(asked.recall), asked.conversations)
    with Memory.open(embedder=asked.embedder) as memory:
        for talk in talks:
            gold = [q for q in talk.questions if q.gold]
            with measure.progress(talk.id, total=len(talk.turns) + len(gold)) as step:
                ask = _filled(memory, talk, step)
                for question in gold:
                    for name, ids in ask(question.text).items():
                        share = len(question.gold & set(ids)) / len(question.gold)
                        found.setdefault(name, []).append(share)
                        turns.setdefault(name, []).append(len(ids))
                    step(talk.id)
    for name, shares in found.items():
        seen = sum(turns[name]) / len(turns[name])
        note = f"{len(shares)} questions, {seen:.1f} turns looked at"
        value = 100 * sum(shares) / len(shares)
        yield Result(name, "evidence found", len(shares), value=value, unit="%", note=note)


def _filled(
    memory: Memory, talk: Conversation, step: Callable[..., None]
) -> Callable[[str], dict[str, list[str]]]:
    """Write a conversation to both; return what asks both."""
    plain = memory.key(talk.id).set("turns")
    plain.add_many([item(turn) for turn in talk.turns])
    layers = HybridMemory[AgentMemoryFragment](memory=memory.key(f"{talk.id} layers"))

    async def fill() -> None:
        for turn in talk.turns:
            await layers.write(_fragment(turn), turn.time)
            step(talk.id)

    asyncio.run(fill())
    memory.settle()

    def ask(question: str) -> dict[str, list[str]]:
        recalled = asyncio.run(layers.long_term_memory.read(question, k=CUT))
        near = asyncio.run(layers.long_term_memory.read(question, 0, 1, 0, k=CUT))
        alone = [name for fragment in near for name in _turns(fragment)]
        held = asyncio.run(layers.short_term_memory.read(question))
        merged = [name for fragment in recalled for name in _turns(fragment)]
        everything = [*merged, *(name for fragment in held for name in _turns(fragment))]
        hits = plain.search(question, limit=len(dict.fromkeys(everything)))
        return {
            f"plain set, first {CUT} turns": [str(hit.item.id) for hit in hits[:CUT]],
            f"layers, first {CUT} turns": list(dict.fromkeys(merged))[:CUT],
            f"layers, first {CUT} turns, by relevance alone": list(dict.fromkeys(alone))[:CUT],
            f"layers, {CUT} recalled and what is at hand": list(dict.fromkeys(everything)),
            "plain set, as many turns as that": [str(hit.item.id) for hit in hits],
        }

    return ask


def _fragment(turn: Turn) -> AgentMemoryFragment:
    known = {"speaker": turn.speaker, "session": turn.session, "caption": turn.caption}
    metadata = {name: value for name, value in known.items() if value}
    return AgentMemoryFragment(turn.text or "…", memory_id=turn.id, metadata=metadata)


def _turns(fragment: AgentMemoryFragment) -> list[str]:
    return [str(name) for name in fragment.source_ids or [fragment.id]]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="bench/layers.py", description="Measure layers.")
    parser.add_argument("--recall", type=Path, help="conversations with questions about them")
    parser.add_argument("--conversations", type=int, help="only the first so many")
    parser.add_argument("--count", type=int, default=400, help="fragments per layer")
    parser.add_argument("--places", default="ram,normal", help="of: ram, normal, full")
    parser.add_argument("--embedder", default="minilm")
    parser.add_argument("--log", action="store_true", help="append the result to LOG.md")
    return parser


if __name__ == "__main__":
    sys.exit(main())
