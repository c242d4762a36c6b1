"""What search reads from a question: names, dates, "when", "I"; and the weights of it all."""

import json
import math
from datetime import UTC, date, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alveus import Item, Memory
from alveus.errors import InvalidInput
from alveus.search.signals import MAX_TERMS, QuestionSignals, Signals, respelled
from alveus.values import words
from alveus.values.dates import NamedDate, closeness, named_date
from alveus.values.storable import microseconds

SPEAKERS = ("Caroline", "Melanie")


def ask(text, *speakers):
    return QuestionSignals.of(text, speakers=speakers or SPEAKERS)


def date_of(text):
    found = QuestionSignals.of(text).date
    return found and (found.year, found.month, found.day)


# --- names ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("What did Caroline research?", "What did research?"),
        ("what did caroline's friend say", "what did friend say"),
        ("What is Caroline\u2019s job?", "What is job?"),
        ("CAROLINE, where do you live?", ", where do you live?"),
    ],
)
def test_the_one_speaker_named_is_found_and_left_out_of_meaning(text, meaning):
    """A name in any case, with or without 's, names its speaker and says nothing of meaning."""
    question = ask(text)
    assert question.speaker == "Caroline"
    assert question.meaning == meaning
    assert question.text == text


def test_two_speakers_named_are_no_signal():
    """Where several are named, nobody is preferred; their names still leave the meaning."""
    question = ask("When did Caroline and Melanie meet?")
    assert question.speaker is None
    assert question.meaning == "When did and meet?"


def test_words_keep_the_name():
    """Words look for the whole question: the name is in the documents too."""
    assert ask("What did Caroline say?").terms == ask("What did Caroline say?", "Zoe").terms


@pytest.mark.parametrize("text", ["Caroline", "Who is Caroline?", "And Melanie's?"])
def test_meaning_is_never_emptied(text):
    """A question that is nothing but names keeps them."""
    assert ask(text).meaning == text


def test_unknown_names_stay():
    """Only names of those who speak in the scope are names here."""
    question = ask("What did Zoe say to Carolina?")
    assert (question.speaker, question.meaning) == (None, question.text)


@pytest.mark.parametrize(
    ("text", "speakers", "speaker"),
    [
        ("What did Alice say?", ("Alice Smith", "Bob Jones"), "Alice Smith"),
        ("What did Alice Jones say?", ("Alice Smith", "Alice Jones"), "Alice Jones"),
        ("What did Alice say?", ("Alice Smith", "Alice Jones"), None),
        ("What did Alice say?", ("Alice", "Alice Jones"), "Alice"),
        ("What did Dr. Smith say?", ("Dr. Smith", "Ada"), "Dr. Smith"),
        ("What did Smith say?", ("Dr. Smith", "Ada"), "Dr. Smith"),
        ("What did jean-luc say?", ("Jean-Luc Picard", "Ada"), "Jean-Luc Picard"),
        ("What did O\u2019Neill say?", ("O'Neill", "Ada"), "O'Neill"),
        ("小明昨天说了什么?", ("小明", "王伟"), "小明"),
        ("Was hat Jürgen gesagt?", ("Jürgen", "Ada"), "Jürgen"),
        ("What did user 7 say?", ("User 7", "User 8"), "User 7"),
    ],
)
def test_first_and_whole_names_name_a_speaker(text, speakers, speaker):
    """The longest name wins; a first name that two share names neither."""
    assert ask(text, *speakers).speaker == speaker


@pytest.mark.parametrize(
    ("text", "speakers"),
    [
        ("How do I add a user to the system?", ("user", "assistant")),
        ("Will she come?", ("Will", "Ada")),
        ("What will happen?", ("Will", "Ada")),
        ("What happened in April 2023?", ("April", "Ada")),
        ("What happened on 5 June?", ("June", "Ada")),
        ("I hope to mark the day", ("Hope", "Mark")),
        ("Is vitamin A good?", ("A", "B")),
        ("What happened in 2023?", ("2023", "Ada")),
        ("What is it?", ("", " ", "!?", "The")),
    ],
)
def test_words_that_are_no_names_here_name_nobody(text, speakers):
    """Roles, verbs, months and numbers are names only where they are written like names."""
    question = ask(text, *speakers)
    assert question.speaker is None
    assert question.meaning == text


