"""How well a search finds what a later remark rests on, where the two share no words.

    python bench/plus.py locomo_plus.json
    python bench/plus.py locomo_plus.json --locomo locomo.jsonl --embedders minilm,static,words

The file is LoCoMo-Plus's `data/locomo_plus.json` (xjtuleeyf/Locomo-Plus): a *cue* is a short
dialogue whose first line states a goal, a cause, a value or a state; its *trigger* is a later
utterance that a person would connect with it. Measured is the rank of the cue for its trigger:

- `among cues`: every distinct cue is an item, and labels of speakers stay in the texts.
- `among turns`: the cue is put into a conversation of LoCoMo as a session of its own, as the set's
  `unified_input.py` does: pair *n* goes to conversation *n* modulo the number of conversations, and
  the speakers "A" and "B" become those of the conversation. The rank is that of the better of the
  cue's lines. With `--roles` the first speaker has the role of the user, the other the assistant's.

A rank among turns says little alone: cues were written by other models than LoCoMo's turns, so a
search that prefers what is foreign to the conversation finds them without reading the trigger.
`blind` does so, by the distance from the mean of all texts. Therefore a cue of another pair is put
into the conversation too, and has a rank of its own; `own above unrelated` is the share of triggers
whose own cue stands above it, 50 % by chance.

A value is the median rank; 1 is the best. Items that a search does not find, and items of equal
score, share the mean of their places. `even` and `odd` are the pairs at even and odd positions.

The file has `ranks` of its own, by mpnet, bge and BM25, which are no ranks of a search. Its
`generation_pipeline/rank.py` gives each pair the place of its own score among the scores of all
generated pairs, 1 for the least alike: no cue is compared with the triggers of others. They are
printed as `published`, and compare with nothing here.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import statistics
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import chain, repeat
from pathlib import Path
from typing import Any, TypeVar

if not __package__:
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import numpy as np
from numpy.typing import NDArray

from alveus import Item, Memory
from alveus.embed import Embedder
from alveus.embed.vectors import Vectors
from bench import baselines, cached, conversations, measure, retrieval
from bench.conversations import Conversation
from bench.measure import Report, Result

MOST = 1_000
"""The most hits of a search."""
FIRST = 10
PUBLISHED = ("mpnet", "bge", "bm25")

_GAP = re.compile(r"(\d+|[a-z]+)\s+(week|month|year)s?\b")
_NUMBERS = "one two three four five six seven eight nine ten eleven twelve"
_DAYS = {"week": 7, "month": 30, "year": 365}


@dataclass(frozen=True)
class Pair:
    """A cue and its trigger.

    Attributes:
        lines: The cue's lines with their labels, "A" and "B".
        gap: The time from the cue to the trigger; zero if the file does not say.
        published: The file's ranks by model.
    """

    cue: str
    lines: tuple[tuple[str, str], ...]
    trigger: str
    gap: timedelta
    published: Mapping[str, int]

    @property
    def texts(self) -> list[str]:
        """The cue's lines without their labels."""
        return [text for _, text in self.lines]

    @property
    def trigger_text(self) -> str:
        """The trigger without its label."""
        return _labelled(self.trigger)[1]


def read(path: Path) -> list[Pair]:
    """Return the pairs of a file of LoCoMo-Plus, in order."""
    pairs: list[Pair] = []
    for source in json.loads(path.read_text(encoding="utf-8")):
        cue = source["cue_dialogue"]
        lines = tuple(_labelled(line) for line in cue.split("\n") if line.strip())
        gap, ranks = _gap(source.get("time_gap", "")), source.get("ranks", {})
        pairs.append(Pair(cue, lines, source["trigger_query"], gap, ranks))
    return pairs


def _labelled(line: str) -> tuple[str, str]:
    label, _, text = line.strip().partition(":")
    return label, text.strip()


def _gap(text: str) -> timedelta:
    found = _GAP.search(text.lower())
    if found is None:
        return timedelta()
    word, unit = found.groups()
    names = _NUMBERS.split()
    number = int(word) if word.isdigit() else names.index(word) + 1 if word in names else 1
    return timedelta(days=number * _DAYS[unit])


def place(values: NDArray[np.floating], own: int) -> float:
    """Return the rank of the score at *own*; equal scores share the mean of their places."""
    return float((values > values[own]).sum() + ((values == values[own]).sum() + 1) / 2)


def place_of_hits(ids: Sequence[str | None], own: Collection[str | None], size: int) -> float:
    """Return the best rank of the items *own* among hits; items not found share their places."""
    found = [n for n, name in enumerate(ids, start=1) if name in own]
    return float(found[0]) if found else (len(ids) + 1 + size) / 2


