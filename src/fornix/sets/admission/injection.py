"""Phrases by which a text tries to command the agent that will read it.

A text is first made plain: compatibility forms, letters of other scripts that look like Latin
ones, characters that are not seen, and words spelled with gaps; what is encoded in base64 is read
too. What remains is compared with phrases of a few families; each is a habit of known attacks
(OWASP, LLM01: https://genai.owasp.org/llmrisk/llm01-prompt-injection/), not a proof of one: hence
quarantine, not rejection, is what `Injection` does by default.

The phrase that sets earlier instructions aside is looked for in twelve languages, as it is the
most common opening; the other families in English.
"""

from __future__ import annotations

import re
import unicodedata
from base64 import b64decode
from binascii import Error
from collections.abc import Iterator

_LISTS = {
    "gap": r"[^.!?\n]{0,40}?",
    "ignore": "ignore ignores ignoring disregard disregards disregarding forget override overrides"
    " overriding bypass bypasses bypassing overlook discard neglect abandon supersede supersedes"
    " violate do_not_follow don't_follow stop_following",
    "filler": "all any every everything each and of the my our in to",
    "old": "previous prior earlier above preceding foregoing former original existing other your"
    " system safety these those all any",
    "laws": "instructions? prompts? rules? guidelines? directives? directions? commands?"
    " constraints? restrictions? policy policies safeguards? guardrails? programming",
    "that": r"(?:_that)?(?:_(?:you|i|we))?(?:_(?:was|were|is|have_been))?(?:_<heard>)?",
    "heard": "said told wrote written learned",
    "before": "above before previously prior earlier until_now so_far",
    "title": "message prompt override note notice update instructions? alert directive",
    "urgent": "new updated? revised important urgent priority hidden secret override durable"
    " permanent standing persistent",
    "order": "prompt instructions? messages? directives? policy policies rules?",
    "mode": "developer debug god admin administrator root sudo jailbreak unrestricted dan"
    " maintenance unfiltered",
    "on": "on enabled? activated? active engaged unlocked",
    "enter": "enable activate enter switch_to unlock engage",
    "wild": "unrestricted unfiltered uncensored jailbroken evil",
    "lift": "without disable turn_off skip bypass remove switch_off suspend",
    "guard": "safety security content moderation compliance validation verification"
    " authorization authorisation",
    "guards": "checks? filters? restrictions? limits? controls? guidelines rules policy policies"
    " measures steps? protocols? prompts?",
    "reveal": "reveal print show repeat output display leak disclose recite echo tell_me give_me"
    " write_out dump",
    "inner": "system initial hidden secret original internal developer full",
    "prompt": "prompt instructions? messages? configuration context rules",
    "tell": "tell(?:ing)? inform(?:ing)? mention(?:ing)? reveal(?:ing)? alert(?:ing)?"
    " notify(?:ing)? disclos(?:e|ing) warn(?:ing)?",
    "of": "of about this that it any these instructions? message to the your fact",
    "people": "users? humans? operators? anyone anybody customers? owner administrators?",
    "stealthily": "silently secretly covertly",
    "act": "forward send copy bcc upload execute run add append include post exfiltrate transmit"
    " log record redirect approve delete change grant email",
    "ask": "ask(?:ing)? check(?:ing)?_with consult(?:ing)? wait(?:ing)?_for request(?:ing)?",
    "leave": "confirmation approval permission consent authorization authorisation review",
    "deed": "approve execute run send pay transfer wire delete export grant allow authorize"
    " authorise perform carry_out",
    "carry": "e-?mails? sends? forwards? posts? uploads? transmits? leaks? exfiltrates? pipe copy"
    " share dump bcc disclose",
    "goods": "passwords? credentials? api[ -]?keys? secrets? tokens? conversations? chat_history"
    " chat_logs? history memory memories personal_data personal_information private_data"
    " private_keys? private_information user_data customer_data session_data contents? records?"
    " cookies? environment_variables env_vars? everything",
    "place": r"https?://\S [\w.+-]+@[\w-]+\.\w webhooks?\b external remote third[_-]party"
    " attacker",
    "is": "is has_been was",
    "toward": "to at via into",
    "raise": "grant grants granted give assign assigned elevate elevated escalate promote promoted",
    "high": "admin administrator root superuser full unrestricted unlimited elevated",
    "right": "access rights? privileges? permissions? control roles?",
    "who": "user account role caller requester session assistant agent",
    "cleared": "verified authenticated authori[sz]ed approved granted elevated promoted"
    " whitelisted",
    "de_old": r"alle bisherig\w* vorherig\w* vorig\w* obig\w* früher\w* deine ihre",
    "de_laws": r"\w*anweisung\w* instruktion\w* \w*regeln befehle? vorgaben",
    "de": r"ignorier\w* missacht\w* vergiss vergessen_sie vergesst umgeh\w*",
}
"""Words by the name that phrases use; ``_`` is a space."""