@pytest.mark.parametrize(
    ("text", "speaker"),
    [
        ("Where did Will go?", "Will"),
        ("Will's house?", "Will"),
        ("What did April do in May 2023?", "April"),
    ],
)
def test_words_that_are_names_too_need_a_capital(text, speaker):
    """Written like a name, inside of a sentence, a common word is one."""
    assert ask(text, "Will", "April").speaker == speaker


def test_a_speaker_called_like_a_month_is_no_date():
    """A word is read once: as a name or as a month."""
    assert ask("What did April say?", "April", "Ada").date is None
    assert ask("What did April do in May 2023?", "April", "Ada").date == NamedDate(2023, 5, None)


@pytest.mark.parametrize(
    ("text", "says_i"),
    [
        ("Where did I park?", True),
        ("what did i say", True),
        ("What's my name?", True),
        ("I\u2019m allergic to what?", True),
        ("What did Caroline tell me?", False),
        ("Where is it?", False),
        ("Dove sono i libri?", False),
    ],
)
def test_i_points_to_the_user_unless_a_speaker_is_named(text, says_i):
    """I, me, my and mine; but in Italian "i" is "the"."""
    assert ask(text).says_i is says_i


# --- when -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "when"),
    [
        ("When did it happen?", True),
        ("how long has she lived there?", True),
        ("In what year was it?", True),
        ("Which month?", True),
        ("For how many weeks?", True),
        ("Since when?", True),
        ("What did she say when he left?", False),
        ("How many dogs?", False),
        ("What timeline?", False),
        ("Wann war das?", True),
    ],
)
def test_a_question_may_ask_for_a_time(text, when):
    """When, how long, which year, how many days: at the start, or anywhere for the last."""
    assert QuestionSignals.of(text).when is when


# --- dates ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "date"),
    [
        ("What happened in May 2023?", (2023, 5, None)),
        ("What happened in may?", (None, 5, None)),
        ("May I ask?", None),
        ("What may I do?", None),
        ("On 8 May, 2023?", (2023, 5, 8)),
        ("On May 8th, 2023?", (2023, 5, 8)),
        ("On the 2nd of June?", (None, 6, 2)),
        ("On june 2?", (None, 6, 2)),
        ("by Sept. 2022", (2022, 9, None)),
        ("late Oct", (None, 10, None)),
        ("Did they march?", None),
        ("in March", (None, 3, None)),
        ("on 45 July", (None, 7, None)),
        ("on 30 February 2023", (2023, 2, None)),
        ("on 29 February", (None, 2, 29)),
        ("December 5:30 pm", (None, 12, None)),
        ("in 2022", (2022, None, None)),
        ("in 1999", None),
        ("$2000 or 2048x or 2,000 or 2012.5", None),
        ("on 2023-12-29", (2023, 12, 29)),
        ("in 2023-12", (2023, 12, None)),
        ("2023-13-45", (2023, None, None)),
        ("am 29.12.2023", (2023, 12, 29)),
        ("am 8. Mai 2023", (2023, 5, 8)),
        ("im Dezember", (None, 12, None)),
        ("le 3 août", (None, 8, 3)),
        ("el 3 de enero de 2024", (2024, 1, 3)),
        ("on 12/29/2023", (2023, 12, 29)),
        ("on 29/12/2023", (2023, 12, 29)),
        ("on 5/5/2023", (2023, 5, 5)),
        ("on 4/5/2023", (2023, None, None)),
        ("2023年12月29日", (2023, 12, 29)),
        ("12月", (None, 12, None)),
        ("version 1.2.3 or 10.0.0.2023", None),
        ("nothing", None),
    ],
)
def test_a_date_is_read(text, date):
    """Months need no year, days a month; "may" is mostly a verb; what is unclear is left out."""
    assert date_of(text) == date


def at(year, month, day, hour=12):
    return microseconds(datetime(year, month, day, hour, tzinfo=UTC))


