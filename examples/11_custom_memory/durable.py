"""Custom memory that lasts: the rule of `memory.py` on a memory set, killed and continued.

`PriorityMemory` is now a `Window`, of which it only says what matters. The rest comes with it:
what it holds is a set in a file, what it lets go is retired and not lost, and an agent whose
window is kept on a key makes each prompt a run of that key.

What you will see: a process asks three questions and is killed, without a warning, when the model
has answered the third and nobody has read the answer yet. A second process does the same from the
beginning, and one more question:

- the first two prompts are over: they are not asked again, and give the answers that they gave;
- the third goes on where it was: the model had answered, so it is not asked again;
- each exchange is in the window once.

    python durable.py
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import ClassVar

from alveus import Memory
from alveus.agents.automata import Automata
from alveus.agents.windows import (
    Column,
    Evict,
    Observation,
    Reply,
    Window,
    WindowIndex,
    WindowRequest,
)
from alveus.llm import ScriptedChat
from memory import ANSWERS, LONG, STRATUM

QUESTIONS = [question for question, answer in ANSWERS.items() if len(answer) > len("Hello.") * 4]


def by_length(observation: Observation) -> float:
    """Return how much an answer matters: its length, a thousand characters being all."""
    return min(1.0, len(str(observation.reply)) / LONG)


class PriorityMemory(Window):
    """Keeps and shows what matters most; see `memory.PriorityMemory`."""

    kind: ClassVar[str] = "longest answers"
    evicts: ClassVar[Evict] = "least important"

    def worth(self, index: WindowIndex, request: WindowRequest) -> Column:
        """Return what each observation is worth showing: its importance."""
        return self.importance(index, request)


def work(folder: Path, *, dawdles: bool) -> None:
    """Be one process: ask, by names that tell the same question from another one."""
    ledger = folder / "asked.txt"

    def answer(messages):
        question = messages[-1]["content"]
        with ledger.open("a", encoding="utf-8") as book:
            book.write(f"{question}\n")
        return ANSWERS[question]

    def decode(reply: Reply) -> str:
        if dawdles and "vault" in str(reply):
            print("  has an answer, and dawdles", flush=True)
            time.sleep(600)
        return str(reply)

    with Memory.open(folder / "talk.db", embedder="words") as store:
        window = PriorityMemory(3, STRATUM, memory=store.key("ada"), scorer=by_length)
        agent = Automata(ScriptedChat(answer), window, decoder=decode)
        for question in QUESTIONS:
            print(f"  {question:<20} {agent.prompt(question, event_id=question)[:40]}", flush=True)


def main(folder: Path) -> None:
    """Start a process, kill it, start another one, and show what is left."""
    print("the first process", flush=True)
    command = [sys.executable, __file__, str(folder)]
    with subprocess.Popen([*command, "dawdle"], stdout=subprocess.PIPE, text=True) as first:
        assert first.stdout is not None
        for line in first.stdout:
            print(line, end="", flush=True)
            if "dawdles" in line:
                first.kill()
                print("  … and is killed", flush=True)
    print("the second process", flush=True)
    subprocess.run(command, check=True)
    print("what is left")
    asked = (folder / "asked.txt").read_text(encoding="utf-8").splitlines()
    print(f"  the model was asked: {' '.join(asked)}")
    with Memory.open(folder / "talk.db", mode="ro") as store:
        window = PriorityMemory(3, STRATUM, memory=store.key("ada"))
        for kept in window.observations():
            print(f"  kept: {kept.query!s:<20} its importance is {kept.reply.importance:.3f}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        work(Path(sys.argv[1]), dawdles=sys.argv[2:] == ["dawdle"])
    else:
        with tempfile.TemporaryDirectory() as temporary:
            main(Path(temporary))
