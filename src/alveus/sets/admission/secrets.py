"""Secrets in texts: keys and tokens, passwords in settings or sentences, private keys, cards.

- `secret_formats.toml` has the documented formats of keys and tokens.
- `secret_words.toml` has the names that precede other secrets, and placeholders.
- Private keys: RFC 7468. Cards: ISO/IEC 7812: issuers' ranges, lengths, and the check digit (Luhn).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from functools import cache
from hashlib import blake2b, sha256
from typing import TypeAlias

from alveus.sets.admission.disguises import Plain, unbroken, unspelled, unveiled_with_positions
from alveus.values.lazy import data_file
from alveus.values.lazy_dataclass import dataclass

PACKAGE = "alveus.sets.admission"

KNOWN_TEXTS = 20_000
"""Most texts in each of the two generations of the cache of secrets: about 5 MB."""

LONGEST_BLOCK = 20_000
"""Most characters of a private key up to its end line."""

LEAST_PASSWORD, LEAST_KEY = 6, 16
"""Fewest characters of a password and of a key."""

LEAST_WORDS, MOST_WORDS = 4, 12
"""Fewest and most words of a passphrase."""

LONGEST = 300
"""Most characters of a value that are checked. A secret's span still covers the whole value."""

_BLOCKS = (
    (
        r"-----BEGIN (?:[A-Z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)?-----",
        r"-----END [A-Z0-9 ]{1,40}-----",
    ),
    (r"PuTTY-User-Key-File-\d:", r"Private-MAC: \w+"),
)
"""The first and the last line of a private key."""

_ENCODED = r"(?:(?:\s|\\[rn])*[A-Za-z0-9+/=]{16,})*"

_CARD = r"(?<![\w.,:+-])[0-9](?:[ -]?[0-9]){12,18}(?![\w-])(?![.,:][0-9])"

_ISSUERS = (
    r"4(?:\d{12}|\d{15}|\d{18})|(?:5[1-5]\d\d|222[1-9]|22[3-9]\d|2[3-6]\d\d|27[01]\d|2720)\d{12}"
    r"|3[47]\d{13}|(?:6011|65\d\d|64[4-9]\d)\d{12}|35(?:2[89]|[3-8]\d)\d{12}"
    r"|3(?:0[0-5]|[68]\d)\d{11}|62\d{14,17}"
)


@dataclass(frozen=True, slots=True)
class SecretSpan:
    """The position of a secret in a text.

    Attributes:
        start: The index of the first character of the secret.
        end: The index after its last character.
        kind: The kind of secret, such as "GitHub token" or "password".
    """

    start: int
    end: int
    kind: str


Search: TypeAlias = Callable[[str], Iterator[SecretSpan]]
"""A function that finds the secrets of some kinds in a text."""


def secrets(text: str) -> Iterator[str]:
    """Yield the kind of each secret in *text*."""
    for _, _, kind in _secret_spans(text):
        yield kind


def secret_spans(text: str) -> tuple[SecretSpan, ...]:
    """Return the spans of the secrets in *text*, in order; overlapping spans are merged.

    If all characters in the spans are removed, the rule `Secrets` finds no secret in the rest. A
    span excludes the name, the quotes and the words around a secret; it includes invisible
    characters, gaps and line ends within the secret.
    """
    return _known_spans().of(text)


class KnownSpans:
    """A cache of the spans of secrets, by a keyed digest of each text.

    The cache keeps no text, and only this object has the key. Threads may share the cache; two
    threads that ask for the same text at once may both search it.

    Args:
        most: Most texts in each of two generations. When the newer generation is full, the older
            generation is dropped.
    """

    def __init__(self, most: int = KNOWN_TEXTS) -> None:
        self._most, self._digest = most, blake2b(digest_size=16, key=os.urandom(32))
        self._recent: dict[bytes, tuple[SecretSpan, ...]] = {}
        self._older: dict[bytes, tuple[SecretSpan, ...]] = {}

    def of(self, text: str) -> tuple[SecretSpan, ...]:
        """See `secret_spans`."""
        digest = self._digest.copy()
        digest.update(text.encode(errors="surrogatepass"))
        known = digest.digest()
        spans = self._recent.get(known)
        if spans is None:
            spans = self._older.get(known)
            if spans is None:
                spans = _merged(_secret_spans(text))
            if len(self._recent) >= self._most:
                self._older, self._recent = self._recent, {}
            self._recent[known] = spans
        return spans


