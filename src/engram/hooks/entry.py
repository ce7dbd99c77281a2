"""Entry point of hooks: parse the event, and handle without the engine whatever can be.

After any error a hook exits with 0 and prints no answer, so that the session of the coding agent goes on.
"""

from __future__ import annotations

import json
import os
import re
import sys
import threading
from contextlib import closing, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

EVENTS = {
    "sessionstart": "SessionStart",
    "userpromptsubmit": "UserPromptSubmit",
    "beforesubmitprompt": "UserPromptSubmit",
    "pretooluse": "PreToolUse",
    "beforeshellexecution": "PreToolUse",
    "posttooluse": "PostToolUse",
    "aftershellexecution": "PostToolUse",
    "posttoolusefailure": "PostToolUseFailure",
    "precompact": "PreCompact",
    "stop": "Stop",
    "sessionend": "SessionEnd",
}
"""The clients' names of events, in lower case, and our names."""
DEFAULT_AGENT = "default"
CLIENTS = ("claude", "codex", "cursor")
ANSWERED_EVENTS = frozenset({"SessionStart", "UserPromptSubmit", "PreToolUse"})
"""Events that the client waits for an answer to; all others are handled in the background."""
SECONDS = 2.0
"""The default time limit for an answer."""
BACKGROUND_SECONDS = 120.0
MAX_INPUT = 8_000_000
MAX_ERROR = 8_000
MAX_BACKGROUND = 60_000
"""Characters of a payload passed to the background process: it fits into a pipe, so that writing never blocks."""

