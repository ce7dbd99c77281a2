"""The forgetting curve: how strong a memory is, from when it was stored, recalled and credited, and which may go.

Nothing of this is kept: it is folded from the memory and its credits, and the same ones always give the same strength.
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
"""So many uncredited recalls count; more of them change nothing that matters."""
LEARNED_FROM = frozenset({MemoryType.DECISION, MemoryType.FAILURE})

_DECAY = 0.8
"""The steepest curve that FSRS knows. Its default is made for people who rehearse: with it, what was never used again
would be worth 5% only after a million years."""
_scheduler = Scheduler(
    parameters=[*Scheduler().parameters[:-1], _DECAY], learning_steps=(), relearning_steps=(), enable_fuzzing=False
)

Told = tuple[datetime, float]
"""When a memory was credited, and how much of that credit was for it: 1 if it helped, 0 if it hindered."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What may go: what is weaker than `below`, and was neither stored nor used for `older_than`."""

    below: float = BELOW
    older_than: timedelta = OLDER_THAN


def told_of(credits: Iterable[Credit]) -> dict[str, list[Told]]:
    """What was told of each memory, oldest first."""
    found = defaultdict[str, list[Told]](list)
    for credit in sorted(credits, key=lambda credit: (credit.at, credit.id)):
        for id, (helped, hindered) in credit.counts.items():
            if helped + hindered > 0:
                found[id].append((credit.at, helped / (helped + hindered)))
    return dict(found)


def strength(memory: Memory, told: Sequence[Told], now: datetime) -> Strength:
    """How strong a memory is now: storing and recalling it strengthen, helping does more, hindering weakens it."""
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
    """What others stand on: the sources of memories, and what helped in recalls that decisions were based on."""
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
    limits: Limits,
    *,
    cited: Collection[str] = frozenset(),
    learned: Collection[str] = frozenset(),
) -> ForgettingReport:
    """Which of one agent's memories may go, weakest first, and why the others stay; nothing goes by this.

    `cited` are more memories that others stand on, and `learned` those that something was learned from.
    """
    told, kept = told_of(credits), Counter[str]()
    standing = cited_by(memories, credits) | frozenset(cited)
    weak = list[tuple[Memory, Strength]]()
    for memory in memories:
        if reason := _holds(memory, standing, learned):
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
        gone=tuple(_fading(memory, force, now, limits) for memory, force in weak), kept=dict(sorted(kept.items()))
    )


def together(several: Iterable[ForgettingReport]) -> ForgettingReport:
    """What several agents forget, as one."""
    several = list(several)
    kept: Mapping[str, int] = sum((Counter(dict(each.kept)) for each in several), Counter[str]())
    return ForgettingReport(
        gone=tuple(fading for each in several for fading in each.gone), kept=dict(sorted(kept.items()))
    )


def _holds(memory: Memory, standing: Collection[str], learned: Collection[str]) -> str | None:
    """Why a memory stays however weak it is."""
    if memory.importance >= 1 or any(tag.lower() == PINNED for tag in memory.tags):
        return "pinned"
    if memory.kind == MemoryType.PROCEDURE:
        return "procedures"
    if memory.kind in LEARNED_FROM or memory.id in learned:
        return "learned from"
    return "cited" if memory.id in standing else None


def _fading(memory: Memory, force: Strength, now: datetime, limits: Limits) -> FadedMemory:
    days = (now - force.touched).days
    reason = f"strength {force.value:.3f} is below {limits.below:g}; neither stored nor used for {days} days"
    return FadedMemory(
        id=memory.id, agent=memory.agent, kind=memory.kind, text=memory.text, strength=force, reason=reason
    )


def _reviews(memory: Memory, told: Sequence[Told], now: datetime) -> list[tuple[datetime, Rating]]:
    """When the memory came to mind and how well that went, oldest first, beginning with its storing.

    Of recalls of which nothing was told only their number and the last time is known: they are taken as evenly spread.
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
