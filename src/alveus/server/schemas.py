"""JSON schemas of requests and responses, for the server's description.

A call's schema follows the annotations and docstrings of its Python method. Schemas only describe:
the call checks its arguments, and tests compare responses with the schemas.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import is_dataclass
from datetime import datetime, timedelta
from functools import cache
from inspect import cleandoc
from types import NoneType
from typing import Annotated, Any, Literal, TypeAlias, cast, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, RootModel, create_model

from alveus.conversation import ConversationMemory
from alveus.facts import EntityPage, EntityProfile, Fact, LearnReport
from alveus.llm import Reranker
from alveus.memory.prompt import All, Context
from alveus.memory.remote.codecs import arms_of, field_hints, json_name
from alveus.sets.admission import Quarantined
from alveus.sets.forgetting import Receipt
from alveus.sets.origins import CompactionInfo, Undone
from alveus.store import RunStatus
from alveus.store.filters import Filter
from alveus.store.items import Hit, Item

Replaced: TypeAlias = Annotated[
    int | None,
    Field(description="How many characters of the request were no text: U+FFFD replaces them."),
]
"""A response has this field only if characters were replaced."""


def answers(model: type[BaseModel], *, status: int = 200) -> dict[str, Any]:
    """Return the route options that declare *model* as the response."""
    return {
        "status_code": status,
        "response_model": None,
        "responses": {status: {"model": model, "description": model.__doc__}},
    }


# --- from annotations -----------------------------------------------------------------------------


new_model: Any = create_model
"""Untyped, because fields computed at run time cannot be typed arguments."""


def schema_of(hint: object, *, given: bool = False) -> Any:  # noqa: ANN401 - a type, for pydantic
    """Return the type that describes the JSON of values whose annotation is *hint*.

    Args:
        given: True if the values are arguments, false if they are results.
    """
    arms: list[Any] = [_schema_of_one(arm, given) for arm in arms_of(hint)]
    if Any in arms:
        return Any
    made = arms[0]
    for arm in arms[1:]:
        made |= arm
    return made


def _schema_of_one(arm: Any, given: bool) -> Any:  # noqa: ANN401, FBT001 - as above
    origin: Any = get_origin(arm)
    inside = get_args(arm)
    if arm in _SCHEMAS:
        return _SCHEMAS[arm]
    if origin in (list, Sequence, Iterable, tuple):
        kinds = {part for part in inside if part is not ...}
        return list[schema_of(kinds.pop(), given=given) if len(kinds) == 1 else Any]
    if origin in (dict, Mapping):
        return dict[str, schema_of(inside[1], given=given)]
    if is_dataclass(arm):
        return _object_schema(cast("type[Any]", arm), given=given)
    return arm if origin is Literal else Any


_SCHEMAS: Mapping[Any, Any] = {
    **{kind: kind for kind in (str, int, float, bool, NoneType)},
    datetime: str,
    ConversationMemory: str,
    timedelta: float,
    Filter: dict[str, Any],
    Reranker: None,
    All: Literal["all"],
}

_MORE: Mapping[type[Any], Mapping[str, Any]] = {
    Item: {"replaced_characters": (Replaced, None)},
    LearnReport: {"replaced_characters": (Replaced, None)},
    EntityProfile: {"text": (str, ...)},
}
"""The fields that a response has in addition to the fields of the object."""


@cache
def _object_schema(kind: type[Any], *, given: bool) -> type[BaseModel]:
    """Return the schema of a dataclass. If it is an argument (*given*), all fields are optional."""
    says, fields = said_of(kind.__doc__, "Attributes"), dict[str, Any]()
    for name, hint in field_hints(kind, given=given).items():
        about = Field(None if given else ..., description=says.get(name))
        fields[json_name(name, hint)] = (schema_of(hint, given=given), about)
    more: Mapping[str, Any] = {} if given else _MORE.get(kind, {})
    title = kind.__name__ if given else f"{kind.__name__}Answer"
    return new_model(title, __doc__=first_of(kind.__doc__), **fields, **more)


def first_of(doc: str | None) -> str:
    """Return the first paragraph of a docstring."""
    return cleandoc(doc or "").partition("\n\n")[0]


def said_of(doc: str | None, section: str) -> dict[str, str]:
    """Return the descriptions in a docstring's section, "Args" or "Attributes", by name."""
    text = f"{cleandoc(doc or '')}\n\n"
    inside = re.search(rf"^{section}:\n(.*?)\n\n", text, re.DOTALL | re.MULTILINE)
    found: dict[str, str] = {}
    for names, says in re.findall(
        r"^    (\w[\w, ]*): (.*(?:\n {8}.*)*)", inside[1] if inside else "", re.MULTILINE
    ):
        found.update(dict.fromkeys(names.split(", "), " ".join(says.split())))
    return found


def listed(title: str, doc: str, **hints: object) -> type[BaseModel]:
    """Return the schema of a response whose fields have these names and annotations."""
    return new_model(title, __doc__=doc, **{name: (schema_of(h), ...) for name, h in hints.items()})