READ_ONLY_TOOLS = frozenset(
    "read readfile read_file notebookread glob grep ls list_dir search websearch web_search todowrite todoread "
    "update_plan toolsearch task taskoutput askuserquestion exitplanmode enterplanmode skill".split()
)
"""Tools that change nothing: their calls are neither checked nor learned from."""
SHELLS = frozenset("bash shell local_shell exec_command terminal run_terminal_cmd powershell".split())
OWN_TOOLS = re.compile(r"(?:mcp__|mcp:)?engram(?:__|:)|memory_", re.IGNORECASE)
TRIVIAL = re.compile(
    r"(?:(?:ok|okay|k|yes|yep|yeah|y|no|nope|n|sure|fine|good|great|nice|cool|perfect|thanks?|thank you|thx|ty|please|"
    r"go|go on|go ahead|continue|proceed|do it|next|more|again|retry|done|stop|wait|hi|hello|hey|lgtm|ship it|"
    r"sounds good|looks good)\b[\s.,!?:)~…-]*){1,4}",
    re.IGNORECASE,
)
MIN_PROMPT = 8
MAX_ROWS = 5_000
"""Decisions and failures that are scanned before the engine is loaded; if there are more, it is loaded at once."""
ANY_MEMORY = "SELECT content FROM memories LIMIT ?"
RECORDED_ACTIONS = "SELECT content FROM memories WHERE kind IN ('failure', 'decision') LIMIT ?"
WORD = re.compile(r"[^\W\d_]{2,}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Handle one event of a client; the exit code is always 0."""
    try:
        call = parse_arguments(list(sys.argv[1:] if arguments is None else arguments))
        with _time_limit(BACKGROUND_SECONDS if call.background else call.seconds):
            answer = respond(call, sys.stdin.buffer.read(MAX_INPUT + 1))
        if answer:
            sys.stdout.write(json.dumps(answer) + "\n")
            sys.stdout.flush()
    except SystemExit as error:
        _log(f"engram hook: {error}")
    except BaseException as error:  # noqa: BLE001 - outermost level: a hook never breaks the session it is called from
        _log(f"engram hook: nothing was done ({type(error).__name__})")
    return 0


def parse_arguments(arguments: list[str]) -> Any:
    """Parse the command line. Raises `SystemExit` for unknown arguments."""
    call = SimpleNamespace(
        event="",
        client="claude",
        agent=None,
        db=None,
        seconds=SECONDS,
        block=False,
        no_project=False,
        wait=False,
        background=False,
    )
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        name, separator, value = word.removeprefix("--").partition("=")
        name = name.replace("-", "_")
        if not word.startswith("--"):
            if call.event:
                raise SystemExit(f"give only one event, not {word!r} too")
            call.event = word
        elif name in {"block", "no_project", "wait", "background"} and not separator:
            setattr(call, name, True)
        elif name in {"client", "agent", "db", "seconds"} and (separator or rest):
            setattr(call, name, value if separator else rest.pop(0))
        else:
            raise SystemExit(f"there is no option {word!r}")
    call.event = EVENTS.get(call.event.replace("-", "").replace("_", "").lower(), call.event)
    call.seconds = float(call.seconds)
    if call.client not in CLIENTS:
        raise SystemExit(f"the client is one of {', '.join(CLIENTS)}")
    return call


def respond(call: Any, data: bytes) -> dict[str, Any] | None:
    """Return the answer to an event, or `None`; exceptions are passed on."""
    payload = parse_payload(data)
    if call.event not in EVENTS.values() or not is_relevant(call.event, payload, call.client):
        return None
    if call.no_project:
        from engram.hooks.working_folder import leave_project  # noqa: PLC0415 - imported only if needed, because hooks must start fast

        call.db = leave_project(call.db)
    from engram import config  # noqa: PLC0415 - imported only if needed, because hooks must start fast

    settings = config.load({"db": call.db})
    if settings.hooks.lower() in {"off", "no", "false", "0"}:
        return None
    if call.event in ANSWERED_EVENTS or (call.event == "PostToolUse" and not error_text(call.event, payload)):
        file = sqlite_file(settings.db)
        if file is not None and not _may_have_answer(file, call.event, payload):
            return None
    if call.event not in ANSWERED_EVENTS and not call.wait and not call.background:
        _start_background(call, payload)
        return None
    call.block = call.block or settings.hooks.lower() == "block"
    agent = call.agent or settings.agent or DEFAULT_AGENT
    if call.event in ANSWERED_EVENTS:
        from engram.hooks import peer_client  # noqa: PLC0415 - imported only if needed, because hooks must start fast

        question = {"event": call.event, "client": call.client, "block": call.block, "payload": payload}
        reply = peer_client.ask(settings.db, agent, question, call.seconds / 2)
        if reply is not None:
            return reply["answer"] if isinstance(reply["answer"], dict) else None
    from engram.hooks import handlers  # noqa: PLC0415 - this imports the engine

    return handlers.answer(call, payload, agent)


def parse_payload(data: bytes) -> dict[str, Any]:
    """Parse the payload of an event; empty if it is not a JSON object or too large."""
    return {} if len(data) > MAX_INPUT else parse_object(data.decode("utf-8", errors="replace")) or {}


def is_relevant(event: str, payload: dict[str, Any], client: str = "") -> bool:
    """Return True if the payload alone does not rule out that there is something to do."""
    if event == "UserPromptSubmit":
        return not is_trivial(payload.get("prompt"))
    if event == "PostToolUse" and client == "codex" and isinstance(payload.get("tool_response"), str):
        return False  # this is the output of a command, without its exit code
    if event in {"PreToolUse", "PostToolUse", "PostToolUseFailure"}:
        name = tool_name(payload)
        return bool(name) and name.lower() not in READ_ONLY_TOOLS and OWN_TOOLS.match(name) is None
    return bool(payload)


def is_trivial(prompt: object) -> bool:
    """Return True for a prompt that needs no recall: ok, thanks, continue, a command of the client."""
    if not isinstance(prompt, str):
        return True
    text = prompt.strip()
    return len(text) < MIN_PROMPT or text.startswith("/") or (len(text) < 80 and TRIVIAL.fullmatch(text) is not None)


def tool_name(payload: dict[str, Any]) -> str:
    """Return the tool of an event; some clients send shell commands without one."""
    name = payload.get("tool_name")
    if isinstance(name, str):
        return name
    return "Shell" if isinstance(payload.get("command"), str) else ""


def error_text(event: str, payload: Mapping[str, Any]) -> str:
    """Return the error of a tool call; empty if it succeeded, or if the user interrupted it."""
    if event == "PostToolUseFailure":
        if payload.get("is_interrupt"):
            return ""
        error = next((payload[name] for name in ("error", "error_message") if payload.get(name)), "it failed")
        return shorten(error if isinstance(error, str) else json.dumps(error), MAX_ERROR)
    response = payload.get("tool_response", payload.get("tool_output"))
    response = parse_object(response) if isinstance(response, str) else response
    if not isinstance(response, dict):
        return ""
    code = response.get("exit_code", response.get("exitCode", 0))
    is_error = response.get("is_error") is True or response.get("isError") is True or response.get("success") is False
    failed = is_error or (isinstance(code, int) and code != 0)
    if not failed:
        return ""
    parts = [response[name] for name in ("error", "stderr", "output", "stdout", "content") if response.get(name)]
    text = "\n".join(part for part in parts if isinstance(part, str))
    return shorten(f"Exit code {code}\n{text}" if code else text or "it failed", MAX_ERROR)


def parse_object(text: str) -> dict[str, Any] | None:
    """Parse a JSON object; `None` if the text is not one."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def sqlite_file(db: str) -> str | None:
    """Return the path of a SQLite database, or `None` for other stores."""
    if db.startswith("sqlite:///"):
        db = db.removeprefix("sqlite:///")
    return None if not db or "://" in db or db.startswith(":") or db == "memory:" else db


def _may_have_answer(file: str, event: str, payload: dict[str, Any]) -> bool:
    """Return False if the database file is missing, or has nothing that could answer this event."""
    path = Path(file).expanduser().absolute()
    try:
        if not path.stat().st_size:
            return False
    except OSError:
        return False
    import sqlite3  # noqa: PLC0415 - imported only if needed, because hooks must start fast

    any_memory = event in {"SessionStart", "UserPromptSubmit"}
    query = ANY_MEMORY if any_memory else RECORDED_ACTIONS
    try:
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=0.2)) as connection:
            rows = connection.execute(query, (1 if any_memory else MAX_ROWS + 1,)).fetchall()
    except sqlite3.Error:
        return True  # it may be encrypted or busy: only the engine can tell
    return bool(rows) if any_memory else len(rows) > MAX_ROWS or _shares_word(payload, (row[0] for row in rows))


def _shares_word(payload: dict[str, Any], contents: Iterable[object]) -> bool:
    """Return True if a tool call shares the prefix of a word with a recorded action.

    Otherwise it cannot be known to fail, and the engine need not be loaded.
    """
    given = payload.get("tool_input", payload)
    command = given.get("command") if isinstance(given, dict) else given
    prefixes = _word_prefixes(f"{tool_name(payload)} {command if isinstance(command, str | list) else ''}")
    for content in contents:
        try:
            value = json.loads(str(content))
            action = value.get("action") or value.get("chosen_action") or ""
        except (ValueError, AttributeError, RecursionError):
            return True  # it is encrypted: only the engine can read it
        if prefixes & _word_prefixes(str(action)):
            return True
    return False


def _word_prefixes(text: str) -> set[str]:
    """Return the first three letters of each word: they survive inflection and masking by the engine."""
    return {word[:3].lower() for word in WORD.findall(text)}


def _start_background(call: Any, payload: dict[str, Any]) -> None:
    """Handle the event in another process, so that the client does not wait."""
    import subprocess  # noqa: PLC0415 - imported only if needed, because hooks must start fast

    data = json.dumps(shorten_payload(payload)).encode()[:MAX_INPUT]
    command = [sys.executable, "-P", "-m", "engram.hooks", call.event, "--background", f"--client={call.client}"]
    command += [f"--agent={call.agent}"] if call.agent is not None else []
    command += [f"--db={call.db}"] if call.db is not None else []
    worker = subprocess.Popen(  # noqa: S603 - ourselves
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        close_fds=True,
    )
    if worker.stdin is not None:
        worker.stdin.write(data)
        worker.stdin.close()


def shorten_payload(payload: dict[str, Any]) -> dict[str, Any]:
    """Shorten long texts in a payload in the middle, so that all of it fits into a pipe."""
    budget = MAX_BACKGROUND
    kept: dict[str, Any] = {}
    for name in sorted(payload, key=lambda name: len(json.dumps(payload[name]))):
        value = payload[name]
        size = len(json.dumps(value))
        if size > budget:
            text = value if isinstance(value, str) else json.dumps(value)
            value = shorten(text, budget // (2 if text.isascii() else 14))  # as JSON, one character may take twelve
            size = len(json.dumps(value))
        if size <= budget:
            kept[name] = value
            budget -= size
    return kept


def shorten(text: str, limit: int) -> str:
    """Shorten a text to its beginning and end."""
    if len(text) <= limit:
        return text
    return f"{text[: limit // 2]}\n…\n{text[-(limit // 2) :]}"


@contextmanager
def _time_limit(seconds: float) -> Iterator[None]:
    """Exit the process when the time is up; no answer was printed yet.

    If standard input is replaced, `main` was called inside another program, which must not be ended: no limit then.
    """
    if sys.stdin is not sys.__stdin__:
        yield
        return
    timer = threading.Timer(seconds, os._exit, (0,))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _log(message: str) -> None:
    """Print a message to standard error, which clients write to their logs."""
    try:
        print(message, file=sys.stderr)
    except OSError:
        return
