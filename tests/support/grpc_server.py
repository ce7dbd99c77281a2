"""A gRPC server in this process, for the tests of that door: a real memory behind it, on a real port."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import grpc

import engram
from engram.api.limits import Limits
from engram.client.grpc import Client
from engram.clock import Sources
from engram.server.grpc.messages import DESCRIPTOR, Stub
from engram.server.grpc.run import Binding, Running, start
from engram.sharing.api_keys import Keys

FREELY = Limits(rate=0, refusals=0)
METHODS = {method.name: method for method in DESCRIPTOR.methods}


class LongAgo(Sources):
    """The clock of yesterday."""

    def now(self) -> datetime:
        return super().now() - timedelta(days=1)


@dataclass(frozen=True)
class Exchange:
    """A memory, its keys, and the server in front of it."""

    brain: engram.Engram
    keys: Keys
    server: Running
    channel: Any
    counted: list[tuple[str, str, float]] = field(default_factory=list)

    def key(self, *agents: str, rights: tuple[str, ...] = ("read", "write")) -> str:
        return self.keys.create("test", agents=agents, rights=rights)[1]

    def expired(self, *agents: str) -> str:
        past = Keys(self.brain.store, self.brain.redactor, LongAgo())
        return past.create("old", agents=agents, rights=["admin"], expires_at=past._sources.now() + timedelta(hours=1))[
            1
        ]

    @property
    def stub(self) -> Any:
        return Stub(self.channel)

    def client(self, *agents: str, rights: tuple[str, ...] = ("admin",), **options: Any) -> Client:
        return Client(self.server.address, self.key(*agents, rights=rights), **options)

    def call(self, method: str, request: bytes | list[bytes], token: str | None, agent: str | None = None) -> Answer:
        """What a method answers to bytes, whatever these are: its status, what it says, and its messages."""
        described = METHODS[method]
        ways = {
            (False, False): self.channel.unary_unary,
            (False, True): self.channel.unary_stream,
            (True, False): self.channel.stream_unary,
            (True, True): self.channel.stream_stream,
        }
        way = ways[described.client_streaming, described.server_streaming](f"/{DESCRIPTOR.full_name}/{method}")
        several = request if isinstance(request, list) else [request]
        told = [] if token is None else [("authorization", f"Bearer {token}")]
        told += [] if agent is None else [("engram-agent", agent)]
        asked = iter(several) if described.client_streaming else several[0]
        try:
            answer = way(asked, metadata=told, timeout=60)
            messages = [*answer] if described.server_streaming else [answer]
        except grpc.RpcError as error:
            trailers = dict(error.trailing_metadata() or ())
            return Answer(error.code(), error.details(), str(trailers.get("engram-code", "")), [])
        return Answer(grpc.StatusCode.OK, "", "", messages)


@dataclass(frozen=True)
class Answer:
    """How a call ended."""

    status: grpc.StatusCode
    said: str
    code: str
    messages: list[bytes]


@contextmanager
def exchange(
    path: Path | str = ":memory:", limits: Limits = FREELY, binding: Binding | None = None, **options: Any
) -> Iterator[Exchange]:
    """An open exchange, with everything in it closed at the end."""
    counted: list[tuple[str, str, float]] = []
    with engram.open(path, embedder="hashing", durable=False) as brain:
        server = start(
            brain,
            binding or Binding(port=0),
            limits,
            observe=lambda *told: counted.append(told),
            poll_seconds=0.02,
            **options,
        )
        with server, grpc.insecure_channel(server.address) as channel:
            keys = brain.keys
            yield Exchange(brain, keys, server, channel, counted)
