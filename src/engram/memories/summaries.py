"""Extractive summaries: select whole sentences that cover most of what was said."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice, pairwise

from engram.recall.pack import CHARACTERS_PER_TOKEN, tokens
from engram.text.terms import STOP_WORDS, index_terms

TOKEN_BUDGET = 200
"""Maximum number of tokens of a summary."""
MAX_SENTENCES = 2_000
"""Number of sentences considered, counted from the end; a handover has a few hundred."""
MAX_SENTENCE = 400
"""Characters of a sentence that are read; a longer one is cut, at a space if there is one."""

_END = re.compile(r"[.!?][\"'”’)\]]{0,3}\s|[。！？]|\n")
_DETAIL = re.compile(r"\d")
_MIN_TERMS = 3
"""Minimum terms of an informative sentence; shorter ones are selected only if there are no others."""
_LENGTH_PENALTY = 0.7
"""Exponent of a sentence's length in its cost: at 1 short sentences always win, at 0 never."""


@dataclass(frozen=True, slots=True)
class Utterance:
    """A text and its speaker."""

    speaker: str
    text: str


@dataclass(frozen=True, slots=True)
class _Sentence:
    place: int
    line: str
    terms: frozenset[str]
    cost: int


def sentences(text: str) -> list[str]:
    """Split a text into stripped sentences, in order; line breaks end sentences."""
    ends = [0, *(match.end() for match in _END.finditer(text)), len(text)]
    found = (text[start:end].strip() for start, end in pairwise(ends))
    return [sentence for sentence in found if any(c.isalnum() for c in sentence)]


def summarise(utterances: Sequence[Utterance], budget: int = TOKEN_BUDGET) -> str:
    """Select the sentences that together cover most terms, in their order, one a line.

    The result has at most `budget` tokens and is deterministic; it is empty for empty input.
    """
    candidates = _candidates(utterances, budget)
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


def _candidates(utterances: Sequence[Utterance], budget: int) -> list[_Sentence]:
    """Return the sentences to select from: each once, with its speaker, if it fits the budget."""
    lines: dict[str, str] = {}
    latest_first = (
        (one.speaker, sentence) for one in reversed(utterances) for sentence in reversed(sentences(one.text))
    )
    for speaker, sentence in islice(latest_first, MAX_SENTENCES):
        line = _cut(f"{speaker}: {sentence}" if speaker else sentence, budget)
        if line:
            lines.setdefault(line, sentence)
    found = []
    for place, (line, sentence) in enumerate(reversed(lines.items())):
        terms = frozenset(term for term in index_terms(sentence[:MAX_SENTENCE]) if term not in STOP_WORDS)
        found.append(_Sentence(place, line, terms, tokens(line + "\n")))
    fitting = [sentence for sentence in found if sentence.cost <= budget]
    return [sentence for sentence in fitting if len(sentence.terms) >= _MIN_TERMS] or fitting


def _cut(line: str, budget: int) -> str:
    most = min(MAX_SENTENCE, (budget - 1) * CHARACTERS_PER_TOKEN)
    if len(line) <= most:
        return line
    short = line[: max(0, most - 2)]
    return (short.rsplit(maxsplit=1)[0] if " " in short else short) + " …" if short else ""


def _weights(candidates: Sequence[_Sentence]) -> dict[str, float]:
    """Weight terms by frequency; terms with digits count double, since they cannot be paraphrased."""
    counts = Counter(term for sentence in candidates for term in sentence.terms)
    return {term: count**0.5 * (2.0 if _DETAIL.search(term) else 1.0) for term, count in counts.items()}


def _gain(sentence: _Sentence, covered: set[str], weights: dict[str, float]) -> float:
    """Return the weight of a sentence's terms that are not covered yet, relative to its length."""
    return sum(weights[term] for term in sorted(sentence.terms - covered)) / float(sentence.cost**_LENGTH_PENALTY)
