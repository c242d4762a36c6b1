"""Verdicts and rules of the write barrier: frozen values, stored as JSON in a set's definition."""

from __future__ import annotations

import importlib
import re
import sys
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from datetime import date
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, TypeAlias, TypeVar, cast

from alveus.errors import AlveusError, InvalidInput, RuleFailed
from alveus.errors.short_repr import short_repr
from alveus.store import ItemRecord, Scope
from alveus.store.items import Item
from alveus.store.records import local_moment, without_offset
from alveus.store.sets import Plan
from alveus.values import wire, words
from alveus.values.lazy_dataclass import dataclass
from alveus.values.storable import Value, choice, counted, microseconds

if TYPE_CHECKING:
    from alveus.text.statements import Statement


Outcome: TypeAlias = Literal["accept", "merge", "quarantine", "reject"]

OUTCOMES: tuple[Outcome, ...] = ("accept", "merge", "quarantine", "reject")
"""From the mildest to the strictest."""

LONGEST_REASON = 200


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict of a rule on a candidate.

    Attributes:
        outcome: "accept", "merge", "quarantine" or "reject".
        reason: The reason, without the text of the item. At most 200 characters are kept.
        rule: The name of the rule. A custom rule may leave it empty: then its path is filled in.
        into: The id of the existing item for "merge", otherwise None.
    """

    outcome: Outcome
    reason: str = ""
    rule: str = ""
    into: str | None = None

    def __post_init__(self) -> None:
        """Raise unless the outcome, the reason and the id of the verdict match."""
        if self.outcome not in OUTCOMES:
            raise InvalidInput(f"a verdict must be {', '.join(OUTCOMES)}, not {self.outcome!r}")
        if (self.into is None) == (self.outcome == "merge"):
            raise InvalidInput(
                "a verdict 'merge' needs into=, the id of an item; other verdicts take no into="
            )
        if self.outcome != "accept" and not self.reason:
            raise InvalidInput(f"a verdict {self.outcome!r} needs a reason")

    @property
    def strictness(self) -> int:
        """The rank of the outcome, from 0 for "accept". The stricter of two verdicts wins."""
        return OUTCOMES.index(self.outcome)


ACCEPT = Verdict("accept")


class Added(list[str]):
    """The ids that `add_many` returns, in the order of the items; skipped items are left out.

    Attributes:
        verdicts: The verdict on each passed item, in order; empty if the set has no rules.
    """

    verdicts: tuple[Verdict, ...] = ()

    @property
    def skipped(self) -> list[tuple[int, Verdict]]:
        """The rejected items that were left out: their positions and verdicts."""
        return [(at, v) for at, v in enumerate(self.verdicts) if v.outcome == "reject"]


@dataclass(frozen=True, slots=True)
class Other:
    """An item with which a candidate is compared: from the set, or earlier in the same call."""

    record: ItemRecord
    item: Callable[[], Item]


@dataclass(slots=True)
class Candidate:
    """A new item, as rules see it.

    Attributes:
        record: The record that the set would store.
        passed: The item as the caller passed it.
        scope: The key or knowledge of the set.
        set_name: The name of the set.
        now: The time, in microseconds.
        find: Returns all other items that may share at least the given portion of words with the
            candidate; for 1, all items that may say the same.
        recent_hits: Returns the hits of recent searches, each with its scope.
    """

    record: ItemRecord
    passed: Item
    scope: Scope
    set_name: str
    now: int
    find: Callable[[float], Sequence[Other]]
    recent_hits: Callable[[], Sequence[tuple[Scope, Item]]]

    @property
    def item(self) -> Item:
        """The item as passed, with the id that it has or will get."""
        return replace(self.passed, id=self.record.id)

    @property
    def key(self) -> str | None:
        """The key of the set; None for knowledge."""
        return self.scope.key

    @property
    def text(self) -> str:
        """The text that searches read."""
        return self.record.text or ""

    @property
    def everything(self) -> str:
        """All stored contents of the item as text, with a line for each value and its name.

        The contents are the text, the speaker, role and session, the value and the metadata. Bytes
        are read as UTF-8.
        """
        passed = self.passed
        parts = [self.text, passed.speaker or "", passed.role or "", passed.session or ""]
        if self.record.value is not None:
            parts.extend(_spelled(passed.value))
        parts.extend(_spelled(dict(passed.metadata)))
        return "\n".join(part for part in parts if part)

    def alike(self, threshold: float) -> list[tuple[Item, float]]:
        """Return similar items of the set with their shares of common words, most similar first.

        An item is returned if its share is at least *threshold*. A share of 1.0 means the same
        words.
        """
        found = [(other.item(), like) for other, like in self.others(threshold)]
        return [(item, like) for item, like in found if item.id is not None]

    def others(self, threshold: float) -> list[tuple[Other, float]]:
        """Return the same items and shares as `alike`, with the items in their stored form."""
        checked_share(threshold, "a threshold")
        found: list[tuple[Other, float]] = []
        there = self.find(threshold)
        mine = set(words.terms(self.text)) if there else set[int]()
        for other in there:
            like = jaccard(mine, set(words.terms(other.record.text or "")))
            if like >= threshold:
                found.append((other, like))
        return sorted(found, key=lambda pair: -pair[1])


def _spelled(value: Value, name: str = "") -> Iterator[str]:
    """Yield the names and values in *value*, without JSON's escapes."""
    if isinstance(value, dict):
        for key, one in value.items():
            yield from _spelled(one, f'"{key}": ')
        return
    if isinstance(value, list):
        for one in value:
            yield from _spelled(one, name)
        return
    if isinstance(value, bytes):
        value = value.decode(errors="replace")
    yield name + (value if isinstance(value, str) else wire.encode(value))


