"""Every call as a value: what is sent, and what is made of the answer. Nothing here talks to anybody."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Generic, Literal, TypeVar
from urllib.parse import quote

from pydantic import BaseModel, JsonValue, TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError

from engram.client.methods import ERRORS, Item, Texts, drafted, error_text, several
from engram.errors import EngramError, InvalidInput, NotAllowed, NotFound, StoreAway, TooMany
from engram.model import (
    AgentCycle,
    AgentState,
    AuditEntry,
    DecisionTemplate,
    EvaluationReport,
    ExecutionResult,
    FailurePattern,
    ForgetReceipt,
    Hit,
    LearningStats,
    Memory,
    Prediction,
    PreventionCheck,
    Recall,
    Receipt,
    RecordedOutcome,
    RunSummary,
    Snapshot,
    SuccessPattern,
    Suggestion,
    Verdict,
    Workspace,
    WorkspaceDiff,
    describe_error,
)
from engram.model.audit import AuditVerification
from engram.model.grant import Grant, GrantUse, Revocation, Source
from engram.model.memory import Quarantined
from engram.model.retention import LegalHold, RetentionReport
from engram.model.transfer import ImportReport
from engram.model.wire import (
    AgentView,
    Annotation,
    CheckQuery,
    ContextQuery,
    ContextText,
    CycleDecision,
    CycleEnd,
    GrantAgreement,
    GrantOffer,
    GrantRequest,
    GrantShare,
    GroupChange,
    GroupView,
    Health,
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
    Problem,
    Recalled,
    RecallQuery,
    Receipts,
    RetentionRun,
    SuggestionQuery,
    TriedSolution,
)

R = TypeVar("R")
M = TypeVar("M", bound=BaseModel)
When = datetime | str
Memories = list[Memory]
USUAL, MOST = 50, 500
UNSENDABLE = "a text has half of a surrogate pair, which cannot be sent; decode it properly first"


@dataclass(frozen=True, slots=True)
class Call(Generic[R]):
    """One request, and what its answer means."""

    method: str
    path: str
    """Under `/v1`, unless it begins with two slashes."""
    read: Callable[[bytes], R]
    body: Mapping[str, JsonValue] | None = None
    file: bytes | None = None
    """What is sent as it is, instead of a body."""
    params: tuple[tuple[str, str], ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    write: bool = False
    """Whether it needs a key to be repeated safely."""
    repeatable: bool = True
    """Whether it may be sent again if nobody knows what became of it."""
    receipt: Callable[[Receipt], R] | None = None
    """What is made of the receipt of a draft that was refused; an error, if left out."""
    absent: Callable[[], R] | None = None
    """What is made of the answer that there is no such thing; an error, if left out."""
    answers: tuple[int, ...] = ()
    """Statuses that are no errors here."""

    def result(self, status: int, content: bytes) -> R:
        """What the answer says. Raises the error that the engine has raised."""
        if status < 400 or status in self.answers:
            return self.read(content)
        problem = _problem(status, content)
        if problem.receipt is not None and self.receipt is not None:
            return self.receipt(problem.receipt)
        if status == 404 and problem.code == NotFound.code and self.absent is not None:
            return self.absent()
        raise error_of(problem)


_BY_STATUS = {400: InvalidInput, 413: TooMany, 421: NotAllowed, 408: StoreAway, 503: StoreAway}


def error_of(problem: Problem) -> EngramError:
    """The error that a problem tells of."""
    kind = ERRORS.get(problem.code) or _BY_STATUS.get(problem.status, EngramError)
    flaws = "; ".join(f"{flaw.where}: {flaw.what}" for flaw in problem.errors)
    return kind(f"{problem.detail}: {flaws}" if flaws else problem.detail)


def _problem(status: int, content: bytes) -> Problem:
    try:
        return Problem.model_validate_json(content)
    except ValidationError:  # something between here and the server has answered
        said = f"the answer was a {status} that is none of Engram's; look at what is between here and the server"
        return Problem(type="about:blank", title="", status=status, detail=said, code="")


# Memories ----------------------------------------------------------------------------------------------


def remember(item: Item, fields: Mapping[str, Any]) -> Call[Receipt]:
    """Remember one thing."""
    body = _sent(_made(NewMemory, **drafted(item, fields)))
    return Call("POST", "/memories", _reader(Receipt), body, write=True, receipt=lambda receipt: receipt)


def remember_all(items: Sequence[Item], fields: Mapping[str, Any]) -> Call[list[Receipt]]:
    """Remember several things in one transaction; one receipt each, in order."""
    drafts = _made(NewMemories, items=[_made(NewMemory, **drafted(item, fields)) for item in items])
    keyed = any(draft.key is not None for draft in drafts.items)
    body: dict[str, JsonValue] = {"items": [_sent(draft) for draft in drafts.items]}
    return Call(
        "POST",
        "/memories/batch",
        lambda content: list(_reader(Receipts)(content).receipts),
        body,
        write=not keyed,
        repeatable=all(draft.key is not None for draft in drafts.items) or not keyed,
    )


def get(id: str) -> Call[Memory | None]:
    """The memory with this id, or `None` if this agent has none."""
    return Call("GET", f"/memories/{_part(id)}", _reader(Memory), absent=lambda: None)


def newest(
    *,
    limit: int = USUAL,
    kinds: Texts = (),
    tags: Texts = (),
    since: When | None = None,
    until: When | None = None,
    as_of: When | None = None,
    session: str | None = None,
) -> Call[Memories]:
    """The newest memories of this agent, newest first; 500 at most. `page` gives all of them, part by part."""
    asked = _listing(limit, kinds, tags, since, until, as_of, session, None)
    return Call("GET", "/memories", lambda content: [*_pages(Memory)(content).items], params=asked)


def page(
    cursor: str | None = None,
    *,
    limit: int = USUAL,
    kinds: Texts = (),
    tags: Texts = (),
    since: When | None = None,
    until: When | None = None,
    as_of: When | None = None,
    session: str | None = None,
) -> Call[Page[Memory]]:
    """A part of the memories, newest first, and the cursor with which it goes on."""
    asked = _listing(limit, kinds, tags, since, until, as_of, session, cursor)
    return Call("GET", "/memories", _pages(Memory), params=asked)


def annotate(
    id: str,
    *,
    tags: Sequence[str] | None = None,
    importance: float | None = None,
    confidence: float | None = None,
    valid_until: When | None = None,
    expected_version: int | None = None,
) -> Call[Memory]:
    """Change what surrounds a memory. Raises `NotFound`, or `Conflict` if it has another version by now."""
    changes = _made(Annotation, tags=tags, importance=importance, confidence=confidence, valid_until=valid_until)
    headers = {} if expected_version is None else {"If-Match": f'"{expected_version}"'}
    return Call("PATCH", f"/memories/{_part(id)}", _reader(Memory), _sent(changes), headers=headers, write=True)


def forget(id: str, *, expected_version: int | None = None) -> Call[ForgetReceipt]:
    """Remove a memory and everything that belongs to it; the receipt lists what went.

    Raises `Conflict` if it has another version than the one that is expected.
    """
    headers = {} if expected_version is None else {"If-Match": f'"{expected_version}"'}
    path, repeatable = f"/memories/{_part(id)}", expected_version is None
    return Call("DELETE", path, _reader(ForgetReceipt), headers=headers, write=True, repeatable=repeatable)


def recall(
    query: str,
    k: int = 5,
    *,
    kinds: Texts = (),
    tags: Texts = (),
    since: When | None = None,
    until: When | None = None,
    as_of: When | None = None,
    now: When | None = None,
    session: str | None = None,
    min_score: float = 0.0,
    group_by: Literal["session"] | None = None,
    budget_tokens: int | None = None,
    expand: bool = False,
) -> Call[Recall]:
    """The memories that answer a query, best first, with the parts of their scores."""
    asked = _made(
        RecallQuery,
        query=query,
        k=k,
        kinds=several(kinds),
        tags=several(tags),
        since=since,
        until=until,
        as_of=as_of,
        now=now,
        session=session,
        min_score=min_score,
        group_by=group_by,
        budget_tokens=budget_tokens,
        expand=expand,
    )
    return Call("POST", "/recall", _recalled, _sent(asked))


def context(query: str, k: int = 8, *, budget_tokens: int = 1000, **wanted: Any) -> Call[str]:
    """What is remembered about a query as a text for a model; `wanted` is what `recall` takes."""
    rows = {name: several(wanted[name]) for name in ("kinds", "tags") if name in wanted}
    asked = _made(ContextQuery, query=query, k=k, budget_tokens=budget_tokens, **wanted | rows)
    return Call("POST", "/context", lambda content: _reader(ContextText)(content).text, _sent(asked))


# Decisions ---------------------------------------------------------------------------------------------


def record_decision(
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
    informed_by: Texts = (),
    from_others: bool = False,
    tags: Texts = (),
    **fields: Any,
) -> Call[Receipt]:
    """Remember what was done in a context and how it went; `fields` are at, session, importance, key, metadata."""
    decision = _made(
        NewDecision,
        context=context,
        action=action,
        outcome=outcome,
        alternatives=tuple(alternatives),
        environment=environment,
        tool=tool,
        task_type=task_type,
        error=error_text(error),
        duration=duration,
        cost=cost,
        informed_by=several(informed_by),
        from_others=from_others,
        tags=several(tags),
        **fields,
    )
    return Call("POST", "/decisions", _reader(Receipt), _sent(decision), write=True, receipt=lambda receipt: receipt)


def outcome(
    id: str,
    outcome: str | float,
    *,
    used: str | Hit | Iterable[str | Hit] | None = None,
    action: str | None = None,
    error: str | BaseException = "",
    duration: float | None = None,
    cost: float | None = None,
    correct: bool = False,
) -> Call[bool]:
    """Tell how it went, by the id of a decision, a recall or a suggestion; `False` if just that was known."""
    shown = [used] if isinstance(used, str | Hit) else used
    ids = None if shown is None else tuple(each if isinstance(each, str) else each.id for each in shown)
    told = _made(
        NewOutcome,
        id=id,
        outcome=outcome,
        used=ids,
        action=action,
        error=error_text(error),
        duration=duration,
        cost=cost,
        correct=correct,
    )
    return Call("POST", "/outcomes", lambda content: _reader(Noted)(content).news, _sent(told), write=True)


def outcomes(id: str) -> Call[list[RecordedOutcome]]:
    """Everything that was told about how a decision went, oldest first; the last one counts."""
    return _listed(f"/decisions/{_part(id)}/outcomes", RecordedOutcome)


def decisions(context: str) -> Call[Memories]:
    """The decisions taken in a context, newest first; 500 at most."""
    return _listed("/decisions", Memory, ("context", context))


def suggest(
    context: str,
    *,
    actions: Sequence[str] | None = None,
    explore: bool = False,
    environment: str = "",
    tool: str = "",
    task_type: str = "",
    tags: Texts = (),
) -> Call[Suggestion]:
    """What to do in a context: a recommendation or an abstention."""
    asked = _made(
        SuggestionQuery,
        context=context,
        actions=actions,
        explore=explore,
        environment=environment,
        tool=tool,
        task_type=task_type,
        tags=several(tags),
    )
    return Call("POST", "/suggestions", _reader(Suggestion), _sent(asked))


def predict(
    context: str, action: str, *, environment: str = "", tool: str = "", task_type: str = "", tags: Texts = ()
) -> Call[Prediction]:
    """How likely an action is to succeed in a context."""
    asked = _made(
        PredictionQuery,
        context=context,
        action=action,
        environment=environment,
        tool=tool,
        task_type=task_type,
        tags=several(tags),
    )
    return Call("POST", "/predictions", _reader(Prediction), _sent(asked))


def check(
    action: str, context: str = "", *, environment: str = "", tool: str = "", task_type: str = "", tags: Texts = ()
) -> Call[Verdict]:
    """Whether an action may go ahead: allow, warn or block."""
    asked = _made(
        CheckQuery,
        action=action,
        context=context,
        environment=environment,
        tool=tool,
        task_type=task_type,
        tags=several(tags),
    )
    return Call("POST", "/checks", _reader(Verdict), _sent(asked))


def success_patterns() -> Call[list[SuccessPattern]]:
    """Approaches that worked again and again, why, and how to repeat them."""
    return _listed("/patterns/success", SuccessPattern)


def decision_templates() -> Call[list[DecisionTemplate]]:
    """Small decision trees, one for each kind of situation."""
    return _listed("/patterns/decisions", DecisionTemplate)


# Failures ----------------------------------------------------------------------------------------------


def learn_from_failure(
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
    tags: Texts = (),
    **fields: Any,
) -> Call[FailurePattern]:
    """Learn what went wrong, and what was done about it; `fields` are at, session and key."""
    told = _made(
        NewFailure,
        error=error_text(error),
        solution=solution,
        helped=helped,
        action=action,
        context=context,
        environment=environment,
        tool=tool,
        task_type=task_type,
        root_cause=root_cause,
        prevention=prevention,
        tags=several(tags),
        **fields,
    )
    return Call("POST", "/failures", _reader(FailurePattern), _sent(told), write=True)


def failures() -> Call[list[FailurePattern]]:
    """The failures that are known, the most recently seen first; 500 at most."""
    return _listed("/failures", FailurePattern)


def failure(name: str) -> Call[FailurePattern | None]:
    """The failure of this id or name, or the one that a memory of this id belongs to."""
    return Call("GET", f"/failures/{_part(name)}", _reader(FailurePattern), absent=lambda: None)


def tried(pattern: str, solution: str, helped: bool | float = True) -> Call[FailurePattern]:
    """Learn how a solution did. Raises `NotFound` if there is no such failure."""
    told = _made(TriedSolution, solution=solution, helped=helped)
    path = f"/failures/{_part(pattern)}/solutions"
    return Call("POST", path, _reader(FailurePattern), _sent(told), write=True, repeatable=False)


def checks() -> Call[list[PreventionCheck]]:
    """The prevention checks, by name; 500 at most."""
    return _listed("/prevention/checks", PreventionCheck)


def generate(pattern: str, *, stage: str = "") -> Call[list[PreventionCheck]]:
    """Make checks from a failure and what solved it, and keep them. Raises `NotFound`."""
    body = _sent(_made(NewChecks, pattern=pattern, stage=stage))
    return Call(
        "POST", "/prevention/checks", lambda content: [*_pages(PreventionCheck)(content).items], body, write=True
    )


# Life and reports --------------------------------------------------------------------------------------


def agents() -> Call[list[AgentView]]:
    """The agents that the key is for and that have stored something, by name; 500 at most."""
    return _listed("/agents", AgentView)


def agent(name: str) -> Call[AgentView | None]:
    """An agent, and who it is; `None` if the key is not for it, or it has stored nothing."""
    return Call("GET", f"/agents/{_part(name)}", _reader(AgentView), absent=lambda: None)


def propose(
    *,
    thoughts: JsonValue = "",
    tool: str = "",
    arguments: Mapping[str, JsonValue] | None = None,
    reasoning: str = "",
    plan: Texts = (),
    workspace: str = "",
    again: bool = False,
) -> Call[AgentCycle]:
    """Begin a cycle: once this returns, what is about to be done is kept, and it may be done."""
    proposal = _made(
        NewCycle,
        thoughts=thoughts,
        tool=tool,
        arguments=arguments or {},
        reasoning=reasoning,
        plan=several(plan),
        workspace=workspace,
        again=again,
    )
    return Call("POST", "/cycles", _reader(AgentCycle), _sent(proposal), write=True)


def result(
    index: int,
    *,
    output: JsonValue = None,
    error: str | Mapping[str, JsonValue] | None = None,
    artifacts: Texts = (),
    learn: bool = False,
) -> Call[AgentCycle]:
    """Complete a cycle with what came of it; telling the same again changes nothing."""
    end = _made(CycleEnd, output=output, error=error, artifacts=several(artifacts), learn=learn)
    return Call("POST", f"/cycles/{index:d}/result", _reader(AgentCycle), _sent(end), write=True)


def resolve(index: int, how: Literal["abandon", "retry"], *, reason: str = "") -> Call[AgentCycle]:
    """Decide about a cycle without a result: `abandon` ends it, `retry` begins a new one that names it."""
    body = _sent(_made(CycleDecision, how=how, reason=reason))
    return Call("POST", f"/cycles/{index:d}/resolution", _reader(AgentCycle), body, write=True)


def state() -> Call[AgentState]:
    """Where the agent stands: what it completed last, and what it was in the middle of."""
    return Call("GET", "/cycles/state", _reader(AgentState))


def cycle(index: int) -> Call[AgentCycle | None]:
    """The cycle with this number, or `None` if this agent has none."""
    return Call("GET", f"/cycles/{index:d}", _reader(AgentCycle), absent=lambda: None)


def cycles() -> Call[list[AgentCycle]]:
    """The newest cycles, newest first; 500 at most."""
    return _listed("/cycles", AgentCycle)


def workspaces() -> Call[list[Workspace]]:
    """The folders that are tracked, the oldest first."""
    return _listed("/workspaces", Workspace)


def snapshots(workspace: str) -> Call[list[Snapshot]]:
    """The snapshots of a workspace, the oldest first; 500 at most."""
    return _listed(f"/workspaces/{_part(workspace)}/snapshots", Snapshot)


def diff(workspace: str, before: str, after: str = "latest") -> Call[WorkspaceDiff]:
    """What changed from one snapshot to another."""
    path, asked = f"/workspaces/{_part(workspace)}/diff", (("before", before), ("after", after))
    return Call("GET", path, _reader(WorkspaceDiff), params=asked)


def runs(workflow: str = "") -> Call[list[RunSummary]]:
    """The runs of workflows, newest first; 500 at most."""
    return _listed("/workflows/runs", RunSummary, ("workflow", workflow))


def run(id: str) -> Call[ExecutionResult]:
    """How far a run has come. Raises `NotFound`."""
    return Call("GET", f"/workflows/runs/{_part(id)}", _reader(ExecutionResult))


def stats() -> Call[LearningStats]:
    """The five measures of success, from the agent's own data."""
    return Call("GET", "/stats", _reader(LearningStats))


