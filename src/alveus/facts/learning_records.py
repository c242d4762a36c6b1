"""Records of learning: read positions, answers of models, and the changes of each learning."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, cast

from alveus.errors import DuplicateItem, InvalidInput, NotFound, StaleItem
from alveus.facts.fact import Learning
from alveus.sets.commits import CommitWriter
from alveus.sets.set_editor import SetEditor
from alveus.sets.writer import Engine, NewId, PlannedWrite, Writer
from alveus.store import (
    Add,
    AdmissionCheck,
    Define,
    ItemChange,
    ItemRecord,
    Link,
    Replace,
    Scope,
    SetRef,
    StoredItem,
)
from alveus.store.items import Item
from alveus.store.records import item_of
from alveus.store.scope import HIDDEN
from alveus.values import wire
from alveus.values.lazy_dataclass import dataclass
from alveus.values.retries import call_with_retries
from alveus.values.storable import Value, as_dict, as_list

RECORDS = f"{HIDDEN}learning"
"""The hidden set of a key with positions and learnings: numbers and ids, no text of messages."""

ANSWERS = f"{HIDDEN}learning/answers"
"""The hidden set of a key with answers of models that are not yet committed as facts.

The answer is deleted when its facts are committed: the facts have its contents.
"""

POSITION = "position/"
"""Prefix of the ids of read positions. The name of a conversation follows the prefix."""

LEARNING = "learning/"
"""Prefix of the ids of learnings."""


OPEN_END = (1 << 62) - 1
"""A number above the row of every message: the last row of a range without an end."""


class RowRange(NamedTuple):
    """A range of unread messages, by their first rows.

    Attributes:
        after: The last row before the range.
        until: The last row of the range.
        failures: Number of calls in a row without a usable answer about these messages.
    """

    after: int
    until: int
    failures: int = 0


CALLS = "calls"
"""The id of the record that counts model calls, in the set of the space's knowledge."""


class ReadPosition(NamedTuple):
    """The read position of a conversation.

    Attributes:
        row: The first row of the last message that was read; 0 if no message was read.
        version: The version of the position's record; 0 if there is no record yet.
        failures: Number of calls in a row that failed at the messages after the position.
        skipped: Ranges of messages before the position that were set aside, in order.
    """

    row: int = 0
    version: int = 0
    failures: int = 0
    skipped: tuple[RowRange, ...] = ()

    def ranges(self) -> tuple[RowRange, ...]:
        """Return the unread ranges: first the ranges that were set aside, then the rest."""
        return (*self.skipped, RowRange(self.row, OPEN_END, self.failures))

    def failures_of(self, row: int) -> int | None:
        """Return the number of calls that failed at a message, or None if the message was read.

        Args:
            row: The first row of the message.
        """
        found = next((one for one in self.ranges() if one.after < row <= one.until), None)
        return None if found is None else found.failures

    @classmethod
    def of(cls, waiting: Sequence[tuple[int, int | None]], version: int) -> ReadPosition:
        """Return the position that has read and set aside the given messages.

        Args:
            waiting: The first row of each message, in order, and the number of calls that failed at
                the message; None instead of the number if the message was read.
            version: The version of the position's record.
        """
        row = max((row for row, failures in waiting if failures is None or failures), default=0)
        skipped: list[RowRange] = []
        before = 0
        for at, failures in waiting:
            if failures is not None and at <= row:
                last = skipped[-1] if skipped else RowRange(0, 0, -1)
                if (last.until, last.failures) == (before, failures):
                    skipped[-1] = last._replace(until=at)
                else:
                    skipped.append(RowRange(before, at, failures))
            before = at
        return cls(row, version, 0, tuple(skipped))

    def moved(self, part: RowRange, last: int) -> ReadPosition:
        """Return the new position after the messages in *part* up to row *last* were read."""
        if part.until == OPEN_END:
            return self._replace(row=last, failures=0)
        rest = [part._replace(after=last)] if last < part.until else []
        return self._replace(skipped=self._with(part, rest))

    def failed(self, part: RowRange, last: int, *, tries: int) -> ReadPosition:
        """Return the new position after a call failed at the messages in *part* up to row *last*.

        After *tries* failures the messages are set aside, and the messages after them are next.
        """
        failures = part.failures + 1
        if part.until != OPEN_END:
            last = min(last, part.until)
            rest = [part._replace(after=last)] if last < part.until else []
            return self._replace(
                skipped=self._with(part, [RowRange(part.after, last, failures), *rest])
            )
        if failures < tries:
            return self._replace(failures=failures)
        skipped = (*self.skipped, RowRange(self.row, last, failures))
        return self._replace(row=last, failures=0, skipped=skipped)

    def _with(self, part: RowRange, parts: Sequence[RowRange]) -> tuple[RowRange, ...]:
        return tuple(sorted([*(one for one in self.skipped if one.after != part.after), *parts]))


