"""Suggestions with plain calls and default settings, from a memory with many kinds of work."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import engram
from engram.engine import AgentHandle, Engram
from engram.errors import InvalidInput

CONTEXTS = (
    "Stripe answers 429 to a charge",
    "release of the billing service",
    "the nightly backup of the warehouse is late",
    "a customer asks for a refund after the deadline",
    "flaky browser test in the checkout suite",
    "disk of the build agent is full",
    "translate the onboarding mail into German",
    "DNS lookup fails in the staging cluster",
    "migrate a table with forty million rows",
    "the forklift battery is low before a shift",
    "write a summary of a research paper",
    "login with single sign-on loops forever",
    "a supplier sends an invoice without a number",
    "memory of the recommendation worker grows",
    "the sensor on line four reports negative pressure",
    "reply to a negative review in the app store",
    "rotate the signing key of the mobile app",
    "schedule interviews with four candidates",
    "images load slowly on the landing page",
    "the data import finds duplicate product codes",
)
OFF_TOPIC = (
    "bake a chocolate cake",
    "which shoes to wear to a wedding",
    "the cat refuses to eat",
    "plan a weekend in the mountains",
    "learn to play the violin",
    "why is the sky blue",
    "paint the living room",
    "grow tomatoes on a balcony",
)


@pytest.fixture(scope="module", params=[pytest.param("default", marks=pytest.mark.model), "hashing"])
def brain(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engram]:
    embedder = {} if request.param == "default" else {"embedder": request.param}
    with engram.open(tmp_path_factory.mktemp("advice") / "engram.db", **embedder) as opened:
        yield opened


@pytest.fixture(scope="module")
def experienced(brain: Engram) -> AgentHandle:
    return taught(brain, len(CONTEXTS))


def learn(agent: AgentHandle, context: str, action: str, successes: int, attempts: int) -> None:
    for number in range(attempts):
        good = (number * successes) // attempts != ((number + 1) * successes) // attempts
        agent.record_decision(context=context, action=action, outcome="success" if good else "failure")


def taught(brain: Engram, number: int) -> AgentHandle:
    agent = brain.agent(f"knows {number}")
    for place, context in enumerate(CONTEXTS[:number]):
        learn(agent, context, f"good way {place}", 18, 20)
        learn(agent, context, f"bad way {place}", 6, 20)
    return agent


@pytest.mark.parametrize("number", [1, 2, 5])
def test_each_of_a_few_contexts_is_advised_what_worked_there(brain: Engram, number: int) -> None:
    agent = taught(brain, number)
    advised = [agent.suggest(context=context).recommended for context in CONTEXTS[:number]]
    assert advised == [f"good way {place}" for place in range(number)]


def test_each_of_twenty_contexts_is_advised_what_worked_there(experienced: AgentHandle) -> None:
    advised = [experienced.suggest(context=context).recommended for context in CONTEXTS]
    assert advised == [f"good way {place}" for place in range(len(CONTEXTS))]


def test_other_words_for_a_context_get_its_advice_or_none(experienced: AgentHandle) -> None:
    for said, place in (("Stripe answers 429 to charges", 0), ("the disk of a build agent is full", 5)):
        assert experienced.suggest(context=said).recommended in (f"good way {place}", None)


def test_what_is_about_nothing_in_the_memory_gets_no_advice(experienced: AgentHandle) -> None:
    assert [experienced.suggest(context=said).recommended for said in OFF_TOPIC] == [None] * len(OFF_TOPIC)


def test_much_success_elsewhere_does_not_outweigh_a_little_here(brain: Engram) -> None:
    agent = brain.agent("payments")
    learn(agent, "Stripe answers 429", "exponential backoff", 5, 6)
    learn(agent, "release of service X", "rolling update", 12, 12)
    assert agent.suggest(context="Stripe answers 429").recommended == "exponential backoff"


def test_every_part_says_the_same_of_an_action_that_stopped_working(brain: Engram) -> None:
    agent = brain.agent("releases")
    start = datetime.now(UTC) - timedelta(days=12)
    for number in range(40):
        agent.record_decision(
            context="release of service X",
            action="rolling update",
            outcome="success" if number < 30 else "failure",
            error="" if number < 30 else "readiness probe failed",
            at=start + timedelta(hours=6 * number),
        )
    suggestion = agent.suggest(context="release of service X")
    assert suggestion.abstained
    assert "failed 10 of 10 times since" in suggestion.reason
    assert agent.predict(context="release of service X", action="rolling update").probability < 0.3
    assert agent.check(action="rolling update", context="release of service X").decision == "block"
    (alarm,) = agent.learning.alarms()
    assert (alarm.action, alarm.contradicting) == ("rolling update", 10)
    assert not agent.learning.synthesis().patterns


def test_an_abstention_says_what_stopped_working_even_where_something_else_is_rated_higher(brain: Engram) -> None:
    agent = brain.agent("releases")
    start = datetime.now(UTC) - timedelta(days=12)
    for number in range(40):
        for action, good in (("rolling update", number < 30), ("recreate the pods", number % 8 in {1, 4, 6})):
            outcome = "success" if good else "failure"
            at = start + timedelta(hours=6 * number)
            agent.record_decision(context="release of service X", action=action, outcome=outcome, at=at)
    suggestion = agent.suggest(context="release of service X")
    assert suggestion.abstained
    assert suggestion.actions[0].action == "recreate the pods"
    assert "rolling update worked until" in suggestion.reason


def test_what_works_instead_is_said_in_all_words_of_the_situation(brain: Engram) -> None:
    agent = brain.agent("alice")
    backup, saved = "nightly backup of the ward database", "patient data are saved every evening"
    for _ in range(5):
        agent.record_decision(context=backup, action="full dump", outcome="failure")
        agent.record_decision(context=backup, action="stream it", outcome="success")
    agent.record_decision(context=saved, action="ask the vendor")
    agent.situations.merge(backup, [saved])
    verdict = agent.check("full dump", context=saved)
    assert verdict.decision == "block"
    assert [remedy.text for remedy in verdict.instead] == ["stream it"]


def test_where_numbers_tell_situations_apart_a_new_number_gets_no_advice(brain: Engram) -> None:
    agent = brain.agent("alice")
    for _ in range(8):
        agent.record_decision(context="the gateway answers 429", action="back off", outcome="success")
        agent.record_decision(context="the gateway answers 500", action="open a ticket", outcome="success")
    assert agent.suggest("the gateway answers 429").recommended == "back off"
    assert agent.suggest("the gateway answers 500").recommended == "open a ticket"
    assert agent.suggest("the gateway answers 503").abstained
    agent.record_decision(context="the gateway answers 503", action="wait", outcome="success")
    assert agent.suggest("the gateway answers 503").recommended in {None, "wait"}
    for attempt in range(8):
        agent.record_decision(context=f"build {attempt} is red", action="bisect", outcome="success")
    assert agent.suggest("build 77 is red").recommended == "bisect"


def test_a_check_knows_what_fails_in_other_words_of_a_situation_among_much_that_works_elsewhere(brain: Engram) -> None:
    agent = brain.agent("alice")
    words = ["a service is down", "nobody reaches the shop", "the pager went off at night"]
    for number in range(4):
        for context in words[:2]:
            outcome = "success" if number == 1 else "failure"
            agent.record_decision(context=context, action="restart the service", outcome=outcome)
    for number in range(80):
        context = f"{chr(97 + number % 26) * 5} {chr(97 + number // 26) * 6} is old"
        agent.record_decision(context=context, action="restart the service", outcome="success")
    agent.record_decision(context=words[2], action="look at the dashboard", outcome="success")
    agent.situations.merge(words[0], words[1:])
    verdict = agent.check("restart the service", context=words[2])
    assert verdict.decision != "allow"
    assert verdict.reason == "it failed 6 of 8 times in this situation"
    assert agent.check("restart the service", context="aaaaa aaaaaa is old").decision == "allow"


@pytest.mark.parametrize(("given", "kind"), [(5, "int"), (0, "int"), (["a list"], "list"), ([], "list")])
def test_a_context_that_is_no_text_is_refused_for_what_it_is(brain: Engram, given: Any, kind: str) -> None:
    agent = brain.agent("alice")
    for ask in (
        lambda: agent.suggest(given),
        lambda: agent.predict(given, "wait"),
        lambda: agent.check("wait", given),
        lambda: agent.record_decision(context=given, action="wait"),
    ):
        with pytest.raises(InvalidInput, match=f"context must be a text, not {kind}"):
            ask()
    with pytest.raises(InvalidInput, match=f"action must be a text, not {kind}"):
        agent.check(given, "a context")


def test_advice_and_checks_do_not_contradict_each_other(brain: Engram) -> None:
    agent = brain.agent("alice")
    for good in [True] * 12 + [False] * 3:
        agent.record_decision(
            context="release of the shop", action="rolling update", outcome="success" if good else "failure"
        )
        told = agent.suggest("release of the shop")
        refused = agent.check("rolling update", context="release of the shop").decision == "block"
        assert not (refused and told.recommended == "rolling update")


def test_where_all_evidence_is_about_one_mediocre_action_it_says_what_another_would_be_worth(brain: Engram) -> None:
    agent = brain.agent("alice")
    for number in range(20):
        agent.record_decision(
            context="a slow query", action="add an index", outcome="failure" if number % 3 == 2 else "success"
        )
    told = agent.suggest("a slow query")
    assert told.recommended == "add an index"
    assert "an unknown action would be better with a probability of" in told.reason
    for _ in range(5):
        agent.record_decision(context="a slow query", action="rewrite it", outcome="failure")
    assert "unknown action" not in agent.suggest("a slow query").reason


def test_a_template_recommends_where_a_suggestion_does(brain: Engram) -> None:
    agent = brain.agent("dba")
    for number in range(12):
        for step in ("lock the table", "take a backup"):
            agent.record_decision(context=f"migration {number} of the orders table", action=step, outcome="success")
    told = agent.suggest("migration 40 of the orders table")
    (template,) = agent.learning.synthesis().templates
    branch = template.decide(set())
    assert told.recommended in {"lock the table", "take a backup"}
    assert branch.recommended in {"lock the table", "take a backup"}
    assert "either this or" in told.reason
    assert "either this or" in branch.reason


def test_what_was_never_tried_counts_where_the_caller_names_it(brain: Engram) -> None:
    agent = brain.agent("tester")
    named = ["retry", "wait"]
    assert agent.suggest("a test hangs", actions=named).reason == "none of these has been tried in this context yet"
    for number in range(6):
        agent.record_decision(context="a test hangs", action="retry", outcome="failure" if number % 3 else "success")
    assert agent.suggest("a test hangs", actions=named).abstained
    for _ in range(20):
        agent.record_decision(context="a test passes slowly", action="retry", outcome="success")
    assert agent.suggest("a test passes slowly", actions=named).recommended == "retry"


PARAPHRASES = {
    "renew with certbot": (
        "TLS certificate of the shop expired",
        "the certificate of the shop is about to expire",
        "browser warns about the certificate of the shop",
        "renewal of the certificate for the shop failed",
    ),
    "rotate the logs": (
        "disk of the build server is full",
        "no space left on the disk of the build server",
        "the build server ran out of disk space",
        "cannot write, the build server has a full disk",
    ),
    "set a lock timeout": (
        "database migration waits for a lock",
        "schema migration blocked by a lock in the database",
        "the database migration cannot get its lock",
        "migration of the database hangs on a lock",
    ),
    "roll back": (
        "errors after the release of the shop",
        "error rate is up since the new release of the shop",
        "the shop throws errors after we released it",
        "users see errors since the last shop release",
    ),
    "freeze the clock": (
        "the login test fails now and then",
        "flaky login test in CI",
        "the test of the login is red at random",
        "unstable test: login fails sometimes in CI",
    ),
}
"""For each action that works, four wordings of the situation."""
NEW_WORDINGS = {
    "renew with certbot": "the shop has an expired certificate",
    "rotate the logs": "disk full on the build server again",
    "set a lock timeout": "a lock blocks the database migration",
    "roll back": "many errors since the release of the shop",
    "freeze the clock": "the login test is flaky",
}


def test_few_decisions_in_many_wordings_are_pooled_where_the_nearest_contexts_call_for_the_same() -> None:
    with engram.open(":memory:") as brain:
        agent = brain.agent("few")
        for _ in range(4):
            for action, wordings in PARAPHRASES.items():
                for context in wordings:
                    agent.record_decision(context=context, action=action, outcome="success")
                    agent.record_decision(context=context, action=f"try to {action} twice", outcome="failure")
        answers = {action: agent.suggest(context).recommended for action, context in NEW_WORDINGS.items()}
        assert {action: answer for action, answer in answers.items() if answer not in {action, None}} == {}
        assert sum(answer is not None for answer in answers.values()) >= 4
        assert all(agent.suggest(context).abstained for context in OFF_TOPIC)


@pytest.mark.parametrize(
    ("known", "asked"),
    [
        ("buy shares", "sell shares"),
        ("switch the heating on", "switch the heating off"),
        ("log in fails", "log out fails"),
        ("lock door", "unlock door"),
        ("Der Kunde verlangt eine Erstattung", "Der Kunde verlangt eine Rechnung"),
        ("Kunde verlangt Erstattung", "Kunde verlangt keine Erstattung"),
        ("顧客が返金を求めている", "顧客が返金を求めていない"),
        ("сервер отвечает", "сервер не отвечает"),
    ],
)
@pytest.mark.parametrize("embedder", [pytest.param("arctic-embed-s", marks=pytest.mark.model), "hashing"])
def test_the_opposite_gets_no_advice(known: str, asked: str, embedder: str) -> None:
    with engram.open(":memory:", embedder=embedder) as brain:
        agent = brain.agent("one")
        learn(agent, known, "do it", 18, 20)
        for context in CONTEXTS[:5]:
            learn(agent, context, f"mend {context[-8:]}", 8, 10)
        assert agent.suggest(known).recommended == "do it"
        assert agent.suggest(asked).recommended is None
        assert agent.check("do it", asked).decision == "allow"


def test_german_contexts_are_told_apart_by_their_nouns() -> None:
    with engram.open(":memory:") as brain:
        agent = brain.agent("anna")
        learn(agent, "Der Drucker in Halle 3 druckt nicht", "Papierstau beheben", 18, 20)
        assert agent.suggest("Drucker in Halle 7 druckt nicht").recommended == "Papierstau beheben"
        assert agent.suggest("Der Aufzug in Halle 3 fährt nicht").recommended is None


def test_words_in_another_order_were_never_met() -> None:
    with engram.open(":memory:", embedder="hashing") as brain:
        agent = brain.agent("ann")
        learn(agent, "convert CSV to JSON", "use the script", 18, 20)
        assert agent.suggest("convert JSON to CSV").actions[0].attempts == 0


def test_a_failure_that_is_told_by_itself_counts_in_all_advice() -> None:
    with engram.open(":memory:") as brain:
        agent = brain.agent("ben")
        for number in range(6):
            agent.learn_from_failure("ERR network timeout", "wait", action="npm install", context=f"CI build {number}")
            agent.record_decision(context=f"parcel {number} is late", action="call", outcome="success")
        assert agent.check("npm install", "CI build 77").decision != "allow"
        assert agent.predict("CI build 77", "npm install").probability < 0.3
        (known,) = agent.suggest("CI build 77").actions
        assert known.action == "npm install"
        assert known.success_rate < 0.3


def test_a_failure_that_is_told_with_its_decision_counts_once() -> None:
    with engram.open(":memory:") as brain:
        agent = brain.agent("cem")
        agent.record_decision(context="CI build", action="npm install", outcome="failure", error="ERR timeout")
        before = agent.predict("CI build", "npm install")
        agent.learn_from_failure("ERR timeout", "wait", action="npm install", context="CI build")
        after = agent.predict("CI build", "npm install")
        assert after.attempts == before.attempts == 1
        assert after.probability == pytest.approx(before.probability, abs=0.01)
