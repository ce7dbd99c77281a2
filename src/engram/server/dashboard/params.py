"""One look at the dashboard: who looks, at which agent, with which parameters, and how the answer is rendered."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Hashable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import date, datetime
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar, cast
from urllib.parse import urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from engram import __version__
from engram.api.call import Call
from engram.engine import AgentHandle, Engram
from engram.errors import InvalidInput, NotAllowed, NotFound
from engram.learning.decisions.comparisons import certainty
from engram.model.api_key import EVERYONE, Right
from engram.ports import Scope, arguments, reserved
from engram.server.dashboard import charts
from engram.server.dashboard.sessions import Session, Sessions

T = TypeVar("T")
HOME = "/dashboard"
SEE_OTHER = 303
KEPT = 20.0
"""What took a second to find out is shown for so many seconds before it is found out again."""
MOST_KEPT = 500
PATIENCE = 0.4
"""Seconds that a page waits for what is found out aside."""
NOTHING = "'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='"
"""The hash of an empty text: plotly puts an empty style into the page, and fills it by script."""
SAFE = {
    "Content-Security-Policy": (
        f"default-src 'self'; script-src 'self'; style-src 'self' {NOTHING}; img-src 'self' data:; connect-src 'self'; "
        "object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
    "Referrer-Policy": "same-origin",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
}
"""The headers of every page: nothing from elsewhere, no script and no style within a page, no page within another."""


@dataclass(slots=True)
class Kept:
    """What was found out a moment ago, so that looking again costs nothing; the longer it took, the longer it stays."""

    clock: Callable[[], float] = time.monotonic
    patience: float = PATIENCE
    _values: dict[Hashable, tuple[float, Any]] = field(default_factory=dict)
    _running: dict[Hashable, Future[Any]] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)
    _aside: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, "engram-dashboard"))

    def get(self, key: Hashable, find: Callable[[], T]) -> T:
        """The value of a key, found out anew if it is too old."""
        began = self.clock()
        with self._lock:
            until, value = self._values.get(key, (began, None))
        if until > began:
            return cast(T, value)
        found = find()
        ended = self.clock()
        with self._lock:
            if len(self._values) >= MOST_KEPT:
                self._values.clear()
            self._values[key] = (ended + KEPT * (ended - began), found)
        return found

    def soon(self, *wanted: tuple[Hashable, Callable[[], Any]]) -> list[Any]:
        """The same of several keys, but nobody waits for long: until one is found out, its older value, or `None`."""
        until, found = time.monotonic() + self.patience, list[Any]()
        started = [self.start(key, find) for key, find in wanted]
        for running, old in started:
            try:
                found.append(running.result(max(0.0, until - time.monotonic())))
            except TimeoutError:
                found.append(old)
        return found

    def start(self, key: Hashable, find: Callable[[], Any]) -> tuple[Future[Any], Any]:
        """Begin to find something out aside, unless somebody did; what becomes of it, and its older value."""
        with self._lock:
            _, old = self._values.get(key, (0.0, None))
        return self.aside(key, lambda: self.get(key, find)), old

    def aside(self, key: Hashable, act: Callable[[], T]) -> Future[T]:
        """Do something aside, unless it is being done."""
        with self._lock:
            running = self._running.get(key)
            if running is None or running.done():
                running = self._running[key] = self._aside.submit(act)
        return running


def environment() -> Environment:
    """The templates: everything that is put into one is escaped."""
    pages = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    pages.filters |= {"moment": _moment, "share": _share, "number": _number, "bytes": _bytes}
    pages.filters |= {"chance": certainty, "short": _short, "plain": _plain}
    pages.globals |= {"home": HOME, "version": __version__}
    pages.globals |= {"plotly": charts.plotly_version(), "plotly_styles": charts.plotly_styles}
    return pages


@dataclass(slots=True)
class Board:
    """What all looks share."""

    brain: Engram
    sessions: Sessions
    stopping: asyncio.Event
    poll_seconds: float
    good: Callable[[str], bool]
    """Whether a key is still good, by its id."""
    kept: Kept = field(default_factory=Kept)
    growth: dict[str, tuple[int, dict[date, tuple[int, int]]]] = field(default_factory=dict)
    """For each agent, up to which write its memories were counted by day, and how many came and went."""
    counting: Lock = field(default_factory=Lock)
    pages: Environment = field(default_factory=environment)


@dataclass(slots=True)
class Asking:
    """One request of somebody who is signed in."""

    board: Board
    request: Request
    session: Session
    form: Mapping[str, str] = field(default_factory=dict)
    """What was posted; empty for a page that is only looked at."""
    _names: list[str] | None = None

    @property
    def brain(self) -> Engram:
        """The memory that is looked at."""
        return self.board.brain

    @property
    def names(self) -> list[str]:
        """The agents that may be looked at."""
        if self._names is None:
            self._names = Call(self.brain, self.session.key).agents()
        return self._names

    @property
    def everywhere(self) -> bool:
        """Whether the key is for all agents, so that what is about the whole database may be shown."""
        return EVERYONE in self.session.key.agents

    @property
    def agent(self) -> AgentHandle:
        """The agent that is looked at: the one that is named, or the first. Raises `NotFound`."""
        name = self.exact("agent") or self.shown
        if name not in self.names or reserved(name):
            raise NotFound("there is no such agent here; choose another one")
        return self.brain.agent(name)

    @property
    def shown(self) -> str:
        """The agent that links lead to: the one that is named, if it is there, or the first; empty if there is none."""
        name = self.exact("agent")
        return name if name in self.names else next(iter(self.names), "")

    @property
    def scope(self) -> Scope:
        """The scope of the agent that is looked at."""
        return Scope(self.agent.name)

    def needs(self, right: Right) -> None:
        """Raise `NotAllowed` if the key does not have a right."""
        if not self.session.key.has_right(right):
            raise NotAllowed(f"your key has no right to {right}; sign in with one that has")

    def exact(self, name: str) -> str:
        """A parameter, or what was posted under this name; empty if it is not there."""
        return (self.form.get(name) if self.form else self.request.query_params.get(name)) or ""

    def text(self, name: str) -> str:
        """The same as somebody types it: spaces around it mean nothing."""
        return self.exact(name).strip()

    def number(self, name: str, usual: float, least: float, most: float) -> float:
        """A number within limits; the usual one if it is not given. Raises `InvalidInput`."""
        said = self.text(name)
        try:
            value = float(said) if said else usual
        except ValueError:
            raise InvalidInput(f"{name} must be a number") from None
        if not least <= value <= most:
            raise InvalidInput(f"{name} must be a number from {least:g} to {most:g}")
        return value

    def count(self, name: str, usual: int, least: int, most: int) -> int:
        """A whole number within limits. Raises `InvalidInput`."""
        return int(self.number(name, usual, least, most))

    def moment(self, name: str) -> datetime | None:
        """A time, or `None`. Raises `InvalidInput`."""
        return arguments.moment(name, self.text(name) or None)

    def link(self, page: str, **parameters: object) -> str:
        """Where a page is, for the agent that is looked at unless another is given."""
        usual = {"agent": self.shown}
        given = {name: value for name, value in (usual | parameters).items() if value not in (None, "", ())}
        query = urlencode({name: _given(value) for name, value in given.items()}, doseq=True)
        return f"{HOME}/{page}" + (f"?{query}" if query else "")

    def page(self, template: str, status: int = 200, **values: Any) -> Response:
        """A page, rendered."""
        told = {
            "agent": self.shown,
            "agents": self.names[:MOST_KEPT],
            "here": template.removesuffix(".html"),
            "key": self.session.key,
            "csrf": self.session.csrf,
            "link": self.link,
            "everywhere": self.everywhere,
            "now": self.brain.sources.now(),
        }
        return answered(self.board.pages.get_template(template).render(told | values), status)

    def back(self, page: str, **parameters: object) -> Response:
        """Send the browser to another page, after something was posted."""
        return RedirectResponse(self.link(page, **parameters), SEE_OTHER, SAFE)


def answered(text: str, status: int = 200) -> Response:
    """A page with the headers that all have."""
    return HTMLResponse(text, status, SAFE)


def found(value: T | None, what: str) -> T:
    """The value, if there is one. Raises `NotFound`."""
    if value is None:
        raise NotFound(f"there is no such {what} here")
    return value


def _given(value: object) -> object:
    if isinstance(value, datetime):
        return value.isoformat()
    return [str(each) for each in value] if isinstance(value, list | tuple) else str(value)


def _moment(value: datetime | None) -> str:
    return "–" if value is None else value.strftime("%Y-%m-%d %H:%M:%S")


def _share(value: float | None, digits: int = 0) -> str:
    return "–" if value is None else f"{value:.{digits}%}"


def _number(value: float | None, digits: int = 0) -> str:
    return "–" if value is None else f"{value:,.{digits}f}"


def _short(text: str, most: int = 240) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _plain(value: object) -> str:
    """A value as somebody would write it: a text as it is, nothing as nothing, all else as JSON."""
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value, ensure_ascii=False, default=dict)


def _bytes(size: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000 or unit == "GB":
            break
        size /= 1000
    return f"{size:,.0f} {unit}" if unit == "B" else f"{size:,.1f} {unit}"
