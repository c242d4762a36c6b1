"""Windows: what an agent remembers of what was asked and answered, and shows its model."""

from fornix.context.by_model import ByModel
from fornix.context.memory import ContextMemory
from fornix.context.observation import Input, Observation, Outcome, Reply, Stamp, Vector
from fornix.context.scorers import (
    Combined,
    Explicit,
    Fading,
    Length,
    Novelty,
    Recency,
    Score,
    Scorer,
    Scoring,
)
from fornix.embed import float8

__all__ = [
    "ByModel",
    "Combined",
    "ContextMemory",
    "Explicit",
    "Fading",
    "Input",
    "Length",
    "Novelty",
    "Observation",
    "Outcome",
    "Recency",
    "Reply",
    "Score",
    "Scorer",
    "Scoring",
    "Stamp",
    "Vector",
    "float8",
]
