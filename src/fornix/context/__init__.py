"""Windows: what an agent remembers of what was asked and answered, and shows its model."""

from fornix.context.by_model import ByModel
from fornix.context.held import Column, Held
from fornix.context.hierarchical import Hierarchical, Layer
from fornix.context.hybrid import Hybrid
from fornix.context.linked import Linked
from fornix.context.memory import ContextMemory
from fornix.context.observation import Input, Observation, Outcome, Reply, Stamp, Vector
from fornix.context.priority import Importance, Priority
from fornix.context.reflection import Reflection
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
from fornix.context.semantic import Semantic
from fornix.context.settings import Asked, Evict, Profile, Settings
from fornix.context.stream import Stream, Void
from fornix.context.window import Window
from fornix.embed import float8

__all__ = [
    "Asked",
    "ByModel",
    "Column",
    "Combined",
    "ContextMemory",
    "Evict",
    "Explicit",
    "Fading",
    "Held",
    "Hierarchical",
    "Hybrid",
    "Importance",
    "Input",
    "Layer",
    "Length",
    "Linked",
    "Novelty",
    "Observation",
    "Outcome",
    "Priority",
    "Profile",
    "Recency",
    "Reflection",
    "Reply",
    "Score",
    "Scorer",
    "Scoring",
    "Semantic",
    "Settings",
    "Stamp",
    "Stream",
    "Vector",
    "Void",
    "Window",
    "float8",
]
