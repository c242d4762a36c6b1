"""A conversation of a key: ordered messages with marks, search, and a rolling summary."""

from typing import TYPE_CHECKING

from alveus.values.lazy import lazy_names

if TYPE_CHECKING:
    from alveus.conversation.conversation_memory import ConversationMemory
    from alveus.conversation.message_items import COMPRESSED, SUMMARY, Said
    from alveus.conversation.rolling_summary import Compressed

__all__ = ["COMPRESSED", "SUMMARY", "Compressed", "ConversationMemory", "Said"]

if not TYPE_CHECKING:  # otherwise any name would be an attribute of the package
    __getattr__ = lazy_names(__name__)
