"""Run a real server under mixed load for some minutes: it must not fail, and must not grow.

python benchmarks/soak.py [--minutes 10] [--clients 8] [--rate 20] [--memories 12000] [--db URL] [--json FILE]

Clients remember, recall, decide, record outcomes, learn from failures, annotate, list, share, revoke, export and
forget, at a fixed total rate; as much is forgotten as is remembered, so that the number of memories is stable, and
large enough from the beginning to fill the caches of all connections. Meanwhile the memory of the server's process, its
open files, its threads, and the write-ahead log are watched. It fails if any request fails, if the server does not stop
cleanly, or if something grows: after the first fifth, in which everything warms up, the regression line of the resident
memory may not rise by more than 5% and 8 MB over the rest of the run, open files may not rise by more than 8, and the
log may not be larger than 64 MB.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

import httpx

import engram
from engram.client import Client
from engram.errors import NotFound

AGENTS = ("alice", "bob", "carol", "dave")
WATCHED_EVERY = 2.0
WARM_UP = 0.2
MOST_LOG = 64_000_000
MOST_FILES = 8
MOST_GROWTH, MOST_BYTES = 0.05, 8_000_000


@dataclass(frozen=True)
class Sample:
    """The resources of a process at a time."""

    seconds: float
    bytes: int
    files: int
    threads: int
    log: int
    requests: int


@dataclass
class Tally:
    """Counts and durations of the clients' requests."""

    done: Counter[str] = field(default_factory=Counter)
    errors: list[str] = field(default_factory=list)
    taken: list[tuple[float, float, str]] = field(default_factory=list)
    """End time, duration and name of each action."""
    lock: threading.Lock = field(default_factory=threading.Lock)


@contextmanager
def serving(url: str) -> Iterator[tuple[subprocess.Popen[str], str, list[str]]]:
    """Run `engram serve` in a process of its own; yield its address and the errors it has logged."""
    command = [sys.executable, "-m", "engram", "serve", "--port", "0", "--rate", "0", "--log-format", "json"]
    process = subprocess.Popen(
        [*command, "--db", url], stderr=subprocess.PIPE, text=True, env={**os.environ, "ENGRAM_EMBEDDER": "hashing"}
    )
    assert process.stderr is not None
    stream, logged = process.stderr, list[str]()

    def read() -> None:
        for line in stream:
            if '"level": "error"' in line or "Traceback" in line:
                logged.append(line.strip())

    try:
        for line in stream:
            if found := re.match(r"Engram serves on (\S+)", line):
                threading.Thread(target=read, daemon=True).start()
                yield process, found[1], logged
                break
        else:
            raise SystemExit("the server did not start")
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()


def text(dice: random.Random) -> str:
    """Return something to remember, unlike most others."""
    return (
        f"Service {dice.randrange(10**6)} runs on host-{dice.randrange(97)} and failed with error {dice.random():.9f}"
    )


