"""The methods of the clients. This file is written by `make stubs`; do not edit it."""

import builtins
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, overload

from pydantic import JsonValue

from engram.client.sending import AsyncSender, Sender
from engram.model.agent import AgentCycle, AgentState
from engram.model.audit import AuditEntry, AuditVerification
from engram.model.decision import Prediction, Suggestion
from engram.model.failure import FailurePattern, PreventionCheck, Verdict
from engram.model.grant import Grant, GrantUse, Revocation, Source
from engram.model.learning import LearningStats, RecordedOutcome
from engram.model.memory import Draft, ForgetReceipt, Hit, Memory, Quarantined, Recall, Receipt
from engram.model.retention import LegalHold, RetentionReport
from engram.model.success import DecisionTemplate, SuccessPattern
from engram.model.transfer import ImportReport
from engram.model.upkeep import EvaluationReport
from engram.model.wire import AgentView, GroupView, Page, Policy
from engram.model.workflow import ExecutionResult, RunSummary
from engram.model.workspace import Snapshot, Workspace, WorkspaceDiff

class Methods(Sender):
    @overload
    def remember(self, text: str | Draft | Mapping[str, Any], **fields: Any) -> Receipt: ...
    @overload
    def remember(self, text: Sequence[str | Draft | Mapping[str, Any]], **fields: Any) -> builtins.list[Receipt]: ...
    def export_knowledge(
        self,
        *,
        domains: str | Iterable[str] = (),
        tags: str | Iterable[str] = (),
        form: Literal["json", "jsonl"] = "json",
    ) -> bytes: ...
    def import_knowledge(
        self,
        file: bytes | Path,
        *,
        format: str | None = None,
        dry_run: bool = False,
        large: bool = False,
    ) -> ImportReport: ...
    def get(self, id: str) -> Memory | None: ...
    def list(
        self,
        *,
        limit: int = 50,
        kinds: str | Iterable[str] = (),
        tags: str | Iterable[str] = (),
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        as_of: datetime | str | None = None,
        session: str | None = None,
    ) -> builtins.list[Memory]: ...
    def annotate(
        self,
        id: str,
        *,
        tags: str | Iterable[str] | None = None,
        importance: float | None = None,
        confidence: float | None = None,
        valid_until: datetime | str | None = None,
        expected_version: int | None = None,
    ) -> Memory: ...
    def forget(self, id: str, *, expected_version: int | None = None) -> ForgetReceipt: ...
    def recall(
        self,
        query: str,
        k: int = 5,
        *,
        kinds: str | Iterable[str] = (),
        tags: str | Iterable[str] = (),
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        as_of: datetime | str | None = None,
        now: datetime | str | None = None,
        session: str | None = None,
        min_score: float = 0.0,
        group_by: Literal["session"] | None = None,
        budget_tokens: int | None = None,
        expand: bool = False,
    ) -> Recall: ...
    def context(
        self,
        query: str,
        k: int = 8,
        *,
        kinds: str | Iterable[str] = (),
        tags: str | Iterable[str] = (),
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        as_of: datetime | str | None = None,
        now: datetime | str | None = None,
        session: str | None = None,
        min_score: float = 0.0,
        group_by: Literal["session"] | None = None,
        budget_tokens: int = 1000,
        expand: bool = False,
    ) -> str: ...
    def record_decision(
        self,
        *,
        environment: str = "",
        tool: str = "",
        task_type: str = "",
        tags: str | Iterable[str] = (),
        context: str,
        action: str,
        outcome: Literal["success", "partial", "failure"] | float | None = None,
        alternatives: str | Iterable[str] = (),
        error: str | BaseException = "",
        duration: float | None = None,
        cost: float | None = None,
        informed_by: str | Iterable[str] = (),
        from_others: bool = False,
        at: datetime | str | None = None,
        session: str | None = None,
        importance: float = 0.5,
        key: str | None = None,
        metadata: Mapping[str, JsonValue] = ...,
    ) -> Receipt: ...
    def decisions(self, context: str, *, limit: int = 500) -> builtins.list[Memory]: ...
    def outcome(
        self,
        id: str,
        outcome: Literal["success", "partial", "failure"] | float,
        *,
        used: str | Hit | Iterable[str | Hit] | None = None,
        action: str | None = None,
        error: str | BaseException = "",
        duration: float | None = None,
        cost: float | None = None,
        correct: bool = False,
    ) -> bool: ...
    def outcomes(self, id: str, *, limit: int = 500) -> builtins.list[RecordedOutcome]: ...
    def suggest(
        self,
        context: str,
        *,
        environment: str = "",
        tool: str = "",
        task_type: str = "",
        tags: str | Iterable[str] = (),
        actions: str | Iterable[str] | None = None,
        explore: bool = False,
    ) -> Suggestion: ...
    def predict(
        self,
        context: str,
        action: str,
        *,
        environment: str = "",
        tool: str = "",
        task_type: str = "",
        tags: str | Iterable[str] = (),
    ) -> Prediction: ...
    def check(
        self,
        action: str,
        context: str = "",
        *,
        environment: str = "",
        tool: str = "",
        task_type: str = "",
        tags: str | Iterable[str] = (),
    ) -> Verdict: ...
    def success_patterns(self, *, limit: int = 500) -> builtins.list[SuccessPattern]: ...
    def decision_templates(self, *, limit: int = 500) -> builtins.list[DecisionTemplate]: ...
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
        tags: str | Iterable[str] = (),
        at: datetime | str | None = None,
        session: str | None = None,
        key: str | None = None,
    ) -> FailurePattern: ...
    def failures(self, *, limit: int = 500) -> builtins.list[FailurePattern]: ...
    def failure(self, name: str) -> FailurePattern | None: ...
    def tried(self, pattern: str, solution: str, helped: bool | float = True) -> FailurePattern: ...
    def checks(self, *, limit: int = 500) -> builtins.list[PreventionCheck]: ...
    def generate(self, pattern: str, stage: str = "") -> builtins.list[PreventionCheck]: ...
    def stats(self) -> LearningStats: ...
    def evaluate(
        self,
        *,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        period: Literal["day", "week", "month"] = "week",
    ) -> EvaluationReport: ...
    def agents(self, *, limit: int = 500) -> builtins.list[AgentView]: ...
    def agent(self, name: str) -> AgentView | None: ...
    def cycles(self, *, limit: int = 500) -> builtins.list[AgentCycle]: ...
    def state(self) -> AgentState: ...
    def cycle(self, index: int) -> AgentCycle | None: ...
    def propose(
        self,
        *,
        thoughts: JsonValue = "",
        tool: str = "",
        arguments: Mapping[str, JsonValue] = ...,
        reasoning: str = "",
        plan: str | Iterable[str] = (),
        workspace: str = "",
        again: bool = False,
    ) -> AgentCycle: ...
    def result(
        self,
        index: int,
        *,
        output: JsonValue = None,
        error: str | BaseException | Mapping[str, JsonValue] | None = None,
        artifacts: str | Iterable[str] = (),
        learn: bool = False,
    ) -> AgentCycle: ...
    def resolve(self, index: int, how: Literal["abandon", "retry"], *, reason: str = "") -> AgentCycle: ...
    def workspaces(self, *, limit: int = 500) -> builtins.list[Workspace]: ...
    def snapshots(self, workspace: str, *, limit: int = 500) -> builtins.list[Snapshot]: ...
    def diff(self, workspace: str, before: str, after: str = "latest") -> WorkspaceDiff: ...
    def runs(self, workflow: str = "", *, limit: int = 500) -> builtins.list[RunSummary]: ...
    def run(self, run: str) -> ExecutionResult: ...
    def request_grant(
        self,
        owner: str,
        *,
        memories: str | Iterable[str] = (),
        patterns: str | Iterable[str] = (),
        domains: str | Iterable[str] = (),
        tags: str | Iterable[str] = (),
        everything: bool = False,
        purpose: str = "",
        rights: str | Iterable[str] = (),
        expires: datetime | str | None = None,
    ) -> Grant: ...
    def offer_grant(
        self,
        to: str,
        *,
        memories: str | Iterable[str] = (),
        patterns: str | Iterable[str] = (),
        domains: str | Iterable[str] = (),
        tags: str | Iterable[str] = (),
        everything: bool = False,
        purpose: str = "",
        rights: str | Iterable[str] = (),
        expires: datetime | str | None = None,
    ) -> Grant: ...
    def share(
        self,
        to: str,
        *,
        memories: str | Iterable[str] = (),
        patterns: str | Iterable[str] = (),
        domains: str | Iterable[str] = (),
        tags: str | Iterable[str] = (),
        everything: bool = False,
        purpose: str = "",
        rights: str | Iterable[str] = (),
        expires: datetime | str | None = None,
        via: str = "",
    ) -> Grant: ...
    def approve_grant(
        self,
        id: str,
        *,
        rights: str | Iterable[str] = (),
        expires: datetime | str | None = None,
    ) -> Grant: ...
    def deny_grant(self, id: str) -> Grant: ...
    def revoke_grant(self, id: str) -> Revocation: ...
    def grant(self, id: str) -> Grant: ...
    def grants(self, state: str | None = None, *, limit: int = 500) -> builtins.list[Grant]: ...
    def grant_uses(self, id: str, *, limit: int = 500) -> builtins.list[GrantUse]: ...
    def sources(self, *, limit: int = 500) -> builtins.list[Source]: ...
    def groups(self, *, limit: int = 500) -> builtins.list[GroupView]: ...
    def change_group(
        self,
        name: str,
        *,
        add: str | Iterable[str] = (),
        remove: str | Iterable[str] = (),
    ) -> GroupView: ...
    def merge_knowledge(
        self,
        from_agent: str,
        *,
        domains: str | Iterable[str] = (),
        tags: str | Iterable[str] = (),
        dry_run: bool = False,
    ) -> ImportReport: ...
    def quarantined(self, *, limit: int = 500) -> builtins.list[Quarantined]: ...
    def quarantined_memory(self, id: str) -> Quarantined: ...
    def release(self, id: str) -> Memory: ...
    def discard(self, id: str) -> ForgetReceipt: ...
    def audit(
        self,
        *,
        after: int = 0,
        limit: int = 50,
        newest: bool = True,
        grant: str | None = None,
        since: datetime | str | None = None,
    ) -> builtins.list[AuditEntry]: ...
    def verify_audit(self) -> AuditVerification: ...
    def policies(self, *, limit: int = 500) -> builtins.list[Policy]: ...
    def set_policy(
        self,
        name: str,
        action: Literal["forget", "archive"],
        *,
        agent: str | None = None,
        kinds: str | Iterable[str] = (),
        tags: str | Iterable[str] = (),
        older_than_days: float | None = None,
        weaker_than: float | None = None,
        outcome: Literal["success", "partial", "failure"] | None = None,
    ) -> Policy: ...
    def remove_policy(self, name: str) -> Policy: ...
    def holds(self, *, limit: int = 500) -> builtins.list[LegalHold]: ...
    def hold(
        self,
        reason: str,
        *,
        agent: str | None = None,
        memories: str | Iterable[str] = (),
        tags: str | Iterable[str] = (),
        sessions: str | Iterable[str] = (),
    ) -> LegalHold: ...
    def release_hold(self, id: str) -> LegalHold: ...
    def run_retention(self, *, agents: str | Iterable[str] | None = None, dry_run: bool = False) -> RetentionReport: ...
    def page(
        self,
        cursor: str | None = None,
        *,
        limit: int = 50,
        kinds: str | Iterable[str] = (),
        tags: str | Iterable[str] = (),
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        as_of: datetime | str | None = None,
        session: str | None = None,
    ) -> Page[Memory]: ...

