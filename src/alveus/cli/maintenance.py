"""The commands that maintain a memory, such as doctor and backup, and that grant access."""

from __future__ import annotations

import os
import platform
import stat
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias, runtime_checkable

import click

from alveus.cli import options, output
from alveus.cli.listing import versions
from alveus.cli.options import argument, option
from alveus.cli.session import Session
from alveus.errors import AlveusError, InvalidInput, NotAStore, NotFound, StoreDamaged, StoreTooOld
from alveus.memory import opening
from alveus.memory.maintenance import SPARE
from alveus.memory.memory import Memory
from alveus.memory.opening import schema_version
from alveus.sets.compaction import executor
from alveus.sets.compaction.executor import due
from alveus.sets.compaction.set_snapshot import living
from alveus.store import SetInfo, Store, StoreStats
from alveus.store.scope import Scope, is_hidden
from alveus.transfer import LAST, migrate
from alveus.values.lazy_dataclass import dataclass
from alveus.values.storable import DEFAULT_SPACE, microseconds, moment
from alveus.values.times import format_time
from alveus.values.urls import without_password

if TYPE_CHECKING:
    from alveus.memory.opening import RoleGrants

TESTED = ("Linux",)
"""Platforms that the tests run on."""

LONG_LOG = 64_000_000
"""Size of the write-ahead log, in bytes, above which doctor assumes that a reader blocks it."""

LITTLE = 1_000_000
"""Free bytes below which doctor reports no free space."""

SKEW_US = 60_000_000
"""How far, in microseconds, a commit may lie in the future before doctor reports it.

The clocks of containers differ, and so do the clocks before and after a boot.
"""

MOST_NAMED = 20
"""Most sets that doctor names one by one."""

ASIDE = "move it away together with its -wal and -shm files"
"""Advice for a file that cannot be opened, before a backup replaces it."""

