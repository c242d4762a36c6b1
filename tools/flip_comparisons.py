"""Flip comparison operators at random, one at a time, and see whether the tests notice.

    python tools/flip_comparisons.py --seed 7                  40 flips in 30 files
    python tools/flip_comparisons.py --seed 7 --list           print them, change nothing
    python tools/flip_comparisons.py --seed 7 --only 3,17      these alone
    python tools/flip_comparisons.py --seed 7 --reached FILE   skip the run without a flip
    python tools/flip_comparisons.py --seed 7 --command "…"    what has to fail in the end

The flips are made in a copy of the repository, and the tests run in it. `<` becomes `<=`, `==`
becomes `!=`, `is` becomes `is not`, `in` becomes `not in`, and so on.

The everyday tests run once without a flip, and coverage records which files of tests reach which
line (build/reached.json; `--reached` reads it in a later run on the same commit). For each flip,
the files that reach its line run up to the first failure, the most specific first. Only a flip that
passes all of them goes through the command, `make .tests`. A flip that the command does not notice
is printed with its line: either a test is missing, or the two mean the same there (`size > 0` and
`size >= 1`). The exit code is the number of flips that were not noticed.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path

from coverage import CoverageData

ROOT = Path(__file__).parent.parent
REACHED = ROOT / "build" / "reached.json"
CORE = ("facts", "memory", "runs", "search", "sets", "state", "store", "text", "values")
"""The rooms that are flipped: what keeps memory, and what it answers."""
ELSEWHERE = ("store/postgres", "runs/runner/flink", "memory/remote")
"""Folders in them that are left out: their tests need a server, which `make test` starts."""

OTHER_SIDE: dict[type[ast.cmpop], str] = {
    ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==",
    ast.Is: "is not", ast.IsNot: "is", ast.In: "not in", ast.NotIn: "in",
}  # fmt: skip
LONGEST_S = 1_800
"""What one run of tests may take; a run that hangs has noticed."""
MOST_SPECIFIC = 6
"""Files of tests that run before the others that reach a line."""
PYTEST = "-m pytest -q -p no:cacheprovider"
TEST_S = 120
"""What one test may take with a flip, hundreds of times its usual time; one that hangs fails."""

Reached = dict[str, dict[str, list[str]]]
"""The files of tests that reach a line of a file, by the path of the file and the line's number."""


@dataclass(frozen=True)
class Flip:
    """One operator of a file.

    Attributes:
        begin, end: Offsets into the file between which the operator stands, with blanks.
    """

    path: str
    line: int
    begin: int
    end: int
    operator: str
    text: str

    def applied(self, source: str) -> str:
        """Return the source with the operator flipped."""
        return f"{source[: self.begin]} {self.operator} {source[self.end :]}"


def flips_of(path: Path) -> list[Flip]:
    """Return the comparisons of a file that stand on one line."""
    source = path.read_text(encoding="utf-8")
    lines = source.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))

    def offset(line: int, column: int) -> int:
        return starts[line - 1] + len(lines[line - 1].encode()[:column].decode())

    found = list[Flip]()
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Compare) or node.lineno != node.end_lineno:
            continue
        sides = [node.left, *node.comparators]
        for operator, left, right in zip(node.ops, sides, sides[1:], strict=False):
            begin = offset(left.end_lineno or 0, left.end_col_offset or 0)
            end = offset(right.lineno, right.col_offset)
            if set(source[begin:end]) & set("()#\n"):
                continue  # a side in brackets of its own
            text = lines[node.lineno - 1].strip()
            flipped = OTHER_SIDE[type(operator)]
            relative = str(path.relative_to(ROOT))
            found.append(Flip(relative, node.lineno, begin, end, flipped, text))
    return found


def drawn(seed: int, *, files: int, count: int) -> list[Flip]:
    """Return *count* flips in *files* files of the core, at least one in each."""
    chance = random.Random(seed)
    package = ROOT / "src" / "alveus"
    left_out = [package / folder for folder in ELSEWHERE]
    by_file = [
        found
        for path in sorted(path for room in CORE for path in (package / room).rglob("*.py"))
        if not any(path.is_relative_to(folder) for folder in left_out)
        if (found := flips_of(path))
    ]
    chosen = chance.sample(by_file, files)
    first = [chance.choice(flips) for flips in chosen]
    rest = [flip for flips in chosen for flip in flips if flip not in first]
    return first + chance.sample(rest, count - files)


def fails(command: str, copy: Path, **environment: str) -> bool:
    """Return whether the command fails in the copy, or hangs."""
    try:
        run = subprocess.run(
            ["sh", "-c", command],
            cwd=copy,
            env=os.environ | {"PYTHONPATH": str(copy / "src")} | environment,
            check=False,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=LONGEST_S,
        )
    except subprocess.TimeoutExpired:
        return True
    return run.returncode != 0


