"""What words read: stems, pairs of characters, dates, and their bytes."""

import threading
from datetime import UTC, datetime, timedelta, timezone
from hashlib import blake2b
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alveus.values import words

MAY = datetime(2023, 5, 8, 13, 56, tzinfo=UTC)


def read(text):
    """Return the terms of a text as a set."""
    return set(words.terms(text))


def test_a_document_names_date_speaker_and_caption():
    """Words read what a reader would need to know: when, who, what, and what a picture shows."""
    text = words.document("Look!", time=MAY, speaker="Ada", caption="a photo of a dog")
    assert text == "[1:56 pm on 8 May, 2023] Ada: Look! [image: a photo of a dog]"
    assert words.document("Look!") == "Look!"
    assert words.document("Hi", caption=["a", "b"]) == "Hi [image: a; b]"


@pytest.mark.parametrize(
    ("hour", "clock"), [(0, "12:05 am"), (11, "11:05 am"), (12, "12:05 pm"), (23, "11:05 pm")]
)
def test_the_clock_has_twelve_hours(hour, clock):
    """Midnight is 12 am, noon is 12 pm."""
    time = datetime(2024, 2, 29, hour, 5, tzinfo=UTC)
    assert words.document("x", time=time) == f"[{clock} on 29 February, 2024] x"


def test_a_time_is_written_in_utc():
    """The same moment makes the same terms, whatever zone it was given in."""
    elsewhere = MAY.astimezone(timezone(timedelta(hours=-11)))
    assert words.analyse("x", elsewhere) == words.analyse("x", MAY)


def test_analysis_reads_the_document():
    """`analyse` has the terms of `document`, as if that text had been written."""
    text, caption = "I went to a support group yesterday", "a photo of a café"
    whole = words.document(text, time=MAY, speaker="Ada Lovelace", caption=caption)
    found = words.analyse(text, MAY, "Ada Lovelace", caption)
    assert found.packed == words.analyse(whole).packed
    assert set(words.unpack(found.packed)[0].tolist()) == read(whole)


def test_stop_words_go_before_stemming():
    """ "Doe" and "owner" are no stop words, though "does" and "own" are and share a stem."""
    assert words.terms("what does the own of to be") == []
    assert words.terms("doe") != []
    assert words.terms("hi, owned") != []
    assert len(words.STOP_WORDS) == 134


def test_forms_of_a_word_are_one_term():
    """Endings, case, accents and a possessive make no difference."""
    assert read("running Runs RUN") == read("run")
    assert read("Caroline's Caroline\u2019s") == read("caroline")
    assert read("CAFÉ café cafe\u0301") == read("cafe")
    assert read("tiếng Việt") == read("tieng viet")


def test_terms_are_the_same_on_every_machine():
    """A term is a CRC of its stem; stored terms must never change their meaning."""
    assert words.terms("painting sunsets 2022") == [1467646999, 3488271757, 2057965399]


@pytest.mark.parametrize(
    ("text", "question"),
    [
        ("我喜欢吃苹果", "苹果"),
        ("我有一只猫", "猫"),
        ("コーヒーが好きです", "コーヒー"),
        ("안녕하세요 학교에서", "학교"),
        ("ผมชอบกาแฟ", "กาแฟ"),
        ("他住在Berlin市", "berlin"),
        ("ｶﾞｲﾄﾞ ＡＢＣ", "ガイド abc"),
        ("か\u3099いと", "がいと"),
        ("\u1112\u1161\u11ab\u1100\u116e\u11a8", "한국"),
    ],
)
def test_scripts_without_spaces_are_found_by_a_part(text, question):
    """Every term of the question is in the text, though no space says where words begin."""
    assert read(question)
    assert read(question) <= read(text)


def test_a_lone_character_is_a_term():
    """A run of one character has no pairs, and is found all the same."""
    assert read("か") != set()
    assert read("か") <= read("x か y")


def test_numeric_dates_are_found_by_their_month():
    """A date in numbers is read as if its month were written out, in texts and in questions."""
    assert read("29 December 2023") <= read("Met on 2023-12-29.")
    assert read("5 March 2024") <= read("Treffen am 05.03.2024")
    assert read("version 1.2.2023-rc1 and 2023-99-01") & read("december january") == set()


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("I went there yesterday", 1),
        ("Last week, on Monday, in June 2022", 5),
        ("You may march on", 1),
        ("nothing of that kind", 0),
        ("2021 2022 12345 ١٢٣٤", 3),
        ("today " * 300, 255),
    ],
)
def test_temporal_words_are_counted(text, count):
    """Yesterday, weekdays, months but "may", and numbers of four digits tell a time."""
    assert words.temporal(text) == count
    assert words.analyse(text, MAY, "April").temporal == count


