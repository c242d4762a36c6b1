"""Metrics of a server for Prometheus: requests, their duration, and waiting work."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

BOUNDS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)

ELSEWHERE = "elsewhere"
"""The route name of requests without a route, to bound the number of names."""


class ServerMetrics:
    """The counters of one server."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "alveus_http_requests",
            "Requests that were answered.",
            ("method", "route", "status"),
            registry=self._registry,
        )
        self._seconds = Histogram(
            "alveus_http_request_seconds",
            "How long requests took until the answer began.",
            ("route",),
            buckets=BOUNDS_S,
            registry=self._registry,
        )

    def count(self, method: str, route: str | None, status: int, seconds: float) -> None:
        """Count a request; *route* is the app's path pattern, without names of the memory."""
        where = route or ELSEWHERE
        self._requests.labels(method, where, str(status)).inc()
        self._seconds.labels(where).observe(seconds)

    def text(self) -> bytes:
        """Return all counters in Prometheus format."""
        return generate_latest(self._registry)
