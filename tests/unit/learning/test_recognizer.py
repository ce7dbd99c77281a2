from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engram.learning.failures.check_templates import (
    another_name,
    check_name,
    generate_prevention_strategies,
    pattern_name,
)
from engram.learning.failures.recognizer import FailureEvent, PatternRecognizer

START = datetime(2026, 1, 1, tzinfo=UTC)


class Story:
    """Events five minutes apart, folded as they come."""

    def __init__(self) -> None:
        self.known = PatternRecognizer()
        self.told: list[FailureEvent] = []

    def tell(self, kind: Any, **fields: Any) -> str:
        number = len(self.told)
        event = FailureEvent(kind, f"e{number}", START + timedelta(minutes=5 * number), **{"agent": "alice", **fields})
        self.told.append(event)
        self.known.fold(event)
        return event.id


def npm(package: str) -> str:
    return f"npm ERR! network timeout at: https://registry.example.com/{package}"


def test_the_same_failure_at_another_time_and_place_is_one_pattern() -> None:
    story = Story()
    first = story.tell("failure", error=npm("a"), action="npm install", context="CI build", environment="ci")
    last = story.tell("failure", error=npm("b"), action="npm install", context="CI build", environment="ci")
    story.tell("failure", error="PermissionError: [Errno 13] Permission denied: '/srv/a'", action="make release")
    patterns = story.known.patterns()
    assert [(one.name, one.occurrence_count, one.recurring) for one in patterns] == [
        ("make-release-permission-denied", 1, False),
        ("npm-install-timeout", 2, True),
    ]
    pattern = patterns[1]
    assert (pattern.first_seen, pattern.last_seen) == (START, START + timedelta(minutes=5))
    assert pattern.episodes == (last, first)
    assert pattern.environments == ("ci",)
    assert pattern.actions == ("npm install",)
    assert pattern.contexts == ("CI build",)
    assert pattern.agents == ("alice",)


def test_an_action_that_fails_without_an_error_is_one_pattern_in_a_situation() -> None:
    story = Story()
    for number, (context, tool) in enumerate(
        (("refund for anna", ""), ("bert wants his money back", ""), ("x", "api"))
    ):
        around = frozenset({f"tool={tool}"}) if tool else frozenset[str]()
        told = {"action": "refuse", "context": context, "situation": "refunds", "features": around}
        story.tell("decision", quality=0.0, **told)
        story.tell("outcome", subject=story.tell("decision", **told), quality=0.0, **told)
        assert story.known.pattern(f"e{3 * number}") is not None
    story.tell("decision", action="refuse", context="vacation of dora", situation="vacations", quality=0.0)
    found = {(one.name, one.occurrence_count, one.contexts) for one in story.known.patterns()}
    assert found == {
        ("refuse-failed", 4, ("bert wants his money back", "refund for anna")),
        ("refuse-failed-2", 2, ("x",)),
        ("refuse-failed-3", 1, ("vacation of dora",)),
    }, "other circumstances and other situations are other failures"
    check = story.known.pattern("refuse-failed").prevention_checks[0]  # type: ignore[union-attr]
    assert check.verify.startswith("Find out why “refuse” failed 4 times")


def test_what_an_earlier_version_kept_of_a_failure_is_kept_under_its_new_id() -> None:
    story = Story()
    around = {"action": "helm upgrade", "context": "release"}
    error = "helm upgrade timed out after 4m; exit code 1"
    failed = [story.tell("decision", quality=0.0, error=error, **around) for _ in range(2)]
    about = {"subject": "pattern-of-long-ago", "memory": failed[-1]}
    story.tell("solution", solution="raise the timeout", helped=1.0, **about)
    story.tell("check", name="verify-helm", stage="staging", command=("true",), **about)
    story.tell("ran", subject="check-of-long-ago", memory=failed[0], quality=1.0)
    for _ in range(3):
        said = story.tell("checked", verdict="block", checks=("check-of-long-ago",), **around)
        story.tell("decision", quality=1.0, action="helm rollback", context="release", based_on=(said,))
    (pattern,) = story.known.patterns()
    assert [(one.text, one.tried) for one in pattern.known_solutions] == [("raise the timeout", 1)]
    (check,) = pattern.prevention_checks
    assert (check.name, check.stage, check.command) == ("verify-helm", "staging", ("true",))
    assert (check.fired, check.runs, check.passed) == (3, 1, 1)
    assert check.effect is not None
    assert check.effect.heeded is not None
    assert check.effect.heeded.opportunities == 3


