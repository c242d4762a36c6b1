"""Conversations: messages, and the memory of them."""

from fornix.agents.messages.message import MessageBase, Msg, Tht, deserialize
from fornix.agents.messages.temporary_memory import MemoryBase, PromptType, TemporaryMemory
from fornix.conversation import COMPRESSED, SUMMARY, Compressed, ConversationMemory

__all__ = [
    "COMPRESSED",
    "SUMMARY",
    "Compressed",
    "ConversationMemory",
    "MemoryBase",
    "MessageBase",
    "Msg",
    "PromptType",
    "TemporaryMemory",
    "Tht",
    "deserialize",
]
