"""Urls: of messages, told to a model as text or shown to one as images; of servers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import cast
from urllib.parse import urlsplit

from fornix.errors import InvalidInput

STILL = "?immutable=1"
"""Ends a URL that is opened read-only: nobody writes meanwhile, so no file is made beside it."""

IMAGES = (".png", ".jpg", ".jpeg", ".gif", ".webp")
"""How the path of an image's address ends."""

SERVERS = ("postgresql://", "postgres://")
"""How the URL of a database begins that a server keeps."""

_PASSWORD = re.compile(r"(?i)([?&](?:password|sslpassword)=)[^&]*")

_USER = re.compile(r"^([^:/]+://)([^:@/]*)(?::[^@/]*)?@")

_DATA = re.compile(r"data:image/(?:png|jpe?g|gif|webp)[;,]", re.IGNORECASE)


def is_server(place: str) -> bool:
    """Return whether *place* is the URL of a server, and no path of a file."""
    return place.startswith(SERVERS)


def without_password(url: str) -> str:
    """Return the URL of a server as it may be shown."""
    shown = _PASSWORD.sub(r"\1***", url)
    return _USER.sub(lambda found: f"{found[1]}{found[2]}@" if found[2] else found[1], shown)


def checked_urls(given: object, what: str) -> list[str]:
    """Return urls: of one, of several, of none.

    Raises:
        InvalidInput: *given* is something else.
    """
    if given is None or isinstance(given, str):
        return [given] if given else []
    listed = cast("Sequence[object]", given) if isinstance(given, list | tuple) else [given]
    if wrong := [one for one in listed if not isinstance(one, str)]:
        raise InvalidInput(f"{what} must be a text or a list of them, not {wrong[0]!r}")
    return cast("list[str]", [one for one in listed if one])


def is_image(url: str) -> bool:
    """Return whether a model's server can fetch, or be given, an image by *url*."""
    if _DATA.match(url):
        return True
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.scheme in {"http", "https"} and parts.path.lower().endswith(IMAGES)


def with_urls(text: str, urls: Sequence[str]) -> str:
    """Return a text with urls after it, a line each; of data, what it is, and not the data."""
    lines = [url.partition(",")[0] if url[:5].lower() == "data:" else url for url in urls]
    return "\n".join([*([text] if text else []), *lines])
