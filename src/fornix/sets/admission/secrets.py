"""Secrets in texts: what vendors say their keys look like, private keys, numbers of cards.

Where each form is described:

- AWS: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_identifiers.html
- GitHub: https://docs.github.com/en/authentication/keeping-your-account-and-data-secure/about-authentication-to-github
- GitLab: https://docs.gitlab.com/security/tokens/
- Slack: https://docs.slack.dev/authentication/tokens/
- Stripe: https://docs.stripe.com/keys
- OpenAI, Anthropic, Google, npm, SendGrid, DigitalOcean: named among the patterns of
  https://docs.github.com/en/code-security/reference/secret-security/supported-secret-scanning-patterns
- Hugging Face: https://huggingface.co/docs/hub/security-tokens
- PyPI: https://pypi.org/help/#apitoken
- Telegram: https://core.telegram.org/bots/api#authorizing-your-bot
- Azure Storage: https://learn.microsoft.com/azure/storage/common/storage-configure-connection-string
- Private keys: RFC 7468; JSON web tokens: RFC 7519; passwords in URLs: RFC 3986, 3.2.1
- Cards: ISO/IEC 7812: issuers' ranges, lengths, and the check digit (Luhn)
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_ASSIGNED = (
    r"""(?i:\b(?:password|passwd|passphrase|pwd|secret|api[ _-]?key|access[ _-]?token))["']?"""
    r"""\s{0,3}[:=]\s{0,3}["']?(?=[^\s"']{0,64}[0-9])(?=[^\s"']{0,64}[A-Za-z])[^\s"'<>{}]{8,}"""
)
"""A name that says so, and a value with letters and digits."""

_HEADER = r"(?:(?<![\w-])eyJ[\w-]{10,}+|\beyJ[\w-]{10,400}+)"
"""Of a JSON web token; bounded where many could begin in one run of letters."""

_FORMS = (
    ("AWS access key", r"\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}\b"),
    ("GitHub token", r"\b(?:gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{36,})"),
    ("GitLab token", r"\bgl(?:pat|dt|rt|ptt|ft|imt|agent|soat|cbt|oas)-[\w.-]{20,}"),
    ("Slack token", r"\bx(?:ox[abeoprs]|app|oxe\.xoxp)-[A-Za-z0-9-]{20,}"),
    ("Slack webhook", r"\bhooks\.slack\.com/services/T\w{6,}/B\w{6,}/\w{20,}"),
    ("Stripe key", r"\b(?:[sr]k_(?:live|test)|whsec)_[A-Za-z0-9]{16,}"),
    ("Anthropic key", r"\bsk-ant-[\w-]{20,}"),
    ("OpenAI key", r"\bsk-(?!ant-)(?:proj-|svcacct-|admin-)?[\w-]{0,80}[A-Za-z0-9]{20,}"),
    ("Google API key", r"\bAIza[\w-]{35}"),
    ("Google client secret", r"\bGOCSPX-[\w-]{28}"),
    ("Hugging Face token", r"\bhf_[A-Za-z0-9]{30,}"),
    ("npm token", r"\bnpm_[A-Za-z0-9]{36}"),
    ("PyPI token", r"\bpypi-[\w-]{50,}"),
    ("SendGrid key", r"\bSG\.[\w-]{16,32}\.[\w-]{16,64}"),
    ("DigitalOcean token", r"\bdo[opr]_v1_[a-f0-9]{64}"),
    ("Telegram bot token", r"\b[0-9]{8,10}:[\w-]{35}\b"),
    ("Azure storage key", r"\bAccountKey=[A-Za-z0-9+/]{86}=="),
    ("private key", r"-----BEGIN (?:[A-Z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)?-----"),
    ("JSON web token", rf"{_HEADER}\.eyJ[\w-]{{10,}}\.[\w-]{{10,}}"),
    ("password in a URL", r"\b[a-z][a-z0-9+.-]{1,20}://[^\s/:@]{1,64}:[^\s/@]{3,128}@[\w.-]+"),
    ("password", _ASSIGNED),
)

_PATTERNS = tuple((name, re.compile(form)) for name, form in _FORMS)

_CARD = re.compile(r"(?<![\w.,:+-])[0-9](?:[ -]?[0-9]){12,18}(?![\w-])(?![.,:][0-9])")

_ISSUERS = re.compile(
    r"4(?:\d{12}|\d{15}|\d{18})|(?:5[1-5]\d\d|222[1-9]|22[3-9]\d|2[3-6]\d\d|27[01]\d|2720)\d{12}"
    r"|3[47]\d{13}|(?:6011|65\d\d|64[4-9]\d)\d{12}|35(?:2[89]|[3-8]\d)\d{12}"
    r"|3(?:0[0-5]|[68]\d)\d{11}|62\d{14,17}"
)


def secrets(text: str) -> Iterator[str]:
    """Yield what kinds of secrets are in *text*."""
    for name, pattern in _PATTERNS:
        if pattern.search(text):
            yield name
    if any(is_card(found[0]) for found in _CARD.finditer(text)):
        yield "card number"


def is_card(text: str) -> bool:
    """Return whether a run of digits, spaces and hyphens is the number of a payment card."""
    digits = re.sub("[ -]", "", text)
    if not _ISSUERS.fullmatch(digits) or len(set(digits)) == 1:
        return False
    doubled = (
        sum(divmod(2 * int(digit), 10)) if at % 2 else int(digit)
        for at, digit in enumerate(reversed(digits))
    )
    return sum(doubled) % 10 == 0
