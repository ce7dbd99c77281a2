"""Maintain a database: consolidate and forget memories, evaluate their use, rebuild derived data."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import JsonValue

from engram.errors import Conflict, Hint, InvalidInput, NotAllowed, Unsupported
from engram.memories import forgetting_curve, holds
from engram.memories.forgetting_curve import ForgettingLimits
from engram.model import Memory
from engram.model.upkeep import Consolidation, EvaluationReport, FadedMemory, ForgettingReport, Period
from engram.ports import (
    LONG_TERM,
    Annotates,
    CreditsRecalls,
    Entry,
    Event,
    KeepsEvents,
    KeepsSettings,
    Maintains,
    MirrorsVectors,
    Query,
    Scope,
    Store,
    SyncsVectors,
    acting,
    arguments,
)
from engram.ports.completed import require
from engram.privacy import clean_json
from engram.recall.learned_weights import Outcome, decide
from engram.recording.input import merge_key
from engram.recording.quarantine import QUARANTINE
from engram.retention import archive as archives
from engram.retention import erasure
from engram.system import batched
from engram.upkeep import consolidation, evaluation
from engram.upkeep.consolidation import ConsolidationContext

if TYPE_CHECKING:
    from engram.engine import Engram


PAGE = 2000
BATCH = 64
MOST = 1_000_000
MOST_CREDITS = 100_000
CREDITS = 2000
"""Number of an agent's newest credits to learn from."""
DEFAULTS = ForgettingLimits()
LAST_FORGETTING = "forgetting:last"
"""Setting with the time of the last deletion of faded memories."""
Progress = Callable[[int, int], None]


