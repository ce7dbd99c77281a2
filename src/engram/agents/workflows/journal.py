"""The journal of a run: every step's start and end as an event, from which the state of the run is told again.

An event is written once. Whoever writes the start of an attempt first has it; anybody else is told so.
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
class Attempt:
    """One attempt at a step: what was written when it started and when it ended."""

    number: int
    start: Event | None = None
    end: Event | None = None

    def told(self, name: str) -> Any:
        """What was written of it last under a name; `None` if nothing was."""
        said = [event.body[name] for event in (self.end, self.start) if event is not None and name in event.body]
        return said[0] if said else None


@dataclass
class State:
    """Where a run stands, folded from its events in their order."""

    run: str
    workflow: Workflow
    parameters: Body
    started_at: datetime
    attempts: dict[str, dict[int, Attempt]] = field(default_factory=dict)
    checks: dict[str, tuple[StageCheck, ...]] = field(default_factory=dict)
    looks: int = 0
    """How often the checks of stages were looked at."""
    closings: int = 0
    closed: Event | None = None
    """The end of the run, unless something came after it."""

    def fold(self, event: Event) -> None:
        """Take in one event."""
        body: Mapping[str, Any] = event.body
        closing = event.kind == RUN and "status" in body
        self.closings += closing
        if self.closed is None or self.closed.body["status"] != "done":  # what straggles in changes nothing then
            self.closed = event if closing else None
        if event.kind == STAGE:
            self.looks += 1
            checks = [validate_as(check, "the check", StageCheck) for check in body["checks"]]
            self.checks[body["stage"]] = tuple(checks)
        elif event.kind == STEP:
            attempts = self.attempts.setdefault(body["step"], {})
            attempt = attempts.setdefault(body["attempt"], Attempt(body["attempt"]))
            if "status" in body:
                attempt.end = event
            else:
                attempt.start = event

    def last(self, step: str) -> Attempt | None:
        """The latest attempt at a step."""
        attempts = self.attempts.get(step)
        return attempts[max(attempts)] if attempts else None

    def status(self, step: str) -> StepStatus:
        """How far a step has come."""
        last = self.last(step)
        if last is not None and last.end is None:
            return "interrupted"
        status: StepStatus = "pending" if last is None or last.end is None else last.told("status")
        stopped = self.closed is not None and self.closed.body.get("status") == "blocked"
        blocked = stopped and self.closed is not None and self.closed.body.get("step") == step
        return "blocked" if blocked and status in {"pending", "failed"} else status

    def output(self, step: str) -> Body:
        """What a step gave; nothing if it has not ended well."""
        last = self.last(step)
        return dict(last.told("output") or {}) if last is not None and self.status(step) == "done" else {}

    def known(self) -> Body:
        """What steps can refer to."""
        outputs: Body = {
            step.name: {"output": self.output(step.name)} for step in self.workflow.steps if self.ended(step.name)
        }
        return {"parameters": self.parameters, "steps": outputs, "run": {"id": self.run}}

    def ended(self, step: str) -> bool:
        """Whether a step has ended well."""
        return self.status(step) == "done"

    def standing(self) -> tuple[RunStatus, str]:
        """The status of the run, and why."""
        if self.closed is not None:
            body: Mapping[str, Any] = self.closed.body
            return body["status"], body["reason"]
        open_ = next((step.name for step in self.workflow.steps if self.status(step.name) == "interrupted"), None)
        if open_ is None:
            return "interrupted", "it was stopped between two steps; resume it"
        return "interrupted", f"step {open_!r} was started and not ended; see what it did before you repeat it"

    def step(self, stage: str, name: str) -> StepResult:
        """How far a step has come, without its links."""
        last = self.last(name)
        if last is None:
            return StepResult(name=name, stage=stage, status=self.status(name), reason=self._why(name))
        return StepResult(
            name=name,
            stage=stage,
            status=self.status(name),
            attempts=sum(1 for attempt in self.attempts[name].values() if attempt.start is not None),
            output=self.output(name),
            action=last.told("action") or "",
            reason=self._why(name) or last.told("reason") or "",
            error=last.told("error") or "",
            warning=last.told("warning") or "",
            started_at=last.start.at if last.start is not None else None,
            ended_at=last.end.at if last.end is not None else None,
            seconds=last.told("seconds"),
        )

    def _why(self, step: str) -> str:
        return self.standing()[1] if self.status(step) == "blocked" else ""


class Journal:
    """Reads and writes the events of one agent's runs."""

    def __init__(self, store: Store, scope: Scope, sources: Sources) -> None:
        self._store = store
        self._scope = scope
        self._sources = sources

    def begin(self, run: str | None, workflow: Workflow, parameters: Body) -> State:
        """A new run. Raises `Conflict` if there is one with its id."""
        id = run or self._sources.new_id()
        definition = workflow.model_dump(mode="json", by_alias=True, exclude_defaults=True)
        body: Body = {"workflow": definition, "parameters": parameters}
        event = Event(f"run:{id}:start", RUN, self._sources.now(), _subject(id), TOPIC, body)
        if not self._events().append(self._scope, [event])[0]:
            raise Conflict(f"there is a run {id!r} already; resume it, or choose another id")
        return _opened(event)

    def state(self, run: str) -> State:
        """Where a run stands. Raises `NotFound`."""
        found = self._events().events_of(self._scope, [_subject(run)])
        if not found:
            raise NotFound(
                f"there is no run {run!a}",
                hint=Hint("workflow list"),
            )
        return _folded(found)

    def runs(self, limit: int, workflow: str = "") -> list[RunSummary]:
        """The newest runs first, of all workflows or of one."""
        chosen = self._begun(limit, workflow)
        found: dict[str, list[Event]] = {event.subject: [] for event in reversed(chosen)}
        for event in self._events().events_of(self._scope, list(found)):
            found[event.subject].append(event)
        return [_summary(_folded(events)) for events in found.values()]

    def _begun(self, limit: int, workflow: str) -> list[Event]:
        """The beginnings of the newest runs, the oldest of them first; it is read as far back as is needed."""
        asked = limit
        while True:
            begun = self._events().events_by_topic(self._scope, TOPIC, asked)
            chosen = [event for event in begun if not workflow or _definition(event)["name"] == workflow]
            if len(chosen) >= limit or len(begun) < asked:
                return chosen[-limit:]
            asked *= 10

    def look(self, state: State, stage: str, checks: list[StageCheck]) -> None:
        """Write what the checks of a stage said."""
        body: Body = {"stage": stage, "checks": [check.model_dump(mode="json") for check in checks]}
        self._add(state, f"stage:{stage}:{state.looks + 1}", STAGE, body)

    def start(self, state: State, step: str, attempt: int, body: Body) -> None:
        """Write that an attempt starts. Raises `Conflict` if somebody else has it."""
        about: Body = {"step": step, "attempt": attempt}
        self._add(state, f"step:{step}:{attempt}:start", STEP, about | body)

    def end(self, state: State, step: str, attempt: int, body: Body) -> None:
        """Write how an attempt ended."""
        about: Body = {"step": step, "attempt": attempt}
        self._add(state, f"step:{step}:{attempt}:end", STEP, about | body)

    def close(self, state: State, status: RunStatus, reason: str, step: str = "") -> None:
        """Write how the run ended; it can be taken up again, unless all is done."""
        self._add(state, f"end:{state.closings + 1}", RUN, {"status": status, "reason": reason, "step": step})

    def _add(self, state: State, name: str, kind: str, body: Body) -> None:
        event = Event(f"run:{state.run}:{name}", kind, self._sources.now(), _subject(state.run), "", body)
        if not self._events().append(self._scope, [event])[0]:
            raise Conflict(f"somebody else is carrying on the run {state.run!r}; see its status, and leave it to them")
        state.fold(event)

    def _events(self) -> KeepsEvents:
        require(self._store, KeepsEvents, "a run of a workflow")
        return self._store


def _subject(run: str) -> str:
    """What the events of a run are about; no memory has such an id, so none takes them with it."""
    return f"run:{run}"


def _folded(events: list[Event]) -> State:
    state = _opened(events[0])
    for event in events[1:]:
        state.fold(event)
    return state


def _opened(event: Event) -> State:
    workflow = validate_as(_definition(event), "the workflow", Workflow)
    given: Any = event.body["parameters"]
    return State(event.subject.removeprefix(_subject("")), workflow, dict(given), event.at)


def _definition(event: Event) -> Body:
    definition: Any = event.body["workflow"]
    return dict(definition)


def _summary(state: State) -> RunSummary:
    status, reason = state.standing()
    steps = state.workflow.steps
    return RunSummary(
        run=state.run,
        workflow=state.workflow.name,
        status=status,
        reason=reason,
        done=sum(state.ended(step.name) for step in steps),
        steps=len(steps),
        started_at=state.started_at,
        ended_at=state.closed.at if state.closed is not None else None,
    )
