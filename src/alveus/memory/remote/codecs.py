"""JSON codecs for the arguments and results of calls over HTTP, for the client and the server.

The codecs are derived from annotations. A dataclass becomes a JSON object of its fields, a datetime
becomes text in ISO 8601, a tuple becomes a list. A storable value has the form of exports. The
field `set_name` is written as "set". A timedelta is written in seconds, and the name of its field
gets the suffix "_s".
"""

from __future__ import annotations

import json
import re
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, Literal, TypeAlias, Union, cast, get_args, get_origin
from typing import get_type_hints as hints_of

from alveus.conversation import ConversationMemory
from alveus.errors import InvalidInput
from alveus.facts import Fact, LearnOptions, LearnReport
from alveus.llm import Asking, ChatModel, Reranker
from alveus.memory.prompt import ALL, All
from alveus.memory.remote.connection import Json
from alveus.search.projection import MapPoints
from alveus.sets.admission.rules import Added, Verdict
from alveus.sets.set_writes import item_from
from alveus.store import Definition
from alveus.store.filters import Filter, plain_filter
from alveus.store.items import Hit, Hits, Item
from alveus.store.records import check_item, request_json
from alveus.text import Summariser
from alveus.text import tokens as word_pieces
from alveus.text.budget import Budget
from alveus.text.messages import Message
from alveus.values import wire
from alveus.values.lazy_dataclass import dataclass
from alveus.values.storable import Value, checked, microseconds, moment, valid_text
from alveus.values.times import Zone, format_time, parse_time

Conversations: TypeAlias = Callable[[str], ConversationMemory]

UNIONS = (Union, types.UnionType)

LEFT_OUT: Mapping[type[Any], tuple[str, ...]] = {
    Item: ("ttl", "texts", "timezone"),
    LearnOptions: ("asking",),
    Budget: ("counter",),
}
"""The fields of dataclasses that results omit."""

NOT_GIVEN: Mapping[type[Any], tuple[str, ...]] = {
    **LEFT_OUT,
    Item: ("created", "updated", "accessed", "version", "set_name", "retired"),
}
"""The fields of dataclasses that arguments do not accept."""


_COMMIT = re.compile("[0-9]{1,19}")


class NotSent(Exception):
    """Raised if an argument is not of its annotated type, or has no JSON form."""


class OnlyLocal(Exception):
    """Raised if an argument works only with a local store; the message names an alternative."""


@dataclass(frozen=True, slots=True)
class Codec:
    """Converts values of one type to JSON and back."""

    encode: Callable[[Any], Json]
    decode: Callable[[Json], Any]


def value_json(value: object, where: str = "value") -> Json:
    """Return a storable value as JSON.

    Raises:
        InvalidValue: *value* cannot be stored. The message calls the value *where*.
    """
    return wire.wired(checked(value, where=where, nan=True))


def value_of(content: object) -> Any:  # noqa: ANN401 - of any JSON
    """Return the storable value in JSON that another program made.

    Raises:
        InvalidInput: A marked object, such as ``{"$bytes": …}``, cannot be read.
    """
    try:
        return wire.decode_user_json(json.dumps(content))
    except RecursionError:
        raise InvalidInput("the value is nested too deeply to be sent; use fewer levels") from None
    except InvalidInput:
        raise
    except ValueError as error:
        raise InvalidInput(
            'an object with the one field "$bytes", "$float" or "$int" must have the form of an '
            f'export ({error}); write a name like that with "$$"'
        ) from None


PLAIN = Codec(lambda value: value, lambda answer: answer)
VALUE = Codec(wire.wired, value_of)


def arms_of(hint: object) -> tuple[Any, ...]:
    """Return the types in a union, or a tuple of the single type.

    `Any` is left out if the union has other types.
    """
    arms = get_args(hint) if get_origin(hint) in UNIONS else (hint,)
    return tuple(arm for arm in arms if arm is not Any) or arms


def json_name(name: str, hint: object) -> str:
    """Return the JSON name of the field or argument *name*, which is annotated with *hint*."""
    if name == "set_name":
        return "set"
    arms = arms_of(hint)
    is_bare = timedelta in arms and not any(get_origin(arm) is Literal for arm in arms)
    return f"{name}_s" if is_bare else name


# --- results --------------------------------------------------------------------------------------


def to_json(hint: object, value: object) -> Json:
    """Return *value*, a result annotated with *hint*, as JSON."""
    return codec(hint).encode(value)


def from_json(hint: object, answer: Json) -> Any:  # noqa: ANN401 - of the type *hint*
    """Return the value of type *hint* from a server's JSON."""
    return codec(hint).decode(answer)


