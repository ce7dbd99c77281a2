"""The async facade says exactly what the sync one says."""

from __future__ import annotations

import asyncio
import inspect
from pathlib import Path

import pytest

import engram
from engram.aio import AsyncAgent, AsyncEngram, AsyncLearning
from engram.engine import AgentHandle, Engram
from engram.learn.learning import Learning

PAIRS = [(Engram, AsyncEngram), (AgentHandle, AsyncAgent), (Learning, AsyncLearning)]
SYNC_ONLY = {  # what the engine itself uses
    Engram: {"embed", "near", "similar", "embedder", "places", "clean", "definitions"},
    AgentHandle: {"episodic", "semantic", "procedural", "life", "workspaces", "workflows"},
    Learning: {
        "suggest",
        "predict",
        "episodes",
        "outcome",
        "outcomes",
        "unlearned",
        "recognise",
        "check",
        "up_to_date",
    },
}
NOT_AWAITED = {"name", "guard", "guarding"}  # a name, and what stands around calls and blocks that are awaited


@pytest.mark.parametrize(("sync", "aio"), PAIRS)
def test_every_public_name_is_there(sync: type, aio: type) -> None:
    assert {name for name in vars(sync) if not name.startswith("_")} - SYNC_ONLY[sync] == {
        name for name in vars(aio) if not name.startswith("_")
    }


@pytest.mark.parametrize(
    ("aio", "name"),
    [
        (aio, name)
        for aio in (AsyncAgent, AsyncLearning)
        for name in vars(aio)
        if not name.startswith("_") and name not in NOT_AWAITED
    ],
)
def test_every_call_is_awaited(aio: type, name: str) -> None:
    assert inspect.iscoroutinefunction(getattr(aio, name))


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
