"""Cuts long texts for a prompt: to what matches a query, or to beginning and end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from math import log

from alveus.text.budget import Budget
from alveus.text.statements import sentences
from alveus.values import words

CUT = "…"
"""The mark of omitted text in an excerpt."""

LONGEST_LINE = 400
"""The most characters of a line that stays whole; a longer line is split in sentences."""

HEAD = 2 / 3
"""The share of a shortened message that its beginning gets; its end gets the rest."""

_Span = tuple[int, int]


def passages(text: str, terms: frozenset[int], budget: Budget, most: int) -> str:
    """Return the lines and sentences of *text* that match *terms* best, about *most* tokens.

    The chosen parts keep their order, with `CUT` for omitted text. A term weighs more if fewer
    parts contain it. Of parts with equal weight, the earlier is chosen first; if no part matches,
    the beginning of *text* is returned.
    """
    spans, room = list(_spans(text)), _characters(text, budget, most)
    weights = _weights([text[start:end] for start, end in spans], terms)
    chosen = list[_Span]()
    for at in sorted(range(len(spans)), key=lambda at: (-weights[at], at)):
        start, end = spans[at]
        size = end - start + len(CUT) + 1
        if size <= room:
            chosen.append((start, end))
            room -= size
    return _joined(text, sorted(chosen) or _beginning(text, room))


def head_and_tail(text: str, budget: Budget, most: int) -> str:
    """Return *text*, or if it is longer, its first and last parts, with about *most* tokens.

    The beginning of a message states its subject; the end may be a question that the next message
    answers.
    """
    if budget.count(text) <= most:
        return text
    spans, room = list(_spans(text)), _characters(text, budget, most)
    head = [span for span in spans if span[1] <= room * HEAD] or _beginning(text, int(room * HEAD))
    tail = [span for span in spans if len(text) - span[0] <= room - head[-1][1]]
    return _joined(text, [*head, *tail])


def _characters(text: str, budget: Budget, most: int) -> int:
    """Return the number of characters of *text* that have about *most* tokens."""
    return int(len(text) * most / max(1, budget.count(text)))


def _beginning(text: str, room: int) -> list[_Span]:
    """Return the span of the first words of a text, about *room* characters.

    A very long word is cut.
    """
    space = text.rfind(" ", room // 2, room)
    return [(0, room if space < 0 else space)]


def _spans(text: str) -> Iterator[_Span]:
    """Yield the spans of a text's lines; of long lines, the spans of their sentences."""
    start = 0
    for line in text.splitlines(keepends=True):
        if len(line) > LONGEST_LINE:
            for sentence in sentences(line):
                yield start + sentence.start, start + sentence.end
        elif bare := line.strip():
            begin = start + line.index(bare)
            yield begin, begin + len(bare)
        start += len(line)


def _weights(parts: Sequence[str], terms: frozenset[int]) -> list[float]:
    """Return the weight of each part: the sum of the weights of its *terms*.

    A term weighs more if fewer parts contain it.
    """
    shared = [terms.intersection(words.terms(part)) for part in parts]
    counts = Counter(term for each in shared for term in each)
    return [sum(log(1 + len(parts) / counts[term]) for term in each) for each in shared]


def _joined(text: str, spans: Sequence[_Span]) -> str:
    """Return parts of a text in their order, with `CUT` between parts that are not adjacent."""
    shown, before = "", 0
    for start, end in [*spans, (len(text), len(text))]:
        between = text[before:start]
        shown += f" {CUT} " if between.strip() else between
        shown += text[start:end]
        before = end
    return shown.strip()
