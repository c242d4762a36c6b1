"""Budgets for the tokens of prompts, and the parts of a conversation that stay together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Self, TypeAlias

from alveus.errors import AlveusError, BudgetTooSmall, InvalidInput
from alveus.errors.short_repr import short_repr
from alveus.text import tokens as word_pieces
from alveus.text.messages import Message
from alveus.values.keywords import suggest_names_in
from alveus.values.lazy_dataclass import dataclass
from alveus.values.storable import checked_function, checked_kind, counted

TokenCounter: TypeAlias = Callable[[str], int]
"""A function that counts the tokens of a text. Pass your model's counter if its limit is strict."""

MESSAGE_TOKENS = 4
"""Tokens that a message has besides its text: its role and its bounds.

Source: OpenAI's cookbook counts 3, and 1 for a name.
"""

MOST_TOKENS = 1 << 53
"""Most tokens of a budget: floats, which compute its shares, have no larger exact integers."""


@suggest_names_in
@dataclass(frozen=True, slots=True)
class Budget:
    """The most tokens of a prompt, and the function that counts them.

    Attributes:
        tokens: Most tokens of the prompt; None if there is no limit.
        counter: Counts the tokens of a text. By default the bundled tokenizer.
        message_tokens: Tokens that each message has besides its text.
    """

    tokens: int | None = None
    counter: TokenCounter = word_pieces
    message_tokens: int = MESSAGE_TOKENS

    def __post_init__(self) -> None:
        if self.tokens is not None:
            counted(self.tokens, "budget_tokens", most=MOST_TOKENS)
        counted(self.message_tokens, "message_tokens", least=0)
        checked_function(self.counter, "a token counter must be a function of a text")

    def size(self, messages: Sequence[Message]) -> int:
        """Return how many tokens messages have, with the `message_tokens` of each.

        Raises:
            InvalidInput: The counter did not return a number of tokens.
        """
        for message in checked_kind(messages, Sequence, "messages must be a list of Message"):
            checked_kind(message, Message, "messages must be a list of Message")
        return sum(self.count(message.content) + self.message_tokens for message in messages)

    def count(self, text: str) -> int:
        """Return how many tokens a text alone has, without `message_tokens`.

        Raises:
            InvalidInput: The counter raised, or did not return a number of tokens.
        """
        checked_kind(text, str, "tokens can be counted only in a text")
        try:
            found = self.counter(text)
        except AlveusError:
            raise
        except Exception as error:  # the edge to other people's code; the cause is kept
            counter = getattr(self.counter, "__wrapped__", self.counter)  # without its cache
            name = getattr(counter, "__qualname__", type(counter).__name__)
            raise InvalidInput(f"the token counter {name} raised {short_repr(error)}") from error
        if not isinstance(found, int) or isinstance(found, bool) or found < 0:  # pyright: ignore[reportUnnecessaryIsInstance] - of the user
            raise InvalidInput(
                f"a token counter must return a whole number of 0 or more, not {short_repr(found)}"
            )
        return found

    def counts_as(self, other: Budget) -> bool:
        """Return whether another budget counts in the same way. Its limit may differ."""
        checked_kind(other, Budget, "a Budget can be compared only with a Budget")
        return (self.counter, self.message_tokens) == (other.counter, other.message_tokens)

    def remaining(self, fixed: Sequence[Message]) -> int | None:
        """Return how many tokens the *fixed* messages leave, or None if there is no limit.

        Raises:
            BudgetTooSmall: The fixed messages alone have more tokens than the budget.
        """
        if self.tokens is None:
            return None
        size = self.size(fixed)
        if size > self.tokens:
            raise BudgetTooSmall(self.tokens, size)
        return self.tokens - size

    def remembering(self) -> Self:
        """Return the same budget with a cache of counted texts, for work on a single prompt."""
        return replace(self, counter=cache(self.counter))

    @classmethod
    def of(cls, given: int | Budget | None) -> Budget:
        """Return a budget unchanged, and a number of tokens, or None, as a budget.

        That budget counts with the bundled tokenizer.
        """
        return given if isinstance(given, Budget) else cls(given)


@dataclass(frozen=True, slots=True)
class Unit:
    """Parts of a conversation that are shown, counted and removed together.

    Attributes:
        positions: The indexes of the parts in the list of all parts, in order.
        lacks: Ids of tool calls that the unit answers but that no earlier part asked for. If there
            are any, the unit is not shown.
    """

    positions: tuple[int, ...]
    lacks: tuple[str, ...] = ()


def units(parts: Sequence[Sequence[Message]]) -> list[Unit]:
    """Return the units of a conversation: each part alone, or with the parts that answer it.

    A part, such as a query with its reply, is never split. A part that answers a tool call is in
    the unit of the call. If several calls have the same id, an answer belongs to the last call
    before it. The units are in the order of their first parts.
    """
    leads = list(range(len(parts)))
    lacks: dict[int, list[str]] = {}
    asked: dict[str, int] = {}
    for at, part in enumerate(parts):
        for message in part:
            for call in message.answers:
                if call not in asked:
                    lacks.setdefault(at, []).append(call)
                    continue
                one, other = _lead(leads, asked[call]), _lead(leads, at)
                leads[max(one, other)] = min(one, other)
            asked.update(dict.fromkeys(message.calls, at))
    found: dict[int, list[int]] = {}
    for at in range(len(parts)):
        found.setdefault(_lead(leads, at), []).append(at)
    return [
        Unit(tuple(found_at), tuple(call for at in found_at for call in lacks.get(at, ())))
        for found_at in found.values()
    ]


def _lead(leads: list[int], at: int) -> int:
    while leads[at] != at:
        leads[at] = at = leads[leads[at]]
    return at
