"""Markdown notes: MEMORY.md, CLAUDE.md, AGENTS.md and folders; one memory for each item and paragraph."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from pydantic import JsonValue

from engram.errors import InvalidInput
from engram.model import MemoryType
from engram.model.bundle import MAX_TEXT, Incoming
from engram.ports import unstorable
from engram.text.safe_yaml import read_yaml
from engram.text.terms import digest
from engram.transfer.importers.fields import label, labels, time_value
from engram.transfer.untrusted import ReadLimits, is_folder, open_copy

SUFFIXES = frozenset({".md", ".markdown", ".mdc"})
MAX_FILE = 5_000_000
MAX_PIECES = 20_000
MAX_LINES = 200_000
_MAX_DEPTH = 16
_MAX_NAME = 200
_SKIPPED_FOLDERS = frozenset({".git", ".hg", ".svn", ".venv", "node_modules", "__pycache__"})
_HEADING = re.compile(r"(#{1,6})[ \t]+(.*)")
_ITEM = re.compile(r"([ \t]*)(?:[-*+]|[0-9]{1,9}[.)])[ \t]+(.*)")
_BOX = re.compile(r"\[[ xX]\][ \t]+")
_FENCE = re.compile(r"[ \t]{0,3}(`{3,}|~{3,})")


@dataclass(frozen=True, slots=True)
class _TextPiece:
    """One item or paragraph, with the headings and items above it."""

    path: tuple[str, ...]
    text: str


@dataclass(slots=True)
class _Splitter:
    """Position in a file, and the lines collected for the next piece."""

    headings: list[tuple[int, str]] = field(default_factory=list)
    items: list[tuple[int, str]] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)

    def piece(self) -> Iterator[_TextPiece]:
        """Yield the collected lines as a piece, if they have text, and start anew."""
        text = "\n".join(self.lines).strip()
        self.lines = []
        if text.strip("-*_= \t"):
            above = [name for _, name in self.headings] + [name for _, name in self.items[:-1]]
            yield _TextPiece(tuple(above), text)


def memories(path: Path, limits: ReadLimits) -> Iterator[Incoming]:
    """Yield each item and paragraph, file by file in order of name. Links and other files are skipped."""
    total = 0
    for name, file in _files(path, limits):
        text = _read(file, limits)
        total += len(text)
        if total > limits.file:
            raise InvalidInput(f"the files have more than {limits.file:,} characters; import a part of the folder")
        yield from _to_incoming(name, text)


def _files(path: Path, limits: ReadLimits) -> Iterator[tuple[str, Path]]:
    if not is_folder(path):
        yield path.name, path
        return
    waiting, found = [(path, 0)], list[Path]()
    seen = 0
    while waiting:
        folder, depth = waiting.pop()
        with os.scandir(folder) as entries:
            for entry in entries:
                seen += 1
                if seen > 10 * limits.files or len(found) > limits.files:
                    raise InvalidInput(f"the folder has more than {limits.files:,} files; import a part of it")
                if entry.is_dir(follow_symlinks=False):
                    if depth < _MAX_DEPTH and entry.name not in _SKIPPED_FOLDERS:
                        waiting.append((Path(entry.path), depth + 1))
                elif entry.is_file(follow_symlinks=False) and Path(entry.name).suffix.lower() in SUFFIXES:
                    found.append(Path(entry.path))
    for file in sorted(found):
        yield file.relative_to(path).as_posix(), file


def _read(file: Path, limits: ReadLimits) -> str:
    with open_copy(file, limits) as copy:
        if copy.size > MAX_FILE:
            raise InvalidInput(f"{_printable(file.name)} has more than {MAX_FILE:,} bytes; split it")
        data = copy.stream.read()
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{_printable(file.name)} is not UTF-8 at byte {error.start}; save it in UTF-8") from None
    if len(text.splitlines()) > MAX_LINES:
        raise InvalidInput(f"{_printable(file.name)} has more than {MAX_LINES:,} lines; split it")
    if reason := unstorable(text):
        raise InvalidInput(f"{_printable(file.name)} cannot be kept as it is: {reason}")
    return text


def _printable(name: str) -> str:
    return label(name.encode("utf-8", "backslashreplace").decode()) or "the file"


def _to_incoming(name: str, text: str) -> Iterator[Incoming]:
    name = _printable(name)
    front, body = _front_matter(name, text)
    tags = front.get("tags")
    tagged = labels(tags if isinstance(tags, list) else tags.split(",") if isinstance(tags, str) else [])
    title = label(front.get("title")) or label(front.get("name"))
    at = _date(front, name)
    about: dict[str, JsonValue] = {"file": name}
    about |= {key: own for key in ("type", "description") if (own := label(front.get(key)))}
    said = Counter[str]()
    for number, piece in enumerate(pieces(body), 1):
        if number > MAX_PIECES:
            raise InvalidInput(f"{name} has more than {MAX_PIECES:,} items and paragraphs; split it")
        if len(piece.text) > MAX_TEXT:
            raise InvalidInput(f"{name} has a paragraph of more than {MAX_TEXT:,} characters; split it")
        path = ((title,) if title else ()) + piece.path
        context = " > ".join(path)
        own = digest(name, context, piece.text)
        said[own] += 1
        yield Incoming(
            text=piece.text,
            source="markdown",
            original_id=own if said[own] == 1 else f"{own}-{said[own]}",
            kind=MemoryType.KNOWLEDGE,
            tags=tagged,
            at=at,
            context=context,
            metadata=about,
        )


def _date(front: dict[str, JsonValue], name: str) -> datetime | None:
    said = next((front[key] for key in ("date", "created", "updated") if front.get(key)), None)
    return time_value(said, name) if isinstance(said, str) else None


def _front_matter(name: str, text: str) -> tuple[dict[str, JsonValue], str]:
    """Split off the YAML front matter, between two lines of three hyphens."""
    lines = text.splitlines()
    if not lines or lines[0].strip() != "---" or "---" not in map(str.rstrip, lines[1:]):
        return {}, text
    end = next(n for n, line in enumerate(lines[1:], 1) if line.rstrip() == "---")
    try:
        front = read_yaml("\n".join(lines[1:end]), f"the front matter of {name}")
    except InvalidInput:
        front = None  # editors write patterns there that are no YAML; the memories are below
    return front if isinstance(front, dict) else {}, "\n".join(lines[end + 1 :])


def pieces(text: str) -> Iterator[_TextPiece]:
    """Split a Markdown text into items and paragraphs; code belongs to the piece before it."""
    cut, fence, comment = _Splitter(), "", False
    for line in text.splitlines():
        if fence:
            cut.lines.append(line)
            closing = line.strip()
            fence = "" if closing.startswith(fence) and not closing.strip(fence[0]) else fence
        elif comment or line.lstrip().startswith("<!--"):
            comment = "-->" not in line
        elif opening := _FENCE.match(line):
            fence = opening[1]
            cut.lines.append(line)
        elif heading := _HEADING.fullmatch(line):
            yield from cut.piece()
            level, name = len(heading[1]), heading[2].strip().rstrip("#").rstrip()
            cut.headings = [own for own in cut.headings if own[0] < level] + [(level, name[:_MAX_NAME])]
            cut.items = []
        elif item := _ITEM.fullmatch(line):
            yield from cut.piece()
            indent, said = len(item[1].expandtabs(4)), _BOX.sub("", item[2], count=1)
            cut.items = [own for own in cut.items if own[0] < indent] + [(indent, said.strip()[:_MAX_NAME])]
            cut.items = cut.items[-_MAX_DEPTH:]
            cut.lines = [said]
        elif not line.strip():
            yield from cut.piece()
        else:
            if cut.items and not cut.lines and not line[0].isspace():
                cut.items = []
            cut.lines.append(line.strip() if cut.items else line)
    yield from cut.piece()
