"""Prompts from memory: relevant items for a query, quoted, within a token budget."""

from __future__ import annotations

from alveus.memory.blocks import Blocks
from alveus.memory.prompt.context import (
    ALL,
    NEWEST,
    All,
    Context,
    ContextRequest,
    KeyContextRequest,
    Piece,
    Shares,
    Sources,
)
from alveus.values.keywords import arguments_of, suggest_names_in_part

__all__ = [
    "ALL",
    "NEWEST",
    "All",
    "Context",
    "ContextRequest",
    "KeyContextRequest",
    "Piece",
    "Prompts",
    "Shares",
    "Sources",
    "prompt_for",
]


@suggest_names_in_part
class Prompts:
    """The call `context` of a key's memory, and the key's blocks."""

    def _sources(self) -> Sources:
        raise NotImplementedError

    @property
    def blocks(self) -> Blocks:
        """Short texts that an agent edits, such as notes about its user."""
        return self._sources().blocks()

    @arguments_of(ContextRequest)
    def context(self, request: ContextRequest) -> Context:
        """Return a prompt for *query* from the key's memory, with the reason for each piece.

        The messages of the prompt are the instructions with the remembered data, the last
        exchanges, and the query. Remembered data is quoted, so that no text in it can pose as an
        instruction or another message. If nothing from memory is shown, a sentence says why. The
        same call on the same memory returns the same context.

        Neither the messages nor the text exceed the budget. The newest exchange is included if it
        fits beside instructions and query. A tool call is shown together with its answer, or not at
        all. With a budget, an item or a recent message is cut if it has more than 150 tokens and
        more than an eighth of the tokens that instructions and query leave: an item to the lines
        and sentences that match the query, a message to its beginning and end.

        Args:
            query: The user's question. With None there is no query and no search.
            budget_tokens: The most tokens of the prompt; a `Budget` also names the counter.
            system: Instructions, at the start of the prompt.
            messages: The name of the set with the conversation. The default is the key's set of
                messages or observations with the latest add. With None, no conversation is shown.
            recent: The most exchanges of the conversation.
            sets: The names of the key's sets to search. With None, no set is searched.
            knowledge: The names of the knowledge sets to search. With None, none is searched.
            exact: The exact values of short-term memory to show: a path or a list of paths, each
                with all values below it, or `ALL`. By default none are shown, since values may
                include a session token; `Context.why` reports their number.
            profile: The name of an entity. Up to 300 tokens of its `KeyMemory.profile` are shown.
                With None, no profile is shown.
            blocks: The names of the blocks to show whole, or `ALL`.
            where: A filter for items of sets and of knowledge; see `MemorySet.search`.
            as_of: Read the memory as of this moment of the past.
            valid_at: The time at which items must be valid, by default now (or *as_of*). With
                "any", the time does not matter.
            signals: Weights of the searches.
            limit: The most hits of a search, by default as many as the budget may have room for.
            reranker: Re-ranks the hits of each search; see `MemorySet.search`. The default is the
                re-ranker of `Memory.open`, if any. With None, hits are not re-ranked.
            min_score: Leave out all hits of a search if the relevance of the best hit, 0..1, is
                lower. 0 leaves out nothing. By default, small sets are shown whole, and items of
                larger ones get as many tokens as the query seems to need; the page "Prompts" has
                the rules.
            superseded: What becomes of items that a later item replaces; see `MemorySet.search`.
                "fold" and "hide" leave them out.
            shares: The division of the budget among the parts.
            secrets: "mask" replaces each secret in remembered data by its kind, as detected by the
                admission rule `Secrets`; "show" does not. Instructions and query are never changed.
            details: "show" starts each remembered line with its set, id and time. "hide" shows only
                the day, once above all items of the day. `Context.why` has all details in both
                cases.

        Raises:
            BudgetTooSmall: Instructions and query alone exceed the budget.
            HistoryPruned: The state at *as_of* is no longer kept.
            InvalidFilter, InvalidInput, InvalidName: An argument is invalid; nothing was read.
            Unsupported: Both *as_of* and *exact* were passed in a batch or an action.
        """
        return self._assembled(request)

    def _assembled(self, request: ContextRequest) -> Context:
        from alveus.memory.prompt.assembly import assembled

        return assembled(self._sources(), request)


def prompt_for(owner: Prompts, request: ContextRequest) -> Context:
    """Return the prompt for a request from the memory of *owner*."""
    return owner._assembled(request)  # noqa: SLF001 - of this file  # pyright: ignore[reportPrivateUsage] - of this file
