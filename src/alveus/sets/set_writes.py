"""Changes of a memory set: each call is atomic, and durable when it returns."""

from __future__ import annotations

import builtins
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from itertools import chain, islice
from operator import attrgetter
from typing import Any, Literal, TypeAlias, Unpack, cast

from alveus.errors import DuplicateItem, HistoryPruned, InvalidInput, Rejected, StaleItem
from alveus.sets.admission.barrier import (
    Barrier,
    Judgement,
    OnRejected,
    Quarantine,
    QuarantineDraft,
    check_update,
    judged,
)
from alveus.sets.admission.rules import ACCEPT, Added, Outcome, Verdict
from alveus.sets.forgetting import HowForgotten, Receipt, Scrub, forget_items
from alveus.sets.origins import check_sources, linked
from alveus.sets.set_editor import SetEditor
from alveus.sets.set_options import (
    ItemChanges,
    ItemFields,
    SetChanges,
    checked_ids,
    definition,
    fits,
    refuse_upkeep,
    stored_options,
)
from alveus.sets.set_reads import SetReads
from alveus.sets.writer import NewId, PlannedWrite, PlannerCall, Where
from alveus.state import ttl_us
from alveus.store import Add, Define, Definition, ItemChange, ItemRecord, Link, Replace, StoredItem
from alveus.store.filters import Filter, plain_filter
from alveus.store.items import Item
from alveus.store.records import item_of, request_json, with_one_text
from alveus.values.ids import made_by
from alveus.values.keywords import check_keywords, suggest_names_in_part
from alveus.values.lazy_dataclass import dataclass
from alveus.values.storable import (
    Value,
    checked,
    checked_name,
    choice,
    counted,
    microseconds,
    moment,
)

SIMPLE_ITEMS = 16
"""Most items of a call that shares a commit with other threads; larger calls gain nothing."""

_SOURCES = attrgetter("sources")

OnExisting: TypeAlias = Literal["error", "keep", "update"]
"""The action of `add` for an existing id: raise, keep the stored item, or replace it."""


def _lasting(item: Item, life: timedelta) -> Item:
    """Return *item* with the lifetime *life*. An item with an expiry is returned unchanged."""
    return replace(item, ttl=life) if item.ttl is item.expire_at is None else item


