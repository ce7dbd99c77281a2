"""Forgetting that leaves nothing: a memory goes with its copies, what was derived from it, and every trace on disk.

What goes is worked out first, and refused as a whole if something of it is held. Copies and what was derived go before
the memory itself, so that whoever is stopped in between can call it again.
"""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any, Protocol

from pydantic import JsonValue

from engram.agents.workspaces.objects import Objects
from engram.agents.workspaces.snapshots import Workspaces
from engram.clock import Sources
from engram.errors import Hint, InvalidInput, NotAllowed, NotFound, Unsupported
from engram.learning import events as happened
from engram.learning.state import Experience
from engram.memories import holds
from engram.memories.holds import RETENTION
from engram.memories.working import Sessions
from engram.model import Clean, ForgetReceipt, Memory
from engram.model.clean import DELETED_TEXT, clean_name
from engram.model.content import texts_in
from engram.model.grant import Grant, GrantState, Subject
from engram.model.retention import ErasureReceipt, LegalHold
from engram.ports import (
    FORGOTTEN,
    AuditAction,
    Changes,
    ClosesKeys,
    DeletesRecalls,
    Event,
    Filter,
    FindsDerived,
    KeepsAudit,
    KeepsEvents,
    ListsAgents,
    LoggedRecall,
    Query,
    Redactor,
    Scope,
    Scrubs,
    Store,
    acting,
    arguments,
    reserved,
)
from engram.ports.completed import can
from engram.recording.quarantine import QUARANTINE, apart
from engram.retention import archive
from engram.sharing.grants import Grants
from engram.sharing.ledger import LEDGER, written
from engram.sharing.lenders import INSTALLATION, LINEAGE, USES, Sharing, topic
from engram.system import batched
from engram.text.terms import digest, normal_form, query_terms
from engram.upkeep.consolidation import CONSOLIDATED, FOREVER, MARK

TELLING = 16
"""So many characters of a text are no chance: whoever has them quotes it."""
NAMING = 6
"""So many characters with a digit among them are a name or a number, and no plain word."""
OVER = frozenset({GrantState.DENIED, GrantState.REVOKED, GrantState.EXPIRED})
PAGE = 500
MOST = 1_000_000
ALIKE = 20
_log = logging.getLogger("engram")


class Parts(Protocol):
    """What one memory of many agents is made of, as far as forgetting has to reach it."""

    store: Store
    experience: Experience
    sharing: Sharing
    sessions: Sessions
    sources: Sources
    redactor: Redactor
    objects: Objects | None


@dataclass
class _Plan:
    """What goes: memories by the scope they are in, each because of one of those that were named."""

    roots: dict[str, str] = field(default_factory=dict)
    """For each id, which of the named ones it goes with."""
    places: dict[Scope, dict[str, Memory]] = field(default_factory=dict)
    """In the order in which they were found: sources before what was derived from them."""
    whose: dict[Scope, str] = field(default_factory=dict)
    """The agents that the places beside those of agents belong to."""

    def add(self, scope: Scope, memory: Memory, root: str) -> bool:
        """Plan that a memory goes; whether that is new."""
        known = self.places.setdefault(scope, {})
        if memory.id in known:
            return False
        known[memory.id] = memory
        self.roots.setdefault(memory.id, root)
        return True

    def has(self, scope: Scope, id: str) -> bool:
        """Whether a memory is to go."""
        return id in self.places.get(scope, {})


def forget(brain: Parts, scope: Scope, ids: Sequence[str], *, scrub: bool = True) -> list[ForgetReceipt]:
    """Forget memories with all that is left of them anywhere; one receipt for each, in order.

    Raises `NotAllowed`, and nothing has gone, if one of them is held, or something that would go with it.
    """
    chosen = [id for id in dict.fromkeys(ids) if arguments.is_id(id)]
    brain.experience.flush(scope)
    plan = planned(brain, scope, chosen)
    in_files = _in_archives(brain, scope, [*chosen, *plan.places.get(scope, ())])
    _refuse_held(brain, scope, plan, in_files)
    for memory in [memory for memories in in_files.values() for memory in memories]:
        plan.roots.setdefault(memory.id, _cause(memory, plan, chosen))
    with acting(scope.agent):
        removed = _carry_out(brain, scope, plan, in_files)
    lingers = scrub and not scrubbed(brain.store)
    return [
        ForgetReceipt(
            id=id if arguments.is_id(id) else ascii(id),
            forgotten=bool(removed[id]),
            removed=removed[id],
            lingers=lingers and bool(removed[id]),
        )
        for id in ids
    ]


