"""Weigh past decisions for the next one: posteriors, a recommendation, or an abstention with its reason.

Only actions that were taken in this context or a truly similar one are candidates, and those that the caller names.
Similarity is measured against everyday texts: what is no more alike than those weighs nothing, however much of it there
is. An episode counts once: as far as it is like the context asked about it counts here, and with the rest of its weight
in the wider group, which is a weak prior for the same action. Outcomes before a change of an action's rate count
hardly at all.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from random import Random
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from engram.learn.beta import Beta
from engram.learn.change import Change, Trial, last_change, still_counting
from engram.model import ActionRecord, DecisionContent, Memory, Prediction, Suggestion, quality
from engram.words import normal_form, query_terms

Numbers = NDArray[np.float64]

GOOD = 0.5
EVERYTHING = "*"
"""The group of all decisions."""

SAME = 1 - 1e-6
"""From this similarity on, a context is the one asked about."""
FAR = 8.0
"""What decisions that share no feature are worth together, in episodes, beside those that do."""

ELSEWHERE = 0.2
"""What an episode in other circumstances counts, as that of a neighbour."""

EITHER, SURE = 0.1, 0.75
"""Rates that differ by less are called equally good, while it is not surer than this which one is better."""

FREE = 2.5
"""Standard deviations by which the mixture of actions nearby may differ from that of all decisions."""

UNSEEN = 2.0
"""What it is worth that a word is usual, in contexts, when it was never seen with an action."""

POOLED = 0.6
"""What an episode counts at least that is of the same situation in other words."""

LEAST = 0.02
"""Less weight than this is none, so that evidence stays a list that somebody can read."""

_DAY = 86_400.0


@dataclass(frozen=True, slots=True)
class Episode:
    """One decision whose outcome is known, and how near its context is to the one asked about."""

    id: str
    action: str
    quality: float
    at: datetime
    context: str
    similarity: float = 1.0
    """Of its context's text to the one asked about; 1.0 means the same context."""
    features: frozenset[str] = frozenset()
    """Such as `tool=npm`, `env=ci`, `type=auth`, `tag=db`."""
    situation: str = ""
    """The id of its situation among those of its agent; empty if it has none yet."""
    same_situation: bool | None = None
    """Whether its context is of the same situation; a person may have said that it is not. `None` if nobody knows."""
    agent: str = ""
    trust: float = 1.0
    """How much the agent's word counts; 1.0 is one's own, and only these are expected in the tallies."""


class Tally(NamedTuple):
    """The decayed sums over a wider group of episodes."""

    attempts: float
    quality: float


Groups = Mapping[str, Mapping[str, Tally]]
"""Group name to action to tally: `EVERYTHING`, and features such as `tool=npm`. Listed episodes are included."""

NO_GROUPS: Groups = MappingProxyType({})

Changed = Mapping[str, datetime]
"""By action, in normal form: when its rate in all contexts together changed. The tallies hold what was since then."""

UNCHANGED: Changed = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Settings:
    """How much evidence counts, and how much of it a recommendation takes."""

    half_life_days: float = 30.0
    """After this time an episode counts half."""
    prior: float = 2.0
    """What knowing nothing is worth, in episodes: Beta(1, 1)."""
    wider: float = 4.0
    """What the wider group is worth here, in episodes, before neighbours have said how much contexts matter."""
    doubt: float = 16.0
    """How much neighbours it takes to believe them as much as `wider` about how much contexts matter."""
    unrelated: float = 0.7
    """Texts less alike than this have nothing in common, while too few are known to tell what is usual."""
    related: float = 0.65
    """The closeness at which a context counts half as one of the same kind; 0 is an everyday text, 1 the same text."""
    steepness: float = 0.04
    tolerance: float = 0.2
    """How much farther than the nearest context another one may be without counting less."""
    falloff: float = 0.15
    """Beyond the tolerance, an episode that is farther by this much counts 1/e."""
    farthest: float = 0.5
    """An action is a candidate if an episode of it is at least so near, as a share of the nearest of all."""
    against: float = 3.0
    """An action is no candidate if the words of the context speak so much more for another one (log odds)."""
    free: int = 128
    """Where so many of the nearest decisions show the actions in the same mixture as all, each is a candidate."""
    enough_free: float = 400.0
    """The decisions it takes to tell that."""
    on_topic: float = 0.33
    """The closeness of the nearest context from which on a question is about something that the memory knows."""
    tried: float = 0.5
    """What an action that was never taken here must be worth in similar contexts, in episodes, to be recommended."""
    enough_attempts: float = 2.0
    acceptable_loss: float = 0.12
    """The success rate that following the recommendation may cost, in expectation, against any other action."""


