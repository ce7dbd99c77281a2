"""The ledger of grants: an append-only log from which all permissions are computed.

Each version of a grant is written once, so of two simultaneous changes only one succeeds. Every query first reads what
was written since the last one, so a revocation takes effect at once, in every process.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from datetime import datetime
from itertools import pairwise
from typing import Literal

from pydantic import JsonValue, ValidationError

from engram.clock import EPOCH, Sources
from engram.errors import Conflict, Hint, InvalidInput, NotAllowed, NotFound
from engram.model import Clean
from engram.model.grant import EVERYONE, Grant, GrantState, Right, Subject
from engram.model.memory import describe_error
from engram.ports import FORGOTTEN, Event, KeepsEvents, Redactor, Scope, Store, acting
from engram.ports.completed import require
from engram.privacy import refuse_secret

LEDGER = Scope("\x1fledger")
"""The reserved scope of the log; no agent can have its name."""
LINEAGE = "lineage"
"""The metadata field of a copy with the agent and the database that its original comes from."""
GRANT, GROUP, ANNEX, BY = "grant", "group", "annex", "by"
PAGE = 1000
OPEN = frozenset({GrantState.REQUESTED, GrantState.OFFERED})


class Ledger:
    """Grants, groups and imported sources of one database."""

    def __init__(self, events: Store, sources: Sources) -> None:
        self._events = events
        self._sources = sources
        self._lock = threading.Lock()
        self._seq = 0
        self._newest = EPOCH
        self._grants: dict[str, Grant] = {}
        self._groups: dict[str, tuple[int, frozenset[str]]] = {}
        self._imported_sources: dict[str, dict[str, JsonValue]] = {}

    def now(self) -> datetime:
        """Return the time, at least that of the newest entry: an expired grant stays expired if clocks are set back."""
        return max(self._sources.now(), self._newest)

    def has_entries(self) -> bool:
        """Return true if there is any grant or imported source; the log is only read while none is known."""
        with self._lock:
            if not (self._grants or self._imported_sources):
                self._read()
            return bool(self._grants or self._imported_sources)

    def grants(self) -> list[Grant]:
        """List all grants, oldest first."""
        with self._lock:
            self._read()
            return list(self._grants.values())

    def groups(self) -> dict[str, frozenset[str]]:
        """Return the groups that have members, with their members."""
        with self._lock:
            self._read()
            return {name: members for name, (_, members) in self._groups.items() if members}

    def imported_sources(self, receiver: str | None = None) -> dict[str, dict[str, JsonValue]]:
        """Return the imported sources of one receiver or of all, by the name of their scope."""
        with self._lock:
            self._read()
            found = {name: dict(body) for name, body in self._imported_sources.items()}
        return {name: body for name, body in found.items() if receiver is None or body["receiver"] == receiver}

    def grant(self, id: str) -> Grant:
        """Return the grant with this id. Raises `NotFound`."""
        with self._lock:
            self._read()
            found = self._grants.get(id)
        if found is None:
            raise no_such_grant(id)
        return found

    def add(self, grant: Grant) -> Grant:
        """Add a grant, or return the existing one if it is the same. Raises `Conflict` if its id belongs to another."""
        if self._append(f"{grant.id}:1", GRANT, grant.id, grant.model_dump(mode="json") | {BY: grant.made_by}):
            return grant
        existing = self.grant(grant.id)
        if any(getattr(existing, name) != getattr(grant, name) for name in _IMMUTABLE):
            raise Conflict("this key belongs to another grant; use a new one")
        return existing

    def change(self, id: str, by: str, decide: Callable[[Grant], Grant]) -> Grant:
        """Write the next version of a grant on behalf of `by`; `decide` gets the newest version and may raise."""
        while True:
            current = self.grant(id)
            changed = decide(current)
            if changed == current:
                return current
            changed = changed.model_copy(update={"version": current.version + 1})
            if self._append(f"{id}:{changed.version}", GRANT, id, changed.model_dump(mode="json") | {BY: by}):
                return changed

    def reword(self, id: str, by: str, rewrite: Callable[[Grant], Grant]) -> bool:
        """Replace the text of a grant and delete its earlier versions; return `True` if the text changed.

        The new version is written first: if interrupted, call it again.
        """
        with acting(by, "grant.reword"):
            before, newest = self.grant(id), self.change(id, by, rewrite)
            old = [f"{id}:{version}" for version in range(1, newest.version)]
            if old:
                self._events.delete_events(LEDGER, old)
        return newest != before

    def regroup(
        self, name: str, *, add: Iterable[str] = (), remove: Iterable[str] = (), redactor: Redactor | None = None
    ) -> frozenset[str]:
        """Add and remove members of a group, one at a time, and return its members.

        Raises `InvalidInput` before any change if a new name contains a secret.
        """
        added, removed = set(add), set(remove)
        for each in sorted(added):
            refuse_secret(redactor, name, "the name of this group")
            refuse_secret(redactor, each, "this agent's name")
        for agent in sorted(added - removed):
            self._regroup(name, agent, "group.add")
        for agent in sorted(removed):
            self._regroup(name, agent, "group.remove")
        return self.groups().get(name, frozenset())

    def _regroup(self, name: str, agent: str, action: Literal["group.add", "group.remove"]) -> None:
        while True:
            with self._lock:
                self._read()
                version, members = self._groups.get(name, (0, frozenset[str]()))
            changed = members | {agent} if action == "group.add" else members - {agent}
            if changed == members:
                return
            body: dict[str, JsonValue] = {"name": name, "version": version + 1, "members": [*sorted(changed)]}
            with acting("", action, agent=agent):
                if self._append(f"group:{name}:{version + 1}", GROUP, name, body):
                    return

    def set_imported_source(self, scope: str, body: dict[str, JsonValue]) -> None:
        """Store the data of an imported source, replacing the old."""
        self._append(self._sources.new_id(), ANNEX, scope, body | {"scope": scope})

    def shared_with(
        self, receiver: str, right: Right
    ) -> tuple[list[tuple[Grant, ...]], dict[str, dict[str, JsonValue]]]:
        """Return the grants that give an agent a right now, and its imported sources, from one read of the log.

        Each grant is followed by the grants it reshares, the owner's last.
        """
        with self._lock:
            self._read()
            grants, groups = dict(self._grants), self._groups
            imported = {
                name: dict(body) for name, body in self._imported_sources.items() if body["receiver"] == receiver
            }
        now, found = self.now(), list[tuple[Grant, ...]]()
        for grant in grants.values():
            chain = _chain(grant, grants)
            if (
                chain is not None
                and grant.owner != receiver
                and _is_received_by(grant, receiver, groups)
                and all(right in each.rights and each.state_at(now) == GrantState.GRANTED for each in chain)
                and all(Right.RESHARE in each.rights for each in chain[1:])
                and all(_is_received_by(above, below.made_by, groups) for below, above in pairwise(chain))
            ):
                found.append(chain)
        return found, imported

    def active(self, receiver: str, right: Right) -> list[tuple[Grant, ...]]:
        """List the grants that give an agent a right now, each followed by the grants it reshares, the owner's last."""
        return self.shared_with(receiver, right)[0]

    def receivers(self, grant: Grant) -> list[str]:
        """List the agents that a grant names, directly or through its group; empty for `everyone`."""
        if grant.audience == "agent":
            return [grant.receiver]
        return sorted(self.groups().get(grant.receiver, ())) if grant.audience == "group" else []

    def _append(self, id: str, kind: str, subject: str, body: dict[str, JsonValue]) -> bool:
        require(self._events, KeepsEvents, "sharing")
        event = Event(id, kind, self._sources.now(), subject, kind, body)
        return self._events.append(LEDGER, [event])[0]

    def _read(self) -> None:
        while some := self._events.events_after(LEDGER, self._seq, PAGE):
            for event in some:
                self._fold(event)
            self._seq = some[-1].seq

    def _fold(self, event: Event) -> None:
        self._newest = max(self._newest, event.at)
        if event.kind == GRANT:
            grant = grant_of(event)
            self._grants[grant.id] = grant
        elif event.kind == GROUP:
            members, version = event.body["members"], event.body["version"]
            if isinstance(members, list) and isinstance(version, int):
                self._groups[str(event.body["name"])] = (version, frozenset(str(each) for each in members))
        elif event.kind == FORGOTTEN:  # the newest version is deleted only when its owner or receiver is erased
            id, _, version = str(event.body.get("id")).rpartition(":")
            if id in self._grants and version == str(self._grants[id].version):
                del self._grants[id]
        elif event.kind == ANNEX:
            if event.body.get("gone"):
                self._imported_sources.pop(event.subject, None)
            else:
                self._imported_sources[event.subject] = dict(event.body)