def jaccard(mine: set[int], theirs: set[int]) -> float:
    """Return the share of the words of two texts that occur in both; 1.0 if neither has words."""
    if not (mine or theirs):
        return 1.0
    both = len(mine & theirs)
    return both / (len(mine) + len(theirs) - both)


def plain(text: str) -> str:
    """Return *text* in the form in which texts are compared: lower case, single spaces."""
    return " ".join(unicodedata.normalize("NFC", text).lower().split())


def strictest(verdicts: Iterable[Verdict]) -> Verdict:
    """Return the strictest verdict; of equally strict verdicts, the first.

    Verdicts after a rejection are not read.
    """
    worst = ACCEPT
    for verdict in verdicts:
        if verdict.strictness > worst.strictness:
            worst = verdict
        if worst.outcome == "reject":
            break
    return worst


class Rule(Protocol):
    """The interface of rules."""

    @property
    def level(self) -> float | None:
        """The least similarity, from 0 to 1, of the other items with which the rule compares.

        None if the rule compares with no other items.
        """
        ...

    def judge(self, candidate: Candidate) -> Verdict:
        """Return the verdict on a candidate."""
        ...

    def to_json(self) -> Plan:
        """Return the rule in its stored form."""
        ...


class BundledRule(ABC):
    """A rule of alveus, stored as its name and its fields."""

    name: ClassVar[str]
    outcomes: ClassVar[tuple[Outcome, ...]] = ()
    """The outcomes that the rule's field `verdict` may have; empty for a rule without the field."""

    def __post_init__(self) -> None:
        """Raise for invalid settings."""
        if self.outcomes:
            choice(getattr(self, "verdict", None), "verdict", *self.outcomes)

    @property
    def level(self) -> float | None:
        """See `Rule.level`."""
        return None

    @abstractmethod
    def judge(self, candidate: Candidate) -> Verdict:
        """See `Rule.judge`."""

    def to_json(self) -> Plan:
        """Return the rule in its stored form."""
        return {"rule": self.name, **wire.fields_as_json(self)}


def checked_share(share: object, what: str) -> float:
    """Return *share* if it is a number above 0, and at most 1."""
    if type(share) not in (int, float) or not 0 < cast("float", share) <= 1:
        raise InvalidInput(f"{what} must be above 0, at most 1, not {short_repr(share)}")
    return float(cast("float", share))


MOST_RULES = 32

F = TypeVar("F", bound="Callable[[Item, Candidate], Verdict]")


# --- duplicates -------------------------------------------------------------------------------

