"""Estimate the failures that an agent was spared by using what others had learned.

Decisions that used shared knowledge are compared with decisions of the same agent that did not, in the same situation
if it has enough of them there, else with those that met a situation at the same stage: for the first time, with little
experience, or with more. The estimate is the effect on the decisions that used it, summed over these strata:
(failure rate without − failure rate with) × number of decisions with. Both rates have Jeffreys' prior. It is an
observation, not an experiment: an agent that turns to shared knowledge in harder cases is spared more than it says.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

import numpy as np

from engram.learning.reuse import Attempt
from engram.model.learning import Spared
from engram.text.terms import normal_form

ENOUGH = 3
"""From so many attempts without shared knowledge on, a situation is compared with itself."""
DRAWS = 20_000
PRIOR = 0.5
STAGES = (0, 1, 3)
"""An attempt is the first in its situation, one of the next two, or a later one."""
Record = tuple[int, float]
"""How many attempts, and how many of them failed; an outcome in between counts in part."""


def spared(agents: Iterable[Sequence[Attempt]]) -> Spared | None:
    """Estimate the failures spared, each agent against its own record; `None` if no shared knowledge was used."""
    pairs, used, compared = list[tuple[Record, Record]](), 0, 0
    for attempts in agents:
        used += sum(attempt.shared for attempt in attempts)
        found = list(_strata(attempts))
        pairs += found
        compared += sum(number for (number, _), _ in found)
    if not used:
        return None
    if not pairs:
        return Spared(used=used, compared=0)
    random = np.random.default_rng(0)
    total = np.zeros(DRAWS)
    mean = 0.0
    for (number, failed), (base, lost) in pairs:
        assisted = random.beta(PRIOR + failed, PRIOR + number - failed, DRAWS)
        alone = random.beta(PRIOR + lost, PRIOR + base - lost, DRAWS)
        total += number * (alone - assisted)
        mean += number * ((PRIOR + lost) / (1 + base) - (PRIOR + failed) / (1 + number))
    low, high = (float(value) for value in np.quantile(total, (0.025, 0.975)))
    return Spared(
        used=used,
        compared=compared,
        failures=mean,
        interval=(low, high),
        rate_with=sum(failed for (_, failed), _ in pairs) / compared,
        rate_without=sum(number * lost / base for (number, _), (base, lost) in pairs) / compared,
    )


def _strata(attempts: Sequence[Attempt]) -> Iterable[tuple[Record, Record]]:
    """Pair the attempts with shared knowledge with comparable ones without, as far as there are any."""
    seen, stages = Counter[str](), list[int]()
    for attempt in attempts:
        place = _place(attempt)
        stages.append(max(number for number, least in enumerate(STAGES) if seen[place] >= least))
        seen[place] += 1
    alone_in, alone_at = defaultdict[str, list[float]](list), defaultdict[int, list[float]](list)
    for attempt, stage in zip(attempts, stages, strict=True):
        if not attempt.shared:
            alone_in[_place(attempt)].append(1 - attempt.quality)
            alone_at[stage].append(1 - attempt.quality)
    assisted = defaultdict[str | int, list[float]](list)
    for attempt, stage in zip(attempts, stages, strict=True):
        if attempt.shared:
            place = _place(attempt)
            where: str | int = place if len(alone_in[place]) >= ENOUGH else stage
            assisted[where].append(1 - attempt.quality)
    for where, failed in assisted.items():
        base = alone_in[where] if isinstance(where, str) else alone_at[where]
        if base:
            yield (len(failed), sum(failed)), (len(base), sum(base))


def _place(attempt: Attempt) -> str:
    """Give the situation of an attempt, or where it has none yet, its context."""
    return attempt.situation or normal_form(attempt.context)
