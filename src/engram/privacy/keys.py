"""Store master keys: in a file that only its owner can read, in the environment, or in the system's keyring."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

from engram.errors import ConfigError, Conflict, MissingExtra
from engram.privacy.cipher import KEY_BYTES, MasterKey, from_text, new_key, to_text

MARK = "engram-key-v1:"
KEYRING = "keyring:"
SERVICE = "engram"
_ADVICE = "`engram crypt init` creates one"


def find(key: str, place: str) -> MasterKey | None:
    """Return the master key given as text, or the one stored at a place; `None` if neither is given.

    A place is a file, or `keyring:NAME`. Raises `ConfigError` if it has no valid key, or others can read it.
    """
    if key:
        return MasterKey(_parsed(key, "ENGRAM_KEY"))
    if place.startswith(KEYRING):
        if (kept := _in_keyring(place)) is None:
            raise ConfigError(f"the keyring has no {place}; {_ADVICE}")
        return MasterKey(_parsed(kept, place))
    return MasterKey(_parsed(_from_file(Path(place).expanduser()), place)) if place else None


def make(place: str) -> MasterKey:
    """Create a master key and store it at a place: a new file that only its owner can read, or `keyring:NAME`.

    Raises `Conflict` rather than overwrite anything.
    """
    key = new_key()
    text = MARK + to_text(key)
    if place.startswith(KEYRING):
        if _in_keyring(place) is not None:
            raise Conflict(f"the keyring has {place} already; choose another name")
        _to_keyring(place, text)
    else:
        _write(Path(place).expanduser(), text)
    return MasterKey(key)


def exists(place: str) -> bool:
    """Return whether something is stored at a place."""
    if place.startswith(KEYRING):
        return _in_keyring(place) is not None
    return Path(place).expanduser().exists()


def _parsed(text: str, origin: str) -> bytes:
    try:
        key = from_text(text.strip().removeprefix(MARK))
    except ValueError:
        key = b""
    if len(key) != KEY_BYTES:
        raise ConfigError(f"{origin} does not contain a key of Engram; {_ADVICE}")
    return key


def _from_file(path: Path) -> str:
    try:
        with path.open(encoding="utf-8") as file:
            mode = os.fstat(file.fileno()).st_mode
            if os.name == "posix" and mode & (stat.S_IRWXG | stat.S_IRWXO):
                raise ConfigError(f"others can read the key in {path}; restrict it with `chmod 600 {path}`")
            return file.read(1000)
    except FileNotFoundError:
        raise ConfigError(f"there is no key file {path}; check `key_file`; {_ADVICE}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the key file {path} cannot be read: {error}; check `key_file`") from error


def _write(path: Path, text: str) -> None:
    """Write a new file and flush it to disk: data encrypted with a lost key is lost as well."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(text + "\n")
            file.flush()
            os.fsync(file.fileno())
    except FileExistsError:
        raise Conflict(f"{path} exists; name a new file for the key") from None
    except OSError as error:
        raise ConfigError(f"the key cannot be written to {path}: {error.strerror}; name another file") from error


def _in_keyring(place: str) -> str | None:
    keyring = _keyring()
    try:
        kept: str | None = keyring.get_password(SERVICE, _keyring_name(place))
    except keyring.errors.KeyringError as error:
        raise ConfigError(f"the keyring cannot be used: {_first_line(error)}; keep the key in a file") from error
    return kept


def _to_keyring(place: str, text: str) -> None:
    keyring = _keyring()
    try:
        keyring.set_password(SERVICE, _keyring_name(place), text)
    except keyring.errors.KeyringError as error:
        raise ConfigError(f"the keyring cannot be used: {_first_line(error)}; keep the key in a file") from error


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def _keyring_name(place: str) -> str:
    return place.removeprefix(KEYRING) or "default"


def _keyring() -> Any:
    try:
        import keyring  # noqa: PLC0415 - an extra, needed by few
        import keyring.errors  # noqa: PLC0415
    except ImportError as error:
        raise MissingExtra(f"keyring is not installed ({error}); pip install 'engram-learning[keyring]'") from error
    return keyring