def _is_one_of(agent: str, ids: Collection[str], line: Mapping[str, Any]) -> bool:
    return line["agent"] == agent and line["id"] in ids


def set_aside(brain: Parts, scope: Scope, ids: Sequence[str]) -> list[ForgetReceipt]:
    """Take memories out of the database that an archive has; copies and what was derived from them stay."""
    receipts = brain.store.forget(scope, ids)
    if any("events" in receipt.removed for receipt in receipts):
        brain.experience.forgot(scope)
    return receipts


def scrubbed(store: Store) -> bool:
    """Leave nothing readable of what has gone; `False`, and a warning, if that has to wait."""
    done = not isinstance(store, Scrubs) or store.scrub()
    if not done:
        _log.warning("somebody reads the database; what was forgotten stays in its log until that ends")
    return done


# What goes -------------------------------------------------------------------------------------------


def planned(brain: Parts, scope: Scope, ids: Sequence[str]) -> _Plan:
    """Everything that goes with some memories of an agent: its own, and the copies that it or others have of them."""
    store, plan = brain.store, _Plan()
    own = [memory for memory in store.get(scope, ids) if memory is not None]
    for memory in own:
        plan.add(scope, memory, memory.id)
    _derive(store, scope, plan, [memory.id for memory in own])
    plan.whose, here = dict(_kept_apart(store, _receivers(brain), scope)), _installation(store)
    beside = defaultdict[str, set[Scope]](set)
    for place, receiver in plan.whose.items():
        beside[receiver] |= {place, Scope(receiver)} if receiver else set()
    for place, receiver in plan.whose.items():
        mine = receiver == scope.agent
        for copy in store.get(place, list(dict.fromkeys([*ids, *plan.places.get(scope, ())]))):
            if copy is not None and (mine or _began_with(copy, scope.agent, here)):
                plan.add(place, copy, plan.roots.get(copy.id, copy.id))
        _derive(store, place, plan, list(plan.places.get(place, ())), beside[receiver] or {place})
    return plan


def foreseen(brain: Parts, scope: Scope, ids: Collection[str]) -> dict[tuple[str, str], str]:
    """Everything that would go with some memories of an agent, by whose scope or which file has it, and its id.

    For each its place, as a receipt calls it; nothing goes.
    """
    plan = planned(brain, scope, [*ids])
    found = {(at.agent, id): _where(scope, at) for at, memories in plan.places.items() for id in memories}
    found |= dict.fromkeys(((scope.agent, id) for id in ids), "memories")
    in_files = _in_archives(brain, scope, [*ids, *plan.places.get(scope, ())])
    return found | {(str(path), memory.id): "archives" for path, some in in_files.items() for memory in some}


def _derive(store: Store, scope: Scope, plan: _Plan, ids: Sequence[str], near: Collection[Scope] | None = None) -> None:
    """Plan that what was derived goes too: all of it in this scope, and elsewhere what repeats the words.

    Elsewhere is only where no memory of the same id is, which would be what it was derived from. Forgetting a copy
    reaches no further than `near`: whoever has a copy does not decide over others.
    """
    made = _consolidations(store, scope) if ids else {}
    fresh = list(ids)
    while fresh:
        citing = [*derived(store, fresh), *((scope, id) for id, of in made.items() if not of.isdisjoint(fresh))]
        by_scope = defaultdict[Scope, list[str]](list)
        for place, id in dict.fromkeys(citing):
            if not plan.has(place, id) and (near is None or place in near):
                by_scope[place].append(id)
        sources, fresh = {*fresh}, []
        for place, some in by_scope.items():
            for memory in store.get(place, some):
                if memory is None:
                    continue
                of = [id for id in (*memory.provenance.sources, *made.get(memory.id, ())) if id in sources]
                if place != scope:
                    theirs = {one.id for one in store.get(place, of) if one is not None and not plan.has(place, one.id)}
                    said = [plan.places[scope][id] for id in of if plan.has(scope, id) and id not in theirs]
                    if not quotes(memory.text, said):
                        continue
                plan.add(place, memory, plan.roots.get(of[0], of[0]) if of else memory.id)
                fresh.append(memory.id)


