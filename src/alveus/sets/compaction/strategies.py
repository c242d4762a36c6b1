"""The strategies that come with alveus: frozen values, kept as JSON with the set."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from datetime import timedelta
from typing import Literal, TypeAlias, cast, get_args

from alveus.errors import AlveusError, InvalidInput, StrategyFailed
from alveus.errors.short_repr import short_repr
from alveus.sets.compaction.plans import CompactionPlan, Strategy
from alveus.store.items import Item
from alveus.values import wire
from alveus.values.keywords import suggest_names_in
from alveus.values.lazy_dataclass import dataclass
from alveus.values.storable import Value, choice, counted

By: TypeAlias = Literal["oldest", "importance", "accessed", "score"]

MOST_SOURCES = 10_000
"""How many items a strategy may take at once."""

SUMMARY_TOKENS = 256
LEAST_TOKENS, MOST_TOKENS = 8, 4_000
"""How long a summary may be."""

DAY = timedelta(days=1)


@suggest_names_in
@dataclass(frozen=True, slots=True)
class Trim:
    """Retire items, with nothing in their place.

    Attributes:
        n: How many; None: as many as bring the set down to its low-water mark.
        by: Which go first: the "oldest"; those of the least "importance"; those that were
            "accessed" longest ago; those of the lowest "score", of the weights below. Of equals
            the older one.
        importance, recency, access: Weights of the score: the importance, how young the item is,
            and how lately it was read; the last two are halved with each *half_life*.
        half_life: Of recency and access.
    """

    n: int | None = None
    by: By = "oldest"
    importance: float = 1.0
    recency: float = 1.0
    access: float = 1.0
    half_life: timedelta = 30 * DAY

    def __post_init__(self) -> None:
        """Refuse what could not be done."""
        _check_n(self.n)
        choice(self.by, "Trim's by", *get_args(By))
        for name in ("importance", "recency", "access"):
            _check_number(getattr(self, name), f"Trim's {name}", 0.0, 1000.0)
        if not isinstance(self.half_life, timedelta) or self.half_life <= timedelta(0):  # pyright: ignore[reportUnnecessaryIsInstance] - user input
            raise InvalidInput(
                f"Trim's half_life must be a timedelta above 0: {short_repr(self.half_life)}"
            )


@suggest_names_in
@dataclass(frozen=True, slots=True)
class Summarize:
    """Turn the oldest items into summaries: one per topic, which is what lies near by meaning.

    Items that expire are left alone: they leave by themselves, and would stay in a summary. So
    are those that have yet to begin or to end to hold; what ended is not summed up with what holds.

    Attributes:
        n: How many items; None: as many as bring the set down to its low-water mark, those that
            are no summaries first.
        limit: The most summaries in all. None: one with *n*, else one for every three items.
        max_tokens: The most that one summary has.
        model: "use": the memory's model, if it has one, and where it fails sentences are chosen,
            which the item's metadata says; "need": where the model fails nothing is changed, and
            it is tried again; "never": sentences are chosen.
    """

    n: int | None = None
    limit: int | None = None
    max_tokens: int = SUMMARY_TOKENS
    model: Literal["use", "need", "never"] = "use"

    def __post_init__(self) -> None:
        """Refuse what could not be done."""
        _check_n(self.n, least=2)
        if self.limit is not None:
            counted(self.limit, "Summarize's limit", most=1000)
            if self.n is not None and self.limit >= self.n:
                raise InvalidInput(
                    f"Summarize's limit must be below n: {self.n} items as {self.limit} summaries "
                    "make no room"
                )
        counted(self.max_tokens, "Summarize's max_tokens", least=LEAST_TOKENS, most=MOST_TOKENS)
        choice(self.model, "Summarize's model", "use", "need", "never")


@suggest_names_in
@dataclass(frozen=True, slots=True)
class Merge:
    """Make one of items that say nearly the same; the best of their texts stays.

    The best is the most important one, of those the longest, of those the latest. Items that
    expire, or hold for a time, are merged only with those of the same times.

    Attributes:
        threshold: The cosine from which on two items are nearly the same; texts that are equal
            but for case and white space always are.
        otherwise: What is done if that makes not enough room; None: nothing.
    """

    threshold: float = 0.95
    otherwise: Trim | Summarize | None = None

    def __post_init__(self) -> None:
        """Refuse what could not be done."""
        _check_number(self.threshold, "Merge's threshold", 0.5, 1.0)
        if not isinstance(self.otherwise, (Trim, Summarize, type(None))):  # pyright: ignore[reportUnnecessaryIsInstance] - user input
            raise InvalidInput(
                f"Merge's otherwise must be Trim or Summarize: {short_repr(self.otherwise)}"
            )


BuiltIn: TypeAlias = Trim | Summarize | Merge

_BY_NAME: Mapping[str, type[BuiltIn]] = {"trim": Trim, "summarize": Summarize, "merge": Merge}


def written(strategy: BuiltIn) -> dict[str, Value]:
    """Return a strategy as JSON: its name, and what is not as by default."""
    name = type(strategy).__name__.lower()
    plain: dict[str, Value] = {"name": name}
    for one in fields(strategy):
        value = getattr(strategy, one.name)
        if value != one.default:
            plain[one.name] = _plain(value)
    return plain


def _plain(value: object) -> Value:
    if isinstance(value, (Trim, Summarize, Merge)):
        return written(value)
    if isinstance(value, timedelta):
        return value // timedelta(microseconds=1)
    return cast("Value", value)


def read(plain: Mapping[str, Value]) -> BuiltIn:
    """Return the strategy that JSON stands for.

    Raises:
        InvalidInput: A newer alveus wrote it, or somebody else.
    """
    kind = _BY_NAME.get(str(plain.get("name")))
    settings = {name: value for name, value in plain.items() if name != "name"}
    allowed = (
        set[str]() if kind is None else {f.name for f in fields(kind) if f.default is not MISSING}
    )
    if kind is None or not allowed.issuperset(settings):
        raise InvalidInput(f"this alveus knows no strategy of compaction like {dict(plain)!r}")
    arguments: dict[str, object] = dict(settings)
    if isinstance(half_life := settings.get("half_life"), int):
        try:
            arguments["half_life"] = timedelta(microseconds=half_life)
        except OverflowError:
            raise InvalidInput(f"half_life is too long: {short_repr(half_life)}") from None
    if isinstance(otherwise := settings.get("otherwise"), Mapping):
        arguments["otherwise"] = read(cast("Mapping[str, Value]", otherwise))
    return kind(**arguments)  # pyright: ignore[reportArgumentType]  the classes check themselves


def _check_n(n: int | None, *, least: int = 1) -> None:
    if n is not None:
        counted(n, "n", least=least, most=MOST_SOURCES)


def _check_number(number: object, what: str, least: float, most: float) -> None:
    if type(number) not in (int, float) or not least <= cast("float", number) <= most:
        raise InvalidInput(
            f"{what} must be a number from {least:g} to {most:g}, not {short_repr(number)}"
        )


Planner: TypeAlias = Callable[[Sequence[Item], int | None], CompactionPlan]
"""What a user's strategy comes to: its `plan`, or itself."""

