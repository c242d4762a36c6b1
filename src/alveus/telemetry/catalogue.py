"""Every span, metric and attribute that alveus emits, as `catalogue.toml` lists them.

alveus exports nothing that this file lacks. docs/metrics.md is generated from the file.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, Literal, TypeAlias

from alveus.values.lazy_dataclass import dataclass

Facts: TypeAlias = dict[str, str | int | float | bool]

SYSTEM = "db.system.name"
OPERATION = "db.operation.name"
ERROR = "error.type"
METHOD, ROUTE, STATUS = "http.request.method", "http.route", "http.response.status_code"

REQUEST = "alveus.request"
"""The span of a request to `alveus serve`."""

DURABLE_CALL = "alveus.durable_call"
"""The event of a durable call, on the span of its action."""

EVENT_ATTRIBUTES = ("alveus.call.position", "alveus.call.outcome", "alveus.call.name")


@dataclass(frozen=True, slots=True)
class AttributeInfo:
    """An attribute of spans, events and metrics.

    Attributes:
        content: Whether the attribute may contain users' text. If so, only spans have it, and only
            with ``content=True``.
    """

    name: str
    type: Literal["string", "int", "boolean"]
    meaning: str
    content: bool = False


@dataclass(frozen=True, slots=True)
class MetricInfo:
    """A metric. *boundaries* are those of a histogram's buckets, unless a view sets others."""

    name: str
    kind: Literal["histogram", "counter", "gauge"]
    unit: str
    meaning: str
    attributes: tuple[str, ...] = ()
    boundaries: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class SpanInfo:
    """A span. *duration* is the name of the histogram that records how long the span took."""

    name: str
    meaning: str
    attributes: tuple[str, ...]
    duration: str


_CATALOGUE = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))


def _entries(table: str) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = _CATALOGUE[table]
    for entry in entries:
        for name in entry.keys() & {"attributes", "boundaries"}:
            entry[name] = tuple(entry[name])
    return entries


ATTRIBUTES = tuple(AttributeInfo(**entry) for entry in _entries("attributes"))
SPANS = tuple(SpanInfo(**entry) for entry in _entries("spans"))
METRICS = tuple(MetricInfo(**entry) for entry in _entries("metrics"))