def evaluate(
    *, since: When | None = None, until: When | None = None, period: Literal["day", "week", "month"] = "week"
) -> Call[EvaluationReport]:
    """How often recalls helped, how many decisions memory informed, and whether that drifts."""
    asked = (("period", period), *_times(since=since, until=until))
    return Call("GET", "/evaluation", _reader(EvaluationReport), params=asked)


# Sharing -----------------------------------------------------------------------------------------------


def request_grant(owner: str, *, purpose: str, **terms: Any) -> Call[Grant]:
    """Ask another agent for knowledge; `terms` are memories, patterns, domains, tags, everything, rights, expires."""
    asked = _made(GrantRequest, owner=owner, purpose=purpose, **_terms(terms))
    return Call("POST", "/grants/requests", _reader(Grant), _sent(asked), write=True)


def offer_grant(to: str, *, purpose: str, **terms: Any) -> Call[Grant]:
    """Offer knowledge to another agent, which has to approve it; `terms` are those of `request_grant`."""
    offered = _made(GrantOffer, to=to, purpose=purpose, **_terms(terms))
    return Call("POST", "/grants/offers", _reader(Grant), _sent(offered), write=True)


def share(to: str, *, purpose: str = "", via: str = "", **terms: Any) -> Call[Grant]:
    """Share at once with an agent, `group:NAME` or `everyone`; `via` is the grant of what is shared on."""
    shared = _made(GrantShare, to=to, purpose=purpose, via=via, **_terms(terms))
    return Call("POST", "/grants", _reader(Grant), _sent(shared), write=True)


