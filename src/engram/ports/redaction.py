"""The interface of redactors, which remove secrets from text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from engram.ports.values import Cleaned


@runtime_checkable
class Redactor(Protocol):
    """Remove secrets from text. Only a redactor makes values of the type `Clean`."""

    def clean(self, texts: Sequence[str]) -> list[Cleaned]:
        """Redact each text; return one result per text, in order. Redacting a result again changes nothing."""
        ...
