"""The reader of models' answers: without thoughts and marks of templates, as text or as JSON.

Open models write their thoughts into the answer, between marks that their chat templates define; a
server that does not know a model's marks leaves them there. The opening mark is missing where the
template ends a prompt with it, and the closing mark where the answer was cut.

Sources: the chat templates of the models, and the reasoning parsers of vLLM, SGLang and llama.cpp.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NoReturn, cast

from alveus.values.lazy import words_of
from alveus.values.storable import as_dict

LONGEST_ANSWER = 1_000_000
"""Most characters of an answer that is read as JSON."""

_LISTS = words_of(__file__)
_RELATIVES = _LISTS["relatives"]
_DETAILS_END = "</details>"
_PAIRS: Mapping[str, str] = {
    **{f"<{name}>": f"</{name}>" for name in _LISTS["tags"]},
    **dict(zip(_LISTS["pairs"][::2], _LISTS["pairs"][1::2], strict=True)),
    '<details type="reasoning"': _DETAILS_END,  # Open WebUI; more attributes follow
}
"""The marks that begin thoughts, and the marks that end them."""

_HEADERS = ("<|channel|>", "<|start|>")
"""Marks that begin a header of OpenAI's harmony format (gpt-oss). `_HEADER_END` ends the header."""
_HEADER_END = "<|message|>"
_MESSAGE_ENDS = ("<|end|>", "<|return|>", "<|call|>")

_DROPPED = (*_MESSAGE_ENDS, *_LISTS["dropped"])
_WRAPPERS, _STARTS, _ENDS = _LISTS["wrappers"], _LISTS["starts"], _LISTS["ends"]
_UNWRAPPERS = tuple(f"</{one[1:]}" for one in _WRAPPERS)

_PHRASES: Mapping[str, str] = {
    "Here is my thought process:": "Here is my response:",  # Granite 3.2
    "Here's my thought process:": "Here's my response:",  # the same, quantized
    "analysis": "assistantfinal",  # gpt-oss, if a server drops the marks and keeps their names
}
_NOTES: Mapping[str, str] = {
    f"<{name}>": f"</{name}>" for name in ("reflection", "scratchpad", "analysis")
}
"""Tags of notes that prompts ask for. An answer may mention the tags, or consist of notes."""
_ONLY_AT_BEGINNING = {**_PHRASES, **_NOTES}
"""Texts that begin thoughts only at the beginning of an answer, and only if their end follows."""
_ANSWER_FOLLOWS = (
    r"(?=\w|\s{0,7}\n\s{0,7}(?:[^\s<]|<[aors])|[ \t]{0,7}(?:[^\s<.,;:!?)a-z]|<[aors]))"
)
"""Must match behind notes: a wrapper, other notes or text, but no end and no rest of a sentence."""


def _any_of(marks: Iterable[str]) -> str:
    """Return a pattern that matches any of *marks*.

    Case matters only in words and in marks with square brackets. A tag may have
    white space before its ">".
    """
    ordered = sorted(marks, key=len, reverse=True)
    exact = [one for one in ordered if one[0].isalpha() or one[0] == "["]
    free = [one for one in ordered if one not in exact]
    patterns = ["|".join(map(re.escape, exact))] if exact else []
    patterns += [f"(?i:{'|'.join(map(_pattern, free))})"] if free else []
    return "|".join(patterns)


def _pattern(mark: str) -> str:
    is_tag = mark[0] == "<" and mark[-2].isalpha() and mark[-1] == ">"
    return rf"{re.escape(mark[:-1])}\s{{0,4}}>" if is_tag else re.escape(mark)


_TAG_SPACE = re.compile(r"(?<=\w)\s{1,4}(?=>?\Z)")


def _plain(mark: str) -> str:
    """Return the form in which a mark, or the beginning of a mark, is looked up.

    All spellings of a mark have the same form.
    """
    return _TAG_SPACE.sub("", mark).lower()


