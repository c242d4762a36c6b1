"""Conversations: messages, and the memory of them."""

from fornix.conversation.message import MessageBase, Msg, Tht, deserialize
from fornix.conversation.temporary import MemoryBase, PromptType, TemporaryMemory

__all__ = [
    "MemoryBase",
    "MessageBase",
    "Msg",
    "PromptType",
    "TemporaryMemory",
    "Tht",
    "deserialize",
]
