"""What the table of docs/integrations.md says of each framework: made from what its tests counted.

A test that holds alveus to a framework's own ends with `counted`. What the last run counted is in
tests/data/integrations.json, from which tools/make_integrations.py writes the table; a run that
counts something else, or has other versions than the constraints, fails. To note what is counted
now: ALVEUS_NOTE_COUNTS=1, then `make docs`.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COUNTED = ROOT / "tests" / "data" / "integrations.json"


@dataclass(frozen=True)
class Framework:
    """A row of the table.

    Attributes:
        name: As the page says it.
        section: Of the page.
        packages: That the row gives the versions of; the first is the framework itself.
        role: What alveus is to it.
        extra: Of alveus, or None.
        says: What its tests say; in braces, what was counted and versions of packages.
        constraints: Where the versions are.
    """

    name: str
    section: str
    packages: tuple[str, ...]
    role: str
    extra: str | None
    says: str
    constraints: str = "constraints.txt"

    def pins(self) -> dict[str, str]:
        """Return the versions that the tests run with, by package."""
        lines = (ROOT / self.constraints).read_text(encoding="utf-8").splitlines()
        pins = dict(line.split("==") for line in lines if "==" in line)
        return {package: pins[package] for package in self.packages}

    def row(self) -> str:
        """Return the row as it should be."""
        counts = json.loads(COUNTED.read_text(encoding="utf-8"))[self.name]
        first, *others = self.pins().items()
        named = "".join(
            f" ({name} {number})" for name, number in others if f"{{{name}}}" not in self.says
        )
        extra = f"`alveus[{self.extra}]`" if self.extra else "none"
        says = self.says.format(**counts, **self.pins())
        return (
            f"| [{self.name}](#{self.section}) {first[1]}{named} | {self.role} | {extra} | {says} |"
        )


INTEGRATIONS = "constraints-integrations.txt"
OLDER = "constraints-integrations-older.txt"
SEE = "see [tests of the frameworks](#tests-of-the-frameworks); "
RANDOM = "{calls} random calls answer as its"

FRAMEWORKS = (
    Framework(
        "LangGraph",
        "langgraph",
        ("langgraph", "langgraph-checkpoint", "langgraph-checkpoint-conformance"),
        "checkpointer, store",
        "langgraph",
        "langgraph-checkpoint-conformance {langgraph-checkpoint-conformance}: {passed} of {tests}, "
        "in RAM, in a file and on PostgreSQL",
    ),
    Framework(
        "AgentScope",
        "agentscope",
        ("agentscope",),
        "middleware",
        "agentscope",
        "it publishes none for middlewares; {vectors} of its "
        "[vectors](agentscope-vectors.md) hold with its agents",
        INTEGRATIONS,
    ),
    Framework(
        "AgentScope 1",
        "agentscope",
        ("agentscope",),
        "long-term memory",
        "agentscope",
        "it publishes none for long-term memories; {vectors} of its "
        "[vectors](agentscope-vectors.md) hold with its agents",
        OLDER,
    ),
    Framework(
        "Anthropic's SDK",
        "anthropics-memory-tool",
        ("anthropic",),
        "memory tool",
        "anthropic",
        f"{SEE}{{commands}} random commands answer word by word as its "
        "`BetaLocalFilesystemMemoryTool` does",
    ),
    Framework(
        "CrewAI",
        "crewai",
        ("crewai",),
        "storage",
        "crewai",
        f"{SEE}{RANDOM} `LanceDBStorage` does",
        OLDER,
    ),
    Framework(
        "Google ADK",
        "google-adk",
        ("google-adk",),
        "memory service",
        "google-adk",
        f"{SEE}{{calls}} random calls find what its `InMemoryMemoryService` finds",
        INTEGRATIONS,
    ),
    Framework(
        "LlamaIndex",
        "llamaindex",
        ("llama-index-core",),
        "chat store, memory block",
        "llama-index",
        f"{SEE}{RANDOM} `SQLAlchemyChatStore` does",
        INTEGRATIONS,
    ),
    Framework(
        "Microsoft Agent Framework",
        "microsoft-agent-framework",
        ("agent-framework-core",),
        "history provider, context provider",
        "agent-framework",
        f"{SEE}{{messages}} messages of every kind come back as from its "
        "own `InMemoryHistoryProvider`",
    ),
    Framework(
        "OpenAI Agents SDK",
        "openai-agents-sdk",
        ("openai-agents",),
        "session",
        None,
        f"{SEE}{RANDOM} `SQLiteSession` does",
    ),
    Framework(
        "PydanticAI",
        "pydanticai",
        ("pydantic-ai-slim",),
        "conversation store",
        "pydantic-ai",
        f"it publishes none for stores; {RANDOM} `InMemoryConversationStore` does",
    ),
)


def counted(name: str, **counts: int) -> None:
    """Hold a run to what the page says that it counts, and to the versions that it names."""
    (framework,) = [one for one in FRAMEWORKS if one.name == name]
    installed = {package: version(package) for package in framework.packages}
    assert installed == framework.pins(), f"{framework.constraints} has other versions"
    noted = json.loads(COUNTED.read_text(encoding="utf-8"))
    if os.environ.get("ALVEUS_NOTE_COUNTS"):
        noted = dict(sorted({**noted, name: counts}.items()))
        COUNTED.write_text(json.dumps(noted, indent=2) + "\n", encoding="utf-8")
    assert noted.get(name) == counts, (
        f"{COUNTED.name} says {noted.get(name)} of {name}, and this run counted {counts}: "
        "run it again with ALVEUS_NOTE_COUNTS=1, then `make docs`"
    )
