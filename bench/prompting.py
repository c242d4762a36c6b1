"""What a prompt of 1,000 tokens holds: does it have the memory that a request needs?

    python bench/prompting.py                            small memories, unrelated requests
    python bench/prompting.py --prefeval FOLDER --locomo locomo.jsonl
    python bench/prompting.py --embedders minilm,static,words --systems alveus
    python bench/prompting.py --half kept                            the half that is not looked at

Four tables:

- `small memories`: ten memories of 15 facts in eight languages, each with 20 everyday requests that
  need one of the facts (bench/prompting_data). The value is the share of requests whose fact is in
  the prompt.
- `PrefEval`: the preferences of PrefEval's `benchmark_dataset`, each asked for by its question,
  among 20, 200 or all. `explicit` stores the preference as it is written, `implicit` the sentence
  by which the user chooses one of several options, and so reveals it.
- `unrelated`: 100 requests that need no memory. The value is the number of tokens of items in the
  prompt, on average: in the small memories, in 200 preferences, and in conversations of LoCoMo.
- `LoCoMo`: the turns that answer a question, per budget, by `bench/context.py --prompts`.

What is looked at while a policy is chosen is one half: of the small memories the requests at even
positions, of PrefEval the topics at even positions, of LoCoMo the first, third, … conversation.
`--half kept` measures the other half, which is to be looked at once.

Peers get the same items and the same embedder, and are asked as their pages show: LangGraph's store
and mem0 give the first ten items, `cosine` the ten nearest, whatever the request is.
`cosine-filled` gives the nearest that fit into the tokens of a prompt, without headings.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import accumulate, islice
from pathlib import Path
from typing import Any

if not __package__:
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from alveus import Budget, Memory
from alveus.embed import Embedder
from bench import cached, conversations, measure, peers, retrieval
from bench.corpus import Rows
from bench.measure import Report, Result

DATA = Path(__file__).parent / "prompting_data"
TOKENS = 1_000
"""The budget of a prompt."""
HITS = 10
"""The items that a peer's search gives, its default."""
AMONG = (20, 200, 0)
"""Among how many preferences one is looked for; 0 stands for all."""
SYSTEMS = ("alveus", "cosine", "cosine-filled", "langgraph", "mem0")

Shown = tuple[set[int], int]
"""The positions of the items that a prompt shows, and the tokens of their texts."""
Ask = Callable[[str], Shown]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what *arguments* (default: the command line) ask for."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    asked = _parser().parse_args(arguments)
    found: list[Result] = []
    with tempfile.TemporaryDirectory() as folder:
        peers.offline(Path(folder))
        for system in asked.systems:
            for embedder in asked.embedders if system == "alveus" else asked.embedders[:1]:
                vectors = cached.embedder(embedder, asked.cache)
                found += _measured(asked, _Maker(system, vectors, Path(folder)))
    where = measure.machine(Path.cwd())
    measure.show(found, title=f"prompts of {TOKENS:,} tokens, half {asked.half} · {where.line()}")
    if asked.log:
        named = [Path(word).name if Path(word).exists() else word for word in words]
        command = shlex.join(["python", "bench/prompting.py", *named])
        measure.append_log(Report("prompting", command, where, found))
    return 0


@dataclass(frozen=True)
class _Maker:
    """Makes memories of one system with one embedder."""

    system: str
    embedder: Embedder
    folder: Path

    @property
    def name(self) -> str:
        return f"{self.system}, {self.embedder.name}"

    def filled(self, texts: Sequence[str]) -> Ask:
        """Return what asks a memory of *texts*."""
        sizes = [Budget().count(text) for text in texts]
        if self.system == "alveus":
            return _alveus(self.embedder, texts, sizes)
        if self.system == "cosine":
            ranked = _cosine(self.embedder, texts, HITS)
        elif self.system == "cosine-filled":
            ranked = _filled(_cosine(self.embedder, texts, len(texts)), sizes)
        else:
            ranked = _peer(self.system, self.embedder, texts, self.folder)

        def ask(request: str) -> Shown:
            shown = ranked(request)
            return set(shown), sum(sizes[n] for n in shown)

        return ask


