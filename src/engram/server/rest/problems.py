"""Errors as responses (RFC 9457), without details that the caller may not see."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException

from engram import errors
from engram.api.operations import operation_of
from engram.api.problems import Crowded, Refused, public_message
from engram.errors import Conflict, EngramError, Hint, NotFound
from engram.model.wire import Flaw, Problem

_log = logging.getLogger("engram.server")
MEDIA = "application/problem+json"
KIND = "urn:engram:problem:"
REPLAYED = "Idempotency-Replayed"
"""The header of a replayed response."""
SOON = "1"
"""Seconds to wait before repeating a request for which the server was too busy."""

STATUS: Mapping[type[EngramError], int] = {
    errors.InvalidInput: 422,
    errors.NotFound: 404,
    errors.Unauthenticated: 401,
    errors.NotAllowed: 403,
    errors.Conflict: 409,
    errors.Unsupported: 409,
    errors.TooMany: 429,
    errors.StoreBusy: 503,
    errors.StoreAway: 503,
    errors.StoreClosed: 503,
    errors.ModelError: 503,
    Crowded: 503,
    errors.StoreFull: 507,
    errors.EngramError: 500,
}
"""The status of each error class; a missing class has that of its base class."""

CODES = {
    400: "malformed",
    404: NotFound.code,
    405: "method_not_allowed",
    408: "timeout",
    413: "too_large",
    421: "misdirected",
    422: "invalid",
}
"""Codes of errors that happen before the engine is called."""

LISTED = {
    400: "The body is not JSON, or nested too deeply.",
    401: "The key is missing, wrong, expired or revoked.",
    403: "The key has no right to this, or the page that asks is not an allowed origin.",
    404: "It does not exist, or the key does not give access to it.",
    405: "This path does not support the method.",
    408: "The body did not arrive in time.",
    409: "It conflicts with stored data, such as an outcome or a key that is taken, or the store lacks an ability. "
    "With `Idempotency-Replayed`, it was done before, and its response is not available any more.",
    412: "It does not have the version that `If-Match` names, or does not exist.",
    413: "The body is larger than the server takes.",
    421: "The `Host` header does not name this server.",
    422: "A value is invalid; nothing was stored.",
    429: "The key was used too often, or has too many streams; `Retry-After` says when to try again.",
    500: "The server failed; its log says why, under the request's id.",
    503: "The server is too busy, or the database does not answer; `Retry-After` says when to try again.",
    507: "The disk is full; nothing of this request was stored.",
}
"""Descriptions of the error statuses of all operations."""


class Stale(Conflict):
    """A memory does not have the version that the caller has seen."""


def status_of(error: EngramError) -> int:
    """Return the status of an error: that of its class, or of the nearest base class."""
    if isinstance(error, Stale):
        return 412
    return next(STATUS[kind] for kind in type(error).__mro__ if kind in STATUS)


def answer(status: int, code: str, detail: str, request_id: str, **more: Any) -> Response:
    """Build a problem response; `more` are further fields of `Problem`, or `headers`."""
    headers = dict(more.pop("headers", None) or {})
    if status in {429, 503}:
        headers.setdefault("Retry-After", SOON)
    if status == 401:
        headers.setdefault("WWW-Authenticate", 'Bearer realm="engram"')
    problem = Problem(
        type=KIND + code,
        title=HTTPStatus(status).phrase,
        status=status,
        detail=detail,
        code=code,
        request_id=request_id,
        **more,
    )
    said = problem.model_dump(mode="json", exclude_defaults=True)
    return JSONResponse(said, status, headers=headers, media_type=MEDIA)


def of_error(error: EngramError, request_id: str) -> Response:
    """Build the response for an error of the engine."""
    if isinstance(error, Refused):
        status = 409 if error.receipt.code == Conflict.code else 422
        code = error.receipt.code or errors.InvalidInput.code
        receipt = error.receipt.worded(request_of)
        return answer(status, code, receipt.reason or "", request_id, receipt=receipt)
    return answer(status_of(error), error.code, public_message(error, request_of), request_id)


def request_of(hint: Hint) -> str | None:
    """Return the request for a hint, such as `GET /v1/memories`."""
    operation = operation_of(hint)
    return None if operation is None else f"{operation.verb} {operation.path}"


def install(app: FastAPI) -> None:
    """Add the handlers that turn all errors into problem responses."""
    app.add_exception_handler(EngramError, _engine)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(Exception, _failed)


def _engine(request: Request, error: Exception) -> Response:
    if not isinstance(error, EngramError):
        return _failed(request, error)
    if status_of(error) >= 500 and not isinstance(error, Refused):
        _log.error("a request failed: %s: %s", type(error).__name__, error)
    return of_error(error, _id(request))


def _invalid(request: Request, error: Exception) -> Response:
    """Build the response to an invalid request; it does not quote the request."""
    found = error.errors() if isinstance(error, RequestValidationError) else []
    flaws = [Flaw(where=".".join(str(part) for part in flaw["loc"]), what=str(flaw["msg"])) for flaw in found]
    detail = "the request cannot be used; `errors` says what is wrong with it"
    return answer(422, CODES[422], detail, _id(request), errors=tuple(flaws))


def _http(request: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException):
        return _failed(request, error)
    detail = {404: "there is no such path", 405: "this path does not know this method"}
    said = detail.get(error.status_code, str(error.detail))
    code = CODES.get(error.status_code, "failed")
    headers = dict(error.headers or {})
    if error.status_code == 405 and (methods := request.app.state.operations.methods(request.scope["path"])):
        headers["Allow"] = ", ".join(methods)
    return answer(error.status_code, code, said, _id(request), headers=headers)


def _failed(request: Request, error: Exception) -> Response:
    return answer(500, EngramError.code, "the server failed; its log says why, under this request's id", _id(request))


def _id(request: Request) -> str:
    return str(request.scope.get("engram.request", ""))
