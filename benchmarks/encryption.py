"""Measure the cost of encryption: writes and recalls without it, with encrypted fields, and with an encrypted file.

python benchmarks/encryption.py [--rows 2000] [--queries 200] [--rounds 3] [--json FILE]

Each lane writes the same texts to a new file on the same disk and recalls the same questions, by words and by vector,
with an embedder that costs nothing. The lanes alternate, and the best round of each counts; `x none` is the ratio to
the time without encryption.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from engram.clock import Sources
from engram.engine import Engram
from engram.model import Clean
from engram.ports import Matrix, Purpose
from engram.privacy import SecretRedactor
from engram.privacy.cipher import MasterKey
from engram.stores.sqlite import SqliteStore
from engram.stores.vectors.local import LocalVectors

DIM = 384
BATCH = 100
LANES = ("none", "fields", "file")
WORDS = [f"word{number}" for number in range(5000)]


class Spread:
    """An embedder that costs little: the vector of a text is drawn by its hash."""

    identity, dim = "spread@1", DIM

    def embed(self, texts: Sequence[Clean], purpose: Purpose = "document") -> Matrix:
        """Return one direction for each text."""
        rows = np.stack([np.random.default_rng(len(text) + sum(map(ord, text))).normal(size=DIM) for text in texts])
        return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), dtype=np.float32)


@dataclass(frozen=True, slots=True)
class Costs:
    """Milliseconds of a single write, a write in a batch, the first recall after opening, and a later one."""

    write: float
    batched: float
    first_recall: float
    recall: float
    megabytes: float


def texts(count: int) -> list[str]:
    """Return sentences of 60 words with the frequencies of a natural language."""
    dice = random.Random(7)
    weights = [1 / (rank + 1) for rank in range(len(WORDS))]
    return [" ".join(dice.choices(WORDS, weights, k=60)) for _ in range(count)]


def opened(path: Path, encryption: str) -> Engram:
    """Open the database of a lane."""
    store = SqliteStore(
        path, LocalVectors(), Sources(), durable=False, cipher=MasterKey(bytes(32)), encryption=encryption
    )
    quiet = lambda message: None  # noqa: E731 - nobody listens
    return Engram(store, embedder=Spread, redactor=SecretRedactor(), sources=Sources(), say=quiet)


def measure(encryption: str, said: Sequence[str], questions: Sequence[str]) -> Costs:
    """Run one round of one lane."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "engram.db"
        alone, rest = said[: len(said) // 4], said[len(said) // 4 :]
        with opened(path, encryption) as brain:
            alice = brain.agent("alice")
            alice.remember("the first one makes the keys")
            start = time.perf_counter()
            for text in alone:
                alice.remember(text)
            write = time.perf_counter() - start
            start = time.perf_counter()
            for first in range(0, len(rest), BATCH):
                alice.remember(rest[first : first + BATCH])
            batched = time.perf_counter() - start
        with opened(path, encryption) as brain:
            alice = brain.agent("alice")
            start = time.perf_counter()
            alice.recall(questions[0])
            first_recall = time.perf_counter() - start
            start = time.perf_counter()
            for question in questions:
                alice.recall(question)
            recall = time.perf_counter() - start
        size = path.stat().st_size / 1e6
    return Costs(
        1e3 * write / len(alone), 1e3 * batched / len(rest), 1e3 * first_recall, 1e3 * recall / len(questions), size
    )


def best(rounds: Sequence[Costs]) -> Costs:
    """Return the least of each."""
    return Costs(*(min(values) for values in zip(*(asdict(one).values() for one in rounds), strict=True)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    said = texts(options.rows)
    questions = [" ".join(text.split()[10:16]) for text in said[: options.queries]]
    found: dict[str, list[Costs]] = {lane: [] for lane in LANES}
    for _ in range(options.rounds):
        for lane in LANES:
            found[lane].append(measure(lane, said, questions))
    costs = {lane: best(rounds) for lane, rounds in found.items()}
    names = list(asdict(costs["none"]))
    print(f"{'':8}" + "".join(f"{name:>22}" for name in names))
    for lane, cost in costs.items():
        plain = asdict(costs["none"])
        cells = [f"{value:.3f} ({value / plain[name]:.2f} x)" for name, value in asdict(cost).items()]
        print(f"{lane:8}" + "".join(f"{cell:>22}" for cell in cells))
    if options.json:
        options.json.write_text(json.dumps({lane: asdict(cost) for lane, cost in costs.items()}, indent=2) + "\n")


if __name__ == "__main__":
    main()
