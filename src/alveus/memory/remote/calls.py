"""Calls of a memory as they go over HTTP: each is described by its method.

The classes of `alveus.memory.aio` are the table of calls: a line there says whether a call reads
or writes. Its name, its arguments and its result are those of the method.
`alveus.server.calls` answers it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, wraps
from inspect import BoundArguments, Parameter, Signature, signature, unwrap
from typing import Any, NamedTuple, Protocol, TypeVar, cast
from typing import get_type_hints as hints_of

from alveus.errors import InvalidInput
from alveus.llm import ChatModel
from alveus.memory.async_calls import Access, accesses
from alveus.memory.memory import Memory
from alveus.memory.remote.codecs import (
    Conversations,
    Json,
    NotSent,
    argument_json,
    argument_of,
    arms_of,
    from_json,
    json_name,
    to_json,
)
from alveus.memory.remote.remote_tree import RemoteCalls
from alveus.values.keywords import suggest_names

C = TypeVar("C", bound=type)

ONCE = "idempotency_key"
"""The argument that goes as a header."""


class Argument(NamedTuple):
    """An argument of a call; *hint* is its annotation, of `*names` that of each."""

    name: str
    hint: object
    default: object
    is_list: bool

    @property
    def is_sent(self) -> bool:
        """Whether a request may carry it: a model of the caller's own cannot be sent."""
        return ChatModel not in arms_of(self.hint)


class Call(NamedTuple):
    """A call of a memory, as its method describes it.

    Attributes:
        name: Its name in a request, such as "facts.list".
        arguments: By their names in a request.
        result: The annotation of what the method returns.
    """

    name: str
    method: Callable[..., Any]
    access: Access
    shape: Signature
    arguments: Mapping[str, Argument]
    result: object
    is_property: bool

    @property
    def takes_key(self) -> bool:
        """Whether the method takes an idempotency key."""
        return ONCE in self.shape.parameters

    def on(
        self, target: object, sent: Mapping[str, Json], once: str | None, talks: Conversations
    ) -> Json:
        """Make the call of *target* with the arguments of a request; return its result as JSON.

        Args:
            once: The idempotency key, for a method that takes one.
            talks: Returns the conversation of a name.
        """
        given: dict[str, Any] = {"self": target}
        for name, argument in self.arguments.items():
            if name in sent:
                told = sent[name]
                value = told if argument.is_list else argument_of(argument.hint, told, talks)
                given[argument.name] = value
            elif not argument.is_sent:
                given[argument.name] = None
        if self.takes_key:
            given[ONCE] = once
        bound = BoundArguments(self.shape, given)  # pyright: ignore[reportArgumentType] - a dict keeps its order
        made = getattr(target, self.method.__name__)
        if not self.is_property:
            made = made(*bound.args[1:], **bound.kwargs)
        return to_json(self.result, made)

    def sent(self, given: Mapping[str, Any]) -> dict[str, Json]:
        """Return arguments as a request carries them.

        Raises:
            NotSent: One is not of its annotated type.
        """
        sent: dict[str, Json] = {}
        for name, argument in self.arguments.items():
            if argument.name not in given:
                continue
            value, where = given[argument.name], f"{self.name}({argument.name}=…)"
            if argument.is_list:
                sent[name] = []
                for each in value:
                    one = argument_json(argument.hint, each, where)
                    sent[name] += one if isinstance(one, list) else [one]
            elif value is not argument.default:
                told = argument_json(argument.hint, value, where)
                sent |= {name: told} if argument.is_sent else {}
        return sent


@cache
def described(name: str, method: Callable[..., Any] | property, access: Access) -> Call:
    """Return a call as its method, or property, describes it."""
    plain = cast("Any", method).fget if isinstance(method, property) else unwrap(method)
    hints, shape = hints_of(plain), signature(plain)
    arguments = {
        json_name(each.name, hints[each.name]): Argument(
            each.name, hints[each.name], each.default, each.kind is Parameter.VAR_POSITIONAL
        )
        for each in shape.parameters.values()
        if each.name not in ("self", ONCE)
    }
    is_property = isinstance(method, property)
    return Call(name, plain, access, shape, arguments, hints.get("return"), is_property)


def calls_of(table: type[Any]) -> dict[str, Call]:
    """Return the calls of one of the classes of `alveus.memory.aio`, by name."""
    found: dict[str, Call] = {}
    for name, (method, access) in accesses(table).items():
        call = f"{table.FAMILY}.{name}"
        found[call] = described(call, method, access)
    return found


class Remote(Protocol):
    """An object whose calls are requests."""

    @property
    def calls(self) -> RemoteCalls:
        """The way to the server."""
        ...

    def place(self) -> dict[str, Json]:
        """Return the fields of a request that name the object."""
        ...

    def twin(self, memory: Memory) -> object:
        """Return the same object of another memory."""
        ...


def sends(table: type[Any]) -> Callable[[C], C]:
    """Return a decorator of a class: calls that *table* lists, and it has not, become requests."""

    def decorate(kind: C) -> C:
        for call in calls_of(table).values():
            name, ask = call.method.__name__, suggest_names(_request(call))
            if name not in vars(kind):
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
    """Return what a call of an object with these arguments returns, asked over HTTP.

    Args:
        more: Fields that the request has besides.
    """
    given = call.shape.bind(of, *args, **kwargs).arguments
    try:
        sent = call.sent(given) | of.place() | more
    except (NotSent, InvalidInput) as error:
        with Memory.open(embedder="words") as empty:  # in RAM, to refuse it in its own words
            getattr(of.twin(empty), call.method.__name__)(*args, **kwargs)
        raise InvalidInput(f"{error} has no JSON form") from error
    if call.access == "read":
        told = of.calls.read(call.name, **sent)
    else:
        once: Any = given.get(ONCE)
        told = of.calls.write(call.name, once, **sent)
    return from_json(call.result, told["result"])
