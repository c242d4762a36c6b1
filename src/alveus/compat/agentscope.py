"""AgentScope's messages, their memory, and agents that reply, under its names.

The differences, with their reasons, are in docs/coming-from/agentscope.md.
"""

from alveus.agents.chat import AgentBase, DialogAgent
from alveus.agents.messages import (
    MemoryBase,
    MessageBase,
    Msg,
    PromptType,
    TemporaryMemory,
    Tht,
    deserialize,
)

__all__ = [
    "AgentBase",
    "DialogAgent",
    "MemoryBase",
    "MessageBase",
    "Msg",
    "PromptType",
    "TemporaryMemory",
    "Tht",
    "deserialize",
]