def test_what_spoke_up_about_something_else_is_counted_for_no_other_check() -> None:
    story = Story()
    for _ in range(2):
        story.tell("decision", quality=0.0, error="disk full", action="pg_dump", context="nightly")
    story.tell("checked", verdict="warn", checks=("check-of-long-ago",), action="vacuum", context="nightly")
    story.tell("checked", verdict="allow", action="pg_dump", context="nightly")
    assert [check.fired for check in story.known.prevention_checks()] == [0]


def test_a_failure_is_found_by_the_name_that_an_earlier_version_gave_it() -> None:
    story = Story()
    story.tell("failure", error="disk quota exceeded", action="pg_dump", context="nightly")
    story.tell("failure", error="helm upgrade timed out; exit code 1", action="helm upgrade", context="release")
    names = {"pg-dump-disk-quota-exceeded": "disk-quota-exceeded", "helm-upgrade-exit": "helm-upgrade-timeout"}
    for former, name in names.items():
        assert story.known.pattern(former) is None
        assert [one.name for one in story.known.by_former_name(former)] == [name]
    assert story.known.by_former_name("something-else") == []


@pytest.mark.parametrize(
    ("errors", "former", "name"),
    [
        (["KeyError: 'x'"], "key", "key-error"),
        (["pytest: 3 failed, 12 passed in 2.1s"], "pytest-passed", "pytest-failed"),
        (["Přístup odepřen"], "stup-odep-en", "pristup-odepren"),
        (["exit code 143"], "exit", "exit-143"),
        (["exit code 1", "exit code 143"], "exit-2", "exit-143"),
        (["helm: no answer; exit code 1"], "helm-answer", "helm-answer"),
        (["Error: Process completed with exit code 1."], "error-process-completed-code", "exit-1"),
        (
            ["subprocess.CalledProcessError: Command '['git', 'push']' returned non-zero exit status 128."],
            "called-process-command-returned-non",
            "git-push-exit-128",
        ),
        (
            ["sshd: Failed password from [personal:ip:ab12cd34]"],
            "sshd-password-personal-ip",
            "sshd-password",
        ),
    ],
)
def test_a_failure_is_found_by_the_last_name_before_its_own(errors: list[str], former: str, name: str) -> None:
    story = Story()
    for error in errors:
        story.tell("failure", error=error)
    found = story.known.pattern(former)
    assert [one.name for one in ([found] if found else story.known.by_former_name(former))] == [name]
    assert PatternRecognizer.load(story.known.dump()).by_former_name(former) == story.known.by_former_name(former)


def test_a_check_is_found_by_the_name_that_an_earlier_version_gave_it() -> None:
    story = Story()
    story.tell("failure", error=npm("a"), action="npm install", solution="Verify npm cache, check network settings")
    story.tell("failure", error="KeyError: 'x'", action="render page")
    story.tell("failure", error="KeyError: 'x'", action="render page")
    names = {
        "verify-npm-cache-check-status": "verify-npm-cache-status",
        "verify-render-page-key": "verify-render-page-key-error",
    }
    for former, name in names.items():
        found = story.known.prevention_check(former)
        assert found is not None
        assert found.name == name
    assert story.known.prevention_check("verify-nothing") is None


@pytest.mark.parametrize(
    "error",
    [
        "Interface Gi0/{}, changed state to {}:up/down/administratively down",
        "expected {1} after {0} tries:true/false",
        "feature flag f{} is {}:enabled but must be disabled/disabled but must be enabled",
        "assertion {}: expected {}:true but got false/false but got true",
        "valve {} of the tank is {}:open/closed",
        "payment {} ended in {}:success/failure",
    ],
)
def test_words_that_say_the_opposite_of_each_other_are_different_failures(error: str) -> None:
    text, _, opposites = error.rpartition(":")
    story = Story()
    for number in range(12):
        for word in opposites.split("/"):
            story.tell("failure", error=f"%LINK: {text.format(number, word)}")
    assert [one.occurrence_count for one in story.known.patterns()] == [12] * len(opposites.split("/"))


def test_a_redacted_address_is_an_address() -> None:
    story = Story()
    for host in ("[personal:ip:ab12cd34]", "10.0.0.7", "[personal:ip:cd34ab12]", "[personal:ip]", "host.example.com"):
        story.tell("failure", error=f"Failed password for root from {host} port 22 ssh2")
    (pattern,) = story.known.patterns()
    assert pattern.name == "password-root-port"
    assert pattern.example == "Failed password for root from host.example.com port 22 ssh2"


def test_actions_that_a_check_does_not_name_are_counted() -> None:
    failed = [{"error": "proxy refused it", "action": f"step{letter} go"} for letter in "abcde"]
    story = Story()
    for one in failed:
        story.tell("failure", **one)
    (check,) = story.known.prevention_checks()
    assert check.verify.startswith("Before “stepa go” or “stepb go” or “stepc go” or 2 others, make sure")
    assert check.rule == "actions like “stepa go” or “stepb go” or “stepc go” or 2 others"
    for letter in "fghijk":
        story.tell("failure", error="proxy refused it", action=f"step{letter} go")
    (check,) = story.known.prevention_checks()
    assert check.rule == "actions like “stepa go” or “stepb go” or “stepc go” or others"


