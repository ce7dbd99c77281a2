"""Takes events away for good that are about no memory: cycles, snapshots, the lists of files."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from engram.model import Clean, Memory, MemoryType, ObservationContent, Provenance
from engram.ports import Entry, ErasesEvents, KeepsEvents, MemoryStore, Redactor, Scope
from engram.system import batched

_SOME = 500
_SAID = "what this stood for is being forgotten"


def erase(store: MemoryStore, redactor: Redactor, scope: Scope, subjects: Sequence[str], at: datetime) -> int:
    """Erase all events about these subjects, on any store; how many there were.

    All events of a subject go in one transaction. On a store that cannot take events away by themselves, they go with
    the memory they are about: one of that id is there for a moment and is forgotten. It was never valid, so no recall
    finds it.
    """
    text, author = (cleaned.text for cleaned in redactor.clean([_SAID, scope.agent]))
    erased = 0
    for given in batched(subjects, _SOME):
        some = list(dict.fromkeys(given))
        if isinstance(store, KeepsEvents) and isinstance(store, ErasesEvents):
            erased += store.unrecord(scope, [event.id for event in store.events_of(scope, some)])
            continue
        there = store.get(scope, some)
        missing = [subject for subject, memory in zip(some, there, strict=True) if memory is None]
        store.add(scope, [Entry(_stand_in(scope, subject, text, author, at)) for subject in missing])
        erased += sum(receipt.removed.get("events", 0) for receipt in store.forget(scope, some))
    return erased


def _stand_in(scope: Scope, subject: str, text: Clean, author: Clean, at: datetime) -> Memory:
    return Memory(
        id=subject,
        agent=scope.agent,
        kind=MemoryType.OBSERVATION,
        text=text,
        content=ObservationContent(),
        provenance=Provenance(author=author),
        created_at=at,
        happened_at=at,
        valid_from=at - timedelta(microseconds=1),
        valid_until=at,
    )
