"""A server in this process, for the tests of doors: a real memory behind the whole application, and no socket."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
from anyio.from_thread import BlockingPortal, start_blocking_portal

import engram
from engram.api.limits import Limits
from engram.server.rest.app import Served, create
from engram.server.rest.middleware import Address
from engram.sharing.api_keys import Keys

URL = "http://127.0.0.1"
FREELY = Limits(rate=0, refusals=0)


class InProcess(httpx.BaseTransport):
    """Hands requests of a synchronous client to an application."""

    def __init__(self, app: Any, portal: BlockingPortal) -> None:
        self._transport = httpx.ASGITransport(app, client=("127.0.0.1", 1))
        self._portal = portal

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        return self._portal.call(self._answered, request)

    async def _answered(self, request: httpx.Request) -> httpx.Response:
        copied = httpx.Request(request.method, request.url, headers=request.headers, content=request.read())
        answer = await self._transport.handle_async_request(copied)
        return httpx.Response(answer.status_code, headers=answer.headers, content=await answer.aread())


@dataclass(frozen=True)
class House:
    """A memory, its keys, and the application in front of it."""

    brain: engram.Engram
    keys: Keys
    served: Served
    portal: BlockingPortal

    def key(self, *agents: str, rights: tuple[str, ...] = ("read", "write"), expires_at: datetime | None = None) -> str:
        return self.keys.create("test", agents=agents, rights=rights, expires_at=expires_at)[1]

    def http(self, token: str | None = None, **headers: str) -> httpx.Client:
        own = {} if token is None else {"Authorization": f"Bearer {token}"}
        return httpx.Client(transport=self.transport, base_url=URL, headers=own | headers)

    @property
    def transport(self) -> InProcess:
        return InProcess(self.served.asgi, self.portal)


@contextmanager
def house(path: Path | str = ":memory:", limits: Limits = FREELY, address: Address | None = None) -> Iterator[House]:
    """An open house, with everything in it closed at the end."""
    with engram.open(path, embedder="hashing", durable=False) as brain, start_blocking_portal() as portal:
        served = create(brain, limits=limits, address=address, poll_seconds=0.02)
        yield House(brain, brain.keys, served, portal)
