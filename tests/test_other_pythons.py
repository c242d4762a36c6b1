"""What holds under every other Python that this machine has: laws and examples."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pages import ROOT, files

pytestmark = pytest.mark.wheel

VERSIONS = ("3.11", "3.12", "3.13", "3.14")
"""Those that alveus is for; CI of the repository runs every test under each."""

TESTS = (
    "test_store_contract.py",
    "test_runner.py",
    "test_runner_faults.py",
    "test_exact_memory.py",
    "test_layers_at_work.py",
    "test_examples.py",
)
"""The contracts, and what users run."""

THIS = f"{sys.version_info.major}.{sys.version_info.minor}"

EXTRAS = (
    "[agent-framework,anthropic,chat,langgraph,mcp,minilm-onnx,openai,otel,plot,postgres,"
    "pydantic-ai,server]"
)


def answers(python: str) -> str:
    """Return the version of an interpreter; "" if it does not start."""
    program = "import sys; print('%d.%d' % sys.version_info[:2])"
    said = subprocess.run((python, "-c", program), check=False, capture_output=True, text=True)
    return said.stdout.strip()


def others() -> dict[str, str]:
    """Return interpreters by version, of the path and of pyenv; where there are none, this one."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    found: dict[str, str] = {}
    for version in VERSIONS:
        places = [shutil.which(f"python{version}")]
        places += map(str, sorted(pyenv.glob(f"versions/{version}.*/bin/python")))
        for python in filter(None, places):
            if answers(python) == version:
                found[version] = python
    found.pop(THIS, None)
    return found or {THIS: sys.executable}


OTHERS = others()


KEEPS_COUNT = """
import sys
from alveus.embed import open_embedder
from alveus.values.lazy_dataclass import RECORDS
from alveus.values.native import NATIVE

assert None not in (NATIVE, RECORDS)
embedder, had = open_embedder("static"), sys.getrefcount(None)
for _ in range(2000):
    embedder.embed(["a"])
assert sys.getrefcount(None) > had - 1000, (had, sys.getrefcount(None))
"""
"""None is an object that is counted in Python 3.11 alone: when the count is zero, Python ends."""


def copied(folder: Path) -> Path:
    """Copy the repository, where another Python may compile its own modules."""
    for path in files():
        to = folder / path.relative_to(ROOT)
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, to)
    return folder


def run(*command: str, folder: Path) -> None:
    """Run a command in a folder; fail with what it said."""
    ours = ("PYTHON", "COV", "VIRTUAL_ENV", "PYTEST")
    environment = {key: value for key, value in os.environ.items() if not key.startswith(ours)}
    answer = subprocess.run(
        command, cwd=folder, env=environment, check=False, capture_output=True, text=True
    )
    assert answer.returncode == 0, f"{' '.join(command)}\n{answer.stdout}{answer.stderr}"


@pytest.mark.parametrize("version", OTHERS)
def test_the_contracts_hold_under_another_python(version: str, tmp_path: Path):
    """In an environment of its own, with the same versions of all packages.

    What it compiled serves this Python too: a wheel that it built is one for every later Python
    than 3.11, and installers keep one for all of them.
    """
    folder, environment = copied(tmp_path / "alveus"), tmp_path / "environment"
    run(OTHERS[version], "-m", "venv", str(environment), folder=folder)
    python = str(environment / "bin" / "python")
    install = (python, "-m", "pip", "install", "--no-compile", "-c", "constraints.txt")
    run(*install, "pip>=25.1", folder=folder)
    run(*install, "--group", "dev", "-e", f".{EXTRAS}", folder=folder)
    tests = [f"tests/{name}" for name in TESTS]
    run(python, "-m", "pytest", "-q", "-n", "2", *tests, folder=folder)
    run(sys.executable, "-c", KEEPS_COUNT, folder=folder / "src")
