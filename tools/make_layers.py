"""The generated parts of the pages on layers: a table of vectors, and a picture of the flow."""

# ruff: noqa: E501 - a sentence is a line of the page

from __future__ import annotations

import ast
import asyncio
import re
from collections.abc import Iterator
from pathlib import Path

from fornix.layers import (
    AgentMemoryFragment,
    EnhancedShortTermMemory,
    HybridMemory,
    LongTermMemory,
    SensoryMemory,
)
from fornix.layers.layer import Memory

ROOT = Path(__file__).resolve().parent.parent
TESTS = ROOT / "tests" / "test_dbgpt_vectors.py"
BEGIN, END = "<!-- flow: written by tools/make_layers.py -->", "<!-- end of the flow -->"

INTRO = """\
# DB-GPT's vectors, one by one

<!-- Written by tools/make_layers.py from tests/test_dbgpt_vectors.py. Change it there: `make docs`. -->

What a program of DB-GPT's agents sees of their memory, as 79 small cases.
D vectors were drawn from running its code, P vectors from what it declares and does not do.
Each is a test by its id in `tests/test_dbgpt_vectors.py`; a test sees to it that none is missing.
*Kept* means that fornix does what DB-GPT does, *mended* that it does something else, and the row says what.

| Vector | | In DB-GPT | In fornix |
|---|---|---|---|
"""


def vectors_page() -> str:
    """Return docs/dbgpt-vectors.md as it should be."""
    return INTRO + "\n".join(_rows()) + "\n"


def _rows() -> Iterator[str]:
    tree = ast.parse(TESTS.read_text(encoding="utf-8"))
    for node in tree.body:
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        found = re.match(r"test_([dv]\d+)_", node.name)
        if found is None:
            continue
        vector = found[1].upper().replace("V", "P")
        text = " ".join((ast.get_docstring(node) or "").split()).replace("|", "\\|")
        both = re.fullmatch(r"Both: (.+)", text)
        mended = re.fullmatch(r"DB-GPT: (.+) fornix: (.+)", text)
        if both:
            yield f"| {vector} | kept | {_sentence(both[1])} | The same. |"
        elif mended:
            yield f"| {vector} | mended | {_sentence(mended[1])} | {_sentence(mended[2])} |"
        else:
            message = f"the docstring of {node.name} does not say what DB-GPT does and fornix does"
            raise ValueError(message)


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:]


def layers_page(there: str) -> str:
    """Return docs/layers.md with the picture that the layers draw now."""
    before, _, rest = there.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n```text\n{flow()}\n```\n{END}{after}"


def flow() -> str:
    """Return a picture: fragments on their way through layers, after each write."""
    return asyncio.run(_flow())


async def _flow() -> str:
    layers = HybridMemory(
        sensory_memory=SensoryMemory(1),
        short_term_memory=EnhancedShortTermMemory(
            _vectors, buffer_size=3, enhance_threshold=1, random=lambda: 0.0
        ),
        long_term_memory=LongTermMemory(k=100),
    )
    names = ("sensory", "short-term", "long-term")
    lines = [_line("write", names)]
    for text in ("tea", "cake", "more tea", "rain", "bus", "sun", "snow"):
        dropped = await layers.write(AgentMemoryFragment(text))
        assert dropped is None
        held = [[f.raw_observation for f in await _held(part)] for part in layers.parts()]
        lines.append(
            _line(text, [", ".join(sorted(one) if n == 2 else one) for n, one in enumerate(held)])
        )
    await layers.clear()
    layers.close()
    return "\n".join(lines)


async def _held(part: Memory[AgentMemoryFragment]) -> list[AgentMemoryFragment]:
    return await part.read("")


def _line(text: str, held: list[str] | tuple[str, ...]) -> str:
    sensory, short, long = held
    return f"{text:<9}→  {sensory:<10}→  {short:<22}→  {long}".rstrip()


def _vectors(texts: list[str]) -> list[list[float]]:
    words = ("tea", "cake", "rain", "bus", "sun", "snow")
    return [[float(word in text) for word in words] for text in texts]
