"""The interface of a store.

`MemoryStore` is what a plugin must do, `Store` what the engine relies on; the others are what some stores can.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from pathlib import Path
from typing import Protocol, runtime_checkable

from engram.model import AuditEntry, Checkpoint, ForgetReceipt, Memory, MemoryIndex, Receipt
from engram.model.api_key import ApiKey
from engram.ports.audit import AuditAction
from engram.ports.encryption import Cipher
from engram.ports.values import (
    Cells,
    Changes,
    Credit,
    Entry,
    Event,
    Filter,
    IntegrityProblem,
    LoggedRecall,
    Match,
    MemoryChange,
    Placed,
    Query,
    RankingInput,
    Scope,
    TableChecksum,
    TermCounts,
)


@runtime_checkable
class MemoryStore(Protocol):
    """Keeps memories. Every call names its scope; what is outside it does not exist."""

    def add(self, scope: Scope, entries: Sequence[Entry]) -> list[Receipt]:
        """Store all entries in one durable transaction; one receipt per entry, in order.

        An entry whose key is known answers with the first receipt's id; if it says something else it is
        rejected. An entry whose `merge_key` is known counts as evidence for the memory that has it. Raises
        `Conflict` for an id that is taken and `InvalidInput` for a vector of another length; then nothing is stored.
        """
        ...

    def get(self, scope: Scope, ids: Sequence[str]) -> list[Memory | None]:
        """One answer per id, in order; `None` for an id that is not in this scope."""
        ...

    def search(self, scope: Scope, query: Query) -> list[Match]:
        """Best first (newest first without words and vector), filtered before the limit is applied."""
        ...

    def forget(self, scope: Scope, ids: Sequence[str]) -> list[ForgetReceipt]:
        """Remove memories and all that belongs to them, in one transaction; unknown ids say so."""
        ...

    def close(self) -> None:
        """Release everything; calling it twice is harmless."""
        ...


@runtime_checkable
class PreviewsAdds(Protocol):
    """Can tell beforehand what a write would do."""

    def preview_add(self, scope: Scope, entries: Sequence[Entry]) -> list[Receipt]:
        """The receipts that `add` would give now, in order, if no id is taken; nothing is stored."""
        ...


@runtime_checkable
class Annotates(Protocol):
    """Can change what surrounds a memory, never what it says."""

    def annotate(self, scope: Scope, id: str, changes: Changes, expected_version: int | None) -> Memory:
        """The changed memory, one version on. Raises `NotFound`, or `Conflict` if the version differs."""
        ...


@runtime_checkable
class Versions(Protocol):
    """Tells at little cost what has changed, whoever changed it."""

    def versions(self, scope: Scope, where: Filter) -> Mapping[str, int]:
        """The id of every memory that passes, and its version: one that was read in the same version is unchanged."""
        ...


@runtime_checkable
class CountsAccess(Protocol):
    """Keeps count of what was recalled; a statistic, written with the next commit."""

    def touch(self, scope: Scope, ids: Sequence[str], at: datetime) -> None:
        """Note that these memories were recalled."""
        ...


@runtime_checkable
class CreditsRecalls(Protocol):
    """Keeps what became of recalls, and counts for each memory how often it helped."""

    def credit(self, scope: Scope, credit: Credit) -> bool:
        """Keep a credit and count it, in one transaction; `False`, and nothing is counted, if its id is known.

        Memories that are gone are not counted. An agent who has stored nothing has nothing to credit: `False`.
        """
        ...

    def credits(self, scope: Scope, limit: int) -> list[Credit]:
        """The newest credits, the oldest of them first."""
        ...


@runtime_checkable
class LogsRecalls(Protocol):
    """Keeps what was shown for a week, so that its outcome can be told; written with the next commit."""

    def log_recall(self, scope: Scope, shown: LoggedRecall) -> None:
        """Note what was shown."""
        ...

    def get_recall(self, scope: Scope, id: str) -> LoggedRecall | None:
        """Return a logged recall, also if its outcome is known; `None` if there is none, or it is too old."""
        ...


@runtime_checkable
class KeepsEvents(Protocol):
    """Keeps what is learned from, in the order of recording: whoever has read up to a number misses nothing."""

    def append(self, scope: Scope, events: Sequence[Event]) -> list[bool]:
        """Keep events in one durable transaction; for each, in order, `False` if there is one with its id already."""
        ...

    def events_after(self, scope: Scope, after: int, limit: int) -> list[Event]:
        """The events numbered higher than `after`, the oldest of them first."""
        ...

    def events_by_topic(self, scope: Scope, topic: str, limit: int) -> list[Event]:
        """The newest events of a topic, the oldest of them first."""
        ...

    def events_of(self, scope: Scope, subjects: Sequence[str]) -> list[Event]:
        """All events about these subjects, the oldest first."""
        ...


@runtime_checkable
class FindsDerived(Protocol):
    """Knows what was derived from what."""

    def derived(self, ids: Collection[str]) -> list[tuple[Scope, str]]:
        """The memories of any scope that name one of these as a source."""
        ...


@runtime_checkable
class DeletesEvents(Protocol):
    """Can take away events that are about no memory."""

    def delete_events(self, scope: Scope, ids: Sequence[str]) -> int:
        """Remove events by id in one transaction, and say so to whoever has learned from them; how many there were."""
        ...


@runtime_checkable
class DeletesRecalls(Protocol):
    """Can take away what was shown."""

    def delete_recalls(self, scope: Scope, chosen: Callable[[LoggedRecall], bool]) -> int:
        """Remove what was shown and whose outcome nobody has told, if it is chosen; how many there were."""
        ...


@runtime_checkable
class DeletesScopes(Protocol):
    """Can give up a whole scope."""

    def delete_scope(self, scope: Scope) -> Mapping[str, int]:
        """Remove all that is kept of a scope, its keys and its name too, in one transaction; how many of each."""
        ...


@runtime_checkable
class Scrubs(Protocol):
    """Keeps files in which what was removed may be readable for a while."""

    def scrub(self) -> bool:
        """Make what was removed unreadable; `False` if somebody who reads holds it up, and it is done later."""
        ...


@runtime_checkable
class KeepsSettings(Protocol):
    """Keeps what Engram itself has to remember about a database."""

    def setting(self, name: str) -> str | None:
        """The value of a setting, or `None`."""
        ...

    def set_setting(self, name: str, value: str) -> None:
        """Keep a value, instead of the one that was there."""
        ...


@runtime_checkable
class KeepsApiKeys(Protocol):
    """Keeps callers' keys, each with the hash of its secret, which is not kept."""

    def add_key(self, key: ApiKey, hash: str) -> bool:
        """Keep a key, durably; `False` if its id is taken."""
        ...

    def key(self, id: str) -> tuple[ApiKey, str] | None:
        """The key with this id and the hash of its secret, or `None`."""
        ...

    def keys(self) -> list[ApiKey]:
        """All keys, the oldest first."""
        ...

    def note_key(self, id: str, *, revoked_at: datetime | None = None, last_used: datetime | None = None) -> bool:
        """Say when a key was revoked, of which the first time counts, or used; `False` if there is none."""
        ...


