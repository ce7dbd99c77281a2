"""The way into a hook and out of it: what can be decided without the memory is decided here.

Whatever goes wrong, a hook ends with exit code 0 and says nothing, so that the session goes on as if it were not there.
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
"""What the clients call their events, in small letters, and what they are called here."""
DEFAULT_AGENT = "default"
CLIENTS = ("claude", "codex", "cursor")
ASKED = frozenset({"SessionStart", "UserPromptSubmit", "PreToolUse"})
"""Events whose answer somebody waits for; the others only tell, and are dealt with in the background."""
SECONDS = 2.0
"""How long somebody may wait for an answer."""
BACKGROUND_SECONDS = 120.0
MOST_INPUT = 8_000_000
MOST_ERROR = 8_000
MOST_TOLD = 60_000
"""Characters of what is handed to the background: it fits into a pipe, so that handing over never waits."""

READERS = frozenset(
    "read readfile read_file notebookread glob grep ls list_dir search websearch web_search todowrite todoread "
    "update_plan toolsearch task taskoutput askuserquestion exitplanmode enterplanmode skill".split()
)
"""Tools that change nothing; what they do is not checked, and not learned from."""
SHELLS = frozenset("bash shell local_shell exec_command terminal run_terminal_cmd powershell".split())
OWN = re.compile(r"(?:mcp__|mcp:)?engram(?:__|:)|memory_", re.IGNORECASE)
TRIVIAL = re.compile(
    r"(?:(?:ok|okay|k|yes|yep|yeah|y|no|nope|n|sure|fine|good|great|nice|cool|perfect|thanks?|thank you|thx|ty|please|"
    r"go|go on|go ahead|continue|proceed|do it|next|more|again|retry|done|stop|wait|hi|hello|hey|lgtm|ship it|"
    r"sounds good|looks good)\b[\s.,!?:)~…-]*){1,4}",
    re.IGNORECASE,
)
LEAST_PROMPT = 8
MOST_ROWS = 5_000
"""Decisions and failures that are looked through before the memory is asked; if there are more, it is asked at once."""
ANY_MEMORY = "SELECT content FROM memories LIMIT ?"
DONE_BEFORE = "SELECT content FROM memories WHERE kind IN ('failure', 'decision') LIMIT ?"
WORD = re.compile(r"[^\W\d_]{2,}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Answer one event of a client; the exit code is 0, whatever happens."""
    try:
        asked = options(list(sys.argv[1:] if arguments is None else arguments))
        with _limited(BACKGROUND_SECONDS if asked.background else asked.seconds):
            answer = respond(asked, sys.stdin.buffer.read(MOST_INPUT + 1))
        if answer:
            sys.stdout.write(json.dumps(answer) + "\n")
            sys.stdout.flush()
    except SystemExit as error:
        _say(f"engram hook: {error}")
    except BaseException as error:  # noqa: BLE001 - the outermost border: a hook never breaks the session it is called from
        _say(f"engram hook: nothing was done ({type(error).__name__})")
    return 0


