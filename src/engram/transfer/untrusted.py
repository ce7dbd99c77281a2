"""Read files of unknown origin with limits: anything larger, deeper or different than expected is refused."""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
import re
import stat
import zlib
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import IO, BinaryIO, NamedTuple

from pydantic import JsonValue

from engram.errors import InvalidInput
from engram.model.content import texts_in
from engram.ports import unstorable

CHUNK = 1 << 16
_IN_MEMORY = 1 << 20
_MAX_DIGITS = 19
_MAX_NUMBER_LENGTH = 400
_OTHER_FORMATS = {
    b"\x80": "a pickle, which runs code when it is read; export JSON",
    b"PK\x03\x04": "a ZIP archive; unpack it, and give the file in it",
    b"SQLite format 3\x00": "an SQLite database; give a JSON file",
    b"\xff\xfe": "UTF-16 text; save it in UTF-8",
    b"\xfe\xff": "UTF-16 text; save it in UTF-8",
    b"---": "YAML; export JSON",
    b"<": "HTML or XML; export JSON",
}


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """Limits for reading a file."""

    file: int = 100_000_000
    """Bytes of a file, after decompression."""
    record: int = 10_000_000
    """Bytes of one record, line or conversation."""
    records: int = 200_000
    depth: int = 64
    values: int = 200_000
    """Lists, objects, texts and numbers in one record."""
    text: int = 1_000_000
    """Characters of one text."""
    whole: int = 20_000_000
    """Bytes of a file that is read into memory as a whole."""
    whole_records: int = 20_000
    files: int = 2_000
    """Files in a folder."""
    usual: int = 300_000
    """Bytes of all records of an import that is not declared as large."""
    usual_records: int = 1_000


LIMITS = ReadLimits()
File = str | Path | BinaryIO


class PrivateCopy(NamedTuple):
    """A private copy of a file, positioned at its beginning, with the SHA-256 of its bytes."""

    stream: IO[bytes]
    sha256: str
    size: int


@contextmanager
def open_copy(file: File, limits: ReadLimits = LIMITS) -> Iterator[PrivateCopy]:
    """Open a private, decompressed copy of a regular file or stream, which cannot change while it is read.

    Raises `InvalidInput` for links, folders, devices and pipes, and for files that are too large.
    """
    with SpooledTemporaryFile(max_size=_IN_MEMORY) as copy:
        if isinstance(file, str | Path):
            with open_regular(file) as stream:
                digest, size = _copy(stream, copy, limits, f"{file}")
        else:
            digest, size = _copy(file, copy, limits, "the file")
        copy.seek(0)
        yield PrivateCopy(copy, digest, size)


@contextmanager
def open_regular(path: str | Path) -> Iterator[BinaryIO]:
    """Open a regular file for reading. Raises `InvalidInput` for anything else, without blocking on it."""
    try:
        flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
        descriptor = os.open(path, flags)
    except (OSError, ValueError) as error:
        raise InvalidInput(_read_error(path, error)) from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise InvalidInput(f"{_printable(path)} is no regular file; give the path of a file")
    with os.fdopen(descriptor, "rb") as stream:
        yield stream


def is_folder(path: Path) -> bool:
    """Return true if the path is a folder and not a link; false if it cannot be examined."""
    try:
        return path.is_dir() and not path.is_symlink()
    except (OSError, ValueError):
        return False


def starts_with(path: str | Path, sign: bytes) -> bool:
    """Return true if a regular file starts with these bytes. Raises `InvalidInput`."""
    with open_regular(path) as stream:
        return _FileReader(stream, str(path)).read(len(sign)) == sign


def read_start(path: str | Path, size: int) -> bytes:
    """Read the first bytes of a regular file, decompressed if it is gzip. Raises `InvalidInput`."""
    with open_regular(path) as stream:
        return next(_decompressed(_FileReader(stream, str(path))), b"")[:size]


def _read_error(path: str | Path, error: OSError | ValueError) -> str:
    if isinstance(error, ValueError):
        return "a path cannot have a NUL character or half of a surrogate pair; give the path of a file"
    if error.errno == errno.ELOOP:
        return f"{_printable(path)} is a symbolic link; give the file it leads to"
    return f"{_printable(path)} cannot be read: {error.strerror}; give the path of a file that can"


