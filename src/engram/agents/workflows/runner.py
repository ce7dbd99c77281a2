"""Run workflows with memory: check before each stage, decide by what was learned, record outcomes.

Every step is journaled before it starts and after it ends, so that an interrupted run can be resumed.
"""

from __future__ import annotations

import functools
import logging
import re
import shlex
import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath
from typing import Any, cast

from pydantic import JsonValue

from engram.agents.executor import Task
from engram.agents.guard import Clock, helpful_solutions, try_memory, try_record, unknown_verdict
from engram.agents.workflows import definition as workflows
from engram.agents.workflows.journal import Body, Journal, RunState, StepAttempt
from engram.agents.workflows.steps import (
    Function,
    StepContext,
    StepOutput,
    call_function,
    call_limited,
    error_summary,
    find_functions,
    run_command,
    shorten_error,
    to_json,
)
from engram.agents.workflows.workers import WorkerPool
from engram.clock import Sources
from engram.errors import InvalidInput, NotAllowed, NotFound
from engram.learning.failures.check_templates import STAGES
from engram.model import FailurePattern, PreventionCheck, Receipt, Solution, Verdict
from engram.model.workflow import (
    Choice,
    ExecutionResult,
    RunStatus,
    RunSummary,
    Stage,
    StageCheck,
    StepResult,
    Workflow,
    WorkflowStep,
)
from engram.ports import Redactor, Scope, Store
from engram.ports.agent import WorkflowAgent
from engram.privacy import clean_json
from engram.text.terms import normal_form

RETRY = "retry"
"""Name of the solution "try again"."""
MIN_RETRIES, MAX_HOPELESS_RATE = 3, 0.25
"""Retries stop if this many recorded retries had a success rate of at most `MAX_HOPELESS_RATE`."""
CHECK_SECONDS = 10.0
MAX_DECISIONS = 10_000
MAX_RUNS = 1000
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
_log = logging.getLogger("engram")

Recover = Callable[[StepContext], str | None]
"""Called before a failed step is retried; may fix the cause, and returns a description of that."""
StepListener = Callable[[StepResult], object]
WorkflowSource = Workflow | str | Path | Mapping[str, JsonValue]
_StepGenerator = Generator[Callable[[], Any], Any, None]
"""A step in progress: yields the calls that take time, and is sent their results."""


