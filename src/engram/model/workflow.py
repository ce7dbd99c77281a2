"""Workflow definitions, and the results of their runs."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, JsonValue, Strict, model_validator

from engram.model.content import Frozen
from engram.model.failure import Solution
from engram.model.memory import Moment

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$")]
"""Letters, digits, `-` and `_`; 64 at most."""
NonEmptyText = Annotated[str, Field(min_length=1, max_length=10_000)]
Flag = Annotated[bool, Strict()]
Whole = Annotated[int, Strict()]
Seconds = Annotated[float, Strict()]

StepStatus = Literal["pending", "done", "failed", "skipped", "interrupted", "blocked"]
"""An interrupted step was started and has not ended: its process was killed, or is still running."""
RunStatus = Literal["done", "failed", "blocked", "interrupted"]
"""An interrupted run has neither finished nor failed."""


class Retry(Frozen):
    """Retries of a failed step, and the wait before each, which grows by `factor`."""

    times: Whole = Field(default=0, ge=0, le=100)
    wait: Seconds = Field(default=0.0, ge=0, le=3600)
    factor: Seconds = Field(default=2.0, ge=1, le=10)
    most: Seconds = Field(default=300.0, ge=0, le=3600)

    def pause(self, failures: int) -> float:
        """Return the seconds to wait after this many failures in a row."""
        return min(self.wait * self.factor ** min(failures - 1, 100), self.most)


class Choice(Frozen):
    """A decision step: what was learned chooses among the actions; otherwise the default is taken."""

    context: NonEmptyText
    actions: tuple[NonEmptyText, ...] = Field(min_length=1, max_length=100)
    default: NonEmptyText | None = None

    @model_validator(mode="after")
    def _one_of_them(self) -> Choice:
        if len(set(self.actions)) < len(self.actions):
            raise ValueError("an action stands there twice; name each once")
        if self.default is not None and self.default not in self.actions:
            raise ValueError(f"the default {self.default!r} is none of the actions; add it to them")
        return self


class WorkflowStep(Frozen):
    """One step: a registered function, a program, or a decision."""

    name: Name
    run: NonEmptyText | None = Field(default=None, description="The name of a registered function.")
    command: tuple[str, ...] | None = Field(default=None, description="A program and its arguments; no shell.")
    decide: Choice | None = None
    values: dict[str, JsonValue] = Field(default_factory=dict, alias="with", description="Arguments of the function.")
    needs: tuple[Name, ...] = ()
    when: dict[Name, NonEmptyText | tuple[NonEmptyText, ...]] = Field(
        default_factory=dict, description="Required results of earlier decisions; otherwise the step is skipped."
    )
    retry: Retry = Retry()
    idempotent: Flag = Field(default=False, description="Whether it may be repeated after an interruption.")
    optional: Flag = Field(default=False, description="Whether the run continues when it fails.")
    seconds: Seconds | None = Field(default=None, gt=0, le=86_400, description="Time limit.")
    action: NonEmptyText | None = Field(default=None, description="The action as recorded in memory.")
    context: NonEmptyText | None = Field(default=None, description="The context as recorded in memory.")
    tool: str = ""

    @model_validator(mode="after")
    def _one_kind(self) -> WorkflowStep:
        kinds = [name for name in ("run", "command", "decide") if getattr(self, name) is not None]
        if len(kinds) != 1:
            raise ValueError("a step has exactly one of run, command and decide")
        if self.command is not None and (not self.command or not self.command[0].strip() or "${" in self.command[0]):
            raise ValueError("a command is a list of texts, and the first names a program as it is")
        if self.seconds is not None and self.decide is not None:
            raise ValueError("a decision has no time limit; only a function or a command has one in seconds")
        if self.values and self.run is None:
            raise ValueError("only a function is given values with `with`")
        return self


class Stage(Frozen):
    """A group of steps; the prevention checks of the stage's name run before it."""

    name: Name
    steps: tuple[WorkflowStep, ...] = Field(min_length=1, max_length=1000)
    needs: tuple[Name, ...] | None = Field(
        default=None, description="The stages it waits for; all that are written above it, if left out."
    )
    parallel: Whole = Field(default=1, ge=1, le=32, description="Maximum number of its steps to run at the same time.")
    checks: Literal["block", "warn", "off"] = Field(
        default="block", description="Effect of a prevention check that is not met."
    )


