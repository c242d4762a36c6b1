"""The laws of the house that no other tool holds: sizes, names, reasons, pages, links."""

from __future__ import annotations

import ast
import gc
import importlib
import io
import json
import re
import runpy
import subprocess
import sys
import tokenize
import tomllib
from functools import cache
from types import SimpleNamespace
from typing import TYPE_CHECKING

import click
import pytest

from pages import ROOT, files, pages, prose

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
from pathlib import Path

FILE_LINES = 800
NAMELESS = re.compile(r"(utils?|helpers?|common|misc|base|core|managers?|handlers?)")
SQL = re.compile(r"\s*(SELECT|INSERT|UPDATE|DELETE|REPLACE|CREATE|ALTER|DROP|WITH)\s")

DIRECTIVE = re.compile(
    r"#\s*(?P<name>noqa|ruff:|pyright:|type:\s*ignore|pragma:\s*no\s*(?:cover|branch))",
    re.IGNORECASE,
)
REASONED = re.compile(
    r"""\#\s*(?>
        noqa:\s[A-Z]+[0-9]+(,\s*[A-Z]+[0-9]+)*
      | ruff:\s*noqa:\s[A-Z]+[0-9]+(,\s*[A-Z]+[0-9]+)*
      | pyright:\s*ignore\[\w+(,\s*\w+)*\]
      | pyright:\s*\w+\s*=\s*\w+
      | pragma:\s*no\s*(cover|branch)
    )(\s+|\s*[-:;#(–—]).*[^\W\d_]{3,}""",
    re.VERBOSE,
)

MACHINE_PATH = re.compile(r"(?<![\w.~/])/(tmp|root|work|farm|home)/")
REGISTRY = re.compile(
    r"pythonhosted\.org|pypi\.org/simple|registry\.npmjs|/packages/[0-9a-f]{2}/[0-9a-f]{2}/"
    r"|--(?:extra-)?index[-]url"
)

LINK = re.compile(
    r"!?\[[^\]]*\]\((?P<inline>[^()\s]+)(?:\s+\"[^\"]*\")?\)|^\[[^\]]+\]:\s*(?P<ref>\S+)"
)
CODE_SPAN = re.compile(r"`[^`]*`")
ELSEWHERE = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def sources(*folders: str) -> list[Path]:
    """The Python files of the repository that lie in one of *folders*."""
    return [
        path
        for path in files()
        if path.suffix == ".py" and path.relative_to(ROOT).parts[0] in folders
    ]


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


@cache
def nodes(path: Path) -> list[ast.AST]:
    return list(ast.walk(tree(path)))


@pytest.fixture(scope="module", autouse=True)
def _trees_are_no_garbage() -> Iterator[None]:
    """Millions of nodes: the collector would look through them again and again."""
    gc.disable()
    yield
    tree.cache_clear()
    nodes.cache_clear()
    gc.enable()


def texts() -> Iterator[tuple[Path, list[str]]]:
    """Every text file of the repository with its lines."""
    for path in files():
        content = path.read_bytes()
        if b"\0" not in content[:8192]:
            yield path, content.decode("utf-8", "replace").splitlines()


def at(path: Path, node: ast.AST) -> str:
    return f"{name(path)}:{getattr(node, 'lineno', 0)}"


def expect_none(found: Iterable[str]) -> None:
    """Fail with every one of *found* on a line of its own: there should be none."""
    if listed := "\n".join(found):
        pytest.fail(listed, pytrace=False)


def comments(path: Path) -> Iterator[tuple[int, str]]:
    with io.BytesIO(path.read_bytes()) as source:
        for token in tokenize.tokenize(source.readline):
            if token.type == tokenize.COMMENT:
                yield token.start[0], token.string


SKIPS = {"skip", "skipif", "importorskip", "xfail", "SkipTest"}


