"""Taking in what others say: looked at batch by batch, kept apart from what is the agent's own, and given no rights.

A dry run looks at everything in the same way and says the same; it only stores nothing.
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
from engram.model.bundle import CarriedEvent, CarriedMemory, CarriedPattern, Finding, Incoming, Lineage, Verification
from engram.model.transfer import ImportReport
from engram.ports import Entry, Event, KeepsEvents, Scope, acting, arguments
from engram.privacy.instructions import any_instruction, is_instruction
from engram.recording.draft import MAX_LABEL, merge_key, prepare, readable
from engram.recording.quarantine import apart, meant_for
from engram.sharing.lenders import LINEAGE, SINCE, annex
from engram.system import batched
from engram.text.terms import digest, normal_form
from engram.transfer import bundle
from engram.transfer.bundle import Holder
from engram.transfer.privileges import Privileges

if TYPE_CHECKING:
    from engram.engine import Engram


FIRST_TRUST = 0.3
MOST_EVIDENCE = 5
"""What one source may say about how often it saw something."""
MOST_OUTCOMES = 100
"""How often the outcome of one decision may be told."""
MOST_CHECKS = 100
LONGEST_CHECK = 4000
BATCH = 500
"""So many memories are looked at together, and stored in one transaction."""
REASONS = 20
COUNTED = ("stored", "merged", "known", "own", "quarantined", "rejected", "outcomes")
INSTRUCTIONS = "it tells an agent what to do"
Began = tuple[str, str, str]


class Candidate(NamedTuple):
    """Something that may be stored: its name for messages, how it is made, and why it has to be reviewed before.

    `again` makes it under another id, if something else waits for review under the first.
    """

    name: str
    make: Callable[[], Entry]
    doubt: str = ""
    again: Callable[[], Entry] | None = None


class Doubtful(NamedTuple):
    """Something that has to be reviewed, and why."""

    candidate: Candidate
    entry: Entry
    doubt: str


@dataclass
class Desk:
    """Where what comes in is looked at, and put into the scope it is meant for."""

    brain: Engram
    scope: Scope
    """Whose import it is."""
    target: Scope
    """Where it is kept."""
    source: str
    """Who says so."""
    grant: str = ""
    dry_run: bool = False
    suspects: bool = True
    """Whether what reads like an instruction waits for review."""
    counts: Counter[str] = field(default_factory=Counter)
    reasons: list[str] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    _said: dict[str, datetime | None] = field(default_factory=dict)
    """The statements that this import made, and when each ends."""
    _keys: dict[str, str] = field(default_factory=dict)

    @cached_property
    def privileges(self) -> Privileges:
        """What nothing that comes in can give itself."""
        return Privileges.of(self.brain.store)

    @cached_property
    def name(self) -> Callable[[str], Clean]:
        """A clean name, of those that come again and again."""
        return lru_cache(maxsize=1024)(self.brain.clean)

    def acting(self) -> AbstractContextManager[None]:
        """What is done here is done by the receiver, for itself."""
        return acting(self.scope.agent, agent=self.scope.agent, grant=self.grant)

    def take(self, candidates: Iterable[Candidate]) -> list[Entry]:
        """Store a batch, or see what would become of it; the entries that are new."""
        news, doubtful = list[tuple[str, Entry]](), list[Doubtful]()
        for candidate in candidates:
            try:
                entry = candidate.make()
            except InvalidInput as error:
                self._reject(candidate.name, str(error))
                continue
            if not self._is_first(candidate.name, entry):
                continue
            if doubt := candidate.doubt or self._suspicion(candidate.name, entry.memory):
                doubtful.append(Doubtful(candidate, entry, doubt))
            elif self._is_news(entry):
                news.append((candidate.name, entry))
        fresh, waiting = self._fresh(news), self._unreviewed(doubtful)
        if self.dry_run:
            self.counts["stored"] += len(fresh)
        else:
            self._store(fresh, waiting)
        return fresh

    def _suspicion(self, name: str, memory: Memory) -> str:
        if not self.suspects or not any_instruction(readable(memory)):
            return ""
        self.findings.append(Finding(code="instructions", record=name, reason=INSTRUCTIONS))
        return INSTRUCTIONS

    def _is_first(self, name: str, entry: Entry) -> bool:
        """Whether this import has not brought anything under the same key."""
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

    def _is_news(self, entry: Entry) -> bool:
        """Whether this import has not said the same before: said often is said once."""
        memory = entry.memory
        if entry.merge_key is None:
            return True
        if entry.merge_key in self._said:
            ended = self._said[entry.merge_key]
            if ended is None or ended > memory.valid_from:
                self.counts["merged"] += 1
                return False
        self._said[entry.merge_key] = memory.valid_until
        return True

    def _unreviewed(self, doubtful: Sequence[Doubtful]) -> list[tuple[Entry, str]]:
        """Those that neither wait for review nor were released, each with why it has to wait."""
        waits, unknown = apart(self.scope), list[Doubtful]()
        here = self.brain.store.get(waits, [each.entry.memory.id for each in doubtful]) if doubtful else []
        for each, other in zip(doubtful, here, strict=True):
            if other is None or each.candidate.again is None:
                unknown.append(each)
            elif _same(other, each.entry.memory):
                self.counts["known"] += 1
            else:
                unknown.append(each._replace(entry=each.candidate.again()))
        for place in (waits, self.target):
            unknown = self._unkept(place, unknown)
        self.counts["quarantined"] += len(unknown)
        self.reasons += [f"{each.candidate.name}: {each.doubt}" for each in unknown]
        return [(each.entry, f"from {self.source}: {each.doubt}") for each in unknown]

    def _unkept(self, place: Scope, doubtful: Sequence[Doubtful]) -> list[Doubtful]:
        """Those under whose key, if they have one, a scope keeps nothing; the others are counted."""
        store, found = self.brain.store, list[Doubtful]()
        if all(each.entry.key is None for each in doubtful):
            return list(doubtful)
        there = [each.entry.memory.model_copy(update={"agent": place.agent}) for each in doubtful]
        entries = [Entry(memory, key=each.entry.key) for memory, each in zip(there, doubtful, strict=True)]
        for each, receipt in zip(doubtful, store.foresee(place, entries), strict=True):
            if receipt.code is None:
                found.append(each)
            else:
                self._answered(each.candidate.name, receipt)
        return found

    def _fresh(self, news: Sequence[tuple[str, Entry]]) -> list[Entry]:
        """Those that are new to the store, too; what it has already stays as it is."""
        store, fresh = self.brain.store, list[Entry]()
        if not news:
            return [entry for _, entry in news]
        receipts = store.foresee(self.target, [entry for _, entry in news])
        for (name, entry), receipt in zip(news, receipts, strict=True):
            if receipt.status == "stored" and receipt.code is None:
                fresh.append(entry)
            else:
                self._answered(name, receipt)
        return fresh

    def _answered(self, name: str, receipt: Receipt) -> None:
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
                placed, _ = self.brain.embed(fresh)
                for receipt in self.brain.store.add(self.target, placed):
                    self._count(receipt)

    def report(
        self,
        source: str,
        format: str = "engram",
        verification: Verification | None = None,
        findings: Iterable[Finding] = (),
    ) -> ImportReport:
        """What became of everything."""
        report = ImportReport(
            source=source,
            format=format,
            dry_run=self.dry_run,
            verification=verification or Verification(status="unsigned"),
            reasons=tuple(dict.fromkeys(self.reasons))[:REASONS],
            findings=tuple([*findings, *self.findings][: bundle.MOST_FINDINGS]),
        )
        return report.model_copy(update={name: self.counts[name] for name in COUNTED})


def foreign(desk: Desk, some: Sequence[Incoming]) -> None:
    """Take in what another program keeps: as memories of the agent itself, each under a key of its own."""
    desk.take([Candidate(each.original_id, partial(_foreign_entry, desk, each)) for each in some])


def _foreign_entry(desk: Desk, each: Incoming) -> Entry:
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
    entry, _ = prepare(desk.privileges.without(draft), desk.scope, desk.brain.redactor, desk.brain.sources)
    return entry


class Arrival(NamedTuple):
    """A memory of a file, where it began, and what was found about it."""

    record: CarriedMemory
    begun: Lineage
    findings: Sequence[Finding] = ()


class _Told(NamedTuple):
    """What can be believed of an outcome: when it was told, how it went, and with which error."""

    at: datetime
    quality: float
    error: str


def annexing(
    brain: Engram, receiver: Holder, source: str, *, grant: str = "", dry_run: bool = False, suspects: bool = True
) -> Desk:
    """The desk for what a source says, by a file or under a grant: it is kept in an annex of its own."""
    scope = Scope(receiver.agent)
    target = annex(scope, f"{source}\x1f{grant}")
    return Desk(brain, scope, target, source, grant=grant, dry_run=dry_run, suspects=suspects)


@dataclass
class Annex:
    """Takes in what a source knows, under the ids that it has there, and how its decisions went."""

    desk: Desk
    receiver: Holder
    teller: str = ""
    """Who says so, if nobody vouches for what it says about others."""
    vouched: bool = True
    _ids: dict[str, str] = field(default_factory=dict)
    """The id here of each memory that is kept, by its id in the file."""
    _taken: dict[str, Began] = field(default_factory=dict)
    """Where what has each id here began, of what this import brought."""
    _decided: set[str] = field(default_factory=set)
    """The decisions that this import brought."""
    _outcomes: defaultdict[str, list[_Told]] = field(default_factory=lambda: defaultdict(list))
    _checks: list[tuple[str, str, str, str]] = field(default_factory=list)
    """By the id here of a failure: the name of a check of it, what to verify, and its stage."""
    _was_there: bool = False

    @cached_property
    def _places(self) -> list[str]:
        """The annexes that the receiver uses, this one first; a file outlasts the grants that copies rest on."""
        known = self.desk.brain.sharing.ledger.annexes(self.receiver.agent).items()
        own, lasts = self.desk.target.agent, not self.desk.grant
        usable = [name for name, body in known if not body.get("quarantined") and not (lasts and body.get("grant"))]
        return [own, *(name for name in usable if name != own)]

    # Memories ------------------------------------------------------------------------------------------

    def memories(self, some: Sequence[Arrival]) -> None:
        """Take a batch in: what is known by whatever way, or is the receiver's own, counts no second time."""
        own, target = self._own(some), self.desk.target.agent
        ids = [self._id(arrival.begun) for arrival in some]
        began = [self._began(arrival.begun) for arrival in some]
        there = {name: self._there(name, ids) for name in self._places}
        others = [_other(each) for each in began]
        there[target] |= self._there(target, others)
        waiting = self._waiting([*ids, *others])
        candidates, names = list[Candidate](), dict[str, str]()
        for arrival, id, begun in zip(some, ids, began, strict=True):
            record = arrival.record
            if self._is_own(arrival.begun) and arrival.begun.id in own:
                self.desk.counts["own"] += 1
                continue
            place, known = self._place(record, id, begun, there, waiting)
            if known:
                self.desk.counts["known"] += 1
                self._ids[record.id] = place
                continue
            self._taken[place] = begun
            names[place] = record.id
            bad = [finding.reason for finding in arrival.findings if finding.code == "forged-origin"]
            make = partial(self._entry, record, arrival.begun)
            doubt, again = bad[0] if bad else "", partial(make, _other(begun))
            candidates.append(Candidate(record.id, partial(make, place), doubt, again))
        for entry in self.desk.take(candidates):
            self._ids[names[entry.memory.id]] = entry.memory.id
            if any(event.kind == happened.DECISION for event in entry.events):
                self._decided.add(entry.memory.id)

    def _is_own(self, begun: Lineage) -> bool:
        return (begun.agent, begun.installation) == (self.receiver.agent, self.receiver.installation)

    def _own(self, some: Sequence[Arrival]) -> set[str]:
        ids = [arrival.begun.id for arrival in some if self._is_own(arrival.begun)]
        return set(self._there(self.receiver.agent, ids))

    def _there(self, agent: str, ids: Sequence[str]) -> dict[str, Memory]:
        found = self.desk.brain.store.get(Scope(agent), list(dict.fromkeys(ids))) if ids else []
        return {memory.id: memory for memory in found if memory is not None}

    def _waiting(self, ids: Sequence[str]) -> dict[str, Memory]:
        """What waits for review, of what this source brought before."""
        found = self._there(apart(self.desk.scope).agent, ids)
        places = meant_for(self.desk.brain.store, self.desk.scope, list(found))
        return {id: memory for id, memory in found.items() if places.get(id) == self.desk.target.agent}

    def _id(self, begun: Lineage) -> str:
        """The id that a memory has where it began, if it can be one here."""
        plain = len(begun.id) <= 64 and arguments.is_id(begun.id) and self.desk.brain.clean(begun.id) == begun.id
        return begun.id if plain else digest(begun.agent, begun.id)

    def _is_taken(self, id: str) -> bool:
        return id in self._taken or id in self.desk.privileges.ids

    def _began(self, begun: Lineage) -> Began:
        return self.desk.name(begun.installation), self.desk.name(begun.agent), self.desk.brain.clean(begun.id)

    def _place(
        self,
        record: CarriedMemory,
        id: str,
        began: Began,
        there: Mapping[str, Mapping[str, Memory]],
        waiting: Mapping[str, Memory],
    ) -> tuple[str, bool]:
        """The id for a memory here, and whether just this has come before, by this or by another way."""
        target, other = self.desk.target.agent, _other(began)
        for name, memories in there.items():
            known = memories.get(id)
            same = known is not None and _began(known) == began
            if known is not None and same and (name == target or self._says(known, record.text)):
                self._was_there = self._was_there or name == target
                return id, True
        for one in (id, other):
            if self._taken.get(one) == began:
                return one, True
            if one in waiting and _began(waiting[one]) == began:
                self._was_there = True
                return one, True
        if other in there[target]:
            return other, True
        return (other if id in there[target] or self._is_taken(id) else id), False

    def _says(self, memory: Memory, text: str) -> bool:
        """Whether what came by another way says just this; somebody may have pretended that it does."""
        return normal_form(memory.text) == normal_form(self.desk.brain.clean(text))

    def _entry(self, record: CarriedMemory, begun: Lineage, id: str) -> Entry:
        desk, name = self.desk, self.desk.name
        draft = desk.privileges.without(bundle.draft(record))
        entry, _ = prepare(draft, desk.target, desk.brain.redactor, desk.brain.sources)
        author = begun.agent if self.vouched or not begun.hands else self.teller
        lineage: dict[str, JsonValue] = {
            "agent": name(begun.agent),
            "installation": name(begun.installation),
            "id": desk.brain.clean(begun.id),
            "hands": [name(hand.agent) for hand in begun.hands],
        }
        provenance = {"origin": Origin.IMPORTED, "author": name(author)}
        memory = entry.memory.model_copy(
            update={
                "id": id,
                "metadata": {**entry.memory.metadata, LINEAGE: lineage},
                "provenance": entry.memory.provenance.model_copy(update=provenance),
                "trust": FIRST_TRUST,
                "evidence": min(record.evidence, MOST_EVIDENCE),
            }
        )
        event = happened.event_of(memory)
        return Entry(memory, merge_key=merge_key(memory), events=() if event is None else (event,))

    # Outcomes ------------------------------------------------------------------------------------------

    def event(self, record: CarriedEvent) -> None:
        """Note how a decision went that is kept here; what a decision or failure was, the memory itself says."""
        if record.kind != happened.OUTCOME or record.subject not in self._ids:
            return
        quality, error = record.body.get("quality"), record.body.get("error")
        if isinstance(quality, bool) or not isinstance(quality, int | float) or not 0 <= quality <= 1:
            self.desk.reasons.append(f"{record.id}: an outcome is a number from 0 to 1")
            return
        said = error if isinstance(error, str) and error.strip() else ""
        if said and is_instruction(said):
            self.desk.reasons.append(f"{record.id}: its error {INSTRUCTIONS.removeprefix('it ')}, and was left out")
            said = ""
        self._outcomes[self._ids[record.subject]].append(_Told(record.at, float(quality), said))

    def pattern(self, record: CarriedPattern) -> None:
        """Note the checks of a failure that is kept here; patterns and templates are found anew from the events."""
        checks, episodes = record.detail.get("checks"), record.detail.get("episodes")
        if record.kind != "failure" or not isinstance(checks, list) or not isinstance(episodes, list):
            return
        here = [self._ids[id] for id in map(str, episodes[:MOST_CHECKS]) if id in self._ids]
        for check in checks[:MOST_CHECKS] if here else ():
            told = check if isinstance(check, dict) else {}
            said = [told.get(name) for name in ("name", "verify", "stage")]
            texts = [text if isinstance(text, str) and len(text) <= LONGEST_CHECK else "" for text in said]
            if not all(text.strip() for text in texts[:2]):
                self.desk.reasons.append(f"{record.id}: a check has a name and says what to verify")
            elif any(is_instruction(text) for text in texts if text):
                self.desk.reasons.append(f"{record.id}: its check {INSTRUCTIONS.removeprefix('it ')}, and was left out")
            else:
                clean = self.desk.brain.clean
                name, verify, stage = (clean(text) if text.strip() else "" for text in texts)
                self._checks.append((here[0], name, verify, stage))

    def _keep_checks(self, store: KeepsEvents) -> None:
        """Keep the checks that came along, each once, beside the failure that they are about."""
        brain, target, fresh = self.desk.brain, self.desk.target, list[Event]()
        learning = Learning(brain.store, target, brain.experience, brain.sources, brain.similar, brain.gate.clean)
        for episode, name, verify, stage in self._checks:
            if (known := learning.failure(episode)) is None:
                continue
            body: dict[str, JsonValue] = {"about": known.pattern_id, "name": name, "verify": verify, "status": "active"}
            body |= {"stage": stage} if stage else {}
            id = digest("check", target.agent, known.pattern_id, name)
            fresh.append(Event(id, happened.CHECK, brain.sources.now(), episode, "", body))
        if fresh:
            with self.desk.acting():
                store.append(target, fresh)

    def finish(self, *, signer: str | None = None) -> None:
        """Store how decisions went and which checks there are, and make the annex known to its receiver."""
        store = self.desk.brain.store
        for some in batched(self._outcomes, BATCH):
            self._tell(store, some)
        if self._checks and not self.desk.dry_run:
            self._keep_checks(store)
        if not self.desk.dry_run:
            self._register(signer)

    def _tell(self, store: KeepsEvents, ids: Sequence[str]) -> None:
        """Keep the outcomes of some decisions, in one transaction."""
        desk, fresh = self.desk, list[Event]()
        there = defaultdict[str, dict[str, Event]](dict)
        for event in store.events_of(desk.target, ids):
            there[event.subject][event.id] = event
        for id in ids:
            told = sorted(self._outcomes[id])
            if len(told) > MOST_OUTCOMES:
                desk.reasons.append(f"{id}: of {len(told):,} outcomes of one decision the first {MOST_OUTCOMES} count")
            decision = next((event for event in there[id].values() if event.kind == happened.DECISION), None)
            if decision is not None:
                made = self._made(decision, told[:MOST_OUTCOMES])
                fresh += [event for event in made if event.id not in there[id]]
            elif desk.dry_run and id in self._decided:
                desk.counts["outcomes"] += len(told[:MOST_OUTCOMES])
        if desk.dry_run:
            desk.counts["outcomes"] += len(fresh)
        elif fresh:
            with desk.acting():
                desk.counts["outcomes"] += sum(store.append(desk.target, fresh))

    def _made(self, decision: Event, told: Sequence[_Told]) -> Iterator[Event]:
        """The outcomes of one decision, made anew from what can be believed of them."""
        before = happened.number(decision, "quality")
        for number, (at, quality, error) in enumerate(told, 1):
            said = self.desk.brain.clean(error) if error else ""
            yield happened.outcome_of(decision, number, at, quality, before, error=said)
            before = quality

    def _register(self, signer: str | None) -> None:
        desk = self.desk
        ledger, name = desk.brain.sharing.ledger, desk.target.agent
        known = ledger.annexes(self.receiver.agent).get(name)
        news = desk.counts["stored"] or desk.counts["outcomes"]
        if not (news or desk.counts["quarantined"]) and (known is not None or not self._was_there):
            return
        body: dict[str, JsonValue] = {
            "receiver": self.receiver.agent,
            "source": desk.source,
            "id": name.removeprefix("\x1fannex:"),
            "grant": desk.grant,
            "signer": signer,
        }
        if news and not desk.grant and signer is None:  # whoever that was, it is not known to be the one from before
            body[SINCE] = desk.brain.sources.now().isoformat()
        elif known is not None and SINCE in known:
            body[SINCE] = known[SINCE]
        if known is None or {key: known.get(key) for key in body} != body or known.get("quarantined"):
            with desk.acting():
                ledger.annex(name, body)


def _other(began: Began) -> str:
    """The id for what has the same one as something of somebody else, so that both can stay."""
    return digest("began", *began)


def _same(one: Memory, other: Memory) -> bool:
    """Whether two began at the same place and say the same."""
    return _began(one) == _began(other) and normal_form(one.text) == normal_form(other.text)


def _began(memory: Memory) -> Began | None:
    told = memory.metadata.get(LINEAGE)
    if not isinstance(told, dict):
        return None
    return str(told.get("installation")), str(told.get("agent")), str(told.get("id"))
