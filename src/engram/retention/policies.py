"""Memories that go by themselves: policies say which, holds say which not, and a run reports what went.

A run keeps no state: stopped at any moment, the next one goes on with what is left.
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
from engram.memories import holds
from engram.memories.episodic import OUTCOME
from engram.memories.forgetting_curve import PINNED, Told, strength, told_of
from engram.memories.holds import Keeping
from engram.model import Memory, MemoryType
from engram.model.memory import describe_error
from engram.model.retention import ErasureReceipt, LegalHold, Retained, RetentionPolicy, RetentionReport
from engram.ports import AuditAction, KeepsAudit, Scope, acting
from engram.privacy import refuse_secret
from engram.recording.draft import handle
from engram.retention import archive as archives
from engram.retention import erasure

if TYPE_CHECKING:
    from engram.engine import Engram


LAST = "forgetting:retention"
"""The setting that says when policies last ran."""
PAGE = 200
MOST_CREDITS = 100_000
GOOD, BAD = 0.75, 0.25
"""Above the one it went well, below the other badly; in between, partly well."""
HELD, IS_PINNED, NEEDED = "held", "pinned", "something that is pinned or held rests on it"
Progress = Callable[[int, int], None]


class Retention:
    """The policies and holds of one database, and what they do."""

    def __init__(self, brain: Engram) -> None:
        self._brain = brain
        self._keeping = Keeping(brain.store, brain.sources, brain.clean)

    def policies(self) -> list[RetentionPolicy]:
        """The policies in force, in the order in which they run."""
        return holds.policies(self._brain.store)

    def set(self, /, name: str, **fields: Any) -> RetentionPolicy:
        """Set a policy, instead of the one of this name; `fields` are those of `RetentionPolicy`."""
        if not isinstance(name, str) or not name.strip():
            raise InvalidInput("a policy needs a name")
        self._refuse_secrets(fields.get("agent"))
        try:
            return self._keeping.set(RetentionPolicy(name=self._brain.clean(name.strip()), **fields))
        except ValidationError as error:
            raise InvalidInput(describe_error(error)) from None

    def remove(self, name: str) -> RetentionPolicy:
        """Give a policy up. Raises `NotFound`."""
        return self._keeping.remove(self._brain.clean(name.strip()))

    def holds(self) -> list[LegalHold]:
        """The holds in force, oldest first."""
        return holds.held(self._brain.store)

    def hold(
        self,
        reason: str,
        *,
        agent: str | None = None,
        memories: Sequence[str] = (),
        tags: Sequence[str] = (),
        sessions: Sequence[str] = (),
    ) -> LegalHold:
        """Keep all memories of an agent, or those that are named, whoever wants to forget them."""
        self._refuse_secrets(agent, memories)
        named = [handle(self._brain.redactor, session).text for session in sessions]
        return self._keeping.hold(reason, agent=agent, memories=memories, tags=tags, sessions=named)

    def _refuse_secrets(self, agent: object, memories: Sequence[str] = ()) -> None:
        """What is looked for as it is cannot be redacted."""
        if isinstance(agent, str):
            refuse_secret(self._brain.redactor, agent, "this agent's name")
        for id in (each for each in memories if isinstance(each, str)):
            refuse_secret(self._brain.redactor, id, "the id of a memory")

    def release(self, id: str) -> LegalHold:
        """End a hold. Raises `NotFound`."""
        return self._keeping.release(id)

    def run(
        self,
        archive: Path | None = None,
        *,
        agents: Iterable[str] | None = None,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> RetentionReport:
        """Let go of what fulfils a policy, of these agents or of all; what is pinned or held stays.

        `archive` is where a policy that archives writes, in a new file. Raises `Conflict` if there is one already.
        """
        brain, kept, gone = self._brain, Counter[str](), list[Retained]()
        policies = self.policies()
        if not dry_run and policies:
            # A commit, with which the store writes what was recalled until now.
            brain.store.set_setting(LAST, brain.sources.now().isoformat())
        if archive is not None and archive.exists():
            raise Conflict(f"there is a file at {archive} already; name another one")
        names = list(brain.agents() if agents is None else agents)
        boxes = list[_Box]()
        for number, agent in enumerate(names, 1):
            own = [policy for policy in policies if policy.agent in {None, agent}]
            desk = _Desk(brain, Scope(agent), kept, dry_run=dry_run)
            for policy in own:
                chosen = desk.chosen(policy)
                if policy.action == "forget":
                    gone += desk.forget(policy, chosen)
                elif chosen:
                    boxes.append(_Box(desk, policy, chosen))
            if progress is not None:
                progress(number, len(names))
        with acting(""):
            gone += _archive(brain, boxes, archive, dry_run=dry_run)
        if not dry_run:
            erasure.scrubbed(brain.store)  # also of what went before, while somebody read the log
        if gone and not dry_run:
            _note(brain, gone)
        written = str(archive) if archive is not None and archive.exists() else None
        return RetentionReport(dry_run=dry_run, gone=tuple(gone), kept=dict(sorted(kept.items())), archive=written)

    def erase(self, agent: str, progress: Progress | None = None) -> ErasureReceipt:
        """Delete everything of an agent; the audit trail keeps that it happened. Stopped in between, call it again.

        Raises `NotFound` for an agent that has nothing, `NotAllowed` if something of it is held, and `Conflict` if the
        folder of its files serves another database, too.
        """
        return erasure.erase(self._brain, agent, progress)


@dataclass
class _Desk:
    """Where the memories of one agent are looked at."""

    brain: Engram
    scope: Scope
    kept: Counter[str]
    dry_run: bool
    memories: dict[str, Memory] = field(default_factory=dict)
    told: Mapping[str, list[Told]] = field(default_factory=dict)
    foreseen: set[tuple[str, str]] = field(default_factory=set)
    """What has gone as far as a dry run is concerned."""

    def chosen(self, policy: RetentionPolicy) -> list[Memory]:
        """What fulfils a policy and is neither pinned nor held."""
        if not self.memories:
            self._read()
        now, held = self.brain.sources.now(), holds.held(self.brain.store)
        found = []
        for memory in self.memories.values():
            if not fulfils(memory, policy, self.told.get(memory.id, ()), now):
                continue
            if is_pinned(memory):
                self.kept[IS_PINNED] += 1
            elif holds.covering(held, self.scope.agent, memory):
                self.kept[HELD] += 1
            else:
                found.append(memory)
        return found

    def _read(self) -> None:
        store, learning = self.brain.store, self.brain.agent(self.scope.agent).learning
        self.told = told_of(store.credits(self.scope, MOST_CREDITS))
        self.memories = {memory.id: memory for memory in learning.up_to_date(list(erasure.every(store, self.scope)))}

    def forget(self, policy: RetentionPolicy, chosen: Sequence[Memory]) -> list[Retained]:
        """Forget what was chosen, unless that would take something along that is pinned or held."""
        count, removed = 0, Counter[str]()
        for first in range(0, len(chosen), PAGE):
            ids = [memory.id for memory in chosen[first : first + PAGE] if memory.id in self.memories]
            while needed := erasure.protected(self.brain, self.scope, ids, is_pinned):
                ids = [id for id in ids if id not in needed]
                self.kept[NEEDED] += len(needed)
            if self.dry_run:
                removed.update(self._foresee(ids))
                count += len(ids)
                continue
            with acting(""):  # a policy is the word of whoever looks after the database
                receipts = erasure.forget(self.brain, self.scope, ids, scrub=False)
            count += sum(receipt.forgotten for receipt in receipts)
            for receipt in receipts:
                removed.update({name: number for name, number in receipt.removed.items() if number})
            self._drop(ids)
        if not count:
            return []
        agent, action = self.scope.agent, policy.action
        return [Retained(policy=policy.name, agent=agent, action=action, memories=count, removed=dict(removed))]

    def _foresee(self, ids: Sequence[str]) -> Counter[str]:
        """What would go along with some memories, and has not gone with others yet; it counts as gone from then on."""
        found = erasure.foreseen(self.brain, self.scope, ids)
        along = Counter(place for key, place in found.items() if key not in self.foreseen and place != "memories")
        self.foreseen |= found.keys()
        self.memories = {id: own for id, own in self.memories.items() if (self.scope.agent, id) not in found}
        return along

    def _drop(self, ids: Iterable[str]) -> None:
        for id in ids:
            self.memories.pop(id, None)
        there = self.brain.store.get(self.scope, list(self.memories))  # what was derived went along
        self.memories = {memory.id: self.memories[memory.id] for memory in there if memory is not None}


@dataclass(frozen=True)
class _Box:
    """What one policy archives of one agent."""

    desk: _Desk
    policy: RetentionPolicy
    memories: Sequence[Memory]


def _archive(brain: Engram, boxes: Sequence[_Box], archive: Path | None, *, dry_run: bool) -> list[Retained]:
    """Write all boxes to one file, then let go of what is in it and has not changed meanwhile."""
    store, gone, lines = brain.store, list[Retained](), list[dict[str, Any]]()
    packed = list[tuple[_Box, list[Memory]]]()
    seen = set[tuple[str, str]]()
    for box in boxes:
        scope = box.desk.scope
        left = [memory.id for memory in box.memories if memory.id in box.desk.memories]  # some may have gone since
        fresh = [id for id in left if (scope.agent, id) not in seen]
        seen |= {(scope.agent, id) for id in fresh}
        there = [memory for memory in store.get(scope, fresh) if memory is not None]
        packed.append((box, there))
        for memory in there if not dry_run else ():
            events = store.events_of(scope, [memory.id])
            lines.append(archives.line_of(memory, f"policy {box.policy.name}", events))
    if lines:
        if archive is None:
            raise InvalidInput("a policy archives memories; say where to keep them")
        archives.note(store, archive)
        archives.write(archive, lines)
    for box, there in packed:
        scope = box.desk.scope
        now = [] if dry_run else store.get(scope, [memory.id for memory in there])
        same = [memory.id for memory, known in zip(there, now, strict=False) if memory == known]
        count = len(there) if dry_run else sum(each.forgotten for each in erasure.set_aside(brain, scope, same))
        if count:
            name, action = box.policy.name, box.policy.action
            gone.append(Retained(policy=name, agent=scope.agent, action=action, memories=count))
    return gone


def fulfils(memory: Memory, policy: RetentionPolicy, told: Sequence[Told], now: datetime) -> bool:
    """Whether a memory is all that a policy says."""
    return (
        (not policy.kinds or memory.kind in policy.kinds)
        and {*policy.tags} <= {*memory.tags}
        and (policy.older_than is None or now - memory.created_at > policy.older_than)
        and (policy.outcome is None or went(memory) == policy.outcome)
        and (policy.weaker_than is None or strength(memory, told, now).value < policy.weaker_than)
    )


def went(memory: Memory) -> str | None:
    """How what is remembered went; `None` if nobody has said."""
    said = memory.metadata.get(OUTCOME)
    quality = memory.success_rate
    if quality is None and isinstance(said, int | float) and not isinstance(said, bool):
        quality = float(said)
    if quality is None:
        return {MemoryType.FAILURE: "failure", MemoryType.SUCCESS: "success"}.get(memory.kind)
    return "success" if quality > GOOD else "failure" if quality < BAD else "partial"


def is_pinned(memory: Memory) -> bool:
    """Whether a memory stays whatever a policy says: by the tag `pinned`, or an importance of 1."""
    return memory.importance >= 1 or any(tag.lower() == PINNED for tag in memory.tags)


def _note(brain: Engram, gone: Sequence[Retained]) -> None:
    if isinstance(brain.store, KeepsAudit):
        counts = Counter[str]()
        for each in gone:
            counts[each.policy] += each.memories
        brain.store.note(
            [AuditAction("retention", count=counts.total(), detail={"policies": dict(sorted(counts.items()))})]
        )
