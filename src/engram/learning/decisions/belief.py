"""Estimate the success rate of actions in a context or situation, how certain it is, and whether it has changed.

Everything about success rates uses this: suggestions, predictions, verdicts, success patterns and templates. Similarity
is measured against everyday texts: contexts no more similar than those weigh nothing, however many there are. An
episode counts once: it counts here as far as it resembles the context asked about, and with the rest of its weight in
the wider group, which is a weak prior for the same action. Outcomes from before a change of an action's rate hardly
count.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from textwrap import shorten
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from engram.learning.decisions.beta import Beta, interval
from engram.learning.decisions.rate_changes import (
    PossibleChange,
    RateChange,
    Trial,
    change_variance,
    last_change,
    possible_changes,
    probability_unchanged,
)
from engram.learning.situations.nearness import DEFAULT_NEARNESS, Nearness, relative_closeness
from engram.model import ActionRecord
from engram.text.terms import normal_form, query_terms

Numbers = NDArray[np.float64]

GOOD = 0.5
"""Quality above which an outcome is a success."""
EVERYTHING = "*"
"""The group of all decisions."""

SAME = 1 - 1e-6
"""Similarity above which a context is the one asked about."""
OTHER_FEATURES = 8.0
"""Combined weight, in episodes, of decisions that share no feature, beside those that do."""

ELSEWHERE = 0.2
"""Weight of an episode in contradicting circumstances, as a neighbour."""

OTHER_SITUATIONS = 3.0
"""Combined weight, in episodes, of all attempts in other situations, as the prior in this one."""

UNSEEN = 2.0
"""Weight of the overall frequency of a word in contexts, where it was never seen with an action."""

POOLED = 0.8
"""Least weight of an episode of the same situation in other words."""

POOLED_FOR_CHANGES = 1.0
"""Least weight of an episode of the same situation in other words, where a change of the rate is looked for."""

WEAKEST = 0.5
"""Least strength of a belief, however much its rate may have changed."""

CONSIDERED = 0.01
"""Probability above which a possible change of the rate counts in its interval."""

LEAST_WEIGHT = 0.02
"""Smaller weights are set to zero, so that the list of evidence stays readable."""

QUOTED = 80
"""Most characters of a context that is quoted in a reason."""

_DAY = 86_400.0


def circumstances(features: Iterable[str]) -> str:
    """Return the features that can contradict others, such as the environment, as one text; tags are left out."""
    return " ".join(sorted(one for one in features if "=" in one and not one.startswith("tag=")))


@dataclass(frozen=True, slots=True)
class DecisionEpisode:
    """One decision with a known outcome, and the similarity of its context to the one asked about."""

    id: str
    action: str
    quality: float
    at: datetime
    context: str
    similarity: float = 1.0
    """Similarity of its context's text to the one asked about; 1.0 is the same context."""
    features: frozenset[str] = frozenset()
    """Such as `tool=npm`, `env=ci`, `type=auth`, `tag=db`."""
    situation: str = ""
    """The id of its situation in its agent's memory; empty if it has none yet."""
    same_situation: bool | None = None
    """True if its context is of the situation asked about; `None` if that is unknown."""
    agent: str = ""
    trust: float = 1.0
    """Trust in the agent; 1.0 is the agent itself, and only its episodes are expected in the group totals."""

    def circumstances(self) -> str:
        """Return the features that can contradict others, as one text."""
        return circumstances(self.features)


class GroupTotals(NamedTuple):
    """Sums over a wider group of episodes, older ones weighing less."""

    attempts: float
    quality: float


Groups = Mapping[str, Mapping[str, GroupTotals]]
"""Maps a group name (`EVERYTHING`, or a feature such as `tool=npm`) to its totals by action, listed episodes included.
"""

