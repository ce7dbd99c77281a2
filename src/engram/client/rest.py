"""The clients of `engram serve` over HTTP, with and without `await`."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError

from engram.api.operations import Operation
from engram.api.requests import ExportQuery, ImportOptions
from engram.client.calls import ERRORS, Request
from engram.client.methods import AsyncMethods, Methods
from engram.client.sending import Failed, Prepared, Transport, check_key, check_text, new_key
from engram.errors import EngramError, InvalidInput, MissingExtra, NotAllowed, NotFound, StoreAway, TooMany
from engram.model import AuditEntry
from engram.model.transfer import ImportReport
from engram.model.wire import Health, LiveEvent, NewMemories, Page, Problem
from engram.system import is_loopback

if TYPE_CHECKING:
    import httpx

R = TypeVar("R")
SILENCE = 60.0
"""Seconds after which a stream of events without any line counts as lost."""
NOT_AGAIN = {"tell_solution", "hold", "discard", "remove_policy"}
"""Operations that are not retried, since a restarted server would not know their Idempotency-Key."""
PAGED = {"list_audit": Page[AuditEntry]}
"""Responses that are pages over HTTP only."""
UNSENDABLE = "a text has half of a surrogate pair, which cannot be sent; decode it properly first"

_BY_STATUS = {400: InvalidInput, 413: TooMany, 421: NotAllowed, 408: StoreAway, 503: StoreAway}


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """A request as it is sent over HTTP."""

    verb: str
    path: str
    params: list[tuple[str, str]] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)
    body: Any = None
    file: bytes | None = None
    answers: tuple[int, ...] = ()
    """Statuses above 399 that are results and not errors."""


def http_request(operation: Operation, message: BaseModel) -> HttpRequest:
    """Convert a request to path, query, headers and body. Raises `InvalidInput` for text that cannot be sent."""
    try:
        values: dict[str, Any] = json.loads(message.model_dump_json(exclude_unset=True))
    except PydanticSerializationError:
        raise InvalidInput(UNSENDABLE) from None
    path = operation.path.replace(":path}", "}")
    for name, placeholder in operation.path_fields.items():
        path = path.replace(f"{{{placeholder}}}", _path_part(values.pop(name)))
    headers = {
        header: f'"{value}"'
        for name, header in operation.headers.items()
        if (value := values.pop(name, None)) is not None
    }
    if operation.verb == "GET":
        params = [(operation.query_fields[name], each) for name, value in values.items() for each in _texts(value)]
        return HttpRequest(operation.verb, path, params, headers)
    body = values.get(operation.body_field, {}) if operation.body_field else values
    return HttpRequest(operation.verb, path, headers=headers, body=body if operation.body is not None else None)


def _path_part(name: Any) -> str:
    """Quote a name as one segment of a path."""
    if name in {"", None}:
        raise NotFound("the name or id is empty; give one")
    return quote(str(name), safe="", errors="replace")


def _texts(value: Any) -> list[str]:
    """Convert a value to query parameters."""
    if isinstance(value, list):
        return [str(each) for each in value]
    if value is None:
        return []
    return [str(value).lower() if isinstance(value, bool) else str(value)]


def read(model: type[R], content: bytes) -> R:
    """Parse a response. Raises `StoreAway` if it is invalid."""
    try:
        return TypeAdapter(model).validate_json(content)
    except ValidationError:
        raise StoreAway(
            "the answer is not what this client understands; check that client and server have the same version"
        ) from None


def error_of(status: int, content: bytes) -> EngramError:
    """Build the error of a response from its problem document."""
    try:
        problem = Problem.model_validate_json(content)
    except ValidationError:  # it was not sent by the server, but by a proxy
        foreign = f"the answer was a {status} that is none of Engram's; look at what is between here and the server"
        return _BY_STATUS.get(status, EngramError)(foreign)
    kind = ERRORS.get(problem.code) or _BY_STATUS.get(problem.status, EngramError)
    flaws = "; ".join(f"{flaw.where}: {flaw.what}" for flaw in problem.errors)
    error = kind(f"{problem.detail}: {flaws}" if flaws else problem.detail)
    if problem.receipt is not None:
        error.receipt = problem.receipt  # type: ignore[attr-defined]
    return error


class _Http(Transport):
    """The part of both clients that does no I/O."""

    def __init__(
        self,
        url: str,
        key: str,
        agent: str | None,
        plaintext: bool,
        timeout: float,
        keys: Callable[[], str] | None,
    ) -> None:
        self._httpx = _httpx()
        self._url = _address(self._httpx, url, plaintext)
        own = {} if agent is None else {"Engram-Agent": quote(check_text(agent, "the agent's name"), safe="")}
        self._headers = {"Authorization": f"Bearer {check_key(key)}", **own}
        self._timeout = timeout
        self._new_key = keys or new_key

    def _prepare(self, request: Request[R]) -> Prepared[R]:
        operation, message = request.operation, request.message
        sent = http_request(operation, message)
        repeatable = operation.name not in NOT_AGAIN
        keys = [draft.key for draft in message.items] if isinstance(message, NewMemories) else []
        if any(key is not None for key in keys):  # the header would apply to all of them
            repeatable = None not in keys
        elif operation.writes and getattr(message, "key", None) is None:
            sent.headers["Idempotency-Key"] = self._new_key()
        if operation.name == "forget" and sent.headers.get("If-Match"):
            repeatable = False
        response = PAGED.get(operation.name, operation.response)
        return Prepared(sent, repeatable, lambda content: request.result(read(response, content)), request.failed)

    def _given(self, sent: HttpRequest) -> dict[str, Any]:
        """Return the arguments for httpx."""
        return {
            "method": sent.verb,
            "url": self._url + sent.path,
            "params": [(name, check_text(value, name)) for name, value in sent.params],
            "headers": self._headers | sent.headers,
            "json": sent.body,
            "content": sent.file,
        }

    def _answer(self, sent: HttpRequest, answer: httpx.Response) -> Any:
        """Return the content of a response, or its failure."""
        status = answer.status_code
        if status < 400 or status in sent.answers:
            return answer.content
        after = answer.headers.get("retry-after", "")
        return Failed(
            error_of(status, answer.content),
            refused=status == 429,
            unknown=status == 503,
            after=float(after) if after.isdigit() else 0.0,
        )

    def _listening(self, after: int | None, seconds: float | None) -> dict[str, Any]:
        """Return the arguments for httpx to stream events; the server sends a line at least every 15 seconds."""
        given: Iterable[tuple[str, float | None]] = (("after", after), ("seconds", seconds))
        return {
            "method": "GET",
            "url": self._url + "/v1/events",
            "params": {name: str(value) for name, value in given if value is not None},
            "headers": self._headers,
            "timeout": self._httpx.Timeout(self._timeout, read=SILENCE),
        }

    # Operations outside the table ---------------------------------------------------------------------

    @staticmethod
    def _get(path: str, read: Callable[[bytes], R], *answers: int) -> Prepared[R]:
        return Prepared(HttpRequest("GET", path, answers=answers), True, read, _raise)

    def _status(self, path: str, *answers: int) -> Prepared[bool]:
        return self._get(path, lambda content: read(Health, content).status == "ok", *answers)

    @staticmethod
    def _exporting(query: ExportQuery) -> Prepared[bytes]:
        params = [("domain", each) for each in query.domains] + [("tag", each) for each in query.tags]
        return Prepared(HttpRequest("GET", "/v1/knowledge", [*params, ("form", query.form)]), True, bytes, _raise)

    @staticmethod
    def _importing(file: bytes, options: ImportOptions) -> Prepared[ImportReport]:
        params = [(name, text) for name, value in options for text in _texts(value)]
        sent = HttpRequest("POST", "/v1/knowledge", params, file=file)
        return Prepared(sent, True, lambda content: read(ImportReport, content), _raise)


def _raise(error: EngramError) -> Any:
    raise error


def _bytes(file: bytes | Path) -> bytes:
    """Read a file. Raises `InvalidInput` if it cannot be read."""
    try:
        return file.read_bytes() if isinstance(file, Path) else file
    except OSError as error:
        raise InvalidInput(f"{file!s} cannot be read: {error.strerror}; give the path of a file that can") from None


class Client(_Http, Methods):
    """An agent's memory on a server: the methods of `AgentHandle`, which raise the same errors."""

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
        """Use the server at an address, such as `https://memory.example`.

        Without TLS the address must be local, unless `plaintext` allows to send the key unencrypted.
        """
        super().__init__(url, key, agent, plaintext, timeout, new_key)
        self._http = http or self._httpx.Client(timeout=timeout)
        self._sleep = sleep

    def _attempt(self, sent: HttpRequest) -> Any:
        try:
            return self._answer(sent, self._http.request(**self._given(sent)))
        except self._httpx.TransportError as error:
            return Failed(_away(error), unknown=True)

    def _export(self, query: ExportQuery) -> bytes:
        return self._repeat(self._exporting(query))

    def _import(self, file: bytes | Path, options: ImportOptions) -> ImportReport:
        return self._repeat(self._importing(_bytes(file), options))

    def healthy(self) -> bool:
        """Return True if the server runs."""
        return self._repeat(self._status("/healthz"))

    def ready(self) -> bool:
        """Return True if the server's database answers."""
        return self._repeat(self._status("/readyz", 503))

    def metrics(self) -> str:
        """Return the metrics of the server in the format of Prometheus."""
        return self._repeat(self._get("/metrics", bytes.decode))

    def events(self, after: int | None = None, *, seconds: float | None = None) -> Iterator[LiveEvent]:
        """Yield events as they happen, after a given one or from now on, until the server ends the stream.

        Raises `StoreAway` if the connection is lost; continue with `after` set to the last event.
        """
        lines = EventLines()
        try:
            with self._http.stream(**self._listening(after, seconds)) as answer:
                if answer.status_code >= 400:
                    raise error_of(answer.status_code, answer.read())
                for line in answer.iter_lines():
                    if (event := lines.read(line)) is not None:
                        yield event
        except self._httpx.TransportError as error:
            raise _away(error) from error

    def close(self) -> None:
        """Close the connections; calling it twice is harmless."""
        self._http.close()