_MARK = re.compile(
    f"(?P<open>{_any_of(_PAIRS)})|(?P<header>{_any_of(_HEADERS)})|(?P<dropped>{_any_of(_DROPPED)})"
    f"|(?P<close>{_any_of({*_PAIRS.values()} - {_DETAILS_END})})|(?P<unwrap>{_any_of(_UNWRAPPERS)})"
    r"|(?P<escape>\\[^\n])|(?P<context>\n|```|~~~|[`\"{}\[\]])"
)
_START = re.compile(_any_of(_STARTS))
_OPEN = re.compile(_any_of(_PAIRS))
_BEGINS_ALONE = re.compile(_any_of(_ONLY_AT_BEGINNING))
_WRAPPER = re.compile(_any_of(_WRAPPERS))
_RELATED_ENDS = [f"</{name}>" for name in _RELATIVES]
_CLOSINGS = {
    opening.lower(): re.compile(_any_of(_RELATED_ENDS if end in _RELATED_ENDS else [end]))
    for opening, end in {**_PAIRS, **_PHRASES}.items()
} | {opening: re.compile(_any_of([end]) + _ANSWER_FOLLOWS) for opening, end in _NOTES.items()}
_MESSAGE_ENDING = re.compile(f"{_any_of(_MESSAGE_ENDS)}|(?={_any_of(_HEADERS)})")
_END = re.compile(rf"(?:\s*(?:{_any_of(_ENDS)}))+\s*\Z")
_JSON_BEGINS = re.compile(r"\{\s*[\"}]|\[\s*[\[{\"\]]")

_LITERALS = tuple(
    one.lower()
    for group in (
        _PAIRS, _PAIRS.values(), _HEADERS, _DROPPED, _WRAPPERS, _UNWRAPPERS, _ENDS, _STARTS,
        _ONLY_AT_BEGINNING,
    )
    for one in group
)  # fmt: skip
_LONGEST = max(map(len, _LITERALS))
_LONGEST_END = 4 * _LONGEST
_CONTEXT_TAIL = re.compile(r"(?:\\|`{1,3}|~{1,3}|[{\[]\s*)\Z")

_SPACE = " \t\r\n\f\v\ufeff"

_NEEDED = ("<", "\u25c1", "[/", "[THINK]", "[unused")
"""An answer with marks contains one of these texts, or begins as `_BEGINNING` matches."""
_BEGINNING = re.compile(rf"[{_SPACE}]*(?:{_any_of([*_STARTS, *_PHRASES])})|\ufeff")

_FENCES = ("```", "~~~")

_QUOTES = frozenset("\"'`\u201c\u201d\u2018\u2019\xab\xbb\u201e")
"""A mark directly between two of these is only mentioned, if the two may be a pair of quotes."""

_SENTENCE_ENDS = frozenset(".!?")

LONGEST_PIECE = 1 << 14
"""Characters of an answer that are read at once. The time grows with the square of the number."""

_State = Literal["start", "answer", "thoughts", "header"]

_FIRSTS = re.compile(
    f"[{re.escape(''.join(sorted({m[0] for m in _LITERALS if not m[0].isalpha()})))}]"
)


def answer_text(answer: str) -> str:
    """Return the text of *answer*, without thoughts and without the marks around it.

    Marks that are only mentioned stay: in strings of JSON, in code, and between quotes. An answer
    without marks is returned unchanged. Any other answer loses the white space at its two ends. The
    result is "" if there are only thoughts.
    """
    if not (any(mark in answer for mark in _NEEDED) or _BEGINNING.match(answer)):
        return answer
    reader, pieces = AnswerReader(), list[str]()
    last = max(0, len(answer) - 1) // LONGEST_PIECE * LONGEST_PIECE
    for at in range(0, last + 1, LONGEST_PIECE):
        piece = answer[at : at + LONGEST_PIECE]
        text = reader.end(piece) if at == last else reader.feed(piece)
        if reader.took_back:
            pieces.clear()
            text, reader.took_back = text[len(reader.took_back) :], ""
        pieces.append(text)
    found = "".join(pieces)
    return found if len(found) == len(answer) else found.strip()


