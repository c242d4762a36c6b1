"""Windows: what an agent remembers of what was asked and answered, and shows its model."""

from fornix.agents.windows.linked import Linked
from fornix.agents.windows.observation import Input, Observation, Outcome, Reply, Stamp, Vector
from fornix.agents.windows.reflection import Reflection
from fornix.agents.windows.scorers import (
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
from fornix.agents.windows.semantic import Semantic
from fornix.agents.windows.strategies import (
    Hierarchical,
    Hybrid,
    Importance,
    Layer,
    Priority,
    Stream,
    Void,
)
from fornix.agents.windows.window import (
    ContextMemory,
    Evict,
    Profile,
    Settings,
    Window,
    WindowRequest,
)
from fornix.agents.windows.window_contents import Column, WindowIndex
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
