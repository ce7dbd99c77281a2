"""Encrypt values: AES-256-GCM for values that are only read, AES-256-SIV for values that are searched, keyed hashes."""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from engram.errors import MissingExtra, StoreCorrupt

if TYPE_CHECKING:
    from engram.ports import Seal

KEY_BYTES = 32
NONCE_BYTES = 12
WORDS_KEPT = 50_000
"""Words per key whose keyed hash is cached, since the same ones recur."""

_VERSION = "v1"
_DAMAGED = "an encrypted value was changed or moved; `engram db check` shows what else is damaged"


def new_key() -> bytes:
    """Return a new random key."""
    return os.urandom(KEY_BYTES)


def derive_key(key: bytes, purpose: str, size: int = KEY_BYTES) -> bytes:
    """Derive a key for one purpose, which reveals neither the original key nor that for another purpose."""
    state = hashlib.blake2b(key=key, person=b"engram", digest_size=size)
    state.update(purpose.encode())
    return state.digest()


def ciphers() -> Any:
    """Return the ciphers of the package `cryptography`. Raises `MissingExtra` if it is not installed."""
    try:
        from cryptography.hazmat.primitives.ciphers import aead  # noqa: PLC0415 - an extra, needed by few
    except ImportError as error:
        raise MissingExtra(f"cryptography is not installed ({error}); pip install 'engram-learning[crypto]'") from error
    return aead


class DataKey:
    """A data key that encrypts values; implements `Seal`."""

    def __init__(self, key: bytes) -> None:
        aead = ciphers()
        self._gcm = aead.AESGCM(derive_key(key, "seal"))
        self._siv = aead.AESSIV(derive_key(key, "mask", 64))
        self._signing = derive_key(key, "sign")
        self.blind = lru_cache(WORDS_KEPT)(_blinding(derive_key(key, "blind")))

    def seal(self, data: bytes, about: bytes) -> bytes:
        """Encrypt data, with a different result each time."""
        nonce = os.urandom(NONCE_BYTES)
        return nonce + bytes(self._gcm.encrypt(nonce, data, about))

    def unseal(self, data: bytes, about: bytes) -> bytes:
        """Decrypt the result of `seal`. Raises `StoreCorrupt` if it was changed, or belongs to something else."""
        try:
            return bytes(self._gcm.decrypt(data[:NONCE_BYTES], data[NONCE_BYTES:], about))
        except (_invalid_tag(), ValueError):
            raise StoreCorrupt(_DAMAGED) from None

    def mask(self, text: str, about: bytes) -> str:
        """Encrypt a text with the same result each time, so that it can be searched for."""
        # The cipher refuses empty input.
        return to_text(self._siv.encrypt(b"=" + text.encode(), [about]))

    def unmask(self, masked: str, about: bytes) -> str:
        """Decrypt the result of `mask`. Raises `StoreCorrupt` like `unseal`."""
        try:
            return str(bytes(self._siv.decrypt(from_text(masked), [about]))[1:], "utf-8")
        except (_invalid_tag(), ValueError):
            raise StoreCorrupt(_DAMAGED) from None

    def sign(self, data: bytes) -> str:
        """Return a digest that cannot be made without the key."""
        return hashlib.blake2b(data, key=self._signing, digest_size=16).hexdigest()


class MasterKey:
    """The key that encrypts all data keys; implements `Cipher` with a key in memory."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._wrapping = ciphers().AESGCM(derive_key(key, "wrap"))
        self.identity = derive_key(key, "identity", 8).hex()
        """Identifies the master key without revealing anything about it."""

    def __repr__(self) -> str:
        return f"MasterKey({self.identity})"

    def wrap(self, key: bytes, about: bytes) -> str:
        """Encrypt a data key, to store it beside the data."""
        nonce = os.urandom(NONCE_BYTES)
        return f"{_VERSION}.{self.identity}.{to_text(nonce + bytes(self._wrapping.encrypt(nonce, key, about)))}"

    def unwrap(self, wrapped: str, about: bytes) -> bytes:
        """Decrypt the result of `wrap`. Raises `StoreCorrupt` if it was changed, or made by another master key."""
        version, identity, text = (*wrapped.split(".", 2), "", "")[:3]
        if version != _VERSION or identity != self.identity:
            raise StoreCorrupt(f"a key was wrapped by the master key {identity or '?'}, not by {self.identity}")
        try:
            data = from_text(text)
            return bytes(self._wrapping.decrypt(data[:NONCE_BYTES], data[NONCE_BYTES:], about))
        except (_invalid_tag(), ValueError):
            raise StoreCorrupt("a wrapped key was changed; `engram db restore` brings back a backup") from None

    def lock(self, key: bytes) -> Seal:
        """Return the operations of a data key."""
        return DataKey(key)

    def derive(self, purpose: str) -> bytes:
        """Return a key of 32 bytes that is always the same for one purpose, such as encrypting a whole file."""
        return derive_key(self._key, purpose)


def to_text(data: bytes) -> str:
    """Encode bytes as letters, digits, `-` and `_`."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def from_text(text: str) -> bytes:
    """Decode the result of `to_text`. Raises `ValueError` for anything else."""
    try:
        data = base64.b64decode(text + "=" * (-len(text) % 4), b"-_", validate=True)
    except binascii.Error as error:
        raise ValueError(str(error)) from None
    if to_text(data) != text:
        raise ValueError("not the canonical encoding of these bytes")
    return data


def _blinding(key: bytes) -> Any:
    keyed = hashlib.blake2b(key=key, digest_size=10)

    def blind(term: str) -> str:
        """Return the keyed hash of a word for an index, in lower-case letters and digits."""
        state = keyed.copy()
        state.update(term.encode())
        return base64.b32encode(state.digest()).decode().lower()

    return blind


@lru_cache(1)
def _invalid_tag() -> type[Exception]:
    from cryptography.exceptions import InvalidTag  # noqa: PLC0415 - an extra, needed by few

    return InvalidTag