def test_no_test_leaves_itself_out():
    """A test that cannot run fails and says why; a skipped one would look like a passed one."""
    expect_none(
        f"{at(path, node)}: {used}"
        for path in sources("tests", "src")
        for node in nodes(path)
        if (used := getattr(node, "attr", getattr(node, "id", None))) in SKIPS
    )


def test_the_files_of_the_browser_are_those_that_make_names():
    """`make browser` looks through no others: that takes longer than its tests."""
    expect_none(
        f"{path.name} has tests of the browser; name it test_…_pages.py"
        for path in sources("tests")
        if any(getattr(node, "attr", None) == "browser" for node in nodes(path))
        if not path.match("test_*_pages.py")
    )


LEAST_WAIT_S = 30
WAITING = {"timeout", "timeout_s", "wait_s"}
WAITS = {"acquire", "aresult", "join", "result", "settle", "timeout", "wait", "wait_for"}


def test_no_wait_of_a_test_is_short():
    """What a busy machine does not reach in time is no fault of the code.

    A bound that guards against hanging is `LIMIT_S` of tests/waiting.py, or 30 seconds and more;
    a short one is for what cannot happen, and a comment on its line says so.
    """
    expect_none(
        f"{at(path, node)}: {ast.unparse(node)}: use LIMIT_S, or say on the line what cannot happen"
        for path in [*sources("tests"), *sources("src")]
        if path.is_relative_to(ROOT / "tests") or path.is_relative_to(ROOT / "src/alveus/testing")
        for node in nodes(path)
        if _waits_shortly(node) and not _has_comment(path, node)
    )


def _waits_shortly(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Name(id="Retry")):
            return False  # its waits are pauses between tries
        case ast.Call(func=ast.Attribute(value=ast.Name(id="clock"))):
            return False  # that one is moved by hand
        case ast.Call(func=ast.Attribute(attr=name), args=args) if name in WAITS:
            return any(map(_is_short, args)) or _has_short_keyword(node)
        case ast.Call():
            return _has_short_keyword(node)
        case ast.Assign(targets=[ast.Name(id=name)]):
            return name.isupper() and name.endswith("_S") and _is_short(node.value)
        case _:
            return False


def _has_short_keyword(call: ast.Call) -> bool:
    return any(word.arg in WAITING and _is_short(word.value) for word in call.keywords)


def _is_short(node: ast.expr) -> bool:
    match node:
        case ast.Constant(value=int() | float() as seconds):
            return 0 < seconds < LEAST_WAIT_S  # with 0, nothing is waited for
        case _:
            return False


def _has_comment(path: Path, node: ast.AST) -> bool:
    assert isinstance(node, ast.expr | ast.stmt)
    lines = range(node.lineno, (node.end_lineno or node.lineno) + 1)
    return any(number in lines for number, _ in comments(path))


def test_no_memory_was_left_in_the_repository():
    """A newcomer's `app.db` has to begin empty, so nobody's may come with the sources."""
    expect_none(name(path) for path in files() if ".db" in name(path))


# --- the rooms ---------------------------------------------------------------------------------


def test_no_file_outgrows_its_reader():
    """A file has one reason to change, and at most 800 lines to say it in."""
    code = [path for path in files() if name(path).startswith("src/")]
    lengths = {
        name(path): len(path.read_text(encoding="utf-8").splitlines())
        for path in code
        if path.suffix in {".py", ".sql"}
    }
    expect_none(f"{path}: {lines} lines" for path, lines in lengths.items() if lines > FILE_LINES)


def test_every_room_has_a_name_of_its_own():
    """A room is a noun of the glossary or the step it does; what is called utils has no owner."""
    rooms = {path: path.relative_to(ROOT).with_suffix("").parts for path in sources("src")}
    expect_none(name(path) for path, parts in rooms.items() if any(map(NAMELESS.fullmatch, parts)))


