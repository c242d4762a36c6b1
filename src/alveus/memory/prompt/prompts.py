"""The call that makes a prompt from memory, for all that have a key's memory."""

from __future__ import annotations

from collections.abc import Sequence

from alveus.llm import MEMORY_DEFAULT, RerankerChoice
from alveus.memory.blocks import Blocks
from alveus.memory.prompt.context import Context
from alveus.memory.prompt.context_request import (
    ALL,
    NEWEST,
    All,
    ContextRequest,
    Details,
    ExactPaths,
    Newest,
    Secrecy,
    Shares,
    Sources,
)
from alveus.search.signals import Signals
from alveus.sets.writer import Where
from alveus.store.times import AsOf, ValidAt
from alveus.text.budget import Budget
from alveus.values.keywords import suggest_names_in_part


@suggest_names_in_part
class Prompts:
    """What prompts are made from: the memory of a key, as whoever has it sees it; its blocks."""

    def _sources(self) -> Sources:
        raise NotImplementedError

    @property
    def blocks(self) -> Blocks:
        """Short texts that an agent edits itself, such as what it knows of its human."""
        sources = self._sources()
        return Blocks(sources.tree(), sources.scope, lambda: sources.writer.alone("history"))

    def context(  # noqa: PLR0913 - the one call for all of a prompt; all but the query by name
        self,
        query: str | None,
        *,
        budget_tokens: int | Budget | None = None,
        system: str | None = None,
        messages: str | Newest | None = NEWEST,
        recent: int | None = None,
        sets: Sequence[str] | All | None = ALL,
        knowledge: Sequence[str] | All | None = ALL,
        exact: ExactPaths | All | None = None,
        profile: str | None = None,
        blocks: Sequence[str] | All | None = None,
        where: Where | None = None,
        as_of: AsOf | None = None,
        valid_at: ValidAt | None = None,
        signals: Signals | None = None,
        limit: int | None = None,
        reranker: RerankerChoice = MEMORY_DEFAULT,
        min_score: float | None = None,
        shares: Shares = Shares(),  # noqa: B008 - frozen
        secrets: Secrecy = "mask",
        details: Details = "hide",
    ) -> Context:
        """Return a prompt for *query*: what of the key's memory matters to it, and why.

        Its messages are the instructions with what is remembered, the last exchanges, and the
        query. What is remembered is quoted, so that nothing in it can pose as an instruction or as
        another message; if nothing of memory is shown, a sentence says why. Never over budget,
        neither the messages nor the text; the newest exchange is in it wherever it fits beside
        instructions and query; a tool call is shown with what answers it, or not at all. With a
        budget, an item or a recent message that has more than 150 tokens and more than an eighth
        of what the instructions and the query leave is cut: an item to the lines and sentences
        that match the query, a message to its beginning and its end. The same call on the same
        memory gives the same context.

        Args:
            query: What is asked now; None: nothing yet, and nothing is searched.
            budget_tokens: The most that it may have; a `Budget` says who counts.
            system: Instructions; they come first.
            messages: The set that holds the conversation; by default that of the key's sets of
                messages or observations which was added to last. None: no conversation.
            recent: Most exchanges of it.
            sets: Sets of the key that are searched. None: none.
            knowledge: Sets of knowledge that are searched. None: none.
            exact: Which exact values of short-term memory are shown: a path or a list of paths,
                each with all below it; `ALL`: all of them. By default none, since a session token
                may be among them; `Context.why` says how many there are.
            profile: Whose profile is shown: what `KeyMemory.profile` tells of somebody, by name,
                300 tokens of it at most. None: nobody's.
            blocks: Names of the blocks that are shown, each whole; `ALL`: all of them.
            where: Only items like this, of sets and of knowledge; see `MemorySet.search`.
            as_of: From memory as it was at a moment of the past.
            valid_at: When items have to hold, by default now (or at *as_of*); "any": whenever.
            signals: Weights of the searches.
            limit: Most items that a search is asked for; by default what the budget may have room
                for.
            reranker: Orders again what each search finds; see `MemorySet.search`. By default that
                of `Memory.open`, if any; None: this context goes without.
            min_score: Leave out all that a search finds if its best item has a lower relevance,
                0..1. 0: leave out nothing. By default sets are shown whole, whatever is asked, if
                *limit* allows so many items and they take at most a third of what the
                instructions and the query leave; of others the least relevance is `MIN_SCORE`.
            shares: How the budget is divided.
            secrets: "mask" replaces each secret in what is remembered by its kind, as the rule
                `Secrets` of the write barrier finds it; "show" does not. Instructions and query
                are never changed.
            details: "show" begins each line of what is remembered with its set, its id and its
                time; "hide" names the day, once for all items of that day. `Context.why` has all
                of it either way.

        Raises:
            BudgetTooSmall: Instructions and query alone have more.
            HistoryPruned: What was there at *as_of* is no longer kept.
            InvalidFilter, InvalidInput, InvalidName: It cannot be understood; nothing was read.
            Unsupported: *as_of*, in a batch or an action, with *exact*.
        """
        request = ContextRequest(
            query,
            Budget.of(budget_tokens),
            system=system,
            messages=messages,
            recent=recent,
            sets=sets,
            knowledge=knowledge,
            exact=exact,
            profile=profile,
            blocks=blocks,
            where=where,
            as_of=as_of,
            valid_at=valid_at,
            signals=signals,
            limit=limit,
            reranker=reranker,
            min_score=min_score,
            shares=shares,
            secrets=secrets,
            details=details,
        )
        return self._assembled(request)

    def _assembled(self, request: ContextRequest) -> Context:
        from alveus.memory.prompt.assembly import assembled

        return assembled(self._sources(), request)
