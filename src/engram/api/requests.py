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
    """A question that needs no words."""


class Id(Frozen):
    """Which thing is meant, by its id."""

    id: str = Field(max_length=MAX_LABEL, description="Its id.")


class Named(Frozen):
    """Which thing is meant, by its name or its id."""

    name: str = Field(max_length=MAX_LABEL, description="Its name, or its id.")


class AgentName(Named):
    """Which agent is meant."""

    name: str = Field(max_length=MAX_NAME, description="The agent's name.")


class Listing(Frozen):
    """Which part of a list is wanted."""

    limit: int = Field(default=USUAL, ge=1, le=MOST, description="How many, at most; 50, if left out.")
    cursor: str | None = Field(default=None, max_length=500, description="The `next_cursor` of the page before.")


class MemoryListing(Listing):
    """Which memories are wanted, and which part of their list."""

    kinds: tuple[MemoryType, ...] = Field(default=(), description="Only these kinds.")
    tags: tuple[str, ...] = Field(default=(), description="Only what has all of these labels.")
    since: Moment | None = Field(default=None, description="Only what happened from then on.")
    until: Moment | None = Field(default=None, description="Only what happened before then.")
    as_of: Moment | None = Field(default=None, description="Only what was valid then.")
    session: str | None = Field(default=None, description="Only of this session.")


class AnnotationOf(Frozen):
    """New values for what surrounds a memory."""

    id: str = Field(max_length=MAX_LABEL, description="The id of the memory.")
    changes: Annotation = Field(default=Annotation(), description="What is to be changed.")
    expected_version: int | None = Field(default=None, description="Only if the memory has this version.")


class Forgetting(Frozen):
    """Which memory is to be forgotten."""

    id: str = Field(max_length=MAX_LABEL, description="The id of the memory.")
    expected_version: int | None = Field(default=None, description="Only if the memory has this version.")


class DecisionListing(Listing):
    """Which decisions are wanted."""

    context: str = Field(min_length=1, max_length=LONGEST_QUERY, description="The situation they were taken in.")


class OutcomeListing(Listing):
    """Whose outcomes are wanted."""

    id: str = Field(max_length=MAX_LABEL, description="The id of the decision.")


class SolutionOf(TriedSolution):
    """How a solution of a failure did."""

    name: str = Field(max_length=MAX_LABEL, description="The failure: its id, its name, or the id of a memory of it.")


class EvaluationQuery(Frozen):
    """Which time is to be evaluated."""

    since: Moment | None = Field(default=None, description="Only what happened from then on.")
    until: Moment | None = Field(default=None, description="Only what happened before then.")
    period: Period = Field(default="week", description="One row for each; a week, if left out.")


class CycleIndex(Frozen):
    """Which cycle is meant."""

    index: int = Field(ge=1, le=1_000_000_000, description="The number of the cycle.")


class ResultOf(CycleIndex):
    """What came of a cycle."""

    end: CycleEnd = Field(default=CycleEnd(), description="What the action gave, or what went wrong.")


class ResolutionOf(CycleIndex):
    """What becomes of a cycle without a result."""

    decision: CycleDecision = Field(description="Whether it ends so, or is done again in a new cycle.")


class SnapshotListing(Listing):
    """Whose snapshots are wanted."""

    workspace: str = Field(max_length=200, description="The name of the workspace.")


class DiffQuery(Frozen):
    """Which snapshots are to be compared."""

    workspace: str = Field(max_length=200, description="The name of the workspace.")
    before: str = Field(min_length=1, max_length=100, description="A snapshot's id, or how it begins.")
    after: str = Field(
        default="latest", min_length=1, max_length=100, description="A later one; the newest, if left out."
    )


class RunListing(Listing):
    """Which runs are wanted."""

    workflow: str = Field(default="", max_length=100, description="Only runs of this workflow.")


class RunId(Frozen):
    """Which run is meant."""

    run: str = Field(max_length=200, description="The id of the run.")


class GrantApproval(GrantAgreement):
    """The agreement to a request or an offer."""

    id: str = Field(max_length=MAX_LABEL, description="The id of the grant.")


class GrantListing(Listing):
    """Which grants are wanted."""

    state: GrantState | None = Field(default=None, description="Only those that stand so.")


class UseListing(Listing):
    """The uses of which grant are wanted."""

    id: str = Field(max_length=MAX_LABEL, description="The id of the grant.")


class ExportQuery(Frozen):
    """Which knowledge is to be handed over."""

    domains: tuple[Label, ...] = Field(default=(), max_length=MAX_LIST // 2, description="Only of these domains.")
    tags: tuple[Label, ...] = Field(default=(), max_length=MAX_LIST // 2, description="Only with any of these tags.")
    form: Literal["json", "jsonl"] = Field(
        default="json", description="One document, which it is if left out, or one record a line."
    )


class ImportOptions(Frozen):
    """How a file is to be taken in."""

    format: str | None = Field(
        default=None, max_length=40, description="Which program wrote it, such as mem0; found out, if left out."
    )
    dry_run: bool = Field(default=False, description="Only say what would come in.")
    large: bool = Field(default=False, description="It has very many records, and may take long.")


class GroupChangeOf(GroupChange):
    """Who comes into which group, and who leaves it."""

    name: str = Field(min_length=1, max_length=MAX_NAME, description="The name of the group.")


class AuditListing(Frozen):
    """Which entries of the audit trail are wanted."""

    after: int = Field(default=0, ge=0, le=LAST, description="Only entries with a higher number.")
    limit: int = Field(default=USUAL, ge=1, le=MOST, description="How many, at most; 50, if left out.")
    newest: bool = Field(default=False, description="The last of them instead of the first.")
    grant: str | None = Field(default=None, max_length=MAX_LABEL, description="Only what was done by this grant.")
    since: Moment | None = Field(default=None, description="Only from then on.")


class EventQuery(Frozen):
    """From when on events are wanted, and for how long."""

    after: int | None = Field(
        default=None, ge=0, le=LAST, description="Go on after the event with this number; from now on, if left out."
    )
    seconds: float | None = Field(
        default=None, ge=0, le=86_400, description="End the stream after so long; 0 to hear what there is."
    )
