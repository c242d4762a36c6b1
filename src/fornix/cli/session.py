"""What every command works with: the options that all of them take, and the memory they name."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NoReturn

import click

import fornix
from fornix.cli import output
from fornix.errors import InvalidInput, NotFound
from fornix.values.storable import DEFAULT_SPACE

if TYPE_CHECKING:
    from fornix import ChatModel, KeyMemory, KnowledgeMemory, Memory

NOTHING_FOUND = 3
"""Exit code: what was asked for is not there."""

LOCAL_DB = "fornix.db"

_OPTION = "fornix."
_FILE_NAMED = "file named"


def default_file() -> Path:
    """Return the file that is used where none is named.

    ``fornix.db`` in the working directory if it is there; else one per user.
    """
    here = Path(LOCAL_DB)
    if here.exists():
        return here
    home = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(home) / "fornix" / LOCAL_DB


def no_memory(file: Path) -> NotFound:
    """Return the error for a file that is not there."""
    return NotFound(
        f"{file}: there is no memory here; fornix add makes it, --db names another file"
    )


@dataclass(frozen=True, slots=True)
class Session:
    """The options that every command takes, and what follows from them."""

    db: str | None = None
    space: str = DEFAULT_SPACE
    embedder: str | None = None
    json: bool = False
    quiet: bool = False
    verbose: bool = False

    @property
    def file(self) -> Path:
        """The file to work on."""
        if self.db is None:
            return default_file()
        if self.db == ":memory:":
            problem = "':memory:' would end with this command; name a file"
            raise click.UsageError(problem)
        return Path(self.db.removeprefix("sqlite:///"))

    def open(
        self,
        *,
        mode: Literal["rw", "ro"] = "rw",
        knowledge: str | None = None,
        make: bool = False,
        model: ChatModel | None = None,
    ) -> Memory:
        """Open the memory.

        Args:
            make: Make its file if there is none; else that is an error.
            model: A language model, for summaries.

        Raises:
            NotFound: There is none.
        """
        file = self.file
        if file.is_dir():
            raise InvalidInput(f"{file} is a folder; name a file in it")
        existed = file.exists()
        if not existed and not make:
            raise no_memory(file)
        if self.db is None and make:
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        memory = fornix.Memory.open(
            file,
            space=self.space,
            knowledge=knowledge,
            embedder=self.embedder,
            model=model,
            mode=mode,
        )
        self.name_file("using" if existed else "made")
        return memory

    def name_file(self, verb: str) -> None:
        """Say on stderr which file the command works on, once per command.

        JSON is left alone unless --verbose asks for it.
        """
        said = click.get_current_context().meta
        if (not self.json or self.verbose) and not said.get(_FILE_NAMED):
            said[_FILE_NAMED] = True
            name = click.format_filename(self.file)
            self.note(f"fornix: {verb} {name}, space {self.space!r}")

    # --- what is printed ----------------------------------------------------------------------

    def note(self, text: str) -> None:
        """Say something by the way, on stderr, unless it is to be quiet."""
        if not self.quiet:
            click.echo(output.plain(text), err=True)

    def say(self, text: str) -> None:
        """Say what was done, on stdout, unless it is to be quiet."""
        if not self.quiet:
            click.echo(output.plain(text))

    def done(self, text: str, fields: dict[str, output.Json]) -> None:
        """Say what was done: in words, or as a JSON document."""
        if self.json:
            output.document(fields)
        else:
            self.say(text)

    def nothing(self, text: str, fields: output.Json | None = None) -> NoReturn:
        """End the command, because what was asked for is not there.

        Args:
            fields: The JSON document that says so, where there is one.
        """
        if self.json and fields is not None:
            output.document(fields)
        elif self.json:
            output.error("NotFound", text, {})
        else:
            self.note(f"fornix: {text}")
        click.get_current_context().exit(NOTHING_FOUND)


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
    """Whose sets a command works on: those of a key, or knowledge."""

    key: str | None = None
    knowledge: str | None = None

    def __post_init__(self) -> None:
        """Refuse what names no owner, or two."""
        if (self.key is None) == (self.knowledge is None):
            raise click.UsageError(
                "name a key (--key KEY; fornix keys lists them) or knowledge (--knowledge NAME), "
                "one of them"
            )

    @property
    def name(self) -> str:
        """How a message names it."""
        return f"knowledge {self.knowledge!r}" if self.key is None else f"key {self.key!r}"

    def of(self, memory: Memory) -> KeyMemory | KnowledgeMemory:
        """Return its memory."""
        return memory.knowledge if self.key is None else memory.key(self.key)

    def require(self, session: Session, memory: Memory, sets: tuple[str, ...]) -> None:
        """End the command if it has none of these sets, or no set at all."""
        there = self.of(memory).sets()
        missing = [name for name in sets if name not in there]
        if missing:
            known = ", ".join(there[:20]) or "none"
            session.nothing(f"{self.name} has no set {missing[0]!r}; its sets: {known}")
