"""Export, import and merge the knowledge of an agent."""

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
from engram.ports import AuditAction, Event, KeepsAudit, KeepsEvents, KeepsSettings, Query, Scope, Store
from engram.ports.completed import require
from engram.recording.quarantine import apart
from engram.sharing.ledger import subject_of
from engram.sharing.lenders import INSTALLATION, Lender
from engram.system import batched
from engram.transfer import bundle, importers
from engram.transfer.bundle import Form, Holder
from engram.transfer.importing import (
    BATCH_SIZE,
    COUNTS,
    MAX_REASONS,
    ImportJob,
    IncomingRecord,
    SourceImporter,
    import_foreign,
    source_job,
)
from engram.transfer.signing import PrivateKey, PublicKey
from engram.transfer.untrusted import LIMITS, is_folder, read_start

if TYPE_CHECKING:
    from engram.engine import AgentHandle, Engram


MOST = 1_000_000
NO_RESHARE = "others lent it without the right to share it on"
IMPORTED = "it came in by an import or a merge"
QUARANTINED = "it is set apart for review"
SIGNED_BY = " signed by "
"""Separates the author from the signing key in the name of a source."""
EXPORTED_EVENTS = frozenset({happened.DECISION, happened.OUTCOME, happened.FAILURE, happened.SOLUTION})
Progress = Callable[[int, int], None]


def installation(brain: Engram) -> str:
    """Return the id of this database, which is created on first use."""
    store = _settings_store(brain)
    if (known := store.setting(INSTALLATION)) is None:
        known = brain.sources.new_id()
        store.set_setting(INSTALLATION, known)
    return known


def _installation_or_new(brain: Engram) -> str:
    """Return the id of this database, or a new one that is not stored."""
    return _settings_store(brain).setting(INSTALLATION) or brain.sources.new_id()


def _settings_store(brain: Engram) -> KeepsSettings:
    require(brain.store, KeepsSettings, "signing knowledge")
    return brain.store


