"""A language model behind the OpenAI protocol, at any server that speaks it; `alveus[openai]`.

The package `openai` makes requests and keeps connections. It is imported at the first call. This
module reads and checks the answers, and limits their time and size.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import field
from importlib import import_module
from importlib.util import find_spec
from threading import TIMEOUT_MAX, Lock
from time import monotonic
from typing import TYPE_CHECKING, Any, Literal, Self, Unpack
from urllib.parse import urlsplit

from alveus.errors import InvalidInput, ModelClosed, ModelFailed, ModelMissing, ModelUnavailable
from alveus.errors.short_repr import short_repr
from alveus.llm import server_replies
from alveus.llm.chat import (
    ChatModel,
    ChatOptions,
    ChatRequest,
    Messages,
    Meter,
    ModelMessage,
    StreamOptions,
    Usage,
    checked_request,
    for_servers,
)
from alveus.values.forks import Flag
from alveus.values.http_json import fits_header
from alveus.values.keywords import suggest_names
from alveus.values.lazy_dataclass import dataclass
from alveus.values.retries import Retry
from alveus.values.storable import checked_kind, flag

if TYPE_CHECKING:
    from openai import APIResponse, OpenAI

OPENAI = "https://api.openai.com/v1"
"""The address of OpenAI."""

MOST_BYTES = 16 << 20
"""Most bytes of an answer that are read from the server."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """The variant of the OpenAI protocol that a server speaks.

    Attributes:
        json: How JSON is requested: ``schema`` (``response_format`` with the schema), ``object``
            (``response_format`` without the schema), or ``words`` (only by the messages).
        max_tokens: The name of the field for the most tokens of an answer.
        stream_usage: Whether to ask for the tokens of a streamed answer.
        extra: Fields that are added to the body of every request.
    """

    json: Literal["schema", "object", "words"] = "schema"
    max_tokens: str = "max_tokens"
    stream_usage: bool = True
    extra: Mapping[str, object] = field(default_factory=dict[str, object])

    def __post_init__(self) -> None:
        """Refuse fields that cannot be sent."""
        if self.json not in {"schema", "object", "words"}:
            raise InvalidInput(f"json must be 'schema', 'object' or 'words', not {self.json!r}")
        try:
            json.dumps(dict(self.extra), allow_nan=False).encode()
        except (TypeError, ValueError, RecursionError) as error:
            raise InvalidInput(f"extra must be a dict of JSON ({error})") from error

    def fields(self, request: ChatRequest) -> dict[str, object]:
        """Return the fields of a request's body, without model and messages."""
        found: dict[str, object] = {}
        if request.json_schema is not None and self.json == "schema":
            schema = {"name": "answer", "schema": request.json_schema}
            found["response_format"] = {"type": "json_schema", "json_schema": schema}
        elif request.json_schema is not None and self.json == "object":
            found["response_format"] = {"type": "json_object"}
        if request.temperature is not None:
            found["temperature"] = request.temperature
        if request.max_tokens is not None:
            found[self.max_tokens] = request.max_tokens
        if request.stop:
            found["stop"] = list(request.stop)
        return {**found, **self.extra}


