"""Care of a store: what expired, figures, checks, copies."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import apsw

from alveus.errors import NotAStore, NotFound, StoreDamaged, StoreReadOnly
from alveus.store import (
    StoreStats,
)
from alveus.store.fsync import sync_folder
from alveus.store.part_files import part_of
from alveus.store.sql import figures, retention
from alveus.store.sqlite import checksums, free_pages, schema, scrubbing
from alveus.store.sqlite.connection import (
    CallSubject,
    SqliteConnection,
    as_alveus_error,
    connect,
)
from alveus.store.sqlite.lock_files import file_system

BACKUP_PAGES = 2_000

_ERASED = "SELECT EXISTS (SELECT 1 FROM receipt WHERE state = 0)"


def stats(db: SqliteConnection, path: Path) -> StoreStats:
    """Return figures of the store."""
    return replace(
        figures.stats(db),
        file_bytes=_size(path),
        wal_bytes=_size(Path(f"{path}-wal")),
        free_bytes=free_pages.free_bytes(db),
        details={
            "sqlite": apsw.sqlite_lib_version(),
            "schema": db.pragma("user_version"),
            "file_system": file_system(path),
            "versions_to_sweep": retention.overdue(db),
        },
    )


def size_bytes(path: Path) -> int:
    """Return what a store and its log take on the disk."""
    return _size(path) + _size(Path(f"{path}-wal"))


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def backup(db: SqliteConnection, target: Path) -> None:
    """Copy the store as it is now; the copy appears whole, or not at all.

    What was forgotten, and waits for a scrub, is not in it.
    """
    if not target.parent.is_dir():
        raise NotFound(f"{target.parent}: there is no such folder; make it first")
    with part_of(target) as part:
        copy = SqliteConnection(str(part), vfs=checksums.vfs())
        try:
            if checksums.are_kept(db):
                checksums.reserve(copy)
                copy.pragma("application_id", schema.APPLICATION_ID)  # from now on its VFS computes
            with db:  # one snapshot for the whole copy, whatever is written meanwhile
                db.execute("SELECT 1 FROM note").fetchall()
                with copy.backup("main", db, "main") as work:
                    while not work.done:
                        work.step(BACKUP_PAGES)
            copy.execute("PRAGMA journal_mode = DELETE")
            if copy.execute(_ERASED).get:  # pages that are free were copied too
                scrubbing.vacuum(copy)
        finally:
            copy.close()
        part.replace(target)
    sync_folder(target.parent)


def restore(db: SqliteConnection, source: Path, *, side_files: Path) -> None:
    """Replace the contents of an open store by those of a backup, in one transaction.

    What was made from the old contents is removed before, for good: the change log of a backup
    may have the same lines as theirs, and a kill may come at any moment. Pages of the store that
    are damaged are replaced like the others.

    Raises:
        NotFound, NotAStore, StoreTooNew, StoreDamaged: See `opened_backup`.
    """
    with opened_backup(source) as copy:
        drop_side_files(side_files)
        # Pages of a file without checksums are to be written only after its head, which comes
        # first unless some leave the cache before: the VFS would write checksums into them.
        db.pragma("cache_spill", checksums.are_kept(db) == checksums.are_kept(copy))
        try:
            with checksums.unverified(db), db.backup("main", copy, "main") as work:
                while not work.done:
                    work.step(BACKUP_PAGES)
        finally:
            db.pragma("cache_spill", True)  # noqa: FBT003 - apsw's


@contextmanager
def opened_backup(source: Path) -> Generator[SqliteConnection]:
    """Open a backup for reading; what is wrong with it is an error that names it.

    Raises:
        NotFound: There is none.
        NotAStore: It is something else, or empty, as a copy is that found no room.
        StoreTooNew: A newer alveus made it.
        StoreDamaged: It cannot be read, now or in the block.
    """
    if not source.exists():
        raise NotFound(f"{source}: there is no backup here")
    if not source.is_file():
        raise NotAStore(source, "is not a file; choose another path")
    copy = connect(source, read_only=True, immutable=not Path(f"{source}-wal").exists())
    try:
        if not schema.check(copy, source):
            raise NotAStore(source, "is empty; choose another backup")
        yield copy
    except apsw.Error as error:
        problem = as_alveus_error(error, CallSubject(str(source)))
        if isinstance(problem, StoreDamaged | NotAStore):
            raise problem from error
        raise
    finally:
        copy.close()


def refuse_closed(folder: Path) -> None:
    """Refuse to change anything where side files could not be removed from *folder* then.

    Raises:
        StoreReadOnly: This user may not.
    """
    if folder.exists() and not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        raise StoreReadOnly(
            f"{folder} cannot be read and written by this user, and files in it have to go; let "
            "it do both, or have the owner of that folder do this"
        )


def drop_side_files(folder: Path) -> None:
    """Remove what was made from the contents of a store, for good."""
    refuse_closed(folder)
    if folder.exists():
        import shutil  # takes long to import, and is needed here alone

        shutil.rmtree(folder)
        sync_folder(folder.parent)
