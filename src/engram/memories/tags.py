"""Tags with a meaning in Engram: `pinned`, `fact`, and `key:…`."""

from __future__ import annotations

from engram.memories.facts.fact_cache import FACT
from engram.memories.forgetting_curve import PINNED

KEY = "key:"
"""Prefix of the tag for a key chosen by the caller."""

__all__ = ["FACT", "KEY", "PINNED", "is_reserved"]


def is_reserved(tag: str) -> bool:
    """Return true if a tag has a meaning in Engram, such as exempting its memory from deletion."""
    said = tag.strip().lower()
    return said in {PINNED, FACT} or said.startswith(KEY)
