"""The audit trail: entries in a hash chain, checkpoints, and the result of a verification."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from datetime import datetime

from pydantic import Field, JsonValue

from engram.clock import micros
from engram.model.content import Frozen

GENESIS = "genesis"
"""Action of entry 1, which has no predecessor and is the same in every database."""

canonical_json: Callable[[JsonValue | Mapping[str, JsonValue]], str] = json.JSONEncoder(
    ensure_ascii=False, separators=(",", ":"), sort_keys=True, allow_nan=False
).encode
"""Serialise a value as canonical JSON: sorted keys, no spaces, no escapes."""


def sha256_hex(text: str) -> str:
    """Return the SHA-256 of a text in hexadecimal; lone surrogates, as in forged entries, are accepted."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


class AuditEntry(Frozen):
    """One audited action: actor, time, grant and count. Holds ids, counts and hashes, never content."""

    seq: int = Field(description="From 1, without gaps.")
    at: datetime = Field(description="When it happened.")
    actor: str = Field(description="The agent that acted; empty for the operator of the database.")
    principal: str = Field(
        description="The caller on whose behalf: the id of an API key, a user of the command line, or empty."
    )
    action: str = Field(description="What was done, or is to be done.")
    agent: str = Field(description="The agent whose data was affected; empty for all agents.")
    target: str = Field(description="The id of the affected object, if it is a single one.")
    grant: str = Field(description="The grant that allowed it, if one was needed.")
    count: int = Field(description="How many it was about.")
    detail: dict[str, JsonValue] = Field(description="More about it: ids, counts and hashes, never content.")
    prev: str = Field(description="The hash of the previous entry.")
    hash: str = Field(description="The hash of all that it says, the hash of the entry before among it.")

    @property
    def expected_hash(self) -> str:
        """The hash computed from the entry's fields; it differs from `hash` if the entry was altered."""
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
        return sha256_hex(canonical_json(said))


class Checkpoint(Frozen):
    """The hash of an entry, which fixes all entries up to it; signed, unless `signature` is empty."""

    seq: int
    at: datetime
    hash: str
    key_id: str = ""
    signature: str = Field(default="", description="Ed25519, in hexadecimal.")

    @property
    def message(self) -> bytes:
        """The bytes that are signed."""
        said: dict[str, JsonValue] = {"at": micros(self.at), "hash": self.hash, "key": self.key_id, "seq": self.seq}
        return canonical_json(said).encode()

    @property
    def digest(self) -> str:
        """The hash of the checkpoint, which its audit entry records."""
        return sha256_hex(self.message.decode() + self.signature)


class AuditProblem(Frozen):
    """An entry that was altered or is missing."""

    seq: int = Field(description="The number of the entry.")
    what: str = Field(description="What is wrong with it.")


class AuditVerification(Frozen):
    """Result of verifying the whole audit trail."""

    ok: bool = Field(description="Whether it worked.")
    entries: int = Field(description="How many entries were looked at.")
    first: int = Field(description="The oldest entry present; above 1 after pruning.")
    last: int = Field(description="The last entry that is there.")
    fixed: int = Field(
        description="Entries up to this number are covered by a checkpoint or an anchor: removing or rewriting one is "
        "detected."
    )
    problems: tuple[AuditProblem, ...] = Field(
        default=(), description="Each entry that is not as it was written, in order."
    )
