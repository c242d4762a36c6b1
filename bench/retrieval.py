"""How well alveus finds the turns that answer a question, on a file of recorded conversations.

    python bench/retrieval.py DATA.jsonl --embedder minilm --out ranking.jsonl
    python bench/retrieval.py DATA.jsonl --out ranking.jsonl --baselines --log
    python bench/retrieval.py DATA.jsonl --out ranking.jsonl --facts FACTS.jsonl

The file's form is in conversations.py. Each conversation becomes a key, each turn an item; then
every question is searched in its key with alveus's defaults. Stopped at any time, the same command
goes on where it was: items are in the store beside `--out` (`ranking.jsonl.db`), and each answered
question is a line of `--out`: `{"query_id", "ranked": [turn ids, best first]}`. With
`--conversation` each session becomes a conversation, and each turn a message with its `timestamp`.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

if not __package__:
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from bench import baselines, cached, conversations, measure, peers, score
from bench.conversations import Conversation, Turn
from bench.measure import Report, Result

AT_ONCE = 64
"""Turns per commit: what a kill can cost, and how often the bar moves."""
RUN_KEY = "bench: what this store was made of"
"""A key beside the conversations'."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Rank, score and print what *arguments* (default: the command line) ask for."""
    asked = _parser().parse_args(arguments)
    peers.offline(asked.out.resolve().parent)
    if asked.fresh:
        _forget(asked.out)
    size = _size(asked.data)
    if asked.facts:
        return _report_facts(asked, size)
    results = [] if asked.score_only else _rank(asked, size)
    rankings = {"alveus": read_ranking(asked.out)}
    for name in baselines.NAMES:
        if beside(asked.out, name).exists():
            rankings[name] = read_ranking(beside(asked.out, name))
    measure.show(results, title="retrieval: speed")
    results.extend(_report(asked, rankings))
    if asked.log:
        command = (
            f"python bench/retrieval.py {asked.data.name} --embedder {asked.embedder}"
            + (" --baselines" if asked.baselines else "")
            + (" --conversation" if asked.conversation else "")
        )
        where = measure.machine(asked.out.resolve().parent)
        what = f"{size.turns:,} turns, {size.questions:,} questions, sha256 {size.digest[:12]}"
        notes = [f"data: {asked.data.name}, {what}"]
        measure.append_log(Report("retrieval", command, where, results, notes=notes))
    return 0


def _report_facts(asked: argparse.Namespace, size: Size) -> int:
    from bench import facts

    found = list(facts.results(asked))
    measure.show(found, title="retrieval: facts with sources")
    if asked.log:
        command = (
            f"python bench/retrieval.py {asked.data.name} --facts {asked.facts.name}"
            f" --embedder {asked.embedder}"
        )
        where = measure.machine(asked.out.resolve().parent)
        notes = [f"data: {asked.data.name}, {size.turns:,} turns, sha256 {size.digest[:12]}"]
        measure.append_log(Report("facts", command, where, found, notes=notes))
    return 0


@dataclass(frozen=True)
class Size:
    """How much a file holds, and what it is."""

    turns: int
    questions: int
    digest: str


def beside(out: Path, name: str) -> Path:
    """Where the ranking of baseline *name* is kept."""
    return out.with_name(f"{out.stem}.{name}{out.suffix}")


def read_ranking(path: Path) -> dict[str, list[str]]:
    """The rankings of *path* by question id; what a kill left of a last line is cut off the
    file."""
    if not path.exists():
        return {}
    content = path.read_bytes()
    whole = content[: content.rfind(b"\n") + 1]
    if len(whole) < len(content):
        path.write_bytes(whole)
    lines = (json.loads(line) for line in whole.splitlines())
    return {line["query_id"]: line["ranked"] for line in lines}


def fill(
    memory, each: Conversation, step: Callable[..., None], *, as_messages: bool = False
) -> None:
    """Put the turns of *each* into its key, those that are there already excepted; done when
    everything is indexed."""
    key = memory.key(each.id)
    if key.short_term.get("bench.turns", None) == len(each.turns):
        step(each.id, len(each.turns))
        return
    for start in range(0, len(each.turns), AT_ONCE):
        turns = each.turns[start : start + AT_ONCE]
        if as_messages:
            add_messages(key, turns)
        else:
            key.add_many([item(turn) for turn in turns], on_existing="keep")
        memory.settle()
        step(each.id, len(turns))
    key.short_term.set("bench.turns", len(each.turns))


