"""Every page is a program: its Python blocks run from top to bottom, in an empty folder."""

from __future__ import annotations

import doctest
import sys
import traceback
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

from pages import ROOT, Block, blocks, pages

if TYPE_CHECKING:
    from pathlib import Path

PYTHON = {"python", "py", "python3", "pycon"}
REASON_WORDS = 2


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A reader who copies the blocks of a page, in order, gets what the page says."""
    program = ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", program)
    monkeypatch.chdir(tmp_path)
    for block in blocks(page):
        if block.language in PYTHON and block.no_run is None:
            run(block, vars(program))


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_block_that_does_not_run_says_why(page: Path):
    """`<!-- no-run: reason -->` without a reason is a block that nobody checks."""
    for block in blocks(page):
        if block.no_run is not None:
            assert block.language in PYTHON, f"{block.place}: no-run stands before no Python block"
            assert len(block.no_run.split()) >= REASON_WORDS, (
                f"{block.place}: no-run needs a reason"
            )


def run(block: Block, namespace: dict[str, Any]) -> None:
    """Run *block* in *namespace*; a failure names the line of the page."""
    if block.language == "pycon" or block.code.lstrip().startswith(">>>"):
        run_session(block, namespace)
        return
    padding = "\n" * (block.line - 1)  # so that tracebacks show the lines of the page
    try:
        code = compile(padding + block.code, str(block.page), "exec", dont_inherit=True)
        exec(code, namespace)  # noqa: S102 - running the page is the test
    except SyntaxError as error:
        pytest.fail(f"{block.page.relative_to(ROOT)}:{error.lineno}: {error!r}", pytrace=False)
    except BaseException as error:
        frames = traceback.extract_tb(error.__traceback__)
        line = [frame.lineno for frame in frames if frame.filename == str(block.page)][-1]
        error.add_note(f"{block.page.relative_to(ROOT)}:{line}")
        raise


def run_session(block: Block, namespace: dict[str, Any]) -> None:
    """Run a block of `>>>` lines in *namespace*, and compare what it prints."""
    examples = doctest.DocTestParser().get_examples(block.code, block.place)
    session = doctest.DocTest(
        examples, {}, block.place, str(block.page.relative_to(ROOT)), block.line - 1, block.code
    )
    session.globs = namespace
    output: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS, verbose=False)
    runner.run(session, out=output.append, clear_globs=False)
    if runner.failures:
        pytest.fail("".join(output), pytrace=False)
