"""The commands of learning, with the seed's three scenarios run as they are written."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest
from click.testing import Result

import engram as library
from engram.cli.patterns import parse_rate_filter
from support.command_line import Run, value


def stored(result: Result) -> str:
    word, id = result.stdout.split()[:2]
    assert word == "Stored"
    return id


def decide(run: Run, context: str, action: str, outcome: str = "success", agent: str = "alice", more: str = "") -> str:
    line = f"memory record --agent {agent} --outcome {outcome} {more}"
    return stored(run(line, "--context", context, "--action", action))


def fail(run: Run, number: int, more: str = "", agent: str = "alice") -> Result:
    error = f"npm ERR! network timeout at: https://npm.example/package-{number}"
    line = f"memory record --agent {agent} --type failure --environment CI --context 'large dependency trees' {more}"
    return run(line, "--action", "npm install", "--error", error)


# The seed's scenarios


def test_scenario_1_an_authentication_failure(run: Run) -> None:
    run(
        "engram memory record --agent alice --type decision "
        '--context "api-auth-timeout" --action "increase-timeout" --outcome failure'
    )
    for _ in range(3):
        run(
            "engram memory record --agent alice --type decision "
            '--context "api-auth-timeout" --action "retry-with-exponential-backoff" --outcome success'
        )
    lines = run('engram learning suggest --context "api-auth-timeout"').stdout.splitlines()
    assert lines[0] == "Based on past experience:"
    assert lines[1] == "  • retry-with-exponential-backoff (80% success rate, 3 attempts)"
    assert lines[2].startswith("  • increase-timeout (")
    assert lines[2].endswith("% success rate, 1 attempt)")
    assert lines[3:] == ["  Recommended: retry-with-exponential-backoff"]


def test_scenario_2_one_agent_learns_from_another(run: Run) -> None:
    for number in range(4):
        for action in ("backup-verification-steps", "migration-rollback-strategy"):
            decide(run, "database migration rollback", action, more=f"--session migration-{number}")
    found = run('engram memory search "database migration rollback"').stdout
    assert found.startswith("Found ")
    assert " from alice:\n" in found
    assert "migration-rollback-strategy" in found
    applied = run("engram learning apply-pattern migration-rollback-strategy --task db-migration-456").stdout
    lines = applied.splitlines()
    assert lines[0] == 'Applying pattern "migration-rollback-strategy" of alice (83% success rate, 4 attempts):'
    assert lines[1] == "  Context: database migration rollback"
    assert lines[2:4] == ["  1. backup-verification-steps", "  2. migration-rollback-strategy"]
    id = lines[4].split()[2]
    assert lines[4] == f"  Recorded decision {id} in task db-migration-456"
    memory = value(run(f"memory show {id} --json"))
    assert memory["agent"] == "alice"
    assert memory["provenance"]["session"] == "db-migration-456"
    assert memory["content"]["chosen_action"] == "migration-rollback-strategy"
    assert len(memory["content"]["informed_by"]) == 1
    assert run(f"engram learning outcome {id} success").stdout == f"Learned: {id} → success\n"
    assert value(run("learning stats --agent alice --json"))["utilization"]["some"] == 1


def test_scenario_3_a_failure_is_prevented(run: Run) -> None:
    solution = "--solution 'clear the npm cache' --prevention 'Verify npm cache, check network timeout settings'"
    assert "Recognised" not in fail(run, 1, solution).stdout
    assert (
        "Recognised: npm-install-timeout, seen 2 times\n  Solution: clear the npm cache (75%"
        in fail(run, 2, solution).stdout
    )
    fail(run, 3, solution)
    shown = run("engram learning patterns --type failure --recurring").stdout.splitlines()
    assert shown[0] == 'Identified pattern: "npm-install-timeout"'
    assert "  • Occurs in: CI environment, large dependency trees" in shown
    told = "Verify npm cache, check network timeout settings"
    assert f"  • Prevention check: {told} (verify-npm-cache-status, active)" in shown
    assert "  • Success rate after applying prevention: not known yet" in shown
    assert run("engram prevention generate --pattern npm-install-timeout").stdout.splitlines()[:2] == [
        "Created prevention check: verify-npm-cache-status",
        "  Added to workflow stage: development",
    ]
    for _ in range(6):
        asked = run("prevention check --action 'npm install' --context 'large dependency trees' --json", code=4)
        line = f"memory record --agent alice --context 'large dependency trees' --informed-by {value(asked)['id']}"
        run(line, "--action", "clear the npm cache, then npm install", "--outcome", "success")
    shown = run("engram learning patterns --type failure --recurring").stdout.splitlines()
    assert "  • Success rate after applying prevention: 88% (6 opportunities)" in shown


# Suggesting and predicting


def test_a_task_stands_for_what_was_recorded_in_its_session(run: Run) -> None:
    decide(run, "api-auth-timeout", "retry", more="--session auth-123")
    decide(run, "api-auth-timeout", "retry", more="--session auth-123")
    shown = run("engram learning suggest --task auth-123").stdout.splitlines()
    assert shown[:3] == [
        "Task auth-123: api-auth-timeout",
        "Based on past experience:",
        "  • retry (75% success rate, 2 attempts)",
    ]
    run("memory add 'disk is full on the build host' --session disk-7 --agent bob")
    assert value(run("learning suggest --task disk-7 --json"))["context"] == "disk is full on the build host"
    assert value(run("learning suggest --task unknown_task-9 --json"))["context"] == "unknown task 9"
    both = value(run("learning suggest --task auth-123 --context deploy --json"))
    assert both["context"] == "deploy"


def test_suggest_needs_a_context_or_a_task(run: Run) -> None:
    assert "--context or --task" in run("learning suggest", code=2).stderr


def test_a_suggestion_is_answered_by_its_outcome(run: Run) -> None:
    decide(run, "c", "a")
    decide(run, "c", "a")
    suggestion = value(run("learning suggest --context c --environment ci --json"))
    assert suggestion["recommended"] == "a"
    verbose = run("learning suggest --context c -v").stdout
    assert "95% interval" in verbose
    assert "Report the outcome: engram learning outcome" in verbose
    told = value(run(f"learning outcome {suggestion['id']} failure --error 'Boom: it broke' --json"))
    assert (told["agent"], told["new"]) == ("alice", True)
    assert value(run("learning suggest --context c --json"))["actions"][0]["attempts"] == 3


def test_predict_says_how_likely_success_is_and_on_what_that_rests(run: Run) -> None:
    decide(run, "c", "a")
    decide(run, "c", "a", agent="bob")
    shown = run("learning predict --context c --action a").stdout.splitlines()
    assert shown[0].startswith("a: ")
    assert shown[0].endswith("% likely to succeed")
    assert "95% interval" in shown[1]
    assert value(run("learning predict --context c --action a --json"))["attempts"] == 2
    assert value(run("learning predict --context c --action a --agent bob --json"))["attempts"] == 1
    run("learning predict --context c --action ' '", code=2)


# Outcomes


def test_the_outcome_of_a_decision_can_be_told_later_and_corrected(run: Run) -> None:
    id = stored(run("memory record --agent alice --context c --action a"))
    assert run(f"learning outcome {id} success").stdout == f"Learned: {id} → success\n"
    assert run(f"learning outcome {id} success").stdout == f"This outcome of {id} was reported before\n"
    assert "has an outcome already" in run(f"learning outcome {id} failure", code=5).stderr
    told = value(run(f"learning outcome {id} failure --correct --error 'Boom: no' --json"))
    assert [each["quality"] for each in told["outcomes"]] == [1.0, 0.0]
    run("learning outcome nobody success", code=3)
    run(f"learning outcome {id} success --agent bob", code=3)
    run(f"learning outcome {id} splendid --correct", code=2)


def test_memories_that_go_with_failure_are_listed(run: Run, path: Path) -> None:
    id = stored(run("memory add 'always force push to main' --agent alice"))
    assert run("learning harmful").stdout == "No memory is known to be harmful.\n"
    with library.open(path) as brain:
        alice = brain.agent("alice")
        for _ in range(4):
            recall = alice.recall("force push to main?")
            alice.outcome(recall.id, "failure", used=[id])
    row = run("learning harmful").stdout.splitlines()[1]
    assert row.split()[0] == id
    assert row.endswith("alice  always force push to main")
    assert value(run("learning harmful --json"))[0]["hindered"] == 4


def test_another_outcome_of_a_suggestion_or_a_recall_is_a_conflict(run: Run, path: Path) -> None:
    decide(run, "c", "a")
    decide(run, "c", "a")
    run("memory add hello --agent bob")
    with library.open(path) as brain:
        recall = brain.agent("alice").recall("c").id
    for id in (value(run("learning suggest --context c --json"))["id"], recall):
        assert run(f"learning outcome {id} success").stdout == f"Learned: {id} → success\n"
        assert run(f"learning outcome {id} success").stdout == f"This outcome of {id} was reported before\n"
        assert run(f"learning outcome {id} failure", code=5).stderr.startswith("Error: ")
        assert json.loads(run(f"learning outcome {id} failure --json", code=5).stderr)["code"] == "conflict"


# Patterns


@pytest.mark.parametrize(("text", "holds", "fails"), [
    (">80%", 0.81, 0.8),
    (">=0.8", 0.8, 0.79),
    ("< 50 %", 0.49, 0.5),
    ("<=50", 0.5, 0.51),
    ("=80%", 0.804, 0.81),
    ("80%", 0.8, 0.79),
    ("0.8", 0.9, 0.7),
    ("1", 1.0, 0.99),
])  # fmt: skip
def test_a_rate_can_be_bounded(text: str, holds: float, fails: float) -> None:
    assert parse_rate_filter(text).matches(holds)
    assert not parse_rate_filter(text).matches(fails)


@pytest.mark.parametrize("text", ["", "much", ">", "101%", "=>5", "-1", "1e3", "nan", "0.5.5"])
def test_what_is_no_rate_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter):
        parse_rate_filter(text)


def test_patterns_are_chosen_by_type_rate_time_and_words(run: Run) -> None:
    for _ in range(5):
        decide(run, "flaky test in ci", "rerun once")
        decide(run, "slow build", "add a cache", agent="bob")
    decide(run, "slow build", "add a cache", "failure", agent="bob")
    fail(run, 1)
    everything = value(run("engram memory patterns --json"))
    assert {each["type"] for each in everything} == {"failure", "success", "decision"}
    assert value(run("engram learning patterns --json")) == everything
    high = value(run('learning patterns --type success --success-rate ">80%" --json'))
    assert [(each["agent"], each["name"]) for each in high] == [("alice", "rerun-once")]
    assert len(value(run("learning patterns --type success --json"))) == 2
    assert len(value(run("learning patterns --type success --agent bob --json"))) == 1
    assert [each["name"] for each in value(run("learning patterns --type success --context FLAKY --json"))] == [
        "rerun-once"
    ]
    assert run("learning patterns --recent 2020-01-01 --context nowhere").stdout == "No such pattern yet.\n"
    assert len(value(run("learning patterns --recent 1d --json"))) == len(everything)
    shown = run("learning patterns --type success --type decision").stdout
    assert 'Success pattern: "rerun-once" (alice)\n  • Works in: flaky test in ci\n  • Success rate: 85%' in shown
    assert "  • Steps: rerun once (no two sessions agree on more)\n" in shown
    assert 'Decision template: "slow build" (bob)\n  • Do: add a cache (74% success rate, 6 attempts)' in shown
    run("learning patterns --success-rate lots", code=2)


def test_failures_are_listed_the_most_recent_first(run: Run) -> None:
    fail(run, 1, "--at 30d")
    fail(run, 2, "--at 20d")
    run("memory record --agent bob --type failure --error 'KeyError: name' --action 'render page'")
    lines = run("engram learning failures").stdout.splitlines()
    assert lines[0].split() == ["NAME", "SEEN", "LAST", "AGENT", "RECURRING", "ERROR"]
    assert [line.split()[0] for line in lines[1:]] == ["key-name", "npm-install-timeout"]
    assert [each["agent"] for each in value(run("engram learning failures --recent 7d --json"))] == ["bob"]
    assert [each["agent"] for each in value(run("engram learning failures --recurring --json"))] == ["alice"]
    assert run("learning failures --agent bob --recurring").stdout == "No matching failure.\n"


def test_a_failure_is_applied_by_its_best_solution(run: Run) -> None:
    fail(run, 1, "--solution 'reboot the host' --solution-helped no")
    run("learning apply-pattern npm-install-timeout --task t --agent alice", code=0)
    fail(run, 2, "--solution 'clear the npm cache'")
    run("memory share --from alice --to bob --everything")
    applied = value(run("learning apply-pattern npm-install-timeout --task t --agent bob --from alice --json"))
    assert (applied["from"], applied["agent"], applied["action"]) == ("alice", "bob", "clear the npm cache")
    assert applied["context"] == "large dependency trees"


def test_a_pattern_of_another_agent_must_be_asked_for(run: Run) -> None:
    for _ in range(4):
        decide(run, "c", "a plan")
    assert "--from" in run("learning apply-pattern a-plan --task t --agent bob", code=3).stderr
    run("learning apply-pattern a-plan --task t --agent bob --from alice", code=4)
    run("memory share --from alice --to bob --everything")
    assert value(run("learning apply-pattern a-plan --task t --agent bob --from alice --json"))["agent"] == "bob"
    run("learning apply-pattern a-plan", code=2)
    transfer = value(run("learning stats --agent bob --json"))["transfer"]
    assert (transfer["some"], transfer["all"], transfer["share"]) == (1, 1, 1.0)
    run("learning apply-pattern a-plan --task t --agent alice")
    transfer = value(run("learning stats --agent alice --json"))["transfer"]
    assert (transfer["some"], transfer["all"], transfer["share"]) == (0, 1, 0.0)
    run("memory record --agent alice --type failure --error 'KeyError: x' --action 'render page'")
    assert "no solution of" in run("learning apply-pattern render-page-key-error --task t", code=3).stderr


def test_without_an_agent_nothing_goes_from_one_agent_to_another_without_consent(run: Run) -> None:
    for _ in range(4):
        decide(run, "c", "a plan")
    applied = value(run("learning apply-pattern a-plan --task t --json"))
    assert (applied["from"], applied["agent"]) == ("alice", "alice")
    assert value(run("memory list --agent default --json")) == []
    run("learning apply-pattern a-plan --task t --agent default", code=3)
    grant = value(run("memory share --from alice --to default --pattern a-plan --json"))
    applied = value(run("learning apply-pattern a-plan --task t --json"))
    assert (applied["from"], applied["agent"]) == ("alice", "default")
    assert "apply" in {use["action"] for use in value(run(f"grant uses {grant['id']} --json"))}
    run("learning apply-pattern no-plan --task t", code=3)


def test_a_pattern_is_applied_by_the_words_that_share_it(run: Run) -> None:
    error = "ERR code ETIMEDOUT network timeout at registry"
    record = f"memory record --type failure --error '{error}' --action 'npm install' --context 'CI build'"
    run(f"{record} --agent alice --solution 'clear the cache'")
    run("memory share --from alice --to bob --pattern npm-install")
    applied = value(run("learning apply-pattern npm-install --task t --agent bob --json"))
    assert (applied["from"], applied["action"]) == ("alice", "clear the cache")
    assert value(run("learning apply-pattern npm-install --task t --agent alice --json"))["from"] == "alice"
    run("learning apply-pattern pip-install --task t --agent bob", code=3)


def test_a_success_that_was_recorded_can_be_applied(run: Run) -> None:
    line = "memory record --agent alice --type success --context 'database migration' --approach 'Rollback strategy'"
    run(line + " --factor 'a fresh backup' --step 'verify the backup' --step 'roll back'")
    shown = run("learning apply-pattern rollback-strategy --task db-1 --agent alice").stdout.splitlines()
    assert shown[0] == ('Applying pattern "Rollback strategy" of alice (as recorded, success rate not known yet):')
    assert shown[1:5] == [
        "  Context: database migration",
        "  Key factors: a fresh backup",
        "  1. verify the backup",
        "  2. roll back",
    ]


# Reports


def test_stats_say_what_is_known_and_what_is_not_yet(run: Run) -> None:
    decide(run, "c", "a")
    shown = run("engram learning stats --agent alice").stdout
    assert "learning effectiveness  not known yet: it takes 20 decisions with an outcome, and there are 1\n" in shown
    assert "memory utilization      0% of decisions cite something from memory (0 of 1, 95% interval 0–79%)\n" in shown
    assert "pattern recognition     not known yet: no failure with a message recurred yet\n" in shown
    assert "cross-agent transfer    not known yet: no informed decision was recorded\n" in shown
    assert "prevention success      not known yet: " in shown
    assert "calibration             not known yet: it takes 10 decisions with an outcome, and there are 1\n" in shown


def test_calibration_is_told_from_ten_decisions_on(run: Run, path: Path) -> None:
    with library.open(path) as brain:
        for _ in range(9):
            brain.agent("alice").record_decision(context="c", action="a", outcome="success")
    assert "calibration             not known yet: " in run("learning stats").stdout
    decide(run, "c", "a")
    assert "calibration             Brier score 0." in run("learning stats").stdout


@pytest.mark.parametrize("line", ["learning rebuild", "learning stats"])
def test_an_agent_that_stored_nothing_is_not_found(run: Run, monkeypatch: pytest.MonkeyPatch, line: str) -> None:
    decide(run, "c", "a")
    assert "there is no agent nobody" in run(f"{line} --agent nobody", code=3).stderr
    run(f"{line} --agent alice")
    monkeypatch.setenv("ENGRAM_AGENT", "nobody")
    assert "there is no agent nobody" in run(line, code=3).stderr


def test_stats_measure_the_trend_and_the_calibration(run: Run, path: Path) -> None:
    with library.open(path) as brain:
        for number in range(30):
            quality = "success" if number >= 15 or number % 3 == 0 else "failure"
            brain.agent("alice").record_decision(context="c", action="a", outcome=quality)
        brain.agent("bob").record_decision(context="c", action="a", outcome="success")
    shown = run("engram learning stats").stdout
    assert "agents                  alice, bob\n" in shown
    assert "+67 points, +200% of the baseline: 33% → 100% success (15 decisions, then 16 decisions; 95% " in shown
    assert "calibration             Brier score 0." in shown
    assert value(run("learning stats --json"))["decisions"] == 31


def test_what_was_learned_is_learned_again(run: Run) -> None:
    fail(run, 1)
    fail(run, 2, agent="bob")
    before = value(run("learning failures --json"))
    assert run("learning rebuild").stdout == "Rebuilt from the records of 2 agents: 2 failure patterns.\n"
    assert value(run("learning rebuild --agent bob --json")) == {"agents": 1, "patterns": 1}
    assert value(run("learning failures --json")) == before


@pytest.mark.parametrize("line", [
    "stats", "patterns", "failures", "suggest --context c", "predict --context c --action a", "harmful", "rebuild",
    "outcome x success", "apply-pattern x --task t",
])  # fmt: skip
def test_without_a_database_nothing_is_learned_and_none_is_made(run: Run, path: Path, line: str) -> None:
    assert "there is no database" in run(f"learning {line}", code=3).stderr
    assert not path.exists()


def test_a_prediction_rests_on_what_others_shared_as_a_suggestion_does(run: Run) -> None:
    for _ in range(4):
        decide(run, "deploy the api", "rolling update")
    asked = "--json learning predict --agent bob --context 'deploy the api' --action 'rolling update'"
    assert value(run(asked))["attempts"] == 0
    run("memory share --from alice --to bob --everything")
    assert value(run(asked))["attempts"] == 4


def test_an_environment_is_called_so_once_and_an_error_is_shown_with_its_values(run: Run) -> None:
    record = "memory record --agent alice --type failure --context releases --environment"
    for place in ("CI environment", "Test Environment", "prod"):
        run(record, place, "--error", "disk 7 is full", "--action", "pg_dump")
    shown = run("learning patterns --agent alice --type failure").stdout
    places = "CI environment, Test Environment, prod environment, releases"
    assert f"  • Occurs in: {places}" in shown
    assert "  • Error: disk 7 is full" in shown