def test_an_optional_package_is_imported_in_one_room():
    """What may be missing is asked for in one place, where its absence has an answer."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = [need for extra in project["optional-dependencies"].values() for need in extra]
    always = {_import_name(need) for need in project["dependencies"]}
    for optional in {_import_name(need) for need in wanted} - always:
        rooms = {name(path.parent) for path in sources("src") if optional in _imported(path)}
        assert len(rooms) <= 1, f"{optional} is imported in {rooms}"


def test_what_ends_streams_of_mcp_is_as_new_as_is_needed():
    """`mcp` lets sse-starlette 3.0 and 3.1 be there, which have no such call."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert "sse-starlette>=3.2" in project["optional-dependencies"]["mcp"]


def _import_name(requirement: str) -> str:
    published = re.split(r"[^\w.-]", requirement, maxsplit=1)[0]
    published_as = {"apache-flink": "pyflink", "langgraph-checkpoint": "langgraph"}
    return published_as.get(published, published.replace("-", "_"))


def _imported(path: Path) -> set[str]:
    found: set[str] = set()
    for node in nodes(path):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.partition(".")[0])
    return found


# --- the code ----------------------------------------------------------------------------------


def test_nothing_is_pickled():
    """Bytes of a store are data; unpickling them would run them."""
    picklers = {"pickle", "cPickle", "dill", "cloudpickle", "shelve", "marshal"}
    everywhere = sources("src", "tests", "tools", "bench")
    expect_none(name(path) for path in everywhere if _imported(path) & picklers)


def test_compiled_code_counts_what_it_returns():
    """`Py_RETURN_NONE` does not where it was compiled for Python 3.12, and is right there alone."""
    expect_none(
        f"{name(path)}:{number}"
        for path in files()
        if path.suffix in {".c", ".h"}
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if re.search(r"\bPy_RETURN_(NONE|TRUE|FALSE|NOTIMPLEMENTED)\b", line)
    )


def test_no_lock_of_a_class_is_inherited():
    """That of `functools.cached_property` would be, by a child that is forked meanwhile."""
    expect_none(
        at(path, node)
        for path in sources("src")
        for node in nodes(path)
        if (
            isinstance(node, ast.ImportFrom)
            and "cached_property" in {one.name for one in node.names}
        )
        or (isinstance(node, ast.Attribute) and node.attr == "cached_property")
    )


def test_no_error_is_swallowed():
    """Failure is never silence: `except Exception: pass` has no place, under any name."""
    expect_none(
        at(path, node)
        for path in sources("src", "tests", "tools", "bench")
        for node in nodes(path)
        if _swallows(node)
    )


def _swallows(node: ast.AST) -> bool:
    if isinstance(node, ast.ExceptHandler):
        return _is_broad(node.type) and all(map(_does_nothing, node.body))
    if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("suppress"):
        return any(map(_is_broad, node.args))
    return False


def _is_broad(caught: ast.expr | None) -> bool:
    if isinstance(caught, ast.Tuple):
        return any(map(_is_broad, caught.elts))
    return caught is None or ast.unparse(caught) in {"Exception", "BaseException"}


def _does_nothing(statement: ast.stmt) -> bool:
    match statement:
        case ast.Pass() | ast.Continue() | ast.Expr(value=ast.Constant()) | ast.Return(value=None):
            return True
        case ast.Return(value=ast.Constant(value=value)):
            return not value
        case ast.Return(value=ast.List(elts=[]) | ast.Tuple(elts=[]) | ast.Dict(keys=[])):
            return True
        case _:
            return False


def test_sql_is_never_put_together_from_values():
    """SQL is a file or a literal and its values are bound; where text is joined, S608 says why."""
    expect_none(
        at(path, node)
        for path in sources("src")
        for node in nodes(path)
        if _joins_sql(node) and not _excused(path, node, "S608")
    )


def _joins_sql(node: ast.AST) -> bool:
    match node:
        case ast.JoinedStr(values=[ast.Constant(value=str(start)), *rest]):
            return bool(rest and SQL.match(start))
        case ast.BinOp(left=ast.Constant(value=str(start)), op=ast.Add() | ast.Mod()):
            return bool(SQL.match(start))
        case ast.Call(func=ast.Attribute(value=ast.Constant(value=str(start)), attr="format")):
            return bool(SQL.match(start))
        case _:
            return False


