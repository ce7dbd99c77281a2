"""The table of operations: each is defined once, for REST, gRPC and the clients of both.

An operation is a function of a `Call` and a request model, with a decorator that defines its route and its right.
Importing the table does not import the engine, so that a client can use it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast, get_type_hints

from pydantic import BaseModel, Field

from engram.api import paging
from engram.api.problems import Refused
from engram.api.requests import (
    AgentName,
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
from engram.errors import Hint, NotFound
from engram.model import (
    AgentCycle,
    AgentState,
    AuditEntry,
    AuditVerification,
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
    Workspace,
    WorkspaceDiff,
)
from engram.model.api_key import Right
from engram.model.content import Frozen
from engram.model.grant import Grant, GrantUse, Revocation, Source
from engram.model.memory import Quarantined
from engram.model.retention import LegalHold, RetentionPolicy, RetentionReport
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
    Terms,
)

if TYPE_CHECKING:
    from engram.api.call import Call

F = TypeVar("F", bound=Callable[..., BaseModel])
T = TypeVar("T")
About = Literal["agent", "named", "key", "all"]
Repeat = Literal["safe", "key", "never"]
RUNS, USES = 1000, 10_000
_PLACEHOLDER = re.compile(r"\{(\w+)(?::\w+)?\}")


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation: its right, its request and response models, and its HTTP route and gRPC method."""

    name: str
    """The name of the function, which is the operationId in OpenAPI."""
    right: Right
    request: type[BaseModel]
    response: type[BaseModel]
    function: Callable[[Call, Any], BaseModel]
    http: str
    """The HTTP method and the path below `/v1`, such as `GET /memories/{id}`."""
    tag: str
    """Its tag in OpenAPI."""
    status: int
    """The HTTP status of success."""
    about: About
    """`agent`: one agent; `named`: the agent that the request names, or all that the key reaches; `key`: all that the
    key reaches; `all`: all agents, which needs a key for all."""
    repeat: Repeat
    """`safe`: the same request again changes nothing; `key`: it is carried out once for its key; `never`: again, it
    would do something else."""
    long: bool
    """True if it may take much longer than others."""
    renamed: Mapping[str, str] = field(default_factory=dict)
    """Fields of the request that have another name in the path or the query."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Fields of the request that are HTTP headers."""
    command: str = ""
    """The command that does the same on the command line, for the hints of errors."""

    def run(self, call: Call, request: BaseModel) -> BaseModel:
        """Run the operation. Raises `NotAllowed` if it is for all agents and the key is not."""
        if self.about == "all":
            call.check_all()
        return self.function(call, request)

    @property
    def rpc(self) -> str:
        """The name of the gRPC method, such as `GetMemory`."""
        return "".join(part.capitalize() for part in self.name.split("_"))

    @property
    def verb(self) -> str:
        """The HTTP method."""
        return self.http.partition(" ")[0]

    @property
    def path(self) -> str:
        """The path, such as `/v1/memories/{id}`; a placeholder may say that it takes slashes, as in `{name:path}`."""
        return "/v1" + self.http.partition(" ")[2]

    @property
    def writes(self) -> bool:
        """True if it may change something; over HTTP, it then takes an Idempotency-Key."""
        return self.right != "read" and self.verb != "GET"

    @property
    def path_fields(self) -> dict[str, str]:
        """The fields of the request that are part of the path, and their placeholders there."""
        placeholders = _PLACEHOLDER.findall(self.http)
        return {
            name: self.renamed.get(name, name)
            for name in self.request.model_fields
            if self.renamed.get(name, name) in placeholders
        }

    @property
    def query_fields(self) -> dict[str, str]:
        """The fields of the request that are query parameters, and their names there; the part of a list comes last."""
        names = sorted(self._others(), key=lambda name: name in Listing.model_fields) if self.verb == "GET" else []
        return {name: self.renamed.get(name, name) for name in names}

    @property
    def body_field(self) -> str | None:
        """The field of the request that is the whole body; `None` if the body has the fields of the request itself."""
        others = self._others()
        if self.verb == "GET" or len(others) != 1 or not (self.path_fields or self.headers):
            return None
        kind = self.request.model_fields[others[0]].annotation
        return others[0] if isinstance(kind, type) and issubclass(kind, BaseModel) else None

    @property
    def body(self) -> type[BaseModel] | None:
        """The model of the body: the request without its path fields; `None` if there is no body."""
        others = self._others()
        if self.verb == "GET" or not others:
            return None
        if name := self.body_field:
            nested: Any = self.request.model_fields[name].annotation
            return cast("type[BaseModel]", nested)
        kinds = (kind for kind in self.request.__mro__ if issubclass(kind, BaseModel))
        return next(kind for kind in kinds if kind.model_fields.keys() == set(others))

    def _others(self) -> list[str]:
        """Return the fields that are neither in the path nor headers."""
        return [name for name in self.request.model_fields if name not in {*self.path_fields, *self.headers}]


