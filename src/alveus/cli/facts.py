"""Facts: learn them from a conversation, list, explain, check and undo them."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterable
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

import click

from alveus.cli import options, output
from alveus.cli.import_export import checked_messages
from alveus.cli.options import When, argument, option
from alveus.cli.session import Session
from alveus.errors import ModelFailed, ModelUnavailable, NotFound
from alveus.facts import Fact, Facts, LearnOptions, LearnReport
from alveus.llm import ChatModel
from alveus.memory.keys import KeyMemory
from alveus.memory.memory import Memory
from alveus.transfer import LAST
from alveus.values.forks import Flag
from alveus.values.retries import Retry
from alveus.values.times import Zone

NAME = "chat"
"""The name of the conversation, unless the user names another."""

LONGEST_NAME = 250
"""Longest text that is checked as a file name. The system raises an error for longer names."""

POLL_S = 0.5
"""How many seconds a watch waits between two looks for new commits."""

WATCHING = Retry(wait_s=60.0, most_s=3_600.0, jitter=0.0)
"""Waiting times of a watch: after a failure of a model, or for the calls of the next hour."""

MOST_FOLLOWED = 10_000
"""Most new commits that a watch reads one by one. After more (an import), it reads all keys."""


def _learn_options(
    *, retry: bool, batch: int, at_least: int, idle: timedelta | None, calls_per_hour: int | None
) -> LearnOptions:
    return LearnOptions(
        batch_messages=batch,
        skipped="retry" if retry else "leave",
        at_least=at_least,
        idle=idle or timedelta(0),
        calls_per_hour=calls_per_hour,
    )


_COUNT = options.Whole(min=1)
_LEARN_OPTIONS: Any = options.OptionGroup(
    {
        "retry": option("--retry", "Also read messages that were set aside."),
        "batch": option(
            "--batch COUNT",
            "Messages that a model is asked about at once.",
            type=options.Whole(1, 1_000),
            default=LearnOptions().batch_messages,
        ),
        "at_least": option(
            "--at-least COUNT", "Wait for so many messages.", type=_COUNT, default=1
        ),
        "idle": option("--idle SPAN", "Wait until nobody wrote for so long."),
        "calls_per_hour": option(
            "--calls-per-hour COUNT", "Ask models at most so often an hour.", type=_COUNT
        ),
    },
    _learn_options,
)


@options.command("learn")
def learn_command(
    session: Session,
    *,
    texts: tuple[str, ...] = argument("[TEXT]...", nargs=-1),
    key: str | None = options.key_option(
        "The user, session or device; with --watch all, unless one is named."
    ),
    name: str = option("--name NAME", "The conversation.", default=NAME),
    file: str | None = option(
        "-i --input FILE",
        'Add the messages of FILE to the conversation first; "-": of stdin.',
        type=options.FileName(allow_dash=True),
    ),
    model: ChatModel | None = options.MODEL,
    how: LearnOptions = _LEARN_OPTIONS,
    dry_run: bool = option("--dry-run", "Only say what it would cost."),
    watch: bool = option("--watch", "Keep running, and learn from what is added."),
) -> None:
    """Learn facts from a conversation of a key.

    The conversation is read from where the last call stopped, each message once. With TEXT, facts
    are learnt from these texts instead. Without --model, rules for English find the facts.

    Each line of --input is a message: {"role": "user", "content": "I live in Lisbon.", "name":
    "Ada", "time": "2026-03-01T10:00:00Z", "id": "1"}. Only role and content are required. If the
    command is interrupted, repeat it: no message is added twice.

    With --watch the command follows the conversations of all keys until SIGTERM (exit code 0) or
    Ctrl-C (130). It ends after the step under way; at a second Ctrl-C at once. It may be killed at
    any time, and run several times side by side. All share the calls of --calls-per-hour. If the
    model fails for a key, the key is read again after a minute, later each time, at most after an
    hour.

    With --json: one object, with the facts that are new, the ids of those that were confirmed,
    superseded, contradicted and taken back, what was refused, how many messages were set aside or
    wait for the next hour, and the ids of the learnings, which facts undo takes; with --watch a
    line for each time that something was read, with the key. With --dry-run: {"messages": …,
    "calls": …, "tokens": …}, the most calls.

    Example: alveus learn --key ada --input chat.jsonl
    """
    _check_source(texts, key, file, asks_only=dry_run, watch=watch)
    key = key or ""
    with ExitStack() as stack:
        load = None
        if file is not None:
            load = stack.enter_context(checked_messages(session, file, key, name))
        makes = bool(texts) or load is not None
        opened = session.open(make=(lambda memory: memory.key(key)) if makes else None)
        memory = stack.enter_context(opened)
        if load is not None:
            load(memory)
        if watch:
            _Watch(session, memory, key or None, name).run(model, how)
            return
        owner = memory.key(key)
        talk = owner.conversation(name)
        if not texts and name not in owner.sets():
            session.nothing(f"key {key!r} has no conversation {name!r}; --name names another one")
        if dry_run:
            cost = owner.facts.cost(talk, model=model, options=how)
            session.answer(
                f"{cost.messages:,} messages, at most {cost.calls:,} calls, about "
                f"{cost.tokens:,} tokens",
                output.attributes(cost, "messages calls tokens"),
            )
            return
        texts = session.valid(texts).value
        total = len(texts) or owner.facts.cost(talk, model=model, options=how).messages
        with session.progress("learning", total=total) as advance:
            report = owner.learn(list(texts) or talk, model=model, options=how, progress=advance)
        _show_report(session, owner, report)


def _check_source(
    texts: tuple[str, ...], key: str | None, file: str | None, *, asks_only: bool, watch: bool
) -> None:
    """Refuse sources that exclude each other, and a file name given as a text.

    Raises:
        UsageError: Two exclusive sources, or a file name as text.
    """
    if texts and (asks_only or watch or file is not None):
        raise click.UsageError(
            "--dry-run, --watch and --input need a conversation; leave out the texts, or these "
            "options"
        )
    if file is not None and (asks_only or watch):
        raise click.UsageError("--input cannot be combined with --dry-run or --watch; omit them")
    if key is None and not watch:
        raise click.UsageError("a key is needed: --key KEY; only --watch works without it")
    for text in texts:
        if len(text) < LONGEST_NAME and text.isprintable() and Path(text).is_file():
            raise click.UsageError(
                f"{text!r} is a file, not a text; to read messages from it, pass --input {text}"
            )


class _Watch:
    """Follows the conversations of one key, or of all keys, until a signal ends the watch.

    The watch first reads all of them. Afterwards, commits name the conversations with new messages.
    """

    def __init__(self, session: Session, memory: Memory, key: str | None, name: str) -> None:
        self._session, self._memory, self._key, self._name = session, memory, key, name
        self._stop = Flag()
        self._due: dict[str, float] = {}
        self._failures: dict[str, int] = {}

    def run(self, model: ChatModel | None, how: LearnOptions) -> None:
        """Learn from each key that has new messages or whose last try failed."""
        with self._session.stopped_by_signals(self._stop.set):
            self._session.note("alveus: watching; Ctrl-C ends")
            self._follow(model, how)

    def _follow(self, model: ChatModel | None, how: LearnOptions) -> None:
        quiet_s = how.idle.total_seconds() + POLL_S * bool(how.idle)
        seen = self._memory.store.commit_at(LAST)
        for key in self._keys():
            if not self._stop.is_set():
                self._learn(self._memory.key(key), model, how)
        if how.idle:  # messages written just before are not read yet
            self._put_off(self._keys(), quiet_s)
        while not self._stop.is_set():
            last = self._memory.store.commit_at(LAST)
            self._put_off(self._changed(seen, last), quiet_s)
            seen, now = last, time.monotonic()
            for key in [key for key, due in self._due.items() if due <= now]:
                if self._stop.is_set():
                    return
                del self._due[key]
                self._learn(self._memory.key(key), model, how)
            self._stop.wait(POLL_S)

    def _keys(self) -> Iterable[str]:
        return [self._key] if self._key else self._memory.keys()

    def _put_off(self, keys: Iterable[str], after_s: float) -> None:
        """Read keys again after *after_s* seconds.

        A key whose last try failed keeps its later time.
        """
        due = time.monotonic() + after_s
        for key in keys:
            self._due[key] = max(due, self._due.get(key, due) if key in self._failures else due)

    def _put_off_failed(self, key: str, error: ModelFailed) -> None:
        """Delay a key after a failure: longer with each failure, or as the model's server asks."""
        self._failures[key] = self._failures.get(key, 0) + 1
        pause_s = WATCHING.pause_s(self._failures[key])
        asked_s = error.retry_after_s if isinstance(error, ModelUnavailable) else None
        self._put_off([key], min(WATCHING.most_s, max(pause_s, asked_s or 0.0)))

    def _changed(self, seen: int, last: int) -> Iterable[str]:
        """Return the keys that got messages in the commits after *seen*, up to *last*."""
        if last - seen > MOST_FOLLOWED:
            return self._keys()
        keys: dict[str, None] = {}
        for number in range(seen + 1, last + 1):
            effects = self._memory.store.effects(number)
            for stored in () if effects is None else effects.begun_items:
                scope = stored.set.scope
                if stored.set.name == self._name and scope.space == self._memory.space:
                    keys[scope.key or ""] = None
        return [key for key in keys if key and self._key in (None, key)]

    def _learn(self, memory: KeyMemory, model: ChatModel | None, how: LearnOptions) -> None:
        if self._name not in memory.sets():
            return
        key = memory.key
        try:
            talk = memory.conversation(self._name)
            report = memory.learn(talk, model=model, options=how, progress=self._check)
        except _Stopped:
            return
        except ModelFailed as error:
            self._session.note(f"alveus: key {key!r}: {error}")
            self._put_off_failed(key, error)
            return
        self._failures.pop(key, None)
        if report.waiting:
            self._put_off([key], WATCHING.wait_s)
        if report.messages or report.set_aside:
            _show_report(self._session, memory, report, key=key)

    def _check(self, _messages: int) -> None:
        if self._stop.is_set():
            raise _Stopped


