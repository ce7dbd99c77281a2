"""Rank candidates by a weighted sum of their features, corrected by a learned ranker and by an agent's credits.

The learned ranker is a set of small decision trees, evaluated all at once, without the library that trained it. A tree
has at most eight leaves. Each of its inner nodes that says "no" rules out the leaves on its left; the first leaf that
nobody rules out is the tree's answer. So a tree is one byte per node, and all trees are one table of bytes.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cache
from importlib.resources import files
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, ValidationError

from engram.model import Frozen
from engram.ports import Match, Scope, Store
from engram.recall.features import SESSION, WEIGHTS, Numbers, Scene, standard
from engram.recall.learned_weights import LEAST, MOST, Multipliers
from engram.recall.understand import ParsedQuery
from engram.text.terms import digest, normal_form

LEAST_RANGE = 0.15
"""Least range of similarities to which they are stretched; closer ones are not spread any further."""
STEEPNESS = 4.0
"""Number of standard deviations below the best hit at which a score has fallen to a third."""
RANKED = 120
"""Number of the best candidates by the weighted sum that the learned ranker scores."""
FRESH = timedelta(minutes=1)
"""Time for which the multipliers of an agent are used before they are read from the store again."""
REMEMBERED = 10_000
LEAVES = 8
_FIRST = np.array([(byte & -byte).bit_length() - 1 if byte else 0 for byte in range(256)], dtype=np.intp)


@dataclass(frozen=True, slots=True)
class Weights:
    """Weights of the parts of a score, in standard deviations of the candidates."""

    relevance: Mapping[str, float] = field(default_factory=lambda: dict(WEIGHTS))
    session: float = SESSION
    learned: float = 0.25
    importance: float = 0.6
    trust: float = 1.0
    usefulness: float = 1.0
    recency: float = 0.05
    repetition: float = 2.0
    """Loss of a memory with the same statement as a better one."""
    words: float = 0.2
    vector: float = 0.8
    """For the choice of candidates, and for stores that cannot read the neighbours of a memory."""
    tuned: Mapping[str, float] = field(default_factory=dict)
    """Multipliers of the parts that were learned from an agent's credits; 1 for a part that is missing."""

    def tune(self, name: str, part: Numbers) -> Numbers:
        """Multiply a part of the scores by what was learned from the agent's credits."""
        return self.tuned.get(name, 1.0) * part


@dataclass(frozen=True, slots=True)
class Ranked:
    """A candidate with its score in [0, 1]; `parts` holds the parts of the scores of all candidates at once."""

    id: str
    score: float
    row: int
    parts: Mapping[str, Numbers]

    @property
    def why(self) -> dict[str, float]:
        """The parts of the score that are not zero."""
        own = {name: round(float(part[self.row]), 3) for name, part in self.parts.items()}
        return {name: value for name, value in own.items() if value}


PARTS = frozenset(WEIGHTS) | set("session learned importance trust usefulness recency repetition".split())
"""The names of all parts that `rank` adds up to a score."""


