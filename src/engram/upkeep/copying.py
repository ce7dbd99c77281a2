"""Copy a whole database to another back end."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from engram.errors import Conflict, Unsupported
from engram.ports import (
    AuditAction,
    Copies,
    KeepsAudit,
    Store,
)

PAGE = 500
STAYS_BEHIND = frozenset({"audit", "audit_checkpoints", "api_keys"})
"""Tables about the database itself, which a target may lack."""
Progress = Callable[[int, int], None]


def copy(source: Store, target: Store, name: str, progress: Progress | None = None) -> Mapping[str, int]:
    """Copy everything to a new database; returns the number of rows of each table.

    An interrupted copy can be continued: `name` identifies the source. At the end, checksums are compared; raises
    `Conflict` if they differ because the source was written to or something expired. The audit trail and API keys are
    not copied to a target that does not support them.
    """
    giver, taker = _copied(source), _copied(target)
    tables = [table for table in giver.tables() if table in taker.tables() or table not in STAYS_BEHIND]
    before = {table: giver.tally(table) for table in tables}
    lost = [table for table in tables if table not in taker.tables()]
    if lost := [table for table in lost if before.pop(table).rows]:
        raise Unsupported(f"the target does not support {', '.join(lost)}; nothing was copied. Choose another target")
    total, done = sum(tally.rows for tally in before.values()), 0
    taker.begin_copy(name)
    for table in before:
        last = None
        while rows := giver.page(table, last, PAGE):
            taker.take(table, rows)
            done, last = done + len(rows), rows[-1]
            if progress is not None:
                progress(done, max(total, done))
    taker.end_copy()
    for table, tally in before.items():
        if taker.tally(table) != tally:
            raise Conflict(
                f"the copy of {table} differs from the source; during a copy, nothing may be "
                "written to the source or expire in it. Copy it again to a new database"
            )
    if isinstance(target, KeepsAudit):
        target.note([AuditAction("copy", target=name, count=total)])
    return {table: tally.rows for table, tally in before.items()}


def _copied(store: Store) -> Copies:
    if not isinstance(store, Copies):
        raise Unsupported("this store cannot be copied; SQLite, PostgreSQL and Redis can")
    return store
