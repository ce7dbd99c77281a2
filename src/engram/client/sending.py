"""Send requests, and retry those that are safe to repeat if the server is busy or does not answer."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from engram.api.requests import ExportQuery, ImportOptions
from engram.client.calls import Request
from engram.errors import EngramError, InvalidInput
from engram.model.transfer import ImportReport

R = TypeVar("R")
TRIES = 4
LONGEST_PAUSE = 10.0


@dataclass(frozen=True, slots=True)
class Prepared(Generic[R]):
    """A request as a transport sends it, with a function that converts its response."""

    sent: Any
    repeatable: bool
    """True if it may be retried although it was perhaps carried out."""
    read: Callable[[Any], R]
    failed: Callable[[EngramError], R]
    """Convert an error to a result, or raise it."""


@dataclass(frozen=True, slots=True)
class Failed:
    """An attempt that failed."""

    error: EngramError
    refused: bool = False
    """The rate limit was exceeded; nothing was carried out."""
    unknown: bool = False
    """It is unknown whether it was carried out."""
    after: float = 0.0
    """Seconds to wait that the server asks for."""


class Transport:
    """The part of sending that does no I/O."""

    _new_key: Callable[[], str]

    def _prepare(self, request: Request[R]) -> Prepared[R]:
        raise NotImplementedError

    @staticmethod
    def _pause(prepared: Prepared[Any], tries: int, failed: Failed) -> float | None:
        """Return the seconds to wait before a retry; `None` for no retry."""
        if tries >= TRIES or not (failed.refused or (failed.unknown and prepared.repeatable)):
            return None
        return min(max(failed.after, 0.1 * (1 << tries)), LONGEST_PAUSE)


class Sender(Transport):
    """Send requests, and wait for their responses."""

    _sleep: Callable[[float], None]

    def _export(self, query: ExportQuery) -> bytes:
        """Return a knowledge file."""
        raise NotImplementedError

    def _import(self, file: bytes | Path, options: ImportOptions) -> ImportReport:
        """Send a knowledge file."""
        raise NotImplementedError

    def close(self) -> None:
        """Close the connections; calling it twice is harmless."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _attempt(self, sent: Any) -> Any:
        """Send it once, and return the response or `Failed`."""
        raise NotImplementedError

    def _send(self, request: Request[R]) -> R:
        return self._repeat(self._prepare(request))

    def _repeat(self, prepared: Prepared[R]) -> R:
        tries = 1
        while isinstance(answer := self._attempt(prepared.sent), Failed):
            if (wait := self._pause(prepared, tries, answer)) is None:
                return prepared.failed(answer.error)
            self._sleep(wait)
            tries += 1
        return prepared.read(answer)


class AsyncSender(Transport):
    """`Sender` with `await`."""

    _sleep: Callable[[float], Awaitable[None]]

    async def _export(self, query: ExportQuery) -> bytes:
        """Return a knowledge file."""
        raise NotImplementedError

    async def _import(self, file: bytes | Path, options: ImportOptions) -> ImportReport:
        """Send a knowledge file."""
        raise NotImplementedError

    async def close(self) -> None:
        """Close the connections; calling it twice is harmless."""
        raise NotImplementedError

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _attempt(self, sent: Any) -> Any:
        """Send it once, and return the response or `Failed`."""
        raise NotImplementedError

    async def _send(self, request: Request[R]) -> R:
        return await self._repeat(self._prepare(request))

    async def _repeat(self, prepared: Prepared[R]) -> R:
        tries = 1
        while isinstance(answer := await self._attempt(prepared.sent), Failed):
            if (wait := self._pause(prepared, tries, answer)) is None:
                return prepared.failed(answer.error)
            await self._sleep(wait)
            tries += 1
        return prepared.read(answer)


def new_key() -> str:
    """Make an idempotency key."""
    return uuid.uuid4().hex


def check_key(key: str) -> str:
    """Validate an API key. Raises `InvalidInput`, such as for a line break, which HTTP headers cannot contain."""
    if not (isinstance(key, str) and key.isascii() and key.isprintable()):
        raise InvalidInput("the key has characters that no key has, such as the end of a line; copy it again")
    return key


def check_text(text: str, what: str) -> str:
    """Validate a text to be sent. Raises `InvalidInput`."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        flaw = f"half of a surrogate pair at position {error.start}"
        raise InvalidInput(f"{what} has {flaw}, and cannot be sent; decode it properly first") from None
    return text
