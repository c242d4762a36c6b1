"""Contexts: how fast they are made, and whether what answers a question is in them.

    python bench/context.py                                    contexts per second
    python bench/context.py --evidence locomo.jsonl            evidence that is in a context
    python bench/context.py --evidence locomo.jsonl --half even --log
    python bench/context.py --evidence locomo.jsonl --half odd --recent 0,0.1,0.2,0.4
    python bench/context.py --evidence locomo.jsonl --store minilm.jsonl.db --prompts
    python bench/context.py --answers                          the same of long answers, made up

Measured are `Memory.context`, the windows of alveus.agents.windows, and for `--evidence` the last
messages that fit. `--prompts` measures `Memory.context` with and without a conversation, and with
`min_score=0.5`, and beside it what a search finds as lines "Speaker: text", the best first.
Evidence is the share of the turns that answer a question which are in the context that was made for
it, whole; of long answers it is the share of the sentences that answer it. The shares of
`Memory.context` were chosen on the odd conversations of a file, so that the even ones say what they
are worth. The file's form is in conversations.py. `--store` is kept, and may be one that
retrieval.py has made.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby, islice
from pathlib import Path
from typing import Any

if not __package__:
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from alveus import Budget, Item, Memory, Shares
from alveus.agents import windows
from alveus.agents.windows import Observation, Stamp
from alveus.text.messages import OBSERVATIONS, Message
from bench import answers, cached, conversations, measure, retrieval
from bench.conversations import Conversation, Turn
from bench.corpus import Corpus
from bench.measure import Report, Result

SIZES = (100, 10_000, 100_000)
BUDGETS = (500, 1_000, 2_000, 4_000)
SPEED_TOKENS = 2_000
"""The budget of the contexts that are timed."""
AT_ONCE = 1_000
"""Observations per commit, where they are only there to be many."""

MANY = 1_000_000
"""Observations that a window may hold: it lets go of none."""
TOP = 60
"""Observations that a search of a window gives; as many as the largest budget has room for."""

WINDOWS: Mapping[str, tuple[Sequence[int], Mapping[str, int]]] = {
    "Stream": ([MANY], {}),
    "Priority": ([MANY], {}),
    "Importance": ([MANY], {}),
    "Hybrid": ([MANY], {}),
    "Semantic": ([MANY], {"top_k": TOP}),
    "Hierarchical": ([10, MANY], {}),
    "Linked": ([MANY], {"top_k": TOP}),
}
"""Windows that are measured, if alveus has them, and what they are made with."""

Ask = Callable[[str, int], tuple[set[str], int]]
"""Asks a question under a budget: the turns that are in the context, and its tokens."""

GATED = "memory.context, no conversation, min_score 0.5"
"""All or nothing, by the relevance of the best hit: what a prompt did before it went by worth."""

SEARCHED = 200
"""Hits of a search whose lines are packed without `Memory.context`."""

SMALL_TOKENS, SMALL_SHARE = 150, 8
"""A small hit has at most so many tokens, or the budget's so-manyth part."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what *arguments* (default: the command line) ask for."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    asked = _parser().parse_args(arguments)
    if asked.answers:
        found = list(_answered(asked))
    elif asked.joined:
        found = list(_joined(asked))
    else:
        found = list(_speeds(asked) if asked.evidence is None else _evidence(asked))
    where = measure.machine(Path.cwd())
    measure.show(found, title=f"contexts · {where.line()}")
    if asked.log:
        named = [Path(word).name if Path(word).exists() else word for word in words]
        command = shlex.join(["python", "bench/context.py", *named])
        measure.append_log(Report("context", command, where, found))
    return 0


def _windows(key: Any) -> Iterator[tuple[str, Any]]:
    """Yield the windows that there are, each kept in a set of its own."""
    for name, (first, settings) in WINDOWS.items():
        make: Any = getattr(windows, name, None)
        if make is not None:
            yield name, make(*first, **settings, memory=key, name=name)


# --- how fast they are ------------------------------------------------------------------------