ItemAnswer = schema_of(Item)
ItemPage = listed(
    "ItemPage", "Items, in the order that was asked for.", items=list[Item], more=bool
)
ItemVersions = listed("ItemVersions", "Versions of an item, the oldest first.", versions=list[Item])
ContextAnswer = schema_of(Context)
FactList = listed("FactList", "What was learnt.", facts=list[Fact])
EntityAnswer = schema_of(EntityPage)
ProfileAnswer = schema_of(EntityProfile)
LearnAnswer = schema_of(LearnReport)
CompactionList = listed(
    "CompactionList", "Compactions, the latest first.", compactions=list[CompactionInfo]
)
UndoneAnswer = schema_of(Undone)
ReceiptAnswer = schema_of(Receipt)
ReceiptList = listed("ReceiptList", "Receipts, the latest first.", receipts=list[Receipt])
HeldList = listed("HeldList", "What rules of admission hold back.", held=list[Quarantined])
SearchAnswer = listed(
    "SearchAnswer",
    "Items that answer a question, the best first.",
    partial=bool,
    reranker_failure=str | None,
    dated=str | None,
    hits=list[Hit],
)


# --- of addresses ---------------------------------------------------------------------------------


class KeyPage(BaseModel):
    """Keys, sorted."""

    keys: list[str]
    more: bool = Field(description="Whether others follow.")


class SetAndSize(BaseModel):
    """A set and its number of items."""

    name: str
    items: int


class SetsAnswer(BaseModel):
    """The sets of a key, or of knowledge."""

    sets: list[SetAndSize]


class ExactValue(BaseModel):
    """A value of exact memory. Bytes, NaN and large numbers are objects with one field."""

    path: str
    value: Any
    is_object: bool = Field(description="Whether an object is there, and not a dict as a value.")
    replaced_characters: Replaced = None


class Removed(BaseModel):
    """Whether a value existed and was deleted."""

    removed: bool


class AddedIds(BaseModel):
    """The ids of the added items, in the order of the request."""

    ids: list[str]
    replaced_characters: Replaced = None


class DeletedCount(BaseModel):
    """The number of retired items."""

    deleted: int


class ItemMap(BaseModel):
    """A map of items, similar ones close together, as columns of one length."""

    ids: list[str]
    x: list[float]
    y: list[float]
    times: list[int] = Field(description="Seconds since 1970.")
    sets: list[str]
    set: list[int] = Field(description="Positions in `sets`.")
    speakers: list[str]
    speaker: list[int] = Field(description="Positions in `speakers`; -1: nobody.")
    share: float = Field(description="How much of all differences the positions show, 0 to 1.")
    unplaced: int = Field(description="Items that wait for their vectors, or have no text.")
    left_out: int = Field(description="Items beyond the limit.")


class RunError(BaseModel):
    """The error that parked a run."""

    action: str | None
    type: str
    message: str


class RunAnswer(BaseModel):
    """A run of an agent."""

    run: int
    agent: str
    key: str | None
    number: int
    status: RunStatus
    accepted: str
    begun: str | None
    ended: str | None
    origin: int | None
    error: RunError | None


class RunList(BaseModel):
    """Runs, latest first."""

    runs: list[RunAnswer]
    more: bool


class RunChosen(BaseModel):
    """The run that has the input now: a retry may move the input to a new run."""

    run: int


class StoreFigures(BaseModel):
    """Numbers about the store, with all its spaces."""

    commits: int
    keys: int
    sets: int
    items: int
    pending: int
    file_bytes: int
    wal_bytes: int
    runs_waiting: int
    runs_parked: int


class StatsAnswer(BaseModel):
    """The size of a memory and its waiting work."""

    space: str
    knowledge: str
    embedder: str
    pending: int | None
    queue_age_s: float | None
    failure: str | None
    store: StoreFigures | None


class HeldId(BaseModel):
    """The id of an item that left the quarantine: after a release, its id in the set."""

    id: str


class CallAnswer(RootModel[dict[str, Any]]):
    """The fields of the Python call's result. There are none if the call returns None."""


class TouchedItem(BaseModel):
    """An item that a batch changes, and the version that it changes: 0 for an added item."""

    model_config = ConfigDict(extra="forbid", strict=True)
    key: str | None
    set: str
    id: str
    version: int


class BatchCommit(BaseModel):
    """The commit of a batch. Its time is in microseconds since 1970."""

    number: int
    time: int
    adopted: bool = Field(description="It was made before, under the same idempotency key.")


class BatchAnswer(BaseModel):
    """The results of a batch's calls, and its commit, if it changed anything."""

    base: int = Field(description="Exact memory was read as it was after this commit.")
    answers: list[CallAnswer]
    touched: list[TouchedItem]
    changes: bool = Field(description="Whether it changes anything.")
    commit: BatchCommit | None


class ItemOfCommit(BaseModel):
    """An item that a commit wrote or deleted."""

    kind: Literal["written", "removed"]
    set: str
    id: str
    version: int


class CommitAnswer(BaseModel):
    """A commit: the numbers of changed values and items, and the first few of each."""

    number: int
    time: str
    key: str | None
    values: list[list[str]] = Field(description="Paths that were set.")
    values_set: int
    values_removed: int
    items: list[ItemOfCommit]
    items_written: int
    items_removed: int
    compactions: int
    undone: int


class CommitPage(BaseModel):
    """Commits, latest first."""

    commits: list[CommitAnswer]
    next: int | None = Field(description="Go on with it as `before`; null: that was all.")
