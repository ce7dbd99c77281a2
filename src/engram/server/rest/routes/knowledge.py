"""The hand-written routes that export and import knowledge files."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import IO, Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query, Request
from pydantic import Field
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import StreamingResponse

from engram.api.call import Call
from engram.api.limits import Limits
from engram.errors import InvalidInput
from engram.model.transfer import ImportReport
from engram.server.rest.parameters import caller, slowly

router = APIRouter(prefix="/v1/knowledge", tags=["knowledge"])
CHUNK = 1 << 18
MEDIA = {"json": "application/json", "jsonl": "application/x-ndjson"}
_FILE: dict[str, Any] = {"type": "string", "format": "binary", "description": "The file, as it is."}
_OUT: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The file.",
        "content": {
            MEDIA["json"]: {"schema": {"type": "object", "description": "The knowledge, as one document."}},
            MEDIA["jsonl"]: {"schema": {"type": "string", "description": "One record per line."}},
        },
    }
}
_IN = {"requestBody": {"required": True, "content": {"application/octet-stream": {"schema": _FILE}}}}
Short = Annotated[str, Field(max_length=100)]
Some = Annotated[list[Short] | None, Query(max_length=20, description="Only of these domains.")]
Tagged = Annotated[list[Short] | None, Query(max_length=20, description="Only with any of these tags.")]


@router.get("", response_class=StreamingResponse, responses=_OUT)
async def export_knowledge(
    request: Request,
    call: Annotated[Call, Depends(caller("share", "agent"))],
    domain: Some = None,
    tag: Tagged = None,
    form: Annotated[Literal["json", "jsonl"], Query(description="One document, or one record per line.")] = "json",
) -> StreamingResponse:
    """Export the agent's knowledge to a file, all of it or only some domains and tags.

    Knowledge shared by other agents is included only if its grant allows to share it on.
    """

    def written() -> IO[bytes]:
        with TemporaryDirectory(prefix="engram-") as folder:
            path = Path(folder) / f"knowledge.{form}"
            call.agent.knowledge.export(path, domains=domain or (), tags=tag or (), form=form)
            file = TemporaryFile()  # noqa: SIM115 - it is closed after it was sent
            with path.open("rb") as copied:
                shutil.copyfileobj(copied, file, CHUNK)
        file.seek(0)
        return file

    file = await slowly(request, written)
    named = {"Content-Disposition": f'attachment; filename="knowledge.{form}"'}
    return StreamingResponse(_parts(file), media_type=MEDIA[form], headers=named)


def _parts(file: IO[bytes]) -> Iterator[bytes]:
    with file:
        while part := file.read(CHUNK):
            yield part


@router.post("", openapi_extra=_IN)
async def import_knowledge(
    request: Request,
    call: Annotated[Call, Depends(caller("write", "agent"))],
    format: Annotated[
        str | None,
        Query(max_length=40, description="The program that wrote it, such as mem0; detected by default."),
    ] = None,
    dry_run: Annotated[bool, Query(description="Only report what would be imported.")] = False,
    large: Annotated[bool, Query(description="Allow a file with very many records, which may take long.")] = False,
) -> ImportReport:
    """Import knowledge from a file that Engram or another program wrote; importing it again changes nothing.

    It is stored separately from the agent's own memories with low trust, and text that gives instructions to the agent
    is quarantined for review.
    """
    with TemporaryDirectory(prefix="engram-") as folder:
        path = Path(folder) / ("upload.md" if format == "markdown" else "upload")
        with path.open("wb") as file:
            await _received(request, file, request.app.state.limits)
        import_file = partial(
            call.agent.knowledge.import_file,
            path,
            format=format,
            dry_run=dry_run,
            large=large,
            trusted=request.app.state.trusted,
        )
        try:
            return await slowly(request, import_file)
        except InvalidInput as error:
            said = str(error).replace(str(path), "the file").replace(path.name, "the file")
            raise InvalidInput(said) from None


async def _received(request: Request, file: IO[bytes], limits: Limits) -> None:
    """Write the body to a file as it arrives. Raises `HTTPException` if it is too large or too slow."""
    too_large = HTTPException(413, f"the file has more than {limits.upload:,} bytes; send it in parts")
    announced = request.headers.get("content-length", "0")
    if announced.isdigit() and int(announced[:20]) > limits.upload:
        raise too_large
    parts, size = request.stream(), 0
    while True:
        try:
            async with asyncio.timeout(limits.body_seconds):
                part = await anext(parts, None)
        except TimeoutError:
            raise HTTPException(408, "the body did not come in time") from None
        except ClientDisconnect:
            raise HTTPException(400, "the body did not come whole") from None
        if part is None:
            return
        size += len(part)
        if size > limits.upload:
            raise too_large
        await run_in_threadpool(file.write, part)
