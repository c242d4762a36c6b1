"""What makes a release, and what runs the checks elsewhere."""

from __future__ import annotations

import datetime as dt
import re
import runpy
import tarfile
import zipfile
from types import SimpleNamespace

import pytest

from pages import ROOT

release = SimpleNamespace(**runpy.run_path(str(ROOT / "tools" / "release.py")))

DAY = dt.date(2026, 11, 22)


def test_a_release_cuts_the_changelog():
    """What was unreleased gets a version and a day; an empty heading takes its place."""
    text = "# Changelog\n\n## [Unreleased]\n\n### Added\n\n- one\n\n## [0.0.1] - 2026-01-01\n"
    assert release.cut(text, named="0.1.0", day=DAY) == (
        "# Changelog\n\n## [Unreleased]\n\n## [0.1.0] - 2026-11-22\n\n"
        "### Added\n\n- one\n\n## [0.0.1] - 2026-01-01\n"
    )


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
    found = release.problems(source, wheel)
    assert "alveus-1.whl lacks minilm.npz" in found
    assert "alveus-1.tar.gz lacks LICENSE" in found
    assert "alveus-1.whl holds alveus/app.db" in found
    assert any(line.startswith("alveus-1.whl lacks alveus/memory") for line in found)


def test_workflows_run_the_targets_of_the_makefile():
    """What is checked elsewhere is what a developer checks here."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z]+):", makefile, re.MULTILINE))
    workflows = (ROOT / ".github" / "workflows").glob("*.yml")
    called = [
        word
        for path in workflows
        for word in re.findall(r"run: make .*?([a-z]+)$", path.read_text("utf-8"), re.MULTILINE)
    ]
    assert {"check", "test", "demo", "release"} <= set(called) <= targets
