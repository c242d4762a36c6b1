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
    "pass pwd pw psk kennwort contrase senha wachtwoord hasł hasl şifre parola lösenord salasana"
    " mật kata парол 密 パスワード 暗証 비밀번호 पासवर्ड كلمة wifi wi-fi wlan token secret key auth"
    " credential phrase mnemonic"
)
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
    r"(?:seed|recovery|backup|mnemonic|secret) phrase|mnemonic|passphrase", re.IGNORECASE
)
_WORDS = re.compile(
    r"(?:\s?[:=]|\s(?:is|was))?\s{0,3}[\"'\u201c]?((?:[a-z]{3,8}[ ,]{1,2}){11,23}[a-z]{3,8})"
)
_IN_QUOTES = re.compile(
    r"(?:\s?[:=]|\s(?:is|was))?\s{0,3}[\"\u201c']([^\"'\u201d\n]{8,120})[\"\u201d']"
)
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
    for part in _PARTS:
        if part in lowered:
            yield from _named(text, lowered)
            break
    if "PIN" in text:
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
    if "phrase" in lowered or "mnemonic" in lowered:
        yield from _phrases(text)


def _argument(text: str, name: re.Match[str]) -> tuple[int, int] | None:
    """Return where the value of an option ``--password`` stands."""
    value = _OPTION.match(text, name.end())
    if value is None or _FLAG.match(text, max(0, name.start() - 20), name.start()) is None:
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
    said = re.split(r"&(?=\w+=)", value[0])[0].rstrip(".)]}\\")
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


def _phrases(text: str) -> Iterator[SecretSpan]:
    """Yield where a text has a phrase of several words that is a secret."""
    for name in _PHRASE.finditer(text):
        if words := _WORDS.match(text, name.end()):
            yield SecretSpan(*words.span(1), "seed phrase")
        elif (quoted := _IN_QUOTES.match(text, name.end())) and is_told(quoted[1]):
            yield SecretSpan(*quoted.span(1), "passphrase")
