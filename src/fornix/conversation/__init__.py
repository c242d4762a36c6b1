"""Conversations: messages, and the memory of them."""

from fornix.conversation.message import MessageBase, Msg, Tht, deserialize
from fornix.conversation.temporary import MemoryBase, PromptType, TemporaryMemory
from fornix.dialogue import COMPRESSED, SUMMARY, Compressed, ConversationMemory

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
