"""All errors that Engram raises, as a tree; each message ends with what to do next.

EngramError                  exit 1
├── InvalidInput             exit 2   a value cannot be used
├── ConfigError              exit 2   a setting is unknown or malformed
├── NotFound                 exit 3   it does not exist in this scope
├── NotAllowed               exit 4   the scope has no right to it
│   ├── ActionBlocked                 the action is known to fail, and was not carried out
│   └── Unauthenticated               the key is missing, wrong, expired or revoked
├── Conflict                 exit 5   it was changed by another call first
├── TooMany                  exit 1   too many requests, or too much in one request
├── Unsupported              exit 1   this store does not support it
├── MissingExtra             exit 1   an optional package is not installed
├── ModelError               exit 1   an embedding model cannot be used
│   ├── ModelUnavailable              it is not installed, or could not be fetched
│   └── ModelCorrupt                  its file does not have the expected hash
└── StoreError               exit 1   the database cannot be used
    ├── NotAnEngramDatabase           the file belongs to another program
    ├── NewerSchema                   written by a newer Engram
    ├── StoreAway                     the server does not answer, or refuses the connection
    ├── StoreBusy                     other processes kept it busy for too long
    ├── StoreFull                     the disk is full
    ├── StoreReadOnly                 the file or its folder cannot be written
    ├── StoreCorrupt                  the data read is not what was written
    └── StoreClosed                   used after close()
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar


@dataclass(frozen=True, slots=True)
class Hint:
    """A next step, which each interface words for its own readers: a command, a request, a tool or a method."""

    command: str = ""
    """The command that takes the step, such as `memory list`; other interfaces find their own name by it."""
    purpose: str = "shows what there is"
    """The purpose of the step, as words that follow its name."""
    setup: str = ""
    """A setting to change where the memory is opened, instead of a step; remote callers do not see it."""

    def __str__(self) -> str:
        """The hint for Python."""
        return self.setup or f"`{METHODS.get(self.command) or self.shell}` {self.purpose}"

    @property
    def shell(self) -> str:
        """The command line."""
        return f"engram {self.command}"


METHODS = {
    "agent list": "brain.agents()",
    "grant list": "agent.grants.list()",
    "learning failures": "agent.learning.failures()",
    "memory list": "agent.list()",
    "prevention list": "agent.learning.checks()",
    "quarantine list": "agent.quarantine.list()",
    "workflow list": "agent.workflows().runs()",
    "workspace list": "agent.workspaces.list()",
}
"""The methods that take the step of a command in Python."""

Naming = Callable[[Hint], str | None]
"""An interface's own name for the step of a hint; `None` if it has none."""


def join_hint(message: str, hint: Hint | None, naming: Naming) -> str:
    """A message with a hint in the words of an interface, or without it if the interface has no name for the step."""
    name = naming(hint) if hint is not None and hint.command else None
    return message if name is None or hint is None else f"{message}; `{name}` {hint.purpose}"


class EngramError(Exception):
    """Base class of all errors; the message says what failed, and what to do next."""

    code: ClassVar[str] = "failed"
    exit_code: ClassVar[int] = 1

    def __init__(self, message: object = "", *, hint: Hint | None = None) -> None:
        super().__init__(message if hint is None else f"{message}; {hint}")
        self.message = str(message)
        """The error message without the hint."""
        self.hint = hint

    def worded(self, naming: Naming) -> str:
        """The message for the readers of an interface."""
        return join_hint(self.message, self.hint, naming)

    def for_shell(self) -> str:
        """The message for the command line."""
        return str(self) if self.hint is not None and self.hint.setup else self.worded(lambda hint: hint.shell)


class InvalidInput(EngramError):
    """A value given by the caller cannot be used; nothing was stored."""

    code = "invalid"
    exit_code = 2


class ConfigError(EngramError):
    """A setting is unknown or its value is malformed."""

    code = "config"
    exit_code = 2


class NotFound(EngramError):
    """It does not exist in this scope; an id of another agent is reported in the same way."""

    code = "not_found"
    exit_code = 3


class NotAllowed(EngramError):
    """The scope has no right to do this."""

    code = "not_allowed"
    exit_code = 4


class ActionBlocked(NotAllowed):
    """An action is known to fail, and was not carried out; `verdict` has the failures, and what worked instead."""

    code = "blocked"

    def __init__(self, message: str, verdict: Any = None) -> None:
        super().__init__(message)
        self.verdict = verdict


class Unauthenticated(NotAllowed):
    """The API key is missing, wrong, expired or revoked; the message does not reveal which."""

    code = "unauthenticated"


class Conflict(EngramError):
    """The row was changed since it was read, or a key is used for something else."""

    code = "conflict"
    exit_code = 5


class TooMany(EngramError):
    """Too many requests, or too much in one request; try again later, or in parts."""

    code = "too_many"


class Unsupported(EngramError):
    """The store does not support this operation."""

    code = "unsupported"


class MissingExtra(EngramError):
    """An optional package is not installed; the message names the extra to install."""

    code = "missing_extra"


class ModelError(EngramError):
    """An embedding model cannot be used."""

    code = "model"


class ModelUnavailable(ModelError):
    """The model is not installed and could not be fetched."""

    code = "model_unavailable"


class ModelCorrupt(ModelError):
    """A model file does not have the hash it must have; it was not loaded."""

    code = "model_corrupt"


class StoreError(EngramError):
    """The database cannot be used."""

    code = "store"


class NotAnEngramDatabase(StoreError):
    """The file belongs to another program; it was not changed."""

    code = "not_engram"


class NewerSchema(StoreError):
    """The database was written by a newer Engram; it was not changed."""

    code = "newer_schema"


class StoreAway(StoreError):
    """The database server does not answer, or refuses the connection."""

    code = "away"


class StoreBusy(StoreError):
    """Other processes kept the database busy for longer than the busy timeout."""

    code = "busy"


class StoreFull(StoreError):
    """There is no space left; nothing of this call was stored, and existing data is intact."""

    code = "full"


class StoreReadOnly(StoreError):
    """The database cannot be written; reading works."""

    code = "read_only"


class StoreCorrupt(StoreError):
    """The data read is not what was written."""

    code = "corrupt"


class StoreClosed(StoreError):
    """The store was used after it was closed."""

    code = "closed"