def derived(store: Store, ids: Collection[str]) -> list[tuple[Scope, str]]:
    """The memories of any scope that name one of these as a source."""
    if isinstance(store, FindsDerived):
        return store.derived(ids)
    names = store.agents()
    found, sought = [], frozenset(ids)
    for scope in map(Scope, names):
        for memory in every(store, scope):
            if not sought.isdisjoint(memory.provenance.sources):
                found.append((scope, memory.id))  # noqa: PERF401 - one loop in another reads better
    return found


def every(store: Store, scope: Scope, where: Filter | None = None) -> Iterator[Memory]:
    """Every memory of a scope, also those that are no longer valid; what is written meanwhile may be missed."""
    ids = [match.id for match in store.search(scope, Query(where=where or Filter(), limit=MOST))]
    for some in batched(ids, PAGE):
        yield from (memory for memory in store.get(scope, some) if memory is not None)


def _consolidations(store: Store, scope: Scope) -> dict[str, frozenset[str]]:
    """The sources of all that was consolidated, which may be more than a memory can name."""
    made = [match.id for match in store.search(scope, Query(where=Filter(tags=frozenset({MARK})), limit=MOST))]
    found = defaultdict[str, set[str]](set)
    for some in batched(made, PAGE):
        for event in store.events_of(scope, some):
            if event.kind == CONSOLIDATED:
                found[event.subject].add(str(event.body.get("source")))
    return {id: frozenset(of) for id, of in found.items()}


def _receivers(brain: Parts) -> dict[str, str]:
    """Who has each annex."""
    return {name: str(body["receiver"]) for name, body in brain.sharing.ledger.annexes().items()}


def _kept_apart(store: Store, receivers: Mapping[str, str], scope: Scope) -> list[tuple[Scope, str]]:
    """The scopes beside those of agents that may have a copy, and whose each is, if that can be told."""
    names = store.agents()
    if not names:
        return [(apart(scope), scope.agent)]
    known = {scope.agent, *receivers.values(), *(name for name in names if not reserved(name))}
    known |= {hold.agent for hold in holds.held(store) if hold.agent is not None}
    whose = dict(receivers) | {apart(Scope(name)).agent: name for name in known}
    return [(Scope(name), whose.get(name, "")) for name in names if name in whose or name.startswith(QUARANTINE)]


def _began_with(copy: Memory, agent: str, here: str | None) -> bool:
    """Whether what was copied was an agent's own in this database; elsewhere there may be another of its name."""
    told = copy.metadata.get(LINEAGE)
    return isinstance(told, dict) and (told.get("agent"), told.get("installation")) == (agent, here)


def _in_archives(brain: Parts, scope: Scope, ids: Collection[str]) -> dict[Path, list[Memory]]:
    """The memories of an agent in its archives that go: these, and what was derived from them."""
    found: dict[Path, list[Memory]] = {}
    goes = set(ids)
    every_file = {path: _archived(path, scope) for path in archive.known(brain.store)}
    grown = True
    while grown:
        grown = False
        for path, memories in every_file.items():
            for memory in memories:
                if memory not in found.get(path, ()) and goes & {memory.id, *memory.provenance.sources}:
                    found.setdefault(path, []).append(memory)
                    grown = grown or memory.id not in goes
                    goes.add(memory.id)
    return found


def _archived(path: Path, scope: Scope) -> list[Memory]:
    try:
        return [memory for memory, _ in archive.read(path) if memory.agent == scope.agent]
    except (InvalidInput, OSError) as error:
        _log.warning("%s is no archive any more, and was left alone: %s", path, error)
        return []


def _cause(memory: Memory, plan: _Plan, chosen: Sequence[str]) -> str:
    """The named memory with which one goes that only an archive has."""
    causes = (plan.roots.get(id, id) for id in (memory.id, *memory.provenance.sources))
    return next((cause for cause in causes if cause in chosen), chosen[0])