def grant_of(event: Event) -> Grant:
    """Return the version of a grant that an event stores."""
    return Grant.model_validate({name: value for name, value in event.body.items() if name != BY})


_IMMUTABLE = ("owner", "receiver", "audience", "subject", "purpose", "via", "made_by")
"""The fields that are the same in all versions of a grant."""


def _chain(grant: Grant, grants: dict[str, Grant]) -> tuple[Grant, ...] | None:
    """Return a grant and the grants it reshares; `None` if one of these is missing."""
    chain = [grant]
    while chain[-1].via:
        above = grants.get(chain[-1].via)
        if above is None or above in chain:
            return None
        chain.append(above)
    return tuple(chain)


def _is_received_by(grant: Grant, agent: str, groups: dict[str, tuple[int, frozenset[str]]]) -> bool:
    if grant.audience == "everyone":
        return True
    if grant.audience == "group":
        return agent in groups.get(grant.receiver, (0, frozenset[str]()))[1]
    return grant.receiver == agent


def no_such_grant(id: str) -> NotFound:
    """Make the error for a grant that does not exist or that the caller may not see; they are not distinguished."""
    return NotFound(f"there is no grant {id!a}", hint=Hint("grant list"))


def subject_of(
    memories: Iterable[str] = (),
    patterns: Iterable[Clean] = (),
    domains: Iterable[Clean] = (),
    tags: Iterable[Clean] = (),
    *,
    everything: bool = False,
) -> Subject:
    """Build the subject of a grant. Raises `InvalidInput` if it names nothing."""
    try:
        return Subject(
            memories=tuple(memories),
            patterns=tuple(patterns),
            domains=tuple(domains),
            tags=tuple(tags),
            everything=everything,
        )
    except ValidationError as error:
        raise InvalidInput(describe_error(error)) from None


