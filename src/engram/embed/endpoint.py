"""Embed through an OpenAI-compatible `/embeddings` endpoint, local or remote: the texts leave this process."""

from __future__ import annotations

import json
import os
import re
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from http.client import HTTPException, HTTPResponse, IncompleteRead
from typing import Annotated, NamedTuple
from urllib.error import HTTPError, URLError
from urllib.parse import parse_qsl, urlsplit
from urllib.request import (
    HTTPDefaultErrorHandler,
    HTTPErrorProcessor,
    HTTPHandler,
    HTTPSHandler,
    OpenerDirector,
    ProxyHandler,
    Request,
)

import numpy as np
from pydantic import BaseModel, ConfigDict, FailFast, ValidationError

from engram.clock import Sources, aware
from engram.errors import InvalidInput, ModelError, ModelUnavailable
from engram.model import Clean, describe_error
from engram.ports import Matrix, Purpose

LONGEST_TEXT = 8000
"""Bytes of a text that are sent: no tokenizer makes more of them than the 8192 tokens OpenAI's models accept."""

LONGEST_PAUSE = 60.0
_FIRST_PAUSE = 0.5
_MAX_DIM = 65536
_CHUNK = 1 << 16
_EXAMPLE = "openai:text-embedding-3-small@https://api.openai.com/v1"
_ARGUMENT = re.compile(r"(?P<model>.+?)@(?P<url>[a-z][a-z0-9+.-]*://.*)", re.IGNORECASE)
_RESET = (ConnectionResetError, ConnectionAbortedError, BrokenPipeError, IncompleteRead)


@dataclass(frozen=True, slots=True)
class EndpointLimits:
    """Sizes of requests, retries and timeouts."""

    texts: int = 32  # in one request; some servers take no more
    characters: int = 100_000  # in one request, unless a single text is longer
    in_flight: int = 4
    timeout: float = 30.0  # seconds, for one try
    tries: int = 4
    answer: int = 16 << 20  # bytes; 32 vectors of 16,000 dimensions


_LIMITS = EndpointLimits()


class _Row(BaseModel):
    model_config = ConfigDict(strict=True, allow_inf_nan=False)

    index: int
    embedding: Annotated[list[float], FailFast()]


class _Answer(BaseModel):
    data: Annotated[list[_Row], FailFast()]


class _TemporaryError(ModelUnavailable):
    """An error worth a retry, not before `wait` seconds have passed."""

    def __init__(self, message: str, wait: float | None = None) -> None:
        super().__init__(message)
        self.wait = wait


