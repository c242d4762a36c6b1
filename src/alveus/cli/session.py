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
from typing import TYPE_CHECKING, Literal, NoReturn, Protocol, TypeVar

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

    class Advance(Protocol):
        """What advances a progress bar."""

        def __call__(self, count: int, total: int | None = None, /) -> None:
            """Advance the bar by *count*; *total* replaces the bar's."""


T = TypeVar("T")

NOTHING_FOUND = 3
"""Exit code: nothing was found."""

LOCAL_DB = "alveus.db"

NEAR_KEYS = 1000
"""Most keys with the same first letter that are compared with a misspelt key."""

_ENDING = b"alveus: ends after the step under way; Ctrl-C again ends it at once\n"

_OPTION = "alveus."
_FILE_NAMED = "file named"


def default_file() -> Path:
    """Return the default file: ``alveus.db`` in the working directory, or else one per user."""
    here = Path(LOCAL_DB)
    if here.exists():
        return here
    home = Path(os.environ.get("XDG_DATA_HOME", ""))
    if not home.is_absolute():  # as XDG demands; otherwise each folder would have another file
        home = Path.home() / ".local" / "share"
    return home / "alveus" / LOCAL_DB


@dataclass(frozen=True, slots=True)
class Session:
    """The shared options of a command: the memory, and the form of results."""

    db: str | None = None
    space: str = DEFAULT_SPACE
    embedder: str | None = None
    timezone: str | None = None
    json: bool = False
    quiet: bool = False
    verbose: bool = False

    @property
    def zone(self) -> Zone:
        """The reader's time zone."""
        return Zone.of(self.timezone, "--timezone")

    # --- the memory ---------------------------------------------------------------------------

    @property
    def server(self) -> str | None:
        """The URL of the server that holds the memory, or None if a file holds it."""
        return self.db if self.db is not None and is_server(self.db) else None

    @property
    def file(self) -> Path:
        """The file that holds the memory.

        Raises:
            InvalidInput: The memory is on a server.
            Unsupported: The URL has another scheme.
        """
        if self.server is not None:
            raise InvalidInput(
                "this command needs a file, but --db is a server; docs/postgres.md lists the "
                "tools for a server"
            )
        if is_http(self.db):
            raise InvalidInput(
                "this command needs a file or a database, but --db is a server of alveus; run "
                "the command on the server's machine, or open the URL in Python (docs/client.md)"
            )
        if self.db is None:
            return default_file()
        if self.db == ":memory:":
            problem = "':memory:' would be lost at the end of this command; pass a file"
            raise click.UsageError(problem)
        return Path(path_of_file(self.db))

    def existing_file(self) -> Path:
        """Return the file that holds the memory, if it exists.

        Raises:
            NotFound: The file does not exist.
        """
        file = self.file
        if not file.exists():
            problem = (
                f"there is no memory {file}; create it with alveus add, or pass another file "
                "with --db"
            )
            raise NotFound(problem)
        if file.is_dir():
            raise InvalidInput(f"{file} is a folder; pass a file in the folder")
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
            make: A change, which is tried on an empty memory in RAM if the file is missing. The
                file is created only if the change succeeds. If *make* is None, a missing file is an
                error.
            model: A language model, for summaries.

        Raises:
            NotFound: The memory does not exist.
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
        """Open the memory and return the answer to *question*.

        If vectors are missing and can be made, wait for them and ask again. If a large set has no
        index file, also ask again, with the right to write: the memory then builds the index, and
        later commands are faster. If the memory cannot write now (a full disk), return the first
        answer.

        Args:
            waits: Returns whether an answer lacks vectors.
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
        """Print the file of the command on stderr, once per command.

        With --json, it is printed only with --verbose.
        """
        said = click.get_current_context().meta
        if (not self.json or self.verbose) and not said.get(_FILE_NAMED):
            said[_FILE_NAMED] = True
            server = self.server
            name = click.format_filename(self.file) if server is None else without_password(server)
            self.note(f"alveus: {verb} {name}, space {self.space!r}")

    # --- work that takes time -----------------------------------------------------------------

    @contextmanager
    def progress(self, what: str, *, total: int | None = None) -> Generator[Advance]:
        """Show a progress bar on a terminal. Yield what advances the bar, and may set its total."""
        if self.quiet or not sys.stderr.isatty():
            yield lambda _count, _total=None: None
            return
        from alveus.cli.tables import progress_bar

        with progress_bar() as bar:
            task = bar.add_task(what, total=total)
            yield lambda count, total=None: bar.update(task, advance=count, total=total)

    def settle(self, memory: Memory) -> None:
        """Wait, with a bar, until every item has its vectors.

        A failure becomes a note only: the items are durable, and word search finds them.
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
        """Ask before an action that cannot be undone, unless *yes* is true."""
        if yes:
            return
        if not sys.stdin.isatty():
            problem = f"{question} stdin is not a terminal; add --yes to confirm"
            raise click.UsageError(problem)
        click.confirm(question, abort=True, err=True)

    # --- output --------------------------------------------------------------------------------

    def note(self, text: str) -> None:
        """Print a message on stderr, unless --quiet is given."""
        if not self.quiet:
            click.echo(output.plain(text), err=True)

    def valid(self, given: T) -> ValidText[T]:
        """Return a text or value that can be stored. Print how many characters were replaced."""
        valid = valid_text(given)
        if note := replaced_note(valid.replaced):
            self.note(f"{note} A text in another encoding than UTF-8 is converted with iconv.")
        return valid

    def say(self, text: str) -> None:
        """Print a message on stdout, unless --quiet is given."""
        if not self.quiet:
            click.echo(output.plain(text))

    def answer(self, text: str, fields: output.Json = None) -> None:
        """Print a result, also with --quiet: in words, or *fields* as JSON with --json."""
        if self.json and fields is not None:
            output.document(fields)
        else:
            click.echo(output.plain(text))

    def describe(self, rows: Iterable[tuple[str, str]], fields: output.Json) -> None:
        """Print an object: names and values, or *fields* as JSON with --json."""
        if self.json:
            output.document(fields)
        else:
            output.facts(rows)

    def done(self, text: str, fields: dict[str, output.Json]) -> None:
        """Print a finished action: in words, unless --quiet is given, or as JSON with --json."""
        if self.json or not self.quiet:
            self.answer(text, fields)

    def listing(
        self,
        columns: Sequence[str],
        items: Iterable[T],
        row: Callable[[T], Sequence[str]],
        fields: Callable[[T], output.Json],
    ) -> None:
        """Print a list: a table with a header, or one JSON document per item with --json."""
        if not self.json:
            output.table(columns, map(row, items), header=not self.quiet)
            return
        for each in items:
            output.document(fields(each))

    def nothing(self, text: str, fields: output.Json | None = None) -> NoReturn:
        """End the command with `NOTHING_FOUND`.

        Args:
            fields: The JSON document of the result, if there is one.
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
        """Make SIGTERM, SIGHUP and Ctrl-C call *stop*, after which the block ends by itself.

        Raises:
            click.Abort: Ctrl-C, after the block has ended.
            KeyboardInterrupt: A second Ctrl-C, at once.
        """
        came: list[int] = []

        def on_signal(number: int, _frame: FrameType | None) -> None:
            again = number == signal.SIGINT and number in came
            came.append(number)
            stop()
            if again:
                raise KeyboardInterrupt
            if number == signal.SIGINT and not self.quiet:
                with suppress(OSError):  # unbuffered: the signal may have interrupted the buffer
                    os.write(sys.stderr.fileno(), _ENDING)

        take_back = handle_ends(on_signal)
        try:
            yield
        finally:
            if came:  # the process ends: Python would give the default back before it has ended
                for number in (signal.SIGTERM, signal.SIGHUP):
                    signal.signal(number, signal.SIG_IGN)
            else:
                take_back()
        if signal.SIGINT in came:
            raise click.Abort


def remember_option(ctx: click.Context, param: click.Parameter, value: object) -> None:
    """Keep an option of `Session`, given before or after the name of the command."""
    if value is not None:
        ctx.meta[_OPTION + str(param.name)] = value


def session_of(ctx: click.Context) -> Session:
    """Return the session that the shared options define."""
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
        """Refuse a command that names no owner or two owners."""
        if (self.key is None) == (self.knowledge is None):
            raise click.UsageError(
                "pass either a key (--key KEY; alveus keys lists the keys) or a knowledge "
                "(--knowledge NAME)"
            )

    @property
    def name(self) -> str:
        """The owner's name in messages."""
        return f"knowledge {self.knowledge!r}" if self.key is None else f"key {self.key!r}"

    def of(self, memory: Memory) -> KeyMemory | KnowledgeMemory:
        """Return the memory of the owner."""
        return memory.knowledge if self.key is None else memory.key(self.key)

    def require(self, session: Session, memory: Memory, sets: Sequence[str]) -> None:
        """End the command if the owner lacks one of these sets."""
        there = self.of(memory).sets()
        missing = [name for name in sets if name not in there]
        if missing:
            known = ", ".join(there[:20]) or "none"
            near = "" if there else self.near_keys(session, memory)
            session.nothing(f"{self.name} has no set {missing[0]!r}; its sets: {known}{near}")

    def require_any(self, session: Session, memory: Memory) -> None:
        """End the command if the owner has no set. With --json, the caller prints an empty list."""
        if not session.json and not self.of(memory).sets():
            session.nothing(f"{self.name} has no items{self.near_keys(session, memory)}")

    def require_key(self, session: Session, memory: Memory) -> None:
        """End the command if the key does not exist in the space."""
        if self.key is not None and next(memory.keys(prefix=self.key), None) != self.key:
            session.nothing(f"there is no {self.name}{self.near_keys(session, memory)}")

    def near_keys(self, session: Session, memory: Memory) -> str:
        """Return a hint with the keys that are similar to a key that does not exist.

        Only the first `NEAR_KEYS` keys with the same first letter are compared, also in the other
        case, and the first `NEAR_KEYS` of all keys. For knowledge, for an existing key, and with
        --json, return "".
        """
        if self.key is None or session.json:
            return ""
        if next(memory.keys(prefix=self.key), None) == self.key:
            return ""
        from difflib import get_close_matches  # only needed for a missing key

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
        """Return the set that has an item, and the item's id in the set.

        End the command if no set has the item.

        Args:
            item_id: The id, or ``SET/ID`` as `context` and `replay` print it.
            set_name: The set. None means that all sets of the owner are searched.

        Raises:
            InvalidInput: Several sets have an item with this id.
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
            raise InvalidInput(
                f"several sets have an item {item_id!r}: {several}; pass one of them with --set"
            )
        return found[0]
