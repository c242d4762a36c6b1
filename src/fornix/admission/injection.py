"""Phrases by which a text tries to command the agent that will read it.

A text is first made plain: compatibility forms, letters of other scripts that look like Latin
ones, characters that are not seen, and words spelled with gaps; what is encoded in base64 is read
too. What remains is compared with phrases of a few families; each is a habit of known attacks
(OWASP, LLM01: https://genai.owasp.org/llmrisk/llm01-prompt-injection/), not a proof of one: hence
quarantine, not rejection, is what `Injection` does by default.

The phrase that sets earlier instructions aside is looked for in ten languages, as it is the most
common opening; the other families in English.
"""

from __future__ import annotations

import re
import unicodedata
from base64 import b64decode
from binascii import Error
from collections.abc import Iterator

_GAP = r"[^.!?\n]{0,40}?"

_OLD = r"(?:previous|prior|earlier|above|preceding|foregoing|former|original|existing|other|your|system|safety|these|those|all|any)"
_LAWS = r"(?:instructions?|prompts?|rules?|guidelines?|directives?|directions?|commands?|constraints?|restrictions?|polic(?:y|ies)|safeguards?|guardrails?|programming)"
_GUARDS = r"(?:safety|security|content|moderation|compliance|approval|validation|verification|access|authori[sz]ation)"
_CALLS = r"(?:e-?mails?|send|sends|forwards?|posts?|uploads?|transmit|transmits|leaks?|exfiltrates?|pipe|copy|share|dump|bcc|disclose)"
_GOODS = r"(?:passwords?|credentials?|api[ -]?keys?|secrets?|tokens?|conversations?|chat (?:history|logs?)|history|memor(?:y|ies)|personal (?:data|information)|private (?:data|keys?|information)|(?:user|customer|session)s? data|contents?|records?|cookies?|environment variables|env(?:ironment)? vars?|everything)"
_PLACE = r"(?:https?://|[\w.+-]+@[\w-]+\.|webhooks?\b|(?:an? |the )?(?:external|attacker|remote|third[- ]party)|(?:this|the following) (?:url|address|server|endpoint))"

