"""Work that can wait: filling in vectors, rebuilding what is derived, looking after the database."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from engram.errors import Conflict, Hint, Unsupported
from engram.ports import (
    LONG_TERM,
    Copies,
    CreditsRecalls,
    Deed,
    KeepsAudit,
    KeepsSettings,
    Maintains,
    MirrorsVectors,
    Query,
    Scope,
    Store,
    SyncsVectors,
)
from engram.ports.completed import require
from engram.recall.learned_weights import Outcome, decide
from engram.recording.quarantine import QUARANTINE

if TYPE_CHECKING:
    from engram.engine import Engram


BATCH = 64
PAGE = 500
CREDITS = 2000
"""So many of an agent's newest credits are learned from."""
MOST = 1_000_000
STAYS_BEHIND = frozenset({"audit", "audit_checkpoints", "api_keys"})
"""What is about this database rather than its memories."""
Progress = Callable[[int, int], None]


def reembed(brain: Engram, progress: Progress | None = None, *, drop_old: bool = False) -> int:
    """Give every memory its vectors of the embedder in use; how many memories got some.

    Each batch is committed, so it can be stopped and started again. The vectors of other embedders stay until
    all are done, and then only go when `drop_old` says so.
    """
    store = _mirror(brain)
    embedder = brain.embedder
    total = store.count_unembedded(LONG_TERM, embedder.identity)
    done = 0
    while batch := store.unembedded(LONG_TERM, embedder.identity, BATCH):
        given = zip(batch, brain.places(batch), strict=True)
        store.place([(Scope(memory.agent), memory.id, placed) for memory, own in given for placed in own])
        done += len(batch)  # who was forgotten meanwhile lacks nothing
        if progress is not None:
            progress(done, max(total, done))
    store.set_embedder(embedder.identity)
    if drop_old:
        store.discard_vectors(LONG_TERM, embedder.identity)
    return done


def missing_vectors(brain: Engram) -> int:
    """How many memories have no vector of the embedder in use; 0 if the store keeps its vectors by itself."""
    return unplaced(brain.store, brain.embedder.identity)


def unplaced(store: Store, embedder: str) -> int:
    """How many memories lack a vector of an embedder; what is set apart for review needs none."""
    if not (missing := store.count_unembedded(LONG_TERM, embedder)):
        return 0
    for scope in (Scope(name) for name in store.agents() if name.startswith(QUARANTINE)):
        for match in store.search(scope, Query(limit=MOST)):
            places = {(known.namespace, known.embedder) for known in store.indexes(scope, match.id)}
            missing -= (LONG_TERM, embedder) not in places
    return missing


def rebuild(brain: Engram, progress: Progress | None = None) -> Mapping[str, int]:
    """Make all that is derived again from the canonical rows: indexes, missing vectors, and what was learned."""
    rebuilt = maintained(brain).rebuild(progress)
    patterns = sum(relearn(brain, brain.agents()).values())
    return {**rebuilt, "vectors": reembed(brain, progress), "patterns": patterns}


def relearn(brain: Engram, agents: Iterable[str]) -> Mapping[str, int]:
    """Learn everything again from what these agents recorded; how many failure patterns each has."""
    return {agent: brain.experience.anew(Scope(agent)) for agent in agents}


def sync(brain: Engram, progress: Progress | None = None, *, anew: bool = False) -> int:
    """Bring the vector database in step with the mirrored vectors; how many were handed over."""
    if not isinstance(brain.store, SyncsVectors):
        raise Unsupported("this store has no vector database beside it; there is nothing to bring in step")
    return brain.store.sync(anew=anew, progress=progress)


def tune(brain: Engram, *, dry_run: bool = False) -> Mapping[str, Outcome]:
    """Learn from what agents have credited how to rank what they recall; what was decided, for each who has credited.

    What is learned is used only if it proves to be better, and no longer when it ceases to be.
    """
    store = brain.store
    require(store, CreditsRecalls, "learning from recalls")
    require(store, KeepsSettings, "learning from recalls")
    outcomes: dict[str, Outcome] = {}
    for agent in brain.agents():
        scope = Scope(agent)
        credits = store.credits(scope, CREDITS)
        if not credits:
            continue
        outcomes[agent] = outcome = decide(credits, brain.tuning.read(scope))
        if outcome.decision in {"adopted", "reverted"} and not dry_run:
            brain.tuning.adopt(scope, brain.sources.now(), outcome.multipliers)
    return outcomes


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
        target.note([Deed("copy", target=name, count=total)])
    return {table: tally.rows for table, tally in before.items()}


def _copied(store: Store) -> Copies:
    if not isinstance(store, Copies):
        raise Unsupported("this store cannot hand over all it keeps; SQLite, PostgreSQL and Redis can be copied")
    return store


def maintained(brain: Engram) -> Maintains:
    """The store, if it is a database that can be looked after."""
    if not isinstance(brain.store, Maintains):
        raise Unsupported(
            "this store has nothing to maintain here; a server has its own tools",
            hint=Hint("db copy", "copies it into a file"),
        )
    return brain.store


def _mirror(brain: Engram) -> MirrorsVectors:
    require(brain.store, MirrorsVectors, "filling in missing vectors")
    return brain.store
