"""What the keys and tokens of many services look like, and where a text has one.

Where each form is described:

- AWS: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_identifiers.html
- GitHub: https://docs.github.com/en/authentication/keeping-your-account-and-data-secure/about-authentication-to-github
- GitLab: https://docs.gitlab.com/security/tokens/
- Slack: https://docs.slack.dev/authentication/tokens/
- Stripe: https://docs.stripe.com/keys
- Hugging Face: https://huggingface.co/docs/hub/security-tokens
- PyPI: https://pypi.org/help/#apitoken
- Telegram: https://core.telegram.org/bots/api#authorizing-your-bot
- Azure Storage: https://learn.microsoft.com/azure/storage/common/storage-configure-connection-string
- Vault: https://developer.hashicorp.com/vault/docs/concepts/tokens
- Shopify, Twilio, Mailgun, Grafana, Databricks and the others: named among the patterns of
  https://docs.github.com/en/code-security/reference/secret-security/supported-secret-scanning-patterns
- Private keys: RFC 7468; JSON web tokens: RFC 7519; passwords in URLs: RFC 3986, 3.2.1
- Cards: ISO/IEC 7812: issuers' ranges, lengths, and the check digit (Luhn)
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

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


_FORMATS = (
    ("AWS access key", "AKIA ASIA ABIA ACCA", r"\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}\b"),
    (
        "GitHub token",
        "ghp_ gho_ ghu_ ghs_ ghr_ github_pat_",
        r"(?<![A-Za-z0-9])(?:gh[pousr]_[A-Za-z0-9]{36,255}|github_pat_[A-Za-z0-9_]{36,255})",
    ),
    ("GitLab token", "gl", r"\bgl(?:pat|dt|rt|ptt|ft|imt|agent|soat|cbt|oas)-[\w.-]{20,300}"),
    ("Slack token", "xox xapp-", r"\bx(?:ox[abeoprs]|app|oxe\.xoxp)-[A-Za-z0-9-]{20,300}"),
    ("Slack webhook", "hooks.slack", r"\bhooks\.slack\.com/services/T\w{6,}/B\w{6,}/\w{20,}"),
    ("Stripe key", "k_live_ k_test_ whsec_", r"\b(?:[sr]k_(?:live|test)|whsec)_[\w+/=]{16,300}"),
    ("Anthropic key", "sk-ant-", r"\bsk-ant-[\w-]{20,300}"),
    (
        "OpenAI key",
        "sk-",
        r"\bsk-(?!ant-)[\w-]{0,80}[A-Za-z0-9]{20,300}[\w-]{0,200}",
    ),
    ("Google API key", "AIza", r"\bAIza[\w-]{35}"),
    ("Google client secret", "GOCSPX-", r"\bGOCSPX-[\w-]{28}"),
    ("Google token", "ya29. 1//", r"\bya29\.[\w-]{30,500}|(?<![\w/])1//0[\w-]{40,300}"),
    ("Hugging Face token", "hf_", r"\bhf_[A-Za-z0-9]{30,100}"),
    (
        "key of a model provider",
        "gsk_ r8_ xai- pplx- fw_ csk-",
        (
            r"\b(?:gsk_[A-Za-z0-9]{40,100}|r8_[A-Za-z0-9]{37}|xai-[A-Za-z0-9]{60,120}"
            r"|pplx-[A-Za-z0-9]{40,64}|fw_[A-Za-z0-9]{22,40}|csk-[a-z0-9]{40,60})\b"
        ),
    ),
    ("npm token", "npm_", r"\bnpm_[A-Za-z0-9]{36}"),
    ("PyPI token", "pypi-", r"\bpypi-[\w-]{50,500}"),
    (
        "token of a package registry",
        "rubygems_ dckr_",
        r"\b(?:rubygems_[a-f0-9]{48}|dckr_[op]at_[\w-]{27,60})",
    ),
    ("SendGrid key", "SG.", r"\bSG\.[\w-]{16,32}\.[\w-]{16,64}"),
    ("Twilio key", "SK", r"\bSK[0-9a-f]{32}\b"),
    ("Mailgun key", "key-", r"\bkey-[0-9a-f]{32}\b"),
    ("Mailchimp key", "-us", r"\b[0-9a-f]{32}-us[0-9]{1,2}\b"),
    ("DigitalOcean token", "_v1_", r"\bdo[opr]_v1_[a-f0-9]{64}"),
    ("Heroku key", "HRKU-", r"\bHRKU-[\w-]{30,100}"),
    ("Fly token", "fm1 fm2", r"\bfm[12][ar]?_[\w+/=,-]{40,500}"),
    ("Terraform token", ".atlasv1.", r"\b[A-Za-z0-9]{14}\.atlasv1\.[\w-]{50,80}"),
    ("Vault token", "hvs. hvb. hvr.", r"\bhv[sbr]\.[\w-]{24,300}"),
    ("Databricks token", "dapi", r"\bdapi[0-9a-f]{32}(?:-\d)?\b"),
    ("Postman key", "PMAK-", r"\bPMAK-[0-9a-f]{24}-[0-9a-f]{34}\b"),
    (
        "Doppler token",
        "dp.",
        r"\bdp\.(?:pt|st|ct|sa|scim|audit)\.(?:[\w-]{2,35}\.)?[A-Za-z0-9]{40,44}\b",
    ),
    ("PlanetScale token", "pscale_", r"\bpscale_(?:tkn|pw|oauth)_[\w.=-]{32,64}"),
    ("Shopify token", "shp", r"\bshp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}\b"),
    ("Notion token", "ntn_ secret_", r"\b(?:ntn_|secret_)(?=[A-Za-z]{0,42}\d)[A-Za-z0-9]{43,50}\b"),
    (
        "token of a service",
        "nfp_ sbp_ lin_api_ NRAK- glsa_ sntry pul- figd_ CFPAT- CCIPAT_ tskey- bkua_ phx_ aio_",
        (
            r"\b(?:nfp_[A-Za-z0-9]{36,40}|sbp_[0-9a-f]{40}|lin_api_[A-Za-z0-9]{32,48}|NRAK-[A-Z0-9]{27}"
            r"|glsa_[A-Za-z0-9]{32}_[0-9a-fA-F]{8}|sntry[su]_[\w+/=]{60,400}|pul-[0-9a-f]{40}"
            r"|figd_[\w-]{38,50}|CFPAT-[\w-]{43}|CCIPAT_[A-Za-z0-9]{22}_[0-9a-f]{40}"
            r"|tskey-[a-z]{3,12}-[\w-]{20,80}|bkua_[0-9a-f]{40}|phx_[A-Za-z0-9]{40,60}"
            r"|aio_[A-Za-z0-9]{28})"
        ),
    ),
    ("Airtable token", "pat", r"\bpat[A-Za-z0-9]{14}\.[0-9a-f]{64}\b"),
    ("Atlassian token", "ATATT3x ATBB", r"\b(?:ATATT3x[\w=-]{100,300}|ATBB[A-Za-z0-9]{32})"),
    ("Square token", "EAAA sq0", r"\b(?:EAAA[\w-]{60}|sq0(?:atp|csp)-[\w-]{22,43})"),
    ("Telegram bot token", ":AA", r"\b[0-9]{8,10}:AA[\w-]{33}(?![\w-])"),
    ("Telegram bot token", "bot", r"(?i:\bbot)[^\n]{0,24}?\b([0-9]{8,10}:[\w-]{35})(?![\w-])"),
    (
        "Discord token",
        "discord",
        r"\bdiscord(?:app)?\.com/api/webhooks/[0-9]{15,21}/[\w-]{50,90}",
    ),
    ("Discord token", ".", r"\b[MNO][\w-]{23,27}\.[\w-]{6}\.[\w-]{27,40}(?![\w-])"),
    (
        "Azure key",
        "AccountKey= AccessKey=",
        r"(?:AccountKey|AccessKey)=([A-Za-z0-9+/]{40,90}={0,2})",
    ),
    ("Azure signature", "sig=", r"[?&]sig=([\w%+/-]{30,120})"),
    ("Azure client secret", "Q~", r"(?<![\w~.-])[\w~.-]{3}\dQ~[\w~.-]{31,34}(?![\w~-])"),
    ("private key", "AGE-SECRET-KEY-1", r"\bAGE-SECRET-KEY-1[A-Z0-9]{58}"),
    (
        "JSON web token",
        "eyJ",
        r"(?:(?<![\w-])eyJ[\w-]{10,}+|\beyJ[\w-]{10,400}+)\.eyJ[\w-]{10,}\.[\w-]{10,}",
    ),
    (
        "password in a URL",
        "://",
        r"\b[a-z][a-z0-9+.-]{1,20}://[^\s/:@]{0,64}:([^\s/@]{3,128})@[\w.-]",
    ),
    (
        "authorization header",
        "earer EARER",
        r"(?i:\bbearer)[\s:\\]{1,8}(?=[^\s\"']{0,80}\d)([A-Za-z0-9][\w.~+/=-]{19,2000})",
    ),
    (
        "authorization header",
        "uthorization",
        (
            r"(?i:authorization)[\"']?\s?[:=,]\s?[\"']?(?i:basic|token|apikey|digest|ssws)\s{1,8}"
            r"(?=[^\s\"']{0,80}[\d=])([\w.~+/=-]{12,2000})"
        ),
    ),
    (
        "cookie",
        "ookie:",
        r"(?i:\bcookie:)[^\n]{0,80}?\b[\w.-]{1,40}=((?=[\w-]{0,80}\d)[\w%.~+/-]{24,2000})",
    ),
    (
        "password on a command line",
        "curl wget",
        (
            r"\b(?:curl|wget)\b[^\n]{0,200}?\s(?:-u|--user)[ =]?[\"']?"
            r"[^\s:\"']{1,64}:([^\s\"']{4,128})"
        ),
    ),
    ("password on a command line", "mysql", r"\bmysql\w{0,8}\b[^\n|]{0,120}?\s-p([^\s\"']{5,128})"),
    (
        "password",
        "SecureString",
        r"ConvertTo-SecureString\s+(?:-String\s+)?[\"']([^\"'\n]{4,256})[\"']",
    ),
    (
        "wallet key",
        "5 K L",
        r"(?<![A-Za-z0-9])[5KL][1-9A-HJ-NP-Za-km-z]{50,51}(?![A-Za-z0-9+/=_-])",
    ),
)

_KNOWN = tuple(
    (hint, kind, pattern) for kind, hints, pattern in _FORMATS for hint in hints.split(" ")
)
"""What a text with such a secret has in it, the kind, and a pattern.

Group 1 of the pattern is the secret; without groups, all that it finds. To look for the first in a
text costs next to nothing, and most patterns are never compiled.
"""

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
    for hint, kind, pattern in _KNOWN:
        if hint not in text:
            continue
        for found in _compiled(pattern).finditer(text):
            group = found.lastindex or 0
            if not is_placeholder(found[group]):
                yield SecretSpan(found.start(group), found.end(group), kind)


def private_keys(text: str) -> Iterator[SecretSpan]:
    """Yield where *text* has blocks with private keys, up to their end as far as it is there."""
    for begin, end in _BLOCKS:
        after = 0
        for found in _compiled(begin).finditer(text):
            if found.start() < after:
                continue
            last = _compiled(end).search(text, found.end(), found.end() + LONGEST_BLOCK)
            last = last or _compiled(_ENCODED).match(text, found.end()) or found
            after = last.end()
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