Given: TypeAlias = str | BuiltIn | Strategy | Planner
"""What `compaction=` takes."""

OWN = "own"
"""The name of what is not of alveus, in the JSON that a set keeps."""


@dataclass(frozen=True, slots=True)
class CustomStrategy:
    """A strategy of the user's.

    Attributes:
        at: Where it is: ``module:qualname`` of a function or a class.
    """

    at: str
    plan: Planner


LocalStrategies: TypeAlias = dict[str, Planner]
"""Strategies that cannot be imported, by `CustomStrategy.at`; they work in this process only."""


def stored_form(strategy: object, local_strategies: LocalStrategies) -> str | dict[str, Value]:
    """Return how a set stores what `compaction=` was given.

    A strategy that cannot be imported goes to *local_strategies*.

    Raises:
        InvalidInput: It is no strategy.
    """
    if isinstance(strategy, (Trim, Summarize, Merge)):
        return written(strategy)
    if type(strategy) is str and strategy in ("trim", "reject"):
        return strategy
    plan = getattr(strategy, "plan", None)
    planner = plan if callable(plan) else strategy
    if not callable(planner) or isinstance(strategy, type):
        raise InvalidInput(
            "compaction must be 'trim', 'reject', a Trim, Summarize or Merge, a function (items, "
            "capacity) -> CompactionPlan, or an object with such a plan; "
            f"not {short_repr(strategy)}"
        )
    named = strategy if callable(strategy) and hasattr(strategy, "__qualname__") else type(strategy)
    at = f"{named.__module__}:{named.__qualname__}"
    plain: dict[str, Value] = {"name": OWN, "at": at}
    if named is not strategy and (settings := _settings(strategy)):
        plain["settings"] = settings
    if not _is_found(plain, strategy):
        plain["here"] = True
        local_strategies[at] = cast("Planner", planner)
    return plain


