"""Chooses the messages to summarize, and makes the rolling summary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from itertools import accumulate
from typing import Any, Self, cast

from alveus.conversation.message_items import blocks_of, line_of, model_message, with_blocks
from alveus.errors import AlveusError, InvalidInput, ModelFailed
from alveus.errors.short_repr import short_repr
from alveus.llm import ChatModel
from alveus.store import StoredItem
from alveus.text import ExtractiveSummariser, ModelSummariser, Summariser, Summary, tokens
from alveus.text.budget import Budget, Unit, units
from alveus.text.messages import Message
from alveus.text.summary import LEAST_TOKENS
from alveus.values.lazy_dataclass import dataclass
from alveus.values.storable import counted

MAX_TOKENS = 512
"""Default limit of tokens of a summary."""

KEEP_RECENT = 3
"""Default number of last units to keep. A unit is a message, or a tool call with its answers."""

MOST_AT_ONCE = 1_000
"""Most messages that one commit summarizes. A longer conversation takes several commits."""


@dataclass(frozen=True, slots=True)
class Compressed:
    """The result of a compression.

    Attributes:
        messages: The number of newly summarized messages.
        summary: The current summary; "" if there is none.
        by: The maker of the summary: ``extractive``, or ``model:`` and the name of the model; "" if
            nothing was done.
        because: The reason why the model did not make the summary; otherwise "".
        tokens: Tokens of the new prompt: the summary, and the messages after it.
    """

    messages: int
    summary: str
    by: str = ""
    because: str = ""
    tokens: int = 0


@dataclass(frozen=True, slots=True)
class Split:
    """A split message: the summary covers its first blocks, and prompts show the other blocks.

    Attributes:
        id: The id of the message.
        blocks: The number of summarized blocks.
    """

    id: str
    blocks: int

    @classmethod
    def of(cls, noted: Mapping[str, Any]) -> Self | None:
        """Return the split message that a summary's notes name, or None if they name none."""
        found: object = noted.get("split")
        return None if found is None else cls(**cast("dict[str, Any]", found))

    def to_dict(self) -> dict[str, Any]:
        """Return the split in the form that a summary's notes store."""
        return {"id": self.id, "blocks": self.blocks}


def rest_of(stored: StoredItem, split: Split | None) -> StoredItem:
    """Return the part of a message that *split* does not cover.

    This is the whole message, unless *split* is of this message.
    """
    if split is None or stored.record.id != split.id:
        return stored
    blocks = blocks_of(stored)  # fewer if the message changed: then return it whole
    return with_blocks(stored, blocks[split.blocks :]) if split.blocks < len(blocks) else stored


def head_of(stored: StoredItem, before: Split | None, split: Split) -> StoredItem:
    """Return the blocks of a message that *split* covers, but not the earlier split *before*."""
    start = before.blocks if before is not None and before.id == split.id else 0
    return with_blocks(stored, blocks_of(stored)[start : split.blocks])


@dataclass(frozen=True, slots=True)
class SummaryPolicy:
    """The size at which a conversation is summarized, and how much of its end is kept.

    Attributes:
        recent: The number of last units to keep; a tool call with its answers is one unit.
        tokens: If given, as many of the last units are kept as fit into this number of tokens, and
            *recent* does not count.
        beside: Tokens of the prompt outside of the conversation; they count, too.
        budget: The token counter; its `tokens` are the size from which on a conversation is
            summarized. If they are None, a conversation of any size is summarized.
    """

    recent: int = 0
    tokens: int | None = None
    beside: int = 0
    budget: Budget = field(default_factory=lambda: Budget.of(None))

    @classmethod
    def of(
        cls, recent: int | None, tokens: int | None, beside: int, trigger: int | Budget | None
    ) -> Self:
        """Return the policy that a caller's arguments of `compress` ask for.

        Raises:
            InvalidInput: An argument is invalid, or two of them exclude each other.
        """
        budget = Budget.of(trigger)
        counted(beside, "beside_tokens", least=0)
        if tokens is None:
            recent = KEEP_RECENT if recent is None else recent
            return cls(counted(recent, "keep_recent", least=0), None, beside, budget)
        if recent is not None:
            raise InvalidInput("pass keep_recent or keep_tokens, not both")
        counted(tokens, "keep_tokens", least=0)
        if budget.tokens is not None and tokens > budget.tokens:
            raise InvalidInput(
                f"keep_tokens is {tokens}, more than trigger_tokens, {budget.tokens}; pass a "
                "keep_tokens below trigger_tokens"
            )
        return cls(0, tokens, beside, budget)

    def is_due(self, turns: Sequence[Message]) -> bool:
        """Return whether a conversation is long enough to be summarized."""
        most = self.budget.tokens
        return most is None or self.beside + self.budget.size(turns) >= most

    def last(self, turns: Sequence[Message], units: Sequence[Unit]) -> int:
        """Return how many of the last units of a conversation are kept."""
        if self.tokens is None:
            return self.recent
        sizes = (self.budget.size([turns[at] for at in unit.positions]) for unit in reversed(units))
        return sum(size <= self.tokens for size in accumulate(sizes, initial=self.beside)) - 1


NOTHING = SummaryPolicy()
"""A policy that keeps no unit."""


