"""`engram memory add --jsonl`: store a file of JSON lines, 500 in a transaction, and report each rejected line."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from engram.cli.invocation import Invocation
from engram.cli.options import parse_json
from engram.cli.render import ProgressCallback, print_json, progress
from engram.errors import EngramError, InvalidInput
from engram.system import batched

if TYPE_CHECKING:
    from engram.engine import AgentHandle
    from engram.model import Draft, Receipt

BATCH = 500
BOM = b"\xef\xbb\xbf"


@dataclass
class LineCounts:
    """Numbers of lines by result, and the rejected lines."""

    stored: int = 0
    known: int = 0
    merged: int = 0
    rejected: int = 0
    rejections: list[dict[str, Any]] = field(default_factory=list)


def store_file(cli: Invocation, writer: AgentHandle, name: str, defaults: Mapping[str, Any]) -> int:
    """Store every line of a file, print the counts, and return the exit code."""
    counts = LineCounts()
    with _open(name) as (file, total), progress(cli, "storing", "bytes") as on_progress:
        try:
            _store(cli, writer, _with_progress(file, total, on_progress), defaults, counts)
        except (EngramError, OSError, KeyboardInterrupt):
            cli.notice(
                f"stopped: {counts.stored + counts.known + counts.merged} lines are stored; "
                "lines with a `key` are not stored twice if you run it again"
            )
            raise
    if cli.json:
        print_json(asdict(counts))
    else:
        known = f", already there {counts.known:,}" if counts.known else ""
        click.echo(f"Stored {counts.stored:,}{known}, merged {counts.merged:,}, rejected {counts.rejected:,}.")
    if counts.rejected and counts.stored + counts.known + counts.merged:
        cli.notice("the other lines are stored")
    return 1 if counts.rejected else 0


def read_text() -> str:
    """Read standard input as one text, without the line break at its end."""
    raw = _stdin().read().removeprefix(BOM)
    try:
        return raw.decode("utf-8").rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise InvalidInput(f"standard input is not UTF-8 (byte {error.start}); convert it first") from None


def _store(
    cli: Invocation, writer: AgentHandle, lines: Iterable[bytes], defaults: Mapping[str, Any], counts: LineCounts
) -> None:
    numbered = ((number, line) for number, line in enumerate(lines, start=1) if line.strip())
    for batch in batched(numbered, BATCH):
        drafts: dict[int, Draft] = {}
        refused: dict[int, InvalidInput] = {}
        for number, line in batch:
            try:
                drafts[number] = _draft(line.removeprefix(BOM) if number == 1 else line, defaults)
            except InvalidInput as error:
                refused[number] = error
        receipts = dict(zip(drafts, writer.remember(list(drafts.values())), strict=True))
        for number, _ in batch:
            if number in refused:
                _reject(cli, counts, number, refused[number].code, str(refused[number]))
            else:
                _count(cli, counts, number, receipts[number])


def _draft(line: bytes, defaults: Mapping[str, Any]) -> Draft:
    from engram.model import Draft

    try:
        value = parse_json(line.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise InvalidInput(f"it is not UTF-8 (byte {error.start})") from None
    except ValueError as error:
        raise InvalidInput(f"it is not JSON: {error}") from None
    if isinstance(value, str):
        value = {"text": value}
    if not isinstance(value, dict):
        raise InvalidInput("it must be a JSON object or a string")
    if unknown := sorted(value.keys() - Draft.model_fields.keys()):
        raise InvalidInput(f"unknown field {unknown[0]!r}; there are {', '.join(Draft.model_fields)}")
    if "text" not in value:
        raise InvalidInput("it has no field 'text'")
    return Draft(**{**defaults, **value})


def _count(cli: Invocation, counts: LineCounts, number: int, receipt: Receipt) -> None:
    if receipt.code == "replayed":
        counts.known += 1
    elif receipt.status == "stored":
        counts.stored += 1
    elif receipt.status == "merged":
        counts.merged += 1
    else:
        _reject(cli, counts, number, receipt.code or "failed", receipt.reason or "no reason given")


def _reject(cli: Invocation, counts: LineCounts, number: int, code: str, reason: str) -> None:
    counts.rejected += 1
    counts.rejections.append({"line": number, "code": code, "reason": reason})
    cli.error(code, f"line {number}: {reason}", line=number)


def _stdin() -> IO[bytes]:
    if sys.stdin is None:
        raise InvalidInput("standard input is closed; pipe something in, or give the text itself")
    return sys.stdin.buffer


@contextmanager
def _open(name: str) -> Iterator[tuple[IO[bytes], int]]:
    """Open a file, or standard input for `-`; its size, 0 if unknown."""
    if name == "-":
        yield _stdin(), 0
        return
    with Path(name).open("rb") as file:
        yield file, Path(name).stat().st_size


def _with_progress(file: IO[bytes], total: int, on_progress: ProgressCallback) -> Iterator[bytes]:
    done = 0
    for line in file:
        done += len(line)
        yield line
        on_progress(done, total)
