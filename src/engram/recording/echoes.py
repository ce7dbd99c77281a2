"""Recalled text that comes back as a new memory: an agent that repeats what it was told has seen nothing new."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable

from engram.model import Hit, Memory
from engram.ports import Scope
from engram.text.terms import digest, normal_form

REMEMBERED = 5000
LEAST_WORDS = 4
"""Shorter texts are said again by chance."""


class Echoes:
    """What was recalled lately, by what it says."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[Scope, str], str] = OrderedDict()
        self._lock = threading.Lock()

    def note(self, scope: Scope, hits: Iterable[Hit]) -> None:
        """Remember what was shown."""
        with self._lock:
            for hit in hits:
                self._known[scope, _said(hit.memory)] = hit.id
            while len(self._known) > REMEMBERED:
                self._known.popitem(last=False)

    def showed(self, scope: Scope, id: str) -> bool:
        """Tell whether a memory was recalled lately."""
        with self._lock:
            return any(known == id and owner == scope for (owner, _), known in self._known.items())

    def source(self, scope: Scope, memory: Memory) -> str | None:
        """The memory that was recalled and now comes back, if this is one."""
        if not self._known or len(memory.text.split()) < LEAST_WORDS:
            return None
        with self._lock:
            return self._known.get((scope, _said(memory)))


def _said(memory: Memory) -> str:
    return digest(normal_form(memory.text))
