"""Routes of the dashboard: signing in, pages, forms, static files, events, and error pages."""

from __future__ import annotations

import gzip
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from urllib.parse import parse_qs, urlencode

from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import State
from starlette.requests import Request
from starlette.responses import FileResponse, RedirectResponse, Response
from starlette.routing import Route

from engram.api import live
from engram.api.limits import Buckets
from engram.api.problems import public_message
from engram.errors import EngramError, NotAllowed, NotFound
from engram.ports import principal
from engram.recording.quarantine import apart
from engram.server.dashboard import charts
from engram.server.dashboard.pages import FORM_ACTIONS, PAGES, Handler
from engram.server.dashboard.params import HOME, SAFE, SEE_OTHER, Dashboard, PageRequest, html_response
from engram.server.dashboard.sessions import OWNER, SignInSessions, equal_secrets
from engram.server.rest import event_stream
from engram.server.rest.problems import status_of
from engram.system import is_loopback

COOKIE, FORM = "engram_session", "engram_form"
BODY = 64 * 1024
STATIC = Path(__file__).parent / "static"
FILES = {file.name: file for file in STATIC.iterdir() if file.suffix in {".css", ".js", ".svg"}}
PLOTLY = "plotly.js"
CACHE_FOREVER = "public, max-age=31536000, immutable"
TRIES, AT_ONCE = 1.0, 10
"""Failed sign-ins that one address may make: per second, and in a burst."""

Endpoint = Callable[[Request], Awaitable[Response]]


def _message(error: EngramError) -> str:
    """The message of an error, for people who may use the command line, too."""
    return public_message(error, lambda hint: hint.shell)


def mount(api: FastAPI) -> None:
    """Add the dashboard to an application, beside `/v1`; `/` redirects to it."""
    state = api.state
    sessions = SignInSessions(state.keys, state.brain.sources)
    dashboard = Dashboard(
        state.brain, sessions, state.stopping, state.poll_seconds, lambda id: bool(state.keys.live(id))
    )
    state.dashboard = dashboard
    routes = _Routes(dashboard, state, Buckets(TRIES, AT_ONCE, time.monotonic))
    page_routes = [
        Route(f"/{path}", routes.page_endpoint(page), name=f"dashboard_{page.__name__}") for path, page in PAGES.items()
    ]
    form_routes = [
        Route(f"/{path}", routes.form_endpoint(action), methods=["POST"]) for path, action in FORM_ACTIONS.items()
    ]
    others = [
        Route("/sign-in", routes.sign_in_page, name="dashboard_sign_in"),
        Route("/sign-in", routes.sign_in, methods=["POST"]),
        Route("/sign-out", routes.sign_out, methods=["POST"]),
        Route("/events", routes.events, name="dashboard_events"),
        Route("/static/{name}", _file, name="dashboard_file"),
    ]
    inside = Starlette(
        routes=[*page_routes, *form_routes, *others], exception_handlers={404: routes.not_found, 405: routes.not_found}
    )
    inside.router.redirect_slashes = False
    for path in ("/", HOME):
        api.add_route(path, _to_dashboard, include_in_schema=False)
    api.mount(HOME, inside, name="dashboard")


def invitation(api: FastAPI) -> str:
    """Return a token for `/?token=` that signs in once without a key; print it only to who started the server."""
    dashboard: Dashboard = api.state.dashboard
    return dashboard.sessions.invite()


async def _to_dashboard(request: Request) -> Response:
    query = f"?{request.url.query}" if request.url.query else ""
    return RedirectResponse(f"{HOME}/{query}", SEE_OTHER, SAFE)


async def _file(request: Request) -> Response:
    """Return a static file, or plotly's script; a URL with a version may be cached forever."""
    name = request.path_params["name"]
    cache = CACHE_FOREVER if request.query_params else "no-cache"
    if name == PLOTLY and (packed := await run_in_threadpool(charts.plotly)) is not None:
        headers = SAFE | {"Cache-Control": cache, "Vary": "Accept-Encoding"}
        if "gzip" in request.headers.get("accept-encoding", ""):
            return Response(packed, media_type="text/javascript", headers=headers | {"Content-Encoding": "gzip"})
        return Response(gzip.decompress(packed), media_type="text/javascript", headers=headers)
    if name in FILES:
        return FileResponse(FILES[name], headers=SAFE | {"Cache-Control": cache})
    return Response("there is no such file", 404, SAFE, "text/plain")


