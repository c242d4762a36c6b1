"""Converts items to the records that a store keeps, and stored records back to items."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import repeat
from typing import Any, NamedTuple, TypeAlias, cast

from alveus.embed import Embedder, embed_quantised
from alveus.embed.wordpiece import MOST_WINDOWS
from alveus.errors import InvalidInput, InvalidValue
from alveus.errors.short_repr import short_repr
from alveus.store import Add, Compact, Feature, ItemChange, ItemRecord, Replace, Retire, StoredItem
from alveus.store.filters import VALUE
from alveus.store.items import ONLY_A_TEXT, ONLY_SAID, SAID_FIELDS, Item, text_of
from alveus.values import wire, words
from alveus.values.lazy_dataclass import columns_of, dataclass
from alveus.values.storable import MAX_NAME, Value, checked, checked_name, microseconds, moment
from alveus.values.times import UTC_ZONE, Zone, fixed_zone, offset_of, read_span

MICROSECOND = timedelta(microseconds=1)

MINUTE_US = 60_000_000

CAPTION = "caption"
"""The name of the metadata field that search reads: it describes the content of an image."""

_OFFSET = re.compile(r'\{"\$offset":(-?[0-9]{1,4})(,?)')
"""Matches the UTC offset of an item, in minutes, at the start of its stored metadata.