_LABELS = ("speaker", "role", "session")


@dataclass(frozen=True, slots=True)
class Exact(BundledRule):
    """Rule against equal items: equal values, and texts that differ only in case and spacing.

    Attributes:
        same: Further fields that must be equal: any of "speaker", "role" and "session".
        verdict: "merge" (`add` returns the id of the existing item), or "reject".
    """

    same: tuple[str, ...] = ("speaker",)
    verdict: Outcome = "merge"
    name: ClassVar[str] = "exact"
    outcomes: ClassVar[tuple[Outcome, ...]] = ("merge", "reject")

    def __post_init__(self) -> None:
        """Raise for invalid settings."""
        BundledRule.__post_init__(self)
        _check_same(self, self.same)

    @property
    def level(self) -> float | None:
        """See `Rule.level`."""
        return 1.0

    def judge(self, candidate: Candidate) -> Verdict:
        """See `Rule.judge`; an item without text has no duplicates."""
        mine, text = candidate.record, plain(candidate.text)
        if not text:
            return ACCEPT
        for other, _ in candidate.others(1.0):
            theirs = other.record
            said = plain(theirs.text or "") == text and mine.value == theirs.value
            if said and _alike(candidate, theirs, self.same):
                return _duplicate(self.name, self.verdict, other, "the set has an equal item")
        return ACCEPT


@dataclass(frozen=True, slots=True)
class Near(BundledRule):
    """Rule against items that say the same in nearly the same words; see `alveus.text.statements`.

    Articles, contractions, the spelling of numbers and dates, "please" and the position of a phrase
    such as "on Monday" may differ; a word, its form, a number, a name, the order or a question mark
    may not. The rule is deterministic and does not depend on the embedder.

    Attributes:
        threshold: The least share of common words in all words of the two texts, above 0, at most
            1. Below 1, nouns, verbs and the like may differ to this extent, but no names or other
            words.
        same: Further fields that must be equal: any of "speaker", "role" and "session".
        verdict: "merge", "quarantine" or "reject".
    """

    threshold: float = 1.0
    same: tuple[str, ...] = ("speaker",)
    verdict: Outcome = "merge"
    name: ClassVar[str] = "near"
    outcomes: ClassVar[tuple[Outcome, ...]] = ("merge", "quarantine", "reject")

    def __post_init__(self) -> None:
        """Raise for invalid settings."""
        BundledRule.__post_init__(self)
        object.__setattr__(self, "threshold", checked_share(self.threshold, "threshold"))
        _check_same(self, self.same)

    @property
    def level(self) -> float | None:
        """See `Rule.level`."""
        return self.threshold

    def judge(self, candidate: Candidate) -> Verdict:
        """See `Rule.judge`; an item without words has no near duplicates."""
        from alveus.text.statements import statement  # its patterns take a while to compile

        if not words.terms(candidate.text):
            return ACCEPT
        others = [(other, 1.0) for other in candidate.find(1.0)]
        if self.threshold < 1:
            others += candidate.others(self.threshold)
        mine = statement(candidate.text) if others else None
        for other, like in others:
            if mine is not None and self._is_same(candidate, other, mine, like):
                reason = "it has the same meaning as an item in the set"
                if like < 1:
                    reason = f"{like:.0%} of its words are those of an item in the set"
                return _duplicate(self.name, self.verdict, other, reason)
        return ACCEPT

    def _is_same(self, candidate: Candidate, other: Other, mine: Statement, like: float) -> bool:
        value, theirs = candidate.record.value, other.record
        if value != theirs.value and None not in (value, theirs.value):
            return False
        if not _alike(candidate, theirs, self.same):
            return False
        from alveus.text.statements import statement

        said = statement(theirs.text or "")
        if not (mine.says_the_same(said) or (like < 1 and mine.differs_in_content(said))):
            return False
        return not mine.is_relative or _day(other, candidate.now) == _day(candidate, candidate.now)


def _day(one: Other | Candidate, now: int) -> date:
    """Return the day of an item in the item's time zone.

    If a new item has no time, return the current day.
    """
    time = one.record.time
    if time is None and isinstance(one, Other) and (said := one.item().time) is not None:
        time = microseconds(said)
    return local_moment(now if time is None else time, one.record.metadata).date()


