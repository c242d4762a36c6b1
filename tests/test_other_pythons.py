"""What holds under every other Python that this machine has: laws and examples."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pages import ROOT

pytestmark = pytest.mark.wheel

VERSIONS = ("3.11", "3.12", "3.13", "3.14")
"""Those that fornix is for; CI of the repository runs every test under each."""

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


def run(*command: str) -> None:
    """Run a command in the repository; fail with what it said."""
    ours = ("PYTHON", "COV", "VIRTUAL_ENV", "PYTEST")
    environment = {key: value for key, value in os.environ.items() if not key.startswith(ours)}
    answer = subprocess.run(
        command, cwd=ROOT, env=environment, check=False, capture_output=True, text=True
    )
    assert answer.returncode == 0, f"{' '.join(command)}\n{answer.stdout}{answer.stderr}"


@pytest.mark.parametrize("version", OTHERS)
def test_the_contracts_hold_under_another_python(version: str, tmp_path: Path):
    """In an environment of its own, with the same versions of all packages."""
    run(OTHERS[version], "-m", "venv", str(tmp_path))
    python = str(tmp_path / "bin" / "python")
    install = (python, "-m", "pip", "install", "--no-compile", "-c", "constraints.txt")
    run(*install, "pip>=25.1")
    run(*install, "--group", "dev", "-e", f".{EXTRAS}")
    run(python, "-m", "pytest", "-q", "-n", "2", *(f"tests/{name}" for name in TESTS))
