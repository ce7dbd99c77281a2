"""Much, a little at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

T = TypeVar("T")


def batched(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """The items in lists of `size`, in order; the last one may be shorter, and without items there is none."""
    rest = iter(items)
    while batch := list(islice(rest, size)):
        yield batch
