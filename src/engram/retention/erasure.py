"""Delete memories completely: with copies, derived memories, mentions elsewhere, archives and traces on disk.

The whole deletion is planned first, and refused if any part of it is under a legal hold. Copies and derived memories
are deleted before the memory itself, so that an interrupted deletion can be repeated.
"""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import JsonValue

from engram.agents.workspaces.snapshots import Workspaces
from engram.errors import Hint, InvalidInput, NotAllowed, NotFound, Unsupported
from engram.learning import events as happened
from engram.memories import holds
from engram.memories.holds import RETENTION
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
from engram.sharing.ledger import LEDGER, grant_of
from engram.sharing.lenders import INSTALLATION, LINEAGE, USES, topic
from engram.system import batched
from engram.text.terms import digest, normal_form, query_terms
from engram.upkeep.consolidation import CONSOLIDATED, FOREVER, MARK

if TYPE_CHECKING:
    from engram.engine import Engram

MIN_QUOTE = 16
"""A text of at least this many characters inside another counts as a quotation."""
MIN_IDENTIFIER = 6
"""A word of this many characters that has a digit or sign counts as a name or number."""
ENDED = frozenset({GrantState.DENIED, GrantState.REVOKED, GrantState.EXPIRED})
PAGE = 500
MOST = 1_000_000
SIMILAR_LIMIT = 20
_log = logging.getLogger("engram")


@dataclass
class DeletionPlan:
    """Memories to delete, by scope, with the requested memory that caused each deletion."""

    roots: dict[str, str] = field(default_factory=dict)
    """The requested id that each id is deleted with."""
    places: dict[Scope, dict[str, Memory]] = field(default_factory=dict)
    """In order of discovery: sources before the memories derived from them."""
    owners: dict[Scope, str] = field(default_factory=dict)
    """The agents that imported sources and quarantine scopes belong to."""

    def add(self, scope: Scope, memory: Memory, root: str) -> bool:
        """Add a memory; returns false if it was planned already."""
        known = self.places.setdefault(scope, {})
        if memory.id in known:
            return False
        known[memory.id] = memory
        self.roots.setdefault(memory.id, root)
        return True

    def has(self, scope: Scope, id: str) -> bool:
        """Return true if a memory is planned."""
        return id in self.places.get(scope, {})


def forget(brain: Engram, scope: Scope, ids: Sequence[str], *, scrub: bool = True) -> list[ForgetReceipt]:
    """Delete memories and every trace of them; returns one receipt each, in order.

    Raises `NotAllowed`, and deletes nothing, if one of them or anything deleted with it is under a legal hold.
    """
    chosen = [id for id in dict.fromkeys(ids) if arguments.is_id(id)]
    brain._parts.experience.flush(scope)
    plan = plan_deletion(brain, scope, chosen)
    in_files = _archived_memories(brain, scope, [*chosen, *plan.places.get(scope, ())])
    _refuse_if_held(brain, scope, plan, in_files)
    for memory in [memory for memories in in_files.values() for memory in memories]:
        plan.roots.setdefault(memory.id, _root_of(memory, plan, chosen))
    with acting(scope.agent):
        removed = _delete_planned(brain, scope, plan, in_files)
    lingers = scrub and not scrub_store(brain.store)
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


def remove_archived(brain: Engram, scope: Scope, ids: Sequence[str]) -> list[ForgetReceipt]:
    """Remove memories that were archived from the database; copies and derived memories are kept."""
    receipts = brain.store.forget(scope, ids)
    if any("events" in receipt.removed for receipt in receipts):
        brain._parts.experience.forgot(scope)
    return receipts


def scrub_store(store: Store) -> bool:
    """Clear deleted data from the database's log; returns false and logs a warning if a reader prevents it."""
    done = not isinstance(store, Scrubs) or store.scrub()
    if not done:
        _log.warning("a reader has the database open; deleted data stays in its log until the reader closes it")
    return done


# What goes -------------------------------------------------------------------------------------------


