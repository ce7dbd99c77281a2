"""Callers' keys: made once and shown once, kept as hashes, scoped to agents and rights, expiring, revocable.

A key reads `eng_<id>_<secret>`. Every door asks `Keys.accept` who is calling; what it answers with is all that the
caller may do.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta

from engram.clock import Sources
from engram.errors import Conflict, Hint, InvalidInput, NotFound, Unsupported
from engram.model.api_key import EVERYONE, RIGHTS, ApiKey, Right
from engram.ports import KeepsApiKeys, Redactor, Scope, Store, arguments, reserved

PREFIX = "eng"
SECRET_BYTES = 32
ID_BYTES = 9
NOTED_EVERY = timedelta(minutes=1)
"""How far `last_used` may lag behind, so that reading does not mean writing."""
MOST_AGENTS = 1000

_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_TOKEN = re.compile(rf"{PREFIX}_([0-9A-Za-z]{{4,32}})_([0-9A-Za-z]{{20,64}})", re.ASCII)
_NOBODY = hashlib.sha256(b"nobody").hexdigest()


class Keys:
    """The callers' keys of one database."""

    def __init__(
        self,
        store: Store,
        redactor: Redactor,
        sources: Sources,
        entropy: Callable[[int], bytes] = os.urandom,
    ) -> None:
        if not isinstance(store, KeepsApiKeys):
            raise Unsupported("this store does not keep the keys of callers; SQLite and PostgreSQL do")
        self._store: KeepsApiKeys = store
        self._redactor = redactor
        self._sources = sources
        self._entropy = entropy

    def create(
        self,
        name: str,
        *,
        agents: str | Iterable[str] = EVERYONE,
        rights: str | Iterable[str] = ("read", "write"),
        expires_at: datetime | str | None = None,
    ) -> tuple[ApiKey, str]:
        """Make a key for some agents and rights; the text to give to the caller is not to be had again."""
        now, until = self._sources.now(), arguments.moment("expires_at", expires_at)
        if until is not None and until <= now:
            raise InvalidInput("expires_at must lie in the future")
        said = self._named(name)
        whose, may = self._agents(agents), _rights(rights)
        id, secret = _text(self._entropy(ID_BYTES)), _text(self._entropy(SECRET_BYTES))
        key = ApiKey(id=id, name=said, agents=whose, rights=may, created_at=now, expires_at=until)
        if not self._store.add_key(key, _hash(secret)):
            raise Conflict("the new key has the id of another one; try again")
        return key, f"{PREFIX}_{id}_{secret}"

    def accept(self, token: str | None) -> ApiKey | None:
        """The key that a caller has shown, or `None` if it is not known, revoked or expired; that it was used is noted.

        It takes as long for a wrong secret as for an unknown id.
        """
        shown = _TOKEN.fullmatch(token or "")
        known = self._store.key(shown[1]) if shown else None
        same = hmac.compare_digest(_hash(shown[2] if shown else ""), known[1] if known else _NOBODY)
        now = self._sources.now()
        if known is None or not same or not known[0].is_active(now):
            return None
        key = known[0]
        if key.last_used is None or not timedelta(0) <= now - key.last_used < NOTED_EVERY:
            self._store.note_key(key.id, last_used=now)
        return key

    def live(self, id: str) -> bool:
        """Whether a key that was accepted is still good."""
        known = self._store.key(id)
        return known is not None and known[0].is_active(self._sources.now())

    def every(self) -> list[ApiKey]:
        """All keys, the oldest first, also those that are refused."""
        return self._store.keys()

    def revoke(self, id: str) -> ApiKey:
        """Refuse a key from now on; again is harmless. Raises `NotFound`."""
        said = id.removeprefix(f"{PREFIX}_").partition("_")[0]  # somebody may give the whole key
        known = arguments.is_id(said) and self._store.note_key(said, revoked_at=self._sources.now())
        found = self._store.key(said) if known else None
        if found is None:
            raise NotFound("there is no such key", hint=Hint("key list"))
        return found[0]

    def _named(self, name: str) -> str:
        if not isinstance(name, str) or not name.strip() or len(name) > 100 or not arguments.is_id(name):
            raise InvalidInput("a key needs a name of 1 to 100 characters that says what it is for")
        return self._redactor.clean([name.strip()])[0].text

    def _agents(self, agents: str | Iterable[str]) -> tuple[str, ...]:
        names = tuple(dict.fromkeys(arguments.several("agents", agents)))
        if len(names) > MOST_AGENTS:
            raise InvalidInput(f"a key is for {MOST_AGENTS} agents at most; make it for all with {EVERYONE!r}")
        for name in names:
            if reserved(Scope(name).agent) or self._redactor.clean([name])[0].secrets:
                raise InvalidInput("one of the agents has a name that no agent may have")
        return (EVERYONE,) if EVERYONE in names else names


def _rights(rights: str | Iterable[str]) -> tuple[Right, ...]:
    given = set(arguments.several("rights", rights))
    if not given or (unknown := given - set(RIGHTS)):
        said = f"there is no right {min(unknown)!r}" if given else "a key needs a right"
        raise InvalidInput(f"{said}; there are {', '.join(RIGHTS)}")
    return tuple(right for right in RIGHTS if right in given)


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def _text(data: bytes) -> str:
    """Bytes as letters and digits, always as many for as many bytes."""
    number, digits = int.from_bytes(data, "big"), []
    for _ in range(-(-len(data) * 8 * 1000 // 5954)):
        number, rest = divmod(number, len(_DIGITS))
        digits.append(_DIGITS[rest])
    return "".join(reversed(digits))
