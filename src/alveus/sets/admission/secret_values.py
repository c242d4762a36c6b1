"""Whether a value that stands where a secret might stand is one: not a placeholder, not code."""

from __future__ import annotations

import re
from hashlib import sha256

_LISTED = (
    "example placeholder redacted dummy your xxxx *** ... \u2026 changeme change-me change_me"
    " insert- insert_ replace- replace_"
)
_STAND_INS = tuple(_LISTED.split(" "))
"""What stands in the values of manuals and templates, in lower case."""

_STAND_IN = re.compile(
    r"""(?x)
    [<$%{\[(].*                                      # <token>, ${TOKEN}, $(cat …), %TOKEN%, {token}
    | (?: 0*123456?7?8?9?0? | abc123 | hunter2 | foobar | tbd | todo | n/?a | none | null | nil
        | undefined | true | false | optional | required | string | value
        | (?: (?:my|our|some|any|super|top|test|demo|sample|default) [-_ ]? )?
          (?: secret | pass(?:word|wd|phrase|code)? | p[4a@]ssw[0o]rd | pwd | pw | token
            | api[-_]?key | key | user(?:name)? | admin | root | guest | test )
          (?: [-_]? (?: \d | 0\d | 123 | 1234 | 12345 | 123456 | abc | here ) )? [!?.]?
      )$
    """
)
"""What the whole of a value may be that nobody keeps as a secret, in lower case."""

_MANUALS = "2cafc0970149a84f f2d6ca16515033e5 b1471f544ceeea31 7f75367e78812551 c794fa6d20c64efb"
_PRINTED = frozenset(_MANUALS.split(" "))
"""Keys and tokens that manuals print, by the begin of a SHA-256: Stripe's, and those of jwt.io.

In full, scanners of secrets would take this file for a leak.
"""

_DIGIT, _LETTER = re.compile(r"\d"), re.compile(r"[^\W\d_]")

_OWN = re.compile(
    r"\bmy[-_](?:secret|password|token|key)|(?:key|token|secret|password|value)[-_]here$"
)

_CODE = re.compile(
    r"""(?x)
    ^[A-Za-z_$][\w$]*(?:(?:\.|->|::)[A-Za-z_]\w*)*[\[(]     # call(…), mapping[…]
    | ^(?:os|process|env|ENV|self|this|config|settings|secrets|vault|args|req|var|local|data)[.:\[]
    | ^[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+$                     # a.b.c
    """
)

_PATH = re.compile(r"^(?:[a-z][a-z0-9+.-]{1,20}://|[.~]{0,2}/(?:[\w.-]{1,40}/)*[\w.-]{0,20}$)")

_TECHNICAL = re.compile(
    r"(?i)^(?:sha-?\d+|md[45]|(?:base|utf|aes|rsa|hs|rs|es)-?\d+\w*|bcrypt\d?|argon2\w*|pbkdf2\w*|oauth2?"
    r"|ed25519|x509|v\d[\w.]*|\d{1,4}(?:st|nd|rd|th|px|ms|kb|mb|gb|am|pm|s|h|d|x|%)|\w*passwor[dt]\w*)$"
)


def is_placeholder(value: str) -> bool:
    """Return whether a value stands for a secret, in a manual or a template, and is none.

    What is looked for anywhere in it are plain words: a pattern would be tried at each character.
    """
    lowered = value.lower()
    for word in _STAND_INS:
        if word in lowered:
            return True
    if len(set(lowered)) < 4 or _STAND_IN.match(lowered):  # noqa: PLR2004 - "xxxxxx"
        return True
    if ("my" in lowered or "here" in lowered) and _OWN.search(lowered):
        return True
    return sha256(value.encode(errors="surrogatepass")).hexdigest()[:16] in _PRINTED


def is_assigned(value: str, *, least: int, quoted: bool) -> bool:
    """Return whether what a setting that is named like a secret is set to is a secret.

    Args:
        value: What stands after the name, without quotes.
        least: Characters that it has at least.
        quoted: It stood in quotes, so it is no code.
    """
    if len(value) < least or not is_mixed(value) or is_placeholder(value):
        return False
    if _PATH.match(value) and not (len(value) >= 30 and is_mixed(value) and "." not in value):  # noqa: PLR2004 - longer than a name
        return False
    return quoted or not _CODE.search(value)


def is_spoken(value: str, *, least: int) -> bool:
    """Return whether a word of a sentence about a password may be one."""
    return is_assigned(value, least=least, quoted=False) and not _TECHNICAL.match(value)


def is_told(phrase: str) -> bool:
    """Return whether what stands in quotes after "passphrase" is one."""
    return any(c.isdigit() for c in phrase) and not is_placeholder(phrase)


def is_mixed(value: str) -> bool:
    """Return whether letters and digits stand in a value, as in few words."""
    return _DIGIT.search(value) is not None and _LETTER.search(value) is not None