def test_errors_of_different_kinds_are_never_one_pattern() -> None:
    story = Story()
    story.tell("failure", error="TimeoutError: cannot open the connection to the primary database server")
    story.tell("failure", error="PermissionError: cannot open the connection to the primary database server")
    assert len(story.known.patterns()) == 2
    assert story.known.find("ValueError: cannot open the connection to the primary database server") is None


def test_a_similar_message_of_the_same_kind_is_the_same_failure() -> None:
    story = Story()
    story.tell("failure", error="TimeoutError: cannot open the connection to the primary database server")
    story.tell("failure", error="KeyError: 'x'")
    found = story.known.find("TimeoutError: cannot open connection to the primary database server again")
    assert found is not None
    assert found.kind == "TimeoutError"
    assert story.known.find("TimeoutError: the queue of the printer did not drain") is None


def test_an_error_that_says_nothing_is_told_apart_by_what_was_done() -> None:
    story = Story()
    story.tell("failure", error="exit 1", action="npm install")
    story.tell("failure", error="exit 1", action="pytest -q")
    story.tell("failure", error="exit 1", action="npm install")
    assert sorted(one.occurrence_count for one in story.known.patterns()) == [1, 2]


def test_asking_teaches_nothing() -> None:
    story = Story()
    story.tell("failure", error=npm("a"), action="npm install")
    before = story.known.dump()
    assert story.known.find(npm("zzz")) is not None
    assert story.known.find("something else went wrong entirely") is None
    story.known.patterns()
    assert story.known.dump() == before


def test_every_solution_has_its_own_rate_and_one_that_did_not_help_is_known_as_such() -> None:
    story = Story()
    failure = story.tell("failure", error=npm("a"), action="npm install", solution="Clear the npm cache")
    story.tell("solution", subject=failure, solution="clear the npm cache", helped=1.0, agent="bob")
    story.tell("solution", subject="npm-install-timeout", solution="try again at once", helped=0.0)
    story.tell("solution", error=npm("c"), solution="try again at once", helped=0.0)
    (pattern,) = story.known.patterns()
    good, bad = pattern.known_solutions
    assert (good.text, good.tried, good.helped, good.success_rate) == ("Clear the npm cache", 2, 2.0, 0.75)
    assert good.agents == ("alice", "bob")
    assert (bad.text, bad.tried, bad.helped, bad.success_rate) == ("try again at once", 2, 0.0, 0.25)
    assert good.interval[0] < 0.75 < good.interval[1]
    assert pattern.occurrence_count == 1


def test_a_solution_for_an_unknown_failure_makes_it_known() -> None:
    story = Story()
    story.tell("solution", error=npm("a"), action="npm install", solution="clear the npm cache")
    story.tell("solution", subject="nobody", solution="pray")
    (pattern,) = story.known.patterns()
    assert [one.text for one in pattern.known_solutions] == ["clear the npm cache"]


def test_a_decision_that_failed_is_a_known_failure_even_without_an_error() -> None:
    story = Story()
    story.tell("decision", action="increase-timeout", context="api-auth-timeout", quality=0.0)
    story.tell("decision", action="retry-with-backoff", context="api-auth-timeout", quality=1.0)
    (pattern,) = story.known.patterns()
    assert pattern.error_signature == "increase-timeout failed in api-auth-timeout"
    assert pattern.actions == ("increase-timeout",)


def test_the_error_of_a_recorded_decision_is_the_same_occurrence() -> None:
    story = Story()
    decision = story.tell("decision", action="npm install", context="CI", quality=0.0)
    failure = story.tell("failure", subject=decision, error=npm("a"), solution="clear the npm cache")
    (pattern,) = story.known.patterns()
    assert (pattern.name, pattern.occurrence_count) == ("npm-install-timeout", 1)
    found = story.known.pattern(failure)
    assert found is not None
    assert found.pattern_id == pattern.pattern_id


def test_the_last_outcome_of_a_decision_counts() -> None:
    story = Story()
    decision = story.tell("decision", action="npm install", context="CI")
    assert story.known.patterns() == []
    story.tell("outcome", subject=decision, quality=0.0, error=npm("a"))
    assert [one.occurrence_count for one in story.known.patterns()] == [1]
    story.tell("outcome", subject=decision, quality=1.0)
    assert story.known.patterns() == []
    story.tell("outcome", subject="nobody", quality=0.0)
    assert story.known.patterns() == []