class Knowledge:
    """Export one agent's knowledge, and import that of others."""

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
        """Export this agent's knowledge, or that of some domains and tags, to a file.

        Knowledge of other agents is included only with the right to pass it on. Vectors, keys and queries never are.
        """
        subject = self._subject(domains, tags)
        source, lenders = self._source(subject), self._exportable_lenders()
        counted: Counter[str] = Counter()
        own = self._brain._parts.sharing.covered_by(self._scope, subject, named=True)
        ids = self._ids(self._scope, own)
        shared, known = dict[str, list[str]](), set(ids)
        for lender in lenders:  # each memory once, even if several grants share it
            shared[lender.id] = [id for id in self._shared_ids(lender, subject) if id not in known]
            known.update(shared[lender.id])
        records = chain(
            self._memories(ids, counted, progress),
            *(self._shared_memories(lender, shared[lender.id], source, counted) for lender in lenders),
            self._own_events(ids, counted),
            *(self._shared_events(lender, shared[lender.id], source, counted) for lender in lenders),
            self._patterns(own, counted),
            self._rates(own, counted),
        )
        end = bundle.write_records(source, records, to, form, sign)
        for lender in lenders:
            self._brain._parts.sharing.log_use(self._scope, lender, "export", len(shared[lender.id]), shared[lender.id])
        self._note("export", counted["memories"], {"digest": end.digest})
        return ExportReport(
            file=str(to),
            memories=counted["memories"],
            lent=counted["lent"],
            events=counted["events"],
            patterns=counted["patterns"],
            signed_by=None if end.signature is None else end.signature.key,
            left_out=self._left_out(subject, {id for ids in shared.values() for id in ids}),
        )

    def _subject(self, domains: Iterable[str], tags: Iterable[str]) -> Subject:
        """Select the knowledge of some domains and tags, or everything if none are given."""
        chosen, wanted = tuple(map(self._brain.clean, domains)), tuple(map(self._brain.clean, tags))
        return subject_of(domains=chosen, tags=wanted, everything=not chosen and not wanted)

    def _source(self, subject: Subject) -> FileSource:
        """Describe this agent as the source of a file."""
        domains, tags = subject.domains, subject.tags
        try:
            return FileSource(
                agent=self._agent.name,
                installation=installation(self._brain),
                made_at=self._brain.sources.now(),
                domain=domains[0] if len(domains) == 1 else None,
                tags=tags if len(domains) == 1 else (*domains, *tags),
                program="engram",
            )
        except ValidationError as error:
            raise InvalidInput(describe_error(error)) from None

    def _exportable_lenders(self) -> list[Lender]:
        """Return the agents whose grants allow this one both to read their knowledge and to pass it on."""
        readable = {lender.id for lender in self._brain._parts.sharing.lenders(self._scope, Right.READ)}
        return [
            lender
            for lender in self._brain._parts.sharing.lenders(self._scope, Right.RESHARE)
            if lender.id in readable
            and lender.grants
            and lender.scope.agent == lender.name  # not imported and not a copy
        ]

    def _left_out(self, subject: Subject, lent: set[str]) -> dict[str, int]:
        """Count the knowledge that the agent can use but not export, by reason; each memory counts once."""
        sharing, store = self._brain._parts.sharing, self._store
        found: dict[str, set[str]] = {QUARANTINED: set(self._selected_ids(store, apart(self._scope), subject))}
        lenders = [each for right in (Right.READ, Right.LEARN) for each in sharing.lenders(self._scope, right)]
        for lender in lenders:
            direct = lender.grants and lender.scope.agent == lender.name
            ids = found.setdefault(NO_RESHARE if direct else IMPORTED, set())
            ids.update(self._selected_ids(lender.store, lender.scope, subject))
        found.get(IMPORTED, set()).difference_update(lent | found.get(NO_RESHARE, set()))
        found.get(NO_RESHARE, set()).difference_update(lent)
        return {reason: len(ids) for reason, ids in sorted(found.items()) if ids}

    def _ids(self, scope: Scope, chosen: Iterable[str] | None) -> list[str]:
        found = [match.id for match in self._store.search(scope, Query(limit=MOST))]
        return found if chosen is None else [id for id in found if id in set(chosen)]

    def _memories(self, ids: list[str], counted: Counter[str], progress: Progress | None) -> Iterator[Carried]:
        for some in batched(ids, BATCH_SIZE):
            for memory in self._store.get(self._scope, some):
                if memory is not None:
                    counted["memories"] += 1
                    yield carried_memory(memory)
            if progress is not None:
                progress(counted["memories"], max(len(ids), counted["memories"]))

    def _own_events(self, ids: list[str], counted: Counter[str]) -> Iterator[Carried]:
        for some in batched(ids, BATCH_SIZE):
            for event in self._events.events_of(self._scope, some):
                if event.kind in EXPORTED_EVENTS:
                    counted["events"] += 1
                    yield bundle.carried_event(event)

    def _shared_ids(self, lender: Lender, subject: Subject) -> list[str]:
        return self._selected_ids(lender.store, lender.scope, subject)

    def _selected_ids(self, store: Store, scope: Scope, subject: Subject) -> list[str]:
        """Return the ids of a scope's memories that belong to a subject."""
        chosen = self._brain._parts.sharing.covered_by(scope, subject, named=True)
        ids = [match.id for match in store.search(scope, Query(limit=MOST))]
        return ids if chosen is None else [id for id in ids if id in chosen]

    def _lineage(self, lender: Lender, id: str, source: FileSource) -> Lineage:
        """Make the lineage of another agent's record that this agent passes on."""
        hand = Hand(agent=source.agent, installation=source.installation, at=source.made_at, grant=lender.grants[0].id)
        return Lineage(agent=lender.name, installation=source.installation, id=id, hands=(hand,))

    def _shared_memories(
        self, lender: Lender, ids: list[str], source: FileSource, counted: Counter[str]
    ) -> Iterator[Carried]:
        for memory in lender.store.get(lender.scope, ids):
            if memory is not None:
                counted["memories"] += 1
                counted["lent"] += 1
                yield carried_memory(memory, self._lineage(lender, memory.id, source))

    def _shared_events(
        self, lender: Lender, ids: list[str], source: FileSource, counted: Counter[str]
    ) -> Iterator[Carried]:
        for event in lender.store.events_of(lender.scope, ids):
            if event.kind in EXPORTED_EVENTS:
                counted["events"] += 1
                yield bundle.carried_event(_without_other_ids(event, ids), self._lineage(lender, event.id, source))

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
                    detail=_pattern_detail(failure),
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
            self._store.note([AuditAction(action, who, who, grant=grant, count=count, detail=detail)])

    # In ------------------------------------------------------------------------------------------------

    def import_file(
        self,
        file: Path,
        *,
        format: str | None = None,
        trusted: Mapping[str, PublicKey] | None = None,
        dry_run: bool = False,
        large: bool = False,
        progress: Progress | None = None,
    ) -> ImportReport:
        """Import a file of Engram's or of another program. Importing it twice changes nothing.

        `dry_run` only reports what would happen. Large files, which take long, are refused unless `large` is set.
        Raises `InvalidInput` for an invalid or wrongly signed file.
        """
        if format not in {None, "engram"} or (format is None and not _is_knowledge_file(file)):
            return self._import_foreign(file, format, dry_run=dry_run, large=large, progress=progress)
        receiver = self._receiver(dry_run)
        with bundle.reading(file, trusted=trusted, receiver=receiver) as found:
            signer = _trusted_signer(found, file.name, trusted or {})
            total = sum(found.counts.values())
            if not large and (total > LIMITS.usual_records or found.size > LIMITS.usual):
                raise _too_large()
            name = self._source_name(found.source, file.name, signer)
            job = source_job(self._brain, receiver, name, dry_run=dry_run)
            importer = SourceImporter(job, receiver, file_author=found.source.agent, signed=signer is not None)
            done = 0
            for some in batched(found.records(), BATCH_SIZE):
                arrivals = [
                    IncomingRecord(record, bundle.lineage(found.source, record), findings)
                    for record, findings in some
                    if isinstance(record, CarriedMemory)
                ]
                importer.add_memories(arrivals)
                for record, _ in some:
                    if isinstance(record, CarriedEvent):
                        importer.add_outcome(record)
                    elif isinstance(record, CarriedPattern):
                        importer.add_checks(record)
                done += len(some)
                if progress is not None:
                    progress(done, total)
            importer.finish(signer=signer)
            if not dry_run:
                self._note("import", total, {"digest": found.end.digest, "stored": job.counts["stored"]})
            return job.report(name, verification=found.verification, findings=found.findings)

    def merge(
        self, from_agent: str, *, domains: Iterable[str] = (), tags: Iterable[str] = (), dry_run: bool = False
    ) -> ImportReport:
        """Copy another local agent's shared knowledge; the copy is used as long as the grant is valid.

        Raises `NotAllowed` without a grant.
        """
        subject, sharing = self._subject(domains, tags), self._brain._parts.sharing
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
            ids = [id for id in self._shared_ids(lender, subject) if id not in seen]
            seen.update(ids)
            job = source_job(
                self._brain, receiver, from_agent, grant=lender.id, dry_run=dry_run, quarantine_instructions=False
            )
            importer = SourceImporter(job, receiver)
            for some in batched(ids, BATCH_SIZE):
                importer.add_memories(
                    [self._incoming(memory, from_agent, receiver) for memory in _readable_memories(lender, some)]
                )
            for some in batched(ids, BATCH_SIZE):
                for event in lender.store.events_of(lender.scope, some):
                    importer.add_outcome(bundle.carried_event(event))
            for failure in lender.learning.failures():
                importer.add_checks(
                    CarriedPattern(
                        kind="failure", id=failure.pattern_id, name=failure.name, detail=_pattern_detail(failure)
                    )
                )
            importer.finish()
            if not dry_run:
                sharing.log_use(self._scope, lender, "merge", len(ids), ids)
                self._note("merge", len(ids), {"stored": job.counts["stored"]}, lender.id)
            reports.append(job.report(from_agent))
        return _sum_reports(reports)

    def _source_name(self, source: FileSource, file: str, signer: str | None) -> str:
        """Name the source of a file by its agent, its installation and the key that signed it."""
        name = f"{self._brain.clean(source.agent)}@{self._brain.clean(source.installation)}"
        if signer is not None:
            return f"{name}{SIGNED_BY}{signer}"
        if SIGNED_BY in name:
            raise InvalidInput(f"the source of {file} claims to be signed, but is not; nothing was imported")
        return name

    def _receiver(self, dry_run: bool) -> Holder:
        """Describe the importing agent; a dry run does not store a new installation id."""
        return Holder(self._agent.name, _installation_or_new(self._brain) if dry_run else installation(self._brain))

    def _incoming(self, memory: Memory, author: str, receiver: Holder) -> IncomingRecord:
        return IncomingRecord(
            carried_memory(memory), Lineage(agent=author, installation=receiver.installation, id=memory.id)
        )

    def _import_foreign(
        self, file: Path, format: str | None, *, dry_run: bool, large: bool, progress: Progress | None
    ) -> ImportReport:
        """Import another program's memories as this agent's own, with low trust and one key each."""
        name = format or importers.detect(file)
        job = ImportJob(self._brain, self._scope, self._scope, file.name, dry_run=dry_run)
        coming = importers.incoming(file, name)
        done = 0
        for some in batched(coming if large else _read_small(coming), BATCH_SIZE):
            import_foreign(job, some)
            done += len(some)
            if progress is not None:
                progress(done, done)
        if not dry_run:
            self._note("import", done, {"format": name, "stored": job.counts["stored"]})
        return job.report(file.name, name)


