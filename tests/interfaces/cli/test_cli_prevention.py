"""The commands that keep known failures from coming back."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from support.command_line import Run, value

ASK = "prevention check --action 'npm install' --context 'large dependency trees' --environment ci"


def fail(run: Run, times: int = 3, agent: str = "alice", more: str = "--solution 'clear the npm cache'") -> None:
    for number in range(times):
        error = f"npm ERR! network timeout at: https://npm.example/package-{number}"
        line = (
            f"memory record --agent {agent} --type failure --environment ci --context 'large dependency trees' {more}"
        )
        run(line, "--action", "npm install", "--error", error)


def test_what_is_not_known_to_fail_is_allowed(run: Run) -> None:
    run("memory add hello --agent alice")
    assert run(ASK).stdout == "ALLOW: nothing is known about it\n"
    assert value(run(ASK + " --json"))["decision"] == "allow"


def test_what_fails_again_and_again_is_blocked_with_the_reason_and_what_worked_instead(run: Run) -> None:
    fail(run)
    lines = run(ASK, code=4).stdout.splitlines()
    assert lines[0].startswith("BLOCK: ")
    assert lines[1].startswith("  Expected to fail: ")
    assert lines[2].startswith(
        "  • Known failure: npm-install-timeout: npm ERR! network timeout at: https://npm.example/package-2 "
        "(failed 3 times"
    )
    assert lines[3].endswith(" (verify-npm-cache-status)")
    assert lines[4] == "  • Worked instead: clear the npm cache (80% success rate, 3 attempts)"
    verdict = value(run(ASK + " --json", code=4))
    assert verdict["decision"] == "block"
    assert verdict["id"]


def test_a_warning_lets_the_action_pass_unless_it_is_strict(run: Run) -> None:
    fail(run, 1)
    assert run(ASK).stdout.startswith("WARN: ")
    assert run(ASK + " --strict", code=4).stdout.startswith("WARN: ")


def test_of_several_agents_the_most_severe_verdict_counts(run: Run) -> None:
    fail(run, agent="bob")
    run("memory record --agent alice --context 'large dependency trees' --action 'npm install' --outcome success")
    run(ASK, code=4)
    assert run(ASK + " --agent alice").stdout.startswith("ALLOW: ")


def test_checks_are_generated_listed_and_found_by_name(run: Run) -> None:
    run("memory add hello")
    assert run("prevention list").stdout == "No prevention checks yet.\n"
    assert run("prevention effect").stdout == "No prevention checks yet.\n"
    fail(run)
    made = run("prevention generate --pattern npm-install-timeout --stage deploy --command 'npm cache verify'").stdout
    assert made.splitlines() == [
        "Created prevention check: verify-npm-cache-status",
        "  Added to workflow stage: deploy",
        "  Verify: Clear the npm cache before “npm install”: that was noted as the solution "
        "3 times, without saying whether it helped",
        "  Command: npm cache verify",
    ]
    heading, row = run("prevention list").stdout.splitlines()
    assert heading.split() == ["NAME", "STATUS", "STAGE", "WARNINGS", "AGENT", "VERIFY"]
    assert row.split()[:5] == ["verify-npm-cache-status", "active", "deploy", "0", "alice"]
    (check,) = value(run("prevention list --agent alice --json"))
    assert check["command"] == ["npm", "cache", "verify"]
    run("prevention generate --pattern nothing-like-it", code=3)
    run('prevention generate --pattern npm-install-timeout --command "\'open"', code=2)


def test_a_failure_that_several_know_needs_a_name(run: Run) -> None:
    fail(run)
    fail(run, agent="bob")
    assert "alice, bob" in run("prevention generate --pattern npm-install-timeout", code=2).stderr
    assert run("prevention generate --pattern npm-install-timeout --agent bob").stdout.startswith("Created")
    assert "of alice" in run("prevention effect verify-npm-cache-status", code=2).stderr


def test_a_failure_without_action_and_solution_gives_nothing_to_check(run: Run) -> None:
    run("memory record --type failure --error 'KeyError: name'")
    name = value(run("learning failures --json"))[0]["name"]
    assert "nothing to check" in run(f"prevention generate --pattern {name}", code=1).stderr


def test_a_command_is_only_run_when_it_is_allowed(run: Run, tmp_path: Path) -> None:
    fail(run)
    assert "has no command" in run("prevention run verify-npm-cache-status --allow", code=3).stderr
    script = tmp_path / "look.py"
    script.write_text("import sys, pathlib; print('looked'); sys.exit(pathlib.Path('broken').exists())")
    program = shlex.join([sys.executable, str(script)])
    run("prevention generate --pattern npm-install-timeout --command", program)
    refused = run("prevention run verify-npm-cache-status", code=4)
    assert f"this would run: {program}" in refused.stderr
    assert refused.stdout == ""
    met = run("prevention run verify-npm-cache-status --allow")
    assert met.stdout == "verify-npm-cache-status: the condition holds\nlooked\n"
    (tmp_path / "broken").touch()
    failed = value(run("prevention run verify-npm-cache-status --allow --json", code=1))
    assert (failed["met"], failed["code"]) == (False, 1)
    (check,) = value(run("prevention list --json"))
    assert (check["runs"], check["passed"]) == (2, 1)
    run("prevention run verify-npm-cache-status --allow --seconds 1000", code=2)
    run("prevention run no-such-check --allow", code=3)


def test_generating_a_check_again_keeps_its_effect_its_status_and_its_stage(run: Run) -> None:
    fail(run)
    run("prevention generate --pattern npm-install-timeout --stage deploy")
    verdict = value(run(ASK + " --json", code=4))
    line = "memory record --agent alice --context 'large dependency trees' --environment ci --outcome success"
    run(line, "--action", "clear the npm cache", "--informed-by", verdict["id"])
    (before,) = value(run("prevention list --json"))
    assert before["effect"]["heeded"]["opportunities"] == 0, "only the outcome of the action itself tells"
    run(line, "--action", "npm install")
    (before,) = value(run("prevention list --json"))
    assert (before["fired"], before["effect"]["heeded"]["opportunities"]) == (1, 1)
    run("prevention generate --pattern npm-install-timeout")
    assert value(run("prevention list --json")) == [before]


def test_the_effect_of_a_check_is_shown_before_it_spoke_heeded_and_ignored(run: Run) -> None:
    fail(run)
    row = run("prevention effect verify-npm-cache-status").stdout.splitlines()[1]
    assert row.split("  ")[0] == "verify-npm-cache-status"
    assert "80% (40–99%) of 3" in row
    assert row.endswith("not known yet")
    verdict = value(run(ASK + " --json", code=4))
    told = f"memory record --agent alice --context 'large dependency trees' --informed-by {verdict['id']}"
    run(told, "--action", "yarn install", "--outcome", "success")
    row = run("prevention effect").stdout.splitlines()[1]
    assert "33% (1–84%) of 1" in row
    assert "% likely, by +" in row
    assert value(run("prevention effect --json"))[0]["effect"]["heeded"]["opportunities"] == 1


def test_without_a_database_there_is_nothing_to_prevent(run: Run, path: Path) -> None:
    for line in ("prevention list", "prevention effect", "prevention run x", "prevention generate --pattern x"):
        assert "there is no database" in run(line, code=3).stderr
    assert not path.exists()


def test_without_a_database_everything_is_allowed_and_none_is_made(run: Run, path: Path) -> None:
    for more in ("", " --strict", " --agent alice"):
        assert run(ASK + more).stdout == "ALLOW: there is no memory yet, so nothing is known about it\n"
    key = "AKIA" + "Q7RZ2M4NX5KD3W6P"
    verdict = value(run("prevention check --json --action", f"aws configure set aws_access_key_id {key}"))
    assert (verdict["decision"], verdict["id"]) == ("allow", None)
    assert verdict["reason"].startswith("there is no memory yet")
    assert key not in verdict["action"]
    run("prevention check --action ' '", code=2)
    assert not path.exists()