class OpenAIChat(ChatModel):
    """A `ChatModel` at OpenAI, or at any server that speaks its protocol.

    The object connects at the first call, and again in a child after a fork. A request is tried
    again after an answer of status 408, 409, 425, 429 or 5xx, after an answer of status 200 that
    reports such a failure or is empty, after a failed or cut connection, and after silence. The
    next try comes as *retry* says, and no sooner than the server asks. Answers have no
    thoughts: see `answer_text`.

    Args:
        model: The name of the model at the server.
        base_url: The address of the server, with ``/v1``. None means ``OPENAI_BASE_URL`` at the
            first call, or OpenAI if that is not set.
        api_key: The key, which is sent to *base_url*. None means ``OPENAI_API_KEY`` at the first
            call.
        timeout_s: A try fails after this time without a byte from the server. It also fails if a
            whole answer takes three times as long; a streamed answer has no such limit.
        retry: How often and how soon to try again. None means up to two more tries. If a server
            asks to wait for longer than ``most_s``, the request is not tried again.
        dialect: The server's variant of the protocol. None means that of OpenAI for OpenAI, and
            `Dialect()` for any other server.
        takes_images: Whether the model takes images. If so, image urls of users' messages are sent
            as parts of their content; if not, as text.

    Raises:
        InvalidInput: An argument cannot be used.
    """

    @suggest_names
    def __init__(  # noqa: PLR0913 - all but the model by name
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        timeout_s: float = 60.0,
        retry: Retry | None = None,
        dialect: Dialect | None = None,
        takes_images: bool = False,
    ) -> None:
        if not isinstance(model, str) or not model:  # pyright: ignore[reportUnnecessaryIsInstance]  callers without types
            raise InvalidInput("model must be the name of a model, such as 'gpt-4o'")
        if not isinstance(timeout_s, int | float) or not 0 < timeout_s <= TIMEOUT_MAX:  # pyright: ignore[reportUnnecessaryIsInstance]  callers without types
            raise InvalidInput(f"timeout_s must be a number above 0, not {short_repr(timeout_s)}")
        checked_kind(retry, Retry | None, "retry must be a Retry")
        if base_url is not None:
            _host(base_url)
        self._model, self._timeout_s, self._retry = model, timeout_s, retry or Retry()
        self._base_url, self._api_key, self._dialect = base_url, api_key, dialect
        self._takes_images = flag(takes_images, "takes_images")
        self._by_process: dict[int, _Connected] = {}
        self._here()

    def __repr__(self) -> str:
        at = "" if self._base_url is None else f", base_url={_host(self._base_url)!r}"
        return f"{type(self).__name__}({self._model!r}{at})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def name(self) -> str:
        """The name of the model at the server."""
        return self._model

    @property
    def usage(self) -> Usage:
        """The use of this object so far in this process, without failed tries."""
        return self._here().meter.usage

    @property
    def takes_images(self) -> bool:
        """Whether the model takes images."""
        return self._takes_images

    def close(self) -> None:
        """Close the connections. Running calls raise `ModelClosed`. May be called twice."""
        self._here().close()

    def complete(self, messages: Messages, **options: Unpack[ChatOptions]) -> str:
        """Return the model's answer to *messages*; see `ChatModel.complete`.

        Raises:
            InvalidInput: A message or an option cannot be used. Nothing was asked.
            ModelMissing: The package ``openai``, or a key, is missing. Nothing was asked.
            ModelUnavailable: The server did not answer, or was busy, at each try.
            ModelRefused: The server, or the model, turned the request down.
            ModelAnswerInvalid: The answer has no text, or thoughts and nothing else.
            ModelClosed: This object was closed.
        """
        request = checked_request(messages, images=self._takes_images, **options)
        tried = 0
        while True:
            tried += 1
            try:
                return self._answer(request)
            except ModelUnavailable as error:
                self._pause_after(error, tried)

    def stream(self, messages: Messages, **options: Unpack[StreamOptions]) -> Iterator[str]:
        """Return the pieces of the answer as they come; see `ChatModel.stream`.

        The request is sent when the first piece is requested. Until that piece has come, failures
        are tried again as in `complete`. If the connection is cut later, `ModelUnavailable` is
        raised after the received pieces. Closing the iterator closes the connection.

        Raises:
            InvalidInput: A message or an option cannot be used. Nothing was asked.
        """
        request = checked_request(messages, images=self._takes_images, **options)
        return self._pieces(request)

    def _pieces(self, request: ChatRequest) -> Iterator[str]:
        tried, begun = 0, False
        while True:
            tried += 1
            try:
                with closing(self._streamed(request)) as pieces:
                    for piece in pieces:
                        begun = True
                        yield piece
            except ModelUnavailable as error:
                if begun:
                    raise
                self._pause_after(error, tried)
            else:
                return

    def _answer(self, request: ChatRequest) -> str:
        with self._sent(request, stream=False) as response:
            latest = monotonic() + 2 * self._timeout_s
            body = b"".join(self._bytes(response, latest=latest))
            headers = response.headers
        found = server_replies.read_body(self._model, body, headers)
        self._here().meter.add(found.usage)
        return server_replies.text_of(
            self._model, found, asked_json=request.json_schema is not None
        )

    def _streamed(self, request: ChatRequest) -> Generator[str]:
        with self._sent(request, stream=True) as response, ExitStack() as stack:
            said = server_replies.Streamed(self._model, response.headers)
            stack.callback(lambda: self._here().meter.add(said.usage))
            for line in server_replies.lines(self._bytes(response, latest=None)):
                if piece := said.piece(line):
                    yield piece
                if said.ended:
                    break
            if rest := said.end():
                yield rest

    @contextmanager
    def _sent(self, request: ChatRequest, *, stream: bool) -> Generator[APIResponse[Any]]:
        """Send a request. Yield the response as soon as the server begins to answer.

        The caller must read the answer inside the ``with`` block.
        """
        here = self._here()
        client = here.client(self._connect)
        fields = (self._dialect or _dialect_of(client)).fields(request)
        if stream and (self._dialect is None or self._dialect.stream_usage):
            fields.setdefault("stream_options", {"include_usage": True})
        create: Any = client.chat.completions.with_streaming_response.create  # takes no plain dicts
        with ExitStack() as stack:
            try:
                response: APIResponse[Any] = stack.enter_context(
                    create(
                        model=self._model,
                        messages=[_sent(message) for message in for_servers(request.messages)],
                        stream=stream,
                        extra_body=fields,
                    )
                )
            except Exception as error:  # errors of openai and of its dependencies
                raise self._failure(error, client) from error
            yield response

    def _bytes(self, response: APIResponse[Any], *, latest: float | None) -> Iterator[bytes]:
        """Yield the bytes of the answer. Raise if they are too many, or not complete at *latest*.

        *latest* is a time of `time.monotonic`. None means no limit.
        """
        read = 0
        chunks = response.iter_bytes()
        while True:
            try:
                chunk = next(chunks, None)
            except Exception as error:  # as above
                problem = "went silent" if _is_a_timeout(error) else "was cut off"
                said = f"its answer {problem} after {read} bytes"
                raise self._closed_or(ModelUnavailable(self._model, said)) from error
            if chunk is None:
                return
            read += len(chunk)
            if read > MOST_BYTES:
                raise server_replies.unusable(self._model, f"is longer than {MOST_BYTES >> 20} MiB")
            if latest is not None and monotonic() > latest:
                said = f"its answer was not whole after {2 * self._timeout_s:g} s"
                raise ModelUnavailable(self._model, said)
            yield chunk

    def _connect(self) -> OpenAI:
        """Return a client of the package `openai`, not connected yet."""
        if find_spec("openai") is None:
            raise ModelMissing(
                f"model {self._model!r} needs the package openai, which is not installed; run: "
                "pip install 'alveus[openai]' (or, for tests, use ScriptedChat)"
            )
        key = self._api_key or os.environ.get("OPENAI_API_KEY", "")
        if not key:
            raise ModelMissing(
                f"model {self._model!r} needs a key: set OPENAI_API_KEY or pass api_key=; if "
                "the server needs no key, pass any word. For tests, use ScriptedChat"
            )
        if not fits_header(key):
            raise ModelMissing(
                f"the key of model {self._model!r} contains a space, a line end or another "
                "character that HTTP headers cannot hold; check OPENAI_API_KEY or api_key="
            )
        base_url = self._base_url or os.environ.get("OPENAI_BASE_URL") or OPENAI
        _host(base_url)
        return import_module("openai").OpenAI(
            api_key=key, base_url=base_url, timeout=self._timeout_s, max_retries=0
        )

    def _failure(self, error: Exception, client: OpenAI) -> Exception:
        """Return the error of alveus for *error*, which a request raised."""
        openai: Any = import_module("openai")
        server = _host(str(client.base_url))
        if isinstance(error, openai.APIStatusError):
            failed: Any = error
            status, headers = failed.status_code, failed.response.headers
            found = server_replies.status_failure(self._model, server, status, headers, failed.body)
            # The server's words may repeat the request, with the key; a printed error shows its
            # cause. They stay in `body`.
            error.args = (f"status {status}",)
            return found
        if isinstance(error, openai.APITimeoutError):
            said = f"{server} did not answer within {self._timeout_s:g} s"
            return self._closed_or(ModelUnavailable(self._model, said))
        if isinstance(error, openai.APIConnectionError):
            said = f"{server} cannot be reached, or cut the connection"
            return self._closed_or(ModelUnavailable(self._model, said))
        said = f"the request could not be sent to {server} ({type(error).__name__})"
        return self._closed_or(ModelFailed(self._model, said))

    def _closed_or(self, failed: ModelFailed) -> Exception:
        return self._here().closed_error(self._model) or failed

    def _pause_after(self, error: ModelUnavailable, tried: int) -> None:
        """Wait before the next try. Raise *error* if it must not be tried again."""
        asked_s = error.retry_after_s or 0.0
        if not self._retry.should_retry(error, tried) or asked_s > self._retry.most_s:
            if tried > 1:
                error.add_note(f"tried {tried} times")
            raise error
        here = self._here()
        here.closing.wait(max(asked_s, self._retry.pause_s(tried)))
        if closed := here.closed_error(self._model):
            raise closed from error

    def _here(self) -> _Connected:
        """Return the connections of this process. A forked child shares no connection or lock."""
        found = self._by_process.get(os.getpid())
        return found or self._by_process.setdefault(os.getpid(), _Connected(self._model))


