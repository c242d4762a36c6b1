"""Conversations: messages, and the memory of them."""

from alveus.agents.messages.message import MessageBase, Msg, Tht, deserialize
from alveus.agents.messages.temporary_memory import MemoryBase, PromptType, TemporaryMemory
from alveus.conversation import COMPRESSED, SUMMARY, Compressed, ConversationMemory

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