@cache
def codec(hint: Any) -> Codec:  # noqa: ANN401 - an annotation
    """Return the codec for results annotated with *hint*."""
    kind, arguments = get_origin(hint), get_args(hint)
    if kind in UNIONS:
        return _optional(arms_of(hint))
    if kind is tuple and arguments[-1] is not ...:
        return _row([codec(each) for each in arguments])
    if kind in (list, tuple, Sequence):
        return _listed(codec(arguments[0]), list if kind is list else tuple)
    if kind in (dict, Mapping):
        return _mapped(codec(arguments[1]))
    if hint in _SPECIAL:
        return _SPECIAL[hint]
    return _fields(hint) if isinstance(hint, type) and is_dataclass(hint) else PLAIN


def _optional(arms: tuple[Any, ...]) -> Codec:
    if bytes in arms:
        return VALUE
    several = next((codec(arm) for arm in arms if get_origin(arm) is list), PLAIN)
    chosen = [made for arm in arms if (made := codec(arm)) not in (PLAIN, several)]
    one, is_text = (chosen or [several])[0], str in arms

    def of(value: object) -> Codec:
        if value is None or (is_text and isinstance(value, str)):
            return PLAIN
        return several if isinstance(value, list) and several is not PLAIN else one

    return (
        PLAIN
        if one is PLAIN
        else Codec(lambda value: of(value).encode(value), lambda answer: of(answer).decode(answer))
    )


def _row(each: Sequence[Codec]) -> Codec:
    return Codec(
        lambda value: [one.encode(part) for one, part in zip(each, value, strict=True)],
        lambda answer: tuple(one.decode(part) for one, part in zip(each, answer, strict=True)),
    )


def _listed(one: Codec, made: Callable[[Iterable[Any]], Any]) -> Codec:
    return Codec(
        lambda value: [one.encode(each) for each in value],
        lambda answer: made(one.decode(each) for each in answer),
    )


def _mapped(one: Codec) -> Codec:
    if one is VALUE:
        return Codec(lambda value: wire.wired(dict(value)), value_of)
    return Codec(
        lambda value: {name: one.encode(each) for name, each in value.items()},
        lambda answer: {name: one.decode(each) for name, each in answer.items()},
    )


def _fields(kind: type[Any]) -> Codec:
    each = [(name, json_name(name, hint), codec(hint)) for name, hint in field_hints(kind).items()]
    return Codec(
        lambda value: {of: one.encode(getattr(value, name)) for name, of, one in each},
        lambda answer: kind(
            **{name: one.decode(answer[of]) for name, of, one in each if of in answer}
        ),
    )


@cache
def field_hints(kind: type[Any], *, given: bool = False) -> Mapping[str, object]:
    """Return a dict from name to annotation, for the fields that a dataclass has in JSON.

    Args:
        given: Whether the dataclass is an argument; otherwise it is a result.
    """
    hints, out = hints_of(kind), (NOT_GIVEN if given else LEFT_OUT).get(kind, ())
    return {each.name: hints[each.name] for each in fields(kind) if each.name not in out}


def _hits(answer: Mapping[str, Any]) -> Hits:
    hits = [from_json(Hit, each) for each in answer["hits"]]
    return Hits(hits, **{name: answer[name] for name in ("partial", "reranker_failure", "dated")})


def _hits_json(hits: Hits) -> Json:
    return {
        "partial": hits.partial,
        "reranker_failure": hits.reranker_failure,
        "dated": hits.dated,
        "hits": [to_json(Hit, hit) for hit in hits],
    }


def _added(answer: Mapping[str, Any]) -> Added:
    made = Added(answer["ids"])
    made.verdicts = from_json(tuple[Verdict, ...], answer["verdicts"])
    return made


def _added_json(made: Added) -> Json:
    return {"ids": [*made], "verdicts": to_json(tuple[Verdict, ...], made.verdicts)}


def _points(answer: Mapping[str, Any]) -> MapPoints:
    import numpy as np

    return MapPoints(
        x=np.array(answer["x"], np.float64),
        y=np.array(answer["y"], np.float64),
        times=np.array(answer["times"], np.int64).astype("datetime64[us]"),
        **{name: answer[name] for name in answer.keys() - {"x", "y", "times"}},
    )


def _points_json(points: MapPoints) -> Json:
    return {
        "x": points.x.tolist(),
        "y": points.y.tolist(),
        "times": points.times.astype("datetime64[us]").astype("int64").tolist(),
        **{name: [*getattr(points, name)] for name in ("ids", "sets", "speakers")},
        **{name: getattr(points, name) for name in ("share", "unplaced", "left_out")},
    }