def protected(brain: Parts, scope: Scope, ids: Sequence[str], pinned: Callable[[Memory], bool]) -> set[str]:
    """Those of some memories that cannot go without something that is pinned or held."""
    plan, held = planned(brain, scope, ids), holds.held(brain.store)
    return {
        plan.roots[memory.id]
        for place, some in plan.places.items()
        for memory in some.values()
        if (pinned(memory) and not reserved(place.agent))
        or holds.covering(held, plan.whose.get(place, place.agent), memory) is not None
    }


def _refuse_held(
    brain: Parts, scope: Scope, plan: _Plan, in_files: Mapping[Path, Sequence[Memory]], *, by_agent: bool = True
) -> None:
    """Raise `NotAllowed` if something is held; an agent is not told of the holds of others."""
    held = holds.held(brain.store)
    if not held:
        return
    going = [
        (plan.whose.get(place, place.agent), memory) for place, some in plan.places.items() for memory in some.values()
    ]
    going += [(scope.agent, memory) for some in in_files.values() for memory in some]
    for agent, memory in going:
        if hold := holds.covering(held, agent, memory):
            if by_agent and agent != scope.agent:
                raise NotAllowed("something that rests on it is under a legal hold; whoever runs Engram can release it")
            raise holds.refusal(hold, f"memory {memory.id}")


# What it takes ---------------------------------------------------------------------------------------


def _carry_out(
    brain: Parts, scope: Scope, plan: _Plan, in_files: Mapping[Path, Sequence[Memory]]
) -> defaultdict[str, Counter[str]]:
    """Take everything away that goes; how much went where, by the named memory it went with."""
    removed = defaultdict[str, Counter[str]](Counter)
    own = plan.places.get(scope, {})
    going = {memory.id: memory for some in in_files.values() for memory in some}
    going |= {id: memory for some in plan.places.values() for id, memory in some.items()}
    for asker in (scope, *_borrowers(brain, scope, plan)) if going else ():
        brain.experience.flush(asker)
        for name, id in _unquoted(_Words(brain, asker, going)):
            removed[plan.roots[id]][name] += 1
    for name, id in _unworded(_Words(brain, scope, going)) if going else ():
        removed[plan.roots[id]][name] += 1
    for path, archived in in_files.items():
        archive.without(path, partial(_is_one_of, scope.agent, {memory.id for memory in archived}))
        for memory in archived:
            removed[plan.roots[memory.id]]["archives"] += 1
    for session, id in {memory.session: memory.id for memory in own.values() if memory.session is not None}.items():
        with suppress(Unsupported):
            if brain.sessions.forgot(scope, session, own.keys()):
                removed[plan.roots[id]]["sessions"] += 1
    others = [place for place in plan.places if place != scope]
    for place in (*others, *([scope] if own else [])):
        memories = plan.places[place]
        for memory in memories.values():
            _revive(brain.store, place, memory, memories)
        with acting(scope.agent, agent=plan.whose.get(place, "")):
            receipts = brain.store.forget(place, list(memories))
        for receipt in receipts:
            root = plan.roots[receipt.id]
            if receipt.id == root and place == scope:
                removed[root].update(receipt.removed)
            elif receipt.forgotten:
                removed[root][_where(scope, place)] += 1
        brain.experience.forgot(place)
    return removed


def _where(scope: Scope, place: Scope) -> str:
    if place == scope or not reserved(place.agent):
        return "derived"
    return "quarantine" if place.agent.startswith(QUARANTINE) else "copies"


def _revive(store: Store, scope: Scope, made: Memory, going: Collection[str]) -> None:
    """Statements that were merged into one that goes are valid again, unless they go too."""
    said = made.metadata.get(MARK)
    if not isinstance(said, dict) or said.get("how") != "merge":
        return
    for source in store.get(scope, [id for id in made.provenance.sources if id not in going]):
        if source is not None and source.valid_until is not None:
            with suppress(NotFound):
                store.annotate(scope, source.id, Changes(valid_until=FOREVER), None)