class AnswerReader:
    """Reads an answer that comes in pieces, as `answer_text` reads a whole one.

    Thoughts without an opening mark are recognised only by their closing mark. Text that was
    returned before that mark cannot be taken back. In this case the mark is returned too, so that
    `answer_text` of all returned text is the answer.

    Attributes:
        took_back: The last closing mark that was returned to take text back, or "".
    """

    def __init__(self) -> None:
        self._held, self._at = "", 0
        self._pieces: list[str] = []
        self._state: _State = "start"
        self._closing = _MESSAGE_ENDING
        self._may_be_text = self._is_final = self._was_cut = False
        self._has_said = self._has_returned = self._has_thought = self._has_struck = False
        self._wrapper = ""
        self.took_back = ""
        self._context = _Context()

    def feed(self, piece: str) -> str:
        """Read *piece*. Return the part of the answer that is now known."""
        self._held += piece
        return self._read(is_last=False)

    def end(self, piece: str = "") -> str:
        """Read *piece*, the last piece. Return the rest of the answer."""
        self._held += piece
        return self._read(is_last=True)

    def _read(self, *, is_last: bool) -> str:
        steps = {
            "start": self._begin,
            "answer": self._answer,
            "thoughts": self._thoughts,
            "header": self._header,
        }
        while steps[self._state](is_last=is_last):
            pass
        found = "".join(self._pieces)
        self._pieces.clear()
        self._has_returned = self._has_returned or bool(found.strip())
        return found

    def _drop(self, count: int) -> None:
        self._held, self._at = self._held[count:], 0

    def _say(self, count: int) -> None:
        """Move the first *count* held characters to the answer."""
        text = self._held[:count]
        self._drop(count)
        if text:
            self._pieces.append(text)
            self._has_said = self._has_said or bool(text.strip())
            self._has_struck = self._has_struck or "<s>" in text
            self._context.go_on(text)

    # --- before an answer, and behind thoughts ------------------------------------------------

    def _begin(self, *, is_last: bool) -> bool:
        """Read the text before an answer. Return whether reading can continue now."""
        body = self._held.lstrip(_SPACE)
        blank = len(self._held) - len(body)
        if not is_last and blank < _LONGEST_END and (not body or _may_become_a_mark(body)):
            return False
        if self._has_said:
            self._drop(blank if self._context.is_after_space else 0)
        elif found := self._first_mark(body):
            self._drop(blank + found.end())
            self._was_cut = True
            return True
        elif found := _OPEN.match(body):
            self._think(blank, found)
            return True
        elif found := _BEGINS_ALONE.match(body):
            self._drop(blank)
            self._state, self._may_be_text, self._at = "thoughts", True, found.end()
            self._closing = _CLOSINGS[_plain(found[0])]
            return True
        elif self._was_cut or self._held.startswith("\ufeff"):
            self._drop(blank)
        self._state = "answer"
        return True

    def _first_mark(self, body: str) -> re.Match[str] | None:
        """Return the mark of the chat's template with which *body* begins, or None."""
        if found := _START.match(body):
            is_speaker = found[0].endswith(":")
            return (
                found if not is_speaker or body[found.end() : found.end() + 1].isspace() else None
            )
        if self._was_cut and (found := _WRAPPER.match(body)):
            self._wrapper = f"</{_plain(found[0])[1:]}"
            return found
        return None

    # --- the answer ---------------------------------------------------------------------------

    def _answer(self, *, is_last: bool) -> bool:
        """Read the answer up to the next mark. Return whether a mark was found."""
        text = self._held
        end = _undecided(text) if not is_last else len(text)
        if is_last and (tail := _END.search(text, max(0, end - _LONGEST_END))):
            is_html = "</s>" in tail[0] and (self._has_struck or "<s>" in text)
            end = end if is_html else tail.start()
        for found in _MARK.finditer(text, 0, end):
            if self._context.keeps(found, is_last=is_last):
                continue
            if found["unwrap"] and _plain(found[0]) != self._wrapper:
                continue
            at = found.start()
            is_at_line_start = self._context.is_line_blank(text, at)
            self._say(at)
            self._take(found, is_at_line_start=is_at_line_start)
            return True
        self._say(end)
        if is_last:
            self._drop(len(self._held))
        return False

    def _take(self, found: re.Match[str], *, is_at_line_start: bool) -> None:
        """Continue after the mark *found*, with which the held text begins."""
        size = len(found[0])
        if found["open"]:
            self._think(0, found)
            if self._has_said and not is_at_line_start and not self._has_thought:
                self._held, self._at, self._may_be_text = found[0] + self._held, size, True
        elif found["header"]:
            self._state = "header"
        else:
            self._drop(size)
            if found["close"]:
                self._forget(found[0])
            if not self._has_said:
                self._state, self._was_cut = "start", True

    def _forget(self, mark: str) -> None:
        """Treat the text so far, which ended with *mark*, as thoughts."""
        self._pieces.clear()
        if self._has_returned:
            self._pieces.append(mark)
            self.took_back = mark
        self._has_said, self._context = False, _Context()

    # --- thoughts -----------------------------------------------------------------------------

    def _think(self, blank: int, opening: re.Match[str]) -> None:
        mark = opening[0]
        self._drop(blank + len(mark))
        self._closing = _CLOSINGS[_plain(mark)]
        self._state, self._may_be_text = "thoughts", False

    def _thoughts(self, *, is_last: bool) -> bool:
        """Read thoughts up to their end. Return whether reading can continue now."""
        for found in self._closing.finditer(self._held, self._at):
            if not is_last and found.end() + 1 >= len(self._held):
                return False
            if not _is_quoted(self._held, *found.span()):
                self._drop(found.end())
                self._state, self._was_cut, self._has_thought = "start", True, True
                self._context.is_line_new = True
                return True
        if is_last:
            self._state = "answer"
            if self._may_be_text and not self._has_said:
                return True
            self._say(len(self._held) if self._may_be_text else 0)
            self._drop(len(self._held))
        elif self._may_be_text:
            self._at = max(self._at, len(self._held) - _LONGEST)
        else:
            self._drop(max(0, len(self._held) - _LONGEST - 2))
        return False

    def _header(self, *, is_last: bool) -> bool:
        """Read a header of the harmony format, which says whether thoughts follow.

        Return whether its end was found.
        """
        head, end, _ = self._held.partition(_HEADER_END)
        if not end:
            if is_last:
                self._drop(len(self._held))
            return False
        self._drop(len(head) + len(end))
        channel = head.rpartition(_HEADERS[0])[2].split()
        if _HEADERS[0] in head and channel[:1] != ["final"]:
            self._state, self._may_be_text, self._closing = "thoughts", False, _MESSAGE_ENDING
            return True
        if not self._is_final:
            self._forget(f"{_HEADERS[0]}final{_HEADER_END}")
        self._state, self._was_cut, self._is_final = "start", True, True
        return True


