"""Open handles to folders: names cannot lead outside, even if others replace folders by links meanwhile.

On systems without folder handles, such as Windows, each step is checked before it is taken.
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

MAX_NAME = 255
MAX_PATH = 4096
MAX_DEPTH = 200
_HAS_DIR_HANDLES = os.open in os.supports_dir_fd and os.rename in os.supports_dir_fd
_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_NON_BLOCKING = getattr(os, "O_NONBLOCK", 0)
_RESERVED = re.compile(r"(con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³])(\..*)?", re.IGNORECASE | re.DOTALL)


def path_problem(path: str, *, windows: bool = os.name == "nt") -> str | None:
    """Return the reason why a path could lead out of a folder or cannot be written; `None` if it is safe."""
    if not path:
        return "it is empty"
    if path.startswith("/") or (windows and re.match(r"[A-Za-z]:|\\", path)):
        return "it is not relative"
    parts = path.split("/")
    if len(parts) > MAX_DEPTH or len(os.fsencode(path) if _can_encode(path) else path) > MAX_PATH:
        return "it is too long"
    return next((reason for part in parts if (reason := name_problem(part, windows=windows))), None)


def name_problem(name: str, *, windows: bool = os.name == "nt") -> str | None:
    """Return the reason why this is not a valid file name; `None` if it is."""
    if name in {"", ".", ".."}:
        return f"{name!r} is no name"
    if "/" in name or "\x00" in name:
        return "it has a character that no name has"
    if not _can_encode(name):
        return "its name is no UTF-8"
    if len(name.encode()) > MAX_NAME:
        return "its name is too long"
    if windows and (_RESERVED.fullmatch(name) or name[-1] in ". " or re.search(r'[\x00-\x1f<>:"\\|?*]', name)):
        return "Windows has no such names"
    return None


def link_problem(path: str, target: str, *, windows: bool = os.name == "nt") -> str | None:
    """Return the reason why a link could lead out of the folder; `None` if it stays inside.

    Leading `..` parts are counted; after a name, which may be a link, `..` is refused.
    """
    parts = target.split("/")
    up = next((place for place, part in enumerate(parts) if part != ".."), len(parts))
    if up > path.count("/"):
        return "the link leads out of the folder"
    rest = [part for part in parts[up:] if part not in {"", "."}]
    if target.startswith("/") or ".." in rest:
        return "the link may lead out of the folder"
    return path_problem("/".join(rest), windows=windows) if rest else None if target else "the link leads nowhere"


def case_conflicts(paths: Iterable[str]) -> list[list[str]]:
    """Group paths that are equal on a file system that ignores case or Unicode normalisation."""
    groups = defaultdict[str, set[str]](set)
    for path in paths:
        parts = path.split("/")
        for depth in range(1, len(parts) + 1):
            prefix = "/".join(parts[:depth])
            groups[unicodedata.normalize("NFC", prefix.casefold())].add(prefix)
    return sorted(sorted(group) for group in groups.values() if len(group) > 1)


class FolderHandle:
    """An open folder; names in it are never followed through links. Close it, or use it as a context manager."""

    def __init__(self, path: Path, handle: int | None) -> None:
        self.path = path
        self._handle = handle

    @classmethod
    def open_folder(cls, path: Path) -> FolderHandle:
        """Open the folder at a path, which may contain links. Raises `OSError`."""
        if not _HAS_DIR_HANDLES:
            if not path.is_dir():
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))
            return cls(path, None)
        return cls(path, os.open(path, os.O_RDONLY | os.O_DIRECTORY | getattr(os, "O_CLOEXEC", 0)))

    def close(self) -> None:
        """Close the folder."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def __enter__(self) -> FolderHandle:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def child(self, name: str, *, make: bool = False) -> FolderHandle:
        """Open a folder in this one, optionally creating it. Raises `OSError` for links and files."""
        where = self._full_path(name)
        if make:
            with suppress(FileExistsError):
                os.mkdir(where, dir_fd=self._handle)
        if self._handle is None:
            found = os.lstat(where)
            if not stat.S_ISDIR(found.st_mode) or _is_junction(found):
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), where)
            return FolderHandle(self.path / name, None)
        return FolderHandle(
            self.path / name, os.open(where, os.O_RDONLY | os.O_DIRECTORY | _NO_FOLLOW, dir_fd=self._handle)
        )

    def names(self) -> list[str]:
        """Return the names in the folder, sorted."""
        with os.scandir(self.path if self._handle is None else self._handle) as found:
            return sorted(entry.name for entry in found)

    def stat(self, name: str) -> os.stat_result | None:
        """Return the status of an entry, without following links; `None` if it does not exist."""
        try:
            return os.stat(self._full_path(name), dir_fd=self._handle, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def target(self, name: str) -> str:
        """Return the target of a link."""
        return os.readlink(self._full_path(name), dir_fd=self._handle)

    def open(self, name: str) -> FileIO:
        """Open a file for reading, without following links or blocking on pipes."""
        handle = os.open(self._full_path(name), os.O_RDONLY | _NO_FOLLOW | _NON_BLOCKING, dir_fd=self._handle)
        return os.fdopen(handle, "rb", 0)

    def write(self, name: str, pieces: Iterable[bytes], mode: int, *, durable: bool = True) -> None:
        """Write a file atomically."""
        temporary = self._temporary_name()
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_FOLLOW
        try:
            with os.fdopen(os.open(self._full_path(temporary), flags, 0o600, dir_fd=self._handle), "wb") as file:
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
        """Create a link atomically, replacing a file or link."""
        temporary = self._temporary_name()
        os.symlink(target, self._full_path(temporary), dir_fd=self._handle)
        try:
            self._rename(temporary, name)
        except OSError:
            self.remove(temporary)
            raise

    def chmod(self, name: str, mode: int) -> None:
        """Change the permissions of a file, without following links."""
        if hasattr(os, "fchmod"):
            with self.open(name) as file:
                os.fchmod(file.fileno(), mode & 0o777)

    def remove(self, name: str) -> None:
        """Remove a file or link, if it exists."""
        with suppress(FileNotFoundError):
            os.unlink(self._full_path(name), dir_fd=self._handle)

    def ignores_case(self) -> bool:
        """Return true if the file system does not distinguish a name from its upper case."""
        name = self._temporary_name()
        self.write(name, [], 0o600, durable=False)
        try:
            return self.stat(name.upper()) is not None
        finally:
            self.remove(name)

    def _rename(self, before: str, after: str) -> None:
        os.replace(self._full_path(before), self._full_path(after), src_dir_fd=self._handle, dst_dir_fd=self._handle)

    def _temporary_name(self) -> str:
        """Return an unused name; writing to it fails if another process takes it meanwhile."""
        numbered = (f".engram-{os.getpid()}-{number}.part" for number in itertools.count())
        return next(name for name in numbered if self.stat(name) is None)

    def _full_path(self, name: str) -> str:
        return name if self._handle is not None else str(self.path / name)


def _is_junction(found: os.stat_result) -> bool:
    """Return true if a Windows folder is a junction to another one."""
    return bool(getattr(found, "st_reparse_tag", 0))


def _can_encode(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