class Workflow(Frozen):
    """Stages of steps, their parameters, and the circumstances recorded in memory."""

    name: Name
    stages: tuple[Stage, ...] = Field(min_length=1, max_length=100)
    description: str = ""
    context: NonEmptyText | None = None
    environment: str = ""
    task_type: str = ""
    tags: tuple[NonEmptyText, ...] = ()
    parameters: dict[Name, JsonValue] = Field(
        default_factory=dict, description="Names and default values; null means the value must be given."
    )

    @property
    def steps(self) -> tuple[WorkflowStep, ...]:
        """All steps, in the order of the definition."""
        return tuple(step for stage in self.stages for step in stage.steps)


class StageCheck(Frozen):
    """Result of a prevention check before a stage; `met` is missing if it has no command or may not run it."""

    stage: str = Field(description="The stage of the workflow that it belongs to.")
    check: str = Field(description="The id of the check.")
    name: str = Field(description="Its name.")
    verify: str = Field(description="What to look at before the action.")
    met: bool | None = Field(description="Whether its condition holds; none if nobody looked.")
    stops: bool = Field(default=False, description="Whether the run stops there.")
    reason: str = Field(description="Why.")


class StepResult(Frozen):
    """State of a step in a run, with the memories linked to it."""

    name: str = Field(description="Its name.")
    stage: str = Field(description="The stage of the workflow that it belongs to.")
    status: StepStatus = Field(description="How it stands.")
    attempts: int = Field(default=0, description="How often it was tried.")
    output: dict[str, JsonValue] = Field(default_factory=dict, description="What it gave.")
    action: str = Field(default="", description="What was done, or is to be done.")
    reason: str = Field(default="", description="Why.")
    error: str = Field(default="", description="What went wrong; empty or none if nothing did.")
    warning: str = Field(default="", description="Warning from memory before the step was run.")
    started_at: Moment | None = Field(default=None, description="When it began.")
    ended_at: Moment | None = Field(default=None, description="When it ended; none as long as it goes on.")
    seconds: float | None = Field(default=None, description="How long it took.")
    decisions: tuple[str, ...] = Field(default=(), description="The memories of its attempts, the oldest first.")
    pattern: str | None = Field(default=None, description="The id of the failure pattern that its error belongs to.")
    solutions: tuple[Solution, ...] = Field(default=(), description="Known solutions of the error, the best first.")


class ExecutionResult(Frozen):
    """State of a run of a workflow. Its id is the session of everything recorded in it."""

    run: str = Field(description="The id of the run.")
    workflow: str = Field(description="The name of the workflow.")
    status: RunStatus = Field(description="How it stands.")
    reason: str = Field(default="", description="Why.")
    parameters: dict[str, JsonValue] = Field(default_factory=dict, description="What the run was given.")
    steps: tuple[StepResult, ...] = Field(default=(), description="The steps, in their order.")
    checks: tuple[StageCheck, ...] = Field(default=(), description="Results of the latest checks before the stages.")
    started_at: Moment = Field(description="When it began.")
    ended_at: Moment | None = Field(default=None, description="When it ended; none as long as it goes on.")

    def step(self, name: str) -> StepResult:
        """Return the step of this name. Raises `KeyError`."""
        return {step.name: step for step in self.steps}[name]


class RunSummary(Frozen):
    """One line about a run, for lists."""

    run: str = Field(description="The id of the run.")
    workflow: str = Field(description="The name of the workflow.")
    status: RunStatus = Field(description="How it stands.")
    reason: str = Field(default="", description="Why.")
    done: int = Field(description="How many steps are done.")
    steps: int = Field(description="How many steps there are.")
    started_at: Moment = Field(description="When it began.")
    ended_at: Moment | None = Field(default=None, description="When it ended; none as long as it goes on.")
