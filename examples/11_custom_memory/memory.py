"""Custom memory: an agent that keeps the exchanges that matter, and forgets the others.

`PriorityMemory` is a window of our own: the three calls that every window has, with a rule of our
own. It scores each answer by its length, keeps the best, and shows them to the model in the order
in which they were given. `Automata` drives it: it asks the window what the model is to be told,
asks the model, and commits what was answered.

What you will see: six questions, and room for three answers. The two greetings are forgotten
first, for they are short; what was kept is what the model is told with the seventh question.

This window is in RAM. `durable.py` beside it keeps the same rule in a file. `program.py` is the
program of the document that asked for all this, unchanged but for the lines of its imports; and
`alveus.agents.windows.Priority` is the same strategy for daily use: it never forgets the newest
exchange, counts tokens, and may be kept on a memory.

    python memory.py                      # with a scripted model: no key, no network
    OPENAI_API_KEY=… python memory.py     # with a model; OPENAI_BASE_URL and MODEL if need be
"""

from __future__ import annotations

import os
import threading

from alveus.compat.thinker import Automata, Memory, Message, Observation
from alveus.llm import ChatModel, OpenAIChat, ScriptedChat

LONG = 1000
"""Characters of an answer that matters as much as one can."""

STRATUM = "You are a helpful assistant. Answer in one paragraph."

ANSWERS = {
    "Hello!": "Hello.",
    "What is an alveus?": "The alveus is a sheet of fibres over the hippocampus. " * 6,
    "Thanks.": "You are welcome.",
    "Where does it lead?": "From the hippocampus to the mammillary bodies. " * 5,
    "Who named it?": "The word is Latin for a vault. " * 3,
    "How long is it?": "A few centimetres, in a human brain. " * 4,
}


class PriorityMemory(Memory):
    """Keeps the observations with the longest answers, and tells them in order.

    Args:
        max_size: How many it keeps.
        stratum: What each context begins with.
    """

    def __init__(self, max_size: int, stratum: str) -> None:
        self._lock = threading.Lock()  # agents of several threads may share a memory
        self.max_size, self.stratum = max_size, stratum
        self.observations: list[Observation] = []

    def purge(self) -> None:
        """Forget all."""
        with self._lock:
            self.observations = []

    def commit(self, observation: Observation) -> tuple[Observation, ...]:
        """Score an observation, keep it if it is among the best; return what was forgotten."""
        with self._lock:
            observation.reply.importance = self.score_importance(observation)
            best = [*self.observations, observation]
            best.sort(key=lambda one: (one.reply.importance, one.created), reverse=True)
            self.observations, forgotten = best[: self.max_size], best[self.max_size :]
            return tuple(forgotten)

    def context(self, prompt: Message | None) -> list[Message]:
        """Return the stratum, what was kept, in order of time, and the prompt."""
        with self._lock:
            told = [Message.stratum(self.stratum)] if self.stratum else []
            for one in sorted(self.observations, key=lambda one: one.created):
                told += [one.query.content, one.reply.content]
            return told if prompt is None else [*told, prompt]

    def score_importance(self, observation: Observation) -> float:
        """Return how much an answer matters: its length, a thousand characters being all."""
        return min(1.0, len(str(observation.reply.content)) / LONG)


def model() -> ChatModel:
    """Return the model whose key the environment has, or a script."""
    if os.environ.get("OPENAI_API_KEY"):
        return OpenAIChat(os.environ.get("MODEL", "gpt-4o-mini"))
    return ScriptedChat(lambda messages: ANSWERS.get(messages[-1]["content"], "It is an arch."))


def main() -> None:
    """Ask, and show what was kept and why."""
    llm, memory = model(), PriorityMemory(3, STRATUM)
    agent = Automata(llm, memory, str, str, lambda _: "return")
    for question in ANSWERS:
        agent.prompt(question)
    kept = {str(one.query.content): one.reply.importance for one in memory.observations}
    least = min(kept.values())
    for question in ANSWERS:
        if question in kept:
            print(f"kept       {question:<20} its importance is {kept[question]:.3f}")
        else:
            print(f"forgotten  {question:<20} its importance was at most {least:.3f}")
    told = memory.context(Message("So what is it?"))
    print(f"With the next question {llm.name} is told {len(told)} messages:")
    for message in told:
        print(f"  {message.role}: {str(message)[:60]}")


if __name__ == "__main__":
    main()
