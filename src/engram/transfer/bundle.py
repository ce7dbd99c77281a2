"""Knowledge files: written in a canonical form, signed as a whole, and validated when read.

There are two forms with the same content and the same signed digest: JSON, a document with one record a line, and JSON
Lines, with the source first, one record a line, and the signature last.
"""

from __future__ import annotations

import hashlib
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
from engram.model.audit import canonical_json
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
from engram.model.content import texts_in
from engram.model.memory import describe_error
from engram.ports import Event
from engram.text.terms import digest
from engram.transfer.signing import PrivateKey, PublicKey
from engram.transfer.untrusted import (
    LIMITS,
    File,
    PrivateCopy,
    ReadLimits,
    elements,
    lines,
    open_copy,
    parse_object,
    read_head,
)

Form = Literal["json", "jsonl"]
Record = tuple[Carried, tuple[Finding, ...]]

MARK = "engram_knowledge"
MAX_JSON = 100_000
MAX_FINDINGS = 1_000
MAX_NAMES = 100
MAX_ITEMS = 1_000
_MAX_HEAD = 1 << 16
_SIGNED = b"engram knowledge 1\n"
_HIDDEN = re2.compile(
    "[\u200b\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff\U000e0000-\U000e007f]".encode()  # in UTF-8
)
_MARKUP = re2.compile(rb"(?i)<(?:script|iframe|object|embed|svg|img|link|meta)\b|\bjavascript:|\bdata:text/html")
_Model = TypeVar("_Model", bound=BaseModel)


class _Section(NamedTuple):
    """A section of the file: its name in JSON, the name of one record in JSON Lines, and the model of its records."""

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
    """An agent and its installation."""

    agent: str
    installation: str


@dataclass(frozen=True, slots=True)
class Reading:
    """A file that was read completely and validated; `records` reads its records again."""

    source: FileSource
    end: End
    form: Form
    size: int
    """In bytes, after decompression."""
    counts: Mapping[str, int]
    verification: Verification
    findings: tuple[Finding, ...]
    """The first findings, at most `MAX_FINDINGS`."""
    _read_records: Callable[[], Iterator[Record]]

    def records(self) -> Iterator[Record]:
        """Yield each record with its findings, in the order of the file; only while the file is open."""
        return self._read_records()


def signed_bytes(bundle: Bundle) -> bytes:
    """Serialise the signed content: the source and all records as canonical JSON Lines."""
    layout = _Layout("jsonl", bundle.source)
    return b"".join((layout.begin(), *map(layout.record, bundle.records)))


def write(bundle: Bundle, to: str | Path | BinaryIO, form: Form = "json", sign: PrivateKey | None = None) -> End:
    """Write a file; the same bundle and key give the same bytes. A path that ends in `.gz` is compressed.

    A bundle that was read keeps its signature if it is unchanged. An existing file is replaced atomically.
    """
    return write_records(bundle.source, bundle.records, to, form, sign, bundle.end.signature)


def write_records(
    source: FileSource,
    records: Iterable[Carried],
    to: str | Path | BinaryIO,
    form: Form = "json",
    sign: PrivateKey | None = None,
    signature: Signature | None = None,
) -> End:
    """Write records as they are produced: memories first, then events, patterns and rates. Returns the end record.

    `signature` is an earlier one, which is kept if it matches the content.
    """
    if form not in {"json", "jsonl"}:
        raise InvalidInput(f"there is no form {form!r}; there are json and jsonl")
    if not isinstance(to, str | Path):
        return _write_to(source, records, to.write, form, sign, signature)
    path = Path(to)
    try:
        with NamedTemporaryFile(dir=path.parent, prefix=f".{path.name[:50]}.", delete=False) as file:
            try:
                end = _write_file(source, records, file, form, sign, signature, gzip=path.suffix == ".gz")
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


