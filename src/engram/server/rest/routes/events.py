"""The hand-written route of live changes."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import StreamingResponse

from engram.api import live
from engram.api.call import Call
from engram.model.api_key import EVERYONE
from engram.ports import Scope, reserved
from engram.server.rest import event_stream
from engram.server.rest.parameters import caller

router = APIRouter(prefix="/v1", tags=["events"])
_EVENT = {
    "type": "object",
    "description": "One event of the stream.",
    "properties": {
        "id": {
            "type": "string",
            "description": "Its number, for `Last-Event-ID`; numbers do not reveal the order of events.",
        },
        "event": {"type": "string", "description": "The kind of event."},
        "data": {"type": "string", "description": "A LiveEvent, as JSON."},
    },
}
_STREAM: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Server-sent events; the data of each is a LiveEvent.",
        "content": {event_stream.MEDIA: {"schema": _EVENT}},
    }
}


@router.get("/events", response_class=StreamingResponse, responses=_STREAM)
async def listen(
    request: Request,
    call: Annotated[Call, Depends(caller("read", "named"))],
    last_event_id: Annotated[
        str | None,
        Header(pattern=r"^[0-9]{1,16}$", description="Continue after this event; browsers send it automatically."),
    ] = None,
    after: Annotated[
        int | None,
        Query(ge=0, le=live.HIGHEST, description="Continue after this event; by default, begin with new events."),
    ] = None,
    seconds: Annotated[
        float | None,
        Query(ge=0, le=86_400, description="End the stream after this time; 0 to get only the events so far."),
    ] = None,
) -> StreamingResponse:
    """Stream events when memories are stored or deleted and when something is learned.

    For the agent that the header names, or for all agents of the key. An event names its kind and its subject; get the
    text of a memory by its id.
    """
    named = None if call.named is None else call.agent_name()
    brain, key = call.brain, call.key

    def scopes() -> list[Scope]:
        names = [named] if named is not None else call.agents() if EVERYONE in key.agents else key.agents
        return [Scope(name) for name in names if not reserved(name)]

    state = request.app.state
    number = after if last_event_id is None else int(last_event_id)
    start = await run_in_threadpool(lambda: live.place(brain.store, scopes(), number))
    lines = event_stream.stream(
        live.Listener(brain.store, start),
        scopes,
        good=lambda: bool(state.keys.live(key.id)),
        stopping=state.stopping,
        every=state.poll_seconds,
        seconds=seconds,
    )
    return event_stream.counted(state, key.id, lines)