@dataclass(frozen=True, slots=True)
class AddCall:
    """A call that adds items to a set.

    Attributes:
        definitions: Returns the definitions to commit with the add.
        judged: True if the rules of the set check the items; False for items that were in a set
            before.
        life: The lifetime of items without an expiry; not part of the request's digest.
    """

    editor: SetEditor
    items: Sequence[Item]
    on_existing: OnExisting
    on_rejected: OnRejected
    definitions: Callable[[], Sequence[Define]]
    judged: bool
    life: timedelta | None

    name = "add"

    def arguments(self) -> Value:
        """See `WriteCall.arguments`."""
        skips: list[Value] = [] if self.on_rejected == "error" else [self.on_rejected]
        items: list[Value] = [request_json(item) for item in self.items]
        return [self.editor.ref.name, self.on_existing, items, *skips]

    def is_simple(self) -> bool:
        """Return whether the call only adds a few items, so that its plan needs no reads."""
        return (
            self.judged
            and self.on_existing == "error"
            and 0 < len(self.items) <= SIMPLE_ITEMS
            and not any(map(_SOURCES, self.items))
            and not self.definitions()
            and self.editor.writer.rules(self.editor.ref, None) is None
        )

    def plan(self, new_id: NewId) -> PlannedWrite:
        """See `WriteCall.plan`.

        Raises:
            Rejected: A rule rejects an item, and rejected items are not skipped.
        """
        writer, ref, define = self.editor.writer, self.editor.ref, self.definitions()
        pairs, definition = self.pairs(new_id), define[0].definition if define else None
        records = writer.records(pairs)
        live = {} if self.on_existing == "error" else self._live(records)
        if writer.rules(ref, definition) is None:
            changes = self._unjudged(records, live) if live else self.added(records)
            return PlannedWrite(
                linked(writer, ref, changes) if self.judged else changes,  # add_back links later
                [item_id for item_id, _ in pairs],
                define,
                retry=self.on_existing != "error",
            )
        items = [(item, record) for (_, item), record in zip(pairs, records, strict=True)]
        new = [pair for pair in items if not self._keeps(live.get(pair[1].id))]
        if self.judged:
            judgement = judged(writer, ref, new, definition)
        else:
            judgement = Judgement([ACCEPT] * len(new), writer.rules_check(ref, definition))
        return self._planned(items, live, judgement, QuarantineDraft(writer, ref, new_id), define)

    def _planned(
        self,
        items: Sequence[tuple[Item, ItemRecord]],
        live: Mapping[str, StoredItem],
        judgement: Judgement,
        held: QuarantineDraft,
        define: Sequence[Define],
    ) -> PlannedWrite:
        """Return the changes of the judged items."""
        writer, ref, found = self.editor.writer, self.editor.ref, iter(judgement.verdicts)
        changes, ids, verdicts = list[ItemChange](), list[Value](), list[Verdict]()
        for at, (item, record) in enumerate(items):
            stored = live.get(record.id)
            verdict = ACCEPT if self._keeps(stored) else next(found)
            if verdict.outcome == "merge" and stored is not None:
                verdict = ACCEPT  # the item replaces its earlier version
            verdicts.append(verdict)
            if verdict.outcome == "accept":
                changes += self._changes(item, record, stored)
            ids += self._ids(record, verdict, held, at)
        if into := [*dict.fromkeys(v.into for v in verdicts if v.into is not None)]:
            writer.touch(self.editor.get(into))
        made = [*changes, *held.changes]
        return PlannedWrite(
            linked(writer, ref, made) if self.judged else made,  # add_back links its items later
            {"ids": ids, "verdicts": [_as_list(v) for v in verdicts]} if self.judged else ids,
            [*(define if made or not self.judged else ()), *held.define],
            retry=self.on_existing != "error",
            admission_checks=[*(judgement.checks if changes else ()), *held.admission_checks],
        )

    def _unjudged(
        self, records: Sequence[ItemRecord], live: Mapping[str, StoredItem]
    ) -> list[ItemChange]:
        items = zip(self.items, records, strict=True)
        made = (self._changes(item, record, live.get(record.id)) for item, record in items)
        return list(chain.from_iterable(made))

    def _keeps(self, stored: StoredItem | None) -> bool:
        return stored is not None and self.on_existing == "keep"

    def _changes(
        self, item: Item, record: ItemRecord, stored: StoredItem | None
    ) -> list[ItemChange]:
        """Return the change that adds an item, or replaces its earlier version *stored*.

        Return an empty list if the earlier version is kept.
        """
        if stored is None:
            fresh = item.id is None
            return [Add(self.editor.ref, record, fresh, existing=self.on_existing)]
        if self._keeps(stored):
            return []
        return [Replace(self.editor.ref, stored.version, record, upsert=True)]

    def _ids(
        self, record: ItemRecord, verdict: Verdict, held: QuarantineDraft, at: int
    ) -> list[Value]:
        """Return the id under which a judged item can be found, in a list.

        The list is empty for a skipped item.

        Raises:
            Rejected: A rule rejects the item, and rejected items are not skipped.
        """
        match verdict.outcome:
            case "accept":
                return [record.id]
            case "merge":
                return [verdict.into]
            case "quarantine":
                return [held.take(record, verdict)]
            case "reject":
                if self.on_rejected == "error":
                    name = self.editor.ref.name
                    raise Rejected(name, rule=verdict.rule, reason=verdict.reason, position=at)
                return []

    def pairs(self, new_id: NewId) -> list[tuple[str, Item]]:
        """Return the items to record, with their ids."""
        items = self.items
        if self.life is not None:
            items = [_lasting(item, self.life) for item in items]
        if len(items) == 1:
            item = items[0]
            return [(new_id() if item.id is None else item.id, item)]
        ids = [item.id for item in items]
        made = iter(made_by(new_id, sum([item_id is None for item_id in ids])))
        return [
            (next(made) if item_id is None else item_id, item)
            for item_id, item in zip(ids, items, strict=True)
        ]

    def added(self, records: Sequence[ItemRecord]) -> list[ItemChange]:
        """Return the changes that add items with new ids."""
        ref = self.editor.ref
        return [
            Add(ref, record, item.id is None, existing=self.on_existing)
            for record, item in zip(records, self.items, strict=True)
        ]

    def _live(self, records: Sequence[ItemRecord]) -> dict[str, StoredItem]:
        """Return the existing items with the ids of *records*, by id."""
        ids = [record.id for record in records]
        if len(set(ids)) != len(ids):
            raise InvalidInput("one call has two items with the same id; merge them first")
        return {stored.record.id: stored for stored in self.editor.get(ids)}


