"""The options and arguments of commands, each defined once, and the readers of their texts."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from datetime import date, datetime, timedelta, tzinfo
from inspect import cleandoc, signature
from itertools import islice
from math import isfinite
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict, TypeVar, cast

import click
from click.shell_completion import CompletionItem

import alveus
from alveus.cli.session import Owner, remember_option, session_of
from alveus.errors import AlveusError, InvalidInput
from alveus.values import wire
from alveus.values.lazy_dataclass import dataclass
from alveus.values.storable import MAX_DEPTH, Value, checked_name
from alveus.values.times import Zone, parse_time, read_span
from alveus.values.urls import IMMUTABLE_SUFFIX

if TYPE_CHECKING:
    from alveus import Memory
    from alveus.llm import HttpReranker, OpenAIChat
    from alveus.store.times import ValidAt

T = TypeVar("T")

Moment: TypeAlias = int | datetime | None
"""A commit number or a time. None means now."""


class When(TypedDict):
    """The moment at which items and facts are read."""

    as_of: Moment
    valid_at: ValidAt | None


CUT = 40
"""Most characters of an argument that an error message repeats."""

MOST_NAMES = 200
"""Most names that shell completion offers."""

NEGATIVE = re.compile(r"-(\d|\.\d|Infinity)")

_COMMIT = re.compile(r"[0-9]{1,18}")


class FileName(click.Path):
    """A file name. "" is refused, since it usually comes from an unset shell variable."""

    def convert(
        self,
        value: str | os.PathLike[str],
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> str | bytes | os.PathLike[str]:
        """Return *value*. Refuse an empty name."""
        if value == "":
            self.fail("it is empty; pass a file (a shell variable may not be set)", param, ctx)
        return super().convert(value, param, ctx)


class FiniteRange(click.FloatRange):
    """A number in a range. NaN is refused."""

    def convert(
        self, value: str | float, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """See `click.FloatRange`."""
        found: float = super().convert(cast("float", value), param, ctx)
        if not isfinite(found):
            self.fail(f"{value} is no number of that range.", param, ctx)
        return found


class Whole(click.IntRange):
    """A whole number in a range. The error for any other text names the range."""

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


class Command(click.Command):
    """A command that also takes the shared options, and negative numbers as arguments."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return the options of this command and the shared options."""
        return [*super().get_params(ctx), *shared(hidden=True)]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the command line. A word such as -3 is a number, not an option."""
        takes_value = {
            name
            for param in self.get_params(ctx)
            if isinstance(param, click.Option) and not param.is_flag
            for name in param.opts
        }
        numbers = [
            position
            for position, (before, word) in enumerate(zip(["", *args], args, strict=False))
            if "--" not in args and NEGATIVE.match(word) and before not in takes_value
        ]
        if numbers:
            rest = [word for position, word in enumerate(args) if position not in numbers]
            args = [*rest, "--", *(args[position] for position in numbers)]
        return super().parse_args(ctx, args)


@dataclass(frozen=True, slots=True)
class Declared:
    """An option or argument, as the default of a parameter of the command's function.

    Attributes:
        make: Returns the click parameter for the name of the function's parameter.
    """

    make: Callable[[str], click.Parameter]

    def params(self, name: str) -> list[click.Parameter]:
        """Return the click parameter, in a list."""
        return [self.make(name)]

    def value(self, name: str, given: Mapping[str, object]) -> object:
        """Return the value of the parameter *name* among all *given* ones."""
        return given[name]


@dataclass(frozen=True, slots=True)
class OptionGroup:
    """Options that make one value, as the default of one parameter of the command's function.

    Attributes:
        options: The options, and groups of options, by the parameter names of *make*.
        make: Returns the value. Its usage errors become the command's.
    """

    options: Mapping[str, Declared | OptionGroup]
    make: Callable[..., object]

    def params(self, _name: str) -> list[click.Parameter]:
        """Return the click parameters of all options."""
        return [param for name, part in self.options.items() for param in part.params(name)]

    def value(self, _name: str, given: Mapping[str, object]) -> object:
        """Return the value that the options make of the parameters."""
        return self.make(**{name: part.value(name, given) for name, part in self.options.items()})


def command(
    name: str, of: click.Group | None = None
) -> Callable[[Callable[..., None]], click.Command]:
    """Make a function a command, optionally in a group.

    The first parameter is the session. The default of every other parameter declares an option or
    an argument. The docstring is the help text.
    """

    def make(function: Callable[..., None]) -> click.Command:
        declared = {
            each.name: cast("Declared | OptionGroup", each.default)
            for each in [*signature(function).parameters.values()][1:]
        }

        def call(**given: object) -> None:
            values = {name: each.value(name, given) for name, each in declared.items()}
            function(session_of(click.get_current_context()), **values)

        params = [param for name, each in declared.items() for param in each.params(name)]
        made = Command(name, params=params, callback=call, help=cleandoc(function.__doc__ or ""))
        if of is not None:
            of.add_command(made)
        return made

    return make


def group(name: str, says: str) -> click.Group:
    """Return a group of commands that also takes the shared options."""
    return click.Group(name, help=says, no_args_is_help=False, params=shared(hidden=True))


# --- shell completion -------------------------------------------------------------------------

Complete = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def _complete(names: Callable[[Memory, click.Context, str], list[str]]) -> Complete:
    """Return a shell completion with the names that *names* reads from the memory.

    The completion never raises: if the memory cannot be read, it offers no names.
    """

    def complete(
        ctx: click.Context, _param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        session = session_of(ctx)
        try:
            knowledge = ctx.params.get("knowledge")
            url = session.server
            if url is None:
                if not session.file.is_file():
                    return []
                # Immutable, so that SQLite creates no file beside it.
                url = f"sqlite:///{session.file.resolve()}{IMMUTABLE_SUFFIX}"
            opened = alveus.Memory.open(url, space=session.space, knowledge=knowledge, mode="ro")
            with opened as memory:
                found = [
                    name
                    for name in names(memory, ctx, incomplete)
                    if name.startswith(incomplete) and name.isprintable()  # several words
                ]
        except (AlveusError, click.UsageError, OSError):  # a shell cannot show errors
            return []
        return [CompletionItem(name) for name in found[:MOST_NAMES]]

    return complete


def _keys(memory: Memory, _ctx: click.Context, _begun: str) -> list[str]:
    return list(islice(memory.keys(), 100 * MOST_NAMES))


def _sets(memory: Memory, ctx: click.Context, _begun: str) -> list[str]:
    key = ctx.params.get("key")
    return memory.key(key).sets() if key else memory.knowledge.sets()


def _paths(memory: Memory, ctx: click.Context, begun: str) -> list[str]:
    """Return the fields of the exact tree that can complete a path."""
    start, dot, _ = begun.rpartition(".")
    found = memory.key(ctx.params.get("key") or "").short_term.get_object(start)
    return [f"{start}{dot}{name}" for name in found.get_field_names() if "." not in name]


# --- how text is read -------------------------------------------------------------------------


def parsed(
    read: Callable[[str], T],
) -> Callable[[click.Context, click.Parameter, str | None], T | None]:
    """Return a click callback that reads a text with *read*, which may raise `InvalidInput`."""

    def callback(ctx: click.Context, param: click.Parameter, text: str | None) -> T | None:
        try:
            return None if text is None else read(text)
        except InvalidInput as error:
            raise click.BadParameter(str(error), ctx, param) from error

    return callback


def _named(what: str) -> Callable[[click.Context, click.Parameter, Any], Any]:
    """Return a click callback that checks a name, or each name of a tuple."""

    def callback(_ctx: click.Context, _param: click.Parameter, given: Any) -> Any:
        names: list[object] = [*given] if isinstance(given, tuple) else [given]
        for name in names:
            if name is not None:
                checked_name(name, what)
        return cast("Any", given)

    return callback


def _required_key(_ctx: click.Context, _param: click.Parameter, key: str | None) -> str:
    if key is None:
        raise click.UsageError("a key is needed: --key KEY (alveus keys lists the keys)")
    return checked_name(key, "a key")


def read_object(text: str) -> dict[str, Value]:
    """Return *text* as a JSON object."""
    found = _json(text)
    if not isinstance(found, dict):
        raise InvalidInput(f'{_cut(text)} is JSON, but not an object like {{"topic": "travel"}}')
    return found


def _json(text: str) -> Value:
    try:
        return wire.decode_user_json(text)
    except json.JSONDecodeError:
        problem = 'is not JSON; quote it for the shell, like \'{"topic": "travel"}\''
    except RecursionError:
        problem = f"is nested deeper than {MAX_DEPTH} levels; use fewer levels"
    except ValueError as error:
        problem = f"cannot be used: {error}"
    raise InvalidInput(f"{_cut(text)} {problem}")


def _cut(text: str) -> str:
    return f"{text[:CUT]!r}{' …' * (len(text) > CUT)}"


def read_zone(text: str) -> tzinfo | None:
    """Return *text* as a zone: an offset such as ``+01:00``, or a name."""
    return Zone.of(text, "the zone").info


def read_time(text: str) -> datetime:
    """Return *text* as a time. A time without a zone is in the reader's zone."""
    return parse_time(text, session_of(click.get_current_context()).zone)


