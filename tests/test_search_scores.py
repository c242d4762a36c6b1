"""Scores: BM25, meaning, neighbours and signals, in small sets and in large ones."""

import math
import random
from datetime import UTC, datetime

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from alveus.search.bm25 import Bm25
from alveus.search.index import SetIndex
from alveus.search.ranking import Ranking
from alveus.search.signals import QuestionSignals, Signals
from alveus.store import Feature
from alveus.values import words
from alveus.values.storable import microseconds

DIMENSIONS = 8
NOW = microseconds(datetime(2024, 1, 1, tzinfo=UTC))
DAY = 86_400_000_000
PLAIN = Signals(
    previous=0, next=0, reply=0, speaker=0, user=0, date=0, when=0, session=0, instruction=0
)

GROUP = [
    ("a", "I went to a support group yesterday", "Caroline", "s1"),
    ("b", "The support group was powerful, what a group", "Melanie", "s1"),
    ("c", "My kids love the dinosaur exhibit", "Melanie", "s1"),
    ("d", "I painted a sunset last year", "Caroline", "s2"),
    ("e", "Sunsets are lovely", "Melanie", "s2"),
    ("f", "We adopted a puppy", "Caroline", None),
]


def feature(row, name, text, **more):
    """Return the feature of a text as a store would keep it."""
    read = words.analyse(text, None, more.get("speaker"))
    known = {
        "row": row,
        "first": row,
        "id": name,
        "begin_commit": 1,
        "end_commit": None,
        "time": NOW - (1000 - row) * DAY,
        "importance": 0.0,
        "speaker": None,
        "role": None,
        "session": None,
        "metadata": "{}",
        "terms": read.packed,
        "tokens": read.tokens,
        "temporal": read.temporal,
        "vectors": b"",
    }
    return Feature(**known | more)


def vector(*numbers):
    """Return a row of `DIMENSIONS` numbers as bytes."""
    return np.array([*numbers, *[0] * (DIMENSIONS - len(numbers))], np.int8).tobytes()


def query(*numbers):
    return np.frombuffer(vector(*numbers), np.int8).astype(np.float32)


def built(features, kind=SetIndex, dimensions=DIMENSIONS):
    return kind.build(features, dimensions=dimensions)


def group():
    """Return a conversation whose vectors point half to the left, half to the right."""
    return built(
        feature(
            row,
            name,
            text,
            speaker=speaker,
            session=session,
            vectors=vector(100, 10 * row) if row % 2 else vector(-20, 100),
        )
        for row, (name, text, speaker, session) in enumerate(GROUP, 1)
    )


def search(sets, text, meaning=None, **options):
    """Return what `Ranking` finds in sets for a question."""
    sets = sets if isinstance(sets, list) else [sets]
    speakers = [name for one in sets for name in one.speakers]
    asked = {"limit": 10, "signals": Signals(), "now": NOW} | options
    question = QuestionSignals.of(text, speakers=speakers)
    return list(Ranking(sets, question, meaning, **asked).best().hits)


def ids(hits):
    return [hit.id for hit in hits]


# --- words ------------------------------------------------------------------------------------


def naive(texts, question, k1, b):
    """Return BM25 of each text, written as the textbook has it."""
    documents = [words.unpack(words.analyse(text).packed) for text in texts]
    bags = [dict(zip(t.tolist(), c.tolist(), strict=True)) for t, c in documents]
    lengths = [words.analyse(text).tokens for text in texts]
    average = sum(lengths) / len(lengths) or 1
    scores = []
    for bag, length in zip(bags, lengths, strict=True):
        score = 0.0
        for term in words.terms(question):
            held = sum(term in other for other in bags)
            idf = math.log(1 + (len(bags) - held + 0.5) / (held + 0.5))
            count = bag.get(term, 0)
            norm = k1 * (1 - b + b * length / average)
            score += idf * count * (k1 + 1) / (count + norm) if count else 0.0
        scores.append(score)
    return scores


_TEXTS = st.lists(
    st.lists(st.sampled_from(["ant", "bee", "cat", "dog", "elk", "fox"]), max_size=8).map(" ".join),
    min_size=1,
    max_size=12,
)