_SPECIAL: Mapping[Any, Codec] = {
    None: Codec(lambda _: None, lambda _: None),
    Any: VALUE,
    object: VALUE,
    datetime: Codec(format_time, parse_time),
    timedelta: Codec(timedelta.total_seconds, lambda answer: timedelta(seconds=answer)),
    Hits: Codec(_hits_json, _hits),
    Added: Codec(_added_json, _added),
    MapPoints: Codec(_points_json, _points),
    Definition: Codec(lambda kept: wire.wired(kept.to_json()), Definition.from_json),
}


# --- arguments ------------------------------------------------------------------------------------


def argument_json(hint: object, value: object, name: str) -> Json:
    """Return *value*, an argument annotated with *hint*, as JSON.

    Raises:
        NotSent: *value* is not of its annotated type.
        OnlyLocal: *value* works only with a local store.
        InvalidInput: *value* cannot be stored.
    """
    arms = arms_of(hint)
    if value is None and type(None) in arms:
        return None
    if value is ALL and All in arms:
        return ALL.value
    for arm in arms:
        if (origin := get_origin(arm)) is Literal:
            if isinstance(value, str) and value in get_args(arm):
                return value
        elif isinstance(value, _RUNTIME.get(arm, origin or arm)) and not _is_other(value, arm):
            return _ARGUMENTS.get(arm, _argument_json)(arm, value, name)
    raise NotSent(name)


def _is_other(value: object, arm: Any) -> bool:  # noqa: ANN401 - an annotation
    """Return whether *value* does not fit the type *arm*, although `isinstance` accepts it.

    A bool is not a number, and a text is not a list.
    """
    return (
        isinstance(value, bool)
        if arm in (int, float)
        else (isinstance(value, str) and get_origin(arm) in (list, Sequence, Iterable))
    )


def _argument_json(arm: Any, value: Any, name: str) -> Json:  # noqa: ANN401 - of any type
    if arm is timedelta or is_dataclass(arm):
        return to_json(arm, value)
    if get_origin(arm) is tuple:
        return value_json([*value], name)
    if get_origin(arm) in (list, Sequence, Iterable) and not isinstance(value, bytes | bytearray):
        return [argument_json(get_args(arm)[0], each, name) for each in value]
    return value_json(value, name)


def _filter_json(_: object, where: Mapping[str, object], name: str) -> Json:
    Filter.parse(where)
    return value_json(plain_filter(where), name)


def _time_json(_: object, time: datetime, name: str) -> Json:
    return format_time(moment(microseconds(time, name)))


def _reranker_json(_: object, __: object, ___: str) -> Json:
    raise OnlyLocal("rank the hits after the call, or open the server's file or database")


def _item_json(_: object, value: object, __: str) -> Json:
    return item_json(item_from(value))


def item_json(item: Item, given: frozenset[str] | None = None) -> dict[str, Json]:
    """Return a new item, or changes of an item, as JSON.

    Args:
        given: The names of the changed fields, which are all written. None means a new item,
            whose fields are written unless they have default values.

    Raises:
        InvalidInput: The value of a field cannot be stored.
    """
    check_item(item, given)
    plain = cast("dict[str, Any]", request_json(item))
    defaults = cast("dict[str, Any]", request_json(Item(value=None)))
    sent = {
        name: value
        for name, value in plain.items()
        if (value != defaults.get(name) if given is None else name in given)
    }
    for name, hint in field_hints(Item).items():
        if datetime in arms_of(hint) and sent.get(name) is not None:
            sent[name] = format_time(cast("datetime", getattr(item, name)))
    if item.timezone is not None:
        at = datetime.now(UTC) if item.time is None else item.time
        sent["timezone"] = Zone.of(item.timezone).name(at)
    if sent.get("ttl") is not None:
        sent["ttl_s"] = sent.pop("ttl") / 1_000_000
    for name in ("value", "metadata"):
        if name in sent:
            sent[name] = value_json(sent[name])
    for name in given or ():
        sent.setdefault("ttl_s" if name == "ttl" else name, None)
    return sent


_RUNTIME: Mapping[Any, Any] = {float: (int, float), Any: object, Item: object, Filter: Mapping}
"""The classes that `isinstance` accepts for an annotation, if not the annotation itself."""


def _options_json(_: object, options: LearnOptions, __: str) -> Json:
    if options.asking != Asking():
        raise OnlyLocal("leave out LearnOptions(asking=…), which only the server can set")
    return to_json(LearnOptions, options)


def _local_json(_: object, __: object, ___: str) -> Json:
    raise OnlyLocal("`alveus serve --model` sets the model")


