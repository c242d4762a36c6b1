"""What a server of the OpenAI protocol answers, read and checked: bodies, streams, refusals."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import cast

from alveus.errors import ModelAnswerInvalid, ModelFailed, ModelRefused, ModelUnavailable
from alveus.llm.chat import Usage
from alveus.values.lazy_dataclass import dataclass

BUSY = frozenset({408, 409, 425, 429})
"""Status of an answer that may be another one later; all from 500 on are, too."""

SERVER_ERROR = 500
"""The first status that is the server's fault."""

CODES = frozenset(
    {
        "content_filter",
        "context_length_exceeded",
        "insufficient_quota",
        "invalid_api_key",
        "invalid_request_error",
        "model_not_found",
        "overloaded_error",
        "rate_limit_exceeded",
        "server_error",
        "unsupported_parameter",
        "unsupported_value",
    }
)
"""What is repeated of a server's own words: codes that are known to be nothing else."""

_KIND = re.compile(r"\s*([\w.+-]{1,40}/[\w.+-]{1,40})", re.ASCII)

_HINTS = {
    401: "it refused the key; check OPENAI_API_KEY or api_key=, and that base_url= is its server",
    403: "the key may not do this; check the rights of OPENAI_API_KEY or api_key=",
    404: "it knows no such model or path; check model= and base_url= (most end in /v1)",
    413: "the request is too large; send less text",
}


@dataclass(frozen=True, slots=True)
class ServerReply:
    """What a server answered.

    Attributes:
        text: None: it has none.
        finish: Why it ended, in the protocol's words.
        refused: Whether the model said that it will not answer.
    """

    text: str | None
    finish: str
    refused: bool
    usage: Usage


def unusable(model: str, problem: str) -> ModelAnswerInvalid:
    """Return the error of an answer, which *problem* says the rest of a sentence about."""
    return ModelAnswerInvalid(model, f"its answer {problem}")


def read_body(model: str, body: bytes, kind: str) -> ServerReply:
    """Return the answer that a body holds; *kind* is its content type.

    Raises:
        ModelAnswerInvalid: It is not an answer of the protocol.
    """
    found = _object(model, body, kind)
    choices = found.get("choices")
    if not isinstance(choices, list) or not choices:
        raise unusable(model, "has no choices")
    choice = _mapping(cast("list[object]", choices)[0])
    message = _mapping(choice.get("message"))
    text = message.get("content")
    return ServerReply(
        text=text if isinstance(text, str) else None,
        finish=str(choice.get("finish_reason")),
        refused=bool(message.get("refusal")),
        usage=_usage(found),
    )


def text_of(model: str, reply: ServerReply, *, asked_json: bool) -> str:
    """Return the text of an answer.

    Raises:
        ModelRefused: The model, or a filter, refused to answer.
        ModelAnswerInvalid: There is no text, or JSON was asked for and cut off.
    """
    if reply.refused:
        raise ModelRefused(model, "it refused to answer; ask for something else")
    if reply.finish == "content_filter":
        raise ModelRefused(model, "a content filter stopped its answer; ask for something else")
    if not reply.text and reply.finish == "length":
        raise unusable(model, "ended at its limit of tokens before it said anything")
    if not reply.text:
        raise unusable(model, "has no text")
    if asked_json and reply.finish == "length":
        raise unusable(model, "was cut at its limit of tokens, so it is not whole JSON")
    return _encodable(model, reply.text)


