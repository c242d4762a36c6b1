"""Prompts an agent whose model remembers, corrects and edits a block; may be killed on the way.

    python tools_worker.py PATH WHOSE CRASH

*WHOSE* is the key that the tools are of: "ada", whose prompt it is, or another. *CRASH* is the
number of the model's answer before which the process kills itself; 0: it does not.
"""

from __future__ import annotations

import os
import re
import signal
import sys

from alveus import Memory
from alveus.agents.automata import Manifold
from alveus.memory.memory_tools import memory_tools


def main() -> None:
    path, whose, crash = sys.argv[1], sys.argv[2], int(sys.argv[3])
    asked = 0

    def model(messages: list[dict[str, str]]) -> str:
        """Answer by what the last message says, as a model does."""
        nonlocal asked
        asked += 1
        if asked == crash:
            os.kill(os.getpid(), signal.SIGKILL)
        last = messages[-1]["content"]
        if found := re.search(r"Remembered as ([0-9a-f-]+)", last):
            return (
                f'[{{"tool": "correct", "arguments": {{"id": "{found[1]}", "text": "Porto"}}}}, '
                '{"tool": "update_block", "arguments": {"block": "human", "text": "moved"}}]'
            )
        if "Corrected" in last:
            return "done"
        return '{"tool": "remember", "arguments": {"text": "Lisbon"}}'

    with Memory.open(path, embedder="words") as memory:
        tools = memory_tools(memory.key(whose), blocks=["human"])
        agent = Manifold(model, [tools], key=memory.key("ada"), name="guide")
        sys.stdout.write(str(agent.prompt("I moved.", event_id="the move")))


if __name__ == "__main__":
    main()