def plan_deletion(brain: Engram, scope: Scope, ids: Sequence[str]) -> DeletionPlan:
    """Plan the deletion of an agent's memories, with all copies and derived memories."""
    store, plan = brain.store, DeletionPlan()
    own = [memory for memory in store.get(scope, ids) if memory is not None]
    for memory in own:
        plan.add(scope, memory, memory.id)
    _add_derived(store, scope, plan, [memory.id for memory in own])
    plan.owners, here = dict(_other_scopes(store, _import_receivers(brain), scope)), _installation(store)
    beside = defaultdict[str, set[Scope]](set)
    for place, receiver in plan.owners.items():
        beside[receiver] |= {place, Scope(receiver)} if receiver else set()
    for place, receiver in plan.owners.items():
        mine = receiver == scope.agent
        for copy in store.get(place, list(dict.fromkeys([*ids, *plan.places.get(scope, ())]))):
            if copy is not None and (mine or _originates_from(copy, scope.agent, here)):
                plan.add(place, copy, plan.roots.get(copy.id, copy.id))
        _add_derived(store, place, plan, list(plan.places.get(place, ())), beside[receiver] or {place})
    return plan


def preview_deletion(brain: Engram, scope: Scope, ids: Collection[str]) -> dict[tuple[str, str], str]:
    """Return what would be deleted with some memories: its place in the receipt, by scope or file, and id."""
    plan = plan_deletion(brain, scope, [*ids])
    found = {(at.agent, id): _place_name(scope, at) for at, memories in plan.places.items() for id in memories}
    found |= dict.fromkeys(((scope.agent, id) for id in ids), "memories")
    in_files = _archived_memories(brain, scope, [*ids, *plan.places.get(scope, ())])
    return found | {(str(path), memory.id): "archives" for path, some in in_files.items() for memory in some}


def _add_derived(
    store: Store, scope: Scope, plan: DeletionPlan, ids: Sequence[str], near: Collection[Scope] | None = None
) -> None:
    """Plan the derived memories: all of them in this scope, and those elsewhere that repeat the text.

    A scope elsewhere that has a memory of the same id is skipped: that is the source there. Deleting a copy affects
    only the scopes in `near`, since the owner of a copy must not delete others' memories.
    """
    made = _consolidation_sources(store, scope) if ids else {}
    fresh = list(ids)
    while fresh:
        citing = [*find_derived(store, fresh), *((scope, id) for id, of in made.items() if not of.isdisjoint(fresh))]
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
                    if not repeats_text(memory.text, said):
                        continue
                plan.add(place, memory, plan.roots.get(of[0], of[0]) if of else memory.id)
                fresh.append(memory.id)


def find_derived(store: Store, ids: Collection[str]) -> list[tuple[Scope, str]]:
    """Return the memories of any scope that name one of these as a source."""
    if isinstance(store, FindsDerived):
        return store.derived(ids)
    names = store.agents()
    found, sought = [], frozenset(ids)
    for scope in map(Scope, names):
        for memory in iter_memories(store, scope):
            if not sought.isdisjoint(memory.provenance.sources):
                found.append((scope, memory.id))  # noqa: PERF401 - one loop in another reads better
    return found


def iter_memories(store: Store, scope: Scope, where: Filter | None = None) -> Iterator[Memory]:
    """Yield every memory of a scope, valid or not; those written meanwhile may be missed."""
    ids = [match.id for match in store.search(scope, Query(where=where or Filter(), limit=MOST))]
    for some in batched(ids, PAGE):
        yield from (memory for memory in store.get(scope, some) if memory is not None)


def _consolidation_sources(store: Store, scope: Scope) -> dict[str, frozenset[str]]:
    """Return the sources of every consolidated memory, which may be more than its provenance lists."""
    made = [match.id for match in store.search(scope, Query(where=Filter(tags=frozenset({MARK})), limit=MOST))]
    found = defaultdict[str, set[str]](set)
    for some in batched(made, PAGE):
        for event in store.events_of(scope, some):
            if event.kind == CONSOLIDATED:
                found[event.subject].add(str(event.body.get("source")))
    return {id: frozenset(of) for id, of in found.items()}


