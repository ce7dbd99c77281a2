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

from engram.errors import InvalidInput, ModelError, NotFound, Unsupported
from engram.ids import Sources, aware
from engram.learn import credits, decisions
from engram.learn.tuning import Tuning
from engram.memory.drafting import handle, prepare, refuse_list, rejected
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
    pieces,
    quality,
)
from engram.passages import passages
from engram.ports import (
    LONG_TERM,
    Annotates,
    Changes,
    CountsAccess,
    Credit,
    CreditsRecalls,
    Embedder,
    Entry,
    Filter,
    ListsAgents,
    Matrix,
    MemoryStore,
    MirrorsVectors,
    Placed,
    Purpose,
    Query,
    Redactor,
    Scope,
    Surveys,
    is_unit,
    unstorable,
)
from engram.retrieve.rank import PARTS, Weights
from engram.retrieve.search import Wanted, recall
from engram.words import digest, normal_form

MAX_K = 1000
MAX_EPISODES = 10_000
MAX_OFFSET = MAX_BUDGET = 1_000_000_000

Kinds = str | Iterable[str]
When = datetime | str
Memories = list[Memory]
Item = str | Draft | Mapping[str, Any]


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
        self.tuning = Tuning(store)
        self._say = say
        self._choose_embedder = embedder
        self._embedder: Embedder | None = None
        self._choosing = threading.Lock()

    def agent(self, name: str) -> AgentHandle:
        """Everything that one agent can do, in its own scope; an agent exists from its first memory on."""
        scope = Scope(name)
        if self.redactor.clean([name])[0].found:
            raise InvalidInput("this agent's name holds a secret; give it another one")
        return AgentHandle(self, scope)

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
            vectors = self.places([entry.memory for entry in entries])
        except Exception as error:  # noqa: BLE001 - a memory is never lost to a model, whatever the model does
            reason = f"stored without a vector, `engram upkeep reembed` will add it: {error}"
            self._say(reason)
            return list(entries), reason
        return [replace(entry, vectors=own) for entry, own in zip(entries, vectors, strict=True)], None

    def places(self, memories: Sequence[Memory]) -> list[tuple[Placed, ...]]:
        """The vectors of each memory, one for each passage of what it says. Raises `ModelError`."""
        texts = [pieces(joined(memory.context, memory.text), passages) for memory in memories]
        rows = iter(self._vectors([passage for several in texts for passage in several], "document"))
        name = self.embedder.identity
        return [tuple(Placed(LONG_TERM, name, next(rows), n) for n in range(len(several))) for several in texts]

    def near(self, query: Clean) -> Placed | None:
        """The place of a query among the vectors, or `None` when it cannot be embedded."""
        try:
            return Placed(LONG_TERM, self.embedder.identity, self._vectors([query], "query")[0])
        except Exception as error:  # noqa: BLE001 - without a vector the words are still searched
            self._say(f"searching by words only: {error}")
            return None

    def _vectors(self, texts: Sequence[Clean], purpose: Purpose) -> Matrix:
        """What the embedder gives, if it is what an embedder must give."""
        matrix = self.embedder.embed(texts, purpose)
        if matrix.shape != (len(texts), self.embedder.dim) or not is_unit(matrix):
            raise ModelError(f"{self.embedder.identity} gave vectors that are none; run `engram model verify`")
        return matrix

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
    def remember(self, text: str | Draft | Mapping[str, Any], **fields: Any) -> Receipt: ...
    @overload
    def remember(self, text: Sequence[str | Draft | Mapping[str, Any]], **fields: Any) -> list[Receipt]: ...
    def remember(self, text: Item | Sequence[Item], **fields: Any) -> Receipt | list[Receipt]:
        """Remember one thing, or several in one transaction; the receipts come after the commit, in order.

        `fields` are those of `Draft`: kind, tags, at, session, role, speaker, importance, key, metadata, context, …
        A text that cannot be kept gets a receipt that says so; a field that does not exist raises `InvalidInput`.
        """
        if isinstance(text, str | Draft | Mapping):
            return self._record([text], fields)[0]
        if not isinstance(text, Sequence):
            raise InvalidInput(f"text, drafts or a list of them can be remembered, not {type(text).__name__}")
        return self._record(text, fields)

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
        for name, value in {"context": context, "action": action}.items():
            if not isinstance(value, str):
                raise InvalidInput(f"{name} must be a text, not {type(value).__name__}")
        if taken := {"kind", "content", "text"} & fields.keys():
            raise InvalidInput(f"a decision has its own {', '.join(sorted(taken))}; leave that out")
        if not context.strip() or not action.strip():
            return rejected(InvalidInput("a decision needs a context and an action; neither may be empty"))
        content = {
            "decision_context": context,
            "chosen_action": action,
            "outcome_quality": result,
            "alternative_actions": _several("alternatives", alternatives),
        }
        fields = {"kind": MemoryType.DECISION, "context": context, "content": content} | fields
        return self._record([f"{action} → {outcome}"], fields)[0]

    def _record(self, what: Sequence[Item], fields: Mapping[str, Any]) -> list[Receipt]:
        prepared = [self._prepare(item, fields) for item in what]
        drafted = [entry for entry in prepared if not isinstance(entry, Receipt)]
        if not drafted:
            return [receipt for receipt in prepared if isinstance(receipt, Receipt)]
        entries, lack = self._brain.embed([entry for entry, _ in drafted])
        receipts = iter(self._store.add(self._scope, entries))
        return [p if isinstance(p, Receipt) else _completed(next(receipts), p[1], lack) for p in prepared]

    def _prepare(self, item: Item, fields: Mapping[str, Any]) -> tuple[Entry, tuple[str, ...]] | Receipt:
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
        now: When | None = None,
        session: str | None = None,
        min_score: float = 0.0,
        shared: bool = True,
        group_by: Literal["session"] | None = None,
        budget_tokens: int | None = None,
    ) -> list[Hit]:
        """The memories that answer a query, best first, with the parts of their scores.

        Only what is valid now, or was at `as_of`. `tags` must all be there; `since` is inclusive, `until` exclusive.
        `now` is when the query was asked, if that was not just now: what "last week" in it is meant from.
        `group_by="session"` keeps the best hit of each session; `budget_tokens` limits the length of all texts.
        """
        at = self._brain.sources.now()
        clean = self._clean("query", query)
        where = self._filter(kinds, tags, since, until, as_of, session)
        where = where if as_of is not None else replace(where, current=at)
        if budget_tokens is not None:
            _count("budget_tokens", budget_tokens, MAX_BUDGET)
        if group_by not in {None, "session"}:
            raise InvalidInput(f'group_by is "session" or nothing, not {group_by!r}')
        meant = _moment("now", now) or at
        weights = Weights(tuned=self._brain.tuning.multipliers(self._scope, at))
        wanted = Wanted(meant, _count("k", k), where, _share("min_score", min_score), group_by, budget_tokens, weights)
        hits = recall(self._store, self._scope, clean, self._brain.near, wanted)
        if hits and isinstance(self._store, CountsAccess):
            self._store.touch(self._scope, [hit.id for hit in hits], at)
        return hits

    def credit(self, hits: Sequence[Hit], helped: str | Hit | Iterable[str | Hit], *, key: str | None = None) -> bool:
        """Tell what became of a recall: which of its hits helped, by id or as hits; an empty list, if none did.

        Hits above the last that helped count as looked at in vain, and all do if none helped; about those below it
        nothing is known. What helps more often ranks higher, and `engram upkeep tune` learns from it what matters to
        this agent. With a `key` it counts once, however often it is told: `False` if it was known.
        """
        if not isinstance(self._store, CreditsRecalls):
            raise Unsupported("this store does not keep what became of recalls; SQLite and PostgreSQL do")
        shown = credits.shown(hits, self.name)
        chosen = credits.chosen(helped, shown)
        at = self._brain.sources.now()
        id = self._brain.sources.new_id() if key is None else digest(self._handle("key", key))
        names = PARTS if isinstance(self._store, Surveys) else ()
        parts = credits.parts(shown, names, self._brain.tuning.multipliers(self._scope, at))
        event = Credit(id, at, tuple(hit.id for hit in shown), chosen, parts)
        return bool(shown) and self._store.credit(self._scope, event)

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
        return self._store.get(self._scope, [id])[0] if _is_id(id) else None

    def indexes(self, id: str) -> tuple[MemoryIndex, ...]:
        """Where the memory with this id has vectors: in which namespaces, by which embedders."""
        if not isinstance(self._store, MirrorsVectors) or not _is_id(id):
            return ()
        return tuple(self._store.indexes(self._scope, id))

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
        where = self._filter(kinds, tags, since, until, as_of, session)
        most = _count("limit", limit, MAX_EPISODES)
        return self._fetch(Query(where=where, limit=most, offset=_count("offset", offset, MAX_OFFSET, least=0)))

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
            if value is not None:
                _share(name, value)
        if not _is_id(id):
            raise NotFound("there is no such memory; `engram memory list` shows what there is")
        labels = None
        if tags is not None:
            refuse_list("tags", _several("tags", tags))
            labels = tuple(dict.fromkeys(self._clean("tag", tag.strip()) for tag in _several("tags", tags)))
        changes = Changes(labels, importance, confidence, None, _moment("valid_until", valid_until))
        return self._store.annotate(self._scope, id, changes, expected_version)

    def forget(self, id: str) -> ForgetReceipt:
        """Remove a memory and everything that belongs to it; the receipt lists what went."""
        if not _is_id(id):
            return ForgetReceipt(id=ascii(id), forgotten=False)
        return self._store.forget(self._scope, [id])[0]

    def _fetch(self, query: Query) -> Memories:
        ids = [match.id for match in self._store.search(self._scope, query)]
        return [memory for memory in self._store.get(self._scope, ids) if memory is not None]

    def _filter(
        self,
        kinds: Kinds,
        tags: str | Iterable[str],
        since: When | None,
        until: When | None,
        as_of: When | None,
        session: str | None,
    ) -> Filter:
        return Filter(
            kinds=frozenset(_kind(kind) for kind in _several("kinds", kinds)),
            tags=frozenset(self._clean("tag", tag.strip()) for tag in _several("tags", tags)),
            since=_moment("since", since),
            until=_moment("until", until),
            as_of=_moment("as_of", as_of),
            session=None if session is None else self._handle("session", session),
        )

    def _handle(self, name: str, text: str) -> Clean:
        self._clean(name, text)
        return handle(self._brain.redactor, text).text

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
    if not agents:
        return decisions.weigh(context, [])
    clean, chance = agents[0]._clean, agents[0]._brain.sources.random if explore else None
    episodes = [memory for agent in agents for memory in agent.decisions(context)]
    candidates = None if actions is None else [clean("action", action) for action in _several("actions", actions)]
    return decisions.weigh(clean("context", context), episodes, candidates, chance)