def _as_list(verdict: Verdict) -> Value:
    return [verdict.outcome, verdict.reason, verdict.rule, verdict.into]


_StoredVerdict: TypeAlias = tuple[Outcome, str, str, str | None]


def _added(answer: Value) -> Added:
    """Return the result of an add from the answer that its commit stores."""
    if isinstance(answer, list):
        return Added(map(str, answer))
    assert isinstance(answer, dict)  # noqa: S101 - `AddCall.plan` made it
    ids, verdicts = (cast("list[Value]", answer[name]) for name in ("ids", "verdicts"))
    result = Added(str(item_id) for item_id in ids)
    result.verdicts = tuple(Verdict(*cast("_StoredVerdict", verdict)) for verdict in verdicts)
    return result


def check_adding(items: Sequence[Item], on_existing: object) -> None:
    """Raise `InvalidInput` for items or options that no set accepts."""
    choice(on_existing, "on_existing", "error", "keep", "update")
    for item in items:
        if item.id is not None:
            checked_name(item.id, "an item's id")
        if type(item.sources) is not tuple or item.sources:
            check_sources(item.sources)


def item_from(value: object, fields: ItemChanges | ItemFields | None = None) -> Item:
    """Return an item from a value or an `Item`, and named fields."""
    if not fields:
        return with_one_text(value) if isinstance(value, Item) else Item(value)
    present = dict[str, Any](fields)
    if "texts" in present:
        present.setdefault("text", None)
    if present.get("metadata", ...) is None:
        del present["metadata"]
    return with_one_text(
        replace(value, **present) if isinstance(value, Item) else Item(value, **present)
    )


