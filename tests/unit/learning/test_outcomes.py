from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

import engram
from engram import engine
from engram.engine import AgentHandle, Engram
from engram.errors import Conflict, InvalidInput, NotAllowed, NotFound
from engram.learning import outcomes
from engram.model import Hit
from engram.ports import KeepsEvents, LoggedRecall, Scope
from engram.recording.input import RecentRecalls
from engram.testing import FixedSources
from engram.testing.factories import START

SECRET = "ghp_" + "aB3dE6gH9j" * 4


@pytest.fixture
def sources() -> FixedSources:
    return FixedSources(step=timedelta(seconds=1))


@pytest.fixture(params=["memory", "sqlite"])
def brain(request: pytest.FixtureRequest, tmp_path: Path, sources: FixedSources) -> Iterator[Engram]:
    where = ":memory:" if request.param == "memory" else str(tmp_path / "engram.db")
    with engram.open(where, embedder="hashing", durable=False, sources=sources) as brain:
        yield brain


@pytest.fixture
def alice(brain: Engram) -> AgentHandle:
    return brain.agent("alice")


# Outcomes ------------------------------------------------------------------------------------------------


def test_an_outcome_can_be_told_later_and_then_counts(alice: AgentHandle) -> None:
    id = str(alice.record_decision(context="deploy", action="blue-green").id)
    assert alice.suggest(context="deploy").actions == ()
    assert alice.outcomes(id) == []
    assert alice.outcome(id, "success", duration=3.5, cost=0.2)
    (record,) = alice.suggest(context="deploy").actions
    assert (record.action, record.attempts) == ("blue-green", 1)
    (told,) = alice.outcomes(id)
    assert (told.quality, told.duration, told.cost) == (1.0, 3.5, 0.2)


def test_the_same_outcome_again_changes_nothing_and_another_one_is_a_conflict(alice: AgentHandle) -> None:
    id = str(alice.record_decision(context="deploy", action="blue-green", outcome="failure").id)
    assert not alice.outcome(id, "failure")
    with pytest.raises(Conflict):
        alice.outcome(id, "success")
    assert alice.outcome(id, "success", correct=True)
    assert not alice.outcome(id, "success", correct=True)
    assert [told.quality for told in alice.outcomes(id)] == [0.0, 1.0]
    (record,) = alice.suggest(context="deploy").actions
    assert (record.attempts, record.episodes_for) == (1, (id,))


def test_there_is_no_outcome_of_what_is_not_there(brain: Engram, alice: AgentHandle) -> None:
    id = str(brain.agent("bob").record_decision(context="deploy", action="wait").id)
    for unknown in (id, "nobody", "\x00", str(alice.remember("not a decision").id)):
        with pytest.raises(NotFound):
            alice.outcome(unknown, "success")
        assert alice.outcomes(unknown) == []
    with pytest.raises(InvalidInput):
        alice.outcome(id, "splendid")


def test_following_a_suggestion_is_a_decision_that_was_informed(alice: AgentHandle) -> None:
    for _ in range(4):
        alice.record_decision(context="deploy", action="blue-green", outcome="success")
    suggestion = alice.suggest(context="deploy")
    assert suggestion.id is not None
    assert alice.outcome(suggestion.id, "success")
    assert not alice.outcome(suggestion.id, "success")
    (record,) = alice.suggest(context="deploy").actions
    assert record.attempts == 5
    stats = alice.learning.stats()
    assert (stats.utilization.some, stats.utilization.all) == (1, 5)


def test_another_action_than_the_suggested_one_can_be_told(alice: AgentHandle) -> None:
    suggestion = alice.suggest(context="deploy")
    assert (suggestion.recommended, suggestion.abstained) == (None, True)
    with pytest.raises(InvalidInput, match="which action"):
        alice.outcome(str(suggestion.id), "success")
    assert alice.outcome(str(suggestion.id), "success", action="canary")
    assert [record.action for record in alice.suggest(context="deploy").actions] == ["canary"]


def test_a_secret_in_an_outcome_is_not_kept(alice: AgentHandle) -> None:
    id = str(alice.record_decision(context="deploy", action="push").id)
    alice.outcome(id, "failure", error=f"denied for {SECRET}")
    assert SECRET not in str(alice.outcomes(id))
    assert SECRET not in str(alice.learning.failures())


