"""Check conversation files (JSON lines) used by the demo and the tests.

    python tools/check_conversations.py FILE...
    python tools/check_conversations.py --turns 322 --queries 60 FILE

Prints one line of counts per file. Exits 1, naming every problem, if a file is malformed:
bad fields or dates, repeated ids, sessions out of order, gold that does not exist, a file too big,
or counts other than those asked for.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import Any

DATE = re.compile(r"\d{1,2}:\d{2} [ap]m on \d{1,2} [A-Z][a-z]+, \d{4}")
CATEGORIES = {1, 2, 3, 4, 5}  # multi-hop, temporal, inference, single-hop, adversarial
ADVERSARIAL = 5  # the only category that may have no gold


class Problems:
    """The problems of one file, each with where it was found."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.found: list[str] = []

    def add(self, where: str, what: str) -> None:
        self.found.append(f"{self.path}: {where}: {what}")

    def fields(self, where: str, value: Any, required: set[str], optional: set[str]) -> bool:
        """True if `value` is an object with exactly these fields."""
        if not isinstance(value, dict):
            self.add(where, "not an object")
            return False
        missing = required - value.keys()
        unknown = value.keys() - required - optional
        if missing:
            self.add(where, f"missing {', '.join(sorted(missing))}")
        if unknown:
            self.add(where, f"unknown field {', '.join(sorted(unknown))}")
        return not missing

    def text(self, where: str, value: Any) -> bool:
        """True if `value` is a non-empty string without stray white space."""
        if not isinstance(value, str) or not value or value != value.strip():
            self.add(where, f"not a non-empty, trimmed text: {value!r}")
            return False
        return True

    def objects(self, where: str, value: Any) -> list[Any]:
        """`value` if it is a non-empty list, else an empty one."""
        if not isinstance(value, list) or not value:
            self.add(where, "not a non-empty list")
            return []
        return value


def texts(value: Any) -> bool:
    """True if `value` is a list of strings (it may be empty)."""
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def when(text: Any) -> datetime | None:
    """The moment spelled like "9:10 am on 3 March, 2025", or None."""
    if not isinstance(text, str) or not DATE.fullmatch(text):
        return None
    try:
        return datetime.strptime(text, "%I:%M %p on %d %B, %Y")
    except ValueError:
        return None


def check_turns(problems: Problems, session: dict[str, Any], speakers: list[str], where: str) -> list[str]:
    """Check one session's turns; returns their ids in order."""
    ids: list[str] = []
    number = session["session_id"].removeprefix("S")
    for n, turn in enumerate(problems.objects(f"{where} turns", session["turns"]), 1):
        at = f"{where} turn {n}"
        if not problems.fields(at, turn, {"id", "speaker", "text"}, {"caption", "query"}):
            continue
        if not isinstance(turn["id"], str) or not re.fullmatch(rf"[A-Z]+{number}:{n}", turn["id"]):
            problems.add(at, f"id {turn['id']!r} is not like 'S{number}:{n}'")
            continue
        ids.append(turn["id"])
        if turn["speaker"] not in speakers:
            problems.add(at, f"speaker {turn['speaker']!r} is not one of {speakers}")
        problems.text(f"{at} text", turn["text"])
        if "caption" in turn:
            problems.text(f"{at} caption", turn["caption"])
    return ids


def check_queries(problems: Problems, queries: Any, session_of: dict[str, str], name: str) -> Counter[int]:
    """Check the questions of one conversation; returns how many there are of each category."""
    counts: Counter[int] = Counter()
    ids: set[str] = set()
    questions: set[str] = set()
    for n, query in enumerate(problems.objects(f"{name} queries", queries)):
        at = f"{name} query {n}"
        required = {"id", "question", "answer", "category", "gold", "gold_sessions"}
        if not problems.fields(at, query, required, {"raw_evidence"}):
            continue
        at = f"{name} query {query['id']}"
        if not all(problems.text(f"{at} {field}", query[field]) for field in ("id", "question", "answer")):
            continue
        if query["id"] in ids:
            problems.add(at, "id used twice")
        if query["question"] in questions:
            problems.add(at, f"question asked twice: {query['question']!r}")
        ids.add(query["id"])
        questions.add(query["question"])
        if type(query["category"]) is not int or query["category"] not in CATEGORIES:
            problems.add(at, f"category {query['category']!r} is not 1 to 5")
            continue
        counts[query["category"]] += 1
        gold = query["gold"]
        if not texts(gold) or not texts(query["gold_sessions"]):
            problems.add(at, "gold and gold_sessions must be lists of ids")
            continue
        if not gold and query["category"] != ADVERSARIAL:
            problems.add(at, "no gold")
        if len(set(gold)) != len(gold):
            problems.add(at, f"gold named twice: {gold}")
        for turn in gold:
            if turn not in session_of:
                problems.add(at, f"gold turn {turn!r} does not exist")
        expected = {session_of[turn] for turn in gold if turn in session_of}
        if set(query["gold_sessions"]) != expected:
            problems.add(at, f"gold_sessions {query['gold_sessions']} but gold lies in {sorted(expected)}")
    return counts


