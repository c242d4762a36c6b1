"""Words, meaning and signals become one ranking.

    base  = words · BM25 / best BM25  +  meaning · cosine
    fit   = base  +  (previous, for an answer also reply) · base of the item before
            +  next · base of the item after  +  speaker, user, date, entities, when,
               short_question
    score = fit   +  session · best fit in the item's session
            +  instruction, recency, importance, decay

The searched sets count as one: BM25 and its best are over all their live items. A filter hides
items. It changes no score, except that a hidden item is never the best of its session. In a small
set every item is scored. In a large set words and meaning choose candidates among the allowed
items. The neighbours of the best candidates become candidates too. Scores of candidates are exact.

A score orders the hits of one search. A relevance, the probability that an item answers the
question, can be compared between searches:

    evidence  = intercept  +  words · coverage  +  meaning · likeness  +  named
    relevance = 1 / (1 + e ** -evidence)

*coverage* is the item's BM25 as a share of the highest BM25 possible for the question. *likeness*
is the cosine between the vectors of item and question. The neighbours in the session add shares of
their numbers to both, as they do to a score. Numbers from 0 to 59, "am" and "pm" do not count as
words, because they may come from the time of a text. *named* is 1 if the question names the
speaker of the item, or the user who said it. Up to 1 is added for the date that the question
names.

The coefficients of a relevance were fitted on LoCoMo by a logistic regression, and rounded. Items
that answer a question were compared with the ten best items for a question about other people, and
with those for a question about nobody.
`docs/how-search-works.md` says what a relevance of 0.5 means, and `bench/relevance.py` measures it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY
from functools import lru_cache
from itertools import repeat
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from alveus.embed import Embedder
from alveus.search.bm25 import Bm25, Docs, Mask, Numbers, highest, kth_highest, united
from alveus.search.embedding_worker import embed_texts
from alveus.search.index import Quantised, SetIndex
from alveus.search.signals import QuestionSignals, Signals, naming
from alveus.store.items import WORDS_ALONE, ScoreParts
from alveus.values.dates import closeness
from alveus.values.lazy import lists_of
from alveus.values.lazy_dataclass import dataclass
from alveus.values.words import INSTRUCTION, QUESTION, SHORT_QUESTION
from alveus.values.words import terms as terms_in

NEAR_SHARE = 0.004
"""Share of a large set that meaning chooses as candidates: at least `NEAR_LEAST` docs."""

NEAR_LEAST = 800
ENTITY_FIELDS = ("entities", "subject")
"""Fields of the metadata that name people, places and things."""

WORDS_COUNT = 1_000
"""Docs of a large set that words choose as candidates."""

SHORT_LIST = 300
"""Candidates of a large set whose neighbours are scored too.

Ten times the limit of hits are taken if that is more.
"""

FOREMOST = 2_000
"""Docs of a large set chosen as the newest if recency has a weight. As many are chosen as the most
important if importance has one."""

FEW = 2_000
"""If a filter allows at most this many docs of a large set, all of them are candidates."""

_UNIT = 1e9
"""Scores are rounded to nine decimals, so that no machine's last bit decides an order."""

_LOWEST = -np.finfo(np.float64).max
_DAY_US = 86_400_000_000
_USER = "user"
"""The role of the items that "I" in a question refers to."""


Vector = NDArray[np.float32] | Quantised


class Scored(NamedTuple):
    """A doc that was found.

    Attributes:
        set: Position of the doc's set among the searched sets.
        parts: Weighted parts of the score by name; they add up to `score`.
        relevance: Probability that the doc answers the question. None if it was not requested.
    """

    set: int
    doc: int
    row: int
    id: str
    score: float
    parts: Mapping[str, float]
    relevance: float | None = None


class FoundHits(NamedTuple):
    """What was found, best first: the rows, and the hits, which are made as they are read, once."""

    rows: list[int]
    hits: Iterator[Scored]


