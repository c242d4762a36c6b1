"""Limits of prompts: fullness, and the long results and pictures that a prompt shows."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Self, TypeAlias, cast

from alveus.errors import InvalidInput
from alveus.memory.keys import KeySets
from alveus.store.items import Item
from alveus.values.lazy_dataclass import dataclass

Fill: TypeAlias = Literal["normal", "warning", "error", "critical", "overflow"]

CHARS_PER_TOKEN = 4
"""The number of characters that count as one token, as in DB-GPT."""

PICTURES = ("image", "image_url", "input_image")
"""The types of blocks that are pictures, in AgentScope, chat completions and responses."""


@dataclass(frozen=True, slots=True)
class ContextLimits:
    """When a prompt counts as full. The numbers are DB-GPT's.

    Attributes:
        tokens: The most tokens that a model reads.
        reserved_tokens: The part of *tokens* that is reserved for the answer.
        warning: The share of `effective_tokens` from which on old observations should be cut.
        error: The share from which on old rounds should be summed up.
        critical: The share from which on the next call may be the last possible call.
    """

    tokens: int = 120_000
    reserved_tokens: int = 4_096
    warning: float = 0.70
    error: float = 0.90
    critical: float = 0.95

    def __post_init__(self) -> None:
        if not 0 <= self.warning <= self.error <= self.critical <= 1:
            raise InvalidInput(
                "warning, error and critical must be from 0 to 1, each larger than the one before"
            )

    @property
    def effective_tokens(self) -> int:
        """The most tokens of a prompt: `tokens` without `reserved_tokens`."""
        return self.tokens - self.reserved_tokens

    def fill(self, used_tokens: int) -> Fill:
        """Return the fullness of a prompt with this number of tokens."""
        share = used_tokens / self.effective_tokens if self.effective_tokens > 0 else 1.0
        if share >= 1:
            return "overflow"
        if share >= self.critical:
            return "critical"
        if share >= self.error:
            return "error"
        return "warning" if share >= self.warning else "normal"


@dataclass(frozen=True, slots=True)
class ResultLimits:
    """Limits of tool results in a prompt, in characters. The numbers are DB-GPT's.

    Attributes:
        result: The most characters of one result.
        turn: The most characters of all results of a turn together.
        preview: The most characters that are shown of a result over the limit.
    """

    result: int = 100_000
    turn: int = 200_000
    preview: int = 1_500

    @classmethod
    def of(cls, context_tokens: int | None) -> Self:
        """Return the limits for a model's context size, or the greatest limits for None.

        A result may use 15 % of the context, and a turn 30 %, but at least 8,000 and 16,000
        characters.
        """
        if context_tokens is None:
            return cls()
        chars = context_tokens * CHARS_PER_TOKEN
        return cls(
            result=min(max(chars * 15 // 100, 8_000), 100_000),
            turn=min(max(chars * 30 // 100, 16_000), 200_000),
        )


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """The result of a call of a tool.

    Attributes:
        tool: The name of the tool.
        text: The whole result.
        call_id: The id of the call. Of results with the same id, only the first is stored.
    """

    tool: str
    text: str
    call_id: str | None = None


class ToolResults:
    """Stores long results of tools, and gives a prompt their beginning and a reference.

    Each result over the limit becomes an item of a set, in one commit that is durable when the call
    returns. Search covers the beginning of the result.

    Args:
        owner: A key, or a batch. The commit of the batch then contains the results.
        name: The name of the set.
    """

    def __init__(
        self,
        owner: KeySets,
        *,
        name: str = "tool_results",
        limits: ResultLimits = ResultLimits(),  # noqa: B008 - frozen
    ) -> None:
        self._set, self._limits = owner.set(name), limits

    def shown(self, result: ToolOutput) -> str:
        """Return the text of a result for a prompt.

        The text is the whole result, or, if the result is over the limit, a reference and the
        beginning.
        """
        if len(result.text) <= self._limits.result:
            return result.text
        return self._referred(result)

    def shown_in_turn(self, results: Sequence[ToolOutput]) -> list[str]:
        """Return the texts of a turn's results for a prompt.

        The longest results become references until all texts fit.
        """
        texts = [self.shown(result) for result in results]
        for at in sorted(range(len(texts)), key=lambda at: -len(texts[at])):
            if sum(map(len, texts)) <= self._limits.turn:
                break
            if texts[at] == results[at].text:
                texts[at] = self._referred(results[at])
        return texts

    def shown_in_part(
        self, texts: Sequence[str], limit: int, *, tool: str, counter: Callable[[str], int] = len
    ) -> list[str]:
        """Return the blocks of a result up to a limit.

        If the limit cuts the result, a reference to the whole result follows the blocks.

        Args:
            limit: The greatest length of all blocks together, as *counter* counts.
        """
        kept, rest = split_texts(texts, limit, counter=counter)
        if not rest:
            return kept
        whole = ToolOutput(tool, "".join(texts))
        return [*kept, self._reference(whole, self._kept(whole))]

    def read(self, reference: str) -> str | None:
        """Return the whole result that *reference* names, or None if the reference is unknown.

        A reference is the id of an item of the set, never a path, so a model reads no other data
        with it.
        """
        item = self._set.get(reference) if reference else None
        return None if item is None else item.value["text"]

    def _referred(self, result: ToolOutput) -> str:
        most = min(self._limits.preview, len(result.text) // 4)
        beginning, _ = preview(result.text, most)
        return f"{self._reference(result, self._kept(result))}\n{beginning}"

    def _kept(self, result: ToolOutput) -> str:
        item = Item(
            value={"tool": result.tool, "text": result.text},
            id=result.call_id or None,
            text=preview(result.text, self._limits.preview)[0],
            role="tool",
        )
        return self._set.add(item, on_existing="keep")

    @staticmethod
    def _reference(result: ToolOutput, item_id: str) -> str:
        return f"[{result.tool} gave {len(result.text)} characters; all of them: {item_id}]"


def preview(text: str, most: int) -> tuple[str, bool]:
    """Return the beginning of a text, and whether the text is longer.

    If a line ends in the second half of the beginning, the beginning is cut after this line.
    """
    if len(text) <= most:
        return text, False
    beginning = text[:most]
    end = beginning.rfind("\n") + 1
    return (beginning[:end] if end > most // 2 else beginning), True


def split_texts(
    texts: Sequence[str], limit: int, *, counter: Callable[[str], int] = len
) -> tuple[list[str], list[str]]:
    """Split texts at a total length. Return both parts; the text at the limit is cut in two.

    Args:
        counter: Returns the length of a text. If a beginning of a text is extended, its length must
            not fall.
    """
    kept: list[str] = []
    for at, text in enumerate(texts):
        size = counter(text)
        if size > limit:
            ends = range(1, len(text) + 1)
            end = bisect_right(ends, limit, key=lambda end: counter(text[:end]))
            begun = [text[:end]] if end else []
            return [*kept, *begun], [text[end:], *texts[at + 1 :]]
        kept.append(text)
        limit -= size
    return kept, []


def with_newest_pictures(
    messages: Sequence[Mapping[str, Any]], most: int = 5
) -> list[dict[str, Any]]:
    """Return messages with only the newest pictures, and a hint for every other picture."""
    left, found = most, list[dict[str, Any]]()
    for message in reversed(messages):
        content = message.get("content")
        if isinstance(content, list):
            blocks = list[Any]()
            for block in reversed(cast("list[Any]", content)):
                kind = (
                    cast("dict[str, Any]", block).get("type") if isinstance(block, dict) else None
                )
                left -= kind in PICTURES
                blocks.append(dict(HINT) if kind in PICTURES and left < 0 else block)
            content = blocks[::-1]
        found.append({**message, "content": content} if "content" in message else dict(message))
    return found[::-1]


HINT = {"type": "text", "text": "[an older picture, which is not shown]"}
"""The block that replaces an older picture."""