NO_GROUPS: Groups = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class BeliefSettings:
    """Weights of evidence, and the amount of it a recommendation needs."""

    half_life_days: float = 30.0
    """Time after which an episode weighs half."""
    prior: float = 2.0
    """Weight of the uniform prior, in episodes: Beta(1, 1)."""
    wider: float = 4.0
    """Weight of the wider group, in episodes, before neighbours have shown how much contexts matter."""
    doubt: float = 16.0
    """Weight of neighbours at which they count as much as `wider` for how much contexts matter."""
    unrelated: float = 0.7
    """Similarity below which texts have nothing in common, used while too few texts are known to tell."""
    related: float = 0.7
    """Closeness at which a context weighs half; 0 is an everyday text, 1 the same text."""
    steepness: float = 0.04
    tolerance: float = 0.2
    """Distance behind the nearest context at which another one still has full weight."""
    falloff: float = 0.15
    """Distance beyond the tolerance at which an episode weighs 1/e."""
    farthest: float = 0.5
    """Least nearness of an action's nearest episode, as a share of the nearest of all, for it to be a candidate."""
    against: float = 3.0
    """An action is no candidate if the words of the context favour another one by so much (log odds)."""
    free: int = 128
    """Nearest decisions compared with all; if both have the same mixture of actions, each action is a candidate."""
    enough_free: float = 400.0
    """Decisions needed for that comparison."""
    tried: float = 0.5
    """Least weight in similar contexts, in episodes, of an action never taken here, to be recommended."""
    enough_attempts: float = 2.0
    acceptable_loss: float = 0.12
    """Success rate that following the recommendation may cost, in expectation, against any other action."""


DEFAULT = BeliefSettings()


class EvidenceSums(NamedTuple):
    """Sums of weights and of weighted qualities, one number per action."""

    here: Numbers
    here_good: Numbers
    near: Numbers
    near_good: Numbers
    near_squared: Numbers
    """Sums of squared weights, which give the noise of `near_good`."""
    rest: Numbers
    """Totals of the wider groups without the episodes counted above."""
    rest_good: Numbers


class RateEstimates(NamedTuple):
    """A beta distribution per action, by mean and strength, and the strength that exploration draws with."""

    mean: Numbers
    strength: Numbers
    drawn: Numbers


def closeness(similarities: Numbers, settings: BeliefSettings = DEFAULT) -> Numbers:
    """Return how close each retrieved context is to the one asked about: 0 is any other text, 1 the same.

    The similarity of any other text depends on the embedder, so it is taken from the least similar of those retrieved,
    as far as there are enough of them.
    """
    if not len(similarities):
        return np.zeros(0)
    farthest = float(similarities.min())
    known = len(similarities) / (len(similarities) + 64)
    usual = known * farthest + (1 - known) * min(farthest, settings.unrelated)
    return np.clip((similarities - usual) / max(1 - usual, 1e-9), 0, 1)


def _same_kind(closeness: Numbers, settings: BeliefSettings) -> Numbers:
    """Return the probability that contexts of such closeness are of the same kind, before nearness is learned."""
    found: Numbers = 1 / (1 + np.exp(np.clip((settings.related - closeness) / settings.steepness, -60, 60)))
    return found


def is_related(closeness: float, nearness: Nearness, settings: BeliefSettings = DEFAULT) -> bool:
    """Return whether the nearest context, at such closeness, is more likely of the same kind than of another."""
    close = np.array([closeness])
    return bool(max(_same_kind(close, settings)[0], nearness.related(close)[0]) >= GOOD)


def relatedness(similarities: Numbers, usual: float, nearest: float, settings: BeliefSettings = DEFAULT) -> Numbers:
    """Weigh contexts by how likely they are of the same kind as the one asked about: 0 is unrelated, 1 the same.

    `usual` is the similarity of the question to everyday texts, `nearest` that of the nearest context. The farther a
    context is behind the nearest one, the less it counts.
    """
    closeness, best = relative_closeness(usual, similarities), relative_closeness(usual, nearest)
    same_kind = _same_kind(closeness, settings)
    behind = np.maximum(best - closeness - settings.tolerance, 0)
    weights: Numbers = same_kind * np.exp(-behind / settings.falloff)
    return weights