def _check_same(rule: Exact | Near, same: object) -> None:
    if not isinstance(same, (list, tuple)) or not set(cast("list[object]", same)) <= {*_LABELS}:
        raise InvalidInput(f"same must be a tuple of {', '.join(_LABELS)}, not {same!r}")
    object.__setattr__(rule, "same", tuple(cast("list[str]", same)))


def _alike(candidate: Candidate, theirs: ItemRecord, same: Sequence[str]) -> bool:
    mine = candidate.record
    return lasts(theirs, mine, now=candidate.now) and all(
        getattr(mine, name) == getattr(theirs, name) for name in same
    )


def lasts(theirs: ItemRecord, mine: ItemRecord, *, now: int) -> bool:
    """Return whether *theirs* can stand in for *mine*: it is valid and kept at least as long.

    It cannot if it becomes valid later, or if its validity or lifetime ends sooner.
    """
    begins = now if mine.valid_from is None else mine.valid_from
    return (
        (theirs.valid_from is None or theirs.valid_from <= begins)
        and _no_sooner(theirs.valid_to, mine.valid_to)
        and _no_sooner(theirs.expires, mine.expires)
    )


def _no_sooner(theirs: int | None, mine: int | None) -> bool:
    return theirs is None or (mine is not None and theirs >= mine)


def _duplicate(name: str, verdict: Outcome, other: Other, reason: str) -> Verdict:
    into = other.record.id if verdict == "merge" else None
    return Verdict(verdict, reason, name, into)


# --- size -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Size(BundledRule):
    """Rule against items that are too long or too short.

    Attributes:
        max_chars: Most characters of the text.
        min_chars: Fewest characters of the text without the blanks around it.
        max_metadata: Most characters of the metadata as JSON.
        verdict: "reject" or "quarantine".
    """

    max_chars: int | None = None
    min_chars: int | None = None
    max_metadata: int | None = None
    verdict: Outcome = "reject"
    name: ClassVar[str] = "size"
    outcomes: ClassVar[tuple[Outcome, ...]] = ("reject", "quarantine")

    def __post_init__(self) -> None:
        """Raise for invalid settings."""
        BundledRule.__post_init__(self)
        limits = (self.max_chars, self.min_chars, self.max_metadata)
        for limit in limits:
            if limit is not None:
                counted(limit, "a limit of Size", least=0)
        if limits == (None, None, None):
            raise InvalidInput("Size needs max_chars=, min_chars= or max_metadata=")

    def judge(self, candidate: Candidate) -> Verdict:
        """See `Rule.judge`."""
        text, metadata = candidate.text, without_offset(candidate.record.metadata)
        if self.max_chars is not None and len(text) > self.max_chars:
            return self._over("text", len(text), f"at most {self.max_chars:,}")
        if self.min_chars is not None and len(text.strip()) < self.min_chars:
            return self._over("text", len(text.strip()), f"at least {self.min_chars:,}")
        if self.max_metadata is not None and len(metadata) > self.max_metadata:
            return self._over("metadata", len(metadata), f"at most {self.max_metadata:,}")
        return ACCEPT

    def _over(self, what: str, found: int, limit: str) -> Verdict:
        return Verdict(
            self.verdict, f"its {what} has {found:,} characters; {limit} are accepted", self.name
        )


# --- contents ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Secrets(BundledRule):
    """Rule against secrets: keys, tokens, passwords in settings or URLs, card numbers.

    Attributes:
        verdict: "reject", or "quarantine", which stores the secret.
    """

    verdict: Outcome = "reject"
    name: ClassVar[str] = "secrets"
    outcomes: ClassVar[tuple[Outcome, ...]] = ("reject", "quarantine")

    def judge(self, candidate: Candidate) -> Verdict:
        """See `Rule.judge`."""
        from alveus.sets.admission.secrets import secrets

        found = next(secrets(candidate.everything), None)
        return (
            ACCEPT
            if found is None
            else Verdict(self.verdict, f"it seems to contain a secret: {found}", self.name)
        )


