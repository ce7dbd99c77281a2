"""The methods that stream: many memories in, knowledge files in and out, live changes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
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
from engram.model.api_key import EVERYONE, Right
from engram.model.transfer import ExportReport, ImportReport
from engram.model.wire import LiveEvent, NewMemory
from engram.ports import Scope, reserved
from engram.recording.draft import rejected
from engram.server.grpc import messages
from engram.server.grpc.convert import written
from engram.server.grpc.interceptor import NO_KEY, Door, Visit, on_behalf, parsed, rendered
from engram.server.grpc.problems import Late
from engram.transfer.untrusted import CHUNK

BATCH = 100
"""Memories that a stream brings are stored so many at a time, if they come fast enough."""
GATHERING = 0.02
FILE = "upload"


@dataclass(frozen=True, slots=True)
class Stream:
    """What a streaming method needs and does; one that answers once gives its answer, others write theirs."""

    right: Right
    carry_out: Callable[[Door, Visit, bytes], Awaitable[bytes | None]]


async def remember_stream(door: Door, visit: Visit, _: bytes) -> None:
    """Store what comes, and give a receipt for each in its order, after its commit."""
    with door.stream():
        call, agent = await door.carry_out(visit, lambda call: (call, call.agent))
        async for drafts in _batches(door, visit):
            while wait := door.pause(call):
                await asyncio.sleep(wait)
            for receipt in await door.aside(partial(_store, door, call, agent, drafts)):
                await visit.context.write(receipt)


def _store(door: Door, call: Call, agent: AgentHandle, drafts: list[bytes]) -> list[bytes]:
    """Store what came, as long as the key is good; the receipts, in order."""
    if not door.keys.live(call.key.id):
        raise Unauthenticated(NO_KEY)
    known = [_draft(data) for data in drafts]
    with on_behalf(call):
        stored = iter(agent.remember([each for each in known if isinstance(each, Draft)]))
    receipts = [each if isinstance(each, Receipt) else next(stored) for each in known]
    return [rendered(receipt, messages.Receipt) for receipt in receipts]


def _draft(data: bytes) -> Draft | Receipt:
    """What is to be remembered, or the receipt of what cannot be."""
    try:
        return draft_of(parsed(messages.NewMemory, data, NewMemory))
    except InvalidInput as error:
        return rejected(error)


async def _batches(door: Door, visit: Visit) -> AsyncIterator[list[bytes]]:
    """What comes, in parts of what is there: nobody waits for others to come. Ends with the stream, or the server."""
    batch: list[bytes] = []
    size = 0
    async for data in _messages(door, visit, lambda: GATHERING if batch else door.limits.seconds):
        if data is not None:
            batch.append(data)
            size += len(data)
        if batch and (data is None or len(batch) >= BATCH or size >= messages.MESSAGE):
            yield [*batch]
            batch.clear()
            size = 0
    if batch:
        yield batch


async def _messages(door: Door, visit: Visit, patience: Callable[[], float]) -> AsyncIterator[bytes | None]:
    """The messages of a stream, and `None` whenever none came for as long as patience lasts.

    Raises `Late` if none has come for as long as a call may take, and `StoreClosed` when the server stops.
    """
    loop = asyncio.get_running_loop()
    stopping = asyncio.ensure_future(door.stopping.wait())
    reading: asyncio.Future[Any] = asyncio.ensure_future(visit.context.read())
    heard = loop.time()
    try:
        while True:
            await asyncio.wait({reading, stopping}, timeout=patience(), return_when=asyncio.FIRST_COMPLETED)
            if reading.done():
                data, heard = reading.result(), loop.time()
                if data is grpc.aio.EOF:
                    return
                reading = asyncio.ensure_future(visit.context.read())
                yield data
            elif stopping.done():
                yield None  # what came is stored, and its receipts are sent
                raise StoreClosed("the server is stopping")
            else:
                yield None
                if loop.time() - heard > door.limits.seconds:
                    raise Late("nothing came for too long")
    finally:
        for waiting in (reading, stopping):
            if not waiting.cancel() and not waiting.cancelled():
                waiting.exception()  # nobody waits for it any more


async def export_knowledge(door: Door, visit: Visit, request: bytes) -> None:
    """Write a knowledge file, and send it."""
    wanted = parsed(messages.ExportQuery, request, ExportQuery)
    with door.stream(), TemporaryDirectory(prefix="engram-") as folder:
        file = Path(folder) / FILE

        def write(call: Call) -> ExportReport:
            report = call.agent.knowledge.export(file, domains=wanted.domains, tags=wanted.tags, form=wanted.form)
            return report.model_copy(update={"file": ""})

        report = await door.carry_out(visit, write, door.limits.long_seconds)
        with await door.aside(lambda: file.open("rb")) as written_file:
            while data := await door.aside(lambda: written_file.read(CHUNK)):
                await visit.context.write(messages.ExportPart(data=data).SerializeToString())
        last = messages.ExportPart(report=written(report, messages.ExportReport))
        await visit.context.write(last.SerializeToString())


async def import_knowledge(door: Door, visit: Visit, _: bytes) -> bytes:
    """Take a knowledge file in: at first all of it comes, and then it is read."""
    with door.stream(), TemporaryDirectory(prefix="engram-") as folder:
        await door.carry_out(visit, lambda call: call.agent_name())  # before anything is kept of what a stranger sends
        came = Path(folder) / FILE
        with await door.aside(lambda: came.open("wb")) as receiving:
            options = await _receive(door, visit, receiving)
        file = came.rename(came.with_suffix(".md")) if options.format == "markdown" else came

        def import_file(call: Call) -> ImportReport:
            knowledge = call.agent.knowledge
            try:
                return knowledge.import_file(file, trusted=door.trusted, **options.model_dump())
            except InvalidInput as error:
                raise InvalidInput(str(error).replace(str(file), "the file").replace(file.name, "the file")) from None

        report = await door.carry_out(visit, import_file, door.limits.long_seconds)
        return rendered(report, messages.ImportReport)


async def _receive(door: Door, visit: Visit, file: IO[bytes]) -> ImportOptions:
    """Write what comes to a file; the options that came before it."""
    options, size = ImportOptions(), 0
    first = True
    async for data in _messages(door, visit, lambda: door.limits.seconds):
        if data is None:
            continue
        try:
            part = messages.ImportPart.FromString(data)
        except DecodeError:
            raise InvalidInput("the message cannot be read; is it of this version of the protocol?") from None
        if part.WhichOneof("part") == "options":
            if not first:
                raise InvalidInput("the options come before the file, and once")
            options = parsed(messages.ImportOptions, part.options.SerializeToString(), ImportOptions)
        first, size = False, size + len(part.data)
        if size > door.limits.upload:
            raise TooMany(f"the file has more than {door.limits.upload:,} bytes; split it")
        await door.aside(lambda data=part.data: file.write(data))  # type: ignore[misc]
    if not size:
        raise InvalidInput("no file came; send its bytes as `data`")
    return options


async def listen(door: Door, visit: Visit, request: bytes) -> None:
    """Tell what happens, until the time is over, the key is no longer good, or the server stops."""
    query = parsed(messages.EventQuery, request, EventQuery)
    with door.stream():
        call = await door.carry_out(visit, lambda call: call)
        named = None if call.named is None else call.agent_name()
        everyone = EVERYONE in call.key.agents

        def scopes() -> list[Scope]:
            names = [named] if named is not None else call.agents() if everyone else call.key.agents
            return [Scope(name) for name in names if not reserved(name)]

        with door.listening(call):
            start = await door.aside(lambda: place(call.brain.store, scopes(), query.after))
            await visit.context.send_initial_metadata(())
            await _tell(door, visit, call, Listener(call.brain.store, start), scopes, query.seconds)


async def _tell(
    door: Door,
    visit: Visit,
    call: Call,
    listener: Listener,
    scopes: Callable[[], list[Scope]],
    seconds: float | None,
) -> None:
    loop = asyncio.get_running_loop()
    began = loop.time()
    while not door.stopping.is_set():
        if not await door.aside(lambda: door.keys.live(call.key.id)):
            return
        news: list[LiveEvent] = await door.aside(lambda: listener.news(scopes()))
        for event in news:
            await visit.context.write(rendered(event, messages.LiveEvent))
        if news:
            continue
        if seconds is not None and loop.time() - began >= seconds:
            return
        with suppress(TimeoutError):
            await asyncio.wait_for(door.stopping.wait(), door.poll_seconds)


STREAMS = {
    "RememberStream": Stream("write", remember_stream),
    "ExportKnowledge": Stream("share", export_knowledge),
    "ImportKnowledge": Stream("write", import_knowledge),
    "Listen": Stream("read", listen),
}
"""By the name of the method."""
