"""Knowledge that travels: out of one memory, into a file or another agent's annex, and never into its own evidence.

What comes in is kept apart, by source: it is redacted like everything else, starts with low trust, counts once by
whatever way it came, and can be taken back as a whole.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import TypeVar

from pydantic import JsonValue, ValidationError

from engram import arguments
from engram.engine import AgentHandle, Engram
from engram.errors import InvalidInput, NotAllowed, Unsupported
from engram.knowledge import bundle, importers
from engram.knowledge.bundle import Form, Holder
from engram.knowledge.consent import subject_of
from engram.knowledge.signing import PrivateKey, PublicKey
from engram.knowledge.untrusted import LIMITS, opened
from engram.learn import happened
from engram.memory.drafting import merge_key, prepare
from engram.model import Draft, Memory, Origin, explain
from engram.model.bundle import (
    Carried,
    CarriedEvent,
    CarriedMemory,
    CarriedPattern,
    CarriedRate,
    Finding,
    Hand,
    Incoming,
    Lineage,
    Source,
    Verification,
    carried,
)
from engram.model.grant import Right, Subject
from engram.model.transfer import ExportReport, ImportReport
from engram.ports import Deed, Entry, Event, KeepsAudit, KeepsEvents, KeepsSettings, Query, Scope
from engram.privacy.instructions import is_instruction, suspicions
from engram.sharing import Lender, annex
from engram.words import digest, normal_form

INSTALLATION = "installation"
"""The setting with the name of this database, by which others know it."""
LINEAGE = "lineage"
"""Where the metadata of an imported memory says where it began."""
FIRST_TRUST = 0.3
MOST_EVIDENCE = 5
"""What one source may say about how often it saw something."""
BATCH = 100
MOST = 1_000_000
REASONS = 20
COUNTED = ("stored", "merged", "known", "own", "quarantined", "rejected", "outcomes")
CARRIED = frozenset({happened.DECISION, happened.OUTCOME, happened.FAILURE, happened.SOLUTION})
Progress = Callable[[int, int], None]
T = TypeVar("T")


def installation(brain: Engram) -> str:
    """The name of this database; made at the first need."""
    store = brain.store
    if not isinstance(store, KeepsSettings):
        raise Unsupported("this store has no name to sign knowledge with; SQLite, PostgreSQL and Redis do")
    if (known := store.setting(INSTALLATION)) is None:
        known = brain.sources.new_id()
        store.set_setting(INSTALLATION, known)
    return known


class Knowledge:
    """Handing one agent's knowledge over, and taking in that of others."""

    def __init__(self, brain: Engram, agent: AgentHandle) -> None:
        if not isinstance(brain.store, KeepsEvents):
            raise Unsupported("this store cannot hand knowledge over; SQLite, PostgreSQL and Redis can")
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
            source = Source(
                agent=self._agent.name,
                installation=installation(self._brain),
                made_at=self._brain.sources.now(),
                domain=chosen[0] if len(chosen) == 1 else None,
                tags=wanted if len(chosen) == 1 else (*chosen, *wanted),
                program="engram",
            )
        except ValidationError as error:
            raise InvalidInput(explain(error)) from None
        own = self._brain.sharing.about(self._scope, subject)
        lenders = [
            lender
            for lender in self._brain.sharing.lenders(self._scope, Right.RESHARE)
            if lender.grants and lender.scope.agent == lender.name  # no copies, and nothing that came by a file
        ]
        lent = {lender.id: self._lent(lender, subject) for lender in lenders}
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
        )

    def _ids(self, scope: Scope, chosen: Iterable[str] | None) -> list[str]:
        found = [match.id for match in self._store.search(scope, Query(limit=MOST))]
        return found if chosen is None else [id for id in found if id in set(chosen)]

    def _memories(
        self, ids: list[str], counted: Counter[str], progress: Progress | None, total: int
    ) -> Iterator[Carried]:
        for some in _batches(ids):
            for memory in self._store.get(self._scope, some):
                if memory is not None:
                    counted["memories"] += 1
                    yield carried(memory)
            if progress is not None:
                progress(counted["memories"], max(total, counted["memories"]))

    def _happened(self, ids: list[str], counted: Counter[str]) -> Iterator[Carried]:
        for some in _batches(ids):
            for event in self._events.events_of(self._scope, some):
                if event.kind in CARRIED:
                    counted["events"] += 1
                    yield bundle.carried_event(event)

    def _lent(self, lender: Lender, subject: Subject) -> list[str]:
        chosen = self._brain.sharing.about(lender.scope, subject)
        ids = [match.id for match in lender.store.search(lender.scope, Query(limit=MOST))]
        return ids if chosen is None else [id for id in ids if id in chosen]

    def _handed(self, lender: Lender, id: str, source: Source) -> Lineage:
        """Where something that was lent began, and that it went through this agent's hands."""
        hand = Hand(agent=source.agent, installation=source.installation, at=source.made_at, grant=lender.grants[0].id)
        return Lineage(agent=lender.name, installation=source.installation, id=id, hands=(hand,))

    def _lent_memories(
        self, lender: Lender, ids: list[str], source: Source, counted: Counter[str]
    ) -> Iterator[Carried]:
        for memory in lender.store.get(lender.scope, ids):
            if memory is not None:
                counted["memories"] += 1
                counted["lent"] += 1
                yield carried(memory, self._handed(lender, memory.id, source))

    def _lent_events(self, lender: Lender, ids: list[str], source: Source, counted: Counter[str]) -> Iterator[Carried]:
        if isinstance(lender.store, KeepsEvents):
            for event in lender.store.events_of(lender.scope, ids):
                if event.kind in CARRIED:
                    counted["events"] += 1
                    yield bundle.carried_event(event, self._handed(lender, event.id, source))

    def _patterns(self, ids: frozenset[str] | None, counted: Counter[str]) -> Iterator[Carried]:
        learning = self._agent.learning
        for failure in learning.failures():
            if ids is None or ids >= set(failure.episodes):
                counted["patterns"] += 1
                yield CarriedPattern(
                    kind="failure",
                    id=failure.pattern_id,
                    name=failure.name,
                    evidence=failure.occurrence_count,
                    detail={"error_signature": failure.error_signature},
                )
        for success in learning.synthesis().patterns:
            if ids is None or ids >= {*success.episodes, *success.contrast.failures}:
                counted["patterns"] += 1
                yield CarriedPattern(
                    kind="success",
                    id=success.pattern_id,
                    name=success.name,
                    evidence=success.attempts,
                    detail={"context": success.context_signature, "approach": success.successful_approach},
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
        progress: Progress | None = None,
    ) -> ImportReport:
        """Import a file: knowledge that Engram wrote, or what another program keeps. Doing it twice changes nothing.

        With `dry_run` it only says what would come in. Raises `InvalidInput` for a file that cannot be believed.
        """
        if format not in {None, "engram"} or (format is None and not _is_ours(file)):
            return self._from_others(file, format, dry_run=dry_run, progress=progress)
        receiver = Holder(self._agent.name, installation(self._brain))
        with bundle.reading(file, trusted=trusted, receiver=receiver, suspicious=suspicions) as found:
            if found.verification.status == "invalid":
                raise InvalidInput(
                    f"the signature of {file.name} is not right: {found.verification.reason}; nothing was imported"
                )
            signer = found.verification.key if found.verification.status == "valid" else None
            if signer is None and found.source.installation in (trusted or {}):
                raise InvalidInput(f"files of that source are signed, and {file.name} is not; nothing was imported")
            clean = self._brain.clean
            name = f"{clean(found.source.agent)}@{clean(found.source.installation)}"
            name = name if signer is None else f"{name} signed by {signer}"
            desk = _Desk(self._brain, self._scope, name, receiver, dry_run=dry_run, teller=found.source.agent)
            desk.vouched = signer is not None
            total = sum(found.counts.values())
            for done, (record, findings) in enumerate(found.records(), 1):
                if isinstance(record, CarriedMemory):
                    desk.memory(record, bundle.lineage(found.source, record), findings)
                elif isinstance(record, CarriedEvent):
                    desk.event(record)
                if progress is not None and done % BATCH == 0:
                    progress(done, total)
            desk.finish()
            desk.register(signer=signer)
            if not dry_run:
                self._note("import", total, {"digest": found.end.digest, "stored": desk.counts["stored"]})
            return desk.report(name, found.verification, found.findings)

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
        receiver = Holder(self._agent.name, installation(self._brain))
        reports = []
        for lender in lenders:
            ids = self._lent(lender, subject)
            desk = _Desk(self._brain, self._scope, from_agent, receiver, dry_run=dry_run, grant=lender.id)
            for memory in lender.store.get(lender.scope, ids):
                if memory is not None:
                    begun = Lineage(agent=from_agent, installation=receiver.installation, id=memory.id)
                    desk.memory(carried(memory), begun, ())
            if isinstance(lender.store, KeepsEvents):
                for event in lender.store.events_of(lender.scope, ids):
                    if event.kind in CARRIED:
                        desk.event(bundle.carried_event(event))
            desk.finish()
            desk.register(signer=None)
            if not dry_run:
                sharing.used(self._scope, lender, "merge", len(ids), ids)
                self._note("merge", len(ids), {"stored": desk.counts["stored"]}, lender.id)
            reports.append(desk.report(from_agent))
        return _summed(reports)

    def _from_others(self, file: Path, format: str | None, *, dry_run: bool, progress: Progress | None) -> ImportReport:
        """What another program keeps becomes this agent's memories: imported, with low trust, and under a key each."""
        name = format or importers.detect(file)
        counts: Counter[str] = Counter()
        reasons: list[str] = []
        for some in _batches(importers.incoming(file, name)):
            drafts = [_as_draft(each) for each in some]
            if dry_run:
                for each in drafts:
                    counts["quarantined" if is_instruction(each.text) else "stored"] += 1
            else:
                for receipt in self._agent.remember(drafts):
                    known = receipt.status == "stored" and receipt.reason is not None and "key" in receipt.reason
                    counts["known" if known else receipt.status] += 1
                    if receipt.reason and not receipt.ok:
                        reasons.append(receipt.reason)
            if progress is not None:
                progress(sum(counts.values()), sum(counts.values()))
        if not dry_run:
            self._note("import", sum(counts.values()), {"format": name, "stored": counts["stored"]})
        return ImportReport(
            source=file.name, format=name, dry_run=dry_run, reasons=tuple(dict.fromkeys(reasons))[:REASONS]
        ).model_copy(update={key: counts[key] for key in COUNTED})


