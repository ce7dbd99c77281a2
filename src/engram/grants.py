"""Giving, asking for and taking back permissions: what an agent can do about its knowledge and that of others."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Literal

from pydantic import JsonValue

from engram import arguments
from engram.arguments import When
from engram.errors import InvalidInput, NotAllowed, NotFound
from engram.ids import Sources
from engram.knowledge import consent
from engram.knowledge.quarantine import TAKEN_BACK, Quarantine
from engram.model import Clean, Memory
from engram.model.grant import Grant, GrantState, GrantUse, Revocation, Right, Source, Subject
from engram.ports import Filter, ListsAgents, MemoryStore, Query, Scope, reserved
from engram.privacy import refuse_secret
from engram.sharing import Sharing
from engram.words import normal_form

Names = str | Iterable[str]
Several = list[Grant]
Uses = list[GrantUse]
Lent = list[Source]
Ids = list[str]
BOTH = (Right.READ, Right.LEARN)
PAGE = 1000
MOST_USES = 100_000


class Grants:
    """One agent's side of all grants: those it gives, and those it gets."""

    def __init__(
        self, store: MemoryStore, scope: Scope, sharing: Sharing, sources: Sources, clean: Callable[[str, str], Clean]
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
    ) -> Grant:
        """Ask another agent for knowledge, and say what for; nothing is shared until it approves."""
        if owner == self._scope.agent:
            raise InvalidInput("an agent may use its own knowledge; ask another one")
        subject = self._subject(memories, patterns, domains, tags, everything=everything)
        grant = self._draft(GrantState.REQUESTED, Scope(owner), self._scope.agent, "agent", subject, rights, expires)
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
    ) -> Grant:
        """Offer knowledge to another agent; it is shared once that agent approves."""
        subject = self._own(self._subject(memories, patterns, domains, tags, everything=everything))
        receiver, audience = self._other(to)
        if audience != "agent":
            raise InvalidInput("an offer is made to one agent; share with a group or everyone instead")
        grant = self._draft(GrantState.OFFERED, self._scope, receiver, audience, subject, rights, expires)
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
    ) -> Grant:
        """Share at once: with an agent, `group:NAME` or `everyone`. `via` shares on what another agent lent.

        Raises `NotFound` for a memory or pattern that is not there, and `NotAllowed` for what may not be shared on.
        """
        subject = self._subject(memories, patterns, domains, tags, everything=everything)
        receiver, audience = self._other(to)
        owner = self._scope
        if via:
            above = self._ledger.grant(via)
            owner = Scope(above.owner)
            self._may_share_on(above, arguments.several("rights", rights))
            if audience == "agent" and receiver == above.owner:
                raise InvalidInput(f"it is {receiver}'s own knowledge already")
        else:
            subject = self._own(subject)
        grant = self._draft(GrantState.GRANTED, owner, receiver, audience, subject, rights, expires)
        said = self._clean("purpose", purpose) if purpose else Clean("")
        changes = {"purpose": said, "via": via, "decided_at": grant.made_at}
        return self._ledger.add(grant.model_copy(update=changes))

    def approve(self, id: str, *, rights: Names | None = None, expires: When | timedelta | None = None) -> Grant:
        """Agree to a request, with other rights and an end if they are given, or to an offer as it is."""
        now, by = self._ledger.now(), self._scope.agent
        some, end = None if rights is None else self._rights(rights), self._end(expires)
        return self._ledger.change(id, by, lambda grant: consent.approved(grant, by, now, some, end))

    def deny(self, id: str) -> Grant:
        """Turn a request or an offer down."""
        now, by = self._ledger.now(), self._scope.agent
        return self._ledger.change(id, by, lambda grant: consent.denied(grant, by, now))

    def revoke(self, id: str) -> Revocation:
        """End a grant at once, and take back what was derived from it at its receivers.

        Copies made under it are set apart, and so are memories that cite what it covered; patterns and rates that
        rested on it are without it from the next look on.
        """
        ledger, by = self._ledger, self._scope.agent
        before = ledger.grant(id)
        if not before.concerns(by):
            raise consent.unknown(id)
        grant = ledger.change(id, by, lambda known: consent.revoked(known, by, ledger.now()))
        ended = self._resting_on(grant)
        copies, moved = 0, list[str]()
        for name, body in ledger.annexes().items():
            if body.get("grant") in {each.id for each in ended} and not body.get("quarantined"):
                kept: dict[str, JsonValue] = {**body, "quarantined": True}
                ledger.annex(name, kept)
                copies += len(self._store.search(Scope(name), Query(limit=1_000_000)))
        used = [use for each in ended for use in self._sharing.uses(each.id, MOST_USES)]
        receivers = {use.agent for use in used} | {name for each in ended for name in self._receivers(each)}
        for receiver in sorted(receivers - {grant.owner}):
            seen = {id for use in used if use.agent == receiver for id in use.memories}
            moved += self._take_back(Scope(receiver), grant, seen)
        return Revocation(grant=grant, quarantined=tuple(moved), copies=copies)

    def _resting_on(self, grant: Grant) -> Several:
        """A grant and all that were shared on under it, however far."""
        found, every = [grant], self._ledger.grants()
        for each in found:
            found += [other for other in every if other.via == each.id and other not in found]
        return found

    def list(self, state: str | None = None) -> Several:
        """The grants that this agent gives, gets, asked for or was offered, oldest first, as they stand now."""
        now = self._ledger.now()
        wanted = None if state is None else _state(state)
        found = [grant for grant in self._ledger.grants() if self._sees(grant)]
        shown = [grant.model_copy(update={"state": grant.at(now)}) for grant in found]
        return [grant for grant in shown if wanted in {None, grant.state}]

    def get(self, id: str) -> Grant:
        """One of its grants, as it stands now. Raises `NotFound`."""
        grant = self._ledger.grant(id)
        if not self._sees(grant):
            raise consent.unknown(id)
        return grant.model_copy(update={"state": grant.at(self._ledger.now())})

    def uses(self, id: str, limit: int = 1000) -> Uses:
        """Who used a grant for what; its owner sees all uses, others their own."""
        grant = self.get(id)
        mine = {grant.owner, grant.made_by}
        return [use for use in self._sharing.uses(id, limit) if self._scope.agent in {use.agent, *mine}]

    def sources(self) -> Lent:
        """Those whose knowledge this agent may use, and how far it has reason to trust each."""
        return self._sharing.sources(self._scope)

    def _take_back(self, receiver: Scope, grant: Grant, seen: set[str]) -> Ids:
        """Set apart what an agent derived from what the grant covered, or repeats of it, and what it derived from that.

        What another grant still lets it read stays.
        """
        owner, mine = Scope(grant.owner), list(self._all(receiver))
        derived = [memory for memory in mine if memory.provenance.sources]
        cited = {source for memory in derived for source in memory.provenance.sources}
        theirs = {memory.id for memory in self._store.get(receiver, sorted(cited)) if memory is not None}
        foreign = {memory.id for memory in self._store.get(owner, sorted(cited - theirs)) if memory is not None}
        gone = foreign | (cited & seen)
        gone -= self._sharing.borrow(receiver, sorted(gone), "revoke").keys()
        covered = self._sharing.covered([grant])
        lent = self._all(owner) if covered is None else self._store.get(owner, sorted(covered))
        texts = {normal_form(memory.text) for memory in lent if memory is not None}
        repeats = [m for m in mine if m.created_at >= grant.made_at and normal_form(m.text) in texts]
        taken: dict[str, Memory] = {memory.id: memory for memory in repeats}
        gone |= taken.keys()
        while fresh := [m for m in derived if m.id not in taken and gone & {*m.provenance.sources}]:
            taken |= {memory.id: memory for memory in fresh}
            gone = gone | taken.keys()
        return Quarantine(self._store, receiver, self._sources).move(list(taken), TAKEN_BACK)

    def _all(self, scope: Scope) -> Iterable[Memory]:
        offset = 0
        while some := self._store.search(scope, Query(where=Filter(), limit=PAGE, offset=offset)):
            yield from (memory for memory in self._store.get(scope, [each.id for each in some]) if memory is not None)
            offset += len(some)

    def _receivers(self, grant: Grant) -> Iterable[str]:
        if grant.audience != "everyone":
            return self._ledger.receivers(grant)
        names = self._store.agents() if isinstance(self._store, ListsAgents) else []
        return [name for name in names if not reserved(name)]

    def _sees(self, grant: Grant) -> bool:
        if grant.concerns(self._scope.agent) or grant.audience == "everyone":
            return True
        return grant.audience == "group" and self._scope.agent in self._ledger.groups().get(grant.receiver, ())

    def _may_share_on(self, above: Grant, rights: Iterable[str]) -> None:
        wanted = {Right(right) for right in self._rights(rights)} | {Right.RESHARE}
        for right in wanted:
            chains = self._ledger.active(self._scope.agent, right)
            if not any(chain[0].id == above.id for chain in chains):
                raise NotAllowed(f"grant {above.id!a} does not let you share on with the right to {right}")

    def _own(self, subject: Subject) -> Subject:
        """The same, if this agent has the memories and patterns that it names. Raises `NotFound`."""
        for id, memory in zip(subject.memories, self._store.get(self._scope, subject.memories), strict=True):
            if memory is None:
                raise NotFound(f"there is no memory {id!a}; `engram memory list` shows what there is")
        for name in subject.patterns:
            if self._sharing.pattern(self._scope, name) is None:
                raise NotFound(f"there is no pattern {name!a}; `engram memory patterns` shows what there is")
        return subject

    def _draft(
        self,
        state: GrantState,
        owner: Scope,
        receiver: str,
        audience: Literal["agent", "group", "everyone"],
        subject: Subject,
        rights: Names,
        expires: When | timedelta | None,
    ) -> Grant:
        for name in (owner.agent, receiver):
            if reserved(name):
                raise InvalidInput("this name is reserved; give the name of an agent")
            refuse_secret(None, name, "the name of an agent")
        for id in subject.memories:
            refuse_secret(None, id, "the id of a memory")
        return Grant(
            id=self._sources.new_id(),
            owner=owner.agent,
            receiver=receiver,
            audience=audience,
            subject=subject,
            rights=self._rights(rights),
            state=state,
            made_by=self._scope.agent,
            made_at=self._ledger.now(),
            expires_at=self._end(expires),
        )

    def _subject(self, memories: Names, patterns: Names, domains: Names, tags: Names, *, everything: bool) -> Subject:
        return consent.subject_of(
            arguments.several("memories", memories),
            [self._clean("pattern", name) for name in arguments.several("patterns", patterns)],
            [self._clean("domain", name) for name in arguments.several("domains", domains)],
            [self._clean("tag", tag.strip()) for tag in arguments.several("tags", tags)],
            everything=everything,
        )

    def _other(self, to: str) -> tuple[str, Literal["agent", "group", "everyone"]]:
        receiver, audience = consent.audience_of(to)
        if audience == "agent" and receiver == self._scope.agent:
            raise InvalidInput("an agent may use its own knowledge; share it with another one")
        return receiver, audience

    @staticmethod
    def _rights(rights: Names) -> tuple[Right, ...]:
        given = arguments.several("rights", rights)
        try:
            return tuple(dict.fromkeys(Right(right) for right in given)) or BOTH
        except ValueError:
            raise InvalidInput(f"rights are {', '.join(Right)}, not {given!a}") from None

    def _end(self, expires: When | timedelta | None) -> datetime | None:
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