class Streamed:
    """A streamed answer, as its lines come in."""

    def __init__(self, model: str, kind: str) -> None:
        self._model, self._kind = model, kind
        self._finish, self._refused, self._said = "", False, False
        self._tokens: Usage | None = None
        self.ended = False

    @property
    def usage(self) -> Usage:
        """What was used, as far as it was told."""
        if self._tokens is not None:
            return self._tokens
        return Usage(calls=1, uncounted=1) if self._said or self._finish else Usage()

    def piece(self, line: bytes) -> str:
        """Return what a line adds to the answer.

        Raises:
            ModelUnavailable: The server says that it failed.
            ModelAnswerInvalid: It is not a line of the protocol.
        """
        if not line.startswith(b"data:"):
            return ""
        data = line[5:].strip()
        if data == b"[DONE]":
            self.ended = True
            return ""
        found = _object(self._model, data, self._kind)
        if found.get("error"):
            told = f"it failed in the middle of its answer{_code(found)}"
            raise ModelUnavailable(self._model, told)
        if found.get("usage"):
            self._tokens = _usage(found)
        choices = found.get("choices")
        if not isinstance(choices, list) or not choices:
            return ""
        return self._choice(_mapping(cast("list[object]", choices)[0]))

    def _choice(self, choice: Mapping[str, object]) -> str:
        delta = _mapping(choice.get("delta"))
        self._finish = str(choice.get("finish_reason") or self._finish)
        self._refused = self._refused or bool(delta.get("refusal"))
        text = delta.get("content")
        if not isinstance(text, str) or not text:
            return ""
        self._said = True
        return _encodable(self._model, text)

    def check(self) -> None:
        """Raise unless the answer is whole.

        Raises:
            ModelUnavailable: It ended before it was whole.
            ModelRefused, ModelAnswerInvalid: As `text_of`.
        """
        if not self._finish and not self.ended:
            if not self._said and "event-stream" not in self._kind:
                raise unusable(self._model, f"is {_named(self._kind)}, not a stream")
            raise ModelUnavailable(self._model, "its answer was cut off in the middle")
        text = "said" if self._said else None
        whole = ServerReply(text, self._finish, refused=self._refused, usage=Usage())
        text_of(self._model, whole, asked_json=False)


def lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Return the lines that chunks are made of, without their ends."""
    rest = b""
    for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n")
        yield from (line.rstrip(b"\r") for line in whole)
    if rest:
        yield rest.rstrip(b"\r")


def status_failure(
    model: str, server: str, status: int, headers: Mapping[str, str], body: object
) -> ModelFailed:
    """Return the error of an answer that is not a success."""
    code = _code({"error": body})
    told = f"{server} answered with status {status}{code}"
    if "insufficient_quota" in code:
        return ModelRefused(model, f"{told}; its account has no quota left", status=status)
    if status in BUSY or status >= SERVER_ERROR:
        asked_s = asked_wait_s(headers, datetime.now(UTC))
        wait = "" if asked_s is None else f", and asks to be left alone for {asked_s:g} s"
        return ModelUnavailable(
            model, f"{told}{wait}; try again later", status=status, retry_after_s=asked_s
        )
    hint = _HINTS.get(status, "check the model, the options and, for JSON, the dialect")
    return ModelRefused(model, f"{told}: {hint}", status=status)


def asked_wait_s(headers: Mapping[str, str], now: datetime) -> float | None:
    """Return for how long a server asks to be left alone; None: it does not say.

    ``Retry-After`` is a number of seconds or a date (RFC 9110, 10.2.3); ``retry-after-ms`` is
    OpenAI's own, finer one.
    """
    for header, unit_s in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            asked_s = float(headers.get(header, "")) * unit_s
        except ValueError:
            continue
        if not math.isnan(asked_s):
            return max(asked_s, 0.0)
    try:
        until = parsedate_to_datetime(headers.get("retry-after", ""))
    except (ValueError, OverflowError):  # the second of numbers that no date has
        return None
    aware = until if until.tzinfo is not None else until.replace(tzinfo=UTC)
    return max((aware - now).total_seconds(), 0.0)


def _object(model: str, data: bytes, kind: str) -> Mapping[str, object]:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:  # UnicodeDecodeError is one, too
        named = f"is {_named(kind)}" if "json" not in kind and "event-stream" not in kind else ""
        raise unusable(model, f"{named or 'is broken'}, not JSON") from error
    if not isinstance(found, dict):
        raise unusable(model, "is JSON, but not an object")
    return cast("dict[str, object]", found)


def _named(kind: str) -> str:
    found = _KIND.match(kind)
    return found[1] if found else "of no known type"


def _mapping(value: object) -> Mapping[str, object]:
    return cast("dict[str, object]", value) if isinstance(value, dict) else {}


def _usage(found: Mapping[str, object]) -> Usage:
    told = _mapping(found.get("usage"))
    prompt, completion = told.get("prompt_tokens"), told.get("completion_tokens")
    if type(prompt) is int and type(completion) is int and prompt >= 0 and completion >= 0:
        return Usage(1, prompt, completion)
    return Usage(calls=1, uncounted=1)


def _code(found: Mapping[str, object]) -> str:
    """Return a code that a server gives, if it is a known one, in parentheses."""
    error = _mapping(found.get("error"))
    inner = _mapping(error.get("error")) or error
    given = (inner.get(name) for name in ("code", "type"))
    code = next((code for code in given if isinstance(code, str) and code in CODES), None)
    return "" if code is None else f" ({code})"


def _encodable(model: str, text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise unusable(model, "has a lone surrogate, which is not text") from None
    return text