OPERATIONS: dict[str, Operation] = {}
"""Every operation, by its name, such as `get_memory`."""


def operation(
    http: str,
    tag: str,
    right: Right = "read",
    *,
    status: int = 200,
    about: About = "agent",
    repeat: Repeat = "safe",
    long: bool = False,
    renamed: Mapping[str, str] | None = None,
    headers: Mapping[str, str] | None = None,
    command: str = "",
) -> Callable[[F], F]:
    """Add a function of a call and a request to the table, under its name."""

    def entered(function: F) -> F:
        _, request, response = get_type_hints(function, localns={"Call": object}).values()
        OPERATIONS[function.__name__] = Operation(
            function.__name__,
            right,
            request,
            response,
            function,
            http,
            tag,
            status,
            about,
            repeat,
            long,
            renamed or {},
            headers or {},
            command,
        )
        return function

    return entered


def operation_of(hint: Hint) -> Operation | None:
    """Return the operation for a hint, or `None`."""
    words = hint.command.split()[:2]
    return next((each for each in OPERATIONS.values() if each.command and each.command.split() == words), None)


class AuditEntries(Frozen):
    """Entries of the audit trail."""

    items: tuple[AuditEntry, ...] = Field(
        description="The entries, in the order of the chain; pass the number of the last as `after` to continue."
    )


# Memories ---------------------------------------------------------------------------------------------


@operation("POST /memories", "memories", "write", status=201, repeat="key")
def remember(call: Call, draft: NewMemory) -> Receipt:
    """Store a memory; the receipt is returned after the commit."""
    return stored(call.agent.remember(draft_of(draft)))


@operation("POST /memories/batch", "memories", "write", repeat="key")
def remember_batch(call: Call, drafts: NewMemories) -> Receipts:
    """Store several memories in one transaction; one that cannot be stored gets a receipt with the reason."""
    return Receipts(receipts=tuple(call.agent.remember([draft_of(draft) for draft in drafts.items])))


@operation("GET /memories/{id}", "memories")
def get_memory(call: Call, which: Id) -> Memory:
    """Get one memory."""
    return _found(call.agent.get(which.id), "memory", "memory list")


@operation("GET /memories", "memories", renamed={"kinds": "kind", "tags": "tag"}, command="memory list")
def list_memories(call: Call, query: MemoryListing) -> Page[Memory]:
    """List memories, newest first."""
    agent, kinds = call.agent, [str(kind) for kind in query.kinds]
    since, as_of, session = query.since, query.as_of, query.session
    fetch = partial(agent.list, kinds=kinds, tags=query.tags, since=since, as_of=as_of, session=session)
    filters = (sorted(kinds), sorted(query.tags), since, query.until, as_of, session)
    return paging.memories(fetch, query.limit, query.until, query.cursor, "memories", agent.name, *filters)


@operation("PATCH /memories/{id}", "memories", "write", repeat="never", headers={"expected_version": "If-Match"})
def annotate(call: Call, request: AnnotationOf) -> Memory:
    """Change the labels, weights and validity of a memory; its text never changes."""
    agent, changes = call.agent, request.changes.model_dump(exclude_none=True)
    _found(agent.get(request.id), "memory", "memory list")
    return agent.annotate(request.id, **changes, expected_version=request.expected_version)


