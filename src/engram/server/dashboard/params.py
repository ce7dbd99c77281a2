"""A request for a page of the dashboard: user, agent and parameters; caching and rendering."""

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
from engram.learning.decisions.suggestions import certainty
from engram.model.api_key import EVERYONE, Right
from engram.ports import Scope, arguments, reserved
from engram.server.dashboard import charts
from engram.server.dashboard.sessions import Session, SignInSessions

T = TypeVar("T")
HOME = "/dashboard"
SEE_OTHER = 303
KEEP_FACTOR = 20.0
"""A result is kept for this many times the seconds that computing it took."""
MAX_KEPT = 500
MAX_WAIT = 0.4
"""Seconds that a page waits for results computed in the background."""
EMPTY_STYLE_HASH = "'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='"
"""The hash of an empty style, which plotly adds to the page and fills by script."""
SAFE = {
    "Content-Security-Policy": (
        f"default-src 'self'; script-src 'self'; style-src 'self' {EMPTY_STYLE_HASH}; img-src 'self' data:; "
        "connect-src 'self'; object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
    "Referrer-Policy": "same-origin",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
}
"""Security headers of every page: no external resources, no inline scripts or styles, no frames."""


@dataclass(slots=True)
class ResultCache:
    """Recent results, so that loading a page again is cheap; the longer a result took, the longer it is kept."""

    clock: Callable[[], float] = time.monotonic
    max_wait: float = MAX_WAIT
    _values: dict[Hashable, tuple[float, Any]] = field(default_factory=dict)
    _running: dict[Hashable, Future[Any]] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)
    _background: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, "engram-dashboard"))

    def get(self, key: Hashable, find: Callable[[], T]) -> T:
        """Return the result of a key, computed again if it is too old."""
        began = self.clock()
        with self._lock:
            until, value = self._values.get(key, (began, None))
        if until > began:
            return cast(T, value)
        result = find()
        ended = self.clock()
        with self._lock:
            if len(self._values) >= MAX_KEPT:
                self._values.clear()
            self._values[key] = (ended + KEEP_FACTOR * (ended - began), result)
        return result

    def get_soon(self, *wanted: tuple[Hashable, Callable[[], Any]]) -> list[Any]:
        """Return the results of several keys, waiting only briefly; an unfinished one is its older value, or `None`."""
        until, results = time.monotonic() + self.max_wait, list[Any]()
        started = [self.start(key, find) for key, find in wanted]
        for running, old in started:
            try:
                results.append(running.result(max(0.0, until - time.monotonic())))
            except TimeoutError:
                results.append(old)
        return results

    def start(self, key: Hashable, find: Callable[[], Any]) -> tuple[Future[Any], Any]:
        """Start computing a result in the background unless it is running; return its future, and the older value."""
        with self._lock:
            _, old = self._values.get(key, (0.0, None))
        return self.run_in_background(key, lambda: self.get(key, find)), old

    def run_in_background(self, key: Hashable, act: Callable[[], T]) -> Future[T]:
        """Run a function in the background, unless it is running for this key."""
        with self._lock:
            running = self._running.get(key)
            if running is None or running.done():
                running = self._running[key] = self._background.submit(act)
        return running


def environment() -> Environment:
    """Return the templates; all values are escaped."""
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
class Dashboard:
    """State shared by all requests."""

    brain: Engram
    sessions: SignInSessions
    stopping: asyncio.Event
    poll_seconds: float
    key_is_valid: Callable[[str], bool]
    """Return True if the key with this id is still valid."""
    cache: ResultCache = field(default_factory=ResultCache)
    growth: dict[str, tuple[int, dict[date, tuple[int, int]]]] = field(default_factory=dict)
    """For each agent, the last counted change, and the numbers of memories stored and deleted by day."""
    growth_lock: Lock = field(default_factory=Lock)
    pages: Environment = field(default_factory=environment)