def test_a_check_is_suggested_once_a_failure_came_back_or_was_solved() -> None:
    story = Story()
    story.tell("failure", error=npm("a"), action="npm install", context="CI build")
    assert story.known.prevention_checks() == []
    story.tell("failure", error=npm("b"), action="npm install", context="CI build")
    (check,) = story.known.prevention_checks()
    assert check.name == "verify-npm-install-timeout"
    story.tell("solution", subject="npm-install-timeout", solution="Clear the npm cache")
    (check,) = story.known.prevention_checks()
    assert check.name == "verify-npm-cache-status"
    assert check.stage == "development"
    assert check.command is None
    assert "Clear the npm cache" in check.verify
    assert "npm install" in check.rule
    assert "CI build" in check.rule
    (pattern,) = story.known.patterns()
    assert pattern.prevention_checks == (check,)
    assert story.known.prevention_check("verify-npm-cache-status") == check
    (generated,) = generate_prevention_strategies(pattern)
    assert (generated.id, generated.name, generated.verify) == (check.id, check.name, check.verify)


def test_a_check_can_be_changed_by_hand_and_a_retired_one_stays_retired() -> None:
    story = Story()
    story.tell("failure", error=npm("a"), action="npm install", solution="clear the npm cache")
    story.tell("check", subject="npm-install-timeout", name="npm-ready", stage="ci", command=("npm", "ping"))
    (check,) = story.known.prevention_checks()
    assert (check.name, check.stage, check.command) == ("npm-ready", "ci", ("npm", "ping"))
    story.tell("check", name="npm-ready", status="retired")
    for _ in range(10):
        story.tell("decision", action="npm install", quality=0.0, error=npm("a"))
    found = story.known.prevention_check("npm-ready")
    assert found is not None
    assert found.status == "retired"


def test_runs_of_a_command_are_counted() -> None:
    story = Story()
    story.tell("failure", error=npm("a"), action="npm install", solution="clear the npm cache")
    (check,) = story.known.prevention_checks()
    story.tell("ran", subject=check.id, quality=1.0)
    story.tell("ran", subject=check.id, quality=0.0)
    story.tell("ran", subject="nobody", quality=0.0)
    (check,) = story.known.prevention_checks()
    assert (check.runs, check.passed) == (2, 1)


def test_the_effect_counts_what_happened_while_it_was_silent_and_after_it_spoke() -> None:
    story = Story()
    for _ in range(3):
        story.tell("decision", action="npm install", context="CI", quality=0.0, error=npm("a"))
    (check,) = story.known.prevention_checks()
    said = story.tell("checked", action="npm install", context="CI", verdict="block", checks=(check.id,))
    story.tell("decision", subject=said, action="npm ci", context="CI", quality=1.0)
    story.tell("checked", action="npm install", context="CI", verdict="warn", checks=(check.id,))
    story.tell("decision", action="npm install", context="CI", quality=1.0)
    story.tell("checked", action="npm install", context="CI", verdict="warn", checks=(check.id,))
    story.tell("decision", action="npm install", context="elsewhere", quality=1.0)
    (check,) = story.known.prevention_checks()
    assert check.fired == 3
    assert check.effect is not None
    assert (check.effect.before.opportunities, check.effect.before.failures) == (3, 3)
    assert (check.effect.after.opportunities, check.effect.after.failures) == (2, 0)
    assert (check.effect.went_ahead, check.effect.false_alarms) == (1, 1)
    assert check.effect.difference > 0


NPM = {"action": "npm install", "context": "CI"}


def warned(story: Story, **fields: Any) -> str:
    """Record a check of `npm install` that fired."""
    (check,) = story.known.prevention_checks()
    return story.tell("checked", verdict="warn", checks=(check.id,), **NPM | fields)


def counted(story: Story) -> tuple[tuple[int, float], tuple[int, float], tuple[int, float]]:
    """Return opportunities and failures of the only check: while silent, when heeded, and when ignored."""
    (check,) = story.known.prevention_checks()
    assert check.effect is not None
    assert check.effect.heeded is not None
    assert check.effect.ignored is not None
    silent, heeded, ignored = check.effect.before, check.effect.heeded, check.effect.ignored
    return tuple((each.opportunities, each.failures) for each in (silent, heeded, ignored))  # type: ignore[return-value]


def solved() -> Story:
    story = Story()
    for _ in range(2):
        story.tell("decision", quality=0.0, error=npm("a"), solution="verify npm cache", **NPM)
    story.tell("solution", error=npm("a"), solution="verify npm cache", helped=1.0, action="npm install")
    return story