def summed_up(
    open_: Sequence[StoredItem], policy: SummaryPolicy, split: Split | None = None
) -> tuple[list[StoredItem], Split | None]:
    """Return the messages to summarize now, and the message to split, or None.

    The last units, the newest request, and calls without an answer are kept. The message before the
    last units is split if some of its last blocks fit into the policy's tokens, too.

    Args:
        open_: The messages that no summary covers, oldest first.
        split: The split message of the current summary, if there is one.
    """
    turns = [model_message(rest_of(stored, split)) for stored in open_]
    found = _units(turns)
    first = max(0, len(found) - max(0, policy.last(turns, found)))
    kept = set(range(first, len(found)))
    asked = [
        at for at, unit in enumerate(found) if any(_asks(turns[one]) for one in unit.positions)
    ]
    kept.update(asked[-1:])
    kept.update(at for at, unit in enumerate(found) if _waits(turns, unit))
    divided = None
    if policy.tokens is not None and first - 1 in set(range(len(found))) - kept:
        last = [turns[position] for unit in found[first:] for position in unit.positions]
        room = policy.tokens - policy.beside - policy.budget.size(last)
        unit = [open_[position] for position in found[first - 1].positions]
        divided = _divided(unit, split, policy.budget, room)
        kept.update([first - 1] if divided is not None else [])
    gone = sorted(
        position for at in set(range(len(found))) - kept for position in found[at].positions
    )
    return [open_[position] for position in gone], divided


def _divided(
    unit: Sequence[StoredItem], before: Split | None, budget: Budget, room: int
) -> Split | None:
    """Return a split of a unit's first message whose remaining blocks fit into *room* tokens.

    A call and its answer stay together. Return None if no split fits.
    """
    head, blocks = unit[0], blocks_of(unit[0])
    others = [model_message(stored) for stored in unit[1:]]
    lacks = _lacks([model_message(head), *others])
    done = before.blocks if before is not None and before.id == head.record.id else 0
    for at in range(done + 1, len(blocks)):
        left = [model_message(with_blocks(head, blocks[at:])), *others]
        if budget.size(left) <= room and _lacks(left) <= lacks:
            return Split(head.record.id, at)
    return None


def _lacks(messages: Sequence[Message]) -> set[str]:
    """Return the ids of tool calls that *messages* answer but do not contain."""
    return {call for unit in _units(messages) for call in unit.lacks}


def without_orphaned_calls(messages: Sequence[StoredItem]) -> list[StoredItem]:
    """Return messages, except tool calls without answers and answers without calls.

    A call without an answer is included if it is the last message.
    """
    turns = [model_message(stored) for stored in messages]
    left = {
        position
        for unit in _units(turns)
        if unit.lacks or (_waits(turns, unit) and unit.positions[-1] != len(turns) - 1)
        for position in unit.positions
    }
    return [stored for position, stored in enumerate(messages) if position not in left]


def _units(turns: Sequence[Message]) -> list[Unit]:
    """Return the groups of messages that belong together, ordered by their ends."""
    return sorted(units([[message] for message in turns]), key=lambda unit: unit.positions[-1])


def _asks(message: Message) -> bool:
    return message.role == "user" and not message.answers


def _waits(turns: Sequence[Message], unit: Unit) -> bool:
    answered = {call for position in unit.positions for call in turns[position].answers}
    return any(
        call not in answered for position in unit.positions for call in turns[position].calls
    )


# --- summaries ----------------------------------------------------------------------------------


class Summing:
    """Makes rolling summaries with a model or a summariser, and if it fails, selects sentences."""

    def __init__(self, model: ChatModel | Summariser | None, max_tokens: int) -> None:
        self._max = max_tokens
        if type(max_tokens) is not int or max_tokens < 4 * LEAST_TOKENS:
            least = 4 * LEAST_TOKENS
            shown = short_repr(max_tokens)
            raise InvalidInput(f"max_tokens must be at least {least}, not {shown}")
        self._plain = ExtractiveSummariser()
        self._summariser: Summariser | None
        if model is None or isinstance(model, Summariser):
            self._summariser = model
        else:
            self._summariser = ModelSummariser(model)

    def rolled(self, before: str, messages: Sequence[StoredItem]) -> Summary:
        """Return a summary of the previous summary and the messages after it."""
        lines = [line_of(stored) for stored in messages]
        if self._summariser is None:
            return self._extracted(before, lines)
        try:
            made = self._made(self._summariser, [before, *lines] if before else lines)
        except ModelFailed as error:
            return self._extracted(before, lines, because=str(error))
        if made.because or not made.text:
            return self._extracted(before, lines, because=made.because or "its summary is empty")
        return made

    def _made(self, summariser: Summariser, texts: Sequence[str]) -> Summary:
        """Return the summary that a summariser makes of *texts*, checked.

        Raises:
            ModelFailed: The summariser returned no usable summary.
        """
        try:
            made: object = summariser.summarise(texts, max_tokens=self._max)
        except AlveusError:
            raise
        except Exception as error:  # the edge to a user's code; the cause is kept
            raise _failed(summariser, f"it raised {error!r:.200}") from error
        if not isinstance(made, Summary) or not isinstance(made.text, str):  # pyright: ignore[reportUnnecessaryIsInstance] - user code
            raise _failed(summariser, f"it must return a Summary, not {made!r:.40}")
        if tokens(made.text) > self._max:
            raise _failed(summariser, f"its summary has more than {self._max} tokens")
        return made

    def _extracted(self, before: str, lines: Sequence[str], because: str = "") -> Summary:
        """Return a summary of selected sentences, after the previous summary *before*.

        The previous summary is included unchanged if there is room, and shortened otherwise.
        """
        half = self._max // 2 if before else self._max
        made = self._plain.summarise(lines, max_tokens=half)
        text = made.text
        if before:
            room = self._max - made.tokens - 1
            if tokens(before) > room:
                before = self._plain.summarise([before], max_tokens=room).text
            text = f"{before}\n{text}" if text else before
        return Summary(
            text=text, by=made.by, tokens=tokens(text), left_out=made.left_out, because=because
        )


def _failed(summariser: Summariser, problem: str) -> ModelFailed:
    return ModelFailed(type(summariser).__name__, problem)
