"""Responses: JSON as on the command line. The class of an error determines the status."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Coroutine, Iterator, Mapping
from difflib import get_close_matches
from typing import Any, cast, get_args, get_origin

from fastapi import Request, Response
from fastapi.dependencies.models import Dependant
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from starlette.convertors import PathConvertor, register_url_convertor
from starlette.exceptions import HTTPException

from alveus import errors
from alveus.errors import AlveusError, InvalidInput
from alveus.server.callers import Unauthenticated, token_of
from alveus.server.json_forms import Json
from alveus.server.middleware import problem
from alveus.server.unexpected import InternalError, noted
from alveus.values.storable import Value
from alveus.values.wire import unique_fields, wired

RETRY_AFTER_S = 1
"""The seconds in the header ``Retry-After`` of a response with status 503."""

STATUS: Mapping[type[AlveusError], int] = {
    InternalError: 500,
    Unauthenticated: 401,
    errors.AccessDenied: 403,
    errors.StoreReadOnly: 403,
    errors.Forgotten: 410,
    errors.HistoryPruned: 410,
    errors.OutputsPruned: 410,
    errors.NotFound: 404,
    errors.TooLarge: 413,
    errors.InvalidInput: 400,
    errors.StaleItem: 412,
    errors.CompareFailed: 412,
    errors.Conflict: 409,
    errors.TreeConflict: 409,
    errors.RunFailed: 409,
    errors.Rejected: 422,
    errors.LimitReached: 409,
    errors.StoreFull: 507,
    errors.Unavailable: 503,
    errors.Unsupported: 501,
    errors.EmbedderFailed: 502,
    errors.RerankerFailed: 502,
    errors.ModelFailed: 502,
    errors.Unusable: 503,
}
"""The status of each error class. Other classes have the status of their nearest base class."""

OTHERWISE = 409

CUT = 100
"""The most characters of a parameter's name in an error."""


class _WholeText(PathConvertor):
    """The rest of an address, including line ends.

    Starlette's ``path`` drops a line end at the end of a name.
    """

    regex = "(?s:.*)"


register_url_convertor("whole", _WholeText())


class _StrictRequest(Request):
    """A request that refuses duplicate fields in its body, because one value would be lost."""

    async def json(self) -> Json:
        """Return the body as JSON."""
        return json.loads(await self.body(), object_pairs_hook=unique_fields)


def operation_id(route: APIRoute) -> str:
    """Return the id of a route's operation in OpenAPI: the name of its function."""
    return route.name


class PlainRoute(APIRoute):
    """Sends a route's result as plain JSON, without FastAPI's validation of responses.

    Headers that a route sets on its `Response` parameter are kept. A caller without a valid token
    is refused before the body is read, so that strangers cannot fill the server's RAM. An
    unexpected error is logged, and an `InternalError` is raised for it.
    """

    def __init__(self, path: str, endpoint: Callable[..., Any], **facts: Any) -> None:  # noqa: ANN401 - as FastAPI has them
        facts["generate_unique_id_function"] = operation_id
        super().__init__(path, _sending(endpoint, facts.get("status_code") or 200), **facts)

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler of a request."""
        answer = super().get_route_handler()

        async def handler(request: Request) -> Response:
            token_of(request.headers.get("authorization"), request.app.state.tokens)
            try:
                return await answer(_StrictRequest(request.scope, request.receive))
            except (AlveusError, HTTPException, RequestValidationError):
                raise
            except Exception as error:
                raise noted(f"{request.method} {self.path}") from error

        return handler


class StrictRoute(PlainRoute):
    """A route that refuses unknown query parameters.

    Otherwise a request with a misspelled ``key`` would mean knowledge. A parameter that takes one
    value is also refused if it is given twice, because one value would be lost.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler of a request."""
        answer, known = super().get_route_handler(), dict(_parameters(self.dependant))

        async def handler(request: Request) -> Response:
            given = [name for name, _ in request.query_params.multi_items()]
            unknown = next((name for name in given if name not in known), None)
            if unknown is not None:
                raise InvalidInput(_no_parameter(unknown, request.url.path, [*known]))
            single = (name for name, takes_several in known.items() if not takes_several)
            twice = next((name for name in single if given.count(name) > 1), None)
            if twice is not None:
                raise InvalidInput(
                    f"{request.url.path} takes one {twice!r}, but the request has two; leave "
                    "out one"
                )
            for header in ("Idempotency-Key", "If-Match"):
                if len(request.headers.getlist(header)) > 1:
                    raise InvalidInput(
                        f"a request may have only one header {header}; leave out the others"
                    )
            return await answer(request)

        return handler


class ForeignRoute(PlainRoute):
    """A route that returns errors in the form of another system's protocol."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler of a request."""
        answer = super().get_route_handler()

        async def handler(request: Request) -> Response:
            try:
                return await answer(request)
            except AlveusError as error:
                plain = error_answer(error)
                headers = {name: plain.headers[name] for name in _KEPT if name in plain.headers}
                return self.refusal(plain.status_code, str(error), headers)
            except RequestValidationError as error:
                first = error.errors()[0]
                return self.refusal(400, f"{'.'.join(map(str, first['loc']))}: {first['msg']}", {})

        return handler

    def refusal(self, status: int, message: str, headers: Mapping[str, str]) -> Response:
        """Return the response of an error in the form of the protocol."""
        raise NotImplementedError


_KEPT = ("retry-after", "www-authenticate")
"""The headers of an error response that stay in every protocol."""


def _parameters(dependant: Dependant) -> Iterator[tuple[str, bool]]:
    """Yield each query parameter of a route and its dependencies, and whether it is a list."""
    for field in dependant.query_params:
        kind = field.field_info.annotation
        yield field.alias, any(get_origin(part) is list for part in (kind, *get_args(kind)))
    for each in dependant.dependencies:
        yield from _parameters(each)


def _no_parameter(unknown: str, path: str, known: list[str]) -> str:
    near = get_close_matches(unknown, known, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}?" if near else f"parameters: {', '.join(known) or 'none'}"
    return f"{path} has no parameter {unknown[:CUT]!r}; {hint}"


def _sending(endpoint: Callable[..., Any], status: int) -> Callable[..., Any]:
    @functools.wraps(endpoint)
    def call(**passed: Any) -> Response:  # noqa: ANN401 - whatever the route takes
        found = endpoint(**passed)
        if isinstance(found, Response):
            return found
        answer = JSONResponse(found, status)
        for given in passed.values():
            if type(given) is Response:
                answer.raw_headers += [h for h in given.raw_headers if h[0] != b"content-length"]
        return answer

    return call


def status_of(error: AlveusError) -> int:
    """Return the HTTP status of an error."""
    return next((STATUS[kind] for kind in type(error).__mro__ if kind in STATUS), OTHERWISE)


def error_answer(error: AlveusError) -> Response:
    """Return the response that reports an error."""
    status = status_of(error)
    headers = {"Retry-After": str(RETRY_AFTER_S)} if status == 503 else {}  # noqa: PLR2004 - of HTTP
    if status == 401:  # noqa: PLR2004 - of HTTP
        headers["WWW-Authenticate"] = "Bearer"
    facts = {name: _fact(fact) for name, fact in vars(error).items() if not name.startswith("_")}
    return problem(status, type(error).__name__, str(error), facts, headers)


def _fact(fact: object) -> Json:
    try:
        return wired(cast("Value", fact))
    except (TypeError, ValueError, AlveusError):
        return str(fact)
