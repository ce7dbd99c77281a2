"""Add the MCP server and the hooks to the configuration of coding agents, and remove them again.

Before a file is changed, a copy of it is stored in the user's data folder. To uninstall, a file that was not changed
since is restored byte for byte; from any other file only our own entries are removed.
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
from engram.hooks.json_edit import KeyPath

Client = Literal["claude", "codex", "cursor"]
Scope = Literal["user", "project"]
IsOurs = Callable[[str | None, Any], bool]
"""Return True for the name and value of an entry that Engram added."""
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
"""The events of each client that get a hook, and the tools they match."""
TIMEOUT_SECONDS = 10
"""The client's time limit for a hook; the hook's own limit is much shorter."""

_OURS = re.compile(r"(?:-m engram\.hooks|\bengram(?:\.exe)?[\"']? hook) ")
_BLOCK = re.compile(rf"{re.escape(BEGIN)}\r?\n(?:[^\n]*\n)*?{re.escape(END)}(?:\r?\n|$)")


@dataclass(frozen=True, slots=True)
class Installation:
    """The configuration to install: client, scope, agent and database."""

    client: Client
    scope: Scope = "user"
    agent: str | None = None
    db: str | None = None
    block: bool = False
    home: Path = field(default_factory=Path.home)
    folder: Path = field(default_factory=Path.cwd)
    own: Path | None = None
    """The client's configuration folder, if it is not the default one in the user's home."""

    def words(self, *begin: str) -> list[str]:
        """Return a command line that begins with these words, with the options for agent and database."""
        words = [*begin]
        words += ["--agent", self.agent] if self.agent is not None else []
        words += ["--db", self._db()] if self.db is not None else []
        return words + (["--no-project"] if self.scope == "user" else [])

    def _db(self) -> str:
        """Return the database with an absolute path; in a project, as the user gave it."""
        db = self.db or ""
        if "://" in db:
            if urlsplit(db).password:
                raise InvalidInput("the database URL contains a password; put it into the setting `db`, not --db")
            return db
        return db if self.scope == "project" or db.startswith(":") else str(Path(db).expanduser().absolute())

    def server(self) -> list[str]:
        """Return the command line of the MCP server."""
        return self.words(*([NAME] if self.scope == "project" else [sys.executable, "-P", "-m", NAME]), "mcp")

    def hook(self, event: str) -> str:
        """Return the command line of a hook."""
        begin = [NAME, "hook"] if self.scope == "project" else [sys.executable, "-P", "-m", "engram.hooks"]
        words = self.words(*begin, event, "--client", self.client) + (["--block"] if self.block else [])
        return shlex.join(words) if os.name != "nt" else " ".join(f'"{w}"' if " " in w else w for w in words)


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """A configuration file, the entries to add, and functions that add and remove them."""

    path: Path
    added: str
    """The added entries, as text."""
    add: Callable[[str, list[KeyPath]], str]
    remove: Callable[[str, list[KeyPath] | None], str]
    blank: str
    """The content of an empty file of this kind."""


def planned_changes(installation: Installation) -> list[ConfigChange]:
    """Return the changes to configuration files."""
    project = installation.scope == "project"
    usual = (installation.folder if project else installation.home) / f".{installation.client}"
    own = usual if project or installation.own is None else installation.own
    if installation.client == "claude":
        beside = own if own is not usual else installation.home
        servers = installation.folder / ".mcp.json" if project else beside / ".claude.json"
        return [_servers(servers, installation), _hooks(own / "settings.json", installation)]
    if installation.client == "codex":
        return [_toml(own / "config.toml", installation), _hooks(own / "hooks.json", installation)]
    return [_servers(own / "mcp.json", installation), _hooks(own / "hooks.json", installation)]


def install(installation: Installation) -> list[Path]:
    """Write the configuration and return the changed files; installing again replaces earlier entries.

    Raises `Conflict` if a file has other entries in their place, and `ConfigError` if one cannot be read or written;
    then no file is changed.
    """
    planned = []
    for change in planned_changes(installation):
        path, text = _resolve(change.path), _read(change.path)
        record = _Record.load(path)
        start = record.before(text) if record is not None else text
        made: list[KeyPath] = []
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
        _Record.save(path, start, after, made)
        if after != text:
            _write(path, after)
    return [path for path, text, _, after, _ in planned if after != text]


def uninstall(installation: Installation) -> list[Path]:
    """Remove everything that was installed, and return the changed files."""
    changed = []
    for change in reversed(planned_changes(installation)):  # the first one records created folders
        path, text = _resolve(change.path), _read(change.path)
        record = _Record.load(path)
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
                record.remove_folders() if record is not None else None
            elif rest != text:
                _write(path, rest)
            changed += [path] if rest != text else []
        if record is not None:
            record.delete()
    return changed


def _servers(path: Path, installation: Installation) -> ConfigChange:
    command, *arguments = installation.server()
    entry: dict[str, Any] = {"type": "stdio"} if installation.client == "claude" else {}
    entry |= {"command": command, "args": arguments}
    way = ("mcpServers",)

    def add(text: str, made: list[KeyPath]) -> str:
        json_edit.check(text)
        if (other := json_edit.get(text, (*way, NAME))) is not None:
            raise Conflict(f"it already has a server called {NAME}: {json.dumps(other)[:200]}; remove that first")
        return json_edit.put(text, way, NAME, entry, made)

    def ours(name: str | None, value: Any) -> bool:
        return name == NAME and isinstance(value, dict) and _is_server(value)

    def remove(text: str, before: list[KeyPath] | None) -> str:
        return _remove_entries(text, [(way, ours)], before)

    return ConfigChange(path, json.dumps({"mcpServers": {NAME: entry}}, indent=2), add, remove, "{}\n")


def _is_server(value: dict[str, Any]) -> bool:
    arguments = value.get("args")
    words = [value.get("command"), *(arguments if isinstance(arguments, list) else [])]
    command_line = " ".join(str(word) for word in words)
    return re.search(r"(?:-m engram|\bengram(?:\.exe)?) mcp\b", command_line) is not None


def _hooks(path: Path, installation: Installation) -> ConfigChange:
    entries = {event: _hook(installation, event, matcher) for event, matcher in EVENTS[installation.client].items()}
    versioned = installation.client == "cursor"

    def add(text: str, made: list[KeyPath]) -> str:
        json_edit.check(text)
        for event, entry in reversed(entries.items()):
            text = json_edit.put(text, ("hooks", event), None, entry, made)
        if versioned and json_edit.get(text, ("version",)) is None:
            text = json_edit.put(text, (), "version", 1, made)
        return text

    def ours(name: str | None, value: Any) -> bool:
        return isinstance(value, dict) and any(_OURS.search(command) for command in _commands(value))

    def remove(text: str, before: list[KeyPath] | None) -> str:
        text = _remove_entries(text, [(("hooks", event), ours) for event in entries], before)
        left = json_edit.get(text, ("hooks",)) if versioned and text.strip() else None
        needed = before is None or ("version",) in before or any(("hooks", name) not in before for name in left or ())
        if versioned and not needed:
            text = json_edit.take(text, (), lambda name, value: (name, value) == ("version", 1), before)
        return text

    shown: dict[str, Any] = {"version": 1} if versioned else {}
    shown |= {"hooks": {event: [entry] for event, entry in entries.items()}}
    return ConfigChange(path, json.dumps(shown, indent=2), add, remove, "{}\n")


def _hook(installation: Installation, event: str, matcher: str) -> dict[str, Any]:
    matched = {"matcher": matcher} if matcher else {}
    command = installation.hook(event)
    if installation.client == "cursor":
        return {"command": command, "timeout": TIMEOUT_SECONDS, **matched}
    return {**matched, "hooks": [{"type": "command", "command": command, "timeout": TIMEOUT_SECONDS}]}


def _commands(entry: dict[str, Any]) -> Iterator[str]:
    inner = entry.get("hooks")
    for one in [entry, *(inner if isinstance(inner, list) else [])]:
        if isinstance(one, dict) and isinstance(one.get("command"), str):
            yield one["command"] + " "


def _remove_entries(text: str, places: list[tuple[KeyPath, IsOurs]], before: list[KeyPath] | None) -> str:
    if not text.strip():
        return text
    json_edit.check(text)
    for way, ours in places:
        text = json_edit.take(text, way, ours, before)
    return text


def _toml(path: Path, installation: Installation) -> ConfigChange:
    command, *arguments = installation.server()
    lines = [
        BEGIN,
        f"[mcp_servers.{NAME}]",
        f"command = {json.dumps(command)}",
        f"args = [{', '.join(json.dumps(word) for word in arguments)}]",
        END,
    ]

    def add(text: str, made: list[KeyPath]) -> str:
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

    def remove(text: str, before: list[KeyPath] | None) -> str:
        return _BLOCK.sub("", text)

    return ConfigChange(path, "\n".join(lines), add, remove, "")


def _toml_of(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise Conflict(f"it is not TOML, or has a server called {NAME} already ({error})") from None


@dataclass(frozen=True, slots=True)
class _Record:
    """A file that was changed: its previous content, and the hash of what it was changed to."""

    place: Path
    after: str
    had: list[KeyPath]
    created: bool
    folders: list[str]

    @classmethod
    def load(cls, path: Path) -> _Record | None:
        place = _record_folder(path)
        try:
            known = json.loads((place / "record.json").read_text(encoding="utf-8"))
            had = [tuple(way) for way in known["had"]]
            return cls(place, known["after"], had, known["created"], known["folders"])
        except (OSError, ValueError, KeyError, TypeError):
            return None

    @classmethod
    def save(cls, path: Path, before: str | None, after: str, made: list[KeyPath]) -> None:
        place = _record_folder(path)
        place.mkdir(parents=True, exist_ok=True, mode=0o700)
        folders = []
        for folder in path.parents:
            if folder.exists():
                break
            folders.append(str(folder))
        if (old := cls.load(path)) is not None:
            folders = old.folders
        if before is not None:
            _write(place / "before", before, 0o600)
        else:
            (place / "before").unlink(missing_ok=True)
        had = [way for way in _existing_paths(before) if way not in made]
        record = {"path": str(path), "after": _hash(after), "had": had, "created": before is None, "folders": folders}
        _write(place / "record.json", json.dumps(record), 0o600)

    def before(self, text: str | None) -> str | None:
        """Return the content before our change if nobody else has changed the file since, else `text` itself."""
        if text is None or _hash(text) != self.after:
            return text
        return None if self.created else _read(self.place / "before")

    def remove_folders(self) -> None:
        """Remove the folders that were created for the file, if they are empty."""
        for folder in self.folders:
            if any(Path(folder).iterdir()):
                return
            Path(folder).rmdir()

    def delete(self) -> None:
        """Delete the record."""
        shutil.rmtree(self.place)


def _record_folder(path: Path) -> Path:
    return config.default_db().parent / "installed" / _hash(str(path))[:16]


def _existing_paths(text: str | None) -> list[KeyPath]:
    """Return the paths of existing objects and lists that our entries could go into."""
    try:
        value = json.loads(text or "{}")
    except ValueError:
        return []
    if not isinstance(value, dict):
        return []
    inner = value.get("hooks")
    events: list[KeyPath] = [("hooks", name) for name in inner] if isinstance(inner, dict) else []
    return [*((name,) for name in value), *events]


def _resolve(path: Path) -> Path:
    """Resolve links to a file. Raises `ConfigError` if they form a loop."""
    try:
        return path.resolve()
    except (OSError, RuntimeError) as error:
        raise ConfigError(f"{path} cannot be found: {error}; see what to add with --print") from error


def _refuse_read_only(path: Path) -> None:
    """Raise `ConfigError` if a file, or the folder that it is or would be in, cannot be written."""
    folder = next(parent for parent in path.parents if parent.exists())
    for place in (path, folder) if path.exists() else (folder,):
        if not os.access(place, os.W_OK):
            raise ConfigError(f"{place} cannot be written; nothing was changed; see what to add with --print")


def _read(path: Path) -> str | None:
    """Read a file without changing line ends; `None` if it does not exist."""
    try:
        return path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}; see what to add with --print") from error


def _write(path: Path, text: str, mode: int | None = None) -> None:
    """Replace a file atomically; its permissions stay the same."""
    path.parent.mkdir(parents=True, exist_ok=True)
    permissions = mode if mode is not None else path.stat().st_mode & 0o777 if path.exists() else None
    temporary = path.with_name(f"{path.name}.engram-new")
    temporary.write_bytes(text.encode("utf-8"))
    if permissions is not None:
        temporary.chmod(permissions)
    temporary.replace(path)


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
