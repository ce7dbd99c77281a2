"""Folders that are held open, so that a name cannot lead anywhere else, whatever links others put in its way.

Where the system cannot open folders, as on Windows, each step is looked at before it is taken.
"""

from __future__ import annotations

import errno
import itertools
import os
import re
import stat
import unicodedata
from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress
from io import FileIO
from pathlib import Path
from types import TracebackType

LONGEST_NAME = 255
LONGEST_PATH = 4096
DEEPEST = 200
_HOLDS = os.open in os.supports_dir_fd and os.rename in os.supports_dir_fd
_ONLY_THIS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_NEVER_WAIT = getattr(os, "O_NONBLOCK", 0)
_RESERVED = re.compile(r"(con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³])(\..*)?", re.IGNORECASE | re.DOTALL)


def unsafe(path: str, *, windows: bool = os.name == "nt") -> str | None:
    """Why a path could lead out of a folder or cannot be written in it; `None` if it is safe."""
    if not path:
        return "it is empty"
    if path.startswith("/") or (windows and re.match(r"[A-Za-z]:|\\", path)):
        return "it is not relative"
    parts = path.split("/")
    if len(parts) > DEEPEST or len(os.fsencode(path) if _encodes(path) else path) > LONGEST_PATH:
        return "it is too long"
    return next((reason for part in parts if (reason := unsafe_name(part, windows=windows))), None)


def unsafe_name(name: str, *, windows: bool = os.name == "nt") -> str | None:
    """Why this is no name of a file in a folder; `None` if it is one."""
    if name in {"", ".", ".."}:
        return f"{name!r} is no name"
    if "/" in name or "\x00" in name:
        return "it has a character that no name has"
    if not _encodes(name):
        return "its name is no UTF-8"
    if len(name.encode()) > LONGEST_NAME:
        return "its name is too long"
    if windows and (_RESERVED.fullmatch(name) or name[-1] in ". " or re.search(r'[\x00-\x1f<>:"\\|?*]', name)):
        return "Windows has no such names"
    return None


def leaves(path: str, target: str, *, windows: bool = os.name == "nt") -> str | None:
    """Why a link at `path` could lead out of the folder; `None` if it stays inside, whatever other links there are.

    Steps up are only counted before the first name: behind a name that is a link, nobody knows where they lead.
    """
    parts = target.split("/")
    up = next((place for place, part in enumerate(parts) if part != ".."), len(parts))
    if up > path.count("/"):
        return "the link leads out of the folder"
    rest = [part for part in parts[up:] if part not in {"", "."}]
    if target.startswith("/") or ".." in rest:
        return "the link may lead out of the folder"
    return unsafe("/".join(rest), windows=windows) if rest else None if target else "the link leads nowhere"


def same_but_for_case(paths: Iterable[str]) -> list[list[str]]:
    """Groups of paths that are one and the same where the file system does not tell cases or accents' forms apart."""
    groups = defaultdict[str, set[str]](set)
    for path in paths:
        parts = path.split("/")
        for depth in range(1, len(parts) + 1):
            prefix = "/".join(parts[:depth])
            groups[unicodedata.normalize("NFC", prefix.casefold())].add(prefix)
    return sorted(sorted(group) for group in groups.values() if len(group) > 1)


