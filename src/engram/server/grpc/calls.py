"""Every call as a value: the method, what it is asked, and what its answer means. Nothing here talks to anybody."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import grpc
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass
from pydantic import BaseModel, TypeAdapter, ValidationError

from engram.api.operations import OPERATIONS, AuditEntries
from engram.api.paging import MOST
from engram.api.requests import EventQuery, ExportQuery, ImportOptions
from engram.client.methods import ERRORS, Item, drafted, error_text, several
from engram.errors import EngramError, InvalidInput, NotFound, StoreAway, TooMany, Unsupported
from engram.model import (
    AgentCycle,
    AgentState,
    AuditVerification,
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
from engram.model.grant import Grant, GrantUse, Revocation, Source
from engram.model.memory import Quarantined
from engram.model.retention import LegalHold, RetentionReport
from engram.model.transfer import ExportReport, ImportReport
from engram.model.wire import (
    AgentView,
    ContextText,
    GroupView,
    LiveEvent,
    NewMemories,
    NewMemory,
    Noted,
    Page,
    Policy,
    Recalled,
    Receipts,
)
from engram.server.grpc import messages
from engram.server.grpc.convert import read, written
from engram.server.grpc.messages import DESCRIPTOR
from engram.server.grpc.problems import AFTER, CODE, PROBLEM

R = TypeVar("R")
S = TypeVar("S")
M = TypeVar("M", bound=BaseModel)
Memories = list[Memory]
TRIES = 4
LONGEST_PAUSE = 10.0
CHUNK = 1 << 16
NOT_TWICE = {
    "Annotate",
    "ApproveGrant",
    "Discard",
    "Hold",
    "OfferGrant",
    "Propose",
    "Release",
    "ReleaseHold",
    "RemovePolicy",
    "RequestGrant",
    "Resolve",
    "Share",
    "TellSolution",
}
"""Methods that do something else the second time: they are not sent again if nobody knows what became of them."""
WITH_KEY = {"Remember", "RecordDecision", "LearnFromFailure"}
"""Methods that are carried out once for a key, which they are given if they have none."""

_REQUESTS = {each.rpc: each.request for each in OPERATIONS.values()}

_BY_STATUS: dict[grpc.StatusCode, type[EngramError]] = {
    grpc.StatusCode.UNAVAILABLE: StoreAway,
    grpc.StatusCode.DEADLINE_EXCEEDED: StoreAway,
    grpc.StatusCode.CANCELLED: StoreAway,
    grpc.StatusCode.RESOURCE_EXHAUSTED: TooMany,
    grpc.StatusCode.UNIMPLEMENTED: Unsupported,
}


@dataclass(frozen=True, slots=True)
class Call(Generic[R]):
    """One call, and what its answer means."""

    method: str
    request: BaseModel
    read: Callable[[Message], R]
    refused: Callable[[EngramError], R] | None = None
    """What is made of an error, which may be raised again; it is raised, if left out."""

    def message(self, new_key: Callable[[], str]) -> Message:
        """What is sent; a write has a key, so that it can be repeated."""
        request = self.request
        if isinstance(request, NewMemories):
            request = request.model_copy(update={"items": tuple(_keyed(item, new_key) for item in request.items)})
        elif self.method in WITH_KEY:
            request = _keyed(request, new_key)
        return _said(request, GetMessageClass(DESCRIPTOR.methods_by_name[self.method].input_type))

    def giving(self, make: Callable[[R], S]) -> Call[S]:
        """The same call, with something else made of its answer."""
        read = self.read
        return Call(self.method, self.request, lambda message: make(read(message)))

    def failed(self, error: EngramError) -> R:
        """What is made of an error. Raises it, if nothing is."""
        if self.refused is None:
            raise error
        return self.refused(error)


def pause(method: str, tried: int, error: Any) -> float | None:
    """How long to wait before a call is made again; `None` if it is not to be."""
    after = _trailers(error).get(AFTER)
    status = error.code()
    welcome = status is grpc.StatusCode.RESOURCE_EXHAUSTED and after is not None
    unknown = status is grpc.StatusCode.UNAVAILABLE and method not in NOT_TWICE
    if tried >= TRIES or not (welcome or unknown):
        return None
    return min(max(float(after or 0), 0.1 * (1 << tried)), LONGEST_PAUSE)


def error_of(error: Any) -> EngramError:
    """The error that the engine has raised, or what the connection is lacking."""
    told = _trailers(error)
    status: grpc.StatusCode = error.code()
    if CODE not in told:
        kind = _BY_STATUS.get(status, EngramError)
        return kind(f"the server does not answer as it should ({status.name}); is it running, is the address right?")
    found = ERRORS.get(told[CODE], EngramError)(error.details())
    try:
        problem = messages.Problem.FromString(told.get(PROBLEM, b""))
    except DecodeError:
        return found
    if problem.HasField("receipt"):
        found.receipt = value(problem.receipt, Receipt)  # type: ignore[attr-defined]
    return found


# Memories ---------------------------------------------------------------------------------------------


def remember(item: Item, fields: Mapping[str, Any]) -> Call[Receipt]:
    """Remember one thing."""
    return _kept(Call("Remember", draft(item, fields), _reader(Receipt)))


def remember_all(items: Sequence[Item], fields: Mapping[str, Any]) -> Call[list[Receipt]]:
    """Remember several things in one transaction; one receipt each, in order."""
    if not isinstance(items, Sequence):
        raise InvalidInput(f"text, drafts or a list of them can be remembered, not {type(items).__name__}")
    several = made(NewMemories, {"items": [draft(item, fields) for item in items]})
    return Call("RememberBatch", several, _reader(Receipts)).giving(lambda found: [*found.receipts])


def draft(item: Item, fields: Mapping[str, Any]) -> NewMemory:
    """What is to be remembered, checked before it is sent. Raises `InvalidInput`."""
    new = made(NewMemory, drafted(item, fields))
    return new.model_copy(update={"content": {"kind": new.kind, **new.content}}) if new.content else new


def get(id: str) -> Call[Memory | None]:
    """The memory with this id, or `None` if this agent has none."""
    return _maybe(_asked("GetMemory", Memory, id=id))


def newest(*, limit: int = 50, **wanted: Any) -> Call[Memories]:
    """The newest memories, newest first; 500 at most. `page` gives all of them, part by part."""
    return page(limit=limit, **wanted).giving(lambda found: [*found.items])


def page(cursor: str | None = None, **wanted: Any) -> Call[Page[Memory]]:
    """A part of the memories, newest first, and the cursor with which it goes on."""
    return _asked("ListMemories", Page[Memory], cursor=cursor, **wanted)


def annotate(id: str, *, expected_version: int | None = None, **changes: Any) -> Call[Memory]:
    """Change what surrounds a memory. Raises `NotFound`, or `Conflict` if it has another version by now."""
    changes = {name: value for name, value in changes.items() if value is not None}
    return _asked("Annotate", Memory, id=id, changes=changes, expected_version=expected_version)


def forget(id: str, *, expected_version: int | None = None) -> Call[ForgetReceipt]:
    """Remove a memory and everything that belongs to it; the receipt lists what went.

    Raises `Conflict` if it has another version than the one that is expected.
    """
    return _asked("Forget", ForgetReceipt, id=id, expected_version=expected_version)


def recall(query: str, k: int = 5, **wanted: Any) -> Call[Recall]:
    """The memories that answer a query, best first, with the parts of their scores."""
    asked = _asked("Recall", Recalled, query=query, k=k, **wanted)
    return asked.giving(lambda found: Recall(found.id, found.hits))


def context(query: str, k: int = 8, *, budget_tokens: int = 1000, **wanted: Any) -> Call[str]:
    """What is remembered about a query as a text for a model, quoted as data."""
    asked = _asked("Context", ContextText, query=query, k=k, budget_tokens=budget_tokens, **wanted)
    return asked.giving(lambda found: found.text)


# Decisions --------------------------------------------------------------------------------------------


def record_decision(*, context: str, action: str, error: str | BaseException = "", **fields: Any) -> Call[Receipt]:
    """Remember what was done in a context and how it went."""
    return _kept(_asked("RecordDecision", Receipt, context=context, action=action, error=error_text(error), **fields))


def outcome(
    id: str,
    outcome: str | float,
    *,
    used: str | Hit | Iterable[str | Hit] | None = None,
    error: str | BaseException = "",
    **told: Any,
) -> Call[bool]:
    """Tell how it went, by the id of a decision, a recall or a suggestion; `False` if just that was known."""
    shown = [used] if isinstance(used, str | Hit) else used
    ids = None if shown is None else tuple(each if isinstance(each, str) else each.id for each in shown)
    asked = _asked("TellOutcome", Noted, id=id, outcome=outcome, used=ids, error=error_text(error), **told)
    return asked.giving(lambda noted: noted.news)


def outcomes(id: str) -> Call[list[RecordedOutcome]]:
    """Everything that was told about how a decision went, oldest first; the last one counts."""
    return _all("ListOutcomes", RecordedOutcome, id=id)


def decisions(context: str) -> Call[Memories]:
    """The decisions taken in a context, newest first; 500 at most."""
    return _all("ListDecisions", Memory, context=context)


def suggest(*, context: str, **wanted: Any) -> Call[Suggestion]:
    """What to do in a context: a recommendation or an abstention."""
    return _asked("Suggest", Suggestion, context=context, **wanted)


def predict(*, context: str, action: str, **around: Any) -> Call[Prediction]:
    """How likely an action is to succeed in a context."""
    return _asked("Predict", Prediction, context=context, action=action, **around)


def check(*, action: str, context: str = "", **around: Any) -> Call[Verdict]:
    """Whether an action may go ahead: allow, warn or block."""
    return _asked("Check", Verdict, action=action, context=context, **around)


def success_patterns() -> Call[list[SuccessPattern]]:
    """Approaches that worked again and again."""
    return _all("ListSuccessPatterns", SuccessPattern)


def decision_templates() -> Call[list[DecisionTemplate]]:
    """Small decision trees, one for each kind of situation."""
    return _all("ListDecisionTemplates", DecisionTemplate)


# Failures ---------------------------------------------------------------------------------------------


def learn_from_failure(error: str | BaseException, solution: str = "", **fields: Any) -> Call[FailurePattern]:
    """Learn what went wrong, and what was done about it."""
    return _asked("LearnFromFailure", FailurePattern, error=error_text(error), solution=solution, **fields)


def failures() -> Call[list[FailurePattern]]:
    """The failures that are known, the most recently seen first; 500 at most."""
    return _all("ListFailures", FailurePattern)


def failure(name: str) -> Call[FailurePattern | None]:
    """One failure, by its name or id, or `None`."""
    return _maybe(_asked("GetFailure", FailurePattern, name=name))


def tried(name: str, solution: str, helped: bool | float = True) -> Call[FailurePattern]:
    """Tell how a solution of a failure did."""
    return _asked("TellSolution", FailurePattern, name=name, solution=solution, helped=helped)


def checks() -> Call[list[PreventionCheck]]:
    """The checks that keep failures from coming back."""
    return _all("ListChecks", PreventionCheck)


def generate(pattern: str, stage: str = "") -> Call[list[PreventionCheck]]:
    """Make checks from a failure and what solved it, and keep them."""
    asked = _asked("GenerateChecks", Page[PreventionCheck], pattern=pattern, stage=stage)
    return asked.giving(lambda found: [*found.items])


# Reports, agents and what they do ---------------------------------------------------------------------


def stats() -> Call[LearningStats]:
    """The five measures of success, from the agent's own data."""
    return _asked("GetStats", LearningStats)


