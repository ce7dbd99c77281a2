"""Logging of the server: one line for each request, with its id and without its content."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any, Literal

from engram.clock import Sources
from engram.server.rest.middleware import request_id

LogFormat = Literal["text", "json"]


def line_of(record: logging.LogRecord, at: str, form: LogFormat) -> str:
    """Format a record as one line, as JSON or as text."""
    said: dict[str, Any] = {
        "at": at,
        "level": record.levelname.lower(),
        "message": record.getMessage(),
        "request_id": request_id.get(),
        **getattr(record, "told", {}),
    }
    if form == "json":
        return json.dumps(said)
    first = " ".join(str(said.pop(name)) for name in ("at", "level", "message"))
    rest = (f"{name}={json.dumps(value) if isinstance(value, list) else value}" for name, value in said.items())
    return " ".join([first, *(part for part in rest if not part.endswith("="))]).replace("\n", " ")


class Lines(logging.Handler):
    """A log handler that writes one line for each record."""

    def __init__(self, write: Callable[[str], object], sources: Sources, form: LogFormat) -> None:
        super().__init__()
        self._write = write
        self._sources = sources
        self._form: LogFormat = form

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line."""
        self._write(line_of(record, self._sources.now().isoformat(timespec="milliseconds"), self._form) + "\n")


def log_to(write: Callable[[str], object], sources: Sources, form: LogFormat) -> None:
    """Configure logging of this process; of uvicorn, only warnings."""
    for name in ("engram", "uvicorn.error"):
        log = logging.getLogger(name)
        log.setLevel(logging.INFO if name == "engram" else logging.WARNING)
        log.addHandler(Lines(write, sources, form))
        log.propagate = False
