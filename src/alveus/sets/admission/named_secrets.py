"""Secrets that a name stands before: settings, arguments, and "my password is …"."""

from __future__ import annotations

import re
from collections.abc import Iterator

from alveus.sets.admission.secret_formats import SecretSpan
from alveus.sets.admission.secret_values import is_assigned, is_placeholder, is_spoken, is_told

_PASSWORDS = (
    r"pass(?:word|wd|phrase|code|wort)|(?<![a-z])p(?:wd|w|ass|sk)|(?<=db)p(?:ass|wd|w)"
    r"|(?<=user)pass|kennwort|mot de passe|contrase(?:ñ|n)a|senha|wachtwoord"
    r"|has(?:ł|l)(?:o|em)\b|şifre(?:m|si|miz)?\b|\bparola\b|\blösenord(?:et)?|salasana"
    r"|mật khẩu|kata sandi"
    r"|парол(?:ь|я|ем)|密码|密碼|パスワード|暗証番号|비밀번호|पासवर्ड|كلمة المرور|كلمة السر"
    r"|wi-?fi (?:code|key)|wlan-schlüssel"
)

_KEYS = (
    r"(?:api|access|secret|private|encrypt(?:ion)?|signing|auth|master|account|storage|session|client)"
    r"[-_ ]?(?:access[-_ ]?)?(?:key|token|secret)|(?:[-_ ]|(?<=[a-z]))?(?:token|secret|credential)"
    r"|(?<=_)auth|webhook[-_ ]secret|signing[-_ ]key"
)

_NAME = re.compile(rf"(?P<password>{_PASSWORDS})|(?P<key>{_KEYS})")
"""What is looked for in the text in lower case."""

_LISTED = (
    "pass pw psk kennwort contrase senha wachtwoord hasł hasl şifre parola lösenord salasana"
    " mật kata парол 密 パスワード 暗証 비밀번호 पासवर्ड كلمة wifi wi-fi wlan token secret key auth"
    " credential phrase mnemonic"
)
_PHRASE_PARTS = ("phrase", "mnemonic", "frase", "wachtwoordzin", "фраза", "l\u00f6senfras")

_PARTS = tuple(_LISTED.split(" "))
"""A text in lower case that has none of these has no such name."""

_AFTER = re.compile(
    r"""(?x)
    \d{0,2}["'\]]{0,2}
    (?P<set>
        [ \t]{0,4} (?: => | := | [:=\uff1a\uff1d] )          # =  :  :=  =>
      | (?<=["']) \s{1,3} value \s? =                       # <add key="password" value="…">
      | (?<=["']) , (?=\s{0,3}["'])                          # ("PASSWORD", "…")
    )
    (?: [ \t]{0,8} (?: [>|][+-]? | [\\(] )? [ \t]{0,4} \r?\n [ \t]{0,12}   # the next line
      | [ \t]{0,8} \(? [ \t]{0,4} )
    """
)

_QUOTED = re.compile(r"([\"'`])([^\"'`\n]{4,600})\1")
_BARE = re.compile(r"[^\s\"'`<>,;\u3002\u3001\uff0c]{4,300}")
_NEXT_FIELD = re.compile(r"&(?=\w+=)")
_REST = re.compile(r"[\w+/=.~-]*")
_MORE = re.compile(r"\\?[ \t]{0,8}[+\\]?[ \t]{0,8}\r?\n[ \t]{0,12}([\"'`]?)([\w+/=-]{8,600})\1")
_ELEMENT = re.compile(r">([^<\s]{4,600})</")

_FLAG = re.compile(r"(?s:.*)(?<!\S)--?[\w-]{0,18}$")
_OPTION = re.compile(r"[ =][\"']?([^\s\"'<>-][^\s\"'<>]{5,600})")

_SAID = re.compile(
    r"""(?x)
    (?: [ ](?! \w{1,8}= ) [^\s.!?:;=,"]{1,20} ){0,7}?
    (?: \s? [:=\u2013\u2014-]
      | [ ](?: is | was | lautet | ist | war | est | es | é | è | to | är | on | adalah | là )
      | \s{0,2} (?: 是 | は | 为 | 為 | हैं | है | هي | هو | \uff1a ) )
    \s{1,3} | [ ] | \s? (?:是|は|为|為|는|은) \s?
    """
)
"""What stands between "password" and one, in a sentence."""

