"""Store records from files or other agents batch by batch, apart from the agent's own memories and without privileges.

A dry run makes the same checks and the same report, but stores nothing.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property, lru_cache, partial
from typing import TYPE_CHECKING, NamedTuple

from pydantic import JsonValue

from engram.errors import InvalidInput
from engram.learning import events as happened
from engram.learning.service import Learning
from engram.model import Clean, Draft, Memory, Origin, Receipt
from engram.model.bundle import (
    MAX_LABEL,
    CarriedEvent,
    CarriedMemory,
    CarriedPattern,
    Finding,
    Incoming,
    Lineage,
    Verification,
)
from engram.model.transfer import ImportReport
from engram.ports import Entry, Event, KeepsEvents, Scope, acting, arguments
from engram.privacy.instructions import any_instruction, is_instruction
from engram.recording.input import merge_key, prepare, readable
from engram.recording.quarantine import apart, meant_for
from engram.sharing.lenders import LINEAGE, SINCE, import_scope
from engram.system import batched
from engram.text.terms import digest, normal_form
from engram.transfer import bundle
from engram.transfer.bundle import Holder
from engram.transfer.privileges import Privileges

if TYPE_CHECKING:
    from engram.engine import Engram


INITIAL_TRUST = 0.3
MAX_EVIDENCE = 5
"""Maximum number of observations that one source may claim for a memory."""
MAX_OUTCOMES = 100
"""Maximum number of outcomes of one decision."""
MAX_CHECKS = 100
MAX_CHECK_LENGTH = 4000
BATCH_SIZE = 500
"""Number of memories that are checked together and stored in one transaction."""
MAX_REASONS = 20
COUNTS = ("stored", "merged", "known", "own", "quarantined", "rejected", "outcomes")
INSTRUCTIONS = "it tells an agent what to do"
OriginKey = tuple[str, str, str]


class ImportCandidate(NamedTuple):
    """A memory to import: its name for messages, a function that makes its entry, and a reason to quarantine it.

    `again` makes it under another id, for the case that the first is taken by another quarantined memory.
    """

    name: str
    make: Callable[[], Entry]
    doubt: str = ""
    again: Callable[[], Entry] | None = None


class SuspectCandidate(NamedTuple):
    """A candidate to quarantine, with the reason."""

    candidate: ImportCandidate
    entry: Entry
    doubt: str


@dataclass
class ImportJob:
    """One import: check the incoming entries, store or quarantine them, and count the results."""

    brain: Engram
    scope: Scope
    """The scope of the importing agent."""
    target: Scope
    """The scope where the memories are stored."""
    source: str
    """The name of the source."""
    grant: str = ""
    dry_run: bool = False
    quarantine_instructions: bool = True
    """True to quarantine texts that look like instructions."""
    counts: Counter[str] = field(default_factory=Counter)
    reasons: list[str] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    _statements: dict[str, datetime | None] = field(default_factory=dict)
    """End of validity of each statement of this import, by merge key."""
    _keys: dict[str, str] = field(default_factory=dict)

    @cached_property
    def privileges(self) -> Privileges:
        """The tags, sessions and ids that imported memories must not have."""
        return Privileges.of(self.brain.store)

    @cached_property
    def name(self) -> Callable[[str], Clean]:
        """Redact a name; results are cached, since names repeat."""
        return lru_cache(maxsize=1024)(self.brain.clean)

    def acting(self) -> AbstractContextManager[None]:
        """Attribute audit entries to the importing agent."""
        return acting(self.scope.agent, agent=self.scope.agent, grant=self.grant)

    def add(self, candidates: Iterable[ImportCandidate]) -> list[Entry]:
        """Store a batch, or count the results in a dry run; returns the new entries."""
        news, doubtful = list[tuple[str, Entry]](), list[SuspectCandidate]()
        for candidate in candidates:
            try:
                entry = candidate.make()
            except InvalidInput as error:
                self._reject(candidate.name, str(error))
                continue
            if not self._is_new_key(candidate.name, entry):
                continue
            if doubt := candidate.doubt or self._doubt_about(candidate.name, entry.memory):
                doubtful.append(SuspectCandidate(candidate, entry, doubt))
            elif self._is_new_statement(entry):
                news.append((candidate.name, entry))
        fresh, waiting = self._new_entries(news), self._not_reviewed(doubtful)
        if self.dry_run:
            self.counts["stored"] += len(fresh)
        else:
            self._store(fresh, waiting)
        return fresh

    def _doubt_about(self, name: str, memory: Memory) -> str:
        if not self.quarantine_instructions or not any_instruction(readable(memory)):
            return ""
        self.findings.append(Finding(code="instructions", record=name, reason=INSTRUCTIONS))
        return INSTRUCTIONS

    def _is_new_key(self, name: str, entry: Entry) -> bool:
        """Return true if this import has had no other entry with the same key."""
        memory = entry.memory
        if entry.key is None:
            return True
        said = digest(memory.kind, memory.text, memory.context)
        if self._keys.get(entry.key, said) != said:
            self._reject(name, "the file says something else under the same id")
            return False
        if entry.key in self._keys:
            self.counts["known"] += 1
            return False
        self._keys[entry.key] = said
        return True

    def _is_new_statement(self, entry: Entry) -> bool:
        """Return true if this import has not had the same statement before."""
        memory = entry.memory
        if entry.merge_key is None:
            return True
        if entry.merge_key in self._statements:
            ended = self._statements[entry.merge_key]
            if ended is None or ended > memory.valid_from:
                self.counts["merged"] += 1
                return False
        self._statements[entry.merge_key] = memory.valid_until
        return True

    def _not_reviewed(self, doubtful: Sequence[SuspectCandidate]) -> list[tuple[Entry, str]]:
        """Return the candidates that are neither in quarantine nor released from it, with the reason for quarantine."""
        waits, unknown = apart(self.scope), list[SuspectCandidate]()
        here = self.brain.store.get(waits, [each.entry.memory.id for each in doubtful]) if doubtful else []
        for each, other in zip(doubtful, here, strict=True):
            if other is None or each.candidate.again is None:
                unknown.append(each)
            elif _is_same_memory(other, each.entry.memory):
                self.counts["known"] += 1
            else:
                unknown.append(each._replace(entry=each.candidate.again()))
        for place in (waits, self.target):
            unknown = self._not_stored(place, unknown)
        self.counts["quarantined"] += len(unknown)
        self.reasons += [f"{each.candidate.name}: {each.doubt}" for each in unknown]
        return [(each.entry, f"from {self.source}: {each.doubt}") for each in unknown]

    def _not_stored(self, place: Scope, doubtful: Sequence[SuspectCandidate]) -> list[SuspectCandidate]:
        """Return the candidates whose key is not stored in a scope; the others are counted."""
        store, found = self.brain.store, list[SuspectCandidate]()
        if all(each.entry.key is None for each in doubtful):
            return list(doubtful)
        there = [each.entry.memory.model_copy(update={"agent": place.agent}) for each in doubtful]
        entries = [Entry(memory, key=each.entry.key) for memory, each in zip(there, doubtful, strict=True)]
        for each, receipt in zip(doubtful, store.preview_add(place, entries), strict=True):
            if receipt.code is None:
                found.append(each)
            else:
                self._count_existing(each.candidate.name, receipt)
        return found

    def _new_entries(self, news: Sequence[tuple[str, Entry]]) -> list[Entry]:
        """Return the entries that are new to the store; existing memories are left unchanged."""
        store, fresh = self.brain.store, list[Entry]()
        if not news:
            return [entry for _, entry in news]
        receipts = store.preview_add(self.target, [entry for _, entry in news])
        for (name, entry), receipt in zip(news, receipts, strict=True):
            if receipt.status == "stored" and receipt.code is None:
                fresh.append(entry)
            else:
                self._count_existing(name, receipt)
        return fresh

    def _count_existing(self, name: str, receipt: Receipt) -> None:
        if receipt.status == "rejected":
            self._reject(name, "it said something else when it came before; forget that, and import it again")
        else:
            self._count(receipt)

    def _count(self, receipt: Receipt) -> None:
        self.counts["known" if receipt.status == "stored" and receipt.code else receipt.status] += 1

    def _reject(self, name: str, reason: str) -> None:
        self.counts["rejected"] += 1
        self.reasons.append(f"{name}: {reason}")

    def _store(self, fresh: Sequence[Entry], waiting: Sequence[tuple[Entry, str]]) -> None:
        with self.acting():
            if waiting:
                self.brain.agent(self.scope.agent).quarantine.keep(waiting, self.target)
            if fresh:
                placed, _ = self.brain._parts.embeddings.embed(fresh)
                for receipt in self.brain.store.add(self.target, placed):
                    self._count(receipt)

    def report(
        self,
        source: str,
        format: str = "engram",
        verification: Verification | None = None,
        findings: Iterable[Finding] = (),
    ) -> ImportReport:
        """Summarise the import."""
        report = ImportReport(
            source=source,
            format=format,
            dry_run=self.dry_run,
            verification=verification or Verification(status="unsigned"),
            reasons=tuple(dict.fromkeys(self.reasons))[:MAX_REASONS],
            findings=tuple([*findings, *self.findings][: bundle.MAX_FINDINGS]),
        )
        return report.model_copy(update={name: self.counts[name] for name in COUNTS})


def import_foreign(job: ImportJob, some: Sequence[Incoming]) -> None:
    """Import memories of another program as the agent's own, each under its own key."""
    job.add([ImportCandidate(each.original_id, partial(_foreign_entry, job, each)) for each in some])


