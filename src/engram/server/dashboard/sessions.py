"""Who is signed in to the dashboard: sessions that only this process knows, each opened with a caller's key."""

from __future__ import annotations

import hashlib
import hmac
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from engram.clock import EPOCH, Sources
from engram.model.api_key import EVERYONE, ApiKey
from engram.sharing.api_keys import Keys

LASTS = timedelta(hours=12)
INVITED = timedelta(minutes=30)
MOST = 1000
OWNER = ApiKey(id="owner", name="whoever started this server", agents=(EVERYONE,), rights=("admin",), created_at=EPOCH)
"""Stands for the key of somebody who was invited: who can read what the server prints may do everything."""


@dataclass(frozen=True, slots=True)
class Session:
    """Somebody who is signed in, and the text that shows that a form is his own."""

    key: ApiKey
    csrf: str
    until: datetime


class Sessions:
    """The sessions of one server; they end with it, with their key, or after some hours."""

    def __init__(self, keys: Keys, sources: Sources, entropy: Callable[[int], bytes] = os.urandom) -> None:
        self._keys = keys
        self._sources = sources
        self._entropy = entropy
        self._open: dict[str, Session] = {}
        self._invited: dict[str, datetime] = {}
        self._lock = threading.Lock()

    def secret(self) -> str:
        """A text that nobody can guess."""
        return self._entropy(32).hex()

    def sign_in(self, token: str) -> tuple[str, Session] | None:
        """Open a session with a caller's key; its secret, and the session. `None` if the key is no good."""
        key = self._keys.accept(token)
        return None if key is None else self._opened(key)

    def invite(self) -> str:
        """A text that opens one session, once and soon, without a key."""
        token = self.secret()
        with self._lock:
            self._invited[_hash(token)] = self._sources.now() + INVITED
        return token

    def follow(self, invitation: str) -> tuple[str, Session] | None:
        """Open the session of an invitation; `None` if it was used, has expired, or is none."""
        with self._lock:
            until = self._invited.pop(_hash(invitation), None)
        return None if until is None or until <= self._sources.now() else self._opened(OWNER)

    def of(self, secret: str) -> Session | None:
        """The session with this secret, as long as it and its key are good."""
        with self._lock:
            session = self._open.get(_hash(secret))
        if session is None:
            return None
        if session.until > self._sources.now() and (session.key is OWNER or self._keys.live(session.key.id)):
            return session
        self.end(secret)
        return None

    def end(self, secret: str) -> None:
        """Sign out; again is harmless."""
        with self._lock:
            self._open.pop(_hash(secret), None)

    def _opened(self, key: ApiKey) -> tuple[str, Session]:
        secret, now = self.secret(), self._sources.now()
        session = Session(key, self.secret(), now + LASTS)
        with self._lock:
            self._open = {name: one for name, one in self._open.items() if one.until > now}
            while len(self._open) >= MOST:
                self._open.pop(next(iter(self._open)))
            self._open[_hash(secret)] = session
        return secret, session


def same(one: str, other: str) -> bool:
    """Whether two secrets are the same, told in a time that says nothing about them."""
    return bool(one) and hmac.compare_digest(one.encode(), other.encode())


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
