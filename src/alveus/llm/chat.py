"""The interfaces of language models and re-rankers, requests to a model, and its usage."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from functools import partial
from operator import add, attrgetter, sub
from typing import (
    Final,
    Literal,
    NotRequired,
    Protocol,
    TypeAlias,
    TypedDict,
    cast,
    runtime_checkable,
)

from alveus.errors import InvalidInput
from alveus.errors.short_repr import short_repr
from alveus.values.forks import FreshLock
from alveus.values.lazy_dataclass import dataclass
from alveus.values.storable import checked_number, counted, encodable
from alveus.values.urls import append_urls, checked_urls, is_image

ROLES = ("system", "developer", "user", "assistant")
"""The roles of messages."""

NAME = re.compile("[A-Za-z0-9_-]{1,64}")
"""The names of speakers that servers of the OpenAI protocol accept."""

_UNFIT = re.compile("[^A-Za-z0-9_-]")

MOST_TEMPERATURE = 2.0
"""The highest temperature that a request may ask for."""


class ModelMessage(TypedDict):
    """A message to or from a model. `urls` are addresses of images and other material."""

    role: str
    content: str
    name: NotRequired[str]
    urls: NotRequired[list[str]]


Messages: TypeAlias = Sequence[Mapping[str, object]]
"""Messages as callers pass them: dicts with ``role`` and ``content``, and perhaps ``name`` and
``urls``; or objects with `to_chat`, which returns such a dict."""


class StreamOptions(TypedDict, total=False):
    """The options of `ChatModel.stream`; see `ChatModel.complete`."""

    temperature: float | None
    max_tokens: int | None
    stop: Sequence[str]


class ChatOptions(StreamOptions, total=False):
    """The options of `ChatModel.complete`."""

    json_schema: Mapping[str, object] | None


@runtime_checkable
class ToChat(Protocol):
    """A message of another shape, such as `alveus.agents.messages.Msg`."""

    def to_chat(self) -> Mapping[str, object]:
        """Return the message as a dict of ``role``, ``content``, perhaps ``name`` and ``urls``."""
        ...


@dataclass(frozen=True, slots=True)
class Usage:
    """The use of a model so far in this process.

    Attributes:
        calls: Number of answers received, whole or in part.
        prompt_tokens, completion_tokens: Tokens as counted by the model.
        uncounted: Number of calls without a report of tokens.
    """

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    uncounted: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(*map(add, _counts(self), _counts(other)))

    def __sub__(self, earlier: Usage) -> Usage:
        return Usage(*map(sub, _counts(self), _counts(earlier)))


_counts = attrgetter("calls", "prompt_tokens", "completion_tokens", "uncounted")


class Meter:
    """Adds up usage, for many threads."""

    def __init__(self) -> None:
        self._lock, self._usage = FreshLock(), Usage()

    @property
    def usage(self) -> Usage:
        """The sum so far."""
        return self._usage

    def add(self, usage: Usage) -> None:
        """Add the usage of one call."""
        with self._lock:
            self._usage += usage


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRequest:
    """A checked request to a model. The fields are the arguments of `ChatModel.complete`."""

    messages: tuple[ModelMessage, ...]
    json_schema: Mapping[str, object] | None = None
    temperature: float | None = None
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()


@runtime_checkable
class ChatModel(Protocol):
    """A language model that answers messages.

    One instance serves many threads at once. A subclass needs `name`, `usage` and `complete`; the
    other methods call these.
    """

    @property
    def name(self) -> str:
        """The name of the model. Results that are made of its answers carry this name."""
        ...

    @property
    def usage(self) -> Usage:
        """The usage of this instance so far in this process."""
        ...

    @property
    def takes_images(self) -> bool:
        """Whether the model gets the images at the urls of messages. If not, it gets the urls."""
        return False

    def complete(
        self,
        messages: Messages,
        *,
        json_schema: Mapping[str, object] | None = None,
        temperature: float | None = None,
        max_tokens: int | None = None,
        stop: Sequence[str] = (),
    ) -> str:
        """Return the model's answer to *messages*.

        The caller must check the answer. If it was cut at *max_tokens*, the part before the cut is
        returned. An answer may contain the model's thoughts; `ask_text` and `ask_json` remove them.

        Args:
            json_schema: Ask for JSON of this schema. The answer should then be JSON, but may be
                any text. If it was cut at *max_tokens*, `ModelAnswerInvalid` is raised.
            temperature: 0..2. None means the model's default, as it does for every option.
            max_tokens: The most tokens of the answer, including thoughts.
            stop: Texts at which the answer ends.

        Raises:
            InvalidInput: A message or an option cannot be used. Nothing was asked.
            ModelUnavailable: The model did not answer, but may answer later.
            ModelRefused: The model refused the request.
            ModelAnswerInvalid: The model answered without a text.
        """
        ...

    async def acomplete(
        self,
        messages: Messages,
        *,
        json_schema: Mapping[str, object] | None = None,
        temperature: float | None = None,
        max_tokens: int | None = None,
        stop: Sequence[str] = (),
    ) -> str:
        """Return the result of `complete`, called in a thread of the event loop's executor.

        A cancelled call is not stopped: its thread waits for the answer.
        """
        import asyncio

        options = ChatOptions(
            json_schema=json_schema, temperature=temperature, max_tokens=max_tokens, stop=stop
        )
        return await asyncio.to_thread(partial(self.complete, messages, **options))

    def stream(
        self,
        messages: Messages,
        *,
        temperature: float | None = None,
        max_tokens: int | None = None,
        stop: Sequence[str] = (),
    ) -> Iterator[str]:
        """Return the pieces of the answer of `complete`, as they come.

        An error may be raised after some pieces. No piece comes twice.
        """
        options = StreamOptions(temperature=temperature, max_tokens=max_tokens, stop=stop)
        whole = partial(self.complete, messages, **options)
        return (answer for answer in (whole(),) if answer)


def checked_request(
    messages: Messages,
    *,
    images: bool = False,
    json_schema: Mapping[str, object] | None = None,
    temperature: float | None = None,
    max_tokens: int | None = None,
    stop: Sequence[str] = (),
) -> ChatRequest:
    """Return a checked request, a copy of the arguments.

    Args:
        messages, json_schema, temperature, max_tokens, stop: As `ChatModel.complete`.
        images: Whether the model takes images; see `checked_messages`.

    Raises:
        InvalidInput: A message or an option cannot be used.
    """
    return ChatRequest(
        messages=checked_messages(messages, images=images),
        json_schema=None if json_schema is None else _schema(json_schema),
        temperature=None
        if temperature is None
        else checked_number(temperature, "temperature", least=0, most=MOST_TEMPERATURE),
        max_tokens=None if max_tokens is None else counted(max_tokens, "max_tokens"),
        stop=_stops(stop),
    )


def checked_messages(
    messages: object, *, what: str = "messages", images: bool = False
) -> tuple[ModelMessage, ...]:
    """Return a checked copy of *messages*.

    Args:
        what: The name of the messages in an error.
        images: Whether the model takes images. Images from users stay in `urls`; all other urls
            follow the content as text.

    Raises:
        InvalidInput: There are no messages, or one is not a dict of ``role``, ``content``,
            ``name`` and ``urls``.
    """
    if not isinstance(messages, Sequence) or isinstance(messages, str | bytes):
        kind = type(messages).__name__
        raise InvalidInput(f"{what} must be a list of dicts with role and content, not {kind}")
    if not messages:
        raise InvalidInput(f"{what} must contain at least one message")
    listed = cast("Sequence[object]", messages)
    return tuple(_message(m, f"{what}[{at}]", images=images) for at, m in enumerate(listed))


def _message(message: object, where: str, *, images: bool) -> ModelMessage:
    if isinstance(message, ToChat):
        message = message.to_chat()
    if not isinstance(message, Mapping):
        raise InvalidInput(f"{where} must be a dict, not {type(message).__name__}")
    given = cast("Mapping[object, object]", message)
    if unknown := [key for key in given if key not in ModelMessage.__annotations__]:
        raise InvalidInput(
            f"{where} has an unknown field {unknown[0]!r}; the fields are role, content, name "
            "and urls"
        )
    role = given.get("role")
    if not isinstance(role, str) or role not in ROLES:
        raise InvalidInput(f"the role of {where} must be one of {', '.join(ROLES)}")
    content = encodable(given.get("content"), f"the content of {where}")
    what = f"the urls of {where}"
    urls = [encodable(url, what) for url in checked_urls(given.get("urls"), what)]
    shown = [url for url in urls if images and role == "user" and is_image(url)]
    checked = ModelMessage(
        role=role, content=append_urls(content, [url for url in urls if url not in shown])
    )
    if "name" in given:
        checked["name"] = encodable(given["name"], f"the name of {where}")
    if shown:
        checked["urls"] = shown
    return checked


def for_servers(messages: Sequence[ModelMessage]) -> list[ModelMessage]:
    """Return messages with names that servers of the OpenAI protocol accept.

    Servers refuse a request with a name that does not match `NAME`. Other characters become "_", if
    all letters and digits of the name remain and no other name becomes the same. Otherwise the name
    is put before the content.
    """
    names = {message["name"] for message in messages if "name" in message}
    fitting = {name: _fitting(name) for name in names}
    often = Counter(fitting.values())
    taken = {name: fit for name, fit in fitting.items() if fit == name or often[fit] == 1}
    return [_named(message, taken) for message in messages]


def _fitting(name: str) -> str:
    """Return *name* in a form that servers accept, or "" if the form would be unrecognisable."""
    fit = _UNFIT.sub("_", name)
    is_known = any(map(str.isalnum, fit)) and not any(map(str.isalnum, set(name) - set(fit)))
    return fit if NAME.fullmatch(fit) and (is_known or fit == name) else ""


def _named(message: ModelMessage, taken: Mapping[str, str]) -> ModelMessage:
    name = message.get("name", "")
    if fit := taken.get(name):
        return {**message, "name": fit}
    nameless = message.copy()
    nameless.pop("name", None)
    if named := " ".join(name.split()):
        nameless["content"] = f"{named}: {message['content']}"
    return nameless


def _schema(schema: object) -> Mapping[str, object]:
    if not isinstance(schema, Mapping):
        raise InvalidInput(f"json_schema must be a dict, not {type(schema).__name__}")
    try:
        return json.loads(json.dumps(schema, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"json_schema must be JSON ({error})") from error


def _stops(stop: object) -> tuple[str, ...]:
    if isinstance(stop, str) or not isinstance(stop, Sequence):
        raise InvalidInput(f"stop must be a list of texts, not {type(stop).__name__}")
    listed = enumerate(cast("Sequence[object]", stop))
    texts = tuple(encodable(text, f"stop[{at}]") for at, text in listed)
    if "" in texts:
        raise InvalidInput("stop contains an empty text, which would end every answer; remove it")
    return texts


CANDIDATES = 50
"""Number of hits that a re-ranker reads if it has no `candidates`."""

MOST_CANDIDATES = 1_000
"""Most hits that a re-ranker reads: as many as a search can return."""


@runtime_checkable
class Reranker(Protocol):
    """Scores how well texts answer a question. One instance serves many threads.

    A re-ranker may have an attribute `candidates`, from 1 to 1,000: the number of hits that it is
    given, 50 by default. It is always given at least as many as the search returns.
    """

    def rerank(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        """Return one number per text, higher for a better text, comparable within this call.

        A text is an item as a prompt shows it: ``Ada, 2024-05-02: I moved to Lisbon.``

        Raises:
            RerankerFailed: The model or its server failed. The search then keeps its order.
        """
        ...


class MemoryDefault(Enum):
    """The default of an argument for which None has another meaning."""

    MEMORY_DEFAULT = "as the memory was opened"


MEMORY_DEFAULT: Final = MemoryDefault.MEMORY_DEFAULT
"""Means the re-ranker that was passed to `Memory.open`, if any."""

RerankerChoice: TypeAlias = Reranker | Literal[MemoryDefault.MEMORY_DEFAULT] | None
"""The re-ranker of a call. None means no re-ranker, even if the memory has one."""


def candidates_of(reranker: Reranker) -> int:
    """Return the number of hits that a re-ranker reads.

    Raises:
        InvalidInput: The re-ranker's `candidates` are not a number from 1 to 1,000.
    """
    given: object = getattr(reranker, "candidates", CANDIDATES)
    return counted(given, "candidates of a re-ranker", most=MOST_CANDIDATES)


def checked_reranker(given: object) -> None:
    """Refuse an object that is not a re-ranker. None and `MEMORY_DEFAULT` are accepted."""
    if given is None or given is MEMORY_DEFAULT:
        return
    if not isinstance(given, Reranker) or isinstance(given, type):
        raise InvalidInput(
            f"reranker must be an object with a method rerank(), not {short_repr(given)}"
        )
    candidates_of(given)
