"""The options and arguments that commands share, and how what is written there is read."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import update_wrapper
from typing import Concatenate, ParamSpec, TypeVar, cast
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import click

from fornix.cli import completion_names
from fornix.cli.session import Session, remember_option, session_of
from fornix.errors import InvalidInput
from fornix.values import wire
from fornix.values.storable import MAX_DEPTH, Value
from fornix.values.times import read_time

P = ParamSpec("P")
T = TypeVar("T")

CUT = 40
"""Characters of an argument that a message repeats."""


class FileName(click.Path):
    """The name of a file; "" is none, and mostly a shell variable that is not set."""

    def convert(
        self,
        value: str | os.PathLike[str],
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> str | bytes | os.PathLike[str]:
        """Return *value*, unless it is empty."""
        if value == "":
            self.fail("it is empty; name a file (a shell variable may not be set)", param, ctx)
        return super().convert(value, param, ctx)


class Whole(click.IntRange):
    """A whole number in a range; what is none is refused in words."""

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        """Return *value* as a number."""
        try:
            number = int(str(value))
        except ValueError:
            number = None
        least, most = self.min or 0, self.max
        if number is None or number < least or (most is not None and number > most):
            span = f"at least {least}" if most is None else f"from {least} to {most:,}"
            self.fail(f"{str(value)[:CUT]!r} is not a whole number, {span}", param, ctx)
        return number


def shared(*, hidden: bool) -> list[click.Parameter]:
    """Return the options that every command takes: before its name, or (hidden) after it."""
    flags = {
        "json": "Print JSON: one document, or a line per result.",
        "quiet": "Print only results and errors.",
        "verbose": "Say which file is used, also with --json.",
    }
    db = click.Option(
        ["--db"],
        type=FileName(),
        metavar="PATH",
        envvar=None if hidden else "FORNIX_DB",
        show_envvar=True,
        help="The file of the memory. Default: ./fornix.db if it is there, else "
        "$XDG_DATA_HOME/fornix/fornix.db (~/.local/share/…).",
    )
    space = click.Option(
        ["--space"], metavar="NAME", help="The application's name.  [default: default]"
    )
    embedder = click.Option(
        ["--embedder"],
        metavar="NAME",
        help="minilm, static or words. Default: the one that the space remembers.",
    )
    switches = [
        click.Option([f"--{name}"], is_flag=True, flag_value=True, default=None, help=text)
        for name, text in flags.items()
    ]
    options = [db, space, embedder, *switches]
    for option in options:
        option.hidden, option.expose_value, option.callback = hidden, False, remember_option
    return list(options)


class Command(click.Command):
    """A command that takes the shared options too."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return its own options and the shared ones."""
        return [*super().get_params(ctx), *shared(hidden=True)]


def command(name: str) -> Callable[[Callable[Concatenate[Session, P], None]], click.Command]:
    """Make a function a command; it is given the session first."""

    def make(function: Callable[Concatenate[Session, P], None]) -> click.Command:
        def call(*args: P.args, **kwargs: P.kwargs) -> None:
            function(session_of(click.get_current_context()), *args, **kwargs)

        return click.command(name, cls=Command)(update_wrapper(call, function))

    return make


# --- options ----------------------------------------------------------------------------------

key_option = click.option(
    "--key",
    "-k",
    metavar="KEY",
    shell_complete=completion_names.keys,
    help="The user, session or device.",
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
    shell_complete=completion_names.sets,
    help="The set.",
)
sets_option = click.option(
    "--set",
    "-s",
    "set_names",
    metavar="NAME",
    multiple=True,
    shell_complete=completion_names.sets,
    help="Only this set; may be repeated. Default: all of them.",
)


# --- what is written there --------------------------------------------------------------------


def parsed(
    read: Callable[[str], T],
) -> Callable[[click.Context, click.Parameter, str | None], T | None]:
    """Make *read*, which raises `InvalidInput`, what reads an option or an argument."""

    def callback(ctx: click.Context, param: click.Parameter, text: str | None) -> T | None:
        try:
            return None if text is None else read(text)
        except InvalidInput as error:
            raise click.BadParameter(str(error), ctx, param) from error

    return callback


def read_object(text: str) -> dict[str, Value]:
    """Return the JSON object that *text* is."""
    found = _json(text)
    if not isinstance(found, dict):
        raise InvalidInput(f'{_cut(text)} is JSON, but not an object like {{"topic": "travel"}}')
    return found


def _json(text: str) -> Value:
    try:
        return wire.plain(text)
    except json.JSONDecodeError:
        problem = 'is not JSON; quote it for the shell, like \'{"topic": "travel"}\''
    except RecursionError:
        problem = f"is nested deeper than {MAX_DEPTH} levels; say it with fewer"
    except ValueError as error:
        problem = f"cannot be used: {error}"
    raise InvalidInput(f"{_cut(text)} {problem}")


def _cut(text: str) -> str:
    return f"{text[:CUT]!r}{' …' * (len(text) > CUT)}"


def read_moment(text: str) -> int | datetime:
    """Return the commit number or the time that *text* is."""
    return int(text) if re.fullmatch(r"[0-9]{1,18}", text) else read_time(text)


def read_zone(text: str) -> tzinfo:
    """Return the zone that *text* is: an offset like ``+01:00``, or a name."""
    found = re.fullmatch(r"([+-])([0-9]{2}):([0-5][0-9])", text)
    if found:
        away = timedelta(hours=int(found[2]), minutes=int(found[3]))
        if away < timedelta(days=1):
            return timezone(away if found[1] == "+" else -away)
    elif text in ("UTC", "Z"):
        return UTC
    else:
        try:
            return ZoneInfo(text)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            pass
    raise InvalidInput(
        f"{_cut(text)} is no zone that this system knows; write UTC, +01:00, or a name like "
        "Europe/Lisbon"
    )


def read_path(text: str) -> str | tuple[str, ...]:
    """Return the path that *text* is: dotted, or a JSON list where a name holds a dot."""
    if not text.startswith("["):
        return text
    found = _json(text)
    if not isinstance(found, list) or not all(isinstance(name, str) for name in found):
        raise InvalidInput(f'{text!r} is not a list of names like ["a.b", "c"]')
    return tuple(cast("list[str]", found))


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
        return wire.plain(text)
    except (ValueError, RecursionError) as error:
        raise _unusable(error) from None


def _refuse(name: str) -> None:
    """``NaN`` and ``Infinity`` are no JSON; a number like that is {"$float": "nan"}."""
    raise json.JSONDecodeError("not JSON", name, 0)


def _unusable(error: Exception) -> click.UsageError:
    deep = f"it is nested deeper than {MAX_DEPTH} levels"
    problem = deep if isinstance(error, RecursionError) else error
    return click.UsageError(f"VALUE cannot be stored: {problem}; --text stores it as it is written")