@pytest.mark.parametrize(
    ("date", "time", "expected"),
    [
        (NamedDate(2023, 5, 8), (2023, 5, 8), 1.0),
        (NamedDate(2023, 5, 8), (2023, 5, 9), 1.0),
        (NamedDate(2023, 5, 8), (2023, 5, 7), 0.7),
        (NamedDate(2023, 5, 8), (2023, 5, 10), 0.7),
        (NamedDate(2023, 5, 8), (2023, 5, 15), 0.7),
        (NamedDate(2023, 5, 8), (2023, 5, 16), 0.3),
        (NamedDate(2023, 5, 8), (2023, 5, 6), 0.3),
        (NamedDate(2023, 5, 8), (2023, 6, 1), 0.0),
        (NamedDate(2023, 5, 8), (2022, 5, 8), 0.0),
        (NamedDate(2023, 5, 31), (2023, 6, 1), 0.0),
        (NamedDate(2023, 5, 1), (2023, 4, 30), 0.0),
        (NamedDate(None, 5, 8), (1999, 5, 8), 1.0),
        (NamedDate(None, 5, None), (2031, 5, 31), 0.5),
        (NamedDate(2023, None, None), (2023, 12, 31), 0.25),
        (NamedDate(2023, None, None), (2024, 1, 1), 0.0),
        (NamedDate(None, 2, 29), (2024, 2, 29), 1.0),
        (NamedDate(None, 2, 29), (2023, 2, 28), 0.0),
        (NamedDate(9999, 12, None), (9999, 12, 31), 0.5),
    ],
)
def test_closeness_to_a_date(date, time, expected):
    """One on the day or the day after, less around it, less in its month; year and month agree."""
    others = [at(1990, 1, 1), at(2040, 1, 1)]
    assert closeness(date, np.array([at(*time), *others], np.int64))[0] == expected


def test_closeness_changes_at_midnight():
    """Days begin at 0 o'clock UTC."""
    midnight = datetime(2023, 5, 8, tzinfo=UTC)
    times = [midnight + timedelta(microseconds=step) for step in (-1, 0)]
    days = np.array([microseconds(time) for time in times], np.int64)
    assert closeness(NamedDate(2023, 5, 8), days).tolist() == [0.7, 1.0]


def test_closeness_of_nothing_is_nothing():
    """A set without items has no times."""
    assert closeness(NamedDate(None, 5, None), np.zeros(0, np.int64)).size == 0


@given(
    st.one_of(st.none(), st.integers(1900, 2099)),
    st.integers(1, 12),
    st.one_of(st.none(), st.integers(1, 31)),
    st.lists(
        st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31)),  # noqa: DTZ001 - zone is added
        max_size=5,
    ),
)
def test_closeness_is_what_a_calendar_says(year, month, day, times):
    """Steps over microseconds say the same as counting days, for any time."""
    date = NamedDate(year, month, day)
    zoned = [time.replace(tzinfo=UTC) for time in times]
    found = closeness(date, np.array([microseconds(time) for time in zoned], np.int64))
    last = max((time.year for time in zoned), default=0)
    for value, time in zip(found.tolist(), zoned, strict=True):
        if year is not None or time.year >= last - 200:
            assert value == _by_calendar(date, time)


def _by_calendar(date, time):
    if date.month != time.month or date.year not in {None, time.year}:
        return 0.0
    if date.day is None:
        return 0.5
    try:
        named = datetime(time.year, date.month, date.day, tzinfo=UTC)
    except ValueError:
        return 0.0
    days = (time - named) // timedelta(days=1)
    return 1.0 if days in {0, 1} else 0.7 if -1 <= days <= 7 else 0.3


# --- any question -----------------------------------------------------------------------------


@given(st.text(max_size=300), st.lists(st.text(max_size=20), max_size=5))
def test_any_question_can_be_read(text, speakers):
    """Nothing that is written, by anyone called anything, raises; meaning is never emptied."""
    question = QuestionSignals.of(text, speakers=speakers)
    assert question.meaning.strip() or not text.strip()
    assert question.speaker is None or question.speaker in speakers
    assert len(set(question.terms)) == len(question.terms) <= MAX_TERMS


