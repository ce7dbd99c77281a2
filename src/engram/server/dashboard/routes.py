"""The way into the dashboard: signing in, who may come through, files, news, and what a page says when it fails."""

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
from engram.server.dashboard.pages import DEEDS, LOOKS, Handler
from engram.server.dashboard.params import HOME, SAFE, SEE_OTHER, Asking, Board, answered
from engram.server.dashboard.sessions import OWNER, Sessions, same
from engram.server.rest import event_stream
from engram.server.rest.problems import status_of
from engram.system import is_loopback

COOKIE, FORM = "engram_session", "engram_form"
BODY = 64 * 1024
STATIC = Path(__file__).parent / "static"
FILES = {file.name: file for file in STATIC.iterdir() if file.suffix in {".css", ".js", ".svg"}}
PLOTLY = "plotly.js"
FOREVER = "public, max-age=31536000, immutable"
TRIES, AT_ONCE = 1.0, 10
"""Signing in with a wrong key: so often a second, and so often at once, for one address."""

Endpoint = Callable[[Request], Awaitable[Response]]


def _message(error: EngramError) -> str:
    """The message of an error, for people who may use the command line, too."""
    return public_message(error, lambda hint: hint.shell)


def mount(api: FastAPI) -> None:
    """Put the dashboard into an application that has a memory, beside `/v1`; `/` leads to it."""
    state = api.state
    sessions = Sessions(state.keys, state.brain.sources)
    board = Board(state.brain, sessions, state.stopping, state.poll_seconds, lambda id: bool(state.keys.live(id)))
    state.dashboard = board
    door = _Door(board, state, Buckets(TRIES, AT_ONCE, time.monotonic))
    looks = [Route(f"/{path}", door.looks(page), name=f"dashboard_{page.__name__}") for path, page in LOOKS.items()]
    deeds = [Route(f"/{path}", door.does(deed), methods=["POST"]) for path, deed in DEEDS.items()]
    others = [
        Route("/sign-in", door.sign_in_page, name="dashboard_sign_in"),
        Route("/sign-in", door.sign_in, methods=["POST"]),
        Route("/sign-out", door.sign_out, methods=["POST"]),
        Route("/events", door.news, name="dashboard_events"),
        Route("/static/{name}", _file, name="dashboard_file"),
    ]
    inside = Starlette(routes=[*looks, *deeds, *others], exception_handlers={404: door.lost, 405: door.lost})
    inside.router.redirect_slashes = False
    for path in ("/", HOME):
        api.add_route(path, _to_dashboard, include_in_schema=False)
    api.mount(HOME, inside, name="dashboard")


def invitation(api: FastAPI) -> str:
    """What to put after `/?token=` to get in once, without a key; only for whoever started the server to read."""
    board: Board = api.state.dashboard
    return board.sessions.invite()


async def _to_dashboard(request: Request) -> Response:
    query = f"?{request.url.query}" if request.url.query else ""
    return RedirectResponse(f"{HOME}/{query}", SEE_OTHER, SAFE)


async def _file(request: Request) -> Response:
    """One of our own files, or the script that plotly brings along; what is named with its version never changes."""
    name = request.path_params["name"]
    cache = FOREVER if request.query_params else "no-cache"
    if name == PLOTLY and (packed := await run_in_threadpool(charts.plotly)) is not None:
        headers = SAFE | {"Cache-Control": cache, "Vary": "Accept-Encoding"}
        if "gzip" in request.headers.get("accept-encoding", ""):
            return Response(packed, media_type="text/javascript", headers=headers | {"Content-Encoding": "gzip"})
        return Response(gzip.decompress(packed), media_type="text/javascript", headers=headers)
    if name in FILES:
        return FileResponse(FILES[name], headers=SAFE | {"Cache-Control": cache})
    return Response("there is no such file", 404, SAFE, "text/plain")


