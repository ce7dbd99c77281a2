"""Start and stop the REST server; acknowledged writes are never lost."""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import FrameType

import uvicorn
from starlette.types import ASGIApp

from engram.api.limits import Limits
from engram.engine import Engram
from engram.errors import ConfigError
from engram.model.api_key import EVERYONE
from engram.server import dashboard, malloc
from engram.server.binding import Place
from engram.server.metrics import Metrics
from engram.server.rest.app import create
from engram.server.rest.connections import HEAD, Connection
from engram.server.rest.logs import LogFormat, log_to
from engram.server.rest.middleware import ANYWHERE, Address
from engram.system import LOOPBACK, is_loopback
from engram.transfer.signing import PublicKey

PORT = 8750
GRACE = 30
_UNNAMED = {"0.0.0.0", "::", ""}  # noqa: S104 - to recognise them


@dataclass(frozen=True, slots=True)
class Binding(Place):
    """The address to listen on, its public host names, and the web origins that may call it."""

    port: int = PORT
    hosts: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()

    def address(self) -> Address:
        """Return the allowed hosts and origins. Raises `ConfigError` for an unsafe address or a missing host name."""
        self.refuse_unsafe()
        for origin in self.origins:
            if ANYWHERE in origin or not origin.startswith(("http://", "https://")):
                raise ConfigError("an origin is such as https://tools.example; all of them cannot be allowed")
        if is_loopback(self.host):
            return Address((*LOOPBACK, self.host, *self.hosts), self.origins)
        if self.host in _UNNAMED and not self.hosts:
            raise ConfigError(
                f"{self.host or 'this'} is no name; say with --allowed-host what callers call this server"
            )
        return Address(tuple(self.hosts) if self.host in _UNNAMED else (self.host, *self.hosts), self.origins)


def serve(
    brain: Engram,
    binding: Binding,
    limits: Limits,
    say: Callable[[str], None],
    *,
    log_format: LogFormat = "text",
    metrics: Metrics | None = None,
    trusted: Mapping[str, PublicKey] | None = None,
    link: bool = False,
) -> None:
    """Serve until a signal, then finish running requests; all acknowledged writes are in the database.

    A link that signs in to the dashboard is printed together with the first key, or if `link` is true.
    """
    served = create(brain, address=binding.address(), limits=limits, metrics=metrics, trusted=trusted)
    listener = listen(binding)
    invites = (tell_first_key(brain, say) and is_loopback(binding.host)) or link
    log_to(sys.stderr.write, brain.sources, log_format)
    with listener, malloc.kept_small():
        here = where(binding, listener)

        def ready() -> None:
            say(f"Engram serves on {here}")
            if invites:
                say(f"Dashboard: {here}/?token={dashboard.invitation(served.api)} (once, within 30 minutes)")

        # The event streams end first, since stopping waits for all responses.
        Announced(settings(served.asgi, binding), ready, served.stopping.set).run([listener])


def settings(app: ASGIApp, binding: Binding) -> uvicorn.Config:
    """Return the settings of uvicorn: with limits for unauthenticated connections, and without web sockets."""
    return uvicorn.Config(
        app,
        http=Connection,
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        lifespan="on",
        timeout_keep_alive=15,
        timeout_graceful_shutdown=GRACE,
        limit_concurrency=1000,
        h11_max_incomplete_event_size=HEAD,
        ssl_certfile=binding.certfile,
        ssl_keyfile=binding.keyfile,
    )


def where(binding: Binding, listener: socket.socket) -> str:
    """Return the URL of the server."""
    host, port = listener.getsockname()[:2]
    scheme = "http" if binding.certfile is None else "https"
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"


def tell_first_key(brain: Engram, say: Callable[[str], None]) -> bool:
    """Create a key with all rights and print it, if there is none yet; return True if it was printed."""
    if (token := first_key(brain)) is None:
        return False
    say(f"There is no key yet, so here is one that may do everything; it is not shown again:\n{token}")
    return True


def first_key(brain: Engram) -> str | None:
    """Create a key with all rights, if there is none yet."""
    keys = brain.keys
    if keys.every():
        return None
    return keys.create("made when the server first ran", agents=EVERYONE, rights=["admin"])[1]


class Announced(uvicorn.Server):
    """A uvicorn server that calls functions when it listens and when it begins to stop."""

    def __init__(
        self, config: uvicorn.Config, ready: Callable[[], None], stopping: Callable[[], None] = lambda: None
    ) -> None:
        super().__init__(config)
        self._ready = ready
        self._stopping = stopping

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen, and call `ready`."""
        await super().startup(sockets)
        if self.started:
            self._ready()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop accepting requests; the second signal does not wait for running ones."""
        self.force_exit = self.should_exit
        self.should_exit = True
        self._stopping()


def listen(binding: Binding) -> socket.socket:
    """Open a socket at the address. Raises `ConfigError`."""
    family = socket.AF_INET6 if ":" in binding.host else socket.AF_INET
    listener = socket.socket(family)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((binding.host.strip("[]"), binding.port))
    except OSError as error:
        listener.close()
        where = f"{binding.host}:{binding.port}"
        raise ConfigError(f"{where} cannot be listened on: {error.strerror or error}; choose another one") from error
    return listener
