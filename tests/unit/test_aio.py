"""The async facade says exactly what the sync one says."""

from __future__ import annotations

import asyncio
import inspect
from pathlib import Path

import pytest

import engram
from engram.agents.cycles import Life
from engram.agents.definitions import Definitions
from engram.agents.workflows.runner import WorkflowEngine
from engram.agents.workspaces.snapshots import Workspaces
from engram.aio import (
    AsyncAgent,
    AsyncAuditTrail,
    AsyncDefinitions,
    AsyncEngram,
    AsyncEpisodic,
    AsyncGrants,
    AsyncKeys,
    AsyncKnowledge,
    AsyncLearning,
    AsyncLife,
    AsyncProcedural,
    AsyncQuarantine,
    AsyncRetention,
    AsyncSemantic,
    AsyncSharedPatterns,
    AsyncSituations,
    AsyncUpkeep,
    AsyncWorkflows,
    AsyncWorking,
    AsyncWorkspaces,
)
from engram.audit import AuditTrail
from engram.engine import AgentHandle, Engram
from engram.learning.service import Learning
from engram.learning.situations.editor import SituationEditor
from engram.memories.episodic import EpisodicMemory
from engram.memories.procedural import ProceduralMemory
from engram.memories.semantic import SemanticMemory
from engram.memories.working import WorkingMemory
from engram.model.agent import AgentDefinition
from engram.recording.quarantine import Quarantine
from engram.retention.policies import Retention
from engram.sharing.api_keys import Keys
from engram.sharing.grants import Grants
from engram.sharing.patterns import SharedPatterns
from engram.transfer.knowledge import Knowledge
from engram.upkeep.maintenance import Upkeep
from support.redis_server import redis_url

__all__ = ["redis_url"]

PAIRS: list[tuple[type, type]] = [
    (Engram, AsyncEngram),
    (AgentHandle, AsyncAgent),
    (Learning, AsyncLearning),
    (SituationEditor, AsyncSituations),
    (SharedPatterns, AsyncSharedPatterns),
    (WorkingMemory, AsyncWorking),
    (EpisodicMemory, AsyncEpisodic),
    (SemanticMemory, AsyncSemantic),
    (ProceduralMemory, AsyncProcedural),
    (Grants, AsyncGrants),
    (Quarantine, AsyncQuarantine),
    (Life, AsyncLife),
    (Workspaces, AsyncWorkspaces),
    (WorkflowEngine, AsyncWorkflows),
    (Definitions, AsyncDefinitions),
    (Knowledge, AsyncKnowledge),
    (Keys, AsyncKeys),
    (AuditTrail, AsyncAuditTrail),
    (Retention, AsyncRetention),
    (Upkeep, AsyncUpkeep),
]
ENGINE_ONLY: dict[type, set[str]] = {  # what the engine itself uses
    Engram: {"near", "embedder", "clean", "ledger"},
    Upkeep: {"database"},
    Learning: {
        "suggest",
        "predict",
        "episodes",
        "evidence",
        "testimony",
        "outcome",
        "outcomes",
        "unlearned",
        "by_former_name",
        "recognise",
        "check",
        "verdict",
        "note",
        "attempts",
        "show_patterns",
    },
}
PARTS_OF_ALL = {"audit", "definitions", "keys", "retention", "upkeep"}
PARTS = {
    *PARTS_OF_ALL,
    "agent",
    "episodic",
    "grants",
    "knowledge",
    "life",
    "procedural",
    "quarantine",
    "semantic",
    "shared_patterns",
    "situations",
    "workflows",
    "working",
    "workspaces",
}
NOT_AWAITED = {"name", "guard", "guarding", *PARTS}  # a name, what stands around awaited calls, what has awaited calls


@pytest.mark.parametrize(("sync", "aio"), PAIRS)
def test_every_public_name_is_there(sync: type, aio: type) -> None:
    assert public(sync) - ENGINE_ONLY.get(sync, set()) == public(aio)


def test_every_part_of_an_agent_has_its_awaited_counterpart(path: Path) -> None:
    brain = engram.open(path)
    alice, awaited = brain.agent("alice"), AsyncEngram(brain).agent("alice")
    parts = [(getattr(alice, name), getattr(awaited, name)) for name in sorted(PARTS - PARTS_OF_ALL - {"agent"})]
    parts += [(getattr(brain, name), getattr(AsyncEngram(brain), name)) for name in sorted(PARTS_OF_ALL)]
    for sync, aio in parts:
        made, facade = (each() if callable(each) else each for each in (sync, aio))
        assert (type(made), type(facade)) in PAIRS
    brain.close()


def public(kind: type) -> set[str]:
    return {name for name in vars(kind) if not name.startswith("_")}


@pytest.mark.parametrize(
    ("aio", "name"),
    [(aio, name) for _, aio in PAIRS for name in sorted(public(aio)) if name not in NOT_AWAITED],
)
def test_every_call_is_awaited(aio: type, name: str) -> None:
    said = vars(aio)[name]
    assert inspect.iscoroutinefunction(said.fget if isinstance(said, property) else said)


@pytest.mark.parametrize(("sync", "aio"), PAIRS)
def test_every_call_runs_the_sync_one_of_its_name(sync: type, aio: type) -> None:
    wrapped = {name: vars(aio)[name].__wrapped__ for name in public(aio) if hasattr(vars(aio)[name], "__wrapped__")}
    assert wrapped == {name: vars(sync)[name] for name in wrapped}


