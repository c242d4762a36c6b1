"""mem0's own tests of its platform, by its client for TypeScript, against `alveus serve`.

    git clone https://github.com/mem0ai/mem0
    python bench/mem0_suite.py mem0         some five minutes; needs Node 20 or newer, and npm

The tests are those that mem0 runs against its platform (mem0-ts/src/client/tests/integration), as
they were at `COMMIT`. The client is the package `mem0ai` of npm, to which nothing is changed but
that its host is the server. The command fails unless as many tests pass as `MUST_PASS` says, and
all that fail are of calls that docs/server.md lists as refused.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
WORK = ROOT / "build" / "mem0-suite"

COMMIT = "8d5b7865bd0521e75fe9ab1b260eeccc83f8a378"
"""The commit of mem0's repository whose tests are run: of version 3.1.6 of its client."""

TESTS = "mem0-ts/src/client/tests/integration"
"""Where the tests are in that repository."""

MUST_PASS = 28
"""Tests of what is served."""

REFUSED = ("Users & Project project management", "Users & Project webhook management")
"""Groups of tests of calls that are refused, by the end of their names."""

PACKAGES = {
    "jest": "29.7.0",
    "mem0ai": "3.1.6",
    "ts-jest": "29.2.6",
    "typescript": "5.5.4",
    "@types/jest": "29.5.14",
}

SHIMS = {
    "src/client/mem0.ts": """\
import { MemoryClient as Published } from "mem0ai";
export class MemoryClient extends Published {
  constructor(options: any) {
    super({ host: process.env.ALVEUS_URL, ...options });
  }
}
""",
    "src/client/mem0.types.ts": 'export { WebhookEvent } from "mem0ai";\n',
    "src/common/exceptions.ts": 'export * from "mem0ai";\n',
    "tsconfig.json": '{"compilerOptions": {"module": "commonjs", "isolatedModules": true}}\n',
    "jest.config.js": """\
module.exports = {
  testMatch: ["**/integration/**/*.test.ts"],
  transform: { "^.+\\\\.ts$": ["ts-jest", { diagnostics: false, isolatedModules: true }] },
  globalSetup: "<rootDir>/src/client/tests/integration/global-setup.ts",
  globalTeardown: "<rootDir>/src/client/tests/integration/global-teardown.ts",
  maxWorkers: 1,
};
""",
    "package.json": json.dumps({"private": True, "dependencies": PACKAGES}),
}
"""Files around the tests: their imports lead to the published client, which asks the server."""


def prepare(repository: Path) -> None:
    """Lay out the tests, and install the published client and Jest."""
    archive = subprocess.run(
        ["git", "-C", str(repository), "archive", COMMIT, TESTS], capture_output=True, check=True
    ).stdout
    for name, text in SHIMS.items():
        file = WORK / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    with tarfile.open(fileobj=io.BytesIO(archive)) as packed:
        for member in packed.getmembers():
            if member.isfile():
                file = WORK / Path(member.name).relative_to("mem0-ts")
                file.parent.mkdir(parents=True, exist_ok=True)
                content = packed.extractfile(member)
                assert content is not None
                file.write_bytes(content.read())
    # Without peers: databases and models of mem0's other half, which its client does not use.
    quiet = ["--no-audit", "--no-fund", "--ignore-scripts", "--legacy-peer-deps"]
    subprocess.run(["npm", "install", "--loglevel=error", *quiet], cwd=WORK, check=True)


@contextmanager
def serving(folder: Path) -> Iterator[tuple[str, str]]:
    """Serve a new memory; yield its url, and a token."""
    alveus, tokens = [sys.executable, "-m", "alveus"], ["--tokens", str(folder / "tokens.json")]
    made = subprocess.run(
        [*alveus, "token", "new", "suite", *tokens, "--json"], capture_output=True, check=True
    )
    place = ["--db", str(folder / "memory.db"), "--embedder", "static", "--port", "0"]
    with subprocess.Popen(
        [*alveus, "serve", "--json", *place, *tokens], stdout=subprocess.PIPE, text=True
    ) as server:
        try:
            assert server.stdout is not None
            url = json.loads(server.stdout.readline())["url"].rstrip("/")
            yield url, json.loads(made.stdout)["token"]
        finally:
            server.terminate()


def run(folder: Path) -> list[dict[str, Any]]:
    """Run the tests; return what Jest says of each."""
    results = folder / "results.json"
    with serving(folder) as (url, token):
        known = {"MEM0_API_KEY": token, "ALVEUS_URL": url, "HOME": str(folder)}
        subprocess.run(
            ["npx", "jest", "--json", f"--outputFile={results}", "--forceExit", "--silent"],
            cwd=WORK,
            env={**os.environ, **known, "MEM0_TELEMETRY": "false", "MEM0_DIR": str(folder)},
            capture_output=True,
            check=False,  # some fail
        )
    told = json.loads(results.read_text())
    return [each for file in told["testResults"] for each in file["assertionResults"]]


def main(words: list[str] | None = None) -> int:
    """Run the tests, say what failed, and return 1 if fewer pass than have to."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("repository", type=Path, help="a clone of github.com/mem0ai/mem0")
    prepare(parser.parse_args(words).repository)
    with tempfile.TemporaryDirectory() as folder:
        tests = run(Path(folder))
    passed = [each for each in tests if each["status"] == "passed"]
    failed = [each for each in tests if each["status"] != "passed"]
    refused = [each for each in failed if " ".join(each["ancestorTitles"]).endswith(REFUSED)]
    print(f"{len(passed)} of {len(tests)} pass, {len(refused)} are of calls that are refused")
    for each in failed:
        if each not in refused:
            print(f"  {each['fullName']}: {each['failureMessages'][0].splitlines()[0]}")
    return 0 if len(passed) == MUST_PASS and len(refused) == len(failed) else 1


if __name__ == "__main__":
    sys.exit(main())