def _speeds(asked: argparse.Namespace) -> Iterator[Result]:
    corpus = Corpus()
    for size in asked.sizes:
        with Memory.open(embedder=cached.embedder(asked.embedder, asked.cache)) as memory:
            key = memory.key("ada")
            questions = corpus.questions(asked.contexts + 1, among=size).texts
            _fill(key.set("said", item_type=OBSERVATIONS), corpus, size)
            memory.settle()
            yield _speed(
                "memory.context",
                size,
                asked.contexts,
                lambda n, key=key, q=questions: key.context(q[n], budget_tokens=SPEED_TOKENS),
            )
            for name, window in _windows(memory.key("bob")):
                _fill(memory.key("bob").set(name, item_type=OBSERVATIONS), corpus, size)
                memory.settle()

                def made(n: int, window: Any = window, asked: Sequence[str] = questions) -> object:
                    return window.context(Message(asked[n]), budget_tokens=SPEED_TOKENS)

                yield _speed(name, size, asked.contexts, made)


def _fill(into: Any, corpus: Corpus, count: int) -> None:
    with measure.progress("observations", total=count) as step:
        for rows in corpus.rows(0, count):
            for start in range(0, len(rows), AT_ONCE):
                texts = rows.texts[start : start + AT_ONCE]
                into.add_many([_kept(text) for text in texts])
                step("observations", len(texts))


def _kept(text: str) -> Item:
    """An observation as windows keep it: half of *text* asked, half answered."""
    words = text.split()
    asked, answered = " ".join(words[:15]), " ".join(words[15:])
    value = {"query": Message(asked).to_dict(), "reply": Message(answered, "assistant").to_dict()}
    stamp = Stamp.new()
    return Item(value, id=str(stamp), text=f"{asked}\n{answered}", time=stamp.time())


def _speed(system: str, size: int, count: int, make: Callable[[int], object]) -> Result:
    figure = measure.timed(make, count, warm=1)
    note = f"p50 {figure.p50:.2f} ms, p99 {figure.p99:.2f} ms, CPU {figure.cpu:.2f} ms"
    return Result(system, "context", size, value=1000 / figure.p50, unit="per s", note=note)


# --- what is in them --------------------------------------------------------------------------


def _evidence(asked: argparse.Namespace) -> Iterator[Result]:
    scores = _Scores()
    excluded = set(filter(None, asked.exclude.split(",")))
    with Memory.open(asked.store, embedder=cached.embedder(asked.embedder, asked.cache)) as memory:
        for talk in islice(_half(asked), asked.conversations):
            questions = [
                question
                for question in talk.questions
                if len(question.gold) >= asked.least_gold and question.category not in excluded
            ]
            with measure.progress(talk.id, total=len(talk.turns) + len(questions)) as step:
                systems = dict(_systems(memory, talk, asked, step))
                for question in questions:
                    for name, ask in systems.items():
                        for tokens in asked.budgets:
                            shown, size = ask(question.text, tokens)
                            found = len(question.gold & shown) / len(question.gold)
                            scores.add(name, tokens, found, size)
                    step(talk.id)
    yield from scores.results()


