"""What a strategy decides: which items go, and what stands for which of them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import field
from typing import Any, Protocol, TypeAlias, cast, runtime_checkable

from alveus.errors import InvalidPlan
from alveus.store.items import Item, text_of
from alveus.values.lazy_dataclass import dataclass


@dataclass(frozen=True)
class Derived:
    """An item that is to stand for others.

    Its time is the span of theirs, its importance the highest of them unless one is given, and it
    has their role, session and speaker where all agree.

    Attributes:
        sources: Ids of the items it stands for; they are retired.
        value: Any storable value.
        text: What search reads of it; as of an `Item`.
    """

    sources: Sequence[str]
    value: Any  # a storable value, as that of an Item
    text: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])
    importance: float | None = None


@dataclass(frozen=True)
class CompactionPlan:
    """What becomes of the items of a set; those it does not name stay.

    Attributes:
        retire: Ids of items that go without anything in their place.
        add: What stands for others.
    """

    retire: Sequence[str] = ()
    add: Sequence[Derived] = ()

    @property
    def retired_ids(self) -> list[str]:
        """Ids of all items that it retires."""
        return [*self.retire, *(item_id for derived in self.add for item_id in derived.sources)]


_Invalid: TypeAlias = Callable[[str], InvalidPlan]
"""Makes the error of a plan from what is wrong with it."""


@runtime_checkable
class Strategy(Protocol):
    """Decides what becomes of the items of a set that is to be smaller; write your own."""

    def plan(self, items: Sequence[Item], capacity: int | None) -> CompactionPlan:
        """Return what is to be done.

        It is checked before anything happens, and carried out in one commit, or not at all. It is
        asked again, of what is left, until there is room. It may also be asked again, of other
        items, where somebody changed one of them meanwhile.

        Args:
            items: All of the set, oldest first.
            capacity: The most items that the set may have left, so that what is to be added has
                room; None: there is no such limit.
        """
        ...


def checked_plan(
    plan: object, *, strategy: str, set_name: str, item_ids: Collection[str]
) -> CompactionPlan:
    """Return *plan*, if it can be carried out.

    Args:
        strategy: What errors call whoever made it.
        item_ids: Ids of the items of the set.

    Raises:
        InvalidPlan: It cannot; the message says which part of it.
    """

    def invalid(problem: str) -> InvalidPlan:
        return InvalidPlan(set_name, problem, strategy=strategy)

    if not isinstance(plan, CompactionPlan):
        raise invalid(f"must be a CompactionPlan, not a {type(plan).__name__}")
    retire = _ids(plan.retire, "retire", invalid)
    if not isinstance(plan.add, (list, tuple)):
        raise invalid("must have a list of Derived as its add")
    add = [
        _checked_derived(made, f"add[{at}]", invalid)
        for at, made in enumerate(cast("Sequence[object]", plan.add))
    ]
    checked = CompactionPlan(tuple(retire), tuple(add))
    seen = set[str]()
    for item_id in checked.retired_ids:
        if item_id not in item_ids:
            raise invalid(f"names {item_id!r}, which is no item of it")
        if item_id in seen:
            raise invalid(f"names {item_id!r} twice")
        seen.add(item_id)
    return checked


def _ids(ids: object, where: str, invalid: _Invalid) -> list[str]:
    if not isinstance(ids, (list, tuple)):
        raise invalid(f"must have a list of ids as its {where}")
    listed = cast("Sequence[object]", ids)
    for item_id in listed:
        if not isinstance(item_id, str):
            raise invalid(f"has a {type(item_id).__name__} among the ids of {where}")
    return cast("list[str]", list(listed))


def _checked_derived(derived: object, where: str, invalid: _Invalid) -> Derived:
    if not isinstance(derived, Derived):
        raise invalid(f"has a {type(derived).__name__} as {where}, not a Derived")
    sources = _ids(derived.sources, f"{where}.sources", invalid)
    if not sources:
        raise invalid(f"has no sources in {where}; name the items it stands for")
    text = text_of(derived.value) if derived.text is None else derived.text
    if not isinstance(text, str) or not text.strip():  # pyright: ignore[reportUnnecessaryIsInstance] - user input
        raise invalid(f"has an empty text in {where}; give what stands for the items")
    return Derived(
        tuple(sources), derived.value, derived.text, derived.metadata, derived.importance
    )