@dataclass
class _Desk:
    """Where what comes in is looked at, one record at a time, and put into the annex of its source."""

    brain: Engram
    scope: Scope
    source: str
    receiver: Holder
    dry_run: bool = False
    grant: str = ""
    teller: str = ""
    """Who says so, if nobody vouches for what it says about others."""
    vouched: bool = True
    counts: Counter[str] = field(default_factory=Counter)
    reasons: list[str] = field(default_factory=list)
    waiting: list[Entry] = field(default_factory=list)
    ids: dict[str, str] = field(default_factory=dict)
    """The id here of each memory that is kept, by its id in the file."""
    outcomes: dict[str, list[CarriedEvent]] = field(default_factory=dict)

    @property
    def annex(self) -> Scope:
        """The scope that keeps what this source says."""
        return annex(self.scope, f"{self.source}\x1f{self.grant}")

    def memory(self, record: CarriedMemory, begun: Lineage, findings: Iterable[Finding]) -> None:
        """Take one memory in, unless it is known, or the receiver's own."""
        ours = begun.installation == self.receiver.installation and begun.agent == self.receiver.agent
        if ours and self.brain.store.get(self.scope, [begun.id])[0] is not None:
            self.counts["own"] += 1
            return
        plain = len(begun.id) <= 64 and arguments.is_id(begun.id) and self.brain.clean(begun.id) == begun.id
        id = begun.id if plain else digest(begun.agent, begun.id)
        if self._known(id, begun, record.text):
            self.counts["known"] += 1
            self.ids[record.id] = id
            return
        try:
            entry = self._entry(record, begun, id)
        except InvalidInput as error:
            self.counts["rejected"] += 1
            self.reasons.append(f"{record.id}: {error}")
            return
        if bad := [finding for finding in findings if finding.code in {"instructions", "forged-origin"}]:
            self.counts["quarantined"] += 1
            self.reasons.append(f"{record.id}: {bad[0].reason}")
            if not self.dry_run:
                own = entry.memory.model_copy(update={"agent": self.scope.agent})
                self.brain.agent(self.scope.agent).quarantine.put(Entry(own), f"from {self.source}: {bad[0].reason}")
            return
        self.ids[record.id] = id
        self.waiting.append(entry)
        if len(self.waiting) >= BATCH:
            self.flush()

    def _entry(self, record: CarriedMemory, begun: Lineage, id: str) -> Entry:
        entry, _ = prepare(bundle.draft(record), self.annex, self.brain.redactor, self.brain.sources)
        clean = self.brain.clean
        hands = [clean(hand.agent) for hand in begun.hands]
        author = begun.agent if self.vouched or not begun.hands else self.teller
        lineage: dict[str, JsonValue] = {
            "agent": clean(begun.agent),
            "installation": clean(begun.installation),
            "id": clean(begun.id),
            "hands": [*hands],
        }
        memory = entry.memory.model_copy(
            update={
                "id": id,
                "metadata": {**entry.memory.metadata, LINEAGE: lineage},
                "provenance": entry.memory.provenance.model_copy(
                    update={"origin": Origin.IMPORTED, "author": clean(author)}
                ),
                "trust": FIRST_TRUST,
                "evidence": min(record.evidence, MOST_EVIDENCE),
            }
        )
        event = happened.event_of(memory)
        return Entry(memory, merge_key=merge_key(memory), events=() if event is None else (event,))

    def _known(self, id: str, begun: Lineage, text: str) -> bool:
        """Whether just this came before, by this or by another way."""
        ledger = self.brain.sharing.ledger
        began = tuple(map(self.brain.clean, (begun.installation, begun.agent, begun.id)))
        usable = [name for name, body in ledger.annexes(self.scope.agent).items() if not body.get("quarantined")]
        for name in {self.annex.agent, *usable}:
            (there,) = self.brain.store.get(Scope(name), [id])
            same = there is not None and _began(there) == began
            if there is not None and same and (name == self.annex.agent or self._says(there, text)):
                return True
        return any(entry.memory.id == id for entry in self.waiting)

    def _says(self, memory: Memory, text: str) -> bool:
        """Whether what came by another way says just this; somebody may have pretended that it does."""
        return normal_form(memory.text) == normal_form(self.brain.clean(text))

    def event(self, record: CarriedEvent) -> None:
        """Note what was told of a memory that came in; what a decision or failure was, the memory itself says."""
        if record.subject not in self.ids:
            return
        if record.kind == happened.OUTCOME:
            self.outcomes.setdefault(record.subject, []).append(record)

    def flush(self) -> None:
        """Store what is waiting, in one transaction."""
        waiting, self.waiting = self.waiting, []
        if self.dry_run:
            self.counts["stored"] += len(waiting)
            return
        entries, _ = self.brain.embed(waiting)
        for receipt in self.brain.store.add(self.annex, entries) if entries else []:
            self.counts[receipt.status] += 1

    def finish(self) -> None:
        """Store the rest, and how decisions went."""
        self.flush()
        store = self.brain.store
        if not isinstance(store, KeepsEvents):
            return
        for subject, told in self.outcomes.items():
            decided = store.events_of(self.annex, [self.ids[subject]])
            decision = next((event for event in decided if event.kind == happened.DECISION), None)
            if decision is not None and not self.dry_run:
                self.counts["outcomes"] += sum(store.append(self.annex, self._told(decision, told)))
            elif self.dry_run:
                self.counts["outcomes"] += len(told)

    def _told(self, decision: Event, told: list[CarriedEvent]) -> list[Event]:
        """The outcomes of one decision, made anew from what can be believed of them: a quality and an error."""
        made: list[Event] = []
        before = happened.number(decision, "quality")
        for number, record in enumerate(sorted(told, key=lambda each: each.at), 1):
            quality = record.body.get("quality")
            if isinstance(quality, bool) or not isinstance(quality, int | float) or not 0 <= quality <= 1:
                self.reasons.append(f"{record.id}: an outcome is a number from 0 to 1")
                continue
            error = record.body.get("error")
            said = self.brain.clean(error) if isinstance(error, str) and error.strip() else ""
            made.append(happened.outcome_of(decision, number, record.at, float(quality), before, error=said))
            before = float(quality)
        return made

    def register(self, *, signer: str | None) -> None:
        """Make the annex known, so that its receiver can use it."""
        if self.dry_run or not (self.counts["stored"] or self.counts["merged"]):
            return
        ledger = self.brain.sharing.ledger
        body: dict[str, JsonValue] = {
            "receiver": self.scope.agent,
            "source": self.source,
            "id": self.annex.agent.removeprefix("\x1fannex:"),
            "grant": self.grant,
            "signer": signer,
        }
        known = ledger.annexes(self.scope.agent).get(self.annex.agent, {})
        if {name: known.get(name) for name in body} != body or known.get("quarantined"):
            ledger.annex(self.annex.agent, body)

    def report(
        self, source: str, verification: Verification | None = None, findings: Iterable[Finding] = ()
    ) -> ImportReport:
        """What became of everything."""
        report = ImportReport(
            source=source,
            dry_run=self.dry_run,
            verification=verification or Verification(status="unsigned"),
            reasons=tuple(dict.fromkeys(self.reasons))[:REASONS],
            findings=tuple(findings),
        )
        return report.model_copy(update={name: self.counts[name] for name in COUNTED})


