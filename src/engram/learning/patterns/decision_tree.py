"""Grow readable decision trees: which action to take, depending on the features of the context.

A question is asked only on strong evidence: the outcomes must be so much more likely with separate rates on either side
than with one (a Bayes factor) that this outweighs the number of possible questions. In pure noise the tree has a single
branch, except for about one time in a hundred.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType

import numpy as np

from engram.learning.decisions.belief import DEFAULT, GOOD, DecisionEpisode, rate_after
from engram.learning.decisions.beta import Beta
from engram.learning.situations.similar_contexts import WORD, descriptive_features, distinct_episodes
from engram.model.decision import ActionRecord
from engram.model.success import Condition, DecisionBranch, DecisionOutcome, DecisionTemplate
from engram.text.terms import digest, normal_form

CONFIDENCE = 0.75
"""Probability that an action is the best above which it is recommended."""
DEPTH = 3
LEAF = 5
"""Episodes needed on either side of a question."""
ODDS = 4.0
"""Odds that a question matters which it needs to be asked, when one of all questions is expected to matter."""
HISTORY = 100
SHOWN = 5
_ENOUGH = 2  # attempts before anything is recommended

_Numbers = np.ndarray[tuple[int], np.dtype[np.float64]]
_Indexes = np.ndarray[tuple[int], np.dtype[np.int64]]
_Flags = np.ndarray[tuple[int], np.dtype[np.bool_]]


def decision_template(
    episodes: Iterable[DecisionEpisode],
    signature: str,
    *,
    title: str = "",
    expected: Mapping[str, float] = MappingProxyType({}),
    confidence_threshold: float = CONFIDENCE,
) -> DecisionTemplate | None:
    """Return the tree that a set of episodes supports, in any order; `None` without episodes.

    `expected` are the rates of actions, in normal form, that are expected from all other situations. Without a system
    in the outcomes the tree is a single branch, which may abstain.
    """
    evidence = _EpisodeTable.of(distinct_episodes(episodes), expected)
    if not evidence.episodes:
        return None
    everything = np.ones(len(evidence.episodes), dtype=np.bool_)
    newest = sorted(evidence.episodes, key=lambda episode: (episode.at, episode.id), reverse=True)
    return DecisionTemplate(
        pattern_id=digest("template", signature),
        context_signature=signature,
        title=title or signature,
        decision_tree=tuple(_grow(evidence, (), everything, confidence_threshold, None)),
        confidence_threshold=confidence_threshold,
        success_history=tuple(
            DecisionOutcome(
                episode=episode.id, action=episode.action, quality=episode.quality, at=episode.at, agent=episode.agent
            )
            for episode in newest[:HISTORY]
        ),
        attempts=len(evidence.episodes),
    )


def render(template: DecisionTemplate) -> str:
    """Format the tree as text: one question or answer per line, indented by depth."""
    return "\n".join(_lines(template.decision_tree, 0, f"in {_one_line(template.title or template.context_signature)}"))


def rate_interval(belief: Beta) -> tuple[float, float]:
    """Return the 95% interval of a rate, rounded so that it can be cached."""
    return _rate_interval(round(belief.a, 2), round(belief.b, 2))


@dataclass(frozen=True, slots=True)
class _EpisodeTable:
    """Episodes as arrays: the action, quality and weight of each, and each feature each of them has."""

    episodes: Sequence[DecisionEpisode]
    names: Sequence[str]
    expected: Sequence[float]
    action: _Indexes
    quality: _Numbers
    weight: _Numbers
    features: Sequence[str]
    row: _Indexes
    feature: _Indexes

    @classmethod
    def of(cls, episodes: Sequence[DecisionEpisode], expected: Mapping[str, float]) -> _EpisodeTable:
        names: dict[str, tuple[int, str]] = {}
        for episode in episodes:
            names.setdefault(normal_form(episode.action), (len(names), episode.action))
        sets = [descriptive_features(episode.context, episode.features) for episode in episodes]
        features = sorted(frozenset().union(*sets), key=lambda name: (name.startswith(WORD), name))
        number = {name: index for index, name in enumerate(features)}
        pairs = [(row, number[name]) for row, several in enumerate(sets) for name in several]
        pairs.sort()
        return cls(
            episodes=episodes,
            names=[name for _, name in names.values()],
            expected=[expected.get(name, GOOD) for name in names],
            action=np.array([names[normal_form(episode.action)][0] for episode in episodes], dtype=np.int64),
            quality=np.array([episode.quality for episode in episodes]),
            weight=np.clip(np.array([episode.trust for episode in episodes]), 0, 1),
            features=features,
            row=np.array([row for row, _ in pairs], dtype=np.int64),
            feature=np.array([feature for _, feature in pairs], dtype=np.int64),
        )


def _grow(
    evidence: _EpisodeTable, conditions: tuple[Condition, ...], rows: _Flags, threshold: float, usual: str | None
) -> list[DecisionBranch]:
    """Return the branches for these episodes; a question that leads to the same recommendation twice is dropped."""
    here = _make_branch(evidence, conditions, rows, threshold, usual)
    question = _best_question(evidence, rows) if len(conditions) < DEPTH else None
    if question is None:
        return [here]
    with_it = np.zeros_like(rows)
    with_it[evidence.row[evidence.feature == question]] = True
    name = evidence.features[question]
    sides = [
        _grow(evidence, (*conditions, Condition(feature=name, present=present)), side, threshold, here.action)
        for present, side in ((True, rows & with_it), (False, rows & ~with_it))
    ]
    branches = [branch for side in sides for branch in side]
    return [here] if len(branches) == 2 and branches[0].recommended == branches[1].recommended else branches


def _best_question(evidence: _EpisodeTable, rows: _Flags) -> int | None:
    """Return the feature that divides these episodes best; `None` if no division beats chance.

    A feature that changes which action is better precedes one that only makes all actions better or worse.
    """
    turning, any_change, support = _gains(evidence, rows)
    candidates = np.flatnonzero((support >= LEAF) & (support <= int(rows.sum()) - LEAF))
    if not len(candidates):
        return None
    words = np.array([evidence.features[int(index)].startswith(WORD) for index in candidates], dtype=np.bool_)
    # Half of the error rate is for explicit features and half for words, so that many words hide no feature.
    tries = np.where(words, words.sum(), (~words).sum()) * (1 + (0 < words.sum() < len(words)))
    chance = np.log(tries * ODDS)
    for gain in (np.minimum(turning, any_change)[candidates], any_change[candidates]):
        best = int((gain - chance).argmax())
        if gain[best] > chance[best]:
            as_good = candidates[gain >= gain[best] - 1e-9]  # equivalent divisions: explicit features first
            return int(as_good[0])
    return None


def _gains(evidence: _EpisodeTable, rows: _Flags) -> tuple[_Numbers, _Numbers, _Numbers]:
    """Return, for every feature, two log Bayes factors for dividing by it, and how many episodes have it.

    The first compares with one factor by which all rates of a side are higher or lower, the second with no difference.
    An action that never occurs with a feature is not divided by it, so only pairs that occur are considered.
    """
    actions, features = len(evidence.names), len(evidence.features)
    inside = rows[evidence.row]
    row, feature = evidence.row[inside], evidence.feature[inside]
    weight, good = evidence.weight * rows, evidence.weight * evidence.quality * rows
    pairs, which = np.unique(feature * actions + evidence.action[row], return_inverse=True)
    action, of = pairs % actions, pairs // actions
    n_with, good_with = _sums(which, weight[row], len(pairs)), _sums(which, good[row], len(pairs))
    n, well = _sums(evidence.action, weight, actions)[action], _sums(evidence.action, good, actions)[action]
    divided = (
        _log_likelihood(n_with, good_with) + _log_likelihood(n - n_with, well - good_with) - _log_likelihood(n, well)
    )
    rate, shifted = (well + 1) / (n + 2), np.zeros(len(pairs))
    for tried, worked in ((n_with, good_with), (n - n_with, well - good_with)):
        expected, seen = _sums(of, tried * rate, features), _sums(of, worked, features)
        moved = np.clip(rate * ((seen + 0.5) / (expected + 0.5))[of], 0.005, 0.995)
        shifted += worked * np.log(moved / rate) + (tried - worked) * np.log((1 - moved) / (1 - rate))
    # A priori, each action is as likely divided as not.
    turning, any_change = (np.logaddexp(gain, 0) - math.log(2) for gain in (divided - shifted, divided))
    support = _sums(feature, np.ones(len(feature)), features)
    return _sums(of, turning, features), _sums(of, any_change, features), support


def _sums(which: _Indexes, values: _Numbers, size: int) -> _Numbers:
    return np.bincount(which, values, minlength=size).astype(np.float64)


def _log_likelihood(n: _Numbers, good: _Numbers) -> _Numbers:
    """Return the log likelihood of such outcomes under a uniform prior of every rate."""
    good = np.maximum(good, 0)
    bad = np.maximum(n - good, 0)
    return _log_gamma(1 + good) + _log_gamma(1 + bad) - _log_gamma(2 + good + bad)


def _log_gamma(x: _Numbers) -> _Numbers:
    """Return the logarithm of the gamma function for x >= 1, by Stirling's series at x + 7."""
    product = x * (x + 1) * (x + 2) * (x + 3) * (x + 4) * (x + 5) * (x + 6)
    y = x + 7
    series = (1 / 12 - (1 / 360 - 1 / (1260 * y * y)) / (y * y)) / y
    return (y - 0.5) * np.log(y) - y + math.log(2 * math.pi) / 2 + series - np.log(product)


