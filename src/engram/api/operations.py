"""What can be asked, one function for each method of the service: one call of the engine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar, get_type_hints
from urllib.parse import unquote

from pydantic import BaseModel

from engram.api import admin, paging
from engram.api.problems import Refused
from engram.api.requests import (
    AnnotationOf,
    AuditListing,
    CycleIndex,
    DecisionListing,
    DiffQuery,
    EvaluationQuery,
    Forgetting,
    GrantApproval,
    GrantListing,
    GroupChangeOf,
    Id,
    Listing,
    MemoryListing,
    Named,
    Nothing,
    OutcomeListing,
    ResolutionOf,
    ResultOf,
    RunId,
    RunListing,
    SnapshotListing,
    SolutionOf,
    UseListing,
)
from engram.engine import AgentHandle, Engram
from engram.errors import InvalidInput, NotAllowed, NotFound
from engram.model import (
    AgentCycle,
    AgentState,
    AuditEntry,
    DecisionTemplate,
    Draft,
    EvaluationReport,
    ExecutionResult,
    FailurePattern,
    ForgetReceipt,
    LearningStats,
    Memory,
    Prediction,
    PreventionCheck,
    Receipt,
    RecordedOutcome,
    RunSummary,
    Snapshot,
    SuccessPattern,
    Suggestion,
    Verdict,
    Verification,
    Workspace,
    WorkspaceDiff,
)
from engram.model.access import EVERYONE, ApiKey, Right
from engram.model.content import Frozen
from engram.model.grant import Grant, GrantUse, Revocation, Source
from engram.model.quarantine import Quarantined
from engram.model.retention import LegalHold, RetentionReport
from engram.model.transfer import ImportReport
from engram.model.wire import (
    AgentView,
    CheckQuery,
    ContextQuery,
    ContextText,
    CycleError,
    GrantOffer,
    GrantRequest,
    GrantShare,
    GroupView,
    Merge,
    NewChecks,
    NewCycle,
    NewDecision,
    NewFailure,
    NewHold,
    NewMemories,
    NewMemory,
    NewOutcome,
    Noted,
    Page,
    Policy,
    PredictionQuery,
    Recalled,
    RecallQuery,
    Receipts,
    RetentionRun,
    SuggestionQuery,
)
from engram.ports import arguments, reserved

F = TypeVar("F", bound=Callable[..., BaseModel])
RUNS, USES = 1000, 10_000
LONG = {"VerifyAudit", "MergeKnowledge", "RunRetention"}


@dataclass(frozen=True, slots=True)
class Call:
    """Who is calling, and for which agent: both come from the key, never from what a request says."""

    brain: Engram
    key: ApiKey
    named: str | None = None

    @property
    def agent(self) -> AgentHandle:
        """The agent that the call is for. One that the key is not for is as one that does not exist."""
        return self.brain.agent(self.chosen())

    def chosen(self) -> str:
        """The name of that agent. Raises `NotFound`, and `InvalidInput` if nobody knows which one is meant."""
        if self.named is None:
            if len(self.key.agents) == 1 and self.key.agents[0] != EVERYONE:
                return self.key.agents[0]
            raise InvalidInput("the key is not for just one agent; name one in the metadata engram-agent")
        try:
            name = unquote(self.named, errors="strict")
        except UnicodeDecodeError:
            raise no_agent() from None
        if reserved(name) or not self.key.reaches(name):
            raise no_agent()
        return name

    def for_all(self) -> None:
        """Raise `NotAllowed` unless the key is for all agents."""
        if EVERYONE not in self.key.agents:
            raise NotAllowed("this is about all agents, and the key is for some; ask for one that is for all")

    def agents(self) -> list[str]:
        """The names of the agents that are there and that the key is for."""
        return [name for name in self.brain.agents() if self.key.reaches(name)]


@dataclass(frozen=True, slots=True)
class Operation:
    """What a method needs, takes and does."""

    right: Right
    asked: type[BaseModel]
    answered: type[BaseModel]
    carry_out: Callable[[Call, Any], BaseModel]
    long: bool = False
    """Whether it may take much longer than others."""


class AuditEntries(Frozen):
    """Entries of the audit trail."""

    items: tuple[AuditEntry, ...]


OPERATIONS: dict[str, Operation] = {}
"""By the name of the method, such as `GetMemory`."""


def _needs(right: Right) -> Callable[[F], F]:
    """Serve a function under its name, to those who have a right."""

    def known(function: F) -> F:
        _, asked, answered = get_type_hints(function).values()
        name = "".join(part.capitalize() for part in function.__name__.split("_"))
        OPERATIONS[name] = Operation(right, asked, answered, function, name in LONG)
        return function

    return known


@_needs("write")
def remember(call: Call, draft: NewMemory) -> Receipt:
    """Remember something."""
    return stored(call.agent.remember(draft_of(draft)))


@_needs("write")
def remember_batch(call: Call, drafts: NewMemories) -> Receipts:
    """Remember several things in one transaction."""
    return Receipts(receipts=tuple(call.agent.remember([draft_of(draft) for draft in drafts.items])))


@_needs("read")
def get_memory(call: Call, which: Id) -> Memory:
    """One memory."""
    return _found(call.agent.get(which.id), "memory; ListMemories lists what there is")


@_needs("read")
def list_memories(call: Call, wanted: MemoryListing) -> Page[Memory]:
    """Memories, newest first."""
    agent, kinds = call.agent, [str(kind) for kind in wanted.kinds]
    since, as_of, session = wanted.since, wanted.as_of, wanted.session
    fetch = partial(agent.list, kinds=kinds, tags=wanted.tags, since=since, as_of=as_of, session=session)
    told = (sorted(kinds), sorted(wanted.tags), since, wanted.until, as_of, session)
    return paging.memories(fetch, wanted.limit, wanted.until, wanted.cursor, "memories", agent.name, *told)


@_needs("write")
def annotate(call: Call, wanted: AnnotationOf) -> Memory:
    """Change what surrounds a memory."""
    agent, changes = call.agent, wanted.changes.model_dump(exclude_none=True)
    _found(agent.get(wanted.id), "memory; ListMemories lists what there is")
    return agent.annotate(wanted.id, **changes, expected_version=wanted.expected_version)


@_needs("write")
def forget(call: Call, which: Forgetting) -> ForgetReceipt:
    """Remove a memory and everything that belongs to it."""
    return call.agent.forget(which.id, expected_version=which.expected_version)


@_needs("read")
def recall(call: Call, query: RecallQuery) -> Recalled:
    """The memories that answer a question, best first."""
    hits = call.agent.recall(query.query, query.k, **query.model_dump(exclude={"query", "k"}, exclude_defaults=True))
    return Recalled(id=hits.id, hits=tuple(hits))


@_needs("read")
def context(call: Call, query: ContextQuery) -> ContextText:
    """What is remembered about a question, as a text for a model."""
    asked = query.model_dump(exclude={"query", "k", "budget_tokens"}, exclude_defaults=True)
    return ContextText(text=call.agent.context(query.query, query.k, budget_tokens=query.budget_tokens, **asked))


@_needs("write")
def record_decision(call: Call, decision: NewDecision) -> Receipt:
    """Remember what was done in a context."""
    told = decision.model_dump(exclude_defaults=True) | {"context": decision.context, "action": decision.action}
    return stored(call.agent.record_decision(**told))


@_needs("read")
def list_decisions(call: Call, wanted: DecisionListing) -> Page[Memory]:
    """The decisions taken in a context, newest first."""
    return _page(wanted, call.agent.decisions(wanted.context), "decisions", call.agent.name, wanted.context)


@_needs("write")
def tell_outcome(call: Call, outcome: NewOutcome) -> Noted:
    """Tell how it went."""
    told = outcome.model_dump(exclude={"id", "outcome"}, exclude_defaults=True)
    return Noted(news=call.agent.outcome(outcome.id, outcome.outcome, **told))


@_needs("read")
def list_outcomes(call: Call, wanted: OutcomeListing) -> Page[RecordedOutcome]:
    """Everything that was told about how a decision went."""
    return _page(wanted, call.agent.outcomes(wanted.id), "outcomes", call.agent.name, wanted.id)


@_needs("read")
def suggest(call: Call, query: SuggestionQuery) -> Suggestion:
    """What to do in a context."""
    return call.agent.suggest(**query.model_dump())


@_needs("read")
def predict(call: Call, query: PredictionQuery) -> Prediction:
    """How likely an action is to succeed."""
    return call.agent.predict(**query.model_dump())


@_needs("read")
def check(call: Call, query: CheckQuery) -> Verdict:
    """Whether an action may go ahead."""
    return call.agent.check(**query.model_dump())


@_needs("read")
def list_success_patterns(call: Call, wanted: Listing) -> Page[SuccessPattern]:
    """Approaches that worked again and again."""
    return _page(wanted, call.agent.shared_patterns.all_successes(), "successes", call.agent.name)


@_needs("read")
def list_decision_templates(call: Call, wanted: Listing) -> Page[DecisionTemplate]:
    """Small decision trees, one for each kind of situation."""
    return _page(wanted, call.agent.shared_patterns.all_templates(), "templates", call.agent.name)


@_needs("write")
def learn_from_failure(call: Call, failure: NewFailure) -> FailurePattern:
    """Learn what went wrong, and what was done about it."""
    return call.agent.learn_from_failure(failure.error, **failure.model_dump(exclude={"error"}, exclude_defaults=True))


@_needs("read")
def list_failures(call: Call, wanted: Listing) -> Page[FailurePattern]:
    """The failures that are known."""
    return _page(wanted, call.agent.shared_patterns.all_failures(), "failures", call.agent.name)


@_needs("read")
def get_failure(call: Call, which: Named) -> FailurePattern:
    """One failure."""
    return _found(call.agent.shared_patterns.failure(which.name), "failure; ListFailures lists what there is")


@_needs("write")
def tell_solution(call: Call, tried: SolutionOf) -> FailurePattern:
    """Tell how a solution of a failure did."""
    return call.agent.learning.tried(tried.name, tried.solution, tried.helped)


@_needs("read")
def list_checks(call: Call, wanted: Listing) -> Page[PreventionCheck]:
    """The checks that keep failures from coming back."""
    return _page(wanted, call.agent.shared_patterns.all_checks(), "checks", call.agent.name)


@_needs("write")
def generate_checks(call: Call, wanted: NewChecks) -> Page[PreventionCheck]:
    """Make checks from a failure and what solved it."""
    return Page(items=tuple(call.agent.learning.generate(wanted.pattern, stage=wanted.stage)))


@_needs("read")
def get_stats(call: Call, nothing: Nothing) -> LearningStats:
    """The five measures of success."""
    return call.agent.learning.stats()


@_needs("read")
def evaluate(call: Call, query: EvaluationQuery) -> EvaluationReport:
    """How well memory serves an agent over time."""
    return call.brain.upkeep.evaluate([call.agent.name], **query.model_dump())


@_needs("read")
def list_agents(call: Call, wanted: Listing) -> Page[AgentView]:
    """The agents that the key may act for."""
    found = _page(wanted, call.agents(), "agents", call.key.id)
    return Page(items=tuple(_view(call, name) for name in found.items), next_cursor=found.next_cursor)


@_needs("read")
def get_agent(call: Call, which: Named) -> AgentView:
    """One agent, and who it is."""
    if which.name not in call.agents():
        raise no_agent()
    return _view(call, which.name)


@_needs("read")
def list_cycles(call: Call, wanted: Listing) -> Page[AgentCycle]:
    """The cycles of an agent, newest first."""
    which = ("cycles", call.agent.name)
    before = None if wanted.cursor is None else paging.read(wanted.cursor, 1, *which)[0]
    found = call.agent.life.cycles(wanted.limit, before=before)
    last = found[-1].index if found else 1
    return Page(items=tuple(found), next_cursor=paging.write([last], *which) if last > 1 else None)


@_needs("read")
def get_cycle(call: Call, which: CycleIndex) -> AgentCycle:
    """One cycle."""
    return _found(call.agent.life.cycle(which.index), "cycle; ListCycles lists what there is")


@_needs("read")
def get_state(call: Call, nothing: Nothing) -> AgentState:
    """Where an agent stands."""
    return call.agent.life.resume()


@_needs("write")
def propose(call: Call, proposal: NewCycle) -> AgentCycle:
    """Begin a cycle."""
    return call.agent.life.propose(**proposal.model_dump())


@_needs("write")
def tell_result(call: Call, told: ResultOf) -> AgentCycle:
    """Complete a cycle with what came of it."""
    end = told.end
    error = end.error.model_dump() if isinstance(end.error, CycleError) else end.error
    return call.agent.life.result(told.index, output=end.output, error=error, artifacts=end.artifacts, learn=end.learn)


@_needs("write")
def resolve(call: Call, told: ResolutionOf) -> AgentCycle:
    """Decide about a cycle without a result."""
    return call.agent.life.resolve(told.index, told.decision.how, reason=told.decision.reason)


@_needs("read")
def list_workspaces(call: Call, wanted: Listing) -> Page[Workspace]:
    """The folders that are tracked."""
    return _page(wanted, call.agent.workspaces.list(), "workspaces", call.agent.name)


@_needs("read")
def list_snapshots(call: Call, wanted: SnapshotListing) -> Page[Snapshot]:
    """The snapshots of a workspace."""
    found = call.agent.workspaces.snapshots(wanted.workspace)
    return _page(wanted, found, "snapshots", call.agent.name, wanted.workspace)


@_needs("read")
def diff(call: Call, query: DiffQuery) -> WorkspaceDiff:
    """What changed from one snapshot to another."""
    return call.agent.workspaces.diff(query.workspace, query.before, query.after)


@_needs("read")
def list_runs(call: Call, wanted: RunListing) -> Page[RunSummary]:
    """The runs of workflows, newest first."""
    found = call.agent.workflows().runs(limit=RUNS, workflow=wanted.workflow)
    return _page(wanted, found, "runs", call.agent.name, wanted.workflow)


@_needs("read")
def get_run(call: Call, which: RunId) -> ExecutionResult:
    """How far a run has come."""
    return call.agent.workflows().status(which.run)


@_needs("share")
def request_grant(call: Call, terms: GrantRequest) -> Grant:
    """Ask another agent for knowledge."""
    return call.agent.grants.request(admin.named(terms.owner), **admin.terms(terms))


@_needs("share")
def offer_grant(call: Call, terms: GrantOffer) -> Grant:
    """Offer knowledge to another agent."""
    return call.agent.grants.offer(admin.named(terms.to), **admin.terms(terms))


@_needs("share")
def share(call: Call, terms: GrantShare) -> Grant:
    """Share knowledge at once."""
    return call.agent.grants.share(admin.named(terms.to), via=terms.via, **admin.terms(terms))


@_needs("share")
def approve_grant(call: Call, terms: GrantApproval) -> Grant:
    """Agree to a request or an offer."""
    return call.agent.grants.approve(terms.id, rights=terms.rights or None, expires=terms.expires)


@_needs("share")
def deny_grant(call: Call, which: Id) -> Grant:
    """Turn a request or an offer down."""
    return call.agent.grants.deny(which.id)


@_needs("share")
def revoke_grant(call: Call, which: Id) -> Revocation:
    """End a grant at once."""
    return call.agent.grants.revoke(which.id)


@_needs("share")
def get_grant(call: Call, which: Id) -> Grant:
    """One grant."""
    return call.agent.grants.get(which.id)


@_needs("share")
def list_grants(call: Call, wanted: GrantListing) -> Page[Grant]:
    """The grants of an agent, oldest first."""
    state = None if wanted.state is None else str(wanted.state)
    return _page(wanted, call.agent.grants.list(state), "grants", call.agent.name, state)


@_needs("share")
def list_grant_uses(call: Call, wanted: UseListing) -> Page[GrantUse]:
    """Who used a grant for what."""
    return _page(wanted, call.agent.grants.uses(wanted.id, USES), "uses", call.agent.name, wanted.id)


@_needs("share")
def list_sources(call: Call, wanted: Listing) -> Page[Source]:
    """Those whose knowledge an agent may use."""
    return _page(wanted, call.agent.grants.sources(), "sources", call.agent.name)


@_needs("share")
def merge_knowledge(call: Call, wanted: Merge) -> ImportReport:
    """Take in what another agent shares to learn from."""
    return call.agent.knowledge.merge(**wanted.model_dump())


@_needs("admin")
def list_audit(call: Call, wanted: AuditListing) -> AuditEntries:
    """What was done, in order: to all agents only for a key that is for all."""
    whole = EVERYONE in call.key.agents and call.named is None
    trail = call.brain.audit.find
    asked = wanted.model_dump(exclude={"after", "limit"})
    return AuditEntries(items=tuple(trail(wanted.after, wanted.limit, agent=None if whole else call.chosen(), **asked)))


@_needs("admin")
def verify_audit(call: Call, nothing: Nothing) -> Verification:
    """Look at every entry of the trail."""
    call.for_all()
    return call.brain.audit.verify()


@_needs("admin")
def list_groups(call: Call, wanted: Listing) -> Page[GroupView]:
    """The groups that knowledge can be shared with, by name."""
    call.for_all()
    return _page(wanted, admin.groups(call.brain), "groups", call.key.id)


@_needs("admin")
def change_group(call: Call, change: GroupChangeOf) -> GroupView:
    """Change who is in a group, which is there as long as somebody is in it."""
    call.for_all()
    return admin.regroup(call.brain, change.name, change)


@_needs("read")
def list_quarantined(call: Call, wanted: Listing) -> Page[Quarantined]:
    """What is set apart, the newest first, and why."""
    return _page(wanted, call.agent.quarantine.list(), "quarantine", call.agent.name)


@_needs("read")
def get_quarantined(call: Call, which: Id) -> Quarantined:
    """One memory that is set apart, and why."""
    if not arguments.is_id(which.id):
        raise NotFound("nothing of that name is set apart; ListQuarantined lists what is")
    return call.agent.quarantine.get(which.id)


@_needs("admin")
def release(call: Call, which: Id) -> Memory:
    """Give a memory back to the agent."""
    return call.agent.quarantine.release(get_quarantined(call, which).id)


@_needs("write")
def discard(call: Call, which: Id) -> ForgetReceipt:
    """Forget a memory that is set apart."""
    return call.agent.quarantine.discard(get_quarantined(call, which).id)


@_needs("admin")
def list_policies(call: Call, wanted: Listing) -> Page[Policy]:
    """The policies in force, in the order in which they run."""
    call.for_all()
    return _page(wanted, admin.policies(call.brain), "policies", call.key.id)


@_needs("admin")
def set_policy(call: Call, policy: Policy) -> Policy:
    """Set a policy, instead of the one of this name."""
    call.for_all()
    return admin.set_policy(call.brain, policy)


@_needs("admin")
def remove_policy(call: Call, which: Named) -> Policy:
    """Give a policy up."""
    call.for_all()
    return admin.remove_policy(call.brain, which.name)


@_needs("admin")
def list_holds(call: Call, wanted: Listing) -> Page[LegalHold]:
    """The holds in force, oldest first."""
    call.for_all()
    return _page(wanted, call.brain.retention.holds(), "holds", call.key.id)


@_needs("admin")
def hold(call: Call, wanted: NewHold) -> LegalHold:
    """Keep all memories of an agent, or those that are named."""
    call.for_all()
    return admin.hold(call.brain, wanted)


@_needs("admin")
def release_hold(call: Call, which: Id) -> LegalHold:
    """End a hold."""
    call.for_all()
    return call.brain.retention.release(which.id)


@_needs("admin")
def run_retention(call: Call, wanted: RetentionRun) -> RetentionReport:
    """Let go of what fulfils a policy that forgets."""
    call.for_all()
    return admin.run(call.brain, wanted)


def draft_of(draft: NewMemory) -> Draft:
    """What the engine is given to remember."""
    return Draft(**draft.model_dump(exclude_unset=True))


def stored(receipt: Receipt) -> Receipt:
    """The receipt of a draft that is kept. Raises `Refused`."""
    if receipt.id is None:
        raise Refused(receipt)
    return receipt


def no_agent() -> NotFound:
    """What is said of an agent that is not there, and of one that is none of the caller's business."""
    return NotFound("there is no such agent; ListAgents lists those that there are")


T = TypeVar("T")


def _found(thing: T | None, what: str) -> T:
    if thing is None:
        raise NotFound(f"there is no such {what}")
    return thing


def _page(wanted: Listing, items: Any, *of: object) -> Page[Any]:
    return paging.slice_of(items, wanted.limit, wanted.cursor, *of)


def _view(call: Call, name: str) -> AgentView:
    return AgentView(name=name, definition=call.brain.definitions.current(name))
