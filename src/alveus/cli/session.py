"""The session of a command: its shared options, the memory that they name, and its output."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import chain, islice
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Literal, NoReturn, TypeVar

import click

import alveus
from alveus.cli import output
from alveus.errors import EmbedderFailed, InvalidInput, NotFound, Unavailable
from alveus.values.forks import handle_ends
from alveus.values.lazy_dataclass import dataclass
from alveus.values.storable import DEFAULT_SPACE, ValidText, checked_name, replaced_note, valid_text
from alveus.values.times import Zone
from alveus.values.urls import is_http, is_server, path_of_file, without_password

if TYPE_CHECKING:
    from alveus import ChatModel, KeyMemory, KnowledgeMemory, Memory, MemorySet

T = TypeVar("T")

NOTHING_FOUND = 3
"""Exit code: nothing was found."""

LOCAL_DB = "alveus.db"

NEAR_KEYS = 1000
"""Most keys of one first letter that are compared with a misspelt key."""

_ENDING = b"alveus: ends after the step under way; Ctrl-C again ends it at once\n"

_OPTION = "alveus."
_FILE_NAMED = "file named"


def default_file() -> Path:
    """Return the file that is used where none is named.

    ``alveus.db`` in the working directory if it is there; else one per user.
    """
    here = Path(LOCAL_DB)
    if here.exists():
        return here
    home = Path(os.environ.get("XDG_DATA_HOME", ""))
    if not home.is_absolute():  # XDG: ignored, else each folder would have another file
        home = Path.home() / ".local" / "share"
    return home / "alveus" / LOCAL_DB


@dataclass(frozen=True, slots=True)
class Session:
    """The options that every command takes: the memory they name, and how results look."""

    db: str | None = None
    space: str = DEFAULT_SPACE
    embedder: str | None = None
    timezone: str | None = None
    json: bool = False
    quiet: bool = False
    verbose: bool = False

    @property
    def zone(self) -> Zone:
        """Where the reader is."""
        return Zone.of(self.timezone, "--timezone")

    # --- the memory ---------------------------------------------------------------------------

    @property
    def server(self) -> str | None:
        """The URL of the server to work on; None: it is a file."""
        return self.db if self.db is not None and is_server(self.db) else None

    @property
    def file(self) -> Path:
        """The file to work on.

        Raises:
            InvalidInput: It is a server.
            Unsupported: It is the URL of something else.
        """
        if self.server is not None:
            raise InvalidInput(
                "this command works on a file, and --db names a server; docs/postgres.md says "
                "what does it there"
            )
        if is_http(self.db):
            raise InvalidInput(
                "this command opens a file or a database, and --db names a server of alveus; run "
                "it on the server's machine, or open the url in Python (docs/client.md)"
            )
        if self.db is None:
            return default_file()
        if self.db == ":memory:":
            problem = "':memory:' would end with this command; name a file"
            raise click.UsageError(problem)
        return Path(path_of_file(self.db))

    def existing_file(self) -> Path:
        """Return the file to work on, which is there.

        Raises:
            NotFound: It is not.
        """
        file = self.file
        if not file.exists():
            problem = f"{file}: there is no memory here; alveus add makes it, --db names another"
            raise NotFound(problem)
        if file.is_dir():
            raise InvalidInput(f"{file} is a folder; name a file in it")
        return file

    def open(
        self,
        *,
        mode: Literal["rw", "ro"] = "rw",
        knowledge: str | None = None,
        make: Callable[[Memory], object] | None = None,
        model: ChatModel | None = None,
    ) -> Memory:
        """Open the memory.

        Args:
            make: Make its file if there is none, after this change of an empty memory in RAM
                went well; without it, that there is no file is an error.
            model: A language model, for summaries.

        Raises:
            NotFound: There is none.
        """
        opened = partial(
            alveus.Memory.open,
            space=self.space,
            knowledge=knowledge,
            embedder=self.embedder,
            timezone=self.zone.info,
            model=model,
        )
        if self.server is not None:
            memory = opened(self.server, mode=mode)
            self.name_file("using")
            return memory
        file = self.file
        existed = file.exists()
        if existed or make is None:
            self.existing_file()
        else:
            with opened() as rehearsal:
                make(rehearsal)
            if self.db is None:
                file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        memory = opened(file, mode=mode)
        self.name_file("using" if existed else "made")
        return memory

    def ask(
        self, question: Callable[[Memory], T], waits: Callable[[T], bool], knowledge: str | None
    ) -> T:
        """Ask a memory; if vectors are missing and can be made, wait for them and ask again.

        So it is where a large set has no index file: a memory that may write makes it, and the
        next command is faster. Where it cannot write now, as on a full disk, the first answer
        stands.
        """
        from alveus.memory.memory import unsealed_sets

        with self.open(knowledge=knowledge, mode="ro") as memory:
            found = question(memory)
            missing, unsealed = waits(found), unsealed_sets(memory)
        if (missing or unsealed) and self._may_write():
            try:
                with self.open(knowledge=knowledge) as memory:
                    if missing:
                        self.settle(memory)
                    return question(memory)
            except Unavailable as error:
                self.note(f"alveus: answered by what is stored so far: {error}")
        return found

    def _may_write(self) -> bool:
        return self.server is not None or os.access(self.file, os.W_OK)

    def name_file(self, verb: str) -> None:
        """Say on stderr which file the command works on, once per command.

        JSON is left alone unless --verbose asks for it.
        """
        said = click.get_current_context().meta
        if (not self.json or self.verbose) and not said.get(_FILE_NAMED):
            said[_FILE_NAMED] = True
            server = self.server
            name = click.format_filename(self.file) if server is None else without_password(server)
            self.note(f"alveus: {verb} {name}, space {self.space!r}")

    # --- work that takes time -----------------------------------------------------------------

    @contextmanager
    def progress(self, what: str, *, total: int | None = None) -> Generator[Callable[[int], None]]:
        """Show a progress bar on a terminal; yield a function that advances it by a count."""
        if self.quiet or not sys.stderr.isatty():
            yield lambda _count: None
            return
        from alveus.cli.tables import progress_bar

        with progress_bar() as bar:
            task = bar.add_task(what, total=total)
            yield lambda count: bar.update(task, advance=count)

    def settle(self, memory: Memory) -> None:
        """Wait, with a bar, until every item has its vectors.

        A failure is only noted: the items are durable, and words find them.
        """
        pending = memory.store.count_pending()
        if pending:
            try:
                with self.progress("embedding", total=pending) as advance:
                    memory.settle(progress=advance)
            except (EmbedderFailed, Unavailable) as error:
                self.note(
                    f"alveus: stored, and found by their words; vectors cannot be made now: {error}"
                )

    def confirm(self, question: str, *, yes: bool) -> None:
        """Ask before something that cannot be undone, unless *yes*."""
        if yes:
            return
        if not sys.stdin.isatty():
            problem = f"{question} Nobody can be asked here; add --yes to do it"
            raise click.UsageError(problem)
        click.confirm(question, abort=True, err=True)

    # --- what is printed ----------------------------------------------------------------------

    def note(self, text: str) -> None:
        """Print a message on stderr, unless --quiet is given."""
        if not self.quiet:
            click.echo(output.plain(text), err=True)

    def valid(self, given: T) -> ValidText[T]:
        """Return a text, or a value, that can be stored; say how many characters were replaced."""
        valid = valid_text(given)
        if note := replaced_note(valid.replaced):
            self.note(f"{note} A text in another encoding than UTF-8 is converted with iconv.")
        return valid

    def say(self, text: str) -> None:
        """Print a message on stdout, unless --quiet is given."""
        if not self.quiet:
            click.echo(output.plain(text))

    def answer(self, text: str, fields: output.Json = None) -> None:
        """Print a result, also with --quiet: in words, or with --json *fields* as a document."""
        if self.json and fields is not None:
            output.document(fields)
        else:
            click.echo(output.plain(text))

    def describe(self, rows: Iterable[tuple[str, str]], fields: output.Json) -> None:
        """Print an object: its names and values, or with --json *fields* as a document."""
        if self.json:
            output.document(fields)
        else:
            output.facts(rows)

    def done(self, text: str, fields: dict[str, output.Json]) -> None:
        """Print an action that is done: in words, or with --json as a document."""
        if self.json:
            output.document(fields)
        else:
            self.say(text)

    def listing(
        self,
        columns: Sequence[str],
        items: Iterable[T],
        row: Callable[[T], Sequence[str]],
        fields: Callable[[T], output.Json],
    ) -> None:
        """Print a list: a table with a header, or with --json a document for each."""
        if not self.json:
            output.table(columns, map(row, items), header=not self.quiet)
            return
        for each in items:
            output.document(fields(each))

    def nothing(self, text: str, fields: output.Json | None = None) -> NoReturn:
        """End the command with `NOTHING_FOUND`.

        Args:
            fields: The JSON document that says so, where there is one.
        """
        if self.json and fields is not None:
            output.document(fields)
        elif self.json:
            output.error("NotFound", text, {})
        else:
            self.note(f"alveus: {text}")
        click.get_current_context().exit(NOTHING_FOUND)

    @contextmanager
    def stopped_by_signals(self, stop: Callable[[], object]) -> Generator[None]:
        """Have SIGTERM, SIGHUP and Ctrl-C call *stop*, on which the block ends by itself.

        Raises:
            click.Abort: It was Ctrl-C, and the block has ended.
            KeyboardInterrupt: It was Ctrl-C again, which waits for nothing.
        """
        came: list[int] = []

        def on_signal(number: int, _frame: FrameType | None) -> None:
            again = number == signal.SIGINT and number in came
            came.append(number)
            stop()
            if again:
                raise KeyboardInterrupt
            if number == signal.SIGINT and not self.quiet:
                with suppress(OSError):  # past the buffer, which may be what was interrupted
                    os.write(sys.stderr.fileno(), _ENDING)

        take_back = handle_ends(on_signal)
        try:
            yield
        finally:
            if not came:  # else the process ends, and a second signal changes nothing
                take_back()
        if signal.SIGINT in came:
            raise click.Abort


def remember_option(ctx: click.Context, param: click.Parameter, value: object) -> None:
    """Keep an option of `Session` that was given, before or after the name of the command."""
    if value is not None:
        ctx.meta[_OPTION + str(param.name)] = value


def session_of(ctx: click.Context) -> Session:
    """Return the session that the shared options make."""
    given = {
        name.removeprefix(_OPTION): value
        for name, value in ctx.meta.items()
        if name.startswith(_OPTION)
    }
    return Session(**given)


@dataclass(frozen=True, slots=True)
class Owner:
    """The key or the knowledge whose sets a command uses."""

    key: str | None = None
    knowledge: str | None = None

    def __post_init__(self) -> None:
        """Refuse no owner, and two."""
        if (self.key is None) == (self.knowledge is None):
            raise click.UsageError(
                "name a key (--key KEY; alveus keys lists them) or knowledge (--knowledge NAME), "
                "one of them"
            )

    @property
    def name(self) -> str:
        """How a message names it."""
        return f"knowledge {self.knowledge!r}" if self.key is None else f"key {self.key!r}"

    def of(self, memory: Memory) -> KeyMemory | KnowledgeMemory:
        """Return its memory."""
        return memory.knowledge if self.key is None else memory.key(self.key)

    def require(self, session: Session, memory: Memory, sets: Sequence[str]) -> None:
        """End the command if it has none of these sets, or no set at all."""
        there = self.of(memory).sets()
        missing = [name for name in sets if name not in there]
        if missing:
            known = ", ".join(there[:20]) or "none"
            near = "" if there else self.near_keys(session, memory)
            session.nothing(f"{self.name} has no set {missing[0]!r}; its sets: {known}{near}")

    def require_any(self, session: Session, memory: Memory) -> None:
        """End the command if it has no set at all; not with --json, which says so by a list."""
        if not session.json and not self.of(memory).sets():
            session.nothing(f"{self.name} has no items{self.near_keys(session, memory)}")

    def require_key(self, session: Session, memory: Memory) -> None:
        """End the command if the space does not have the key."""
        if self.key is not None and next(memory.keys(prefix=self.key), None) != self.key:
            session.nothing(f"there is no {self.name}{self.near_keys(session, memory)}")

    def near_keys(self, session: Session, memory: Memory) -> str:
        """Return which keys of the space are named nearly so, of as many as are looked at.

        Empty for knowledge, a key that is there, and with --json.
        """
        if self.key is None or session.json:
            return ""
        if next(memory.keys(prefix=self.key), None) == self.key:
            return ""
        from difflib import get_close_matches  # only where a key is missing

        first = self.key[0]
        begins = dict.fromkeys((first, first.swapcase(), ""))
        looked_at = (islice(memory.keys(prefix=begin), NEAR_KEYS) for begin in begins)
        known = dict.fromkeys(chain.from_iterable(looked_at))
        near = get_close_matches(self.key, known)
        if not near:
            return "; alveus keys lists the keys"
        return f"; did you mean {' or '.join(map(repr, near))}?"

    def find(
        self, session: Session, memory: Memory, item_id: str, set_name: str | None
    ) -> tuple[MemorySet, str]:
        """Return the set of an item, and the item's id in it; end the command if there is none.

        Args:
            item_id: Its id, or ``SET/ID`` as `context` and `replay` print it.
            set_name: The set; None: the one set of the owner that has the item.

        Raises:
            InvalidInput: Several sets have an item of this id.
        """
        checked_name(item_id, "an item's id")
        sets = self.of(memory)
        names = sets.sets()
        if set_name is not None:
            self.require(session, memory, (set_name,))
            names = [set_name]
        tried = [(sets.set(name), item_id) for name in names]
        for name in names:
            short = item_id.removeprefix(f"{name}/")
            if short and short != item_id:
                tried.append((sets.set(name), short))
        now = [(found, one) for found, one in tried if found.get(one) is not None]
        found = now or [(found, one) for found, one in tried if found.history(one)]
        if not found:
            where = self.name if set_name is None else f"set {set_name!r} of {self.name}"
            session.nothing(f"{where} has no item {item_id!r}")
        if len(found) > 1:
            several = ", ".join(each.name for each, _ in found)
            raise InvalidInput(f"several sets have an item {item_id!r}: {several}; name one: --set")
        return found[0]
