"""What keeps the tests quick: processes that start warm, and which tests run when."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import test_crashes
import test_server
import warm
from alveus import testing
from scaled import is_scaled
from waiting import LIMIT_S
from watching import UNWATCHED, is_coverage, watching

PRINTS = """
import os, random, sys
print(sys.argv[1:], os.environ.get("ONE"), os.getcwd(), __name__, flush=True)
print("said", file=sys.stderr)
print(sys.stdin.read())
sys.exit(int(sys.argv[1]))
"""


@pytest.mark.parametrize("code", [0, 3])
def test_it_prints_and_ends_as_any_other(tmp_path, code):
    """With arguments, environment, folder and streams of its own."""
    asked = [sys.executable, "-c", PRINTS, str(code), "two"]
    given: dict[str, Any] = {"env": {"ONE": "1"}, "cwd": tmp_path, "text": True}
    given |= dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    answers = []
    for kind in (warm.Popen, subprocess.Popen):
        with kind(asked, **given) as process:
            answers.append((*process.communicate("asked", timeout=LIMIT_S), process.returncode))
    assert answers[0] == answers[1]
    assert answers[0][2] == code


def test_it_is_killed_as_any_other():
    """At once, and its streams end with it."""
    waits = "import sys; print('up', flush=True); sys.stdin.read()"
    process = warm.Popen(
        [sys.executable, "-c", waits], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        assert process.poll() is None
        process.kill()
        assert process.wait() == -signal.SIGKILL
        assert process.stdout.read() == b""
    with pytest.raises(ProcessLookupError):
        os.kill(process.pid, 0)


def test_what_fails_is_told():
    """By its traceback and its code, as `check` says."""
    fails = [sys.executable, "-c", "1 / 0"]
    done = warm.run(fails, check=False, capture_output=True, text=True, timeout=LIMIT_S)
    assert done.returncode == 1
    assert done.stderr.endswith("ZeroDivisionError: division by zero\n")
    with pytest.raises(subprocess.CalledProcessError):
        warm.run(fails, check=True, stderr=subprocess.DEVNULL)


def test_two_have_randomness_of_their_own():
    """Though both are forks of one process."""
    draws = [sys.executable, "-c", "import random; print(random.random())"]
    one, two = (
        warm.run(draws, check=True, stdout=subprocess.PIPE, timeout=LIMIT_S).stdout for _ in "12"
    )
    assert one != two


@pytest.mark.parametrize("which", ["slow", "unwatched"])
def test_what_a_list_of_tests_names_is_there(which: str):
    """Once, in order: `tools/slow_tests.py` or `tools/unwatched_tests.py` writes it again."""
    here, laws = Path(__file__).parent, Path(testing.__file__).parent
    names = (here / f"{which}.txt").read_text(encoding="utf-8").splitlines()
    assert names == sorted(set(names))
    files = [*here.rglob("*.py"), *laws.rglob("*.py")]
    code = "".join(path.read_text(encoding="utf-8") for path in files)
    for name in names:
        module, *_, test = name.split("::")
        assert (here / module).is_file(), name
        assert f"def {test}(" in code or test == "runTest", name


def test_what_does_more_at_full_scale_is_found():
    """By what a test says itself, and by what it uses."""
    assert is_scaled(test_crashes, test_crashes.test_two_processes_are_killed_at_once, None)
    assert is_scaled(test_server, test_server.test_no_token_reaches_beyond_its_scope, None)
    assert not is_scaled(test_server, test_server.test_bytes_stay_bytes, None)


def test_what_a_list_says_is_not_watched():
    """While it runs, and by coverage alone: a debugger is left as it is."""
    name = min(UNWATCHED)
    before = sys.gettrace()
    with watching(f"tests/{name}[1]"):
        inside = sys.gettrace()
    with watching("tests/test_new.py::test_new"):
        new = sys.gettrace()
    assert sys.gettrace() is new is before
    assert inside is (None if is_coverage(before) else before)