class _Scores:
    """Shares of evidence, and tokens used, by system and budget."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, int], list[tuple[float, int]]] = {}

    def add(self, system: str, budget: int, share: float, used: int) -> None:
        self._found.setdefault((system, budget), []).append((share, used))

    def results(self) -> Iterator[Result]:
        for (system, budget), found in sorted(self._found.items(), key=lambda one: one[0][1]):
            used = sum(size for _, size in found) / len(found)
            note = f"{len(found)} questions, {used:,.0f} tokens used"
            value = 100 * sum(share for share, _ in found) / len(found)
            layout = f"{budget:,} tokens"
            yield Result(system, "evidence", len(found), layout, value=value, unit="%", note=note)


def _half(asked: argparse.Namespace) -> Iterator[Conversation]:
    start, step = {"odd": (0, 2), "even": (1, 2), "all": (0, 1)}[asked.half]
    return islice(conversations.read(asked.evidence), start, None, step)


def _systems(
    memory: Memory, talk: Conversation, asked: argparse.Namespace, step: Callable[..., None]
) -> Iterator[tuple[str, Ask]]:
    """Yield all that is measured, filled with a conversation."""
    retrieval.fill(memory, talk, step)
    if asked.prompts:
        yield "search", _searched(memory, talk)
        yield "search, small first", _searched(memory, talk, is_small_first=True)
        yield "search, captions too", _searched(memory, talk, with_captions=True)
        yield (
            "search, days and captions too",
            _searched(memory, talk, with_captions=True, with_days=True),
        )
        yield "memory.context, no conversation", _prompt(memory, talk, None, messages=None)
        yield "memory.context", _prompt(memory, talk, None)
        yield GATED, _prompt(memory, talk, None, messages=None, min_score=0.5)
        return
    yield "the last messages", _last(talk.turns)
    for name, window in _windows(memory.key(f"{talk.id}, windows")):
        for observation in _observations(talk.turns):
            window.commit(observation)
        memory.settle()
        yield name, _window(window)
    for share in asked.recent:
        named = "memory.context" if share is None else f"memory.context, recent {share:g}"
        yield named, _prompt(memory, talk, share)


def _searched(
    memory: Memory,
    talk: Conversation,
    *,
    is_small_first: bool = False,
    with_captions: bool = False,
    with_days: bool = False,
) -> Ask:
    """Lines "Speaker: text" of a search, without what a prompt needs to keep them apart.

    With captions and days, each line says what a line of a context does, and its day's heading.
    """
    budget, key = Budget().remembering(), memory.key(talk.id)
    lines: dict[str, int] = {}
    for turn in talk.turns:
        caption = f" image: {turn.caption}" if with_captions and turn.caption else ""
        day = f"{turn.time:%-d %B %Y}, " if with_days else ""
        lines[turn.id] = budget.count(f"{day}{turn.speaker}: {turn.text}{caption}\n")
    hits: dict[str, list[str]] = {}

    def ask(question: str, tokens: int) -> tuple[set[str], int]:
        if question not in hits:
            hits.clear()
            hits[question] = [hit.item.id or "" for hit in key.search(question, limit=SEARCHED)]
        small = max(SMALL_TOKENS, tokens // SMALL_SHARE)
        ranked = hits[question]
        if is_small_first:
            ranked = sorted(ranked, key=lambda name: lines[name] > small)
        size, shown = budget.size([Message(question)]), set[str]()
        for name in ranked:
            if size + lines[name] <= tokens:
                shown.add(name)
                size += lines[name]
        return shown, size

    return ask


def _said(turn: Turn, role: Any = "user") -> Message:
    """A turn as a message; its name, which is not counted, is the turn's id."""
    return Message(f"{turn.speaker}: {turn.text}", role, turn.id)


def _last(turns: Sequence[Turn]) -> Ask:
    budget = Budget()
    sizes = [(turn.id, budget.size([_said(turn)])) for turn in turns]

    def ask(question: str, tokens: int) -> tuple[set[str], int]:
        size = budget.size([Message(question)])
        shown: set[str] = set()
        for turn_id, more in reversed(sizes):
            if size + more > tokens:
                break
            shown.add(turn_id)
            size += more
        return shown, size

    return ask


def _observations(turns: Sequence[Turn]) -> Iterator[Observation]:
    for first, second in zip(turns[::2], [*turns[1::2], None], strict=False):
        reply = "…" if second is None else _said(second, "assistant")
        yield Observation(_said(first), reply)


def _window(window: Any) -> Ask:
    budget = Budget()

    def ask(question: str, tokens: int) -> tuple[set[str], int]:
        shown = window.context(Message(question), budget_tokens=tokens)
        return {str(message.name) for message in shown}, budget.size(shown)

    return ask


def _prompt(
    memory: Memory,
    talk: Conversation,
    recent: float | None,
    *,
    messages: str | None = "default",
    min_score: float | None = None,
) -> Ask:
    shares = Shares() if recent is None else Shares(recent=recent, items=1 - recent)
    texts = {turn.id: turn.text for turn in talk.turns}

    def ask(question: str, tokens: int) -> tuple[set[str], int]:
        made = memory.context(
            question,
            key=talk.id,
            budget_tokens=tokens,
            messages=messages,
            shares=shares,
            min_score=min_score,
        )
        shown = {
            name
            for piece in made.why
            if piece.shown
            for name in piece.ids
            if texts[name] in piece.text
        }
        return shown, made.tokens

    return ask


# --- joined turns: long items -----------------------------------------------------------------


