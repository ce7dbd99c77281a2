"""Rate shared patterns by the receiver's own outcomes, separately from the owner's figures."""

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
"""The most attempts that the owner's rate counts as in the rate that the receiver sees."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """A decision with a known outcome, and the ids that informed it."""

    action: str
    context: str
    quality: float
    at: datetime
    informed_by: frozenset[str] = frozenset()
    shared: bool = False
    """True if it used knowledge that other agents shared."""
    situation: str = ""
    """The id of its situation; empty if it has none yet."""


def attempts(events: Sequence[Event], agent: str) -> list[Attempt]:
    """List the decisions with a known outcome, oldest first."""
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
    """Rate a shared action by the receiver's attempts that cite its pattern or repeat it in one of its contexts.

    The owner's rate is the prior. Its weight is the owner's attempts times the trust in the source, at most
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
