"""Windows: what an agent remembers of what was asked and answered, and shows its model."""

from fornix.agents.windows.context_memory import ContextMemory
from fornix.agents.windows.hierarchical import Hierarchical, Layer
from fornix.agents.windows.hybrid import Hybrid
from fornix.agents.windows.linked import Linked
from fornix.agents.windows.model_scorer import ByModel
from fornix.agents.windows.observation import Input, Observation, Outcome, Reply, Stamp, Vector
from fornix.agents.windows.priority import Importance, Priority
from fornix.agents.windows.reflection import Reflection
from fornix.agents.windows.scorers import (
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
from fornix.agents.windows.semantic import Semantic
from fornix.agents.windows.stream import Stream, Void
from fornix.agents.windows.window import Window
from fornix.agents.windows.window_contents import Column, WindowIndex
from fornix.agents.windows.window_settings import Evict, Profile, Settings, WindowRequest
from fornix.embed import float8

__all__ = [
    "ByModel",
    "Column",
    "Combined",
    "ContextMemory",
    "Evict",
    "Explicit",
    "Fading",
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
    "WindowIndex",
    "WindowRequest",
    "float8",
]