@operation("DELETE /memories/{id}", "memories", "write", headers={"expected_version": "If-Match"})
def forget(call: Call, which: Forgetting) -> ForgetReceipt:
    """Delete a memory and everything that belongs to it; the receipt lists what was deleted."""
    return call.agent.forget(which.id, expected_version=which.expected_version)


@operation("POST /recall", "memories")
def recall(call: Call, query: RecallQuery) -> Recalled:
    """Find the memories that answer a question, best first."""
    hits = call.agent.recall(query.query, query.k, **query.model_dump(exclude={"query", "k"}, exclude_defaults=True))
    return Recalled(id=hits.id, hits=tuple(hits))


@operation("POST /context", "memories")
def context(call: Call, query: ContextQuery) -> ContextText:
    """Write the memories that answer a question as a text for a model: quoted, each with its origin and trust."""
    filters = query.model_dump(exclude={"query", "k", "budget_tokens"}, exclude_defaults=True)
    return ContextText(text=call.agent.context(query.query, query.k, budget_tokens=query.budget_tokens, **filters))


# Decisions --------------------------------------------------------------------------------------------


@operation("POST /decisions", "learning", "write", status=201, repeat="key")
def record_decision(call: Call, decision: NewDecision) -> Receipt:
    """Record a decision in a context and, if it is known, its outcome."""
    given = decision.model_dump(exclude_defaults=True) | {"context": decision.context, "action": decision.action}
    return stored(call.agent.record_decision(**given))


@operation("GET /decisions", "learning")
def list_decisions(call: Call, query: DecisionListing) -> Page[Memory]:
    """List the decisions taken in a context, newest first."""
    return _page(query, call.agent.decisions(query.context), "decisions", call.agent.name, query.context)


@operation("POST /outcomes", "learning", "write")
def tell_outcome(call: Call, outcome: NewOutcome) -> Noted:
    """Record the outcome of a decision, a recall or a suggestion, by its id; repeating it changes nothing."""
    given = outcome.model_dump(exclude={"id", "outcome"}, exclude_defaults=True)
    return Noted(news=call.agent.outcome(outcome.id, outcome.outcome, **given))


@operation("GET /decisions/{id}/outcomes", "learning")
def list_outcomes(call: Call, query: OutcomeListing) -> Page[RecordedOutcome]:
    """List every outcome that was recorded for a decision, oldest first; the last one counts."""
    return _page(query, call.agent.outcomes(query.id), "outcomes", call.agent.name, query.id)


@operation("POST /suggestions", "learning")
def suggest(call: Call, query: SuggestionQuery) -> Suggestion:
    """Recommend an action in a context, from outcomes in it and in similar ones, or abstain."""
    return call.agent.suggest(**query.model_dump())


@operation("POST /predictions", "learning")
def predict(call: Call, query: PredictionQuery) -> Prediction:
    """Predict how likely an action is to succeed in a context."""
    return call.agent.predict(**query.model_dump())


@operation("POST /checks", "learning")
def check(call: Call, query: CheckQuery) -> Verdict:
    """Allow, warn about or block an action, with the failures that speak against it and what worked instead."""
    return call.agent.check(**query.model_dump())


@operation("GET /patterns/success", "learning", command="memory patterns")
def list_success_patterns(call: Call, query: Listing) -> Page[SuccessPattern]:
    """List approaches that worked repeatedly, why, and how to repeat them; shared ones have a source."""
    return _page(query, call.agent.shared_patterns.all_successes(), "successes", call.agent.name)


@operation("GET /patterns/decisions", "learning")
def list_decision_templates(call: Call, query: Listing) -> Page[DecisionTemplate]:
    """List small decision trees, one for each kind of situation; shared ones have a source."""
    return _page(query, call.agent.shared_patterns.all_templates(), "templates", call.agent.name)


# Failures ---------------------------------------------------------------------------------------------


@operation("POST /failures", "failures", "write", status=201, repeat="key")
def learn_from_failure(call: Call, failure: NewFailure) -> FailurePattern:
    """Record a failure and its solution; return the failure pattern that it belongs to."""
    return call.agent.learn_from_failure(failure.error, **failure.model_dump(exclude={"error"}, exclude_defaults=True))


