"""Content-addressed storage of file contents: equal contents are stored once, and damage is detected on reading.

An object is a byte for the encoding, followed by the bytes, the compressed bytes, or the hashes of its chunks.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import sys
import tempfile
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

from engram.agents.workspaces.chunks import MAX_CHUNK, split_chunks
from engram.errors import NotFound, StoreCorrupt, StoreError, StoreFull, StoreReadOnly
from engram.system import fsync

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

SUFFIX = ".objects"
"""Suffix of the objects' folder, which is beside the database."""
MAX_WHOLE = 1 << 20
"""Files up to this size are one object; larger ones are split into chunks."""
_RAW, _PACKED, _CHUNKED = b"\x00", b"\x01", b"\x02"
_HASH = re.compile(r"[0-9a-f]{64}")
_DIGEST = 32
_SAMPLE = 4096
_MAX_COMPRESSED = 0.9
_BATCH = 512
_BATCH_BYTES = 64 << 20
_FLUSHERS = 8
_STALE_NS = 24 * 3600 * 10**9


def sha256(data: bytes) -> str:
    """Return the hash of some content."""
    return hashlib.sha256(data).hexdigest()


def is_hash(text: str) -> bool:
    """Return true if a text can be the hash of an object, and thus is no path."""
    return _HASH.fullmatch(text) is not None


