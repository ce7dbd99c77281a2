"""From hits and what became of them to a credit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType

from pydantic import JsonValue

from engram.errors import InvalidInput
from engram.learning import events
from engram.learning.events import Circumstances
from engram.model import ActionRecord, Hit, Suggestion
from engram.ports import Credit, LoggedRecall, unstorable
from engram.text.terms import normal_form

MOST = 1000
CITED = 20
GOOD = 0.5
SAYS = "says"
"""The field in which a suggestion notes that it said something; one that knew of nothing informs no decision."""
LENDERS = "lenders"
"""Where a recall notes whose memories it showed."""


def shown(hits: object, agent: str) -> list[Hit]:
    """The hits of a recall, each once, in their order. Raises `InvalidInput` if they are not this agent's."""
    if not isinstance(hits, Sequence) or not all(isinstance(hit, Hit) for hit in hits):
        raise InvalidInput("credit takes the hits as recall returned them; give the whole list, in its order")
    if len(hits) > MOST:
        raise InvalidInput(f"a recall shows {MOST} hits at most, not {len(hits)}; credit one recall at a time")
    for hit in hits:
        if hit.memory.agent != agent and "source" not in hit.why:  # what was lent was shown to this agent, too
            raise InvalidInput(f"{hit.id!a} is a memory of {hit.memory.agent!r}; credit it as that agent")
        if unstorable(hit.id):
            raise InvalidInput(f"{hit.id!a} is no id of a memory; give the hits as recall returned them")
    return list({hit.id: hit for hit in hits}.values())


def chosen(helped: object, hits: Sequence[Hit]) -> frozenset[str]:
    """The ids of those that helped. Raises `InvalidInput` if one of them was not shown."""
    several = [helped] if isinstance(helped, str | Hit) else helped
    if not isinstance(several, Iterable):
        raise InvalidInput(f"helped must be ids or hits, not {type(helped).__name__}; give an empty list if none did")
    ids, known = [one.id if isinstance(one, Hit) else one for one in several], {hit.id for hit in hits}
    for id in ids:
        if not isinstance(id, str) or id not in known:
            raise InvalidInput(f"{id!a} is not among the hits; give ids of those that were shown, or hits")
    return frozenset(ids)


def parts(hits: Sequence[Hit], names: Collection[str], tuned: Mapping[str, float]) -> dict[str, dict[str, float]]:
    """What the score of each hit was made of, as it would have been without what was learned from earlier credits."""
    return {
        hit.id: {
            name: round(value / tuned.get(name, 1.0), 4)
            for name, value in hit.why.items()
            if name in names and isinstance(value, int | float)
        }
        for hit in hits
    }


def suggested(
    suggestion: Suggestion,
    around: Circumstances,
    at: datetime,
    *,
    lent: bool,
    sources: Mapping[str, str] = MappingProxyType({}),
) -> LoggedRecall:
    """Note the episodes that spoke for what a suggestion recommends.

    `sources` says which episodes came from whom; noted is how much of what is behind the recommendation did.
    """
    chosen = next((record for record in suggestion.actions if record.action == suggestion.recommended), None)
    episodes = chosen.episodes_for[-CITED:] if chosen is not None else ()
    about: dict[str, JsonValue] = {
        "context": suggestion.context,
        "action": suggestion.recommended,
        "environment": around.environment,
        "tool": around.tool,
        "task_type": around.task_type,
        "tags": [*around.tags],
        "lent": lent,
        events.SOURCES: {} if chosen is None else _behind(chosen, sources),
        SAYS: suggestion.recommended is not None or bool(suggestion.evidence),
    }
    return LoggedRecall(str(suggestion.id), at, tuple(episodes), about=about)


def _behind(chosen: ActionRecord, sources: Mapping[str, str]) -> dict[str, JsonValue]:
    """Give the share of each source in the episodes behind a recommendation."""
    ids = [*chosen.episodes_for, *chosen.episodes_against, *chosen.near]
    lent = Counter(sources[id] for id in ids if id in sources)
    return {name: number / len(ids) for name, number in sorted(lent.items())}


def followed(several: Iterable[LoggedRecall], action: str) -> dict[str, float]:
    """Add up how far a decision rests on each source by what it cites, together at most wholly.

    A suggestion counts only if what it recommended was done.
    """
    found = Counter[str]()
    for shown in several:
        noted, advised = shown.about.get(events.SOURCES), shown.about.get("action")
        if isinstance(noted, dict) and (advised is None or normal_form(str(advised)) == normal_form(action)):
            found.update({name: float(str(share)) for name, share in noted.items()})
    whole = max(1.0, sum(found.values()))
    return {name: share / whole for name, share in sorted(found.items())}


def shared(shown: LoggedRecall, used: object, quality: float, at: datetime) -> Credit:
    """One credit, shared by the memories that were used, or by all that were shown: together they get exactly one."""
    several = shown.order if used is None else [used] if isinstance(used, str | Hit) else used
    if not isinstance(several, Iterable):
        raise InvalidInput(f"used must be ids or hits, not {type(used).__name__}; leave it out if all were")
    ids = tuple(dict.fromkeys(one.id if isinstance(one, Hit) else one for one in several))
    for id in ids:
        if id not in shown.order:
            raise InvalidInput(f"{id!a} was not shown; give ids of those that were, or hits")
    share = 1 / len(ids) if ids else 0.0
    shares = dict.fromkeys(ids, (share * quality, share * (1 - quality)))
    helped = frozenset(ids if quality >= GOOD else ())
    return Credit(shown.id, at, ids, helped, shown.parts, shares, about={"quality": quality})


def by_source(shown: LoggedRecall, credit: Credit) -> dict[str, tuple[float, float]]:
    """How far each source helped and hindered in what was shown, by which of its memories did."""
    noted, shares = shown.about.get(LENDERS), dict[str, tuple[float, float]]()
    keys = noted if isinstance(noted, dict) else {}
    for id, (helped, hindered) in credit.counts.items():
        if id in keys:
            good, bad = shares.get(str(keys[id]), (0.0, 0.0))
            shares[str(keys[id])] = (good + helped, bad + hindered)
    return shares
