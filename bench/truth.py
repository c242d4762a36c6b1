"""Which facts are learnt without a model, and which facts they end.

    python bench/truth.py [--half looked | kept | all] [--cases] [--json]
                          [--export FILE] [--locomo FILE] [--mempalace FOLDER] [--statebench FOLDER]

`key.learn(…, model=None)` reads the cases of `truth_data`, which were written by hand and split at
random in two halves; `--cases` prints each miss of the half that may be looked at. In every second
case the speaker has no name. Measured are

- *stays*: pairs of messages of which the second must not end a fact of the first;
- *ends*: pairs of which it must; where it does not, both stay, or one of them was not learnt;
- *shown*: messages with a mail, a log, an article, …: the facts taken of it, and of the author's
  words beside it;
- *names*: the pages of people, places and things; a page of part of a name is wrong;
- *times*: the kind, begin and end of a fact. A begin that is not said may be that of the message.

`--export` (a file that `alveus import` reads) and `--locomo` count the facts of users' messages,
and draw 60 at random for judging. `--mempalace` is the folder benchmarks/model_eval/datasets of
MemPalace (MIT): names in ten languages by F1, and, where its memories are in the language of their
texts, the share of them that share half of their words with a fact. `--statebench` is a folder of
a release of StateBench (MIT): in how many time lines do the facts that hold at the end name what
they must, or must not.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

if not __package__:
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from alveus import Memory
from alveus.facts.fact import TIMELESS, Fact
from alveus.transfer import Target, import_file
from alveus.values import words
from bench import conversations, measure
from bench.measure import Result

DATA = Path(__file__).parent / "truth_data"
HALVES = {"looked": ("looked",), "kept": ("kept",), "all": ("looked", "kept")}
SAID = datetime(2026, 3, 10, 10, tzinfo=UTC)
LATER = timedelta(days=400)
DRAWN, SEED = 60, 49
SPEAKER = "Ada"
TRACKS = (
    "supersession",
    "supersession_detection",
    "scope_leak",
    "scope_permission",
    "authority_hierarchy",
)


class Learner:
    """Learns messages in keys of one memory, a new key for each case."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._numbers = count()
        self.key: Any = None
        self._name: str | None = None

    def begin(self) -> None:
        """Take a new key; every second has a speaker without a name."""
        number = next(self._numbers)
        self.key = self._memory.key(f"case {number}")
        self._name = SPEAKER if number % 2 else None

    def learn(self, text: str, time: datetime = SAID, name: str | None = None) -> Sequence[Fact]:
        """Return the facts that a message adds, as they are then."""
        said = {"role": "user", "content": text, "timestamp": time.isoformat()}
        if name or self._name:
            said["name"] = name or self._name or ""
        return self.key.learn([said], model=None).added

    def is_ended(self, fact: Fact) -> bool:
        """Return whether a fact has ended since it was learnt."""
        now = self.key.facts.get(fact.id)
        return (
            now is None
            or now.retired is not None
            or bool(now.replaced_by)
            or now.valid_to != fact.valid_to
        )

    def names(self) -> set[str]:
        """Return the names that have a page, in lower case, without the speaker's."""
        return {name.casefold() for name in self.key.facts.entities()} - {
            SPEAKER.casefold(),
            "the user",
            "user",
        }


class Report:
    """Results of one half of the cases, and its misses."""

    def __init__(self, half: str) -> None:
        self.half = half
        self.results: list[Result] = []
        self.missed: list[str] = []

    def share(self, what: str, found: int, of: int, note: str = "") -> None:
        """Add a share in percent."""
        value = 100 * found / max(1, of)
        note = f"{found} of {of}" + (f"; {note}" if note else "")
        self.results.append(Result("rules", what, of, self.half, value=value, unit="%", note=note))

    def miss(self, what: str, *texts: str) -> None:
        """Add a case that was not as it must be."""
        self.missed.append(f"{what}: {' | '.join(text.replace(chr(10), ' / ') for text in texts)}")


# --- the cases ----------------------------------------------------------------------------------


def cases(half: str, learner: Learner) -> Report:
    """Return what is learnt of the cases of a half."""
    data = tomllib.loads((DATA / f"{half}.toml").read_text(encoding="utf-8"))
    report = Report(half)
    _stays(data["stays"], learner, report)
    _ends(data["ends"], learner, report)
    _shown(data["shown"], learner, report)
    _names(data["names"], learner, report)
    _times(data["times"], learner, report)
    return report


