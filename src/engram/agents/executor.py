"""Run tasks with memory: recall and advice before, recording of the outcome after."""

from __future__ import annotations

import asyncio
import functools
import inspect
import logging
import time
from collections.abc import Awaitable, Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar, overload

from engram.agents.guard import (
    CircumstanceFields,
    Clock,
    blocked_error,
    emit_warning,
    helpful_solutions,
    is_async,
    is_outcome,
    name_of,
    summary_of,
    try_memory,
    try_record,
    unknown_verdict,
)
from engram.errors import InvalidInput
from engram.model import Hit, KnownFailure, Recall, Solution, SuccessContent, Suggestion, Verdict, quality
from engram.model.success import Synthesis
from engram.ports.agent import ExecutorAgent
from engram.text.terms import normal_form

MEMORIES = 10
_log = logging.getLogger("engram")

T = TypeVar("T")
Judge = Callable[[Any], str | float]
"""A function that rates a result: success, failure, partial, or a number from 0 to 1."""
AsyncJudge = Callable[[Any], str | float | Awaitable[str | float]]


@dataclass(frozen=True, slots=True)
class Task:
    """A task in a context, with the actions to choose from, if any.

    `default_action` is taken while nothing is known; without it, the first action, the `name`, or the name of the
    function. Raises `InvalidInput` for an empty context.
    """

    context: str
    name: str = ""
    actions: Sequence[str] = ()
    environment: str = ""
    tool: str = ""
    task_type: str = ""
    tags: Sequence[str] = ()
    default_action: str = ""
    session: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.context, str) or not self.context.strip():
            raise InvalidInput("a task needs a context; describe what is to be done")
        for name in ("actions", "tags"):
            several = getattr(self, name)
            if isinstance(several, str) or not all(isinstance(one, str) and one.strip() for one in several):
                raise InvalidInput(f"the {name} of a task are a list of texts, none of them empty")
            object.__setattr__(self, name, tuple(several))

    @property
    def circumstances(self) -> CircumstanceFields:
        """The environment, tool, task type and tags."""
        return CircumstanceFields(
            environment=self.environment, tool=self.tool, task_type=self.task_type, tags=tuple(self.tags)
        )

    def matching_action(self, action: str | None) -> str | None:
        """Return the task's own spelling of an action; `None` if it is not one of its actions."""
        if action is None or not self.actions:
            return action
        return next((own for own in self.actions if normal_form(own) == normal_form(action)), None)


@dataclass(frozen=True)
class Strategy:
    """The chosen approach for a task, and the evidence behind it.

    A run calls `use` for the memories it relied on; only these are credited with the outcome.
    """

    chosen_approach: str
    memories: Recall
    suggestion: Suggestion | None
    verdict: Verdict
    informed_by: tuple[str, ...] = ()
    """The ids of the verdicts, suggestions and recalls behind it."""
    synthesis: Callable[[], Synthesis] = field(default=Synthesis, repr=False, compare=False)
    _used: list[str] = field(default_factory=list, init=False, repr=False, compare=False)

    def use(self, memory: str | Hit) -> None:
        """Mark a memory as used by the run; an unknown one is only logged."""
        id = memory.id if isinstance(memory, Hit) else memory
        if not any(hit.id == id for hit in self.memories):
            _log.warning("%a is not among the memories of the strategy, and gets no credit", id)
        elif id not in self._used:
            self._used.append(id)

    @property
    def used(self) -> tuple[str, ...]:
        """The ids of the memories marked as used."""
        return tuple(self._used)

    @property
    def failures(self) -> tuple[KnownFailure, ...]:
        """Earlier failures of the chosen approach."""
        return self.verdict.failures

    @functools.cached_property
    def steps(self) -> tuple[str, ...]:
        """The steps of the chosen approach when it succeeded; computed on first access from all decisions."""
        same = normal_form(self.chosen_approach)
        near = set(self.suggestion.evidence) if self.suggestion is not None else set()
        patterns = try_memory(self.synthesis, Synthesis()).patterns if near else ()
        known = [
            (pattern.success_rate, pattern.replication_steps)
            for pattern in patterns
            if normal_form(pattern.successful_approach) == same and near & set(pattern.episodes)
        ]
        told = [
            content.replication_steps
            for hit in self.memories
            if isinstance(content := hit.memory.content, SuccessContent)
            and normal_form(content.successful_approach) == same
        ]
        ranked = [steps for _, steps in sorted(known, key=lambda one: -one[0])]
        return next((tuple(steps) for steps in [*ranked, *told] if steps), ())


