"""Measure the paths of the main calls through the code: calls, functions, files and depth.

    python benchmarks/paths.py [--json FILE] [--against FILE] [--calls NAME]

Each way is walked twice in a small memory of its own, a SQLite file with the hashing embedder and default settings; the
first time is not counted, so that what is imported or made at first use is left out. Only functions of the package
itself count, not what is generated in it (`*_pb2`), nor what a library calls in itself:

calls      how often a function was entered, in all threads; a generator or a coroutine once, however often it goes on
functions  how many different ones these were
files      in how many files they stand
depth      the most of them that were under way inside each other in one thread; what is in between does not count

A comprehension or a generator expression is no function of its own, neither as a call nor as a step of the depth; what
it calls is called by the function around it. Each request and each tool call is a whole one, handled in this process by
the application or the server as it would be in one of its own, without a socket. Time and chance are the same in every
run, and so are the figures.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import count
from pathlib import Path
from random import Random
from types import CodeType, FrameType
from typing import Any
from unittest.mock import patch

import engram

PACKAGE = Path(engram.__file__).parent
NO_FUNCTIONS = frozenset({"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>", "<module>"})
FIGURES = ("calls", "functions", "files", "depth")
START = 1_800_000_000_000_000_000
"""The time at which a measurement begins, in nanoseconds; the clock advances by a millisecond at each reading."""
AGENT = "alice"
CONTEXT = "the nightly build fails on a flaky test"
ACTION = "run the test again"
QUERIES = ("when does the build start?", "which database does staging run?")
FACTS = ("Staging runs PostgreSQL 15", "The nightly build starts at two", "Deploys go out on Tuesdays")

Step = tuple[str, str, int]
"""A function: its file, its name, and the line where it begins."""
Counting = Callable[[], AbstractContextManager[None]]
Way = Callable[[engram.Engram, Counting], None]


class Tracer:
    """Notes every call in the package while it is told to, in all threads that were started after it."""

    def __init__(self) -> None:
        self.seen: list[tuple[Step, ...]] = []
        """For each call, in their order: the functions that were under way, outermost first."""
        self._under_way: dict[int, FrameType] | None = None
        self._steps: dict[CodeType, Step | None] = {}
        threading.setprofile(self._noted)

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Record the calls made inside the block."""
        self._under_way = {}  # frames that can go on later are kept, so that no other one gets their id
        sys.setprofile(self._noted)
        try:
            yield
        finally:
            sys.setprofile(None)
            self._under_way = None

    def _noted(self, frame: FrameType, event: str, _: Any) -> None:
        known = self._under_way
        if known is None or event != "call" or self._step(frame.f_code) is None or id(frame) in known:
            return
        if frame.f_code.co_flags & 0x2A0:  # CO_GENERATOR, CO_COROUTINE, CO_ASYNC_GENERATOR
            known[id(frame)] = frame
        stack = list[Step]()
        at: FrameType | None = frame
        while at is not None:
            if step := self._step(at.f_code):
                stack.append(step)
            at = at.f_back
        self.seen.append(tuple(reversed(stack)))

    def _step(self, code: CodeType) -> Step | None:
        """The function that this is the code of, if it counts."""
        if code not in self._steps:
            file = Path(code.co_filename)
            own = file.is_relative_to(PACKAGE) and code.co_name not in NO_FUNCTIONS and "_pb2" not in file.name
            name = file.relative_to(PACKAGE).as_posix() if own else ""
            self._steps[code] = (name, code.co_qualname, code.co_firstlineno) if own else None
        return self._steps[code]


# Ways --------------------------------------------------------------------------------------------------


def twice(call: Callable[[engram.AgentHandle, int], object]) -> Way:
    """A way that makes a call of the agent, and then a counted one; the number tells them apart."""

    def way(brain: engram.Engram, counting: Counting) -> None:
        alice = brain.agent(AGENT)
        call(alice, 0)
        with counting():
            call(alice, 1)

    return way


def decide(alice: engram.AgentHandle) -> object:
    return alice.record_decision(context=CONTEXT, action=ACTION, outcome="success")


def ask(alice: engram.AgentHandle) -> str:
    return str(alice.suggest(CONTEXT).id)


def outcome(brain: engram.Engram, counting: Counting) -> None:
    ids = [ask(brain.agent(AGENT)) for _ in range(2)]
    twice(lambda alice, number: alice.outcome(ids[number], "success"))(brain, counting)


def rest(brain: engram.Engram, counting: Counting) -> None:
    import httpx

    from engram.server.rest.app import create

    token = brain.keys.create("paths", agents=[AGENT])[1]
    transport = httpx.ASGITransport(create(brain).asgi, client=("127.0.0.1", 1))
    headers = {"Authorization": f"Bearer {token}"}

    async def post() -> None:
        body = {"context": CONTEXT, "action": ACTION, "outcome": "success"}
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", headers=headers) as client:
            (await client.post("/v1/decisions", json=body)).raise_for_status()
            with patch.dict(sys.modules, {"sniffio": None}), counting():  # which the client would look for, each time
                answer = await client.post("/v1/decisions", json=body)
            answer.raise_for_status()

    asyncio.run(post())


