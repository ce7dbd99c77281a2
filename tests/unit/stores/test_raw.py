"""Looking at a database file must not let go of SQLite's locks on it, or another process deletes the log under us."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import engram
from engram.stores import raw

LISTS = """
import sqlite3, sys
conn = sqlite3.connect(sys.argv[1])
print(*[text for (text,) in conn.execute("SELECT text FROM memories ORDER BY text")], sep="\\n")
conn.close()
"""


def others_see(path: Path) -> list[str]:
    """What another process sees, which then closes the database."""
    done = subprocess.run([sys.executable, "-c", LISTS, str(path)], check=True, capture_output=True, text=True)
    return done.stdout.splitlines()


@pytest.mark.process
@pytest.mark.parametrize("how", ["forget", "open again"])
def test_what_is_written_after_a_look_at_the_file_is_seen_by_others(tmp_path: Path, how: str) -> None:
    path = tmp_path / "team.db"
    with engram.open(path, embedder="hashing") as brain:
        alice = brain.agent("alice")
        alice.remember("one stays here")
        going = alice.remember("two goes away for good").id
        if how == "forget":
            assert going is not None
            assert alice.forget(going).forgotten
        else:
            engram.open(path, embedder="hashing").close()
        assert "one stays here" in others_see(path)
        alice.remember("three was acknowledged")
        assert "three was acknowledged" in others_see(path)
        alice.remember("four was acknowledged")
    assert {"one stays here", "three was acknowledged", "four was acknowledged"} <= {*others_see(path)}
    assert handles(path) == [], "handles are left"


def handles(path: Path) -> list[Path]:
    """What this process has open of a file and of those beside it, as far as it can be known."""
    known = Path("/proc/self/fd")
    return [link for link in known.iterdir() if str(path) in _target(link)] if known.exists() else []


def _target(link: Path) -> str:
    try:
        return str(link.readlink())
    except OSError:
        return ""


def test_a_handle_is_kept_while_a_store_is_open_and_closed_with_the_last(tmp_path: Path) -> None:
    path = tmp_path / "some file"
    path.write_bytes(b"0123456789")
    raw.claim(path)
    raw.claim(path)
    with raw.peek(path) as first, raw.peek(path) as second:
        assert first == second
    assert os.pread(first, 3, 2) == b"234"
    raw.release(path)
    assert os.pread(first, 3, 2) == b"234"
    raw.release(path)
    assert handles(path) == []
    assert raw.head(path, 4) == b"0123"
    assert b"".join(raw.blocks(path, 3)) == b"0123456789"