@dataclass(slots=True)
class _Page:
    """The scored docs of one set.

    Attributes:
        docs: The scored docs, sorted. None means all docs of the set.
        parts: Parts of the scores by name: a number for each doc.
        keys: Scores in units of 1e-9, as whole numbers; -inf for a doc that is not a hit.
    """

    number: int
    index: SetIndex
    docs: Docs | None
    parts: Mapping[str, Numbers]
    keys: Numbers


@dataclass(frozen=True, slots=True)
class Ranking:
    """Ranks the docs of *sets* by how well they answer *question*.

    The same question over the same items gives the same hits on every machine. If the question has
    a vector, every doc with a vector is a hit, however low its score. A doc without a vector is a
    hit only through a word, a neighbour in its session, its speaker or its date.

    Attributes:
        vector: The vector of `question.meaning`. None means a search by words only.
        unread: Whether there is no vector because the embedder does not read the question.
        now: Microseconds since 1970, for recency and decay.
        allowed: For each set, a mask of the docs that may be found; None means all docs. If it is
            empty, all docs of all sets may be found.
        read: For each set, the time of each doc's last read, for decay; 0 means never. None means
            that no doc was read.
        calibration: Computes the relevance of hits. None means that hits have no relevance.
        everything: Whether docs without a matching word or a vector are hits too.
        words_beside: What docs with a vector keep of their part for words, 0..1.
    """

    sets: Sequence[SetIndex]
    question: QuestionSignals
    vector: Vector | None
    _: KW_ONLY
    limit: int
    signals: Signals
    now: int
    allowed: Sequence[Mask | None] = ()
    read: Sequence[NDArray[np.int64]] | None = None
    calibration: Calibration | None = None
    everything: bool = False
    unread: bool = False
    words_beside: float = 1.0

    def best(self) -> FoundHits:
        """Return up to `limit` hits, best first. Hits of equal score are in the order of ids."""
        if self.limit < 1 or not self.sets:
            return FoundHits([], iter(()))
        pages = self._pages()
        entries = _leading(pages, self.limit)
        if len(pages) == 1:
            found = _found(pages[0], entries)
        else:
            parts = [
                _found(page, [one for one in entries if one[2] == page.number]) for page in pages
            ]
            pages_of_hits = [number for _, _, number, _ in entries]
            row_iterators = [iter(part.rows) for part in parts]
            found = FoundHits(
                [next(row_iterators[at]) for at in pages_of_hits],
                (next(parts[at].hits) for at in pages_of_hits),
            )
        if self.calibration is None or not entries:
            return found
        return FoundHits(found.rows, iter(self._judged(list(found.hits), self.calibration)))

    def _judged(self, scored: Sequence[Scored], calibration: Calibration) -> list[Scored]:
        """Return *scored* with relevance."""
        if self.vector is None:
            calibration = WORDS_ONLY
        terms = telling_terms(self.question.terms)
        words = Bm25(self.sets, terms, self.signals, background=BACKGROUND)
        most = words.most or 1.0
        with_relevance = list(scored)
        for number in range(len(self.sets)):
            positions = [at for at, one in enumerate(scored) if one.set == number]
            if positions:
                docs = np.array([scored[at].doc for at in positions], np.int32)
                coverage, likeness = self._matches(number, words, docs)
                named = [_named_parts(scored[at].parts, self.signals) for at in positions]
                relevance = calibration.relevance(coverage / most, likeness, np.array(named))
                if self.vector is not None and (unread := self.sets[number].unread(docs)).any():
                    alone = WORDS_ONLY.relevance(coverage / most, likeness, np.array(named))
                    relevance = np.where(unread, alone, relevance)
                for at, value in zip(positions, relevance.tolist(), strict=True):
                    with_relevance[at] = scored[at]._replace(relevance=value)
        return with_relevance

    def _matches(self, number: int, words: Bm25, docs: Docs) -> tuple[Numbers, Numbers]:
        """Return the BM25 and the cosine of *docs*, each plus shares of the neighbours' values."""
        index, meaning = self.sets[number], self._meaning
        around = _with_neighbours(index, docs)
        cosines = np.zeros(len(around)) if meaning is None else index.cosines(meaning, around)
        at = [_positions(around, some) for some in (docs, index.previous[docs], index.next[docs])]
        smoothed: list[Numbers] = []
        for part in (words.some(number, around), cosines):
            values, earlier, later = (np.append(part, 0.0)[positions] for positions in at)
            smoothed.append(values + SHARE_BEFORE * earlier + SHARE_AFTER * later)
        return smoothed[0], smoothed[1]

    @property
    def _meaning(self) -> Vector | None:
        return self.vector if self.signals.meaning else None

    def _allowed(self, number: int) -> Mask | None:
        return self.allowed[number] if self.allowed else None

    def _pages(self) -> list[_Page]:
        """Return the scored docs of each set."""
        terms = self.question.terms if self.signals.words else ()
        words = Bm25(self.sets, terms, self.signals)
        values: list[Numbers] = []
        tops: list[Docs | None] = []
        for number, index in enumerate(self.sets):
            top: Docs | None = None
            if not index.exact:  # the best docs by words, also the best of all docs
                count, alone = max(WORDS_COUNT, 2 * self.limit), self._meaning is None
                top = words.top(number, count=count, allowed=self._allowed(number), alone=alone)
            tops.append(top)
            values.append(words.all(number) if top is None else words.some(number, top))
        best = max([float(scores.max(initial=0.0)) for scores in values], default=0.0)
        unit = best / self.signals.words if best else 1.0
        return [
            self._whole(number, values[number] / unit)
            if top is None
            else self._large(number, words, unit, top)
            for number, top in enumerate(tops)
        ]

    def _whole(self, number: int, words: Numbers) -> _Page:
        """Score every doc of a small set."""
        index = self.sets[number]
        parts, base = self._base(index, None, words)
        if not index.linked:
            parts["previous"] = parts["next"] = np.zeros(index.size)
            return self._page(number, None, parts, base[:-1])
        # A doc without a neighbour has -1, which is the index of the 0.0 at the end.
        before = base[index.previous]
        score = self._smoothed(index, None, parts, base[:-1], before, base[index.next])
        return self._page(number, None, parts, score)

    def _smoothed(
        self,
        index: SetIndex,
        docs: Docs | None,
        parts: dict[str, Numbers],
        base: Numbers,
        before: Numbers,
        after: Numbers,
    ) -> Numbers:
        """Return *base* plus shares of the neighbours' base; add the shares to *parts*."""
        parts["previous"] = self.signals.previous * before
        parts["next"] = self.signals.next * after
        score = base + parts["previous"] + parts["next"]
        if self.signals.reply:
            answers = self._answers(index, docs)
            if answers is not None:
                parts["reply"] = self.signals.reply * (before * answers)
                score += parts["reply"]
        return score

    def _answers(self, index: SetIndex, docs: Docs | None) -> Mask | None:
        """Return a mask of the docs that may answer a question: they follow it in their session.

        If the query names a speaker or the user, only docs of that person count. Return None if no
        doc can be an answer.
        """
        questions = _traits(index).questions
        if questions is None:
            return None
        answers = questions[_of(index.previous, docs)]  # -1 is the False at the end
        speakers = self._named(index)
        if speakers is None:
            return answers
        column, code = speakers
        return None if code is None else answers & (_of(column, docs) == code)

    def _chosen(self, number: int, words: Bm25, unit: float, docs: Docs) -> _Page:
        """Score *docs* of a large set exactly as `_whole` would. BM25 is divided by *unit*."""
        index = self.sets[number]
        around = _with_neighbours(index, docs)
        around_parts, base = self._base(index, around, words.some(number, around) / unit)
        positions = around.searchsorted(docs)
        parts = {name: part[positions] for name, part in around_parts.items()}
        before = base[_positions(around, index.previous[docs])]
        after = base[_positions(around, index.next[docs])]
        score = self._smoothed(index, docs, parts, base[positions], before, after)
        return self._page(number, docs, parts, score)

    def _base(
        self, index: SetIndex, docs: Docs | None, words: Numbers
    ) -> tuple[dict[str, Numbers], Numbers]:
        """Return the weighted parts for words and meaning, and their sum followed by one 0.0."""
        base = np.zeros(len(words) + 1)
        if self._meaning is None:
            base[:-1] = words
            if self.unread:
                return {"words": words, WORDS_ALONE: np.zeros(len(words))}, base
            return {"words": words}, base
        meaning = index.cosines(self._meaning, docs, mean=self.signals.mean)
        meaning *= self.signals.meaning
        if self.words_beside < 1:
            words = np.where(meaning == 0, words, words * self.words_beside)
        np.add(words, meaning, out=base[:-1])
        parts = {"words": words, "meaning": meaning}
        unread = index.unread(docs)
        if unread.any():
            parts[WORDS_ALONE] = np.where(unread, 0.0, np.nan)
        return parts, base

    def _large(self, number: int, words: Bm25, unit: float, top: Docs) -> _Page:
        """Score the docs of a large set that may be among the best."""
        index, allowed = self.sets[number], self._allowed(number)
        open_to = index.alive if allowed is None else allowed & index.alive
        if np.count_nonzero(open_to) <= FEW:
            return self._chosen(number, words, unit, np.flatnonzero(open_to).astype(np.int32))
        chosen = [top, *self._foremost(index, open_to)]
        if self._meaning is not None:
            near = max(NEAR_LEAST, int(NEAR_SHARE * index.live), 2 * self.limit)
            chosen.append(index.nearest(self._meaning, near, allowed))
            # A named speaker or date can lift docs of a lower cosine, so more near docs are
            # candidates.
            for _, part in self._evidence(index, None):
                chosen.append(index.nearest(self._meaning, near, open_to & (part > 0)))
        docs = united(chosen)
        docs = docs[open_to[docs]]
        parts, base = self._base(index, docs, words.some(number, docs) / unit)
        if not index.linked:
            parts["previous"] = parts["next"] = np.zeros(len(docs))
            return self._page(number, docs, parts, base[:-1])
        keys = self._page(number, docs, parts, base[:-1]).keys
        short = max(SHORT_LIST, 10 * self.limit)
        docs = docs[highest(keys, short)]
        around = _with_neighbours(index, docs)
        return self._chosen(number, words, unit, around[open_to[around]])

    def _foremost(self, index: SetIndex, open_to: Mask) -> list[Docs]:
        """Return the newest and most important docs, if recency or importance has a weight."""
        columns: list[NDArray[np.int64] | Numbers] = []
        if self.signals.recency:
            columns.append(index.time)
        if self.signals.importance:
            columns.append(index.importance)
        docs = np.flatnonzero(open_to).astype(np.int32)
        return [docs[highest(column[docs], FOREMOST + self.limit)] for column in columns]

    def _page(
        self, number: int, docs: Docs | None, parts: dict[str, Numbers], score: Numbers
    ) -> _Page:
        """Return the page of *docs*; add their signals to *parts* and *score*."""
        index = self.sets[number]
        for name, part in self._evidence(index, docs):
            parts[name] = part
            score += part
        hits = self._hits(number, docs, parts, score)
        for name, part in self._of_form(index, docs):
            parts[name] = part
            score += part
        if self.signals.session:
            parts["session"] = self.signals.session * _best_of_sessions(index, docs, score, hits)
            score += parts["session"]
        for name, part in self._leanings(index, docs):
            parts[name] = part
            score += part
        if self.signals.decay:
            parts["decay"] = self._faded(number, docs) * np.maximum(score, 0.0)
            score += parts["decay"]
        score *= _UNIT
        keys = np.rint(score, out=score)
        if hits is not None:
            keys[~hits] = -np.inf
        return _Page(number, index, docs, parts, keys)

    def _hits(
        self, number: int, docs: Docs | None, parts: Mapping[str, Numbers], score: Numbers
    ) -> Mask | None:
        """Return a mask of the docs that are hits, or None if all are.

        A hit has a *score* above 0 or a cosine. With `everything` every allowed doc is a hit.
        """
        index, allowed, meaning = self.sets[number], self._allowed(number), parts.get("meaning")
        holes = docs is None and index.live != index.size
        seen = meaning is not None and np.count_nonzero(meaning) == len(meaning)
        if seen and allowed is None and not holes:
            return None
        hits = np.ones_like(score, np.bool_) if self.everything else score > 0
        if meaning is not None:
            hits |= meaning != 0
        if allowed is not None:
            hits &= _of(allowed, docs)
        if holes:
            hits &= index.alive
        return hits

    def _evidence(self, index: SetIndex, docs: Docs | None) -> Iterator[tuple[str, Numbers]]:
        """Yield the signals that alone make a doc a hit: names and dates in the question."""
        weights, question = self.signals, self.question
        name = "user" if question.speaker is None else "speaker"
        weight = weights.user if question.speaker is None else weights.speaker
        named = self._named(index) if weight else None
        if named is not None and named[1] is not None:
            yield name, np.where(_of(named[0], docs) == named[1], weight, 0.0)
        if weights.date and question.date is not None:
            yield "date", weights.date * closeness(question.date, _of(index.local_time, docs))
        if weights.entities:
            share = index.share_named(ENTITY_FIELDS, naming(question.text))
            if share.any():
                yield "entities", weights.entities * _of(share, docs)

    def _named(self, index: SetIndex) -> tuple[NDArray[np.int32], int | None] | None:
        """Return the column and the code of the person whom the question names, or None if nobody.

        The code is None if no doc has that person's name.
        """
        question = self.question
        if question.speaker is not None:
            names, column, name = index.speakers, index.speaker, question.speaker
        elif question.says_i:
            names, column, name = index.roles, index.role, _USER
        else:
            return None
        return column, names.index(name) if name in names else None

    def _of_form(self, index: SetIndex, docs: Docs | None) -> Iterator[tuple[str, Numbers]]:
        """Yield signals from the form of a text. They order hits and make no doc a hit."""
        weights = self.signals
        if weights.when and self.question.when:
            yield "when", (weights.when / 2) * np.minimum(_of(index.temporal, docs), 2)
        short = _traits(index).short_questions if weights.short_question else None
        if short is not None:
            lost = np.where(_of(short[:-1], docs), -weights.short_question, 0.0)
            yield "short_question", lost

    def _leanings(self, index: SetIndex, docs: Docs | None) -> Iterator[tuple[str, Numbers]]:
        """Yield signals that do not depend on the question."""
        weights = self.signals
        standing = _traits(index).instructions if weights.instruction else None
        if standing is not None:
            yield "instruction", np.where(_of(standing[:-1], docs), weights.instruction, 0.0)
        if weights.recency:
            age = np.maximum(self.now - _of(index.time, docs), 0)
            fresh = np.exp2(age * (-1 / (_DAY_US * weights.half_life_days)))
            yield "recency", weights.recency * fresh
        if weights.importance:
            yield "importance", weights.importance * _of(index.importance, docs)

    def _faded(self, number: int, docs: Docs | None) -> Numbers:
        """Return the share of a score that fading takes away, as a number from 0 down to -1.

        The age of a doc counts from its last read. An important doc fades more slowly: at an
        importance of 1 its half-life is twice as long.
        """
        index = self.sets[number]
        last = _of(index.time, docs)
        if self.read is not None:
            last = np.maximum(last, _of(self.read[number], docs))
        age = np.maximum(self.now - last, 0)
        half_life = _DAY_US * self.signals.half_life_days * (1.0 + _of(index.importance, docs))
        return self.signals.decay * (np.exp2(-age / half_life) - 1.0)