def estimate_rates(
    evidence: EvidenceSums, settings: BeliefSettings = DEFAULT, *, level: float | None = None
) -> RateEstimates:
    """Estimate the rates of all actions in a context: from here, then near here, then the wider group, then the prior.

    Neighbours shift all actions together (a harder context) and each one by itself; how far is learned from them: if
    they differ from the wider rates no more than chance would, the context does not matter. What sets this context
    apart from its neighbours stays uncertain, however many there are. `level` is the expected rate of an unknown
    action, used where the wider group is of other situations, which tell little; without it, the rate of all actions
    together is used.
    """
    half = settings.prior / 2
    rest, rest_good = evidence.rest, evidence.rest_good
    if level is not None:
        worth = OTHER_SITUATIONS / np.maximum(rest, OTHER_SITUATIONS)
        rest, rest_good = worth * rest, worth * rest_good
    pooled = (rest_good.sum() + half) / (rest.sum() + settings.prior) if level is None else level
    wide = (rest_good + settings.prior * pooled) / (rest + settings.prior)
    off = evidence.near_good - evidence.near * wide
    harder = off.sum() / (evidence.near.sum() + settings.wider)
    usual = pooled * (1 - pooled)
    noise = wide * (1 - wide) * (evidence.near_squared + evidence.near**2 / (rest + settings.prior))
    doubt = settings.doubt**2
    spread = (float((off**2 - noise).sum()) + doubt * usual / settings.wider) / (
        float((evidence.near**2).sum()) + doubt
    )
    spread = max(spread, 1e-4)
    trusted = np.minimum(usual / spread, rest + settings.prior)
    nearby = np.clip(wide + harder, 0.01, 0.99)
    mean = (trusted * nearby + evidence.near_good) / (trusted + evidence.near)
    chance = np.clip(mean * (1 - mean), 1e-6, None)
    apart = 1 - evidence.near_squared / np.maximum(evidence.near, 1e-9)
    unsure = 1 / (1 / (spread + chance / (rest + settings.prior + 1)) + evidence.near / chance)
    unsure += spread * apart * evidence.near / (trusted + evidence.near)
    strength = np.maximum(chance / unsure - 1, settings.prior)
    before = np.where(evidence.here > 0, settings.prior, strength)
    after = before + evidence.here
    best = (before * mean + evidence.here_good) / after
    known = rest + evidence.near
    again = bool(evidence.here.any())
    drawn = settings.prior + evidence.here + (np.minimum(known, settings.wider - settings.prior) if again else known)
    return RateEstimates(np.clip(best, 1e-6, 1 - 1e-6), after, drawn)


@dataclass(frozen=True, slots=True)
class ActionBelief:
    """The estimated rate of one action, and the episodes behind it."""

    action: str
    belief: Beta
    drawn: float
    here: tuple[DecisionEpisode, ...]
    near: tuple[DecisionEpisode, ...]
    weight: float
    nearest: float = 1.0
    """Nearness of its nearest episode, as a share of the nearest of all."""
    in_situation: float = 0.0
    """Total weight of its episodes of the same situation in other words."""
    spoken_for: float = 0.0
    """Log odds by which the words of the context favour another action."""
    changed: RateChange | None = None
    interval: tuple[float, float] = (0.0, 1.0)

    def ids(self) -> list[str]:
        """Return the ids of its episodes, those of this context first."""
        return [episode.id for episode in (*self.here, *self.near)]

    def attempts(self) -> int:
        """Return the number of attempts in this context, and in the same situation in other words."""
        return len(self.here) + sum(episode.same_situation is True for episode in self.near)

    def where(self) -> str:
        """Describe where its nearest episodes are; of similar contexts, quote the agent's own nearest one."""
        if self.here:
            return "here"
        if self.attempts():
            return "in this situation"
        nearest = next((one.context for one in self.near if one.trust >= 1), None)
        return "in similar contexts" + (f' such as "{shorten(nearest, QUOTED, placeholder="…")}"' if nearest else "")

    def record(self) -> ActionRecord:
        """Return it as the model that callers get."""
        return ActionRecord(
            action=self.action,
            success_rate=self.belief.mean,
            interval=self.interval,
            attempts=len(self.here),
            last_used=max((episode.at for episode in (*self.here, *self.near)), default=None),
            episodes_for=tuple(episode.id for episode in self.here if episode.quality >= GOOD),
            episodes_against=tuple(episode.id for episode in self.here if episode.quality < GOOD),
            similar=len(self.near),
            near=tuple(episode.id for episode in self.near),
            weight=self.weight,
        )


