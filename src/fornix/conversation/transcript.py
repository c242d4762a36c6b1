"""Messages of a key: added, read, marked, deleted, found."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, cast

from fornix.conversation import message_items
from fornix.conversation.message_items import COMPRESSED, MARKS, SUMMARY, Said
from fornix.conversation.rolling_summary import shown
from fornix.errors import InvalidInput, InvalidValue
from fornix.sets import MemorySet
from fornix.sets.forgetting import Receipt
from fornix.sets.set_options import position
from fornix.sets.writer import PlannedWrite, Where, WriteCall, Writer
from fornix.store import (
    Define,
    Definition,
    ItemChange,
    Replace,
    Screened,
    SetRef,
    StoredItem,
)
from fornix.store.items import Hits, Item
from fornix.text.messages import MESSAGES
from fornix.values.storable import Value, counted, moment

PAGE = 256
"""Messages that are read at a time."""

TRIES = 20
"""How often something is begun anew because others changed what it was made of."""

REACH = 256
"""Messages that are looked at for the tool call that an answer belongs to."""


class Talk:
    """Messages of a key, in the order in which they were added, with their marks."""

    def __init__(self, writer: Writer, ref: SetRef) -> None:
        self._writer, self._ref = writer, ref

    def __repr__(self) -> str:
        return f"<conversation {self.name!r} of key {self._ref.scope.key!r}>"

    @property
    def name(self) -> str:
        """Its name among the sets of its key."""
        return self._ref.name

    # --- adding -------------------------------------------------------------------------------

    def add(
        self,
        messages: Said | Iterable[Said] | None,
        marks: str | Iterable[str] | None = None,
        *,
        idempotency_key: str | None = None,
    ) -> list[str]:
        """Add messages, or one; return their ids, in order.

        One whose id is there already stays as it is. Those without an id are given one.

        Args:
            marks: What they are marked with.
            idempotency_key: A second call under it changes nothing and returns the same ids.

        Raises:
            InvalidInput: One is no message, or cannot be stored; nothing was added.
            Rejected: A rule of admission keeps one out.
            SetDefinitionConflict: The key has a set of this name that is no conversation.
        """
        named = message_items.checked_marks(marks)
        found: dict[str, Item] = {}
        items: list[Item] = []
        for message in message_items.listed(messages):
            given = message_items.id_of(message)
            item = message_items.as_item(message, named, self.name)
            if given is None:
                items.append(item)
            elif given not in found:
                found[given] = item = replace(item, id=given)
                items.append(item)
        if not items:
            return []
        asked = {"item_type": MESSAGES}
        kept = MemorySet(self._writer, self._ref, asked)
        return [*kept.add_many(items, on_existing="keep", idempotency_key=idempotency_key)]

    # --- reading ------------------------------------------------------------------------------

    def get_memory(
        self,
        mark: str | None = None,
        exclude_mark: str | None = None,
        prepend_summary: bool = True,  # noqa: FBT001, FBT002 - as AgentScope has it
        *,
        recent_n: int | None = None,
    ) -> list[dict[str, Any]]:
        """Return messages in order, as they were added, with their ids.

        Args:
            mark: Only those that have it.
            exclude_mark: Only those that do not have it.
            prepend_summary: Begin with the summary, if there is one, as a message of the user
                whose id is `SUMMARY`.
            recent_n: The last so many; more where the first of them answers a tool call, which is
                then there as well. 0: none.

        Raises:
            InvalidValue: A mark is no text (a TypeError).
            InvalidInput: A mark is empty, or *recent_n* negative.
        """
        found, summary = self._seen(lambda _: self._chosen(mark, exclude_mark, recent_n))
        told = [message_items.as_message(stored) for stored in found]
        head: dict[str, Any] = {"id": SUMMARY, "role": "user", "name": "user", "content": summary}
        return [head, *told] if summary and prepend_summary else told

    def messages(
        self,
        recent_n: int | None = None,
        *,
        mark: str | None = None,
        exclude_mark: str | None = COMPRESSED,
        prepend_summary: bool = True,
        for_chat: bool = False,
    ) -> list[dict[str, Any]]:
        """Return what a model is to be told: the summary, and the messages that it is not of.

        They are in OpenAI's form: role, content, name, and the tool calls; urls are text. A call
        without all of its answers is left out, unless it is the last that was said; so is an
        answer without its call. Arguments are as in `get_memory`; where there is no summary,
        nothing stands for those that are marked `COMPRESSED`, and they are told.

        Args:
            for_chat: As a `ChatModel` takes them: tool calls and parts as text, urls beside it.
        """

        def read(summary: StoredItem | None) -> list[StoredItem]:
            is_void = summary is None and exclude_mark == COMPRESSED
            return self._chosen(mark, None if is_void else exclude_mark, recent_n)

        found, summary = self._seen(read)
        as_told = message_items.for_chat if for_chat else message_items.for_model
        told = [as_told(stored) for stored in shown(found)]
        head = {"role": "user", "content": summary}
        return [head, *told] if summary and prepend_summary else told

    def size(self) -> int:
        """Return how many messages there are; the summary is none."""
        info = self._writer.info(self._ref)
        return 0 if info is None else info.items - (self._summary() is not None)

    def __len__(self) -> int:
        return self.size()

    def search(
        self,
        query: str,
        *,
        limit: int = 10,
        mark: str | None = None,
        exclude_mark: str | None = None,
        where: Where | None = None,
    ) -> Hits:
        """Return the messages that answer *query* best: see `MemorySet.search`.

        Those that were summed up are found as all others; the summary itself is not.
        """
        parts: list[Where] = [{"not": {"$id": SUMMARY}}]
        if mark is not None:
            parts.append({MARKS: {"contains": message_items.checked_mark(mark)}})
        if exclude_mark is not None:
            no = message_items.checked_mark(exclude_mark, "exclude_mark")
            parts.append({"not": {MARKS: {"contains": no}}})
        if where is not None:
            parts.append(where)
        return self._set.search(query, limit=limit, where={"all": parts})

    def _seen(
        self, read: Callable[[StoredItem | None], list[StoredItem]]
    ) -> tuple[list[StoredItem], str]:
        """Return what *read* does under a summary, and that summary: both of one moment.

        Others may sum up while it reads; then it reads again.
        """
        before = self._summary()
        for _ in range(TRIES):
            found, after = read(before), self._summary()
            if (before and before.row) == (after and after.row):
                return found, text_of_summary(after)
            before = after
        return read(before), text_of_summary(before)

    def _chosen(
        self, mark: str | None, exclude_mark: str | None, recent_n: int | None
    ) -> list[StoredItem]:
        has = None if mark is None else message_items.checked_mark(mark)
        lacks = (
            None
            if exclude_mark is None
            else message_items.checked_mark(exclude_mark, "exclude_mark")
        )
        if recent_n is not None and counted(recent_n, "recent_n", least=0) == 0:
            return []
        found: list[StoredItem] = []
        open_: set[str] = set()
        beyond = 0
        for stored in self._newest(open_only=lacks == COMPRESSED):
            if recent_n is not None and len(found) >= recent_n:
                beyond += 1
                if not open_ or beyond > REACH:
                    break
            marks = message_items.marks_of(stored)
            if (has is not None and has not in marks) or (lacks is not None and lacks in marks):
                continue
            found.append(stored)
            if recent_n is not None:
                message = message_items.model_message(stored)
                open_.difference_update(message.calls)
                open_.update(message.answers)
        if open_ and recent_n is not None:  # a call that is not there: no reason for more
            del found[recent_n:]
        return found[::-1]

    def _newest(self, *, open_only: bool = False) -> Iterator[StoredItem]:
        """Yield messages, the newest first; *open_only*: down to where all are summed up."""
        last = noted(self._summary()).get("upto") if open_only else None
        after: tuple[int, int] | None = None
        while True:
            page = self._writer.page(self._ref, after=after, limit=PAGE, newest_first=True, at=None)
            for stored in page:
                if last is not None and stored.record.id == last:
                    return
                if stored.record.id != SUMMARY:
                    yield stored
            if len(page) < PAGE:
                return
            after = position(page[-1])

    def _live(self, ids: Sequence[str]) -> list[StoredItem]:
        found = self._writer.get(self._ref, ids, at=None) if ids else []
        return [stored for stored in found if stored is not None]

    @property
    def _set(self) -> MemorySet:
        return MemorySet(self._writer, self._ref, {})

    # --- deleting -----------------------------------------------------------------------------

    def delete(self, msg_ids: str | Iterable[str]) -> int:
        """Delete messages by their ids; return how many were there."""
        wanted = [one for one in message_ids(msg_ids) if one != SUMMARY]
        return self._set.delete(wanted) if wanted else 0

    def delete_by_mark(self, mark: str | Iterable[str]) -> int:
        """Delete the messages that have a mark, or one of several; return how many there were."""
        marks = message_items.checked_marks(mark, "mark")
        if not marks:
            return 0
        return self._set.delete(where={"any": [{MARKS: {"contains": one}} for one in marks]})

    def clear(self) -> int:
        """Delete all messages, and the summary; return how many messages there were."""
        had_summary = self._summary() is not None
        return self._set.clear() - had_summary

    def forget(self, msg_ids: str | Iterable[str], *, dry_run: bool = False) -> Receipt:
        """Erase messages for good, and the summary that was made of them.

        See `MemorySet.forget`. The next compression sums up what is left.
        """
        return self._set.forget(message_ids(msg_ids), dry_run=dry_run)

    # --- marks --------------------------------------------------------------------------------

    def update_messages_mark(
        self,
        new_mark: str | None = None,
        old_mark: str | None = None,
        msg_ids: str | Iterable[str] | None = None,
    ) -> int:
        """Give messages a mark, take one off, or put one in the place of another.

        Args:
            new_mark: The mark that they get; None: *old_mark* is taken off.
            old_mark: Only messages that have it; None: all.
            msg_ids: Only these; None: all.

        Returns:
            How many messages were changed.

        Raises:
            InvalidInput: Neither mark is given.
        """
        new = None if new_mark is None else message_items.checked_mark(new_mark, "new_mark")
        old = None if old_mark is None else message_items.checked_mark(old_mark, "old_mark")
        if new is None and old is None:
            raise InvalidInput("give a new_mark to set, an old_mark to take off, or both")
        ids = None if msg_ids is None else message_ids(msg_ids)
        changed = [0]

        def build(_new_id: Callable[[], str]) -> PlannedWrite:
            asked = self._newest() if ids is None else self._live(ids)
            pairs: list[tuple[StoredItem, list[str]]] = []
            for stored in asked:
                marks = message_items.marks_of(stored)
                if stored.record.id != SUMMARY and (old is None or old in marks):
                    made = [new if one == old else one for one in marks]
                    made = [one for one in dict.fromkeys([*made, new]) if one is not None]
                    pairs += [(stored, made)] if made != marks else []
            changed[0] = len(pairs)
            items = self._marked(pairs)
            if pairs and old == COMPRESSED != new:
                items += self._unbounded()
            return self._change(items, retry=True)

        arguments: list[Value] = [self.name, new, old, None if ids is None else [*ids]]
        self._writer.write(WriteCall("mark", lambda: arguments), build)
        return changed[0]

    def _marked(self, pairs: Sequence[tuple[StoredItem, Sequence[str]]]) -> list[ItemChange]:
        items = [
            (stored.record.id, message_items.with_marks(stored, marks)) for stored, marks in pairs
        ]
        records = self._writer.records(items)
        return [
            Replace(self._ref, stored.version, record)
            for (stored, _), record in zip(pairs, records, strict=True)
        ]

    def _unbounded(self) -> list[ItemChange]:
        """Return what says that messages before the summary's end are open again."""
        stored = self._summary()
        if stored is None or noted(stored).get("upto") is None:
            return []
        item = summary_item(message_items.value_of(stored) | {"upto": None}, stored.record.time)
        record = self._writer.records([(SUMMARY, item)])[0]
        return [Replace(self._ref, stored.version, record)]

    def _change(self, items: Sequence[ItemChange], *, retry: bool) -> PlannedWrite:
        """Return a change of messages that rules of admission took when they were added."""
        ruled = self._writer.rules(self._ref, None) if items else None
        screened = [] if ruled is None else [Screened(self._ref, ruled.kept)]
        return PlannedWrite(items, None, self._definition(items), retry=retry, screened=screened)

    def _definition(self, items: Sequence[ItemChange]) -> list[Define]:
        new = items and self._writer.info(self._ref) is None
        return [Define(self._ref, Definition(item_type=MESSAGES))] if new else []

    @property
    def summary(self) -> str:
        """What stands for the messages that are marked `COMPRESSED`; "" if there is none."""
        return text_of_summary(self._summary())

    def _summary(self) -> StoredItem | None:
        return next(iter(self._live([SUMMARY])), None)


def noted(summary: StoredItem | None) -> Mapping[str, Any]:
    """Return what a summary notes: `upto`, to which message all are in it; `under`, its version."""
    return {} if summary is None else message_items.value_of(summary)


def text_of_summary(summary: StoredItem | None) -> str:
    """Return what a summary says; "" if there is none."""
    return "" if summary is None else summary.record.text or ""


def summary_item(value: Mapping[str, Any], time: int | None) -> Item:
    """Return the item that keeps a summary."""
    when: datetime | None = None if time is None else moment(time)
    return Item(dict(value), text=str(value["content"]), role="system", time=when, compacted=True)


def message_ids(given: object) -> list[str]:
    """Return ids of messages, each once; one may be given alone."""
    if isinstance(given, str):
        return [given]
    if isinstance(given, bytes) or not isinstance(given, Iterable):
        raise InvalidValue("msg_ids", f"are ids, not {type(given).__name__}", hint="use a list")
    found = list(dict.fromkeys(cast("Iterable[object]", given)))
    if wrong := [one for one in found if not isinstance(one, str) or not one]:
        raise InvalidValue("msg_ids", f"are ids, not {wrong[0]!r}", hint="add() returns them")
    return cast("list[str]", found)