# --- among cues -------------------------------------------------------------------------------


def among_cues(pairs: Sequence[Pair], system: str, embedder: Embedder) -> list[float]:
    """Return the rank of each pair's cue among all distinct cues."""
    cues = list(dict.fromkeys(pair.cue for pair in pairs))
    own = [cues.index(pair.cue) for pair in pairs]
    triggers = [pair.trigger for pair in pairs]
    if system == "alveus":
        memory = Memory.open(embedder=embedder)
        key = memory.key("cues")
        ids = key.add_many(cues)
        memory.settle()
        hits = [key.search(trigger, limit=MOST) for trigger in triggers]
        return [
            place_of_hits([hit.item.id for hit in found], {ids[n]}, len(cues))
            for found, n in zip(hits, own, strict=True)
        ]
    scores = _scores(system, embedder, cues, triggers)
    return [place(row, n) for row, n in zip(scores, own, strict=True)]


def _scores(
    system: str, embedder: Embedder, texts: Sequence[str], queries: Sequence[str]
) -> Iterator[Any]:
    """Yield the scores of *texts* for each query, by BM25, by plain cosine, or blindly."""
    if system == "bm25":
        words = baselines.Bm25(texts)
        yield from map(words.scores, queries)
        return
    rows = embedder.embed(texts)
    if system == "blind":
        yield from repeat(-rows @ rows.mean(axis=0), len(queries))
    else:
        yield from _questions(embedder, queries) @ rows.T


def _questions(embedder: Embedder, queries: Sequence[str]) -> Vectors:
    embed = getattr(embedder, "embed_queries", embedder.embed)
    return embed(queries)


# --- among turns ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Places:
    """The ranks of the own cue and of an unrelated one, each among the turns of a conversation."""

    own: float
    unrelated: float


def among_turns(
    pairs: Sequence[Pair],
    talks: Sequence[Conversation],
    system: str,
    embedder: Embedder,
    *,
    roles: bool,
) -> list[Places]:
    """Return where each pair's cue stands in its conversation, and where an unrelated one does."""
    found: dict[int, Places] = {}
    with measure.progress(f"turns, {system}, {embedder.name}", total=len(pairs)) as step:
        for first, talk in enumerate(talks):
            mine = range(first, len(pairs), len(talks))
            chosen = [(pairs[n], unrelated_to(pairs, n)) for n in mine]
            if system == "alveus":
                places = _searched(chosen, talk, embedder, roles=roles)
            else:
                places = _compared(chosen, talk, system, embedder)
            for n, one in zip(mine, places, strict=True):
                found[n] = one
                step(talk.id)
    return [found[n] for n in range(len(pairs))]


def unrelated_to(pairs: Sequence[Pair], n: int) -> Pair:
    """Return the pair half the file away from pair *n*, or the next one with another cue."""
    half = len(pairs) // 2
    others = [pairs[(n + half + step) % len(pairs)] for step in range(len(pairs))]
    return next(pair for pair in others if pair.cue != pairs[n].cue)


def _searched(
    chosen: Sequence[tuple[Pair, Pair]], talk: Conversation, embedder: Embedder, *, roles: bool
) -> Iterator[Places]:
    memory = Memory.open(embedder=embedder)
    key = memory.key(talk.id)
    role = dict(zip(talk.speakers, ("user", "assistant"), strict=False)) if roles else {}
    turns = [retrieval.item(turn) for turn in talk.turns]
    key.add_many([_with_role(item, role) for item in turns])
    asked_at = max(turn.time for turn in talk.turns if turn.time) + timedelta(days=7)
    for pair, other in chosen:
        added: list[list[str]] = []
        for name, cue in (("cue", pair), ("unrelated", other)):
            items = _cue_items(cue, talk, asked_at - cue.gap, session=name)
            added.append(key.add_many([_with_role(item, role) for item in items]))
        memory.settle()
        hits = key.search(pair.trigger_text, limit=MOST)
        ids = [hit.item.id for hit in hits]
        ranks: list[float] = []
        for own, others in (added, reversed(added)):
            seen = [name for name in ids if name not in others]
            ranks.append(place_of_hits(seen, own, len(turns) + len(own)))
        yield Places(*ranks)
        for name in chain(*added):
            key.delete(name)


def _cue_items(pair: Pair, talk: Conversation, at: datetime, *, session: str) -> list[Item]:
    names = dict(zip("AB", talk.speakers, strict=False))
    return [
        Item(text, time=at, speaker=names.get(label, label), session=session)
        for label, text in pair.lines
    ]


