"""Sign-in sessions of the dashboard, in memory; each is opened with an API key or an invitation."""

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

SESSION_LENGTH = timedelta(hours=12)
INVITATION_LENGTH = timedelta(minutes=30)
MAX_SESSIONS = 1000
OWNER = ApiKey(
    id="owner", name="the user who started this server", agents=(EVERYONE,), rights=("admin",), created_at=EPOCH
)
"""The key of sessions opened by invitation: whoever can read the output of the server may do everything."""


@dataclass(frozen=True, slots=True)
class Session:
    """A signed-in user, and the token that protects forms against cross-site requests."""

    key: ApiKey
    csrf: str
    until: datetime


class SignInSessions:
    """The sessions of one server; they end with the server, with their key, or after some hours."""

    def __init__(self, keys: Keys, sources: Sources, entropy: Callable[[int], bytes] = os.urandom) -> None:
        self._keys = keys
        self._sources = sources
        self._entropy = entropy
        self._open: dict[str, Session] = {}
        self._invited: dict[str, datetime] = {}
        self._lock = threading.Lock()

    def secret(self) -> str:
        """Return a random secret."""
        return self._entropy(32).hex()

    def sign_in(self, token: str) -> tuple[str, Session] | None:
        """Open a session with an API key; return its secret and the session, or `None` if the key is invalid."""
        key = self._keys.accept(token)
        return None if key is None else self._open_session(key)

    def invite(self) -> str:
        """Return a token that opens one session without a key; it works once, for a short time."""
        token = self.secret()
        with self._lock:
            self._invited[_hash(token)] = self._sources.now() + INVITATION_LENGTH
        return token

    def accept(self, invitation: str) -> tuple[str, Session] | None:
        """Open the session of an invitation; `None` if it was used, has expired, or is invalid."""
        with self._lock:
            until = self._invited.pop(_hash(invitation), None)
        return None if until is None or until <= self._sources.now() else self._open_session(OWNER)

    def get(self, secret: str) -> Session | None:
        """Return the session with a secret if it and its key are still valid."""
        with self._lock:
            session = self._open.get(_hash(secret))
        if session is None:
            return None
        if session.until > self._sources.now() and (session.key is OWNER or self._keys.live(session.key.id)):
            return session
        self.end(secret)
        return None

    def end(self, secret: str) -> None:
        """Sign out; repeating it changes nothing."""
        with self._lock:
            self._open.pop(_hash(secret), None)

    def _open_session(self, key: ApiKey) -> tuple[str, Session]:
        secret, now = self.secret(), self._sources.now()
        session = Session(key, self.secret(), now + SESSION_LENGTH)
        with self._lock:
            self._open = {name: one for name, one in self._open.items() if one.until > now}
            while len(self._open) >= MAX_SESSIONS:
                self._open.pop(next(iter(self._open)))
            self._open[_hash(secret)] = session
        return secret, session


def equal_secrets(one: str, other: str) -> bool:
    """Compare two secrets in constant time."""
    return bool(one) and hmac.compare_digest(one.encode(), other.encode())


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
