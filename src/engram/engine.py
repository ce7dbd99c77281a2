"""Engram in two sentences.

record:   draft → redact → embed → store → update patterns                 (one transaction)
act:      context → recall → rank → suggest / check → outcome → credit     (closes the loop)
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime
from functools import cache
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Unpack, overload

from pydantic import JsonValue

from engram import arguments, erasure, holds, telling
from engram.arguments import When
from engram.errors import Conflict, InvalidInput, ModelError, NotFound, Unsupported
from engram.grants import Grants
from engram.ids import EPOCH, Sources
from engram.knowledge.quarantine import Quarantine
from engram.learn import credits, decisions, happened
from engram.learn.echoes import Echoes
from engram.learn.experience import Experience
from engram.learn.happened import ANYWHERE, Circumstances
from engram.learn.learning import CONTEXTS, Learning, Told
from engram.learn.signatures import extract_error_signature
from engram.learn.tuning import Tuning
from engram.lifecycle.agents import Definitions, Overrides, overrides
from engram.lifecycle.cycles import Life
from engram.lifecycle.guard import Around, Function, Guarding, OnWarn, Options, guard
from engram.lifecycle.objects import Objects
from engram.lifecycle.running import WorkflowEngine
from engram.lifecycle.workspaces import Workspaces
from engram.memory.drafting import handle, prepare, readable, refuse_list, rejected, with_source
from engram.memory.episodic import Archive, EpisodicMemory
from engram.memory.facts import Books
from engram.memory.semantic import SemanticMemory
from engram.memory.working import SessionOptions, Sessions, WorkingMemory
from engram.model import (
    Clean,
    DecisionContent,
    Draft,
    FailurePattern,
    ForgetReceipt,
    Hit,
    Memory,
    MemoryIndex,
    MemoryType,
    Origin,
    Prediction,
    Recall,
    Receipt,
    RecordedOutcome,
    Suggestion,
    Verdict,
    joined,
    pieces,
    quality,
)
from engram.model.grant import EVERYONE, Right
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
    ExpiringStore,
    Filter,
    KeepsEvents,
    ListsAgents,
    Matrix,
    MemoryStore,
    MirrorsVectors,
    Placed,
    Purpose,
    Query,
    Redactor,
    RemembersShown,
    Scope,
    Shown,
    Surveys,
    is_unit,
    reserved,
    unstorable,
)
from engram.privacy.instructions import any_instruction
from engram.retrieve.quoting import quoted
from engram.retrieve.rank import PARTS, Weights
from engram.retrieve.search import Wanted, packed, recall
from engram.sharing import Lender, Sharing
from engram.telemetry import span, traced
from engram.words import digest, normal_form

MAX_EPISODES = 10_000
MAX_OFFSET = MAX_BUDGET = 1_000_000_000

if TYPE_CHECKING:
    from engram.memory.procedural import ProceduralMemory

Kinds = str | Iterable[str]
Memories = list[Memory]
Lessons = list[Learning]
Item = str | Draft | Mapping[str, Any]
LENDERS = "lenders"
"""Where a recall notes whose memories it showed."""
TRUSTED = 0.7
"""From this trust on, what a source knows to fail is blocked."""
TELLS_WHAT_TO_DO = (
    "it is not the agent's own word and reads like an instruction to it; `engram quarantine list` shows what waits"
)
ECHO = "this was recalled from here and is no news; it counts as no new evidence"


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
        objects: Objects | None = None,
        working: Callable[[], ExpiringStore] | None = None,
    ) -> None:
        self.store = store
        self.objects = objects
        self.books = Books(store)
        self.sessions = Sessions(working or _nowhere, redactor, sources)
        self.redactor = redactor
        self.sources = sources
        self.tuning = Tuning(store)
        self.experience = Experience(store)
        self.echoes = Echoes()
        self.sharing = Sharing(store, self.experience, sources, self.similar, lambda _, text: self.clean(text))
        self._say = say
        self._choose_embedder = embedder
        self._embedder: Embedder | None = None
        self._choosing = threading.Lock()

    def agent(self, name: str) -> AgentHandle:
        """Everything that one agent can do, in its own scope; an agent exists from its first memory on."""
        scope = Scope(name)
        if reserved(name):
            raise InvalidInput("an agent's name cannot begin with the character U+001F; give it another one")
        if name == EVERYONE or name.startswith("group:"):
            raise InvalidInput(f"an agent cannot be called {name!a}: in grants this means others; give another name")
        if self.redactor.clean([name])[0].secrets:
            raise InvalidInput("this agent's name holds a secret; give it another one")
        return AgentHandle(self, scope)

    def agents(self) -> list[str]:
        """The names of all agents that have stored something."""
        if not isinstance(self.store, ListsAgents):
            raise Unsupported("this store does not list its agents; name one")
        return [name for name in self.store.agents() if not reserved(name)]

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
        """The vectors of each memory: one for each passage of what it says, and one for the context of a decision.

        Raises `ModelError`.
        """
        texts = [pieces(joined(memory.context, memory.text), passages) for memory in memories]
        contexts = [_situation(memory) for memory in memories]
        all_of_them = [text for own, context in zip(texts, contexts, strict=True) for text in [*own, *context]]
        rows, name = iter(self._vectors(all_of_them, "document")), self.embedder.identity
        return [
            (
                *(Placed(LONG_TERM, name, next(rows), n) for n in range(len(own))),
                *(Placed(CONTEXTS, name, next(rows)) for _ in context),
            )
            for own, context in zip(texts, contexts, strict=True)
        ]

    def near(self, query: Clean, namespace: str = LONG_TERM, purpose: Purpose = "query") -> Placed | None:
        """The place of a query among the vectors, or `None` when it cannot be embedded."""
        try:
            return Placed(namespace, self.embedder.identity, self._vectors([query], purpose)[0])
        except Exception as error:  # noqa: BLE001 - without a vector the words are still searched
            self._say(f"searching by words only: {error}")
            return None

    def similar(self, context: Clean) -> Placed | None:
        """The place of a situation among those that decisions were taken in."""
        return self.near(context, CONTEXTS, "document")

    def _vectors(self, texts: Sequence[Clean], purpose: Purpose) -> Matrix:
        """What the embedder gives, if it is what an embedder must give."""
        with span("embeddings", "embed"):
            matrix = self.embedder.embed(texts, purpose)
        if matrix.shape != (len(texts), self.embedder.dim) or not is_unit(matrix):
            raise ModelError(f"{self.embedder.identity} gave vectors that are none; run `engram model verify`")
        return matrix

    @property
    def definitions(self) -> Definitions:
        """The agents that were defined, version by version."""
        return Definitions(self.store, self.redactor, self.sources)

    def clean(self, text: str) -> Clean:
        """A text without its secrets."""
        return self.redactor.clean([text])[0].text

    def close(self) -> None:
        """Write what is pending and let go of the database; calling it twice is harmless.

        Turns of sessions that would end with this process are handed over before.
        """
        with ExitStack() as stack:
            stack.callback(self.store.close)
            stack.callback(self.experience.flush)
            self.sessions.close()

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
        self.learning = Learning(brain.store, scope, brain.experience, brain.sources, brain.similar, self._clean)
        """What it has learned: patterns, checks, rates, and how far they can be believed."""

    @property
    def name(self) -> str:
        """The agent's name."""
        return self._scope.agent

    @property
    def _store_id(self) -> str:
        """What telemetry calls this memory: a fingerprint, which tells agents apart and names nobody."""
        return digest("agent", self._scope.agent)[:16]

    def working(self, session: str = "main", **options: Unpack[SessionOptions]) -> WorkingMemory:
        """What it holds in mind during a session, where the setting `working` says; the same one for all who ask.

        What has no room is handed over to its episodic memory, and what would end with this process at the end.
        """
        return self._brain.sessions.of(self, self._scope, session, options, self._usual)

    def _usual(self) -> SessionOptions:
        """How this agent holds its sessions in mind, as it is defined."""
        told, usual = self._overrides().working, SessionOptions()
        if told.ttl is not None:
            usual["ttl"] = told.ttl
        if told.capacity_tokens is not None:
            usual["capacity_tokens"] = told.capacity_tokens
        return usual

    def _overrides(self) -> Overrides:
        known = isinstance(self._store, KeepsEvents)
        return overrides(self._brain.definitions.current(self.name) if known else None)

    @property
    def grants(self) -> Grants:
        """What it shares, asks for and may use of others, and for how long."""
        brain = self._brain
        return Grants(brain.store, self._scope, brain.sharing, brain.sources, self._clean)

    @property
    def quarantine(self) -> Quarantine:
        """What was set apart for review, and is in no search, list or pattern."""
        return Quarantine(self._store, self._scope, self._brain.sources, self._brain.redactor)

    @property
    def episodic(self) -> EpisodicMemory:
        """Its interactions, by time, user, tag and outcome."""
        return EpisodicMemory(
            self, self._brain.sources, Archive(self._store, self._scope, self._filter, self._brain.clean)
        )

    @property
    def semantic(self) -> SemanticMemory:
        """Its facts, with the time they are valid, and the graph they make."""
        brain, functional = self._brain, self._overrides().semantic.functional
        return SemanticMemory(
            self, sources=brain.sources, clean=brain.clean, functional=functional, book=brain.books.of(self._scope)
        )

    @property
    def procedural(self) -> ProceduralMemory:
        """Its skills: workflows that can be found, filled in and followed."""
        from engram.memory.procedural import ProceduralMemory  # noqa: PLC0415 - its templates are slow to import

        return ProceduralMemory(self)

    @property
    def workspaces(self) -> Workspaces:
        """Its folders: snapshots of them by content, what changed in between, and the way back."""
        if self._brain.objects is None:
            raise Unsupported(
                "this database has no folder for files beside it; set `objects` (ENGRAM_OBJECTS), or give "
                "`engram.open(url, objects=FOLDER)`"
            )
        brain = self._brain
        return Workspaces(brain.store, self._scope, brain.redactor, brain.sources, self._brain.objects)

    def workflows(self, **options: Any) -> WorkflowEngine:
        """What runs its workflows and goes on with them after a stop; `options` are those of `WorkflowEngine`."""
        return WorkflowEngine(self, self._store, self._brain.redactor, self._brain.sources, **options)

    @property
    def life(self) -> Life:
        """Its cycles: what it proposed, what came of it, and where it goes on after a stop."""
        return Life(self, self._store, self._brain.redactor, self._brain.sources)

    # record: draft → redact → embed → store ------------------------------------------------------------

    @overload
    def remember(self, text: str | Draft | Mapping[str, Any], **fields: Any) -> Receipt: ...
    @overload
    def remember(self, text: Sequence[str | Draft | Mapping[str, Any]], **fields: Any) -> list[Receipt]: ...
    @traced("upsert_memory", ids=telling.stored)
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

    @traced("upsert_memory", ids=telling.stored)
    def record_decision(
        self,
        /,
        *,
        context: str,
        action: str,
        outcome: str | float | None = None,
        alternatives: Sequence[str] = (),
        environment: str = "",
        tool: str = "",
        task_type: str = "",
        error: str | BaseException = "",
        duration: float | None = None,
        cost: float | None = None,
        informed_by: str | Sequence[str] = (),
        from_others: bool = False,
        **fields: Any,
    ) -> Receipt:
        """Remember what was done in a context and how it went: success, failure, partial, or a number in [0, 1].

        Without an outcome, tell it later by `outcome(id, …)`. `informed_by` names the recalls, suggestions and verdicts
        that it was based on; `from_others` says that other agents had learned it. `fields` are those of `Draft`: tags,
        at, session, key, …
        """
        result = None if outcome is None else quality(outcome)
        for name, value in {"context": context, "action": action}.items():
            if not isinstance(value, str):
                raise InvalidInput(f"{name} must be a text, not {type(value).__name__}")
        if taken := {"kind", "content", "text"} & fields.keys():
            raise InvalidInput(f"a decision has its own {', '.join(sorted(taken))}; leave that out")
        if not context.strip() or not action.strip():
            return rejected(InvalidInput("a decision needs a context and an action; neither may be empty"))
        based_on = arguments.several("informed_by", informed_by)
        content = {
            "decision_context": context,
            "chosen_action": action,
            "outcome_quality": result,
            "alternative_actions": arguments.several("alternatives", alternatives),
            "environment": environment,
            "tool": tool,
            "task_type": task_type,
            "error": happened.error_text(error),
            "duration": duration,
            "cost": cost,
            "informed_by": based_on,
            "lent": from_others or any(self._lent(id) for id in based_on) or None,
        }
        content = {name: value for name, value in content.items() if value not in ("", [], None)}
        fields = {"kind": MemoryType.DECISION, "context": context, "content": content} | fields
        self._brain.experience.flush(self._scope)
        return self._record([action if outcome is None else f"{action} → {outcome}"], fields)[0]

    @traced("upsert_memory")
    def learn_from_failure(
        self,
        error: str | BaseException,
        solution: str = "",
        *,
        helped: bool | float | None = None,
        action: str = "",
        context: str = "",
        environment: str = "",
        tool: str = "",
        task_type: str = "",
        root_cause: str = "",
        prevention: str = "",
        **fields: Any,
    ) -> FailurePattern:
        """Learn what went wrong, and what was done about it, which is taken to have helped unless `helped` says no.

        The pattern it belongs to comes back after the commit. Raises `InvalidInput` if it cannot be kept, or is not the
        agent's own word, reads like an instruction and is set apart for review: nothing is learned from it then.
        """
        whole = happened.error_text(error)
        if not whole.strip():
            raise InvalidInput("the error is empty; give its text, or the exception itself")
        signature = extract_error_signature(self._clean("error", whole))
        content = {
            "error": whole,
            "error_signature": signature.text,
            "root_cause": root_cause,
            "solution_applied": solution,
            "prevention_strategy": prevention or None,
            "solution_helped": None if helped is None else arguments.share("helped", float(helped)),
            "action": action,
            "environment": environment,
            "tool": tool,
            "task_type": task_type,
        }
        content = {name: value for name, value in content.items() if value not in ("", None)}
        fields = {"kind": MemoryType.FAILURE, "context": context, "content": content} | fields
        self._brain.experience.flush(self._scope)
        receipt = self._record([_sentence(signature.text, solution)], fields)[0]
        if receipt.id is None:
            kind = Conflict if receipt.code == Conflict.code else InvalidInput
            raise kind(f"the failure was not kept: {receipt.reason}")
        if receipt.status == "quarantined":
            raise InvalidInput(f"the failure was set apart for review as {receipt.id}: {receipt.reason}")
        return self.learning.failure(receipt.id) or self.learning.unlearned(receipt.id, signature.text)

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
            entry, redacted = prepare(draft, self._scope, self._brain.redactor, self._brain.sources)
        except InvalidInput as error:
            return rejected(error)
        event = happened.event_of(entry.memory)
        # What happens again is news; what is said again after it was recalled is not.
        known = None if event is not None else self._brain.echoes.source(self._scope, entry.memory)
        if known is not None and (seen := self._seen(known)) is not None:
            if entry.merge_key is not None and seen.agent == self.name:
                return Receipt(id=known, status="merged", reason=ECHO, redacted=redacted)
            entry = replace(entry, memory=with_source(entry.memory, known))
        if entry.memory.provenance.sources:
            entry = replace(entry, memory=self._no_purer(entry.memory))
        if entry.memory.provenance.origin != Origin.SELF and any_instruction(readable(entry.memory)):
            self.quarantine.put(entry if event is None else replace(entry, events=(event,)), TELLS_WHAT_TO_DO)
            return Receipt(id=entry.memory.id, status="quarantined", reason=TELLS_WHAT_TO_DO, redacted=redacted)
        return (entry if event is None else replace(entry, events=(event,))), redacted

    def _seen(self, id: str) -> Memory | None:
        """A memory of its own, or one that is lent to it."""
        (own,) = self._store.get(self._scope, [id])
        return own or self._brain.sharing.borrow(self._scope, [id], "cite").get(id)

    def _no_purer(self, memory: Memory) -> Memory:
        """The same memory, trusted no more than the least trusted of those it was derived from."""
        ids = [id for id in memory.provenance.sources if arguments.is_id(id)]
        own = [each for each in self._store.get(self._scope, ids) if each is not None]
        lent = self._brain.sharing.borrow(self._scope, [id for id in ids if id not in {m.id for m in own}], "cite")
        trust = min([memory.trust, *(each.trust for each in (*own, *lent.values()))])
        return memory if trust == memory.trust else memory.model_copy(update={"trust": trust})

    # act: context → recall → rank → suggest ------------------------------------------------------------

    @traced("search_memory", ids=telling.found, contents=telling.contents)
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
    ) -> Recall:
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
            arguments.count("budget_tokens", budget_tokens, MAX_BUDGET)
        if group_by not in {None, "session"}:
            raise InvalidInput(f'group_by is "session" or nothing, not {group_by!r}')
        meant = arguments.moment("now", now) or at
        weights = Weights(tuned=self._brain.tuning.multipliers(self._scope, at))
        wanted = Wanted(
            meant,
            arguments.count("k", k),
            where,
            arguments.share("min_score", min_score),
            group_by,
            budget_tokens,
            weights,
        )
        near, sharing = cache(self._brain.near), self._brain.sharing
        hits, lent = recall(self._store, self._scope, clean, near, wanted), dict[str, Lender]()
        if shared:
            hits, lent = sharing.hits(self._scope, lambda store, scope: recall(store, scope, clean, near, wanted), hits)
        if lent:
            hits = packed(hits, wanted)
            sharing.note_hits(self._scope, hits, lent)
        if hits and isinstance(self._store, CountsAccess):
            self._store.touch(self._scope, [hit.id for hit in hits if hit.id not in lent], at)
        return self._show(hits, at, lent)

    def context(self, /, query: str, k: int = 8, *, budget_tokens: int = 1000, **wanted: Any) -> str:
        """What is remembered about a query as a text for a model: quoted as data, each with its origin and trust.

        `wanted` is what `recall` takes. Without memories it is empty.
        """
        hits = self.recall(query, k, budget_tokens=budget_tokens, **wanted)
        return quoted(hits, budget_tokens=budget_tokens)

    def _show(self, hits: Sequence[Hit], at: datetime, lent: Mapping[str, Lender]) -> Recall:
        """The hits with the id by which their outcome can be told; what they say is no news when it comes back."""
        id = self._brain.sources.new_id()
        self._brain.echoes.note(self._scope, hits)
        if hits and isinstance(self._store, RemembersShown):
            parts = credits.parts(hits, self._parts(), self._brain.tuning.multipliers(self._scope, at))
            about: dict[str, JsonValue] = (
                {LENDERS: {hit.id: lent[hit.id].key for hit in hits if hit.id in lent}} if lent else {}
            )
            self._store.show(self._scope, Shown(id, at, tuple(hit.id for hit in hits), parts, about))
        fresh = self.learning.up_to_date([hit.memory for hit in hits])
        same = zip(hits, fresh, strict=True)
        return Recall(id, [h if h.memory is m else h.model_copy(update={"memory": m}) for h, m in same])

    def _parts(self) -> Collection[str]:
        return PARTS if isinstance(self._store, Surveys) else ()

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
        parts = credits.parts(shown, self._parts(), self._brain.tuning.multipliers(self._scope, at))
        event = Credit(id, at, tuple(hit.id for hit in shown), chosen, parts)
        if not shown or not self._store.credit(self._scope, event):
            return False
        for recalled in {hit.recall for hit in shown if "source" in hit.why and hit.recall is not None}:
            noted = self._shown(recalled)
            keys = None if noted is None else noted.about.get(LENDERS)
            if isinstance(keys, dict):
                self._brain.sharing.told(self._scope, recalled, _by_source(keys, event))
        return True

    @traced("suggest")
    def suggest(
        self,
        *,
        context: str,
        actions: Sequence[str] | None = None,
        explore: bool = False,
        environment: str = "",
        tool: str = "",
        task_type: str = "",
        tags: str | Iterable[str] = (),
        shared: bool = True,
    ) -> Suggestion:
        """What to do in a context, from how it went here and in similar ones: a recommendation or an abstention.

        What others lent counts as far as they agree with this agent. With `explore` it draws from what is believed of
        each action, for agents that want to learn more.
        """
        around = self._around(environment, tool, task_type, tags)
        return suggest([self], context, actions, explore=explore, around=around, shared=shared)

    def _lenders(self, context: Clean, action: str) -> Lessons:
        """What others lent to learn from about a context; the use is written down."""
        found = []
        for lender in self._brain.sharing.lenders(self._scope, Right.LEARN):
            episodes = lender.learning.episodes(context)
            self._brain.sharing.used(self._scope, lender, action, len(episodes), [each.id for each in episodes])
            if episodes:
                found.append(lender.learning)
        return found

    @traced("predict")
    def predict(
        self,
        *,
        context: str,
        action: str,
        environment: str = "",
        tool: str = "",
        task_type: str = "",
        tags: str | Iterable[str] = (),
        shared: bool = True,
    ) -> Prediction:
        """How likely an action is to succeed in a context."""
        around, where = self._around(environment, tool, task_type, tags), self._clean("context", context)
        lenders = self._lenders(where, "predict") if shared else []
        return self.learning.predict(where, self._clean("action", action), around, lenders)

    @traced("check")
    def check(
        self,
        *,
        action: str,
        context: str = "",
        environment: str = "",
        tool: str = "",
        task_type: str = "",
        tags: str | Iterable[str] = (),
        shared: bool = True,
    ) -> Verdict:
        """Whether an action may go ahead: allow, warn or block, with the failures it had and what worked instead.

        Fast enough to stand before every tool call, and the same question gets the same answer. What others learned
        warns; it blocks only if they have earned that much trust.
        """
        around = self._around(environment, tool, task_type, tags)
        where = self._clean("context", context) if context else Clean("")
        done, sharing = self._clean("action", action), self._brain.sharing
        verdict = self.learning.check(done, where, around)
        for lender in sharing.lenders(self._scope, Right.LEARN) if shared and verdict.decision == "allow" else ():
            theirs = lender.learning.verdict(done, where, around)
            if theirs.decision != "allow":
                sharing.used(self._scope, lender, "check", len(theirs.failures) or 1)
                trusted = sharing.trust(self._scope, lender.key).mean >= TRUSTED
                return self.learning.note(theirs.of_others(lender.name, trusted=trusted), done, where, around)
        return verdict

    @overload
    def guard(self, function: Function, /) -> Function: ...
    @overload
    def guard(self, function: None = None, /, **options: Unpack[Options]) -> Callable[[Function], Function]: ...
    def guard(self, function: Callable[..., Any] | None = None, /, **options: Unpack[Options]) -> Any:
        """Check every call of a function, or of a coroutine function, before it runs, and record how it went.

        A call that is known to fail raises `ActionBlocked` instead; a warning goes to `on_warn`, or to the log. The
        action is the call in words, and the context the first line of the documentation, unless they are given: as
        texts, or as functions of the arguments. Errors of the memory are logged, and never break the call.
        """
        decorate = guard(self, lambda text: self._brain.redactor.clean([text])[0].text, **options)
        return decorate if function is None else decorate(function)

    def guarding(
        self, *, action: str, context: str, on_warn: OnWarn | None = None, **around: Unpack[Around]
    ) -> Guarding:
        """The same around a block, with `with` or `async with`: it gives the verdict."""
        return Guarding(self, action, context, around, on_warn)

    @traced("update_memory")
    def outcome(
        self,
        id: str,
        outcome: str | float,
        *,
        used: str | Hit | Iterable[str | Hit] | None = None,
        action: str | None = None,
        error: str | BaseException = "",
        duration: float | None = None,
        cost: float | None = None,
        correct: bool = False,
    ) -> bool:
        """Tell how it went, by the id of a decision, a recall or a suggestion; `False` if just that was known.

        The credit for a recall is shared by the memories that were `used`, or by all that were shown. A suggestion
        becomes a decision, for the `action` that was taken instead if it was another one. A decision has one outcome;
        `correct` replaces it, and the old one stays in `outcomes(id)`. Raises `NotFound` and `Conflict`.
        """
        result = quality(outcome)
        for name, amount in {"duration": duration, "cost": cost}.items():
            arguments.amount(name, amount)
        told = Told(self._maybe("error", happened.error_text(error)), duration, cost)
        shown = self._shown(id)
        if shown is None:
            return self.learning.outcome(id if arguments.is_id(id) else ascii(id), result, told, correct=correct)
        if shown.told and (decision := shown.about.get("decision")):
            return self.learning.outcome(str(decision), result, told, correct=correct)
        if shown.told:
            if shown.about.get("quality", result) != result:
                raise Conflict(f"how the recall {id} went was told already, otherwise; its credit cannot be taken back")
            return False
        credit = credits.shared(shown, used, result, self._brain.sources.now())
        if "context" in shown.about:
            followed = self._follow(shown, action, outcome, told)
            credit = replace(credit, about={"decision": followed})
        if not isinstance(self._store, CreditsRecalls):
            return True
        counted = self._store.credit(self._scope, credit)
        keys = shown.about.get(LENDERS)
        if counted and isinstance(keys, dict):
            self._brain.sharing.told(self._scope, id, _by_source(keys, credit))
        return counted

    def _follow(self, shown: Shown, action: str | None, outcome: str | float, told: Told) -> str:
        """Record the decision to follow a suggestion, or to do something else; its id."""
        about = shown.about
        taken = str(about.get("action") or "") if action is None else action
        if not taken.strip():
            raise InvalidInput("the suggestion recommended nothing; say which action was taken")
        labels = about.get("tags", [])
        receipt = self.record_decision(
            context=str(about["context"]),
            action=taken,
            outcome=outcome,
            environment=str(about.get("environment", "")),
            tool=str(about.get("tool", "")),
            task_type=str(about.get("task_type", "")),
            tags=[str(tag) for tag in labels] if isinstance(labels, list) else [],
            error=told.error,
            duration=told.duration,
            cost=told.cost,
            informed_by=[shown.id],
            key=f"suggestion {shown.id}",
        )
        if receipt.id is None:
            raise InvalidInput(f"the decision was not kept: {receipt.reason}")
        return receipt.id

    def outcomes(self, id: str) -> list[RecordedOutcome]:
        """Everything that was told about how a decision went, oldest first; the last one counts."""
        return self.learning.outcomes(id) if arguments.is_id(id) else []

    def _shown(self, id: str) -> Shown | None:
        if not isinstance(self._store, RemembersShown) or not arguments.is_id(id):
            return None
        return self._store.shown(self._scope, id)

    def _lent(self, id: str) -> bool:
        """Whether what was shown under this id came from other agents, too."""
        shown = self._shown(id)
        return shown is not None and bool(shown.about.get("lent"))

    def _around(self, environment: str, tool: str, task_type: str, tags: str | Iterable[str]) -> Circumstances:
        labels = tuple(self._clean("tag", tag) for tag in arguments.several("tags", tags))
        where, by = self._maybe("environment", environment), self._maybe("tool", tool)
        return Circumstances(where, by, self._maybe("task_type", task_type), labels)

    def _maybe(self, name: str, text: str) -> Clean:
        return self._clean(name, text) if text else Clean("")

    def decisions(self, context: str) -> Memories:
        """The decisions taken in a context, newest first."""
        key = normal_form(self._clean("context", context))
        where = Filter(kinds=frozenset({MemoryType.DECISION}), context_key=key)
        return self._fetch(Query(where=where, limit=MAX_EPISODES))

    # keep ----------------------------------------------------------------------------------------------

    def get(self, id: str, *, shared: bool = True) -> Memory | None:
        """The memory with this id, its own or one that is lent to it, or `None`."""
        (found,) = self._store.get(self._scope, [id]) if arguments.is_id(id) else [None]
        if found is not None:
            return self.learning.up_to_date([found])[0]
        lent = shared and arguments.is_id(id)
        return self._brain.sharing.borrow(self._scope, [id], "get").get(id) if lent else None

    def indexes(self, id: str) -> tuple[MemoryIndex, ...]:
        """Where the memory with this id has vectors: in which namespaces, by which embedders."""
        if not isinstance(self._store, MirrorsVectors) or not arguments.is_id(id):
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
        shared: bool = False,
    ) -> Memories:
        """The memories of this agent, newest first; with `shared` also those that are lent to it."""
        where = self._filter(kinds, tags, since, until, as_of, session)
        most = arguments.count("limit", limit, MAX_EPISODES)
        first = arguments.count("offset", offset, MAX_OFFSET, least=0)
        if not shared:
            return self._fetch(Query(where=where, limit=most, offset=first))
        all_of_them = Query(where=where, limit=most + first)
        found = {memory.id: memory for memory in self._fetch(all_of_them)}
        for memory in self._brain.sharing.listed(self._scope, all_of_them):
            found.setdefault(memory.id, memory)
        return sorted(found.values(), key=lambda memory: memory.happened_at, reverse=True)[first : first + most]

    @traced("update_memory", ids=telling.changed)
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
                arguments.share(name, value)
        if not arguments.is_id(id):
            raise NotFound("there is no such memory; `engram memory list` shows what there is")
        labels = None
        if tags is not None:
            refuse_list("tags", arguments.several("tags", tags))
            labels = tuple(dict.fromkeys(self._clean("tag", tag.strip()) for tag in arguments.several("tags", tags)))
        if labels is not None:
            self._refuse_unholding(id, labels)
        changes = Changes(labels, importance, confidence, None, arguments.moment("valid_until", valid_until))
        return self._store.annotate(self._scope, id, changes, expected_version)

    def _refuse_unholding(self, id: str, tags: tuple[Clean, ...]) -> None:
        """Raises `NotAllowed` if a memory that is held would be so no longer without one of its tags."""
        held = holds.held(self._store)
        (memory,) = self._store.get(self._scope, [id]) if held else [None]
        if memory is None:
            return
        for hold in held:
            after = memory.model_copy(update={"tags": tags})
            if holds.covering([hold], self.name, memory) and not holds.covering([hold], self.name, after):
                raise holds.refusal(hold, f"memory {id}")

    @traced("delete_memory", ids=telling.gone)
    def forget(self, id: str) -> ForgetReceipt:
        """Remove a memory, all copies of it and all that was derived from it; the receipt lists what went.

        Raises `NotAllowed`, and nothing has gone, if it or something that would go with it is held.
        """
        return erasure.forget(self._brain, self._scope, [id])[0]

    def _fetch(self, query: Query) -> Memories:
        ids = [match.id for match in self._store.search(self._scope, query)]
        found = [memory for memory in self._store.get(self._scope, ids) if memory is not None]
        return self.learning.up_to_date(found)

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
            kinds=frozenset(arguments.kind(kind) for kind in arguments.several("kinds", kinds)),
            tags=frozenset(self._clean("tag", tag.strip()) for tag in arguments.several("tags", tags)),
            since=arguments.moment("since", since),
            until=arguments.moment("until", until),
            as_of=arguments.moment("as_of", as_of),
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
    agents: Sequence[AgentHandle],
    context: str,
    actions: Sequence[str] | None = None,
    *,
    explore: bool = False,
    around: Circumstances = ANYWHERE,
    shared: bool = True,
) -> Suggestion:
    """What to do in a context, from what the first of these agents did, and the others as far as they agree with it.

    One agent alone is also told what was lent to it.
    """
    if isinstance(actions, str):
        raise InvalidInput("actions must be a list of texts, not one text")
    if not agents:
        return decisions.weigh(context, [], now=EPOCH)
    first, *others = agents
    brain, scope = first._brain, first._scope
    candidates = None if actions is None else [first._clean("action", a) for a in arguments.several("actions", actions)]
    chance = brain.sources.random if explore else None
    clean, lessons = first._clean("context", context), [other.learning for other in others]
    if shared and not others:
        lessons = first._lenders(clean, "suggest")
    suggestion = first.learning.suggest(clean, around, candidates, explore=chance, others=lessons)
    if isinstance(brain.store, RemembersShown) and suggestion.id is not None:
        brain.store.show(scope, credits.suggested(suggestion, around, brain.sources.now(), lent=bool(lessons)))
    return suggestion


