"""Decide for each added entry whether it is a new memory, evidence for a known one, or a duplicate."""

from __future__ import annotations

from dataclasses import dataclass, field

from engram.errors import Conflict
from engram.model import Receipt
from engram.ports import Entry, Event
from engram.stores.redis.batch import Batch, Pending
from engram.stores.redis.layout import EvidenceRow
from engram.stores.rules import MERGED, by_place, evidence, fingerprint, key_receipt, merged, superseded
from engram.text.terms import digest


@dataclass(slots=True)
class Adding:
    """Decide about the entries of a batch one by one; each sees the effects of those before it."""

    batch: Batch
    pending: dict[str, Pending]
    taken: set[str]
    owners: dict[str, tuple[str, str]]
    twins: dict[str, str]
    events: list[Event] = field(default_factory=list)
    """The events of the new memories."""

    def decide(self, entry: Entry) -> Receipt:
        """Decide about one entry. Raises `Conflict` if its id is taken."""
        memory, said = entry.memory, None if entry.merge_key is None else digest(entry.merge_key)
        if entry.key is not None and entry.key in self.owners:
            return key_receipt(entry, *self.owners[entry.key])
        if said is not None and said in self.twins and superseded(self.pending[self.twins[said]].memory, memory):
            ended = self.pending[self.twins.pop(said)]  # the new statement replaces it
            ended.merge_key, ended.changed = None, True
        if said is not None and said in self.twins:
            each = self.pending[self.twins[said]]
            each.evidence.append(EvidenceRow(**evidence(each.memory.id, self.batch.number(), memory)))
            each.memory, each.changed = merged(each.memory, memory), True
            receipt = Receipt(id=each.memory.id, status="merged", reason=MERGED)
        else:
            if memory.id in self.taken:
                raise Conflict(f"there is a memory {memory.id} already; nothing was stored. Use a new id")
            self.taken.add(memory.id)
            each = self.pending[memory.id] = Pending(memory, self.batch.number(), entry.merge_key)
            each.vectors = by_place(entry.vectors)
            self.events += entry.events
            if said is not None:
                self.twins[said] = memory.id
            receipt = Receipt(id=memory.id, status="stored")
        if entry.key is not None:
            each.keys[entry.key] = fingerprint(entry)
            self.owners[entry.key] = (each.memory.id, each.keys[entry.key])
        return receipt
