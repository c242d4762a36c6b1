"""The bundled weights: files of arrays in this package, and their checksums."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from hashlib import sha256
from io import BytesIO
from mmap import ACCESS_READ, mmap
from typing import TYPE_CHECKING
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from alveus.errors import EmbedderFailed

if TYPE_CHECKING:
    from zipfile import ZipInfo

CHECKSUMS: dict[str, dict[str, str]] = {
    "minilm.npz": {
        "words": "ee597476a1d4f160b60968d88bb7b1d91f2a8f9c34d03d48a3ba74a7a4224bc4",
        "words.scale": "d5d9123bd1e245fdf621b290634e679df170f1fc89b40f00dce37dae87622bf6",
        "positions": "a23bdb88668f15e65bf30d9d601b4b77c902d19c8b77cab0c92d1d93f38c1e89",
        "norm": "b8f506e272eb0e0783d733df5b350646e9a7a7d2aa0646480610519bea9ea466",
        "heads": "a94b8feb269da78689f32c572d69ebb2e00a64ca0768dffc6ac589b79dddbbec",
        "heads.in": "f41d597da27a2ac9bf87c6ef0ebc6be1b03ffe3d84e8a36cec4e0b2a454817bd",
        "heads.out": "8aff853fb3aa80e04049d1d9c188635fb5fbb98b90bd0316130d506b5dff75c1",
        "heads.bias": "b99c6187249258a4f6d72d155ee3a39543548929ffd61a45651ec07f4466d6c5",
        "mixed": "d7ce5bac84c94de4dfa60790591d71b707586f69d963bd13f7010eba449d388b",
        "mixed.in": "6e0a801020b3dc2d99cf979a6944b8cbc5cc19b19898c5e2df69717569e4c7ab",
        "mixed.out": "c863e5d94e40bc7edcafbab529b0c0cc57b5dd71cdf02b617cc5c3ee3fe5c42a",
        "mixed.bias": "741b2ca833f69df9b38109c2e36bfff33bfc490f3801e97240948fb1e4305809",
        "wide": "f57c37dbefd81e789f887086f300e69f0ad3771613fab11a4ddc3192906935c0",
        "wide.in": "fc6d2972721d29bfab31e82cb451fa6c7f69b858020e692ea810f22691fb8b26",
        "wide.out": "16ef2550cf1f6042bbc172c7b34c1495bfc68683d64900ef800e3216c77a3ee4",
        "wide.bias": "0deb4fb49a11181c78046400e73607d85ce9b3d5ff29c02832aee2f79ef66a75",
        "narrow": "1e242a146077d3c2d28a76215d22a861403c13de2b06fa14699cc444af7866f7",
        "narrow.in": "0f55df8caa4895ae5efb4685ceaa34f8a814ad91bae14ff4c6a8480ab0e4b598",
        "narrow.out": "98cadfff8988bb5d3aa2d98cd37d8acfca2d5afc7f2a4717bbe7df9894781b65",
        "narrow.bias": "3b6b8ad03dda2a8bcc5cf449126959a7c1c85393be809b7c8ec49ffb10e79759",
        "mixed.norm": "2bc1d385a62e416ee46624a00a79fe4fcb40242a57bdbb426dc531c524b1d489",
        "narrow.norm": "90584657a82cdf5686fb521459d96b679954f638b9ff001d83a792868a489f15",
    },
    "static.npz": {
        "rows": "ae26e9dbe1a7f52bd0fa42d9baddb4ddb6e279b05f56d160d350a7421bd22713",
        "scales": "127588747c91464b2a6bbd87a6ddc4f9a721808b5f06f7f9e122af50bdfa6962",
    },
    "vocabulary.txt": {
        "bytes": "31495c48bc6bc645c9053670ffadf85a30d8e215f6d5aaa9474f4ba4d98e7764",
    },
}
"""SHA-256 of every array of the bundled files, by `checksum`. They are never rewritten: other
numbers make other vectors, which need another name."""


LOCAL_HEADER_BYTES, LENGTHS_AT = 30, 26
"""Of a member of a ZIP archive: the fixed part of its header, and where the lengths of the two
variable parts stand. Source: PKWARE's APPNOTE.TXT, 4.3.7."""

NPY_HEADER_BYTES = 1024
"""More than the header of an array of a weights file has."""


def read_arrays(file: str) -> Mapping[str, NDArray[np.generic]]:
    """Return the arrays of a weights file of this package, by name.

    They are read-only and mapped from the file: processes share them, and unused parts take no
    memory. Their checksums are verified.

    Raises:
        EmbedderFailed: The file is missing or damaged.
    """
    from importlib.resources import as_file, files
    from zipfile import BadZipFile, ZipFile

    try:
        with (
            as_file(files("alveus.embed").joinpath(file)) as path,
            ZipFile(path) as archive,
            path.open("rb") as opened,
        ):
            mapped = mmap(opened.fileno(), 0, access=ACCESS_READ)  # lasts as long as its arrays
            found = archive.infolist()
            return {each.filename.removesuffix(".npy"): _array(mapped, each) for each in found}
    except (OSError, ValueError, struct.error, BadZipFile) as error:
        raise _unreadable(file, error) from error


def _array(mapped: mmap, member: ZipInfo) -> NDArray[np.generic]:
    """Return the array that is stored, not compressed, as a member of a mapped archive."""
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


def _unreadable(file: str, error: Exception) -> EmbedderFailed:
    return EmbedderFailed(f"the weights {file} cannot be read ({error}); install alveus again")


def checksum(array: NDArray[np.generic]) -> str:
    """Return the SHA-256 of an array: of its type, its shape and its numbers."""
    header = f"{array.dtype.str}{array.shape}".encode()
    return sha256(header + np.ascontiguousarray(array).tobytes()).hexdigest()