def audience_of(to: str, redactor: Redactor | None = None) -> tuple[str, Literal["agent", "group", "everyone"]]:
    """Parse a receiver: `everyone`, `group:NAME` or an agent. Raises `InvalidInput` if the name contains a secret."""
    if to == EVERYONE:
        return EVERYONE, "everyone"
    refuse_secret(redactor, to, "the receiver's name")
    kind, separator, name = to.partition(":")
    if separator and kind == "group":
        if not name.strip():
            raise InvalidInput("a group needs a name, such as group:backend")
        return name, "group"
    return Scope(to).agent, "agent"


def approved(
    grant: Grant,
    by: str,
    now: datetime,
    rights: tuple[Right, ...] | None,
    expires_at: datetime | None,
) -> Grant:
    """Return a request or an offer as approved by the other side."""
    _check_decider(grant, by, "approve")
    if grant.state not in OPEN:
        raise Conflict(f"grant {grant.id} is {grant.state_at(now)} already; request or share it again")
    giver = grant.state == GrantState.REQUESTED
    if not giver and (rights is not None or expires_at is not None):
        raise NotAllowed("only the owner sets the rights and the end of an offer; approve it as it is, or deny it")
    changes: dict[str, object] = {"state": GrantState.GRANTED, "decided_at": now}
    if rights is not None:
        changes["rights"] = rights
    if expires_at is not None:
        changes["expires_at"] = expires_at
    return grant.model_copy(update=changes)


def denied(grant: Grant, by: str, now: datetime) -> Grant:
    """Return a request or an offer as denied."""
    _check_decider(grant, by, "deny")
    if grant.state == GrantState.DENIED:
        return grant
    if grant.state not in OPEN:
        raise Conflict(f"grant {grant.id} is {grant.state_at(now)} already; revoke it instead")
    return grant.model_copy(update={"state": GrantState.DENIED, "decided_at": now})


def revoked(grant: Grant, by: str, now: datetime) -> Grant:
    """Return a grant as revoked by its owner, its receiver or the agent that made it."""
    if not grant.involves(by):
        raise no_such_grant(grant.id)
    if grant.state in {GrantState.REVOKED, GrantState.DENIED}:
        return grant
    return grant.model_copy(update={"state": GrantState.REVOKED, "decided_at": now})


def _check_decider(grant: Grant, by: str, decision: str) -> None:
    if not grant.involves(by):
        raise no_such_grant(grant.id)
    decider = grant.receiver if grant.made_by == grant.owner else grant.owner
    if by != decider:
        raise NotAllowed(f"{decider!a} has to {decision} grant {grant.id}, not {by!a}")