def _joined(asked: argparse.Namespace) -> Iterator[Result]:
    """Items of many turns each: whether the turns that answer are among what is shown of them."""
    scores = _Scores()
    excluded = set(filter(None, asked.exclude.split(",")))
    with Memory.open(asked.store, embedder=cached.embedder(asked.embedder, asked.cache)) as memory:
        for talk in islice(_half(asked), asked.conversations):
            name = f"{talk.id}, {asked.joined} turns joined"
            memory.key(name).add_many(list(_long_items(talk, asked.joined)), on_existing="keep")
            memory.settle()
            texts = {turn.id: turn.text for turn in talk.turns}
            questions = [q for q in talk.questions if q.gold and q.category not in excluded]
            with measure.progress(talk.id, total=len(questions)) as step:
                for question in questions:
                    for tokens in asked.budgets:
                        text, size = answers.searched(memory, name, question.text, tokens)
                        found = [texts[turn] in text for turn in question.gold]
                        scores.add("search", tokens, sum(found) / len(found), size)
                        made = memory.context(question.text, key=name, budget_tokens=tokens)
                        said = "".join(piece.text for piece in made.why if piece.shown)
                        found = [texts[turn] in said for turn in question.gold]
                        scores.add("memory.context", tokens, sum(found) / len(found), made.tokens)
                    step(talk.id)
    yield from scores.results()


def _long_items(talk: Conversation, size: int) -> Iterator[Item]:
    for session, turns in groupby(talk.turns, key=lambda turn: turn.session):
        said = list(turns)
        for start in range(0, len(said), size):
            part = said[start : start + size]
            text = "\n".join(f"{turn.speaker}: {turn.text}" for turn in part)
            yield Item(text, id=part[0].id, session=session, time=part[0].time)


# --- long answers -----------------------------------------------------------------------------


def _answered(asked: argparse.Namespace) -> Iterator[Result]:
    """What is in a prompt where an assistant's answers are far longer than what answers."""
    scores = _Scores()
    with Memory.open(asked.store, embedder=cached.embedder(asked.embedder, asked.cache)) as memory:
        for number in range(asked.conversations or answers.CHATS):
            chat = answers.chat(number)
            answers.fill(memory, chat)
            with measure.progress(chat.id, total=len(chat.questions)) as step:
                for question in chat.questions:
                    for tokens in asked.budgets:
                        text, size = answers.searched(memory, chat.id, question.text, tokens)
                        scores.add("search", tokens, float(question.answer in text), size)
                        made = memory.context(question.text, key=chat.id, budget_tokens=tokens)
                        is_there = float(question.answer in made.text)
                        scores.add("memory.context", tokens, is_there, made.tokens)
                    step(chat.id)
    yield from scores.results()


def _numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",")]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="bench/context.py", description="Measure contexts.")
    parser.add_argument("--evidence", type=Path, help="conversations with questions about them")
    parser.add_argument("--answers", action="store_true", help="long answers, made up")
    parser.add_argument("--store", default=":memory:", help="where items are kept; else in RAM")
    parser.add_argument("--prompts", action="store_true", help="prompts and searches alone")
    parser.add_argument("--least-gold", type=int, default=1, metavar="N", help="of a question")
    parser.add_argument("--joined", type=int, metavar="N", help="so many turns are an item")
    parser.add_argument("--half", choices=["odd", "even", "all"], default="all")
    parser.add_argument("--conversations", type=int, help="only the first so many")
    parser.add_argument("--exclude", default="5,abstention", help="categories left out")
    parser.add_argument("--budgets", type=_numbers, default=list(BUDGETS), metavar="N,N…")
    parser.add_argument(
        "--recent",
        type=lambda text: [float(share) for share in text.split(",")],
        default=[None],
        metavar="SHARE,…",
        help="shares of recent messages to try, instead of the default ones",
    )
    parser.add_argument("--sizes", type=_numbers, default=list(SIZES), metavar="N,N…")
    parser.add_argument("--contexts", type=int, default=100, help="so many are timed")
    cached.add_argument(parser)
    parser.add_argument("--embedder", default="minilm")
    parser.add_argument("--log", action="store_true", help="append the result to LOG.md")
    return parser


if __name__ == "__main__":
    sys.exit(main())