@dataclass(frozen=True, slots=True)
class _LeafAction:
    """The record of one action in one leaf."""

    action: str
    episodes: Sequence[DecisionEpisode]
    belief: Beta

    def record(self) -> ActionRecord:
        return ActionRecord(
            action=self.action,
            success_rate=self.belief.mean,
            interval=rate_interval(self.belief),
            attempts=len(self.episodes),
            weight=max(0.0, self.belief.a + self.belief.b - 2),
            last_used=max(episode.at for episode in self.episodes),
            episodes_for=tuple(episode.id for episode in self.episodes if episode.quality >= GOOD),
            episodes_against=tuple(episode.id for episode in self.episodes if episode.quality < GOOD),
        )


def _make_branch(
    evidence: _EpisodeTable, conditions: tuple[Condition, ...], rows: _Flags, threshold: float, usual: str | None
) -> DecisionBranch:
    """Return the best action among these episodes: the `usual` one, unless another is clearly better."""
    inside = [int(row) for row in np.flatnonzero(rows)]
    by_action: dict[int, list[int]] = defaultdict(list)
    for row in inside:
        by_action[int(evidence.action[row])].append(row)
    candidates = []
    for action, mine in by_action.items():
        several = [evidence.episodes[row] for row in mine]
        outcomes = zip(evidence.quality[mine].tolist(), evidence.weight[mine].tolist(), strict=True)
        candidates.append(_LeafAction(evidence.names[action], several, rate_after(outcomes, evidence.expected[action])))
    candidates.sort(key=lambda candidate: (-candidate.belief.mean, -len(candidate.episodes), candidate.action))
    best = _choose(candidates, usual, threshold)
    rivals = [candidate for candidate in candidates if candidate is not best]
    confidence = best.belief.beats(rivals[0].belief) if rivals else 1 - best.belief.below(GOOD)
    reason = _abstention(best, rivals, len(inside), threshold)
    record = best.record()
    return DecisionBranch(
        conditions=conditions,
        action=record.action,
        success_rate=record.success_rate,
        interval=record.interval,
        attempts=record.attempts,
        confidence=min(1.0, max(0.0, confidence)),
        abstained=reason is not None,
        reason=reason or _recommendation(rivals, confidence, threshold),
        actions=tuple(candidate.record() for candidate in [best, *rivals][:SHOWN]),
    )