@cache
def _known_spans() -> KnownSpans:
    return KnownSpans()


def _merged(found: Iterator[tuple[int, int, str]]) -> tuple[SecretSpan, ...]:
    """Return the spans in order, with overlapping spans merged into one."""
    merged: list[SecretSpan] = []
    for start, end, kind in sorted(found):
        if merged and start < merged[-1].end:
            last = merged[-1]
            merged[-1] = SecretSpan(last.start, max(last.end, end), last.kind)
        else:
            merged.append(SecretSpan(start, end, kind))
    return tuple(merged)


def _secret_spans(text: str) -> Iterator[tuple[int, int, str]]:
    seen = unveiled_with_positions(text)
    yield from _located(seen, (known_formats, named_secrets, private_keys, cards))
    if (spelled := unspelled(seen)) is not None:
        yield from _located(spelled, (known_formats, named_secrets))
    if (whole := unbroken(seen)) is not None:
        yield from _located(whole, (known_formats,))


def _located(plain: Plain, searches: tuple[Search, ...]) -> Iterator[tuple[int, int, str]]:
    for search in searches:
        for found in search(plain.text):
            yield (*plain.span(found.start, found.end), found.kind)


# --- patterns -----------------------------------------------------------------------------------


_compiled = cache(re.compile)


@cache
def _listed(name: str) -> tuple[str, ...]:
    """Return the list *name* from `secret_words.toml`."""
    return tuple(data_file(PACKAGE, "secret_words.toml")["words"][name])


def _spelled(name: str) -> str:
    """Return the pattern *name* from `secret_words.toml`, with each list inserted for its name."""
    pattern: str = data_file(PACKAGE, "secret_words.toml")["patterns"][name]
    for listed in re.findall(r"(?<!\?P)<(\w+)>", pattern):
        if listed in data_file(PACKAGE, "secret_words.toml")["words"]:
            pattern = pattern.replace(f"<{listed}>", f"(?:{'|'.join(_listed(listed))})")
    return pattern


@cache
def _pattern(name: str) -> re.Pattern[str]:
    return _compiled(_spelled(name))


@cache
def _speaking() -> frozenset[str]:
    return frozenset(_listed("speaking"))


# --- formats, private keys, cards ---------------------------------------------------------------


@cache
def _formats() -> tuple[tuple[str, str, str], ...]:
    """Return a hint, a kind and a pattern for each format.

    A text with a secret of the format contains one of its hints. The search for a hint is fast, and
    most patterns are never compiled.
    """
    return tuple(
        (hint, form["kind"], form["pattern"])
        for form in data_file(PACKAGE, "secret_formats.toml")["formats"]
        for hint in form["hints"].split()
    )


def known_formats(text: str) -> Iterator[SecretSpan]:
    """Yield the secrets whose format a service, a standard or a tool documents."""
    for hint, kind, pattern in _formats():
        if hint not in text:
            continue
        for found in _compiled(pattern).finditer(text):
            group = found.lastindex or 0
            if not is_placeholder(found[group]) or _is_in_use(text, found[group], found.end()):
                yield SecretSpan(found.start(group), found.end(group), kind)


def _is_in_use(text: str, value: str, end: int) -> bool:
    """Return whether a text says that the key of a manual, up to *end*, is one of an account."""
    return (
        "EXAMPLE" in value
        and not is_placeholder(value.replace("EXAMPLE", ""))
        and (_pattern("in_use").match(text, end) is not None)
    )


