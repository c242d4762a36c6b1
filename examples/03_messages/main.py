"""Messages, and the memory that an agent has of them.

`program.py` is the program of the document in which AgentScope's authors describe messages and
their memory: only its lines on where the names come from are others, and it stands in a function
that is given the memory.

Here it is run; its message with `echo=True` is shown through a logger, so this program gives that a
handler. Then a few messages are left in the memory: in a file they are there the next time.

    python main.py             # in RAM
    python main.py memory.db   # in a file: run it twice
"""

from __future__ import annotations

import logging
import sys

from alveus import Memory
from alveus.compat.agentscope import Msg, PromptType, TemporaryMemory
from program import main as program


def main(url: str = ":memory:") -> list[str]:
    """Run the program, in a memory of its own; return what is said in another, so far."""
    with Memory.open(url) as memory:
        program(TemporaryMemory(memory=memory.key("program")))
        talk = TemporaryMemory(memory=memory.key("ada"), name="talk")
        talk.add(Msg("Ada", f"This is visit {talk.size() + 1}.", role="user"))
        return str(talk.get_memory(PromptType.STRING)).splitlines()


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stdout)
    for line in main(*sys.argv[1:]):
        print(line)