def _excused(path: Path, node: ast.AST, rule: str) -> bool:
    assert isinstance(node, ast.expr)
    lines = range(node.lineno, (node.end_lineno or node.lineno) + 1)
    return any(number in lines and rule in comment for number, comment in comments(path))


def test_every_exception_to_a_rule_has_a_reason():
    """What is switched off is named, and says why: `# noqa: PLR0913 - published by LangGraph`."""
    expect_none(
        f"{name(path)}:{number} {comment}"
        for path in sources("src", "tests", "tools", "bench")
        for number, comment in comments(path)
        for found in DIRECTIVE.finditer(comment)
        if not REASONED.match(comment, found.start())
    )


def test_nothing_names_the_machine_it_was_written_on():
    """A path of one machine is wrong on every other."""
    expect_none(_found_outside_tests(MACHINE_PATH))


def test_nothing_names_a_package_registry():
    """Where packages come from is the user's choice; no lock file, no address."""
    expect_none(_found_outside_tests(REGISTRY))


FORMER_NAME = "for" + "nix"  # in two parts, so that this file does not contain it


def test_the_former_name_stands_in_one_decision_alone():
    """The former name belongs to somebody else's package; one line of the decisions says so."""
    with_name = [
        f"{name(path)}:{number}"
        for path, lines in texts()
        for number, line in enumerate(lines, start=1)
        if FORMER_NAME in line.lower()
    ]
    assert len(with_name) == 1, with_name
    assert with_name[0].startswith("docs/decisions.md:")
    expect_none(name(path) for path in files() if FORMER_NAME in name(path).lower())


def _found_outside_tests(pattern: re.Pattern[str]) -> list[str]:
    return [
        f"{name(path)}:{number}"
        for path, lines in texts()
        if path.relative_to(ROOT).parts[0] not in {"tests", ".ci"}
        for number, line in enumerate(lines, start=1)
        if pattern.search(line)
    ]


# --- the pages ---------------------------------------------------------------------------------


def test_every_public_name_is_on_a_page():
    """What `alveus` exports is explained to its users, by that name."""
    alveus = importlib.import_module("alveus")
    read = "\n".join(page.read_text(encoding="utf-8") for page in pages())
    expect_none(public for public in alveus.__all__ if not re.search(rf"\b{public}\b", read))


def test_what_is_listed_is_what_is_there():
    """`from alveus import x` works for every listed name."""
    alveus = importlib.import_module("alveus")
    expect_none(public for public in alveus.__all__ if not hasattr(alveus, public))


def test_what_shells_complete_is_what_is_listed():
    """`dir(alveus)` shows public names; each is imported from where the type checker looks."""
    alveus = importlib.import_module("alveus")
    assert set(dir(alveus)) == {*alveus.__all__, "__version__"}


