"""A process that writes to layers and is going to be killed.

``python layers_worker.py DATABASE FIRST COUNT`` writes fragments FIRST … FIRST+COUNT-1 and
prints the number of each when it is written. ``ALVEUS_CRASH=STEP:COUNT`` ends it, by SIGKILL, at a
step of a commit, for the COUNT-th time.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Mapping
from typing import Any

from alveus import Memory
from alveus.agents.layers import (
    AgentMemoryFragment,
    EnhancedShortTermMemory,
    HybridMemory,
    LongTermMemory,
    SensoryMemory,
)
from alveus.store.sql.items import Changes
from alveus.store.sqlite import SqliteStore
from waiting import LIMIT_S

STEPS = {"commit": (SqliteStore, "commit"), "item": (Changes, "_insert")}


def topic(n: int) -> str:
    """Return the text of a fragment: those of one topic are alike."""
    return f"{'abcdefgh'[n % 8]} number {n}"


def alike(texts: list[str]) -> list[list[float]]:
    """Return vectors by topic."""
    return [[float(ord(text[0]) == code) for code in range(97, 105)] for text in texts]


def layers(memory: Memory, **kwargs: Any) -> HybridMemory[AgentMemoryFragment]:
    """Return small layers, so that every write moves something."""
    short = EnhancedShortTermMemory[AgentMemoryFragment](
        alike, buffer_size=5, enhance_threshold=1, random=lambda: 0.0
    )
    return HybridMemory(
        sensory_memory=SensoryMemory(2),
        short_term_memory=short,
        long_term_memory=LongTermMemory(k=100_000),
        memory=memory.key("ada"),
        **kwargs,
    )


async def everything(hybrid: HybridMemory[AgentMemoryFragment]) -> list[str]:
    """Return the texts of all fragments in all layers, merged ones one by one, sorted."""
    held = [f for part in hybrid.parts() for f in await part.read("")]
    return sorted(text for f in held for text in f.raw_observation.split(";"))


def crash(spec: str, steps: Mapping[str, tuple[Any, str]] = STEPS) -> None:
    """Have this process killed before, or right after, a step: a method of some class."""
    step, _, rest = spec.partition(":")
    where, _, count = rest.partition(":")
    owner, name = steps[step]
    whole: Callable[..., Any] = getattr(owner, name)
    seen = 0

    def stumbling(*args: Any, **kwargs: Any) -> Any:
        nonlocal seen
        seen += 1
        if seen == int(count) and where == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        answer = whole(*args, **kwargs)
        if seen == int(count):
            os.kill(os.getpid(), signal.SIGKILL)
        return answer

    setattr(owner, name, stumbling)


async def main(path: str, first: int, count: int) -> None:
    with Memory.open(path, embedder="words", wait_s=LIMIT_S) as memory:
        hybrid = layers(memory)
        for n in range(first, first + count):
            await hybrid.write(AgentMemoryFragment(topic(n), memory_id=n))
            sys.stdout.write(f"{n}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    if "ALVEUS_CRASH" in os.environ:
        crash(os.environ["ALVEUS_CRASH"])
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
