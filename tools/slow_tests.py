"""Find the everyday tests that take long, and write them down in tests/slow.txt.

    python tools/slow_tests.py              run them all (a quarter of an hour), and write the list
    python tools/slow_tests.py --read FILE  of a report that `pytest --junitxml=FILE` has written

A test on the list is not run by `make check`, but by `make test`, at full scale.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

ROOT = Path(__file__).parent.parent
LIST = ROOT / "tests" / "slow.txt"
REPORT = ROOT / "build" / "tests.xml"

SLOW_S = 0.25
"""A test is slow that takes longer for one of its parameters."""

SLOW_TOGETHER_S = 1.5
"""Or for all of them together."""

ALONE = frozenset(
    f"test_{name}.py"
    for name in (
        *("anthropic_memory", "demo", "inspector", "langgraph", "postgres", "runner", "server"),
        *("server_events", "server_mem0", "server_memory_stores", "store_random"),
    )
)
"""Files whose tests alone run much of alveus: without them the everyday run would not show it."""

ALONE_S = 6.5
"""A test of those is slow that takes longer, whatever its parameters take together."""

UNWATCHED = frozenset((ROOT / "tests" / "unwatched.txt").read_text(encoding="utf-8").split())

UNWATCHED_S = 0.1
"""Or longer than this, if coverage does not watch it: others show what it runs."""

RUN = (
    *("-m", "pytest", "-q", "-n", "2", "--dist", "worksteal", "-o", "junit_duration_report=call"),
    *("-m", "not wheel and not server and not flink and not browser"),
)


def slow_tests(report: Path) -> set[str]:
    """Return the tests of a report that are slow, as `test_sets.py::test_adds`."""
    times: dict[str, list[float]] = {}
    for case in ET.parse(report).iter("testcase"):  # noqa: S314 - pytest wrote it
        _, module, *owner = case.get("classname", "").split(".")
        test = case.get("name", "").partition("[")[0]
        name = "::".join((f"{module}.py", *owner, test))
        times.setdefault(name, []).append(float(case.get("time", 0)))
    return {name for name, took in times.items() if _is_slow(name, took)}


def _is_slow(name: str, took: list[float]) -> bool:
    if name in UNWATCHED and max(took) > UNWATCHED_S:
        return True
    if name.partition("::")[0] in ALONE:
        return sum(took) > ALONE_S
    return max(took) > SLOW_S or sum(took) > SLOW_TOGETHER_S


def main() -> None:
    """Write the list."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--read", type=Path, help="a report, in place of running the tests")
    asked = parser.parse_args()
    if asked.read is None:
        command = [sys.executable, *RUN, f"--junitxml={REPORT}"]
        status = subprocess.run(command, cwd=ROOT, check=False).returncode
        if status != 0:
            raise SystemExit(status)
    found = slow_tests(asked.read or REPORT)
    LIST.write_text("".join(f"{name}\n" for name in sorted(found)), encoding="utf-8")
    print(f"{len(found)} tests in {LIST.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
