"""How well alveus finds in other languages than English, and from one language into another.

    python bench/languages.py --xquad FOLDER --out languages.jsonl
    python bench/languages.py --xquad FOLDER --memories FOLDER --out languages.jsonl --log
    python bench/languages.py --xquad FOLDER --languages en,de --embedders words,minilm --every 1

`--xquad` is the folder of XQuAD (google-deepmind/xquad at 7d30520, CC BY-SA 4.0): 240 paragraphs in
twelve languages, with the same 1,190 questions; every sixth question is asked unless `--every` says
otherwise. `--memories` is the folder `benchmarks/model_eval/datasets` of MemPalace (MemPalace/
mempalace at 9b7cfc99, MIT): 90 memories in ten languages. Nothing is fetched.

Each language is a key of a space, each paragraph or memory an item, and each question a search with
alveus's defaults. A figure is the share of questions, in percent, whose paragraph is the first hit
and is among the first five.

- `same`: questions and items in the language.
- `into English`: questions in the language, English items.
- `memories`: the first sentence of a memory asks for the rest of it, in the same two ways; all 90
  are asked.

Where an embedder does not read a language, a search leaves meaning out (`words_alone` in
`hit.parts`), so `minilm` and `static` have the figures of `words` there by design.

Stopped at any time, the same command goes on where it was: items are in stores beside `--out`, and
each answered language is a line of it.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

if not __package__:
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from alveus import Memory
from bench import cached, measure, peers
from bench.measure import Report, Sheet

EMBEDDERS = ("words", "static", "minilm", "multilingual")
XQUAD = ("en", "de", "es", "zh", "ru", "ar", "hi", "tr", "el", "ro", "th", "vi")
MEMORIES = ("en", "de", "es", "fr", "hi", "it", "ko", "pt-BR", "ru", "zh")
TASKS = ("memory_extraction", "entity_extraction")
"""The data sets of MemPalace whose texts are memories."""
AT_ONCE = 16
"""Items that are added before their vectors are waited for: what a kill can cost."""
FIRST = 5
"""Hits of a search that are looked at."""
SENTENCE_END = re.compile(r"(?<=[.!?])\s+|(?<=[。！？।])\s*")


class Question(NamedTuple):
    """A question, and the id of the item that answers it."""

    text: str
    item: str


@dataclass(frozen=True)
class Collection:
    """Items in one language by id, and questions in that language."""

    items: dict[str, str]
    questions: list[Question]


@dataclass(frozen=True)
class Figures:
    """Shares of questions in percent: whose item is first, and whose item is in the first five."""

    first: float
    among: float
    questions: int

    def __str__(self) -> str:
        return f"{self.first:.1f} / {self.among:.1f}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure what *arguments* (default: the command line) ask for."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    asked = _parser().parse_args(arguments)
    peers.offline(asked.out.resolve().parent)
    sheets = {}
    for data in ("xquad", "memories"):
        if folder := getattr(asked, data):
            languages = [name for name in asked.languages if name in READERS[data][1]]
            figures = {
                (embedder, language, way): found
                for embedder in asked.embedders
                for language in languages
                for way, found in _measured(asked, data, folder, embedder, language)
            }
            sheets[data] = _sheet(figures, asked.embedders, languages)
    where = measure.machine(asked.out.resolve().parent)
    for data, sheet in sheets.items():
        sheet.show(f"languages: {data}, R@1 / R@5 · {where.line()}")
        if asked.log:
            named = [Path(word).name if Path(word).exists() else word for word in words]
            command = shlex.join(["python", "bench/languages.py", *named])
            note = f"R@1 / R@5 in percent, through alveus's search; {DATA[data]}"
            measure.append_log(
                Report(f"languages: {data}", command, where, notes=[note], sheet=sheet)
            )
    return 0


def _measured(
    asked: argparse.Namespace, data: str, folder: Path, embedder: str, language: str
) -> Iterator[tuple[str, Figures]]:
    """Yield the figures of one language in its two ways."""
    read = READERS[data][0]
    for way, target in (("same", language), ("into English", "en")):
        if way != "same" and language == "en":
            continue
        every = asked.every if data == "xquad" else 1
        name = f"{data} {embedder} {language} {way} {every}"
        if (found := _known(asked.out).get(name)) is None:
            store = asked.out.with_name(f"{asked.out.stem}.{data}.{embedder}.db")
            with Memory.open(store, embedder=cached.embedder(embedder, asked.cache)) as memory:
                key = memory.key(target)
                _fill(memory, key, read(folder, target).items, f"{data} {embedder} {target}")
                questions = read(folder, language).questions[::every]
                found = _asked(key, questions, name)
            line = {"name": name, **vars(found)}
            with asked.out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
        yield way, found


def _known(out: Path) -> dict[str, Figures]:
    if not out.exists():
        return {}
    lines = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    return {line.pop("name"): Figures(**line) for line in lines}


def _fill(memory: Memory, key, items: dict[str, str], title: str) -> None:
    missing = [name for name, found in zip(items, key.get(list(items)), strict=True) if not found]
    with measure.progress(title, total=len(missing)) as step:
        for at in range(0, len(missing), AT_ONCE):
            some = missing[at : at + AT_ONCE]
            for name in some:
                key.add(items[name], id=name)
            memory.settle()
            step("adding", len(some))


def _asked(key, questions: Sequence[Question], title: str) -> Figures:
    first = among = 0
    with measure.progress(title, total=len(questions)) as step:
        for question in questions:
            ids = [str(hit.item.id) for hit in key.search(question.text, limit=FIRST)]
            first += ids[:1] == [question.item]
            among += question.item in ids
            step("asking")
    return Figures(100 * first / len(questions), 100 * among / len(questions), len(questions))


@cache
def read_xquad(folder: Path, language: str) -> Collection:
    """Return the paragraphs and the questions of XQuAD in a language."""
    content = json.loads((folder / f"xquad.{language}.json").read_text(encoding="utf-8"))
    paragraphs = [one for article in content["data"] for one in article["paragraphs"]]
    return Collection(
        {f"p{at}": one["context"] for at, one in enumerate(paragraphs)},
        [
            Question(asked["question"], f"p{at}")
            for at, one in enumerate(paragraphs)
            for asked in one["qas"]
        ],
    )


@cache
def read_memories(folder: Path, language: str) -> Collection:
    """Return the memories of MemPalace's data in a language, each cut after its first sentence.

    What has one sentence in some language is left out in all of them.
    """
    texts = _memory_texts(folder, language)
    whole = [_memory_texts(folder, each) for each in MEMORIES]
    cut = [name for name in texts if all(len(_halves(one[name])) > 1 for one in whole)]
    return Collection(
        {name: _halves(texts[name])[1] for name in cut},
        [Question(_halves(texts[name])[0], name) for name in cut],
    )


@cache
def _memory_texts(folder: Path, language: str) -> dict[str, str]:
    file = "dataset.jsonl" if language == "en" else f"dataset.{language}.jsonl"
    lines = [
        json.loads(line)
        for task in TASKS
        for line in (folder / task / file).read_text(encoding="utf-8").splitlines()
    ]
    return {line["id"]: line["text"] for line in lines}


def _halves(text: str) -> list[str]:
    return [part for part in SENTENCE_END.split(text, maxsplit=1) if part]


DATA = {
    "xquad": "240 paragraphs in each language, every sixth question unless `--every` says",
    "memories": "90 memories in each language, one question each",
}
READERS = {"xquad": (read_xquad, XQUAD), "memories": (read_memories, MEMORIES)}


def _sheet(
    figures: dict[tuple[str, str, str], Figures], embedders: Sequence[str], languages: Sequence[str]
) -> Sheet:
    rows = [
        [way, language, *(str(figures[name, language, way]) for name in embedders)]
        for way in ("same", "into English")
        for language in languages
        if way == "same" or language != "en"
    ]
    return Sheet(["way", "language", *embedders], ["way", "language"], rows)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    everything = dict.fromkeys([*XQUAD, *MEMORIES])
    parser.add_argument("--xquad", type=Path, help="the folder of XQuAD")
    parser.add_argument("--memories", type=Path, help="the folder of MemPalace's data sets")
    parser.add_argument("--embedders", type=measure.some_of(EMBEDDERS), default=list(EMBEDDERS))
    parser.add_argument("--languages", type=measure.some_of(everything), default=list(everything))
    parser.add_argument(
        "--every", type=int, default=6, help="ask one question of so many, of XQuAD"
    )
    parser.add_argument("--out", type=Path, default=Path("languages.jsonl"))
    cached.add_argument(parser)
    parser.add_argument("--log", action="store_true", help="append the results to LOG.md")
    return parser


if __name__ == "__main__":
    sys.exit(main())
