"""The command `alveus`: its commands, and the edge where errors become messages and exit codes."""

from __future__ import annotations

import io
import os
import re
import sys
import traceback
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import click
from click.shell_completion import get_completion_class

from alveus import __version__
from alveus.cli import options, output
from alveus.cli.commands import LazyGroup
from alveus.cli.options import argument
from alveus.cli.session import Session, session_of
from alveus.errors import AlveusError, DuplicateItem, StoreReadOnly, TreeConflict

SHELLS = ("bash", "zsh", "fish")

MENDED: dict[str, tuple[tuple[str, str], ...]] = {
    "bash": (
        (
            """$(env COMP_WORDS="${COMP_WORDS[*]}" COMP_CWORD=$COMP_CWORD""",
            """$(env COMP_WORDS="${line[*]}" COMP_CWORD=$at""",
        ),
        (
            "    local response\n",
            """    local response rest=$COMP_LINE line=() at=0 i word typed
    for i in "${!COMP_WORDS[@]}"; do
        word=${COMP_WORDS[i]}
        if ((i)) && [[ $rest != [[:space:]]* && ${COMP_WORDS[i-1]}$word == *[:=]* ]]; then
            line[-1]+=$word
        else
            line+=("$word")
        fi
        rest=${rest#"${rest%%%%[![:space:]]*}"}
        rest=${rest#"$word"}
        ((i == COMP_CWORD)) && at=$((${#line[@]} - 1)) && typed=${line[-1]}
    done
    word=${COMP_WORDS[COMP_CWORD]}
    [[ $word == [:=]* ]] || typed=${typed%%"$word"}
    typed=${typed#--*=}
""",
        ),
        (
            "COMPREPLY+=($value)",
            """[[ ${COMP_WORDS[COMP_CWORD]} == [\\"\\']* ]] || printf -v value %%q "$value"
            COMPREPLY+=("${value#"$typed"}")""",
        ),
    ),
    "zsh": (
        (
            "compadd -U -V unsorted -a completions",
            'compadd -U -P "${(M)PREFIX#--*=}" -V unsorted -a completions',
        ),
    ),
    "fish": (
        ('string split ","', 'string split --max 1 ","'),
        (
            "echo $metadata[2]",
            """echo (string match -r -- '^--[^=]*=|^' (commandline -t))$metadata[2]""",
        ),
    ),
}
"""Corrections to click's completion scripts.

bash splits a word at ``:`` and ``=``, and completes the last part alone. Uncorrected, bash would
insert a name with a space as two words, and complete ``*`` with files. zsh and fish would
complete ``--key=NAME`` without ``--key=``; fish would replace the first part of a name with a
comma.
"""


@options.command("completion")
def completion_command(
    _session: Session, *, shell: str = argument(type=click.Choice(SHELLS))
) -> None:
    """Print the completion script of a shell.

    It offers commands, options, and the keys, sets and paths of the memory.

    \b
      bash   eval "$(alveus completion bash)"   in ~/.bashrc
      zsh    eval "$(alveus completion zsh)"    in ~/.zshrc, after compinit
      fish   alveus completion fish > ~/.config/fish/completions/alveus.fish

    Example: alveus completion bash
    """  # noqa: D301 - click reads the \\b: do not wrap
    root = click.get_current_context().find_root().command
    kind = get_completion_class(shell)
    assert kind is not None  # noqa: S101 - click knows all three
    script = kind(root, {}, "alveus", "_ALVEUS_COMPLETE")
    template = script.source_template
    for of_click, mended in MENDED[shell]:
        template = template.replace(of_click, mended)
    click.echo(template % script.source_vars())


FAILED, USAGE, INTERRUPTED, BROKEN_PIPE = 1, 2, 130, 141

LOST_OUTPUT = (
    "the output is not complete, but a command that changes something may have changed it; make "
    "room, or send the output elsewhere"
)


class Alveus(LazyGroup):
    """The root command. It turns an error of a command into a message and an exit code."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,  # noqa: FBT001, FBT002 - click's
        **extra: Any,  # noqa: ANN401 - click's
    ) -> NoReturn:
        """Run a command line and end the process, as `click.Command.main` does."""
        words = list(sys.argv[1:] if args is None else args)
        _open_closed_streams()
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="backslashreplace")
        _ = standalone_mode
        try:
            code = super().main(words, prog_name, complete_var, standalone_mode=False, **extra)
        except (click.ClickException, click.Abort, AlveusError, OSError) as error:
            codes = {click.Abort: INTERRUPTED, click.UsageError: USAGE}
            code = next((code for kind, code in codes.items() if isinstance(error, kind)), FAILED)
            _report(error, words)
        sys.exit(code if isinstance(code, int) else 0)

    def make_context(self, *given: Any, **more: Any) -> click.Context:  # noqa: ANN401 - click's
        """Read the options, and print the help or the version if they ask for it."""
        with _quiet_if_nobody_reads():
            return super().make_context(*given, **more)

    def invoke(self, ctx: click.Context) -> object:
        """Run the command."""
        with _quiet_if_nobody_reads():
            result = super().invoke(ctx)
            sys.stdout.flush()
            return result


@contextmanager
def _quiet_if_nobody_reads() -> Generator[None]:
    """End quietly, with `BROKEN_PIPE`, if the reader of stdout has closed the pipe."""
    try:
        yield
    except BrokenPipeError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise click.exceptions.Exit(BROKEN_PIPE) from error


def _open_closed_streams() -> None:
    """Open stdin, stdout and stderr on /dev/null if they are closed, as by ``2>&-``.

    Otherwise a file that a command opens would get one of their descriptors, and output that
    libraries print would go into this file.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            stream = Path(os.devnull).open(mode, encoding="utf-8")  # noqa: SIM115 - for good
            setattr(sys, name, stream)


