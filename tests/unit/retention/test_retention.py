"""What a policy says goes by itself; what is pinned or held stays; and a run says how much, never what."""

from __future__ import annotations

import json
import os
import signal
import time
import warnings
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import engram
from engram.cli.invocation import Invocation
from engram.cli.retention import command
from engram.clock import Sources
from engram.engine import AgentHandle, Engram
from engram.errors import Conflict, InvalidInput, NotAllowed, NotFound
from engram.memories.forgetting_curve import ForgettingLimits
from engram.model.retention import RetentionReport
from engram.retention import archive
from engram.retention.policies import HELD, IS_PINNED, NEEDED, Retention, outcome_of
from support.command_line import Run, value

START = datetime(2026, 3, 2, 9, tzinfo=UTC)


class Clock(Sources):
    """A clock that moves on by a second at every look."""

    def __init__(self) -> None:
        super().__init__()
        self.at = START

    def now(self) -> datetime:
        self.at += timedelta(seconds=1)
        return self.at


@pytest.fixture(params=["file", "memory"])
def brain(request: pytest.FixtureRequest, path: Path) -> Iterator[Engram]:
    where: Path | str = path if request.param == "file" else ":memory:"
    with engram.open(where, embedder="hashing", durable=False, sources=Clock()) as opened:
        yield opened


@pytest.fixture
def alice(brain: Engram) -> AgentHandle:
    return brain.agent("alice")


@pytest.fixture
def retention(brain: Engram) -> Retention:
    return brain.retention


def later(brain: Engram, days: float) -> None:
    brain.sources.at += timedelta(days=days)  # type: ignore[attr-defined]


def counts(report: RetentionReport) -> dict[str, int]:
    return {f"{each.policy} {each.agent}": each.memories for each in report.gone}


def texts(agent: AgentHandle) -> set[str]:
    return {memory.text for memory in agent.list(limit=1000)}


def test_by_age(brain: Engram, alice: AgentHandle, retention: Retention) -> None:
    alice.remember("old")
    later(brain, 100)
    alice.remember("new", at=START - timedelta(days=1000))
    retention.set("a quarter", older_than=timedelta(days=90), action="forget")
    assert counts(retention.run(dry_run=True)) == {"a quarter alice": 1}
    assert len(texts(alice)) == 2
    assert counts(retention.run()) == {"a quarter alice": 1}
    assert texts(alice) == {"new"}
    assert retention.run().gone == ()


def test_by_kind_and_tag(alice: AgentHandle, retention: Retention) -> None:
    alice.remember("a", kind="plan", tags=["scratch", "x"])
    alice.remember("b", kind="plan")
    alice.remember("c", kind="result", tags=["scratch"])
    retention.set("plans", kinds=["plan"], tags=["scratch"], action="forget")
    assert counts(retention.run()) == {"plans alice": 1}
    assert texts(alice) == {"b", "c"}


def test_by_strength(brain: Engram, alice: AgentHandle, retention: Retention) -> None:
    alice.remember("weak", importance=0.05)
    alice.remember("strong", importance=0.9)
    later(brain, 30)
    retention.set("faded", weaker_than=0.05, action="forget")
    assert counts(retention.run()) == {"faded alice": 1}
    assert texts(alice) == {"strong"}


def test_by_outcome(alice: AgentHandle, retention: Retention) -> None:
    for outcome in ("success", "failure", "partial", None):
        alice.record_decision(context="c", action=f"try {outcome}", outcome=outcome)
    told = alice.record_decision(context="c", action="tell later")
    alice.outcome(str(told.id), "failure")
    alice.learn_from_failure("Error: no")
    alice.episodic.record("in", "out", outcome="failure")
    alice.remember("nothing was told")
    retention.set("failures", outcome="failure", action="forget")
    assert counts(retention.run()) == {"failures alice": 4}
    assert [outcome_of(memory) for memory in alice.list()] == [None, None, "partial", "success"]
    assert alice.learning.failures() == []


def test_only_of_the_agent_that_it_names(brain: Engram, alice: AgentHandle, retention: Retention) -> None:
    bob = brain.agent("bob")
    for agent in (alice, bob):
        agent.remember("x", kind="plan")
    retention.set("plans", kinds=["plan"], agent="bob", action="forget")
    assert counts(retention.run(agents=["alice"])) == {}
    assert counts(retention.run()) == {"plans bob": 1}
    assert (len(texts(alice)), len(texts(bob))) == (1, 0)


def test_a_policy_is_replaced_by_one_of_its_name_and_given_up(retention: Retention) -> None:
    retention.set("p", kinds=["plan"], action="forget")
    retention.set("q", tags=["x"], action="archive")
    changed = retention.set("p", outcome="success", action="archive")
    assert [policy.name for policy in retention.policies()] == ["p", "q"]
    assert retention.policies()[0] == changed
    retention.remove("p")
    assert [policy.name for policy in retention.policies()] == ["q"]
    with pytest.raises(NotFound):
        retention.remove("p")


