"""JSON from a model: asked for, read with suspicion, and asked for again with the reason."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn, TypeVar

from alveus.errors import AlveusError, ModelAnswerInvalid, ModelFailed
from alveus.llm.chat import ChatModel, Messages, ModelMessage, checked_messages
from alveus.values.lazy_dataclass import dataclass

LONGEST_ANSWER = 1_000_000
"""Characters; a longer answer is not read."""

T = TypeVar("T")

_THOUGHTS = re.compile(r"\A\s*<think>.*?</think>", re.DOTALL)
_FENCED = re.compile(r"\A```[a-zA-Z]*\s*\n(.*)\n\s*```\Z", re.DOTALL)


class Unfit(ValueError):
    """What a check raises: the reason, in words that the model is told and can act on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """How a model is asked for JSON.

    Attributes:
        attempts: How often in all, if its answers cannot be used.
        temperature, max_tokens: As in `ChatModel.complete`.
    """

    attempts: int = 3
    temperature: float | None = None
    max_tokens: int | None = None


def ask_json(
    chat: ChatModel,
    messages: Messages,
    *,
    json_schema: Mapping[str, object],
    check: Callable[[object], T],
    asking: Asking,
) -> T:
    """Return what *check* makes of the model's JSON.

    After an answer that cannot be used the model is asked again, and told why; the answer itself
    is not shown to it again.

    Args:
        check: Returns what the caller wants, or raises `Unfit`.

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
                told = f"{problem} (asked {attempt} times)"
                raise ModelAnswerInvalid(chat.name, told) from error
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


def read_json(answer: object) -> object:
    """Return the JSON that *answer* is, without the fence or the thoughts some models put around.

    Raises:
        Unfit: It is no JSON, has a name twice, NaN or infinity, or is nested too deeply or long.
    """
    if not isinstance(answer, str):
        raise Unfit(f"it is {type(answer).__name__}, not a text")
    if len(answer) > LONGEST_ANSWER:
        raise Unfit(f"it has more than {LONGEST_ANSWER:,} characters")
    bare = _THOUGHTS.sub("", answer).strip()
    if fenced := _FENCED.match(bare):
        bare = fenced[1]
    try:
        return json.loads(bare, object_pairs_hook=_once, parse_constant=_no_number)
    except json.JSONDecodeError as error:
        raise Unfit(f"it is not JSON ({error.msg} at character {error.pos})") from error
    except RecursionError as error:
        raise Unfit("it is nested too deeply") from error
    except Unfit:
        raise
    except ValueError as error:
        raise Unfit("it has a number with too many digits") from error


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise Unfit("an object in it has the same name twice")
    return found


def _no_number(constant: str) -> NoReturn:
    raise Unfit(f"{constant} is not JSON")
