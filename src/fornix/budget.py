"""Budgets of tokens: what goes into a prompt that may have so many tokens, and what does not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from fornix.errors import BudgetTooSmall, InvalidInput
from fornix.messages import Message
from fornix.summarise import tokens as word_pieces
from fornix.values import counted

TokenCounter: TypeAlias = Callable[[str], int]
"""Returns how many tokens a text has. Pass the one of your model where its limit is sharp."""

MESSAGE_TOKENS = 4
"""Tokens that a message has besides its text: its role and its bounds.

Source: OpenAI's cookbook counts 3, and 1 for a name.
"""


@dataclass(frozen=True, slots=True)
class Budget:
    """How many tokens a prompt may have, and who counts them.

    Attributes:
        tokens: The most; None: any number.
        counter: What counts; the bundled tokenizer, unless another is given.
        message_tokens: What a message has besides its text.
    """

    tokens: int | None = None
    counter: TokenCounter = word_pieces
    message_tokens: int = MESSAGE_TOKENS

    def __post_init__(self) -> None:
        if self.tokens is not None:
            counted(self.tokens, "budget_tokens")
        counted(self.message_tokens, "message_tokens", least=0)
        if not callable(self.counter):  # pyright: ignore[reportUnnecessaryComparison] - user input
            raise InvalidInput(f"a token counter is a function of a text, not {self.counter!r}")

    def size(self, messages: Sequence[Message]) -> int:
        """Return how many tokens messages have.

        Raises:
            InvalidInput: The counter did not return a number of tokens.
        """
        return sum(self.count(message.content) + self.message_tokens for message in messages)

    def count(self, text: str) -> int:
        """Return how many tokens a text has, without what a message adds.

        Raises:
            InvalidInput: The counter did not return a number of tokens.
        """
        found = self.counter(text)
        if not isinstance(found, int) or isinstance(found, bool) or found < 0:  # pyright: ignore[reportUnnecessaryIsInstance] - the user's own
            raise InvalidInput(f"a token counter returned {found!r}, which is no count of tokens")
        return found

    def left(self, fixed: Sequence[Message]) -> int | None:
        """Return what is left beside messages that are always there; None: any number.

        Raises:
            BudgetTooSmall: They alone are more.
        """
        if self.tokens is None:
            return None
        size = self.size(fixed)
        if size > self.tokens:
            raise BudgetTooSmall(self.tokens, size)
        return self.tokens - size

    @classmethod
    def of(cls, given: int | Budget | None) -> Budget:
        """Return a budget as it is, and a number of tokens as a budget of the bundled counter."""
        return given if isinstance(given, Budget) else cls(given)
