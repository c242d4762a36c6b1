"""An import from a file in one call, as `fornix import` does it."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from fornix.errors import InvalidInput
from fornix.memory.memory import Memory
from fornix.sets import OnExisting
from fornix.transfer.dry_run import Survey, survey
from fornix.transfer.foreign_formats import Target
from fornix.transfer.import_formats import Layout, layout_of
from fornix.transfer.import_source import Source
from fornix.transfer.importing import Load, Loaded
from fornix.transfer.langgraph import is_sqlite, langgraph_file


@dataclass(frozen=True, slots=True)
class Imported:
    """What was in a file, and what an import of it did."""

    found: Survey
    done: Loaded


@contextmanager
def opened(path: str | os.PathLike[str]) -> Generator[Source]:
    """Open a file to import: JSON, or the SQLite file of a LangGraph store.

    This process must not have that SQLite file open itself: closing a file drops the locks that
    the process has on it.

    Raises:
        InvalidInput: It is a folder or a pipe, or an SQLite file of something else.
        OSError: It cannot be opened.
    """
    place = Path(path)
    if place.is_dir():
        raise InvalidInput(f"{place} is a folder; name a file in it")
    if place.exists() and not place.is_file():
        raise InvalidInput(f"{place} is no file that can be read twice; pipe it in (import -)")
    if is_sqlite(place):
        with langgraph_file(place) as file:
            yield file
        return
    with place.open("rb") as handle:
        yield Source(str(place), handle)


def survey_file(
    path: str | os.PathLike[str],
    *,
    layout: Layout | Literal["auto"] = "auto",
    target: Target | None = None,
) -> Survey:
    """Return what `import_file` would import; nothing is written.

    Raises:
        InvalidInput: A record cannot be used, or it cannot be told which format this is.
    """
    with opened(path) as source:
        return survey(source, layout_of(source) if layout == "auto" else layout, target)


def import_file(
    memory: Memory,
    path: str | os.PathLike[str],
    *,
    layout: Layout | Literal["auto"] = "auto",
    target: Target | None = None,
    on_existing: OnExisting = "keep",
) -> Imported:
    """Import a file; see docs/import-export.md.

    The whole file is read and checked before anything is written. It is written in chunks, each of
    them one commit; the same call again adds nothing twice.

    Args:
        target: Where items go; needed for every format but "fornix".

    Raises:
        InvalidInput: A record cannot be used, or it cannot be told which format this is.
    """
    with opened(path) as source:
        chosen = layout_of(source) if layout == "auto" else layout
        found = survey(source, chosen, target)
        return Imported(found, Load(memory, on_existing=on_existing).run(source, chosen, target))
