"""Answers of servers of the OpenAI protocol, read and checked: bodies, streams, refusals."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import cast

from alveus.errors import ModelAnswerInvalid, ModelFailed, ModelRefused, ModelUnavailable
from alveus.llm.answer_reader import AnswerReader, Unfit, answer_text, is_thought, read_json_alone
from alveus.llm.chat import Usage
from alveus.values.http_json import (
    NO_QUOTA,
    ServerFailure,
    asked_wait_s,
    failure_of,
    reported_failure,
)
from alveus.values.lazy import words_of
from alveus.values.lazy_dataclass import dataclass
from alveus.values.storable import as_dict, as_list

_KIND = re.compile(r"\s*([\w.+-]{1,40}/[\w.+-]{1,40})", re.ASCII)

_HINTS = {
    401: "it refused the key; check OPENAI_API_KEY or api_key=, and that base_url= is its server",
    403: "the key may not do this; check the rights of OPENAI_API_KEY or api_key=",
    404: "it knows no such model or path; check model= and base_url= (most end in /v1)",
    413: "the request is too large; send less text",
}


_FILTERED = frozenset(words_of(__file__)["filtered"])
"""Finish reasons of an answer that a filter stopped, in lower case."""

_FAILED = re.compile(
    "abort|cancel|error|exhausted|fail|insufficient_system|interrupt|load|rate_?limit"
    "|timed?_?out|unavailable"
)
"""Matches finish reasons, in lower case, of an answer that the server could not continue.

The reasons are those of OpenRouter, vLLM, SGLang, DeepSeek, Ollama, LM Studio, Zhipu, Cohere and
OpenAI's Responses. New reasons have the same words.
"""

_THOUGHTS = ("reasoning_content", "reasoning", "thinking")
"""Fields of a message for the model's thoughts, if a server knows its marks."""

_TEXT_PARTS = (None, "text", "output_text")
"""Types of the parts of a content that are the answer. Others are thoughts, calls or images."""


@dataclass(frozen=True, slots=True)
class ServerReply:
    """The answer of a server.

    Attributes:
        text: The text of the answer, or None.
        finish: The finish reason of the protocol, or "" if it is unknown.
        refused: Whether the model refused to answer.
        structured: Other JSON that may be the answer: the arguments of the only tool call, or
            thoughts that are JSON.
    """

    text: str | None
    finish: str
    refused: bool
    usage: Usage
    structured: str | None = None


def unusable(model: str, problem: str) -> ModelAnswerInvalid:
    """Return the error for an unusable answer. *problem* completes the text "its answer …"."""
    return ModelAnswerInvalid(model, f"its answer {problem}")


def read_body(model: str, body: bytes, headers: Mapping[str, str]) -> ServerReply:
    """Return the answer in a body of status 200.

    Raises:
        ModelUnavailable: The body is no answer: a report of a temporary failure, a page of a
            proxy, an empty or broken body, or a body without choices.
        ModelRefused: The body reports a permanent failure.
    """
    found = _object(model, body, headers)
    choice = _first_choice(found)
    message = choice.get("message")
    check_report(model, found, choice, headers, is_answer=isinstance(message, dict))
    if not isinstance(message, dict):
        _check_filters(model, found)
        raise ModelUnavailable(model, "the answer of its server has no choices; try again later")
    answered = cast("dict[str, object]", message)
    reply = ServerReply(
        text=content_text(answered.get("content")),
        finish=_finish(choice),
        refused=bool(answered.get("refusal")) or _has_refusal(answered.get("content")),
        usage=_usage(found),
        structured=_structured(answered),
    )
    says = reply.text or reply.structured or reply.refused or reply.finish
    if _has_failed(reply.finish) or not says:
        raise _cut_off(model, reply.finish)
    return reply


def text_of(model: str, reply: ServerReply, *, asked_json: bool) -> str:
    """Return the text of an answer, without thoughts.

    Raises:
        ModelRefused: The model, or a filter, refused to answer.
        ModelAnswerInvalid: The answer has no text, or its JSON was cut off.
    """
    if reply.refused:
        raise ModelRefused(model, "it refused to answer; ask for something else")
    if reply.finish in _FILTERED:
        raise ModelRefused(model, "a content filter stopped its answer; ask for something else")
    given = reply.text or ""
    if asked_json and not given.strip():
        given = reply.structured or ""
    text = answer_text(given)
    if not text.strip() and reply.finish == "length":
        raise unusable(model, "reached its limit of tokens without a text")
    if not text.strip():
        raise unusable(model, "has only thoughts and no text" if given.strip() else "has no text")
    if asked_json and reply.finish == "length":
        raise unusable(model, "was cut at its limit of tokens, so its JSON is incomplete")
    return _encodable(model, text)


def content_text(content: object) -> str | None:
    """Return the text of a content, which may be a list of parts, or None if it has no text."""
    if isinstance(content, list):
        texts = [_part_text(part) for part in as_list(cast("object", content))]
        return "".join(text for text in texts if text is not None) or None
    if isinstance(content, dict):  # JSON that the server has read already
        return json.dumps(content, ensure_ascii=False)
    return content if isinstance(content, str) else None