def _named_parts(parts: Mapping[str, float], signals: Signals) -> float:
    """Return *named* of a relevance: 1 for the named speaker or user, up to 1 more for the date."""
    names_speaker = max(parts.get("speaker", 0.0), parts.get("user", 0.0)) > 0
    return float(names_speaker) + parts.get("date", 0.0) / (signals.date or 1.0)


class _Traits(NamedTuple):
    """Properties of the docs of a set that do not depend on the question.

    Attributes:
        questions: Mask of docs that are questions, followed by one False. None if there are none.
        short_questions: The same for short questions.
        instructions: The same for standing instructions.
        in_sessions: Whether any doc has a session.
    """

    questions: Mask | None
    short_questions: Mask | None
    instructions: Mask | None
    in_sessions: bool

    @property
    def nbytes(self) -> int:
        """The approximate size in RAM, in bytes."""
        return sum([mask.nbytes for mask in self[:3] if mask is not None])


def _traits(index: SetIndex) -> _Traits:
    traits = index.cache.get("traits")
    if traits is None:
        traits = index.cache["traits"] = _Traits(
            questions=_marked(index, QUESTION),
            short_questions=_marked(index, SHORT_QUESTION),
            instructions=_marked(index, INSTRUCTION),
            in_sessions=bool((index.session >= 0).any()),
        )
    return traits


