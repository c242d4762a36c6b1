"""Assemble a prompt within its budget: choose candidates and record the reasons."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Literal, TypeAlias, cast

from alveus.errors import BudgetTooSmall
from alveus.memory.prompt import prompt_sources
from alveus.memory.prompt.context import (
    ALL,
    MIN_SCORE,
    Context,
    ContextRequest,
    Part,
    Piece,
    Sources,
)
from alveus.memory.prompt.prompt_sources import PromptCandidate, Ref, item_piece, line_of
from alveus.memory.prompt.quoting import (
    ABSENCE,
    BEGIN,
    CONTRADICTS,
    END,
    SAID,
    day_line,
    masked_item,
    quoted,
)
from alveus.sets.writer import Writer
from alveus.store import Scope, SetRef
from alveus.store.items import Hit, Hits, Item
from alveus.store.records import item_of
from alveus.store.times import Moment
from alveus.text.messages import Message
from alveus.text.statements import Statement, anchor_words, statement
from alveus.values.lazy import lazy_attribute
from alveus.values.lazy_dataclass import dataclass

HITS = 20
"""The most hits of a search without a budget."""

FEWEST_HITS, MOST_HITS, TOKENS_A_HIT = 20, 200, 10
"""The most hits with a budget: one hit per 10 tokens, within these bounds."""

WHOLE_SHARE = 3
"""Sets are shown whole if their items need at most 1/3 of the available tokens."""

SHOWN_WHOLE = "the memory is shown whole: it fits"

Searched: TypeAlias = Literal["items", "knowledge"]
"""A part of a prompt that a search fills."""


@dataclass(slots=True)
class Found:
    """The candidates of one part of a prompt.

    Attributes:
        hits: The search result.
        candidates: The hits as candidates, best first.
        problem: Why no candidate can be shown; "" if some can.
    """

    hits: Hits = field(default_factory=Hits)
    candidates: list[PromptCandidate] = field(default_factory=list[PromptCandidate])
    problem: str = ""


class MemorySearch:
    """Searches the sets of a key, then knowledge, for one request.

    Args:
        room: The tokens left by the instructions and the query; None means no budget.
    """

    def __init__(
        self, sources: Sources, request: ContextRequest, at: Moment | None, room: int | None
    ) -> None:
        self._sources, self._request, self._at = sources, request, at
        self._whole_room = None if room is None else room // WHOLE_SHARE
        self._limit = request.limit or (
            HITS if room is None else min(MOST_HITS, max(FEWEST_HITS, room // TOKENS_A_HIT))
        )

    def items(self) -> Found:
        """Return the candidates from the sets of the key."""
        return self._found("items", self._sources.scope, self._request.sets)

    def knowledge(self) -> Found:
        """Return the candidates from knowledge, which gets the tokens that `items` leaves."""
        return self._found("knowledge", self._sources.knowledge, self._request.knowledge)

    def _found(self, part: Searched, scope: Scope, sets: object) -> Found:
        request = self._request
        if request.query is None or sets is None or sets == []:
            return Found()
        names = None if sets is ALL else cast("Sequence[str]", sets)
        if request.min_score is None and self._may_be_whole(scope, names):
            hits = self._search(scope, names, everything=True)
            candidates = self._candidates(hits, part)
            if len(hits) <= self._limit and self._fits(candidates):
                for candidate in candidates:
                    candidate.is_whole = True
                problem = "" if candidates else self._why_none(scope, names)
                return Found(hits, candidates, problem)
        hits = self._search(scope, names, everything=False)
        candidates = self._candidates(hits, part)
        problem = self._why_withheld(hits) if hits else self._why_none(scope, names)
        for candidate in candidates:
            candidate.left_out = problem
        return Found(hits, candidates, problem)

    def _may_be_whole(self, scope: Scope, names: Sequence[str] | None) -> bool:
        """Return whether the sets may be small enough to be shown whole."""
        return self._at is not None or self._count(scope, names) <= self._limit

    def _count(self, scope: Scope, names: Sequence[str] | None) -> int:
        if names is None:
            return sum(self._sources.writer.counts(scope).values())
        return sum(self._sources.writer.count(SetRef(scope, name)) for name in names)

    def _search(self, scope: Scope, names: Sequence[str] | None, *, everything: bool) -> Hits:
        request, writer = self._request, self._sources.writer
        least = None if request.min_score == 0 else 0.0  # 0.0 makes search compute each relevance
        options = replace(request.search_options(self._limit, self._at), min_score=least)
        refs = scope if names is None else [SetRef(scope, name) for name in names]
        if everything:  # one more than the limit shows whether more exist
            options = replace(options, limit=self._limit + 1, everything=True)
        hits = writer.search(refs, request.query or "", options)
        return _side_by_side(writer, scope, hits, self._at)

    def _candidates(self, hits: Hits, part: Searched) -> list[PromptCandidate]:
        request = self._request
        candidates: list[PromptCandidate] = []
        for rank, hit in enumerate(hits, start=1):
            item = hit.item if request.secrets == "show" else masked_item(hit.item)
            candidate = PromptCandidate(
                item_piece(part, item, rank=rank, hit=hit),
                refs=frozenset({(item.set_name, item.id)}),
                hit=replace(hit, item=item),
            )
            candidate.line = line_of(item, request)
            if request.details == "hide" and item.time is not None:
                candidate.day = day_line(item.time, request.zone)
            candidates.append(candidate)
        return candidates

    def _fits(self, candidates: Sequence[PromptCandidate]) -> bool:
        """Return whether all candidates fit into a third of the room; if so, use up their part."""
        if self._whole_room is None:
            return True
        budget = self._request.budget
        lines = [candidate.line for candidate in candidates]
        lines += {candidate.day for candidate in candidates if candidate.day}
        size = sum(budget.count(f"{line}\n") for line in lines)
        if size > self._whole_room:
            return False
        self._whole_room -= size
        return True

    def _why_withheld(self, hits: Hits) -> str:
        """Return why no hit is shown: the best is below the least relevance; "" otherwise."""
        least = MIN_SCORE if self._request.min_score is None else self._request.min_score
        best = max([hit.relevance or 0.0 for hit in hits], default=0.0)
        if best >= least:
            return ""
        return f"the best item found has a relevance of {best:.2f} to the query, below {least:.2f}"

    def _why_none(self, scope: Scope, names: Sequence[str] | None) -> str:
        if not self._count(scope, names):
            return "it holds no items yet"
        return "no item matches the query and the filters"


def _side_by_side(writer: Writer, scope: Scope, hits: Hits, at: Moment | None) -> Hits:
    """Return hits, each followed by the existing facts that contradict it.

    A fact whose contradicting facts are all gone is shown as a plain fact.
    """
    if not any(hit.item.metadata.get(CONTRADICTS) for hit in hits):
        return hits
    hits_by_ref: dict[Ref, Hit] = {}
    for hit in hits:
        item, ids = hit.item, hit.item.metadata.get(CONTRADICTS)
        others = _contradicting(writer, SetRef(scope, item.set_name or ""), ids, at)
        if isinstance(ids, list):
            metadata = {**item.metadata, CONTRADICTS: [other.id for other in others]}
            hit = replace(hit, item=replace(item, metadata=metadata))  # noqa: PLW2901 - as shown
        hits_by_ref.setdefault((item.set_name, item.id), hit)
        for other in others:
            beside = Hit(other, hit.score, {}, hit.relevance)
            hits_by_ref.setdefault((other.set_name, other.id), beside)
    return Hits(
        hits_by_ref.values(),
        partial=hits.partial,
        reranker_failure=hits.reranker_failure,
        dated=hits.dated,
    )


def _contradicting(writer: Writer, ref: SetRef, ids: object, at: Moment | None) -> list[Item]:
    """Return the live facts among *ids* that were not superseded."""
    id_list = cast("list[object]", ids) if isinstance(ids, list) else []
    names = [one for one in id_list if isinstance(one, str)]
    stored_items = writer.get(ref, names, at=at) if names else []
    items = [item_of(stored) for stored in stored_items if stored is not None]
    return [item for item in items if item.valid_to is None]


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

SEARCHED: tuple[Part, ...] = ("items", "knowledge")
"""The parts that searches fill. A part that fits whole is shown whole, before shares."""

OFFERED: tuple[Part, ...] = ("blocks", "recent", "items", "knowledge", "profile", "exact")
"""The order in which parts are offered the tokens left at the end."""

CUT_TOKENS, CUT_SHARE = 150, 8
"""A piece with more than 150 tokens and more than 1/8 of the room is cut."""

SMALLEST_LINE = 6
"""With fewer tokens left, no further line is tried."""

LEFT_OUT = 50
"""The most left-out pieces that a context explains."""

_REASONS: Mapping[Part, str] = {
    "blocks": "a block that was asked for",
    "profile": "always told",
    "exact": "named by its path",
    "knowledge": "found in knowledge",
    "recent": "one of the last exchanges",
    "items": "found in the key's sets",
}

_AMONG: Mapping[Part, str] = {"recent": "among the last exchanges", "profile": "in the profile"}

CUT_REASON = "; only a part is shown, since the whole is long"


def assembled(sources: Sources, request: ContextRequest) -> Context:
    """Return the prompt for a request.

    Raises:
        BudgetTooSmall: The instructions and the query alone exceed the budget.
    """
    request = replace(request, budget=request.budget.remembering())
    request = request.for_reader(sources.writer.timezone, sources.writer.now())
    room = _room(request)
    at = None if request.as_of is None else sources.writer.moment_of(request.as_of)
    conversation = prompt_sources.recent(sources, request, at, room)
    search = MemorySearch(sources, request, at, room)
    found: dict[Part, Found] = {"items": search.items(), "knowledge": search.knowledge()}
    candidates: dict[Part, list[PromptCandidate]] = {
        "blocks": prompt_sources.blocks(sources, request),
        "profile": prompt_sources.profile(sources, request),
        "exact": prompt_sources.exact_values(sources, request),
        "knowledge": found["knowledge"].candidates,
        "recent": conversation.exchanges,
        "items": [hit for hit in found["items"].candidates if not hit.refs & conversation.query],
    }
    choice = _Choice(request, candidates, room)
    choice.make()
    unnamed = prompt_sources.unnamed_exact_values(sources, request)
    absent = choice.explain_absence(found, has_unnamed=bool(unnamed))
    left_out = [*absent, *unnamed, *conversation.left_out]
    return _context(choice, left_out, [one.hits for one in found.values()])


def _room(request: ContextRequest) -> int | None:
    """Return the tokens left by the instructions and the query, for messages and for text."""
    messages, text = _rendered(request, ())
    room = request.budget.remaining(messages)
    most = request.budget.tokens
    if room is None or most is None:
        return None
    size = request.budget.count(text)
    if size > most:
        raise BudgetTooSmall(most, size)
    return room


# --- choosing pieces --------------------------------------------------------------------------


class _Choice:
    """Chooses among candidates.

    Attributes:
        taken: The chosen candidates, in the order of choice.
        absence: Why the prompt shows nothing from memory, as a sentence; "" if it shows some.
    """

    def __init__(
        self,
        request: ContextRequest,
        by_part: Mapping[Part, Sequence[PromptCandidate]],
        room: int | None,
    ) -> None:
        self.request, self.candidates, self._tokens_left = request, by_part, room
        self.taken: list[PromptCandidate] = []
        self.absence = ""
        self.reasons: dict[int, str] = {
            id(candidate): candidate.left_out
            for candidates in by_part.values()
            for candidate in candidates
            if candidate.left_out
        }
        self._texts = TakenTexts()
        self._days: set[tuple[Part, str]] = set()
        self._most_of_one = max(CUT_TOKENS, (room or 0) // CUT_SHARE)

    def make(self) -> None:
        """Choose the newest exchange, whole sets, a share for each part, and then the rest."""
        self._cut_exchanges()
        self._take("recent", self.candidates["recent"][:1], self._tokens_left)
        frame = self._frame()
        if self._tokens_left is None:
            self._each(OFFERED)
        elif frame < self._tokens_left:
            self._tokens_left -= frame
            for part in SEARCHED:
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
            self._drop(self.taken[-1], "there is no room for it, all taken together")

    def explain_absence(self, searches: Mapping[Part, Found], *, has_unnamed: bool) -> list[Piece]:
        """Return a left-out piece that says why nothing from memory is shown, if so.

        Without tokens for the reason, only the fact is stated.
        Shown exchanges are memory: beside them, only withheld hits are worth a sentence.

        Args:
            has_unnamed: Whether exact values exist that the request does not name.
        """
        found: dict[Part, Found] = {
            part: one for part, one in searches.items() if one.problem or one.candidates
        }
        if not found or any(candidate.line for candidate in self.taken):
            return []
        part = max(found, key=lambda part: bool(found[part].candidates))
        withheld = bool(found[part].candidates and found[part].problem)
        if self.taken and not withheld:
            return []
        problem = found[part].problem
        if not problem:
            fits = "what was found does not fit into the budget"
            problem = fits if self.candidates[part] else "it holds nothing but the query"
        if has_unnamed and not withheld:
            problem += "; exact values are shown only when asked for"
        for self.absence in (f"{ABSENCE}: {problem}.", f"{ABSENCE}.", ""):
            if self._fits():
                break
        return [] if withheld else [Piece(part, "", "", shown=False, reason=problem)]

    def _use_what_was_overestimated(self) -> None:
        """Take more lines if all taken lines together have fewer tokens than their sum."""
        if self._tokens_left is None or self.request.budget.tokens is None or not self._days:
            return
        self._tokens_left = max(self._tokens_left, self.request.budget.tokens - self._used())
        self._each(("items", "knowledge", "exact"))

    def _cut_exchanges(self) -> None:
        """Cut long messages that would use the tokens of other parts.

        The newest exchange stays whole if it fits in the conversation's share.
        """
        shares, budget = self._shares(), self.request.budget
        if self._tokens_left is None or "recent" not in shares or len(shares) == 1:
            return
        newest, *others = self.candidates["recent"]
        share = shares["recent"] / (sum(shares.values()) or 1)
        if self.size(newest) > self._tokens_left * share:
            newest.cut_messages(budget, self._most_of_one)
        for candidate in others:
            candidate.cut_messages(budget, self._most_of_one)

    def _show_whole_exchanges(self) -> None:
        """Restore cut exchanges, newest first, while tokens remain."""
        for candidate in self.taken:
            if self._tokens_left is None or not (candidate.is_cut and candidate.messages):
                continue
            cut = self.size(candidate)
            candidate.show_whole()
            more = self.size(candidate) - cut
            if more > self._tokens_left:
                candidate.cut_messages(self.request.budget, self._most_of_one)
            else:
                self._tokens_left -= more
        self._drop_repeated()

    def size(self, candidate: PromptCandidate) -> int:
        """Return the number of tokens of a piece."""
        budget = self.request.budget
        return (
            budget.size(candidate.messages)
            if candidate.messages
            else budget.count(f"{candidate.line}\n")
        )

    def _frame(self) -> int:
        """Return the tokens of the quotation without its lines."""
        headings = [name for part, name in REMEMBERED.items() if self.candidates[part]]
        budget = self.request.budget
        lines = [self.request.opening, BEGIN, *(f"{name}:" for name in headings), END]
        lead = 0 if self.request.system else budget.message_tokens
        return sum(budget.count(f"{line}\n") for line in lines) + lead if headings else 0

    def _shares(self) -> dict[Part, float]:
        return {
            part: getattr(self.request.shares, part) for part in DIVIDED if self.candidates[part]
        }

    def _share(self, room: int) -> None:
        shares = self._shares()
        total, unused = sum(shares.values()), 0
        for part, share in shares.items():
            most = int(room * share / total) + unused if total else 0
            unused = most - self._take(part, self.candidates[part], most)

    def _each(self, parts: Sequence[Part]) -> None:
        for part in parts:
            self._take(part, self.candidates[part], self._tokens_left)
            if part == "recent":
                self._drop_repeated()

    def _take(self, part: Part, candidates: Sequence[PromptCandidate], most: int | None) -> int:
        """Take candidates up to *most* tokens, exchanges without gaps; return the tokens taken."""
        used, taken_ids = 0, {id(candidate) for candidate in self.taken}
        for candidate in candidates:
            if id(candidate) in taken_ids or id(candidate) in self.reasons:
                continue
            if most is not None and self._is_long(candidate):
                room = min(most - used, self._most_of_one)
                if room < self._most_of_one / 2:
                    continue
                candidate.cut_line(self.request, room)
            cost = self._cost(candidate)
            if most is not None and used + cost > most:
                if part == "recent" or most - used < SMALLEST_LINE:
                    break
                continue
            if reason := self._texts.repeats(candidate):
                self.reasons[id(candidate)] = reason
                continue
            self.taken.append(candidate)
            self._texts.add(candidate)
            self._days.add((part, candidate.day))
            used += cost
        if self._tokens_left is not None:
            self._tokens_left -= used
        return used

    def _is_long(self, candidate: PromptCandidate) -> bool:
        is_hit = candidate.hit is not None and not (candidate.is_cut or candidate.is_whole)
        return is_hit and self.size(candidate) > self._most_of_one

    def _cost(self, candidate: PromptCandidate) -> int:
        """Return the tokens that a piece adds, with the heading of its day if it is the first."""
        size = self.size(candidate)
        if candidate.day and (candidate.piece.part, candidate.day) not in self._days:
            size += self.request.budget.count(f"{candidate.day}\n")
        return size

    def _drop_repeated(self) -> None:
        """Drop hits that later-taken exchanges or the profile repeat."""
        shown_in: dict[tuple[str | None, str | None], Part] = {
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
        self.taken = [one for one in self.taken if one is not candidate]
        self.reasons[id(candidate)] = reason
        if self._tokens_left is not None:
            self._tokens_left += self.size(candidate)

    def _fits(self) -> bool:
        budget = self.request.budget
        if budget.tokens is None:
            return True
        return self._used() <= budget.tokens

    def _used(self) -> int:
        """Return the tokens of the messages or of the text, whichever is more."""
        messages, text = _rendered(self.request, self.taken, self.absence)
        return max(self.request.budget.size(messages), self.request.budget.count(text))


# --- repeated texts ---------------------------------------------------------------------------


class TakenTexts:
    """The texts that are in a prompt so far, to find hits that repeat them."""

    def __init__(self) -> None:
        self._refs: dict[tuple[str | None, str | None], str] = {}  # item: why it repeats
        self._taken: dict[frozenset[str], list[_TakenText]] = {}

    def add(self, candidate: PromptCandidate) -> None:
        """Record a taken piece."""
        piece = candidate.piece
        if candidate.hit is not None:
            self._note(_TakenText(piece, piece.text, candidate.hit.item.speaker))
            return
        if candidate.refs:
            reason = f"it is {_AMONG[piece.part]}: {piece.source}"
            self._refs.update(dict.fromkeys(candidate.refs, reason))
        for message in candidate.messages:
            self._note(_TakenText(piece, message.content, None))

    def repeats(self, candidate: PromptCandidate) -> str | None:
        """Return which text already says the same as a hit, in words; None if none does."""
        if candidate.hit is None:
            return None
        among = next((self._refs[ref] for ref in candidate.refs if ref in self._refs), None)
        if among is not None:
            return among
        piece, speaker = candidate.piece, candidate.hit.item.speaker
        mine = _TakenText(piece, piece.text, speaker)
        for taken in self._taken.get(frozenset(anchor_words(piece.text)), ()):
            is_message = taken.piece.part == "recent"
            if (is_message or taken.speaker == speaker) and mine.says_the_same(taken):
                if is_message:
                    return f"it is among the last exchanges: {taken.piece.source}"
                return f"it says what {taken.piece.source} says"
        return None

    def _note(self, text: _TakenText) -> None:
        self._taken.setdefault(frozenset(anchor_words(text.text)), []).append(text)


class _TakenText:
    """A text of a prompt that hits are compared with; parsed at the first comparison."""

    def __init__(self, piece: Piece, text: str, speaker: str | None) -> None:
        self.piece, self.text, self.speaker = piece, text, speaker

    @lazy_attribute
    def statement(self) -> Statement:
        """The parsed statement of the text."""
        return statement(self.text)

    def says_the_same(self, other: _TakenText) -> bool:
        """Return whether another text says the same; "today" matches only on the same day."""
        if not self.statement.says_the_same(other.statement):
            return False
        mine, theirs = self.piece.time, other.piece.time
        return not self.statement.is_relative or (mine and mine.date()) == (
            theirs and theirs.date()
        )


# --- rendering --------------------------------------------------------------------------------


def _in_order(taken: Sequence[PromptCandidate], part: Part) -> list[PromptCandidate]:
    """Return a part's pieces in order: exchanges and items by time, exact values by rank."""
    of_part = [candidate for candidate in taken if candidate.piece.part == part]
    if part == "recent":
        return sorted(of_part, key=lambda candidate: candidate.order)
    if part in ("blocks", "profile", "exact"):
        return sorted(of_part, key=lambda candidate: candidate.piece.rank)
    return sorted(of_part, key=lambda candidate: (candidate.piece.time, candidate.piece.rank))


