"""`dataclass` like Python's, with methods that are compiled when they are first looked up.

Python compiles up to six methods for every dataclass at import. For all of alveus that took longer
than the rest of the import, and most processes use few of the classes. Here `__init__`, `__eq__`
and `__hash__` of a class are compiled at their first use; the other methods serve all classes.

A C extension, if it is installed, builds the objects of classes with slots. This takes a fifth of
the time of an `__init__`, and a run makes fifty of these objects (decision 247). The `__init__`
remains for the calls that the extension does not handle.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, FrozenInstanceError, field, fields
from reprlib import recursive_repr
from types import GenericAlias
from typing import TYPE_CHECKING, Any, TypeVar, cast, dataclass_transform, get_origin, overload

from alveus.values.native import NATIVE

if TYPE_CHECKING:
    from alveus.values._native import Native

C = TypeVar("C")


RECORDS = NATIVE
"""The C extension, whose functions build objects; None if it is missing."""


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
    """Return *cls* as ``dataclasses.dataclass`` would, or a decorator that does.

    With *slots*, C builds the objects, and the garbage collector skips frozen objects that refer
    to no other object. `InitVar` is not supported.

    Args:
        acyclic: Whether the garbage collector may also skip objects that are not frozen. The caller
            promises that no value of a field refers back to its object.
    """

    def complete(cls: type[C]) -> type[C]:
        given = dict(vars(cls))
        if not cls.__doc__:
            cls.__doc__ = cls.__name__  # else Python computes a signature
        inherits = any(hasattr(base, "__dataclass_fields__") for base in cls.__mro__[1:])
        known = dataclasses.dataclass(
            init=False,
            repr=False,
            eq=False,
            frozen=frozen and inherits,  # named as the other method, as Python expects
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
    """Declare that *kind* is a class of tuples that hold only texts and tuples like them.

    The garbage collector skips frozen objects that refer only to these tuples. Return *kind*.
    """
    if RECORDS is not None:
        RECORDS.holds_text(kind)
    return kind


def _no_columns(objects: list[Any], like: object) -> None:
    """Return None: no compiled code reads the objects."""


columns_of: Callable[[list[Any], object], tuple[list[Any], ...] | None] = (
    _no_columns if RECORDS is None else RECORDS.columns
)
"""Returns a list of the objects' values for each field that is ``...`` in the second argument.

Returns None if an object has another class than the second argument or differs from it in another
field, or if the C extension is missing.
"""


def _learnt(made: type, records: Native, *, frozen: bool, acyclic: bool) -> object:
    """Make C build the objects of a class. Return the data that the class keeps for C.

    Return None if Python must build the objects, because `__init__` does more than fill slots.
    """
    every = fields(cast("Any", made))
    plain = made.__new__ is object.__new__ and not hasattr(made, "__del__")
    if made.__dictoffset__ or not (plain and all(f.init for f in every)):
        return None
    known = [_argument(f) for f in sorted(every, key=lambda f: bool(f.kw_only))]
    positional = sum(not f.kw_only for f in every)
    checks = hasattr(made, "__post_init__")
    return records.learn(made, tuple(known), positional, checks, frozen, acyclic)


def _argument(f: Field[Any]) -> tuple[object, ...]:
    """Return a field for C: its name and default, or its name, factory and True."""
    if f.default_factory is MISSING:
        return sys.intern(f.name), ... if f.default is MISSING else f.default
    factory: object = f.default_factory
    if isinstance(factory, GenericAlias):
        factory = get_origin(factory)  # ``list`` takes less time than ``list[int]``
    return sys.intern(f.name), factory, True


def _methods(
    made: type, given: Mapping[str, object], *, frozen: bool, slots: bool, eq: bool
) -> dict[str, object]:
    """Return the methods that are added to a class, by name; ``__hash__`` may be None."""
    init = CompiledMethod(made, "__init__", init=True, frozen=frozen, slots=slots)
    methods: dict[str, object] = {"__init__": init, "__repr__": _repr}
    if eq:
        methods["__eq__"] = CompiledMethod(made, "__eq__", eq=True)
        # Python itself puts a None there if a class defines equality.
        if given.get("__hash__") is None and ("__eq__" in given or "__hash__" not in given):
            given = {name: of for name, of in given.items() if name != "__hash__"}
            compiled_hash = CompiledMethod(made, "__hash__", unsafe_hash=True)
            methods["__hash__"] = compiled_hash if frozen else None
    if frozen:
        methods |= {"__setattr__": _refuse_to_set, "__delattr__": _refuse_to_delete}
        if slots:
            methods |= {"__getstate__": _state, "__setstate__": _restore}
    return {name: method for name, method in methods.items() if name not in given}


class CompiledMethod:
    """A method of a class that Python's `dataclasses` compile when it is first looked up.

    Args:
        made: The class. Once compiled, the method replaces this object in it.
        options: The options of ``dataclasses.dataclass`` that compile it.
    """

    __slots__ = ("_made", "_name", "_options", "_wrap")

    def __init__(self, made: type, name: str, **options: bool) -> None:
        self._made, self._name, self._options = made, name, options
        self._wrap: Callable[..., Any] | None = None

    def wrapped(self, wrap: Callable[..., Callable[..., Any]]) -> CompiledMethod:
        """Return this method; when it is compiled, *wrap* is applied to it."""
        other = CompiledMethod(self._made, self._name, **self._options)
        other._wrap = wrap
        return other

    def __get__(self, instance: object, owner: type | None = None) -> Callable[..., Any]:
        method = _compile(self._made, self._name, self._options)
        method = method if self._wrap is None else self._wrap(method)
        setattr(self._made, self._name, method)
        return method if instance is None else method.__get__(instance, owner)


def _compile(made: type, name: str, options: Mapping[str, bool]) -> Callable[..., Any]:
    """Return the method *name* that Python makes for a class with the same fields and no bases."""
    namespace: dict[str, object] = {
        key: getattr(made, key) for key in ("__doc__", "__module__", "__qualname__")
    }
    if hasattr(made, "__post_init__"):
        namespace["__post_init__"] = None
    every = [(f.name, f.type, f) for f in fields(cast("Any", made))]
    chosen: dict[str, Any] = {"init": False, "repr": False, "eq": False} | dict(options)
    twin = dataclasses.make_dataclass(made.__name__, every, namespace=namespace, **chosen)
    return vars(twin)[name]


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
    """Return whether attribute *name* is frozen.

    Every attribute is frozen; in a subclass that is no dataclass, only fields are.
    """
    kind = cast("type[object]", type(self))
    return "__dataclass_fields__" in vars(kind) or name in self.__dataclass_fields__


def _state(self: Any) -> list[Any]:  # noqa: ANN401 - any dataclass
    return [getattr(self, f.name) for f in fields(self)]


def _restore(self: Any, state: list[Any]) -> None:  # noqa: ANN401 - any dataclass
    for f, value in zip(fields(self), state, strict=True):
        object.__setattr__(self, f.name, value)