@pytest.fixture
def short_passages(monkeypatch):
    """Have texts cut after three words."""
    monkeypatch.setattr(words, "PASSAGE_WORDS", 3)
    monkeypatch.setattr(words, "LAST_WORDS", 2)
    monkeypatch.setattr(words, "NATIVE", None)  # compiled code goes by the usual numbers


@pytest.mark.usefixtures("short_passages")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(_TEXTS, st.integers(1, 12), st.lists(st.booleans(), min_size=12, max_size=12))
def test_a_long_text_has_the_bm25_of_its_best_passage(texts, count, shown):
    """Its passages count as texts, but in how many texts a word is; however it is worked out."""
    cuts = [words.passages(text) for text in texts]
    assert ["".join(parts) for parts in cuts] == texts
    bags = [[words.unpack(words.analyse(part).packed) for part in parts] for parts in cuts]
    lengths = [words.analyse(part).tokens for parts in cuts for part in parts]
    average = sum(lengths) / len(lengths) or 1
    expected = [0.0] * len(texts)
    for place, parts in enumerate(bags):
        for terms, counts in parts:
            score = 0.0
            for term in words.terms("cat fox gnu ant"):
                held = sum(any(term in other for other, _ in parts) for parts in bags)
                idf = math.log(1 + (len(bags) - held + 0.5) / (held + 0.5))
                number = dict(zip(terms.tolist(), counts.tolist(), strict=True)).get(term, 0)
                norm = 0.9 * (1 - 0.4 + 0.4 * int(counts.sum()) / average)
                score += idf * number * 1.9 / (number + norm) if number else 0.0
            expected[place] = max(expected[place], score)
    features = [feature(row, f"{row}", text) for row, text in enumerate(texts, 1)]
    index = built(features)
    for _ in range(4):  # asked again, a small set has its weights worked out beforehand
        bm25 = Bm25([index], words.terms("cat fox gnu ant"), Signals())
        assert bm25.all(0).tolist() == pytest.approx(expected)
    grown = built(features[:1])
    for one in features[1:]:
        grown.extend([one])
    part = Bm25([grown], words.terms("cat fox gnu ant"), Signals())
    docs = np.flatnonzero(shown[: len(texts)]).astype(np.int32)
    assert part.some(0, docs).tolist() == pytest.approx([expected[doc] for doc in docs])
    mask = np.array(shown[: len(texts)])
    top = part.top(0, count=count, allowed=mask, alone=True).tolist()
    assert top == sorted(set(top))
    best = max([score for score, seen in zip(expected, shown, strict=False) if seen], default=0)
    assert max([expected[doc] for doc in top if mask[doc]], default=0) == pytest.approx(best)


@pytest.mark.usefixtures("short_passages")
def test_passages_of_ended_items_are_gone():
    """Words, lengths and frequencies are as if the item had never been."""
    features = [feature(row, f"{row}", "tea for two and two for tea") for row in (1, 2, 3)]
    index = built(features)
    index.end(2)
    left = built([features[0], features[2]])
    assert (index.live_passages, index.tokens) == (left.live_passages, left.tokens)
    for _ in range(4):
        assert [hit.score for hit in search(index, "two tea")] == [
            hit.score for hit in search(left, "two tea")
        ]


@given(_TEXTS, st.integers(1, 3), st.floats(0, 3), st.floats(0, 1))
def test_bm25_is_that_of_the_textbook(texts, parts, k1, b):
    """Over one set or several, whole or of some docs, BM25 is the same and is right."""
    question = "cat fox gnu ant"
    expected = naive(texts, question, k1, b)
    sets = [
        built(feature(row, f"{row}", text) for row, text in enumerate(texts[part::parts], 1))
        for part in range(parts)
    ]
    bm25 = Bm25(sets, words.terms(question), Signals(k1=k1, b=b))
    for part, index in enumerate(sets):
        found = bm25.all(part)
        assert found.tolist() == pytest.approx(expected[part::parts])
        some = np.arange(0, index.size, 2, dtype=np.int32)
        assert bm25.some(part, some).tolist() == found[some].tolist()


