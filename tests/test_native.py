"""Compiled code does what Python does, to the last bit, and may be missing."""

from __future__ import annotations

import json
import platform
import re
import sys
from datetime import UTC, datetime
from enum import IntEnum
from itertools import chain, product
from pathlib import Path
from random import Random
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alveus import Item, Memory
from alveus.embed import static, vectors, wordpiece
from alveus.errors import InvalidInput
from alveus.search.index import vectors as vectors_of_sets
from alveus.values import languages, native, wire, words
from alveus.values.lazy import words_of
from compiling import compiled_in, hatch_build
from pages import pages

MAY = datetime(2023, 5, 8, 13, 56, tzinfo=UTC)


@pytest.fixture(scope="session")
def compiled(tmp_path_factory):
    """The compiled functions; None: there is no compiler."""
    return compiled_in(tmp_path_factory.mktemp("native"))


FRAGMENTS = (
    *("Yesterday", "the", "seats", "running", "2023", "may", "MARCH", "don't", "x" * 65, "a.b-c"),
    *("29.12.2023", "2023-12-29", "2023-13-01", "1.2", "always", "Never mind", "please", "make"),
    *("?", "?)", "? ", ".", "-", "_", "\x00", "\x0b", "\x1c", "\x1e", "\x85", "\t", "\n"),
    *("é", "漢字", "\ud800", "ß", "ﬀ", "२०२३", "—2024", "x２０２३-12-29", "x2023-12-29", "２-３"),
    *("Änderungen", "“It’s”", "d’été", "…", "Москва", "وكتابها", "किताबों", "ไทย"),
    *("🎉", "👩\u200d🚀", "\xa0", "\u3000", "？", "؟”", "?’", "?»", "？。", "ı", "İ", "e\u0301"),
    *("d’hier—today", "Alway\u017f", "plea\u017fe", "ma\u212ae", "sure you always"),
)
TEXTS = st.one_of(
    st.text(),
    st.text(st.characters(max_codepoint=127)),
    st.lists(st.sampled_from(FRAGMENTS), max_size=12).map(" ".join),
    st.lists(st.sampled_from(FRAGMENTS), max_size=12).map("".join),
)


def by_length():
    """Texts around each length at which something changes."""
    for count in (0, 1, 24, 25, 26, 60, 61, 132, 133, 134, 300):
        yield "ab " * count + "?"
        yield "a?" * count
    yield "word " * 300 + "x" * 300


def corpus():
    """Every line of the documentation, texts of all lengths, and words in any order."""
    random = Random(7)
    for page in pages():
        yield from page.read_text(encoding="utf-8").splitlines()
    yield from by_length()
    yield from ("Alway\u017f answer", "Plea\u017fe never say so", "ma\u212ae sure you always")
    for size in range(400):
        yield random.choice([" ", ", ", ". "]).join(random.choices(FRAGMENTS, k=size % 40))


def compare_words(compiled, text, context):
    """Compare what words read; return whether compiled code left it to Python."""
    found = compiled.analyse(text, context, words._known_words(compiled))
    if found is not None:
        assert found == tuple(words._analyse(text, context)), text
    return found is None


def compare_languages(compiled, text):
    """Compare the guesses of a language; return whether compiled code left it to Python."""
    guesses = set()
    for module in (compiled, None):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(languages, "NATIVE", module)
            guesses.add(languages.language_of(text))
    assert len(guesses) == 1, (text, guesses)
    return compiled.guess_language(text, languages.known_languages(compiled)) is None


def compare_rows(compiled, texts):
    """Compare the rows of pieces of texts, which are then summed up by the same call."""
    table, pieces = static.Static()._table(), wordpiece.bundled()
    vocabulary = compiled.vocabulary(pieces._words, pieces._inner, pieces._longest)
    for text in texts:
        found = compiled.pieces(text, vocabulary, pieces.find)
        assert found == pieces.find(text), text
    sums = np.zeros((2, len(texts), static.DIMENSIONS), np.float32)
    for module, each in zip((compiled, None), sums, strict=True):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(static, "NATIVE", module)
            patch.setattr(pieces, "vocabulary", vocabulary)
            static.add_pieces(table, texts, each)
    assert np.array_equal(sums[0], sums[1])


