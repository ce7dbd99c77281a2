"""Measures Engram on public data, and on sizes, beside simpler ways to do the same."""

from __future__ import annotations

from typing import Protocol


class ProgressCallback(Protocol):
    """Hears how far the work has come; an unknown `total` is 0."""

    def __call__(self, done: int, total: int, label: str = "", /) -> None:
        """So much of it is done."""
        ...


def no_progress(done: int, total: int, label: str = "", /) -> None:
    """Nobody watches."""