def _lines(candidates: Sequence[PromptCandidate]) -> Iterator[str]:
    """Yield the lines of a part, with a heading for each day."""
    day = ""
    for candidate in candidates:
        if candidate.day and candidate.day != day:
            yield candidate.day
        day = candidate.day
        yield candidate.line


def _rendered(
    request: ContextRequest, taken: Sequence[PromptCandidate], absence: str = ""
) -> tuple[list[Message], str]:
    """Return a prompt as messages and as text."""
    lead = [] if request.system is None else [request.system]
    quotation: list[str] = []
    for part, heading in REMEMBERED.items():
        if of_part := _in_order(taken, part):
            quotation += [f"{heading}:", *_lines(of_part)]
    if quotation:
        lead.append("\n".join([request.opening, BEGIN, *quotation, END]))
    elif absence:
        lead.append(absence)
    exchanges = [
        message for candidate in _in_order(taken, "recent") for message in candidate.messages
    ]
    messages = [Message("\n\n".join(lead), "system")] if lead else []
    messages += exchanges
    if exchanges:
        lead.append("\n".join([SAID, *(f"{one.role}: {quoted(one.content)}" for one in exchanges)]))
    if request.query is not None:
        messages.append(Message(request.query))
        lead.append(request.query)
    return messages, "\n\n".join(lead)