def add_messages(key, turns: Sequence[Turn]) -> None:
    """Add *turns* as messages of one conversation per session."""
    for session, said in groupby(turns, key=lambda turn: turn.session):
        messages = [
            {"id": turn.id, "role": turn.role or "user", "name": turn.speaker, "content": turn.text}
            | ({"timestamp": turn.time.isoformat()} if turn.time else {})
            for turn in said
        ]
        key.conversation(session).add(messages)


def item(turn: Turn):
    """*turn* as an item of alveus."""
    from alveus import Item  # here, so that scoring needs no alveus

    return Item(
        turn.text,
        id=turn.id,
        time=turn.time,
        speaker=turn.speaker,
        session=turn.session,
        role=turn.role,
        metadata={"caption": turn.caption} if turn.caption else {},
    )


def _rank(asked: argparse.Namespace, size: Size) -> list[Result]:
    from alveus import Memory

    done = read_ranking(asked.out)
    took: list[float] = []
    began, filling, filling_cpu, asking_cpu = time.perf_counter(), 0.0, 0.0, 0.0
    with (
        Memory.open(
            f"{asked.out}.db", embedder=cached.embedder(asked.embedder, asked.cache)
        ) as memory,
        asked.out.open("a", encoding="utf-8") as out,
    ):
        identity = {"data": size.digest, "embedder": asked.embedder, "limit": asked.limit}
        _same_run(memory, identity | ({"conversation": True} if asked.conversation else {}))
        with measure.progress("turns and questions", total=size.turns + size.questions) as step:
            for each in conversations.read(asked.data):
                started, started_cpu = time.perf_counter(), time.process_time()
                fill(memory, each, step, as_messages=asked.conversation)
                filling += time.perf_counter() - started
                filling_cpu += time.process_time() - started_cpu
                open_questions = [
                    question for question in each.questions if question.id not in done
                ]
                step(each.id, len(each.questions) - len(open_questions))
                for question in open_questions:
                    asking, started_cpu = time.perf_counter(), time.process_time()
                    hits = memory.key(each.id).search(question.text, limit=asked.limit)
                    took.append(time.perf_counter() - asking)
                    asking_cpu += time.process_time() - started_cpu
                    _write(out, question.id, [hit.item.id for hit in hits])
                    step(each.id)
    if asked.baselines:
        _rank_baselines(asked, size)
    total = time.perf_counter() - began
    return [
        *_filled(asked.embedder, size, filling, filling_cpu, total),
        *_searched(size, took, asking_cpu),
    ]


def _rank_baselines(asked: argparse.Namespace, size: Size) -> None:
    """Write the baselines' rankings beside *asked.out*, a conversation at a time."""
    embedder = minilm()
    done = {name: read_ranking(beside(asked.out, name)) for name in baselines.NAMES}
    with measure.progress("baselines", total=size.questions) as step:
        for each in conversations.read(asked.data):
            left = [
                q for q in each.questions if any(q.id not in done[name] for name in baselines.NAMES)
            ]
            step(each.id, len(each.questions) - len(left))
            if not left:
                continue
            for question_id, ranked in baselines.rankings(each, left, embedder, limit=asked.limit):
                for name, names in ranked.items():
                    if question_id not in done[name]:
                        with beside(asked.out, name).open("a", encoding="utf-8") as out:
                            _write(out, question_id, names)
                step(each.id)


def minilm() -> baselines.Embedder:
    """alveus's bundled MiniLM, so that the baselines have the very same vectors."""
    from alveus.embed import open_embedder

    return open_embedder("minilm")


def _same_run(memory, identity: Mapping[str, object]) -> None:
    """Write *identity* into a new store; stop if the store is another run's."""
    tree = memory.key(RUN_KEY).short_term
    known = tree.get("run", None)
    if known is None:
        tree.set("run", json.dumps(identity, sort_keys=True))
    elif known != json.dumps(identity, sort_keys=True):
        sys.exit(
            f"the store beside --out was made by another run ({known});"
            " give another --out, or --fresh to start again"
        )