# Credit --------------------------------------------------------------------------------------------------


def test_the_outcome_of_a_recall_goes_to_the_memories_that_were_used(alice: AgentHandle) -> None:
    alice.remember(["the cluster is in Berlin", "the cluster was in Rome"])
    hits = alice.recall("where is the cluster?")
    assert {hit.recall for hit in hits} == {hits.id}
    wrong = next(hit for hit in hits if "Rome" in hit.memory.text)
    for _ in range(4):
        recalled = alice.recall("where is the cluster?")
        assert alice.outcome(recalled.id, "failure", used=[wrong.id])
        assert not alice.outcome(recalled.id, "failure", used=[wrong.id])
    (harmful,) = alice.learning.harmful()
    assert (harmful.id, harmful.text, harmful.helped) == (wrong.id, wrong.memory.text, 0)
    again = {hit.id: hit.score for hit in alice.recall("where is the cluster?")}
    before = {hit.id: hit.score for hit in hits}
    assert again[wrong.id] < before[wrong.id]


def test_only_what_was_shown_can_have_been_used(alice: AgentHandle) -> None:
    other = str(alice.remember("something else").id)
    alice.remember("the cluster is in Berlin")
    recalled = alice.recall("cluster in Berlin", k=1)
    with pytest.raises(InvalidInput, match="not shown"):
        alice.outcome(recalled.id, "success", used=other if other != recalled[0].id else "nobody")


@given(st.lists(st.text(min_size=1, max_size=5), unique=True, max_size=8), st.floats(0, 1), st.data())
def test_credit_is_conserved(ids: list[str], quality: float, data: st.DataObject) -> None:
    used = data.draw(st.none() | st.lists(st.sampled_from(ids), unique=True)) if ids else None
    credit = outcomes.share_credit(LoggedRecall("r", START, tuple(ids)), used, quality, START)
    given = ids if used is None else used
    total = sum(good + bad for good, bad in credit.counts.values())
    assert total == pytest.approx(1.0 if given else 0.0)
    assert sum(good for good, _ in credit.counts.values()) == pytest.approx(quality if given else 0.0)


def test_recalled_text_that_comes_back_is_no_new_evidence(alice: AgentHandle) -> None:
    fact = str(alice.remember("Staging runs PostgreSQL 15 on port 5433", kind="knowledge").id)
    (hit,) = alice.recall("which database does staging run?")
    echo = alice.remember(f" {hit.memory.text}. ", kind="knowledge")
    assert (echo.status, echo.id) == ("merged", fact)
    assert "no news" in str(echo.reason)
    known = alice.get(fact)
    assert known is not None
    assert known.evidence == 1
    noted = alice.remember(hit.memory.text)
    event = alice.get(str(noted.id))
    assert event is not None
    assert event.provenance.sources == (fact,)


def test_what_was_recalled_and_forgotten_can_be_remembered_again(alice: AgentHandle) -> None:
    text = "Staging runs PostgreSQL 15 on port 5433"
    fact = str(alice.remember(text, kind="knowledge").id)
    assert alice.recall("which database does staging run?")
    alice.forget(fact)
    again = alice.remember(text, kind="knowledge")
    assert again.status == "stored"
    assert alice.get(str(again.id)) is not None


def test_what_nobody_recalled_is_evidence(alice: AgentHandle) -> None:
    fact = alice.remember("Staging runs PostgreSQL 15 on port 5433", kind="knowledge")
    alice.remember("Staging runs PostgreSQL 15 on port 5433", kind="knowledge")
    known = alice.get(str(fact.id))
    assert known is not None
    assert known.evidence == 2


# Failures and checks -------------------------------------------------------------------------------------


def test_the_same_failure_is_recognised_whatever_varies_in_it(alice: AgentHandle) -> None:
    first = alice.learn_from_failure("TimeoutError: connect to 10.0.0.1:5432 timed out after 30s", "retry")
    second = alice.learn_from_failure(
        "TimeoutError: connect to 10.9.8.7:5433 timed out after 5s", "retry", helped=False
    )
    assert (second.pattern_id, second.occurrence_count) == (first.pattern_id, 2)
    (solution,) = second.known_solutions
    assert (solution.tried, solution.helped) == (2, 1.0)
    assert alice.learn_from_failure("PermissionError: connect to 10.0.0.1", "sudo").pattern_id != first.pattern_id


