"""The service: every method of the .proto file, and what carries it out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import grpc
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message_factory import GetMessageClass

from engram.api.call import Call
from engram.api.operations import OPERATIONS, Operation
from engram.model.api_key import Right
from engram.server.grpc.interceptor import Door, parsed, rendered
from engram.server.grpc.messages import DESCRIPTOR, NAME
from engram.server.grpc.streams import STREAMS, Stream


def methods() -> Iterator[tuple[MethodDescriptor, Operation | Stream]]:
    """Every method, and what carries it out."""
    known: dict[str, Operation | Stream] = {**{each.rpc: each for each in OPERATIONS.values()}, **STREAMS}
    if known.keys() != {method.name for method in DESCRIPTOR.methods}:
        raise RuntimeError(f"these are not methods, or not carried out: {known.keys() ^ DESCRIPTOR.methods_by_name}")
    return ((method, known[method.name]) for method in DESCRIPTOR.methods)


def right_of(method: str) -> Right:
    """The right that a method asks for."""
    return next(how.right for described, how in methods() if described.name == method)


def handlers(door: Door) -> Any:
    """What a server is given to answer calls with; messages come as bytes, so that one that is none gets an answer."""
    found = {
        method.name: _unary(door, method, how) if isinstance(how, Operation) else _streaming(door, method, how)
        for method, how in methods()
    }
    return grpc.method_handlers_generic_handler(NAME, found)


def _unary(door: Door, method: MethodDescriptor, how: Operation) -> Any:
    asked, answered = GetMessageClass(method.input_type), GetMessageClass(method.output_type)

    async def handle(request: bytes, context: Any) -> bytes:
        def work(call: Call) -> bytes:
            return rendered(how.run(call, parsed(asked, request, how.request)), answered)

        visit = door.visit(method.name, how.right, context)
        return await door.safely(visit, door.carry_out(visit, work, door.limits.long_seconds if how.long else None))

    return grpc.unary_unary_rpc_method_handler(handle)


def _streaming(door: Door, method: MethodDescriptor, how: Stream) -> Any:
    async def handle(request: Any, context: Any) -> bytes | None:
        visit = door.visit(method.name, how.right, context)
        own = b"" if method.client_streaming else request
        return await door.safely(visit, how.carry_out(door, visit, own))

    if method.client_streaming and method.server_streaming:
        return grpc.stream_stream_rpc_method_handler(handle)
    return (grpc.stream_unary_rpc_method_handler if method.client_streaming else grpc.unary_stream_rpc_method_handler)(
        handle
    )
