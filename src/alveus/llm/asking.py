"""Requests to a model: for a text, for its pieces, or for checked JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar, Unpack

from alveus.errors import AlveusError, ModelAnswerInvalid, ModelFailed
from alveus.llm.answer_reader import AnswerReader, Unfit, answer_text, read_json
from alveus.llm.chat import (
    ChatModel,
    ChatOptions,
    Messages,
    ModelMessage,
    StreamOptions,
    checked_messages,
)
from alveus.values.lazy_dataclass import dataclass

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """The options of a request for JSON.

    Attributes:
        attempts: Most requests until an answer can be used.
        temperature, max_tokens: As in `ChatModel.complete`.
    """

    attempts: int = 3
    temperature: float | None = None
    max_tokens: int | None = None


def object_schema(properties: Mapping[str, object]) -> dict[str, object]:
    """Return the JSON schema of an object with all of these properties, and no others."""
    return {
        "type": "object",
        "properties": properties,
        "required": [*properties],
        "additionalProperties": False,
    }


def list_schema(properties: Mapping[str, object]) -> dict[str, object]:
    """Return the JSON schema of a list of objects; see `object_schema`."""
    return {"type": "array", "items": object_schema(properties)}


def request_about(instructions: str, data: object, indent: int | None = None) -> list[ModelMessage]:
    """Return the messages of a request: instructions, and the data as JSON from the user."""
    text = json.dumps(data, ensure_ascii=False, indent=indent)
    return [
        ModelMessage(role="system", content=instructions),
        ModelMessage(role="user", content=text),
    ]


def ask_text(chat: ChatModel, messages: Messages, **options: Unpack[ChatOptions]) -> str:
    """Return the model's answer, without thoughts and marks of its template.

    Raises:
        ModelAnswerInvalid: The answer has thoughts and nothing else.
        ModelFailed: The model could not be asked.
    """
    return said_by(chat.name, chat.complete(messages, **options))


def stream_text(
    chat: ChatModel, messages: Messages, **options: Unpack[StreamOptions]
) -> Iterator[str]:
    """Yield the pieces of the model's answer, without thoughts; see `AnswerReader`.

    Raises:
        ModelFailed: The model could not be asked.
    """
    reader = AnswerReader()
    yield from filter(None, map(reader.feed, chat.stream(messages, **options)))
    if rest := reader.end():
        yield rest


def said_by(model: str, answer: str) -> str:
    """Return `answer_text` of *answer*. *model* is the name of the model that gave it.

    Raises:
        ModelAnswerInvalid: The answer has thoughts and nothing else.
    """
    text = answer_text(answer)
    if answer.strip() and not text.strip():
        raise ModelAnswerInvalid(model, "its answer has only thoughts and no text")
    return text


def ask_json(
    chat: ChatModel,
    messages: Messages,
    *,
    json_schema: Mapping[str, object],
    check: Callable[[object], T],
    asking: Asking,
) -> T:
    """Ask a model for JSON, and return the result of *check* for it.

    After an answer that cannot be used, the model is asked again and given the reason, but not the
    answer.

    Args:
        check: Returns the result for the value of the JSON, or raises `Unfit`.

    Raises:
        ModelAnswerInvalid: No answer could be used; the message has the last reason.
        ModelFailed: The model could not be asked.
    """
    asked = checked_messages(messages, images=chat.takes_images)
    said: Sequence[ModelMessage] = asked
    for attempt in range(1, asking.attempts + 1):
        try:
            return check(read_json(_asked(chat, said, json_schema, asking)))
        except (Unfit, ModelAnswerInvalid) as error:
            problem = error.problem if isinstance(error, ModelAnswerInvalid) else str(error)
            if attempt == asking.attempts:
                reason = f"{problem} (asked {attempt} times)"
                raise ModelAnswerInvalid(chat.name, reason) from error
            again = (
                f"Your answer could not be used: {problem}. Answer again, with nothing but JSON "
                "as described above."
            )
            said = [*asked, ModelMessage(role="user", content=again)]
    raise AssertionError("a model is asked at least once")


def _asked(
    chat: ChatModel, messages: Messages, json_schema: Mapping[str, object], asking: Asking
) -> object:
    try:
        return chat.complete(
            messages,
            json_schema=json_schema,
            temperature=asking.temperature,
            max_tokens=asking.max_tokens,
        )
    except AlveusError:
        raise
    except Exception as error:  # the edge to other people's code; the cause is kept
        raise ModelFailed(chat.name, f"it raised {type(error).__name__}") from error
