"""Windows: what an agent remembers of what was asked and answered, and shows its model."""

from fornix.context.memory import ContextMemory
from fornix.context.observation import Input, Observation, Outcome, Reply, Stamp, Vector

__all__ = ["ContextMemory", "Input", "Observation", "Outcome", "Reply", "Stamp", "Vector"]
