"""Looks through files for what was forgotten, byte by byte; run as a process of its own.

A process that has an SQLite store open must not open its files besides: closing them again would
drop SQLite's locks. ``python file_scan.py PLACE …`` reads canaries, a line each, from standard
input, and prints those that it finds in any file at or below the places: whole, or their last
bytes; as UTF-8, and as hex or base64 would have them, wherever they begin in what was encoded.
"""

from __future__ import annotations

import base64
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

TAIL = 12
"""Bytes of a canary, from its end, that alone count as found."""


def forms(canary: bytes) -> Iterator[bytes]:
    """Yield the last bytes of every form that a canary may have in a file."""
    yield canary[-TAIL:]
    yield canary.hex().encode()[-TAIL:]
    yield canary.hex().upper().encode()[-TAIL:]
    for shift in range(3):
        padded = b"\0" * shift + canary
        whole = padded[: len(padded) // 3 * 3]  # what comes after it changes the rest
        yield base64.b64encode(whole)[-TAIL:]
        yield base64.urlsafe_b64encode(whole)[-TAIL:]


def files(places: Iterable[Path]) -> Iterator[Path]:
    """Yield all files at or below *places*."""
    for place in places:
        yield from (path for path in sorted(place.rglob("*")) if path.is_file())
        if place.is_file():
            yield place


def found(places: Sequence[Path], canaries: Sequence[bytes]) -> dict[bytes, Path]:
    """Return the canaries that a file holds, and the first such file."""
    owners = {form: canary for canary in canaries for form in forms(canary)}
    seen: dict[bytes, Path] = {}
    for path in files(places):
        data = path.read_bytes()
        for at in range(len(data) - TAIL + 1):
            canary = owners.get(data[at : at + TAIL])
            if canary is not None:
                seen.setdefault(canary, path)
        for canary in canaries:
            if canary in data:
                seen.setdefault(canary, path)
    return seen


def scan(canaries: Sequence[str], *places: Path) -> dict[str, str]:
    """Return what a process of its own finds: canaries, and the names of files."""
    done = subprocess.run(
        [sys.executable, __file__, *map(str, places)],
        input="\n".join(canaries).encode(),
        stdout=subprocess.PIPE,
        check=True,
        timeout=300,
    )
    return dict(line.split("\t") for line in done.stdout.decode().splitlines())


if __name__ == "__main__":
    asked = sys.stdin.buffer.read().split(b"\n")
    for one, where in found([Path(word) for word in sys.argv[1:]], asked).items():
        sys.stdout.write(f"{one.decode()}\t{where.name}\n")
