"""Prompts made from memory: what matters to a query, quoted, within a budget of tokens."""

from alveus.memory.prompt.context import Context, Part, Piece
from alveus.memory.prompt.context_request import (
    ALL,
    MIN_SCORE,
    NEWEST,
    All,
    ContextRequest,
    DefaultSources,
    Details,
    ExactPaths,
    Newest,
    Secrecy,
    Shares,
    Sources,
)
from alveus.memory.prompt.prompts import Prompts

__all__ = [
    "ALL",
    "MIN_SCORE",
    "NEWEST",
    "All",
    "Context",
    "ContextRequest",
    "DefaultSources",
    "Details",
    "ExactPaths",
    "Newest",
    "Part",
    "Piece",
    "Prompts",
    "Secrecy",
    "Shares",
    "Sources",
]