@dataclass(frozen=True, slots=True)
class Trees:
    """Decision trees over named features; the score is the sum of their values."""

    features: tuple[str, ...]
    feature: NDArray[np.intp]
    """(trees, nodes): which feature a node looks at."""
    threshold: NDArray[np.float64]
    """(trees, nodes): up to which value it says yes."""
    left: NDArray[np.uint8]
    """(trees, nodes): the leaves that stay when it says no, as bits."""
    value: NDArray[np.float64]
    """(trees, leaves): what each leaf is worth."""

    def score(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return one score for each row of features."""
        if len(rows) == 0:
            return np.zeros(0)
        yes = rows.T[self.feature] <= self.threshold[:, :, None]  # (trees, nodes, rows): long runs of one feature
        staying = np.bitwise_and.reduce(np.where(yes, np.uint8(255), self.left[:, :, None]), axis=1)
        return np.asarray(np.take_along_axis(self.value, _FIRST[staying], axis=1).sum(axis=0))

    def to_json(self) -> dict[str, Any]:
        """Return the trees as plain numbers, rounded to keep the file small."""
        return {
            "features": list(self.features),
            "feature": self.feature.tolist(),
            "threshold": [[float(f"{x:.6g}") for x in row] for row in self.threshold],
            "left": self.left.tolist(),
            "value": [[float(f"{x:.5g}") for x in row] for row in self.value],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Trees:
        """Read the output of `to_json`."""
        return cls(
            tuple(data["features"]),
            np.array(data["feature"], dtype=np.intp),
            np.array(data["threshold"], dtype=np.float64),
            np.array(data["left"], dtype=np.uint8),
            np.array(data["value"], dtype=np.float64),
        )


@cache
def shipped() -> Trees | None:
    """Return the ranker that comes with Engram, or `None` if it was left out."""
    file = files("engram.recall") / "ranker.json"
    return Trees.from_json(json.loads(file.read_text("utf-8"))) if file.is_file() else None


def rank(
    seen: Scene, found: Mapping[str, Numbers], weights: Weights, ranker: Trees | None, sure: float
) -> list[Ranked]:
    """Rank the candidates, best first; the best one's score is `sure`, the confidence that it answers the query."""
    parts = {name: weight * found[name] for name, weight in weights.relevance.items()}
    parts["session"] = weights.session * found["session"]
    parts |= corrections(seen, _sum(parts), found, weights.learned, ranker)
    parts |= circumstances(seen, weights)
    parts = {name: weights.tune(name, part) for name, part in parts.items()}
    total = _sum(parts)
    rows = _ordered(seen, total, np.flatnonzero(seen.candidate).tolist())
    parts["repetition"] = weights.tune("repetition", -weights.repetition * _repeats(seen, rows))
    total += parts["repetition"]
    rows = _ordered(seen, total, rows)
    values = total[rows].tolist()
    scores = [sure * math.exp((value - values[0]) / STEEPNESS) for value in values]
    return [Ranked(seen.glimpses[row].id, score, row, parts) for row, score in zip(rows, scores, strict=True)]


def corrections(
    seen: Scene, plain: Numbers, found: Mapping[str, Numbers], share: float, ranker: Trees | None
) -> dict[str, Numbers]:
    """Return what the learned ranker adds to the scores of the best candidates; empty without a ranker."""
    if ranker is None or share == 0:
        return {}
    candidates = np.flatnonzero(seen.candidate)
    top = candidates[np.argsort(-plain[candidates], kind="stable")[:RANKED]]
    scores = ranker.score(np.stack([found[name][top] for name in ranker.features], axis=1))
    learned = np.zeros(len(plain))
    learned[top] = (scores - scores.min()) / max(float(scores.std()), 1e-6)
    return {"learned": share * float(plain[candidates].std()) * learned}


def circumstances(seen: Scene, weights: Weights) -> dict[str, Numbers]:
    """Return the parts of the scores that do not depend on the query."""
    age = standard(np.array([glimpse.at.timestamp() for glimpse in seen.glimpses]), seen.candidate)
    return {
        "importance": weights.importance * np.array([glimpse.importance - 0.5 for glimpse in seen.glimpses]),
        "trust": weights.trust * np.array([glimpse.trust - 1.0 for glimpse in seen.glimpses]),
        "usefulness": weights.usefulness * np.array([glimpse.usefulness - 0.5 for glimpse in seen.glimpses]),
        "recency": weights.recency * np.clip(age, -2, 2),
    }


def _sum(parts: Mapping[str, Numbers]) -> Numbers:
    return np.asarray(np.sum(list(parts.values()), axis=0))


def _ordered(seen: Scene, total: Numbers, rows: Sequence[int]) -> list[int]:
    """Sort rows by score, best first; of equals, the newest."""
    worst = (-total).tolist()
    return sorted(rows, key=lambda row: (worst[row], -seen.glimpses[row].seq))


def _repeats(seen: Scene, rows: Sequence[int]) -> Numbers:
    """1 for each row that says the same as one before it in the order."""
    said: set[str] = set()
    repeats = [0.0] * len(seen.glimpses)
    for row in rows:
        form = _form(seen.glimpses[row].text)
        repeats[row] = form in said
        said.add(form)
    return np.array(repeats)


def _form(text: str) -> str:
    """Return the `normal_form` of a text; for most texts in a third of the time."""
    return " ".join(text.split()).lower().removesuffix(".").rstrip() if text.isascii() else normal_form(text)


def fuse(words: Sequence[Match], near: Sequence[Match], weights: Weights) -> list[Ranked]:
    """Normalise both lists and add them by weight, for the choice of candidates and for stores without neighbours.

    Equal scores are ordered by id, newest first. With only one list, its part is the whole score.
    """
    by_words, by_vector = _relative(words), _spread(near)
    total = (weights.words if words else 0) + (weights.vector if near else 0)
    ids = sorted(by_words.keys() | by_vector.keys(), reverse=True)
    parts = {
        "words": np.array([by_words.get(id, 0.0) for id in ids]),
        "similar": np.array([by_vector.get(id, 0.0) for id in ids]),
    }
    scores = np.clip((weights.words * parts["words"] + weights.vector * parts["similar"]) / max(total, 1e-9), 0, 1)
    return [Ranked(ids[row], float(scores[row]), row, parts) for row in np.argsort(-scores, kind="stable").tolist()]


def _relative(matches: Sequence[Match]) -> dict[str, float]:
    """Scale BM25 scores, which have no upper limit, so that the best match has 1."""
    best = max((match.score for match in matches), default=0.0)
    return {match.id: match.score / best if best > 0 else 1.0 for match in matches}


def _spread(matches: Sequence[Match]) -> dict[str, float]:
    """Stretch similarities, which lie close together, over the range that the list covers.

    The best keeps its own similarity: a list without any good match does not get a good score.
    """
    if not matches:
        return {}
    high = max(m.score for m in matches)
    low = min(high - LEAST_RANGE, *(m.score for m in matches))
    return {match.id: high * (match.score - low) / (high - low) for match in matches}


CONTRAST = 2.0
"""Weight of the difference between the best memory of the speaker asked about and that of others."""
HALFWAY, CONFIDENCE_STEEPNESS = 0.62, 9.0
"""The similarity at which the confidence is one half, and the steepness of its curve there."""
WORDS_HALFWAY, WORDS_STEEPNESS = 0.6, 4.0
"""The same for the share of distinctive words, if the query has no vector."""


def confidence(seen: Scene, parsed: ParsedQuery, cover: float, *, by_words: bool) -> float:
    """Estimate how sure it is that the query has an answer here: near 1 if a memory is similar, near 0 if none is.

    Without vectors, the share of the query's telling words that one memory has must do.
    """
    if by_words:
        return _squashed(cover - WORDS_HALFWAY, WORDS_STEEPNESS)
    similar = seen.similarity[seen.candidate]
    best = float(similar.max(initial=0.0))
    if parsed.speaker is not None:
        others = np.array([parsed.about(g.speaker, None) < 0 for g in seen.glimpses])[seen.candidate]
        own, other = float(similar[~others].max(initial=0.0)), float(similar[others].max(initial=0.0))
        best = own + CONTRAST * (own - other)
    return _squashed(best - HALFWAY, CONFIDENCE_STEEPNESS)


def _squashed(value: float, steepness: float) -> float:
    return 1 / (1 + math.exp(-min(50.0, max(-50.0, steepness * value))))


# Training -----------------------------------------------------------------------------------------------

Node = Mapping[str, Any]


def grown(features: Sequence[str], trees: Sequence[Node]) -> Trees:
    """Read trees from the output of LightGBM's `dump_model`. Raises `ValueError` if one is too large."""
    tables = [_table(tree) for tree in trees]
    nodes = max((len(feature) for feature, _, _, _ in tables), default=1)
    count = len(tables)
    feature = np.zeros((count, nodes), dtype=np.intp)
    threshold = np.full((count, nodes), np.inf)  # a node that is not there says yes
    left = np.full((count, nodes), 255, dtype=np.uint8)
    value = np.zeros((count, LEAVES))
    for row, (features_of, thresholds, lefts, values) in enumerate(tables):
        feature[row, : len(features_of)] = features_of
        threshold[row, : len(thresholds)] = thresholds
        left[row, : len(lefts)] = lefts
        value[row, : len(values)] = values
    return Trees(tuple(features), feature, threshold, left, value)


def _table(tree: Node) -> tuple[list[int], list[float], list[int], list[float]]:
    """Return a tree's inner nodes (feature, threshold, leaves that stay on no) and the values of its leaves."""
    feature: list[int] = []
    threshold: list[float] = []
    left: list[int] = []
    values: list[float] = []

    def walk(node: Node) -> int:
        """Return the leaves below a node, as bits."""
        if "leaf_value" in node:
            values.append(float(node["leaf_value"]))
            return 1 << (len(values) - 1)
        place = len(feature)
        feature.append(int(node["split_feature"]))
        threshold.append(float(node["threshold"]))
        left.append(0)
        yes = walk(node["left_child"])
        no = walk(node["right_child"])
        left[place] = 255 & ~yes
        return yes | no

    walk(tree)
    if len(values) > LEAVES:
        raise ValueError(f"a tree has {len(values)} leaves; train with num_leaves={LEAVES}")
    return feature, threshold, left, values


# Multipliers of an agent --------------------------------------------------------------------------------


class Tuned(Frozen):
    """The stored settings of an agent's ranking."""

    multipliers: dict[str, Annotated[float, Field(ge=LEAST, le=MOST)]] = Field(default_factory=dict)


class Tuning:
    """The multipliers learned from the credits of each agent, kept in the settings of the store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[Scope, tuple[datetime, Multipliers]] = {}

    def multipliers(self, scope: Scope, now: datetime) -> Multipliers:
        """Return the multipliers of an agent's scores, by part; at most a minute old."""
        read, known = self._known.get(scope, (None, {}))
        if read is not None and abs(now - read) < FRESH:
            return known
        return self._remember(scope, now, self.read(scope))

    def read(self, scope: Scope) -> Multipliers:
        """Read the multipliers from the store; without valid ones, the defaults stay in use."""
        try:
            return Tuned.model_validate_json(self._store.setting(_name(scope)) or "{}").multipliers
        except ValidationError:
            return {}

    def adopt(self, scope: Scope, now: datetime, multipliers: Multipliers) -> None:
        """Store new multipliers, for every process."""
        self._store.set_setting(_name(scope), Tuned(multipliers=dict(multipliers)).model_dump_json())
        self._remember(scope, now, multipliers)

    def _remember(self, scope: Scope, now: datetime, multipliers: Multipliers) -> Multipliers:
        if len(self._known) >= REMEMBERED:
            self._known.clear()
        self._known[scope] = (now, multipliers)
        return multipliers


def _name(scope: Scope) -> str:
    return "ranking:" + digest(scope.agent)