@dataclass(frozen=True, slots=True)
class Recovery:
    """Optional return value of a `recover` hook: the value, the solution applied, and whether it helped."""

    value: Any = None
    solution: str = ""
    helped: bool = True


@dataclass(frozen=True, slots=True)
class TaskResult(Generic[T]):
    """Result of a task; `outcome` is the recorded outcome of the approach, even if the failure was recovered from.

    It is `None` if the judge could not rate the result.
    """

    value: T
    outcome: str | float | None
    strategy: Strategy
    decision_id: str | None
    recovered: bool
    error: Exception | None
    duration: float


Recover = Callable[[Exception, tuple[Solution, ...], Strategy], Any]


@dataclass(frozen=True, slots=True)
class _MemoryStep:
    """A step to be executed by the memory."""

    call: Callable[[], Any]


@dataclass(frozen=True, slots=True)
class _CallerStep:
    """A step to be executed in the caller's context; its result is sent back."""

    call: Callable[[], Any]


@dataclass(frozen=True, slots=True)
class _CallOutcome:
    value: Any = None
    error: Exception | None = None


class _NotAwaited(InvalidInput):
    """An async function was called by the synchronous executor."""


_StepGenerator = Generator[_MemoryStep | _CallerStep, Any, TaskResult[Any]]