def private_keys(text: str) -> Iterator[SecretSpan]:
    """Yield the private keys, each up to its end line, or to the end of its encoded text."""
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
    """Yield the numbers of payment cards."""
    for found in _compiled(_CARD).finditer(text):
        if is_card(found[0]):
            yield SecretSpan(found.start(), found.end(), "card number")


def is_card(text: str) -> bool:
    """Return whether a run of digits, spaces and hyphens is the number of a payment card."""
    digits = text.replace(" ", "").replace("-", "")
    if not _compiled(_ISSUERS).fullmatch(digits) or len(set(digits)) == 1:
        return False
    doubled = (
        sum(divmod(2 * int(digit), 10)) if at % 2 else int(digit)
        for at, digit in enumerate(reversed(digits))
    )
    return sum(doubled) % 10 == 0


# --- names: settings, arguments, and "my password is …" -----------------------------------------


def named_secrets(text: str) -> Iterator[SecretSpan]:
    """Yield the secrets that follow a name such as "password"."""
    lowered = text.lower()
    if len(lowered) != len(text):  # one letter has two characters in lower case
        lowered = "".join(c if len(c.lower()) > 1 else c.lower() for c in text)
    hints = (_listed("named"), _named), (_listed("phrased"), _phrases), (("pin", " code"), _codes)
    for parts, search in hints:
        for part in parts:
            if part in lowered:
                yield from search(text, lowered)
                break


def _codes(text: str, lowered: str) -> Iterator[SecretSpan]:
    """Yield PINs and recovery codes."""
    for pin in _pattern("pin").finditer(text):
        yield SecretSpan(*pin.span(1), "PIN")
    if " code" in lowered:
        for codes in _pattern("codes").finditer(text):
            for code in _pattern("code").finditer(text, *codes.span(1)):
                yield SecretSpan(*code.span(), "recovery code")


def _named(text: str, lowered: str) -> Iterator[SecretSpan]:
    """Yield passwords and keys after their names; *lowered* is the text in lower case."""
    done = 0
    for name in _pattern("name").finditer(lowered):
        if name.start() < done:
            continue
        kind = "password" if name["password"] else "key or token"
        least = LEAST_PASSWORD if name["password"] or "secret" in name[0] else LEAST_KEY
        span = _argument(text, name) or _assigned(text, name.end(), least)
        span = span or _said(text, name.end(), least)
        if span is not None:
            done = span[1]
            yield SecretSpan(*span, kind)


def _argument(text: str, name: re.Match[str]) -> tuple[int, int] | None:
    """Return the span of the value of an option such as ``--password``, or None."""
    begin = max(0, name.start() - 20)
    if text.find("-", begin, name.start()) < 0:
        return None
    if _pattern("flag").match(text, begin, name.start()) is None:
        return None
    value = _pattern("option").match(text, name.end())
    if value is None or len(value[1]) < LEAST_PASSWORD or is_placeholder(value[1]):
        return None
    return value.span(1)


def _assigned(text: str, at: int, least: int) -> tuple[int, int] | None:
    """Return the span of the value assigned to the name that ends at *at*, if it is a secret."""
    element = _pattern("element").match(text, at)
    if element and is_assigned(element[1], least=least, quoted=True):
        return element.span(1)
    after = _pattern("after").match(text, at)
    if after is None:
        return None
    value = _pattern("quoted").match(text, after.end())
    if value is not None:
        if not is_assigned(value[2], least=least, quoted=True) or " " in value[2].strip():
            return None
        return value.start(2), _continued(text, value.end(), value.end(2))
    value = _pattern("bare").match(text, after.end())
    if value is None:
        return None
    said = value[0] if "&" not in value[0] else _pattern("next_field").split(value[0])[0]
    said = said.rstrip(".)]}\\")
    if "\n" in after[0] and re.match(r"\s*[:=]", text[value.end() - 1 : value.end() + 4]):
        return None
    if not is_assigned(said, least=least, quoted=False):
        return None
    end = value.start() + len(said)
    if len(value[0]) == LONGEST and len(said) == LONGEST:
        end = (_pattern("rest").match(text, end) or value).end()
    return value.start(), _continued(text, end, end) if text[end : end + 1] == "\\" else end


