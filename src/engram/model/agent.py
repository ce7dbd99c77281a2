"""Agents and their cycles: proposal, action, result."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

from pydantic import Field, JsonValue

from engram.model.clean import Clean
from engram.model.content import Frozen
from engram.model.memory import Hit, Moment


class AgentDefinition(Frozen):
    """Definition of an agent as written by its author: not yet redacted, not yet stored."""

    name: str = ""
    description: str = ""
    directives: tuple[str, ...] = ()
    config: Mapping[str, JsonValue] = Field(default_factory=dict)


class Agent(Frozen):
    """A stored definition of an agent; each change makes a new version, and old versions are kept."""

    name: str = Field(description="Its name.")
    version: int = Field(description="Its version, which changes when it does.")
    at: Moment = Field(description="When it happened.")
    description: Clean = Field(default=Clean(""), description="Who it is, in words.")
    directives: tuple[Clean, ...] = Field(default=(), description="What it is told to do.")
    config: Mapping[str, JsonValue] = Field(
        default_factory=dict, description="Settings for running it, such as its model."
    )
    redacted: tuple[str, ...] = Field(default=(), description="The rules that took secrets out.")


class ActionProposal(Frozen):
    """The action an agent intends in one cycle, with its reasons; stored before it is carried out."""

    index: int = Field(description="Its number, from 1 on.")
    at: Moment = Field(description="When it happened.")
    thoughts: JsonValue = Field(default="", description="What was thought, as text or JSON.")
    tool: Clean = Field(default=Clean(""), description="What it is done with.")
    arguments: Mapping[str, JsonValue] = Field(default_factory=dict, description="What the tool is given.")
    reasoning: Clean = Field(default=Clean(""), description="Why it was meant to be done.")
    plan: tuple[Clean, ...] = Field(default=(), description="What is meant to be done after that.")
    workspace: Clean = Field(default=Clean(""), description="The name of the workspace.")
    retry_of: int | None = Field(default=None, description="The interrupted cycle that it does again.")
    redacted: tuple[str, ...] = Field(
        default=(), description="The redaction rules that removed secrets; to repeat the action, supply these again."
    )


class ActionError(Frozen):
    """Error of an action."""

    message: Clean = Field(description="What went wrong.")
    kind: Clean = Field(default=Clean(""), description="Which kind it is.")
    details: JsonValue = Field(default=None, description="More about it, as JSON.")


class ActionResult(Frozen):
    """Result of an action: its output or its error, and the locations of its artifacts."""

    at: Moment = Field(description="When it happened.")
    output: JsonValue = Field(default=None, description="What it gave.")
    error: ActionError | None = Field(default=None, description="What went wrong; empty or none if nothing did.")
    artifacts: tuple[Clean, ...] = Field(default=(), description="Where what it made is to be found.")
    redacted: tuple[str, ...] = Field(default=(), description="The rules that took secrets out.")

    @property
    def ok(self) -> bool:
        """Return true if there was no error."""
        return self.error is None


CycleStatus = Literal["open", "done", "failed", "abandoned", "retried"]
"""`open` has no result: it is running or was interrupted. `done` and `failed` are complete."""


class AgentCycle(Frozen):
    """One cycle of an agent: a proposal, and its result once it is complete."""

    agent: str = Field(description="Whose it is.")
    index: int = Field(description="Its number, from 1 on.")
    status: CycleStatus = Field(description="How it stands.")
    proposal: ActionProposal = Field(description="What was meant to be done.")
    result: ActionResult | None = Field(default=None, description="What came of it; none as long as that is not known.")
    reason: Clean = Field(default=Clean(""), description="Reason for abandoning it.")
    retried_by: int | None = Field(default=None, description="The cycle that repeats it.")
    ended_at: Moment | None = Field(default=None, description="When it ended; none as long as it goes on.")

    @property
    def complete(self) -> bool:
        """Return true if it has a result, good or bad."""
        return self.result is not None

    @property
    def interrupted(self) -> bool:
        """Return true if it has no result and was not abandoned or retried; its action may still be running."""
        return self.status == "open"


class AgentState(Frozen):
    """Progress of an agent: its last complete cycle and its unfinished ones."""

    agent: str = Field(description="Whose it is.")
    next_index: int = Field(description="The number of the next cycle.")
    last_complete: AgentCycle | None = Field(default=None, description="The newest cycle that has a result.")
    interrupted: ActionProposal | None = Field(
        default=None, description="The newest proposal without a result: it may have been carried out, or not."
    )
    unfinished: tuple[AgentCycle, ...] = Field(default=(), description="All cycles without a result, oldest first.")


class Recollection(Frozen):
    """One item found for an agent: a memory with the cycle it came from, if any, or a recent result."""

    found: Literal["memory", "recent"]
    hit: Hit | None = None
    cycle: AgentCycle | None = None


class Recollections(list[Recollection]):
    """Items found for an agent, best first, with the id of the recall to report its outcome by."""

    def __init__(self, id: str, found: Iterable[Recollection] = ()) -> None:
        super().__init__(found)
        self.id = id