@given(TEXTS, st.sampled_from([None, "Ada Lovelace", "2023 yesterday"]))
def test_compiled_code_reads_the_same_words(compiled, text, speaker):
    """Terms, marks, dates and counts are those of Python for any text."""
    if compiled is not None:
        compare_words(compiled, text, words.context_terms(words.minute_of(MAY), speaker))


@given(TEXTS)
def test_compiled_code_guesses_the_same_language(compiled, text):
    """The language is that of Python for any text."""
    if compiled is not None:
        compare_languages(compiled, text)


def test_texts_of_several_languages_are_read_together(compiled, monkeypatch):
    """Those whose words are cut have the beginnings too, and do not slow down the others."""
    texts = [
        "Ich wohne seit vielen Jahren in Hamburg.",
        "I live in Porto.",
        "Мы живём",
        "été à Paris",
    ]
    monkeypatch.setattr(words, "NATIVE", compiled)
    found = words.analyse_texts(texts, [{}] * 4, "caption", [[99]] * 4)
    if compiled is not None:
        assert found is not None
        assert [*zip(*found[1:], strict=True)] == [words._analyse(text, [99]) for text in texts]
        in_python = []
        known = words._known_words(compiled)
        compiled.read_texts(
            texts[:2],
            [{}] * 2,
            "",
            [[]] * 2,
            known,
            lambda text, _: in_python.append(text) or (b"", 0, 0),
        )
        assert in_python == texts[:1]


def test_compiled_code_guesses_languages_of_words(compiled):
    """Names, capitals, signs, cut texts and many words count alike. Few texts are for Python."""
    if compiled is None:
        return
    random = Random(9)
    lists = words_of(languages.__file__)
    both = [*lists["en"] * 3, *chain(*lists.values()), *languages._NAMES, "Bach", "x" * 19]
    choices = [both, *([word for word in some if word.isascii()] for some in lists.values())]
    spaces = [" ", " ", " ", " ", ", ", "-", "\n", "\x1c "]
    spaces += [". ", "'", ":", "_", " 7", "\x00", "", "("]
    left = 0
    for size in range(4_000):
        made = random.choices(random.choice(choices) or both, k=1 + size % 60)
        for at in range(size % 7):
            word = random.choice(made)
            others = [word.upper(), word.title(), f"{word}.", f"{word}'s"]
            made[at % len(made)] = random.choice(others)
        text = "".join([word + random.choice(spaces[: 1 + size % 16]) for word in made])
        left += compare_languages(compiled, random.choice([text, text, text, text.upper()]))
    assert left < 2_000, left
    english = [text for text in corpus() if text.isascii() and languages.language_of(text) == "en"]
    assert sum(compare_languages(compiled, text) for text in english) < len(english) / 20


ENDINGS = """
    sses ies ss s eed ed ing at bl iz ational tional enci anci izer logi bli alli entli eli ousli
    ization ation ator alism iveness fulness ousness aliti iviti biliti icate ative alize iciti ical
    ful ness al ance ence er ic able ible ant ement ment ent sion tion ion ou ism ate iti ous ive
    ize e l ll y ly
""".split()  # noqa: SIM905 - a list of words reads best as text


def test_compiled_code_has_the_stems_of_sqlite(compiled):
    """Words of any ending, and of more kinds than are kept, have the terms that `porter` gives."""
    if compiled is None:
        return
    random = Random(3)
    made = ["".join(letters) for size in range(1, 5) for letters in product("aeybstl", repeat=size)]
    for _ in range(80_000):
        begin = "".join(random.choices("abcdefghilmnorstuwxyz1", k=random.choice([1, 2, 3, 5, 9])))
        made.append(begin + "".join(random.choices(ENDINGS, k=random.randrange(4))))
    assert len(set(made)) > words.CACHED_TERMS
    texts = [" ".join(made[start : start + 100]) for start in range(0, len(made), 100)]
    for text in [*texts, *texts[:20]]:  # some words of which are kept, and some are not any more
        compare_words(compiled, text, [])
    compare_rows(compiled, [*texts[:100], *texts[:20], "-".join(made[:100]), *made[:1000]])