def _marked(index: SetIndex, mark: int) -> Mask | None:
    """Return a mask of docs with *mark*, followed by one False. Return None if no doc has it."""
    docs = index.holders(mark)
    if not len(docs):
        return None
    marked = np.zeros(index.size + 1, np.bool_)
    marked[docs] = True
    return marked


def _best_of_sessions(
    index: SetIndex, docs: Docs | None, score: Numbers, hits: Mask | None
) -> Numbers:
    """Return for each doc the best score of a hit in its session, at least 0.

    For a doc without a session, return its score, at least 0.
    """
    alone = np.maximum(score, 0.0)
    if not _traits(index).in_sessions:
        return alone
    if docs is None:
        if "sessions" not in index.cache:
            index.cache["sessions"] = np.unique(index.session, return_inverse=True)
        names, at = index.cache["sessions"]
    else:
        names, at = np.unique(index.session[docs], return_inverse=True)
    best = np.zeros(len(names))
    np.maximum.at(best, at, alone if hits is None else np.where(hits, alone, 0.0))
    if not len(names) or names[0] >= 0:
        return best[at]
    return np.where(at == 0, alone, best[at])  # the first name means no session


_Any = TypeVar("_Any", bound=np.generic)


def _of(column: NDArray[_Any], docs: Docs | None) -> NDArray[_Any]:
    return column if docs is None else column[docs]


