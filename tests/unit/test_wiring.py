"""A database is named by a path or a URL, and everything else by one string."""

from __future__ import annotations

from pathlib import Path

import pytest

import engram
from engram import config, wiring
from engram.embed.hashing import HashingEmbedder
from engram.errors import InvalidInput
from engram.stores.memory import InMemoryStore
from engram.stores.sqlite import SqliteStore


@pytest.mark.parametrize(
    ("db", "found"),
    [
        ("team.db", ("sqlite", "team.db")),
        ("sqlite:///team.db", ("sqlite", "team.db")),
        ("sqlite:////var/team.db", ("sqlite", "/var/team.db")),
        (":memory:", ("memory", "")),
        ("other://host/name", ("other", "other://host/name")),
    ],
)
def test_a_name_gives_the_store_and_the_place(db: str, found: tuple[str, str]) -> None:
    assert wiring.locate(db) == found


def test_without_a_name_the_settings_decide(monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
    with engram.open() as brain:
        assert isinstance(brain.store, SqliteStore)
        assert brain.store.path == config.default_db()
    monkeypatch.setenv("ENGRAM_DB", str(path))
    with engram.open() as brain:
        assert isinstance(brain.store, SqliteStore)
        assert brain.store.path == path


def test_a_memory_in_this_process_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with engram.open(":memory:") as brain:
        assert isinstance(brain.store, InMemoryStore)
        brain.agent("alice").remember("x")
        assert brain.agent("alice").recall("x")
    assert not [p for p in tmp_path.iterdir() if p.name != "home"]


def test_an_unknown_scheme_names_those_that_are_there() -> None:
    with pytest.raises(InvalidInput, match=r"no store called 'oracle'.*memory, .*sqlite"):
        engram.open("oracle://host")


def test_an_unknown_embedder_is_a_clear_error_when_it_is_needed(path: Path) -> None:
    with engram.open(path, embedder="nonsense") as brain, pytest.raises(InvalidInput, match="no embedder called"):
        _ = brain.embedder


def test_the_embedder_is_chosen_at_first_need_and_remembered(path: Path) -> None:
    said: list[str] = []
    with engram.open(path, embedder="hashing") as brain:
        brain.agent("alice").remember("x")
        assert isinstance(brain.embedder, HashingEmbedder)
    with engram.open(path, embedder="hashing:64", say=said.append) as brain:
        assert brain.agent("alice").recall("x")
    assert any("upkeep reembed" in line for line in said)


def test_our_own_back_ends_come_through_the_same_door() -> None:
    assert wiring.find_plugin("vectors", "qdrant")
    assert wiring.find_plugin("stores", "sqlite")
    assert wiring.find_plugin("stores", "memory")
