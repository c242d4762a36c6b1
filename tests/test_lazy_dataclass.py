"""Dataclasses whose methods are compiled when they are looked up: the same as Python's own."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import typing
from collections.abc import Callable
from dataclasses import KW_ONLY, FrozenInstanceError, field
from typing import Any

import pytest

from fornix.values.lazy_dataclass import CompiledMethod, dataclass


def plain() -> type:
    class Plain:
        a: int
        b: str = "x"
        c: list[int] = field(default_factory=list[int], compare=False)

    return Plain


def by_name() -> type:
    class ByName:
        """Has a docstring."""

        a: int
        _: KW_ONLY
        hidden: int = field(default=1, repr=False)
        b: str

    return ByName


def checked() -> type:
    class Checked:
        a: int
        b: int = 2
        total: int = field(init=False, default=0)

        def __post_init__(self) -> None:
            if self.a < 0:
                raise ValueError(self.a)

        def __repr__(self) -> str:
            return "its own"

    return Checked


def equal_by_itself() -> type:
    class EqualByItself:  # noqa: PLW1641 - that is the case
        a: int

        def __eq__(self, other: object) -> bool:
            return True

    return EqualByItself


def derived() -> type:
    class Base:
        kind: typing.ClassVar[str] = "base"

    class Derived(Base):
        a: int = 3
        b: str = ""

    return Derived


SHAPES = [plain, by_name, checked, equal_by_itself, derived]
OPTIONS = [
    {},
    {"slots": True},
    {"frozen": True},
    {"frozen": True, "slots": True},
    {"frozen": True, "slots": True, "kw_only": True},
    {"slots": True, "eq": False},
]


def outcome(act: Callable[[], object]) -> object:
    """Return what *act* gives, or the class and text of its error."""
    try:
        return act()
    except Exception as error:  # noqa: BLE001 - compared with that of the other class
        return type(error), str(error)


def doings(made: Any) -> dict[str, object]:
    one: Any = outcome(lambda: made(1, b="y"))
    if isinstance(one, tuple):
        one = outcome(lambda: made(a=1, b="y"))
    if isinstance(one, tuple):
        one = made(a=1)
    other = copy.copy(one)
    seen: dict[str, object] = {
        "signature": str(inspect.signature(made)),
        "repr": repr(one),
        "equal": (one == other, one != other, one == 1),
        "hash": outcome(lambda: hash(one)),
        "set": outcome(lambda: setattr(one, "a", 5)),
        "set unknown": outcome(lambda: setattr(one, "other", 5)) is None,
        "delete": outcome(lambda: delattr(one, "a")),
        "fields": [(f.name, f.type, f.kw_only) for f in dataclasses.fields(made)],
        "options": repr(made.__dataclass_params__),
        "match": made.__match_args__,
        "slots": getattr(made, "__slots__", None),
        "init": (made.__init__.__qualname__, typing.get_type_hints(made.__init__)),
        "missing": outcome(lambda: repr(made())),
        "unknown": outcome(lambda: made(1, nobody=2)),
        "replaced": outcome(lambda: repr(dataclasses.replace(other, a=7))),
        "bad": outcome(lambda: repr(made(a=-1))),
    }
    if made.__eq__ is object.__eq__:
        seen["equal"] = None
        del seen["hash"]
    return seen


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("shape", SHAPES)
def test_a_class_is_as_python_would_make_it(shape: Callable[[], type], options: Any) -> None:
    """Whatever is asked of a class or an object, the answer is that of Python's own dataclass."""
    ours, pythons = dataclass(**options)(shape()), dataclasses.dataclass(**options)(shape())
    assert doings(ours) == doings(pythons)


def test_methods_are_compiled_when_they_are_looked_up() -> None:
    """A class that nobody makes an object of costs no compilation."""
    made = dataclass(frozen=True, slots=True)(plain())
    waiting = {name for name, of in vars(made).items() if isinstance(of, CompiledMethod)}
    assert waiting == {"__init__", "__eq__", "__hash__"}
    assert made(1) == made(1)
    waiting = {name for name, of in vars(made).items() if isinstance(of, CompiledMethod)}
    assert waiting == {"__hash__"}
    assert made.__init__ is made.__init__


@dataclass(frozen=True, slots=True)
class Kept:
    a: int
    b: tuple[int, ...] = ()


def test_objects_can_be_copied() -> None:
    """A frozen object with slots comes back equal from `copy`, which asks it for its state."""
    one = Kept(1, (2, 3))
    assert copy.copy(one) == copy.deepcopy(one) == one


def test_a_subclass_may_add_attributes_of_its_own() -> None:
    """A subclass that is no dataclass is frozen in its fields only; one that is, altogether."""

    class Named(Kept):
        pass

    named: Any = Named(1)
    named.name = "x"
    del named.name
    with pytest.raises(FrozenInstanceError):
        named.a = 2
    with pytest.raises(FrozenInstanceError):
        del named.a

    @dataclasses.dataclass(frozen=True)
    class More(Kept):
        c: int = 5

    assert repr(More(1)).endswith("More(a=1, b=(), c=5)")


def test_a_dataclass_may_inherit_from_one_that_is_frozen_alike() -> None:
    """Fields come in order of the classes; a frozen one and another do not go together."""

    @dataclass(frozen=True, slots=True)
    class More(Kept):
        c: int = 5

    assert repr(More(1, c=2)).endswith("More(a=1, b=(), c=2)")
    assert More(1) == More(1, (), 5)
    with pytest.raises(FrozenInstanceError):
        More(1).c = 3  # pyright: ignore[reportAttributeAccessIssue] - that is the test
    with pytest.raises(TypeError, match="frozen"):
        dataclass(slots=True)(type("Open", (Kept,), {"__annotations__": {}}))
    with pytest.raises(TypeError, match="frozen"):
        dataclass(frozen=True)(type("Shut", (dataclass(plain()),), {"__annotations__": {}}))


def test_an_object_that_holds_itself_has_a_repr() -> None:
    """`repr` ends where an object is met again."""
    made = dataclass(slots=True)(plain())
    one = made(1)
    one.c.append(one)
    assert "..." in repr(one)