def _filled(embedder: str, size: Size, wall: float, cpu: float, total: float) -> Iterator[Result]:
    """How fast the turns went in; those that an earlier run left are counted too."""
    note = f"wall; CPU {1000 * cpu / max(1, size.turns):.1f} ms a turn"
    rate = size.turns / max(wall, 1e-9)
    yield Result(
        "alveus", f"fill with {embedder}", size.turns, value=rate, unit="turns/s", note=note
    )
    yield Result("alveus", "whole run", size.turns, value=total, unit="s")


def _searched(size: Size, took: Sequence[float], cpu: float) -> Iterator[Result]:
    if not took:
        return
    median, slow = (1000 * measure.percentile(took, percent) for percent in (50, 99))
    note = f"p99 {slow:.1f} ms, CPU {1000 * cpu / len(took):.1f} ms, {len(took)} questions"
    yield Result("alveus", "search", size.turns, value=median, unit="ms p50", note=note)


def _report(asked: argparse.Namespace, rankings: Mapping[str, score.Rankings]) -> list[Result]:
    """Print one table per system by category and give the overall figures as results."""
    excluded = set(filter(None, asked.exclude.split(",")))
    results: list[Result] = []
    for system, ranking in rankings.items():
        categories = score.by_category(conversations.read(asked.data), ranking)
        everything = [row for rows in categories.values() for row in rows]
        headline = [
            row for name, rows in categories.items() if name not in excluded for row in rows
        ]
        _print_table(
            system, categories | {"ALL": everything, f"ALL minus {asked.exclude}": headline}
        )
        for metric, value in score.means(headline).items():
            if metric in score.SHOWN:
                results.append(Result(system, metric, len(headline), value=value, unit="%"))
        for cut in score.MEMPALACE_CUTS:
            value = 100 * score.mempalace_mean(conversations.read(asked.data), ranking, cut=cut)
            print(f"{system}: sessions as MemPalace counts them, R@{cut}: {value:.1f}")
            results.append(
                Result(
                    system,
                    f"MemPalace R@{cut}",
                    len(everything),
                    value=value,
                    unit="%",
                    note="sessions, every question",
                )
            )
    return results


def _print_table(system: str, categories: Mapping[str, Sequence[Mapping[str, float]]]) -> None:
    print(f"\n{system:24} {'n':>6} " + " ".join(f"{metric:>7}" for metric in score.SHOWN))
    for name, rows in categories.items():
        values = score.means(rows)
        print(
            f"  {name:22} {len(rows):6} "
            + " ".join(f"{values[metric]:7.1f}" for metric in score.SHOWN)
        )


def _write(out, question_id: str, names: Sequence[str | None]) -> None:
    out.write(json.dumps({"query_id": question_id, "ranked": list(names)}) + "\n")
    out.flush()


def _size(data: Path) -> Size:
    turns = questions = 0
    for each in conversations.read(data):
        turns += len(each.turns)
        questions += len(each.questions)
    with data.open("rb") as file:
        return Size(turns, questions, hashlib.file_digest(file, "sha256").hexdigest())


def _forget(out: Path) -> None:
    for path in (
        out,
        *(beside(out, name) for name in baselines.NAMES),
        *out.parent.glob(f"{out.name}.db*"),
    ):
        path.unlink(missing_ok=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="bench/retrieval.py", description="Rank and score the turns of recorded conversations."
    )
    parser.add_argument("data", type=Path, help="conversations, one per line")
    cached.add_argument(parser)
    parser.add_argument("--embedder", default="minilm")
    parser.add_argument(
        "--out", type=Path, required=True, help="the ranking; its state is kept beside it"
    )
    parser.add_argument("--facts", type=Path, help="facts with sources, one per line")
    parser.add_argument("--conversations", type=int, help="with --facts: only the first so many")
    parser.add_argument("--limit", type=int, default=50, help="turns per question")
    parser.add_argument(
        "--baselines", action="store_true", help="rank with plain BM25, cosine, RRF and Chroma too"
    )
    parser.add_argument(
        "--conversation", action="store_true", help="add turns as messages of conversations"
    )
    parser.add_argument(
        "--exclude", default="5,abstention", help="categories left out of the headline"
    )
    parser.add_argument("--score-only", action="store_true", help="score what --out holds")
    parser.add_argument("--fresh", action="store_true", help="throw away what an earlier run left")
    parser.add_argument("--log", action="store_true", help="append the results to LOG.md")
    return parser


if __name__ == "__main__":
    sys.exit(main())