_FAMILIES = (
    (
        "sets instructions aside",
        rf"\b(?:ignor(?:e|es|ing)|disregard(?:s|ing)?|forget|overrid(?:e|es|ing)|bypass(?:es|ing)?"
        rf"|overlook|discard|neglect|abandon|supersedes?|violate|do not follow|don't follow|stop following) "
        rf"(?:(?:all|any|every|everything|each|and|of|the|my|our|in|to) ){{0,4}}{_OLD}\b{_GAP}\b{_LAWS}\b",
    ),
    (
        "sets instructions aside",
        r"\b(?:ignore|disregard|forget) (?:everything|anything|all|what)(?: (?:that )?(?:was |were |is |you |i |we )?"
        r"(?:said|told|wrote|written|know|learned|have been told|were told))? (?:above|before|previously|prior|earlier|until now|so far)\b",
    ),
    (
        "sets instructions aside",
        r"\b(?:ignorier\w*|missacht\w*|vergiss|vergessen sie|vergesst|umgeh\w*)\b"
        + _GAP
        + r"\b(?:alle|bisherig\w*|vorherig\w*|vorig\w*|obig\w*|früher\w*|deine|ihre)\b"
        + _GAP
        + r"\b(?:\w*anweisung\w*|instruktion\w*|\w*regeln|befehle?|vorgaben)\b"
        r"|\b(?:ignore[zr]?|oublie[zr]?|négligez?|contourne[zr]?)\b"
        + _GAP
        + r"\b(?:instructions|consignes|règles|directives)\b"
        r"|\b(?:ignora\w*|ignore|olvida\w*|olvide|omite|desobedece)\b"
        + _GAP
        + r"\b(?:instrucciones|reglas|órdenes|indicaciones)\b"
        r"|\b(?:ignore|ignora|esqueç\w+|desconsidere)\b"
        + _GAP
        + r"\b(?:instruções|regras|ordens|diretrizes)\b"
        r"|\b(?:ignora\w*|dimentica\w*|trascura)\b"
        + _GAP
        + r"\b(?:istruzioni|regole|direttive|indicazioni)\b"
        r"|\b(?:negeer|vergeet)\b" + _GAP + r"\b(?:instructies|regels|opdrachten)\b"
        r"|\b(?:zignoruj|ignoruj|zapomnij)\b" + _GAP + r"\b(?:instrukcj\w+|polece\w+|zasad\w*)\b",
    ),
    (
        "sets instructions aside",
        r"(?:(?:про)?игнориру\w+|забудь(?:те)?)" + _GAP + r"(?:инструкци|указани|правил|команд)\w*",
    ),
    (
        "sets instructions aside",
        r"(?:忽略|无视|無視|忘记|忘掉|忽視).{0,10}(?:指令|指示|说明|說明|规则|規則|提示|命令)"
        r"|(?:以前|これまで|上記|前|すべて|全て)の?.{0,8}(?:指示|命令|ルール|プロンプト).{0,6}(?:無視|忘れ)"
        r"|(?:이전|위의|모든).{0,8}(?:지시|명령|규칙|프롬프트).{0,6}(?:무시|잊)",
    ),
    (
        "speaks as the system",
        r"<\|?(?:im_start|im_end|system|endoftext|start_header_id)\|?>|\[/?inst\]|<</?sys>>"
        r"|(?:^|\n)\W{0,6}(?:system|developer|assistant)(?: (?:message|prompt|override|note|notice|update|instructions?|alert|directive))? ?(?:\]|:|>|\|)"
        r"|\b(?:new|updated?|revised|important|urgent|priority|hidden|secret|override) system (?:prompt|instructions?|messages?|directives?|polic(?:y|ies)|rules?)\b"
        r"|</?(?:system|instructions?|admin|developer)>"
        r"|\b(?:system|admin|administrator|developer|security) override\b",
    ),
    (
        "lifts limits",
        r"\b(?:developer|debug|god|admin|administrator|root|sudo|jailbreak|unrestricted|dan|maintenance|unfiltered) mode"
        r"(?: is| has been)?(?: now)? (?:on|enabled?|activated?|active|engaged|unlocked)\b"
        r"|\b(?:enable|activate|enter|switch to|unlock|engage) (?:the )?(?:developer|debug|god|admin|root|sudo|jailbreak|unrestricted|dan|unfiltered) mode\b"
        r"|\byou are (?:now )?(?:dan\b|an? (?:unrestricted|unfiltered|uncensored|jailbroken)|no longer (?:bound|restricted|limited|required))"
        r"|\b(?:act|respond|answer|operate|behave)(?:s|ing)? (?:as|like) (?:an? )?(?:unrestricted|unfiltered|uncensored|jailbroken|evil)"
        rf"|\b(?:without|no|free (?:of|from)|disable|turn off|skip|bypass|remove|switch off|suspend)(?: \w+){{0,2}} {_GUARDS} (?:checks?|filters?|restrictions?|limits?|controls?|guidelines|rules|polic(?:y|ies)|measures|steps?|protocols?|prompts?)\b"
        r"|\bno (?:ethical|moral|content) (?:restrictions|limits|guidelines|boundaries)\b",
    ),
    (
        "asks for the prompt",
        r"\b(?:reveal|print|show|repeat|output|display|leak|disclose|recite|echo|tell me|give me|write out|dump)\b"
        r"(?: \w+){0,3} (?:your|the) (?:\w+ )?(?:system|initial|hidden|secret|original|internal|developer|full) (?:prompt|instructions?|messages?|configuration|context|rules)\b",
    ),
    (
        "keeps it from the user",
        r"\b(?:do not|don't|never|without) (?:ever )?(?:tell(?:ing)?|inform(?:ing)?|mention(?:ing)?|reveal(?:ing)?|alert(?:ing)?|notify(?:ing)?|disclos(?:e|ing)|show(?:ing)?|warn(?:ing)?)"
        r"(?: (?:of|about|this|that|it|any|these|instructions?|message|to|the|your|fact)){0,5} (?:the )?(?:users?|humans?|operators?|anyone|anybody|customers?|owner|administrators?)\b"
        r"|\b(?:silently|secretly|covertly|quietly) (?:forward|send|copy|bcc|upload|execute|run|add|append|include|post|exfiltrate|transmit|log|record|redirect|approve|delete|change|grant|email)\b",
    ),
    (
        "carries data away",
        rf"\b{_CALLS}\b(?: [^\s.!?]+){{0,8}}? {_GOODS}\b[^\n]{{0,80}}?\b(?:to|at|via|into)\b[^\n]{{0,20}}?{_PLACE}"
        r"|!\[[^\]\n]{0,80}\]\(https?://[^)\s]{1,200}[?&][^)\s=]{1,40}=(?:\{|%7b|<|\$|\[)",
    ),
    (
        "claims rights",
        r"\b(?:grant|give|assign|elevate|escalate|promote)(?:s|ed)?\b(?: \w+){0,5} (?:admin(?:istrator)?|root|superuser|full|unrestricted|unlimited|elevated) (?:access|rights?|privileges?|permissions?|control|roles?)\b"
        r"|\b(?:user|account|role|caller|requester|session)\b(?: \w+){0,4} (?:is|has been|have been|was|=|:) ?(?:now )?(?:\w+ )?(?:pre-?)?(?:verified|authenticated|authori[sz]ed|approved|granted|elevated|promoted|whitelisted)(?: \w+){0,3} (?:admin(?:istrator)?|root|superuser|full|all|any|everything|unrestricted|owner)\b"
        r"|\b(?:is_?admin|is_?root|superuser|sudo)\W{1,4}(?:true|1|yes)\b"
        r"|\b(?:role|permissions?|privileges?|access(?:_level)?)[\"']?\s?[:=]\s?[\"']?(?:admin|root|superuser|owner|\*|full)\b",
    ),
    (
        "runs commands",
        r"\b(?:curl|wget)\b[^\n|;]{1,200}\|\s?(?:ba|z)?sh\b|\brm -rf? [/~*]|\bpowershell\b[^\n]{0,40}-enc"
        r"|\b(?:os\.system|subprocess\.(?:run|popen|call)|eval|exec)\s?\("
        r"|;\s?(?:drop|truncate) table\b|\bdrop (?:table|database) \w+",
    ),
)

