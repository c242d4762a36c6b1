"""Windows: what an agent remembers of what was asked and answered, and shows its model."""

from fornix.context.by_model import ByModel
from fornix.context.memory import ContextMemory
from fornix.context.observation import Input, Observation, Outcome, Reply, Stamp, Vector
from fornix.context.priority import Importance, Priority
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
from fornix.context.stream import Stream, Void
from fornix.context.window import Asked, Evict, Profile, Settings, Window
from fornix.embed import float8

__all__ = [
    "Asked",
    "ByModel",
    "Combined",
    "ContextMemory",
    "Evict",
    "Explicit",
    "Fading",
    "Importance",
    "Input",
    "Length",
    "Novelty",
    "Observation",
    "Outcome",
    "Priority",
    "Profile",
    "Recency",
    "Reply",
    "Score",
    "Scorer",
    "Scoring",
    "Settings",
    "Stamp",
    "Stream",
    "Vector",
    "Void",
    "Window",
    "float8",
]
