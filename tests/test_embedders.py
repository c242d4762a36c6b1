"""Embedders: what the bundled ones promise, what is asked of others, and vectors as bytes."""

from __future__ import annotations

import json
import math
import stat
import subprocess
import sys
import threading
import time
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from alveus.embed import (
    BUNDLED,
    Embedder,
    dequantise,
    embed_windows,
    encoder,
    float8,
    minilm_onnx,
    open_embedder,
    pack_vector,
    quantise,
    unpack_vector,
    wordpiece,
)
from alveus.embed.minilm import MiniLm
from alveus.embed.static import Static
from alveus.embed.vectors import quantise_each, unit
from alveus.embed.weights import checksum, checksums, read_arrays, read_lines
from alveus.embed.wordpiece import MOST_WINDOWS, READ, STRIDE, window_starts
from alveus.errors import EmbedderFailed, EmbedderMissing, InvalidInput
from alveus.testing import EmbedderContract
from scale import COUNTS

DATA = Path(__file__).parent / "data" / "embedders"
"""Texts of our own, with their pieces and vectors; `tools/make_weights.py` writes them."""

BUNDLED_HERE = ["minilm", "static", "words"]
WITH_MEANING = ["minilm", "static"]
ANY_TEXT = st.text(st.characters(exclude_categories=()))
"""Every `str` that Python can hold, lone surrogates included."""

IMPORT = """
import sys
opened = []
sys.addaudithook(lambda event, found: event == "open" and opened.append(str(found[0])))
import alveus.embed
alveus.embed.open_embedder("minilm"), alveus.embed.open_embedder("static")
print([path for path in opened if path.endswith((".npz", "vocabulary.txt"))])
"""


def sentences():
    """Return the thousand texts that have a reference vector."""
    return (DATA / "sentences.txt").read_text(encoding="utf-8").splitlines()


def cosines(left, right):
    """Return the cosine of each row of one array to that of the other."""
    return np.einsum("ij,ij->i", unit(left), unit(right))


def closest(embedder, question, texts):
    """Return which of *texts* an embedder finds nearest to a question."""
    rows = embedder.embed([question, *texts])
    return texts[int(np.argmax(rows[1:] @ rows[0]))]


# --- the bundled embedders --------------------------------------------------------------------


class TestMinilm(EmbedderContract):
    def open(self):
        return open_embedder("minilm")


class TestStatic(EmbedderContract):
    def open(self):
        return open_embedder("static")


class TestWords(EmbedderContract):
    def open(self):
        return open_embedder("words")


@pytest.mark.parametrize(
    ("name", "dimensions", "instant"),
    [("minilm", 384, False), ("static", 256, True), ("words", 0, True)],
)
def test_a_bundled_embedder_says_what_it_is(name, dimensions, instant):
    """Name, dimensions and instant identify it; its numbers are float32."""
    embedder = open_embedder(name)
    assert isinstance(embedder, Embedder)
    assert (embedder.name, embedder.dimensions, embedder.instant) == (name, dimensions, instant)
    assert embedder.embed(["A window seat, please."]).dtype == np.float32
    assert embedder.embed([]).shape == (0, dimensions)


@pytest.mark.parametrize("name", WITH_MEANING)
def test_an_english_model_says_that_it_reads_english_alone(name):
    """A search can then leave its part out for other languages."""
    assert open_embedder(name).languages == {"en"}  # pyright: ignore[reportAttributeAccessIssue] - optional


@pytest.mark.parametrize("name", WITH_MEANING)
def test_rows_have_length_one(name):
    """A row is a direction, so a product of two is their cosine."""
    rows = open_embedder(name).embed(sentences()[::20])
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-5)


