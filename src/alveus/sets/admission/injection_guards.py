"""Phrases of prompt injection that are none: forbidden, told of somebody, quoted as an example."""

from __future__ import annotations

import re
from bisect import bisect_right

from alveus.values.lazy import lazy_attribute

_FORBIDS = re.compile(
    r"(?:\b(?:never|not|don't|doesn't|didn't|won't|mustn't|shouldn't|cannot|can't|nobody|nie"
    r"|niemals"
    r"|nicht|jamais|nunca|jamas|nao|non|mai|no|ne|niet|nooit|nigdy|aldrig|inte|jangan|dung)"
    r"(?: (?:ever|just|simply|be|to|mai))? |n'|\bне |\bніколи не |\bникогда не "
    r"|لا |不要|别|別|勿|切勿|不可"
    r"|不得|不能|मत )$"
)
_FORBIDS_AFTER = re.compile(
    r"^\S+ (?:bitte |sie )?(?:nicht|niemals|pas|jamais|niet|nooit|inte|nie)\b(?! mehr)|(?:しない"
    r"|하지 ?마|मत|ないで)"
)
_TELLS = re.compile(
    r"\b(?:i|he|she|we|they|it|who|which|that|people|children|users|models|robots|bots|agents"
    r"|attackers)"
    r"(?: (?:always|often|never|sometimes|usually|may|might|can|could|will|would|do|did|to))? $"
)

_QUOTES = re.compile(
    r"\"[^\"\n]{2,300}\"|\u201c[^\u201d\n]{2,300}\u201d|`[^`\n]{2,300}`"
    r"|\u00ab[^\u00bb\n]{2,300}\u00bb|(?<!\w)'[^'\n]{4,300}'(?!\w)"
)
_TOPIC = re.compile(
    r"\b(?:injections?|attack\w*|jailbreaks?|phrases?|examples?|filters?|hackers?|exploits?"
    r"|known as"
    r"|angriff\w*|beispiel\w*|attaques?|exemples?|ataques?|ejemplos?|attacchi|esempi\w?)\b|攻击|攻撃"
    r"|атак"
)


def is_opposed(form: str, match: re.Match[str]) -> bool:
    """Return whether what a phrase tells to do is forbidden, or told of somebody who does it."""
    before = form[max(0, match.start() - 28) : match.start()]
    if _FORBIDS.search(before) or _TELLS.search(before):
        return True
    return _FORBIDS_AFTER.search(form[match.start() : match.end() + 8]) is not None


class Examples:
    """What stands in quotes in a text that, besides, speaks of attacks."""

    def __init__(self, form: str) -> None:
        self._form = form

    def __contains__(self, found: re.Match[str]) -> bool:
        at = bisect_right(self._quoted, (found.start(), len(self._form))) - 1
        return at >= 0 and found.end() <= self._quoted[at][1]

    @lazy_attribute
    def _quoted(self) -> list[tuple[int, int]]:
        if not _TOPIC.search(self._form) or not _TOPIC.search(_QUOTES.sub("", self._form)):
            return []
        return [quoted.span() for quoted in _QUOTES.finditer(self._form)]
