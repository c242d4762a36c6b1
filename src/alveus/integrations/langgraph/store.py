"""LangGraph's store: a namespace is a set of a key, and the namespace's items are the set's items.

The name of a set is "langgraph" and the labels of the namespace, with a dot before each.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from itertools import repeat
from typing import Any, TypeAlias, cast

from langgraph.store.base import (
    BaseStore,
    GetOp,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
    TTLConfig,
)
from langgraph.store.base import Item as StoreItem
from langgraph.store.base.embed import get_text_at_path, tokenize_path

from alveus.embed.wordpiece import MOST_WINDOWS
from alveus.errors import InvalidFilter, InvalidInput
from alveus.errors.short_repr import short_repr
from alveus.integrations.opened import Connected
from alveus.llm.answer_reader import is_thought, text_said
from alveus.memory.keys import KeyBatch, KeyMemory
from alveus.memory.memory import Memory
from alveus.store.items import Item, valid_item
from alveus.values.ids import identity_key
from alveus.values.storable import checked_name, valid_text

KEY = identity_key("langgraph.store", "default")
"""The default key of the namespaces."""

ROOT = "langgraph"
"""The first part of the set name of every namespace."""

TTL = "ttl_minutes"
"""The field of an item's metadata with its time to live, in minutes."""

_Plain: TypeAlias = dict[str, Any]

_LARGEST = sys.float_info.max

_OPERATORS = {"$eq": "eq", "$gt": "gt", "$gte": "gte", "$lt": "lt", "$lte": "lte"}

_ASKED = frozenset({*_OPERATORS, "$ne"})


class AlveusStore(Connected, BaseStore):
    """A store for LangGraph, sync and async in one object, safe between threads.

    The puts of a batch are one commit, after its reads. Searches find values by words and by
    meaning without any setting, with the embedder of the memory. The score of a search item is its
    relevance to the query, 0..1. Items are in the order of alveus's score; relevance is a part of
    it.

    Args:
        key: The key of the namespaces. `Memory.key(key).search` finds their values.
        fields: The parts of a value that are searched, as paths of LangGraph's index. "$" is the
            whole value. The argument *index* of `put` overrides *fields*.
        ttl: LangGraph's settings of when items expire, and whether reads renew them.
    """

    supports_ttl = True

    def __init__(
        self,
        memory: Memory,
        *,
        key: str = KEY,
        fields: Sequence[str] = ("$",),
        ttl: TTLConfig | None = None,
    ) -> None:
        if not isinstance(fields, (list, tuple)):
            raise InvalidInput(
                f"fields must be paths such as '$', in a list, not {short_repr(fields)}"
            )
        checked_name(key, "a key")
        Connected.__init__(self, memory)
        self.ttl_config = ttl
        self._sets: KeyMemory = self.memory.key(key)
        self._fields = tuple(checked_name(each, "a path in fields") for each in fields)

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Run all of *ops*. Reads see the state before the batch. The puts are one commit."""
        asked = list(ops)
        results: list[Result] = [self._read(op) for op in asked]
        puts = {(op.namespace, op.key): op for op in asked if isinstance(op, PutOp)}
        if puts:
            self._sets.commit(lambda batch: self._put(batch, list(puts.values())))
        return results

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """See `batch`."""
        return await self.awaited(lambda: self.batch(list(ops)))

    # --- reading ---

    def _read(self, op: Op) -> Result:
        match op:
            case GetOp():
                item = self._sets.set(_set_name(op.namespace)).get(op.key)
                if item is None:
                    return None
                if op.refresh_ttl:
                    self._renew([item])
                return StoreItem(**_fields(item))
            case SearchOp():
                return cast("Result", self._search(op))
            case ListNamespacesOp():
                return self._namespaces(op)
            case PutOp():
                return None
            case _:
                raise InvalidInput(f"a store of LangGraph does not support the operation {op!r}")

    def _search(self, op: SearchOp) -> list[SearchItem]:
        where = _where(valid_text(op.filter or {}).value)
        sets = filter(_is_namespace, self._sets.sets(prefix=ROOT))
        names = [name for name in sets if _is_below(_namespace(name), op)]
        last = op.offset + op.limit
        if op.query and names:
            most = max(last, 1)
            hits = self._sets.search(
                op.query, sets=names, limit=most, where=where, min_score=0, superseded="show"
            )
            found = [(hit.item, hit.relevance) for hit in hits]
        else:
            found = self._first_items(names, where, last)
        chosen = found[op.offset : last]
        if op.refresh_ttl:
            self._renew([item for item, _ in chosen])
        return [SearchItem(**_fields(item), score=score) for item, score in chosen]

    def _first_items(
        self, names: Sequence[str], where: dict[str, Any], limit: int
    ) -> list[tuple[Item, None]]:
        """Return up to *limit* items of namespaces, one namespace after the other."""
        found: list[Item] = []
        for name in names:
            if len(found) >= limit:
                break
            found += self._sets.set(name).list(limit=limit - len(found), where=where)
        return [(item, None) for item in found]

    def _namespaces(self, op: ListNamespacesOp) -> list[tuple[str, ...]]:
        counts = self._sets.sets(prefix=ROOT, counts=True)
        found = {_namespace(name) for name in filter(_is_namespace, counts) if counts[name]}
        for condition in op.match_conditions or ():
            found = {namespace for namespace in found if _matches(condition, namespace)}
        if op.max_depth is not None:
            found = {namespace[: op.max_depth] for namespace in found}
        return sorted(found)[op.offset : op.offset + op.limit]

    def _renew(self, items: Sequence[Item]) -> None:
        """Renew the time to live of items, as if they were put now."""
        for item in items:
            minutes = item.metadata.get(TTL)
            if isinstance(minutes, int | float) and item.expire_at is not None:
                target = self._sets.set(cast("str", item.set_name))
                target.renew(cast("str", item.id), ttl=timedelta(minutes=minutes))

    # --- writing ---

    def _put(self, batch: KeyBatch, puts: Sequence[PutOp]) -> None:
        for op in puts:
            target = batch.set(_set_name(op.namespace))
            if op.value is None:
                target.delete(op.key)
                continue
            life = None if op.ttl is None else timedelta(minutes=op.ttl)
            item = Item(
                value=dict(op.value),
                id=op.key,
                texts=self._texts(op),
                metadata={} if op.ttl is None else {TTL: op.ttl},
                ttl=life,
            )
            target.add(valid_item(item), on_existing="update")

    def _texts(self, op: PutOp) -> list[str]:
        if op.index is False:
            return [""]
        paths = self._fields if op.index is None else op.index
        texts: list[str] = []
        for path in paths:
            if path == "$":
                texts.append("\n".join(_texts_in(op.value)))
            else:
                texts += get_text_at_path(op.value, tokenize_path(path))
        first, rest = texts[: MOST_WINDOWS - 1], texts[MOST_WINDOWS - 1 :]
        return [*first, "\n".join(rest)] if rest else first or [""]


def _set_name(namespace: Sequence[str]) -> str:
    """Return the name of a namespace's set. Dots in labels, which `put` refuses, are escaped."""
    return ".".join((ROOT, *(each.replace("%", "%25").replace(".", "%2E") for each in namespace)))