def _report(error: Exception, words: Sequence[str]) -> None:
    """Print an error on stderr: the message, the location, and the remedy."""
    if isinstance(error, click.exceptions.NoArgsIsHelpError) and not _wants_json(words):
        click.echo(error.format_message(), err=True)
        return
    notes = [*getattr(error, "__notes__", []), *getattr(error.__cause__, "__notes__", [])]
    said = "; ".join([_message(error), *notes])
    if "lone surrogate" in said and (word := _no_utf8(words)) is not None:
        said = f"the argument {word!r} is not UTF-8; convert it, for example with iconv"
    if _wants_json(words):
        name = "Interrupted" if isinstance(error, click.Abort) else type(error).__name__
        facts = vars(error) if isinstance(error, AlveusError) else {}
        output.error(name, said, facts)
        return
    click.echo(f"alveus: {output.plain(said)}", err=True)
    if isinstance(error, click.UsageError) and error.ctx is not None:
        click.echo(f"Try '{error.ctx.command_path} --help'.", err=True)


def _no_utf8(words: Sequence[str]) -> str | None:
    """Return the first argument that is not UTF-8, or None if all are.

    Python keeps the invalid bytes of an argument as lone surrogates.
    """
    return next((word for word in words if word.encode(errors="ignore").decode() != word), None)


def _message(error: Exception) -> str:
    if isinstance(error, click.Abort):
        return "interrupted"
    if isinstance(error, click.ClickException):
        return error.format_message().rstrip(".")
    if isinstance(error, OSError) and not isinstance(error, AlveusError):
        said = str(error.strerror or error)
        if error.filename is not None:
            return f"{click.format_filename(error.filename)}: {said}"
        return f"standard output: {said}; {LOST_OUTPUT}" if _is_of_printing(error) else said
    return _in_words_of_commands(error)


def _in_words_of_commands(error: Exception) -> str:
    """Return the text of an error, with the remedy as a command instead of as a call."""
    said = str(error)
    if isinstance(error, DuplicateItem):
        return said.replace("on_existing='keep' or 'update'", "--on-existing keep or update")
    if isinstance(error, StoreReadOnly):
        return said.replace(", or open it with mode='ro'", "")
    if isinstance(error, TreeConflict):
        return re.sub(r"first, or replace it with new_object\(.*\)$", "first: alveus rm", said)
    return said


def _is_of_printing(error: OSError) -> bool:
    """Return whether printing raised *error*. Unlike errors of files, it does not name a file."""
    *_, (frame, _line) = traceback.walk_tb(error.__traceback__)
    return frame.f_globals["__name__"].split(".")[0] in {"click", "rich"}


def _wants_json(words: Sequence[str]) -> bool:
    before = words[: words.index("--")] if "--" in words else words
    return "--json" in before


@click.group(
    cls=Alveus,
    params=options.shared(hidden=False),
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, prog_name="alveus", message="%(prog)s %(version)s")
@click.pass_context
def alveus(ctx: click.Context) -> None:
    """Memory for AI agents, on the command line.

    Exact memory is a tree of values per key:

    \b
      alveus set profile.city Lisbon --key ada
      alveus get profile.city --key ada
      alveus tree --key ada                   alveus rm profile.city --key ada

    Items are searched by meaning, in sets of a key, or of knowledge that all keys share:

    \b
      alveus add "Prefers window seats." --key ada
      alveus search "which seat?" --key ada
      alveus show ID --key ada                alveus delete ID --key ada

    A prompt contains memory of both kinds about a question, within a budget of tokens:

    \b
      alveus context "which seat?" --key ada --budget 1000

    A chat in the terminal remembers what was said:

    \b
      alveus chat --key ada --model gpt-4o    alveus chat --key ada

    Agents run on a memory, each input once, also after a crash:

    \b
      alveus run my_agent.py:Shop --input events.jsonl
      alveus runs list --status parked        alveus recover my_agent.py:Shop

    A key is always the option --key, and the options below may stand before or after a command's
    name.

    Exit codes: 0 done, 1 an error of alveus, 2 wrong usage, 3 nothing found, 130 interrupted.
    """  # noqa: D301 - click reads the \\b: do not wrap
    ctx.obj = session_of(ctx)


def main() -> NoReturn:
    """Run the command line of this process."""
    alveus.main(prog_name="alveus")
