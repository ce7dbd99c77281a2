"""The audit trail: what was done, each entry sealed together with the one before it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import datetime

from pydantic import Field, JsonValue

from engram.clock import micros
from engram.model.content import Frozen

GENESIS = "genesis"
"""The action of entry 1, which follows on nothing and is the same in every database."""

_JSON = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), sort_keys=True, allow_nan=False)


def canonical(value: JsonValue | Mapping[str, JsonValue]) -> str:
    """The one JSON text of a value: keys in order, no spaces, every letter as it is."""
    return _JSON.encode(value)


def hashed(text: str) -> str:
    """The SHA-256 of a text, in hexadecimal; also of one that is no Unicode, which only a forger writes."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


class AuditEntry(Frozen):
    """Who did what, when, by which grant and how many. Ids, counts and hashes, never content."""

    seq: int = Field(description="From 1, without gaps.")
    at: datetime
    actor: str = Field(description="The agent that did it; empty for whoever looks after the database.")
    principal: str = Field(description="On whose behalf: the id of a key, a user of the command line, or empty.")
    action: str
    agent: str = Field(description="Whose memory it was done to; empty if it is about all of them.")
    target: str = Field(description="The id of what it was done to, if that is one thing.")
    grant: str = Field(description="The grant by which it was allowed, if it took one.")
    count: int
    detail: dict[str, JsonValue]
    prev: str = Field(description="The hash of the entry before.")
    hash: str

    @property
    def sealed(self) -> str:
        """The hash that an entry that says this must have."""
        said: dict[str, JsonValue] = {
            "action": self.action,
            "actor": self.actor,
            "agent": self.agent,
            "at": micros(self.at),
            "count": self.count,
            "detail": self.detail,
            "grant": self.grant,
            "prev": self.prev,
            "principal": self.principal,
            "seq": self.seq,
            "target": self.target,
        }
        return hashed(canonical(said))


class Checkpoint(Frozen):
    """The hash of an entry at some time, which fixes all entries up to it; signed, unless `signature` is empty."""

    seq: int
    at: datetime
    hash: str
    key_id: str = ""
    signature: str = Field(default="", description="Ed25519, in hexadecimal.")

    @property
    def message(self) -> bytes:
        """What is signed."""
        said: dict[str, JsonValue] = {"at": micros(self.at), "hash": self.hash, "key": self.key_id, "seq": self.seq}
        return canonical(said).encode()

    @property
    def sealed(self) -> str:
        """The hash of all that it says, which the entry about it keeps."""
        return hashed(self.message.decode() + self.signature)


class AuditProblem(Frozen):
    """An entry that is not as it was written, or is not there."""

    seq: int
    what: str


class Verification(Frozen):
    """What a look at the whole trail found."""

    ok: bool
    entries: int
    first: int = Field(description="The first entry that is there; more than 1 after pruning.")
    last: int
    fixed: int = Field(description="Up to here nothing can be removed or rewritten unseen: a checkpoint or anchor.")
    problems: tuple[AuditProblem, ...] = ()