class _Door:
    """Lets in who is signed in, and shows everybody else where to sign in."""

    def __init__(self, board: Board, state: State, tries: Buckets) -> None:
        self._board = board
        self._state = state
        self._tries = tries

    def looks(self, page: Handler) -> Endpoint:
        """The endpoint of a page."""

        async def look(request: Request) -> Response:
            if invited := request.query_params.get("token"):
                return await self._follow(request, invited)
            asking = await self._asking(request)
            return _to_sign_in(request) if asking is None else await self._safely(asking, page)

        return look

    def does(self, deed: Handler) -> Endpoint:
        """The endpoint of something that can be posted; the form must be one of ours."""

        async def act(request: Request) -> Response:
            asking = await self._asking(request)
            if asking is None:
                return _to_sign_in(request)
            asking.form = await _form(request)
            if not same(asking.form.get("csrf", ""), asking.session.csrf):
                return self._failed(asking, NotAllowed("this form is too old; go back, reload the page and try again"))
            return await self._safely(asking, deed)

        return act

    async def sign_in_page(self, request: Request) -> Response:
        """Where to sign in."""
        return self._sign_in_form(request)

    async def sign_in(self, request: Request) -> Response:
        """Open a session with a key that was posted."""
        form = await _form(request)
        goal = form.get("next", "")
        if not same(form.get("csrf", ""), request.cookies.get(FORM, "")):
            return self._sign_in_form(request, "This form is too old; try again.", 403, goal)
        opened = await run_in_threadpool(self._board.sessions.sign_in, form.get("key", "").strip())
        if opened is None:
            late = self._too_often(request)
            said = "Too many tries; wait a little." if late else "This key is not known, has expired or was revoked."
            return self._sign_in_form(request, said, 429 if late else 401, goal)
        if not opened[1].key.has_right("read"):
            self._board.sessions.end(opened[0])
            return self._sign_in_form(request, "This key has no right to read.", 403, goal)
        return _signed_in(request, opened[0], _next(goal))

    async def sign_out(self, request: Request) -> Response:
        """End the session."""
        asking, form = await self._asking(request), await _form(request)
        if asking is not None and same(form.get("csrf", ""), asking.session.csrf):
            self._board.sessions.end(request.cookies.get(COOKIE, ""))
        answer = RedirectResponse(f"{HOME}/sign-in", SEE_OTHER, SAFE)
        answer.delete_cookie(COOKIE, path="/")
        return answer

    async def news(self, request: Request) -> Response:
        """The stream of what happens to one agent, for the pages that are open."""
        asking = await self._asking(request)
        if asking is None:
            return Response("sign in first", 401, SAFE, "text/plain")
        try:
            scope = await run_in_threadpool(lambda: asking.scope)
        except EngramError as error:
            return Response(_message(error), status_of(error), SAFE, "text/plain")
        board, key = self._board, asking.session.key
        store, heard = board.brain.store, [scope, apart(scope)]
        after = await run_in_threadpool(lambda: live.newest(store, heard))
        lines = event_stream.stream(
            live.Listener(store, after),
            lambda: heard,
            good=lambda: key is OWNER or board.good(key.id),
            stopping=board.stopping,
            every=board.poll_seconds,
            seconds=None,
        )
        try:
            return event_stream.counted(self._state, key.id, _unnamed(lines), SAFE)
        except EngramError as error:
            return Response(_message(error), status_of(error), SAFE, "text/plain")

    async def lost(self, request: Request, error: Exception) -> Response:
        """What is said of a page that does not exist."""
        asking = await self._asking(request)
        return _to_sign_in(request) if asking is None else self._failed(asking, NotFound("there is no such page"))

    async def _asking(self, request: Request) -> Asking | None:
        secret = request.cookies.get(COOKIE, "")
        session = await run_in_threadpool(self._board.sessions.of, secret) if secret else None
        if session is None:
            return None
        request.scope["engram.key"] = session.key
        principal.set(f"key:{session.key.id}")
        return Asking(self._board, request, session)

    async def _safely(self, asking: Asking, handler: Handler) -> Response:
        try:
            return await run_in_threadpool(handler, asking)
        except EngramError as error:
            return await run_in_threadpool(self._failed, asking, error)

    def _failed(self, asking: Asking, error: EngramError) -> Response:
        if isinstance(error, NotFound) and not asking.names:
            return asking.page("welcome.html", status_of(error), here="")
        return asking.page(
            "error.html",
            status_of(error),
            here="",
            said=_message(error),
            missing=isinstance(error, NotFound),
        )

    async def _follow(self, request: Request, invited: str) -> Response:
        opened = await run_in_threadpool(self._board.sessions.follow, invited)
        if opened is None:
            status = 429 if self._too_often(request) else 401
            return self._sign_in_form(request, "This link was used already, or is too old.", status)
        return _signed_in(request, opened[0], f"{HOME}/")

    def _too_often(self, request: Request) -> bool:
        return self._tries.wait(str((request.client or ("",))[0])) > 0

    def _sign_in_form(self, request: Request, said: str = "", status: int = 200, goal: str = "") -> Response:
        secret = self._board.sessions.secret()
        page = self._board.pages.get_template("sign_in.html")
        there = _next(goal or request.query_params.get("next", ""))
        answer = answered(page.render(csrf=secret, said=said, next=there), status)
        _remember(answer, request, FORM, secret)
        return answer


async def _unnamed(lines: AsyncIterator[str]) -> AsyncIterator[str]:
    """The same events without names, since a browser hears only of those whose names it was told."""
    async for line in lines:
        yield line.replace("\nevent: ", "\n: ", 1)


def _to_sign_in(request: Request) -> Response:
    """Sign in first; somebody who wanted to see a page sees it then."""
    query = f"?{request.url.query}" if request.url.query else ""
    goal = f"?{urlencode({'next': request.url.path + query})}" if request.method == "GET" else ""
    return RedirectResponse(f"{HOME}/sign-in{goal}", SEE_OTHER, SAFE)


def _signed_in(request: Request, secret: str, goal: str) -> Response:
    answer = RedirectResponse(goal, SEE_OTHER, SAFE)
    _remember(answer, request, COOKIE, secret)
    answer.delete_cookie(FORM, path="/")
    return answer


def _remember(answer: Response, request: Request, name: str, value: str) -> None:
    """A cookie that no script reads, that no other site sends, and that ends with the browser.

    It only goes over TLS, except on this machine; a proxy may be what speaks that.
    """
    secure = request.url.scheme == "https" or not is_loopback(request.url.hostname or "")
    answer.set_cookie(name, value, path="/", httponly=True, samesite="strict", secure=secure)


def _next(goal: str) -> str:
    """A page of our own to go on with; anything else leads to the first one."""
    fine = goal.startswith(f"{HOME}/") and not set(goal) & {"\\", "\r", "\n"} and "//" not in goal.partition("?")[0]
    return goal if fine else f"{HOME}/"


async def _form(request: Request) -> dict[str, str]:
    """What was posted; nothing, if it is no form of ours."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > BODY:
            return {}  # none of our forms is as large
    try:
        fields = parse_qs(body.decode("utf-8"), keep_blank_values=True, max_num_fields=50)
    except (UnicodeDecodeError, ValueError):
        return {}
    return {name: values[-1] for name, values in fields.items()}
