"""What the lines of an import file say: our own export, messages of a chat, conversations.

Every line is checked as far as that is possible without the store it goes to.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import blake2b
from typing import IO, Literal, TypeAlias, cast

from fornix import wire
from fornix.admission.rules import rules_of
from fornix.definition import Plan
from fornix.errors import FornixError, InvalidInput, RuleFailed
from fornix.items import Item, text_of
from fornix.records import as_passed
from fornix.scope import HIDDEN
from fornix.signals import Signals
from fornix.state import MemoryKind, MemoryRef
from fornix.store import Definition, Node
from fornix.transfer.export import FORMAT, LABELS
from fornix.values import Path, Value, checked, checked_name, microseconds
from fornix.words import MONTHS

Layout: TypeAlias = Literal["fornix", "chat", "conversation"]
"""What the lines of a file are: see docs/import-export.md."""

CHAT_FIELDS = {"id", "role", "content", "speaker", "session", "time", "metadata", "importance"}


@dataclass(frozen=True, slots=True)
class SetLine:
    """A set and its definition; *key* is None for a set of knowledge."""

    key: str | None
    set: str
    definition: Definition


@dataclass(frozen=True, slots=True)
class ItemLine:
    """An item of a set."""

    key: str | None
    set: str
    item: Item


@dataclass(frozen=True, slots=True)
class NodeLine:
    """A node of the exact tree of a key."""

    key: str
    path: Path
    node: Node


Entry: TypeAlias = SetLine | ItemLine | NodeLine


def numbered(name: str, raw: Iterable[bytes], *, past: int = 0) -> Iterator[tuple[int, str]]:
    """Yield the number and text of every line that is not blank.

    Args:
        past: How many lines were before.

    Raises:
        InvalidInput: A line is not UTF-8.
    """
    for number, line in enumerate(raw, start=past + 1):
        try:
            text = line.decode("utf-8-sig" if number == 1 else "utf-8").strip()
        except UnicodeDecodeError as error:
            problem = f"byte {error.start + 1} of the line is not UTF-8"
            raise wrong(name, number, problem, "save the file as UTF-8") from None
        if text:
            yield number, text


def wrong(name: str, number: int, problem: str, remedy: str) -> InvalidInput:
    """Return the error about a line of a file."""
    return InvalidInput(f"{name}:{number}: {problem}; {remedy}")


class Source:
    """A file to import, which is read twice: to check it, and to import it."""

    def __init__(self, name: str, handle: IO[bytes]) -> None:
        self.name = name
        self._handle = handle

    def lines(self) -> Iterator[tuple[int, str]]:
        """Yield the number and text of every line that is not blank.

        Raises:
            InvalidInput: A line is not UTF-8.
        """
        self._handle.seek(0)
        return numbered(self.name, self._handle)

    def objects(self, layout: Layout) -> Iterator[tuple[int, dict[str, Value]]]:
        """Yield the number and contents of every line; each must be a JSON object.

        Raises:
            InvalidInput: One is not.
        """
        decode = wire.decode if layout == "fornix" else json.loads
        for number, text in self.lines():
            try:
                found: Value = decode(text)
            except (ValueError, RecursionError) as error:
                problem = f"is not JSON that fornix reads ({error})"
                raise self.wrong(number, problem, "write one JSON object per line") from None
            if not isinstance(found, dict):
                problem = f"is JSON, but not an object: {text[:40]}"
                raise self.wrong(number, problem, "write one JSON object per line")
            yield number, found

    def wrong(self, number: int, problem: str, remedy: str) -> InvalidInput:
        """Return the error about a line."""
        return wrong(self.name, number, problem, remedy)

    def layout(self) -> Layout:
        """Return what the lines are, as the first one tells.

        Raises:
            InvalidInput: It cannot be told.
        """
        number, first = next(self.objects("chat"), (1, dict[str, Value]()))
        if first.get("type") in ("fornix", "set", "item", "object", "value"):
            return "fornix"
        if "sessions" in first:
            return "conversation"
        if "role" in first and "content" in first:
            return "chat"
        if not first:
            raise self.wrong(number, "there is nothing to import", "name another file")
        problem = f"cannot tell what this is from its fields {sorted(first)[:8]}"
        raise self.wrong(number, problem, "see docs/import-export.md, or name a --format")


@dataclass(frozen=True, slots=True)
class Target:
    """Where messages of a chat go; *key* None: into knowledge."""

    key: str | None
    set: str = "default"


def entries(source: Source, layout: Layout, target: Target | None) -> Iterator[tuple[int, Entry]]:
    """Yield what the lines of a file say, with their numbers.

    Args:
        target: Needed for what names no key itself: a chat, a conversation.

    Raises:
        InvalidInput: A line cannot be used; the message names it and what to do.
    """
    read = _FornixLines() if target is None else _ChatLines(target)
    parse = read.conversation if layout == "conversation" else read.line
    for number, fields in source.objects(layout):
        try:
            yield from ((number, entry) for entry in parse(fields))
        except FornixError as error:
            raise source.wrong(number, str(error), "correct the line and import again") from error


def _checked_item(item: Item) -> Item:
    """Return *item* if every part of it can be stored; a store would refuse it later."""
    checked_name(item.id, "an item's id")
    as_passed(item)
    if item.time is not None:
        microseconds(item.time)
    for name in LABELS:
        if getattr(item, name) is not None:
            checked_name(getattr(item, name), name)
    if type(item.importance) not in (int, float) or not 0 <= item.importance <= 1:
        raise InvalidInput(f"importance must be a number from 0 to 1, not {item.importance!r}")
    if item.text is None and text_of(item.value) is None:
        raise InvalidInput('the value has no text that search could read: add "text" ("" for none)')
    return item


def _time(found: Value) -> datetime | None:
    if found is None or (isinstance(found, (int, float)) and not isinstance(found, bool)):
        try:
            return None if found is None else datetime.fromtimestamp(found, UTC)
        except (OverflowError, OSError, ValueError):
            raise InvalidInput(
                f"the time {found!r} is out of range; Unix time is in seconds"
            ) from None
    return read_time(found)


def read_time(text: object) -> datetime:
    """Return the time that *text* (ISO 8601 with a zone) names.

    Raises:
        InvalidInput: It cannot be read, or has no zone.
    """
    try:
        time = datetime.fromisoformat(cast("str", text))
    except (TypeError, ValueError):
        like = "2025-02-05T19:42:00Z"
        raise InvalidInput(f"the time {text!r} is not understood; write it like {like}") from None
    if time.tzinfo is None:
        raise InvalidInput(f"the time {text!r} has no zone; add Z for UTC, or one like +01:00")
    return time


def _texts(fields: dict[str, Value], name: str) -> tuple[str, ...]:
    found = fields.get(name, [])
    if not isinstance(found, list) or not all(isinstance(text, str) for text in found):
        raise InvalidInput(f'"{name}" must be a list of texts, not {found!r}')
    return tuple(cast("list[str]", found))


def _metadata(fields: dict[str, Value]) -> dict[str, Value]:
    found = fields.get("metadata", {})
    if not isinstance(found, dict):
        raise InvalidInput(f'"metadata" must be an object, not {found!r}')
    return found


def _only(fields: dict[str, Value], known: str) -> None:
    unknown = sorted(set(fields).difference(known.split()))
    if unknown:
        raise InvalidInput(f"unknown fields {unknown}: a {fields['type']!r} line has {known}")


class _Ids:
    """Makes ids from contents: the same file gives the same ones, an appended line a new one."""

    def __init__(self) -> None:
        self._seen: Counter[bytes] = Counter()

    def make(self, contents: Value) -> str:
        line = checked(contents, where="the line", nan=True)
        digest = wire.digest(line, salt=b"fornix import")
        self._seen[digest] += 1
        numbered = digest + self._seen[digest].to_bytes(8)
        return f"import-{blake2b(numbered, digest_size=12).hexdigest()}"


class _FornixLines:
    """Reads the lines of an export."""

    def __init__(self) -> None:
        self._ids = _Ids()

    def line(self, fields: dict[str, Value]) -> Iterator[Entry]:
        kind = fields.get("type")
        if kind == "fornix":
            self._header(fields)
        elif kind == "set":
            yield self._set(fields)
        elif kind == "item":
            yield self._item(fields)
        elif kind in ("object", "value"):
            yield self._node(fields)
        else:
            raise InvalidInput(f'"type" is {kind!r}; it is fornix, set, item, object or value')

    conversation = line

    def _header(self, fields: dict[str, Value]) -> None:
        if fields.get("format") != FORMAT:
            raise InvalidInput(
                f"the format is {fields.get('format')!r}, this fornix reads {FORMAT}; "
                "upgrade fornix, or export it again with this one"
            )

    def _owner(self, fields: dict[str, Value]) -> tuple[str | None, str]:
        if "key" not in fields:
            raise InvalidInput('"key" is missing; it is null for knowledge')
        key = fields["key"]
        name = checked_name(fields.get("set"), '"set"')
        if name.startswith(HIDDEN):
            raise InvalidInput(f'"set" must not begin with {HIDDEN!r}, unlike {name!r}')
        return (None if key is None else checked_name(key, '"key"')), name

    def _set(self, fields: dict[str, Value]) -> Entry:
        _only(fields, "type key set capacity compaction item_type signals admission")
        key, name = self._owner(fields)
        capacity, item_type = fields.get("capacity"), fields.get("item_type")
        compaction, weights = fields.get("compaction", "trim"), fields.get("signals")
        if capacity is not None and (type(capacity) is not int or capacity < 1):
            raise InvalidInput(f'"capacity" must be a whole number from 1, not {capacity!r}')
        if compaction not in ("trim", "reject"):
            raise InvalidInput(f'"compaction" must be "trim" or "reject", not {compaction!r}')
        if weights is not None and not isinstance(weights, dict):
            raise InvalidInput(f'"signals" must be an object, not {weights!r}')
        signals = None if weights is None else Signals.from_json(cast("dict[str, float]", weights))
        if item_type is not None:
            checked_name(item_type, '"item_type"')
        made = Definition(
            capacity,
            compaction,
            cast("str | None", item_type),
            signals and signals.to_json(),
            admission=_admission(fields.get("admission")),
        )
        if key is None and (capacity, compaction, signals) != (None, "trim", None):
            raise InvalidInput("a set of knowledge has no capacity, compaction or signals")
        return SetLine(key, name, made)

    def _item(self, fields: dict[str, Value]) -> Entry:
        _only(
            fields,
            "type key set id time speaker role session value text metadata importance sources "
            "compacted",
        )
        key, name = self._owner(fields)
        if "value" not in fields:
            raise InvalidInput('"value" is missing')
        item = Item(
            value=fields["value"],
            id=cast("str", fields["id"]) if "id" in fields else self._ids.make(fields),
            text=cast("str | None", fields.get("text")),
            metadata=_metadata(fields),
            importance=cast("float", fields.get("importance", 0.0)),
            speaker=cast("str | None", fields.get("speaker")),
            role=cast("str | None", fields.get("role")),
            session=cast("str | None", fields.get("session")),
            time=_time(fields.get("time")),
            sources=_texts(fields, "sources"),
            compacted=fields.get("compacted") is True,
        )
        return ItemLine(key, name, _checked_item(item))

    def _node(self, fields: dict[str, Value]) -> Entry:
        _only(fields, "type key path value expires")
        key, path = checked_name(fields.get("key"), '"key"'), _texts(fields, "path")
        MemoryRef(MemoryKind.SHORT_TERM, path)
        if not path:
            raise InvalidInput('"path" is empty; name at least one field')
        is_object = fields["type"] == "object"
        if is_object == ("value" in fields):
            raise InvalidInput('a "value" line has a "value", an "object" line has none')
        expires = _time(fields.get("expires"))
        value = None if is_object else checked(fields["value"], nan=True)
        return NodeLine(key, path, Node(is_object, value, expires and microseconds(expires)))


_DATE = re.compile(r"(\d{1,2}):(\d\d) ([ap]m) on (\d{1,2}) ([A-Z][a-z]+), (\d{4})")


class _ChatLines:
    """Reads messages, and conversations of many sessions."""

    def __init__(self, target: Target) -> None:
        self._target, self._ids = target, _Ids()

    def _entry(self, item: Item) -> Entry:
        return ItemLine(self._target.key, self._target.set, _checked_item(item))

    def line(self, fields: dict[str, Value]) -> Iterator[Entry]:
        role, content = fields.get("role"), fields.get("content")
        if not isinstance(role, str) or not isinstance(content, str):
            raise InvalidInput('a message has a "role" and a "content", both text')
        others = {name: value for name, value in fields.items() if name not in CHAT_FIELDS}
        yield self._entry(
            Item(
                value=content,
                id=cast("str", fields["id"]) if "id" in fields else self._ids.make(fields),
                metadata=others | _metadata(fields),
                importance=cast("float", fields.get("importance", 0.0)),
                speaker=cast("str | None", fields.get("speaker")),
                role=role,
                session=cast("str | None", fields.get("session")),
                time=_time(fields.get("time")),
            )
        )

    def conversation(self, fields: dict[str, Value]) -> Iterator[Entry]:
        name = checked_name(fields.get("id"), "a conversation's id")
        for session in _objects(fields, "sessions"):
            place = f"{name}/{checked_name(session.get('session_id'), 'a session_id')}"
            time = _session_time(session.get("date"))
            for turn in _objects(session, "turns"):
                yield self._entry(_turn(name, place, turn, time))


def _objects(fields: dict[str, Value], name: str) -> list[dict[str, Value]]:
    found = fields.get(name)
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise InvalidInput(f'"{name}" must be a list of objects')
    return cast("list[dict[str, Value]]", found)


def _turn(conversation: str, session: str, turn: dict[str, Value], time: datetime) -> Item:
    caption = turn.get("caption")
    return Item(
        value=_text(turn),
        id=f"{conversation}/{checked_name(turn.get('id'), 'the id of a turn')}",
        metadata={} if caption is None else {"caption": caption},
        speaker=checked_name(turn.get("speaker"), "a turn's speaker"),
        session=session,
        time=time,
    )


def _text(turn: dict[str, Value]) -> str:
    text = turn.get("text")
    if not isinstance(text, str):
        raise InvalidInput(f"a turn has a text, not {text!r}")
    return text


def _session_time(date: Value) -> datetime:
    """Return the time of a session: ISO 8601, or like ``7:42 pm on 5 February, 2025`` in UTC."""
    found = _DATE.fullmatch(date) if isinstance(date, str) else None
    if found is None:
        return read_time(date)
    hour, minute, half, day, month, year = found.groups()
    try:
        return datetime(
            int(year),
            [name.lower() for name in MONTHS].index(month.lower()) + 1,
            int(day),
            int(hour) % 12 + (12 if half == "pm" else 0),
            int(minute),
            tzinfo=UTC,
        )
    except ValueError:
        raise InvalidInput(f"there is no such time as {date!r}") from None


def _admission(rules: Value) -> list[Plan] | None:
    """Return rules of admission, which this fornix must know."""
    if rules is None:
        return None
    if not isinstance(rules, list) or not all(isinstance(rule, dict) for rule in rules):
        raise InvalidInput(f'"admission" must be a list of objects, not {rules!r}')
    kept = cast("list[Plan]", rules)
    try:
        rules_of(kept)
    except RuleFailed as error:
        raise InvalidInput(f'"admission": {error}') from error
    return kept
