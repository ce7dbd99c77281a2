"""The two clients: the same calls, sent over httpx, with and without `await`."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar, overload
from urllib.parse import quote

from engram.client import calls
from engram.client.calls import Call
from engram.client.methods import Item, awaited, sendable_key, waiting
from engram.errors import InvalidInput, MissingExtra, StoreAway
from engram.model import Draft, Receipt
from engram.model.wire import LiveEvent
from engram.system import is_loopback

if TYPE_CHECKING:
    import httpx

R = TypeVar("R")
TRIES = 4
LONGEST_PAUSE = 10.0
AGAIN = {429, 503}
SILENCE = 60.0
"""Seconds after which a stream of events that says nothing is taken for a lost one."""


class _Asking:
    """What both clients do alike: how a call is sent, and when it is sent once more."""

    def __init__(
        self,
        url: str,
        key: str,
        agent: str | None,
        plaintext: bool,
        timeout: float,
        new_key: Callable[[], str] | None,
    ) -> None:
        self._httpx = _httpx()
        self._url = _address(self._httpx, url, plaintext)
        self._base = self._url + "/v1"
        own = {} if agent is None else {"Engram-Agent": quote(_sendable(agent), safe="")}
        self._headers = {"Authorization": f"Bearer {sendable_key(key)}", **own}
        self._timeout = timeout
        self._new_key = new_key or (lambda: uuid.uuid4().hex)

    def request(self, call: Call[Any]) -> dict[str, Any]:
        """What httpx is given; a write has a key, so that it can be repeated."""
        headers = {**self._headers, **call.headers}
        if call.write and "key" not in (call.body or {}):
            headers["Idempotency-Key"] = self._new_key()
        return {
            "method": call.method,
            "url": self._url + call.path[1:] if call.path.startswith("//") else self._base + call.path,
            "params": [(name, _sendable(value)) for name, value in call.params],
            "headers": headers,
            "json": call.body,
            "content": call.file,
        }

    def _listening(self, after: int | None, seconds: float | None) -> dict[str, Any]:
        """What httpx is given to hear of events; the server says now and then that it is still there."""
        given: Iterable[tuple[str, float | None]] = (("after", after), ("seconds", seconds))
        params = {name: str(value) for name, value in given if value is not None}
        return {
            "method": "GET",
            "url": self._base + "/events",
            "params": params,
            "headers": self._headers,
            "timeout": self._httpx.Timeout(self._timeout, read=SILENCE),
        }

    def pause(self, call: Call[Any], tried: int, status: int | None, after: str | None) -> float | None:
        """How long to wait before a call is sent again; `None` if it is not to be.

        `status` is that of the answer, or none if there was no answer.
        """
        if tried >= TRIES or (status is not None and status not in AGAIN) or status in call.answers:
            return None
        if status != 429 and not call.repeatable:  # nobody knows whether it was carried out
            return None
        told = float(after) if after is not None and after.isdigit() else 0.0
        return min(max(told, 0.1 * (1 << tried)), LONGEST_PAUSE)


class Client(_Asking):
    """An agent's memory on a server: the calls of `AgentHandle`, which raise the same errors."""

    def __init__(
        self,
        url: str,
        key: str,
        agent: str | None = None,
        *,
        plaintext: bool = False,
        timeout: float = 60.0,
        new_key: Callable[[], str] | None = None,
        sleep: Callable[[float], None] = time.sleep,
        http: httpx.Client | None = None,
    ) -> None:
        """Ask the server at an address, such as `https://memory.example`.

        Without TLS only this machine is asked, unless `plaintext` says that others may read the key.
        """
        super().__init__(url, key, agent, plaintext, timeout, new_key)
        self._http = http or self._httpx.Client(timeout=timeout)
        self._sleep = sleep

    @overload
    def remember(self, text: str | Draft | Mapping[str, Any], **fields: Any) -> Receipt: ...
    @overload
    def remember(self, text: Sequence[str | Draft | Mapping[str, Any]], **fields: Any) -> list[Receipt]: ...
    def remember(self, text: Item | Sequence[Item], **fields: Any) -> Receipt | list[Receipt]:
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
    agents = waiting(calls.agents)
    agent = waiting(calls.agent)
    propose = waiting(calls.propose)
    result = waiting(calls.result)
    resolve = waiting(calls.resolve)
    state = waiting(calls.state)
    cycle = waiting(calls.cycle)
    cycles = waiting(calls.cycles)
    workspaces = waiting(calls.workspaces)
    snapshots = waiting(calls.snapshots)
    diff = waiting(calls.diff)
    runs = waiting(calls.runs)
    run = waiting(calls.run)
    stats = waiting(calls.stats)
    evaluate = waiting(calls.evaluate)
    request_grant = waiting(calls.request_grant)
    offer_grant = waiting(calls.offer_grant)
    share = waiting(calls.share)
    approve_grant = waiting(calls.approve_grant)
    deny_grant = waiting(calls.deny_grant)
    revoke_grant = waiting(calls.revoke_grant)
    grants = waiting(calls.grants)
    grant = waiting(calls.grant)
    grant_uses = waiting(calls.grant_uses)
    sources = waiting(calls.sources)
    groups = waiting(calls.groups)
    change_group = waiting(calls.change_group)
    quarantined = waiting(calls.quarantined)
    quarantined_memory = waiting(calls.quarantined_memory)
    release = waiting(calls.release)
    discard = waiting(calls.discard)
    export_knowledge = waiting(calls.export_knowledge)
    import_knowledge = waiting(calls.import_knowledge)
    merge_knowledge = waiting(calls.merge_knowledge)
    audit = waiting(calls.audit)
    verify_audit = waiting(calls.verify_audit)
    policies = waiting(calls.policies)
    set_policy = waiting(calls.set_policy)
    remove_policy = waiting(calls.remove_policy)
    holds = waiting(calls.holds)
    hold = waiting(calls.hold)
    release_hold = waiting(calls.release_hold)
    run_retention = waiting(calls.run_retention)
    healthy = waiting(calls.healthy)
    ready = waiting(calls.ready)
    metrics = waiting(calls.metrics)

    def send(self, call: Call[R]) -> R:
        """Send a call and give what its answer means; what is safe to repeat is repeated when the server is busy."""
        request, tried = self.request(call), 0
        while True:
            tried += 1
            try:
                answer = self._http.request(**request)
            except self._httpx.TransportError as error:
                if (wait := self.pause(call, tried, None, None)) is None:
                    raise _away(error) from error
            else:
                wait = self.pause(call, tried, answer.status_code, answer.headers.get("retry-after"))
                if wait is None:
                    return call.result(answer.status_code, answer.content)
            self._sleep(wait)

    def events(self, after: int | None = None, *, seconds: float | None = None) -> Iterator[LiveEvent]:
        """What happens, as it happens, from after an event on, or from now on, until the server ends the stream.

        Raises `StoreAway` if the connection is lost; `after` the last event that was heard, it goes on.
        """
        asked, lines = self._listening(after, seconds), Events()
        try:
            with self._http.stream(**asked) as answer:
                if answer.status_code >= 400:
                    Call("GET", "/events", _nothing).result(answer.status_code, answer.read())
                for line in answer.iter_lines():
                    if (event := lines.read(line)) is not None:
                        yield event
        except self._httpx.TransportError as error:
            raise _away(error) from error

    def close(self) -> None:
        """Let go of the connections; calling it twice is harmless."""
        self._http.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class AsyncClient(_Asking):
    """`Client` with `await`."""

    def __init__(
        self,
        url: str,
        key: str,
        agent: str | None = None,
        *,
        plaintext: bool = False,
        timeout: float = 60.0,
        new_key: Callable[[], str] | None = None,
        sleep: Callable[[float], Coroutine[Any, Any, None]] = asyncio.sleep,
        http: httpx.AsyncClient | None = None,
    ) -> None:
        """The same as for `Client`."""
        super().__init__(url, key, agent, plaintext, timeout, new_key)
        self._http = http or self._httpx.AsyncClient(timeout=timeout)
        self._sleep = sleep

    @overload
    async def remember(self, text: str | Draft | Mapping[str, Any], **fields: Any) -> Receipt: ...
    @overload
    async def remember(self, text: Sequence[str | Draft | Mapping[str, Any]], **fields: Any) -> list[Receipt]: ...
    async def remember(self, text: Item | Sequence[Item], **fields: Any) -> Receipt | list[Receipt]:
        """Remember one thing, or several in one transaction; the receipts come after the commit, in order."""
        if isinstance(text, str | Draft | Mapping):
            return await self.send(calls.remember(text, fields))
        if not text:
            return []
        several: list[Receipt] = await self.send(calls.remember_all(text, fields))
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
    agents = awaited(calls.agents)
    agent = awaited(calls.agent)
    propose = awaited(calls.propose)
    result = awaited(calls.result)
    resolve = awaited(calls.resolve)
    state = awaited(calls.state)
    cycle = awaited(calls.cycle)
    cycles = awaited(calls.cycles)
    workspaces = awaited(calls.workspaces)
    snapshots = awaited(calls.snapshots)
    diff = awaited(calls.diff)
    runs = awaited(calls.runs)
    run = awaited(calls.run)
    stats = awaited(calls.stats)
    evaluate = awaited(calls.evaluate)
    request_grant = awaited(calls.request_grant)
    offer_grant = awaited(calls.offer_grant)
    share = awaited(calls.share)
    approve_grant = awaited(calls.approve_grant)
    deny_grant = awaited(calls.deny_grant)
    revoke_grant = awaited(calls.revoke_grant)
    grants = awaited(calls.grants)
    grant = awaited(calls.grant)
    grant_uses = awaited(calls.grant_uses)
    sources = awaited(calls.sources)
    groups = awaited(calls.groups)
    change_group = awaited(calls.change_group)
    quarantined = awaited(calls.quarantined)
    quarantined_memory = awaited(calls.quarantined_memory)
    release = awaited(calls.release)
    discard = awaited(calls.discard)
    export_knowledge = awaited(calls.export_knowledge)
    import_knowledge = awaited(calls.import_knowledge)
    merge_knowledge = awaited(calls.merge_knowledge)
    audit = awaited(calls.audit)
    verify_audit = awaited(calls.verify_audit)
    policies = awaited(calls.policies)
    set_policy = awaited(calls.set_policy)
    remove_policy = awaited(calls.remove_policy)
    holds = awaited(calls.holds)
    hold = awaited(calls.hold)
    release_hold = awaited(calls.release_hold)
    run_retention = awaited(calls.run_retention)
    healthy = awaited(calls.healthy)
    ready = awaited(calls.ready)
    metrics = awaited(calls.metrics)

    async def send(self, call: Call[R]) -> R:
        """Send a call and give what its answer means; what is safe to repeat is repeated when the server is busy."""
        request, tried = self.request(call), 0
        while True:
            tried += 1
            try:
                answer = await self._http.request(**request)
            except self._httpx.TransportError as error:
                if (wait := self.pause(call, tried, None, None)) is None:
                    raise _away(error) from error
            else:
                wait = self.pause(call, tried, answer.status_code, answer.headers.get("retry-after"))
                if wait is None:
                    return call.result(answer.status_code, answer.content)
            await self._sleep(wait)

    async def events(self, after: int | None = None, *, seconds: float | None = None) -> AsyncIterator[LiveEvent]:
        """What happens, as it happens, from after an event on, or from now on, until the server ends the stream.

        Raises `StoreAway` if the connection is lost; `after` the last event that was heard, it goes on.
        """
        asked, lines = self._listening(after, seconds), Events()
        try:
            async with self._http.stream(**asked) as answer:
                if answer.status_code >= 400:
                    Call("GET", "/events", _nothing).result(answer.status_code, await answer.aread())
                async for line in answer.aiter_lines():
                    if (event := lines.read(line)) is not None:
                        yield event
        except self._httpx.TransportError as error:
            raise _away(error) from error

    async def close(self) -> None:
        """Let go of the connections; calling it twice is harmless."""
        await self._http.aclose()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


