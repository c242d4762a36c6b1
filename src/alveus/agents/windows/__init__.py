"""Windows: the observations that an agent remembers and shows its model."""

from alveus.agents.windows.observation import Input, Observation, Outcome, Reply, Stamp, Vector
from alveus.agents.windows.reflection import Reflection
from alveus.agents.windows.scorers import (
    ByModel,
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
from alveus.agents.windows.semantic import Linked, Semantic
from alveus.agents.windows.strategies import (
    Hierarchical,
    Hybrid,
    Importance,
    Layer,
    Priority,
    Stream,
    Void,
)
from alveus.agents.windows.window import (
    ContextMemory,
    Evict,
    Profile,
    Settings,
    Window,
    WindowRequest,
)
from alveus.agents.windows.window_contents import Column, WindowIndex
from alveus.embed import float8

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
