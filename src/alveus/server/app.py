"""The app: routes, limits, error responses, start and end."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Collection
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.routing import Match

from alveus import __version__
from alveus.errors import AlveusError, InvalidInput
from alveus.llm import ChatModel
from alveus.memory.memory import Memory
from alveus.server import call_routes, event_streams, inspector, mem0_protocol, memory_stores
from alveus.server.answers import PlainRoute, error_answer, operation_id, problem
from alveus.server.callers import Memories, caller_of, memories_for
from alveus.server.middleware import METHODS, BodyLimit, CrossOrigin, HeadAnswers, RateLimit, Scope
from alveus.server.routes import RESPONSES, router, sends
from alveus.server.tokens import TokenFile
from alveus.server.watching import CONTENT_TYPE, ServerMetrics, WatchedRequests
from alveus.values.forks import Flag
from alveus.values.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from alveus.telemetry import OpenTelemetry


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """The limits of a client's requests.

    Attributes:
        body_bytes: The largest body of a request.
        rate: Requests per second of one token, or of one address if the client has no valid token.
            None means that there is no limit.
    """

    body_bytes: int = 10_000_000
    rate: float | None = None


def create_app(
    open_space: Callable[[str], Memory],
    *,
    tokens: TokenFile | None = None,
    limits: ServerLimits = ServerLimits(),  # noqa: B008 - frozen
    model: ChatModel | None = None,
    telemetry: OpenTelemetry | None = None,
    origins: Collection[str] = (),
) -> FastAPI:
    """Return the app of a server.

    Args:
        open_space: Opens the memory of a space.
        tokens: The tokens and their rights. If it is None, only local callers are served, and they
            may do everything.
        model: Finds facts when a client requests learning. If it is None, built-in rules do.
        telemetry: Emits a span for each request. *open_space* uses the same object.
        origins: Origins of web pages, besides the server's, that may send requests.
    """
    memories = Memories(open_space)

    @asynccontextmanager
    async def life(_: FastAPI) -> AsyncGenerator[None]:
        yield
        app.state.ends.set()
        memories.close()

    app = FastAPI(
        title="alveus",
        version=__version__,
        summary="Memory for AI agents: exact and vague, changed together, exactly once.",
        lifespan=life,
        generate_unique_id_function=operation_id,
        redoc_url=None,
        docs_url=None,  # its page loads third-party scripts
        redirect_slashes=False,  # a redirect would name a scheme and a host
    )
    app.state.ends = Flag()
    app.state.memories, app.state.tokens, app.state.model = memories, tokens, model
    app.state.origins = origins
    rooms = (event_streams, inspector, call_routes, mem0_protocol, memory_stores)
    for shared in (router, *(room.router for room in rooms), mem0_protocol.described):
        # `include_router` would build each route again at the first request.
        app.router.routes.extend(shared.routes)
    _answer_errors(app)
    _add_health(app, memories)
    app.add_middleware(HeadAnswers)
    app.add_middleware(BodyLimit, most=limits.body_bytes)
    _watch(app, memories, limits)  # before the body limit, to count refused bodies
    if telemetry is not None:
        from alveus.server.request_spans import RequestSpans

        app.add_middleware(RequestSpans, telemetry=telemetry)
    app.add_middleware(CrossOrigin, origins=origins)
    return app


def _answer_errors(app: FastAPI) -> None:
    @app.exception_handler(AlveusError)
    def refused(_: Request, error: AlveusError) -> Response:
        return error_answer(error)

    @app.exception_handler(RequestValidationError)
    def unreadable(_: Request, error: RequestValidationError) -> Response:
        return problem(400, "InvalidInput", _unreadable(error))

    @app.exception_handler(HTTPException)
    def unknown(request: Request, error: HTTPException) -> Response:
        message = f"{request.method} {request.url.path}: {error.detail}; /openapi.json lists all"
        if request.url.path == "/":  # a browser's first request
            message += ", and /ui/ shows the memory"
        if error.status_code == 400:  # noqa: PLR2004 - of HTTP; FastAPI raises it for this alone
            message = f"body: {_no_body(error.__cause__)}"
        headers = dict(error.headers or {})
        if error.status_code == 405:  # noqa: PLR2004 - of HTTP; a route knows one method
            headers["Allow"] = ", ".join(_methods_at(app, request.scope))
        return problem(error.status_code, "InvalidInput", message, headers=headers)

    for handler in (refused, unreadable, unknown):
        assert callable(handler)  # noqa: S101 - they are used by name


def _no_body(cause: BaseException | None) -> str:
    """Return the reason why a body could not be read, if it is not invalid JSON."""
    if isinstance(cause, UnicodeDecodeError):
        return "is not UTF-8"
    if isinstance(cause, ClientDisconnect):
        return "did not arrive completely"
    if isinstance(cause, InvalidInput):
        return str(cause)
    if isinstance(cause, ValueError):
        return 'has a number with too many digits; write it as in exports: {"$int": "0xff"}'
    return "its JSON is nested too deeply"


def _unreadable(error: RequestValidationError) -> str:
    """Return which part of a request is invalid, and why."""
    first = error.errors()[0]
    if first["type"] == "json_invalid":
        return f"body: is not JSON ({first['ctx']['error']} at character {first['loc'][-1]})"
    location = ".".join(map(str, first["loc"]))
    if location == "body" and isinstance(error.body, bytes) and error.body:
        return "body: was not read as JSON; send the header Content-Type: application/json"
    return f"{location}: {first['msg']}"


def _methods_at(app: FastAPI, scope: Scope) -> list[str]:
    """Return the methods that the address of a request supports."""
    methods = [
        method
        for method in METHODS
        if any(route.matches({**scope, "method": method})[0] is Match.FULL for route in app.routes)
    ]
    return sorted({*methods, *(["HEAD"] if "GET" in methods else [])})


def _watch(app: FastAPI, memories: Memories, limits: ServerLimits) -> None:
    """Check hosts, origins and rates before anything else, and count requests."""
    rate = None if limits.rate is None else RateLimit(limits.rate)
    metrics = ServerMetrics()
    app.add_middleware(WatchedRequests, state=app.state, rate=rate, metrics=metrics)

    router = APIRouter(route_class=PlainRoute)

    @router.get("/metrics", tags=["health"], responses=RESPONSES | sends("text/plain"))
    def read_metrics(request: Request) -> Response:
        """Read counters of requests, in Prometheus format."""
        caller = caller_of(request.headers.get("authorization"), app.state.tokens, memories)
        caller.token.check("admin")
        return Response(metrics.text(), media_type=CONTENT_TYPE)

    assert callable(read_metrics)  # noqa: S101 - it is used by name
    app.router.routes.extend(router.routes)


def _add_health(app: FastAPI, memories: Memories) -> None:
    router = APIRouter(route_class=PlainRoute)

    @app.get("/health", tags=["health"], responses=RESPONSES)
    def read_health() -> dict[str, str]:
        """Report that the process is alive."""
        return {"status": "ok", "version": __version__}

    @router.get("/ready", tags=["health"], responses=RESPONSES)
    def read_readiness(request: Request) -> dict[str, str]:
        """Report whether the store responds. The caller needs a token, if the server has tokens."""
        caller = caller_of(request.headers.get("authorization"), app.state.tokens, memories)
        used = memories_for(request.scope, memories)
        used.of(caller.token.space or "default").store.run(0)
        return {"status": "ready"}

    assert callable(read_health)  # noqa: S101 - they are used by name
    assert callable(read_readiness)  # noqa: S101 - the same
    app.router.routes.extend(router.routes)
