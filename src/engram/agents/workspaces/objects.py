"""What files hold, each under the hash of it: the same content is stored once, and damage is found by reading it.

An object is a byte that says how it is stored, then the bytes, the compressed bytes, or the hashes of its chunks.
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

from engram.agents.workspaces.chunks import LARGEST, chunks
from engram.errors import NotFound, StoreCorrupt, StoreError, StoreFull, StoreReadOnly
from engram.system import fsync

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

SUFFIX = ".objects"
"""What the folder of the objects is called beside its database."""
WHOLE = 1 << 20
"""Files up to this size are one object; larger ones are cut into chunks."""
_RAW, _PACKED, _CHUNKED = b"\x00", b"\x01", b"\x02"
_HASH = re.compile(r"[0-9a-f]{64}")
_DIGEST = 32
_SAMPLE = 4096
_PAYS = 0.9
_BATCH = 512
_BATCH_BYTES = 64 << 20
_FLUSHERS = 8
_STALE_NS = 24 * 3600 * 10**9


def sha256(data: bytes) -> str:
    """The hash that content is found by."""
    return hashlib.sha256(data).hexdigest()


def is_hash(text: str) -> bool:
    """Whether this can be the hash of an object, and so is no path."""
    return _HASH.fullmatch(text) is not None


class Objects:
    """A folder of objects. What is kept is there for good after `settle`, and a crash leaves no half of an object."""

    def __init__(self, folder: Path, *, durable: bool = True) -> None:
        self.folder = folder
        self.stored = 0
        """How many bytes were written."""
        self.durable = durable
        self._temporary = folder / "tmp"
        self._lock = threading.Lock()
        self._pending = dict[Path, Path]()
        self._pending_bytes = 0

    def keep(self, data: bytes) -> str:
        """Keep at most `WHOLE` bytes; the hash they are found by."""
        hash = sha256(data)
        self._write(hash, lambda: packed(data))
        return hash

    def keep_stream(self, pieces: Iterable[bytes]) -> str:
        """Keep any number of bytes, in chunks; the hash of them all."""
        whole, parts = hashlib.sha256(), list[bytes]()
        for chunk in chunks(pieces):
            whole.update(chunk)
            parts.append(bytes.fromhex(self.keep(chunk)))
        hash = whole.hexdigest()
        if len(parts) == 1 and parts[0] == whole.digest():
            return hash
        self._write(hash, lambda: _CHUNKED + b"".join(parts))
        return hash

    def has(self, hash: str) -> bool:
        """Whether there is such an object, damaged or not."""
        path = self._path(hash)
        with self._lock:
            return path in self._pending or path.exists()

    def read(self, hash: str) -> Iterator[bytes]:
        """What was kept, in pieces. Raises `NotFound`, and `StoreCorrupt` at the end if it is something else."""
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
            piece = _unpacked(hash, how, data)
            whole.update(piece)
            yield piece
        if whole.hexdigest() != hash:
            raise _damaged(hash)

    def size_of(self, hash: str) -> int:
        """How many bytes the object holds, read and compared with its hash. Raises as `read` does."""
        return sum(len(piece) for piece in self.read(hash))

    def set_aside(self, hash: str) -> list[Path]:
        """Move whatever of an object is damaged out of the way, so that it can be kept anew."""
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
                with _translated(self.folder):
                    path.replace(path.with_name(path.name + ".damaged"))
                moved.append(path)
        return moved

    def parts(self, hash: str) -> tuple[str, ...]:
        """The chunks that an object is made of; none if it is whole, or is not there. Raises `StoreError`."""
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
        """The hashes of all objects that are there, and how many bytes each takes."""
        with _translated(self.folder):
            return {
                hash: path.stat().st_size
                for path in self.folder.glob("??/*")
                if is_hash(hash := path.parent.name + path.name)
            }

    def remove(self, hashes: Iterable[str]) -> None:
        """Remove objects for good; only while `alone`, and only what nothing needs any more."""
        with _translated(self.folder):
            for hash in hashes:
                self._path(hash).unlink(missing_ok=True)

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Nothing is removed meanwhile, by any process; where nothing can be written, nothing can be removed."""
        with self._locked(alone=False):
            yield

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Nobody uses the objects meanwhile, in any process; waits until that is so."""
        with _translated(self.folder):
            self._temporary.mkdir(parents=True, exist_ok=True, mode=0o700)
        with self._locked(alone=True):
            yield

    @contextmanager
    def _locked(self, *, alone: bool) -> Iterator[None]:
        """The lock goes with the process that has it, however that ends."""
        try:
            handle = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            if alone or error.errno not in {errno.ENOENT, errno.EACCES, errno.EPERM, errno.EROFS}:
                raise StoreError(f"{self.folder} cannot be locked: {error.strerror}; name another folder") from error
            yield
            return
        try:
            _lock(handle, alone=alone)
            yield
        finally:
            os.close(handle)

    def fsync(self) -> None:
        """Put everything kept so far on the disk, under its name."""
        with self._lock:
            self._settle()

    def clock(self) -> int:
        """What time it is for the file system, in nanoseconds; left-overs of crashes a day ago are removed."""
        with _translated(self.folder):
            self._temporary.mkdir(parents=True, exist_ok=True, mode=0o700)
            with tempfile.TemporaryFile(dir=self._temporary) as file:
                file.write(b"\x00")
                file.flush()
                now = os.fstat(file.fileno()).st_mtime_ns
            for old in self._temporary.iterdir():
                with suppress(FileNotFoundError):  # somebody else has just given it its name
                    if old.stat().st_mtime_ns < now - _STALE_NS:
                        old.unlink()
        return now

    def note(self, name: str) -> bytes:
        """What was noted under a name; nothing if there is none."""
        try:
            return (self.folder / name).read_bytes()
        except FileNotFoundError:
            return b""

    def notes(self, pattern: str) -> list[str]:
        """The names under which something is noted."""
        return sorted(path.name for path in self.folder.glob(pattern))

    def take_note(self, name: str, data: bytes, *, lasting: bool = False) -> None:
        """Note something that can be done without, instead of what was noted under this name.

        With `lasting`, the old note does not come back after a power loss.
        """
        with _translated(self.folder):
            temporary = self._temporary_with(data)
            if lasting and self.durable:
                fsync(temporary)
            temporary.replace(self.folder / name)
            if lasting and self.durable:
                fsync(self.folder)

    def drop_note(self, name: str) -> None:
        """Remove what was noted under a name, if anything was."""
        with _translated(self.folder):
            (self.folder / name).unlink(missing_ok=True)

    def _sound(self, hash: str) -> bool:
        try:
            how, data = self._load(hash)
            return how == _CHUNKED or sha256(_unpacked(hash, how, data)) == hash
        except (StoreError, NotFound):
            return False

    def _path(self, hash: str) -> Path:
        if not is_hash(hash):
            raise StoreCorrupt(f"{hash[:80]!r} is no hash of an object; restore the database from a backup")
        return self.folder / hash[:2] / hash[2:]

    def _write(self, hash: str, content: Callable[[], bytes]) -> None:
        """Write an object that is not there yet under a temporary name; `settle` gives it its own."""
        path = self._path(hash)
        if self.has(hash):
            return
        data = content()
        with _translated(self.folder):
            temporary = self._temporary_with(data)
        with self._lock:
            if path in self._pending:
                temporary.unlink()
                return
            self._pending[path] = temporary
            self._pending_bytes += len(data)
            self.stored += len(data)
            if len(self._pending) >= _BATCH or self._pending_bytes >= _BATCH_BYTES:
                self._settle()

    def _temporary_with(self, data: bytes) -> Path:
        try:
            handle, name = tempfile.mkstemp(dir=self._temporary)
        except FileNotFoundError:
            self._temporary.mkdir(parents=True, exist_ok=True, mode=0o700)
            handle, name = tempfile.mkstemp(dir=self._temporary)
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        return Path(name)

    def _settle(self) -> None:
        """All are written before the first is flushed: the file system then flushes many at once."""
        folders = {path.parent for path in self._pending}
        with _translated(self.folder), ThreadPoolExecutor(_FLUSHERS) as flushers:
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
        """How an object is stored, and the rest of it. Raises `NotFound`."""
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
        return _unpacked(hash, how, data)


def packed(data: bytes) -> bytes:
    """An object as it is stored: compressed if that pays, which a sample tells."""
    sample = data[:_SAMPLE]
    if len(zlib.compress(sample, 1)) < _PAYS * len(sample):
        small = zlib.compress(data, 1)
        if len(small) < _PAYS * len(data):
            return _PACKED + small
    return _RAW + data


def _unpacked(hash: str, how: bytes, data: bytes) -> bytes:
    """What one object holds, never more than an object may hold. Raises `StoreCorrupt`."""
    if how == _RAW:
        return data
    if how != _PACKED:
        raise _damaged(hash)
    unpacking = zlib.decompressobj()
    try:
        whole = unpacking.decompress(data, max(WHOLE, LARGEST))
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


def _lock(handle: int, *, alone: bool) -> None:
    """Wait for a lock that ends when the file is closed; on Windows, only one can have it at a time."""
    if sys.platform == "win32":
        while True:
            try:
                msvcrt.locking(handle, msvcrt.LK_LOCK, 1)
            except OSError as error:
                if error.errno != errno.EDEADLOCK:
                    raise
            else:
                return
    fcntl.flock(handle, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)


@contextmanager
def _translated(folder: Path) -> Iterator[None]:
    """What the system says about writing, as an error of ours."""
    try:
        yield
    except OSError as error:
        why = f"{folder} cannot be written: {error.strerror}"
        if error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}:
            raise StoreFull(f"{why}; make room and take the snapshot again") from error
        if error.errno in {errno.EACCES, errno.EPERM, errno.EROFS}:
            raise StoreReadOnly(f"{why}; change its permissions, or name another folder") from error
        raise StoreError(f"{why}; name another folder") from error