def _alveus(embedder: Embedder, texts: Sequence[str], sizes: Sequence[int]) -> Ask:
    key = Memory.open(embedder=embedder).key("user")
    ids = key.add_many(list(texts))
    positions = {name: n for n, name in enumerate(ids)}

    def ask(request: str) -> Shown:
        made = key.context(request, budget_tokens=TOKENS)
        shown = {positions[name] for piece in made.why if piece.shown for name in piece.ids}
        return shown, sum(sizes[n] for n in shown)

    return ask


def _cosine(embedder: Any, texts: Sequence[str], limit: int) -> Callable[[str], Sequence[int]]:
    vectors = embedder.embed(texts)

    def ranked(request: str) -> Sequence[int]:
        scores = vectors @ embedder.embed([request])[0]
        return [int(n) for n in (-scores).argsort()[:limit]]

    return ranked


def _filled(
    nearest: Callable[[str], Sequence[int]], sizes: Sequence[int]
) -> Callable[[str], Sequence[int]]:
    def ranked(request: str) -> Sequence[int]:
        found = nearest(request)
        ends = accumulate(sizes[n] for n in found)
        return [n for n, end in zip(found, ends, strict=True) if end <= TOKENS]

    return ranked


PEERS = {
    "langgraph": ("bench.peers.langgraph_store", "InMemoryPeer"),
    "mem0": ("bench.peers.mem0_qdrant", "Mem0"),
}


def _peer(
    name: str, embedder: Any, texts: Sequence[str], folder: Path
) -> Callable[[str], Sequence[int]]:
    module, made_by = PEERS[name]
    peer: Any = getattr(import_module(module), made_by)(embedder)
    peer.open(Path(tempfile.mkdtemp(dir=folder)), embedder.dimensions)
    ids = [str(n) for n in range(len(texts))]
    rows = Rows(ids, texts, ["fact"] * len(ids), embedder.embed(texts))
    peer.add(rows, ["user"] * len(ids))

    def ranked(request: str) -> Sequence[int]:
        found = peer.search(embedder.embed([request])[0], request, "user", HITS)
        return [int(each) for each in found]

    return ranked


# --- what is measured -------------------------------------------------------------------------


def _measured(asked: argparse.Namespace, maker: _Maker) -> Iterator[Result]:
    unrelated = [text for kind in _toml("unrelated.toml").values() for text in kind]
    yield from _small(asked.half, maker, unrelated)
    if asked.prefeval:
        yield from _preferences(asked, maker, unrelated)
    if asked.locomo:
        yield _conversations(asked, maker, unrelated)


def _toml(name: str) -> Mapping[str, Any]:
    return tomllib.loads((DATA / name).read_text(encoding="utf-8"))


def _small(half: str, maker: _Maker, unrelated: Sequence[str]) -> Iterator[Result]:
    hits: dict[str, list[bool]] = {"all": []}
    used: list[int] = []
    memories = _toml("memories_en.toml")["memory"] + _toml("memories_other.toml")["memory"]
    with measure.progress(f"small memories, {maker.name}", total=len(memories)) as step:
        for each in memories:
            ask = maker.filled(each["facts"])
            for n, request in enumerate(each["requests"]):
                if _is_chosen(n, half):
                    is_hit = request["needs"] - 1 in ask(request["ask"])[0]
                    hits["all"].append(is_hit)
                    hits.setdefault(each["language"], []).append(is_hit)
            used += [ask(request)[1] for request in unrelated]
            step(each["name"])
    for language, found in hits.items():
        yield _share(maker, "small memories", language, found)
    yield _tokens(maker, "small memories", used)


def _is_chosen(n: int, half: str) -> bool:
    return half == "all" or (n % 2 == 0) == (half == "looked")


def _share(maker: _Maker, operation: str, layout: str, found: Sequence[bool]) -> Result:
    value = 100 * sum(found) / len(found)
    return Result(maker.name, operation, len(found), layout, value=value, unit="%")


