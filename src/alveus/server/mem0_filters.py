"""The filters of mem0: the entities that they name, and their translation to alveus's filters."""

from __future__ import annotations

import ast
import json
from datetime import UTC, datetime
from typing import Any, TypeAlias, cast

from alveus.errors import InvalidInput
from alveus.memory.remote.codecs import value_of
from alveus.transfer.mem0 import ENTITIES, KINDS, MARKS, Entity, Mem0Location, entity_name

Where: TypeAlias = dict[str, Any]
"""A filter of mem0 or of alveus."""


def named_entities(filters: Where) -> list[Entity]:
    """Return entities such that each matching memory belongs to at least one of them.

    Return an empty list if the filter names no such entities. If several parts of a conjunction
    name entities, choose the part whose entities have the earliest kinds in `KINDS`: the last kind
    of each part is compared.
    """
    found: list[list[Entity]] = []
    for name, operand in filters.items():
        if name in ENTITIES:
            found.append(_entities(name, operand))
        elif name == "AND":
            found.extend(map(named_entities, _parts(name, operand)))
        elif name == "OR":
            branches = [*map(named_entities, _parts(name, operand))]
            if all(branches):  # else a branch matches any entity
                found.append([each for branch in branches for each in branch])
    named = [each for each in found if each]
    return min(named, key=_last_kind) if named else []


def _last_kind(entities: list[Entity]) -> int:
    return max(KINDS.index(each.kind) for each in entities)


def _entities(name: str, operand: object) -> list[Entity]:
    """Return the entities that the condition *operand* on the field *name* names."""
    if isinstance(operand, dict):
        only = cast("dict[str, object]", operand)
        operand = only.get("in") if only.keys() == {"in"} else None
    names = cast("list[object]", operand if isinstance(operand, list) and operand else [operand])
    return [Entity(name.removesuffix("_id"), entity_name(name, each)) for each in names]


def _parts(name: str, operand: object) -> list[Where]:
    parts = cast("list[object]", operand if isinstance(operand, list) else [operand])
    if not parts or not all(isinstance(part, dict) for part in parts):
        raise InvalidInput(f"{name} must be a list of filters")
    return cast("list[Where]", parts)


def filter_of_key(filters: Where, key: str) -> Where:
    """Return mem0's *filters* in alveus's form, for the items of one key.

    A condition on the entity of the key matches all items of the key, whichever program wrote them.
    """
    return {"all": [_clause(name, operand, key) for name, operand in filters.items()] or [{}]}


def _clause(name: str, operand: object, key: str) -> Where:
    if name in ENTITIES:
        return _owned_by(name, operand, key)
    if name in ("AND", "OR", "NOT"):
        parts = [filter_of_key(part, key) for part in _parts(name, operand)]
        return (
            {"all": parts}
            if name == "AND"
            else {"any": parts}
            if name == "OR"
            else ({"not": {"any": parts}})
        )
    if name == "metadata":
        if not isinstance(operand, dict):
            raise InvalidInput("metadata must be an object of names and values")
        fields = cast("dict[str, object]", operand)
        return {"all": [{_metadata_path(field): value} for field, value in fields.items()]}
    if name == "created_at":
        bounds = cast(
            "dict[str, object]", operand if isinstance(operand, dict) else {"eq": operand}
        )
        return {"$time": {operator: moment_of(value) for operator, value in bounds.items()}}
    if name == "categories":
        return _in_categories(operand)
    if name == "memory_ids":
        return _among(operand, key)
    if name in _REFUSED:
        raise InvalidInput(f"filters on {name!r} are not supported; filter on metadata instead")
    return {_metadata_path(name): operand}


def _among(operand: object, key: str) -> Where:
    """Return a filter that matches the items of a key whose memory ids *operand* lists."""
    given = cast("Where", operand).get("in") if isinstance(operand, dict) else operand
    ids = cast("list[object]", given if isinstance(given, list) else [None])
    chosen: list[str] = []
    for each in ids:
        if not isinstance(each, str):
            raise InvalidInput('memory_ids must be a list of ids, or {"in": [ids]}')
        location = Mem0Location.unpacked(each)
        if location is None or location.key == key:
            chosen.append(each.lower() if location is None else location.item_id)
    return {"$id": {"in": chosen}}


def _in_categories(operand: object) -> Where:
    """Return a filter that matches memories with at least one of the categories in *operand*."""
    asked_for = cast("Where", operand) if isinstance(operand, dict) else {"contains": operand}
    ((operator, wanted),) = asked_for.items() if len(asked_for) == 1 else [("", None)]
    several = cast("list[object]", wanted if isinstance(wanted, list) else [wanted])
    if operator not in ("in", "contains"):
        raise InvalidInput('categories must be a name, {"contains": name} or {"in": [names]}')
    return {"any": [{f"{MARKS}.categories": {"contains": each}} for each in several]}


def _owned_by(name: str, operand: object, key: str) -> Where:
    """Return a filter that matches the items of a key that belong to an entity in *operand*.

    The key names one entity, and none of its items belongs to an entity of an earlier kind. Only
    entities of later kinds are named by marks, which any writer of the key may set.
    """
    entities = _entities(name, operand)
    if name in Entity.of_key(key).kinds_after:
        return {f"{MARKS}.{name}": {"in": [each.name for each in entities]}}
    return {"all" if key in (each.key for each in entities) else "any": []}


_REFUSED = frozenset(
    {"updated_at", "expiration_date", "text", "keywords", "keywords_search", "feedback"}
)


def _metadata_path(name: str) -> str:
    """Return the path by which alveus's filters name a metadata field."""
    escaped = name.replace("\\", "\\\\").replace(".", "\\.")
    if name == MARKS:  # the item's metadata uses this name for the marks
        return f"{MARKS}.{MARKS}"
    is_special = escaped.startswith("$") or escaped in ("any", "all", "not")
    return f"\\{escaped}" if is_special else escaped


def moment_of(found: object) -> datetime:
    """Return the time that *found* states: seconds since 1970, a date, or a time in ISO 8601.

    A time without a zone is in UTC.
    """
    try:
        if isinstance(found, (int, float)):
            return datetime.fromtimestamp(found, UTC)
        if isinstance(found, str):
            read = datetime.fromisoformat(found)
            return read.replace(tzinfo=read.tzinfo or UTC)
    except (ValueError, OverflowError, OSError):
        pass
    raise InvalidInput(f"a time must be seconds, or ISO 8601, not {found!r}")


def owners_of_new(filters: Where) -> dict[str, str]:
    """Return the entities to which new memories belong, by field, such as ``user_id``."""
    found: dict[str, str] = {}
    for name, operand in filters.items():
        if name == "AND":
            named = [pair for part in _parts(name, operand) for pair in owners_of_new(part).items()]
        elif name in ENTITIES:
            named = [(name, each.name) for each in _entities(name, operand)]
        else:
            raise InvalidInput(
                f"a filter of new memories must be {', '.join(ENTITIES)}, not {name!r}"
            )
        for entity, each in named:
            if found.setdefault(entity, each) != each:
                raise InvalidInput(f"{entity} of new memories must be a single name")
    return found


def read_filters(text: str) -> Where:
    """Return filters from a URL: JSON, or Python literals, as mem0's Python client sends them."""
    found: Any = None
    for read in (json.loads, ast.literal_eval):
        try:
            found = value_of(read(text))
            break
        except InvalidInput:
            raise
        except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
            continue  # TypeError: a literal such as a set is not JSON
    if not isinstance(found, dict):
        raise InvalidInput('filters must be an object, such as {"user_id": "ada"}')
    return cast("Where", found)
