"""Where a text has keys and tokens of many services, private keys, and numbers of cards.

- `secret_formats.toml` says what the keys and tokens look like, and where each form is described.
- Private keys: RFC 7468.
- Cards: ISO/IEC 7812: issuers' ranges, lengths, and the check digit (Luhn).
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib import resources

from alveus.sets.admission.secret_values import is_placeholder
from alveus.values.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class SecretSpan:
    """Where a secret stands in a text.

    Attributes:
        start: Its first character.
        end: After its last one.
        kind: What it looks like: "GitHub token", "password" ….
    """

    start: int
    end: int
    kind: str


@cache
def _formats() -> tuple[tuple[str, str, str], ...]:
    """Return what a text with a secret of a service has in it, the kind, and a pattern.

    To look for the first in a text costs next to nothing, and most patterns are never compiled.
    """
    text = resources.files(__package__).joinpath("secret_formats.toml").read_text(encoding="utf-8")
    return tuple(
        (hint, form["kind"], form["pattern"])
        for form in tomllib.loads(text)["formats"]
        for hint in form["hints"].split()
    )


_BLOCKS = (
    (
        r"-----BEGIN (?:[A-Z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)?-----",
        r"-----END [A-Z0-9 ]{1,40}-----",
    ),
    (r"PuTTY-User-Key-File-\d:", r"Private-MAC: \w+"),
)
"""How a block with a private key begins, and ends."""

LONGEST_BLOCK = 20_000
"""Characters within which the end of a block is looked for."""

_ENCODED = r"(?:(?:\s|\\[rn])*[A-Za-z0-9+/=]{16,})*"

_CARD = r"(?<![\w.,:+-])[0-9](?:[ -]?[0-9]){12,18}(?![\w-])(?![.,:][0-9])"

_ISSUERS = (
    r"4(?:\d{12}|\d{15}|\d{18})|(?:5[1-5]\d\d|222[1-9]|22[3-9]\d|2[3-6]\d\d|27[01]\d|2720)\d{12}"
    r"|3[47]\d{13}|(?:6011|65\d\d|64[4-9]\d)\d{12}|35(?:2[89]|[3-8]\d)\d{12}"
    r"|3(?:0[0-5]|[68]\d)\d{11}|62\d{14,17}"
)


_compiled = cache(re.compile)


def known_formats(text: str) -> Iterator[SecretSpan]:
    """Yield where *text* has what a service, a standard or a tool says a secret looks like."""
    for hint, kind, pattern in _formats():
        if hint not in text:
            continue
        for found in _compiled(pattern).finditer(text):
            group = found.lastindex or 0
            if not is_placeholder(found[group]):
                yield SecretSpan(found.start(group), found.end(group), kind)


def private_keys(text: str) -> Iterator[SecretSpan]:
    """Yield where *text* has blocks with private keys, up to their end as far as it is there."""
    for begin, end in _BLOCKS:
        ends, after = _compiled(end).finditer(text), 0
        last = next(ends, None)
        for found in _compiled(begin).finditer(text):
            if found.start() < after:
                continue
            while last is not None and last.start() < found.end():
                last = next(ends, None)
            if last is not None and last.end() <= found.end() + LONGEST_BLOCK:
                after = last.end()
            else:
                after = (_compiled(_ENCODED).match(text, found.end()) or found).end()
            yield SecretSpan(found.start(), after, "private key")


def cards(text: str) -> Iterator[SecretSpan]:
    """Yield where *text* has numbers of payment cards."""
    for found in _compiled(_CARD).finditer(text):
        if is_card(found[0]):
            yield SecretSpan(found.start(), found.end(), "card number")


def is_card(text: str) -> bool:
    """Return whether a run of digits, spaces and hyphens is the number of a payment card."""
    digits = re.sub("[ -]", "", text)
    if not _compiled(_ISSUERS).fullmatch(digits) or len(set(digits)) == 1:
        return False
    doubled = (
        sum(divmod(2 * int(digit), 10)) if at % 2 else int(digit)
        for at, digit in enumerate(reversed(digits))
    )
    return sum(doubled) % 10 == 0
