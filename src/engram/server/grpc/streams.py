"""The streaming methods: store many memories, export and import knowledge files, and events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any

import grpc
from google.protobuf.message import DecodeError

from engram.api.call import Call
from engram.api.live import Listener, place
from engram.api.operations import draft_of
from engram.api.requests import EventQuery, ExportQuery, ImportOptions
from engram.engine import AgentHandle
from engram.errors import InvalidInput, StoreClosed, TooMany, Unauthenticated
from engram.model import Draft, Receipt
from engram.model.api_key import EVERYONE
from engram.model.transfer import ExportReport, ImportReport
from engram.model.wire import LiveEvent, NewMemory
from engram.ports import Scope, reserved
from engram.recording.input import rejected
from engram.server.grpc import messages
from engram.server.grpc.convert import to_message
from engram.server.grpc.interceptor import NO_KEY, IncomingCall, Interceptor, acting_for, parse, render
from engram.server.grpc.problems import TimedOut
from engram.transfer.untrusted import CHUNK

BATCH = 100
"""The most memories of a stream in one transaction."""
GATHERING = 0.02
"""Seconds to wait for more memories of a stream before storing those that have arrived."""
FILE = "upload"


async def remember_stream(interceptor: Interceptor, incoming: IncomingCall, _: bytes) -> None:
    """Store the memories of a stream; send a receipt for each, in order, after its commit."""
    with interceptor.count_stream():
        call, agent = await interceptor.run(incoming, lambda call: (call, call.agent))
        async for drafts in _batches(interceptor, incoming):
            while wait := interceptor.wait_time(call):
                await asyncio.sleep(wait)
            for receipt in await interceptor.in_thread(partial(_store, interceptor, call, agent, drafts)):
                await incoming.context.write(receipt)


def _store(interceptor: Interceptor, call: Call, agent: AgentHandle, drafts: list[bytes]) -> list[bytes]:
    """Store drafts if the key is still valid, and return their receipts in order."""
    if not interceptor.keys.live(call.key.id):
        raise Unauthenticated(NO_KEY)
    known = [_draft(data) for data in drafts]
    with acting_for(call):
        stored = iter(agent.remember([each for each in known if isinstance(each, Draft)]))
    receipts = [each if isinstance(each, Receipt) else next(stored) for each in known]
    return [render(receipt, messages.Receipt) for receipt in receipts]


def _draft(data: bytes) -> Draft | Receipt:
    """Parse a draft; an invalid one becomes a receipt with the reason."""
    try:
        return draft_of(parse(messages.NewMemory, data, NewMemory))
    except InvalidInput as error:
        return rejected(error)


async def _batches(interceptor: Interceptor, incoming: IncomingCall) -> AsyncIterator[list[bytes]]:
    """Group the messages of a stream as they arrive, without waiting for full batches."""
    batch: list[bytes] = []
    size = 0
    async for data in _messages(interceptor, incoming, lambda: GATHERING if batch else interceptor.limits.seconds):
        if data is not None:
            batch.append(data)
            size += len(data)
        if batch and (data is None or len(batch) >= BATCH or size >= messages.MESSAGE):
            yield [*batch]
            batch.clear()
            size = 0
    if batch:
        yield batch


async def _messages(
    interceptor: Interceptor, incoming: IncomingCall, patience: Callable[[], float]
) -> AsyncIterator[bytes | None]:
    """Yield the messages of a stream, and `None` whenever none came for `patience()` seconds.

    Raises `TimedOut` if none came for as long as a call may take, and `StoreClosed` when the server stops.
    """
    loop = asyncio.get_running_loop()
    stopping = asyncio.ensure_future(interceptor.stopping.wait())
    reading: asyncio.Future[Any] = asyncio.ensure_future(incoming.context.read())
    heard = loop.time()
    try:
        while True:
            await asyncio.wait({reading, stopping}, timeout=patience(), return_when=asyncio.FIRST_COMPLETED)
            if reading.done():
                data, heard = reading.result(), loop.time()
                if data is grpc.aio.EOF:
                    return
                reading = asyncio.ensure_future(incoming.context.read())
                yield data
            elif stopping.done():
                yield None  # store the messages so far and send their receipts first
                raise StoreClosed("the server is stopping")
            else:
                yield None
                if loop.time() - heard > interceptor.limits.seconds:
                    raise TimedOut("no message arrived in time")
    finally:
        for waiting in (reading, stopping):
            if not waiting.cancel() and not waiting.cancelled():
                waiting.exception()  # retrieve the exception


async def export_knowledge(interceptor: Interceptor, incoming: IncomingCall, request: bytes) -> None:
    """Write a knowledge file and send it, then its report."""
    wanted = parse(messages.ExportQuery, request, ExportQuery)
    with interceptor.count_stream(), TemporaryDirectory(prefix="engram-") as folder:
        file = Path(folder) / FILE

        def write(call: Call) -> ExportReport:
            report = call.agent.knowledge.export(file, domains=wanted.domains, tags=wanted.tags, form=wanted.form)
            return report.model_copy(update={"file": ""})

        report = await interceptor.run(incoming, write, interceptor.limits.long_seconds)
        with await interceptor.in_thread(lambda: file.open("rb")) as written_file:
            while data := await interceptor.in_thread(lambda: written_file.read(CHUNK)):
                await incoming.context.write(messages.ExportPart(data=data).SerializeToString())
        last = messages.ExportPart(report=to_message(report, messages.ExportReport))
        await incoming.context.write(last.SerializeToString())


async def import_knowledge(interceptor: Interceptor, incoming: IncomingCall, _: bytes) -> bytes:
    """Receive a whole knowledge file, then import it."""
    with interceptor.count_stream(), TemporaryDirectory(prefix="engram-") as folder:
        await interceptor.run(incoming, lambda call: call.agent_name())  # authenticate before writing anything
        came = Path(folder) / FILE
        with await interceptor.in_thread(lambda: came.open("wb")) as receiving:
            options = await _receive(interceptor, incoming, receiving)
        file = came.rename(came.with_suffix(".md")) if options.format == "markdown" else came

        def import_file(call: Call) -> ImportReport:
            knowledge = call.agent.knowledge
            try:
                return knowledge.import_file(file, trusted=interceptor.trusted, **options.model_dump())
            except InvalidInput as error:
                raise InvalidInput(str(error).replace(str(file), "the file").replace(file.name, "the file")) from None

        report = await interceptor.run(incoming, import_file, interceptor.limits.long_seconds)
        return render(report, messages.ImportReport)


async def _receive(interceptor: Interceptor, incoming: IncomingCall, file: IO[bytes]) -> ImportOptions:
    """Write the parts of a stream to a file, and return the options that came before them."""
    options, size = ImportOptions(), 0
    first = True
    async for data in _messages(interceptor, incoming, lambda: interceptor.limits.seconds):
        if data is None:
            continue
        try:
            part = messages.ImportPart.FromString(data)
        except DecodeError:
            raise InvalidInput("the message cannot be read; check that it has this version of the protocol") from None
        if part.WhichOneof("part") == "options":
            if not first:
                raise InvalidInput("the options come before the file, and once")
            options = parse(messages.ImportOptions, part.options.SerializeToString(), ImportOptions)
        first, size = False, size + len(part.data)
        if size > interceptor.limits.upload:
            raise TooMany(f"the file has more than {interceptor.limits.upload:,} bytes; split it")
        await interceptor.in_thread(lambda data=part.data: file.write(data))  # type: ignore[misc]
    if not size:
        raise InvalidInput("the stream has no file; send its bytes as `data`")
    return options


async def listen(interceptor: Interceptor, incoming: IncomingCall, request: bytes) -> None:
    """Send events until the time is over, the key is no longer valid, or the server stops."""
    query = parse(messages.EventQuery, request, EventQuery)
    with interceptor.count_stream():
        call = await interceptor.run(incoming, lambda call: call)
        named = None if call.named is None else call.agent_name()
        everyone = EVERYONE in call.key.agents

        def scopes() -> list[Scope]:
            names = [named] if named is not None else call.agents() if everyone else call.key.agents
            return [Scope(name) for name in names if not reserved(name)]

        with interceptor.count_listener(call):
            start = await interceptor.in_thread(lambda: place(call.brain.store, scopes(), query.after))
            await incoming.context.send_initial_metadata(())
            await _send_events(interceptor, incoming, call, Listener(call.brain.store, start), scopes, query.seconds)


async def _send_events(
    interceptor: Interceptor,
    incoming: IncomingCall,
    call: Call,
    listener: Listener,
    scopes: Callable[[], list[Scope]],
    seconds: float | None,
) -> None:
    loop = asyncio.get_running_loop()
    began = loop.time()
    while not interceptor.stopping.is_set():
        if not await interceptor.in_thread(lambda: interceptor.keys.live(call.key.id)):
            return
        news: list[LiveEvent] = await interceptor.in_thread(lambda: listener.news(scopes()))
        for event in news:
            await incoming.context.write(render(event, messages.LiveEvent))
        if news:
            continue
        if seconds is not None and loop.time() - began >= seconds:
            return
        with suppress(TimeoutError):
            await asyncio.wait_for(interceptor.stopping.wait(), interceptor.poll_seconds)


HANDLERS: Mapping[str, Callable[[Interceptor, IncomingCall, bytes], Awaitable[bytes | None]]] = {
    "RememberStream": remember_stream,
    "ExportKnowledge": export_knowledge,
    "ImportKnowledge": import_knowledge,
    "Listen": listen,
}
"""The handlers by method; those with one response return it, the others write theirs."""
