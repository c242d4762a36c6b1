"""What every class of laws starts from: a store to test, and how to end an owner."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fornix.store import Store


class Laws:
    """A group of tests; a backend's test class says how its stores are opened."""

    def open(self, path: Path) -> Store:
        """Open the store at *path*, a file name in an empty folder."""
        raise NotImplementedError

    def kill_owner(self, store: Store, owner: str) -> None:
        """Make *owner*, who may have leases, count as dead from now on."""
        raise NotImplementedError

    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        """Where a test's store lies."""
        return tmp_path / "memory.db"

    @pytest.fixture
    def store(self, path: Path) -> Iterator[Store]:
        """A new store."""
        store = self.open(path)
        yield store
        store.close()