@pytest.mark.parametrize(("quality", "failed"), [(0.0, 1), (1.0, 0)])
@pytest.mark.parametrize("cites", [True, False])
def test_a_remedy_is_judged_by_the_next_outcome_of_the_action_that_was_warned_of(
    quality: float, failed: int, cites: bool
) -> None:
    story = solved()
    said = warned(story)
    cited = (said,) if cites else ()
    story.tell("decision", action="verifying the npm cache", context="CI", quality=1.0, based_on=cited)
    assert counted(story) == ((2, 2), (0, 0), (0, 0))
    story.tell("decision", quality=quality, error="" if quality else npm("a"), **NPM)
    assert counted(story) == ((2, 2), (1, failed), (0, 0))
    story.tell("decision", quality=0.0, error=npm("a"), **NPM)
    assert counted(story) == ((3, 3), (1, failed), (0, 0)), "nobody was warned of this one"


def test_a_remedy_counts_although_the_action_is_checked_again_before_it_is_taken() -> None:
    story = solved()
    story.tell("decision", action="verify npm cache", context="CI", quality=1.0, based_on=(warned(story),))
    story.tell("decision", quality=0.0, error=npm("a"), based_on=(warned(story),), **NPM)
    assert counted(story) == ((2, 2), (1, 1), (0, 0))


def test_a_remedy_that_failed_is_none() -> None:
    story = solved()
    story.tell("decision", action="verify npm cache", context="CI", quality=0.0, based_on=(warned(story),))
    story.tell("decision", quality=0.0, error=npm("a"), **NPM)
    assert counted(story) == ((2, 2), (0, 0), (1, 1))


@pytest.mark.parametrize("way", ["npm install --offline", "npm ci", "verify npm cache, then npm install"])
def test_a_solution_that_does_the_same_task_has_its_own_outcome(way: str) -> None:
    story = solved()
    for solution in ("npm install --offline", "npm ci"):
        story.tell("solution", error=npm("a"), solution=solution, helped=1.0, action="npm install")
    warned(story)
    story.tell("decision", action=way, context="CI", quality=1.0)
    assert counted(story) == ((2, 2), (1, 0), (0, 0))


def test_another_action_answers_only_the_verdict_that_it_names() -> None:
    story = solved()
    said = warned(story)
    story.tell("decision", action="go to lunch", context="CI", quality=1.0)
    assert counted(story) == ((2, 2), (0, 0), (0, 0))
    story.tell("decision", action="yarn add", context="CI", quality=1.0, based_on=("a-suggestion", said))
    assert counted(story) == ((2, 2), (1, 0), (0, 0))
    story.tell("decision", quality=0.0, error=npm("a"), **NPM)
    assert counted(story) == ((3, 3), (1, 0), (0, 0)), "the verdict was answered"


@pytest.mark.parametrize("spelling", ["npm i", "sudo npm install --verbose", "npm install left-pad"])
@pytest.mark.parametrize("cites", [True, False])
def test_the_action_in_another_spelling_ignores_the_verdict(spelling: str, cites: bool) -> None:
    story = solved()
    said = warned(story)
    told = {"action": spelling, "context": "CI", "based_on": (said,) if cites else ()}
    story.tell("decision", quality=0.0, error=npm("a"), **told)
    assert counted(story)[1:] == ((0, 0), (1, 1))


def test_a_failure_that_is_told_without_a_decision_ignores_the_verdict_too() -> None:
    story = solved()
    warned(story)
    story.tell("failure", error=npm("a"), **NPM)
    assert counted(story) == ((2, 2), (0, 0), (1, 1))


def test_the_outcome_of_a_verdict_is_an_episode_of_what_it_was_about() -> None:
    story = Story()
    said = story.tell("checked", action="make release", context="v2", verdict="allow")
    story.tell("outcome", subject=said, quality=0.0, error="fatal: no tag")
    (pattern,) = story.known.patterns()
    assert pattern.actions == ("make release",)


