"""The table of docs/integrations.md: a row per integration, with the versions that are tested."""

from __future__ import annotations

import re
import tomllib

import pytest

from pages import ROOT, prose

PAGE = ROOT / "docs" / "integrations.md"
ROOMS = ROOT / "src" / "fornix" / "integrations"
SHARED = {"__init__", "opened"}
ROW = re.compile(
    r"\| \[(?P<framework>[^\]]+)\]\(#(?P<section>[\w-]+)\) (?P<version>[\d.]+)(?P<more>[^|]*)"
    r"\| [^|]+\| (?P<extra>[^|]+) \| (?P<says>[^|]+) \|"
)
NAMED = re.compile(r"([a-z][a-z-]+) (\d+(?:\.\d+)+)")
PACKAGES = {
    "AgentScope": "agentscope",
    "AgentScope 1": "agentscope",
    "CrewAI": "crewai",
    "Google ADK": "google-adk",
    "LangGraph": "langgraph",
    "LlamaIndex": "llama-index-core",
    "Anthropic's SDK": "anthropic",
    "Microsoft Agent Framework": "agent-framework-core",
    "OpenAI Agents SDK": "openai-agents",
    "PydanticAI": "pydantic-ai-slim",
}


OLDER = {"AgentScope 1", "CrewAI"}


def pins(framework):
    names = ["constraints-integrations.txt", "constraints.txt"]
    files = [ROOT / name for name in names]
    if framework in OLDER:
        files = [ROOT / "constraints-integrations-older.txt"]
    lines = [line for file in files for line in file.read_text(encoding="utf-8").splitlines()]
    return dict(line.split("==") for line in lines if "==" in line)


def is_of(version, pin):
    return f"{pin}.".startswith(f"{version}.")


def rows():
    lines = [line for line in prose(PAGE) if line.startswith("| [")]
    found = [ROW.fullmatch(line) for line in lines]
    assert all(found), f"{PAGE.name}: a row of the table has another form than {ROW.pattern}"
    return [row for row in found if row]


def test_every_framework_has_a_row():
    assert sorted(row["framework"] for row in rows()) == sorted(PACKAGES)


@pytest.mark.parametrize("row", rows(), ids=lambda row: row["framework"])
def test_a_row_names_the_versions_that_are_tested(row):
    """Who renews constraints.txt runs the frameworks' tests again, and writes what they say."""
    named = [(PACKAGES[row["framework"]], row["version"])]
    named += NAMED.findall(row["more"]) + NAMED.findall(row["says"])
    for package, version in named:
        pin = pins(row["framework"])[package]
        assert is_of(version, pin), f"the page says {package} {version}, constraints.txt {pin}"


@pytest.mark.parametrize("row", rows(), ids=lambda row: row["framework"])
def test_a_row_names_an_extra_that_there_is(row):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = {f"`fornix[{name}]`" for name in project["optional-dependencies"]}
    assert row["extra"] in extras | {"none"}


def test_every_integration_is_on_the_page():
    text = PAGE.read_text(encoding="utf-8")
    rooms = {path.stem for path in ROOMS.iterdir() if path.suffix == ".py" or path.is_dir()}
    for room in rooms - SHARED - {"__pycache__"}:
        assert f"from fornix.integrations.{room} import" in text, f"{room} is not on the page"
