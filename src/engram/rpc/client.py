"""A client with the names, values and errors of the library itself, over gRPC."""

from __future__ import annotations

import time
import traceback
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar, overload
from urllib.parse import quote

import grpc
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass
from pydantic import BaseModel, TypeAdapter, ValidationError

from engram import errors
from engram.errors import EngramError, InvalidInput, NotFound, StoreAway, TooMany, Unsupported
from engram.model import (
    AgentCycle,
    AgentState,
    DecisionTemplate,
    Draft,
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
    Verification,
    Workspace,
    WorkspaceDiff,
    explain,
)
from engram.model.grant import Grant, GrantUse, Revocation, Source
from engram.model.quarantine import Quarantined
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
    Recalled,
    Receipts,
)
from engram.rpc.convert import read, written
from engram.rpc.door import MESSAGE
from engram.rpc.operations import OPERATIONS, AuditEntries
from engram.rpc.problems import AFTER, CODE, PROBLEM
from engram.rpc.requests import EventQuery, ExportQuery, ImportOptions
from engram.rpc.service import DESCRIPTOR
from engram.rpc.v1 import service_pb2, service_pb2_grpc
from engram.server.loopback import is_loopback
from engram.server.paging import MOST

Item = str | Draft | Mapping[str, Any]
M = TypeVar("M", bound=BaseModel)
Memories = list[Memory]
Several = list
TRIES = 4
LONGEST_PAUSE = 10.0
CHUNK = 1 << 16
NOT_TWICE = {"Annotate", "Propose", "Resolve", "RequestGrant", "OfferGrant", "Share"}
"""Methods that do something else the second time: they are not sent again if nobody knows what became of them."""
WITH_KEY = {"Remember", "RecordDecision", "LearnFromFailure"}
"""Methods that are carried out once for a key, which they are given if they have none."""

_BY_CODE: dict[str, type[EngramError]] = {
    kind.code: kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, EngramError)
}
_BY_STATUS: dict[grpc.StatusCode, type[EngramError]] = {
    grpc.StatusCode.UNAVAILABLE: StoreAway,
    grpc.StatusCode.DEADLINE_EXCEEDED: StoreAway,
    grpc.StatusCode.CANCELLED: StoreAway,
    grpc.StatusCode.RESOURCE_EXHAUSTED: TooMany,
    grpc.StatusCode.UNIMPLEMENTED: Unsupported,
}


