"""Short-term memory: an exact tree per key, which stays.

`program.py` is the program of the document in which the authors of Apache Flink Agents designed
short-term memory. Nothing in it was changed but the line that says where the names come from. Its
one action sets values, makes objects, and asks for what it wrote.

Here it is run: once for Ada. Then another agent, on the same memory, looks at what is left: it is
all there for Ada, and for nobody else. The same written to *sensory* memory would be gone, for
that belongs to one run.

    python main.py             # in RAM
    python main.py memory.db   # in a file: run it twice, and the second time it finds the first
"""

from __future__ import annotations

import sys

from alveus import LocalRunner, Memory
from alveus.compat.flink_agents import Agent, InputEvent, OutputEvent, RunnerContext, action
from program import E0, MyEvent


class Look(Agent):
    """Tells what is in the memories of a key; writes to its sensory memory, in vain."""

    @action(InputEvent)
    def look(self, event: InputEvent, ctx: RunnerContext) -> None:
        """Show both trees as they are when the run begins."""
        sensory = ctx.get_sensory_memory()
        shown = {"short_term": ctx.get_short_term_memory().to_dict(), "sensory": sensory.to_dict()}
        sensory.set("x", 100)
        sensory.new_object("z").set("m", 0.5)
        ctx.send_event(OutputEvent(shown))


def main(url: str = ":memory:") -> list[dict]:
    """Run the program for Ada; return what Ada's runs see after it, and what Bob's sees."""
    with Memory.open(url) as memory:
        if "x" not in memory.key("ada").short_term:  # the program expects to be the first
            with LocalRunner(E0, memory) as runner:
                runner.handle("ada", MyEvent())
        with LocalRunner(Look, memory) as runner:
            return [runner.handle(key, "look")[0] for key in ("ada", "ada", "bob")]


if __name__ == "__main__":
    for name, seen in zip(("Ada", "Ada, a run later", "Bob"), main(*sys.argv[1:]), strict=True):
        print(f"{name}: {seen}")