class _WeighedEpisodes(NamedTuple):
    """Each episode once, nearest first, with its weight, and all actions ever taken."""

    episodes: list[DecisionEpisode]
    here: NDArray[np.bool_]
    """True for each episode of the context asked about."""
    same: NDArray[np.bool_]
    """True for each episode of the same situation."""
    weight: Numbers
    likeness: Numbers
    """The closeness of each to the context asked about; 1 is the same."""
    counted: Numbers
    """The weights of those included in the group totals, before changes of rates reduced them."""
    changes: Mapping[str, RateChange]
    """By action, in normal form: the last change of its rate."""
    since: Mapping[str, Sequence[PossibleChange]]
    """By action, in normal form: the moments at which its rate may have changed, with what happened since."""
    which: NDArray[np.intp]
    """The index of each episode's action."""
    actions: Mapping[str, str]
    """Maps the normal form of each action to its spelling."""

    def summed(self, values: Numbers) -> Numbers:
        """Sum up a number per episode for each action."""
        return np.bincount(self.which, values, len(self.actions)).astype(np.float64)

    def qualities(self) -> Numbers:
        return np.array([one.quality for one in self.episodes], dtype=np.float64)


def rate_after(
    outcomes: Iterable[tuple[float, float]], expected: float = GOOD, settings: BeliefSettings = DEFAULT
) -> Beta:
    """Return the posterior of a rate after outcomes, each a quality and a weight."""
    good = bad = 0.0
    for quality, weight in outcomes:
        good += weight * quality
        bad += weight * (1 - quality)
    return Beta(settings.prior * expected + good, settings.prior * (1 - expected) + max(bad, 0.0))


class SituationOutcome(NamedTuple):
    """An outcome of an action in a situation; `here` if it was in the very context asked about."""

    at: datetime
    quality: float
    here: bool
    circumstances: str = ""


def rate_in_situation(
    outcomes: Sequence[SituationOutcome], now: datetime, settings: BeliefSettings = DEFAULT
) -> tuple[Beta, RateChange | None]:
    """Return the posterior of an action's rate in a situation from its own outcomes there, in order of time.

    The last change of the rate, if any, is returned as well.
    """
    trials = [Trial(one.at, one.quality, 1.0, circumstances=one.circumstances) for one in outcomes]
    change = last_change(trials)
    counting = probability_unchanged(trials, change)
    worth = [
        _age_weight(one.at, now, settings) * (1.0 if one.here else POOLED) * left
        for one, left in zip(outcomes, counting, strict=True)
    ]
    known = rate_after(((one.quality, weight) for one, weight in zip(outcomes, worth, strict=True)), settings=settings)
    return _widened_belief(known.mean, known.a + known.b, possible_changes(trials, change)), change


def expected_rates(
    episodes: Iterable[DecisionEpisode], everywhere: Mapping[str, GroupTotals], settings: BeliefSettings = DEFAULT
) -> dict[str, float]:
    """Return, by action, the rate expected in a situation from all other situations.

    `everywhere` are the totals of all situations together, these episodes included.
    """
    names = sorted(everywhere)
    places = {name: place for place, name in enumerate(names)}
    known = [(places[normal_form(one.action)], one.trust, one.quality) for one in episodes]
    which = np.array([place for place, _, _ in known], dtype=np.intp)
    trust = np.array([trust for _, trust, _ in known], dtype=np.float64)
    good = trust * np.array([quality for _, _, quality in known], dtype=np.float64)
    here = np.bincount(which, trust, len(names)).astype(np.float64)
    here_good = np.bincount(which, good, len(names)).astype(np.float64)
    rest = np.maximum(np.array([everywhere[name].attempts for name in names]) - here, 0.0)
    rest_good = np.clip(np.array([everywhere[name].quality for name in names]) - here_good, 0.0, rest)
    none = np.zeros(len(names))
    beliefs = estimate_rates(EvidenceSums(none, none, none, none, none, rest, rest_good), settings, level=GOOD)
    return {name: float(beliefs.mean[place]) for name, place in places.items()}


