"""Run retention policies: delete or archive the memories that match, except pinned and held ones.

A run keeps no state: after an interruption, the next run continues with the remaining memories.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from engram.errors import Conflict, InvalidInput
from engram.learning.events import with_latest_outcomes
from engram.memories import holds
from engram.memories.episodic import OUTCOME
from engram.memories.forgetting_curve import PINNED, CreditShare, credits_by_memory, strength
from engram.memories.holds import RetentionLog
from engram.model import Memory, MemoryType
from engram.model.memory import describe_error
from engram.model.retention import ErasureReceipt, LegalHold, Retained, RetentionPolicy, RetentionReport
from engram.ports import AuditAction, KeepsAudit, Scope, acting
from engram.privacy import refuse_secret
from engram.recording.input import handle
from engram.retention import archive as archives
from engram.retention import erasure

if TYPE_CHECKING:
    from engram.engine import Engram


LAST_RUN = "forgetting:retention"
"""Setting with the time of the last run."""
PAGE = 200
MOST_CREDITS = 100_000
GOOD, BAD = 0.75, 0.25
"""Thresholds of the outcome quality for success and failure; in between is partial."""
HELD, IS_PINNED, NEEDED = "held", "pinned", "something that is pinned or held rests on it"
Progress = Callable[[int, int], None]


class Retention:
    """The retention policies and legal holds of a database."""

    def __init__(self, brain: Engram) -> None:
        self._brain = brain
        self._log = RetentionLog(brain.store, brain.sources, brain.clean)

    def policies(self) -> list[RetentionPolicy]:
        """The policies in force, in the order in which they run."""
        return holds.policies(self._brain.store)

    def set(self, /, name: str, **fields: Any) -> RetentionPolicy:
        """Set a policy, replacing one of the same name; `fields` are those of `RetentionPolicy`."""
        if not isinstance(name, str) or not name.strip():
            raise InvalidInput("a policy needs a name")
        self._refuse_secrets(fields.get("agent"))
        try:
            return self._log.set(RetentionPolicy(name=self._brain.clean(name.strip()), **fields))
        except ValidationError as error:
            raise InvalidInput(describe_error(error)) from None

    def remove(self, name: str) -> RetentionPolicy:
        """Remove a policy. Raises `NotFound`."""
        return self._log.remove(self._brain.clean(name.strip()))

    def holds(self) -> list[LegalHold]:
        """The holds in force, oldest first."""
        return holds.active_holds(self._brain.store)

    def hold(
        self,
        reason: str,
        *,
        agent: str | None = None,
        memories: Sequence[str] = (),
        tags: Sequence[str] = (),
        sessions: Sequence[str] = (),
    ) -> LegalHold:
        """Forbid the deletion of an agent's memories, or of the named ones."""
        self._refuse_secrets(agent, memories)
        named = [handle(self._brain.redactor, session).text for session in sessions]
        return self._log.hold(reason, agent=agent, memories=memories, tags=tags, sessions=named)

    def _refuse_secrets(self, agent: object, memories: Sequence[str] = ()) -> None:
        """Refuse names and ids that contain a secret, since they are stored unredacted."""
        if isinstance(agent, str):
            refuse_secret(self._brain.redactor, agent, "this agent's name")
        for id in (each for each in memories if isinstance(each, str)):
            refuse_secret(self._brain.redactor, id, "the id of a memory")

    def release(self, id: str) -> LegalHold:
        """End a hold. Raises `NotFound`."""
        return self._log.release(id)

    def run(
        self,
        archive: Path | None = None,
        *,
        agents: Iterable[str] | None = None,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> RetentionReport:
        """Delete or archive the memories that match a policy, for some agents or all; pinned and held ones are kept.

        `archive` is the new file for archiving policies. Raises `Conflict` if it exists.
        """
        brain, kept, gone = self._brain, Counter[str](), list[Retained]()
        policies = self.policies()
        if not dry_run and policies:
            # This commit also writes pending recall statistics.
            brain.store.set_setting(LAST_RUN, brain.sources.now().isoformat())
        if archive is not None and archive.exists():
            raise Conflict(f"there is already a file at {archive}; give another name")
        names = list(brain.agents() if agents is None else agents)
        batches = list[_ArchiveBatch]()
        for number, agent in enumerate(names, 1):
            own = [policy for policy in policies if policy.agent in {None, agent}]
            run = _AgentRun(brain, Scope(agent), kept, dry_run=dry_run)
            for policy in own:
                chosen = run.matching(policy)
                if policy.action == "forget":
                    gone += run.forget(policy, chosen)
                elif chosen:
                    batches.append(_ArchiveBatch(run, policy, chosen))
            if progress is not None:
                progress(number, len(names))
        with acting(""):
            gone += _archive(brain, batches, archive, dry_run=dry_run)
        if not dry_run:
            erasure.scrub_store(brain.store)  # also earlier deletions, if a reader prevented it then
        if gone and not dry_run:
            _audit_run(brain, gone)
        written = str(archive) if archive is not None and archive.exists() else None
        return RetentionReport(dry_run=dry_run, gone=tuple(gone), kept=dict(sorted(kept.items())), archive=written)

    def erase(self, agent: str, progress: Progress | None = None) -> ErasureReceipt:
        """Delete everything of an agent; the audit trail keeps that it happened. Stopped in between, call it again.

        Raises `NotFound` for an agent that has nothing, `NotAllowed` if something of it is held, and `Conflict` if the
        folder of its files serves another database, too.
        """
        return erasure.erase(self._brain, agent, progress)


@dataclass
class _AgentRun:
    """The run of the policies for one agent."""

    brain: Engram
    scope: Scope
    kept: Counter[str]
    dry_run: bool
    memories: dict[str, Memory] = field(default_factory=dict)
    told: Mapping[str, list[CreditShare]] = field(default_factory=dict)
    previewed: set[tuple[str, str]] = field(default_factory=set)
    """Memories that a dry run has counted as deleted."""

    def matching(self, policy: RetentionPolicy) -> list[Memory]:
        """Return the memories that match a policy and are neither pinned nor held."""
        if not self.memories:
            self._read()
        now, held = self.brain.sources.now(), holds.active_holds(self.brain.store)
        found = []
        for memory in self.memories.values():
            if not matches_policy(memory, policy, self.told.get(memory.id, ()), now):
                continue
            if is_pinned(memory):
                self.kept[IS_PINNED] += 1
            elif holds.find_hold(held, self.scope.agent, memory):
                self.kept[HELD] += 1
            else:
                found.append(memory)
        return found

    def _read(self) -> None:
        store = self.brain.store
        self.told = credits_by_memory(store.credits(self.scope, MOST_CREDITS))
        self.memories = {
            memory.id: memory
            for memory in with_latest_outcomes(store, self.scope, list(erasure.iter_memories(store, self.scope)))
        }

    def forget(self, policy: RetentionPolicy, chosen: Sequence[Memory]) -> list[Retained]:
        """Delete memories, except those whose deletion would also delete a pinned or held one."""
        count, removed = 0, Counter[str]()
        for first in range(0, len(chosen), PAGE):
            ids = [memory.id for memory in chosen[first : first + PAGE] if memory.id in self.memories]
            while needed := erasure.blocked(self.brain, self.scope, ids, is_pinned):
                ids = [id for id in ids if id not in needed]
                self.kept[NEEDED] += len(needed)
            if self.dry_run:
                removed.update(self._preview(ids))
                count += len(ids)
                continue
            with acting(""):  # a policy acts for the operator of the database
                receipts = erasure.forget(self.brain, self.scope, ids, scrub=False)
            count += sum(receipt.forgotten for receipt in receipts)
            for receipt in receipts:
                removed.update({name: number for name, number in receipt.removed.items() if number})
            self._remove_deleted(ids)
        if not count:
            return []
        agent, action = self.scope.agent, policy.action
        return [Retained(policy=policy.name, agent=agent, action=action, memories=count, removed=dict(removed))]

    def _preview(self, ids: Sequence[str]) -> Counter[str]:
        """Count what would be deleted with some memories and was not counted before."""
        found = erasure.preview_deletion(self.brain, self.scope, ids)
        along = Counter(place for key, place in found.items() if key not in self.previewed and place != "memories")
        self.previewed |= found.keys()
        self.memories = {id: own for id, own in self.memories.items() if (self.scope.agent, id) not in found}
        return along

    def _remove_deleted(self, ids: Iterable[str]) -> None:
        for id in ids:
            self.memories.pop(id, None)
        there = self.brain.store.get(self.scope, list(self.memories))  # derived memories were deleted, too
        self.memories = {memory.id: self.memories[memory.id] for memory in there if memory is not None}


@dataclass(frozen=True)
class _ArchiveBatch:
    """The memories of one agent to archive under one policy."""

    run: _AgentRun
    policy: RetentionPolicy
    memories: Sequence[Memory]


def _archive(brain: Engram, batches: Sequence[_ArchiveBatch], archive: Path | None, *, dry_run: bool) -> list[Retained]:
    """Write all batches to one file, then delete the archived memories that have not changed meanwhile."""
    store, gone, lines = brain.store, list[Retained](), list[dict[str, Any]]()
    packed = list[tuple[_ArchiveBatch, list[Memory]]]()
    seen = set[tuple[str, str]]()
    for batch in batches:
        scope = batch.run.scope
        left = [
            memory.id for memory in batch.memories if memory.id in batch.run.memories
        ]  # some may have been deleted since
        fresh = [id for id in left if (scope.agent, id) not in seen]
        seen |= {(scope.agent, id) for id in fresh}
        there = [memory for memory in store.get(scope, fresh) if memory is not None]
        packed.append((batch, there))
        for memory in there if not dry_run else ():
            events = store.events_of(scope, [memory.id])
            lines.append(archives.make_line(memory, f"policy {batch.policy.name}", events))
    if lines:
        if archive is None:
            raise InvalidInput("a policy archives memories; give a file for them")
        archives.register(store, archive)
        archives.write(archive, lines)
    for batch, there in packed:
        scope = batch.run.scope
        now = [] if dry_run else store.get(scope, [memory.id for memory in there])
        same = [memory.id for memory, known in zip(there, now, strict=False) if memory == known]
        count = len(there) if dry_run else sum(each.forgotten for each in erasure.remove_archived(brain, scope, same))
        if count:
            name, action = batch.policy.name, batch.policy.action
            gone.append(Retained(policy=name, agent=scope.agent, action=action, memories=count))
    return gone


def matches_policy(memory: Memory, policy: RetentionPolicy, told: Sequence[CreditShare], now: datetime) -> bool:
    """Return true if a memory meets all conditions of a policy."""
    return (
        (not policy.kinds or memory.kind in policy.kinds)
        and {*policy.tags} <= {*memory.tags}
        and (policy.older_than is None or now - memory.created_at > policy.older_than)
        and (policy.outcome is None or outcome_of(memory) == policy.outcome)
        and (policy.weaker_than is None or strength(memory, told, now).value < policy.weaker_than)
    )


def outcome_of(memory: Memory) -> str | None:
    """Return the outcome recorded in a memory as a word, or `None`."""
    said = memory.metadata.get(OUTCOME)
    quality = memory.success_rate
    if quality is None and isinstance(said, int | float) and not isinstance(said, bool):
        quality = float(said)
    if quality is None:
        return {MemoryType.FAILURE: "failure", MemoryType.SUCCESS: "success"}.get(memory.kind)
    return "success" if quality > GOOD else "failure" if quality < BAD else "partial"


def is_pinned(memory: Memory) -> bool:
    """Return true if a memory is exempt from policies: tagged `pinned`, or of importance 1."""
    return memory.importance >= 1 or any(tag.lower() == PINNED for tag in memory.tags)


def _audit_run(brain: Engram, gone: Sequence[Retained]) -> None:
    if isinstance(brain.store, KeepsAudit):
        counts = Counter[str]()
        for each in gone:
            counts[each.policy] += each.memories
        brain.store.note(
            [AuditAction("retention", count=counts.total(), detail={"policies": dict(sorted(counts.items()))})]
        )
