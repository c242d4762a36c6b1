"""A chat in the terminal that remembers: chat."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import field
from datetime import datetime
from importlib import import_module
from typing import TextIO, cast

import click

from alveus.cli import options, output
from alveus.cli.forgetting import show_receipt
from alveus.cli.items import EXACT, budget_option
from alveus.cli.options import option
from alveus.cli.session import Session
from alveus.conversation import ConversationMemory
from alveus.errors import AlveusError, InvalidInput, ModelFailed
from alveus.facts import Learning
from alveus.llm import ChatModel, said_by, stream_text
from alveus.memory.keys import KeyMemory
from alveus.memory.prompt import Context, Piece
from alveus.text.messages import MESSAGES
from alveus.values.ids import derived_ids
from alveus.values.lazy_dataclass import dataclass

NAME = "chat"
"""The name of the conversation, unless the user names another."""

BUDGET = 4000
"""Default budget of a prompt, in tokens."""

SYSTEM = (
    "You talk with a person whom you remember. Use what is remembered where it matters to what "
    "they say; where neither that nor the conversation tells, say that you do not know."
)

ALONE = "retrieved"
"""The mark of answers that only repeat memory. Prompts leave out answers with this mark."""

FOUND = "No model is asked; this is what memory holds on it:"
NOTHING = "No model is asked, and memory holds nothing on it."

MOST = 5
"""Most pieces of memory in an answer without a model."""

LAST = 50
"""Number of latest messages in which the last exchange is searched."""

HELP = """\
/why     what was recalled for the last answer, with scores
/again   answer the request that has no answer yet; so does Enter
/forget  erase the last request and its answer for good
/undo    take back what was learnt last (with --learn)
/quit    end; so does Ctrl-D
/help    this
Ctrl-C stops an answer, and drops a line that is not sent.
A line that begins with a space is said, whatever it begins with then."""


@options.command("chat")
def chat_command(
    session: Session,
    *,
    key: str = options.KEY,
    model: str | None = options.MODEL_NAME,
    base_url: str | None = options.BASE_URL,
    budget: int = budget_option(BUDGET),
    exact: tuple[str, ...] = EXACT,
    name: str = option("--name NAME", "The conversation.", default=NAME),
    learn: bool = option("--learn", "Learn facts after each answer, and show them."),
    learn_model: str | None = option(
        "--learn-model NAME", "Have this model find the facts.  [default: as --model]"
    ),
) -> None:
    """Talk with a model that remembers.

    Each line is stored in the conversation before the model is asked; the prompt contains what the
    key's memory holds about it, and the answer is stored once it is complete. Ctrl-C stops an
    answer, Ctrl-D ends. A request whose answer was stopped, failed or was killed is kept; the next
    start shows it, and Enter or /again answers it. /help lists the commands.

    With --learn, facts are learnt from what was said, after each answer; the facts that are new or
    changed are shown, and /undo takes back the last ones. Without a model, rules find them.

    Without --model, answers are what a search of the memory finds. Lines may be piped in, a turn
    each. With --json a line per turn: {"id": …, "request": …, "answer": …, "model": …, "tokens": …,
    "stopped": …}, or "error" if it failed; tokens are those of the prompt. With --learn a second
    line follows: {"learnt": {…}}, as learn prints it. Exit code 1 if a request failed and has no
    answer at the end.

    Example: alveus chat --key ada --model gpt-4o
    """
    asked = options.chat_model(model, base_url)
    with session.open(make=lambda memory: memory.key(key).conversation(name)) as memory:
        owner = memory.key(key)
        talk = _conversation(owner, name)
        finder = asked if learn_model is None else options.chat_model(learn_model, base_url)
        learns = learn or learn_model is not None
        chat = Chat(session, owner, talk, asked, budget, exact, learns=learns, finder=finder)
        chat.greet()
        for line in _lines(session):
            try:
                if not chat.take(line):
                    break
            except KeyboardInterrupt:
                if not _asks():
                    raise
                session.note("\ninterrupted; Ctrl-D ends")
    if chat.failed:
        click.get_current_context().exit(1)


def _conversation(key: KeyMemory, name: str) -> ConversationMemory:
    if name in key.sets() and key.set(name).definition.item_type != MESSAGES:
        raise InvalidInput(
            f"set {name!r} is not a conversation; pass another name with --name, which may be new"
        )
    return key.conversation(name)


def _asks() -> bool:
    """Return whether stdin is a terminal."""
    return cast("TextIO", sys.stdin).isatty()


def _lines(session: Session) -> Iterator[str]:
    stdin = output.stdin()
    if not _asks():
        for line in stdin:
            yield session.valid(line.rstrip("\r\n")).value
        return
    with suppress(ImportError):  # readline is missing on some systems; with it, lines can be edited
        import_module("readline")
    while True:
        try:
            line = input("> ")
        except EOFError:
            click.echo()
            return
        except KeyboardInterrupt:
            session.note("\nCtrl-D ends")
            continue
        yield session.valid(line).value


@dataclass(frozen=True, slots=True)
class Request:
    """A request that has no answer yet."""

    id: str
    text: str

    @property
    def answer_id(self) -> str:
        """The id of the answer. Every chat that answers this request uses the same id."""
        return derived_ids(f"answer to {self.id}".encode())()


def _can_undo(learning: Learning, talk: ConversationMemory) -> bool:
    has_effect = bool(learning.added or learning.changed or learning.taken_back)
    return has_effect and not learning.undone and learning.conversation == talk.name


@dataclass(slots=True)
class Chat:
    """A chat in progress.

    Attributes:
        exact: Paths of the exact values that a model sees.
        recalled: The prompt of the last request.
        failed: Ids of requests that failed, until they are answered or forgotten.
        learns: True if facts are learnt from the chat.
        finder: The model that finds facts. If it is None, rules find them.
    """

    session: Session
    key: KeyMemory
    talk: ConversationMemory
    model: ChatModel | None
    budget: int
    exact: tuple[str, ...] = ()
    recalled: Context | None = None
    failed: set[str] = field(default_factory=set[str])
    learns: bool = False
    finder: ChatModel | None = None

    def greet(self) -> None:
        """Print the length of the conversation, and the request that waits for an answer."""
        count = self.talk.size()
        self.session.note(
            f"conversation {self.talk.name!r}, {output.plural(count, 'message')}; /help says more"
        )
        if self.model is None:
            self.session.note("no model is asked: memory alone answers (--model names one)")
        if open_ := self._open():
            self.session.note(f"no answer yet: {open_.text}\nEnter or /again answers it")

    def take(self, line: str) -> bool:
        """Run a chat command or answer a request. Return whether the chat continues."""
        said = line.strip()
        if line.startswith("/"):
            if said == "/quit":
                return False
            try:
                self._do(said)
            except AlveusError as error:
                self._wrong(str(error))
        elif said:
            self._reported(None, said)
        elif open_ := self._open():
            self._reported(open_, open_.text)
        return True

    def _do(self, name: str) -> None:
        """Run a chat command. Raise `AlveusError` if it fails."""
        match name:
            case "/help":
                self.session.note(HELP)
            case "/why":
                shown = self.recalled or self._recalled_before()
                self.session.answer(shown.explain(), output.fields_of(shown))
            case "/forget":
                self._forget()
            case "/undo":
                self._undo()
            case "/again":
                open_ = self._open()
                if open_ is None:
                    raise InvalidInput(
                        "there is no request without an answer to repeat; write a new request"
                    )
                self._reported(open_, open_.text)
            case _:
                word = name.split(maxsplit=1)[0]
                raise InvalidInput(f"{word!r} is not a command; /help lists the commands")

    def _wrong(self, problem: str) -> None:
        if self.session.json:
            output.error("InvalidInput", problem, {})
        else:
            click.echo(f"alveus: {output.plain(problem)}", err=True)

    # --- answers ------------------------------------------------------------------------------

    def _reported(self, open_: Request | None, said: str) -> None:
        """Answer a request. A failure is reported, and the chat continues."""
        self.recalled = None
        try:
            open_ = open_ or Request(self.talk.add({"role": "user", "content": said})[0], said)
            self._answer(open_)
        except AlveusError as error:
            self.failed.add("" if open_ is None else open_.id)
            if self.session.json:
                problem: output.Json = {"type": type(error).__name__, "message": str(error)}
                self._document(open_, said, {"answer": None, "stopped": False, "error": problem})
                return
            self._wrong(str(error))
            if open_ is not None:
                self.session.note("the request is kept; Enter or /again asks again")

    def _answer(self, request: Request) -> None:
        """Make the prompt, ask the model, and store the answer."""
        pieces, model = list[str](), self.model
        try:
            self.recalled = made = self._context(request, self.budget, alone=model is None)
            streamed = [from_memory(made)] if model is None else stream_text(model, made.messages)
            for piece in streamed:
                pieces.append(piece)
                if not self.session.json:
                    click.echo(output.plain(piece), nl=False)
            shown = "".join(pieces)
            answer = shown if model is None else said_by(model.name, shown)
            kept = self._kept(request, answer)
        except KeyboardInterrupt:
            self._ended(request, pieces, {"answer": None, "stopped": True})
            self.session.note("stopped; the request is kept, Enter or /again asks again")
            return
        except AlveusError:
            self._newline(pieces)
            raise
        self.failed.discard(request.id)
        self._ended(request, pieces, {"answer": kept, "stopped": False})
        if answer.strip() != shown.strip() and not self.session.json:
            self.session.note("that began with thoughts, which are not kept; the answer is:")
            click.echo(output.plain(answer))
        if kept != answer and not self.session.json:
            self.session.note("another chat answered first; this is the answer that is kept:")
            click.echo(output.plain(kept))
        if self.learns:
            self._learn()

    def _kept(self, request: Request, answer: str) -> str:
        """Store an answer and return it. If another chat stored an answer first, return that."""
        name = None if self.model is None else self.model.name
        made = {"role": "assistant", "content": answer, "id": request.answer_id}
        made |= {"model": name, "budget_tokens": self.budget}
        self.talk.add(made, ALONE if name is None else None)
        kept = self.key.set(self.talk.name).get(request.answer_id)
        return answer if kept is None else kept.text or ""

    def _context(
        self, request: Request, budget: int, as_of: datetime | None = None, *, alone: bool
    ) -> Context:
        """Return the prompt for a request, from the memory as of *as_of*, or as it is now.

        For an answer without a model (*alone*), it has no instructions and no conversation, only
        the pieces of memory that a search finds.
        """
        return self.key.context(
            request.text,
            budget_tokens=budget,
            system=None if alone else SYSTEM,
            messages=None if alone else self.talk.name,
            where={"all": [{"not": {"$id": request.id}}, {"not": {"marks": {"contains": ALONE}}}]},
            exact=self.exact,
            as_of=as_of,
        )

    def _ended(self, request: Request, pieces: list[str], fields: dict[str, output.Json]) -> None:
        if self.session.json:
            self._document(request, request.text, fields)
        else:
            self._newline(pieces)

    def _newline(self, pieces: list[str]) -> None:
        if pieces and not self.session.json:
            click.echo()

    def _document(self, request: Request | None, said: str, fields: dict[str, output.Json]) -> None:
        head: dict[str, output.Json] = {"id": None if request is None else request.id}
        name = None if self.model is None else self.model.name
        tokens = None if self.recalled is None else self.recalled.tokens
        output.document(head | {"request": said, "model": name, "tokens": tokens} | fields)

    def _open(self) -> Request | None:
        """Return the last message if it is a request, which then has no answer yet, or None."""
        for last in self.talk.get_memory(recent_n=1, prepend_summary=False):
            if last["role"] == "user" and isinstance(last["content"], str):
                return Request(last["id"], last["content"])
        return None

    def _learn(self) -> None:
        """Learn from new messages. A failure is reported, and the next call tries them again."""
        try:
            report = self.key.learn(self.talk, model=self.finder)
        except ModelFailed as error:
            self.session.note(f"nothing was learnt: {error}")
            return
        if self.session.json:
            output.document({"learnt": output.wired(report.to_json())})
            return
        gone = dict.fromkeys((*report.superseded, *report.taken_back))
        lines = [f"+ {fact.text}" for fact in report.added]
        lines += [f"- {self.key.facts.history(item_id)[-1].text}" for item_id in gone]
        if lines:
            self.session.note("\n".join([*lines, "learnt; /undo takes it back"]))

    # --- commands -----------------------------------------------------------------------------

    def _recalled_before(self) -> Context:
        """Make the prompt of the last answer of an earlier chat again, and return it."""
        said = self.talk.get_memory(recent_n=LAST, prepend_summary=False)
        by_id = {message["id"]: message for message in said}
        for message in reversed(said):
            request = Request(message["id"], message["content"])
            answer = by_id.get(request.answer_id)
            asked = self.key.set(self.talk.name).get(request.id)
            if answer is None or asked is None or asked.created is None:
                continue
            budget, alone = answer["budget_tokens"], answer["model"] is None
            made = self._context(request, budget, asked.created, alone=alone)
            said_then = output.one_line(request.text)
            self.session.note(f"made again, of memory as it was when you said: {said_then}")
            return made
        raise InvalidInput(f"none of the last {LAST} messages is an answer of this chat")

    def _undo(self) -> None:
        """Undo the last learning. Raise `InvalidInput` if there is no learning to undo."""
        facts = self.key.facts
        last = next((one for one in facts.learnings(1_000) if _can_undo(one, self.talk)), None)
        if last is None:
            raise InvalidInput("there is no learning to undo")
        count = facts.undo(last.id)
        if self.session.json:
            output.document({"learnings": [last.id], "facts": count})
        else:
            self.session.note(f"took back {output.plural(count, 'fact')}")

    def _forget(self) -> None:
        """Erase the last request and its answer from the store."""
        said = self.talk.get_memory(recent_n=LAST, prepend_summary=False)
        ids: list[str] = []
        for message in reversed(said):
            ids.append(message["id"])
            if message["role"] == "user":
                break
        if not ids:
            raise InvalidInput("there is no message to forget")
        show_receipt(self.session, self.talk.forget(ids))
        self.failed.difference_update(ids)
        self.recalled = None


def from_memory(made: Context) -> str:
    """Return the pieces that a search found, best first, as an answer without a model."""
    found = [piece for piece in made.why if piece.shown and piece.score]
    found.sort(key=_rank)
    texts = [*dict.fromkeys(map(_piece_text, found))]
    return "\n".join([FOUND, *(f"- {text}" for text in texts[:MOST])]) if texts else NOTHING


def _rank(piece: Piece) -> tuple[bool, float]:
    return piece.part != "exact", -(piece.score or 0.0)


def _piece_text(piece: Piece) -> str:
    text = output.one_line(piece.text)
    return f"{piece.source}: {text}" if piece.part == "exact" else text
