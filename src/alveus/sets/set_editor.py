"""Reads and changes of one set, for conversations, messages, windows and layers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

from alveus.errors import NotFound, Rejected
from alveus.sets.admission.barrier import judged
from alveus.sets.batch import Draft
from alveus.sets.writer import PAGE, NewId, PlannedWrite, PlannerCall, Writer
from alveus.store import (
    Add,
    AdmissionCheck,
    Define,
    Definition,
    ItemChange,
    ItemRecord,
    Replace,
    Retire,
    Scope,
    SetRef,
    StoredItem,
)
from alveus.store.items import Item
from alveus.values.lazy_dataclass import dataclass
from alveus.values.storable import Value, checked_name

JudgeItems: TypeAlias = Callable[[Sequence[Item], Sequence[ItemRecord]], list[AdmissionCheck]]
"""A function that judges items by their records and returns the admission checks."""


@dataclass(frozen=True, slots=True)
class SetEditor:
    """A view of one set through a writer, and changes of that set.

    A change is a plan: a function that reads the set and returns a `PlannedWrite`. `commit` calls
    the plan again if others changed the items that it read. In a batch or an action, a plan reads
    the gathered changes, and its changes are gathered too.

    Attributes:
        item_type: The type of items in a new set; None allows items of any type.
        purges: True if the set keeps no earlier versions, because no caller reads them.
    """

    writer: Writer
    ref: SetRef
    item_type: str | None = None
    purges: bool = False

    def get(self, ids: Sequence[str]) -> list[StoredItem]:
        """Return the live items of *ids*, in that order; missing ids are left out."""
        items = self.writer.get(self.ref, ids, at=None) if ids else []
        return [stored for stored in items if stored is not None]

    def one(self, item_id: str) -> StoredItem | None:
        """Return the live item with an id, or None if there is none."""
        return self.writer.get(self.ref, [item_id], at=None)[0]

    def live(self, item_id: str) -> StoredItem:
        """Return the live item with an id.

        Raises:
            NotFound: There is no live item with this id.
        """
        stored = self.one(checked_name(item_id, "an item's id"))
        if stored is None:
            owner = owner_text(self.ref.scope)
            raise NotFound(f"set {self.ref.name!r} of {owner} has no item {item_id!r}")
        return stored

    def items(self, *, newest_first: bool = False, most: int = PAGE) -> Iterator[StoredItem]:
        """Yield the live items in order of time.

        The items are read page by page, each page from the state at one moment.

        Args:
            most: Number of items that the caller needs. The first page has at most this number.
        """
        return self.writer.walk(self.ref, newest_first=newest_first, page=min(most, PAGE))

    def retired(self, items: Iterable[StoredItem]) -> list[ItemChange]:
        """Return the changes that retire items. A commit of them fails if an item changed since."""
        return [Retire(self.ref, stored.record.id, stored.version) for stored in items]

    def replaced(self, pairs: Sequence[tuple[StoredItem, Item]]) -> list[ItemChange]:
        """Return the changes that replace stored items by new items with the same ids.

        A commit of the changes fails if a stored item changed since.
        """
        records = self.writer.records([(stored.record.id, item) for stored, item in pairs])
        return [
            Replace(self.ref, stored.version, record)
            for (stored, _), record in zip(pairs, records, strict=True)
        ]

    def plan(
        self,
        changes: Sequence[ItemChange],
        result: object = None,
        *,
        admission_checks: Sequence[AdmissionCheck] | None = None,
        retry: bool = True,
    ) -> PlannedWrite:
        """Return changes of this set in the form that `commit` takes, with a result.

        Args:
            admission_checks: The checks of the changes by the rules of admission. By default, the
                items count as accepted by the rules: they were checked before.
        """
        if admission_checks is None:
            admission_checks = self.writer.rules_check(self.ref) if changes else []
        define = self.definitions() if changes else []
        return PlannedWrite(changes, result, define, retry=retry, admission_checks=admission_checks)  # pyright: ignore[reportArgumentType] - stored under an idempotency key only

    def definitions(self) -> list[Define]:
        """Return the definition to commit with a change of the set.

        A new set needs a definition; a set that keeps earlier versions although `purges` is True
        needs a new one. Otherwise return an empty list.
        """
        info = self.writer.info(self.ref)
        if info is None:
            retention = "purge" if self.purges else "keep"
            return [Define(self.ref, Definition(item_type=self.item_type, retention=retention))]
        if self.purges and info.definition.retention != "purge":
            return [Define(self.ref, replace(info.definition, retention="purge"), replace=True)]
        return []

    def commit(
        self,
        name: str,
        arguments: Sequence[Value] | Callable[[], Sequence[Value]],
        plan: Callable[[NewId], PlannedWrite],
        *,
        idempotency_key: str | None = None,
    ) -> Any:  # noqa: ANN401 - the result of the plan
        """Commit a plan, or gather its changes in the batch; return the result of the plan.

        Args:
            name: The name of the call. The name and *arguments* identify the call in a batch, and
                under an *idempotency_key*.

        Raises:
            StaleItem, DuplicateItem: Others changed the items that the plan had read. Either the
                plan allows no retry, or the retries failed until the memory's wait time ended.
        """

        def passed() -> Value:
            return [self.ref.name, *(arguments() if callable(arguments) else arguments)]

        call = PlannerCall(name, passed, plan)
        return self.writer.write(call, idempotency_key=idempotency_key)

    def change(self, name: str, arguments: Sequence[Value], changes: Sequence[ItemChange]) -> None:
        """Commit changes that are not planned again after a conflict; see `commit`.

        Raises:
            StaleItem, DuplicateItem: Others changed these items; nothing was changed.
        """
        planned = self.plan(changes, retry=False)
        self.commit(name, arguments, lambda _: planned)

    def replace_all(
        self, name: str, arguments: Sequence[Value], items: Sequence[Item], *, is_judged: bool
    ) -> list[str]:
        """Replace all items of the set by *items*; return the ids of *items*, in order.

        One call in a batch may name an id only once. In a batch, a separate call therefore retires
        the earlier items first.

        Args:
            is_judged: Whether to check the items by the set's rules of admission. Items that were
                in a set before passed the rules then.

        Raises:
            Rejected: A rule rejects an item; nothing was changed.
        """
        if isinstance(self.writer, Draft):
            self.change(f"{name}: clear", [], self.retired(self.items()))
        judge = self._judged if is_judged else None
        return self.commit(name, arguments, partial(self._all_replaced, items, judge))

    def _all_replaced(
        self, items: Sequence[Item], judge: JudgeItems | None, new_id: NewId
    ) -> PlannedWrite:
        records = self.writer.records([(item.id or new_id(), item) for item in items])
        checks = None if judge is None else judge(items, records)
        changes = [*self.retired(self.items()), *(Add(self.ref, record) for record in records)]
        return self.plan(changes, [record.id for record in records], admission_checks=checks)

    def _judged(self, items: Sequence[Item], records: Sequence[ItemRecord]) -> list[AdmissionCheck]:
        """Return the admission checks of items by the rules of the set.

        Raises:
            Rejected: A rule rejects an item, or sends it to quarantine.
        """
        pairs = list(zip(items, records, strict=True))
        judgement = judged(self.writer, self.ref, pairs)
        for at, verdict in enumerate(judgement.verdicts):
            if verdict.outcome in ("reject", "quarantine"):
                raise Rejected(self.ref.name, rule=verdict.rule, reason=verdict.reason, position=at)
        return [*judgement.checks]


def owner_text(scope: Scope) -> str:
    """Return the name of a key or knowledge for messages, such as "key 'ada'"."""
    return f"knowledge {scope.space!r}" if scope.key is None else f"key {scope.key!r}"