@given(st.lists(TEXTS, max_size=5))
def test_compiled_code_finds_the_same_rows(compiled, texts):
    """The pieces of any texts have the rows that Python finds."""
    if compiled is not None:
        compare_rows(compiled, texts)


def test_a_corpus_is_the_same_by_compiled_code(compiled, monkeypatch):
    """All that is stored of a corpus is the same bytes with and without it, and little is left."""
    if compiled is None:
        return
    texts = list(corpus())
    left = sum(compare_words(compiled, text, []) for text in texts)
    assert left < len(texts) / 10
    compare_rows(compiled, texts)
    stored = []
    for module in (None, compiled):
        for user in (words, vectors, static, wordpiece):
            monkeypatch.setattr(user, "NATIVE", module)
        stored.append(rows_of([text for text in texts[::4] if text.isprintable()]))
    assert len(stored[0]) > 1000
    assert stored[0] == stored[1]


def rows_of(texts):
    """What a store keeps of texts: what words and meaning read of them."""
    with Memory.open(":memory:", embedder="static") as memory:
        lines = memory.key("ada").set("lines")
        items = [
            Item(text, id=f"{at}", time=MAY, speaker="Ada", metadata={"caption": "a café"})
            if at % 9 == 0
            else Item(text, id=f"{at}", time=MAY)
            for at, text in enumerate(texts)
        ]
        lines.add_many(items)
        recorder = memory._engine.recorder
        records = recorder.records([(item.id or "", item) for item in items], now=0)
        return [(r.text, r.terms, r.tokens, r.temporal, r.vectors) for r in records]


NUMBERS = st.one_of(
    st.floats(width=32, allow_nan=False, allow_infinity=False),
    st.sampled_from([0.5, -0.5, 1.5, 2.5, 127.0, -127.0, 1e-45, 3.4e38, 0.0, -0.0]),
)

ROWS = st.integers(1, 9).flatmap(
    lambda width: st.lists(
        st.lists(NUMBERS, min_size=width, max_size=width), min_size=1, max_size=4
    )
)


@given(ROWS)
def test_compiled_code_rounds_as_numpy(compiled, rows):
    """Ties go to the even number, and rows of the smallest and largest numbers are stretched."""
    if compiled is not None:
        numbers = np.array(rows, np.float32)
        assert compiled.quantise(numbers, numbers.shape[1]) == vectors._quantise(numbers)


def test_vectors_at_an_odd_address_are_rounded_alike(compiled, monkeypatch):
    """What was read out of a file may begin anywhere in memory."""
    numbers = np.linspace(-1, 1, 512, dtype=np.float32).reshape(2, 256)
    for offset in range(4):
        odd = np.frombuffer(bytes(offset) + numbers.tobytes(), np.float32, offset=offset)
        monkeypatch.setattr(vectors, "NATIVE", compiled)
        assert vectors.quantise(odd.reshape(2, 256)) == vectors._quantise(numbers)


@pytest.mark.parametrize("dimensions", [1, 64, 100, 128, 256, 384, 450, 1024])
def test_compiled_code_counts_the_same_bits(compiled, monkeypatch, dimensions):
    """Codes of any width differ as much by it as by NumPy, in full blocks and in a part of one."""
    if compiled is None:
        return
    random = np.random.default_rng(dimensions)
    bits = vectors_of_sets.Bits(dimensions)
    code = vectors_of_sets.encoded(random.integers(-127, 128, (1, dimensions), np.int8))
    for size in (0, 1, vectors_of_sets.BLOCK - 2, 1, 1500):
        bits.extend(random.integers(-127, 128, (size, dimensions), np.int8))
        found = [distances(bits, module, code, monkeypatch) for module in (None, compiled)]
        assert found[0].tolist() == found[1].tolist()
    assert len(set(found[0].tolist())) > 1


def distances(bits, module, code, monkeypatch):
    """How far each row is, by NumPy or by compiled code, which must say that it did it."""
    monkeypatch.setattr(vectors_of_sets, "NATIVE", module)
    if module is not None and platform.machine() in ("x86_64", "aarch64", "arm64"):
        assert bits._count_by(module, code, np.empty(bits.size, np.uint16))
    return bits.distances(code)


