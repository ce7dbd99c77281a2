"""Delete events that are about no memory: cycles, snapshots, the lists of files."""

from __future__ import annotations

from collections.abc import Sequence

from engram.ports import Scope, Store
from engram.system import batched

_SOME = 500


def erase(store: Store, scope: Scope, subjects: Sequence[str]) -> int:
    """Delete all events about these subjects, those of a subject in one transaction; how many there were."""
    erased = 0
    for some in batched(subjects, _SOME):
        erased += store.delete_events(scope, [event.id for event in store.events_of(scope, some)])
    return erased
