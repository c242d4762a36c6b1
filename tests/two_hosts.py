"""Two hosts that share a store, as one store: each call goes to one of them, at random."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any, cast

from alveus.store import Store
from alveus.store.postgres import PostgresStore
from postgres_server import url_for


class TwoHosts:
    """Has each host see what the other did, with whatever it remembers of before."""

    def __init__(self, path: Path | str) -> None:
        url = url_for(path)
        self.hosts = [PostgresStore.open(url, durability="normal") for _ in range(2)]
        self._dice = random.Random(str(path))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._dice.choice(self.hosts), name)

    def close(self) -> None:
        for host in self.hosts:
            host.close()


def open_twice(path: Path | str) -> Store:
    """Open the store that is to *path* what a file there would be on two hosts."""
    return cast("Store", TwoHosts(path))