class _Routes:
    """The endpoints; pages and forms need a session, and redirect to the sign-in page without one."""

    def __init__(self, dashboard: Dashboard, state: State, tries: Buckets) -> None:
        self._board = dashboard
        self._state = state
        self._tries = tries

    def page_endpoint(self, page: Handler) -> Endpoint:
        """Make the endpoint of a page."""

        async def show(request: Request) -> Response:
            if invited := request.query_params.get("token"):
                return await self._accept_invitation(request, invited)
            page_request = await self._page_request(request)
            return _redirect_to_sign_in(request) if page_request is None else await self._render(page_request, page)

        return show

    def form_endpoint(self, action: Handler) -> Endpoint:
        """Make the endpoint of a form; its token must belong to the session."""

        async def act(request: Request) -> Response:
            page_request = await self._page_request(request)
            if page_request is None:
                return _redirect_to_sign_in(request)
            page_request.form = await _form(request)
            if not equal_secrets(page_request.form.get("csrf", ""), page_request.session.csrf):
                return self._error_page(
                    page_request, NotAllowed("this form is too old; go back, reload the page and try again")
                )
            return await self._render(page_request, action)

        return act

    async def sign_in_page(self, request: Request) -> Response:
        """Show the sign-in page."""
        return self._sign_in_form(request)

    async def sign_in(self, request: Request) -> Response:
        """Open a session with a posted key."""
        form = await _form(request)
        goal = form.get("next", "")
        if not equal_secrets(form.get("csrf", ""), request.cookies.get(FORM, "")):
            return self._sign_in_form(request, "This form is too old; try again.", 403, goal)
        opened = await run_in_threadpool(self._board.sessions.sign_in, form.get("key", "").strip())
        if opened is None:
            late = self._rate_limited(request)
            message = "Too many attempts; wait a moment." if late else "This key is unknown, expired or revoked."
            return self._sign_in_form(request, message, 429 if late else 401, goal)
        if not opened[1].key.has_right("read"):
            self._board.sessions.end(opened[0])
            return self._sign_in_form(request, "This key has no right to read.", 403, goal)
        return _signed_in(request, opened[0], _safe_next(goal))

    async def sign_out(self, request: Request) -> Response:
        """End the session."""
        page_request, form = await self._page_request(request), await _form(request)
        if page_request is not None and equal_secrets(form.get("csrf", ""), page_request.session.csrf):
            self._board.sessions.end(request.cookies.get(COOKIE, ""))
        answer = RedirectResponse(f"{HOME}/sign-in", SEE_OTHER, SAFE)
        answer.delete_cookie(COOKIE, path="/")
        return answer

    async def events(self, request: Request) -> Response:
        """Stream the events of one agent to open pages."""
        page_request = await self._page_request(request)
        if page_request is None:
            return Response("sign in first", 401, SAFE, "text/plain")
        try:
            scope = await run_in_threadpool(lambda: page_request.scope)
        except EngramError as error:
            return Response(_message(error), status_of(error), SAFE, "text/plain")
        dashboard, key = self._board, page_request.session.key
        store, scopes = dashboard.brain.store, [scope, apart(scope)]
        after = await run_in_threadpool(lambda: live.newest(store, scopes))
        lines = event_stream.stream(
            live.Listener(store, after),
            lambda: scopes,
            good=lambda: key is OWNER or dashboard.key_is_valid(key.id),
            stopping=dashboard.stopping,
            every=dashboard.poll_seconds,
            seconds=None,
        )
        try:
            return event_stream.counted(self._state, key.id, _without_names(lines), SAFE)
        except EngramError as error:
            return Response(_message(error), status_of(error), SAFE, "text/plain")

    async def not_found(self, request: Request, error: Exception) -> Response:
        """Show an error page for an unknown path."""
        page_request = await self._page_request(request)
        return (
            _redirect_to_sign_in(request)
            if page_request is None
            else self._error_page(page_request, NotFound("there is no such page"))
        )

    async def _page_request(self, request: Request) -> PageRequest | None:
        secret = request.cookies.get(COOKIE, "")
        session = await run_in_threadpool(self._board.sessions.get, secret) if secret else None
        if session is None:
            return None
        request.scope["engram.key"] = session.key
        principal.set(f"key:{session.key.id}")
        return PageRequest(self._board, request, session)

    async def _render(self, page_request: PageRequest, handler: Handler) -> Response:
        try:
            return await run_in_threadpool(handler, page_request)
        except EngramError as error:
            return await run_in_threadpool(self._error_page, page_request, error)

    def _error_page(self, page_request: PageRequest, error: EngramError) -> Response:
        if isinstance(error, NotFound) and not page_request.names:
            return page_request.page("welcome.html", status_of(error), here="")
        return page_request.page(
            "error.html", status_of(error), here="", message=_message(error), missing=isinstance(error, NotFound)
        )

    async def _accept_invitation(self, request: Request, invited: str) -> Response:
        opened = await run_in_threadpool(self._board.sessions.accept, invited)
        if opened is None:
            status = 429 if self._rate_limited(request) else 401
            return self._sign_in_form(request, "This link was used already, or has expired.", status)
        return _signed_in(request, opened[0], f"{HOME}/")

    def _rate_limited(self, request: Request) -> bool:
        return self._tries.wait(str((request.client or ("",))[0])) > 0

    def _sign_in_form(self, request: Request, message: str = "", status: int = 200, goal: str = "") -> Response:
        secret = self._board.sessions.secret()
        page = self._board.pages.get_template("sign_in.html")
        there = _safe_next(goal or request.query_params.get("next", ""))
        answer = html_response(page.render(csrf=secret, message=message, next=there), status)
        _set_cookie(answer, request, FORM, secret)
        return answer