def _printable(path: str | Path) -> str:
    name = str(path).encode("utf-8", "backslashreplace").decode()
    return name if len(name) <= 200 else f"{name[:100]}…{name[-100:]}"


def _copy(stream: BinaryIO, copy: IO[bytes], limits: ReadLimits, name: str) -> tuple[str, int]:
    digest, size = hashlib.sha256(), 0
    for chunk in _decompressed(_FileReader(stream, name)):
        size += len(chunk)
        if size > limits.file:
            raise InvalidInput(f"{_printable(name)} has more than {limits.file:,} bytes; split it")
        digest.update(chunk)
        copy.write(chunk)
    return digest.hexdigest(), size


class _FileReader(NamedTuple):
    """A stream that raises `InvalidInput` instead of `OSError`."""

    stream: BinaryIO
    name: str

    def read(self, size: int) -> bytes:
        try:
            return self.stream.read(size) or b""
        except OSError as error:
            raise InvalidInput(_read_error(self.name, error)) from None


def _decompressed(stream: _FileReader) -> Iterator[bytes]:
    chunk = stream.read(CHUNK)
    if not chunk.startswith(b"\x1f\x8b"):
        while chunk:
            yield chunk
            chunk = stream.read(CHUNK)
        return
    inflate = zlib.decompressobj(wbits=31)
    try:
        while not inflate.eof:
            plain = inflate.decompress(chunk, CHUNK)
            yield plain
            chunk = inflate.unconsumed_tail or (b"" if inflate.eof else stream.read(CHUNK))
            if not chunk and not plain:
                break
    except zlib.error:
        raise InvalidInput("the file is damaged: gzip cannot decompress it; get it again") from None
    if not inflate.eof:
        raise InvalidInput("the file is cut short: its gzip data does not end; get it again")
    if inflate.unused_data or stream.read(1):
        raise InvalidInput("the file goes on after its gzip data; compress it again as one piece")


def read_head(stream: IO[bytes]) -> bytes:
    """Read the first bytes, and position the stream after any byte order mark. Refuses files that are not text."""
    stream.seek(0)
    start = stream.read(CHUNK)
    mark = 3 if start.startswith(b"\xef\xbb\xbf") else 0
    stream.seek(mark)
    start = start[mark:]
    for sign, what in _OTHER_FORMATS.items():
        if start.startswith(sign):
            raise InvalidInput(f"the file is {what}")
    return start


def lines(stream: IO[bytes], limits: ReadLimits = LIMITS) -> Iterator[tuple[str, bytes]]:
    """Yield the non-blank lines from the beginning, each with its position for messages."""
    read_head(stream)
    for number, line in enumerate(iter(lambda: stream.readline(limits.record + 2), b""), 1):
        where = f"line {number}"
        if len(line.rstrip(b"\r\n")) > limits.record:
            raise InvalidInput(f"{where} has more than {limits.record:,} bytes; split the record")
        if number > limits.records + 2:
            raise InvalidInput(f"the file has more than {limits.records:,} records; split it")
        if line.strip():
            yield where, line


def parse(data: bytes, where: str, limits: ReadLimits = LIMITS) -> JsonValue:
    """Parse one JSON value strictly: no duplicate names, NaN, huge numbers, NUL or lone surrogates."""
    if len(data) > limits.record:
        raise InvalidInput(f"{where} has more than {limits.record:,} bytes; split it")
    _check_size(data, where, limits)
    try:
        text = data.decode()
        value: JsonValue = _DECODER.decode(text)
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{where} is not UTF-8 at byte {error.start}; save it in UTF-8") from None
    except json.JSONDecodeError as error:
        raise InvalidInput(f"{where} is not JSON: {error.msg} at character {error.pos}; correct it there") from None
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"{where} cannot be used: {error}; correct it there") from None
    if b"\\u" in data or len(text) > limits.text:
        _check_texts(value, where, limits)
    return value


