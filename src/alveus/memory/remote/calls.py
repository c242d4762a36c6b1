"""The calls of a memory over HTTP, each described by its Python method.

The classes of `alveus.memory.async_objects` are the table of calls: each entry marks a call as
reading or writing. A call has the name, the arguments and the result of the method. The server's
side is in `alveus.server.calls`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, wraps
from inspect import BoundArguments, Parameter, Signature, signature, unwrap
from typing import Any, NamedTuple, Protocol, TypeVar, cast, get_args
from typing import get_type_hints as hints_of

from alveus.errors import InvalidInput, NotFound
from alveus.llm import ChatModel
from alveus.memory.async_calls import Access, Mark, marks_of
from alveus.memory.opening import empty_engine, unsupported
from alveus.memory.remote.codecs import (
    Conversations,
    Json,
    NotSent,
    OnlyLocal,
    argument_json,
    argument_of,
    arms_of,
    from_json,
    item_json,
    json_name,
    to_json,
)
from alveus.memory.remote.remote_tree import RemoteCalls
from alveus.sets.writer import Engine
from alveus.store.filters import Filter
from alveus.store.items import Item
from alveus.values.keywords import suggest_names
from alveus.values.storable import valid_text

C = TypeVar("C", bound=type)

ONCE = "idempotency_key"
"""The name of the argument that is sent as a header."""


class Argument(NamedTuple):
    """An argument of a call.

    Attributes:
        hint: The annotation. For ``*names`` it is the annotation of each name.
        is_list: Whether the argument is ``*names``.
        is_field: Whether the argument is one of ``**fields``.
    """

    name: str
    hint: object
    default: object
    is_list: bool = False
    is_field: bool = False

    @property
    def is_sent(self) -> bool:
        """Whether a request can carry the argument: a caller's model object cannot be sent."""
        return ChatModel not in arms_of(self.hint)


class Call(NamedTuple):
    """A call of a memory, described by its method.

    Attributes:
        name: The name in a request, such as "facts.list".
        method: The sync method, or the getter of a property.
        shape: The signature of the method.
        arguments: The arguments, by their names in a request.
        result: The annotation of the method's result.
        fields: The name of the method's parameter ``**fields``, the fields of an item, or None.
    """

    name: str
    method: Callable[..., Any]
    access: Access
    shape: Signature
    arguments: Mapping[str, Argument]
    result: object
    is_property: bool
    fields: str | None

    @property
    def takes_key(self) -> bool:
        """Whether the method takes an idempotency key."""
        return ONCE in self.shape.parameters

    def on(
        self,
        target: object,
        sent: Mapping[str, Json],
        once: str | None,
        talks: Conversations | None = None,
    ) -> Json:
        """Call the method of *target* with the arguments of a request; return the result as JSON.

        Args:
            sent: The arguments as JSON, by their names in a request.
            once: The idempotency key, for a method that takes such a key.
            talks: Returns the conversation with a name, for a method that takes a conversation.
        """
        given: dict[str, Any] = {"self": target}
        fields: dict[str, Any] = {}
        for name, argument in self.arguments.items():
            into = fields if argument.is_field else given
            if name in sent:
                value = sent[name]
                if argument.is_list:
                    into[argument.name] = value if isinstance(value, list) else [value]
                else:
                    into[argument.name] = argument_of(argument.hint, value, talks)
            elif not argument.is_sent:
                into[argument.name] = None
        if self.fields is not None:
            given[self.fields] = fields
        if self.takes_key:
            given[ONCE] = once
        bound = BoundArguments(self.shape, given)  # pyright: ignore[reportArgumentType] - a dict keeps its order
        made = getattr(target, self.method.__name__)
        if not self.is_property:
            made = made(*bound.args[1:], **bound.kwargs)
        return to_json(self.result, made)

    def sent(self, given: Mapping[str, Any]) -> dict[str, Json]:
        """Return the arguments *given* as JSON for a request, without default values.

        Raises:
            NotSent, InvalidInput: An argument is not of its annotated type, or cannot be stored.
            Unsupported: An argument works only with a local store.
        """
        sent: dict[str, Json] = {}
        for name, argument in self.arguments.items():
            value = given.get(argument.name, argument.default)
            if argument.is_field or value is argument.default:
                continue
            try:
                plain = _argument_json(argument, value)
            except OnlyLocal as instead:
                raise unsupported(f"{self.name}({argument.name}=…)", str(instead)) from None
            sent |= {name: plain} if argument.is_sent else {}
        if self.fields is not None and (fields := given.get(self.fields)):
            if fields.keys() - {each.name for each in self.arguments.values()}:
                raise NotSent(*fields)
            sent |= item_json(replace(Item(value=None), **fields), frozenset(fields))
        return sent


