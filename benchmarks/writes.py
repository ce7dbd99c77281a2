"""Measure writes per second, single and in batches, against plain sqlite3 doing the same inserts.

python benchmarks/writes.py [--rows 2000] [--json FILE]

Every lane writes the same texts to a new file on the same disk: a row, its keyword index, its vector. `x plain` is the
ratio to the time of plain sqlite3, which has no redaction, no digest, no checks and no receipts.
"""

from __future__ import annotations

import argparse
import json
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

import numpy as np

import engram
from engram import config
from engram.clock import Sources
from engram.engine import Engram
from engram.model import Clean
from engram.ports import Embedder, Matrix, Purpose
from engram.privacy import SecretRedactor
from engram.stores.sqlite import SqliteStore
from engram.stores.vectors.exact import ExactVectors
from engram.wiring import models

DIM = 384
BATCH = 500
Lane = Callable[[Path, Sequence[str], int, bool], float]


class Free:
    """An embedder that costs nothing, to measure everything else."""

    identity, dim = "free@1", DIM

    def embed(self, texts: Sequence[Clean], purpose: Purpose = "document") -> Matrix:
        """Return the same vector for every text."""
        return np.full((len(texts), DIM), DIM**-0.5, dtype=np.float32)


def plain(path: Path, texts: Sequence[str], batch: int, durable: bool) -> float:
    """Return the seconds that plain sqlite3 takes for the same inserts."""
    vector = np.full(DIM, DIM**-0.5, dtype=np.float32).tobytes()
    with closing(sqlite3.connect(path, isolation_level=None)) as conn:
        conn.execute("PRAGMA journal_mode = WAL")
        conn.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
        conn.execute("CREATE TABLE memories (agent, id, text, created_at, PRIMARY KEY (agent, id))")
        conn.execute("CREATE TABLE vectors (agent, id, vector, PRIMARY KEY (agent, id))")
        conn.execute("CREATE VIRTUAL TABLE words USING fts5(text, tokenize='porter')")
        start = time.perf_counter()
        for first in range(0, len(texts), batch):
            conn.execute("BEGIN IMMEDIATE")
            for number, text in enumerate(texts[first : first + batch], first):
                conn.execute("INSERT INTO memories VALUES ('alice', ?, ?, ?)", (str(number), text, time.time()))
                conn.execute("INSERT INTO words (rowid, text) VALUES (?, ?)", (number, text))
                conn.execute("INSERT INTO vectors VALUES ('alice', ?, ?)", (str(number), vector))
            conn.execute("COMMIT")
        return time.perf_counter() - start


def with_embedder(embedder: Embedder) -> Lane:
    """Return a lane that writes through Engram with this embedder."""

    def lane(path: Path, texts: Sequence[str], batch: int, durable: bool) -> float:
        embedder.embed([Clean("warm up")])
        sources = Sources()
        store = SqliteStore(path, ExactVectors(), sources, durable=durable)
        with Engram(store, embedder=lambda: embedder, redactor=SecretRedactor(), sources=sources, say=print) as brain:
            alice = brain.agent("alice")
            alice.remember("warm up")
            start = time.perf_counter()
            for first in range(0, len(texts), batch):
                some = texts[first : first + batch]
                receipts = alice.remember(some if batch > 1 else some[0])
                assert receipts
            return time.perf_counter() - start

    return lane


def lanes() -> dict[str, Lane]:
    """Return plain sqlite3, and Engram with every installed embedder."""
    with engram.open(":memory:", embedder="hashing") as brain:
        found = {"plain sqlite3": plain, "engram, no embedding": with_embedder(Free())}
        found["engram, hashing"] = with_embedder(brain.embedder)
    here = models(config.load())
    if name := here.best_installed():
        found[f"engram, {name}"] = with_embedder(here.load(name))
    return found


def texts(count: int) -> Iterator[str]:
    """Return notes of about 25 words, all different."""
    dice = np.random.default_rng(1)
    vocabulary = [f"{a}{b}" for a in ("deploy", "cache", "login", "query", "index") for b in range(400)]
    for number in range(count):
        yield f"note {number}: " + " ".join(dice.choice(vocabulary, 24))


def measure(rows: int) -> list[dict[str, object]]:
    """Return one row per way of writing and lane, measured side by side."""
    results: list[dict[str, object]] = []
    for durable, batch in ((True, 1), (False, 1), (True, BATCH)):
        how = f"{'one at a time' if batch == 1 else f'batches of {batch}'}, {'durable' if durable else 'relaxed'}"
        base = 0.0
        for name, lane in lanes().items():
            count = rows if batch > 1 else max(1, rows // 4)
            with tempfile.TemporaryDirectory(dir=Path.cwd(), prefix=".bench-") as folder:
                seconds = lane(Path(folder) / "b.db", list(texts(count)), batch, durable) / count
            base = base or seconds
            results.append(
                {"how": how, "lane": name, "writes_per_second": round(1 / seconds), "x_plain": round(seconds / base, 1)}
            )
            print(f"{how:28} {name:26} {1 / seconds:10,.0f} writes/s {seconds / base:8.1f} x plain", flush=True)
    return results


def main() -> None:
    """Parse arguments, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    results = measure(arguments.rows)
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
