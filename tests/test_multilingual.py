"""The embedder `multilingual`: the published model, its pieces, and its package."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alveus import Memory
from alveus.embed import QueryEmbedder, dequantise, embed_windows, open_embedder, quantise
from alveus.embed.multilingual import END, PACKAGE, START, WEIGHTS, Multilingual, unpack_rows
from alveus.embed.unigram import CACHED_WORDS, LONGEST_CACHED, UNKNOWN, Unigram
from alveus.embed.vectors import unit
from alveus.embed.weights import checksum, checksums, read_arrays
from alveus.embed.wordpiece import READ, window_starts
from alveus.errors import EmbedderFailed, EmbedderMissing
from alveus.testing import EmbedderContract
from scale import COUNTS

DATA = Path(__file__).parent / "data" / "embedders"
"""Texts of our own, with their pieces and vectors; `tools/make_multilingual.py` writes them."""

ANY_TEXT = st.text(st.characters(exclude_categories=()))
"""Every `str` that Python can hold, lone surrogates included."""


def multilingual() -> Multilingual:
    embedder = open_embedder("multilingual")
    assert isinstance(embedder, Multilingual)
    return embedder


def pieces() -> Unigram:
    return multilingual()._model().pieces


def languages() -> list[str]:
    """Return 120 texts, ten in each of twelve languages."""
    return (DATA / "languages.txt").read_text(encoding="utf-8").splitlines()


class TestMultilingual(EmbedderContract):
    def open(self):
        return open_embedder("multilingual")


def test_it_says_what_it_is():
    """Name, dimensions and instant identify it; it reads questions otherwise than texts."""
    embedder = multilingual()
    assert isinstance(embedder, QueryEmbedder)
    assert (embedder.name, embedder.dimensions, embedder.instant) == ("multilingual", 384, False)
    assert embedder.languages is None
    assert embedder.embed(["Ein Fensterplatz, bitte."]).dtype == np.float32
    assert embedder.embed([]).shape == embedder.embed_queries([]).shape == (0, 384)


# --- the model --------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "question"), [("passages", False), ("questions", True)])
def test_it_is_the_published_model(kind, question):
    """The reference is another program on the same weights, which rounds what it multiplies."""
    with np.load(DATA / "languages.npz", allow_pickle=False) as file:
        reference = file[kind].astype(np.float32)
    embedder, texts = multilingual(), languages()
    assert len(reference) == len(texts) == 120
    some = range(0, 120, max(1, 400 // COUNTS.embedded))
    marked = [embedder._marked(embedder._cut(texts[at]), question) for at in some]
    rows = np.concatenate([embedder._model().encoder.encode([each]) for each in marked])
    cosines = np.einsum("ij,ij->i", rows, unit(reference[some]))
    assert cosines.min() >= 0.9995
    assert cosines.mean() >= 0.9999


def test_unrelated_texts_have_no_cosine():
    """The published vectors of unrelated texts have a cosine of 0.7 to 0.9: they share a mean."""
    with np.load(DATA / "languages.npz", allow_pickle=False) as file:
        reference = unit(file["passages"].astype(np.float32))
    model = multilingual()._model()
    apart = ~np.eye(120, dtype=bool)
    assert (reference @ reference.T)[apart].mean() > 0.75
    rows = unit(reference - model.mean)
    assert abs((rows @ rows.T)[apart].mean()) < 0.02
    np.testing.assert_allclose(model.mean, reference.mean(axis=0), atol=2e-3)


def test_rows_have_length_one_and_less_mean():
    """A row is the model's, less the mean, as a direction."""
    embedder, texts = multilingual(), languages()[::30]
    model = embedder._model()
    marked = [embedder._marked(embedder._cut(text), question=False) for text in texts]
    plain = np.concatenate([model.encoder.encode([each]) for each in marked])
    rows = embedder.embed(texts)
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-5)
    np.testing.assert_allclose(rows, unit(plain - model.mean), atol=1e-5)


def test_a_question_stands_behind_the_word_for_questions():
    """The model was taught with "query:" and "passage:", so the two have different rows."""
    embedder = multilingual()
    marked = embedder._marked(embedder._cut("Wo?"), question=True)
    assert marked == [START, *pieces().ids("query: Wo?"), END]
    assert embedder._marked([7], question=False) == [START, *pieces().ids("passage:"), 7, END]
    cosine = float((embedder.embed(["Wo?"]) @ embedder.embed_queries(["Wo?"]).T)[0, 0])
    assert 0.3 < cosine < 0.999