_NEXT = re.compile(r"[\"'`\u201c\u2018\u00ab]?([^\s\"'`<>\u201d\u2019\u00bb\u3002\uff0c]{4,300})")

_PHRASE = re.compile(
    r"(?:seed|recovery|backup|mnemonic|secret) phrase|mnemonic|pass[- ]?phrase"
    r"|phrase (?:de passe|secr\u00e8te)|frase (?:de (?:contrase\u00f1a|paso)|secreta|segreta)"
    r"|wachtwoordzin|l\u00f6senfras(?:en)?|парольная фраза|парольна фраза|密码短语|密碼短語"
    r"|パスフレーズ",
    re.IGNORECASE,
)
_WORDS = re.compile(
    r"(?:\s?[:=]|\s(?:is|was))?\s{0,3}[\"'\u201c]?((?:[a-z]{3,8}[ ,]{1,2}){11,23}[a-z]{3,8})"
)
_IN_QUOTES = re.compile(
    r"(?: [^\s.!?:;=,\"]{1,20}){0,6}?(?:\s?[:=]|\s(?:is|was|lautet|ist|est|es)\b:?)?\s{0,3}"
    r"[\"\u201c']([^\"'\u201d\n]{8,120})[\"\u201d']"
)
_TOLD = re.compile(
    r"(?: [^\s.!?:;=,\"]{1,20}){0,6}?"
    r"(?:\s?[:=\u2013\u2014]|\s(?:is|was|lautet|ist|est|es|\u00e8|\u00e9|to|\u00e4r)\b:?)\s{1,2}"
    r"([^\n.!?;,\"()]{12,120})"
)
_WORD = re.compile(r"[^\W_]+(?:-[^\W_]+)*")
_JOINED = re.compile(r"[^\W\d_]{3,12}(?:[-_][^\W\d_]{3,12}){2,11}")

_LISTED_WORDS = (
    "a an the this that it its i you we he she they my your our not no in on at of to for from by"
    " with as and or but if so too very only still also already never always probably now then"
    " is was be been has have had can could will would should must may might which what who when"
    " where how than more most least about after before stored saved kept written known required"
    " needed wrong missing long short word words character characters letters digits random"
    " something nothing changed expired used"
    " der die das ein eine im auf zu von mit und oder nicht nur noch wird wurde sie er es ich"
    " le la les un une des du de dans sur pour par avec et ou pas que qui est"
    " el los las una en con por para y o se il lo gli di da per e non che uno"
    " het een op van met voor niet te w na z do nie"
)
_SPEAKING = frozenset(_LISTED_WORDS.split(" "))
"""Words that speak of a passphrase, and stand in few: those are drawn from nouns."""

LEAST_WORDS, MOST_WORDS = 4, 12

_PIN = re.compile(
    r"\bPIN\b(?: code)?(?:\s?[:=]| is| was| lautet| ist| est| es| è)\s?(\d{4,8})(?![\d.,:-]*\d)"
)
_CODES = re.compile(r"(?i)(?:recovery|backup|one-time|scratch) codes?\b([^\n]{0,200})")
_CODE = re.compile(r"\b(?=[a-z0-9-]{0,12}\d)[a-z0-9]{4,6}-[a-z0-9]{4,6}\b")

LEAST_PASSWORD = 6
LEAST_KEY = 16
LONGEST = 300
"""Characters of a value that are looked at; what is a secret by these goes on to its end."""


def named_secrets(text: str) -> Iterator[SecretSpan]:
    """Yield where *text* has a secret after a name that says so."""
    lowered = text.lower()
    if len(lowered) != len(text):  # a letter whose small form is two
        lowered = "".join(c if len(c.lower()) > 1 else c.lower() for c in text)
    for parts, search in ((_PARTS, _named), (_PHRASE_PARTS, _phrases), (("pin", " code"), _codes)):
        for part in parts:
            if part in lowered:
                yield from search(text, lowered)
                break


