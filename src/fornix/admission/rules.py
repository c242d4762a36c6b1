"""Rules of the write barrier: frozen values, kept as JSON with the set that they guard."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import chain
from typing import Any, ClassVar, Protocol, TypeVar, cast

from fornix import words
from fornix.admission.injection import injections, unveiled
from fornix.admission.secrets import secrets
from fornix.admission.verdicts import ACCEPT, Candidate, Other, Outcome, Verdict, plain
from fornix.definition import Plan
from fornix.errors import FornixError, InvalidInput, RuleFailed
from fornix.items import Item
from fornix.values import Value, counted

MOST_RULES = 32

F = TypeVar("F", bound="Callable[[Item, Candidate], Verdict]")


class Rule(Protocol):
    """What every rule can do."""

    @property
    def level(self) -> float | None:
        """How alike other items are that it looks at, from 0 to 1; None: at none."""
        ...

    def judge(self, candidate: Candidate) -> Verdict:
        """Return what it says of a candidate."""
        ...

    def to_json(self) -> Plan:
        """Return it as it is kept."""
        ...


class _Rule:
    """A rule of this module: its name and its fields are its JSON."""

    name: ClassVar[str]

    @property
    def level(self) -> float | None:
        """See `Rule.level`."""
        return None

    def judge(self, candidate: Candidate) -> Verdict:
        """See `Rule.judge`."""
        raise NotImplementedError

    def to_json(self) -> Plan:
        """Return it as it is kept."""
        kept: dict[str, Value] = {"rule": self.name}
        for field in fields(cast("Any", self)):
            value = getattr(self, field.name)
            kept[field.name] = [*value] if isinstance(value, tuple) else value
        return kept


def _checked_verdict(verdict: object, *allowed: Outcome) -> None:
    if verdict not in allowed:
        raise InvalidInput(f"verdict must be one of {', '.join(allowed)}, not {verdict!r}")


# --- duplicates -------------------------------------------------------------------------------

_LABELS = ("speaker", "role", "session")


@dataclass(frozen=True, slots=True)
class Exact(_Rule):
    """Items that say the same: equal texts but for case and spacing, and equal values.

    Attributes:
        same: What must be equal besides: of "speaker", "role", "session".
        verdict: "merge" (the id of the item that is there is returned), or "reject".
    """

    same: tuple[str, ...] = ("speaker",)
    verdict: Outcome = "merge"
    name: ClassVar[str] = "exact"

    def __post_init__(self) -> None:
        """Refuse what cannot be asked."""
        _check_same(self, self.same)
        _checked_verdict(self.verdict, "merge", "reject")

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
            if said and _labels(candidate, other, self.same):
                return _duplicate(self.name, self.verdict, other, "it is there already")
        return ACCEPT


@dataclass(frozen=True, slots=True)
class Near(_Rule):
    """Items that say nearly the same, by the words both have.

    Numbers, negations, weekdays, months and names must be the same ones: what differs in one of
    these says something else. Deterministic, whatever the embedder.

    Attributes:
        threshold: The share of the words of both texts that both must have, above 0, at most 1.
        same: What must be equal besides: of "speaker", "role", "session".
        verdict: "merge", "quarantine" or "reject".
    """

    threshold: float = 0.8
    same: tuple[str, ...] = ("speaker",)
    verdict: Outcome = "merge"
    name: ClassVar[str] = "near"

    def __post_init__(self) -> None:
        """Refuse what cannot be asked."""
        if type(self.threshold) not in (int, float) or not 0 < self.threshold <= 1:
            raise InvalidInput(f"threshold is above 0 and at most 1, not {self.threshold!r}")
        object.__setattr__(self, "threshold", float(self.threshold))
        _check_same(self, self.same)
        _checked_verdict(self.verdict, "merge", "quarantine", "reject")

    @property
    def level(self) -> float | None:
        """See `Rule.level`."""
        return self.threshold

    def judge(self, candidate: Candidate) -> Verdict:
        """See `Rule.judge`; an item without words has no near duplicates."""
        mine = candidate.record
        if not words.terms(candidate.text):
            return ACCEPT
        for other, like in candidate.others(self.threshold):
            theirs = other.record
            if mine.value != theirs.value and None not in (mine.value, theirs.value):
                continue
            if _labels(candidate, other, self.same) and agree(candidate.text, theirs.text or ""):
                reason = f"{like:.0%} of its words are those of an item that is there"
                return _duplicate(self.name, self.verdict, other, reason)
        return ACCEPT


def _check_same(rule: Exact | Near, same: object) -> None:
    if not isinstance(same, (list, tuple)) or not set(cast("list[object]", same)) <= {*_LABELS}:
        raise InvalidInput(f"same is a tuple of {', '.join(_LABELS)}, not {same!r}")
    object.__setattr__(rule, "same", tuple(cast("list[str]", same)))


def _labels(candidate: Candidate, other: Other, same: Sequence[str]) -> bool:
    return all(getattr(candidate.record, n) == getattr(other.record, n) for n in same)


def _duplicate(name: str, verdict: Outcome, other: Other, reason: str) -> Verdict:
    into = other.record.id if verdict == "merge" else None
    return Verdict(verdict, reason, name, into)


_WORD = re.compile("[^\\W_]+(?:['\u2019.,:][^\\W_]+)*")

_TELLING = frozenset(
    """
    no not never none nobody nothing neither nor without cannot can't don't doesn't didn't won't
    isn't aren't wasn't weren't wouldn't shouldn't couldn't hasn't haven't hadn't before after above
    below more less most least all only except unless until from to on off up down in out over
    under monday tuesday wednesday thursday friday saturday sunday january february march april may
    june july august september october november december first second third last next one two three
    four five six seven eight nine ten nicht kein keine nie ohne pas jamais sans ni nunca sin não
    nunca sem non mai senza
    """.split()  # noqa: SIM905 - a list of words reads best as text
)


def agree(mine: str, theirs: str) -> bool:
    """Return whether the words in which two texts differ leave what they say as it is.

    They do not if a number is among them, a word that turns the sense (not, before, only …), or a
    name: a word with a capital that does not begin a sentence; or if these stand in another order,
    as do any words about one that sets things against each other (than, over, to …).
    """
    own, other = _WORD.findall(mine), _WORD.findall(theirs)
    if _names(mine) != _names(theirs):
        return False
    a, b = (
        [w.lower().replace("\u2019", "'") for w in own],
        [w.lower().replace("\u2019", "'") for w in other],
    )
    return _told(a) == _told(b) and (_ORDERING.isdisjoint(a) or _in_order(mine, theirs))


_ORDERING = frozenset(
    "than over to from by instead before after rather versus into".split()  # noqa: SIM905 - a list of words reads best as text
)
"""Words between two things that must not change places."""


def _in_order(mine: str, theirs: str) -> bool:
    a, b = words.terms(mine), words.terms(theirs)
    return [term for term in a if term in b] == [term for term in b if term in a]


def _told(tokens: Sequence[str]) -> list[str]:
    return [t for t in tokens if t in _TELLING or any(c.isdigit() for c in t)]


def _names(text: str) -> list[str]:
    found: list[str] = []
    for match in _WORD.finditer(text):
        before = text[: match.start()].rstrip("\"'\u201c\u2018( ")
        if match[0][0].isupper() and before and before[-1] not in ".!?:\n…" and match[0] != "I":
            found.append(match[0])
    return found


# --- size -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Size(_Rule):
    """Items that are too long or too short.

    Attributes:
        max_chars: Most characters of the text.
        min_chars: Fewest characters of the text, blanks around it not counted.
        max_metadata: Most characters of the metadata as JSON.
        verdict: "reject" or "quarantine".
    """

    max_chars: int | None = None
    min_chars: int | None = None
    max_metadata: int | None = None
    verdict: Outcome = "reject"
    name: ClassVar[str] = "size"

    def __post_init__(self) -> None:
        """Refuse what cannot be asked."""
        limits = (self.max_chars, self.min_chars, self.max_metadata)
        for limit in limits:
            if limit is not None:
                counted(limit, "a limit of Size", least=0)
        if limits == (None, None, None):
            raise InvalidInput("Size needs max_chars=, min_chars= or max_metadata=")
        _checked_verdict(self.verdict, "reject", "quarantine")

    def judge(self, candidate: Candidate) -> Verdict:
        """See `Rule.judge`."""
        text, metadata = candidate.text, candidate.record.metadata
        if self.max_chars is not None and len(text) > self.max_chars:
            return self._over("text", len(text), f"at most {self.max_chars:,}")
        if self.min_chars is not None and len(text.strip()) < self.min_chars:
            return self._over("text", len(text.strip()), f"at least {self.min_chars:,}")
        if self.max_metadata is not None and len(metadata) > self.max_metadata:
            return self._over("metadata", len(metadata), f"at most {self.max_metadata:,}")
        return ACCEPT

    def _over(self, what: str, found: int, limit: str) -> Verdict:
        return Verdict(
            self.verdict, f"its {what} has {found:,} characters, {limit} are taken", self.name
        )


# --- contents ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Secrets(_Rule):
    """Items that hold a secret: keys, tokens, passwords in settings or URLs, numbers of cards.

    Attributes:
        verdict: "reject", or "quarantine", which stores the secret.
    """

    verdict: Outcome = "reject"
    name: ClassVar[str] = "secrets"

    def __post_init__(self) -> None:
        """Refuse what cannot be asked."""
        _checked_verdict(self.verdict, "reject", "quarantine")

    def judge(self, candidate: Candidate) -> Verdict:
        """See `Rule.judge`."""
        found = next(secrets(candidate.everything), None)
        if found is None and not candidate.everything.isascii():
            found = next(secrets(unveiled(candidate.everything)), None)
        return (
            ACCEPT
            if found is None
            else Verdict(self.verdict, f"it looks like it holds a secret: {found}", self.name)
        )


@dataclass(frozen=True, slots=True)
class Injection(_Rule):
    """Items with phrases that would command the agent which reads them.

    Attributes:
        verdict: "quarantine" or "reject".
    """

    verdict: Outcome = "quarantine"
    name: ClassVar[str] = "injection"

    def __post_init__(self) -> None:
        """Refuse what cannot be asked."""
        _checked_verdict(self.verdict, "quarantine", "reject")

    def judge(self, candidate: Candidate) -> Verdict:
        """See `Rule.judge`."""
        found = next(injections(candidate.everything), None)
        if found is None:
            return ACCEPT
        return Verdict(self.verdict, f"a phrase in it {found}", self.name)


QUOTED = 5
"""Words in a row that count as quoted."""


@dataclass(frozen=True, slots=True)
class Recalled(_Rule):
    """Items that say again what a search of this process gave lately.

    The hits of the last 32 searches of the same key, or of knowledge, are remembered. An item of
    the same text as one in this set is merged into it; one that quotes hits (five words in a row
    or more) for the better part is rejected, as is one of the same text as a hit of another set.

    Attributes:
        share: The share of its words from which on an item is a quotation, above 0, at most 1.
    """

    share: float = 0.6
    name: ClassVar[str] = "recalled"

    def __post_init__(self) -> None:
        """Refuse what cannot be asked."""
        if type(self.share) not in (int, float) or not 0 < self.share <= 1:
            raise InvalidInput(f"share is above 0 and at most 1, not {self.share!r}")
        object.__setattr__(self, "share", float(self.share))

    def judge(self, candidate: Candidate) -> Verdict:
        """See `Rule.judge`."""
        text = plain(candidate.text)
        heard = candidate.heard() if text else ()
        if not heard:
            return ACCEPT
        for scope, item in heard:
            if plain(item.text or "") == text:
                mine = (scope, item.set_name) == (candidate.scope, candidate.set_name)
                reason = "a search gave it lately"
                outcome: Outcome = "merge" if mine else "reject"
                return Verdict(outcome, reason, self.name, item.id if mine else None)
        quoted = share_quoted(text, (plain(item.text or "") for _, item in heard))
        if quoted < self.share:
            return ACCEPT
        return Verdict("reject", f"a search gave {quoted:.0%} of its words lately", self.name)


def share_quoted(text: str, sources: Iterator[str]) -> float:
    """Return the share of the words of *text* that stand in runs of words of the sources."""
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


# --- one's own --------------------------------------------------------------------------------

_own: dict[str, Callable[[Item, Candidate], Verdict]] = {}


def admission_rule(function: F) -> F:
    """Make a function ``(item, candidate) -> Verdict`` a rule that sets may be guarded by.

    A set keeps where it is found, "module:name"; whoever adds to the set imports that, so it
    stands at the top of a module that all of them have. It is asked again when the set moved on:
    it answers the same each time, and changes nothing.
    """
    name = f"{function.__module__}:{function.__qualname__}"
    if "<" in name:
        raise InvalidInput(f"a rule stands at the top of a module, unlike {name}")
    _own[name] = function
    return function


@dataclass(frozen=True, slots=True)
class Own(_Rule):
    """A rule of one's own, by where it is found: a function that `admission_rule` marked.

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
        except FornixError:
            raise
        except Exception as error:  # the edge to other people's code; the cause is kept
            raise RuleFailed(f"the rule {self.path} raised {type(error).__name__}") from error
        if not isinstance(found, Verdict):  # pyright: ignore[reportUnnecessaryIsInstance] - user code
            raise RuleFailed(f"the rule {self.path} answered {type(found).__name__}, not a Verdict")
        return Verdict(found.outcome, found.reason, found.rule or self.path, found.into)

    def _function(self) -> Callable[[Item, Candidate], Verdict]:
        module = self.path.partition(":")[0]
        if self.path not in _own and module not in sys.modules:
            try:
                importlib.import_module(module)
            except ImportError as error:
                raise RuleFailed(f"the rule {self.path} cannot be imported: {error}") from error
        if self.path not in _own:
            raise RuleFailed(
                f"there is no rule {self.path}; mark the function with @admission_rule, at the top "
                "of a module that whoever adds to the set can import"
            )
        return _own[self.path]