def test_a_failure_that_was_told_with_its_decision_counts_once(alice: AgentHandle) -> None:
    for _ in range(2):
        decided = alice.record_decision(
            context="ci", action="npm install", outcome="failure", error="npm ERR! ETIMEDOUT"
        )
        alice.learn_from_failure("npm ERR! ETIMEDOUT", "wait", action="npm install", context="ci", sources=[decided.id])
    (pattern,) = alice.learning.failures()
    assert (pattern.occurrence_count, pattern.known_solutions[0].tried) == (2, 2)
    recognition = alice.learning.stats().recognition
    assert (recognition.some, recognition.all) == (1, 1)


def test_a_failure_that_was_recalled_and_happens_again_is_another_one(alice: AgentHandle) -> None:
    alice.learn_from_failure("ValueError: the channel does not exist here", "create it")
    assert alice.recall("the channel does not exist")
    assert alice.learn_from_failure("ValueError: the channel does not exist here", "create it").occurrence_count == 2


def test_an_exception_can_be_learned_from(alice: AgentHandle) -> None:
    try:
        int("forty-two")
    except ValueError as error:
        pattern = alice.learn_from_failure(error, "validate first", action="parse the number")
    assert pattern.kind == "ValueError"
    with pytest.raises(InvalidInput):
        alice.learn_from_failure("  ")
    with pytest.raises(InvalidInput):
        alice.learn_from_failure(5)  # type: ignore[arg-type]


def test_a_failure_learned_once_warns_of_the_same_action_in_the_same_context(alice: AgentHandle) -> None:
    assert alice.check(action="npm install", context="ci build").decision == "allow"
    alice.learn_from_failure("npm ERR! code ETIMEDOUT", "npm cache verify", action="npm install", context="ci build")
    verdict = alice.check(action="npm install", context="ci build")
    assert verdict.decision == "warn"
    assert verdict.id is not None
    assert "npm cache verify" in [remedy.text for remedy in verdict.instead]
    again = alice.check(action="npm install", context="ci build")
    assert (again.decision, again.failures, again.checks) == (verdict.decision, verdict.failures, verdict.checks)
    assert alice.check(action="make docs", context="writing").decision == "allow"


def test_what_keeps_failing_is_blocked_and_what_works_again_is_not(alice: AgentHandle) -> None:
    for _ in range(6):
        alice.record_decision(context="ci build", action="npm install", outcome="failure", error="npm ERR! ETIMEDOUT")
    assert alice.check(action="npm install", context="ci build").decision == "block"
    for _ in range(6):
        alice.record_decision(context="ci build", action="npm install", outcome="success")
    assert alice.check(action="npm install", context="ci build").decision == "allow"


@pytest.mark.process
def test_checks_are_made_listed_and_run_only_with_permission(alice: AgentHandle) -> None:
    for _ in range(2):
        alice.learn_from_failure("npm ERR! code ETIMEDOUT", "verify npm cache", action="npm install", context="ci")
    (pattern,) = alice.learning.failures()
    (check,) = alice.learning.generate(pattern.name, stage="ci", command=["true"])
    assert (check.stage, check.command) == ("ci", ("true",))
    assert [known.name for known in alice.learning.checks()] == [check.name]
    with pytest.raises(NotAllowed):
        alice.learning.run(check.name, allowed=False, seconds=5)
    _, ran = alice.learning.run(check.name, allowed=True, seconds=5)
    assert ran.met
    assert alice.learning.checks()[0].runs == 1
    for wrong in ("nothing", ""):
        with pytest.raises(NotFound):
            alice.learning.generate(wrong)
        with pytest.raises(NotFound):
            alice.learning.run(wrong, allowed=True, seconds=5)


def test_what_the_user_says_prevents_a_failure_is_what_its_check_verifies(alice: AgentHandle) -> None:
    pattern = alice.learn_from_failure("npm ERR! code ETIMEDOUT", action="npm install", prevention="that the VPN is up")
    assert [check.verify for check in pattern.prevention_checks] == ["that the VPN is up"]