@dataclass(frozen=True, slots=True)
class Injection(BundledRule):
    """Rule against phrases that command the agent that reads the item.

    What only reports commands nobody: in an item with the role "tool", "function", "agent",
    "document", "page" or "web", or with the metadata "source" or "url" that is a URL, orders are
    found that a user may give.

    Attributes:
        verdict: "quarantine" or "reject".
    """

    verdict: Outcome = "quarantine"
    name: ClassVar[str] = "injection"
    outcomes: ClassVar[tuple[Outcome, ...]] = ("quarantine", "reject")

    def judge(self, candidate: Candidate) -> Verdict:
        """See `Rule.judge`."""
        from alveus.sets.admission.injection import injections

        role = candidate.record.role
        if _is_from_page(candidate.passed.metadata):
            role = "page"
        found = next(injections(candidate.everything, role=role), None)
        if found is None:
            return ACCEPT
        return Verdict(self.verdict, f"a phrase in it {found}", self.name)


def _is_from_page(metadata: Mapping[str, object]) -> bool:
    """Return whether an item says that a web page is its source."""
    return any(
        isinstance(metadata.get(name), str) and "://" in str(metadata[name])
        for name in ("source", "url")
    )


_WORD = re.compile("[^\\W_]+(?:['\u2019.,:][^\\W_]+)*")
"""A word or a number, with the characters that join its parts."""

QUOTED = 5
"""Least number of equal words in a row that count as a quotation."""


@dataclass(frozen=True, slots=True)
class Recalled(BundledRule):
    """Rule against items that repeat a recent hit of this process.

    The hits of the last 32 searches of the same key, or of knowledge, are cached. If a new item has
    the same text as a hit of its set, it is merged into the hit, provided that the hit still exists
    and stays valid at least as long. A new item with the same text as a hit of another set is
    rejected. A new item is also rejected if it consists mostly of quotations from hits: five or
    more words in a row.

    Attributes:
        share: The least share of quoted words for which an item is rejected, above 0, at most 1.
    """

    share: float = 0.6
    name: ClassVar[str] = "recalled"

    def __post_init__(self) -> None:
        """Raise for invalid settings."""
        object.__setattr__(self, "share", checked_share(self.share, "share"))

    def judge(self, candidate: Candidate) -> Verdict:
        """See `Rule.judge`."""
        text = plain(candidate.text)
        hits = candidate.recent_hits() if text else ()
        reason, others = "a search returned it lately", list[str]()
        for scope, item in hits:
            if plain(item.text or "") != text:
                others.append(plain(item.text or ""))
            elif (scope, item.set_name) != (candidate.scope, candidate.set_name):
                return Verdict("reject", reason, self.name)
            elif _stays(candidate, item):
                return Verdict("merge", reason, self.name, item.id)
        quoted = share_quoted(text, iter(others))
        if quoted < self.share:
            return ACCEPT
        return Verdict("reject", f"a search returned {quoted:.0%} of its words lately", self.name)


def _stays(candidate: Candidate, found: Item) -> bool:
    """Return whether a found item still exists, and is valid and kept as long as the candidate."""
    return any(
        other.record.id == found.id and lasts(other.record, candidate.record, now=candidate.now)
        for other, _ in candidate.others(1.0)
    )


def share_quoted(text: str, sources: Iterator[str]) -> float:
    """Return the share of the words of *text* that are quoted from *sources*.

    A word is quoted if it is part of `QUOTED` words in a row that occur in a source, too.
    """
    mine = _WORD.findall(text)
    if len(mine) < QUOTED:
        return 0.0
    known = set(chain.from_iterable(map(_runs, map(_WORD.findall, sources))))
    quoted = [False] * len(mine)
    for at, run in enumerate(_runs(mine)):
        if run in known:
            quoted[at : at + QUOTED] = [True] * QUOTED
    return sum(quoted) / len(mine)


def _runs(tokens: Sequence[str]) -> Iterator[tuple[str, ...]]:
    return zip(*(tokens[at:] for at in range(QUOTED)), strict=False)


# --- custom rules -----------------------------------------------------------------------------