class _Words:
    """What is said by the memories that go, and by no other of an agent; for what was lent, that may be a borrower."""

    def __init__(self, brain: Parts, scope: Scope, going: Mapping[str, Memory]) -> None:
        self.brain, self.scope, self.going = brain, scope, going
        self._terms = {id: {t for part in _parts(memory) for t in query_terms(part)} for id, memory in going.items()}
        self._labels = {id: _labels(memory) for id, memory in going.items()}
        self._known = cache(self._still_known)
        self._beside = cache(self._still_beside)

    def said(self, *texts: object) -> str | None:
        """The memory that one of these texts is about, by a word that no other memory has, or by quoting it."""
        return self._found(texts, lambda term: True)

    def quoted(self, *texts: object) -> str | None:
        """The memory that one of these texts quotes, or names by a number or name that no other memory has.

        For what somebody has written in words of his own, which may happen to be those of a memory, too. The number or
        name may be in a memory's tags and metadata alone.
        """
        return self._found(texts, _is_name) or self._labelling(texts)

    def _labelling(self, texts: Iterable[object]) -> str | None:
        names = {term for text in texts if isinstance(text, str) for term in query_terms(text) if _is_name(term)}
        for id, labels in self._labels.items():
            if any(not self._known(term) and not self._beside(term) for term in sorted(names & labels)):
                return id
        return None

    def _found(self, texts: Iterable[object], telling: Callable[[str], bool]) -> str | None:
        for text in texts:
            terms = {*query_terms(text)} if isinstance(text, str) else set[str]()
            for id in [id for id, own in self._terms.items() if not own.isdisjoint(terms)]:
                if any(telling(term) and not self._known(term) for term in sorted(self._terms[id] & terms)):
                    return id
                if quotes(str(text), [self.going[id]]) and not self._still_said(str(text)):
                    return id
        return None

    def _still_said(self, text: str) -> bool:
        """Whether a memory that stays says the same."""
        rest = self.brain.store.get(self.scope, self._finding(text, ALIKE))
        return any(quotes(text, [memory]) for memory in rest if memory is not None)

    def _still_known(self, term: str) -> bool:
        """Whether a memory that stays has a word."""
        return bool(self._finding(term, 1))

    def _still_beside(self, term: str) -> bool:
        """Whether a memory that stays has a word in its tags or metadata."""
        every_one = every(self.brain.store, self.scope)
        return any(term in _labels(memory) for memory in every_one if memory.id not in self.going)

    def _finding(self, text: str, most: int) -> list[str]:
        query = Query(words=self.brain.redactor.clean([text])[0].text, limit=most + len(self.going))
        return [match.id for match in self.brain.store.search(self.scope, query) if match.id not in self.going]

    def labelled(self, label: Clean) -> str | None:
        """The memory that has a tag, or is of a domain, that no memory has that stays."""
        having = [id for id, memory in self.going.items() if label in memory.tags or _of_domain(memory, label)]
        if not having:
            return None
        stays = self.brain.sharing.about(self.scope, Subject(domains=(label,))) or frozenset()
        return None if stays - self.going.keys() else having[0]


def _is_name(term: str) -> bool:
    """Whether a word is so long, or a number or name, that it is no chance."""
    return len(term) >= TELLING or (len(term) >= NAMING and not term.isalpha())


def _labels(memory: Memory) -> set[str]:
    """The words beside what a memory says."""
    said = memory.provenance
    told = (*memory.tags, said.session, said.speaker, *texts_in(dict(memory.metadata), names=True))
    return {term for text in told if text for term in query_terms(text)}


def _of_domain(memory: Memory, label: str) -> bool:
    told = memory.content.model_dump(include={"domain", "task_type"})
    return normal_form(label) in {normal_form(name) for name in told.values() if isinstance(name, str) and name}


def _unquoted(words: _Words) -> list[tuple[str, str]]:
    """Take away checks and questions, which are about no memory, if they repeat what is to go and no other memory says.

    What it was, and whose words.
    """
    store, scope, gone = words.brain.store, words.scope, list[tuple[str, str]]()

    def goes(shown: LoggedRecall) -> bool:
        id = words.said(shown.about.get("action"), shown.about.get("context")) if shown.about else None
        gone.extend([] if id is None else [("shown", id)])
        return id is not None

    checks = [event for event in store.events_of(scope, [""]) if event.kind == happened.CHECKED]
    told = {event.id: words.said(event.body.get("action"), event.body.get("context")) for event in checks}
    erased = {event: id for event, id in told.items() if id is not None}
    if erased:
        store.delete_events(scope, list(erased))
    gone += [("checks", id) for id in erased.values()]
    if isinstance(store, DeletesRecalls):
        store.delete_recalls(scope, goes)
    return gone