@pytest.mark.parametrize("name", WITH_MEANING)
@pytest.mark.parametrize("text", ["", " \n\t", "\x00", "🦊🎉", "ꙮ" * 200])
def test_a_text_without_a_known_piece_has_no_direction(name, text):
    """Such texts would all look alike to the model; a zero row is like nothing instead."""
    embedder = open_embedder(name)
    assert not embedder.embed([text, "a seat"])[0].any()
    (windows, _) = embed_windows(embedder, [text, "a seat"])
    assert windows.shape == (1, embedder.dimensions)
    assert not windows.any()


@pytest.mark.parametrize("name", WITH_MEANING)
def test_meaning_is_found_without_a_shared_word(name):
    """The point of an embedder: nearness in meaning, whatever the words."""
    texts = ["She purchased a new automobile.", "The soup needs salt.", "He plays the violin."]
    assert closest(open_embedder(name), "buying cars", texts) == texts[0]


def test_minilm_is_the_published_model():
    """Int8 weights cost at most 0.001 of cosine on average, 0.002 on any of a thousand texts.

    The everyday run looks at some of them.

    The reference is the float weights in float64, by code that shares nothing with ours.
    """
    with np.load(DATA / "vectors.npz", allow_pickle=False) as file:
        reference = file["vectors"].astype(np.float32)
    assert len(reference) == len(sentences()) == 1000
    some = slice(None, None, 1000 // COUNTS.embedded)
    found = cosines(open_embedder("minilm").embed(sentences()[some]), reference[some])
    assert len(found) >= COUNTS.embedded
    assert found.mean() >= 0.999
    assert found.min() >= 0.998


@pytest.mark.parametrize("name", WITH_MEANING)
def test_company_does_not_change_a_vector(name):
    """The same text has the same row, alone or in a batch: to 1e-5, and to 1e-4 in bytes."""
    embedder = open_embedder(name)
    texts = [*sentences()[::100], "", "x", *sentences()[-2:]]
    together = embedder.embed(texts)
    alone = np.concatenate([embedder.embed([text]) for text in texts])
    np.testing.assert_allclose(together, alone, atol=1e-5)
    kept = [dequantise(quantise(rows), embedder.dimensions) for rows in (together, alone)]
    known = alone.any(axis=1)
    assert (cosines(*(rows[known].astype(np.float32) for rows in kept)) >= 1 - 1e-4).all()


@pytest.mark.parametrize("count", [1, 2, 8, 9, 31, 32, 33, 100])
@pytest.mark.parametrize("small", [True, False])
def test_few_rows_are_multiplied_like_many(monkeypatch, count, small):
    """A product that is cut into small ones, where that is quicker, is the same product.

    The second one, for which the parts are kept, is the same to the last bit.
    """
    monkeypatch.setattr(encoder, "has_small_products", lambda: small)
    dice = np.random.default_rng(count)
    matrix, bias, rows = (
        dice.standard_normal(shape, dtype=np.float32) for shape in ((40, 96), 96, (count, 40))
    )
    dense = encoder.Dense(matrix, bias)
    first = dense(rows)
    np.testing.assert_allclose(first, rows @ matrix + bias, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(dense(rows), first)


def test_strong_attention_does_not_overflow():
    """The exponential of a score of thousands is infinite; only differences of scores count."""
    heads = np.full((4, 3 * 384), 100, dtype=np.float32)
    seen = np.zeros((4, 384), dtype=np.float32)
    encoder._attend(heads, seen, 2)
    np.testing.assert_allclose(seen, 100)


def test_gelu_is_the_exact_one():
    """Twice x times the normal distribution at x, to 7e-6, for numbers of any size."""
    numbers = np.concatenate([np.linspace(-9, 9, 2001), [-1e4, -100, 0, 100, 1e4]])
    exact = [2 * x * (1 + math.erf(x / math.sqrt(2))) / 2 for x in numbers]
    rows = np.repeat(numbers.astype(np.float32)[:, None], 3, axis=1)
    np.testing.assert_allclose(encoder.gelu_doubled(rows)[:, 2], exact, rtol=1e-6, atol=7e-6)


def test_static_knows_no_order():
    """A text's vector is the direction of the sum of its pieces."""
    rows = open_embedder("static").embed(["the dog bit the man", "The man bit the DOG"])
    np.testing.assert_allclose(rows[0], rows[1], atol=1e-6)


def test_static_is_instant():
    """It costs a small part of what a model of layers does, so that a commit can wait for it."""
    texts = [text for text in sentences() if 25 <= len(text.split()) <= 40][:5]
    assert len(texts) == 5
    assert 10 * least_spent(Static(), texts) < least_spent(MiniLm(), texts)


def least_spent(embedder, texts):
    """Return the processor time of the quickest of all texts, each embedded alone."""
    spent = []
    for text in texts:
        start = time.process_time()  # noqa: TID251 - two are compared on one machine, beside its load
        embedder.embed([text])
        spent.append(time.process_time() - start)  # noqa: TID251 - the same
    return min(spent)


def test_words_of_a_text_have_vectors():
    """`static` says what each word means: synonyms are near, unknown words are nothing."""
    static = open_embedder("static")
    assert isinstance(static, Static)
    words, rows = static.word_vectors("Zoë's chairs, seats: 🦊 bananas")
    assert words == ["zoe", "'", "s", "chairs", ",", "seats", ":", "🦊", "bananas"]
    assert rows.shape == (9, 256)
    lengths = np.linalg.norm(rows, axis=1)
    np.testing.assert_allclose(lengths[words.index("seats")], 1, atol=1e-6)
    assert lengths[words.index("🦊")] == 0
    seats = rows @ rows[words.index("seats")]
    assert seats[words.index("chairs")] > seats[words.index("bananas")] + 0.2
    assert static.word_vectors(" ")[0] == []
    assert static.word_vectors("")[1].shape == (0, 256)


def test_the_vector_of_a_word_is_that_of_the_text_that_it_is():
    """`word_vectors` and `embed` read the same table, for words of several pieces too."""
    static = open_embedder("static")
    assert isinstance(static, Static)
    _, rows = static.word_vectors("cellos unfathomably 1984")
    np.testing.assert_allclose(rows, static.embed(["cellos", "unfathomably", "1984"]), atol=1e-6)


# --- long texts -------------------------------------------------------------------------------


@given(st.integers(0, 40_000))
def test_windows_cover_a_text(pieces):
    """From the first piece to the last, 1 to 32 windows, without a gap up to 8,128 pieces."""
    starts = window_starts(pieces)
    assert starts[0] == 0
    assert starts[-1] == max(0, pieces - READ)
    assert 1 <= len(starts) <= MOST_WINDOWS
    steps = np.diff(starts)
    assert (steps > 0).all()
    if pieces <= READ + STRIDE * (MOST_WINDOWS - 1):
        assert (steps <= STRIDE).all()
    if pieces <= READ * MOST_WINDOWS:
        assert (steps <= READ).all()


def test_a_long_text_has_a_row_for_each_window():
    """Each window is embedded like a text of its own; what stands far back is not lost."""
    words = ["seat"] * READ + ["violin"] * READ
    (rows, short) = embed_windows(open_embedder("minilm"), [" ".join(words), "a seat"])
    starts = window_starts(len(words))
    windows = [" ".join(words[start : start + READ]) for start in starts]
    np.testing.assert_allclose(rows, open_embedder("minilm").embed(windows), atol=1e-5)
    first = open_embedder("minilm").embed([" ".join(words)])
    np.testing.assert_allclose(rows[:1], first, atol=1e-5)
    assert short.shape == (1, 384)


def test_a_very_long_text_has_32_windows():
    """Beyond that they are spread evenly, up to the end."""
    text = "🦊 " * 9000 + "violin " * READ  # windows of foxes only cost nothing
    (rows,) = embed_windows(open_embedder("minilm"), [text])
    assert rows.shape == (32, 384)
    violin = open_embedder("minilm").embed(["violin " * READ])
    np.testing.assert_allclose(rows[-1:], violin, atol=1e-5)


def test_no_texts_have_no_windows():
    """Nothing in, nothing out."""
    assert [embed_windows(open_embedder(name), []) for name in BUNDLED_HERE] == [[], [], []]


# --- opening ----------------------------------------------------------------------------------


def test_nothing_is_read_before_it_is_needed():
    """Importing and opening read no weights and no vocabulary."""
    command = [sys.executable, "-c", IMPORT]
    answer = subprocess.run(command, check=True, capture_output=True, text=True)
    assert answer.stdout.strip() == "[]"


def test_an_embedder_is_there_once():
    """Its weights are large, so a process has them once."""
    assert all(open_embedder(name) is open_embedder(name) for name in BUNDLED_HERE)


@pytest.mark.parametrize("make", [MiniLm, Static])
def test_threads_meet_at_the_first_use_of_an_embedder(make):
    """All get what one alone would get."""
    embedder, texts, count = make(), sentences()[::100], 6
    together = threading.Barrier(count)
    found = {}

    def embed(at):
        together.wait()
        found[at] = embedder.embed(texts[at : at + 4])

    threads = [threading.Thread(target=embed, args=(at,)) for at in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    alone = make()
    for at in range(count):
        np.testing.assert_allclose(found[at], alone.embed(texts[at : at + 4]), atol=1e-5)


def test_an_unknown_name_says_which_there_are():
    """Who mistypes a name reads the right ones."""
    with pytest.raises(
        InvalidInput, match=r"'minilm6'.* minilm, static, words, minilm-onnx, multilingual"
    ):
        open_embedder("minilm6")
    assert [*BUNDLED] == ["minilm", "static", "words", "minilm-onnx", "multilingual"]


def test_an_object_that_is_no_embedder_is_refused():
    """It is said what an embedder needs."""
    with pytest.raises(InvalidInput, match="int is not an embedder; it needs name"):
        open_embedder(384)  # pyright: ignore[reportArgumentType] - the mistake is the test


@pytest.mark.parametrize("name", BUNDLED_HERE)
def test_one_text_is_not_a_list_of_letters(name):
    """`embed("hello")` would silently embed five letters."""
    with pytest.raises(InvalidInput, match="not one text"):
        open_embedder(name).embed("hello")
    with pytest.raises(InvalidInput, match="not one text"):
        embed_windows(open_embedder(name), "hello")


# --- embedders of other people ----------------------------------------------------------------


class Custom:
    """An embedder as a user would write it, whose answer a test chooses."""

    name = "custom-1"
    dimensions = 2
    instant = True

    def __init__(self, answer):
        self.answer = answer

    def embed(self, texts):
        return self.answer(texts)


class Windowed(Custom):
    """The same, with windows of its own."""

    def embed_windows(self, texts):
        return self.answer(texts)


def test_an_embedder_of_ones_own_is_used_as_it_is():
    """Four members make an embedder; a row per text is its one window."""
    embedder = Custom(lambda texts: [[0.6, 0.8], [0, 0]])
    assert open_embedder(embedder) is embedder
    (first, second) = embed_windows(embedder, ["a", "b"])
    assert first.dtype == np.float32
    np.testing.assert_allclose(first, [[0.6, 0.8]], atol=1e-7)
    assert second.tolist() == [[0, 0]]


def test_windows_of_ones_own_are_used():
    """An embedder that reads only so much at once says so by having `embed_windows`."""
    embedder = Windowed(lambda texts: [np.eye(2, dtype=np.float16) for _ in texts])
    assert [rows.tolist() for rows in embed_windows(embedder, ["a"])] == [[[1, 0], [0, 1]]]


@pytest.mark.parametrize(
    ("kind", "answer", "problem"),
    [
        (Custom, lambda texts: 1 / 0, "raised ZeroDivisionError"),
        (Custom, lambda texts: [[1, 0], [1]], "raised ValueError"),
        (Custom, lambda texts: 5, r"shape \(\) instead"),
        (Custom, lambda texts: [[1, 0]] * 3, "returned 3 for 2"),
        (Custom, lambda texts: [[1, 0, 0]] * 2, r"shape \(2, 3\) instead of rows of 2 numbers"),
        (Custom, lambda texts: [1, 0], r"shape \(2,\) instead"),
        (Custom, lambda texts: [[3, 4]] * 2, "length 5; divide"),
        (Custom, lambda texts: [[math.nan, 0]] * 2, "length nan"),
        (Windowed, lambda texts: [np.eye(2)], "returned 1 for 2"),
        (Windowed, lambda texts: [np.eye(2)[:0]] * 2, "0 windows for a text"),
        (Windowed, lambda texts: [np.ones((33, 2)) / math.sqrt(2)] * 2, "33 windows for a text"),
    ],
)
def test_a_wrong_answer_is_an_error(kind, answer, problem):
    """Nothing that is not a vector of the promised kind gets into a store; the cause is kept."""
    with pytest.raises(EmbedderFailed, match=f"embedder 'custom-1' .*{problem}") as caught:
        embed_windows(kind(answer), ["a", "b"])
    assert (caught.value.__cause__ is not None) == problem.startswith("raised")


# --- word pieces ------------------------------------------------------------------------------


def test_pieces_are_those_of_the_tokenizers_library():
    """For 600 texts, half of them of characters from everywhere. The model knows no others."""
    lines = (DATA / "pieces.jsonl").read_text(encoding="ascii").splitlines()
    pairs = [json.loads(line) for line in lines]
    assert len(pairs) == 600
    for text, pieces in pairs:
        assert wordpiece.bundled().ids(text) == pieces, ascii(text)
        assert wordpiece.bundled().find(text) == pieces, ascii(text)


@given(ANY_TEXT)
def test_every_text_has_pieces(text):
    """No text is refused; every piece is in the vocabulary, and none is a mark of the model."""
    pieces = wordpiece.bundled().ids(text)
    assert all(
        piece == wordpiece.UNKNOWN or wordpiece.FIRST_WORD <= piece < 30_522 for piece in pieces
    )
    words = wordpiece.bundled().words(text)
    assert [piece for word in words for piece in wordpiece.bundled().pieces(word)] == pieces


@given(st.lists(ANY_TEXT, max_size=4))
def test_a_space_separates_for_good(texts):
    """Words do not reach over spaces, so texts that are joined have their pieces in a row."""
    ids = wordpiece.bundled().ids
    assert ids(" ".join(texts)) == [piece for text in texts for piece in ids(text)]


def test_what_is_remembered_is_bounded():
    """A million different words or characters do not fill the memory."""
    pieces = wordpiece.WordPieces(["[PAD]"] * 999 + ["a", "##1"])
    pieces.find(" ".join(f"a{number}" for number in range(wordpiece.CACHED_CHUNKS + 10)))
    assert len(pieces._chunks) == 10
    assert pieces.find("a11 b") == [999, 1000, 1000, wordpiece.UNKNOWN]
    pieces.words("".join(map(chr, range(wordpiece.CACHED_CHARACTERS + 10))))
    assert len(pieces._characters) == 10


# --- vectors as bytes -------------------------------------------------------------------------


@given(
    arrays(
        np.float32,
        array_shapes(min_dims=2, max_dims=2, max_side=40),
        elements=st.floats(-1, 1, width=32, allow_subnormal=False),
    )
)
def test_bytes_keep_the_direction(vectors):
    """Int8, row after row, largest number 127; no number is off by more than half a step."""
    rows = dequantise(quantise(vectors), vectors.shape[1])
    assert rows.dtype == np.int8
    assert rows.shape == vectors.shape
    largest = np.abs(vectors).max(axis=1)
    assert np.abs(rows.astype(int)).max(axis=1).tolist() == np.where(largest > 0, 127, 0).tolist()
    steps = largest[:, None].astype(float) / 127
    assert (np.abs(rows * steps - vectors) <= steps * 0.5001).all()


@given(st.lists(st.integers(1, 4), max_size=5), st.integers(0, 9))
def test_several_arrays_become_bytes_at_once(counts, width):
    """`quantise_each` is `quantise` of each, in one go."""
    dice = np.random.default_rng(len(counts))
    windows = [dice.standard_normal((count, width), dtype=np.float32) for count in counts]
    assert quantise_each(windows) == [quantise(rows) for rows in windows]


def test_the_scale_of_a_row_is_its_length():
    """Divided by its own length, a row of bytes is the unit vector again: no scale is stored."""
    vectors = open_embedder("minilm").embed(sentences()[::100])
    rows = dequantise(quantise(vectors), 384).astype(np.float32)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    assert (cosines(vectors, rows) > 0.9999).all()
    np.testing.assert_allclose(rows / lengths, vectors, atol=2e-3)


def test_an_embedder_without_dimensions_has_no_bytes():
    """`words` stores nothing where the others store vectors."""
    (rows,) = embed_windows(open_embedder("words"), ["a seat"])
    assert rows.shape == (1, 0)
    assert quantise(rows) == b""
    assert dequantise(b"", 0).shape == (0, 0)
    assert dequantise(b"", 384).shape == (0, 384)


@pytest.mark.parametrize(("blob", "dimensions"), [(b"abc", 2), (b"a", 0), (b"", -1)])
def test_torn_bytes_are_refused(blob, dimensions):
    """Bytes that are not whole rows are damage, not vectors."""
    with pytest.raises(InvalidInput, match="cannot be divided into vectors of"):
        dequantise(blob, dimensions)


@pytest.mark.parametrize("vectors", [np.ones(3), np.ones((1, 2, 3)), np.full((1, 2), np.inf)])
def test_only_finite_rows_become_bytes(vectors):
    """A NaN would be zero in int8, and nobody would know."""
    with pytest.raises(InvalidInput):
        quantise(vectors.astype(np.float32))


@given(
    arrays(
        np.float32,
        array_shapes(min_dims=1, max_dims=1, min_side=0, max_side=40),
        elements=st.floats(-1e6, 1e6, width=32, allow_subnormal=False),
    )
)
def test_a_vector_comes_back_with_its_length(vector):
    """No number is off by more than half a 127th of the largest."""
    again = unpack_vector(pack_vector(vector))
    assert again.dtype == np.float32
    step = float(np.abs(vector).max(initial=0.0)) / 127
    assert (np.abs(again.astype(float) - vector) <= step * 0.501).all()


@pytest.mark.parametrize("vector", [np.ones((1, 2)), np.array([1, np.nan]), np.array([-np.inf, 0])])
def test_only_a_finite_row_is_packed(vector):
    """A NaN would be zero in int8, and nobody would know."""
    with pytest.raises(InvalidInput):
        pack_vector(vector.astype(np.float32))


@pytest.mark.parametrize(
    "blob", [b"", b"abc", b"\0\0\xc0\x7f\1", b"\0\0\x80\x7f\1", b"\0\0\x80\xbf\1"]
)
def test_bytes_without_a_scale_are_refused(blob):
    """Too few, or a scale that is NaN, infinite or negative."""
    with pytest.raises(InvalidInput, match="not a vector with a scale"):
        unpack_vector(blob)


def test_every_one_byte_float_is_read():
    """Sign, four bits of exponent, three of mantissa; a zero has no sign, nothing is infinite."""
    found = float8(range(256))
    assert found.dtype == np.float32
    assert np.isfinite(found).all()
    assert found[:128].tolist() == sorted(found[:128].tolist())
    assert (found[129:] == -found[1:128]).all()
    assert float8(bytes(range(256))).tolist() == found.tolist()


@pytest.mark.parametrize("data", [[256], [-1], [0.5], "8", None])
def test_what_is_no_byte_is_no_float(data):
    """A number beyond a byte is refused, not cut."""
    with pytest.raises(InvalidInput, match="one-byte floats"):
        float8(data)


# --- the bundled files ------------------------------------------------------------------------


def test_the_weights_are_the_known_ones():
    """The bundled files hold, number by number, what `tools/make_weights.py` makes."""
    for file in ("minilm.npz", "static.npz", "vocabulary.txt"):
        if file.endswith(".npz"):
            found = read_arrays(file)
        else:
            content = files("alveus.embed").joinpath(file).read_bytes()
            found = {"bytes": np.frombuffer(content, dtype=np.uint8)}
        assert {name: checksum(array) for name, array in found.items()} == checksums(file)


def test_missing_weights_are_an_error():
    """A damaged installation says so, and what to do."""
    with pytest.raises(EmbedderFailed, match=r"gone\.npz cannot be read .* install alveus again"):
        read_arrays("gone.npz")
    with pytest.raises(EmbedderFailed, match=r"vocabulary\.txt cannot be read"):
        read_arrays("vocabulary.txt")
    with pytest.raises(EmbedderFailed, match=r"gone\.txt cannot be read .* install alveus again"):
        read_lines("gone.txt")
    with pytest.raises(EmbedderFailed, match=r"static\.npz cannot be read"):
        read_lines("static.npz")


# --- minilm-onnx ------------------------------------------------------------------------------


@pytest.mark.parametrize("package", ["onnx", "onnxruntime"])
def test_a_missing_extra_says_how_to_install_it(package, monkeypatch):
    """Asked for by name, `minilm-onnx` says what it lacks, before anything is embedded."""
    monkeypatch.setitem(sys.modules, package, None)  # Python's way to say: it is not there
    with pytest.raises(EmbedderMissing, match=rf"{package},.*pip install 'alveus\[minilm-onnx\]'"):
        open_embedder("minilm-onnx")


def test_onnx_has_the_vectors_of_minilm(tmp_path):
    """The same weights in float32: the vectors may stand in one store, so they share a name."""
    embedder = minilm_onnx.MiniLmOnnx(cache=tmp_path / "new" / "folder")
    minilm = open_embedder("minilm")
    assert (embedder.name, embedder.dimensions) == (minilm.name, minilm.dimensions)
    texts = [*sentences()[::10], "seat " * 700]
    found = cosines(embedder.embed(texts), minilm.embed(texts))
    assert found.min() >= 0.99999
    assert not embedder.embed([""]).any()
    assert len(embed_windows(embedder, texts)[-1]) == len(window_starts(700))
    (graph,) = (tmp_path / "new" / "folder").iterdir()
    assert stat.S_IMODE(graph.stat().st_mode) == 0o600


def test_a_damaged_graph_names_its_file(tmp_path):
    """What cannot be loaded can be deleted: it is made again."""
    path = minilm_onnx.graph_path(tmp_path)
    path.write_bytes(b"torn")
    with pytest.raises(EmbedderFailed, match="delete that file"):
        minilm_onnx.MiniLmOnnx(cache=tmp_path).embed(["a"])
    path.unlink()
    assert minilm_onnx.MiniLmOnnx(cache=tmp_path).embed(["a"]).any()


def test_the_graph_is_kept_where_caches_are(monkeypatch, tmp_path):
    """XDG_CACHE_HOME is respected; a relative one is ignored, as its specification asks."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert minilm_onnx.default_cache() == tmp_path / "alveus"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert minilm_onnx.default_cache() == Path.home() / ".cache" / "alveus"


def test_a_graph_is_written_whole(tmp_path):
    """Its owner alone reads it, nothing else is left behind, and a failure is an error."""
    path = tmp_path / "a" / "b" / "minilm.onnx"
    minilm_onnx._write_whole(path, b"graph")
    assert path.read_bytes() == b"graph"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(path.parent.iterdir()) == [path]
    with pytest.raises(EmbedderFailed, match="cannot be written"):
        minilm_onnx._write_whole(path / "below-a-file", b"graph")