def _import_receivers(brain: Engram) -> dict[str, str]:
    """Return the receiver of each imported source."""
    return {name: str(body["receiver"]) for name, body in brain.ledger.imported_sources().items()}


def _other_scopes(store: Store, receivers: Mapping[str, str], scope: Scope) -> list[tuple[Scope, str]]:
    """Return the quarantine and import scopes that may have a copy, with their owner or "" if unknown."""
    names = store.agents()
    if not names:
        return [(apart(scope), scope.agent)]
    known = {scope.agent, *receivers.values(), *(name for name in names if not reserved(name))}
    known |= {hold.agent for hold in holds.active_holds(store) if hold.agent is not None}
    whose = dict(receivers) | {apart(Scope(name)).agent: name for name in known}
    return [(Scope(name), whose.get(name, "")) for name in names if name in whose or name.startswith(QUARANTINE)]


def _originates_from(copy: Memory, agent: str, here: str | None) -> bool:
    """Return true if a copy's original belongs to this agent of this installation."""
    told = copy.metadata.get(LINEAGE)
    return isinstance(told, dict) and (told.get("agent"), told.get("installation")) == (agent, here)


def _archived_memories(brain: Engram, scope: Scope, ids: Collection[str]) -> dict[Path, list[Memory]]:
    """Return the archived memories to delete: these, and those derived from them."""
    found: dict[Path, list[Memory]] = {}
    goes = set(ids)
    every_file = {path: _read_archive(path, scope) for path in archive.registered(brain.store)}
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


def _read_archive(path: Path, scope: Scope) -> list[Memory]:
    try:
        return [memory for memory, _ in archive.read(path) if memory.agent == scope.agent]
    except (InvalidInput, OSError) as error:
        _log.warning("%s is no longer an archive; it was not changed: %s", path, error)
        return []


def _root_of(memory: Memory, plan: DeletionPlan, chosen: Sequence[str]) -> str:
    """Return the requested memory that an archived memory is deleted with."""
    causes = (plan.roots.get(id, id) for id in (memory.id, *memory.provenance.sources))
    return next((cause for cause in causes if cause in chosen), chosen[0])


def blocked(brain: Engram, scope: Scope, ids: Sequence[str], pinned: Callable[[Memory], bool]) -> set[str]:
    """Return those memories that cannot be deleted without deleting something pinned or held."""
    plan, held = plan_deletion(brain, scope, ids), holds.active_holds(brain.store)
    return {
        plan.roots[memory.id]
        for place, some in plan.places.items()
        for memory in some.values()
        if (pinned(memory) and not reserved(place.agent))
        or holds.find_hold(held, plan.owners.get(place, place.agent), memory) is not None
    }


def _refuse_if_held(
    brain: Engram,
    scope: Scope,
    plan: DeletionPlan,
    in_files: Mapping[Path, Sequence[Memory]],
    *,
    by_agent: bool = True,
) -> None:
    """Raise `NotAllowed` if anything is held; an agent learns nothing of other agents' holds."""
    held = holds.active_holds(brain.store)
    if not held:
        return
    going = [
        (plan.owners.get(place, place.agent), memory) for place, some in plan.places.items() for memory in some.values()
    ]
    going += [(scope.agent, memory) for some in in_files.values() for memory in some]
    for agent, memory in going:
        if hold := holds.find_hold(held, agent, memory):
            if by_agent and agent != scope.agent:
                raise NotAllowed(
                    "a memory derived from it is under a legal hold; the operator of Engram can release it"
                )
            raise holds.held_error(hold, f"memory {memory.id}")


# What it takes ---------------------------------------------------------------------------------------