def reached_lines(copy: Path, jobs: int) -> Reached:
    """Return which files of tests reach each line, by a run of the everyday tests in the copy."""
    python = ".venv/bin/python"
    run = f"{python} -m coverage run {PYTEST} -n {jobs} --dist loadfile"
    if fails(run, copy, ALVEUS_TEST_FILES="1", ALVEUS_TEST_SCALE="quick"):
        sys.exit("the everyday tests fail without a flip too; mend that first")
    subprocess.run([python, "-m", "coverage", "combine", "--quiet"], cwd=copy, check=True)
    data = CoverageData(str(copy / ".coverage"))
    data.read()
    reached: Reached = {}
    for path in data.measured_files():
        by_line = data.contexts_by_lineno(path).items()
        lines = {str(line): sorted(filter(None, files)) for line, files in by_line}
        reached[str(Path(path).relative_to(copy))] = lines
    return reached


def tests_of(flip: Flip, reached: Reached) -> list[str]:
    """Return the files of tests that reach the line of a flip, the most specific first.

    The specific ones spend a large part of their lines in the flipped file.
    """
    here = reached.get(flip.path, {})
    elsewhere = Counter(
        test for lines in reached.values() for each in lines.values() for test in each
    )
    in_file = Counter(test for each in here.values() for test in each)
    tests = here.get(str(flip.line), [])
    return sorted(tests, key=lambda test: in_file[test] / elsewhere[test], reverse=True)


def noticed(flip: Flip, copy: Path, tests: list[str], *, jobs: int, command: str) -> str | None:
    """Return the tests, or the command, that fail with the flip; None if all pass."""
    path = copy / flip.path
    source = path.read_text(encoding="utf-8")
    path.write_text(flip.applied(source), encoding="utf-8")
    specific, others = " ".join(tests[:MOST_SPECIFIC]), " ".join(tests[MOST_SPECIFIC:])
    try:
        for files in filter(None, (specific, others)):
            run = f".venv/bin/python {PYTEST} -x --timeout={TEST_S} -n {jobs} {files}"
            if fails(run, copy, ALVEUS_TEST_SCALE="quick"):
                return files
        return command if fails(command.replace("{file}", flip.path), copy) else None
    finally:
        path.write_text(source, encoding="utf-8")


def copied(folder: Path) -> Path:
    """Return a copy of the repository as it is, with the environment that it has."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout
    compiled = [str(path.relative_to(ROOT)) for path in ROOT.glob("src/alveus/values/*.so")]
    copy = folder / "alveus"
    for name in (*listed.split("\0"), *compiled):
        if name and (ROOT / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, copy / name)
    (copy / ".venv").symlink_to((ROOT / ".venv").resolve())
    for command in (["init", "--quiet"], ["add", "--all"]):  # tests ask git for the files
        subprocess.run(["git", *command], cwd=copy, check=True)
    return copy


def arguments() -> argparse.Namespace:
    """Return the arguments of the command line."""
    parser = argparse.ArgumentParser(description="See whether tests notice flipped comparisons.")
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--files", type=int, default=30)
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--only", help="numbers of flips, as --list prints them")
    parser.add_argument("--reached", type=Path, help="which tests reach a line, of an earlier run")
    parser.add_argument("--jobs", type=int, default=2, help="tests that run side by side (2)")
    parser.add_argument("--command", default="make .tests", help="what has to fail in the end")
    parser.add_argument("--list", action="store_true", help="print the flips, change nothing")
    parser.add_argument("--json", action="store_true", help="print one JSON object for each")
    return parser.parse_args()


def report(number: int, flip: Flip, outcome: dict[str, object] | None, *, as_json: bool) -> None:
    """Print one flip, and its outcome if it was tried."""
    if as_json:
        print(json.dumps({"number": number} | (outcome or {}) | asdict(flip)))
    else:
        state = "" if outcome is None else "caught" if outcome["by"] else "MISSED"
        where = f"{flip.path}:{flip.line}"
        print(f"{number:3} {state:6}  {where} {flip.operator}: {flip.text}")
    sys.stdout.flush()


def main() -> None:
    """Flip, run, and print what was not noticed."""
    options = arguments()
    flips = list(enumerate(drawn(options.seed, files=options.files, count=options.count), start=1))
    if options.only:
        wanted = {int(each) for each in options.only.split(",")}
        flips = [(number, flip) for number, flip in flips if number in wanted]
    if options.list:
        for number, flip in flips:
            report(number, flip, None, as_json=options.json)
        return
    missed = 0
    with tempfile.TemporaryDirectory() as folder:
        copy = copied(Path(folder))
        if options.reached is None:
            reached = reached_lines(copy, options.jobs)
            REACHED.parent.mkdir(exist_ok=True)
            REACHED.write_text(json.dumps(reached), encoding="utf-8")
        else:
            reached = json.loads(options.reached.read_text(encoding="utf-8"))
        for number, flip in flips:
            begun = time.monotonic()
            tests = tests_of(flip, reached)
            by = noticed(flip, copy, tests, jobs=options.jobs, command=options.command)
            missed += by is None
            outcome = {"by": by, "took_s": round(time.monotonic() - begun, 1)}
            report(number, flip, outcome, as_json=options.json)
    raise SystemExit(missed)


if __name__ == "__main__":
    main()