def _stays(pairs: Sequence[Sequence[str]], learner: Learner, report: Report) -> None:
    wrong, unknown = Counter[str](), 0
    for kind, old, new in pairs:
        learner.begin()
        before = learner.learn(old)
        unknown += not before
        learner.learn(new, SAID + LATER)
        if any(map(learner.is_ended, before)):
            wrong[kind] += 1
            report.miss(f"wrong end, {kind}", old, new)
    by_kind = ", ".join(f"{kind} {n}" for kind, n in wrong.items() if report.half == "looked")
    report.share("stays: wrong ends", wrong.total(), len(pairs), by_kind)
    report.share("stays: first not learnt", unknown, len(pairs))


def _ends(pairs: Sequence[Sequence[str]], learner: Learner, report: Report) -> None:
    found = Counter[str]()
    for kind, old, new in pairs:
        learner.begin()
        before = learner.learn(old)
        after = learner.learn(new, SAID + LATER)
        if any(map(learner.is_ended, before)):
            found["right"] += 1
            continue
        outcome = "both stay" if before and after else "first" if not before else "second"
        found[outcome] += 1
        report.miss(f"no end ({outcome}), {kind}", old, new)
    report.share("ends: right ends", found["right"], len(pairs))
    report.share("ends: both stay", found["both stay"], len(pairs))
    report.share("ends: first not learnt", found["first"], len(pairs))
    report.share("ends: second not learnt", found["second"], len(pairs))


def _shown(messages: Sequence[Sequence[str]], learner: Learner, report: Report) -> None:
    touched = facts = said_right = said = taken_words = shown_words = 0
    for kind, text, own in messages:
        learner.begin()
        found = learner.learn(text)
        begin = text.index(own)
        quotes = [(quote.start, quote.end) for fact in found for quote in fact.quotations]
        wrong = [
            (start, end)
            for start, end in quotes
            if not own or end <= begin or start >= begin + len(own)
        ]
        facts += len(wrong)
        touched += bool(wrong)
        taken_words += sum(len(text[start:end].split()) for start, end in wrong)
        shown_words += len(text.split()) - len(own.split())
        for start, end in wrong:
            report.miss(f"shown, {kind}", text[start:end])
        if own:
            said += 1
            said_right += len(wrong) < len(quotes)
            if len(wrong) == len(quotes):
                report.miss(f"own words not taken, {kind}", own)
    report.share("shown: messages of which it takes some", touched, len(messages), f"{facts} facts")
    report.share("shown: words taken", taken_words, shown_words)
    report.share("shown: own statements taken", said_right, said)


def _names(rows: Sequence[tuple[str, str, list[str]]], learner: Learner, report: Report) -> None:
    scores = Scores()
    for kind, text, expected in rows:
        learner.begin()
        learner.learn(text)
        pages = learner.names()
        wrong, missing = scores.add([one.casefold().split("|") for one in expected], pages)
        if wrong or missing:
            report.miss(f"names, {kind}", text, f"missing {missing}", f"wrong {wrong}")
    report.results += scores.results("names", report.half)


class Scores:
    """Precision and recall of names."""

    def __init__(self) -> None:
        self.right = self.found = self.expected = 0

    def add(
        self, expected: Sequence[Sequence[str]], pages: set[str]
    ) -> tuple[list[str], list[str]]:
        """Count the pages of a text; return the wrong ones, and the names without a page."""
        left, missing = set(pages), list[str]()
        for names in expected:
            one = next((name for name in names if name in left), None)
            if one is None:
                missing.append(names[0])
            else:
                left.remove(one)
        self.right += len(expected) - len(missing)
        self.found += len(pages)
        self.expected += len(expected)
        return sorted(left), missing

    def results(self, what: str, layout: str) -> Iterator[Result]:
        """Yield F1, precision and recall."""
        precision = self.right / max(1, self.found)
        recall = self.right / max(1, self.expected)
        both = 2 * precision * recall / ((precision + recall) or 1)
        note = f"precision {precision:.2f}, recall {recall:.2f}"
        yield Result("rules", f"{what}: F1", self.expected, layout, value=both, unit="", note=note)


