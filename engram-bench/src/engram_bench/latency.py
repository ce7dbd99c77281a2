"""Time calls at growing sizes, beside numpy, SQLite's FTS5 and Chroma in the same run."""

from __future__ import annotations

import gc
import multiprocessing
import os
import platform
import random
import re
import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from engram import __version__, config, wiring
from engram.engine import Engram
from engram.errors import MissingExtra
from engram.ports import LONG_TERM, Embedder, Filter, Matrix, Placed, Query, Scope
from engram.text.terms import STOP_WORDS
from engram_bench import ProgressCallback
from engram_bench.baselines import chroma_client
from engram_bench.cached_embedder import embed_with
from engram_bench.synthetic import WordVectors, drafts, question, text

AGENT = "latency"
BATCH = 500
POOL = 100
"""Candidates requested from every part and every system."""
WARM_UP = 20
CHROMA_UP_TO = 100_000
VECTORS = "made up, so that no model is needed for millions of them: a text is the sum of the directions of its words"
PROBES = 20

Calls = Mapping[str, Callable[[int], object]]


@dataclass(frozen=True, slots=True)
class Timing:
    """Median and 99th percentile in milliseconds."""

    p50: float
    p99: float


@dataclass(frozen=True, slots=True)
class Probe:
    """Costs of an existing database in a new process; memory in megabytes, `None` if unknown.

    The first opening includes imports; `open_ms` is the second one.
    """

    first_open_ms: float
    open_ms: float
    first_recall_ms: float
    memory: float | None
    memory_with_model: float | None


@dataclass(frozen=True, slots=True)
class SizeReport:
    """The measurements at one size; `adds_per_second` is `None` if the memories existed already."""

    memories: int
    adds_per_second: int | None
    bytes: int
    probe: Probe
    recall_at_10: float
    timings: Mapping[str, Timing]
    ratios: Mapping[str, float]


RATIOS = {
    "recall ÷ (FTS5 + numpy)": (("recall",), ("SQLite FTS5", "numpy")),
    "recall ÷ numpy": (("recall",), ("numpy",)),
    "recall ÷ Chroma": (("recall",), ("Chroma",)),
    "keyword part ÷ FTS5": (("keyword part",), ("SQLite FTS5",)),
    "vector part ÷ numpy": (("vector part",), ("numpy",)),
    "vector part ÷ Chroma": (("vector part",), ("Chroma",)),
}


def run(
    sizes: Sequence[int],
    queries: int,
    folder: Path,
    *,
    model: Callable[[], Embedder] | None = None,
    on_progress: ProgressCallback,
    say: Callable[[str], None],
) -> dict[str, Any]:
    """Measure every size in turn, smallest first; databases in the folder are reused."""
    lines = [measure(size, queries, folder, model, on_progress, say) for size in sorted(set(sizes))]
    first, last = lines[0], lines[-1]
    shared = [name for name in last.timings if name in first.timings] if len(lines) > 1 else []
    return {
        "engram": __version__,
        "machine": {
            "system": platform.platform(),
            "cpus": os.cpu_count(),
            "python": platform.python_version(),
            "sqlite": sqlite3.sqlite_version,
            "numpy": np.__version__,
        },
        "queries": queries,
        "vectors": VECTORS,
        "sizes": [asdict(line) for line in lines],
        "growth": {name: round(last.timings[name].p50 / first.timings[name].p50, 2) for name in shared},
    }


