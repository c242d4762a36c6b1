"""Every span, metric and attribute that alveus emits: docs/metrics.md is written from this page.

What is not listed here is not exported. Names of others are from the semantic conventions of
OpenTelemetry; units are UCUM.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from alveus.values.lazy_dataclass import dataclass

Facts: TypeAlias = dict[str, str | int | float | bool]

SYSTEM = "db.system.name"
OPERATION = "db.operation.name"
ERROR = "error.type"
METHOD, ROUTE, STATUS = "http.request.method", "http.route", "http.response.status_code"


@dataclass(frozen=True, slots=True)
class AttributeInfo:
    """An attribute of spans, events and metrics.

    Attributes:
        content: It may hold what users wrote; only on spans, and only with ``content=True``.
    """

    name: str
    type: Literal["string", "int", "boolean"]
    meaning: str
    content: bool = False


@dataclass(frozen=True, slots=True)
class MetricInfo:
    """A metric. *boundaries*: of the buckets of a histogram, unless a view has others."""

    name: str
    kind: Literal["histogram", "counter", "gauge"]
    unit: str
    meaning: str
    attributes: tuple[str, ...] = ()
    boundaries: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class SpanInfo:
    """A span. *duration*: the histogram that how long it took is recorded in."""

    name: str
    meaning: str
    attributes: tuple[str, ...]
    duration: str


ATTRIBUTES = (
    AttributeInfo(SYSTEM, "string", "`sqlite`, `postgresql`, or `alveus.ram`"),
    AttributeInfo(OPERATION, "string", "`commit`, `search`, `compact` or `accept`"),
    AttributeInfo("db.operation.batch.size", "int", "Batches or inputs, where there are several"),
    AttributeInfo("db.response.returned_rows", "int", "Hits of a search"),
    AttributeInfo(ERROR, "string", "The class of the error, without its message"),
    AttributeInfo("alveus.commit.number", "int", "The number of the commit, or of the last one"),
    AttributeInfo("alveus.commit.adopted", "int", "Batches that an earlier commit had done"),
    AttributeInfo("alveus.commit.refused", "int", "Batches that were refused"),
    AttributeInfo("alveus.commit.items", "int", "Changes of items"),
    AttributeInfo("alveus.commit.values", "int", "Changes of values of exact trees"),
    AttributeInfo("alveus.transaction.commits", "int", "Commits that shared the transaction"),
    AttributeInfo("alveus.search.limit", "int", "The most hits that were asked for"),
    AttributeInfo("alveus.search.partial", "boolean", "Some items had no vectors yet"),
    AttributeInfo("alveus.search.reranker.failed", "boolean", "The re-ranker failed"),
    AttributeInfo("alveus.compaction.by", "string", "`call`, `background`, or `external`"),
    AttributeInfo("alveus.compaction.retired", "int", "Items that the step retired"),
    AttributeInfo("alveus.compaction.added", "int", "Items that the step added in their place"),
    AttributeInfo("gen_ai.operation.name", "string", "`invoke_agent`"),
    AttributeInfo(
        "gen_ai.agent.name", "string", "The name that the class of the agent has in code"
    ),
    AttributeInfo("alveus.action.name", "string", "The name of the action"),
    AttributeInfo("alveus.action.attempt", "int", "How often the action was begun, from 1"),
    AttributeInfo("alveus.run.id", "int", "The id of the run in its store"),
    AttributeInfo("alveus.run.resumed", "boolean", "Some of its tasks were done earlier"),
    AttributeInfo(
        "alveus.run.outcome",
        "string",
        "`done`; `parked`; `fenced`: another has the key; `interrupted`: to be taken up again",
    ),
    AttributeInfo("alveus.call.position", "int", "The place of the durable call in its task"),
    AttributeInfo(
        "alveus.call.outcome", "string", "`returned`, `raised`, or `replayed` from its record"
    ),
    AttributeInfo(METHOD, "string", "The method of a request"),
    AttributeInfo(ROUTE, "string", "The address as the server knows it, without parameters"),
    AttributeInfo(STATUS, "int", "The status of the answer"),
    AttributeInfo("alveus.call.name", "string", "The name of the durable call", content=True),
    AttributeInfo("db.namespace", "string", "The space", content=True),
    AttributeInfo("db.collection.name", "string", "The set", content=True),
    AttributeInfo("db.query.text", "string", "The question of a search", content=True),
    AttributeInfo("alveus.key", "string", "The key", content=True),
    AttributeInfo("alveus.runner.name", "string", "The name of the runner", content=True),
)

_WHERE = ("db.namespace", "alveus.key")

OPERATION_DURATION = "db.client.operation.duration"
RUN_DURATION = "alveus.run.duration"
ACTION_DURATION = "alveus.action.duration"
TRANSACTION_DURATION = "alveus.transaction.duration"
REQUEST_DURATION = "http.server.request.duration"

REQUEST = "alveus.request"

SPANS = (
    SpanInfo(
        "alveus.commit",
        "A commit, or several in one call; a child of the caller's span, or of the run's. Where it "
        "carries tasks of several runs it has no parent, and a link to each action.",
        (
            SYSTEM,
            OPERATION,
            "db.operation.batch.size",
            "alveus.commit.number",
            "alveus.commit.adopted",
            "alveus.commit.refused",
            "alveus.commit.items",
            "alveus.commit.values",
            ERROR,
            *_WHERE,
        ),
        OPERATION_DURATION,
    ),
    SpanInfo(
        "alveus.transaction",
        "The transaction that commits of several threads share; it has no parent. It and the "
        "spans of the commits are linked to each other.",
        (SYSTEM, "alveus.transaction.commits", ERROR),
        TRANSACTION_DURATION,
    ),
    SpanInfo(
        "alveus.search",
        "A search; a child of the caller's span.",
        (
            SYSTEM,
            OPERATION,
            "db.response.returned_rows",
            "alveus.search.limit",
            "alveus.search.partial",
            "alveus.search.reranker.failed",
            ERROR,
            *_WHERE,
            "db.collection.name",
            "db.query.text",
        ),
        OPERATION_DURATION,
    ),
    SpanInfo(
        "alveus.compact",
        "A step of a compaction. In the background it has no parent, and a link to the span that "
        "the commit which set it off was made in.",
        (
            SYSTEM,
            OPERATION,
            "alveus.compaction.by",
            "alveus.compaction.retired",
            "alveus.compaction.added",
            ERROR,
            *_WHERE,
            "db.collection.name",
        ),
        OPERATION_DURATION,
    ),
    SpanInfo(
        "alveus.accept",
        "Inputs of an agent are accepted; a child of the caller's span.",
        (SYSTEM, OPERATION, "db.operation.batch.size", ERROR, "alveus.runner.name"),
        OPERATION_DURATION,
    ),
    SpanInfo(
        "alveus.run",
        "A run, from its first task in this process to its end; a child of the span in which this "
        "process accepted its input.",
        (
            SYSTEM,
            "gen_ai.operation.name",
            "gen_ai.agent.name",
            "alveus.run.id",
            "alveus.run.resumed",
            "alveus.run.outcome",
            ERROR,
            *_WHERE,
            "alveus.runner.name",
        ),
        RUN_DURATION,
    ),
    SpanInfo(
        "alveus.action",
        "A call of an action; a child of its run's span, and the current span of its code.",
        ("gen_ai.agent.name", "alveus.action.name", "alveus.action.attempt", ERROR),
        ACTION_DURATION,
    ),
    SpanInfo(
        REQUEST,
        "A request to `alveus serve`, until its answer ended; a child of the span that its header "
        "`traceparent` names.",
        (METHOD, ROUTE, STATUS, ERROR),
        REQUEST_DURATION,
    ),
)

DURABLE_CALL = "alveus.durable_call"
"""The event of a durable call, on the span of its action."""

EVENT_ATTRIBUTES = ("alveus.call.position", "alveus.call.outcome", "alveus.call.name")

_QUICK_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5, 10)
_LONG_S = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 900)
_COUNTS = (0, 1, 2, 4, 8, 16, 32, 64, 128, 256)

RETURNED_ROWS = "db.client.response.returned_rows"
TRANSACTION_COMMITS = "alveus.transaction.commits"
ITEMS_CHANGED = "alveus.items.changed"
COMPACTION_RETIRED = "alveus.compaction.retired"
COMPACTION_ADDED = "alveus.compaction.added"
RUN_WAIT = "alveus.run.wait.duration"
LEASES_TAKEN_OVER = "alveus.leases.taken_over"
COMMITS_FENCED = "alveus.commits.fenced"

METRICS = (
    MetricInfo(
        REQUEST_DURATION,
        "histogram",
        "s",
        "How long requests to `alveus serve` take, until the answer ended",
        (METHOD, ROUTE, STATUS, ERROR),
        _QUICK_S,
    ),
    MetricInfo(
        OPERATION_DURATION,
        "histogram",
        "s",
        "How long commits, searches, steps of compactions and acceptances take",
        (SYSTEM, OPERATION, ERROR),
        _QUICK_S,
    ),
    MetricInfo(
        RETURNED_ROWS, "histogram", "{row}", "Hits of a search", (SYSTEM, OPERATION), _COUNTS
    ),
    MetricInfo(
        TRANSACTION_DURATION,
        "histogram",
        "s",
        "How long transactions of commits take, with their fsync; SQLite and PostgreSQL",
        (SYSTEM, ERROR),
        _QUICK_S,
    ),
    MetricInfo(
        TRANSACTION_COMMITS,
        "histogram",
        "{commit}",
        "Commits that share a transaction; SQLite and PostgreSQL",
        (SYSTEM,),
        _COUNTS,
    ),
    MetricInfo(ITEMS_CHANGED, "counter", "{item}", "Changes of items, committed", (SYSTEM,)),
    MetricInfo(
        COMPACTION_RETIRED, "counter", "{item}", "Items that compactions retired", (SYSTEM,)
    ),
    MetricInfo(COMPACTION_ADDED, "counter", "{item}", "Items that compactions added", (SYSTEM,)),
    MetricInfo(
        LEASES_TAKEN_OVER,
        "counter",
        "{lease}",
        "Leases that were taken over from an owner that died",
        (SYSTEM,),
    ),
    MetricInfo(
        COMMITS_FENCED,
        "counter",
        "{commit}",
        "Commits that were refused because another had taken their lease over",
        (SYSTEM,),
    ),
    MetricInfo(
        RUN_WAIT,
        "histogram",
        "s",
        "How long runs wait from their acceptance to their first task",
        (SYSTEM, "gen_ai.agent.name"),
        _LONG_S,
    ),
    MetricInfo(
        RUN_DURATION,
        "histogram",
        "s",
        "How long runs take in this process; `alveus.run.outcome` says how they end",
        (SYSTEM, "gen_ai.agent.name", "alveus.run.outcome", ERROR),
        _LONG_S,
    ),
    MetricInfo(
        ACTION_DURATION,
        "histogram",
        "s",
        "How long calls of actions take",
        ("gen_ai.agent.name", "alveus.action.name", ERROR),
        _LONG_S,
    ),
    MetricInfo("alveus.runs.waiting", "gauge", "{run}", "Runs that wait or are at work", (SYSTEM,)),
    MetricInfo("alveus.runs.parked", "gauge", "{run}", "Runs that are parked", (SYSTEM,)),
    MetricInfo("alveus.leases.held", "gauge", "{lease}", "Leases that somebody holds", (SYSTEM,)),
    MetricInfo(
        "alveus.items.pending", "gauge", "{item}", "Items that wait for their vectors", (SYSTEM,)
    ),
    MetricInfo(
        "alveus.items.pending.age",
        "gauge",
        "s",
        "How long the oldest of them has waited",
        (SYSTEM,),
    ),
    MetricInfo("alveus.store.size", "gauge", "By", "Size of the store on disk", (SYSTEM,)),
)
