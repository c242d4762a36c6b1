"""Errors for unknown keyword arguments. They name the call and the nearest keyword."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import MISSING, fields
from functools import wraps
from inspect import CO_COROUTINE, CO_VARKEYWORDS, Parameter, Signature
from types import CodeType, FunctionType
from typing import Any, Concatenate, ForwardRef, NoReturn, ParamSpec, TypeVar, cast

from alveus.values.lazy_dataclass import CompiledMethod

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")
W = TypeVar("W")
C = TypeVar("C", bound=type)


def suggest_names(function: Callable[P, R]) -> Callable[P, R]:
    """Return *function* with an error for an unknown keyword that suggests the nearest keyword.

    The error is a `TypeError`, like Python's. It names the class of the object that was called, not
    the class that defines the method. *function* must not take ``**kwargs``.
    """

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except TypeError:
            unknown = _unknown_keyword(function, args, kwargs)
            if unknown is None:
                raise
        raise unknown

    @wraps(function)
    async def call_async(*args: P.args, **kwargs: P.kwargs) -> object:
        try:
            return await cast("Any", function)(*args, **kwargs)
        except TypeError:
            unknown = _unknown_keyword(function, args, kwargs)
            if unknown is None:
                raise
        raise unknown

    return cast("Callable[P, R]", call_async) if _is_async(function) else call


def _is_async(function: Callable[..., object]) -> bool:
    code: CodeType | None = getattr(function, "__code__", None)
    return code is not None and bool(code.co_flags & CO_COROUTINE)


def _unknown_keyword(
    function: Callable[..., object], args: tuple[object, ...], kwargs: Mapping[str, object]
) -> UnknownKeyword | None:
    """Return the error for the unknown keyword of a call; None if all keywords are known."""
    from inspect import signature  # only where a call fails

    names = list(signature(function).parameters)
    unknown = next((name for name in kwargs if name not in names), None)
    if unknown is None:
        return None
    owner = args[0] if names[:1] in (["self"], ["cls"]) and args else None
    called = _call_name(function.__name__, owner)
    return UnknownKeyword(called, unknown, [n for n in names if n not in ("self", "cls")])


def hint_positionals(hint: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator that adds a hint to the error for too many positional arguments."""

    def decorate(method: Callable[P, R]) -> Callable[P, R]:
        max_positionals = cast("Any", method).__code__.co_argcount

        @wraps(method)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            if len(args) > max_positionals:
                called = _call_name(method.__name__, args[0])
                raise TypeError(
                    f"{called}() takes {max_positionals - 1} positional argument; {hint}"
                )
            return method(*args, **kwargs)

        return call

    return decorate


def suggest_names_in(cls: C) -> C:
    """Apply `suggest_names` to the constructor and the public methods of *cls*. Return *cls*.

    Methods that take ``**kwargs`` are left unchanged: they call `check_keywords`.
    """
    members: list[tuple[str, Any]] = [*vars(cls).items()]
    for name, member in members:
        if name != "__init__" and name.startswith("_"):
            continue
        if isinstance(member, (classmethod, staticmethod)):
            bound = cast("Any", member)
            setattr(cls, name, type(bound)(suggest_names(bound.__func__)))
        elif isinstance(member, CompiledMethod):
            setattr(cls, name, member.wrapped(suggest_names))
        elif isinstance(member, FunctionType) and not member.__code__.co_flags & CO_VARKEYWORDS:
            setattr(cls, name, suggest_names(member))
    return cls


def suggest_names_in_part(cls: C) -> C:
    """Do the work of `suggest_names_in` for a base class that users see only as its subclasses.

    Errors of Python for wrong arguments then name the method without the base class.
    """
    for name, member in vars(cls).items():
        if isinstance(member, FunctionType):
            member.__qualname__ = name
    return suggest_names_in(cls)


def made_by(call: str, part: type) -> Callable[[C], C]:
    """Return a decorator for a class that only *call* may construct.

    If the first argument of the constructor is no instance of *part*, the constructor raises a
    `TypeError` that names *call*.
    """

    def decorate(cls: C) -> C:
        init = cast("Any", cls).__init__

        @wraps(init)
        def checked_init(self: object, *args: object, **kwargs: object) -> None:
            if not (args and isinstance(args[0], part)):
                raise TypeError(f"{type(self).__name__}(…) does not open a memory; write {call}")
            init(self, *args, **kwargs)

        cast("Any", cls).__init__ = checked_init
        return cls

    return decorate


def hints_at(part: type, how: str) -> Callable[[C], C]:
    """Return a class decorator that improves the error for a missing attribute.

    If the class *part* has the attribute, the error says how to get an object of that class. This
    is a decorator because type checkers accept any name of a class that defines ``__getattr__``.
    The error reads no attribute of the object, which may be incomplete, as during `copy`.

    Args:
        how: How a user gets the other object: ``a key has it: memory.key("…")``.
    """

    def decorate(cls: C) -> C:
        def refuse(self: object, name: str) -> NoReturn:
            problem = f"{type(self).__name__!r} object has no attribute {name!r}"
            if not name.startswith("_") and hasattr(part, name):
                call = "(…)" if callable(getattr(part, name)) else ""
                problem = f"{problem}; {how}.{name}{call}"
            raise AttributeError(problem, name=name, obj=self)

        cast("Any", cls).__getattr__ = refuse
        return cls

    return decorate