@suggest_names_in_part
class SetWrites(SetReads):
    """The changes of a set."""

    def add(
        self,
        value: object,
        *,
        on_existing: OnExisting = "error",
        idempotency_key: str | None = None,
        **fields: Unpack[ItemFields],
    ) -> str:
        """Add one item; return its id.

        If the set has rules of admission, the returned id may be the id of an equal item in the
        set, or the id of the new item in `quarantine`. `admit` returns the verdict of the rules
        beforehand. With an *idempotency_key* a second call changes nothing and returns the id that
        the first call returned.

        Args:
            value: A storable value, or an `Item`.
            fields: Further fields of the item: ``id text texts time timezone metadata importance
                speaker role session expire_at ttl valid_from valid_to``, as in `Item`. They replace
                the fields of an `Item`.

        Raises:
            DuplicateItem: The id exists, and *on_existing* is "error".
            IdempotencyConflict: The key was used before with other arguments.
            InvalidInput: An argument cannot be stored.
            Rejected: A rule of the set rejects the item.
            SetFull, KeyFull: A limit was reached.
        """
        check_keywords(self, "add", fields, ItemFields)
        item = item_from(value, fields)
        return self._add([item], on_existing, idempotency_key)[0]

    def add_many(
        self,
        items: Sequence[object],
        *,
        on_existing: OnExisting = "error",
        on_rejected: OnRejected = "error",
        idempotency_key: str | None = None,
    ) -> Added:
        """Add items in one commit, all or none; return their ids in order.

        Args:
            on_rejected: "skip" leaves out rejected items; `skipped` of the returned list has their
                positions and the reasons.

        Raises:
            Rejected: A rule rejects an item, and *on_rejected* is "error".
        """
        if type(items) not in (list, tuple):
            raise InvalidInput("add_many() needs a list of values or Items; add() takes one value")
        new_items = [
            item if type(item) is Item and item.texts is None else item_from(item) for item in items
        ]
        return self._add(new_items, on_existing, idempotency_key, on_rejected)

    def add_back(self, items: Sequence[Item], *, on_existing: OnExisting = "error") -> list[str]:
        """Add items that were in a set before, as an import of an export does.

        This works like `add_many`, but the rules of admission do not check the items, because they
        checked each item when it was first added.
        """
        if type(items) not in (list, tuple) or not all(isinstance(item, Item) for item in items):  # pyright: ignore[reportUnnecessaryIsInstance] - user input
            raise InvalidInput(
                "add_back() needs a list of Items as a set or an export returns them"
            )
        return self._add(list(items), on_existing, None, checked=False)

    def _add(
        self,
        items: list[Item],
        on_existing: OnExisting,
        idempotency_key: str | None,
        on_rejected: OnRejected = "error",
        *,
        checked: bool = True,
    ) -> Added:
        choice(on_rejected, "on_rejected", "error", "skip")
        check_adding(items, on_existing)
        call = AddCall(
            self._editor, items, on_existing, on_rejected, self._definitions, checked, self._life
        )
        answer = self._writer.write(call, idempotency_key=idempotency_key)
        result = _added(answer)
        if isinstance(answer, list) or any(v.outcome == "accept" for v in result.verdicts):
            self._define = ()
        return result

    @property
    def _life(self) -> timedelta | None:
        """The lifetime of items without an expiry, or None if these items never expire."""
        return None if self._ttl is None else self._ttl.after

    def _definitions(self) -> Sequence[Define]:
        """Return the definitions to commit with an add now.

        Others may have added to the set since it was opened. If they have forgotten the set with
        its definition, the set is defined again with the options with which it was opened here.
        """
        if self._define or (self._options and self._writer.info(self._ref) is None):
            self._define = self._definition_to_make()
        return self._define

    def admit(self, value: object) -> Verdict:
        """Return the verdict of the set's rules on a value or an `Item`, without storing anything.

        A later add may get another verdict if others add items meanwhile.
        """
        item = item_from(value)
        info = self._writer.info(self._ref)
        admission = self.definition.admission if info is None else info.definition.admission
        rules = self._writer.rules(self._ref, replace(self.definition, admission=admission))
        item_id = "(new)" if item.id is None else checked_name(item.id, "an item's id")
        record = self._writer.records([(item_id, item)])[0]
        return (
            ACCEPT
            if rules is None
            else Barrier(self._writer, self._ref, rules).judge([(item, record)])[0]
        )

    @property
    def quarantine(self) -> Quarantine:
        """The items that the rules of the set hold until a person or program decides."""
        return Quarantine(self._writer, self._ref.scope, self.name)

    def update(
        self,
        id: str,
        value: object = ...,
        *,
        if_version: int | None = None,
        idempotency_key: str | None = None,
        **fields: Unpack[ItemChanges],
    ) -> Item:
        """Change the given fields of an item, as a new version; return this version.

        Other fields stay. A new *value* without *text* replaces the text, too.

        With an *idempotency_key* a second call changes nothing and returns the version that the
        first call made, or the current item if the set no longer keeps that version.

        Args:
            fields: The fields to change, as in `add`.

        Raises:
            NotFound: There is no live item with this id.
            HistoryPruned: In a second call with the same key: the set no longer keeps the version
                that the first call made, and the item was deleted.
            StaleItem: The item's version is not *if_version*.
            Rejected: A rule of the set rejects the new version.
        """
        check_keywords(self, "update", fields, ItemChanges)
        checked_name(id, "an item's id")
        _check_version(if_version)
        changes = dict[str, Any](fields)
        if value is not ...:
            changes["value"] = value
        if "ttl" in changes:
            changes.setdefault("expire_at", None)
        if "texts" in changes:
            given = Item(value=None, text=changes.get("text"), texts=changes.pop("texts"))
            changes["text"] = with_one_text(given).text
        if "value" in changes and "text" not in changes:
            changes["text"] = None
        new_versions = list[Item]()

        def arguments() -> list[Value]:
            passed = request_json(replace(Item(value=None), **changes))
            return [id, [*sorted(changes)], if_version, passed]

        plan = partial(self._planned_update, id, changes, if_version, new_versions)
        answer = self._editor.commit("update", arguments, plan, idempotency_key=idempotency_key)
        return self._version_made(id, answer["version"], new_versions)

    def _planned_update(
        self,
        item_id: str,
        changes: dict[str, Any],
        if_version: int | None,
        new_versions: list[Item],
        _new_id: NewId,
    ) -> PlannedWrite:
        """Plan the change of an item, and put the new version of the item into *new_versions*."""
        editor, stored = self._editor, self._editor.live(item_id)
        if if_version is not None and stored.version != if_version:
            raise StaleItem(item_id, expected=if_version, found=stored.version)
        item = replace(item_of(stored), **changes)
        if self._life is not None and not {"ttl", "expire_at"} & changes.keys():
            item = replace(item, expire_at=None, ttl=self._life)
        version = stored.version + 1
        new_versions[:] = [replace(item, version=version)]
        record = editor.writer.records([(item_id, item)])[0]
        checks = check_update(editor.writer, editor.ref, item, record)
        return PlannedWrite(
            [Replace(editor.ref, stored.version, record)],
            {"id": item_id, "version": version},
            retry=if_version is None,
            admission_checks=checks,
        )

    def _version_made(self, item_id: str, version: object, new_versions: Sequence[Item]) -> Item:
        """Return the version of an item that a call made, even if the item changed later.

        If the version is neither kept nor in *new_versions*, return the live version.

        Args:
            version: The number of the version, or None for the live version.
            new_versions: The versions that this call made itself; none for a repetition.

        Raises:
            HistoryPruned: There is no live version either.
        """
        live = self._writer.get(self._ref, [item_id], at=None)[0]
        if live is not None and version in (live.version, None):
            return item_of(live)
        for stored, _ in self._writer.versions(self._ref, item_id):
            if stored.version == version:
                return item_of(stored)
        for item in new_versions:
            if item.version == version:
                return item
        if live is None:
            info = self._writer.info(self._ref)
            start = 0 if info is None else info.history_start
            raise HistoryPruned(f"item {item_id!r}", commit=start, floor=start + 1)
        return item_of(live)

    def supersede(
        self,
        id: str,
        value: object,
        *,
        at: datetime | None = None,
        new_id: str | None = None,
        idempotency_key: str | None = None,
        **fields: Unpack[ItemChanges],
    ) -> str:
        """Replace a fact by a new fact from *at* on; return the id of the new item.

        One commit changes both items: the old item gets a version that is valid until *at* (by
        default now); the new item is valid from then on and has the old item as its source.
        `search` and `recent` find the item that is valid now; with ``valid_at=`` they find the item
        that was valid at that time.

        Args:
            new_id: The id of the new item; by default a new id is made.
            fields: Further fields of the new item, as in `add`, except *valid_from*.

        Raises:
            NotFound: There is no live item with this id.
            DuplicateItem: An item with the id *new_id* exists.
            Rejected: A rule of the set rejects the new item. Rules for duplicates do not apply.
            InvalidInput: The old item becomes valid after *at*, or its validity ended before *at*.
        """
        checked_name(id, "an item's id")
        asked = None if at is None else microseconds(at, "at")
        if new_id is not None:
            checked_name(new_id, "an item's id")
        check_keywords(self, "supersede", fields, ItemChanges)
        if "valid_from" in fields:
            raise InvalidInput(
                "supersede() takes at= instead of valid_from; the new item is valid from that time"
            )
        item = replace(item_from(value, fields), id=new_id, sources=(id,))
        plan = partial(self._superseded, id, item, asked)

        def arguments() -> list[Value]:
            return [id, asked, request_json(item)]

        return self._editor.commit("supersede", arguments, plan, idempotency_key=idempotency_key)

    def _superseded(self, item_id: str, item: Item, at: int | None, made_id: NewId) -> PlannedWrite:
        editor, writer, ref = self._editor, self._writer, self._ref
        stored = editor.live(item_id)
        since = moment(writer.now() if at is None else at)
        ends = _ended(item_of(stored), since)
        name = made_id() if item.id is None else item.id
        if item.id is not None and editor.one(name) is not None:
            raise DuplicateItem(name, set_name=ref.name)  # a new plan would fail again
        begins = replace(item, id=name, valid_from=since)
        old, new = writer.records([(item_id, ends), (name, begins)])
        added = Add(ref, new, fresh=item.id is None, links=[Link(ref, item_id)])
        checks = check_update(writer, ref, begins, new, replaced_id=item_id)
        changes = [Replace(ref, stored.version, old), added]
        return PlannedWrite(changes, name, self._define, retry=True, admission_checks=checks)

    def delete(
        self,
        ids: str | Sequence[str] | None = None,
        *,
        where: Where | None = None,
        if_version: int | None = None,
        idempotency_key: str | None = None,
    ) -> int:
        """Retire items by id, or all items that match *where*; return the number of retired items.

        Reads of the present no longer return them; `history`, ``as_of=`` and undo keep them.
        Missing ids are not counted.

        Raises:
            StaleItem: *if_version* is given, and an item of *ids* has another version.
        """
        if (ids is None) == (where is None):
            raise InvalidInput("delete() takes either ids or where=; to empty the set, use clear()")
        _check_version(if_version)
        id_list = None if ids is None else checked_ids(ids)
        matching = Filter.parse(where)

        def arguments() -> list[Value]:
            ids = None if id_list is None else list[Value](id_list)
            version = [] if if_version is None else [if_version]
            return [ids, checked(plain_filter(where)), *version]

        plan = partial(self._planned_delete, id_list, matching, if_version)
        return self._editor.commit("delete", arguments, plan, idempotency_key=idempotency_key)

    def _planned_delete(
        self,
        ids: Sequence[str] | None,
        matching: Filter | None,
        if_version: int | None,
        _new_id: NewId,
    ) -> PlannedWrite:
        editor = self._editor
        if ids is not None:
            items = editor.get(ids)
        else:
            items = [s for s in editor.items() if fits(s, matching)]
        latest = {stored.record.id: stored for stored in items}  # a page may repeat a moved item
        for stored in latest.values():
            if if_version not in (None, stored.version):
                raise StaleItem(stored.record.id, expected=if_version, found=stored.version)
        return PlannedWrite(editor.retired(latest.values()), len(latest), retry=True)

    def renew(self, ids: str | Sequence[str], *, ttl: timedelta) -> int:
        """Let expiring items live for *ttl* from now on; return the number of renewed items.

        The call makes no version and no commit; the change is durable when the call returns. An
        item is not renewed if it never expires, or would gain less than a tenth of *ttl*; missing
        items are ignored. If the set was opened with ``ttl=Ttl(after=…, refresh="read")``, `get`
        and `search` renew the items that they return in the same way.
        """
        life = ttl_us(ttl)
        return self._writer.renew(self._editor.get(checked_ids(ids)), life)

    def pop(self, n: int = 1, *, idempotency_key: str | None = None) -> builtins.list[Item]:
        """Retire the last *n* items by time, or fewer, and return them, oldest first.

        No two calls return the same item, in any process. With an *idempotency_key* a second call
        changes nothing and returns the result of the first call.

        Raises:
            HistoryPruned: In a second call with the same key: the set no longer keeps a returned
                item.
        """
        most = min(counted(n, "n", least=0), sys.maxsize)
        popped = dict[tuple[str, int], Item]()
        plan = partial(self._planned_pop, most, popped)
        answer = self._editor.commit("pop", [n], plan, idempotency_key=idempotency_key)
        return [
            popped.get((item_id, version)) or self._version_made(item_id, version, ())
            for item_id, version in answer
        ]

    def _planned_pop(
        self, most: int, popped: dict[tuple[str, int], Item], _new_id: NewId
    ) -> PlannedWrite:
        """Plan to retire the last *most* items; add them to *popped* under (id, version)."""
        walk = self._editor.items(newest_first=True, most=most) if most else ()
        newest = islice(walk, most)
        items = list({stored.record.id: stored for stored in newest}.values())[::-1]
        popped.update({(s.record.id, s.version): item_of(s) for s in items})
        result: list[Value] = [[s.record.id, s.version] for s in items]
        return PlannedWrite(self._editor.retired(items), result, retry=True)

    def clear(self, *, idempotency_key: str | None = None) -> int:
        """Retire every item; return their number. The set and its definition stay."""
        return self.delete(where={}, idempotency_key=idempotency_key)

    def forget(
        self,
        ids: str | Sequence[str] | None = None,
        *,
        where: Where | None = None,
        scrub: Scrub | None = None,
        dry_run: bool = False,
        idempotency_key: str | None = None,
    ) -> Receipt:
        """Erase items for good: by id, or all items with a version that matches *where*.

        The call erases every version of the items, the items derived from them, and the records of
        ended runs that wrote or read them. If a summary is erased, its remaining sources that have
        no other summary return to the set.

        Args:
            scrub: "now" also removes the data from the files; "later" leaves that to
                `Memory.scrub`. By default "now" if the store is under 200 MB, otherwise "later".
            dry_run: True to count what would be erased, and erase nothing.
            idempotency_key: A second call with the same key erases nothing, not even new items, and
                returns the same receipt in its current state.

        Raises:
            Unusable: The call is inside a batch or an action; forgetting is a separate commit.
        """
        engine = self._writer.alone("forget")
        how = HowForgotten(scrub, dry_run, idempotency_key)
        return forget_items(engine, self._ref, ids, where, how)

    def redefine(self, **changes: Unpack[SetChanges]) -> Definition:
        """Change settings of the set; return the new definition. Settings that are not given stay.

        A capacity of None removes the limit. If the set exceeds a smaller capacity, the next add
        makes room. New rules of *admission* apply to later adds; an empty list removes all rules.
        """
        new = definition(self._redefining(changes), start=self.definition)
        planned = PlannedWrite([], None, [Define(self._ref, new, replace=True)])
        self._writer.write(PlannerCall("redefine", None, lambda _: planned))
        self._define = ()
        return self.definition

    def _redefining(self, changes: SetChanges) -> dict[str, object]:
        """Return the changes of the definition in the stored form."""
        check_keywords(self, "redefine", changes, SetChanges)
        capacities = ("capacity", "capacity_tokens", "capacity_bytes")
        chosen = stored_options(changes, self._writer)
        chosen = {n: v for n, v in chosen.items() if v is not None or n in capacities}
        if not self._upkeep:
            refuse_upkeep({name: value for name, value in chosen.items() if name != "signals"})
        return chosen


def _check_version(if_version: object) -> None:
    if if_version is not None:
        counted(if_version, "if_version", least=0)


def _ended(item: Item, at: datetime) -> Item:
    """Return *item* with the end of its validity at *at*.

    Raises:
        InvalidInput: The item becomes valid after *at*, or its validity ended before *at*.
    """
    if item.valid_from is not None and at < item.valid_from:
        raise InvalidInput(
            f"item {item.id!r} becomes valid at {item.valid_from:%Y-%m-%d %H:%M}, after at=; "
            "pass a later at=, or delete the item"
        )
    if item.valid_to is not None and item.valid_to < at:
        raise InvalidInput(
            f"item {item.id!r} was valid until {item.valid_to:%Y-%m-%d %H:%M}, before at=; add "
            "the new fact with add()"
        )
    return replace(item, valid_to=at)