class _Context:
    """The context at a position of an answer: code, a string of JSON, or the start of a line."""

    def __init__(self) -> None:
        self.is_line_new = True
        self._before = ""
        self._fence, self._is_code = "", False
        self._depth, self._is_string = 0, False

    @property
    def is_after_space(self) -> bool:
        """Whether the text so far is empty or ends with white space."""
        return not self._before or self._before[-1].isspace()

    def go_on(self, text: str) -> None:
        """Continue after *text*, which is a part of the answer."""
        self.is_line_new = self.is_line_blank(text, len(text))
        self._before = (self._before + text[-2:])[-2:]

    def is_line_blank(self, text: str, at: int) -> bool:
        """Return whether the line has only white space before position *at* of *text*."""
        near = text[max(0, at - _LONGEST_END) : at]
        newline = near.rfind("\n")
        is_blank = not near[newline + 1 :].strip()
        return is_blank and (newline >= 0 or (at == len(near) and self.is_line_new))

    def keeps(self, found: re.Match[str], *, is_last: bool) -> bool:
        """Return whether the mark *found* is ordinary text of the answer. Update the context."""
        if found["escape"]:
            return True
        if found["context"]:
            self._turn(found)
            return True
        text, (start, end) = found.string, found.span()
        if self._is_string or _is_quoted(text, start, end, self._before):
            return True
        if self._fence:
            return not is_last or text.find(self._fence, end) >= 0
        if self._is_code:
            tick, newline = text.find("`", end), text.find("\n", end)
            return not is_last or 0 <= tick < (newline if newline >= 0 else len(text))
        return False

    def _turn(self, found: re.Match[str]) -> None:
        mark = found[0]
        if mark in _FENCES:
            self._turn_fence(found)
        elif mark == "\n":
            self._is_code = False
            if self._is_string:  # a string of JSON has no end of line
                self._is_string, self._depth = False, 0
        elif mark == '"':
            self._is_string = bool(self._depth) and not self._is_string
        elif self._is_string:
            return
        elif mark == "`":
            self._is_code = not (self._is_code or self._depth or self._fence)
        elif mark in ("}", "]"):
            self._depth = max(0, self._depth - 1)
        elif self._depth or _JSON_BEGINS.match(found.string, found.start()):
            self._depth += 1

    def _turn_fence(self, found: re.Match[str]) -> None:
        if self._is_string or not self.is_line_blank(found.string, found.start()):
            return
        if self._fence in ("", found[0]):
            self._fence = "" if self._fence else found[0]
            self._depth = 0


