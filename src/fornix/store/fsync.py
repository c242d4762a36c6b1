"""Making the names in a folder survive loss of power."""

from __future__ import annotations

import os
from pathlib import Path


def sync_folder(folder: Path) -> None:
    """Have what was made, renamed and removed in a folder survive loss of power.

    A sync of a file keeps its contents; its name is an entry of the folder, and has to be synced
    there.

    Raises:
        OSError: The folder cannot be opened, or not be synced.
    """
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