DEFAULT = Settings()


class Evidence(NamedTuple):
    """Sums of weights and of weighted qualities, one number per action."""

    here: Numbers
    here_good: Numbers
    near: Numbers
    near_good: Numbers
    near_squared: Numbers
    """The sums of squared weights, from which the noise of `near_good` follows."""
    rest: Numbers
    """What the wider groups hold besides."""
    rest_good: Numbers


class Beliefs(NamedTuple):
    """A beta distribution per action, by mean and strength, and the strength that exploring draws from."""

    mean: Numbers
    strength: Numbers
    drawn: Numbers


def closeness(similarities: Numbers, settings: Settings = DEFAULT) -> Numbers:
    """How far each of the retrieved contexts is the one asked about: 0 is like any other text, 1 is the same.

    What any other text is like depends on the embedder, so it is taken from the least alike of those retrieved, as
    far as there are enough of them to tell.
    """
    if not len(similarities):
        return np.zeros(0)
    farthest = float(similarities.min())
    known = len(similarities) / (len(similarities) + 64)
    usual = known * farthest + (1 - known) * min(farthest, settings.unrelated)
    return np.clip((similarities - usual) / max(1 - usual, 1e-9), 0, 1)


def relatedness(similarities: Numbers, usual: float, nearest: float, settings: Settings = DEFAULT) -> Numbers:
    """Weigh contexts by how far they are of the same kind as the one asked about: 0 is unrelated, 1 the same.

    `usual` is how similar the question is to everyday texts, `nearest` the similarity of the nearest context of all.
    What is near outweighs what is far: the farther behind the nearest one, the less a context counts.
    """
    closeness = (similarities - usual) / max(1 - usual, 1e-9)
    best = (nearest - usual) / max(1 - usual, 1e-9)
    same_kind = 1 / (1 + np.exp(np.clip((settings.related - closeness) / settings.steepness, -60, 60)))
    behind = np.maximum(best - closeness - settings.tolerance, 0)
    weights: Numbers = same_kind * np.exp(-behind / settings.falloff)
    return weights


def believe(evidence: Evidence, settings: Settings = DEFAULT) -> Beliefs:
    """The rates of all actions in a context: from here, else near here, else the wider group, else from nothing.

    Neighbours move all actions together (a harder context) and each of its own. How far they move one is learned from
    them: if they are no further from the wider rates than chance would have it, the context does not matter.
    However many there are, what sets this context apart from them stays uncertain.
    """
    half = settings.prior / 2
    rest, rest_good = evidence.rest, evidence.rest_good
    pooled = (rest_good.sum() + half) / (rest.sum() + settings.prior)
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
    return Beliefs(np.clip(best, 1e-6, 1 - 1e-6), after, drawn)


def draw(beliefs: Beliefs, chance: Random) -> int:
    """The place of the action with the highest of one draw each (Thompson sampling).

    A new context is drawn with the certainty that all contexts together give, because only that lesson will be used
    again; a context that came back, with what is known of it.
    """
    drawn = [
        chance.betavariate(max(mean * size, 1e-3), max((1 - mean) * size, 1e-3))
        for mean, size in zip(beliefs.mean.tolist(), beliefs.drawn.tolist(), strict=True)
    ]
    return drawn.index(max(drawn))


