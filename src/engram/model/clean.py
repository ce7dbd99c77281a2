"""`Clean`, the type of text that has passed the redactor."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import NewType

Clean = NewType("Clean", str)
"""Text without secrets. Only `engram.privacy` makes it from raw text, and only a store reads it back."""

DELETED_TEXT = Clean("forgotten")
"""Placeholder for text that was deleted."""


def clean_name(name: str) -> Clean:
    """Mark a name as clean that the program made itself, or that was redacted before it was stored."""
    return Clean(name)


def join_clean(*parts: Clean) -> Clean:
    """Join clean texts with line breaks, leaving out empty ones."""
    return Clean("\n".join(part for part in parts if part))


def split_clean(text: Clean, cut: Callable[[str], Iterable[str]]) -> list[Clean]:
    """Split a clean text; its pieces are clean."""
    return [Clean(piece) for piece in cut(text)]


def remove_matches(text: Clean, words: re.Pattern[str]) -> Clean:
    """Remove matches of a pattern from a clean text and normalise its spaces."""
    return Clean(" ".join(words.sub(" ", text).split()))