def _delete_planned(
    brain: Engram, scope: Scope, plan: DeletionPlan, in_files: Mapping[Path, Sequence[Memory]]
) -> defaultdict[str, Counter[str]]:
    """Delete everything planned; returns counts by place, for each requested memory."""
    removed = defaultdict[str, Counter[str]](Counter)
    own = plan.places.get(scope, {})
    going = {memory.id: memory for some in in_files.values() for memory in some}
    going |= {id: memory for some in plan.places.values() for id, memory in some.items()}
    for asker in (scope, *_possible_readers(brain, scope, plan)) if going else ():
        brain._parts.experience.flush(asker)
        for name, id in _delete_mentions(_TextMatcher(brain, asker, going)):
            removed[plan.roots[id]][name] += 1
    for name, id in _redact_grants_and_holds(_TextMatcher(brain, scope, going)) if going else ():
        removed[plan.roots[id]][name] += 1
    for path, archived in in_files.items():
        archive.remove_memories(path, partial(_is_one_of, scope.agent, {memory.id for memory in archived}))
        for memory in archived:
            removed[plan.roots[memory.id]]["archives"] += 1
    for session, id in {memory.session: memory.id for memory in own.values() if memory.session is not None}.items():
        with suppress(Unsupported):
            if brain._parts.sessions.drop_summary(scope, session, own.keys()):
                removed[plan.roots[id]]["sessions"] += 1
    others = [place for place in plan.places if place != scope]
    for place in (*others, *([scope] if own else [])):
        memories = plan.places[place]
        for memory in memories.values():
            _restore_merged(brain.store, place, memory, memories)
        with acting(scope.agent, agent=plan.owners.get(place, "")):
            receipts = brain.store.forget(place, list(memories))
        for receipt in receipts:
            root = plan.roots[receipt.id]
            if receipt.id == root and place == scope:
                removed[root].update(receipt.removed)
            elif receipt.forgotten:
                removed[root][_place_name(scope, place)] += 1
        brain._parts.experience.forgot(place)
    return removed


def _place_name(scope: Scope, place: Scope) -> str:
    if place == scope or not reserved(place.agent):
        return "derived"
    return "quarantine" if place.agent.startswith(QUARANTINE) else "copies"


def _restore_merged(store: Store, scope: Scope, made: Memory, going: Collection[str]) -> None:
    """Make statements valid again that had been merged into a deleted one, unless they are deleted too."""
    said = made.metadata.get(MARK)
    if not isinstance(said, dict) or said.get("how") != "merge":
        return
    for source in store.get(scope, [id for id in made.provenance.sources if id not in going]):
        if source is not None and source.valid_until is not None:
            with suppress(NotFound):
                store.annotate(scope, source.id, Changes(valid_until=FOREVER), None)


class _TextMatcher:
    """Find mentions of deleted memories in other texts, unless a remaining memory explains them too."""

    def __init__(self, brain: Engram, scope: Scope, going: Mapping[str, Memory]) -> None:
        self.brain, self.scope, self.going = brain, scope, going
        self._terms = {
            id: {t for part in _normal_texts(memory) for t in query_terms(part)} for id, memory in going.items()
        }
        self._labels = {id: _label_terms(memory) for id, memory in going.items()}
        self._is_known_term = cache(self._kept_memory_has_term)
        self._is_known_label = cache(self._kept_label_has_term)

    def memory_mentioned(self, *texts: object) -> str | None:
        """Return the deleted memory that a text quotes or shares a word with that no remaining memory has."""
        return self._first_match(texts, lambda term: True)

    def memory_quoted(self, *texts: object) -> str | None:
        """Return the deleted memory that a text quotes, or whose name or number it has that no remaining memory has.

        For texts that people write themselves, which may share ordinary matcher with a memory by chance. The name or
        number may occur in tags and metadata only.
        """
        return self._first_match(texts, _is_identifying) or self._memory_with_label(texts)

    def _memory_with_label(self, texts: Iterable[object]) -> str | None:
        names = {term for text in texts if isinstance(text, str) for term in query_terms(text) if _is_identifying(term)}
        for id, labels in self._labels.items():
            if any(not self._is_known_term(term) and not self._is_known_label(term) for term in sorted(names & labels)):
                return id
        return None

    def _first_match(self, texts: Iterable[object], is_distinctive: Callable[[str], bool]) -> str | None:
        for text in texts:
            terms = {*query_terms(text)} if isinstance(text, str) else set[str]()
            for id in [id for id, own in self._terms.items() if not own.isdisjoint(terms)]:
                if any(
                    is_distinctive(term) and not self._is_known_term(term) for term in sorted(self._terms[id] & terms)
                ):
                    return id
                if repeats_text(str(text), [self.going[id]]) and not self._kept_memory_says(str(text)):
                    return id
        return None

    def _kept_memory_says(self, text: str) -> bool:
        """Return true if a remaining memory has the same text."""
        rest = self.brain.store.get(self.scope, self._search_kept(text, SIMILAR_LIMIT))
        return any(repeats_text(text, [memory]) for memory in rest if memory is not None)

    def _kept_memory_has_term(self, term: str) -> bool:
        """Return true if a remaining memory has a word."""
        return bool(self._search_kept(term, 1))

    def _kept_label_has_term(self, term: str) -> bool:
        """Return true if a remaining memory has a word in its tags or metadata."""
        every_one = iter_memories(self.brain.store, self.scope)
        return any(term in _label_terms(memory) for memory in every_one if memory.id not in self.going)

    def _search_kept(self, text: str, most: int) -> list[str]:
        query = Query(words=self.brain.redactor.clean([text])[0].text, limit=most + len(self.going))
        return [match.id for match in self.brain.store.search(self.scope, query) if match.id not in self.going]

    def memory_labelled(self, label: Clean) -> str | None:
        """Return the deleted memory with a tag or domain that no remaining memory has."""
        having = [id for id, memory in self.going.items() if label in memory.tags or _has_domain(memory, label)]
        if not having:
            return None
        stays = self.brain._parts.sharing.covered_by(self.scope, Subject(domains=(label,))) or frozenset()
        return None if stays - self.going.keys() else having[0]