def test_bits_at_odd_addresses_are_counted_alike(compiled):
    """The codes of a file may begin anywhere in memory."""
    if compiled is None:
        return
    codes = np.random.default_rng(5).integers(0, 2**63, (2, 4, 9), np.uint64)
    counts = np.bitwise_count(codes ^ codes[0, :, :1]).sum(axis=1).ravel()[:15]
    for offset in range(8):
        odd = np.frombuffer(bytes(offset) + codes.tobytes(), np.uint8, offset=offset)
        found = np.frombuffer(bytearray(31), np.uint8)[1:]
        assert compiled.differing(odd, 9, codes[0, :, 0].copy(), found)
        assert np.frombuffer(found.tobytes(), np.uint16).tolist() == counts.tolist()


def test_numpy_counts_where_compiled_code_cannot(monkeypatch):
    """A machine may have no instruction for it; then compiled code leaves it to NumPy."""
    bits = vectors_of_sets.Bits(64)
    bits.extend(np.array([[1] * 64, [-1] * 64], np.int8))
    code = vectors_of_sets.encoded(np.ones((1, 64), np.int8))
    monkeypatch.setattr(vectors_of_sets, "NATIVE", SimpleNamespace(differing=lambda *_: False))
    assert bits.distances(code).tolist() == [0, 64]


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_not_finite_are_refused_by_both(compiled, monkeypatch, wrong):
    """Python says what is wrong with them."""
    rows = np.array([[1, 0], [0, wrong]], np.float32)
    for module in (None, compiled):
        monkeypatch.setattr(vectors, "NATIVE", module)
        with pytest.raises(InvalidInput, match="not finite"):
            vectors.quantise(rows)


