"""What compaction costs, and what it costs the answers.

    python bench/lifecycle.py [--items 10000] [--data DATA.jsonl] [--embedder static] [--log]

First a set of generated items is compacted to half, by each strategy, without a model; CPU is that
of the process. Then, with --data (its form is in conversations.py), every conversation is a key and
every turn an item, and the questions are searched before and after each set is compacted to half
its items. A turn that was summed up counts as found where the item that stands for it is; what was
trimmed cannot be found.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

if not __package__:
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from alveus import Memory, MemorySet, Merge, Summarize, Trim
from bench import conversations, corpus, measure, retrieval, score
from bench.measure import Report, Result

HALF = 0.5
STRATEGIES = {"trim": Trim(), "summarize": Summarize(), "merge": Merge(otherwise=Trim())}
EXCLUDED = {"5", "abstention"}
"""Categories that no turn answers."""

LIMIT = 200
"""Hits asked for; a metric looks at fewer."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print what *arguments* (default: the command line) ask for."""
    asked = _parser().parse_args(arguments)
    with TemporaryDirectory(dir=asked.folder) as folder:
        results = _costs(asked, Path(folder))
        if asked.data is not None:
            results += _answers(asked, Path(folder))
        measure.show(results, title="lifecycle")
        if asked.log:
            said = f" --data {asked.data.name}" if asked.data is not None else ""
            command = (
                f"python bench/lifecycle.py --items {asked.items} --embedder {asked.embedder}{said}"
            )
            report = Report("lifecycle", command, measure.machine(Path(folder)), results)
            measure.append_log(report)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--items", type=int, default=10_000)
    parser.add_argument("--data", type=Path, help="recorded conversations with questions")
    parser.add_argument("--embedder", default="static")
    parser.add_argument("--folder", type=Path, help="where the stores are made; by default /tmp")
    parser.add_argument("--log", action="store_true", help="add the figures to bench/LOG.md")
    return parser


def halve(chosen: MemorySet, strategy: Trim | Summarize | Merge) -> int:
    """Compact a set to half its items; return in how many steps."""
    chosen.redefine(
        capacity=len(chosen),
        compaction=strategy,
        execution="external",
        low_water=HALF,
        high_water=HALF,
    )
    steps = 0
    while len(chosen) > HALF * (chosen.definition.capacity or 0) and chosen.compact() is not None:
        steps += 1
    return steps


# --- what it costs ----------------------------------------------------------------------------


def _costs(asked: argparse.Namespace, folder: Path) -> list[Result]:
    results: list[Result] = []
    rows = corpus.Corpus(7).take(0, asked.items)
    for name, strategy in STRATEGIES.items():
        with Memory.open(folder / f"{name}.db", embedder=asked.embedder) as memory:
            chosen = memory.key("bench").set("items")
            for start in range(0, asked.items, 1000):
                chosen.add_many(list(rows.texts[start : start + 1000]))
            memory.settle()
            began, began_cpu = time.perf_counter(), time.process_time()
            steps = halve(chosen, strategy)
            wall, cpu = time.perf_counter() - began, time.process_time() - began_cpu
            note = f"to {len(chosen):,} items in {steps} steps, wall {wall:.1f} s"
            results.append(
                Result(
                    "alveus", f"compact, {name}", asked.items, value=cpu, unit="s CPU", note=note
                )
            )
            done = chosen.compactions(limit=1000)
            began_cpu = time.process_time()
            for one in done:
                chosen.undo(one.id)
            cpu = time.process_time() - began_cpu
            results.append(Result("alveus", f"undo, {name}", asked.items, value=cpu, unit="s CPU"))
            assert len(chosen) == asked.items
    return results


# --- what it costs the answers ----------------------------------------------------------------


def _answers(asked: argparse.Namespace, folder: Path) -> list[Result]:
    results: list[Result] = []
    whole = folder / "whole.db"
    with Memory.open(whole, embedder=asked.embedder) as memory:
        for each in conversations.read(asked.data):
            retrieval.fill(memory, each, lambda *_done: None)
        results += _scored("before", asked.data, _ranked(memory, asked.data))
        for name in STRATEGIES:
            memory.backup(folder / f"half-{name}.db")
    for name, strategy in STRATEGIES.items():
        with Memory.open(folder / f"half-{name}.db", embedder=asked.embedder) as memory:
            left = 0
            for each in conversations.read(asked.data):
                chosen = memory.key(each.id).set("default")
                halve(chosen, strategy)
                left += len(chosen)
            memory.settle()
            results += _scored(f"{name}, {left:,} left", asked.data, _ranked(memory, asked.data))
    return results


def _ranked(memory: Memory, data: Path) -> dict[str, list[str]]:
    """Return the turns that each question finds, those that an item stands for in its place."""
    ranked: dict[str, list[str]] = {}
    for each in conversations.read(data):
        key = memory.key(each.id)
        chosen = key.set("default")
        stands: dict[str, list[str]] = {}
        for question in each.questions:
            found: dict[str, None] = {}
            for hit in key.search(question.text, limit=LIMIT):
                item_id = str(hit.item.id)
                if item_id not in stands:
                    stands[item_id] = _turns(chosen, item_id) if hit.item.compacted else [item_id]
                found.update(dict.fromkeys(stands[item_id]))
            ranked[question.id] = list(found)
    return ranked


def _turns(chosen: MemorySet, item_id: str) -> list[str]:
    """Return the ids of the turns that an item was derived from."""
    nodes = chosen.lineage(item_id).nodes
    return [node.id for node in nodes if not node.compacted]


def _scored(layout: str, data: Path, ranked: Mapping[str, Sequence[str]]) -> list[Result]:
    categories = score.by_category(conversations.read(data), ranked)
    rows = [row for name, found in categories.items() if name not in EXCLUDED for row in found]
    return [
        Result("alveus", metric, len(rows), layout=layout, value=value, unit="%")
        for metric, value in score.means(rows).items()
        if metric in score.SHOWN
    ]


if __name__ == "__main__":
    sys.exit(main())