def measure(
    size: int,
    queries: int,
    folder: Path,
    model: Callable[[], Embedder] | None,
    on_progress: ProgressCallback,
    say: Callable[[str], None],
) -> SizeReport:
    """Fill a database, probe it from a new process, then time all calls alternately, to spread noise evenly."""
    db = folder / f"latency-{size}.db"
    rate = fill(db, size, on_progress)
    on_progress(0, 0, f"{size:,}: opening")
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as process:
        probe = process.submit(probe_database, str(db), size, model).result()
    on_progress(0, 0, f"{size:,}: preparing the others")
    vectors = WordVectors()
    texts = [text(number) for number in range(size)]
    matrix = np.empty((size, vectors.dim), dtype=np.float32)
    for at in range(0, size, 10_000):
        matrix[at : at + 10_000] = vectors.of(texts[at : at + 10_000])
    asked = [question(number) for number in random.Random(size).choices(range(size), k=queries)]  # noqa: S311
    wanted = vectors.of(asked)
    with open_database(db, vectors) as brain, closing(fts5(folder / f"fts5-{size}.db", texts)) as words:
        calls = {
            **engram_calls(brain, asked, wanted, vectors.identity),
            **reference_calls(words, asked, matrix, wanted),
        }
        on_progress(0, 0, f"{size:,}: filling Chroma")
        calls |= chroma_calls(folder / f"chroma-{size}", matrix, wanted, say) if size <= CHROMA_UP_TO else {}
        if model is not None:
            real = model()
            clean = [cleaned.text for cleaned in brain.redactor.clean(asked)]
            calls["query embedding"] = lambda turn: real.embed([clean[turn]], "query")
        took = time_calls(calls, queries, lambda done: on_progress(done, queries, f"{size:,}: asking"))
        right = recall_at_10(brain, vectors.identity, matrix, wanted)
    if "query embedding" in took:
        pairs = zip(took["recall"], took["query embedding"], strict=True)
        took["recall with query embedding"] = [recall + embedding for recall, embedding in pairs]
    timings = {name: timing(values) for name, values in took.items()}
    return SizeReport(
        memories=size,
        adds_per_second=rate,
        bytes=db.stat().st_size,
        probe=probe,
        recall_at_10=right,
        timings=timings,
        ratios=ratios(timings),
    )


def open_database(db: Path, vectors: Embedder) -> Engram:
    """Open the memory in a file, with vectors that cost next to nothing."""
    brain = wiring.open(db, vectors="")
    embed_with(brain, lambda: vectors)
    return brain


def fill(db: Path, size: int, on_progress: ProgressCallback) -> int | None:
    """Store so many memories in batches; return how many per second, or `None` if they exist."""
    with open_database(db, WordVectors()) as brain:
        agent = brain.agent(AGENT)
        if agent.list(limit=1, offset=size - 1):
            return None
        start = time.perf_counter()
        for first in range(0, size, BATCH):
            last = min(size, first + BATCH)
            agent.remember(list(drafts(first, last)))
            on_progress(last, size, f"{size:,}: storing")
        return round(size / (time.perf_counter() - start))


def probe_database(db: str, size: int, model: Callable[[], Embedder] | None) -> Probe:
    """Measure opening and the first recalls in this process, which has done nothing else."""
    vectors = WordVectors()
    start = time.perf_counter()
    open_database(Path(db), vectors).close()
    imported = time.perf_counter()
    with open_database(Path(db), vectors) as brain:
        ready = time.perf_counter()
        agent = brain.agent(AGENT)
        agent.recall(question(0))
        answered = time.perf_counter()
        for number in range(PROBES):
            agent.recall(question(number * 37 % size))
        alone, together = resident_memory(), None
        if model is not None:
            model().embed([brain.redactor.clean([question(0)])[0].text], "query")
            together = resident_memory()
    return Probe(
        first_open_ms=round(1000 * (imported - start), 1),
        open_ms=round(1000 * (ready - imported), 1),
        first_recall_ms=round(1000 * (answered - ready), 1),
        memory=alone,
        memory_with_model=together,
    )


def resident_memory() -> float | None:
    """Return the resident memory of this process in megabytes, if the system reports it."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except (OSError, ValueError, IndexError):
        return None
    return round(pages * os.sysconf("SC_PAGE_SIZE") / 1e6, 1)


def engram_calls(brain: Engram, asked: Sequence[str], wanted: Matrix, identity: str) -> Calls:
    """Return Engram's recall, and the two searches it consists of, with the filter that recall uses."""
    agent, scope, store = brain.agent(AGENT), Scope(AGENT), brain.store
    where = Filter(current=brain.sources.now())
    clean = [cleaned.text for cleaned in brain.redactor.clean(asked)]
    placed = [Placed(LONG_TERM, identity, vector) for vector in wanted]
    return {
        "recall": lambda turn: agent.recall(asked[turn], 10),
        "keyword part": lambda turn: store.search(scope, Query(words=clean[turn], where=where, limit=POOL)),
        "vector part": lambda turn: store.search(scope, Query(near=placed[turn], where=where, limit=POOL)),
    }