@operation("GET /failures", "failures", command="learning failures")
def list_failures(call: Call, query: Listing) -> Page[FailurePattern]:
    """List the known failures, the most recently seen first; shared ones, with their source, come last."""
    return _page(query, call.agent.shared_patterns.all_failures(), "failures", call.agent.name)


@operation("GET /failures/{name}", "failures")
def get_failure(call: Call, which: Named) -> FailurePattern:
    """Get one failure: where and when it was seen, what solved it, and what prevents it."""
    return _found(call.agent.shared_patterns.failure(which.name), "failure", "learning failures")


@operation("POST /failures/{name}/solutions", "failures", "write", repeat="never")
def tell_solution(call: Call, tried: SolutionOf) -> FailurePattern:
    """Record that a solution of a failure was tried, and how well it worked."""
    return call.agent.learning.tried(tried.name, tried.solution, tried.helped)


@operation("GET /prevention/checks", "failures", command="prevention list")
def list_checks(call: Call, query: Listing) -> Page[PreventionCheck]:
    """List the checks that keep failures from coming back, by name; shared ones, with their source, come last."""
    return _page(query, call.agent.shared_patterns.all_checks(), "checks", call.agent.name)


@operation("POST /prevention/checks", "failures", "write")
def generate_checks(call: Call, request: NewChecks) -> Page[PreventionCheck]:
    """Make checks from a failure and what solved it, and store them."""
    return Page(items=tuple(call.agent.learning.generate(request.pattern, stage=request.stage)))


# Reports ----------------------------------------------------------------------------------------------


@operation("GET /stats", "reports")
def get_stats(call: Call, nothing: Nothing) -> LearningStats:
    """Get the five measures of success, from the agent's own data."""
    return call.agent.learning.stats()


@operation("GET /evaluation", "reports")
def evaluate(call: Call, query: EvaluationQuery) -> EvaluationReport:
    """Report how often recalls helped, how many decisions memory informed, and whether that drifts."""
    return call.brain.upkeep.evaluate([call.agent.name], **query.model_dump())


# Agents -----------------------------------------------------------------------------------------------


@operation("GET /agents", "agents", about="key", command="agent list")
def list_agents(call: Call, query: Listing) -> Page[AgentView]:
    """List the agents that this key may act for and that have stored something, by name."""
    found = _page(query, call.agents(), "agents", call.key.id)
    return Page(items=tuple(_view(call, name) for name in found.items), next_cursor=found.next_cursor)


@operation("GET /agents/{name:path}", "agents", about="key")
def get_agent(call: Call, which: AgentName) -> AgentView:
    """Get one agent and its definition."""
    if which.name not in call.agents():
        raise no_agent()
    return _view(call, which.name)


@operation("GET /cycles", "life", command="agent cycles")
def list_cycles(call: Call, query: Listing) -> Page[AgentCycle]:
    """List the cycles of an agent, newest first."""
    which = ("cycles", call.agent.name)
    before = None if query.cursor is None else paging.read(query.cursor, 1, *which)[0]
    found = call.agent.life.cycles(query.limit, before=before)
    last = found[-1].index if found else 1
    return Page(items=tuple(found), next_cursor=paging.write([last], *which) if last > 1 else None)


@operation("GET /cycles/state", "life")
def get_state(call: Call, nothing: Nothing) -> AgentState:
    """Get the progress of an agent: its last completed cycle, and its open ones."""
    return call.agent.life.resume()


@operation("GET /cycles/{index}", "life")
def get_cycle(call: Call, which: CycleIndex) -> AgentCycle:
    """Get one cycle."""
    return _found(call.agent.life.cycle(which.index), "cycle", "agent cycles")


@operation("POST /cycles", "life", "write", status=201, repeat="never")
def propose(call: Call, proposal: NewCycle) -> AgentCycle:
    """Begin a cycle: store the action before it is carried out."""
    return call.agent.life.propose(**proposal.model_dump())


@operation("POST /cycles/{index}/result", "life", "write")
def tell_result(call: Call, request: ResultOf) -> AgentCycle:
    """Complete a cycle with its result; repeating the same result changes nothing."""
    end = request.end
    error = end.error.model_dump() if isinstance(end.error, CycleError) else end.error
    return call.agent.life.result(
        request.index, output=end.output, error=error, artifacts=end.artifacts, learn=end.learn
    )