@pytest.mark.parametrize(
    ("question", "place"),
    [
        ("What must I not eat?", 0),
        ("Wer spielt ein Instrument?", 1),
        ("¿Cuándo sale el tren?", 2),
        ("我的狗叫什么名字？", 3),
        ("Кто лечит больных?", 4),
    ],
)
def test_meaning_is_found_across_languages(question, place):
    """The answer stands in another language, and shares no word with the question."""
    texts = [
        "Ich bin gegen Erdnüsse allergisch.",
        "彼女は子供のころからバイオリンを弾いている。",
        "The express to Lyon departs at 7:45.",
        "Mein Hund heißt Bello.",
        "Elle est infirmière à l'hôpital.",
    ]
    embedder = multilingual()
    cosines = embedder.embed(texts) @ embedder.embed_queries([question])[0]
    assert int(cosines.argmax()) == place


def test_company_does_not_change_a_vector():
    """The same text has the same row, alone or in a batch: to 1e-5, and to 1e-4 in bytes."""
    embedder, texts = multilingual(), [*languages()[::24], "", "x", "🦊"]
    together = embedder.embed(texts)
    alone = np.concatenate([embedder.embed([text]) for text in texts])
    np.testing.assert_allclose(together, alone, atol=1e-5)
    kept = [dequantise(quantise(rows), 384).astype(np.float32) for rows in (together, alone)]
    known = alone.any(axis=1)
    both = [unit(rows[known]) for rows in kept]
    assert (np.einsum("ij,ij->i", *both) >= 1 - 1e-4).all()


@pytest.mark.parametrize("text", ["", " \n\t", "\x00", "\u200b\u2581", "\ud800", "ꙮ" * 200])
def test_a_text_without_a_known_piece_has_no_direction(text):
    """Such texts would all look alike to the model; a zero row is like nothing instead."""
    embedder = multilingual()
    assert not embedder.embed([text, "a seat"])[0].any()
    assert not embedder.embed_queries([text])[0].any()
    (windows, _) = embed_windows(embedder, [text, "a seat"])
    assert windows.shape == (1, 384)
    assert not windows.any()


def test_a_long_text_has_a_row_for_each_window():
    """Each window is embedded like a text of its own; what stands far back is not lost."""
    words = ["дом"] * READ + ["Haus"] * READ
    assert [len(pieces().ids(word)) for word in ("дом", "Haus")] == [1, 1]
    embedder = multilingual()
    (rows, short) = embed_windows(embedder, [" ".join(words), "a seat"])
    starts = window_starts(len(words))
    windows = [" ".join(words[start : start + READ]) for start in starts]
    np.testing.assert_allclose(rows, embedder.embed(windows), atol=1e-5)
    np.testing.assert_allclose(rows[:1], embedder.embed([" ".join(words)]), atol=1e-5)
    assert short.shape == (1, 384)


def test_a_very_long_text_has_32_windows():
    """Beyond that they are spread evenly, up to the end; a text without spaces too."""
    (rows,) = embed_windows(multilingual(), ["ꙮ " * 9000 + "Haus " * READ])
    assert rows.shape == (32, 384)
    assert rows[-1].any()
    assert not rows[1].any()
    assert len(pieces().ids("会" * 30_000)) >= 10_000


# --- pieces -----------------------------------------------------------------------------------


def test_pieces_are_those_of_the_tokenizers_library():
    """For texts in twelve languages, and texts of characters from everywhere."""
    lines = (DATA / "unigrams.jsonl").read_text(encoding="ascii").splitlines()
    pairs = [json.loads(line) for line in lines]
    assert len(pairs) == 520
    for text, expected in pairs:
        assert pieces().ids(text) == expected, ascii(text)


@given(ANY_TEXT)
def test_every_text_has_pieces(text):
    """No text is refused; every piece is known, and none is a mark of the model."""
    found = pieces().ids(text)
    assert all(UNKNOWN <= piece < 250_001 for piece in found)
    assert found == [piece for word in pieces().words(text) for piece in pieces().cut(word)]


@given(st.lists(ANY_TEXT, max_size=4))
def test_a_space_separates_for_good(texts):
    """Words do not reach over spaces, so texts that are joined have their pieces in a row."""
    ids = pieces().ids
    assert ids(" ".join(texts)) == [piece for text in texts for piece in ids(text)]


def test_a_user_cannot_write_a_mark():
    """The marks of the model are cut like other words."""
    for mark in ("<s>", "</s>", "<pad>", "<unk>", "<mask>"):
        assert len(pieces().ids(mark)) > 1


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("e\u0301te\u0301", "été"),
        ("ｶﾞ", "ガ"),
        ("ﬁ", "fi"),
        ("a\u3000b\u00a0c", "a b c"),
        ("１", "1"),
    ],
)
def test_characters_that_look_alike_are_one(text, same):
    """Composed or not, wide or narrow: the pieces are the same."""
    assert pieces().ids(text) == pieces().ids(same)


