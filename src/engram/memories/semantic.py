"""What an agent knows, as facts: learned, superseded, contradicted, asked for as of a time, and joined to a graph."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Protocol

from engram.clock import Sources
from engram.errors import InvalidInput, NotFound
from engram.memories.facts import graph as graphs
from engram.memories.facts import timeline
from engram.memories.facts.books import DENIAL, FACT, FOREVER, Book, fact_of
from engram.memories.facts.extract import Extractor, extract, installed, stated
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
"""How many related concepts a query is widened by."""

UNTIL = "until"
"""Where the metadata of a fact have the end that was told with it."""

Redact = Callable[[str], str]
"""Takes secrets out of a text."""
Memories = list[Memory]


class Remembers(Protocol):
    """The agent, as far as facts need it."""

    def remember(self, text: Draft, /) -> Receipt:
        """Remember one thing."""
        ...

    def get(self, id: str) -> Memory | None:
        """The memory with this id."""
        ...

    def list(
        self, *, limit: int = 50, offset: int = 0, kinds: str | Iterable[str] = (), tags: str | Iterable[str] = ()
    ) -> Memories:
        """The memories, newest first."""
        ...

    def annotate(self, id: str, *, valid_until: When | None = None) -> Memory:
        """Change when a memory ends."""
        ...

    def recall(self, query: str, k: int = 5, *, as_of: When | None = None, expand: bool = False) -> Recall:
        """The memories that answer a query; with `expand`, also one that is widened by related concepts."""
        ...

    def forget(self, id: str) -> ForgetReceipt:
        """Remove a memory."""
        ...


def redacted(text: str) -> str:
    """The text without secrets, by Engram's own rules."""
    return SecretRedactor().clean([text])[0].text


@dataclass(frozen=True, slots=True)
class _Claim:
    """A fact that is about to be learned."""

    subject: str
    predicate: str
    object: str
    negated: bool
    valid_from: datetime
    valid_until: datetime | None
    replaces: bool | None

    def repeats(self, fact: Fact) -> bool:
        """Whether a fact that is known says the same, at the time this one begins."""
        return timeline.same_value(self, fact) and timeline.holds(fact, self.valid_from)

    def is_kept_as(self, fact: Fact) -> bool:
        """Whether the store keeps this claim as that fact, be it that somebody else learned it at the same time."""
        alike = concept_key(self.subject) == concept_key(fact.subject) and self.predicate == fact.predicate
        return alike and self.repeats(fact)


