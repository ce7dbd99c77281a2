from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engram.engine import AgentHandle, Engram
from engram.learning.failures.recognizer import FailureEvent, PatternRecognizer
from engram.learning.prevention.verdicts import SETTINGS, check
from engram.model import Verdict

START = datetime(2026, 1, 1, tzinfo=UTC)
TIMEOUT = "TimeoutError: connect to 10.0.0.7:5432 timed out after 30s"


class Story:
    """Events a minute apart, folded as they come."""

    def __init__(self) -> None:
        self.known = PatternRecognizer()
        self.now = START
        self.number = 0

    def tell(self, kind: Any, **fields: Any) -> str:
        self.now += timedelta(minutes=1)
        self.number += 1
        self.known.fold(FailureEvent(kind, f"e{self.number}", self.now, **{"agent": "alice", **fields}))
        return f"e{self.number}"

    def took(self, action: str, context: str, *qualities: float, **fields: Any) -> None:
        for quality in qualities:
            self.tell("decision", action=action, context=context, quality=quality, **fields)

    def check(self, action: str, context: str = "", later: timedelta = timedelta(), **fields: Any) -> Verdict:
        return check(self.known, action, context, now=self.now + later, **fields)

    def refuse(self, action: str, context: str) -> Verdict:
        verdict = self.check(action, context)
        self.tell("checked", action=action, context=context, verdict=verdict.decision, checks=verdict.checks)
        return verdict


def test_what_is_not_known_is_allowed_with_empty_lists() -> None:
    story = Story()
    story.tell("failure", error=TIMEOUT, action="make release", context="version 2")
    for action in ("npm install", "", "rm -rf /", "release"):
        verdict = story.check(action, "version 2")
        assert (verdict.decision, verdict.failures, verdict.instead, verdict.checks) == ("allow", (), (), ())
        assert verdict.confidence == 0


def test_a_failure_learnt_once_warns_of_the_very_same() -> None:
    story = Story()
    id = story.tell("failure", error=TIMEOUT, action="npm install", context="CI build", solution="clear the npm cache")
    verdict = story.check("npm install", "CI build")
    assert verdict.decision == "warn"
    assert [(one.failures, one.similarity, one.episodes) for one in verdict.failures] == [(1, 1.0, (id,))]
    assert [(one.kind, one.text) for one in verdict.instead] == [("solution", "clear the npm cache")]
    assert len(verdict.checks) == 1
    assert story.check("npm test", "CI build").decision == "allow"
    assert story.check("npm install", "writing a poem about whales at night").decision == "allow"


def test_a_decision_that_failed_warns_too_and_says_what_worked_there() -> None:
    story = Story()
    story.took("increase-timeout", "api-auth-timeout", 0.0)
    story.took("retry-with-exponential-backoff", "api-auth-timeout", 1.0, 1.0, 1.0)
    verdict = story.check("increase-timeout", "api-auth-timeout")
    assert verdict.decision == "warn"
    assert [(one.kind, one.text) for one in verdict.instead] == [("action", "retry-with-exponential-backoff")]
    assert verdict.instead[0].attempts == 3
    assert story.check("retry-with-exponential-backoff", "api-auth-timeout").decision == "allow"


def test_one_warning_becomes_a_block_when_it_fails_again_and_again() -> None:
    story, decisions, sure = Story(), [], []
    for _ in range(4):
        story.took("npm install", "CI build", 0.0, error=TIMEOUT)
        decisions.append(story.check("npm install", "CI build").decision)
        sure.append(story.check("npm install", "CI build").confidence)
    assert decisions == ["warn", "warn", "block", "block"]
    assert sure == sorted(sure)


def test_a_success_after_failures_lifts_the_block_and_more_lift_the_warning() -> None:
    story = Story()
    story.took("npm install", "CI build", 0.0, 0.0, 0.0, 0.0, 0.0)
    assert story.check("npm install", "CI build").decision == "block"
    story.took("npm install", "CI build", 1.0)
    assert story.check("npm install", "CI build").decision != "block"
    story.took("npm install", "CI build", 1.0, 1.0)
    assert story.check("npm install", "CI build").decision == "allow"


def test_what_worked_many_times_is_allowed_after_one_failure_and_not_after_several() -> None:
    story = Story()
    story.took("npm install", "CI build", *[1.0] * 20)
    story.took("npm install", "CI build", 0.0)
    assert story.check("npm install", "CI build").decision == "allow"
    story.took("npm install", "CI build", 0.0, 0.0)
    assert story.check("npm install", "CI build").decision != "allow"
    story.took("npm install", "CI build", 0.0, 0.0, 0.0)
    assert story.check("npm install", "CI build").decision == "block"