def action_beliefs(
    context: str,
    episodes: Iterable[DecisionEpisode],
    now: datetime,
    groups: Groups,
    features: frozenset[str],
    actions: Sequence[str] | None,
    settings: BeliefSettings,
    also: Sequence[str] = (),
    *,
    usual: float | None = None,
    nearness: Nearness = DEFAULT_NEARNESS,
) -> list[ActionBelief]:
    """Return a belief for every action to be listed, in no particular order.

    All actions take part in the estimate, because they tell about the context; `actions` narrows it afterwards.
    """
    known = _weigh_episodes(episodes, now, groups, features, (*(actions or ()), *also), settings, usual, nearness)
    beliefs = estimate_rates(_sum_evidence(known, groups, features), settings, level=None if usual is None else GOOD)
    seen, counts = known.summed(known.weight), known.weight > 0
    nearest = np.zeros(len(known.actions))
    np.maximum.at(nearest, known.which, np.where(counts, known.likeness, 0.0))
    nearest /= max(float(nearest.max(initial=0.0)), 1e-9)
    same = known.summed(np.where(known.same, known.weight, 0.0))
    words = np.zeros(len(known.actions)) if usual is None else _word_support(context, known)
    if actions is not None:
        wanted = {normal_form(action) for action in actions}
    else:
        wanted = _nearby_actions(known, groups, features, also)
    return [
        ActionBelief(
            action=action,
            belief=_widened_belief(
                float(beliefs.mean[place]), float(beliefs.strength[place]), known.since.get(name, ())
            ),
            interval=_interval(float(beliefs.mean[place]), float(beliefs.strength[place]), known.since.get(name, ())),
            drawn=float(beliefs.drawn[place]),
            here=tuple(known.episodes[i] for i in np.flatnonzero((known.which == place) & counts & known.here)),
            near=tuple(known.episodes[i] for i in np.flatnonzero((known.which == place) & counts & ~known.here)),
            weight=float(seen[place]),
            nearest=float(nearest[place]),
            in_situation=float(same[place]),
            spoken_for=float(words[place]),
            changed=known.changes.get(name),
        )
        for place, (name, action) in enumerate(known.actions.items())
        if name in wanted
    ]


def _widened_belief(mean: float, strength: float, possible: Sequence[PossibleChange]) -> Beta:
    """Return the distribution of a mean and a strength, widened by the uncertainty whether the rate has changed."""
    chance = mean * (1 - mean)
    wider = max(chance / (chance / (strength + 1) + change_variance(possible)) - 1, WEAKEST)
    return Beta(mean * wider, (1 - mean) * wider)


def _interval(mean: float, strength: float, possible: Sequence[PossibleChange]) -> tuple[float, float]:
    """Return the 95% interval of a rate, over the cases that it has and has not changed; it contains the mean."""
    likely = [one for one in possible[1:] if one.share >= CONSIDERED]
    unchanged = 1 - sum(one.share for one in likely)
    changed = [(one.share, Beta(1 + one.good, 1 + one.bad)) for one in likely]
    low, high = interval([(unchanged, Beta(mean * strength, (1 - mean) * strength)), *changed])
    return min(low, mean), max(high, mean)


def _weigh_episodes(
    episodes: Iterable[DecisionEpisode],
    now: datetime,
    groups: Groups,
    features: frozenset[str],
    named: Sequence[str],
    settings: BeliefSettings,
    usual: float | None = None,
    nearness: Nearness = DEFAULT_NEARNESS,
) -> _WeighedEpisodes:
    """Weigh episodes by age, likeness and trust; actions are spelt as named, else as in the nearest episode."""
    closest = {one.id: one for one in sorted(episodes, key=lambda one: one.similarity)}
    known = sorted(closest.values(), key=lambda one: (-one.similarity, one.id))
    here = np.array([_is_here(one, features) for one in known], dtype=bool)
    aged = np.array([_age_weight(one.at, now, settings) for one in known], dtype=np.float64)
    same = np.array([one.same_situation is True for one in known], dtype=bool)
    apart = np.array([one.same_situation is False for one in known], dtype=bool)
    likeness = np.ones(len(known))
    similarities = np.array([one.similarity for one in known], dtype=np.float64)
    if usual is None:
        likeness[~here] = closeness(similarities[~here], settings)
    elif known:
        likeness[~here] = relatedness(similarities[~here], usual, float(similarities.max()), settings)
        other = ~here & ~same & ~apart
        likeness[other] = np.maximum(likeness[other], nearness.related(relative_closeness(usual, similarities[other])))
        likeness[same & ~here] = np.maximum(likeness[same & ~here], POOLED)
        likeness[apart & ~here] = 0.0
    likeness *= np.array([_feature_weight(features, one.features) for one in known], dtype=np.float64)
    trust = np.array([one.trust for one in known], dtype=np.float64)
    weight = aged * likeness * trust
    weight[~here & (weight < LEAST_WEIGHT)] = 0.0

    actions: dict[str, str] = {normal_form(action): action for action in named}
    taken = [normal_form(one.action) for one in known]
    for name, one in zip(taken, known, strict=True):
        actions.setdefault(name, one.action)
    for action in sorted(action for tallies in groups.values() for action in tallies):
        actions.setdefault(normal_form(action), action)
    places = {name: place for place, name in enumerate(actions)}
    which = np.array([places[name] for name in taken], dtype=np.intp)
    other = np.array([_contradict(features, one.features) for one in known], dtype=bool)
    own = (here | same) & ~other
    worth = trust * np.where(same, np.maximum(likeness, POOLED_FOR_CHANGES), likeness)
    changes, possible, left = _discount_before_changes(known, taken, weight, worth, own)
    return _WeighedEpisodes(known, here, same, left, likeness, weight, changes, possible, which, actions)