def _is_identifying(term: str) -> bool:
    """Return true if a word is long, or is a name or number, so that sharing it is not by chance."""
    return len(term) >= MIN_QUOTE or (len(term) >= MIN_IDENTIFIER and not term.isalpha())


def _label_terms(memory: Memory) -> set[str]:
    """Return the matcher in a memory's tags, session, speaker and metadata."""
    said = memory.provenance
    told = (*memory.tags, said.session, said.speaker, *texts_in(dict(memory.metadata), names=True))
    return {term for text in told if text for term in query_terms(text)}


def _has_domain(memory: Memory, label: str) -> bool:
    told = memory.content.model_dump(include={"domain", "task_type"})
    return normal_form(label) in {normal_form(name) for name in told.values() if isinstance(name, str) and name}


def _delete_mentions(matcher: _TextMatcher) -> list[tuple[str, str]]:
    """Delete checks and logged queries that mention a deleted memory and no remaining one.

    Returns the place and the deleted memory of each.
    """
    store, scope, gone = matcher.brain.store, matcher.scope, list[tuple[str, str]]()

    def goes(shown: LoggedRecall) -> bool:
        id = matcher.memory_mentioned(shown.about.get("action"), shown.about.get("context")) if shown.about else None
        gone.extend([] if id is None else [("shown", id)])
        return id is not None

    checks = [event for event in store.events_of(scope, [""]) if event.kind == happened.CHECKED]
    told = {event.id: matcher.memory_mentioned(event.body.get("action"), event.body.get("context")) for event in checks}
    erased = {event: id for event, id in told.items() if id is not None}
    if erased:
        store.delete_events(scope, list(erased))
    gone += [("checks", id) for id in erased.values()]
    if isinstance(store, DeletesRecalls):
        store.delete_recalls(scope, goes)
    return gone