_PATTERNS = tuple((name, re.compile(form, re.IGNORECASE)) for name, form in _FAMILIES)

_UNSEEN = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\U000e0100-\U000e01ef]"
)

_TAGS = {0xE0000 + code: code for code in range(0x20, 0x7F)}
"""Tag characters, which are not seen, and spell ASCII."""

_LOOKALIKES = str.maketrans(
    "аеорсухіјѕԁһӏьвкмнтγνοραεικτυχ𝗂ɡıⅼ",
    "aeopcyxijsdhlbbkmhtyvopaeiktuxigil",
)
"""Letters that pass for Latin ones: https://www.unicode.org/reports/tr39/ has the whole list."""

_SPACED = re.compile(r"\b(?:\w[ .\-_*]){4,}\w\b")
_ENCODED = re.compile(r"[A-Za-z0-9+/]{24,}={0,2}")
_SPACES = re.compile(r"[^\S\n]+")

DECODED = 8
"""Pieces of base64 of a text that are read."""


def injections(text: str) -> Iterator[str]:
    """Yield what families of phrases are in *text*."""
    forms = list(dict.fromkeys(_forms(text)))
    found: set[str] = set()
    for name, pattern in _PATTERNS:
        if name not in found and any(pattern.search(form) for form in forms):
            found.add(name)
            yield name


def _forms(text: str) -> Iterator[str]:
    seen = visible(text)
    yield seen
    yield seen.translate(_LOOKALIKES)
    if _SPACED.search(seen):
        yield _SPACED.sub(lambda run: re.sub(r"[ .\-_*]", "", run[0]), seen)
    for _, piece in zip(range(DECODED), _ENCODED.finditer(text), strict=False):
        try:
            decoded = b64decode(piece[0] + "=" * (-len(piece[0]) % 4)).decode()
        except (Error, UnicodeDecodeError):
            continue
        yield visible(decoded)


def visible(text: str) -> str:
    """Return *text* as phrases are looked for in it: unveiled, in lower case, with single spaces."""
    return _SPACES.sub(" ", unveiled(text).lower().replace("\u2019", "'"))


def unveiled(text: str) -> str:
    """Return *text* as it is seen: compatibility forms, and nothing unseen."""
    if text.isascii():
        return text
    return _UNSEEN.sub("", unicodedata.normalize("NFKC", text.translate(_TAGS)))
