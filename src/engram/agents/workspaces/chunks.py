"""Cuts bytes where their content says so: an insertion moves the cuts behind it along, so that the rest stays the same.

A gear hash of the last 16 bytes decides; numpy computes it for all positions at once, by doubling the window.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

SMALLEST = 16 * 1024
LARGEST = 256 * 1024
WINDOW = 16
"""In bytes. A cut is where all 16 bits are zero: one place in 65,536."""
_BLOCK = 256 * 1024
"""As much as the cache of a processor holds."""
_GEAR = np.array(random.Random(20).sample(range(1 << 16), 256), dtype=np.uint16)  # noqa: S311 - always the same table


def chunks(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes in chunks of 64 KiB or so, however they came in pieces; no chunk is empty."""
    pending, places = bytearray(), list[int]()
    for piece in pieces:
        known = max(0, len(pending) - WINDOW + 1)
        joint = bytes(pending[known:]) + piece
        fresh = len(pending) - known
        places += [known + place for place in cuts(joint) if place > fresh]
        pending += piece
        done = 0
        for length in _lengths(places, len(pending), whole=False):
            yield bytes(pending[done : done + length])
            done += length
        del pending[:done]
        places = [place - done for place in places if place > done]
    done = 0
    for length in _lengths(places, len(pending), whole=True):
        yield bytes(pending[done : done + length])
        done += length


def cuts(data: bytes) -> list[int]:
    """Where the content says that a chunk may end, in ascending order; never within the first bytes of the window."""
    found = list[int]()
    bytes_ = np.frombuffer(data, dtype=np.uint8)
    for start in range(0, len(data), _BLOCK):
        first = max(0, start - WINDOW + 1)
        block = bytes_[first : start + _BLOCK]
        ends = np.flatnonzero(_rolled(block) == 0) + first + 1
        found += [int(end) for end in ends if end > max(start, WINDOW - 1)]
    return found


def _rolled(block: NDArray[np.uint8]) -> NDArray[np.uint16]:
    """The hash of the 16 bytes that end at each place, or of those that are there."""
    hashes = np.empty(len(block), dtype=np.uint16)
    np.take(_GEAR, block, out=hashes, mode="clip")  # no place is out of range, and not to look makes it faster
    shifted = np.empty_like(hashes)
    reach = 1
    while reach < min(WINDOW, len(block)):
        rest = len(block) - reach
        np.left_shift(hashes[:rest], reach, out=shifted[:rest])
        hashes[reach:] += shifted[:rest]
        reach *= 2
    return hashes


def _lengths(places: list[int], size: int, *, whole: bool) -> Iterator[int]:
    """The lengths of the chunks; what more bytes might lengthen is left unless this is the whole."""
    done = 0
    for place in [*places, size]:
        while place - done > LARGEST:
            yield LARGEST
            done += LARGEST
        if place - done >= SMALLEST and place < size:
            yield place - done
            done = place
    if whole and done < size:
        yield size - done