def _argument_json(argument: Argument, value: Any) -> Json:  # noqa: ANN401 - of any type
    if not argument.is_list:
        return argument_json(argument.hint, value, argument.name)
    answer: list[Json] = []
    for each in value:
        one = argument_json(argument.hint, each, argument.name)
        answer += one if isinstance(one, list) else [one]
    return answer


@cache
def described(name: str, mark: Mark) -> Call:
    """Return the call *name* that the marked method or property describes."""
    method, is_property = mark.method, isinstance(mark.method, property)
    plain = cast("Any", method).fget if is_property else unwrap(cast("Any", method))
    hints, shape = {**hints_of(plain), **dict(mark.hints)}, signature(plain)
    if "where" in hints:
        hints["where"] = Filter | None
    arguments: list[Argument] = []
    fields: str | None = None
    for each in shape.parameters.values():
        if each.kind is Parameter.VAR_KEYWORD:
            fields, kinds = each.name, hints_of(get_args(hints[each.name])[0])
            arguments += [Argument(n, kind, ..., is_field=True) for n, kind in kinds.items()]
        elif each.name not in ("self", ONCE):
            is_list = each.kind is Parameter.VAR_POSITIONAL
            arguments.append(Argument(each.name, hints[each.name], each.default, is_list))
    named = {json_name(each.name, each.hint): each for each in arguments}
    result = hints.get("returns", hints.get("return"))
    return Call(name, plain, mark.access, shape, named, result, is_property, fields)


def calls_of(table: type[Any]) -> dict[str, Call]:
    """Return the calls of *table*, a class of `alveus.memory.async_objects`, by name."""
    names = {name: f"{table.FAMILY}.{name}" for name in marks_of(table)}
    return {call: described(call, marks_of(table)[name]) for name, call in names.items()}


class Remote(Protocol):
    """An object whose calls are HTTP requests."""

    @property
    def calls(self) -> RemoteCalls:
        """The object that sends the calls to the server."""
        ...

    def address(self, access: Access, /) -> dict[str, Json]:
        """Return the fields of a request that identify the object, for a call of this access."""
        ...

    def twin(self, engine: Engine, /) -> object:
        """Return the corresponding object of the memory with this engine."""
        ...


def sends(table: type[Any]) -> Callable[[C], C]:
    """Return a class decorator that turns the calls of *table* into methods that send requests.

    Methods that the class itself defines do not change.
    """

    def decorate(kind: C) -> C:
        for call in calls_of(table).values():
            name, ask = call.method.__name__, _request(call)
            if call.fields is None:
                ask = suggest_names(ask)
            if hasattr(kind, name) and name not in vars(kind):
                setattr(kind, name, property(ask) if call.is_property else ask)
        return kind

    return decorate


def _request(call: Call) -> Callable[..., Any]:
    @wraps(call.method)
    def ask(self: Remote, *args: object, **kwargs: object) -> Any:  # noqa: ANN401 - what it returns
        return ask_for(call, self, args, kwargs)

    return ask


def ask_for(
    call: Call, of: Remote, args: Sequence[object], kwargs: Mapping[str, object], **more: Json
) -> Any:  # noqa: ANN401 - what the method returns
    """Make a call of the object *of* over HTTP, and return its result.

    Args:
        more: Further fields of the request.

    Raises:
        InvalidInput: An argument has no JSON form.
        AlveusError: The error that a local call would raise for the arguments, or that the server
            raised.
    """
    given = call.shape.bind(of, *args, **kwargs).arguments
    try:
        sent = call.sent(given) | of.address(call.access) | more
    except InvalidInput as error:
        try:
            _refuse(call, of, args, kwargs)
        except NotFound:
            raise error from None
        sent = call.sent(_valid(given)) | of.address(call.access) | more
    except NotSent as error:
        _refuse(call, of, args, kwargs)
        raise InvalidInput(f"{call.name}: the argument {error} cannot be sent as JSON") from None
    if call.access == "read":
        answer = of.calls.read(call.name, **sent)
    else:
        once: Any = given.get(ONCE)
        answer = of.calls.write(call.name, once, **sent)
    return from_json(call.result, answer["result"])


def _valid(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments; characters of texts that a request cannot carry are replaced."""
    return {n: valid_text(v).value if isinstance(v, str) else v for n, v in given.items()}


def _refuse(call: Call, of: Remote, args: Sequence[object], kwargs: Mapping[str, object]) -> None:
    """Make the call on an empty memory in RAM, which raises the error of a local call."""
    getattr(of.twin(empty_engine()), call.method.__name__)(*args, **kwargs)