def parse_object(data: bytes, where: str, limits: ReadLimits = LIMITS) -> dict[str, JsonValue]:
    """Parse one JSON object strictly."""
    value = parse(data, where, limits)
    if not isinstance(value, dict):
        raise InvalidInput(f"{where} must be a JSON object, not {_type_name(value)}")
    return value


def elements(
    stream: IO[bytes], limits: ReadLimits = LIMITS, inside: Collection[str] = ()
) -> Iterator[tuple[str, str, bytes]]:
    """Split a JSON document into parts without parsing them: name, position for messages, JSON.

    A list gives its elements, named ""; an object its values; for lists named in `inside`, their elements.
    """
    read_head(stream)
    cursor = _Cursor(stream, limits)
    first = cursor.peek()
    if first == _LIST:
        for number, raw in enumerate(cursor.elements(), 1):
            yield "", f"entry {number}", raw
    elif first == _OBJECT:
        names = set[str]()
        for name in cursor.names():
            if name in names:
                raise InvalidInput(f"the file has {name!r} twice; remove one")
            names.add(name)
            if name not in inside:
                yield name, repr(name), cursor.value()
                continue
            if cursor.peek() != _LIST:
                raise InvalidInput(f"{name!r} must be a list")
            for number, raw in enumerate(cursor.elements(), 1):
                yield name, f"{name} {number}", raw
    else:
        raise InvalidInput("the file is not JSON: it begins with neither { nor [; export JSON")
    if cursor.peek() != _END_OF_FILE:
        raise InvalidInput("the file goes on after its JSON; remove the rest")