class TaskExecutor:
    """Runs tasks with an agent's memory and records their outcomes.

    `recover(error, solutions, strategy)` is called when a task fails: it returns a result, or a `Recovery` that names
    the applied solution. Otherwise the first of the given solutions is assumed, or, without any, the summary of the
    hook's docstring. If it raises `error` itself, it did not try anything.
    """

    def __init__(
        self, agent: ExecutorAgent, recover: Recover | None = None, *, clock: Clock = time.perf_counter
    ) -> None:
        self._agent = agent
        self._recover = recover
        self._clock = clock

    def execute_with_memory(
        self,
        task: Task | str,
        run: Callable[..., T],
        *,
        judge: Judge | None = None,
        ignore_blocks: bool = False,
    ) -> TaskResult[T]:
        """Run a task by `run(strategy)`, or `run()` if it takes no argument, and record its outcome.

        `judge` rates the result; without it, a result is a success. If it fails, that is logged, and the decision has
        no outcome yet. An action that is known to fail is replaced by the best alternative of the task; without one,
        `ActionBlocked` is raised. An error of `run` is learned from and raised again, unless `recover` handles it.
        Errors of the memory are only logged.
        """
        for function in (run, judge, self._recover):
            if function is not None and is_async(function):
                raise InvalidInput("a coroutine function needs to be awaited; use aexecute_with_memory")
        steps, answer = self._steps(_to_task(task), run, judge, ignore_blocks=ignore_blocks), None
        while not isinstance(step := _next_step(steps, answer), TaskResult):
            answer = step.call() if isinstance(step, _MemoryStep) else _call(step.call)
        return _result_or_raise(step)

    @overload
    async def aexecute_with_memory(
        self,
        task: Task | str,
        run: Callable[..., Awaitable[T]],
        *,
        judge: AsyncJudge | None = None,
        ignore_blocks: bool = False,
    ) -> TaskResult[T]: ...
    @overload
    async def aexecute_with_memory(
        self,
        task: Task | str,
        run: Callable[..., T],
        *,
        judge: AsyncJudge | None = None,
        ignore_blocks: bool = False,
    ) -> TaskResult[T]: ...
    async def aexecute_with_memory(
        self,
        task: Task | str,
        run: Callable[..., Any],
        *,
        judge: AsyncJudge | None = None,
        ignore_blocks: bool = False,
    ) -> TaskResult[Any]:
        """Run a task as `execute_with_memory` does, with async functions; the memory works in a thread."""
        steps, answer = self._steps(_to_task(task), run, judge, ignore_blocks=ignore_blocks), None
        while not isinstance(step := _next_step(steps, answer), TaskResult):
            answer = (
                await asyncio.to_thread(step.call) if isinstance(step, _MemoryStep) else await _await_call(step.call)
            )
        return _result_or_raise(step)

    def _steps(
        self, task: Task, run: Callable[..., Any], judge: AsyncJudge | None, *, ignore_blocks: bool
    ) -> _StepGenerator:
        """Yield the steps of a task, for the sync or async caller to execute."""
        offered = _takes_strategy(run)
        strategy = yield _MemoryStep(lambda: self._strategy(task, run, offered=offered, ignore_blocks=ignore_blocks))
        started = self._clock()
        done = yield _CallerStep(functools.partial(run, strategy) if offered else run)
        duration = self._clock() - started
        if done.error is not None and (not is_outcome(done.error) or isinstance(done.error, _NotAwaited)):
            return TaskResult(None, "failure", strategy, None, False, done.error, duration)
        outcome: str | float | None = "success" if done.error is None else "failure"
        if judge is not None and done.error is None:
            outcome = _judgement((yield _CallerStep(functools.partial(judge, done.value))))
        id = yield _MemoryStep(lambda: self._record(task, strategy, outcome, done.error, duration))
        recovery = None
        if done.error is not None and self._recover is not None:
            known = yield _MemoryStep(lambda: self._solutions(id))
            tried = yield _CallerStep(functools.partial(self._recover, done.error, known, strategy))
            recovery = _recovery(tried, done.error, known, self._recover)
            if recovery is not None and recovery.solution:
                yield _MemoryStep(lambda: self._learn(task, strategy, done.error, recovery, id))
        recovered = recovery is not None and recovery.helped
        value = recovery.value if recovery is not None and recovered else done.value
        return TaskResult(value, outcome, strategy, id, recovered, done.error, duration)

    def _strategy(self, task: Task, run: Callable[..., Any], *, offered: bool, ignore_blocks: bool) -> Strategy:
        """Choose an approach from what is known; a function without parameter has only its usual one."""
        agent, nothing = self._agent, Recall("")
        memories = try_memory(lambda: agent.recall(task.context, k=MEMORIES), nothing)
        suggestion = try_memory(
            lambda: agent.suggest(context=task.context, actions=task.actions or None, **task.circumstances), None
        )
        recommended = task.matching_action(suggestion.recommended) if offered and suggestion is not None else None
        first = task.actions[0] if task.actions and (offered or len(task.actions) == 1) else ""
        chosen = recommended or task.default_action or first or task.name or _own_name(run) or task.context
        verdict = refusal = self._check(task, chosen)
        if refusal.decision == "block" and not ignore_blocks:
            others = _alternatives(task, suggestion, refusal) if offered else []
            allowed = ((other, self._check(task, other)) for other in others)
            chosen, verdict = next(((one, said) for one, said in allowed if said.decision != "block"), ("", refusal))
            if verdict is refusal:
                raise blocked_error(refusal)
        emit_warning(verdict, None)
        ids = [verdict.id, refusal.id]
        if suggestion is not None and chosen == recommended:
            ids.append(suggestion.id)
        if memories and offered:
            ids.append(memories.id)
        informed_by = tuple(dict.fromkeys(id for id in ids if id))
        return Strategy(chosen, memories, suggestion, verdict, informed_by, agent.learning.synthesis)

    def _check(self, task: Task, action: str) -> Verdict:
        context = task.context
        return try_memory(
            lambda: self._agent.check(action=action, context=context, **task.circumstances),
            unknown_verdict(action, context),
        )

    def _record(
        self, task: Task, strategy: Strategy, outcome: str | float | None, error: Exception | None, duration: float
    ) -> str | None:
        """Record the decision and return its id; the used memories get the credit."""
        chosen, used = strategy.chosen_approach, strategy.used
        id = try_record(
            lambda: self._agent.record_decision(
                context=task.context,
                action=chosen,
                outcome=outcome,
                alternatives=[action for action in task.actions if action != chosen],
                error=error or "",
                duration=duration,
                informed_by=strategy.informed_by,
                session=task.session,
                **task.circumstances,
            )
        )
        if used and outcome is not None:
            try_memory(lambda: self._agent.outcome(strategy.memories.id, outcome, used=used), False)
        return id

    def _solutions(self, id: str | None) -> tuple[Solution, ...]:
        """Return the known solutions of a decision's failure, best first."""
        pattern = None if id is None else try_memory(lambda: self._agent.learning.failure(id), None)
        return helpful_solutions(pattern)

    def _learn(self, task: Task, strategy: Strategy, error: Exception, recovery: Recovery, id: str | None) -> None:
        try_memory(
            lambda: self._agent.learn_from_failure(
                error,
                recovery.solution,
                helped=recovery.helped,
                action=strategy.chosen_approach,
                context=task.context,
                sources=[] if id is None else [id],
                **task.circumstances,
            ),
            None,
        )