class Client:
    """An agent's memory on a server: the calls of `AgentHandle`, which raise the same errors."""

    def __init__(
        self,
        address: str,
        key: str,
        agent: str | None = None,
        *,
        tls: bool | Path = False,
        plaintext: bool = False,
        timeout: float = 60.0,
        new_key: Callable[[], str] | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Ask the server at `host:port`, over TLS if `tls` is true or names a file with the certificate to trust.

        Without TLS only this machine is asked, unless `plaintext` says that others may read the key.
        """
        own = [] if agent is None else [("engram-agent", quote(agent, safe=""))]
        self._metadata = [("authorization", f"Bearer {key}"), *own]
        self._timeout, self._sleep = timeout, sleep
        self._new_key = new_key or (lambda: uuid.uuid4().hex)
        options = [("grpc.max_receive_message_length", MESSAGE + 1024), ("grpc.max_send_message_length", MESSAGE)]
        if tls:
            root = tls.read_bytes() if isinstance(tls, Path) else None
            self._channel = grpc.secure_channel(address, grpc.ssl_channel_credentials(root), options)
        elif plaintext or is_loopback(address.rpartition(":")[0]):
            self._channel = grpc.insecure_channel(address, options)
        else:
            raise InvalidInput("the key would be sent in the clear; give `tls`, or `plaintext=True` if that is meant")
        self._stub: Any = service_pb2_grpc.EngramStub(self._channel)  # type: ignore[no-untyped-call]

    # Memories ------------------------------------------------------------------------------------------

    @overload
    def remember(self, text: str | Draft | Mapping[str, Any], **fields: Any) -> Receipt: ...
    @overload
    def remember(self, text: Sequence[str | Draft | Mapping[str, Any]], **fields: Any) -> Several[Receipt]: ...
    def remember(self, text: Item | Sequence[Item], **fields: Any) -> Receipt | Several[Receipt]:
        """Remember one thing, or several in one transaction; the receipts come after the commit, in order."""
        if isinstance(text, str | Draft | Mapping):
            return self._receipt("Remember", self._draft(text, fields))
        if not isinstance(text, Sequence):
            raise InvalidInput(f"text, drafts or a list of them can be remembered, not {type(text).__name__}")
        drafts = [self._draft(item, fields) for item in text]
        if not drafts:
            return []
        return [*self.ask("RememberBatch", Receipts, _made(NewMemories, {"items": drafts})).receipts]

    def remember_stream(self, texts: Iterable[Item], **fields: Any) -> Iterator[Receipt]:
        """Remember many things; a receipt comes for each, in order, after its commit."""
        drafts = (written(self._draft(item, fields), service_pb2.NewMemory) for item in texts)
        for receipt in self._streamed(self._stub.RememberStream, drafts):
            yield _value(receipt, Receipt)

    def get(self, id: str) -> Memory | None:
        """The memory with this id, or `None` if this agent has none."""
        try:
            return self.ask("GetMemory", Memory, id=id)
        except NotFound:
            return None

    def list(self, *, limit: int = 50, **wanted: Any) -> Memories:
        """The newest memories, newest first; 500 at most. `page` gives all of them, part by part."""
        return [*self.page(limit=limit, **wanted).items]

    def page(self, cursor: str | None = None, **wanted: Any) -> Page[Memory]:
        """A part of the memories, newest first, and the cursor with which it goes on."""
        return self.ask("ListMemories", Page[Memory], cursor=cursor, **wanted)

    def annotate(self, id: str, *, expected_version: int | None = None, **changes: Any) -> Memory:
        """Change what surrounds a memory. Raises `NotFound`, or `Conflict` if it has another version by now."""
        changes = {name: value for name, value in changes.items() if value is not None}
        return self.ask("Annotate", Memory, id=id, changes=changes, expected_version=expected_version)

    def forget(self, id: str) -> ForgetReceipt:
        """Remove a memory and everything that belongs to it; the receipt lists what went."""
        return self.ask("Forget", ForgetReceipt, id=id)

    def recall(self, query: str, k: int = 5, **wanted: Any) -> Recall:
        """The memories that answer a query, best first, with the parts of their scores."""
        found = self.ask("Recall", Recalled, query=query, k=k, **wanted)
        return Recall(found.id, found.hits)

    def context(self, query: str, k: int = 8, *, budget_tokens: int = 1000, **wanted: Any) -> str:
        """What is remembered about a query as a text for a model, quoted as data."""
        return self.ask("Context", ContextText, query=query, k=k, budget_tokens=budget_tokens, **wanted).text

    # Decisions -----------------------------------------------------------------------------------------

    def record_decision(self, *, context: str, action: str, error: str | BaseException = "", **fields: Any) -> Receipt:
        """Remember what was done in a context and how it went."""
        told = {"context": context, "action": action, "error": _error(error), **fields}
        return self._receipt("RecordDecision", _made(OPERATIONS["RecordDecision"].asked, told))

    def outcome(
        self,
        id: str,
        outcome: str | float,
        *,
        used: str | Hit | Iterable[str | Hit] | None = None,
        error: str | BaseException = "",
        **told: Any,
    ) -> bool:
        """Tell how it went, by the id of a decision, a recall or a suggestion; `False` if just that was known."""
        shown = [used] if isinstance(used, str | Hit) else used
        ids = None if shown is None else tuple(each if isinstance(each, str) else each.id for each in shown)
        return self.ask("TellOutcome", Noted, id=id, outcome=outcome, used=ids, error=_error(error), **told).news

    def outcomes(self, id: str) -> Several[RecordedOutcome]:
        """Everything that was told about how a decision went, oldest first; the last one counts."""
        return self._all("ListOutcomes", RecordedOutcome, id=id)

    def decisions(self, context: str) -> Memories:
        """The decisions taken in a context, newest first; 500 at most."""
        return self._all("ListDecisions", Memory, context=context)

    def suggest(self, *, context: str, **wanted: Any) -> Suggestion:
        """What to do in a context: a recommendation or an abstention."""
        return self.ask("Suggest", Suggestion, context=context, **wanted)

    def predict(self, *, context: str, action: str, **around: Any) -> Prediction:
        """How likely an action is to succeed in a context."""
        return self.ask("Predict", Prediction, context=context, action=action, **around)

    def check(self, *, action: str, context: str = "", **around: Any) -> Verdict:
        """Whether an action may go ahead: allow, warn or block."""
        return self.ask("Check", Verdict, action=action, context=context, **around)

    def success_patterns(self) -> Several[SuccessPattern]:
        """Approaches that worked again and again."""
        return self._all("ListSuccessPatterns", SuccessPattern)

    def decision_templates(self) -> Several[DecisionTemplate]:
        """Small decision trees, one for each kind of situation."""
        return self._all("ListDecisionTemplates", DecisionTemplate)

    # Failures ------------------------------------------------------------------------------------------

    def learn_from_failure(self, error: str | BaseException, solution: str = "", **fields: Any) -> FailurePattern:
        """Learn what went wrong, and what was done about it."""
        return self.ask("LearnFromFailure", FailurePattern, error=_error(error), solution=solution, **fields)

    def failures(self) -> Several[FailurePattern]:
        """The failures that are known, the most recently seen first; 500 at most."""
        return self._all("ListFailures", FailurePattern)

    def failure(self, name: str) -> FailurePattern | None:
        """One failure, by its name or id, or `None`."""
        try:
            return self.ask("GetFailure", FailurePattern, name=name)
        except NotFound:
            return None

    def tried(self, name: str, solution: str, helped: bool | float = True) -> FailurePattern:
        """Tell how a solution of a failure did."""
        return self.ask("TellSolution", FailurePattern, name=name, solution=solution, helped=helped)

    def checks(self) -> Several[PreventionCheck]:
        """The checks that keep failures from coming back."""
        return self._all("ListChecks", PreventionCheck)

    def generate(self, pattern: str, stage: str = "") -> Several[PreventionCheck]:
        """Make checks from a failure and what solved it, and keep them."""
        return [*self.ask("GenerateChecks", Page[PreventionCheck], pattern=pattern, stage=stage).items]

    # Reports, agents and what they do ------------------------------------------------------------------

    def stats(self) -> LearningStats:
        """The five measures of success, from the agent's own data."""
        return self.ask("GetStats", LearningStats)

    def evaluate(self, **wanted: Any) -> EvaluationReport:
        """How often recalls helped, how many decisions memory informed, and whether that drifts."""
        return self.ask("Evaluate", EvaluationReport, **wanted)

    def agents(self) -> Several[AgentView]:
        """The agents that the key may act for; 500 at most."""
        return self._all("ListAgents", AgentView)

    def cycles(self, limit: int = 50) -> Several[AgentCycle]:
        """The cycles of the agent, newest first."""
        return [*self.ask("ListCycles", Page[AgentCycle], limit=limit).items]

    def cycle(self, index: int) -> AgentCycle:
        """One cycle. Raises `NotFound`."""
        return self.ask("GetCycle", AgentCycle, index=index)

    def state(self) -> AgentState:
        """Where the agent stands."""
        return self.ask("GetState", AgentState)

    def propose(self, **proposal: Any) -> AgentCycle:
        """Begin a cycle: what is about to be done is kept."""
        return self.ask("Propose", AgentCycle, **proposal)

    def result(self, index: int, **end: Any) -> AgentCycle:
        """Complete a cycle with what came of it."""
        return self.ask("TellResult", AgentCycle, index=index, end=end)

    def resolve(self, index: int, how: str, *, reason: str = "") -> AgentCycle:
        """Decide about a cycle without a result: abandon it, or retry."""
        return self.ask("Resolve", AgentCycle, index=index, decision={"how": how, "reason": reason})

    def workspaces(self) -> Several[Workspace]:
        """The folders that are tracked."""
        return self._all("ListWorkspaces", Workspace)

    def snapshots(self, workspace: str) -> Several[Snapshot]:
        """The snapshots of a workspace."""
        return self._all("ListSnapshots", Snapshot, workspace=workspace)

    def diff(self, workspace: str, before: str, after: str = "latest") -> WorkspaceDiff:
        """What changed from one snapshot to another."""
        return self.ask("Diff", WorkspaceDiff, workspace=workspace, before=before, after=after)

    def runs(self, workflow: str = "") -> Several[RunSummary]:
        """The runs of workflows, newest first."""
        return self._all("ListRuns", RunSummary, workflow=workflow)

    def run(self, run: str) -> ExecutionResult:
        """How far a run has come. Raises `NotFound`."""
        return self.ask("GetRun", ExecutionResult, run=run)

    # Sharing -------------------------------------------------------------------------------------------

    def request(self, owner: str, **terms: Any) -> Grant:
        """Ask another agent for knowledge."""
        return self.ask("RequestGrant", Grant, owner=owner, **terms)

    def offer(self, to: str, **terms: Any) -> Grant:
        """Offer knowledge to another agent."""
        return self.ask("OfferGrant", Grant, to=to, **terms)

    def share(self, to: str, **terms: Any) -> Grant:
        """Share knowledge at once: with an agent, `group:NAME` or `everyone`."""
        return self.ask("Share", Grant, to=to, **terms)

    def approve(self, id: str, **terms: Any) -> Grant:
        """Agree to a request or an offer."""
        return self.ask("ApproveGrant", Grant, id=id, **terms)

    def deny(self, id: str) -> Grant:
        """Turn a request or an offer down."""
        return self.ask("DenyGrant", Grant, id=id)

    def revoke(self, id: str) -> Revocation:
        """End a grant at once, and take back what was derived from it."""
        return self.ask("RevokeGrant", Revocation, id=id)

    def grants(self, state: str | None = None) -> Several[Grant]:
        """The grants of the agent, oldest first."""
        return self._all("ListGrants", Grant, state=state)

    def grant(self, id: str) -> Grant:
        """One grant. Raises `NotFound`."""
        return self.ask("GetGrant", Grant, id=id)

    def uses(self, id: str) -> Several[GrantUse]:
        """Who used a grant for what."""
        return self._all("ListGrantUses", GrantUse, id=id)

    def sources(self) -> Several[Source]:
        """Those whose knowledge the agent may use."""
        return self._all("ListSources", Source)

    def merge(self, from_agent: str, **wanted: Any) -> ImportReport:
        """Take in what another agent shares to learn from."""
        return self.ask("MergeKnowledge", ImportReport, from_agent=from_agent, **wanted)

    def groups(self) -> Several[GroupView]:
        """The groups that knowledge can be shared with."""
        return self._all("ListGroups", GroupView)

    def regroup(self, name: str, *, add: Iterable[str] = (), remove: Iterable[str] = ()) -> GroupView:
        """Change who is in a group."""
        return self.ask("ChangeGroup", GroupView, name=name, add=_several(add), remove=_several(remove))

    def quarantined(self) -> Several[Quarantined]:
        """What is set apart for review, the newest first."""
        return self._all("ListQuarantined", Quarantined)

    def release(self, id: str) -> Memory:
        """Give a memory that is set apart back to the agent. Raises `NotFound`."""
        return self.ask("Release", Memory, id=id)

    def discard(self, id: str) -> ForgetReceipt:
        """Forget a memory that is set apart. Raises `NotFound`."""
        return self.ask("Discard", ForgetReceipt, id=id)

    def export(self, to: Path, **wanted: Any) -> ExportReport:
        """Write what the agent knows to a file here; a file that is cut short does not stay."""
        asked = written(_made(ExportQuery, wanted), service_pb2.ExportQuery)
        partial = to.with_name(f".{to.name}.part")
        report = None
        try:
            with partial.open("wb") as file:
                for part in self._streamed(self._stub.ExportKnowledge, asked):
                    file.write(part.data)
                    report = part.report if part.HasField("report") else None
            if report is None:
                raise StoreAway("the file was cut short; try again")
            partial.replace(to)
        finally:
            partial.unlink(missing_ok=True)
        return _value(report, ExportReport).model_copy(update={"file": str(to)})

    def take_in(self, file: Path, *, format: str | None = None, dry_run: bool = False) -> ImportReport:
        """Take in knowledge from a file here."""
        options = _made(ImportOptions, {"format": format, "dry_run": dry_run})
        try:
            parts = _parts(file, written(options, service_pb2.ImportOptions))
            report = self._stub.ImportKnowledge(parts, metadata=self._metadata)
        except grpc.RpcError as error:
            raise error_of(error) from None
        return _value(report, ImportReport)

    # The trail and what happens ------------------------------------------------------------------------

    def audit(self, **wanted: Any) -> AuditEntries:
        """What was done, in order."""
        return self.ask("ListAudit", AuditEntries, **wanted)

    def verify_audit(self) -> Verification:
        """Look at every entry of the trail."""
        return self.ask("VerifyAudit", Verification)

    def events(self, after: int | None = None, seconds: float | None = None) -> Iterator[LiveEvent]:
        """What is stored, forgotten and learned, as it happens; `after` goes on behind an event."""
        query = _made(EventQuery, {"after": after, "seconds": seconds})
        for event in self._streamed(self._stub.Listen, written(query, service_pb2.EventQuery)):
            yield _value(event, LiveEvent)

    # How it is asked -----------------------------------------------------------------------------------

    def ask(self, method: str, answer: type[M], request: BaseModel | None = None, /, **fields: Any) -> M:
        """Call a method and give what it answers; what is safe to repeat is repeated when the server is busy."""
        asked = OPERATIONS[method].asked
        model = request or _made(asked, {name: value for name, value in fields.items() if value is not None})
        if method in WITH_KEY and getattr(model, "key", None) is None:
            model = model.model_copy(update={"key": self._new_key()})
        message = written(model, GetMessageClass(DESCRIPTOR.methods_by_name[method].input_type))
        tried = 0
        while True:
            tried += 1
            try:
                found = getattr(self._stub, method)(message, timeout=self._timeout, metadata=self._metadata)
            except grpc.RpcError as error:
                pause = _pause(method, tried, error)
                if pause is None:
                    raise error_of(error) from None
                self._sleep(pause)
            else:
                return _value(found, answer)

    def _receipt(self, method: str, request: BaseModel) -> Receipt:
        """The receipt of a draft, also of one that was refused, as the engine gives it."""
        try:
            return self.ask(method, Receipt, request)
        except EngramError as error:
            refused: Receipt | None = getattr(error, "receipt", None)
            if refused is None:
                raise
            return refused

    def _all(self, method: str, kind: type[M], **fields: Any) -> Several[M]:
        page: Page[M] = self.ask(method, Page[kind], limit=MOST, **fields)  # type: ignore[valid-type]
        return [*page.items]

    def _streamed(self, method: Callable[..., Any], request: Any) -> Iterator[Any]:
        try:
            yield from method(request, metadata=self._metadata)
        except grpc.RpcError as error:
            raise error_of(error) from None

    def _draft(self, item: Item, fields: Mapping[str, Any]) -> NewMemory:
        own = item.model_dump(exclude_unset=True) if isinstance(item, Draft) else item
        if not isinstance(own, str | Mapping):
            raise InvalidInput(f"only text and drafts can be remembered, not {type(item).__name__}")
        given: dict[str, Any] = {"text": own} if isinstance(own, str) else dict(own)
        if "tags" in given and "tags" in fields:
            fields = {**fields, "tags": (*_several(given["tags"]), *_several(fields["tags"]))}
        draft = _made(NewMemory, {"key": self._new_key(), **given, **fields})
        if draft.content:
            return draft.model_copy(update={"content": {"kind": draft.kind, **draft.content}})
        return draft

    def close(self) -> None:
        """Let go of the connection."""
        self._channel.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def error_of(error: Any) -> EngramError:
    """The error that the engine has raised, or what the connection is lacking."""
    told = dict(error.trailing_metadata() or ())
    status: grpc.StatusCode = error.code()
    if CODE not in told:
        kind = _BY_STATUS.get(status, EngramError)
        return kind(f"the server does not answer as it should ({status.name}); is it running, is the address right?")
    found = _BY_CODE.get(told[CODE], EngramError)(error.details())
    try:
        problem = service_pb2.Problem.FromString(told.get(PROBLEM, b""))
    except DecodeError:
        return found
    if problem.HasField("receipt"):
        found.receipt = _value(problem.receipt, Receipt)  # type: ignore[attr-defined]
    return found


def _pause(method: str, tried: int, error: Any) -> float | None:
    """How long to wait before a call is made again; `None` if it is not to be."""
    after = dict(error.trailing_metadata() or ()).get(AFTER)
    status = error.code()
    welcome = status is grpc.StatusCode.RESOURCE_EXHAUSTED and after is not None
    unknown = status is grpc.StatusCode.UNAVAILABLE and method not in NOT_TWICE
    if tried >= TRIES or not (welcome or unknown):
        return None
    return min(max(float(after or 0), 0.1 * (1 << tried)), LONGEST_PAUSE)


def _made(model: type[M], fields: Mapping[str, Any]) -> M:
    """A request, checked before it is sent. Raises `InvalidInput`."""
    lists = {name for name, field in model.model_fields.items() if "tuple" in str(field.annotation)}
    given = {name: _several(value) if name in lists else value for name, value in fields.items() if value is not None}
    try:
        return model(**given)
    except ValidationError as error:
        raise InvalidInput(explain(error)) from None


def _value(message: Message, kind: type[M]) -> M:
    try:
        return TypeAdapter(kind).validate_python(read(message))
    except (ValidationError, InvalidInput):
        raise StoreAway("the answer is not what this client understands; are both of one version?") from None


def _several(values: Any) -> Any:
    return (values,) if isinstance(values, str) else tuple(values) if isinstance(values, Iterable) else values


def _error(error: str | BaseException) -> str:
    return "".join(traceback.format_exception(error)) if isinstance(error, BaseException) else error


def _parts(file: Path, options: Message) -> Iterator[Message]:
    yield service_pb2.ImportPart(options=options)
    with file.open("rb") as stream:
        while data := stream.read(CHUNK):
            yield service_pb2.ImportPart(data=data)
