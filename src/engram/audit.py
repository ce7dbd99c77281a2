"""Proof that the audit trail is what was written: signed checkpoints, anchors outside the database, verification.

The chain alone finds what was changed, removed, put in or moved within it. That its end was cut off, or that all of it
was written anew, only somebody finds who has kept a hash elsewhere: a checkpoint that nobody else can sign, or an
anchor in a file that whoever changes the database cannot change.
"""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from engram.clock import Sources
from engram.errors import Conflict, Hint, InvalidInput, MissingExtra, NotFound, StoreCorrupt, Unsupported
from engram.model import AuditEntry, AuditProblem, AuditVerification, Checkpoint
from engram.model.audit import GENESIS, canonical_json, sha256_hex
from engram.ports import KeepsAudit

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

PAGE = 2000
MOST_PROBLEMS = 1000
"""After so many, more would not help anybody."""
MAX_LINE = 4096


def audited(store: object) -> KeepsAudit:
    """The store, if it keeps an audit trail. Raises `Unsupported`."""
    if not isinstance(store, KeepsAudit):
        raise Unsupported("this store keeps no audit trail; SQLite, PostgreSQL and the store in memory do")
    return store


# Keys ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PublicKey:
    """Tells who has signed a checkpoint."""

    id: str
    _key: Ed25519PublicKey

    def signed(self, checkpoint: Checkpoint) -> bool:
        """Verify that the owner of a key signed the checkpoint, and that it is unchanged."""
        from cryptography.exceptions import InvalidSignature  # noqa: PLC0415 - there is a key, so there is the package

        try:
            self._key.verify(bytes.fromhex(checkpoint.signature), checkpoint.message)
        except (InvalidSignature, ValueError):
            return False
        return checkpoint.key_id == self.id


@dataclass(frozen=True, slots=True)
class Signer:
    """Signs checkpoints."""

    public: PublicKey
    _key: Ed25519PrivateKey

    def sign(self, seq: int, hash: str, now: datetime) -> Checkpoint:
        """A signed checkpoint of an entry."""
        plain = Checkpoint(seq=seq, at=now, hash=hash, key_id=self.public.id)
        return plain.model_copy(update={"signature": self._key.sign(plain.message).hex()})


def signer(path: Path) -> Signer:
    """The key in a file that only its owner can read; made, with `.pub` beside it, if it is not there."""
    if not path.exists():
        _make_key(path)
    private = _pem(path)
    ed25519 = _cryptography()
    if not isinstance(private, ed25519.Ed25519PrivateKey):
        raise InvalidInput(f"{path} is no private Ed25519 key", hint=Hint("audit checkpoint", "makes such a file"))
    return Signer(_public(private.public_key()), private)


def public_key(path: Path) -> PublicKey:
    """The public key in a file, or of the private key in it."""
    if not path.is_file():
        raise NotFound(f"there is no key at {path}; name a public key, such as audit.key.pub")
    key = _pem(path)
    return _public(key.public_key() if isinstance(key, _cryptography().Ed25519PrivateKey) else key)


def _make_key(path: Path) -> None:
    """Write a new key, all of it or nothing; who is second uses that of the first."""
    ed25519 = _cryptography()
    from cryptography.hazmat.primitives import serialization as as_  # noqa: PLC0415 - an extra

    private = ed25519.Ed25519PrivateKey.generate()
    pem = private.private_bytes(as_.Encoding.PEM, as_.PrivateFormat.PKCS8, as_.NoEncryption())
    public = private.public_key().public_bytes(as_.Encoding.PEM, as_.PublicFormat.SubjectPublicKeyInfo)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)  # readable for its owner only
    partial = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(pem)
            file.flush()
            os.fsync(file.fileno())
        os.link(partial, path)  # unlike a rename, never over a key that somebody else has made meanwhile
        path.with_name(path.name + ".pub").write_bytes(public)
    except FileExistsError:
        return
    finally:
        partial.unlink(missing_ok=True)


def _pem(path: Path) -> Any:
    _cryptography()
    from cryptography.hazmat.primitives import serialization as as_  # noqa: PLC0415 - an extra

    try:
        pem = path.read_bytes()
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror}; check its permissions") from error
    try:
        return as_.load_pem_public_key(pem) if b"PUBLIC KEY" in pem else as_.load_pem_private_key(pem, None)
    except (ValueError, TypeError) as error:
        raise InvalidInput(f"{path} holds no key that can be read; name a PEM file without a password") from error


def _public(key: Any) -> PublicKey:
    if not isinstance(key, _cryptography().Ed25519PublicKey):
        raise InvalidInput("checkpoints are signed with Ed25519; name a key of that kind")
    return PublicKey(sha256_hex(key.public_bytes_raw().hex())[:16], key)


def _cryptography() -> Any:
    try:
        from cryptography.hazmat.primitives.asymmetric import ed25519  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise MissingExtra("cryptography is not installed; pip install 'engram-learning[crypto]'") from error
    return ed25519