class _Stopped(Exception):
    """Raised when a signal ends the command between two commits."""


def _show_report(
    session: Session, memory: KeyMemory, report: LearnReport, key: str | None = None
) -> None:
    if session.json:
        head = {} if key is None else {"key": key}
        output.document({**head, **output.fields_of(report)})
        return
    for fact in report.added:
        session.say(f"+ {fact.text}")
    for sign, ids in (
        ("=", report.confirmed),
        ("-", report.superseded),
        ("?", report.contradicted),
        ("-", report.taken_back),
    ):
        for item_id in ids:
            session.say(f"{sign} {memory.facts.history(item_id)[-1].text}")
    for reason, count in report.refused.items():
        session.note(f"alveus: refused {count:,}: {reason}")
    if report.set_aside:
        session.note(
            f"alveus: set aside {report.set_aside:,} messages without a usable answer; "
            "--retry reads them"
        )
    if report.waiting:
        session.note(f"alveus: {report.waiting:,} messages wait; all calls of this hour were made")
    read = output.plural(report.messages, "message")
    calls = output.plural(report.model_calls, "call")
    session.note(f"alveus: {read} read, {calls} of a model")


@options.command("about")
def about_command(
    session: Session,
    *,
    name: str = argument(),
    key: str = options.KEY,
    steps: int | None = option(
        "--steps COUNT",
        "Also list what facts lead to, so many steps away.",
        type=options.Whole(1, 16),
    ),
    when: When = options.WHEN,
) -> None:
    """Show what is known of a person, a place or a thing.

    With --json: {"names": […], "facts": […], "relations": […], "mentions": […], "timeline": […],
    "history": […]}, and with --steps "neighbours": {"NAME": steps, …}; facts as facts show.

    Example: alveus about Grace --key ada
    """
    with _opened(session, key) as facts:
        page = facts.about(name, **when)
        near = {} if steps is None else facts.neighbours(name, steps=steps, **when)
    if session.json:
        fields = output.fields_of(page)
        if steps is not None:
            fields["neighbours"] = {other: step for other, (step, _) in near.items()}
        output.document(fields)
        return
    others = f" (also {', '.join(page.names[1:])})" if page.names[1:] else ""
    session.answer(f"{page.name}{others}")
    for title in ("facts", "relations", "mentions", "timeline", "history"):
        found: tuple[Fact, ...] = getattr(page, title)
        for number, fact in enumerate(found):
            session.answer(f"{'' if number else title:<10} {fact.text}")
    for other, (step, fact) in near.items():
        session.answer(f"{output.plural(step, 'step')} to {other}: {fact.text}")