class SemanticMemory:
    """The facts of one agent. Nothing is overwritten: a newer fact ends an older one, which stays to be asked for.

    `functional` adds to the table of predicates that have one value at a time, or takes from it; `extractors` are asked
    by `tell` after Engram's own rules and those of installed packages. With a `book` facts are not read anew each time.
    `used` hears which facts were an answer: what is asked for does not fade.
    """

    def __init__(
        self,
        agent: Remembers,
        *,
        sources: Sources | None = None,
        clean: Redact = redacted,
        functional: Mapping[str, bool] | None = None,
        extractors: Sequence[Extractor] = (),
        book: Book | None = None,
        used: Callable[[Sequence[str]], None] = lambda ids: None,
    ) -> None:
        self._agent = agent
        self._sources = sources or Sources()
        self._clean = clean
        own = {canonical(name)[0]: one for name, one in (functional or {}).items()}
        self._table = {**FUNCTIONAL, **own}
        self._functional = timeline.functional_by(self._table)
        self._book, self._used = book, used
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
        """Learn a fact, valid from `valid_from`, or from when it was said, on; the answer comes after the commit.

        Where the predicate has one value at a time, it ends what was valid before, and ends itself where something
        newer is known; `replaces` decides otherwise. A fact that is known at that time gets more evidence instead.
        "is not" and "does not use" are denials, as is `negated`. Raises `InvalidInput`.
        """
        now = self._sources.now()
        said = moment("at", at)
        start = moment("valid_from", valid_from) or min(said or now, now)
        end = moment("valid_until", valid_until)
        if end is not None and end <= start:
            raise InvalidInput("valid_until must lie after the time it is valid from")
        name, denies = canonical(self._name("predicate", predicate, MAX_NAME))
        if not name:
            raise InvalidInput(f"the predicate {predicate!a} says nothing; say what is meant, such as `lives in`")
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
        about = self._about(new.subject)
        new = replace(new, subject=about[0].subject if about else new.subject)
        known = [fact for fact in about if fact.predicate == name]
        same = next((fact for fact in timeline.settled(known, self._functional) if new.repeats(fact)), None)
        return self._add(new, known, fields) if same is None else self._confirm(new, same, known, fields)

    def retract(self, id: str) -> list[Fact]:
        """Forget a fact that was wrong; what it had ended holds again, and is returned. Raises `NotFound`.

        Where others ended those facts too, or their end was told, they end then.
        """
        wrong = self._read(id)
        if wrong is None:
            raise NotFound(f"there is no fact {id!a}; `history` and `contradictions` show what there is")
        known = [fact for fact in self._about(wrong.subject) if fact.predicate == wrong.predicate and fact.id != id]
        again = list[str]()
        for fact in known if timeline.replaces(wrong, self._functional) else ():
            if fact.valid_until == wrong.valid_from and timeline.excludes(wrong, fact):
                end = timeline.earliest(self._told_end(fact.id), timeline.ended_by(fact, known, self._functional))
                if end != fact.valid_until:
                    self._agent.annotate(fact.id, valid_until=end or FOREVER)
                    again.append(fact.id)
        self._agent.forget(id)
        return [back for each in again if (back := self._read(each)) is not None]

    def relate(self, /, a: str, relation: str, b: str, **fields: Any) -> FactReceipt:
        """Join two concepts; `fields` are those of `learn`."""
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
        """Learn what a text plainly states, in order; what it asks, supposes or reports is not learned.

        "I" and "my" are the `speaker`. An `extractor` is asked instead of all others.
        """
        if not isinstance(text, str) or (reason := unstorable(text)):
            raise InvalidInput(f"the text cannot be read: {reason if isinstance(text, str) else 'it is none'}")
        said = moment("at", at) or self._sources.now()

        def own(text: str, now: datetime) -> list[Statement]:
            return extract(text, now, speaker)

        asked = [extractor] if extractor else [own, *installed(), *self._extractors]
        facts = list[Fact]()
        for one in stated(self._clean(text), said, asked):
            fields = one.model_dump(exclude={"subject", "predicate", "object"})
            learned = self.learn(
                one.subject, one.predicate, one.object, at=said, source=source, confidence=confidence, **fields
            )
            if learned.fact is None:
                raise InvalidInput(f"a fact was not kept: {learned.reason}")
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
        """What holds now, or held at `as_of`, oldest first: never two values where there is one at a time.

        `denials` adds what is known not to be so.
        """
        if subject is None and predicate is None:
            valid = self._held(as_of)
        else:
            found = self._all() if subject is None else self._about(self._name("subject", subject, MAX_NAME))
            if predicate is not None:
                wanted, denied = canonical(self._name("predicate", predicate, MAX_NAME))
                found = [fact for fact in found if fact.predicate == wanted and (fact.negated or not denied)]
                denials = denials or denied
            valid = self._valid(found, as_of)
        key = None if object is None else concept_key(self._name("object", object, MAX_OBJECT))
        return [f for f in valid if (denials or not f.negated) and key in {None, concept_key(f.object)}]

    def ask(self, subject: str, predicate: str, *, as_of: When | None = None) -> Fact | None:
        """The newest value of a predicate that holds now, or held at `as_of`, and that nothing newer denies."""
        valid = self.facts(subject, canonical(predicate)[0], as_of=as_of, denials=True)
        for fact in sorted(valid, key=lambda fact: fact.order, reverse=True):
            denied = any(f.negated and timeline.excludes(f, fact) and f.order > fact.order for f in valid)
            if not fact.negated and not denied:
                self._used([fact.id])
                return fact
        return None

    def history(self, subject: str, predicate: str | None = None) -> list[Fact]:
        """Everything that was ever learned of a subject, oldest first, with the time for which it held."""
        found = timeline.settled(self._about(self._name("subject", subject, MAX_NAME)), self._functional)
        wanted = None if predicate is None else canonical(predicate)[0]
        return [fact for fact in found if wanted in {None, fact.predicate}]

    def contradictions(self, subject: str | None = None, *, as_of: When | None = None) -> list[Contradiction]:
        """Pairs of facts that claim to hold at the same time and cannot, the latest first; `as_of` narrows them."""
        found = self._all() if subject is None else self._about(self._name("subject", subject, MAX_NAME))
        when = moment("as_of", as_of)
        pairs = timeline.contradictions(found, self._functional)
        return [pair for pair in pairs if when is None or all(timeline.holds(fact, when) for fact in pair.facts)]

    def concept(self, name: str, *, as_of: When | None = None) -> Concept | None:
        """What is known of something now, or was at `as_of`; `None` if no fact names it."""
        valid = self._held(as_of)
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
        """The graph of what holds now, or held at `as_of`."""
        if self._book is not None and as_of is None:
            return self._book.present(self._table, self._sources.now()).graph
        return graphs.graph(self._held(as_of))

    def neighbours(self, name: str, relation: str | None = None, direction: Direction = "both") -> list[str]:
        """What is joined to a concept directly."""
        return graphs.neighbours(self.graph(), name, None if relation is None else canonical(relation)[0], direction)

    def paths(self, start: str, end: str, *, most: int = 3, longest: int = 5) -> list[ConceptPath]:
        """Ways between two concepts, the shortest first."""
        most, longest = count("most", most), count("longest", longest, 10)
        return graphs.paths(self.graph(), start, end, most=most, longest=longest)

    def subgraph(self, around: str | Iterable[str], depth: int = 1) -> list[Edge]:
        """The edges around some concepts."""
        return graphs.subgraph(self.graph(), around, count("depth", depth, least=0))

    def related(self, *names: str, k: int = EXPANSION) -> list[str]:
        """The concepts nearest to some others, the nearest first."""
        return [name for name, _ in graphs.related(self.graph(), names, count("k", k))]

    def edges(self) -> list[Edge]:
        """All that holds now as edges, for other tools."""
        return graphs.edges(self.graph())

    def expand(self, query: str, k: int = EXPANSION, *, as_of: When | None = None) -> list[str]:
        """The names of concepts that are near to those a query names, now or at `as_of`; none, if it names none."""
        joined = self.graph(as_of=as_of)
        return [name for name, _ in graphs.related(joined, graphs.mentioned(joined, query), count("k", k))]

    def recall(self, query: str, k: int = 5, *, as_of: When | None = None) -> Recall:
        """The memories that answer a query, or the query widened by related concepts, best first.

        `why["expanded"]` names those concepts in hits that the widened query found, or found better.
        """
        return self._agent.recall(query, k, as_of=as_of, expand=True)

    # keeping -------------------------------------------------------------------------------------------

    def _add(self, new: _Claim, known: Sequence[Fact], fields: Mapping[str, Any]) -> FactReceipt:
        """Keep a fact that is not known, in words that no other fact has, so that it is not taken for that one."""
        taken = {fact.text for fact in known}
        plain = sentence(new.subject, new.predicate, new.object, negated=new.negated)
        end = timeline.earliest(
            new.valid_until,
            timeline.ended_by(new, known, self._functional),
            *(fact.valid_from for fact in known if timeline.same_value(new, fact) and fact.valid_from > new.valid_from),
        )
        receipt, fact = None, None
        for text in (plain, *(f"{plain} (since {since})" for since in _written(new.valid_from))):
            if text in taken or self._clean(text) in taken:
                continue
            receipt = self._agent.remember(_draft(text, new, end, fields))
            fact = self._read(receipt.id)
            if not receipt.ok or (fact is not None and new.is_kept_as(fact)):
                break
        if receipt is None or not receipt.ok or fact is None or not new.is_kept_as(fact):
            return FactReceipt(
                fact=None, status="rejected", reason=receipt.reason if receipt else "it cannot be told apart"
            )
        return self._answer(fact, receipt, self._close([*known, fact]), known)

    def _confirm(self, new: _Claim, same: Fact, known: Sequence[Fact], fields: Mapping[str, Any]) -> FactReceipt:
        """Count a fact that is known once more; unless it has ended, what it excludes and what began earlier ends."""
        claim = replace(new, subject=same.subject, object=same.object)
        receipt = self._agent.remember(_draft(same.text, claim, None, fields))
        if not receipt.ok:
            return FactReceipt(fact=None, status="rejected", reason=receipt.reason)
        if new.valid_until is not None and (same.valid_until is None or new.valid_until < same.valid_until):
            self._agent.annotate(same.id, valid_until=new.valid_until)
        ended = list[str]()
        latest = same.valid_until is None and timeline.replaces(new, self._functional)
        for rival in timeline.settled(known, self._functional) if latest else ():
            began = rival.valid_from < new.valid_from
            if began and timeline.excludes(new, rival) and timeline.holds(rival, new.valid_from):
                self._agent.annotate(rival.id, valid_until=new.valid_from)
                ended.append(rival.id)
        merged = receipt.model_copy(update={"status": "merged"})
        return self._answer(self._read(same.id) or same, merged, ended, known)

    def _close(self, facts: Sequence[Fact]) -> list[str]:
        """Write down the ends that newer facts set, so that recall knows them; the ids of those that ended."""
        closed = list[str]()
        for fact in facts:
            end = timeline.ended_by(fact, facts, self._functional)
            if end is not None and (fact.valid_until is None or end < fact.valid_until):
                self._agent.annotate(fact.id, valid_until=end)
                closed.append(fact.id)
        return closed

    def _answer(self, fact: Fact, receipt: Receipt, closed: Iterable[str], known: Sequence[Fact]) -> FactReceipt:
        again = [self._read(id) for id in closed]
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

    def _held(self, as_of: When | None) -> list[Fact]:
        """All that holds now, or held at `as_of`."""
        if self._book is not None and as_of is None:
            return list(self._book.present(self._table, self._sources.now()).facts)
        return self._valid(self._all(), as_of)

    def _valid(self, facts: Iterable[Fact], as_of: When | None) -> list[Fact]:
        when = moment("as_of", as_of)
        return timeline.valid_at(facts, when or self._sources.now(), self._functional, current=when is None)

    def _about(self, subject: str) -> list[Fact]:
        return self._fetch([FACT, _tag(subject)])

    def _all(self) -> list[Fact]:
        return self._fetch([FACT]) if self._book is None else list(self._book.facts())

    def _fetch(self, tags: list[str]) -> list[Fact]:
        facts, offset = list[Fact](), 0
        while page := self._agent.list(kinds=[MemoryType.KNOWLEDGE], tags=tags, limit=PAGE, offset=offset):
            facts += [fact for memory in page if (fact := fact_of(memory)) is not None]
            offset += len(page)
            if len(page) < PAGE:
                break
        return sorted(facts, key=lambda fact: fact.order)

    def _told_end(self, id: str) -> datetime | None:
        """When a fact ends by its own words, whatever ended it since."""
        memory = self._agent.get(id)
        until = None if memory is None else memory.metadata.get(UNTIL)
        return moment(UNTIL, until) if isinstance(until, str) else None

    def _read(self, id: str | None) -> Fact | None:
        memory = None if id is None else self._agent.get(id)
        return None if memory is None else fact_of(memory)

    def _name(self, what: str, text: str, most: int) -> str:
        """A name without secrets, in one line. Raises `InvalidInput`."""
        if not isinstance(text, str) or not text.strip():
            raise InvalidInput(f"the {what} is empty; say what is meant")
        if reason := unstorable(text):
            raise InvalidInput(f"the {what} cannot be used: {reason}")
        if len(text) > most:
            raise InvalidInput(f"the {what} has {len(text):,} characters, {most:,} are the limit")
        return " ".join(self._clean(text).split())


def _draft(text: str, claim: _Claim, end: datetime | None, fields: Mapping[str, Any]) -> Draft:
    content = {
        "knowledge_type": DENIAL if claim.negated else FACT,
        "subject": claim.subject,
        "predicate": claim.predicate,
        "object": claim.object,
    }
    tags = (FACT, _tag(claim.subject))
    validity = {"valid_from": claim.valid_from, "valid_until": end}
    return Draft(text, kind=MemoryType.KNOWLEDGE, content=content, tags=tags, **validity, **fields)


def _tag(subject: str) -> str:
    """By which all facts about a subject are found."""
    return f"{FACT}:{concept_key(subject)}"


def _written(start: datetime) -> Iterable[str]:
    """A time in words, each more exact than the one before."""
    start = start.astimezone(UTC).replace(tzinfo=None)
    return f"{start:%Y-%m-%d}", f"{start:%Y-%m-%d %H:%M:%S}", start.isoformat(" ", "microseconds")