@pytest.mark.parametrize(
    "fields",
    [
        {"action": "forget"},
        {"action": "burn", "tags": ["x"]},
        {"action": "forget", "kinds": ["thing"]},
        {"action": "forget", "older_than": timedelta(days=-1)},
        {"action": "forget", "weaker_than": 2},
        {"action": "forget", "tags": ["x"], "nonsense": 1},
    ],
)
def test_a_policy_that_says_nothing_is_refused(retention: Retention, fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        retention.set("p", **fields)
    with pytest.raises(InvalidInput):
        retention.set(" ", tags=["x"], action="forget")
    with pytest.raises(InvalidInput):
        retention.hold("because")
    with pytest.raises(InvalidInput):
        retention.hold(" ", agent="alice")


def test_what_is_pinned_or_held_stays_and_so_does_what_it_rests_on(alice: AgentHandle, retention: Retention) -> None:
    source = str(alice.remember("source", kind="plan").id)
    alice.remember("derived", sources=[source], tags=["pinned"])
    alice.remember("dear", kind="plan", importance=1.0)
    alice.remember("in court", kind="plan", tags=["legal"])
    alice.remember("gone", kind="plan")
    hold = retention.hold("lawsuit", tags=["legal"])
    retention.set("plans", kinds=["plan"], action="forget")
    would = retention.run(dry_run=True)
    done = retention.run()
    assert (counts(would), dict(would.kept)) == (counts(done), dict(done.kept))
    assert dict(done.kept) == {HELD: 1, IS_PINNED: 1, NEEDED: 1}
    assert texts(alice) == {"source", "derived", "dear", "in court"}
    assert [each.id for each in retention.holds()] == [hold.id]
    retention.release(hold.id)
    assert retention.release(hold.id).released_at is not None
    assert counts(retention.run()) == {"plans alice": 1}
    assert retention.holds() == []


def test_what_faded_is_held_too(brain: Engram, alice: AgentHandle, retention: Retention, tmp_path: Path) -> None:
    alice.remember("A bus was late", importance=0.01)
    later(brain, 900)
    hold = retention.hold("lawsuit", agent="alice")
    found = brain.upkeep.forget(["alice"], tmp_path / "a.gz", ForgettingLimits(below=0.5))
    assert (found.gone, dict(found.kept)) == ((), {"held": 1})
    with pytest.raises(NotAllowed, match="lawsuit"):
        alice.forget(alice.list()[0].id)
    retention.release(hold.id)
    assert alice.forget(alice.list()[0].id).forgotten


def test_a_report_has_numbers_and_nothing_of_what_was_said(alice: AgentHandle, retention: Retention) -> None:
    id = str(alice.remember("The zqcanary sings", kind="plan").id)
    alice.remember("It sings about zqcanary", sources=[id])
    retention.set("plans", kinds=["plan"], action="forget")
    report = retention.run()
    assert "zqcanary" not in report.model_dump_json()
    (gone,) = report.gone
    assert (gone.memories, gone.removed["memories"], gone.removed["derived"]) == (1, 1, 1)


def test_what_is_archived_comes_back_with_what_was_learned_from_it(
    brain: Engram, alice: AgentHandle, retention: Retention, tmp_path: Path
) -> None:
    alice.record_decision(context="deploy", action="push", outcome="failure", error="Error: refused by the host")
    alice.remember("stays")
    before, file = alice.list(), tmp_path / "a.jsonl.gz"
    patterns = alice.learning.failures()
    retention.set("decisions", kinds=["decision"], action="archive")
    retention.set("again", kinds=["decision"], action="archive")
    with pytest.raises(InvalidInput, match="give a file"):
        retention.run()
    assert retention.run(tmp_path / "x.gz", dry_run=True).archive is None
    report = retention.run(file)
    assert (counts(report), report.archive) == ({"decisions alice": 1}, str(file))
    assert (texts(alice), alice.learning.failures()) == ({"stays"}, [])
    with pytest.raises(Conflict):
        retention.run(file)
    assert brain.upkeep.restore(file) == 1
    assert sorted(memory.text for memory in alice.list()) == sorted(memory.text for memory in before)
    assert [each.name for each in alice.learning.failures()] == [each.name for each in patterns]
    assert len(archive.read(file)) == 1


@pytest.mark.process
def test_a_run_that_is_killed_goes_on_where_it_was(path: Path) -> None:
    with engram.open(path, embedder="hashing", durable=False) as brain:
        brain.agent("alice").remember([f"plan {number}" for number in range(300)], kind="plan")
        brain.agent("alice").remember([f"note {number}" for number in range(20)])
        brain.retention.set("plans", kinds=["plan"], action="forget")
    for seconds in (0.05, 0.15, 0.3, 0.5):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # this process may have threads; none has our locks
            child = os.fork()
        if child == 0:  # pragma: no cover - it is killed
            try:
                with engram.open(path, embedder="hashing", durable=False) as brain:
                    brain.retention.run()
            finally:
                os._exit(0)
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    with engram.open(path, embedder="hashing", durable=False) as brain:
        brain.retention.run()
        alice = brain.agent("alice")
        assert {memory.kind for memory in alice.list(limit=1000)} == {"observation"}
        assert len(alice.list(limit=1000)) == 20
        assert brain.store.check() == []  # type: ignore[attr-defined]


# On the command line -----------------------------------------------------------------------------------


def do(path: Path, *line: str, code: int = 0) -> Any:
    result = CliRunner().invoke(command, [*line, "--json"], obj=Invocation(db=str(path)))
    assert result.exit_code == code, (result.output, result.exception)
    return json.loads(result.stdout) if code == 0 else None


def said(path: Path, *line: str) -> str:
    result = CliRunner().invoke(command, line, obj=Invocation(db=str(path)))
    assert result.exit_code == 0, (result.output, result.exception)
    return result.stdout


def test_the_commands(run: Run, path: Path) -> None:
    run("memory add 'a plan' --kind plan --agent alice")
    run("memory add 'another plan' --kind plan --agent alice --tag legal")
    assert said(path, "list") == "No policies.\n"
    assert said(path, "holds") == "No legal holds.\n"
    told = said(path, "set", "plans", "--kind", "plan", "--action", "forget")
    assert told == "Set plans: plan.\n"
    do(path, "set", "old", "--older-than", "36h", "--weaker-than", "0.2", "--outcome", "failure", "--action", "archive")
    assert [each["name"] for each in do(path, "list")] == ["plans", "old"]
    assert "memories, older than 36h, weaker than 0.2, with outcome failure" in said(path, "list")
    hold = do(path, "hold", "lawsuit", "--tag", "legal", "--agent", "alice")
    assert "tag legal of alice" in said(path, "holds")
    assert said(path, "run", "--dry-run") == "Would forget 1 memory of alice by plans.\n  Kept 1 memory: held\n"
    assert said(path, "run", "--agent", "bob") == "No memory meets the conditions of a policy.\n"
    assert do(path, "run")["gone"][0]["memories"] == 1
    (kept,) = value(run("memory list --json"))
    assert "lawsuit" in run(f"memory forget {kept['id']} --yes", code=4).output
    assert "lawsuit" in run("agent erase alice --yes", code=4).output
    assert said(path, "release", hold["id"]) == f"Released hold {hold['id']} on tag legal of alice.\n"
    assert said(path, "remove", "old") == "Removed old.\n"
    found = value(run("upkeep forget --json"))
    assert found["retention"]["gone"][0]["memories"] == 1
    assert "No memory meets the conditions" in run("upkeep forget").stdout


def test_an_agent_is_erased_by_its_name(run: Run) -> None:
    run("memory add 'a plan' --kind plan --agent alice")
    run("memory add 'a plan' --kind plan --agent bob")
    run("agent erase alice", code=2)
    run("agent erase nobody --yes", code=3)
    assert run("agent erase alice --yes").stdout.startswith("Erased alice:\n")
    assert [each["agent"] for each in value(run("memory list --json"))] == ["bob"]
    assert value(run("agent erase bob --yes --json"))["removed"]["memories"] == 1


def test_a_dry_run_says_what_the_run_does(
    brain: Engram, alice: AgentHandle, retention: Retention, tmp_path: Path
) -> None:
    kept = [str(alice.remember(f"Note {n} of the vault", tags=["chatter"]).id) for n in range(250)]
    for id in kept:
        alice.remember(f"Concluded from {id}", tags=["chatter", "drawn"], sources=[id])
    alice.remember("Archived first", tags=["drawn", "old"])
    retention.set("archived", tags=["drawn"], action="archive")
    retention.set("chat", tags=["chatter"], kinds=["observation"], action="forget")
    foreseen = retention.run(dry_run=True)
    done = retention.run(tmp_path / "archive.jsonl.gz")
    told = [(each.policy, each.memories, each.removed.get("derived", 0)) for each in foreseen.gone]
    assert told == [(each.policy, each.memories, each.removed.get("derived", 0)) for each in done.gone]


def test_a_dry_run_says_what_would_go_along(brain: Engram, alice: AgentHandle, retention: Retention) -> None:
    id = str(alice.remember("The vault opens with a brass key", tags=["chatter"]).id)
    alice.remember("So we need the brass key on Monday", sources=[id])
    alice.grants.share("bob", tags=["chatter"])
    brain.agent("bob").knowledge.merge("alice")
    retention.set("chat", tags=["chatter"], action="forget")
    (foreseen,) = retention.run(dry_run=True).gone
    assert (foreseen.memories, foreseen.removed) == (1, {"derived": 1, "copies": 1})
    (done,) = retention.run().gone
    assert {name: done.removed[name] for name in foreseen.removed} == foreseen.removed
