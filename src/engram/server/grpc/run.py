"""Start and stop the gRPC server; acknowledged writes are never lost."""

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
from engram.server.grpc.interceptor import Interceptor, Observe
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
"""A lost connection is noticed within 40 seconds; one that pings more often than every 10 seconds is closed."""


@dataclass(frozen=True, slots=True)
class Binding(Place):
    """The address to listen on, and its certificate."""

    port: int = PORT

    def credentials(self) -> Any:
        """Return the TLS credentials, or `None` for a loopback address. Raises `ConfigError` for an unsafe address."""
        self.refuse_unsafe()
        if self.certfile is not None and self.keyfile is not None:
            try:
                pair = (Path(self.keyfile).read_bytes(), Path(self.certfile).read_bytes())
            except OSError as error:
                raise ConfigError(f"{error.filename} cannot be read: {error.strerror}; name a PEM file") from error
            return grpc.ssl_server_credentials([pair])
        return None

    def at(self, port: int) -> str:
        """Return the address with a port."""
        host = self.host.strip("[]")
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


@dataclass(slots=True)
class Running:
    """A server that runs in a thread of this process."""

    address: str
    port: int
    _interceptor: Interceptor
    _server: Any
    _health: Any
    _stopped: bool = False

    def stop(self, grace: float = GRACE) -> None:
        """Accept no more calls, wait for running ones, and end streams; calling it twice is harmless.

        The memory may be closed afterwards.
        """
        if self._stopped:
            return
        self._stopped = True
        _wait(self._leave(grace))
        self._interceptor.close()

    async def _leave(self, grace: float) -> None:
        await self._health.enter_graceful_shutdown()
        self._interceptor.stopping.set()
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
    """Start a server for an open memory; close the memory only after `stop`.

    Port 0 selects a free one. `observe` receives method, status and seconds of each call; `trusted` are the public
    keys that imported files may be signed with, by name. Raises `ConfigError`.
    """
    where = binding or Binding()
    interceptor = Interceptor(brain, limits or Limits(), observe, poll_seconds, dict(trusted or {}))
    return _wait(_begin(interceptor, where, where.credentials()))


def serve(brain: Engram, binding: Binding, limits: Limits, say: Callable[[str], None]) -> None:
    """Serve until SIGTERM or SIGINT, then finish the running calls."""
    stop = threading.Event()
    before = {sign: signal.signal(sign, lambda *_: stop.set()) for sign in (signal.SIGTERM, signal.SIGINT)}
    try:
        with start(brain, binding, limits) as running:
            say(f"Engram serves gRPC on {running.address}")
            while not stop.wait(1):  # polling, since a signal received by another thread does not wake this one
                pass
    finally:
        for sign, handler in before.items():
            signal.signal(sign, handler)


async def _begin(interceptor: Interceptor, where: Binding, tls: Any) -> Running:
    server = grpc.aio.server(options=OPTIONS)
    server.add_generic_rpc_handlers((handlers(interceptor),))
    healthy = health.aio.HealthServicer()
    health_pb2_grpc.add_HealthServicer_to_server(healthy, server)
    reflection.enable_server_reflection((NAME, health.SERVICE_NAME, reflection.SERVICE_NAME), server)
    try:
        address = where.at(where.port)
        port = server.add_insecure_port(address) if tls is None else server.add_secure_port(address, tls)
    except RuntimeError as error:
        raise ConfigError(f"{where.at(where.port)} is not available; choose another address") from error
    for name in ("", NAME):
        await healthy.set(name, health_pb2.HealthCheckResponse.SERVING)
    await server.start()
    return Running(where.at(port), port, interceptor, server, healthy)


@cache
def _loop() -> asyncio.AbstractEventLoop:
    """Return the event loop of all servers in this process, since grpcio supports only one."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="engram-rpc-loop", daemon=True).start()
    return loop


def _wait(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run_coroutine_threadsafe(work, _loop()).result()
