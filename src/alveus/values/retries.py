"""Retries: their number, their pauses, and the errors that cause them."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from alveus.errors import AlveusError, InvalidInput
from alveus.errors.short_repr import short_repr
from alveus.values.keywords import suggest_names_in
from alveus.values.lazy_dataclass import dataclass
from alveus.values.storable import checked_number, counted

MAX_PAUSE_S = 366.0 * 86_400
"""The longest accepted pause: a longer one is a mistake, and may exceed the system's limit."""

TRIES = 20
"""The most tries of a change while other writers change the same memory."""

T = TypeVar("T")


@suggest_names_in
@dataclass(frozen=True, slots=True)
class Retry:
    """Try again after an error, with growing and slightly random waits.

    Attributes:
        attempts: Tries in all, the first one included.
        wait_s: Seconds before the second try.
        factor: By what each wait is multiplied to get the next wait.
        most_s: The longest wait.
        jitter: The share, 0..1, by which a wait may randomly be shorter. So callers that failed
            together do not retry together.
        on: Errors that cause another try. All other errors are final.
    """

    attempts: int = 3
    wait_s: float = 0.5
    factor: float = 2.0
    most_s: float = 30.0
    jitter: float = 0.5
    on: tuple[type[Exception], ...] = (Exception,)

    def __post_init__(self) -> None:
        """Refuse values out of range."""
        counted(self.attempts, "attempts")
        checked_number(self.wait_s, "wait_s", least=0)
        checked_number(self.factor, "factor", least=1)
        checked_number(self.most_s, "most_s", least=0, most=MAX_PAUSE_S)
        checked_number(self.jitter, "jitter", least=0, most=1)
        kinds = self.on if isinstance(self.on, tuple) else (self.on,)  # pyright: ignore[reportUnnecessaryIsInstance] - user input
        for kind in kinds:
            if not (isinstance(kind, type) and issubclass(kind, BaseException)):  # pyright: ignore[reportUnnecessaryIsInstance] - user input
                raise InvalidInput(
                    f"on must be a tuple of classes of errors, not {short_repr(self.on)}"
                )
        object.__setattr__(self, "on", kinds)

    def should_retry(self, error: BaseException, attempt: int) -> bool:
        """Return whether to try again after attempt number *attempt* raised *error*."""
        return counted(attempt, "attempt") < self.attempts and isinstance(error, self.on)

    def pause_s(self, attempt: int) -> float:
        """Return how long to wait after attempt number *attempt*."""
        counted(attempt, "attempt")
        try:
            pause_s = min(self.wait_s * self.factor ** (attempt - 1), self.most_s)
        except OverflowError:
            pause_s = self.most_s
        return pause_s * (1 - self.jitter * random.random())  # noqa: S311 - no secret


ONCE = Retry(attempts=1)


def call_with_retries(
    change: Callable[[], T], *, on: type[AlveusError] | tuple[type[AlveusError], ...]
) -> T:
    """Return the result of *change*, which is called up to `TRIES` times while it raises *on*."""
    errors = on if isinstance(on, tuple) else (on,)
    for _ in range(TRIES - 1):
        with suppress(*errors):
            return change()
    return change()