def _is_quoted(text: str, start: int, end: int, before: str = "") -> bool:
    """Return whether a mark is between two quotes that may be a pair.

    They are no pair if the first one ends a quotation and the second one begins another.
    """
    first, behind = (before + text[max(0, start - 2) : start])[-2:], text[end : end + 2]
    if first[-1:] not in _QUOTES or behind[:1] not in _QUOTES:
        return False
    ends, begins = first[:-1], behind[1:]
    ends_a_quotation = ends in _QUOTES or ends in _SENTENCE_ENDS or _is_of_a_word(ends)
    return not (ends_a_quotation and _is_of_a_word(begins))


def _is_of_a_word(letter: str) -> bool:
    """Return whether *letter* is a letter or digit of a script with spaces between words."""
    return letter.isalnum() and letter < "\u2e80"


def _may_become_a_mark(text: str) -> bool:
    """Return whether *text* is a mark, or the beginning of one."""
    plain = _plain(text)
    return len(text) <= _LONGEST and any(one.startswith(plain) for one in _LITERALS)


def _undecided(text: str) -> int:
    """Return the position in *text* from which on further text may change the meaning."""
    near = max(0, len(text) - _LONGEST - 1)
    found = [one.start() for one in _FIRSTS.finditer(text, near)]
    known = len(text) - (text[-1:] in _QUOTES)  # the text after a quote may change its meaning
    marks = [
        at for at in found if _may_become_a_mark(text[at:]) or _may_become_a_mark(text[at:known])
    ]
    tail = _CONTEXT_TAIL.search(text, near)
    at = min([len(text) if tail is None else tail.start(), *marks])
    ends = _END.search(text, max(0, at - _LONGEST_END), at)
    at = ends.start() if ends else at
    return at - 1 if text[:at].endswith("\\") else at


# --- messages -----------------------------------------------------------------------------------

MODEL_ROLES = frozenset({"assistant", "ai", "bot", "model"})
"""The roles of messages by a model, in lower case."""

_THOUGHT_TYPES = frozenset({"thinking", "redacted_thinking", "reasoning", "reasoning_text"})
_THOUGHT_FIELDS = ("reasoning_content", "reasoning", "thinking")
_SIGNATURES = ("signature", "thought_signature", "encrypted_content", "data", "redactedContent")


def text_said(role: object, text: str) -> str:
    """Return the text of a message as it is read and searched.

    A message by a model loses its thoughts. Any other text stays unchanged.
    """
    is_of_model = isinstance(role, str) and role.casefold() in MODEL_ROLES
    return answer_text(text) if is_of_model else text


def is_thought(part: Mapping[str, object]) -> bool:
    """Return whether a part of a content, or an item of a session, is a model's thought.

    The known forms are those of Anthropic, OpenAI, Mistral, Google, Amazon and of frameworks.
    """
    kind = part.get("type")
    is_typed = isinstance(kind, str) and kind in _THOUGHT_TYPES
    return is_typed or part.get("thought") is True or "reasoningContent" in part