def read_end(text: str) -> datetime:
    """Return *text* as a time. A day means its end, the start of the next day."""
    try:
        day = date.fromisoformat(text)
    except ValueError:
        return read_time(text)
    try:
        return read_time((day + timedelta(days=1)).isoformat())
    except OverflowError:
        raise InvalidInput(f"{text!r} is the last day that exists; pass an earlier day") from None


def read_begin(text: str) -> int | datetime:
    """Return *text* as a commit number or a time. A day means its begin."""
    return int(text) if _COMMIT.fullmatch(text) else read_time(text)


def read_moment(text: str) -> int | datetime:
    """Return *text* as a commit number or a time. A day means its last instant."""
    if _COMMIT.fullmatch(text):
        return int(text)
    end = read_end(text)
    return end if end == read_time(text) else end - timedelta(microseconds=1)


def read_path(text: str) -> str | tuple[str, ...]:
    """Return *text* as a path: dotted, or a JSON list where a name contains a dot."""
    if not text.startswith("["):
        return text
    found = _json(text)
    if not isinstance(found, list) or not all(isinstance(name, str) for name in found):
        raise InvalidInput(f'{text!r} is not a list of names; write it like ["a.b", "c"]')
    return tuple(cast("list[str]", found))


def read_value(text: str) -> Value:
    """Return *text* as JSON. Text that is not JSON is returned as it is.

    Raises:
        click.UsageError: The JSON is not a value that alveus stores.
    """
    try:
        wire.check_depth(text)
        try:
            json.loads(text, parse_constant=_refuse)
        except json.JSONDecodeError:
            return text
        return wire.decode_user_json(text)
    except (ValueError, RecursionError) as error:
        deep = f"it is nested deeper than {MAX_DEPTH} levels"
        problem = deep if isinstance(error, RecursionError) else error
        raise click.UsageError(
            f"VALUE cannot be stored ({problem}); pass --text to store it as a text"
        ) from None


