"""The options and arguments that commands share, and how what is written there is read."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import update_wrapper
from typing import Concatenate, ParamSpec, TypeAlias, TypeVar, cast

import click

from fornix import wire
from fornix.cli import names
from fornix.cli.session import Session
from fornix.errors import InvalidInput
from fornix.transfer import read_time
from fornix.values import Value

P = ParamSpec("P")
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., object])
Decorator: TypeAlias = "Callable[[F], F]"

_KEPT = "fornix."


def _keep(ctx: click.Context, param: click.Parameter, value: object) -> None:
    """Remember an option that was given, wherever on the line that was."""
    if value is not None:
        ctx.meta[_KEPT + str(param.name)] = value


def shared(*, hidden: bool) -> list[click.Parameter]:
    """Return the options that every command takes: before its name, or (hidden) after it."""
    flags = {
        "json": "Print JSON: one document, or a line per result.",
        "quiet": "Print only results and errors.",
        "verbose": "Say which file is used.",
    }
    db = click.Option(
        ["--db"],
        metavar="PATH",
        envvar=None if hidden else "FORNIX_DB",
        show_envvar=True,
        help="The file of the memory. Default: ./fornix.db if it is there, else "
        "$XDG_DATA_HOME/fornix/fornix.db (~/.local/share/…).",
    )
    space = click.Option(["--space"], metavar="NAME", help="The application's name.  [default: default]")
    embedder = click.Option(
        ["--embedder"],
        metavar="NAME",
        help="minilm, static or words. Default: the one that the space remembers.",
    )
    switches = [
        click.Option([f"--{name}"], is_flag=True, flag_value=True, default=None, help=text)
        for name, text in flags.items()
    ]
    made = [db, space, embedder, *switches]
    for option in made:
        option.hidden, option.expose_value, option.callback = hidden, False, _keep
    return list(made)


class Command(click.Command):
    """A command that takes the shared options too."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return its own options and the shared ones."""
        return [*super().get_params(ctx), *shared(hidden=True)]


def session_of(ctx: click.Context) -> Session:
    """Return the session that the shared options make."""
    kept = {
        name.removeprefix(_KEPT): value
        for name, value in ctx.meta.items()
        if name.startswith(_KEPT)
    }
    return Session(**kept)


def command(name: str) -> Callable[[Callable[Concatenate[Session, P], None]], click.Command]:
    """Make a function a command; it is given the session first."""

    def make(function: Callable[Concatenate[Session, P], None]) -> click.Command:
        def call(*args: P.args, **kwargs: P.kwargs) -> None:
            function(session_of(click.get_current_context()), *args, **kwargs)

        return click.command(name, cls=Command)(update_wrapper(call, function))

    return make


# --- options ----------------------------------------------------------------------------------

key_option = click.option(
    "--key", "-k", metavar="KEY", shell_complete=names.keys, help="The user, session or device."
)
knowledge_option = click.option(
    "--knowledge", metavar="NAME", help="Work on the sets of this knowledge instead of a key's."
)
set_option = click.option(
    "--set",
    "-s",
    "set_name",
    metavar="NAME",
    default="default",
    show_default=True,
    shell_complete=names.sets,
    help="The set.",
)
sets_option = click.option(
    "--set",
    "-s",
    "set_names",
    metavar="NAME",
    multiple=True,
    shell_complete=names.sets,
    help="Only this set; may be repeated. Default: all of them.",
)


class WhereType(click.ParamType):
    """A filter, as JSON."""

    name = "json"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> dict[str, object]:
        """Return the JSON object that was written."""
        found = _read(self, value, param, ctx)
        if not isinstance(found, dict):
            self.fail(f"{value!r} is JSON, but not an object like {{\"topic\": \"travel\"}}", param, ctx)
        return cast("dict[str, object]", found)


class MetadataType(WhereType):
    """Metadata, as JSON."""


def _read(
    kind: click.ParamType, value: object, param: click.Parameter | None, ctx: click.Context | None
) -> Value:
    try:
        return wire.decode(str(value))
    except (ValueError, RecursionError):
        example = "--where '{\"topic\": \"travel\"}'"
        kind.fail(f"{str(value)[:80]!r} is not JSON; quote it for the shell, as in {example}", param, ctx)


class MomentType(click.ParamType):
    """A moment of the past: a commit number, or a time."""

    name = "moment"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> int | datetime:
        """Return the number, or the time."""
        if isinstance(value, (int, datetime)):
            return value
        if re.fullmatch(r"[0-9]{1,18}", str(value)):
            return int(str(value))
        return _time(self, value, param, ctx)


class TimeType(click.ParamType):
    """A time with a zone, ISO 8601."""

    name = "time"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> datetime:
        """Return the time."""
        return value if isinstance(value, datetime) else _time(self, value, param, ctx)


def _time(
    kind: click.ParamType, value: object, param: click.Parameter | None, ctx: click.Context | None
) -> datetime:
    try:
        return read_time(value)
    except InvalidInput as error:
        kind.fail(str(error), param, ctx)


_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


class DurationType(click.ParamType):
    """A span of time, such as ``90s`` ``10m`` ``12h`` ``7d`` ``2w``."""

    name = "duration"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> timedelta:
        """Return the span."""
        if isinstance(value, timedelta):
            return value
        found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)([smhdw])", str(value))
        if found is None:
            self.fail(f"{value!r} is not a span of time; write it like 90s 10m 12h 7d 2w", param, ctx)
        try:
            return timedelta(**{_UNITS[found[2]]: float(found[1])})
        except OverflowError:
            self.fail(f"{value!r} is longer than a calendar", param, ctx)


class PathType(click.ParamType):
    """A path into an exact tree: dotted, or a JSON list where a name holds a dot."""

    name = "path"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> str | tuple[str, ...]:
        """Return the path."""
        if not isinstance(value, str) or not value.startswith("["):
            return cast("str | tuple[str, ...]", value)
        names = _read(self, value, param, ctx)
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            self.fail(f"{value!r} is not a list of names like [\"a.b\", \"c\"]", param, ctx)
        return tuple(cast("list[str]", names))


def read_value(text: str) -> Value:
    """Return what *text* says as JSON; if it is not JSON, the text itself.

    Raises:
        click.UsageError: It is JSON, but no value that fornix stores.
    """
    try:
        json.loads(text, parse_constant=_refuse)
    except json.JSONDecodeError:
        return text
    except (ValueError, RecursionError) as error:
        raise _unusable(error) from None
    try:
        return wire.decode(text)
    except ValueError as error:
        raise _unusable(error) from None


def _refuse(name: str) -> None:
    """``NaN`` and ``Infinity`` are no JSON; a number like that is {"$float": "nan"}."""
    raise json.JSONDecodeError("not JSON", name, 0)


def _unusable(error: Exception) -> click.UsageError:
    return click.UsageError(f"VALUE cannot be stored: {error}; --text stores it as it is written")
