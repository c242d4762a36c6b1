"""Assembles a prompt within its budget: chooses among the candidates, and records the reasons."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import NamedTuple

from alveus.errors import BudgetTooSmall
from alveus.memory.prompt.candidates import Found, PromptCandidate, Ref, Searched
from alveus.memory.prompt.context import Context, ContextRequest, Part, Piece, Sources
from alveus.memory.prompt.item_search import TOO_LITTLE
from alveus.memory.prompt.prompt_sources import PromptSources
from alveus.memory.prompt.quoting import ABSENCE, BEGIN, END, OPENING, SAID, quoted
from alveus.text.messages import Message
from alveus.text.statements import anchor_words, statement
from alveus.values.storable import moment
from alveus.values.times import Zone

SHOWN_WHOLE = "the memory is shown whole: it fits"

REMEMBERED: Mapping[Part, str] = {
    "blocks": "blocks",
    "profile": "profile",
    "exact": "exact values",
    "knowledge": "knowledge",
    "items": "items",
}
"""The quoted parts of the system message, in order, with their headings."""

DIVIDED: tuple[Part, ...] = ("blocks", "profile", "exact", "knowledge", "recent", "items")
"""The order in which parts get their shares; unused tokens go to the next part."""

SEARCHED: tuple[Searched, ...] = ("items", "knowledge")
"""The parts that searches fill. A part whose items all fit is shown whole, before the budget is
divided into shares."""

OFFERED: tuple[Part, ...] = ("blocks", "recent", "items", "knowledge", "profile", "exact")
"""The order in which parts get the tokens that are left after the division."""

CUT_TOKENS, CUT_SHARE = 150, 8
"""A piece with more than 150 tokens and more than 1/8 of the room is cut."""

SMALLEST_LINE = 6
"""If fewer tokens than this are left, no further line is tried."""

LEFT_OUT = 50
"""The most left-out pieces that a context explains."""

_REASONS: Mapping[Part, str] = {
    "blocks": "a block that was asked for",
    "profile": "a fact of the named profile",
    "exact": "named by its path",
    "knowledge": "found in knowledge",
    "recent": "one of the last exchanges",
    "items": "found in the key's sets",
}

_AMONG: Mapping[Part, str] = {"recent": "among the last exchanges", "profile": "in the profile"}

NO_ROOM = "there is no room for it"

NO_ROOM_TOGETHER = "there is no room for it, all taken together"

NOT_FITTING = "what was found does not fit into the budget"

TOO_LITTLE_FOR_ANY = "the query resembles the items too little for those that were found"

CUT_REASON = "; only a part is shown, since the whole is long"


def assembled(sources: Sources, request: ContextRequest) -> Context:
    """Return the prompt for a request.

    Raises:
        BudgetTooSmall: The instructions and the query alone exceed the budget.
    """
    request = replace(request, budget_tokens=request.budget.remembering())
    zone = sources.writer.timezone
    choice = _Choice(request, zone, zone.name(moment(sources.writer.now())))
    room = choice.room()
    reader = PromptSources(sources, request, zone, room)
    conversation = reader.recent()
    found: dict[Searched, Found] = {part: reader.search(part) for part in SEARCHED}
    candidates: dict[Part, list[PromptCandidate]] = {
        "blocks": reader.blocks(),
        "profile": reader.profile(),
        "exact": reader.exact_values(),
        "knowledge": found["knowledge"].candidates,
        "recent": conversation.exchanges,
        "items": [hit for hit in found["items"].candidates if not hit.refs & conversation.query],
    }
    limits: dict[Part, int | None] = {part: one.most for part, one in found.items()}
    choice.make(candidates, room, limits)
    unnamed = reader.unnamed_exact_values()
    absent = choice.explain_absence(found, has_unnamed=bool(unnamed))
    left_out = [*absent, *unnamed, *conversation.left_out, *reader.outdated(found)]
    return choice.context(left_out, found.values())


# --- choosing pieces --------------------------------------------------------------------------


class _Choice:
    """Chooses among the candidates for one prompt, and renders it.

    Attributes:
        taken: The chosen candidates, in the order of choice.
        absence: A sentence that says why the prompt shows nothing from memory, or "".

    Args:
        zone: The reader's zone, in which times are shown.
        zone_name: The name of the zone, which the prompt shows unless it is "UTC".
    """

    def __init__(self, request: ContextRequest, zone: Zone, zone_name: str) -> None:
        self.request, self.budget, self._zone = request, request.budget, zone
        days = "" if zone_name == "UTC" else f" Times are in {zone_name}."
        self._opening = f"{OPENING}{days}"
        self.candidates: Mapping[Part, Sequence[PromptCandidate]] = {}
        self.taken: list[PromptCandidate] = []
        self.absence = ""
        self._tokens_left: int | None = None
        self._most: dict[Part, int] = {}  # the tokens that a part may still get
        self._most_of_one = CUT_TOKENS
        self._texts = TakenTexts()
        self._days: set[tuple[Part, str]] = set()

    def room(self) -> int | None:
        """Return the tokens left after the instructions and the query, or None without a budget.

        Raises:
            BudgetTooSmall: They exceed the budget, as messages or as text.
        """
        messages, text = self._rendered()
        room = self.budget.remaining(messages)
        most = self.budget.tokens
        if most is not None and (size := self.budget.count(text)) > most:
            raise BudgetTooSmall(most, size)
        return room

    def make(
        self,
        candidates: Mapping[Part, Sequence[PromptCandidate]],
        room: int | None,
        limits: Mapping[Part, int | None],
    ) -> None:
        """Choose the newest exchange, whole sets, a share for each part, and then the rest.

        Args:
            limits: The most tokens of a part that a search fills, or None if no limit applies.
        """
        self.candidates, self._tokens_left = candidates, room
        self._most = {part: most for part, most in limits.items() if most is not None}
        self._most_of_one = max(CUT_TOKENS, (room or 0) // CUT_SHARE)
        self._cut_exchanges()
        self._take("recent", self.candidates["recent"][:1], self._tokens_left)
        frame = self._frame()
        if self._tokens_left is None:
            self._each(OFFERED)
        elif frame < self._tokens_left:
            self._tokens_left -= frame
            for part in SEARCHED:
                if self._share_of(part):
                    whole = [one for one in self.candidates[part] if one.is_whole]
                    self._take(part, whole, self._tokens_left)
            self._share(self._tokens_left)
            self._each(OFFERED)
            if not any(candidate.line for candidate in self.taken):
                self._tokens_left += frame
        self._each(("recent",))
        self._show_whole_exchanges()
        self._use_what_was_overestimated()
        while self.taken and not self._fits():
            self._drop(self.taken[-1], NO_ROOM_TOGETHER)

    def explain_absence(
        self, searches: Mapping[Searched, Found], *, has_unnamed: bool
    ) -> list[Piece]:
        """Set `absence` if nothing from memory is shown, and return a piece with the reason.

        Return an empty list if memory is shown, or if the hits themselves carry the reason. If no
        tokens are left for the reason, `absence` states only the fact. Exchanges are memory too: if
        some are shown, `absence` is set only because of hits that were withheld.

        Args:
            has_unnamed: Whether exact values exist that the request does not name.
        """
        found: dict[Part, Found] = {
            part: one for part, one in searches.items() if one.problem or one.candidates
        }
        if not found or any(candidate.line for candidate in self.taken):
            return []
        part = max(found, key=lambda part: (bool(found[part].candidates), found[part].stored))
        withheld = bool(found[part].candidates and found[part].problem)
        if self.taken and not withheld:
            return []
        problem = found[part].problem
        if not problem:
            problem = "only the query itself was found"
            if self.candidates[part]:
                problem = NOT_FITTING if found[part].most is None else TOO_LITTLE_FOR_ANY
        if has_unnamed and not withheld:
            problem += "; exact values are shown only when asked for"
        for self.absence in (f"{ABSENCE}: {problem}.", f"{ABSENCE}.", ""):
            if self._fits():
                break
        return [] if withheld else [Piece(part, "", "", reason=problem)]

    def _use_what_was_overestimated(self) -> None:
        """Take more lines if the prompt has fewer tokens than the sum of the pieces' tokens."""
        if self._tokens_left is None or self.budget.tokens is None or not self._days:
            return
        self._tokens_left = max(self._tokens_left, self.budget.tokens - self._used())
        self._each(("items", "knowledge", "exact"))

    def _cut_exchanges(self) -> None:
        """Cut long messages that would use the tokens of other parts.

        The newest exchange stays whole if it fits in the conversation's share.
        """
        shares = self._shares()
        if self._tokens_left is None or "recent" not in shares or len(shares) == 1:
            return
        newest, *others = self.candidates["recent"]
        share = shares["recent"] / (sum(shares.values()) or 1)
        if self.size(newest) > self._tokens_left * share:
            newest.cut_messages(self.budget, self._most_of_one)
        for candidate in others:
            candidate.cut_messages(self.budget, self._most_of_one)

    def _show_whole_exchanges(self) -> None:
        """Restore cut exchanges, newest first, while tokens remain."""
        for candidate in self.taken:
            if self._tokens_left is None or not (candidate.is_cut and candidate.messages):
                continue
            cut = self.size(candidate)
            candidate.show_whole()
            more = self.size(candidate) - cut
            if more > self._tokens_left:
                candidate.cut_messages(self.budget, self._most_of_one)
            else:
                self._tokens_left -= more
        self._drop_repeated()

    def size(self, candidate: PromptCandidate) -> int:
        """Return the number of tokens of a candidate."""
        if candidate.messages:
            return self.budget.size(candidate.messages)
        return self.budget.count(f"{candidate.line}\n")

    def _frame(self) -> int:
        """Return the tokens of the quotation's opening, marks and headings, without the items."""
        headings = [name for part, name in REMEMBERED.items() if self.candidates[part]]
        lines = [self._opening, BEGIN, *(f"{name}:" for name in headings), END]
        lead = 0 if self.request.system else self.budget.message_tokens
        return sum(self.budget.count(f"{line}\n") for line in lines) + lead if headings else 0

    def _shares(self) -> dict[Part, float]:
        return {part: self._share_of(part) for part in DIVIDED if self.candidates[part]}

    def _share_of(self, part: Part) -> float:
        return getattr(self.request.shares, part)

    def _share(self, room: int) -> None:
        shares = self._shares()
        total, unused = sum(shares.values()), 0
        for part, share in shares.items():
            if not share:
                continue
            most = int(room * share / total) + unused if total else 0
            unused = most - self._take(part, self.candidates[part], most)

    def _each(self, parts: Sequence[Part]) -> None:
        """Take what fits of the parts, in their order; parts without a share come last."""
        for part in sorted(parts, key=lambda part: not self._share_of(part)):
            self._take(part, self.candidates[part], self._tokens_left)
            if part == "recent":
                self._drop_repeated()

    def _take(self, part: Part, candidates: Sequence[PromptCandidate], most: int | None) -> int:
        """Take candidates of a part, up to *most* tokens; return the number of tokens."""
        if most is not None and part in self._most:
            most = min(most, self._most[part])
        used = self._taken_of(part, candidates, most)
        if self._tokens_left is not None:
            self._tokens_left -= used
        if part in self._most:
            self._most[part] -= used
        return used

    def _taken_of(self, part: Part, candidates: Sequence[PromptCandidate], most: int | None) -> int:
        """Take candidates as `_take` does.

        Exchanges are taken without gaps: after the first that does not fit, no other is taken.
        """
        used = 0
        for candidate in candidates:
            if candidate.is_taken or candidate.left_out:
                continue
            if most is not None and self._is_long(candidate):
                room = min(most - used, self._most_of_one)
                if room < self._most_of_one / 2:
                    continue
                candidate.cut_line(self.request, self._zone, room)
            cost = self._cost(candidate)
            if most is not None and used + cost > most:
                if part == "recent" or most - used < SMALLEST_LINE:
                    break
                continue
            if reason := self._texts.repeats(candidate):
                candidate.left_out = reason
                continue
            candidate.is_taken = True
            self.taken.append(candidate)
            self._texts.add(candidate)
            self._days.add((part, candidate.day))
            used += cost
        return used

    def _is_long(self, candidate: PromptCandidate) -> bool:
        is_hit = candidate.hit is not None and not (candidate.is_cut or candidate.is_whole)
        return is_hit and self.size(candidate) > self._most_of_one

    def _cost(self, candidate: PromptCandidate) -> int:
        """Return the tokens that a candidate adds to the prompt.

        They include the heading of its day if no taken candidate of the part has the heading.
        """
        size = self.size(candidate)
        if candidate.day and (candidate.piece.part, candidate.day) not in self._days:
            size += self.budget.count(f"{candidate.day}\n")
        return size

    def _drop_repeated(self) -> None:
        """Drop hits whose items are also shown in an exchange or in the profile."""
        shown_in: dict[Ref, Part] = {
            ref: candidate.piece.part
            for candidate in self.taken
            if candidate.hit is None
            for ref in candidate.refs
        }
        for candidate in [one for one in self.taken if one.hit is not None]:
            parts: list[Part] = [shown_in[ref] for ref in candidate.refs if ref in shown_in]
            if parts:
                self._drop(candidate, f"it is {_AMONG[parts[0]]}")

    def _drop(self, candidate: PromptCandidate, reason: str) -> None:
        self.taken.remove(candidate)
        candidate.is_taken, candidate.left_out = False, reason
        if self._tokens_left is not None:
            self._tokens_left += self.size(candidate)

    def _fits(self) -> bool:
        return self.budget.tokens is None or self._used() <= self.budget.tokens

    def _used(self) -> int:
        """Return the tokens of the messages or of the text, whichever is more."""
        messages, text = self._rendered()
        return max(self.budget.size(messages), self.budget.count(text))

    # --- rendering ----------------------------------------------------------------------------

    def _in_order(self, part: Part) -> list[PromptCandidate]:
        """Return the taken candidates of a part in the order in which the prompt shows them.

        Exchanges and items are in order of time; blocks, profile and exact values are by rank.
        """
        of_part = [candidate for candidate in self.taken if candidate.piece.part == part]
        if part == "recent":
            return sorted(of_part, key=lambda candidate: candidate.order)
        if part in ("blocks", "profile", "exact"):
            return sorted(of_part, key=lambda candidate: candidate.piece.rank)
        return sorted(of_part, key=lambda candidate: (candidate.piece.time, candidate.piece.rank))

    def _rendered(self) -> tuple[list[Message], str]:
        """Return the prompt as messages and as text."""
        request = self.request
        lead = [] if request.system is None else [request.system]
        quotation: list[str] = []
        for part, heading in REMEMBERED.items():
            if of_part := self._in_order(part):
                quotation += [f"{heading}:", *_lines(of_part)]
        if quotation:
            lead.append("\n".join([self._opening, BEGIN, *quotation, END]))
        elif self.absence:
            lead.append(self.absence)
        exchanges = [one for candidate in self._in_order("recent") for one in candidate.messages]
        messages = [Message("\n\n".join(lead), "system")] if lead else []
        messages += exchanges
        if exchanges:
            said = [f"{one.role}: {quoted(one.content)}" for one in exchanges]
            lead.append("\n".join([SAID, *said]))
        if request.query is not None:
            messages.append(Message(request.query))
            lead.append(request.query)
        return messages, "\n\n".join(lead)

    def context(self, left_out: Sequence[Piece], found: Collection[Found]) -> Context:
        """Return the prompt, with the pieces shown and the pieces left out."""
        messages, text = self._rendered()
        why = self._given("system", self.request.system)
        partly = {  # parts that a repeated item alone does not make incomplete
            part
            for part in SEARCHED
            for one in self.candidates[part]
            if not one.is_taken and one.left_out in ("", NO_ROOM_TOGETHER)
        }
        for part in (*REMEMBERED, "recent"):
            for candidate in self._in_order(part):
                usual = candidate.piece.reason or _REASONS[part]
                reason = SHOWN_WHOLE if candidate.is_whole and part not in partly else usual
                reason += CUT_REASON if candidate.is_cut else ""
                size = self.size(candidate)
                why.append(replace(candidate.piece, shown=True, reason=reason, tokens=size))
        why += self._given("query", self.request.query)
        missing = [one for part in DIVIDED for one in self.candidates[part] if not one.is_taken]
        for candidate in missing[:LEFT_OUT]:
            no_room = NO_ROOM if candidate.piece.part not in self._most else TOO_LITTLE
            reason = candidate.left_out or no_room
            why.append(replace(candidate.piece, reason=reason, tokens=self.size(candidate)))
        others = left_out[: max(0, LEFT_OUT - len(missing))]
        return Context(
            [message.to_chat() for message in messages],
            text,
            self.budget.size(messages),
            self.budget.tokens,
            (*why, *others),
            more=max(0, len(missing) + len(left_out) - LEFT_OUT),
            partial=any(one.hits.partial for one in found),
            reranker_failure=next(
                (one.hits.reranker_failure for one in found if one.hits.reranker_failure), None
            ),
        )

    def _given(self, part: Part, text: str | None) -> list[Piece]:
        """Return a list of the piece for a text of the request; it is empty if the text is None."""
        if text is None:
            return []
        size = self.budget.size([Message(text)])
        return [Piece(part, "", text, shown=True, reason="passed in", tokens=size)]