An offset of 0 is omitted. A user's metadata cannot match: the wire form doubles a ``$`` at the
start of a field's name.
"""


@dataclass(frozen=True, slots=True)
class RecordMaker:
    """Makes the records of items, including their vectors if the embedder is instant."""

    embedder: Embedder

    def records(
        self, items: Sequence[tuple[str, Item]], *, now: int, zone: Zone = UTC_ZONE
    ) -> list[ItemRecord]:
        """Return the records of (id, item) pairs.

        Args:
            now: The time of the call.
            zone: The time zone of items that have neither a time nor a zone.

        Raises:
            InvalidInput: An item cannot be stored; the message names the wrong field.
            EmbedderFailed: The embedder raised.
        """
        here = zone.offset(moment(now))
        of_texts = self._of_texts(items, now, here)
        if of_texts is not None:
            return of_texts
        records = [self._parse(item_id, item, now, here) for item_id, item in items]
        if not (self.embedder.dimensions and self.embedder.instant):
            return records
        waiting = [record for record in records if record.vectors is None]
        new = iter(self.vectors(waiting))
        return [replace(r, vectors=next(new)) if r.vectors is None else r for r in records]

    def _of_texts(
        self, items: Sequence[tuple[str, Item]], now: int, here: int
    ) -> list[ItemRecord] | None:
        """Return the records of plain text items, which are analysed together.

        Returns None if an item is not plain: for example, if it has more fields than an id,
        metadata, speaker, role, session and time.

        Args:
            here: The UTC offset of items without a time, in minutes.
        """
        each, minute = [item for _, item in items], now // MINUTE_US
        columns, said = columns_of(each, ONLY_A_TEXT), None
        if columns is not None:
            texts, _, metadata = columns
            offsets = [here] * len(items)
            terms = [words.context_terms(minute + here, None)] * len(items)
        else:
            said = _said_texts(each)
            if said is None:
                return None
            texts, metadata = said.texts, said.metadata
            offsets = [here if one is None else one for one in said.offsets]
            minutes = [
                (minute if time is None else time // MINUTE_US) + offset
                for time, offset in zip(said.times, offsets, strict=True)
            ]
            terms = list(map(words.context_terms, minutes, said.speakers))
        read = words.analyse_texts(texts, metadata, CAPTION, terms)
        if read is None:
            return None
        if any(offsets):
            read = list(map(with_offset, read[0], offsets)), *read[1:]
        rows = zip(items, texts, *read, self._vectors_of_texts(texts), strict=True)
        said_by: Iterable[tuple[str | None, str | None, str | None, int | None]] = (
            repeat((None, None, None, None), len(items))
            if said is None
            else zip(said.speakers, said.roles, said.sessions, said.times, strict=True)
        )
        # fmt: off
        return [
            ItemRecord(
                item_id, None, text, metadata, 0.0, speaker, role, session, time, (),
                False,  # noqa: FBT003 - all by position, as there may be thousands
                None, None, None, None, terms, tokens, temporal,
                minute if time is None else None, vectors,
            )
            for ((item_id, _), text, metadata, terms, tokens, temporal, vectors),
                (speaker, role, session, time)
            in zip(rows, said_by, strict=True)
        ]
        # fmt: on

    def _vectors_of_texts(self, texts: Sequence[str]) -> Sequence[bytes | None]:
        """Return the vectors of texts without captions.

        The result has None for a text that is embedded later, and ``b""`` for a blank text.
        """
        if not self.embedder.dimensions:
            return [b""] * len(texts)
        blank = [not text or text.isspace() for text in texts]
        if not self.embedder.instant:
            return [b"" if is_blank else None for is_blank in blank]
        if not any(blank):
            return self._embedded(texts)
        new = iter(self._embedded([t for t, none in zip(texts, blank, strict=True) if not none]))
        return [b"" if is_blank else next(new) for is_blank in blank]

    def vectors(self, records: Sequence[ItemRecord]) -> list[bytes]:
        """Return the vectors of records, in the form that a store keeps them."""
        return self._embedded([text_to_embed(r.text or "", r.metadata) for r in records])

    def _embedded(self, texts: Sequence[str]) -> list[bytes]:
        return embed_quantised(self.embedder, texts) if texts else []

    def _parse(self, item_id: str, item: Item, now: int, here: int) -> ItemRecord:
        """Return the record of an item without vectors."""
        value = checked(item.value)
        if item.texts is not None:
            item = with_one_text(item)
        text = value if item.text is None and type(value) is str else _text(value, item.text)
        metadata, caption = _metadata(item.metadata)
        time = None if item.time is None else microseconds(item.time)
        speaker = None if item.speaker is None else checked_name(item.speaker, "speaker")
        role = role_of_speaker(speaker) if item.role is None else checked_name(item.role, "role")
        minute = (now if time is None else time) // MINUTE_US
        offset = _offset_of_item(item, now, here)
        context = words.context_terms(minute + offset, speaker)
        terms, tokens, temporal = words.analyse_with(text, context, caption)
        until = expires = since = to = None
        if not item.until is item.expire_at is item.valid_from is item.valid_to is item.ttl is None:
            until, expires, since, to = _times(item, time, now)
        needs_vectors = self.embedder.dimensions and (caption or (text and not text.isspace()))
        return ItemRecord(
            item_id,
            None if value is text or value == text else wire.encode(value),
            text,
            with_offset(metadata, offset),
            _fraction(item.importance),
            speaker,
            role,
            None if item.session is None else checked_name(item.session, "session"),
            time,
            tuple(item.sources),
            item.compacted,
            *(until, expires, since, to),
            *(terms, tokens, temporal),
            minute if time is None else None,
            None if needs_vectors else b"",
        )


class _SaidTexts(NamedTuple):
    """The fields of plain text items, as a list for each field. Texts and metadata are unchecked.

    A speaker, role, session, time or offset is None if the item has none.
    """

    texts: list[Any]
    metadata: list[Any]
    speakers: list[str | None]
    roles: list[str | None]
    sessions: list[str | None]
    times: list[int | None]
    offsets: list[int | None]


def _said_texts(items: list[Item]) -> _SaidTexts | None:
    """Return the fields of *items*, or None if an item is not plain, so that `_parse` must read it.

    A plain item has no fields but those of `ONLY_SAID`, and its names are short and ASCII.
    """
    columns = columns_of(items, ONLY_SAID)
    if columns is None:
        return None
    of = dict(zip(SAID_FIELDS, columns, strict=True))
    for field in ("speaker", "role", "session"):
        for name in of[field]:
            if not (
                name is None or (type(name) is str and name.isascii() and 0 < len(name) <= MAX_NAME)
            ):
                return None  # `checked_name` may refuse this name
    speakers: list[str | None] = of["speaker"]
    called = {speaker: role_of_speaker(speaker) for speaker in set(speakers)}
    return _SaidTexts(
        of["value"],
        of["metadata"],
        speakers,
        [called[s] if r is None else r for r, s in zip(of["role"], speakers, strict=True)],
        of["session"],
        [None if time is None else microseconds(time) for time in of["time"]],
        [None if time is None else offset_of(time) for time in of["time"]],
    )


def _text(value: Value, given: object) -> str:
    """Return the searchable text of an item: *given*, or the text of *value* if *given* is None."""
    text = text_of(value) if given is None else checked(given, where="text")
    if text is not None and not isinstance(text, str):
        raise InvalidValue("text", f"must be a str, not {short_repr(text)}", hint="use str(text)")
    if text is None:
        several = "add several items with add_many, or " if isinstance(value, list) else ""
        hint = f"{several}pass text=; with text='' no search finds the item"
        raise InvalidValue("value", "has no text for search", hint=hint)
    return text


def with_one_text(item: Item) -> Item:
    """Return an item whose `texts`, if it has any, are joined into its `text`."""
    if item.texts is None:
        return item
    if item.text is not None:
        raise InvalidInput("an item takes either text or texts")
    texts = item.texts
    if not isinstance(texts, (list, tuple)) or not 1 <= len(texts) <= MOST_WINDOWS:
        raise InvalidInput(
            f"texts must be a list of 1 to {MOST_WINDOWS} texts, not {short_repr(texts)}"
        )
    for text in texts:
        if not isinstance(checked(text, where="texts"), str):
            raise InvalidInput(f"texts must be str, not {short_repr(text)}")
    return replace(item, text=words.joined(texts), texts=None)


def _times(item: Item, time: int | None, now: int) -> tuple[int | None, ...]:
    """Return the values of `until`, `expires`, `valid_from` and `valid_to` for a record."""
    until, expires, since, to = (
        None if moment is None else microseconds(moment, name)
        for name, moment in (
            ("until", item.until),
            ("expire_at", item.expire_at),
            ("valid_from", item.valid_from),
            ("valid_to", item.valid_to),
        )
    )
    if item.ttl is not None:
        if expires is not None:
            raise InvalidInput("an item takes either ttl or expire_at")
        expires = now + read_span(item.ttl, "ttl") // MICROSECOND
    check_spans(now if time is None else time, until, since, to)
    return until, expires, since, to


def check_spans(time: int | None, until: int | None, since: int | None, to: int | None) -> None:
    """Raise `InvalidInput` if *until* is before *time*, or *to* before *since*."""
    if time is not None and until is not None and until < time:
        raise InvalidInput("until must not be before time, the start of the same period")
    if since is not None and to is not None and to < since:
        raise InvalidInput("valid_to must not be before valid_from")


def _offset_of_item(item: Item, now: int, here: int) -> int:
    """Return the UTC offset of an item, in minutes.

    This is the offset of its zone or, without a zone, of its time. Without either, it is *here*.
    """
    if item.timezone is not None:
        return Zone.of(item.timezone).offset(moment(now) if item.time is None else item.time)
    return here if item.time is None else offset_of(item.time)


def with_offset(metadata: str, minutes: int) -> str:
    """Return *metadata*, in wire form, with a UTC offset of *minutes* added."""
    if not minutes and not _OFFSET.match(metadata):
        return metadata
    return f'{{"$offset":{minutes}{"}" if metadata == "{}" else f",{metadata[1:]}"}'


def offset_in(metadata: str) -> int:
    """Return the UTC offset, in minutes, that stored metadata contain; 0 if they contain none."""
    found = _OFFSET.match(metadata)
    return 0 if found is None else int(found[1])


def without_offset(metadata: str) -> str:
    """Return stored metadata in wire form without the UTC offset."""
    found = _OFFSET.match(metadata)
    return metadata if found is None else f"{{{metadata[found.end() :]}"


def decoded_metadata(metadata: str) -> dict[str, Any]:
    """Return the dict that a user passed as metadata from the stored metadata in wire form."""
    metadata = without_offset(metadata)
    return {} if metadata == "{}" else cast("dict[str, Any]", wire.decode(metadata))


def local_moment(us: int, metadata: str) -> datetime:
    """Return the time *us*, in microseconds, as a datetime with the UTC offset of an item.

    Args:
        metadata: The stored metadata of the item, which contain its offset.
    """
    minutes = offset_in(metadata)
    return moment(us).astimezone(fixed_zone(minutes)) if minutes else moment(us)


def said_at(stored: StoredItem) -> datetime:
    """Return the time of an item, with the UTC offset of the item."""
    return local_moment(position_of(stored)[0], stored.record.metadata)


def _metadata(given: object) -> tuple[str, str | list[str] | None]:
    """Return the wire form of metadata, and their captions, or None if they have no captions."""
    if _is_empty(given):
        return "{}", None
    metadata = _plain(given)
    return wire.encode(metadata), caption_of(metadata)


def _is_empty(metadata: object) -> bool:
    return metadata is None or (type(metadata) is dict and not metadata)


def _plain(metadata: object) -> dict[str, Value]:
    if type(metadata) is not dict and not isinstance(metadata, Mapping):
        raise InvalidValue(
            "metadata", f"must be a dict, not {short_repr(metadata)}", hint="name its fields"
        )
    plain = checked(dict(cast("Mapping[str, Value]", metadata)), where="metadata")
    return cast("dict[str, Value]", plain)


def caption_of(metadata: dict[str, Value]) -> str | list[str] | None:
    """Return the captions in an item's metadata, or None if they have no captions."""
    caption = metadata.get(CAPTION)
    if isinstance(caption, str):
        return caption or None
    if isinstance(caption, list) and all(isinstance(c, str) for c in caption):
        return cast("list[str]", caption) or None
    return None