async def _without_names(lines: AsyncIterator[str]) -> AsyncIterator[str]:
    """Remove the names of events, because a browser ignores events with names it has no listener for."""
    async for line in lines:
        yield line.replace("\nevent: ", "\n: ", 1)


def _redirect_to_sign_in(request: Request) -> Response:
    """Redirect to the sign-in page, and back to the requested page afterwards."""
    query = f"?{request.url.query}" if request.url.query else ""
    goal = f"?{urlencode({'next': request.url.path + query})}" if request.method == "GET" else ""
    return RedirectResponse(f"{HOME}/sign-in{goal}", SEE_OTHER, SAFE)


def _signed_in(request: Request, secret: str, goal: str) -> Response:
    answer = RedirectResponse(goal, SEE_OTHER, SAFE)
    _set_cookie(answer, request, COOKIE, secret)
    answer.delete_cookie(FORM, path="/")
    return answer


def _set_cookie(answer: Response, request: Request, name: str, value: str) -> None:
    """Set a session cookie that scripts cannot read and that is not sent from other sites.

    It is sent only over TLS, except on this machine; TLS may be terminated by a proxy.
    """
    secure = request.url.scheme == "https" or not is_loopback(request.url.hostname or "")
    answer.set_cookie(name, value, path="/", httponly=True, samesite="strict", secure=secure)


def _safe_next(goal: str) -> str:
    """Return the page to show after signing in if it is one of ours, else the first page."""
    fine = goal.startswith(f"{HOME}/") and not set(goal) & {"\\", "\r", "\n"} and "//" not in goal.partition("?")[0]
    return goal if fine else f"{HOME}/"


async def _form(request: Request) -> dict[str, str]:
    """Parse a posted form; empty if it is too large or malformed."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > BODY:
            return {}  # no form is this large
    try:
        fields = parse_qs(body.decode("utf-8"), keep_blank_values=True, max_num_fields=50)
    except (UnicodeDecodeError, ValueError):
        return {}
    return {name: values[-1] for name, values in fields.items()}
