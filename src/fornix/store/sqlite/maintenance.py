"""Care of a store: what expired, figures, checks, copies."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import apsw

from fornix.errors import NotAStore, NotFound, StoreBusy
from fornix.store import OP_RETENTION_US, SWEEP_AFTER_US, Lease, Scope, StoreStats
from fornix.store.fsync import sync_folder
from fornix.store.sqlite import free_pages, journal, retention
from fornix.store.sqlite.connection import check, connect, first, query
from fornix.store.sqlite.lock_files import file_system
from fornix.store.sqlite.staged_vectors import put_note

CHANGES_KEPT = 200_000
"""Lines of the change log that are kept; a cache that is further behind is built anew."""

OPS_SWEPT = "ops swept"
"""The note that says up to which commit names of ops were let go."""

BACKUP_PAGES = 2_000


def sweep(db: apsw.Connection, *, now: int) -> int:
    """Remove expired nodes, what sets keep no longer, names of old ops and old changes."""
    done = retention.expire(db, now=now - SWEEP_AFTER_US) + retention.purge(db, now=now)
    before = db.total_changes()
    _forget_ops(db, until=journal.commit_at(db, now - OP_RETENTION_US))
    done += db.total_changes() - before
    db.execute("DELETE FROM change WHERE seq <= (SELECT max(seq) FROM change) - ?", (CHANGES_KEPT,))
    return done


def _forget_ops(db: apsw.Connection, *, until: int) -> None:
    """Let go of the names of ops up to a commit; earlier sweeps did those before `OPS_SWEPT`."""
    since = first(db, "SELECT text FROM note WHERE name = ?", OPS_SWEPT)
    if until <= int(since or 0):
        return
    query(
        db,
        "UPDATE journal SET op = NULL, request = NULL WHERE n > ? AND n <= ? AND op IS NOT NULL",
        int(since or 0),
        until,
    )
    put_note(db, OPS_SWEPT, str(until), since)


def stats(db: apsw.Connection, path: Path) -> StoreStats:
    """Return figures of the store."""
    commits = db.execute("SELECT ifnull(max(n), 0) FROM journal").get
    keys = db.execute("SELECT count(*) FROM scope WHERE key != '' AND space != ''").get
    sets, items = db.execute("SELECT count(*), ifnull(sum(items), 0) FROM memory_set").get
    pending, oldest = db.execute(
        "SELECT count(*), min(updated) FROM feature JOIN item ON item.row = feature.row "
        "WHERE vectors IS NULL"
    ).get
    leases = query(
        db,
        "SELECT space, key, owner, epoch FROM lease WHERE owner IS NOT NULL ORDER BY space, key",
    )
    unfinished = dict(
        query(db, "SELECT status, count(*) FROM run WHERE ended IS NULL GROUP BY status")
    )
    return StoreStats(
        commits=commits,
        keys=keys,
        sets=sets,
        items=items,
        item_versions=db.execute("SELECT count(*) FROM item").get,
        nodes=db.execute("SELECT count(*) FROM node WHERE ended IS NULL").get,
        pending=pending,
        oldest_pending=oldest,
        file_bytes=_size(path),
        wal_bytes=_size(Path(f"{path}-wal")),
        runs_waiting=unfinished.get(0, 0),
        runs_parked=unfinished.get(1, 0),
        runs_ended=db.execute("SELECT count(*) FROM run WHERE ended IS NOT NULL").get,
        free_bytes=free_pages.free_bytes(db),
        leases=[Lease(Scope(s, k or None), owner, epoch) for s, k, owner, epoch in leases],
        details={
            "sqlite": apsw.sqlite_lib_version(),
            "schema": db.pragma("user_version"),
            "file_system": file_system(path),
            "versions_to_sweep": retention.overdue(db),
        },
    )


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def damage(db: apsw.Connection) -> str | None:
    """Return the first thing that SQLite finds wrong with the file; None: nothing."""
    try:
        found = [str(line) for (line,) in query(db, "PRAGMA integrity_check")]
    except apsw.CorruptError as error:
        return str(error)
    return None if found == ["ok"] else found[0]


def problems(db: apsw.Connection) -> list[str]:
    """Return what is wrong with the file; empty: nothing."""
    found = [str(row[0]) for row in db.execute("PRAGMA integrity_check") if row[0] != "ok"]
    checks = {
        "items without features": "SELECT count(*) FROM item "
        "WHERE NOT EXISTS (SELECT 1 FROM feature WHERE set_id = item.set_id "
        "AND feature.ended = ifnull(item.ended, 0) AND feature.row = item.row)",
        "features without items": "SELECT count(*) FROM feature WHERE NOT EXISTS "
        "(SELECT 1 FROM item WHERE item.row = feature.row)",
        "items with several live versions": "SELECT count(*) FROM (SELECT 1 FROM item "
        "WHERE ended IS NULL GROUP BY set_id, id HAVING count(*) > 1)",
        "sets whose count is wrong": "SELECT count(*) FROM memory_set WHERE items != "
        "(SELECT count(*) FROM item WHERE set_id = memory_set.id AND ended IS NULL)",
        "runs whose lane is wrong": "SELECT count(*) FROM run WHERE NOT EXISTS "
        "(SELECT 1 FROM lane WHERE lane.id = run.lane AND lane.agent = run.agent "
        "AND run.number < lane.next)",
        "runs that ended in part": "SELECT count(*) FROM run "
        "WHERE (status >= 2) != (ended IS NOT NULL) OR (now IS NULL) != (actions IS NULL)",
        "steps without a run and a commit": "SELECT count(*) FROM step WHERE NOT EXISTS "
        "(SELECT 1 FROM run WHERE run.id = step.id >> 20 AND now IS NOT NULL "
        "AND (ended IS NULL OR sensory IS NULL)) "
        "OR NOT EXISTS (SELECT 1 FROM journal WHERE journal.n = step.n)",
        "durable calls without a run": "SELECT count(*) FROM durable_call WHERE NOT EXISTS "
        "(SELECT 1 FROM run WHERE run.id = durable_call.step >> 20 AND now IS NOT NULL)",
        "outputs without a step": "SELECT count(*) FROM output WHERE NOT EXISTS "
        "(SELECT 1 FROM step WHERE step.id = output.step AND step.n = output.id >> 20)",
        "sets whose size is wrong": "SELECT count(*) FROM memory_set WHERE bytes != "
        "(SELECT ifnull(sum(ifnull(octet_length(value), 0) + ifnull(octet_length(text), 0) "
        "+ octet_length(metadata)), 0) FROM item WHERE set_id = memory_set.id AND ended IS NULL)",
        "sets whose tokens are wrong": "SELECT count(*) FROM memory_set WHERE tokens != "
        "(SELECT ifnull(sum(tokens), 0) FROM item WHERE set_id = memory_set.id "
        "AND ended IS NULL)",
        "items whose tokens are not those of their features": "SELECT count(*) FROM item "
        "JOIN feature ON feature.set_id = item.set_id AND feature.row = item.row "
        "AND feature.ended = ifnull(item.ended, 0) WHERE feature.tokens != item.tokens",
        "links of versions that are not there": "SELECT count(*) FROM link WHERE NOT EXISTS "
        "(SELECT 1 FROM item WHERE item.row = link.row) "
        "OR NOT EXISTS (SELECT 1 FROM item WHERE item.row = link.source)",
        "compactions without a commit or a set": "SELECT count(*) FROM compaction "
        "WHERE NOT EXISTS (SELECT 1 FROM journal WHERE journal.n = compaction.id >> 20) "
        "OR NOT EXISTS (SELECT 1 FROM memory_set WHERE memory_set.id = set_id) "
        "OR undone IS NOT NULL AND NOT EXISTS (SELECT 1 FROM journal WHERE n = undone)",
        "compactions of versions that they did not change": "SELECT count(*) FROM compaction "
        "WHERE EXISTS (SELECT 1 FROM json_each(retired) AS r JOIN item ON item.row = r.value "
        "WHERE item.set_id != compaction.set_id OR item.ended IS NOT compaction.id >> 20) "
        "OR EXISTS (SELECT 1 FROM json_each(added) AS a JOIN item ON item.row = a.value "
        "WHERE item.set_id != compaction.set_id OR item.begun != compaction.id >> 20)",
        "forgotten runs that left something": "SELECT count(*) FROM run WHERE erased IS NOT NULL "
        "AND (event != '' OR error IS NOT NULL OR ended IS NULL OR EXISTS (SELECT 1 FROM step "
        "WHERE step.id BETWEEN run.id << 20 AND (run.id << 20) + 1048575) OR EXISTS (SELECT 1 "
        "FROM durable_call WHERE step BETWEEN run.id << 20 AND (run.id << 20) + 1048575))",
        "forgotten keys that left something": "SELECT count(*) FROM scope WHERE space = '' "
        "AND (EXISTS (SELECT 1 FROM memory_set WHERE memory_set.scope = scope.id) "
        "OR EXISTS (SELECT 1 FROM node WHERE node.scope = scope.id) "
        "OR EXISTS (SELECT 1 FROM lane JOIN run ON run.lane = lane.id "
        "WHERE lane.scope = scope.id AND run.erased IS NULL))",
        "receipts without a commit": "SELECT count(*) FROM receipt WHERE NOT EXISTS "
        "(SELECT 1 FROM journal WHERE journal.n = receipt.n)",
        "nodes whose parent is no object": "SELECT count(*) FROM node AS child "
        "WHERE ended IS NULL AND parent != '' AND NOT EXISTS (SELECT 1 FROM node "
        "WHERE scope = child.scope AND value IS NULL AND ended IS NULL "
        "AND iif(parent = '', name, parent || '.' || name) = child.parent)",
    }
    for what, sql in checks.items():
        count = db.execute(sql).get
        if count:
            found.append(f"{count} {what}")
    return found


def backup(db: apsw.Connection, target: Path) -> None:
    """Copy the store as it is now; the copy appears whole, or not at all."""
    if not target.parent.is_dir():
        raise NotFound(f"{target.parent}: there is no such folder; make it first")
    with _part_of(target) as part:
        copy = apsw.Connection(str(part))
        try:
            with db:  # one snapshot for the whole copy, whatever is written meanwhile
                db.execute("SELECT 1 FROM note").fetchall()
                with copy.backup("main", db, "main") as work:
                    while not work.done:
                        work.step(BACKUP_PAGES)
            copy.execute("PRAGMA journal_mode = DELETE")
        finally:
            copy.close()
        part.replace(target)
    sync_folder(target.parent)


@contextmanager
def _part_of(target: Path) -> Generator[Path]:
    """Give an empty file that is to become *target*; it goes if it does not.

    Whoever writes it holds a lock on it, so that what a kill left is told from what is under way.
    """
    part = target.with_name(f"{target.name}.part")
    descriptor = _locked(part, target)
    try:
        _journal_of(part).unlink(missing_ok=True)
        os.ftruncate(descriptor, 0)
        os.fchmod(descriptor, 0o600)
        yield part
    except BaseException:
        _journal_of(part).unlink(missing_ok=True)
        part.unlink(missing_ok=True)
        raise
    finally:
        os.close(descriptor)


def _locked(part: Path, target: Path) -> int:
    """Return a descriptor of *part*, on which it holds a lock; the file is made if need be."""
    while True:
        descriptor = os.open(part, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if part.exists() and os.path.samestat(os.fstat(descriptor), part.stat()):
                return descriptor
        except BlockingIOError:
            os.close(descriptor)
            raise StoreBusy(
                f"another backup to {target} is under way; wait for it, or choose another path"
            ) from None
        os.close(descriptor)  # it became a whole backup meanwhile, or went


def _journal_of(part: Path) -> Path:
    return Path(f"{part}-journal")


def restore(db: apsw.Connection, source: Path, *, side_files: Path) -> None:
    """Replace the contents of an open store by those of a backup, in one transaction.

    What was made from the old contents is removed before, for good: the change log of a backup
    may have the same lines as theirs, and a kill may come at any moment.
    """
    if not source.exists():
        raise NotFound(f"{source}: there is no backup here")
    if not source.is_file():
        raise NotAStore(source, "is not a file; choose another path")
    copy = connect(source, read_only=True, immutable=not Path(f"{source}-wal").exists())
    try:
        check(copy, source)
        drop_side_files(side_files)
        with db.backup("main", copy, "main") as work:
            while not work.done:
                work.step(BACKUP_PAGES)
    finally:
        copy.close()


def drop_side_files(folder: Path) -> None:
    """Remove what was made from the contents of a store, for good."""
    if folder.exists():
        shutil.rmtree(folder)
        sync_folder(folder.parent)