def test_words_are_counted_among_the_live():
    """An ended doc has no score, no frequency and no length."""
    index = group()
    alive = [feature(row, name, text) for row, (name, text, *_) in enumerate(GROUP, 1) if row != 2]
    end(index, 2)
    hits = search(index, "support group", signals=PLAIN)
    expected = search(built(alive), "support group", signals=PLAIN)
    assert ids(hits) == ids(expected) == ["a"]


def end(index, row):
    """End the doc of a row, as the index does when its item is retired."""
    index.end(row)


def test_the_best_by_words_has_a_one():
    """Words are divided by the best BM25 that the question reaches in the sets searched."""
    hits = search([group(), built([feature(9, "g", "a sunset over the group")])], "support group")
    assert max(hit.parts["words"] for hit in hits) == 1.0
    assert {hit.set for hit in hits} == {0, 1}


# --- the sum ----------------------------------------------------------------------------------


def test_a_score_is_the_sum_of_its_parts():
    """Every part is weighted already; with all signals on, they still add up."""
    signals = Signals(recency=0.3, importance=0.2, decay=0.5)
    hits = search(group(), "When did Caroline paint in 2023?", query(1, 2, 3), signals=signals)
    assert len(hits) == len(GROUP)
    assert set(hits[0].parts) == {
        *("words", "meaning", "previous", "next", "speaker", "date", "when", "session"),
        *("recency", "importance", "decay"),
    }
    for hit in hits:
        assert hit.score == pytest.approx(sum(hit.parts.values()), abs=1e-9)
        assert hit.score == round(hit.score, 9)


def test_neighbours_in_a_session_lend_their_base():
    """A fifth of words and meaning of the item before, a tenth of the one after, no signals."""
    base = {hit.id: hit.score for hit in search(group(), "powerful puppy", signals=PLAIN)}
    signals = Signals(session=0)
    hits = {hit.id: hit for hit in search(group(), "powerful puppy", signals=signals)}
    assert set(base) == {"b", "f"}
    assert set(hits) == {"a", "b", "c", "f"}
    assert hits["c"].parts == pytest.approx({"words": 0, "previous": 0.2 * base["b"], "next": 0})
    assert hits["a"].parts == pytest.approx({"words": 0, "previous": 0, "next": 0.1 * base["b"]})
    assert {name: hits[name].score for name in base} == base


def test_meaning_is_two_cosines():
    """Of the windows of a text the best one counts."""
    both = vector(100) + vector(0, 100)
    index = built([feature(1, "a", "x", vectors=both), feature(2, "b", "x", vectors=vector(0, 9))])
    hits = search(index, "?", query(1, 0), signals=PLAIN)
    assert [(hit.id, hit.score) for hit in hits] == [("a", 2.0)]
    hits = search(index, "?", query(3, 4), signals=PLAIN)
    assert [hit.score for hit in hits] == pytest.approx([1.6, 1.6], abs=1e-4)


def test_the_speaker_who_is_named_weighs():
    """Items said by the one who is named gain .45; the others nothing."""
    hits = {hit.id: hit.parts["speaker"] for hit in search(group(), "What did Melanie say?")}
    assert hits == {"b": 0.45, "c": 0.45, "e": 0.45, "a": 0.0, "d": 0.0}


def test_i_weighs_for_the_user():
    """ "I" asks for what the role user said; a set without roles has no such signal."""
    roles = ["user", "assistant", "user"]
    index = built(feature(row, f"{row}", "tea", role=role) for row, role in enumerate(roles, 1))
    hits = search(index, "Do I like tea?")
    assert [(hit.id, hit.parts["user"]) for hit in hits] == [("1", 0.8), ("3", 0.8), ("2", 0)]
    assert not {"user", "speaker"} & set(search(group(), "Do I like sunsets?")[0].parts)


def talk(*turns, **more):
    """Return a set of (text, speaker, session) turns, one after the other."""
    return built(
        feature(row, f"{row}", text, speaker=speaker, session=session, **more)
        for row, (text, speaker, session) in enumerate(turns, 1)
    )


