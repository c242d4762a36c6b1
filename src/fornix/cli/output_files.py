"""Files that commands write: there whole, or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import click

from fornix.cli.output import plain
from fornix.errors import InvalidInput
from fornix.store.fsync import sync_folder


@contextmanager
def sink(file: str, *, force: bool) -> Generator[Callable[[bytes], object]]:
    """Give what writes to a file that appears whole, or not at all; or to stdout."""
    if file == "-":
        yield lambda line: click.echo(line, nl=False)
        return
    path = Path(file)
    if path.exists() and not force:
        raise InvalidInput(f"{plain(file)} exists; name another file, or add --force")
    part = path.with_name(f"{path.name}.part")
    handle = os.open(part, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600)
    try:
        with os.fdopen(handle, "wb") as out:
            yield out.write
            out.flush()
            os.fsync(out.fileno())
        part.replace(path)
        sync_folder(path.parent)
    finally:
        part.unlink(missing_ok=True)