def _choose(best_first: Sequence[_LeafAction], usual: str | None, threshold: float) -> _LeafAction:
    """Return the first action if it is clearly better than the usual one: among many, one looks better by chance."""
    first = best_first[0]
    known = next((candidate for candidate in best_first if candidate.action == usual), first)
    clearly = 1 - (1 - threshold) / max(1, len(best_first) - 1)
    return first if known is first or first.belief.beats(known.belief) >= clearly else known


def _abstention(best: _LeafAction, rivals: Sequence[_LeafAction], attempts: int, threshold: float) -> str | None:
    """Return the reason not to recommend the best action, by what that could cost; `None` to recommend it.

    At the default threshold the cost accepted is that of suggestions; a higher threshold accepts less.
    """
    if attempts < _ENOUGH:
        return "too little evidence: only 1 attempt"
    if best.belief.mean <= GOOD:
        return "nothing tried here is more likely to work than to fail"
    loss = max((best.belief.loss(rival.belief) for rival in rivals), default=best.belief.loss_against(GOOD))
    if loss > DEFAULT.acceptable_loss * (1 - threshold) / (1 - CONFIDENCE):
        return f"too close to call between {best.action} and {rivals[0].action if rivals else 'chance'}"
    return None


def _recommendation(rivals: Sequence[_LeafAction], confidence: float, threshold: float) -> str:
    if rivals and confidence < threshold:
        return f"either this or {rivals[0].action}: both worked about as well here"
    return f"it worked best here, with {confidence:.0%} confidence"


@lru_cache(maxsize=100_000)
def _rate_interval(a: float, b: float) -> tuple[float, float]:
    low, high = Beta(max(a, 0.01), max(b, 0.01)).interval()
    return max(0.0, low), min(1.0, high)


def _lines(branches: Sequence[DecisionBranch], depth: int, lead: str) -> list[str]:
    indent = "  " * (depth if depth == 0 else depth - 1)
    first = branches[0]
    if len(branches) == 1:
        return [f"{indent}{lead}: {_answer(first)}"]
    question = first.conditions[depth]
    sides = [branch for branch in branches if branch.conditions[depth] == question]
    others = [branch for branch in branches if branch.conditions[depth] != question]
    header = [] if depth == 0 else [f"{indent}{lead}:"]
    return [
        *header,
        *_lines(sides, depth + 1, f"if {_one_line(question.feature)}"),
        *_lines(others, depth + 1, "otherwise"),
    ]


def _answer(branch: DecisionBranch) -> str:
    attempts = f"{branch.attempts} attempt{'' if branch.attempts == 1 else 's'}"
    known = f"{_one_line(branch.action)} ({branch.success_rate:.0%}, {attempts})"
    return f"undecided, {_one_line(branch.reason)}; best so far {known}" if branch.abstained else known


def _one_line(text: str) -> str:
    return " ".join(text.split())
