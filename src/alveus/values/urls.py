"""URLs in messages, which a model gets as text or images, and URLs and paths of stores."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import TypeGuard, cast
from urllib.parse import urlsplit

from alveus.errors import InvalidInput, Unsupported
from alveus.errors.short_repr import short_repr

IMMUTABLE_SUFFIX = "?immutable=1"
"""The end of the URL of a store without writers, which is opened without new files beside it."""

IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".gif", ".webp")
"""The endings of paths by which the URL of an image is recognized."""

SERVERS = ("postgresql://", "postgres://")
"""Beginnings of the URL of a database on a server."""

_PASSWORD = re.compile(r"(?i)([?&](?:password|sslpassword)=)[^&]*")

_USER = re.compile(r"^([^:/]+://)([^:@/?]*)(:(?:[^/]*|[^?]*))?@")
"""Finds user and password. A password may contain an unquoted @ or /, so it ends at the last @."""

_UNQUOTED = re.compile(r"[@/?#]|%(?![0-9A-Fa-f]{2})")

_HOST_AND_PORT = re.compile("[A-Za-z0-9.-]+:[0-9]{1,5}")

LONGEST_NAME = 255 - len("-journal")
"""Bytes in the name of a store's file: SQLite puts files beside it, whose names are longer."""

_DATA = re.compile(r"data:image/(?:png|jpe?g|gif|webp)[;,]", re.IGNORECASE)


def is_server(location: str) -> bool:
    """Return whether *location* is the URL of a server, not the path of a file."""
    return location.startswith(SERVERS)


def is_http(location: object) -> TypeGuard[str]:
    """Return whether *location* is the URL of a server of alveus."""
    return isinstance(location, str) and location[:8].lower().startswith(("http://", "https://"))


def path_of_file(location: str, *, is_typed: bool = True) -> str:
    """Return the path of the file that *location* names: itself, or what follows ``sqlite:///``.

    Args:
        is_typed: Whether a user wrote the location, rather than a program.

    Raises:
        InvalidInput: *location* is an incomplete address of a server, begins with a ``~`` that no
            shell has replaced, or is too long.
        Unsupported: The scheme of *location* is unknown.
    """
    if location.startswith(("postgresql:", "postgres:")):
        raise InvalidInput(
            f"{short_repr(location)} lacks //; a server is postgresql://user@host/database, and "
            "a file with that name is ./postgresql:…"
        )
    if is_typed and _HOST_AND_PORT.fullmatch(location):
        raise InvalidInput(
            f"{short_repr(location)} is a host and a port; a server is http://{location}, and a "
            f"file with that name is ./{location}"
        )
    scheme, separator, rest = location.partition("://")
    if separator and scheme != "sqlite":
        raise Unsupported(
            f"{scheme}:// stores are not supported; use a path, postgresql://…, http://…, or "
            "':memory:'"
        )
    path = rest.removeprefix("/") if separator else location
    home = os.path.expanduser(path)  # noqa: PTH111 - Path.expanduser raises for an unknown user
    if home != path and not os.path.lexists(path.split("/")[0]):
        raise InvalidInput(
            f"{short_repr(path)} begins with ~, which only a shell replaces; write "
            f"{short_repr(home)}"
        )
    if len(os.path.basename(path).encode(errors="surrogateescape")) > LONGEST_NAME:  # noqa: PTH119 - a text, not yet a path
        raise InvalidInput(
            f"{short_repr(path)} is too long: the name of a store's file has at most "
            f"{LONGEST_NAME} bytes; pass a shorter path"
        )
    return path


def without_password(url: str) -> str:
    """Return the URL of a server without its password."""
    shown = _PASSWORD.sub(r"\1***", url)
    return _USER.sub(lambda user: f"{user[1]}{user[2]}@" if user[2] else user[1], shown)


def check_password(url: str) -> None:
    """Refuse the URL of a server whose password has unquoted characters that divide URLs.

    Raises:
        InvalidInput: The password has @, /, ?, # or %; the message does not show the password.
    """
    user = _USER.match(url)
    if user and _UNQUOTED.search(user[3] or ""):
        raise InvalidInput(
            f"the password in the URL {without_password(url)!r} contains @, /, ?, # or %; write "
            "%40, %2F, %3F, %23 or %25 instead"
        )


def checked_urls(value: object, what: str) -> list[str]:
    """Return a list of the urls in *value*, without empty ones.

    Args:
        value: One url, a list or tuple of urls, or None for no url.

    Raises:
        InvalidInput: *value* has another type.
    """
    if value is None or isinstance(value, str):
        return [value] if value else []
    urls = cast("Sequence[object]", value) if isinstance(value, list | tuple) else [value]
    if wrong := [one for one in urls if not isinstance(one, str)]:
        raise InvalidInput(f"{what} must be a text or a list of texts, not {wrong[0]!r}")
    return cast("list[str]", [one for one in urls if one])


def is_image(url: str) -> bool:
    """Return whether *url* looks like an image that a model's server can fetch or read."""
    if _DATA.match(url):
        return True
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.scheme in {"http", "https"} and parts.path.lower().endswith(IMAGE_SUFFIXES)


def append_urls(text: str, urls: Sequence[str]) -> str:
    """Return *text* with *urls* after it, a line each. A data url is cut to its type."""
    lines = [url.partition(",")[0] if url[:5].lower() == "data:" else url for url in urls]
    return "\n".join([*([text] if text else []), *lines])