State: TypeAlias = Literal["ok", "note", "wrong"]


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check of doctor."""

    name: str
    says: str
    state: State = "ok"


@runtime_checkable
class Examined(Protocol):
    """A store that can report damage of its file."""

    def problems(self, *, deep: bool = False) -> list[str]:
        """Return the problems. An empty list means no problem."""
        ...

    def is_repairable(self) -> bool:
        """Return whether a repair is possible. A damaged file is not repairable."""
        ...

    def has_checksums(self) -> bool:
        """Return whether the pages of the file have checksums."""
        ...


@runtime_checkable
class HasHealth(Protocol):
    """A store on a server, which can report the state of the server."""

    def health(self) -> Sequence[tuple[str, str, State]]:
        """Return the checks of the server: a name, the result in words, and its state."""
        ...


@options.command("doctor")
def doctor_command(
    session: Session,
    *,
    repair: bool = option("--repair", "First rebuild what can be derived from the rest."),
    deep: bool = option("--deep", "Also read every page and every text of the file."),
) -> None:
    """Check the memory; say what is wrong and what to do.

    Only reads, unless --repair is given: then search features, vectors, counts of sets and the
    files beside the memory are rebuilt where they are missing or wrong, and a file without
    checksums gets them; no other program may have the memory open. Items, exact memory, runs and
    history are never changed, and a damaged file is not changed at all. With --deep every page is
    compared with its checksum, and every text is read. Exit code 1 if something is wrong.
    With --json: {"ok": …, "findings": [{"name": …, "says": …, "state": "ok" | "note" | "wrong"}]}.

    Example: alveus doctor --deep
    """
    repaired = list(_repaired(session)) if repair else []
    findings = [*repaired, *_surroundings(), *_examined(session, deep=deep)]
    ok = not any(finding.state == "wrong" for finding in findings)
    if session.json:
        listed = [output.attributes(finding, "name says state") for finding in findings]
        output.document({"ok": ok, "findings": listed})
    else:
        for finding in findings:
            mark = {"ok": "✓", "note": "•", "wrong": "✗"}[finding.state]
            click.echo(f"{mark} {finding.name.ljust(12)} {output.plain(finding.says)}")
    if not ok:
        click.get_current_context().exit(1)


def _repaired(session: Session) -> Iterator[Finding]:
    """Rebuild derived data. Yield the repairs."""
    file = session.existing_file()
    with session.progress("repairing") as advance:
        session.name_file("using")
        done = Memory.repair(file, progress=advance)
    for what in done or ["nothing had to be"]:
        yield Finding("repair", what)
    with session.open() as memory:
        session.settle(memory)


def _surroundings() -> Iterator[Finding]:
    known = versions()
    stack = ", ".join(f"{name} {known[name]}" for name in ("Python", "SQLite", "apsw", "numpy"))
    yield Finding("versions", f"alveus {known['alveus']}, schema {known['schema']}, {stack}")
    tested = platform.system() in TESTED
    says = known["platform"] + ("" if tested else f"; tested on {', '.join(TESTED)} only")
    yield Finding("platform", says, "ok" if tested else "note")


def _examined(session: Session, *, deep: bool) -> Iterator[Finding]:
    file = session.file if session.server is None else None
    try:
        with session.open(mode="ro") as memory:
            yield Finding("server" if file is None else "file", memory.store.location)
            if isinstance(memory.store, HasHealth):
                yield from (Finding(*check) for check in memory.store.health())
            for findings in (_contents(memory), _clock(memory), _integrity(memory, deep=deep)):
                try:
                    yield from findings
                except StoreDamaged as error:  # the other checks may still work
                    yield Finding("memory", str(error), "wrong")
    except AlveusError as error:
        yield _unopened(error) if file else Finding("memory", str(error), "wrong")
        if isinstance(error, NotAStore | NotFound | InvalidInput):
            return
    if file is not None:
        yield from _access(file)


def _unopened(error: AlveusError) -> Finding:
    """Return the finding for an error of opening or reading a file, with the remedy."""
    says = str(error)
    if isinstance(error, NotAStore):
        back = f"if this was a memory, {ASIDE}, then bring it back from a backup"
        says = f"{says}; name another file with --db; {back}: alveus restore BACKUP"
    elif isinstance(error, StoreDamaged):
        says = f"{says}; to restore one, first {ASIDE}"
    return Finding(
        "file" if isinstance(error, NotFound | InvalidInput) else "memory", says, "wrong"
    )


def _noted(name: str, says: str, remedy: str = "") -> Finding:
    """Return a finding. With a remedy, the finding is a note."""
    return Finding(name, f"{says}; {remedy}", "note") if remedy else Finding(name, says)


def _contents(memory: Memory) -> Iterator[Finding]:
    found = memory.stats()
    store = found.store
    held = f"{store.nodes:,} values and objects of exact memory"
    items, keys = output.plural(store.items, "item"), output.plural(store.keys, "key")
    yield Finding("contents", f"{items}, {held}, {keys}")
    yield _noted(
        "size",
        f"{output.size(store.file_bytes)}, write-ahead log {output.size(store.wal_bytes)}",
        "a call that reads an older state may hold it up; end it, and the next commits shorten it"
        if store.wal_bytes > LONG_LOG
        else "",
    )
    yield _room(store)
    yield Finding("embedder", found.embedder)
    waits = f"waiting for vectors: {output.plural(found.pending, 'item')}"
    yield _noted(
        "embedding",
        waits if found.pending else "nothing waits",
        "words find what waits" if found.pending else "",
    )
    yield _noted(
        "runs",
        f"{store.runs_waiting:,} wait, {store.runs_parked:,} are parked",
        "look at them: alveus runs list --status parked" if store.runs_parked else "",
    )
    left = sum(receipt.state == "pending" for receipt in memory.receipts())
    if left:
        pending = f"{left:,} receipts are pending: it may be in the files still"
        yield _noted("forgotten", pending, "run alveus scrub")
    yield from _compaction(memory)
    owners = ", ".join(f"{lease.scope.key} ({lease.owner})" for lease in found.leases)
    yield Finding("leases", owners or "no key is being run")
    yield _schema(store, known=schema_version() if isinstance(memory.store, Examined) else 0)
    yield Finding("file system", str(store.details.get("file_system") or "unknown"))


def _schema(store: StoreStats, *, known: int) -> Finding:
    """Return the finding about the schema. An older schema of a file is a note."""
    found = store.details.get("schema", "unknown")
    if not isinstance(found, int) or found >= known:
        return Finding("schema", str(found))
    upgrade = (
        f"{found}, of an earlier alveus. Opening the memory to write brings it to schema {known}, "
        f"and an alveus that knows only schema {found} cannot open it then. Take a backup before "
        "(alveus backup); alveus upgrade does it at once"
    )
    return Finding("schema", upgrade, "note")


def _room(store: StoreStats) -> Finding:
    overdue = store.details.get("versions_to_sweep", 0)
    says = f"{output.size(store.free_bytes)} of {output.size(store.file_bytes)} are free"
    if overdue:
        says += f", and {overdue:,} versions of items are kept no longer"
    much = store.free_bytes > max(LITTLE, SPARE * store.file_bytes)
    remedy = "alveus shrink gives it back to the disk" if much or overdue else ""
    return _noted("room", says, remedy)


def _compaction(memory: Memory) -> Iterator[Finding]:
    """Yield sets whose compaction failed, and overflowing sets without a compactor."""
    store, now = memory.store, microseconds(datetime.now(UTC))
    failed = executor.failures(store)
    findings, overflowing = list[Finding](), list[str]()
    seen = executor.is_seen(store, now)
    for space in store.spaces():
        for info in _shown_sets(store, space):
            name = f"set {info.ref.name!r} of key {info.ref.scope.key!r}"
            kind, tries = failed.pop(info.number, ("", 0))
            left = living(store, info, now)
            if tries and due(left):
                says = f"{name} could not be compacted, {tries} times in a row: {kind}; see the log"
                findings.append(Finding("compaction", says, "wrong"))
            external = info.definition.execution == "external"
            if external and not seen and due(left, executor.OVERFLOW):
                overflowing.append(name)
    for name in overflowing[:MOST_NAMED]:
        says = "holds more than half too much, and no compactor was seen lately"
        remedy = "start one: alveus compact --watch"
        findings.append(Finding("compaction", f"{name} {says}; {remedy}", "note"))
    yield from findings or [Finding("compaction", "no set waits for one")]


def _shown_sets(store: Store, space: str) -> Iterator[SetInfo]:
    keys = output.paged(lambda after, limit: store.keys(space, after=after, limit=limit), str)
    for key in keys:
        yield from (i for i in store.set_infos(Scope(space, key)) if not is_hidden(i.ref))


def _clock(memory: Memory) -> Iterator[Finding]:
    """Yield findings about commits in the future and a clock that is ahead."""
    store, now = memory.store, microseconds(datetime.now(UTC))
    last, known = store.commit_at(LAST), store.commit_at(now + SKEW_US)
    if last > known:
        latest = format_time(moment(store.time_of_commit(last)))
        yield Finding(
            "clock",
            f"{last - known:,} commits lie in the future, the last at {latest}: a clock ran ahead "
            "then, or this one is behind. Set the clock right; if it is, the next commits have "
            "the right time again, and nothing else needs to be done",
            "note",
        )
    else:
        yield Finding("clock", "no commit lies in the future")
    sure = memory.engine.clock.corroborated(now)
    if now > sure:
        yield Finding(
            "clock",
            f"the clock is ahead of {format_time(moment(sure))}, up to which the time of this "
            "store is corroborated: the host was off, or the clock is wrong. Until the store "
            "has been in use for a day, nothing is let go that only this clock takes for old",
            "note",
        )


def _integrity(memory: Memory, *, deep: bool) -> Iterator[Finding]:
    store = memory.store
    if not isinstance(store, Examined):
        return
    if store.has_checksums():
        yield Finding("checksums", "every page has one")
    else:
        says = "none: the file was made where apsw keeps none; alveus doctor --repair adds them"
        yield Finding("checksums", says, "note")
    problems = store.problems(deep=deep)
    mend = "restore a backup: alveus restore BACKUP"
    if problems and store.is_repairable():
        mend = f"alveus doctor --repair may mend it; else {mend}"
    for problem in problems:
        yield Finding("integrity", f"{problem}; {mend}", "wrong")
    if not problems:
        yield Finding("integrity", "every page and count is as it should be")


def _access(file: Path) -> Iterator[Finding]:
    mode = stat.S_IMODE(file.stat().st_mode)
    others = f"others may look at it: chmod 600 {file}" if mode & 0o077 else ""
    yield _noted("permissions", f"{mode:04o}", others)
    if not os.access(file, os.W_OK) or not os.access(file.absolute().parent, os.W_OK):
        yield Finding("writing", "the file or its folder cannot be written by you", "note")
    folder = Path(f"{file}.alveus")
    held = sum(entry.stat().st_size for entry in folder.rglob("*") if entry.is_file())
    yield Finding("cache", f"{folder}: {output.size(held)}" if folder.is_dir() else "none yet")
    for part in sorted(file.absolute().parent.glob("*.part")):
        says = "is of a backup or an export that is under way, or that broke off,"
        left = "and may hold what was forgotten since; if no program writes it now, remove it"
        yield Finding("left over", f"{part.name} {says} {left}", "note")


@options.command("shrink")
def shrink_command(session: Session) -> None:
    """Give free space in the file back to the disk.

    First removes versions that are no longer kept. Works in short steps: others continue reading
    and writing, and it may be interrupted at any time. With --json: {"freed": bytes, "file_bytes":
    …}.

    Example: alveus shrink
    """
    with session.open() as memory:
        free = memory.stats().store.free_bytes
        with session.progress("giving back", total=free or None) as advance:
            freed = memory.shrink(progress=advance)
        left = memory.stats().store.file_bytes
    says = f"{output.size(freed)} given back; the file has {output.size(left)}"
    session.done(says, {"freed": freed, "file_bytes": left})


@options.command("upgrade")
def upgrade_command(session: Session) -> None:
    """Bring the memory to the schema that this alveus needs.

    Opening a memory to write does the same. On PostgreSQL only the user that owns the tables may do
    it. Until then, other users are refused. Older programs continue to work if the change allows
    it. With --json: {"schema": …}.

    Example: alveus upgrade
    """
    with session.open() as memory:
        schema = memory.stats().store.details.get("schema")
    session.done(f"the memory has schema {schema}", {"schema": schema})


@options.command("backup")
def backup_command(session: Session, *, target: str = argument(type=options.FileName())) -> None:
    """Write a copy of the memory to a file.

    TARGET must not exist. It appears when it is complete, and is a complete memory, with all
    history. Others may write meanwhile. With --json: {"file": …, "bytes": …}.

    Example: alveus backup monday.db
    """
    with session.open(mode="ro") as memory, session.progress("copying"):
        if not Path(target).absolute().parent.is_dir():
            raise InvalidInput(f"there is no folder {Path(target).parent}; create it first")
        memory.backup(target)
    size = Path(target).stat().st_size
    session.done(f"{output.size(size)} written to {target}", {"file": target, "bytes": size})


@options.command("restore")
def restore_command(
    session: Session,
    *,
    backup_file: str = argument("BACKUP", type=options.FileName()),
    yes: bool = options.YES,
) -> None:
    """Replace the memory by a backup.

    Everything that was added since the backup is lost. No other program may have the memory open.
    A memory that does not exist is made. With --json: {"file": …, "items": …}.

    Example: alveus restore monday.db
    """
    file = session.file
    if not Path(backup_file).is_file():
        raise NotFound(f"there is no backup {backup_file}; pass the path of an existing file")
    if file.exists() and os.path.realpath(file) == os.path.realpath(backup_file):
        raise InvalidInput(f"{file} is the memory itself; pass the path of a backup")
    kept = _items_of(backup_file)
    existed = file.exists()
    if existed:
        holding = "" if kept is None else f", which has {kept:,} items"
        session.confirm(f"Replace {file} by {backup_file}{holding}?", yes=yes)
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with session.progress("restoring"):
        try:
            Memory.restore(file, backup_file)
        except (NotAStore, StoreDamaged) as error:
            if os.path.realpath(error.path or file) == os.path.realpath(file):
                error.add_note(f"{ASIDE}, then restore again")
            raise
    session.name_file("using" if existed else "made")
    what = "what is in" if kept is None else f"the {kept:,} items of"
    says = f"{file} now holds {what} {backup_file}"
    session.done(says, {"file": str(file), "items": kept})


def _items_of(backup_file: str) -> int | None:
    """Return the number of items in a backup, or None if an older alveus did not count them."""
    with Memory.open(backup_file, mode="ro") as memory:
        try:
            return memory.stats().store.items
        except StoreTooOld:
            return None


@options.command("migrate")
def migrate_command(
    session: Session,
    *,
    source: str = argument("SRC", type=options.FileName()),
    target: str = argument("DST", type=options.FileName()),
) -> None:
    """Copy a memory, with its history, into an empty one.

    SRC and DST are files or URLs of PostgreSQL. All spaces and knowledge are copied; numbers of
    commits, versions, times, runs and receipts stay what they are. SRC is not changed; stop its
    programs first, because their later writes are not copied. At the end both are compared, row by
    row. If the command is interrupted, repeat it: it continues where it was, and copies nothing
    twice. With --json: {"source": …, "target": …, "commits": …, "rows": …, "checksums": …}.

    Example: alveus migrate alveus.db postgresql://db.example.com/memories
    """
    if session.space != DEFAULT_SPACE:
        raise click.UsageError(
            "migrate copies all spaces of a memory; leave out --space, or use alveus export and "
            "import for one space"
        )
    with session.progress("copying and comparing") as advance:
        result = migrate(source, target, progress=advance)
    old, new = without_password(source), without_password(target)
    session.done(
        f"{new} holds what {old} does: {result.commits:,} commits, "
        f"{sum(result.rows.values()):,} rows, the same on both sides",
        {"source": old, "target": new} | output.attributes(result, "commits rows checksums"),
    )


@options.command("reindex")
def reindex_command(
    session: Session,
    *,
    knowledge: str | None = options.knowledge_option(
        "The knowledge of the space.  [default: the space's own]"
    ),
) -> None:
    """Change the embedder of the space.

    Embeds every text with the new embedder; searches use the old vectors until that is complete.
    If the command is interrupted, repeat it: it continues where it was.
    With --json: {"embedder": …, "embedded": …}.

    Example: alveus reindex --embedder static
    """
    if session.embedder is None:
        raise click.UsageError(
            "a new embedder is needed: --embedder minilm, multilingual, static or words"
        )
    file = session.existing_file()
    session.name_file("using")
    last = 0
    with session.progress("embedding") as advance:

        def tell(done: int, total: int) -> None:
            nonlocal last
            advance(done - last, total)
            last = done

        count = Memory.reindex(
            file, embedder=session.embedder, space=session.space, knowledge=knowledge, progress=tell
        )
    says = f"{output.plural(count, 'text')} embedded by {session.embedder}"
    session.done(says, {"embedder": session.embedder, "embedded": count})


# --- users of PostgreSQL ----------------------------------------------------------------------

_KNOWLEDGE = options.knowledge_option(
    "This knowledge alone, instead of the space with the knowledge of its name."
)


@options.command("grant")
def grant_command(
    session: Session, *, role: str = argument(), knowledge: str | None = _KNOWLEDGE
) -> None:
    """Let a user of PostgreSQL use a space, or a knowledge.

    Only the owner of the tables may grant. ROLE can then do all that a memory does, but see and
    change nothing of other spaces, whatever SQL it sends. Prints all that ROLE may use now.
    With --json: {"role": …, "spaces": […], "knowledge": […]}.

    Example: alveus grant ada --space travel
    """
    _change_grants(session, opening.grant, role, knowledge)


@options.command("revoke")
def revoke_command(
    session: Session, *, role: str = argument(), knowledge: str | None = _KNOWLEDGE
) -> None:
    """Take back the rights that grant gave.

    Memories that ROLE has open find nothing there any longer, and cannot write there. Prints all
    that ROLE may still use. With --json: as grant.

    Example: alveus revoke ada --space travel
    """
    _change_grants(session, opening.revoke, role, knowledge)


@options.command("grants")
def grants_command(session: Session) -> None:
    """List which users of PostgreSQL may use which spaces.

    The owner of the tables may use all, and is not listed. With --json a role per line, as grant
    prints it.

    Example: alveus grants
    """
    session.listing(
        ("role", "spaces", "knowledge"),
        opening.grants(_url(session)),
        lambda each: (each.role, ", ".join(each.spaces), ", ".join(each.knowledge)),
        _grant_fields,
    )


def _url(session: Session) -> str:
    """Return the URL of the server, or else the file, which the call of the caller refuses."""
    return session.server or str(session.file)


def _change_grants(
    session: Session, change: Callable[..., RoleGrants], role: str, knowledge: str | None
) -> None:
    found = change(_url(session), role, space=session.space, knowledge=knowledge)
    spaces, known = ", ".join(found.spaces) or "none", ", ".join(found.knowledge) or "none"
    says = f"{found.role} may use spaces: {spaces}; knowledge: {known}"
    session.done(says, _grant_fields(found))


def _grant_fields(found: RoleGrants) -> dict[str, output.Json]:
    return output.attributes(found, "role spaces knowledge")
