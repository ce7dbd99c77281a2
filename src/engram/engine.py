"""Engram in two sentences.

record:   draft → redact → embed → store → update patterns                 (one transaction)
act:      context → recall → rank → suggest / check → outcome → credit     (closes the loop)
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from types import TracebackType
from typing import Any, Literal, overload

from engram.errors import InvalidInput, Unsupported
from engram.ids import Sources, aware
from engram.learn import decisions
from engram.memory.drafting import prepare, rejected
from engram.model import (
    Clean,
    Draft,
    ForgetReceipt,
    Hit,
    Memory,
    MemoryIndex,
    MemoryType,
    Receipt,
    Suggestion,
    joined,
    quality,
)
from engram.ports import (
    LONG_TERM,
    Annotates,
    Changes,
    CountsAccess,
    Embedder,
    Entry,
    Filter,
    ListsAgents,
    MemoryStore,
    MirrorsVectors,
    Placed,
    Query,
    Redactor,
    Scope,
    unstorable,
)
from engram.retrieve.search import Wanted, recall
from engram.words import normal_form

MAX_K = 1000
MAX_EPISODES = 10_000

Kinds = str | Iterable[str]
When = datetime | str
Memories = list[Memory]


class Engram:
    """A memory that many agents share, each in its own scope."""

    def __init__(
        self,
        store: MemoryStore,
        *,
        embedder: Callable[[], Embedder],
        redactor: Redactor,
        sources: Sources,
        say: Callable[[str], None],
    ) -> None:
        self.store = store
        self.redactor = redactor
        self.sources = sources
        self._say = say
        self._choose_embedder = embedder
        self._embedder: Embedder | None = None
        self._choosing = threading.Lock()

    def agent(self, name: str) -> AgentHandle:
        """Everything that one agent can do, in its own scope; an agent exists from its first memory on."""
        return AgentHandle(self, Scope(name))

    def agents(self) -> list[str]:
        """The names of all agents that have stored something."""
        if not isinstance(self.store, ListsAgents):
            raise Unsupported("this store does not list its agents; name one")
        return self.store.agents()

    @property
    def embedder(self) -> Embedder:
        """The embedder in use, chosen at first need. Raises `ModelError` if there is none to be had."""
        with self._choosing:
            if self._embedder is None:
                chosen = self._choose_embedder()
                if isinstance(self.store, MirrorsVectors) and self.store.embedder() is None:
                    self.store.set_embedder(chosen.identity)
                self._embedder = chosen
            return self._embedder

    def embed(self, entries: Sequence[Entry]) -> tuple[list[Entry], str | None]:
        """The entries with their vectors, or as they were and the reason why there are none."""
        try:
            matrix = self.embedder.embed([joined(e.memory.context, e.memory.text) for e in entries])
            name = self.embedder.identity
        except Exception as error:  # noqa: BLE001 - a memory is never lost to a model, whatever the model does
            reason = f"stored without a vector, `engram upkeep reembed` will add it: {error}"
            self._say(reason)
            return list(entries), reason
        pairs = zip(entries, matrix, strict=True)
        return [replace(e, vectors=(Placed(LONG_TERM, name, vector),)) for e, vector in pairs], None

    def near(self, query: Clean) -> Placed | None:
        """The place of a query among the vectors, or `None` when it cannot be embedded."""
        try:
            return Placed(LONG_TERM, self.embedder.identity, self.embedder.embed([query], "query")[0])
        except Exception as error:  # noqa: BLE001 - without a vector the words are still searched
            self._say(f"searching by words only: {error}")
            return None

    def close(self) -> None:
        """Write what is pending and let go of the database; calling it twice is harmless."""
        self.store.close()

    def __enter__(self) -> Engram:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class AgentHandle:
    """One agent's memory. Nothing outside its scope can be seen or changed through it."""

    def __init__(self, brain: Engram, scope: Scope) -> None:
        self._brain = brain
        self._scope = scope
        self._store = brain.store

    @property
    def name(self) -> str:
        """The agent's name."""
        return self._scope.agent

    # record: draft → redact → embed → store ------------------------------------------------------------

    @overload
    def remember(self, what: str | Draft, **fields: Any) -> Receipt: ...
    @overload
    def remember(self, what: Sequence[str | Draft], **fields: Any) -> list[Receipt]: ...
    def remember(self, what: str | Draft | Sequence[str | Draft], **fields: Any) -> Receipt | list[Receipt]:
        """Remember one thing, or several in one transaction; the receipts come after the commit, in order.

        `fields` are those of `Draft`: kind, tags, at, session, role, speaker, importance, key, metadata, context, …
        A text that cannot be kept gets a receipt that says so; a field that does not exist raises `InvalidInput`.
        """
        if isinstance(what, str | Draft):
            return self._record([what], fields)[0]
        return self._record(what, fields)

    def record_decision(
        self,
        /,
        *,
        context: str,
        action: str,
        outcome: str | float,
        alternatives: Sequence[str] = (),
        **fields: Any,
    ) -> Receipt:
        """Remember what was done in a context and how it went: success, failure, partial, or a number in [0, 1]."""
        result = quality(outcome)
        if not context.strip() or not action.strip():
            return rejected(InvalidInput("a decision needs a context and an action; neither may be empty"))
        content = {
            "decision_context": context,
            "chosen_action": action,
            "outcome_quality": result,
            "alternative_actions": list(alternatives),
        }
        fields = {"kind": MemoryType.DECISION, "context": context, "content": content} | fields
        return self._record([f"{action} → {outcome}"], fields)[0]

    def _record(self, what: Sequence[str | Draft], fields: Mapping[str, Any]) -> list[Receipt]:
        prepared = [self._prepare(item, fields) for item in what]
        drafted = [entry for entry in prepared if not isinstance(entry, Receipt)]
        if not drafted:
            return [receipt for receipt in prepared if isinstance(receipt, Receipt)]
        entries, lack = self._brain.embed([entry for entry, _ in drafted])
        receipts = iter(self._store.add(self._scope, entries))
        return [p if isinstance(p, Receipt) else _completed(next(receipts), p[1], lack) for p in prepared]

    def _prepare(self, item: str | Draft, fields: Mapping[str, Any]) -> tuple[Entry, tuple[str, ...]] | Receipt:
        """The entry for one draft and what was redacted, or the receipt of its rejection."""
        if isinstance(item, str) and (reason := unstorable(item)):
            return rejected(InvalidInput(f"the text cannot be kept as it is: {reason}"))
        draft = _draft(item, fields)
        try:
            return prepare(draft, self._scope, self._brain.redactor, self._brain.sources)
        except InvalidInput as error:
            return rejected(error)

    # act: context → recall → rank → suggest ------------------------------------------------------------

    def recall(
        self,
        query: str,
        k: int = 5,
        *,
        kinds: Kinds = (),
        tags: str | Iterable[str] = (),
        since: When | None = None,
        until: When | None = None,
        as_of: When | None = None,
        session: str | None = None,
        min_score: float = 0.0,
        shared: bool = True,
        group_by: Literal["session"] | None = None,
        budget_tokens: int | None = None,
    ) -> list[Hit]:
        """The memories that answer a query, best first, with the parts of their scores.

        Only what is valid now, or was at `as_of`. `tags` must all be there; `since` is inclusive, `until` exclusive.
        `group_by="session"` keeps the best hit of each session; `budget_tokens` limits the length of all texts.
        """
        now = self._brain.sources.now()
        clean = self._clean("query", query)
        where = _filter(self._clean, kinds, tags, since, until, as_of or now, session)
        if group_by not in {None, "session"}:
            raise InvalidInput(f'group_by is "session" or nothing, not {group_by!r}')
        wanted = Wanted(_count("k", k), where, min_score, group_by, budget_tokens)
        hits = recall(self._store, self._scope, clean, self._brain.near(clean), wanted)
        if hits and isinstance(self._store, CountsAccess):
            self._store.touch(self._scope, [hit.id for hit in hits], now)
        return hits

    def suggest(self, *, context: str, actions: Sequence[str] | None = None, explore: bool = False) -> Suggestion:
        """What to do in a context, from the outcomes of the same context: a recommendation or an abstention."""
        return suggest([self], context, actions, explore=explore)

    def decisions(self, context: str) -> Memories:
        """The decisions taken in a context, newest first."""
        key = normal_form(self._clean("context", context))
        where = Filter(kinds=frozenset({MemoryType.DECISION}), context_key=key)
        return self._fetch(Query(where=where, limit=MAX_EPISODES))

    # keep ----------------------------------------------------------------------------------------------

    def get(self, id: str) -> Memory | None:
        """The memory with this id, or `None` if this agent has none."""
        return self._store.get(self._scope, [id])[0]

    def indexes(self, id: str) -> tuple[MemoryIndex, ...]:
        """Where the memory with this id has vectors: in which namespaces, by which embedders."""
        return tuple(self._store.indexes(self._scope, id)) if isinstance(self._store, MirrorsVectors) else ()

    def list(
        self,
        *,
        limit: int = 50,
        offset: int = 0,
        kinds: Kinds = (),
        tags: str | Iterable[str] = (),
        since: When | None = None,
        until: When | None = None,
        as_of: When | None = None,
        session: str | None = None,
    ) -> Memories:
        """The memories of this agent, newest first."""
        where = _filter(self._clean, kinds, tags, since, until, as_of, session)
        return self._fetch(Query(where=where, limit=_count("limit", limit, MAX_EPISODES), offset=max(0, offset)))

    def annotate(
        self,
        id: str,
        *,
        tags: Sequence[str] | None = None,
        importance: float | None = None,
        confidence: float | None = None,
        valid_until: When | None = None,
        expected_version: int | None = None,
    ) -> Memory:
        """Change what surrounds a memory; what it says never changes.

        Raises `NotFound`, or `Conflict` when `expected_version` is given and somebody changed it since.
        """
        if not isinstance(self._store, Annotates):
            raise Unsupported("this store cannot change memories; forget it and remember it anew")
        for name, value in {"importance": importance, "confidence": confidence}.items():
            if value is not None and not 0 <= value <= 1:
                raise InvalidInput(f"{name} must be a number from 0 to 1, not {value}")
        labels = None if tags is None else tuple(dict.fromkeys(self._clean("tag", tag.strip()) for tag in tags))
        changes = Changes(labels, importance, confidence, None, _moment("valid_until", valid_until))
        return self._store.annotate(self._scope, id, changes, expected_version)

    def forget(self, id: str) -> ForgetReceipt:
        """Remove a memory and everything that belongs to it; the receipt lists what went."""
        return self._store.forget(self._scope, [id])[0]

    def _fetch(self, query: Query) -> Memories:
        ids = [match.id for match in self._store.search(self._scope, query)]
        return [memory for memory in self._store.get(self._scope, ids) if memory is not None]

    def _clean(self, name: str, text: str) -> Clean:
        """Redact what a caller asks about: queries are kept in logs."""
        if not isinstance(text, str) or not text.strip():
            raise InvalidInput(f"the {name} is empty; say what is meant")
        if reason := unstorable(text):
            raise InvalidInput(f"the {name} cannot be used: {reason}")
        return self._brain.redactor.clean([text])[0].text