def test_old_failures_are_forgiven() -> None:
    story = Story()
    story.took("npm install", "CI build", 0.0, 0.0, 0.0)
    decisions = [story.check("npm install", "CI build", timedelta(days=days)).decision for days in (0, 100, 2000)]
    assert decisions == ["block", "warn", "allow"]


def test_a_failure_with_one_value_does_not_condemn_the_others() -> None:
    story = Story()
    missing, there = "read_channel(name='External_0')", "read_channel(name='general')"
    for _ in range(3):
        story.took(missing, "find the notes", 0.0, error="ValueError: channel External_0 does not exist")
        story.took(there, "find the notes", 1.0, 1.0)
    assert story.check(missing, "find the notes").decision == "block"
    assert story.check(there, "find the notes").decision == "allow"


def test_a_similar_context_counts_and_another_does_not() -> None:
    story = Story()
    story.took("kubectl apply -f api.yaml", "deploy the billing api to staging", 0.0, 0.0, 0.0, 0.0)
    again = story.check("kubectl apply -f api.yaml", "deploy the billing api to staging quickly")
    assert again.decision != "allow"
    assert again.failures[0].similarity < 1
    assert story.check("kubectl apply -f api.yaml", "restore a backup on a laptop").decision == "allow"


def test_a_variant_of_an_action_is_blocked_with_it_and_what_is_merely_near_is_allowed() -> None:
    story = Story()
    story.took("npm install", "CI build", 0.0, 0.0, 0.0, error=TIMEOUT)
    variants = ("npm i", "sudo npm install", "CI=1 npm install --verbose")
    assert [story.check(action, "CI build").decision for action in variants] == ["block"] * 3
    assert story.check("npm --prefix web install", "CI build").decision == "warn"
    near = ("npm test", "npm run build", "npm uninstall", "npm install --legacy-peer-deps", "yarn build")
    assert [story.check(action, "CI build").decision for action in near] == ["allow"] * 5


def test_a_sibling_of_what_failed_is_warned_of_until_it_has_outcomes_of_its_own() -> None:
    story = Story()
    story.took("npm install", "CI build", 0.0, 0.0, 0.0, 0.0, error=TIMEOUT)
    assert story.check("npm ci", "CI build").decision == "warn"
    story.took("npm ci", "CI build", 1.0)
    assert story.check("npm ci", "CI build").decision == "allow"
    assert story.check("npm install", "CI build").decision == "block"


def test_a_check_by_hand_speaks_up_for_a_variant_of_its_action() -> None:
    story = Story()
    id = story.tell("check", action="pip install", context="release", name="pins-first", verify="the pins are fresh")
    assert story.check("python3 -m pip install -q", "release").checks == (id,)
    assert story.check("pip uninstall", "release").checks == ()


def test_an_action_taken_in_another_spelling_goes_ahead_in_spite_of_the_check() -> None:
    story = Story()
    story.took("npm install", "CI build", 0.0, 0.0, error=TIMEOUT)
    story.refuse("npm install", "CI build")
    story.took("sudo npm i", "CI build", 0.0, error=TIMEOUT)
    (check,) = story.known.prevention_checks()
    assert check.effect is not None
    assert check.effect.went_ahead == 1


def test_an_environment_that_differs_weakens_the_evidence() -> None:
    story = Story()
    story.took("npm install", "build", 0.0, 0.0, 0.0, environment="ci", features=frozenset({"os=linux"}))
    linux, windows = frozenset({"os=linux"}), frozenset({"os=windows"})
    assert story.check("npm install", "build", environment="ci", features=linux).decision == "block"
    assert story.check("npm install", "build", environment="laptop", features=windows).decision == "allow"


def test_an_error_that_strikes_everywhere_says_less_about_one_action() -> None:
    story = Story()
    for name in ("make", "curl", "git", "pip", "cargo", "docker"):
        story.took(f"{name} fetch", "build", 0.0, error="ConnectionResetError: Connection reset by peer")
    story.took("npm fetch", "build", 0.0, error="ConnectionResetError: Connection reset by peer")
    story.took("yarn fetch", "build", 0.0, error="ModuleNotFoundError: No module named 'yarn'")
    everywhere, specific = story.check("npm fetch", "build"), story.check("yarn fetch", "build")
    assert everywhere.decision == specific.decision == "warn"
    assert everywhere.confidence < specific.confidence


