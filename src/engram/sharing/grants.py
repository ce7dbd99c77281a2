"""Request, offer, approve and revoke grants between agents."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Literal

from pydantic import JsonValue

from engram.clock import ID_LENGTH, Sources
from engram.errors import Hint, InvalidInput, NotAllowed, NotFound
from engram.learning.events import event_of
from engram.memories import holds
from engram.model import Clean, Memory
from engram.model.grant import Grant, GrantState, GrantUse, Revocation, Right, Source, Subject
from engram.ports import Entry, Filter, Query, Scope, Store, acting, arguments, reserved
from engram.ports.arguments import When
from engram.privacy import refuse_secret
from engram.recording.quarantine import TAKEN_BACK, Quarantine
from engram.sharing import ledger as consent
from engram.sharing.lenders import LINEAGE, Sharing
from engram.text.terms import digest, normal_form

Names = str | Iterable[str]
GrantList = list[Grant]
Uses = list[GrantUse]
SourceList = list[Source]
Ids = list[str]
Memories = list[Memory]
BOTH = (Right.READ, Right.LEARN)
PAGE = 1000
MAX_USES = 100_000


class Grants:
    """The grants that one agent gives or receives."""

    def __init__(
        self, store: Store, scope: Scope, sharing: Sharing, sources: Sources, clean: Callable[[str, str], Clean]
    ) -> None:
        self._store = store
        self._scope = scope
        self._sharing = sharing
        self._sources = sources
        self._clean = clean

    def request(
        self,
        owner: str,
        *,
        memories: Names = (),
        patterns: Names = (),
        domains: Names = (),
        tags: Names = (),
        everything: bool = False,
        purpose: str,
        rights: Names = BOTH,
        expires: When | timedelta | None = None,
        key: str | None = None,
    ) -> Grant:
        """Request access to another agent's knowledge for a purpose; nothing is shared until the owner approves.

        Repeating a request with the same `key` returns the same grant. Raises `Conflict` if the key belongs to a
        different grant.
        """
        if owner == self._scope.agent:
            raise InvalidInput("an agent needs no grant for its own knowledge; request it from another agent")
        subject = self._clean_subject(memories, patterns, domains, tags, everything=everything)
        grant = self._new_grant(
            GrantState.REQUESTED, Scope(owner), self._scope.agent, "agent", subject, rights, expires, key
        )
        return self._ledger.add(grant.model_copy(update={"purpose": self._clean("purpose", purpose)}))

    def offer(
        self,
        to: str,
        *,
        memories: Names = (),
        patterns: Names = (),
        domains: Names = (),
        tags: Names = (),
        everything: bool = False,
        purpose: str,
        rights: Names = BOTH,
        expires: When | timedelta | None = None,
        key: str | None = None,
    ) -> Grant:
        """Offer knowledge to another agent; it is shared once that agent approves. `key` works as in `request`."""
        subject = self._resolve_subject(self._clean_subject(memories, patterns, domains, tags, everything=everything))
        receiver, audience = self._parse_receiver(to)
        if audience != "agent":
            raise InvalidInput("an offer is made to one agent; share with a group or everyone instead")
        grant = self._new_grant(GrantState.OFFERED, self._scope, receiver, audience, subject, rights, expires, key)
        return self._ledger.add(grant.model_copy(update={"purpose": self._clean("purpose", purpose)}))

    def share(
        self,
        to: str,
        *,
        memories: Names = (),
        patterns: Names = (),
        domains: Names = (),
        tags: Names = (),
        everything: bool = False,
        purpose: str = "",
        rights: Names = BOTH,
        expires: When | timedelta | None = None,
        via: str = "",
        key: str | None = None,
    ) -> Grant:
        """Share at once with an agent, `group:NAME` or `everyone`; `via` reshares what a received grant covers.

        `key` works as in `request`. Raises `NotFound` for a memory or pattern that does not exist, and `NotAllowed`
        if the grant does not allow resharing.
        """
        subject = self._clean_subject(memories, patterns, domains, tags, everything=everything)
        receiver, audience = self._parse_receiver(to)
        owner = self._scope
        if via:
            above = self.get(via)
            owner = Scope(above.owner)
            self._check_may_reshare(above, arguments.several("rights", rights))
            if audience == "agent" and receiver == above.owner:
                raise InvalidInput(f"this knowledge belongs to {receiver} already; share it with another agent")
        else:
            subject = self._resolve_subject(subject)
        grant = self._new_grant(GrantState.GRANTED, owner, receiver, audience, subject, rights, expires, key)
        clean_purpose = self._clean("purpose", purpose) if purpose else Clean("")
        changes = {"purpose": clean_purpose, "via": via, "decided_at": grant.made_at}
        return self._ledger.add(grant.model_copy(update=changes))

    def approve(self, id: str, *, rights: Names | None = None, expires: When | timedelta | None = None) -> Grant:
        """Approve a request, with other rights and another end if these are given, or an offer as it is."""
        now, by = self._ledger.now(), self._scope.agent
        changed, end = None if rights is None else self._rights(rights), self._expiry(expires)
        return self._ledger.change(id, by, lambda grant: consent.approved(grant, by, now, changed, end))

    def deny(self, id: str) -> Grant:
        """Deny a request or an offer."""
        now, by = self._ledger.now(), self._scope.agent
        return self._ledger.change(id, by, lambda grant: consent.denied(grant, by, now))

    def revoke(self, id: str) -> Revocation:
        """End a grant at once and quarantine what its receivers derived from it.

        Quarantined are copies made under the grant, memories that cite what it covered or repeat it word for word, and
        what was derived from these. Patterns and rates no longer include the shared knowledge from the next read on.
        """
        ledger, by = self._ledger, self._scope.agent
        before = ledger.grant(id)
        if not before.involves(by):
            raise consent.no_such_grant(id)
        grant = ledger.change(id, by, lambda current: consent.revoked(current, by, ledger.now()))
        with acting(by, grant=id):
            return self._quarantine_derived(grant, before)

    def _quarantine_derived(self, grant: Grant, before: Grant) -> Revocation:
        """Quarantine what receivers derived from a grant that has ended; `before` is the grant before it ended."""
        ledger, ended = self._ledger, self._with_reshares(grant)
        copies, moved = 0, list[str]()
        for name, body in ledger.imported_sources().items():
            if body.get("grant") in {each.id for each in ended} and not body.get("quarantined"):
                quarantined: dict[str, JsonValue] = {**body, "quarantined": True}
                ledger.set_imported_source(name, quarantined)
                copies += len(self._store.search(Scope(name), Query(limit=1_000_000)))
        had: dict[str, GrantList] = {}
        seen: dict[str, set[str]] = {}
        for each in (before, *ended[1:]):
            used = self._sharing.uses(each.id, MAX_USES)
            named = self._receivers(each) if each.state == GrantState.GRANTED else ()  # otherwise its uses name them
            for name in {use.agent for use in used}.union(named):
                had.setdefault(name, []).append(each)
            for use in used:
                seen.setdefault(use.agent, set()).update(use.memories)
        for name in sorted(had.keys() - {grant.owner}):
            moved += self._quarantine_at(Scope(name), had[name], seen.get(name, set()))
        return Revocation(grant=grant, quarantined=tuple(moved), copies=copies)

    def _with_reshares(self, grant: Grant) -> GrantList:
        """List a grant and every grant that reshares it, directly or through other grants."""
        found, all_grants = [grant], self._ledger.grants()
        for each in found:
            found += [other for other in all_grants if other.via == each.id and other not in found]
        return found

    def list(self, state: str | None = None) -> GrantList:
        """List the grants that this agent gave, received, requested or was offered, with their current state."""
        now = self._ledger.now()
        wanted = None if state is None else _state(state)
        found = [grant for grant in self._ledger.grants() if self._may_see(grant)]
        shown = [grant.model_copy(update={"state": grant.state_at(now)}) for grant in found]
        return [grant for grant in shown if wanted in {None, grant.state}]

    def get(self, id: str) -> Grant:
        """Return one of the agent's grants in its current state. Raises `NotFound`."""
        grant = self._ledger.grant(id)
        if not self._may_see(grant):
            raise consent.no_such_grant(id)
        return grant.model_copy(update={"state": grant.state_at(self._ledger.now())})

    def uses(self, id: str, limit: int = 1000) -> Uses:
        """List the logged uses of a grant: all of them for its owner and its maker, otherwise the agent's own."""
        grant = self.get(id)
        mine = {grant.owner, grant.made_by}
        return [use for use in self._sharing.uses(id, limit) if self._scope.agent in {use.agent, *mine}]

    def sources(self) -> SourceList:
        """List the sources that this agent may use, with the trust that each has earned."""
        return self._sharing.sources(self._scope)

    def _quarantine_at(self, receiver: Scope, ended: GrantList, seen: set[str]) -> Ids:
        """Quarantine a receiver's memories that cite or repeat what ended grants covered, and derivations of them.

        Memories based only on what another grant still lets it read stay.
        """
        owner, mine = Scope(ended[0].owner), list(self._all(receiver))
        derived = [memory for memory in mine if memory.provenance.sources]
        cited = {source for memory in derived for source in memory.provenance.sources}
        theirs = {memory.id for memory in self._store.get(receiver, sorted(cited)) if memory is not None}
        foreign = {memory.id for memory in self._store.get(owner, sorted(cited - theirs)) if memory is not None}
        gone = self._unreadable(receiver, foreign | ((cited - theirs) & seen))
        taken = {id for each in ended for id in self._verbatim_repeats(receiver, mine, each)}
        gone |= taken
        while fresh := {m.id for m in derived if m.id not in taken and gone & {*m.provenance.sources}}:
            taken |= fresh
            gone |= fresh
        moved = Quarantine(self._store, receiver, self._sources).move(sorted(taken), TAKEN_BACK)
        self._drop_copies(receiver, moved)
        return moved

    def _unreadable(self, reader: Scope, ids: set[str]) -> set[str]:
        """Return those of other agents' memories that an agent may not read now."""
        for lender in self._sharing.lenders(reader, Right.READ) if ids else ():
            ids = ids - {memory.id for memory in lender.store.get(lender.scope, sorted(ids)) if memory is not None}
        return ids

    def _verbatim_repeats(self, receiver: Scope, mine: Memories, grant: Grant) -> Ids:
        """List memories that repeat, word for word, what a grant let the receiver read, written while it was in force.

        Nothing else is compared: a match would reveal that a guess about unshared text was right. Decisions and
        failures are left out: they are the receiver's own experience, whatever their wording.
        """
        chain = self._reshare_chain(grant)
        if not chain or not all(Right.READ in each.rights for each in chain):
            return []
        starts = [(each.decided_at if each.state == GrantState.GRANTED else None) or each.made_at for each in chain]
        ends = [each.decided_at for each in chain if each.state == GrantState.REVOKED]
        ends += [each.expires_at for each in chain]
        end_times = [end for end in ends if end is not None]
        statements = [memory for memory in mine if event_of(memory) is None]
        written_then = [
            m for m in statements if m.created_at >= max(starts) and all(m.created_at <= end for end in end_times)
        ]
        if not written_then:
            return []
        owner, covered = Scope(grant.owner), self._sharing.covered(chain)
        shared = self._all(owner) if covered is None else self._store.get(owner, sorted(covered))
        by_text: dict[str, list[Memory]] = {}
        for memory in shared:
            if memory is not None:
                by_text.setdefault(normal_form(memory.text), []).append(memory)
        same = {
            m.id: [one.id for one in by_text.get(normal_form(m.text), ()) if one.created_at <= m.created_at]
            for m in written_then
        }
        unreadable = self._unreadable(receiver, {id for ids in same.values() for id in ids})
        return [id for id, ids in same.items() if not unreadable.isdisjoint(ids)]

    def _reshare_chain(self, grant: Grant) -> GrantList:
        """List a grant and the grants it reshares; empty if one of these no longer exists."""
        grants, chain = {each.id: each for each in self._ledger.grants()}, [grant]
        while chain[-1].via in grants:
            chain.append(grants[chain[-1].via])
        return [] if chain[-1].via else chain

    def _drop_copies(self, scope: Scope, ids: Ids) -> None:
        """Delete other agents' copies of quarantined memories; a copy under a hold is quarantined instead."""
        held = holds.active_holds(self._store) if ids else []
        for name, body in self._ledger.imported_sources().items() if ids else ():
            copies = [copy for copy in self._store.get(Scope(name), ids) if copy is not None]
            lineages = [copy.metadata.get(LINEAGE) for copy in copies]
            theirs = [
                c
                for c, lineage in zip(copies, lineages, strict=True)
                if isinstance(lineage, dict) and lineage.get("agent") == scope.agent
            ]
            receiver = Scope(str(body["receiver"]))
            kept = [(Entry(c), TAKEN_BACK) for c in theirs if holds.find_hold(held, receiver.agent, c)]
            with acting(self._scope.agent, agent=receiver.agent):
                if kept:
                    Quarantine(self._store, receiver, self._sources).keep(kept)
                if theirs:
                    self._store.forget(Scope(name), [c.id for c in theirs])

    def _all(self, scope: Scope) -> Iterable[Memory]:
        offset = 0
        while some := self._store.search(scope, Query(where=Filter(), limit=PAGE, offset=offset)):
            yield from (memory for memory in self._store.get(scope, [each.id for each in some]) if memory is not None)
            offset += len(some)

    def _receivers(self, grant: Grant) -> Iterable[str]:
        if grant.audience != "everyone":
            return self._ledger.receivers(grant)
        names = self._store.agents()
        return [name for name in names if not reserved(name)]

    def _may_see(self, grant: Grant) -> bool:
        if grant.involves(self._scope.agent) or grant.audience == "everyone":
            return True
        return grant.audience == "group" and self._scope.agent in self._ledger.groups().get(grant.receiver, ())

    def _check_may_reshare(self, above: Grant, rights: Iterable[str]) -> None:
        wanted = {Right(right) for right in self._rights(rights)} | {Right.RESHARE}
        for right in wanted:
            chains = self._ledger.active(self._scope.agent, right)
            if not any(chain[0].id == above.id for chain in chains):
                raise NotAllowed(f"grant {above.id!a} does not let you reshare with the right `{right}`")

    def _resolve_subject(self, subject: Subject) -> Subject:
        """Check that this agent has what a subject names, and resolve its pattern names. Raises `NotFound`."""
        for id, memory in zip(subject.memories, self._store.get(self._scope, subject.memories), strict=True):
            if memory is None:
                raise NotFound(f"there is no memory {id!a}", hint=Hint("memory list"))
        names = tuple(self._sharing.resolve_pattern(self._scope, name) for name in subject.patterns)
        return subject.model_copy(update={"patterns": names})

    def _new_grant(
        self,
        state: GrantState,
        owner: Scope,
        receiver: str,
        audience: Literal["agent", "group", "everyone"],
        subject: Subject,
        rights: Names,
        expires: When | timedelta | None,
        key: str | None,
    ) -> Grant:
        for name in (owner.agent, receiver):
            if reserved(name):
                raise InvalidInput("this name is reserved; give the name of an agent")
            refuse_secret(None, name, "the name of an agent")
        for id in subject.memories:
            refuse_secret(None, id, "the id of a memory")
        return Grant(
            id=self._sources.new_id() if key is None else digest("grant", self._scope.agent, key)[:ID_LENGTH],
            owner=owner.agent,
            receiver=receiver,
            audience=audience,
            subject=subject,
            rights=self._rights(rights),
            state=state,
            made_by=self._scope.agent,
            made_at=self._ledger.now(),
            expires_at=self._expiry(expires),
        )

    def _clean_subject(
        self, memories: Names, patterns: Names, domains: Names, tags: Names, *, everything: bool
    ) -> Subject:
        return consent.subject_of(
            arguments.several("memories", memories),
            [self._clean("pattern", name) for name in arguments.several("patterns", patterns)],
            [self._clean("domain", name) for name in arguments.several("domains", domains)],
            [self._clean("tag", tag.strip()) for tag in arguments.several("tags", tags)],
            everything=everything,
        )

    def _parse_receiver(self, to: str) -> tuple[str, Literal["agent", "group", "everyone"]]:
        receiver, audience = consent.audience_of(to)
        if audience == "agent" and receiver == self._scope.agent:
            raise InvalidInput("an agent needs no grant for its own knowledge; share it with another agent")
        return receiver, audience

    @staticmethod
    def _rights(rights: Names) -> tuple[Right, ...]:
        given = arguments.several("rights", rights)
        try:
            return tuple(dict.fromkeys(Right(right) for right in given)) or BOTH
        except ValueError:
            raise InvalidInput(f"rights are {', '.join(Right)}, not {given!a}") from None

    def _expiry(self, expires: When | timedelta | None) -> datetime | None:
        if isinstance(expires, timedelta):
            end: datetime | None = self._ledger.now() + expires
        else:
            end = arguments.moment("expires", expires)
        if end is not None and end <= self._ledger.now():
            raise InvalidInput("a grant must end in the future")
        return end

    @property
    def _ledger(self) -> consent.Ledger:
        return self._sharing.ledger


def _state(name: str) -> GrantState:
    try:
        return GrantState(name)
    except ValueError:
        raise InvalidInput(f"a grant is {', '.join(GrantState)}, not {name!a}") from None