@pytest.mark.parametrize(
    ("kind", "message", "head", "name"),
    [
        ("", "npm ERR! network timeout at: <url>", ("npm", "install"), "npm-install-timeout"),
        ("", "timed out", ("npm", "install"), "npm-install-timeout"),
        ("", "connect to postgres timed out", ("npm", "install"), "connect-postgres-timeout"),
        ("PermissionError", "denied", (), "permission-denied"),
        ("", "could not lock the index", ("git", "commit"), "lock-index"),
        ("", "", (), "failure"),
        ("java.io.IOException", "Broken pipe", (), "io-broken-pipe"),
        ("java.io.IOException", "", (), "io-exception"),
        ("KeyError", "<str>", (), "key-error"),
        ("ValueError", "", ("make", "test"), "make-test-value-error"),
        ("HTTP 503", "Service Unavailable", (), "http-503-service-unavailable"),
        ("exit 143", "", (), "exit-143"),
        ("exit 143", "", ("make", "test"), "make-test-exit-143"),
        ("exit 2", "script build exited", ("bun", "run"), "script-build-exit-2"),
        ("exit 128", "Command git push exited", ("git", "push"), "git-push-exit-128"),
        ("", "pytest: <num> failed, <num> passed in <num>s", (), "pytest-failed"),
        ("", "Tests: <num> failed, <num> passed, <num> total", (), "tests-failed"),
        ("", "build failed", (), "build-failed"),
        ("", "数据库连接失败", (), "数据库连接失败"),
        ("", "Přístup odepřen", (), "pristup-odepren"),
        ("", "संपर्क नहीं हो सका", (), "संपर्क-नहीं-हो-सका"),
        ("", "sshd: Failed password for carol from [personal:ip:ab12cd34]", (), "sshd-password-carol"),
        ("", "[secret:github-token] is no token", (), "token"),
    ],
)
def test_names_come_from_what_failed(kind: str, message: str, head: tuple[str, ...], name: str) -> None:
    assert pattern_name(kind, message, head) == name


@pytest.mark.parametrize(
    ("solution", "name"),
    [
        ("clear the npm cache", "verify-npm-cache-status"),
        ("Verify npm cache, check network timeout settings", "verify-npm-cache-status"),
        ("raise the timeout to 60 s. Then retry", "verify-timeout-status"),
        ("stop the old container and then remove it", "verify-old-container-status"),
        ("retry; wait a minute", "verify-minute-status"),
        ("rotate the key [secret:aws-key:ab12cd34]", "verify-key-status"),
        ("重启数据库", "verify-重启数据库-status"),
        ("Don't deploy on friday", "verify-deploy-failed"),
        ("Don’t deploy on friday", "verify-deploy-failed"),
        ("please do not deploy on friday", "verify-deploy-failed"),
        ("never deploy on friday", "verify-deploy-failed"),
        ("stop deploying on friday", "verify-deploy-failed"),
        ("no deploy on friday", "verify-deploy-failed"),
        ("make sure not to deploy on friday", "verify-deploy-failed"),
        ("build without the cache", "verify-deploy-failed"),
        ("", "verify-deploy-failed"),
    ],
)
def test_a_check_is_named_after_the_first_thing_that_its_solution_does(solution: str, name: str) -> None:
    assert check_name("deploy-failed", solution) == name


def test_a_check_without_a_solution_is_named_after_what_it_verifies() -> None:
    story = Story()
    story.tell("failure", error=npm("a"), action="npm install", verify="Verify npm cache, check network settings")
    (check,) = story.known.prevention_checks()
    assert check.name == "verify-npm-cache-status"
    assert story.known.prevention_check("verify-npm-install-timeout") == check


def test_the_number_of_a_name_is_never_taken_for_an_exit_status() -> None:
    assert another_name("exit-143", 2) == "exit-143-variant-2"
    assert another_name("timeout", 2) == "timeout-2"


def test_names_are_unique() -> None:
    story = Story()
    story.tell("failure", error="exit status 3", action="make test")
    story.tell("failure", error="ValueError", action="make test")
    story.tell("failure", error="ValueError", action="make test --all")
    names = [one.name for one in story.known.patterns()]
    assert len(set(names)) == len(names)
    assert check_name("make-test-value", "") == "verify-make-test-value"


def test_two_checks_never_have_the_same_name_and_each_is_changed_by_its_own() -> None:
    story = Story()
    story.tell("failure", error=npm("a"), action="npm install", solution="clear the cache")
    story.tell("failure", error="OSError: no space left on device", action="docker build", solution="clear the cache")
    story.tell("failure", error="ValueError: bad checksum", action="pip install", solution="clear the cache")
    names = [check.name for check in story.known.prevention_checks()]
    assert names == ["verify-cache-status", "verify-device-disk-full", "verify-value-bad-checksum"]
    for name in names:
        found = story.known.prevention_check(name)
        assert found is not None
        assert found.name == name
    patterns = [check.pattern_id for check in story.known.prevention_checks()]
    for pattern in patterns:
        story.tell("check", subject=pattern, name="cache-first", stage="build", command=("ls", pattern))
    checks = story.known.prevention_checks()
    assert [check.name for check in checks] == ["cache-first", "cache-first-2", "cache-first-3"]
    assert [check.command for check in checks] == [("ls", pattern) for pattern in patterns]
    assert PatternRecognizer.load(story.known.dump()).prevention_checks() == checks


def test_the_name_of_a_check_says_the_same_check_again_after_its_solution_changes() -> None:
    story = Story()
    story.tell("failure", error=npm("a"), action="npm install")
    story.tell("failure", error=npm("b"), action="npm install")
    story.tell("solution", subject="npm-install-timeout", solution="clear the npm cache")
    old = story.known.prevention_check("verify-npm-install-timeout")
    assert old is not None
    assert old.name == "verify-npm-cache-status"


