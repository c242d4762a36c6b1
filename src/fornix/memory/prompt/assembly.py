"""A prompt under its budget: what of all that was found is in it, and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from fornix.errors import BudgetTooSmall
from fornix.memory.prompt import prompt_sources
from fornix.memory.prompt.context import Context, Part, Piece
from fornix.memory.prompt.context_request import ContextRequest, Sources
from fornix.memory.prompt.deduplication import TakenTexts
from fornix.memory.prompt.prompt_sources import PromptCandidate
from fornix.memory.prompt.quoting import BEGIN, END, OPENING, SAID, quoted
from fornix.store.items import Hits
from fornix.text.messages import Message

REMEMBERED: Mapping[Part, str] = {
    "exact": "exact values",
    "knowledge": "knowledge",
    "items": "items",
}
"""The parts that are quoted in the system message, in their order there, with their headings."""

DIVIDED: tuple[Part, ...] = ("exact", "knowledge", "recent", "items")
"""Who has its share first; what one leaves goes to the next."""

OFFERED: tuple[Part, ...] = ("recent", "items", "knowledge", "exact")
"""To whom what is left at the end is offered."""

LEFT_OUT = 50
"""Pieces that were left out of which a context says why."""

_REASONS: Mapping[Part, str] = {
    "exact": "named by its path",
    "knowledge": "found in knowledge",
    "recent": "one of the last exchanges",
    "items": "found in the key's sets",
}


def assembled(sources: Sources, asked: ContextRequest) -> Context:
    """Return the prompt that is asked for.

    Raises:
        BudgetTooSmall: The instructions and the query alone have more tokens than it may have.
    """
    asked = replace(asked, budget=asked.budget.remembering())
    room = _room(asked)
    at = None if asked.as_of is None else sources.writer.moment_of(asked.as_of)
    told = prompt_sources.recent(sources, asked, at, room)
    known = prompt_sources.knowledge(sources, asked, at, room)
    hits = prompt_sources.items(sources, asked, at, room)
    wanted: dict[Part, list[PromptCandidate]] = {
        "exact": prompt_sources.exact_values(sources, asked),
        "knowledge": prompt_sources.hits_found(known, asked, "knowledge"),
        "recent": told.found,
        "items": [
            hit
            for hit in prompt_sources.hits_found(hits, asked, "items")
            if not hit.refs & told.query
        ],
    }
    choice = _Choice(asked, wanted, room)
    choice.make()
    unnamed = prompt_sources.unnamed_exact_values(sources, asked)
    return _context(choice, [*unnamed, *told.left], [known, hits])


def _room(asked: ContextRequest) -> int | None:
    """Return what is left beside the instructions and the query, in messages and as a text."""
    messages, text = _rendered(asked, ())
    room = asked.budget.left(messages)
    most = asked.budget.tokens
    if room is None or most is None:
        return None
    size = asked.budget.count(text)
    if size > most:
        raise BudgetTooSmall(most, size)
    return room


# --- what is chosen ---------------------------------------------------------------------------


class _Choice:
    """Chooses among what was found; *taken* is in the order in which it was chosen."""

    def __init__(
        self,
        asked: ContextRequest,
        wanted: Mapping[Part, Sequence[PromptCandidate]],
        room: int | None,
    ) -> None:
        self.asked, self.wanted, self._left = asked, wanted, room
        self.taken: list[PromptCandidate] = []
        self.reasons: dict[int, str] = {}
        self._told = TakenTexts()

    def make(self) -> None:
        """Choose: the newest exchange, a share for each part, what is left for who can use it."""
        self._take("recent", self.wanted["recent"][:1], self._left)
        frame = self._frame()
        if self._left is None:
            self._each(OFFERED)
        elif frame < self._left:
            self._left -= frame
            self._share(self._left)
            self._each(OFFERED)
            if not any(found.line for found in self.taken):
                self._left += frame
        self._each(("recent",))
        while self.taken and not self._fits():
            self._drop(self.taken[-1], "there is no room for it, all taken together")

    def size(self, found: PromptCandidate) -> int:
        """Return how many tokens a piece has."""
        budget = self.asked.budget
        return budget.size(found.messages) if found.messages else budget.count(f"{found.line}\n")

    def _frame(self) -> int:
        """Return what the quotation has besides its lines."""
        headings = [name for part, name in REMEMBERED.items() if self.wanted[part]]
        budget = self.asked.budget
        lines = [OPENING, BEGIN, *(f"{name}:" for name in headings), END]
        lead = 0 if self.asked.system else budget.message_tokens
        return sum(budget.count(f"{line}\n") for line in lines) + lead if headings else 0

    def _share(self, room: int) -> None:
        shares: dict[Part, float] = {
            part: getattr(self.asked.shares, part) for part in DIVIDED if self.wanted[part]
        }
        total, unused = sum(shares.values()), 0
        for part, share in shares.items():
            most = int(room * share / total) + unused if total else 0
            unused = most - self._take(part, self.wanted[part], most)

    def _each(self, parts: Sequence[Part]) -> None:
        for part in parts:
            self._take(part, self.wanted[part], self._left)
            if part == "recent":
                self._drop_repeated()

    def _take(self, part: Part, wanted: Sequence[PromptCandidate], most: int | None) -> int:
        """Take what fits into *most* tokens, exchanges without a gap; return how many it has."""
        used, taken = 0, {id(found) for found in self.taken}
        for found in wanted:
            if id(found) in taken or id(found) in self.reasons:
                continue
            if most is not None and used + self.size(found) > most:
                if part == "recent":
                    break
                continue
            if told := self._told.repeats(found):
                self.reasons[id(found)] = told
                continue
            self.taken.append(found)
            self._told.add(found)
            used += self.size(found)
        if self._left is not None:
            self._left -= used
        return used

    def _drop_repeated(self) -> None:
        """Let go hits that are among exchanges which were taken after them."""
        shown = {ref for found in self.taken if found.hit is None for ref in found.refs}
        for found in [one for one in self.taken if one.hit is not None and one.refs & shown]:
            self._drop(found, "it is among the last exchanges")

    def _drop(self, found: PromptCandidate, reason: str) -> None:
        self.taken = [one for one in self.taken if one is not found]
        self.reasons[id(found)] = reason
        if self._left is not None:
            self._left += self.size(found)

    def _fits(self) -> bool:
        budget = self.asked.budget
        if budget.tokens is None:
            return True
        messages, text = _rendered(self.asked, self.taken)
        return budget.size(messages) <= budget.tokens and budget.count(text) <= budget.tokens


# --- how it is written ------------------------------------------------------------------------


def _in_order(taken: Sequence[PromptCandidate], part: Part) -> list[PromptCandidate]:
    """Return the pieces of a part in order: exchanges and items by time, exact values by rank."""
    own = [found for found in taken if found.piece.part == part]
    if part == "recent":
        return sorted(own, key=lambda found: found.order)
    if part == "exact":
        return sorted(own, key=lambda found: found.piece.rank)
    return sorted(own, key=lambda found: (found.piece.time, found.piece.rank))


def _rendered(asked: ContextRequest, taken: Sequence[PromptCandidate]) -> tuple[list[Message], str]:
    """Return a prompt as messages, and as a text."""
    lead = [] if asked.system is None else [asked.system]
    quotation: list[str] = []
    for part, heading in REMEMBERED.items():
        if own := _in_order(taken, part):
            quotation += [f"{heading}:", *(found.line for found in own)]
    if quotation:
        lead.append("\n".join([OPENING, BEGIN, *quotation, END]))
    said = [message for found in _in_order(taken, "recent") for message in found.messages]
    messages = [Message("\n\n".join(lead), "system")] if lead else []
    messages += said
    if said:
        lead.append("\n".join([SAID, *(f"{one.role}: {quoted(one.content)}" for one in said)]))
    if asked.query is not None:
        messages.append(Message(asked.query))
        lead.append(asked.query)
    return messages, "\n\n".join(lead)


def _context(choice: _Choice, left: Sequence[Piece], hits: Sequence[Hits]) -> Context:
    asked, budget = choice.asked, choice.asked.budget
    messages, text = _rendered(asked, choice.taken)
    taken = {id(found) for found in choice.taken}
    why: list[Piece] = []
    if asked.system is not None:
        why.append(_given("system", asked.system, choice))
    for part in (*REMEMBERED, "recent"):
        for found in _in_order(choice.taken, part):
            reason = _REASONS[part]
            size = choice.size(found)
            why.append(replace(found.piece, shown=True, reason=reason, tokens=size))
    if asked.query is not None:
        why.append(_given("query", asked.query, choice))
    missing = [found for part in DIVIDED for found in choice.wanted[part] if id(found) not in taken]
    out = [
        replace(
            found.piece,
            reason=choice.reasons.get(id(found), "there is no room for it"),
            tokens=choice.size(found),
        )
        for found in missing[:LEFT_OUT]
    ]
    out += left[: LEFT_OUT - len(out)]
    return Context(
        [message.to_chat() for message in messages],
        text,
        budget.size(messages),
        budget.tokens,
        (*why, *out),
        more=len(missing) + len(left) - len(out),
        partial=any(found.partial for found in hits),
    )


def _given(part: Part, text: str, choice: _Choice) -> Piece:
    size = choice.asked.budget.size([Message(text)])
    return Piece(part, "", text, shown=True, reason="passed in", tokens=size)
