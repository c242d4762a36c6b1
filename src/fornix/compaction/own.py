"""Strategies that users write: how a set remembers one, and how it is found again."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import TypeAlias, cast

from fornix import wire
from fornix.compaction.plans import CompactionPlan, Strategy
from fornix.compaction.strategies import BuiltIn, Merge, Summarize, Trim, read, written
from fornix.errors import FornixError, InvalidInput, StrategyFailed
from fornix.items import Item
from fornix.values import Value

Planner: TypeAlias = Callable[[Sequence[Item], int | None], CompactionPlan]
"""What a user's strategy comes to: its `plan`, or itself."""

Given: TypeAlias = str | BuiltIn | Strategy | Planner
"""What `compaction=` takes."""

OWN = "own"
"""The name of what is not of fornix, in the JSON that a set keeps."""


@dataclass(frozen=True, slots=True)
class Own:
    """A strategy of the user's.

    Attributes:
        at: Where it is: ``module:qualname`` of a function or a class.
    """

    at: str
    plan: Planner


Known: TypeAlias = dict[str, Planner]
"""Strategies that cannot be imported, by `Own.at`: they serve in the process that brought them."""


def kept(given: object, known: Known) -> str | dict[str, Value]:
    """Return how a set keeps what `compaction=` was given; what has no name goes to *known*.

    Raises:
        InvalidInput: It is no strategy.
    """
    if isinstance(given, (Trim, Summarize, Merge)):
        return written(given)
    if given in ("trim", "reject"):
        return cast("str", given)
    plan = getattr(given, "plan", None)
    planner = plan if callable(plan) else given
    if not callable(planner) or isinstance(given, type):
        raise InvalidInput(
            "compaction must be 'trim', 'reject', a Trim, Summarize or Merge, a function "
            f"(items, capacity) -> CompactionPlan, or an object with such a plan; not {given!r}"
        )
    named = given if callable(given) and hasattr(given, "__qualname__") else type(given)
    at = f"{named.__module__}:{named.__qualname__}"
    found: dict[str, Value] = {"name": OWN, "at": at}
    if named is not given and (settings := _settings(given)):
        found["settings"] = settings
    if not _is_found(found, given):
        found["here"] = True
        known[at] = cast("Planner", planner)
    return found


def as_kept(plain: object) -> str | dict[str, Value]:
    """Return what a set keeps, as it was written down; checked.

    Raises:
        InvalidInput: It stands for no strategy.
    """
    if plain in ("trim", "reject"):
        return cast("str", plain)
    if not isinstance(plain, Mapping):
        raise InvalidInput(
            f'"compaction" must be "trim" or "reject", or a strategy as an object, not {plain!r}'
        )
    found = dict(cast("Mapping[str, Value]", plain))
    if found.get("name") == OWN and isinstance(found.get("at"), str):
        return found
    return written(read(found))


def _settings(given: object) -> dict[str, Value]:
    """Return the fields of a dataclass, which make it again."""
    if not is_dataclass(given):
        return {}
    return {one.name: cast("Value", getattr(given, one.name)) for one in fields(given)}


def _is_found(found: Mapping[str, Value], given: object) -> bool:
    """Return whether what is kept leads back to what was given."""
    try:
        wire.encode(dict(found))
        again = _imported(found)
    except (FornixError, TypeError):
        return False
    if type(given) is not type(again):
        return False
    return again is given or again == given or (not hasattr(given, "__dict__") or not vars(given))


def name_of(plain: str | Mapping[str, Value]) -> str:
    """Return what errors call a strategy that a set keeps."""
    return plain if isinstance(plain, str) else str(plain.get("at", plain.get("name")))


def restored(plain: str | Mapping[str, Value], known: Known) -> BuiltIn | Own | None:
    """Return the strategy that a set keeps; None: its store does what there is to do.

    Raises:
        StrategyFailed: It is a user's, and cannot be found in this process.
        InvalidInput: A newer fornix wrote it.
    """
    if isinstance(plain, str):
        return None
    if plain.get("name") != OWN:
        return read(plain)
    at = str(plain.get("at"))
    if at in known:
        return Own(at, known[at])
    if plain.get("here"):
        raise StrategyFailed(
            at,
            "has no name that other processes could import, and was not opened with the set here",
        )
    made = _imported(plain)
    plan = getattr(made, "plan", made)
    if not callable(plan):
        raise StrategyFailed(at, "is neither a function nor has it a plan")
    return Own(at, cast("Planner", plan))


def _imported(plain: Mapping[str, Value]) -> object:
    at = str(plain.get("at"))
    module, _, name = at.partition(":")
    try:
        found: object = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, ValueError) as error:
        raise StrategyFailed(at, f"cannot be imported here ({error})") from error
    if not isinstance(found, type):
        return found
    settings = cast("dict[str, object]", plain.get("settings") or {})
    try:
        return found(**settings)
    except Exception as error:  # the edge to other people's code; the cause is kept
        raise StrategyFailed(at, f"cannot be made again ({error!r})") from error
