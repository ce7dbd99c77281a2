"""Errors as gRPC statuses, with a `Problem` in the trailing metadata, without details that the caller may not see."""

from __future__ import annotations

from collections.abc import Mapping

import grpc
from pydantic import ValidationError

from engram import errors
from engram.api.operations import operation_of
from engram.api.problems import Crowded, Refused, public_message
from engram.errors import Conflict, EngramError, Hint, InvalidInput, StoreBusy, TooMany
from engram.server.grpc import messages
from engram.server.grpc.convert import to_message
from engram.server.grpc.messages import AFTER, CODE, PROBLEM, REQUEST

SOON = 1.0
MOST_FLAWS = 8
LONGEST = 300
"""The most characters of a text in the metadata, whose size is limited."""

STATUS: Mapping[type[EngramError], grpc.StatusCode] = {
    errors.InvalidInput: grpc.StatusCode.INVALID_ARGUMENT,
    errors.NotFound: grpc.StatusCode.NOT_FOUND,
    errors.Unauthenticated: grpc.StatusCode.UNAUTHENTICATED,
    errors.NotAllowed: grpc.StatusCode.PERMISSION_DENIED,
    errors.Conflict: grpc.StatusCode.ABORTED,
    errors.Unsupported: grpc.StatusCode.FAILED_PRECONDITION,
    errors.TooMany: grpc.StatusCode.RESOURCE_EXHAUSTED,
    errors.StoreBusy: grpc.StatusCode.UNAVAILABLE,
    errors.StoreAway: grpc.StatusCode.UNAVAILABLE,
    errors.StoreClosed: grpc.StatusCode.UNAVAILABLE,
    errors.ModelError: grpc.StatusCode.UNAVAILABLE,
    Crowded: grpc.StatusCode.UNAVAILABLE,
    errors.StoreFull: grpc.StatusCode.RESOURCE_EXHAUSTED,
    errors.StoreReadOnly: grpc.StatusCode.FAILED_PRECONDITION,
    errors.StoreCorrupt: grpc.StatusCode.DATA_LOSS,
    errors.EngramError: grpc.StatusCode.INTERNAL,
}
"""The status of each class of errors; a class that is missing has that of its base class."""


class InvalidRequest(InvalidInput):
    """A request with invalid fields."""

    def __init__(self, error: ValidationError) -> None:
        found = error.errors(include_url=False, include_input=False, include_context=False)[:MOST_FLAWS]
        self.flaws = [(".".join(str(part) for part in flaw["loc"])[:100], flaw["msg"][:100]) for flaw in found]
        super().__init__("; ".join(f"{where or 'the request'}: {what}" for where, what in self.flaws))


class RateLimited(TooMany):
    """The rate of the caller is exceeded for some seconds."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"calls come too fast; wait as long as `{AFTER}` says")
        self.seconds = seconds


class TimedOut(StoreBusy):
    """A call exceeded its deadline; it may still be carried out."""


def status_of(error: EngramError) -> grpc.StatusCode:
    """Return the status of an error: that of its class, or of the nearest base class."""
    if isinstance(error, Refused):
        return STATUS[Conflict if error.receipt.code == Conflict.code else InvalidInput]
    if isinstance(error, TimedOut):
        return grpc.StatusCode.DEADLINE_EXCEEDED
    return next(STATUS[kind] for kind in type(error).__mro__ if kind in STATUS)


def detail_of(error: EngramError) -> str:
    """Return the public message of an error, with its code and hint."""
    if isinstance(error, TimedOut):
        return "it took too long and may still be carried out; the same `key` makes it safe to try again"
    text = public_message(error, method_of)
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def method_of(hint: Hint) -> str | None:
    """Return the method for a hint, such as `ListMemories`."""
    operation = operation_of(hint)
    return None if operation is None else operation.rpc


def trailers(error: EngramError, request_id: str) -> tuple[tuple[str, str | bytes], ...]:
    """Build the trailing metadata of a call that failed."""
    code, detail = error.code, detail_of(error)
    problem = messages.Problem(code=code, detail=detail, request_id=request_id)
    if isinstance(error, Refused):
        code = problem.code = error.receipt.code or InvalidInput.code
        receipt = error.receipt.model_copy(update={"reason": detail, "redacted": error.receipt.redacted[:MOST_FLAWS]})
        problem.receipt.CopyFrom(to_message(receipt, messages.Receipt))
    if isinstance(error, InvalidRequest):
        problem.errors.extend(messages.Flaw(where=where, what=what) for where, what in error.flaws)
    found: list[tuple[str, str | bytes]] = [
        (CODE, code),
        (PROBLEM, problem.SerializeToString()),
        (REQUEST, request_id),
    ]
    if isinstance(error, RateLimited) or status_of(error) is grpc.StatusCode.UNAVAILABLE:
        found.append((AFTER, f"{max(0.1, getattr(error, 'seconds', SOON)):.1f}"))
    return tuple(found)