def _part_text(part: object) -> str | None:
    if isinstance(part, str):
        return part
    found = as_dict(part)
    if found.get("type") not in _TEXT_PARTS or is_thought(found):
        return None
    text = found.get("text")
    text = as_dict(text).get("value", text)
    return text if isinstance(text, str) else None


def _has_refusal(content: object) -> bool:
    return any(as_dict(part).get("refusal") for part in as_list(content))


def _structured(message: Mapping[str, object]) -> str | None:
    """Return JSON that may be the answer of a message without a text; see `ServerReply`.

    Return None if there is none.
    """
    calls = as_list(message.get("tool_calls"))
    functions = [as_dict(as_dict(call).get("function")) for call in calls]
    functions = functions or [as_dict(message.get("function_call"))]
    if functions[0]:
        given = functions[0].get("arguments") if len(functions) == 1 else None
        return content_text(given)
    for name in _THOUGHTS:
        thoughts = message.get(name)
        try:
            if isinstance(read_json_alone(thoughts), dict):
                return cast("str", thoughts)
        except Unfit:
            continue
    return None


def check_report(
    model: str,
    found: Mapping[str, object],
    choice: Mapping[str, object],
    headers: Mapping[str, str],
    *,
    is_answer: bool,
) -> None:
    """Raise if a body of status 200, its choice or its message reports a failure.

    Raises:
        ModelUnavailable: The failure may be temporary.
        ModelRefused: The failure is permanent.
    """
    failure = reported_failure(found, is_answer=is_answer)
    for part in (choice, choice.get("message"), choice.get("delta")):
        failure = failure or reported_failure(as_dict(part), is_answer=True)
    if failure is not None:
        raise _failed(
            model, "its server reports a failure in an answer of status 200", failure, headers
        )


def _check_filters(model: str, found: Mapping[str, object]) -> None:
    """Raise `ModelRefused` if a body without choices reports a content filter.

    Azure and Google send such bodies.
    """
    results = found.get("prompt_filter_results")
    text = json.dumps(results) if results else ""
    blocked = as_dict(found.get("promptFeedback")).get("blockReason")
    if '"filtered": true' in text or blocked:
        raise ModelRefused(model, "a content filter stopped the request; ask for something else")


def _cut_off(model: str, finish: str) -> ModelUnavailable:
    is_a_name = _has_failed(finish) and re.fullmatch("[a-z_]{1,40}", finish)
    why = f" ({finish})" if is_a_name else ""
    return ModelUnavailable(
        model, f"its server could not continue its answer{why}; try again later"
    )


class Streamed:
    """Reads a streamed answer line by line."""

    def __init__(self, model: str, headers: Mapping[str, str]) -> None:
        self._model, self._headers = model, headers
        self._reader = AnswerReader()
        self._finish, self._refused, self._said = "", False, False
        self._has_answered = False
        self._tokens: Usage | None = None
        self._plain = bytearray()
        self.ended = False

    @property
    def usage(self) -> Usage:
        """The usage that the server reported so far."""
        if self._tokens is not None:
            return self._tokens
        return Usage(calls=1, uncounted=1) if self._said or self._finish else Usage()

    def piece(self, line: bytes) -> str:
        """Read a line of the stream. Return the text that it adds to the answer.

        Raises:
            ModelUnavailable: The server reports that it failed, or the line is not JSON.
            ModelRefused: The server reports a permanent failure.
        """
        name, _, data = line.partition(b":")
        data = data.strip()
        if name not in (b"data", b"error") or not data:
            self._plain += line + b"\n" if line[:1] not in b":" else b""
            return ""
        if data == b"[DONE]":
            self.ended = True
            return ""
        found = _object(self._model, data, self._headers)
        choice = _first_choice(found)
        is_answer = "choices" in found or not ("message" in found or "detail" in found)
        found = {"error": found} if name == b"error" else found
        check_report(self._model, found, choice, self._headers, is_answer=is_answer)
        if found.get("usage"):
            self._tokens = _usage(found)
        return self._choice(choice)

    def _choice(self, choice: Mapping[str, object]) -> str:
        delta = as_dict(choice.get("delta"))
        self._finish = _finish(choice) or self._finish
        if _has_failed(self._finish):
            raise _cut_off(self._model, self._finish)
        content = delta.get("content")
        self._refused = self._refused or bool(delta.get("refusal")) or _has_refusal(content)
        text = content_text(content)
        if not text:
            return ""
        self._said = True
        return self._noted(self._reader.feed(_encodable(self._model, text)))

    def _noted(self, text: str) -> str:
        """Return *text*, and record whether the answer has text so far.

        Text before the end mark of thoughts is no answer.
        """
        answer = text[len(self._reader.took_back) :]
        self._has_answered = bool(answer.strip()) or (
            self._has_answered and not self._reader.took_back
        )
        self._reader.took_back = ""
        return text

    def end(self) -> str:
        """Return the rest of the answer after the last line.

        Raises:
            ModelUnavailable: The stream ended before the answer was complete.
            ModelRefused, ModelAnswerInvalid: As for `text_of`.
        """
        if not self._finish and not self.ended:
            if not self._said and "event-stream" not in _kind(self._headers):
                return self._whole()
            raise ModelUnavailable(self._model, "its answer was cut off in the middle")
        if not (self._said or self._finish or self._refused):
            raise ModelUnavailable(
                self._model, "the stream of its server has no choices; try again later"
            )
        rest = self._noted(self._reader.end())
        text = "said" if self._has_answered else "<think>" if self._said else None
        whole = ServerReply(text, self._finish, refused=self._refused, usage=Usage())
        text_of(self._model, whole, asked_json=False)
        return rest

    def _whole(self) -> str:
        """Return the answer of a server that sent a whole body instead of a stream."""
        reply = read_body(self._model, bytes(self._plain), self._headers)
        self._tokens = reply.usage
        return text_of(self._model, reply, asked_json=False)


def lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the lines in *chunks*, without the characters that end them."""
    rest = b""
    for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n")
        yield from (line.rstrip(b"\r") for line in whole)
    if rest:
        yield rest.rstrip(b"\r")


def status_failure(
    model: str, server: str, status: int, headers: Mapping[str, str], body: object
) -> ModelFailed:
    """Return the error for an answer whose status is not a success."""
    failure = replace(failure_of(body), status=status)
    return _failed(model, f"{server} answered with status {status}", failure, headers)


def _failed(
    model: str, problem: str, failure: ServerFailure, headers: Mapping[str, str]
) -> ModelFailed:
    """Return `ModelUnavailable` for a failure that may be temporary, else `ModelRefused`."""
    status = failure.status
    says = f" {status}" if status is not None and f"status {status}" not in problem else ""
    code = f" ({failure.code})" if failure.code else ""
    problem = f"{problem}{f':{says}' if says else ''}{code}"
    if failure.code in NO_QUOTA:
        return ModelRefused(model, f"{problem}; its account has no quota left", status=status)
    if failure.may_pass:
        asked_s = asked_wait_s(headers, datetime.now(UTC))
        asked_s = failure.retry_after_s if asked_s is None else asked_s
        wait = "" if asked_s is None else f", and asks to be left alone for {asked_s:g} s"
        problem = f"{problem}{wait}; try again later"
        return ModelUnavailable(model, problem, status=status, retry_after_s=asked_s)
    hint = "check the model, the options and, for JSON, the dialect"
    return ModelRefused(model, f"{problem}: {_HINTS.get(status or 0, hint)}", status=status)


def _object(model: str, data: bytes, headers: Mapping[str, str]) -> Mapping[str, object]:
    """Return the object of JSON that a server sent.

    Raises:
        ModelUnavailable: *data* is no object of JSON, but perhaps the page of a proxy.
    """
    kind = _kind(headers)
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:  # UnicodeDecodeError is one, too
        is_named = "json" not in kind and "event-stream" not in kind
        named = _named(kind) if is_named else "broken" if data.strip() else "empty"
        problem = f"its server sent a body that is {named}, not JSON"
        problem = f"{problem}; try again later, and check base_url= if it stays so"
        raise ModelUnavailable(model, problem) from error
    if isinstance(found, list) and len(cast("list[object]", found)) == 1:  # Google's failures
        found = cast("list[object]", found)[0]
    if not isinstance(found, dict):
        raise ModelUnavailable(model, "its server sent JSON that is not an object")
    return cast("dict[str, object]", found)


def _kind(headers: Mapping[str, str]) -> str:
    return headers.get("content-type", "")


def _first_choice(found: Mapping[str, object]) -> Mapping[str, object]:
    choices = as_list(found.get("choices"))
    return as_dict(choices[0]) if choices else {}


def _finish(choice: Mapping[str, object]) -> str:
    """Return the finish reason of an answer, in lower case, or "" if it is unknown."""
    given = choice.get("finish_reason")
    given = as_dict(given).get("type", given)  # SGLang's
    return given.lower() if isinstance(given, str) and given != "null" else ""


def _has_failed(finish: str) -> bool:
    """Return whether an answer ended because the server could not continue it."""
    return finish not in _FILTERED and _FAILED.search(finish) is not None


def _named(kind: str) -> str:
    found = _KIND.match(kind)
    return found[1] if found else "of no known type"


def _usage(found: Mapping[str, object]) -> Usage:
    counts = as_dict(found.get("usage"))
    prompt, completion = counts.get("prompt_tokens"), counts.get("completion_tokens")
    if type(prompt) is int and type(completion) is int and prompt >= 0 and completion >= 0:
        return Usage(1, prompt, completion)
    return Usage(calls=1, uncounted=1)


def _encodable(model: str, text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise unusable(model, "contains a lone surrogate, which is not valid text") from None
    return text
