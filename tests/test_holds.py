"""What is held stays, whichever way somebody tries to make it go."""

from __future__ import annotations

from pathlib import Path

import pytest

import engram
from engram import archives
from engram.errors import NotAllowed
from engram.privacy import keys
from engram.retention import Retention


def test_a_hold_cannot_be_got_around() -> None:
    with engram.open(":memory:", embedder="hashing") as brain:
        alice = brain.agent("alice")
        id = str(alice.remember("The contract was signed on Monday", tags=["legal", "deal"]).id)
        Retention(brain).hold("a lawsuit", tags=["legal"])
        for away in (lambda: alice.forget(id), lambda: alice.annotate(id, tags=["deal"])):
            with pytest.raises(NotAllowed, match="a lawsuit"):
                away()
        assert alice.annotate(id, tags=["legal"]).tags == ("legal",)
        alice.quarantine.move([id], "to be rid of it")
        with pytest.raises(NotAllowed, match="a lawsuit"):
            alice.quarantine.discard(id)
        alice.quarantine.release(id)
        assert alice.get(id) is not None


def test_what_is_encrypted_is_not_archived_in_the_clear(tmp_path: Path) -> None:
    place = str(tmp_path / "vault.key")
    keys.make(place)
    with engram.open(tmp_path / "vault.db", embedder="hashing", encryption="fields", key_file=place) as brain:
        brain.agent("alice").remember("a note")
        with pytest.raises(NotAllowed, match="encrypted"):
            archives.note(brain.store, tmp_path / "old.jsonl.gz")
    with engram.open(tmp_path / "plain.db", embedder="hashing") as brain:
        archives.note(brain.store, tmp_path / "old.jsonl.gz")
    archives.write(tmp_path / "old.jsonl.gz", [])
    assert (tmp_path / "old.jsonl.gz").stat().st_mode & 0o077 == 0
