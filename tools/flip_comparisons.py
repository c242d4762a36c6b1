"""Flip comparison operators at random, one at a time, and see whether the tests notice.

    python tools/flip_comparisons.py --seed 7                  40 flips in 30 files, `make .tests`
    python tools/flip_comparisons.py --seed 7 --list           print them, change nothing
    python tools/flip_comparisons.py --seed 7 --only 3,17      these alone
    python tools/flip_comparisons.py --seed 7 --command "…"    what has to fail; {file} is flipped

The flips are made in a copy of the repository, and the command runs in it. `<` becomes `<=`, `==`
becomes `!=`, `is` becomes `is not`, `in` becomes `not in`, and so on. A flip that the command does
not notice is printed with its line: either a test is missing, or the two mean the same there
(`size > 0` and `size >= 1`). The exit code is the number of flips that were not noticed.
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
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
CORE = ("facts", "memory", "runs", "search", "sets", "state", "store", "text", "values")
"""The rooms that are flipped: what keeps memory, and what it answers."""
ELSEWHERE = ("store/postgres", "runs/runner/flink", "memory/remote")
"""Folders in them that are left out: their tests need a server, which `make test` starts."""

OTHER_SIDE: dict[type[ast.cmpop], str] = {
    ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==",
    ast.Is: "is not", ast.IsNot: "is", ast.In: "not in", ast.NotIn: "in",
}  # fmt: skip
LONGEST_S = 1_800
"""What one run of the command may take; a run that hangs has noticed."""


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


def fails(command: str, copy: Path) -> bool:
    """Return whether the command fails in the copy, or hangs."""
    try:
        run = subprocess.run(
            ["sh", "-c", command],
            cwd=copy,
            env=os.environ | {"PYTHONPATH": str(copy / "src")},
            check=False,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=LONGEST_S,
        )
    except subprocess.TimeoutExpired:
        return True
    return run.returncode != 0


def noticed(flip: Flip, copy: Path, command: str) -> bool:
    """Return whether the command fails with the flip."""
    path = copy / flip.path
    source = path.read_text(encoding="utf-8")
    path.write_text(flip.applied(source), encoding="utf-8")
    try:
        return fails(command.replace("{file}", flip.path), copy)
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
    parser.add_argument("--command", default="make .tests", help="what has to fail")
    parser.add_argument("--list", action="store_true", help="print the flips, change nothing")
    parser.add_argument("--json", action="store_true", help="print one JSON object for each")
    return parser.parse_args()


def report(number: int, flip: Flip, *, caught: bool | None, took_s: float, as_json: bool) -> None:
    """Print one flip; *caught* is None if it was only listed."""
    if as_json:
        print(json.dumps({"number": number, "caught": caught, "took_s": took_s} | asdict(flip)))
    else:
        state = {None: "", True: "caught", False: "MISSED"}[caught]
        where = f"{flip.path}:{flip.line}"
        print(f"{number:3} {state:6} {took_s:6.0f} s  {where} {flip.operator}: {flip.text}")
    sys.stdout.flush()


def main() -> None:
    """Flip, run, and print what was not noticed."""
    options = arguments()
    flips = list(enumerate(drawn(options.seed, files=options.files, count=options.count), start=1))
    if options.only:
        wanted = {int(each) for each in options.only.split(",")}
        flips = [(number, flip) for number, flip in flips if number in wanted]
    missed = 0
    with tempfile.TemporaryDirectory() as folder:
        copy = None if options.list else copied(Path(folder))
        if copy is not None and fails(options.command.replace("{file}", ""), copy):
            sys.exit(f"{options.command!r} fails without a flip too; mend that first")
        for number, flip in flips:
            begun = time.monotonic()
            caught = None if copy is None else noticed(flip, copy, options.command)
            missed += caught is False
            took_s = round(time.monotonic() - begun, 1)
            report(number, flip, caught=caught, took_s=took_s, as_json=options.json)
    raise SystemExit(missed)


if __name__ == "__main__":
    main()
