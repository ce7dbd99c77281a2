"""Protect what was learned from poisoning: detect bursts of contradicting outcomes, and cap each source's weight."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import numpy as np

from engram.learning.decisions.belief import GOOD, SAME, DecisionEpisode, closeness
from engram.learning.decisions.beta import Beta
from engram.learning.decisions.rate_changes import Trial, last_change
from engram.text.terms import normal_form

Source = Callable[[DecisionEpisode], str]
"""A function that names the source of an episode: its agent, session or author."""


def by_agent(episode: DecisionEpisode) -> str:
    """Name the agent that recorded an episode."""
    return episode.agent


@dataclass(frozen=True, slots=True)
class AlarmSettings:
    """Thresholds for a burst of outcomes that contradict an established success rate."""

    established: int = 10
    """The attempts after which a rate is established."""
    least: int = 5
    """The fewest contradictions that make a burst."""
    within: timedelta = timedelta(days=1)
    """The longest time that a burst takes."""
    recent: timedelta = timedelta(days=30)
    """Bursts that began longer ago are not reported."""
    unlikely: float = 1e-4
    """The largest probability of a burst, corrected for the number of windows examined."""
    unlikely_change: float = 1e-2
    """The same for a change of the rate that was detected in the outcomes."""
    doubt: float = 0.05
    """The quantile of the believed rate that is used, on the side that makes a burst more probable."""


DEFAULT = AlarmSettings()


@dataclass(frozen=True, slots=True)
class Alarm:
    """A burst of outcomes that contradict the established success rate of an action in a context."""

    context: str
    action: str
    rate: float
    """The success rate that was believed before."""
    attempts: int
    """The number of attempts behind `rate`."""
    outcomes: int
    """The number of outcomes in the burst."""
    contradicting: int
    """The number of outcomes in it that contradict `rate`."""
    began: datetime
    ended: datetime
    probability: float
    """The probability of this many contradictions had the rate not changed, times the number of windows examined."""
    sources: tuple[tuple[str, int], ...]
    """The sources of the contradicting outcomes with their numbers, largest first."""
    episodes: tuple[str, ...]

    @property
    def single_source(self) -> bool:
        """Return true if all of it came from one source: then an attack or an error is likelier than a real change."""
        return len(self.sources) == 1


def alarms(
    episodes: Iterable[DecisionEpisode], now: datetime, *, source: Source = by_agent, settings: AlarmSettings = DEFAULT
) -> list[Alarm]:
    """Find recent bursts of contradictions and changes, least probable first, at most one per situation and action.

    Repeated episodes count once; episodes dated in the future count as of now.
    """
    groups: dict[tuple[str, str], list[DecisionEpisode]] = defaultdict(list)
    for one in {one.id: one for one in episodes}.values():
        where = one.situation or normal_form(one.context)
        groups[where, normal_form(one.action)].append(replace(one, at=min(one.at, now)))
    for members in groups.values():
        members.sort(key=lambda one: (one.at, one.id))
    windows = [
        (members, start, end)
        for members in groups.values()
        for start, end in _windows(members, now - settings.recent, settings)
    ]
    changes = [
        (members, start, len(members))
        for members in groups.values()
        if (start := _changed(members, now - settings.recent, settings)) is not None
    ]
    found: dict[tuple[str, str], Alarm] = {}
    examined = len(windows) + len(changes)
    for members, start, end, changed in [*((*each, False) for each in windows), *((*each, True) for each in changes)]:
        alarm = _alarm(members, start, end, examined, source, settings, changed=changed)
        if alarm is None:
            continue
        key = members[0].situation or normal_form(alarm.context), normal_form(alarm.action)
        if key not in found or alarm.probability < found[key].probability:
            found[key] = alarm
    return sorted(found.values(), key=lambda one: (one.probability, one.context, one.action))


def capped(
    episodes: Iterable[DecisionEpisode], per_source: float = 5.0, *, own: str | None = None, source: Source = by_agent
) -> list[DecisionEpisode]:
    """Reduce the trust of episodes so that each source counts as at most `per_source` attempts of an action.

    The limit holds separately for the context asked about and for all similar ones. All episodes are returned, in
    order: above the limit each one of the source counts less, so all of them remain as evidence. The source `own`, the
    agent's own experience, is not capped.
    """
    known = list(episodes)
    totals: dict[tuple[str, str, bool], float] = defaultdict(float)
    unique = list({one.id: one for one in known}.values())
    for one, similarity in zip(unique, _similarity_weights(unique), strict=True):
        totals[_cap_key(one, source)] += similarity
    return [one if source(one) == own else _scaled(one, totals[_cap_key(one, source)], per_source) for one in known]


def _cap_key(episode: DecisionEpisode, source: Source) -> tuple[str, str, bool]:
    """Return the group that a cap applies to: source, action, and whether the context is the one asked about."""
    return source(episode), normal_form(episode.action), episode.similarity >= SAME


def _similarity_weights(episodes: Sequence[DecisionEpisode]) -> list[float]:
    """Weigh each episode by the similarity of its context to the one asked about."""
    similar = np.array([one.similarity for one in episodes], dtype=np.float64)
    here = similar >= SAME
    weights = np.ones_like(similar)
    weights[~here] = closeness(similar[~here])
    return [float(weight) for weight in weights]


def _scaled(episode: DecisionEpisode, total: float, limit: float) -> DecisionEpisode:
    return episode if total <= limit else replace(episode, trust=episode.trust * limit / total)


def _windows(members: Sequence[DecisionEpisode], since: datetime, settings: AlarmSettings) -> list[tuple[int, int]]:
    """List the windows of length `within` that begin recently, after enough attempts, and have enough outcomes."""
    found, end = [], 0
    for start in range(settings.established, len(members)):
        if members[start].at < since:
            continue
        while end < len(members) and members[end].at - members[start].at <= settings.within:
            end += 1
        if end - start >= settings.least:
            found.append((start, end))
    return found


def _changed(members: Sequence[DecisionEpisode], since: datetime, settings: AlarmSettings) -> int | None:
    """Return the index from which an established rate has changed, if that is recent; else `None`."""
    change = last_change([Trial(one.at, one.quality, 1.0, circumstances=one.circumstances()) for one in members])
    if change is None or change.place < settings.established or change.at < since:
        return None
    return change.place


def _alarm(
    members: Sequence[DecisionEpisode],
    start: int,
    end: int,
    examined: int,
    source: Source,
    settings: AlarmSettings,
    *,
    changed: bool,
) -> Alarm | None:
    """Make an alarm if the outcomes from `start` to `end` are improbable; `changed` if a change was detected there."""
    before, burst = members[:start], members[start:end]
    good = sum(one.quality >= GOOD for one in before)
    belief = Beta(1 + good, 1 + len(before) - good)
    used_to_work = belief.mean >= GOOD
    against = [one for one in burst if (one.quality < GOOD) == used_to_work]
    if len(against) < settings.least:
        return None
    rate = belief.quantile(settings.doubt if used_to_work else 1 - settings.doubt)
    contradiction = 1 - rate if used_to_work else rate
    probability = min(1.0, _at_least(len(against), len(burst), contradiction) * examined)
    if probability >= (settings.unlikely_change if changed else settings.unlikely):
        return None
    by_source = Counter(source(one) for one in against)
    return Alarm(
        context=burst[0].context,
        action=burst[0].action,
        rate=belief.mean,
        attempts=len(before),
        outcomes=len(burst),
        contradicting=len(against),
        began=against[0].at,
        ended=against[-1].at,
        probability=probability,
        sources=tuple(sorted(by_source.items(), key=lambda item: (-item[1], item[0]))),
        episodes=tuple(one.id for one in against),
    )


def _at_least(k: int, n: int, p: float) -> float:
    """Return the exact probability of k or more successes in n independent trials with probability p."""
    if p <= 0 or p >= 1:
        return 0.0 if p <= 0 < k else 1.0
    log_p, log_q = math.log(p), math.log1p(-p)
    logs = [
        math.lgamma(n + 1) - math.lgamma(i + 1) - math.lgamma(n - i + 1) + i * log_p + (n - i) * log_q
        for i in range(k, n + 1)
    ]
    return min(1.0, math.fsum(math.exp(log) for log in logs))