def approve_grant(id: str, *, rights: Texts = (), expires: When | None = None) -> Call[Grant]:
    """Agree to a request, with other rights and an end if they are given, or to an offer as it is."""
    agreed = _made(GrantAgreement, rights=several(rights), expires=expires)
    return Call("POST", f"/grants/{_part(id)}/approval", _reader(Grant), _sent(agreed), write=True)


def deny_grant(id: str) -> Call[Grant]:
    """Turn a request or an offer down."""
    return Call("POST", f"/grants/{_part(id)}/denial", _reader(Grant), write=True)


def revoke_grant(id: str) -> Call[Revocation]:
    """End a grant at once, and take back what was derived from it at its receivers."""
    return Call("POST", f"/grants/{_part(id)}/revocation", _reader(Revocation), write=True)


def grants(state: str | None = None) -> Call[list[Grant]]:
    """The grants that the agent gives, gets, asked for or was offered, oldest first; 500 at most."""
    return _listed("/grants", Grant, *([] if state is None else [("state", str(state))]))


def grant(id: str) -> Call[Grant]:
    """One grant, as it stands now. Raises `NotFound`."""
    return Call("GET", f"/grants/{_part(id)}", _reader(Grant))


def grant_uses(id: str) -> Call[list[GrantUse]]:
    """Who used a grant for what; its owner sees all uses, others their own; 500 at most."""
    return _listed(f"/grants/{_part(id)}/uses", GrantUse)