def message_without_thoughts(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message by a model without thoughts, and any other message unchanged.

    Thoughts with a signature are kept, because their server refuses the message without them.
    """
    made = dict(message)
    role = message.get("role", "assistant")
    if not isinstance(role, str) or role.casefold() not in MODEL_ROLES:
        return made
    for name in _THOUGHT_FIELDS:
        if isinstance(made.get(name), str):
            del made[name]
    content: object = made.get("content")
    if isinstance(content, str):
        made["content"] = answer_text(content)
    elif isinstance(content, list):
        parts = cast("list[object]", content)
        made["content"] = [_without_thoughts(part) for part in parts if not _is_dropped(part)]
    return made


def _is_dropped(part: object) -> bool:
    found = as_dict(part)
    return is_thought(found) and not _is_signed(found)


def _is_signed(part: Mapping[str, object]) -> bool:
    inner = [cast("dict[str, object]", one) for one in part.values() if isinstance(one, dict)]
    return any(part.get(name) for name in _SIGNATURES) or any(map(_is_signed, inner))


def _without_thoughts(part: object) -> object:
    if isinstance(part, str):
        return answer_text(part)
    found = as_dict(part)
    text = found.get("text")
    if not isinstance(text, str) or is_thought(found):
        return part
    return {**found, "text": answer_text(text)}


# --- JSON ---------------------------------------------------------------------------------------


class Unfit(ValueError):
    """An answer cannot be used. The model is shown the message, and can correct its answer."""


_FENCE = re.compile(
    r"^[ \t]*(```+|~~~+)[^\n`]*\n(.*?)(?:^[ \t]*\1[ \t]*$|\Z)", re.DOTALL | re.MULTILINE
)
_INLINE_FENCE = re.compile(
    r"^[ \t]*```[A-Za-z0-9]*[ \t]*([{\[].*[}\]])[ \t]*```[ \t]*$", re.MULTILINE
)
_JSON_LINE = re.compile(r"^[ \t]*(?=[{\[])", re.MULTILINE)

MOST_PIECES = 100
"""Most positions of an answer that are tried as the start of JSON."""


def read_json(answer: object) -> object:
    """Return the value of the JSON in an answer.

    The JSON may be the whole answer, or a fenced block or separate lines between sentences.

    Raises:
        Unfit: The answer has no JSON, or several pieces that differ. Or the JSON has a name twice,
            NaN or infinity, or is nested too deeply or too long.
    """
    text = _checked(answer)
    try:
        return _parsed(text)
    except Unfit:
        found = [*_pieces(text)]
        if not found:
            raise
    values = {json.dumps(one, sort_keys=True): one for one in found}
    if len(values) > 1:
        raise Unfit(f"it contains {len(values)} different JSON values; write one")
    return found[0]


def read_json_alone(answer: object) -> object:
    """Return the value of the JSON in an answer without other text. It may be in a fenced block.

    Raises:
        Unfit: As for `read_json`, or text precedes or follows the JSON.
    """
    text = _checked(answer)
    fenced = _FENCE.fullmatch(text) or _INLINE_FENCE.fullmatch(text)
    return _parsed(fenced[fenced.re.groups] if fenced else text)


def _checked(answer: object) -> str:
    if not isinstance(answer, str):
        raise Unfit(f"it is {type(answer).__name__}, not a text")
    if len(answer) > LONGEST_ANSWER:
        raise Unfit(f"it has more than {LONGEST_ANSWER:,} characters")
    return answer_text(answer).strip()


def _pieces(text: str) -> Sequence[object]:
    """Return the objects and lists in fenced blocks of JSON, or else on separate lines.

    Raises:
        Unfit: There are fenced blocks of JSON, but none can be read.
    """
    fenced = [
        found[found.re.groups].strip()
        for one in (_FENCE, _INLINE_FENCE)
        for found in one.finditer(text)
    ]
    found: list[object] = []
    problem: Unfit | None = None
    for piece in fenced[:MOST_PIECES]:
        if piece[:1] not in ("{", "["):
            continue
        try:
            found.append(_parsed(piece))
        except Unfit as error:
            problem = problem or error
    if problem is not None and not found:
        raise problem
    return found or _on_lines(text)


def _on_lines(text: str) -> Sequence[object]:
    decoder = json.JSONDecoder(object_pairs_hook=_once, parse_constant=_no_number)
    found: list[object] = []
    at = tried = 0
    while (line := _JSON_LINE.search(text, at)) and tried < MOST_PIECES:
        tried, at = tried + 1, line.end() + 1
        try:
            value, end = decoder.raw_decode(text, line.end())
        except (ValueError, RecursionError):
            continue
        if not text[end:].partition("\n")[0].strip():
            found.append(value)
            at = end
    return found


def _parsed(text: str) -> object:
    try:
        return json.loads(text, object_pairs_hook=_once, parse_constant=_no_number)
    except json.JSONDecodeError as error:
        raise Unfit(f"it is not JSON ({error.msg} at character {error.pos})") from error
    except RecursionError as error:
        raise Unfit("it is nested too deeply") from error
    except Unfit:
        raise
    except ValueError as error:
        raise Unfit("a number in it has too many digits") from error


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise Unfit("an object in it has the same name twice")
    return found


def _no_number(constant: str) -> NoReturn:
    raise Unfit(f"{constant} is not JSON")