def _refuse(name: str) -> None:
    """Refuse ``NaN`` and ``Infinity``, which are not JSON. The wire form is {"$float": "nan"}."""
    raise json.JSONDecodeError("not JSON", name, 0)


def _read_valid(text: str) -> ValidAt:
    """Return *text* as a time, or as the word "any"."""
    return "any" if text == "any" else read_time(text)


READERS: Mapping[str, Callable[[str], object]] = {
    "JSON": read_object,
    "MOMENT": read_moment,
    "SPAN": read_span,
    "TIME": read_time,
    "ZONE": read_zone,
}
"""The reader of an option's text, by the placeholder of the option."""


# --- options and arguments --------------------------------------------------------------------


def option(
    spelled: str, says: str, *, read: Callable[[str], object] | None = None, **more: Any
) -> Any:
    """Return an option.

    Args:
        spelled: The option as in a synopsis: ``--limit -n COUNT``, or ``--all`` for a flag.
        says: The help text of the option.
        read: Returns the value from the text that the user gives, or raises `InvalidInput`. By
            default, it is the reader of the placeholder (such as COUNT) in `READERS`, if any.
    """
    names = spelled.split()
    metavar = None if names[-1].startswith("-") else names.pop()
    read = read or READERS.get(metavar or "")
    if read is not None:
        more["callback"] = parsed(read)
    if metavar is None and "type" not in more:
        more["is_flag"] = True  # False would make click take a value such as -01:30 for an option
    more |= {"metavar": metavar, "help": says, "show_default": bool(more.get("default"))}
    return Declared(lambda name: click.Option([*names, name], **more))