def _context(choice: _Choice, left_out: Sequence[Piece], hits: Sequence[Hits]) -> Context:
    request, budget = choice.request, choice.request.budget
    messages, text = _rendered(request, choice.taken, choice.absence)
    taken_ids = {id(candidate) for candidate in choice.taken}
    why: list[Piece] = []
    if request.system is not None:
        why.append(_given("system", request.system, choice))
    for part in (*REMEMBERED, "recent"):
        for candidate in _in_order(choice.taken, part):
            reason = SHOWN_WHOLE if candidate.is_whole else _REASONS[part]
            reason += CUT_REASON if candidate.is_cut else ""
            size = choice.size(candidate)
            why.append(replace(candidate.piece, shown=True, reason=reason, tokens=size))
    if request.query is not None:
        why.append(_given("query", request.query, choice))
    missing = [
        candidate
        for part in DIVIDED
        for candidate in choice.candidates[part]
        if id(candidate) not in taken_ids
    ]
    out = [
        replace(
            candidate.piece,
            reason=choice.reasons.get(id(candidate), "there is no room for it"),
            tokens=choice.size(candidate),
        )
        for candidate in missing[:LEFT_OUT]
    ]
    out += left_out[: LEFT_OUT - len(out)]
    return Context(
        [message.to_chat() for message in messages],
        text,
        budget.size(messages),
        budget.tokens,
        (*why, *out),
        more=len(missing) + len(left_out) - len(out),
        partial=any(hits_of.partial for hits_of in hits),
        reranker_failure=next(
            (hits_of.reranker_failure for hits_of in hits if hits_of.reranker_failure), None
        ),
    )


def _given(part: Part, text: str, choice: _Choice) -> Piece:
    size = choice.request.budget.size([Message(text)])
    return Piece(part, "", text, shown=True, reason="passed in", tokens=size)
