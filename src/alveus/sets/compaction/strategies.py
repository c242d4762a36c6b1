"""Compaction strategies: the forms that users write and that a set stores."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import MISSING, field, fields, is_dataclass
from datetime import timedelta
from typing import Any, Literal, Protocol, TypeAlias, cast, get_args, runtime_checkable

from alveus.errors import AlveusError, InvalidInput, InvalidPlan, StrategyFailed
from alveus.errors.short_repr import short_repr
from alveus.store.items import Item, text_of
from alveus.values import wire
from alveus.values.keywords import suggest_names_in
from alveus.values.lazy_dataclass import dataclass
from alveus.values.storable import Value, checked_kind, checked_number, choice, counted


@dataclass(frozen=True)
class Derived:
    """An item that replaces other items, its sources.

    The item's time is the span of its sources' times. Its importance is the highest of its sources
    unless *importance* is given. If all sources have the same role, session or speaker, the item
    has it, too.

    Attributes:
        sources: Ids of the replaced items; they are retired.
        value: Any storable value.
        text: The text for searches, as in `Item`.
    """

    sources: Sequence[str]
    value: Any  # a storable value, as in Item
    text: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])
    importance: float | None = None


@dataclass(frozen=True)
class CompactionPlan:
    """A plan for the items of a set. Items that the plan does not name stay.

    Attributes:
        retire: Ids of items to retire without a replacement.
        add: Items that replace others.
    """

    retire: Sequence[str] = ()
    add: Sequence[Derived] = ()

    @property
    def retired_ids(self) -> list[str]:
        """Ids of all items that the plan retires."""
        return [*self.retire, *(item_id for derived in self.add for item_id in derived.sources)]


_Invalid: TypeAlias = Callable[[str], InvalidPlan]
"""A function that makes the error of a plan from a description of the problem."""


@runtime_checkable
class Strategy(Protocol):
    """The interface of a user's strategy: it plans how to make a set smaller."""

    def plan(self, items: Sequence[Item], capacity: int | None) -> CompactionPlan:
        """Return the plan for *items*.

        The plan is checked before any change, and carried out in one commit or not at all. `plan`
        is called again with the remaining items until there is room. It is also called again if
        another process changed one of the items meanwhile.

        Args:
            items: All items of the set, oldest first.
            capacity: Most items that may remain, so that the items to add have room; None if the
                set has no limit.
        """
        ...


def checked_plan(
    plan: object, *, strategy: str, set_name: str, item_ids: Collection[str]
) -> CompactionPlan:
    """Return *plan* if it can be carried out.

    Args:
        strategy: The name of the strategy for error messages.
        item_ids: Ids of the items of the set.

    Raises:
        InvalidPlan: The plan cannot be carried out; the message names the invalid part.
    """

    def invalid(problem: str) -> InvalidPlan:
        return InvalidPlan(set_name, problem, strategy=strategy)

    if not isinstance(plan, CompactionPlan):
        raise invalid(f"must be a CompactionPlan, not a {type(plan).__name__}")
    retire = _ids(plan.retire, "retire", invalid)
    if not isinstance(plan.add, (list, tuple)):
        raise invalid("must have a list of Derived as its `add`")
    add = [
        _checked_derived(made, f"add[{at}]", invalid)
        for at, made in enumerate(cast("Sequence[object]", plan.add))
    ]
    checked = CompactionPlan(tuple(retire), tuple(add))
    seen = set[str]()
    for item_id in checked.retired_ids:
        if item_id not in item_ids:
            raise invalid(f"names item {item_id!r}, which is not in the set")
        if item_id in seen:
            raise invalid(f"names item {item_id!r} twice")
        seen.add(item_id)
    return checked


def _ids(ids: object, where: str, invalid: _Invalid) -> list[str]:
    if not isinstance(ids, (list, tuple)):
        raise invalid(f"must have a list of ids as its `{where}`")
    listed = cast("Sequence[object]", ids)
    for item_id in listed:
        if not isinstance(item_id, str):
            raise invalid(f"has a {type(item_id).__name__} among the ids of `{where}`")
    return cast("list[str]", list(listed))


def _checked_derived(derived: object, where: str, invalid: _Invalid) -> Derived:
    if not isinstance(derived, Derived):
        raise invalid(f"has a {type(derived).__name__} as {where}, not a Derived")
    sources = _ids(derived.sources, f"{where}.sources", invalid)
    if not sources:
        raise invalid(f"has no sources in {where}; add the ids of the items that it replaces")
    text = text_of(derived.value) if derived.text is None else derived.text
    if not isinstance(text, str) or not text.strip():  # pyright: ignore[reportUnnecessaryIsInstance] - user input
        raise invalid(f"has an empty text in {where}; write a text that replaces the items")
    return Derived(
        tuple(sources), derived.value, derived.text, derived.metadata, derived.importance
    )