def _times(rows: Sequence[Sequence[str]], learner: Learner, report: Report) -> None:
    kinds = times = learnt = 0
    for text, day, kind, begins, ends in rows:
        learner.begin()
        found = learner.learn(text, datetime.fromisoformat(f"{day}T10:00:00+00:00"))
        if not found:
            report.miss("times, not learnt", text)
            continue
        learnt += 1
        kinds += found[0].kind in kind.split()
        begin, end = _period(found[0], day)
        is_right = _is_in(begin, begins) and _is_in(end, ends)
        times += is_right
        if not is_right or found[0].kind not in kind.split():
            report.miss("times", text, day, found[0].kind, f"{begin}", f"{end}")
    report.share("times: learnt", learnt, len(rows))
    report.share("times: right kinds", kinds, len(rows))
    report.share("times: right begin and end", times, len(rows))


def _period(fact: Fact, day: str) -> tuple[str, str]:
    """Return the days on which a fact begins and ends, "-" if there is none."""
    if fact.kind in TIMELESS:
        return fact.when[0] or "-", fact.when[1] or "-"
    begin = "-" if fact.valid_from is None else fact.valid_from.date().isoformat()
    end = "-" if fact.valid_to is None else fact.valid_to.date().isoformat()
    return ("-" if begin == day else begin), end


def _is_in(found: str, expected: str) -> bool:
    """Return whether a day lies in one of the expected days, months or years."""
    return any(found == one or (one != "-" and found.startswith(one)) for one in expected.split())


# --- recorded conversations ---------------------------------------------------------------------


def export(file: Path, memory: Memory) -> Iterator[tuple[str, Sequence[Fact]]]:
    """Yield the messages of users in an export, each with its facts."""
    import_file(memory, file, target=Target("export", "chat"))
    learner = Learner(memory)
    learner.begin()
    for item in memory.key("export").set("chat").list():
        if item.role == "user" and item.text:
            yield item.text, learner.learn(item.text, item.time or SAID)


def locomo(file: Path, memory: Memory) -> Iterator[tuple[str, Sequence[Fact]]]:
    """Yield the turns of LoCoMo's speakers, each with its facts."""
    learner = Learner(memory)
    for talk in conversations.read(file):
        learner.begin()
        for turn in talk.turns:
            if turn.text.strip():
                yield turn.text, learner.learn(turn.text, turn.time or SAID, turn.speaker)


def counted(
    what: str, talk: Iterator[tuple[str, Sequence[Fact]]], *, drawn: bool
) -> Iterator[Result]:
    """Yield how many facts messages have; print some of them for judging."""
    messages, found = 0, list[tuple[Fact, str]]()
    for text, facts in talk:
        messages += 1
        found += [(fact, text) for fact in facts]
    yield Result("rules", f"{what}: facts", messages, value=len(found), unit="facts", note="")
    each = len(found) / max(1, messages)
    yield Result("rules", f"{what}: facts a message", messages, value=each, unit="facts", note="")
    if drawn:
        for fact, _ in random.Random(SEED).sample(found, min(DRAWN, len(found))):
            quotes = " | ".join(quote.text for quote in fact.quotations)
            print(f"{what}, {fact.kind}: {fact.text} <- {quotes}".replace("\n", " / "))


# --- published data -----------------------------------------------------------------------------


def _lines(file: Path) -> list[Mapping[str, Any]]:
    with file.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines if line.strip()]


def mempalace(folder: Path, learner: Learner) -> Iterator[Result]:
    """Yield F1 of names in each language, and what is found of memories."""
    names = {one["id"]: one for one in _lines(folder / "entity_extraction" / "labels.jsonl")}
    shares = list[float]()
    for file in sorted((folder / "entity_extraction").glob("dataset*.jsonl")):
        language = _language(file)
        scores = Scores()
        for sample in _lines(file):
            learner.begin()
            learner.learn(sample["text"])
            expected = [[one["name"].casefold()] for one in names[sample["id"]]["entities"]]
            scores.add(expected, learner.names())
        for one in scores.results("MemPalace names", language):
            shares.append(one.value or 0.0)
            yield one
    mean = sum(shares) / max(1, len(shares))
    yield Result("rules", "MemPalace names: F1", len(shares), "mean", value=mean, unit="", note="")
    for labels in sorted((folder / "memory_extraction").glob("labels*.jsonl")):
        yield from _memories(labels, learner)


def _language(file: Path) -> str:
    """Return the language of a data set, whose file is called dataset.de.jsonl; "en" without."""
    return file.name.split(".", 1)[1].removesuffix("jsonl").strip(".") or "en"


