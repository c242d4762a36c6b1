"""What answers look like, for the description of the server; what they hold is in `json_forms`.

They describe, and do not check: an answer is what `json_forms` made, and tests hold it to this.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, RootModel

from alveus.store import RunStatus

Replaced: TypeAlias = Annotated[
    int | None,
    Field(description="How many characters of the request were no text: U+FFFD replaces them."),
]
"""Only there where some were."""


def answers(model: type[BaseModel], *, status: int = 200) -> dict[str, Any]:
    """Return how a route says that it answers with *model*."""
    return {
        "status_code": status,
        "response_model": None,
        "responses": {status: {"model": model, "description": model.__doc__}},
    }


class KeyPage(BaseModel):
    """Keys, sorted."""

    keys: list[str]
    more: bool = Field(description="Whether others follow.")


class SetAndSize(BaseModel):
    """A set, and how many items it has."""

    name: str
    items: int


class SetList(BaseModel):
    """The sets of a key, or of knowledge."""

    sets: list[SetAndSize]


class ExactValue(BaseModel):
    """A value of exact memory; bytes and others are objects of one field."""

    path: str
    value: Any
    is_object: bool = Field(description="Whether an object is there, and not a dict as a value.")
    replaced_characters: Replaced = None


class Removed(BaseModel):
    """Whether there was something to remove."""

    removed: bool


class ItemAnswer(BaseModel):
    """An item; times are ISO 8601, in UTC, and `time` with the offset that it came with."""

    id: str
    set: str
    value: Any
    text: str | None
    metadata: dict[str, Any]
    importance: float
    speaker: str | None
    role: str | None
    session: str | None
    time: str | None
    created: str | None
    updated: str | None
    accessed: str | None
    sources: list[str]
    compacted: bool
    until: str | None
    expire_at: str | None
    valid_from: str | None
    valid_to: str | None
    version: int = Field(description="Its number; the ETag of the item.")
    retired: str | None = Field(description="When this version ended; null: it is the present one.")
    replaced_characters: Replaced = None


class ItemPage(BaseModel):
    """Items, in the order that was asked for."""

    items: list[ItemAnswer]
    more: bool = Field(description="Whether others follow.")


class AddedIds(BaseModel):
    """The ids of items that were added, in the order of the request."""

    ids: list[str]
    replaced_characters: Replaced = None


class DeletedCount(BaseModel):
    """How many items were retired."""

    deleted: int


class ItemVersions(BaseModel):
    """Every version of an item, the oldest first."""

    versions: list[ItemAnswer]


class HitAnswer(BaseModel):
    """An item that was found, its score, and what that is made of."""

    score: float
    relevance: float | None
    parts: dict[str, float]
    item: ItemAnswer


class SearchAnswer(BaseModel):
    """Items that answer a question, the best first."""

    partial: bool = Field(description="Items are left out that wait for their vectors.")
    reranker_failure: str | None
    dated: str | None = Field(
        description='The days that the question names by a word such as "yesterday", and the zone.'
    )
    hits: list[HitAnswer]


class ItemMap(BaseModel):
    """Where items are that mean nearly the same: columns of one length."""

    ids: list[str]
    x: list[float]
    y: list[float]
    times: list[int] = Field(description="Seconds since 1970.")
    sets: list[str]
    set: list[int] = Field(description="Places in `sets`.")
    speakers: list[str]
    speaker: list[int] = Field(description="Places in `speakers`; -1: nobody.")
    share: float = Field(description="How much of all difference the places show, 0 to 1.")
    unplaced: int = Field(description="Items that wait for their vectors, or have no text.")
    left_out: int = Field(description="Items beyond the limit.")


class PieceAnswer(BaseModel):
    """A piece of a prompt, or one that was left out, and why."""

    part: str
    source: str
    text: str
    shown: bool
    reason: str
    tokens: int
    rank: int
    set: str | None
    ids: list[str]
    time: str | None
    score: float | None
    parts: dict[str, float]


class ContextAnswer(BaseModel):
    """A prompt: as messages of a chat, and as one text."""

    messages: list[dict[str, Any]]
    text: str
    tokens: int
    budget_tokens: int | None
    partial: bool
    reranker_failure: str | None
    more: int = Field(description="How many pieces were looked at that `why` does not name.")
    why: list[PieceAnswer]


class QuotationAnswer(BaseModel):
    """The words of a message that a fact rests on."""

    source: str
    start: int
    end: int
    text: str


class FactAnswer(BaseModel):
    """A fact, and what it rests on."""

    id: str
    text: str
    subject: str
    kind: str
    entities: list[str]
    confidence: float
    quotations: list[QuotationAnswer]
    conversation: str
    sources: list[str]
    when: list[str | None]
    zone: str
    valid_from: str | None
    valid_to: str | None
    confirmed: int
    replaces: list[str]
    replaced_by: list[str]
    contradicts: list[str]
    learning: str | None
    model: str
    prompt: str
    version: int
    retired: str | None


class FactList(BaseModel):
    """What was learnt."""

    facts: list[FactAnswer]


class EntityAnswer(BaseModel):
    """What is known of a person, a place or a thing."""

    names: list[str]
    facts: list[FactAnswer]
    relations: list[FactAnswer]
    mentions: list[FactAnswer]
    timeline: list[FactAnswer]
    history: list[FactAnswer]


class ProfileAnswer(BaseModel):
    """What is always told of somebody."""

    name: str
    text: str
    facts: list[FactAnswer]
    tokens: int
    left_out: int


class LearnAnswer(BaseModel):
    """What was learnt; ids, but for the new facts."""

    added: list[FactAnswer]
    confirmed: list[str]
    superseded: list[str]
    contradicted: list[str]
    taken_back: list[str]
    refused: dict[str, int]
    model_calls: int
    messages: int
    set_aside: int
    waiting: int
    learnings: list[str]
    commits: list[int]


class CompactionAnswer(BaseModel):
    """A compaction that was done."""

    id: int
    commit: int
    time: str
    by: str
    retired: int
    added: list[str]
    erased: int
    undone: int | None
    strategy: dict[str, Any]
    notes: dict[str, Any]


class CompactionList(BaseModel):
    """Compactions, the latest first."""

    compactions: list[CompactionAnswer]


class UndoneAnswer(BaseModel):
    """What the undoing of a compaction brought back and removed: ids of items."""

    restored: list[str]
    missing: list[str]
    removed: list[str]
    erased: int


class OutOfReachAnswer(BaseModel):
    """What may still hold what was forgotten, and what to do."""

    what: str
    note: str
    paths: list[str]
    until: str


class ReceiptAnswer(BaseModel):
    """What was erased: counts and digests, nothing of what was there."""

    id: str
    time: str
    commit: int | None
    request: dict[str, Any]
    counts: dict[str, int]
    derived: int
    restored: int
    lost: int
    unread: int
    state: Literal["scrubbed", "pending"]
    blocked_by: list[str]
    open: list[int]
    out_of_reach: list[OutOfReachAnswer]


class ReceiptList(BaseModel):
    """Receipts, the latest first."""

    receipts: list[ReceiptAnswer]


class RunError(BaseModel):
    """What parked a run."""

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
    """Runs, the latest first."""

    runs: list[RunAnswer]
    more: bool


class RunChosen(BaseModel):
    """The run that has the input now."""

    run: int


class StoreFigures(BaseModel):
    """Figures of the store, of all its spaces."""

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
    """How large a memory is, and what waits."""

    space: str
    knowledge: str
    embedder: str
    pending: int | None
    queue_age_s: float | None
    failure: str | None
    store: StoreFigures | None


class HeldAnswer(BaseModel):
    """An item that rules of admission hold back, and why."""

    id: str
    set: str
    rule: str
    reason: str
    since: str
    item: ItemAnswer


class HeldList(BaseModel):
    """What rules of admission hold back."""

    held: list[HeldAnswer]


class HeldId(BaseModel):
    """The id of an item, in its set once it was released."""

    id: str


class CallAnswer(RootModel[dict[str, Any]]):
    """What the call answers in Python, as fields; none if that is nothing."""


class TouchedItem(BaseModel):
    """A version of an item that a batch changes; 0 where it adds one."""

    model_config = ConfigDict(extra="forbid", strict=True)
    key: str | None
    set: str
    id: str
    version: int


class BatchCommit(BaseModel):
    """The commit of a batch; its time in microseconds."""

    number: int
    time: int
    adopted: bool = Field(description="It was made before, under the same idempotency key.")


class BatchAnswer(BaseModel):
    """What calls of a batch answer, and its commit, if there was anything to commit."""

    base: int = Field(description="The commit as of which exact memory was read.")
    answers: list[CallAnswer]
    touched: list[TouchedItem]
    changes: bool = Field(description="Whether it changes anything.")
    commit: BatchCommit | None


class ItemOfCommit(BaseModel):
    """An item that a commit wrote or removed."""

    kind: Literal["written", "removed"]
    set: str
    id: str
    version: int


class CommitAnswer(BaseModel):
    """What a commit changed: of values and items the first ones, and how many there are."""

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
    """Commits, the latest first."""

    commits: list[CommitAnswer]
    next: int | None = Field(description="Go on with it as `before`; null: that was all.")
