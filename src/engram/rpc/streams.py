"""The methods that stream: many memories in, knowledge files in and out, live changes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any

import grpc
from google.protobuf.message import DecodeError

from engram.access import RESERVED
from engram.errors import EngramError, InvalidInput, StoreClosed, TooMany
from engram.knowledge.untrusted import CHUNK, LIMITS
from engram.memory.drafting import rejected
from engram.model import Receipt
from engram.model.access import EVERYONE, Right
from engram.model.transfer import ExportReport, ImportReport
from engram.model.wire import LiveEvent, NewMemory
from engram.ports import Scope
from engram.rpc.convert import written
from engram.rpc.door import Door, Visit, on_behalf, parsed, rendered
from engram.rpc.operations import Call, draft_of
from engram.rpc.problems import Late
from engram.rpc.requests import EventQuery, ExportQuery, ImportOptions
from engram.rpc.v1 import model_pb2, service_pb2
from engram.server.live import Listener, newest
from engram.transfer import Knowledge

BATCH = 100
"""Memories that a stream brings are stored so many at a time, if they come fast enough."""
GATHERING = 0.02
LONG = 600.0
"""Seconds that taking in or writing a knowledge file may take."""
FILE = "knowledge"

Streamed = Callable[[Door, Visit], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Stream:
    """What a streaming method needs and does."""

    right: Right
    carry_out: Streamed


async def remember_stream(door: Door, visit: Visit) -> None:
    """Store what comes, and give a receipt for each in its order, after its commit."""
    with door.stream():
        call = await door.carry_out(visit, lambda call: call)
        agent = await door.aside(lambda: call.agent)
        async for drafts in _batches(door, visit):
            while wait := door.pause(call):
                await asyncio.sleep(wait)

            def store(drafts: list[bytes] = drafts) -> list[bytes]:
                known = [_draft(data) for data in drafts]
                with on_behalf(call):
                    stored = iter(agent.remember([draft_of(each) for each in known if isinstance(each, NewMemory)]))
                receipts = [each if isinstance(each, Receipt) else next(stored) for each in known]
                return [rendered(receipt, model_pb2.Receipt) for receipt in receipts]

            for receipt in await door.aside(store):
                await visit.context.write(receipt)
            if not door.keys.live(call.key.id):
                return


def _draft(data: bytes) -> NewMemory | Receipt:
    """What a draft says, or the receipt of one that says nothing that can be kept."""
    try:
        draft = parsed(service_pb2.NewMemory, data, NewMemory)
        draft_of(draft)
    except InvalidInput as error:
        return rejected(error)
    return draft


async def _batches(door: Door, visit: Visit) -> AsyncIterator[list[bytes]]:
    """What comes, in parts of what is there: nobody waits for others to come. Ends with the stream, or the server."""
    batch: list[bytes] = []
    async for data in _messages(door, visit, lambda: GATHERING if batch else door.limits.seconds):
        if data is not None:
            batch.append(data)
        if batch and (data is None or len(batch) >= BATCH):
            yield batch
            batch = []
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
            waiting.cancel()
            with suppress(BaseException):  # noqa: BLE001 - whatever it would have been, nobody waits for it any more
                await waiting


async def export_knowledge(door: Door, visit: Visit, request: bytes) -> None:
    """Write a knowledge file, and send it."""
    wanted = parsed(service_pb2.ExportQuery, request, ExportQuery)
    with door.stream(), TemporaryDirectory(prefix="engram-") as folder:
        file = Path(folder) / FILE

        def write(call: Call) -> ExportReport:
            report = Knowledge(call.brain, call.agent).export(
                file, domains=wanted.domains, tags=wanted.tags, form=wanted.form
            )
            return report.model_copy(update={"file": ""})

        report = await door.carry_out(visit, write, LONG)
        with await door.aside(lambda: file.open("rb")) as written_file:
            while data := await door.aside(lambda: written_file.read(CHUNK)):
                await visit.context.write(service_pb2.ExportPart(data=data).SerializeToString())
        last = service_pb2.ExportPart(report=written(report, model_pb2.ExportReport))
        await visit.context.write(last.SerializeToString())


async def import_knowledge(door: Door, visit: Visit) -> None:
    """Take a knowledge file in: at first all of it comes, and then it is read."""
    with door.stream(), TemporaryDirectory(prefix="engram-") as folder:
        await door.carry_out(visit, lambda call: call.chosen())  # before anything is kept of what a stranger sends
        file = Path(folder) / FILE
        with await door.aside(lambda: file.open("wb")) as receiving:
            options = await _receive(door, visit, receiving)

        def take_in(call: Call) -> ImportReport:
            try:
                knowledge = Knowledge(call.brain, call.agent)
                return knowledge.take_in(file, format=options.format, dry_run=options.dry_run)
            except EngramError as error:
                raise type(error)(str(error).replace(str(file), "the file")) from None

        report = await door.carry_out(visit, take_in, LONG)
        report = report.model_copy(update={"reasons": tuple(each.replace(folder, "") for each in report.reasons)})
        await visit.context.write(rendered(report, model_pb2.ImportReport))


async def _receive(door: Door, visit: Visit, file: IO[bytes]) -> ImportOptions:
    """Write what comes to a file; the options that came before it."""
    options, size = ImportOptions(), 0
    first = True
    async for data in _messages(door, visit, lambda: door.limits.seconds):
        if data is None:
            continue
        try:
            part = service_pb2.ImportPart.FromString(data)
        except DecodeError:
            raise InvalidInput("the message cannot be read; is it of this version of the protocol?") from None
        if part.WhichOneof("part") == "options":
            if not first:
                raise InvalidInput("the options come before the file, and once")
            options = parsed(service_pb2.ImportOptions, part.options.SerializeToString(), ImportOptions)
        first, size = False, size + len(part.data)
        if size > LIMITS.file:
            raise TooMany(f"the file has more than {LIMITS.file:,} bytes; split it")
        await door.aside(lambda data=part.data: file.write(data))  # type: ignore[misc]
    if not size:
        raise InvalidInput("no file came; send its bytes as `data`")
    return options


async def listen(door: Door, visit: Visit, request: bytes) -> None:
    """Tell what happens, until the time is over, the key is no longer good, or the server stops."""
    query = parsed(service_pb2.EventQuery, request, EventQuery)
    with door.stream():
        call = await door.carry_out(visit, lambda call: call)
        named = None if call.named is None else call.chosen()
        everyone = EVERYONE in call.key.agents

        def scopes() -> list[Scope]:
            names = [named] if named is not None else call.agents() if everyone else call.key.agents
            return [Scope(name) for name in names if not name.startswith(RESERVED)]

        start = query.after
        if start is None:
            start = await door.aside(lambda: newest(call.brain.store, scopes()))
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
            await visit.context.write(rendered(event, model_pb2.LiveEvent))
        if news:
            continue
        if seconds is not None and loop.time() - began >= seconds:
            return
        with suppress(TimeoutError):
            await asyncio.wait_for(door.stopping.wait(), door.poll_seconds)


STREAMS: dict[str, Stream] = {}