class Events:
    """Reads a stream of server-sent events, line by line."""

    def __init__(self) -> None:
        self._data = ""

    def read(self, line: str) -> LiveEvent | None:
        """The event that ends with this line, or `None` if none does."""
        if line:
            name, _, value = line.partition(":")
            self._data = value.strip() if name == "data" else self._data
            return None
        data, self._data = self._data, ""
        return LiveEvent.model_validate_json(data) if data else None


def _address(httpx: Any, url: str, plaintext: bool) -> str:
    """Where to ask. Raises `InvalidInput` if it is no address, or if others could read the key on its way."""
    try:
        where = httpx.URL(url)
    except httpx.InvalidURL:
        where = httpx.URL("")
    if where.scheme not in {"http", "https"} or not where.host:
        raise InvalidInput("this is not the address of a server; it begins with `https://` or `http://`")
    if where.scheme == "http" and not plaintext and not is_loopback(where.host):
        raise InvalidInput("the key would be sent in the clear; give `https://`, or `plaintext=True` if that is meant")
    return url.rstrip("/")


def _sendable(text: str) -> str:
    """A text that can go into an address or a header. Raises `InvalidInput`."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidInput(calls.UNSENDABLE) from None
    return text


def _nothing(content: bytes) -> None:
    raise InvalidInput("there is nothing to read")


def _away(error: Exception) -> StoreAway:
    return StoreAway(f"the server does not answer ({type(error).__name__}); is it running, and is the address right?")


def _httpx() -> Any:
    try:
        import httpx  # noqa: PLC0415 - an optional package
    except ImportError as error:
        raise MissingExtra("httpx is not installed; pip install 'engram-learning[client]'") from error
    return httpx
