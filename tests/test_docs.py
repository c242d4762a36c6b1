"""Every page is a program: its Python blocks run from top to bottom, in an empty folder."""

from __future__ import annotations

import ast
import doctest
import inspect
import re
import shlex
import sys
import traceback
from itertools import takewhile
from types import ModuleType
from typing import TYPE_CHECKING, Any

import click
import pytest
from click.testing import CliRunner

import alveus
import alveus.agents.layers
import alveus.agents.windows
import alveus.compat.dbgpt
import alveus.sets.admission
from alveus import cli
from pages import ROOT, Block, blocks, pages

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

PYTHON = {"python", "py", "python3", "pycon"}
SHELL = {"sh", "bash", "console"}
REASON_WORDS = 2


_PRINTED = re.compile(r"^ *print\(.*\) {2,}# (.*)$", re.MULTILINE)


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_page_runs(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """A reader who copies the blocks of a page, in order, gets what the page says.

    A comment behind `print(…)` is what it prints, lines with commas between, and … for anything.
    """
    program = ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", program)
    monkeypatch.chdir(tmp_path)
    for block in blocks(page):
        if block.language in PYTHON and block.no_run is None:
            run(block, vars(program))
            printed = ", ".join(capsys.readouterr().out.splitlines())
            for told in _PRINTED.findall(block.code):
                assert re.search(re.escape(told).replace("…", ".*"), printed), block.place


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_block_that_does_not_run_says_why(page: Path):
    """`<!-- no-run: reason -->` without a reason is a block that nobody checks."""
    for block in blocks(page):
        if block.no_run is not None:
            assert block.language in PYTHON, f"{block.place}: no-run stands before no Python block"
            assert len(block.no_run.split()) >= REASON_WORDS, (
                f"{block.place}: no-run needs a reason"
            )


_COMMAND = re.compile(r"^(?:\$ )?(?:\S*/)?alveus (?P<words>.*)$", re.MULTILINE)
_OPERATORS = {"|", "&", "&&", ";", ">", "<"}


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_command_of_a_page_can_be_typed(page: Path, monkeypatch: pytest.MonkeyPatch):
    """Each `alveus …` line of a page has options and arguments that its command takes."""
    monkeypatch.setattr(click.Command, "invoke", lambda *_: None)  # read, and not run
    for block in blocks(page):
        code = block.code.replace("\\\n", " ")
        for typed in _COMMAND.finditer(code if block.language in SHELL else ""):
            read = shlex.split(typed["words"], comments=True)
            words = list(takewhile(lambda word: word not in _OPERATORS, read))
            done = CliRunner().invoke(cli.alveus, words)
            assert done.exit_code == 0, f"{block.place}: alveus {typed['words']}: {done.output}"


PUBLIC = (
    alveus,
    alveus.agents.layers,
    alveus.agents.windows,
    alveus.compat.dbgpt,
    alveus.sets.admission,
)
_CALL = re.compile(r"`([A-Z]\w*\([^`]*\))`")


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_call_in_a_sentence_can_be_made(page: Path):
    """A call that a sentence or a table shows passes its arguments where they belong."""
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        for call in _CALL.findall(line):
            wrong = misplaced(call)
            assert wrong is None, f"{page.relative_to(ROOT)}:{number}: {call}: {wrong}"


def misplaced(call: str) -> str | None:
    """Return what is wrong with the arguments of a call of a public class; None: nothing is."""
    try:
        tree = ast.parse(call.replace("\\|", "|").replace("…", "..."), mode="eval").body
    except SyntaxError:
        return None  # it leaves something out
    assert isinstance(tree, ast.Call)
    rooms = (vars(room).get(ast.unparse(tree.func)) for room in PUBLIC)
    found = [_misplaced(tree, made) for made in rooms if callable(made)]
    return None if None in found else next(iter(found), None)


def _misplaced(tree: ast.Call, made: Callable[..., object]) -> str | None:
    known = inspect.signature(made).parameters
    places = [one.name for one in known.values() if one.kind is not one.KEYWORD_ONLY]
    for at, argument in enumerate(tree.args):
        shown = argument.id if isinstance(argument, ast.Name) else None
        if shown in known and places[at : at + 1] != [shown]:
            return f"{shown!r} is passed by name"
    takes_any = any(one.kind is one.VAR_KEYWORD for one in known.values())
    unknown = [one.arg for one in tree.keywords if one.arg and one.arg not in known]
    return f"it takes no {unknown}" if unknown and not takes_any else None


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
