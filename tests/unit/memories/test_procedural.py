"""Skills that are kept, found, used and judged."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

import engram
from engram.engine import AgentHandle, Engram
from engram.errors import Conflict, InvalidInput, NotFound
from engram.memories.procedural import ProceduralMemory
from engram.memories.skills import read_skill
from engram.model import SuccessPattern

EXPLAIN = """
name: explain
description: Explain something in three steps
triggers:
  phrases: [explain]
  examples: [what does this mean, walk me through the event loop]
parameters:
  topic: {type: string, required: true}
  audience: {type: choice, choices: [beginner, expert], default: beginner}
steps:
- Say in one sentence what {{ topic }} is, for {% if audience == "expert" %}an{% else %}a{% endif %} {{ audience }}.
- Show {{ topic }} at work in one small example.
- Name one mistake people make with {{ topic }}, and how to avoid it.
"""
DEPLOY = """
name: deploy
description: Bring a service to production
triggers:
  patterns: ['(?:deploy|release) (?P<service>[a-z-]+)']
  examples: [ship the new build of the shop]
parameters:
  service: {required: true}
steps:
- action: deploy {{ service | quote }}
"""
REVIEW = """
name: review
description: Review a pull request
triggers: {phrases: [review this], examples: [look over my change, is this pull request fine]}
steps: [Read the change and list what is wrong with it.]
"""


@pytest.fixture
def brain() -> Iterator[Engram]:
    with engram.open(":memory:", embedder="hashing") as opened:
        yield opened


@pytest.fixture
def alice(brain: Engram) -> AgentHandle:
    return brain.agent("alice")


@pytest.fixture
def skills(alice: AgentHandle) -> ProceduralMemory:
    return ProceduralMemory(alice)


def pattern(**changes: object) -> SuccessPattern:
    fields: dict[str, object] = {
        "pattern_id": "p1",
        "name": "Migration: roll back {{ first }}",
        "context_signature": "database migration fails",
        "successful_approach": "restore the snapshot",
        "replication_steps": ("stop the writers", "restore {{ snapshot }}", "start the writers"),
        "success_rate": 0.9,
        "interval": (0.7, 0.99),
        "attempts": 12,
        "last_seen": datetime(2026, 1, 1, tzinfo=UTC),
        "episodes": ("e1", "e2"),
    }
    return SuccessPattern.model_validate(fields | changes)


def test_when_the_user_says_explain_the_three_step_breakdown_is_used(skills: ProceduralMemory) -> None:
    skills.add(EXPLAIN)
    skills.add(DEPLOY)
    best = skills.match("Please explain Python async to me")[0]
    assert (best.skill.name, best.by) == ("explain", "phrase")
    assert skills.render("explain", {"topic": "Python async"}) == [
        "Say in one sentence what Python async is, for a beginner.",
        "Show Python async at work in one small example.",
        "Name one mistake people make with Python async, and how to avoid it.",
    ]
    assert skills.used("explain", "success", context="Please explain Python async to me").ok
    assert skills.match("explain decorators")[0].skill.attempts == 1


def test_a_skill_is_a_memory_of_kind_procedure(skills: ProceduralMemory, alice: AgentHandle) -> None:
    added = skills.add(EXPLAIN)
    (memory,) = alice.list(kinds="procedure")
    assert memory.id == added.id
    assert memory.tags == ("skill", "skill:explain")
    assert memory.text.startswith("Skill explain, version 1: Explain something in three steps")
    assert memory.content.model_dump()["steps"][1] == "Show {{ topic }} at work in one small example."
    assert skills.get("explain") == added
    assert added.definition == read_skill(EXPLAIN)


def test_a_changed_skill_is_a_new_version_and_the_old_one_stays_readable(skills: ProceduralMemory) -> None:
    first = skills.add(EXPLAIN)
    assert skills.add(EXPLAIN) == first
    second = skills.add(EXPLAIN.replace("one small example", "two examples"))
    third = skills.add(EXPLAIN)
    assert [one.version for one in skills.history("explain")] == [1, 2, 3]
    assert skills.get("explain") == third
    assert skills.get("explain", 2) == second
    assert "two examples" in skills.render("explain", {"topic": "x"}, version=2)[1]
    assert "one small example" in skills.render("explain", {"topic": "x"})[1]
    assert [one.version for one in skills.skills()] == [3]
    assert [match.skill.version for match in skills.match("walk me through the event loop of this")] == [3]


def test_a_change_of_parameters_alone_is_a_new_version(skills: ProceduralMemory) -> None:
    skills.add(EXPLAIN)
    skills.match("what does the event loop mean")  # what was recalled and is said again is no news, but this is
    assert skills.add(EXPLAIN.replace("default: beginner", "default: expert")).version == 2
    assert skills.get("explain", 1).parameters["audience"].default == "beginner"  # type: ignore[union-attr]


def test_versions_last_and_are_unique_among_writers(tmp_path: Path) -> None:
    with (
        engram.open(tmp_path / "x.db", embedder="hashing") as one,
        engram.open(tmp_path / "x.db", embedder="hashing") as other,
    ):
        mine, theirs = ProceduralMemory(one.agent("alice")), ProceduralMemory(other.agent("alice"))
        mine.add(EXPLAIN)
        theirs._find = lambda name, version=None: None  # type: ignore[method-assign]
        late = theirs.add(EXPLAIN.replace("three", "3"))
        assert late.version == 2
        assert [skill.version for skill in mine.history("explain")] == [1, 2]
    with engram.open(tmp_path / "x.db", embedder="hashing") as again:
        assert [skill.version for skill in ProceduralMemory(again.agent("alice")).history("explain")] == [1, 2]


def test_an_agent_has_only_its_own_skills(brain: Engram, skills: ProceduralMemory) -> None:
    skills.add(EXPLAIN)
    bob = ProceduralMemory(brain.agent("bob"))
    assert bob.skills() == []
    assert bob.match("explain this") == []
    with pytest.raises(NotFound, match="engram skill list"):
        bob.render("explain", {"topic": "x"})


def test_a_phrase_counts_more_than_a_pattern_and_a_pattern_more_than_likeness(skills: ProceduralMemory) -> None:
    for each in (EXPLAIN, DEPLOY, REVIEW):
        skills.add(each)
    found = skills.match("explain how to release shop, and is this pull request fine?")
    assert [(match.skill.name, match.by) for match in found] == [
        ("explain", "phrase"),
        ("deploy", "pattern"),
        ("review", "similarity"),
    ]
    assert found[1].parameters == {"service": "shop"}
    assert sorted((match.score for match in found), reverse=True) == [match.score for match in found]
    assert all(0 <= match.score <= 1 and match.why for match in found)
    assert len(skills.match("explain how to release shop, and is this pull request fine?", k=1)) == 1


@pytest.mark.parametrize(
    ("request_", "name"),
    [
        ("EXPLAIN that!", "explain"),
        ("I want it explained", "explain"),
        ("walk me through the garbage collector", "explain"),
        ("ship the build of the billing service", "deploy"),
        ("could you look over my changes", "review"),
        ("what is for lunch today?", None),
        ("zebra unicorn", None),
        ("explanatory", None),
    ],
)
def test_the_best_skill_is_offered_and_none_if_nothing_fits(
    skills: ProceduralMemory, request_: str, name: str | None
) -> None:
    for each in (EXPLAIN, DEPLOY, REVIEW):
        skills.add(each)
    found = skills.match(request_)
    assert (found[0].skill.name if found else None) == name


def test_what_goes_well_is_preferred(skills: ProceduralMemory) -> None:
    skills.add(EXPLAIN)
    skills.add(EXPLAIN.replace("name: explain", "name: another"))
    assert [match.skill.name for match in skills.match("explain this")] == ["another", "explain"]
    for _ in range(3):
        skills.used("another", "failure")
        skills.used("explain", "success")
    explain, another = skills.match("explain this")
    assert (explain.skill.name, explain.skill.success_rate, explain.skill.attempts) == ("explain", 0.8, 3)
    assert (another.skill.name, another.skill.success_rate) == ("another", 0.2)
    assert "expected to go well 80% of the time" in explain.why


def test_a_skill_that_keeps_failing_gives_way_to_one_that_fits_less(skills: ProceduralMemory) -> None:
    skills.add(EXPLAIN)
    skills.add(DEPLOY)
    for _ in range(20):
        skills.used("explain", "failure")
        skills.used("deploy", "success")
    assert [match.skill.name for match in skills.match("explain how to release shop")] == ["deploy", "explain"]


def test_the_rate_comes_from_decisions_whoever_records_them(skills: ProceduralMemory, alice: AgentHandle) -> None:
    assert skills.add(EXPLAIN).success_rate is None
    receipt = skills.used("explain", context="explain asyncio")
    assert skills.skills()[0].attempts == 0
    assert receipt.id is not None
    alice.outcome(receipt.id, "success")
    alice.record_decision(context="explain threads", action="skill:explain@1", outcome=0.5)
    alice.record_decision(context="explain threads", action="skill:explain@1 quickly", outcome=0)
    (skill,) = skills.skills()
    assert (skill.attempts, skill.success_rate) == (2, (1 + 1.5) / (2 + 2))


def test_another_version_counts_half(skills: ProceduralMemory) -> None:
    skills.add(EXPLAIN)
    for _ in range(4):
        skills.used("explain", "success")
    new = skills.add(EXPLAIN.replace("three", "3"))
    assert (new.attempts, new.success_rate) == (0, (1 + 2) / (2 + 2))
    skills.used("explain", "failure", version=1)
    assert [one.attempts for one in skills.history("explain")] == [5, 0]


def test_the_rate_has_an_interval_that_narrows(skills: ProceduralMemory) -> None:
    assert skills.add(EXPLAIN).interval is None
    widths = []
    for _ in range(3):
        for outcome in ("success", "success", "failure"):
            skills.used("explain", outcome)
        (skill,) = skills.skills()
        assert skill.interval is not None
        assert skill.success_rate is not None
        low, high = skill.interval
        assert 0 < low < skill.success_rate < high < 1
        widths.append(high - low)
    assert widths == sorted(widths, reverse=True)


def test_rates_come_from_what_is_learned_and_not_from_the_whole_history(
    skills: ProceduralMemory, alice: AgentHandle, monkeypatch: pytest.MonkeyPatch
) -> None:
    skills.add(EXPLAIN)
    used = skills.used("explain", "failure")
    skills.used("explain", 0.5)
    assert used.id is not None
    alice.outcome(used.id, "success", correct=True)

    def unread() -> None:
        raise AssertionError("the history was read")

    monkeypatch.setattr(alice.learning, "history", unread)
    (skill,) = skills.skills()
    assert (skill.attempts, skill.success_rate) == (2, (1 + 1.5) / (2 + 2))
    alice.forget(used.id)
    assert skills.skills()[0].attempts == 1


def test_a_success_pattern_becomes_a_skill_with_its_steps(skills: ProceduralMemory, alice: AgentHandle) -> None:
    made = skills.promote(pattern())
    assert made.name == "migration-roll-back-first"
    assert skills.render(made.name) == ["stop the writers", "restore {{ snapshot }}", "start the writers"]
    assert (made.attempts, made.success_rate) == (0, (1 + 4 * 0.9) / (2 + 4))
    assert made.origin is not None
    assert made.origin.pattern_id == "p1"
    memory = alice.get(made.id)
    assert memory is not None
    assert memory.provenance.sources == ("e1", "e2")
    assert skills.promote(pattern(attempts=13)).version == 1
    assert skills.promote(pattern(replication_steps=())).version == 2
    assert skills.render(made.name) == ["restore the snapshot"]
    assert skills.match("the migration of the database fails again")[0].skill.name == made.name


def test_a_pattern_does_not_take_the_name_of_another_skill(skills: ProceduralMemory) -> None:
    skills.add(EXPLAIN)
    with pytest.raises(Conflict, match="give another name"):
        skills.promote(pattern(), name="explain")
    assert skills.promote(pattern(), name="Explain it!").name == "explain-it"
    with pytest.raises(Conflict):
        skills.promote(pattern(pattern_id="p2"), name="explain it")
    with pytest.raises(InvalidInput, match="give another name"):
        skills.promote(pattern(name="???"))


def test_what_an_agent_did_well_can_be_promoted(skills: ProceduralMemory, alice: AgentHandle) -> None:
    for run in range(6):
        for action in ("stop the writers", "restore the snapshot"):
            alice.record_decision(
                context="database migration fails", action=action, outcome="success", session=f"run {run}"
            )
        alice.record_decision(context="database migration fails", action="try again", outcome="failure")
    patterns = alice.learning.synthesis().patterns
    assert patterns
    made = skills.promote(patterns[0])
    assert skills.match("my database migration fails")[0].skill == made
    assert skills.render(made.name)


def test_an_unsafe_skill_is_not_kept(skills: ProceduralMemory, alice: AgentHandle) -> None:
    for bad in (
        "!!python/object/apply:os.system [id]",
        EXPLAIN.replace("{{ audience }}", "{{ audience.__class__ }}"),
        EXPLAIN.replace("{{ audience }}", "{% import 'os' as os %}"),
        EXPLAIN.replace("one small example", "x" * 100_000),
    ):
        with pytest.raises(InvalidInput):
            skills.add(bad)
    assert alice.list() == []


def test_a_secret_in_a_skill_is_refused_and_a_parameter_is_not(skills: ProceduralMemory, alice: AgentHandle) -> None:
    key = "ghp_" + "Ab3" * 12
    with pytest.raises(InvalidInput, match=r"looks like a secret .*; use a parameter") as caught:
        skills.add(DEPLOY.replace("deploy {{", f"deploy --token {key} {{{{"))
    assert key not in str(caught.value)
    assert alice.list() == []
    login = DEPLOY.replace("deploy {{", "login --password={{ password }} {{").replace(
        "  service:", "  password: {}\n  service:"
    )
    skills.add(login)
    assert skills.render("deploy", {"service": "x", "password": "p"}) == ["login --password=p x"]


def test_what_is_too_large_is_refused(skills: ProceduralMemory, alice: AgentHandle) -> None:
    steps = "".join(f"- {'x' * 15_000} {n}\n" for n in range(10))
    with pytest.raises(InvalidInput, match=r"was not stored: .*100,000 are the limit"):
        skills.add(f"name: a\ndescription: b\nsteps:\n{steps}")
    assert alice.list() == []


def test_other_procedures_are_no_skills(skills: ProceduralMemory, alice: AgentHandle) -> None:
    alice.remember("turn it off and on again", kind="procedure", tags=["skill"])
    alice.remember(
        "explain it badly", kind="procedure", tags=["skill"], metadata={"skill": {"definition": {"name": 1}}}
    )
    assert skills.skills() == []
    assert skills.match("explain turning off") == []


def test_a_removed_skill_is_gone_and_can_come_back(skills: ProceduralMemory) -> None:
    skills.add(EXPLAIN)
    skills.add(EXPLAIN.replace("three", "3"))
    skills.match("walk me through the event loop")
    assert skills.remove("explain") == 2
    assert skills.remove("explain") == 0
    assert skills.skills() == []
    assert skills.match("explain this") == []
    assert skills.add(EXPLAIN) == skills.get("explain")


def test_a_skill_that_was_recalled_and_removed_can_come_back(skills: ProceduralMemory) -> None:
    skills.add(EXPLAIN)
    assert skills.match("walk me through the event loop")[0].by == "similarity"
    skills.remove("explain")
    assert skills.add(EXPLAIN) == skills.get("explain")
    assert skills.match("walk me through the event loop")[0].skill.name == "explain"


@pytest.mark.parametrize("request_", ["", "  ", None, "explain \ud800", "explain \0"])
def test_a_request_that_says_nothing_or_cannot_be_kept_is_refused(skills: ProceduralMemory, request_: str) -> None:
    skills.add(EXPLAIN)
    with pytest.raises(InvalidInput, match="the request"):
        skills.match(request_)


def test_what_is_not_there_is_not_found(skills: ProceduralMemory) -> None:
    skills.add(EXPLAIN)
    assert skills.get("other") is None
    assert skills.get("explain", 2) is None
    assert skills.history("") == []
    with pytest.raises(NotFound, match="'explain' in version 2"):
        skills.render("explain", {}, version=2)
    with pytest.raises(NotFound):
        skills.used("other", "success")