def test_a_check_by_hand_without_a_name_is_named_after_its_action() -> None:
    story = Story()
    story.tell("check", action="terraform apply -auto-approve", context="production")
    story.tell("check", action="terraform apply -auto-approve", context="staging")
    checks = story.known.prevention_checks()
    assert [check.name for check in checks] == [
        "verify-terraform-apply-auto-approve",
        "verify-terraform-apply-auto-approve-2",
    ]
    assert [check.stage for check in checks] == ["production", "staging"]
    assert checks[0].verify == "Make sure that it is safe to do this now: terraform apply -auto-approve"


def verified(*told: dict[str, Any]) -> str:
    story = Story()
    for fields in told:
        story.tell("failure" if "error" in fields else "decision", **fields)
    (check,) = story.known.prevention_checks()
    return check.verify


def test_what_a_check_says_is_a_sentence_about_what_helped_before_the_action() -> None:
    solved: dict[str, Any] = {"error": npm("a"), "action": "npm install", "solution": "clear the npm cache"}
    noted = "Clear the npm cache before “npm install”: that was noted as the solution"
    assert verified(solved) == f"{noted}, without saying whether it helped"
    waiting = {"error": npm("b"), "action": "npm install", "solution": "Wait."}
    assert verified(solved, solved, waiting) == (
        f"{noted} 2 times, without saying whether it helped; or wait (noted 1 time)"
    )
    solved["helped"] = 1.0
    once = "Clear the npm cache before “npm install”: that helped the one time it was tried"
    assert verified(solved) == once
    other = {"error": npm("b"), "action": "sudo npm i", "solution": "Raise the timeout to 60 s.", "helped": 1.0}
    assert verified(solved, solved, other) == (
        "Clear the npm cache before “npm install”: that helped 2 of 2 times; or raise the timeout to 60 s (1 of 1)"
    )
    stated = {"error": "locked", "solution": "a stale lock file was there", "helped": 1.0}
    assert verified(stated) == "Remember what helped the one time it was tried: a stale lock file was there"


def test_without_a_solution_a_check_says_what_is_to_be_fixed_or_found_out() -> None:
    failed = {"error": npm("a"), "action": "npm install"}
    assert verified(failed, failed) == (
        "Before “npm install”, make sure that this is fixed: npm ERR! network timeout at: "
        "https://registry.example.com/a (seen 2 times)"
    )
    silent = {"action": "npm install", "context": "CI build", "quality": 0.0}
    assert verified(silent, silent) == "Find out why “npm install” failed 2 times before it is tried again"
    long = verified({"error": "bad " * 400, "action": "x" * 900, "solution": "reset " + "y" * 900})
    assert len(long) < 400


@pytest.mark.parametrize(
    ("where", "stage"),
    [
        ({"environment": "CI"}, "development"),
        ({"environment": "production"}, "production"),
        ({"environment": "eu-staging-2"}, "staging"),
        ({"features": frozenset({"tag=prod"})}, "production"),
        ({"context": "deploy the api to production"}, "production"),
        ({"context": "tests of the production database", "environment": "ci"}, "development"),
        ({"context": "write a poem"}, "development"),
        ({"context": "in prod"}, "production"),
        ({"context": "production"}, "production"),
        ({"context": "the live database is slow"}, "production"),
        ({"context": "on staging"}, "staging"),
        ({"context": "the staging server is down"}, "staging"),
        ({"context": "deploy to the pre-production cluster"}, "staging"),
        ({"context": "tests on the CI"}, "development"),
        ({"context": "the live chat server of a customer"}, "development"),
        ({"context": "a customer on live chat is angry"}, "development"),
        ({"context": "the stage of the theatre is being built"}, "development"),
        ({"context": "x", "features": frozenset({"tag=live chat"})}, "development"),
        ({"environment": "non-production"}, "development"),
        ({"environment": "live"}, "production"),
    ],
)
def test_the_stage_of_a_check_is_where_its_failures_happened_unless_somebody_says_another(
    where: dict[str, Any], stage: str
) -> None:
    story = Story()
    story.tell("failure", error=npm("a"), action="npm install", solution="clear the npm cache", **where)
    (check,) = story.known.prevention_checks()
    assert check.stage == stage
    (pattern,) = story.known.patterns()
    if "features" not in where:
        (made,) = generate_prevention_strategies(pattern.model_copy(update={"prevention_checks": ()}))
        assert made.stage == stage
    story.tell("check", subject=pattern.pattern_id, stage="rollout")
    (check,) = story.known.prevention_checks()
    assert check.stage == "rollout"


