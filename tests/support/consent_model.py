"""What consent means, in plain Python: where every memory is, which grants there are, and who may see what."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import pairwise
from typing import Any

from engram.text.terms import normal_form

Place = tuple[str, ...]
"""`("own", agent)`, `("apart", agent)` for its quarantine, `("import", agent, source)` for what came by a file,
and `("copy", agent, grant)` for what it merged under a grant."""
Subject = Mapping[str, Any]
"""What a grant or an export is about, as it is given to `share` and `export`."""
TELLING = 16
NAMES_A_DOMAIN = frozenset({"knowledge", "fact", "decision", "failure"})
EXPERIENCE = frozenset({"decision", "failure"})


@dataclass(frozen=True)
class Kept:
    """A memory in one place."""

    text: str
    kind: str
    tags: frozenset[str]
    at: datetime
    domain: str = ""
    sources: frozenset[str] = frozenset()
    about: str = ""
    """The action of a decision, the subject of a fact, the name of a skill."""
    began: str = ""
    """Whose it was at first, if it was imported."""
    taken: bool = False
    """Whether it was set apart because a grant was revoked."""
    source: str = ""
    """Whose annex it belongs in, if an import set it apart."""


@dataclass
class Given:
    """A grant."""

    owner: str
    to: str
    subject: Subject
    rights: frozenset[str]
    expires: datetime | None
    by: str
    via: str = ""
    state: str = "granted"
    made: datetime | None = None
    since: datetime | None = None
    """When it was granted; `None` if it never was."""
    revoked: datetime | None = None

    def concerns(self, who: str) -> bool:
        return who in {self.owner, self.by, self.to}


class Consent:
    """The model. `pattern` tells the episodes behind an owner's pattern, and `seen` what an agent used by a grant."""

    def __init__(
        self,
        agents: Iterable[str],
        now: Callable[[], datetime],
        pattern: Callable[[str, str], frozenset[str]],
        seen: Callable[[str, str], frozenset[str] | None],
    ) -> None:
        self.agents = tuple(agents)
        self.now = now
        self.pattern = pattern
        self.seen = seen
        self.places: defaultdict[Place, dict[str, Kept]] = defaultdict(dict)
        self.grants: dict[str, Given] = {}
        self.closed: set[str] = set()
        """Grants whose copies were set apart."""
        self.team: set[str] = set()
        self.words: dict[str, str] = {}
        """For each id that there ever was, the word that no other text has; those of decisions have none."""

    # Where everything is -------------------------------------------------------------------------------

    def own(self, who: str) -> dict[str, Kept]:
        return self.places["own", who]

    def apart(self, who: str) -> dict[str, Kept]:
        return self.places["apart", who]

    def imports(self, who: str) -> list[dict[str, Kept]]:
        return [kept for place, kept in list(self.places.items()) if place[:2] == ("import", who)]

    # Who sees what -------------------------------------------------------------------------------------

    def sees(self, who: str, right: str) -> dict[str, Kept]:
        """All that an agent may read or learn from, by id."""
        found = dict(self.own(who))
        for there in self.imports(who):
            found = there | found
        for id in self.grants:
            if self.gives(id, who, right):
                found = self.covered(id) | found
        return found

    def learns(self, who: str, kind: str) -> dict[str, Kept]:
        """The decisions or failures that an agent learns from."""
        return {id: kept for id, kept in self.sees(who, "learn").items() if kept.kind == kind}

    def exports(self, who: str, subject: Subject) -> set[str]:
        """What is in a file that an agent writes: its own, and what it may read and share on."""
        found = {id for id, kept in self.own(who).items() if self.within(subject, who, id, kept)}
        for id, grant in self.grants.items():
            if self.gives(id, who, "reshare") and self.gives(id, who, "read"):
                there = self.covered(id)
                found |= {each for each, kept in there.items() if self.within(subject, grant.owner, each, kept)}
        return found

    def gives(self, id: str, who: str, right: str) -> bool:
        """Whether a grant gives an agent a right now."""
        grant, chain = self.grants[id], self.chain(id)
        return (
            who != grant.owner
            and self.reaches(grant, who)
            and all(self.stands(each) and right in each.rights for each in chain)
            and all("reshare" in each.rights for each in chain[1:])
            and all(self.reaches(above, below.by) for below, above in pairwise(chain))
        )

    def stands(self, grant: Given) -> bool:
        return self.state(grant) == "granted"

    def state(self, grant: Given) -> str:
        over = grant.expires is not None and grant.expires <= self.now()
        return "expired" if over and grant.state == "granted" else grant.state

    def reaches(self, grant: Given, who: str) -> bool:
        return grant.to in {"everyone", who} or (grant.to == "group:team" and who in self.team)

    def knows_of(self, who: str) -> dict[str, str]:
        """The grants that an agent may know of, and where each stands."""
        return {
            id: self.state(grant)
            for id, grant in self.grants.items()
            if grant.concerns(who) or grant.to == "everyone" or (grant.to == "group:team" and who in self.team)
        }

    def chain(self, id: str) -> list[Given]:
        """A grant and those it was shared on under."""
        found = [self.grants[id]]
        while found[-1].via:
            found.append(self.grants[found[-1].via])
        return found

    def covered(self, id: str) -> dict[str, Kept]:
        """What a grant is about, of what its owner has."""
        owner, chain = self.grants[id].owner, self.chain(id)
        return {
            each: kept
            for each, kept in self.own(owner).items()
            if all(self.within(grant.subject, owner, each, kept) for grant in chain)
        }

    def within(self, subject: Subject, owner: str, id: str, kept: Kept) -> bool:
        domains = subject.get("domains", ())
        named = {normal_form(domain) for domain in domains} if kept.kind in NAMES_A_DOMAIN else set()
        return bool(
            subject.get("everything")
            or id in subject.get("memories", ())
            or kept.tags & {*subject.get("tags", ()), *domains}
            or (kept.domain and normal_form(kept.domain) in named)
            or any(id in self.pattern(owner, name) for name in subject.get("patterns", ()))
        )

    # What happens --------------------------------------------------------------------------------------

    def imported(self, who: str, source: str, records: Mapping[str, Kept], *, local: bool, signed: bool) -> None:
        """A file comes in: what is new goes to the annex of its source, what cannot be believed is set apart."""
        for id, kept in records.items():
            if local and kept.began == who and id in self.own(who):
                continue
            if any(id in there and there[id].began == kept.began for there in self.imports(who)):
                continue
            if (local and not signed) or kept.kind == "instruction":
                self.apart(who).setdefault(id, replace(kept, source=source))
            else:
                self.places["import", who, source][id] = kept

    def merged(self, who: str, owner: str, subject: Subject) -> bool:
        """What an agent may learn from is copied, once, for each grant; whether there was such a grant."""
        lent = [id for id, grant in self.grants.items() if grant.owner == owner and self.gives(id, who, "learn")]
        for grant in lent:
            for id, kept in self.covered(grant).items():
                usable = [
                    there
                    for place, there in self.places.items()
                    if place[:2] == ("import", who) or (place[:2] == ("copy", who) and place[2] not in self.closed)
                ]
                known = any(id in there and there[id].began == owner for there in usable)
                if not known and self.within(subject, owner, id, kept):
                    self.places["copy", who, grant][id] = replace(kept, began=owner)
        return bool(lent)

    def released(self, who: str, id: str, tags: frozenset[str]) -> None:
        """What was set apart goes to the annex of its source, or is its agent's own.

        What came in without the tag of facts, or of skills, is none.
        """
        kept = self.apart(who).pop(id)
        if kept.source:
            self.places["import", who, kept.source].setdefault(id, kept)
            return
        kind = {"fact": "knowledge", "skill": "note"}.get(kept.kind, kept.kind) if kept.kind not in tags else kept.kind
        self.own(who).setdefault(id, replace(kept, kind=kind, tags=tags))

    def forgotten(self, who: str, id: str) -> bool:
        """An agent forgets a memory: with all that was derived from it, and all copies; whether there was something."""
        plan: defaultdict[Place, dict[str, Kept]] = defaultdict(dict)
        own: Place = ("own", who)
        if id in self.places[own]:
            plan[own][id] = self.places[own][id]
            self._derive(own, plan)
        going = {id, *plan[own]}
        for place, there in list(self.places.items()):
            if place[0] == "own":
                continue
            copies = {one: kept for one, kept in there.items() if one in going and who in {place[1], kept.began}}
            plan[place] |= copies
            self._derive(place, plan, near=place[1])
        for place, some in plan.items():
            for each in some:
                del self.places[place][each]
        return any(plan.values())

    def _derive(self, scope: Place, plan: defaultdict[Place, dict[str, Kept]], near: str | None = None) -> None:
        """What cites something that goes, goes too: all of it in the same place, and elsewhere what repeats it.

        Of a copy, only where the one who has it has things.
        """
        fresh = set(plan[scope])
        while fresh:
            found = {
                (place, id): kept
                for place, there in self.places.items()
                for id, kept in there.items()
                if id not in plan[place]
                and near in {None, place[1]}
                and kept.sources & fresh
                and (place == scope or self._quotes(kept, self._told(place, kept, scope, plan)))
            }
            for (place, id), kept in found.items():
                plan[place][id] = kept
            fresh = {id for _, id in found}

    def _told(
        self, place: Place, kept: Kept, scope: Place, plan: defaultdict[Place, dict[str, Kept]]
    ) -> Iterator[Kept]:
        """What a memory somewhere else cites of what goes, and has not from where it is."""
        theirs = self.places[place].keys() - plan[place].keys()
        return (plan[scope][id] for id in (kept.sources & plan[scope].keys()) - theirs)

    @staticmethod
    def _quotes(kept: Kept, said: Iterable[Kept]) -> bool:
        return any(normal_form(kept.text) == normal_form(one.text) for one in said)

    def revoked(self, id: str) -> set[str]:
        """A grant ends: what its receivers made of it is set apart; which memories these are."""
        grant = self.grants[id]
        ended = list(self._resting_on(id))
        had = {who: [each for each in ended if self._had(each, who)] for who in self.agents if who != grant.owner}
        starts = {each: self._start(each) for each in ended}
        self.closed |= {*ended}
        if grant.state not in {"revoked", "denied"}:
            grant.state, grant.revoked = "revoked", self.now()
        moved = set[str]()
        for who, concerned in had.items():
            if concerned:
                moved |= self._taken_back(who, grant.owner, {each: starts[each] for each in concerned})
        return moved

    def _had(self, id: str, who: str) -> bool:
        """Whether an agent may have read something by a grant that ends now, or used one that ended before."""
        grant = self.grants[id]
        return (grant.state == "granted" and self.reaches(grant, who)) or self.seen(id, who) is not None

    def _start(self, id: str) -> datetime:
        """From when on a grant gave something."""
        starts = [each.since if each.state == "granted" else each.made for each in self.chain(id)]
        return max(start for start in starts if start is not None)

    def _resting_on(self, id: str) -> Iterator[str]:
        yield id
        for other, grant in self.grants.items():
            if grant.via == id:
                yield from self._resting_on(other)

    def _taken_back(self, who: str, owner: str, ended: Mapping[str, datetime]) -> set[str]:
        mine, readable = self.own(who), self.sees(who, "read").keys()
        used = {id for each in ended for id in self.seen(each, who) or ()}
        cited = {source for kept in mine.values() for source in kept.sources} - mine.keys()
        gone = {id for id in cited if id in self.own(owner) or id in used} - readable
        gone |= {id for each, start in ended.items() for id in self._repeats(who, each, start, readable)}
        while more := {id for id, kept in mine.items() if id not in gone and kept.sources & gone}:
            gone |= more
        taken = gone & mine.keys()
        for id in taken:
            kept = mine.pop(id)
            self.apart(who).setdefault(id, replace(kept, taken=True))
            for place, there in self.places.items():
                if place[0] in {"import", "copy"} and id in there and there[id].began == who:
                    del there[id]
        return taken

    def _repeats(self, who: str, id: str, start: datetime, readable: Iterable[str]) -> Iterator[str]:
        """What an agent wrote down word for word of what it could read under a grant, while it could."""
        chain = self.chain(id)
        if not all("read" in each.rights for each in chain):
            return
        ends = [end for each in chain for end in (each.revoked, each.expires) if end is not None]
        lent = [kept for each, kept in self.covered(id).items() if each not in readable]
        for mine, kept in self.own(who).items():
            while_it_stood = start <= kept.at and all(kept.at <= end for end in ends)
            said = normal_form(kept.text)
            if kept.kind in EXPERIENCE:
                continue
            if while_it_stood and any(one.at <= kept.at and normal_form(one.text) == said for one in lent):
                yield mine
