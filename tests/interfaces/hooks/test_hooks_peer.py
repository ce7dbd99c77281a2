"""A memory that is open already answers the hooks of its user, of its database and its agent, and of nobody else."""

from __future__ import annotations

import errno
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

import engram
from engram import wiring
from engram.hooks import entry, peer_client, peer_server
from engram.hooks.peer_server import serve_hooks

PROMPT = {"prompt": "which database does staging run?", "session_id": "s1", "cwd": "/home/me/shop"}
USUAL = peer_client.GREETING_SECONDS
QUESTION = {"event": "UserPromptSubmit", "client": "claude", "block": False, "payload": PROMPT}
ALONE = """
import sys
sys.modules["engram.hooks.handlers"] = None  # whoever opens the memory imports it
from engram.hooks import peer_client
from engram.hooks.entry import main
peer_client.GREETING_SECONDS = 30
main()
"""


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A user's folder, whose path is short enough for sockets; whoever is there has time enough to say so."""
    monkeypatch.setattr(peer_client, "GREETING_SECONDS", 30)
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
    return entry.respond(entry.parse_arguments([event, "--seconds=60", *arguments]), json.dumps(payload).encode())


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
    with serve_hooks(brain, str(path), "default") as place:
        assert place is not None
        said = [near_only(payload, *more, event=event)[0] for event, payload, more in asked]
    assert [json.loads(line) if line else None for line in said] == alone


def test_only_the_hooks_of_its_agent_and_database_are_answered(brain: engram.Engram, path: Path, home: Path) -> None:
    with engram.open(home / "other.db") as other:
        other.agent("default").remember("Staging runs MariaDB")
    with serve_hooks(brain, str(path), "default"):
        assert "PostgreSQL" in near_only(PROMPT)[0]
        assert "PostgreSQL" in near_only(PROMPT, f"--db=../{home.name}/team.db")[0]
        assert near_only(PROMPT, "--agent=bob")[0] == ""
        assert near_only(PROMPT, f"--db={home / 'other.db'}")[0] == ""


def test_whoever_is_gone_is_passed_over_and_its_socket_goes(brain: engram.Engram, path: Path) -> None:
    with serve_hooks(brain, str(path), "default") as place:
        assert place is not None
        gone = place.with_suffix(".0")
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(str(gone))
        assert gone.exists()
        assert "PostgreSQL" in near_only(PROMPT)[0]
        assert not gone.exists()
    assert [*peer_client.socket_folder().iterdir()] == []
    assert "PostgreSQL" in str(ask("UserPromptSubmit", PROMPT))


@pytest.mark.parametrize("said", [b"", b"nonsense", b"[1]", b'{"other": 1}', b"[" * 100_000])
def test_one_that_answers_nonsense_is_as_one_that_is_not_there(brain: engram.Engram, path: Path, said: bytes) -> None:
    peer_client.socket_folder().mkdir(mode=0o700, parents=True)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(peer_client.socket_folder() / f"{peer_client.socket_name(str(path), 'default')}.1"))
        listener.listen()

        def answer() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.sendall(peer_client.GREETING)
                peer_client.read(connection, 60)
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
    with serve_hooks(brain, str(path), "default") as place:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(place))
            connection.sendall(said)
            connection.shutdown(socket.SHUT_WR)
            assert peer_client.read(connection, 60).removeprefix(peer_client.GREETING) in {b"", b'{"answer": null}'}
        assert "PostgreSQL" in near_only(PROMPT)[0]


def test_a_folder_that_others_can_reach_is_not_used(brain: engram.Engram, path: Path) -> None:
    peer_client.socket_folder().mkdir(parents=True)
    peer_client.socket_folder().chmod(0o755)
    with serve_hooks(brain, str(path), "default") as place:
        assert place is None
    peer_client.socket_folder().chmod(0o700)
    with serve_hooks(brain, str(path), "default"):
        peer_client.socket_folder().chmod(0o770)
        assert near_only(PROMPT)[0] == ""


def test_a_folder_that_is_a_link_is_not_used(brain: engram.Engram, path: Path, home: Path) -> None:
    (home / "elsewhere").mkdir(mode=0o700)
    peer_client.socket_folder().parent.mkdir(parents=True)
    peer_client.socket_folder().symlink_to(home / "elsewhere")
    with serve_hooks(brain, str(path), "default") as place:
        assert place is None