@dataclass(frozen=True, slots=True)
class LearningChanges:
    """The changes that a learning made, with all that is needed to undo the learning.

    Attributes:
        id: The id of the learning.
        added: Ids of added facts.
        changed: For the id of each changed fact: the row of the version before the change, and the
            number of the new version.
        taken_back: For the id of each retired fact: the row of its last version.
    """

    id: str
    added: tuple[str, ...]
    changed: Mapping[str, tuple[int, int]]
    taken_back: Mapping[str, int]

    @property
    def facts(self) -> set[str]:
        """Ids of all facts that the learning added, changed or retired."""
        return {*self.added, *self.changed, *self.taken_back}


class LearningRecords:
    """The current records of learning of one key."""

    def __init__(self, writer: Writer, scope: Scope) -> None:
        self.scope = scope
        self._records = SetEditor(writer, SetRef(scope, RECORDS), purges=True)
        self._answers = SetEditor(writer, SetRef(scope, ANSWERS), purges=True)

    def checks(self) -> list[AdmissionCheck]:
        """Return the admission checks for a commit of records, which no rule of the key judges."""
        sets = (self._records, self._answers)
        return [check for one in sets for check in one.writer.rules_check(one.ref)]

    def definitions(self) -> list[Define]:
        """Return the definition of the set of these records, if it must be committed.

        The set keeps no earlier versions: no caller reads them, and the position and the count of
        calls change with each model call.
        """
        return self._records.definitions()

    # --- positions ------------------------------------------------------------------------------

    def position(self, conversation: str) -> ReadPosition:
        """Return the read position of a conversation."""
        return read_position(self._records.one(POSITION + conversation))

    def moved(self, conversation: str, position: ReadPosition) -> ItemChange:
        """Return the change that records a read position.

        The commit fails with `StaleItem` or `DuplicateItem` if another process changed the record
        since the version in *position*.
        """
        value: dict[str, Value] = {
            "row": position.row,
            "failures": position.failures,
            "skipped": [[*one] for one in position.skipped],
        }
        record = self._record(POSITION + conversation, value)
        if position.version:
            return Replace(self._records.ref, position.version, record)
        return Add(self._records.ref, record)

    def move(self, conversation: str, position: ReadPosition) -> None:
        """Commit a read position alone; see `moved` for the errors."""
        change = self.moved(conversation, position)
        self._records.change("read position", [conversation], [change])

    def mark(self, conversation: SetRef, learnt: Container[str], failed: Mapping[str, int]) -> None:
        """Record the messages of a conversation that were read or set aside in another store.

        Other messages stay unread. A repetition changes nothing.

        Args:
            learnt: Ids of messages that were read there.
            failed: Number of calls that failed there at a message, by the id of the message.
        """
        talk = SetEditor(self._records.writer, conversation)

        def plan(_: NewId) -> PlannedWrite:
            position = self.position(conversation.name)
            found: list[tuple[int, int | None]] = []
            for stored in talk.items():
                name, failures = stored.record.id, position.failures_of(stored.first)
                if failures is not None and name in learnt:
                    failures = None
                elif failures is not None:
                    failures = failed.get(name, failures if stored.first <= position.row else 0)
                found.append((stored.first, failures))
            marked = ReadPosition.of(sorted(found), position.version)
            is_known = position.version and marked == position._replace(failures=0)
            return self._records.plan([] if is_known else [self.moved(conversation.name, marked)])

        self._records.commit("mark as learnt", [conversation.name], plan)

    # --- answers --------------------------------------------------------------------------------

    def answer(self, name: Sequence[Value]) -> Mapping[str, Any] | None:
        """Return the recorded answer to the request with a name, or None if there is none.

        A used answer is deleted, so it is not found here.
        """
        stored = self._answers.one(self._answer_id(name))
        return None if stored is None else _value(stored)

    def record_answer(
        self, name: Sequence[Value], value: Mapping[str, Value], links: Sequence[Link]
    ) -> Mapping[str, Any]:
        """Record an answer; return it, or the answer that another process recorded first.

        Args:
            name: The name of the request. Its first part is the conversation.
            links: The sources of the answer. If a source is forgotten, the answer is erased.

        Raises:
            NotFound: A source was forgotten meanwhile; nothing was recorded.
        """
        answer_id = self._answer_id(name)
        value = {"conversation": name[0], **value}

        def plan(_: NewId) -> PlannedWrite:
            if (known := self._answers.one(answer_id)) is not None:
                if _value(known)["of"] == value["of"]:
                    return PlannedWrite([], None)
                record = self._record(answer_id, value)
                return self._answers.plan([Replace(known.set, known.version, record, links)])
            change = Add(self._answers.ref, self._record(answer_id, value), links=links)
            return self._answers.plan([change], retry=True)

        call_with_retries(
            lambda: self._answers.commit("record an answer", [answer_id], plan),
            on=(StaleItem, DuplicateItem),
        )
        return self.answer(name) or value

    def used(self, conversation: str) -> list[ItemChange]:
        """Return the changes that delete all answers about a conversation.

        They are committed with a new position. Answers that slower processes recorded are deleted,
        too: the messages of these answers are read by then.
        """
        found = [
            one for one in self._answers.items() if _value(one)["conversation"] == conversation
        ]
        return self._answers.retired(found)

    def discard(self, conversation: str) -> None:
        """Delete the answers about a conversation that another process read to its end."""

        def plan(_: NewId) -> PlannedWrite:
            return self._answers.plan(self.used(conversation), retry=True)

        self._answers.commit("discard answers", [conversation], plan)

    def _answer_id(self, name: Sequence[Value]) -> str:
        return wire.digest([*name], salt=b"alveus learning").hex()

    # --- learnings ------------------------------------------------------------------------------

    def learnt(
        self, changes: LearningChanges, about: Mapping[str, Value], messages: int
    ) -> ItemChange:
        """Return the change that records a learning.

        Args:
            about: The conversation, the model and the prompt of the learning.
            messages: Number of messages that were read.
        """
        value: dict[str, Value] = {
            **about,
            "messages": messages,
            "added": [*changes.added],
            "changed": {name: [*rows] for name, rows in changes.changed.items()},
            "taken_back": dict(changes.taken_back),
            "undone": False,
        }
        return Add(self._records.ref, self._record(LEARNING + changes.id, value))

    def changes_of(self, learnings: Sequence[str]) -> list[LearningChanges]:
        """Return the changes that learnings made, the oldest learning first.

        Raises:
            NotFound: A learning does not exist, or was undone before.
        """
        notes = [self._records.one(LEARNING + one) for one in learnings]
        for name, stored in zip(learnings, notes, strict=True):
            if stored is None:
                raise NotFound(f"key {self.scope.key!r} has no learning {name!r}")
            if _value(stored)["undone"]:
                raise NotFound(f"learning {name!r} of key {self.scope.key!r} is already undone")
        found = [stored for stored in notes if stored is not None]
        return [_changes(stored) for stored in sorted(found, key=lambda one: one.first)]

    def learning(self, learning: str) -> Learning | None:
        """Return the learning with an id, or None if there is none."""
        stored = self._records.one(LEARNING + learning)
        return None if stored is None else _learning(stored)

    def learnings(self) -> Iterator[Learning]:
        """Yield the learnings of the key, the last first."""
        return map(_learning, self._newest())

    def since(self, learnings: Sequence[str]) -> Iterator[LearningChanges]:
        """Yield the changes of learnings after the oldest of *learnings*, the last first.

        *learnings* themselves and undone learnings are left out.
        """
        left = set(learnings)
        for stored in self._newest():
            if not left:
                return
            changes = _changes(stored)
            if changes.id in left:
                left.remove(changes.id)
            elif not _value(stored)["undone"]:
                yield changes

    def _newest(self) -> Iterator[StoredItem]:
        notes = self._records.items(newest_first=True)
        return (stored for stored in notes if stored.record.id.startswith(LEARNING))

    def undone(self, learnings: Sequence[str]) -> list[ItemChange]:
        """Return the changes that record the undo of learnings."""
        found = self._records.get([LEARNING + one for one in learnings])
        return self._records.replaced(
            [
                (
                    stored,
                    Item({**_value(stored), "undone": True}, text="", time=item_of(stored).time),
                )
                for stored in found
            ]
        )

    def _record(self, item_id: str, value: Mapping[str, Value]) -> ItemRecord:
        return self._records.writer.records([(item_id, Item(dict(value), text=""))])[0]


