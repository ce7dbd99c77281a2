"""Find success patterns: what worked repeatedly in similar contexts, what went with it, and how to repeat it."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence

from engram.learning.decisions.belief import GOOD, DecisionEpisode, rate_after
from engram.learning.decisions.beta import Beta
from engram.learning.patterns.decision_tree import rate_interval
from engram.learning.patterns.factors import FALSE_DISCOVERIES, Case, key_factors
from engram.learning.situations.similar_contexts import (
    ContextGroup,
    descriptive_features,
    distinct_episodes,
)
from engram.model.success import Contrast, ReplicationStep, SuccessPattern
from engram.text.terms import digest, normal_form

REPEATED = 3
"""Attempts needed for an approach to be a pattern."""
SURE = 0.8
"""Probability of working more often than not that a pattern needs."""
COMMON = 0.6
"""Share of the successful runs that must contain a step."""
AGREEING = 2
"""Successful runs that must contain a step: one session is no recipe."""
MOST_STEPS = 50
_NAME = 60
_UNNAMED = re.compile(r"[\W_]+")

_Step = tuple[str, int]  # an action, and which of its occurrences in the run
_Runs = Sequence[Sequence[DecisionEpisode]]


def patterns_in_groups(
    groups: Iterable[ContextGroup],
    runs: _Runs = (),
    *,
    false_discoveries: float = FALSE_DISCOVERIES,
    taken: Collection[str] = (),
) -> tuple[SuccessPattern, ...]:
    """Return the patterns in episodes that are grouped already; names in `taken` are not used."""
    containing: dict[str, list[Sequence[DecisionEpisode]]] = defaultdict(list)
    for run in runs:
        for id in {episode.id for episode in run}:
            containing[id].append(run)
    found = [
        pattern
        for group in groups
        for everything in (rate_after((one.quality, one.trust) for one in group.episodes),)
        for mine in _approaches(group)
        if (pattern := _pattern(group, everything, mine, containing, false_discoveries)) is not None
    ]
    return tuple(
        sorted(_with_unique_names(found, taken), key=lambda pattern: (-pattern.interval[0], pattern.pattern_id))
    )


def replication_steps(runs: _Runs, *, share: float = COMMON) -> tuple[ReplicationStep, ...]:
    """Return the steps contained in at least `share` of the successful runs, in the order most of them have.

    A run is successful when its last episode is; failed episodes within it are not steps. A step that occurs twice in
    most successful runs is listed twice. Each step has its share of the failed runs. A step is in at least two
    successful runs.
    """
    good = [_steps(run, only_good=True) for run in runs if run and run[-1].quality >= GOOD]
    failed = [_steps(run, only_good=False) for run in runs if run and run[-1].quality < GOOD]
    if len(good) < AGREEING:
        return ()
    support = Counter(step for run in good for step in run)
    common = sorted(
        (step for step, count in support.items() if count >= max(AGREEING, share * len(good) - 1e-9)),
        key=lambda step: (-support[step], step),
    )[:MOST_STEPS]
    written = _first_spellings(runs)
    steps = []
    for step in _in_order(common, good):
        tried = sum(step in run for run in failed) / len(failed) if failed else None
        steps.append(
            ReplicationStep(
                action=written[step[0]],
                support=support[step] / len(good),
                in_failed=tried,
                missing_in_failed=tried is not None and tried < 1 - share,
            )
        )
    return tuple(steps)


def slug(text: str) -> str:
    """Return a text as a name: lower-case words joined by hyphens, cut at a word if long."""
    name = _UNNAMED.sub("-", normal_form(text)).strip("-")
    if len(name) <= _NAME:
        return name
    return name[: _NAME + 1].rpartition("-")[0] or name[:_NAME]


def _approaches(group: ContextGroup) -> list[list[DecisionEpisode]]:
    """Return the episodes of every action taken often enough in a group, oldest first."""
    by_action: dict[str, list[DecisionEpisode]] = defaultdict(list)
    for episode in group.episodes:
        by_action[normal_form(episode.action)].append(episode)
    return [mine for mine in by_action.values() if len(mine) >= REPEATED]


def _pattern(
    group: ContextGroup,
    everything: Beta,
    mine: Sequence[DecisionEpisode],
    containing: Mapping[str, Sequence[Sequence[DecisionEpisode]]],
    false_discoveries: float,
) -> SuccessPattern | None:
    belief = rate_after(
        ((one.quality, one.trust) for one in mine), group.expected.get(normal_form(mine[0].action), GOOD)
    )
    if 1 - belief.below(GOOD) < SURE:
        return None
    good = [episode for episode in mine if episode.quality >= GOOD]
    factors = key_factors(
        [
            Case(descriptive_features(episode.context, episode.features), episode.quality, episode.trust)
            for episode in mine
        ],
        rate=false_discoveries,
    )
    runs = _runs_with(mine, containing)
    steps = replication_steps(runs)
    others = len(group.episodes) - len(mine)
    other_belief = Beta(max(1.0, 1 + everything.a - belief.a), max(1.0, 1 + everything.b - belief.b))
    approach = mine[0].action
    return SuccessPattern(
        pattern_id=digest("success", group.signature, normal_form(approach)),
        name=slug(approach),
        context_signature=group.signature,
        title=group.display_name,
        successful_approach=approach,
        key_factors=tuple(factor for factor in factors if factor.effect > 0),
        replication_steps=tuple(step.action for step in steps) or (approach,),
        step_runs=sum(run[-1].quality >= GOOD for run in runs) if steps else 0,
        success_rate=belief.mean,
        interval=rate_interval(belief),
        attempts=len(mine),
        contrast=Contrast(
            failures=tuple(episode.id for episode in mine if episode.quality < GOOD),
            risk_factors=tuple(factor for factor in factors if factor.effect <= 0),
            missing_steps=tuple(step.action for step in steps if step.missing_in_failed),
            other_attempts=others,
            other_rate=other_belief.mean if others else None,
            advantage=belief.beats(other_belief) if others else None,
        ),
        last_seen=mine[-1].at,
        episodes=tuple(episode.id for episode in good),
        agents=tuple(sorted({episode.agent for episode in mine if episode.agent})),
    )


def _runs_with(
    episodes: Sequence[DecisionEpisode], containing: Mapping[str, Sequence[Sequence[DecisionEpisode]]]
) -> _Runs:
    """Return the runs these episodes belong to, each once, earliest first."""
    runs = {tuple(one.id for one in run): run for episode in episodes for run in containing.get(episode.id, ())}
    return [run for _, run in sorted(runs.items(), key=lambda item: (item[1][0].at, item[0]))]


def _with_unique_names(patterns: Sequence[SuccessPattern], reserved: Collection[str]) -> list[SuccessPattern]:
    """Give each pattern a unique name: the first keeps the plain one, others add their situation."""
    taken = set(reserved)
    named = []
    for pattern in patterns:
        plain = pattern.name or "pattern"
        longer = "-".join(filter(None, (plain, "in", slug(pattern.title or pattern.context_signature))))
        candidates = (plain, longer, f"{plain}-{pattern.pattern_id[:8]}", f"{plain}-{pattern.pattern_id}")
        name = next(name for name in candidates if name not in taken)
        taken.add(name)
        named.append(pattern.model_copy(update={"name": name}))
    return named


def _steps(run: Sequence[DecisionEpisode], *, only_good: bool) -> dict[_Step, int]:
    """Return the position of each step in a run."""
    seen: Counter[str] = Counter()
    steps: dict[_Step, int] = {}
    for place, episode in enumerate(run):
        if only_good and episode.quality < GOOD:
            continue
        action = normal_form(episode.action)
        seen[action] += 1
        steps[action, seen[action]] = place
    return steps


def _first_spellings(runs: _Runs) -> dict[str, str]:
    """Return the first spelling of each action."""
    names: dict[str, str] = {}
    for episode in distinct_episodes(episode for run in runs for episode in run):
        names.setdefault(normal_form(episode.action), episode.action)
    return names


def _in_order(steps: Sequence[_Step], runs: Sequence[Mapping[_Step, int]]) -> list[_Step]:
    """Order steps so that of two neighbours the first came first in most runs that have both."""
    lead: Counter[tuple[_Step, _Step]] = Counter()
    for run in runs:
        present = sorted((run[step], step) for step in steps if step in run)
        for place, (_, first) in enumerate(present):
            for _, second in present[place + 1 :]:
                lead[first, second] += 1
                lead[second, first] -= 1
    wins = {one: sum((lead[one, other] > 0) - (lead[one, other] < 0) for other in steps) for one in steps}
    ordered = sorted(steps, key=lambda step: (-wins[step], step))
    swapped = True
    while swapped:
        swapped = False
        for place in range(len(ordered) - 1):
            first, second = ordered[place : place + 2]
            if lead[second, first] > 0:
                ordered[place : place + 2] = second, first
                swapped = True
    return ordered
