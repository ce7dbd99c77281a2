"""What happened, when, with whom, and how it went: interactions, each of them one memory that recall finds, too."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, Protocol

from pydantic import JsonValue

from engram import arguments
from engram.arguments import When
from engram.errors import InvalidInput
from engram.ids import Sources, aware
from engram.model import Draft, Memory, MemoryType, Recall, Receipt, quality
from engram.model.clean import Clean
from engram.model.decision import QUALITIES
from engram.model.episode import Episode
from engram.when import intervals, overall
from engram.words import index_terms, query_terms

USER = "user"
ASKING = frozenset({USER, "human"})
"""Roles whose single messages are input; those of all others are output."""
OUTCOME = "outcome"
"""Where the metadata of a memory says how it went."""
MOST = 10_000
_PAGE = 500


class Agent(Protocol):
    """The agent, as far as its episodes need it."""

    def remember(self, text: Draft, /) -> Receipt:
        """Remember one thing; the receipt comes after the commit."""
        ...

    def recall(
        self,
        query: str,
        k: int = 5,
        *,
        kinds: str | Iterable[str] = (),
        since: When | None = None,
        until: When | None = None,
    ) -> Recall:
        """The memories that answer a query, best first."""
        ...

    def get(self, id: str) -> Memory | None:
        """The memory with this id, or `None`."""
        ...

    def list(
        self,
        *,
        limit: int = 50,
        offset: int = 0,
        kinds: str | Iterable[str] = (),
        tags: str | Iterable[str] = (),
        since: When | None = None,
        until: When | None = None,
        session: str | None = None,
    ) -> list[Memory]:
        """The memories of this agent, newest first."""
        ...


def episode(memory: Memory) -> Episode | None:
    """The interaction that a memory tells of; `None` if it tells of something else.

    What was asked is its context and what was answered its text; a single message is one or the other, by its role.
    """
    if memory.kind is not MemoryType.MESSAGE:
        return None
    asks = not memory.context and (memory.role or USER).casefold() in ASKING
    went = _outcome(memory.metadata.get(OUTCOME))
    return Episode(
        id=memory.id,
        agent=memory.agent,
        at=memory.at,
        user=memory.speaker,
        input=memory.text if asks else memory.context,
        output=Clean("") if asks else memory.text,
        outcome=went,
        tags=memory.tags,
        metadata={name: value for name, value in memory.metadata.items() if went is None or name != OUTCOME},
        session=memory.session,
    )


def period(when: str, now: datetime) -> tuple[datetime | None, datetime | None]:
    """The stretch of time that plain words mean at `now`, in whose zone days begin. Raises `InvalidInput`."""
    meant = overall(intervals(when, now))
    if meant is None:
        raise InvalidInput(f"no time is named in {when[:80]!a}; say it like `last week`, `yesterday afternoon`")
    return meant


class EpisodicMemory:
    """An agent's interactions in time (seed 003)."""

    def __init__(self, agent: Agent, sources: Sources | None = None) -> None:
        self._agent = agent
        self._sources = sources or Sources()

    def record(
        self,
        input: str = "",
        output: str = "",
        *,
        user: str | None = None,
        outcome: str | float | None = None,
        tags: str | Iterable[str] = (),
        metadata: Mapping[str, JsonValue] | None = None,
        at: When | None = None,
        session: str | None = None,
        **fields: Any,
    ) -> Receipt:
        """Keep one interaction, what was asked and what was answered word for word; one of them may be missing.

        `outcome` is success, partial, failure or a number in [0, 1]. `fields` are those of `Draft`: key, importance, …
        """
        if taken := {"kind", "content", "text", "context", "role", "speaker"} & fields.keys():
            raise InvalidInput(f"an episode has its own {', '.join(sorted(taken))}; leave that out")
        told = dict(metadata or {})
        if outcome is not None:
            if OUTCOME in told:
                raise InvalidInput("the metadata has an outcome of its own; give it by one name only")
            told[OUTCOME] = quality(outcome)
        answered = bool(output.strip())
        return self._agent.remember(
            Draft(
                output if answered else input,
                context=input if answered else "",
                kind=MemoryType.MESSAGE,
                role=None if answered and input.strip() else "assistant" if answered else USER,
                speaker=user,
                tags=tuple(arguments.several("tags", tags)),
                metadata=told,
                at=arguments.moment("at", at),
                session=session,
                **fields,
            )
        )

    def get(self, id: str) -> Episode | None:
        """The interaction with this id, or `None`."""
        memory = self._agent.get(id)
        return None if memory is None else episode(memory)

    def query(
        self,
        about: str | None = None,
        *,
        asked: str | None = None,
        user: str | None = None,
        since: When | None = None,
        until: When | None = None,
        when: str | None = None,
        now: When | None = None,
        tags: str | Iterable[str] = (),
        outcome: str | None = None,
        session: str | None = None,
        limit: int = 50,
    ) -> list[Episode]:
        """All interactions that fit, newest first, up to `limit`.

        `about` names words that were all said, in any form; `asked`, words that were in the input. `since` is
        inclusive, `until` exclusive; `when` says the time in plain words, meant from `now`. `tags` must all be there.
        """
        most = arguments.count("limit", limit, MOST)
        first, last = self._between(since, until, when, now)
        fits = _fitting(about, asked, user, outcome)
        found: dict[str, Episode] = {}
        all_fit = about is None and asked is None and user is None and outcome is None
        for one in self._all(most if all_fit else _PAGE, tags=tags, since=first, until=last, session=session):
            if fits(one):
                found[one.id] = one
            if len(found) == most:
                break
        return list(found.values())

    def similar(
        self, query: str, k: int = 5, *, since: When | None = None, until: When | None = None, when: str | None = None
    ) -> list[Episode]:
        """The interactions that come nearest to what is meant, best first, whatever words they used."""
        first, last = self._between(since, until, when, None)
        hits = self._agent.recall(query, k, kinds=MemoryType.MESSAGE, since=first, until=last)
        return [one for hit in hits if (one := episode(hit.memory)) is not None]

    def _all(self, size: int, **where: Any) -> Iterator[Episode]:
        """Every interaction of a stretch of time, newest first, read in pages of a size."""
        offset = 0
        while page := self._agent.list(kinds=MemoryType.MESSAGE, limit=size, offset=offset, **where):
            yield from (one for memory in page if (one := episode(memory)) is not None)
            if len(page) < size:
                return
            offset += size

    def _between(
        self, since: When | None, until: When | None, when: str | None, now: When | None
    ) -> tuple[datetime | None, datetime | None]:
        """From when until when, as far as both ways to say it agree."""
        first, last = arguments.moment("since", since), arguments.moment("until", until)
        if when is None:
            return first, last
        arguments.moment("now", now)
        local = datetime.fromisoformat(now) if isinstance(now, str) else now or self._sources.now()
        start, end = period(when, local if local.tzinfo is not None else aware(local))
        starts, ends = [one for one in (first, start) if one], [one for one in (last, end) if one]
        return max(starts, default=None), min(ends, default=None)


def _outcome(told: JsonValue) -> float | None:
    known = isinstance(told, int | float) and not isinstance(told, bool) and 0 <= told <= 1
    return float(told) if known and isinstance(told, int | float) else None


def _fitting(about: str | None, asked: str | None, user: str | None, outcome: str | None) -> Callable[[Episode], bool]:
    if outcome is not None and outcome not in QUALITIES:
        raise InvalidInput(f"outcome is one of {', '.join(QUALITIES)}, not {outcome!a}")
    in_all, in_input = _terms("about", about), _terms("asked", asked)
    name = None if user is None else user.strip().casefold()

    def fits(one: Episode) -> bool:
        return (
            (name is None or (one.user is not None and one.user.strip().casefold() == name))
            and (outcome is None or one.went == outcome)
            and (not in_input or in_input <= set(index_terms(one.input)))
            and (not in_all or in_all <= {*index_terms(one.input), *index_terms(one.output)})
        )

    return fits


def _terms(name: str, words: str | None) -> frozenset[str]:
    terms = frozenset(query_terms(words)) if words is not None else frozenset()
    if words is not None and not terms:
        raise InvalidInput(f"{name} has no words to look for; say what it was about")
    return terms
