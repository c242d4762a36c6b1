"""The texts that the write barrier is measured with: attacks, and harmless texts like them.

A line of ``data/barrier/*.jsonl`` is a text, its kind, and its half: rules are written by looking
at the half "tuning" only. Half of what the barrier is told to stop is "held_back", by a hash of the
text. No key stands in a file: ``{{20:b64}}`` there stands for 20 random characters of base64, the
same ones in each run, so that no scanner of secrets takes the repository for a leak.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
import string
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "data" / "barrier"

LISTS = ("secrets", "secrets_near", "injections", "injections_near")
HALVES = ("tuning", "held_back")

_ALPHABETS = {
    "alnum": string.ascii_letters + string.digits,
    "b32": string.ascii_uppercase + "234567",
    "b64": string.ascii_letters + string.digits + "+/",
    "b64u": string.ascii_letters + string.digits + "-_",
    "base58": "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz",
    "bech": "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L",
    "digits": string.digits,
    "digits1": string.digits,
    "hex": "0123456789abcdef",
    "letters": string.ascii_lowercase.replace("l", ""),
    "lowernum": string.ascii_lowercase + string.digits,
    "upper": string.ascii_uppercase + string.digits,
}

_DRAWN = re.compile(r"\{\{(\d+):(\w+)\}\}")


@dataclass(frozen=True)
class Sample:
    text: str
    kind: str
    half: str


def half_of(line: str) -> str:
    """The half that a text belongs to, as it stands in the file."""
    return HALVES[hashlib.sha256(line.encode()).digest()[0] % 2]


def spelled_out(line: str) -> str:
    """The text that a line stands for."""
    drawn = random.Random(line)

    def draw(found: re.Match[str]) -> str:
        count, alphabet = int(found[1]), _ALPHABETS[found[2]]
        body = "".join(drawn.choices(alphabet, k=count))
        return str(drawn.randint(1, 9)) + body[1:] if found[2] == "digits1" else body

    return _DRAWN.sub(draw, line)


def lines(name: str) -> list[dict[str, str]]:
    """A list as its file has it."""
    content = (FOLDER / f"{name}.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in content.splitlines()]


def samples(name: str, *halves: str) -> list[Sample]:
    """The texts of a list, of the halves asked for, or of both."""
    return [
        Sample(spelled_out(line["text"]), line["kind"], line["half"])
        for line in lines(name)
        if line["half"] in (halves or HALVES)
    ]


def needed() -> dict[str, Any]:
    """Texts that need one entry of a list each, by language; sentences by the name of a list."""
    return tomllib.loads((FOLDER / "needed.toml").read_text(encoding="utf-8"))