@options.command("profile")
def profile_command(
    session: Session,
    *,
    name: str | None = argument(required=False),
    key: str = options.KEY,
    budget: int = option(
        "--budget TOKENS", "What it may take.", type=options.Whole(1, 1_000_000), default=300
    ),
    when: When = options.WHEN,
) -> None:
    """Print the facts about somebody, within a budget of tokens.

    Without NAME: about the name with the most facts.
    With --json: {"name": …, "text": …, "facts": […], "tokens": …, "left_out": …}.

    Example: alveus profile --key ada --budget 200
    """
    with _opened(session, key) as facts:
        found = facts.profile(name, budget=budget, **when)
    session.answer(found.text, {**output.fields_of(found), "text": found.text})
    if not session.json:
        left = f", {output.plural(found.left_out, 'fact')} left out" if found.left_out else ""
        session.note(f"alveus: {found.name}, {found.tokens:,} tokens{left}")


facts_command = options.group("facts", "List the facts of a key, explain, check and undo them.")


@contextmanager
def _opened(session: Session, key: str, mode: Literal["rw", "ro"] = "ro") -> Generator[Facts]:
    with session.open(mode=mode) as memory:
        try:
            yield memory.key(key).facts
        except NotFound as error:
            session.nothing(str(error))


@options.command("list", facts_command)
def list_facts(
    session: Session,
    *,
    key: str = options.KEY,
    subject: str | None = option("--subject NAME", "Only facts about NAME."),
    everything: bool = option("--all", "Also facts that ended to hold."),
    when: When = options.WHEN,
    limit: int | None = options.limit_option(),
) -> None:
    """List the facts of a key that hold, sorted by time.

    With --json: a line per fact, as show prints it.

    Example: alveus facts list --key ada --subject Ada
    """
    with _opened(session, key) as facts:
        where = None if everything or when["valid_at"] else {"state": "current"}
        found = facts.list(subject=subject, where=where, limit=limit, **when)

    def row(fact: Fact) -> tuple[str, ...]:
        return fact.id, fact.kind, fact.subject, fact.text

    session.listing(("id", "kind", "subject", "fact"), found, row, output.fields_of)


