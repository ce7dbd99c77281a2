"""Store memories in a JSON-lines file, one line per transaction: a small store that keeps the whole contract."""

import fcntl
import json
import os
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from engram.errors import Conflict, InvalidInput, StoreClosed, StoreError
from engram.model import ForgetReceipt, Memory, Receipt
from engram.ports import Entry, Match, Placed, Query, Scope
from engram.stores.rules import MERGED, accepts, fingerprint, key_receipt, memory_terms, merged, refuse_foreign
from engram.text.terms import normal_form, query_terms


class _Room(NamedTuple):
    """Everything of one agent. A transaction works on a copy, which takes effect when its line is on disk."""

    entries: dict[str, Entry]
    keys: dict[str | None, tuple[str, str]]  # the id a key belongs to, and the fingerprint of what it said
    merges: dict[str | None, str]  # the id of the memory that has this merge key

    def add(self, entry: Entry) -> Receipt:
        receipt = Receipt(id=entry.memory.id, status="stored")
        if entry.key in self.keys:
            return key_receipt(entry, *self.keys[entry.key])
        if entry.merge_key in self.merges:
            known = self.entries[self.merges[entry.merge_key]]
            receipt = Receipt(id=known.memory.id, status="merged", reason=MERGED)
            self.entries[known.memory.id] = replace(known, memory=merged(known.memory, entry.memory))
        elif entry.memory.id in self.entries:
            raise Conflict(f"there is a memory {entry.memory.id} already; nothing was stored. Use a new id")
        else:
            for placed in entry.vectors:
                next(self.near(placed, [*self.entries.values(), entry]), None)  # refuses what cannot be compared
            self.entries[entry.memory.id] = entry
            if entry.merge_key is not None:
                self.merges[entry.merge_key] = entry.memory.id
        if entry.key is not None:
            self.keys[entry.key] = (str(receipt.id), fingerprint(entry))
        return receipt

    def forget(self, id: str) -> ForgetReceipt:
        if (entry := self.entries.pop(id, None)) is None:
            return ForgetReceipt(id=id, forgotten=False)
        self.merges.pop(entry.merge_key, None)
        keys = [self.keys.pop(key) for key, (owner, _) in list(self.keys.items()) if owner == id]
        counts = {"evidence": entry.memory.evidence - 1, "keys": len(keys), "vectors": len(entry.vectors)}
        return ForgetReceipt(id=id, forgotten=True, removed={"memories": 1, "words": 1, **counts})

    def near(self, place: Placed, entries: Iterable[Entry]) -> Iterator[Match]:
        """Return the similarity of vectors of the same embedder and namespace, one for each passage."""
        for id, held in ((entry.memory.id, held) for entry in entries for held in entry.vectors):
            if (held.namespace, held.embedder) == (place.namespace, place.embedder):
                if held.vector.shape != place.vector.shape:
                    raise InvalidInput(f"vectors of {held.embedder} have another length here; use one model for all")
                yield Match(id, float(np.clip(held.vector @ place.vector, 0, 1)), held.passage)

    def search(self, query: Query) -> list[Match]:
        """Score every memory by its best passage; among equals the one stored later comes first."""
        memories = (e.memory for id, e in reversed(self.entries.items()) if query.among is None or id in query.among)
        passing = [memory for memory in memories if accepts(query.where, memory, normal_form(memory.context))]
        if query.words is not None:
            terms = set(query_terms(query.words))
            shared = [Match(memory.id, len(terms.intersection(memory_terms(memory)))) for memory in passing]
            found = [match for match in shared if match.score]
        elif query.near is not None:
            best = {m.id: m for m in sorted(self.near(query.near, self.entries.values()), key=lambda m: m.score)}
            found = [best[memory.id] for memory in passing if memory.id in best]
        else:
            return [Match(m.id, 0.0) for m in sorted(passing, key=lambda m: m.happened_at, reverse=True)]
        return sorted(found, key=lambda match: match.score, reverse=True)

    def carry_out(self, order: str, items: Sequence[Any]) -> list[Any]:
        return [self.add(_entry(*item)) if order == "add" else self.forget(item) for item in items]


class JsonLinesStore:
    """A `MemoryStore` in an append-only file; on POSIX systems several processes may have it open."""

    def __init__(self, url: str, *unused: object) -> None:  # a vector store, sources of time and ids, options
        self._rooms: dict[str, _Room] = {}
        self._read, self._lock = 0, threading.Lock()
        self._file = Path(url.removeprefix("jsonl://")).expanduser().open("a+b", buffering=0)

    def add(self, scope: Scope, entries: Sequence[Entry]) -> list[Receipt]:
        """Store all entries in one line."""
        refuse_foreign(scope, entries)
        items = [(e.memory.model_dump(mode="json"), e.key, e.merge_key, list(map(astuple, e.vectors))) for e in entries]
        return self._write(scope, "add", items)

    def forget(self, scope: Scope, ids: Sequence[str]) -> list[ForgetReceipt]:
        """Append a deletion; the text stays in the earlier lines."""
        return self._write(scope, "forget", list(ids))

    def get(self, scope: Scope, ids: Sequence[str]) -> list[Memory | None]:
        """Return one result per id, in order."""
        with self._lock:
            entries = self._room(scope).entries
            return [entries[id].memory if id in entries else None for id in ids]

    def search(self, scope: Scope, query: Query) -> list[Match]:
        """Search by shared words, by vectors or by time."""
        with self._lock:
            return self._room(scope).search(query)[query.offset : query.offset + query.limit]

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _write(self, scope: Scope, order: str, items: Sequence[Any]) -> list[Any]:
        """Run a transaction, write its line safely to disk, and return its result."""
        line = json.dumps([scope.agent, order, items], default=np.ndarray.tolist).encode() + b"\n"
        with self._lock:
            self._room(scope)  # raises `StoreClosed` if so
            fcntl.flock(self._file, fcntl.LOCK_EX)
            try:
                known = self._room(scope)
                room = _Room(dict(known.entries), dict(known.keys), dict(known.merges))
                answers = room.carry_out(order, items)
                self._file.truncate(self._read)  # a line that a killed writer left unfinished
                if self._file.write(line) != len(line):
                    raise StoreError(f"{self._file.name} takes no more; nothing was stored, free some space")
                os.fsync(self._file.fileno())
            finally:
                fcntl.flock(self._file, fcntl.LOCK_UN)
            self._rooms[scope.agent], self._read = room, self._read + len(line)
            return answers

    def _room(self, scope: Scope) -> _Room:
        """Return the data of an agent, after reading new lines of the file."""
        if self._file.closed:
            raise StoreClosed("this memory was closed; open it again")
        self._file.seek(self._read)
        for line in self._file.read().split(b"\n")[:-1]:  # what follows the last line break is unfinished
            agent, order, items = json.loads(line)
            self._rooms.setdefault(agent, _Room({}, {}, {})).carry_out(order, items)
            self._read += len(line) + 1
        return self._rooms.setdefault(scope.agent, _Room({}, {}, {}))


def _entry(memory: Any, key: Any, merge_key: Any, vectors: Any) -> Entry:
    placed = tuple(Placed(space, name, np.array(row, np.float32), number) for space, name, row, number in vectors)
    return Entry(Memory(**memory), key, merge_key, placed)
