"""A real PgBouncer before a PostgreSQL server."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from types import TracebackType
from typing import Self

import psycopg
from psycopg.conninfo import conninfo_to_dict

from waiting import wait_until

PROGRAM = shutil.which("pgbouncer", path=f"{os.environ['PATH']}{os.pathsep}/usr/sbin")


class Pooler:
    """Gives each transaction the connection to the server that was idle for longest.

    Args:
        server: The URL of its database.
        mode: When a connection is given to another client: after a "session", or a "transaction".
        size: Connections to the server.
    """

    def __init__(self, server: str, mode: str = "transaction", *, size: int) -> None:
        assert PROGRAM, "there is no PgBouncer; make .pooler installs it"
        self._folder = Path(tempfile.mkdtemp(prefix="alveus-pooler-"))
        behind = conninfo_to_dict(server)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]
        settings = [
            "[databases]",
            "tests = host={host} port={port} dbname={dbname} user={user}".format(
                **{"port": 5432, **behind}
            ),
            "[pgbouncer]",
            f"pool_mode = {mode}",
            f"default_pool_size = {size}",
            "server_round_robin = 1",
            "auth_type = any",
            "listen_addr = 127.0.0.1",
            f"listen_port = {self._port}",
            "unix_socket_dir =",
            f"logfile = {self._folder / 'log'}",
        ]
        (self._folder / "settings").write_text("\n".join(settings))
        user = None
        if os.getuid() == 0:  # PgBouncer refuses to run as root
            user = "nobody"
            shutil.chown(self._folder, user)
        command = [PROGRAM, "--quiet", str(self._folder / "settings")]
        self._process = subprocess.Popen(command, user=user, cwd="/", stderr=subprocess.DEVNULL)
        wait_until(self._answers, "the pooler did not come up")

    def _answers(self) -> bool:
        with suppress(psycopg.OperationalError):
            psycopg.connect(self.url(""), connect_timeout=5).close()
            return True
        return False

    def url(self, path: Path | str) -> str:
        """The URL of a store that is to *path* what a file there would be."""
        schema = "t_" + blake2b(str(path).encode(), digest_size=8).hexdigest() if path else ""
        url = f"postgresql://postgres@127.0.0.1:{self._port}/tests"
        return f"{url}?schema={schema}" if schema else url

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _type: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        self.remove()

    def remove(self) -> None:
        """End it, and remove what it left."""
        self._process.kill()
        self._process.wait()
        shutil.rmtree(self._folder)
