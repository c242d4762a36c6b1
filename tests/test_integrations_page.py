"""The table of docs/integrations.md: a row per framework, made from what its tests counted."""

from __future__ import annotations

import json
import tomllib

import pytest

from frameworks_tried import COUNTED, FRAMEWORKS, ROOT, counted

PAGE = ROOT / "docs" / "integrations.md"
ROOMS = ROOT / "src" / "alveus" / "integrations"
SHARED = {"__init__", "opened"}


def test_every_framework_was_counted():
    """And nothing else: a row is of a run."""
    noted = json.loads(COUNTED.read_text(encoding="utf-8"))
    assert sorted(noted) == sorted(framework.name for framework in FRAMEWORKS)


def test_a_run_that_counts_otherwise_fails():
    """As does one with other versions, which `pins` reads where they are set."""
    with pytest.raises(AssertionError, match="ALVEUS_NOTE_COUNTS"):
        counted("OpenAI Agents SDK", calls=1)


def test_a_row_names_an_extra_that_there_is():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = {framework.extra for framework in FRAMEWORKS} - {None}
    assert named <= project["optional-dependencies"].keys()


def test_every_integration_is_on_the_page():
    text = PAGE.read_text(encoding="utf-8")
    rooms = {path.stem for path in ROOMS.iterdir() if path.suffix == ".py" or path.is_dir()}
    for room in rooms - SHARED - {"__pycache__"}:
        assert f"from alveus.integrations.{room} import" in text, f"{room} is not on the page"