@options.command("show", facts_command)
def show_fact(session: Session, *, item_id: str = options.ITEM, key: str = options.KEY) -> None:
    """Show a fact and the quoted words that support it.

    With --json: one object with every field of the fact.

    Example: alveus facts show 0193a5c2 --key ada
    """
    with _opened(session, key) as facts:
        versions = facts.history(item_id)
    if not versions:
        session.nothing(f"key {key!r} has no fact {item_id!r}")
    session.describe(_described(versions[-1], session.zone), output.fields_of(versions[-1]))


def _described(fact: Fact, zone: Zone) -> list[tuple[str, str]]:
    holds = [
        f"{word} {zone.text(time)}"
        for word, time in (("from", fact.valid_from), ("until", fact.valid_to))
        if time is not None
    ]
    when = " to ".join(dict.fromkeys(date for date in fact.when if date))
    rows = [
        ("id", fact.id),
        ("fact", fact.text),
        ("kind", fact.kind),
        ("subject", fact.subject),
        ("holds", " ".join(holds)),
        ("takes place", when and f"{when}, counted in {fact.zone}"),
        ("confidence", f"{fact.confidence:.2f}, confirmed {fact.confirmed:,} times"),
        ("learnt by", f"{fact.model}, {fact.prompt}"),
        ("learning", fact.learning),
        *(("quotation", f"{one.source}: {one.text}") for one in fact.quotations),
        ("replaced by", " ".join(fact.replaced_by)),
        ("contradicts", " ".join(fact.contradicts)),
        ("gone since", "" if fact.retired is None else zone.text(fact.retired)),
    ]
    return [(name, said) for name, said in rows if said]


@options.command("why", facts_command)
def why_fact(session: Session, *, item_id: str = options.ITEM, key: str = options.KEY) -> None:
    """Show the messages that support a fact, and the facts that it replaced.

    With --json: {"fact": {…}, "messages": […], "learning": …, "replaced": […],
    "contradicts": […]}.

    Example: alveus facts why 0193a5c2 --key ada
    """
    with _opened(session, key) as facts:
        origin = facts.why(item_id)
    rows = [("fact", origin.fact.text), ("learnt by", origin.fact.model)]
    for message in origin.messages:
        who = message.get("name") or message.get("role")
        rows.append(("message", f"{message['id']}, {who}: {message.get('content')}"))
    rows += [("replaced", fact.text) for fact in origin.replaced]
    rows += [("contradicts", fact.text) for fact in origin.contradicts]
    learning = None if origin.learning is None else origin.learning.id
    session.describe(rows, {**output.fields_of(origin), "learning": learning})


@options.command("check", facts_command)
def check_facts(session: Session, *, key: str = options.KEY) -> None:
    """Look for the words of every fact in its messages again.

    Exit code 1 if a message was deleted, or no longer has the words. With --json: {"fact": …,
    "source": …, "problem": …} for each.

    Example: alveus facts check --key ada
    """
    with _opened(session, key) as facts:
        found, count = facts.check(), len(facts)
    session.listing(
        ("fact", "source", "problem"),
        found,
        lambda each: (each.fact, each.source, each.problem),
        lambda each: output.attributes(each, "fact source problem"),
    )
    session.note(
        f"alveus: {output.plural(count, 'fact')} checked, {output.plural(len(found), 'problem')}"
    )
    if found:
        click.get_current_context().exit(1)


@options.command("undo", facts_command)
def undo_learning(
    session: Session,
    *,
    learnings: tuple[str, ...] = argument("[LEARNING]...", nargs=-1),
    key: str = options.KEY,
) -> None:
    """Take back learnings, the last one unless others are named.

    Facts that they superseded hold again. With --json: {"learnings": […], "facts": …}.

    Example: alveus facts undo --key ada
    """
    with _opened(session, key, "rw") as facts:
        names = list(learnings)
        if not names:
            last = next((one.id for one in facts.learnings(1_000) if not one.undone), None)
            if last is None:
                session.nothing(f"key {key!r} has no learning that could be undone")
            names = [last]
        count = facts.undo(*names)
    fields: dict[str, output.Json] = {"learnings": [*names], "facts": count}
    session.done(f"took back {output.plural(count, 'fact')}", fields)
