"""Outcomes of one agent that rate what others shared with it, apart from the figures of the owner."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from engram.learning import events as happened
from engram.learning.decisions.beta import Beta
from engram.model.source import OwnRecord
from engram.ports import Event
from engram.text.terms import normal_form

OWNER_COUNTS = 4.0
"""At most so many attempts of the owner weigh in the rate that the receiver sees."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """A decision whose outcome is known, and what it was based on."""

    action: str
    context: str
    quality: float
    at: datetime
    informed_by: frozenset[str] = frozenset()
    shared: bool = False
    """Whether it used what other agents had learned."""
    situation: str = ""
    """The id of its situation among those of its agent; empty if it has none yet."""


def attempts(events: Sequence[Event], agent: str) -> list[Attempt]:
    """List the decisions among events whose outcome is known, in the order they were taken."""
    decided = {event.subject: event for event in events if event.kind == happened.DECISION}
    found = []
    for episode in happened.episodes(events, agent):
        body = decided[episode.id].body
        informed = body.get("informed_by")
        found.append(
            Attempt(
                action=episode.action,
                context=episode.context,
                quality=episode.quality,
                at=episode.at,
                informed_by=frozenset(map(str, informed)) if isinstance(informed, list) else frozenset(),
                shared=bool(body.get("lent")),
            )
        )
    return sorted(found, key=lambda attempt: attempt.at)


def own_record(
    own: Iterable[Attempt],
    pattern: str,
    action: str,
    contexts: Collection[str],
    rate: float,
    tried: float,
    trust: float,
) -> OwnRecord:
    """Rate an action of others by the attempts that follow its pattern, or take the same action in its contexts.

    The owner's rate is where the belief starts; it weighs as many attempts as the source is trusted, and at most
    `OWNER_COUNTS`, so that a few outcomes of the receiver outweigh it.
    """
    same, places = normal_form(action), {normal_form(context) for context in contexts}
    mine = [
        each.quality
        for each in own
        if pattern in each.informed_by or (normal_form(each.action) == same and normal_form(each.context) in places)
    ]
    weight = 2.0 + min(max(tried, 0.0) * trust, OWNER_COUNTS)
    mean = min(max(rate, 0.01), 0.99)
    good = sum(mine)
    belief = Beta(mean * weight + good, (1 - mean) * weight + len(mine) - good)
    low, high = belief.interval()
    return OwnRecord(attempts=len(mine), quality=good, success_rate=belief.mean, interval=(low, high))