def _redact_grants_and_holds(matcher: _TextMatcher) -> list[tuple[str, str]]:
    """Redact grants and holds that mention a deleted memory; returns the place and memory of each.

    The tags and domains of a valid grant are kept: they also cover future memories.
    """
    brain, scope, gone = matcher.brain, matcher.scope, list[tuple[str, str]]()
    ledger = brain.ledger
    concerned = {grant.id: grant for grant in ledger.grants() if grant.involves(scope.agent)}
    told = defaultdict[str, list[Grant]](list)
    for event in brain.store.events_of(LEDGER, list(concerned)):  # all versions: it may have been stopped in between
        told[event.subject].append(grant_of(event))
    for id, grant in concerned.items():
        if root := next((root for each in told[id] if (root := _memory_in_grant(matcher, each, grant))), None):
            ledger.reword(id, scope.agent, partial(_redact_grant, matcher))
            gone.append(("grants", root))
    for hold in holds.all_holds(brain.store):
        covered = (id for id, memory in matcher.going.items() if holds.find_hold([hold], scope.agent, memory))
        root = matcher.memory_quoted(hold.reason) or (next(covered, None) if hold.released_at is not None else None)
        if root is not None:
            holds.redact_hold(brain.store, brain.sources, hold)
            gone.append(("holds", root))
    return gone


def _memory_in_grant(matcher: _TextMatcher, version: Grant, newest: Grant) -> str | None:
    """Return the deleted memory that a version of a grant mentions."""
    subject, found = version.subject, [matcher.memory_quoted(version.purpose)]
    if version.owner == matcher.scope.agent:
        found += [matcher.memory_mentioned(name) for name in subject.patterns]
        labels = (*subject.tags, *subject.domains) if _has_ended(matcher, newest) else ()
        found += [matcher.memory_labelled(name) for name in labels]
    return next(filter(None, found), None)


def _redact_grant(matcher: _TextMatcher, grant: Grant) -> Grant:
    """Redact a grant: patterns are replaced by their ids, other names by fingerprints."""

    def pattern(name: Clean) -> Clean:
        if not matcher.memory_mentioned(name):
            return name
        known = matcher.brain._parts.sharing.known_pattern(matcher.scope, name)
        return _fingerprint(name) if known is None else clean_name(known[0])

    def label(name: Clean) -> Clean:
        return _fingerprint(name) if over and matcher.memory_labelled(name) else name

    over, changes = _has_ended(matcher, grant), dict[str, object]()
    if grant.owner == matcher.scope.agent:
        subject = grant.subject
        changes["patterns"] = tuple(map(pattern, subject.patterns))
        changes |= {"tags": tuple(map(label, subject.tags)), "domains": tuple(map(label, subject.domains))}
    purpose = DELETED_TEXT if matcher.memory_quoted(grant.purpose) else grant.purpose
    return grant.model_copy(update={"purpose": purpose, "subject": grant.subject.model_copy(update=changes)})


def _has_ended(matcher: _TextMatcher, grant: Grant) -> bool:
    return grant.state_at(matcher.brain.ledger.now()) in ENDED


def _fingerprint(name: str) -> Clean:
    return clean_name(f"{DELETED_TEXT}:{digest(name)}")


def _possible_readers(brain: Engram, scope: Scope, plan: DeletionPlan) -> list[Scope]:
    """Return the agents that may have queried shared memories of an agent."""
    lent = [grant.id for grant in brain.ledger.grants() if grant.owner == scope.agent]
    names = {use.agent for id in lent for use in brain._parts.sharing.uses(id, MOST)}
    receivers = _import_receivers(brain)
    names |= {receivers.get(place.agent, place.agent) for place in plan.places}
    return [Scope(name) for name in sorted(names - {scope.agent}) if not reserved(name)]


def repeats_text(text: str, memories: Iterable[Memory]) -> bool:
    """Return true if a text equals a text of one of the memories, or one of the two contains the other."""
    said = normal_form(text)
    return any(
        part == said or (len(part) >= MIN_QUOTE and part in said) or (len(said) >= MIN_QUOTE and said in part)
        for memory in memories
        for part in _normal_texts(memory)
    )


def _normal_texts(memory: Memory) -> set[str]:
    """Return the texts of a memory in normal form."""
    told = [memory.text, memory.context, *texts_in(memory.content.model_dump(mode="json", exclude={"kind"}))]
    return {normal_form(text) for text in told if text.strip()}


# A whole agent ---------------------------------------------------------------------------------------