class Objects:
    """A folder of objects. Contents are durable after `fsync`, and a crash leaves no partial objects."""

    def __init__(self, folder: Path, *, durable: bool = True) -> None:
        self.folder = folder
        self.stored = 0
        """How many bytes were written."""
        self.durable = durable
        self._temporary = folder / "tmp"
        self._lock = threading.Lock()
        self._pending = dict[Path, Path]()
        self._pending_bytes = 0

    def put(self, data: bytes) -> str:
        """Store at most `MAX_WHOLE` bytes and return their hash."""
        hash = sha256(data)
        self._write(hash, lambda: encode(data))
        return hash

    def put_stream(self, pieces: Iterable[bytes]) -> str:
        """Store any number of bytes in chunks and return the hash of them all."""
        whole, parts = hashlib.sha256(), list[bytes]()
        for chunk in split_chunks(pieces):
            whole.update(chunk)
            parts.append(bytes.fromhex(self.put(chunk)))
        hash = whole.hexdigest()
        if len(parts) == 1 and parts[0] == whole.digest():
            return hash
        self._write(hash, lambda: _CHUNKED + b"".join(parts))
        return hash

    def has(self, hash: str) -> bool:
        """Return true if an object exists, damaged or not."""
        path = self._path(hash)
        with self._lock:
            return path in self._pending or path.exists()

    def read(self, hash: str) -> Iterator[bytes]:
        """Yield the content in pieces. Raises `NotFound`, and `StoreCorrupt` at the end if the hash differs."""
        whole = hashlib.sha256()
        how, data = self._load(hash)
        if how == _CHUNKED:
            if len(data) % _DIGEST:
                raise _damaged(hash)
            for at in range(0, len(data), _DIGEST):
                piece = self._chunk(data[at : at + _DIGEST].hex())
                whole.update(piece)
                yield piece
        else:
            piece = _decode(hash, how, data)
            whole.update(piece)
            yield piece
        if whole.hexdigest() != hash:
            raise _damaged(hash)

    def size_of(self, hash: str) -> int:
        """Return the size of the content, verifying its hash. Raises as `read` does."""
        return sum(len(piece) for piece in self.read(hash))

    def move_damaged(self, hash: str) -> list[Path]:
        """Move the damaged files of an object away, so that it can be stored again."""
        parts = [hash]
        try:
            how, data = self._load(hash)
            if how == _CHUNKED:
                parts += [data[at : at + _DIGEST].hex() for at in range(0, len(data), _DIGEST)]
        except StoreError:
            parts = [hash]
        except NotFound:
            return []
        moved = list[Path]()
        for part in parts:
            path = self._path(part) if is_hash(part) else None
            if path is not None and path.exists() and not self._sound(part):
                with _translate_errors(self.folder):
                    path.replace(path.with_name(path.name + ".damaged"))
                moved.append(path)
        return moved

    def chunk_hashes(self, hash: str) -> tuple[str, ...]:
        """Return the chunks of an object; empty if it is whole or missing. Raises `StoreError`."""
        try:
            with self._path(hash).open("rb") as file:
                data = file.read() if file.read(1) == _CHUNKED else b""
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise StoreError(f"the object {hash[:12]} cannot be read: {error.strerror}; check the disk") from error
        if len(data) % _DIGEST:
            raise _damaged(hash)
        return tuple(data[at : at + _DIGEST].hex() for at in range(0, len(data), _DIGEST))

    def all(self) -> dict[str, int]:
        """Return the hash and stored size of all objects."""
        with _translate_errors(self.folder):
            return {
                hash: path.stat().st_size
                for path in self.folder.glob("??/*")
                if is_hash(hash := path.parent.name + path.name)
            }

    def remove(self, hashes: Iterable[str]) -> None:
        """Delete objects; only within `exclusive`, and only unused ones."""
        with _translate_errors(self.folder):
            for hash in hashes:
                self._path(hash).unlink(missing_ok=True)

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Prevent all processes from deleting objects; a read-only folder needs no lock."""
        with self._locked(exclusive=False):
            yield

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Wait until no process uses the objects, and keep others out."""
        with _translate_errors(self.folder):
            self._temporary.mkdir(parents=True, exist_ok=True, mode=0o700)
        with self._locked(exclusive=True):
            yield

    @contextmanager
    def _locked(self, *, exclusive: bool) -> Iterator[None]:
        """Hold the lock, which ends with the process at the latest."""
        try:
            handle = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            if exclusive or error.errno not in {errno.ENOENT, errno.EACCES, errno.EPERM, errno.EROFS}:
                raise StoreError(f"{self.folder} cannot be locked: {error.strerror}; name another folder") from error
            yield
            return
        try:
            _lock(handle, exclusive=exclusive)
            yield
        finally:
            os.close(handle)

    def fsync(self) -> None:
        """Write everything stored so far to the disk under its final name."""
        with self._lock:
            self._commit()

    def clock(self) -> int:
        """Return the time of the file system in nanoseconds, and remove temporary files older than a day."""
        with _translate_errors(self.folder):
            self._temporary.mkdir(parents=True, exist_ok=True, mode=0o700)
            with tempfile.TemporaryFile(dir=self._temporary) as file:
                file.write(b"\x00")
                file.flush()
                now = os.fstat(file.fileno()).st_mtime_ns
            for old in self._temporary.iterdir():
                with suppress(FileNotFoundError):  # another process has just renamed it
                    if old.stat().st_mtime_ns < now - _STALE_NS:
                        old.unlink()
        return now

    def read_note(self, name: str) -> bytes:
        """Return a note by its name; empty if there is none."""
        try:
            return (self.folder / name).read_bytes()
        except FileNotFoundError:
            return b""

    def note_names(self, pattern: str) -> list[str]:
        """Return the names of the notes that match a pattern."""
        return sorted(path.name for path in self.folder.glob(pattern))

    def write_note(self, name: str, data: bytes, *, lasting: bool = False) -> None:
        """Store a note, which is not essential, replacing one of the same name.

        With `lasting`, the old note does not reappear after a power loss.
        """
        with _translate_errors(self.folder):
            temporary = self._temporary_with(data)
            if lasting and self.durable:
                fsync(temporary)
            temporary.replace(self.folder / name)
            if lasting and self.durable:
                fsync(self.folder)

    def delete_note(self, name: str) -> None:
        """Delete a note, if it exists."""
        with _translate_errors(self.folder):
            (self.folder / name).unlink(missing_ok=True)

    def _sound(self, hash: str) -> bool:
        try:
            how, data = self._load(hash)
            return how == _CHUNKED or sha256(_decode(hash, how, data)) == hash
        except (StoreError, NotFound):
            return False

    def _path(self, hash: str) -> Path:
        if not is_hash(hash):
            raise StoreCorrupt(f"{hash[:80]!r} is no hash of an object; restore the database from a backup")
        return self.folder / hash[:2] / hash[2:]

    def _write(self, hash: str, content: Callable[[], bytes]) -> None:
        """Write a new object under a temporary name; `_commit` renames it."""
        path = self._path(hash)
        if self.has(hash):
            return
        data = content()
        with _translate_errors(self.folder):
            temporary = self._temporary_with(data)
        with self._lock:
            if path in self._pending:
                temporary.unlink()
                return
            self._pending[path] = temporary
            self._pending_bytes += len(data)
            self.stored += len(data)
            if len(self._pending) >= _BATCH or self._pending_bytes >= _BATCH_BYTES:
                self._commit()

    def _temporary_with(self, data: bytes) -> Path:
        try:
            handle, name = tempfile.mkstemp(dir=self._temporary)
        except FileNotFoundError:
            self._temporary.mkdir(parents=True, exist_ok=True, mode=0o700)
            handle, name = tempfile.mkstemp(dir=self._temporary)
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        return Path(name)

    def _commit(self) -> None:
        """Write all files before flushing the first: the file system then flushes many at once."""
        folders = {path.parent for path in self._pending}
        with _translate_errors(self.folder), ThreadPoolExecutor(_FLUSHERS) as flushers:
            if self.durable:
                list(flushers.map(fsync, self._pending.values()))
            for folder in folders:
                folder.mkdir(exist_ok=True, mode=0o700)
            for path, temporary in self._pending.items():
                temporary.replace(path)
            if self.durable and folders:
                list(flushers.map(fsync, [self.folder, *folders]))
        self._pending.clear()
        self._pending_bytes = 0

    def _load(self, hash: str) -> tuple[bytes, bytes]:
        """Return the encoding of an object and its data. Raises `NotFound`."""
        path = self._path(hash)
        with self._lock:
            temporary = self._pending.get(path, path)
        for place in (temporary, path):  # it may get its own name in between
            try:
                data = place.read_bytes()
            except FileNotFoundError:
                continue
            except OSError as error:
                raise StoreError(f"the object {hash[:12]} cannot be read: {error.strerror}; check the disk") from error
            return data[:1], data[1:]
        raise NotFound(f"the object {hash[:12]} is not in {self.folder}; copy that folder along with the database")

    def _chunk(self, hash: str) -> bytes:
        how, data = self._load(hash)
        return _decode(hash, how, data)


