"""The interfaces of a store.

A plugin must implement `MemoryStore`, the engine relies on `Store`, and the other protocols are optional abilities.
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
    """A store of memories. Every call names its scope, and sees no data outside of it."""

    def add(self, scope: Scope, entries: Sequence[Entry]) -> list[Receipt]:
        """Store all entries in one durable transaction; return one receipt per entry, in order.

        An entry whose key is known gets the id of the first receipt, or is rejected if its content differs.
        An entry whose `merge_key` is known counts as evidence for the memory that has it. Raises
        `Conflict` for an id that is taken and `InvalidInput` for a vector of another length; then nothing is stored.
        """
        ...

    def get(self, scope: Scope, ids: Sequence[str]) -> list[Memory | None]:
        """Return one memory per id, in order; `None` for an id that is not in this scope."""
        ...

    def search(self, scope: Scope, query: Query) -> list[Match]:
        """Return matches, best first (newest first without words and vector), filtered before the limit is applied."""
        ...

    def forget(self, scope: Scope, ids: Sequence[str]) -> list[ForgetReceipt]:
        """Delete memories and all that belongs to them, in one transaction; return one receipt per id, in order."""
        ...

    def close(self) -> None:
        """Release all resources; calling it twice is harmless."""
        ...


@runtime_checkable
class PreviewsAdds(Protocol):
    """A store that can preview the result of a write."""

    def preview_add(self, scope: Scope, entries: Sequence[Entry]) -> list[Receipt]:
        """Return the receipts that `add` would give now, in order, if no id is taken; store nothing."""
        ...


@runtime_checkable
class Annotates(Protocol):
    """A store that can change the metadata of a memory, but not its text."""

    def annotate(self, scope: Scope, id: str, changes: Changes, expected_version: int | None) -> Memory:
        """Change a memory's metadata and return the memory. Raises `NotFound`, or `Conflict` if the version differs."""
        ...


@runtime_checkable
class Versions(Protocol):
    """A store that can list the versions of memories cheaply, to find those that have changed."""

    def versions(self, scope: Scope, where: Filter) -> Mapping[str, int]:
        """Return the version of every memory that passes the filter, by id; every change raises the version."""
        ...


@runtime_checkable
class CountsAccess(Protocol):
    """A store that counts how often memories are recalled; counts are written with the next commit."""

    def touch(self, scope: Scope, ids: Sequence[str], at: datetime) -> None:
        """Count that these memories were recalled."""
        ...


@runtime_checkable
class CreditsRecalls(Protocol):
    """A store that keeps the outcomes of recalls, and counts for each memory how often it helped."""

    def credit(self, scope: Scope, credit: Credit) -> bool:
        """Store a credit and count it, in one transaction; return `False` and do nothing if its id is known.

        Deleted memories are not counted. Also returns `False` for an agent that has stored nothing.
        """
        ...

    def credits(self, scope: Scope, limit: int) -> list[Credit]:
        """Return the newest credits, the oldest of them first."""
        ...


@runtime_checkable
class LogsRecalls(Protocol):
    """A store that logs recalls for a week, so that their outcomes can be reported; written with the next commit."""

    def log_recall(self, scope: Scope, shown: LoggedRecall) -> None:
        """Log a recall."""
        ...

    def get_recall(self, scope: Scope, id: str) -> LoggedRecall | None:
        """Return a logged recall, also if its outcome is known; `None` if there is none, or it is too old."""
        ...


@runtime_checkable
class KeepsEvents(Protocol):
    """A store of events, numbered in the order of recording: no event gets a number below one that was already read."""

    def append(self, scope: Scope, events: Sequence[Event]) -> list[bool]:
        """Store events in one durable transaction; return for each, in order, `False` if its id is known already."""
        ...

    def events_after(self, scope: Scope, after: int, limit: int) -> list[Event]:
        """Return the events numbered higher than `after`, the oldest first."""
        ...

    def events_by_topic(self, scope: Scope, topic: str, limit: int) -> list[Event]:
        """Return the newest events of a topic, the oldest of them first."""
        ...

    def events_of(self, scope: Scope, subjects: Sequence[str]) -> list[Event]:
        """Return all events about these subjects, the oldest first."""
        ...


@runtime_checkable
class FindsDerived(Protocol):
    """A store that can find the memories derived from others."""

    def derived(self, ids: Collection[str]) -> list[tuple[Scope, str]]:
        """Return the memories of any scope that name one of these as a source."""
        ...