def options(arguments: list[str]) -> Any:
    """What the command line says. Raises `SystemExit` if it says something else."""
    asked = SimpleNamespace(
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
    waiting = list(arguments)
    while waiting:
        word = waiting.pop(0)
        name, separator, value = word.removeprefix("--").partition("=")
        name = name.replace("-", "_")
        if not word.startswith("--"):
            if asked.event:
                raise SystemExit(f"one event at a time, not {word!r} too")
            asked.event = word
        elif name in {"block", "no_project", "wait", "background"} and not separator:
            setattr(asked, name, True)
        elif name in {"client", "agent", "db", "seconds"} and (separator or waiting):
            setattr(asked, name, value if separator else waiting.pop(0))
        else:
            raise SystemExit(f"there is no option {word!r}")
    asked.event = EVENTS.get(asked.event.replace("-", "").replace("_", "").lower(), asked.event)
    asked.seconds = float(asked.seconds)
    if asked.client not in CLIENTS:
        raise SystemExit(f"the client is one of {', '.join(CLIENTS)}")
    return asked


def respond(asked: Any, data: bytes) -> dict[str, Any] | None:
    """The answer to an event, or nothing; raises whatever goes wrong."""
    payload = read(data)
    if asked.event not in EVENTS.values() or not worthwhile(asked.event, payload, asked.client):
        return None
    if asked.no_project:
        from engram.hooks.chdir import leave_project  # noqa: PLC0415 - only what is needed is imported

        asked.db = leave_project(asked.db)
    from engram import config  # noqa: PLC0415 - the settings come after what needs none

    settings = config.load({"db": asked.db})
    if settings.hooks.lower() in {"off", "no", "false", "0"}:
        return None
    if asked.event in ASKED or (asked.event == "PostToolUse" and not error_of(asked.event, payload)):
        file = database(settings.db)
        if file is not None and not _known(file, asked.event, payload):
            return None
    if asked.event not in ASKED and not asked.wait and not asked.background:
        _hand_over(asked, payload)
        return None
    asked.block = asked.block or settings.hooks.lower() == "block"
    agent = asked.agent or settings.agent or DEFAULT_AGENT
    if asked.event in ASKED:
        from engram.hooks import peer_client  # noqa: PLC0415 - only what is needed is imported

        question = {"event": asked.event, "client": asked.client, "block": asked.block, "payload": payload}
        near = peer_client.ask(settings.db, agent, question, asked.seconds / 2)
        if near is not None:
            return near["answer"] if isinstance(near["answer"], dict) else None
    from engram.hooks import events  # noqa: PLC0415 - this imports the memory

    return events.answer(asked, payload, agent)


def read(data: bytes) -> dict[str, Any]:
    """What the client tells; one that tells nothing that can be used tells nothing."""
    return {} if len(data) > MOST_INPUT else parsed(data.decode("utf-8", errors="replace")) or {}


def worthwhile(event: str, payload: dict[str, Any], client: str = "") -> bool:
    """Whether there can be anything to do, by what the client tells alone."""
    if event == "UserPromptSubmit":
        return not trivial(payload.get("prompt"))
    if event == "PostToolUse" and client == "codex" and isinstance(payload.get("tool_response"), str):
        return False  # that is what a command printed; whether it failed is not told
    if event in {"PreToolUse", "PostToolUse", "PostToolUseFailure"}:
        name = tool_name(payload)
        return bool(name) and name.lower() not in READERS and OWN.match(name) is None
    return bool(payload)


def trivial(prompt: object) -> bool:
    """Whether a prompt asks for nothing that could be remembered: ok, thanks, continue, a command of the client."""
    if not isinstance(prompt, str):
        return True
    text = prompt.strip()
    return len(text) < LEAST_PROMPT or text.startswith("/") or (len(text) < 80 and TRIVIAL.fullmatch(text) is not None)


def tool_name(payload: dict[str, Any]) -> str:
    """The tool that an event is about; some clients send commands of a shell without one."""
    name = payload.get("tool_name")
    if isinstance(name, str):
        return name
    return "Shell" if isinstance(payload.get("command"), str) else ""


def error_of(event: str, payload: Mapping[str, Any]) -> str:
    """What went wrong with a tool call; empty if nothing did, or if the user stopped it."""
    if event == "PostToolUseFailure":
        if payload.get("is_interrupt"):
            return ""
        said = next((payload[name] for name in ("error", "error_message") if payload.get(name)), "it failed")
        return cut(said if isinstance(said, str) else json.dumps(said), MOST_ERROR)
    told = payload.get("tool_response", payload.get("tool_output"))
    told = parsed(told) if isinstance(told, str) else told
    if not isinstance(told, dict):
        return ""
    code = told.get("exit_code", told.get("exitCode", 0))
    flawed = told.get("is_error") is True or told.get("isError") is True or told.get("success") is False
    failed = flawed or (isinstance(code, int) and code != 0)
    if not failed:
        return ""
    parts = [told[name] for name in ("error", "stderr", "output", "stdout", "content") if told.get(name)]
    said = "\n".join(part for part in parts if isinstance(part, str))
    return cut(f"Exit code {code}\n{said}" if code else said or "it failed", MOST_ERROR)


def parsed(text: str) -> dict[str, Any] | None:
    """The object that a text holds as JSON, or `None`."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def database(db: str) -> str | None:
    """The file of a SQLite database, or `None` if it is another one, whose state only the memory itself can tell."""
    if db.startswith("sqlite:///"):
        db = db.removeprefix("sqlite:///")
    return None if not db or "://" in db or db.startswith(":") or db == "memory:" else db


def _known(file: str, event: str, payload: dict[str, Any]) -> bool:
    """Whether the database is there, and may hold something that this event can be answered from."""
    path = Path(file).expanduser().absolute()
    try:
        if not path.stat().st_size:
            return False
    except OSError:
        return False
    import sqlite3  # noqa: PLC0415 - only what is needed is imported

    anything = event in {"SessionStart", "UserPromptSubmit"}
    query = ANY_MEMORY if anything else DONE_BEFORE
    try:
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=0.2)) as connection:
            rows = connection.execute(query, (1 if anything else MOST_ROWS + 1,)).fetchall()
    except sqlite3.Error:
        return True  # it may be encrypted, or busy: the memory itself has to say
    return bool(rows) if anything else len(rows) > MOST_ROWS or _alike(payload, (row[0] for row in rows))


def _alike(payload: dict[str, Any], contents: Iterable[object]) -> bool:
    """Whether what is done shares the beginning of a word with anything that was done before.

    Nothing else can be known to have failed, so that the memory itself need not be asked.
    """
    given = payload.get("tool_input", payload)
    command = given.get("command") if isinstance(given, dict) else given
    mine = _beginnings(f"{tool_name(payload)} {command if isinstance(command, str | list) else ''}")
    for content in contents:
        try:
            value = json.loads(str(content))
            done = value.get("action") or value.get("chosen_action") or ""
        except (ValueError, AttributeError, RecursionError):
            return True  # it is sealed: only the memory can read it
        if mine & _beginnings(str(done)):
            return True
    return False


def _beginnings(text: str) -> set[str]:
    """How the words of a text begin: what is bent or masked by the memory still begins the same."""
    return {word[:3].lower() for word in WORD.findall(text)}


def _hand_over(asked: Any, payload: dict[str, Any]) -> None:
    """Let another process deal with it, so that nobody waits."""
    import subprocess  # noqa: PLC0415 - only what is needed is imported

    told = json.dumps(shortened(payload)).encode()[:MOST_INPUT]
    words = [sys.executable, "-P", "-m", "engram.hooks", asked.event, "--background", f"--client={asked.client}"]
    words += [f"--agent={asked.agent}"] if asked.agent is not None else []
    words += [f"--db={asked.db}"] if asked.db is not None else []
    worker = subprocess.Popen(  # noqa: S603 - ourselves
        words,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        close_fds=True,
    )
    if worker.stdin is not None:
        worker.stdin.write(told)
        worker.stdin.close()


def shortened(payload: dict[str, Any]) -> dict[str, Any]:
    """What an event tells, with long texts cut in the middle, so that all of it fits into a pipe."""
    budget = MOST_TOLD
    kept: dict[str, Any] = {}
    for name in sorted(payload, key=lambda name: len(json.dumps(payload[name]))):
        value = payload[name]
        size = len(json.dumps(value))
        if size > budget:
            text = value if isinstance(value, str) else json.dumps(value)
            value = cut(text, budget // (2 if text.isascii() else 14))  # as JSON, a letter may be twelve
            size = len(json.dumps(value))
        if size <= budget:
            kept[name] = value
            budget -= size
    return kept


def cut(text: str, most: int) -> str:
    """The beginning and the end of a text."""
    if len(text) <= most:
        return text
    return f"{text[: most // 2]}\n…\n{text[-(most // 2) :]}"


@contextmanager
def _limited(seconds: float) -> Iterator[None]:
    """End the process when the time is up, whatever it is doing: nothing was printed yet, so that nothing is said.

    A process that does not read its own standard input is not a hook's own: something else runs there, and lives on.
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


def _say(message: str) -> None:
    """For whoever looks at the client's log."""
    try:
        print(message, file=sys.stderr)
    except OSError:
        return
