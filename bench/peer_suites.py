"""Peers' own tests of their storage, with alveus in its place.

    python bench/peer_suites.py langgraph --clone ../langgraph

Each takes some minutes, and a clone of the peer's repository (see `SUITES`), whose tests are run
unchanged. The first run installs the peer into ``build/peer-suites``. The command fails unless
each test passes but those that `Suite.exempt` names, with the reason. Of mem0 see `mem0_suite`; of
LangGraph's checkpointer tests/test_langgraph.py, which runs in every `make test`.

Two peers publish no tests that another storage than their own can be put into. Those of AgentScope
for its long-term memories and memory middlewares hold each to the calls that it makes of a stub of
mem0 or ReMe. The repository of PydanticAI at 4fda38988 has none for conversation stores. Tests
below tests/ hold alveus to the answers of the peer's own storage, call by call.
"""

from __future__ import annotations

import argparse
import io
import os
import re
import subprocess
import sys
import tarfile
import venv
import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
WORK = ROOT / "build" / "peer-suites"
TOOLS = ("pytest==9.1.1", "pytest-asyncio==1.4.0", "pytest-mock==3.15.1")

INI = "[pytest]\nasyncio_mode = auto\nasyncio_default_fixture_loop_scope = function\n"

INSIDE = "it looks into attributes of the peer's own class"


@dataclass(frozen=True)
class Suite:
    """Tests of one peer.

    Attributes:
        repository: Where to clone it from.
        commit: The commit whose tests are run.
        taken: Folders of the repository that are laid out: its tests, and none of its code.
        tests: Files of tests.
        packages: What they need, with our extra.
        must_pass: The number of tests that pass.
        exempt: Patterns of names of tests that need not pass, each with the reason.
        chosen: Which tests of the files are run, as pytest's ``-k`` says it; "": all.
    """

    repository: str
    commit: str
    taken: Sequence[str]
    tests: Sequence[str]
    packages: Sequence[str]
    must_pass: int
    exempt: Mapping[str, str]
    chosen: str = ""


SUITES = {
    "langgraph": Suite(
        "github.com/langchain-ai/langgraph",
        "f09cfe8ff",
        ("libs/checkpoint/tests", "libs/checkpoint-sqlite/tests"),
        ("libs/checkpoint/tests/test_store.py", "libs/checkpoint-sqlite/tests/test_store.py"),
        ("langgraph==1.2.22", "langgraph-checkpoint-sqlite==3.1.2"),
        73,
        {
            "test_vector_store_initialization": INSIDE,
            "test_nonnull_migrations": INSIDE,
            "test_scores": "scores are alveus's relevance, not the cosine of the tests' embedder",
            "test_embed_with_path": "an item that is not indexed is not found by a question",
            "test_sql_injection_vulnerability": "a field of any name may be asked for, and is",
            "test_filter_keys_with_hyphens_and_digits": "a dot in the name of a field is a part of "
            "the name, as in LangGraph's store in RAM",
        },
    ),
    "openai": Suite(
        "github.com/openai/openai-agents-python",
        "7f7a44f8d",
        ("tests",),
        (
            "tests/memory/test_session.py",
            "tests/memory/test_session_limit.py",
            "tests/memory/test_session_persistence_sanitize.py",
        ),
        ("openai-agents==0.24.0",),
        79,
        {
            "closes_worker_thread_connections|file_lock|quarantined|rollback": INSIDE,
            "corrupt|releases_write_lock|rolls_back|post_commit_cancellation": INSIDE,
            "closed_rejects_empty_add_items": "the error names no SQLiteSession",
            "rejects_unknown_dictionary_fields": "the error is an InvalidInput, in other words",
        },
    ),
    "anthropic": Suite(
        "github.com/anthropics/anthropic-sdk-python",
        "009b0353",
        ("tests/lib/tools/memory_tools",),
        ("tests/lib/tools/memory_tools/test_filesystem.py",),
        ("anthropic==2.13.0",),
        54,
        {"symlink|umask": "it looks at the folder in which the peer keeps files"},
    ),
    "crewai": Suite(
        "github.com/crewAIInc/crewAI",
        "f4731f502",
        ("lib/crewai/tests/memory",),
        (
            "lib/crewai/tests/memory/test_unified_memory.py",
            "lib/crewai/tests/memory/test_memory_root_scope.py",
        ),
        ("crewai==1.15.30", "lancedb==0.40.0"),
        113,
        {},
    ),
    "agent-framework": Suite(
        "github.com/microsoft/agent-framework",
        "5eb3eb745",
        ("python/packages/core/tests/core",),
        ("python/packages/core/tests/core/test_sessions.py",),
        ("agent-framework-core==1.23.0", "msgspec"),
        7,
        {
            "TestFileHistoryProvider": "it looks at the peer's files, or asks for their format",
            "non_finite_json_values.nan": "NaN is no value that a memory stores",
            "state_is_serializable": "messages are in the memory, not in the session's state",
        },
        chosen="InMemoryHistoryProvider or FileHistoryProvider",
    ),
    "llama-index": Suite(
        "github.com/run-llama/llama_index",
        "09e5118d6",
        ("llama-index-core/tests/storage/chat_store",),
        ("llama-index-core/tests/storage/chat_store/test_sql.py",),
        ("llama-index-core==0.14.25", "aiosqlite"),
        9,
        {"test_delete_message$": INSIDE},
    ),
    "google-adk": Suite(
        "github.com/google/adk-python",
        "2049ee68b",
        ("tests/unittests/memory",),
        ("tests/unittests/memory/test_in_memory_memory_service.py",),
        ("google-adk==2.13.0",),
        24,
        {
            "test_add_": INSIDE,
            "simple_match|case_insensitive|no_match|scoped_by_user|-0\\]": "search is by meaning "
            "too, and also finds what has no word of the query",
            "at_most_ten": "finds that tie come in another order",
        },
    ),
}