def text_to_embed(text: str, metadata: str) -> str:
    """Return the text to embed: the item's text and its captions, without speaker and date.

    Recall without the speaker is 14 points higher (LoCoMo, R@10).
    """
    if f'"{CAPTION}"' not in metadata:
        return text
    caption = caption_of(decoded_metadata(metadata))
    if caption is None:
        return text
    shown = caption if isinstance(caption, str) else "; ".join(caption)
    return f"{text} [image: {shown}]"


def terms_of(text: str | None, time: int, speaker: str | None, metadata: str) -> words.TextTerms:
    """Return the search terms of an item.

    Args:
        time: In microseconds.
        metadata: In wire form.
    """
    caption = caption_of(decoded_metadata(metadata))
    local = moment(time + offset_in(metadata) * MINUTE_US)  # in the local time of the item
    return words.analyse(text or "", local, speaker, caption)


def read_at(record: ItemRecord, time: int) -> ItemRecord:
    """Return *record* with the terms that it has at *time*, the time of a commit.

    Only a record without a time changes, if its terms were computed for another minute.
    """
    minute = time // MINUTE_US
    if record.minute in (None, minute) or record.time is not None:
        return record
    packed, tokens, temporal = terms_of(record.text, time, record.speaker, record.metadata)
    return replace(record, terms=packed, tokens=tokens, temporal=temporal, minute=minute)