def test_the_calls_work(path: Path) -> None:
    async def life() -> None:
        async with AsyncEngram(engram.open(path)) as brain:
            alice = brain.agent("alice")
            receipts = await asyncio.gather(*(alice.remember(f"note {n}") for n in range(20)))
            assert {receipt.status for receipt in receipts} == {"stored"}
            assert len(await alice.list()) == 20
            hits = await alice.recall("note 7", k=1)
            assert hits[0].memory.text == "note 7"
            await alice.record_decision(context="c", action="a", outcome=1)
            assert (await alice.suggest(context="c")).abstained
            assert (await alice.predict(context="c", action="a")).attempts == 1
            assert (await alice.check(action="a", context="c")).decision == "allow"
            undecided = await alice.record_decision(context="c", action="b")
            assert undecided.id is not None
            assert await alice.outcome(undecided.id, "failure", error="no such file")
            assert [told.quality for told in await alice.outcomes(undecided.id)] == [0]
            assert (await alice.learn_from_failure("no such file", "make it", context="c")).known_solutions
            assert await brain.agents() == ["alice"]

    asyncio.run(life())


@pytest.mark.process
def test_what_was_learned_can_be_awaited(path: Path) -> None:
    async def life() -> None:
        async with AsyncEngram(engram.open(path)) as brain:
            alice, bob = brain.agent("alice"), brain.agent("bob")
            for agent in (alice, bob):
                await agent.record_decision(context="c", action="a", outcome="failure", error="KeyError: name")
            (known,) = await alice.learning.failures()
            assert await alice.learning.failure(known.name) == known
            assert (await alice.learning.tried(known.name, "give it a name")).known_solutions
            (made,) = await alice.learning.generate(known.name, command=["true"])
            assert [check.id for check in await alice.learning.checks()] == [made.id]
            _, ran = await alice.learning.run(made.name, allowed=True, seconds=5)
            assert ran.met
            assert [episode.action for episode in await alice.learning.history()] == ["a"]
            assert (await alice.learning.calibration()).decisions == 0
            assert await alice.learning.harmful() == []
            assert (await alice.learning.stats([bob.learning])).agents == ("alice", "bob")
            assert (await alice.learning.synthesis([bob.learning])).patterns == ()

    asyncio.run(life())


def test_cancelled_calls_neither_block_nor_break_the_memory(path: Path) -> None:
    async def life() -> None:
        async with AsyncEngram(engram.open(path)) as brain:
            alice = brain.agent("alice")
            for number in range(100):
                task = asyncio.create_task(alice.remember(f"note {number}"))
                await asyncio.sleep(0.0005 * (number % 5))
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
            assert (await alice.remember("the last one")).status == "stored"
            assert (await alice.recall("the last one", k=1))[0].memory.text == "the last one"

    asyncio.run(life())


def test_all_memories_of_an_agent_can_be_awaited(path: Path, tmp_path: Path) -> None:
    async def life() -> None:
        async with AsyncEngram(engram.open(path, embedder="hashing", durable=False)) as brain:
            alice = brain.agent("alice")
            asked = await alice.episodic.record("How do I await?", "With await.", user="bob", outcome="success")
            assert [each.id for each in await alice.episodic.query("await")] == [asked.id]
            assert (await alice.semantic.learn("Staging", "runs on", "Ubuntu 24.04")).ok
            answer = await alice.semantic.ask("staging", "runs on")
            assert answer is not None
            assert answer.object == "Ubuntu 24.04"
            await alice.procedural.add("name: explain\ndescription: Explain it\ntriggers: [explain]\nsteps: [Say it]")
            assert [each.skill.name for each in await alice.procedural.match("explain this")] == ["explain"]
            cycle = await alice.life.propose(tool="work")
            assert (await alice.life.result(cycle, output="ok")).complete
            assert [each.status for each in await alice.life.record(cycle, "work is done")] == ["stored"]
            folder = tmp_path / "work"
            folder.mkdir()
            (folder / "a.txt").write_text("one", encoding="utf-8")
            await alice.workspaces.create("work", folder)
            assert (await alice.workspaces.snapshot("work")).files == 1
            ran = await alice.workflows(steps={"greet": lambda **_: "hello"}).run(
                "name: greeting\nstages:\n- name: only\n  steps:\n  - name: greet\n    run: greet\n"
            )
            assert ran.status == "done"
            assert (await brain.definitions.define(AgentDefinition(name="alice", description="tests"))).version == 1

    asyncio.run(life())


@pytest.mark.parametrize("where", ["", "redis"])
def test_working_memory_can_be_awaited(where: str, path: Path, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    url = where and f"{request.getfixturevalue('redis_url')}?prefix={tmp_path.name}"

    async def life() -> None:
        async with AsyncEngram(engram.open(path, durable=False, working=url)) as brain:
            alice = brain.agent("alice")
            async with alice.working("monday", capacity_tokens=40) as working:
                await working.set("task", {"step": 1})
                assert await working.get("task") == {"step": 1}
                for number in range(12):
                    await working.add_message("user", f"Server {number} has {number * 11} GB left.")
                assert 0 < await working.tokens <= 40
                held = [turn.content for turn in await working.messages()]
            written = [each.input for each in await alice.episodic.query(session="monday")][::-1]
            assert len(written) + (len(held) if where else 0) == 12
            assert written == [f"Server {number} has {number * 11} GB left." for number in range(len(written))]

    asyncio.run(life())
