"""A memory that is open already answers the hooks of its user, of its database and its agent, and of nobody else."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

import engram
from engram.hooks import fast, nearby
from engram.hooks.offering import offered

PROMPT = {"prompt": "which database does staging run?", "session_id": "s1", "cwd": "/home/me/shop"}
ALONE = """
import sys
sys.modules["engram.hooks.events"] = None  # whoever opens the memory imports it
from engram.hooks.fast import main
main()
"""


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A user's folder, whose path is short enough for sockets."""
    with TemporaryDirectory(prefix="engram-") as folder:
        monkeypatch.setenv("XDG_DATA_HOME", str(Path(folder) / "d"))
        monkeypatch.chdir(folder)
        yield Path(folder)
        monkeypatch.chdir("/")


@pytest.fixture
def path(home: Path) -> Path:
    return home / "team.db"


@pytest.fixture
def brain(home: Path, path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[engram.Engram]:
    monkeypatch.setenv("ENGRAM_DB", str(path))
    with engram.open(path, durable=False) as opened:
        opened.agent("default").remember("Staging runs PostgreSQL 15")
        yield opened


def ask(event: str, payload: dict[str, Any], *arguments: str) -> dict[str, Any] | None:
    return fast.respond(fast.options([event, "--seconds=60", *arguments]), json.dumps(payload).encode())


def near_only(payload: dict[str, Any], *arguments: str, event: str = "UserPromptSubmit") -> tuple[str, str]:
    """What a hook says that cannot open the memory itself."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", ALONE, event, "--seconds=60", *arguments],
        input=json.dumps(payload),
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout, done.stderr


def test_the_answer_is_the_same_as_without_it(brain: engram.Engram, path: Path) -> None:
    agent = brain.agent("default")
    for number in range(3):
        agent.learn_from_failure(f"boom {number}", action="npm install", environment="shop", tool="shell")
    agent.remember("The login page is there.", tags=["shop"])
    tool = {"tool_name": "Bash", "tool_input": {"command": "npm install"}, "cwd": "/home/me/shop"}
    asked: list[tuple[str, dict[str, Any], list[str]]] = [
        ("UserPromptSubmit", PROMPT, []),
        ("UserPromptSubmit", PROMPT, ["--client=cursor"]),
        ("UserPromptSubmit", {**PROMPT, "prompt": "translate this poem into Finnish"}, []),
        ("SessionStart", {"source": "startup", "cwd": "/home/me/shop", "session_id": "s2"}, []),
        ("PreToolUse", tool, []),
        ("PreToolUse", tool, ["--block"]),
    ]
    alone = [ask(event, payload, *more) for event, payload, more in asked]
    assert [bool(answer) for answer in alone] == [True, True, False, True, True, True]
    with offered(brain, str(path), "default") as place:
        assert place is not None
        said = [near_only(payload, *more, event=event)[0] for event, payload, more in asked]
    assert [json.loads(line) if line else None for line in said] == alone


def test_only_the_hooks_of_its_agent_and_database_are_answered(brain: engram.Engram, path: Path, home: Path) -> None:
    with engram.open(home / "other.db") as other:
        other.agent("default").remember("Staging runs MariaDB")
    with offered(brain, str(path), "default"):
        assert "PostgreSQL" in near_only(PROMPT)[0]
        assert "PostgreSQL" in near_only(PROMPT, f"--db=../{home.name}/team.db")[0]
        assert near_only(PROMPT, "--agent=bob")[0] == ""
        assert near_only(PROMPT, f"--db={home / 'other.db'}")[0] == ""


def test_whoever_is_gone_is_passed_over_and_its_socket_goes(brain: engram.Engram, path: Path) -> None:
    with offered(brain, str(path), "default") as place:
        assert place is not None
        gone = place.with_suffix(".0")
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(str(gone))
        assert gone.exists()
        assert "PostgreSQL" in near_only(PROMPT)[0]
        assert not gone.exists()
    assert [*nearby.folder().iterdir()] == []
    assert "PostgreSQL" in str(ask("UserPromptSubmit", PROMPT))


@pytest.mark.parametrize("said", [b"", b"nonsense", b"[1]", b'{"other": 1}', b"[" * 100_000])
def test_one_that_answers_nonsense_is_as_one_that_is_not_there(brain: engram.Engram, path: Path, said: bytes) -> None:
    nearby.folder().mkdir(mode=0o700, parents=True)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(nearby.folder() / f"{nearby.name(str(path), 'default')}.1"))
        listener.listen()

        def answer() -> None:
            connection, _ = listener.accept()
            with connection:
                nearby.read(connection)
                connection.sendall(said)

        answering = threading.Thread(target=answer)
        answering.start()
        assert "PostgreSQL" in str(ask("UserPromptSubmit", PROMPT))
        answering.join()


@pytest.mark.parametrize(
    "said",
    [b"", b"\xff", b"[]", b"{}", b'{"event": "Stop", "client": "claude", "payload": {}}', b'{"event": []}',
     b'{"event": "PreToolUse", "client": "emacs"}', b'{"event": "UserPromptSubmit", "client": "claude", "payload": 3}',
     b"[" * 100_000],
)  # fmt: skip
def test_nonsense_is_not_answered_and_breaks_nothing(brain: engram.Engram, path: Path, said: bytes) -> None:
    with offered(brain, str(path), "default") as place:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(place))
            connection.sendall(said)
            connection.shutdown(socket.SHUT_WR)
            assert nearby.read(connection) in {b"", b'{"answer": null}'}
        assert "PostgreSQL" in near_only(PROMPT)[0]


def test_a_folder_that_others_can_reach_is_not_used(brain: engram.Engram, path: Path) -> None:
    nearby.folder().mkdir(parents=True)
    nearby.folder().chmod(0o755)
    with offered(brain, str(path), "default") as place:
        assert place is None
    nearby.folder().chmod(0o700)
    with offered(brain, str(path), "default"):
        nearby.folder().chmod(0o770)
        assert near_only(PROMPT)[0] == ""


def test_a_folder_that_is_a_link_is_not_used(brain: engram.Engram, path: Path, home: Path) -> None:
    (home / "elsewhere").mkdir(mode=0o700)
    nearby.folder().parent.mkdir(parents=True)
    nearby.folder().symlink_to(home / "elsewhere")
    with offered(brain, str(path), "default") as place:
        assert place is None


def test_a_path_that_is_too_long_for_a_socket_and_a_memory_without_a_name_are_not_offered(
    brain: engram.Engram, path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with offered(brain, ":memory:", "default") as place:
        assert place is None
    monkeypatch.setenv("XDG_DATA_HOME", str(home / ("d" * 90)))
    with offered(brain, str(path), "default") as place:
        assert place is None


def test_several_hooks_at_once_are_all_answered(brain: engram.Engram, path: Path) -> None:
    answers: list[Any] = []
    question = {"event": "UserPromptSubmit", "client": "claude", "block": False, "payload": PROMPT}
    with offered(brain, str(path), "default"):
        asking = [
            threading.Thread(target=lambda: answers.append(nearby.ask(str(path), "default", question, 60)))
            for _ in range(12)
        ]
        for each in asking:
            each.start()
        for each in asking:
            each.join()
    assert len(answers) == 12
    assert all("PostgreSQL" in str(answer) for answer in answers)
    assert not [each for each in threading.enumerate() if each.name.startswith("engram-hooks")]


def test_the_server_that_a_client_starts_answers_its_hooks(brain: engram.Engram, path: Path) -> None:
    server = subprocess.Popen(
        [sys.executable, "-m", "engram", "mcp", "--db", str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "ENGRAM_EMBEDDER": "hashing"},
    )
    assert server.stdin is not None
    assert server.stdout is not None
    try:
        began = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
        line = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": began}
        server.stdin.write(json.dumps(line).encode() + b"\n")
        server.stdin.flush()
        assert b"engram" in server.stdout.readline()
        assert "PostgreSQL" in near_only(PROMPT)[0]
        server.stdin.close()
        assert server.wait(60) == 0
        assert [*nearby.folder().iterdir()] == []
    finally:
        server.kill()
        server.wait()
        server.stdout.close()
        server.stdin.close()