def _began(memory: Memory) -> tuple[str, str, str] | None:
    told = memory.metadata.get(LINEAGE)
    if not isinstance(told, dict):
        return None
    return str(told.get("installation")), str(told.get("agent")), str(told.get("id"))


def _batches(items: Iterable[T]) -> Iterator[list[T]]:
    rest = iter(items)
    while some := list(islice(rest, BATCH)):
        yield some


def _is_ours(file: Path) -> bool:
    """Whether a file begins as one that Engram wrote."""
    if file.is_dir():
        return False
    with opened(file, LIMITS) as copy:
        return b"engram_knowledge" in copy.stream.read(200)


def _as_draft(each: Incoming) -> Draft:
    return Draft(
        each.text,
        kind=each.kind,
        tags=each.tags,
        at=each.at,
        session=each.session,
        role=each.role,
        speaker=each.speaker,
        context=each.context,
        content=each.content,
        metadata=each.metadata,
        key=f"import:{each.source}:{digest(each.original_id)}",
        origin=Origin.IMPORTED,
    )


def _summed(reports: list[ImportReport]) -> ImportReport:
    sums = {name: sum(getattr(report, name) for report in reports) for name in COUNTED}
    reasons = tuple(dict.fromkeys(reason for report in reports for reason in report.reasons))
    return reports[0].model_copy(update={**sums, "reasons": reasons[:REASONS]})