class UnknownKeyword(TypeError):
    """An argument that *called*, a function or ``Class.method``, does not have."""

    def __init__(self, called: str, name: str, accepted: Iterable[str]) -> None:
        from difflib import get_close_matches  # only where a call fails

        self.name, self.accepted = name, list(accepted)
        matches = get_close_matches(name, self.accepted, n=1, cutoff=0.5)
        hint = (
            f"did you mean {matches[0]!r}?"
            if matches
            else f"the arguments are {', '.join(self.accepted)}"
        )
        super().__init__(f"{called}() has no argument {name!r}; {hint}")

    def for_owner(self, owner: object, method: str) -> UnknownKeyword:
        """Return the same error for a method of *owner*, which forwarded the call."""
        return UnknownKeyword(_call_name(method, owner), self.name, self.accepted)


def check_keywords(
    owner: object,
    method: str,
    passed: Collection[str],
    accepted: type[Any],
    *,
    excluded: Sequence[str] = (),
) -> None:
    """Raise `UnknownKeyword` if a keyword *passed* is not in *accepted*, a typed dict.

    Args:
        method: A method of *owner* that takes *accepted* besides its named arguments.
        excluded: Keywords of *accepted* that *method* does not take. The hint leaves them out.
    """
    names: frozenset[str] = accepted.__optional_keys__
    if not names.issuperset(passed):
        from inspect import signature  # only where a call fails

        unknown = next(name for name in passed if name not in names)
        parameters = signature(getattr(owner, method)).parameters.values()
        keywords = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
        explicit = [one.name for one in parameters if one.kind in keywords]
        others = sorted(names.difference(explicit, excluded))
        raise UnknownKeyword(_call_name(method, owner), unknown, [*explicit, *others])


def delegated(
    part: Callable[[W], S], method: Callable[Concatenate[S, P], R]
) -> Callable[Concatenate[W, P], R]:
    """Return a method that calls *method*, or an override of *method*, on a part of its object.

    The returned method has the signature and docstring of *method*. Errors for unknown keywords
    name the class of the whole object.

    Args:
        part: Returns the part of an object.
    """
    name = method.__name__

    @wraps(method)
    def call(self: W, *args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return getattr(part(self), name)(*args, **kwargs)
        except UnknownKeyword as error:
            raise error.for_owner(self, name) from None

    @wraps(method)
    async def call_async(self: W, *args: P.args, **kwargs: P.kwargs) -> object:
        try:
            return await getattr(part(self), name)(*args, **kwargs)
        except UnknownKeyword as error:
            raise error.for_owner(self, name) from None

    return cast("Callable[Concatenate[W, P], R]", call_async) if _is_async(method) else call


def arguments_of(
    kind: Callable[P, W],
) -> Callable[[Callable[[S, W], R]], Callable[Concatenate[S, P], R]]:
    """Return a decorator for a method with one argument, an object of *kind*.

    The decorated method takes the arguments of *kind*, makes the object and calls the method with
    it. Signature, annotations and errors are those of a method that lists these arguments.

    Args:
        kind: A dataclass whose annotations its module can resolve. If it has a text ``IF_MISSING``,
            errors for missing arguments end with it.
    """

    def decorate(method: Callable[[S, W], R]) -> Callable[Concatenate[S, P], R]:
        init = f"{kind.__qualname__}.__init__"

        def call(self: S, *args: P.args, **kwargs: P.kwargs) -> R:
            try:
                made = kind(*args, **kwargs)
            except TypeError as error:
                unknown = _unknown_keyword(call, (self, *args), kwargs)
                if unknown is None and init not in str(error):
                    raise
                message = str(error).replace(init, call.__qualname__)
                if "missing" in message and (advice := getattr(kind, "IF_MISSING", "")):
                    message = f"{message}; {advice}"
            else:
                return method(self, made)
            raise unknown or TypeError(message)

        for name in ("__name__", "__qualname__", "__doc__", "__module__"):
            setattr(call, name, getattr(method, name))
        parameters = [Parameter("self", Parameter.POSITIONAL_OR_KEYWORD)]
        annotations: dict[str, object] = {}
        for each in fields(cast("Any", kind)):
            how = Parameter.KEYWORD_ONLY if each.kw_only else Parameter.POSITIONAL_OR_KEYWORD
            default: object = Parameter.empty if each.default is MISSING else each.default
            parameters.append(Parameter(each.name, how, default=default, annotation=each.type))
            annotations[each.name] = ForwardRef(cast("str", each.type), module=kind.__module__)
        result = method.__annotations__["return"]
        annotations["return"] = ForwardRef(result, module=method.__module__)
        call.__annotations__ = annotations
        cast("Any", call).__signature__ = Signature(parameters, return_annotation=result)
        return call

    return decorate


def _call_name(name: str, owner: object) -> str:
    """Return how a call is written: ``Budget``, ``Memory.open`` or ``KeyMemory.context``."""
    if owner is None:
        return name
    kind = cast("type", owner if isinstance(owner, type) else type(owner))
    return kind.__name__ if name == "__init__" else f"{kind.__name__}.{name}"
