"""Whether what is current comes before what is outdated.

    python bench/updating.py                                   natural updates, pairs not the same
    python bench/updating.py --conflicts Conflict_Resolution.json --sizes 6k,32k
    python bench/updating.py --statebench FOLDER --half kept

Three sets of data:

- `updates` and `not the same` (bench/updating_data): updates in plain words, each with a question,
  and pairs that resemble each other of which both stay true. Of an update, the value is the share
  of questions whose newest item stands before the outdated one. Of a pair, it is the number of
  pairs of which one item is folded under the other, and the number that is only put behind it.
- `FactConsolidation` of MemoryAgentBench, as EvoMemBench has it (`Conflict_Resolution.json`): facts
  with a number, of which a later one may contradict an earlier one. Each is an item, a minute after
  the one before. `newest above oldest` counts the questions whose answer has an earlier fact that
  is equal but for the value. Of a question of several hops, only the last fact is known.
- `StateBench` v1.0 (the folder data/releases/v1.0): talks in which something changes. The turns are
  the items; what is written to the state beside them is not shown. `must_mention` and
  `must_not_mention` are looked for in the prompt.

`--half looked` is what was looked at while the rules were written: of the data of this repository
the entries at even positions, of StateBench the file train.jsonl, of FactConsolidation 6k. The
other half is to be looked at once.

Peers get the same items and the same embedder. A prompt of theirs has the ten best items.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib import import_module
from pathlib import Path
from typing import Any

if not __package__:
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from alveus import Item, Memory
from alveus.embed import Embedder
from bench import baselines, cached, measure, peers
from bench.corpus import Rows
from bench.measure import Report, Result

DATA = Path(__file__).parent / "updating_data"
TOKENS = 1_000
"""The budget of a prompt."""
HITS = 10
SIZES = ("6k", "32k", "64k", "262k")
SYSTEMS = ("alveus", "show", "off", "bm25", "cosine", "langgraph", "mem0")
"""`show` is alveus with superseded="show", `off` alveus without any look at changes."""
PEERS = {
    "langgraph": ("bench.peers.langgraph_store", "InMemoryPeer"),
    "mem0": ("bench.peers.mem0_qdrant", "Mem0"),
}
START = datetime(2026, 1, 1, tzinfo=UTC)
TRACKS = ("supersession", "supersession_detection")


@dataclass(frozen=True)
class Said:
    """A text to remember, its time, and who said it."""

    text: str
    time: datetime
    role: str = "user"


@dataclass(frozen=True)
class Answered:
    """The positions of the ten best items for a question, best first, and the text of a prompt."""

    ranked: Sequence[int]
    folded: frozenset[int]
    prompt: str


Ask = Callable[[str], Answered]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what *arguments* (default: the command line) ask for."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    asked = _parser().parse_args(arguments)
    found: list[Result] = []
    with tempfile.TemporaryDirectory() as folder:
        peers.offline(Path(folder))
        maker = _Maker(cached.embedder(asked.embedder, asked.cache), Path(folder))
        for system in asked.systems:
            found += _measured(asked, maker, system)
    where = measure.machine(Path.cwd())
    measure.show(found, title=f"updates, half {asked.half} · {where.line()}")
    if asked.log:
        named = [Path(word).name if Path(word).exists() else word for word in words]
        command = shlex.join(["python", "bench/updating.py", *named])
        measure.append_log(Report("updating", command, where, found))
    return 0


# --- systems ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Maker:
    """Makes memories of all systems with one embedder."""

    embedder: Embedder
    folder: Path

    @property
    def dimensions(self) -> int:
        """The length of a vector."""
        return int(self.embedder.dimensions)

    def embed(self, texts: Sequence[str]) -> Any:
        """Return the texts as rows of an array."""
        return self.embedder.embed(list(texts))

    def filled(self, system: str, said: Sequence[Said]) -> Ask:
        """Return what asks a memory of one system that has all of *said*."""
        if system in ("alveus", "show", "off"):
            return _alveus(system, self.embedder, said)
        if system == "bm25":
            return _ranking(_bm25([one.text for one in said]), said)
        if system == "cosine":
            return _ranking(self._cosine([one.text for one in said]), said)
        return _ranking(self._peer(system, [one.text for one in said]), said)

    def _cosine(self, texts: Sequence[str]) -> Callable[[str], Sequence[int]]:
        vectors = self.embed(texts)

        def ranked(question: str) -> Sequence[int]:
            scores = vectors @ self.embed([question])[0]
            return [int(n) for n in (-scores).argsort(kind="stable")[:HITS]]

        return ranked

    def _peer(self, name: str, texts: Sequence[str]) -> Callable[[str], Sequence[int]]:
        module, made_by = PEERS[name]
        peer: Any = getattr(import_module(module), made_by)(self)
        peer.open(Path(tempfile.mkdtemp(dir=self.folder)), self.dimensions)
        ids = [str(n) for n in range(len(texts))]
        rows = Rows(ids, texts, ["fact"] * len(ids), self.embed(texts))
        peer.add(rows, ["user"] * len(ids))

        def ranked(question: str) -> Sequence[int]:
            found = peer.search(self.embed([question])[0], question, "user", HITS)
            return [int(each) for each in found]

        return ranked


def _bm25(texts: Sequence[str]) -> Callable[[str], Sequence[int]]:
    words = baselines.Bm25(texts)
    return lambda question: [int(n) for n in (-words.scores(question)).argsort(kind="stable")][
        :HITS
    ]


def _ranking(ranked: Callable[[str], Sequence[int]], said: Sequence[Said]) -> Ask:
    def ask(question: str) -> Answered:
        found = ranked(question)
        return Answered(found, frozenset(), "\n".join(said[n].text for n in found))

    return ask


def _alveus(system: str, embedder: Embedder, said: Sequence[Said]) -> Ask:
    key = Memory.open(embedder=embedder).key("user")
    ids: list[str] = []
    for start in range(0, len(said), 500):
        part = said[start : start + 500]
        ids += key.add_many([Item(one.text, time=one.time, role=one.role) for one in part])
    positions = {name: n for n, name in enumerate(ids)}
    options: dict[str, Any] = {"valid_at": "any"} if system == "off" else {}
    if system == "show":
        options = {"superseded": "show"}

    def ask(question: str) -> Answered:
        hits = key.search(question, limit=HITS, **options)
        folded = {positions[old.id] for hit in hits for old in hit.supersedes}
        made = key.context(question, budget_tokens=TOKENS, **options)
        names = [name for piece in made.why if piece.shown for name in piece.ids]
        prompt = "\n".join(said[positions[name]].text for name in names)
        return Answered([positions[hit.item.id] for hit in hits], frozenset(folded), prompt)

    return ask


# --- what is measured -------------------------------------------------------------------------


def _measured(asked: argparse.Namespace, maker: _Maker, system: str) -> Iterator[Result]:
    name = f"{system}, {maker.embedder.name}"
    if not asked.conflicts and not asked.statebench:
        yield from _updates(asked.half, maker, system, name)
        yield from _resembling(asked.half, maker, system, name)
    if asked.conflicts:
        records = json.loads(asked.conflicts.read_text(encoding="utf-8"))
        for record in records:
            which = record["metadata"]["qa_pair_ids"][0].split("_")
            if which[2] in asked.sizes and which[1] == "sh":
                yield from _single_hop(record, maker, system, name, which[2])
            elif which[2] in asked.sizes:
                yield from _several_hops(record, maker, system, name, which[2])
    if asked.statebench:
        yield from _states(asked, maker, system, name)


def _share(name: str, operation: str, layout: str, found: Sequence[bool]) -> Result:
    value = 100 * sum(found) / max(1, len(found))
    note = f"{sum(found)} of {len(found)}"
    return Result(name, operation, len(found), layout, value=value, unit="%", note=note)


def _is_chosen(n: int, half: str) -> bool:
    return half == "all" or (n % 2 == 0) == (half == "looked")


def _updates(half: str, maker: _Maker, system: str, name: str) -> Iterator[Result]:
    data = tomllib.loads((DATA / "updates.toml").read_text(encoding="utf-8"))
    chosen = [one for n, one in enumerate(data["updates"]) if _is_chosen(n, half)]
    others: list[str] = data["beside"]
    first: list[bool] = []
    for old, new, question in chosen:
        texts = [old, *others, new]
        said = [Said(text, START + timedelta(hours=n)) for n, text in enumerate(texts)]
        answered = maker.filled(system, said)(question)
        last = len(texts) - 1
        first.append(_above(answered.ranked, last, 0))
        if not first[-1] and system == "alveus" and half == "looked":
            print("not first:", old, "|", new, "|", question)
    yield _share(name, "newest above oldest", f"updates, {half}", first)


def _above(ranked: Sequence[int], new: int, old: int) -> bool:
    return new in ranked and (old not in ranked or ranked.index(new) < ranked.index(old))


def _resembling(half: str, maker: _Maker, system: str, name: str) -> Iterator[Result]:
    pairs = tomllib.loads((DATA / "not_the_same.toml").read_text(encoding="utf-8"))["pairs"]
    folded: list[bool] = []
    moved: list[bool] = []
    for n, (old, new, question) in enumerate(pairs):
        if not _is_chosen(n, half):
            continue
        said = [Said(old, START), Said(new, START + timedelta(days=1))]
        answered = maker.filled(system, said)(question)
        off = maker.filled("off", said)(question) if system == "alveus" else answered
        folded.append(0 in answered.folded)
        moved.append(answered.ranked != off.ranked)
        if system == "alveus" and half == "looked" and moved[-1]:
            print("folded" if folded[-1] else "moved", old, "|", new, "|", question)
    yield _share(name, "folded", f"not the same, {half}", folded)
    yield _share(name, "moved", f"not the same, {half}", moved)


def _facts(context: str) -> list[str]:
    return re.findall(r"^\d+\. (.*)$", context, re.MULTILINE)


def _spoken(facts: Sequence[str]) -> list[Said]:
    return [Said(text, START + timedelta(minutes=n)) for n, text in enumerate(facts)]


def _single_hop(
    record: Mapping[str, Any], maker: _Maker, system: str, name: str, size: str
) -> Iterator[Result]:
    facts = _facts(record["context"])
    ask = maker.filled(system, _spoken(facts))
    above: list[bool] = []
    first: list[bool] = []
    ten: list[bool] = []
    clean: list[bool] = []
    pairs = zip(record["questions"], record["answers"], strict=True)
    with measure.progress(f"single hop {size}, {name}", total=len(record["questions"])) as step:
        for question, answers in pairs:
            newest, oldest = _evidence(facts, question, answers)
            step(question[:20])
            if newest is None:
                continue
            answered = ask(question)
            first.append(answered.ranked[:1] == [newest])
            ten.append(newest in answered.ranked)
            shown = answered.prompt.split("\n")
            if oldest is None:
                continue
            above.append(_above(answered.ranked, newest, oldest))
            clean.append(facts[newest] in shown and facts[oldest] not in shown)
    layout = f"single hop, {size}"
    yield _share(name, "newest above oldest", layout, above)
    yield _share(name, "newest first", layout, first)
    yield _share(name, "newest in ten", layout, ten)
    yield _share(name, "prompt with newest alone", layout, clean)


def _evidence(
    facts: Sequence[str], question: str, answers: Sequence[str]
) -> tuple[int | None, int | None]:
    """Return the last fact that gives the answer, and an earlier one equal but for the answer."""
    asked = set(baselines.words_of(question))
    best: tuple[int, int] | None = None
    for n, fact in enumerate(facts):
        if any(answer.lower() in fact.lower() for answer in answers):
            shared = len(asked & set(baselines.words_of(fact)))
            best = max(best or (0, 0), (shared, n))
    if best is None:
        return None, None
    newest, fact = best[1], facts[best[1]]
    at = max(fact.lower().find(answer.lower()) for answer in answers)
    begin, end = fact[:at], ""
    for answer in answers:
        if fact.lower()[at:].startswith(answer.lower()):
            end = fact[at + len(answer) :]
    for n in range(newest):
        if (
            facts[n] != fact
            and len(begin) > 5
            and facts[n].startswith(begin)
            and facts[n].endswith(end)
        ):
            return newest, n
    return newest, None


def _several_hops(
    record: Mapping[str, Any], maker: _Maker, system: str, name: str, size: str
) -> Iterator[Result]:
    facts = _facts(record["context"])
    ask = maker.filled(system, _spoken(facts))
    ten: list[bool] = []
    pairs = list(zip(record["questions"], record["answers"], strict=True))
    with measure.progress(f"several hops {size}, {name}", total=len(pairs)) as step:
        for question, answers in pairs:
            ranked = ask(question).ranked
            ends = tuple(f"{answer.lower()}." for answer in answers)
            ten.append(any(facts[n].lower().endswith(ends) for n in ranked))
            step(question[:20])
    yield _share(name, "answer in ten", f"several hops, {size}", ten)


def _states(asked: argparse.Namespace, maker: _Maker, system: str, name: str) -> Iterator[Result]:
    files = {"looked": ["train"], "kept": ["dev", "test", "hidden"]}
    chosen = files.get(asked.half, ["train", "dev", "test", "hidden"])
    violated: dict[str, list[bool]] = {track: [] for track in TRACKS}
    mentioned: dict[str, list[bool]] = {track: [] for track in TRACKS}
    first: dict[str, list[bool]] = {track: [] for track in TRACKS}
    for file in chosen:
        lines = (asked.statebench / f"{file}.jsonl").read_text(encoding="utf-8").splitlines()
        timelines = [json.loads(line) for line in lines]
        timelines = [one for one in timelines if one["track"] in TRACKS]
        with measure.progress(f"StateBench {file}, {name}", total=len(timelines)) as step:
            for timeline in timelines:
                step(timeline["id"])
                track, said, question, truth = _talk(timeline)
                must, must_not = truth
                if not must or not must_not or set(must) & set(must_not):
                    continue
                answered = maker.filled(system, said)(question)
                prompt = answered.prompt.lower()
                violated[track].append(any(one in prompt for one in must_not))
                mentioned[track].append(all(one in prompt for one in must))
                leading = [
                    said[n].text.lower()
                    for n in answered.ranked
                    if any(one in said[n].text.lower() for one in (*must, *must_not))
                ]
                first[track].append(bool(leading) and all(one in leading[0] for one in must))
    for track in TRACKS:
        layout = f"StateBench, {track}, {asked.half}"
        yield _share(name, "must_not_mention violated", layout, violated[track])
        yield _share(name, "must_mention held", layout, mentioned[track])
        yield _share(name, "newest first", layout, first[track])


def _talk(timeline: Mapping[str, Any]) -> tuple[str, list[Said], str, tuple[list[str], list[str]]]:
    said: list[Said] = []
    question, truth = "", ([], [])
    for event in timeline["events"]:
        time = datetime.fromisoformat(event.get("ts", "2026-01-01T00:00:00")).replace(tzinfo=UTC)
        if event["type"] == "conversation_turn":
            said.append(Said(event["text"], time, event["speaker"]))
        elif event["type"] == "query":
            question = event["prompt"]
            facts = event["ground_truth"]
            truth = (
                [_phrase(one) for one in facts["must_mention"]],
                [_phrase(one) for one in facts["must_not_mention"]],
            )
            break
    return timeline["track"], said, question, truth


def _phrase(one: object) -> str:
    text = (
        one
        if isinstance(one, str)
        else str(one.get("text", one))
        if isinstance(one, dict)
        else str(one)
    )
    return text.lower()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--conflicts", type=Path, help="Conflict_Resolution.json")
    parser.add_argument("--sizes", type=measure.some_of(SIZES), default=["6k"])
    parser.add_argument("--statebench", type=Path, help="StateBench's folder of a release")
    parser.add_argument("--half", choices=("looked", "kept", "all"), default="looked")
    parser.add_argument("--embedder", default="minilm")
    parser.add_argument("--systems", type=measure.some_of(SYSTEMS), default=["alveus", "off"])
    cached.add_argument(parser)
    parser.add_argument("--log", action="store_true", help="append the results to bench/LOG.md")
    return parser


if __name__ == "__main__":
    sys.exit(main())