def _codes(text: str, lowered: str) -> Iterator[SecretSpan]:
    """Yield where a text has a PIN, or codes for recovery."""
    for pin in _PIN.finditer(text):
        yield SecretSpan(*pin.span(1), "PIN")
    if " code" in lowered:
        for codes in _CODES.finditer(text):
            for code in _CODE.finditer(text, *codes.span(1)):
                yield SecretSpan(*code.span(), "recovery code")


def _named(text: str, lowered: str) -> Iterator[SecretSpan]:
    """Yield where a text has a secret after its name; *lowered* is the text in lower case."""
    done = 0
    for name in _NAME.finditer(lowered):
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
    """Return where the value of an option ``--password`` stands."""
    begin = max(0, name.start() - 20)
    if text.find("-", begin, name.start()) < 0:
        return None
    if _FLAG.match(text, begin, name.start()) is None:
        return None
    value = _OPTION.match(text, name.end())
    if value is None:
        return None
    if len(value[1]) < LEAST_PASSWORD or is_placeholder(value[1]):
        return None
    return value.span(1)


def _assigned(text: str, at: int, least: int) -> tuple[int, int] | None:
    """Return where the value stands that a name is set to, if it is a secret."""
    if (element := _ELEMENT.match(text, at)) and is_assigned(element[1], least=least, quoted=True):
        return element.span(1)
    after = _AFTER.match(text, at)
    if after is None:
        return None
    value = _QUOTED.match(text, after.end())
    if value is not None:
        if not is_assigned(value[2], least=least, quoted=True) or " " in value[2].strip():
            return None
        return value.start(2), _continued(text, value.end(), value.end(2))
    value = _BARE.match(text, after.end())
    if value is None:
        return None
    said = value[0] if "&" not in value[0] else _NEXT_FIELD.split(value[0])[0]
    said = said.rstrip(".)]}\\")
    if "\n" in after[0] and re.match(r"\s*[:=]", text[value.end() - 1 : value.end() + 4]):
        return None
    if not is_assigned(said, least=least, quoted=False):
        return None
    end = value.start() + len(said)
    if len(value[0]) == LONGEST and len(said) == LONGEST:
        end = _whole(text, end)
    return value.start(), _continued(text, end, end) if text[end : end + 1] == "\\" else end


def _whole(text: str, end: int) -> int:
    rest = _REST.match(text, end)
    return end if rest is None else rest.end()


def _continued(text: str, at: int, end: int) -> int:
    """Return where a value ends that goes on in the next lines; *at* is after its quote."""
    while more := _MORE.match(text, at):
        at, end = more.end(), more.end(2)
    return end


def _said(text: str, at: int, least: int) -> tuple[int, int] | None:
    """Return where the word stands that a sentence tells for a password, if it may be one."""
    after = _SAID.match(text, at)
    if after is None:
        return None
    told = _NEXT.match(text, after.end())
    if told is None:
        return None
    word = told[1].rstrip(".,;:!?)]}\u3002")
    if not is_spoken(word, least=least):
        return None
    return told.start(1), told.start(1) + len(word)


def _phrases(text: str, _lowered: str) -> Iterator[SecretSpan]:
    """Yield where a text has a phrase of several words that is a secret."""
    for name in _PHRASE.finditer(text):
        if words := _WORDS.match(text, name.end()):
            yield SecretSpan(*words.span(1), "seed phrase")
        elif (quoted := _IN_QUOTES.match(text, name.end())) and (
            is_told(quoted[1]) or _spoken_phrase(quoted[1])
        ):
            yield SecretSpan(*quoted.span(1), "passphrase")
        elif (told := _TOLD.match(text, name.end())) and (end := _spoken_phrase(told[1])):
            yield SecretSpan(told.start(1), told.start(1) + end, "passphrase")


def _spoken_phrase(told: str) -> int:
    """Return how many characters of what is told are a passphrase of several words; 0: none."""
    joined = _JOINED.match(told)
    if joined is not None and joined.end() == len(told.split(maxsplit=1)[0]):
        return 0 if is_placeholder(joined[0]) else joined.end()
    words = told.split()
    if not LEAST_WORDS <= len(words) <= MOST_WORDS or is_placeholder(told):
        return 0
    plain = all(_WORD.fullmatch(word) and word.lower() not in _SPEAKING for word in words)
    return len(told.rstrip()) if plain else 0
