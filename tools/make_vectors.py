"""The pages of vectors: tables that are made from the docstrings of their tests."""

# ruff: noqa: E501 - a sentence is a line of the page

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import cast

TESTS = Path(__file__).resolve().parent.parent / "tests"

DBGPT = """\
# DB-GPT's vectors, one by one

<!-- Written by tools/make_vectors.py from tests/test_dbgpt_vectors.py. Change it there: `make docs`. -->

What a program of DB-GPT's agents sees of their memory, as 79 small cases.
D vectors were drawn from running its code, P vectors from what it declares and does not do.
Each is a test by its id in `tests/test_dbgpt_vectors.py`; a test sees to it that none is missing.
*Kept* means that fornix does what DB-GPT does, *mended* that it does something else, and the row says what.

| Vector | | In DB-GPT | In fornix |
|---|---|---|---|
"""

AGENTSCOPE = """\
# AgentScope's vectors, one by one

<!-- Written by tools/make_vectors.py from tests/test_agentscope_vectors.py. Change it there: `make docs`. -->

What a program of AgentScope sees of its messages and their memory, as 105 small cases.
They were drawn from running or reading its versions: A01 to A36 of the first ones, A37 to A45 of 0.1, A46 to A76 of 1.0, and compression and long-term memory from A77 on.
Each is a test by its id in `tests/test_agentscope_vectors.py` or `tests/test_conversation_vectors.py`, or is named here as one of a later part; a test sees to it that each has one place.
*Kept* means that fornix does what AgentScope does, *mended* that it does something else, and the row says what.

| Vector | | In AgentScope | In fornix |
|---|---|---|---|
"""


def dbgpt_page() -> str:
    """Return docs/dbgpt-vectors.md as it should be."""
    rows = _rows("test_dbgpt_vectors.py", "DB-GPT")
    return DBGPT + "".join(f"| {name.replace('V', 'P')} {row}\n" for name, row in rows)


def agentscope_page() -> str:
    """Return docs/agentscope-vectors.md as it should be."""
    rows = dict(_rows("test_agentscope_vectors.py", "AgentScope"))
    rows |= {name: f"| later | {told} | Not here yet. |" for name, told in _later().items()}
    ordered = sorted(rows.items(), key=lambda row: int(row[0][1:]))
    return AGENTSCOPE + "".join(f"| {name} {row}\n" for name, row in ordered)


def _rows(file: str, system: str) -> Iterator[tuple[str, str]]:
    """Yield the vectors that a file of tests has, by id, each with the rest of its row."""
    for node in ast.parse((TESTS / file).read_text(encoding="utf-8")).body:
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        found = re.match(r"test_([a-z]\d+)_", node.name)
        if found is None:
            continue
        text = " ".join((ast.get_docstring(node) or "").split()).replace("|", "\\|")
        both = re.fullmatch(r"Both: (.+)", text)
        mended = re.fullmatch(rf"{system}: (.+) fornix: (.+)", text)
        if both:
            row = f"| kept | {_sentence(both[1])} | The same. |"
        elif mended:
            row = f"| mended | {_sentence(mended[1])} | {_sentence(mended[2])} |"
        else:
            message = (
                f"the docstring of {node.name} does not say what {system} does and fornix does"
            )
            raise ValueError(message)
        yield found[1].upper(), row


def _later() -> Mapping[str, str]:
    tree = ast.parse((TESTS / "test_agentscope_vectors.py").read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "LATER":
            return cast("Mapping[str, str]", ast.literal_eval(node.value))
    raise ValueError("test_agentscope_vectors.py has no LATER")


def _sentence(text: str) -> str:
    return text if text.startswith("``") else text[0].upper() + text[1:]