def episodes_of(memories: Iterable[Memory]) -> list[Episode]:
    """The decisions among some memories whose outcome is known, in order, as episodes of the same context."""
    return [
        Episode(
            id=memory.id,
            action=memory.content.chosen_action,
            quality=memory.content.outcome_quality,
            at=memory.happened_at,
            context=memory.content.decision_context or memory.context,
            features=frozenset(f"tag={normal_form(tag)}" for tag in memory.tags),
            agent=memory.agent,
        )
        for memory in memories
        if isinstance(memory.content, DecisionContent) and memory.content.outcome_quality is not None
    ]


def weigh(
    context: str,
    episodes: Iterable[Episode],
    *,
    now: datetime,
    groups: Groups = NO_GROUPS,
    features: frozenset[str] = frozenset(),
    actions: Sequence[str] | None = None,
    explore: Random | None = None,
    usual: float | None = None,
    changed: Changed = UNCHANGED,
    settings: Settings = DEFAULT,
) -> Suggestion:
    """Recommend an action for a context, from what was done in it, in similar ones, and at all.

    `actions` narrows or adds candidates, each of which gets a rate; else those seen here or near here are listed. An
    episode listed twice counts once, and its order does not matter. With `explore`, one draw per action decides.
    `usual` is how similar the context is to everyday texts; without it, that is told from the least similar episodes.
    """
    episodes = list(episodes)
    if usual is not None and actions is None and _is_free(episodes, groups, usual, settings):
        usual = None
    accounts = _accounts(context, episodes, now, groups, features, actions, settings, usual=usual, changed=changed)
    if explore is not None and (actions is not None or not accounts):
        # Somebody who explores learns from graded similarity, too; without named actions only from what is related.
        accounts = _accounts(context, episodes, now, groups, features, actions, settings, changed=changed)
    ranked = sorted(
        accounts,
        key=lambda one: (not _is_tried(one, settings), -one.belief.mean, -one.weight, normal_form(one.action)),
    )
    records = tuple(account.record() for account in ranked)
    evidence = tuple(id for account in ranked for id in account.ids())
    if explore is not None and ranked:
        means, sizes = [one.belief.mean for one in ranked], [one.drawn for one in ranked]
        place = draw(Beliefs(np.array(means), np.array(sizes), np.array(sizes)), explore)
        return Suggestion(
            context=context,
            recommended=ranked[place].action,
            abstained=False,
            reason="a draw, to explore",
            actions=records,
            evidence=evidence,
        )
    reason, confidence = _judge(ranked, settings)
    if reason is not None:
        return Suggestion(
            context=context, recommended=None, abstained=True, reason=reason, actions=records, evidence=evidence
        )
    best = ranked[0]
    return Suggestion(
        context=context,
        recommended=best.action,
        abstained=False,
        reason=_praise(ranked, confidence, settings),
        actions=records,
        evidence=evidence,
        confidence=confidence,
    )


def predict(
    context: str,
    action: str,
    episodes: Iterable[Episode],
    *,
    now: datetime,
    groups: Groups = NO_GROUPS,
    features: frozenset[str] = frozenset(),
    usual: float | None = None,
    changed: Changed = UNCHANGED,
    settings: Settings = DEFAULT,
) -> Prediction:
    """Give the probability that an action will succeed in a context: the rate that `weigh` gives it."""
    accounts = _accounts(
        context, episodes, now, groups, features, None, settings, (action,), usual=usual, changed=changed
    )
    account = next(one for one in accounts if normal_form(one.action) == normal_form(action))
    record = account.record()
    return Prediction(
        context=context,
        action=record.action,
        probability=record.success_rate,
        interval=record.interval,
        attempts=record.attempts,
        similar=record.similar,
        weight=record.weight,
        evidence=tuple(account.ids()),
    )