def _foreign_entry(job: ImportJob, each: Incoming) -> Entry:
    draft = Draft(
        each.text,
        kind=each.kind,
        tags=each.tags,
        at=each.at,
        session=None if each.session is None else f"{each.source}:{each.session}"[:MAX_LABEL],
        role=each.role,
        speaker=each.speaker,
        context=each.context,
        content=each.content,
        metadata={name: value for name, value in each.metadata.items() if name != LINEAGE},
        key=f"import:{each.source}:{digest(each.original_id)}",
        origin=Origin.IMPORTED,
    )
    entry, _ = prepare(job.privileges.without(draft), job.scope, job.brain.redactor, job.brain.sources)
    return entry


class IncomingRecord(NamedTuple):
    """A memory of a file, with its origin and findings."""

    record: CarriedMemory
    origin: Lineage
    findings: Sequence[Finding] = ()


class _ReportedOutcome(NamedTuple):
    """The validated parts of an imported outcome: its time, quality and error."""

    at: datetime
    quality: float
    error: str


def source_job(
    brain: Engram,
    receiver: Holder,
    source: str,
    *,
    grant: str = "",
    dry_run: bool = False,
    quarantine_instructions: bool = True,
) -> ImportJob:
    """Make the import job for one source, a file or a grant, which has a scope of its own."""
    scope = Scope(receiver.agent)
    target = import_scope(scope, f"{source}\x1f{grant}")
    return ImportJob(
        brain, scope, target, source, grant=grant, dry_run=dry_run, quarantine_instructions=quarantine_instructions
    )