def _by_source(keys: Mapping[str, Any], credit: Credit) -> dict[str, tuple[float, float]]:
    """How far each source helped and hindered, by which of its memories did."""
    shares: dict[str, tuple[float, float]] = {}
    for id, (helped, hindered) in credit.counts.items():
        if id in keys:
            good, bad = shares.get(str(keys[id]), (0.0, 0.0))
            shares[str(keys[id])] = (good + helped, bad + hindered)
    return shares


def _nowhere() -> ExpiringStore:
    raise Unsupported("this memory was put together without a place for working memory; open it with `engram.open`")


def _situation(memory: Memory) -> list[Clean]:
    """The context of a decision, by which similar ones are found."""
    content = memory.content
    if not isinstance(content, DecisionContent):
        return []
    context = content.decision_context or memory.context
    return [context] if context.strip() else []


def _sentence(signature: str, solution: str) -> str:
    return f"{signature} → solved by {solution}" if solution else signature


def _draft(item: Item, fields: Mapping[str, Any]) -> Draft:
    if isinstance(item, Mapping):
        if "text" not in item:
            raise InvalidInput("a draft needs a text")
        item = Draft(**item)
    if isinstance(item, Draft):
        if not fields:
            return item
        tags = {"tags": (*item.tags, *arguments.several("tags", fields["tags"]))} if "tags" in fields else {}
        return Draft(**(item.model_dump(exclude_unset=True) | dict(fields) | tags))
    if not isinstance(item, str):
        raise InvalidInput(f"only text and drafts can be remembered, not {type(item).__name__}")
    return Draft(item, **fields)


def _completed(receipt: Receipt, redacted: tuple[str, ...], lack: str | None) -> Receipt:
    """The store's receipt with what the engine knows besides."""
    reason = receipt.reason or (lack if receipt.status == "stored" else None)
    return receipt.model_copy(update={"redacted": redacted, "reason": reason})
