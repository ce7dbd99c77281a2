"""The stream of live changes."""

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
            "description": "Its number, for `Last-Event-ID`; it says nothing of the order of events.",
        },
        "event": {"type": "string", "description": "What happened."},
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
        str | None, Header(pattern=r"^[0-9]{1,16}$", description="Go on after this event; browsers send it themselves.")
    ] = None,
    after: Annotated[
        int | None, Query(ge=0, le=live.HIGHEST, description="Go on after this event; from now on, if left out.")
    ] = None,
    seconds: Annotated[
        float | None, Query(ge=0, le=86_400, description="End the stream after so long; 0 to hear what there is.")
    ] = None,
) -> StreamingResponse:
    """Hear of what is stored, forgotten and learned, as it happens.

    For the agent that the header names, or for all agents of the key. An event says what happened and to what; what a
    memory says is to be read by its id.
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
