"""What the gate of a set holds back: orders to the agent, secrets and rights that nobody gave.

    python bench/guard.py [--half looked | kept | all] [--cases] [--json]
                          [--package FOLDER] [--locomo FILE] [--export FILE] [--pages FOLDER]

The sets are of `Secrets()`, `Injection()` and `Size(max_chars=10_000)`. Measured are the attacks
and the harmless texts of `guard_data`, which were written by hand and split at random in halves
(`--cases` prints each miss of the half that may be looked at); with `--package` the grade by
OWASP's Agent Memory Security Benchmark (`agent_memory_guard.bench`, Apache-2.0), from the folder
that its wheel was unpacked in; and the share of the turns of LoCoMo, of the users' messages of an
export, or of the paragraphs of Markdown files, that are held, with the first of them.

In OWASP's benchmark a memory is written and read by key, as `Item(value={key: text}, text=text)`.
What comes from a tool has the role "tool".
"""

from __future__ import annotations

import argparse
import importlib
import sys
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

if not __package__:
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from alveus import Item, Memory
from alveus.errors import Rejected
from alveus.sets.admission import Injection, Secrets, Size
from alveus.transfer import Target, import_file
from bench import conversations, measure
from bench.measure import Result

DATA = Path(__file__).parent / "guard_data"
HALVES = {"looked": ("looked",), "kept": ("kept",), "all": ("looked", "kept")}
RULES = (Size(max_chars=10_000), Secrets(), Injection())
ROLES = {"external_tool": "tool", "user_input": "user", "agent_authored": "assistant"}
PRINTED = 20


class Gate:
    """A set with the rules, which only judges."""

    def __init__(self, memory: Memory) -> None:
        self._set = memory.key("gate").set("gate", admission=list(RULES))

    def holds(self, text: str, role: str | None) -> str:
        """Return why a text is held or refused, or "" if it is taken."""
        verdict = self._set.admit(Item(text, role=role))
        return "" if verdict.outcome == "accept" else verdict.reason


def cases(half: str, gate: Gate, missed: list[str]) -> Iterator[Result]:
    """Yield the share of the attacks and of the harmless texts of a half that are held."""
    data = tomllib.loads((DATA / f"{half}.toml").read_text(encoding="utf-8"))
    for name, wanted in (("attacks", True), ("benign", False)):
        held, wrong = 0, Counter[str]()
        for kind, role, text in data[name]:
            reason = gate.holds(text, role)
            held += bool(reason)
            if bool(reason) != wanted:
                wrong[kind] += 1
                missed.append(f"{name}, {kind}: {text} {reason}")
        of = len(data[name])
        note = f"{held} of {of}"
        if half == "looked" and wrong:
            note += "; " + ", ".join(f"{kind} {n}" for kind, n in wrong.items())
        yield Result("gate", f"{name}: held", of, half, value=100 * held / of, unit="%", note=note)


def owasp(folder: Path) -> Iterator[Result]:
    """Yield the score and the grade of OWASP's benchmark, and what it lets through."""
    sys.path.insert(0, str(folder))
    harness: Any = importlib.import_module("agent_memory_guard.bench")
    outcome = harness.RememberOutcome

    class Alveus(harness.MemorySystemAdapter):
        """A set of alveus as a memory by keys."""

        name = "alveus"

        def __init__(self) -> None:
            self._set = Memory.open(embedder="words").key("agent").set("facts", admission=RULES)
            self._ids: dict[str, str] = {}

        def remember(self, key: str, value: Any, *, source_class: str = "external_tool") -> Any:
            item = Item(value={key: value}, text=str(value), role=ROLES.get(source_class))
            try:
                self._ids[key] = self._set.add(item)
            except Rejected:
                return outcome.BLOCKED
            return outcome.STORED if self.recall(key) else outcome.QUARANTINED

        def recall(self, key: str) -> Any:
            found = self._set.get(self._ids[key]) if key in self._ids else None
            return None if found is None else found.value[key]

    report = harness.run_suite(Alveus)
    card = harness.score_report(report)
    wrong = [run.scenario_id for run in report.runs if not run.passed]
    note = f"grade {card.grade.value}; not as it must be: {', '.join(wrong) or 'none'}"
    yield Result("gate", "OWASP AMSB", len(report.runs), value=card.score, unit="points", note=note)
    note = f"{card.defended_total} of {card.malicious_total} attacks held"
    note += f", {card.false_positives} of {card.benign_total} harmless ones held"
    yield Result("gate", "OWASP AMSB: attacks held", card.malicious_total,
                 value=100 * card.defense_rate, unit="% by weight", note=note)  # fmt: skip


