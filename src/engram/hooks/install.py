"""Writes the configuration of coding agents: this server among theirs, and the hooks; and takes it out again.

Before a file is changed, a copy of it is kept in the user's data folder: a file that nobody has changed since is put
back as it was, byte for byte; out of one that was, only our own entries are taken.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import shutil
import sys
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from engram import config
from engram.errors import ConfigError, Conflict, InvalidInput
from engram.hooks import json_edit
from engram.hooks.json_edit import Way

Client = Literal["claude", "codex", "cursor"]
Scope = Literal["user", "project"]
NAME = "engram"
BEGIN = "# >>> engram >>> written by `engram install`, removed by `engram uninstall`"
END = "# <<< engram <<<"
TOOLS = "Bash|Edit|Write|NotebookEdit|WebFetch|mcp__.*"
EVENTS: dict[Client, dict[str, str]] = {
    "claude": {
        "SessionStart": "",
        "UserPromptSubmit": "",
        "PreToolUse": TOOLS,
        "PostToolUse": TOOLS,
        "PostToolUseFailure": TOOLS,
        "PreCompact": "",
        "Stop": "",
        "SessionEnd": "",
    },
    "codex": {
        "SessionStart": "",
        "UserPromptSubmit": "",
        "PreToolUse": "",
        "PostToolUse": "",
        "PreCompact": "",
        "Stop": "",
    },
    "cursor": {
        "sessionStart": "",
        "beforeSubmitPrompt": "",
        "preToolUse": "Shell|Write|MCP.*",
        "postToolUse": "Shell|Write|MCP.*",
        "postToolUseFailure": "Shell|Write|MCP.*",
        "preCompact": "",
        "stop": "",
        "sessionEnd": "",
    },
}
"""The events of each client that are answered, and for which of its tools."""
SECONDS = 10
"""After which a client gives up on a hook, which gives up by itself much sooner."""

_OURS = re.compile(r"(?:-m engram\.hooks|\bengram(?:\.exe)?[\"']? hook) ")
_BLOCK = re.compile(rf"{re.escape(BEGIN)}\r?\n(?:[^\n]*\n)*?{re.escape(END)}(?:\r?\n|$)")


@dataclass(frozen=True, slots=True)
class Wish:
    """What is to be installed, and where."""

    client: Client
    scope: Scope = "user"
    agent: str | None = None
    db: str | None = None
    block: bool = False
    home: Path = field(default_factory=Path.home)
    folder: Path = field(default_factory=Path.cwd)
    own: Path | None = None
    """The client's own folder, if it is not where it usually is in the user's home."""

    def words(self, *begin: str) -> list[str]:
        """A command line that begins like this, with whose memory and where it is."""
        words = [*begin]
        words += ["--agent", self.agent] if self.agent is not None else []
        words += ["--db", self._db()] if self.db is not None else []
        return words + (["--no-project"] if self.scope == "user" else [])

    def _db(self) -> str:
        """The database as it is called from any folder; in a project, as the user says it."""
        db = self.db or ""
        if "://" in db:
            if urlsplit(db).password:
                raise InvalidInput("the database's URL holds a password; give it by the setting `db`, not by --db")
            return db
        return db if self.scope == "project" or db.startswith(":") else str(Path(db).expanduser().absolute())

    def server(self) -> list[str]:
        """The command line of the server."""
        return self.words(*([NAME] if self.scope == "project" else [sys.executable, "-P", "-m", NAME]), "mcp")

    def hook(self, event: str) -> str:
        """The command line of a hook."""
        begin = [NAME, "hook"] if self.scope == "project" else [sys.executable, "-P", "-m", "engram.hooks"]
        words = self.words(*begin, event, "--client", self.client) + (["--block"] if self.block else [])
        return shlex.join(words) if os.name != "nt" else " ".join(f'"{w}"' if " " in w else w for w in words)


@dataclass(frozen=True, slots=True)
class Change:
    """One file, what it is to hold, and how that is put in and taken out."""

    path: Path
    shown: str
    """What is added, as a text to look at."""
    add: Callable[[str, list[Way]], str]
    remove: Callable[[str, list[Way] | None], str]
    blank: str
    """What an empty file of this kind holds."""


def changes(wish: Wish) -> list[Change]:
    """The files that are to be changed."""
    project = wish.scope == "project"
    usual = (wish.folder if project else wish.home) / f".{wish.client}"
    own = usual if project or wish.own is None else wish.own
    if wish.client == "claude":
        beside = own if own is not usual else wish.home  # it keeps its servers in its folder only if that is elsewhere
        servers = wish.folder / ".mcp.json" if project else beside / ".claude.json"
        return [_servers(servers, wish), _hooks(own / "settings.json", wish)]
    if wish.client == "codex":
        return [_toml(own / "config.toml", wish), _hooks(own / "hooks.json", wish)]
    return [_servers(own / "mcp.json", wish), _hooks(own / "hooks.json", wish)]


def install(wish: Wish) -> list[Path]:
    """Write the configuration; doing it again replaces what was written before. The files that changed.

    Raises `Conflict` if a file holds something else where ours should be, and `ConfigError` if one cannot be read or
    written; then no file is changed.
    """
    planned = []
    for change in changes(wish):
        path, text = _real(change.path), _read(change.path)
        record = _Record.of(path)
        start = record.before(text) if record is not None else text
        made: list[Way] = []
        try:
            if start is text and text is not None:
                start = change.remove(text, None if record is None else record.had)
            after = change.add(change.blank if start is None or not start.strip() else start, made)
        except Conflict as error:
            raise Conflict(f"{change.path} was not changed: {error}") from None
        planned.append((path, text, start, after, made))
    for path, text, _, after, _ in planned:
        if after != text:
            _refuse_read_only(path)
    for path, text, start, after, made in planned:
        _Record.keep(path, start, after, made)
        if after != text:
            _write(path, after)
    return [path for path, text, _, after, _ in planned if after != text]


def uninstall(wish: Wish) -> list[Path]:
    """Take everything out again; the files that changed."""
    changed = []
    for change in reversed(changes(wish)):  # the first one knows of the folders that were made
        path, text = _real(change.path), _read(change.path)
        record = _Record.of(path)
        if text is not None:
            rest = record.before(text) if record is not None else text
            if rest is text:
                try:
                    rest = change.remove(text, None if record is None else record.had)
                except Conflict as error:
                    raise Conflict(f"{change.path} was not changed: {error}") from None
                if record is not None and record.created and rest.strip() in {"", "{}"}:
                    rest = None
            if rest is None:
                path.unlink()
                record.leave() if record is not None else None
            elif rest != text:
                _write(path, rest)
            changed += [path] if rest != text else []
        if record is not None:
            record.drop()
    return changed


def _servers(path: Path, wish: Wish) -> Change:
    command, *arguments = wish.server()
    entry: dict[str, Any] = {"type": "stdio"} if wish.client == "claude" else {}
    entry |= {"command": command, "args": arguments}
    way = ("mcpServers",)

    def add(text: str, made: list[Way]) -> str:
        json_edit.check(text)
        if (other := json_edit.get(text, (*way, NAME))) is not None:
            raise Conflict(f"it has a server called {NAME} already: {json.dumps(other)[:200]}; remove that first")
        return json_edit.put(text, way, NAME, entry, made)

    def ours(name: str | None, value: Any) -> bool:
        return name == NAME and isinstance(value, dict) and _is_server(value)

    def remove(text: str, before: list[Way] | None) -> str:
        return _taken(text, [(way, ours)], before)

    return Change(path, json.dumps({"mcpServers": {NAME: entry}}, indent=2), add, remove, "{}\n")


def _is_server(value: dict[str, Any]) -> bool:
    arguments = value.get("args")
    words = [value.get("command"), *(arguments if isinstance(arguments, list) else [])]
    said = " ".join(str(word) for word in words)
    return re.search(r"(?:-m engram|\bengram(?:\.exe)?) mcp\b", said) is not None


def _hooks(path: Path, wish: Wish) -> Change:
    entries = {event: _hook(wish, event, matcher) for event, matcher in EVENTS[wish.client].items()}
    versioned = wish.client == "cursor"

    def add(text: str, made: list[Way]) -> str:
        json_edit.check(text)
        for event, entry in reversed(entries.items()):
            text = json_edit.put(text, ("hooks", event), None, entry, made)
        if versioned and json_edit.get(text, ("version",)) is None:
            text = json_edit.put(text, (), "version", 1, made)
        return text

    def ours(name: str | None, value: Any) -> bool:
        return isinstance(value, dict) and any(_OURS.search(command) for command in _commands(value))

    def remove(text: str, before: list[Way] | None) -> str:
        text = _taken(text, [(("hooks", event), ours) for event in entries], before)
        left = json_edit.get(text, ("hooks",)) if versioned and text.strip() else None
        needed = before is None or ("version",) in before or any(("hooks", name) not in before for name in left or ())
        if versioned and not needed:
            text = json_edit.take(text, (), lambda name, value: (name, value) == ("version", 1), before)
        return text

    shown: dict[str, Any] = {"version": 1} if versioned else {}
    shown |= {"hooks": {event: [entry] for event, entry in entries.items()}}
    return Change(path, json.dumps(shown, indent=2), add, remove, "{}\n")


def _hook(wish: Wish, event: str, matcher: str) -> dict[str, Any]:
    matched = {"matcher": matcher} if matcher else {}
    command = wish.hook(event)
    if wish.client == "cursor":
        return {"command": command, "timeout": SECONDS, **matched}
    return {**matched, "hooks": [{"type": "command", "command": command, "timeout": SECONDS}]}


def _commands(entry: dict[str, Any]) -> Iterator[str]:
    inner = entry.get("hooks")
    for one in [entry, *(inner if isinstance(inner, list) else [])]:
        if isinstance(one, dict) and isinstance(one.get("command"), str):
            yield one["command"] + " "


def _taken(text: str, places: list[tuple[Way, Callable[[str | None, Any], bool]]], before: list[Way] | None) -> str:
    if not text.strip():
        return text
    json_edit.check(text)
    for way, ours in places:
        text = json_edit.take(text, way, ours, before)
    return text


def _toml(path: Path, wish: Wish) -> Change:
    command, *arguments = wish.server()
    lines = [
        BEGIN,
        f"[mcp_servers.{NAME}]",
        f"command = {json.dumps(command)}",
        f"args = [{', '.join(json.dumps(word) for word in arguments)}]",
        END,
    ]

    def add(text: str, made: list[Way]) -> str:
        line = "\r\n" if "\r\n" in text else "\n"
        gap = "" if not text.strip() else line if text.endswith("\n") else line + line
        after = text + gap + line.join(lines) + line
        had, has = _toml_of(text), _toml_of(after)
        has["mcp_servers"].pop(NAME)
        if {name: value for name, value in has.items() if value} != {
            name: value for name, value in had.items() if value
        }:
            raise Conflict("what is in it would change; see what to add with --print")
        return after

    def remove(text: str, before: list[Way] | None) -> str:
        return _BLOCK.sub("", text)

    return Change(path, "\n".join(lines), add, remove, "")


def _toml_of(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise Conflict(f"it is not TOML, or has a server called {NAME} already ({error})") from None


@dataclass(frozen=True, slots=True)
class _Record:
    """What is known of a file that was changed: what it was before, and what it was changed to."""

    place: Path
    after: str
    had: list[Way]
    created: bool
    folders: list[str]

    @classmethod
    def of(cls, path: Path) -> _Record | None:
        place = _place(path)
        try:
            known = json.loads((place / "record.json").read_text(encoding="utf-8"))
            had = [tuple(way) for way in known["had"]]
            return cls(place, known["after"], had, known["created"], known["folders"])
        except (OSError, ValueError, KeyError, TypeError):
            return None

    @classmethod
    def keep(cls, path: Path, before: str | None, after: str, made: list[Way]) -> None:
        place = _place(path)
        place.mkdir(parents=True, exist_ok=True, mode=0o700)
        folders = []
        for folder in path.parents:
            if folder.exists():
                break
            folders.append(str(folder))
        if (old := cls.of(path)) is not None:
            folders = old.folders
        if before is not None:
            _write(place / "before", before, 0o600)
        else:
            (place / "before").unlink(missing_ok=True)
        had = [way for way in _ways(before) if way not in made]
        record = {"path": str(path), "after": _hash(after), "had": had, "created": before is None, "folders": folders}
        _write(place / "record.json", json.dumps(record), 0o600)

    def before(self, text: str | None) -> str | None:
        """What the file was before we changed it, if nobody else has changed it since; else what it is."""
        if text is None or _hash(text) != self.after:
            return text
        return None if self.created else _read(self.place / "before")

    def leave(self) -> None:
        """Remove the folders that were made for the file, if they are empty."""
        for folder in self.folders:
            if any(Path(folder).iterdir()):
                return
            Path(folder).rmdir()

    def drop(self) -> None:
        """Forget about it."""
        shutil.rmtree(self.place)


def _place(path: Path) -> Path:
    return config.default_db().parent / "installed" / _hash(str(path))[:16]


def _ways(text: str | None) -> list[Way]:
    """The objects and lists that were there already, as far as ours go."""
    try:
        value = json.loads(text or "{}")
    except ValueError:
        return []
    if not isinstance(value, dict):
        return []
    inner = value.get("hooks")
    events: list[Way] = [("hooks", name) for name in inner] if isinstance(inner, dict) else []
    return [*((name,) for name in value), *events]


def _real(path: Path) -> Path:
    """Where a file is, whatever links lead there. Raises `ConfigError` if they lead in a circle."""
    try:
        return path.resolve()
    except (OSError, RuntimeError) as error:
        raise ConfigError(f"{path} cannot be found: {error}; see what to add with --print") from error


def _refuse_read_only(path: Path) -> None:
    """Raises `ConfigError` if a file, or the folder that it is or would be in, is not to be written."""
    folder = next(parent for parent in path.parents if parent.exists())
    for place in (path, folder) if path.exists() else (folder,):
        if not os.access(place, os.W_OK):
            raise ConfigError(f"{place} cannot be written; nothing was changed; see what to add with --print")


def _read(path: Path) -> str | None:
    """The text of a file, with its line ends as they are, or `None` if it is not there."""
    try:
        return path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}; see what to add with --print") from error


def _write(path: Path, text: str, mode: int | None = None) -> None:
    """Replace a file in one step; its rights stay as they are."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rights = mode if mode is not None else path.stat().st_mode & 0o777 if path.exists() else None
    beside = path.with_name(f"{path.name}.engram-new")
    beside.write_bytes(text.encode("utf-8"))
    if rights is not None:
        beside.chmod(rights)
    beside.replace(path)


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