@pytest.mark.parametrize(
    "room", ["", "cli", "conversation", "embed", "facts", "llm", "telemetry", "text"]
)
def test_a_lazy_name_comes_from_where_the_type_checker_looks(room):
    """A package imports a name at its first use from the module below ``if TYPE_CHECKING:``."""
    package = importlib.import_module(f"alveus.{room}".rstrip("."))
    found = {
        alias.name: str(node.module)
        for block in tree(Path(str(package.__file__))).body
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert found
    for name, module in found.items():
        assert getattr(package, name) is getattr(importlib.import_module(module), name)
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        package.nothing  # noqa: B018 - looked up


def test_no_name_is_taken_for_a_module():
    """mypy takes a name for the module of that name beside it: `alveus` imports from the module."""
    package = ROOT / "src" / "alveus"
    expect_none(
        f"{node.module}.{alias.name}"
        for node in ast.walk(tree(package / "__init__.py"))
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if (ROOT / "src" / f"{node.module}.{alias.name}".replace(".", "/"))
        .with_suffix(".py")
        .exists()
    )


def test_wrapped_calls_keep_their_overloads():
    """mypy keeps one overload of a method that `awaited` or `delegated` wraps: a cast says all."""
    overloaded = {
        (kind.name, method.name)
        for path in sources("src")
        for kind in nodes(path)
        if isinstance(kind, ast.ClassDef)
        for method in kind.body
        if isinstance(method, ast.FunctionDef)
        and "overload" in map(ast.unparse, method.decorator_list)
    }
    assert {("SetReads", "get"), ("OwnerSets", "sets")} <= overloaded
    for module in map(
        importlib.import_module, ("alveus.memory.async_objects", "alveus.memory.keys")
    ):
        for line in ast.walk(tree(Path(str(module.__file__)))):
            if isinstance(line, ast.Assign) and (
                wrapped := re.search(
                    r"^(?:awaited|delegated)\(.*?(\w+)\.(\w+)", ast.unparse(line.value)
                )
            ):
                kinds = getattr(module, wrapped[1]).__mro__
                kind = next(each for each in kinds if wrapped[2] in vars(each))
                assert (kind.__name__, wrapped[2]) not in overloaded


def test_the_door_is_light():
    """`import alveus` loads no array library and no database: a name does, at its first use."""
    program = (
        "import sys, alveus; assert not {'numpy', 'apsw', 'asyncio', 'click'} & set(sys.modules);"
        "alveus.Memory; assert 'apsw' in sys.modules; assert not {'asyncio', 'ssl', 'email',"
        "'alveus.sets.admission.injection', 'alveus.store.sqlite', 'alveus.values.html',"
        "'alveus.conversation.conversation_memory',"
        "'alveus.memory.prompt.assembly', 'alveus.llm.openai_chat'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)


def test_a_first_search_is_light(tmp_path):
    """Of a large set, by its index file: no part of NumPy is loaded that no search needs."""
    memory = f"import alveus, sys; m = alveus.Memory.open({str(tmp_path / 'm.db')!r}); "
    fill = "m.key('ada').add_many([f'note {i} of {i % 97} words' for i in range(9000)]); "
    search = "assert m.key('ada').search('note of 7 words'); "
    light = "assert 'numpy' in sys.modules; assert 'numpy.ma' not in sys.modules"
    for program in (memory + fill + search + "m.close()", memory + search + light):
        subprocess.run([sys.executable, "-c", program], check=True, timeout=300)
    assert list((tmp_path / "m.db.alveus" / "index").iterdir())


def test_a_name_that_is_not_there_is_an_attribute_error():
    """A wrong name is told as Python tells it."""
    with pytest.raises(AttributeError, match="module 'alveus' has no attribute 'Memroy'"):
        importlib.import_module("alveus").Memroy  # noqa: B018 - the look-up is the test


def test_type_checkers_know_which_names_are_there():
    """A module whose `__getattr__` they see has every name, and a wrong import passes."""
    expect_none(
        at(path, statement)
        for path in sources("src")
        for statement in tree(path).body
        if "__getattr__" in _names_bound_by(statement)
    )


def _names_bound_by(statement: ast.stmt) -> set[str]:
    if isinstance(statement, ast.Assign):
        return {each.id for each in statement.targets if isinstance(each, ast.Name)}
    return {statement.name} if isinstance(statement, ast.FunctionDef) else set()


def test_every_command_is_on_the_page_of_commands():
    """The command line has no secrets: each command is in docs/cli.md, in full."""
    page = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    cli = importlib.import_module("alveus.cli")
    expect_none(
        command
        for command in _commands(cli.alveus, "alveus")
        if not re.search(rf"\b{re.escape(command)}(?![\w-])", page)
    )


def _commands(group: click.Group, so_far: str) -> Iterator[str]:
    context = click.Context(group)
    for word in group.list_commands(context):
        command = group.get_command(context, word)
        if command is None or command.hidden:
            continue
        yield f"{so_far} {word}"
        if isinstance(command, click.Group):
            yield from _commands(command, f"{so_far} {word}")


def test_no_class_name_stands_twice_in_the_package():
    """One name means one thing, so that a search for a class finds one class."""
    places: dict[str, list[str]] = {}
    for path in sources("src"):
        for node in nodes(path):
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(f"{name(path)}:{node.lineno}")
    assert {each: found for each, found in places.items() if len(found) > 1} == {}


@pytest.mark.parametrize(("tool", "counts"), [("house", "rooms"), ("routes", "search")])
def test_the_figures_of_the_house_can_be_printed(tool: str, counts: str):
    """By anyone, with one command each."""
    command = [sys.executable, f"tools/{tool}.py", "--json"]
    said = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    figures = json.loads(said)
    assert figures[counts]
    assert figures.get("rooms in a circle", 0) == 0
    ceilings = tomllib.loads((ROOT / "tests" / "ceilings.toml").read_text(encoding="utf-8"))
    assert figures.get("circles among modules", 0) <= ceilings["module_circles"]


count_lines = SimpleNamespace(**runpy.run_path(str(ROOT / "tools" / "count_lines.py")))


def test_the_package_does_not_grow_unnoticed(capsys):
    """Code lines stay below a ceiling, which falls with them, or is raised on purpose."""
    counted, ceiling = count_lines.counts(ROOT / "src")["code_lines"], count_lines.ceiling()
    assert counted <= ceiling, "take lines out, or raise code_lines in tests/ceilings.toml"
    if counted < ceiling - count_lines.SLACK:
        with capsys.disabled():
            sys.stdout.write(f"\n{ceiling - counted:,} code lines below the ceiling: ")
            sys.stdout.write("python tools/count_lines.py --lower\n")


def test_lines_of_code_are_those_that_do_something():
    """Blanks, comments and docstrings are no code; a string that spans lines is."""
    python = '"""Doc."""\n\n# why\nx = """a\n\nb"""\n\ndef f():\n    """Do.\n\n    More.\n    """\n'
    assert count_lines.python_lines(python) == 4
    assert count_lines.other_lines("-- why\nSELECT 1 -- c\n/* a\nb */\n\nFROM t\n", ".sql") == 2
    assert count_lines.other_lines("/* a\nb */ int x;\n// c\n\nreturn;\n", ".c") == 2


def test_a_ceiling_is_lowered_and_never_raised(tmp_path, monkeypatch):
    """`--lower` writes a figure that has fallen; above the ceiling it refuses."""
    ceilings = tmp_path / "ceilings.toml"
    ceilings.write_text("# why\ncode_lines = 2_000\n\n[words]\ntold = 3\n", encoding="utf-8")
    monkeypatch.setitem(count_lines.lower.__globals__, "CEILINGS", ceilings)
    with pytest.raises(SystemExit, match=r"code_lines: 2,001 is above the ceiling of 2,000"):
        count_lines.lower({"code_lines": 2001})
    count_lines.lower({"code_lines": 1500, "told": 2})
    assert ceilings.read_text() == "# why\ncode_lines = 1_500\n\n[words]\ntold = 2\n"


def checked_words(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "tools/check_words.py", *arguments]
    return subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)


def test_words_that_have_a_plain_one_become_no_more():
    """Each has a ceiling, which falls with its count."""
    checked = checked_words("--check")
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_a_word_counts_in_identifiers_and_in_prose(tmp_path):
    """As a part of a name too, but not as a part of another word; exempt lines do not count."""
    page = tmp_path / "page.py"
    page.write_text(
        "def told_of(places): ...\nclass NoSuchPlace: ...\n# Its own owner retold it: placed.\n"
        "click.echo(1)\n",
        encoding="utf-8",
    )
    counts = json.loads(checked_words(str(page), "--json").stdout)
    assert {name: count for name, count in counts.items() if count} == {
        "told": 1,
        "place": 2,
        "own": 1,
    }


def test_each_exempt_line_is_there():
    """An exception from the list of words says why, and goes when its line goes."""
    read = tomllib.loads((ROOT / "tools" / "words.toml").read_text(encoding="utf-8"))
    sources = [path for path in files() if path.suffix in {".py", ".md"}]
    for each in read["exceptions"]:
        assert each["reason"].strip()
        paths = [ROOT / each["path"]] if "path" in each else sources
        assert any(each["line"] in path.read_text(encoding="utf-8") for path in paths), each


def test_the_design_names_files_that_are_there():
    """The map of the house in docs/design.md leads to files, also after a move."""
    page = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
    section = page.split("| to change … |")[1].split("\n## ")[0]
    named = re.findall(r"`([a-z_]+/[\w/.]+)`", section)
    assert len(named) > 40
    below = [ROOT / "src" / "alveus", ROOT]
    assert [path for path in named if not any((each / path).exists() for each in below)] == []


def test_the_write_path_is_the_one_that_is_drawn(tmp_path):
    """The functions of the diagram in docs/design.md run in its order when an item is added."""
    program = """
import sys, threading, alveus
sys.path.insert(0, "tools")
from make_write_path import MESSAGES
ran = []
def profile(frame, event, _):
    path = frame.f_code.co_filename
    if event == "call" and "/alveus/" in path:
        ran.append(f"{path.rpartition('/alveus/')[2]} {frame.f_code.co_name}")
with alveus.Memory.open(sys.argv[1], embedder="static") as memory:
    memory.key("ada").add("Likes tea.")
    sys.setprofile(profile)
    memory.key("ada").add("Prefers window seats.")
    sys.setprofile(None)
calls = iter(ran)
for each in MESSAGES:
    assert not each.runs or each.runs in calls, (each, ran)
"""
    command = [sys.executable, "-c", program, str(tmp_path / "app.db")]
    subprocess.run(command, cwd=ROOT, check=True, timeout=120)


def test_generated_pages_are_fresh():
    """A generated page is what its generator writes today; `make docs` writes it again."""
    command = [sys.executable, "tools/make_docs.py", "--check"]
    answer = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    assert answer.returncode == 0, answer.stdout + answer.stderr


@pytest.mark.parametrize(
    "page", ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "NOTICE"]
)
def test_the_front_page_is_there(page: str):
    """Somebody who finds the repository finds these, with something in them."""
    path = ROOT / page
    assert path.is_file()
    assert path.read_text(encoding="utf-8").strip()