class Upkeep:
    """Maintenance of one database: consolidate, forget, evaluate, and rebuild derived data."""

    def __init__(self, brain: Engram) -> None:
        self._brain = brain
        self._store = brain.store

    @acting("")
    def consolidate(
        self, agents: Iterable[str], progress: Progress | None = None, *, dry_run: bool = False
    ) -> list[Consolidation]:
        """Merge equal statements, make facts of repeated observations, and summarise topics; returns the results.

        Results are committed before their sources end, and no source is deleted. Repeating it makes nothing new.
        """
        made = []
        for agent in agents:
            context, now = self._context(agent), self._brain.sources.now()
            memories, past = (
                list(erasure.iter_memories(self._store, context.scope)),
                consolidation.history_of(_feed(context.store, context.scope)),
            )
            if (halves := consolidation.unfinished_undos(memories, past)) and not dry_run:
                for id in halves:
                    # Its sources were deleted meanwhile, or it is under a legal hold.
                    with suppress(Conflict, NotAllowed):
                        consolidation.undo(id, context)
                memories = list(erasure.iter_memories(self._store, context.scope))
            steps = consolidation.plan(memories, past, now)
            for number, step in enumerate(steps, 1):
                made.append(
                    consolidation.to_report(step, agent) if dry_run else consolidation.carry_out(step, context, now)
                )
                if progress is not None:
                    progress(number, len(steps))
        return made

    @acting("")
    def undo(self, agent: str, id: str) -> Consolidation:
        """Undo a consolidation for good; its sources are restored.

        Raises `NotFound`, and `NotAllowed` if the result is under a legal hold.
        """
        return consolidation.undo(id, self._context(agent))

    def fading(self, agents: Iterable[str], limits: ForgettingLimits = DEFAULTS) -> ForgettingReport:
        """Return the memories that `forget` would delete, weakest first for each agent, with counts of the kept ones.

        Recalls count once the store has written them, which it does with the next commit.
        """
        return forgetting_curve.merge_reports(self._fading(agent, limits)[0] for agent in agents)

    @acting("")
    def forget(self, agents: Iterable[str], archive: Path, limits: ForgettingLimits = DEFAULTS) -> ForgettingReport:
        """Write faded memories to a new archive and delete them; those used meanwhile are kept.

        Raises `Conflict` if the file exists. If nothing has faded, no archive is written.
        """
        if archive.exists():
            raise Conflict(f"there is already a file at {archive}; give another name")
        # This commit also writes pending recall statistics.
        self._store.set_setting(LAST_FORGETTING, self._brain.sources.now().isoformat())
        found = [self._fading(agent, limits) for agent in agents]
        plan = forgetting_curve.merge_reports(each for each, _ in found)
        if not plan.gone:
            erasure.scrub_store(self._store)  # also earlier deletions, if a reader prevented it then
            return plan
        memories = {(memory.agent, memory.id): memory for _, own in found for memory in own}
        archives.register(self._store, archive)
        write_archive(archive, [(each, memories[each.agent, each.id]) for each in plan.gone], self._events_of)
        gone = []
        for each in plan.gone:
            agent = self._brain.agent(each.agent)
            same = agent.get(each.id) == memories[each.agent, each.id]
            if same and erasure.remove_archived(self._brain, Scope(each.agent), [each.id])[0].forgotten:
                gone.append(each)
        erasure.scrub_store(self._store)
        return plan.model_copy(update={"gone": tuple(gone), "archive": str(archive)})

    @acting("")
    def restore(self, archive: Path) -> int:
        """Restore the memories of an archive under the same ids; returns the number that were missing.

        Raises `InvalidInput` if it is no archive, or contains secrets or names that Engram would not have written.
        """
        kept = archives.read(archive)
        for memory, events in kept:
            arguments.agent(memory.agent)
            told: list[JsonValue] = [memory.model_dump(mode="json"), *(dict(event.body) for event in events)]
            if found := clean_json(self._brain.redactor, told)[1]:
                names = ", ".join(sorted(set(found)))
                raise InvalidInput(f"{archive} contains secrets ({names}) and was changed; use an unchanged copy")
        back = 0
        for agent in sorted({memory.agent for memory, _ in kept}):
            own, scope = [each for each in kept if each[0].agent == agent], Scope(agent)
            there = self._store.get(scope, [memory.id for memory, _ in own])
            again = consolidation.consolidated_keys(_feed(self._store, scope))
            lost = [
                Entry(memory, merge_key=merge_key(memory), events=events)
                for (memory, events), known in zip(own, there, strict=True)
                if known is None and consolidation.step_key(memory) not in again
            ]
            for some in batched(lost, BATCH):
                self._store.add(scope, self._brain._parts.embeddings.embed(some)[0])
            back += len(lost)
        return back

    def evaluate(
        self,
        agents: Sequence[str],
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        period: Period = "week",
    ) -> EvaluationReport:
        """Evaluate how useful memory is to these agents together, by period, and whether that changes."""
        scopes = [Scope(agent) for agent in agents]
        return evaluation.evaluate(self._store, scopes, since=since, until=until, period=period)

    def rebuild(self, progress: Progress | None = None) -> Mapping[str, int]:
        """Rebuild all derived data from the canonical rows: indexes, missing vectors, learned patterns."""
        rebuilt = self.database.rebuild(progress)
        patterns = sum(self.relearn(self._brain.agents()).values())
        return {**rebuilt, "vectors": self.reembed(progress), "patterns": patterns}

    def relearn(self, agents: Iterable[str]) -> Mapping[str, int]:
        """Learn again from everything these agents recorded; returns the number of failure patterns of each."""
        return {agent: self._brain._parts.experience.anew(Scope(agent)) for agent in agents}

    def reembed(self, progress: Progress | None = None, *, drop_old: bool = False) -> int:
        """Embed every memory with the current embedder; returns the number of memories embedded.

        Each batch is committed, so it can be interrupted and repeated. Vectors of other embedders are kept until all
        are done, and then deleted only with `drop_old`.
        """
        require(self._store, MirrorsVectors, "filling in missing vectors")
        store, embedder = self._store, self._brain.embedder
        total = store.count_unembedded(LONG_TERM, embedder.identity)
        done = 0
        while batch := store.unembedded(LONG_TERM, embedder.identity, BATCH):
            given = zip(batch, self._brain._parts.embeddings.vectors_of(batch), strict=True)
            store.place([(Scope(memory.agent), memory.id, placed) for memory, own in given for placed in own])
            done += len(batch)  # memories deleted meanwhile need no vector
            if progress is not None:
                progress(done, max(total, done))
        store.set_embedder(embedder.identity)
        if drop_old:
            store.discard_vectors(LONG_TERM, embedder.identity)
        return done

    def missing_vectors(self) -> int:
        """Count the memories without a vector of the current embedder; 0 if the store manages vectors itself."""
        return count_missing_vectors(self._store, self._brain.embedder.identity)

    def sync(self, progress: Progress | None = None, *, anew: bool = False) -> int:
        """Synchronise the vector database with the mirrored vectors; returns the number sent."""
        if not isinstance(self._store, SyncsVectors):
            raise Unsupported("this store has no separate vector database; there is nothing to synchronise")
        return self._store.sync(anew=anew, progress=progress)

    def tune(self, *, dry_run: bool = False) -> Mapping[str, Outcome]:
        """Learn from credits how to rank recalls; returns the decision for each agent with credits.

        The result is used only if it proves to be better, and only as long as it is.
        """
        store = self._store
        require(store, CreditsRecalls, "learning from recalls")
        require(store, KeepsSettings, "learning from recalls")
        outcomes: dict[str, Outcome] = {}
        for agent in self._brain.agents():
            scope = Scope(agent)
            credits = store.credits(scope, CREDITS)
            if not credits:
                continue
            outcomes[agent] = outcome = decide(credits, self._brain._parts.tuning.read(scope))
            if outcome.decision in {"adopted", "reverted"} and not dry_run:
                self._brain._parts.tuning.adopt(scope, self._brain.sources.now(), outcome.multipliers)
        return outcomes

    @property
    def database(self) -> Maintains:
        """The store's maintenance interface. Raises `Unsupported` if the database is not local to this process."""
        if not isinstance(self._store, Maintains):
            raise Unsupported(
                "this store has nothing to maintain here; a server has its own tools",
                hint=Hint("db copy", "copies it into a file"),
            )
        return self._store

    def _events_of(self, memory: Memory) -> list[Event]:
        """Return the events of a memory, which are archived and restored with it."""
        return self._store.events_of(Scope(memory.agent), [memory.id])

    def _fading(self, agent: str, limits: ForgettingLimits) -> tuple[ForgettingReport, list[Memory]]:
        scope, store = Scope(agent), self._store
        memories = list(erasure.iter_memories(store, scope))
        credits = store.credits(scope, MOST_CREDITS)
        events = _feed(store, scope)
        made = consolidation.sources_by_result(events)
        cited = set[str]().union(*made.values())
        learned = {event.subject for event in events if event.kind != consolidation.CONSOLIDATED}
        learned |= {id for pattern in self._brain.agent(agent).learning.failures(quiet=True) for id in pattern.episodes}
        now = self._brain.sources.now()
        fade = partial(forgetting_curve.fade, credits=credits, now=now, limits=limits, learned=learned)
        found = fade(memories, cited=cited)
        held = holds.active_holds(store)
        kept = {memory.id for memory in memories if holds.find_hold(held, agent, memory)} if held else set[str]()
        if merges := {each.id for each in found.gone} & consolidation.merged_results(events):
            found = _keep_merges_whole(found, merges, memories, made, kept, fade)
        if stay := [each for each in found.gone if each.id in kept]:
            rest = tuple(each for each in found.gone if each.id not in kept)
            found = found.model_copy(update={"gone": rest, "kept": {**found.kept, "held": len(stay)}})
        weak = {each.id for each in found.gone}
        return found, [memory for memory in memories if memory.id in weak]

    def _context(self, agent: str) -> ConsolidationContext:
        require(self._store, KeepsEvents, "consolidation")
        require(self._store, Annotates, "consolidation")
        return ConsolidationContext(
            self._store, Scope(agent), self._brain.redactor, self._brain.sources, self._brain._parts.embeddings.embed
        )


