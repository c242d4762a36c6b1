"""alveus and its peers on the same texts and vectors: how fast, how much memory, how much disk.

    python bench/store.py --scale quick                10,000 items, some minutes
    python bench/store.py --scale full --log           up to 1,000,000 items; results go into LOG.md
    python bench/store.py --peers none --only add,search
    python bench/store.py --peers langgraph-sqlite,chroma --items 1000

Each system runs in a process of its own, on one core, in an empty folder that is removed
afterwards. Results are written as JSON lines as soon as they are known (`--out`). Without the
peers' packages (`bench/requirements.txt`), `--peers none` still works.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import shlex
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

if not __package__:
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from bench import measure, peers, scenarios, syncs
from bench.corpus import Corpus, Rows, nearest
from bench.measure import Report, Result
from bench.scenarios import LAYOUTS, LIMIT, Job

SCALES = {
    "quick": {"many": (10_000,), "one": (100, 10_000)},
    "full": {"many": (10_000, 100_000, 1_000_000), "one": (100, 10_000, 100_000, 1_000_000)},
}
BUDGET_S = {"quick": 3.0, "full": 15.0}
OPERATIONS = (
    "get",
    "search",
    "filtered",
    "embed",
    "recent",
    "add",
    "batch",
    "threads",
    "busy",
    "delete",
    "reopen",
    "syncs",
)
QUESTIONS = 100
WORK = Path(__file__).resolve().parent / ".work"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what *arguments* (default: the command line) ask for; 1 if a system failed."""
    asked = _parser().parse_args(arguments)
    asked.work.mkdir(parents=True, exist_ok=True)
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    peers.offline(asked.work)
    systems = [*(name for name in peers.OURS if name in asked.ours), *asked.peers]
    jobs = list(_jobs(asked, systems))
    where = measure.machine(asked.work)
    asked.out.unlink(missing_ok=True)
    results = _run(jobs, asked.out)
    if "syncs" in asked.only:
        results.extend(_syncs(systems))
    results.sort(key=_order)
    measure.show(results, title=f"alveus and peers · {where.line()}")
    compared = comparison(results)
    if compared:
        print("\n".join(compared))
    if asked.log:
        command = shlex.join(
            ["python", "bench/store.py", *(sys.argv[1:] if arguments is None else arguments)]
        )
        ahead = [" ".join(line.split()) for line in compared if line.endswith(")")]
        notes = [*_versions(results), *ahead]
        measure.append_log(Report("store", command, where, results, notes=notes))
    return int(any(each.note.startswith("failed") for each in results))


def comparison(results: Sequence[Result]) -> list[str]:
    """One line per operation and peer: how many times longer than alveus it takes, or how many
    times less it does in a second; with the reason, where a peer is ahead. Empty without both."""
    ours = {
        (each.operation, each.layout, each.items): each
        for each in results
        if each.system == "alveus"
    }
    lines: list[str] = []
    for each in results:
        mine = ours.get((each.operation, each.layout, each.items))
        times = _times(mine, each) if mine and each.system in peers.PEERS else None
        if times is None:
            continue
        what = f"{each.operation:14} {each.layout:5} {each.items:9,}  {each.system:18}"
        why = f"  {_why(each)}" if times < 1 else ""
        lines.append(f"{what} {measure.number(times)} x alveus{why}")
    return lines


def _times(mine: Result, other: Result) -> float | None:
    """Return how many times better alveus does; None: a row of something else."""
    if mine.figure and other.figure and mine.operation != "sync of 4 KB":
        return other.figure.p50 / mine.figure.p50
    if mine.value and other.value and mine.unit.endswith("/s"):
        return mine.value / other.value
    return None


_AS_ONE_TABLE = "reads vectors of one table at each search, and no words; here a set is read once"
_IN_RAM = "all of it is in the RAM of one process, which locks the folder"
_NO_WORDS = "reads no words, and keeps no versions and no change log"
_NO_SYNC = "appends columns without a sync, and makes no index until it is told to"
_MADE_LATER = "here the set's index file is made first, which all later processes use"
WHY_AHEAD = {
    "langgraph-memory": {"": "a dict: nothing survives the process"},
    "langgraph-sqlite": {
        "batch": _NO_WORDS,
        "fill": _NO_WORDS,
        "first search": _AS_ONE_TABLE,
        "get": "one row of one table; here it is also noted that the item was used",
        "reopen": "looks at nothing; here schema, journal and locks are checked",
        "search cold": _AS_ONE_TABLE,
    },
    "chroma": {"first search": _MADE_LATER},
    "lancedb": {"batch": _NO_SYNC, "fill": _NO_SYNC, "first search": _MADE_LATER},
    "lancedb-hybrid": {"batch": _NO_SYNC, "fill": _NO_SYNC},
    "mem0": {"get": _IN_RAM, "first search": _IN_RAM},
}
"""By system and how an operation begins: why a peer may be ahead."""