CHANGELOG_LINES = 60


def test_the_changelog_of_the_first_version_fits_a_page():
    """Until 0.1.0 is released, it says what 0.1.0 is, and not how that came about."""
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    if "## [0.1.0] - not released yet\n" in text:
        assert text.count("\n") <= CHANGELOG_LINES, "say it in the section of 0.1.0, or not at all"


TOPICS = 10
ENTRY_LINES = 10


def test_decisions_are_entries_of_one_page():
    """A decision has a number of its own, which rises within its topic, and a few lines."""
    page = (ROOT / "docs" / "decisions.md").read_text(encoding="utf-8")
    topics = [topic.split("\n### ") for topic in page.split("\n## ")[1:]]
    assert 0 < len(topics) <= TOPICS
    numbers: list[str] = []
    for _, *entries in topics:
        parts = [entry.partition("\n") for entry in entries]
        found = [match[1] for head, _, _ in parts if (match := re.match(r"(\d{3}) \S", head))]
        assert len(found) == len(parts) > 0
        assert found == sorted(found)
        numbers += found
        long = [head for head, _, told in parts if not 0 < len(told.split("\n")) - 2 <= ENTRY_LINES]
        expect_none(f"docs/decisions.md: {head}: has 1 to {ENTRY_LINES} lines" for head in long)
    assert len(numbers) == len(set(numbers))