@runtime_checkable
class ClosesKeys(Protocol):
    """Can take an agent out of callers' keys."""

    def close_keys(self, agent: str, at: datetime) -> int:
        """Take an agent out of all keys, and revoke those that open nothing else; how many keys named it."""
        ...


@runtime_checkable
class ListsChanges(Protocol):
    """Knows which memories came and went, in the order of writes that events are numbered in, too."""

    def changes(self, scope: Scope, after: int, limit: int) -> list[MemoryChange]:
        """Return the memories stored and deleted after a number, the oldest first."""
        ...

    def newest(self, scope: Scope) -> int:
        """The number of the newest write, of an event, too; 0 if there is none."""
        ...

    def lag(self) -> int:
        """Return by how much a number that becomes visible late may be lower than those before it."""
        ...


@runtime_checkable
class ReadsNeighbours(Protocol):
    """Knows what surrounds its memories, which recall ranks by. Without it, words and vectors alone decide."""

    def speakers(self, scope: Scope) -> list[str]:
        """Return the names of speakers; the first few hundred, if there are more."""
        ...

    def neighbours(self, scope: Scope, ids: Sequence[str], reach: int, terms: Sequence[str]) -> list[RankingInput]:
        """These memories, and those up to `reach` before and after each in its session, each once, in any order."""
        ...

    def term_counts(self, scope: Scope, terms: Sequence[str]) -> TermCounts:
        """Count the memories of a scope, and those that hold each term."""
        ...


@runtime_checkable
class Snapshots(Protocol):
    """Can show one state of a scope to several calls, which spares each of them a transaction."""

    def snapshot(self, scope: Scope) -> AbstractContextManager[None]:
        """Within it, all that this thread reads of the scope is of one moment. No model may be asked meanwhile."""
        ...


@runtime_checkable
class ListsAgents(Protocol):
    """Knows who has memories here."""

    def agents(self) -> list[str]:
        """Every agent that ever stored something, by name."""
        ...