def evaluate(**wanted: Any) -> Call[EvaluationReport]:
    """How often recalls helped, how many decisions memory informed, and whether that drifts."""
    return _asked("Evaluate", EvaluationReport, **wanted)


def agents() -> Call[list[AgentView]]:
    """The agents that the key may act for; 500 at most."""
    return _all("ListAgents", AgentView)


def agent(name: str) -> Call[AgentView | None]:
    """One agent that the key may act for, or `None`."""
    return _maybe(_asked("GetAgent", AgentView, name=name))


def cycles(limit: int = 50) -> Call[list[AgentCycle]]:
    """The cycles of the agent, newest first."""
    return _asked("ListCycles", Page[AgentCycle], limit=limit).giving(lambda found: [*found.items])


def cycle(index: int) -> Call[AgentCycle]:
    """One cycle. Raises `NotFound`."""
    return _asked("GetCycle", AgentCycle, index=index)


def state() -> Call[AgentState]:
    """Where the agent stands."""
    return _asked("GetState", AgentState)


def propose(**proposal: Any) -> Call[AgentCycle]:
    """Begin a cycle: what is about to be done is kept."""
    return _asked("Propose", AgentCycle, **proposal)


def result(index: int, **end: Any) -> Call[AgentCycle]:
    """Complete a cycle with what came of it."""
    return _asked("TellResult", AgentCycle, index=index, end=end)


