"""Saves records of CrewAI, three at a time, until its process is killed; says what was saved."""

from __future__ import annotations

import sys

from crewai.memory.types import MemoryRecord

from alveus import Memory
from alveus.integrations.crewai import AlveusStorage


def main() -> None:
    with Memory.open(sys.argv[1], embedder="words") as memory:
        storage = AlveusStorage(memory, key="crew")
        for number in range(int(sys.argv[2]), 1_000_000):
            ids = [f"{number}-{part}" for part in range(3)]
            storage.save([MemoryRecord(id=one, content=f"record {one}") for one in ids])
            sys.stdout.write(f"{number}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