def _to_task(task: Task | str) -> Task:
    return Task(task) if isinstance(task, str) else task


def _next_step(steps: _StepGenerator, answer: Any) -> _MemoryStep | _CallerStep | TaskResult[Any]:
    """Return the next step, or the result after the last one."""
    try:
        return steps.send(answer)
    except StopIteration as end:
        result: TaskResult[Any] = end.value
        return result


def _result_or_raise(result: TaskResult[T]) -> TaskResult[T]:
    """Return the result, or raise its error unless it was recovered from."""
    if result.error is not None and not result.recovered:
        raise result.error
    return result


def _call(call: Callable[[], Any]) -> _CallOutcome:
    try:
        value = call()
    except Exception as error:  # noqa: BLE001 - whatever the caller's function raises is how it went
        return _CallOutcome(error=error)
    if inspect.iscoroutine(value):
        value.close()
        why = "the function gave a coroutine, which needs to be awaited; use aexecute_with_memory"
        return _CallOutcome(error=_NotAwaited(why))
    return _CallOutcome(value)


async def _await_call(call: Callable[[], Any]) -> _CallOutcome:
    try:
        value = call()
        return _CallOutcome(await value if inspect.isawaitable(value) else value)
    except Exception as error:  # noqa: BLE001 - whatever the caller's function raises is how it went
        return _CallOutcome(error=error)


def _judgement(done: _CallOutcome) -> str | float | None:
    """Return a judge's rating, or `None` if it is invalid, so that the result is not lost."""
    error, outcome = done.error, done.value
    if error is None:
        try:
            quality(outcome)
        except InvalidInput as wrong:
            error = wrong
    if error is None:
        said: str | float = outcome
        return said
    _log.warning("the result could not be judged, so its outcome is not known: %r", error)
    return None


def _takes_strategy(run: Callable[..., Any]) -> bool:
    """Return true if a function requires an argument or has a parameter `strategy`. Raises `InvalidInput`."""
    if not callable(run):
        raise InvalidInput(f"a task is carried out by a function, not by {type(run).__name__}")
    try:
        signature = inspect.signature(run)
    except ValueError:  # some built-in functions have none
        return False
    takes = any(
        parameter.kind is parameter.VAR_POSITIONAL
        or parameter.name == "strategy"
        or (parameter.kind is not parameter.VAR_KEYWORD and parameter.default is parameter.empty)
        for parameter in signature.parameters.values()
    )
    try:
        signature.bind(*[None] if takes else [])
    except TypeError:
        raise InvalidInput("a task is carried out by a function that takes the strategy, or nothing") from None
    return takes


def _own_name(function: Callable[..., Any]) -> str:
    name = name_of(function)
    return "" if name == "<lambda>" else name


def _alternatives(task: Task, suggestion: Suggestion | None, verdict: Verdict) -> list[str]:
    """Return the other actions of a task, highest success rate first."""
    rates = dict[str, float]()
    known = [(record.action, record.success_rate) for record in (suggestion.actions if suggestion is not None else ())]
    remedies = [(one.text, one.success_rate) for one in verdict.instead if one.kind == "action"]
    for action, rate in [*known, *remedies]:
        if (
            task.actions
            and (own := task.matching_action(action)) is not None
            and own != task.matching_action(verdict.action)
        ):
            rates.setdefault(own, rate)
    return sorted(rates, key=lambda action: -rates[action])


def _recovery(tried: _CallOutcome, error: Exception, known: Sequence[Solution], recover: Recover) -> Recovery | None:
    """Describe the action of a hook, as far as known; `None` if it did not try."""
    if tried.error is error:
        return None
    if isinstance(tried.error, _NotAwaited):
        raise tried.error
    applied = known[0].text if known else summary_of(recover) or _own_name(recover)
    if tried.error is not None:
        _log.warning("the recovery failed, too: %r", tried.error)
        return Recovery(None, applied, helped=False)
    if isinstance(tried.value, Recovery):
        told = tried.value
        return told if told.solution.strip() else Recovery(told.value, applied, told.helped)
    return Recovery(tried.value, applied)
