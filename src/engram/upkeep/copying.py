"""Copy a whole database to another one."""

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
"""What is about this database rather than its memories."""
Progress = Callable[[int, int], None]


def copy(source: Store, target: Store, name: str, progress: Progress | None = None) -> Mapping[str, int]:
    """Copy everything from one database to another that is new; how many rows of each table.

    It can be stopped and started again: `name` tells the source from others. At the end both are counted and summed
    up; raises `Conflict` if they differ, which they do when somebody wrote to the source meanwhile, or something in
    it expired. The audit trail and callers' keys stay behind if the target keeps none.
    """
    giver, taker = _copied(source), _copied(target)
    tables = [table for table in giver.tables() if table in taker.tables() or table not in STAYS_BEHIND]
    before = {table: giver.tally(table) for table in tables}
    lost = [table for table in tables if table not in taker.tables()]
    if lost := [table for table in lost if before.pop(table).rows]:
        raise Unsupported(f"the target cannot keep {', '.join(lost)}; nothing was copied. Name another target")
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
                f"the copy of {table} is not what the source was; nobody may write meanwhile, and nothing may expire. "
                "Copy it anew, to a new database"
            )
    if isinstance(target, KeepsAudit):
        target.note([AuditAction("copy", target=name, count=total)])
    return {table: tally.rows for table, tally in before.items()}


def _copied(store: Store) -> Copies:
    if not isinstance(store, Copies):
        raise Unsupported("this store cannot hand over all it keeps; SQLite, PostgreSQL and Redis can be copied")
    return store
