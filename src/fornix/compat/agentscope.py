"""AgentScope's messages and their memory, under its names.

What behaves differently, and why, is told in docs/coming-from/agentscope.md.
"""

from fornix.conversation import (
    MemoryBase,
    MessageBase,
    Msg,
    PromptType,
    TemporaryMemory,
    Tht,
    deserialize,
)

__all__ = [
    "MemoryBase",
    "MessageBase",
    "Msg",
    "PromptType",
    "TemporaryMemory",
    "Tht",
    "deserialize",
]