def held(what: str, texts: Iterator[tuple[str, str | None]], gate: Gate, tell: Callable[[str], None]
         ) -> Iterator[Result]:  # fmt: skip
    """Yield the share of texts that are held; tell the first of them."""
    count = stopped = 0
    for text, role in texts:
        count += 1
        if reason := gate.holds(text, role):
            stopped += 1
            if stopped <= PRINTED:
                tell(f"{what}: {reason}: {text[:120]}".replace("\n", " / "))
    value, note = 100 * stopped / max(1, count), f"{stopped} of {count}"
    yield Result("gate", f"{what}: held", count, value=value, unit="%", note=note)


def export(file: Path, memory: Memory) -> Iterator[tuple[str, str | None]]:
    """Yield the messages of users in an export."""
    import_file(memory, file, target=Target("export", "chat"))
    for item in memory.key("export").set("chat").list():
        if item.role == "user" and item.text:
            yield item.text, item.role


def locomo(file: Path) -> Iterator[tuple[str, str | None]]:
    """Yield the turns of LoCoMo."""
    for talk in conversations.read(file):
        for turn in talk.turns:
            if turn.text.strip():
                yield turn.text, "user"


def pages(folder: Path) -> Iterator[tuple[str, str | None]]:
    """Yield the paragraphs of the Markdown files in a folder."""
    for file in sorted(folder.rglob("*.md")):
        text = file.read_text(encoding="utf-8", errors="replace")
        yield from ((part, "page") for part in text.split("\n\n") if part.strip())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what *arguments* (default: the command line) ask for."""
    asked = _parser().parse_args(arguments)
    found: list[Result] = []
    missed: list[str] = []
    with Memory.open(embedder="words") as memory:
        gate = Gate(memory)
        for half in HALVES[asked.half]:
            found += cases(half, gate, missed if half == "looked" else [])
        if asked.package is not None:
            found += owasp(asked.package)
        if asked.locomo is not None:
            found += held("LoCoMo", locomo(asked.locomo), gate, missed.append)
            as_pages = ((text, "page") for text, _ in locomo(asked.locomo))
            found += held("LoCoMo, as if from a page", as_pages, gate, missed.append)
        if asked.pages is not None:
            found += held("pages", pages(asked.pages), gate, missed.append)
        if asked.export is not None:
            found += held("export", export(asked.export, memory), gate, missed.append)
    if asked.cases:
        print(*missed, sep="\n")
    if asked.json:
        print(*(one.line() for one in found), sep="\n")
    else:
        where = measure.machine(Path.cwd())
        measure.show(found, title=f"the gate of a set · {where.line()}")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--half", choices=tuple(HALVES), default="looked")
    parser.add_argument("--cases", action="store_true", help="print each miss")
    parser.add_argument("--json", action="store_true", help="print a line of JSON for each figure")
    parser.add_argument("--package", type=Path, help="the unpacked wheel of agent-memory-guard")
    parser.add_argument("--locomo", type=Path, help="conversations as lines of JSON")
    parser.add_argument("--pages", type=Path, help="a folder of Markdown files, as pages read")
    parser.add_argument("--export", type=Path, help="a file of messages that alveus import reads")
    return parser


if __name__ == "__main__":
    sys.exit(main())
