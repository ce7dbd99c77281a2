"""What one agent hands over, and what it takes in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import JsonValue, ValidationError

from engram.errors import InvalidInput, NotAllowed
from engram.learning import events as happened
from engram.model import FailurePattern, Memory, describe_error
from engram.model.bundle import (
    Carried,
    CarriedEvent,
    CarriedMemory,
    CarriedPattern,
    CarriedRate,
    FileSource,
    Hand,
    Incoming,
    Lineage,
    carried_memory,
)
from engram.model.grant import Right, Subject
from engram.model.transfer import ExportReport, ImportReport
from engram.ports import Deed, Event, KeepsAudit, KeepsEvents, KeepsSettings, Query, Scope, Store
from engram.ports.completed import require
from engram.recording.quarantine import apart
from engram.sharing.ledger import subject_of
from engram.sharing.lenders import INSTALLATION, Lender
from engram.system import batched
from engram.transfer import bundle, importers
from engram.transfer.bundle import Form, Holder
from engram.transfer.importing import BATCH, COUNTED, REASONS, Annex, Arrival, Desk, annexing, foreign
from engram.transfer.signing import PrivateKey, PublicKey
from engram.transfer.untrusted import LIMITS, beginning, is_folder

if TYPE_CHECKING:
    from engram.engine import AgentHandle, Engram


MOST = 1_000_000
NOT_SHARED_ON = "others lent it without the right to share it on"
CAME_IN = "it came in by an import or a merge"
SET_APART = "it is set apart for review"
SIGNED_BY = " signed by "
"""What stands in the name of a source between whose it is and the key that vouches for it."""
CARRIED = frozenset({happened.DECISION, happened.OUTCOME, happened.FAILURE, happened.SOLUTION})
Progress = Callable[[int, int], None]


def installation(brain: Engram) -> str:
    """The name of this database; made at the first need."""
    store = _naming(brain)
    if (known := store.setting(INSTALLATION)) is None:
        known = brain.sources.new_id()
        store.set_setting(INSTALLATION, known)
    return known


def _provisional(brain: Engram) -> str:
    """The name of this database, or one that it could get."""
    return _naming(brain).setting(INSTALLATION) or brain.sources.new_id()


def _naming(brain: Engram) -> KeepsSettings:
    require(brain.store, KeepsSettings, "signing knowledge")
    return brain.store


class Knowledge:
    """Handing one agent's knowledge over, and taking in that of others."""

    def __init__(self, brain: Engram, agent: AgentHandle) -> None:
        require(brain.store, KeepsEvents, "exporting knowledge")
        self._brain = brain
        self._agent = agent
        self._scope = Scope(agent.name)
        self._store = brain.store
        self._events: KeepsEvents = brain.store

    # Out -----------------------------------------------------------------------------------------------

    def export(
        self,
        to: Path,
        *,
        domains: Iterable[str] = (),
        tags: Iterable[str] = (),
        form: Form = "json",
        sign: PrivateKey | None = None,
        progress: Progress | None = None,
    ) -> ExportReport:
        """Write what this agent knows, all of it or of some domains and tags, to a file.

        What others lent goes along only if they allow to share it on. Vectors, keys and what was asked never do.
        """
        chosen, wanted = tuple(map(self._brain.clean, domains)), tuple(map(self._brain.clean, tags))
        subject = subject_of(domains=chosen, tags=wanted, everything=not chosen and not wanted)
        counted: Counter[str] = Counter()
        try:
            source = FileSource(
                agent=self._agent.name,
                installation=installation(self._brain),
                made_at=self._brain.sources.now(),
                domain=chosen[0] if len(chosen) == 1 else None,
                tags=wanted if len(chosen) == 1 else (*chosen, *wanted),
                program="engram",
            )
        except ValidationError as error:
            raise InvalidInput(describe_error(error)) from None
        own = self._brain.sharing.about(self._scope, subject, named=True)
        readable = {lender.id for lender in self._brain.sharing.lenders(self._scope, Right.READ)}
        lenders = [
            lender
            for lender in self._brain.sharing.lenders(self._scope, Right.RESHARE)
            if lender.id in readable  # what may not be read is not written to a file
            and lender.grants
            and lender.scope.agent == lender.name  # no copies, and nothing that came by a file
        ]
        lent, known = dict[str, list[str]](), set(self._ids(self._scope, own))
        for lender in lenders:  # each memory once, by however many grants it is lent
            lent[lender.id] = [id for id in self._lent(lender, subject) if id not in known]
            known.update(lent[lender.id])
        total = len(own) if own is not None else len(self._store.search(self._scope, Query(limit=MOST)))
        records = chain(
            self._memories(self._ids(self._scope, own), counted, progress, total),
            *(self._lent_memories(lender, lent[lender.id], source, counted) for lender in lenders),
            self._happened(self._ids(self._scope, own), counted),
            *(self._lent_events(lender, lent[lender.id], source, counted) for lender in lenders),
            self._patterns(own, counted),
            self._rates(own, counted),
        )
        end = bundle.save(source, records, to, form, sign)
        for lender in lenders:
            self._brain.sharing.used(self._scope, lender, "export", len(lent[lender.id]), lent[lender.id])
        self._note("export", counted["memories"], {"digest": end.digest})
        return ExportReport(
            file=str(to),
            memories=counted["memories"],
            lent=counted["lent"],
            events=counted["events"],
            patterns=counted["patterns"],
            signed_by=None if end.signature is None else end.signature.key,
            left_out=self._left_out(subject, {id for ids in lent.values() for id in ids}),
        )

    def _left_out(self, subject: Subject, lent: set[str]) -> dict[str, int]:
        """What the agent can read or learn from and may not hand over, by the reason; each memory counts once."""
        sharing, store = self._brain.sharing, self._store
        found: dict[str, set[str]] = {SET_APART: set(self._chosen(store, apart(self._scope), subject))}
        lenders = [each for right in (Right.READ, Right.LEARN) for each in sharing.lenders(self._scope, right)]
        for lender in lenders:
            direct = lender.grants and lender.scope.agent == lender.name
            ids = found.setdefault(NOT_SHARED_ON if direct else CAME_IN, set())
            ids.update(self._chosen(lender.store, lender.scope, subject))
        found.get(CAME_IN, set()).difference_update(lent | found.get(NOT_SHARED_ON, set()))
        found.get(NOT_SHARED_ON, set()).difference_update(lent)
        return {reason: len(ids) for reason, ids in sorted(found.items()) if ids}

    def _ids(self, scope: Scope, chosen: Iterable[str] | None) -> list[str]:
        found = [match.id for match in self._store.search(scope, Query(limit=MOST))]
        return found if chosen is None else [id for id in found if id in set(chosen)]

    def _memories(
        self, ids: list[str], counted: Counter[str], progress: Progress | None, total: int
    ) -> Iterator[Carried]:
        for some in batched(ids, BATCH):
            for memory in self._store.get(self._scope, some):
                if memory is not None:
                    counted["memories"] += 1
                    yield carried_memory(memory)
            if progress is not None:
                progress(counted["memories"], max(total, counted["memories"]))

    def _happened(self, ids: list[str], counted: Counter[str]) -> Iterator[Carried]:
        for some in batched(ids, BATCH):
            for event in self._events.events_of(self._scope, some):
                if event.kind in CARRIED:
                    counted["events"] += 1
                    yield bundle.carried_event(event)

    def _lent(self, lender: Lender, subject: Subject) -> list[str]:
        return self._chosen(lender.store, lender.scope, subject)

    def _chosen(self, store: Store, scope: Scope, subject: Subject) -> list[str]:
        """The memories of a scope that a subject names, of those that a store shows."""
        chosen = self._brain.sharing.about(scope, subject, named=True)
        ids = [match.id for match in store.search(scope, Query(limit=MOST))]
        return ids if chosen is None else [id for id in ids if id in chosen]

    def _handed(self, lender: Lender, id: str, source: FileSource) -> Lineage:
        """Where something that was lent began, and that it went through this agent's hands."""
        hand = Hand(agent=source.agent, installation=source.installation, at=source.made_at, grant=lender.grants[0].id)
        return Lineage(agent=lender.name, installation=source.installation, id=id, hands=(hand,))

    def _lent_memories(
        self, lender: Lender, ids: list[str], source: FileSource, counted: Counter[str]
    ) -> Iterator[Carried]:
        for memory in lender.store.get(lender.scope, ids):
            if memory is not None:
                counted["memories"] += 1
                counted["lent"] += 1
                yield carried_memory(memory, self._handed(lender, memory.id, source))

    def _lent_events(
        self, lender: Lender, ids: list[str], source: FileSource, counted: Counter[str]
    ) -> Iterator[Carried]:
        for event in lender.store.events_of(lender.scope, ids):
            if event.kind in CARRIED:
                counted["events"] += 1
                yield bundle.carried_event(_known_to(event, ids), self._handed(lender, event.id, source))

    def _patterns(self, ids: frozenset[str] | None, counted: Counter[str]) -> Iterator[Carried]:
        learning = self._agent.learning
        for failure in learning.failures(quiet=True):
            if ids is None or ids >= set(failure.episodes):
                counted["patterns"] += 1
                yield CarriedPattern(
                    kind="failure",
                    id=failure.pattern_id,
                    name=failure.name,
                    evidence=failure.occurrence_count,
                    detail=_failure_detail(failure),
                )
        synthesis = learning.synthesis()
        for success in synthesis.patterns:
            if ids is None or ids >= {*success.episodes, *success.contrast.failures}:
                counted["patterns"] += 1
                yield CarriedPattern(
                    kind="success",
                    id=success.pattern_id,
                    name=success.name,
                    evidence=success.attempts,
                    detail={"context": success.context_signature, "approach": success.successful_approach},
                )

        for template in synthesis.templates:
            past = {each.episode for each in template.success_history}
            if ids is None or (ids >= past and len(past) == template.attempts):
                counted["patterns"] += 1
                yield CarriedPattern(
                    kind="template",
                    id=template.pattern_id,
                    name=template.context_signature,
                    evidence=template.attempts,
                    detail={"decision_tree": [each.model_dump(mode="json") for each in template.decision_tree]},
                )

    def _rates(self, ids: frozenset[str] | None, counted: Counter[str]) -> Iterator[Carried]:
        sums: dict[tuple[str, str], tuple[int, float]] = {}
        for episode in self._agent.learning.history():
            if ids is None or episode.id in ids:
                attempts, good = sums.get((episode.context, episode.action), (0, 0.0))
                sums[episode.context, episode.action] = (attempts + 1, good + episode.quality)
        for (context, action), (attempts, good) in sorted(sums.items()):
            counted["rates"] += 1
            yield CarriedRate(action=action, context=context, attempts=attempts, quality=round(good, 6))

    def _note(self, action: str, count: int, detail: dict[str, JsonValue], grant: str = "") -> None:
        if isinstance(self._store, KeepsAudit):
            who = self._scope.agent
            self._store.note([Deed(action, who, who, grant=grant, count=count, detail=detail)])

    # In ------------------------------------------------------------------------------------------------

    def take_in(
        self,
        file: Path,
        *,
        format: str | None = None,
        trusted: Mapping[str, PublicKey] | None = None,
        dry_run: bool = False,
        large: bool = False,
        progress: Progress | None = None,
    ) -> ImportReport:
        """Import a file: knowledge that Engram wrote, or what another program keeps. Doing it twice changes nothing.

        With `dry_run` it only says what would become of everything. What takes long to look at is refused unless
        `large` says that it may. Raises `InvalidInput` for a file that cannot be believed.
        """
        if format not in {None, "engram"} or (format is None and not _is_ours(file)):
            return self._from_others(file, format, dry_run=dry_run, large=large, progress=progress)
        receiver = self._receiver(dry_run)
        with bundle.reading(file, trusted=trusted, receiver=receiver) as found:
            if found.verification.status == "invalid":
                raise InvalidInput(
                    f"the signature of {file.name} is not right: {found.verification.reason}; nothing was imported"
                )
            signer = found.verification.key if found.verification.status == "valid" else None
            if signer is None and found.source.installation in (trusted or {}):
                raise InvalidInput(f"files of that source are signed, and {file.name} is not; nothing was imported")
            total = sum(found.counts.values())
            if not large and (total > LIMITS.usual_records or found.size > LIMITS.usual):
                raise _too_large()
            clean = self._brain.clean
            name = f"{clean(found.source.agent)}@{clean(found.source.installation)}"
            if signer is None and SIGNED_BY in name:
                raise InvalidInput(f"{file.name} calls itself signed, and is not; nothing was imported")
            name = name if signer is None else f"{name}{SIGNED_BY}{signer}"
            desk = annexing(self._brain, receiver, name, dry_run=dry_run)
            taking = Annex(desk, receiver, teller=found.source.agent, vouched=signer is not None)
            done = 0
            for some in batched(found.records(), BATCH):
                arrivals = [
                    Arrival(record, bundle.lineage(found.source, record), findings)
                    for record, findings in some
                    if isinstance(record, CarriedMemory)
                ]
                taking.memories(arrivals)
                for record, _ in some:
                    if isinstance(record, CarriedEvent):
                        taking.event(record)
                    elif isinstance(record, CarriedPattern):
                        taking.pattern(record)
                done += len(some)
                if progress is not None:
                    progress(done, total)
            taking.finish(signer=signer)
            if not dry_run:
                self._note("import", total, {"digest": found.end.digest, "stored": desk.counts["stored"]})
            return desk.report(name, verification=found.verification, findings=found.findings)

    def merge(
        self, from_agent: str, *, domains: Iterable[str] = (), tags: Iterable[str] = (), dry_run: bool = False
    ) -> ImportReport:
        """Copy what another agent here lets this one learn from into its annex, to keep as long as the grant stands.

        Raises `NotAllowed` if there is no such grant.
        """
        chosen, wanted = tuple(map(self._brain.clean, domains)), tuple(map(self._brain.clean, tags))
        subject = subject_of(domains=chosen, tags=wanted, everything=not chosen and not wanted)
        sharing = self._brain.sharing
        lenders = [
            each
            for each in sharing.lenders(self._scope, Right.LEARN)
            if each.grants and each.name == each.scope.agent == from_agent  # no copy of a copy
        ]
        if not lenders:
            raise NotAllowed(
                f"{from_agent!a} shares nothing with {self._agent.name!a} to learn from; ask for it: "
                f"engram grant request --agent {self._agent.name} --from {from_agent} --domain … --purpose …"
            )
        receiver = self._receiver(dry_run)
        reports, seen = [], set[str]()
        for lender in lenders:
            ids = [id for id in self._lent(lender, subject) if id not in seen]
            seen.update(ids)
            desk = annexing(self._brain, receiver, from_agent, grant=lender.id, dry_run=dry_run, suspects=False)
            taking = Annex(desk, receiver)
            for some in batched(ids, BATCH):
                taking.memories([self._arrival(memory, from_agent, receiver) for memory in _there(lender, some)])
            for some in batched(ids, BATCH):
                for event in lender.store.events_of(lender.scope, some):
                    taking.event(bundle.carried_event(event))
            for failure in lender.learning.failures():
                taking.pattern(
                    CarriedPattern(
                        kind="failure", id=failure.pattern_id, name=failure.name, detail=_failure_detail(failure)
                    )
                )
            taking.finish()
            if not dry_run:
                sharing.used(self._scope, lender, "merge", len(ids), ids)
                self._note("merge", len(ids), {"stored": desk.counts["stored"]}, lender.id)
            reports.append(desk.report(from_agent))
        return _summed(reports)

    def _receiver(self, dry_run: bool) -> Holder:
        """Who takes something in; a dry run in a database that has no name yet gives it none for good."""
        return Holder(self._agent.name, _provisional(self._brain) if dry_run else installation(self._brain))

    def _arrival(self, memory: Memory, author: str, receiver: Holder) -> Arrival:
        return Arrival(carried_memory(memory), Lineage(agent=author, installation=receiver.installation, id=memory.id))

    def _from_others(
        self, file: Path, format: str | None, *, dry_run: bool, large: bool, progress: Progress | None
    ) -> ImportReport:
        """What another program keeps becomes this agent's memories: imported, with low trust, and under a key each."""
        name = format or importers.detect(file)
        desk = Desk(self._brain, self._scope, self._scope, file.name, dry_run=dry_run)
        coming = importers.incoming(file, name)
        done = 0
        for some in batched(coming if large else _usual(coming), BATCH):
            foreign(desk, some)
            done += len(some)
            if progress is not None:
                progress(done, done)
        if not dry_run:
            self._note("import", done, {"format": name, "stored": desk.counts["stored"]})
        return desk.report(file.name, name)


