"""Reading and changing a set: what conversations, messages, windows and layers are built on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

from alveus.errors import NotFound, Rejected
from alveus.sets.admission.barrier import Barrier
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
"""Returns what rules of admission let in of items, which go by their records."""


@dataclass(frozen=True, slots=True)
class SetEditor:
    """A set as a writer sees it, with what its batch gathered, and changes of that set.

    A change is a plan: a function that reads the set and returns a `PlannedWrite`. `commit` calls
    the plan again when somebody else changed what it had read. In a batch or an action, a plan
    reads what the batch gathered, and its changes are gathered too.

    Attributes:
        item_type: What the set is defined as if the change is the first one; None: any items.
        purges: Whether nobody asks what its items were before: the set is to keep no versions.
    """

    writer: Writer
    ref: SetRef
    item_type: str | None = None
    purges: bool = False

    def get(self, ids: Sequence[str]) -> list[StoredItem]:
        """Return the live items of *ids*, in that order; ids that are not there are left out."""
        items = self.writer.get(self.ref, ids, at=None) if ids else []
        return [stored for stored in items if stored is not None]

    def one(self, item_id: str) -> StoredItem | None:
        """Return the live item of an id, or None."""
        return self.writer.get(self.ref, [item_id], at=None)[0]

    def live(self, item_id: str) -> StoredItem:
        """Return the live item of an id.

        Raises:
            NotFound: There is none.
        """
        stored = self.one(checked_name(item_id, "an item's id"))
        if stored is None:
            owner = owner_text(self.ref.scope)
            raise NotFound(f"set {self.ref.name!r} of {owner} has no item {item_id!r}")
        return stored

    def items(self, *, newest_first: bool = False, most: int = PAGE) -> Iterator[StoredItem]:
        """Yield the live items in order of time; those of one page are of one moment.

        Args:
            most: How many are asked for, if it is known; a page has no more, and at most `PAGE`.
        """
        return self.writer.walk(self.ref, newest_first=newest_first, page=min(most, PAGE))

    def retired(self, items: Iterable[StoredItem]) -> list[ItemChange]:
        """Return the changes that retire items, unless they were changed since they were read."""
        return [Retire(self.ref, stored.record.id, stored.version) for stored in items]

    def replaced(self, pairs: Sequence[tuple[StoredItem, Item]]) -> list[ItemChange]:
        """Return the changes that replace each item, as it was read, by another of its id."""
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
        """Return changes of this set as what `commit` takes, and what it answers with.

        Args:
            admission_checks: What the rules of admission said of the changes; None: the changes
                hold nothing that the rules have not let in before.
        """
        if admission_checks is None:
            admission_checks = self.writer.rules_check(self.ref) if changes else []
        define = self.definitions() if changes else []
        return PlannedWrite(changes, result, define, retry=retry, admission_checks=admission_checks)  # pyright: ignore[reportArgumentType] - stored under an idempotency key only

    def definitions(self) -> list[Define]:
        """Return what defines the set, if it is not there yet, or keeps what it is to purge."""
        info = self.writer.info(self.ref)
        if info is None:
            retention = "purge" if self.purges else "keep"
            return [Define(self.ref, Definition(item_type=self.item_type, retention=retention))]
        if self.purges and info.definition.retention != "purge":
            return [Define(self.ref, replace(info.definition, retention="purge"), replace=True)]
        return []

    def commit(
        self, name: str, arguments: Sequence[Value], plan: Callable[[NewId], PlannedWrite]
    ) -> Any:  # noqa: ANN401 - what the plan answers
        """Commit a plan, or gather it in the batch; return its result.

        Args:
            name: Of the call, which with its *arguments* tells a batch from another one.

        Raises:
            StaleItem, DuplicateItem: Others changed what the plan read for as long as the memory
                waits, or the plan is not to be retried.
        """
        return self.writer.write(PlannerCall(name, [self.ref.name, *arguments], plan))

    def change(self, name: str, arguments: Sequence[Value], changes: Sequence[ItemChange]) -> None:
        """Commit changes that are never planned again; see `commit`.

        Raises:
            StaleItem, DuplicateItem: Others changed what they rest on; nothing was changed.
        """
        planned = self.plan(changes, retry=False)
        self.commit(name, arguments, lambda _: planned)

    def replace_all(
        self, name: str, arguments: Sequence[Value], items: Sequence[Item], *, is_judged: bool
    ) -> list[str]:
        """Replace all items of the set by *items*; return their ids, in order.

        A batch takes an id once per call: there another call retires the earlier items.

        Args:
            is_judged: Whether the set's rules of admission are asked. Items that were in a set
                before have passed them.

        Raises:
            Rejected: A rule keeps an item out; nothing was changed.
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
        """Return what the rules of the set let in."""
        rules = self.writer.rules(self.ref, None)
        if rules is None:
            return []
        barrier = Barrier(self.writer, self.ref, rules)
        for at, verdict in enumerate(barrier.judge(list(zip(items, records, strict=True)))):
            if verdict.outcome in ("reject", "quarantine"):
                raise Rejected(self.ref.name, rule=verdict.rule, reason=verdict.reason, position=at)
        return [barrier.admission_check]


def owner_text(scope: Scope) -> str:
    """Return whose a set is, as a message names it."""
    return f"knowledge {scope.space!r}" if scope.key is None else f"key {scope.key!r}"
