"""Answers without a model: what memory holds on a question, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence

from fornix.keys import KeyMemory
from fornix.layers import MemoryFragment

NAME = "memory alone"
"""What stands where the name of a model would."""

MOST = 3
"""How much of what is found is told."""

_NO_MODEL = "No model is bound"
FOUND = f"{_NO_MODEL}; this is what memory holds on it:"
NOTHING = f"{_NO_MODEL}, and memory holds nothing on it."


def answer_from_memory(
    question: str, fragments: Sequence[MemoryFragment], key: KeyMemory, sets: Sequence[str]
) -> str:
    """Return what is told of a question without a model.

    First what search finds of it in *sets* of the conversation, then what was read of the agent's
    memory, the newest first; what such answers said before is left out.
    """
    found = [hit.item.text or "" for hit in key.search(question, sets=list(sets), limit=4 * MOST)]
    found += [fragment.raw_observation for fragment in reversed(fragments)]
    texts = dict.fromkeys(text.strip() for text in found)
    told = [text for text in texts if text and text != question.strip() and _NO_MODEL not in text]
    return "\n".join([FOUND, *(f"- {text}" for text in told[:MOST])]) if told else NOTHING