_marked: dict[str, Callable[[Item, Candidate], Verdict]] = {}


def admission_rule(function: F) -> F:
    """Make a function ``(item, candidate) -> Verdict`` a rule for sets.

    A set stores the path of the function, "module:name". Each process that adds to the set imports
    the function, so it must be at the top level of a module that all these processes have. The
    function is called again if the set changes meanwhile: it must return the same verdict each
    time, and change nothing.
    """
    name = f"{function.__module__}:{function.__qualname__}"
    if "<" in name:
        raise InvalidInput(f"a rule must be a function at the top of a module, unlike {name}")
    _marked[name] = function
    return function


@dataclass(frozen=True, slots=True)
class CustomRule(BundledRule):
    """A user's rule: the function with this path, which `admission_rule` marked.

    Attributes:
        path: "module:name".
    """

    path: str
    name: ClassVar[str] = "own"

    def judge(self, candidate: Candidate) -> Verdict:
        """See `Rule.judge`."""
        function = self._function()
        try:
            found = function(candidate.item, candidate)
        except AlveusError:
            raise
        except Exception as error:  # the edge to a user's code; the cause is kept
            raise RuleFailed(f"rule {self.path} raised {type(error).__name__}") from error
        if not isinstance(found, Verdict):  # pyright: ignore[reportUnnecessaryIsInstance] - user code
            raise RuleFailed(f"rule {self.path} must return a Verdict, not {type(found).__name__}")
        return Verdict(found.outcome, found.reason, found.rule or self.path, found.into)

    def _function(self) -> Callable[[Item, Candidate], Verdict]:
        module = self.path.partition(":")[0]
        if self.path not in _marked and module not in sys.modules:
            try:
                importlib.import_module(module)
            except ImportError as error:
                raise RuleFailed(f"rule {self.path} cannot be imported: {error}") from error
        if self.path not in _marked:
            raise RuleFailed(
                f"there is no rule {self.path}; mark the function with @admission_rule, at the "
                "top of a module that every process can import"
            )
        return _marked[self.path]


# --- as JSON, and back ------------------------------------------------------------------------

_RULES: dict[str, type[Any]] = {
    rule.name: rule for rule in (Exact, Near, Size, Secrets, Injection, Recalled, CustomRule)
}


def plans(admission: object) -> list[Plan]:
    """Return the stored form of rules, and of functions that are rules.

    Raises:
        InvalidInput: *admission* is not a list of rules.
    """
    if not isinstance(admission, (list, tuple)):
        raise InvalidInput(f"admission must be a list of rules, not {short_repr(admission)}")
    given = cast("Sequence[object]", admission)
    counted(len(given), "the number of rules", least=0, most=MOST_RULES)
    return [_plan(rule) for rule in given]


def _plan(rule: object) -> Plan:
    if isinstance(rule, BundledRule):
        return rule.to_json()
    path = f"{getattr(rule, '__module__', '')}:{getattr(rule, '__qualname__', '')}"
    if _marked.get(path) is rule and rule is not None:
        return CustomRule(path).to_json()
    raise InvalidInput(
        f"{short_repr(rule)} is not a rule of admission; use Exact(), Near(), Size(…), "
        "Secrets(), Injection(), Recalled(), or a function marked with @admission_rule"
    )


def rules_of(stored: Sequence[Plan]) -> list[Rule]:
    """Return the rules from their stored form.

    Raises:
        RuleFailed: This version of alveus does not know a rule, or a rule cannot be used.
    """
    return [_rule(plan) for plan in stored]


def _rule(plan: Mapping[str, Value]) -> Rule:
    kind = _RULES.get(str(plan.get("rule")))
    given = {name: value for name, value in plan.items() if name != "rule"}
    if kind is None or not set(given) <= {f.name for f in fields(kind)}:
        raise RuleFailed(
            f"this alveus does not know the rule of admission {plan.get('rule')!r} of the set; "
            "upgrade alveus, or redefine(admission=…)"
        )
    try:
        return kind(**given)
    except (InvalidInput, TypeError) as error:
        raise RuleFailed(f"the set has a rule of admission that cannot be used: {error}") from error