def resolve(index: int, how: str, *, reason: str = "") -> Call[AgentCycle]:
    """Decide about a cycle without a result: abandon it, or retry."""
    return _asked("Resolve", AgentCycle, index=index, decision={"how": how, "reason": reason})


def workspaces() -> Call[list[Workspace]]:
    """The folders that are tracked."""
    return _all("ListWorkspaces", Workspace)


def snapshots(workspace: str) -> Call[list[Snapshot]]:
    """The snapshots of a workspace."""
    return _all("ListSnapshots", Snapshot, workspace=workspace)


def diff(workspace: str, before: str, after: str = "latest") -> Call[WorkspaceDiff]:
    """What changed from one snapshot to another."""
    return _asked("Diff", WorkspaceDiff, workspace=workspace, before=before, after=after)


def runs(workflow: str = "") -> Call[list[RunSummary]]:
    """The runs of workflows, newest first."""
    return _all("ListRuns", RunSummary, workflow=workflow)


def run(run: str) -> Call[ExecutionResult]:
    """How far a run has come. Raises `NotFound`."""
    return _asked("GetRun", ExecutionResult, run=run)


# Sharing ----------------------------------------------------------------------------------------------


def request(owner: str, **terms: Any) -> Call[Grant]:
    """Ask another agent for knowledge."""
    return _asked("RequestGrant", Grant, owner=owner, **terms)


