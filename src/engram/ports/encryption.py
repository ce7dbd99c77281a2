"""The interfaces of encryption keys."""

from __future__ import annotations

from typing import Protocol


class Seal(Protocol):
    """One key that data is sealed with. `about` says what a sealed value belongs to: elsewhere it does not open."""

    def seal(self, data: bytes, about: bytes) -> bytes:
        """The data, unreadable, and different each time."""
        ...

    def unseal(self, data: bytes, about: bytes) -> bytes:
        """The inverse of `seal`. Raises `StoreCorrupt` if it is not what was sealed, or belongs to something else."""
        ...

    def mask(self, text: str, about: bytes) -> str:
        """The text, unreadable, and each time the same, so that it can be looked for."""
        ...

    def unmask(self, masked: str, about: bytes) -> str:
        """The inverse of `mask`. Raises `StoreCorrupt` like `unseal`."""
        ...

    def blind(self, term: str) -> str:
        """Return the masked form of a word for an index: deterministic, in small letters and digits."""
        ...

    def sign(self, data: bytes) -> str:
        """A digest that nobody can make without the key."""
        ...


class Cipher(Protocol):
    """The master key of a database: it opens the keys that the data is sealed with, and never touches the data."""

    @property
    def identity(self) -> str:
        """Tells one master key from another, and tells nothing about it."""
        ...

    def wrap(self, key: bytes, about: bytes) -> str:
        """A key as it can be kept beside the data."""
        ...

    def unwrap(self, wrapped: str, about: bytes) -> bytes:
        """The inverse of `wrap`. Raises `StoreCorrupt` if it is not what was wrapped, or not by this master key."""
        ...

    def lock(self, key: bytes) -> Seal:
        """Return the operations of a key."""
        ...

    def derive(self, purpose: str) -> bytes:
        """A key of 32 bytes that is always the same for one purpose, such as to encrypt a whole file."""
        ...
