"""What a user gets from `pip install alveus`: the wheel, alone, in an empty environment."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

from compiling import exported, hatch_build
from pages import ROOT, Block, blocks, files, prose

pytestmark = pytest.mark.wheel

CLOSURE = {"alveus", "numpy", "apsw", "click", "rich", "markdown-it-py", "mdurl", "pygments"}
"""alveus, its four dependencies, and what rich needs to show text."""

INSTALLERS = {"pip", "setuptools", "wheel"}
"""What a new environment may hold before anything is installed into it."""


@dataclass(frozen=True)
class Environment:
    """An environment that holds the wheel and what it asked for, nothing else."""

    folder: Path

    def run(self, program: str, *arguments: str) -> str:
        """Run *program* of this environment in an empty folder; return what it prints."""
        empty = self.folder / "empty"
        empty.mkdir(exist_ok=True)
        return run(str(self.folder / "bin" / program), *arguments, folder=empty)


def run(*command: str, folder: Path) -> str:
    """Return what *command* prints, run apart from this process's Python settings."""
    ours = ("PYTHON", "COV", "VIRTUAL_ENV", "PYTEST")
    environment = {key: value for key, value in os.environ.items() if not key.startswith(ours)}
    answer = subprocess.run(
        command, cwd=folder, env=environment, check=False, capture_output=True, text=True
    )
    said = f"{' '.join(command)}\n{answer.stdout}{answer.stderr}"
    assert answer.returncode == 0, said
    return answer.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from the source archive, as a release would be."""
    return built(tmp_path_factory.mktemp("dist"))


def built(folder: Path) -> Path:
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), folder=ROOT)
    (wheel,) = folder.glob("alveus-*.whl")
    return wheel


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return environment_of(wheel, tmp_path_factory.mktemp("empty-environment"))


def environment_of(wheel: Path, folder: Path) -> Environment:
    run(sys.executable, "-m", "venv", str(folder), folder=ROOT)
    environment = Environment(folder)
    install = ("-m", "pip", "install", "-c", str(ROOT / "constraints.txt"), str(wheel))
    environment.run("python", *install)
    return environment


def test_the_wheel_holds_the_whole_package_and_nothing_else(wheel: Path):
    """SQL, vocabularies and `py.typed` travel with the code; tests and pages stay at home."""
    with zipfile.ZipFile(wheel) as archive:
        packed = {path for path in archive.namelist() if ".dist-info/" not in path}
    package = {
        str(path.relative_to(ROOT / "src"))
        for path in files()
        if ROOT / "src" in path.parents and path.suffix not in (".c", ".h")
    }
    compiled = {hatch_build.MODULE.removeprefix("src/")} if hatch_build.compiler() else set[str]()
    assert packed == package | compiled
    assert wheel.name.endswith("-py3-none-any.whl") == (not compiled)


def test_compiled_code_of_the_wheel_exports_nothing_but_its_entry(wheel: Path, tmp_path: Path):
    """As the file that is installed says, whatever built it: no library binds to a name of ours."""
    with zipfile.ZipFile(wheel) as archive:
        packed = [path for path in archive.namelist() if path.endswith((".so", ".dylib", ".pyd"))]
        unpacked = [Path(archive.extract(path, tmp_path)) for path in packed]
    assert len(unpacked) == (1 if hatch_build.compiler() else 0)
    for file in unpacked:
        assert exported(file) == {f"PyInit_{file.name.partition('.')[0]}"}


def test_a_wheel_without_compiled_code_serves_as_well(tmp_path, monkeypatch):
    """It is one wheel for all machines, and finds what the README says."""
    monkeypatch.setenv("ALVEUS_NATIVE_BUILD", "off")
    installed = environment_of(built(tmp_path), tmp_path / "environment")
    show = (
        "from alveus.values.native import NATIVE\n"
        "from alveus.values.lazy_dataclass import RECORDS\n"
        "print(NATIVE, RECORDS)"
    )
    assert installed.run("python", "-c", show).strip() == "None None"
    installed.run("python", "-c", quick_start().code)


def test_a_build_that_requires_compiled_code_fails_without_a_compiler(tmp_path, monkeypatch):
    """A release for one kind of machine does not turn into one without, unseen."""
    monkeypatch.setenv("ALVEUS_NATIVE_BUILD", "require")
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(AssertionError, match="no C compiler"):
        built(tmp_path)


def test_installing_brings_little(installed: Environment):
    """Four dependencies and what they need: no extra is pulled in by accident."""
    listing = json.loads(installed.run("python", "-m", "pip", "list", "--format=json"))
    assert {package["name"].lower() for package in listing} - INSTALLERS == CLOSURE


def test_the_command_line_answers(installed: Environment):
    """`alveus` is on the path, and knows its version and its commands."""
    assert "0." in installed.run("alveus", "version")
    assert "Usage" in installed.run("alveus", "--help")


def test_the_quick_start_runs(installed: Environment):
    """The first thing a newcomer copies from the README works as it stands, with nothing else."""
    block = quick_start()
    program = installed.folder / "quick_start.py"
    program.write_text(block.code, encoding="utf-8")
    installed.run("python", str(program))


def quick_start() -> Block:
    """The first Python block of the README below a heading that says quick start."""
    readme = ROOT / "README.md"
    headings = [
        number
        for number, line in enumerate(prose(readme), start=1)
        if line.startswith("#") and "quick start" in line.lower().replace("-", " ")
    ]
    assert headings, "README.md has no heading 'Quick start'"
    python = [block for block in blocks(readme) if block.language == "python"]
    return next(block for block in python if block.line > headings[0])
