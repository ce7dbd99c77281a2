"""Features of recall candidates: pure functions over the candidates and their neighbours.

Every number is normalised within the query, so that it means the same in a store of short turns and in one of long
texts. `MATCHES` only ever count in a memory's favour: a better match never ranks lower, all else equal.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np
from numpy.typing import NDArray

from engram.ports import RankingInput, TermCounts
from engram.recall.understand import ParsedQuery
from engram.text.terms import K1, B
from engram.text.time_phrases import Interval

Numbers = NDArray[np.float64]
Places = NDArray[np.intp]
Flags = NDArray[np.bool_]

OFFSETS = (-2, -1, 1, 2)
NEAR_WORDS = {-1: 0.7, 1: 0.55, -2: 0.5}
"""What a word is worth that a neighbour has, by how far away that is: an answer stands beside its question."""
TOLD_LATER = 7.0
"""Days after a time in which one still speaks of it."""
TOLD_BEFORE = 2.0
DAY = 86_400.0

WEIGHTS: Mapping[str, float] = {"similar": 1.0, "words_near": 0.7, "about": 1.5, "time": 2.0}
"""The weighted sum, in standard deviations of the candidates."""
SESSION = 0.2
"""How much the best other candidate of the same session adds to it."""

MATCHES = tuple("sum rank words words_near similar cover cover_near about time session_best session_top".split())
AROUND = tuple(f"{name}{offset:+d}" for name in ("words", "similar") for offset in OFFSETS)
NAMES = (*MATCHES, *AROUND)


@dataclass(frozen=True, slots=True)
class Scene:
    """Candidates and their neighbours, one row each, in the order of their sessions."""

    glimpses: Sequence[RankingInput]
    candidate: Flags
    session: Places
    """A number for each session; -1 for what is in none."""
    similarity: Numbers
    """With the query; 0 where it is not known."""
    counts: Numbers
    """(rows, terms): how often each row has each term of the query."""
    telling: Numbers
    """How much each term tells: its inverse document frequency in this scope."""

    def at(self, offset: int) -> Places:
        """For each row, the row so far away in the same session, or -1."""
        rows = np.arange(len(self.session)) + offset
        within = rows.clip(0, max(0, len(rows) - 1))
        same = (rows == within) & (self.session[within] == self.session) & (self.session >= 0)
        return np.where(same, within, -1)


def in_order(glimpses: Sequence[RankingInput]) -> list[RankingInput]:
    """Session by session, as they were written."""
    return sorted(glimpses, key=lambda glimpse: (glimpse.session or "", glimpse.seq))


def scene(
    glimpses: Sequence[RankingInput],
    candidates: frozenset[str],
    similar: Mapping[str, float],
    asked: ParsedQuery,
    spread: TermCounts,
) -> Scene:
    """Put glimpses into the order of their sessions."""
    rows = in_order(glimpses)
    numbers: dict[str, int] = {}
    sessions = [-1 if row.session is None else numbers.setdefault(row.session, len(numbers)) for row in rows]
    held = np.array([spread.holders.get(term, 0) for term in asked.terms], dtype=np.float64)
    return Scene(
        glimpses=rows,
        candidate=np.array([glimpse.id in candidates for glimpse in rows], dtype=np.bool_),
        session=np.array(sessions, dtype=np.intp),
        similarity=np.array([similar.get(glimpse.id, 0.0) for glimpse in rows], dtype=np.float64),
        counts=np.array([row.counts for row in rows], dtype=np.float64).reshape(len(rows), len(asked.terms)),
        telling=np.log((np.maximum(held, max(spread.rows, len(rows))) + 1) / (held + 0.5)),
    )


def features(seen: Scene, asked: ParsedQuery) -> dict[str, Numbers]:
    """`NAMES` of every row, and "session", unscaled; those of mere neighbours mean nothing. One must be a candidate."""
    among, at = seen.candidate, {offset: seen.at(offset) for offset in OFFSETS}
    lengths = np.array([glimpse.length for glimpse in seen.glimpses], dtype=np.float64)
    worth = seen.telling * saturated(seen.counts, lengths)
    near = worth.copy()
    for offset, share in NEAR_WORDS.items():
        there = at[offset] >= 0
        near[there] = np.maximum(near[there], share * worth[at[offset][there]])
    total = max(float(seen.telling.sum()), 1e-9)
    found: dict[str, Numbers] = {
        "words": standard(worth.sum(axis=1), among),
        "words_near": standard(near.sum(axis=1), among),
        "similar": standard(seen.similarity, among),
        "cover": (worth > 0) @ seen.telling / total,
        "cover_near": (near > 0) @ seen.telling / total,
        "about": about(seen, asked),
        "time": np.array([timely(asked.times, glimpse.at) if asked.times else 0.0 for glimpse in seen.glimpses]),
    }
    for name in ("words", "similar"):
        least = float(found[name][among].min())
        for offset in OFFSETS:
            found[f"{name}{offset:+d}"] = np.where(at[offset] >= 0, found[name][at[offset]], least)
    plain = np.asarray(np.sum([weight * found[name] for name, weight in WEIGHTS.items()], axis=0))
    best, top = in_sessions(plain, seen)
    found["session"], found["sum"] = best, standard(plain + SESSION * best, among)
    found["rank"] = 1 / np.sqrt(1 + places(found["sum"], among))
    found["session_best"], found["session_top"] = standard(best, among), standard(top, among)
    return found


def about(seen: Scene, asked: ParsedQuery) -> Numbers:
    """1 for words of whom the query asks about, -1 for those of somebody else, 0 if one cannot tell."""
    speaking = [(glimpse.speaker, glimpse.role) for glimpse in seen.glimpses]
    known = {one: asked.about(*one) for one in set(speaking)}
    return np.array([known[one] for one in speaking])


def saturated(counts: Numbers, lengths: Numbers) -> Numbers:
    """BM25's worth of each count without the term's own; the average length is that of these rows."""
    average = max(float(lengths.mean()), 1e-9)
    return np.asarray(counts * (K1 + 1) / (counts + K1 * (1 - B + B * lengths / average)[:, None]))


def standard(values: Numbers, among: Flags) -> Numbers:
    """In standard deviations from the mean of the candidates."""
    chosen = values[among]
    mean = float(chosen.sum()) / len(chosen)
    off = chosen - mean
    return np.asarray((values - mean) / max(math.sqrt(float(off @ off) / len(off)), 1e-6))


def places(values: Numbers, among: Flags) -> Numbers:
    """0 for the best candidate, 1 for the next; those that are none come last."""
    order = np.argsort(-np.where(among, values, -np.inf), kind="stable")
    place = np.empty(len(values))
    place[order] = np.arange(len(values))
    return place


def timely(times: Sequence[Interval], at: datetime) -> float:
    """1 within a time that the query names, less the farther from it; 0 if it names none."""
    return max((_nearness(time, at) for time in times), default=0.0)


def _nearness(time: Interval, at: datetime) -> float:
    if time.start is not None and at < time.start:
        return math.exp(-(time.start - at).total_seconds() / DAY / TOLD_BEFORE)
    if time.end is not None and at >= time.end:
        return math.exp(-(at - time.end).total_seconds() / DAY / TOLD_LATER)
    return 1.0


def in_sessions(values: Numbers, seen: Scene) -> tuple[Numbers, Numbers]:
    """The best of the other candidates in the same session, and the mean of its best three; the least, if none."""
    least, value = float(values[seen.candidate].min()), values.tolist()
    best, top = [least] * len(value), [least] * len(value)
    members: dict[int, list[int]] = {}
    for row in np.flatnonzero(seen.candidate & (seen.session >= 0)).tolist():
        members.setdefault(int(seen.session[row]), []).append(row)
    for rows in members.values():  # few in each: quicker without arrays
        first, second, third, *_ = [*sorted((value[row] for row in rows), reverse=True), least, least, least]
        for row in rows:
            best[row] = second if value[row] == first else first
            top[row] = (first + second + third) / 3
    return np.array(best), np.array(top)