def test_a_path_that_is_too_long_for_a_socket_and_a_memory_without_a_name_are_not_offered(
    brain: engram.Engram, path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serve_hooks(brain, ":memory:", "default") as place:
        assert place is None
    monkeypatch.setenv("XDG_DATA_HOME", str(home / ("d" * 90)))
    with serve_hooks(brain, str(path), "default") as place:
        assert place is None


def test_several_hooks_at_once_are_all_answered(brain: engram.Engram, path: Path) -> None:
    answers: list[Any] = []
    with serve_hooks(brain, str(path), "default"):
        asking = [
            threading.Thread(target=lambda: answers.append(peer_client.ask(str(path), "default", QUESTION, 60)))
            for _ in range(12)
        ]
        for each in asking:
            each.start()
        for each in asking:
            each.join()
    assert len(answers) == 12
    assert all("PostgreSQL" in str(answer) for answer in answers)
    assert not [each for each in threading.enumerate() if each.name.startswith("engram-hooks")]


# Another file at the same path ---------------------------------------------------------------------------------


def replaced(path: Path, said: str) -> None:
    """Put another database where one is."""
    for suffix in ("", "-wal", "-shm"):
        Path(f"{path}{suffix}").unlink(missing_ok=True)
    with engram.open(path, durable=False) as new:
        new.agent("default").remember(said)


def test_a_database_that_is_gone_answers_nobody(brain: engram.Engram, path: Path) -> None:
    with serve_hooks(brain, str(path), "default"):
        assert "PostgreSQL" in near_only(PROMPT)[0]
        replaced(path, "Staging runs MariaDB")
        assert near_only(PROMPT)[0] == ""
        assert "MariaDB" in str(ask("UserPromptSubmit", PROMPT))


def test_a_database_that_goes_while_it_is_asked_is_not_answered_from(
    brain: engram.Engram, path: Path, home: Path
) -> None:
    replaced(home / "other.db", "Staging runs MariaDB")
    with serve_hooks(brain, str(path), "default") as place, socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(place))
        assert connection.recv(1) == peer_client.GREETING
        (home / "other.db").replace(path)
        connection.sendall(json.dumps(QUESTION).encode())
        connection.shutdown(socket.SHUT_WR)
        assert peer_client.read(connection, 60) == b""


def test_a_restored_database_is_answered_from_as_it_is_now(brain: engram.Engram, path: Path, home: Path) -> None:
    with engram.open(home / "other.db", durable=False) as other:
        other.agent("default").remember("Staging runs MariaDB")
        other.store.backup(home / "backup.db")  # type: ignore[attr-defined]
    with serve_hooks(brain, str(path), "default"):
        wiring.restore(home / "backup.db", path)
        answer = str(ask("UserPromptSubmit", PROMPT))
        assert "MariaDB" in answer
        assert "PostgreSQL" not in answer


# Whoever hangs, and whoever has trouble -------------------------------------------------------------------------


@contextmanager
def hanging(path: Path, *numbers: int) -> Iterator[None]:
    """Processes that were stopped: they can be connected to, and that is all."""
    peer_client.socket_folder().mkdir(mode=0o700, parents=True, exist_ok=True)
    with ExitStack() as stack:
        for number in numbers:
            listener = stack.enter_context(socket.socket(socket.AF_UNIX))
            listener.bind(
                str(peer_client.socket_folder() / f"{peer_client.socket_name(str(path), 'default')}.{number}")
            )
            listener.listen()
        yield


def test_whoever_hangs_costs_little_of_the_time(
    brain: engram.Engram, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peer_client, "GREETING_SECONDS", USUAL)
    with hanging(path, *range(100)):
        began = time.monotonic()
        assert peer_client.ask(str(path), "default", QUESTION, 60) is None
        assert time.monotonic() - began < 10


def test_whoever_hangs_is_passed_over(brain: engram.Engram, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer_client, "GREETING_SECONDS", 3)
    with serve_hooks(brain, str(path), "default"), hanging(path, 0):
        assert "PostgreSQL" in str(peer_client.ask(str(path), "default", QUESTION, 60))


def test_those_who_say_nothing_keep_nobody_from_being_answered(
    brain: engram.Engram, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peer_server, "TOTAL_SECONDS", 600)
    with serve_hooks(brain, str(path), "default") as place, ExitStack() as idle:
        for _ in range(15):
            idle.enter_context(socket.socket(socket.AF_UNIX)).connect(str(place))
        assert "PostgreSQL" in str(peer_client.ask(str(path), "default", QUESTION, 60))


def test_more_than_can_be_answered_are_sent_away_at_once(
    brain: engram.Engram, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peer_server, "FIRST_BYTE_SECONDS", 600)
    with serve_hooks(brain, str(path), "default") as place, ExitStack() as idle:
        for number in range(peer_server.MAX_CONNECTIONS + 3):
            guest = idle.enter_context(socket.socket(socket.AF_UNIX))
            guest.settimeout(60)
            guest.connect(str(place))
            assert guest.recv(1) == (peer_client.GREETING if number < peer_server.MAX_CONNECTIONS else b"")
        assert peer_client.ask(str(path), "default", QUESTION, 60) is None


def test_whoever_says_nothing_is_hung_up_on(brain: engram.Engram, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer_server, "TOTAL_SECONDS", 600)
    with serve_hooks(brain, str(path), "default") as place, socket.socket(socket.AF_UNIX) as guest:
        guest.settimeout(60)
        guest.connect(str(place))
        assert peer_client.read(guest, 60) == peer_client.GREETING


