"""The journal of a run: an event for each start and end of a step, from which the state of the run is rebuilt.

An event is written once: of two processes that start the same attempt, one gets a `Conflict`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from pydantic import JsonValue

from engram.clock import Sources
from engram.errors import Conflict, Hint, NotFound
from engram.model.workflow import RunStatus, RunSummary, StageCheck, StepResult, StepStatus, Workflow
from engram.ports import Event, KeepsEvents, Scope, Store
from engram.ports.completed import require
from engram.text.safe_yaml import validate_as

RUN, STAGE, STEP = "run", "stage", "step"
TOPIC = "workflow runs"
Body = dict[str, JsonValue]


@dataclass
class StepAttempt:
    """One attempt at a step: its start and end events."""

    number: int
    start: Event | None = None
    end: Event | None = None

    def value(self, name: str) -> Any:
        """Return the latest value recorded under a name, or `None`."""
        said = [event.body[name] for event in (self.end, self.start) if event is not None and name in event.body]
        return said[0] if said else None


@dataclass
class RunState:
    """State of a run, rebuilt from its events in order."""

    run: str
    workflow: Workflow
    parameters: Body
    started_at: datetime
    attempts: dict[str, dict[int, StepAttempt]] = field(default_factory=dict)
    checks: dict[str, tuple[StageCheck, ...]] = field(default_factory=dict)
    check_rounds: int = 0
    """Number of times the checks of stages were recorded."""
    run_ends: int = 0
    run_end: Event | None = None
    """The event that ended the run, unless other events followed."""

    def apply(self, event: Event) -> None:
        """Apply one event."""
        body: Mapping[str, Any] = event.body
        closing = event.kind == RUN and "status" in body
        self.run_ends += closing
        if self.run_end is None or self.run_end.body["status"] != "done":  # what straggles in changes nothing then
            self.run_end = event if closing else None
        if event.kind == STAGE:
            self.check_rounds += 1
            checks = [validate_as(check, "the check", StageCheck) for check in body["checks"]]
            self.checks[body["stage"]] = tuple(checks)
        elif event.kind == STEP:
            attempts = self.attempts.setdefault(body["step"], {})
            attempt = attempts.setdefault(body["attempt"], StepAttempt(body["attempt"]))
            if "status" in body:
                attempt.end = event
            else:
                attempt.start = event

    def last(self, step: str) -> StepAttempt | None:
        """Return the latest attempt at a step."""
        attempts = self.attempts.get(step)
        return attempts[max(attempts)] if attempts else None

    def status(self, step: str) -> StepStatus:
        """Return the status of a step."""
        last = self.last(step)
        if last is not None and last.end is None:
            return "interrupted"
        status: StepStatus = "pending" if last is None or last.end is None else last.value("status")
        stopped = self.run_end is not None and self.run_end.body.get("status") == "blocked"
        blocked = stopped and self.run_end is not None and self.run_end.body.get("step") == step
        return "blocked" if blocked and status in {"pending", "failed"} else status

    def output(self, step: str) -> Body:
        """Return the output of a step; empty if it has not succeeded."""
        last = self.last(step)
        return dict(last.value("output") or {}) if last is not None and self.status(step) == "done" else {}

    def reference_values(self) -> Body:
        """Return the values that references can resolve to."""
        outputs: Body = {
            step.name: {"output": self.output(step.name)} for step in self.workflow.steps if self.ended(step.name)
        }
        return {"parameters": self.parameters, "steps": outputs, "run": {"id": self.run}}

    def ended(self, step: str) -> bool:
        """Return true if a step has succeeded."""
        return self.status(step) == "done"

    def run_status(self) -> tuple[RunStatus, str]:
        """Return the status of the run and its reason."""
        if self.run_end is not None:
            body: Mapping[str, Any] = self.run_end.body
            return body["status"], body["reason"]
        open_ = next((step.name for step in self.workflow.steps if self.status(step.name) == "interrupted"), None)
        if open_ is None:
            return "interrupted", "it was stopped between two steps; resume it"
        return "interrupted", f"step {open_!r} was started and not ended; see what it did before you repeat it"

    def step(self, stage: str, name: str) -> StepResult:
        """Return the state of a step, without its links to memories."""
        last = self.last(name)
        if last is None:
            return StepResult(name=name, stage=stage, status=self.status(name), reason=self._block_reason(name))
        return StepResult(
            name=name,
            stage=stage,
            status=self.status(name),
            attempts=sum(1 for attempt in self.attempts[name].values() if attempt.start is not None),
            output=self.output(name),
            action=last.value("action") or "",
            reason=self._block_reason(name) or last.value("reason") or "",
            error=last.value("error") or "",
            warning=last.value("warning") or "",
            started_at=last.start.at if last.start is not None else None,
            ended_at=last.end.at if last.end is not None else None,
            seconds=last.value("seconds"),
        )

    def _block_reason(self, step: str) -> str:
        return self.run_status()[1] if self.status(step) == "blocked" else ""


class Journal:
    """Reads and writes the events of one agent's runs."""

    def __init__(self, store: Store, scope: Scope, sources: Sources) -> None:
        self._store = store
        self._scope = scope
        self._sources = sources

    def begin(self, run: str | None, workflow: Workflow, parameters: Body) -> RunState:
        """Start a new run. Raises `Conflict` if its id is taken."""
        id = run or self._sources.new_id()
        definition = workflow.model_dump(mode="json", by_alias=True, exclude_defaults=True)
        body: Body = {"workflow": definition, "parameters": parameters}
        event = Event(f"run:{id}:start", RUN, self._sources.now(), _subject(id), TOPIC, body)
        if not self._events().append(self._scope, [event])[0]:
            raise Conflict(f"there is a run {id!r} already; resume it, or choose another id")
        return _initial_state(event)

    def state(self, run: str) -> RunState:
        """Return the state of a run. Raises `NotFound`."""
        found = self._events().events_of(self._scope, [_subject(run)])
        if not found:
            raise NotFound(f"there is no run {run!a}", hint=Hint("workflow list", "shows all runs"))
        return _replay(found)

    def runs(self, limit: int, workflow: str = "") -> list[RunSummary]:
        """Return the newest runs, of all workflows or of one."""
        chosen = self._start_events(limit, workflow)
        found: dict[str, list[Event]] = {event.subject: [] for event in reversed(chosen)}
        for event in self._events().events_of(self._scope, list(found)):
            found[event.subject].append(event)
        return [_summary(_replay(events)) for events in found.values()]

    def _start_events(self, limit: int, workflow: str) -> list[Event]:
        """Return the start events of the newest runs, oldest first, reading as far back as needed."""
        asked = limit
        while True:
            begun = self._events().events_by_topic(self._scope, TOPIC, asked)
            chosen = [event for event in begun if not workflow or _definition(event)["name"] == workflow]
            if len(chosen) >= limit or len(begun) < asked:
                return chosen[-limit:]
            asked *= 10

    def record_checks(self, state: RunState, stage: str, checks: list[StageCheck]) -> None:
        """Record the results of a stage's checks."""
        body: Body = {"stage": stage, "checks": [check.model_dump(mode="json") for check in checks]}
        self._add(state, f"stage:{stage}:{state.check_rounds + 1}", STAGE, body)

    def record_start(self, state: RunState, step: str, attempt: int, body: Body) -> None:
        """Record the start of an attempt. Raises `Conflict` if another process has started it."""
        about: Body = {"step": step, "attempt": attempt}
        self._add(state, f"step:{step}:{attempt}:start", STEP, about | body)

    def record_end(self, state: RunState, step: str, attempt: int, body: Body) -> None:
        """Record the end of an attempt."""
        about: Body = {"step": step, "attempt": attempt}
        self._add(state, f"step:{step}:{attempt}:end", STEP, about | body)

    def record_run_end(self, state: RunState, status: RunStatus, reason: str, step: str = "") -> None:
        """Record the end of the run; unless it is done, it can be resumed."""
        self._add(state, f"end:{state.run_ends + 1}", RUN, {"status": status, "reason": reason, "step": step})

    def _add(self, state: RunState, name: str, kind: str, body: Body) -> None:
        event = Event(f"run:{state.run}:{name}", kind, self._sources.now(), _subject(state.run), "", body)
        if not self._events().append(self._scope, [event])[0]:
            raise Conflict(f"another process is continuing the run {state.run!r}; check its status instead")
        state.apply(event)

    def _events(self) -> KeepsEvents:
        require(self._store, KeepsEvents, "a run of a workflow")
        return self._store


def _subject(run: str) -> str:
    """Return the subject of a run's events; it is no memory's id, so they are not deleted with one."""
    return f"run:{run}"


def _replay(events: list[Event]) -> RunState:
    state = _initial_state(events[0])
    for event in events[1:]:
        state.apply(event)
    return state


def _initial_state(event: Event) -> RunState:
    workflow = validate_as(_definition(event), "the workflow", Workflow)
    given: Any = event.body["parameters"]
    return RunState(event.subject.removeprefix(_subject("")), workflow, dict(given), event.at)


def _definition(event: Event) -> Body:
    definition: Any = event.body["workflow"]
    return dict(definition)


def _summary(state: RunState) -> RunSummary:
    status, reason = state.run_status()
    steps = state.workflow.steps
    return RunSummary(
        run=state.run,
        workflow=state.workflow.name,
        status=status,
        reason=reason,
        done=sum(state.ended(step.name) for step in steps),
        steps=len(steps),
        started_at=state.started_at,
        ended_at=state.run_end.at if state.run_end is not None else None,
    )