@dataclass
class SourceImporter:
    """Import the memories, outcomes and checks of one source, under their original ids where possible."""

    job: ImportJob
    receiver: Holder
    file_author: str = ""
    """The author of the file, credited for records of others if the file is not signed."""
    signed: bool = True
    _ids: dict[str, str] = field(default_factory=dict)
    """The local id of each stored memory, by its id in the file."""
    _origins: dict[str, OriginKey] = field(default_factory=dict)
    """The origin of each memory of this import, by local id."""
    _decisions: set[str] = field(default_factory=set)
    """Local ids of the decisions of this import."""
    _outcomes: defaultdict[str, list[_ReportedOutcome]] = field(default_factory=lambda: defaultdict(list))
    _checks: list[tuple[str, str, str, str]] = field(default_factory=list)
    """Prevention checks: local id of a failure, name, condition to verify, stage."""
    _seen_before: bool = False

    @cached_property
    def _search_scopes(self) -> list[str]:
        """The imported sources of the receiver, this one first.

        A file import ignores copies under grants, since the file may outlast them.
        """
        known = self.job.brain.ledger.imported_sources(self.receiver.agent).items()
        own, lasts = self.job.target.agent, not self.job.grant
        usable = [name for name, body in known if not body.get("quarantined") and not (lasts and body.get("grant"))]
        return [own, *(name for name in usable if name != own)]

    # Memories ------------------------------------------------------------------------------------------

    def add_memories(self, some: Sequence[IncomingRecord]) -> None:
        """Import a batch; memories that are known by any route, or are the receiver's own, are not counted again."""
        own, target = self._own_ids(some), self.job.target.agent
        ids = [self._id(arrival.origin) for arrival in some]
        origin_key = [self._cleaned_key(arrival.origin) for arrival in some]
        there = {name: self._memories_at(name, ids) for name in self._search_scopes}
        others = [_alternative_id(each) for each in origin_key]
        there[target] |= self._memories_at(target, others)
        waiting = self._awaiting_review([*ids, *others])
        candidates, names = list[ImportCandidate](), dict[str, str]()
        for arrival, id, origin in zip(some, ids, origin_key, strict=True):
            record = arrival.record
            if self._is_own(arrival.origin) and arrival.origin.id in own:
                self.job.counts["own"] += 1
                continue
            place, known = self._local_id(record, id, origin, there, waiting)
            if known:
                self.job.counts["known"] += 1
                self._ids[record.id] = place
                continue
            self._origins[place] = origin
            names[place] = record.id
            bad = [finding.reason for finding in arrival.findings if finding.code == "forged-origin"]
            make = partial(self._entry, record, arrival.origin)
            doubt, again = bad[0] if bad else "", partial(make, _alternative_id(origin))
            candidates.append(ImportCandidate(record.id, partial(make, place), doubt, again))
        for entry in self.job.add(candidates):
            self._ids[names[entry.memory.id]] = entry.memory.id
            if any(event.kind == happened.DECISION for event in entry.events):
                self._decisions.add(entry.memory.id)

    def _is_own(self, origin: Lineage) -> bool:
        return (origin.agent, origin.installation) == (self.receiver.agent, self.receiver.installation)

    def _own_ids(self, some: Sequence[IncomingRecord]) -> set[str]:
        ids = [arrival.origin.id for arrival in some if self._is_own(arrival.origin)]
        return set(self._memories_at(self.receiver.agent, ids))

    def _memories_at(self, agent: str, ids: Sequence[str]) -> dict[str, Memory]:
        found = self.job.brain.store.get(Scope(agent), list(dict.fromkeys(ids))) if ids else []
        return {memory.id: memory for memory in found if memory is not None}

    def _awaiting_review(self, ids: Sequence[str]) -> dict[str, Memory]:
        """Return the quarantined memories of this source."""
        found = self._memories_at(apart(self.job.scope).agent, ids)
        places = meant_for(self.job.brain.store, self.job.scope, list(found))
        return {id: memory for id, memory in found.items() if places.get(id) == self.job.target.agent}

    def _id(self, origin: Lineage) -> str:
        """Return the original id of a memory if it is valid here, or else a digest."""
        plain = len(origin.id) <= 64 and arguments.is_id(origin.id) and self.job.brain.clean(origin.id) == origin.id
        return origin.id if plain else digest(origin.agent, origin.id)

    def _is_used(self, id: str) -> bool:
        return id in self._origins or id in self.job.privileges.ids

    def _cleaned_key(self, origin: Lineage) -> OriginKey:
        return self.job.name(origin.installation), self.job.name(origin.agent), self.job.brain.clean(origin.id)

    def _local_id(
        self,
        record: CarriedMemory,
        id: str,
        origin_key: OriginKey,
        there: Mapping[str, Mapping[str, Memory]],
        waiting: Mapping[str, Memory],
    ) -> tuple[str, bool]:
        """Return the local id for a memory, and whether it is already stored, by this or another route."""
        target, other = self.job.target.agent, _alternative_id(origin_key)
        for name, memories in there.items():
            known = memories.get(id)
            same = known is not None and _origin_key(known) == origin_key
            if known is not None and same and (name == target or self._has_same_text(known, record.text)):
                self._seen_before = self._seen_before or name == target
                return id, True
        for one in (id, other):
            if self._origins.get(one) == origin_key:
                return one, True
            if one in waiting and _origin_key(waiting[one]) == origin_key:
                self._seen_before = True
                return one, True
        if other in there[target]:
            return other, True
        return (other if id in there[target] or self._is_used(id) else id), False

    def _has_same_text(self, memory: Memory, text: str) -> bool:
        """Return true if a memory has this text; another route may claim the same origin falsely."""
        return normal_form(memory.text) == normal_form(self.job.brain.clean(text))

    def _entry(self, record: CarriedMemory, origin: Lineage, id: str) -> Entry:
        job, name = self.job, self.job.name
        draft = job.privileges.without(bundle.draft(record))
        entry, _ = prepare(draft, job.target, job.brain.redactor, job.brain.sources)
        author = origin.agent if self.signed or not origin.hands else self.file_author
        lineage: dict[str, JsonValue] = {
            "agent": name(origin.agent),
            "installation": name(origin.installation),
            "id": job.brain.clean(origin.id),
            "hands": [name(hand.agent) for hand in origin.hands],
        }
        provenance = {"origin": Origin.IMPORTED, "author": name(author)}
        memory = entry.memory.model_copy(
            update={
                "id": id,
                "metadata": {**entry.memory.metadata, LINEAGE: lineage},
                "provenance": entry.memory.provenance.model_copy(update=provenance),
                "trust": INITIAL_TRUST,
                "evidence": min(record.evidence, MAX_EVIDENCE),
            }
        )
        event = happened.event_of(memory)
        return Entry(memory, merge_key=merge_key(memory), events=() if event is None else (event,))

    # Outcomes ------------------------------------------------------------------------------------------

    def add_outcome(self, record: CarriedEvent) -> None:
        """Record the outcome of an imported decision; other events follow from the memories themselves."""
        if record.kind != happened.OUTCOME or record.subject not in self._ids:
            return
        quality, error = record.body.get("quality"), record.body.get("error")
        if isinstance(quality, bool) or not isinstance(quality, int | float) or not 0 <= quality <= 1:
            self.job.reasons.append(f"{record.id}: an outcome is a number from 0 to 1")
            return
        said = error if isinstance(error, str) and error.strip() else ""
        if said and is_instruction(said):
            self.job.reasons.append(f"{record.id}: its error {INSTRUCTIONS.removeprefix('it ')}, and was left out")
            said = ""
        self._outcomes[self._ids[record.subject]].append(_ReportedOutcome(record.at, float(quality), said))

    def add_checks(self, record: CarriedPattern) -> None:
        """Record the prevention checks of an imported failure; patterns are learned again from the events."""
        checks, episodes = record.detail.get("checks"), record.detail.get("episodes")
        if record.kind != "failure" or not isinstance(checks, list) or not isinstance(episodes, list):
            return
        here = [self._ids[id] for id in map(str, episodes[:MAX_CHECKS]) if id in self._ids]
        for check in checks[:MAX_CHECKS] if here else ():
            told = check if isinstance(check, dict) else {}
            said = [told.get(name) for name in ("name", "verify", "stage")]
            texts = [text if isinstance(text, str) and len(text) <= MAX_CHECK_LENGTH else "" for text in said]
            if not all(text.strip() for text in texts[:2]):
                self.job.reasons.append(f"{record.id}: a check has a name and says what to verify")
            elif any(is_instruction(text) for text in texts if text):
                self.job.reasons.append(f"{record.id}: its check {INSTRUCTIONS.removeprefix('it ')}, and was left out")
            else:
                clean = self.job.brain.clean
                name, verify, stage = (clean(text) if text.strip() else "" for text in texts)
                self._checks.append((here[0], name, verify, stage))

    def _store_checks(self, store: KeepsEvents) -> None:
        """Store the recorded checks with the failures they belong to."""
        brain, target, fresh = self.job.brain, self.job.target, list[Event]()
        learning = Learning(
            brain.store,
            target,
            brain._parts.experience,
            brain.sources,
            brain._parts.embeddings.context_vector,
            brain._parts.input.clean,
        )
        for episode, name, verify, stage in self._checks:
            if (known := learning.failure(episode)) is None:
                continue
            body: dict[str, JsonValue] = {"about": known.pattern_id, "name": name, "verify": verify, "status": "active"}
            body |= {"stage": stage} if stage else {}
            id = digest("check", target.agent, known.pattern_id, name)
            fresh.append(Event(id, happened.CHECK, brain.sources.now(), episode, "", body))
        if fresh:
            with self.job.acting():
                store.append(target, fresh)

    def finish(self, *, signer: str | None = None) -> None:
        """Store the recorded outcomes and checks, and register the source with its receiver."""
        store = self.job.brain.store
        for some in batched(self._outcomes, BATCH_SIZE):
            self._store_outcomes(store, some)
        if self._checks and not self.job.dry_run:
            self._store_checks(store)
        if not self.job.dry_run:
            self._register(signer)

    def _store_outcomes(self, store: KeepsEvents, ids: Sequence[str]) -> None:
        """Store the outcomes of some decisions in one transaction."""
        job, fresh = self.job, list[Event]()
        there = defaultdict[str, dict[str, Event]](dict)
        for event in store.events_of(job.target, ids):
            there[event.subject][event.id] = event
        for id in ids:
            told = sorted(self._outcomes[id])
            if len(told) > MAX_OUTCOMES:
                job.reasons.append(f"{id}: of {len(told):,} outcomes of one decision the first {MAX_OUTCOMES} count")
            decision = next((event for event in there[id].values() if event.kind == happened.DECISION), None)
            if decision is not None:
                made = self._outcome_events(decision, told[:MAX_OUTCOMES])
                fresh += [event for event in made if event.id not in there[id]]
            elif job.dry_run and id in self._decisions:
                job.counts["outcomes"] += len(told[:MAX_OUTCOMES])
        if job.dry_run:
            job.counts["outcomes"] += len(fresh)
        elif fresh:
            with job.acting():
                job.counts["outcomes"] += sum(store.append(job.target, fresh))

    def _outcome_events(self, decision: Event, told: Sequence[_ReportedOutcome]) -> Iterator[Event]:
        """Make the outcome events of one decision, in order of time."""
        before = happened.number(decision, "quality")
        for number, (at, quality, error) in enumerate(told, 1):
            said = self.job.brain.clean(error) if error else ""
            yield happened.outcome_of(decision, number, at, quality, before, error=said)
            before = quality

    def _register(self, signer: str | None) -> None:
        job = self.job
        ledger, name = job.brain.ledger, job.target.agent
        known = ledger.imported_sources(self.receiver.agent).get(name)
        news = job.counts["stored"] or job.counts["outcomes"]
        if not (news or job.counts["quarantined"]) and (known is not None or not self._seen_before):
            return
        body: dict[str, JsonValue] = {
            "receiver": self.receiver.agent,
            "source": job.source,
            "id": name.removeprefix("\x1fannex:"),
            "grant": job.grant,
            "signer": signer,
        }
        if news and not job.grant and signer is None:  # an unsigned source may not be the same as before
            body[SINCE] = job.brain.sources.now().isoformat()
        elif known is not None and SINCE in known:
            body[SINCE] = known[SINCE]
        if known is None or {key: known.get(key) for key in body} != body or known.get("quarantined"):
            with job.acting():
                ledger.set_imported_source(name, body)


def _alternative_id(origin_key: OriginKey) -> str:
    """Return an id for a memory whose original id is taken by another one."""
    return digest("began", *origin_key)


def _is_same_memory(one: Memory, other: Memory) -> bool:
    """Return true if two memories have the same origin and the same text."""
    return _origin_key(one) == _origin_key(other) and normal_form(one.text) == normal_form(other.text)


def _origin_key(memory: Memory) -> OriginKey | None:
    told = memory.metadata.get(LINEAGE)
    if not isinstance(told, dict):
        return None
    return str(told.get("installation")), str(told.get("agent")), str(told.get("id"))
