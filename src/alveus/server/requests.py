"""The bodies and parameters of requests, and how their texts are parsed."""

from __future__ import annotations

import json
import re
from datetime import datetime, timedelta
from typing import Annotated, Any, ClassVar, Self, TypeAlias, TypeVar, cast

from fastapi import Header, Query
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    PrivateAttr,
    model_validator,
)
from pydantic_core import PydanticCustomError

from alveus.errors import InvalidInput
from alveus.memory.remote.codecs import argument_of
from alveus.store.times import AsOf
from alveus.values import wire
from alveus.values.storable import DEFAULT_SPACE, valid_text
from alveus.values.times import LONGEST_TTL, parse_time

T = TypeVar("T")

Space: TypeAlias = Annotated[str, Query(min_length=1, description="The space.")]
Key: TypeAlias = Annotated[str, Query(min_length=1, description="The user, session or device.")]
OptionalKey: TypeAlias = Annotated[
    str | None,
    Query(min_length=1, description="The user, session or device; without one: knowledge."),
]
SetName: TypeAlias = Annotated[str, Query(alias="set", min_length=1, description="The set.")]
ItemId: TypeAlias = Annotated[str, Query(min_length=1, description="The id of an item.")]
OptionalRunId: TypeAlias = Annotated[int | None, Query(ge=1, lt=1 << 62)]
RunId: TypeAlias = Annotated[int, Query(description="The id of a run.", ge=1, lt=1 << 62)]
ExactPath: TypeAlias = Annotated[
    str, Query(description="Names with dots between, or a JSON list of names; empty: the root.")
]
Repeatable: TypeAlias = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        description="A second request of this name changes nothing, and gets the same answer.",
    ),
]
Timezone: TypeAlias = Annotated[
    str | None,
    Header(
        alias="Alveus-Timezone",
        description="Where the reader is, as a name (Europe/Lisbon) or an offset (+05:30): his "
        "days are counted, and times are shown to him. Left out: where the server is.",
    ),
]
IfMatch: TypeAlias = Annotated[
    str | None,
    Header(
        description="The ETag that was read: if it is another one by now, nothing is changed. "
        "With * nothing is changed if nothing is there."
    ),
]
AsOfText: TypeAlias = Annotated[
    str | None, Query(description="As it was then: a commit number, or a time.")
]
ValidAtText: TypeAlias = Annotated[
    str | None, Query(description="What holds at that time; any: whenever it holds.")
]
Count: TypeAlias = Annotated[int, Query(ge=1, le=1_000)]

DEFAULT = DEFAULT_SPACE

ANY = "*"
"""The If-Match header that any existing value matches."""

_ETAG = re.compile(r'(?:W/)?(?:"([^"]*)"|([^",\s]+))')

_COMPRESSED = re.compile(r"(?:-{1,2}|;)(?:gzip|br|zstd|deflate)$")
"""The suffix that Apache, Caddy and Jetty add to the ETag of a compressed response."""

LONGEST_S = LONGEST_TTL.total_seconds()
"""The longest accepted span, in seconds."""


Seconds: TypeAlias = Annotated[
    float | None, Field(gt=0, le=LONGEST_S, description="Seconds after which it goes.")
]


def _moment(value: object) -> datetime:
    """Return the time that a text in a body names.

    Pydantic alone would read 2025 as seconds since 1970.
    """
    try:
        return value if isinstance(value, datetime) else parse_time(value)
    except InvalidInput as error:
        raise PydanticCustomError("time", "{says}", {"says": str(error)}) from None


Moment: TypeAlias = Annotated[datetime, BeforeValidator(_moment)]
"""A time in a body: ISO 8601, with a zone."""


class Fault(BaseModel):
    """An error: the name of its class, a message with a remedy, and its attributes."""

    type: str
    message: str
    facts: dict[str, Any]


class Problem(BaseModel):
    """An error response."""

    error: Fault


class _Body(BaseModel):
    """A body that refuses unknown fields."""

    model_config = ConfigDict(extra="forbid", strict=True)


class ValidTexts(BaseModel):
    """A body in another system's protocol. Its texts are made valid before they are parsed.

    `valid_text` replaces invalid characters. Names of the protocol, such as ids, do not count as
    texts and are not changed.
    """

    TEXTS: ClassVar[tuple[str, ...]] = ()
    """The fields that are texts or contain texts."""

    _replaced: int = PrivateAttr(0)

    @model_validator(mode="wrap")
    @classmethod
    def _valid(cls, given: object, read: ModelWrapValidatorHandler[Self]) -> Self:
        if not isinstance(given, dict):
            return read(given)
        body = cast("dict[str, object]", given)
        valid, replaced = valid_text({name: body[name] for name in cls.TEXTS if name in body})
        made = read(body | valid)
        made._replaced = replaced  # noqa: SLF001 - made is of this class
        return made

    @property
    def replaced(self) -> int:
        """The number of characters that were replaced by U+FFFD."""
        return self._replaced


class ValueBody(_Body):
    """A value of exact memory."""

    value: Any
    ttl_s: Seconds = None


class ForgetBody(_Body):
    """The data to erase: items by id, items by filter, or the whole key."""

    ids: list[str] | None = None
    where: dict[str, Any] | None = None
    everything: bool = Field(default=False, description="Erase all of the key.")
    dry_run: bool = False


class ItemIds(_Body):
    """Ids of items of a set."""

    ids: list[str] = Field(max_length=1_000)


def etags_of(text: str) -> frozenset[str]:
    """Return the ETags of an If-Match as the server sent them, without quotes.

    A proxy that compresses a response makes its ETag weak (W/"3") or adds the compression
    ("3-gzip"); both name the same value.
    """
    found = (quoted or bare for quoted, bare in _ETAG.findall(text))
    return frozenset(_COMPRESSED.sub("", etag) for etag in found)


def where_of(text: str | None) -> Any:  # noqa: ANN401 - any JSON
    """Return the filter that a JSON text contains, or None if *text* is None."""
    if text is None:
        return None
    try:
        return json.loads(text, object_pairs_hook=wire.unique_fields)
    except InvalidInput as error:
        raise InvalidInput(f"where: {error}") from None
    except (ValueError, RecursionError):
        raise InvalidInput('where must be a filter as JSON, such as {"city": "Lisbon"}') from None


def path_of(text: str) -> str | tuple[str, ...]:
    """Return the path that *text* names: dotted names, or a JSON list of names."""
    if not text.startswith("["):
        return text
    try:
        found: Any = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, list) or not all(isinstance(name, str) for name in found):  # pyright: ignore[reportUnknownVariableType] - checked here
        raise InvalidInput('path must be names joined by dots, or a list like ["a.b", "c"]')
    return tuple(found)  # pyright: ignore[reportUnknownArgumentType,reportUnknownVariableType] - the same


def as_of(text: str | int | None) -> AsOf | None:
    """Return the commit number or the time that *text* names, or None if *text* is None."""
    if isinstance(text, int):
        return text
    return None if text is None else argument_of(AsOf, text)


def span(seconds: float | None) -> timedelta | None:
    """Return *seconds* as a timedelta, or None if *seconds* is None."""
    return None if seconds is None else timedelta(seconds=seconds)