class AuditTrail:
    """The audit trail of one database: search, export, sign, prune and verify it."""

    def __init__(self, store: object, sources: Sources | None = None) -> None:
        self._store = audited(store)
        self._sources = sources or Sources()

    def find(
        self,
        after: int = 0,
        limit: int = 1000,
        *,
        agent: str | None = None,
        grant: str | None = None,
        since: datetime | None = None,
        newest: bool = False,
    ) -> list[AuditEntry]:
        """Return entries numbered higher than `after`, in order: the first of them, or the last if `newest`."""
        return self._store.trail(after, limit, agent=agent, grant=grant, since=since, newest=newest)

    def entries(self) -> Iterator[AuditEntry]:
        """Iterate over all entries, in order."""
        after = -(2**62)  # a forger need not begin at 1
        while page := self._store.trail(after, PAGE):
            yield from page
            if page[-1].seq <= after:
                return
            after = page[-1].seq

    def export(self) -> Iterator[str]:
        """Iterate over all entries as lines of JSON, in order; `hash` is that of the others in canonical form."""
        for entry in self.entries():
            yield canonical_json(entry.model_dump(mode="json"))

    def checkpoints(self) -> list[Checkpoint]:
        """List all checkpoints, in order."""
        return self._store.checkpoints()

    def checkpoint(self, signer: Signer, now: datetime | None = None) -> Checkpoint:
        """Sign the newest entry and store that checkpoint; return the last one if nothing was done since.

        A checkpoint is an entry, too: right after one there is nothing new to sign.
        """
        head = self._newest()
        known = {checkpoint.seq: checkpoint for checkpoint in self._store.checkpoints()}
        if head.action == "checkpoint" and head.target.isdecimal() and int(head.target) in known:
            return known[int(head.target)]
        made = signer.sign(head.seq, head.hash, now or self._sources.now())
        return made if self._store.checkpoint(made) else known.get(head.seq, made)

    def head(self, signer: Signer | None = None, now: datetime | None = None) -> Checkpoint:
        """Return the newest entry's hash, signed if there is a key, to be kept outside of the store as an anchor."""
        head, at = self._newest(), now or self._sources.now()
        if signer is None:
            return Checkpoint(seq=head.seq, at=at, hash=head.hash)
        return signer.sign(head.seq, head.hash, at)

    def prune(self, through: int, keys: Sequence[PublicKey]) -> int:
        """Remove the entries up to a signed checkpoint and return how many; the rest can still be verified.

        Raises `NotFound` without such a checkpoint, and `Conflict` if the trail is not whole: pruning hides nothing.
        """
        if not any(known.seq == through for known in self._store.checkpoints()):
            raise NotFound(f"there is no checkpoint of entry {through}", hint=Hint("audit checkpoint", "makes one"))
        found = self.verify(keys=keys)
        if found.problems:
            worst = found.problems[0]
            hint = Hint("audit verify", "shows where")
            raise Conflict(f"the trail is not whole (entry {worst.seq} {worst.what})", hint=hint)
        return self._store.prune(through)

    def verify(self, anchors: Sequence[Checkpoint] = (), keys: Sequence[PublicKey] = ()) -> AuditVerification:
        """Check every entry, and report each that was changed or is missing.

        Checkpoints and `anchors` are compared with the entries they are of; with `keys`, one of them must have signed
        each.
        """
        fixed = [(known, "the checkpoint") for known in self._store.checkpoints()]  # read before the entries they sign
        fixed += [(known, "an anchor") for known in anchors]
        problems: dict[int, str] = {}
        walk, held = _Walk({known.seq for known, _ in fixed}, problems), 0
        for entry in self.entries():
            walk.step(entry)
            if len(problems) >= MOST_PROBLEMS:
                break
        else:
            walk.end(self._store.checkpoints())  # again: entries that came meanwhile may speak of new ones
            held = _compare(fixed, walk, keys, problems)
        found = tuple(AuditProblem(seq=seq, what=problems[seq]) for seq in sorted(problems))
        return AuditVerification(
            ok=not found, entries=walk.count, first=walk.first, last=walk.last, fixed=held, problems=found
        )

    def _newest(self) -> AuditEntry:
        head = self._store.head()
        if head is None:
            raise StoreCorrupt("the audit trail is gone: even its first entry is missing; restore a backup")
        return head


# Anchors -----------------------------------------------------------------------------------------------------------


def add_anchor(path: Path, anchor: Checkpoint) -> None:
    """Append a line to a file of anchors, durably; the file is made if it is not there."""
    line = canonical_json(anchor.model_dump(mode="json")) + "\n"
    try:
        with path.open("ab") as file:
            file.write(line.encode())
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise InvalidInput(
            f"{path} cannot be written: {error.strerror}; name a file in a folder that is there"
        ) from error