class DecisionEvaluator:
    """Seed 001's name for what judges outcomes and weighs them, with one set of settings."""

    def __init__(self, settings: Settings = DEFAULT) -> None:
        self.settings = settings

    def evaluate_outcome(self, outcome: str | float) -> float:
        """How good an outcome is, in [0, 1]; `InvalidInput` if it is not one."""
        return quality(outcome)

    def weigh(
        self,
        context: str,
        episodes: Iterable[Episode],
        *,
        now: datetime,
        groups: Groups = NO_GROUPS,
        features: frozenset[str] = frozenset(),
        actions: Sequence[str] | None = None,
        explore: Random | None = None,
        usual: float | None = None,
        changed: Changed = UNCHANGED,
    ) -> Suggestion:
        """Recommend an action for a context; see `weigh`."""
        return weigh(
            context,
            episodes,
            now=now,
            groups=groups,
            features=features,
            actions=actions,
            explore=explore,
            usual=usual,
            changed=changed,
            settings=self.settings,
        )

    def predict(
        self,
        context: str,
        action: str,
        episodes: Iterable[Episode],
        *,
        now: datetime,
        groups: Groups = NO_GROUPS,
        features: frozenset[str] = frozenset(),
        usual: float | None = None,
        changed: Changed = UNCHANGED,
    ) -> Prediction:
        """Give the probability that an action will succeed; see `predict`."""
        return predict(
            context,
            action,
            episodes,
            now=now,
            groups=groups,
            features=features,
            usual=usual,
            changed=changed,
            settings=self.settings,
        )


@dataclass(frozen=True, slots=True)
class _Account:
    """What is believed about one action, and the episodes behind it."""

    action: str
    belief: Beta
    drawn: float
    here: tuple[Episode, ...]
    near: tuple[Episode, ...]
    weight: float
    nearest: float = 1.0
    """How near the nearest of its episodes is, as a share of the nearest of all."""
    in_situation: float = 0.0
    """What its episodes in the same situation, in other words, are worth together."""
    spoken_for: float = 0.0
    """How much less the words of the context speak for it than for another action, as a logarithm of odds."""
    changed: Change | None = None

    def ids(self) -> list[str]:
        return [episode.id for episode in (*self.here, *self.near)]

    def record(self) -> ActionRecord:
        return ActionRecord(
            action=self.action,
            success_rate=self.belief.mean,
            interval=self.belief.interval(),
            attempts=len(self.here),
            last_used=max((episode.at for episode in (*self.here, *self.near)), default=None),
            episodes_for=tuple(episode.id for episode in self.here if episode.quality >= GOOD),
            episodes_against=tuple(episode.id for episode in self.here if episode.quality < GOOD),
            similar=len(self.near),
            near=tuple(episode.id for episode in self.near),
            weight=self.weight,
        )


class _Known(NamedTuple):
    """What is known: each episode once, the nearest first, with what it counts, and all actions ever taken."""

    episodes: list[Episode]
    here: NDArray[np.bool_]
    """Which of the episodes are of the context asked about."""
    weight: Numbers
    likeness: Numbers
    """How near each is to the context asked about; 1 is the same."""
    counted: Numbers
    """The weights of those in the tallies, before what is from before a change was taken down."""
    changes: Mapping[str, Change]
    """By action, in normal form: the last change of its rate."""
    which: NDArray[np.intp]
    """The place of each episode's action among the actions."""
    actions: Mapping[str, str]
    """How each action is spelt, by its normal form."""

    def summed(self, values: Numbers) -> Numbers:
        """A number for each episode, added up for each action."""
        return np.bincount(self.which, values, len(self.actions)).astype(np.float64)

    def qualities(self) -> Numbers:
        return np.array([one.quality for one in self.episodes], dtype=np.float64)


def _is_free(episodes: Sequence[Episode], groups: Groups, usual: float, settings: Settings) -> bool:
    """Tell whether actions are chosen alike in all contexts, so that each of them is a candidate in this one, too.

    The actions of the nearest decisions are compared with those of all decisions (G-test).
    """
    nearest = sorted(episodes, key=lambda one: (-one.similarity, one.id))[: settings.free]
    everything = {normal_form(action): tally.attempts for action, tally in groups.get(EVERYTHING, {}).items()}
    if len(nearest) < settings.free or sum(everything.values()) < settings.enough_free:
        return False
    if (nearest[0].similarity - usual) / max(1 - usual, 1e-9) < settings.on_topic:
        return False
    near = Counter(normal_form(one.action) for one in nearest)
    names = sorted(near.keys() | everything.keys())
    inside = np.array([near[name] for name in names], dtype=np.float64)
    outside = np.maximum(np.array([everything.get(name, 0.0) for name in names]) - inside, 0.0)
    seen = inside + outside > 0
    inside, outside = inside[seen], outside[seen]
    degrees = len(inside) - 1
    if degrees < 1:
        return False
    share = (inside + outside) / (inside.sum() + outside.sum())
    difference = 2 * sum(
        float(np.sum(part * np.log(np.maximum(part, 1e-12) / (share * part.sum())))) for part in (inside, outside)
    )
    return bool((difference - degrees) / (2 * degrees) ** 0.5 < FREE)