class AsyncMethods(AsyncSender):
    @overload
    async def remember(self, text: str | Draft | Mapping[str, Any], **fields: Any) -> Receipt: ...
    @overload
    async def remember(
        self, text: Sequence[str | Draft | Mapping[str, Any]], **fields: Any
    ) -> builtins.list[Receipt]: ...
    async def export_knowledge(
        self,
        *,
        domains: str | Iterable[str] = (),
        tags: str | Iterable[str] = (),
        form: Literal["json", "jsonl"] = "json",
    ) -> bytes: ...
    async def import_knowledge(
        self,
        file: bytes | Path,
        *,
        format: str | None = None,
        dry_run: bool = False,
        large: bool = False,
    ) -> ImportReport: ...
    async def get(self, id: str) -> Memory | None: ...
    async def list(
        self,
        *,
        limit: int = 50,
        kinds: str | Iterable[str] = (),
        tags: str | Iterable[str] = (),
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        as_of: datetime | str | None = None,
        session: str | None = None,
    ) -> builtins.list[Memory]: ...
    async def annotate(
        self,
        id: str,
        *,
        tags: str | Iterable[str] | None = None,
        importance: float | None = None,
        confidence: float | None = None,
        valid_until: datetime | str | None = None,
        expected_version: int | None = None,
    ) -> Memory: ...
    async def forget(self, id: str, *, expected_version: int | None = None) -> ForgetReceipt: ...
    async def recall(
        self,
        query: str,
        k: int = 5,
        *,
        kinds: str | Iterable[str] = (),
        tags: str | Iterable[str] = (),
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        as_of: datetime | str | None = None,
        now: datetime | str | None = None,
        session: str | None = None,
        min_score: float = 0.0,
        group_by: Literal["session"] | None = None,
        budget_tokens: int | None = None,
        expand: bool = False,
    ) -> Recall: ...
    async def context(
        self,
        query: str,
        k: int = 8,
        *,
        kinds: str | Iterable[str] = (),
        tags: str | Iterable[str] = (),
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        as_of: datetime | str | None = None,
        now: datetime | str | None = None,
        session: str | None = None,
        min_score: float = 0.0,
        group_by: Literal["session"] | None = None,
        budget_tokens: int = 1000,
        expand: bool = False,
    ) -> str: ...
    async def record_decision(
        self,
        *,
        environment: str = "",
        tool: str = "",
        task_type: str = "",
        tags: str | Iterable[str] = (),
        context: str,
        action: str,
        outcome: Literal["success", "partial", "failure"] | float | None = None,
        alternatives: str | Iterable[str] = (),
        error: str | BaseException = "",
        duration: float | None = None,
        cost: float | None = None,
        informed_by: str | Iterable[str] = (),
        from_others: bool = False,
        at: datetime | str | None = None,
        session: str | None = None,
        importance: float = 0.5,
        key: str | None = None,
        metadata: Mapping[str, JsonValue] = ...,
    ) -> Receipt: ...
    async def decisions(self, context: str, *, limit: int = 500) -> builtins.list[Memory]: ...
    async def outcome(
        self,
        id: str,
        outcome: Literal["success", "partial", "failure"] | float,
        *,
        used: str | Hit | Iterable[str | Hit] | None = None,
        action: str | None = None,
        error: str | BaseException = "",
        duration: float | None = None,
        cost: float | None = None,
        correct: bool = False,
    ) -> bool: ...
    async def outcomes(self, id: str, *, limit: int = 500) -> builtins.list[RecordedOutcome]: ...
    async def suggest(
        self,
        context: str,
        *,
        environment: str = "",
        tool: str = "",
        task_type: str = "",
        tags: str | Iterable[str] = (),
        actions: str | Iterable[str] | None = None,
        explore: bool = False,
    ) -> Suggestion: ...
    async def predict(
        self,
        context: str,
        action: str,
        *,
        environment: str = "",
        tool: str = "",
        task_type: str = "",
        tags: str | Iterable[str] = (),
    ) -> Prediction: ...
    async def check(
        self,
        action: str,
        context: str = "",
        *,
        environment: str = "",
        tool: str = "",
        task_type: str = "",
        tags: str | Iterable[str] = (),
    ) -> Verdict: ...
    async def success_patterns(self, *, limit: int = 500) -> builtins.list[SuccessPattern]: ...
    async def decision_templates(self, *, limit: int = 500) -> builtins.list[DecisionTemplate]: ...
    async def learn_from_failure(
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
        tags: str | Iterable[str] = (),
        at: datetime | str | None = None,
        session: str | None = None,
        key: str | None = None,
    ) -> FailurePattern: ...
    async def failures(self, *, limit: int = 500) -> builtins.list[FailurePattern]: ...
    async def failure(self, name: str) -> FailurePattern | None: ...
    async def tried(self, pattern: str, solution: str, helped: bool | float = True) -> FailurePattern: ...
    async def checks(self, *, limit: int = 500) -> builtins.list[PreventionCheck]: ...
    async def generate(self, pattern: str, stage: str = "") -> builtins.list[PreventionCheck]: ...
    async def stats(self) -> LearningStats: ...
    async def evaluate(
        self,
        *,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        period: Literal["day", "week", "month"] = "week",
    ) -> EvaluationReport: ...
    async def agents(self, *, limit: int = 500) -> builtins.list[AgentView]: ...
    async def agent(self, name: str) -> AgentView | None: ...
    async def cycles(self, *, limit: int = 500) -> builtins.list[AgentCycle]: ...
    async def state(self) -> AgentState: ...
    async def cycle(self, index: int) -> AgentCycle | None: ...
    async def propose(
        self,
        *,
        thoughts: JsonValue = "",
        tool: str = "",
        arguments: Mapping[str, JsonValue] = ...,
        reasoning: str = "",
        plan: str | Iterable[str] = (),
        workspace: str = "",
        again: bool = False,
    ) -> AgentCycle: ...
    async def result(
        self,
        index: int,
        *,
        output: JsonValue = None,
        error: str | BaseException | Mapping[str, JsonValue] | None = None,
        artifacts: str | Iterable[str] = (),
        learn: bool = False,
    ) -> AgentCycle: ...
    async def resolve(self, index: int, how: Literal["abandon", "retry"], *, reason: str = "") -> AgentCycle: ...
    async def workspaces(self, *, limit: int = 500) -> builtins.list[Workspace]: ...
    async def snapshots(self, workspace: str, *, limit: int = 500) -> builtins.list[Snapshot]: ...
    async def diff(self, workspace: str, before: str, after: str = "latest") -> WorkspaceDiff: ...
    async def runs(self, workflow: str = "", *, limit: int = 500) -> builtins.list[RunSummary]: ...
    async def run(self, run: str) -> ExecutionResult: ...
    async def request_grant(
        self,
        owner: str,
        *,
        memories: str | Iterable[str] = (),
        patterns: str | Iterable[str] = (),
        domains: str | Iterable[str] = (),
        tags: str | Iterable[str] = (),
        everything: bool = False,
        purpose: str = "",
        rights: str | Iterable[str] = (),
        expires: datetime | str | None = None,
    ) -> Grant: ...
    async def offer_grant(
        self,
        to: str,
        *,
        memories: str | Iterable[str] = (),
        patterns: str | Iterable[str] = (),
        domains: str | Iterable[str] = (),
        tags: str | Iterable[str] = (),
        everything: bool = False,
        purpose: str = "",
        rights: str | Iterable[str] = (),
        expires: datetime | str | None = None,
    ) -> Grant: ...
    async def share(
        self,
        to: str,
        *,
        memories: str | Iterable[str] = (),
        patterns: str | Iterable[str] = (),
        domains: str | Iterable[str] = (),
        tags: str | Iterable[str] = (),
        everything: bool = False,
        purpose: str = "",
        rights: str | Iterable[str] = (),
        expires: datetime | str | None = None,
        via: str = "",
    ) -> Grant: ...
    async def approve_grant(
        self,
        id: str,
        *,
        rights: str | Iterable[str] = (),
        expires: datetime | str | None = None,
    ) -> Grant: ...
    async def deny_grant(self, id: str) -> Grant: ...
    async def revoke_grant(self, id: str) -> Revocation: ...
    async def grant(self, id: str) -> Grant: ...
    async def grants(self, state: str | None = None, *, limit: int = 500) -> builtins.list[Grant]: ...
    async def grant_uses(self, id: str, *, limit: int = 500) -> builtins.list[GrantUse]: ...
    async def sources(self, *, limit: int = 500) -> builtins.list[Source]: ...
    async def groups(self, *, limit: int = 500) -> builtins.list[GroupView]: ...
    async def change_group(
        self,
        name: str,
        *,
        add: str | Iterable[str] = (),
        remove: str | Iterable[str] = (),
    ) -> GroupView: ...
    async def merge_knowledge(
        self,
        from_agent: str,
        *,
        domains: str | Iterable[str] = (),
        tags: str | Iterable[str] = (),
        dry_run: bool = False,
    ) -> ImportReport: ...
    async def quarantined(self, *, limit: int = 500) -> builtins.list[Quarantined]: ...
    async def quarantined_memory(self, id: str) -> Quarantined: ...
    async def release(self, id: str) -> Memory: ...
    async def discard(self, id: str) -> ForgetReceipt: ...
    async def audit(
        self,
        *,
        after: int = 0,
        limit: int = 50,
        newest: bool = True,
        grant: str | None = None,
        since: datetime | str | None = None,
    ) -> builtins.list[AuditEntry]: ...
    async def verify_audit(self) -> AuditVerification: ...
    async def policies(self, *, limit: int = 500) -> builtins.list[Policy]: ...
    async def set_policy(
        self,
        name: str,
        action: Literal["forget", "archive"],
        *,
        agent: str | None = None,
        kinds: str | Iterable[str] = (),
        tags: str | Iterable[str] = (),
        older_than_days: float | None = None,
        weaker_than: float | None = None,
        outcome: Literal["success", "partial", "failure"] | None = None,
    ) -> Policy: ...
    async def remove_policy(self, name: str) -> Policy: ...
    async def holds(self, *, limit: int = 500) -> builtins.list[LegalHold]: ...
    async def hold(
        self,
        reason: str,
        *,
        agent: str | None = None,
        memories: str | Iterable[str] = (),
        tags: str | Iterable[str] = (),
        sessions: str | Iterable[str] = (),
    ) -> LegalHold: ...
    async def release_hold(self, id: str) -> LegalHold: ...
    async def run_retention(
        self,
        *,
        agents: str | Iterable[str] | None = None,
        dry_run: bool = False,
    ) -> RetentionReport: ...
    async def page(
        self,
        cursor: str | None = None,
        *,
        limit: int = 50,
        kinds: str | Iterable[str] = (),
        tags: str | Iterable[str] = (),
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        as_of: datetime | str | None = None,
        session: str | None = None,
    ) -> Page[Memory]: ...

def deprecated(old: str, new: str) -> Callable[..., Any]: ...
