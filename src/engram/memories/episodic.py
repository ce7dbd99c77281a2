"""Episodic memory: interactions with time, user and outcome, each stored as a memory of kind message."""

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
from engram.model.episode import Episode
from engram.model.memory import QUALITIES
from engram.ports import Event, Filter, KeepsEvents, Query, ReadsNeighbours, Scope, Store, arguments
from engram.ports.arguments import When
from engram.ports.completed import require
from engram.text.terms import index_terms, query_terms
from engram.text.time_phrases import Interval, intervals, overall

USER = "user"
INPUT_ROLES = frozenset({USER, "human"})
"""Roles whose single messages are input; those of all other roles are output."""
OUTCOME = "outcome"
"""Metadata key of the outcome's quality."""
OUTCOME_EVENT = "episode-outcome"
"""Kind of the events with outcomes reported later; they are deleted with the memory."""
MAX_RESULTS = 10_000
_PAGE = 500

Memories = list[Memory]


class EpisodicAgent(Protocol):
    """The methods of an agent that episodic memory needs."""

    def remember(self, text: Draft, /) -> Receipt:
        """Store a memory; the receipt is returned after the commit."""
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
        """Return the memories that answer a query, best first."""
        ...

    def get(self, id: str) -> Memory | None:
        """Return the memory with this id, or `None`."""
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
        """Return the memories of this agent, newest first."""
        ...


@dataclass(frozen=True, slots=True)
class EpisodeStore:
    """Direct access to an agent's store, for word search and for outcomes reported later."""

    store: Store
    scope: Scope
    where: Callable[..., Filter]
    """Makes a filter of kinds, tags, since, until, as_of and session."""
    clean: Callable[[str], Clean]


def to_episode(memory: Memory) -> Episode | None:
    """Convert a memory to an interaction; `None` if it is of another kind.

    The context is the input and the text the output; a single message is either, depending on its role.
    """
    if memory.kind is not MemoryType.MESSAGE:
        return None
    asks = not memory.context and (memory.role or USER).casefold() in INPUT_ROLES
    went = _valid_quality(memory.metadata.get(OUTCOME))
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


def time_span(when: str, now: datetime) -> tuple[datetime | None, datetime | None]:
    """Parse a time in plain words, relative to `now` and its time zone. Raises `InvalidInput`."""
    if not isinstance(when, str):
        raise InvalidInput(f"a time in plain words is a text, not {when!r:.40}")
    meant = overall(intervals(when, now) or _bare_time(when.strip(), now))
    if meant is None:
        raise InvalidInput(f"no time was found in {when[:80]!a}; write it like `last week` or `yesterday afternoon`")
    return meant


def _bare_time(words: str, now: datetime) -> list[Interval]:
    """Parse words that are times only without other text, such as "March" and "the last hour"."""
    for lead in ("in ", "in the ", "at "):
        found = intervals(lead + words, now)
        if [each.span[1] for each in found] == [len(lead + words)] and found[0].span[0] <= len(lead):
            return found
    return []


