"""The calls on exact memory that requests carry."""

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
        """Return the lifetime arguments of a write, as calls accept them."""
        return {"ttl": asked.span(self.ttl_s), "expires_at": self.expires_at}


class _TreeRead(MemoryCall):
    access: ClassVar[Access] = "read"
    path: Names
    as_of: str | None = None

    def tree(self, to: CallTarget) -> MemoryObject:
        """Return the root of the tree, as of the requested moment."""
        moment = asked.as_of(self.as_of)
        return to.tree() if moment is None else to.tree().at(moment)

    def place(self, to: CallTarget) -> MemoryObject:
        """Return the object to read."""
        return self.tree(to).get_object(tuple(self.path))


class ReadValue(_TreeRead):
    """Read a value; for an object, only its kind."""

    call: Literal["exact.get"]

    def answer(self, to: CallTarget) -> Document:
        """See `MemoryCall.answer`."""
        return {"result": found_form(self.tree(to).get(tuple(self.path), MISSING))}


class HasValue(_TreeRead):
    """Return whether a value or an object exists."""

    call: Literal["exact.is_exist"]

    def answer(self, to: CallTarget) -> Document:
        """See `MemoryCall.answer`."""
        return {"result": self.tree(to).is_exist(tuple(self.path))}


class FieldNames(_TreeRead):
    """List the names of fields in the order of creation."""

    call: Literal["exact.get_field_names"]

    def answer(self, to: CallTarget) -> Document:
        """See `MemoryCall.answer`."""
        return {"result": self.place(to).get_field_names()}


class ListNames(_TreeRead):
    """List up to a number of field names in sorted order, from a given name on."""

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
    """Read the fields of an object; for nested objects, only their kind."""

    call: Literal["exact.get_fields"]

    def answer(self, to: CallTarget) -> Document:
        """See `MemoryCall.answer`."""
        fields = self.place(to).get_fields().items()
        return {"result": [{"name": name, **found_form(found)} for name, found in fields]}


class Subtree(_TreeRead):
    """Read an object and everything below it as nodes, objects before their fields."""

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
    """Create an object; an existing one stays."""

    call: Literal["exact.new_object"]
    overwrite: bool = False

    def answer(self, to: CallTarget) -> Document:
        """See `MemoryCall.answer`."""
        to.tree().new_object(tuple(self.path), overwrite=self.overwrite, **self.lasting())
        return {"result": None}


class RemoveValue(MemoryCall):
    """Delete a value, or an object with everything below it."""

    call: Literal["exact.delete"]
    path: Names

    def answer(self, to: CallTarget) -> Document:
        """See `MemoryCall.answer`."""
        return {"result": to.tree().delete(tuple(self.path))}


class MoveValue(MemoryCall):
    """Move a value, or an object with everything below it."""

    call: Literal["exact.move"]
    path: Names
    new_path: Names

    def answer(self, to: CallTarget) -> Document:
        """See `MemoryCall.answer`."""
        to.tree().move(tuple(self.path), tuple(self.new_path))
        return {"result": None}


class ClearObject(MemoryCall):
    """Delete everything below an object, which stays; an empty path is the root."""

    call: Literal["exact.clear"]
    path: Names

    def answer(self, to: CallTarget) -> Document:
        """See `MemoryCall.answer`."""
        to.tree().get_object(tuple(self.path)).clear()
        return {"result": None}


class AppendValue(_Write):
    """Append to a list; create the list if it does not exist."""

    call: Literal["exact.append"]
    value: Any

    def answer(self, to: CallTarget) -> Document:
        """See `MemoryCall.answer`."""
        to.tree().append(tuple(self.path), asked.stored(self.value), **self.lasting())
        return {"result": None}


class IncrementValue(_Write):
    """Add to a number; a missing one counts as 0."""

    call: Literal["exact.increment"]
    by: Any = 1

    def answer(self, to: CallTarget) -> Document:
        """See `MemoryCall.answer`."""
        by = asked.stored(self.by)
        total = to.tree().increment(tuple(self.path), by, **self.lasting())
        return {"result": forms.wired(total)}


class ReplaceValue(_Write):
    """Set a value if the current one is `expected`; without `expected`, if none exists."""

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
    """A node of a copied tree: a value, or an object without one."""

    model_config = ConfigDict(extra="forbid", strict=True)
    path: Names
    value: Any = None


class CopyObject(_Write):
    """Copy an object of this memory, or one in the request, with everything below it."""

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
        """Return the nodes of the request as a separate exact memory."""
        made = root_of(Overlay.over(None, kind=MemoryKind.SENSORY, now=0))
        for node in self.nodes or ():
            if "value" in node.model_fields_set:
                made.set(tuple(node.path), asked.stored(node.value))
            else:
                made.new_object(tuple(node.path))
        return made


def found_form(found: object) -> Document:
    """Return a result from exact memory as JSON: a value, an object, or nothing."""
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
