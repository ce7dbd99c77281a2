"""Finds stores, vector stores and embedders by name among the installed packages; ours use the same door."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from engram.errors import InvalidInput, MissingExtra

_CALLED = {"stores": "store", "vectors": "vector database", "embedders": "embedder", "detectors": "detector"}


def find(group: str, name: str, also: Iterable[str] = ()) -> Any:
    """What a package registered as `name` in the entry-point group `engram.<group>`; `also` are other good names."""
    found = {point.name: point for point in entry_points(group=f"engram.{group}")}
    if name not in found:
        known = ", ".join([*also, *sorted(found)]) or "none (is engram-learning installed?)"
        raise InvalidInput(f"there is no {_CALLED[group]} called {name!r}; there are: {known}")
    return _load(found[name])


def _load(point: EntryPoint) -> Any:
    try:
        return point.load()
    except ImportError as error:
        raise MissingExtra(f"{point.name} needs a package that is not installed ({error}); install it") from error
