"""act: suggest / predict / check, from what the agent learned and what others lend it to learn from."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from engram import arguments
from engram.ids import EPOCH
from engram.learn import credits, decisions
from engram.learn.happened import Circumstances
from engram.learn.learning import Near, Testimony
from engram.model import Clean, Prediction, Suggestion, Verdict
from engram.model.grant import Right
from engram.ports import RemembersShown
from engram.sentences.seat import Seat

TRUSTED = 0.7
"""From this trust on, what a source knows to fail is blocked."""


def suggest(
    seats: Sequence[Seat],
    context: str,
    actions: Sequence[str] | None,
    around: Circumstances,
    *,
    explore: bool,
    shared: bool,
) -> Suggestion:
    """What to do in a context, from what the first of these agents did, and the others as far as they agree with it.

    One agent alone is also told what was lent to it. The suggestion counts as shown.
    """
    wanted = None if actions is None else arguments.texts("actions", actions)
    if not seats:
        return decisions.weigh(context, [], now=EPOCH)
    first, gate, near = seats[0], seats[0].gate, cache(seats[0].placing.similar)
    candidates = None if wanted is None else [gate.clean("action", action) for action in wanted]
    clean = gate.clean("context", context)
    told = _testimonies(seats, clean, near, "suggest", shared=shared)
    chance = first.sources.random if explore else None
    suggestion = first.learning.suggest(clean, around, candidates, explore=chance, others=told, near=near)
    if isinstance(first.store, RemembersShown) and suggestion.id is not None:
        first.store.show(first.scope, credits.suggested(suggestion, around, first.sources.now(), lent=bool(told)))
    return suggestion


def predict(seats: Sequence[Seat], context: str, action: str, around: Circumstances, *, shared: bool) -> Prediction:
    """How likely an action is to succeed in a context, for the first of these agents, asked like `suggest`."""
    first, near = seats[0], cache(seats[0].placing.similar)
    where, done = first.gate.clean("context", context), first.gate.clean("action", action)
    told = _testimonies(seats, where, near, "predict", shared=shared)
    return first.learning.predict(where, done, around, told, near=near)


def check(seat: Seat, action: Clean, context: Clean, around: Circumstances, *, shared: bool) -> Verdict:
    """Whether an action may go ahead, by the agent's own failures, and if it has none, by those of its lenders."""
    verdict, sharing = seat.learning.check(action, context, around), seat.sharing
    for lender in sharing.lenders(seat.scope, Right.LEARN) if shared and verdict.decision == "allow" else ():
        theirs = lender.learning.verdict(action, context, around)
        if theirs.decision != "allow":
            sharing.used(seat.scope, lender, "check", len(theirs.failures) or 1)
            trusted = sharing.trust(seat.scope, lender.key, lender.since).mean >= TRUSTED
            return seat.learning.note(theirs.of_others(lender.name, trusted=trusted), action, context, around)
    return verdict


def _testimonies(seats: Sequence[Seat], context: Clean, near: Near, use: str, *, shared: bool) -> list[Testimony]:
    """What the other agents know about a context, or to one alone, what was lent to it; that use is written down."""
    first, *others = seats
    if others:
        return [other.learning.testimony(context, near) for other in others]
    found = []
    for lender in first.sharing.lenders(first.scope, Right.LEARN) if shared else ():
        told = lender.learning.testimony(context, near)
        first.sharing.used(first.scope, lender, use, len(told.episodes), [each.id for each in told.episodes])
        if told.episodes:
            found.append(told)
    return found
