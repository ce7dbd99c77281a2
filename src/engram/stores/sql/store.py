"""The base of SQL stores, composed of parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from engram.errors import Unsupported
from engram.model import ForgetReceipt
from engram.ports import Cipher, IntegrityProblem, Scope, VectorStore
from engram.stores.sql.api_keys import ApiKeys
from engram.stores.sql.audit_trail import SqlAuditTrail
from engram.stores.sql.checks import SqlChecks
from engram.stores.sql.copies import SqlCopying
from engram.stores.sql.encryption import Encryption
from engram.stores.sql.events import SqlEvents
from engram.stores.sql.memories import Memories
from engram.stores.sql.mirror import VectorMirror
from engram.stores.sql.recalls import SqlRecalls
from engram.stores.sql.remote_vectors import VectorSync
from engram.stores.sql.tables import Tables


class SqlStore:
    """The methods that SQLite and PostgreSQL share; `__init__` takes each from one of the parts."""

    def __init__(self, tables: Tables, remote: VectorStore | None, cipher: Cipher | None) -> None:  # noqa: PLR0915 - a table
        self._tables = tables
        self._remote = None if remote is None else VectorSync(tables, remote)
        self._encryption = Encryption(tables, cipher)

        self.setting = tables.setting
        self.set_setting = tables.set_setting

        events = SqlEvents(tables)
        self.append = events.append
        self.delete_events = events.delete_events
        self.events_after = events.events_after
        self.events_by_topic = events.events_by_topic
        self.events_of = events.events_of
        self.changes = events.changes
        self.newest = events.newest
        self.lag = events.lag

        mirror = VectorMirror(tables)
        self.embedder = mirror.embedder
        self.set_embedder = mirror.set_embedder
        self.unembedded = mirror.unembedded
        self.count_unembedded = mirror.count_unembedded
        self.place = mirror.place
        self.indexes = mirror.indexes
        self.discard_vectors = mirror.discard_vectors

        self._memories = memories = Memories(tables, events, mirror, self._remote)
        self.add = memories.add
        self.preview_add = memories.preview_add
        self.get = memories.get
        self.search = memories.search
        self.versions = memories.versions
        self.annotate = memories.annotate
        self.agents = memories.agents
        self.derived = memories.derived
        self.speakers = memories.speakers
        self.neighbours = memories.neighbours
        self.term_counts = memories.term_counts
        self.delete_scope = memories.delete_scope

        self._recalls = recalls = SqlRecalls(tables)
        self.credit = recalls.credit
        self.credits = recalls.credits
        self.log_recall = recalls.log_recall
        self.get_recall = recalls.get_recall
        self.delete_recalls = recalls.delete_recalls

        keys = ApiKeys(tables)
        self.add_key = keys.add_key
        self.key = keys.key
        self.keys = keys.keys
        self.note_key = keys.note_key
        self.close_keys = keys.close_keys

        trail = SqlAuditTrail(tables)
        self.note = trail.note
        self.head = trail.head
        self.trail = trail.trail
        self.checkpoint = trail.checkpoint
        self.checkpoints = trail.checkpoints
        self.prune = trail.prune

        self._checks = checks = SqlChecks(tables)
        self.info = checks.info
        self.rebuild = checks.rebuild

        copying = SqlCopying(tables)
        self.tables = copying.tables
        self.page = copying.page
        self.begin_copy = copying.begin_copy
        self.take = copying.take
        self.end_copy = copying.end_copy
        self.tally = copying.tally

        self.encrypt = self._encryption.encrypt
        self.rekey = self._encryption.rekey
        self.rotate = self._encryption.rotate

    def touch(self, scope: Scope, ids: Sequence[str], at: datetime) -> None:
        """Count that these memories were recalled; written with the next commit, or when many are pending."""
        self._recalls.touch(scope, ids, at)

    def forget(self, scope: Scope, ids: Sequence[str]) -> list[ForgetReceipt]:
        """Delete memories and all that belongs to them, in one transaction; return one receipt per id, in order."""
        return self._memories.forget(scope, ids)

    def check(self) -> list[IntegrityProblem]:
        """Check the rows and the derived indexes; return the problems found."""
        return self._checks.check()

    def encryption(self) -> Mapping[str, str | int]:
        """Return how the database is encrypted, and the number of keys."""
        return self._encryption.encryption()

    def destroy(self, scope: Scope) -> Mapping[str, int]:
        """Delete an agent's keys and all its rows, in one transaction; return how many of each table.

        Remains of the rows in free space and logs cannot be decrypted any more. Backups have their own keys.
        """
        self._encryption.codec()
        return self.delete_scope(scope)

    def sync(self, *, anew: bool = False, progress: Callable[[int, int], None] | None = None) -> int:
        """Send missing vectors to the vector database, or all if `anew`; return how many."""
        if self._remote is None:
            raise Unsupported("there is no vector database to fill; the setting `vectors` names one")
        return self._remote.sync(anew=anew, progress=progress)

    def close(self) -> None:
        """Write pending statistics and release all resources; calling it twice is harmless."""
        try:
            self._tables.close()
        finally:
            if self._remote is not None:
                self._remote.close()
