"""Carries out workflows with memory: checks come before a stage, what was learned decides, and outcomes are recorded.

Every step is written down before it starts and after it ends, so that a run that was killed goes on where it stopped.
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
from engram.agents.guard import Clock, asked, helpful, recorded, unknown
from engram.agents.workflows import definition as workflows
from engram.agents.workflows.journal import Attempt, Body, Journal, State
from engram.agents.workflows.steps import (
    Function,
    Given,
    StepContext,
    called,
    functions,
    gist,
    limited,
    plain,
    ran,
    shortened,
)
from engram.agents.workflows.workers import Crew
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
from engram.ports.agent import Works
from engram.privacy import clean_json
from engram.text.terms import normal_form

RETRY = "retry"
"""The solution that trying again is known as."""
ENOUGH_TRIALS, HOPELESS = 3, 0.25
"""Trying again is given up when it was learned so often that it helps so rarely."""
CHECK_SECONDS = 10.0
MOST_DECISIONS = 10_000
MOST_RUNS = 1000
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
_log = logging.getLogger("engram")

Recover = Callable[[StepContext], str | None]
"""Asked before a failed step is tried again; it may do something about it, and returns what."""
Watch = Callable[[StepResult], object]
Source = Workflow | str | Path | Mapping[str, JsonValue]
_Doing = Generator[Callable[[], Any], Any, None]
"""A step being carried out: it gives the calls that take time, and is sent what they gave."""


class WorkflowEngine:
    """Runs workflows for one agent. A run is known by its id, which is the session of all it remembers.

    `steps` are functions by name, besides those that packages register in the entry-point group `engram.steps`.
    `recover` hears of a failure before its step is tried again; `watch` hears of each step that ends.
    """

    def __init__(
        self,
        agent: Works,
        store: Store,
        redactor: Redactor,
        sources: Sources,
        *,
        steps: Mapping[str, Function] | None = None,
        recover: Recover | None = None,
        watch: Watch | None = None,
        clock: Clock = time.perf_counter,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._agent = agent
        self._redactor = redactor
        self._journal = Journal(store, Scope(agent.name), sources)
        self._hands = _Hands(dict(steps or {}), recover, watch, clock, sleep)

    def run(
        self,
        workflow: Source,
        parameters: Mapping[str, JsonValue] | None = None,
        *,
        id: str | None = None,
        allow_commands: bool = False,
        ignore_blocks: bool = False,
    ) -> ExecutionResult:
        """Carry out a workflow: a YAML text, the path of a file, or what `read` gave; until it is done, or stops.

        Raises `InvalidInput` for a workflow that cannot be carried out, `NotAllowed` if it has commands and they are
        not allowed, and `Conflict` for an `id` that is taken; then nothing was begun.
        """
        known = workflows.checked(workflow) if isinstance(workflow, Workflow) else workflows.read(workflow)
        given = plain(workflows.parameters(known, parameters or {}), "the parameters")
        self._refuse_secrets("workflow", known.model_dump(mode="json", by_alias=True, exclude_defaults=True))
        self._refuse_secrets("parameters", given)
        found = functions(known.steps, self._hands.steps)
        _refuse_commands(known.steps, allowed=allow_commands)
        if id is not None and (not _ID.fullmatch(id) or self._redactor.clean([id])[0].secrets):
            raise InvalidInput("the id of a run is made of letters, digits, -, _ and dots, and holds no secret")
        state = self._journal.begin(id, known, given)
        return self._carried_on(state, found, _May(allow_commands, ignore_blocks))

    def resume(
        self, run: str, *, again: bool = False, allow_commands: bool = False, ignore_blocks: bool = False
    ) -> ExecutionResult:
        """Go on with a run where it stopped; what is done is not repeated, and a finished run is only told.

        A step that was started and not ended is repeated if it is idempotent, or with `again`: its first attempt may
        have had its effect. A failed step is tried again, and so is one that was stopped because it is known to fail.
        Raises `NotFound`, `NotAllowed`, and `Conflict` if somebody else carries it on.
        """
        state = self._journal.state(run)
        if state.standing()[0] == "done":
            return self.status(run)
        left = [step for step in state.workflow.steps if not _over(state, step)]
        found = functions(left, self._hands.steps)
        _refuse_commands(left, allowed=allow_commands)
        stopped = frozenset(step.name for step in left if state.status(step.name) in {"blocked", "failed"})
        return self._carried_on(state, found, _May(allow_commands, ignore_blocks, again, stopped))

    def status(self, run: str) -> ExecutionResult:
        """How far a run has come, with the decisions and failure patterns of its steps. Raises `NotFound`."""
        return self._told(self._journal.state(run))

    def runs(self, *, limit: int = 50, workflow: str = "") -> list[RunSummary]:
        """The newest runs first, of all workflows or of one."""
        if not 1 <= limit <= MOST_RUNS:
            raise InvalidInput(f"limit must be a whole number from 1 to {MOST_RUNS}, not {limit}")
        return self._journal.runs(limit, workflow)

    def _carried_on(self, state: State, found: Mapping[str, Function], may: _May) -> ExecutionResult:
        running = _Running(self._agent, self._redactor, self._journal, self._hands, state, found, may)
        running.go()
        return self._told(state)

    def _told(self, state: State) -> ExecutionResult:
        status, reason = state.standing()
        decisions = self._decisions(state.run)
        steps = [
            self._linked(state.step(stage.name, step.name), decisions.get(step.name, ()))
            for stage, steps in workflows.ordered(state.workflow)
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
            ended_at=state.closed.at if state.closed is not None else None,
        )

    def _decisions(self, run: str) -> dict[str, tuple[str, ...]]:
        """The decisions of each step, the oldest first."""
        found = dict[str, tuple[str, ...]]()
        for memory in reversed(self._agent.list(limit=MOST_DECISIONS, kinds="decision", session=run)):
            step = memory.metadata.get("step")
            if isinstance(step, str) and memory.metadata.get("run") == run:
                found[step] = (*found.get(step, ()), memory.id)
        return found

    def _linked(self, step: StepResult, decisions: tuple[str, ...]) -> StepResult:
        links: dict[str, Any] = {"decisions": decisions}
        if step.status == "failed" and decisions:
            pattern = asked(lambda: self._agent.learning.failure(decisions[-1]), None)
            if pattern is not None:
                links |= {"pattern": pattern.pattern_id, "solutions": helpful(pattern)}
        return step.model_copy(update=links)

    def _refuse_secrets(self, what: str, value: dict[str, JsonValue]) -> None:
        """A run is written down, so what it is made of must be what is written down."""
        if found := clean_json(self._redactor, value)[1]:
            raise InvalidInput(f"the {what} must not hold a secret ({found[0]}); let the step read it where it is kept")


@dataclass(frozen=True, slots=True)
class _Hands:
    """What carries steps out, and who is told."""

    steps: Mapping[str, Function]
    recover: Recover | None
    watch: Watch | None
    clock: Clock
    sleep: Callable[[float], None]


@dataclass(frozen=True, slots=True)
class _May:
    """What the caller allows."""

    commands: bool
    ignore_blocks: bool
    again: bool = False
    probes: frozenset[str] = frozenset()
    """Steps that may be tried though they are known to fail: who resumes a run has seen where it stopped."""


class _Stop(Exception):
    """The run goes no further for now."""

    def __init__(self, status: RunStatus, reason: str = "", step: str = "") -> None:
        super().__init__(reason)
        self.status, self.reason, self.step = status, reason, step


@dataclass(frozen=True, slots=True)
class _Pause:
    """A call that only waits, before a step is tried again."""

    sleep: Callable[[float], None]
    seconds: float

    def __call__(self) -> None:
        self.sleep(self.seconds)


@dataclass(frozen=True, slots=True)
class _Work:
    """A step with its references filled in."""

    step: WorkflowStep
    stage: str
    task: Task
    action: str
    call: Callable[[StepContext], Given]
    verdict: str | None = None
    warning: str = ""

    def body(self) -> Body:
        """What is written down of it."""
        told: Body = {
            "context": self.task.context,
            "action": self.action,
            "verdict": self.verdict,
            "warning": self.warning,
        }
        return {name: value for name, value in told.items() if value}


@dataclass
class _Trouble:
    """The failures of one step so far."""

    error: str = ""
    pattern: FailurePattern | None = None
    failures: int = 0
    applied: str = ""
    """What the hook did about the last one."""
    retried: dict[str, None] = field(default_factory=dict)
    """The patterns after which it was simply tried again."""

    number: int = 0
    """The attempt whose decision stands for the pattern in this pass."""

    @property
    def solutions(self) -> tuple[Solution, ...]:
        return helpful(self.pattern)

    def hopeless(self) -> Solution | None:
        """What is known about trying again, if that does not help."""
        tried = () if self.pattern is None else self.pattern.known_solutions
        known = [one for one in tried if normal_form(one.text) == RETRY]
        return next((one for one in known if one.tried >= ENOUGH_TRIALS and one.success_rate <= HOPELESS), None)


class _Running:
    """One pass over a run: from where it stands to its end, or to what stops it."""

    def __init__(
        self,
        agent: Works,
        redactor: Redactor,
        journal: Journal,
        hands: _Hands,
        state: State,
        found: Mapping[str, Function],
        may: _May,
    ) -> None:
        self._agent, self._redactor, self._journal = agent, redactor, journal
        self._hands, self._state, self._functions, self._may = hands, state, found, may

    def go(self) -> None:
        """Carry out what is left."""
        state = self._state
        self._catch_up()
        try:
            for stage, steps in workflows.ordered(state.workflow):
                left = [step for step in steps if not _over(state, step)]
                if left:
                    self._look(stage)
                    self._carry_out(stage, left)
        except _Stop as stop:
            self._settle()
            if stop.status != "interrupted":
                self._journal.close(state, stop.status, stop.reason, stop.step)
            return
        self._settle()
        self._journal.close(state, "done", "all steps are done")

    # Before a stage ------------------------------------------------------------------------------------

    def _look(self, stage: Stage) -> None:
        """Ask the prevention checks of a stage. Raises `_Stop` if one of them is not met."""
        if stage.checks == "off":
            return
        nothing: list[PreventionCheck] = []
        known = asked(self._agent.learning.checks, nothing)
        own = [check for check in known if check.stage == stage.name and check.status != "retired"]
        if not own:
            return
        said = [self._asked(stage, check) for check in own]
        self._journal.look(self._state, stage.name, said)
        for check in said:
            if check.stops:
                raise _Stop("blocked", f"{check.name} before stage {stage.name!r}: {check.reason}; {check.verify}")
            if check.met is False:
                _log.warning("%s before stage %s: %s; %s", check.name, stage.name, check.reason, check.verify)

    def _asked(self, stage: Stage, check: PreventionCheck) -> StageCheck:
        met: bool | None = None
        if check.command is None:
            reason = "it has no command; see to it yourself"
        elif not self._may.commands:
            reason = "its command was not run, because commands are not allowed"
        else:
            try:
                _, ended = self._agent.learning.run(check.id, allowed=True, seconds=CHECK_SECONDS)
                met, reason = ended.met, ended.reason
            except (InvalidInput, NotFound) as error:
                reason = str(error)
        stops = met is False and stage.checks == "block" and check.status == "active" and not self._may.ignore_blocks
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

    def _carry_out(self, stage: Stage, steps: Sequence[WorkflowStep]) -> None:
        """Carry out the steps of a stage, each when all that it needs are over, and so many at a time as may be.

        Only what a step does itself is done in its thread: the journal and the memory are written here, by one. After a
        failure that stops the run nothing more is begun, but what has been begun is heard. Raises `_Stop`.
        """
        waiting, crew, doing = list(steps), Crew(stage.parallel), dict[str, _Doing]()
        stops = dict[str, _Stop]()
        while True:
            while not stops and crew.free and (step := _ready(waiting, crew.busy)) is not None:
                waiting.remove(step)
                doing[step.name] = self._take(stage, step)
                self._go_on(crew, doing, step.name, None, stops)
            if not crew.busy:
                break
            answer = crew.next()
            if answer.error is not None:
                raise answer.error
            self._go_on(crew, doing, answer.name, answer.value, stops)
        if stop := next((stops[step.name] for step in steps if step.name in stops), None):
            raise stop

    def _go_on(self, crew: Crew, doing: Mapping[str, _Doing], name: str, given: Any, stops: dict[str, _Stop]) -> None:
        """Let a step go on with what its call gave, until it needs another one or has ended."""
        try:
            call = doing[name].send(given)
        except StopIteration:
            return
        except _Stop as stop:
            stops[name] = stop
            return
        if not (stops and isinstance(call, _Pause)):  # a step that failed is tried again when the run is resumed
            crew.call(name, call)

    def _take(self, stage: Stage, step: WorkflowStep) -> _Doing:
        """Carry out a step, or skip it. Raises `_Stop` if the run cannot go on."""
        status = self._state.status(step.name)
        if status == "interrupted" and not (step.idempotent or step.decide is not None or self._may.again):
            raise _Stop("interrupted")
        if (skip := self._skipped(step)) is not None:
            reason, failed = skip
            number = self._next(step)
            self._journal.end(self._state, step.name, number, {"status": "skipped", "reason": reason, "failed": failed})
            self._watched(stage, step)
            return
        try:
            task, work = self._prepared(stage, step)
        except InvalidInput as error:  # what it refers to is not there: nothing was tried, and nothing is learned
            number, why = self._next(step), self._clean(str(error))
            self._journal.start(self._state, step.name, number, {})
            self._journal.end(
                self._state, step.name, number, {"status": "failed", "error": why, "unlearned": True, "last": True}
            )
            self._give_up(stage, step, why)
            return
        if work is None:
            self._decide(stage, step, task)
        else:
            yield from self._attempt(stage, self._allowed(work))

    def _skipped(self, step: WorkflowStep) -> tuple[str, bool] | None:
        """Why a step is not to be carried out, and whether that is because of a failure; `None` if it is."""
        state = self._state
        for name in sorted(workflows.needed(step)):
            last = state.last(name)
            if state.status(name) == "failed" or (last is not None and last.told("failed")):
                return f"it needs {name!r}, which failed", True
        for name, wanted in step.when.items():
            chosen = state.output(name).get("action")
            if chosen not in ([wanted] if isinstance(wanted, str) else wanted):
                return f"{name!r} came out as {chosen!r}", False
        return None

    def _prepared(self, stage: Stage, step: WorkflowStep) -> tuple[Task, _Work | None]:
        """What a step is about, and how it is carried out, unless it is a decision. Raises `InvalidInput`."""
        known, workflow = self._state.known(), self._state.workflow
        if step.decide is not None:
            return self._choice(step, step.decide, workflows.said(step.decide.context, known)), None
        written = step.context or f"{workflow.context or workflow.name}: {step.name}"
        task = self._task(step, workflows.said(written, known))
        call: Callable[[StepContext], Given]
        if step.command is not None:
            command = [workflows.said(part, known) for part in step.command]
            action, call = shlex.join(command), lambda _: ran(command, step.seconds)
        else:
            values = {name: workflows.filled(value, known) for name, value in step.values.items()}
            action = f"{step.run}({', '.join(f'{name}={value!r}' for name, value in values.items())})"
            call = functools.partial(called, self._functions[step.name], values)
            if step.seconds is not None:
                call = functools.partial(limited, call, step.run or step.name, step.seconds)
        action = workflows.said(step.action, known) if step.action is not None else shortened(action)
        if not action.strip():
            raise InvalidInput(f"the action of step {step.name!r} is empty; say what it does")
        return task, _Work(step, stage.name, task, self._clean(action), call)

    def _allowed(self, work: _Work) -> _Work:
        """The same, unless it is known to fail and something else to work. Raises `_Stop`.

        Where nothing else is known, trying is the only way to find out that whatever was wrong is over.
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
            and not self._may.ignore_blocks
            and work.step.name not in self._may.probes
        ):
            raise _Stop("blocked", f"step {work.step.name!r}: {said}", work.step.name)
        _log.warning("step %s: %s", work.step.name, said)
        return replace(work, verdict=verdict.id, warning=said)

    def _attempt(self, stage: Stage, work: _Work) -> _Doing:
        """Try a step until it succeeds, or trying is over. Raises `_Stop` if the run cannot go on without it."""
        step, trouble = work.step, self._past(work.step)
        while True:
            number = self._next(step)
            self._journal.start(self._state, step.name, number, work.body())
            context = self._context(work, number, trouble)
            told, seconds = yield functools.partial(self._timed, work.call, context)
            given = self._cleaned(told)
            body: Body = {"status": "failed", "error": given.error} if given.error else {"status": "done"}
            if given.error and self._same(trouble, given.error, work.action):
                body["counts_as"] = trouble.number
            body |= {"output": given.output, "seconds": seconds, **work.body()}
            body["last"] = not given.error or trouble.failures >= step.retry.times
            self._journal.end(self._state, step.name, number, body)
            decision = self._learn(step, self._state.attempts[step.name][number])
            if not given.error:
                self._helped(trouble)
                self._watched(stage, step)
                return
            reason = self._after(work, trouble, given.error, decision, number)
            if reason is not None:
                self._give_up(stage, step, reason)
                return
            yield _Pause(self._hands.sleep, step.retry.pause(trouble.failures))

    def _same(self, trouble: _Trouble, error: str, action: str) -> bool:
        """Whether a step fails as it did before in this pass: however often it is tried, that is one failure."""
        if trouble.pattern is None or not trouble.number:
            return False
        cleaned, about = self._redactor.clean([error, action])
        found = asked(lambda: self._agent.learning.recognise(cleaned.text, about.text), None)
        return found is not None and found.pattern_id == trouble.pattern.pattern_id

    def _timed(self, call: Callable[[StepContext], Given], context: StepContext) -> tuple[Given, float]:
        """What a step gave, and how long it took."""
        started = self._hands.clock()
        given = call(context)
        return given, self._hands.clock() - started

    def _after(self, work: _Work, trouble: _Trouble, error: str, decision: str | None, number: int) -> str | None:
        """Take in a failure: the reason to give up, or `None` when the step is to be tried again."""
        if trouble.applied:
            self._tried(trouble.pattern, trouble.applied, 0.0)
        elif trouble.failures and trouble.pattern is not None:
            trouble.retried[trouble.pattern.pattern_id] = None
        trouble.error, trouble.applied = error, ""
        trouble.pattern = None if decision is None else asked(lambda: self._agent.learning.failure(decision), None)
        trouble.number = self._state.attempts[work.step.name][number].told("counts_as") or number
        trouble.failures += 1
        self._place(trouble.pattern, work.stage)
        retry, last = work.step.retry, gist(error)
        if trouble.failures > retry.times:
            for pattern in trouble.retried:
                self._tell(pattern, RETRY, 0.0)
            return last
        trouble.applied = self._recovered(self._context(work, number, trouble))
        known = trouble.hopeless()
        if known is not None and not trouble.applied:
            return f"{last}; not tried again, which helped {known.helped:g} of {known.tried} times"
        return None

    def _place(self, pattern: FailurePattern | None, stage: str) -> None:
        """Let the check that a failure gave rise to come before the stage in which it happened, if none was said."""
        stages = {each.name for each in self._state.workflow.stages}
        for check in pattern.prevention_checks if pattern is not None else ():
            if check.stage in STAGES and check.stage not in stages and check.status == "active":
                generate = functools.partial(self._agent.learning.generate, check.pattern_id, stage=stage)
                asked(functools.partial(generate, command=check.command), list[PreventionCheck]())

    def _past(self, step: WorkflowStep) -> _Trouble:
        """What is known of a step that failed before this pass."""
        last = self._state.last(step.name)
        if last is None or last.told("status") != "failed" or last.told("unlearned"):
            return _Trouble()
        decision = self._learn(step, last)
        pattern = None if decision is None else asked(lambda: self._agent.learning.failure(decision), None)
        return _Trouble(last.told("error") or "", pattern)

    def _context(self, work: _Work, number: int, trouble: _Trouble) -> StepContext:
        run, name = self._state.run, work.step.name
        return StepContext(
            run, name, work.stage, number, f"{run}:{name}", trouble.error, trouble.solutions, trouble.applied
        )

    def _recovered(self, context: StepContext) -> str:
        """What the hook did about a failure; nothing, if there is none, or if it failed itself."""
        if self._hands.recover is None:
            return ""
        try:
            return self._hands.recover(context) or ""
        except Exception as error:  # noqa: BLE001 - a hook that fails did not help, and the step is tried again
            _log.warning("the recovery failed, too: %r", error)
            return ""

    def _give_up(self, stage: Stage, step: WorkflowStep, reason: str) -> None:
        self._watched(stage, step)
        if not step.optional:
            raise _Stop("failed", self._clean(f"step {step.name!r} failed: {reason}"), step.name)

    # Decisions -----------------------------------------------------------------------------------------

    def _decide(self, stage: Stage, step: WorkflowStep, task: Task) -> None:
        """Let what was learned choose among the actions: the best of those not known to fail, if there is one."""
        suggestion = asked(lambda: self._agent.suggest(context=task.context, actions=task.actions, **task.around), None)
        recommended = task.spelt(suggestion.recommended) if suggestion is not None else None
        rates = {
            record.action: record.success_rate for record in (suggestion.actions if suggestion is not None else ())
        }
        rest = sorted(task.actions, key=lambda action: -rates.get(action, 0.0))
        candidates = list(dict.fromkeys(one for one in [recommended, task.default_action, *rest] if one))
        verdicts = ((action, self._verdict(task, action)) for action in candidates)
        seen = list[tuple[str, Verdict]]()
        for each in verdicts:
            seen.append(each)
            if each[1].decision != "block" or self._may.ignore_blocks:
                break
        chosen, verdict = seen[-1]
        if verdict.decision == "block" and not self._may.ignore_blocks:
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
        self._journal.start(self._state, step.name, number, body)
        self._journal.end(self._state, step.name, number, {"status": "done", "output": output, **body})
        self._watched(stage, step)

    def _settle(self) -> None:
        """Tell how decisions turned out, as far as the steps that waited for them show it."""
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
            last = cast(Attempt, state.last(step.name))
            task = self._choice(step, step.decide, last.told("context"))
            id = self._recorded(step, last, task, None)
            if id is not None:
                asked(functools.partial(self._agent.outcome, id, quality, correct=True), False)

    # Memory --------------------------------------------------------------------------------------------

    def _catch_up(self) -> None:
        """Record the outcome of the step that ended last, in case that was all there was time for."""
        ended = [(attempt, step) for step in self._state.workflow.steps if (attempt := self._state.last(step.name))]
        done = [(attempt.end.at, attempt, step) for attempt, step in ended if attempt.end is not None]
        if done:
            _, attempt, step = max(done, key=lambda each: each[0])
            self._learn(step, attempt)

    def _learn(self, step: WorkflowStep, attempt: Attempt) -> str | None:
        """The decision that an attempt is remembered as; remembering it again changes nothing."""
        status = attempt.told("status")
        if status not in {"done", "failed"} or step.decide is not None or attempt.told("unlearned"):
            return None
        attempt = self._state.attempts[step.name].get(attempt.told("counts_as"), attempt)
        task = self._task(step, attempt.told("context"))
        return self._recorded(step, attempt, task, "success" if status == "done" else "failure")

    def _recorded(self, step: WorkflowStep, attempt: Attempt, task: Task, outcome: str | None) -> str | None:
        end = attempt.end
        action, verdict = attempt.told("action"), attempt.told("verdict")
        informed = attempt.told("informed_by") or ([verdict] if verdict else [])

        def record() -> Receipt:
            return self._agent.record_decision(
                context=task.context,
                action=action,
                outcome=outcome,
                alternatives=[other for other in task.actions if other != action],
                error=attempt.told("error") or "",
                duration=attempt.told("seconds"),
                informed_by=informed,
                session=task.session,
                key=f"run:{self._state.run}:step:{step.name}:{attempt.number}",
                at=None if end is None else end.at,
                metadata={"run": self._state.run, "step": step.name, "attempt": attempt.number},
                **task.around,
            )

        return recorded(record)

    def _helped(self, trouble: _Trouble) -> None:
        """Learn what made a failed step succeed."""
        if trouble.pattern is not None:
            self._tried(trouble.pattern, trouble.applied or RETRY, 1.0)

    def _tried(self, pattern: FailurePattern | None, solution: str, helped: float) -> None:
        if pattern is not None:
            self._tell(pattern.pattern_id, solution, helped)

    def _tell(self, pattern: str, solution: str, helped: float) -> None:
        (clean,) = self._redactor.clean([solution])
        asked(lambda: self._agent.learning.tried(pattern, clean.text, helped), None)

    def _verdict(self, task: Task, action: str) -> Verdict:
        context = task.context
        return asked(lambda: self._agent.check(action=action, context=context, **task.around), unknown(action, context))

    def _choice(self, step: WorkflowStep, choice: Choice, context: str) -> Task:
        default = choice.default or choice.actions[0]
        return replace(self._task(step, context), actions=choice.actions, default_action=default)

    def _task(self, step: WorkflowStep, context: str) -> Task:
        """What a step is about, as the memory is told. Raises `InvalidInput` if it is empty."""
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

    def _cleaned(self, given: Given) -> Given:
        """What a step gave, as it is written down and handed on."""
        try:
            output, _ = clean_json(self._redactor, dict(given.output))
        except InvalidInput as error:
            return Given({}, str(error))
        return Given(cast(Body, output), self._clean(given.error) if given.error else "")

    def _clean(self, text: str) -> str:
        return self._redactor.clean([text])[0].text

    # The journal ---------------------------------------------------------------------------------------

    def _next(self, step: WorkflowStep) -> int:
        last = self._state.last(step.name)
        return 1 if last is None else last.number + 1

    def _watched(self, stage: Stage, step: WorkflowStep) -> None:
        if self._hands.watch is not None:
            self._hands.watch(self._state.step(stage.name, step.name))


def _ready(waiting: Sequence[WorkflowStep], busy: frozenset[str]) -> WorkflowStep | None:
    """The first step that waits for none of the others; `None` if all of them have to wait."""
    left = {step.name for step in waiting} | busy
    return next((step for step in waiting if not workflows.needed(step) & left), None)


def _over(state: State, step: WorkflowStep) -> bool:
    """Whether nothing is left to do about a step; an optional one that failed is left as it is."""
    status = state.status(step.name)
    last = state.last(step.name)
    return status in {"done", "skipped"} or (status == "failed" and step.optional and bool(last and last.told("last")))


def _refuse_commands(steps: Iterable[WorkflowStep], *, allowed: bool) -> None:
    commands = [step for step in steps if step.command is not None]
    if commands and not allowed:
        shown = shlex.join(commands[0].command or ())
        more = f" (and {len(commands) - 1} more)" if len(commands) > 1 else ""
        raise NotAllowed(
            f"step {commands[0].name!r} would run {shown}{more}; allow it with allow_commands=True, or --allow-commands"
        )
