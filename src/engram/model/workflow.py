"""Workflows as they are written, and runs of them as they are told."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, JsonValue, Strict, model_validator

from engram.model.content import Frozen
from engram.model.failure import Solution
from engram.model.memory import Moment

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$")]
"""Letters, digits, `-` and `_`; 64 at most."""
Said = Annotated[str, Field(min_length=1, max_length=10_000)]
Flag = Annotated[bool, Strict()]
Whole = Annotated[int, Strict()]
Seconds = Annotated[float, Strict()]

StepStatus = Literal["pending", "done", "failed", "skipped", "interrupted", "blocked"]
"""An interrupted step was started and not ended: it was killed, or another process is at it."""
RunStatus = Literal["done", "failed", "blocked", "interrupted"]
"""An interrupted run has neither come to its end nor to a failure."""


class Retry(Frozen):
    """How often a failed step is tried again, and how long to wait before: each time `factor` times as long."""

    times: Whole = Field(default=0, ge=0, le=100)
    wait: Seconds = Field(default=0.0, ge=0, le=3600)
    factor: Seconds = Field(default=2.0, ge=1, le=10)
    most: Seconds = Field(default=300.0, ge=0, le=3600)

    def pause(self, failures: int) -> float:
        """The seconds to wait after so many failures in a row."""
        return min(self.wait * self.factor ** min(failures - 1, 100), self.most)


class Choice(Frozen):
    """A decision point: what was learned chooses among the actions, or else the default is taken."""

    context: Said
    actions: tuple[Said, ...] = Field(min_length=1, max_length=100)
    default: Said | None = None

    @model_validator(mode="after")
    def _one_of_them(self) -> Choice:
        if len(set(self.actions)) < len(self.actions):
            raise ValueError("an action stands there twice; name each once")
        if self.default is not None and self.default not in self.actions:
            raise ValueError(f"the default {self.default!r} is none of the actions; add it to them")
        return self


class Step(Frozen):
    """One thing to do: a registered function, a program, or a decision."""

    name: Name
    run: Said | None = Field(default=None, description="The name of a registered function.")
    command: tuple[str, ...] | None = Field(default=None, description="A program and its arguments; no shell.")
    decide: Choice | None = None
    values: dict[str, JsonValue] = Field(default_factory=dict, alias="with", description="What the function gets.")
    needs: tuple[Name, ...] = ()
    when: dict[Name, Said | tuple[Said, ...]] = Field(
        default_factory=dict, description="Decisions that must have come out so; otherwise the step is skipped."
    )
    retry: Retry = Retry()
    idempotent: Flag = Field(default=False, description="Whether it may be repeated when it was interrupted.")
    optional: Flag = Field(default=False, description="Whether the run goes on without it when it fails.")
    seconds: Seconds | None = Field(default=None, gt=0, le=86_400, description="How long it may take.")
    action: Said | None = Field(default=None, description="What it does, as the memory is told.")
    context: Said | None = Field(default=None, description="The situation, as the memory is told.")
    tool: str = ""

    @model_validator(mode="after")
    def _one_kind(self) -> Step:
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
    """Steps that belong together; the prevention checks of the stage's name come before them."""

    name: Name
    steps: tuple[Step, ...] = Field(min_length=1, max_length=1000)
    needs: tuple[Name, ...] | None = Field(
        default=None, description="The stages before it; all that are written above it, if that is left out."
    )
    parallel: Whole = Field(
        default=1, ge=1, le=32, description="How many of its steps may be carried out at the same time."
    )
    checks: Literal["block", "warn", "off"] = Field(
        default="block", description="What a prevention check that is not met does."
    )


class Workflow(Frozen):
    """Stages of steps, what they are given, and the circumstances that the memory is told."""

    name: Name
    stages: tuple[Stage, ...] = Field(min_length=1, max_length=100)
    description: str = ""
    context: Said | None = None
    environment: str = ""
    task_type: str = ""
    tags: tuple[Said, ...] = ()
    parameters: dict[Name, JsonValue] = Field(
        default_factory=dict, description="Names and what they are unless given; null must be given."
    )

    @property
    def steps(self) -> tuple[Step, ...]:
        """All steps, as they are written."""
        return tuple(step for stage in self.stages for step in stage.steps)


class StageCheck(Frozen):
    """What a prevention check said before a stage; `met` is none if it has no command, or none was allowed."""

    stage: str
    check: str
    name: str
    verify: str
    met: bool | None
    stops: bool = False
    reason: str


class StepResult(Frozen):
    """How far a step has come, and what it is linked with in the memory."""

    name: str
    stage: str
    status: StepStatus
    attempts: int = 0
    output: dict[str, JsonValue] = Field(default_factory=dict)
    action: str = ""
    reason: str = ""
    error: str = ""
    warning: str = Field(default="", description="What the memory said against it before it was done.")
    started_at: Moment | None = None
    ended_at: Moment | None = None
    seconds: float | None = None
    decisions: tuple[str, ...] = Field(default=(), description="The memories of its attempts, the oldest first.")
    pattern: str | None = Field(default=None, description="The id of the failure pattern that its error belongs to.")
    solutions: tuple[Solution, ...] = Field(default=(), description="What is known to solve that, the best first.")


class ExecutionResult(Frozen):
    """How far a run of a workflow has come. Its id is the session of all that was remembered in it."""

    run: str
    workflow: str
    status: RunStatus
    reason: str = ""
    parameters: dict[str, JsonValue] = Field(default_factory=dict)
    steps: tuple[StepResult, ...] = ()
    checks: tuple[StageCheck, ...] = Field(default=(), description="What was said before the stages, the last time.")
    started_at: Moment
    ended_at: Moment | None = None

    def step(self, name: str) -> StepResult:
        """The step of this name. Raises `KeyError`."""
        return {step.name: step for step in self.steps}[name]


class RunSummary(Frozen):
    """One line about a run."""

    run: str
    workflow: str
    status: RunStatus
    reason: str = ""
    done: int
    steps: int
    started_at: Moment
    ended_at: Moment | None = None