By: TypeAlias = Literal["oldest", "importance", "accessed", "score"]

MOST_SOURCES = 10_000
"""Most items that a strategy may take at once."""

SUMMARY_TOKENS = 256
LEAST_TOKENS, MOST_TOKENS = 8, 4_000
"""Fewest and most tokens of a summary."""

DAY = timedelta(days=1)


@suggest_names_in
@dataclass(frozen=True, slots=True)
class Trim:
    """Retire items without a replacement.

    Attributes:
        n: Number of items to retire. By default as many as needed to reach the low-water mark.
        by: The items to retire first: the "oldest" items; the items with the lowest "importance";
            the items "accessed" longest ago; or the items with the lowest "score" by the weights
            below. Of equal items, the older item is retired first.
        importance, recency, access: Weights of the three parts of the score: the importance of the
            item, how young the item is, and how lately it was read.
        half_life: The time after which recency and access count half, a quarter after twice the
            time, and so on.
    """

    n: int | None = None
    by: By = "oldest"
    importance: float = 1.0
    recency: float = 1.0
    access: float = 1.0
    half_life: timedelta = 30 * DAY

    def __post_init__(self) -> None:
        """Raise for invalid settings."""
        _check_n(self.n)
        choice(self.by, "Trim's by", *get_args(By))
        for name in ("importance", "recency", "access"):
            checked_number(getattr(self, name), f"Trim's {name}", least=0, most=1000)
        if not isinstance(self.half_life, timedelta) or self.half_life <= timedelta(0):  # pyright: ignore[reportUnnecessaryIsInstance] - user input
            raise InvalidInput(
                f"half_life of Trim must be a timedelta above 0, not {short_repr(self.half_life)}"
            )


@suggest_names_in
@dataclass(frozen=True, slots=True)
class Summarize:
    """Turn the oldest items into summaries: one per topic, a group of items with near meanings.

    Items with an expiry are skipped: they end by themselves, but their text would stay in a
    summary. Facts whose validity will begin or end in the future are skipped, too. A summary never
    has both ended facts and valid facts.

    Attributes:
        n: Number of items to summarize. By default as many as needed to reach the low-water mark;
            then items that are not summaries are taken first.
        limit: Most summaries that one step makes. By default one if *n* is given, otherwise one for
            every three items.
        max_tokens: Most tokens of one summary.
        model: "use" calls the memory's model, if it has one; if the model fails, the summary
            consists of selected sentences, and its metadata says so. "need" changes nothing if the
            model fails, and tries again later. "never" selects sentences.
    """

    n: int | None = None
    limit: int | None = None
    max_tokens: int = SUMMARY_TOKENS
    model: Literal["use", "need", "never"] = "use"

    def __post_init__(self) -> None:
        """Raise for invalid settings."""
        _check_n(self.n, least=2)
        if self.limit is not None:
            counted(self.limit, "Summarize's limit", most=1000)
            if self.n is not None and self.limit >= self.n:
                raise InvalidInput(
                    f"limit of Summarize must be below n, but {self.limit} is not below {self.n}"
                )
        counted(self.max_tokens, "Summarize's max_tokens", least=LEAST_TOKENS, most=MOST_TOKENS)
        choice(self.model, "Summarize's model", "use", "need", "never")


@suggest_names_in
@dataclass(frozen=True, slots=True)
class Merge:
    """Replace items that say nearly the same by one item with the best of their texts.

    The best text is that of the most important item; of equal items, the longest text, then the
    text of the latest item. Items that expire, or are valid for a limited time, are merged only
    with items that have the same times.

    Attributes:
        threshold: The least cosine of nearly equal items. Texts that differ only in case and white
            space are always merged.
        otherwise: The strategy to use if no items are left to merge and the set is still above its
            high-water mark. By default nothing more is done.
    """

    threshold: float = 0.95
    otherwise: Trim | Summarize | None = None

    def __post_init__(self) -> None:
        """Raise for invalid settings."""
        checked_number(self.threshold, "Merge's threshold", least=0.5, most=1)
        if self.otherwise is not None:
            what = "otherwise of Merge must be Trim or Summarize"
            checked_kind(self.otherwise, Trim | Summarize, what)


BuiltIn: TypeAlias = Trim | Summarize | Merge

_BY_NAME: Mapping[str, type[BuiltIn]] = {"trim": Trim, "summarize": Summarize, "merge": Merge}


