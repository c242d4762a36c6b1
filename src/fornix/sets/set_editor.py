"""Reading and changing a set: what conversations, messages, windows and layers are built on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from fornix.sets.writer import PlannedWrite, WriteCall, Writer
from fornix.store import (
    Define,
    Definition,
    ItemChange,
    Replace,
    Retire,
    Screened,
    SetRef,
    StoredItem,
)
from fornix.store.items import Item
from fornix.store.records import place_of
from fornix.values.storable import Value

PAGE = 256
"""Items that are read at a time."""

NewId: TypeAlias = Callable[[], str]


@dataclass(frozen=True, slots=True)
class SetEditor:
    """A set as a writer sees it, with what its batch gathered, and changes of that set.

    A change is a plan: a function that reads the set and returns a `PlannedWrite`. `commit` calls
    the plan again when somebody else changed what it had read. In a batch or an action, a plan
    reads what the batch gathered, and its changes are gathered too.

    Attributes:
        item_type: What the set is defined as if the change is the first one; None: any items.
    """

    writer: Writer
    ref: SetRef
    item_type: str | None = None

    def get(self, ids: Sequence[str]) -> list[StoredItem]:
        """Return the live items of *ids*, in that order; ids that are not there are left out."""
        found = self.writer.get(self.ref, ids, at=None) if ids else []
        return [stored for stored in found if stored is not None]

    def one(self, item_id: str) -> StoredItem | None:
        """Return the live item of an id, or None."""
        return self.writer.get(self.ref, [item_id], at=None)[0]

    def items(self, *, newest_first: bool = False) -> Iterator[StoredItem]:
        """Yield the live items in order of time; those of one page are of one moment."""
        after: tuple[int, int] | None = None
        while True:
            page = self.writer.page(
                self.ref, after=after, limit=PAGE, newest_first=newest_first, at=None
            )
            yield from page
            if len(page) < PAGE:
                return
            after = place_of(page[-1])

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
        screened: Sequence[Screened] | None = None,
        retry: bool = True,
    ) -> PlannedWrite:
        """Return changes of this set as what `commit` takes, and what it answers with.

        Args:
            screened: What the rules of admission said of the changes; None: the changes hold
                nothing that the rules have not let in before.
        """
        if screened is None:
            ruled = self.writer.rules(self.ref, None) if changes else None
            screened = [] if ruled is None else [Screened(self.ref, ruled.kept)]
        is_new = bool(changes) and self.writer.info(self.ref) is None
        define = [Define(self.ref, Definition(item_type=self.item_type))] if is_new else []
        return PlannedWrite(changes, result, define, retry=retry, screened=screened)  # pyright: ignore[reportArgumentType] - stored under an idempotency key only

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
        return self.writer.write(WriteCall(name, lambda: [self.ref.name, *arguments]), plan)
