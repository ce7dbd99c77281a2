"""Consent: what one agent may see and use of another's knowledge, and what is left when it may no longer."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

import engram
from engram import AgentHandle, Engram, audit
from engram.errors import Conflict, InvalidInput, NotAllowed, NotFound
from engram.model import Origin, Verdict
from engram.model.grant import Grant, GrantState, Right
from engram.ports import KeepsAudit, reserved
from engram.sharing.lenders import import_scope
from engram.testing.factories import FixedSources

HOUR = timedelta(hours=1)
SECRET_OF_ALICE = "The staging database runs PostgreSQL 15 behind pgbouncer"


@pytest.fixture
def clock() -> FixedSources:
    return FixedSources()


@pytest.fixture(params=["sqlite", "memory"])
def brain(request: pytest.FixtureRequest, tmp_path: Path, clock: FixedSources) -> Iterator[Engram]:
    db = ":memory:" if request.param == "memory" else tmp_path / "team.db"
    with engram.open(db, embedder="hashing", durable=False, sources=clock) as opened:
        yield opened


@pytest.fixture
def alice(brain: Engram) -> AgentHandle:
    return brain.agent("alice")


@pytest.fixture
def bob(brain: Engram) -> AgentHandle:
    return brain.agent("bob")


def remembered(agent: AgentHandle, text: str, **fields: object) -> str:
    receipt = agent.remember(text, **fields)
    assert receipt.id is not None
    return receipt.id


def sees(agent: AgentHandle, id: str) -> bool:
    """Whether any way to read shows the memory; all must agree."""
    ways = {
        "get": agent.get(id) is not None,
        "recall": id in [hit.id for hit in agent.recall("which database runs in staging?", k=50)],
        "list": id in [memory.id for memory in agent.list(shared=True, limit=100)],
    }
    assert len(set(ways.values())) == 1, ways
    return ways["get"]


def test_nothing_is_shared_without_a_grant(alice: AgentHandle, bob: AgentHandle) -> None:
    id = remembered(alice, SECRET_OF_ALICE, tags=["db"])
    remembered(bob, "Bob knows which database runs in production")
    assert not sees(bob, id)


def test_a_request_shares_only_once_the_owner_approves(alice: AgentHandle, bob: AgentHandle) -> None:
    id = remembered(alice, SECRET_OF_ALICE, tags=["db"])
    grant = bob.grants.request("alice", tags=["db"], purpose="to migrate staging")
    assert grant.state == GrantState.REQUESTED
    assert not sees(bob, id)
    with pytest.raises(NotAllowed, match=r"alice.* has to approve"):
        bob.grants.approve(grant.id)
    assert alice.grants.approve(grant.id).state == GrantState.GRANTED
    assert sees(bob, id)
    with pytest.raises(Conflict, match="granted already"):
        alice.grants.approve(grant.id)


def test_an_offer_shares_once_the_receiver_approves_it_as_it_is(alice: AgentHandle, bob: AgentHandle) -> None:
    id = remembered(alice, SECRET_OF_ALICE)
    grant = alice.grants.offer("bob", memories=[id], purpose="you will need it", rights=["read"])
    assert not sees(bob, id)
    with pytest.raises(NotAllowed, match="only the owner"):
        bob.grants.approve(grant.id, rights=["read", "reshare"])
    bob.grants.approve(grant.id)
    assert sees(bob, id)


def test_what_was_denied_is_not_shared(alice: AgentHandle, bob: AgentHandle) -> None:
    id = remembered(alice, SECRET_OF_ALICE, tags=["db"])
    grant = bob.grants.request("alice", tags=["db"], purpose="curiosity")
    alice.grants.deny(grant.id)
    assert not sees(bob, id)
    with pytest.raises(Conflict, match="denied"):
        alice.grants.approve(grant.id)


def test_only_what_is_covered_is_seen(alice: AgentHandle, bob: AgentHandle) -> None:
    shown = remembered(alice, SECRET_OF_ALICE, tags=["db"])
    hidden = remembered(alice, "The staging database password is kept in the vault", tags=["ops"])
    alice.grants.share("bob", tags=["db"])
    assert sees(bob, shown)
    assert not sees(bob, hidden)
    later = remembered(alice, "The staging database will move to PostgreSQL 17", tags=["db"])
    assert sees(bob, later)
    alice.annotate(later, tags=["ops"])
    assert not sees(bob, later)


def test_what_is_lent_says_so(alice: AgentHandle, bob: AgentHandle) -> None:
    id = remembered(alice, SECRET_OF_ALICE)
    alice.grants.share("bob", memories=[id])
    (hit,) = bob.recall("which database runs in staging?")
    assert (hit.memory.agent, hit.memory.provenance.origin, hit.why["source"]) == (
        "alice",
        Origin.SHARED,
        "agent:alice",
    )
    assert hit.memory.trust < 0.5
    own = alice.get(id)
    assert own is not None
    assert own.trust == 1.0


def test_a_revocation_ends_it_at_once_in_every_process(tmp_path: Path) -> None:
    with (
        engram.open(tmp_path / "team.db", embedder="hashing", durable=False) as one,
        engram.open(tmp_path / "team.db", embedder="hashing", durable=False) as other,
    ):
        alice, bob = one.agent("alice"), other.agent("bob")
        id = remembered(alice, SECRET_OF_ALICE)
        grant = alice.grants.share("bob", memories=[id])
        assert sees(bob, id)
        alice.grants.revoke(grant.id)
        assert not sees(bob, id)


def test_a_grant_that_ran_out_is_over_also_when_the_clock_is_set_back(
    alice: AgentHandle, bob: AgentHandle, clock: FixedSources
) -> None:
    id = remembered(alice, SECRET_OF_ALICE)
    grant = alice.grants.share("bob", memories=[id], expires=timedelta(hours=1))
    assert sees(bob, id)
    clock.advance(2 * HOUR)
    assert not sees(bob, id)
    assert bob.grants.get(grant.id).state == GrantState.EXPIRED
    alice.grants.share("bob", tags=["other"])  # which is written down at the later time
    clock.advance(-2 * HOUR)
    assert not sees(bob, id)


def test_who_is_no_party_to_a_grant_learns_nothing_of_it(brain: Engram, alice: AgentHandle) -> None:
    grant = alice.grants.share("bob", tags=["db"])
    carol = brain.agent("carol")
    assert carol.grants.list() == []
    for call in (carol.grants.get, carol.grants.revoke, carol.grants.approve, carol.grants.uses):
        with pytest.raises(NotFound) as found:
            call(grant.id)
        with pytest.raises(NotFound) as missing:
            call("01890000-0000-7000-8000-000000000000")
        assert str(found.value).replace(grant.id, "") == str(missing.value).replace(
            "01890000-0000-7000-8000-000000000000", ""
        )


def test_a_group_and_everyone(brain: Engram, alice: AgentHandle, bob: AgentHandle) -> None:
    carol = brain.agent("carol")
    first, second = remembered(alice, SECRET_OF_ALICE, tags=["one"]), remembered(alice, SECRET_OF_ALICE, tags=["two"])
    alice.grants.share("group:backend", tags=["one"])
    alice.grants.share("everyone", tags=["two"])
    assert [sees(bob, first), sees(carol, first), sees(bob, second), sees(carol, second)] == [False, False, True, True]
    brain.ledger.regroup("backend", add=["bob"])
    assert [sees(bob, first), sees(carol, first)] == [True, False]
    brain.ledger.regroup("backend", remove=["bob"])
    assert not sees(bob, first)


def test_sharing_on_needs_the_right_and_ends_with_what_it_rests_on(
    brain: Engram, alice: AgentHandle, bob: AgentHandle
) -> None:
    carol = brain.agent("carol")
    inside = remembered(alice, SECRET_OF_ALICE, tags=["db"])
    outside = remembered(alice, SECRET_OF_ALICE, tags=["ops"])
    plain = alice.grants.share("bob", tags=["db"])
    with pytest.raises(NotAllowed, match="reshare"):
        bob.grants.share("carol", everything=True, via=plain.id)
    alice.grants.revoke(plain.id)
    free = alice.grants.share("bob", tags=["db"], rights=["read", "reshare"])
    with pytest.raises(NotAllowed, match="right `learn`"):
        bob.grants.share("carol", everything=True, via=free.id, rights=["learn"])
    bob.grants.share("carol", everything=True, via=free.id, rights=["read"])
    assert sees(carol, inside)
    assert not sees(carol, outside)
    alice.grants.revoke(free.id)
    assert not sees(carol, inside)


def test_every_use_is_written_down(alice: AgentHandle, bob: AgentHandle) -> None:
    id = remembered(alice, SECRET_OF_ALICE)
    grant = alice.grants.share("bob", memories=[id])
    bob.recall("which database runs in staging?")
    bob.get(id)
    uses = alice.grants.uses(grant.id)
    assert [(use.agent, use.action, use.count, use.memories) for use in uses] == [
        ("bob", "recall", 1, (id,)),
        ("bob", "get", 1, (id,)),
    ]
    bob.recall("something quite different about penguins", min_score=0.99)
    assert alice.grants.uses(grant.id) == uses


def test_learning_from_others_needs_its_own_right(alice: AgentHandle, bob: AgentHandle) -> None:
    for _ in range(6):
        alice.record_decision(context="deploy the api", action="rolling", outcome="success", tags=["deploy"])

    def recommended() -> str | None:
        return bob.suggest(context="deploy the api", actions=["rolling", "big bang"]).recommended

    assert recommended() is None
    reading = alice.grants.share("bob", tags=["deploy"], rights=["read"])
    assert recommended() is None
    learning = alice.grants.share("bob", tags=["deploy"], rights=["learn"])
    assert recommended() == "rolling"
    assert [use.action for use in alice.grants.uses(learning.id)] == ["suggest"]
    alice.grants.revoke(learning.id)
    assert recommended() is None
    assert reading.rights == (Right.READ,)


def test_what_others_know_to_fail_warns(alice: AgentHandle, bob: AgentHandle) -> None:
    for _ in range(4):
        alice.record_decision(
            context="install packages",
            action="npm install --force",
            outcome="failure",
            error="ERR! peer dep conflict",
            tags=["js"],
        )

    def check(agent: AgentHandle) -> Verdict:
        return agent.check(action="npm install --force", context="install packages")

    assert check(alice).decision == "block"
    assert check(bob).decision == "allow"
    grant = alice.grants.share("bob", tags=["js"])
    verdict = check(bob)
    assert (verdict.decision, verdict.learned_by) == ("warn", "alice")
    assert bob.learning.failures() == []
    alice.grants.revoke(grant.id)
    assert check(bob).decision == "allow"


def test_a_pattern_can_be_shared_by_its_name(alice: AgentHandle, bob: AgentHandle) -> None:
    pattern = alice.learn_from_failure("TimeoutError: auth server did not answer in 30 s", "retry with backoff")
    other = alice.learn_from_failure("KeyError: 'token' in session store", "log in again")
    alice.grants.share("bob", patterns=[pattern.name])
    (episode,), (hidden,) = pattern.episodes, other.episodes
    assert bob.get(episode) is not None
    assert bob.get(hidden) is None
    with pytest.raises(NotFound, match="no pattern"):
        alice.grants.share("bob", patterns=["no-such-pattern"])


def test_a_domain_is_a_tag_or_what_a_memory_says_of_itself(alice: AgentHandle, bob: AgentHandle) -> None:
    tagged = remembered(alice, SECRET_OF_ALICE, tags=["auth"])
    typed = alice.record_decision(context="log in", action="retry", outcome="success", task_type="auth").id
    known = remembered(alice, "Tokens live for an hour", kind="knowledge", content={"domain": "Auth"})
    other = remembered(alice, "Tables are named in the plural", kind="knowledge", content={"domain": "db"})
    alice.grants.share("bob", domains=["auth"])
    assert typed is not None
    assert [bob.get(id) is not None for id in (tagged, typed, known, other)] == [True, True, True, False]


def test_what_was_derived_is_taken_back_with_a_revocation(alice: AgentHandle, bob: AgentHandle) -> None:
    id = remembered(alice, SECRET_OF_ALICE)
    grant = alice.grants.share("bob", memories=[id])
    bob.recall("which database runs in staging?")
    echo = remembered(bob, SECRET_OF_ALICE)
    child = remembered(bob, "So pgbouncer must be told before staging moves", sources=[id])
    grandchild = remembered(bob, "The plan for staging has three steps", sources=[child])
    own = remembered(bob, "Bob's own insight")
    assert [bob.get(each).trust < 0.5 for each in (echo, child, grandchild)] == [True] * 3  # type: ignore[union-attr]
    revocation = alice.grants.revoke(grant.id)
    assert {*revocation.quarantined} == {echo, child, grandchild}
    assert [bob.get(each) is not None for each in (echo, child, grandchild, own)] == [False, False, False, True]
    assert {each.id for each in bob.quarantine.list()} == {echo, child, grandchild}
    assert {each.memory.text for each in bob.quarantine.list()} == {""}, "what was taken back can no longer be read"
    with pytest.raises(NotAllowed, match="taken it back"):
        bob.quarantine.release(child)
    assert bob.quarantine.discard(echo).forgotten
    assert {each.id for each in bob.quarantine.list()} == {child, grandchild}


def test_what_repeats_it_word_for_word_is_taken_back_whoever_recalled_it(alice: AgentHandle, bob: AgentHandle) -> None:
    id = remembered(alice, SECRET_OF_ALICE)
    grant = alice.grants.share("bob", memories=[id])
    copy = remembered(bob, SECRET_OF_ALICE.upper())
    assert alice.grants.revoke(grant.id).quarantined == (copy,)


def test_what_the_receiver_did_itself_stays_its_own_experience(alice: AgentHandle, bob: AgentHandle) -> None:
    def live(agent: AgentHandle) -> None:
        agent.record_decision(context="log in", action="retry", outcome="success")
        agent.learn_from_failure("npm ERR! code ETIMEDOUT", "verify npm cache", action="npm install")

    live(alice)
    grant = alice.grants.share("bob", everything=True)
    live(bob)
    live(bob)
    own = bob.list()
    assert alice.grants.revoke(grant.id).quarantined == ()
    assert bob.list() == own
    assert [(each.action, each.attempts) for each in bob.suggest(context="log in").actions] == [("retry", 2)]
    assert [failure.occurrence_count for failure in bob.learning.failures()] == [2]


def test_a_copy_is_worth_what_its_grant_is_at_every_moment(
    brain: Engram, alice: AgentHandle, bob: AgentHandle, clock: FixedSources
) -> None:
    id = remembered(alice, SECRET_OF_ALICE, tags=["db"])
    alice.grants.share("bob", tags=["db"], rights=["learn"])
    assert bob.knowledge.merge("alice").stored == 1
    assert not sees(bob, id), "the right to learn is not the right to read"
    alice.grants.share("carol", tags=["db"], expires=HOUR)
    carol = brain.agent("carol")
    carol.knowledge.merge("alice")
    assert sees(carol, id)
    alice.annotate(id, tags=["private"])
    assert not sees(carol, id)
    alice.annotate(id, tags=["db"])
    assert sees(carol, id)
    clock.advance(2 * HOUR)
    assert not sees(carol, id)


def test_a_revocation_reaches_copies_however_far_they_were_shared_on(
    brain: Engram, alice: AgentHandle, bob: AgentHandle
) -> None:
    carol, dave = brain.agent("carol"), brain.agent("dave")
    id = remembered(alice, SECRET_OF_ALICE, tags=["db"])
    every = ["read", "learn", "reshare"]
    root = alice.grants.share("bob", tags=["db"], rights=every)
    second = bob.grants.share("carol", everything=True, via=root.id, rights=every)
    carol.grants.share("dave", everything=True, via=second.id, rights=["read", "learn"])
    for agent in (carol, dave):
        assert agent.knowledge.merge("alice").stored == 1
    cites = remembered(dave, "Dave's plan for staging", sources=[id])
    assert sees(dave, id)
    revocation = alice.grants.revoke(root.id)
    assert (revocation.copies, revocation.quarantined) == (2, (cites,))
    assert not sees(carol, id)
    assert not sees(dave, id)
    again = alice.grants.share("dave", tags=["db"])
    assert dave.knowledge.merge("alice").stored == 1
    assert alice.grants.get(again.id).state == GrantState.GRANTED


def test_who_left_a_group_keeps_no_copy(brain: Engram, alice: AgentHandle, bob: AgentHandle) -> None:
    id = remembered(alice, SECRET_OF_ALICE)
    brain.ledger.regroup("team", add=["bob"])
    grant = alice.grants.share("group:team", memories=[id])
    bob.knowledge.merge("alice")
    bob.recall("which database runs in staging?")
    cites = remembered(bob, "Bob's plan for staging", sources=[id])
    brain.ledger.regroup("team", remove=["bob"])
    assert not sees(bob, id)
    assert alice.grants.revoke(grant.id).quarantined == (cites,)


def test_trust_is_earned_once_by_each_recall_and_only_from_whom_it_came(alice: AgentHandle, bob: AgentHandle) -> None:
    id = remembered(alice, SECRET_OF_ALICE)
    alice.grants.share("bob", memories=[id])
    hits = bob.recall("which database runs in staging?")
    forged = [hits[0].model_copy(update={"why": {**hits[0].why, "source": "agent:carol"}})]
    for _ in range(30):
        bob.credit(hits, [hits[0]])
        bob.credit(forged, [forged[0]])
    (source,) = bob.grants.sources()
    assert (source.name, source.helped) == ("alice", 1.0)
    assert bob._brain._parts.sharing.trust(bob._scope, "agent:carol").mean == pytest.approx(0.3)


def test_outcomes_raise_and_lower_the_trust_in_a_source(alice: AgentHandle, bob: AgentHandle) -> None:
    id = remembered(alice, SECRET_OF_ALICE)
    alice.grants.share("bob", memories=[id])
    (first,) = bob.grants.sources()
    assert first.trust == pytest.approx(0.3)
    for _ in range(5):
        bob.outcome(bob.recall("which database runs in staging?").id, "success")
    (better,) = bob.grants.sources()
    hits = bob.recall("which database runs in staging?")
    assert bob.credit(hits, [])
    (worse,) = bob.grants.sources()
    assert first.trust < worse.trust < better.trust


def test_bad_requests_say_what_to_do(alice: AgentHandle, bob: AgentHandle) -> None:
    for wrong in (
        lambda: alice.grants.share("bob"),
        lambda: alice.grants.share("alice", everything=True),
        lambda: alice.grants.request("alice", everything=True, purpose="x"),
        lambda: alice.grants.share("group:", everything=True),
        lambda: alice.grants.share("bob", everything=True, rights=["write"]),
        lambda: alice.grants.share("bob", everything=True, expires="2001-01-01"),
        lambda: alice.grants.request("bob", everything=True, purpose=" "),
        lambda: alice.grants.offer("everyone", everything=True, purpose="x"),
        lambda: alice.grants.list("given"),
        lambda: alice.grants.share("\x1fledger", everything=True),
    ):
        with pytest.raises(InvalidInput):
            wrong()
    with pytest.raises(NotFound):
        alice.grants.share("bob", memories=["01890000-0000-7000-8000-000000000000"])
    assert bob.grants.list() == []


def test_reserved_names_are_no_agents(brain: Engram, alice: AgentHandle) -> None:
    remembered(alice, SECRET_OF_ALICE)
    alice.grants.share("bob", everything=True)
    assert brain.agents() == ["alice"]
    name = import_scope(alice._scope, "bob").agent
    assert reserved(name)
    with pytest.raises(InvalidInput, match=r"U\+001F"):
        brain.agent(name)


def test_two_who_decide_at_once_cannot_both_be_right(tmp_path: Path) -> None:
    with (
        engram.open(tmp_path / "team.db", embedder="hashing", durable=False) as one,
        engram.open(tmp_path / "team.db", embedder="hashing", durable=False) as other,
    ):
        grant: Grant = one.agent("bob").grants.request("alice", everything=True, purpose="x")
        other.ledger.grant(grant.id)
        one.agent("alice").grants.deny(grant.id)
        with pytest.raises(Conflict):
            other.agent("alice").grants.approve(grant.id)


def test_grants_uses_exports_and_imports_are_on_record(
    alice: AgentHandle, bob: AgentHandle, brain: Engram, tmp_path: Path
) -> None:
    assert isinstance(brain.store, KeepsAudit)
    id = remembered(alice, SECRET_OF_ALICE)
    grant = alice.grants.share("bob", memories=[id])
    bob.get(id)
    alice.grants.revoke(grant.id)
    alice.knowledge.export(tmp_path / "out.json")
    told = [(entry.action, entry.actor, entry.agent, entry.target) for entry in brain.store.trail(grant=grant.id)]
    assert told == [
        ("grant.share", "alice", "alice", "bob"),
        ("use", "bob", "alice", "get"),
        ("grant.revoke", "alice", "alice", "bob"),
    ]
    assert brain.store.trail(newest=True, limit=1)[0].action == "export"
    assert audit.AuditTrail(brain.store).verify().ok
    assert SECRET_OF_ALICE not in "".join(entry.model_dump_json() for entry in brain.store.trail())
