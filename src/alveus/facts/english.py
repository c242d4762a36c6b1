"""English statements in the third person."""

from __future__ import annotations

import re

_BASE = (
    "adore|avoid|believe|belong|bring|buy|call|care|carry|collect|come|cook|dance|dislike|"
    "draw|dream|drink|drive|eat|enjoy|expect|feel|find|follow|get|give|go|grow|hate|have|hear|"
    "help|hike|hope|intend|keep|know|lead|learn|like|listen|live|look|love|make|manage|mean|"
    "meet|miss|move|need|own|paint|plan|play|practice|practise|prefer|read|rent|ride|run|say|"
    "see|sell|serve|share|sing|skip|sleep|speak|spend|start|stay|struggle|study|suffer|"
    "support|swim|take|talk|teach|tell|tend|think|travel|try|understand|use|value|visit|"
    "volunteer|wait|walk|want|watch|wear|wish|wonder|work|worry|write"
)
"""Verbs that take an s in the third person."""

_IRREGULAR = {"have": "has", "go": "goes"}

_ADVERB = r"(?:(?:no longer|also|still|just|always|often|sometimes|never|\w+ly) )*"

_VERB = re.compile(rf"\A({_ADVERB})({_BASE})\b", re.IGNORECASE)

_PRONOUN = re.compile(
    r"\b(?:I(?:'m| am)|I've|I'll|I'd|I(?: do|(?= don't))|I|[Mm]y|[Mm]ine|[Mm]yself|[Mm]e)\b(?:n't)?"
)
_IS = re.compile(r"\b([A-Z]\w+)'s (?=(?:my|our|an?|the)\b)")
"""Ada's my sister: is, and not the mark of what is hers."""

_CONTRACTED = {"I'm": "is", "I am": "is", "I've": "has", "I'll": "will", "I'd": "would"}


def in_third_person(sentence: str, name: str) -> str:
    """Return a sentence of a speaker with the name in place of I, my and me."""
    sentence = _IS.sub(r"\1 is ", sentence)
    made: list[str] = []
    at = 0
    for match in _PRONOUN.finditer(sentence):
        made.append(sentence[at : match.start()])
        at = match.end()
        word = match[0]
        if word in _CONTRACTED:
            made.append(f"{name} {_CONTRACTED[word]}")
        elif word.lower() in ("my", "mine"):
            made.append(f"{name}'s")
        elif word == "I do":
            made.append(f"{name} does")
        elif word == "I":
            made.append(name)
            rest = sentence[at:]
            if rest.startswith(" don't"):
                made.append(" doesn't")
                at += len(" don't")
            elif verb := _VERB.match(rest[1:]):
                made.append(f" {verb[1]}{_third(verb[2])}")
                at += 1 + verb.end()
        else:
            made.append(name)
    made.append(sentence[at:])
    return "".join(made)


def _third(verb: str) -> str:
    word = verb.lower()
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    if re.search(r"[^aeiou]y\Z", word):
        return f"{word[:-1]}ies"
    return f"{word}es" if re.search(r"(?:s|sh|ch|x|z|o)\Z", word) else f"{word}s"