def _budget_json(_: object, budget: Budget, __: str) -> Json:
    if budget.counter is not word_pieces:
        raise OnlyLocal("pass a number of tokens instead of Budget(counter=…)")
    return to_json(Budget, budget)


def _said_json(_: object, said: Mapping[str, Any] | Message, name: str) -> Json:
    """Return one or several messages as JSON, unchanged.

    The server, not the client, replaces characters that cannot be part of a text.
    """
    try:
        plain = _plain(said)
    except RecursionError:
        raise NotSent(name) from None
    value_json(valid_text(plain).value, name)
    return wire.wired(cast("Value", plain))


def _plain(said: object) -> object:
    """Return messages as dicts and tuples as lists, at any depth."""
    if isinstance(said, Message):
        return dict(said.to_dict())
    if isinstance(said, Mapping):
        return {name: _plain(each) for name, each in cast("Mapping[str, object]", said).items()}
    if isinstance(said, list | tuple):
        return [_plain(each) for each in cast("Sequence[object]", said)]
    return said


_ARGUMENTS: dict[Any, Callable[[Any, Any, str], Json]] = {
    Filter: _filter_json,
    Item: _item_json,
    Reranker: _reranker_json,
    datetime: _time_json,
    ChatModel: _local_json,
    Summariser: _local_json,
    Budget: _budget_json,
    Mapping[str, Any]: _said_json,
    Message: _said_json,
    ConversationMemory: lambda _, conversation, __: conversation.name,
    Fact: lambda _, fact, __: fact.id,
    LearnReport: lambda _, report, __: [*report.learnings],
    LearnOptions: _options_json,
}


def argument_of(hint: object, sent: Json, talks: Conversations | None = None) -> Any:  # noqa: ANN401 - of any type
    """Return the argument annotated with *hint* from its JSON.

    If the JSON is of another type, it is decoded all the same, and the call checks the result.

    Args:
        talks: Returns the conversation with a name; None if no argument is a conversation.

    Raises:
        InvalidInput: The JSON cannot be read.
    """
    arms = arms_of(hint)
    if talks is not None and ConversationMemory in arms and isinstance(sent, str):
        return talks(sent)
    if datetime in arms and int not in arms and type(sent) in (int, float):
        return parse_time(sent)  # raises, because a number is not a time
    if isinstance(sent, str) and datetime in arms and not _is_literal(sent, arms):
        return int(sent) if int in arms and _COMMIT.fullmatch(sent) else parse_time(sent)
    if isinstance(sent, int | float) and timedelta in arms and not isinstance(sent, bool):
        return _span(sent)
    if sent == ALL.value and All in arms:
        return ALL
    if isinstance(sent, list):
        return _list_of(arms, cast("list[Json]", sent), talks)
    is_free = any(arm is Filter or get_origin(arm) is Mapping for arm in arms)
    kind = next((arm for arm in arms if isinstance(arm, type) and is_dataclass(arm)), None)
    if isinstance(sent, dict) and kind is not None and not is_free:
        return _object_of(kind, cast("dict[str, Json]", sent), talks)
    return value_of(cast("object", sent))


def _list_of(arms: tuple[Any, ...], sent: list[Json], talks: Conversations | None) -> object:
    for arm in arms:
        if get_origin(arm) in (list, Sequence, Iterable):
            return [argument_of(get_args(arm)[0], each, talks) for each in sent]
    found = value_of(sent)
    is_tuple = any(get_origin(arm) is tuple for arm in arms)
    return tuple(cast("list[object]", found)) if is_tuple else found


def _is_literal(sent: str, arms: tuple[Any, ...]) -> bool:
    return any(sent in get_args(arm) for arm in arms if get_origin(arm) is Literal)


def _span(seconds: float) -> timedelta:
    try:
        return timedelta(seconds=seconds)
    except (OverflowError, ValueError):
        raise InvalidInput(f"a duration of {seconds} seconds is too long") from None


def _object_of(kind: type[Any], sent: Mapping[str, Json], talks: Conversations | None) -> object:
    """Return the dataclass of an argument from its JSON object; missing fields get defaults."""
    known = {
        json_name(name, hint): (name, hint) for name, hint in field_hints(kind, given=True).items()
    }
    if unknown := [name for name in sent if name not in known]:
        raise InvalidInput(
            f"{kind.__name__} has no field {unknown[0]!r}; the fields are {', '.join(known)}"
        )
    try:
        made: dict[str, Any] = {"value": None} if kind is Item else {}
        for name, part in sent.items():
            if part is not None:
                made[known[name][0]] = argument_of(known[name][1], part, talks)
        return kind(**made)
    except TypeError as error:
        raise InvalidInput(f"{kind.__name__} cannot be made: {error}") from None