def _why(ahead: Result) -> str:
    reasons = WHY_AHEAD.get(ahead.system, {})
    found = [why for start, why in reasons.items() if ahead.operation.startswith(start)]
    return f"({found[0]})" if found else "(the reason is not known)"


def _run(jobs: Sequence[Job], out: Path) -> list[Result]:
    """Every job after the other; a job that dies leaves the results it had and one that says so."""
    # A child has one core. NumPy's threads, made as it is imported, would wait busily on the other,
    # which counts as time of the processor.
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    context = multiprocessing.get_context("spawn")
    with measure.progress("store", total=len(jobs)) as step:
        for job in jobs:
            child = context.Process(target=scenarios.run, args=(job, out))
            child.start()
            child.join()
            if child.exitcode:
                measure.write_lines(
                    out,
                    [
                        Result(
                            job.system,
                            "run",
                            job.items,
                            job.layout,
                            note=f"failed: exit code {child.exitcode}",
                        )
                    ],
                )
            step(job.title)
    if not out.exists():
        return []
    return [
        measure.result(json.loads(line)) for line in out.read_text(encoding="utf-8").splitlines()
    ]


def _jobs(asked: argparse.Namespace, systems: Sequence[str]) -> Iterator[Job]:
    corpus = Corpus(asked.seed)
    for layout in asked.layouts:
        for items in asked.items or SCALES[asked.scale][layout]:
            questions = corpus.questions(QUESTIONS, among=items)
            truth = (
                nearest(corpus, items, questions, limit=min(LIMIT, items))
                if layout == "one"
                else []
            )
            for system in systems:
                yield _job(asked, system, layout, items, questions, truth)


def _job(
    asked: argparse.Namespace,
    system: str,
    layout: str,
    items: int,
    questions: Rows,
    truth: Sequence[Sequence[str]],
) -> Job:
    return Job(
        system=system,
        layout=layout,
        items=items,
        operations=tuple(asked.only),
        budget_s=BUDGET_S[asked.scale],
        core=asked.core,
        seed=asked.seed,
        work=asked.work,
        questions=questions,
        truth=truth,
    )


def _syncs(systems: Sequence[str]) -> Iterator[Result]:
    for system in systems:
        try:
            found = syncs.syncs_per_add(system)
        except RuntimeError as error:
            yield Result(system, "syncs", 0, note=f"failed: {error}"[:200])
            continue
        yield Result(
            system,
            "syncs",
            0,
            value=found,
            unit="per add",
            note="" if found is not None else "strace is not installed",
        )


def _versions(results: Sequence[Result]) -> list[str]:
    known = {each.system: each.version for each in results if each.version}
    return [f"versions: {'; '.join(f'{system} {version}' for system, version in known.items())}"]


def _order(each: Result) -> tuple[int, str, int, int]:
    names = list(peers.SYSTEMS)
    return (
        LAYOUTS.index(each.layout) if each.layout else 9,
        each.operation,
        each.items,
        names.index(each.system),
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="bench/store.py", description="Compare alveus with its peers."
    )
    parser.add_argument("--scale", choices=SCALES, default="quick")
    parser.add_argument(
        "--only",
        type=measure.some_of(OPERATIONS),
        default=list(OPERATIONS),
        help=f"of {','.join(OPERATIONS)}",
    )
    parser.add_argument(
        "--peers",
        type=_peers,
        default=list(peers.PEERS),
        help=f"all, none, or of {','.join(peers.PEERS)}",
    )
    parser.add_argument(
        "--ours",
        type=_ours,
        default=list(peers.OURS),
        help=f"all, none, or of {','.join(peers.OURS)}",
    )
    parser.add_argument(
        "--layouts",
        type=measure.some_of(LAYOUTS),
        default=list(LAYOUTS),
        help="many: scopes of 100 items; one: one scope",
    )
    parser.add_argument(
        "--items",
        type=lambda text: [int(part) for part in text.split(",")],
        help="instead of the scale's own",
    )
    parser.add_argument("--core", type=int, default=0, help="the core that everything runs on")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument(
        "--work", type=Path, default=WORK, help="a folder on the disk to be measured"
    )
    parser.add_argument("--out", type=Path, default=WORK / "store.jsonl")
    parser.add_argument("--log", action="store_true", help="append the results to LOG.md")
    return parser


def _peers(text: str) -> list[str]:
    return _of(text, peers.PEERS)


def _ours(text: str) -> list[str]:
    return _of(text, peers.OURS)


def _of(text: str, names: Sequence[str]) -> list[str]:
    if text in ("all", "none"):
        return list(names) if text == "all" else []
    return measure.some_of(names)(text)


if __name__ == "__main__":
    sys.exit(main())