class Place:
    """One folder; names in it are never followed to anywhere else. Close it, or use it as a context."""

    def __init__(self, path: Path, handle: int | None) -> None:
        self.path = path
        self._handle = handle

    @classmethod
    def at(cls, path: Path) -> Place:
        """The folder at a path, which may be reached by links. Raises `OSError`."""
        if not _HOLDS:
            if not path.is_dir():
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))
            return cls(path, None)
        return cls(path, os.open(path, os.O_RDONLY | os.O_DIRECTORY | getattr(os, "O_CLOEXEC", 0)))

    def close(self) -> None:
        """Let go of the folder."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def __enter__(self) -> Place:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def child(self, name: str, *, make: bool = False) -> Place:
        """A folder in this one, made if there is none. Raises `OSError` for a link or anything else of that name."""
        where = self._where(name)
        if make:
            with suppress(FileExistsError):
                os.mkdir(where, dir_fd=self._handle)
        if self._handle is None:
            found = os.lstat(where)
            if not stat.S_ISDIR(found.st_mode) or _is_junction(found):
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), where)
            return Place(self.path / name, None)
        return Place(self.path / name, os.open(where, os.O_RDONLY | os.O_DIRECTORY | _ONLY_THIS, dir_fd=self._handle))

    def names(self) -> list[str]:
        """The names of what is in the folder, sorted."""
        with os.scandir(self.path if self._handle is None else self._handle) as found:
            return sorted(entry.name for entry in found)

    def stat(self, name: str) -> os.stat_result | None:
        """What is there under a name, a link itself rather than where it leads; `None` if nothing is."""
        try:
            return os.stat(self._where(name), dir_fd=self._handle, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def target(self, name: str) -> str:
        """Where a link leads."""
        return os.readlink(self._where(name), dir_fd=self._handle)

    def open(self, name: str) -> FileIO:
        """A file for reading; never what a link leads to, and it never waits for a pipe."""
        handle = os.open(self._where(name), os.O_RDONLY | _ONLY_THIS | _NEVER_WAIT, dir_fd=self._handle)
        return os.fdopen(handle, "rb", 0)

    def write(self, name: str, pieces: Iterable[bytes], mode: int, *, durable: bool = True) -> None:
        """Write a file in one step: it is there as a whole, or what was there still is."""
        temporary = self._spare()
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _ONLY_THIS
        try:
            with os.fdopen(os.open(self._where(temporary), flags, 0o600, dir_fd=self._handle), "wb") as file:
                file.writelines(pieces)
                file.flush()
                if hasattr(os, "fchmod"):
                    os.fchmod(file.fileno(), mode & 0o777)
                if durable:
                    os.fsync(file.fileno())
            self._rename(temporary, name)
        except BaseException:  # whatever happened, the half is not left behind
            self.remove(temporary)
            raise

    def link(self, name: str, target: str) -> None:
        """Put a link there in one step, instead of a file or a link."""
        temporary = self._spare()
        os.symlink(target, self._where(temporary), dir_fd=self._handle)
        try:
            self._rename(temporary, name)
        except OSError:
            self.remove(temporary)
            raise

    def permit(self, name: str, mode: int) -> None:
        """Change the permissions of a file, not of what a link leads to."""
        if hasattr(os, "fchmod"):
            with self.open(name) as file:
                os.fchmod(file.fileno(), mode & 0o777)

    def remove(self, name: str) -> None:
        """Remove a file or a link, if it is there."""
        with suppress(FileNotFoundError):
            os.unlink(self._where(name), dir_fd=self._handle)

    def ignores_case(self) -> bool:
        """Whether the file system takes a name and the same in capitals for one."""
        name = self._spare()
        self.write(name, [], 0o600, durable=False)
        try:
            return self.stat(name.upper()) is not None
        finally:
            self.remove(name)

    def _rename(self, before: str, after: str) -> None:
        os.replace(self._where(before), self._where(after), src_dir_fd=self._handle, dst_dir_fd=self._handle)

    def _spare(self) -> str:
        """A name that is free; writing to it fails if somebody takes it meanwhile."""
        numbered = (f".engram-{os.getpid()}-{number}.part" for number in itertools.count())
        return next(name for name in numbered if self.stat(name) is None)

    def _where(self, name: str) -> str:
        return name if self._handle is not None else str(self.path / name)


def _is_junction(found: os.stat_result) -> bool:
    """Whether a folder of Windows is another one."""
    return bool(getattr(found, "st_reparse_tag", 0))


def _encodes(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