def test_a_solution_that_does_not_help_is_known_as_such(alice: AgentHandle) -> None:
    pattern = alice.learn_from_failure("KeyError: 'region'", "restart")
    for helped in (0.0, 0.0, 0.0):
        alice.learning.tried(pattern.name, "restart", helped)
    later = alice.learning.tried(pattern.pattern_id, "set the region", 1.0)
    assert [solution.text for solution in later.known_solutions] == ["set the region", "restart"]
    assert later.known_solutions[1].success_rate < 0.5


def test_secrets_do_not_reach_what_is_learned(alice: AgentHandle) -> None:
    alice.learn_from_failure(f"AuthError: token {SECRET} refused", f"use {SECRET}", action=f"login {SECRET}")
    alice.record_decision(
        context=f"login with {SECRET}",
        action=f"use {SECRET}",
        outcome="failure",
        error=f"refused {SECRET}",
        tool=SECRET,
    )
    everything = [alice.learning.failures(), alice.learning.history(), alice.check(action=f"login {SECRET}")]
    assert SECRET not in str(everything)


# Reports -------------------------------------------------------------------------------------------------


def test_the_measures_are_about_the_agents_own_data(brain: Engram, alice: AgentHandle, sources: FixedSources) -> None:
    assert alice.learning.stats().success_rate is None
    for day in range(60):
        sources.advance(timedelta(days=1))
        outcome = "success" if day > 20 or day % 2 else "failure"
        alice.record_decision(context="deploy", action="blue-green", outcome=outcome, environment="ci")
    stats = alice.learning.stats()
    assert (stats.decisions, stats.with_outcome) == (60, 60)
    assert stats.effectiveness is not None
    trend = stats.effectiveness
    assert (trend.baseline_decisions, trend.recent_decisions, trend.recent) == (21, 39, 1.0)
    assert trend.changed_at is not None
    assert trend.difference == pytest.approx(11 / 21)
    assert trend.interval[0] < trend.difference < trend.interval[1]
    assert stats.calibration.brier is not None
    assert stats.calibration.decisions == 59
    assert brain.agent("bob").learning.stats().decisions == 0
    together = brain.agent("bob").learning.stats([alice.learning])
    assert together.agents == ("bob", "alice")
    assert together.decisions == 60


def test_a_decision_is_informed_only_by_what_its_agent_was_given(brain: Engram, alice: AgentHandle) -> None:
    memory = alice.remember("The bridge is closed on Sundays").id
    recall = alice.recall("bridge").id
    for number in range(3):
        alice.record_decision(context="ferry", action="wait", outcome="success", informed_by=[f"made-up-{number}"])
    theirs = brain.agent("bob").suggest(context="ferry").id
    alice.record_decision(context="ferry", action="wait", outcome="success", informed_by=[str(theirs)])
    assert alice.learning.stats().utilization.some == 0
    unread = alice.remember("The tram runs on Sundays").id
    alice.record_decision(context="ferry", action="wait", outcome="success", informed_by=[str(unread)])
    nothing = alice.suggest(context="bake a cake")
    assert not nothing.actions
    alice.record_decision(context="ferry", action="wait", outcome="success", informed_by=[str(nothing.id)])
    yesterday = START - timedelta(days=1)
    alice.record_decision(context="ferry", action="wait", outcome="success", informed_by=[recall], at=yesterday)
    assert alice.learning.stats().utilization.some == 0
    for id in (memory, recall, alice.suggest(context="ferry").id):
        alice.record_decision(context="ferry", action="wait", outcome="success", informed_by=["made-up", str(id)])
    alice.learn_from_failure("TimeoutError: no answer", "wait", action="call", context="ferry")
    (pattern,) = alice.learning.failures()
    alice.record_decision(context="ferry", action="wait", outcome="success", informed_by=[pattern.pattern_id])
    for _ in range(4):
        alice.record_decision(context="ferry", action="call", outcome="failure", error="TimeoutError: no answer")
    verdict = alice.check(action="call", context="ferry")
    assert verdict.id is not None
    alice.record_decision(context="ferry", action="wait", outcome="success", informed_by=[verdict.id])
    alice.record_decision(context="ferry", action="wait", outcome="success", informed_by=[verdict.id], at=yesterday)
    assert alice.learning.stats().utilization.some == 5
    before = alice.learning.stats()
    brain._parts.experience.anew(Scope("alice"))
    assert alice.learning.stats() == before