_PHRASES = ["May", "8", "of", "2023", "Caroline", "'s", "in", "29.12.", "when", "I", ",", "月", "/"]


@given(st.lists(st.sampled_from(_PHRASES), max_size=12), st.sampled_from(["", " "]))
def test_any_mix_of_dates_and_names_can_be_read(parts, space):
    """Dates and names in any order never raise, and a date is one that a calendar has."""
    found = ask(space.join(parts)).date
    if found and found.day:
        assert found.month
        assert datetime(found.year or 2024, found.month, found.day, tzinfo=UTC)


@pytest.mark.parametrize(
    "text",
    ["Caroline " * 100_000, "8 may " * 100_000, "a-" * 400_000, "1/" * 400_000, "我" * 300_000],
)
def test_a_pasted_page_takes_bounded_time(text):
    """A question of a megabyte is read like any other, its first terms only."""
    assert len(ask(text).terms) <= MAX_TERMS


def test_a_long_question_is_cut():
    """Two hundred and fifty-six terms are searched."""
    assert len(QuestionSignals.of(" ".join(f"w{i}" for i in range(1000))).terms) == MAX_TERMS


def test_many_speakers_are_no_trouble():
    """In a group of thousands the one who is named is found."""
    crowd = [f"Member{i} Of{i}" for i in range(5000)]
    assert QuestionSignals.of("What did member77 say?", speakers=crowd).speaker == "Member77 Of77"


# --- misspelt names ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("What did Melany say?", "What did Melanie say?"),
        ("Melany's plan, and Caroline's?", "Melanie's plan, and Caroline's?"),
        ("what did melany say?", "what did melany say?"),  # no capital
        ("What did Mel say?", "What did Mel say?"),  # too short to be told apart
        ("Did Melbourne answer?", "Did Melbourne answer?"),  # items speak of it
        ("Did Zelanie answer?", "Did Zelanie answer?"),  # another first letter
        ("Did Mortimer answer?", "Did Mortimer answer?"),  # not alike
        ("What did Melanie say?", "What did Melanie say?"),
    ],
)
def test_misspelt_names_become_those_of_speakers(text, expected):
    """Only capitalised words that nobody knows, and only if they are alike."""
    known = set(words.terms("Melbourne"))
    assert respelled(text, SPEAKERS, 0.66, known.__contains__) == expected
    assert respelled(text, [], 0.66, known.__contains__) == text


# --- weights ----------------------------------------------------------------------------------


def test_weights_are_those_that_were_measured():
    """The defaults are the recipe; changing one changes every ranking."""
    assert Signals().to_json() == {
        "words": 1.0,
        "meaning": 2.0,
        "previous": 0.2,
        "next": 0.1,
        "reply": 0.2,
        "speaker": 0.45,
        "user": 0.8,
        "date": 0.3,
        "when": 0.15,
        "session": 0.3,
        "instruction": 0.4,
        "short_question": 0.2,
        "recency": 0.0,
        "importance": 0.0,
        "mean": 0.0,
        "entities": 0.0,
        "names": 0.0,
        "decay": 0.0,
        "half_life_days": 30.0,
        "k1": 0.9,
        "b": 0.4,
    }


def test_weights_survive_json():
    """What a set stores is what it was given; what is not stored is the default."""
    weights = Signals(recency=0.5, half_life_days=7, words=0)
    assert Signals.from_json(json.loads(json.dumps(weights.to_json()))) == weights
    assert Signals.from_json({"recency": 1}) == Signals(recency=1)
    assert Signals.from_json(None) == Signals()


@pytest.mark.parametrize(
    "weights",
    [
        {"words": -1},
        {"meaning": math.nan},
        {"date": math.inf},
        {"when": 1e7},
        {"decay": 1.5},
        {"b": 1.01},
        {"mean": 1.01},
        {"names": 2},
        {"half_life_days": 0},
        {"speaker": "much"},
        {"importance": True},
        {"k1": None},
    ],
)
def test_weights_that_make_no_sense_are_refused(weights):
    """The error names the weight and its range."""
    with pytest.raises(InvalidInput, match=next(iter(weights))):
        Signals(**weights)