def _unworded(words: _Words) -> list[tuple[str, str]]:
    """Say grants and holds in other words that repeat what is to go; what it was, and whose words.

    A grant in force keeps its tags and domains: they are the owner's word about what is still to come.
    """
    brain, scope, gone = words.brain, words.scope, list[tuple[str, str]]()
    ledger = brain.sharing.ledger
    concerned = {grant.id: grant for grant in ledger.grants() if grant.involves(scope.agent)}
    told = defaultdict[str, list[Grant]](list)
    for event in brain.store.events_of(LEDGER, list(concerned)):  # all versions: it may have been stopped in between
        told[event.subject].append(written(event))
    for id, grant in concerned.items():
        if root := next((root for each in told[id] if (root := _named(words, each, grant))), None):
            ledger.reword(id, scope.agent, partial(_reworded, words))
            gone.append(("grants", root))
    for hold in holds.holds(brain.store):
        covered = (id for id, memory in words.going.items() if holds.covering([hold], scope.agent, memory))
        root = words.quoted(hold.reason) or (next(covered, None) if hold.released_at is not None else None)
        if root is not None:
            holds.unword(brain.store, brain.sources, hold)
            gone.append(("holds", root))
    return gone


def _named(words: _Words, version: Grant, newest: Grant) -> str | None:
    """The memory that a version of a grant repeats."""
    subject, found = version.subject, [words.quoted(version.purpose)]
    if version.owner == words.scope.agent:
        found += [words.said(name) for name in subject.patterns]
        labels = (*subject.tags, *subject.domains) if _over(words, newest) else ()
        found += [words.labelled(name) for name in labels]
    return next(filter(None, found), None)


def _reworded(words: _Words, grant: Grant) -> Grant:
    """A grant without the words of what goes: patterns by their ids, other names by fingerprints."""

    def pattern(name: Clean) -> Clean:
        if not words.said(name):
            return name
        known = words.brain.sharing.known_pattern(words.scope, name)
        return _fingerprint(name) if known is None else clean_name(known[0])

    def label(name: Clean) -> Clean:
        return _fingerprint(name) if over and words.labelled(name) else name

    over, changes = _over(words, grant), dict[str, object]()
    if grant.owner == words.scope.agent:
        subject = grant.subject
        changes["patterns"] = tuple(map(pattern, subject.patterns))
        changes |= {"tags": tuple(map(label, subject.tags)), "domains": tuple(map(label, subject.domains))}
    purpose = DELETED_TEXT if words.quoted(grant.purpose) else grant.purpose
    return grant.model_copy(update={"purpose": purpose, "subject": grant.subject.model_copy(update=changes)})


def _over(words: _Words, grant: Grant) -> bool:
    return grant.state_at(words.brain.sharing.ledger.now()) in OVER


def _fingerprint(name: str) -> Clean:
    return clean_name(f"{DELETED_TEXT}:{digest(name)}")


def _borrowers(brain: Parts, scope: Scope, plan: _Plan) -> list[Scope]:
    """The agents that may have asked about what an agent lent to them."""
    lent = [grant.id for grant in brain.sharing.ledger.grants() if grant.owner == scope.agent]
    names = {use.agent for id in lent for use in brain.sharing.uses(id, MOST)}
    receivers = _receivers(brain)
    names |= {receivers.get(place.agent, place.agent) for place in plan.places}
    return [Scope(name) for name in sorted(names - {scope.agent}) if not reserved(name)]


def quotes(text: str, memories: Iterable[Memory]) -> bool:
    """Whether a text says what one of these memories says, or a good part of it, word for word."""
    said = normal_form(text)
    return any(
        part == said or (len(part) >= TELLING and part in said) or (len(said) >= TELLING and said in part)
        for memory in memories
        for part in _parts(memory)
    )