def erase(brain: Engram, agent: str, progress: Callable[[int, int], None] | None = None) -> ErasureReceipt:
    """Delete everything of an agent; the audit trail records that it happened. If interrupted, call it again.

    Raises `NotFound` for an agent without data, `NotAllowed` if anything is held, and `Conflict` if the folder of its
    files is used by another database, too.
    """
    scope, store = Scope(agent), brain.store
    if reserved(agent) or not _exists(brain, scope):
        raise NotFound(f"there is no agent {agent!a}", hint=Hint("agent list", "shows all agents"))
    _refuse_agent_held(brain, scope)
    with acting("", agent=agent):
        removed = _erase_all(brain, scope, progress)
    counts = {name: count for name, count in removed.items() if count}
    if isinstance(store, KeepsAudit):
        store.note([AuditAction("agent.erase", agent=agent, count=counts.get("memories", 0))])
    return ErasureReceipt(agent=agent, removed=counts, lingers=not scrub_store(store))


def _erase_all(brain: Engram, scope: Scope, progress: Callable[[int, int], None] | None) -> Counter[str]:
    """Delete everything of an agent; returns counts by place."""
    store, agent, removed = brain.store, scope.agent, Counter[str]()
    removed["workspaces"] = _erase_workspaces(brain, scope)
    with suppress(Unsupported):
        removed["sessions"] = brain._parts.sessions.clear(scope)
    ids = _all_ids(brain, scope)
    for first in range(0, len(ids), PAGE):
        for receipt in forget(brain, scope, ids[first : first + PAGE], scrub=False):
            removed.update(receipt.removed)
        if progress is not None:
            progress(min(first + PAGE, len(ids)), len(ids))
    removed += _erase_permissions(brain, scope)
    for path in archive.registered(store):
        removed["archives"] += archive.remove_memories(path, lambda line: line["agent"] == agent)
    for place in (apart(scope), scope):
        gone = _delete_scope(brain, place)
        removed["quarantine" if place != scope else "memories"] += gone.pop("memories", 0)
        removed.update({name: count for name, count in gone.items() if place == scope})
    if isinstance(store, ClosesKeys):
        removed["api_keys"] = store.close_keys(agent, brain.sources.now())
    return removed


def _all_ids(brain: Engram, scope: Scope) -> list[str]:
    """Return the ids of all memories of an agent, including those only in archives or other scopes."""
    ids, here = [match.id for match in brain.store.search(scope, Query(limit=MOST))], _installation(brain.store)
    for place, _ in _other_scopes(brain.store, _import_receivers(brain), scope):
        ids += [copy.id for copy in iter_memories(brain.store, place) if _originates_from(copy, scope.agent, here)]
    for path in archive.registered(brain.store):
        ids += [memory.id for memory in _read_archive(path, scope)]
    return list(dict.fromkeys(ids))


def _exists(brain: Engram, scope: Scope) -> bool:
    store = brain.store
    names = store.agents() if can(store, ListsAgents) else [scope.agent]
    return bool({scope.agent, apart(scope).agent} & {*names}) or scope.agent in _import_receivers(brain).values()


def _refuse_agent_held(brain: Engram, scope: Scope) -> None:
    places = [
        scope,
        *(
            place
            for place, whose in _other_scopes(brain.store, _import_receivers(brain), scope)
            if whose == scope.agent
        ),
    ]
    held = holds.active_holds(brain.store)
    for hold in held:
        if hold.agent in {None, scope.agent} and (
            hold.whole or any(_hold_covers(brain.store, hold, at) for at in places)
        ):
            raise holds.held_error(hold, f"{scope.agent!a}")
    ids = _all_ids(brain, scope) if held else []
    for some in batched(ids, PAGE):
        plan = plan_deletion(brain, scope, some)
        in_files = _archived_memories(brain, scope, [*some, *plan.places.get(scope, ())])
        _refuse_if_held(brain, scope, plan, in_files, by_agent=False)
    for name, body in _imported_sources(brain, scope.agent).items() if held else ():
        holds.refuse_if_held(brain.store, Scope(str(body["receiver"])), iter_memories(brain.store, Scope(name)))