class CallBudget:
    """Counts the model calls of all learners in a space, for each hour of the clock."""

    def __init__(self, engine: Engine, space: str) -> None:
        self._engine = engine
        scope = Scope(space, None)
        ref = SetRef(scope, RECORDS)
        self._records = SetEditor(CommitWriter(engine, scope), ref, purges=True)

    def take(self, most: int) -> bool:
        """Count a call that is about to be made, and return True.

        If *most* calls were counted in this hour already, count nothing and return False.

        Raises:
            StaleItem: Others changed the count for the whole wait time of the memory.
        """
        hour = self._engine.clock() // 3_600_000_000

        def plan(_: NewId) -> PlannedWrite:
            stored = self._records.one(CALLS)
            value = {"hour": hour, "calls": 0} if stored is None else dict(_value(stored))
            if value["hour"] != hour:
                value = {"hour": hour, "calls": 0}
            if value["calls"] >= most:
                return self._records.plan([], result=False)
            item = Item({**value, "calls": value["calls"] + 1}, text="")
            if stored is not None:
                return self._records.plan(self._records.replaced([(stored, item)]), result=True)
            record = self._records.writer.records([(CALLS, item)])[0]
            return self._records.plan([Add(self._records.ref, record)], result=True)

        return bool(
            call_with_retries(
                lambda: self._records.commit("count a call", [], plan),
                on=(StaleItem, DuplicateItem),
            )
        )


