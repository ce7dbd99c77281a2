"""Delete events that belong to no memory: cycles, snapshots, file lists."""

from __future__ import annotations

from collections.abc import Sequence

from engram.ports import Scope, Store
from engram.system import batched

_SOME = 500


def delete_events(store: Store, scope: Scope, subjects: Sequence[str]) -> int:
    """Delete all events about these subjects, each subject in one transaction; returns their number."""
    erased = 0
    for some in batched(subjects, _SOME):
        erased += store.delete_events(scope, [event.id for event in store.events_of(scope, some)])
    return erased
