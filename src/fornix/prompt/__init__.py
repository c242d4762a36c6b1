"""Prompts made from memory: what matters to a query, quoted, within a budget of tokens."""

from fornix.prompt.asked import ALL, NEWEST, All, Asked, Choice, Newest, Shares
from fornix.prompt.context import Context, Part, Piece
from fornix.prompt.door import Prompts
from fornix.prompt.sources import Sources

__all__ = [
    "ALL",
    "NEWEST",
    "All",
    "Asked",
    "Choice",
    "Context",
    "Newest",
    "Part",
    "Piece",
    "Prompts",
    "Shares",
    "Sources",
]
