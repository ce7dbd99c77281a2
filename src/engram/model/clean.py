"""The type that says: this text has passed the redactor."""

from __future__ import annotations

from typing import NewType

Clean = NewType("Clean", str)
"""Text without secrets. Only `engram.privacy` makes it from raw text, and only a store reads it back."""


def joined(*parts: Clean) -> Clean:
    """Clean texts, one a line; empty ones are left out."""
    return Clean("\n".join(part for part in parts if part))