def offer(to: str, **terms: Any) -> Call[Grant]:
    """Offer knowledge to another agent."""
    return _asked("OfferGrant", Grant, to=to, **terms)


def share(to: str, **terms: Any) -> Call[Grant]:
    """Share knowledge at once: with an agent, `group:NAME` or `everyone`."""
    return _asked("Share", Grant, to=to, **terms)


def approve(id: str, **terms: Any) -> Call[Grant]:
    """Agree to a request or an offer."""
    return _asked("ApproveGrant", Grant, id=id, **terms)


def deny(id: str) -> Call[Grant]:
    """Turn a request or an offer down."""
    return _asked("DenyGrant", Grant, id=id)


def revoke(id: str) -> Call[Revocation]:
    """End a grant at once, and take back what was derived from it."""
    return _asked("RevokeGrant", Revocation, id=id)


def grants(state: str | None = None) -> Call[list[Grant]]:
    """The grants of the agent, oldest first."""
    return _all("ListGrants", Grant, state=state)


def grant(id: str) -> Call[Grant]:
    """One grant. Raises `NotFound`."""
    return _asked("GetGrant", Grant, id=id)


def uses(id: str) -> Call[list[GrantUse]]:
    """Who used a grant for what."""
    return _all("ListGrantUses", GrantUse, id=id)


def sources() -> Call[list[Source]]:
    """Those whose knowledge the agent may use."""
    return _all("ListSources", Source)


def merge(from_agent: str, **wanted: Any) -> Call[ImportReport]:
    """Take in what another agent shares to learn from."""
    return _asked("MergeKnowledge", ImportReport, from_agent=from_agent, **wanted)


def groups() -> Call[list[GroupView]]:
    """The groups that knowledge can be shared with."""
    return _all("ListGroups", GroupView)


def regroup(name: str, *, add: Iterable[str] = (), remove: Iterable[str] = ()) -> Call[GroupView]:
    """Change who is in a group."""
    return _asked("ChangeGroup", GroupView, name=name, add=several(add), remove=several(remove))