def _with_neighbours(index: SetIndex, docs: Docs) -> Docs:
    """Return *docs* and the docs before and after them in their sessions, sorted by number."""
    around = united([docs, index.previous[docs], index.next[docs]])
    return around[around >= 0]


def _positions(around: Docs, docs: Docs) -> NDArray[np.intp]:
    """Return the positions of *docs* in *around*. For -1, which is no doc, it is `len(around)`."""
    return np.where(docs < 0, len(around), around.searchsorted(docs))


_Entry = tuple[float, str, int, int]
"""A hit: its negative key, its id, the number of its page, and its position in the page."""


def _leading(pages: Sequence[_Page], limit: int) -> list[_Entry]:
    """Return up to *limit* hits of all *pages*, best first."""
    keys = pages[0].keys if len(pages) == 1 else np.concatenate([page.keys for page in pages])
    least = _LOWEST
    if len(keys) > limit:
        least = max(least, kth_highest(keys, limit))
    entries: list[_Entry] = []
    for page in pages:
        positions = (page.keys >= least).nonzero()[0]
        docs = positions if page.docs is None else page.docs[positions]
        ids, number = page.index.ids(docs), page.number
        keys = (-page.keys[positions]).tolist()
        entries += zip(keys, ids, repeat(number), positions.tolist(), strict=False)
    entries.sort()
    return entries[:limit]


