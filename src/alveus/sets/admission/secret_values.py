"""Whether a value that stands where a secret might stand is one: not a placeholder, not code."""

from __future__ import annotations

import re

_PLACEHOLDER = re.compile(
    r"""(?ix)
    ^[<$%{\[(].*                                     # <token>, ${TOKEN}, $(cat …), %TOKEN%, {token}
    | example | placeholder | redacted | dummy | your[-_ ]? | \bmy[-_](?:secret|password|token|key)
    | x{4,} | \*{3,} | \.{3} | \u2026 | change[-_]?me | insert[-_] | replace[-_]
    | (?:key|token|secret|password|value)[-_]here$
    | ^(?:0*123456?7?8?9?0?|abc123|hunter2|foobar|test|todo|tbd|n/?a|none|null|nil|undefined
        |true|false|secret|pass(?:word)?\d?|passwd|pwd|pw|token|apikey|api_key|key|string|value
        |optional|required|user(?:name)?|admin|root|guest)$
    """
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
    """Return whether a value stands for a secret, in a manual or a template, and is none."""
    return len(set(value)) < 4 or _PLACEHOLDER.search(value) is not None  # noqa: PLR2004 - "xxxxxx"


def is_assigned(value: str, *, least: int, quoted: bool) -> bool:
    """Return whether what a setting that is named like a secret is set to is a secret.

    Args:
        value: What stands after the name, without quotes.
        least: Characters that it has at least.
        quoted: It stood in quotes, so it is no code.
    """
    if len(value) < least or is_placeholder(value):
        return False
    if _PATH.match(value) and not (len(value) >= 30 and is_mixed(value) and "." not in value):  # noqa: PLR2004 - longer than a name
        return False
    return (quoted or not _CODE.search(value)) and is_mixed(value)


def is_spoken(value: str, *, least: int) -> bool:
    """Return whether a word of a sentence about a password may be one."""
    return is_assigned(value, least=least, quoted=False) and not _TECHNICAL.match(value)


def is_told(phrase: str) -> bool:
    """Return whether what stands in quotes after "passphrase" is one."""
    return any(c.isdigit() for c in phrase) and not is_placeholder(phrase)


def is_mixed(value: str) -> bool:
    """Return whether letters and digits stand in a value, as in few words."""
    return any(c.isdigit() for c in value) and any(c.isalpha() for c in value)
