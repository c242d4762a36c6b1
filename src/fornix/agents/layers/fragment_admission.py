"""What the rules of sets say of fragments: those that a layer's set, or its memory, was given."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from types import TracebackType

from fornix.sets.admission.barrier import Barrier
from fornix.sets.admission.quarantine import QuarantineDraft
from fornix.sets.admission.verdicts import Outcome
from fornix.sets.writer import Writer
from fornix.store import Add, Define, ItemChange, Replace, Screened, SetRef
from fornix.store.items import Item

NEVER: Sequence[Outcome] = ("reject", "quarantine")
"""What a set says of an item whatever else it holds."""

ANY: Sequence[Outcome] = (*NEVER, "merge")


class FragmentGate:
    """Checks what one move adds to sets with rules, and holds what is to be decided about."""

    def __init__(self, writer: Writer, new_id: Callable[[], str]) -> None:
        self._writer, self._new_id = writer, new_id
        self._barriers: dict[SetRef, Barrier | None] = {}
        self._held: dict[SetRef, QuarantineDraft] = {}

    def refusal(
        self, ref: SetRef, item_id: str, item: Callable[[], Item], refused: Sequence[Outcome]
    ) -> str | None:
        """Return why a set does not take an item; None: it does, or has no rules."""
        barrier = self._barrier(ref)
        if barrier is None:
            return None
        made = item()
        record = self._writer.records([(item_id, made)])[0]
        verdict = barrier.judge([(made, record)])[0]
        if verdict.outcome == "accept":
            return None
        if not self._writer.still(ref, barrier.ruled):
            del self._barriers[ref]
            return self.refusal(ref, item_id, item, refused)
        if verdict.outcome not in refused:
            return None
        if verdict.outcome == "quarantine":
            held = self._held.setdefault(ref, QuarantineDraft(self._writer, ref, self._new_id))
            held.take(record, verdict)
        said = verdict.reason or "it is there already"
        return f"{verdict.outcome} by rule {verdict.rule!r} of set {ref.name!r}: {said}"

    def _barrier(self, ref: SetRef) -> Barrier | None:
        if ref not in self._barriers:
            ruled = self._writer.rules(ref, None)
            self._barriers[ref] = None if ruled is None else Barrier(self._writer, ref, ruled)
        return self._barriers[ref]

    def holding(self) -> tuple[list[ItemChange], list[Define]]:
        """Return what puts into quarantine what is held."""
        every = self._held.values()
        return [c for held in every for c in held.changes], [d for h in every for d in h.define]

    def screened(self, changes: Iterable[ItemChange]) -> list[Screened]:
        """Return what the changes of the move were checked by."""
        grown = dict.fromkeys(c.set for c in changes if isinstance(c, (Add, Replace)))
        barriers = [barrier for ref in grown if (barrier := self._barrier(ref)) is not None]
        own = [barrier.screened for barrier in barriers]
        return own + [screened for held in self._held.values() for screened in held.screened]


class Turns:
    """A lock to be awaited that is fair, and is of no event loop.

    `asyncio.Lock` serves one loop; layers are written to from several, and from threads.
    """

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._held = False
        self._waiting: deque[Future[None]] = deque()

    async def __aenter__(self) -> None:
        with self._mutex:
            if not self._held:
                self._held = True
                return
            mine: Future[None] = Future()
            self._waiting.append(mine)
        try:
            await asyncio.wrap_future(mine)
        except asyncio.CancelledError:
            if not mine.cancelled() and not mine.cancel():
                self._next()  # it was this one's turn already
            raise

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._next()

    def _next(self) -> None:
        with self._mutex:
            while self._waiting:
                if (first := self._waiting.popleft()).set_running_or_notify_cancel():
                    first.set_result(None)
                    return
            self._held = False
