"""`ConversationMemory`: what was said on a key, and a summary that rolls on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import takewhile
from typing import Any, TypeVar, cast

from fornix.conversation import message_items
from fornix.conversation.message_items import COMPRESSED, SUMMARY
from fornix.conversation.rolling_summary import (
    MAX_TOKENS,
    MOST_AT_ONCE,
    NOTHING,
    Compressed,
    SummaryPolicy,
    Summing,
    summed_up,
)
from fornix.conversation.transcript import (
    TRIES,
    Talk,
    message_ids,
    noted,
    summary_item,
    text_of_summary,
)
from fornix.errors import (
    DuplicateItem,
    InvalidInput,
    InvalidState,
    InvalidValue,
    NotFound,
    StaleItem,
)
from fornix.llm import ChatModel
from fornix.sets.batch import Draft
from fornix.sets.writer import PlannedWrite, WriteCall
from fornix.store import Add, Link, Retire, StoredItem
from fornix.text import Summariser, Summary
from fornix.text.budget import Budget
from fornix.text.messages import Message
from fornix.values.storable import Value

R = TypeVar("R")


class ConversationMemory(Talk):
    """What was said, in the order in which it was added; reached by ``key.conversation(name)``.

    Every change is one commit, durable when the call returns; in a batch or an action it is part
    of that. A message has an id, and is there once; the order is that of the commits, the same for
    all who read, and what is added comes last. Messages that are returned are copies, dicts with
    what was added and an ``id``.

    It is the set *name* of its key: of another key, a conversation of that name is another one.
    """

    # --- the summary --------------------------------------------------------------------------

    def update_compressed_summary(self, summary: str, msg_ids: str | Iterable[str] = ()) -> int:
        """Have another summary, and in the same commit mark messages as compressed.

        Args:
            summary: Its text; "" takes it away.
            msg_ids: The messages that it stands for besides those that are marked already.

        Returns:
            How many messages were marked.
        """
        if not isinstance(summary, str):  # pyright: ignore[reportUnnecessaryIsInstance] - user input
            kind = type(summary).__name__
            raise InvalidValue("summary", f"is a text, not {kind}", hint="use str(summary)")
        wanted = message_ids(msg_ids)

        def work() -> int:
            before, found = self._summary(), self._live(wanted)
            new = [one for one in found if COMPRESSED not in message_items.marks_of(one)]
            chosen = found if before is None else new
            self._sum_up(before, chosen, {"content": summary}, upto=None)
            return len(new)

        return self._tried(work)

    def _tried(self, work: Callable[[], R]) -> R:
        """Return what *work* does, again and again while others change what it reads."""
        for _ in range(TRIES - 1):
            with suppress(StaleItem, DuplicateItem):
                return work()
        return work()

    def _sum_up(
        self,
        before: StoredItem | None,
        chosen: Sequence[StoredItem],
        said: Mapping[str, Any],
        *,
        upto: str | None,
        open_: Sequence[StoredItem] = (),
    ) -> None:
        """Commit a summary that takes the place of *before*, and marks of *chosen*.

        Marks of *open_* that no summary stands for, since it was forgotten, are taken off.

        Raises:
            StaleItem: One of them is not as it was read; nothing was changed.
        """
        value = {"role": "system", **said, "upto": upto, "under": before and before.version}
        last = chosen[-1] if chosen else next(self._newest(), None)  # it is no newer than that
        time = None if last is None else last.record.time or last.updated
        links = [Link(self._ref, stored.record.id) for stored in chosen]
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
        """Commit a summary for another, None for none, with messages whose marks are others."""
        retired = [] if before is None else [Retire(self._ref, SUMMARY, before.version)]
        arguments: list[Value] = [self.name, cast("Value", value and dict(value))]
        call = WriteCall("summary", lambda: [*arguments, [s.record.id for s, _ in pairs]])

        def build(_new_id: Callable[[], str]) -> PlannedWrite:
            items = [*retired, *self._marked(pairs)]
            if value is not None:
                record = self._writer.records([(SUMMARY, summary_item(value, time))])[0]
                own = [] if before is None else [Link(self._ref, SUMMARY)]
                items.append(Add(self._ref, record, links=(*own, *links)))
            return self._change(items, retry=False)

        if retired and isinstance(self._writer, Draft):  # which takes an id once per call
            self._writer.write(call, lambda _: PlannedWrite(retired, None))
            retired = []
        self._writer.write(call, build)

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
        """Sum up what was said, but for the end of it; nothing that was said is lost.

        The summary rolls on: it holds what the one before said. The messages stay, are found by
        searches, and are marked `COMPRESSED`, in the same commit; a long conversation takes a
        commit per `MOST_AT_ONCE` messages. Kept out of it are the newest request, and tool calls
        that wait for an answer; a call and its answers are summed up together, or not.

        Args:
            keep_recent: How many of the last messages are kept, three if nothing is said; a tool
                call with its answers counts as one.
            keep_tokens: In place of that, as many of the last messages are kept as have so many
                tokens together.
            trigger_tokens: Only if the summary and all that is not in it have so many; a `Budget`
                says who counts.
            beside_tokens: Of what stands beside the conversation in the prompt, as instructions
                do: they count with it, for `trigger_tokens` and `keep_tokens`.
            model: What makes the summary: a language model, or a summariser. If it fails, and
                without one, sentences are chosen.
            max_tokens: How long the summary may be.

        Raises:
            InvalidInput: An argument cannot be used; nothing was changed.
            ModelMissing, ModelClosed, ScriptEnded: The model cannot be asked at all.
            StaleItem, DuplicateItem: Others changed what it read, again and again.
        """
        keeping = SummaryPolicy.of(keep_recent, keep_tokens, beside_tokens, trigger_tokens)
        budget, summing = keeping.budget, Summing(model, max_tokens)
        steps: list[tuple[int, Summary]] = []

        def work() -> None:
            self._sum_up_all(keeping, summing, steps)

        self._tried(work)
        left = self._open()
        size = budget.size([message_items.model_message(stored) for stored in left])
        summary = self.summary
        size += budget.size([Message(summary)]) if summary else 0
        done = sum(count for count, _ in steps)
        made = steps[-1][1] if steps else Summary(text="", by="", tokens=0)
        return Compressed(done, summary, made.by, made.because, size)

    def _open(self) -> list[StoredItem]:
        """Return the messages that no summary stands for, oldest first."""

        def read(summary: StoredItem | None) -> list[StoredItem]:
            return self._chosen(None, None if summary is None else COMPRESSED, None)

        return self._seen(read)[0]

    def _sum_up_all(
        self, keeping: SummaryPolicy, summing: Summing, steps: list[tuple[int, Summary]]
    ) -> None:
        """Sum up what may be, a commit for `MOST_AT_ONCE` messages; note what each did."""
        open_ = self._open()
        told = [message_items.model_message(stored) for stored in open_]
        text = self.summary
        if not keeping.is_due([Message(text), *told] if text else told):
            return
        chosen = summed_up(open_, keeping)
        while chosen:
            part = chosen
            if len(chosen) > MOST_AT_ONCE:  # a call whose answer comes later is for the next
                part = summed_up(chosen[:MOST_AT_ONCE], NOTHING) or chosen
            steps.append((len(part), self._rolled(part, open_, summing)))
            rows = {stored.row for stored in part}
            chosen = [stored for stored in chosen if stored.row not in rows]
            open_ = [stored for stored in open_ if stored.row not in rows]

    def _rolled(
        self, part: Sequence[StoredItem], open_: Sequence[StoredItem], summing: Summing
    ) -> Summary:
        """Commit the summary of what was summed up before and of *part*."""
        before = self._summary()
        made = summing.rolled(text_of_summary(before), part)
        rows = {stored.row for stored in part}
        first = list(takewhile(lambda stored: stored.row in rows, open_))
        upto = first[-1].record.id if first else noted(before).get("upto")
        said = {"content": made.text, "by": made.by, "because": made.because}
        left = [stored for stored in open_ if stored.row not in rows]
        self._sum_up(before, part, said, upto=upto, open_=left)
        return made

    def uncompress(self) -> int:
        """Undo the last summary: the one before is back, and messages that it stood for are open.

        Returns:
            How many messages are open again.

        Raises:
            NotFound: There is no summary.
            Unusable: In a batch that made it.
        """
        return self._tried(self._undone)

    def _undone(self) -> int:
        now = self._summary()
        if now is None:
            raise NotFound(f"conversation {self.name!r} has no summary that could be undone")
        said = noted(now)
        rows = [source for _, source in self._writer.sources([now.row])]
        ids = [s.record.id for s, _ in self._writer.rows(rows) if s.record.id != SUMMARY]
        marked = [one for one in self._live(ids) if COMPRESSED in message_items.marks_of(one)]
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

    # --- as a whole ---------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return all of it as JSON has it: messages with their marks, and the summary."""
        found = [*self._newest()][::-1]
        told = [
            [message_items.as_message(stored), message_items.marks_of(stored)] for stored in found
        ]
        return {"_compressed_summary": self.summary, "content": told}

    def load_state_dict(self, state: Mapping[str, Any], strict: bool = True) -> None:  # noqa: FBT001, FBT002 - as AgentScope has it
        """Have what `state_dict` returned instead of what there is, in one commit.

        Messages alone, without marks, are read too: older states have them.

        Args:
            strict: A state without content is an error; else it is empty.

        Raises:
            InvalidState: It has no content (a KeyError); nothing was changed.
            InvalidInput: It is no state; nothing was changed.
        """
        if not isinstance(state, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance] - user input
            raise InvalidInput(f"the state of a conversation is a dict, not {state!r:.40}")
        if strict and "content" not in state:
            raise InvalidState("the state of a conversation has content; this one has none")
        items = message_items.of_state(state.get("content", []), self.name)
        summary = state.get("_compressed_summary") or ""
        if not isinstance(summary, str):
            raise InvalidInput(f"_compressed_summary is a text, not {type(summary).__name__}")
        value = {"role": "system", "content": summary, "upto": None, "under": None}
        if summary:
            items.append(replace(summary_item(value, None), id=SUMMARY))

        def build(new_id: Callable[[], str]) -> PlannedWrite:
            adds = [(item.id or new_id(), item) for item in items]
            retired = [Retire(self._ref, s.record.id, s.version) for s in self._all()]
            added = [Add(self._ref, record) for record in self._writer.records(adds)]
            return self._change([*retired, *added], retry=True)

        if isinstance(self._writer, Draft):  # which takes an id once per call
            self.clear()
        self._writer.write(WriteCall("load", lambda: [self.name, len(items)]), build)

    def _all(self) -> list[StoredItem]:
        summary = self._summary()
        return [*self._newest(), *([] if summary is None else [summary])]