class EndpointEmbedder:
    """Embeds through `URL/embeddings`; safe for any number of threads, with few requests at a time.

    Nothing is sent before the first use. The key appears in no message.
    """

    def __init__(
        self,
        model: str,
        url: str,
        key: str | None = None,
        *,
        dim: int | None = None,
        longest: int = LONGEST_TEXT,
        limits: EndpointLimits = _LIMITS,
        sources: Sources | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._model, self._key, self._longest, self._limits = model, key or "", longest, limits
        self._asked_dim = self._dim = dim
        self._address = _address(url)
        self._headers = _headers(self._key)
        self._opener = _opener(self._address.scheme)
        self._sources, self._sleep = sources or Sources(), sleep
        self._learning = threading.Lock()
        self._slots: dict[int, threading.Semaphore] = {}  # by process: nobody would release one inherited by a fork

    @property
    def identity(self) -> str:
        """The model, the address and the options, such as `openai:MODEL@api.openai.com/v1#dim=256`."""
        asked = {"dim": self._asked_dim, "bytes": self._longest if self._longest != LONGEST_TEXT else None}
        marks = ",".join(f"{name}={value}" for name, value in asked.items() if value is not None)
        return f"openai:{self._model}@{self._address.place}" + (f"#{marks}" if marks else "")

    @property
    def dim(self) -> int:
        """The length of every vector; asks the endpoint if it is unknown."""
        if self._dim is None:
            self._embed(["dimensions"])
        return self._dim or 0

    def embed(self, texts: Sequence[Clean], purpose: Purpose = "document") -> Matrix:
        """Return one row per text, in order; texts are cut at the longest length. Raises `ModelError`."""
        return self._embed([_sendable(text, self._longest) for text in texts])

    def _embed(self, texts: Sequence[str]) -> Matrix:
        if not texts:
            return np.zeros((0, self.dim), dtype=np.float32)
        batches = list(_batches(texts, self._limits))
        if len(batches) == 1:
            return self._embed_batch(batches[0])
        with ThreadPoolExecutor(min(self._limits.in_flight, len(batches)), "engram-embed") as pool:
            return np.concatenate(list(pool.map(self._embed_batch, batches)))

    def _embed_batch(self, texts: Sequence[str]) -> Matrix:
        """Return the vectors of one batch, retrying temporary errors."""
        fields: dict[str, object] = {"model": self._model, "input": texts, "encoding_format": "float"}
        if self._asked_dim is not None:
            fields["dimensions"] = self._asked_dim
        body = json.dumps(fields).encode()
        tried = 0
        while True:
            tried += 1
            try:
                return self._rows(self._post(body), len(texts))
            except _TemporaryError as trouble:
                pause = self._pause(tried, trouble.wait)
                if tried >= self._limits.tries or pause > LONGEST_PAUSE:
                    raise ModelUnavailable(f"{trouble}; tried {tried} times, try again later") from trouble
                self._sleep(pause)

    def _pause(self, tried: int, wait: float | None) -> float:
        chance = self._sources.random.random()
        return wait + _FIRST_PAUSE * chance if wait is not None else _FIRST_PAUSE * 2 ** (tried - 1) * (0.5 + chance)

    def _post(self, body: bytes) -> bytes:
        request = Request(self._address.url + "/embeddings", body, self._headers)  # noqa: S310 - http or https only
        gate = self._slots.setdefault(os.getpid(), threading.Semaphore(self._limits.in_flight))
        with gate:
            deadline = time.monotonic() + self._limits.timeout
            try:
                with self._opener.open(request, timeout=self._limits.timeout) as response:
                    return self._read(response, deadline)
            except HTTPError as error:
                with error:
                    raise self._status_error(error) from error
            except (OSError, HTTPException) as error:
                raise self._connection_error(error) from error

    def _read(self, response: HTTPResponse, deadline: float) -> bytes:
        answer = bytearray()
        while chunk := response.read1(_CHUNK):
            answer += chunk
            if len(answer) > self._limits.answer:
                raise ModelError(f"{self._host} answered with more than {self._limits.answer} bytes; check the address")
            if time.monotonic() > deadline:
                raise TimeoutError
        if response.length:
            raise IncompleteRead(b"", response.length)
        return bytes(answer)

    def _status_error(self, error: HTTPError) -> ModelError:
        """Return the error for an answer other than 200."""
        status, who = error.code, f"{self._host} answered {error.code}"
        if status in (401, 403):
            lack = "it does not accept the key" if self._key else "it wants a key"
            return ModelUnavailable(f"{who}: {lack}; set the right one as embedder_key")
        if 300 <= status < 400:
            target = self._sanitise(str(error.headers.get("Location", "elsewhere")).partition("?")[0])
            return ModelUnavailable(f"{who}: it has moved to {target}; if you trust that, set it as the address")
        said = self._sanitise(_error_message(error))
        if status == 429 or status >= 500:
            return _TemporaryError(f"{who}: {said}", self._retry_after(error.headers.get("Retry-After")))
        if status == 404:
            return ModelUnavailable(f"{who}: {said}; check the address, which often ends in /v1, and the model's name")
        return ModelError(f"{who}: {said}; if a text is too long for the model, add ?bytes=2000 to the address")

    def _connection_error(self, error: OSError | HTTPException) -> ModelError:
        """Return the error for no answer."""
        reason = error.reason if isinstance(error, URLError) else error
        if isinstance(reason, TimeoutError):
            seconds = f"{self._limits.timeout:g} seconds"
            return ModelUnavailable(f"{self._host} did not answer within {seconds}; see whether it is overloaded")
        if isinstance(reason, _RESET):
            return _TemporaryError(f"{self._host} broke the connection off")
        said = self._sanitise(str(reason) or type(reason).__name__)
        return ModelUnavailable(f"{self._host} cannot be reached: {said}; check the address and that it is running")

    def _retry_after(self, header: str | None) -> float | None:
        """Return the seconds a Retry-After header asks for, given as a number or as a date."""
        if header is None:
            return None
        if header.strip().isdecimal():
            return float(header)
        try:
            return max(0.0, (aware(parsedate_to_datetime(header)) - self._sources.now()).total_seconds())
        except ValueError:  # neither: treated as missing
            return None

    def _rows(self, answer: bytes, expected: int) -> Matrix:
        try:
            data = _Answer.model_validate_json(answer).data
        except ValidationError as error:
            raise self._bad_answer(self._sanitise(describe_error(error))) from None
        if len(data) != expected:
            raise self._bad_answer(f"{len(data)} vectors for {expected} texts")
        rows = {row.index: row.embedding for row in data}
        if rows.keys() != set(range(expected)):
            raise self._bad_answer("vectors whose numbers do not match the texts")
        self._check_dimensions({len(row) for row in rows.values()})
        matrix = np.array([rows[index] for index in range(expected)], dtype=np.float64)
        with np.errstate(over="ignore"):
            lengths = np.linalg.norm(matrix, axis=1, keepdims=True)
        if not np.all(np.isfinite(lengths) & (lengths > 0)):
            raise self._bad_answer("a zero or non-finite vector")
        return np.asarray(matrix / lengths, dtype=np.float32)

    def _check_dimensions(self, found: set[int]) -> None:
        with self._learning:
            if self._dim is None and len(found) == 1 and 1 <= max(found) <= _MAX_DIM:
                self._dim = max(found)
            if found != {self._dim}:
                listed = " and ".join(map(str, sorted(found)))
                wanted = f", not {self._dim}" if self._dim else ""
                raise self._bad_answer(f"vectors of {listed} dimensions{wanted}")

    def _bad_answer(self, what: str) -> ModelError:
        return ModelError(f"{self._host} answered with {what}; check the address, and that it serves {self._model}")

    @property
    def _host(self) -> str:
        return self._address.place.partition("/")[0]

    def _sanitise(self, text: str) -> str:
        """Return a foreign message, short, on one line, and without the key."""
        hidden = text.replace(self._key, "…") if self._key else text
        return " ".join("".join(c if c.isprintable() else " " for c in hidden).split())[:300]


def openai(argument: str, key: str | None = None) -> EndpointEmbedder:
    """Return the embedder for `openai:MODEL@URL`, with optional `?dim=N` and `?bytes=N`. Raises `InvalidInput`."""
    found = _ARGUMENT.fullmatch(argument)
    if found is None:
        raise InvalidInput(f"an endpoint is given as openai:MODEL@URL, such as {_EXAMPLE}")
    url, _, query = found["url"].partition("?")
    options: dict[str, int] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name not in ("dim", "bytes") or not value.isdecimal() or not 1 <= int(value) <= _MAX_DIM:
            raise InvalidInput(f"an endpoint takes ?dim=N and ?bytes=N, N from 1 to {_MAX_DIM}, and nothing else")
        options[name] = int(value)
    dim, longest = options.get("dim"), options.get("bytes", LONGEST_TEXT)
    return EndpointEmbedder(found["model"], url, key, dim=dim, longest=longest)


class _Address(NamedTuple):
    scheme: str
    url: str
    place: str


def _address(url: str) -> _Address:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError as error:
        raise InvalidInput(f"the endpoint's address cannot be read: {error}; write it like {_EXAMPLE}") from None
    if parts.scheme not in ("http", "https") or not host:
        raise InvalidInput(f"an endpoint's address begins with http:// or https:// and a host, such as {_EXAMPLE}")
    if "@" in parts.netloc:
        raise InvalidInput("an endpoint's address holds no user or password; set the key as embedder_key")
    if parts.query or parts.fragment or not re.fullmatch(r"[!-~]+", url):
        raise InvalidInput(f"an endpoint's address is a host and a path in ASCII, such as {_EXAMPLE}")
    host = f"[{host}]" if ":" in host else host
    if port not in (None, {"http": 80, "https": 443}[parts.scheme]):
        host = f"{host}:{port}"
    place = host + parts.path.rstrip("/").removesuffix("/embeddings")
    return _Address(parts.scheme, f"{parts.scheme}://{place}", place)


def _headers(key: str) -> dict[str, str]:
    if not re.fullmatch(r"[!-~]*", key):
        raise InvalidInput("the embedder's key has invalid characters; copy it again, without line breaks")
    known = {"Content-Type": "application/json", "Accept": "application/json", "User-Agent": "engram"}
    return known | ({"Authorization": f"Bearer {key}"} if key else {})


def _opener(scheme: str) -> OpenerDirector:
    """Return an opener for http and https that uses the system's proxy and follows no redirect, to protect the key."""
    opener = OpenerDirector()
    for handler in (ProxyHandler(), HTTPHandler(), HTTPErrorProcessor(), HTTPDefaultErrorHandler()):
        opener.add_handler(handler)
    if scheme == "https":
        opener.add_handler(HTTPSHandler(context=ssl.create_default_context()))
    return opener


def _sendable(text: str, longest: int) -> str:
    """Return the beginning of a text, never empty, which endpoints refuse."""
    beginning = text.encode("utf-8", "replace")[:longest].decode("utf-8", "ignore")
    return beginning if beginning.strip() else "."


def _batches(texts: Sequence[str], limits: EndpointLimits) -> Iterator[list[str]]:
    batch: list[str] = []
    weight = 0
    for text in texts:
        if batch and (len(batch) == limits.texts or weight + len(text) > limits.characters):
            yield batch
            batch, weight = [], 0
        batch.append(text)
        weight += len(text)
    yield batch


def _error_message(error: HTTPError) -> str:
    """Return the message of an error response; at least the name of the status."""
    try:
        said = error.read(_CHUNK).decode("utf-8", "replace")
    except (OSError, HTTPException):  # the status is known anyway
        return error.reason
    try:
        inner = json.loads(said)["error"]
        return str(inner["message"] if isinstance(inner, dict) else inner)
    except (ValueError, KeyError, TypeError, RecursionError):  # another format: shown as it is
        return said.strip() or error.reason