def argument(metavar: str | None = None, **more: Any) -> Any:
    """Return an argument. *more* goes to click."""
    return Declared(lambda name: click.Argument([name], metavar=metavar, **more))


_SHARED: Mapping[str, Declared] = {
    "db": option(
        "--db PLACE",
        "A file, or postgresql://… of a server. Default: ./alveus.db if it is there, else "
        "$XDG_DATA_HOME/alveus/alveus.db (~/.local/share/…).",
        type=FileName(),
        envvar="ALVEUS_DB",
    ),
    "space": option("--space NAME", "The application's name.  [default: default]"),
    "embedder": option(
        "--embedder NAME",
        "minilm, multilingual, static or words. Default: the one that the space remembers.",
    ),
    "timezone": option(
        "--timezone ZONE",
        "Where you are: Europe/Lisbon, +01:00, UTC. Days are counted, and times are shown, there. "
        "Default: where this machine is.",
        envvar="ALVEUS_TIMEZONE",
        is_eager=True,
    ),
    "json": option("--json", "Print JSON: one document, or a line per result.", default=None),
    "quiet": option(
        "--quiet", "Print only results and errors, and no header of a list.", default=None
    ),
    "verbose": option("--verbose", "Say which file is used, also with --json.", default=None),
}
"""The options of every command: the fields of `Session`."""


def shared(*, hidden: bool) -> list[click.Parameter]:
    """Return the options of every command.

    Args:
        hidden: True for the options after the command's name, which its help does not list. False
            for the options before the command's name.
    """
    options = [declared.make(name) for name, declared in _SHARED.items()]
    for option in cast("list[click.Option]", options):
        option.callback = _remember_zone if option.name == "timezone" else remember_option
        option.hidden, option.expose_value, option.show_envvar = hidden, False, True
        if hidden:
            option.envvar = None
    return options


def _remember_zone(ctx: click.Context, param: click.Parameter, text: str | None) -> None:
    """Keep the option with the reader's time zone. Refuse an unknown zone."""
    parsed(read_zone)(ctx, param, text)
    remember_option(ctx, param, text)


def key_option(says: str = "The user, session or device.") -> Any:
    """Return the option that names a key. It may be omitted."""
    named = _named("a key")
    return option("--key -k KEY", says, callback=named, shell_complete=_complete(_keys))


def knowledge_option(says: str = "Work on the sets of this knowledge instead of a key's.") -> Any:
    """Return the option that names knowledge."""
    return option("--knowledge NAME", says, callback=_named("knowledge"))


def _set_option(says: str, **more: Any) -> Any:
    named, complete = _named("a set"), _complete(_sets)
    return option("--set -s NAME", says, callback=named, shell_complete=complete, **more)


OWNER: Any = OptionGroup({"key": key_option(), "knowledge": knowledge_option()}, Owner)
"""--key and --knowledge. The user gives exactly one of them."""