_END_OF_FILE, _QUOTE, _COMMA, _COLON = -1, ord('"'), ord(","), ord(":")
_LIST, _LIST_END, _OBJECT, _OBJECT_END = ord("["), ord("]"), ord("{"), ord("}")
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[\[\]{}"]', re.DOTALL)
_NODE = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[\[\]{},]', re.DOTALL)
_SPACE = re.compile(rb"[ \t\r\n]*+")
_SCALAR = re.compile(rb"[^ \t\r\n,\[\]{}:\"]++")


class _Cursor:
    """Scan a long JSON document for the bounds of its values, with at most one of them in memory."""

    def __init__(self, stream: IO[bytes], limits: ReadLimits) -> None:
        self._stream, self._limits = stream, limits
        self._data, self._at, self._count = b"", 0, 0

    def peek(self) -> int:
        """Return the next non-space byte without consuming it; -1 at the end."""
        while True:
            match = _SPACE.match(self._data, self._at)
            self._at = match.end() if match else self._at
            if self._at < len(self._data):
                return self._data[self._at]
            if not self._more():
                return _END_OF_FILE

    def elements(self) -> Iterator[bytes]:
        """Yield the JSON of each element of the list that begins here."""
        self._at += 1
        if self.peek() == _LIST_END:
            self._at += 1
            return
        while True:
            yield self.value()
            if self._next(_COMMA, _LIST_END) == _LIST_END:
                return

    def names(self) -> Iterator[str]:
        """Yield each name of the object that begins here; the caller must consume its value before the next."""
        self._at += 1
        if self.peek() == _OBJECT_END:
            self._at += 1
            return
        while True:
            if self.peek() != _QUOTE:
                raise self._broken("a name in quotes")
            name = str(parse(self.value(), "a name", self._limits))
            self._next(_COLON)
            yield name
            if self._next(_COMMA, _OBJECT_END) == _OBJECT_END:
                return

    def value(self) -> bytes:
        """Consume the value that begins here and return its JSON."""
        self._count += 1
        if self._count > self._limits.records + 100:
            raise InvalidInput(f"the file has more than {self._limits.records:,} records; split it")
        first = self.peek()
        if first in {_LIST, _OBJECT}:
            return self._compound()
        pattern = _STRING if first == _QUOTE else _SCALAR
        while True:
            match = pattern.match(self._data, self._at)
            if match and (first == _QUOTE or match.end() < len(self._data)):
                return self._take(match.end())
            if not self._more():
                if match:
                    return self._take(match.end())
                raise self._broken("a value")

    def _compound(self) -> bytes:
        depth, values, at = 0, 0, self._at
        while True:
            for match in _TOKEN.finditer(self._data, at):
                sign = match[0][0]
                if sign == _QUOTE:
                    if len(match[0]) == 1:  # the text does not end in what has been read so far
                        at = match.start()
                        break
                elif sign in {_LIST, _OBJECT}:
                    depth, values = depth + 1, values + 1
                    if depth > self._limits.depth:
                        raise InvalidInput(f"the file is nested deeper than {self._limits.depth}; flatten it")
                    if values > self._limits.values:
                        raise InvalidInput(
                            f"the file has a record of more than {self._limits.values:,} values; split it"
                        )
                else:
                    depth -= 1
                    if depth == 0:
                        return self._take(match.end())
                at = match.end()
            offset = at - self._at
            if not self._more():
                raise InvalidInput("the file is cut short: its JSON does not end; get it again")
            at = self._at + offset

    def _take(self, end: int) -> bytes:
        taken = self._data[self._at : end]
        self._at = end
        if len(taken) > self._limits.record:
            raise self._too_long()
        return taken

    def _next(self, *expected: int) -> int:
        sign = self.peek()
        if sign not in expected:
            raise self._broken(" or ".join(chr(one) for one in expected))
        self._at += 1
        return sign

    def _more(self) -> bool:
        """Read on, doubling the amount while a value does not end, so that the cost stays linear."""
        rest = self._data[self._at :]
        if len(rest) > self._limits.record:
            raise self._too_long()
        new = self._stream.read(max(CHUNK, len(rest)))
        self._data, self._at = rest + new, 0
        return bool(new)

    def _too_long(self) -> InvalidInput:
        return InvalidInput(f"the file has a record of more than {self._limits.record:,} bytes; split it")

    def _broken(self, expected: str) -> InvalidInput:
        before = self._stream.tell() - len(self._data) + self._at
        return InvalidInput(f"the file is not JSON: {expected} was expected at byte {before}; correct it there")


def _check_size(data: bytes, where: str, limits: ReadLimits) -> None:
    """Refuse JSON that is too deep or has too many values, before it is parsed."""
    openings = data.count(b"[") + data.count(b"{")
    if openings <= limits.depth and openings + data.count(b",") <= limits.values:
        return
    depth = values = 0
    for match in _NODE.finditer(data):
        sign = match[0][0]
        values += sign in {_LIST, _OBJECT, _COMMA}
        if sign in {_LIST, _OBJECT}:
            depth += 1
        elif sign in {_LIST_END, _OBJECT_END}:
            depth -= 1
        if depth > limits.depth:
            raise InvalidInput(f"{where} is nested deeper than {limits.depth}; flatten it")
        if values > limits.values:
            raise InvalidInput(f"{where} has more than {limits.values:,} values; split it")


def _check_texts(value: JsonValue, where: str, limits: ReadLimits) -> None:
    for text in texts_in(value, names=True):
        if len(text) > limits.text:
            raise InvalidInput(f"{where} has a text of more than {limits.text:,} characters; split it")
        if reason := unstorable(text):
            raise InvalidInput(f"{where} has a text that cannot be stored: {reason}")


def _unique_pairs(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    found = dict(pairs)
    if len(found) != len(pairs):
        ((twice, _),) = Counter(name for name, _ in pairs).most_common(1)
        raise ValueError(f"{twice[:60]!a} is there twice")
    return found


def _parse_int(digits: str) -> int:
    if len(digits.lstrip("-")) > _MAX_DIGITS or not -(2**63) <= int(digits) < 2**63:
        raise ValueError(f"a whole number has {len(digits)} digits, which is more than 64 bits hold")
    return int(digits)


def _parse_float(digits: str) -> float:
    number = float(digits) if len(digits) <= _MAX_NUMBER_LENGTH else math.inf
    if not math.isfinite(number):
        raise ValueError("a number is too large")
    return number


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is no number in JSON")


_DECODER = json.JSONDecoder(
    object_pairs_hook=_unique_pairs, parse_int=_parse_int, parse_float=_parse_float, parse_constant=_refuse_constant
)


def _type_name(value: JsonValue) -> str:
    if value is None:
        return "null"
    names = {dict: "an object", list: "a list", str: "a text", bool: "true or false"}
    return names.get(type(value), "a number")