def _continued(text: str, at: int, end: int) -> int:
    """Return the end of a quoted value that may continue on the next lines.

    Args:
        at: The index after the closing quote of the first part.
        end: The end of the first part, which is returned if the value does not continue.
    """
    while more := _pattern("more").match(text, at):
        at, end = more.end(), more.end(2)
    return end


def _said(text: str, at: int, least: int) -> tuple[int, int] | None:
    """Return the span of the word that a sentence names as the password.

    Return None if there is no such word, or if it cannot be a secret.
    """
    after = _pattern("said").match(text, at)
    said = None if after is None else _pattern("next").match(text, after.end())
    if said is None:
        return None
    word = said[1].rstrip(".,;:!?)]}\u3002")
    is_secret = is_assigned(word, least=least, quoted=False)
    if not is_secret or _pattern("technical").match(word):
        return None
    return said.start(1), said.start(1) + len(word)


def _phrases(text: str, _lowered: str) -> Iterator[SecretSpan]:
    """Yield secret phrases of several words."""
    for name in _pattern("phrase").finditer(text):
        if words := _pattern("seed_words").match(text, name.end()):
            yield SecretSpan(*words.span(1), "seed phrase")
        elif (quoted := _pattern("in_quotes").match(text, name.end())) and (
            _has_digit(quoted[1]) or _passphrase(quoted[1])
        ):
            yield SecretSpan(*quoted.span(1), "passphrase")
        elif (said := _pattern("spoken").match(text, name.end())) and (end := _passphrase(said[1])):
            yield SecretSpan(said.start(1), said.start(1) + end, "passphrase")


def _has_digit(phrase: str) -> bool:
    return any(c.isdigit() for c in phrase) and not is_placeholder(phrase)


def _passphrase(said: str) -> int:
    """Return the length of the passphrase at the start of *said*, or 0 if there is none."""
    joined = _pattern("joined").match(said)
    if joined is not None and joined.end() == len(said.split(maxsplit=1)[0]):
        return 0 if is_placeholder(joined[0]) else joined.end()
    words = said.split()
    if not LEAST_WORDS <= len(words) <= MOST_WORDS or is_placeholder(said):
        return 0
    word, speaking = _pattern("word"), _speaking()
    is_plain = all(word.fullmatch(each) and each.lower() not in speaking for each in words)
    return len(said.rstrip()) if is_plain else 0


# --- values -------------------------------------------------------------------------------------


def is_placeholder(value: str) -> bool:
    """Return whether a value is a placeholder for a secret, as in a manual or a template.

    The words that may occur anywhere in the value are searched for one by one. One pattern for all
    would be slower: it would be tried at each character.
    """
    lowered = value.lower()
    for word in _listed("placeholders"):
        if word in lowered:
            return True
    if len(set(lowered)) < 4 or _pattern("stand_in").match(lowered):  # noqa: PLR2004 - "xxxxxx"
        return True
    is_near = "my" in lowered or "here" in lowered
    if is_near and _pattern("stand_in_named").search(lowered):
        return True
    digest = sha256(value.encode(errors="surrogatepass")).hexdigest()
    return digest[:16] in _listed("printed")


def is_assigned(value: str, *, least: int, quoted: bool) -> bool:
    """Return whether the value of a setting with a secret's name is a secret.

    Args:
        value: The value, without quotes.
        least: Fewest characters of a secret.
        quoted: True if the value has quotes, so that it is not code.
    """
    if len(value) < least or not is_mixed(value) or is_placeholder(value):
        return False
    if _pattern("path").match(value) and not (len(value) >= 30 and "." not in value):  # noqa: PLR2004 - longer than a name
        return False
    return quoted or not _pattern("code_value").search(value)


def is_mixed(value: str) -> bool:
    """Return whether a value has both letters and digits, as few words have."""
    return bool(_compiled(r"\d").search(value) and _compiled(r"[^\W\d_]").search(value))
