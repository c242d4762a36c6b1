"""Agents that answer prompts, each prompt a run: `Automata`, and `Manifold`, which calls tools."""

from alveus.agents.automata.agent_loop import (
    Answer,
    Decoder,
    Encoder,
    Epoch,
    LoopState,
    Phase,
    Reasoner,
    accept,
    as_prompt,
    as_text,
)
from alveus.agents.automata.automata import Automata, Manifold

__all__ = [
    "Answer",
    "Automata",
    "Decoder",
    "Encoder",
    "Epoch",
    "LoopState",
    "Manifold",
    "Phase",
    "Reasoner",
    "accept",
    "as_prompt",
    "as_text",
]
