"""Write the generated pages: docs/cli.md from the help of every command, the pages of vectors from
their tests, the picture in docs/layers.md, the table of forks in docs/safety.md, that of frameworks
in docs/integrations.md, the tables of docs/metrics.md, docs/contract.md, the pictures of
docs/design.md and docs/measured.md, the list of files of the former, and the TypeScript client.

    python tools/make_docs.py [--check]

With --check nothing is written; exits 1 and names every page that is not what would be written.
"""

# ruff: noqa: E501 - a sentence is a line of the page

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import click

from alveus.cli import alveus
from make_charts import charts
from make_contract import contract_page
from make_design import design_page
from make_forks import safety_page
from make_house import house_picture
from make_integrations import integrations_page
from make_layers import layers_page
from make_metrics import metrics_page
from make_typescript import client_page, types_page
from make_vectors import AGENTSCOPE, DBGPT, THINKER
from make_write_path import write_path_picture

ROOT = Path(__file__).resolve().parent.parent

INTRO = """\
# The command line

<!-- Written by tools/make_docs.py from the help of the commands. Change it there: `make docs`. -->

`alveus` works on one memory, a file.
`--db PATH` or the environment variable `ALVEUS_DB` names it.
Without either, it is `alveus.db` in the working directory if that file exists, else `alveus/alveus.db` in `$XDG_DATA_HOME` (by default `~/.local/share`).
The first `alveus add`, `alveus set`, `alveus chat`, `alveus import` or `alveus run` makes that file; a command that fails on a wrong name, value or option makes none.
A command says on stderr which file it uses, as `alveus: using app.db, space 'default'`, or `alveus: made app.db, …` if it made the file.
`--quiet` and `--json` leave that line out; `--json --verbose` prints it.
A command that only reads makes no file: it fails if there is none.
`python -m alveus` is the same program.

## One grammar

A key is always the option `--key` (`-k`), and knowledge is `--knowledge`; the words after a command are a path, a value, a text, a question, an id or a file.

| exact memory | items |
|---|---|
| `alveus set profile.city Lisbon --key ada` | `alveus add "Prefers window seats." --key ada` |
| `alveus get profile.city --key ada` | `alveus show ID --key ada` |
| `alveus tree --key ada` | `alveus list --key ada`, `alveus search "which seat?" --key ada` |
| `alveus rm profile.city --key ada` | `alveus delete ID --key ada` |

- What `get` prints restores the value: `alveus set PATH "$(alveus get PATH --key ada)" --key ada`, whatever its type, with and without `--json`.
- Every id that a command prints is accepted where a command takes an `ID`: `show`, `delete` and `lineage` look through all sets of the key, and also take `SET/ID`. If several sets have the id, name one with `--set`.
- Every list is a table with a header; `--quiet` leaves the header out, and `--json` prints a line per row.
- A span of time is written `20ms`, `90s`, `10m`, `12h`, `7d` or `2w`; a time `2025-01-31T12:00:00Z`, and a [day](#days) `2025-01-31`.

## Days

A day or a time without an offset is one where you are: where this machine is, or `--timezone ZONE`, or `ALVEUS_TIMEZONE`.
A day begins or ends there, as the call asks: `diff 2026-11-20 2026-11-21` is two whole days, and `--as-of 2026-11-20` is the end of that day.
A time with an offset wins over both.
Lists show times where you are, too; see [whose day](time-travel.md#whose-day).

## Exit codes

| code | meaning |
|---|---|
| 0 | done |
| 1 | an error of alveus: the message on stderr says what happened, to what, and what to do; `doctor` and `demo` also end so if something is wrong, `run` and `recover` if a run failed, `chat` if a request did, `scrub` if something is in its way |
| 2 | wrong usage: an unknown command or option, or a value that cannot be read |
| 3 | nothing found: no hit, no such item, set, path or run, nothing to remove or to forget |
| 4 | `import` or `learn --input` left out records that cannot be used, and named them on stderr; all others are imported |
| 130 | interrupted by Ctrl-C; what was acknowledged is durable, and `import` and `run` go on where they were |
| 141 | the reader of the output closed it, as `head` does |

## JSON

With `--json` results are JSON in UTF-8 on stdout: one document, or, for `list`, `recent`, `keys`, `sets`, `show --history`, `compactions`, `facts list`, `facts check`, `quarantine list`, `chat`, `run`, `replay`, `runs list` and `receipts`, a line per result.
Fields are only ever added.
Stored values travel in the wire form: bytes as `{"$bytes": "base64"}`, in the standard alphabet, NaN and infinities as `{"$float": "nan"}`, very large integers as `{"$int": "hex"}`; an object of yours that would be taken for one of these has one `$` more, and every other name is as you wrote it; commands read the same forms ([all rules](reference.md#values-as-json)).
Times are ISO 8601: in UTC, but the `time` of an item, which has the offset that it came with.
An item has `id set value text metadata importance speaker role session time created updated accessed sources compacted version retired`.
An error is one line on stderr, `{"error": {"type": …, "message": …, "facts": {…}}}`: the class of the error, its message, and its attributes.
Where nothing was found, the exit code is 3.

## alveus

"""


def page() -> str:
    """Return docs/cli.md as it should be."""
    root = click.Context(alveus, info_name="alveus", **alveus.context_settings)
    parts = [INTRO + _fenced(_help(alveus, "alveus", None)), *_sections(alveus, root)]
    return "\n".join(parts)


def _sections(group: click.Group, context: click.Context) -> Iterator[str]:
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        path = f"{context.command_path} {name}"
        yield f"## {path}\n\n{_fenced(_help(command, name, context))}"
        if isinstance(command, click.Group):
            yield from _sections(command, click.Context(command, parent=context, info_name=name))


def _help(command: click.Command, name: str, parent: click.Context | None) -> str:
    context = command.context_class(
        command,
        info_name=name,
        parent=parent,
        terminal_width=90,
        max_content_width=90,
        **command.context_settings,
    )
    text = inspect.cleandoc(command.get_help(context))
    return "\n".join(line.rstrip() for line in text.splitlines())


def _fenced(text: str) -> str:
    return f"```text\n{text}\n```\n"


def main() -> int:
    """Write the pages, or check them."""
    stale = 0
    for name, write in PAGES.items():
        path = (ROOT / "docs" / name).resolve()
        there = path.read_text(encoding="utf-8") if path.exists() else ""
        fresh = write(there)
        if "--check" not in sys.argv[1:]:
            path.write_text(fresh, encoding="utf-8")
            print(f"wrote {path.relative_to(ROOT)}")
        elif there != fresh:
            print(f"{path.relative_to(ROOT)} is not what its generator writes; run: make docs")
            stale = 1
    return stale


PAGES: dict[str, Callable[[str], str]] = {
    "contract.md": contract_page,
    "agentscope-vectors.md": lambda _: AGENTSCOPE.page(),
    "cli.md": lambda _: page(),
    "design.md": design_page,
    "dbgpt-vectors.md": lambda _: DBGPT.page(),
    "integrations.md": integrations_page,
    "layers.md": layers_page,
    "metrics.md": metrics_page,
    "pictures/house.svg": lambda _: house_picture(),
    "pictures/write-path.svg": lambda _: write_path_picture(),
    "safety.md": safety_page,
    "thinker-vectors.md": lambda _: THINKER.page(),
    "../clients/typescript/index.js": lambda _: client_page(),
    "../clients/typescript/index.d.ts": lambda _: types_page(),
    **{path: lambda _, made=made: made for path, made in charts().items()},
}
"""What writes each page; given what is there."""


if __name__ == "__main__":
    sys.exit(main())
