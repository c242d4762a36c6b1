"""`ConversationMemory`: the messages of a key, with a rolling summary."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import takewhile
from typing import Any, cast

from alveus.conversation import message_items
from alveus.conversation.message_items import COMPRESSED, MARKS, SUMMARY, Said
from alveus.conversation.rolling_summary import (
    MAX_TOKENS,
    MOST_AT_ONCE,
    NOTHING,
    Compressed,
    Split,
    SummaryPolicy,
    Summing,
    head_of,
    rest_of,
    summed_up,
    without_orphaned_calls,
)
from alveus.errors import (
    DuplicateItem,
    InvalidInput,
    InvalidState,
    InvalidValue,
    NotFound,
    StaleItem,
)
from alveus.errors.short_repr import short_repr
from alveus.llm import MEMORY_DEFAULT, ChatModel, RerankerChoice
from alveus.search.superseded import Superseded
from alveus.sets import MemorySet
from alveus.sets.batch import Draft
from alveus.sets.forgetting import Receipt
from alveus.sets.set_editor import NewId, SetEditor
from alveus.sets.writer import PlannedWrite, Where, Writer
from alveus.store import Add, ItemChange, Link, SetRef, StoredItem
from alveus.store.items import Hits, Item
from alveus.store.records import position_of
from alveus.text import Summariser, Summary
from alveus.text.budget import Budget
from alveus.text.messages import MESSAGES, Message
from alveus.values.keywords import suggest_names_in
from alveus.values.retries import TRIES, call_with_retries
from alveus.values.storable import Value, checked_name, counted, flag, moment, valid_text
from alveus.values.times import Zone

MOVED = (StaleItem, DuplicateItem)
"""Errors of a change if others changed the items that it had read. The change then starts again."""

REACH = 256
"""Most messages in which the tool call of an answer is searched for."""


@suggest_names_in
class ConversationMemory:
    """The messages of a conversation, in order; reached by ``key.conversation(name)``.

    Every change is one commit, durable when the call returns; in a batch or an action it is part of
    their commit. Each message has a unique id. Messages are ordered by time, in the same order for
    all readers: a new message is last, unless its `timestamp` is earlier. Messages of one call keep
    their order. Returned messages are copies: dicts with the fields that were added and an ``id``.

    The messages are items of the set *name* of the key; a conversation of the same name in another
    key is separate.
    """

    def __init__(self, writer: Writer, ref: SetRef, zone: Zone | None = None) -> None:
        self._writer, self._ref, self._zone = writer, ref, zone
        self._messages = SetEditor(writer, ref, MESSAGES)

    def __repr__(self) -> str:
        return f"<conversation {self.name!r} of key {self._ref.scope.key!r}>"

    @property
    def name(self) -> str:
        """The name of the conversation, which is also the name of its set within the key."""
        return self._ref.name

    @property
    def ref(self) -> SetRef:
        """The reference of the conversation's set, for other parts of alveus."""
        return self._ref

    @property
    def zone(self) -> Zone:
        """The time zone of messages whose timestamp has no offset."""
        return self._writer.timezone if self._zone is None else self._zone

    # --- adding -------------------------------------------------------------------------------

    def add(
        self,
        messages: Said | Iterable[Said] | None,
        marks: str | Iterable[str] | None = None,
        *,
        idempotency_key: str | None = None,
    ) -> list[str]:
        """Add one message or several; return their ids, in order.

        If the id of a message exists, the stored message stays unchanged. A message without an id
        gets a new id. The `timestamp` of a message (ISO 8601, or Unix time) is the time of its
        item. A message without a timestamp, or with a timestamp of the last minute, has the time of
        the commit. The offset of a timestamp is kept and defines the day that "yesterday" in the
        message means. Without an offset, the timezone of the conversation applies.

        Args:
            marks: The marks of the messages.
            idempotency_key: A second call with the same key changes nothing and returns the same
                ids.

        Raises:
            InvalidInput: A value is not a message, or cannot be stored; nothing was added.
            Rejected: A rule of admission rejects a message.
            SetDefinitionConflict: The key has a set of this name that is not a conversation.
        """
        named = message_items.checked_marks(marks)
        found: dict[str, Item] = {}
        items: list[Item] = []
        for message in message_items.listed(messages):
            given = message_items.id_of(message)
            item = message_items.as_item(message, named, self.name, self.zone)
            if given is None:
                items.append(item)
            elif given not in found:
                found[given] = item = replace(item, id=given)
                items.append(item)
        if not items:
            return []
        # With an idempotency key, a repeated call makes the same items.
        if idempotency_key is None:
            newest = next(self._messages.items(newest_first=True, most=1), None)
            last = 0 if newest is None else position_of(newest)[0]
            items = message_items.in_order(items, self._writer.now(), last)
        else:
            items = message_items.in_order(items, None)
        added_to = MemorySet(self._writer, self._ref, {"item_type": MESSAGES})
        return [*added_to.add_many(items, on_existing="keep", idempotency_key=idempotency_key)]

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
            mark: Return only messages with this mark.
            exclude_mark: Return only messages without this mark.
            prepend_summary: Start with the summary, if there is one, as a user message with the id
                `SUMMARY`.
            recent_n: Return only the last *recent_n* messages; 0 returns none. If the first of them
                answers a tool call, the call and the messages after it are included.

        Raises:
            InvalidValue: A mark is not a text. This error is a TypeError, too.
            InvalidInput: A mark is empty, or *recent_n* is negative.
        """
        flag(prepend_summary, "prepend_summary")
        found, summary = self._consistent(
            lambda summary: self._chosen(mark, exclude_mark, recent_n, summary)
        )
        shown = [message_items.as_message(stored) for stored in found]
        text = text_of_summary(summary)
        head: dict[str, Any] = {"id": SUMMARY, "role": "user", "name": "user", "content": text}
        return [head, *shown] if text and prepend_summary else shown

    def messages(
        self,
        recent_n: int | None = None,
        *,
        mark: str | None = None,
        exclude_mark: str | None = COMPRESSED,
        prepend_summary: bool = True,
        for_chat: bool = False,
    ) -> list[dict[str, Any]]:
        """Return the prompt of the conversation: the summary, and the messages after it.

        The messages have OpenAI's form: role, content, name, and the tool calls; urls are a part of
        the text. A call without all of its answers is left out, unless it is the last message. An
        answer without its call is left out, too. If there is no summary, messages with the mark
        `COMPRESSED` are included. See `get_memory` for the other arguments.

        Args:
            for_chat: Return messages in the form for a `ChatModel`: tool calls and other parts of
                the content are text, and urls are in a separate field.
        """

        def read(summary: StoredItem | None) -> list[StoredItem]:
            is_void = (
                summary is None and isinstance(exclude_mark, str) and exclude_mark == COMPRESSED
            )
            return self._chosen(mark, None if is_void else exclude_mark, recent_n, summary)

        flag(for_chat, "for_chat")
        flag(prepend_summary, "prepend_summary")
        found, summary = self._consistent(read)
        as_shown = message_items.for_chat if for_chat else message_items.for_model
        shown = [as_shown(stored) for stored in without_orphaned_calls(found)]
        text = text_of_summary(summary)
        head = {"role": "user", "content": text}
        return [head, *shown] if text and prepend_summary else shown

    def size(self) -> int:
        """Return the number of messages. The summary does not count."""
        count = self._writer.count(self._ref)
        return count - (self._summary() is not None) if count else 0

    def __len__(self) -> int:
        return self.size()

    def search(  # noqa: PLR0913 - keywords all but the first
        self,
        query: str,
        *,
        limit: int = 10,
        mark: str | None = None,
        exclude_mark: str | None = None,
        where: Where | None = None,
        reranker: RerankerChoice = MEMORY_DEFAULT,
        superseded: Superseded = "fold",
    ) -> Hits:
        """Return the messages that answer *query* best; see `MemorySet.search`.

        The search finds messages that were summarized, too. It never returns the summary.
        """
        parts: list[Where] = [{"not": {"$id": SUMMARY}}]
        if mark is not None:
            parts.append({MARKS: {"contains": message_items.checked_mark(mark)}})
        if exclude_mark is not None:
            no = message_items.checked_mark(exclude_mark, "exclude_mark")
            parts.append({"not": {MARKS: {"contains": no}}})
        if where is not None:
            parts.append(where)
        return self._set.search(
            query, limit=limit, where={"all": parts}, reranker=reranker, superseded=superseded
        )

    def _consistent(
        self, read: Callable[[StoredItem | None], list[StoredItem]]
    ) -> tuple[list[StoredItem], StoredItem | None]:
        """Call *read* with the summary; return its result, and the summary of the same moment.

        If another process changes the summary meanwhile, *read* is called again.
        """
        before = self._summary()
        for _ in range(TRIES):
            found, after = read(before), self._summary()
            if (before and before.row) == (after and after.row):
                return found, after
            before = after
        return read(before), before

    def _chosen(
        self,
        mark: str | None,
        exclude_mark: str | None,
        recent_n: int | None,
        summary: StoredItem | None,
    ) -> list[StoredItem]:
        """Return the messages that the arguments of `get_memory` choose, oldest first.

        If *exclude_mark* is `COMPRESSED`, messages and blocks that *summary* covers are left out.
        """
        has = None if mark is None else message_items.checked_mark(mark)
        lacks = (
            None
            if exclude_mark is None
            else message_items.checked_mark(exclude_mark, "exclude_mark")
        )
        if recent_n is not None and counted(recent_n, "recent_n", least=0) == 0:
            return []
        split = Split.of(noted(summary)) if lacks == COMPRESSED else None
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
            found.append(stored := rest_of(stored, split))
            if recent_n is not None:
                message = message_items.model_message(stored)
                open_.difference_update(message.calls)
                open_.update(message.answers)
        if open_ and recent_n is not None:  # the call does not exist: add no more messages
            del found[recent_n:]
        return found[::-1]

    def _newest(self, *, open_only: bool = False) -> Iterator[StoredItem]:
        """Yield messages, newest first.

        Args:
            open_only: Stop at the last message up to which the summary covers all messages.
        """
        last = noted(self._summary()).get("upto") if open_only else None
        for stored in self._messages.items(newest_first=True):
            if last is not None and stored.record.id == last:
                return
            if stored.record.id != SUMMARY:
                yield stored

    @property
    def _set(self) -> MemorySet:
        return MemorySet(self._writer, self._ref, {})

    # --- deleting -----------------------------------------------------------------------------

    def delete(self, msg_ids: str | Iterable[str]) -> int:
        """Delete messages by their ids; return the number of deleted messages."""
        wanted = [one for one in message_ids(msg_ids) if one != SUMMARY]
        return self._set.delete(wanted) if wanted else 0

    def delete_by_mark(self, mark: str | Iterable[str]) -> int:
        """Delete the messages that have a mark, or one of several; return their number."""
        marks = message_items.checked_marks(mark, "mark")
        if not marks:
            return 0
        return self._set.delete(where={"any": [{MARKS: {"contains": one}} for one in marks]})

    def clear(self) -> int:
        """Delete all messages and the summary; return the number of messages."""
        had_summary = self._summary() is not None
        return self._set.clear() - had_summary

    def forget(self, msg_ids: str | Iterable[str], *, dry_run: bool = False) -> Receipt:
        """Erase messages for good, and the summaries that were made from them.

        See `MemorySet.forget`. The next compression summarizes the remaining messages.
        """
        return self._set.forget(message_ids(msg_ids), dry_run=dry_run)

    # --- marks --------------------------------------------------------------------------------

    def update_messages_mark(
        self,
        new_mark: str | None = None,
        old_mark: str | None = None,
        msg_ids: str | Iterable[str] | None = None,
    ) -> int:
        """Give messages a mark, remove a mark, or replace a mark by another.

        Args:
            new_mark: The mark to add. If None, *old_mark* is removed.
            old_mark: If given, only messages with this mark change, and lose this mark.
            msg_ids: If given, only these messages change.

        Returns:
            The number of changed messages.

        Raises:
            InvalidInput: Neither mark is given.
        """
        new = None if new_mark is None else message_items.checked_mark(new_mark, "new_mark")
        old = None if old_mark is None else message_items.checked_mark(old_mark, "old_mark")
        if new is None and old is None:
            raise InvalidInput(
                "a mark is needed: pass new_mark= to add it, old_mark= to remove it, or both"
            )
        ids = None if msg_ids is None else message_ids(msg_ids)

        plan = partial(self._marks_changed, new, old, ids)
        return self._messages.commit("mark", [new, old, None if ids is None else [*ids]], plan)

    def _marks_changed(
        self, new: str | None, old: str | None, ids: Sequence[str] | None, _new_id: NewId
    ) -> PlannedWrite:
        pairs: list[tuple[StoredItem, list[str]]] = []
        for stored in self._newest() if ids is None else self._messages.get(ids):
            before = message_items.marks_of(stored)
            if stored.record.id != SUMMARY and (old is None or old in before):
                marks = [new if mark == old else mark for mark in before]
                marks = [mark for mark in dict.fromkeys([*marks, new]) if mark is not None]
                pairs += [(stored, marks)] if marks != before else []
        changes = self._marked(pairs)
        if pairs and old == COMPRESSED != new:
            changes += self._unbounded()
        return self._messages.plan(changes, len(pairs))

    def _marked(self, pairs: Sequence[tuple[StoredItem, Sequence[str]]]) -> list[ItemChange]:
        return self._messages.replaced(
            [(stored, message_items.with_marks(stored, marks)) for stored, marks in pairs]
        )

    def _unbounded(self) -> list[ItemChange]:
        """Return the change after which the summary no longer covers all messages up to its last.

        Readers then look at the mark of each message. Return no change if there is no summary.
        """
        stored = self._summary()
        if stored is None or noted(stored).get("upto") is None:
            return []
        item = summary_item(message_items.value_of(stored) | {"upto": None}, stored.record.time)
        return self._messages.replaced([(stored, item)])

    @property
    def summary(self) -> str:
        """The summary of the messages with the mark `COMPRESSED`; "" if there is no summary."""
        return text_of_summary(self._summary())

    def _summary(self) -> StoredItem | None:
        return self._messages.one(SUMMARY)

    # --- the summary --------------------------------------------------------------------------

    def update_compressed_summary(self, summary: str, msg_ids: str | Iterable[str] = ()) -> int:
        """Replace the summary, and in the same commit mark messages as compressed.

        Args:
            summary: The new text. "" removes the summary.
            msg_ids: Ids of messages that the summary covers, in addition to the messages that have
                the mark already.

        Returns:
            The number of newly marked messages.
        """
        if not isinstance(summary, str):  # pyright: ignore[reportUnnecessaryIsInstance] - user input
            kind = type(summary).__name__
            raise InvalidValue("summary", f"must be a text, not {kind}", hint="use str(summary)")
        summary = valid_text(summary).value
        wanted = message_ids(msg_ids)

        def work() -> int:
            before, found = self._summary(), self._messages.get(wanted)
            new = [one for one in found if COMPRESSED not in message_items.marks_of(one)]
            chosen = found if before is None else new
            split = Split.of(noted(before))
            said: dict[str, Any] = {"content": summary}
            if split is not None and split.id not in wanted:
                said["split"] = split.to_dict()
            self._sum_up(before, chosen, said, upto=None)
            return len(new)

        return call_with_retries(work, on=MOVED)

    def _sum_up(
        self,
        before: StoredItem | None,
        chosen: Sequence[StoredItem],
        said: Mapping[str, Any],
        *,
        upto: str | None,
        heads: Sequence[StoredItem] = (),
        open_: Sequence[StoredItem] = (),
    ) -> None:
        """Commit a summary that replaces *before*, and mark the *chosen* messages as compressed.

        Args:
            said: The text of the summary as "content", and further notes.
            upto: The id of the message up to which the summary covers all messages, or None.
            heads: The split messages, whose first blocks the summary covers, too.
            open_: Messages that no summary covers. They lose the mark `COMPRESSED`, if they have it
                from a summary that was forgotten.

        Raises:
            StaleItem: A message changed since it was read; nothing was changed.
        """
        value = {"role": "system", **said, "upto": upto, "under": before and before.version}
        made_of = [*chosen, *heads]
        last = made_of[-1] if made_of else next(self._newest(), None)  # it has the latest time
        time = None if last is None else last.record.time or last.updated
        links = [Link(self._ref, stored.record.id) for stored in made_of]
        pairs = [(stored, message_items.marks_with(stored, COMPRESSED)) for stored in chosen]
        pairs += [
            (stored, message_items.marks_without(stored, COMPRESSED))
            for stored in open_
            if COMPRESSED in message_items.marks_of(stored)
        ]
        self._exchange(before, value if said["content"] else None, time, links, pairs)

    def _exchange(
        self,
        before: StoredItem | None,
        value: Mapping[str, Any] | None,
        time: int | None,
        links: Sequence[Link],
        pairs: Sequence[tuple[StoredItem, Sequence[str]]],
    ) -> None:
        """Commit new marks of messages, and replace the summary *before* by *value*.

        If *value* is None, the summary is removed.
        """
        messages = self._messages
        retired = [] if before is None else messages.retired([before])
        ids: list[Value] = [stored.record.id for stored, _ in pairs]
        arguments: list[Value] = [cast("Value", value and dict(value)), ids]

        changes = self._marked(pairs)
        if value is not None:
            record = self._writer.records([(SUMMARY, summary_item(value, time))])[0]
            earlier = [] if before is None else [Link(self._ref, SUMMARY)]
            changes.append(Add(self._ref, record, links=(*earlier, *links)))
        if retired and isinstance(self._writer, Draft):  # a batch takes an id once per call
            messages.change("summary", arguments, retired)
            retired = []
        messages.change("summary", arguments, [*retired, *changes])

    # --- compression --------------------------------------------------------------------------

    def compress(
        self,
        *,
        keep_recent: int | None = None,
        keep_tokens: int | None = None,
        trigger_tokens: int | Budget | None = None,
        beside_tokens: int = 0,
        model: ChatModel | Summariser | None = None,
        max_tokens: int = MAX_TOKENS,
    ) -> Compressed:
        """Summarize all messages except the newest. No message is lost.

        The new summary includes the previous summary. Summarized messages stay in the set, and
        searches find them. In the commit of the summary they get the mark `COMPRESSED`; a long
        conversation takes a commit per `MOST_AT_ONCE` messages. The newest request and tool calls
        without an answer are not summarized; a call and its answers are summarized together. With
        *keep_tokens*, a message of several blocks may be split: the summary covers its first
        blocks, and prompts include the other blocks until they are summarized, too. The stored
        message stays whole.

        Args:
            keep_recent: How many of the last messages to keep, by default three. A tool call with
                its answers counts as one message.
            keep_tokens: If given, keep as many of the last messages as fit into this number of
                tokens, and of the message before them the last blocks that fit. *keep_recent*
                cannot be given as well.
            trigger_tokens: Compress only if the summary and the messages after it have this many
                tokens or more. A `Budget` also sets the token counter.
            beside_tokens: Tokens of the prompt outside of the conversation, such as instructions;
                they count for `trigger_tokens` and `keep_tokens`.
            model: A language model or a summariser that makes the summary. Without a model, or if
                the model fails, the summary consists of selected sentences.
            max_tokens: Most tokens of the summary.

        Raises:
            InvalidInput: An argument is invalid; nothing was changed.
            ModelMissing, ModelClosed, ScriptEnded: The model cannot be called at all.
            StaleItem, DuplicateItem: Each try failed, because others changed the messages that it
                had read.
        """
        policy = SummaryPolicy.of(keep_recent, keep_tokens, beside_tokens, trigger_tokens)
        budget, summing = policy.budget, Summing(model, max_tokens)
        steps: list[tuple[int, Summary]] = []

        def work() -> None:
            self._sum_up_all(policy, summing, steps)

        call_with_retries(work, on=MOVED)
        left, last = self._open()
        split, summary = Split.of(noted(last)), text_of_summary(last)
        size = budget.size([message_items.model_message(rest_of(one, split)) for one in left])
        size += budget.size([Message(summary)]) if summary else 0
        done = sum(count for count, _ in steps)
        made = steps[-1][1] if steps else Summary(text="", by="", tokens=0)
        return Compressed(done, summary, made.by, made.because, size)

    def _open(self) -> tuple[list[StoredItem], StoredItem | None]:
        """Return the messages that the summary does not cover as a whole, and the summary.

        The messages come oldest first. A split message is among them, as a whole.
        """

        def read(summary: StoredItem | None) -> list[StoredItem]:
            newest = self._newest(open_only=summary is not None)
            return [
                stored
                for stored in newest
                if summary is None or COMPRESSED not in message_items.marks_of(stored)
            ][::-1]

        return self._consistent(read)

    def _sum_up_all(
        self, policy: SummaryPolicy, summing: Summing, steps: list[tuple[int, Summary]]
    ) -> None:
        """Summarize all messages that are due, with a commit per `MOST_AT_ONCE` messages.

        The number of messages and the summary of each commit are appended to *steps*.
        """
        open_, summary = self._open()
        split, text = Split.of(noted(summary)), text_of_summary(summary)
        turns = [message_items.model_message(rest_of(stored, split)) for stored in open_]
        if not policy.is_due([Message(text), *turns] if text else turns):
            return
        chosen, divided = summed_up(open_, policy, split)
        while chosen or divided is not None:
            part = chosen
            if len(chosen) > MOST_AT_ONCE:  # a call whose answer is later is for the next step
                part = summed_up(chosen[:MOST_AT_ONCE], NOTHING)[0] or chosen
            rows = {stored.row for stored in part}
            chosen = [stored for stored in chosen if stored.row not in rows]
            last, divided = (None, divided) if chosen else (divided, None)
            steps.append((len(part), self._rolled(part, last, open_, summing)))
            open_ = [stored for stored in open_ if stored.row not in rows]

    def _rolled(
        self,
        part: Sequence[StoredItem],
        divided: Split | None,
        open_: Sequence[StoredItem],
        summing: Summing,
    ) -> Summary:
        """Make and commit a new summary; return it.

        It covers the previous summary, the messages in *part*, and the first blocks of the message
        that *divided* splits.
        """
        before = self._summary()
        split = Split.of(noted(before))
        heads = [one for one in open_ if divided is not None and one.record.id == divided.id]
        new = [rest_of(stored, split) for stored in part]
        new += [head_of(stored, split, divided) for stored in heads if divided is not None]
        made = summing.rolled(text_of_summary(before), new)
        rows = {stored.row for stored in part}
        first = list(takewhile(lambda stored: stored.row in rows, open_))
        upto = first[-1].record.id if first else noted(before).get("upto")
        said: dict[str, Any] = {"content": made.text, "by": made.by, "because": made.because}
        left = [stored for stored in open_ if stored.row not in rows]
        ids = {stored.record.id for stored in left}
        if split := divided or (split if split is not None and split.id in ids else None):
            said["split"] = split.to_dict()
        self._sum_up(before, part, said, upto=upto, heads=heads, open_=left)
        return made

    def uncompress(self) -> int:
        """Undo the last summary, and restore the previous summary, if there was one.

        The messages that only the last summary covered lose the mark `COMPRESSED`: they are part of
        prompts again.

        Returns:
            The number of these messages.

        Raises:
            NotFound: There is no summary.
            Unusable: The call is inside the batch that made the summary.
        """
        return call_with_retries(self._undone, on=MOVED)

    def _undone(self) -> int:
        now = self._summary()
        if now is None:
            raise NotFound(f"conversation {self.name!r} has no summary to undo")
        said = noted(now)
        rows = [source for _, source in self._writer.sources([now.row])]
        ids = [s.record.id for s, _ in self._writer.rows(rows) if s.record.id != SUMMARY]
        marked = [
            one for one in self._messages.get(ids) if COMPRESSED in message_items.marks_of(one)
        ]
        pairs = [(s, message_items.marks_without(s, COMPRESSED)) for s in marked]
        versions = self._writer.versions(self._ref, SUMMARY)
        past = next((s for s, _ in versions if s.version == said.get("under")), None)
        if past is None:
            self._exchange(now, None, None, (), pairs)
            return len(pairs)
        value = message_items.value_of(past)
        value["upto"] = value.get("upto") if said.get("upto") else None
        sources = [source for _, source in self._writer.sources([past.row])]
        links = [
            Link(self._ref, s.record.id)
            for s, _ in self._writer.rows(sources)
            if s.record.id != SUMMARY
        ]
        self._exchange(now, value, past.record.time, links, pairs)
        return len(pairs)

    # --- the whole state ----------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return the whole conversation as JSON: its messages with their marks, and the summary."""
        found = [*self._newest()][::-1]
        content = [
            [message_items.as_message(stored), message_items.marks_of(stored)] for stored in found
        ]
        return {"_compressed_summary": self.summary, "content": content}

    def load_state_dict(self, state: Mapping[str, Any], strict: bool = True) -> None:  # noqa: FBT001, FBT002 - as AgentScope has it
        """Replace the conversation by a result of `state_dict`, in one commit.

        Older states, which have messages without marks, work, too.

        Args:
            strict: True to raise for a state without content; False to treat this state as empty.

        Raises:
            InvalidState: The state has no content; nothing was changed. This error is a KeyError,
                too.
            InvalidInput: *state* is not a state; nothing was changed.
        """
        if not isinstance(state, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance] - user input
            raise InvalidInput(
                f"the state of a conversation must be a dict, not {short_repr(state):.40}"
            )
        if flag(strict, "strict") and "content" not in state:
            raise InvalidState(
                "the state of a conversation needs the field 'content'; add it, or pass "
                "strict=False"
            )
        content, now = state.get("content", []), self._writer.now()
        items = message_items.of_state(content, self.name, now, self.zone)
        summary = state.get("_compressed_summary") or ""
        if not isinstance(summary, str):
            raise InvalidInput(f"_compressed_summary must be a text, not {type(summary).__name__}")
        value = {"role": "system", "content": summary, "upto": None, "under": None}
        if summary:
            items.append(replace(summary_item(value, None), id=SUMMARY))

        self._messages.replace_all("load", [len(items)], items, is_judged=False)


