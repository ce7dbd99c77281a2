"""Generate routes from the table of operations."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from inspect import Parameter, Signature
from typing import Annotated, Any, get_args, get_origin

from fastapi import APIRouter, Body, Depends, Path, Query, Request, Response
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from engram.api.call import Call
from engram.api.operations import OPERATIONS, Operation
from engram.errors import InvalidInput
from engram.model import Receipt
from engram.server.rest.parameters import Key, caller, slowly
from engram.server.rest.problems import REPLAYED, request_of

RESPONSES: dict[str, dict[int | str, dict[str, Any]]] = {
    "remember": {
        200: {"model": Receipt, "description": "It was merged with an equal statement that was stored before."},
        202: {
            "model": Receipt,
            "description": "It was quarantined: it gives instructions, and the agent is not its source.",
        },
    }
}
"""Further responses of an operation, for the OpenAPI document."""


def route(router: APIRouter, operation: Operation) -> None:
    """Add a route for an operation."""
    router.add_api_route(
        operation.path,
        _endpoint(operation),
        methods=[operation.verb],
        name=operation.name,
        status_code=operation.status,
        response_model=operation.response,
        responses=RESPONSES.get(operation.name),
        tags=[operation.tag],
    )


def made(by_hand: set[str]) -> APIRouter:
    """Make a router of all operations except those whose routes are written by hand."""
    router = APIRouter()
    for name, operation in OPERATIONS.items():
        if name not in by_hand:
            route(router, operation)
    return router


def _endpoint(operation: Operation) -> Callable[..., Any]:
    """Make the function of a route, which takes the parts of a request and calls the operation."""
    build, function = _builder(operation), operation.function

    def answer(call: Call, response: Response, idempotency_key: str | None = None, **given: Any) -> BaseModel:
        request = build(given)
        if idempotency_key is not None:
            call, request = with_key(call, request, idempotency_key)
        result = function(call, request)
        return stored(result, response) if isinstance(result, Receipt) else result

    async def answer_slowly(http: Request, **given: Any) -> BaseModel:
        return await slowly(http, lambda: answer(**given))

    endpoint: Any = answer_slowly if operation.long else answer
    endpoint.__name__, endpoint.__doc__ = operation.name, operation.function.__doc__
    endpoint.__signature__ = Signature([*_parameters(operation)], return_annotation=operation.response)
    return endpoint  # type: ignore[no-any-return]


def _parameters(operation: Operation) -> Iterator[Parameter]:
    """Yield the parameters of a route's function, each with its location in the request."""
    fields = operation.request.model_fields
    yield _parameter("call", Annotated[Call, Depends(caller(operation.right, operation.about))])
    for name, alias in operation.path_fields.items():
        yield _field(name, fields[name], Path, alias)
    if operation.body is not None:
        yield _parameter("body", Annotated[operation.body, Body()])
    for name, alias in operation.query_fields.items():
        yield _field(name, fields[name], Query, alias)
    yield _parameter("response", Response)
    if operation.long:
        yield _parameter("http", Request)
    if operation.writes:
        yield _parameter("idempotency_key", Key, None)


def _parameter(name: str, kind: Any, default: Any = Parameter.empty) -> Parameter:
    return Parameter(name, Parameter.KEYWORD_ONLY, annotation=kind, default=default)


def _field(name: str, field: FieldInfo, place: Any, alias: str) -> Parameter:
    """Make a parameter with the type, the limits and the description of a request field."""
    kind: Any = field.annotation
    several = get_origin(kind) is tuple
    if several:  # a parameter that may be given several times
        each: Any = get_args(kind)[0]
        kind = list[each] | None
    default = Parameter.empty if field.is_required() else None if several else field.default
    found = place(alias=alias, description=field.description)
    return _parameter(name, Annotated[kind, *field.metadata, found], default)


def _builder(operation: Operation) -> Callable[[dict[str, Any]], BaseModel]:
    """Return a function that builds a request from its validated parts."""
    request, body_field = operation.request, operation.body_field
    if operation.body is request:
        return lambda given: given["body"]

    def build(given: dict[str, Any]) -> BaseModel:
        body = given.pop("body", None)
        if body_field is not None:
            given[body_field] = body
        elif body is not None:
            given |= {name: getattr(body, name) for name in type(body).model_fields}
        lists = {name: tuple(value) for name, value in given.items() if isinstance(value, list)}
        return request.model_construct(**{name: each for name, each in given.items() if each is not None} | lists)

    return build


def with_key(call: Call, request: BaseModel, key: str) -> tuple[Call, BaseModel]:
    """Add an Idempotency-Key to the request, if it has a field for it, else to the call.

    Raises `InvalidInput` if the request has another key.
    """
    if "key" not in type(request).model_fields:
        return call.repeatable(key), request
    if (own := request.key) is not None and own != key:  # type: ignore[attr-defined]
        raise InvalidInput("the Idempotency-Key and the key in the body differ; give one of them")
    return call, request.model_copy(update={"key": key})


def stored(receipt: Receipt, response: Response) -> Receipt:
    """Return the receipt of a stored draft, and set the status by its result."""
    if receipt.status == "quarantined":
        response.status_code = 202
    elif receipt.status == "merged":
        response.status_code = 200
    return first_answer(receipt, response)


def first_answer(receipt: Receipt, response: Response) -> Receipt:
    """Return the receipt; if it is replayed, set the header that says so."""
    if receipt.code != "replayed":
        return receipt.worded(request_of)
    response.headers[REPLAYED] = "true"
    return Receipt(id=receipt.id, status=receipt.status, redacted=receipt.redacted)
