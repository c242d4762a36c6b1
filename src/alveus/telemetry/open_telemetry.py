"""`OpenTelemetry`: spans and metrics through the API of OpenTelemetry.

An error of a provider, a processor or an exporter is logged here. It never reaches the work that is
observed.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import Token
from importlib.metadata import version
from typing import Any, Protocol, Self, TypeVar
from weakref import WeakSet

from alveus.errors import Unsupported
from alveus.store.ledger import Observed
from alveus.telemetry.catalogue import (
    ATTRIBUTES,
    ERROR,
    EVENT_ATTRIBUTES,
    METRICS,
    SPANS,
    SYSTEM,
    Facts,
    MetricInfo,
)

try:
    from opentelemetry import context as contexts
    from opentelemetry import metrics, trace
    from opentelemetry.context import Context
    from opentelemetry.trace import SpanContext, SpanKind
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
except ImportError as error:
    raise Unsupported(
        f"OpenTelemetry needs the package {error.name}, which is not installed; run: "
        "pip install 'alveus[otel]'"
    ) from None

R = TypeVar("R")

_LOG = logging.getLogger(__name__)

INSTRUMENT = "alveus"
"""The name of the instrumentation scope, and of its package."""

_SPANS = {span.name: span for span in SPANS}
_METRICS = {metric.name: metric for metric in METRICS}
_CONTENT = frozenset(each.name for each in ATTRIBUTES if each.content)


def harmless(call: Callable[[], R]) -> R | None:
    """Return the result of a call of OpenTelemetry. If it raises, log the error and return None."""
    try:
        return call()
    except Exception as error:  # noqa: BLE001 - the edge to exporters: no write fails because of one
        _LOG.warning("telemetry was lost: OpenTelemetry raised %s", type(error).__name__)
        return None


class TelemetrySpan(Observed):
    """A span that has begun. No method raises.

    In a ``with`` block, this is the current span, which ends with the block.

    Args:
        span: The span of OpenTelemetry. None means that only metrics record the operation.
        ended: Called when the span ends, with the answer of the block or the error that it raised.
    """

    def __init__(
        self,
        telemetry: OpenTelemetry,
        name: str,
        facts: Facts,
        span: trace.Span | None,
        started: float,
        ended: Callable[[TelemetrySpan, Any], None] | None = None,
    ) -> None:
        self.name, self.span, self.facts = name, span, facts
        self._telemetry, self._started, self._ended = telemetry, started, ended
        self._answer: object = None
        self._token: Token[Context] | None = None

    @property
    def context(self) -> Context | None:
        """The context in which new spans are children of this span, or None without a span."""
        span = self.span
        return None if span is None else harmless(lambda: trace.set_span_in_context(span))

    def answered(self, answer: R) -> R:
        """See `Observed.answered`."""
        self._answer = answer
        return answer

    def describe(self, facts: Facts) -> None:
        """Add facts, which are exported when the span ends."""
        self.facts |= facts

    def event(self, name: str, facts: Facts) -> None:
        """Add an event to the span."""
        span, allowed = self.span, self._telemetry.allowed(facts, EVENT_ATTRIBUTES)
        if span is not None:
            harmless(lambda: span.add_event(name, allowed))

    def link(self, other: TelemetrySpan) -> None:
        """Link this span to *other*."""
        span, target = self.span, other.span
        if span is not None and target is not None:
            harmless(lambda: span.add_link(target.get_span_context()))

    def end(self, error: BaseException | None = None) -> None:
        """End the span. Must be called once. Of *error* only the class name is exported."""
        span, info, telemetry = self.span, _SPANS[self.name], self._telemetry
        took = time.perf_counter() - self._started
        if error is not None:
            self.facts[ERROR] = type(error).__qualname__
        if self._ended is not None:
            self._ended(self, self._answer if error is None else error)
        telemetry.record(info.duration, took, self.facts)
        if span is not None:
            facts = telemetry.allowed(self.facts, info.attributes)
            harmless(lambda: _end(span, facts))

    def __enter__(self) -> Self:
        if (context := self.context) is not None:
            self._token = harmless(lambda: contexts.attach(context))
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if (token := self._token) is not None:
            harmless(lambda: contexts.detach(token))
        self.end(error)


def _end(span: trace.Span, facts: Facts) -> None:
    try:
        span.set_attributes(facts)
        if ERROR in facts:
            span.set_status(trace.StatusCode.ERROR)
    finally:
        span.end()


class Measured(Protocol):
    """An open memory whose figures the gauges report; see `MemoryTelemetry`."""

    system: str
    location: str

    def figures(self) -> Mapping[str, float]:
        """Return the value of each gauge by its name."""
        ...


class OpenTelemetry:
    """Emits the spans and metrics of memories: ``Memory.open(…, telemetry=OpenTelemetry())``.

    docs/metrics.md lists the spans and metrics. One object may serve several memories. It contains
    no exporter: the providers of the process export, as OpenTelemetry is configured.

    Args:
        tracer_provider: Receives spans. None means the provider of the process.
        meter_provider: Receives metrics. None means the provider of the process.
        content: Whether spans carry names of spaces, keys, sets, runners and durable calls, and the
            queries of searches. Texts of items and messages of errors are never exported.

    Raises:
        Unsupported: The package opentelemetry-api is not installed.
    """

    def __init__(
        self,
        *,
        tracer_provider: trace.TracerProvider | None = None,
        meter_provider: metrics.MeterProvider | None = None,
        content: bool = False,
    ) -> None:
        self.content = content
        self._tracer = trace.get_tracer(INSTRUMENT, version(INSTRUMENT), tracer_provider)
        meter = metrics.get_meter(INSTRUMENT, version(INSTRUMENT), meter_provider)
        self._recorders = {
            metric.name: recorder
            for metric in METRICS
            if (recorder := harmless(lambda metric=metric: _recorder(meter, metric))) is not None
        }
        self.watched: WeakSet[Measured] = WeakSet()
        for metric in METRICS:
            if metric.kind == "gauge":
                harmless(lambda metric=metric: self._add_gauge(meter, metric))

    # --- spans --------------------------------------------------------------------------------

    def start(
        self,
        name: str,
        facts: Facts,
        *,
        parent: Context | None = None,
        links: Iterable[TelemetrySpan | SpanContext] = (),
        kind: SpanKind = SpanKind.INTERNAL,
        ended: Callable[[TelemetrySpan, Any], None] | None = None,
    ) -> TelemetrySpan:
        """Return a span that begins now.

        Args:
            parent: The parent's context; by default the current span of this thread or task.
            ended: See `TelemetrySpan`.
        """
        started = time.perf_counter()
        allowed = self.allowed(facts, _SPANS[name].attributes)
        span = harmless(
            lambda: self._tracer.start_span(
                name, parent, kind, attributes=allowed, links=_links(links)
            )
        )
        return TelemetrySpan(self, name, facts, span, started, ended)

    def allowed(self, facts: Facts, names: Sequence[str]) -> Facts:
        """Return those *facts* whose names are in *names* and that may be exported."""
        return {
            name: facts[name]
            for name in names
            if name in facts and (self.content or name not in _CONTENT)
        }

    # --- metrics ------------------------------------------------------------------------------

    def record(self, name: str, value: float, facts: Facts) -> None:
        """Record a value of a histogram, or add it to a counter."""
        recorder = self._recorders.get(name)
        if recorder is not None:
            attributes = {n: facts[n] for n in _METRICS[name].attributes if n in facts}
            harmless(lambda: recorder(value, attributes))

    def _add_gauge(self, meter: metrics.Meter, metric: MetricInfo) -> None:
        def observed(_options: metrics.CallbackOptions) -> list[metrics.Observation]:
            return harmless(lambda: self._observed(metric.name)) or []

        meter.create_observable_gauge(metric.name, [observed], metric.unit, metric.meaning)

    def _observed(self, name: str) -> list[metrics.Observation]:
        """Return the values of a gauge: one for each kind of store, each store counted once."""
        stores = {memory.location: memory for memory in list(self.watched)}
        totals: dict[str, float] = {}
        for memory in stores.values():
            found = harmless(memory.figures)
            if found is not None:
                totals[memory.system] = totals.get(memory.system, 0) + found[name]
        return [metrics.Observation(totals[system], {SYSTEM: system}) for system in totals]


def _recorder(meter: metrics.Meter, metric: MetricInfo) -> Callable[[float, Facts], None] | None:
    match metric.kind:
        case "histogram":
            return meter.create_histogram(
                metric.name,
                metric.unit,
                metric.meaning,
                explicit_bucket_boundaries_advisory=metric.boundaries,
            ).record
        case "counter":
            return meter.create_counter(metric.name, metric.unit, metric.meaning).add
        case "gauge":
            return None


def _links(links: Iterable[TelemetrySpan | SpanContext]) -> list[trace.Link]:
    found = [
        link.span.get_span_context()
        if isinstance(link, TelemetrySpan) and link.span is not None
        else link
        for link in links
    ]
    return [trace.Link(link) for link in found if isinstance(link, SpanContext)]


def caller() -> Context | None:
    """Return the context of the caller's span, or None if the caller is in no span."""
    valid = harmless(lambda: trace.get_current_span().get_span_context().is_valid)
    return harmless(contexts.get_current) if valid else None


def remote_caller(headers: Mapping[str, str]) -> Context | None:
    """Return the context of the span that the headers of a request name.

    If they name no readable span, the request begins a trace.
    """
    return harmless(lambda: TraceContextTextMapPropagator().extract(headers, Context()))


def caller_span() -> SpanContext | None:
    """Return the caller's span, for links to it, or None if the caller is in no span."""
    found = harmless(lambda: trace.get_current_span().get_span_context())
    return found if found is not None and found.is_valid else None


NO_PARENT = Context()
"""The parent of the first span of a trace."""
