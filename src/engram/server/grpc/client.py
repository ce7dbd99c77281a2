"""Two clients with the names, values and errors of the library itself, over gRPC, with and without `await`."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterable, AsyncIterator, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar, overload
from urllib.parse import quote

import grpc
import grpc.aio

from engram.client.methods import Item, awaited, sendable_key, waiting
from engram.errors import InvalidInput
from engram.model import Draft, Receipt
from engram.model.transfer import ExportReport, ImportReport
from engram.model.wire import LiveEvent
from engram.ports import unstorable
from engram.server.grpc import calls
from engram.server.grpc.calls import Call, error_of
from engram.server.grpc.interceptor import MESSAGE
from engram.server.grpc.messages import Stub
from engram.system import is_loopback

R = TypeVar("R")
Several = list
OPTIONS = [("grpc.max_receive_message_length", MESSAGE + 1024), ("grpc.max_send_message_length", MESSAGE)]


class _Asking:
    """What both clients do alike: where they ask, and what goes along."""

    def __init__(self, key: str, agent: str | None, timeout: float, new_key: Callable[[], str] | None) -> None:
        if agent is not None and (flaw := unstorable(agent)):
            raise InvalidInput(f"an agent's name must be plain text: {flaw}")
        own = [] if agent is None else [("engram-agent", quote(agent, safe=""))]
        self._metadata = [("authorization", f"Bearer {sendable_key(key)}"), *own]
        self._timeout = timeout
        self._new_key = new_key or (lambda: uuid.uuid4().hex)


def _channel(way: Any, address: str, tls: bool | Path, plaintext: bool) -> Any:
    """A connection that is made by `grpc` or `grpc.aio`. Raises `InvalidInput` if others could read the key."""
    if flaw := unstorable(address):
        raise InvalidInput(f"the address cannot be used: {flaw}")
    if tls:
        root = tls.read_bytes() if isinstance(tls, Path) else None
        return way.secure_channel(address, grpc.ssl_channel_credentials(root), OPTIONS)
    if plaintext or is_loopback(address.rpartition(":")[0]):
        return way.insecure_channel(address, OPTIONS)
    raise InvalidInput("the key would be sent in the clear; give `tls`, or `plaintext=True` if that is meant")


class Client(_Asking):
    """An agent's memory on a server: the calls of `AgentHandle`, which raise the same errors."""

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
        """Ask the server at `host:port`, over TLS if `tls` is true or names a file with the certificate to trust.

        Without TLS only this machine is asked, unless `plaintext` says that others may read the key.
        """
        super().__init__(key, agent, timeout, new_key)
        self._sleep = sleep
        self._channel = _channel(grpc, address, tls, plaintext)
        self._stub = Stub(self._channel)

    @overload
    def remember(self, text: str | Draft | Mapping[str, Any], **fields: Any) -> Receipt: ...
    @overload
    def remember(self, text: Sequence[str | Draft | Mapping[str, Any]], **fields: Any) -> Several[Receipt]: ...
    def remember(self, text: Item | Sequence[Item], **fields: Any) -> Receipt | Several[Receipt]:
        """Remember one thing, or several in one transaction; the receipts come after the commit, in order."""
        if isinstance(text, str | Draft | Mapping):
            return self.send(calls.remember(text, fields))
        return self.send(calls.remember_all(text, fields)) if text else []

    get = waiting(calls.get)
    list = waiting(calls.newest)
    page = waiting(calls.page)
    annotate = waiting(calls.annotate)
    forget = waiting(calls.forget)
    recall = waiting(calls.recall)
    context = waiting(calls.context)
    record_decision = waiting(calls.record_decision)
    outcome = waiting(calls.outcome)
    outcomes = waiting(calls.outcomes)
    decisions = waiting(calls.decisions)
    suggest = waiting(calls.suggest)
    predict = waiting(calls.predict)
    check = waiting(calls.check)
    success_patterns = waiting(calls.success_patterns)
    decision_templates = waiting(calls.decision_templates)
    learn_from_failure = waiting(calls.learn_from_failure)
    failures = waiting(calls.failures)
    failure = waiting(calls.failure)
    tried = waiting(calls.tried)
    checks = waiting(calls.checks)
    generate = waiting(calls.generate)
    stats = waiting(calls.stats)
    evaluate = waiting(calls.evaluate)
    agents = waiting(calls.agents)
    agent = waiting(calls.agent)
    cycles = waiting(calls.cycles)
    cycle = waiting(calls.cycle)
    state = waiting(calls.state)
    propose = waiting(calls.propose)
    result = waiting(calls.result)
    resolve = waiting(calls.resolve)
    workspaces = waiting(calls.workspaces)
    snapshots = waiting(calls.snapshots)
    diff = waiting(calls.diff)
    runs = waiting(calls.runs)
    run = waiting(calls.run)
    request = waiting(calls.request)
    offer = waiting(calls.offer)
    share = waiting(calls.share)
    approve = waiting(calls.approve)
    deny = waiting(calls.deny)
    revoke = waiting(calls.revoke)
    grants = waiting(calls.grants)
    grant = waiting(calls.grant)
    uses = waiting(calls.uses)
    sources = waiting(calls.sources)
    merge = waiting(calls.merge)
    groups = waiting(calls.groups)
    regroup = waiting(calls.regroup)
    quarantined = waiting(calls.quarantined)
    quarantined_memory = waiting(calls.quarantined_memory)
    release = waiting(calls.release)
    discard = waiting(calls.discard)
    audit = waiting(calls.audit)
    verify_audit = waiting(calls.verify_audit)
    policies = waiting(calls.policies)
    set_policy = waiting(calls.set_policy)
    remove_policy = waiting(calls.remove_policy)
    holds = waiting(calls.holds)
    hold = waiting(calls.hold)
    release_hold = waiting(calls.release_hold)
    run_retention = waiting(calls.run_retention)

    def remember_stream(self, texts: Iterable[Item], **fields: Any) -> Iterator[Receipt]:
        """Remember many things; a receipt comes for each, in order, after its commit.

        One that cannot be sent is the last: those before it are kept, and then `InvalidInput` is raised.
        """
        wrong: Several[InvalidInput] = []
        for receipt in self._heard(self._stub.RememberStream, calls.drafts(texts, fields, self._new_key, wrong)):
            yield calls.receipt_of(receipt)
        if wrong:
            raise wrong[0]

    def export(self, to: Path, **wanted: Any) -> ExportReport:
        """Write what the agent knows to a file here; a file that is cut short does not stay."""
        asked, arriving = calls.export_query(wanted), calls.Arriving(to)
        try:
            for part in self._heard(self._stub.ExportKnowledge, asked):
                arriving.take(part)
            return arriving.done()
        finally:
            arriving.close()

    def import_file(
        self, file: Path, *, format: str | None = None, dry_run: bool = False, large: bool = False
    ) -> ImportReport:
        """Take in knowledge from a file here; `large` if it has very many records, and may take long."""
        parts = calls.parts(file, calls.import_options(format, dry_run, large))
        try:
            return calls.import_report(self._stub.ImportKnowledge(parts, metadata=self._metadata))
        except grpc.RpcError as error:
            raise error_of(error) from None

    def events(self, after: int | None = None, seconds: float | None = None) -> Iterator[LiveEvent]:
        """What is stored, forgotten and learned, as it happens; `after` goes on behind an event."""
        for event in self._heard(self._stub.Listen, calls.event_query(after, seconds)):
            yield calls.event_of(event)

    def send(self, call: Call[R]) -> R:
        """Make a call and give what its answer means; what is safe to repeat is repeated when the server is busy."""
        message, tried = call.message(self._new_key), 0
        while True:
            tried += 1
            try:
                found = getattr(self._stub, call.method)(message, timeout=self._timeout, metadata=self._metadata)
            except grpc.RpcError as error:
                if (wait := calls.pause(call.method, tried, error)) is None:
                    return call.failed(error_of(error))
                self._sleep(wait)
            else:
                return call.read(found)

    def _heard(self, method: Callable[..., Any], asked: Any) -> Iterator[Any]:
        try:
            yield from method(asked, metadata=self._metadata)
        except grpc.RpcError as error:
            raise error_of(error) from None

    def close(self) -> None:
        """Let go of the connection."""
        self._channel.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class AsyncClient(_Asking):
    """`Client` with `await`; it belongs to the loop that runs when it is first used."""

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
        """Ask the server at `host:port`, over TLS if `tls` is true or names a file with the certificate to trust.

        Without TLS only this machine is asked, unless `plaintext` says that others may read the key.
        """
        super().__init__(key, agent, timeout, new_key)
        self._sleep = sleep
        self._channel = _channel(grpc.aio, address, tls, plaintext)
        self._stub = Stub(self._channel)

    @overload
    async def remember(self, text: str | Draft | Mapping[str, Any], **fields: Any) -> Receipt: ...
    @overload
    async def remember(self, text: Sequence[str | Draft | Mapping[str, Any]], **fields: Any) -> Several[Receipt]: ...
    async def remember(self, text: Item | Sequence[Item], **fields: Any) -> Receipt | Several[Receipt]:
        """Remember one thing, or several in one transaction; the receipts come after the commit, in order."""
        if isinstance(text, str | Draft | Mapping):
            return await self.send(calls.remember(text, fields))
        if not text:
            return []
        several: Several[Receipt] = await self.send(calls.remember_all(text, fields))
        return several

    get = awaited(calls.get)
    list = awaited(calls.newest)
    page = awaited(calls.page)
    annotate = awaited(calls.annotate)
    forget = awaited(calls.forget)
    recall = awaited(calls.recall)
    context = awaited(calls.context)
    record_decision = awaited(calls.record_decision)
    outcome = awaited(calls.outcome)
    outcomes = awaited(calls.outcomes)
    decisions = awaited(calls.decisions)
    suggest = awaited(calls.suggest)
    predict = awaited(calls.predict)
    check = awaited(calls.check)
    success_patterns = awaited(calls.success_patterns)
    decision_templates = awaited(calls.decision_templates)
    learn_from_failure = awaited(calls.learn_from_failure)
    failures = awaited(calls.failures)
    failure = awaited(calls.failure)
    tried = awaited(calls.tried)
    checks = awaited(calls.checks)
    generate = awaited(calls.generate)
    stats = awaited(calls.stats)
    evaluate = awaited(calls.evaluate)
    agents = awaited(calls.agents)
    agent = awaited(calls.agent)
    cycles = awaited(calls.cycles)
    cycle = awaited(calls.cycle)
    state = awaited(calls.state)
    propose = awaited(calls.propose)
    result = awaited(calls.result)
    resolve = awaited(calls.resolve)
    workspaces = awaited(calls.workspaces)
    snapshots = awaited(calls.snapshots)
    diff = awaited(calls.diff)
    runs = awaited(calls.runs)
    run = awaited(calls.run)
    request = awaited(calls.request)
    offer = awaited(calls.offer)
    share = awaited(calls.share)
    approve = awaited(calls.approve)
    deny = awaited(calls.deny)
    revoke = awaited(calls.revoke)
    grants = awaited(calls.grants)
    grant = awaited(calls.grant)
    uses = awaited(calls.uses)
    sources = awaited(calls.sources)
    merge = awaited(calls.merge)
    groups = awaited(calls.groups)
    regroup = awaited(calls.regroup)
    quarantined = awaited(calls.quarantined)
    quarantined_memory = awaited(calls.quarantined_memory)
    release = awaited(calls.release)
    discard = awaited(calls.discard)
    audit = awaited(calls.audit)
    verify_audit = awaited(calls.verify_audit)
    policies = awaited(calls.policies)
    set_policy = awaited(calls.set_policy)
    remove_policy = awaited(calls.remove_policy)
    holds = awaited(calls.holds)
    hold = awaited(calls.hold)
    release_hold = awaited(calls.release_hold)
    run_retention = awaited(calls.run_retention)

    async def remember_stream(
        self, texts: Iterable[Item] | AsyncIterable[Item], **fields: Any
    ) -> AsyncIterator[Receipt]:
        """Remember many things; a receipt comes for each, in order, after its commit.

        One that cannot be sent is the last: those before it are kept, and then `InvalidInput` is raised.
        """
        wrong: Several[InvalidInput] = []

        async def drafts() -> AsyncIterator[Any]:
            async for item in _each(texts):
                for message in calls.drafts([item], fields, self._new_key, wrong):
                    yield message
                if wrong:
                    return

        async for receipt in self._heard(self._stub.RememberStream, drafts()):
            yield calls.receipt_of(receipt)
        if wrong:
            raise wrong[0]

    async def export(self, to: Path, **wanted: Any) -> ExportReport:
        """Write what the agent knows to a file here; a file that is cut short does not stay."""
        asked, arriving = calls.export_query(wanted), await asyncio.to_thread(calls.Arriving, to)
        try:
            async for part in self._heard(self._stub.ExportKnowledge, asked):
                await asyncio.to_thread(arriving.take, part)
            return await asyncio.to_thread(arriving.done)
        finally:
            await asyncio.to_thread(arriving.close)

    async def import_file(
        self, file: Path, *, format: str | None = None, dry_run: bool = False, large: bool = False
    ) -> ImportReport:
        """Take in knowledge from a file here; `large` if it has very many records, and may take long."""
        coming = calls.parts(file, calls.import_options(format, dry_run, large))

        async def parts() -> AsyncIterator[Any]:
            while (part := await asyncio.to_thread(next, coming, None)) is not None:
                yield part

        try:
            return calls.import_report(await self._stub.ImportKnowledge(parts(), metadata=self._metadata))
        except grpc.RpcError as error:
            raise error_of(error) from None

    async def events(self, after: int | None = None, seconds: float | None = None) -> AsyncIterator[LiveEvent]:
        """What is stored, forgotten and learned, as it happens; `after` goes on behind an event."""
        async for event in self._heard(self._stub.Listen, calls.event_query(after, seconds)):
            yield calls.event_of(event)

    async def send(self, call: Call[R]) -> R:
        """Make a call and give what its answer means; what is safe to repeat is repeated when the server is busy."""
        message, tried = call.message(self._new_key), 0
        while True:
            tried += 1
            try:
                found = await getattr(self._stub, call.method)(message, timeout=self._timeout, metadata=self._metadata)
            except grpc.RpcError as error:
                if (wait := calls.pause(call.method, tried, error)) is None:
                    return call.failed(error_of(error))
                await self._sleep(wait)
            else:
                return call.read(found)

    async def _heard(self, method: Callable[..., Any], asked: Any) -> AsyncIterator[Any]:
        try:
            async for message in method(asked, metadata=self._metadata):
                yield message
        except grpc.RpcError as error:
            raise error_of(error) from None

    async def close(self) -> None:
        """Let go of the connection."""
        await self._channel.close()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


async def _each(items: Iterable[Item] | AsyncIterable[Item]) -> AsyncIterator[Item]:
    if isinstance(items, AsyncIterable):
        async for item in items:
            yield item
    else:
        for item in items:
            yield item