def _found(page: _Page, entries: Sequence[_Entry]) -> FoundHits:
    at = np.array([position for _, _, _, position in entries], np.intp)
    docs = at if page.docs is None else page.docs[at]
    names, shares = tuple(page.parts), [part[at] for part in page.parts.values()]
    parts = map(ScoreParts, repeat(names), repeat(shares), range(len(entries)))
    ids = [name for _, name, _, _ in entries]
    scores = (page.keys[at] / _UNIT).tolist()
    rows = page.index.row[docs].tolist()
    hits = map(Scored, repeat(page.number), docs.tolist(), rows, ids, scores, parts)
    return FoundHits(rows, hits)


SHARE_BEFORE, SHARE_AFTER = 0.2, 0.1
"""The shares that a relevance takes from the items before and after: the defaults of `Signals`."""

BACKGROUND = 50
"""Texts that BM25 counts beside the real ones, so that a word is rare even in a single text."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """The coefficients that turn coverage and likeness into relevance.

    Attributes:
        unrelated: Mean cosine of unrelated texts. It counts as a likeness of 0.
        of_sentences: Whether the vectors tell sentences apart, and not only their words.
    """

    intercept: float
    words: float
    meaning: float = 0.0
    unrelated: float = 0.0
    of_sentences: bool = True

    def relevance(self, coverage: Numbers, likeness: Numbers, named: Numbers) -> Numbers:
        """Return the relevance of each item, 0..1."""
        alike = (likeness - self.unrelated) / (1 - self.unrelated) if self.meaning else 0.0
        evidence = self.intercept + self.words * coverage + self.meaning * alike + named
        return 1 / (1 + np.exp(-evidence))


WORDS_ONLY = Calibration(-1.8, 8.0)
"""The calibration of searches without vectors, and of items that the embedder does not read."""

BUNDLED = {
    "minilm": Calibration(-4.8, 5.0, 12.0),
    "static": Calibration(-5.5, 6.5, 7.5, of_sentences=False),
}

WORDS_BESIDE = {"multilingual": 0.25}
"""What an item with a vector keeps of its part for words, by embedder; all of it if not named.

