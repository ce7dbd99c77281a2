"""Suggest an action for a context from past decisions, or abstain with a reason.

Candidates are the actions taken in this situation or in a truly similar context, and those the caller names. Their
success rates are estimated by `engram.learning.decisions.belief`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from random import Random

import numpy as np

from engram.learning.decisions.belief import (
    DEFAULT,
    EVERYTHING,
    GOOD,
    NO_GROUPS,
    ActionBelief,
    BeliefSettings,
    DecisionEpisode,
    Groups,
    RateEstimates,
    action_beliefs,
)
from engram.learning.decisions.beta import Beta
from engram.learning.situations.nearness import DEFAULT_NEARNESS, Nearness, relative_closeness
from engram.model import DecisionContent, Memory, Prediction, Suggestion, quality
from engram.text.terms import normal_form

STUCK, WORTH_TRYING = 6, 0.2
"""Attempts after which trying something else may pay off, and the least probability that it is better."""
LATELY = 3
"""Failures in a row above which they are mentioned, for an action that had worked."""
EITHER, SURE = 0.1, 0.75
"""Rates that differ by less are equally good, unless the better one is more certain than `SURE`."""

FREE = 2.5
"""Standard deviations by which the mixture of actions nearby may differ from that of all decisions."""


def draw(beliefs: RateEstimates, chance: Random) -> int:
    """Return the index of the action with the highest of one random draw each (Thompson sampling).

    A new context is drawn with the certainty of all contexts together, because only that lesson will be reused; a
    context that recurs, with its own certainty.
    """
    drawn = [
        chance.betavariate(max(mean * size, 1e-3), max((1 - mean) * size, 1e-3))
        for mean, size in zip(beliefs.mean.tolist(), beliefs.drawn.tolist(), strict=True)
    ]
    return drawn.index(max(drawn))


def episodes_of(memories: Iterable[Memory]) -> list[DecisionEpisode]:
    """Return the decisions with a known outcome among some memories, in order, as episodes of the same context."""
    return [
        DecisionEpisode(
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


class DecisionEvaluator:
    """Judges outcomes, suggests and predicts with one set of settings."""

    def __init__(self, settings: BeliefSettings = DEFAULT) -> None:
        self.settings = settings

    def evaluate_outcome(self, outcome: str | float) -> float:
        """Return the quality of an outcome, in [0, 1]. Raises `InvalidInput` if it is not an outcome."""
        return quality(outcome)

    def suggest(
        self,
        context: str,
        episodes: Iterable[DecisionEpisode],
        *,
        now: datetime,
        groups: Groups = NO_GROUPS,
        features: frozenset[str] = frozenset(),
        actions: Sequence[str] | None = None,
        explore: Random | None = None,
        usual: float | None = None,
        nearness: Nearness = DEFAULT_NEARNESS,
    ) -> Suggestion:
        """Recommend an action for a context, from what was done in it, in similar ones, and overall.

        `actions` narrows or adds candidates, each of which gets a rate; without it, the actions seen here or near here
        are listed. Duplicate episodes count once, and their order does not matter. With `explore`, a random draw per
        action decides. `usual` is the similarity of the context to everyday texts; without it, it is taken from the
        least similar episodes. `nearness` is what closeness means in this memory. Where actions are chosen alike in all
        contexts, a context as near to another one as is typical may have any of them.
        """
        episodes = list(episodes)
        usual = _usual_similarity(episodes, groups, usual, nearness, self.settings)
        found = action_beliefs(
            context, episodes, now, groups, features, actions, self.settings, usual=usual, nearness=nearness
        )
        if explore is not None and (actions is not None or not found):
            # Exploring also learns from graded similarity; without named actions only from related contexts.
            found = action_beliefs(context, episodes, now, groups, features, actions, self.settings)
        ranked = _ranked(found, self.settings)
        records = tuple(candidate.record() for candidate in ranked)
        evidence = tuple(id for candidate in ranked for id in candidate.ids())
        if explore is not None and ranked:
            means, sizes = [one.belief.mean for one in ranked], [one.drawn for one in ranked]
            place = draw(RateEstimates(np.array(means), np.array(sizes), np.array(sizes)), explore)
            return Suggestion(
                context=context,
                recommended=ranked[place].action,
                abstained=False,
                reason="a draw, to explore",
                actions=records,
                evidence=evidence,
            )
        reason, confidence = _abstention(ranked, self.settings, named=actions is not None)
        if reason is not None:
            return Suggestion(
                context=context, recommended=None, abstained=True, reason=reason, actions=records, evidence=evidence
            )
        best = ranked[0]
        return Suggestion(
            context=context,
            recommended=best.action,
            abstained=False,
            reason=_recommendation(ranked, confidence, self.settings),
            actions=records,
            evidence=evidence,
            confidence=confidence,
        )

    def predict(
        self,
        context: str,
        action: str,
        episodes: Iterable[DecisionEpisode],
        *,
        now: datetime,
        groups: Groups = NO_GROUPS,
        features: frozenset[str] = frozenset(),
        usual: float | None = None,
        nearness: Nearness = DEFAULT_NEARNESS,
    ) -> Prediction:
        """Predict the probability that an action will succeed in a context: the rate that `suggest` gives it."""
        episodes = list(episodes)
        usual = _usual_similarity(episodes, groups, usual, nearness, self.settings)
        found = action_beliefs(
            context, episodes, now, groups, features, None, self.settings, (action,), usual=usual, nearness=nearness
        )
        candidate = next(one for one in found if normal_form(one.action) == normal_form(action))
        record = candidate.record()
        return Prediction(
            context=context,
            action=record.action,
            probability=record.success_rate,
            interval=record.interval,
            attempts=record.attempts,
            similar=record.similar,
            weight=record.weight,
            evidence=tuple(candidate.ids()),
        )


suggest = DecisionEvaluator().suggest
"""Recommend an action with the default settings."""
predict = DecisionEvaluator().predict
"""Predict the success of an action with the default settings."""


def _usual_similarity(
    episodes: Sequence[DecisionEpisode],
    groups: Groups,
    usual: float | None,
    nearness: Nearness,
    settings: BeliefSettings,
) -> float | None:
    """Return the similarity of unrelated texts; `None` if actions are chosen alike everywhere, so it tells nothing."""
    if usual is None or _are_chosen_alike(episodes, groups, usual, nearness, settings):
        return None
    return usual


def _are_chosen_alike(
    episodes: Sequence[DecisionEpisode], groups: Groups, usual: float, nearness: Nearness, settings: BeliefSettings
) -> bool:
    """Return whether actions are chosen alike in all contexts, so that each is a candidate in this one as well.

    The actions of the nearest decisions are compared with those of all decisions (G-test). A context that is farther
    from all others than they are from each other is about something else.
    """
    nearest = sorted(episodes, key=lambda one: (-one.similarity, one.id))[: settings.free]
    everything = {normal_form(action): tally.attempts for action, tally in groups.get(EVERYTHING, {}).items()}
    if len(nearest) < settings.free or sum(everything.values()) < settings.enough_free:
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
    if (difference - degrees) / (2 * degrees) ** 0.5 >= FREE:
        return False
    closest = relative_closeness(usual, nearest[0].similarity)
    return closest >= settings.related or closest >= nearness.typical


def _is_tried(candidate: ActionBelief, settings: BeliefSettings) -> bool:
    """Return whether an action was taken here, or often enough near here to be recommended."""
    if candidate.here or candidate.in_situation >= settings.tried:
        return True
    is_near = candidate.weight >= settings.tried and candidate.nearest >= settings.farthest
    return is_near and candidate.spoken_for >= -settings.against


def _is_candidate(candidate: ActionBelief, known: Sequence[ActionBelief], settings: BeliefSettings) -> bool:
    """Return whether an action may be recommended; one never done here does not compete with one that works here."""
    if not _is_tried(candidate, settings):
        return False
    works = any(one.attempts() >= settings.enough_attempts and one.belief.mean > GOOD for one in known)
    return candidate.attempts() > 0 or not works


def _ranked(found: Sequence[ActionBelief], settings: BeliefSettings) -> list[ActionBelief]:
    """Return candidates first, best first.

    Of equally good ones, an action taken in this very context comes first: its words or numbers may tell it apart from
    the rest of its situation in a way not learned yet.
    """
    ranked = sorted(
        found,
        key=lambda one: (
            not _is_candidate(one, found, settings),
            -one.belief.mean,
            -one.weight,
            normal_form(one.action),
        ),
    )
    if not ranked or ranked[0].here:
        return ranked
    home = next((one for one in ranked if _is_known_here(one, settings) and _are_equal(ranked[0], one)), None)
    return ranked if home is None else [home, *(one for one in ranked if one is not home)]


def _is_known_here(candidate: ActionBelief, settings: BeliefSettings) -> bool:
    return len(candidate.here) >= settings.enough_attempts and candidate.belief.mean > GOOD


def _are_equal(best: ActionBelief, other: ActionBelief) -> bool:
    return best.belief.mean - other.belief.mean < EITHER


def _abstention(ranked: Sequence[ActionBelief], settings: BeliefSettings, *, named: bool) -> tuple[str | None, float]:
    """Return the reason to abstain, or `None`, and the probability that the first of those tried is the best.

    With `named`, the caller can take any of them, so an untried one may be better, too.
    """
    if not any(candidate.weight > 0 for candidate in ranked):
        return f"{'none of these' if named else 'nothing'} has been tried in this context yet", 0.0
    tried = [candidate for candidate in ranked if _is_candidate(candidate, ranked, settings)]
    attempts = sum(candidate.attempts() for candidate in tried)
    similar = any(candidate.near for candidate in tried)
    if max(attempts, sum(candidate.weight for candidate in tried)) < settings.enough_attempts:
        counted = "only 1 attempt in this situation" if attempts else "no attempt here, and few in similar contexts"
        return f"too little evidence: {counted}", 0.0
    best = tried[0]
    if best.belief.mean <= GOOD:
        where = "this context or similar ones" if similar else "this context"
        changed = _describe_change(best) or _describe_decline(tried) or _describe_recent_failures(tried)
        return f"nothing tried in {where} is more likely to work than to fail{changed}", 0.0
    rivals = [candidate for candidate in tried if candidate is not best]
    confidence = best.belief.beats(rivals[0].belief) if rivals else 1 - best.belief.below(GOOD)
    if named:
        rivals = [candidate for candidate in ranked if candidate is not best]
    loss, rival = max(((best.belief.loss(one.belief), one.action) for one in rivals), default=(0.0, ""))
    if not rivals:
        loss, rival = best.belief.loss_against(GOOD), "chance"
    if loss > settings.acceptable_loss:
        doubt = "too close to call" if best.weight >= settings.enough_attempts else "too little evidence to choose"
        return f"{doubt} between {best.action} and {rival}", confidence
    return None, confidence


def _recommendation(ranked: Sequence[ActionBelief], confidence: float, settings: BeliefSettings) -> str:
    """Describe why the first is recommended, and which other action would do as well."""
    best, *others = (candidate for candidate in ranked if _is_candidate(candidate, ranked, settings))
    where = best.where()
    lately = _count_recent_failures(best)
    warning = f"; but it failed the last {lately} times" if lately > 1 else ""
    changed = (f"; it {best.changed.describe()}" if best.changed else warning) + _describe_decline(others)
    equal = next((one for one in others if _are_equal(best, one)), None)
    if equal is not None and confidence < SURE and best.here and not equal.here:
        return f"it worked here; {equal.action} worked about as well {equal.where()}{changed}"
    if equal is not None and confidence < SURE:
        more = "; this one was tried more often" if best.attempts() > equal.attempts() else ""
        return f"either this or {equal.action}: both worked about as well {where}{more}{changed}"
    return f"it worked best {where}, with {certainty(confidence)} confidence{changed}{_describe_untried(best, others)}"


def _describe_change(candidate: ActionBelief) -> str:
    return f"; {candidate.action} {candidate.changed.describe()}" if candidate.changed else ""


def _describe_decline(candidates: Iterable[ActionBelief]) -> str:
    """Describe the first action that works less often than it did."""
    fallen = (one for one in candidates if one.changed and one.changed.after < one.changed.before)
    return next((_describe_change(one) for one in fallen), "")


def _describe_recent_failures(candidates: Iterable[ActionBelief]) -> str:
    """Describe the first action that had worked, but failed repeatedly at last."""
    failed = ((candidate, _count_recent_failures(candidate)) for candidate in candidates)
    return next(
        (f"; {each.action} worked before, but failed the last {n} times" for each, n in failed if n >= LATELY), ""
    )


def _count_recent_failures(candidate: ActionBelief) -> int:
    """Return how many attempts in a row failed last, of an action that had worked in this situation."""
    known = [*candidate.here, *(one for one in candidate.near if one.same_situation is True)]
    latest = sorted(known, key=lambda one: (one.at, one.id), reverse=True)
    failed = next((place for place, one in enumerate(latest) if one.quality >= GOOD), len(latest))
    return failed if failed < len(latest) else 0


def certainty(probability: float) -> str:
    """Format a probability in percent; "100%" and "0%" only if it is exactly that."""
    if probability < 1 and f"{probability:.0%}" == "100%":
        return "over 99%"
    if probability > 0 and f"{probability:.0%}" == "0%":
        return "under 1%"
    return f"{probability:.0%}"


def _describe_untried(best: ActionBelief, others: Sequence[ActionBelief]) -> str:
    """Describe what trying another action would be worth, if all evidence is about a mediocre one."""
    if best.attempts() < STUCK or any(one.attempts() > 1 for one in others):
        return ""
    better = Beta().beats(best.belief)
    if better < WORTH_TRYING:
        return ""
    return f"; hardly anything else was tried: an unknown action would be better with a probability of {better:.0%}"
