"""What a layer holds, as items of a set, and a buffer of them that is being changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from datetime import datetime
from typing import Any, cast

from alveus.agents.layers.fragments import (
    AgentMemoryFragment,
    FragmentId,
    MemoryFragment,
    StructuredAgentMemoryFragment,
)
from alveus.agents.layers.importance import unit
from alveus.agents.storage import Note, aware, later
from alveus.errors import InvalidInput
from alveus.sets.origins import known_links
from alveus.sets.set_editor import SetEditor
from alveus.store import Add, ItemChange, StoredItem
from alveus.store.changes import Link
from alveus.store.items import Item
from alveus.store.records import item_of
from alveus.values.lazy_dataclass import dataclass

LABELS = ("speaker", "role", "session")
"""Fields of an item that a fragment has in its metadata."""


def item_id(fragment_id: FragmentId) -> str:
    """Return the id of the item that a fragment is kept as."""
    return str(fragment_id)


@dataclass(slots=True)
class FragmentEntry:
    """A fragment in a layer.

    Attributes:
        number: Its place in the order of arrival.
        stored: The version it was read from; None: it is new here.
        origin: What it was made from, elsewhere.
        extra: What the layer knows of it besides.
        time: When it happened; None: now.
    """

    fragment: MemoryFragment
    number: int = 0
    stored: StoredItem | None = None
    origin: Sequence[Link] = ()
    extra: dict[str, Any] = field(default_factory=dict[str, Any])
    time: datetime | None = None

    @property
    def id(self) -> str:
        """The id of its item."""
        return item_id(self.fragment.id) if self.stored is None else self.stored.record.id

    def origins(self) -> tuple[Link, ...]:
        """Return what is derived from it has to name: itself, or, if new, what it came from."""
        return tuple(self.origin) if self.stored is None else (Link(self.stored.set, self.id),)

    def leaving(self) -> FragmentEntry:
        """Return it as the next layer gets it."""
        extra = {name: self.extra[name] for name in ("seen", "parts") if name in self.extra}
        return FragmentEntry(self.fragment, origin=self.origins(), extra=extra, time=self.time)

    def parts(self) -> list[dict[str, Any]]:
        """Return what it was made of: the parts of a merged one, or itself."""
        if "parts" in self.extra:
            return list(self.extra["parts"])
        value = {name: v for name, v in self._value(0).items() if name in _FIELDS}
        return [value | {"metadata": dict(self.fragment.metadata)}]

    def value(self) -> dict[str, Any]:
        """Return the value that keeps it where it is."""
        return self._value(self.extra.get("era", 0))

    def item(self, *, era: int, now: datetime, session: str | None) -> Item:
        """Return the item that keeps it."""
        fragment = self.fragment
        metadata = dict(fragment.metadata)
        labels = labels_of(metadata)
        labels["session"] = labels["session"] or session
        text = fragment.raw_observation
        return Item(
            self._value(era),
            text=text,
            metadata=metadata,
            importance=unit(fragment.importance),
            time=self.time or now,
            sources=tuple(item_id(source) for source in fragment.source_ids),
            **labels,
        )

    def as_read(self, stored: StoredItem) -> Item:
        """Return the item that it was read from, as it is now."""
        return replace(
            item_of(stored),
            value=self.value(),
            metadata=self.fragment.metadata,
            importance=unit(self.fragment.importance),
            time=self.time,
        )

    def _value(self, era: int) -> dict[str, Any]:
        f, extra = self.fragment, self.extra
        is_structured = isinstance(f, StructuredAgentMemoryFragment)
        accessed = f.last_accessed_time
        value: dict[str, Any] = {
            "id": f.id,
            "observation": f.observation if is_structured else f.raw_observation,
            "importance": f.importance,
            "accessed": None if accessed is None else aware(accessed).isoformat(),
            "insight": f.is_insight,
            "sources": f.source_ids,
            "snapshot": f.snapshot_path if isinstance(f, AgentMemoryFragment) else None,
            "embeddings": f.embeddings,
        }
        kept = {name: v for name, v in value.items() if not (v is None or v is False or v == [])}
        return {**extra, **kept, "n": self.number, "era": era}


def labels_of(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of an item that are in the metadata of a fragment, checked."""
    labels = {name: metadata.get(name) for name in LABELS}
    for name, label in labels.items():
        if label is not None and not isinstance(label, str):
            raise InvalidInput(f"{name} in the metadata of a fragment must be a str: {label!r}")
    return labels


def merged(members: Sequence[FragmentEntry]) -> FragmentEntry:
    """Return entries as one, of the class and the importance of the first.

    It keeps all that is known of each in `parts`, and of their metadata what they agree in.
    """
    first = members[0]
    fragments = [member.fragment for member in members]
    whole = first.fragment.current_class.reduce(fragments, importance=first.fragment.importance)
    for name, known in first.fragment.metadata.items():
        if all(f.metadata.get(name) == known for f in fragments):
            whole.metadata[name] = known
    links = dict.fromkeys(link for member in members for link in member.origins())
    parts = [part for member in members for part in member.parts()]
    return FragmentEntry(whole, origin=tuple(links), extra={"parts": parts}, time=first.time)


_FIELDS = frozenset(
    ("id", "observation", "importance", "accessed", "insight", "sources", "snapshot", "embeddings")
)