def _is_namespace(set_name: str) -> bool:
    return f"{set_name}.".startswith(f"{ROOT}.")


def _namespace(set_name: str) -> tuple[str, ...]:
    labels = set_name.split(".")[1:]
    return tuple(label.replace("%2E", ".").replace("%25", "%") for label in labels)


def _is_below(namespace: tuple[str, ...], op: SearchOp) -> bool:
    return namespace[: len(op.namespace_prefix)] == tuple(op.namespace_prefix)


def _matches(condition: MatchCondition, namespace: tuple[str, ...]) -> bool:
    path = tuple(condition.path)
    part = namespace[: len(path)] if condition.match_type == "prefix" else namespace[-len(path) :]
    return len(part) == len(path) and all(
        asked in ("*", label) for asked, label in zip(path, part, strict=True)
    )


def _fields(item: Item) -> dict[str, Any]:
    return {
        "namespace": _namespace(cast("str", item.set_name)),
        "key": item.id,
        "value": item.value,
        "created_at": item.created,
        "updated_at": item.updated,
    }


def _texts_in(value: object, name: str = "") -> list[str]:
    """Return the texts of a value, and its numbers with their names."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return [f"{name}: {value}" if name else str(value)]
    parts: list[tuple[str, object]] = []
    if isinstance(value, dict):
        fields = cast("dict[str, object]", value)
        parts = [] if is_thought(fields) else [*map(_said, repeat(fields), fields)]
    elif isinstance(value, list):
        parts = [(name, part) for part in cast("list[object]", value)]
    return [text for of, part in parts for text in _texts_in(part, of)]


def _said(fields: Mapping[str, object], name: str) -> tuple[str, object]:
    """Return the name and the value of a field. A model's message loses its thoughts."""
    part = fields[name]
    if name == "reasoning_content":
        return name, None
    if name == "content" and isinstance(part, str):
        return name, text_said(fields.get("role", fields.get("type")), part)
    return name, part


def _where(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return a filter of LangGraph in the form of `where=`.

    Comparisons with None and ``$ne`` match a missing field, too.
    """
    conditions: list[dict[str, Any]] = []
    for name, wanted in asked.items():
        field = "$value." + re.sub(r"([\\.])", r"\\\1", name)
        operators: dict[str, Any] = {"$eq": wanted}
        if isinstance(wanted, dict) and any(op.startswith("$") for op in cast("_Plain", wanted)):
            operators = cast("_Plain", wanted)
        for op, operand in operators.items():
            if isinstance(operand, float) and not math.isfinite(operand) and op in _ASKED:
                conditions.append(_against_no_number(field, op, operand))
            elif op == "$ne":
                conditions.append({"not": _equal(field, operand)})
            elif op == "$eq":
                conditions.append(_equal(field, operand))
            elif op in _OPERATORS:
                conditions.append({field: {_OPERATORS[op]: operand}})
            else:
                known = ", ".join((*_OPERATORS, "$ne"))
                raise InvalidFilter(
                    f"filter[{name!r}][{op!r}] is not an operator; the operators are {known}"
                )
    return {"all": conditions} if conditions else {}


def _against_no_number(field: str, op: str, operand: float) -> dict[str, Any]:
    """Return a comparison with an infinity or NaN in the form of `where=`, without either."""
    if op == "$ne":
        return {"not": _against_no_number(field, "$eq", operand)}
    nothing = {"all": [{field: {"exists": True}}, {field: {"exists": False}}]}
    if math.isnan(operand):
        return nothing
    outwards, inwards, edge = ("gt", "lt", _LARGEST) if operand > 0 else ("lt", "gt", -_LARGEST)
    infinite, finite = {field: {outwards: edge}}, {field: {f"{inwards}e": edge}}
    return {
        "$eq": infinite,
        f"${outwards}": nothing,
        f"${outwards}e": infinite,
        f"${inwards}": finite,
        f"${inwards}e": {"any": [infinite, finite]},
    }[op]


def _equal(field: str, operand: object) -> dict[str, Any]:
    if operand is None:
        return {"any": [{field: {"eq": None}}, {field: {"exists": False}}]}
    return {field: {"eq": operand}}
