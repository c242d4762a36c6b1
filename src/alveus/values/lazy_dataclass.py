"""`dataclass` as Python's own, but a class gets its methods when they are first looked up.

Python writes and compiles up to six methods for every dataclass, at import: for all of alveus that
took longer than everything else together, and most processes use a small part of the classes.
Here a class learns its fields at once; `__init__`, `__eq__` and `__hash__` are compiled when they
are first looked up, and the other methods serve all classes.

Objects with slots are made by compiled code where there is some: a run makes fifty of them, and
`_c/records.h` takes a fifth of the time of an `__init__` (decision 247). The `__init__` is there
all the same, and is called where that leaves something to it.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, Field, FrozenInstanceError, field, fields
from reprlib import recursive_repr
from types import GenericAlias
from typing import Any, Protocol, TypeVar, cast, dataclass_transform, get_origin, overload

from alveus.values.native import compiled

C = TypeVar("C")


class Records(Protocol):
    """What `_c/records.h` has."""

    def holds_text(self, kind: type, /) -> None:
        """Take a kind of tuples for one that never holds anything but text."""
        ...

    def learn(
        self,
        made: type,
        fields: tuple[tuple[object, ...], ...],
        by_place: int,
        then_checks: bool,  # noqa: FBT001 - it has no names
        frozen: bool,  # noqa: FBT001 - as above
        acyclic: bool,  # noqa: FBT001 - as above
        /,
    ) -> object:
        """Have objects of a class made from now on; return what it keeps for that, or None."""
        ...

    def columns(self, objects: list[Any], like: object, /) -> tuple[list[Any], ...] | None:
        """See `columns_of`."""
        ...


_FUNCTIONS = ("holds_text", "learn", "columns")

RECORDS = cast("Records | None", compiled(_FUNCTIONS))
"""The compiled functions; None: there are none."""


@overload
def dataclass(cls: type[C], /) -> type[C]: ...


@overload
def dataclass(
    *,
    frozen: bool = False,
    slots: bool = False,
    kw_only: bool = False,
    eq: bool = True,
    acyclic: bool = False,
) -> Callable[[type[C]], type[C]]: ...


@dataclass_transform(field_specifiers=(field,))
def dataclass(
    cls: type[C] | None = None,
    /,
    *,
    frozen: bool = False,
    slots: bool = False,
    kw_only: bool = False,
    eq: bool = True,
    acyclic: bool = False,
) -> type[C] | Callable[[type[C]], type[C]]:
    """Return *cls* as ``dataclasses.dataclass`` would make it, or what makes it so.

    With *slots* an object is also made in a fraction of the time, whatever becomes of `__init__`
    later, and the garbage collector has nothing to do with a frozen one that leads to no other
    object. There is no `InitVar`.

    Args:
        acyclic: It has nothing to do with one that is not frozen either: whatever is assigned to
            one that leads nowhere does not lead back to it.
    """

    def complete(cls: type[C]) -> type[C]:
        given = dict(vars(cls))
        if not cls.__doc__:
            cls.__doc__ = cls.__name__  # else Python works a signature out for it
        inherits = any(hasattr(base, "__dataclass_fields__") for base in cls.__mro__[1:])
        known = dataclasses.dataclass(
            init=False,
            repr=False,
            eq=False,
            frozen=frozen and inherits,  # as the other one is, or Python says so
            slots=slots,
            kw_only=kw_only,
        )
        made = known(cls)
        for name, method in _methods(made, given, frozen=frozen, slots=slots, eq=eq).items():
            setattr(made, name, method)
        options = cast("Any", made).__dataclass_params__
        options.init, options.repr, options.eq, options.frozen = True, True, eq, frozen
        if RECORDS is not None and slots and "__init__" not in given:
            kept = _learnt(made, RECORDS, frozen=frozen, acyclic=acyclic)
            cast("Any", made)._made_by = kept  # noqa: SLF001 - with an underscore, `help` hides it
        return made

    return complete if cls is None else complete(cls)


def holds_text(kind: type[C]) -> type[C]:
    """Return a kind of tuples that hold text alone, or others that do.

    The garbage collector does not look at frozen objects by which nothing else is reached.
    """
    if RECORDS is not None:
        RECORDS.holds_text(kind)
    return kind


def columns_of(objects: list[C], like: C) -> tuple[list[Any], ...] | None:
    """Return what *objects* have in the fields in which *like* has an Ellipsis: a list of each.

    None: one is of another class, or has another object in another field, or there is no compiled
    code that looks at them all at once.
    """
    return None if RECORDS is None else RECORDS.columns(objects, like)


def _learnt(made: type, records: Records, *, frozen: bool, acyclic: bool) -> object:
    """Have compiled code make the objects of a class; return what the class keeps for that.

    None: by its `__init__`, as other classes, if there is more to do than to fill slots.
    """
    every = fields(cast("Any", made))
    plain = made.__new__ is object.__new__ and not hasattr(made, "__del__")
    if made.__dictoffset__ or not (plain and all(f.init for f in every)):
        return None
    by_place, by_name = _arguments(every)
    known: list[tuple[object, ...]] = []
    for f in (*by_place, *by_name):
        if f.default_factory is not MISSING:
            known.append((sys.intern(f.name), _factory(f.default_factory), True))
        else:
            known.append((sys.intern(f.name), ... if f.default is MISSING else f.default))
    checks = hasattr(made, "__post_init__")
    return records.learn(made, tuple(known), len(by_place), checks, frozen, acyclic)


def _factory(factory: Callable[[], object]) -> Callable[[], object]:
    """Return what makes the same in less time: ``list`` for ``list[int]``."""
    return get_origin(factory) if isinstance(factory, GenericAlias) else factory  # pyright: ignore[reportReturnType] - a class


def _methods(
    made: type, given: Mapping[str, object], *, frozen: bool, slots: bool, eq: bool
) -> dict[str, object]:
    """Return the methods that a class gets beside those that it was *given*, and its hash."""
    methods: dict[str, object] = {"__init__": CompiledMethod(made, _init), "__repr__": _repr}
    if eq:
        methods["__eq__"] = CompiledMethod(made, _eq)
        # Python itself puts a None there if a class defines equality.
        if given.get("__hash__") is None and ("__eq__" in given or "__hash__" not in given):
            given = {name: of for name, of in given.items() if name != "__hash__"}
            methods["__hash__"] = CompiledMethod(made, _hash) if frozen else None
    if frozen:
        methods |= {"__setattr__": _refuse_to_set, "__delattr__": _refuse_to_delete}
        if slots:
            methods |= {"__getstate__": _state, "__setstate__": _restore}
    return {name: method for name, method in methods.items() if name not in given}


class CompiledMethod:
    """A method of a class that is compiled when it is first looked up.

    Args:
        made: The class, which has the method itself from then on.
        compiled: Returns the method.
    """

    __slots__ = ("_compiled", "_made")

    def __init__(self, made: type, compiled: Callable[[type], Callable[..., Any]]) -> None:
        self._made, self._compiled = made, compiled

    def wrapped(self, wrap: Callable[..., Callable[..., Any]]) -> CompiledMethod:
        """Return this method with something around it."""
        compiled = self._compiled
        return CompiledMethod(self._made, lambda made: wrap(compiled(made)))

    def __get__(self, instance: object, owner: type | None = None) -> Callable[..., Any]:
        method = self._compiled(self._made)
        setattr(self._made, method.__name__, method)
        return method if instance is None else method.__get__(instance, owner)


class _FromFactory:
    """The default of an argument in whose place a factory's value comes."""

    def __repr__(self) -> str:
        return "<factory>"


