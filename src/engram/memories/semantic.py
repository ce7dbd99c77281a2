"""Semantic memory: facts that are learned, superseded, queried by time, compared and linked in a graph."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Protocol

from engram.clock import Sources
from engram.errors import InvalidInput, NotFound
from engram.memories.facts import graph as graphs
from engram.memories.facts import timeline
from engram.memories.facts.extract import Extractor, extract, installed_extractors, run_extractors
from engram.memories.facts.fact_cache import DENIAL, FACT, FOREVER, FactCache, to_fact
from engram.memories.facts.graph import Direction, Graph
from engram.memories.facts.names import concept_key
from engram.memories.facts.predicates import FUNCTIONAL, canonical, sentence
from engram.model import Draft, ForgetReceipt, Memory, MemoryType, Recall, Receipt
from engram.model.fact import Concept, ConceptPath, Contradiction, Edge, Fact, FactReceipt, Statement
from engram.ports import unstorable
from engram.ports.arguments import When, count, moment, several, share
from engram.privacy import SecretRedactor

MAX_NAME = 200
MAX_OBJECT = 2_000
PAGE = 5_000
EXPANSION = 5
"""Number of related concepts that a query is expanded by."""

UNTIL = "until"
"""Metadata key of a fact's stated end."""

Redact = Callable[[str], str]
"""A function that removes secrets from a text."""
Memories = list[Memory]


class SemanticAgent(Protocol):
    """The methods of an agent that semantic memory needs."""

    def remember(self, text: Draft, /) -> Receipt:
        """Store a memory."""
        ...

    def get(self, id: str) -> Memory | None:
        """Return the memory with this id."""
        ...

    def list(
        self, *, limit: int = 50, offset: int = 0, kinds: str | Iterable[str] = (), tags: str | Iterable[str] = ()
    ) -> Memories:
        """Return the memories, newest first."""
        ...

    def annotate(self, id: str, *, valid_until: When | None = None) -> Memory:
        """Change the end of a memory's validity."""
        ...

    def recall(self, query: str, k: int = 5, *, as_of: When | None = None, expand: bool = False) -> Recall:
        """Return the memories that answer a query; with `expand`, also those for the query with related concepts."""
        ...

    def forget(self, id: str) -> ForgetReceipt:
        """Delete a memory."""
        ...


def redact(text: str) -> str:
    """Remove secrets from a text by Engram's own rules."""
    return SecretRedactor().clean([text])[0].text


@dataclass(frozen=True, slots=True)
class _Claim:
    """A fact to be learned."""

    subject: str
    predicate: str
    object: str
    negated: bool
    valid_from: datetime
    valid_until: datetime | None
    replaces: bool | None

    def repeats(self, fact: Fact) -> bool:
        """Return true if a known fact states the same at the time this one begins."""
        return timeline.same_value(self, fact) and timeline.is_valid_at(fact, self.valid_from)

    def is_stored_as(self, fact: Fact) -> bool:
        """Return true if a stored fact is this claim, even if another caller stored it at the same time."""
        alike = concept_key(self.subject) == concept_key(fact.subject) and self.predicate == fact.predicate
        return alike and self.repeats(fact)


