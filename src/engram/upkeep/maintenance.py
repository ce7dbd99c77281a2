"""Maintain a database: consolidate and forget memories, evaluate how well they serve, rebuild what is derived."""

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
    Filter,
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
from engram.recording.draft import merge_key
from engram.recording.quarantine import QUARANTINE
from engram.retention import archive as archives
from engram.retention import erasure
from engram.system import batched
from engram.upkeep import consolidation, evaluation
from engram.upkeep.consolidation import Desk

if TYPE_CHECKING:
    from engram.engine import Engram


PAGE = 2000
BATCH = 64
MOST = 1_000_000
MOST_CREDITS = 100_000
CREDITS = 2000
"""So many of an agent's newest credits are learned from."""
DEFAULTS = ForgettingLimits()
LAST = "forgetting:last"
"""The setting that says when something was last let go."""
Progress = Callable[[int, int], None]


class Upkeep:
    """Maintenance of one database: consolidate, forget, evaluate, and rebuild what is derived."""

    def __init__(self, brain: Engram) -> None:
        self._brain = brain
        self._store = brain.store

    @acting("")
    def consolidate(
        self, agents: Iterable[str], progress: Progress | None = None, *, dry_run: bool = False
    ) -> list[Consolidation]:
        """Merge what says the same, make facts of what was seen again and again, and sum up topics; what was made.

        What is made is committed before its sources end, and no source is deleted. Running it again makes nothing new.
        """
        made = []
        for agent in agents:
            desk, now = self._desk(agent), self._brain.sources.now()
            memories, past = self._all(desk.scope), consolidation.past_of(_feed(desk.store, desk.scope))
            if (halves := consolidation.unfinished(memories, past)) and not dry_run:
                for id in halves:
                    # Its sources have gone meanwhile, and it is the last to know; or it is held.
                    with suppress(Conflict, NotAllowed):
                        consolidation.undo(id, desk)
                memories = self._all(desk.scope)
            steps = consolidation.plan(memories, past, now)
            for number, step in enumerate(steps, 1):
                made.append(consolidation.described(step, agent) if dry_run else consolidation.make(step, desk, now))
                if progress is not None:
                    progress(number, len(steps))
        return made

    @acting("")
    def undo(self, agent: str, id: str) -> Consolidation:
        """Take back what consolidating made, for good; its sources are as they were.

        Raises `NotFound`, and `NotAllowed` if it is held.
        """
        return consolidation.undo(id, self._desk(agent))

    def fading(self, agents: Iterable[str], limits: ForgettingLimits = DEFAULTS) -> ForgettingReport:
        """What would be forgotten, weakest first for each agent, and why the rest stays; nothing goes by asking.

        Recalls count as soon as the store has written that they happened, which it does with the next commit.
        """
        return forgetting_curve.merge_reports(self._fading(agent, limits)[0] for agent in agents)

    @acting("")
    def forget(self, agents: Iterable[str], archive: Path, limits: ForgettingLimits = DEFAULTS) -> ForgettingReport:
        """Forget what faded, after it has been written to a new archive; who was used meanwhile stays.

        Raises `Conflict` if there is a file already. If nothing faded, no archive is written.
        """
        if archive.exists():
            raise Conflict(f"there is a file at {archive} already; name another one")
        # A commit, with which the store writes what was recalled until now.
        self._store.set_setting(LAST, self._brain.sources.now().isoformat())
        found = [self._fading(agent, limits) for agent in agents]
        plan = forgetting_curve.merge_reports(each for each, _ in found)
        if not plan.gone:
            erasure.scrub_store(self._store)  # of what went before, while somebody read the log
            return plan
        memories = {(memory.agent, memory.id): memory for _, own in found for memory in own}
        archives.register(self._store, archive)
        write_archive(archive, [(each, memories[each.agent, each.id]) for each in plan.gone], self._told_of)
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
        """Remember again what an archive holds, under the same ids; how many were not there any more.

        Raises `InvalidInput` if it is no archive, or holds secrets or names that no archive of ours would.
        """
        kept = archives.read(archive)
        for memory, events in kept:
            arguments.agent(memory.agent)
            told: list[JsonValue] = [memory.model_dump(mode="json"), *(dict(event.body) for event in events)]
            if found := clean_json(self._brain.redactor, told)[1]:
                names = ", ".join(sorted(set(found)))
                raise InvalidInput(f"{archive} holds secrets ({names}); somebody has changed it")
        back = 0
        for agent in sorted({memory.agent for memory, _ in kept}):
            own, scope = [each for each in kept if each[0].agent == agent], Scope(agent)
            there = self._store.get(scope, [memory.id for memory, _ in own])
            again = consolidation.made_anew(_feed(self._store, scope))
            lost = [
                Entry(memory, merge_key=merge_key(memory), events=events)
                for (memory, events), known in zip(own, there, strict=True)
                if known is None and consolidation.made_by(memory) not in again
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
        """How well memory serves these agents together, period by period, and whether that drifts."""
        scopes = [Scope(agent) for agent in agents]
        return evaluation.evaluate(self._store, scopes, since=since, until=until, period=period)

    def rebuild(self, progress: Progress | None = None) -> Mapping[str, int]:
        """Make all that is derived again from the canonical rows: indexes, missing vectors, and what was learned."""
        rebuilt = self.database.rebuild(progress)
        patterns = sum(self.relearn(self._brain.agents()).values())
        return {**rebuilt, "vectors": self.reembed(progress), "patterns": patterns}

    def relearn(self, agents: Iterable[str]) -> Mapping[str, int]:
        """Learn everything again from what these agents recorded; how many failure patterns each has."""
        return {agent: self._brain._parts.experience.anew(Scope(agent)) for agent in agents}

    def reembed(self, progress: Progress | None = None, *, drop_old: bool = False) -> int:
        """Give every memory its vectors of the embedder in use; how many memories got some.

        Each batch is committed, so it can be stopped and started again. The vectors of other embedders stay until
        all are done, and then only go when `drop_old` says so.
        """
        require(self._store, MirrorsVectors, "filling in missing vectors")
        store, embedder = self._store, self._brain.embedder
        total = store.count_unembedded(LONG_TERM, embedder.identity)
        done = 0
        while batch := store.unembedded(LONG_TERM, embedder.identity, BATCH):
            given = zip(batch, self._brain._parts.embeddings.vectors_of(batch), strict=True)
            store.place([(Scope(memory.agent), memory.id, placed) for memory, own in given for placed in own])
            done += len(batch)  # who was forgotten meanwhile lacks nothing
            if progress is not None:
                progress(done, max(total, done))
        store.set_embedder(embedder.identity)
        if drop_old:
            store.discard_vectors(LONG_TERM, embedder.identity)
        return done

    def missing_vectors(self) -> int:
        """How many memories have no vector of the embedder in use; 0 if the store keeps its vectors by itself."""
        return unplaced(self._store, self._brain.embedder.identity)

    def sync(self, progress: Progress | None = None, *, anew: bool = False) -> int:
        """Bring the vector database in step with the mirrored vectors; how many were handed over."""
        if not isinstance(self._store, SyncsVectors):
            raise Unsupported("this store has no vector database beside it; there is nothing to bring in step")
        return self._store.sync(anew=anew, progress=progress)

    def tune(self, *, dry_run: bool = False) -> Mapping[str, Outcome]:
        """Learn from credits how to rank recalls; return the decision for each agent that has credited.

        What is learned is used only if it proves to be better, and no longer when it ceases to be.
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
        """The store, to check, describe and back it up. Raises `Unsupported` if it is no database of this process."""
        if not isinstance(self._store, Maintains):
            raise Unsupported(
                "this store has nothing to maintain here; a server has its own tools",
                hint=Hint("db copy", "copies it into a file"),
            )
        return self._store

    def _told_of(self, memory: Memory) -> list[Event]:
        """What goes with a memory and must come back with it, such as what it was made of."""
        return self._store.events_of(Scope(memory.agent), [memory.id])

    def _fading(self, agent: str, limits: ForgettingLimits) -> tuple[ForgettingReport, list[Memory]]:
        scope, store = Scope(agent), self._store
        memories = self._all(scope)
        credits = store.credits(scope, MOST_CREDITS)
        events = _feed(store, scope)
        made = consolidation.standing(events)
        cited = set[str]().union(*made.values())
        learned = {event.subject for event in events if event.kind != consolidation.CONSOLIDATED}
        learned |= {id for pattern in self._brain.agent(agent).learning.failures(quiet=True) for id in pattern.episodes}
        now = self._brain.sources.now()
        fade = partial(forgetting_curve.fade, credits=credits, now=now, limits=limits, learned=learned)
        found = fade(memories, cited=cited)
        held = holds.active_holds(store)
        kept = {memory.id for memory in memories if holds.find_hold(held, agent, memory)} if held else set[str]()
        if merges := {each.id for each in found.gone} & consolidation.merges(events):
            found = _with_sources(found, merges, memories, made, kept, fade)
        if stay := [each for each in found.gone if each.id in kept]:
            rest = tuple(each for each in found.gone if each.id not in kept)
            found = found.model_copy(update={"gone": rest, "kept": {**found.kept, "held": len(stay)}})
        weak = {each.id for each in found.gone}
        return found, [memory for memory in memories if memory.id in weak]

    def _all(self, scope: Scope) -> list[Memory]:
        """Every memory of an agent, also those that are no longer valid."""
        found, offset = list[Memory](), 0
        while ids := [m.id for m in self._store.search(scope, Query(where=Filter(), limit=PAGE, offset=offset))]:
            found += [memory for memory in self._store.get(scope, ids) if memory is not None]
            offset += len(ids)
        return list({memory.id: memory for memory in found}.values())

    def _desk(self, agent: str) -> Desk:
        require(self._store, KeepsEvents, "consolidation")
        require(self._store, Annotates, "consolidation")
        return Desk(
            self._store, Scope(agent), self._brain.redactor, self._brain.sources, self._brain._parts.embeddings.embed
        )


def write_archive(
    path: Path, gone: Iterable[tuple[FadedMemory, Memory]], told: Callable[[Memory], Sequence[Event]] = lambda _: ()
) -> None:
    """Write memories and their events to a new file, a JSON object a line; it is on disk in full, or not at all."""
    archives.write(path, (archives.make_line(memory, fading.reason, told(memory)) for fading, memory in gone))


def _with_sources(
    found: ForgettingReport,
    merges: set[str],
    memories: Sequence[Memory],
    made: Mapping[str, set[str]],
    held: Collection[str],
    fade: Callable[..., ForgettingReport],
) -> ForgettingReport:
    """The same, where a merge goes with all that it has ended, or stays: without it, nobody would know any more."""
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


def unplaced(store: Store, embedder: str) -> int:
    """How many memories lack a vector of an embedder; what is set apart for review needs none."""
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