@operation("POST /cycles/{index}/resolution", "life", "write", repeat="never")
def resolve(call: Call, request: ResolutionOf) -> AgentCycle:
    """Resolve a cycle without a result: abandon it, or repeat it in a new cycle, which is returned."""
    return call.agent.life.resolve(request.index, request.decision.how, reason=request.decision.reason)


@operation("GET /workspaces", "life", command="workspace list")
def list_workspaces(call: Call, query: Listing) -> Page[Workspace]:
    """List the folders that are tracked, oldest first."""
    return _page(query, call.agent.workspaces.list(), "workspaces", call.agent.name)


@operation("GET /workspaces/{name}/snapshots", "life", renamed={"workspace": "name"})
def list_snapshots(call: Call, query: SnapshotListing) -> Page[Snapshot]:
    """List the snapshots of a workspace, oldest first."""
    found = call.agent.workspaces.snapshots(query.workspace)
    return _page(query, found, "snapshots", call.agent.name, query.workspace)


@operation("GET /workspaces/{name}/diff", "life", renamed={"workspace": "name"})
def diff(call: Call, query: DiffQuery) -> WorkspaceDiff:
    """Show what changed from one snapshot to another."""
    return call.agent.workspaces.diff(query.workspace, query.before, query.after)


@operation("GET /workflows/runs", "life", command="workflow list")
def list_runs(call: Call, query: RunListing) -> Page[RunSummary]:
    """List the runs of workflows, newest first."""
    found = call.agent.workflows().runs(limit=RUNS, workflow=query.workflow)
    return _page(query, found, "runs", call.agent.name, query.workflow)


@operation("GET /workflows/runs/{run}", "life")
def get_run(call: Call, which: RunId) -> ExecutionResult:
    """Get the state of a run: its steps, and what the memory knows about those that failed."""
    return call.agent.workflows().status(which.run)


# Grants -----------------------------------------------------------------------------------------------


@operation("POST /grants/requests", "grants", "share", status=201, repeat="key")
def request_grant(call: Call, terms: GrantRequest) -> Grant:
    """Ask another agent for knowledge, and say what for; nothing is shared until it approves."""
    return call.agent.grants.request(call.check_name(terms.owner), **_terms(call, terms), key=call.repeat_key)


@operation("POST /grants/offers", "grants", "share", status=201, repeat="key")
def offer_grant(call: Call, terms: GrantOffer) -> Grant:
    """Offer knowledge to another agent; it is shared once that agent approves."""
    return call.agent.grants.offer(call.check_name(terms.to), **_terms(call, terms), key=call.repeat_key)


@operation("POST /grants", "grants", "share", status=201, repeat="key")
def share(call: Call, terms: GrantShare) -> Grant:
    """Share knowledge at once with an agent, a group or everyone; also knowledge of others, if they allow that."""
    to, fields = call.check_name(terms.to), _terms(call, terms)
    return call.agent.grants.share(to, via=terms.via, **fields, key=call.repeat_key)


@operation("POST /grants/{id}/approval", "grants", "share", repeat="never")
def approve_grant(call: Call, terms: GrantApproval) -> Grant:
    """Approve a request, with other rights and an end if they are given, or an offer as it is."""
    return call.agent.grants.approve(terms.id, rights=terms.rights or None, expires=terms.expires)


@operation("POST /grants/{id}/denial", "grants", "share")
def deny_grant(call: Call, which: Id) -> Grant:
    """Deny a request or an offer."""
    return call.agent.grants.deny(which.id)


@operation("POST /grants/{id}/revocation", "grants", "share")
def revoke_grant(call: Call, which: Id) -> Revocation:
    """End a grant at once, and delete what its receivers derived from it; repeating it changes nothing."""
    return call.agent.grants.revoke(which.id)


@operation("GET /grants/{id}", "grants", "share")
def get_grant(call: Call, which: Id) -> Grant:
    """Get one grant, as it stands now."""
    return call.agent.grants.get(which.id)