def test_recognition_is_measured_by_failures_that_the_recogniser_did_not_pair(alice: AgentHandle) -> None:
    alice.learn_from_failure("TimeoutError: connect to 10.0.0.1:5432 timed out after 30s", "retry")
    alice.learn_from_failure("KeyError: 'name'", "default")
    assert alice.learning.stats().recognition.all == 0
    alice.learn_from_failure("TimeoutError: connect to 10.0.0.9:5433  timed out after 5s", "retry")
    recognition = alice.learning.stats().recognition
    assert (recognition.some, recognition.all) == (1, 1)
    assert recognition.interval is not None
    assert recognition.interval[0] < 1 == recognition.interval[1]


def test_the_same_root_cause_is_the_same_failure_also_if_it_is_not_recognised(alice: AgentHandle) -> None:
    for error in ("ENOSPC", "sqlite3.OperationalError: database or disk is full"):
        alice.learn_from_failure(error, "clean up", root_cause="the disk is full", action="write")
    recognition = alice.learning.stats().recognition
    assert (recognition.some, recognition.all) == (0, 1)


def test_a_prediction_follows_the_outcomes(alice: AgentHandle) -> None:
    for _ in range(8):
        alice.record_decision(context="deploy", action="blue-green", outcome="success")
        alice.record_decision(context="deploy", action="big bang", outcome="failure")
    good = alice.predict(context="deploy", action="blue-green")
    bad = alice.predict(context="deploy", action="big bang")
    assert good.probability > 0.75
    assert bad.probability < 0.25
    assert good.interval[0] < good.probability < good.interval[1]
    assert (good.attempts, bad.attempts) == (8, 8)


def test_hits_of_a_recall_are_a_list(alice: AgentHandle) -> None:
    alice.remember("the cluster is in Berlin")
    hits = alice.recall("cluster")
    assert isinstance(hits, list)
    assert all(isinstance(hit, Hit) for hit in hits)


# What users stumbled over ----------------------------------------------------------------------------------


def test_other_circumstances_do_not_outvote_the_same_ones(alice: AgentHandle) -> None:
    for number in range(60):
        where, outcome = ("prod", "success") if number % 3 == 0 else ("ci", "failure")
        alice.record_decision(context="run the migration", action="expand", outcome=outcome, environment=where)
    there = alice.predict(context="run the migration", action="expand", environment="prod")
    assert there.probability > 0.85
    assert there.attempts == 20
    assert alice.predict(context="run the migration", action="expand", environment="ci").probability < 0.15


def test_what_is_known_of_such_circumstances_is_shown_where_nothing_is_near(alice: AgentHandle) -> None:
    for _ in range(5):
        alice.record_decision(context="run the migration", action="expand", outcome="success", environment="ci")
    suggestion = alice.suggest(context="zzz qqq", environment="ci")
    assert suggestion.abstained
    assert [record.action for record in suggestion.actions] == ["expand"]


def test_refusals_count_before_they_are_written(alice: AgentHandle) -> None:
    for _ in range(3):
        alice.record_decision(context="ci", action="npm install", outcome="failure", error="npm ERR! ETIMEDOUT")
    verdicts = [alice.check(action="npm install", context="ci").decision for _ in range(12)]
    assert verdicts[0] == "block"
    assert "allow" in verdicts


@pytest.mark.process
def test_a_check_whose_command_finds_all_well_no_longer_blocks(alice: AgentHandle) -> None:
    for _ in range(4):
        alice.learn_from_failure("npm ERR! code ETIMEDOUT", "verify npm cache", action="npm install", context="ci")
    assert alice.check(action="npm install", context="ci").decision == "block"
    (pattern,) = alice.learning.failures()
    (check,) = alice.learning.generate(pattern.name, command=["true"])
    alice.learning.run(check.name, allowed=True, seconds=5)
    verdict = alice.check(action="npm install", context="ci")
    assert (verdict.decision, "found to be so" in verdict.reason) == ("warn", True)
    alice.learning.generate(pattern.name, command=["false"])
    alice.learning.run(check.name, allowed=True, seconds=5)
    assert alice.check(action="npm install", context="ci").decision == "block"