class AsyncClient(_Http, AsyncMethods):
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
        """Take the same arguments as `Client`."""
        super().__init__(url, key, agent, plaintext, timeout, new_key)
        self._http = http or self._httpx.AsyncClient(timeout=timeout)
        self._sleep = sleep

    async def _attempt(self, sent: HttpRequest) -> Any:
        try:
            return self._answer(sent, await self._http.request(**self._given(sent)))
        except self._httpx.TransportError as error:
            return Failed(_away(error), unknown=True)

    async def _export(self, query: ExportQuery) -> bytes:
        return await self._repeat(self._exporting(query))

    async def _import(self, file: bytes | Path, options: ImportOptions) -> ImportReport:
        content = await asyncio.to_thread(_bytes, file)
        return await self._repeat(self._importing(content, options))

    async def healthy(self) -> bool:
        """Return True if the server runs."""
        return await self._repeat(self._status("/healthz"))

    async def ready(self) -> bool:
        """Return True if the server's database answers."""
        return await self._repeat(self._status("/readyz", 503))

    async def metrics(self) -> str:
        """Return the metrics of the server in the format of Prometheus."""
        return await self._repeat(self._get("/metrics", bytes.decode))

    async def events(self, after: int | None = None, *, seconds: float | None = None) -> AsyncIterator[LiveEvent]:
        """Yield events as they happen, after a given one or from now on, until the server ends the stream.

        Raises `StoreAway` if the connection is lost; continue with `after` set to the last event.
        """
        lines = EventLines()
        try:
            async with self._http.stream(**self._listening(after, seconds)) as answer:
                if answer.status_code >= 400:
                    raise error_of(answer.status_code, await answer.aread())
                async for line in answer.aiter_lines():
                    if (event := lines.read(line)) is not None:
                        yield event
        except self._httpx.TransportError as error:
            raise _away(error) from error

    async def close(self) -> None:
        """Close the connections; calling it twice is harmless."""
        await self._http.aclose()


