"""The write barrier: what its rules find, and what they cost.

    python -m bench.admission [lists | detection | texts | cost] [--missed] [--owasp FOLDER]
                              [--corpus FILE]

*lists* counts what is stopped of the lists of secrets and injections (tests/data/barrier), by half,
and prints the table of docs/write-barrier.md; --missed shows what was missed of the half "tuning".
*detection* counts hits and false alarms on older made-up texts (tests/data/admission.json), what
`Near` merges of the list of pairs (tests/data/same_or_not.jsonl), with
--owasp on the scenarios of OWASP's agent-memory-guard (Apache-2.0), from a folder that its wheel
was unpacked in, and with --corpus on lines of JSON with a text and a label, "malicious" or
"benign": those texts stay there. *texts* times the two rules, text by text. *cost* times adds to a
set with and without each rule.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from alveus import Item, Memory
from alveus.sets.admission import Exact, Injection, Near, Recalled, Rule, Secrets, Size, Verdict
from alveus.sets.admission.injection import injections
from alveus.sets.admission.secrets import secrets

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "tests"))

from admission_texts import HALVES, Sample, samples  # noqa: E402 - the lists are beside the tests

TEXTS = ROOT / "tests" / "data" / "admission.json"
PAIRS = ROOT / "tests" / "data" / "same_or_not.jsonl"
SCENARIOS = Path("agent_memory_guard") / "bench" / "scenarios.py"

HELD, ADDS, ROUNDS, WORDS = 5_000, 400, 5, 12


def texts() -> dict[str, dict[str, list]]:
    """The made-up texts; secrets in the file have a ``~`` in them, so that no scanner finds any."""
    return json.loads(TEXTS.read_text(encoding="utf-8").replace("~", ""))


def verdicts(rule: Rule, contents: list[str]) -> list[Verdict]:
    """What a rule says of each of some texts."""
    with Memory.open(":memory:", embedder="words") as memory:
        guarded = memory.key("k").set("s", admission=[rule])
        return [guarded.admit(text) for text in contents]


def merged(rule: Rule, pairs: list[list[str]]) -> int:
    """How many of some pairs a rule takes for the same."""
    count = 0
    with Memory.open(":memory:", embedder="words") as memory:
        for number, (first, second) in enumerate(pairs):
            held = memory.key("k").set(f"s{number}", admission=[rule])
            held.add(first)
            count += held.admit(second).outcome == "merge"
    return count


def cosines(pairs: list[list[str]]) -> list[float]:
    """How near the texts of each pair are by the quick bundled embedder, to compare with."""
    with Memory.open(":memory:", embedder="static") as memory:
        rows = [memory.embedder.embed(pair) for pair in pairs]
    return [float(a @ b) for a, b in rows]


def detection(owasp: Path | None) -> None:
    """Print a line per detector and corpus: found of bad, false alarms of good."""
    data = texts()
    for name, rule in (("secrets", Secrets()), ("injection", Injection())):
        bad, good = data[name]["bad"], data[name]["good"]
        found = [v.outcome != "accept" for v in verdicts(rule, bad)]
        alarms = [v.outcome != "accept" for v in verdicts(rule, good)]
        line(name, sum(found), len(bad), sum(alarms), len(good))
        for text, hit in zip(bad, found, strict=True):
            if not hit:
                print(f"    missed: {text[:70]!r}")
        for text, hit in zip(good, alarms, strict=True):
            if hit:
                print(f"    alarm:  {text[:70]!r}")
    pairs()
    same, other = data["near"]["same"], data["near"]["other"]
    for threshold in (0.6, 0.7, 0.8, 0.9, 1.0):
        hits, wrong = merged(Near(threshold), same), merged(Near(threshold), other)
        line(f"near {threshold}", hits, len(same), wrong, len(other))
    near, far = cosines(same), cosines(other)
    for cut in (0.7, 0.8, 0.9, 0.95):
        hits, wrong = sum(c >= cut for c in near), sum(c >= cut for c in far)
        line(f"static cosine {cut}", hits, len(same), wrong, len(other))
    if owasp is not None:
        scenarios(owasp)


def pairs() -> None:
    """Print what `Near` merges of the list of pairs, by kind and half."""
    rows = [json.loads(line) for line in PAIRS.read_text(encoding="utf-8").splitlines()]
    for held_out in (False, True):
        for same in (True, False):
            half = [r for r in rows if (r["held_out"], r["same"]) == (held_out, same)]
            counts = {
                kind: [[r["a"], r["b"]] for r in half if r["kind"] == kind]
                for kind in dict.fromkeys(r["kind"] for r in half)
            }
            found = {kind: (merged(Near(), some), len(some)) for kind, some in counts.items()}
            kinds = ", ".join(f"{kind} {hits} of {of}" for kind, (hits, of) in found.items())
            total = sum(hits for hits, _ in found.values())
            what = "same" if same else "not the same"
            print(
                f"  {'held out' if held_out else 'tuning'}, {what}: {total} of {len(half)}: {kinds}"
            )


def scenarios(folder: Path) -> None:
    """Print what is found in OWASP's scenarios: an attack counts if one of its texts is stopped."""
    spec = importlib.util.spec_from_file_location("owasp_scenarios", folder / SCENARIOS)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules["owasp_scenarios"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    lists = [v for v in vars(module).values() if isinstance(v, (list, tuple))]
    every = {s.id: s for found in lists for s in found if isinstance(s, module.Scenario)}
    counts: dict[str, list[int]] = {}
    for scenario in every.values():
        texts = [step.value for step in scenario.steps]
        found = any(any(injections(t)) or any(secrets(t)) for t in texts)
        count = counts.setdefault(scenario.category, [0, 0])
        count[0] += found
        count[1] += 1
    for category, (found, total) in counts.items():
        print(f"  OWASP {category:20} {found:3} of {total}")


FINDERS = {
    "Secrets": (secrets, "secrets", "secrets_near"),
    "Injection": (injections, "injections", "injections_near"),
}


def lists(*, missed: bool) -> None:
    """Print what is stopped of the lists, as a table."""
    print("| rule | half | stopped | false alarms |\n|---|---|---|---|")
    wrong: list[Sample] = []
    for rule, (find, attacks, harmless) in FINDERS.items():
        for half in HALVES:
            bad, good = samples(attacks, half), samples(harmless, half)
            passed = [sample for sample in bad if not any(find(sample.text))]
            alarms = [sample for sample in good if any(find(sample.text))]
            found = f"{len(bad) - len(passed)} of {len(bad)}"
            print(f"| `{rule}()` | {half} | {found} | {len(alarms)} of {len(good)} |")
            wrong += [*passed, *alarms] if half == "tuning" else []
    for sample in wrong if missed else ():
        print(f"    {sample.kind}: {sample.text[:90]!r}")


def corpus(file: Path) -> None:
    """Print what is found in somebody else's lines of JSON."""
    counts: dict[str, list[int]] = {}
    for row in map(json.loads, file.read_text(encoding="utf-8").splitlines()):
        count = counts.setdefault(row["label"], [0, 0])
        count[0] += any(injections(row["text"]))
        count[1] += 1
    for label, (found, total) in counts.items():
        print(f"  {file.name} {label:20} {found:3} of {total}")


def text_cost() -> None:
    """Print the CPU time that the rules take for a text: the least of seven rounds."""
    sentence = "Ada prefers window seats on night trains to Vienna, and tea over coffee at noon."
    near = [s.text for name in ("secrets_near", "injections_near") for s in samples(name)]
    for name, contents in (("a sentence", [sentence] * 300), ("near-misses", near)):
        for rule, (find, *_) in FINDERS.items():
            least = min(_round(find, contents) for _ in range(7))
            print(f"  {rule:10} {name:12} {least / len(contents) * 1e6:6.1f} us a text")


def _round(find: Callable[[str], Iterator[str]], contents: list[str]) -> float:
    began = time.thread_time()
    for text in contents:
        any(find(text))
    return time.thread_time() - began


def line(name: str, found: int, bad: int, alarms: int, good: int) -> None:
    precision = found / (found + alarms) if found + alarms else 1.0
    print(
        f"  {name:20} found {found:3} of {bad}  false alarms {alarms:2} of {good}"
        f"  recall {found / bad:.2f}  precision {precision:.2f}"
    )


def cost() -> None:
    """Print the median CPU time of an add to a set of 5,000 items, by rules."""
    rules: dict[str, list[Rule]] = {
        "none": [],
        "exact": [Exact()],
        "near": [Near()],
        "exact, near": [Exact(), Near()],
        "size": [Size(max_chars=10_000)],
        "secrets": [Secrets()],
        "injection": [Injection()],
        "recalled": [Recalled()],
        "all": [Exact(), Near(), Size(max_chars=10_000), Secrets(), Injection(), Recalled()],
    }
    random.seed(1)
    vocabulary = [f"{random.choice('bdfgklmnprstvz')}{i:x}" for i in range(3_000)]

    def text() -> str:
        return " ".join(random.choices(vocabulary, k=WORDS))

    with (
        tempfile.TemporaryDirectory() as place,
        Memory.open(f"{place}/m.db", embedder="static", durability="normal") as memory,
    ):
        sets = {}
        for name, admission in rules.items():
            sets[name] = memory.key(name).set("s", admission=admission or None)
            sets[name].add_back([Item(text()) for _ in range(HELD)])
            sets[name].add(text())
        times: dict[str, list[float]] = {name: [] for name in sets}
        for _ in range(ROUNDS):
            for name, held in sets.items():
                for _ in range(ADDS // ROUNDS):
                    said = text()
                    start = time.thread_time()
                    held.add(said)
                    times[name].append(time.thread_time() - start)
    base = statistics.median(times["none"])
    for name, took in times.items():
        each = statistics.median(took)
        more = (each - base) * 1e6
        print(f"  {name:12} {each * 1e6:6.0f} us  {1 / each:7,.0f} adds/s  {more:+6.0f} us")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="?", choices=["lists", "detection", "texts", "cost"])
    parser.add_argument("--missed", action="store_true")
    parser.add_argument("--owasp", type=Path)
    parser.add_argument("--corpus", type=Path)
    chosen = parser.parse_args()
    if chosen.what in (None, "lists"):
        lists(missed=chosen.missed)
    if chosen.what in (None, "detection"):
        detection(chosen.owasp)
        if chosen.corpus is not None:
            corpus(chosen.corpus)
    if chosen.what in (None, "texts"):
        text_cost()
    if chosen.what in (None, "cost"):
        cost()


if __name__ == "__main__":
    main()
