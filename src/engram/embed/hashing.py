"""Embed by feature hashing: no model, no download, the same vectors on every machine."""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache

import numpy as np

from engram.errors import InvalidInput
from engram.model import Clean
from engram.ports import Matrix, Purpose

DEFAULT_DIM = 256
MAX_DIM = 65536
_REVISION = 1  # part of the identity: raise it when any vector would change
_WORD = re.compile(r"\w+")
_GRAMS = (3, 4)
_GRAM_WEIGHT = 0.4  # a word has several n-grams: together they weigh about as much as the word


class HashingEmbedder:
    """Signed feature hashing of words and character n-grams: finds shared words, not shared meaning."""

    def __init__(self, dim: int = DEFAULT_DIM) -> None:
        if not 1 <= dim <= MAX_DIM:
            raise InvalidInput(f"a hashing embedder has 1 to {MAX_DIM} dimensions, not {dim}; try hashing:256")
        self._dim = dim

    @property
    def identity(self) -> str:
        """The name with the dimension and revision, such as `hashing-256@1`."""
        return f"hashing-{self._dim}@{_REVISION}"

    @property
    def dim(self) -> int:
        """The length of every vector."""
        return self._dim

    def embed(self, texts: Sequence[Clean], purpose: Purpose = "document") -> Matrix:
        """Return one row of length 1 per text, in order; queries and documents are treated alike."""
        rows = np.zeros((len(texts), self._dim), dtype=np.float32)
        for index, text in enumerate(texts):
            rows[index] = self._row(text)
        return rows

    def _row(self, text: str) -> list[float]:
        row = [0.0] * self._dim
        for feature, weight in _features(text):
            place, sign = _slot(feature)
            row[place % self._dim] += sign * weight
        if not any(row):  # no words, or all of them cancelled out: the text itself is the feature
            place, sign = _slot(text)
            row[place % self._dim] = sign
        # fsum and sqrt are exactly rounded: the last bit is the same on every machine
        length = math.sqrt(math.fsum(value * value for value in row))
        return [value / length for value in row]


def hashing(argument: str = "", key: str | None = None) -> HashingEmbedder:
    """Return the embedder for `hashing` or `hashing:DIM`."""
    if not argument:
        return HashingEmbedder()
    if not argument.isdecimal():
        raise InvalidInput(f"hashing takes a number of dimensions, not {argument!r}; try hashing:256")
    return HashingEmbedder(int(argument))


def from_identity(identity: str) -> HashingEmbedder | None:
    """Return the embedder with this identity, or `None` if it is not that of a hashing embedder."""
    found = re.fullmatch(rf"hashing-(\d{{1,5}})@{_REVISION}", identity, re.ASCII)
    return HashingEmbedder(int(found[1])) if found and 1 <= int(found[1]) <= MAX_DIM else None


def _features(text: str) -> Iterator[tuple[str, float]]:
    words = Counter(_WORD.findall(text.lower()))
    for word, count in words.items():
        often = math.sqrt(count)  # nine occurrences weigh three times as much
        yield word, often
        framed = f"<{word}>"
        for size in _GRAMS:
            for start in range(len(framed) - size + 1):
                yield framed[start : start + size], often * _GRAM_WEIGHT


@lru_cache(maxsize=65536)
def _slot(feature: str) -> tuple[int, int]:
    digest = hashlib.blake2b(feature.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    number = int.from_bytes(digest, "big")
    return number >> 1, 1 if number & 1 else -1
