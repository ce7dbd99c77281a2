"""Writes a database of the present schema, and what it must give, to be kept for as long as anybody has one.

    python tests/golden/make.py

Run it once when a schema is released, before the next migration is written; never again for the same schema.
"""

from __future__ import annotations

import gzip
import json
import tempfile
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from engram.model import Clean, MemoryType
from engram.ports import Changes, Event, Placed, Query, Scope
from engram.stores.schema import REVISION
from engram.stores.sqlite import SqliteStore
from engram.stores.vectors.exact import ExactVectors
from engram.testing.factories import START, FixedSources, Maker, passages, placed

FOLDER = Path(__file__).parent
NAMES = ("alice", "Alice", "cafe\u0301")
SEARCHES = {
    "newest": Query(limit=1000),
    "words": Query(words=Clean("deploy cluster"), limit=1000),
    "vector": Query(near=placed(1, 0, 0), limit=1000),
    "chinese": Query(words=Clean("生产"), limit=1000),
}


def fill(store: SqliteStore, sources: FixedSources) -> None:
    """Something of everything that can be stored."""
    for name in NAMES:
        scope, make = Scope(name), Maker(name, sources)
        entries = [
            make.event(
                f"deploy the cluster, {kind}",
                kind=kind,
                tags=["x", f"kind {kind}"],
                session="s1",
                context="Release.",
                metadata={"nested": [1, 2.5, None, True, {"é": "🚀"}]},
                key=f"key {kind}",
            )
            for kind in MemoryType
        ]
        entries += [
            make.event("部署到生产环境", at=START - timedelta(days=40_000, microseconds=1)),
            make.event("قاعدة البيانات · מסד הנתונים", valid_until=START + timedelta(days=30)),
            make.event("cafe\u0301 and caf\u00e9 " * 5, importance=1.0),
            make.event(
                "roll back → failure",
                kind=MemoryType.DECISION,
                context="deploy",
                content={"chosen_action": "roll back", "outcome_quality": 0.0, "alternative_actions": ["wait"]},
            ),
            make.fact("The sky is blue", tags=["sky"], key="fact"),
            make.event("this will be forgotten", key="gone"),
        ]
        vectors: list[tuple[Placed, ...]]
        vectors = [(placed(9, i, 1), placed(i, 1, 1, 1, embedder="large@1")) for i in range(len(entries))]
        vectors[2] = passages((0, 1, 0), (1, 0, 0), (0, 0, 1))
        vectors[-1] = passages((0, 1, 0), (1, 0, 0))
        store.add(scope, [replace(e, vectors=v) for e, v in zip(entries, vectors, strict=True)])
        store.add(scope, [make.fact("the sky is BLUE.", tags=["again"]), make.event("without a vector")])
        store.annotate(scope, entries[0].memory.id, Changes(tags=(Clean("new"),), importance=0.9, trust=0.1), 1)
        store.touch(scope, [entries[1].memory.id], START)
        store.forget(scope, [entries[-1].memory.id])
        decided = entries[-4].memory
        store.append(scope, [Event("outcome", "outcome", START, decided.id, "topic", {"quality": 1.0, "é": [None]})])
        store.take("recall_events", [{"agent": name, "id": sources.new_id(), "at": 1, "detail": '{"k":5}'}])
    store.set_embedder("fixed@1")


def contents(store: SqliteStore) -> dict[str, Any]:
    """Everything that can be asked of a database, as JSON."""
    found: dict[str, Any] = {"agents": store.agents(), "embedder": store.embedder(), "memories": {}, "searches": {}}
    for name in store.agents():
        scope = Scope(name)
        ids = [match.id for match in store.search(scope, SEARCHES["newest"])]
        memories = [memory for memory in store.get(scope, ids) if memory is not None]
        found["memories"][name] = [memory.model_dump(mode="json") for memory in memories]
        found["searches"][name] = {
            how: {match.id: round(match.score, 4) for match in store.search(scope, query)}
            for how, query in SEARCHES.items()
        }
    return found


def main() -> None:
    """Write the database and what it must give, beside this file."""
    target = FOLDER / f"{REVISION}.db.gz"
    if target.exists():
        raise SystemExit(f"{target} is there already; the database of a released schema is never made again")
    sources = FixedSources()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "golden.db"
        with closing(SqliteStore(path, ExactVectors(), sources)) as store:
            fill(store, sources)
            expected = contents(store)
        target.write_bytes(gzip.compress(path.read_bytes(), mtime=0))
    text = json.dumps(expected, ensure_ascii=False, indent=1, sort_keys=True)
    (FOLDER / f"{REVISION}.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