@operation("GET /grants", "grants", "share", command="grant list")
def list_grants(call: Call, query: GrantListing) -> Page[Grant]:
    """List the grants that the agent gave, received, requested or was offered, oldest first, as they stand now."""
    state = None if query.state is None else str(query.state)
    return _page(query, call.agent.grants.list(state), "grants", call.agent.name, state)


@operation("GET /grants/{id}/uses", "grants", "share")
def list_grant_uses(call: Call, query: UseListing) -> Page[GrantUse]:
    """List who used a grant for what; its owner sees all uses, others their own."""
    return _page(query, call.agent.grants.uses(query.id, USES), "uses", call.agent.name, query.id)


@operation("GET /sources", "grants", "share")
def list_sources(call: Call, query: Listing) -> Page[Source]:
    """List the agents whose knowledge the agent may use, and how far it has reason to trust each."""
    return _page(query, call.agent.grants.sources(), "sources", call.agent.name)


@operation("GET /groups", "grants", "admin", about="all")
def list_groups(call: Call, query: Listing) -> Page[GroupView]:
    """List the groups that knowledge can be shared with, by name; this needs a key for all agents."""
    known = sorted(call.brain.ledger.groups().items())
    groups = [GroupView(name=name, members=tuple(sorted(members))) for name, members in known]
    return _page(query, groups, "groups", call.key.id)


@operation("PATCH /groups/{name}", "grants", "admin", about="all")
def change_group(call: Call, change: GroupChangeOf) -> GroupView:
    """Change who is in a group, which exists as long as it has a member; this needs a key for all agents."""
    brain, added = call.brain, [call.brain.agent(each).name for each in change.add]
    name = call.check_name(change.name)
    members = brain.ledger.regroup(name, add=added, remove=change.remove, redactor=brain.redactor)
    return GroupView(name=change.name, members=tuple(sorted(members)))


# Knowledge of others ----------------------------------------------------------------------------------


@operation("POST /knowledge/merge", "knowledge", "share", long=True)
def merge_knowledge(call: Call, request: Merge) -> ImportReport:
    """Import what another agent shares to learn from; it is kept as long as its grant stands."""
    return call.agent.knowledge.merge(**request.model_dump())


@operation("GET /quarantine", "quarantine", command="quarantine list")
def list_quarantined(call: Call, query: Listing) -> Page[Quarantined]:
    """List quarantined memories, newest first, with the reasons; they are in no search, list or pattern."""
    return _page(query, call.agent.quarantine.list(), "quarantine", call.agent.name)


@operation("GET /quarantine/{id}", "quarantine")
def get_quarantined(call: Call, which: Id) -> Quarantined:
    """Get one quarantined memory, and why it is there."""
    if not call.is_storable(which.id):
        raise NotFound("nothing of that name is quarantined", hint=Hint("quarantine list"))
    return call.agent.quarantine.get(which.id)


@operation("POST /quarantine/{id}/release", "quarantine", "admin", repeat="never")
def release(call: Call, which: Id) -> Memory:
    """Release a quarantined memory to the agent. It requires the right `admin`: the agent itself cannot decide this."""
    return call.agent.quarantine.release(get_quarantined(call, which).id)


@operation("DELETE /quarantine/{id}", "quarantine", "write", repeat="never")
def discard(call: Call, which: Id) -> ForgetReceipt:
    """Delete a quarantined memory."""
    return call.agent.quarantine.discard(get_quarantined(call, which).id)


# Administration ---------------------------------------------------------------------------------------


@operation("GET /audit", "audit", "admin", about="named")
def list_audit(call: Call, query: AuditListing) -> AuditEntries:
    """List audit entries in order: of the named agent, or of all, if none is named and the key is for all."""
    return AuditEntries(items=tuple(call.brain.audit.find(**query.model_dump(), agent=call.audited_agent())))


@operation("GET /audit/verification", "audit", "admin", about="all", long=True, command="audit verify")
def verify_audit(call: Call, nothing: Nothing) -> AuditVerification:
    """Check every entry, and report each one that was changed; this needs a key for all agents."""
    return call.brain.audit.verify()


