"""From credits to another order of what is recalled, and back."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner

import engram
from engram.cli import main
from engram.clock import Sources
from engram.embed.hashing import HashingEmbedder
from engram.engine import Engram
from engram.model import Hit
from engram.ports import KeepsSettings, Scope
from engram.privacy import SecretRedactor
from engram.recall.rank import FRESH, Tuning
from engram.stores.sqlite import SqliteStore
from engram.stores.vectors.exact import ExactVectors
from engram.testing import FixedSources
from engram.upkeep.copying import copy

ALICE = Scope("alice")
WORDS = [f"word{n}" for n in range(30)]


def remember_some(agent: engram.AgentHandle, count: int = 200) -> None:
    chance = random.Random(1)
    texts = [" ".join(chance.sample(WORDS, 6)) for _ in range(count)]
    agent.remember([engram.Draft(text, importance=round(chance.random(), 2)) for text in texts])


def use(agent: engram.AgentHandle, count: int, taste: Callable[[Hit], float], seed: int = 2) -> None:
    """Recalls of somebody who takes the hit that is most to his taste."""
    chance = random.Random(seed)
    for _ in range(count):
        hits = agent.recall(" ".join(chance.sample(WORDS, 2)), k=5)
        agent.credit(hits, max(hits, key=taste))


def important(hit: Hit) -> float:
    return hit.memory.importance


def unimportant(hit: Hit) -> float:
    return -hit.memory.importance


def mean_importance(agent: engram.AgentHandle) -> float:
    firsts = [agent.recall(f"{one} {other}", k=1)[0] for one, other in zip(WORDS, WORDS[7:], strict=False)]
    return sum(hit.memory.importance for hit in firsts) / len(firsts)


def test_what_credits_teach_is_adopted_used_and_given_up_when_it_no_longer_helps(path: Path) -> None:
    with engram.open(path) as brain:
        alice, bob = brain.agent("alice"), brain.agent("bob")
        for agent in (alice, bob):
            remember_some(agent)
        use(alice, 60, important)
        before, untouched = mean_importance(alice), mean_importance(bob)
        (name, outcome), *others = brain.upkeep.tune().items()
        assert (name, outcome.decision, others) == ("alice", "adopted", [])
        assert outcome.multipliers["importance"] > 2
        assert mean_importance(alice) > before + 0.1
        assert mean_importance(bob) == untouched
    with engram.open(path) as brain:  # in another process
        alice = brain.agent("alice")
        assert mean_importance(alice) > before + 0.1
        use(alice, 60, unimportant, seed=3)
        assert brain.upkeep.tune()["alice"].decision == "reverted"
        assert mean_importance(alice) < before + 0.1
        assert brain._parts.tuning.read(ALICE) == {}


def test_a_trial_changes_nothing(path: Path) -> None:
    with engram.open(path) as brain:
        alice = brain.agent("alice")
        remember_some(alice)
        use(alice, 60, important)
        before = mean_importance(alice)
        assert brain.upkeep.tune(dry_run=True)["alice"].decision == "adopted"
        assert (brain._parts.tuning.read(ALICE), mean_importance(alice)) == ({}, before)


def test_what_was_learned_goes_along_with_a_copy(path: Path, tmp_path: Path) -> None:
    with engram.open(path) as brain, engram.open(tmp_path / "copy.db") as other:
        alice = brain.agent("alice")
        remember_some(alice)
        use(alice, 60, important)
        learned = brain.upkeep.tune()["alice"].multipliers
        copy(brain.store, other.store, "team")
        assert other._parts.tuning.read(ALICE) == learned
        assert mean_importance(other.agent("alice")) == mean_importance(alice)
        assert other.upkeep.tune()["alice"].decision == "kept"


def test_parts_are_kept_as_they_were_before_anything_was_learned(path: Path) -> None:
    with engram.open(path) as brain:
        alice, store = brain.agent("alice"), brain.store
        assert isinstance(store, SqliteStore)
        remember_some(alice)
        plain = {hit.id: hit.why for hit in alice.recall("word1 word2", k=20)}
        brain._parts.tuning.adopt(ALICE, brain.sources.now(), {"similar": 0.25, "importance": 4.0})
        hits = [hit for hit in alice.recall("word1 word2", k=20) if hit.id in plain]
        assert len(hits) > 5
        alice.credit(hits, hits[0])
        (credit,) = store.credits(ALICE, 9)
        for hit in hits:
            assert hit.why["importance"] == pytest.approx(4 * float(plain[hit.id]["importance"]), abs=0.003)
            for name in ("similar", "importance"):
                assert credit.parts[hit.id][name] == pytest.approx(plain[hit.id][name], abs=0.003)


def fixed(path: Path, sources: FixedSources) -> Engram:
    store = SqliteStore(path, ExactVectors(), Sources())
    return Engram(store, embedder=HashingEmbedder, redactor=SecretRedactor(), sources=sources, say=lambda line: None)


def test_the_store_is_asked_once_a_minute_and_what_others_adopt_is_in_use_then(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources, asked = FixedSources(), list[str]()
    with fixed(path, sources) as brain, engram.open(path) as other:
        alice, store = brain.agent("alice"), brain.store
        assert isinstance(store, KeepsSettings)
        alice.remember("the comet")
        alice.recall("comet")
        ask = store.setting

        def heard(name: str) -> str | None:
            asked.append(name)
            return ask(name)

        monkeypatch.setattr(store, "setting", heard)
        other._parts.tuning.adopt(ALICE, sources.now(), {"similar": 2.0})
        for _ in range(5):
            brain.agent("alice").recall("comet")
        assert (asked, brain._parts.tuning.multipliers(ALICE, sources.now())) == ([], {})
        sources.advance(FRESH)
        alice.recall("comet")
        assert (len(asked), brain._parts.tuning.multipliers(ALICE, sources.now())) == (1, {"similar": 2.0})
        sources.advance(timedelta(days=-9))
        alice.recall("comet")
        assert len(asked) == 2


@pytest.mark.parametrize("value", ["", "nonsense", "[]", '{"multipliers": {"similar": 1e9}}', '{"other": 1}'])
def test_a_setting_that_nobody_understands_leaves_the_defaults(path: Path, value: str) -> None:
    with engram.open(path) as brain:
        store = brain.store
        assert isinstance(store, SqliteStore)
        tuning = Tuning(store)
        tuning.adopt(ALICE, brain.sources.now(), {"similar": 2.0})
        (name,) = [str(row["name"]) for row in store.page("settings", None, 99) if str(row["name"])[:8] == "ranking:"]
        store.set_setting(name, value)
        assert Tuning(store).read(ALICE) == {}


def test_on_the_command_line(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENGRAM_DB", str(path))

    def run(*arguments: str) -> str:
        result = CliRunner().invoke(main, ["upkeep", "tune", *arguments])
        assert result.exit_code == 0, result.output
        return result.stdout

    with engram.open(path) as brain:
        remember_some(brain.agent("alice"))
        assert run() == "No feedback on recalls was reported yet.\n"
        assert json.loads(run("--json")) == []
        use(brain.agent("alice"), 60, important)
        brain.agent("bob").remember("the comet")
        use(brain.agent("bob"), 1, important)
    trial = run("--dry-run").splitlines()
    assert trial[0].startswith("alice: would be adopted: ")
    assert "importance ×" in trial[0]
    assert "(60 credits, MRR 0." in trial[0]
    assert trial[1].startswith("bob: the default weights stay (0 credits; 30 credits are needed")
    alice, bob = json.loads(run("--json"))
    assert (alice["agent"], alice["decision"], alice["events"]) == ("alice", "adopted", 60)
    assert alice["after"] > alice["before"]
    assert (bob["decision"], bob["multipliers"], bob["before"]) == ("defaults", {}, None)
    assert run().startswith("alice: kept: ")
