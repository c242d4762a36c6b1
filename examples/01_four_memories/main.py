"""Four memories: what one run knows, one key, and everybody; exact and vague.

`program.py` is the program of the document in which the authors of Apache Flink Agents laid out
four kinds of memory. Nothing in it was changed but the line that says where the names come from.

- *Sensory* memory is for one run: `user.name` is there for the actions of the run, then gone.
- *Long-term* memory belongs to a key: the chat history is searched by meaning, and it stays.
- *Knowledge* belongs to nobody: what is added to `house_rules` is there for every key, and for
  other agents of other applications that name the same knowledge.
- *Short-term* memory, the fourth, is the subject of the example before this one.

No model and no network is needed: meaning is understood by an embedder that comes with alveus.

    python main.py             # in RAM
    python main.py memory.db   # in a file
"""

from __future__ import annotations

import sys

from alveus import LocalRunner, Memory
from alveus.compat.flink_agents import Agent, ChatMessage, Event, OutputEvent, RunnerContext, action
from program import four


class Look(Event):
    """Asks what a key remembers."""


@action(Look)
def look(event: Look, ctx: RunnerContext) -> None:
    """Show what this key sees of each memory."""
    history = ctx.long_term_memory.get_or_create_memory_set(
        name="chat_history", item_type=ChatMessage, capacity=100, compaction_strategy=None
    )
    rules = ctx.knowledge.get_or_create_knowledge_set(name="house_rules")
    shown = {
        "sensory": ctx.sensory_memory.to_dict(),
        "chat_history": [f"{m.value.role}: {m.value.content}" for m in history.get()],
        "house_rules": [rule.value["rule"] for rule in rules.get()],
    }
    ctx.send_event(OutputEvent(shown))


def main(url: str = ":memory:") -> dict[str, dict]:
    """Run the program for Ada; return what Ada and Bob see after it."""
    cook, gardener = Agent("cook", actions=[four, look]), Agent("gardener", actions=[look])
    kitchen = Memory.open(url, space="kitchen", knowledge="house")
    with kitchen, LocalRunner(cook, kitchen) as runner:
        if "chat_history" not in kitchen.key("ada").sets():  # the program expects to be the first
            runner.handle("ada", "hello")
        seen = {key: runner.handle(key, Look())[0] for key in ("ada", "bob")}
    if url == ":memory:":
        return seen
    # another application on the same file, which names the same knowledge
    garden = Memory.open(url, space="garden", knowledge="house")
    with garden, LocalRunner(gardener, garden) as runner:
        seen["a gardener"] = runner.handle("eve", Look())[0]
    return seen


if __name__ == "__main__":
    for name, shown in main(*sys.argv[1:]).items():
        print(f"{name}: {shown}")