def _parts(memory: Memory) -> set[str]:
    """What a memory says, text by text."""
    told = [memory.text, memory.context, *texts_in(memory.content.model_dump(mode="json", exclude={"kind"}))]
    return {normal_form(text) for text in told if text.strip()}


# A whole agent ---------------------------------------------------------------------------------------


def erase(brain: Parts, agent: str, progress: Callable[[int, int], None] | None = None) -> ErasureReceipt:
    """Take away everything of an agent; the audit trail keeps that it happened. Stopped in between, call it again.

    Raises `NotFound` for an agent that has nothing, `NotAllowed` if something of it is held, and `Conflict` if the
    folder of its files serves another database, too.
    """
    scope, store = Scope(agent), brain.store
    if reserved(agent) or not _has_anything(brain, scope):
        raise NotFound(f"there is no agent {agent!a}", hint=Hint("agent list", "shows who there is"))
    _refuse_agent_held(brain, scope)
    with acting("", agent=agent):
        removed = _erase(brain, scope, progress)
    counts = {name: count for name, count in removed.items() if count}
    if isinstance(store, KeepsAudit):
        store.note([AuditAction("agent.erase", agent=agent, count=counts.get("memories", 0))])
    return ErasureReceipt(agent=agent, removed=counts, lingers=not scrubbed(store))


def _erase(brain: Parts, scope: Scope, progress: Callable[[int, int], None] | None) -> Counter[str]:
    """Take away everything of an agent; how many of each."""
    store, agent, removed = brain.store, scope.agent, Counter[str]()
    removed["workspaces"] = _erase_workspaces(brain, scope)
    with suppress(Unsupported):
        removed["sessions"] = brain.sessions.clear(scope)
    ids = _everywhere(brain, scope)
    for first in range(0, len(ids), PAGE):
        for receipt in forget(brain, scope, ids[first : first + PAGE], scrub=False):
            removed.update(receipt.removed)
        if progress is not None:
            progress(min(first + PAGE, len(ids)), len(ids))
    removed += _erase_permissions(brain, scope)
    for path in archive.known(store):
        removed["archives"] += archive.without(path, lambda line: line["agent"] == agent)
    for place in (apart(scope), scope):
        gone = _vacate(brain, place)
        removed["quarantine" if place != scope else "memories"] += gone.pop("memories", 0)
        removed.update({name: count for name, count in gone.items() if place == scope})
    if isinstance(store, ClosesKeys):
        removed["api_keys"] = store.close_keys(agent, brain.sources.now())
    return removed


def _everywhere(brain: Parts, scope: Scope) -> list[str]:
    """The memories of an agent: those that it has, and those that only an archive or somebody else still has."""
    ids, here = [match.id for match in brain.store.search(scope, Query(limit=MOST))], _installation(brain.store)
    for place, _ in _kept_apart(brain.store, _receivers(brain), scope):
        ids += [copy.id for copy in every(brain.store, place) if _began_with(copy, scope.agent, here)]
    for path in archive.known(brain.store):
        ids += [memory.id for memory in _archived(path, scope)]
    return list(dict.fromkeys(ids))


def _has_anything(brain: Parts, scope: Scope) -> bool:
    store = brain.store
    names = store.agents() if can(store, ListsAgents) else [scope.agent]
    return bool({scope.agent, apart(scope).agent} & {*names}) or scope.agent in _receivers(brain).values()


def _refuse_agent_held(brain: Parts, scope: Scope) -> None:
    places = [
        scope,
        *(place for place, whose in _kept_apart(brain.store, _receivers(brain), scope) if whose == scope.agent),
    ]
    held = holds.held(brain.store)
    for hold in held:
        if hold.agent in {None, scope.agent} and (hold.whole or any(_holds(brain.store, hold, at) for at in places)):
            raise holds.refusal(hold, f"{scope.agent!a}")
    ids = _everywhere(brain, scope) if held else []
    for some in batched(ids, PAGE):
        plan = planned(brain, scope, some)
        in_files = _in_archives(brain, scope, [*some, *plan.places.get(scope, ())])
        _refuse_held(brain, scope, plan, in_files, by_agent=False)
    for name, body in _annexes_of(brain, scope.agent).items() if held else ():
        holds.refuse_held(brain.store, Scope(str(body["receiver"])), every(brain.store, Scope(name)))