def reference_calls(words: sqlite3.Connection, asked: Sequence[str], matrix: Matrix, wanted: Matrix) -> Calls:
    """Return the minimal equivalents: one matrix product, and one FTS5 query."""
    terms = [" OR ".join(f'"{w}"' for w in re.findall(r"\w+", q.lower()) if w not in STOP_WORDS) for q in asked]
    statement = "SELECT rowid FROM words WHERE words MATCH ? ORDER BY bm25(words) LIMIT ?"
    return {
        "numpy": lambda turn: nearest(matrix, wanted[turn], POOL),
        "SQLite FTS5": lambda turn: words.execute(statement, (terms[turn], POOL)).fetchall(),
    }


def chroma_calls(folder: Path, matrix: Matrix, wanted: Matrix, say: Callable[[str], None]) -> Calls:
    """Return the same nearest-neighbour search in Chroma, if it is installed."""
    try:
        client = chroma_client(str(folder))
    except MissingExtra as error:
        say(f"Chroma is left out: {error}")
        return {}
    collection = client.get_or_create_collection(AGENT, embedding_function=None)
    for first in range(collection.count(), len(matrix), 1000):
        some = matrix[first : first + 1000]
        collection.add(ids=[str(first + number) for number in range(len(some))], embeddings=some)
    most = min(POOL, len(matrix))
    return {"Chroma": lambda turn: collection.query(query_embeddings=[wanted[turn]], n_results=most, include=[])}


def fts5(file: Path, texts: Sequence[str]) -> sqlite3.Connection:
    """Create a database with only a keyword index of the texts."""
    file.unlink(missing_ok=True)
    conn = sqlite3.connect(file)
    conn.execute("CREATE VIRTUAL TABLE words USING fts5(text, tokenize = 'porter unicode61')")
    with conn:
        conn.executemany("INSERT INTO words (rowid, text) VALUES (?, ?)", enumerate(texts))
    return conn


def nearest(matrix: Matrix, vector: Matrix, k: int) -> list[int]:
    """Return the rows most similar to a vector, best first."""
    similarity = matrix @ vector
    top = np.argpartition(-similarity, k)[:k] if k < len(similarity) else np.arange(len(similarity))
    return [int(row) for row in top[np.argsort(-similarity[top], kind="stable")]]


def recall_at_10(brain: Engram, identity: str, matrix: Matrix, wanted: Matrix) -> float:
    """Return the share of the ten nearest that the vector part finds; ties with the tenth count."""
    scope, found = Scope(AGENT), 0.0
    where, k = Filter(current=brain.sources.now()), min(10, len(matrix))
    for vector in wanted:
        matches = brain.store.search(scope, Query(near=Placed(LONG_TERM, identity, vector), where=where, limit=POOL))
        memories = brain.store.get(scope, [match.id for match in matches[:k]])
        rows = [int(str(memory.metadata["number"])) for memory in memories if memory is not None]
        tenth = matrix[nearest(matrix, vector, k)[-1]] @ vector
        found += sum(bool(matrix[row] @ vector >= tenth - 1e-5) for row in rows) / k
    return round(found / len(wanted), 4)


def time_calls(calls: Calls, queries: int, on_progress: Callable[[int], None]) -> dict[str, list[float]]:
    """Return the milliseconds of every call for every query, after a warm-up; the order of calls rotates."""
    names = list(calls)
    took: dict[str, list[float]] = {name: [] for name in names}
    gc.collect()
    gc.freeze()  # so that objects of one system do not slow the others
    try:
        for turn in range(-min(WARM_UP, queries), queries):
            shift = turn % len(names)
            for name in names[shift:] + names[:shift]:
                start = time.perf_counter()
                calls[name](turn)
                if turn >= 0:
                    took[name].append((time.perf_counter() - start) * 1000)
            on_progress(max(0, turn + 1))
    finally:
        gc.unfreeze()
    return took


def timing(values: Sequence[float]) -> Timing:
    """Return the two quantiles, to the microsecond."""
    p50, p99 = np.percentile(values, [50, 99])
    return Timing(round(float(p50), 3), round(float(p99), 3))


def ratios(timings: Mapping[str, Timing]) -> dict[str, float]:
    """Return the ratios of medians, for all that were measured."""
    return {
        name: round(sum(timings[part].p50 for part in ours) / sum(timings[part].p50 for part in theirs), 2)
        for name, (ours, theirs) in RATIOS.items()
        if {*ours, *theirs} <= timings.keys()
    }


def best_model() -> Embedder:
    """Return the best installed model. Raises `ModelUnavailable` if there is none."""
    models = wiring.models(config.load())
    return models.load(models.best_installed() or models.default)
