"""Looking after what agents remember: consolidating it, letting what faded go, and measuring how well it serves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import JsonValue

from engram.errors import Conflict, InvalidInput, NotAllowed
from engram.memories import forgetting_curve, holds
from engram.memories.forgetting_curve import ForgettingLimits
from engram.model import Memory
from engram.model.upkeep import Consolidation, EvaluationReport, FadedMemory, ForgettingReport, Period
from engram.ports import (
    Annotates,
    Entry,
    Event,
    Filter,
    KeepsEvents,
    Query,
    Scope,
    acting,
    arguments,
)
from engram.ports.completed import require
from engram.privacy import clean_json
from engram.recording.draft import merge_key
from engram.retention import archive as archives
from engram.retention import erasure
from engram.system import batched
from engram.upkeep import consolidation, evaluation
from engram.upkeep.consolidation import Desk

if TYPE_CHECKING:
    from engram.engine import Engram


PAGE = 2000
BATCH = 64
MOST_CREDITS = 100_000
DEFAULTS = ForgettingLimits()
LAST = "forgetting:last"
"""The setting that says when something was last let go."""
Progress = Callable[[int, int], None]


@acting("")
def consolidate(
    brain: Engram, agents: Iterable[str], progress: Progress | None = None, *, dry_run: bool = False
) -> list[Consolidation]:
    """Merge what says the same, make facts of what was seen again and again, and sum up topics; what was made.

    What is made is committed before its sources end, and no source is deleted. Running it again makes nothing new.
    """
    made = []
    for agent in agents:
        desk, now = _desk(brain, agent), brain.sources.now()
        memories, past = _all(brain, desk.scope), consolidation.past_of(_feed(desk.store, desk.scope))
        if (halves := consolidation.unfinished(memories, past)) and not dry_run:
            for id in halves:
                # Its sources have gone meanwhile, and it is the last to know; or it is held.
                with suppress(Conflict, NotAllowed):
                    consolidation.undo(id, desk)
            memories = _all(brain, desk.scope)
        steps = consolidation.plan(memories, past, now)
        for number, step in enumerate(steps, 1):
            made.append(consolidation.described(step, agent) if dry_run else consolidation.make(step, desk, now))
            if progress is not None:
                progress(number, len(steps))
    return made


@acting("")
def undo(brain: Engram, agent: str, id: str) -> Consolidation:
    """Take back what consolidating made, for good; its sources are as they were.

    Raises `NotFound`, and `NotAllowed` if it is held.
    """
    return consolidation.undo(id, _desk(brain, agent))


def fading(brain: Engram, agents: Iterable[str], limits: ForgettingLimits = DEFAULTS) -> ForgettingReport:
    """What would be forgotten, weakest first for each agent, and why the rest stays; nothing goes by asking.

    Recalls count as soon as the store has written that they happened, which it does with the next commit.
    """
    return forgetting_curve.merge_reports(_fading(brain, agent, limits)[0] for agent in agents)


@acting("")
def forget(
    brain: Engram, agents: Iterable[str], archive: Path, limits: ForgettingLimits = DEFAULTS
) -> ForgettingReport:
    """Forget what faded, after it has been written to a new archive; who was used meanwhile stays.

    Raises `Conflict` if there is a file already. If nothing faded, no archive is written.
    """
    if archive.exists():
        raise Conflict(f"there is a file at {archive} already; name another one")
    # A commit, with which the store writes what was recalled until now.
    brain.store.set_setting(LAST, brain.sources.now().isoformat())
    found = [_fading(brain, agent, limits) for agent in agents]
    plan = forgetting_curve.merge_reports(each for each, _ in found)
    if not plan.gone:
        erasure.scrub_store(brain.store)  # of what went before, while somebody read the log
        return plan
    memories = {(memory.agent, memory.id): memory for _, own in found for memory in own}
    archives.register(brain.store, archive)
    write_archive(archive, [(each, memories[each.agent, each.id]) for each in plan.gone], partial(_told_of, brain))
    gone = []
    for each in plan.gone:
        agent = brain.agent(each.agent)
        same = agent.get(each.id) == memories[each.agent, each.id]
        if same and erasure.remove_archived(brain, Scope(each.agent), [each.id])[0].forgotten:
            gone.append(each)
    erasure.scrub_store(brain.store)
    return plan.model_copy(update={"gone": tuple(gone), "archive": str(archive)})


@acting("")
def restore(brain: Engram, archive: Path) -> int:
    """Remember again what an archive holds, under the same ids; how many were not there any more.

    Raises `InvalidInput` if it is no archive, or holds secrets or names that no archive of ours would.
    """
    kept = archives.read(archive)
    for memory, events in kept:
        arguments.agent(memory.agent)
        told: list[JsonValue] = [memory.model_dump(mode="json"), *(dict(event.body) for event in events)]
        if found := clean_json(brain.redactor, told)[1]:
            raise InvalidInput(f"{archive} holds secrets ({', '.join(sorted(set(found)))}); somebody has changed it")
    back = 0
    for agent in sorted({memory.agent for memory, _ in kept}):
        own, scope = [each for each in kept if each[0].agent == agent], Scope(agent)
        there = brain.store.get(scope, [memory.id for memory, _ in own])
        again = consolidation.made_anew(_feed(brain.store, scope))
        lost = [
            Entry(memory, merge_key=merge_key(memory), events=events)
            for (memory, events), known in zip(own, there, strict=True)
            if known is None and consolidation.made_by(memory) not in again
        ]
        for some in batched(lost, BATCH):
            brain.store.add(scope, brain.embed(some)[0])
        back += len(lost)
    return back


def evaluate(
    brain: Engram,
    agents: Sequence[str],
    *,
    since: datetime | None = None,
    until: datetime | None = None,
    period: Period = "week",
) -> EvaluationReport:
    """How well memory serves these agents together, period by period, and whether that drifts."""
    scopes = [Scope(agent) for agent in agents]
    return evaluation.evaluate(brain.store, scopes, since=since, until=until, period=period)


def write_archive(
    path: Path, gone: Iterable[tuple[FadedMemory, Memory]], told: Callable[[Memory], Sequence[Event]] = lambda _: ()
) -> None:
    """Write memories and their events to a new file, a JSON object a line; it is on disk in full, or not at all."""
    archives.write(path, (archives.make_line(memory, fading.reason, told(memory)) for fading, memory in gone))


def _told_of(brain: Engram, memory: Memory) -> list[Event]:
    """What goes with a memory and must come back with it, such as what it was made of."""
    return brain.store.events_of(Scope(memory.agent), [memory.id])


def _fading(brain: Engram, agent: str, limits: ForgettingLimits) -> tuple[ForgettingReport, list[Memory]]:
    scope, store = Scope(agent), brain.store
    memories = _all(brain, scope)
    credits = store.credits(scope, MOST_CREDITS)
    events = _feed(store, scope)
    made = consolidation.standing(events)
    cited = set[str]().union(*made.values())
    learned = {event.subject for event in events if event.kind != consolidation.CONSOLIDATED}
    learned |= {id for pattern in brain.agent(agent).learning.failures(quiet=True) for id in pattern.episodes}
    fade = partial(forgetting_curve.fade, credits=credits, now=brain.sources.now(), limits=limits, learned=learned)
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


def _all(brain: Engram, scope: Scope) -> list[Memory]:
    """Every memory of an agent, also those that are no longer valid."""
    found, offset = list[Memory](), 0
    while ids := [m.id for m in brain.store.search(scope, Query(where=Filter(), limit=PAGE, offset=offset))]:
        found += [memory for memory in brain.store.get(scope, ids) if memory is not None]
        offset += len(ids)
    return list({memory.id: memory for memory in found}.values())


def _feed(store: KeepsEvents, scope: Scope) -> list[Event]:
    found, after = list[Event](), 0
    while events := store.events_after(scope, after, PAGE):
        found += events
        after = events[-1].seq
    return found


def _desk(brain: Engram, agent: str) -> Desk:
    require(brain.store, KeepsEvents, "consolidation")
    require(brain.store, Annotates, "consolidation")
    return Desk(brain.store, Scope(agent), brain.redactor, brain.sources, brain.embed)
