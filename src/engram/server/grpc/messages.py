"""The messages of the protocol, by name, and its service: `messages.NewMemory(text="…")`."""

from __future__ import annotations

import json
from typing import Any

from google.protobuf import descriptor_pool
from google.protobuf.descriptor import Descriptor, ServiceDescriptor
from google.protobuf.message_factory import GetMessageClass

from engram.server.grpc.schema import NUMBERS, PACKAGE, SERVICE, Schema

MESSAGE = 4 * 1024 * 1024
"""The most bytes of a message, in either direction."""
CODE, PROBLEM, REQUEST, AFTER = "engram-code", "engram-problem-bin", "x-request-id", "retry-after"
"""The names of the trailing metadata of a call."""

_pool = descriptor_pool.Default()


def _load() -> ServiceDescriptor:
    """Add the files of the protocol to the pool that reflection reads."""
    schema = Schema(json.loads(NUMBERS.read_bytes()))
    if schema.added:
        raise RuntimeError(f"the protocol has no numbers for {', '.join(schema.added)}; run `make proto`")
    for file in schema.files:
        _pool.AddSerializedFile(file.SerializeToString())
    return _pool.FindServiceByName(f"{PACKAGE}.{SERVICE}")


DESCRIPTOR = _load()
NAME: str = DESCRIPTOR.full_name


def __getattr__(name: str) -> Any:
    """Return the class of a message."""
    try:
        described: Descriptor = _pool.FindMessageTypeByName(f"{PACKAGE}.{name}")
    except KeyError:
        raise AttributeError(f"the protocol has no message {name}") from None
    kind = globals()[name] = GetMessageClass(described)
    return kind


class Stub:
    """The methods of the service, for a channel of `grpc` or `grpc.aio`."""

    def __init__(self, channel: Any) -> None:
        for method in DESCRIPTOR.methods:
            kind = f"{_stream(method.client_streaming)}_{_stream(method.server_streaming)}"
            call = getattr(channel, kind)(
                f"/{NAME}/{method.name}",
                request_serializer=GetMessageClass(method.input_type).SerializeToString,
                response_deserializer=GetMessageClass(method.output_type).FromString,
            )
            setattr(self, method.name, call)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"the service has no method {name}")


def _stream(streaming: bool) -> str:
    return "stream" if streaming else "unary"