def has_meaning(text: str, metadata: str) -> bool:
    """Return whether an item has a caption, or a text that is not blank."""
    return bool(text_to_embed(text, metadata).strip())


_ROLES_OF_SPEAKERS = {
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "ai": "assistant",
    "bot": "assistant",
}


def role_of_speaker(speaker: str | None) -> str | None:
    """Return the role that the speaker's name means, in upper or lower case.

    Returns None if the name means no role, or if *speaker* is None.
    """
    return None if speaker is None else _ROLES_OF_SPEAKERS.get(speaker.casefold())


def check_item(item: Item, given: frozenset[str] | None = None) -> None:
    """Raise `InvalidInput`, which names the wrong field, if an item cannot be stored.

    Args:
        given: Names of the fields that a user set, or None for all fields. A missing text, and
            importance, are only checked if they are among the names.
    """
    value = checked(item.value)
    item = with_one_text(item)
    if given is None or item.text is not None:
        _text(value, item.text)
    _metadata(item.metadata)
    if item.time is not None:
        microseconds(item.time)
    if item.timezone is not None:
        Zone.of(item.timezone)
    for name in ("speaker", "role", "session"):
        if (said := getattr(item, name)) is not None:
            checked_name(said, name)
    if given is None or "importance" in given:
        _fraction(item.importance)


def _fraction(number: object) -> float:
    if type(number) not in (int, float) or not 0.0 <= cast("float", number) <= 1.0:
        raise InvalidInput(f"importance must be a number from 0 to 1, not {short_repr(number)}")
    return float(cast("float", number))