Where question and item differ in language, words match by accident. Source: bench/LOG.md,
2026-11-30 22:43.
"""

_LIKE_MINILM = -4.8 + 12.0 * 0.043, 5.0, 12.0 * (1 - 0.043)
"""The coefficients of minilm for likeness above that of unrelated texts (their cosine is 0.043)."""

UNRELATED = tuple(lists_of(__file__)["unrelated"])
"""Texts without a common subject."""


def telling_terms(terms: Sequence[int]) -> list[int]:
    """Return *terms* without those that a time of day may have, such as "2" and "pm"."""
    clock = _clock_terms()
    return [term for term in terms if term not in clock]


@lru_cache(maxsize=1)
def _clock_terms() -> frozenset[int]:
    numbers = [f"{n:0{width}}" for width in (1, 2) for n in range(60)]
    return frozenset(terms_in(" ".join([*numbers, "am", "pm"])))


def calibration_of(embedder: Embedder) -> Calibration:
    """Return the calibration for *embedder*. An embedder that is not bundled embeds `UNRELATED`.

    Raises:
        EmbedderFailed: The embedder failed on `UNRELATED`.
    """
    if not embedder.dimensions:
        return WORDS_ONLY
    if embedder.name in BUNDLED:
        return BUNDLED[embedder.name]
    rows = embed_texts(embedder, list(UNRELATED)).astype(np.float64)
    rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
    cosines = (rows @ rows.T)[np.triu_indices(len(rows), 1)]
    unrelated = float(np.clip(cosines.mean(), 0.0, 0.95))
    return Calibration(*_LIKE_MINILM, unrelated=unrelated)