def test_nothing_wrong_can_be_said_about_a_solution_or_a_check(alice: AgentHandle) -> None:
    name = alice.learn_from_failure("EPIPE broken pipe", "use ssh", action="push").name
    for helped in (5, -3, float("nan")):
        with pytest.raises(InvalidInput):
            alice.learning.tried(name, "use ssh", helped)
    with pytest.raises(InvalidInput):
        alice.learning.tried(name, "  ", 1.0)
    for command in ("true", [], [""], ["a\0b"], [1], ["curl", "-H", f"Authorization: Bearer {SECRET}"]):
        with pytest.raises(InvalidInput):
            alice.learning.generate(name, command=command)  # type: ignore[arg-type]
    alice.learning.tried(name, f"rotate {SECRET}", 1.0)
    alice.learning.generate(name, stage=f"stage {SECRET}")
    with pytest.raises(NotFound) as missing:
        alice.learning.tried(f"pattern {SECRET}", "x")
    assert SECRET not in str([alice.learning.failures(), alice.learning.checks(), missing.value])
    assert alice.check(action="push").decision == "warn"


def test_following_a_suggestion_keeps_its_circumstances_and_can_be_corrected(alice: AgentHandle) -> None:
    suggestion = alice.suggest(context="deploy", environment="prod", tool="helm", task_type="release", tags=["x"])
    id = str(suggestion.id)
    with pytest.raises(InvalidInput):
        alice.outcome(id, "success", action="  ")
    with pytest.raises(InvalidInput):
        alice.outcome(id, "success", action="x\0y")
    with pytest.raises(InvalidInput):
        alice.outcome(id, "success", action="canary", used=["nobody"])
    assert alice.learning.history() == []
    assert alice.outcome(id, "failure", action="canary")
    (episode,) = alice.learning.history()
    assert episode.features == {"env=prod", "tool=helm", "type=release", "tag=x"}
    assert not alice.outcome(id, "failure")
    with pytest.raises(Conflict):
        alice.outcome(id, "success")
    assert alice.outcome(id, "success", correct=True)
    assert [told.quality for told in alice.outcomes(episode.id)] == [0.0, 1.0]


def test_another_outcome_of_the_same_recall_is_a_conflict(alice: AgentHandle) -> None:
    alice.remember("the cluster is in Berlin")
    recalled = alice.recall("cluster")
    assert alice.outcome(recalled.id, "success")
    with pytest.raises(Conflict):
        alice.outcome(recalled.id, "failure")


def test_a_memory_shows_the_outcome_that_was_told_last(alice: AgentHandle) -> None:
    id = str(alice.record_decision(context="auth", action="restart the service", outcome="failure").id)
    alice.outcome(id, "success", correct=True)
    (hit,) = alice.recall("restart the service")
    known = alice.get(id)
    assert known is not None
    assert [known.success_rate, hit.memory.success_rate, alice.list()[0].success_rate] == [1.0, 1.0, 1.0]


def test_durations_and_costs_are_numbers_from_zero_on(alice: AgentHandle) -> None:
    id = str(alice.record_decision(context="auth", action="restart").id)
    for wrong in (-1, "2", True, float("nan"), float("inf")):
        with pytest.raises(InvalidInput):
            alice.outcome(id, "success", duration=wrong)  # type: ignore[arg-type]
        with pytest.raises(InvalidInput):
            alice.outcome(id, "success", cost=wrong)  # type: ignore[arg-type]
    assert alice.outcome(id, "success", duration=1.5)
    assert alice.outcome(id, "success", cost=0.5)
    assert not alice.outcome(id, "success", cost=0.5)


def test_nothing_about_a_failure_stays_when_it_is_forgotten(brain: Engram, alice: AgentHandle) -> None:
    pattern = alice.learn_from_failure("KeyError: 'zanzibar'", "add zanzibar", action="load")
    alice.learning.tried(pattern.name, "sail to zanzibar", 1.0)
    alice.forget(pattern.episodes[0])
    assert isinstance(brain.store, KeepsEvents)
    assert "zanzibar" not in str(brain.store.events_after(Scope("alice"), 0, 100))


def test_a_lent_memory_informs_only_whom_it_was_shown(brain: Engram, alice: AgentHandle) -> None:
    bob = brain.agent("bob")
    lent = str(alice.remember("The bridge is closed on Sundays").id)
    alice.recall("bridge")
    alice.grants.share("bob", everything=True)
    bob.record_decision(context="ferry", action="wait", outcome="success", informed_by=[lent])
    assert bob.learning.stats().utilization.some == 0
    bob.recall("bridge")
    brain._parts.recent_recalls = RecentRecalls()  # as in another process
    bob = brain.agent("bob")
    bob.record_decision(context="ferry", action="wait", outcome="success", informed_by=[lent])
    assert bob.learning.stats().utilization.some == 1


