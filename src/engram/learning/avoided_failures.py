"""Estimate the failures that an agent avoided by using shared knowledge.

Decisions that used shared knowledge are compared with decisions of the same agent that did not: in the same situation
if there are enough of them, else at the same stage of experience with a situation (first attempt, few attempts, more).
The estimate is the effect on the decisions that used it, summed over these strata: (failure rate without − failure
rate with) × number of decisions with. Both rates have Jeffreys' prior. It is an observation, not an experiment: if an
agent turns to shared knowledge in harder cases, more failures were avoided than it says.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

import numpy as np

from engram.learning.reuse import Attempt
from engram.model.learning import Spared
from engram.text.terms import normal_form

ENOUGH = 3
"""The attempts without shared knowledge from which a situation is compared with itself."""
DRAWS = 20_000
PRIOR = 0.5
STAGES = (0, 1, 3)
"""The stages begin after so many attempts in a situation: the first, the next two, all later ones."""
Record = tuple[int, float]
"""The number of attempts and of failures among them; a partial success counts as a partial failure."""


def spared(agents: Iterable[Sequence[Attempt]]) -> Spared | None:
    """Estimate the avoided failures, comparing each agent with itself; `None` if no shared knowledge was used."""
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
    """Pair the records of attempts with shared knowledge with those of comparable attempts without it, if any."""
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
    """Return the situation of an attempt, or its context if it has no situation yet."""
    return attempt.situation or normal_form(attempt.context)
