"""What is held stays, whichever way somebody tries to make it go."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from test_erasure import Clock

import engram
from engram.clock import Sources
from engram.engine import Engram
from engram.errors import NotAllowed
from engram.memories.forgetting_curve import ForgettingLimits
from engram.memories.holds import RetentionLog
from engram.ports import Maintains
from engram.privacy import keys
from engram.retention import archive, erasure
from engram.stores import sqlite
from engram.upkeep import copying


def test_a_hold_cannot_be_got_around() -> None:
    with engram.open(":memory:", embedder="hashing") as brain:
        alice = brain.agent("alice")
        id = str(alice.remember("The contract was signed on Monday", tags=["legal", "deal"]).id)
        brain.retention.hold("a lawsuit", tags=["legal"])
        for away in (lambda: alice.forget(id), lambda: alice.annotate(id, tags=["deal"])):
            with pytest.raises(NotAllowed, match="a lawsuit"):
                away()
        assert alice.annotate(id, tags=["legal"]).tags == ("legal",)
        alice.quarantine.move([id], "to be rid of it")
        with pytest.raises(NotAllowed, match="a lawsuit"):
            alice.quarantine.discard(id)
        alice.quarantine.release(id)
        assert alice.get(id) is not None


def test_what_consolidating_made_is_not_taken_back_while_it_is_held() -> None:
    with engram.open(":memory:", embedder="hashing") as brain:
        alice, retention = brain.agent("alice"), brain.retention
        alice.remember("The deploys happen at midnight", kind="knowledge", tags=["legal"])
        alice.remember("Deploys occur at midnight.", kind="knowledge", tags=["legal"])
        (made,) = brain.upkeep.consolidate(["alice"])
        for named in ({"tags": ["legal"]}, {"memories": [str(made.id)]}, {"agent": "alice"}):
            hold = retention.hold("a lawsuit", **named)
            with pytest.raises(NotAllowed, match=f"held by {hold.id} \\(a lawsuit\\)"):
                brain.upkeep.undo("alice", str(made.id))
            assert alice.get(str(made.id)) is not None
            retention.release(hold.id)
        assert brain.upkeep.undo("alice", str(made.id)).reason == "taken back"


def test_cycles_and_workspaces_stay_while_all_of_their_agent_is_held(tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "a.txt").write_text("a")
    with engram.open(tmp_path / "x.db", embedder="hashing", durable=False) as brain:
        alice, bob, retention = brain.agent("alice"), brain.agent("bob"), brain.retention
        for agent in (alice, bob):
            agent.life.result(agent.life.propose(thoughts="think"), output="done")
        alice.workspaces.create("site", tmp_path / "site")
        for text in ("b", "c"):
            alice.workspaces.snapshot("site")
            (tmp_path / "site" / "a.txt").write_text(text)
        retention.hold("about tags", tags=["legal"])
        hold = retention.hold("a lawsuit", agent="alice")
        for away in (
            lambda: alice.life.forget(1),
            lambda: alice.workspaces.forget("site"),
            lambda: alice.workspaces.prune("site", keep=1),
            lambda: erasure.erase(brain, "alice"),
        ):
            with pytest.raises(NotAllowed, match=f"is held by {hold.id} \\(a lawsuit\\)"):
                away()
        assert (alice.life.cycle(1) is not None, len(alice.workspaces.snapshots("site"))) == (True, 2)
        assert alice.workspaces.prune("site").snapshots == ()
        assert bob.life.forget(1).forgotten
        retention.release(hold.id)
        assert len(alice.workspaces.prune("site", keep=1).snapshots) == 1
        assert len(alice.workspaces.forget("site").snapshots) == 1
        assert alice.life.forget(1).forgotten


def refused(brain: Engram, id: str, hold: str) -> None:
    with pytest.raises(NotAllowed, match=f"held by {hold}"):
        brain.agent("alice").forget(id)
    with pytest.raises(NotAllowed, match=f"held by {hold}"):
        erasure.erase(brain, "alice")


def test_holds_travel_with_a_copy_and_a_backup(tmp_path: Path) -> None:
    with engram.open(tmp_path / "one.db", embedder="hashing", durable=False) as brain:
        id = str(brain.agent("alice").remember("The contract was signed", tags=["legal"]).id)
        hold = brain.retention.hold("a lawsuit", tags=["legal"]).id
        assert isinstance(brain.store, Maintains)
        brain.store.backup(tmp_path / "saved.db")
        with engram.open(tmp_path / "two.db", embedder="hashing", durable=False) as copy:
            copying.copy(brain.store, copy.store, "one")
        brain.retention.release(hold)
        brain.agent("alice").forget(id)
    sqlite.restore(tmp_path / "saved.db", tmp_path / "one.db", Sources())
    for name in ("one.db", "two.db", "saved.db"):
        with engram.open(tmp_path / name, embedder="hashing", durable=False) as brain:
            assert [each.id for each in brain.retention.holds()] == [hold]
            refused(brain, id, hold)
            brain.retention.release(hold)
            assert brain.agent("alice").forget(id).forgotten


def test_an_agent_stays_whole_while_a_copy_of_what_it_said_is_held(tmp_path: Path) -> None:
    with engram.open(tmp_path / "x.db", embedder="hashing", durable=False) as brain:
        alice, bob = brain.agent("alice"), brain.agent("bob")
        alice.remember("The contract was signed", kind="knowledge", tags=["legal"])
        alice.workspaces.create("site", tmp_path)
        alice.grants.share("bob", tags=["legal"])
        bob.knowledge.merge("alice")
        hold = brain.retention.hold("a lawsuit", agent="bob").id
        with pytest.raises(NotAllowed, match=f"held by {hold}"):
            erasure.erase(brain, "alice")
        assert [workspace.name for workspace in alice.workspaces.list()] == ["site"]
        assert [grant.state for grant in alice.grants.list()] == ["granted"]
        brain.retention.release(hold)
        assert erasure.erase(brain, "alice").removed["copies"] == 1


def test_a_held_copy_of_what_is_taken_back_is_set_apart(tmp_path: Path) -> None:
    with engram.open(tmp_path / "x.db", embedder="hashing", durable=False) as brain:
        alice, bob, carol = (brain.agent(name) for name in ("alice", "bob", "carol"))
        known = str(alice.remember("The contract was signed", kind="knowledge", tags=["deal"]).id)
        lent = alice.grants.share("bob", tags=["deal"])
        bob.recall("was the contract signed?")
        derived = str(bob.remember("So we have a contract", kind="knowledge", tags=["deal"], sources=[known]).id)
        bob.grants.share("carol", tags=["deal"])
        carol.knowledge.merge("bob")
        hold = brain.retention.hold("a lawsuit", agent="carol")
        alice.grants.revoke(lent.id)
        assert carol.get(derived) is None
        assert derived in {each.id for each in carol.quarantine.list()}
        with pytest.raises(NotAllowed, match=f"held by {hold.id}"):
            carol.quarantine.discard(derived)


def test_what_an_archive_has_is_held_like_what_is_here(tmp_path: Path) -> None:
    sources = Clock()
    with engram.open(tmp_path / "x.db", embedder="hashing", durable=False, sources=sources) as brain:
        alice, keeping = brain.agent("alice"), RetentionLog(brain.store, sources, brain.clean)
        id = str(alice.remember("A bus was late", importance=0.01, tags=["legal"]).id)
        alice.remember("The sun is warm", importance=1.0)
        sources.at += timedelta(days=900)
        file = tmp_path / "gone.jsonl.gz"
        assert len(brain.upkeep.forget(["alice"], file, ForgettingLimits(below=0.2)).gone) == 1
        hold = keeping.hold("a lawsuit", tags=["legal"]).id
        refused(brain, id, hold)
        assert [memory.id for memory, _ in archive.read(file)] == [id]
        assert brain.upkeep.restore(file) == 1
        assert brain.upkeep.forget(["alice"], tmp_path / "again.jsonl.gz", ForgettingLimits(below=0.2)).gone == ()
        refused(brain, id, hold)


def test_what_is_encrypted_is_not_archived_in_the_clear(tmp_path: Path) -> None:
    place = str(tmp_path / "vault.key")
    keys.make(place)
    with engram.open(tmp_path / "vault.db", embedder="hashing", encryption="fields", key_file=place) as brain:
        brain.agent("alice").remember("a note")
        with pytest.raises(NotAllowed, match="encrypted"):
            archive.register(brain.store, tmp_path / "old.jsonl.gz")
    with engram.open(tmp_path / "plain.db", embedder="hashing") as brain:
        archive.register(brain.store, tmp_path / "old.jsonl.gz")
    archive.write(tmp_path / "old.jsonl.gz", [])
    assert (tmp_path / "old.jsonl.gz").stat().st_mode & 0o077 == 0
