"""Two clients with the names, values and errors of the library itself, over gRPC, with and without `await`."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterable, AsyncIterator, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, TypeVar, overload
from urllib.parse import quote

import grpc
import grpc.aio

from engram.errors import InvalidInput
from engram.loopback import is_loopback
from engram.model import Draft, Receipt
from engram.model.transfer import ExportReport, ImportReport
from engram.model.wire import LiveEvent
from engram.ports import unstorable
from engram.rpc import calls
from engram.rpc.calls import Call, Item, error_of
from engram.rpc.door import MESSAGE
from engram.rpc.v1 import service_pb2_grpc

P = ParamSpec("P")
R = TypeVar("R")
Several = list
OPTIONS = [("grpc.max_receive_message_length", MESSAGE + 1024), ("grpc.max_send_message_length", MESSAGE)]


def _waiting(build: Callable[P, Call[R]]) -> Callable[Concatenate[Any, P], R]:
    def method(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
        done: R = self.send(build(*args, **kwargs))
        return done

    method.__name__, method.__doc__ = build.__name__, build.__doc__
    return method


def _awaited(build: Callable[P, Call[R]]) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, R]]:
    async def method(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
        done: R = await self.send(build(*args, **kwargs))
        return done

    method.__name__, method.__doc__ = build.__name__, build.__doc__
    return method


class _Asking:
    """What both clients do alike: where they ask, and what goes along."""

    def __init__(self, key: str, agent: str | None, timeout: float, new_key: Callable[[], str] | None) -> None:
        if not (key.isascii() and key.isprintable()):
            raise InvalidInput("the key has characters that no key has; copy it again")
        if agent is not None and (flaw := unstorable(agent)):
            raise InvalidInput(f"an agent's name must be plain text: {flaw}")
        own = [] if agent is None else [("engram-agent", quote(agent, safe=""))]
        self._metadata = [("authorization", f"Bearer {key}"), *own]
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
        self._stub: Any = service_pb2_grpc.EngramStub(self._channel)  # type: ignore[no-untyped-call]

    @overload
    def remember(self, text: str | Draft | Mapping[str, Any], **fields: Any) -> Receipt: ...
    @overload
    def remember(self, text: Sequence[str | Draft | Mapping[str, Any]], **fields: Any) -> Several[Receipt]: ...
    def remember(self, text: Item | Sequence[Item], **fields: Any) -> Receipt | Several[Receipt]:
        """Remember one thing, or several in one transaction; the receipts come after the commit, in order."""
        if isinstance(text, str | Draft | Mapping):
            return self.send(calls.remember(text, fields))
        return self.send(calls.remember_all(text, fields)) if text else []

    get = _waiting(calls.get)
    list = _waiting(calls.newest)
    page = _waiting(calls.page)
    annotate = _waiting(calls.annotate)
    forget = _waiting(calls.forget)
    recall = _waiting(calls.recall)
    context = _waiting(calls.context)
    record_decision = _waiting(calls.record_decision)
    outcome = _waiting(calls.outcome)
    outcomes = _waiting(calls.outcomes)
    decisions = _waiting(calls.decisions)
    suggest = _waiting(calls.suggest)
    predict = _waiting(calls.predict)
    check = _waiting(calls.check)
    success_patterns = _waiting(calls.success_patterns)
    decision_templates = _waiting(calls.decision_templates)
    learn_from_failure = _waiting(calls.learn_from_failure)
    failures = _waiting(calls.failures)
    failure = _waiting(calls.failure)
    tried = _waiting(calls.tried)
    checks = _waiting(calls.checks)
    generate = _waiting(calls.generate)
    stats = _waiting(calls.stats)
    evaluate = _waiting(calls.evaluate)
    agents = _waiting(calls.agents)
    agent = _waiting(calls.agent)
    cycles = _waiting(calls.cycles)
    cycle = _waiting(calls.cycle)
    state = _waiting(calls.state)
    propose = _waiting(calls.propose)
    result = _waiting(calls.result)
    resolve = _waiting(calls.resolve)
    workspaces = _waiting(calls.workspaces)
    snapshots = _waiting(calls.snapshots)
    diff = _waiting(calls.diff)
    runs = _waiting(calls.runs)
    run = _waiting(calls.run)
    request = _waiting(calls.request)
    offer = _waiting(calls.offer)
    share = _waiting(calls.share)
    approve = _waiting(calls.approve)
    deny = _waiting(calls.deny)
    revoke = _waiting(calls.revoke)
    grants = _waiting(calls.grants)
    grant = _waiting(calls.grant)
    uses = _waiting(calls.uses)
    sources = _waiting(calls.sources)
    merge = _waiting(calls.merge)
    groups = _waiting(calls.groups)
    regroup = _waiting(calls.regroup)
    quarantined = _waiting(calls.quarantined)
    quarantined_memory = _waiting(calls.quarantined_memory)
    release = _waiting(calls.release)
    discard = _waiting(calls.discard)
    audit = _waiting(calls.audit)
    verify_audit = _waiting(calls.verify_audit)
    policies = _waiting(calls.policies)
    set_policy = _waiting(calls.set_policy)
    remove_policy = _waiting(calls.remove_policy)
    holds = _waiting(calls.holds)
    hold = _waiting(calls.hold)
    release_hold = _waiting(calls.release_hold)
    run_retention = _waiting(calls.run_retention)

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

    def take_in(
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
        self._stub: Any = service_pb2_grpc.EngramStub(self._channel)  # type: ignore[no-untyped-call]

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

    get = _awaited(calls.get)
    list = _awaited(calls.newest)
    page = _awaited(calls.page)
    annotate = _awaited(calls.annotate)
    forget = _awaited(calls.forget)
    recall = _awaited(calls.recall)
    context = _awaited(calls.context)
    record_decision = _awaited(calls.record_decision)
    outcome = _awaited(calls.outcome)
    outcomes = _awaited(calls.outcomes)
    decisions = _awaited(calls.decisions)
    suggest = _awaited(calls.suggest)
    predict = _awaited(calls.predict)
    check = _awaited(calls.check)
    success_patterns = _awaited(calls.success_patterns)
    decision_templates = _awaited(calls.decision_templates)
    learn_from_failure = _awaited(calls.learn_from_failure)
    failures = _awaited(calls.failures)
    failure = _awaited(calls.failure)
    tried = _awaited(calls.tried)
    checks = _awaited(calls.checks)
    generate = _awaited(calls.generate)
    stats = _awaited(calls.stats)
    evaluate = _awaited(calls.evaluate)
    agents = _awaited(calls.agents)
    agent = _awaited(calls.agent)
    cycles = _awaited(calls.cycles)
    cycle = _awaited(calls.cycle)
    state = _awaited(calls.state)
    propose = _awaited(calls.propose)
    result = _awaited(calls.result)
    resolve = _awaited(calls.resolve)
    workspaces = _awaited(calls.workspaces)
    snapshots = _awaited(calls.snapshots)
    diff = _awaited(calls.diff)
    runs = _awaited(calls.runs)
    run = _awaited(calls.run)
    request = _awaited(calls.request)
    offer = _awaited(calls.offer)
    share = _awaited(calls.share)
    approve = _awaited(calls.approve)
    deny = _awaited(calls.deny)
    revoke = _awaited(calls.revoke)
    grants = _awaited(calls.grants)
    grant = _awaited(calls.grant)
    uses = _awaited(calls.uses)
    sources = _awaited(calls.sources)
    merge = _awaited(calls.merge)
    groups = _awaited(calls.groups)
    regroup = _awaited(calls.regroup)
    quarantined = _awaited(calls.quarantined)
    quarantined_memory = _awaited(calls.quarantined_memory)
    release = _awaited(calls.release)
    discard = _awaited(calls.discard)
    audit = _awaited(calls.audit)
    verify_audit = _awaited(calls.verify_audit)
    policies = _awaited(calls.policies)
    set_policy = _awaited(calls.set_policy)
    remove_policy = _awaited(calls.remove_policy)
    holds = _awaited(calls.holds)
    hold = _awaited(calls.hold)
    release_hold = _awaited(calls.release_hold)
    run_retention = _awaited(calls.run_retention)

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

    async def take_in(
        self, file: Path, *, format: str | None = None, dry_run: bool = False, large: bool = False
    ) -> ImportReport:
        """Take in knowledge from a file here; `large` if it has very many records, and may take long."""
        waiting = calls.parts(file, calls.import_options(format, dry_run, large))

        async def parts() -> AsyncIterator[Any]:
            while (part := await asyncio.to_thread(next, waiting, None)) is not None:
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