def test_a_line_with_an_exit_code_keeps_its_message() -> None:
    story = Story()
    for _ in range(2):
        story.tell("failure", error="terraform apply: AccessDenied (exit status 1)", action="terraform apply")
        story.tell("failure", error="helm upgrade timed out; exit code 1", action="helm upgrade")
    assert sorted((one.name, one.occurrence_count) for one in story.known.patterns()) == [
        ("helm-upgrade-timeout", 2),
        ("terraform-apply-access-denied", 2),
    ]


def test_a_bare_exit_code_is_told_apart_by_the_action() -> None:
    story = Story()
    for error in ("exit status 1", "Command '['x']' returned non-zero exit status 1.", "process exited with code 1"):
        story.tell("failure", error=error, action="terraform apply")
        story.tell("failure", error=error, action="helm upgrade")
    assert [one.occurrence_count for one in story.known.patterns()] == [3, 3]


def test_one_message_under_five_actions_is_one_pattern_with_five_actions() -> None:
    story = Story()
    actions = ("npm install", "pip install x", "make test", "docker build .", "git push")
    for action in actions:
        story.tell("failure", error="the proxy refused the certificate (exit status 1)", action=action)
    (pattern,) = story.known.patterns()
    assert sorted(pattern.actions) == sorted(actions)
    assert not pattern.name.startswith("npm")


ERRORS = st.sampled_from([npm("a"), npm("b"), "exit 1", "", "TimeoutError: x took 3 s", "ValueError: no channel 'a'"])
ACTIONS = st.sampled_from(
    [
        "npm install",
        "npm i",
        "npm ci",
        "clear the cache",
        "read_channel(name='a')",
        "read_channel(name='b')",
        "",
        "retry",
    ]
)
CONTEXTS = st.sampled_from(["CI build", "CI build 17", "a laptop", ""])
SUBJECTS = st.sampled_from([None, "e0", "e1", "e2", "e3", "e5", "e8", "npm-install-timeout", "nobody"])
TELLING = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(["failure", "solution", "decision", "outcome", "check", "checked", "ran"]),
        "agent": st.sampled_from(["alice", "bob"]),
        "subject": SUBJECTS,
        "error": ERRORS,
        "action": ACTIONS,
        "context": CONTEXTS,
        "environment": st.sampled_from(["", "ci", "CI.."]),
        "features": st.sampled_from([frozenset(), frozenset({"tool=npm"}), frozenset({"A=b..", "tool=pip"})]),
        "solution": st.sampled_from(["", "wait", "clear the cache"]),
        "helped": st.sampled_from([None, 0.0, 0.5, 1.0]),
        "quality": st.sampled_from([None, 0.0, 0.3, 0.5, 1.0]),
        "name": st.sampled_from(["", "mine"]),
        "status": st.sampled_from(["", "", "active", "retired"]),
        "verdict": st.sampled_from(["allow", "warn", "block"]),
        "checks": st.sampled_from([(), ("mine",), ("nobody",)]),
        "based_on": st.sampled_from([(), ("e1",), ("e0", "e4"), ("nobody",)]),
    }
)


@settings(max_examples=60, deadline=None)
@given(st.lists(TELLING, max_size=25), st.integers(0, 25))
def test_a_rebuild_and_a_reloaded_state_are_the_same_state(tellings: list[dict[str, Any]], cut: int) -> None:
    straight, early = Story(), Story()
    for telling in tellings:
        straight.tell(**telling)
    for telling in tellings[:cut]:
        early.tell(**telling)
    resumed = PatternRecognizer.load(json.loads(json.dumps(early.known.dump())))
    rebuilt = PatternRecognizer()
    for event in straight.told:
        rebuilt.fold(event)
    for event in straight.told[cut:]:
        resumed.fold(event)
    assert rebuilt.dump() == straight.known.dump()
    assert json.dumps(resumed.dump()) == json.dumps(straight.known.dump())
    assert resumed.patterns() == straight.known.patterns()
    assert resumed.prevention_checks() == straight.known.prevention_checks()


@settings(max_examples=40, deadline=None)
@given(st.lists(TELLING, max_size=25))
def test_counts_are_never_negative_and_every_pattern_was_seen(tellings: list[dict[str, Any]]) -> None:
    story = Story()
    for telling in tellings:
        story.tell(**telling)
    for pattern in story.known.patterns():
        assert pattern.occurrence_count >= 1
        assert pattern.first_seen <= pattern.last_seen
        assert pattern.recurring == (pattern.occurrence_count >= 2)
        for solution in pattern.known_solutions:
            assert 0 <= solution.helped <= solution.tried
    for check in story.known.prevention_checks():
        assert check.effect is not None
        assert check.effect.before.opportunities >= 0
        assert check.effect.after.opportunities >= 0
