"""Request models of the operations; further ones are in `engram.model.wire`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from engram.api.paging import MOST, USUAL
from engram.model import MemoryType, Moment
from engram.model.bundle import MAX_LABEL, MAX_LIST, MAX_NAME, Label
from engram.model.content import Frozen
from engram.model.grant import GrantState
from engram.model.upkeep import Period
from engram.model.wire import (
    LONGEST_QUERY,
    Annotation,
    CycleDecision,
    CycleEnd,
    GrantAgreement,
    GroupChange,
    TriedSolution,
)

LAST = 9_000_000_000_000_000
"""The highest number that an event or an entry may have."""


class Nothing(Frozen):
    """A request without parameters."""


class Id(Frozen):
    """A request for an object by its id."""

    id: str = Field(max_length=MAX_LABEL, description="Its id.")


class Named(Frozen):
    """A request for an object by its name or its id."""

    name: str = Field(max_length=MAX_LABEL, description="Its name, or its id.")


class AgentName(Named):
    """A request for an agent by its name."""

    name: str = Field(max_length=MAX_NAME, description="The agent's name.")


class Listing(Frozen):
    """The page of a list to return."""

    limit: int = Field(default=USUAL, ge=1, le=MOST, description="How many, at most; 50, if left out.")
    cursor: str | None = Field(default=None, max_length=500, description="The `next_cursor` of the page before.")


class MemoryListing(Listing):
    """The memories to list, and the page to return."""

    kinds: tuple[MemoryType, ...] = Field(default=(), description="Only these kinds.")
    tags: tuple[str, ...] = Field(default=(), description="Only memories with all of these tags.")
    since: Moment | None = Field(default=None, description="Only what happened at or after this time.")
    until: Moment | None = Field(default=None, description="Only what happened before this time.")
    as_of: Moment | None = Field(default=None, description="Only what was valid at this time.")
    session: str | None = Field(default=None, description="Only of this session.")


class AnnotationOf(Frozen):
    """New metadata of a memory."""

    id: str = Field(max_length=MAX_LABEL, description="The id of the memory.")
    changes: Annotation = Field(default=Annotation(), description="The changes.")
    expected_version: int | None = Field(default=None, description="Only if the memory has this version.")


class Forgetting(Frozen):
    """The memory to delete."""

    id: str = Field(max_length=MAX_LABEL, description="The id of the memory.")
    expected_version: int | None = Field(default=None, description="Only if the memory has this version.")


class DecisionListing(Listing):
    """The decisions to list."""

    context: str = Field(min_length=1, max_length=LONGEST_QUERY, description="The situation they were taken in.")


class OutcomeListing(Listing):
    """The decision whose outcomes to list."""

    id: str = Field(max_length=MAX_LABEL, description="The id of the decision.")


class SolutionOf(TriedSolution):
    """The result of trying a solution of a failure."""

    name: str = Field(max_length=MAX_LABEL, description="The failure: its id, its name, or the id of a memory of it.")


class EvaluationQuery(Frozen):
    """The time span to evaluate."""

    since: Moment | None = Field(default=None, description="Only what happened at or after this time.")
    until: Moment | None = Field(default=None, description="Only what happened before this time.")
    period: Period = Field(
        default="week", description="The length of the time that each row covers; a week by default."
    )


class CycleIndex(Frozen):
    """A request for an action cycle by its number."""

    index: int = Field(ge=1, le=1_000_000_000, description="The number of the cycle.")


class ResultOf(CycleIndex):
    """The result of a cycle."""

    end: CycleEnd = Field(default=CycleEnd(), description="The result of the action, or its error.")


class ResolutionOf(CycleIndex):
    """The resolution of a cycle without a result."""

    decision: CycleDecision = Field(description="Abandon the cycle, or repeat it in a new one.")


class SnapshotListing(Listing):
    """The workspace whose snapshots to list."""

    workspace: str = Field(max_length=200, description="The name of the workspace.")


class DiffQuery(Frozen):
    """The snapshots to compare."""

    workspace: str = Field(max_length=200, description="The name of the workspace.")
    before: str = Field(min_length=1, max_length=100, description="A snapshot's id, or the beginning of it.")
    after: str = Field(
        default="latest", min_length=1, max_length=100, description="A later snapshot; the newest by default."
    )


class RunListing(Listing):
    """The workflow runs to list."""

    workflow: str = Field(default="", max_length=100, description="Only runs of this workflow.")


class RunId(Frozen):
    """A request for a workflow run by its id."""

    run: str = Field(max_length=200, description="The id of the run.")


class GrantApproval(GrantAgreement):
    """The approval of a request or an offer."""

    id: str = Field(max_length=MAX_LABEL, description="The id of the grant.")


class GrantListing(Listing):
    """The grants to list."""

    state: GrantState | None = Field(default=None, description="Only grants in this state.")


class UseListing(Listing):
    """The grant whose uses to list."""

    id: str = Field(max_length=MAX_LABEL, description="The id of the grant.")


class ExportQuery(Frozen):
    """The knowledge to export."""

    domains: tuple[Label, ...] = Field(default=(), max_length=MAX_LIST // 2, description="Only of these domains.")
    tags: tuple[Label, ...] = Field(default=(), max_length=MAX_LIST // 2, description="Only with any of these tags.")
    form: Literal["json", "jsonl"] = Field(
        default="json", description="One document (the default), or one record per line."
    )


class ImportOptions(Frozen):
    """Options for importing a file."""

    format: str | None = Field(
        default=None, max_length=40, description="The program that wrote it, such as mem0; detected by default."
    )
    dry_run: bool = Field(default=False, description="Only report what would be imported.")
    large: bool = Field(default=False, description="Allow a file with very many records, which may take long.")


class GroupChangeOf(GroupChange):
    """Agents to add to a group and to remove from it."""

    name: str = Field(min_length=1, max_length=MAX_NAME, description="The name of the group.")


class AuditListing(Frozen):
    """The entries of the audit trail to list."""

    after: int = Field(default=0, ge=0, le=LAST, description="Only entries with a higher number.")
    limit: int = Field(default=USUAL, ge=1, le=MOST, description="How many, at most; 50, if left out.")
    newest: bool = Field(default=False, description="Return the newest entries instead of the oldest.")
    grant: str | None = Field(default=None, max_length=MAX_LABEL, description="Only actions under this grant.")
    since: Moment | None = Field(default=None, description="Only actions at or after this time.")


class EventQuery(Frozen):
    """The first event to stream, and the length of the stream."""

    after: int | None = Field(
        default=None, ge=0, le=LAST, description="Continue after this event; by default, begin with new events."
    )
    seconds: float | None = Field(
        default=None, ge=0, le=86_400, description="End the stream after this time; 0 to get only the events so far."
    )