def _trusted_signer(found: bundle.Reading, file: str, trusted: Mapping[str, PublicKey]) -> str | None:
    """Return the key of a file with a valid signature. Raises `InvalidInput` for an invalid or missing one."""
    if found.verification.status == "invalid":
        raise InvalidInput(f"the signature of {file} is not right: {found.verification.reason}; nothing was imported")
    if found.verification.status == "valid":
        return found.verification.key
    if found.source.installation in trusted:
        raise InvalidInput(f"files of that source are signed, and {file} is not; nothing was imported")
    return None


def _read_small(coming: Iterable[Incoming]) -> list[Incoming]:
    """Read all memories before any is stored. Raises `InvalidInput` if there are too many."""
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


def _is_knowledge_file(file: Path) -> bool:
    """Return true if a file begins like a knowledge file."""
    return not is_folder(file) and b"engram_knowledge" in read_start(file, 200)


def _pattern_detail(failure: FailurePattern) -> dict[str, JsonValue]:
    """Return the prevention checks of a failure pattern, without their commands.

    Commands are never exported: an imported file must not cause a program to be run.
    """
    checks: list[JsonValue] = [
        {"name": check.name, "verify": check.verify, "stage": check.stage} for check in failure.prevention_checks
    ]
    detail: dict[str, JsonValue] = {"error_signature": failure.error_signature}
    return detail | {"checks": checks, "episodes": [*failure.episodes]} if checks else detail


def _without_other_ids(event: Event, ids: Collection[str]) -> Event:
    """Remove references to memories that are not exported from an event."""
    told = {name: value for name, value in event.body.items() if name != "about" or value in ids}
    return replace(event, body=told)


def _readable_memories(lender: Lender, ids: Sequence[str]) -> list[Memory]:
    return [memory for memory in lender.store.get(lender.scope, ids) if memory is not None]


def _sum_reports(reports: list[ImportReport]) -> ImportReport:
    sums = {name: sum(getattr(report, name) for report in reports) for name in COUNTS}
    reasons = tuple(dict.fromkeys(reason for report in reports for reason in report.reasons))
    return reports[0].model_copy(update={**sums, "reasons": reasons[:MAX_REASONS]})
