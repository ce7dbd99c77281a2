"""What all commands share: the global options, the settings, the open memory, and the voice on standard error."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from engram.cli.text import inline
from engram.errors import NotFound

if TYPE_CHECKING:
    from engram.config import Settings
    from engram.engine import AgentHandle, Engram

DEFAULT_AGENT = "default"


def _user() -> str:
    """Who runs the command, for the audit trail."""
    import getpass

    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # an account without a name
        return "unknown"


@dataclass
class State:
    """One run of the command."""

    db: str | None = None
    json: bool = False
    quiet: bool = False
    said: set[str] = field(default_factory=set)

    @cached_property
    def settings(self) -> Settings:
        """The settings in force, with `--db` on top. Raises `ConfigError`."""
        from engram import config

        return config.load({"db": self.db})

    @property
    def file(self) -> Path | None:
        """The file of the database, or `None` if it is not in a file."""
        from engram.wiring import locate

        scheme, location = locate(self.settings.db)
        return Path(location).expanduser() if scheme == "sqlite" and location else None

    @property
    def missing(self) -> Path | None:
        """Where the database would be, if it is not there yet."""
        file = self.file
        if file is None or file.is_dir():
            return None
        return None if file.exists() and file.stat().st_size else file

    @contextmanager
    def brain(self, *, create: bool = False, **settings: Any) -> Iterator[Engram]:
        """The memory, closed at the end. Raises `NotFound` rather than creating it, unless `create`."""
        from engram import wiring

        if not create:
            self.require_database()
        with self.user(), wiring.open(self.db, say=self.notice, **settings) as brain:
            yield brain

    @contextmanager
    def user(self) -> Iterator[None]:
        """Within it, what is put on record is done on behalf of the user of the command line."""
        from engram.ports import principal

        before = principal.set(f"cli:{_user()}")
        try:
            yield
        finally:
            principal.reset(before)

    def require_database(self) -> None:
        """Raises `NotFound` if there is no database yet."""
        if missing := self.missing:
            raise NotFound(f"there is no database at {missing} yet; `engram memory add` creates it")

    def writer(self, brain: Engram, agent: str | None) -> AgentHandle:
        """The agent that a write is for: the one named, else the setting, else `default`."""
        return brain.agent(agent if agent is not None else self.settings.agent or DEFAULT_AGENT)

    def readers(self, brain: Engram, agent: str | None) -> list[AgentHandle]:
        """The agents that a read looks at: the one named, else the setting, else everybody in the database."""
        named = agent if agent is not None else self.settings.agent or None
        return [brain.agent(name) for name in ([named] if named is not None else brain.agents())]

    def notice(self, message: str) -> None:
        """Say what a person should know, once."""
        if not self.quiet and message not in self.said:
            click.echo(json.dumps({"notice": message}) if self.json else inline(message), err=True)
        self.said.add(message)

    def error(self, code: str, message: str, **details: Any) -> None:
        """Say what went wrong: a line for a person, or one JSON object."""
        said = {"code": code, "message": message, **details}
        click.echo(json.dumps(said) if self.json else f"Error: {inline(message)}", err=True)