def test_every_link_leads_somewhere():
    """A relative link of a page names a file that is there, and a heading that is in it."""
    known = set(files())
    markdown = [path for path in known if path.suffix == ".md"]
    expect_none(
        f"{name(page)}:{number} {target}"
        for page in sorted(markdown)
        for number, line in enumerate(prose(page), start=1)
        for link in LINK.finditer(CODE_SPAN.sub("", line))
        if not ELSEWHERE.match(target := link["inline"] or link["ref"])
        if not _leads_somewhere(page, target, known)
    )


LOGGED = re.compile(r"bench/LOG\.md[`)]*, (\d{4}-\d\d-\d\d(?: \d\d:\d\d)?)")


def test_every_figure_names_its_section_of_the_log():
    """A link to the log leads to a section, so that none is removed that a claim rests on."""
    expect_none(
        f"{name(page)}:{number}: name the section, or link bench/RESULTS.md"
        for page in pages()
        for number, line in enumerate(prose(page), start=1)
        for link in LINK.finditer(line)
        if (link["inline"] or link["ref"]).endswith("bench/LOG.md")
    )


def test_every_date_of_a_measurement_is_in_the_log():
    """Code and pages that name a figure's date name a section of the log."""
    log = (ROOT / "bench" / "LOG.md").read_text(encoding="utf-8")
    begun = re.findall(r"^## (\S+ \S+) UTC", log, re.MULTILINE)
    expect_none(
        f"{name(path)}: the log has no section of {date}"
        for path in [*pages(), *sources("src", "tests", "bench")]
        for date in LOGGED.findall(path.read_text(encoding="utf-8"))
        if not any(each.startswith(date) for each in begun)
    )


