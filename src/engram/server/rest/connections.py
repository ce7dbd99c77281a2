"""Close connections whose request headers are too large or do not arrive in time.

Callers are not authenticated before their headers are complete: without this, anyone who can connect could exhaust the
memory or all connections.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

HEAD = 64 * 1024
"""The most bytes of a request's head: the request line and the headers."""
SECONDS = 10.0
"""The most seconds for a head to arrive, and for the rest of a body after its request was answered."""


class Hurried(asyncio.Protocol):
    """A mixin for a protocol of uvicorn that closes connections without a complete request."""

    cycle: Any
    """The newest request, if there was one, and its response."""
    transport: Any
    _head = 0
    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the timer."""
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Pass data on; stop the timer once a request is complete."""
        super().data_received(data)
        if self._asked():
            self._rest()
            return
        self._head = 0 if self._coming() else self._head + len(data)
        if self._head > HEAD:
            self._hang_up()
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timer."""
        self._rest()
        super().connection_lost(exc)

    def _asked(self) -> bool:
        """Return True while a request is being answered."""
        return self.cycle is not None and not self.cycle.response_complete

    def _coming(self) -> bool:
        """Return True while the rest of a body arrives whose request was already answered."""
        return self.cycle is not None and bool(self.cycle.more_body)

    def _wait(self) -> None:
        if self._late is None:
            self._late = asyncio.get_running_loop().call_later(SECONDS, self._hang_up)

    def _rest(self) -> None:
        self._head = 0
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _hang_up(self) -> None:
        if not self._asked():
            self.transport.close()


_Usual: Any = AutoHTTPProtocol


class Connection(Hurried, _Usual):  # type: ignore[misc]
    """An HTTP connection with these limits."""