def _settings(strategy: object) -> dict[str, Value]:
    """Return the fields of a dataclass, which make it again."""
    if not is_dataclass(strategy):
        return {}
    return {one.name: cast("Value", getattr(strategy, one.name)) for one in fields(strategy)}


def _is_found(plain: Mapping[str, Value], strategy: object) -> bool:
    """Return whether what is kept leads back to what was given."""
    try:
        wire.encode(dict(plain))
        again = _imported(plain)
    except (AlveusError, TypeError):
        return False
    if type(strategy) is not type(again):
        return False
    return (
        again is strategy
        or again == strategy
        or (not hasattr(strategy, "__dict__") or not vars(strategy))
    )


def name_of(plain: str | Mapping[str, Value]) -> str:
    """Return what errors call a strategy that a set keeps."""
    return plain if isinstance(plain, str) else str(plain.get("at", plain.get("name")))


def restored(
    plain: str | Mapping[str, Value], local_strategies: LocalStrategies
) -> BuiltIn | CustomStrategy | None:
    """Return the strategy that a set keeps; None: its store does what there is to do.

    Raises:
        StrategyFailed: It is a user's, and cannot be found in this process.
        InvalidInput: A newer alveus wrote it.
    """
    if isinstance(plain, str):
        return None
    if plain.get("name") != OWN:
        return read(plain)
    at = str(plain.get("at"))
    if at in local_strategies:
        return CustomStrategy(at, local_strategies[at])
    if plain.get("here"):
        raise StrategyFailed(
            at,
            "has no name that other processes could import, and was not opened with the set here",
        )
    imported = _imported(plain)
    plan = getattr(imported, "plan", imported)
    if not callable(plan):
        raise StrategyFailed(at, "is neither a function nor has it a plan")
    return CustomStrategy(at, cast("Planner", plan))


def _imported(plain: Mapping[str, Value]) -> object:
    at = str(plain.get("at"))
    module, _, name = at.partition(":")
    try:
        named: object = importlib.import_module(module)
        for part in name.split("."):
            named = getattr(named, part)
    except (ImportError, AttributeError, ValueError) as error:
        raise StrategyFailed(at, f"cannot be imported here ({error})") from error
    if not isinstance(named, type):
        return named
    if not callable(getattr(named, "plan", None)):  # no class of another kind is called by a file
        raise StrategyFailed(at, "has no plan(items, capacity)")
    settings = cast("dict[str, object]", plain.get("settings") or {})
    try:
        return named(**settings)
    except Exception as error:  # the edge to other people's code; the cause is kept
        raise StrategyFailed(at, f"cannot be made again ({error!r})") from error
