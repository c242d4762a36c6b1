"""A conversation of a key: messages in their order, marked, searched, and summed up."""

from fornix.dialogue.contents import COMPRESSED, SUMMARY, Said
from fornix.dialogue.memory import ConversationMemory
from fornix.dialogue.summing import Compressed

__all__ = ["COMPRESSED", "SUMMARY", "Compressed", "ConversationMemory", "Said"]