KEY = option(
    "--key -k KEY",
    "The user, session or device.  [required]",
    callback=_required_key,
    shell_complete=_complete(_keys),
)
KEYS = option(
    "--key -k KEY",
    "Only this key; may be repeated.",
    multiple=True,
    callback=_named("a key"),
    shell_complete=_complete(_keys),
)
SET = _set_option("The set.", default="default")
ONE_SET = _set_option("The set.  [default: the one that has the item]")
ONLY_SET = _set_option("Only this set.")
SETS = _set_option("Only this set; may be repeated.", multiple=True)
WHERE = option("--where JSON", 'Only items that match: \'{"topic": "travel"}\'.')
AS_OF = option("--as-of MOMENT", "Read the past: a commit number, a time, or a day's end.")
VALID_AT = option(
    "--valid-at TIME", 'Only facts that hold at TIME; "any": all.  [default: now]', read=_read_valid
)
WHEN: Any = OptionGroup({"as_of": AS_OF, "valid_at": VALID_AT}, dict)
"""--as-of and --valid-at."""

TTL = option("--ttl SPAN", "Remove it after a span of time, such as 90s, 10m, 12h, 7d or 2w.")
NO_WAIT = option("--no-wait", "Do not wait for vectors; until then words find it.")
YES = option("--yes -y", "Do not ask.")
FORCE = option("--force", "Replace FILE if it exists.")
ITEM = argument("ID")


def path_argument(**more: Any) -> Any:
    """Return the argument for a path in an exact tree."""
    return argument(callback=parsed(read_path), shell_complete=_complete(_paths), **more)


def min_score_option(says: str, default: float | None) -> Any:
    """Return the option for the least relevance that a hit of a search must have."""
    return option("--min-score NUMBER", says, type=FiniteRange(0, 1), default=default)


def limit_option(default: int | None = None, most: int | None = None) -> Any:
    """Return the option that limits the length of a list."""
    return option("--limit -n COUNT", "List at most COUNT.", type=Whole(1, most), default=default)


def on_existing_option(default: str, says: str) -> Any:
    """Return the option for the treatment of existing items and values."""
    choice = click.Choice(["error", "keep", "update"])
    return option("--on-existing", says, type=choice, default=default)


def chat_model(model: str | None, base_url: str | None) -> OpenAIChat | None:
    """Return a language model, which the end of the command closes, or None if *model* is None."""
    if model is None:
        return None
    from alveus.llm import OpenAIChat

    return click.get_current_context().with_resource(OpenAIChat(model, base_url=base_url))


def http_reranker(reranker: str | None, reranker_model: str | None) -> HttpReranker | None:
    """Return the re-ranker that a command's options name, or None."""
    if reranker is None:
        if reranker_model is not None:
            raise click.UsageError("--reranker-model needs a server: --reranker URL")
        return None
    from alveus.llm import HttpReranker

    return HttpReranker(reranker, model=reranker_model)


SUPERSEDED = option(
    "--superseded",
    "What to do with items that a later one makes outdated: leave them out, keeping them in the "
    "field supersedes of --json (fold), show them behind it, or hide them.",
    type=click.Choice(["fold", "show", "hide"]),
    default="fold",
)
MODEL_NAME = option("--model NAME", "Ask this language model.")
BASE_URL = option("--base-url URL", "A server of the OpenAI protocol.  [default: $OPENAI_BASE_URL]")
MODEL: Any = OptionGroup({"model": MODEL_NAME, "base_url": BASE_URL}, chat_model)
"""--model and --base-url."""

RERANKER: Any = OptionGroup(
    {
        "reranker": option(
            "--reranker URL",
            "Have this server order what is found again; its key is $RERANKER_API_KEY.",
        ),
        "reranker_model": option(
            "--reranker-model NAME", "Ask the server for this re-ranking model."
        ),
    },
    http_reranker,
)
"""--reranker and --reranker-model."""