class User:
    """A client that performs random operations repeatedly."""

    def __init__(self, client: Client, agent: str, dice: random.Random, known: list[str]) -> None:
        self._client, self._agent, self._dice, self._known = client, agent, dice, known
        self.doing = ""

    def act(self) -> str:
        """Perform one operation; return its name."""
        self.doing = what = self._dice.choices(
            ["remember", "forget", "recall", "context", "decide", "fail", "annotate", "list", "share", "export"],
            [20, 20, 30, 5, 10, 3, 5, 5, 1, 0.2],
        )[0]
        getattr(self, f"_{what}")()
        return what

    def _remember(self) -> None:
        receipt = self._client.remember(text(self._dice), tags=[f"t{self._dice.randrange(9)}"])
        self._known.append(receipt.id or "")

    def _forget(self) -> None:
        if len(self._known) > 1:
            self._client.forget(self._known.pop(self._dice.randrange(len(self._known))))

    def _recall(self) -> None:
        hits = self._client.recall(text(self._dice), 5)
        if hits and self._dice.random() < 0.3:
            self._client.outcome(hits.id, "success", used=hits[0])

    def _context(self) -> None:
        self._client.context(text(self._dice), budget_tokens=500)

    def _decide(self) -> None:
        """Suggest, act, record the outcome, and forget the decision with everything learned from it."""
        context, action = f"deploy {self._dice.randrange(20)}", f"step {self._dice.randrange(5)}"
        self._client.suggest(context=context)
        id = self._client.record_decision(context=context, action=action).id or ""
        self._client.outcome(id, self._dice.choice(["success", "failure"]))
        self._client.forget(id)

    def _fail(self) -> None:
        error = f"TimeoutError: host-{self._dice.randrange(20)} does not answer"
        pattern = self._client.learn_from_failure(error, "restart it", action="deploy")
        self._client.check(action="deploy", context="staging")
        for id in pattern.episodes:
            self._client.forget(id)

    def _annotate(self) -> None:
        id = self._dice.choice(self._known)
        if self._client.get(id) is not None:
            try:
                self._client.annotate(id, importance=self._dice.random())
            except NotFound:
                return  # another client of this agent was faster

    def _list(self) -> None:
        tag = f"t{self._dice.randrange(9)}"
        page = self._client.page(limit=20, tags=tag)
        if page.next_cursor:
            self._client.page(page.next_cursor, limit=20, tags=tag)

    def _share(self) -> None:
        other = self._dice.choice([name for name in AGENTS if name != self._agent])
        grant = self._client.share(other, tags="t1")
        self._client.revoke_grant(grant.id)

    def _export(self) -> None:
        if not self._client.export_knowledge(tags="t1"):
            raise RuntimeError("an empty file")


def work(user: User, every: float, until: float, began: float, tally: Tally, late: threading.Event) -> None:
    """Run a user's actions at its rate until the time is over."""
    next_at = time.monotonic()
    while time.monotonic() < until and not late.is_set():
        start = time.monotonic()
        try:
            what = user.act()
        except (engram.EngramError, httpx.HTTPError, RuntimeError) as error:
            with tally.lock:
                tally.errors.append(f"{user.doing}: {type(error).__name__}: {error}")
            late.set()
            return
        with tally.lock:
            tally.done[what] += 1
            tally.taken.append((time.monotonic() - began, time.monotonic() - start, what))
        next_at = max(next_at + every, time.monotonic() - every)
        time.sleep(max(0.0, next_at - time.monotonic()))


def sample(pid: int, began: float, db: str, requests: int) -> Sample:
    """Return the resources that a process uses now."""
    status = Path(f"/proc/{pid}/status").read_text()
    numbers = {name: int(value) for name, value in re.findall(r"^(VmRSS|Threads):\s+(\d+)", status, re.MULTILINE)}
    log = Path(db + "-wal")
    return Sample(
        time.monotonic() - began,
        numbers["VmRSS"] * 1024,
        sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir()),
        numbers["Threads"],
        log.stat().st_size if log.exists() else 0,
        requests,
    )


def slope(times: Sequence[float], values: Sequence[float]) -> float:
    """Return the slope of the regression line through these values, per second."""
    return statistics.linear_regression(times, values).slope if len(times) > 1 else 0.0


def _p99(taken: Sequence[float]) -> float:
    return sorted(taken)[int(len(taken) * 0.99)] * 1000 if taken else 0.0


