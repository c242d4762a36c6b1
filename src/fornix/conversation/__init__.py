"""A conversation of a key: messages in their order, marked, searched, and summed up."""

from fornix.conversation.conversation_memory import ConversationMemory
from fornix.conversation.message_items import COMPRESSED, SUMMARY, Said
from fornix.conversation.rolling_summary import Compressed

__all__ = ["COMPRESSED", "SUMMARY", "Compressed", "ConversationMemory", "Said"]
