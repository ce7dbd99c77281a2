"""The routes under `/v1`: most are generated from the table of operations, some are written by hand."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.routing import APIRoute

from engram.server.rest.routes import audit, events, knowledge, memories
from engram.server.rest.routes.table import made

_BY_HAND = (memories.router, knowledge.router, audit.router, events.router)
_NAMES = {route.name for router in _BY_HAND for route in router.routes if isinstance(route, APIRoute)}
ROUTERS: tuple[APIRouter, ...] = (*_BY_HAND, made(_NAMES))
