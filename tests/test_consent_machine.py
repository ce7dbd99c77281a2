"""Isolation and consent against a model: an agent sees exactly what it may, by every way to read, at every moment."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

import engram
from engram.cli import main
from engram.errors import Conflict, EngramError, NotAllowed
from engram.model.grant import Grant
from engram.testing.making import FixedSources

pytest_plugins = ["postgres_server"]

LONG = "ENGRAM_LONG" in os.environ
AGENTS = ("alice", "bob", "carol", "Alice")
TAGS = ("db", "ops", "DB")
RIGHTS = (("read",), ("learn",), ("read", "learn"), ("read", "reshare"), ("read", "learn", "reshare"))
CONTEXT = "deploy the api"


@dataclass
class Kept:
    owner: str
    tags: set[str]
    decision: bool = False


@dataclass
class Given:
    owner: str
    to: str
    subject: dict[str, Any]
    rights: tuple[str, ...]
    ends: datetime | None
    by: str
    via: str = ""
    state: str = "granted"


class ConsentMachine(RuleBasedStateMachine):
    """Everything about consent that agents do, and what each of them must then see."""

    url: str
    cli: bool = True
    wipe: Callable[[], None]

    @initialize()
    def begin(self) -> None:
        type(self).wipe()
        self.clock = FixedSources()
        self.brain = engram.open(self.url, embedder="hashing", durable=False, sources=self.clock)
        self.memories: dict[str, Kept] = {}
        self.grants: dict[str, Given] = {}
        self.group: set[str] = set()
        self.steps = 0

    def teardown(self) -> None:
        if hasattr(self, "brain"):
            self.brain.close()

    # What agents do ------------------------------------------------------------------------------------

    @rule(owner=st.sampled_from(AGENTS), tags=st.sets(st.sampled_from(TAGS), max_size=2), decision=st.booleans())
    def remember(self, owner: str, tags: set[str], decision: bool) -> None:
        agent, number = self.brain.agent(owner), len(self.memories)
        if decision:
            receipt = agent.record_decision(
                context=CONTEXT, action=f"way {number % 3}", outcome="success", tags=sorted(tags)
            )
        else:
            receipt = agent.remember(f"note {number} of {owner} about the api deployment", tags=sorted(tags))
        assert receipt.id is not None
        self.memories[receipt.id] = Kept(owner, tags, decision)

    @precondition(lambda self: self.memories)
    @rule(data=st.data(), tags=st.sets(st.sampled_from(TAGS), max_size=2))
    def annotate(self, data: st.DataObject, tags: set[str]) -> None:
        id = data.draw(st.sampled_from(sorted(self.memories)))
        self.brain.agent(self.memories[id].owner).annotate(id, tags=sorted(tags))
        self.memories[id].tags = tags

    @precondition(lambda self: self.memories)
    @rule(data=st.data(), who=st.sampled_from(AGENTS))
    def forget(self, data: st.DataObject, who: str) -> None:
        id = data.draw(st.sampled_from(sorted(self.memories)))
        receipt = self.brain.agent(who).forget(id)
        assert receipt.forgotten == (self.memories[id].owner == who)
        if receipt.forgotten:
            del self.memories[id]

    @rule(
        data=st.data(),
        owner=st.sampled_from(AGENTS),
        to=st.sampled_from([*AGENTS, "group:team", "everyone"]),
        rights=st.sampled_from(RIGHTS),
        hours=st.sampled_from([None, 1, 5]),
    )
    def share(self, data: st.DataObject, owner: str, to: str, rights: tuple[str, ...], hours: int | None) -> None:
        if to == owner:
            return
        subject = data.draw(self.subjects(owner))
        ends = None if hours is None else timedelta(hours=hours)
        grant = self.brain.agent(owner).grants.share(to, **subject, rights=rights, expires=ends)
        self.grants[grant.id] = self.given(grant, to, subject)

    @rule(data=st.data(), who=st.sampled_from(AGENTS), owner=st.sampled_from(AGENTS), rights=st.sampled_from(RIGHTS))
    def request(self, data: st.DataObject, who: str, owner: str, rights: tuple[str, ...]) -> None:
        if who == owner:
            return
        subject = data.draw(self.subjects(owner))
        grant = self.brain.agent(who).grants.request(owner, **subject, rights=rights, purpose="work")
        self.grants[grant.id] = self.given(grant, who, subject, "requested")

    @precondition(lambda self: self.grants)
    @rule(data=st.data(), who=st.sampled_from(AGENTS), what=st.sampled_from(["approve", "deny"]))
    def decide(self, data: st.DataObject, who: str, what: str) -> None:
        id = data.draw(st.sampled_from(sorted(self.grants)))
        grant = self.grants[id]
        try:
            getattr(self.brain.agent(who).grants, what)(id)
        except (EngramError, NotAllowed, Conflict):
            assert not (grant.state == "requested" and who == grant.owner)
        else:
            assert who == grant.owner
            assert grant.state == "requested" or (what, grant.state) == ("deny", "denied")
            grant.state = {"approve": "granted", "deny": "denied"}[what]

    @precondition(lambda self: any("reshare" in grant.rights for grant in self.grants.values()))
    @rule(data=st.data(), to=st.sampled_from([*AGENTS, "group:team"]), rights=st.sampled_from(RIGHTS[:3]))
    def share_on(self, data: st.DataObject, to: str, rights: tuple[str, ...]) -> None:
        id = data.draw(st.sampled_from(sorted(i for i, g in self.grants.items() if "reshare" in g.rights)))
        who = data.draw(st.sampled_from(AGENTS))
        above = self.grants[id]
        if to in {who, above.owner}:
            return
        subject = data.draw(self.subjects(above.owner))
        may = who != above.owner and all(self.gives(id, who, right) for right in (*rights, "reshare"))
        try:
            grant = self.brain.agent(who).grants.share(to, **subject, rights=rights, via=id)
        except EngramError:
            assert not may
        else:
            assert may
            self.grants[grant.id] = self.given(grant, to, subject)

    @precondition(lambda self: self.grants)
    @rule(data=st.data(), who=st.sampled_from(AGENTS))
    def revoke(self, data: st.DataObject, who: str) -> None:
        id = data.draw(st.sampled_from(sorted(self.grants)))
        grant = self.grants[id]
        try:
            self.brain.agent(who).grants.revoke(id)
        except EngramError:
            assert who not in {grant.owner, grant.by, grant.to}
        else:
            assert who in {grant.owner, grant.by, grant.to}
            grant.state = "revoked" if grant.state != "denied" else "denied"

    @rule(who=st.sampled_from(AGENTS), joins=st.booleans())
    def regroup(self, who: str, joins: bool) -> None:
        ledger = self.brain.sharing.ledger
        ledger.regroup("team", add=[who] if joins else [], remove=[] if joins else [who])
        (self.group.add if joins else self.group.discard)(who)

    @rule(hours=st.sampled_from([1, 3]))
    def time_passes(self, hours: int) -> None:
        self.clock.advance(timedelta(hours=hours))

    @rule()
    def open_anew(self) -> None:
        if self.url != ":memory:":
            self.brain.close()
            self.brain = engram.open(self.url, embedder="hashing", durable=False, sources=self.clock)

    # What each of them must see ------------------------------------------------------------------------

    @invariant()
    def everybody_sees_what_the_model_says(self) -> None:
        if not hasattr(self, "brain"):
            return
        self.steps += 1
        who = AGENTS[self.steps % len(AGENTS)]
        agent = self.brain.agent(who)
        may = {id for id in self.memories if self.sees(who, id, "read")}
        assert {id for id in self.memories if agent.get(id) is not None} == may
        assert {memory.id for memory in agent.list(limit=1000, shared=True)} == may
        assert {memory.id for memory in agent.list(limit=1000)} == {i for i in may if self.memories[i].owner == who}
        assert {hit.id for hit in agent.recall("note about the api deployment", k=100)} <= may
        assert {hit.id for hit in agent.recall("deploy the api", k=100, shared=False)} <= {
            i for i in may if self.memories[i].owner == who
        }
        learned = {id for id, kept in self.memories.items() if kept.decision and self.sees(who, id, "learn")}
        told = agent.suggest(context=CONTEXT, actions=["way 0", "way 1", "way 2"]).actions
        assert {id for record in told for id in record.episodes_for} <= learned
        assert sum(record.attempts for record in told) == len(learned)

    @precondition(lambda self: self.cli and self.memories)
    @rule(data=st.data(), who=st.sampled_from(AGENTS))
    def by_command(self, data: st.DataObject, who: str) -> None:
        runner, may = CliRunner(), {id for id in self.memories if self.sees(who, id, "read")}
        told = runner.invoke(
            main, ["--db", self.url, "--json", "memory", "list", "--agent", who, "--shared", "-n", "999"]
        )
        assert {memory["id"] for memory in json.loads(told.stdout)} == may
        id = data.draw(st.sampled_from(sorted(self.memories)))
        shown = runner.invoke(main, ["--db", self.url, "--json", "memory", "show", id, "--agent", who])
        assert shown.exit_code == (0 if id in may else 3)

    def sees(self, who: str, id: str, right: str) -> bool:
        kept = self.memories[id]
        return kept.owner == who or any(
            grant.owner == kept.owner and self.gives(grant_id, who, right) and self.covers(grant_id, id)
            for grant_id, grant in self.grants.items()
        )

    def gives(self, grant_id: str, who: str, right: str) -> bool:
        grant = self.grants[grant_id]
        reached = grant.to in {"everyone", who} or (grant.to == "group:team" and who in self.group)
        if not reached or who == grant.owner:
            return False
        chain = self.chain(grant_id)
        now = self.clock.moment
        return all(
            each.state == "granted" and right in each.rights and (each.ends is None or each.ends > now)
            for each in chain
        ) and all("reshare" in each.rights for each in chain[1:])

    def chain(self, grant_id: str) -> list[Given]:
        found = [self.grants[grant_id]]
        while found[-1].via:
            found.append(self.grants[found[-1].via])
        return found

    def covers(self, grant_id: str, id: str) -> bool:
        kept = self.memories[id]
        return all(
            each.subject.get("everything")
            or id in each.subject.get("memories", ())
            or bool(kept.tags & set(each.subject.get("tags", ())))
            for each in self.chain(grant_id)
        )

    def subjects(self, owner: str) -> st.SearchStrategy[dict[str, Any]]:
        own = sorted(id for id, kept in self.memories.items() if kept.owner == owner)
        ways: list[st.SearchStrategy[dict[str, Any]]] = [
            st.just({"everything": True}),
            st.sampled_from(TAGS).map(lambda tag: {"tags": [tag]}),
        ]
        if own:
            ways.append(st.sampled_from(own).map(lambda id: {"memories": [id]}))
        return st.one_of(ways)

    @staticmethod
    def given(grant: Grant, to: str, subject: dict[str, Any], state: str = "granted") -> Given:
        rights = tuple(str(right) for right in grant.rights)
        return Given(grant.owner, to, subject, rights, grant.expires_at, grant.made_by, grant.via, state)


def run(url: str, wipe: Callable[[], None], examples: int, steps: int, *, cli: bool) -> None:
    machine = type("Machine", (ConsentMachine,), {"url": url, "wipe": staticmethod(wipe), "cli": cli})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.mark.slow
def test_an_agent_sees_exactly_what_it_may_in_sqlite(tmp_path: Path) -> None:
    def wipe() -> None:
        for file in tmp_path.glob("team.db*"):
            file.unlink()

    run(str(tmp_path / "team.db"), wipe, *((250, 50) if LONG else (10, 30)), cli=True)


def test_an_agent_sees_exactly_what_it_may_in_memory() -> None:
    run(":memory:", lambda: None, *((250, 50) if LONG else (15, 40)), cli=False)


@pytest.mark.slow
def test_an_agent_sees_exactly_what_it_may_in_postgresql(postgres_url: str) -> None:
    import psycopg

    def wipe() -> None:
        with psycopg.connect(postgres_url, autocommit=True) as admin:
            names = admin.execute("SELECT tablename FROM pg_tables WHERE schemaname = current_schema()").fetchall()
            tables = [name for (name,) in names if name != "alembic_version"]
            if tables:
                admin.execute("SET session_replication_role = replica")
                admin.execute("TRUNCATE " + ", ".join(tables))

    with engram.open(postgres_url, embedder="hashing"):
        pass
    run(postgres_url, wipe, *((250, 50) if LONG else (4, 25)), cli=True)


@pytest.mark.slow
def test_reserved_scopes_are_nobodys(tmp_path: Path) -> None:
    with engram.open(tmp_path / "team.db", embedder="hashing", durable=False) as brain:
        brain.agent("alice").remember("a note")
        brain.agent("alice").grants.share("everyone", everything=True)
        brain.agent("bob").recall("a note")
        assert set(brain.agents()) == {"alice", "bob"}