_FROM_FACTORY = _FromFactory()


def _init(made: type) -> Callable[..., None]:
    every = [f for f in fields(made) if f.init]
    by_place, by_name = [[_argument(f) for f in some] for some in _arguments(every)]
    arguments = ["self", *by_place, *(["*"] if by_name else []), *by_name]
    known: dict[str, object] = {"__put__": object.__setattr__, "__from__": _FROM_FACTORY}
    for f in fields(made):
        if f.default_factory is not MISSING:
            make = _factory(f.default_factory)
            known |= {_default(f): _FROM_FACTORY, f"__new_{f.name}__": make}
        elif f.default is not MISSING:
            known[_default(f)] = f.default
    body = _filling(made, known)
    if hasattr(made, "__post_init__"):
        body.append("self.__post_init__()")
    init = _function(made, "__init__", arguments, body or ["pass"], known)
    init.__annotations__ = {f.name: f.type for f in every} | {"return": None}
    return init


def _arguments(every: Iterable[Field[Any]]) -> tuple[list[Field[Any]], list[Field[Any]]]:
    """Return the fields that are passed by their place, and those that are by their name."""
    return [f for f in every if not f.kw_only], [f for f in every if f.kw_only]


def _argument(f: Field[Any]) -> str:
    required = f.default is MISSING and f.default_factory is MISSING
    return f.name if required else f"{f.name}={_default(f)}"


def _default(f: Field[Any]) -> str:
    return f"__default_{f.name}__"


