"""Calls of exact memory as requests carry them."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, TypeAlias, cast

from pydantic import BaseModel, ConfigDict, Field

from alveus.errors import InvalidInput
from alveus.memory.remote.remote_tree import branch_nodes
from alveus.server import json_forms as forms
from alveus.server import requests as asked
from alveus.server.memory_call import CallTarget, Document, MemoryCall
from alveus.server.tokens import Access
from alveus.state import MISSING, MemoryKind, MemoryObject, Overlay, root_of
from alveus.state.memory_object import branch_of

Names: TypeAlias = Annotated[list[str], Field(description="The names from the root down.")]


class _Write(MemoryCall):
    path: Names
    ttl_s: asked.Seconds = None
    expires_at: asked.Moment | None = None

    def lasting(self) -> dict[str, Any]:
        """Return how long what is written lasts, as calls take it."""
        return {"ttl": asked.span(self.ttl_s), "expires_at": self.expires_at}


class _TreeRead(MemoryCall):
    access: ClassVar[Access] = "read"
    path: Names
    as_of: str | None = None

    def tree(self, to: CallTarget) -> MemoryObject:
        """Return the root, as it was then."""
        moment = asked.as_of(self.as_of)
        return to.tree() if moment is None else to.tree().at(moment)

    def place(self, to: CallTarget) -> MemoryObject:
        """Return the object that is read."""
        return self.tree(to).get_object(tuple(self.path))


class ReadValue(_TreeRead):
    """Read a value; of an object only that it is one."""

    call: Literal["exact.get"]

    def answer(self, to: CallTarget) -> Document:
        """See `MemoryCall.answer`."""
        return {"result": found_form(self.tree(to).get(tuple(self.path), MISSING))}


class HasValue(_TreeRead):
    """Tell whether a value or an object is there."""

    call: Literal["exact.is_exist"]

    def answer(self, to: CallTarget) -> Document:
        """See `MemoryCall.answer`."""
        return {"result": self.tree(to).is_exist(tuple(self.path))}


class FieldNames(_TreeRead):
    """List the names of fields in the order in which they were made."""

    call: Literal["exact.get_field_names"]

    def answer(self, to: CallTarget) -> Document:
        """See `MemoryCall.answer`."""
        return {"result": self.place(to).get_field_names()}


class ListNames(_TreeRead):
    """List names of fields in their own order, from one on, so many of them."""

    call: Literal["exact.names"]
    prefix: str = ""
    after: str | None = None
    limit: int | None = Field(None, ge=0)
    newest_first: bool = False

    def answer(self, to: CallTarget) -> Document:
        """See `MemoryCall.answer`."""
        found = self.place(to).names(
            prefix=self.prefix, after=self.after, limit=self.limit, newest_first=self.newest_first
        )
        return {"result": found}


class ReadFields(_TreeRead):
    """Read the fields of an object; of those that are objects, only that they are."""

    call: Literal["exact.get_fields"]

    def answer(self, to: CallTarget) -> Document:
        """See `MemoryCall.answer`."""
        fields = self.place(to).get_fields().items()
        return {"result": [{"name": name, **found_form(found)} for name, found in fields]}


class Subtree(_TreeRead):
    """Read an object and all below it: a node each, objects before their fields."""

    call: Literal["exact.to_dict"]

    def answer(self, to: CallTarget) -> Document:
        """See `MemoryCall.answer`."""
        return {"result": branch_nodes(branch_of(self.place(to)))}


class WriteValue(_Write):
    """Set a value."""

    call: Literal["exact.set"]
    value: Any

    def answer(self, to: CallTarget) -> Document:
        """See `MemoryCall.answer`."""
        to.tree().set(tuple(self.path), asked.stored(self.value), **self.lasting())
        return {"result": None}


class NewObject(_Write):
    """Make an object; one that is there stays."""

    call: Literal["exact.new_object"]
    overwrite: bool = False

    def answer(self, to: CallTarget) -> Document:
        """See `MemoryCall.answer`."""
        to.tree().new_object(tuple(self.path), overwrite=self.overwrite, **self.lasting())
        return {"result": None}


class RemoveValue(MemoryCall):
    """Remove a value, or an object with all below it."""

    call: Literal["exact.delete"]
    path: Names

    def answer(self, to: CallTarget) -> Document:
        """See `MemoryCall.answer`."""
        return {"result": to.tree().delete(tuple(self.path))}


class MoveValue(MemoryCall):
    """Move a value, or an object with all below it."""

    call: Literal["exact.move"]
    path: Names
    new_path: Names

    def answer(self, to: CallTarget) -> Document:
        """See `MemoryCall.answer`."""
        to.tree().move(tuple(self.path), tuple(self.new_path))
        return {"result": None}


class ClearObject(MemoryCall):
    """Remove all below an object, which stays; an empty path is the root."""

    call: Literal["exact.clear"]
    path: Names

    def answer(self, to: CallTarget) -> Document:
        """See `MemoryCall.answer`."""
        to.tree().get_object(tuple(self.path)).clear()
        return {"result": None}


class AppendValue(_Write):
    """Add to the end of a list; begin one if nothing is there."""

    call: Literal["exact.append"]
    value: Any

    def answer(self, to: CallTarget) -> Document:
        """See `MemoryCall.answer`."""
        to.tree().append(tuple(self.path), asked.stored(self.value), **self.lasting())
        return {"result": None}


class IncrementValue(_Write):
    """Add to a number; 0 if nothing is there."""

    call: Literal["exact.increment"]
    by: Any = 1

    def answer(self, to: CallTarget) -> Document:
        """See `MemoryCall.answer`."""
        by = asked.stored(self.by)
        total = to.tree().increment(tuple(self.path), by, **self.lasting())
        return {"result": forms.wired(total)}


class ReplaceValue(_Write):
    """Set a value if what is there is `expected`; without that: if nothing is there."""

    call: Literal["exact.update"]
    value: Any
    expected: Any = None

    def answer(self, to: CallTarget) -> Document:
        """See `MemoryCall.answer`."""
        given = "expected" in self.model_fields_set
        expected = asked.stored(self.expected) if given else MISSING
        value = asked.stored(self.value)
        to.tree().update(tuple(self.path), value, expected=expected, **self.lasting())
        return {"result": None}


class NewNode(BaseModel):
    """A value, or, without one, an object, of a tree that is copied."""

    model_config = ConfigDict(extra="forbid", strict=True)
    path: Names
    value: Any = None


class CopyObject(_Write):
    """Copy an object of this memory, or one that is sent, with all below it."""

    call: Literal["exact.copy"]
    source: Annotated[list[str] | None, Field(description="The object, by its path.")] = None
    nodes: Annotated[list[NewNode] | None, Field(description="As `exact.to_dict` tells.")] = None

    def answer(self, to: CallTarget) -> Document:
        """See `MemoryCall.answer`."""
        if (self.source is None) == (self.nodes is None):
            raise InvalidInput("name a source, or send nodes; not both")
        tree, path = to.tree(), tuple(self.path)
        found = tree.get_object(tuple(self.source)) if self.source is not None else self._sent()
        tree.set(path, found, **self.lasting())
        return {"result": None}

    def _sent(self) -> MemoryObject:
        """Return what was sent, as an exact memory of its own."""
        made = root_of(Overlay.over(None, kind=MemoryKind.SENSORY, now=0))
        for node in self.nodes or ():
            if "value" in node.model_fields_set:
                made.set(tuple(node.path), asked.stored(node.value))
            else:
                made.new_object(tuple(node.path))
        return made


def found_form(found: object) -> Document:
    """Return what was found in exact memory, as JSON: a value, an object, or nothing."""
    if found is MISSING:
        return {"found": "nothing"}
    if isinstance(found, MemoryObject):
        return {"found": "object"}
    return {"found": "value", "value": forms.wired(cast("Any", found))}


CALLS = (
    ReadValue,
    HasValue,
    FieldNames,
    ListNames,
    ReadFields,
    Subtree,
    WriteValue,
    NewObject,
    RemoveValue,
    MoveValue,
    ClearObject,
    AppendValue,
    IncrementValue,
    ReplaceValue,
    CopyObject,
)