class WorkflowEngine:
    """Runs workflows for one agent. The id of a run is the session of everything it records.

    `steps` are functions by name, besides those that packages register in the entry-point group `engram.steps`.
    `recover` is called after a failure, before the retry; `watch` is called when a step ends.
    """

    def __init__(
        self,
        agent: WorkflowAgent,
        store: Store,
        redactor: Redactor,
        sources: Sources,
        *,
        steps: Mapping[str, Function] | None = None,
        recover: Recover | None = None,
        watch: StepListener | None = None,
        clock: Clock = time.perf_counter,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._agent = agent
        self._redactor = redactor
        self._journal = Journal(store, Scope(agent.name), sources)
        self._execution = _Execution(dict(steps or {}), recover, watch, clock, sleep)

    def run(
        self,
        workflow: WorkflowSource,
        parameters: Mapping[str, JsonValue] | None = None,
        *,
        id: str | None = None,
        allow_commands: bool = False,
        ignore_blocks: bool = False,
    ) -> ExecutionResult:
        """Run a workflow, given as YAML text, path or object, until it is done or stops.

        Before it starts, raises `InvalidInput` for an invalid workflow, `NotAllowed` if it has commands that are not
        allowed, and `Conflict` if the `id` is taken.
        """
        known = workflows.validate(workflow) if isinstance(workflow, Workflow) else workflows.read(workflow)
        given = to_json(workflows.resolve_parameters(known, parameters or {}), "the parameters")
        self._refuse_secrets("workflow", known.model_dump(mode="json", by_alias=True, exclude_defaults=True))
        self._refuse_secrets("parameters", given)
        found = find_functions(known.steps, self._execution.steps)
        _check_commands(known.steps, allowed=allow_commands)
        if id is not None and (not _ID.fullmatch(id) or self._redactor.clean([id])[0].secrets):
            raise InvalidInput("the id of a run is made of letters, digits, -, _ and dots, and holds no secret")
        state = self._journal.begin(id, known, given)
        return self._continue(state, found, _Permissions(allow_commands, ignore_blocks))

    def resume(
        self, run: str, *, again: bool = False, allow_commands: bool = False, ignore_blocks: bool = False
    ) -> ExecutionResult:
        """Resume a run; completed steps are not repeated, and for a finished run its result is returned.

        An interrupted step is repeated if it is idempotent, or with `again`: its first attempt may have had an effect.
        Failed steps and those blocked as known failures are tried again. Raises `NotFound`, `NotAllowed`, and
        `Conflict` if another process continues the run.
        """
        state = self._journal.state(run)
        if state.run_status()[0] == "done":
            return self.status(run)
        left = [step for step in state.workflow.steps if not _is_finished(state, step)]
        found = find_functions(left, self._execution.steps)
        _check_commands(left, allowed=allow_commands)
        stopped = frozenset(step.name for step in left if state.status(step.name) in {"blocked", "failed"})
        return self._continue(state, found, _Permissions(allow_commands, ignore_blocks, again, stopped))

    def status(self, run: str) -> ExecutionResult:
        """Return the state of a run, with the decisions and failure patterns of its steps. Raises `NotFound`."""
        return self._result(self._journal.state(run))

    def runs(self, *, limit: int = 50, workflow: str = "") -> list[RunSummary]:
        """Return the newest runs, of all workflows or of one."""
        if not 1 <= limit <= MAX_RUNS:
            raise InvalidInput(f"limit must be a whole number from 1 to {MAX_RUNS}, not {limit}")
        return self._journal.runs(limit, workflow)

    def _continue(self, state: RunState, found: Mapping[str, Function], permissions: _Permissions) -> ExecutionResult:
        run_pass = _RunPass(self._agent, self._redactor, self._journal, self._execution, state, found, permissions)
        run_pass.run()
        return self._result(state)

    def _result(self, state: RunState) -> ExecutionResult:
        status, reason = state.run_status()
        decisions = self._decisions(state.run)
        steps = [
            self._with_links(state.step(stage.name, step.name), decisions.get(step.name, ()))
            for stage, steps in workflows.execution_order(state.workflow)
            for step in steps
        ]
        return ExecutionResult(
            run=state.run,
            workflow=state.workflow.name,
            status=status,
            reason=reason,
            parameters=state.parameters,
            steps=tuple(steps),
            checks=tuple(check for checks in state.checks.values() for check in checks),
            started_at=state.started_at,
            ended_at=state.run_end.at if state.run_end is not None else None,
        )

    def _decisions(self, run: str) -> dict[str, tuple[str, ...]]:
        """Return the decisions of each step, oldest first."""
        found = dict[str, tuple[str, ...]]()
        for memory in reversed(self._agent.list(limit=MAX_DECISIONS, kinds="decision", session=run)):
            step = memory.metadata.get("step")
            if isinstance(step, str) and memory.metadata.get("run") == run:
                found[step] = (*found.get(step, ()), memory.id)
        return found

    def _with_links(self, step: StepResult, decisions: tuple[str, ...]) -> StepResult:
        links: dict[str, Any] = {"decisions": decisions}
        if step.status == "failed" and decisions:
            pattern = try_memory(lambda: self._agent.learning.failure(decisions[-1]), None)
            if pattern is not None:
                links |= {"pattern": pattern.pattern_id, "solutions": helpful_solutions(pattern)}
        return step.model_copy(update=links)

    def _refuse_secrets(self, what: str, value: dict[str, JsonValue]) -> None:
        """Refuse secrets: a run is stored and must be resumed exactly as it was started."""
        if found := clean_json(self._redactor, value)[1]:
            raise InvalidInput(
                f"the {what} must not hold a secret ({found[0]}); let the step read it from where it is stored"
            )


@dataclass(frozen=True, slots=True)
class _Execution:
    """The functions, hooks and clock that execute steps."""

    steps: Mapping[str, Function]
    recover: Recover | None
    watch: StepListener | None
    clock: Clock
    sleep: Callable[[float], None]


@dataclass(frozen=True, slots=True)
class _Permissions:
    """Permissions given by the caller."""

    commands: bool
    ignore_blocks: bool
    again: bool = False
    probes: frozenset[str] = frozenset()
    """Steps that may be tried although they are known to fail, since the caller resumes the run deliberately."""


class _StopRun(Exception):
    """The run stops here."""

    def __init__(self, status: RunStatus, reason: str = "", step: str = "") -> None:
        super().__init__(reason)
        self.status, self.reason, self.step = status, reason, step


@dataclass(frozen=True, slots=True)
class _Pause:
    """A call that waits before a retry."""

    sleep: Callable[[float], None]
    seconds: float

    def __call__(self) -> None:
        self.sleep(self.seconds)


@dataclass(frozen=True, slots=True)
class _PreparedStep:
    """A step with its references replaced."""

    step: WorkflowStep
    stage: str
    task: Task
    action: str
    call: Callable[[StepContext], StepOutput]
    verdict: str | None = None
    warning: str = ""

    def body(self) -> Body:
        """Return the data for the journal."""
        told: Body = {
            "context": self.task.context,
            "action": self.action,
            "verdict": self.verdict,
            "warning": self.warning,
        }
        return {name: value for name, value in told.items() if value}


@dataclass
class _FailureHistory:
    """The failures of one step so far."""

    error: str = ""
    pattern: FailurePattern | None = None
    failures: int = 0
    applied: str = ""
    """The solution that the hook applied after the last one."""
    retried: dict[str, None] = field(default_factory=dict)
    """The failure patterns after which the step was retried without a fix."""

    number: int = 0
    """The attempt whose decision stands for the pattern in this pass."""

    @property
    def solutions(self) -> tuple[Solution, ...]:
        return helpful_solutions(self.pattern)

    def hopeless(self) -> Solution | None:
        """Return the statistics of retrying, if it is known not to help."""
        tried = () if self.pattern is None else self.pattern.known_solutions
        known = [one for one in tried if normal_form(one.text) == RETRY]
        return next((one for one in known if one.tried >= MIN_RETRIES and one.success_rate <= MAX_HOPELESS_RATE), None)


class _RunPass:
    """One pass over a run, from its current state to its end or a stop."""

    def __init__(
        self,
        agent: WorkflowAgent,
        redactor: Redactor,
        journal: Journal,
        execution: _Execution,
        state: RunState,
        found: Mapping[str, Function],
        permissions: _Permissions,
    ) -> None:
        self._agent, self._redactor, self._journal = agent, redactor, journal
        self._execution, self._state, self._functions, self._permissions = execution, state, found, permissions

    def run(self) -> None:
        """Run the remaining steps."""
        state = self._state
        self._record_last_outcome()
        try:
            for stage, steps in workflows.execution_order(state.workflow):
                left = [step for step in steps if not _is_finished(state, step)]
                if left:
                    self._run_checks(stage)
                    self._run_steps(stage, left)
        except _StopRun as stop:
            self._report_decisions()
            if stop.status != "interrupted":
                self._journal.record_run_end(state, stop.status, stop.reason, stop.step)
            return
        self._report_decisions()
        self._journal.record_run_end(state, "done", "all steps are done")

    # Before a stage ------------------------------------------------------------------------------------

    def _run_checks(self, stage: Stage) -> None:
        """Run the prevention checks of a stage. Raises `_StopRun` if a blocking one is not met."""
        if stage.checks == "off":
            return
        nothing: list[PreventionCheck] = []
        known = try_memory(self._agent.learning.checks, nothing)
        own = [check for check in known if check.stage == stage.name and check.status != "retired"]
        if not own:
            return
        said = [self._run_check(stage, check) for check in own]
        self._journal.record_checks(self._state, stage.name, said)
        for check in said:
            if check.stops:
                raise _StopRun("blocked", f"{check.name} before stage {stage.name!r}: {check.reason}; {check.verify}")
            if check.met is False:
                _log.warning("%s before stage %s: %s; %s", check.name, stage.name, check.reason, check.verify)

    def _run_check(self, stage: Stage, check: PreventionCheck) -> StageCheck:
        met: bool | None = None
        if check.command is None:
            reason = "it has no command; see to it yourself"
        elif not self._permissions.commands:
            reason = "its command was not run, because commands are not allowed"
        else:
            try:
                _, ended = self._agent.learning.run(check.id, allowed=True, seconds=CHECK_SECONDS)
                met, reason = ended.met, ended.reason
            except (InvalidInput, NotFound) as error:
                reason = str(error)
        stops = (
            met is False
            and stage.checks == "block"
            and check.status == "active"
            and not self._permissions.ignore_blocks
        )
        return StageCheck(
            stage=stage.name,
            check=check.id,
            name=check.name,
            verify=check.verify,
            met=met,
            stops=stops,
            reason=self._clean(reason),
        )

    # Steps ---------------------------------------------------------------------------------------------

    def _run_steps(self, stage: Stage, steps: Sequence[WorkflowStep]) -> None:
        """Run the steps of a stage, each after the ones it needs, with limited parallelism.

        Only the step itself runs in its thread; journal and memory are written in this one. After a failure that stops
        the run, no more steps are started, but running ones are awaited. Raises `_StopRun`.
        """
        waiting, pool, generators = list(steps), WorkerPool(stage.parallel), dict[str, _StepGenerator]()
        stops = dict[str, _StopRun]()
        while True:
            while not stops and pool.free and (step := _next_ready(waiting, pool.busy)) is not None:
                waiting.remove(step)
                generators[step.name] = self._start_step(stage, step)
                self._continue_step(pool, generators, step.name, None, stops)
            if not pool.busy:
                break
            answer = pool.next()
            if answer.error is not None:
                raise answer.error
            self._continue_step(pool, generators, answer.name, answer.value, stops)
        if stop := next((stops[step.name] for step in steps if step.name in stops), None):
            raise stop

    def _continue_step(
        self,
        pool: WorkerPool,
        generators: Mapping[str, _StepGenerator],
        name: str,
        given: Any,
        stops: dict[str, _StopRun],
    ) -> None:
        """Send a step the result of its call, and start its next call, if any."""
        try:
            call = generators[name].send(given)
        except StopIteration:
            return
        except _StopRun as stop:
            stops[name] = stop
            return
        if not (stops and isinstance(call, _Pause)):  # a step that failed is tried again when the run is resumed
            pool.call(name, call)

    def _start_step(self, stage: Stage, step: WorkflowStep) -> _StepGenerator:
        """Run or skip a step. Raises `_StopRun` if the run cannot continue."""
        status = self._state.status(step.name)
        if status == "interrupted" and not (step.idempotent or step.decide is not None or self._permissions.again):
            raise _StopRun("interrupted")
        if (skip := self._skip_reason(step)) is not None:
            reason, failed = skip
            number = self._next(step)
            self._journal.record_end(
                self._state, step.name, number, {"status": "skipped", "reason": reason, "failed": failed}
            )
            self._notify(stage, step)
            return
        try:
            task, work = self._prepare(stage, step)
        except InvalidInput as error:  # what it refers to is not there: nothing was tried, and nothing is learned
            number, why = self._next(step), self._clean(str(error))
            self._journal.record_start(self._state, step.name, number, {})
            self._journal.record_end(
                self._state, step.name, number, {"status": "failed", "error": why, "unlearned": True, "last": True}
            )
            self._give_up(stage, step, why)
            return
        if work is None:
            self._decide(stage, step, task)
        else:
            yield from self._attempt(stage, self._check_action(work))

    def _skip_reason(self, step: WorkflowStep) -> tuple[str, bool] | None:
        """Return the reason to skip a step, and whether that is a failure; `None` to run it."""
        state = self._state
        for name in sorted(workflows.required_steps(step)):
            last = state.last(name)
            if state.status(name) == "failed" or (last is not None and last.value("failed")):
                return f"it needs {name!r}, which failed", True
        for name, wanted in step.when.items():
            chosen = state.output(name).get("action")
            if chosen not in ([wanted] if isinstance(wanted, str) else wanted):
                return f"{name!r} came out as {chosen!r}", False
        return None

    def _prepare(self, stage: Stage, step: WorkflowStep) -> tuple[Task, _PreparedStep | None]:
        """Replace the references of a step, and make its call unless it is a decision. Raises `InvalidInput`."""
        known, workflow = self._state.reference_values(), self._state.workflow
        if step.decide is not None:
            return self._choice(step, step.decide, workflows.fill_text(step.decide.context, known)), None
        written = step.context or f"{workflow.context or workflow.name}: {step.name}"
        task = self._task(step, workflows.fill_text(written, known))
        call: Callable[[StepContext], StepOutput]
        if step.command is not None:
            command = [workflows.fill_text(part, known) for part in step.command]
            action, call = shlex.join(command), lambda _: run_command(command, step.seconds)
        else:
            values = {name: workflows.fill(value, known) for name, value in step.values.items()}
            action = f"{step.run}({', '.join(f'{name}={value!r}' for name, value in values.items())})"
            call = functools.partial(call_function, self._functions[step.name], values)
            if step.seconds is not None:
                call = functools.partial(call_limited, call, step.run or step.name, step.seconds)
        action = workflows.fill_text(step.action, known) if step.action is not None else shorten_error(action)
        if not action.strip():
            raise InvalidInput(f"the action of step {step.name!r} is empty; describe it")
        return task, _PreparedStep(step, stage.name, task, self._clean(action), call)

    def _check_action(self, work: _PreparedStep) -> _PreparedStep:
        """Check the action of a step; raises `_StopRun` if it is known to fail and an alternative is known.

        Without an alternative it is tried, which is the only way to find out that the cause is gone.
        """
        verdict = self._verdict(work.task, work.action)
        if verdict.decision == "allow":
            return work
        instead = [one.text for one in verdict.instead if normal_form(one.text) != RETRY]
        known = f"what worked instead: {', '.join(instead)}" if instead else "nothing is known to work instead"
        said = f"{verdict.reason}; {known}"
        if (
            verdict.decision == "block"
            and instead
            and not self._permissions.ignore_blocks
            and work.step.name not in self._permissions.probes
        ):
            raise _StopRun("blocked", f"step {work.step.name!r}: {said}", work.step.name)
        _log.warning("step %s: %s", work.step.name, said)
        return replace(work, verdict=verdict.id, warning=said)

    def _attempt(self, stage: Stage, work: _PreparedStep) -> _StepGenerator:
        """Try a step until it succeeds or its retries are used up. Raises `_StopRun` if the run cannot continue."""
        step, history = work.step, self._earlier_failure(work.step)
        while True:
            number = self._next(step)
            self._journal.record_start(self._state, step.name, number, work.body())
            context = self._context(work, number, history)
            told, seconds = yield functools.partial(self._timed, work.call, context)
            given = self._clean_output(told)
            body: Body = {"status": "failed", "error": given.error} if given.error else {"status": "done"}
            if given.error and self._is_same_failure(history, given.error, work.action):
                body["counts_as"] = history.number
            body |= {"output": given.output, "seconds": seconds, **work.body()}
            body["last"] = not given.error or history.failures >= step.retry.times
            self._journal.record_end(self._state, step.name, number, body)
            decision = self._learn(step, self._state.attempts[step.name][number])
            if not given.error:
                self._record_help(history)
                self._notify(stage, step)
                return
            reason = self._handle_failure(work, history, given.error, decision, number)
            if reason is not None:
                self._give_up(stage, step, reason)
                return
            yield _Pause(self._execution.sleep, step.retry.pause(history.failures))

    def _is_same_failure(self, history: _FailureHistory, error: str, action: str) -> bool:
        """Return true if a step fails as before in this pass, which counts as one failure."""
        if history.pattern is None or not history.number:
            return False
        cleaned, about = self._redactor.clean([error, action])
        found = try_memory(lambda: self._agent.learning.recognise(cleaned.text, about.text), None)
        return found is not None and found.pattern_id == history.pattern.pattern_id

    def _timed(self, call: Callable[[StepContext], StepOutput], context: StepContext) -> tuple[StepOutput, float]:
        """Run a call and measure its duration."""
        started = self._execution.clock()
        given = call(context)
        return given, self._execution.clock() - started

    def _handle_failure(
        self, work: _PreparedStep, history: _FailureHistory, error: str, decision: str | None, number: int
    ) -> str | None:
        """Record a failure; returns the reason to give up, or `None` to retry."""
        if history.applied:
            self._record_solution(history.pattern, history.applied, 0.0)
        elif history.failures and history.pattern is not None:
            history.retried[history.pattern.pattern_id] = None
        history.error, history.applied = error, ""
        history.pattern = None if decision is None else try_memory(lambda: self._agent.learning.failure(decision), None)
        history.number = self._state.attempts[work.step.name][number].value("counts_as") or number
        history.failures += 1
        self._assign_stage(history.pattern, work.stage)
        retry, last = work.step.retry, error_summary(error)
        if history.failures > retry.times:
            for pattern in history.retried:
                self._record_attempted(pattern, RETRY, 0.0)
            return last
        history.applied = self._call_recover(self._context(work, number, history))
        known = history.hopeless()
        if known is not None and not history.applied:
            return f"{last}; not tried again, which helped {known.helped:g} of {known.tried} times"
        return None

    def _assign_stage(self, pattern: FailurePattern | None, stage: str) -> None:
        """Assign the prevention check of a failure to the stage in which it occurred, unless it has one."""
        stages = {each.name for each in self._state.workflow.stages}
        for check in pattern.prevention_checks if pattern is not None else ():
            if check.stage in STAGES and check.stage not in stages and check.status == "active":
                generate = functools.partial(self._agent.learning.generate, check.pattern_id, stage=stage)
                try_memory(functools.partial(generate, command=check.command), list[PreventionCheck]())

    def _earlier_failure(self, step: WorkflowStep) -> _FailureHistory:
        """Return the failure of a step before this pass, if any."""
        last = self._state.last(step.name)
        if last is None or last.value("status") != "failed" or last.value("unlearned"):
            return _FailureHistory()
        decision = self._learn(step, last)
        pattern = None if decision is None else try_memory(lambda: self._agent.learning.failure(decision), None)
        return _FailureHistory(last.value("error") or "", pattern)

    def _context(self, work: _PreparedStep, number: int, history: _FailureHistory) -> StepContext:
        run, name = self._state.run, work.step.name
        return StepContext(
            run, name, work.stage, number, f"{run}:{name}", history.error, history.solutions, history.applied
        )

    def _call_recover(self, context: StepContext) -> str:
        """Call the recovery hook; returns the solution it applied, or ""."""
        if self._execution.recover is None:
            return ""
        try:
            return self._execution.recover(context) or ""
        except Exception as error:  # noqa: BLE001 - a hook that fails did not help, and the step is tried again
            _log.warning("the recovery failed, too: %r", error)
            return ""

    def _give_up(self, stage: Stage, step: WorkflowStep, reason: str) -> None:
        self._notify(stage, step)
        if not step.optional:
            raise _StopRun("failed", self._clean(f"step {step.name!r} failed: {reason}"), step.name)

    # Decisions -----------------------------------------------------------------------------------------

    def _decide(self, stage: Stage, step: WorkflowStep, task: Task) -> None:
        """Choose an action by what was learned: the best one that is not known to fail, if any."""
        suggestion = try_memory(
            lambda: self._agent.suggest(context=task.context, actions=task.actions, **task.circumstances), None
        )
        recommended = task.matching_action(suggestion.recommended) if suggestion is not None else None
        rates = {
            record.action: record.success_rate for record in (suggestion.actions if suggestion is not None else ())
        }
        rest = sorted(task.actions, key=lambda action: -rates.get(action, 0.0))
        candidates = list(dict.fromkeys(one for one in [recommended, task.default_action, *rest] if one))
        verdicts = ((action, self._verdict(task, action)) for action in candidates)
        seen = list[tuple[str, Verdict]]()
        for each in verdicts:
            seen.append(each)
            if each[1].decision != "block" or self._permissions.ignore_blocks:
                break
        chosen, verdict = seen[-1]
        if verdict.decision == "block" and not self._permissions.ignore_blocks:
            chosen, verdict = seen[0]
            _log.warning("step %s: all of its actions are known to fail; %s is tried again", step.name, chosen)
        how = "learned" if chosen == recommended else "default" if chosen == candidates[0] else "instead"
        informed = [
            verdict.id,
            suggestion.id if suggestion and how == "learned" else None,
        ]
        output: Body = {"action": chosen, "how": how, "reason": suggestion.reason if suggestion is not None else ""}
        body: Body = {"context": task.context, "action": chosen, "informed_by": [id for id in informed if id]}
        number = self._next(step)
        self._journal.record_start(self._state, step.name, number, body)
        self._journal.record_end(self._state, step.name, number, {"status": "done", "output": output, **body})
        self._notify(stage, step)

    def _report_decisions(self) -> None:
        """Report the outcomes of decisions, as far as the steps that depend on them show it."""
        state, workflow = self._state, self._state.workflow
        for step in workflow.steps:
            if step.decide is None or not state.ended(step.name):
                continue
            others = {each.name for each in workflow.steps} - {step.name}
            after = workflows.dependents(workflow, step.name) or others
            failed = [each for each in workflow.steps if each.name in after and state.status(each.name) == "failed"]
            if not failed and not all(state.status(name) in {"done", "skipped"} for name in after):
                continue
            quality = 1.0 if not failed else 0.5 if all(each.optional for each in failed) else 0.0
            last = cast(StepAttempt, state.last(step.name))
            task = self._choice(step, step.decide, last.value("context"))
            id = self._record_decision(step, last, task, None)
            if id is not None:
                try_memory(functools.partial(self._agent.outcome, id, quality, correct=True), False)

    # Memory --------------------------------------------------------------------------------------------

    def _record_last_outcome(self) -> None:
        """Record the outcome of the last completed step, in case a crash prevented that."""
        ended = [(attempt, step) for step in self._state.workflow.steps if (attempt := self._state.last(step.name))]
        done = [(attempt.end.at, attempt, step) for attempt, step in ended if attempt.end is not None]
        if done:
            _, attempt, step = max(done, key=lambda each: each[0])
            self._learn(step, attempt)

    def _learn(self, step: WorkflowStep, attempt: StepAttempt) -> str | None:
        """Record an attempt as a decision and return its id; repeating it changes nothing."""
        status = attempt.value("status")
        if status not in {"done", "failed"} or step.decide is not None or attempt.value("unlearned"):
            return None
        attempt = self._state.attempts[step.name].get(attempt.value("counts_as"), attempt)
        task = self._task(step, attempt.value("context"))
        return self._record_decision(step, attempt, task, "success" if status == "done" else "failure")

    def _record_decision(self, step: WorkflowStep, attempt: StepAttempt, task: Task, outcome: str | None) -> str | None:
        end = attempt.end
        action, verdict = attempt.value("action"), attempt.value("verdict")
        informed = attempt.value("informed_by") or ([verdict] if verdict else [])

        def record() -> Receipt:
            return self._agent.record_decision(
                context=task.context,
                action=action,
                outcome=outcome,
                alternatives=[other for other in task.actions if other != action],
                error=attempt.value("error") or "",
                duration=attempt.value("seconds"),
                informed_by=informed,
                session=task.session,
                key=f"run:{self._state.run}:step:{step.name}:{attempt.number}",
                at=None if end is None else end.at,
                metadata={"run": self._state.run, "step": step.name, "attempt": attempt.number},
                **task.circumstances,
            )

        return try_record(record)

    def _record_help(self, history: _FailureHistory) -> None:
        """Record the solution that made a failed step succeed."""
        if history.pattern is not None:
            self._record_solution(history.pattern, history.applied or RETRY, 1.0)

    def _record_solution(self, pattern: FailurePattern | None, solution: str, helped: float) -> None:
        if pattern is not None:
            self._record_attempted(pattern.pattern_id, solution, helped)

    def _record_attempted(self, pattern: str, solution: str, helped: float) -> None:
        (clean,) = self._redactor.clean([solution])
        try_memory(lambda: self._agent.learning.tried(pattern, clean.text, helped), None)

    def _verdict(self, task: Task, action: str) -> Verdict:
        context = task.context
        return try_memory(
            lambda: self._agent.check(action=action, context=context, **task.circumstances),
            unknown_verdict(action, context),
        )

    def _choice(self, step: WorkflowStep, choice: Choice, context: str) -> Task:
        default = choice.default or choice.actions[0]
        return replace(self._task(step, context), actions=choice.actions, default_action=default)

    def _task(self, step: WorkflowStep, context: str) -> Task:
        """Make the task of a step. Raises `InvalidInput` if its context is empty."""
        workflow = self._state.workflow
        tool = step.tool or (PurePath(step.command[0]).name if step.command is not None else "")
        return Task(
            self._clean(context),
            step.name,
            environment=workflow.environment,
            tool=tool,
            task_type=workflow.task_type,
            tags=workflow.tags,
            session=self._state.run,
        )

    def _clean_output(self, given: StepOutput) -> StepOutput:
        """Redact the output of a step."""
        try:
            output, _ = clean_json(self._redactor, dict(given.output))
        except InvalidInput as error:
            return StepOutput({}, str(error))
        return StepOutput(cast(Body, output), self._clean(given.error) if given.error else "")

    def _clean(self, text: str) -> str:
        return self._redactor.clean([text])[0].text

    # The journal ---------------------------------------------------------------------------------------

    def _next(self, step: WorkflowStep) -> int:
        last = self._state.last(step.name)
        return 1 if last is None else last.number + 1

    def _notify(self, stage: Stage, step: WorkflowStep) -> None:
        if self._execution.watch is not None:
            self._execution.watch(self._state.step(stage.name, step.name))


def _next_ready(waiting: Sequence[WorkflowStep], busy: frozenset[str]) -> WorkflowStep | None:
    """Return the first step that waits for no other one; `None` if all have to wait."""
    left = {step.name for step in waiting} | busy
    return next((step for step in waiting if not workflows.required_steps(step) & left), None)


def _is_finished(state: RunState, step: WorkflowStep) -> bool:
    """Return true if a step needs no more work; an optional one that failed is left as it is."""
    status = state.status(step.name)
    last = state.last(step.name)
    return status in {"done", "skipped"} or (status == "failed" and step.optional and bool(last and last.value("last")))


def _check_commands(steps: Iterable[WorkflowStep], *, allowed: bool) -> None:
    commands = [step for step in steps if step.command is not None]
    if commands and not allowed:
        shown = shlex.join(commands[0].command or ())
        more = f" (and {len(commands) - 1} more)" if len(commands) > 1 else ""
        raise NotAllowed(
            f"step {commands[0].name!r} would run {shown}{more}; allow it with allow_commands=True, or --allow-commands"
        )
