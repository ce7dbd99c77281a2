"""Failures as people report them, through the library and the command line: their patterns and names."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import engram
from engram.engine import AgentHandle
from support.command_line import Run, value

TERRAFORM = "terraform apply: AccessDenied when calling the CreateBucket operation (exit status 1)"
HELM = "helm upgrade shop timed out waiting for the condition; exit code 1"
ACTIONS = ("npm install", "pip install", "docker pull", "cargo build", "go mod download")


@pytest.fixture
def alice(tmp_path: Path) -> Iterator[AgentHandle]:
    with engram.open(str(tmp_path / "team.db"), embedder="hashing") as brain:
        yield brain.agent("alice")


def test_a_line_with_an_exit_code_keeps_its_message(alice: AgentHandle) -> None:
    first = alice.learn_from_failure(TERRAFORM, action="terraform apply")
    second = alice.learn_from_failure(HELM, action="helm upgrade shop")
    assert first.pattern_id != second.pattern_id
    assert "AccessDenied" in first.error_signature
    assert "timed out" in second.error_signature
    again = alice.learn_from_failure(TERRAFORM.replace("status 1", "status 2"), action="terraform apply")
    assert again.occurrence_count in (1, 2)
    assert alice.learn_from_failure(HELM, action="deploy").pattern_id == second.pattern_id


def test_a_line_with_an_exit_code_keeps_its_message_without_an_action(run: Run) -> None:
    for error in (TERRAFORM, HELM, TERRAFORM):
        run("memory", "record", "--agent", "alice", "--type", "failure", "--error", error)
    found = value(run("learning", "patterns", "--agent", "alice", "--type", "failure", "--json"))
    assert sorted(each["occurrence_count"] for each in found) == [1, 2]
    assert {"access-denied" in each["name"] for each in found} == {True, False}
    assert any("timeout" in each["name"] for each in found)


def test_one_message_under_five_actions_is_one_pattern_with_five_actions(alice: AgentHandle) -> None:
    for action in ACTIONS:
        alice.record_decision(
            context="CI build", action=action, outcome="failure", error="No space left on device: /var/lib/x/4711"
        )
    (pattern,) = alice.learning.failures()
    assert sorted(pattern.actions) == sorted(ACTIONS)
    assert pattern.occurrence_count == len(ACTIONS)
    assert not any(action.split()[0] in pattern.name for action in ACTIONS), "the name comes from what failed"
    assert "disk" in pattern.name or "space" in pattern.name


def test_two_patterns_of_an_agent_never_have_the_same_name(alice: AgentHandle) -> None:
    errors = [
        "database is locked",
        "the database is locked by the migration of the search index",
        "request timed out while reading the answer of the billing service",
        "request timed out while opening a tunnel to the vault",
        "TimeoutError: request",
        "request: timeout",
        "cannot open the ledger file",
        "cannot open the photo album",
        "exit code 1",
        "exit status 2",
    ]
    for error in errors:
        for action in ("sync the shop", "read the mail"):
            alice.learn_from_failure(error, action=action)
    for context in ("release of the shop", "nightly backup of photos"):
        for action in ("sync the shop", "read the mail"):
            for _ in range(5):
                alice.record_decision(context=context, action=action, outcome="success")
    known = [each.name for each in alice.learning.failures()]
    known += [each.name for each in alice.learning.synthesis().patterns]
    assert len(known) > 10
    assert len(set(known)) == len(known)


def test_a_success_does_not_get_the_name_of_a_failure(alice: AgentHandle) -> None:
    for _ in range(5):
        alice.record_decision(context="nightly job", action="cache warm", outcome="success")
    (before,) = alice.learning.synthesis().patterns
    failure = alice.learn_from_failure("cache warm")
    (after,) = alice.learning.synthesis().patterns
    assert before.name == failure.name == "cache-warm"
    assert after.name != failure.name
    assert after.pattern_id == before.pattern_id


def test_the_same_failure_after_another_time_is_recognised(alice: AgentHandle) -> None:
    first = alice.learn_from_failure("npm install timed out", action="npm install")
    for rest in ("after 300s", "after 5 minutes", "after 90000 ms"):
        again = alice.learn_from_failure(f"npm install timed out {rest}", action="npm install")
        assert again.pattern_id == first.pattern_id, rest


def test_a_host_and_its_port_are_no_part_of_a_failure(alice: AgentHandle) -> None:
    hosts = ("redis:6379", "10.0.0.7:6379", "cache-a.eu-west-1.internal:6380", "redis:6390")
    found = {alice.learn_from_failure(f"could not connect to {host}: connection refused").pattern_id for host in hosts}
    assert len(found) == 1


def test_failures_without_an_error_are_counted_by_situation_not_by_wording(alice: AgentHandle) -> None:
    for number, name in enumerate("abcdefgh"):
        alice.record_decision(
            context=f"customer {name}{number} asks for a refund of the shoes", action="refuse", outcome="failure"
        )
    (pattern,) = alice.learning.failures()
    assert (pattern.name, pattern.occurrence_count, pattern.recurring) == ("refuse-failed", 8, True)
    assert len(pattern.prevention_checks) == 1


def test_a_failure_without_an_error_does_not_take_the_name_of_what_works(alice: AgentHandle) -> None:
    for outcome in ("success",) * 5 + ("failure",):
        alice.record_decision(context="nightly job", action="cache warm", outcome=outcome)
    assert [each.name for each in alice.learning.failures()] == ["cache-warm-failed"]
    assert [each.name for each in alice.learning.synthesis().patterns] == ["cache-warm"]


def test_output_that_ends_with_an_exit_code_keeps_the_line_that_speaks_of_trouble(alice: AgentHandle) -> None:
    ends = ("ERROR: checksum of left-pad does not match", "ERROR: the registry answers nothing", "out of luck")
    outputs = [f"Downloading packages\nResolving dependencies\n{end}\nexit code 1" for end in ends]
    found = [alice.learn_from_failure(output, action="install") for output in outputs]
    assert len({each.pattern_id for each in found}) == 3
    assert not any("Downloading" in each.error_signature for each in found)