class EpisodicMemory:
    """The interactions of an agent. `archive` makes word search faster, and lets outcomes be reported later."""

    def __init__(
        self, agent: EpisodicAgent, sources: Sources | None = None, archive: EpisodeStore | None = None
    ) -> None:
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
        """Store one interaction verbatim; input or output may be missing.

        `outcome` is success, partial, failure or a number in [0, 1]; it may be reported later by `outcome(id, …)`.
        `fields` are those of `Draft`: key, importance, …
        """
        if taken := {"kind", "content", "text", "context", "role", "speaker"} & fields.keys():
            raise InvalidInput(f"an episode has its own {', '.join(sorted(taken))}; leave that out")
        told = dict(metadata or {})
        if outcome is not None:
            if OUTCOME in told:
                raise InvalidInput("the outcome is given twice, as an argument and in the metadata; give it once")
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
        """Report the outcome of an interaction by its id; returns false if the same is recorded already.

        `correct` replaces a different outcome; the earlier one stays in the event log. Raises `NotFound` and
        `Conflict`.
        """
        result, archive = quality(outcome), self._archive
        if archive is None:
            raise Unsupported("reporting an outcome later needs a store; use the memory of an agent, `agent.episodic`")
        require(archive.store, KeepsEvents, "reporting an outcome later")
        while True:
            memory = self._agent.get(id)
            known = None if memory is None else to_episode(memory)
            if known is None:
                raise NotFound(f"there is no interaction {id!a}; `episodic.query` lists interactions")
            told = self._reported_outcomes([id]).get(id, [])
            before = told[-1] if told else known.outcome
            if before == result:
                return False
            if before is not None and not correct:
                raise Conflict(f"interaction {id} already has another outcome; `correct` replaces it")
            name = f"{OUTCOME_EVENT}:{id}:{len(told) + 1}"
            event = Event(name, OUTCOME_EVENT, self._sources.now(), id, OUTCOME_EVENT, {"quality": result})
            if archive.store.append(archive.scope, [event])[0]:  # otherwise another process has just reported one
                return True

    def get(self, id: str) -> Episode | None:
        """Return the interaction with this id, or `None`."""
        memory = self._agent.get(id)
        known = None if memory is None else to_episode(memory)
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
        """Return the matching interactions, newest first, up to `limit`.

        `about` has words that must all occur, in any form; `asked`, words that must occur in the input. `since` is
        inclusive, `until` exclusive; `when` is a time in plain words, relative to `now`. All `tags` must be present.
        """
        most = arguments.count("limit", limit, MAX_RESULTS)
        first, last = self._time_range(since, until, when, now)
        fits = _make_filter(about, asked, user, outcome)
        said = " ".join(words for words in (about, asked) if words is not None)
        pages = self._messages_with_rarest_word(said, most, tags, first, last, session) if said else None
        if pages is None:
            pages = self._pages(most, tags=tags, since=first, until=last, session=session)
        found = dict[str, Episode]()
        for page in pages:
            ones = [one for memory in page if (one := to_episode(memory)) is not None]
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
        """Return the interactions nearest in meaning, best first."""
        first, last = self._time_range(since, until, when, now)
        hits = self._agent.recall(query, k, kinds=MemoryType.MESSAGE, since=first, until=last)
        return self._with_outcomes([one for hit in hits if (one := to_episode(hit.memory)) is not None])

    def _pages(self, most: int, **where: Any) -> Iterator[Memories]:
        """Yield all messages of a time range, newest first, in pages; the first may suffice."""
        offset, size = 0, most
        while page := self._agent.list(kinds=MemoryType.MESSAGE, limit=size, offset=offset, **where):
            yield page
            if len(page) < size:
                return
            offset, size = offset + size, _PAGE

    def _messages_with_rarest_word(
        self,
        said: str,
        most: int,
        tags: str | Iterable[str],
        since: datetime | None,
        until: datetime | None,
        session: str | None,
    ) -> Iterator[Memories] | None:
        """Yield the messages with the rarest of these words, newest first; `None` if a full scan is faster."""
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
        return self._fetch([match.id for match in newest])

    def _fetch(self, ids: Sequence[str]) -> Iterator[Memories]:
        rest = iter(ids)
        while self._archive is not None and (some := list(islice(rest, _PAGE))):
            found = self._archive.store.get(self._archive.scope, some)
            yield [memory for memory in found if memory is not None]

    def _with_outcomes(self, episodes: Sequence[Episode]) -> list[Episode]:
        """Return the interactions with the outcomes reported last."""
        told = self._reported_outcomes([one.id for one in episodes])
        return [one.model_copy(update={"outcome": told[one.id][-1]}) if one.id in told else one for one in episodes]

    def _reported_outcomes(self, ids: Sequence[str]) -> dict[str, list[float]]:
        """Return the outcomes reported later, by id, in order."""
        if self._archive is None or not ids:
            return {}
        found = dict[str, list[float]]()
        for event in self._archive.store.events_of(self._archive.scope, ids):
            if event.kind == OUTCOME_EVENT and (went := _valid_quality(event.body.get("quality"))) is not None:
                found.setdefault(event.subject, []).append(went)
        return found

    def _time_range(
        self, since: When | None, until: When | None, when: str | None, now: When | None
    ) -> tuple[datetime | None, datetime | None]:
        """Intersect the range of `since` and `until` with that of `when`."""
        first, last = arguments.moment("since", since), arguments.moment("until", until)
        if when is None:
            return first, last
        arguments.moment("now", now)
        local = datetime.fromisoformat(now) if isinstance(now, str) else now or self._sources.now()
        start, end = time_span(when, local if local.tzinfo is not None else aware(local))
        starts, ends = [one for one in (first, start) if one], [one for one in (last, end) if one]
        return max(starts, default=None), min(ends, default=None)


def _valid_quality(told: JsonValue) -> float | None:
    known = isinstance(told, int | float) and not isinstance(told, bool) and 0 <= told <= 1
    return float(told) if known and isinstance(told, int | float) else None


def _make_filter(
    about: str | None, asked: str | None, user: str | None, outcome: str | None
) -> Callable[[Episode], bool]:
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
        raise InvalidInput(f"{name} has no words to search for; give some words of the interaction")
    return terms