def _discount_before_changes(
    episodes: Sequence[DecisionEpisode],
    taken: Sequence[str],
    weight: Numbers,
    worth: Numbers,
    own: NDArray[np.bool_],
) -> tuple[dict[str, RateChange], dict[str, list[PossibleChange]], Numbers]:
    """Find the actions whose rate changed, and weigh outcomes by the probability of no change since.

    If the action was taken in this situation, in compatible circumstances, only those outcomes are looked at for
    changes.
    """
    left, changes, possible = weight.copy(), dict[str, RateChange](), dict[str, list[PossibleChange]]()
    places = defaultdict[str, list[int]](list)
    for place, name in enumerate(taken):
        if weight[place] > 0:
            places[name].append(place)
    for name, taken_at in places.items():
        series = [place for place in taken_at if own[place]] or taken_at
        series.sort(key=lambda place: (episodes[place].at, episodes[place].id))
        trials = [_to_trial(episodes[place], float(worth[place])) for place in series]
        if (change := last_change(trials)) is not None:
            changes[name] = change
        left[series] *= probability_unchanged(trials, change)
        possible[name] = possible_changes(trials, change)
    return changes, possible, left


def without_outdated(episodes: Iterable[DecisionEpisode], own: str | None) -> list[DecisionEpisode]:
    """Weigh episodes of one situation by the probability that the rate of their action has not changed since.

    Episodes from before a certain change are left out. `own` is the agent that asks; what only one other agent reports
    is no change.
    """
    series = defaultdict[str, list[DecisionEpisode]](list)
    for episode in sorted(episodes, key=lambda one: (one.at, one.id)):
        series[normal_form(episode.action)].append(episode)
    found = list[DecisionEpisode]()
    for several in series.values():
        agents = {one.agent for one in several}
        believed = agents if len(agents) == 1 else {own}
        known = [one for one in several if one.trust > 0]
        trials = [
            Trial(one.at, one.quality, one.trust, "" if one.agent in believed else one.agent, one.circumstances())
            for one in known
        ]
        change = last_change(trials)
        found += [
            replace(one, trust=one.trust * left)
            for place, (one, left) in enumerate(zip(known, probability_unchanged(trials, change), strict=True))
            if change is None or place >= change.place
        ]
    return found


def _to_trial(episode: DecisionEpisode, weight: float) -> Trial:
    source = "" if episode.trust >= 1 else episode.agent
    return Trial(episode.at, episode.quality, weight, source, episode.circumstances())


def _sum_evidence(known: _WeighedEpisodes, groups: Groups, features: frozenset[str]) -> EvidenceSums:
    good = known.qualities()
    close, same = np.where(known.here, 0.0, known.weight), np.where(known.here, known.weight, 0.0)
    rest, rest_good = _wider_totals(known, groups, features)
    return EvidenceSums(
        here=known.summed(same),
        here_good=known.summed(same * good),
        near=known.summed(close),
        near_good=known.summed(close * good),
        near_squared=known.summed(close**2),
        rest=rest,
        rest_good=rest_good,
    )


