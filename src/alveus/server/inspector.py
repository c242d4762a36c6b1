"""The inspector's pages: static files of the package, with a strict content policy.

They load nothing from other hosts and contain no data: they request it from the public API with the
user's token.
"""

from __future__ import annotations

from pathlib import Path

from fastapi import FastAPI, Request, Response
from fastapi.responses import RedirectResponse
from starlette.exceptions import HTTPException

from alveus import __version__
from alveus.server.addresses import has_last_slash

FILES = Path(__file__).with_name("ui")

KINDS = {".html": "text/html", ".js": "text/javascript", ".css": "text/css"}

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
"""Allows only the package's scripts; prevents text from becoming markup."""

HEADERS = {
    "Content-Security-Policy": POLICY,
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


def add_inspector(app: FastAPI, *, space: str, writes: bool) -> None:
    """Add the inspector to an app at ``/ui``.

    Args:
        space: The space to show.
        writes: Whether its pages offer changes of the memory; the app and its tokens decide which
            changes are allowed.
    """
    files = {path.name: path.read_bytes() for path in FILES.iterdir() if path.suffix in KINDS}

    @app.get("/ui/settings", include_in_schema=False)
    def settings() -> dict[str, object]:
        return {
            "version": __version__,
            "space": space,
            "writes": writes,
            "needs_token": app.state.tokens is not None,
        }

    @app.get("/ui", include_in_schema=False)
    def first_page(request: Request) -> Response:
        # Relative, like the names of its files, which need the slash to resolve.
        return page("index.html") if has_last_slash(request.scope) else RedirectResponse("ui/")

    @app.get("/ui/{name}", include_in_schema=False)
    def page(name: str) -> Response:
        if name not in files:
            raise HTTPException(404, "there is no such page")
        return Response(files[name], headers=HEADERS, media_type=KINDS[Path(name).suffix])

    for route in (first_page, settings, page):
        assert callable(route)  # noqa: S101 - they are used by name