def _write_file(
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
        return _write_to(source, records, file.write, form, sign, signature)
    deflate = zlib.compressobj(wbits=31)
    end = _write_to(source, records, lambda data: file.write(deflate.compress(data)), form, sign, signature)
    file.write(deflate.flush())
    return end


def _write_to(
    source: FileSource,
    records: Iterable[Carried],
    write: Callable[[bytes], object],
    form: Form,
    sign: PrivateKey | None,
    signature: Signature | None,
) -> End:
    layout = _Layout(form, source)
    write(layout.begin())
    for record in records:
        write(layout.record(record))
    plain = layout.end()
    message = _signed_message(plain.digest or "")
    if sign is not None:
        signature = Signature(key=sign.public.id, public_key=sign.public.raw.hex(), value=sign.sign(message).hex())
    elif signature is not None and not _signature_matches(signature, message):
        signature = None
    end = plain.model_copy(update={"signature": signature})
    write(layout.close(end))
    return end


class _Layout:
    """Serialise a file piece by piece, and compute its digest."""

    def __init__(self, form: Form, source: FileSource) -> None:
        self._form, self._source = form, source
        self._digest = hashlib.sha256()
        self._counts = dict.fromkeys(_NAMES, 0)
        self._section = -1

    def begin(self) -> bytes:
        read_head = f'{{"{MARK}":{VERSION},'.encode()
        source = b'"source":' + _record_json(self._source)
        self._digest.update(line := read_head + source + b"}\n")
        return line if self._form == "jsonl" else read_head + b"\n" + source

    def record(self, record: Carried) -> bytes:
        number = next(n for n, section in enumerate(_SECTIONS) if isinstance(record, section.model))
        if number < self._section:
            raise InvalidInput(f"{_NAMES[number]} come before {_NAMES[self._section]}; give them in this order")
        section, own = _SECTIONS[number], _record_json(record)
        self._counts[section.name] += 1
        self._digest.update(line := f'{{"{section.one}":'.encode() + own + b"}\n")
        if self._form == "jsonl":
            self._section = number
            return line
        return self._up_to(number) + (b"\n" if self._counts[section.name] == 1 else b",\n") + own

    def end(self) -> End:
        return End.model_validate({**self._counts, "digest": self._digest.hexdigest()})

    def close(self, end: End) -> bytes:
        own = _record_json(end)
        if self._form == "jsonl":
            return b'{"end":' + own + b"}\n"
        return self._up_to(len(_SECTIONS)) + b',\n"end":' + own + b"}\n"

    def _up_to(self, number: int) -> bytes:
        """Close the open section, and open the next ones up to this."""
        pieces = list[bytes]()
        while self._section < number:
            if self._section >= 0:
                pieces.append(b"\n]" if self._counts[_NAMES[self._section]] else b"]")
            self._section += 1
            if self._section < len(_SECTIONS):
                pieces.append(f',\n"{_NAMES[self._section]}":['.encode())
        return b"".join(pieces)


def _record_json(model: BaseModel) -> bytes:
    return canonical_json(model.model_dump(mode="json", exclude_defaults=True)).encode()


def _signed_message(digest: str) -> bytes:
    return _SIGNED + digest.encode()


def _signature_matches(signature: Signature, message: bytes) -> bool:
    return PublicKey(bytes.fromhex(signature.public_key)).verifies(bytes.fromhex(signature.value), message)


def read(
    file: File,
    *,
    limits: ReadLimits = LIMITS,
    trusted: Mapping[str, PublicKey] | None = None,
    receiver: Holder | None = None,
    suspicious: Callable[[str], object] | None = None,
) -> Bundle:
    """Read a whole file into memory; for large files, use `reading`.

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
    limits: ReadLimits = LIMITS,
    trusted: Mapping[str, PublicKey] | None = None,
    receiver: Holder | None = None,
    suspicious: Callable[[str], object] | None = None,
) -> Iterator[Reading]:
    """Validate a file of any size completely, then yield access to its records, one at a time.

    `trusted` has the public keys of trusted installations; `receiver` is the reader, to detect records that falsely
    claim to be its own; `suspicious` detects instructions in a text. Raises `InvalidInput`.
    """
    with open_copy(file, limits) as copy:
        form = _detect_form(copy.stream)
        inspector = _Inspector(receiver, suspicious)
        source, end, layout, written, found = _read_through(copy, form, limits, inspector)
        verification = _verify_signature(source, end, layout.end(), trusted or {}, same=written == copy.sha256)
        ours = receiver is not None and verification.signer == receiver.installation
        if receiver is not None and not ours and source.installation == receiver.installation:
            found.insert(0, Finding(code="forged-origin", reason="the file says that it is from this installation"))
        inspector = replace(inspector, ours=ours)

        def read_records() -> Iterator[Record]:
            known = set[bytes]()
            for name, value, _ in _parse_parts(copy.stream, form, limits):
                if name in _NAMES and isinstance(value, Carried):
                    yield value, tuple(inspector.inspect(value, source, known))

        findings = tuple(finding for finding in found if not (ours and finding.code == "forged-origin"))
        counts = {name: getattr(layout.end(), name) for name in _NAMES}
        yield Reading(source, end, form, copy.size, counts, verification, findings, read_records)


def lineage(source: FileSource, record: CarriedMemory | CarriedEvent) -> Lineage:
    """Return the origin of a record; without a lineage, it is the file's source."""
    own = Lineage(agent=source.agent, installation=source.installation, id=record.id)
    return record.lineage or own


def identity(source: FileSource, record: CarriedMemory | CarriedEvent) -> str:
    """Return an id that is the same for a record by whatever route it arrives."""
    origin = lineage(source, record)
    return digest(origin.installation, origin.agent, origin.id)


def draft(record: CarriedMemory, key: str | None = None) -> Draft:
    """Convert a memory of a file to a draft, which still has to be redacted."""
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
    """Convert an event to its record in a file."""
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
    """Convert a record of a file to an event; its body still has to be redacted."""
    return Event(record.id, record.kind, record.at, record.subject, record.topic, record.body)


@dataclass(frozen=True, slots=True)
class _Inspector:
    """Look for warnings in records."""

    receiver: Holder | None
    suspicious: Callable[[str], object] | None
    ours: bool = False

    def inspect(self, record: Carried, source: FileSource, known: set[bytes]) -> Iterator[Finding]:
        """Yield the findings about a record; `known` has the ids of the memories before it."""
        if isinstance(record, CarriedPattern | CarriedRate):
            return
        if isinstance(record, CarriedMemory):
            known.add(_id_hash(record.id))
        elif _id_hash(record.subject) not in known:
            yield Finding(code="without-memory", record=record.id, reason="the file does not have its memory")
        yield from self._origin(record, source)
        texts = _all_text(record)
        written = texts.encode()
        if not texts.isascii() and _HIDDEN.search(written):
            yield Finding(code="hidden-characters", record=record.id, reason="it has characters that cannot be seen")
        if _MARKUP.search(written):
            yield Finding(code="markup", record=record.id, reason="it has markup that a browser would run")
        if self.suspicious is not None and self.suspicious(texts):
            yield Finding(code="instructions", record=record.id, reason="it tells an agent what to do")

    def _origin(self, record: CarriedMemory | CarriedEvent, source: FileSource) -> Iterator[Finding]:
        origin = lineage(source, record)
        last = origin.hands[-1] if origin.hands else origin
        if (last.agent, last.installation) != (source.agent, source.installation):
            yield Finding(
                code="forged-origin",
                record=record.id,
                reason=f"it comes from {last.agent} of {last.installation}, but the file from {source.agent} of "
                f"{source.installation}",
            )
        elif self.receiver is not None and not self.ours and origin.installation == self.receiver.installation:
            yield Finding(code="forged-origin", record=record.id, reason="it says that it began at this installation")


def _all_text(record: CarriedMemory | CarriedEvent) -> str:
    """Join all texts of a record."""
    if isinstance(record, CarriedEvent):
        return "\n".join(texts_in(dict(record.body), names=True))
    texts = [record.text, record.context, record.author, *record.tags, record.speaker or "", record.role or ""]
    for values in (record.content, record.metadata):
        texts += texts_in(dict(values), names=True)
    return "\n".join(texts)


def _id_hash(id: str) -> bytes:
    return hashlib.blake2b(id.encode(), digest_size=16).digest()


def _section(record: Carried) -> _Section:
    return next(section for section in _SECTIONS if isinstance(record, section.model))


def _detect_form(stream: IO[bytes]) -> Form:
    """Detect the form: JSON Lines begin with a complete object on the first line."""
    if not read_head(stream).strip():
        raise InvalidInput("the file is empty; give a knowledge file")
    line = stream.readline(_MAX_HEAD).strip()
    if not line.endswith(b"}"):
        return "json"
    try:
        first = parse_object(line, "line 1")
    except InvalidInput:
        return "json"
    return "json" if set(first) & {*_NAMES, "end"} else "jsonl"


def _read_through(
    copy: PrivateCopy, form: Form, limits: ReadLimits, inspector: _Inspector
) -> tuple[FileSource, End, _Layout, str, list[Finding]]:
    """Read and validate the whole file; return its source, end, layout, digest and findings."""
    written = hashlib.sha256()
    ids: dict[str, set[bytes]] = {"memories": set(), "events": set()}
    source: FileSource | None = None
    found = list[Finding]()
    layout: _Layout | None = None
    for name, value, where in _parse_parts(copy.stream, form, limits):
        if isinstance(value, FileSource):
            source, layout = value, _Layout(form, value)
            written.update(layout.begin())
        elif source is None or layout is None:
            raise InvalidInput(f"{where}: the source comes first; a knowledge file begins with it")
        elif isinstance(value, End):
            _check_end(value, layout.end())
            written.update(layout.close(value))
            return source, value, layout, written.hexdigest(), found
        else:
            if isinstance(value, CarriedMemory | CarriedEvent):
                if (short := _id_hash(value.id)) in ids[name]:
                    raise InvalidInput(f"{where}: the id {value.id[:60]!a} is there twice; remove one")
                found += list(inspector.inspect(value, source, ids["memories"]))[: MAX_FINDINGS - len(found)]
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


def _check_end(stated: End, counted: End) -> None:
    for name in (*_NAMES, "digest"):
        if getattr(stated, name) not in {None, getattr(counted, name)}:
            what = "was changed" if name == "digest" else f"does not have the {name} it should have"
            raise InvalidInput(
                f"the file {what} after it was written; get it again, or remove its end if you changed it"
            )


_Value = FileSource | Carried | End


def _parse_parts(stream: IO[bytes], form: Form, limits: ReadLimits) -> Iterator[tuple[str, _Value, str]]:
    """Yield the validated parts of a file: section, value, and position for messages."""
    pieces = _lines_parts(stream, limits) if form == "jsonl" else _document_parts(stream, limits)
    ended = False
    for name, value, where in pieces:
        if ended:
            raise InvalidInput(f"{where} comes after the end; remove it")
        if name == "source":
            yield name, _validate(FileSource, value, where), where
        elif name == "end":
            yield name, _validate(End, value, where), where
            ended = True
        else:
            section = _SECTIONS[_NAMES.index(name)]
            record: Carried = _validate(section.model, value, where)
            yield name, record, where


def _lines_parts(stream: IO[bytes], limits: ReadLimits) -> Iterator[tuple[str, JsonValue, str]]:
    ones = {section.one: section.name for section in _SECTIONS} | {"end": "end"}
    started = False
    for where, line in lines(stream, limits):
        value = parse_object(line, where, limits)
        if not started:
            _check_version(value.get(MARK), where)
            if set(value) != {MARK, "source"}:
                raise InvalidInput(f"{where} must have {MARK} and source, and nothing else")
            yield "source", value["source"], where
            started = True
            continue
        if len(value) != 1 or (one := next(iter(value))) not in ones:
            raise InvalidInput(f"{where} must be one of {', '.join(ones)}; a record has exactly one of these names")
        yield ones[one], value[one], where


def _document_parts(stream: IO[bytes], limits: ReadLimits) -> Iterator[tuple[str, JsonValue, str]]:
    started = False
    for name, where, raw in elements(stream, limits, inside=_NAMES):
        if not started:
            if name != MARK:
                raise InvalidInput(f"this is no knowledge file: {MARK} must be the first name in it")
            _check_version(_scalar(raw), MARK)
            started = True
            continue
        if name not in {"source", "end", *_NAMES}:
            raise InvalidInput(f"a knowledge file has no {name[:60]!a}; remove it")
        yield name, parse_object(raw, where, limits), where
    if not started:
        raise InvalidInput(f"this is no knowledge file: {MARK} must be the first name in it")


def _scalar(raw: bytes) -> JsonValue:
    return int(raw) if re.fullmatch(rb"[0-9]{1,9}", raw) else raw.decode("utf-8", "replace")[:60]


def _check_version(version: JsonValue, where: str) -> None:
    if isinstance(version, bool) or not isinstance(version, int):
        raise InvalidInput(f"{where}: this is no knowledge file: {MARK} must be its version, such as {VERSION}")
    if version > VERSION:
        raise InvalidInput(f"the file has version {version}, this program reads up to {VERSION}; upgrade it")
    if version < 1:
        raise InvalidInput(f"there is no version {version}; versions begin with 1")


def _validate(model: type[_Model], value: JsonValue, where: str) -> _Model:
    _check_sizes(value, where)
    try:
        return model.model_validate(value)
    except ValidationError as error:
        problem = describe_error(error)
        raise InvalidInput(f"{where}: {problem if len(problem) <= 500 else f'{problem[:500]}…'}") from None


def _check_sizes(value: JsonValue, where: str) -> None:
    """Refuse oversized records before they are validated in detail."""
    if not isinstance(value, dict):
        return
    if len(value) > MAX_NAMES:
        raise InvalidInput(f"{where} has {len(value):,} names, a record has at most {MAX_NAMES}")
    for name, own in value.items():
        if isinstance(own, list) and len(own) > MAX_ITEMS:
            raise InvalidInput(f"{where}: {name[:60]} has {len(own):,} elements, {MAX_ITEMS:,} are the limit")
        if isinstance(own, dict) and len(canonical_json(own)) > MAX_JSON:
            raise InvalidInput(f"{where}: {name[:60]} has more than {MAX_JSON:,} characters as JSON; shorten it")


def _verify_signature(
    source: FileSource, end: End, counted: End, trusted: Mapping[str, PublicKey], *, same: bool
) -> Verification:
    signature = end.signature
    if signature is None:
        return Verification(status="unsigned", reason="it is not signed")
    try:
        signs = _signature_matches(signature, _signed_message(counted.digest or ""))
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
        return Verification(status="unknown", key=key.id, reason="it was signed with a key that is not trusted here")
    return Verification(status="valid", key=key.id, signer=source.installation)