def test_what_is_remembered_is_bounded():
    """A million different words do not fill the memory, and long ones are not kept."""
    own = Unigram(read_arrays(WEIGHTS, PACKAGE))
    own.ids(" ".join(f"{number}" for number in range(CACHED_WORDS + 10)))
    assert len(own._words) == 10
    own.ids("x" * (LONGEST_CACHED + 1))
    assert len(own._words) == 10


# --- the weights ------------------------------------------------------------------------------


def test_halves_of_bytes_become_numbers():
    """Low halves are the first 16 numbers of a block, high ones the others; 8 means zero."""
    dice = np.random.default_rng(5)
    numbers = dice.integers(0, 256, (3, 2, 16), dtype=np.uint8)
    scales = dice.standard_normal((3, 2)).astype(np.float16)
    found = unpack_rows(numbers, scales)
    assert found.shape == (3, 64)
    for row, block, at in np.ndindex(3, 2, 16):
        low, high = int(numbers[row, block, at]) % 16, int(numbers[row, block, at]) // 16
        scale = float(scales[row, block])
        assert found[row, block * 32 + at] == np.float32((low - 8) * scale)
        assert found[row, block * 32 + 16 + at] == np.float32((high - 8) * scale)


def test_the_weights_are_the_known_ones():
    """The package holds, number by number, what `tools/make_multilingual.py` makes."""
    found = {name: checksum(array) for name, array in read_arrays(WEIGHTS, PACKAGE).items()}
    assert found == checksums(WEIGHTS)


def test_missing_weights_are_an_error():
    """A damaged installation says so, and which package to install again."""
    with pytest.raises(EmbedderFailed, match=r"gone\.npz cannot .* install alveus-multilingual ag"):
        read_arrays("gone.npz", PACKAGE)


def test_a_missing_package_says_how_to_install_it(monkeypatch):
    """Asked for by name, `multilingual` says what it lacks, before anything is embedded."""
    monkeypatch.setitem(sys.modules, PACKAGE, None)  # Python's way to say: it is not there
    with pytest.raises(
        EmbedderMissing, match=r"multilingual,.*pip install 'alveus\[multilingual\]"
    ):
        Multilingual()


# --- in a memory ------------------------------------------------------------------------------


def test_a_memory_finds_across_languages():
    """Items and questions go through the embedder that the memory names."""
    with Memory.open(":memory:", embedder="multilingual") as memory:
        ada = memory.key("ada")
        ada.add_many(["Der Zug fährt um acht.", "猫はソファーで寝る。", "Ella vende flores."])
        memory.settle()
        assert ada.search("Where does the cat sleep?")[0].item.text == "猫はソファーで寝る。"


def test_words_count_a_quarter_beside_meaning():
    """A name that question and item share by accident does not outweigh what the item means."""
    with Memory.open(":memory:", embedder="multilingual") as memory:
        ada = memory.key("ada")
        ada.add_many(["Hanna called about the car.", "The train leaves at eight."])
        memory.settle()
        hits = ada.search("Was isst Hanna gern zum Frühstück?")
        assert hits[0].parts["words"] == 0.25
        assert hits[1].parts["words"] == 0


def test_a_space_changes_its_embedder_while_it_serves(tmp_path):
    """From `minilm` to `multilingual` and back; each step tells how much of all is done."""
    path, steps = tmp_path / "notes.db", []
    texts = ["Der Zug fährt um acht.", "The cat sleeps on the sofa.", "Ella vende flores."]
    with Memory.open(path, embedder="minilm") as memory:
        memory.key("ada").add_many(texts)
        memory.settle()
    for embedder, before in (("multilingual", "minilm"), ("minilm", "multilingual")):
        with Memory.open(path, embedder=before) as memory:

            def progress(done, total, memory=memory):
                found = memory.key("ada").search("the cat on a sofa")
                steps.append((done, total, found[0].item.text))

            assert Memory.reindex(path, embedder=embedder, progress=progress) == 3
        with Memory.open(path) as memory:
            assert memory.embedder.name == embedder
            found = memory.key("ada").search("the cat on a sofa")
            assert found[0].item.text == texts[1]
    assert {total for _, total, _ in steps} == {3}
    assert steps[-1][0] == 3
    assert {text for _, _, text in steps} == {texts[1]}
