"""API keys: shown once when created, stored as hashes, limited to agents and rights, with optional expiry, revocable.

A key has the form `eng_<id>_<secret>`. Every server calls `Keys.accept` to authenticate a caller; the `ApiKey` it
returns defines everything that the caller may do.
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
LAST_USED_LAG = timedelta(minutes=1)
"""The most that `last_used` may lag behind, so that not every request writes to the database."""
MAX_AGENTS = 1000

_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_TOKEN = re.compile(rf"{PREFIX}_([0-9A-Za-z]{{4,32}})_([0-9A-Za-z]{{20,64}})", re.ASCII)
_UNKNOWN_HASH = hashlib.sha256(b"nobody").hexdigest()


class Keys:
    """The API keys of one database."""

    def __init__(
        self,
        store: Store,
        redactor: Redactor,
        sources: Sources,
        entropy: Callable[[int], bytes] = os.urandom,
    ) -> None:
        if not isinstance(store, KeepsApiKeys):
            raise Unsupported("this store cannot store API keys; use SQLite or PostgreSQL")
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
        """Create a key for some agents and rights; the token to give to the caller cannot be read again later."""
        now, until = self._sources.now(), arguments.moment("expires_at", expires_at)
        if until is not None and until <= now:
            raise InvalidInput("expires_at must lie in the future")
        title = self._validated_name(name)
        allowed_agents, allowed_rights = self._agents(agents), _rights(rights)
        id, secret = _text(self._entropy(ID_BYTES)), _text(self._entropy(SECRET_BYTES))
        key = ApiKey(id=id, name=title, agents=allowed_agents, rights=allowed_rights, created_at=now, expires_at=until)
        if not self._store.add_key(key, _hash(secret)):
            raise Conflict("the new key has the id of another one; try again")
        return key, f"{PREFIX}_{id}_{secret}"

    def accept(self, token: str | None) -> ApiKey | None:
        """Return the key of a token and record its use, or return `None` if it is unknown, revoked or expired.

        Checking takes the same time for a wrong secret as for an unknown id.
        """
        parsed = _TOKEN.fullmatch(token or "")
        known = self._store.key(parsed[1]) if parsed else None
        same = hmac.compare_digest(_hash(parsed[2] if parsed else ""), known[1] if known else _UNKNOWN_HASH)
        now = self._sources.now()
        if known is None or not same or not known[0].is_active(now):
            return None
        key = known[0]
        if key.last_used is None or not timedelta(0) <= now - key.last_used < LAST_USED_LAG:
            self._store.note_key(key.id, last_used=now)
        return key

    def live(self, id: str) -> bool:
        """Check that a key that was accepted is still valid."""
        known = self._store.key(id)
        return known is not None and known[0].is_active(self._sources.now())

    def every(self) -> list[ApiKey]:
        """List all keys, oldest first, including revoked and expired ones."""
        return self._store.keys()

    def revoke(self, id: str) -> ApiKey:
        """Revoke a key; revoking it again changes nothing. Raises `NotFound`."""
        key_id = id.removeprefix(f"{PREFIX}_").partition("_")[0]  # a whole token is accepted, too
        known = arguments.is_id(key_id) and self._store.note_key(key_id, revoked_at=self._sources.now())
        found = self._store.key(key_id) if known else None
        if found is None:
            raise NotFound("there is no such key", hint=Hint("key list"))
        return found[0]

    def _validated_name(self, name: str) -> str:
        if not isinstance(name, str) or not name.strip() or len(name) > 100 or not arguments.is_id(name):
            raise InvalidInput("a key needs a name of 1 to 100 characters, such as what it is for")
        return self._redactor.clean([name.strip()])[0].text

    def _agents(self, agents: str | Iterable[str]) -> tuple[str, ...]:
        names = tuple(dict.fromkeys(arguments.several("agents", agents)))
        if len(names) > MAX_AGENTS:
            raise InvalidInput(f"a key is for {MAX_AGENTS} agents at most; make it for all with {EVERYONE!r}")
        for name in names:
            if reserved(Scope(name).agent) or self._redactor.clean([name])[0].secrets:
                raise InvalidInput(
                    "one of the agents has a name that is reserved or contains a secret; use another name"
                )
        return (EVERYONE,) if EVERYONE in names else names


def _rights(rights: str | Iterable[str]) -> tuple[Right, ...]:
    given = set(arguments.several("rights", rights))
    if not given or (unknown := given - set(RIGHTS)):
        problem = f"there is no right {min(unknown)!r}" if given else "a key needs a right"
        raise InvalidInput(f"{problem}; there are {', '.join(RIGHTS)}")
    return tuple(right for right in RIGHTS if right in given)


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def _text(data: bytes) -> str:
    """Encode bytes as letters and digits; the length depends only on the number of bytes."""
    number, digits = int.from_bytes(data, "big"), []
    for _ in range(-(-len(data) * 8 * 1000 // 5954)):
        number, rest = divmod(number, len(_DIGITS))
        digits.append(_DIGITS[rest])
    return "".join(reversed(digits))