def entry_of(stored: StoredItem, made: type[MemoryFragment] | None) -> FragmentEntry:
    """Return the fragment that a stored item keeps, as an entry; see `fragment_of`."""
    item = item_of(stored)
    value = value_of(item)
    extra = {name: v for name, v in value.items() if name not in _FIELDS}
    return FragmentEntry(fragment_of(item, made), value.get("n", 0), stored, (), extra, item.time)


def fragment_of(item: Item, made: type[MemoryFragment] | None) -> MemoryFragment:
    """Return the fragment that an item keeps.

    Args:
        made: Its class, where that holds what the item holds; None: as the item says.
    """
    value = value_of(item)
    observation = value.get("observation", "")
    plain = isinstance(observation, str)
    cls: type[MemoryFragment] = AgentMemoryFragment if plain else StructuredAgentMemoryFragment
    if made is not None and issubclass(made, StructuredAgentMemoryFragment) != plain:
        cls = made
    more = {"snapshot_path": value["snapshot"]} if "snapshot" in value else {}
    return cls.build_from(
        observation,
        embeddings=value.get("embeddings"),
        memory_id=value["id"],
        importance=value.get("importance"),
        is_insight=value.get("insight", False),
        last_accessed_time=accessed_time(item),
        metadata=item.metadata,
        source_ids=value.get("sources", ()),
        **more,
    )


def value_of(item: Item) -> dict[str, Any]:
    """Return what an item keeps of a fragment; one that no layer wrote is a fragment of text."""
    value = cast("dict[str, Any]", item.value)
    if isinstance(value, dict) and "id" in value and "n" in value:  # pyright: ignore[reportUnnecessaryIsInstance] - anybody can add to a set
        return value
    return {"id": item.id, "observation": item.text or "", "importance": item.importance or None}


def accessed_time(item: Item) -> datetime | None:
    """Return when what an item keeps was recalled last."""
    noted = value_of(item).get("accessed")
    return later(None if noted is None else datetime.fromisoformat(noted), item.accessed)


class LayerNote(Note):
    """What is known of a layer besides its fragments; its version guards them all.

    Every change of a buffer writes its note. So of two writers that saw the same buffer one
    is refused, and looks again.
    """

    __slots__ = ()

    @property
    def era(self) -> int:
        """How often the layer was cleared."""
        return int(self.value.get("era", 0))

    def begin_era(self) -> None:
        """Note that the layer was cleared: what it held before may be written again."""
        arrivals = self.value.get("arrivals", 0)
        self.value = {"era": self.era + 1, "arrivals": arrivals}

    def next_number(self) -> int:
        """Count an arrival."""
        self.value["arrivals"] = number = int(self.value.get("arrivals", 0)) + 1
        return number


class Buffer:
    """The fragments of a layer that holds few, oldest first, as a plan changes them."""

    def __init__(
        self, editor: SetEditor, note: LayerNote, fragment_class: type[MemoryFragment] | None
    ) -> None:
        self.editor, self.note = editor, note
        entries = [entry_of(stored, fragment_class) for stored in editor.items()]
        self.entries = sorted(entries, key=lambda entry: (entry.number, entry.id))
        self._before = [(entry.id, entry.stored) for entry in self.entries if entry.stored]
        self._touched = False

    @property
    def fragments(self) -> list[MemoryFragment]:
        """Its fragments, oldest first."""
        return [entry.fragment for entry in self.entries]

    def touch(self) -> None:
        """Have its note written."""
        self._touched = True

    def append(self, entry: FragmentEntry) -> None:
        """Put an entry at the end."""
        number = self.note.next_number()
        self.entries.append(replace(entry, number=number, stored=None, extra=dict(entry.extra)))

    def remove(self, removed: Iterable[FragmentEntry]) -> None:
        """Take entries out."""
        ids = {entry.id for entry in removed}
        self.entries = [entry for entry in self.entries if entry.id not in ids]

    def changes(self, *, now: datetime, session: str | None) -> list[ItemChange]:
        """Return what makes the set be as this is."""
        ids = {entry.id for entry in self.entries}
        gone = [stored for item_id, stored in self._before if item_id not in ids]
        new = [entry for entry in self.entries if entry.stored is None]
        if not (gone or new or self._touched):
            return []
        made = added(self.editor, new, era=self.note.era, now=now, session=session)
        return [*made, *self.editor.retired(gone), self.note.change(self.editor.writer)]


def added(
    editor: SetEditor,
    entries: Sequence[FragmentEntry],
    *,
    era: int,
    now: datetime,
    session: str | None,
) -> list[ItemChange]:
    """Return what adds entries to a set."""
    items = [(entry.id, entry.item(era=era, now=now, session=session)) for entry in entries]
    return [
        Add(
            editor.ref,
            record,
            links=tuple(entry.origin) or known_links(editor.writer, editor.ref, record),
        )
        for record, entry in zip(editor.writer.records(items), entries, strict=True)
    ]


def replaced(editor: SetEditor, entries: Sequence[FragmentEntry]) -> list[ItemChange]:
    """Return what keeps entries, which were read before, as they are now."""
    return editor.replaced([(e.stored, e.as_read(e.stored)) for e in entries if e.stored])
