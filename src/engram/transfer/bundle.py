"""Knowledge files: written in exactly one way, signed over all they say, read without believing any of it.

Both forms say the same: JSON, a document with one record a line, and JSON Lines, which begins with the source, has one
record a line and closes with the signature. The digest that is signed is the same for both.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import IO, BinaryIO, Literal, NamedTuple, TypeVar

import re2
from pydantic import BaseModel, JsonValue, ValidationError

from engram.errors import InvalidInput, MissingExtra
from engram.model import Draft
from engram.model.bundle import (
    VERSION,
    Bundle,
    Carried,
    CarriedEvent,
    CarriedMemory,
    CarriedPattern,
    CarriedRate,
    End,
    FileSource,
    Finding,
    Lineage,
    Signature,
    Verification,
)
from engram.model.memory import describe_error
from engram.ports import Event
from engram.text.terms import digest
from engram.transfer.signing import PrivateKey, PublicKey
from engram.transfer.untrusted import LIMITS, File, Limits, Opened, elements, head, lines, opened, parse_object

Form = Literal["json", "jsonl"]
Record = tuple[Carried, tuple[Finding, ...]]

MARK = "engram_knowledge"
MAX_JSON = 100_000
MOST_FINDINGS = 1_000
MOST_NAMES = 100
MOST_ITEMS = 1_000
_LONGEST_HEAD = 1 << 16
_SIGNED = b"engram knowledge 1\n"
_HIDDEN = re2.compile(
    "[\u200b\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff\U000e0000-\U000e007f]".encode()  # in UTF-8
)
_MARKUP = re2.compile(rb"(?i)<(?:script|iframe|object|embed|svg|img|link|meta)\b|\bjavascript:|\bdata:text/html")
_Model = TypeVar("_Model", bound=BaseModel)


class _Section(NamedTuple):
    """A part of the file: its name in JSON, the name of each of its records in JSON Lines, and what they are."""

    name: str
    one: str
    model: type[Carried]


_SECTIONS = (
    _Section("memories", "memory", CarriedMemory),
    _Section("events", "event", CarriedEvent),
    _Section("patterns", "pattern", CarriedPattern),
    _Section("rates", "rate", CarriedRate),
)
_NAMES = tuple(section.name for section in _SECTIONS)


@dataclass(frozen=True, slots=True)
class Holder:
    """An agent of an installation."""

    agent: str
    installation: str


@dataclass(frozen=True, slots=True)
class Reading:
    """A file that was read once from beginning to end, and found to be well-formed; its records can be read again."""

    source: FileSource
    end: End
    form: Form
    size: int
    """Bytes, after decompression."""
    counts: Mapping[str, int]
    verification: Verification
    findings: tuple[Finding, ...]
    """The first of them."""
    _again: Callable[[], Iterator[Record]]

    def records(self) -> Iterator[Record]:
        """Each record with what was found about it, in the order of the file; only while the file is open."""
        return self._again()


def canonical(bundle: Bundle) -> bytes:
    """What is signed: the source and all records as JSON Lines, in one way only."""
    layout = _Layout("jsonl", bundle.source)
    return b"".join((layout.begin(), *map(layout.record, bundle.records)))


def write(bundle: Bundle, to: str | Path | BinaryIO, form: Form = "json", sign: PrivateKey | None = None) -> End:
    """Write a file; the same bundle and key give the same bytes. A path that ends in `.gz` is compressed.

    A bundle that was read keeps its signature, as long as nobody changed it. A file at the path is replaced as a whole.
    """
    return save(bundle.source, bundle.records, to, form, sign, bundle.end.signature)


def save(
    source: FileSource,
    records: Iterable[Carried],
    to: str | Path | BinaryIO,
    form: Form = "json",
    sign: PrivateKey | None = None,
    signature: Signature | None = None,
) -> End:
    """Write records as they come: memories first, then events, patterns and rates. Returns what the file closes with.

    `signature` is one that was made before, and is kept if it is about the same content.
    """
    if form not in {"json", "jsonl"}:
        raise InvalidInput(f"there is no form {form!r}; there are json and jsonl")
    if not isinstance(to, str | Path):
        return _emit(source, records, to.write, form, sign, signature)
    path = Path(to)
    try:
        with NamedTemporaryFile(dir=path.parent, prefix=f".{path.name[:50]}.", delete=False) as file:
            try:
                end = _compressed(source, records, file, form, sign, signature, gzip=path.suffix == ".gz")
                file.flush()
                os.fsync(file.fileno())
                Path(file.name).replace(path)
            except BaseException:
                Path(file.name).unlink(missing_ok=True)
                raise
    except (OSError, ValueError) as error:
        raise InvalidInput(
            f"{path} cannot be written: {getattr(error, 'strerror', error)}; give another path"
        ) from None
    return end


def _compressed(
    source: FileSource,
    records: Iterable[Carried],
    file: IO[bytes],
    form: Form,
    sign: PrivateKey | None,
    signature: Signature | None,
    *,
    gzip: bool,
) -> End:
    if not gzip:
        return _emit(source, records, file.write, form, sign, signature)
    deflate = zlib.compressobj(wbits=31)
    end = _emit(source, records, lambda data: file.write(deflate.compress(data)), form, sign, signature)
    file.write(deflate.flush())
    return end


def _emit(
    source: FileSource,
    records: Iterable[Carried],
    put: Callable[[bytes], object],
    form: Form,
    sign: PrivateKey | None,
    signature: Signature | None,
) -> End:
    layout = _Layout(form, source)
    put(layout.begin())
    for record in records:
        put(layout.record(record))
    plain = layout.end()
    message = _message(plain.digest or "")
    if sign is not None:
        signature = Signature(key=sign.public.id, public_key=sign.public.raw.hex(), value=sign.sign(message).hex())
    elif signature is not None and not _signs(signature, message):
        signature = None
    end = plain.model_copy(update={"signature": signature})
    put(layout.close(end))
    return end


class _Layout:
    """The one way to write a file, piece by piece, and the digest of what it says."""

    def __init__(self, form: Form, source: FileSource) -> None:
        self._form, self._source = form, source
        self._digest = hashlib.sha256()
        self._counts = dict.fromkeys(_NAMES, 0)
        self._section = -1

    def begin(self) -> bytes:
        head = f'{{"{MARK}":{VERSION},'.encode()
        source = b'"source":' + _json(self._source)
        self._digest.update(line := head + source + b"}\n")
        return line if self._form == "jsonl" else head + b"\n" + source

    def record(self, record: Carried) -> bytes:
        number = next(n for n, section in enumerate(_SECTIONS) if isinstance(record, section.model))
        if number < self._section:
            raise InvalidInput(f"{_NAMES[number]} come before {_NAMES[self._section]}; give them in this order")
        section, own = _SECTIONS[number], _json(record)
        self._counts[section.name] += 1
        self._digest.update(line := f'{{"{section.one}":'.encode() + own + b"}\n")
        if self._form == "jsonl":
            self._section = number
            return line
        return self._up_to(number) + (b"\n" if self._counts[section.name] == 1 else b",\n") + own

    def end(self) -> End:
        return End.model_validate({**self._counts, "digest": self._digest.hexdigest()})

    def close(self, end: End) -> bytes:
        own = _json(end)
        if self._form == "jsonl":
            return b'{"end":' + own + b"}\n"
        return self._up_to(len(_SECTIONS)) + b',\n"end":' + own + b"}\n"

    def _up_to(self, number: int) -> bytes:
        """Close the section that is open, and open all up to this one."""
        pieces = list[bytes]()
        while self._section < number:
            if self._section >= 0:
                pieces.append(b"\n]" if self._counts[_NAMES[self._section]] else b"]")
            self._section += 1
            if self._section < len(_SECTIONS):
                pieces.append(f',\n"{_NAMES[self._section]}":['.encode())
        return b"".join(pieces)


def _json(model: BaseModel) -> bytes:
    value = model.model_dump(mode="json", exclude_defaults=True)
    return _dumped(value).encode()


def _dumped(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _message(digest: str) -> bytes:
    return _SIGNED + digest.encode()


def _signs(signature: Signature, message: bytes) -> bool:
    return PublicKey(bytes.fromhex(signature.public_key)).verifies(bytes.fromhex(signature.value), message)


def read(
    file: File,
    *,
    limits: Limits = LIMITS,
    trusted: Mapping[str, PublicKey] | None = None,
    receiver: Holder | None = None,
    suspicious: Callable[[str], object] | None = None,
) -> Bundle:
    """A whole file in memory, all of it or nothing; a larger one is read record by record by `reading`.

    The arguments are those of `reading`. Raises `InvalidInput`.
    """
    smaller = replace(limits, file=min(limits.file, limits.whole), records=min(limits.records, limits.whole_records))
    with reading(file, limits=smaller, trusted=trusted, receiver=receiver, suspicious=suspicious) as found:
        parts: dict[str, list[Carried]] = {name: [] for name in _NAMES}
        for record, _ in found.records():
            parts[_section(record).name].append(record)
        return Bundle(
            source=found.source,
            end=found.end,
            verification=found.verification,
            findings=found.findings,
            **{name: tuple(records) for name, records in parts.items()},  # type: ignore[arg-type]
        )


@contextmanager
def reading(
    file: File,
    *,
    limits: Limits = LIMITS,
    trusted: Mapping[str, PublicKey] | None = None,
    receiver: Holder | None = None,
    suspicious: Callable[[str], object] | None = None,
) -> Iterator[Reading]:
    """A file of any size, verified as a whole before the first record is handed out; one record at a time in memory.

    `trusted` has the key of each installation that is; `receiver` says who reads, so that records which pretend to be
    the reader's own are found; `suspicious` finds instructions in a text. Raises `InvalidInput`.
    """
    with opened(file, limits) as copy:
        form = _form(copy.stream)
        looks = _Looks(receiver, suspicious)
        source, end, layout, written, found = _examined(copy, form, limits, looks)
        verification = _verified(source, end, layout.end(), trusted or {}, same=written == copy.sha256)
        ours = receiver is not None and verification.signer == receiver.installation
        if receiver is not None and not ours and source.installation == receiver.installation:
            found.insert(0, Finding(code="forged-origin", reason="the file says that it is from this installation"))
        looks = replace(looks, ours=ours)

        def again() -> Iterator[Record]:
            known = set[bytes]()
            for name, value, _ in _values(copy.stream, form, limits):
                if name in _NAMES and isinstance(value, Carried):
                    yield value, tuple(looks.at(value, source, known))

        findings = tuple(finding for finding in found if not (ours and finding.code == "forged-origin"))
        counts = {name: getattr(layout.end(), name) for name in _NAMES}
        yield Reading(source, end, form, copy.size, counts, verification, findings, again)


def lineage(source: FileSource, record: CarriedMemory | CarriedEvent) -> Lineage:
    """Where a record began; without a lineage, at the source."""
    own = Lineage(agent=source.agent, installation=source.installation, id=record.id)
    return record.lineage or own


def identity(source: FileSource, record: CarriedMemory | CarriedEvent) -> str:
    """The same for the same record, by whatever route it comes."""
    begun = lineage(source, record)
    return digest(begun.installation, begun.agent, begun.id)


def draft(record: CarriedMemory, key: str | None = None) -> Draft:
    """A carried memory as something to remember: it still has to pass the redactor."""
    return Draft(
        record.text,
        kind=record.kind,
        tags=record.tags,
        at=record.happened_at,
        session=record.session,
        role=record.role,
        speaker=record.speaker,
        importance=record.importance,
        confidence=record.confidence,
        key=key,
        metadata=record.metadata,
        context=record.context,
        content={name: value for name, value in record.content.items() if name != "kind"},
        sources=record.sources,
        valid_from=record.valid_from,
        valid_until=record.valid_until,
    )


def carried_event(event: Event, lineage: Lineage | None = None) -> CarriedEvent:
    """An event as it goes into a file."""
    return CarriedEvent(
        id=event.id,
        kind=event.kind,
        at=event.at,
        subject=event.subject,
        topic=event.topic,
        body=event.body,
        lineage=lineage,
    )


def event(record: CarriedEvent) -> Event:
    """A carried event as the log keeps it; its body still has to pass the redactor."""
    return Event(record.id, record.kind, record.at, record.subject, record.topic, record.body)


@dataclass(frozen=True, slots=True)
class _Looks:
    """What is looked at in each record."""

    receiver: Holder | None
    suspicious: Callable[[str], object] | None
    ours: bool = False

    def at(self, record: Carried, source: FileSource, known: set[bytes]) -> Iterator[Finding]:
        """The findings about a record; `known` has the memories before it."""
        if isinstance(record, CarriedPattern | CarriedRate):
            return
        if isinstance(record, CarriedMemory):
            known.add(_short(record.id))
        elif _short(record.subject) not in known:
            yield Finding(code="without-memory", record=record.id, reason="the file does not have its memory")
        yield from self._origin(record, source)
        texts = _texts(record)
        written = texts.encode()
        if not texts.isascii() and _HIDDEN.search(written):
            yield Finding(code="hidden-characters", record=record.id, reason="it has characters that cannot be seen")
        if _MARKUP.search(written):
            yield Finding(code="markup", record=record.id, reason="it has markup that a browser would run")
        if self.suspicious is not None and self.suspicious(texts):
            yield Finding(code="instructions", record=record.id, reason="it tells an agent what to do")

    def _origin(self, record: CarriedMemory | CarriedEvent, source: FileSource) -> Iterator[Finding]:
        begun = lineage(source, record)
        last = begun.hands[-1] if begun.hands else begun
        if (last.agent, last.installation) != (source.agent, source.installation):
            yield Finding(
                code="forged-origin",
                record=record.id,
                reason=f"it comes from {last.agent} of {last.installation}, but the file from {source.agent} of "
                f"{source.installation}",
            )
        elif self.receiver is not None and not self.ours and begun.installation == self.receiver.installation:
            yield Finding(code="forged-origin", record=record.id, reason="it says that it began at this installation")


def _texts(record: CarriedMemory | CarriedEvent) -> str:
    """All that a record says, as one text."""
    said = list[str]()
    waiting: list[JsonValue] = []
    if isinstance(record, CarriedMemory):
        said = [record.text, record.context, record.author, *record.tags, record.speaker or "", record.role or ""]
        waiting = [dict(record.content), dict(record.metadata)]
    else:
        waiting = [dict(record.body)]
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            said.append(one)
        elif isinstance(one, list):
            waiting += one
        elif isinstance(one, dict):
            said += one
            waiting += one.values()
    return "\n".join(said)


def _short(id: str) -> bytes:
    return hashlib.blake2b(id.encode(), digest_size=16).digest()


def _section(record: Carried) -> _Section:
    return next(section for section in _SECTIONS if isinstance(record, section.model))


def _form(stream: IO[bytes]) -> Form:
    """JSON Lines begin with a line that is an object of its own; of JSON that is the whole document."""
    if not head(stream).strip():
        raise InvalidInput("the file is empty; give a knowledge file")
    line = stream.readline(_LONGEST_HEAD).strip()
    if not line.endswith(b"}"):
        return "json"
    try:
        first = parse_object(line, "line 1")
    except InvalidInput:
        return "json"
    return "json" if set(first) & {*_NAMES, "end"} else "jsonl"


def _examined(
    copy: Opened, form: Form, limits: Limits, looks: _Looks
) -> tuple[FileSource, End, _Layout, str, list[Finding]]:
    """Everything that can only be known by reading all of it."""
    written = hashlib.sha256()
    ids: dict[str, set[bytes]] = {"memories": set(), "events": set()}
    source: FileSource | None = None
    found = list[Finding]()
    layout: _Layout | None = None
    for name, value, where in _values(copy.stream, form, limits):
        if isinstance(value, FileSource):
            source, layout = value, _Layout(form, value)
            written.update(layout.begin())
        elif source is None or layout is None:
            raise InvalidInput(f"{where}: the source comes first; a knowledge file begins with it")
        elif isinstance(value, End):
            _refuse_difference(value, layout.end())
            written.update(layout.close(value))
            return source, value, layout, written.hexdigest(), found
        else:
            if isinstance(value, CarriedMemory | CarriedEvent):
                if (short := _short(value.id)) in ids[name]:
                    raise InvalidInput(f"{where}: the id {value.id[:60]!a} is there twice; remove one")
                found += list(looks.at(value, source, ids["memories"]))[: MOST_FINDINGS - len(found)]
                ids[name].add(short)
            try:
                written.update(layout.record(value))
            except InvalidInput as error:
                raise InvalidInput(f"{where}: {error}") from None
    if source is None or layout is None:
        raise InvalidInput("the file has no source; give a knowledge file")
    if form == "jsonl":
        raise InvalidInput("the file is cut short: its last line, which closes it, is missing; get it again")
    return source, End(), layout, "", found


def _refuse_difference(said: End, counted: End) -> None:
    for name in (*_NAMES, "digest"):
        if getattr(said, name) not in {None, getattr(counted, name)}:
            what = "was changed" if name == "digest" else f"does not have the {name} it should have"
            raise InvalidInput(
                f"the file {what} after it was written; get it again, or remove its end if you changed it"
            )


_Value = FileSource | Carried | End


def _values(stream: IO[bytes], form: Form, limits: Limits) -> Iterator[tuple[str, _Value, str]]:
    """The parts of a file, validated one by one: its section, the value, and its name for messages."""
    pieces = _of_lines(stream, limits) if form == "jsonl" else _of_document(stream, limits)
    ended = False
    for name, value, where in pieces:
        if ended:
            raise InvalidInput(f"{where} comes after the end; remove it")
        if name == "source":
            yield name, _model(FileSource, value, where), where
        elif name == "end":
            yield name, _model(End, value, where), where
            ended = True
        else:
            section = _SECTIONS[_NAMES.index(name)]
            record: Carried = _model(section.model, value, where)
            yield name, record, where


def _of_lines(stream: IO[bytes], limits: Limits) -> Iterator[tuple[str, JsonValue, str]]:
    ones = {section.one: section.name for section in _SECTIONS} | {"end": "end"}
    begun = False
    for where, line in lines(stream, limits):
        value = parse_object(line, where, limits)
        if not begun:
            _refuse_version(value.get(MARK), where)
            if set(value) != {MARK, "source"}:
                raise InvalidInput(f"{where} must have {MARK} and source, and nothing else")
            yield "source", value["source"], where
            begun = True
            continue
        if len(value) != 1 or (one := next(iter(value))) not in ones:
            raise InvalidInput(f"{where} must be one of {', '.join(ones)}; a record has exactly one of these names")
        yield ones[one], value[one], where


def _of_document(stream: IO[bytes], limits: Limits) -> Iterator[tuple[str, JsonValue, str]]:
    begun = False
    for name, where, raw in elements(stream, limits, inside=_NAMES):
        if not begun:
            if name != MARK:
                raise InvalidInput(f"this is no knowledge file: {MARK} must be the first name in it")
            _refuse_version(_scalar(raw), MARK)
            begun = True
            continue
        if name not in {"source", "end", *_NAMES}:
            raise InvalidInput(f"a knowledge file has no {name[:60]!a}; remove it")
        yield name, parse_object(raw, where, limits), where
    if not begun:
        raise InvalidInput(f"this is no knowledge file: {MARK} must be the first name in it")


def _scalar(raw: bytes) -> JsonValue:
    return int(raw) if re.fullmatch(rb"[0-9]{1,9}", raw) else raw.decode("utf-8", "replace")[:60]


def _refuse_version(version: JsonValue, where: str) -> None:
    if isinstance(version, bool) or not isinstance(version, int):
        raise InvalidInput(f"{where}: this is no knowledge file: {MARK} must be its version, such as {VERSION}")
    if version > VERSION:
        raise InvalidInput(f"the file has version {version}, this program reads up to {VERSION}; upgrade it")
    if version < 1:
        raise InvalidInput(f"there is no version {version}; versions begin with 1")


def _model(model: type[_Model], value: JsonValue, where: str) -> _Model:
    _refuse_excess(value, where)
    try:
        return model.model_validate(value)
    except ValidationError as error:
        problem = describe_error(error)
        raise InvalidInput(f"{where}: {problem if len(problem) <= 500 else f'{problem[:500]}…'}") from None


def _refuse_excess(value: JsonValue, where: str) -> None:
    """Refuse what no record has so much of, before all that is wrong with it is collected."""
    if not isinstance(value, dict):
        return
    if len(value) > MOST_NAMES:
        raise InvalidInput(f"{where} has {len(value):,} names, a record has at most {MOST_NAMES}")
    for name, own in value.items():
        if isinstance(own, list) and len(own) > MOST_ITEMS:
            raise InvalidInput(f"{where}: {name[:60]} has {len(own):,} elements, {MOST_ITEMS:,} are the limit")
        if isinstance(own, dict) and len(_dumped(own)) > MAX_JSON:
            raise InvalidInput(f"{where}: {name[:60]} has more than {MAX_JSON:,} characters as JSON; shorten it")


def _verified(
    source: FileSource, end: End, counted: End, trusted: Mapping[str, PublicKey], *, same: bool
) -> Verification:
    signature = end.signature
    if signature is None:
        return Verification(status="unsigned", reason="nobody signed it")
    try:
        signs = _signs(signature, _message(counted.digest or ""))
    except MissingExtra as missing:
        return Verification(status="unknown", key=signature.key, reason=f"it cannot be verified: {missing}")
    key = PublicKey(bytes.fromhex(signature.public_key))
    signer = next((name for name, own in trusted.items() if own == key), None)
    expected = trusted.get(source.installation)
    reason = ""
    if key.id != signature.key:
        reason = "the id of the key does not belong to the key"
    elif not same:
        reason = "it was changed after it was signed"
    elif not signs:
        reason = "the signature does not belong to the content"
    elif expected is not None and expected != key:
        reason = f"it was signed with another key than the one that is trusted for {source.installation}"
    elif expected is None and signer is not None:
        reason = f"it says that it is from {source.installation}, but {signer} signed it"
    if reason:
        return Verification(status="invalid", key=key.id, reason=reason)
    if expected is None:
        return Verification(status="unknown", key=key.id, reason="it was signed with a key that nobody trusts here")
    return Verification(status="valid", key=key.id, signer=source.installation)
