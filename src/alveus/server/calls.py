"""All calls of a key's memory that requests may carry: alone, or several as one commit.

Each has the name and the arguments of the call in Python that it makes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeAlias, Union, get_args

from pydantic import BaseModel, ConfigDict, Field

from alveus.errors import InvalidInput
from alveus.llm import MEMORY_DEFAULT
from alveus.memory.keys import KnowledgeMemory
from alveus.memory.prompt import ALL, NEWEST, All, Details, Secrecy, Shares
from alveus.search.signals import Signals
from alveus.server import exact_calls, set_calls
from alveus.server import json_forms as forms
from alveus.server import requests as asked
from alveus.server.conversation_calls import CONVERSATION_CALLS
from alveus.server.fact_calls import FACT_CALLS
from alveus.server.memory_call import CallTarget, Document, MemoryCall
from alveus.server.tokens import Access
from alveus.server.upkeep_calls import AnyUpkeepCall
from alveus.text.budget import MESSAGE_TOKENS, Budget

NamesOrAll: TypeAlias = Literal["all"] | list[str] | None


class PromptShares(BaseModel):
    """How a budget is divided among the parts of a prompt; see `Shares` of alveus."""

    model_config = ConfigDict(extra="forbid", strict=True)
    exact: float = 0.1
    knowledge: float = 0.2
    recent: float = 0.15
    items: float = 0.55
    profile: float = 0.15
    blocks: float = 0.2


class MakePrompt(MemoryCall):
    """Make a prompt, and say what is in it and why; see `context` of alveus."""

    access: ClassVar[Access] = "read"
    call: Literal["context"]
    query: str | None
    budget_tokens: int | None = None
    message_tokens: int = MESSAGE_TOKENS
    system: str | None = None
    messages: Annotated[
        str | None, Field(description="The set of the conversation; left out: the newest.")
    ] = None
    recent: int | None = None
    sets: NamesOrAll = "all"
    knowledge: NamesOrAll = "all"
    exact: Annotated[list[exact_calls.Names], Field(description="Paths; an empty one is all.")] = (
        Field(default_factory=list[exact_calls.Names])
    )
    profile: str | None = None
    blocks: NamesOrAll = None
    where: Any = None
    as_of: str | None = None
    valid_at: str | None = None
    signals: dict[str, float] | None = None
    limit: int | None = None
    rerank: bool = True
    min_score: float | None = None
    shares: PromptShares = PromptShares()
    secrets: Secrecy = "mask"
    details: Details = "hide"

    def answer(self, to: CallTarget) -> Document:
        """See `MemoryCall.answer`."""
        if isinstance(to.owner, KnowledgeMemory):
            raise InvalidInput("a prompt is made from the memory of a key; name one with ?key=")
        paths = [tuple(path) for path in self.exact]
        made = to.owner.context(
            self.query,
            budget_tokens=Budget(self.budget_tokens, message_tokens=self.message_tokens),
            system=self.system,
            messages=self.messages if "messages" in self.model_fields_set else NEWEST,
            recent=self.recent,
            sets=_or_all(self.sets),
            knowledge=_or_all(self.knowledge),
            exact=ALL if () in paths else paths,
            profile=self.profile,
            blocks=_or_all(self.blocks),
            where=asked.stored(self.where),
            as_of=asked.as_of(self.as_of),
            valid_at=asked.valid_at(self.valid_at),
            signals=None if self.signals is None else Signals.from_json(self.signals),
            limit=self.limit,
            reranker=MEMORY_DEFAULT if self.rerank else None,
            min_score=self.min_score,
            shares=Shares(**self.shares.model_dump()),
            secrets=self.secrets,
            details=self.details,
        )
        return forms.context_fields(made)


def _or_all(names: NamesOrAll) -> list[str] | All | None:
    return ALL if names == "all" else names


_EVERY = (
    exact_calls.ReadValue,
    exact_calls.HasValue,
    exact_calls.FieldNames,
    exact_calls.ListNames,
    exact_calls.ReadFields,
    exact_calls.Subtree,
    exact_calls.WriteValue,
    exact_calls.NewObject,
    exact_calls.RemoveValue,
    exact_calls.MoveValue,
    exact_calls.ClearObject,
    exact_calls.AppendValue,
    exact_calls.IncrementValue,
    exact_calls.ReplaceValue,
    exact_calls.CopyObject,
    set_calls.Describe,
    set_calls.GetItems,
    set_calls.ListItems,
    set_calls.RecentItems,
    set_calls.ItemHistory,
    set_calls.JudgeItem,
    set_calls.AddItems,
    set_calls.UpdateItem,
    set_calls.DeleteItems,
    set_calls.PopItems,
    set_calls.SupersedeItem,
    set_calls.RenewItems,
    set_calls.ForgetItems,
    set_calls.RedefineSet,
    set_calls.ListSets,
    set_calls.SearchItems,
    *CONVERSATION_CALLS,
    *get_args(AnyUpkeepCall),
    *FACT_CALLS,
    MakePrompt,
)

if TYPE_CHECKING:  # a checker knows the class that all have in common
    Call = MemoryCall
else:
    Call = Annotated[Union[*_EVERY], Field(discriminator="call")]