@runtime_checkable
class DeletesEvents(Protocol):
    """A store that can delete single events, such as those that belong to no memory."""

    def delete_events(self, scope: Scope, ids: Sequence[str]) -> int:
        """Delete events by id and record an event about it, so that learned state is corrected; return how many."""
        ...


@runtime_checkable
class DeletesRecalls(Protocol):
    """A store that can delete logged recalls."""

    def delete_recalls(self, scope: Scope, chosen: Callable[[LoggedRecall], bool]) -> int:
        """Delete the chosen logged recalls that have no outcome yet; return how many."""
        ...


@runtime_checkable
class DeletesScopes(Protocol):
    """A store that can delete a whole scope."""

    def delete_scope(self, scope: Scope) -> Mapping[str, int]:
        """Delete all data of a scope, its keys and its name too, in one transaction; return how many of each kind."""
        ...


@runtime_checkable
class Scrubs(Protocol):
    """A store whose files may contain deleted data for a while."""

    def scrub(self) -> bool:
        """Overwrite deleted data; return `False` if a reader delays it, in which case it is done later."""
        ...


@runtime_checkable
class KeepsSettings(Protocol):
    """A store of Engram's own settings of a database."""

    def setting(self, name: str) -> str | None:
        """Return the value of a setting, or `None`."""
        ...

    def set_setting(self, name: str, value: str) -> None:
        """Set the value of a setting."""
        ...


@runtime_checkable
class KeepsApiKeys(Protocol):
    """A store of API keys, with hashes of their secrets."""

    def add_key(self, key: ApiKey, hash: str) -> bool:
        """Store a key, durably; return `False` if its id is taken."""
        ...

    def key(self, id: str) -> tuple[ApiKey, str] | None:
        """Return the key with this id and the hash of its secret, or `None`."""
        ...

    def keys(self) -> list[ApiKey]:
        """Return all keys, the oldest first."""
        ...

    def note_key(self, id: str, *, revoked_at: datetime | None = None, last_used: datetime | None = None) -> bool:
        """Record when a key was revoked (the first time counts) or used; return `False` if there is none."""
        ...


@runtime_checkable
class ClosesKeys(Protocol):
    """A store that can remove an agent from all API keys."""

    def close_keys(self, agent: str, at: datetime) -> int:
        """Remove an agent from all keys, and revoke those that are for no other agent; return how many named it."""
        ...


@runtime_checkable
class ListsChanges(Protocol):
    """A store that can list stored and deleted memories, in the order of writes, which also numbers events."""

    def changes(self, scope: Scope, after: int, limit: int) -> list[MemoryChange]:
        """Return the memories stored and deleted after a number, the oldest first."""
        ...

    def newest(self, scope: Scope) -> int:
        """Return the number of the newest write of a memory or an event; 0 if there is none."""
        ...

    def lag(self) -> int:
        """Return by how much the number of a write that becomes visible late may be below those already visible."""
        ...


@runtime_checkable
class ReadsNeighbours(Protocol):
    """A store that can read the neighbours of memories in their sessions, and term counts, which recall ranks by."""

    def speakers(self, scope: Scope) -> list[str]:
        """Return the names of speakers; the first few hundred, if there are more."""
        ...

    def neighbours(self, scope: Scope, ids: Sequence[str], reach: int, terms: Sequence[str]) -> list[RankingInput]:
        """Return these memories and those up to `reach` before and after each in its session, once, in any order."""
        ...

    def term_counts(self, scope: Scope, terms: Sequence[str]) -> TermCounts:
        """Count the memories of a scope, and those that hold each term."""
        ...


@runtime_checkable
class Snapshots(Protocol):
    """A store that can answer several reads from one snapshot of a scope, without a transaction for each."""

    def snapshot(self, scope: Scope) -> AbstractContextManager[None]:
        """Let all reads of this thread in the scope see the same state. Do not call a model inside."""
        ...


@runtime_checkable
class ListsAgents(Protocol):
    """A store that can list its agents."""

    def agents(self) -> list[str]:
        """Return every agent that ever stored something, by name."""
        ...