def noted(summary: StoredItem | None) -> Mapping[str, Any]:
    """Return the notes of a summary, or {} if there is no summary.

    "upto" is the id of the message up to which the summary covers all messages; "under" is the
    version of the previous summary.
    """
    return {} if summary is None else message_items.value_of(summary)


def text_of_summary(summary: StoredItem | None) -> str:
    """Return the text of a summary, or "" if there is no summary."""
    return "" if summary is None else summary.record.text or ""


def summary_item(value: Mapping[str, Any], time: int | None) -> Item:
    """Return the item that stores a summary."""
    when = None if time is None else moment(time)
    return Item(dict(value), text=str(value["content"]), role="system", time=when, compacted=True)


def message_ids(given: object) -> list[str]:
    """Return the message ids in a list, each once, or a single id as a list."""
    if isinstance(given, str):
        given = [given]
    if isinstance(given, bytes) or not isinstance(given, Iterable):
        raise InvalidValue(
            "msg_ids", f"must be a list of ids, not {type(given).__name__}", hint="use a list"
        )
    found = [*cast("Iterable[object]", given)]
    if wrong := [one for one in found if not isinstance(one, str) or not one]:
        shown = short_repr(wrong[0])
        raise InvalidValue("msg_ids", f"must have only ids, not {shown}", hint="add() returns them")
    return list(dict.fromkeys(checked_name(one, "a message's id") for one in found))