# Several agents asked together ---------------------------------------------------------------------------


def test_agents_asked_together_count_alike_in_any_order(brain: Engram) -> None:
    amy, bea = brain.agent("amy"), brain.agent("bea")
    for number in range(20):
        bea.record_decision(context="deploy api", action="rolling", outcome="success" if number % 10 else "failure")
    for number in range(6):
        amy.record_decision(context="deploy api", action="rolling", outcome="success" if number else "failure")
    first, second = engine.suggest([amy, bea], "deploy api"), engine.suggest([bea, amy], "deploy api")
    assert first.recommended == second.recommended == "rolling"
    assert first.actions[0].success_rate == pytest.approx(second.actions[0].success_rate, abs=1e-4)
    assert first.actions[0].success_rate == pytest.approx(0.87, abs=0.04)  # 23 of 26, none of them capped
    assert first.actions[0].attempts == 26
    forth, back = (engine.predict(asked, "deploy api", "rolling") for asked in ([amy, bea], [bea, amy]))
    assert forth.probability == pytest.approx(back.probability, abs=1e-4)


def test_an_agent_that_knows_nothing_about_a_context_changes_nothing(brain: Engram) -> None:
    amy, bea = brain.agent("amy"), brain.agent("bea")
    for number in range(20):
        bea.record_decision(context="deploy api", action="rolling", outcome="success" if number % 10 else "failure")
    amy.remember("The canteen opens at noon")
    amy.record_decision(context="order lunch", action="pizza", outcome="failure")
    amy.record_decision(context="order lunch", action="rolling", outcome="failure")
    alone, together = bea.suggest("deploy api"), engine.suggest([amy, bea], "deploy api")
    assert [each.action for each in together.actions] == ["rolling"]
    assert together.actions[0].success_rate == pytest.approx(alone.actions[0].success_rate, abs=1e-3)
    assert together.actions[0].interval == pytest.approx(alone.actions[0].interval, abs=1e-3)


def test_statistics_of_several_agents_do_not_depend_on_their_order(brain: Engram) -> None:
    amy, bea = brain.agent("amy"), brain.agent("bea")
    for number in range(12):
        for agent, good in ((amy, number % 2), (bea, number % 4)):
            agent.record_decision(context="deploy api", action="rolling", outcome="success" if good else "failure")
    forth, back = amy.learning.stats([bea.learning]), bea.learning.stats([amy.learning])
    assert forth.model_copy(update={"agents": back.agents}) == back
    assert forth.success_patterns == len(amy.learning.synthesis().patterns) + len(bea.learning.synthesis().patterns)


def test_what_an_asked_agent_lends_another_one_counts_once(brain: Engram) -> None:
    amy, bea = brain.agent("amy"), brain.agent("bea")
    for _ in range(8):
        bea.record_decision(context="deploy api", action="rolling", outcome="success")
    grant = bea.grants.share("amy", everything=True, purpose="help")
    together = engine.suggest([amy, bea], "deploy api")
    assert together.actions[0].success_rate == pytest.approx(
        bea.suggest("deploy api").actions[0].success_rate, abs=1e-3
    )
    assert bea.grants.uses(grant.id) == []


def test_numbered_contexts_are_predicted_from_their_situation(brain: Engram, alice: AgentHandle) -> None:
    chance, places = Random(1), ["disk of host is full", "login to billing times out", "release of the web shop"]
    actions = ["restart", "retry", "rollback"]
    real = []
    for number in range(60):
        place, action = chance.randrange(3), chance.choice(actions)
        context, good = f"{places[place]}, case {1000 + number}", action == actions[place]
        if number:
            real.append((alice.predict(context, action).probability - good) ** 2)
        alice.record_decision(context=context, action=action, outcome="success" if good else "failure")
    told = alice.learning.calibration()
    assert told.brier is not None
    assert told.base_rate_brier is not None
    assert told.brier < 0.8 * told.base_rate_brier
    assert told.brier == pytest.approx(sum(real) / len(real), abs=0.04)
    assert alice.learning.stats().calibration == told
