"""The sources that an agent may use besides its own memories: other agents by grants, and imported files.

Shared memories are not copied into the agent's own; each source is named on what it shares, and earns its own trust.
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
"""The reserved scope that logs the uses of grants."""
INSTALLATION = "installation"
"""The setting with the id of this database in the knowledge files that it exports."""
SINCE = "since"
"""Field of an imported source with the time of the last unsigned import."""
LENT = frozenset({Origin.SHARED, Origin.IMPORTED})
INITIAL_TRUST = Beta(1.5, 3.5)
"""The trust of a source before it has helped or hindered: 0.3 on average."""
MIN_WEIGHT = 0.6
"""The factor on the score of a shared memory whose source has no trust at all."""
MOST = 1_000_000
MOST_LISTED = 20
LENSES = 64
UNSIGNED = "unsigned"
"""The voice of all unsigned imports together, since an unsigned file can claim any author."""
SHOWING_ACTIONS = frozenset({"recall", "list"})
"""The uses of a grant that show memories to its receiver."""
TRUST, USED = "source", "use"
_DOMAINS = frozenset({MemoryType.KNOWLEDGE, MemoryType.DECISION, MemoryType.FAILURE})
_IN_CONTEXTS = frozenset({MemoryType.DECISION, MemoryType.FAILURE, MemoryType.SUCCESS})


@dataclass(frozen=True, slots=True)
class Lender:
    """A source that an agent may use: its name, the grant or import that allows it, and its memories."""

    name: str
    key: str
    id: str
    scope: Scope
    store: Store
    learning: Learning
    origin: Origin
    grants: tuple[Grant, ...] = ()
    since: datetime | None = None
    """The time from which its help counts, if nothing proves that earlier imports came from the same source."""

    def as_shared(self, memory: Memory, trust: float) -> Memory:
        """Return a memory as the reader sees it: with its owner and origin, and trusted no more than its source."""
        provenance = memory.provenance.model_copy(update={"origin": self.origin})
        changes = {"agent": self.name, "provenance": provenance, "trust": min(memory.trust, trust)}
        return memory.model_copy(update=changes)


def _was_known(failure: FailurePattern, by: datetime | None) -> bool:
    return by is None or failure.first_seen <= by


class Sharing:
    """The knowledge shared between the agents of one database: sources, what grants cover, use and trust."""

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
        """Grants, groups and imported sources; empty on a store without events."""
        self._lenses: OrderedDict[tuple[str, str], tuple[Lens, Experience]] = OrderedDict()
        self._fields: dict[tuple[str, str], tuple[str, ...]] = {}
        self._met: set[tuple[str, str]] = set()
        self._lock = threading.Lock()

    def lenders(self, reader: Scope, right: Right) -> list[Lender]:
        """List the sources that an agent may now read or learn from."""
        chains, imported = self.ledger.shared_with(reader.agent, right)
        found = [self._by_grant(reader, chain) for chain in chains]
        by_id = {chain[0].id: chain for chain in chains}
        signed_first = sorted(imported.items(), key=lambda item: (not item[1].get("signer"), item[0]))
        for name, body in signed_first:
            if body.get("quarantined"):
                continue
            if not (grant := str(body.get("grant") or "")):
                found.append(self._imported_lender(name, body))
            elif grant in by_id:  # a copy can be used only as far as the grant it was made under allows now
                found.append(self._merged_copy(reader, name, body, by_id[grant]))
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
            if view is None or experience is None or not self._can_extend(view, experience, ids):
                view = lens(self._store, owner, reader, ids)
                experience = Experience(view)
            view.ids = ids
            self._lenses[grant.id, reader.agent] = (view, experience)
            self._lenses.move_to_end((grant.id, reader.agent))
            if len(self._lenses) > LENSES:
                self._lenses.popitem(last=False)
        learning = Learning(view, owner, experience, self._sources, self._near, self._clean)
        return Lender(grant.owner, f"agent:{grant.owner}", grant.id, owner, view, learning, Origin.SHARED, chain)

    def _can_extend(self, view: Lens, experience: Experience, ids: frozenset[str] | None) -> bool:
        """Check that learning through a lens can continue: the coverage gained only memories with newer events."""
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

    def _merged_copy(self, reader: Scope, name: str, body: Mapping[str, JsonValue], chain: tuple[Grant, ...]) -> Lender:
        scope, owner = Scope(name), chain[0].owner
        view = lens(self._store, scope, reader, self.covered(chain))
        learning = Learning(view, scope, Experience(view), self._sources, self._near, self._clean)
        learning.voice = owner
        return Lender(owner, f"agent:{owner}", f"{chain[0].id}:copy", scope, view, learning, Origin.SHARED, chain)

    def covered(self, chain: Sequence[Grant]) -> frozenset[str] | None:
        """Return the memories covered by a grant and by every grant that it reshares; `None` for everything."""
        owner, found = Scope(chain[0].owner), None
        for grant in chain:
            ids = self.covered_by(owner, grant.subject, by=grant.decided_at or grant.made_at)
            found = ids if found is None else found if ids is None else found & ids
        return found

    def covered_by(
        self, owner: Scope, subject: Subject, *, named: bool = False, by: datetime | None = None
    ) -> frozenset[str] | None:
        """Return the memories of an agent that a subject names; `None` for all of them.

        A pattern counts only if it had its name at the time `by`, so that a later pattern of the same name is not
        covered. With `named`, a domain also includes decisions, failures and successes that have it as a word in their
        context, such as auth in `api-auth-timeout`; grants leave this out, since their owner agreed only to memories
        that state the domain themselves.
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
        """Return the episodes behind a learned pattern; `None` if none has this name, or had it at the time `by`.

        A name that earlier versions gave to failures stands for all failures that can have had it.
        """
        found = self.known_pattern(owner, name, by)
        if found is not None:
            return found[1]
        formerly = [each for each in self._learning_of(owner).by_former_name(name) if _was_known(each, by)]
        return frozenset(id for failure in formerly for id in failure.episodes) if formerly else None

    def known_pattern(self, owner: Scope, name: str, by: datetime | None = None) -> tuple[str, frozenset[str]] | None:
        """Return the id of a learned pattern and the episodes behind it; `None` if none has this name.

        If a failure and a success pattern share a name, it means the failure, unless that was first seen after `by`.
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

    def resolve_pattern(self, owner: Scope, word: str) -> str:
        """Resolve a name or a subject word to the name of the one learned pattern that it matches.

        Raises `NotFound` if none matches, and `InvalidInput` with their names if several do.
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
            names = ", ".join(each.name for each in found[:MOST_LISTED])
            raise InvalidInput(f"{word!a} can mean several patterns; say which: {names}")
        if not found:
            raise NotFound(f"there is no pattern {word!a}", hint=Hint("memory patterns"))
        return word if word in found[0] else found[0].name

    def _labels(self, owner: Scope, ids: Sequence[str]) -> Iterator[str]:
        """Yield the tags and domains of the first few of these memories."""
        for memory in self._store.get(owner, ids[:MOST_LISTED]):
            if memory is not None:
                yield from (*memory.tags, *_domains(memory))

    def _of_domains(self, owner: Scope, domains: set[str]) -> set[str]:
        """Find the memories that state one of these domains; a memory's domain never changes, so it is read once."""
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

    def log_use(self, reader: Scope, lender: Lender, action: str, count: int, ids: Iterable[str] = ()) -> None:
        """Log a use of a lender's knowledge under every grant that allowed it."""
        if not count:
            return
        some, now = list(ids)[:MOST_LISTED], self._sources.now()
        body: dict[str, JsonValue] = {"agent": reader.agent, "action": action, "count": count, "ids": [*some]}
        events = [
            Event(self._sources.new_id(), USED, now, grant.id, f"{USED}:{grant.id}", body | {"owner": grant.owner})
            for grant in lender.grants
        ]
        for event in events:  # one at a time, so that each is an audit entry of its own
            self._store.append(USES, [event])

    def uses(self, grant: str, limit: int = 1000) -> list[GrantUse]:
        """List the newest uses of a grant, oldest first."""
        return [
            GrantUse(
                grant=grant,
                agent=str(event.body["agent"]),
                action=str(event.body["action"]),
                at=event.at,
                count=int(str(event.body["count"])),
                memories=tuple(str(id) for id in _as_list(event.body.get("ids"))),
            )
            for event in self._store.events_by_topic(USES, f"{USED}:{grant}", limit)
        ]

    def was_shown(self, reader: Scope, id: str) -> bool:
        """Check if a shared or imported memory was shown to an agent by a recall or a list."""
        for lender in self.lenders(reader, Right.READ):
            (memory,) = lender.store.get(lender.scope, [id])
            uses = self.uses(lender.grants[0].id) if lender.grants and memory is not None else []
            if any(use.agent == reader.agent and use.action in SHOWING_ACTIONS and id in use.memories for use in uses):
                return True
            if memory is not None and not lender.grants and memory.access_count > 0:
                return True
        return False

    def trust(self, reader: Scope, key: str, since: datetime | None = None) -> Beta:
        """Return an agent's trust in a source, from how much it helped (`since` a time, if given) and hindered."""
        belief = INITIAL_TRUST
        for event in self._store.events_by_topic(reader, topic(key), 1000):
            helped, hindered = (float(str(event.body.get(name, 0))) for name in ("helped", "hindered"))
            proven = since is None or event.at >= since
            belief = Beta(belief.a + (helped if proven else 0.0), belief.b + hindered)
        return belief

    def record_help(self, reader: Scope, recall: str, shares: Mapping[str, tuple[float, float]]) -> None:
        """Record how far each source, by its topic, helped and hindered in one recall; each recall counts once."""
        if not shares:
            return
        now = self._sources.now()
        events = [
            Event(f"{recall}:{source}", TRUST, now, "", source, {"helped": good, "hindered": bad})
            for source, (good, bad) in sorted(shares.items())
        ]
        self._store.append(reader, events)

    def sources(self, reader: Scope) -> list[Source]:
        """List the sources that an agent may read or learn from, with its trust in each."""
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
                    helped=belief.a - INITIAL_TRUST.a,
                    hindered=belief.b - INITIAL_TRUST.b,
                    memories=len(lender.store.search(lender.scope, Query(limit=MOST))),
                )
            )
        return found

    def get_shared(self, reader: Scope, ids: Sequence[str], action: str) -> dict[str, Memory]:
        """Return shared memories by id, as far as the agent may read them, and log the use."""
        found: dict[str, Memory] = {}
        missing = list(ids)
        for lender in self.lenders(reader, Right.READ) if missing else []:
            shared = [memory for memory in lender.store.get(lender.scope, missing) if memory is not None]
            if shared:
                trust = self.trust(reader, lender.key, lender.since).mean
                found |= {memory.id: lender.as_shared(memory, trust) for memory in shared}
                self.log_use(reader, lender, action, len(shared), [memory.id for memory in shared])
                missing = [id for id in missing if id not in found]
        return found

    def list_shared(self, reader: Scope, query: Query) -> list[Memory]:
        """List the memories shared with an agent that match a query, and log the use."""
        found = []
        for lender in self.lenders(reader, Right.READ):
            ids = [match.id for match in lender.store.search(lender.scope, query)]
            shared = [memory for memory in lender.store.get(lender.scope, ids) if memory is not None]
            trust = self.trust(reader, lender.key, lender.since).mean if shared else 0.0
            found += [lender.as_shared(memory, trust) for memory in shared]
            self.log_use(reader, lender, "list", len(shared), ids)
        return found

    def merge_hits(
        self, reader: Scope, search: Callable[[Store, Scope], Sequence[Hit]], own: Sequence[Hit]
    ) -> tuple[list[Hit], dict[str, Lender]]:
        """Merge the agent's own hits with those of its lenders, best first; also return the lender of each shared hit.

        The score of a shared hit is reduced by the lack of trust in its source; every memory appears once.
        """
        known = {hit.id for hit in own}
        merged, shared = list(own), dict[str, Lender]()
        for lender in self.lenders(reader, Right.READ):
            found = [hit for hit in search(lender.store, lender.scope) if hit.id not in known]
            if not found:
                continue
            trust = self.trust(reader, lender.key, lender.since).mean
            weight = MIN_WEIGHT + (1 - MIN_WEIGHT) * trust
            for hit in found:
                known.add(hit.id)
                shared[hit.id] = lender
                memory = lender.as_shared(hit.memory, trust)
                why = {**hit.why, "source": lender.key, "source_trust": round(trust, 3)}
                merged.append(hit.model_copy(update={"memory": memory, "score": hit.score * weight, "why": why}))
        return sorted(merged, key=lambda hit: -hit.score) if shared else merged, shared

    def log_hits(self, reader: Scope, shown: Sequence[Hit], shared: Mapping[str, Lender]) -> None:
        """Log the lenders whose memories were shown."""
        by_lender: dict[str, list[str]] = {}
        lenders = {lender.id: lender for lender in shared.values()}
        for hit in shown:
            if hit.id in shared:
                by_lender.setdefault(shared[hit.id].id, []).append(hit.id)
        for id, ids in by_lender.items():
            self.log_use(reader, lenders[id], "recall", len(ids), ids)
            if not lenders[id].grants:
                self._store.touch(lenders[id].scope, ids, self._sources.now())
            self._log_first_use(reader, lenders[id].key)

    def _log_first_use(self, reader: Scope, key: str) -> None:
        """Record an agent's first use of a source, so that outcomes can be attributed to it."""
        if (reader.agent, key) not in self._met:
            self.record_help(reader, "met", {topic(key): (0.0, 0.0)})
            self._met.add((reader.agent, key))


def import_scope(receiver: Scope, source: str) -> Scope:
    """Return the reserved scope of what an agent imported from a source."""
    return Scope(f"\x1fannex:{digest(receiver.agent, source)}")


def _domains(memory: Memory) -> tuple[str, ...]:
    content = memory.content
    named = content.domain if isinstance(content, KnowledgeContent) else getattr(content, "task_type", "")
    return (named,) if named else ()


def _context_words(memory: Memory) -> frozenset[str]:
    stated = getattr(memory.content, "decision_context", "") or getattr(memory.content, "context_signature", "")
    return frozenset(name_words(f"{memory.context} {stated}"))


def topic(key: str) -> str:
    """Return the topic under which an agent stores the help of a source: a digest, so that no name is stored."""
    return digest(TRUST, key)


def _as_list(value: JsonValue) -> list[JsonValue]:
    return value if isinstance(value, list) else []


__all__ = ["INSTALLATION", "LEDGER", "LENT", "LINEAGE", "USES", "Lender", "Sharing", "import_scope", "topic"]