def check_conversation(problems: Problems, value: Any, name: str) -> dict[str, Any]:
    """Check one conversation; returns its counts."""
    counts: dict[str, Any] = {"sessions": 0, "turns": 0, "queries": 0, "captions": 0, "categories": Counter()}
    if not problems.fields(name, value, {"id", "speakers", "sessions", "queries"}, set()):
        return counts
    name = str(value["id"])
    problems.text(f"{name} id", value["id"])
    speakers = value["speakers"]
    if not texts(speakers) or len(speakers) != 2 or len(set(speakers)) != 2:
        problems.add(name, f"speakers must be two different names, not {speakers!r}")
        return counts
    session_of: dict[str, str] = {}
    seen: set[str] = set()
    last: datetime | None = None
    for n, session in enumerate(problems.objects(f"{name} sessions", value["sessions"]), 1):
        at = f"{name} session {n}"
        if not problems.fields(at, session, {"session_id", "date", "turns"}, set()):
            continue
        at = f"{name} {session['session_id']}"
        if not isinstance(session["session_id"], str) or not re.fullmatch(r"S\d+", session["session_id"]):
            problems.add(at, f"session_id {session['session_id']!r} is not like 'S{n}'")
            continue
        if session["session_id"] in seen:
            problems.add(at, "session_id used twice")
        seen.add(session["session_id"])
        date = when(session["date"])
        if date is None:
            problems.add(at, f"date {session['date']!r} is not like '9:10 am on 3 March, 2025'")
        elif last is not None and date <= last:
            problems.add(at, f"date {session['date']!r} is not after the session before it")
        last = date or last
        for turn in check_turns(problems, session, speakers, at):
            if turn in session_of:
                problems.add(at, f"turn id {turn} used twice")
            session_of[turn] = session["session_id"]
        counts["sessions"] += 1
        turns = session["turns"] if isinstance(session["turns"], list) else []
        counts["turns"] += len(turns)
        counts["captions"] += sum("caption" in turn for turn in turns if isinstance(turn, dict))
    counts["categories"] = check_queries(problems, value["queries"], session_of, name)
    counts["queries"] = counts["categories"].total()
    return counts


def check_file(path: Path, max_kb: int, expected: dict[str, int | None]) -> list[str]:
    """Check one file, print its counts, return its problems."""
    problems = Problems(path)
    try:
        raw = path.read_bytes()
        lines = raw.decode("utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        return [f"{path}: {error}"]
    if len(raw) > max_kb * 1024:
        problems.add("file", f"{len(raw)} bytes, more than {max_kb} KB")
    if lines[-1]:
        problems.add("file", "does not end with a newline")
    else:
        lines.pop()
    if not lines:
        problems.add("file", "no conversations")
    total: Counter[str] = Counter()
    categories: Counter[int] = Counter()
    ids: set[str] = set()
    for n, line in enumerate(lines, 1):
        try:
            value = json.loads(line)
        except ValueError as error:
            problems.add(f"line {n}", f"not JSON: {error}")
            continue
        counts = check_conversation(problems, value, f"line {n}")
        categories += counts.pop("categories")
        total.update(counts)
        if isinstance(value, dict) and "id" in value:
            if str(value["id"]) in ids:
                problems.add(f"line {n}", f"conversation id {value['id']!r} used twice")
            ids.add(str(value["id"]))
    for what, number in expected.items():
        if number is not None and total[what] != number:
            problems.add("file", f"{total[what]} {what}, expected {number}")
    spread = ", ".join(f"{count} of category {category}" for category, count in sorted(categories.items()))
    print(
        f"{path}: {len(lines)} conversation(s), {total['sessions']} sessions, {total['turns']} turns "
        f"({total['captions']} with a caption), {total['queries']} queries ({spread}), {len(raw)} bytes"
    )
    return problems.found


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Check conversation files (JSON lines).")
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("--max-kb", type=int, default=120, help="largest file allowed (default 120)")
    parser.add_argument("--sessions", type=int, help="exact number of sessions each file must have")
    parser.add_argument("--turns", type=int, help="exact number of turns each file must have")
    parser.add_argument("--queries", type=int, help="exact number of queries each file must have")
    options = parser.parse_args(arguments)
    expected = {"sessions": options.sessions, "turns": options.turns, "queries": options.queries}
    found = [problem for path in options.files for problem in check_file(path, options.max_kb, expected)]
    for problem in found:
        print(problem, file=sys.stderr)
    if found:
        print(f"{len(found)} problem(s)", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
