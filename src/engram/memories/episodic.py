"""What happened, when, with whom, and how it went: interactions, each of them one memory that recall finds, too."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any, Protocol

from pydantic import JsonValue

from engram.clock import Sources, aware
from engram.errors import Conflict, InvalidInput, NotFound, Unsupported
from engram.model import Draft, Memory, MemoryType, Recall, Receipt, quality
from engram.model.clean import Clean
from engram.model.decision import QUALITIES
from engram.model.episode import Episode
from engram.ports import Event, Filter, KeepsEvents, Query, ReadsNeighbours, Scope, Store, arguments
from engram.ports.arguments import When
from engram.ports.completed import require
from engram.text.terms import index_terms, query_terms
from engram.text.time_phrases import Interval, intervals, overall

USER = "user"
ASKING = frozenset({USER, "human"})
"""Roles whose single messages are input; those of all others are output."""
OUTCOME = "outcome"
"""Where the metadata of a memory says how it went."""
TOLD = "episode-outcome"
"""Events that tell later how an interaction went; they go with its memory."""
MOST = 10_000
_PAGE = 500

Memories = list[Memory]


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


@dataclass(frozen=True, slots=True)
class Archive:
    """Where the interactions of an agent are kept, and how it says which of them are meant."""

    store: Store
    scope: Scope
    where: Callable[..., Filter]
    """Takes kinds, tags, since, until, as_of and session."""
    clean: Callable[[str], Clean]


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
    if not isinstance(when, str):
        raise InvalidInput(f"a time in plain words is a text, not {when!r:.40}")
    meant = overall(intervals(when, now) or _alone(when.strip(), now))
    if meant is None:
        raise InvalidInput(f"no time is named in {when[:80]!a}; say it like `last week`, `yesterday afternoon`")
    return meant


def _alone(words: str, now: datetime) -> list[Interval]:
    """The time that words mean where nothing else is said: "March" and "the last hour" are times then, too."""
    for lead in ("in ", "in the ", "at "):
        found = intervals(lead + words, now)
        if [each.span[1] for each in found] == [len(lead + words)] and found[0].span[0] <= len(lead):
            return found
    return []


class EpisodicMemory:
    """An agent's interactions in time. With an `archive` words are looked up in it, and outcomes can be told later."""

    def __init__(self, agent: Agent, sources: Sources | None = None, archive: Archive | None = None) -> None:
        self._agent = agent
        self._sources = sources or Sources()
        self._archive = archive

    def record(
        self,
        /,
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

        `outcome` is success, partial, failure or a number in [0, 1]; without one, tell it later by `outcome(id, …)`.
        `fields` are those of `Draft`: key, importance, …
        """
        if taken := {"kind", "content", "text", "context", "role", "speaker"} & fields.keys():
            raise InvalidInput(f"an episode has its own {', '.join(sorted(taken))}; leave that out")
        told = dict(metadata or {})
        if outcome is not None:
            if OUTCOME in told:
                raise InvalidInput("the metadata has an outcome of its own; give it by one name only")
            told[OUTCOME] = quality(outcome)
        for name, text in (("input", input), ("output", output)):
            if not isinstance(text, str):
                raise InvalidInput(f"the {name} of an episode is a text, empty if there is none, not {text!r:.40}")
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

    def outcome(self, id: str, outcome: str | float, *, correct: bool = False) -> bool:
        """Tell how an interaction went, by its id; `False` if just that was known.

        It has one outcome; `correct` replaces it, and what was told before stays in the events. Raises `NotFound` and
        `Conflict`.
        """
        result, archive = quality(outcome), self._archive
        if archive is None:
            raise Unsupported("reporting an outcome later needs a store; use the memory of an agent, `agent.episodic`")
        require(archive.store, KeepsEvents, "reporting an outcome later")
        while True:
            memory = self._agent.get(id)
            known = None if memory is None else episode(memory)
            if known is None:
                raise NotFound(f"there is no interaction {id!a}; `episodic.query` shows what there is")
            told = self._told([id]).get(id, [])
            before = told[-1] if told else known.outcome
            if before == result:
                return False
            if before is not None and not correct:
                raise Conflict(f"how the interaction {id} went was told already, otherwise; `correct` replaces it")
            name = f"{TOLD}:{id}:{len(told) + 1}"
            event = Event(name, TOLD, self._sources.now(), id, TOLD, {"quality": result})
            if archive.store.append(archive.scope, [event])[0]:  # else somebody else has told it just now
                return True

    def get(self, id: str) -> Episode | None:
        """The interaction with this id, or `None`."""
        memory = self._agent.get(id)
        known = None if memory is None else episode(memory)
        return None if known is None else self._with_outcomes([known])[0]

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
        said = " ".join(words for words in (about, asked) if words is not None)
        pages = self._saying(said, most, tags, first, last, session) if said else None
        if pages is None:
            pages = self._all(most, tags=tags, since=first, until=last, session=session)
        found = dict[str, Episode]()
        for page in pages:
            ones = [one for memory in page if (one := episode(memory)) is not None]
            ones = ones if outcome is None else self._with_outcomes(ones)
            found |= {one.id: one for one in ones if fits(one)}
            if len(found) >= most:
                break
        return self._with_outcomes(list(found.values())[:most])

    def similar(
        self,
        query: str,
        k: int = 5,
        *,
        since: When | None = None,
        until: When | None = None,
        when: str | None = None,
        now: When | None = None,
    ) -> list[Episode]:
        """The interactions that come nearest to what is meant, best first, whatever words they used."""
        first, last = self._between(since, until, when, now)
        hits = self._agent.recall(query, k, kinds=MemoryType.MESSAGE, since=first, until=last)
        return self._with_outcomes([one for hit in hits if (one := episode(hit.memory)) is not None])

    def _all(self, most: int, **where: Any) -> Iterator[Memories]:
        """All messages of a stretch of time, newest first, page by page: the first may be all that is needed."""
        offset, size = 0, most
        while page := self._agent.list(kinds=MemoryType.MESSAGE, limit=size, offset=offset, **where):
            yield page
            if len(page) < size:
                return
            offset, size = offset + size, _PAGE

    def _saying(
        self,
        said: str,
        most: int,
        tags: str | Iterable[str],
        since: datetime | None,
        until: datetime | None,
        session: str | None,
    ) -> Iterator[Memories] | None:
        """At least the messages with the rarest of these words, newest first; `None` if reading on is faster."""
        archive = self._archive
        if archive is None or not isinstance(archive.store, ReadsNeighbours):
            return None
        needed = frozenset(query_terms(said))
        words = {word: terms for word in said.split() if needed.issuperset(terms := query_terms(word)) and terms}
        rows, holders = archive.store.term_counts(archive.scope, sorted(needed))
        sizes = {word: sum(holders.get(term, 0) for term in terms) for word, terms in words.items()}
        rarest = min(sizes, key=lambda word: sizes[word], default=None)
        if rarest is None or sizes[rarest] ** 2 > most * rows:
            return None
        where = archive.where(MemoryType.MESSAGE, tags, since, until, None, session)
        everything = rows + _PAGE  # others may write meanwhile
        having = archive.store.search(archive.scope, Query(words=archive.clean(rarest), where=where, limit=everything))
        among = frozenset(match.id for match in having)
        newest = archive.store.search(archive.scope, Query(where=where, among=among, limit=everything)) if among else []
        return self._fetched([match.id for match in newest])

    def _fetched(self, ids: Sequence[str]) -> Iterator[Memories]:
        rest = iter(ids)
        while self._archive is not None and (some := list(islice(rest, _PAGE))):
            found = self._archive.store.get(self._archive.scope, some)
            yield [memory for memory in found if memory is not None]

    def _with_outcomes(self, episodes: Sequence[Episode]) -> list[Episode]:
        """The same interactions, each with the outcome that was told last."""
        told = self._told([one.id for one in episodes])
        return [one.model_copy(update={"outcome": told[one.id][-1]}) if one.id in told else one for one in episodes]

    def _told(self, ids: Sequence[str]) -> dict[str, list[float]]:
        """The outcomes that were told later, in order."""
        if self._archive is None or not ids:
            return {}
        found = dict[str, list[float]]()
        for event in self._archive.store.events_of(self._archive.scope, ids):
            if event.kind == TOLD and (went := _outcome(event.body.get("quality"))) is not None:
                found.setdefault(event.subject, []).append(went)
        return found

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
