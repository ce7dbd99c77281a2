"""What agents do: cycles, workspaces, workflows."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query

from engram.api import paging
from engram.errors import NotFound
from engram.model import AgentCycle, AgentState, ExecutionResult, RunSummary, Snapshot, Workspace, WorkspaceDiff
from engram.model.wire import CycleDecision, CycleEnd, CycleError, NewCycle, Page
from engram.server.rest.auth import Reader, Writer
from engram.server.rest.routes.params import ONCE, Cursor, Limit

router = APIRouter(prefix="/v1", tags=["life"])
Index = Annotated[int, Path(ge=1, le=1_000_000_000, description="The number of the cycle.")]
Name = Annotated[str, Path(max_length=200, description="The name of the workspace.")]
RUNS = 1000


@router.get("/cycles")
def list_cycles(agent: Reader, limit: Limit = paging.USUAL, cursor: Cursor = None) -> Page[AgentCycle]:
    """The cycles of an agent, newest first."""
    which = ("cycles", agent.name)
    before = paging.read(cursor, 1, *which)[0] if cursor is not None else None
    found = agent.life.cycles(limit, before=before)
    last = found[-1].index if found else 1
    return Page(items=tuple(found), next_cursor=paging.write([last], *which) if last > 1 else None)


@router.get("/cycles/state")
def get_state(agent: Reader) -> AgentState:
    """Where an agent stands: what it completed last, and what it was in the middle of."""
    return agent.life.resume()


@router.get("/cycles/{index}")
def get_cycle(agent: Reader, index: Index) -> AgentCycle:
    """One cycle."""
    found = agent.life.cycle(index)
    if found is None:
        raise NotFound("there is no such cycle; `GET /v1/cycles` lists what there is")
    return found


@router.post("/cycles", status_code=201, dependencies=[ONCE])
def propose(agent: Writer, proposal: NewCycle) -> AgentCycle:
    """Begin a cycle: what is about to be done is kept, and may then be done."""
    return agent.life.propose(**proposal.model_dump())


@router.post("/cycles/{index}/result", dependencies=[ONCE])
def tell_result(agent: Writer, index: Index, end: CycleEnd) -> AgentCycle:
    """Complete a cycle with what came of it; again with the same is harmless."""
    error = end.error.model_dump() if isinstance(end.error, CycleError) else end.error
    return agent.life.result(index, output=end.output, error=error, artifacts=end.artifacts, learn=end.learn)


@router.post("/cycles/{index}/resolution", dependencies=[ONCE])
def resolve(agent: Writer, index: Index, decision: CycleDecision) -> AgentCycle:
    """Decide about a cycle without a result: it is abandoned, or done again in a new one, which comes back."""
    return agent.life.resolve(index, decision.how, reason=decision.reason)


@router.get("/workspaces")
def list_workspaces(agent: Reader, limit: Limit = paging.USUAL, cursor: Cursor = None) -> Page[Workspace]:
    """The folders that are tracked, the oldest first."""
    return paging.slice_of(agent.workspaces.list(), limit, cursor, "workspaces", agent.name)


@router.get("/workspaces/{name}/snapshots")
def list_snapshots(agent: Reader, name: Name, limit: Limit = paging.USUAL, cursor: Cursor = None) -> Page[Snapshot]:
    """The snapshots of a workspace, the oldest first."""
    return paging.slice_of(agent.workspaces.snapshots(name), limit, cursor, "snapshots", agent.name, name)


@router.get("/workspaces/{name}/diff")
def diff(
    agent: Reader,
    name: Name,
    before: Annotated[str, Query(min_length=1, max_length=100, description="A snapshot's id, or how it begins.")],
    after: Annotated[
        str, Query(min_length=1, max_length=100, description="A later one; the newest, if left out.")
    ] = "latest",
) -> WorkspaceDiff:
    """What changed from one snapshot to another."""
    return agent.workspaces.diff(name, before, after)


@router.get("/workflows/runs")
def list_runs(
    agent: Reader,
    workflow: Annotated[str, Query(max_length=100, description="Only runs of this workflow.")] = "",
    limit: Limit = paging.USUAL,
    cursor: Cursor = None,
) -> Page[RunSummary]:
    """The runs of workflows, newest first."""
    found = agent.workflows().runs(limit=RUNS, workflow=workflow)
    return paging.slice_of(found, limit, cursor, "runs", agent.name, workflow)


@router.get("/workflows/runs/{run}")
def get_run(
    agent: Reader, run: Annotated[str, Path(max_length=200, description="The id of the run.")]
) -> ExecutionResult:
    """How far a run has come: its steps, and what the memory knows about those that failed."""
    return agent.workflows().status(run)