@runtime_checkable
class MirrorsVectors(Protocol):
    """A store that keeps a copy of all vectors beside the memories, for any number of embedders."""

    def embedder(self) -> str | None:
        """Return the identity of the embedder this store was last embedded with, if any."""
        ...

    def set_embedder(self, identity: str) -> None:
        """Store the identity of the embedder in use."""
        ...

    def unembedded(self, namespace: str, embedder: str, limit: int) -> list[Memory]:
        """Return memories of any agent without a vector of this embedder, oldest first."""
        ...

    def count_unembedded(self, namespace: str, embedder: str) -> int:
        """Count the memories without a vector of this embedder."""
        ...

    def indexes(self, scope: Scope, id: str) -> list[MemoryIndex]:
        """List the vectors of a memory by namespace and embedder; none if it is not in this scope."""
        ...

    def place(self, vectors: Sequence[tuple[Scope, str, Placed]]) -> int:
        """Add vectors to memories that still exist, in one transaction; return how many were added.

        They replace all vectors of a memory in the same namespace and of the same embedder, so pass all at once.
        """
        ...

    def discard_vectors(self, namespace: str, keep: str) -> int:
        """Delete the vectors of all other embedders; return how many."""
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
    """Everything that the engine relies on; `Completed` adapts a plugin that has only the methods of `MemoryStore`."""


@runtime_checkable
class Copies(Protocol):
    """A store that can be copied into another one, table by table."""

    def tables(self) -> list[str]:
        """Return the tables to copy, in an order in which they can be filled."""
        ...

    def page(self, table: str, after: Cells | None, limit: int) -> list[Cells]:
        """Return the next rows of a table in the order of its key, after a row or from the start."""
        ...

    def begin_copy(self, source: str) -> None:
        """Begin or continue a copy of `source`. Raises `Conflict` if the target has other data."""
        ...

    def take(self, table: str, rows: Sequence[Cells]) -> None:
        """Insert the rows that are missing, in one transaction."""
        ...

    def end_copy(self) -> None:
        """Finish a copy: number new writes after those of the copied database."""
        ...

    def tally(self, table: str) -> TableChecksum:
        """Return the number of rows of a table and their checksum."""
        ...


@runtime_checkable
class Maintains(Protocol):
    """A store that can describe, check, back up and rebuild its database."""

    def info(self) -> Mapping[str, str | int | float | None]:
        """Return facts about the database: its location, size, schema and numbers of rows."""
        ...

    def check(self) -> list[IntegrityProblem]:
        """Check the file, the rows and the derived indexes; return the problems found."""
        ...

    def backup(self, target: Path, progress: Callable[[int, int], None] | None = None) -> None:
        """Write a consistent copy while others read and write; an incomplete copy is removed."""
        ...

    def rebuild(self, progress: Callable[[int, int], None] | None = None) -> Mapping[str, int]:
        """Rebuild every derived index from the canonical rows; return the number of rows in each."""
        ...


@runtime_checkable
class KeepsAudit(Protocol):
    """A store with an audit trail: a hash chain in which changes are detected.

    Every call that changes something adds one entry, in the same transaction.
    """

    def note(self, actions: Sequence[AuditAction]) -> None:
        """Add entries for actions that are not calls of the store, in one durable transaction."""
        ...

    def head(self) -> AuditEntry | None:
        """Return the newest entry; `None` only if all were removed."""
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
        """Return entries numbered higher than `after`, in order: the first of them, or the last if `newest`."""
        ...

    def checkpoint(self, checkpoint: Checkpoint) -> bool:
        """Store a checkpoint and record that; return `False` if there is one of that entry already."""
        ...

    def checkpoints(self) -> list[Checkpoint]:
        """Return all checkpoints, in order."""
        ...

    def prune(self, through: int) -> int:
        """Delete entries up to a checkpoint and record that; return how many. Raises `NotFound` if there is none."""
        ...


@runtime_checkable
class Encrypts(Protocol):
    """A store that can encrypt its rows, with separate keys for each agent."""

    def encryption(self) -> Mapping[str, str | int]:
        """Return the encryption (`mode`: none, fields, file), the master key's identity, and the number of keys."""
        ...

    def encrypt(self, progress: Callable[[int, int], None] | None = None) -> int:
        """Encrypt all rows of a database that was opened for it, or continue that; return how many rows."""
        ...

    def rekey(
        self, agent: str | None = None, *, index: bool = False, progress: Callable[[int, int], None] | None = None
    ) -> int:
        """Encrypt the rows of all agents, or of one, with new keys, or continue that; return how many were examined."""
        ...

    def rotate(self, cipher: Cipher) -> int:
        """Encrypt all data keys with another master key, in one transaction; return how many there are."""
        ...

    def destroy(self, scope: Scope) -> Mapping[str, int]:
        """Delete an agent's keys and all its rows, in one transaction; return how many of each table."""
        ...
