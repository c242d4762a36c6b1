"""What every store asks of a past before it takes it in."""

from __future__ import annotations

from itertools import pairwise

from fornix.errors import DuplicateItem, InvalidInput
from fornix.store.changes import Past, StoredItem

PLACE_BITS = 20
"""A row is (commit number << 20 | place in the commit)."""

GONE = 1
"""The expiry of a node that stands for one that is no longer kept, so that others keep their order.

It is in no read of any time, and no sweep removes it: what follows in its place may be yet to come.
"""


def check_past(past: Past, number: int) -> None:
    """Refuse a past that is not of commit *number*, or contradicts itself.

    Raises:
        InvalidInput: Rows or compactions are of another commit, or not in order.
    """
    rows = [item.row for item in past.begun]
    begun = [*rows, *(done.id for done in past.compactions)]
    if any(row >> PLACE_BITS != number for row in begun):
        raise InvalidInput(f"a past of another commit than {number} cannot be taken in by it")
    if any(after <= before for before, after in pairwise(rows)):
        raise InvalidInput("versions of a past come in the order of their rows, each once")
    if any(item.set != past.set for item in past.begun):
        raise InvalidInput(f"a past of set {past.set.name!r} begins versions of that set alone")


def check_next(item: StoredItem, last: tuple[int, bool] | None) -> None:
    """Refuse a version that cannot follow the *last* of its id: that one's number, if it is live.

    Raises:
        DuplicateItem: It is live.
        InvalidInput: It has that number, or a higher one.
    """
    if last is None:
        return
    version, live = last
    if live:
        raise DuplicateItem(item.record.id, set_name=item.set.name)
    if item.version <= version:
        raise InvalidInput(
            f"version {item.version} of item {item.record.id!r} cannot follow version {version}; "
            "import a history into a store without its sets"
        )
