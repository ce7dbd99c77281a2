"""Engram in two sentences.

record:   draft → redact → embed → store → update patterns                 (one transaction)
act:      context → recall → rank → suggest / check → outcome → credit     (closes the loop)

Each call is a few lines here; `engram.recording`, `engram.recall`, `engram.learning` and `engram.sharing` carry it out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Unpack, overload

from engram import telemetry
from engram.agents.cycles import Life
from engram.agents.definitions import Definitions, Overrides, memory_overrides
from engram.agents.guard import CircumstanceFields, Function, GuardedBlock, GuardOptions, OnWarn, guard
from engram.agents.workflows.runner import WorkflowEngine
from engram.agents.workspaces.objects import Objects
from engram.agents.workspaces.snapshots import Workspaces
from engram.audit import AuditTrail
from engram.clock import Sources
from engram.errors import Hint, InvalidInput, Unsupported
from engram.learning import advice, events
from engram.learning import outcomes as crediting
from engram.learning.events import ANYWHERE, Circumstances
from engram.learning.service import OutcomeDetails
from engram.learning.situations.editor import SituationEditor
from engram.learning.state import Experience
from engram.memories import records
from engram.memories.episodic import EpisodeStore, EpisodicMemory
from engram.memories.facts.fact_cache import FactCaches
from engram.memories.semantic import SemanticMemory
from engram.memories.working import SessionOptions, WorkingMemory, WorkingSessions
from engram.model import (
    Clean,
    DecisionDraft,
    Draft,
    FailureDraft,
    FailurePattern,
    ForgetReceipt,
    Hit,
    Memory,
    MemoryIndex,
    MemoryType,
    Prediction,
    Recall,
    Receipt,
    RecordedOutcome,
    Suggestion,
    Verdict,
)
from engram.ports import (
    LONG_TERM,
    Embedder,
    ExpiringStore,
    Filter,
    KeepsEvents,
    ListsAgents,
    MemoryStore,
    Placed,
    Purpose,
    Query,
    Redactor,
    Scope,
    arguments,
    reserved,
)
from engram.ports.arguments import When
from engram.ports.completed import can, complete, require
from engram.recall import search
from engram.recall.quoting import quoted
from engram.recall.rank import Tuning
from engram.recording import record
from engram.recording.agent_context import AgentContext, MemoryParts
from engram.recording.embedding import Embeddings
from engram.recording.input import InputCleaner, Kinds, RecentRecalls
from engram.recording.quarantine import Quarantine
from engram.recording.record import Item
from engram.retention import erasure
from engram.retention.policies import Retention
from engram.sharing.api_keys import Keys
from engram.sharing.grants import Grants
from engram.sharing.ledger import Ledger
from engram.sharing.lenders import Sharing
from engram.sharing.patterns import SharedPatterns
from engram.telemetry import traced
from engram.text.terms import digest, normal_form

if TYPE_CHECKING:
    from engram.memories.procedural import ProceduralMemory
    from engram.transfer.knowledge import Knowledge
    from engram.upkeep.maintenance import Upkeep

Memories = list[Memory]
MOST_HANDLES = 1000
"""Handles of agents that are kept, so that a server does not check the name of an agent for each request."""


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
        store = complete(store)
        self.store = store
        self.objects = objects
        self.redactor = redactor
        self.sources = sources
        self._handles: dict[str, AgentHandle] = {}
        experience, embeddings = Experience(store), Embeddings(store, embedder, say)
        self._parts = MemoryParts(
            store=store,
            redactor=redactor,
            sources=sources,
            input=InputCleaner(redactor),
            embeddings=embeddings,
            experience=experience,
            tuning=Tuning(store),
            recent_recalls=RecentRecalls(),
            sharing=Sharing(store, experience, sources, embeddings.context_vector, lambda _, text: self.clean(text)),
            sessions=WorkingSessions(working or _nowhere, redactor, sources),
            fact_caches=FactCaches(store),
        )

    def agent(self, name: str) -> AgentHandle:
        """Return the handle of an agent, limited to its own scope; an agent exists from its first memory on."""
        if isinstance(name, str) and (known := self._handles.get(name)) is not None:
            return known
        scope = Scope(name)
        arguments.agent(name)
        if self.redactor.clean([name])[0].secrets:
            raise InvalidInput("this agent's name holds a secret; give it another one")
        if len(self._handles) >= MOST_HANDLES:
            self._handles.clear()
        self._handles[name] = handle = AgentHandle(self, scope)
        return handle

    def agents(self) -> list[str]:
        """The names of all agents that have stored or imported something, in their order."""
        require(self.store, ListsAgents, "listing the agents")
        return sorted(name for name in {*self.store.agents(), *self._parts.sharing.importers()} if not reserved(name))

    @property
    def embedder(self) -> Embedder:
        """The embedder in use, chosen at first need. Raises `ModelError` if there is none to be had."""
        return self._parts.embeddings.embedder

    def near(self, query: Clean, namespace: str = LONG_TERM, purpose: Purpose = "query") -> Placed | None:
        """The vector of a query, or `None` when it cannot be embedded."""
        return self._parts.embeddings.query_vector(query, namespace, purpose)

    @property
    def definitions(self) -> Definitions:
        """The agents that were defined, version by version."""
        return Definitions(self.store, self.redactor, self.sources)

    @property
    def ledger(self) -> Ledger:
        """The grants of all agents, and the groups that knowledge can be shared with."""
        return self._parts.sharing.ledger

    @property
    def keys(self) -> Keys:
        """API keys of callers: create, list and revoke them. Raises `Unsupported` if the store keeps none."""
        return Keys(self.store, self.redactor, self.sources)

    @property
    def audit(self) -> AuditTrail:
        """The audit trail: search, verify, sign and prune it. Raises `Unsupported` if the store keeps none."""
        return AuditTrail(self.store, self.sources)

    @property
    def retention(self) -> Retention:
        """Retention policies, legal holds, and the erasure of whole agents."""
        return Retention(self)

    @property
    def upkeep(self) -> Upkeep:
        """Maintenance: consolidate, forget what has faded, evaluate, and rebuild what is derived."""
        from engram.upkeep.maintenance import Upkeep  # noqa: PLC0415 - few programs maintain a memory

        return Upkeep(self)

    def clean(self, text: str) -> Clean:
        """A text without its secrets."""
        return self.redactor.clean([text])[0].text

    def close(self) -> None:
        """Write what is pending and let go of the database; calling it twice is harmless.

        Turns of sessions that would end with this process are handed over before.
        """
        with ExitStack() as stack:
            stack.callback(self.store.close)
            stack.callback(self._parts.experience.flush)
            self._parts.sessions.close()

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
        self._context = AgentContext.of(brain._parts, scope)
        self.learning = self._context.learning
        """The learned state of the agent: patterns, checks, rates, and their calibration."""

    @property
    def name(self) -> str:
        """The agent's name."""
        return self._scope.agent

    @property
    def _store_id(self) -> str:
        """The id of this agent in telemetry: a fingerprint of its name, which does not reveal it."""
        return digest("agent", self._scope.agent)[:16]

    # record: draft → redact → embed → store ------------------------------------------------------------

    @overload
    def remember(self, text: str | Draft | Mapping[str, Any], **fields: Any) -> Receipt: ...
    @overload
    def remember(self, text: Sequence[str | Draft | Mapping[str, Any]], **fields: Any) -> list[Receipt]: ...
    @traced("upsert_memory", ids=telemetry.stored_ids)
    def remember(self, text: Item | Sequence[Item], **fields: Any) -> Receipt | list[Receipt]:
        """Remember one thing, or several in one transaction; the receipts come after the commit, in order.

        `fields` are those of `Draft`: kind, tags, at, session, role, speaker, importance, key, metadata, context, …
        A text that cannot be kept gets a receipt that says so; a field that does not exist raises `InvalidInput`.
        """
        if isinstance(text, str | Draft | Mapping):
            return record.record_items(self._context, [text], fields)[0]
        if not isinstance(text, Sequence):
            raise InvalidInput(f"text, drafts or a list of them can be remembered, not {type(text).__name__}")
        return record.record_items(self._context, text, fields)

    @traced("upsert_memory", ids=telemetry.stored_ids)
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
        draft = DecisionDraft(
            context=context,
            action=action,
            outcome=outcome,
            alternatives=alternatives,
            environment=environment,
            tool=tool,
            task_type=task_type,
            error=error,
            duration=duration,
            cost=cost,
            informed_by=informed_by,
            from_others=from_others,
        )
        return record.record_decision(self._context, draft, fields)

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
        draft = FailureDraft(
            error=error,
            solution=solution,
            helped=helped,
            action=action,
            context=context,
            environment=environment,
            tool=tool,
            task_type=task_type,
            root_cause=root_cause,
            prevention=prevention,
        )
        return record.record_failure(self._context, draft, fields)

    # act: context → recall → rank → suggest ------------------------------------------------------------

    @traced("search_memory", ids=telemetry.hit_ids, contents=telemetry.hit_contents)
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
        expand: bool = False,
    ) -> Recall:
        """The memories that answer a query, best first, with the parts of their scores.

        Only what is valid now, or was at `as_of`. `tags` must all be there; `since` is inclusive, `until` exclusive.
        `now` is when the query was asked, if that was not just now: what "last week" in it is meant from.
        `group_by="session"` keeps the best hit of each session; `budget_tokens` limits the length of all texts.
        With `expand`, the query is also asked with the concepts that the graph of facts joins to those it names;
        `why["expanded"]` names them in hits that this found, or found better.
        """
        agent, clean = self._context, self._context.input.clean("query", query)
        request = search.build_request(
            agent,
            agent.input.filter(kinds, tags, since, until, as_of, session),
            k=k,
            now=now,
            min_score=min_score,
            group_by=group_by,
            budget_tokens=budget_tokens,
        )
        names = self.semantic.expand(clean, as_of=as_of) if expand else ()
        return search.run_recall(agent, clean, request, shared=shared, names=names)

    def context(self, /, query: str, k: int = 8, *, budget_tokens: int = 1000, **wanted: Any) -> str:
        """Return what is remembered about a query as text for a model: quoted as data, with origin and trust.

        `wanted` are further arguments of `recall`. The text is empty if nothing is found.
        """
        hits = self.recall(query, k, budget_tokens=budget_tokens, **wanted)
        return quoted(hits, budget_tokens=budget_tokens)

    def credit(self, hits: Sequence[Hit], helped: str | Hit | Iterable[str | Hit], *, key: str | None = None) -> bool:
        """Tell what became of a recall: which of its hits helped, by id or as hits; an empty list, if none did.

        Hits above the last that helped count as looked at in vain, and all do if none helped; about those below it
        nothing is known. What helps more often ranks higher, and `engram upkeep tune` learns from it what matters to
        this agent. With a `key` it counts once, however often it is told: `False` if it was known.
        """
        return crediting.credit(self._context, hits, helped, key)

    @traced("suggest")
    def suggest(
        self,
        context: str,
        *,
        actions: Sequence[str] | None = None,
        explore: bool = False,
        environment: str = "",
        tool: str = "",
        task_type: str = "",
        tags: str | Iterable[str] = (),
        shared: bool = True,
    ) -> Suggestion:
        """Suggest an action for a context, from outcomes in this and similar ones, or abstain.

        What others lent counts as far as they agree with this agent. With `explore` it draws from what is believed of
        each action, for agents that want to learn more.
        """
        around = self._context.input.around(environment, tool, task_type, tags)
        return advice.suggest([self._context], context, actions, around, explore=explore, shared=shared)

    @traced("predict")
    def predict(
        self,
        context: str,
        action: str,
        *,
        environment: str = "",
        tool: str = "",
        task_type: str = "",
        tags: str | Iterable[str] = (),
        shared: bool = True,
    ) -> Prediction:
        """Predict how likely an action is to succeed in a context."""
        around = self._context.input.around(environment, tool, task_type, tags)
        return advice.predict([self._context], context, action, around, shared=shared)

    @traced("check")
    def check(
        self,
        action: str,
        context: str = "",
        *,
        environment: str = "",
        tool: str = "",
        task_type: str = "",
        tags: str | Iterable[str] = (),
        shared: bool = True,
    ) -> Verdict:
        """Decide whether an action may run: allow, warn or block, with its failures and what worked instead.

        Fast enough to stand before every tool call, and the same question gets the same answer. What others learned
        warns; it blocks only if they have earned that much trust.
        """
        clean = self._context.input
        around, where = clean.around(environment, tool, task_type, tags), clean.maybe("context", context)
        return advice.check(self._context, clean.clean("action", action), where, around, shared=shared)

    @overload
    def guard(self, function: Function, /) -> Function: ...
    @overload
    def guard(self, function: None = None, /, **options: Unpack[GuardOptions]) -> Callable[[Function], Function]: ...
    def guard(self, function: Callable[..., Any] | None = None, /, **options: Unpack[GuardOptions]) -> Any:
        """Check every call of a function, or of a coroutine function, before it runs, and record how it went.

        A call that is known to fail raises `ActionBlocked` instead; a warning goes to `on_warn`, or to the log. The
        action is the call in words, and the context the first line of the documentation, unless they are given: as
        texts, or as functions of the arguments. Errors of the memory are logged, and never break the call.
        """
        decorate = guard(self, self._brain.clean, **options)
        return decorate if function is None else decorate(function)

    def guarding(
        self, *, action: str, context: str, on_warn: OnWarn | None = None, **around: Unpack[CircumstanceFields]
    ) -> GuardedBlock:
        """The same around a block, with `with` or `async with`: it gives the verdict."""
        return GuardedBlock(self, action, context, around, on_warn)

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
        told = OutcomeDetails(self._context.input.maybe("error", events.error_text(error)), duration, cost)
        return crediting.outcome(self._context, id, outcome, told, used=used, action=action, correct=correct)

    def outcomes(self, id: str) -> list[RecordedOutcome]:
        """Everything that was told about how a decision went, oldest first; the last one counts."""
        return self.learning.outcomes(id) if arguments.is_id(id) else []

    def decisions(self, context: str) -> Memories:
        """The decisions taken in a context, newest first."""
        key = normal_form(self._context.input.clean("context", context))
        where = Filter(kinds=frozenset({MemoryType.DECISION}), context_key=key)
        return self._context.fetch(Query(where=where, limit=records.MAX_LISTED))

    # keep ----------------------------------------------------------------------------------------------

    def get(self, id: str, *, shared: bool = True) -> Memory | None:
        """The memory with this id, its own or one that is lent to it, or `None`."""
        return records.get(self._context, id, shared=shared)

    def indexes(self, id: str) -> tuple[MemoryIndex, ...]:
        """Return the vectors that a memory has: their namespaces and embedders."""
        if not arguments.is_id(id):
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
        where = self._context.input.filter(kinds, tags, since, until, as_of, session)
        return records.list_memories(self._context, where, limit, offset, shared=shared)

    @traced("update_memory", ids=telemetry.changed_ids)
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
        return records.annotate(
            self._context,
            id,
            tags=tags,
            importance=importance,
            confidence=confidence,
            valid_until=valid_until,
            expected_version=expected_version,
        )

    @traced("delete_memory", ids=telemetry.forgotten_ids)
    def forget(self, id: str, *, expected_version: int | None = None) -> ForgetReceipt:
        """Remove a memory, all copies of it and all that was derived from it; the receipt lists what went.

        Raises `NotAllowed`, and nothing has gone, if it or something that would go with it is held, and `Conflict` when
        `expected_version` is given and it has another one.
        """
        records.check_version(self._context, id, expected_version)
        return erasure.forget(self._brain, self._scope, [id])[0]

    # its parts -----------------------------------------------------------------------------------------

    def working(self, session: str = "main", **options: Unpack[SessionOptions]) -> WorkingMemory:
        """Return the working memory of a session, the same object for every caller.

        The setting `working` says where it is stored. Turns beyond its capacity move to episodic memory, as do those
        that would be lost when the process ends.
        """
        return self._brain._parts.sessions.open(self, self._scope, session, options, self._usual)

    def _usual(self) -> SessionOptions:
        """Return the options of working memory from the definition of the agent."""
        return self._overrides().working.options()

    def _overrides(self) -> Overrides:
        known = can(self._store, KeepsEvents)
        return memory_overrides(self._brain.definitions.current(self.name) if known else None)

    @property
    def grants(self) -> Grants:
        """Grants of the agent: what it shares, requests, and may use of others."""
        brain = self._brain
        return Grants(brain.store, self._scope, brain._parts.sharing, brain.sources, brain._parts.input.clean)

    @property
    def knowledge(self) -> Knowledge:
        """Export of its knowledge to a file, and import of that of others."""
        from engram.transfer.knowledge import Knowledge  # noqa: PLC0415 - few programs export or import

        return Knowledge(self._brain, self)

    @property
    def shared_patterns(self) -> SharedPatterns:
        """Patterns, templates and checks that others share with it, or that it imported, each with its source."""
        return SharedPatterns(self._scope, self._brain._parts.sharing, self.learning)

    @property
    def situations(self) -> SituationEditor:
        """The kinds of context it decides in: to look at, rename, merge, split and pin."""
        brain = self._brain
        return SituationEditor(
            brain.store, self._scope, brain._parts.experience, brain.sources, brain._parts.input.clean
        )

    @property
    def quarantine(self) -> Quarantine:
        """Quarantined memories: held for review, and in no search, list or pattern."""
        brain = self._brain
        return Quarantine(self._store, self._scope, brain.sources, brain.redactor, brain._parts.embeddings.embed)

    @property
    def episodic(self) -> EpisodicMemory:
        """Its interactions, by time, user, tag and outcome."""
        brain = self._brain
        return EpisodicMemory(
            self, brain.sources, EpisodeStore(brain.store, self._scope, brain._parts.input.filter, brain.clean)
        )

    @property
    def semantic(self) -> SemanticMemory:
        """Its facts, with the time they are valid, and the graph they make."""
        brain, functional = self._brain, self._overrides().semantic.functional
        return SemanticMemory(
            self,
            sources=brain.sources,
            clean=brain.clean,
            functional=functional,
            cache=brain._parts.fact_caches.of(self._scope),
            used=self._noted,
        )

    def _noted(self, ids: Sequence[str]) -> None:
        """Note that memories were asked for, as a recall does."""
        self._store.touch(self._scope, ids, self._brain.sources.now())

    @property
    def procedural(self) -> ProceduralMemory:
        """Its skills: workflows that can be found, filled in and followed."""
        from engram.memories.procedural import ProceduralMemory  # noqa: PLC0415 - its templates are slow to import

        return ProceduralMemory(self)

    @property
    def workspaces(self) -> Workspaces:
        """Its folders: snapshots of them by content, what changed in between, and the way back."""
        if self._brain.objects is None:
            raise Unsupported(
                "this database has no folder for files beside it",
                hint=Hint(setup="set `objects` (ENGRAM_OBJECTS), or give `engram.open(url, objects=FOLDER)`"),
            )
        brain = self._brain
        return Workspaces(brain.store, self._scope, brain.redactor, brain.sources, self._brain.objects)

    def workflows(self, **options: Any) -> WorkflowEngine:
        """Return the engine that runs and resumes workflows; `options` are those of `WorkflowEngine`."""
        return WorkflowEngine(self, self._store, self._brain.redactor, self._brain.sources, **options)

    @property
    def life(self) -> Life:
        """Its cycles: what it proposed, what came of it, and where it goes on after a stop."""
        return Life(self, self._store, self._brain.redactor, self._brain.sources)


def suggest(
    agents: Sequence[AgentHandle],
    context: str,
    actions: Sequence[str] | None = None,
    *,
    explore: bool = False,
    around: Circumstances = ANYWHERE,
    shared: bool = True,
) -> Suggestion:
    """Suggest what to do in a context, from what these agents did and what was lent to them.

    All of them count alike, in whatever order they are given.
    """
    contexts = [agent._context for agent in agents]
    return advice.suggest(contexts, context, actions, around, explore=explore, shared=shared)


def predict(
    agents: Sequence[AgentHandle], context: str, action: str, *, around: Circumstances = ANYWHERE, shared: bool = True
) -> Prediction:
    """Predict whether an action will succeed in a context, from what these agents know, asked like `suggest`."""
    return advice.predict([agent._context for agent in agents], context, action, around, shared=shared)


def _nowhere() -> ExpiringStore:
    raise Unsupported(
        "this memory was put together without a place for working memory", hint=Hint(setup="open it with `engram.open`")
    )