def judged(samples: Sequence[Sample], tally: Tally) -> tuple[dict[str, float], list[str]]:
    """Return the figures, and everything that is wrong."""
    whole = samples[-1].seconds
    steady = [each for each in samples if each.seconds >= whole * WARM_UP]
    times = [each.seconds for each in steady]
    lasted = max(times[-1] - times[0], 1.0)
    memory = [float(each.bytes) for each in steady]
    rises = slope(times, memory) * lasted
    files = slope(times, [float(each.files) for each in steady]) * lasted
    taken = sorted(seconds for _, seconds, _ in tally.taken)
    halves = [[s for at, s, _ in tally.taken if (at < whole / 2) == first] for first in (True, False)]
    figures = {
        "minutes": whole / 60,
        "requests": float(sum(tally.done.values())),
        "p50_ms": statistics.median(taken or [0.0]) * 1000,
        "p99_ms": _p99(taken),
        "p99_ms_first_half": _p99(halves[0]),
        "p99_ms_second_half": _p99(halves[1]),
        "memory_mb_after_warm_up": memory[0] / 1e6,
        "memory_mb_at_the_end": memory[-1] / 1e6,
        "memory_mb_most": max(memory) / 1e6,
        "memory_rises_mb": rises / 1e6,
        "memory_rises_mb_an_hour": rises / 1e6 / lasted * 3600,
        "files_most": float(max(each.files for each in samples)),
        "files_rise": files,
        "threads_most": float(max(each.threads for each in samples)),
        "log_mb_most": max(each.log for each in samples) / 1e6,
        "errors": float(len(tally.errors)),
    }
    for what in sorted(tally.done):
        own = [seconds for _, seconds, each in tally.taken if each == what]
        figures[f"{what}_p50_ms"] = statistics.median(own) * 1000
    wrong = list(dict.fromkeys(tally.errors))
    if rises > MOST_BYTES and rises > memory[0] * MOST_GROWTH:
        wrong.append(f"the memory of the server grows: {rises / 1e6:.1f} MB in {lasted / 60:.1f} minutes")
    if files > MOST_FILES:
        wrong.append(f"{files:.0f} more files are open than before")
    if max(each.log for each in samples) > MOST_LOG:
        wrong.append("the write-ahead log grows beyond 64 MB")
    return figures, wrong


def fill(url: str, memories: int) -> tuple[str, dict[str, list[str]]]:
    """Fill the memory of each agent; return a key for all of them, and the ids."""
    dice, ids = random.Random(7), dict[str, list[str]]()
    with engram.open(url, embedder="hashing") as brain:
        for name in AGENTS:
            texts = [{"text": text(dice), "tags": (f"t{n % 9}",)} for n in range(memories // len(AGENTS))]
            ids[name] = [receipt.id or "" for receipt in brain.agent(name).remember(texts)]
        rights = ["read", "write", "share"]
        return brain.keys.create("soak", rights=rights)[1], ids


def soak(args: argparse.Namespace, db: str) -> tuple[dict[str, float], list[str], list[Sample]]:
    """Run everything."""
    token, ids = fill(db, args.memories)
    tally, samples, over = Tally(), list[Sample](), threading.Event()
    with serving(db) as (process, url, logged):
        began = time.monotonic()
        until = began + args.minutes * 60
        clients = [Client(url, token, AGENTS[n % len(AGENTS)], timeout=60) for n in range(args.clients)]
        every = args.clients / args.rate
        dice = random.Random(args.seed)
        users = [
            User(client, agent, random.Random(dice.random()), ids[agent])
            for client, agent in zip(clients, AGENTS * args.clients, strict=False)
        ]
        threads = [threading.Thread(target=work, args=(user, every, until, began, tally, over)) for user in users]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads) and process.poll() is None:
            samples.append(sample(process.pid, began, db, sum(tally.done.values())))
            time.sleep(WATCHED_EVERY)
            if len(samples) % 30 == 0:
                last = samples[-1]
                said = f"{last.seconds / 60:5.1f} min {last.requests:7} done {last.bytes / 1e6:7.1f} MB"
                print(
                    f"{said} {last.files:4} files {last.log / 1e6:6.1f} MB log {len(tally.errors)} errors", flush=True
                )
        for thread in threads:
            thread.join()
        for client in clients:
            client.close()
        process.send_signal(signal.SIGTERM)
        code = process.wait(60)
    figures, wrong = judged(samples, tally)
    wrong += [f"the server ended with {code}"] if code else []
    wrong += [f"the server says: {line}" for line in logged[:20]]
    return figures, wrong, samples


def main() -> None:
    """Run, print the figures, and fail if anything is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--rate", type=float, default=20, help="actions a second, of all clients together")
    parser.add_argument("--memories", type=int, default=12_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--db", help="an empty database; a file of its own, if left out")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        figures, wrong, samples = soak(args, args.db or str(Path(folder) / "soak.db"))
    for name, value in figures.items():
        print(f"{name:26} {value:12,.1f}")
    if args.json:
        args.json.write_text(json.dumps({"figures": figures, "wrong": wrong, "samples": [*map(asdict, samples)]}))
    if wrong:
        raise SystemExit("\n".join(["FAILED", *wrong]))
    print("Nothing failed, and nothing grew.")


if __name__ == "__main__":
    main()
