"""The two clients: the same calls, sent over httpx, with and without `await`."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, overload
from urllib.parse import quote

from engram.client import calls
from engram.client.calls import Call, Item
from engram.errors import InvalidInput, MissingExtra, StoreAway
from engram.loopback import is_loopback
from engram.model import Draft, Receipt
from engram.model.wire import LiveEvent

if TYPE_CHECKING:
    import httpx

P = ParamSpec("P")
R = TypeVar("R")
TRIES = 4
LONGEST_PAUSE = 10.0
AGAIN = {429, 503}


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
    """What both clients do alike: how a call is sent, and when it is sent once more."""

    def __init__(
        self, url: str, key: str, agent: str | None, plaintext: bool, new_key: Callable[[], str] | None
    ) -> None:
        self._httpx = _httpx()
        self._url = _address(self._httpx, url, plaintext)
        self._base = self._url + "/v1"
        own = {} if agent is None else {"Engram-Agent": quote(_sendable(agent), safe="")}
        self._headers = {"Authorization": f"Bearer {key}", **own}
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
        super().__init__(url, key, agent, plaintext, new_key)
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
    agents = _waiting(calls.agents)
    agent = _waiting(calls.agent)
    propose = _waiting(calls.propose)
    result = _waiting(calls.result)
    resolve = _waiting(calls.resolve)
    state = _waiting(calls.state)
    cycle = _waiting(calls.cycle)
    cycles = _waiting(calls.cycles)
    workspaces = _waiting(calls.workspaces)
    snapshots = _waiting(calls.snapshots)
    diff = _waiting(calls.diff)
    runs = _waiting(calls.runs)
    run = _waiting(calls.run)
    stats = _waiting(calls.stats)
    evaluate = _waiting(calls.evaluate)
    request_grant = _waiting(calls.request_grant)
    offer_grant = _waiting(calls.offer_grant)
    share = _waiting(calls.share)
    approve_grant = _waiting(calls.approve_grant)
    deny_grant = _waiting(calls.deny_grant)
    revoke_grant = _waiting(calls.revoke_grant)
    grants = _waiting(calls.grants)
    grant = _waiting(calls.grant)
    grant_uses = _waiting(calls.grant_uses)
    sources = _waiting(calls.sources)
    groups = _waiting(calls.groups)
    change_group = _waiting(calls.change_group)
    quarantined = _waiting(calls.quarantined)
    quarantined_memory = _waiting(calls.quarantined_memory)
    release = _waiting(calls.release)
    discard = _waiting(calls.discard)
    export_knowledge = _waiting(calls.export_knowledge)
    import_knowledge = _waiting(calls.import_knowledge)
    merge_knowledge = _waiting(calls.merge_knowledge)
    audit = _waiting(calls.audit)
    verify_audit = _waiting(calls.verify_audit)
    policies = _waiting(calls.policies)
    set_policy = _waiting(calls.set_policy)
    remove_policy = _waiting(calls.remove_policy)
    holds = _waiting(calls.holds)
    hold = _waiting(calls.hold)
    release_hold = _waiting(calls.release_hold)
    run_retention = _waiting(calls.run_retention)
    healthy = _waiting(calls.healthy)
    ready = _waiting(calls.ready)
    metrics = _waiting(calls.metrics)

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
        """What happens, as it happens, from after an event on, or from now on, until the server ends the stream."""
        params, lines = _since(after, seconds), Events()
        with self._http.stream(
            "GET", self._base + "/events", params=params, headers=self._headers, timeout=None
        ) as answer:
            if answer.status_code >= 400:
                Call("GET", "/events", _nothing).result(answer.status_code, answer.read())
            for line in answer.iter_lines():
                if (event := lines.read(line)) is not None:
                    yield event

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
        super().__init__(url, key, agent, plaintext, new_key)
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
    agents = _awaited(calls.agents)
    agent = _awaited(calls.agent)
    propose = _awaited(calls.propose)
    result = _awaited(calls.result)
    resolve = _awaited(calls.resolve)
    state = _awaited(calls.state)
    cycle = _awaited(calls.cycle)
    cycles = _awaited(calls.cycles)
    workspaces = _awaited(calls.workspaces)
    snapshots = _awaited(calls.snapshots)
    diff = _awaited(calls.diff)
    runs = _awaited(calls.runs)
    run = _awaited(calls.run)
    stats = _awaited(calls.stats)
    evaluate = _awaited(calls.evaluate)
    request_grant = _awaited(calls.request_grant)
    offer_grant = _awaited(calls.offer_grant)
    share = _awaited(calls.share)
    approve_grant = _awaited(calls.approve_grant)
    deny_grant = _awaited(calls.deny_grant)
    revoke_grant = _awaited(calls.revoke_grant)
    grants = _awaited(calls.grants)
    grant = _awaited(calls.grant)
    grant_uses = _awaited(calls.grant_uses)
    sources = _awaited(calls.sources)
    groups = _awaited(calls.groups)
    change_group = _awaited(calls.change_group)
    quarantined = _awaited(calls.quarantined)
    quarantined_memory = _awaited(calls.quarantined_memory)
    release = _awaited(calls.release)
    discard = _awaited(calls.discard)
    export_knowledge = _awaited(calls.export_knowledge)
    import_knowledge = _awaited(calls.import_knowledge)
    merge_knowledge = _awaited(calls.merge_knowledge)
    audit = _awaited(calls.audit)
    verify_audit = _awaited(calls.verify_audit)
    policies = _awaited(calls.policies)
    set_policy = _awaited(calls.set_policy)
    remove_policy = _awaited(calls.remove_policy)
    holds = _awaited(calls.holds)
    hold = _awaited(calls.hold)
    release_hold = _awaited(calls.release_hold)
    run_retention = _awaited(calls.run_retention)
    healthy = _awaited(calls.healthy)
    ready = _awaited(calls.ready)
    metrics = _awaited(calls.metrics)

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
        """What happens, as it happens, from after an event on, or from now on, until the server ends the stream."""
        params, lines = _since(after, seconds), Events()
        async with self._http.stream(
            "GET", self._base + "/events", params=params, headers=self._headers, timeout=None
        ) as answer:
            if answer.status_code >= 400:
                Call("GET", "/events", _nothing).result(answer.status_code, await answer.aread())
            async for line in answer.aiter_lines():
                if (event := lines.read(line)) is not None:
                    yield event

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


def _since(after: int | None, seconds: float | None) -> dict[str, str]:
    given: Iterable[tuple[str, float | None]] = (("after", after), ("seconds", seconds))
    return {name: str(value) for name, value in given if value is not None}


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