def _word_support(context: str, known: _WeighedEpisodes) -> Numbers:
    """Return, by action, how much less the words of a context favour it than the most favoured, from nearby contexts.

    A word that goes with many actions tells little; words that go with only some of them tell situations apart.
    """
    own = query_terms(context)
    having = np.array([[word in _terms(one.context) for word in own] for one in known.episodes], dtype=np.float64)
    if not having.size:
        return np.zeros(len(known.actions))
    times = known.summed(np.ones(len(known.episodes)))
    usual = (having.sum(axis=0) + 1) / (len(having) + 2)
    together = np.stack([known.summed(having[:, place]) for place in range(len(own))], axis=1)
    share = (together + UNSEEN * usual) / (times[:, None] + UNSEEN)
    spoken = np.log(share / usual).sum(axis=1)
    behind: Numbers = spoken - spoken[times > 0].max()
    return behind


@lru_cache(maxsize=4096)
def _terms(context: str) -> frozenset[str]:
    return frozenset(query_terms(context))


def _nearby_actions(known: _WeighedEpisodes, groups: Groups, features: frozenset[str], also: Sequence[str]) -> set[str]:
    """Return the normal forms of the actions taken here or near here, and of those named."""
    names = list(known.actions)
    found = {names[place] for place in known.which[known.weight > 0]} | {normal_form(action) for action in also}
    if found:
        return found
    # Nothing is near: list at least what is known of such circumstances.
    return {normal_form(name) for group in features & groups.keys() for name in groups[group]}


def _age_weight(at: datetime, now: datetime, settings: BeliefSettings) -> float:
    """Return the weight an episode has by its age; one from the future counts as new."""
    return float(0.5 ** (max((now - at).total_seconds(), 0.0) / _DAY / settings.half_life_days))


def _is_here(episode: DecisionEpisode, features: frozenset[str]) -> bool:
    """Return whether an episode is of the context asked about, with no contradicting circumstances."""
    is_same = episode.similarity >= SAME and episode.same_situation is not False
    return is_same and not _contradict(features, episode.features)


def _contradict(asked: frozenset[str], found: frozenset[str]) -> bool:
    """Return whether two contexts differ in a feature such as the environment; tags never contradict."""
    mine = dict(feature.split("=", 1) for feature in asked if "=" in feature and not feature.startswith("tag="))
    theirs = (feature.split("=", 1) for feature in found if "=" in feature)
    return any(name in mine and mine[name] != value for name, value in theirs)


def _feature_weight(asked: frozenset[str], found: frozenset[str]) -> float:
    """Return 1 if the features of two contexts are equal or unknown, half if they differ, less if they contradict."""
    if not asked or not found:
        return 1.0
    shared = 0.5 + 0.5 * len(asked & found) / len(asked | found)
    return ELSEWHERE * shared if _contradict(asked, found) else shared


def _wider_totals(known: _WeighedEpisodes, groups: Groups, features: frozenset[str]) -> tuple[Numbers, Numbers]:
    """Return the totals of the wider groups without the episodes counted already.

    Decisions that share features with the context count fully, all others together as `OTHER_FEATURES`. Several feature
    groups are averaged.
    """
    whole = _totals_besides(known, groups.get(EVERYTHING, {}), EVERYTHING)
    shared = sorted(groups.keys() & features)
    if not shared:
        return whole
    parts = [_totals_besides(known, groups[name], name) for name in shared]
    attempts = sum((part[0] for part in parts), np.zeros(len(known.actions))) / len(parts)
    good = sum((part[1] for part in parts), np.zeros(len(known.actions))) / len(parts)
    others = np.maximum(whole[0] - attempts, 0)
    others_good = np.clip(whole[1] - good, 0, others)
    worth = np.minimum(1.0, OTHER_FEATURES / np.maximum(others, 1e-9))
    return attempts + worth * others, good + worth * others_good


def _totals_besides(known: _WeighedEpisodes, tallies: Mapping[str, GroupTotals], name: str) -> tuple[Numbers, Numbers]:
    """Return the totals of a group by action, without the agent's own listed episodes."""
    places = {action: place for place, action in enumerate(known.actions)}
    attempts, good = np.zeros(len(places)), np.zeros(len(places))
    for action, tally in tallies.items():
        attempts[places[normal_form(action)]] += tally.attempts
        good[places[normal_form(action)]] += tally.quality
    inside = [one.trust >= 1 and (name == EVERYTHING or name in one.features) for one in known.episodes]
    counted = np.where(np.array(inside, dtype=bool), known.counted, 0.0)
    attempts = np.maximum(attempts - known.summed(counted), 0)
    good = good - known.summed(counted * known.qualities())
    return attempts, np.clip(good, 0, attempts)
