"""The type that says: this text has passed the redactor."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import NewType

Clean = NewType("Clean", str)
"""Text without secrets. Only `engram.privacy` makes it from raw text, and only a store reads it back."""

UNSAID = Clean("forgotten")
"""What stands where words were that are forgotten."""


def named(name: str) -> Clean:
    """A name that the program made, or that was clean when it was written down."""
    return Clean(name)


def joined(*parts: Clean) -> Clean:
    """Clean texts, one a line; empty ones are left out."""
    return Clean("\n".join(part for part in parts if part))


def pieces(text: Clean, cut: Callable[[str], Iterable[str]]) -> list[Clean]:
    """A clean text cut into pieces; whatever is cut out of it is as clean."""
    return [Clean(piece) for piece in cut(text)]


def without(text: Clean, words: re.Pattern[str]) -> Clean:
    """A clean text with some words left out, one space between the others."""
    return Clean(" ".join(words.sub(" ", text).split()))
