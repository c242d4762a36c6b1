"""What a prompt says already: items that say the same are shown once."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from fornix.memory.prompt.prompt_sources import PromptCandidate
from fornix.sets.admission.duplicates import agree
from fornix.sets.admission.verdicts import jaccard, plain
from fornix.values import words

ALIKE = 0.8
"""Share of common words from which on two items say the same, as `admission.Near` has it."""


@dataclass(frozen=True, slots=True)
class _Hit:
    """A hit that was taken, as others are compared with it."""

    source: str
    text: str
    terms: set[int]


class TakenTexts:
    """What was taken into a prompt so far, as far as a hit may repeat it."""

    def __init__(self) -> None:
        self._refs: dict[tuple[str | None, str | None], str] = {}
        self._messages: dict[str, str] = {}
        self._texts: dict[tuple[str | None, str], str] = {}
        self._holders: dict[tuple[str | None, int], list[_Hit]] = {}

    def add(self, candidate: PromptCandidate) -> None:
        """Note that a piece was taken."""
        source = candidate.piece.source
        if candidate.hit is None:
            self._refs.update(dict.fromkeys(candidate.refs, source))
            self._messages.update(
                {plain(message.content): source for message in candidate.messages}
            )
            return
        speaker, text = candidate.hit.item.speaker, candidate.piece.text
        self._texts.setdefault((speaker, plain(text)), source)
        hit = _Hit(source, text, set(words.terms(text)))
        for term in _compared_terms(hit.terms):
            self._holders.setdefault((speaker, term), []).append(hit)

    def repeats(self, candidate: PromptCandidate) -> str | None:
        """Return what says already what a hit says, in words; None: nothing does."""
        if candidate.hit is None:
            return None
        text, speaker = candidate.piece.text, candidate.hit.item.speaker
        bare = plain(text)
        among = next((self._refs[ref] for ref in candidate.refs if ref in self._refs), None)
        if among := among or self._messages.get(bare):
            return f"it is among the last exchanges: {among}"
        same = self._texts.get((speaker, bare)) or self._near(text, speaker)
        return None if same is None else f"it says what {same} says"

    def _near(self, text: str, speaker: str | None) -> str | None:
        terms = set(words.terms(text))
        for term in _compared_terms(terms):
            for hit in self._holders.get((speaker, term), ()):
                if jaccard(terms, hit.terms) >= ALIKE and agree(text, hit.text):
                    return hit.source
        return None


def _compared_terms(terms: set[int]) -> list[int]:
    """Return terms of which two texts that are alike have at least one in common.

    Of n terms they share the larger part, so that not all of the first few can be missing.
    """
    return sorted(terms)[: len(terms) - ceil(ALIKE * len(terms)) + 1]
