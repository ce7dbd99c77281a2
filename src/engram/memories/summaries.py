"""Says in short what was said, in the words it was said in: whole sentences are chosen, none is invented."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice, pairwise

from engram.recall.pack import CHARACTERS_PER_TOKEN, tokens
from engram.text.terms import STOP_WORDS, index_terms

BUDGET = 200
"""Tokens of a summary."""
MOST_SENTENCES = 2_000
"""How many are looked at, the latest of them: a hand-over is a few hundred, and a pasted log is not worth more."""
LONGEST = 400
"""Characters of a sentence that are read; a longer one is cut, at a word if there is one."""

_END = re.compile(r"[.!?][\"'”’)\]]{0,3}\s|[。！？]|\n")
_DETAIL = re.compile(r"\d")
_TELLING = 3
"""Terms of a sentence that says something; "Hi there" and "Thanks a lot" are chosen only for want of others."""
_EAGERNESS = 0.7
"""How much a long sentence pays for its length: at 1 short ones win always, at 0 never."""


@dataclass(frozen=True, slots=True)
class Said:
    """A text and who said it."""

    who: str
    text: str


@dataclass(frozen=True, slots=True)
class _Sentence:
    place: int
    line: str
    terms: frozenset[str]
    cost: int


def sentences(text: str) -> list[str]:
    """The sentences of a text, in order, without white space around them; lines end sentences."""
    ends = [0, *(match.end() for match in _END.finditer(text)), len(text)]
    found = (text[start:end].strip() for start, end in pairwise(ends))
    return [sentence for sentence in found if any(c.isalnum() for c in sentence)]


def summarise(said: Sequence[Said], budget: int = BUDGET) -> str:
    """The sentences that together cover most of what was talked about, in their order, one a line.

    Never more than `budget` tokens, and the same every time; nothing said gives nothing.
    """
    candidates = _candidates(said, budget)
    weights = _weights(candidates)
    chosen: list[_Sentence] = []
    covered: set[str] = set()
    left = budget
    while candidates:
        best = max(candidates, key=lambda s: (_gain(s, covered, weights), -s.place))
        if chosen and _gain(best, covered, weights) <= 0:
            break
        chosen.append(best)
        covered |= best.terms
        left -= best.cost
        candidates = [s for s in candidates if s is not best and s.cost <= left]
    return "\n".join(sentence.line for sentence in sorted(chosen, key=lambda s: s.place))


def _candidates(said: Sequence[Said], budget: int) -> list[_Sentence]:
    """What can be chosen: each sentence once, with who said it, if it fits."""
    lines: dict[str, str] = {}
    latest_first = ((one.who, sentence) for one in reversed(said) for sentence in reversed(sentences(one.text)))
    for who, sentence in islice(latest_first, MOST_SENTENCES):
        line = _cut(f"{who}: {sentence}" if who else sentence, budget)
        if line:
            lines.setdefault(line, sentence)
    found = []
    for place, (line, sentence) in enumerate(reversed(lines.items())):
        terms = frozenset(term for term in index_terms(sentence[:LONGEST]) if term not in STOP_WORDS)
        found.append(_Sentence(place, line, terms, tokens(line + "\n")))
    fitting = [sentence for sentence in found if sentence.cost <= budget]
    return [sentence for sentence in fitting if len(sentence.terms) >= _TELLING] or fitting


def _cut(line: str, budget: int) -> str:
    most = min(LONGEST, (budget - 1) * CHARACTERS_PER_TOKEN)
    if len(line) <= most:
        return line
    short = line[: max(0, most - 2)]
    return (short.rsplit(maxsplit=1)[0] if " " in short else short) + " …" if short else ""


def _weights(candidates: Sequence[_Sentence]) -> dict[str, float]:
    """What comes up again is what it is about; a number is a fact, which no other words can stand for."""
    counts = Counter(term for sentence in candidates for term in sentence.terms)
    return {term: count**0.5 * (2.0 if _DETAIL.search(term) else 1.0) for term, count in counts.items()}


def _gain(sentence: _Sentence, covered: set[str], weights: dict[str, float]) -> float:
    """How much a sentence says that is not yet said, for its length."""
    return sum(weights[term] for term in sorted(sentence.terms - covered)) / float(sentence.cost**_EAGERNESS)
