"""The methods of the clients, made from the operations; `methods.pyi`, which `make stubs` writes, has their types."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any

from engram.api.requests import ImportOptions
from engram.client.calls import METHODS, Method, build, export_query, remember, remember_batch
from engram.client.sending import AsyncSender, Sender
from engram.model import Draft


class Methods(Sender):
    """The methods of the library, as calls to the server."""

    def remember(self, text: Any, **fields: Any) -> Any:
        """Store one memory, or several in one transaction; return receipts in order, after the commit."""
        if isinstance(text, str | Draft | Mapping):
            return self._send(remember(text, fields))
        return self._send(remember_batch(text, fields)) if text else []

    def export_knowledge(self, *, domains: Any = (), tags: Any = (), form: Any = "json") -> Any:
        """Export the agent's knowledge, or a part of it by domains and tags, as a file for importing elsewhere."""
        return self._export(export_query(domains, tags, form))

    def import_knowledge(self, file: Any, *, format: Any = None, dry_run: Any = False, large: Any = False) -> Any:
        """Import a file that Engram or another program wrote; importing it again changes nothing.

        `large` allows a file with very many records, which may take long.
        """
        return self._import(file, build(ImportOptions, {"format": format, "dry_run": dry_run, "large": large}))


class AsyncMethods(AsyncSender):
    """The methods of the library, with `await`."""

    async def remember(self, text: Any, **fields: Any) -> Any:
        """Store one memory, or several in one transaction; return receipts in order, after the commit."""
        if isinstance(text, str | Draft | Mapping):
            return await self._send(remember(text, fields))
        return await self._send(remember_batch(text, fields)) if text else []

    async def export_knowledge(self, *, domains: Any = (), tags: Any = (), form: Any = "json") -> Any:
        """Export the agent's knowledge, or a part of it by domains and tags, as a file for importing elsewhere."""
        return await self._export(export_query(domains, tags, form))

    async def import_knowledge(self, file: Any, *, format: Any = None, dry_run: Any = False, large: Any = False) -> Any:
        """Import a file that Engram or another program wrote; importing it again changes nothing.

        `large` allows a file with very many records, which may take long.
        """
        return await self._import(file, build(ImportOptions, {"format": format, "dry_run": dry_run, "large": large}))


def _waiting(described: Method) -> Callable[..., Any]:
    def method(self: Methods, /, *given: Any, **named: Any) -> Any:
        return self._send(described.request(*given, **named))

    return _described(method, described)


def _awaited(described: Method) -> Callable[..., Any]:
    async def method(self: AsyncMethods, /, *given: Any, **named: Any) -> Any:
        return await self._send(described.request(*given, **named))

    return _described(method, described)


def _described(method: Any, described: Method) -> Callable[..., Any]:
    method.__name__, method.__doc__ = described.name, described.operation.function.__doc__
    method.__signature__ = described.signature
    return method  # type: ignore[no-any-return]


def deprecated(old: str, new: str) -> Callable[..., Any]:
    """Make a deprecated method that warns and calls the renamed one."""

    def method(self: Any, /, *given: Any, **named: Any) -> Any:
        warnings.warn(f"`{old}` is now called `{new}`", DeprecationWarning, stacklevel=2)
        return getattr(self, new)(*given, **named)

    method.__name__, method.__doc__ = old, f"Deprecated: the old name of `{new}`."
    return method


for _name, _method in METHODS.items():
    setattr(Methods, _name, _waiting(_method))
    setattr(AsyncMethods, _name, _awaited(_method))
