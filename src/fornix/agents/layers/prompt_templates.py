"""What of a memory goes into prompts, as DB-GPT's default templates have it; and its windows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from fornix.agents.layers.fragments import MemoryFragment
from fornix.errors import InvalidInput

R = TypeVar("R")


def memory_text(
    *,
    question: str | None = None,
    thought: str | None = None,
    action: str | None = None,
    observation: str | None = None,
) -> str:
    """Return what is written of a step: a line per part that there is."""
    named = {
        "Question": question,
        "Thought": thought,
        "Action": action,
        "Observation": observation,
    }
    return "\n".join(f"{name}: {text} " for name, text in named.items() if text)


def memories_text(fragments: Sequence[MemoryFragment]) -> str:
    """Return what is read into a prompt: the fragments' texts, a line each."""
    return "\n".join(fragment.raw_observation for fragment in fragments)


def user_prompt(question: str, most_recent_memories: str = "") -> str:
    """Return a question, with memories before it if there are any."""
    asked = f"User input: {question}\n"
    return (
        f"Most recent message:\n{most_recent_memories}\n\n{asked}"
        if most_recent_memories
        else asked
    )


def kept_rounds(rounds: Sequence[R], *, start: int = 0, end: int = 0) -> list[R]:
    """Return the first *start* and the last *end* rounds of a conversation.

    All of them, if that is no fewer; none, if both are 0.
    """
    if min(start, end) < 0:
        raise InvalidInput("the numbers of rounds to keep must not be below 0")
    if start + end >= len(rounds):
        return list(rounds) if start + end else []
    return [*rounds[:start], *rounds[len(rounds) - end :]]