class EventLines:
    """A parser of server-sent events, line by line."""

    def __init__(self) -> None:
        self._data = ""

    def read(self, line: str) -> LiveEvent | None:
        """Return the event that ends with this line, or `None`."""
        if line:
            name, _, value = line.partition(":")
            self._data = value.strip() if name == "data" else self._data
            return None
        data, self._data = self._data, ""
        return LiveEvent.model_validate_json(data) if data else None


def _address(httpx: Any, url: str, plaintext: bool) -> str:
    """Validate the URL of a server. Raises `InvalidInput` for an invalid one, or if the key would be unencrypted."""
    try:
        where = httpx.URL(url)
    except httpx.InvalidURL:
        where = httpx.URL("")
    if where.scheme not in {"http", "https"} or not where.host:
        raise InvalidInput("this is not the address of a server; it begins with `https://` or `http://`")
    if where.scheme == "http" and not plaintext and not is_loopback(where.host):
        raise InvalidInput("the key would be sent unencrypted; give `https://`, or `plaintext=True` to allow that")
    return url.rstrip("/")


def _away(error: Exception) -> StoreAway:
    away = StoreAway(f"the server does not answer ({type(error).__name__}); is it running, and is the address right?")
    away.__cause__ = error
    return away


def _httpx() -> Any:
    try:
        import httpx  # noqa: PLC0415 - an optional package
    except ImportError as error:
        raise MissingExtra("httpx is not installed; pip install 'engram-learning[client]'") from error
    return httpx