PATH = re.compile(
    r"(?<![\w/.-])(?:[\w.-]+/)*[\w-]+\.(?:[ch]|json|jsonl|m?js|md|py|sh|sql|toml|txt|yml)(?![\w/-])"
    r"|(?<![\w/.-])(?:[\w.-]+/)+[\w.-]*"
)
GUIDES = ("CONTRIBUTING.md", "SECURITY.md", ".github/pull_request_template.md")
MADE = {"build/site", "dist", ".venv/bin/python"}
"""Paths that commands make."""


def test_every_path_that_a_page_names_is_there():
    """A path below a folder of the repository exists; a page for contributors names no other."""
    known = {path.relative_to(ROOT) for path in files()}
    known |= {folder for path in known for folder in path.parents}
    ours = {str(path) for path in known if len(path.parts) == 1} - {"."}
    guides = [ROOT / guide for guide in GUIDES]
    expect_none(
        f"{name(page)}:{number}: {path}"
        for page in [*pages(), *guides, ROOT / "bench" / "RESULTS.md"]
        for number, line in enumerate(prose(page), start=1)
        for span in CODE_SPAN.findall(line)
        for found in PATH.finditer(span)
        if (path := found[0].rstrip("/")) not in MADE
        if page in guides or path.split("/")[0] in ours
        if known.isdisjoint(
            base / path for base in (Path(), Path("src/alveus"), page.parent.relative_to(ROOT))
        )
    )


def _leads_somewhere(page: Path, target: str, known: set[Path]) -> bool:
    file, _, heading = target.partition("#")
    path = (page.parent / file).resolve() if file else page
    if path not in known:
        return path.is_dir() and any(path in other.parents for other in known)
    return not heading or path.suffix != ".md" or heading in _anchors(path)


@cache
def _anchors(page: Path) -> set[str]:
    """The anchors that a Markdown renderer gives the headings of *page*."""
    found: set[str] = set()
    for line in prose(page):
        found |= set(re.findall(r"<a (?:id|name)=\"([^\"]+)\"", line))
        heading = re.match(r"#{1,6}\s+(.*?)\s*#*$", line)
        if heading:
            words = re.sub(r"[^\w\- ]", "", heading[1].lower()).replace(" ", "-")
            same = sum(1 for known in found if re.fullmatch(rf"{re.escape(words)}(-\d+)?", known))
            found.add(f"{words}-{same}" if same else words)
    return found
