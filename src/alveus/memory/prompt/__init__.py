"""Prompts from memory: relevant items for a query, quoted, within a token budget."""

from alveus.memory.prompt.context import (
    ALL,
    MIN_SCORE,
    NEWEST,
    All,
    Context,
    ContextRequest,
    DefaultSources,
    Details,
    ExactPaths,
    Newest,
    Part,
    Piece,
    Prompts,
    Secrecy,
    Shares,
    Sources,
)

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