def _holds(store: Store, hold: LegalHold, scope: Scope) -> bool:
    """Whether a hold keeps something of a scope."""
    wheres = [Filter(tags=frozenset({tag})) for tag in hold.tags]
    wheres += [Filter(session=session) for session in hold.sessions]
    return any(found is not None for found in store.get(scope, hold.memories)) or any(
        store.search(scope, Query(where=where, limit=1)) for where in wheres
    )


def _erase_workspaces(brain: Parts, scope: Scope) -> int:
    if brain.objects is None or not can(brain.store, KeepsEvents):
        return 0
    workspaces = Workspaces(brain.store, scope, brain.redactor, brain.sources, brain.objects)
    names = [workspace.name for workspace in workspaces.list()]
    for name in names:
        workspaces.forget(name)
    return len(names)


def _erase_permissions(brain: Parts, scope: Scope) -> Counter[str]:
    """Revoke what an agent gave and got, and then take away that it ever did."""
    store, agent, removed = brain.store, scope.agent, Counter[str]()
    ledger, sharing = brain.sharing.ledger, brain.sharing
    grants = Grants(store, scope, sharing, brain.sources, lambda _, text: brain.redactor.clean([text])[0].text)
    concerned = [grant for grant in ledger.grants() if agent in {grant.owner, grant.made_by} or _gets(grant, agent)]
    for grant in concerned:
        if grant.state not in {GrantState.REVOKED, GrantState.DENIED}:
            grants.revoke(grant.id)
    subjects = [grant.id for grant in concerned]
    for name, body in _annexes_of(brain, agent).items():
        with acting("", agent=str(body["receiver"])):
            removed["copies"] += _vacate(brain, Scope(name)).get("memories", 0)
            ledger.annex(name, body | {"gone": True})
        subjects.append(name)
    for group, members in ledger.groups().items():
        if agent in members:
            ledger.regroup(group, remove=[agent])
    said = store.events_of(LEDGER, subjects)
    said += [event for event in _log_of(store, LEDGER) if agent in _list(event.body.get("members"))]
    used = store.events_of(USES, subjects)
    for grant in ledger.grants():
        used += [event for event in store.events_of(USES, [grant.id]) if event.body.get("agent") == agent]
    removed["grants"] = len(concerned)
    _unrecord(store, LEDGER, said)
    _unrecord(store, USES, used)
    _unrecord(store, RETENTION, holds.naming(store, agent))
    for name in store.agents():
        if not reserved(name):
            _unrecord(store, Scope(name), store.events_by_topic(Scope(name), topic(f"agent:{agent}"), MOST))
    return removed


def _annexes_of(brain: Parts, agent: str) -> dict[str, dict[str, JsonValue]]:
    """The annexes that an agent has, and those that others have of it, by a grant or by a file."""
    ledger, here = brain.sharing.ledger, f"{agent}@{_installation(brain.store)}"
    lent = {grant.id for grant in ledger.grants() if grant.owner == agent}
    return {
        name: body
        for name, body in ledger.annexes().items()
        if body["receiver"] == agent
        or body.get("grant") in lent
        or str(body.get("source")).partition(" signed by ")[0] == here
    }


def _installation(store: Store) -> str | None:
    return store.setting(INSTALLATION)


def _log_of(store: KeepsEvents, scope: Scope) -> Iterator[Event]:
    after = 0
    while some := store.events_after(scope, after, PAGE):
        yield from some
        after = some[-1].seq


def _gets(grant: Grant, agent: str) -> bool:
    return grant.audience == "agent" and grant.receiver == agent


def _list(value: JsonValue) -> list[JsonValue]:
    return value if isinstance(value, list) else []


def _unrecord(store: Store, scope: Scope, events: Iterable[Event]) -> None:
    ids = list(dict.fromkeys(event.id for event in events if event.kind != FORGOTTEN))
    if ids:
        store.delete_events(scope, ids)


def _vacate(brain: Parts, scope: Scope) -> dict[str, int]:
    """Delete a scope; how many of each."""
    brain.experience.forgot(scope)
    return {name: count for name, count in brain.store.delete_scope(scope).items() if count}