def test_packed_terms_come_back():
    """Terms rise, counts stand by them, repetitions count to 255."""
    packed, tokens = words.pack([17, 2**32 - 1, 17, 16, *[19] * 300])
    terms, counts = words.unpack(packed)
    assert tokens == 304
    assert terms.tolist() == [16, 17, 19, 2**32 - 1]
    assert counts.tolist() == [1, 2, 255, 1]
    assert (terms.dtype, counts.dtype) == (np.dtype("<u4"), np.uint8)
    assert words.pack([]) == (b"", 0)
    assert [part.size for part in words.unpack(b"")] == [0, 0]


@given(st.lists(st.integers(words.FIRST_TERM, 2**32 - 1), max_size=50))
def test_packing_keeps_every_term(found):
    """What goes in comes out, counted."""
    terms, counts = words.unpack(words.pack(found)[0])
    assert dict(zip(terms.tolist(), counts.tolist(), strict=True)) == {
        term: found.count(term) for term in found
    }


@given(st.text(max_size=200), st.one_of(st.none(), st.text(max_size=20)))
def test_any_text_has_an_answer(text, speaker):
    """Whatever is written, analysing never raises, and a text's terms find it."""
    found = words.analyse(text, MAY, speaker, text)
    terms = words.unpack(found.packed)[0].tolist()
    assert terms == sorted(set(terms))
    assert read(text) <= set(terms)
    assert found.tokens >= len(terms)


@pytest.mark.parametrize(
    "text",
    [
        "a\0b \ud800 lone \udfff",
        "\u0301\u0316" * 200_000,
        "\ufdfa" * 100_000,
        "x" * 1_000_000,
        "1.1." * 250_000,
        "12.12.2023 " * 50_000,
        "我" * 300_000,
        "שלום مرحبا 👩‍👩‍👧 🏽",
    ],
)
def test_hostile_texts_take_bounded_time(text):
    """No text makes the work grow faster than its length, or raises."""
    assert words.analyse(text).tokens >= 0


def test_the_cache_of_stems_is_bounded_and_forgets_nothing():
    """Emptying the cache when it is full changes no term."""
    before = words.terms("painting")
    for start in range(0, words.CACHED_TERMS + 1000, 1000):
        words.terms(" ".join(f"w{start + i}" for i in range(1000)))
    assert len(words._stems()) <= words.CACHED_TERMS
    assert words.terms("painting") == before


def test_long_words_are_not_kept():
    """A word of a megabyte is a term like any other, and takes no room in the cache."""
    assert words.terms("y" * 1_000_000) == words.terms("Y" * 1_000_000) != []
    assert max(map(len, words._stems())) <= 64


def test_threads_read_alike():
    """Each thread has a tokenizer of its own, and all say the same."""
    text = "The support group painted sunsets in 2022, 我喜欢"
    found = []
    threads = [
        threading.Thread(target=lambda: found.extend(words.analyse(text) for _ in range(200)))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 1600
    assert set(found) == {words.analyse(text)}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("किताब", "किताबें"),
        ("लड़की", "लड़कियों"),
        ("सड़क", "सड़कों"),
        ("\u0938\u095c\u0915", "\u0938\u0921\u093c\u0915"),  # a letter in one piece, or two
        ("كِتَابٌ", "كتاب"),
        ("كتاب", "الكتاب"),
        ("والمدرسة", "مدرسه"),
        ("أحمد", "احمد"),
        ("שָׁלוֹם", "שלום"),
        ("Straße", "STRASSE"),
        ("Größe", "GRÖSSE"),
        ("école", "e\u0301cole"),
        ("सन्\u200dदेश", "सन्देश"),
        ("می\u200cخواهم", "میخواهم"),
        ("کتاب", "كتاب"),
        ("٢٠٢٥", "2025"),
        ("۲۰۲۵", "२०२५"),
        ("IŞIK", "ışık"),
        ("İzmir", "izmir"),
        ("Łódź", "lodz"),
        ("ØL", "øl"),
        ("œuvre", "oeuvre"),
        ("ﬁne", "fine"),
        ("ﻛﺘﺎﺏ", "كتاب"),
        ("ΟΔΟΣ", "οδός"),
        ("ὁδός", "οδος"),
        ("ёлка", "елка"),
        ("работает", "работали"),
        ("παράθυρο", "παράθυρα"),
    ],
)
def test_spellings_of_one_word_are_one_term(one: str, other: str) -> None:
    """Signs that may be left out, and endings of number and case, make no difference."""
    assert words.terms(one)[0] == words.terms(other)[0]


