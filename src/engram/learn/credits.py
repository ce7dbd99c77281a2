"""From hits and what became of them to a credit."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from engram.errors import InvalidInput
from engram.model import Hit
from engram.ports import unstorable

MOST = 1000


def shown(hits: object, agent: str) -> list[Hit]:
    """The hits of a recall, each once, in their order. Raises `InvalidInput` if they are not this agent's."""
    if not isinstance(hits, Sequence) or not all(isinstance(hit, Hit) for hit in hits):
        raise InvalidInput("credit takes the hits as recall returned them; give the whole list, in its order")
    if len(hits) > MOST:
        raise InvalidInput(f"a recall shows {MOST} hits at most, not {len(hits)}; credit one recall at a time")
    for hit in hits:
        if hit.memory.agent != agent:
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