def _with_role(item: Item, role: Mapping[str, str]) -> Item:
    return replace(item, role=role.get(item.speaker or "", item.role))


def _compared(
    chosen: Sequence[tuple[Pair, Pair]], talk: Conversation, system: str, embedder: Embedder
) -> Iterator[Places]:
    turns = [turn.text for turn in talk.turns]
    texts = dict.fromkeys([*turns, *(text for two in chosen for cue in two for text in cue.texts)])
    position = {text: n for n, text in enumerate(texts)}
    queries = [pair.trigger_text for pair, _ in chosen]
    scores = _scores(system, embedder, list(texts), queries)
    of_turns = [position[text] for text in turns]
    for two, row in zip(chosen, scores, strict=True):
        ranks: list[float] = []
        for cue in two:
            here = np.append(row[of_turns], max(row[position[text]] for text in cue.texts))
            ranks.append(place(here, len(turns)))
        yield Places(*ranks)


# --- the report -------------------------------------------------------------------------------


def results(operation: str, system: str, ranks: Sequence[float], note: str = "") -> list[Result]:
    """Return the median rank of the even pairs, of the odd pairs, and of all."""
    found: list[Result] = []
    for half, values in _halves(ranks).items():
        near = 100 * sum(rank <= FIRST for rank in values) / len(values)
        inverse = statistics.mean(1 / rank for rank in values)
        text = note or f"R@{FIRST} {near:.1f} %, MRR {inverse:.3f}"
        value = statistics.median(values)
        found.append(
            Result(system, operation, len(values), half, value=value, unit="rank", note=text)
        )
    return found


def _turns_results(system: str, places: Sequence[Places]) -> Iterator[Result]:
    yield from results("among turns", system, [one.own for one in places])
    yield from results("among turns, unrelated cue", system, [one.unrelated for one in places])
    for half, some in _halves(places).items():
        above = sum((one.own < one.unrelated) + (one.own == one.unrelated) / 2 for one in some)
        value = 100 * above / len(some)
        yield Result(system, "own above unrelated", len(some), half, value=value, unit="%")


_Any = TypeVar("_Any")


def _halves(values: Sequence[_Any]) -> dict[str, Sequence[_Any]]:
    return {"even": values[0::2], "odd": values[1::2], "all": values}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure what *arguments* (default: the command line) ask for."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    asked = _parser().parse_args(arguments)
    pairs = read(asked.data)
    talks = list(conversations.read(asked.locomo)) if asked.locomo else []
    found: list[Result] = []
    for name in PUBLISHED:
        if ranks := [float(pair.published[name]) for pair in pairs if name in pair.published]:
            note = "a pair's place among pairs, by its own score: no rank of a search"
            found += results("published", name, ranks, note)
    for system, name in _systems(asked.embedders):
        named = f"{system}, {name}" if name else system
        embedder = cached.embedder(name or "words", asked.cache)
        found += results("among cues", named, among_cues(pairs, system, embedder))
        if talks:
            places = among_turns(pairs, talks, system, embedder, roles=asked.roles)
            found += _turns_results(named, places)
    where = measure.machine(Path.cwd())
    measure.show(found, title=f"LoCoMo-Plus: the median rank of the cue · {where.line()}")
    if asked.log:
        paths = [Path(word).name if Path(word).exists() else word for word in words]
        command = shlex.join(["python", "bench/plus.py", *paths])
        cues = len({pair.cue for pair in pairs})
        notes = [f"data: {len(pairs)} pairs, {cues} distinct cues; by chance {(cues + 1) / 2:g}"]
        measure.append_log(Report("plus", command, where, found, notes=notes))
    return 0


def _systems(embedders: Sequence[str]) -> Iterator[tuple[str, str]]:
    yield "bm25", ""
    for embedder in embedders:
        if embedder != "words":
            yield "blind", embedder
            yield "cosine", embedder
        yield "alveus", embedder


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("data", type=Path, help="LoCoMo-Plus's locomo_plus.json")
    parser.add_argument("--locomo", type=Path, help="LoCoMo, in the form of conversations.py")
    parser.add_argument(
        "--embedders", type=lambda text: text.split(","), default=["words", "static", "minilm"]
    )
    parser.add_argument(
        "--roles", action="store_true", help="the first speaker is the user, the other not"
    )
    cached.add_argument(parser)
    parser.add_argument("--log", action="store_true", help="append the results to bench/LOG.md")
    return parser


if __name__ == "__main__":
    sys.exit(main())
