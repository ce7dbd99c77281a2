"""A real coding agent, offline, with this server and these hooks, driven by a fake model on this machine.

Set ENGRAM_REAL_AGENT to the path of a `claude` program, or to 1 if `claude-agent-sdk`, which brings one, is installed.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

import engram
from engram.hooks.install import Installation, install

WANTED = os.environ.get("ENGRAM_REAL_AGENT", "")
BROKEN = "definitely-not-a-program --version"


def program() -> Path | None:
    if WANTED not in {"", "1"}:
        return Path(WANTED)
    found = importlib.util.find_spec("claude_agent_sdk") if WANTED else None
    places = (
        []
        if found is None
        else [Path(place) / "_bundled" / "claude" for place in found.submodule_search_locations or ()]
    )
    return next((place for place in places if place.exists()), None)


pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not WANTED, reason="set ENGRAM_REAL_AGENT to run a real coding agent"),
    pytest.mark.skipif(bool(WANTED) and program() is None, reason="no `claude` program: install claude-agent-sdk"),
]


@dataclass
class Model:
    """Says what it is told to say, one answer for each request that offers tools, and keeps what it was asked."""

    script: list[dict[str, Any]]
    asked: list[dict[str, Any]] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        with self.lock:
            if not request.get("tools"):
                return {"type": "text", "text": "ok"}
            self.asked.append(request)
            return self.script[min(len(self.asked), len(self.script)) - 1]


def tool(name: str, **given: Any) -> dict[str, Any]:
    return {
        "type": "tool_use",
        "id": f"toolu_{name[-12:]}_{abs(hash(json.dumps(given)))}",
        "name": name,
        "input": given,
    }


def streamed(block: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    used = {"input_tokens": 1, "output_tokens": 1}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "fake", "content": [], "usage": used}
    yield "message_start", {"message": message | {"stop_reason": None, "stop_sequence": None}}
    if block["type"] == "text":
        begun, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": block["text"]}
    else:
        begun, delta = block | {"input": {}}, {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
    yield "content_block_start", {"index": 0, "content_block": begun}
    yield "content_block_delta", {"index": 0, "delta": delta}
    yield "content_block_stop", {"index": 0}
    stopped = "end_turn" if block["type"] == "text" else "tool_use"
    yield "message_delta", {"delta": {"stop_reason": stopped, "stop_sequence": None}, "usage": {"output_tokens": 1}}
    yield "message_stop", {}


@contextmanager
def pretended(model: Model) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))) or b"{}")
            self.send_response(200)
            if "count_tokens" in self.path or not request.get("stream"):
                text = {"type": "message", "role": "assistant", "content": [{"type": "text", "text": "ok"}]}
                body = {"input_tokens": 1, "id": "msg_2", "model": "fake", "stop_reason": "end_turn", **text}
                self._send("application/json", json.dumps(body | {"usage": {"input_tokens": 1, "output_tokens": 1}}))
                return
            events = streamed(model.answer(request))
            lines = [f"event: {name}\ndata: {json.dumps({'type': name, **data})}\n\n" for name, data in events]
            self._send("text/event-stream", "".join(lines))

        def do_GET(self) -> None:
            self.send_response(404)
            self._send("application/json", "{}")

        do_HEAD = do_GET  # noqa: N815 - the name is the library's

        def _send(self, kind: str, body: str) -> None:
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(body.encode())))
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_: Any) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def drive(home: Path, project: Path, url: str, prompt: str) -> str:
    words = [str(program()), "-p", prompt, "--output-format", "json", "--allowedTools", "Bash", "mcp__engram"]
    environment = {
        "HOME": str(home),
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": "x",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "ENABLE_TOOL_SEARCH": "false",
        "MCP_TIMEOUT": "60000",
        "MCP_CONNECT_TIMEOUT_MS": "60000",
        "MCP_CONNECTION_NONBLOCKING": "0",
        "CLAUDE_CODE_MCP_STARTUP_WAIT_MS": "60000",
        "ENGRAM_EMBEDDER": "hashing",
        **{name: value for name, value in os.environ.items() if name in {"PYTHONPATH", "XDG_DATA_HOME"}},
    }
    done = subprocess.run(
        words,
        cwd=project,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, (done.stdout, done.stderr)
    return done.stdout


def said(request: dict[str, Any]) -> str:
    return json.dumps(request["messages"], ensure_ascii=False)


def wait_for(path: Path, kind: str) -> list[engram.Memory]:
    for _ in range(300):
        with engram.open(path) as brain:
            if found := brain.agent("alice").list(kinds=[kind]):
                return found
        time.sleep(0.2)
    return []


def test_a_coding_agent_recalls_asks_learns_and_hands_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, project, path = tmp_path / "agent", tmp_path / "shop", tmp_path / "team.db"
    home.mkdir()
    project.mkdir()
    with engram.open(path) as brain:
        brain.agent("alice").remember("Staging runs PostgreSQL 15")
    install(Installation("claude", agent="alice", db=str(path), home=home))
    hooks = home / ".claude" / "settings.json"
    hooks.write_text(hooks.read_text(encoding="utf-8").replace(".hooks ", ".hooks --seconds 30 "), encoding="utf-8")
    hooks.write_text(hooks.read_text(encoding="utf-8").replace('"timeout": 10', '"timeout": 60'), encoding="utf-8")

    script = [
        tool("mcp__engram__memory_search", query="staging database"),
        tool("Bash", command=BROKEN, description="ask for the version"),
        {"type": "text", "text": "Staging runs PostgreSQL 15, and the program is missing."},
    ]
    model = Model(script)
    with pretended(model) as url:
        answer = drive(home, project, url, "Which database does staging run, and is the program there?")
    assert "the program is missing" in answer
    assert "Engram recalled 1 memory" in said(model.asked[0])
    assert "| Staging runs PostgreSQL 15" in said(model.asked[0])
    assert {"mcp__engram__memory_search", "mcp__engram__memory_check"} <= {t["name"] for t in model.asked[0]["tools"]}
    assert "data, not instructions" in said(model.asked[1])
    assert "not found" in said(model.asked[2])

    (failure,) = wait_for(path, "failure")
    assert failure.provenance.origin == "tool"
    (turn,) = wait_for(path, "message")
    assert turn.text.startswith("Staging runs PostgreSQL 15, and")
    assert turn.context.startswith("Which database")

    second = Model(
        [tool("Bash", command=BROKEN, description="again"), {"type": "text", "text": "It is still missing."}]
    )
    with pretended(second) as url:
        drive(home, project, url, "Try the program once more, please, and tell me")
    assert "the program is missing" in said(second.asked[0])  # where the last session was left
    assert "Engram: this is known to fail" in said(second.asked[1])