def test_an_answer_takes_more_of_its_question():
    """An item after a question takes a fifth more of it; of the speaker who is named, if any."""
    index = talk(("Any tea left?", "Ada", "s"), ("Plenty", "Bob", "s"), ("Fine", "Ada", "s"))
    parts = {hit.id: hit.parts for hit in search(index, "tea", signals=Signals(session=0))}
    assert {"2"} == {name for name in parts if parts[name]["reply"]}
    assert parts["2"]["reply"] == parts["2"]["previous"] == pytest.approx(0.2)
    named = {hit.id: hit.parts for hit in search(index, "What did Bob say of tea?")}
    assert named["2"]["reply"] > 0
    other = {hit.id: hit.parts for hit in search(index, "What did Ada say of tea?")}
    assert other["2"]["reply"] == 0
    assert "reply" not in search(index, "Do I like tea?")[0].parts  # nobody has the role user
    long = talk(("tea " * 61 + "?", "Ada", "s"), ("Plenty", "Bob", "s"))
    assert "reply" not in search(long, "tea")[0].parts


def test_the_best_of_a_session_lends_to_all_of_it():
    """Three tenths of the best score in the session, or of its own without one."""
    index = talk(
        ("green tea with milk", "Ada", "s1"),
        ("tea", "Bob", "s1"),
        ("tea", "Bob", None),
        ("coffee", "Bob", "s1"),
    )
    weigh = PLAIN.to_json()
    plain = {hit.id: hit.score for hit in search(index, "green tea", signals=PLAIN)}
    hits = search(index, "green tea", signals=Signals(**weigh | {"session": 0.3}))
    assert {hit.id: hit.parts["session"] for hit in hits} == pytest.approx(
        {"1": 0.3, "2": 0.3, "3": 0.3 * plain["3"]}
    )
    assert {hit.id for hit in hits} == set(plain)  # a session finds nothing by itself
    shown = np.array([False, True, True, True])
    hits = search(index, "green tea", signals=Signals(**weigh | {"session": 0.3}), allowed=[shown])
    assert {hit.id: hit.parts["session"] for hit in hits} == pytest.approx(
        {"2": 0.3 * plain["2"], "3": 0.3 * plain["3"]}
    )


def test_forms_of_texts_weigh():
    """Standing instructions gain, short questions lose; longer texts of either kind do not."""
    signals = Signals(**PLAIN.to_json() | {"instruction": 0.4, "short_question": 0.2})
    texts = {
        "Always bring tea": {"instruction": 0.4},
        "please, from now on bring tea": {"instruction": 0.4},
        "Never mind the tea": {},
        "Always bring " + "tea " * 40: {},
        "Is there tea?": {"short_question": -0.2},
        "Is there tea?**": {"short_question": -0.2},
        "Is there " + "tea " * 25 + "?": {},
        "這是 tea？": {"short_question": -0.2},
    }
    index = built(feature(row, f"{row}", text) for row, text in enumerate(texts, 1))
    found = {hit.id: hit.parts for hit in search(index, "tea", signals=signals)}
    for row, (text, expected) in enumerate(texts.items(), 1):
        parts = {name: part for name, part in found[f"{row}"].items() if part and name != "words"}
        assert parts == pytest.approx(expected), text


def test_the_mean_of_windows_may_count():
    """A share of the mean in place of the best, in a set scored whole and in one that is not."""
    both = vector(100) + vector(0, 100)
    features = [feature(1, "a", "x", vectors=both), feature(2, "b", "x", vectors=vector(0, 9))]
    for kind in (SetIndex, Part):
        for mean, expected in ((0.5, 1.5), (1.0, 1.0)):
            signals = Signals(**PLAIN.to_json() | {"mean": mean})
            hits = search(built(features, kind), "?", query(1, 0), signals=signals)
            assert (hits[0].id, hits[0].score) == ("a", pytest.approx(expected))