def sources() -> Call[list[Source]]:
    """Those whose knowledge the agent may use, and how far it has reason to trust each; 500 at most."""
    return _listed("/sources", Source)


def groups() -> Call[list[GroupView]]:
    """The groups that knowledge can be shared with; 500 at most. It takes a key that administers all agents."""
    return _listed("/groups", GroupView)


def change_group(name: str, *, add: Texts = (), remove: Texts = ()) -> Call[GroupView]:
    """Change who is in a group. It takes a key that administers all agents."""
    change = _made(GroupChange, add=several(add), remove=several(remove))
    return Call("PATCH", f"/groups/{_part(name)}", _reader(GroupView), _sent(change), write=True)


def quarantined() -> Call[list[Quarantined]]:
    """What is set apart for review, the newest first; 500 at most."""
    return _listed("/quarantine", Quarantined)


def quarantined_memory(id: str) -> Call[Quarantined]:
    """One memory that is set apart, and why. Raises `NotFound`."""
    return Call("GET", f"/quarantine/{_part(id)}", _reader(Quarantined))


def release(id: str) -> Call[Memory]:
    """Give a memory that was set apart back to the agent. It takes a key that administers."""
    return Call("POST", f"/quarantine/{_part(id)}/release", _reader(Memory), write=True)


def discard(id: str) -> Call[ForgetReceipt]:
    """Forget a memory that was set apart. Raises `NotFound`."""
    return Call("DELETE", f"/quarantine/{_part(id)}", _reader(ForgetReceipt), write=True, repeatable=False)