# --- as JSON, and back ------------------------------------------------------------------------

_RULES: dict[str, type[Any]] = {
    rule.name: rule for rule in (Exact, Near, Size, Secrets, Injection, Recalled, Own)
}


def plans(admission: object) -> list[Plan]:
    """Return rules, or functions that are rules, as JSON.

    Raises:
        InvalidInput: It is no list of them.
    """
    if not isinstance(admission, (list, tuple)):
        raise InvalidInput(f"admission is a list of rules, not {admission!r}")
    given = cast("Sequence[object]", admission)
    counted(len(given), "the number of rules", least=0, most=MOST_RULES)
    return [_plan(rule) for rule in given]


def _plan(rule: object) -> Plan:
    if isinstance(rule, _Rule):
        return rule.to_json()
    path = f"{getattr(rule, '__module__', '')}:{getattr(rule, '__qualname__', '')}"
    if _own.get(path) is rule and rule is not None:
        return Own(path).to_json()
    raise InvalidInput(
        f"{rule!r} is no rule of admission; use Exact(), Near(), Size(…), Secrets(), Injection(), "
        "Recalled(), or a function marked with @admission_rule"
    )


def rules_of(stored: Sequence[Plan]) -> list[Rule]:
    """Return the rules that JSON stands for.

    Raises:
        RuleFailed: A rule is unknown to this fornix, or cannot be used.
    """
    return [_rule(plan) for plan in stored]


def _rule(plan: Mapping[str, Value]) -> Rule:
    kind = _RULES.get(str(plan.get("rule")))
    given = {name: value for name, value in plan.items() if name != "rule"}
    if kind is None or not set(given) <= {f.name for f in fields(kind)}:
        raise RuleFailed(
            f"the set has a rule of admission {plan.get('rule')!r} that this fornix does not know; "
            "upgrade fornix, or redefine(admission=…)"
        )
    try:
        return kind(**given)
    except (InvalidInput, TypeError) as error:
        raise RuleFailed(f"the set has a rule that cannot be used: {error}") from error