def read_position(stored: StoredItem | None) -> ReadPosition:
    """Return the read position in a record; without a record, the start of the conversation."""
    if stored is None:
        return ReadPosition()
    value = _value(stored)
    skipped = tuple(RowRange(*one) for one in value["skipped"])
    return ReadPosition(value["row"], stored.version, value["failures"], skipped)


def renumbered(item: Item, row: Callable[[int], int]) -> Item:
    """Return an item of the set `RECORDS` with the row numbers of another store.

    Args:
        row: Returns the row in the other store for a row in this store; 0 for 0.
    """
    value = dict(cast("Mapping[str, Any]", item.value))
    if str(item.id).startswith(POSITION):
        value["row"] = row(value["row"])
        value["skipped"] = [[row(one[0]), row(one[1]), one[2]] for one in value["skipped"]]
    elif str(item.id).startswith(LEARNING):
        changed = value["changed"].items()
        value["changed"] = {name: [row(rows[0]), rows[1]] for name, rows in changed}
        value["taken_back"] = {name: row(at) for name, at in value["taken_back"].items()}
    return replace(item, value=cast("Value", value))


def check_note(item: Item) -> None:
    """Check an item for the set `RECORDS`.

    Raises:
        InvalidInput: The item is not a valid record.
    """
    found = as_dict(cast("object", item.value))
    form = _FORMS.get(str(item.id).partition("/")[0], {})
    if not isinstance(item.value, dict) or not all(
        name in found and _has_form(found[name], part) for name, part in form.items()
    ):
        raise InvalidInput(
            f"item {str(item.id)!r} is not a record of learning; delete it or correct its value"
        )


def _has_form(value: object, form: object) -> bool:
    """Return whether a value has the form of an example in `_FORMS`."""
    if isinstance(form, tuple):
        listed, parts = as_list(value), cast("tuple[object, ...]", form)
        return len(listed) == len(parts) and all(map(_has_form, listed, parts))
    if type(value) is not type(form):
        return False
    if isinstance(form, list):
        return all(_has_form(one, as_list(cast("object", form))[0]) for one in as_list(value))
    if isinstance(form, dict):
        part = as_dict(cast("object", form))[""]
        return all(_has_form(one, part) for one in as_dict(value).values())
    return type(value) is not int or 0 <= value <= OPEN_END


_FORMS: Mapping[str, Mapping[str, object]] = {
    POSITION.rstrip("/"): {"row": 0, "failures": 0, "skipped": [(0, 0, 0)]},
    LEARNING.rstrip("/"): {
        **dict.fromkeys(("conversation", "model", "prompt"), ""),
        "messages": 0,
        "added": [""],
        "changed": {"": (0, 0)},
        "taken_back": {"": 0},
        "undone": False,
    },
    CALLS: {"hour": 0, "calls": 0},
}
"""Examples of the fields in each kind of record, by the prefix of the record's id.

In an example, a list with one part means a list of any number of these parts; a tuple means a list
with exactly these parts; a dict with the name "" means any names; 0 means any row or count.
"""


def _value(stored: StoredItem) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", wire.decode(stored.record.value or "{}"))


def _changes(stored: StoredItem) -> LearningChanges:
    value = _value(stored)
    return LearningChanges(
        stored.record.id.removeprefix(LEARNING),
        tuple(value["added"]),
        {name: (rows[0], rows[1]) for name, rows in value["changed"].items()},
        dict(value["taken_back"]),
    )


def _learning(stored: StoredItem) -> Learning:
    value = _value(stored)
    return Learning(
        id=stored.record.id.removeprefix(LEARNING),
        conversation=value["conversation"],
        model=value["model"],
        prompt=value["prompt"],
        messages=value["messages"],
        added=tuple(value["added"]),
        changed=tuple(value["changed"]),
        taken_back=tuple(value["taken_back"]),
        undone=value["undone"],
    )