_PHRASES = {
    "sets instructions aside": (
        r"\b<ignore> (?:<filler> ){0,4}<old>\b<gap>\b<laws>\b",
        r"\b(?:ignore|disregard|forget) (?:everything|anything|all|what)<that>? <before>\b",
        r"\b<de>\b<gap>\b<de_old>\b<gap>\b<de_laws>\b",
        r"\b(?:ignore[zr]?|oublie[zr]?|contourne[zr]?)\b<gap>\b(?:consignes|règles|directives)\b",
        r"\b(?:ignorez|oublie[zr]?)\b<gap>\binstructions\b",
        r"\b(?:ignor[ae]\w*|olvid[ae]\w*|omite)\b<gap>\b(?:instrucciones|reglas|órdenes)\b",
        r"\b(?:ignor[ae]|esqueç\w+|desconsidere)\b<gap>\b(?:instruções|regras|ordens)\b",
        r"\b(?:ignora\w*|dimentica\w*|trascura)\b<gap>\b(?:istruzioni|regole|direttive)\b",
        r"\b(?:negeer|vergeet)\b<gap>\b(?:instructies|regels|opdrachten)\b",
        r"\b(?:zignoruj|ignoruj|zapomnij)\b<gap>\b(?:instrukcj\w+|polece\w+|zasad\w*)\b",
        r"\b(?:(?:про)?игнориру\w+|забудь(?:те)?)\b<gap>\b(?:инструкци|указани|правил|команд)\w*",
        r"(?:忽略|无视|無視|忘记|忘掉|忽視).{0,10}(?:指令|指示|说明(?!书)|說明(?!書)|规则|規則|提示|命令)",
        r"(?:以前|これまで|上記|前|すべて|全て)の?.{0,8}(?:指示|命令|ルール).{0,6}(?:無視|忘れ)",
        r"(?:이전|위의|모든).{0,8}(?:지시|명령|규칙).{0,6}(?:무시|잊)",
    ),
    "speaks as the system": (
        r"<\|?(?:im_start|im_end|system|endoftext|start_header_id)\|?>|\[/?inst\]|<</?sys>>",
        r"(?:^|\n)\W{0,6}(?:system|developer|assistant)(?: <title>)? ?(?:\]|:|>|\|)",
        r"\bsystem ?: ?(?:you|ignore|do not|from now|new|override|the (?:user|assistant))\b",
        r"\b<urgent> system <order>\b",
        r"</?(?:system|instructions?|admin|developer)>",
        r"\b(?:system|admin|administrator|developer|security) override\b",
    ),
    "lifts limits": (
        r"\b<mode> mode(?: is| has been)?(?: now)? <on>\b",
        r"\b<enter> (?:the )?<mode> mode\b",
        r"\byou are (?:now )?(?:dan\b|an? <wild>|no longer (?:bound|restricted|limited))",
        r"\b(?:act|respond|answer|operate|behave)s? (?:as|like) (?:an? )?<wild>",
        r"\b<lift>(?: \w+){0,2} <guard> <guards>\b",
        r"\bno (?:ethical|moral|content) (?:restrictions|limits|guidelines|boundaries)\b",
    ),
    "asks for the prompt": (r"\b<reveal>\b(?: \w+){0,3} (?:your|the) (?:\w+ )?<inner> <prompt>\b",),
    "keeps it from the user": (
        r"\b(?:do not|don't|never|without) (?:ever )?<tell>(?: <of>){0,5} <people>\b",
        r"\b<stealthily> <act>\b",
    ),
    "does away with approval": (
        r"\b(?:never|without|do not|don't)(?: ever)? <ask>(?: the| your| an?)? <people>\b",
        r"\b<lift> (?:the )?(?:<people> )<leave>\b",
        r"\b<deed> [^.!?\n]{0,60}?\bwithout (?:\w+ )?<leave>\b",
    ),
    "carries data away": (
        r"\b<carry>\b(?: [^\s.!?]+){0,8}? <goods>\b[^\n]{0,80}?\b<toward>\b[^\n]{0,20}?<place>",
        r"!\[[^\]\n]{0,80}\]\(https?://[^)\s]{1,200}[?&][^)\s=]{1,40}=(?:\{|%7b|<|\$|\[)",
    ),
    "claims rights": (
        r"\b<raise>\b(?: \w+){0,5} <high> <right>\b",
        r"\b<who>(?: \w+){0,4} <is> (?:now )?(?:pre-?)?<cleared>(?: \w+){0,3} <high>\b",
        r"\b(?:assistant|agent|you) (?:has|have|had) (?:now )?<high> <right>\b",
        r"\b(?:is_?admin|is_?root|superuser|sudo)\W{1,4}(?:true|1|yes)\b",
        r"\b(?:role|permissions?|privileges?|access_level)[\"']?\s?[:=]\s?[\"']?<high>\b",
    ),
    "runs commands": (
        r"\b(?:curl|wget)\b[^\n|;]{1,200}\|\s?(?:ba|z)?sh\b|\brm -rf? [/~*]",
        r"\b(?:os\.system|subprocess\.(?:run|popen|call))\s?\(",
        r"\bpowershell\b[^\n]{0,40}-enc|;\s?(?:drop|truncate) table\b",
    ),
}