def _tokens(maker: _Maker, layout: str, used: Sequence[int]) -> Result:
    value = sum(used) / len(used)
    empty = sum(size == 0 for size in used)
    note = f"{empty} of {len(used)} prompts without items, at most {max(used):,}"
    return Result(maker.name, "unrelated", len(used), layout, value=value, unit="tokens", note=note)


def _preferences(
    asked: argparse.Namespace, maker: _Maker, unrelated: Sequence[str]
) -> Iterator[Result]:
    for form in ("explicit", "implicit"):
        pairs = list(_pairs(asked.prefeval, form, asked.half))
        for among in AMONG:
            size = among or len(pairs)
            found: list[bool] = []
            used: list[int] = []
            groups = [pairs[n : n + size] for n in range(0, len(pairs) - size + 1, size)]
            with measure.progress(f"PrefEval {form}, {maker.name}", total=len(groups)) as step:
                for group in groups:
                    ask = maker.filled([preference for preference, _ in group])
                    found += [n in ask(question)[0] for n, (_, question) in enumerate(group)]
                    if among == 200 and form == "explicit":
                        used += [ask(request)[1] for request in unrelated]
                    step(f"{size}")
            yield _share(maker, f"PrefEval, {form}", f"among {size}", found)
            if used:
                yield _tokens(maker, "200 preferences", used)


def _pairs(folder: Path, form: str, half: str) -> Iterator[tuple[str, str]]:
    """Yield preferences and their questions, the topics in turn, so that neighbours differ."""
    source = {"explicit": "explicit_preference", "implicit": "implicit_preference/choice-based"}
    files = sorted((folder / source[form]).glob("*.json"))
    topics: list[list[tuple[str, str]]] = []
    for n, file in enumerate(files):
        if _is_chosen(n, half):
            records = json.loads(file.read_text(encoding="utf-8"))
            topics.append([(_said(record), record["question"]) for record in records])
    for n in range(max(map(len, topics))):
        for topic in topics:
            yield from topic[n : n + 1]


def _said(record: Mapping[str, Any]) -> str:
    """Return the text that is remembered: the preference, or what the user said that reveals it."""
    talk = record.get("conversation")
    return record["preference"] if talk is None else talk["user_selection"]


def _conversations(asked: argparse.Namespace, maker: _Maker, unrelated: Sequence[str]) -> Result:
    start, step_size = {"looked": (0, 2), "kept": (1, 2), "all": (0, 1)}[asked.half]
    used: list[int] = []
    talks = list(islice(conversations.read(asked.locomo), start, None, step_size))
    with measure.progress(f"LoCoMo, {maker.name}", total=len(talks)) as step:
        for talk in talks:
            if maker.system == "alveus":
                memory = Memory.open(embedder=maker.embedder)
                retrieval.fill(memory, talk, lambda *_: None)
                key = memory.key(talk.id)
                sizes = {turn.id: Budget().count(turn.text) for turn in talk.turns}
                for request in unrelated:
                    made = key.context(request, budget_tokens=TOKENS)
                    names = {name for piece in made.why if piece.shown for name in piece.ids}
                    used.append(sum(sizes[name] for name in names))
            else:
                ask = maker.filled([f"{turn.speaker}: {turn.text}" for turn in talk.turns])
                used += [ask(request)[1] for request in unrelated]
            step(talk.id)
    return _tokens(maker, "LoCoMo", used)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--prefeval", type=Path, help="PrefEval's folder benchmark_dataset")
    parser.add_argument("--locomo", type=Path, help="LoCoMo, in the form of conversations.py")
    parser.add_argument("--half", choices=("looked", "kept", "all"), default="looked")
    parser.add_argument(
        "--embedders", type=lambda text: text.split(","), default=["minilm", "static", "words"]
    )
    parser.add_argument("--systems", type=measure.some_of(SYSTEMS), default=["alveus", "cosine"])
    cached.add_argument(parser)
    parser.add_argument("--log", action="store_true", help="append the results to bench/LOG.md")
    return parser


if __name__ == "__main__":
    sys.exit(main())