def export_knowledge(*, domains: Texts = (), tags: Texts = (), form: Literal["json", "jsonl"] = "json") -> Call[bytes]:
    """What the agent knows, all of it or of some domains and tags, as a file that can be imported elsewhere."""
    some = [("domain", domain) for domain in several(domains)] + [("tag", tag) for tag in several(tags)]
    return Call("GET", "/knowledge", bytes, params=(*some, ("form", form)))


def import_knowledge(
    file: bytes, *, format: str | None = None, dry_run: bool = False, large: bool = False
) -> Call[ImportReport]:
    """Take in the bytes of a file that Engram or another program wrote; again changes nothing.

    `large` is for a file with very many records, which may take long.
    """
    named = () if format is None else (("format", format),)
    asked = (*named, ("dry_run", str(dry_run).lower()), ("large", str(large).lower()))
    return Call("POST", "/knowledge", _reader(ImportReport), file=file, params=asked)


def merge_knowledge(
    from_agent: str, *, domains: Texts = (), tags: Texts = (), dry_run: bool = False
) -> Call[ImportReport]:
    """Take in what another agent shares to learn from. Raises `NotAllowed` if that is nothing."""
    wanted = _made(Merge, from_agent=from_agent, domains=several(domains), tags=several(tags), dry_run=dry_run)
    return Call("POST", "/knowledge/merge", _reader(ImportReport), _sent(wanted), write=True)


