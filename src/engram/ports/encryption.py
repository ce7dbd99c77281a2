"""The interfaces of encryption keys."""

from __future__ import annotations

from typing import Protocol


class Seal(Protocol):
    """A key that encrypts data. `about` is associated data: a value can be decrypted only with the same `about`."""

    def seal(self, data: bytes, about: bytes) -> bytes:
        """Encrypt data; the result differs each time."""
        ...

    def unseal(self, data: bytes, about: bytes) -> bytes:
        """Decrypt data. Raises `StoreCorrupt` if it was changed, or was encrypted with another `about`."""
        ...

    def mask(self, text: str, about: bytes) -> str:
        """Encrypt text deterministically, so that equal texts can be searched for."""
        ...

    def unmask(self, masked: str, about: bytes) -> str:
        """Decrypt a text that `mask` encrypted. Raises `StoreCorrupt` like `unseal`."""
        ...

    def blind(self, term: str) -> str:
        """Return a keyed hash of a word for an index: deterministic, in small letters and digits."""
        ...

    def sign(self, data: bytes) -> str:
        """Return a keyed digest (MAC) of data."""
        ...


class Cipher(Protocol):
    """The master key of a database: it encrypts the data keys, not the data itself."""

    @property
    def identity(self) -> str:
        """A public identifier of the master key."""
        ...

    def wrap(self, key: bytes, about: bytes) -> str:
        """Encrypt a data key, so that it can be stored beside the data."""
        ...

    def unwrap(self, wrapped: str, about: bytes) -> bytes:
        """Decrypt a data key. Raises `StoreCorrupt` if it was changed, or encrypted with another master key."""
        ...

    def lock(self, key: bytes) -> Seal:
        """Return the operations with a data key."""
        ...

    def derive(self, purpose: str) -> bytes:
        """Derive a key of 32 bytes for a purpose, such as encrypting a whole file; it is always the same."""
        ...
