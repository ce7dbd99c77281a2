"""Guards what was learned against being talked over: alarms about bursts of contradiction, and caps on one source."""

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
"""Who is behind an episode: an agent, a session, an author."""


def by_agent(episode: DecisionEpisode) -> str:
    """The agent that recorded it."""
    return episode.agent


@dataclass(frozen=True, slots=True)
class Settings:
    """When outcomes that contradict what is known are a burst."""

    established: int = 10
    """So many attempts before it make a rate established."""
    least: int = 5
    """Fewer contradictions than this are never a burst."""
    within: timedelta = timedelta(days=1)
    recent: timedelta = timedelta(days=30)
    """A burst that began longer ago is history."""
    unlikely: float = 1e-4
    """How improbable a burst must be, all windows that were looked at considered."""
    unlikely_change: float = 1e-2
    """The same where the outcomes themselves show that the rate has changed."""
    doubt: float = 0.05
    """The rate before is taken at this quantile of what is believed, on the side that makes a burst likelier."""


DEFAULT = Settings()


@dataclass(frozen=True, slots=True)
class Alarm:
    """A burst of outcomes that contradict what was established about an action in a context."""

    context: str
    action: str
    rate: float
    """The success rate that was believed before."""
    attempts: int
    """On which that was based."""
    outcomes: int
    """In the burst."""
    contradicting: int
    began: datetime
    ended: datetime
    probability: float
    """Of so many contradictions if the rate had stayed, times the number of windows looked at."""
    sources: tuple[tuple[str, int], ...]
    """Who told the contradicting outcomes, and how many each, most first."""
    episodes: tuple[str, ...]

    @property
    def single_source(self) -> bool:
        """Whether one source alone is behind it: an attack, or a mistake of one, is likelier than a change."""
        return len(self.sources) == 1


def alarms(
    episodes: Iterable[DecisionEpisode], now: datetime, *, source: Source = by_agent, settings: Settings = DEFAULT
) -> list[Alarm]:
    """The bursts of contradiction and changes that began recently, least probable first; one per situation and action.

    An episode listed twice counts once; one from the future is taken as of now.
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
    looked_at = len(windows) + len(changes)
    for members, start, end, sure in [*((*each, False) for each in windows), *((*each, True) for each in changes)]:
        alarm = _judged(members, start, end, looked_at, source, settings, sure=sure)
        if alarm is None:
            continue
        key = members[0].situation or normal_form(alarm.context), normal_form(alarm.action)
        if key not in found or alarm.probability < found[key].probability:
            found[key] = alarm
    return sorted(found.values(), key=lambda one: (one.probability, one.context, one.action))


def capped(
    episodes: Iterable[DecisionEpisode], per_source: float = 5.0, *, own: str | None = None, source: Source = by_agent
) -> list[DecisionEpisode]:
    """The episodes, in order, with the word of each source about an action worth so many attempts at most.

    So many in this very context, and so many in all that are like it.

    What goes beyond makes every episode of that source count less, so all of them stay listed as evidence. The
    source `own` is not capped: that is the agent's own experience, which the wider groups hold in full.
    """
    known = list(episodes)
    told: dict[tuple[str, str, bool], float] = defaultdict(float)
    unique = list({one.id: one for one in known}.values())
    for one, likeness in zip(unique, _likeness(unique), strict=True):
        told[_said(one, source)] += likeness
    return [one if source(one) == own else _shared(one, told[_said(one, source)], per_source) for one in known]


def _said(episode: DecisionEpisode, source: Source) -> tuple[str, str, bool]:
    """Who says something about which action, and whether in this very context: many like it must not drown it."""
    return source(episode), normal_form(episode.action), episode.similarity >= SAME


def _likeness(episodes: Sequence[DecisionEpisode]) -> list[float]:
    """What each episode counts for its context being like the one asked about."""
    similar = np.array([one.similarity for one in episodes], dtype=np.float64)
    here = similar >= SAME
    likeness = np.ones_like(similar)
    likeness[~here] = closeness(similar[~here])
    return [float(number) for number in likeness]


def _shared(episode: DecisionEpisode, number: float, limit: float) -> DecisionEpisode:
    return episode if number <= limit else replace(episode, trust=episode.trust * limit / number)


def _windows(members: Sequence[DecisionEpisode], since: datetime, settings: Settings) -> list[tuple[int, int]]:
    """Each stretch of `within` that begins recently, after enough attempts, and holds enough outcomes."""
    found, end = [], 0
    for start in range(settings.established, len(members)):
        if members[start].at < since:
            continue
        while end < len(members) and members[end].at - members[start].at <= settings.within:
            end += 1
        if end - start >= settings.least:
            found.append((start, end))
    return found


def _changed(members: Sequence[DecisionEpisode], since: datetime, settings: Settings) -> int | None:
    """The place above which an established rate is another, however slowly the outcomes come, if that is recent."""
    change = last_change([Trial(one.at, one.quality, 1.0, circumstances=one.circumstances()) for one in members])
    if change is None or change.place < settings.established or change.at < since:
        return None
    return change.place


def _judged(
    members: Sequence[DecisionEpisode],
    start: int,
    end: int,
    looked_at: int,
    source: Source,
    settings: Settings,
    *,
    sure: bool,
) -> Alarm | None:
    """Raise an alarm about outcomes that were improbable before, less so where it is `sure` that the rate changed."""
    before, burst = members[:start], members[start:end]
    good = sum(one.quality >= GOOD for one in before)
    belief = Beta(1 + good, 1 + len(before) - good)
    used_to_work = belief.mean >= GOOD
    against = [one for one in burst if (one.quality < GOOD) == used_to_work]
    if len(against) < settings.least:
        return None
    rate = belief.quantile(settings.doubt if used_to_work else 1 - settings.doubt)
    contradiction = 1 - rate if used_to_work else rate
    probability = min(1.0, _at_least(len(against), len(burst), contradiction) * looked_at)
    if probability >= (settings.unlikely_change if sure else settings.unlikely):
        return None
    told = Counter(source(one) for one in against)
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
        sources=tuple(sorted(told.items(), key=lambda item: (-item[1], item[0]))),
        episodes=tuple(one.id for one in against),
    )


def _at_least(k: int, n: int, p: float) -> float:
    """The probability of k or more of n independent trials, each with probability p, exactly."""
    if p <= 0 or p >= 1:
        return 0.0 if p <= 0 < k else 1.0
    log_p, log_q = math.log(p), math.log1p(-p)
    logs = [
        math.lgamma(n + 1) - math.lgamma(i + 1) - math.lgamma(n - i + 1) + i * log_p + (n - i) * log_q
        for i in range(k, n + 1)
    ]
    return min(1.0, math.fsum(math.exp(log) for log in logs))