def test_a_date_and_temporal_words_weigh():
    """Closeness to the date times .3; for "when", .075 for each of at most two temporal words."""
    index = built(
        [
            feature(1, "a", "tea", time=microseconds(datetime(2023, 5, 8, tzinfo=UTC))),
            feature(2, "b", "tea yesterday", time=microseconds(datetime(2023, 5, 20, tzinfo=UTC))),
            feature(3, "c", "tea last year in June 2020"),
        ]
    )
    hits = {hit.id: hit.parts for hit in search(index, "When was tea on 8 May 2023?")}
    assert [hits[name]["date"] for name in "abc"] == pytest.approx([0.3, 0.09, 0])
    assert [hits[name]["when"] for name in "abc"] == pytest.approx([0, 0.075, 0.15])


def test_new_items_may_weigh_more():
    """Recency halves with each half-life; a time in the future is as good as now."""
    signals = Signals(recency=1, half_life_days=10)
    times = [NOW + 5 * DAY, NOW, NOW - 10 * DAY, NOW - 20 * DAY]
    index = built(feature(row, f"{row}", "tea", time=time) for row, time in enumerate(times, 1))
    hits = search(index, "tea", signals=signals)
    assert [hit.parts["recency"] for hit in hits] == pytest.approx([1, 1, 0.5, 0.25])
    assert ids(hits) == ["1", "2", "3", "4"]


def test_age_may_take_a_share_of_the_score():
    """Decay takes half of its share in a half-life, and never more than its share."""
    index = built(
        feature(row, f"{row}", "tea", time=time)
        for row, time in enumerate([NOW, NOW - 30 * DAY, NOW - 30_000 * DAY], 1)
    )
    hits = search(index, "tea", signals=Signals(decay=0.8, session=0))
    assert [hit.score for hit in hits] == pytest.approx([1.0, 0.6, 0.2])


def test_important_items_may_weigh_more():
    """Importance counts as it was given, times its weight."""
    index = built(feature(row, f"{row}", "tea", importance=row / 4) for row in (1, 2, 3))
    hits = search(index, "tea", signals=Signals(importance=2, session=0))
    assert [(hit.id, hit.score) for hit in hits] == [("3", 2.5), ("2", 2.0), ("1", 1.5)]


# --- what is a hit ----------------------------------------------------------------------------


def test_without_meaning_a_hit_needs_evidence():
    """Being new or important, or telling a time, finds nothing that was not asked for."""
    signals = Signals(recency=1, importance=1)
    assert search(group(), "When was the xylophone?", signals=signals) == []
    assert search(group(), "", signals=signals) == []
    assert ids(search(group(), "puppy", signals=signals)) == ["f"]


def test_with_meaning_everything_is_ranked():
    """However far it is, a text that has a vector has its place."""
    hits = search(group(), "xylophone", query(-1, 0, 0))
    assert len(hits) == len(GROUP)
    assert hits[-1].score < 0


def test_an_item_without_a_vector_needs_evidence():
    """What is not embedded yet is found by its words, and else not at all."""
    index = built(
        [
            feature(1, "a", "tea", vectors=None),
            feature(2, "b", "milk", vectors=None),
            feature(3, "c", "milk", vectors=vector(-1)),
        ]
    )
    assert ids(search(index, "tea", query(1))) == ["a", "c"]


def test_a_weight_of_zero_switches_off():
    """Without words only meaning counts, and the other way round."""
    hits = search(group(), "support group", query(1), signals=Signals(words=0))
    assert {hit.parts["words"] for hit in hits} == {0.0}
    assert search(group(), "support group", query(1), signals=Signals(meaning=0)) == search(
        group(), "support group"
    )


@pytest.mark.parametrize("limit", [-1, 0])
def test_nothing_asked_is_nothing_found(limit):
    """No room, no sets, no items: no hits."""
    assert search(group(), "group", limit=limit) == []
    assert search([], "group", query(1)) == []
    assert search(built([]), "group", query(1)) == []


def test_ties_stand_by_id():
    """Equal scores stand by id, also where the limit cuts through them, in any order of rows."""
    names = [f"{i:02}" for i in range(40)]
    for seed in range(5):
        order = random.Random(seed).sample(names, len(names))
        index = built(
            feature(row, name, "tea", vectors=vector(1)) for row, name in enumerate(order, 1)
        )
        assert ids(search(index, "tea", query(1), limit=7)) == names[:7]


