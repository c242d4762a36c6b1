"""A language model for tests: it gives scripted answers and records its requests."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias, Unpack

from alveus.errors import InvalidInput, ScriptEnded
from alveus.errors.short_repr import short_repr
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
)
from alveus.values.forks import FreshLock
from alveus.values.keywords import suggest_names

Answer: TypeAlias = str | BaseException
"""An answer of `ScriptedChat`, or an error that it raises."""


class ScriptedChat(ChatModel):
    """A `ChatModel` without a model. It gives the same answers to the same calls everywhere.

    Words between spaces count as tokens, and each image counts as one token.

    Args:
        answers: The answers, one per call, in order; or a function that returns the answer to the
            messages of a call. An answer that is an exception is raised.
        name: The name of the model.
        takes_images: Whether the model gets images in the `urls` of messages. If not, the urls are
            text of the messages.
    """

    @suggest_names
    def __init__(
        self,
        answers: Sequence[Answer] | Callable[[tuple[ModelMessage, ...]], Answer],
        *,
        name: str = "scripted",
        takes_images: bool = False,
    ) -> None:
        if isinstance(answers, str):
            raise InvalidInput("answers must be a list of answers or a function, not a str")
        if not (callable(answers) or isinstance(answers, Iterable)):  # pyright: ignore[reportUnnecessaryIsInstance] - user input
            raise InvalidInput(
                f"answers must be a list of answers or a function, not {short_repr(answers)}"
            )
        self._answers = answers if callable(answers) else tuple(answers)
        self._name, self._meter, self._takes_images = name, Meter(), takes_images
        self._lock, self._requests = FreshLock(), list[ChatRequest]()

    def __repr__(self) -> str:
        return f"ScriptedChat(name={self._name!r}, requests={len(self._requests)})"

    @property
    def name(self) -> str:
        """The name of the model."""
        return self._name

    @property
    def usage(self) -> Usage:
        """The usage of all answers so far. Raised exceptions do not count."""
        return self._meter.usage

    @property
    def takes_images(self) -> bool:
        """Whether the model gets images."""
        return self._takes_images

    @property
    def requests(self) -> tuple[ChatRequest, ...]:
        """All requests in order, including those that raised."""
        return tuple(self._requests)

    def complete(self, messages: Messages, **options: Unpack[ChatOptions]) -> str:
        """Return the next answer.

        Raises:
            InvalidInput: A message or an option cannot be used. The request is not recorded.
            ScriptEnded: No answer is left.
        """
        request = checked_request(messages, images=self._takes_images, **options)
        answer = self._next(request)
        if isinstance(answer, BaseException):
            raise answer
        if not isinstance(answer, str):  # pyright: ignore[reportUnnecessaryIsInstance]  callers without types
            kind = type(answer).__name__
            raise InvalidInput(f"an answer of ScriptedChat must be a str or an error, not {kind}")
        words = sum(
            len(message["content"].split()) + len(message.get("urls", ()))
            for message in request.messages
        )
        self._meter.add(Usage(1, words, len(answer.split())))
        return answer

    def stream(self, messages: Messages, **options: Unpack[StreamOptions]) -> Iterator[str]:
        """Return the next answer word by word."""
        words = self.complete(messages, **options).split(" ")
        pieces = [*(f"{word} " for word in words[:-1]), words[-1]]
        return (piece for piece in pieces if piece)

    def _next(self, request: ChatRequest) -> Answer:
        with self._lock:
            self._requests.append(request)
            at = len(self._requests) - 1
        if callable(self._answers):
            return self._answers(request.messages)
        if at >= len(self._answers):
            raise ScriptEnded(self._name, answers=len(self._answers))
        return self._answers[at]
