"""What a caller passes to a runner, as the input that a store keeps."""

from __future__ import annotations

from typing import Any, cast

from fornix import wire
from fornix.errors import InvalidInput
from fornix.events import Event, InputEvent, plain
from fornix.run import Shop
from fornix.scope import Scope
from fornix.store import Input
from fornix.values import checked_name


def input_of(shop: Shop, key: str, value: object, event_id: str | None) -> Input:
    """Return the input that a value, or an event, makes.

    Raises:
        InvalidName: The key is not a non-empty str.
        InvalidValue: The value cannot be stored.
        InvalidInput: The agent has no action for such an event.
    """
    scope = Scope(shop.space, checked_name(key, "a key"))
    event = value if isinstance(value, Event) else InputEvent(value)
    if not shop.plan.asks_for(type(event)):
        raise InvalidInput(
            f"agent {shop.plan.name!r} has no action for {event.type}; mark one with "
            f"@action({event.type})"
        )
    event = event.checked()
    now = shop.engine.clock()
    if event_id is None:
        return Input(scope, wire.encode(plain(event)), now)
    named, salt = checked_name(event_id, "an event id"), shop.engine.store.salt()
    return Input(
        scope,
        wire.encode([event.type_name(), named, None, event.data]),
        now,
        event_id=wire.digest(["event id", scope.space, shop.plan.name, named], salt=salt),
        request=wire.digest([scope.key, event.type_name(), event.data], salt=salt),
        label=named,
    )


def checked_wait(wait_s: float | None) -> None:
    """Raise unless *wait_s* is None or a number of seconds."""
    if wait_s is None or (type(wait_s) in (int, float) and wait_s == wait_s):  # noqa: PLR0124 - NaN
        return
    raise InvalidInput(
        f"wait_s must be a number of seconds, or None for as long as it takes, not {wait_s!r}"
    )


def checked_stop(stop: object) -> None:
    """Raise unless *stop* is None or an event to wait for, of threads or of processes."""
    if stop is not None and not (hasattr(stop, "is_set") and hasattr(stop, "wait")):
        raise InvalidInput(f"stop must be a threading.Event, not {stop!r}")


def parts(each: tuple[Any, ...]) -> tuple[str, object, str | None]:
    """Return key, value and event id of what `LocalRunner.map` was given."""
    if not isinstance(each, tuple) or len(each) not in (2, 3):  # pyright: ignore[reportUnnecessaryIsInstance] - user input
        raise InvalidInput(f"map takes (key, value) or (key, value, event_id), not {each!r}")
    return (*each, None) if len(each) == 2 else cast("Any", each)  # noqa: PLR2004 - a pair