def test_wrong_calls_of_compiled_code_are_python_errors(compiled):
    """What calls it is ours, and still no argument brings a process down."""
    if compiled is None:
        return
    table, pieces = (
        np.zeros((2, 4), np.int8),
        compiled.vocabulary({"a": 5, "é": 6, 7: 8, "": 9, "\ud800": 1}, {}, 9),
    )
    one, two, four = (np.zeros(size, np.float32) for size in (1, 2, 4))
    codes, counts = np.zeros((2, 3, 4), np.uint64), np.zeros(8, np.uint16)
    listed, no_terms = compiled.listed_words([]), lambda _: (["x"], 0, 0)
    none, nobody, last = (frozenset(), frozenset(), listed), frozenset(), (listed, len, bool)
    code, known = codes[0, :, 0].copy(), words._known_words(compiled)
    calls = [
        (compiled.analyse, ("a", (), {}), TypeError),
        (compiled.known_words, (nobody, nobody), TypeError),
        (compiled.known_words, (nobody, nobody, {}, len, bool), ValueError),
        (compiled.analyse, ("éé", [], compiled.known_words(*none, len, int)), ValueError),
        (compiled.known_words, (nobody, set(), *last), TypeError),
        (compiled.analyse, ("é", [], compiled.known_words(*none, len, str.isdecimal)), TypeError),
        (compiled.analyse, ("é", [], compiled.known_words(*none, list, str.isdecimal)), TypeError),
        (
            compiled.analyse,
            ("é", [], compiled.known_words(*none, no_terms, str.isdecimal)),
            TypeError,
        ),
        (compiled.analyse, ("a", []), TypeError),
        (compiled.analyse, (b"a", [], known), TypeError),
        (compiled.analyse, ("a", ["x"], known), TypeError),
        (compiled.analyse, ("a", [], {}), ValueError),
        (compiled.known_words, (frozenset({""}), nobody, *last), TypeError),
        (compiled.known_words, (frozenset({"x" * 35}), nobody, *last), TypeError),
        (compiled.known_words, (frozenset({1}), nobody, *last), TypeError),
        (compiled.known_words, (frozenset({"\ud800"}), nobody, *last), TypeError),
        (compiled.known_words, (frozenset(map(str, range(300))), nobody, *last), TypeError),
        (compiled.listed_words, ({},), TypeError),
        (compiled.listed_words, ([("a", 1, 0)] * 3000,), TypeError),
        (compiled.listed_words, (["a"],), TypeError),
        (compiled.listed_words, ([("a", 1)],), TypeError),
        (compiled.listed_words, ([("", 1, 0)],), TypeError),
        (compiled.listed_words, ([("longer", 1, 1)],), TypeError),
        (compiled.listed_words, ([("x" * 19, 1, 0)],), TypeError),
        (compiled.listed_words, ([("\ud800", 1, 0)],), UnicodeEncodeError),
        (compiled.guess_language, ("a",), TypeError),
        (compiled.guess_language, ("a", {}), ValueError),
        (compiled.guess_language, (b"a", compiled.listed_words([])), TypeError),
        (compiled.read_texts, (["a"], [{}], "c", [], known), TypeError),
        (compiled.read_texts, (["a"], [], "c", [], known, len), TypeError),
        (compiled.read_texts, (["a"], ({},), "c", [], known, len), TypeError),
        (compiled.read_texts, (["a"], [{}], 1, [[]], known, len), TypeError),
        (compiled.read_texts, (["a"], [{}], "c", [], known, len), TypeError),
        (compiled.read_texts, (["a"], [{}], "c", [()], known, len), TypeError),
        (compiled.read_texts, (["a"], [{}], "c", [[]], {}, len), ValueError),
        (compiled.read_texts, (["always"], [{}], "c", [[]], known, lambda *_: ()), TypeError),
        (
            compiled.read_texts,
            (["always"], [{}], "c", [[]], known, lambda *_: 1 / 0),
            ArithmeticError,
        ),
        (compiled.quantise, (two,), TypeError),
        (compiled.quantise, (two, 0), TypeError),
        (compiled.quantise, ("ab", 1), TypeError),
        (compiled.add_pieces, (["a"],), TypeError),
        (compiled.vocabulary, ({}, {}), TypeError),
        (compiled.vocabulary, ({}, [], 9), TypeError),
        (compiled.vocabulary, ({}, {}, 0), TypeError),
        (compiled.vocabulary, ({"a": "x"}, {}, 9), TypeError),
        (compiled.vocabulary, ({}, {"a": -1}, 9), ValueError),
        (compiled.vocabulary, ({}, {"a": 1 << 40}, 9), ValueError),
        (compiled.vocabulary, ({}, {"a": 1 << 70}, 9), OverflowError),
        (compiled.pieces, ("a", pieces), TypeError),
        (compiled.pieces, (b"a", pieces, list), TypeError),
        (compiled.pieces, ("a", {}, list), ValueError),
        (compiled.pieces, ("é", pieces, len), TypeError),
        (compiled.add_pieces, (["a"], {}, list, table, two, 0, four), ValueError),
        (compiled.add_pieces, (("a",), pieces, list, table, two, 0, four), TypeError),
        (compiled.add_pieces, ([b"a"], pieces, list, table, two, 0, four), TypeError),
        (compiled.add_pieces, (["a"], pieces, list, table, two, 0, four), IndexError),
        (compiled.add_pieces, (["é"], pieces, len, table, two, 0, four), TypeError),
        (
            compiled.add_pieces,
            (["a"], pieces, list, np.zeros(5, np.int8), two, 0, four),
            ValueError,
        ),
        (compiled.add_pieces, (["a"], pieces, list, table, one[:0], 0, four), ValueError),
        (compiled.add_pieces, (["a"], pieces, list, table[:0], two, 0, four), ValueError),
        (compiled.add_pieces, (["a"], pieces, list, table, two, 0, two), ValueError),
        (compiled.add_pieces, (["a"], pieces, list, table, two, 0, bytes(16)), BufferError),
        (compiled.add_pieces, (["a"], pieces, list, table, two, "0", four), TypeError),
        (compiled.add_pieces, (["a"], pieces, list, "ab", two, 0, four), TypeError),
        (compiled.add_pieces, (["a"], pieces, list, table, "ab", 0, four), TypeError),
        (compiled.differing, (codes, 4, code), TypeError),
        (compiled.differing, (codes, 0, code, counts), TypeError),
        (compiled.differing, ("ab", 4, code, counts), TypeError),
        (compiled.differing, (codes, 4, "ab", counts), TypeError),
        (compiled.differing, (codes, 4, code, counts.tobytes()), BufferError),
        (compiled.differing, (codes, 4, code[:0], counts), ValueError),
        (compiled.differing, (codes[:1], 4, code, counts), ValueError),
        (compiled.differing, (codes, 4, code, np.zeros(9, np.uint16)), ValueError),
        (compiled.differing, (codes, 2**62, code, counts), ValueError),
    ]
    for function, arguments, error in calls:
        with pytest.raises(error):
            function(*arguments)


