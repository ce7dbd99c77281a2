"""The forgetting curve: the strength of a memory, from when it was stored, recalled and credited.

Strength is not stored: it is computed from the memory and its credits, with the FSRS algorithm.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from fsrs import Card, Rating, Scheduler

from engram.model import DecisionContent, Memory, MemoryType
from engram.model.upkeep import FadedMemory, ForgettingReport, Strength
from engram.ports import Credit

BELOW = 0.05
OLDER_THAN = timedelta(days=90)
PINNED = "pinned"
MOST_REVIEWS = 64
"""Number of uncredited recalls that count; more would make no difference."""
LEARNED_FROM = frozenset({MemoryType.DECISION, MemoryType.FAILURE})

_DECAY = 0.8
"""The steepest curve of FSRS.

Its default is made for people who rehearse: with it, an unused memory would fall below 5% only after a million years.
"""
_scheduler = Scheduler(
    parameters=[*Scheduler().parameters[:-1], _DECAY], learning_steps=(), relearning_steps=(), enable_fuzzing=False
)

CreditShare = tuple[datetime, float]
"""Time of a credit, and the share that helped: 1 if the memory only helped, 0 if it only hindered."""


@dataclass(frozen=True, slots=True)
class ForgettingLimits:
    """Conditions for deletion: a strength below `below`, and neither stored nor used for `older_than`."""

    below: float = BELOW
    older_than: timedelta = OLDER_THAN


Limits = ForgettingLimits
"""Former name of `ForgettingLimits`."""


def credits_by_memory(credits: Iterable[Credit]) -> dict[str, list[CreditShare]]:
    """Group credits by memory, oldest first."""
    found = defaultdict[str, list[CreditShare]](list)
    for credit in sorted(credits, key=lambda credit: (credit.at, credit.id)):
        for id, (helped, hindered) in credit.counts.items():
            if helped + hindered > 0:
                found[id].append((credit.at, helped / (helped + hindered)))
    return dict(found)


def strength(memory: Memory, told: Sequence[CreditShare], now: datetime) -> Strength:
    """Compute the strength of a memory: storing, recalling and above all helping raise it, hindering lowers it."""
    card = Card(card_id=1, due=memory.created_at)
    reviews = _reviews(memory, told, now)
    for at, rating in reviews:
        card, _ = _scheduler.review_card(card, rating, at)
    retrievability = min(1.0, _scheduler.get_card_retrievability(card, max(now, reviews[-1][0])))
    return Strength(
        value=memory.importance * retrievability,
        retrievability=retrievability,
        stability=card.stability or 0.0,
        reviews=len(reviews),
        touched=reviews[-1][0],
    )


def cited_by(memories: Iterable[Memory], credits: Iterable[Credit]) -> frozenset[str]:
    """Return the memories others depend on: sources, and recalled memories that helped decisions."""
    sources, based_on = set[str](), set[str]()
    for memory in memories:
        sources.update(memory.provenance.sources)
        if isinstance(memory.content, DecisionContent):
            based_on.update(memory.content.informed_by)
    for credit in credits:
        if credit.id in based_on:
            sources.update(credit.helped)
    return frozenset(sources | based_on)


def fade(
    memories: Sequence[Memory],
    credits: Sequence[Credit],
    now: datetime,
    limits: ForgettingLimits,
    *,
    cited: Collection[str] = frozenset(),
    learned: Collection[str] = frozenset(),
) -> ForgettingReport:
    """Select one agent's faded memories, weakest first, and count the kept ones by reason; deletes nothing.

    `cited` are further memories that others depend on, and `learned` those that something was learned from.
    """
    told, kept = credits_by_memory(credits), Counter[str]()
    standing = cited_by(memories, credits) | frozenset(cited)
    weak = list[tuple[Memory, Strength]]()
    for memory in memories:
        if reason := _reason_to_keep(memory, standing, learned):
            kept[reason] += 1
            continue
        force = strength(memory, told.get(memory.id, ()), now)
        if now - force.touched < limits.older_than:
            kept["recently stored or used"] += 1
        elif force.value >= limits.below:
            kept["strong enough"] += 1
        else:
            weak.append((memory, force))
    weak.sort(key=lambda each: (each[1].value, each[0].id))
    return ForgettingReport(
        gone=tuple(_faded(memory, force, now, limits) for memory, force in weak), kept=dict(sorted(kept.items()))
    )


def merge_reports(several: Iterable[ForgettingReport]) -> ForgettingReport:
    """Combine the reports of several agents."""
    several = list(several)
    kept: Mapping[str, int] = sum((Counter(dict(each.kept)) for each in several), Counter[str]())
    return ForgettingReport(
        gone=tuple(fading for each in several for fading in each.gone), kept=dict(sorted(kept.items()))
    )


def _reason_to_keep(memory: Memory, standing: Collection[str], learned: Collection[str]) -> str | None:
    """Return the reason why a memory is kept however weak it is."""
    if memory.importance >= 1 or any(tag.lower() == PINNED for tag in memory.tags):
        return "pinned"
    if memory.kind == MemoryType.PROCEDURE:
        return "procedures"
    if memory.kind in LEARNED_FROM or memory.id in learned:
        return "learned from"
    return "cited" if memory.id in standing else None


def _faded(memory: Memory, force: Strength, now: datetime, limits: ForgettingLimits) -> FadedMemory:
    days = (now - force.touched).days
    reason = f"strength {force.value:.3f} is below {limits.below:g}; neither stored nor used for {days} days"
    return FadedMemory(
        id=memory.id, agent=memory.agent, kind=memory.kind, text=memory.text, strength=force, reason=reason
    )


def _reviews(memory: Memory, told: Sequence[CreditShare], now: datetime) -> list[tuple[datetime, Rating]]:
    """List the uses of a memory with their ratings, oldest first, beginning with its creation.

    Of recalls without credit only the number and the last time are known: they are assumed to be evenly spread.
    """
    first = memory.created_at
    known = [(max(first, at), _rating(share)) for at, share in told if at <= now]
    last = memory.last_accessed
    number = min(MOST_REVIEWS, max(0, memory.access_count - len(told)))
    if last is not None and last > first:
        known += [(first + (last - first) * n / number, Rating.Good) for n in range(1, number + 1)]
    return [(first, Rating.Good), *sorted(known, key=lambda review: (review[0], review[1].value))]


def _rating(share: float) -> Rating:
    if share >= 0.5:
        return Rating.Easy if share >= 0.75 else Rating.Good
    return Rating.Hard if share >= 0.25 else Rating.Again
