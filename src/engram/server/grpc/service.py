"""The gRPC service: a handler for every method of the protocol."""

from __future__ import annotations

from typing import Any

import grpc
from google.protobuf.message_factory import GetMessageClass

from engram.api.call import Call
from engram.api.operations import OPERATIONS, Operation
from engram.server.grpc.interceptor import Interceptor, parse, render
from engram.server.grpc.messages import DESCRIPTOR, NAME
from engram.server.grpc.schema import STREAMING
from engram.server.grpc.streams import HANDLERS


def handlers(interceptor: Interceptor) -> Any:
    """Make the handlers of a server. They take bytes, so that invalid messages get a status, too."""
    unary = {each.rpc: _unary(interceptor, each) for each in OPERATIONS.values()}
    streaming = {name: _streaming(interceptor, name) for name in STREAMING}
    return grpc.method_handlers_generic_handler(NAME, unary | streaming)


def _unary(interceptor: Interceptor, operation: Operation) -> Any:
    method = DESCRIPTOR.methods_by_name[operation.rpc]
    request_class, response_class = GetMessageClass(method.input_type), GetMessageClass(method.output_type)
    seconds = interceptor.limits.long_seconds if operation.long else interceptor.limits.seconds

    async def handle(request: bytes, context: Any) -> bytes:
        def work(call: Call) -> bytes:
            return render(operation.run(call, parse(request_class, request, operation.request)), response_class)

        incoming = interceptor.receive(operation.rpc, operation.right, context)
        return await interceptor.respond(incoming, interceptor.run(incoming, work, seconds))

    return grpc.unary_unary_rpc_method_handler(handle)


def _streaming(interceptor: Interceptor, name: str) -> Any:
    method, work = STREAMING[name], HANDLERS[name]

    async def handle(request: Any, context: Any) -> bytes | None:
        incoming = interceptor.receive(name, method.right, context)
        return await interceptor.respond(incoming, work(interceptor, incoming, b"" if method.client else request))

    if method.client and method.server:
        return grpc.stream_stream_rpc_method_handler(handle)
    return (grpc.stream_unary_rpc_method_handler if method.client else grpc.unary_stream_rpc_method_handler)(handle)