def audit(
    *, grant: str | None = None, since: When | None = None, newest: bool = True, limit: int = USUAL
) -> Call[list[AuditEntry]]:
    """What was done, in order: the newest entries, or the first. It takes a key that administers."""
    named = () if grant is None else (("grant", grant),)
    asked = (*named, *_times(since=since), ("newest", str(newest).lower()), ("limit", str(limit)))
    return Call("GET", "/audit", lambda content: [*_pages(AuditEntry)(content).items], params=asked)


def verify_audit() -> Call[AuditVerification]:
    """Look at every entry of the audit trail. It takes a key that administers all agents."""
    return Call("GET", "/audit/verification", _reader(AuditVerification))


# Retention; all of it takes a key that administers all agents ------------------------------------------


def policies() -> Call[list[Policy]]:
    """The retention policies in force, in the order in which they run; 500 at most."""
    return _listed("/retention/policies", Policy)


def set_policy(
    name: str,
    action: Literal["archive", "forget"],
    *,
    agent: str | None = None,
    kinds: Texts = (),
    tags: Texts = (),
    older_than_days: float | None = None,
    weaker_than: float | None = None,
    outcome: str | None = None,
) -> Call[Policy]:
    """Set a retention policy, instead of the one of this name."""
    wanted = _made(
        Policy,
        name=name,
        action=action,
        agent=agent,
        kinds=several(kinds),
        tags=several(tags),
        older_than_days=older_than_days,
        weaker_than=weaker_than,
        outcome=outcome,
    )
    return Call("POST", "/retention/policies", _reader(Policy), _sent(wanted), write=True)


def remove_policy(name: str) -> Call[Policy]:
    """Give a retention policy up. Raises `NotFound`."""
    return Call("DELETE", f"/retention/policies/{_part(name)}", _reader(Policy), write=True, repeatable=False)


def holds() -> Call[list[LegalHold]]:
    """The holds in force, oldest first; 500 at most."""
    return _listed("/retention/holds", LegalHold)


