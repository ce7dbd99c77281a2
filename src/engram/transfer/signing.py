"""Ed25519 keys for knowledge files, and the list of trusted keys. Needs the extra `crypto`.

A public key is published as one line, `engram-ed25519 KEY INSTALLATION`; a list of trusted keys is a file of such
lines.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from engram.errors import InvalidInput, MissingExtra, NotAllowed
from engram.model.bundle import MAX_NAME
from engram.transfer.untrusted import open_regular

SCHEME = "engram-ed25519"
_KEY = re.compile("[0-9a-f]{64}")
_CONTROL = re.compile("[\x00-\x1f\x7f]")
_LONGEST_FILE = 1_000_000
_GROUP_AND_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def _ed25519() -> Any:
    try:
        return importlib.import_module("cryptography.hazmat.primitives.asymmetric.ed25519")
    except ImportError as error:
        raise MissingExtra("cryptography is not installed; pip install 'engram-learning[crypto]'") from error


def _serialization() -> Any:
    return importlib.import_module("cryptography.hazmat.primitives.serialization")


@dataclass(frozen=True, slots=True)
class PublicKey:
    """A key that verifies the signatures of one installation."""

    raw: bytes

    def __post_init__(self) -> None:
        if not isinstance(self.raw, bytes) or len(self.raw) != 32:
            raise InvalidInput("a public key has 32 bytes; copy the whole line")

    @property
    def id(self) -> str:
        """Short fingerprint for people to compare: the first 16 hex digits of the SHA-256 of the key."""
        return hashlib.sha256(self.raw).hexdigest()[:16]

    def verifies(self, signature: bytes, message: bytes) -> bool:
        """Return true if a signature is valid for exactly this message."""
        ed25519 = _ed25519()
        invalid = importlib.import_module("cryptography.exceptions").InvalidSignature
        try:
            ed25519.Ed25519PublicKey.from_public_bytes(self.raw).verify(signature, message)
        except (invalid, ValueError):
            return False
        return True


@dataclass(frozen=True, slots=True)
class PrivateKey:
    """A key that signs for one installation; never printed."""

    seed: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.seed, bytes) or len(self.seed) != 32:
            raise InvalidInput("a private key has 32 bytes; make one with create_key")

    @property
    def public(self) -> PublicKey:
        """The public key, which others need to verify."""
        return PublicKey(self._key().public_key().public_bytes_raw())

    def sign(self, message: bytes) -> bytes:
        """Sign a message; the same message always gives the same 64 bytes."""
        return bytes(self._key().sign(message))

    def _key(self) -> Any:
        return _ed25519().Ed25519PrivateKey.from_private_bytes(self.seed)


def create_key(path: str | Path) -> PrivateKey:
    """Create a key in a new file that only its owner can read. Raises `InvalidInput` if the file exists."""
    serialization = _ed25519() and _serialization()
    key = _ed25519().Ed25519PrivateKey.generate()
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0), 0o600)
    except FileExistsError:
        raise InvalidInput(f"{path} is there already; load it, or give another path") from None
    except OSError as error:
        raise InvalidInput(f"{path} cannot be written: {error.strerror}; give another path") from None
    with os.fdopen(descriptor, "wb") as file:
        file.write(pem)
        file.flush()
        os.fsync(descriptor)
    return PrivateKey(key.private_bytes_raw())


def load_key(path: str | Path) -> PrivateKey:
    """Load a private key. Raises `NotAllowed` if others can read the file, `InvalidInput` if it has no key."""
    ed25519, serialization = _ed25519(), _serialization()
    with open_regular(path) as file:
        if os.name == "posix" and os.fstat(file.fileno()).st_mode & _GROUP_AND_OTHERS:
            raise NotAllowed(f"{path} can be read by others; chmod 600 it, and make a new key if somebody may have")
        pem = file.read(_LONGEST_FILE)
    try:
        key = serialization.load_pem_private_key(pem, password=None)
    except (ValueError, TypeError) as error:
        raise InvalidInput(f"{path} has no private key that can be read: {error}; make one with create_key") from None
    if not isinstance(key, ed25519.Ed25519PrivateKey):
        raise InvalidInput(f"{path} has a key of another kind; make one with create_key")
    return PrivateKey(key.private_bytes_raw())


def public_line(key: PublicKey, installation: str) -> str:
    """Format a public key as a line for the list of trusted keys."""
    return f"{SCHEME} {key.raw.hex()} {_installation(installation)}"


def read_public_line(line: str) -> tuple[str, PublicKey]:
    """Parse a line to an installation and its key. Raises `InvalidInput`."""
    scheme, _, rest = line.strip().partition(" ")
    key, _, installation = rest.strip().partition(" ")
    if scheme != SCHEME or not _KEY.fullmatch(key):
        raise InvalidInput(f"a public key is a line such as `{SCHEME} KEY INSTALLATION`; copy the whole line")
    return _installation(installation), PublicKey(bytes.fromhex(key))


def load_trusted(path: str | Path) -> dict[str, PublicKey]:
    """Load the trusted keys by installation; blank lines and lines that begin with # are ignored.

    A missing file means that no key is trusted. Raises `InvalidInput` for anything else, and if an installation has two
    keys.
    """
    if not Path(path).exists():
        return {}
    with open_regular(path) as file:
        data = file.read(_LONGEST_FILE + 1)
    if len(data) > _LONGEST_FILE:
        raise InvalidInput(f"{path} has more than {_LONGEST_FILE:,} bytes; give a list of trusted keys")
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise InvalidInput(f"{path} is not UTF-8; give a list of trusted keys") from None
    found: dict[str, PublicKey] = {}
    for line in text.splitlines():
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        installation, key = read_public_line(line)
        if found.setdefault(installation, key) != key:
            raise InvalidInput(f"{path} has two keys for {installation}; remove the one that is not trusted")
    return found


def save_trusted(path: str | Path, trusted: Mapping[str, PublicKey]) -> None:
    """Write the list of trusted keys atomically."""
    lines = [public_line(key, installation) for installation, key in sorted(trusted.items())]
    target = Path(path)
    beside = target.with_name(f"{target.name}.new")
    beside.unlink(missing_ok=True)
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write("".join(f"{line}\n" for line in lines))
        file.flush()
        os.fsync(descriptor)
    beside.replace(target)


def _installation(name: str) -> str:
    name = name.strip()
    if not name or len(name) > MAX_NAME or _CONTROL.search(name):
        raise InvalidInput(f"an installation has a name of 1 to {MAX_NAME} characters in one line")
    return name
