"""Generate realistic memories, vectors and questions, in any number, the same in every run."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta

import numpy as np

from engram.model import Clean, Draft
from engram.ports import Matrix, Purpose
from engram.text.terms import STOP_WORDS

DIM = 384
SESSION = 20
VOCABULARY = 20_000
TOPICS = 500
TOPIC_WORDS = 60

_START = datetime(2024, 1, 1, 9, tzinfo=UTC)
_NAMES = """Aisha Bruno Chen Daria Emeka Farid Greta Hiro Ines Jonas Kavya Liam Mona Noor Oskar Priya Quinn Rosa Sven
Tala Umar Vera Wanda Xenia Yusuf Zoe""".split()
_FORMS = (
    "{name} said the {} {} was {} after {n} {} and {}, so we moved the {} to {}",
    "I told {name} that the {} of the {} needs {n} {} before the {} can be {} again",
    "we tried {} with {} and {}, and {name} found that {} {} took {n} minutes",
    "why did the {} {} fail for {name}? the {} said {n} {} were {} when {} was {}",
    "remember that {name} likes {} more than {}, and wants the {} {} by the {n} of {}",
    "the {} for {} is now {n}, {name} changed the {} because {} and {} were {}",
)
_QUESTIONS = (
    "what did {name} say about the {} {} and the {}?",
    "when was the {} {} {}?",
    "how many {} did {name} need for the {} {}?",
)
_SYLLABLES = "ba ce di fo gu ha je ki lo mu na pe ri so tu va we xi yo zu bra cle dri flo gru pla ste tri".split()
_DECAY = 0.35
"""Decay of the directions' weights: real embeddings use few of their dimensions fully."""


def drafts(first: int, last: int) -> Iterator[Draft]:
    """Yield the memories with these numbers: turns of sessions of twenty, each session about one topic."""
    for number in range(first, last):
        session = number // SESSION
        yield Draft(
            text(number),
            kind="message",
            session=f"s{session}",
            speaker=_NAMES[number % 2 + session % (len(_NAMES) - 1)],
            at=_START + timedelta(hours=session, seconds=number % SESSION),
            key=str(number),
            metadata={"number": number},
        )


def text(number: int) -> str:
    """Return the text of one memory: half of its words are of its topic, half general with Zipf frequencies."""
    dice = np.random.default_rng(number)
    form = _FORMS[int(dice.integers(len(_FORMS)))]
    return _filled(form, _content(number, dice), dice)


def question(number: int) -> str:
    """Return a question about one memory, with some of its words and its name."""
    dice = np.random.default_rng(number)
    dice.integers(len(_FORMS))
    words = _content(number, dice)
    form = _QUESTIONS[number % len(_QUESTIONS)]
    return _filled(form, words, dice)


def word(rank: int) -> str:
    """Return the word of this rank in a made-up language; frequent words are shorter."""
    parts, rest = [], rank + len(_SYLLABLES)
    while rest:
        rest, part = divmod(rest, len(_SYLLABLES))
        parts.append(_SYLLABLES[part])
    return "".join(parts)


def _content(number: int, dice: np.random.Generator) -> list[str]:
    topic = number // SESSION * 7919 % TOPICS
    own = topic * TOPIC_WORDS + dice.integers(0, TOPIC_WORDS, 4)
    common = VOCABULARY ** dice.random(4) - 1
    ranks = [int(rank) for pair in zip(own % VOCABULARY, common, strict=True) for rank in pair]
    return [word(rank) for rank in ranks]


def _filled(form: str, words: Sequence[str], dice: np.random.Generator) -> str:
    places = form.count("{}")
    chosen = [words[place % len(words)] for place in range(places)]
    return form.format(*chosen, name=_NAMES[int(dice.integers(len(_NAMES)))], n=int(dice.integers(2, 500)))


class WordVectors:
    """An embedder that costs next to nothing: each word has a direction, a text is the sum of its words.

    Texts of one topic are close, as with a real model, and a question is close to what it is about.
    """

    identity, dim = f"word-vectors-{DIM}@1", DIM
    _slots = 1 << 14

    def __init__(self) -> None:
        spectrum = (1 + np.arange(DIM, dtype=np.float32)) ** -np.float32(_DECAY)
        table = np.random.default_rng(0).standard_normal((self._slots, DIM), dtype=np.float32) * spectrum
        self._table: Matrix = table / np.linalg.norm(table, axis=1, keepdims=True)

    def embed(self, texts: Sequence[Clean], purpose: Purpose = "document") -> Matrix:
        """Return one row per text, in order; queries and documents are treated alike."""
        return self.of(texts)

    def of(self, texts: Sequence[str]) -> Matrix:
        """Return the same for any text."""
        if not texts:
            return np.zeros((0, DIM), dtype=np.float32)
        rows = [self._places(text) for text in texts]
        starts = np.cumsum([0, *(len(row) for row in rows[:-1])])
        sums = np.add.reduceat(self._table[np.concatenate(rows)], starts, axis=0)
        return np.asarray(sums / np.linalg.norm(sums, axis=1, keepdims=True), dtype=np.float32)

    def _places(self, text: str) -> list[int]:
        words = [word for word in text.lower().split() if word not in STOP_WORDS] or [text]
        return [zlib.crc32(word.strip(",.?").encode()) % self._slots for word in words]
