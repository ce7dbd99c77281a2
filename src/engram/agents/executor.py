"""Tasks that are carried out with memory: what is known goes in before, and how it went comes back after."""

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
    Around,
    Clock,
    asked,
    blocked,
    helpful,
    is_async,
    name_of,
    recorded,
    summary_of,
    teaches,
    unknown,
    warned,
)
from engram.errors import InvalidInput
from engram.model import Hit, KnownFailure, Recall, Solution, SuccessContent, Suggestion, Verdict, quality
from engram.model.success import Synthesis
from engram.ports.agent import Remembers
from engram.text.terms import normal_form

MEMORIES = 10
_log = logging.getLogger("engram")

T = TypeVar("T")
Judge = Callable[[Any], str | float]
"""How good a result is: success, failure, partial, or a number from 0 to 1."""
AsyncJudge = Callable[[Any], str | float | Awaitable[str | float]]


@dataclass(frozen=True, slots=True)
class Task:
    """Something to be done in a context, by one of several actions if it has a choice.

    `default_action` is what is done as long as nothing is known; without it the first of the actions, or what `name`
    or the function that is run say. Raises `InvalidInput` for an empty context.
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
            raise InvalidInput("a task needs a context; say what is to be done")
        for name in ("actions", "tags"):
            several = getattr(self, name)
            if isinstance(several, str) or not all(isinstance(one, str) and one.strip() for one in several):
                raise InvalidInput(f"the {name} of a task are a list of texts, none of them empty")
            object.__setattr__(self, name, tuple(several))

    @property
    def around(self) -> Around:
        """What is known about it besides its words."""
        return Around(environment=self.environment, tool=self.tool, task_type=self.task_type, tags=tuple(self.tags))

    def spelt(self, action: str | None) -> str | None:
        """An action as this task spells it; `None` if it is not one of those it can choose from."""
        if action is None or not self.actions:
            return action
        return next((own for own in self.actions if normal_form(own) == normal_form(action)), None)


@dataclass(frozen=True)
class Strategy:
    """How a task is going to be carried out, and what is known about it.

    A run says by `use` which memories it relied on; only these get the credit or the blame for how it went.
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
        """Say that the run relies on one of the memories, by id or as a hit; what was not shown is logged, no more."""
        id = memory.id if isinstance(memory, Hit) else memory
        if not any(hit.id == id for hit in self.memories):
            _log.warning("%a is not among the memories of the strategy, and gets no credit", id)
        elif id not in self._used:
            self._used.append(id)

    @property
    def used(self) -> tuple[str, ...]:
        """The ids of the memories that the run said it relied on."""
        return tuple(self._used)

    @property
    def failures(self) -> tuple[KnownFailure, ...]:
        """The failures that the chosen approach had before."""
        return self.verdict.failures

    @functools.cached_property
    def steps(self) -> tuple[str, ...]:
        """How the chosen approach was carried out when it worked; all decisions are read when it is first asked for."""
        same = normal_form(self.chosen_approach)
        near = set(self.suggestion.evidence) if self.suggestion is not None else set()
        patterns = asked(self.synthesis, Synthesis()).patterns if near else ()
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
    """What a `recover` hook may return to say what it did, and whether that helped."""

    value: Any = None
    solution: str = ""
    helped: bool = True


