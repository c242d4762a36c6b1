"""Calls about what was compacted, held back or changed, as requests carry them."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from alveus.errors import InvalidInput
from alveus.memory.keys import KeyMemory
from alveus.memory.maintenance import difference
from alveus.server import json_forms as forms
from alveus.server import requests as asked
from alveus.server.memory_call import CallTarget, Document, MemoryCall
from alveus.server.set_calls import SetCall, SetRead
from alveus.server.tokens import Access
from alveus.sets.admission import Quarantine
from alveus.store import Scope


class ListCompactions(SetRead):
    """List what compacted a set, the latest first."""

    call: Literal["compactions"]
    before: int | None = None
    limit: int = 100

    def answer(self, to: CallTarget) -> Document:
        """See `MemoryCall.answer`."""
        found = self.set.open(to).compactions(before=self.before, limit=self.limit)
        return {"compactions": [*map(forms.compaction_fields, found)]}


class UndoCompaction(SetCall):
    """Bring back what a compaction retired, and remove what it added."""

    call: Literal["undo"]
    compaction: int

    def answer(self, to: CallTarget) -> Document:
        """See `MemoryCall.answer`."""
        done = self.set.open(to).undo(self.compaction, idempotency_key=to.once)
        return forms.attributes(done, "restored missing removed erased")


class ReadSources(SetRead):
    """Read the items that an item was derived from, as they were then."""

    call: Literal["sources"]
    id: str

    @property
    def shows_knowledge(self) -> bool:
        """See `MemoryCall.shows_knowledge`."""
        return True

    def answer(self, to: CallTarget) -> Document:
        """See `MemoryCall.answer`."""
        found = self.set.open(to).inside.sources(self.id, may_see=to.may_see)
        return {"items": [*map(forms.item_fields, found)]}


class ReadLineage(SetRead):
    """Read all that an item was derived from, to any depth: nodes, and pairs of places in them."""

    call: Literal["lineage"]
    id: str

    def answer(self, to: CallTarget) -> Document:
        """See `MemoryCall.answer`."""
        found = self.set.open(to).inside.lineage(self.id, may_see=to.may_see)
        return forms.lineage_fields(found)


class PlaceItems(SetRead):
    """Tell where items are that mean nearly the same: columns of one length."""

    call: Literal["points"]
    sets: Annotated[
        Literal["all"] | list[str] | None,
        Field(description='Several sets, or "all" of them, in place of `set`.'),
    ] = None
    where: Any = None
    limit: int | None = None

    def answer(self, to: CallTarget) -> Document:
        """See `MemoryCall.answer`."""
        how: Any = {"where": asked.stored(self.where), "limit": self.limit}
        if self.sets is None:
            points = self.set.open(to).points(**how)
        else:
            names = None if self.sets == "all" else self.sets
            points = to.sets(knowledge=self.set.knowledge).points(sets=names, **how)
        return {
            "x": points.x.tolist(),
            "y": points.y.tolist(),
            "times": points.times.astype("datetime64[us]").astype("int64").tolist(),
            **{name: [*getattr(points, name)] for name in ("ids", "sets", "speakers")},
            **forms.attributes(points, "share unplaced left_out"),
        }


# --- quarantine -------------------------------------------------------------------------------


class QuarantineCall(MemoryCall):
    """A call of what rules of admission keep out of sets."""

    name: Annotated[str | None, Field(description="The set; left out: all of them.")] = None
    knowledge: bool = False

    @property
    def in_knowledge(self) -> bool:
        """See `MemoryCall.in_knowledge`."""
        return self.knowledge

    def opened(self, to: CallTarget) -> Quarantine:
        """Return the quarantine."""
        owner = to.sets(knowledge=self.knowledge)
        return owner.quarantine if self.name is None else owner.set(self.name).quarantine


class ListHeld(QuarantineCall):
    """List what is held, by set and time."""

    access: ClassVar[Access] = "read"
    call: Literal["quarantine.list"]
    limit: int | None = None

    def answer(self, to: CallTarget) -> Document:
        """See `MemoryCall.answer`."""
        held = self.opened(to)
        shown = [*map(forms.held_fields, held.list(limit=self.limit))]
        return {"held": shown, "all": len(held)}


class ReadHeld(QuarantineCall):
    """Read what is held under an id; null: nothing is."""

    access: ClassVar[Access] = "read"
    call: Literal["quarantine.get"]
    id: str

    def answer(self, to: CallTarget) -> Document:
        """See `MemoryCall.answer`."""
        found = self.opened(to).get(self.id)
        return {"held": None if found is None else forms.held_fields(found)}


class ReleaseHeld(QuarantineCall):
    """Move what is held into its set."""

    call: Literal["quarantine.release"]
    id: str
    by: str | None = None

    def answer(self, to: CallTarget) -> Document:
        """See `MemoryCall.answer`."""
        return {"id": self.opened(to).release(self.id, by=self.by, idempotency_key=to.once)}


class DiscardHeld(QuarantineCall):
    """Retire what is held."""

    call: Literal["quarantine.discard"]
    id: str

    def answer(self, to: CallTarget) -> Document:
        """See `MemoryCall.answer`."""
        self.opened(to).discard(self.id, idempotency_key=to.once)
        return {}


# --- history ----------------------------------------------------------------------------------


class CompareMoments(MemoryCall):
    """Tell what changed in the memory of a key between two moments."""

    access: ClassVar[Access] = "read"
    call: Literal["diff"]
    since: str
    until: Annotated[str | None, Field(description="Left out: now.")] = None
    sets: Annotated[list[str] | None, Field(description="Left out: all.")] = None
    tree: Annotated[bool, Field(description="Whether exact memory is looked at.")] = True

    def answer(self, to: CallTarget) -> Document:
        """See `MemoryCall.answer`."""
        if not isinstance(to.owner, KeyMemory):
            raise InvalidInput("moments are compared of a key, outside of batches; name it: ?key=")
        engine, since = to.owner.engine, asked.as_of(self.since)
        assert since is not None  # noqa: S101 - a text is a moment, or no text of one
        found = difference(
            engine.store,
            Scope(to.owner.space, to.owner.key),
            since,
            asked.as_of(self.until),
            sets=self.sets,
            tree=self.tree,
            now=engine.clock(),
        )
        return forms.difference_fields(found)


AnyUpkeepCall = (
    ListCompactions
    | UndoCompaction
    | ReadSources
    | ReadLineage
    | PlaceItems
    | ListHeld
    | ReadHeld
    | ReleaseHeld
    | DiscardHeld
    | CompareMoments
)
