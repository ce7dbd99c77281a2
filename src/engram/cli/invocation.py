"""Shared state of one `engram` command: global options, settings, the open database, notices and errors."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from engram.cli.formatting import one_line
from engram.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    from engram.config import Settings
    from engram.engine import AgentHandle, Engram

T = TypeVar("T")
DEFAULT_AGENT = "default"


def _user() -> str:
    """Return the name of the operating system's user, for the audit trail."""
    import getpass

    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # an account without a name
        return "unknown"


@dataclass
class Invocation:
    """One run of the `engram` command."""

    db: str | None = None
    json: bool = False
    quiet: bool = False
    printed: set[str] = field(default_factory=set)
    """Notices that were printed already."""

    @cached_property
    def settings(self) -> Settings:
        """The settings in force; `--db` wins. Raises `ConfigError`."""
        from engram import config

        return config.load({"db": self.db})

    @property
    def file(self) -> Path | None:
        """The database file, or `None` if the database is not a file."""
        from engram.wiring import locate

        scheme, location = locate(self.settings.db)
        return Path(location).expanduser() if scheme == "sqlite" and location else None

    @property
    def missing(self) -> Path | None:
        """The path of the database file if it does not exist yet, else `None`."""
        file = self.file
        if file is None or file.is_dir():
            return None
        return None if file.exists() and file.stat().st_size else file

    @contextmanager
    def brain(self, *, create: bool = False, **settings: Any) -> Iterator[Engram]:
        """Open the database for the block. Raises `NotFound` if there is none, unless `create` is set."""
        from engram import wiring

        if not create:
            self.require_database()
        with self.user(), wiring.open(self.db, say=self.notice, **settings) as brain:
            yield brain

    @contextmanager
    def user(self) -> Iterator[None]:
        """Record the user of the command line as the principal of audit entries made in the block."""
        from engram.ports import principal

        before = principal.set(f"cli:{_user()}")
        try:
            yield
        finally:
            principal.reset(before)

    def require_database(self) -> None:
        """Raise `NotFound` if there is no database yet."""
        if missing := self.missing:
            raise NotFound(f"there is no database at {missing} yet; `engram memory add` creates it")

    def selected(self, agent: str | None) -> str | None:
        """Return the agent named by --agent or by the `agent` setting; `None` means all agents."""
        return agent if agent is not None else self.settings.agent or None

    def writer(self, brain: Engram, agent: str | None) -> AgentHandle:
        """Return the agent that a command writes for: the selected one, else `default`."""
        name = self.selected(agent)
        return brain.agent(DEFAULT_AGENT if name is None else name)

    def readers(self, brain: Engram, agent: str | None) -> list[AgentHandle]:
        """Return the agents that a command reads: the selected one, else all agents in the database."""
        name = self.selected(agent)
        return [brain.agent(each) for each in (brain.agents() if name is None else [name])]

    def notice(self, message: str) -> None:
        """Print a notice on standard error, once; a JSON object with --json, nothing with --quiet."""
        if not self.quiet and message not in self.printed:
            click.echo(json.dumps({"notice": message}) if self.json else one_line(message), err=True)
        self.printed.add(message)

    def error(self, code: str, message: str, **details: Any) -> None:
        """Print an error on standard error: one line, or a JSON object with --json."""
        fields = {"code": code, "message": message, **details}
        click.echo(json.dumps(fields) if self.json else f"Error: {one_line(message)}", err=True)


def only_owner(found: Sequence[tuple[str, T]], what: str, listing: str) -> T:
    """Return the only one of (agent, thing) pairs. Raises `NotFound`, or `InvalidInput` if several agents have one."""
    if not found:
        raise NotFound(f"there is no {what}; `engram {listing}` shows what there is")
    if len(found) > 1:
        raise InvalidInput(f"several agents have {what}: {', '.join(name for name, _ in found)}; choose with --agent")
    return found[0][1]
