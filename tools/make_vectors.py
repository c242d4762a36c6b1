"""The tables of vectors: what a system that alveus has the names of does, and what alveus does."""

# ruff: noqa: E501 - a sentence is a line of the page

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Vectors:
    """A system's vectors, each a test whose name begins with its id.

    Attributes:
        system: As docstrings call it.
        title: As the page calls it.
        tests: The file of the tests.
        ids: What is between "test_" and "_" in the name of a vector's test.
        about: What the page says of them.
        renamed: Letters of tests that are others in ids.
        more: Files of tests that need the system's own package.
    """

    system: str
    title: str
    tests: str
    ids: str
    about: str
    renamed: tuple[str, str] = ("", "")
    more: tuple[str, ...] = ()

    def page(self) -> str:
        """Return the page as it should be."""
        return f"""\
# {self.title}, one by one

<!-- Written by tools/make_vectors.py from {self.tests}. Change it there: `make docs`. -->

{self.about}
Each case is a test, whose name contains the id of the case, in {" or ".join(f"`{name}`" for name in (self.tests, *self.more))}.
In the table, *kept* means that alveus behaves as {self.system} does, and *mended* that alveus behaves differently.

| Vector | Case | | In {self.system} | In alveus |
|---|---|---|---|---|
{chr(10).join(self._rows())}
"""

    def _rows(self) -> Iterator[str]:
        files = [(ROOT / name).read_text(encoding="utf-8") for name in (self.tests, *self.more)]
        nodes = [node for text in files for node in ast.parse(text).body]
        for node in nodes:
            if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                continue
            found = re.match(rf"test_({self.ids})_(\w+)", node.name)
            if found is not None:
                vector, case = found[1].upper().replace(*self.renamed), found[2].replace("_", " ")
                yield f"| {vector} | {case} | {self._said(node)} |"

    def _said(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
        text = " ".join((ast.get_docstring(node) or "").split()).replace("|", "\\|")
        if both := re.fullmatch(r"Both: (.+)", text):
            return f"kept | {_sentence(both[1])} | The same."
        mended = re.fullmatch(rf"(?:{self.system}: )?(.+) alveus: (.+)", text)
        if mended is None:
            message = f"the docstring of {node.name} does not say what both systems do"
            raise ValueError(message)
        return f"mended | {_sentence(mended[1])} | {_sentence(mended[2])}"


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:]


DBGPT = Vectors(
    system="DB-GPT",
    title="DB-GPT's vectors",
    tests="tests/test_dbgpt_vectors.py",
    ids=r"[dv]\d+",
    renamed=("V", "P"),
    about="""\
This page compares the memory of DB-GPT's agents with alveus, in 86 small cases.
We found the cases D by running DB-GPT's code; the cases P are functions that DB-GPT declares but does not implement.""",
)

THINKER = Vectors(
    system="thinker",
    title="thinker's vectors",
    tests="tests/test_thinker_vectors.py",
    ids=r"t\d\d",
    about="""\
This page compares the memory of thinker's agents with alveus, in 38 small cases.
Most cases come from thinker's code and tests; the others come from the plan of its guide to memory.""",
)

AGENTSCOPE = Vectors(
    system="AgentScope",
    title="AgentScope's vectors",
    tests="tests/test_agentscope_vectors.py",
    ids=r"a\d+",
    more=(
        "tests/integrations/test_agentscope_middleware.py",
        "tests/integrations_older/test_agentscope_memory.py",
    ),
    about="""\
This page compares AgentScope's messages and their memory with alveus, in 105 small cases.
We found the cases by running or reading AgentScope: A01 to A36 in its first versions, A37 to A45 in 0.1, A46 to A83 in 1.0, and the others in all versions.""",
)