def suggest(
    agents: Sequence[AgentHandle], context: str, actions: Sequence[str] | None = None, *, explore: bool = False
) -> Suggestion:
    """What to do in a context, from what all of these agents did in it."""
    if isinstance(actions, str):
        raise InvalidInput("actions must be a list of texts, not one text")
    episodes = [memory for agent in agents for memory in agent.decisions(context)]
    chance = agents[0]._brain.sources.random if explore and agents else None
    return decisions.weigh(context, episodes, actions, chance)


def _draft(item: str | Draft, fields: Mapping[str, Any]) -> Draft:
    if isinstance(item, Draft):
        return Draft(**(item.model_dump(exclude_unset=True) | dict(fields))) if fields else item
    if not isinstance(item, str):
        raise InvalidInput(f"only text and drafts can be remembered, not {type(item).__name__}")
    return Draft(item, **fields)


def _completed(receipt: Receipt, redacted: tuple[str, ...], lack: str | None) -> Receipt:
    """The store's receipt with what the engine knows besides."""
    reason = receipt.reason or (lack if receipt.status == "stored" else None)
    return receipt.model_copy(update={"redacted": redacted, "reason": reason})


def _filter(
    clean: Callable[[str, str], Clean],
    kinds: Kinds,
    tags: str | Iterable[str],
    since: When | None,
    until: When | None,
    as_of: When | None,
    session: str | None,
) -> Filter:
    return Filter(
        kinds=frozenset(_kind(kind) for kind in _several(kinds)),
        tags=frozenset(clean("tag", tag) for tag in _several(tags)),
        since=_moment("since", since),
        until=_moment("until", until),
        as_of=_moment("as_of", as_of),
        session=None if session is None else clean("session", session),
    )


def _several(values: str | Iterable[str]) -> list[str]:
    return [values] if isinstance(values, str) else list(values)


def _kind(name: str) -> MemoryType:
    try:
        return MemoryType(name)
    except ValueError:
        raise InvalidInput(f"there is no kind {name!r}; there are {', '.join(MemoryType)}") from None


def _moment(name: str, when: When | None) -> datetime | None:
    if when is None:
        return None
    try:
        return aware(datetime.fromisoformat(when) if isinstance(when, str) else when)
    except (ValueError, AttributeError, OverflowError):
        raise InvalidInput(f"{name} must be a time such as 2026-01-31 or 2026-01-31T14:00, not {when!r}") from None


def _count(name: str, number: int, most: int = MAX_K) -> int:
    if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= most:
        raise InvalidInput(f"{name} must be a whole number from 1 to {most}, not {number!r}")
    return number