def _draft(item: Item, fields: Mapping[str, Any]) -> Draft:
    if isinstance(item, Mapping):
        if "text" not in item:
            raise InvalidInput("a draft needs a text")
        item = Draft(**item)
    if isinstance(item, Draft):
        if not fields:
            return item
        tags = {"tags": (*item.tags, *_several("tags", fields["tags"]))} if "tags" in fields else {}
        return Draft(**(item.model_dump(exclude_unset=True) | dict(fields) | tags))
    if not isinstance(item, str):
        raise InvalidInput(f"only text and drafts can be remembered, not {type(item).__name__}")
    return Draft(item, **fields)


def _completed(receipt: Receipt, redacted: tuple[str, ...], lack: str | None) -> Receipt:
    """The store's receipt with what the engine knows besides."""
    reason = receipt.reason or (lack if receipt.status == "stored" else None)
    return receipt.model_copy(update={"redacted": redacted, "reason": reason})


def _several(name: str, values: str | Iterable[str]) -> list[str]:
    several = [values] if isinstance(values, str) else list(values) if isinstance(values, Iterable) else [values]
    for value in several:
        if not isinstance(value, str):
            raise InvalidInput(f"{name} must be texts, not {type(value).__name__}")
    return several


def _is_id(id: object) -> bool:
    return isinstance(id, str) and unstorable(id) is None


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


def _count(name: str, number: int, most: int = MAX_K, least: int = 1) -> int:
    if isinstance(number, bool) or not isinstance(number, int) or not least <= number <= most:
        raise InvalidInput(f"{name} must be a whole number from {least} to {most}, not {number!r}")
    return number


def _share(name: str, number: float) -> float:
    if isinstance(number, bool) or not isinstance(number, int | float) or not 0 <= number <= 1:
        raise InvalidInput(f"{name} must be a number from 0 to 1, not {number!r}")
    return number
