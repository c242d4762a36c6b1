"""The blocks of the pages that need these packages, which no other environment has."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

from pages import ROOT, Block, blocks
from test_docs import PYTHON, run

HERE = "make test-integrations runs it, beside older packages"
"""What such a block says before it."""


def found() -> list[Block]:
    every = [block for page in (ROOT / "docs").rglob("*.md") for block in blocks(page)]
    return [block for block in every if block.no_run and HERE in block.no_run]


@pytest.mark.parametrize("block", found(), ids=lambda block: block.place)
def test_a_block_runs(block: Block, tmp_path, monkeypatch):
    """A reader who copies it gets what the page says."""
    assert block.language in PYTHON
    program = ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", program)
    monkeypatch.chdir(tmp_path)
    run(block, vars(program))


def test_there_are_such_blocks():
    assert found()