def test_unknown_weights_are_refused():
    """A misspelt weight would silently weigh nothing."""
    with pytest.raises(
        InvalidInput, match=r"no signals \['wordz'\]; the signals are words, meaning"
    ):
        Signals.from_json({"wordz": 1})


def test_a_text_without_the_word_of_a_month_costs_no_search():
    """`named_date` is told the words of the text, in lower case."""
    assert named_date("In May 2023", ["in", "may"]) == NamedDate(2023, 5, None)
    assert named_date("In May", ["nothing"]) is None


@pytest.mark.parametrize("speaker", ["user", "User", "HUMAN"])
def test_a_speaker_called_user_is_the_user(speaker):
    """ "I" finds what the user said, by whichever way it came in, and whichever label says so."""
    with Memory.open(":memory:", embedder="words") as memory:
        ada = memory.key("ada")
        added = ada.add("Tea at noon.", speaker=speaker, id="one")
        ada.add_many([Item("Tea at one.", speaker=speaker, id="many")])
        ada.add("Tea at two.", id="changed")
        ada.update("changed", speaker=speaker)
        with ada.batch() as batch:
            batch.add("Tea at three.", speaker=speaker, id="batch")
        talk = ada.conversation("talk")
        talk.add({"role": speaker, "content": "Tea at four.", "id": "message"})
        ada.add("Tea at five.", speaker="assistant", id="reply")
        ada.add("Tea at six.", speaker="user", role="tool", id="role")
        hits = ada.search("When do I drink tea?")
        said = {hit.item.id for hit in hits if hit.parts.get("user")}
        assert said == {added, "many", "changed", "batch", "message"}
        assert (reply := ada.get("reply")) is not None
        assert reply.role == "assistant"
        assert (named := ada.get("role")) is not None
        assert named.role == "tool"
        assert talk.get_memory()[0]["role"] == speaker


@pytest.mark.parametrize(
    ("question", "says_i", "when", "day"),
    [
        ("Wann war ich gestern dort?", True, True, "2024-05-07"),
        ("Was esse ich gern?", True, False, None),
        ("¿Cuándo me mudé?", True, True, None),
        ("¿Qué comió ella ayer?", False, False, "2024-05-07"),
        ("Quand est-ce que j'ai déménagé ?", True, True, None),
        ("Onde eu estava ontem?", True, False, "2024-05-07"),
        ("Che cosa fa quando piove?", False, False, None),
        ("Когда я был там позавчера?", True, True, "2024-05-06"),
        ("我昨天什么时候回家？", True, True, "2024-05-07"),
        ("彼女はいつ来ましたか", False, True, None),
        ("언제 내 집에 왔어?", True, True, None),
        ("متى كنت أنا هناك أمس؟", True, True, "2024-05-07"),
        ("मैं कब गया था?", True, True, None),
        ("Ne zaman taşındım, benim evim nerede?", True, True, None),
        ("Vandaag is het niet mijn dag, wanneer wel?", True, True, None),
        # Words of English in other languages: "me" in Norwegian, and a title.
        ("Når kommer du, og hva er me?", False, False, None),
        ("Wer hat das Lied When I Fall geschrieben und ist es gut?", False, False, None),
    ],
)
def test_i_and_when_and_yesterday_are_those_of_the_language(
    question: str, *, says_i: bool, when: bool, day: str | None
) -> None:
    """The rules of English read no other language."""
    read = QuestionSignals.of(question).asked_on(date(2024, 5, 8))
    assert (read.says_i, read.when) == (says_i, when)
    assert read.date == (day and NamedDate(2024, 5, date.fromisoformat(day).day))


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("Gestern war ich im April in Rom", 2),
        ("Das ist nicht mein last minute", 0),  # English in a German text
        ("Ayer llovió en la ciudad", 1),
        ("Вчера был понедельник", 2),
        ("昨天下雨", 1),
        ("어제 비가 왔다", 1),
        ("أمس كنت هنا", 1),
        ("Vrei ceva de la mine luni?", 0),  # no words of Romanian are listed
    ],
)
def test_temporal_words_are_those_of_the_language(text: str, count: int) -> None:
    assert words.analyse(text).temporal == words.temporal(text) == count