def _accounts(
    context: str,
    episodes: Iterable[Episode],
    now: datetime,
    groups: Groups,
    features: frozenset[str],
    actions: Sequence[str] | None,
    settings: Settings,
    also: Sequence[str] = (),
    *,
    usual: float | None = None,
    changed: Changed = UNCHANGED,
) -> list[_Account]:
    """Account for all actions that are to be listed, in no special order.

    All actions take part in the estimate, because they tell about the context; narrowing comes after it.
    """
    known = _known(episodes, now, groups, features, (*(actions or ()), *also), settings, usual, changed)
    beliefs = believe(_evidence(known, groups, features), settings)
    seen, counts = known.summed(known.weight), known.weight > 0
    nearest = np.zeros(len(known.actions))
    np.maximum.at(nearest, known.which, np.where(counts, known.likeness, 0.0))
    nearest /= max(float(nearest.max(initial=0.0)), 1e-9)
    same = known.summed(known.weight * np.array([one.same_situation is True for one in known.episodes], dtype=bool))
    words = np.zeros(len(known.actions)) if usual is None else _by_words(context, known)
    if actions is not None:
        wanted = {normal_form(action) for action in actions}
    else:
        wanted = _near(known, groups, features, also)
    return [
        _Account(
            action=action,
            belief=Beta(
                float(beliefs.mean[place] * beliefs.strength[place]),
                float((1 - beliefs.mean[place]) * beliefs.strength[place]),
            ),
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


def _known(
    episodes: Iterable[Episode],
    now: datetime,
    groups: Groups,
    features: frozenset[str],
    named: Sequence[str],
    settings: Settings,
    usual: float | None = None,
    changed: Changed = UNCHANGED,
) -> _Known:
    """Weigh episodes by age, likeness and trust; an action is spelt as it was named, else as the nearest one was."""
    closest = {one.id: one for one in sorted(episodes, key=lambda one: one.similarity)}
    known = sorted(closest.values(), key=lambda one: (-one.similarity, one.id))
    here = np.array([_is_here(one, features) for one in known], dtype=bool)
    aged = np.array([_left(one.at, now, settings) for one in known], dtype=np.float64)
    likeness = np.ones(len(known))
    similarities = np.array([one.similarity for one in known], dtype=np.float64)
    if usual is None:
        likeness[~here] = closeness(similarities[~here], settings)
    elif known:
        likeness[~here] = relatedness(similarities[~here], usual, float(similarities.max()), settings)
        same = np.array([one.same_situation is True for one in known])
        likeness[same & ~here] = np.maximum(likeness[same & ~here], POOLED)
        likeness[[one.same_situation is False for one in known] & ~here] = 0.0
    likeness *= np.array([_overlap(features, one.features) for one in known], dtype=np.float64)
    weight = aged * likeness * np.array([one.trust for one in known], dtype=np.float64)
    weight[~here & (weight < LEAST)] = 0.0

    actions: dict[str, str] = {normal_form(action): action for action in named}
    taken = [normal_form(one.action) for one in known]
    for name, one in zip(taken, known, strict=True):
        actions.setdefault(name, one.action)
    for action in sorted(action for tallies in groups.values() for action in tallies):
        actions.setdefault(normal_form(action), action)
    places = {name: place for place, name in enumerate(actions)}
    which = np.array([places[name] for name in taken], dtype=np.intp)
    changes, left = _after_changes(known, taken, weight, changed)
    tallied = np.array(
        [one.at >= changed.get(name, one.at) for one, name in zip(known, taken, strict=True)], dtype=bool
    )
    return _Known(known, here, left, likeness, np.where(tallied, weight, 0.0), changes, which, actions)


def _after_changes(
    episodes: Sequence[Episode], taken: Sequence[str], weight: Numbers, changed: Changed
) -> tuple[dict[str, Change], Numbers]:
    """Find the actions whose rate has changed, and let outcomes count as far as no change is likely since."""
    left, changes = weight.copy(), dict[str, Change]()
    places = defaultdict[str, list[int]](list)
    for place, name in enumerate(taken):
        if weight[place] > 0:
            places[name].append(place)
    for name, own in places.items():
        own.sort(key=lambda place: (episodes[place].at, episodes[place].id))
        trials = [_trial(episodes[place], float(weight[place])) for place in own]
        if (change := last_change(trials)) is not None:
            changes[name] = change
        left[own] *= still_counting(trials, change, changed.get(name))
    return changes, left


def since_change(episodes: Iterable[Episode], own: str | None) -> list[Episode]:
    """Leave out the episodes of actions, in one situation, that are from before a change of their rate.

    `own` is the agent that asks; what only one other agent reports is no change.
    """
    by_action = defaultdict[str, list[Episode]](list)
    for episode in sorted(episodes, key=lambda one: (one.at, one.id)):
        by_action[normal_form(episode.action)].append(episode)
    found = list[Episode]()
    for mine in by_action.values():
        agents = {one.agent for one in mine}
        believed = agents if len(agents) == 1 else {own}
        change = last_change(
            [
                Trial(one.at, one.quality, one.trust, "" if one.agent in believed else one.agent)
                for one in mine
                if one.trust > 0
            ]
        )
        found += [one for one in mine if change is None or one.at >= change.at]
    return found


def _trial(episode: Episode, weight: float) -> Trial:
    return Trial(episode.at, episode.quality, weight, "" if episode.trust >= 1 else episode.agent)


def _evidence(known: _Known, groups: Groups, features: frozenset[str]) -> Evidence:
    good = known.qualities()
    close, same = np.where(known.here, 0.0, known.weight), np.where(known.here, known.weight, 0.0)
    rest, rest_good = _rest(known, groups, features)
    return Evidence(
        here=known.summed(same),
        here_good=known.summed(same * good),
        near=known.summed(close),
        near_good=known.summed(close * good),
        near_squared=known.summed(close**2),
        rest=rest,
        rest_good=rest_good,
    )


def _by_words(context: str, known: _Known) -> Numbers:
    """Say for each action how much less the words of a context speak for it than for the best, from nearby contexts.

    A name that goes with many actions says little; the words that go with some of them only tell situations apart.
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


def _near(known: _Known, groups: Groups, features: frozenset[str], also: Sequence[str]) -> set[str]:
    """The normal forms of the actions taken here or near here, and of those named."""
    names = list(known.actions)
    found = {names[place] for place in known.which[known.weight > 0]} | {normal_form(action) for action in also}
    if found:
        return found
    # Nothing is near: what is known of such circumstances can at least be shown.
    return {normal_form(name) for group in features & groups.keys() for name in groups[group]}


def _left(at: datetime, now: datetime, settings: Settings) -> float:
    """What age has left of an episode; one from the future is new."""
    return float(0.5 ** (max((now - at).total_seconds(), 0.0) / _DAY / settings.half_life_days))


def _is_here(episode: Episode, features: frozenset[str]) -> bool:
    """Whether it is the context asked about, and nothing known about the circumstances says otherwise."""
    return episode.similarity >= SAME and not _contradict(features, episode.features)


def _contradict(asked: frozenset[str], found: frozenset[str]) -> bool:
    """Whether one thing is known to be different, such as the environment; tags may all be there at once."""
    mine = dict(feature.split("=", 1) for feature in asked if "=" in feature and not feature.startswith("tag="))
    theirs = (feature.split("=", 1) for feature in found if "=" in feature)
    return any(name in mine and mine[name] != value for name, value in theirs)


def _overlap(asked: frozenset[str], found: frozenset[str]) -> float:
    """1 if two contexts' features are the same or not known, half if they differ, less if they contradict."""
    if not asked or not found:
        return 1.0
    shared = 0.5 + 0.5 * len(asked & found) / len(asked | found)
    return ELSEWHERE * shared if _contradict(asked, found) else shared


def _rest(known: _Known, groups: Groups, features: frozenset[str]) -> tuple[Numbers, Numbers]:
    """What the wider groups hold without what is counted already; feature groups count beside everything else.

    Everything is split into what shares features with the context, which counts whole, and the other decisions. An
    episode in several of the feature groups counts in each for its part.
    """
    whole = _without(known, groups.get(EVERYTHING, {}), EVERYTHING)
    shared = sorted(groups.keys() & features)
    if not shared:
        return whole
    parts = [_without(known, groups[name], name) for name in shared]
    attempts = sum((part[0] for part in parts), np.zeros(len(known.actions))) / len(parts)
    good = sum((part[1] for part in parts), np.zeros(len(known.actions))) / len(parts)
    others = np.maximum(whole[0] - attempts, 0)
    others_good = np.clip(whole[1] - good, 0, others)
    worth = np.minimum(1.0, FAR / np.maximum(others, 1e-9))
    return attempts + worth * others, good + worth * others_good


def _without(known: _Known, tallies: Mapping[str, Tally], name: str) -> tuple[Numbers, Numbers]:
    """What a group holds of each action, without the episodes of one's own that are known and in it."""
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


def _is_tried(account: _Account, settings: Settings) -> bool:
    """Whether it was taken here or often enough near here: the far echo of one success is not an experience."""
    if account.here or account.in_situation >= settings.tried:
        return True
    is_near = account.weight >= settings.tried and account.nearest >= settings.farthest
    return is_near and account.spoken_for >= -settings.against


def _judge(ranked: Sequence[_Account], settings: Settings) -> tuple[str | None, float]:
    """Say why not to recommend the first that was tried, or `None` and the probability that it is the best of those."""
    if not any(account.weight > 0 for account in ranked):
        return "nothing has been tried in this context yet", 0.0
    tried = [account for account in ranked if _is_tried(account, settings)]
    attempts = sum(len(account.here) for account in tried)
    similar = any(account.near for account in tried)
    if max(attempts, sum(account.weight for account in tried)) < settings.enough_attempts:
        counted = "only 1 attempt in this context" if attempts else "no attempt here, and few in similar contexts"
        return f"too little evidence: {counted}", 0.0
    best = tried[0]
    if best.belief.mean <= GOOD:
        where = "this context or similar ones" if similar else "this context"
        changed = f"; {best.action} {best.changed.told()}" if best.changed else ""
        return f"nothing tried in {where} has worked more often than it failed{changed}", 0.0
    rivals = [account for account in tried if account is not best]
    confidence = best.belief.beats(rivals[0].belief) if rivals else 1 - best.belief.below(GOOD)
    loss = max((best.belief.loss(rival.belief) for rival in rivals), default=best.belief.loss_against(GOOD))
    if loss > settings.acceptable_loss:
        rival = f"{best.action} and {rivals[0].action}" if rivals else f"{best.action} and chance"
        return f"too close to call between {rival}", confidence
    return None, confidence


def _praise(ranked: Sequence[_Account], confidence: float, settings: Settings) -> str:
    """Say why the first of these is recommended, and which other one would do as well."""
    best, *others = (account for account in ranked if _is_tried(account, settings))
    where = "here" if best.here else "in similar contexts"
    changed = f"; it {best.changed.told()}" if best.changed else ""
    fallen = next((one for one in others if one.changed and one.changed.after < one.changed.before), None)
    if fallen is not None and fallen.changed is not None:
        changed += f"; {fallen.action} {fallen.changed.told()}"
    equal = next((one for one in others if best.belief.mean - one.belief.mean < EITHER), None)
    if equal is not None and confidence < SURE:
        more = "; this one was tried more often" if best.weight > equal.weight else ""
        return f"either this or {equal.action}: both worked about as well {where}{more}{changed}"
    return f"it worked best {where}, with {confidence:.0%} confidence{changed}"