def test_after_some_refusals_one_try_is_let_through() -> None:
    story = Story()
    story.took("npm install", "CI build", 0.0, 0.0, 0.0, error=TIMEOUT)
    decisions = [story.refuse("npm install", "CI build").decision for _ in range(12)]
    first = decisions.index("allow")
    assert decisions[:first] == ["block"] * first
    assert 3 <= first <= 10
    story.took("npm install", "CI build", 0.0, error=TIMEOUT)
    assert story.check("npm install", "CI build").decision == "block"
    never = replace(SETTINGS, refusals=0)
    assert story.check("npm install", "CI build", settings=never).decision == "block"


def test_a_recurring_failure_without_an_action_warns_of_the_action_its_message_names() -> None:
    story = Story()
    for _ in range(3):
        story.tell("failure", error="npm install: the lock file is broken", solution="delete the lock file")
    verdict = story.check("npm install")
    assert verdict.decision == "warn"
    assert [one.text for one in verdict.instead] == ["delete the lock file"]
    assert story.check("npm test").decision == "allow"


def test_a_check_with_an_action_of_its_own_warns_until_it_is_retired() -> None:
    story = Story()
    id = story.tell(
        "check", action="terraform apply", context="production", name="plan-first", verify="the plan was read"
    )
    verdict = story.check("terraform apply -auto-approve", "production")
    assert (verdict.decision, verdict.checks) == ("warn", (id,))
    assert "the plan was read" in verdict.reason
    assert story.check("terraform plan", "production").decision == "allow"
    story.tell("check", name="plan-first", status="retired")
    assert story.check("terraform apply -auto-approve", "production").decision == "allow"


def test_a_check_that_is_ignored_eight_times_and_right_eight_times_goes_on_to_refuse() -> None:
    story = Story()
    story.took("npm install", "CI build", 0.0, 0.0, error=TIMEOUT)
    for _ in range(8):
        assert story.refuse("npm install", "CI build").decision != "allow"
        story.took("npm install", "CI build", 0.0, error=TIMEOUT)
    (check,) = story.known.prevention_checks()
    assert (check.status, check.fired) == ("active", 8)
    assert check.effect is not None
    assert check.effect.ignored is not None
    assert (check.effect.ignored.opportunities, check.effect.ignored.failures) == (8, 8)
    assert (check.effect.right or 0) > 0.99
    assert [story.refuse("npm install", "CI build").decision for _ in range(6)] == ["block"] * 6


def test_only_a_check_that_is_wrong_is_loosened() -> None:
    heeded, wrong = Story(), Story()
    for story in (heeded, wrong):
        story.took("npm install", "CI build", 0.0, 0.0, error=TIMEOUT)
        (check,) = story.known.prevention_checks()
        for _ in range(4):
            said = {"action": "npm install", "context": "CI build", "verdict": "warn", "checks": (check.id,)}
            story.tell("checked", **said)
            story.took(*(("yarn add", "CI build", 0.0) if story is heeded else ("npm install", "CI build", 1.0)))
    assert [check.status for check in heeded.known.prevention_checks()][:1] == ["active"]
    assert [check.status for check in wrong.known.prevention_checks()] == ["loosened"]


def test_an_action_whose_condition_was_verified_is_heeded_not_ignored() -> None:
    story = Story()
    story.took("npm install", "CI build", 0.0, 0.0, error=TIMEOUT)
    verdict = story.refuse("npm install", "CI build")
    story.tell("ran", subject=verdict.checks[0], quality=1.0)
    story.took("npm install", "CI build", 1.0)
    (check,) = story.known.prevention_checks()
    assert check.effect is not None
    assert check.effect.heeded is not None
    assert (check.effect.heeded.opportunities, check.effect.went_ahead) == (1, 0)


def test_a_loosened_check_never_blocks() -> None:
    story = Story()
    story.took("npm install", "CI build", 0.0, 0.0, 0.0, error=TIMEOUT)
    (id,) = story.check("npm install", "CI build").checks
    assert story.check("npm install", "CI build").decision == "block"
    story.known.checks[id].status = "loosened"
    assert story.check("npm install", "CI build").decision == "warn"
    story.known.checks[id].status = "retired"
    verdict = story.check("npm install", "CI build")
    assert verdict.decision == "allow"
    assert verdict.failures


def test_asking_changes_nothing_and_the_same_question_gets_the_same_answer() -> None:
    story = Story()
    story.took("npm install", "CI build", 0.0, 1.0, 0.0, error=TIMEOUT)
    before = story.known.dump()
    assert story.check("npm install", "CI build") == story.check("npm install", "CI build")
    assert story.known.dump() == before
    reloaded = PatternRecognizer.load(before)
    assert check(reloaded, "npm install", "CI build", now=story.now) == story.check("npm install", "CI build")


