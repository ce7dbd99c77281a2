"""The memory and persistence schema, entity by entity and step by step, as its design document has them."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest
from test_chunks import noise

import engram
from engram.engine import AgentHandle
from engram.errors import Conflict, NotFound
from engram.model import Clean, Memory, MemoryRecord
from engram.model.agent import ActionProposal, ActionResult, Agent, AgentCycle, AgentDefinition
from engram.model.workspace import Workspace, WorkspaceFile
from engram.ports import LONG_TERM, MirrorsVectors, Placed, Query, Scope

SECRET = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"


@pytest.fixture
def site(tmp_path: Path) -> Path:
    made = tmp_path / "site"
    made.mkdir()
    (made / "index.html").write_text("<h1>hello</h1>")
    return made


@pytest.fixture
def alice(brain: engram.Engram) -> AgentHandle:
    return brain.agent("alice")


def told(cycle: AgentCycle) -> ActionResult:
    assert cycle.result is not None
    return cycle.result


# Objectives


def test_the_lifecycle_of_an_agent_can_be_resumed(path: Path) -> None:
    with engram.open(path) as brain:
        life = brain.agent("alice").life
        life.result(life.propose(tool="browse", arguments={"url": "https://example.com"}), output="a page")
        life.propose(tool="write_file", arguments={"name": "notes.txt"})
    with engram.open(path) as brain:
        state = brain.agent("alice").life.resume()
        assert state.last_complete is not None
        assert (state.last_complete.index, state.next_index) == (1, 3)
        assert state.interrupted is not None
        assert state.interrupted.tool == "write_file"
        with pytest.raises(Conflict, match="it may have been carried out"):
            brain.agent("alice").life.propose(tool="write_file", arguments={"name": "notes.txt"})


def test_long_term_search_and_episodic_recall_are_one_recall(alice: AgentHandle) -> None:
    alice.remember("The staging database is PostgreSQL 15")
    cycle = alice.life.propose(tool="migrate", reasoning="upgrade the staging database")
    alice.life.result(cycle, error="the staging database refused the connection")
    found = alice.life.recall("what about the staging database?", k=3)
    assert {each.found for each in found} == {"memory", "recent"}


def test_artifacts_are_tracked_so_that_a_result_can_be_reproduced(alice: AgentHandle, site: Path) -> None:
    alice.workspaces.create("site", site)
    before = alice.workspaces.snapshot("site")
    cycle = alice.life.propose(tool="redesign", workspace="site")
    (site / "index.html").write_text("<h1>new</h1>")
    after = alice.workspaces.snapshot("site")
    done = alice.life.result(cycle, output="ok", artifacts=[f"snapshot:{after.id}"])
    assert alice.workspaces.diff("site", before.id, after.id).of("changed") == ("index.html",)
    (artifact,) = told(done).artifacts
    alice.workspaces.restore("site", before.id)
    alice.workspaces.restore("site", artifact.removeprefix("snapshot:"))
    assert (site / "index.html").read_text() == "<h1>new</h1>"
    assert [one.index for one in alice.life.cycles(workspace="site")] == [cycle.index]


# Data entities


def test_an_agent_has_an_identity_directives_and_overrides(brain: engram.Engram) -> None:
    agent = brain.definitions.define(
        AgentDefinition(name="alice", description="writes", directives=("be brief",), config={"model": "small"})
    )
    assert isinstance(agent, Agent)
    assert (agent.name, agent.directives, agent.config) == ("alice", ("be brief",), {"model": "small"})


def test_a_cycle_a_proposal_and_a_result_are_persisted_json(alice: AgentHandle) -> None:
    cycle = alice.life.propose(
        thoughts={"text": "the page is old", "criticism": "measure first"},
        tool="run",
        arguments={"command": "make", "n": 2},
        reasoning="see what breaks",
        plan=["build", "look"],
    )
    good = alice.life.result(cycle, output={"warnings": 2, "files": ["a"]})
    bad = alice.life.result(alice.life.propose(tool="run"), error={"message": "no rule", "kind": "make", "code": 2})
    for cls, value in ((AgentCycle, good), (ActionProposal, good.proposal), (ActionResult, told(bad))):
        assert cls.model_validate_json(value.model_dump_json()) == value
    assert told(good).output == {"warnings": 2, "files": ["a"]}
    error = told(bad).error
    assert error is not None
    assert (error.message, error.kind, error.details) == ("no rule", "make", {"code": 2})


@pytest.mark.parametrize("kind", ["observation", "reflection", "plan", "result"])
def test_one_store_keeps_observations_reflections_plans_and_results(alice: AgentHandle, kind: str) -> None:
    assert MemoryRecord is Memory
    receipt = alice.remember(f"a {kind} about the bridge", kind=kind)
    (hit,) = alice.recall("the bridge", kinds=kind)
    assert (hit.id, hit.memory.kind) == (receipt.id, kind)


def test_a_workspace_has_files_with_their_metadata(alice: AgentHandle, site: Path) -> None:
    assert isinstance(alice.workspaces.create("site", site), Workspace)
    (site / "index.html").chmod(0o640)
    file = alice.workspaces.files(alice.workspaces.snapshot("site"))["index.html"]
    assert isinstance(file, WorkspaceFile)
    assert (file.kind, file.mode, file.size) == ("file", 0o640, 14)


# Relationships


def test_cycles_are_numbered_in_the_order_of_time_for_each_agent(brain: engram.Engram) -> None:
    lives = [brain.agent(name).life for name in ("alice", "bob")]
    for _ in range(3):
        for life in lives:
            life.result(life.propose(tool="work"))
    for life in lives:
        found = life.cycles()
        assert [cycle.index for cycle in found] == [3, 2, 1]
        assert [cycle.proposal.at for cycle in found] == sorted((c.proposal.at for c in found), reverse=True)
    with pytest.raises(NotFound):
        lives[0].result(lives[1].cycles()[0])


def test_a_cycle_has_one_proposal_and_one_result(alice: AgentHandle) -> None:
    cycle = alice.life.propose(tool="work")
    alice.life.result(cycle, output=1)
    assert alice.life.result(cycle, output=1).complete
    with pytest.raises(Conflict, match="a cycle ends once"):
        alice.life.result(cycle, output=2)


def test_a_memory_may_belong_to_a_cycle(alice: AgentHandle) -> None:
    alice.remember("The bridge is closed on Sundays")
    cycle = alice.life.propose(tool="cross")
    alice.life.record(cycle, "the ferry takes an hour")
    found = {each.hit.memory.text: each.cycle for each in alice.life.recall("bridge ferry", recent=0) if each.hit}
    assert found == {"The bridge is closed on Sundays": None, "the ferry takes an hour": cycle}


def test_a_memory_has_embeddings_in_several_namespaces(alice: AgentHandle, brain: engram.Engram) -> None:
    id = str(alice.remember("The bridge is closed on Sundays").id)
    (known,) = alice.indexes(id)
    assert known.namespace == LONG_TERM
    assert isinstance(brain.store, MirrorsVectors)
    vector = brain.embedder.embed([Clean("bridge")])[0]
    brain.store.place([(Scope("alice"), id, Placed("short-term", brain.embedder.identity, vector))])
    assert {index.namespace for index in alice.indexes(id)} == {LONG_TERM, "short-term"}
    near = Query(near=Placed("short-term", brain.embedder.identity, vector), limit=3)
    assert [match.id for match in brain.store.search(Scope("alice"), near)] == [id]


def test_an_agent_has_several_workspaces_and_each_has_files(alice: AgentHandle, tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a").write_text(name)
        (tmp_path / name / "b").write_text("the same")
        alice.workspaces.create(name, tmp_path / name)
    assert [workspace.name for workspace in alice.workspaces.list()] == ["one", "two"]
    files = [alice.workspaces.files(alice.workspaces.snapshot(name)) for name in ("one", "two")]
    assert [sorted(each) for each in files] == [["a", "b"], ["a", "b"]]
    assert files[0]["b"].hash == files[1]["b"].hash != files[0]["a"].hash


# The memory workflow


def test_the_four_steps_of_the_memory_workflow(alice: AgentHandle) -> None:
    life = alice.life
    cycle = life.propose(thoughts="the build is red", tool="run_tests", workspace="site")
    cycle = life.result(cycle, output={"failed": ["test_clock"]}, artifacts=["report.xml"])
    (receipt,) = life.record(cycle, "test_clock fails around midnight")
    assert alice.indexes(str(receipt.id))
    other = life.result(life.propose(tool="deploy"), output="deployed to staging")
    found = life.recall("when does test_clock fail?", k=2)
    assert found[0].hit is not None
    assert (found[0].hit.id, found[0].cycle) == (receipt.id, cycle)
    assert (found[1].found, found[1].cycle) == ("recent", other)


# The vector store


def test_embeddings_are_mirrored_in_the_database_and_move_with_it(path: Path, tmp_path: Path) -> None:
    with engram.open(path) as brain:
        id = str(brain.agent("alice").remember("The bridge is closed on Sundays").id)
    (tmp_path / "copy.db").write_bytes(path.read_bytes())
    with engram.open(tmp_path / "copy.db") as brain:
        (hit,) = brain.agent("alice").recall("bridge closed", k=1)
        assert hit.id == id
        assert hit.why["found_by"] == "both"
        assert brain.agent("alice").indexes(id)


# Migration notes


def test_cycles_and_namespaces_are_found_by_an_index(path: Path) -> None:
    with engram.open(path) as brain:
        life = brain.agent("alice").life
        life.result(life.propose(tool="work"))
        brain.agent("alice").remember("The bridge is closed")
    with sqlite3.connect(path) as database:
        for question in (
            "SELECT * FROM events WHERE agent = 'alice' AND subject = 'cycle:1'",
            "SELECT * FROM memory_index WHERE agent = 'alice' AND namespace = 'long-term' AND embedder = 'x'",
        ):
            plan = " ".join(row[3] for row in database.execute(f"EXPLAIN QUERY PLAN {question}"))
            assert "USING INDEX" in plan
            assert "SCAN" not in plan
    database.close()


# Open questions


def test_a_snapshot_of_what_did_not_change_stores_nothing(alice: AgentHandle, site: Path) -> None:
    (site / "large.bin").write_bytes(b"\x00" + noise(2_000_000))
    alice.workspaces.create("site", site)
    assert alice.workspaces.snapshot("site").stored > 2_000_000
    again = alice.workspaces.snapshot("site")
    assert (again.fresh, again.stored) == (False, 0)
    data = bytearray((site / "large.bin").read_bytes())
    data[1_000_000:1_000_000] = b"an insertion"
    (site / "large.bin").write_bytes(data)
    assert alice.workspaces.snapshot("site").stored < 600_000


def test_secrets_get_neither_into_cycles_nor_into_snapshots_of_text(alice: AgentHandle, site: Path) -> None:
    cycle = alice.life.propose(tool="push", arguments={"token": SECRET})
    alice.life.result(cycle, error=f"denied for {SECRET}")
    found = alice.life.cycle(1)
    assert found is not None
    assert SECRET not in found.model_dump_json()
    assert found.proposal.redacted
    (site / ".env").write_text(f"TOKEN={SECRET}")
    (site / "program.bin").write_bytes(b"\x7fELF\x00" + SECRET.encode())
    alice.workspaces.create("site", site)
    taken = alice.workspaces.snapshot("site")
    assert [one.path for one in taken.skipped] == [".env"]
    assert "it holds a secret" in taken.skipped[0].reason
    assert "program.bin" in alice.workspaces.files(taken)  # what is no text is kept as it is, and not looked into
    assert SECRET not in json.dumps([one.model_dump(mode="json") for one in alice.workspaces.snapshots("site")])


def test_what_is_not_needed_any_more_goes(alice: AgentHandle, site: Path) -> None:
    life = alice.life
    life.result(life.propose(tool="work"), output="a secret plan")
    assert life.forget(1).forgotten
    assert life.cycles() == []
    alice.workspaces.create("site", site)
    alice.workspaces.snapshot("site")
    (site / "index.html").write_text("<h1>new</h1>")
    alice.workspaces.snapshot("site")
    assert len(alice.workspaces.prune(keep=1).snapshots) == 1
    assert alice.workspaces.forget("site").objects == 1