def hold(
    reason: str, *, agent: str | None = None, memories: Texts = (), tags: Texts = (), sessions: Texts = ()
) -> Call[LegalHold]:
    """Keep all memories of an agent, or those that are named, whoever wants to forget them."""
    some = {"memories": several(memories), "tags": several(tags), "sessions": several(sessions)}
    wanted = _made(NewHold, reason=reason, agent=agent, **some)
    return Call("POST", "/retention/holds", _reader(LegalHold), _sent(wanted), write=True, repeatable=False)


def release_hold(id: str) -> Call[LegalHold]:
    """End a hold. Raises `NotFound`."""
    return Call("POST", f"/retention/holds/{_part(id)}/release", _reader(LegalHold), write=True)


def run_retention(*, agents: Texts | None = None, dry_run: bool = False) -> Call[RetentionReport]:
    """Let go of what fulfils a policy that forgets; what is pinned or held stays."""
    wanted = _made(RetentionRun, agents=None if agents is None else several(agents), dry_run=dry_run)
    return Call("POST", "/retention/runs", _reader(RetentionReport), _sent(wanted), write=True)


# The server --------------------------------------------------------------------------------------------


def healthy() -> Call[bool]:
    """Whether the server runs."""
    return Call("GET", "//healthz", lambda content: _reader(Health)(content).status == "ok")


def ready() -> Call[bool]:
    """Whether the server's database answers."""
    return Call("GET", "//readyz", lambda content: _reader(Health)(content).status == "ok", answers=(503,))


def metrics() -> Call[str]:
    """What the server has counted, as Prometheus reads it."""
    return Call("GET", "//metrics", lambda content: content.decode())


# Parts -------------------------------------------------------------------------------------------------


def _made(model: type[M], **values: Any) -> M:
    """A request, checked before it is sent. Raises `InvalidInput`."""
    try:
        return model(**{name: value for name, value in values.items() if value is not None})
    except ValidationError as error:
        raise InvalidInput(describe_error(error)) from None


def _sent(model: BaseModel) -> dict[str, JsonValue]:
    try:
        sent: dict[str, JsonValue] = json.loads(model.model_dump_json(exclude_unset=True))
    except PydanticSerializationError:
        raise InvalidInput(UNSENDABLE) from None
    return sent


def _reader(model: type[M]) -> Callable[[bytes], M]:
    return lambda content: _read(TypeAdapter(model), content)


def _pages(model: type[M]) -> Callable[[bytes], Page[M]]:
    return lambda content: _read(TypeAdapter(Page[model]), content)  # type: ignore[valid-type]


def _read(adapter: TypeAdapter[R], content: bytes) -> R:
    try:
        return adapter.validate_json(content)
    except ValidationError:
        raise StoreAway("the answer is not what this client understands; are both of one version?") from None


def _recalled(content: bytes) -> Recall:
    found = _reader(Recalled)(content)
    return Recall(found.id, found.hits)


def _listed(path: str, model: type[M], *params: tuple[str, str]) -> Call[Any]:
    asked = (("limit", str(MOST)), *params)
    return Call("GET", path, lambda content: [*_pages(model)(content).items], params=asked)


def _listing(
    limit: int,
    kinds: Texts,
    tags: Texts,
    since: When | None,
    until: When | None,
    as_of: When | None,
    session: str | None,
    cursor: str | None,
) -> tuple[tuple[str, str], ...]:
    rows = (*(("kind", kind) for kind in several(kinds)), *(("tag", tag) for tag in several(tags)))
    times = _times(since=since, until=until, as_of=as_of)
    named = {"session": session, "cursor": cursor, "limit": str(limit)}
    return (*rows, *times, *((name, value) for name, value in named.items() if value is not None))


def _times(**times: When | None) -> tuple[tuple[str, str], ...]:
    return tuple(
        (name, when.isoformat() if isinstance(when, datetime) else when)
        for name, when in times.items()
        if when is not None
    )


def _part(name: str) -> str:
    """A name as one part of a path, whatever it is made of."""
    if not isinstance(name, str) or not name:
        raise NotFound("there is nothing without a name")
    return quote(name, safe="", errors="replace")


def _terms(terms: Mapping[str, Any]) -> dict[str, Any]:
    texts = ("memories", "patterns", "domains", "tags", "rights")
    return {name: several(value) if name in texts else value for name, value in terms.items()}
