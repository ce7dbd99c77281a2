"""Serve MCP over streamable HTTP, with the request checks and API keys of the REST server."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from engram.api.call import Call
from engram.api.limits import Limits
from engram.engine import AgentHandle, Engram
from engram.errors import Unauthenticated
from engram.model.api_key import ApiKey, Right
from engram.server.mcp.server import create
from engram.server.mcp.tools import Request, Whose
from engram.server.metrics import Metrics
from engram.server.rest.middleware import Address, Authentication, RequestGuard
from engram.server.rest.problems import CODES, answer
from engram.server.rest.run import Announced, Binding, listen, settings, tell_first_key, where

PATH = "/v1/mcp"
PORT = 8751


def by_key(brain: Engram, only: str | None = None) -> Whose:
    """Every request is about the memory of the agent that its key is for, or of `only` that one if the key is for it.

    A key that is for several agents names one in the header `Engram-Agent`.
    """

    def whose(ctx: Request, right: Right) -> AgentHandle:
        request: Any = ctx.request_context.request
        key: ApiKey | None = None if request is None else request.scope.get("engram.key")
        if key is None:
            raise Unauthenticated("this needs a key; whoever runs the server makes one")
        call = Call(brain, key, request.headers.get("engram-agent") if only is None else quote(only))
        call.check_right(right)
        return call.agent

    return whose


def application(
    brain: Engram, *, only: str | None = None, address: Address | None = None, limits: Limits | None = None
) -> ASGIApp:
    """The application over an open memory: nothing answers but to the right name, and `/v1/mcp` only with a key."""
    most, metrics = limits or Limits(), Metrics()
    inner: Starlette = create(by_key(brain, only)).streamable_http_app(
        streamable_http_path=PATH,
        json_response=True,
        stateless_http=True,
        max_request_body_size=most.body,
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),  # the border does it
    )
    inner.router.redirect_slashes = False  # it would lead to `http://` behind whoever speaks TLS, with the key
    inner.add_exception_handler(HTTPException, _elsewhere)
    keys = brain.keys
    gate = Authentication(_unheard(inner), keys, most, metrics)
    return RequestGuard(gate, address or Address(), most, metrics, brain.sources.new_id)


def _unheard(app: ASGIApp) -> ASGIApp:
    """The same without streams to listen to: nothing is told but what was asked for, so that one would never end."""

    async def answered(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] == PATH and scope["method"] == "GET":
            detail, id = "there is nothing to listen to; what is asked is posted", scope["engram.request"]
            await answer(405, CODES[405], detail, id, headers={"Allow": "POST"})(scope, receive, send)
        else:
            await app(scope, receive, send)

    return answered


def _elsewhere(request: HttpRequest, error: Exception) -> Response:
    """The answer where nothing is."""
    status = error.status_code if isinstance(error, HTTPException) else 500
    detail = f"there is no such path; the server answers at {PATH}" if status == 404 else "the request cannot be used"
    return answer(status, CODES.get(status, "failed"), detail, request.scope["engram.request"])


def serve(brain: Engram, binding: Binding, limits: Limits, say: Callable[[str], None], only: str | None = None) -> None:
    """Serve until a signal comes; then running requests end first."""
    app = application(brain, only=only, address=binding.address(), limits=limits)
    listener = listen(binding)
    tell_first_key(brain, say)
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
    with listener:
        here = f"{where(binding, listener)}{PATH}"
        Announced(settings(app, binding), lambda: say(f"Engram serves MCP on {here}")).run([listener])