def read_anchors(path: Path) -> list[Checkpoint]:
    """The anchors of a file, in order. Raises `InvalidInput` naming the first line that is none."""
    anchors = []
    try:
        with path.open("rb") as file:
            for number, line in enumerate(iter(lambda: file.readline(MAX_LINE), b""), start=1):
                try:
                    anchors.append(Checkpoint.model_validate_json(line))
                except ValidationError as error:
                    raise InvalidInput(f"line {number} of {path} is no anchor; mend or remove that line") from error
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror}; name the file of anchors") from error
    return anchors


# Verification ------------------------------------------------------------------------------------------------------


class _Walk:
    """Goes along the chain and remembers what checkpoints have to be compared with."""

    def __init__(self, known: Set[int], problems: dict[int, str]) -> None:
        self._known, self._problems = known, problems
        self.count, self.first, self.last = 0, 0, 0
        self.hashes: dict[int, str] = {}
        self._prev = ""
        self._pruned: dict[int, str] = {}
        self._checked: dict[int, AuditEntry] = {}

    def step(self, entry: AuditEntry) -> None:
        if not self.count:
            self._begin(entry)
        elif entry.seq != self.last + 1:
            for seq in range(self.last + 1, min(entry.seq, self.last + MOST_PROBLEMS)):
                self._say(seq, "is missing")
        elif entry.prev != self._prev:
            self._say(
                entry.seq, f"does not follow on entry {self.last}: one of the two is not the one that was written"
            )
        if entry.expected_hash != entry.hash:
            self._say(entry.seq, "was changed: it does not have the hash of what it says")
        self.count, self.last, self._prev = self.count + 1, entry.seq, entry.hash
        if entry.seq in self._known:
            self.hashes[entry.seq] = entry.hash
        if entry.target.isdecimal():
            if entry.action == "prune":
                self._pruned[int(entry.target)] = str(entry.detail.get("hash"))
            elif entry.action == "checkpoint":
                self._checked[int(entry.target)] = entry

    def _begin(self, entry: AuditEntry) -> None:
        """The first entry is entry 1, or it follows on one that was pruned."""
        self.first = entry.seq
        if entry.seq == 1 and (entry.prev, entry.action) != ("", GENESIS):
            self._say(1, "is not the one that every trail begins with")
        if entry.seq < 1:
            self._say(entry.seq, "was put in: no trail begins before 1")
        if entry.seq > 1:
            self.hashes[entry.seq - 1] = entry.prev  # the hash of the last that was pruned

    def end(self, checkpoints: Sequence[Checkpoint]) -> None:
        """Say what is missing although the chain says that it was there."""
        sealed = {checkpoint.seq: checkpoint.digest for checkpoint in checkpoints}
        if not self.count:
            self._say(1, "is missing: there is no entry at all")
        before = self.first - 1
        if before > 0 and self._pruned.get(before) != self.hashes[before]:
            self._say(
                before, f"is missing, like all before it, and no entry says that entries 1 to {before} were pruned"
            )
        if before > 0 and before not in sealed:
            self._say(before, "is missing: it was pruned, but there is no checkpoint of it")
        for seq, entry in self._checked.items():
            if seq not in sealed:
                self._say(entry.seq, f"speaks of a checkpoint of entry {seq}, which is missing")
            elif sealed[seq] != entry.detail.get("sealed"):
                self._say(seq, f"has a checkpoint that was changed: it is not the one that entry {entry.seq} is about")

    def _say(self, seq: int, what: str) -> None:
        self._problems.setdefault(seq, what)


def _compare(
    fixed: Sequence[tuple[Checkpoint, str]], walk: _Walk, keys: Sequence[PublicKey], problems: dict[int, str]
) -> int:
    """Compare checkpoints and anchors with the entries they are of; up to which entry they hold."""
    held = 0
    for known, name in fixed:
        if keys and not any(key.signed(known) for key in keys):
            by = "nobody" if not known.signature else "none of these keys"
            problems.setdefault(known.seq, f"has {name} that was signed by {by}")
        elif known.seq > walk.last:
            first = max(walk.last + 1, 1)
            for seq in range(first, min(known.seq, first + MOST_PROBLEMS - 1) + 1):
                problems.setdefault(seq, f"is missing: {name} of entry {known.seq} says that there was more")
        elif known.seq in walk.hashes and walk.hashes[known.seq] != known.hash:
            problems.setdefault(known.seq, f"is not the one that {name} is of: it, or one before it, was written anew")
        elif known.seq in walk.hashes:
            held = max(held, known.seq)
    return held


_MOVED = {
    "verify": lambda store, anchors=(), keys=(): AuditTrail(store).verify(anchors, keys),
    "prune": lambda store, through, keys: AuditTrail(store).prune(through, keys),
    "take_checkpoint": lambda store, signer, now: AuditTrail(store).checkpoint(signer, now),
    "head_of": lambda store, now, signer=None: AuditTrail(store).head(signer, now),
}
"""Functions that this module had before `AuditTrail`."""


def __getattr__(name: str) -> Any:
    if name not in _MOVED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    warnings.warn(f"audit.{name} has moved; call a method of brain.audit", DeprecationWarning, stacklevel=2)
    return _MOVED[name]
