"""Pool the outcomes of one or several agents into success patterns, decision templates and rates."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from engram.learning.decisions.agreement import agreement, evidence_weight
from engram.learning.decisions.belief import (
    GOOD,
    DecisionEpisode,
    GroupTotals,
    expected_rates,
    rate_after,
    without_outdated,
)
from engram.learning.patterns.decision_tree import CONFIDENCE, decision_template, rate_interval
from engram.learning.patterns.factors import FALSE_DISCOVERIES
from engram.learning.patterns.successes import patterns_in_groups
from engram.learning.situations.similar_contexts import ContextGroup, distinct_episodes, group_episodes
from engram.model.success import Contribution, DecisionTemplate, PooledRate, Synthesis
from engram.text.terms import normal_form

__all__ = ["KnowledgeSynthesizer", "agreement"]

LEAST_EPISODES = 4
"""Episodes a group needs to get a decision template."""

_Tallies = dict[tuple[str, str], tuple[float, float]]


@dataclass(frozen=True, slots=True)
class KnowledgeSynthesizer:
    """Turns episodes, each with its agent and how far that agent is trusted, into knowledge.

    The result depends on the set of episodes alone, not on their order or on duplicates.
    """

    confidence_threshold: float = CONFIDENCE
    false_discoveries: float = FALSE_DISCOVERIES

    def synthesize(
        self,
        episodes: Iterable[DecisionEpisode],
        *,
        runs: Sequence[Sequence[DecisionEpisode]] = (),
        own: str | None = None,
        titles: Mapping[str, str] = MappingProxyType({}),
        taken: Collection[str] = (),
    ) -> Synthesis:
        """Return decision templates, success patterns and pooled rates, as they apply to `own`, or to no agent.

        Other agents' evidence counts by their trust, and less the more their outcomes contradict those of `own`
        (without `own`, those of all others together). There is one template per situation, none for all of them.
        Attempts from before the rate of their action changed are left out. `titles` are names of situations, by id. No
        success pattern gets a name in `taken`, which failures have.
        """
        groups = group_episodes([*episodes, *(episode for run in runs for episode in run)], titles)
        weights = agent_weights(groups, own)
        weighted = _with_expected([_current(_weighted(group, weights), own) for group in groups])
        return Synthesis(
            patterns=patterns_in_groups(weighted, runs, false_discoveries=self.false_discoveries, taken=taken),
            templates=tuple(template for group in weighted if (template := self._template(group)) is not None),
            rates=tuple(rate for group in weighted for rate in _rates(group)),
            weights=weights,
        )

    def _template(self, group: ContextGroup) -> DecisionTemplate | None:
        if len(group.episodes) < LEAST_EPISODES:
            return None
        return decision_template(
            group.episodes,
            group.signature,
            title=group.display_name,
            expected=group.expected,
            confidence_threshold=self.confidence_threshold,
        )


def agent_weights(groups: Iterable[ContextGroup], own: str | None = None) -> dict[str, float]:
    """Weigh each agent's outcomes for `own`; without `own`, against those of all the others together.

    One's own outcomes count fully, and so do those that nothing contradicts.
    """
    tallies: dict[str, _Tallies] = defaultdict(dict)
    for group in groups:
        for episode in group.episodes:
            key = (group.signature, normal_form(episode.action))
            attempts, quality = tallies[episode.agent].get(key, (0.0, 0.0))
            tallies[episode.agent][key] = attempts + 1, quality + episode.quality
    weights = {}
    for agent, theirs in sorted(tallies.items()):
        mine = tallies.get(own, {}) if own is not None else _together(tallies, agent)
        weights[agent] = 1.0 if agent == own else evidence_weight(mine, theirs)
    return weights


def _together(tallies: Mapping[str, _Tallies], without: str) -> _Tallies:
    total: _Tallies = {}
    for agent, known in sorted(tallies.items()):
        if agent == without:
            continue
        for key, (attempts, quality) in known.items():
            before, sum_before = total.get(key, (0.0, 0.0))
            total[key] = before + attempts, sum_before + quality
    return total


def _weighted(group: ContextGroup, weights: Mapping[str, float]) -> ContextGroup:
    episodes = (replace(episode, trust=episode.trust * weights[episode.agent]) for episode in group.episodes)
    return replace(group, episodes=tuple(distinct_episodes(episodes)))


def _current(group: ContextGroup, own: str | None) -> ContextGroup:
    return replace(group, episodes=tuple(distinct_episodes(without_outdated(group.episodes, own))))


def _with_expected(groups: Sequence[ContextGroup]) -> list[ContextGroup]:
    """Add to each group the rates expected of its actions from the other groups."""
    everywhere: dict[str, GroupTotals] = {}
    for group in groups:
        for one in group.episodes:
            name = normal_form(one.action)
            before = everywhere.get(name, GroupTotals(0.0, 0.0))
            everywhere[name] = GroupTotals(before.attempts + one.trust, before.quality + one.trust * one.quality)
    return [replace(group, expected=expected_rates(group.episodes, everywhere)) for group in groups]


def _rates(group: ContextGroup) -> list[PooledRate]:
    by_action: dict[str, list[DecisionEpisode]] = defaultdict(list)
    for episode in group.episodes:
        by_action[normal_form(episode.action)].append(episode)
    return [
        _rate(group.signature, episodes, group.expected.get(action, GOOD))
        for action, episodes in sorted(by_action.items())
    ]


def _rate(signature: str, episodes: Sequence[DecisionEpisode], expected: float) -> PooledRate:
    by_agent: dict[str, list[DecisionEpisode]] = defaultdict(list)
    for episode in episodes:
        by_agent[episode.agent].append(episode)
    belief = rate_after(((episode.quality, episode.trust) for episode in episodes), expected)
    return PooledRate(
        context_signature=signature,
        action=episodes[0].action,
        success_rate=belief.mean,
        interval=rate_interval(belief),
        attempts=len(episodes),
        contributions=tuple(
            Contribution(agent=agent, attempts=len(several), weight=sum(episode.trust for episode in several))
            for agent, several in sorted(by_agent.items())
        ),
    )
