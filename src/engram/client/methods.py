"""What the clients of every door share: methods made of calls, what callers may give, and which error a code is."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from engram import errors
from engram.errors import EngramError, InvalidInput
from engram.model import Draft

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
Item = str | Draft | Mapping[str, Any]
"""What can be remembered."""
Texts = str | Iterable[str]

ERRORS: dict[str, type[EngramError]] = {
    kind.code: kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, EngramError)
}
"""Every error, by its code."""


class Answered(Protocol[R_co]):
    """A call, as far as it says what its answer means."""

    @property
    def read(self) -> Callable[[Any], R_co]:
        """What is made of the answer."""
        ...


def waiting(build: Callable[P, Answered[R]]) -> Callable[Concatenate[Any, P], R]:
    """A method of a client that makes a call and waits for its answer."""

    def method(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
        done: R = self.send(build(*args, **kwargs))
        return done

    method.__name__, method.__doc__ = build.__name__, build.__doc__
    return method


def awaited(build: Callable[P, Answered[R]]) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, R]]:
    """The same with `await`."""

    async def method(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
        done: R = await self.send(build(*args, **kwargs))
        return done

    method.__name__, method.__doc__ = build.__name__, build.__doc__
    return method


def several(texts: Any) -> Any:
    """One text as a row of one, several as they are; what is neither is left to whoever checks it."""
    return (texts,) if isinstance(texts, str) else tuple(texts) if isinstance(texts, Iterable) else texts


def error_text(error: str | BaseException) -> str:
    """An error as it is sent: an exception with where it came from."""
    return "".join(traceback.format_exception(error)) if isinstance(error, BaseException) else error


def drafted(item: Item, fields: Mapping[str, Any]) -> dict[str, Any]:
    """What is to be remembered, with what is said of all; tags add up. Raises `InvalidInput` for what is neither."""
    own = item.model_dump(exclude_unset=True) if isinstance(item, Draft) else item
    if not isinstance(own, str | Mapping):
        raise InvalidInput(f"only text and drafts can be remembered, not {type(item).__name__}")
    given: dict[str, Any] = {"text": own} if isinstance(own, str) else dict(own)
    tags = (
        {"tags": (*several(given["tags"]), *several(fields["tags"]))} if given.keys() & fields.keys() & {"tags"} else {}
    )
    both = {**given, **fields, **tags}
    return both | {"tags": several(both["tags"])} if "tags" in both else both


def sendable_key(key: str) -> str:
    """A key that can be sent. Raises `InvalidInput`, since one with a line end is refused on the way, not there."""
    if not (isinstance(key, str) and key.isascii() and key.isprintable()):
        raise InvalidInput("the key has characters that no key has, such as the end of a line; copy it again")
    return key