@runtime_checkable
class MirrorsVectors(Protocol):
    """Mirrors vectors beside the rows, for any number of embedders (seed 004's `MemoryIndex`)."""

    def embedder(self) -> str | None:
        """The identity of the embedder this store was last embedded with, if any."""
        ...

    def set_embedder(self, identity: str) -> None:
        """Remember the embedder in use."""
        ...

    def unembedded(self, namespace: str, embedder: str, limit: int) -> list[Memory]:
        """Memories of any agent without a vector of this embedder, oldest first."""
        ...

    def count_unembedded(self, namespace: str, embedder: str) -> int:
        """Count the memories without a vector of this embedder."""
        ...

    def indexes(self, scope: Scope, id: str) -> list[MemoryIndex]:
        """List the vectors of a memory by namespace and embedder; none if it is not in this scope."""
        ...

    def place(self, vectors: Sequence[tuple[Scope, str, Placed]]) -> int:
        """Give vectors to memories that still exist, in one transaction; how many of those given were added.

        They replace all that a memory had in the same namespace by the same embedder: give all its passages at once.
        """
        ...

    def discard_vectors(self, namespace: str, keep: str) -> int:
        """Drop the vectors of every other embedder; how many went."""
        ...


@runtime_checkable
class Store(
    MemoryStore,
    PreviewsAdds,
    Annotates,
    Versions,
    CountsAccess,
    CreditsRecalls,
    KeepsEvents,
    DeletesEvents,
    DeletesScopes,
    KeepsSettings,
    ListsAgents,
    MirrorsVectors,
    Protocol,
):
    """All that the engine relies on. A plugin with the methods of `MemoryStore` alone is completed, see `Completed`."""


@runtime_checkable
class Copies(Protocol):
    """Can hand over all it keeps, table by table, to another one that can."""

    def tables(self) -> list[str]:
        """The tables to copy, in an order in which they can be filled."""
        ...

    def page(self, table: str, after: Cells | None, limit: int) -> list[Cells]:
        """The next rows of a table in the order of its key, after a row or from the start."""
        ...

    def begin_copy(self, source: str) -> None:
        """Get ready for a copy of `source`. Raises `Conflict` if anything else is here."""
        ...

    def take(self, table: str, rows: Sequence[Cells]) -> None:
        """Insert the rows that are not there yet, in one transaction."""
        ...

    def end_copy(self) -> None:
        """Go on from where the copied database was."""
        ...

    def tally(self, table: str) -> TableChecksum:
        """Count and sum up a table."""
        ...


@runtime_checkable
class Maintains(Protocol):
    """A database that can describe, check, copy and rebuild itself."""

    def info(self) -> Mapping[str, str | int | float | None]:
        """Facts about the database: where, how large, which schema, how many rows."""
        ...

    def check(self) -> list[IntegrityProblem]:
        """Check the file, the rows and the derived indexes; return the problems found."""
        ...

    def backup(self, target: Path, progress: Callable[[int, int], None] | None = None) -> None:
        """Write a consistent copy while others go on reading and writing; all or nothing."""
        ...

    def rebuild(self, progress: Callable[[int, int], None] | None = None) -> Mapping[str, int]:
        """Make every derived index again from the canonical rows; how many rows went into each."""
        ...


@runtime_checkable
class KeepsAudit(Protocol):
    """Puts on record what was done, in a chain that cannot be changed unseen.

    Every call that changes something adds one entry by itself, in its own transaction: both are there, or neither.
    """

    def note(self, actions: Sequence[AuditAction]) -> None:
        """Add entries for what no other call of the store does, in one durable transaction."""
        ...

    def head(self) -> AuditEntry | None:
        """The newest entry; `None` only if somebody has removed them all."""
        ...

    def trail(
        self,
        after: int = 0,
        limit: int = 1000,
        *,
        agent: str | None = None,
        grant: str | None = None,
        since: datetime | None = None,
        newest: bool = False,
    ) -> list[AuditEntry]:
        """Entries numbered higher than `after`, in order: the first of them, or the last if `newest`."""
        ...

    def checkpoint(self, checkpoint: Checkpoint) -> bool:
        """Keep a checkpoint for good, and note that; `False` if there is one of that entry already."""
        ...

    def checkpoints(self) -> list[Checkpoint]:
        """All checkpoints, in order."""
        ...

    def prune(self, through: int) -> int:
        """Remove the entries up to a checkpoint, and note that; how many. Raises `NotFound` without a checkpoint."""
        ...


@runtime_checkable
class Encrypts(Protocol):
    """A database whose rows can be sealed, each agent's with keys of its own."""

    def encryption(self) -> Mapping[str, str | int]:
        """Return how it is encrypted (`mode`: none, fields, file), with which master key, and the number of keys."""
        ...

    def encrypt(self, progress: Callable[[int, int], None] | None = None) -> int:
        """Seal every row of a database that was opened to be encrypted, or go on with that; how many rows."""
        ...

    def rekey(
        self, agent: str | None = None, *, index: bool = False, progress: Callable[[int, int], None] | None = None
    ) -> int:
        """Seal the rows of all agents, or of one, with new keys, or go on with that; how many were looked at."""
        ...

    def rotate(self, cipher: Cipher) -> int:
        """Put the database under another master key, in one transaction; how many keys it opens."""
        ...

    def destroy(self, scope: Scope) -> Mapping[str, int]:
        """Remove an agent's keys and all its rows, in one transaction; how many of each table."""
        ...
