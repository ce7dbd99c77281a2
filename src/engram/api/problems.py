"""Errors that interfaces raise themselves, and the public form of error messages."""

from __future__ import annotations

import traceback
from pathlib import Path

from engram.errors import (
    Conflict,
    EngramError,
    InvalidInput,
    Naming,
    NotAllowed,
    NotFound,
    TooMany,
    Unsupported,
)
from engram.model import Receipt


class Refused(EngramError):
    """A draft was not stored; its receipt has the reason."""

    def __init__(self, receipt: Receipt) -> None:
        super().__init__(receipt.reason, hint=receipt.hint)
        self.receipt = receipt


class Crowded(EngramError):
    """The server has reached a limit for all callers."""

    code = "busy"


_OPEN = (InvalidInput, NotFound, Conflict, NotAllowed, TooMany, Unsupported, Refused, Crowded)
_CLOSED = {
    "busy": "the database is busy; try again",
    "away": "the database does not answer; try again",
    "closed": "the server is stopping; try again",
    "full": "the disk is full; nothing was stored",
    "read_only": "the database cannot be written; reading works",
    "corrupt": "what was read is not what was written; the operator of the server has to check it",
}


def public_message(error: EngramError, naming: Naming) -> str:
    """Return the message for an external caller, with the hint worded for its interface.

    Errors of the database and of models get a general message.
    """
    if isinstance(error, _OPEN):
        return error.worded(naming)
    return _CLOSED.get(error.code, "the server cannot do this; its operator has to check it")


def code_locations(error: Exception) -> list[str]:
    """Return the code locations of an error for a log, without its message, which may quote a memory."""
    frames = traceback.extract_tb(error.__traceback__)
    return [f"{Path(frame.filename).name}:{frame.lineno} {frame.name}" for frame in frames]