def test_a_page_of_hits_is_the_beginning_of_a_longer_one():
    """Asking for more changes nothing of what stands first."""
    everything = search(group(), "support group of Melanie", query(1, 1), limit=99)
    for limit in range(1, len(GROUP)):
        assert (
            search(group(), "support group of Melanie", query(1, 1), limit=limit)
            == (everything[:limit])
        )


# --- filters ----------------------------------------------------------------------------------


@given(st.lists(st.booleans(), min_size=len(GROUP), max_size=len(GROUP)), st.booleans())
def test_a_filter_hides_and_changes_no_score(shown, meaning):
    """What a filter lets through has the score and the parts that it has without the filter."""
    asked = ("When did Caroline go to the group?", query(1, 1) if meaning else None)
    signals = Signals(session=0)  # the best of a session lends a part only where it is shown
    everything = search(group(), *asked, signals=signals)
    mask = np.array(shown)
    hits = search(group(), *asked, allowed=[mask], signals=signals)
    assert hits == [hit for hit in everything if mask[hit.doc]]


# --- large sets -------------------------------------------------------------------------------


class Whole(SetIndex):
    """A set that is scored whole, however large."""

    @property
    def exact(self):
        return True


class Part(SetIndex):
    """A set that is scored by candidates, however small."""

    @property
    def exact(self):
        return False


WIDE = 384
CROWD = 7
NOUNS = [f"noun{i}" for i in range(3000)]


def crowd(size, seed):
    """Return features of a long talk: words are rare or common, some docs are alike in meaning."""
    draw = random.Random(seed)
    rows = np.random.default_rng(seed)
    topics = rows.normal(size=(40, WIDE))  # as in `wide`
    for row in range(1, size + 1):
        topic = draw.randrange(40)
        spoken = [NOUNS[int(len(NOUNS) * draw.random() ** 3)] for _ in range(12)]
        yield feature(
            row,
            f"{row:06}",
            " ".join([*spoken, f"topic{topic}"]),
            speaker=draw.choice(["Ada", "Bob"]),
            session=f"{row // 30}",
            importance=draw.random(),
            time=NOW - (size - row) * 3_600_000_000,
            vectors=np.clip(25 * (topics[topic] + 2 * rows.normal(size=WIDE)), -127, 127)
            .astype(np.int8)
            .tobytes(),
        )


@pytest.fixture(scope="module")
def crowds():
    """Return the same large set twice: scored by candidates, and whole."""
    features = list(crowd(11_000, CROWD))
    return built(features, dimensions=WIDE), built(features, Whole, dimensions=WIDE)


QUESTIONS = [
    "Did Ada say noun2900?",
    "What of noun0 noun1 noun2?",
    "topic3 and noun700",
    "Bob",
    "noun5 noun50 noun500 topic9 Ada",
    "When was noun1234 in May 2023?",
]


def wide(topic):
    """Return a vector that is near to those of a topic of the crowd."""
    topics = np.random.default_rng(CROWD).normal(size=(40, WIDE))
    noise = np.random.default_rng(topic).normal(size=WIDE)
    return (topics[topic] + noise).astype(np.float32)


@pytest.mark.parametrize("text", QUESTIONS)
@pytest.mark.parametrize("topic", [None, 1, 2])
def test_a_large_set_answers_as_if_scored_whole(crowds, text, topic):
    """Candidates are chosen so that the best hits are those of the whole set, scores and all."""
    large, whole = crowds
    assert not large.exact
    meaning = None if topic is None else wide(topic)
    assert search(large, text, meaning) == search(whole, text, meaning)


@pytest.mark.parametrize("share", [0.5, 0.05])
def test_a_filter_changes_no_score_of_a_large_set(crowds, share):
    """With a filter that leaves many or few, hits and scores are those of the whole set."""
    large, whole = crowds
    mask = np.random.default_rng(3).random(large.size) < share
    for text in QUESTIONS:
        hits = search(large, text, wide(3), allowed=[mask])
        assert hits == search(whole, text, wide(3), allowed=[mask])