def quarantined() -> Call[list[Quarantined]]:
    """What is set apart for review, the newest first."""
    return _all("ListQuarantined", Quarantined)


def quarantined_memory(id: str) -> Call[Quarantined]:
    """One memory that is set apart, and why. Raises `NotFound`."""
    return _asked("GetQuarantined", Quarantined, id=id)


def release(id: str) -> Call[Memory]:
    """Give a memory that is set apart back to the agent. Raises `NotFound`."""
    return _asked("Release", Memory, id=id)


def discard(id: str) -> Call[ForgetReceipt]:
    """Forget a memory that is set apart. Raises `NotFound`."""
    return _asked("Discard", ForgetReceipt, id=id)


# The trail and what happens ---------------------------------------------------------------------------


def audit(**wanted: Any) -> Call[AuditEntries]:
    """What was done, in order."""
    return _asked("ListAudit", AuditEntries, **wanted)


def verify_audit() -> Call[AuditVerification]:
    """Look at every entry of the trail."""
    return _asked("VerifyAudit", AuditVerification)


# Retention, which takes a key that administers all agents ------------------------------------------------


def policies() -> Call[list[Policy]]:
    """The policies in force, in the order in which they run."""
    return _all("ListPolicies", Policy)


def set_policy(name: str, action: str, **fields: Any) -> Call[Policy]:
    """Set a policy, instead of the one of this name; `fields` are agent, kinds, tags, older_than_days and others."""
    return _asked("SetPolicy", Policy, name=name, action=action, **fields)


def remove_policy(name: str) -> Call[Policy]:
    """Give a policy up. Raises `NotFound`."""
    return _asked("RemovePolicy", Policy, name=name)


def holds() -> Call[list[LegalHold]]:
    """The holds in force, oldest first."""
    return _all("ListHolds", LegalHold)


def hold(reason: str, **what: Any) -> Call[LegalHold]:
    """Keep all memories of an agent, or those that are named: `what` is agent, memories, tags and sessions."""
    return _asked("Hold", LegalHold, reason=reason, **what)


def release_hold(id: str) -> Call[LegalHold]:
    """End a hold. Raises `NotFound`."""
    return _asked("ReleaseHold", LegalHold, id=id)


def run_retention(*, agents: str | Iterable[str] | None = None, dry_run: bool = False) -> Call[RetentionReport]:
    """Let go of what fulfils a policy that forgets; what is pinned or held stays."""
    return _asked("RunRetention", RetentionReport, agents=agents, dry_run=dry_run)


# Streams ------------------------------------------------------------------------------------------------


def drafts(
    texts: Iterable[Item], fields: Mapping[str, Any], new_key: Callable[[], str], wrong: list[InvalidInput]
) -> Iterator[Message]:
    """What a stream of memories sends, up to one that cannot be sent; what is `wrong` with that one is added there."""
    for item in texts:
        try:
            message = _said(_keyed(draft(item, fields), new_key), messages.NewMemory)
        except InvalidInput as error:  # whoever sends the stream would make something else of it
            wrong.append(error)
            return
        yield message


def export_query(wanted: Mapping[str, Any]) -> Message:
    """What is asked for a knowledge file."""
    return _said(made(ExportQuery, wanted), messages.ExportQuery)


def event_query(after: int | None, seconds: float | None) -> Message:
    """What is asked to hear of what happens."""
    return _said(made(EventQuery, {"after": after, "seconds": seconds}), messages.EventQuery)


def import_options(format: str | None, dry_run: bool, large: bool) -> Message:
    """What comes before the bytes of a knowledge file."""
    options = made(ImportOptions, {"format": format, "dry_run": dry_run, "large": large})
    return messages.ImportPart(options=_said(options, messages.ImportOptions))


def parts(file: Path, options: Message) -> Iterator[Message]:
    """What is sent to have a file taken in. Raises `InvalidInput` if it cannot be read, before anything is sent."""
    try:
        with file.open("rb"):
            return _parts(file, options)
    except OSError as error:
        raise InvalidInput(f"{file} cannot be read: {error.strerror}; give the path of a file that can") from None