def test_the_end_waits_for_nobody(brain: engram.Engram, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer_server, "FIRST_BYTE_SECONDS", 30)
    monkeypatch.setattr(peer_server, "TOTAL_SECONDS", 30)
    with socket.socket(socket.AF_UNIX) as silent, socket.socket(socket.AF_UNIX) as slow:
        with serve_hooks(brain, str(path), "default") as place:
            for guest in (silent, slow):
                guest.connect(str(place))
                assert guest.recv(1) == peer_client.GREETING
            slow.sendall(b"{")
            began = time.monotonic()
        assert time.monotonic() - began < 15


class Troubled:
    """A listener that cannot let the second one in who comes."""

    def __init__(self, listener: socket.socket, trouble: int) -> None:
        self.listener, self.trouble, self.tried = listener, trouble, 0

    def accept(self) -> Any:
        self.tried += 1
        if self.tried == 2:
            raise OSError(self.trouble, os.strerror(self.trouble))
        return self.listener.accept()

    def shutdown(self, how: int) -> None:
        self.listener.shutdown(how)

    def __enter__(self) -> Troubled:
        return self

    def __exit__(self, *error: object) -> None:
        self.listener.close()


def troubled(trouble: int, monkeypatch: pytest.MonkeyPatch) -> None:
    real = peer_server._listen

    def listening(called: str) -> tuple[Any, Path | None]:
        listener, place = real(called)
        assert listener is not None
        return Troubled(listener, trouble), place

    monkeypatch.setattr(peer_server, "_listen", listening)


@pytest.mark.parametrize("trouble", [errno.EMFILE, errno.ENFILE, errno.ECONNABORTED])
def test_after_a_moment_without_descriptors_hooks_are_answered_again(
    brain: engram.Engram, path: Path, trouble: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    troubled(trouble, monkeypatch)
    with serve_hooks(brain, str(path), "default"):
        for _ in range(3):
            assert "PostgreSQL" in str(peer_client.ask(str(path), "default", QUESTION, 60))


def test_where_nobody_can_be_let_in_any_more_no_socket_stays(
    brain: engram.Engram, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    troubled(errno.EBADF, monkeypatch)
    with serve_hooks(brain, str(path), "default") as place:
        assert place is not None
        assert "PostgreSQL" in str(peer_client.ask(str(path), "default", QUESTION, 60))
        end = time.monotonic() + 60
        while place.exists() and time.monotonic() < end:
            time.sleep(0.01)
        assert not place.exists()


def test_a_socket_has_its_name_only_when_it_can_be_connected_to(
    brain: engram.Engram, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []
    listen = socket.socket.listen

    def hurried(listener: socket.socket, *waiting: int) -> None:
        seen.append(peer_client.ask(str(path), "default", QUESTION, 60))  # it would remove what refuses it
        listen(listener, *waiting)

    monkeypatch.setattr(socket.socket, "listen", hurried)
    with serve_hooks(brain, str(path), "default") as place:
        assert seen == [None]
        assert [*peer_client.socket_folder().iterdir()] == [place]
        assert "PostgreSQL" in str(peer_client.ask(str(path), "default", QUESTION, 60))


# The server that a client starts ---------------------------------------------------------------------------------


@contextmanager
def started(path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The server, when it has answered for the first time."""
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
        yield server
    finally:
        server.kill()
        server.wait()
        server.stdout.close()
        server.stdin.close()


def test_the_server_that_a_client_starts_answers_its_hooks(brain: engram.Engram, path: Path) -> None:
    with started(path) as server:
        assert server.stdin is not None
        assert "PostgreSQL" in near_only(PROMPT)[0]
        server.stdin.close()
        assert server.wait(60) == 0
        assert [*peer_client.socket_folder().iterdir()] == []


@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_in_good_order(brain: engram.Engram, path: Path, sign: signal.Signals) -> None:
    with started(path) as server:
        assert len([*peer_client.socket_folder().iterdir()]) == 1
        server.send_signal(sign)
        assert server.wait(60) == 0
        assert [*peer_client.socket_folder().iterdir()] == []


def test_a_server_that_was_stopped_does_not_take_the_time_of_a_hook(
    brain: engram.Engram, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with started(path) as server:
        monkeypatch.setattr(peer_client, "GREETING_SECONDS", USUAL)
        server.send_signal(signal.SIGSTOP)
        assert "PostgreSQL" in str(ask("UserPromptSubmit", PROMPT))
        began = time.monotonic()
        assert peer_client.ask(str(path), "default", QUESTION, 60) is None
        assert time.monotonic() - began < 10
        server.send_signal(signal.SIGCONT)
        monkeypatch.setattr(peer_client, "GREETING_SECONDS", 30)
        assert "PostgreSQL" in str(peer_client.ask(str(path), "default", QUESTION, 60))
