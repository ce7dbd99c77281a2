"""An agent's life: who it is, and the cycles of proposing, acting and seeing what came of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

from pydantic import Field, JsonValue

from engram.model.clean import Clean
from engram.model.content import Frozen
from engram.model.memory import Hit, Moment


class AgentDefinition(Frozen):
    """An agent as somebody wrote it down: not yet redacted, not yet stored."""

    name: str = ""
    description: str = ""
    directives: tuple[str, ...] = ()
    config: Mapping[str, JsonValue] = Field(default_factory=dict)


class Agent(Frozen):
    """Who an agent is and what it is told to do; a change makes a new version, and the old ones stay."""

    name: str
    version: int
    at: Moment
    description: Clean = Clean("")
    directives: tuple[Clean, ...] = ()
    config: Mapping[str, JsonValue] = Field(
        default_factory=dict, description="What is different for it when it runs, such as its model."
    )
    redacted: tuple[str, ...] = ()


class ActionProposal(Frozen):
    """What an agent meant to do in one cycle, and why; kept before it is done."""

    index: int
    at: Moment
    thoughts: JsonValue = ""
    tool: Clean = Clean("")
    arguments: Mapping[str, JsonValue] = Field(default_factory=dict)
    reasoning: Clean = Clean("")
    plan: tuple[Clean, ...] = ()
    workspace: Clean = Clean("")
    retry_of: int | None = Field(default=None, description="The interrupted cycle that it does again.")
    redacted: tuple[str, ...] = Field(
        default=(), description="The rules that took secrets out; whoever does it again has to put them back."
    )


class ActionError(Frozen):
    """What went wrong when an action was carried out."""

    message: Clean
    kind: Clean = Clean("")
    details: JsonValue = None


class ActionResult(Frozen):
    """What an action gave: its output or its error, and where its artifacts are."""

    at: Moment
    output: JsonValue = None
    error: ActionError | None = None
    artifacts: tuple[Clean, ...] = ()
    redacted: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether there was no error."""
        return self.error is None


CycleStatus = Literal["open", "done", "failed", "abandoned", "retried"]
"""`open` has no result: it is running, or was interrupted. `done` and `failed` are complete."""


class AgentCycle(Frozen):
    """One turn of an agent: one proposal, and one result once it is complete."""

    agent: str
    index: int
    status: CycleStatus
    proposal: ActionProposal
    result: ActionResult | None = None
    reason: Clean = Field(default=Clean(""), description="Why it was abandoned.")
    retried_by: int | None = Field(default=None, description="The cycle that does it again.")
    ended_at: Moment | None = None

    @property
    def complete(self) -> bool:
        """Whether it has a result, good or bad."""
        return self.result is not None

    @property
    def interrupted(self) -> bool:
        """Whether it has no result and nobody decided about it: it may have been carried out, or be running still."""
        return self.status == "open"


class AgentState(Frozen):
    """Where an agent stands: what it did last, and what it was in the middle of."""

    agent: str
    next_index: int
    last_complete: AgentCycle | None = None
    interrupted: ActionProposal | None = Field(
        default=None, description="The newest proposal without a result: it may have been carried out, or not."
    )
    unfinished: tuple[AgentCycle, ...] = Field(default=(), description="All cycles without a result, oldest first.")


class Recollection(Frozen):
    """Something that came to mind: a memory with the cycle it came from, if any, or a recent result."""

    found: Literal["memory", "recent"]
    hit: Hit | None = None
    cycle: AgentCycle | None = None


class Recollections(list[Recollection]):
    """What came to mind, best first, and the id of the recall, by which its outcome can be told."""

    def __init__(self, id: str, found: Iterable[Recollection] = ()) -> None:
        super().__init__(found)
        self.id = id
