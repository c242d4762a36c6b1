"""The page of the contracts: a row for each promise, a column for each store or runner that keeps it.

A store is held to the contract by its class in tests/test_store_contract.py; what that class
inherits says which promises are tested on it.
"""

# ruff: noqa: E501 - a sentence is a line of the page

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from harness.runner.contract import RunnerContract
from harness.store.contract import WholeContract, WholePersistentContract

ROOT = Path(__file__).resolve().parent.parent

STORES = {"TestRam": "RAM", "TestSqlite": "SQLite", "TestPostgres": "PostgreSQL"}

RUNNERS = {**STORES, "TestInFlink": "Flink"}

INTRO = """\
# The contract of a store

<!-- Written by tools/make_contract.py from the laws and the classes that inherit them. Change it there: `make docs`. -->

This page lists the promises of a store.
Every promise is a test, which `make test` runs on every store of alveus.
The tests below `src/alveus/testing` are part of the package, as `alveus.testing.StoreContract`; the tests below `tests/harness` are part of the sources only.
A tick means that the test runs on that store; the tests of data after a store was closed do not run on RAM.
[A custom store](stores.md) inherits the tests of the package.
"""


RUNNER_INTRO = """\
## The contract of a runner

Every promise of a runner is a test, too.
The tests run with a local runner on each store, and inside a job of Flink, where inputs come through the job and exact memory is read from keyed state.
Other tests [kill the processes of Flink jobs](flink.md), raise errors in them and change their parallelism, and check that each input and output is processed exactly once.
"""


def contract_page(_page: str) -> str:
    """Return the page."""
    stores = _kept("test_store_contract.py", STORES, WholeContract, WholePersistentContract)
    runners = _kept("test_runner.py", RUNNERS, RunnerContract)
    runners |= _kept("flink_laws.py", RUNNERS, RunnerContract)
    tables = _sections(WholePersistentContract, stores)
    more = _sections(RunnerContract, runners)
    return "\n".join([INTRO, *tables, RUNNER_INTRO, *more]) + "\n"


def _kept(file: str, names: dict[str, str], *contracts: type) -> dict[str, type]:
    """The contract that each class in a file of tests is held to, by the name of what it tests."""
    by_name = {one.__name__: one for one in contracts}
    return {
        names[node.name]: by_name[base.id]
        for node in ast.parse((ROOT / "tests" / file).read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef) and node.name in names
        for base in node.bases
        if isinstance(base, ast.Name) and base.id in by_name
    }


def _sections(whole: type, kept: dict[str, type]) -> Iterator[str]:
    for laws in whole.__mro__:
        tests = {name: one for name, one in vars(laws).items() if name.startswith("test_")}
        if not tests:
            continue
        yield f"## {(inspect.getdoc(laws) or '').splitlines()[0].rstrip('.')}\n"
        file = Path(inspect.getfile(laws)).relative_to(ROOT)
        yield f"Tests: `{file}`.\n"
        yield f"| promise | {' | '.join(kept)} |"
        yield f"|---|{'---|' * len(kept)}"
        for name, test in tests.items():
            says = ((inspect.getdoc(test) or "").splitlines() or [""])[0].replace("|", "\\|")
            title = name.removeprefix("test_").replace("_", " ")
            ticks = " | ".join("✓" if issubclass(one, laws) else "" for one in kept.values())
            yield f"| **{title}**{f': {says}' if says else ''} | {ticks} |"
        yield ""