def written(strategy: BuiltIn) -> dict[str, Value]:
    """Return a strategy as JSON: its name, and the settings that differ from the defaults."""
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
    """Return the strategy for which `written` returned *plain*.

    Raises:
        InvalidInput: A newer alveus or another program wrote *plain*.
    """
    kind = _BY_NAME.get(str(plain.get("name")))
    settings = {name: value for name, value in plain.items() if name != "name"}
    allowed = (
        set[str]() if kind is None else {f.name for f in fields(kind) if f.default is not MISSING}
    )
    if kind is None or not allowed.issuperset(settings):
        raise InvalidInput(
            f"this alveus does not know the strategy of compaction {dict(plain)!r}; upgrade "
            "alveus, or redefine() the set"
        )
    arguments: dict[str, object] = dict(settings)
    if isinstance(half_life := settings.get("half_life"), int):
        try:
            arguments["half_life"] = timedelta(microseconds=half_life)
        except OverflowError:
            raise InvalidInput(
                f"half_life is longer than a timedelta can be: {short_repr(half_life)}"
            ) from None
    if isinstance(otherwise := settings.get("otherwise"), Mapping):
        arguments["otherwise"] = read(cast("Mapping[str, Value]", otherwise))
    return kind(**arguments)  # pyright: ignore[reportArgumentType]  the classes check themselves


def _check_n(n: int | None, *, least: int = 1) -> None:
    if n is not None:
        counted(n, "n", least=least, most=MOST_SOURCES)


Planner: TypeAlias = Callable[[Sequence[Item], int | None], CompactionPlan]
"""A user's strategy as a function: its `plan`, or the function itself."""

Given: TypeAlias = str | BuiltIn | Strategy | Planner
"""The types that `compaction=` takes."""

CUSTOM = "own"
"""The name of user strategies in the JSON that a set stores."""


@dataclass(frozen=True, slots=True)
class CustomStrategy:
    """A user's strategy.

    Attributes:
        at: The import path of the strategy: ``module:qualname`` of a function or a class.
    """

    at: str
    plan: Planner


LocalStrategies: TypeAlias = dict[str, Planner]
"""Strategies without an import path, by `CustomStrategy.at`; they work in this process only."""


def stored_form(strategy: object, local_strategies: LocalStrategies) -> str | dict[str, Value]:
    """Return the stored form of a `compaction=` argument.

    A strategy that cannot be imported is added to *local_strategies*.

    Raises:
        InvalidInput: *strategy* is not a strategy.
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
    plain: dict[str, Value] = {"name": CUSTOM, "at": at}
    if named is not strategy and (settings := _settings(strategy)):
        plain["settings"] = settings
    if not _is_found(plain, strategy):
        plain["here"] = True
        local_strategies[at] = cast("Planner", planner)
    return plain


def _settings(strategy: object) -> dict[str, Value]:
    """Return the fields of a dataclass, to make an equal strategy from them; otherwise {}."""
    if not is_dataclass(strategy):
        return {}
    return {one.name: cast("Value", getattr(strategy, one.name)) for one in fields(strategy)}


def _is_found(plain: Mapping[str, Value], strategy: object) -> bool:
    """Return whether importing the stored form *plain* returns *strategy*, or an equal object."""
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
    """Return the name of a stored strategy, for errors."""
    return plain if isinstance(plain, str) else str(plain.get("at", plain.get("name")))


def restored(
    plain: str | Mapping[str, Value], local_strategies: LocalStrategies
) -> BuiltIn | CustomStrategy | None:
    """Return the strategy with the stored form *plain*.

    Return None for "trim" and "reject", which the store does itself.

    Raises:
        StrategyFailed: The user's strategy does not exist in this process.
        InvalidInput: A newer alveus or another program wrote the stored form.
    """
    if isinstance(plain, str):
        return None
    if plain.get("name") != CUSTOM:
        return read(plain)
    at = str(plain.get("at"))
    if at in local_strategies:
        return CustomStrategy(at, local_strategies[at])
    if plain.get("here"):
        raise StrategyFailed(
            at,
            "has no name that this process can import; define it at the top of a module, or "
            "open the set with it",
        )
    imported = _imported(plain)
    plan = getattr(imported, "plan", imported)
    if not callable(plan):
        raise StrategyFailed(at, "is neither a function nor an object with a method plan()")
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
    if not callable(getattr(named, "plan", None)):  # a stored path must not call other classes
        raise StrategyFailed(at, "has no method plan(items, capacity)")
    settings = cast("dict[str, object]", plain.get("settings") or {})
    try:
        return named(**settings)
    except Exception as error:  # the edge to a user's code; the cause is kept
        raise StrategyFailed(at, f"cannot be made without arguments ({error!r})") from error