@dataclass(frozen=True, slots=True)
class TaskResult(Generic[T]):
    """What a task gave; `outcome` is what was recorded of the approach, also if the failure was recovered from.

    It is `None` if the judge could not say how good the result is.
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
class _Ask:
    """A step that the memory takes."""

    call: Callable[[], Any]


@dataclass(frozen=True, slots=True)
class _Do:
    """A step that the caller takes; whatever becomes of it is the answer."""

    call: Callable[[], Any]


@dataclass(frozen=True, slots=True)
class _Done:
    value: Any = None
    error: Exception | None = None


class _Unawaited(InvalidInput):
    """A function that has to be awaited was called where nobody awaits it."""


_Steps = Generator[_Ask | _Do, Any, TaskResult[Any]]


class TaskExecutor:
    """Carries out tasks with what an agent knows, and lets it learn from how they went.

    `recover(error, solutions, strategy)` is asked when a task fails: it returns a result, or a `Recovery` that says
    which solution it applied. Otherwise it is taken to have applied the first of the solutions it was given, or, if
    there were none, what its documentation says. Raising `error` itself says that it did not try anything.
    """

    def __init__(self, agent: Remembers, recover: Recover | None = None, *, clock: Clock = time.perf_counter) -> None:
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
        """Carry out a task by `run(strategy)`, or `run()` if it takes nothing, and record how it went.

        `judge` says how good the result is; without it, a result is a success. If it cannot say, that is logged, and
        the decision has no outcome yet. What is known to fail is replaced by the best other action of the task, or
        raises `ActionBlocked` if there is none. An error of `run` is learned from and raised again, unless `recover`
        made up for it. Errors of the memory are logged and break nothing.
        """
        for function in (run, judge, self._recover):
            if function is not None and is_async(function):
                raise InvalidInput("a coroutine function needs to be awaited; use aexecute_with_memory")
        steps, answer = self._steps(_task(task), run, judge, ignore_blocks=ignore_blocks), None
        while not isinstance(step := _next(steps, answer), TaskResult):
            answer = step.call() if isinstance(step, _Ask) else _tried(step.call)
        return _given(step)

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
        """The same for coroutine functions: the memory works in a thread; what is a plain function is called here."""
        steps, answer = self._steps(_task(task), run, judge, ignore_blocks=ignore_blocks), None
        while not isinstance(step := _next(steps, answer), TaskResult):
            answer = await asyncio.to_thread(step.call) if isinstance(step, _Ask) else await _awaited(step.call)
        return _given(step)

    def _steps(self, task: Task, run: Callable[..., Any], judge: AsyncJudge | None, *, ignore_blocks: bool) -> _Steps:
        """The steps of a task, whoever takes them: those of the memory and those of the caller."""
        offered = _takes_strategy(run)
        strategy = yield _Ask(lambda: self._strategy(task, run, offered=offered, ignore_blocks=ignore_blocks))
        started = self._clock()
        done = yield _Do(functools.partial(run, strategy) if offered else run)
        duration = self._clock() - started
        if done.error is not None and (not teaches(done.error) or isinstance(done.error, _Unawaited)):
            return TaskResult(None, "failure", strategy, None, False, done.error, duration)
        outcome: str | float | None = "success" if done.error is None else "failure"
        if judge is not None and done.error is None:
            outcome = _judged((yield _Do(functools.partial(judge, done.value))))
        id = yield _Ask(lambda: self._record(task, strategy, outcome, done.error, duration))
        recovery = None
        if done.error is not None and self._recover is not None:
            known = yield _Ask(lambda: self._solutions(id))
            tried = yield _Do(functools.partial(self._recover, done.error, known, strategy))
            recovery = _recovery(tried, done.error, known, self._recover)
            if recovery is not None and recovery.solution:
                yield _Ask(lambda: self._learn(task, strategy, done.error, recovery, id))
        recovered = recovery is not None and recovery.helped
        value = recovery.value if recovery is not None and recovered else done.value
        return TaskResult(value, outcome, strategy, id, recovered, done.error, duration)

    def _strategy(self, task: Task, run: Callable[..., Any], *, offered: bool, ignore_blocks: bool) -> Strategy:
        """What is known, and what is chosen from it; a function that takes no strategy does what it always does."""
        agent, nothing = self._agent, Recall("")
        memories = asked(lambda: agent.recall(task.context, k=MEMORIES), nothing)
        suggestion = asked(
            lambda: agent.suggest(context=task.context, actions=task.actions or None, **task.around), None
        )
        recommended = task.spelt(suggestion.recommended) if offered and suggestion is not None else None
        first = task.actions[0] if task.actions and (offered or len(task.actions) == 1) else ""
        chosen = recommended or task.default_action or first or task.name or _own_name(run) or task.context
        verdict = refusal = self._check(task, chosen)
        if refusal.decision == "block" and not ignore_blocks:
            others = _alternatives(task, suggestion, refusal) if offered else []
            allowed = ((other, self._check(task, other)) for other in others)
            chosen, verdict = next(((one, said) for one, said in allowed if said.decision != "block"), ("", refusal))
            if verdict is refusal:
                raise blocked(refusal)
        warned(verdict, None)
        ids = [verdict.id, refusal.id]
        if suggestion is not None and chosen == recommended:
            ids.append(suggestion.id)
        if memories and offered:
            ids.append(memories.id)
        informed_by = tuple(dict.fromkeys(id for id in ids if id))
        return Strategy(chosen, memories, suggestion, verdict, informed_by, agent.learning.synthesis)

    def _check(self, task: Task, action: str) -> Verdict:
        context = task.context
        return asked(lambda: self._agent.check(action=action, context=context, **task.around), unknown(action, context))

    def _record(
        self, task: Task, strategy: Strategy, outcome: str | float | None, error: Exception | None, duration: float
    ) -> str | None:
        """The id of the decision; only the memories that were used get the credit or the blame."""
        chosen, used = strategy.chosen_approach, strategy.used
        id = recorded(
            lambda: self._agent.record_decision(
                context=task.context,
                action=chosen,
                outcome=outcome,
                alternatives=[action for action in task.actions if action != chosen],
                error=error or "",
                duration=duration,
                informed_by=strategy.informed_by,
                session=task.session,
                **task.around,
            )
        )
        if used and outcome is not None:
            asked(lambda: self._agent.outcome(strategy.memories.id, outcome, used=used), False)
        return id

    def _solutions(self, id: str | None) -> tuple[Solution, ...]:
        """What is known to solve the failure of a decision, the best first."""
        pattern = None if id is None else asked(lambda: self._agent.learning.failure(id), None)
        return helpful(pattern)

    def _learn(self, task: Task, strategy: Strategy, error: Exception, recovery: Recovery, id: str | None) -> None:
        asked(
            lambda: self._agent.learn_from_failure(
                error,
                recovery.solution,
                helped=recovery.helped,
                action=strategy.chosen_approach,
                context=task.context,
                sources=[] if id is None else [id],
                **task.around,
            ),
            None,
        )


def _task(task: Task | str) -> Task:
    return Task(task) if isinstance(task, str) else task


def _next(steps: _Steps, answer: Any) -> _Ask | _Do | TaskResult[Any]:
    """The next step, or the result after the last one."""
    try:
        return steps.send(answer)
    except StopIteration as end:
        result: TaskResult[Any] = end.value
        return result


def _given(result: TaskResult[T]) -> TaskResult[T]:
    """The result, unless it is an error that nobody made up for."""
    if result.error is not None and not result.recovered:
        raise result.error
    return result


def _tried(call: Callable[[], Any]) -> _Done:
    try:
        value = call()
    except Exception as error:  # noqa: BLE001 - whatever the caller's function raises is how it went
        return _Done(error=error)
    if inspect.iscoroutine(value):
        value.close()
        why = "the function gave a coroutine, which needs to be awaited; use aexecute_with_memory"
        return _Done(error=_Unawaited(why))
    return _Done(value)


async def _awaited(call: Callable[[], Any]) -> _Done:
    try:
        value = call()
        return _Done(await value if inspect.isawaitable(value) else value)
    except Exception as error:  # noqa: BLE001 - whatever the caller's function raises is how it went
        return _Done(error=error)


def _judged(done: _Done) -> str | float | None:
    """What a judge said, or `None` if that is no outcome: what was done must not be lost to whoever judges it."""
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
    """Whether a function has to be given something, or asks for the strategy by name. Raises `InvalidInput`."""
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
    """The other actions of a task, those that succeeded most often first."""
    rates = dict[str, float]()
    known = [(record.action, record.success_rate) for record in (suggestion.actions if suggestion is not None else ())]
    remedies = [(one.text, one.success_rate) for one in verdict.instead if one.kind == "action"]
    for action, rate in [*known, *remedies]:
        if task.actions and (own := task.spelt(action)) is not None and own != task.spelt(verdict.action):
            rates.setdefault(own, rate)
    return sorted(rates, key=lambda action: -rates[action])


def _recovery(tried: _Done, error: Exception, known: Sequence[Solution], recover: Recover) -> Recovery | None:
    """What a hook did, as far as can be told; `None` if it did not try."""
    if tried.error is error:
        return None
    if isinstance(tried.error, _Unawaited):
        raise tried.error
    applied = known[0].text if known else summary_of(recover) or _own_name(recover)
    if tried.error is not None:
        _log.warning("the recovery failed, too: %r", tried.error)
        return Recovery(None, applied, helped=False)
    if isinstance(tried.value, Recovery):
        told = tried.value
        return told if told.solution.strip() else Recovery(told.value, applied, told.helped)
    return Recovery(tried.value, applied)