@pytest.mark.parametrize(
    ("item", "question"),
    [
        ("Sie wohnte in kleinen Häusern.", "Was für ein kleines Häuschen ist das?"),
        ("Kitaplarımı evde unuttum ve geri döndüm.", "Kitaplar nerede ve kimde?"),
        ("A lucrat în spitale din București.", "În ce spital a lucrat?"),
        ("Trabajábamos en una librería.", "¿Dónde trabajaba ella?"),
    ],
)
def test_long_words_are_found_by_their_beginning(item: str, question: str) -> None:
    """In a language with endings that `porter` does not know, on items and questions alike."""
    stored = set(words.unpack(words.analyse(item).packed)[0].tolist())
    wanted = [word for word in question.strip("?¿.").split() if len(word) > words.PREFIX]
    begun = [words._hash(words._tokenize(word)[0][0][: words.PREFIX]) for word in wanted]
    shared = stored.intersection(begun)
    assert shared
    assert shared <= set(words.terms(question))


def test_english_words_and_unknown_ones_are_not_cut() -> None:
    for text in (
        "The allergies of my grandmother",
        "Rio de Janeiro",
        "wonderful peanuts",
        "2023456",
    ):
        tokens = words._tokenize(text)[0]
        assert words.terms(text) == words._terms_of(tokens)


def test_a_long_text_is_cut_in_each_passage() -> None:
    """The beginnings of a passage's words are in that passage, and in no other."""
    one, other = "Häusern ist nicht hier. " * 50, "Gärtnerei ist nicht dort. " * 50
    packed = words.analyse(one + other).packed
    numbers = np.frombuffer(packed, "<u4", len(packed) // 5)
    starts = np.flatnonzero(numbers == words.PASSAGE)
    assert len(starts) == 4
    begun = words._hash("gartn")
    held = [begun in part for part in np.split(numbers, starts[1:])]
    assert held == [False, False, True, True]


def test_different_words_are_different_terms() -> None:
    """Light stems leave short words alone."""
    every = ["नदी", "नाम", "काम", "كتب", "مكتب", "هي", "ان", "שלום", "weiss", "weis"]
    assert len({tuple(words.terms(word)) for word in every}) == len(every)
    assert words.terms("tea \U0001f375\ufe0f") == words.terms("tea \U0001f375")


_PIECES = (
    "Ada", "moved", "to", "Paris", "yesterday", "2023", "2023-12-29", "29.12.2023", "walking",
    "the", "caf\xe9", "\u5317\u4eac\u5927\u5b66", "\u3053\u3093\u306b\u3061\u306f",
    "\ud55c\uad6d\uc5b4", "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35",
    "\u0627\u0644\u0643\u062a\u0627\u0628", "\u0932\u0921\u093c\u0915\u093f\u092f\u094b\u0902",
    "\U0001f600", "\ufe0f", "\x00", "\x1e", "\ud800", "?", "\uff1f", "x" * 70, "stra\xdfe",
    "always",
)  # fmt: skip
"""Words of many scripts, dates, signs that are no words, and half a surrogate pair."""


def _random_item(random: Random) -> tuple[str, datetime | None, str | None, str | list[str] | None]:
    text = random.choice((" ", "", ", ")).join(random.choices(_PIECES, k=random.choice((0, 3, 20))))
    if random.random() < 0.05:
        text = " ".join(random.choices(_PIECES, k=300))
    zone = random.choice((None, UTC, timezone(timedelta(hours=5, minutes=30))))
    time = datetime(
        random.choice((1999, 2024)), random.randint(1, 12), random.randint(1, 28),
        random.randrange(24), random.choice((0, 7)), random.choice((0, 59)), tzinfo=zone,
    )  # fmt: skip
    speaker = random.choice((None, "", "user", "Ada L\u00f6velace", "\u674e\u96f7", "s " * 40))
    caption = random.choice((None, "a cat", ["a dog", "\u732b"]))
    return text, random.choice((None, time)), speaker, caption


def test_terms_stay_what_they_are():
    """Stores hold terms: those of a text are the same in each version, in any order of texts."""
    random = Random(18)
    items = [_random_item(random) for _ in range(3_000)]
    forward = [words.analyse(*item) for item in items]
    backward = [words.analyse(*item) for item in reversed(items)]
    assert backward[::-1] == forward
    assert blake2b(repr(forward).encode(), digest_size=8).hexdigest() == "b0dbd23a6e3c4be7"
