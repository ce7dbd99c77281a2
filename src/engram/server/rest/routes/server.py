"""Health checks and metrics of the server."""

from __future__ import annotations

from typing import Annotated, Any

from anyio.to_thread import current_default_thread_limiter
from fastapi import APIRouter, Depends, Request, Response
from starlette.concurrency import run_in_threadpool

from engram.api.call import Call
from engram.errors import EngramError
from engram.model.wire import Health
from engram.ports import Scope
from engram.server.metrics import MEDIA, Metrics
from engram.server.rest.parameters import Brain, caller

router = APIRouter(tags=["server"])
_TEXT: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "All metrics, in the format of Prometheus.",
        "content": {"text/plain": {"schema": {"type": "string", "description": "One metric per line."}}},
    }
}


@router.get("/healthz")
async def healthz() -> Health:
    """Report that the server runs; this needs no key."""
    return Health(status="ok")


@router.get("/readyz", responses={503: {"model": Health, "description": "The database does not answer."}})
def readyz(brain: Brain, response: Response) -> Health:
    """Report that the database answers; this needs no key."""
    try:
        brain.store.get(Scope("ready"), ["ready"])
    except EngramError:
        response.status_code = 503
        return Health(status="unready")
    return Health(status="ok")


@router.get("/metrics", response_class=Response, responses=_TEXT)
async def metrics(request: Request, call: Annotated[Call, Depends(caller("admin", "key"))]) -> Response:
    """Get the metrics of the server in the format of Prometheus."""
    counted: Metrics = request.app.state.metrics
    threads = current_default_thread_limiter().statistics()
    counted.busy.set(threads.borrowed_tokens)
    counted.waiting.set(threads.tasks_waiting)
    return Response(await run_in_threadpool(counted.text), media_type=MEDIA)