class SemanticMemory:
    """The facts of one agent. Nothing is overwritten: a newer fact ends an older one, which stays in the history.

    `functional` changes the table of predicates that have one value at a time; `extractors` are used by `tell` after
    Engram's own and installed ones. With a `cache`, facts are read only once. `used` is called with the ids of facts
    that were answers, so that they do not fade.
    """

    def __init__(
        self,
        agent: SemanticAgent,
        *,
        sources: Sources | None = None,
        clean: Redact = redact,
        functional: Mapping[str, bool] | None = None,
        extractors: Sequence[Extractor] = (),
        cache: FactCache | None = None,
        used: Callable[[Sequence[str]], None] = lambda ids: None,
    ) -> None:
        self._agent = agent
        self._sources = sources or Sources()
        self._clean = clean
        own = {canonical(name)[0]: one for name, one in (functional or {}).items()}
        self._table = {**FUNCTIONAL, **own}
        self._functional = timeline.functional_from(self._table)
        self._cache, self._used = cache, used
        self._extractors = tuple(extractors)

    def learn(
        self,
        subject: str,
        predicate: str,
        object: str,
        *,
        at: When | None = None,
        valid_from: When | None = None,
        valid_until: When | None = None,
        source: str | Iterable[str] = (),
        confidence: float = 1.0,
        replaces: bool | None = None,
        negated: bool = False,
        quote: str = "",
    ) -> FactReceipt:
        """Learn a fact, valid from `valid_from` or the time it was stated; returns after the commit.

        Where the predicate has one value at a time, the fact ends the previous value, and is itself ended by a known
        newer one; `replaces` overrides that. Learning a known fact again adds evidence. "is not" and "does not use" are
        denials, as is `negated`. Raises `InvalidInput`.
        """
        now = self._sources.now()
        said = moment("at", at)
        start = moment("valid_from", valid_from) or min(said or now, now)
        end = moment("valid_until", valid_until)
        if end is not None and end <= start:
            raise InvalidInput("valid_until must lie after the time it is valid from")
        name, denies = canonical(self._name("predicate", predicate, MAX_NAME))
        if not name:
            raise InvalidInput(f"the predicate {predicate!a} is empty; give one such as `lives in`")
        new = _Claim(
            self._name("subject", subject, MAX_NAME),
            name,
            self._name("object", object, MAX_OBJECT),
            negated != denies,
            start,
            end,
            replaces,
        )
        fields = {
            "at": said,
            "sources": tuple(several("source", source)),
            "confidence": share("confidence", confidence),
            "metadata": {
                **({"quote": quote} if quote else {}),
                **({} if replaces is None else {"replaces": replaces}),
                **({} if end is None else {UNTIL: end.isoformat()}),
            },
        }
        about = self._facts_about(new.subject)
        new = replace(new, subject=about[0].subject if about else new.subject)
        known = [fact for fact in about if fact.predicate == name]
        same = next((fact for fact in timeline.with_ends(known, self._functional) if new.repeats(fact)), None)
        return self._add(new, known, fields) if same is None else self._confirm(new, same, known, fields)

    def retract(self, id: str) -> list[Fact]:
        """Delete a wrong fact; the facts it had ended are valid again and returned. Raises `NotFound`.

        If other facts or a stated end also ended them, that end applies.
        """
        wrong = self._read_fact(id)
        if wrong is None:
            raise NotFound(f"there is no fact {id!a}; `history` and `contradictions` list facts")
        known = [
            fact for fact in self._facts_about(wrong.subject) if fact.predicate == wrong.predicate and fact.id != id
        ]
        again = list[str]()
        for fact in known if timeline.replaces(wrong, self._functional) else ():
            if fact.valid_until == wrong.valid_from and timeline.excludes(wrong, fact):
                end = timeline.earliest(self._stated_end(fact.id), timeline.ended_by(fact, known, self._functional))
                if end != fact.valid_until:
                    self._agent.annotate(fact.id, valid_until=end or FOREVER)
                    again.append(fact.id)
        self._agent.forget(id)
        return [back for each in again if (back := self._read_fact(each)) is not None]

    def relate(self, /, a: str, relation: str, b: str, **fields: Any) -> FactReceipt:
        """Relate two concepts; `fields` are those of `learn`."""
        return self.learn(a, relation, b, **fields)

    def tell(
        self,
        text: str,
        *,
        at: When | None = None,
        source: str | Iterable[str] = (),
        speaker: str = "",
        confidence: float = 1.0,
        extractor: Extractor | None = None,
    ) -> list[Fact]:
        """Learn the facts that a text plainly states, in order; not questions, assumptions or reports.

        "I" and "my" refer to the `speaker`. An `extractor` is used instead of all others.
        """
        if not isinstance(text, str) or (reason := unstorable(text)):
            raise InvalidInput(f"the text cannot be read: {reason if isinstance(text, str) else 'it is none'}")
        said = moment("at", at) or self._sources.now()

        def own(text: str, now: datetime) -> list[Statement]:
            return extract(text, now, speaker)

        asked = [extractor] if extractor else [own, *installed_extractors(), *self._extractors]
        facts = list[Fact]()
        for one in run_extractors(self._clean(text), said, asked):
            fields = one.model_dump(exclude={"subject", "predicate", "object"})
            learned = self.learn(
                one.subject, one.predicate, one.object, at=said, source=source, confidence=confidence, **fields
            )
            if learned.fact is None:
                raise InvalidInput(f"a fact was not stored: {learned.reason}")
            facts.append(learned.fact)
        return facts

    def facts(
        self,
        subject: str | None = None,
        predicate: str | None = None,
        object: str | None = None,
        *,
        as_of: When | None = None,
        denials: bool = False,
    ) -> list[Fact]:
        """Return the facts valid now or at `as_of`, oldest first, at most one per single-valued predicate.

        `denials` includes facts known to be false.
        """
        if subject is None and predicate is None:
            valid = self._valid_facts(as_of)
        else:
            found = (
                self._all_facts() if subject is None else self._facts_about(self._name("subject", subject, MAX_NAME))
            )
            if predicate is not None:
                wanted, denied = canonical(self._name("predicate", predicate, MAX_NAME))
                found = [fact for fact in found if fact.predicate == wanted and (fact.negated or not denied)]
                denials = denials or denied
            valid = self._filter_valid(found, as_of)
        key = None if object is None else concept_key(self._name("object", object, MAX_OBJECT))
        return [f for f in valid if (denials or not f.negated) and key in {None, concept_key(f.object)}]

    def ask(self, subject: str, predicate: str, *, as_of: When | None = None) -> Fact | None:
        """Return the newest value of a predicate that is valid now or at `as_of` and not denied by a newer fact."""
        valid = self.facts(subject, canonical(predicate)[0], as_of=as_of, denials=True)
        for fact in sorted(valid, key=lambda fact: fact.order, reverse=True):
            denied = any(f.negated and timeline.excludes(f, fact) and f.order > fact.order for f in valid)
            if not fact.negated and not denied:
                self._used([fact.id])
                return fact
        return None

    def history(self, subject: str, predicate: str | None = None) -> list[Fact]:
        """Return all facts about a subject, oldest first, with their periods of validity."""
        found = timeline.with_ends(self._facts_about(self._name("subject", subject, MAX_NAME)), self._functional)
        wanted = None if predicate is None else canonical(predicate)[0]
        return [fact for fact in found if wanted in {None, fact.predicate}]

    def contradictions(self, subject: str | None = None, *, as_of: When | None = None) -> list[Contradiction]:
        """Return pairs of facts that cannot hold at the same time but claim to, the latest first."""
        found = self._all_facts() if subject is None else self._facts_about(self._name("subject", subject, MAX_NAME))
        when = moment("as_of", as_of)
        pairs = timeline.contradictions(found, self._functional)
        return [pair for pair in pairs if when is None or all(timeline.is_valid_at(fact, when) for fact in pair.facts)]

    def concept(self, name: str, *, as_of: When | None = None) -> Concept | None:
        """Return what is known about a concept now or at `as_of`; `None` if no fact mentions it."""
        valid = self._valid_facts(as_of)
        key = concept_key(self._name("name", name, MAX_OBJECT))
        facts = [fact for fact in valid if concept_key(fact.subject) == key]
        mentions = [fact for fact in valid if concept_key(fact.object) == key and fact not in facts]
        if not facts and not mentions:
            return None
        joined = self.graph(as_of=as_of)
        names = joined.spellings.get(key) or ((facts[0].subject,) if facts else (mentions[0].object,))
        near = tuple(name for name, _ in graphs.related(joined, [name]))
        return Concept(name=names[0], spellings=names, facts=tuple(facts), mentions=tuple(mentions), related=near)

    # graph ---------------------------------------------------------------------------------------------

    def graph(self, *, as_of: When | None = None) -> Graph:
        """Return the graph of the facts valid now or at `as_of`."""
        if self._cache is not None and as_of is None:
            return self._cache.current(self._table, self._sources.now()).graph
        return graphs.build_graph(self._valid_facts(as_of))

    def neighbours(self, name: str, relation: str | None = None, direction: Direction = "both") -> list[str]:
        """Return the concepts directly related to a concept."""
        return graphs.neighbours(self.graph(), name, None if relation is None else canonical(relation)[0], direction)

    def paths(self, start: str, end: str, *, most: int = 3, longest: int = 5) -> list[ConceptPath]:
        """Return paths between two concepts, the shortest first."""
        most, longest = count("most", most), count("longest", longest, 10)
        return graphs.paths(self.graph(), start, end, most=most, longest=longest)

    def subgraph(self, around: str | Iterable[str], depth: int = 1) -> list[Edge]:
        """Return the edges around some concepts."""
        return graphs.subgraph(self.graph(), around, count("depth", depth, least=0))

    def related(self, *names: str, k: int = EXPANSION) -> list[str]:
        """Return the concepts nearest to some others, the nearest first."""
        return [name for name, _ in graphs.related(self.graph(), names, count("k", k))]

    def edges(self) -> list[Edge]:
        """Return all valid facts as edges, for export to other tools."""
        return graphs.edges(self.graph())

    def expand(self, query: str, k: int = EXPANSION, *, as_of: When | None = None) -> list[str]:
        """Return the concepts related to those that a query mentions, now or at `as_of`."""
        joined = self.graph(as_of=as_of)
        return [name for name, _ in graphs.related(joined, graphs.find_mentions(joined, query), count("k", k))]

    def recall(self, query: str, k: int = 5, *, as_of: When | None = None) -> Recall:
        """Return the memories that answer a query or its expansion by related concepts, best first.

        `why["expanded"]` names these concepts in hits that the expansion found or ranked higher.
        """
        return self._agent.recall(query, k, as_of=as_of, expand=True)

    # keeping -------------------------------------------------------------------------------------------

    def _add(self, new: _Claim, known: Sequence[Fact], fields: Mapping[str, Any]) -> FactReceipt:
        """Store a new fact, worded differently from every other fact so that they are not merged."""
        taken = {fact.text for fact in known}
        plain = sentence(new.subject, new.predicate, new.object, negated=new.negated)
        end = timeline.earliest(
            new.valid_until,
            timeline.ended_by(new, known, self._functional),
            *(fact.valid_from for fact in known if timeline.same_value(new, fact) and fact.valid_from > new.valid_from),
        )
        receipt, fact = None, None
        for text in (plain, *(f"{plain} (since {since})" for since in _time_suffixes(new.valid_from))):
            if text in taken or self._clean(text) in taken:
                continue
            receipt = self._agent.remember(_make_draft(text, new, end, fields))
            fact = self._read_fact(receipt.id)
            if not receipt.ok or (fact is not None and new.is_stored_as(fact)):
                break
        if receipt is None or not receipt.ok or fact is None or not new.is_stored_as(fact):
            return FactReceipt(
                fact=None, status="rejected", reason=receipt.reason if receipt else "it cannot be told apart"
            )
        return self._receipt(fact, receipt, self._close([*known, fact]), known)

    def _confirm(self, new: _Claim, same: Fact, known: Sequence[Fact], fields: Mapping[str, Any]) -> FactReceipt:
        """Add evidence to a known fact; if it is still valid, it ends older facts that it excludes."""
        claim = replace(new, subject=same.subject, object=same.object)
        receipt = self._agent.remember(_make_draft(same.text, claim, None, fields))
        if not receipt.ok:
            return FactReceipt(fact=None, status="rejected", reason=receipt.reason)
        if new.valid_until is not None and (same.valid_until is None or new.valid_until < same.valid_until):
            self._agent.annotate(same.id, valid_until=new.valid_until)
        ended = list[str]()
        latest = same.valid_until is None and timeline.replaces(new, self._functional)
        for rival in timeline.with_ends(known, self._functional) if latest else ():
            began = rival.valid_from < new.valid_from
            if began and timeline.excludes(new, rival) and timeline.is_valid_at(rival, new.valid_from):
                self._agent.annotate(rival.id, valid_until=new.valid_from)
                ended.append(rival.id)
        merged = receipt.model_copy(update={"status": "merged"})
        return self._receipt(self._read_fact(same.id) or same, merged, ended, known)

    def _close(self, facts: Sequence[Fact]) -> list[str]:
        """Store the ends that newer facts set, which recall uses; returns the ids of the ended facts."""
        closed = list[str]()
        for fact in facts:
            end = timeline.ended_by(fact, facts, self._functional)
            if end is not None and (fact.valid_until is None or end < fact.valid_until):
                self._agent.annotate(fact.id, valid_until=end)
                closed.append(fact.id)
        return closed

    def _receipt(self, fact: Fact, receipt: Receipt, closed: Iterable[str], known: Sequence[Fact]) -> FactReceipt:
        again = [self._read_fact(id) for id in closed]
        now = {f.id: f for f in [*known, *(f for f in again if f is not None), fact]}
        pairs = timeline.contradictions(now.values(), self._functional)
        against = [f for pair in pairs if fact.id in {f.id for f in pair.facts} for f in pair.facts if f.id != fact.id]
        ended = tuple(f for f in again if f is not None and f.id != fact.id)
        return FactReceipt(
            fact=fact,
            status="merged" if receipt.status == "merged" else "stored",
            reason=receipt.reason,
            superseded=ended,
            contradicts=tuple(against),
        )

    def _valid_facts(self, as_of: When | None) -> list[Fact]:
        """Return all facts valid now or at `as_of`."""
        if self._cache is not None and as_of is None:
            return list(self._cache.current(self._table, self._sources.now()).facts)
        return self._filter_valid(self._all_facts(), as_of)

    def _filter_valid(self, facts: Iterable[Fact], as_of: When | None) -> list[Fact]:
        when = moment("as_of", as_of)
        return timeline.valid_at(facts, when or self._sources.now(), self._functional, current=when is None)

    def _facts_about(self, subject: str) -> list[Fact]:
        return self._fetch([FACT, _subject_tag(subject)])

    def _all_facts(self) -> list[Fact]:
        return self._fetch([FACT]) if self._cache is None else list(self._cache.facts())

    def _fetch(self, tags: list[str]) -> list[Fact]:
        facts, offset = list[Fact](), 0
        while page := self._agent.list(kinds=[MemoryType.KNOWLEDGE], tags=tags, limit=PAGE, offset=offset):
            facts += [fact for memory in page if (fact := to_fact(memory)) is not None]
            offset += len(page)
            if len(page) < PAGE:
                break
        return sorted(facts, key=lambda fact: fact.order)

    def _stated_end(self, id: str) -> datetime | None:
        """Return the end that was stated with a fact, whatever ended it since."""
        memory = self._agent.get(id)
        until = None if memory is None else memory.metadata.get(UNTIL)
        return moment(UNTIL, until) if isinstance(until, str) else None

    def _read_fact(self, id: str | None) -> Fact | None:
        memory = None if id is None else self._agent.get(id)
        return None if memory is None else to_fact(memory)

    def _name(self, what: str, text: str, most: int) -> str:
        """Redact and normalise a name. Raises `InvalidInput`."""
        if not isinstance(text, str) or not text.strip():
            raise InvalidInput(f"the {what} is empty; give a name")
        if reason := unstorable(text):
            raise InvalidInput(f"the {what} cannot be used: {reason}")
        if len(text) > most:
            raise InvalidInput(f"the {what} has {len(text):,} characters, {most:,} are the limit")
        return " ".join(self._clean(text).split())


def _make_draft(text: str, claim: _Claim, end: datetime | None, fields: Mapping[str, Any]) -> Draft:
    content = {
        "knowledge_type": DENIAL if claim.negated else FACT,
        "subject": claim.subject,
        "predicate": claim.predicate,
        "object": claim.object,
    }
    tags = (FACT, _subject_tag(claim.subject))
    validity = {"valid_from": claim.valid_from, "valid_until": end}
    return Draft(text, kind=MemoryType.KNOWLEDGE, content=content, tags=tags, **validity, **fields)


def _subject_tag(subject: str) -> str:
    """Return the tag of all facts about a subject."""
    return f"{FACT}:{concept_key(subject)}"


def _time_suffixes(start: datetime) -> Iterable[str]:
    """Format a time with increasing precision."""
    start = start.astimezone(UTC).replace(tzinfo=None)
    return f"{start:%Y-%m-%d}", f"{start:%Y-%m-%d %H:%M:%S}", start.isoformat(" ", "microseconds")
