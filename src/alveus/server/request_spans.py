"""An OpenTelemetry span per request, the parent of the memory's spans.

A span has the method, the route and the status of a request. It has no URL, header or body, because
these may contain names and data of the memory.
"""

from __future__ import annotations

from alveus.server.middleware import App, Message, Receive, Scope, Send, method_of
from alveus.server.unexpected import InternalError
from alveus.telemetry.catalogue import ERROR, METHOD, REQUEST, ROUTE, STATUS, Facts
from alveus.telemetry.open_telemetry import OpenTelemetry, SpanKind, remote_caller

FAILED = 500


class RequestSpans:
    """Emits a span for each request, from its head to the end of its response.

    With the header ``traceparent``, the request's span is a child of the span named there.
    """

    def __init__(self, app: App, *, telemetry: OpenTelemetry) -> None:
        self._app, self._telemetry = app, telemetry

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        method = method_of(scope)
        facts: Facts = {METHOD: method, STATUS: FAILED}
        headers = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]
        }
        parent = remote_caller(headers)

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                facts[STATUS] = status = message["status"]
                if status == FAILED:
                    facts[ERROR] = InternalError.__name__
            await send(message)

        kind = SpanKind.SERVER
        with self._telemetry.start(REQUEST, {METHOD: method}, parent=parent, kind=kind) as span:
            try:
                await self._app(scope, receive, answer)
            finally:
                route = getattr(scope.get("route"), "path", None)
                span.describe(facts if route is None else facts | {ROUTE: route})