def encode(data: bytes) -> bytes:
    """Encode an object, compressed if a sample shows that it pays."""
    sample = data[:_SAMPLE]
    if len(zlib.compress(sample, 1)) < _MAX_COMPRESSED * len(sample):
        small = zlib.compress(data, 1)
        if len(small) < _MAX_COMPRESSED * len(data):
            return _PACKED + small
    return _RAW + data


def _decode(hash: str, how: bytes, data: bytes) -> bytes:
    """Decode an object, with a limit on its size. Raises `StoreCorrupt`."""
    if how == _RAW:
        return data
    if how != _PACKED:
        raise _damaged(hash)
    unpacking = zlib.decompressobj()
    try:
        whole = unpacking.decompress(data, max(MAX_WHOLE, MAX_CHUNK))
    except zlib.error:
        raise _damaged(hash) from None
    if not unpacking.eof:
        raise _damaged(hash)
    return whole


def _damaged(hash: str) -> StoreCorrupt:
    return StoreCorrupt(
        f"the object {hash[:12]} is damaged; `engram workspace verify --repair` sets it aside, and the next snapshot"
        " of the same content stores it anew"
    )


def _lock(handle: int, *, exclusive: bool) -> None:
    """Wait for a lock that ends when the file is closed; on Windows, all locks are exclusive."""
    if sys.platform == "win32":
        while True:
            try:
                msvcrt.locking(handle, msvcrt.LK_LOCK, 1)
            except OSError as error:
                if error.errno != errno.EDEADLOCK:
                    raise
            else:
                return
    fcntl.flock(handle, fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH)


@contextmanager
def _translate_errors(folder: Path) -> Iterator[None]:
    """Raise our own errors for errors in writing."""
    try:
        yield
    except OSError as error:
        why = f"{folder} cannot be written: {error.strerror}"
        if error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}:
            raise StoreFull(f"{why}; make room and take the snapshot again") from error
        if error.errno in {errno.EACCES, errno.EPERM, errno.EROFS}:
            raise StoreReadOnly(f"{why}; change its permissions, or name another folder") from error
        raise StoreError(f"{why}; name another folder") from error