def write_archive(
    path: Path, gone: Iterable[tuple[FadedMemory, Memory]], told: Callable[[Memory], Sequence[Event]] = lambda _: ()
) -> None:
    """Write memories and their events to a new archive file atomically."""
    archives.write(path, (archives.make_line(memory, fading.reason, told(memory)) for fading, memory in gone))


def _keep_merges_whole(
    found: ForgettingReport,
    merges: set[str],
    memories: Sequence[Memory],
    made: Mapping[str, set[str]],
    held: Collection[str],
    fade: Callable[..., ForgettingReport],
) -> ForgettingReport:
    """Correct the report so that a merge and the sources it has ended are deleted together or kept together."""
    there = {memory.id for memory in memories}
    rest = {id: of for id, of in made.items() if id not in merges}
    without = fade([memory for memory in memories if memory.id not in merges], cited=set[str]().union(*rest.values()))
    weak = {each.id: each for each in without.gone if each.id not in held}
    whole = {id for id in merges if id not in held and all(of in weak for of in made[id] & there)}
    also = [weak[of] for of in sorted(set[str]().union(*(made[id] & there for id in whole)))]
    gone = sorted([*(each for each in found.gone if each.id in whole or each.id not in merges), *also], key=_weakest)
    kept = Counter(dict(found.kept)) + Counter({"cited": len(merges - whole) - len(also)})
    return ForgettingReport(gone=tuple(gone), kept=dict(sorted(kept.items())))


def _weakest(fading: FadedMemory) -> tuple[float, str]:
    return fading.strength.value, fading.id


def _feed(store: KeepsEvents, scope: Scope) -> list[Event]:
    found, after = list[Event](), 0
    while events := store.events_after(scope, after, PAGE):
        found += events
        after = events[-1].seq
    return found


def count_missing_vectors(store: Store, embedder: str) -> int:
    """Count the memories without a vector of an embedder; quarantined ones need none."""
    if not (missing := store.count_unembedded(LONG_TERM, embedder)):
        return 0
    for scope in (Scope(name) for name in store.agents() if name.startswith(QUARANTINE)):
        for match in store.search(scope, Query(limit=MOST)):
            places = {(known.namespace, known.embedder) for known in store.indexes(scope, match.id)}
            missing -= (LONG_TERM, embedder) not in places
    return missing


def __getattr__(name: str) -> Any:
    """Provide the functions that this module had before `Upkeep`, which took the memory as their first argument."""
    if name not in {"consolidate", "undo", "fading", "forget", "restore", "evaluate"}:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    warnings.warn(f"{name}(brain, ...) has moved; call brain.upkeep.{name}(...)", DeprecationWarning, stacklevel=2)
    return lambda brain, *args, **options: getattr(brain.upkeep, name)(*args, **options)
