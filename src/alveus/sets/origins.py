"""What an item says that it was made of: found, and linked, so that forgetting follows it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import cast

from alveus.errors import InvalidInput, NotFound
from alveus.sets.writer import Writer
from alveus.store import Add, ItemChange, ItemRecord, Link, Replace, SetRef
from alveus.values.storable import checked_name


def check_sources(sources: object) -> None:
    """Refuse what are no ids of sources.

    Raises:
        InvalidInput: They are not a tuple, or a list, of ids.
    """
    if not isinstance(sources, (tuple, list)):
        raise InvalidInput(f"sources must be a tuple of ids of items, not {sources!r}")
    for item_id in cast("Sequence[object]", sources):
        checked_name(item_id, "the id of a source")


def linked(writer: Writer, ref: SetRef, changes: Sequence[ItemChange]) -> list[ItemChange]:
    """Return *changes*, with each item linked to the sources that it names.

    What replaces an item keeps the sources that it had, as it stays linked to them.

    A source is an item of the same set, live or retired, or one that comes before it in *changes*;
    else of the only other set of its key that has one of this id; else of knowledge.

    Args:
        ref: The set that the call adds to; what it puts elsewhere, as a quarantine, is looked at
            as if it went there.

    Raises:
        NotFound: There is no such source.
        InvalidInput: An item names itself, or an id that several sets have.
    """
    if all(isinstance(change, Add) and not change.record.sources for change in changes):
        return list(changes)
    new_ids, done, sources_by_id = (
        set[str](),
        list[ItemChange](),
        _kept_sources(writer, ref, changes),
    )
    for change in changes:
        done.append(change)
        if isinstance(change, (Add, Replace)) and not change.links:
            earlier = sources_by_id.get(change.record.id, ()) if isinstance(change, Replace) else ()
            record, names = change.record, dict.fromkeys((*earlier, *change.record.sources))
            links = [
                _link(writer, ref, record.id, name, new_ids)
                for name in names
                if name not in earlier
            ]
            if tuple(names) != record.sources or links:
                done[-1] = replace(
                    change, record=replace(record, sources=tuple(names)), links=links
                )
        if isinstance(change, Add) and change.set == ref:
            new_ids.add(change.record.id)
    return done


def known_links(writer: Writer, ref: SetRef, record: ItemRecord) -> list[Link]:
    """Return links to those sources of an item that are there; the others are left out."""
    return [
        Link(refs[0], name)
        for name in dict.fromkeys(record.sources)
        if name != record.id and (refs := list(_places(writer, ref, name)))
    ]


def _kept_sources(
    writer: Writer, ref: SetRef, changes: Sequence[ItemChange]
) -> dict[str, tuple[str, ...]]:
    """Return the sources that what is replaced has, and is linked to as far as they are there."""
    ids = [change.record.id for change in changes if isinstance(change, Replace)]
    items = writer.get(ref, ids, at=None) if ids else []
    return {stored.record.id: stored.record.sources for stored in items if stored is not None}


def _link(writer: Writer, ref: SetRef, item_id: str, name: str, new_ids: set[str]) -> Link:
    if name == item_id:
        raise InvalidInput(f"item {item_id!r} names itself among its sources; name others")
    if name in new_ids:
        return Link(ref, name)
    refs = list(_places(writer, ref, name))
    if not refs:
        raise NotFound(
            f"item {item_id!r} names the source {name!r}, which is no item of set {ref.name!r}, of "
            "the other sets of its key, or of knowledge; add that first, or leave it out of sources"
        )
    if len(refs) > 1:
        names = ", ".join(repr(ref_found.name) for ref_found in refs)
        raise InvalidInput(
            f"item {item_id!r} names the source {name!r}, which the sets {names} have; give items "
            "that others are made of ids of their own"
        )
    return Link(refs[0], name)


def _places(writer: Writer, ref: SetRef, name: str) -> Iterator[SetRef]:
    """Yield the nearest sets that have, or had, an item of an id."""
    if _has(writer, ref, name):
        yield ref
        return
    for scope in writer.origins(ref):
        is_found = False
        for other in (SetRef(scope, of) for of in writer.sets(scope)):
            if other != ref and _has(writer, other, name):
                is_found = True
                yield other
        if is_found:
            return


def _has(writer: Writer, ref: SetRef, name: str) -> bool:
    return writer.get(ref, [name], at=None)[0] is not None or bool(writer.versions(ref, name))