def _parts(file: Path, options: Message) -> Iterator[Message]:
    yield options
    with file.open("rb") as stream:
        while data := stream.read(CHUNK):
            yield messages.ImportPart(data=data)


class Arriving:
    """A knowledge file as it comes; one that is cut short does not stay."""

    def __init__(self, to: Path) -> None:
        self._to, self._part = to, to.with_name(f".{to.name}.part")
        self._file = self._part.open("wb")
        self._report: Message | None = None

    def take(self, part: Any) -> None:
        """Keep what came."""
        self._file.write(part.data)
        self._report = part.report if part.HasField("report") else None

    def done(self) -> ExportReport:
        """Put the file where it belongs. Raises `StoreAway` if it is not whole."""
        if self._report is None:
            raise StoreAway("the file was cut short; try again")
        self._file.close()
        self._part.replace(self._to)
        return value(self._report, ExportReport).model_copy(update={"file": str(self._to)})

    def close(self) -> None:
        """Remove what is not whole."""
        self._file.close()
        self._part.unlink(missing_ok=True)


def receipt_of(message: Message) -> Receipt:
    """What became of a draft of a stream."""
    return value(message, Receipt)


def event_of(message: Message) -> LiveEvent:
    """Something that happened."""
    return value(message, LiveEvent)


def import_report(message: Message) -> ImportReport:
    """What came of a file."""
    return value(message, ImportReport)


# Parts --------------------------------------------------------------------------------------------------


def made(model: type[M], fields: Mapping[str, Any]) -> M:
    """A request, checked before it is sent. Raises `InvalidInput`."""
    lists = {name for name, field in model.model_fields.items() if "tuple" in str(field.annotation)}
    given = {name: several(value) if name in lists else value for name, value in fields.items() if value is not None}
    try:
        return model(**given)
    except ValidationError as error:
        raise InvalidInput(describe_error(error)) from None


def _said(request: BaseModel, kind: type[Message]) -> Message:
    """A request as it is sent. Raises `InvalidInput` for text that cannot be."""
    try:
        message: Message = written(request, kind)
    except UnicodeEncodeError as error:
        flaw = f"half of a surrogate pair at position {error.start}"
        raise InvalidInput(f"a text has {flaw}, and cannot be sent; decode it properly first") from None
    return message


def value(message: Message, kind: type[M]) -> M:
    """What an answer says. Raises `StoreAway` if that cannot be read."""
    try:
        return TypeAdapter(kind).validate_python(read(message))
    except (ValidationError, InvalidInput):
        raise StoreAway("the answer is not what this client understands; are both of one version?") from None


def _trailers(error: Any) -> dict[str, Any]:
    return {name: value for name, value in error.trailing_metadata() or ()}  # noqa: C416 - it may look like a mapping


def _reader(kind: type[M]) -> Callable[[Message], M]:
    return lambda message: value(message, kind)


def _asked(method: str, kind: type[M], /, **fields: Any) -> Call[M]:
    return Call(method, made(_REQUESTS[method], fields), _reader(kind))


def _all(method: str, kind: type[M], /, **fields: Any) -> Call[list[M]]:
    page: Call[Page[M]] = _asked(method, Page[kind], limit=MOST, **fields)  # type: ignore[valid-type]
    return page.giving(lambda found: [*found.items])


def _maybe(call: Call[R]) -> Call[R | None]:
    """A call that gives nothing where there is nothing."""

    def absent(error: EngramError) -> None:
        if not isinstance(error, NotFound):
            raise error

    return Call(call.method, call.request, call.read, absent)


def _kept(call: Call[Receipt]) -> Call[Receipt]:
    """A call that gives the receipt of a draft, also of one that was refused, as the engine gives it."""

    def receipt(error: EngramError) -> Receipt:
        refused: Receipt | None = getattr(error, "receipt", None)
        if refused is None:
            raise error
        return refused

    return Call(call.method, call.request, call.read, receipt)


def _keyed(request: M, new_key: Callable[[], str]) -> M:
    return request if getattr(request, "key", None) is not None else request.model_copy(update={"key": new_key()})
