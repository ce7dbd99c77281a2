"""What a person at a terminal sees: a real one, made for the test."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest

import engram

pty = pytest.importorskip("pty")

CTRL_C = b"\x03"


@pytest.fixture
def id(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    for name, value in {"ENGRAM_DB": str(path), "TERM": "xterm-256color", "COLUMNS": "80"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.chdir(tmp_path)
    with engram.open(path) as brain:
        receipt = brain.agent("alice").remember("a \x1b[31m[red]text[/red] " + "that is long " * 50)
    assert receipt.id is not None
    return receipt.id


ON_TERMINAL = """
import fcntl, os, sys, termios
os.setsid()
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.executable, [sys.executable, "-m", "engram", *sys.argv[1:]])
"""


def on_terminal(*arguments: str, answer: bytes = b"", when: bytes = b"", **environment: str) -> tuple[int, str]:
    """Run the command on a terminal and type an answer when it has printed something; exit code and screen."""
    screen, terminal = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", ON_TERMINAL, *arguments],
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        env={**os.environ, **environment},
    )
    os.close(terminal)
    seen, deadline = b"", time.monotonic() + 120
    while time.monotonic() < deadline:
        if answer and when in seen:
            time.sleep(0.2)  # a program that is just starting to read may miss what is typed now
            os.write(screen, answer)
            answer = b""
        if not select.select([screen], [], [], 0.5)[0]:
            continue
        try:
            some = os.read(screen, 65536)
        except OSError:  # the other end is closed
            break
        if not some:
            break
        seen += some
    code = process.wait(60)
    os.close(screen)
    return code, seen.decode()


def test_a_table_is_shortened_and_its_text_is_harmless(id: str) -> None:
    code, screen = on_terminal("memory", "list")
    assert code == 0
    assert id in screen
    assert r"\x1b[31m" in screen
    assert "\x1b[31m" not in screen
    assert "[red]text[/red]" in screen.replace("\r\n", "")
    assert "…" in screen
    assert len(screen.splitlines()) < 15


def test_json_on_a_terminal_is_whole_and_plain(id: str) -> None:
    code, screen = on_terminal("memory", "list", "--json")
    assert code == 0
    assert "\x1b" not in screen
    assert "…" not in screen


def test_no_color_takes_the_colour_away(id: str) -> None:
    assert "\x1b[32m" in on_terminal("doctor")[1]
    assert "\x1b[32m" not in on_terminal("doctor", NO_COLOR="1")[1]


def test_forgetting_asks_first(id: str, path: Path) -> None:
    code, screen = on_terminal("memory", "forget", id, answer=b"n\n", when=b"[y/N]")
    assert code == 1
    assert "Forget 1 memory for good?" in screen
    assert "nothing was changed" in screen
    assert on_terminal("memory", "forget", id, answer=CTRL_C, when=b"[y/N]")[0] == 130
    with engram.open(path) as brain:
        assert brain.agent("alice").get(id) is not None
    assert on_terminal("memory", "forget", id, answer=b"y\n", when=b"[y/N]")[0] == 0
    with engram.open(path) as brain:
        assert brain.agent("alice").get(id) is None


def test_yes_is_not_asked(id: str) -> None:
    code, screen = on_terminal("memory", "forget", id, "--yes")
    assert code == 0
    assert "[y/N]" not in screen


def test_progress_is_shown_unless_it_is_to_be_quiet(id: str) -> None:
    shown = on_terminal("upkeep", "reembed", "--embedder", "hashing:64")
    assert shown[0] == 0
    assert "embedding" in shown[1]
    quiet = on_terminal("upkeep", "reembed", "--embedder", "hashing:65", "--quiet")
    assert quiet == (0, "Embedded 1 memory with hashing-65@1.\r\n")