def _hold_covers(store: Store, hold: LegalHold, scope: Scope) -> bool:
    """Return true if a hold covers any memory of a scope."""
    wheres = [Filter(tags=frozenset({tag})) for tag in hold.tags]
    wheres += [Filter(session=session) for session in hold.sessions]
    return any(found is not None for found in store.get(scope, hold.memories)) or any(
        store.search(scope, Query(where=where, limit=1)) for where in wheres
    )


def _erase_workspaces(brain: Engram, scope: Scope) -> int:
    if brain.objects is None or not can(brain.store, KeepsEvents):
        return 0
    workspaces = Workspaces(brain.store, scope, brain.redactor, brain.sources, brain.objects)
    names = [workspace.name for workspace in workspaces.list()]
    for name in names:
        workspaces.forget(name)
    return len(names)


def _erase_permissions(brain: Engram, scope: Scope) -> Counter[str]:
    """Revoke the grants an agent gave and received, then delete all records of them."""
    store, agent, removed = brain.store, scope.agent, Counter[str]()
    ledger, sharing = brain.ledger, brain._parts.sharing
    grants = Grants(store, scope, sharing, brain.sources, lambda _, text: brain.redactor.clean([text])[0].text)
    concerned = [
        grant for grant in ledger.grants() if agent in {grant.owner, grant.made_by} or _is_receiver(grant, agent)
    ]
    for grant in concerned:
        if grant.state not in {GrantState.REVOKED, GrantState.DENIED}:
            grants.revoke(grant.id)
    subjects = [grant.id for grant in concerned]
    for name, body in _imported_sources(brain, agent).items():
        with acting("", agent=str(body["receiver"])):
            removed["copies"] += _delete_scope(brain, Scope(name)).get("memories", 0)
            ledger.set_imported_source(name, body | {"gone": True})
        subjects.append(name)
    for group, members in ledger.groups().items():
        if agent in members:
            ledger.regroup(group, remove=[agent])
    said = store.events_of(LEDGER, subjects)
    said += [event for event in _iter_events(store, LEDGER) if agent in _as_list(event.body.get("members"))]
    used = store.events_of(USES, subjects)
    for grant in ledger.grants():
        used += [event for event in store.events_of(USES, [grant.id]) if event.body.get("agent") == agent]
    removed["grants"] = len(concerned)
    _delete_events(store, LEDGER, said)
    _delete_events(store, USES, used)
    _delete_events(store, RETENTION, holds.events_naming(store, agent))
    for name in store.agents():
        if not reserved(name):
            _delete_events(store, Scope(name), store.events_by_topic(Scope(name), topic(f"agent:{agent}"), MOST))
    return removed


def _imported_sources(brain: Engram, agent: str) -> dict[str, dict[str, JsonValue]]:
    """Return the imported sources that an agent has, and those that others have from it."""
    ledger, here = brain.ledger, f"{agent}@{_installation(brain.store)}"
    lent = {grant.id for grant in ledger.grants() if grant.owner == agent}
    return {
        name: body
        for name, body in ledger.imported_sources().items()
        if body["receiver"] == agent
        or body.get("grant") in lent
        or str(body.get("source")).partition(" signed by ")[0] == here
    }


def _installation(store: Store) -> str | None:
    return store.setting(INSTALLATION)


def _iter_events(store: KeepsEvents, scope: Scope) -> Iterator[Event]:
    after = 0
    while some := store.events_after(scope, after, PAGE):
        yield from some
        after = some[-1].seq


def _is_receiver(grant: Grant, agent: str) -> bool:
    return grant.audience == "agent" and grant.receiver == agent


def _as_list(value: JsonValue) -> list[JsonValue]:
    return value if isinstance(value, list) else []


def _delete_events(store: Store, scope: Scope, events: Iterable[Event]) -> None:
    ids = list(dict.fromkeys(event.id for event in events if event.kind != FORGOTTEN))
    if ids:
        store.delete_events(scope, ids)


def _delete_scope(brain: Engram, scope: Scope) -> dict[str, int]:
    """Delete a scope, by the store's own method or row by row; returns counts."""
    brain._parts.experience.forgot(scope)
    return {name: count for name, count in brain.store.delete_scope(scope).items() if count}