def _memories(labels: Path, learner: Learner) -> Iterator[Result]:
    language = _language(labels)
    file = labels.with_name(labels.name.replace("labels", "dataset"))
    truth = {one["id"]: one["memories"] for one in _lines(labels)}
    right = found = expected = hits = 0
    for sample in _lines(file):
        learner.begin()
        facts = [set(words.terms(fact.text)) for fact in learner.learn(sample["text"])]
        wanted = [set(words.terms(one["content"])) for one in truth[sample["id"]]]
        found += len(facts)
        expected += len(wanted)
        hits += sum(any(len(one & fact) * 2 >= len(one) for fact in facts) for one in wanted)
        right += sum(any(len(one & fact) * 2 >= len(one) for one in wanted) for fact in facts)
    note = f"{found} facts, {right} of them near a memory"
    value = 100 * hits / max(1, expected)
    what = "MemPalace memories: found"
    yield Result("rules", what, expected, language, value=value, unit="%", note=note)


def statebench(folder: Path, half: str, learner: Learner) -> Iterator[Result]:
    """Yield in how many time lines the facts that hold name what they must, or must not."""
    files = {"looked": ["train"], "kept": ["dev", "test", "hidden"]}
    lines = [
        line
        for file in files.get(half, ["train", "dev", "test", "hidden"])
        for line in _lines(folder / f"{file}.jsonl")
    ]
    for track in TRACKS:
        must = must_not = silent = total = 0
        for line in (one for one in lines if one["track"] == track):
            asked = next(one for one in line["events"] if one["type"] == "query")
            facts = _holding(line["events"], learner)
            truth = asked["ground_truth"]
            total += 1
            silent += not facts
            must += all(_phrase(one) in facts for one in truth["must_mention"])
            must_not += any(_phrase(one) in facts for one in truth["must_not_mention"])
        for what, number in (("must", must), ("must not", must_not), ("no facts", silent)):
            note, value = f"{number} of {total}", 100 * number / max(1, total)
            operation = f"StateBench {track}: {what}"
            yield Result("rules", operation, total, half, value=value, unit="%", note=note)


def _holding(events: Sequence[Mapping[str, Any]], learner: Learner) -> str:
    learner.begin()
    at = SAID
    for event in events:
        with suppress(KeyError, ValueError):
            at = datetime.fromisoformat(event["ts"]).replace(tzinfo=UTC)
        if event["type"] == "conversation_turn" and event["speaker"] == "user":
            learner.learn(event["text"], at)
    held = learner.key.facts.list(valid_at=at + timedelta(hours=1))
    return "\n".join(fact.text for fact in held).lower()


def _phrase(one: object) -> str:
    return str(one.get("text", one) if isinstance(one, dict) else one).lower()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what *arguments* (default: the command line) ask for."""
    asked = _parser().parse_args(arguments)
    found: list[Result] = []
    with Memory.open(embedder="words") as memory:
        learner = Learner(memory)
        for half in HALVES[asked.half]:
            report = cases(half, learner)
            found += report.results
            if asked.cases and half == "looked":
                print(*report.missed, sep="\n")
        for what, file, read in (
            ("export", asked.export, export),
            ("LoCoMo", asked.locomo, locomo),
        ):
            if file is not None:
                found += counted(what, read(file, memory), drawn=not asked.json)
        if asked.mempalace is not None:
            found += mempalace(asked.mempalace, learner)
        if asked.statebench is not None:
            found += statebench(asked.statebench, asked.half, learner)
    if asked.json:
        print(*(one.line() for one in found), sep="\n")
    else:
        where = measure.machine(Path.cwd())
        measure.show(found, title=f"facts without a model · {where.line()}")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--half", choices=tuple(HALVES), default="looked")
    parser.add_argument(
        "--cases", action="store_true", help="print each miss of the half looked at"
    )
    parser.add_argument("--json", action="store_true", help="print a line of JSON for each figure")
    parser.add_argument("--export", type=Path, help="a file of messages that alveus import reads")
    parser.add_argument("--locomo", type=Path, help="conversations as lines of JSON")
    parser.add_argument(
        "--mempalace", type=Path, help="benchmarks/model_eval/datasets of MemPalace"
    )
    parser.add_argument("--statebench", type=Path, help="StateBench's folder of a release")
    return parser


if __name__ == "__main__":
    sys.exit(main())
