"""The same calls with `await`: each runs the synchronous one in a thread, so nothing is written twice."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, TypeVar, Unpack, overload

from engram.engine import AgentHandle, Engram
from engram.learn.learning import Learning
from engram.lifecycle.executor import AsyncJudge, Recover, Task, TaskExecutor, TaskResult
from engram.lifecycle.guard import Around, Function, Guarding, OnWarn, Options
from engram.model import Draft, FailurePattern, LearningStats, Receipt
from engram.model.success import Synthesis

P = ParamSpec("P")
R = TypeVar("R")


def _in_thread(method: Callable[Concatenate[Any, P], R]) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, R]]:
    async def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return await asyncio.to_thread(method, self._sync, *args, **kwargs)

    call.__name__, call.__doc__ = method.__name__, f"`{method.__qualname__}`, in a thread."
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
    history = _in_thread(Learning.history)
    calibration = _in_thread(Learning.calibration)
    harmful = _in_thread(Learning.harmful)


class AsyncAgent:
    """`AgentHandle` with `await`."""

    def __init__(self, agent: AgentHandle) -> None:
        self._sync = agent
        self.learning = AsyncLearning(agent.learning)
        """What it has learned: patterns, checks, rates, and how far they can be believed."""

    @property
    def name(self) -> str:
        """The agent's name."""
        return self._sync.name

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
    def guard(self, function: None = None, /, **options: Unpack[Options]) -> Callable[[Function], Function]: ...
    def guard(self, function: Callable[..., Any] | None = None, /, **options: Unpack[Options]) -> Any:
        """`AgentHandle.guard`; calls of a coroutine function ask the memory in a thread."""
        decorate = self._sync.guard(**options)
        return decorate if function is None else decorate(function)

    def guarding(
        self, *, action: str, context: str, on_warn: OnWarn | None = None, **around: Unpack[Around]
    ) -> Guarding:
        """`AgentHandle.guarding`, for `async with`."""
        return self._sync.guarding(action=action, context=context, on_warn=on_warn, **around)

    async def learn_from_failure(
        self, error: str | BaseException, solution: str = "", **details: Any
    ) -> FailurePattern:
        """`AgentHandle.learn_from_failure`, in a thread."""
        return await asyncio.to_thread(lambda: self._sync.learn_from_failure(error, solution, **details))

    record_decision = _in_thread(AgentHandle.record_decision)
    recall = _in_thread(AgentHandle.recall)
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
    """`Engram` with `await`; wraps one that is open, and closes it at the end of an `async with`."""

    def __init__(self, brain: Engram) -> None:
        self._sync = brain

    def agent(self, name: str) -> AsyncAgent:
        """Everything that one agent can do, in its own scope."""
        return AsyncAgent(self._sync.agent(name))

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