def mcp(brain: engram.Engram, counting: Counting) -> None:
    from mcp import Client

    from engram.server.mcp.server import create, of_agent

    async def call() -> None:
        told = {"context": CONTEXT, "action": ACTION, "outcome": "success"}
        async with Client(create(of_agent(brain, AGENT))) as client:
            await client.call_tool("memory_record_decision", told)
            with counting():
                answer = await client.call_tool("memory_record_decision", told)
            assert not answer.is_error, answer.content

    asyncio.run(call())


WAYS: dict[str, tuple[str, Way]] = {
    "remember": (
        "remember",
        twice(lambda alice, number: alice.remember(f"Service {number} restarts on error {number}")),
    ),
    "recall": ("recall", twice(lambda alice, number: alice.recall(QUERIES[number]))),
    "record_decision": ("record_decision", twice(lambda alice, _: decide(alice))),
    "suggest": ("suggest", twice(lambda alice, _: ask(alice))),
    "outcome": ("outcome of a suggestion", outcome),
    "loop": (
        "record_decision → suggest → outcome",
        twice(lambda alice, _: (decide(alice), alice.outcome(ask(alice), "success"))),
    ),
    "rest": ("REST POST of a decision", rest),
    "mcp": ("MCP call of memory_record_decision", mcp),
}
"""Name, title and function of each path; REST and MCP are last, since their imports may be traced."""

# Walking -----------------------------------------------------------------------------------------------


def walk(way: Way) -> list[tuple[Step, ...]]:
    """The stacks of all calls on a way, in a memory where some things are known and some decisions were taken."""
    tracer = Tracer()
    with (
        patch("time.time_ns", count(START, 1_000_000).__next__),
        patch("os.urandom", Random(1).randbytes),
        tempfile.TemporaryDirectory() as folder,
        engram.open(Path(folder) / "m.db", embedder="hashing") as brain,
    ):
        alice = brain.agent(AGENT)
        alice.remember(FACTS)
        for action, went in ((ACTION, "success"), (ACTION, "success"), ("delete the test", "failure")):
            alice.record_decision(context=CONTEXT, action=action, outcome=went)
        way(brain, tracer.counting)
    return tracer.seen


def figures(stacks: list[tuple[Step, ...]]) -> dict[str, int]:
    """Compute the figures of a path from its call stacks."""
    steps = {stack[-1] for stack in stacks}
    counts = (len(stacks), len(steps), len({file for file, *_ in steps}), max(map(len, stacks), default=0))
    return dict(zip(FIGURES, counts, strict=True))


def tree(stacks: list[tuple[Step, ...]]) -> Iterator[str]:
    """Each function below the one that called it, in the order of the first calls, and how often it is called."""
    counts = Counter(stacks)
    order = dict[tuple[Step, ...], list[int]]()  # of each stack, when it and those around it came first
    for stack in stacks:
        for end in range(1, len(stack) + 1):
            order.setdefault(stack[:end], [*order.get(stack[: end - 1], []), len(order)])
    for stack in sorted(order, key=order.__getitem__):
        file, name, _ = stack[-1]
        times = f" x {counts[stack]}" if counts[stack] > 1 else ""
        yield f"{'  ' * (len(stack) - 1)}{name}  [{file}]{times}"


def main() -> None:
    """Parse, walk, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--against", type=Path, help="print the figures of this file beside those of now")
    parser.add_argument("--calls", choices=WAYS, metavar="NAME", help=f"print the calls of one way: {', '.join(WAYS)}")
    arguments = parser.parse_args()
    if arguments.calls:
        print("\n".join(tree(walk(WAYS[arguments.calls][1]))))
        return
    before = json.loads(arguments.against.read_text(encoding="utf-8")) if arguments.against else None
    now = {name: figures(walk(way)) for name, (_, way) in WAYS.items()}
    print(f"{'':36}" + "".join(f"{figure:>{11 if before is None else 23}}" for figure in FIGURES))
    for name, (what, _) in WAYS.items():
        cells = [f"{new:11,}" if before is None else beside(before[name][each], new) for each, new in now[name].items()]
        print(f"{what:36}" + "".join(cells))
    if arguments.json:
        arguments.json.write_text(json.dumps(now, indent=1) + "\n", encoding="utf-8")


def beside(old: int, new: int) -> str:
    """A figure before and now, and the ratio of the two."""
    return f"{old:9,} {new:6,} {new / old:6.2f}"


if __name__ == "__main__":
    main()