def _expanded(phrase: str) -> str:
    for name, listed in _LISTS.items():
        if f"<{name}>" in phrase:
            spelled = "|".join(word.replace("_", " ") for word in listed.split(" "))
            phrase = phrase.replace(f"<{name}>", f"(?:{spelled})")
    return phrase


_PATTERNS = tuple(
    (name, tuple(re.compile(_expanded(phrase)) for phrase in phrases))
    for name, phrases in _PHRASES.items()
)

_UNSEEN = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\U000e0100-\U000e01ef]"
)

_TAGS = {0xE0000 + code: code for code in range(0x20, 0x7F)}
"""Tag characters, which are not seen, and spell ASCII."""

_LOOKALIKES = str.maketrans(
    "\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0456\u0458\u0455\u0501\u04bb\u04cf\u043a\u043c"
    "\u043d\u0442\u03bd\u03bf\u03c1\u03b1\u03b9\u03ba\u03c4\u0261\u0131",
    "aeopcyxijsdhlkmhtvopaiktgi",
)
"""Letters that pass for Latin ones: https://www.unicode.org/reports/tr39/ has the whole list."""

_SPACED = re.compile(r"\b(?:\w[ .\-_*]){2,}\w\b")
_GAPS = re.compile(r"[ .\-_*]")
_ENCODED = re.compile(r"[A-Za-z0-9+/]{24,}={0,2}")
_SPACES = re.compile(r"[^\S\n]+")

DECODED = 8
"""Pieces of base64 of a text that are read."""


def injections(text: str) -> Iterator[str]:
    """Yield what families of phrases are in *text*."""
    forms = list(dict.fromkeys(_forms(text)))
    for name, patterns in _PATTERNS:
        if any(pattern.search(form) for form in forms for pattern in patterns):
            yield name


def _forms(text: str) -> Iterator[str]:
    seen = visible(text)
    yield seen
    yield seen.translate(_LOOKALIKES)
    if _SPACED.search(seen):
        words = re.split(r"\s{2,}|\n", unveiled(text).lower())
        yield " ".join(_SPACED.sub(lambda run: _GAPS.sub("", run[0]), word) for word in words)
    for _, piece in zip(range(DECODED), _ENCODED.finditer(text), strict=False):
        try:
            decoded = b64decode(piece[0] + "=" * (-len(piece[0]) % 4)).decode()
        except (Error, UnicodeDecodeError):
            continue
        yield visible(decoded)


def visible(text: str) -> str:
    """Return *text* as phrases are looked for in it: unveiled, lower case, with single spaces."""
    return _SPACES.sub(" ", unveiled(text).lower().replace("\u2019", "'"))


def unveiled(text: str) -> str:
    """Return *text* as it is seen: compatibility forms, and nothing unseen."""
    if text.isascii():
        return text
    return _UNSEEN.sub("", unicodedata.normalize("NFKC", text.translate(_TAGS)))
