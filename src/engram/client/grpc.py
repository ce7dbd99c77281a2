"""The clients of `engram serve` over gRPC, with and without `await`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterable, AsyncIterator, Callable, Coroutine, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, Literal, TypeVar
from urllib.parse import quote

import engram.server.grpc  # noqa: F401 - names the extra to install, if it is missing

# isort: split
import grpc
import grpc.aio
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass
from pydantic import BaseModel, TypeAdapter, ValidationError

from engram.api.operations import Operation
from engram.api.requests import EventQuery, ExportQuery, ImportOptions
from engram.client.calls import ERRORS, Item, Request, build, draft, export_query
from engram.client.methods import AsyncMethods, Methods, deprecated
from engram.client.sending import Failed, Prepared, Transport, check_key, check_text, new_key
from engram.errors import EngramError, InvalidInput, StoreAway, TooMany, Unsupported
from engram.model import Receipt
from engram.model.transfer import ExportReport, ImportReport
from engram.model.wire import LiveEvent, NewMemories, NewMemory
from engram.server.grpc import convert, messages
from engram.server.grpc.messages import AFTER, CODE, DESCRIPTOR, MESSAGE, PROBLEM, Stub
from engram.system import is_loopback

R = TypeVar("R")
M = TypeVar("M", bound=BaseModel)
CHUNK = 1 << 16
OPTIONS = [("grpc.max_receive_message_length", MESSAGE + 1024), ("grpc.max_send_message_length", MESSAGE)]
FORMER_NAMES = {
    "request": "request_grant",
    "offer": "offer_grant",
    "approve": "approve_grant",
    "deny": "deny_grant",
    "revoke": "revoke_grant",
    "uses": "grant_uses",
    "merge": "merge_knowledge",
    "regroup": "change_group",
    "export": "export_file",
    "take_in": "import_knowledge",
}
"""Former names of methods, by their new ones."""

_BY_STATUS: dict[grpc.StatusCode, type[EngramError]] = {
    grpc.StatusCode.UNAVAILABLE: StoreAway,
    grpc.StatusCode.DEADLINE_EXCEEDED: StoreAway,
    grpc.StatusCode.CANCELLED: StoreAway,
    grpc.StatusCode.RESOURCE_EXHAUSTED: TooMany,
    grpc.StatusCode.UNIMPLEMENTED: Unsupported,
}


def message_of(request: BaseModel, kind: type[Message]) -> Any:
    """Convert a request to a message. Raises `InvalidInput` for text that cannot be sent."""
    try:
        return convert.to_message(request, kind)
    except UnicodeEncodeError as error:
        flaw = f"half of a surrogate pair at position {error.start}"
        raise InvalidInput(f"a text has {flaw}, and cannot be sent; decode it properly first") from None


def value(message: Message, kind: type[M]) -> M:
    """Parse a response. Raises `StoreAway` if it is invalid."""
    try:
        return TypeAdapter(kind).validate_python(convert.from_message(message))
    except (ValidationError, InvalidInput):
        raise StoreAway(
            "the answer is not what this client understands; check that client and server have the same version"
        ) from None


def error_of(error: Any) -> EngramError:
    """Return the error that the server raised, or that of the connection."""
    trailers = _trailers(error)
    status: grpc.StatusCode = error.code()
    if CODE not in trailers:
        kind = _BY_STATUS.get(status, EngramError)
        return kind(f"the server does not answer as it should ({status.name}); is it running, is the address right?")
    found = ERRORS.get(trailers[CODE], EngramError)(error.details())
    try:
        problem = messages.Problem.FromString(trailers.get(PROBLEM, b""))
    except DecodeError:
        return found
    if problem.HasField("receipt"):
        found.receipt = value(problem.receipt, Receipt)  # type: ignore[attr-defined]
    return found


def _trailers(error: Any) -> dict[str, Any]:
    return {name: value for name, value in error.trailing_metadata() or ()}  # noqa: C416 - it may look like a mapping


def _failed(error: Any) -> Failed:
    after, status = _trailers(error).get(AFTER), error.code()
    return Failed(
        error_of(error),
        refused=status is grpc.StatusCode.RESOURCE_EXHAUSTED and after is not None,
        unknown=status is grpc.StatusCode.UNAVAILABLE,
        after=float(after or 0),
    )


def _is_repeatable(operation: Operation) -> bool:
    """Return True for an operation that is safe to repeat: it changes nothing again, or its request has a key."""
    has_key = operation.request is NewMemories or "key" in operation.request.model_fields
    return operation.repeat == "safe" or (operation.repeat == "key" and has_key)


class _Grpc(Transport):
    """The part of both clients that does no I/O."""

    def __init__(
        self,
        way: Any,
        address: str,
        key: str,
        agent: str | None,
        tls: bool | Path,
        plaintext: bool,
        timeout: float,
        keys: Callable[[], str] | None,
    ) -> None:
        own = [] if agent is None else [("engram-agent", quote(check_text(agent, "the agent's name"), safe=""))]
        self._metadata = [("authorization", f"Bearer {check_key(key)}"), *own]
        self._channel = _channel(way, check_text(address, "the address"), tls, plaintext)
        self._stub: Any = Stub(self._channel)
        self._timeout, self._new_key = timeout, keys or new_key

    def _prepare(self, request: Request[R]) -> Prepared[R]:
        operation, message = request.operation, request.message
        if isinstance(message, NewMemories):
            message = message.model_copy(update={"items": tuple(map(self._keyed, message.items))})
        elif operation.repeat == "key" and "key" in operation.request.model_fields:
            message = self._keyed(message)
        kind = GetMessageClass(DESCRIPTOR.methods_by_name[operation.rpc].input_type)
        return Prepared(
            (operation.rpc, message_of(message, kind)),
            _is_repeatable(operation),
            lambda found: request.result(value(found, operation.response)),
            request.failed,
        )

    def _keyed(self, request: M) -> M:
        """Add an idempotency key to a write, and the kind to typed fields."""
        more: dict[str, Any] = {} if getattr(request, "key", None) else {"key": self._new_key()}
        if isinstance(request, NewMemory) and request.content:
            more["content"] = {"kind": request.kind, **request.content}
        return request.model_copy(update=more)

    # Streams --------------------------------------------------------------------------------------------

    def _drafts(self, items: Iterable[Item], fields: Any, wrong: list[InvalidInput]) -> Iterator[Message]:
        """Yield the messages for a stream of memories, up to one that is invalid, whose error is added to `wrong`."""
        for item in items:
            try:
                message = message_of(self._keyed(draft(item, fields)), messages.NewMemory)
            except InvalidInput as error:  # grpcio, which iterates over the stream, would hide the error
                wrong.append(error)
                return
            yield message

    @staticmethod
    def _event_query(after: int | None, seconds: float | None) -> Any:
        return message_of(build(EventQuery, {"after": after, "seconds": seconds}), messages.EventQuery)

    @staticmethod
    def _import_parts(file: bytes | Path, options: ImportOptions) -> Iterator[Any]:
        """Return the messages that import a file. Raises `InvalidInput`, before sending any, if it cannot be read."""
        head = messages.ImportPart(options=message_of(options, messages.ImportOptions))
        return chain([head], (messages.ImportPart(data=data) for data in _chunks(file)))


def _chunks(file: bytes | Path) -> Iterator[bytes]:
    if isinstance(file, bytes):
        return (file[start : start + CHUNK] for start in range(0, len(file), CHUNK))
    try:
        with file.open("rb"):
            return _read(file)
    except OSError as error:
        raise InvalidInput(f"{file} cannot be read: {error.strerror}; give the path of a file that can") from None


def _read(file: Path) -> Iterator[bytes]:
    with file.open("rb") as stream:
        while data := stream.read(CHUNK):
            yield data


class PartialFile:
    """A knowledge file that is being received; it is removed unless it is completed."""

    def __init__(self, to: Path) -> None:
        self._to, self._part = to, to.with_name(f".{to.name}.part")
        self._file = self._part.open("wb")
        self._report: Message | None = None

    def write(self, part: Any) -> None:
        """Write the bytes of a message, or keep its report."""
        self._file.write(part.data)
        self._report = part.report if part.HasField("report") else None

    def finish(self) -> ExportReport:
        """Move the complete file to its target. Raises `StoreAway` if it is not complete."""
        if self._report is None:
            raise StoreAway("the file was cut short; try again")
        self._file.close()
        self._part.replace(self._to)
        return value(self._report, ExportReport).model_copy(update={"file": str(self._to)})

    def close(self) -> None:
        """Close the connections; calling it twice is harmless."""
        """Remove an incomplete file."""
        self._file.close()
        self._part.unlink(missing_ok=True)


def _channel(way: Any, address: str, tls: bool | Path, plaintext: bool) -> Any:
    """Open a channel of `grpc` or `grpc.aio`. Raises `InvalidInput` if the key would be sent unencrypted."""
    if tls:
        root = tls.read_bytes() if isinstance(tls, Path) else None
        return way.secure_channel(address, grpc.ssl_channel_credentials(root), OPTIONS)
    if plaintext or is_loopback(address.rpartition(":")[0]):
        return way.insecure_channel(address, OPTIONS)
    raise InvalidInput("the key would be sent unencrypted; give `tls`, or `plaintext=True` to allow that")


class Client(_Grpc, Methods):
    """An agent's memory on a server: the methods of `AgentHandle`, which raise the same errors."""

    def __init__(
        self,
        address: str,
        key: str,
        agent: str | None = None,
        *,
        tls: bool | Path = False,
        plaintext: bool = False,
        timeout: float = 60.0,
        new_key: Callable[[], str] | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Use the server at `host:port`, over TLS if `tls` is true or names a file with the certificate to trust.

        Without TLS the address must be local, unless `plaintext` allows to send the key unencrypted.
        """
        super().__init__(grpc, address, key, agent, tls, plaintext, timeout, new_key)
        self._sleep = sleep

    def _attempt(self, sent: tuple[str, Message]) -> Any:
        method, message = sent
        try:
            return getattr(self._stub, method)(message, timeout=self._timeout, metadata=self._metadata)
        except grpc.RpcError as error:
            return _failed(error)

    def _stream(self, method: str, sent: Any) -> Iterator[Any]:
        try:
            yield from getattr(self._stub, method)(sent, metadata=self._metadata)
        except grpc.RpcError as error:
            raise error_of(error) from None

    def remember_stream(self, texts: Iterable[Item], **fields: Any) -> Iterator[Receipt]:
        """Store many memories; yield a receipt for each, in order, after its commit.

        The stream ends at an invalid one: those before it are stored, and then `InvalidInput` is raised.
        """
        wrong: list[InvalidInput] = []
        for receipt in self._stream("RememberStream", self._drafts(texts, fields, wrong)):
            yield value(receipt, Receipt)
        if wrong:
            raise wrong[0]

    def _export(self, query: ExportQuery) -> bytes:
        return _joined([*self._stream("ExportKnowledge", message_of(query, messages.ExportQuery))])

    def export_file(
        self,
        to: Path,
        *,
        domains: str | Iterable[str] = (),
        tags: str | Iterable[str] = (),
        form: Literal["json", "jsonl"] = "json",
    ) -> ExportReport:
        """Export the agent's knowledge to a local file; an incomplete file is removed."""
        query, file = message_of(export_query(domains, tags, form), messages.ExportQuery), PartialFile(to)
        try:
            for part in self._stream("ExportKnowledge", query):
                file.write(part)
            return file.finish()
        finally:
            file.close()

    def _import(self, file: bytes | Path, options: ImportOptions) -> ImportReport:
        parts = self._import_parts(file, options)
        try:
            return value(self._stub.ImportKnowledge(parts, metadata=self._metadata), ImportReport)
        except grpc.RpcError as error:
            raise error_of(error) from None

    def events(self, after: int | None = None, *, seconds: float | None = None) -> Iterator[LiveEvent]:
        """Yield events as they happen, after a given one or from now on, until the server ends the stream."""
        for event in self._stream("Listen", self._event_query(after, seconds)):
            yield value(event, LiveEvent)

    def close(self) -> None:
        """Close the connections; calling it twice is harmless."""
        self._channel.close()


class AsyncClient(_Grpc, AsyncMethods):
    """`Client` with `await`; it is bound to the event loop in which it is first used."""

    def __init__(
        self,
        address: str,
        key: str,
        agent: str | None = None,
        *,
        tls: bool | Path = False,
        plaintext: bool = False,
        timeout: float = 60.0,
        new_key: Callable[[], str] | None = None,
        sleep: Callable[[float], Coroutine[Any, Any, None]] = asyncio.sleep,
    ) -> None:
        """Take the same arguments as `Client`."""
        super().__init__(grpc.aio, address, key, agent, tls, plaintext, timeout, new_key)
        self._sleep = sleep

    async def _attempt(self, sent: tuple[str, Message]) -> Any:
        method, message = sent
        try:
            return await getattr(self._stub, method)(message, timeout=self._timeout, metadata=self._metadata)
        except grpc.RpcError as error:
            return _failed(error)

    async def _stream(self, method: str, sent: Any) -> AsyncIterator[Any]:
        try:
            async for message in getattr(self._stub, method)(sent, metadata=self._metadata):
                yield message
        except grpc.RpcError as error:
            raise error_of(error) from None

    async def remember_stream(
        self, texts: Iterable[Item] | AsyncIterable[Item], **fields: Any
    ) -> AsyncIterator[Receipt]:
        """Store many memories; yield a receipt for each, in order, after its commit.

        The stream ends at an invalid one: those before it are stored, and then `InvalidInput` is raised.
        """
        wrong: list[InvalidInput] = []

        async def drafts() -> AsyncIterator[Any]:
            async for item in _each(texts):
                for message in self._drafts([item], fields, wrong):
                    yield message
                if wrong:
                    return

        async for receipt in self._stream("RememberStream", drafts()):
            yield value(receipt, Receipt)
        if wrong:
            raise wrong[0]

    async def _export(self, query: ExportQuery) -> bytes:
        sent = message_of(query, messages.ExportQuery)
        return _joined([part async for part in self._stream("ExportKnowledge", sent)])

    async def export_file(
        self,
        to: Path,
        *,
        domains: str | Iterable[str] = (),
        tags: str | Iterable[str] = (),
        form: Literal["json", "jsonl"] = "json",
    ) -> ExportReport:
        """Export the agent's knowledge to a local file; an incomplete file is removed."""
        query = message_of(export_query(domains, tags, form), messages.ExportQuery)
        file = await asyncio.to_thread(PartialFile, to)
        try:
            async for part in self._stream("ExportKnowledge", query):
                await asyncio.to_thread(file.write, part)
            return await asyncio.to_thread(file.finish)
        finally:
            await asyncio.to_thread(file.close)

    async def _import(self, file: bytes | Path, options: ImportOptions) -> ImportReport:
        waiting = self._import_parts(file, options)

        async def parts() -> AsyncIterator[Any]:
            while (part := await asyncio.to_thread(next, waiting, None)) is not None:
                yield part

        try:
            return value(await self._stub.ImportKnowledge(parts(), metadata=self._metadata), ImportReport)
        except grpc.RpcError as error:
            raise error_of(error) from None

    async def events(self, after: int | None = None, *, seconds: float | None = None) -> AsyncIterator[LiveEvent]:
        """Yield events as they happen, after a given one or from now on, until the server ends the stream."""
        async for event in self._stream("Listen", self._event_query(after, seconds)):
            yield value(event, LiveEvent)

    async def close(self) -> None:
        """Close the connections; calling it twice is harmless."""
        await self._channel.close()


def _joined(parts: list[Any]) -> bytes:
    """Join the parts of a knowledge file. Raises `StoreAway` if its report is missing."""
    if not parts or not parts[-1].HasField("report"):
        raise StoreAway("the file was cut short; try again")
    return b"".join(part.data for part in parts)


async def _each(items: Iterable[Item] | AsyncIterable[Item]) -> AsyncIterator[Item]:
    if isinstance(items, AsyncIterable):
        async for item in items:
            yield item
    else:
        for item in items:
            yield item


for _old, _new in FORMER_NAMES.items():
    setattr(Client, _old, deprecated(_old, _new))
    setattr(AsyncClient, _old, deprecated(_old, _new))
