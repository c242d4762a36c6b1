"""A conversation of a key: messages in their order, marked, searched, and summed up."""

from typing import TYPE_CHECKING

from fornix.values.lazy_names import lazy_names

if TYPE_CHECKING:
    from fornix.conversation.conversation_memory import ConversationMemory
    from fornix.conversation.message_items import COMPRESSED, SUMMARY, Said
    from fornix.conversation.rolling_summary import Compressed

__all__ = ["COMPRESSED", "SUMMARY", "Compressed", "ConversationMemory", "Said"]

if not TYPE_CHECKING:  # else any name would be one of the package
    __getattr__ = lazy_names(
        __name__,
        {
            "fornix.conversation.conversation_memory": ("ConversationMemory",),
            "fornix.conversation.message_items": ("COMPRESSED", "SUMMARY", "Said"),
            "fornix.conversation.rolling_summary": ("Compressed",),
        },
    )
