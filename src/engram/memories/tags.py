"""Tags that mean something to Engram itself; those of others mean what their users make of them."""

from __future__ import annotations

from engram.memories.facts.books import FACT
from engram.memories.forgetting_curve import PINNED

KEY = "key:"
"""What a tag begins with that is the key of a caller's choice."""

__all__ = ["FACT", "KEY", "PINNED", "gives_rights"]


def gives_rights(tag: str) -> bool:
    """Whether a tag keeps its memory for good, makes it the value of a key, or makes it a fact."""
    said = tag.strip().lower()
    return said in {PINNED, FACT} or said.startswith(KEY)
