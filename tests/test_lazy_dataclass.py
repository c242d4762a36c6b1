"""Dataclasses whose methods are compiled when they are looked up: the same as Python's own."""

from __future__ import annotations

import abc
import copy
import dataclasses
import gc
import inspect
import itertools
import sys
import typing
import weakref
from collections.abc import Callable
from dataclasses import KW_ONLY, FrozenInstanceError, field
from typing import Any, cast

import pytest

from alveus.store import Scope, SetRef
from alveus.values import lazy_dataclass
from alveus.values.lazy_dataclass import CompiledMethod, columns_of, dataclass


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


@pytest.fixture(params=["compiled", "by Python"])
def made_by(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Who makes objects with slots."""
    if request.param == "compiled":
        assert lazy_dataclass.RECORDS is not None, "compile it: make .venv/.dev"
    else:
        monkeypatch.setattr(lazy_dataclass, "RECORDS", None)
    return request.param


@pytest.mark.usefixtures("made_by")
@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("shape", SHAPES)
def test_a_class_is_as_python_would_make_it(shape: Callable[[], type], options: Any) -> None:
    """Whatever is asked of a class or an object, the answer is that of Python's own dataclass."""
    ours, pythons = dataclass(**options)(shape()), dataclasses.dataclass(**options)(shape())
    assert doings(ours) == doings(pythons)


def test_methods_are_compiled_when_they_are_looked_up(made_by: str) -> None:
    """A class that nobody makes an object of costs no compilation."""
    made = dataclass(frozen=True, slots=True)(plain())
    waiting = {name for name, of in vars(made).items() if isinstance(of, CompiledMethod)}
    assert waiting == {"__init__", "__eq__", "__hash__"}
    assert made(1) == made(1)
    waiting = {name for name, of in vars(made).items() if isinstance(of, CompiledMethod)}
    assert waiting == ({"__init__", "__hash__"} if made_by == "compiled" else {"__hash__"})
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


# --- objects that are made by compiled code ---------------------------------------------------


def is_learnt(made: type) -> bool:
    return getattr(made, "_made_by", None) is not None


def test_every_way_to_pass_values_gives_the_same(made_by: str) -> None:
    """By place, by name in any order, and by default; a default that is made is made each time."""
    made: Any = dataclass(slots=True)(plain())
    assert is_learnt(made) == (made_by == "compiled")
    names = ["a", "b", "c"]
    given = {"a": 1, "b": "y", "c": [3]}
    for count in range(4):
        for order in itertools.permutations(names[count:]):
            one = made(*[given[name] for name in names[:count]], **{n: given[n] for n in order})
            assert (one.a, one.b, one.c) == (1, "y", [3])
    assert made(1).b == "x"
    assert made(1).c == []
    assert made(1).c is not made(1).c
    other = "".join(list("count"))  # equal to the name of the field, and another object
    assert dataclass(slots=True)(Counted)(**{other: 7}).count == 7  # pyright: ignore[reportCallIssue] - it has that field


class Counted:
    count: int


@pytest.mark.usefixtures("made_by")
def test_what_fails_leaves_nothing_behind() -> None:
    """A default that cannot be made, or a check that refuses, is raised; all is let go."""

    class Failing(Exception):
        pass

    def fail() -> int:
        raise Failing

    class Made:
        a: object
        b: int = field(default_factory=fail)

    class Refused:
        a: object

        def __post_init__(self) -> None:
            raise Failing

    value = Failing()
    before = sys.getrefcount(value)
    for shape in (Made, Refused):
        made = dataclass(slots=True)(shape)
        for _ in range(10):
            with pytest.raises(Failing):
                made(value)  # pyright: ignore[reportCallIssue] - it has such a field
    for _ in range(10):
        Kept(value, ())  # pyright: ignore[reportArgumentType] - any value
        with pytest.raises(TypeError):
            Kept(value, (), value)  # pyright: ignore[reportArgumentType, reportCallIssue] - that is the test
    assert sys.getrefcount(value) == before


def test_what_else_there_is_to_do_is_for_python() -> None:
    """More than 32 fields, one that no argument fills, and a base without slots."""
    many = {f"f{i}": int for i in range(33)}
    wide: Any = dataclass(slots=True)(type("Wide", (), {"__annotations__": many}))
    assert not is_learnt(wide)
    assert wide(*range(33)).f32 == 32

    @dataclass(frozen=True)
    class Open:
        a: int = 1

    @dataclass(frozen=True, slots=True)
    class Below(Open):
        b: int = 2

    assert not is_learnt(Below)
    assert (Below(5).a, Below(5).b) == (5, 2)
    assert not is_learnt(dataclass(slots=True)(checked()))


@pytest.mark.usefixtures("made_by")
def test_objects_without_fields_are_made() -> None:
    """They are equal, and not one object."""

    @dataclass(frozen=True, slots=True)
    class Nothing:
        pass

    one, other = Nothing(), Nothing()
    assert one == other
    assert one is not other
    with pytest.raises(TypeError, match="argument"):
        Nothing(1)  # pyright: ignore[reportCallIssue] - that is the test


def test_objects_that_are_told_of_their_end_are_made_by_python() -> None:
    """None is made to find out where the slots are."""
    ended: list[object] = []

    class Ending:
        a: int

        def __del__(self) -> None:
            ended.append(self.a)

    made: Any = dataclass(slots=True)(Ending)
    assert not is_learnt(made)
    made(1)
    gc.collect()
    assert ended == [1]


def test_what_many_objects_have_is_read_at_once() -> None:
    """A list per field that is open; nothing where one of them has something else in another."""
    assert lazy_dataclass.RECORDS is not None, "compile it: make .venv/.dev"

    class Three:
        a: Any
        b: Any = None
        c: Any = field(default_factory=list)

    made: Any = dataclass(frozen=True, slots=True)(Three)
    like, many = made(..., c=...), [made(n, c=[n]) for n in range(3)]
    assert columns_of(many, like) == ([0, 1, 2], [[0], [1], [2]])
    assert columns_of([], like) == ([], [])
    assert columns_of(many, made(..., ..., ...)) == ([0, 1, 2], [None] * 3, [[0], [1], [2]])
    assert columns_of([made(1)] * 2, made(1, c=...)) == ([[], []],)
    for other in (made(1, 0), made(1, b=[]), object(), None, type("Four", (made,), {})(1)):
        assert columns_of([*many, other], like) is None
    empty = object.__new__(made)
    assert columns_of([empty], like) is None
    assert columns_of(many, empty) is None
    assert columns_of([Ellipsis], ...) is None
    with pytest.raises(TypeError):
        columns_of(cast("Any", tuple(many)), like)


def test_a_class_may_be_called_as_it_goes() -> None:
    """What it knows may go before it, where both are garbage; Python makes the object then."""
    made: Any = dataclass(slots=True)(plain())
    del made._made_by
    assert (made(1).a, made(1, b="y").b) == (1, "y")

    class Hasty:
        a: list[None] = field(default_factory=lambda: [delattr(hasty, "_made_by")])
        b: int = 2

    hasty: Any = dataclass(slots=True)(Hasty)
    assert (hasty().a, hasty.__dict__.get("_made_by")) == ([None], None)


def test_a_class_is_let_go_with_all_that_it_knows() -> None:
    """A class that a function makes does not stay for good."""
    made: Any = dataclass(slots=True)(plain())
    made(1)
    gone = weakref.ref(made)
    del made
    gc.collect()
    assert gone() is None


def test_a_subclass_makes_its_own_objects() -> None:
    """Whether it is a dataclass or not, and with an `__init__` of its own or without."""

    class Loud(Kept):
        def __init__(self, a: int) -> None:
            super().__init__(a, (a,))

    class Plain(Kept):
        pass

    class Abstract(Kept, abc.ABC):
        @abc.abstractmethod
        def said(self) -> str: ...

    class Concrete(Abstract):
        def said(self) -> str:
            return f"{self.a}"

    with pytest.raises(TypeError, match="abstract"):
        Abstract(3)  # pyright: ignore[reportAbstractUsage] - that is the test
    assert Concrete(3).said() == "3"
    assert (Loud(3).a, Loud(3).b) == (3, (3,))
    assert (Plain(3).a, Plain(3).b) == (3, ())
    assert not is_learnt(Plain) or Plain._made_by is Kept._made_by  # pyright: ignore[reportAttributeAccessIssue] - it was learnt


def test_the_garbage_collector_looks_only_at_what_leads_somewhere() -> None:
    """A frozen object of texts and numbers is none of its business; one in a circle is."""

    @dataclass(frozen=True, slots=True)
    class Frozen:
        value: object

    @dataclass(slots=True)
    class Open:
        value: object

    @dataclass(slots=True, acyclic=True)
    class Acyclic:
        value: object

    scope = Scope("s", "k")
    leaves = [1, "a", None, 2.5, b"x", scope, SetRef(scope, "n"), Frozen("a"), Frozen(scope)]
    assert not any(gc.is_tracked(Frozen(leaf)) for leaf in leaves)
    assert all(gc.is_tracked(Frozen(value)) for value in ([], {}, Kept, Open(1), Frozen([])))
    assert all(gc.is_tracked(Open(leaf)) for leaf in leaves)
    assert not any(gc.is_tracked(Acyclic(leaf)) for leaf in (*leaves, {}))
    assert gc.is_tracked(Acyclic([]))

    class Node:
        """May be in a circle."""

    node: Any = Node()
    node.back = Frozen(node)
    gone = weakref.ref(node)
    del node
    gc.collect()
    assert gone() is None
