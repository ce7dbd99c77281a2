"""Whose knowledge an agent may use besides its own: by grants, through lenses, and by imports.

Nothing that is lent is copied into the agent's own memories; each lender keeps its name, and earns its trust.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from pydantic import JsonValue

from engram.clock import Sources
from engram.errors import Hint, InvalidInput, NotFound
from engram.learning.decisions.beta import Beta
from engram.learning.patterns.pattern_lookup import PatternName, find_patterns, name_words
from engram.learning.patterns.successes import slug
from engram.learning.service import Learning
from engram.learning.state import Experience
from engram.model import Clean, FailurePattern, Hit, KnowledgeContent, Memory, MemoryType, Origin
from engram.model.grant import Grant, GrantUse, Right, Source, Subject
from engram.ports import Event, Filter, Placed, Query, Scope, Store
from engram.sharing.ledger import LEDGER, LINEAGE, Ledger
from engram.sharing.lens import Lens, lens
from engram.text.terms import digest, normal_form

USES = Scope("\x1fuses")
"""The reserved scope that keeps who used which grant."""
INSTALLATION = "installation"
"""The setting with the name of this database, by which others know it."""
SINCE = "since"
"""Field of an imported source with the time of the last unsigned import."""
LENT = frozenset({Origin.SHARED, Origin.IMPORTED})
FIRST_TRUST = Beta(1.5, 3.5)
"""What is believed of a source before it has helped or hindered: 0.3."""
LEAST_WEIGHT = 0.6
"""What the score of a lent memory is worth if its source is not trusted at all."""
MOST = 1_000_000
NAMED = 20
LENSES = 64
UNSIGNED = "unsigned"
"""Whoever does not sign can call himself anything: all of them have one voice together."""
SHOWING = frozenset({"recall", "list"})
"""The uses of a grant in which memories are shown to the one who uses it."""
TRUST, USED = "source", "use"
_DOMAINS = frozenset({MemoryType.KNOWLEDGE, MemoryType.DECISION, MemoryType.FAILURE})
_IN_CONTEXTS = frozenset({MemoryType.DECISION, MemoryType.FAILURE, MemoryType.SUCCESS})


@dataclass(frozen=True, slots=True)
class Lender:
    """Somebody whose knowledge may be used: who it is, by which grant or import, and where it is."""

    name: str
    key: str
    id: str
    scope: Scope
    store: Store
    learning: Learning
    origin: Origin
    grants: tuple[Grant, ...] = ()
    since: datetime | None = None
    """From when on it counts that it helped, if nothing proves that it was the same one before."""

    def as_lent(self, memory: Memory, trust: float) -> Memory:
        """A memory as its borrower sees it: whose it is, how it came, and no more trusted than who lent it."""
        provenance = memory.provenance.model_copy(update={"origin": self.origin})
        changes = {"agent": self.name, "provenance": provenance, "trust": min(memory.trust, trust)}
        return memory.model_copy(update=changes)


def _was_known(failure: FailurePattern, by: datetime | None) -> bool:
    return by is None or failure.first_seen <= by


class Sharing:
    """Who lends to whom in one database."""

    def __init__(
        self,
        store: Store,
        experience: Experience,
        sources: Sources,
        near: Callable[[Clean], Placed | None],
        clean: Callable[[str, str], Clean],
    ) -> None:
        self._store = store
        self._experience = experience
        self._sources = sources
        self._near = near
        self._clean = clean
        self.ledger = Ledger(store, sources)
        """Grants, groups and imported sources; none on a store that keeps no events."""
        self._lenses: OrderedDict[tuple[str, str], tuple[Lens, Experience]] = OrderedDict()
        self._fields: dict[tuple[str, str], tuple[str, ...]] = {}
        self._met: set[tuple[str, str]] = set()
        self._lock = threading.Lock()

    # Who lends -----------------------------------------------------------------------------------------

    def lenders(self, reader: Scope, right: Right) -> list[Lender]:
        """Those whose knowledge an agent may read or learn from now."""
        chains, imported = self.ledger.lent_to(reader.agent, right)
        found = [self._by_grant(reader, chain) for chain in chains]
        by_id = {chain[0].id: chain for chain in chains}
        signed_first = sorted(imported.items(), key=lambda item: (not item[1].get("signer"), item[0]))
        for name, body in signed_first:
            if body.get("quarantined"):
                continue
            if not (grant := str(body.get("grant") or "")):
                found.append(self._imported_lender(name, body))
            elif grant in by_id:  # a copy is worth what the grant is that it was made under, at this moment
                found.append(self._copied(reader, name, body, by_id[grant]))
        return found

    def importers(self) -> frozenset[str]:
        """List the agents that imported something, also those that have stored nothing themselves."""
        bodies = self.ledger.imported_sources().values()
        return frozenset(str(body["receiver"]) for body in bodies if not (body.get("gone") or body.get("quarantined")))

    def _by_grant(self, reader: Scope, chain: tuple[Grant, ...]) -> Lender:
        grant, owner = chain[0], Scope(chain[0].owner)
        ids = self.covered(chain)
        with self._lock:
            view, experience = self._lenses.get((grant.id, reader.agent), (None, None))
            if view is None or experience is None or not self._grew(view, experience, ids):
                view = lens(self._store, owner, reader, ids)
                experience = Experience(view)
            view.ids = ids
            self._lenses[grant.id, reader.agent] = (view, experience)
            self._lenses.move_to_end((grant.id, reader.agent))
            if len(self._lenses) > LENSES:
                self._lenses.popitem(last=False)
        learning = Learning(view, owner, experience, self._sources, self._near, self._clean)
        return Lender(grant.owner, f"agent:{grant.owner}", grant.id, owner, view, learning, Origin.SHARED, chain)

    def _grew(self, view: Lens, experience: Experience, ids: frozenset[str] | None) -> bool:
        """Whether what was learned through a lens can go on: only newer things were added to what is covered."""
        if view.ids == ids:
            return True
        if view.ids is None or ids is None or not view.ids <= ids:
            return False
        with experience.of(view.owner) as learned:
            seq = learned.seq
        return all(event.seq > seq for event in self._store.events_of(view.owner, sorted(ids - view.ids)))

    def _imported_lender(self, name: str, body: Mapping[str, JsonValue]) -> Lender:
        scope, source = Scope(name), str(body["source"])
        learning = Learning(self._store, scope, self._experience, self._sources, self._near, self._clean)
        learning.voice = f"key:{body['signer']}" if body.get("signer") else UNSIGNED
        since = datetime.fromisoformat(str(body[SINCE])) if body.get(SINCE) else None
        key, id = f"import:{source}", str(body["id"])
        return Lender(source, key, id, scope, self._store, learning, Origin.IMPORTED, since=since)

    def _copied(self, reader: Scope, name: str, body: Mapping[str, JsonValue], chain: tuple[Grant, ...]) -> Lender:
        scope, owner = Scope(name), chain[0].owner
        view = lens(self._store, scope, reader, self.covered(chain))
        learning = Learning(view, scope, Experience(view), self._sources, self._near, self._clean)
        learning.voice = owner
        return Lender(owner, f"agent:{owner}", f"{chain[0].id}:copy", scope, view, learning, Origin.SHARED, chain)

    # What is covered -----------------------------------------------------------------------------------

    def covered(self, chain: Sequence[Grant]) -> frozenset[str] | None:
        """The memories that a grant covers, and all those it was shared on under; `None` for everything."""
        owner, found = Scope(chain[0].owner), None
        for grant in chain:
            ids = self.about(owner, grant.subject, by=grant.decided_at or grant.made_at)
            found = ids if found is None else found if ids is None else found & ids
        return found

    def about(
        self, owner: Scope, subject: Subject, *, named: bool = False, by: datetime | None = None
    ) -> frozenset[str] | None:
        """The memories of an agent that a subject names; `None` for all of them.

        Patterns are those that had the name at the time `by`, so that nothing else comes under a grant by getting it.
        With `named`, a decision or failure is also of a domain that its context has as a word, such as auth in
        `api-auth-timeout`. A grant never covers that much: its owner agreed to what says itself what it is about.
        """
        if subject.everything:
            return None
        ids = set(subject.memories)
        for tag in {*subject.tags, *subject.domains}:
            query = Query(where=Filter(tags=frozenset({tag})), limit=MOST)
            ids.update(match.id for match in self._store.search(owner, query))
        if subject.domains:
            ids |= self._of_domains(owner, {normal_form(domain) for domain in subject.domains})
            if named:
                ids |= self._of_contexts(owner, [frozenset(name_words(domain)) for domain in subject.domains])
        for name in subject.patterns:
            ids |= self.pattern(owner, name, by) or frozenset()
        return frozenset(ids)

    def pattern(self, owner: Scope, name: str, by: datetime | None = None) -> frozenset[str] | None:
        """The episodes behind a learned pattern; `None` if there is none of this name, or was none at the time `by`.

        A grant that names a failure as an earlier version did means what that name can have meant.
        """
        found = self.known_pattern(owner, name, by)
        if found is not None:
            return found[1]
        formerly = [each for each in self._learning_of(owner).by_former_name(name) if _was_known(each, by)]
        return frozenset(id for failure in formerly for id in failure.episodes) if formerly else None

    def known_pattern(self, owner: Scope, name: str, by: datetime | None = None) -> tuple[str, frozenset[str]] | None:
        """The id of a learned pattern, and the episodes behind it; `None` if there is none of this name.

        A failure takes its name from an approach that had it, and had not at the time `by` if it came later.
        """
        learning = self._learning_of(owner)
        failure = learning.failure(name)
        if failure is not None and _was_known(failure, by):
            return failure.pattern_id, frozenset(failure.episodes)
        successes = learning.synthesis(quiet=True).patterns
        found = [each for each in successes if name in {each.pattern_id, each.name}]
        if not found and failure is not None:
            found = [each for each in successes if slug(each.successful_approach) == name]
        if len(found) != 1:
            return None
        return found[0].pattern_id, frozenset((*found[0].episodes, *found[0].contrast.failures))

    def _learning_of(self, owner: Scope) -> Learning:
        return Learning(self._store, owner, self._experience, self._sources, self._near, self._clean)

    def meant_pattern(self, owner: Scope, word: str) -> str:
        """The name of the one learned pattern that a word means, by its name or by what it is about.

        Raises `NotFound` if there is none, and `InvalidInput` with their names if there are several.
        """
        learning = self._learning_of(owner)
        if learning.failure(word) is not None:
            return word
        every = [
            PatternName(
                f.pattern_id, f.name, (f.error_signature, *f.actions, *f.contexts, *self._labels(owner, f.episodes))
            )
            for f in learning.failures()
        ]
        every += [
            PatternName(
                s.pattern_id, s.name, (s.context_signature, s.successful_approach, *self._labels(owner, s.episodes))
            )
            for s in learning.synthesis().patterns
        ]
        found = find_patterns(word, every)
        if len(found) > 1:
            names = ", ".join(each.name for each in found[:NAMED])
            raise InvalidInput(f"{word!a} can mean several patterns; say which: {names}")
        if not found:
            raise NotFound(f"there is no pattern {word!a}", hint=Hint("memory patterns"))
        return word if word in found[0] else found[0].name

    def _labels(self, owner: Scope, ids: Sequence[str]) -> Iterator[str]:
        """The tags and domains of some memories, of the first few."""
        for memory in self._store.get(owner, ids[:NAMED]):
            if memory is not None:
                yield from (*memory.tags, *_domains(memory))

    def _of_domains(self, owner: Scope, domains: set[str]) -> set[str]:
        """Memories that say themselves which domain they are of; what they say never changes, so it is read once."""
        found = [match.id for match in self._store.search(owner, Query(where=Filter(kinds=_DOMAINS), limit=MOST))]
        fresh = [id for id in found if (owner.agent, id) not in self._fields]
        for memory in self._store.get(owner, fresh):
            if memory is not None:
                self._fields[owner.agent, memory.id] = tuple(map(normal_form, _domains(memory)))
        return {id for id in found if domains & {*self._fields.get((owner.agent, id), ())}}

    def _of_contexts(self, owner: Scope, domains: Sequence[frozenset[str]]) -> set[str]:
        """Find the decisions, failures and successes whose context has all words of a domain."""
        query = Query(where=Filter(kinds=_IN_CONTEXTS), limit=MOST)
        found = self._store.get(owner, [match.id for match in self._store.search(owner, query)])
        return {
            memory.id
            for memory in found
            if memory is not None and any(domain and domain <= _context_words(memory) for domain in domains)
        }

    # Use and trust -------------------------------------------------------------------------------------

    def used(self, reader: Scope, lender: Lender, action: str, count: int, ids: Iterable[str] = ()) -> None:
        """Write down that a lender's knowledge was used, under every grant that allowed it."""
        if not count:
            return
        some, now = list(ids)[:NAMED], self._sources.now()
        body: dict[str, JsonValue] = {"agent": reader.agent, "action": action, "count": count, "ids": [*some]}
        events = [
            Event(self._sources.new_id(), USED, now, grant.id, f"{USED}:{grant.id}", body | {"owner": grant.owner})
            for grant in lender.grants
        ]
        for event in events:  # each is an entry of the audit trail of its own
            self._store.append(USES, [event])

    def uses(self, grant: str, limit: int = 1000) -> list[GrantUse]:
        """The newest uses of a grant, the oldest of them first."""
        return [
            GrantUse(
                grant=grant,
                agent=str(event.body["agent"]),
                action=str(event.body["action"]),
                at=event.at,
                count=int(str(event.body["count"])),
                memories=tuple(str(id) for id in _list(event.body.get("ids"))),
            )
            for event in self._store.events_by_topic(USES, f"{USED}:{grant}", limit)
        ]

    def showed(self, reader: Scope, id: str) -> bool:
        """Tell whether a lent or imported memory was shown to an agent, by a recall or a list."""
        for lender in self.lenders(reader, Right.READ):
            (memory,) = lender.store.get(lender.scope, [id])
            uses = self.uses(lender.grants[0].id) if lender.grants and memory is not None else []
            if any(use.agent == reader.agent and use.action in SHOWING and id in use.memories for use in uses):
                return True
            if memory is not None and not lender.grants and memory.access_count > 0:
                return True
        return False

    def trust(self, reader: Scope, key: str, since: datetime | None = None) -> Beta:
        """What an agent believes of a source, from how often it helped, since when that counts, and hindered."""
        belief = FIRST_TRUST
        for event in self._store.events_by_topic(reader, topic(key), 1000):
            helped, hindered = (float(str(event.body.get(name, 0))) for name in ("helped", "hindered"))
            proven = since is None or event.at >= since
            belief = Beta(belief.a + (helped if proven else 0.0), belief.b + hindered)
        return belief

    def told(self, reader: Scope, recall: str, shares: Mapping[str, tuple[float, float]]) -> None:
        """Count how far each source, by its topic, helped and hindered in one recall; each recall counts once."""
        if not shares:
            return
        now = self._sources.now()
        events = [
            Event(f"{recall}:{source}", TRUST, now, "", source, {"helped": good, "hindered": bad})
            for source, (good, bad) in sorted(shares.items())
        ]
        self._store.append(reader, events)

    def sources(self, reader: Scope) -> list[Source]:
        """Those an agent may learn from or read, and how far it has reason to trust each."""
        both = {each.id: each for right in (Right.READ, Right.LEARN) for each in self.lenders(reader, right)}
        found = []
        for lender in both.values():
            belief = self.trust(reader, lender.key, lender.since)
            found.append(
                Source(
                    name=lender.name,
                    kind="grant" if lender.grants else "import",
                    id=lender.id,
                    trust=round(belief.mean, 4),
                    helped=belief.a - FIRST_TRUST.a,
                    hindered=belief.b - FIRST_TRUST.b,
                    memories=len(lender.store.search(lender.scope, Query(limit=MOST))),
                )
            )
        return found

    # Reading -------------------------------------------------------------------------------------------

    def borrow(self, reader: Scope, ids: Sequence[str], action: str) -> dict[str, Memory]:
        """Lent memories by id, as far as the agent may read them; the use is written down."""
        found: dict[str, Memory] = {}
        missing = list(ids)
        for lender in self.lenders(reader, Right.READ) if missing else []:
            lent = [memory for memory in lender.store.get(lender.scope, missing) if memory is not None]
            if lent:
                trust = self.trust(reader, lender.key, lender.since).mean
                found |= {memory.id: lender.as_lent(memory, trust) for memory in lent}
                self.used(reader, lender, action, len(lent), [memory.id for memory in lent])
                missing = [id for id in missing if id not in found]
        return found

    def listed(self, reader: Scope, query: Query) -> list[Memory]:
        """What is lent, by a query that lists; the use is written down."""
        found = []
        for lender in self.lenders(reader, Right.READ):
            ids = [match.id for match in lender.store.search(lender.scope, query)]
            lent = [memory for memory in lender.store.get(lender.scope, ids) if memory is not None]
            trust = self.trust(reader, lender.key, lender.since).mean if lent else 0.0
            found += [lender.as_lent(memory, trust) for memory in lent]
            self.used(reader, lender, "list", len(lent), ids)
        return found

    def hits(
        self, reader: Scope, look: Callable[[Store, Scope], Sequence[Hit]], own: Sequence[Hit]
    ) -> tuple[list[Hit], dict[str, Lender]]:
        """The agent's own hits with those of its lenders, best first, and which lender each of these came from.

        What is lent counts less the less its source is trusted; what is the agent's own is never shown twice.
        """
        known = {hit.id for hit in own}
        merged, lent = list(own), dict[str, Lender]()
        for lender in self.lenders(reader, Right.READ):
            found = [hit for hit in look(lender.store, lender.scope) if hit.id not in known]
            if not found:
                continue
            trust = self.trust(reader, lender.key, lender.since).mean
            weight = LEAST_WEIGHT + (1 - LEAST_WEIGHT) * trust
            for hit in found:
                known.add(hit.id)
                lent[hit.id] = lender
                memory = lender.as_lent(hit.memory, trust)
                why = {**hit.why, "source": lender.key, "source_trust": round(trust, 3)}
                merged.append(hit.model_copy(update={"memory": memory, "score": hit.score * weight, "why": why}))
        return sorted(merged, key=lambda hit: -hit.score) if lent else merged, lent

    def note_hits(self, reader: Scope, shown: Sequence[Hit], lent: Mapping[str, Lender]) -> None:
        """Write down whose memories were shown."""
        by_lender: dict[str, list[str]] = {}
        lenders = {lender.id: lender for lender in lent.values()}
        for hit in shown:
            if hit.id in lent:
                by_lender.setdefault(lent[hit.id].id, []).append(hit.id)
        for id, ids in by_lender.items():
            self.used(reader, lenders[id], "recall", len(ids), ids)
            if not lenders[id].grants:
                self._store.touch(lenders[id].scope, ids, self._sources.now())
            self._meet(reader, lenders[id].key)

    def _meet(self, reader: Scope, key: str) -> None:
        """Write down that an agent has used a source, so that there is somebody to tell how that went."""
        if (reader.agent, key) not in self._met:
            self.told(reader, "met", {topic(key): (0.0, 0.0)})
            self._met.add((reader.agent, key))


def import_scope(receiver: Scope, source: str) -> Scope:
    """The reserved scope that keeps what an agent imported from a source."""
    return Scope(f"\x1fannex:{digest(receiver.agent, source)}")


def _domains(memory: Memory) -> tuple[str, ...]:
    content = memory.content
    named = content.domain if isinstance(content, KnowledgeContent) else getattr(content, "task_type", "")
    return (named,) if named else ()


def _context_words(memory: Memory) -> frozenset[str]:
    said = getattr(memory.content, "decision_context", "") or getattr(memory.content, "context_signature", "")
    return frozenset(name_words(f"{memory.context} {said}"))


def topic(key: str) -> str:
    """What stands for a source where an agent keeps how far it helped: no name, so that none is left behind."""
    return digest(TRUST, key)


def _list(value: JsonValue) -> list[JsonValue]:
    return value if isinstance(value, list) else []


__all__ = ["INSTALLATION", "LEDGER", "LENT", "LINEAGE", "USES", "Lender", "Sharing", "import_scope", "topic"]