def item_of(stored: StoredItem) -> Item:
    """Return a stored version as a complete item."""
    record = stored.record
    text, metadata = record.text, record.metadata
    created = moment(stored.created)
    updated = created if stored.updated == stored.created else moment(stored.updated)
    has_time = record.time is not None and record.time != stored.updated
    is_local = metadata.startswith('{"$offset"')
    time = moment(cast("int", record.time)) if has_time else updated
    return Item(  # by position, as a page has hundreds of items
        text if record.value is None else wire.decode(record.value),
        record.id,
        text,
        {} if metadata == "{}" else decoded_metadata(metadata),
        record.importance,
        record.speaker,
        record.role,
        record.session,
        time.astimezone(fixed_zone(offset_in(metadata))) if is_local else time,
        created,
        updated,
        None if stored.accessed is None else moment(stored.accessed),
        record.sources,
        record.compacted,
        None if record.until is None else moment(record.until),
        None if record.expires is None else moment(record.expires),
        None if record.valid_from is None else moment(record.valid_from),
        None if record.valid_to is None else moment(record.valid_to),
        stored.version,
        stored.set.name,
    )


def value_of(record: ItemRecord) -> Value:
    """Return the value of an item; for a text item, the text."""
    return record.text if record.value is None else wire.decode(record.value)


def request_json(item: Item) -> Value:
    """Return the fields of an item as the caller wrote them, as a storable value.

    Repeated requests are compared in this form.
    """
    plain: dict[str, Value] = {
        "value": checked(item.value),
        "metadata": {} if item.metadata is None else _plain(item.metadata),  # pyright: ignore[reportUnnecessaryComparison] - user input
        "time": None if item.time is None else microseconds(item.time),
    }
    for name in ("id", "text", "importance", "speaker", "role", "session", "compacted"):
        plain[name] = checked(getattr(item, name), where=name)
    for name in ("until", "expire_at", "valid_from", "valid_to"):
        if getattr(item, name) is not None:
            plain[name] = microseconds(getattr(item, name), name)
    if item.ttl is not None:
        plain["ttl"] = read_span(item.ttl, "ttl") // MICROSECOND
    plain["sources"] = list(item.sources)
    return plain


def filter_fields(stored: StoredItem) -> tuple[Mapping[str, Value], Mapping[str, Value]]:
    """Return the metadata and the item fields of a stored version, for `Filter.matches`."""
    record = stored.record
    item_fields: dict[str, Value] = {
        "$id": record.id,
        "$importance": record.importance,
        "$role": record.role,
        "$session": record.session,
        "$speaker": record.speaker,
        "$time": stored.updated if record.time is None else record.time,
        VALUE: value_of(record),
    }
    return decoded_metadata(record.metadata), item_fields


ItemEdit: TypeAlias = Add | Replace | Retire
"""A change of one item."""


def with_vectors(change: ItemChange, embedded_records: Mapping[int, ItemRecord]) -> ItemChange:
    """Return *change* with records that have vectors.

    Args:
        embedded_records: The records with vectors, by the `id()` of the record that each replaces.
    """
    if isinstance(change, (Add, Replace)):
        return replace(change, record=embedded_records.get(id(change.record), change.record))
    if isinstance(change, Compact):
        added = [
            replace(add, record=embedded_records.get(id(add.record), add.record))
            for add in change.added
        ]
        return replace(change, added=added)
    return change


def id_of(change: ItemEdit) -> str:
    """Return the id of the item that a change affects."""
    return change.id if isinstance(change, Retire) else change.record.id


def position_of(stored: StoredItem) -> tuple[int, int]:
    """Return the (time, first row) of an item, which orders the items of a set."""
    time = stored.record.time
    return (stored.updated if time is None else time, stored.first)


def is_past(stored: StoredItem, after: tuple[int, int] | None, newest_first: bool) -> bool:  # noqa: FBT001 - inner
    """Return whether an item comes after the position *after*; True if *after* is None.

    With *newest_first*, later items come first.
    """
    if after is None:
        return True
    return position_of(stored) < after if newest_first else position_of(stored) > after


def feature_of(stored: StoredItem) -> Feature:
    """Return the data of a live item that search reads."""
    return Feature.of(stored.record, stored.row, stored.first, position_of(stored)[0])
