"""Engram: a memory for AI agents that learns from outcomes.

import engram

brain = engram.open("team.db")
alice = brain.agent("alice")
alice.remember("Staging runs PostgreSQL 15", tags=["db"])
alice.recall("which database is in staging?")
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from engram.aio import AsyncEngram
    from engram.engine import AgentHandle, Engram
    from engram.errors import EngramError
    from engram.model import (
        ActionRecord,
        AgentMemory,
        Draft,
        ForgetReceipt,
        Hit,
        Memory,
        MemoryIndex,
        MemoryRecord,
        MemoryType,
        Receipt,
        Suggestion,
    )
    from engram.wiring import open

__version__ = "0.1.0"

_HOMES = {
    "AsyncEngram": "engram.aio",
    "AgentHandle": "engram.engine",
    "Engram": "engram.engine",
    "EngramError": "engram.errors",
    "ActionRecord": "engram.model",
    "AgentMemory": "engram.model",
    "Draft": "engram.model",
    "ForgetReceipt": "engram.model",
    "Hit": "engram.model",
    "Memory": "engram.model",
    "MemoryIndex": "engram.model",
    "MemoryRecord": "engram.model",
    "MemoryType": "engram.model",
    "Receipt": "engram.model",
    "Suggestion": "engram.model",
    "open": "engram.wiring",
}

__all__ = [
    "ActionRecord",
    "AgentHandle",
    "AgentMemory",
    "AsyncEngram",
    "Draft",
    "Engram",
    "EngramError",
    "ForgetReceipt",
    "Hit",
    "Memory",
    "MemoryIndex",
    "MemoryRecord",
    "MemoryType",
    "Receipt",
    "Suggestion",
    "__version__",
    "open",
]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that `import engram` costs almost nothing."""
    if name not in _HOMES:
        raise AttributeError(f"module 'engram' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return value