def _lines(candidates: Sequence[PromptCandidate]) -> Iterator[str]:
    """Yield the lines of a part, with a heading for each day."""
    day = ""
    for candidate in candidates:
        if candidate.day and candidate.day != day:
            yield candidate.day
        day = candidate.day
        yield candidate.line


# --- repeated texts ---------------------------------------------------------------------------


class _TakenText(NamedTuple):
    piece: Piece
    text: str
    speaker: str | None = None


class TakenTexts:
    """The texts that a prompt contains so far, to find hits that repeat a text."""

    def __init__(self) -> None:
        self._refs: dict[Ref, str] = {}  # why a hit of the item is left out
        self._taken: dict[frozenset[str], list[_TakenText]] = {}
        self._statement = cache(statement)

    def add(self, candidate: PromptCandidate) -> None:
        """Record a taken candidate."""
        piece = candidate.piece
        if candidate.hit is not None:
            self._note(_TakenText(piece, piece.text, candidate.hit.item.speaker))
            return
        if candidate.refs:
            reason = f"it is {_AMONG[piece.part]}: {piece.source}"
            self._refs.update(dict.fromkeys(candidate.refs, reason))
        for message in candidate.messages:
            self._note(_TakenText(piece, message.content))

    def _note(self, text: _TakenText) -> None:
        self._taken.setdefault(frozenset(anchor_words(text.text)), []).append(text)

    def repeats(self, candidate: PromptCandidate) -> str | None:
        """Return a sentence that names the text which a hit repeats, or None if it repeats none."""
        if candidate.hit is None:
            return None
        for ref in candidate.refs:
            if ref in self._refs:
                return self._refs[ref]
        piece, speaker = candidate.piece, candidate.hit.item.speaker
        for taken in self._taken.get(frozenset(anchor_words(piece.text)), ()):
            is_message = taken.piece.part == "recent"
            if (is_message or taken.speaker == speaker) and self._is_repeated(piece, taken):
                if is_message:
                    return f"it is among the last exchanges: {taken.piece.source}"
                return f"it says what {taken.piece.source} says"
        return None

    def _is_repeated(self, piece: Piece, taken: _TakenText) -> bool:
        """Return whether the text *taken* says the same as *piece*.

        Statements with words such as "today" are the same only if they are of the same day.
        """
        said = self._statement(piece.text)
        if not said.says_the_same(self._statement(taken.text)):
            return False
        mine, other = piece.time, taken.piece.time
        return not said.is_relative or (mine and mine.date()) == (other and other.date())
