"""Complete the OpenAPI document: errors, rights and headers of each operation."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute

from engram.model.wire import LiveEvent, Problem
from engram.server.rest.parameters import right_of, takes_header, takes_key
from engram.server.rest.problems import LISTED, MEDIA, REPLAYED

SCHEME = "key"
_PAGE = "A page of a list, and the cursor of the next one."
_REF = "#/components/schemas/{model}"
_OPEN = (405, 421, 500, 503)
"""Error statuses of operations that need no key, besides 403."""


def described(api: FastAPI, routes: Iterable[APIRoute]) -> dict[str, Any]:
    """Build the document of an application, once."""
    if api.openapi_schema is None:
        found = get_openapi(
            title=api.title,
            version=api.version,
            description=api.description,
            routes=api.routes,
            openapi_version="3.1.0",
        )
        schemas = found.setdefault("components", {}).setdefault("schemas", {})
        for model in (Problem, LiveEvent):
            own = model.model_json_schema(ref_template=_REF)
            schemas |= own.pop("$defs", {}) | {model.__name__: own}
        for unused in ("HTTPValidationError", "ValidationError"):
            schemas.pop(unused, None)
        found["components"]["securitySchemes"] = {
            SCHEME: {
                "type": "http",
                "scheme": "bearer",
                "description": "A key made by `engram key create`; each operation names the right that it needs.",
            }
        }
        _evened(schemas)
        for name, schema in schemas.items():
            if name.startswith("Page_"):
                schema.setdefault("description", _PAGE)
        for route in routes:
            if route.include_in_schema:
                for method in route.methods or ():
                    _complete(found["paths"][route.path_format][method.lower()], route)
        api.openapi_schema = found
    return api.openapi_schema


def _evened(value: Any) -> None:
    """Rewrite pairs of one type as lists of two, which all schema readers support."""
    if isinstance(value, dict):
        parts = value.get("prefixItems")
        if isinstance(parts, list) and all(part == parts[0] for part in parts):
            value["items"] = value.pop("prefixItems")[0]
        for each in value.values():
            _evened(each)
    elif isinstance(value, list):
        for each in value:
            _evened(each)


def _complete(operation: dict[str, Any], route: APIRoute) -> None:
    """Add the required right and all error responses of an operation."""
    right = right_of(route)
    operation["security"] = [] if right is None else [{SCHEME: [right]}]
    responses = operation["responses"]
    wanted = LISTED if right is not None else {status: LISTED[status] for status in (403, *_OPEN)}
    responses.pop("422", None)
    for status, said in wanted.items():
        if status == 412 and not takes_header(route, "if-match"):
            continue
        responses.setdefault(
            str(status),
            {
                "description": said,
                "content": {MEDIA: {"schema": {"$ref": _REF.format(model="Problem")}}},
            },
        )
        content = responses[str(status)].setdefault("content", {})
        content.setdefault(MEDIA, {"schema": {"$ref": _REF.format(model="Problem")}})
    for status, response in responses.items():
        response.setdefault("headers", {})["X-Request-ID"] = {
            "description": "Identifies the request in the server's log.",
            "schema": {"type": "string"},
        }
        if (status.startswith("2") or status == "409") and takes_key(route):
            response["headers"][REPLAYED] = {
                "description": "`true` if this was done before, by a request with the same key.",
                "schema": {"type": "string", "enum": ["true"]},
            }
        if status == "405":
            response["headers"]["Allow"] = {
                "description": "The methods of the path.",
                "schema": {"type": "string"},
            }
        if status in {"429", "503"}:
            response["headers"]["Retry-After"] = {
                "description": "Seconds to wait before the request is made again.",
                "schema": {"type": "integer"},
            }
