"""The interface of what takes secrets out of text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from engram.ports.values import Cleaned


@runtime_checkable
class Redactor(Protocol):
    """Takes secrets out of text. The only maker of `Clean`."""

    def clean(self, texts: Sequence[str]) -> list[Cleaned]:
        """One answer per text, in order. Cleaning twice changes nothing more."""
        ...