@pytest.mark.parametrize(
    "signals", [Signals(recency=5, session=0), Signals(importance=5, session=0)]
)
def test_being_new_or_important_brings_candidates(crowds, signals):
    """Where it weighs more than words and meaning, the newest or gravest are found."""
    large, whole = crowds
    for text in QUESTIONS:
        hits = search(large, text, wide(4), signals=signals)
        assert hits == search(whole, text, wide(4), signals=signals)


def test_large_and_small_sets_are_ranked_together(crowds):
    """Frequencies and the best BM25 are those of all sets, whichever way they are scored."""
    large, whole = crowds
    for text in QUESTIONS:
        assert search([large, group()], text) == search([whole, group()], text)


@given(_TEXTS, st.integers(1, 8), st.lists(st.booleans(), min_size=12, max_size=12))
def test_the_best_by_words_are_found_without_adding_up_all(texts, count, shown):
    """Whatever is skipped, the best allowed docs by words, and the best of all, are there."""
    index = built((feature(row, f"{row}", text) for row, text in enumerate(texts, 1)), Part)
    bm25 = Bm25([index], words.terms("cat fox gnu ant"), Signals())
    scores, mask = bm25.all(0), np.array(shown[: len(texts)])
    found = bm25.top(0, count=count, allowed=mask, alone=True).tolist()
    assert found == sorted(set(found))
    best = sorted(scores[mask & (scores > 0)].tolist(), reverse=True)[:count]
    reached = sorted([scores[doc] for doc in found if mask[doc]], reverse=True)
    assert reached[: len(best)] == pytest.approx(best)
    assert not scores.any() or scores[found].max() == scores.max()


def test_a_term_that_is_only_looked_up_still_lifts_docs():
    """A common term brings no docs, but it may lift one of many that hold the rare term."""
    rest = "one two three four five six"
    groups = {"rare": 60, "rare common": 25, "common": 700, "other": 700}
    texts = [f"{text} {rest}" for text, number in groups.items() for _ in range(number)]
    index = built((feature(row, f"{row}", text) for row, text in enumerate(texts, 1)), Part)
    bm25 = Bm25([index], words.terms("rare common"), Signals())
    assert bm25.all(0)[0] < bm25.all(0)[60]
    assert bm25.top(0, count=5, allowed=None, alone=True).tolist() == [60, 61, 62, 63, 64]
    shown = np.arange(index.size) < 60
    found = bm25.top(0, count=5, allowed=shown, alone=True).tolist()
    assert found == [0, 1, 2, 3, 4, 60]


# --- what is kept -----------------------------------------------------------------------------


@given(texts=_TEXTS, question=st.sampled_from(["ant bee", "fox", "dog cat elk ant", "gnu"]))
def test_kept_weights_change_no_score(texts, question):
    """Asked again and again, in a set with holes too, a question has the answer it had at once."""
    features = [feature(row, f"i{row}", text) for row, text in enumerate(texts, 1)]
    index = built(features)
    for ended in (None, 1, len(texts)):
        if ended is not None:
            index.end(ended)
        for signals in (PLAIN, Signals(k1=1.2, b=0.75)):
            answers = [search(index, question, signals=signals) for _ in range(4)]
            alive = [f for f in features if index.find(f.row) is not None]
            fresh = search(built(alive), question, signals=signals) if alive else []
            for answer in answers:
                assert [(h.id, h.score, dict(h.parts)) for h in answer] == [
                    (h.id, h.score, dict(h.parts)) for h in fresh
                ]


def test_a_change_is_seen_by_what_is_kept():
    """A doc that comes, or goes, after weights were kept is found, or is not."""
    index = built([feature(1, "a", "red apple"), feature(2, "b", "green apple")])
    for _ in range(3):
        assert ids(search(index, "apple", signals=PLAIN)) == ["a", "b"]
    index.extend([feature(3, "c", "apple")])
    for _ in range(3):
        assert ids(search(index, "apple", signals=PLAIN)) == ["c", "a", "b"]
    index.end(1)
    for _ in range(3):
        assert ids(search(index, "apple", signals=PLAIN)) == ["c", "b"]
