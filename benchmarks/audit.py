"""Measure the cost of the audit trail: writes with and without it, side by side, and verifications per second.

python benchmarks/audit.py [--writes 2000] [--folder FOLDER] [--postgres URL] [--json FILE]

Both lanes are the same store, except that `note` does nothing in the one without. They alternate in small rounds in
one process, so that other load affects both alike; `ratio` is that of the medians of the rounds, `cpu_ratio` that of
the processor time of this process, which other programs disturb less. With --postgres (an empty database of your own)
many writers write at once, since there they wait for the end of the trail.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import repeat
from pathlib import Path
from typing import Any

from engram import audit
from engram.clock import Sources
from engram.embed.hashing import HashingEmbedder
from engram.engine import AgentHandle, Engram
from engram.ports import AuditAction
from engram.privacy import SecretRedactor
from engram.stores.postgres import PostgresStore
from engram.stores.sql import SqlStore
from engram.stores.sqlite import SqliteStore
from engram.stores.vectors.exact import ExactVectors

ROUND = 20
Row = dict[str, object]


class UnauditedSqlite(SqliteStore):
    """A store without an audit trail."""

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        self._tables.note = lambda conn, action: None  # type: ignore[method-assign]


class UnauditedPostgres(PostgresStore):
    """A store without an audit trail."""

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        self._tables.note = lambda conn, action: None  # type: ignore[method-assign]


def brain_on(store: SqlStore) -> Engram:
    return Engram(store, embedder=HashingEmbedder, redactor=SecretRedactor(), sources=Sources(), say=print)


def compared(how: str, lanes: Sequence[Callable[[int], object]], rounds: int, per_round: int) -> Row:
    """Run both lanes alternately; each call writes number n."""
    seconds: tuple[list[float], list[float]] = ([], [])
    cpu: tuple[list[float], list[float]] = ([], [])
    number = 0
    for turn in range(rounds + 2):
        for lane in (0, 1) if turn % 2 else (1, 0):
            start, busy = time.perf_counter(), time.process_time()
            for n in range(per_round):
                lanes[lane](number + n)
            if turn >= 2:  # the first rounds warm up
                seconds[lane].append((time.perf_counter() - start) / per_round)
                cpu[lane].append((time.process_time() - busy) / per_round)
        number += per_round
    without, with_ = map(statistics.median, seconds)
    idle, busy_ = map(statistics.median, cpu)
    row: Row = {
        "how": how,
        "without_us": round(without * 1e6, 1),
        "with_us": round(with_ * 1e6, 1),
        "ratio": round(with_ / without, 3),
        "cpu_without_us": round(idle * 1e6, 1),
        "cpu_with_us": round(busy_ * 1e6, 1),
        "cpu_ratio": round(busy_ / idle, 3),
    }
    print(
        f"{how:38} {row['without_us']:>9} µs without, {row['with_us']:>9} µs with, "
        f"ratio {row['ratio']}; processor {row['cpu_without_us']} and {row['cpu_with_us']} µs, "
        f"ratio {row['cpu_ratio']}",
        flush=True,
    )
    return row


def on_sqlite(folder: Path, writes: int) -> list[Row]:
    results = []
    for durable in (False, True):
        with ExitStack() as opened:
            place = Path(opened.enter_context(tempfile.TemporaryDirectory(dir=folder, prefix=".bench-")))
            stores = [
                kind(place / f"{kind.__name__}.db", ExactVectors(), Sources(), durable=durable)
                for kind in (UnauditedSqlite, SqliteStore)
            ]
            alices = [opened.enter_context(brain_on(store)).agent("alice") for store in stores]
            kept = "durable" if durable else "relaxed"
            one = [lambda n, a=a: a.remember(f"note {n}: the deploy of service {n % 97} failed") for a in alices]
            many = [lambda n, a=a: a.remember([f"batch {n} note {i}" for i in range(100)]) for a in alices]
            decision = [
                lambda n, a=a: a.record_decision(context=f"c{n % 7}", action="retry", outcome="success") for a in alices
            ]
            results.append(compared(f"remember, {kept}", one, writes // ROUND, ROUND))
            results.append(compared(f"record_decision, {kept}", decision, writes // ROUND // 2, ROUND))
            results.append(compared(f"remember 100 at once, {kept}", many, max(4, writes // 100), 1))
    return results


def verified(folder: Path, entries: int) -> Row:
    with tempfile.TemporaryDirectory(dir=folder, prefix=".bench-") as place:
        store = SqliteStore(Path(place) / "v.db", ExactVectors(), Sources(), durable=False)
        for _ in range(entries // 1000):
            store.note([AuditAction("use", "bob", "alice", f"m{n}", "g1", n, {"stored": n}) for n in range(1000)])
        start = time.process_time()
        found = audit.AuditTrail(store).verify()
        seconds = time.process_time() - start
        assert found.ok
        store.close()
    row: Row = {"how": "verify", "entries": found.entries, "entries_per_second": round(found.entries / seconds)}
    print(f"verify: {found.entries:,} entries, {found.entries / seconds:,.0f} a second", flush=True)
    return row


def on_postgres(url: str, writes: int) -> list[Row]:
    """Return the writes per second of so many concurrent writers, each an agent of its own."""
    results: list[Row] = []
    with brain_on(UnauditedPostgres(url, Sources())) as plain, brain_on(PostgresStore(url, Sources())) as audited:
        for writers in (1, 8):
            rates: tuple[list[float], list[float]] = ([], [])
            each = max(2, writes // writers // 16)
            for turn in range(9):
                for lane in (0, 1) if turn % 2 else (1, 0):
                    agents = [(plain, audited)[lane].agent(f"lane{lane}writer{n}") for n in range(writers)]
                    start = time.perf_counter()
                    with ThreadPoolExecutor(writers) as pool:
                        list(pool.map(written, agents, repeat(turn), repeat(each)))
                    if turn:  # the first round warms up
                        rates[lane].append(each * writers / (time.perf_counter() - start))
            without, with_ = map(statistics.median, rates)
            row: Row = {"how": f"postgres, {writers} writers", "without": round(without), "with": round(with_)}
            results.append(row | {"ratio": round(without / with_, 3)})
            print(
                f"postgres, {writers} at once: {without:,.0f} writes/s without, {with_:,.0f} with, "
                f"ratio {without / with_:.3f}",
                flush=True,
            )
    return results


def written(agent: AgentHandle, turn: int, count: int) -> None:
    for number in range(count):
        agent.remember(f"note {number} of turn {turn}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--writes", type=int, default=2000)
    parser.add_argument("--entries", type=int, default=50_000)
    parser.add_argument("--folder", type=Path, default=Path.cwd())
    parser.add_argument("--postgres")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    results = on_sqlite(given.folder, given.writes)
    results.append(verified(given.folder, given.entries))
    if given.postgres:
        results += on_postgres(given.postgres, given.writes)
    if given.json:
        given.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
