"""Validation of arguments of stores and agents, and of results of embedders.

Functions that take the name of an argument return the valid value, or raise `InvalidInput`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from engram.clock import aware
from engram.errors import InvalidInput
from engram.model import MemoryType
from engram.model.grant import EVERYONE
from engram.ports.embedding import Matrix

if TYPE_CHECKING:
    from engram.ports.values import Entry, Scope

MAX_K = 1000
When = datetime | str
RESERVED = "\x1f"
"""The prefix of reserved scope names: imported sources, quarantines, the ledger of grants."""


def reserved(agent: str) -> bool:
    """Return True for the name of a reserved scope, which no agent can have."""
    return agent.startswith(RESERVED)


def unstorable(text: str) -> str | None:
    """Return the reason why no store can keep this text unchanged, or `None` if all can."""
    if "\x00" in text:
        return f"it has a NUL character at position {text.index(chr(0))}; remove it"
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        return f"it has half of a surrogate pair at position {error.start}; decode it properly first"
    return None


def several(name: str, values: str | Iterable[str]) -> list[str]:
    """Return one text or several as a list. Raises `InvalidInput` for anything else."""
    several = [values] if isinstance(values, str) else list(values) if isinstance(values, Iterable) else [values]
    for value in several:
        if not isinstance(value, str):
            raise InvalidInput(f"{name} must be texts, not {type(value).__name__}")
    return several


def texts(name: str, values: Iterable[str]) -> list[str]:
    """Return a list of texts. Raises `InvalidInput` for anything else, also for a single string."""
    if isinstance(values, str):
        raise InvalidInput(f"{name} must be a list of texts, not one text")
    return several(name, values)


def is_id(id: object) -> bool:
    """Return True if a value can be the id of a memory."""
    return isinstance(id, str) and unstorable(id) is None


def agent(name: str) -> str:
    """Return a valid agent name. Raises `InvalidInput`."""
    if reserved(name):
        raise InvalidInput("an agent's name cannot begin with the character U+001F; give it another one")
    if name == EVERYONE or name.startswith("group:"):
        raise InvalidInput(f"an agent cannot be called {name!a}: in grants this means others; give another name")
    return name


def kind(name: str) -> MemoryType:
    """Return the kind of memory with this name. Raises `InvalidInput`."""
    try:
        return MemoryType(name)
    except ValueError:
        raise InvalidInput(f"there is no kind {name!r}; there are {', '.join(MemoryType)}") from None


def moment(name: str, when: When | None) -> datetime | None:
    """Return a time that is given as a `datetime` or as text. Raises `InvalidInput`."""
    if when is None:
        return None
    try:
        return aware(datetime.fromisoformat(when) if isinstance(when, str) else when)
    except (ValueError, AttributeError, OverflowError):
        raise InvalidInput(f"{name} must be a time such as 2026-01-31 or 2026-01-31T14:00, not {when!r}") from None


def count(name: str, number: int, most: int = MAX_K, least: int = 1) -> int:
    """Return a whole number within its limits. Raises `InvalidInput`."""
    if isinstance(number, bool) or not isinstance(number, int) or not least <= number <= most:
        raise InvalidInput(f"{name} must be a whole number from {least} to {most}, not {number!r}")
    return number


def amount(name: str, number: float | None) -> None:
    """Check that a value is `None` or a finite number of at least 0. Raises `InvalidInput`."""
    fine = not isinstance(number, bool) and isinstance(number, int | float) and 0 <= number < math.inf
    if number is not None and not fine:
        raise InvalidInput(f"{name} must be a number from 0 on, not {number!r}")


def share(name: str, number: float) -> float:
    """Return a number from 0 to 1. Raises `InvalidInput`."""
    if isinstance(number, bool) or not isinstance(number, int | float) or not 0 <= number <= 1:
        raise InvalidInput(f"{name} must be a number from 0 to 1, not {number!r}")
    return number


def refuse_foreign(scope: Scope, entries: Iterable[Entry]) -> None:
    """Raise `InvalidInput` if an entry belongs to another scope than the one it is stored in."""
    for entry in entries:
        if entry.memory.agent != scope.agent:
            raise InvalidInput(f"a memory of {entry.memory.agent!r} cannot be stored in the scope of {scope.agent!r}")


def units(matrix: Matrix) -> NDArray[np.bool_]:
    """Return a mask of the rows that are vectors of length 1."""
    with np.errstate(all="ignore"):  # NaN and infinity do not count as length 1
        length = np.sqrt(np.einsum("ij,ij->i", matrix, matrix))
        return np.asarray(np.abs(length - 1) < 0.01, dtype=np.bool_)


def is_unit(matrix: Matrix) -> bool:
    """Return True if every row is a vector of length 1."""
    return bool(units(matrix).all())
