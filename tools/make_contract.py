"""The page of the store contract: a row for each promise, a column for each store that keeps it.

A store is held to the contract by its class in tests/test_store_contract.py; what that class
inherits says which promises are tested on it.
"""

# ruff: noqa: E501 - a sentence is a line of the page

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path

from fornix.testing import PersistentStoreContract, StoreContract

TESTS = Path(__file__).resolve().parent.parent / "tests" / "test_store_contract.py"

CONTRACTS = {one.__name__: one for one in (StoreContract, PersistentStoreContract)}

NAMES = {"TestRam": "RAM", "TestSqlite": "SQLite", "TestPostgres": "PostgreSQL"}

INTRO = """\
# The contract of a store

<!-- Written by tools/make_contract.py from fornix.testing and its tests. Change it there: `make docs`. -->

Every promise of a store is a test of `fornix.testing`, and every store runs all of them: `make test` fails if one does not hold.
A tick says that the test runs on that store; what is kept when a store is closed is not asked of RAM.
[A store of your own](stores.md) is held to the contract in the same way.
"""


def contract_page(_page: str) -> str:
    """Return the page."""
    return "\n".join([INTRO, *_sections()]) + "\n"


def _stores() -> dict[str, type]:
    """The contract that each store is held to, by the name of the store."""
    found = {
        node.name: CONTRACTS[base.id]
        for node in ast.parse(TESTS.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef)
        for base in node.bases
        if isinstance(base, ast.Name) and base.id in CONTRACTS
    }
    return {NAMES[name]: contract for name, contract in found.items()}


def _sections() -> Iterator[str]:
    stores = _stores()
    for laws in PersistentStoreContract.__mro__:
        tests = {name: one for name, one in vars(laws).items() if name.startswith("test_")}
        if not tests:
            continue
        yield f"## {(inspect.getdoc(laws) or '').splitlines()[0].rstrip('.')}\n"
        yield f"| promise | {' | '.join(stores)} |"
        yield f"|---|{'---|' * len(stores)}"
        for name, test in tests.items():
            says = (inspect.getdoc(test) or "").splitlines()[0].replace("|", "\\|")
            title = name.removeprefix("test_").replace("_", " ")
            ticks = " | ".join("✓" if issubclass(one, laws) else "" for one in stores.values())
            yield f"| **{title}**: {says} | {ticks} |"
        yield ""