def _is_a_timeout(error: BaseException | None) -> bool:
    """Return whether a socket's timeout caused *error*, perhaps through errors in between."""
    while error is not None and not isinstance(error, TimeoutError):
        error = error.__cause__ or error.__context__
    return error is not None


class _Connected:
    """The connections, the meter and the locks of one process."""

    def __init__(self, model: str) -> None:
        self.meter, self.closing = Meter(), Flag()
        self._model, self._lock = model, Lock()
        self._client: OpenAI | None = None

    def client(self, connect: Callable[[], OpenAI]) -> OpenAI:
        """Return the client, which *connect* makes at the first call."""
        with self._lock:
            if closed := self.closed_error(self._model):
                raise closed
            if self._client is None:
                self._client = connect()
            return self._client

    def close(self) -> None:
        """Close the client, if it is open."""
        with self._lock:
            self.closing.set()
            if self._client is not None:
                self._client.close()

    def closed_error(self, model: str) -> ModelClosed | None:
        """Return the error of a call after `close`, or None before `close`."""
        if not self.closing.is_set():
            return None
        return ModelClosed(f"the client of model {model!r} was closed; make a new one")


def _sent(message: ModelMessage) -> dict[str, object]:
    """Return a message in the form of the protocol. With images, its content is a list of parts."""
    sent: dict[str, object] = {**message}
    if "urls" in message:
        del sent["urls"]
        text = message["content"]
        parts = [{"type": "text", "text": text}] if text else []
        images = [{"type": "image_url", "image_url": {"url": url}} for url in message["urls"]]
        sent["content"] = [*parts, *images]
    return sent


def _host(base_url: str) -> str:
    """Return the scheme, host and port of an address, all that errors may show of it.

    Raises:
        InvalidInput: *base_url* is not the address of a server.
    """
    try:
        parts = urlsplit(base_url if isinstance(base_url, str) else "")  # pyright: ignore[reportUnnecessaryIsInstance]  callers without types
        port = "" if parts.port is None else f":{parts.port}"
    except ValueError:
        parts, port = None, ""
    if parts is None or parts.scheme not in {"http", "https"} or not parts.hostname:
        raise InvalidInput(
            "base_url must be the http or https address of a server, such as "
            "'http://localhost:11434/v1'"
        )
    return f"{parts.scheme}://{parts.hostname}{port}"


def _dialect_of(client: OpenAI) -> Dialect:
    """Return the default dialect for the server of *client*: OpenAI, or another one."""
    is_openai = _host(str(client.base_url)) == _host(OPENAI)
    return Dialect(max_tokens="max_completion_tokens") if is_openai else Dialect()