def _usual(coming: Iterable[Incoming]) -> list[Incoming]:
    """All of it, read to its end before anything is stored. Raises `InvalidInput` if it is much."""
    found, size = list[Incoming](), 0
    for each in coming:
        size += len(each.model_dump_json())
        if len(found) >= LIMITS.usual_records or size > LIMITS.usual:
            raise _too_large()
        found.append(each)
    return found


def _too_large() -> InvalidInput:
    return InvalidInput(
        f"the file has more than {LIMITS.usual_records:,} records, or {LIMITS.usual:,} bytes; to look at "
        "all of it takes long: say that it is `large`, or split it. Nothing was imported"
    )


def _is_ours(file: Path) -> bool:
    """Whether a file begins as one that Engram wrote."""
    return not is_folder(file) and b"engram_knowledge" in beginning(file, 200)


def _failure_detail(failure: FailurePattern) -> dict[str, JsonValue]:
    """The parts of a failure pattern that its episodes do not tell: its checks, without their commands.

    A program is not handed over: nobody should run one because a file says so.
    """
    checks: list[JsonValue] = [
        {"name": check.name, "verify": check.verify, "stage": check.stage} for check in failure.prevention_checks
    ]
    detail: dict[str, JsonValue] = {"error_signature": failure.error_signature}
    return detail | {"checks": checks, "episodes": [*failure.episodes]} if checks else detail


def _known_to(event: Event, ids: Collection[str]) -> Event:
    """The same event, which names no memory but these."""
    told = {name: value for name, value in event.body.items() if name != "about" or value in ids}
    return replace(event, body=told)


def _there(lender: Lender, ids: Sequence[str]) -> list[Memory]:
    return [memory for memory in lender.store.get(lender.scope, ids) if memory is not None]


def _summed(reports: list[ImportReport]) -> ImportReport:
    sums = {name: sum(getattr(report, name) for report in reports) for name in COUNTED}
    reasons = tuple(dict.fromkeys(reason for report in reports for reason in report.reasons))
    return reports[0].model_copy(update={**sums, "reasons": reasons[:REASONS]})
