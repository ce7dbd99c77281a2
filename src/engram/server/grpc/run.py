"""Runs the server: binds where it is safe to, and stops without losing what it has acknowledged."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from engram.api.limits import Limits
from engram.engine import Engram
from engram.errors import ConfigError
from engram.server.binding import Place
from engram.server.grpc.interceptor import Door, Observe
from engram.server.grpc.messages import MESSAGE, NAME
from engram.server.grpc.service import handlers
from engram.transfer.signing import PublicKey

T = TypeVar("T")
PORT = 8751
GRACE = 30.0
OPTIONS: tuple[tuple[str, int], ...] = (
    ("grpc.max_receive_message_length", MESSAGE),
    ("grpc.max_send_message_length", MESSAGE + 1024),
    ("grpc.max_concurrent_streams", 128),
    ("grpc.so_reuseport", 0),
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
    ("grpc.http2.max_ping_strikes", 3),
    ("grpc.max_connection_idle_ms", 600_000),
)
"""A caller that is gone is noticed within 40 seconds; one that pings more often than every 10 is sent away."""


@dataclass(frozen=True, slots=True)
class Binding(Place):
    """Where to listen, and how that is made safe."""

    port: int = PORT

    def credentials(self) -> Any:
        """What to speak TLS with, or `None` where it is not needed. Raises `ConfigError` if others could listen."""
        self.refuse_unsafe()
        if self.certfile is not None and self.keyfile is not None:
            try:
                pair = (Path(self.keyfile).read_bytes(), Path(self.certfile).read_bytes())
            except OSError as error:
                raise ConfigError(f"{error.filename} cannot be read: {error.strerror}; name a PEM file") from error
            return grpc.ssl_server_credentials([pair])
        return None

    def at(self, port: int) -> str:
        """The address with a port."""
        host = self.host.strip("[]")
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


@dataclass(slots=True)
class Running:
    """A server that answers calls, beside whatever this process does."""

    address: str
    port: int
    _door: Door
    _server: Any
    _health: Any
    _stopped: bool = False

    def stop(self, grace: float = GRACE) -> None:
        """Take no more calls, wait for those that run, and end streams; again is harmless. Then the memory may close.

        What was acknowledged is in the database.
        """
        if self._stopped:
            return
        self._stopped = True
        _wait(self._leave(grace))
        self._door.close()

    async def _leave(self, grace: float) -> None:
        await self._health.enter_graceful_shutdown()
        self._door.stopping.set()
        await self._server.stop(grace)

    def __enter__(self) -> Running:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def start(
    brain: Engram,
    binding: Binding | None = None,
    limits: Limits | None = None,
    *,
    observe: Observe | None = None,
    poll_seconds: float = 0.5,
    trusted: Mapping[str, PublicKey] | None = None,
) -> Running:
    """Begin to answer calls over an open memory, which whoever opened it closes after `stop`.

    Port 0 is any that is free. `observe` is told of each call how it ended; `trusted` are the
    keys that files with knowledge may be signed with, by name. Raises `ConfigError`.
    """
    where = binding or Binding()
    door = Door(brain, limits or Limits(), observe, poll_seconds, dict(trusted or {}))
    return _wait(_begin(door, where, where.credentials()))


def serve(brain: Engram, binding: Binding, limits: Limits, say: Callable[[str], None]) -> None:
    """Serve until SIGTERM or SIGINT comes; then running calls end, and what was acknowledged is in the database."""
    told = threading.Event()
    before = {sign: signal.signal(sign, lambda *_: told.set()) for sign in (signal.SIGTERM, signal.SIGINT)}
    try:
        with start(brain, binding, limits) as running:
            say(f"Engram serves gRPC on {running.address}")
            while not told.wait(1):  # a signal that another thread received does not wake this one
                pass
    finally:
        for sign, handler in before.items():
            signal.signal(sign, handler)


async def _begin(door: Door, where: Binding, tls: Any) -> Running:
    server = grpc.aio.server(options=OPTIONS)
    server.add_generic_rpc_handlers((handlers(door),))
    known = health.aio.HealthServicer()
    health_pb2_grpc.add_HealthServicer_to_server(known, server)
    reflection.enable_server_reflection((NAME, health.SERVICE_NAME, reflection.SERVICE_NAME), server)
    try:
        address = where.at(where.port)
        port = server.add_insecure_port(address) if tls is None else server.add_secure_port(address, tls)
    except RuntimeError as error:
        raise ConfigError(f"{where.at(where.port)} cannot be listened on; choose another one") from error
    for name in ("", NAME):
        await known.set(name, health_pb2.HealthCheckResponse.SERVING)
    await server.start()
    return Running(where.at(port), port, door, server, known)


@cache
def _loop() -> asyncio.AbstractEventLoop:
    """The loop of all servers of this process, which gRPC wants to be one; its thread ends with the process."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="engram-rpc-loop", daemon=True).start()
    return loop


def _wait(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run_coroutine_threadsafe(work, _loop()).result()
