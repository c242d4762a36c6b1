"""The bundled weights: files of arrays in this package, and their checksums."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from hashlib import sha256
from io import BytesIO
from mmap import ACCESS_READ, MADV_DONTNEED, mmap
from typing import TYPE_CHECKING
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from alveus.errors import EmbedderFailed
from alveus.values.lazy import lists_of

if TYPE_CHECKING:
    from zipfile import ZipInfo

LOCAL_HEADER_BYTES, LENGTHS_AT = 30, 26
"""Size of the fixed part of the header of a member of a ZIP archive, and the offset in it of the
lengths of the two variable parts. Source: PKWARE's APPNOTE.TXT, 4.3.7."""

NPY_HEADER_BYTES = 1024
"""More bytes than the header of any array in a weights file has."""


def read_arrays(file: str, package: str = "alveus.embed") -> Mapping[str, NDArray[np.generic]]:
    """Return the arrays of a weights file of a package, by name.

    The arrays are read-only and mapped from the file: processes share them, and unused parts take
    no memory. Their checksums are verified.

    Raises:
        EmbedderFailed: The file is missing or damaged.
    """
    from importlib.resources import as_file, files
    from zipfile import BadZipFile, ZipFile

    try:
        with (
            as_file(files(package).joinpath(file)) as path,
            ZipFile(path) as archive,
            path.open("rb") as opened,
        ):
            mapped = mmap(opened.fileno(), 0, access=ACCESS_READ)  # lasts as long as its arrays
            found = archive.infolist()
            arrays = {each.filename.removesuffix(".npy"): _array(mapped, each) for each in found}
            mapped.madvise(MADV_DONTNEED)  # reading for the checksums brought all of it into memory
            return arrays
    except (OSError, ValueError, struct.error, BadZipFile) as error:
        raise _unreadable(file, error, package) from error


def _array(mapped: mmap, member: ZipInfo) -> NDArray[np.generic]:
    """Return the array in *member* of a mapped archive.

    Raises:
        BadZipFile: The member is compressed, or damaged.
    """
    from zipfile import ZIP_STORED, BadZipFile

    from numpy.lib import format as npy

    names = struct.unpack_from("<HH", mapped, member.header_offset + LENGTHS_AT)
    start = member.header_offset + LOCAL_HEADER_BYTES + sum(names)
    stored = memoryview(mapped)[start : start + member.file_size]
    if member.compress_type != ZIP_STORED or crc32(stored) != member.CRC:
        raise BadZipFile(f"{member.filename} is compressed or damaged")
    header = BytesIO(stored[:NPY_HEADER_BYTES])
    npy.read_magic(header)
    shape, _, kind = npy.read_array_header_1_0(header)
    return np.frombuffer(stored, kind, offset=header.tell()).reshape(shape)


def read_lines(file: str) -> list[str]:
    """Return the lines of a text file of this package.

    Raises:
        EmbedderFailed: The file is missing or damaged.
    """
    from importlib.resources import files

    try:
        text = files("alveus.embed").joinpath(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise _unreadable(file, error) from error
    return text.removesuffix("\n").split("\n")


def _unreadable(file: str, error: Exception, package: str = "alveus.embed") -> EmbedderFailed:
    published = package.partition(".")[0].replace("_", "-")
    return EmbedderFailed(f"the weights {file} cannot be read ({error}); install {published} again")


def checksums(file: str) -> dict[str, str]:
    """Return the expected `checksum` of each array of a bundled file, by name."""
    return dict(map(str.split, lists_of(__file__)[file.replace(".", "_")]))


def checksum(array: NDArray[np.generic]) -> str:
    """Return the SHA-256 of an array: of its type, its shape and its numbers."""
    header = f"{array.dtype.str}{array.shape}".encode()
    return sha256(header + np.ascontiguousarray(array).tobytes()).hexdigest()