@pytest.mark.process
def test_the_answer_does_not_depend_on_how_the_process_hashes() -> None:
    program = """
import sys
from datetime import datetime, timedelta, UTC
from engram_bench.prevention import PreventionWorld, Simulation, run_arm
from dataclasses import asdict
print(asdict(run_arm(Simulation(PreventionWorld(days=4, contexts=3), 5), "checks")))
"""
    seen = set()
    for seed in ("1", "2", "3"):
        environment = {"PYTHONHASHSEED": seed, "PATH": "/usr/bin:/bin"}
        done = subprocess.run(
            [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True, timeout=120
        )
        seen.add(done.stdout)
    assert len(seen) == 1


QUALITIES = st.lists(st.sampled_from([0.0, 0.3, 0.5, 1.0]), min_size=1, max_size=12)


@settings(max_examples=60, deadline=None)
@given(QUALITIES, st.integers(0, 400))
def test_a_success_never_makes_it_worse_and_a_failure_never_better(qualities: list[float], days: int) -> None:
    order = ["allow", "warn", "block"]
    story, better, worse = Story(), Story(), Story()
    for one in (story, better, worse):
        one.took("npm install", "CI build", *qualities)
    better.took("npm install", "CI build", 1.0)
    worse.took("npm install", "CI build", 0.0)
    later = timedelta(days=days)
    now = story.check("npm install", "CI build", later)
    good, bad = better.check("npm install", "CI build", later), worse.check("npm install", "CI build", later)
    assert order.index(good.decision) <= order.index(now.decision)
    assert order.index(bad.decision) >= order.index(now.decision)


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=80), st.text(max_size=80), st.text(max_size=80))
def test_any_text_that_failed_gets_at_least_a_warning(action: str, context: str, error: str) -> None:
    story = Story()
    story.tell("failure", error=error, action=action, context=context)
    verdict = story.check(action, context)
    assert verdict.decision == ("warn" if action.strip() else "allow")
    assert 0 <= verdict.confidence <= 1


def tried(agent: AgentHandle, action: str, context: str, *, works: bool) -> None:
    """Check an action, take it anyway, and record the outcome."""
    verdict = agent.check(action, context)
    outcome, error = ("success", "") if works else ("failure", TIMEOUT)
    cited = [verdict.id] if verdict.id else []
    agent.record_decision(context=context, action=action, outcome=outcome, error=error, informed_by=cited)


def test_a_wrong_check_is_retired_in_use_and_comes_back_when_the_action_fails_again(brain: Engram) -> None:
    agent = brain.agent("alice")
    spellings = ("npm install", "npm i", "sudo npm install", "npm install --verbose")
    contexts = ("the build of the web client", "a release of the api")
    for context in contexts * 2:
        agent.record_decision(context=context, action="npm install", outcome="failure", error=TIMEOUT)
    path = ["active"]
    for number in range(40):
        tried(agent, spellings[number % 4], contexts[number % 2], works=number % 20 != 5)
        (check,) = agent.learning.checks()
        path += [check.status] * (check.status != path[-1])
    assert path == ["active", "loosened", "retired"]
    for _ in range(3):
        tried(agent, "npm install", contexts[0], works=False)
    (check,) = agent.learning.checks()
    assert check.status == "active"
    assert agent.check("npm install", contexts[0]).decision != "allow"
    learned = agent.learning.checks()
    brain.upkeep.relearn(["alice"])
    assert agent.learning.checks() == learned


def test_a_remedy_that_does_not_help_is_no_success_of_prevention(brain: Engram) -> None:
    agent, context = brain.agent("alice"), "the build of the web client"
    for _ in range(3):
        agent.learn_from_failure(TIMEOUT, action="npm install", context=context, solution="verify npm cache")
    for _ in range(4):
        id = agent.check("npm install", context).id or ""
        agent.record_decision(context=context, action="go to lunch", outcome="success")
        agent.record_decision(context=context, action="verify npm cache", outcome="success", informed_by=id)
        agent.record_decision(context=context, action="npm install", outcome="failure", error=TIMEOUT)
    (check,) = agent.learning.checks()
    assert check.effect is not None
    assert check.effect.heeded is not None
    assert (check.effect.heeded.opportunities, check.effect.heeded.failures) == (4, 4)
    assert check.effect.helps <= 0.5
    assert (agent.learning.stats().prevention or 0) <= 0


def test_failures_told_without_a_context_are_no_situation(brain: Engram) -> None:
    alice = brain.agent("alice")
    for _ in range(3):
        alice.learn_from_failure("npm ERR! network timeout", action="npm install")
    assert alice.check("npm install").decision != "allow"
    for _ in range(4):
        alice.record_decision(context="Bash in a folder", action="npm install", outcome="success")
    assert alice.check("npm install").decision == "allow"
    assert alice.check("npm install", context="Bash in a folder").decision == "allow"