def _filling(made: type, known: dict[str, object]) -> list[str]:
    """Return the lines that fill an object; what they need joins *known*."""
    begin: list[str] = []
    values: dict[str, str] = {}
    for f in fields(made):
        if f.default_factory is not MISSING:
            condition = f" if {f.name} is __from__ else {f.name}" if f.init else ""
            begin.append(f"{f.name} = __new_{f.name}__(){condition}")
        if f.init or f.default_factory is not MISSING:
            values[f.name] = f.name
        elif f.default is not MISSING:
            values[f.name] = _default(f)
    plain = [f"self.{name} = {value}" for name, value in values.items()]
    if not cast("Any", made).__dataclass_params__.frozen:
        return begin + plain
    if not any("__slots__" in vars(base) for base in made.__mro__[:-1]):
        # Past the guard, as `__setattr__` of `object` would, in a quarter of the time.
        put = [f"fields[{name!r}] = {value}" for name, value in values.items()]
        return [*begin, "fields = self.__dict__", *put] if put else begin
    past_guard = [f"__put__(self, {name!r}, {value})" for name, value in values.items()]
    if made.__bases__ != (object,) or "__slots__" not in vars(made):
        return begin + past_guard
    # An object is filled most quickly while it is of a class that is not frozen.
    known["__made__"] = made
    known["__open__"] = type(made.__name__, (), {"__slots__": vars(made)["__slots__"]})
    return [
        *begin,
        "try:",
        " __put__(self, '__class__', __open__)",
        *[f" {line}" for line in plain],
        " self.__class__ = __made__",
        "except TypeError:",
        # At the end of the stack CPython cannot compare the layouts, and says that they differ.
        " if self.__class__ is __made__:",
        "  raise RecursionError('the stack is at its end') from None",
        *[f" {line}" for line in past_guard],  # of a subclass
    ]


def _eq(made: type) -> Callable[..., Any]:
    body = [
        "if other.__class__ is not self.__class__:",
        " return NotImplemented",
        f"return {_compared(made, 'self')} == {_compared(made, 'other')}",
    ]
    return _function(made, "__eq__", ["self", "other"], body, {})


def _hash(made: type) -> Callable[..., Any]:
    return _function(made, "__hash__", ["self"], [f"return hash({_compared(made, 'self')})"], {})


def _compared(made: type, whose: str) -> str:
    return "(" + "".join([f"{whose}.{f.name}, " for f in fields(made) if f.compare]) + ")"


def _function(
    made: type,
    name: str,
    arguments: Sequence[str],
    body: Sequence[str],
    known: Mapping[str, object],
) -> Callable[..., Any]:
    """Return a function of the module of *made* that is compiled from code."""
    lines = [
        f"def made({', '.join(known)}):",
        f" def {name}({', '.join(arguments)}):",
        *[f"  {line}" for line in body],
        f" return {name}",
    ]
    module, found = sys.modules.get(made.__module__), dict[str, Any]()
    exec("\n".join(lines), {} if module is None else vars(module), found)  # noqa: S102 - of names of fields, as dataclasses has it
    function = found["made"](**known)
    function.__qualname__ = f"{made.__qualname__}.{name}"
    return function


@recursive_repr()
def _repr(self: Any) -> str:  # noqa: ANN401 - any dataclass
    shown = ", ".join([f"{f.name}={getattr(self, f.name)!r}" for f in fields(self) if f.repr])
    return f"{self.__class__.__qualname__}({shown})"


def _refuse_to_set(self: Any, name: str, value: object) -> None:  # noqa: ANN401 - any dataclass
    if _is_frozen(self, name):
        raise FrozenInstanceError(f"cannot assign to field {name!r}")
    object.__setattr__(self, name, value)


def _refuse_to_delete(self: Any, name: str) -> None:  # noqa: ANN401 - any dataclass
    if _is_frozen(self, name):
        raise FrozenInstanceError(f"cannot delete field {name!r}")
    object.__delattr__(self, name)


def _is_frozen(self: Any, name: str) -> bool:  # noqa: ANN401 - any dataclass
    """Return whether *name* is fixed: any name, but in a subclass that is no dataclass."""
    kind = cast("type[object]", type(self))
    return "__dataclass_fields__" in vars(kind) or name in self.__dataclass_fields__


def _state(self: Any) -> list[Any]:  # noqa: ANN401 - any dataclass
    return [getattr(self, f.name) for f in fields(self)]


def _restore(self: Any, state: list[Any]) -> None:  # noqa: ANN401 - any dataclass
    for f, value in zip(fields(self), state, strict=True):
        object.__setattr__(self, f.name, value)
