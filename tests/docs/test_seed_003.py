"""The memory architecture, example by example: four memories that work together, agents, workflows."""

from __future__ import annotations

import statistics
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import engram
from engram.facades import WorkingMemory
from engram.testing import FixedSources
from support.redis_server import redis_url

__all__ = ["redis_url"]

NOON = datetime(2026, 11, 12, 12, tzinfo=UTC)
ASYNC = "What is Python async?"


@pytest.fixture(params=["process", "redis"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "process":
        return ""
    return f"{request.getfixturevalue('redis_url')}?prefix={tmp_path.name}"


def test_working_memory_sets_with_a_time_to_live_and_gets(url: str) -> None:
    memory = WorkingMemory(url)
    memory.set("conversation", {"state": "asking", "turn": 3}, ttl=3600)
    memory.set("calculation", 6 * 7)
    assert memory.get("conversation") == {"state": "asking", "turn": 3}
    assert memory.get("calculation") == 42
    assert memory.get("never set") is None
    memory.set("stale", 1, ttl=0.02)
    time.sleep(0.05)
    assert memory.get("stale") is None
    memory.close()


def test_working_memory_answers_in_less_than_a_millisecond_in_process() -> None:
    memory = WorkingMemory()
    memory.set("state", {"turn": 1})
    taken = []
    for _ in range(200):
        begin = time.perf_counter()
        memory.get("state")
        taken.append(time.perf_counter() - begin)
    assert statistics.median(taken) < 0.001
    memory.close()


def test_the_interaction_of_the_example_is_kept_with_all_columns_of_the_schema(path: Path) -> None:
    with engram.open(path) as brain:
        episodes = brain.agent("tutor").episodic
        receipt = episodes.record(
            "How does Python async work?",
            "Here are three examples.",
            user="bob",
            metadata={"examples": 3},
            tags=["python", "async"],
            at="2026-11-12T15:47",
        )
        found = episodes.get(str(receipt.id))
        assert found is not None
        assert f"{found.timestamp:%H:%M}" == "15:47"
        assert (found.user_id, found.agent_id) == ("bob", "tutor")
        assert (found.input, found.output) == ("How does Python async work?", "Here are three examples.")
        assert (found.metadata, found.tags) == ({"examples": 3}, ("python", "async"))
        assert episodes.outcome(found.id, "success")


def test_show_me_all_times_user_asked_about_python(path: Path) -> None:
    with engram.open(path, sources=FixedSources(NOON)) as brain:
        episodes = brain.agent("tutor").episodic
        for day, user, asked in [
            (1, "bob", "How do I install Python?"),
            (4, "eve", "Is Python fast?"),
            (9, "bob", "What is a decorator in Python?"),
            (10, "bob", "When is lunch?"),
        ]:
            episodes.record(asked, "Well.", user=user, at=NOON.replace(day=day))
        assert [one.at.day for one in episodes.query(asked="Python", user="bob")] == [9, 1]
        assert [one.at.day for one in episodes.query("Python", when="last week")] == [4]


def test_python_async_is_related_to_event_loops_asyncio_and_concurrency() -> None:
    with engram.open(":memory:") as brain:
        known = brain.agent("tutor").semantic
        for other in ("event loops", "asyncio", "concurrency"):
            known.relate("Python async", "related to", other)
        known.learn("asyncio", "is", "a library")
        assert known.neighbours("python async", "related to") == ["event loops", "asyncio", "concurrency"]
        assert set(known.related("Python async", k=4)) >= {"event loops", "asyncio", "concurrency"}
        concept = known.concept("Python async")
        assert concept is not None
        assert len(concept.facts) == 3


def test_when_the_user_says_explain_the_three_step_breakdown_is_offered() -> None:
    with engram.open(":memory:") as brain:
        skills = brain.agent("tutor").procedural
        skills.add(
            """
            name: explain
            description: Explain something in three steps
            triggers: [explain]
            parameters: {topic: {required: true}}
            steps:
              - Say in one sentence what {{ topic }} is.
              - Show {{ topic }} at work.
              - Name one mistake people make with {{ topic }}.
            """
        )
        (best,) = skills.match("please explain Python async")
        assert (best.skill.name, best.by) == ("explain", "phrase")
        assert len(skills.render("explain", {"topic": "Python async"})) == 3


def test_the_four_memories_work_in_concert(url: str, path: Path) -> None:
    sources = FixedSources(NOON, timedelta(seconds=1))
    with engram.open(path, sources=sources, working=url) as brain:
        tutor = brain.agent("tutor")
        tutor.semantic.relate("Python async", "related to", "event loops")
        tutor.procedural.add("name: explain\ndescription: Explain it\ntriggers: [what is]\nsteps: [Say it, Show it]")
        with tutor.working("lesson", capacity_tokens=50) as working:
            working.set("topic", "Python async")
            for number in range(6):
                working.add_message("user", f"{ASYNC} I ask for the {number}th time.", speaker="bob")
            (skill,) = tutor.procedural.match(ASYNC)
            assert tutor.semantic.expand(ASYNC.replace("?", "")) == ["event loops"]
            assert tutor.procedural.used(skill.skill.name, "success", context=ASYNC).ok
        handed = tutor.episodic.query("Python async", user="bob")
        assert len(handed) >= 3
        assert tutor.procedural.skills()[0].attempts == 1
        assert [hit.memory.kind for hit in tutor.recall(ASYNC, kinds="message", k=1)] == ["message"]


def test_agents_are_defined_in_files_and_workflows_run(path: Path, tmp_path: Path) -> None:
    folder = tmp_path / "agents"
    folder.mkdir()
    (folder / "tutor.yaml").write_text("description: explains\ndirectives: [be brief]\n", encoding="utf-8")
    with engram.open(path) as brain:
        (tutor,) = brain.definitions.load(folder)
        assert (tutor.name, tutor.directives) == ("tutor", ("be brief",))
        workflow = "name: lesson\nstages:\n- name: only\n  steps:\n  - name: greet\n    run: greet\n"
        ran = brain.agent("tutor").workflows(steps={"greet": lambda **_: "hello"}).run(workflow)
        assert ran.status == "done"
