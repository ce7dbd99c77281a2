"""The interface of the library with `await`: each call runs the synchronous method in a thread."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from functools import cached_property, update_wrapper
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, TypeVar, Unpack, overload

from engram.agents.cycles import CycleRef, Insight, Life
from engram.agents.definitions import Definitions
from engram.agents.executor import AsyncJudge, Recover, Task, TaskExecutor, TaskResult
from engram.agents.guard import CircumstanceFields, Function, GuardedBlock, GuardOptions, OnWarn
from engram.agents.workflows.runner import WorkflowEngine
from engram.agents.workspaces.snapshots import Workspaces
from engram.audit import AuditTrail
from engram.engine import AgentHandle, Engram
from engram.learning.service import Learning
from engram.learning.situations.editor import SituationEditor
from engram.memories.episodic import EpisodicMemory
from engram.memories.procedural import ProceduralMemory
from engram.memories.semantic import SemanticMemory
from engram.memories.working import SessionOptions, WorkingMemory
from engram.model import AuditEntry, Draft, FailurePattern, LearningStats, Receipt
from engram.model.success import Synthesis
from engram.recording.quarantine import Quarantine
from engram.retention.policies import Retention
from engram.sharing.api_keys import Keys
from engram.sharing.grants import Grants
from engram.sharing.patterns import SharedPatterns
from engram.transfer.knowledge import Knowledge
from engram.upkeep.maintenance import Upkeep

P = ParamSpec("P")
R = TypeVar("R")


def _in_thread(method: Callable[Concatenate[Any, P], R]) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, R]]:
    async def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return await asyncio.to_thread(lambda: method(self._sync, *args, **kwargs))

    update_wrapper(call, method)
    call.__doc__ = f"`{method.__qualname__}`, in a thread."
    return call


class AsyncLearning:
    """`Learning` with `await`."""

    def __init__(self, learning: Learning) -> None:
        self._sync = learning

    async def synthesis(self, others: Sequence[AsyncLearning] = ()) -> Synthesis:
        """`Learning.synthesis`, in a thread."""
        return await asyncio.to_thread(self._sync.synthesis, [other._sync for other in others])

    async def stats(self, others: Sequence[AsyncLearning] = ()) -> LearningStats:
        """`Learning.stats`, in a thread."""
        return await asyncio.to_thread(self._sync.stats, [other._sync for other in others])

    failures = _in_thread(Learning.failures)
    failure = _in_thread(Learning.failure)
    tried = _in_thread(Learning.tried)
    checks = _in_thread(Learning.checks)
    generate = _in_thread(Learning.generate)
    run = _in_thread(Learning.run)
    rates = _in_thread(Learning.rates)
    history = _in_thread(Learning.history)
    calibration = _in_thread(Learning.calibration)
    harmful = _in_thread(Learning.harmful)
    alarms = _in_thread(Learning.alarms)


class AsyncSituations:
    """`SituationEditor` with `await`."""

    def __init__(self, editor: SituationEditor) -> None:
        self._sync = editor

    list = _in_thread(SituationEditor.list)
    get = _in_thread(SituationEditor.get)
    rename = _in_thread(SituationEditor.rename)
    merge = _in_thread(SituationEditor.merge)
    split = _in_thread(SituationEditor.split)
    pin = _in_thread(SituationEditor.pin)


class AsyncSharedPatterns:
    """`SharedPatterns` with `await`."""

    def __init__(self, patterns: SharedPatterns) -> None:
        self._sync = patterns

    list = _in_thread(SharedPatterns.list)
    failures = _in_thread(SharedPatterns.failures)
    find = _in_thread(SharedPatterns.find)
    checks = _in_thread(SharedPatterns.checks)
    all_failures = _in_thread(SharedPatterns.all_failures)
    all_successes = _in_thread(SharedPatterns.all_successes)
    all_templates = _in_thread(SharedPatterns.all_templates)
    all_checks = _in_thread(SharedPatterns.all_checks)
    failure = _in_thread(SharedPatterns.failure)
    owners = _in_thread(SharedPatterns.owners)


class AsyncWorking:
    """`WorkingMemory` with `await`; the session is opened on first use."""

    def __init__(self, open: Callable[[], WorkingMemory]) -> None:
        self._open = open

    @cached_property
    def _sync(self) -> WorkingMemory:
        return self._open()

    @property
    async def tokens(self) -> int:
        """`WorkingMemory.tokens`, in a thread: `await working.tokens`."""
        return await asyncio.to_thread(lambda: self._sync.tokens)

    @property
    async def data(self) -> dict[str, str]:
        """`WorkingMemory.data`, in a thread: `await working.data`."""
        return await asyncio.to_thread(lambda: self._sync.data)

    drop_summary = _in_thread(WorkingMemory.drop_summary)
    set = _in_thread(WorkingMemory.set)
    get = _in_thread(WorkingMemory.get)
    delete = _in_thread(WorkingMemory.delete)
    add_message = _in_thread(WorkingMemory.add_message)
    messages = _in_thread(WorkingMemory.messages)
    get_recent_messages = _in_thread(WorkingMemory.get_recent_messages)
    summary = _in_thread(WorkingMemory.summary)
    create_summary = _in_thread(WorkingMemory.create_summary)
    hand_over = _in_thread(WorkingMemory.hand_over)
    close = _in_thread(WorkingMemory.close)

    async def __aenter__(self) -> AsyncWorking:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


class AsyncEpisodic:
    """`EpisodicMemory` with `await`."""

    def __init__(self, memory: EpisodicMemory) -> None:
        self._sync = memory

    record = _in_thread(EpisodicMemory.record)
    outcome = _in_thread(EpisodicMemory.outcome)
    get = _in_thread(EpisodicMemory.get)
    query = _in_thread(EpisodicMemory.query)
    similar = _in_thread(EpisodicMemory.similar)


class AsyncSemantic:
    """`SemanticMemory` with `await`."""

    def __init__(self, memory: SemanticMemory) -> None:
        self._sync = memory

    learn = _in_thread(SemanticMemory.learn)
    relate = _in_thread(SemanticMemory.relate)
    tell = _in_thread(SemanticMemory.tell)
    retract = _in_thread(SemanticMemory.retract)
    facts = _in_thread(SemanticMemory.facts)
    ask = _in_thread(SemanticMemory.ask)
    history = _in_thread(SemanticMemory.history)
    contradictions = _in_thread(SemanticMemory.contradictions)
    concept = _in_thread(SemanticMemory.concept)
    graph = _in_thread(SemanticMemory.graph)
    neighbours = _in_thread(SemanticMemory.neighbours)
    paths = _in_thread(SemanticMemory.paths)
    subgraph = _in_thread(SemanticMemory.subgraph)
    related = _in_thread(SemanticMemory.related)
    edges = _in_thread(SemanticMemory.edges)
    expand = _in_thread(SemanticMemory.expand)
    recall = _in_thread(SemanticMemory.recall)


class AsyncProcedural:
    """`ProceduralMemory` with `await`."""

    def __init__(self, memory: ProceduralMemory) -> None:
        self._sync = memory

    add = _in_thread(ProceduralMemory.add)
    skills = _in_thread(ProceduralMemory.skills)
    get = _in_thread(ProceduralMemory.get)
    history = _in_thread(ProceduralMemory.history)
    match = _in_thread(ProceduralMemory.match)
    render = _in_thread(ProceduralMemory.render)
    used = _in_thread(ProceduralMemory.used)
    promote = _in_thread(ProceduralMemory.promote)
    remove = _in_thread(ProceduralMemory.remove)


class AsyncGrants:
    """`Grants` with `await`."""

    def __init__(self, grants: Grants) -> None:
        self._sync = grants

    request = _in_thread(Grants.request)
    offer = _in_thread(Grants.offer)
    share = _in_thread(Grants.share)
    approve = _in_thread(Grants.approve)
    deny = _in_thread(Grants.deny)
    revoke = _in_thread(Grants.revoke)
    list = _in_thread(Grants.list)
    get = _in_thread(Grants.get)
    uses = _in_thread(Grants.uses)
    sources = _in_thread(Grants.sources)


class AsyncQuarantine:
    """`Quarantine` with `await`."""

    def __init__(self, quarantine: Quarantine) -> None:
        self._sync = quarantine

    put = _in_thread(Quarantine.put)
    keep = _in_thread(Quarantine.keep)
    move = _in_thread(Quarantine.move)
    list = _in_thread(Quarantine.list)
    get = _in_thread(Quarantine.get)
    release = _in_thread(Quarantine.release)
    discard = _in_thread(Quarantine.discard)


class AsyncLife:
    """`Life` with `await`."""

    def __init__(self, life: Life) -> None:
        self._sync = life

    async def record(self, cycle: CycleRef, insights: Insight | Sequence[Insight], **fields: Any) -> list[Receipt]:
        """`Life.record`, in a thread."""
        return await asyncio.to_thread(lambda: self._sync.record(cycle, insights, **fields))

    propose = _in_thread(Life.propose)
    result = _in_thread(Life.result)
    recall = _in_thread(Life.recall)
    resume = _in_thread(Life.resume)
    resolve = _in_thread(Life.resolve)
    cycle = _in_thread(Life.cycle)
    cycles = _in_thread(Life.cycles)
    forget = _in_thread(Life.forget)


class AsyncWorkspaces:
    """`Workspaces` with `await`."""

    def __init__(self, workspaces: Workspaces) -> None:
        self._sync = workspaces

    create = _in_thread(Workspaces.create)
    workspace = _in_thread(Workspaces.workspace)
    list = _in_thread(Workspaces.list)
    snapshots = _in_thread(Workspaces.snapshots)
    find = _in_thread(Workspaces.find)
    snapshot = _in_thread(Workspaces.snapshot)
    files = _in_thread(Workspaces.files)
    diff = _in_thread(Workspaces.diff)
    restore = _in_thread(Workspaces.restore)
    verify = _in_thread(Workspaces.verify)
    forget = _in_thread(Workspaces.forget)
    prune = _in_thread(Workspaces.prune)


class AsyncWorkflows:
    """`WorkflowEngine` with `await`; the steps of a run execute in a thread, one after the other."""

    def __init__(self, engine: WorkflowEngine) -> None:
        self._sync = engine

    run = _in_thread(WorkflowEngine.run)
    resume = _in_thread(WorkflowEngine.resume)
    status = _in_thread(WorkflowEngine.status)
    runs = _in_thread(WorkflowEngine.runs)


class AsyncDefinitions:
    """`Definitions` with `await`."""

    def __init__(self, definitions: Definitions) -> None:
        self._sync = definitions

    define = _in_thread(Definitions.define)
    current = _in_thread(Definitions.current)
    history = _in_thread(Definitions.history)
    load = _in_thread(Definitions.load)


class AsyncKeys:
    """`Keys` with `await`."""

    def __init__(self, keys: Keys) -> None:
        self._sync = keys

    create = _in_thread(Keys.create)
    accept = _in_thread(Keys.accept)
    live = _in_thread(Keys.live)
    every = _in_thread(Keys.every)
    revoke = _in_thread(Keys.revoke)


class AsyncRetention:
    """`Retention` with `await`."""

    def __init__(self, retention: Retention) -> None:
        self._sync = retention

    policies = _in_thread(Retention.policies)
    set = _in_thread(Retention.set)
    remove = _in_thread(Retention.remove)
    holds = _in_thread(Retention.holds)
    hold = _in_thread(Retention.hold)
    release = _in_thread(Retention.release)
    run = _in_thread(Retention.run)
    erase = _in_thread(Retention.erase)


class AsyncUpkeep:
    """`Upkeep` with `await`."""

    def __init__(self, upkeep: Upkeep) -> None:
        self._sync = upkeep

    consolidate = _in_thread(Upkeep.consolidate)
    undo = _in_thread(Upkeep.undo)
    fading = _in_thread(Upkeep.fading)
    forget = _in_thread(Upkeep.forget)
    restore = _in_thread(Upkeep.restore)
    evaluate = _in_thread(Upkeep.evaluate)
    rebuild = _in_thread(Upkeep.rebuild)
    relearn = _in_thread(Upkeep.relearn)
    reembed = _in_thread(Upkeep.reembed)
    missing_vectors = _in_thread(Upkeep.missing_vectors)
    sync = _in_thread(Upkeep.sync)
    tune = _in_thread(Upkeep.tune)


class AsyncKnowledge:
    """`Knowledge` with `await`."""

    def __init__(self, knowledge: Knowledge) -> None:
        self._sync = knowledge

    export = _in_thread(Knowledge.export)
    import_file = _in_thread(Knowledge.import_file)
    merge = _in_thread(Knowledge.merge)


class AsyncAuditTrail:
    """`AuditTrail` with `await`; entries are returned as a list."""

    def __init__(self, trail: AuditTrail) -> None:
        self._sync = trail

    async def entries(self) -> list[AuditEntry]:
        """`AuditTrail.entries`, in a thread."""
        return await asyncio.to_thread(lambda: [*self._sync.entries()])

    async def export(self) -> list[str]:
        """`AuditTrail.export`, in a thread."""
        return await asyncio.to_thread(lambda: [*self._sync.export()])

    find = _in_thread(AuditTrail.find)
    checkpoints = _in_thread(AuditTrail.checkpoints)
    checkpoint = _in_thread(AuditTrail.checkpoint)
    head = _in_thread(AuditTrail.head)
    prune = _in_thread(AuditTrail.prune)
    verify = _in_thread(AuditTrail.verify)


class AsyncAgent:
    """`AgentHandle` with `await`."""

    def __init__(self, agent: AgentHandle) -> None:
        self._sync = agent
        self.learning = AsyncLearning(agent.learning)
        """What the agent has learned: patterns, checks, rates and their calibration."""

    @property
    def name(self) -> str:
        """The agent's name."""
        return self._sync.name

    def working(self, session: str = "main", **options: Unpack[SessionOptions]) -> AsyncWorking:
        """`AgentHandle.working`, for `async with`."""
        return AsyncWorking(lambda: self._sync.working(session, **options))

    @property
    def situations(self) -> AsyncSituations:
        """`AgentHandle.situations`."""
        return AsyncSituations(self._sync.situations)

    @property
    def shared_patterns(self) -> AsyncSharedPatterns:
        """`AgentHandle.shared_patterns`."""
        return AsyncSharedPatterns(self._sync.shared_patterns)

    @property
    def grants(self) -> AsyncGrants:
        """`AgentHandle.grants`."""
        return AsyncGrants(self._sync.grants)

    @property
    def quarantine(self) -> AsyncQuarantine:
        """`AgentHandle.quarantine`."""
        return AsyncQuarantine(self._sync.quarantine)

    @property
    def episodic(self) -> AsyncEpisodic:
        """`AgentHandle.episodic`."""
        return AsyncEpisodic(self._sync.episodic)

    @property
    def semantic(self) -> AsyncSemantic:
        """`AgentHandle.semantic`."""
        return AsyncSemantic(self._sync.semantic)

    @property
    def procedural(self) -> AsyncProcedural:
        """`AgentHandle.procedural`."""
        return AsyncProcedural(self._sync.procedural)

    @property
    def knowledge(self) -> AsyncKnowledge:
        """`AgentHandle.knowledge`."""
        return AsyncKnowledge(self._sync.knowledge)

    @property
    def workspaces(self) -> AsyncWorkspaces:
        """`AgentHandle.workspaces`."""
        return AsyncWorkspaces(self._sync.workspaces)

    def workflows(self, **options: Any) -> AsyncWorkflows:
        """`AgentHandle.workflows`."""
        return AsyncWorkflows(self._sync.workflows(**options))

    @property
    def life(self) -> AsyncLife:
        """`AgentHandle.life`."""
        return AsyncLife(self._sync.life)

    @overload
    async def remember(self, text: str | Draft | Mapping[str, Any], **fields: Any) -> Receipt: ...
    @overload
    async def remember(self, text: Sequence[str | Draft | Mapping[str, Any]], **fields: Any) -> list[Receipt]: ...
    async def remember(self, text: Any, **fields: Any) -> Any:
        """`AgentHandle.remember`, in a thread."""
        return await asyncio.to_thread(lambda: self._sync.remember(text, **fields))

    @overload
    def guard(self, function: Function, /) -> Function: ...
    @overload
    def guard(self, function: None = None, /, **options: Unpack[GuardOptions]) -> Callable[[Function], Function]: ...
    def guard(self, function: Callable[..., Any] | None = None, /, **options: Unpack[GuardOptions]) -> Any:
        """`AgentHandle.guard`; for a coroutine function the memory is queried in a thread."""
        decorate = self._sync.guard(**options)
        return decorate if function is None else decorate(function)

    def guarding(
        self, *, action: str, context: str, on_warn: OnWarn | None = None, **around: Unpack[CircumstanceFields]
    ) -> GuardedBlock:
        """`AgentHandle.guarding`, for `async with`."""
        return self._sync.guarding(action=action, context=context, on_warn=on_warn, **around)

    async def learn_from_failure(
        self, error: str | BaseException, solution: str = "", **details: Any
    ) -> FailurePattern:
        """`AgentHandle.learn_from_failure`, in a thread."""
        return await asyncio.to_thread(lambda: self._sync.learn_from_failure(error, solution, **details))

    record_decision = _in_thread(AgentHandle.record_decision)
    recall = _in_thread(AgentHandle.recall)
    context = _in_thread(AgentHandle.context)
    credit = _in_thread(AgentHandle.credit)
    suggest = _in_thread(AgentHandle.suggest)
    predict = _in_thread(AgentHandle.predict)
    check = _in_thread(AgentHandle.check)
    outcome = _in_thread(AgentHandle.outcome)
    outcomes = _in_thread(AgentHandle.outcomes)
    decisions = _in_thread(AgentHandle.decisions)
    get = _in_thread(AgentHandle.get)
    indexes = _in_thread(AgentHandle.indexes)
    list = _in_thread(AgentHandle.list)
    annotate = _in_thread(AgentHandle.annotate)
    forget = _in_thread(AgentHandle.forget)