@dataclass(slots=True)
class PageRequest:
    """A request of a signed-in user."""

    dashboard: Dashboard
    request: Request
    session: Session
    form: Mapping[str, str] = field(default_factory=dict)
    """The posted form; empty for GET requests."""
    _names: list[str] | None = None

    @property
    def brain(self) -> Engram:
        """The open database."""
        return self.dashboard.brain

    @property
    def names(self) -> list[str]:
        """The agents that the key may read."""
        if self._names is None:
            self._names = Call(self.brain, self.session.key).agents()
        return self._names

    @property
    def all_agents(self) -> bool:
        """True if the key is for all agents, so that figures of the whole database may be shown."""
        return EVERYONE in self.session.key.agents

    @property
    def agent(self) -> AgentHandle:
        """The agent of the page: the one named, or the first. Raises `NotFound`."""
        name = self.exact("agent") or self.agent_name
        if name not in self.names or reserved(name):
            raise NotFound("there is no such agent here; choose another one")
        return self.brain.agent(name)

    @property
    def agent_name(self) -> str:
        """The agent of links: the one named if it exists, or the first; empty if there is none."""
        name = self.exact("agent")
        return name if name in self.names else next(iter(self.names), "")

    @property
    def scope(self) -> Scope:
        """The scope of the agent of the page."""
        return Scope(self.agent.name)

    def require_right(self, right: Right) -> None:
        """Raise `NotAllowed` if the key lacks a right."""
        if not self.session.key.has_right(right):
            raise NotAllowed(f"your key has no right to {right}; sign in with one that has")

    def exact(self, name: str) -> str:
        """Return a form field or query parameter verbatim; empty if missing."""
        return (self.form.get(name) if self.form else self.request.query_params.get(name)) or ""

    def text(self, name: str) -> str:
        """Return a form field or query parameter without surrounding spaces."""
        return self.exact(name).strip()

    def number(self, name: str, default: float, lowest: float, highest: float) -> float:
        """Return a number within limits, or the default. Raises `InvalidInput`."""
        given = self.text(name)
        try:
            value = float(given) if given else default
        except ValueError:
            raise InvalidInput(f"{name} must be a number") from None
        if not lowest <= value <= highest:
            raise InvalidInput(f"{name} must be a number from {lowest:g} to {highest:g}")
        return value

    def count(self, name: str, default: int, lowest: int, highest: int) -> int:
        """Return a whole number within limits, or the default. Raises `InvalidInput`."""
        return int(self.number(name, default, lowest, highest))

    def moment(self, name: str) -> datetime | None:
        """Return a time, or `None`. Raises `InvalidInput`."""
        return arguments.moment(name, self.text(name) or None)

    def link(self, page: str, **parameters: object) -> str:
        """Return the URL of a page, for the agent of this page unless another is given."""
        default = {"agent": self.agent_name}
        given = {name: value for name, value in (default | parameters).items() if value not in (None, "", ())}
        query = urlencode({name: _url_value(value) for name, value in given.items()}, doseq=True)
        return f"{HOME}/{page}" + (f"?{query}" if query else "")

    def page(self, template: str, status: int = 200, **values: Any) -> Response:
        """Render a page."""
        common = {
            "agent": self.agent_name,
            "agents": self.names[:MAX_KEPT],
            "here": template.removesuffix(".html"),
            "key": self.session.key,
            "csrf": self.session.csrf,
            "link": self.link,
            "all_agents": self.all_agents,
            "now": self.brain.sources.now(),
        }
        return html_response(self.dashboard.pages.get_template(template).render(common | values), status)

    def back(self, page: str, **parameters: object) -> Response:
        """Redirect to another page after a form was posted."""
        return RedirectResponse(self.link(page, **parameters), SEE_OTHER, SAFE)


def html_response(text: str, status: int = 200) -> Response:
    """Return a page with the security headers."""
    return HTMLResponse(text, status, SAFE)


def require(value: T | None, what: str) -> T:
    """Return the value. Raises `NotFound` if it is `None`."""
    if value is None:
        raise NotFound(f"there is no such {what} here")
    return value


def _url_value(value: object) -> object:
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
    """Format a value: text as it is, `None` as an empty text, everything else as JSON."""
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value, ensure_ascii=False, default=dict)


def _bytes(size: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000 or unit == "GB":
            break
        size /= 1000
    return f"{size:,.0f} {unit}" if unit == "B" else f"{size:,.1f} {unit}"