@operation("GET /retention/policies", "retention", "admin", about="all", command="retention list")
def list_policies(call: Call, query: Listing) -> Page[Policy]:
    """List the policies in force, in the order in which they run."""
    return _page(query, [*map(_policy, call.brain.retention.policies())], "policies", call.key.id)


@operation("POST /retention/policies", "retention", "admin", about="all")
def set_policy(call: Call, policy: Policy) -> Policy:
    """Set a policy; it replaces the one of this name."""
    age = None if policy.older_than_days is None else timedelta(days=policy.older_than_days)
    call.check_storable(policy.name, *policy.tags)
    agent = None if policy.agent is None else call.brain.agent(policy.agent).name
    tags = tuple(map(call.brain.clean, policy.tags))
    fields = policy.model_dump(exclude={"name", "older_than_days", "agent", "tags"})
    return _policy(call.brain.retention.set(policy.name, agent=agent, tags=tags, older_than=age, **fields))


@operation("DELETE /retention/policies/{name}", "retention", "admin", about="all", repeat="never")
def remove_policy(call: Call, which: Named) -> Policy:
    """Remove a policy."""
    return _policy(call.brain.retention.remove(which.name))


@operation("GET /retention/holds", "retention", "admin", about="all", command="retention holds")
def list_holds(call: Call, query: Listing) -> Page[LegalHold]:
    """List the holds in force, oldest first."""
    return _page(query, call.brain.retention.holds(), "holds", call.key.id)


@operation("POST /retention/holds", "retention", "admin", about="all", status=201, repeat="never")
def hold(call: Call, request: NewHold) -> LegalHold:
    """Protect all memories of an agent, or those that are named, from every deletion."""
    call.check_storable(request.reason, *request.memories, *request.tags, *request.sessions)
    agent = None if request.agent is None else call.brain.agent(request.agent).name
    return call.brain.retention.hold(agent=agent, **request.model_dump(exclude={"agent"}))


@operation(
    "POST /retention/holds/{id}/release", "retention", "admin", about="all", repeat="never", command="retention release"
)
def release_hold(call: Call, which: Id) -> LegalHold:
    """End a hold."""
    return call.brain.retention.release(which.id)


@operation("POST /retention/runs", "retention", "admin", about="all", long=True)
def run_retention(call: Call, request: RetentionRun) -> RetentionReport:
    """Delete or archive the memories that match a policy, except those that are pinned or under a hold."""
    agents = None if request.agents is None else [call.brain.agent(name).name for name in request.agents]
    return call.brain.retention.run(agents=agents, dry_run=request.dry_run)


def draft_of(draft: NewMemory) -> Draft:
    """Convert a draft for the engine."""
    return Draft(**draft.model_dump(exclude_unset=True))


def stored(receipt: Receipt) -> Receipt:
    """Return the receipt of a draft that was stored. Raises `Refused` for any other."""
    if receipt.id is None:
        raise Refused(receipt)
    return receipt


def no_agent() -> NotFound:
    """Return the error for an agent that does not exist or that the key is not for."""
    return NotFound("there is no such agent", hint=Hint("agent list"))


def _found(thing: T | None, what: str, command: str) -> T:
    if thing is None:
        raise NotFound(f"there is no such {what}", hint=Hint(command))
    return thing


def _page(query: Listing, items: Any, *of: object) -> Page[Any]:
    return paging.slice_of(items, query.limit, query.cursor, *of)


def _view(call: Call, name: str) -> AgentView:
    return AgentView(name=name, definition=call.brain.definitions.current(name))


def _terms(call: Call, terms: Terms) -> dict[str, Any]:
    """Convert the terms of a grant for the engine; without rights, the defaults apply. Raises `InvalidInput`."""
    for text in (*terms.memories, *terms.patterns):
        call.check_name(text)
    given = terms.model_dump(include=set(Terms.model_fields))
    return given if terms.rights else {name: value for name, value in given.items() if name != "rights"}


def _policy(policy: RetentionPolicy) -> Policy:
    age = None if policy.older_than is None else policy.older_than / timedelta(days=1)
    return Policy(**policy.model_dump(exclude={"older_than"}), older_than_days=age)
