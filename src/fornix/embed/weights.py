"""The bundled weights: files of arrays in this package, and what they must hold."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from importlib.resources import as_file, files
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from fornix.errors import EmbedderFailed

CHECKSUMS: dict[str, dict[str, str]] = {}


def read_arrays(file: str) -> Mapping[str, NDArray[np.generic]]:
    """Return the arrays of a weights file of this package, by name.

    Raises:
        EmbedderFailed: The file is missing or damaged.
    """
    try:
        with (
            as_file(files("fornix.embed").joinpath(file)) as path,
            np.load(path, allow_pickle=False) as arrays,
        ):
            return {name: arrays[name] for name in arrays.files}
    except (OSError, ValueError, KeyError, EOFError, BadZipFile) as error:
        raise EmbedderFailed(
            f"the weights {file} cannot be read ({error}); install fornix again"
        ) from error


def checksum(array: NDArray[np.generic]) -> str:
    """Return the SHA-256 of an array: of its type, its shape and its numbers."""
    header = f"{array.dtype.str}{array.shape}".encode()
    return sha256(header + np.ascontiguousarray(array).tobytes()).hexdigest()
