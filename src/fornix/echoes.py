"""What searches gave lately: texts that an agent has before it, and might store again as new."""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Sequence

from fornix.items import Hits, Item
from fornix.store import Scope, SetRef

SEARCHES = 32
"""Searches of a scope that are remembered."""

SCOPES = 1_024
"""Scopes of which searches are remembered: those that were searched last."""


class Echoes:
    """The hits of the last searches of each scope, in this process; shared by threads."""

    def __init__(self) -> None:
        self._hits: OrderedDict[Scope, deque[Hits]] = OrderedDict()
        self._mutex = threading.Lock()

    def note(self, sets: Sequence[SetRef] | Scope, hits: Hits) -> None:
        """Remember what a search of sets of one scope gave."""
        if not hits:
            return
        scope = sets if isinstance(sets, Scope) else sets[0].scope
        with self._mutex:
            self._hits.setdefault(scope, deque(maxlen=SEARCHES)).append(hits)
            self._hits.move_to_end(scope)
            if len(self._hits) > SCOPES:
                self._hits.popitem(last=False)

    def of(self, scope: Scope) -> list[tuple[Scope, Item]]:
        """Return what was found for *scope*, or in knowledge, each item once, the latest first."""
        with self._mutex:
            found = [
                (owner, hit.item)
                for owner, searches in self._hits.items()
                if owner == scope or owner.key is None
                for hits in reversed(searches)
                for hit in hits
            ]
        once: dict[tuple[Scope, str | None, str | None], tuple[Scope, Item]] = {}
        for owner, item in found:
            once.setdefault((owner, item.set_name, item.id), (owner, item))
        return list(once.values())

    def clear(self) -> None:
        """Forget all of it."""
        with self._mutex:
            self._hits.clear()