def compiled_now():
    return native.compiled(native.FUNCTIONS)


def test_compiled_code_may_be_missing_or_turned_off(compiled, monkeypatch):
    """Python alone serves then."""
    monkeypatch.setenv("ALVEUS_NATIVE", "on")
    monkeypatch.setitem(sys.modules, "alveus.values._native", compiled)  # None: cannot be imported
    assert compiled_now() is compiled
    monkeypatch.setitem(sys.modules, "alveus.values._native", None)
    assert compiled_now() is None
    monkeypatch.setitem(sys.modules, "alveus.values._native", compiled)
    monkeypatch.setenv("ALVEUS_NATIVE", "off")
    assert compiled_now() is None


def test_code_that_was_compiled_of_another_version_is_not_used(compiled, monkeypatch):
    """It may stay beside a source that was changed, and lack a function."""
    monkeypatch.setenv("ALVEUS_NATIVE", "on")
    for name in native.FUNCTIONS:
        others = {other: getattr(compiled, other, len) for other in native.FUNCTIONS}
        monkeypatch.setitem(sys.modules, "alveus.values._native", SimpleNamespace(**others))
        assert compiled_now() is not None
        del others[name]
        monkeypatch.setitem(sys.modules, "alveus.values._native", SimpleNamespace(**others))
        assert compiled_now() is None


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS | st.binary(max_size=3)
    | st.sampled_from((1 << 63, -(1 << 63), (1 << 63) - 1, "$int", "\x1f", "\x7f", "\u2028", -0.0)),
    lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(TEXTS | st.just("$a"), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


@given(JSON_VALUES)
def test_values_are_written_as_python_writes_them(compiled, value):
    """The same text, or none, where it is for Python."""
    if compiled is not None:
        written = compiled.compact(value)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(wire, "NATIVE", None)
            assert written in (None, wire.encode(value))


@pytest.mark.parametrize(
    "value",
    [
        {"a": [1, -2.5, None, True, False, {}, [], ()], "é": 'x"\\\n\r\t漢'},
        "x" * 5000,
        [[9_223_372_036_854_775_807, -9_223_372_036_854_775_808]] * 90,
        [["deep"] * 3] * 3,
    ],
)
def test_what_is_frequent_is_written_by_compiled_code(compiled, value):
    if compiled is not None:
        assert compiled.compact(value) == wire.encode(value)


@pytest.mark.parametrize(
    "value",
    [
        {"$a": 1}, {1: 2}, b"x", "\ud800", "\x01", 1 << 63, float("nan"), float("-inf"), {"a": {3}},
        "x" * 65_537, IntEnum("Odd", "ONE").ONE, type("Text", (str,), {})("x"), UTC,
        json.loads("[" * 40 + "]" * 40),
    ],
)  # fmt: skip
def test_what_is_rare_is_left_to_python(compiled, value):
    """So are kinds that are derived from those of Python."""
    if compiled is not None:
        assert compiled.compact(value) is None


def test_formats_mean_the_same_to_every_python():
    """One module serves all: "#" is of one size to headers of 3.13, and of another to 3.11."""
    root = Path(hatch_build.__file__).parent
    files = [root / hatch_build.SOURCE, *(root / "src/alveus/values/_c").glob("*.h")]
    formats = [
        found
        for file in files
        for found in re.findall(r'(?:ParseTuple\w*|BuildValue)\([^;]*?"([^"]*)"', file.read_text())
    ]
    assert len(formats) >= 6
    assert not [found for found in formats if "#" in found]
