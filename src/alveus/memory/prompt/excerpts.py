"""Parts of texts that are too long for a prompt: what matches, or the beginning and the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from math import log

from alveus.text.budget import Budget
from alveus.text.statements import sentences
from alveus.values import words

CUT = "…"
"""Stands for what an excerpt leaves out."""

LONGEST_LINE = 400
"""Characters of a line that is shown or left out as a whole; a longer one is split in sentences."""

HEAD = 2 / 3
"""Share of a shortened message that is its beginning; the rest is its end."""

Span = tuple[int, int]


def passages(text: str, terms: frozenset[int], budget: Budget, most: int) -> str:
    """Return the lines and sentences of *text* that match, of about *most* tokens.

    They stand in their order, with `CUT` for what is left out between them. A term counts more the
    fewer of them have it. The beginning is preferred among equals, and is shown if nothing matches.
    """
    spans, room = list(_spans(text)), _characters(text, budget, most)
    weights = _weights([text[start:end] for start, end in spans], terms)
    chosen = list[Span]()
    for place in sorted(range(len(spans)), key=lambda place: (-weights[place], place)):
        start, end = spans[place]
        size = end - start + len(CUT) + 1
        if size <= room:
            chosen.append((start, end))
            room -= size
    return _joined(text, sorted(chosen) or _beginning(text, room))


def head_and_tail(text: str, budget: Budget, most: int) -> str:
    """Return *text*, or its first and last lines and sentences, of about *most* tokens.

    What a message begins with says what it is about; it may end with a question that the next
    message answers.
    """
    if budget.count(text) <= most:
        return text
    spans, room = list(_spans(text)), _characters(text, budget, most)
    head = [span for span in spans if span[1] <= room * HEAD] or _beginning(text, int(room * HEAD))
    tail = [span for span in spans if len(text) - span[0] <= room - head[-1][1]]
    return _joined(text, [*head, *tail])


def _characters(text: str, budget: Budget, most: int) -> int:
    """Return how many characters of *text* have about *most* tokens."""
    return int(len(text) * most / max(1, budget.count(text)))


def _beginning(text: str, room: int) -> list[Span]:
    """Return the first words of a text, or of a very long word the beginning."""
    space = text.rfind(" ", room // 2, room)
    return [(0, room if space < 0 else space)]


def _spans(text: str) -> Iterator[Span]:
    """Yield where the lines of a text are, and of long lines the sentences."""
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
    """Return what each part is worth: its terms, by how few of the parts have them."""
    shared = [terms.intersection(words.terms(part)) for part in parts]
    counts = Counter(term for each in shared for term in each)
    return [sum(log(1 + len(parts) / counts[term]) for term in each) for each in shared]


def _joined(text: str, spans: Sequence[Span]) -> str:
    """Return parts of a text in their order, with `CUT` where words are left out."""
    shown, before = "", 0
    for start, end in [*spans, (len(text), len(text))]:
        between = text[before:start]
        shown += f" {CUT} " if between.strip() else between
        shown += text[start:end]
        before = end
    return shown.strip()