class AsyncEngram:
    """`Engram` with `await`; wraps an open one, and closes it at the end of an `async with` block."""

    def __init__(self, brain: Engram) -> None:
        self._sync = brain

    def agent(self, name: str) -> AsyncAgent:
        """Return the handle of an agent."""
        return AsyncAgent(self._sync.agent(name))

    @property
    def definitions(self) -> AsyncDefinitions:
        """`Engram.definitions`."""
        return AsyncDefinitions(self._sync.definitions)

    @property
    def keys(self) -> AsyncKeys:
        """`Engram.keys`."""
        return AsyncKeys(self._sync.keys)

    @property
    def audit(self) -> AsyncAuditTrail:
        """`Engram.audit`."""
        return AsyncAuditTrail(self._sync.audit)

    @property
    def retention(self) -> AsyncRetention:
        """`Engram.retention`."""
        return AsyncRetention(self._sync.retention)

    @property
    def upkeep(self) -> AsyncUpkeep:
        """`Engram.upkeep`."""
        return AsyncUpkeep(self._sync.upkeep)

    agents = _in_thread(Engram.agents)
    close = _in_thread(Engram.close)

    async def __aenter__(self) -> AsyncEngram:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


class AsyncTaskExecutor:
    """`TaskExecutor` with `await`, for the agents of an `AsyncEngram`."""

    def __init__(self, agent: AsyncAgent, recover: Recover | None = None) -> None:
        self._sync = TaskExecutor(agent._sync, recover)

    @overload
    async def execute_with_memory(
        self,
        task: Task | str,
        run: Callable[..., Awaitable[R]],
        *,
        judge: AsyncJudge | None = None,
        ignore_blocks: bool = False,
    ) -> TaskResult[R]: ...
    @overload
    async def execute_with_memory(
        self,
        task: Task | str,
        run: Callable[..., R],
        *,
        judge: AsyncJudge | None = None,
        ignore_blocks: bool = False,
    ) -> TaskResult[R]: ...
    async def execute_with_memory(self, task: Task | str, run: Callable[..., Any], **options: Any) -> TaskResult[Any]:
        """`TaskExecutor.aexecute_with_memory`."""
        return await self._sync.aexecute_with_memory(task, run, **options)