def prepared(name: str, suite: Suite, clone: Path) -> Path:
    """Install what a suite needs, and lay out its tests; return the environment's Python."""
    place = WORK / name
    python = place / "venv" / "bin" / "python"
    if not python.exists():
        print(f"Installing {suite.packages[0]} (once) …", flush=True)
        venv.create(place / "venv", with_pip=True)
        extra = "" if name == "openai" else f"[{name}]"
        wanted = ["-e", f"{ROOT}{extra}", *suite.packages, *TOOLS]
        install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*install, *wanted], check=True)
    archive = subprocess.run(
        ["git", "-C", str(clone), "archive", suite.commit, *suite.taken],
        capture_output=True,
        check=True,
    ).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as packed:
        packed.extractall(place / "tests", filter="data")
    (place / "tests" / "pytest.ini").write_text(INI)
    return python


def ran(name: str, suite: Suite, python: Path) -> dict[str, str]:
    """Run the tests of a suite; return the outcome of each by its name: "" if it passed."""
    outcomes: dict[str, str] = {}
    for test in suite.tests:
        parts = test.split("/")
        top = parts.index("tests")
        folder = WORK.joinpath(name, "tests", *parts[:top])
        results = WORK / name / "results.xml"
        results.unlink(missing_ok=True)
        options = ["-q", "-p", "peer_shims", "-p", "no:cacheprovider"]
        options += ["-c", str(WORK / name / "tests" / "pytest.ini"), "-k", suite.chosen]
        subprocess.run(
            [
                str(python),
                "-m",
                "pytest",
                *options,
                f"--junit-xml={results}",
                "/".join(parts[top:]),
            ],
            cwd=folder,
            env={
                **os.environ,
                "PEER_SUITE": name,
                "PYTHONPATH": f"{Path(__file__).parent}{os.pathsep}{folder}",
            },
            stdout=subprocess.DEVNULL,
            check=False,
        )
        tree = ET.parse(results)  # noqa: S314 - pytest wrote it here
        for case in tree.getroot().iter("testcase"):
            problem = next((one for one in case if one.tag != "properties"), None)
            words = "" if problem is None else problem.get("message") or problem.tag
            outcomes[f"{case.get('classname')}.{case.get('name')}"] = words
    return outcomes


def main(words: list[str] | None = None) -> int:
    """Run a suite, say what failed and why, and return 1 if anything else did."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("suite", choices=SUITES)
    parser.add_argument("--clone", type=Path, required=True, help="a clone of the repository")
    given = parser.parse_args(words)
    suite = SUITES[given.suite]
    python = prepared(given.suite, suite, given.clone)
    outcomes = ran(given.suite, suite, python)
    failed = {test: why for test, why in outcomes.items() if why}
    exempt = {
        test: reason
        for test in failed
        for pattern, reason in suite.exempt.items()
        if re.search(pattern, test)
    }
    passed = len(outcomes) - len(failed)
    print(f"{passed} of {len(outcomes)} pass, {suite.must_pass} have to; {len(exempt)} are exempt:")
    for test, reason in sorted(exempt.items()):
        print(f"  {test}: {reason}")
    unexpected = failed.keys() - exempt.keys()
    for test in sorted(unexpected):
        print(f"  FAILED {test}: {failed[test].splitlines()[0][:150]}")
    return 0 if passed == suite.must_pass and not unexpected else 1


if __name__ == "__main__":
    sys.exit(main())
