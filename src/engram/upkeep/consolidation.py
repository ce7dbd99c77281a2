"""From many memories to few: statements that say the same, what was seen again and again, and topics in short.

What is made is derived and names its sources. It is committed before anything else changes, no source is ever deleted,
all of it can be taken back, and doing it twice makes nothing new.

Whether two statements say the same is decided by their words, not by vectors: to an embedder, "enabled" and "disabled"
are nearer to each other than most synonyms are.
"""

from __future__ import annotations

import heapq
import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import combinations
from typing import TypeVar

from pydantic import JsonValue, TypeAdapter

from engram.clock import Sources
from engram.errors import Conflict, Hint, NotFound
from engram.memories import holds
from engram.memories.summaries import Utterance, summarise
from engram.model import Draft, KnowledgeContent, Memory, MemoryType
from engram.model.upkeep import Consolidation, How
from engram.ports import Changes, Entry, Event, Redactor, Scope, Store
from engram.recording.draft import prepare
from engram.system import batched
from engram.text.terms import digest, normal_form, query_terms

CONSOLIDATED, UNDONE = "consolidated", "consolidation-undone"
"""Events: a source that something was made of, and something that was taken back and is not to be made again."""
MARK = "consolidated"
"""The tag of what is made, and the name under which its metadata say how."""
FOREVER = datetime(9999, 12, 31, tzinfo=UTC)
DAYS = 3
"""On so many different days an observation must have been made to be taken as a fact."""
LEAST_WORDS = 3
CLUSTER = 5
"""So many things about one topic are worth a summary."""
COMMON = 0.25
"""What more than this share of all texts has tells nothing about a topic, unless the texts are few."""
FEW = 50
TIED = 0.25
"""This share of all that have the rarer of two words must have both: in many texts, any two meet by chance."""
MOST_WORDS = 16
"""So many words of a text, the rarest of those that others have, are looked at."""
NAMED = 100
"""So many sources a memory can name; events name the others."""
MOST_EVIDENCE = 100
MOST_TAGS = 100
SUMMARY_TOKENS = 150
PAGE = 500

SUMMARISED = frozenset({MemoryType.OBSERVATION, MemoryType.RESULT})
_EMPTY = frozenset("a an the do does really actually basically simply".split())
"""Words without which a statement says the same; `is`, `was`, `can`, `only`, `just` and `very` are not among them."""
_PASSING = frozenset("today yesterday tomorrow tonight now currently this ago last next again still".split())
"""Who says so speaks of a moment, not of how things are."""
_GENERAL = frozenset(
    term
    for word in """
        able add again almost already also always another any anybody anymore april ask august bad become begin
        behind best better big break bring broken buy change come cost day december early easy end even ever every
        everybody fail far fast february find fine first forget friday full get give go good great half happen hard
        have help high hour however january july june keep know large last late later less let like little long look
        lose lot low make many march may mean might minute miss monday month much must need never new next nice
        nobody nothing november october often ok old one possible put quick quite rather reach ready really right
        saturday say second see seem send september several show since single slow small someone something soon
        start stay still stop sunday take talk tell thing think three thursday time today together tomorrow too try
        tuesday turn two use usual want way wednesday week well without wonder work wrong year yes yesterday yet
    """.split()
    for term in query_terms(word)
)
"""Words for what anything can do, be or need, and for when: texts that share them are not about one thing by that."""
_SAME = {
    word: line.split()[0]
    for line in """
        large big
        start begin
        starts begins
        started began
        happen occur
        happens occurs
        happened occurred
        need require
        needs requires
        needed required
        buy purchase
        bought purchased
        show display
        shows displays
        stop cease
        database db
        databases dbs
        repository repo
        repositories repos
        documentation docs
        configuration config
        application app
        applications apps
        directory folder
        directories folders
        production prod
        postgresql postgres
        kubernetes k8s
        javascript js
        typescript ts
        color colour
        colors colours
        behavior behaviour
        center centre
        canceled cancelled
    """.strip().splitlines()
    for word in line.split()
}
"""Words that stand for the same in any statement; words that only mostly do, such as `run` and `use`, are not here."""
_LEFT, _RIGHT = "\"'`“”‘’«»([{", "\"'`“”‘’«»)]},;:!.…"
_CANNOT = re.compile(r"\bcan(?:not|[’']t)\b", re.IGNORECASE)
_WILL_NOT = re.compile(r"\bwon[’']t\b", re.IGNORECASE)
_NOT = re.compile(r"n[’']t\b", re.IGNORECASE)
_OPENING = re.compile(r"\s*(?:please )?note that ", re.IGNORECASE)

T = TypeVar("T")
_how: TypeAdapter[How] = TypeAdapter(How)


@dataclass(frozen=True, slots=True)
class Desk:
    """Where one agent's memories are consolidated, and with what."""

    store: Store
    scope: Scope
    redactor: Redactor
    sources: Sources
    embed: Callable[[Sequence[Entry]], tuple[list[Entry], str | None]]


@dataclass(frozen=True, slots=True)
class Past:
    """What was consolidated before: the sources of what was made, and what was taken back."""

    sources: Mapping[str, frozenset[str]] = field(default_factory=dict)
    undone: frozenset[str] = frozenset()
    """By key."""
    declined: frozenset[str] = frozenset()
    """Sources of summaries that were taken back."""


@dataclass(frozen=True, slots=True)
class Step:
    """One thing to make, or to add evidence to, from its sources, the oldest first."""

    how: How
    key: str
    text: str
    sources: tuple[Memory, ...]
    made: Memory | None = None
    """What was made before from others that say the same."""

    @property
    def reason(self) -> str:
        """Why this is worth doing, for a person."""
        count = len(self.sources)
        if self.how == "summary":
            return f"{count} memories about one topic"
        if self.how == "fact":
            days = len({source.happened_at.date() for source in self.sources})
            return f"observed {count} more times" if self.made else f"observed {count} times on {days} days"
        return f"{count} more that say the same" if self.made else f"{count} statements say the same"


def statement(text: str) -> tuple[str, ...]:
    """What a text states, word by word in its order: equal for two that differ in wording only.

    Case, articles, punctuation, contracted negations and a few words that mean the same do not matter; numbers, names,
    negations, the order of words and every other word do.
    """
    spelt = _NOT.sub(" not", _WILL_NOT.sub("will not", _CANNOT.sub("can not", text)))
    opening = _OPENING.match(spelt)
    words = [_word(word) for word in normal_form(spelt[opening.end() :] if opening else spelt).split()]
    found = tuple(word for word in words if word and word not in _EMPTY)
    return (*found, "?") if text.rstrip().endswith(("?", "？")) else found


def _word(word: str) -> str:
    bare = word.lstrip(_LEFT).rstrip(_RIGHT).removesuffix("?").rstrip(_RIGHT)
    return _SAME.get(bare, bare)


def past_of(events: Iterable[Event]) -> Past:
    """What was consolidated and taken back before, from an agent's events."""
    sources, undone, declined = defaultdict[str, set[str]](set), set[str](), set[str]()
    for event in events:
        if event.kind == CONSOLIDATED:
            sources[event.subject].add(str(event.body.get("source")))
        elif event.kind == UNDONE:
            undone.add(event.topic)
            several = event.body.get("sources")
            if event.body.get("how") == "summary" and isinstance(several, list):
                declined.update(map(str, several))
    kept = {made: frozenset(ids) for made, ids in sources.items()}
    return Past(kept, frozenset(undone), frozenset(declined))


def standing(events: Iterable[Event]) -> dict[str, set[str]]:
    """What was made, with the sources that it stands on."""
    return {made: set(sources) for made, sources in past_of(events).sources.items()}


def merges(events: Iterable[Event]) -> set[str]:
    """What was made by merging, and so has ended its sources."""
    return {event.subject for event in events if event.kind == CONSOLIDATED and event.body.get("how") == "merge"}


def made_anew(events: Iterable[Event]) -> set[str]:
    """The keys of all that is there and was made of others: what has one of them would only repeat it."""
    return {event.topic for event in events if event.kind == CONSOLIDATED and event.topic}


def unfinished(memories: Iterable[Memory], past: Past) -> list[str]:
    """What was to be taken back and is still there: somebody was stopped in between."""
    return [memory.id for memory in memories if made_by(memory) in past.undone]


def plan(memories: Iterable[Memory], past: Past, now: datetime) -> list[Step]:
    """What there is to consolidate among one agent's memories, in a stable order."""
    ordered = sorted(memories, key=lambda memory: (memory.happened_at, memory.id))
    made = {key: memory for memory in ordered if _valid(memory, now) and (key := made_by(memory))}
    rest = [memory for memory in ordered if not _is_made(memory)]
    same, facts = _merges(rest, now), _facts(rest, now)
    steps = [_step("merge", key, group, made.get(key), past) for key, group in same.items()]
    steps += [_step("fact", key, group, made.get(key), past) for key, group in facts.items()]
    steps += [_summary(group) for group in _topics(rest, past)]
    return [step for step in steps if step is not None and step.key not in past.undone]


def _is_made(memory: Memory) -> bool:
    return MARK in memory.metadata


def made_by(memory: Memory) -> str:
    """The key of the step that made a memory; empty for all others."""
    said = memory.metadata.get(MARK)
    return str(said.get("key", "")) if isinstance(said, dict) else ""


def _valid(memory: Memory, now: datetime) -> bool:
    return memory.valid_from < now and memory.valid_until in {None, FOREVER}


def _merges(memories: Iterable[Memory], now: datetime) -> dict[str, list[Memory]]:
    """Plain statements by what they say, the most trusted first; facts with a subject are ordered by their memory."""
    groups = defaultdict[str, list[Memory]](list)
    for memory in memories:
        content = memory.content
        if not isinstance(content, KnowledgeContent) or not _valid(memory, now):
            continue
        if getattr(content, "subject", "") or not (words := statement(memory.text)):
            continue
        about = json.dumps(content.model_dump(mode="json"), sort_keys=True)
        groups[digest("merge", normal_form(memory.context), about, *words)].append(memory)
    return {key: sorted(group, key=lambda memory: -memory.trust) for key, group in groups.items()}


def _facts(memories: Sequence[Memory], now: datetime) -> dict[str, list[Memory]]:
    """What was observed on enough different days, unless somebody has stated it already; echoes are no observations."""
    groups, stated = defaultdict[tuple[str, ...], list[Memory]](list), set[tuple[str, ...]]()
    for memory in memories:
        if memory.kind == MemoryType.KNOWLEDGE and _valid(memory, now):
            stated.add(statement(memory.text))
        elif memory.kind == MemoryType.OBSERVATION and not memory.provenance.sources:
            words = statement(memory.text)
            if len(words) >= LEAST_WORDS and words[-1] != "?" and not _PASSING & set(words):
                groups[(normal_form(memory.context), *words)].append(memory)
    return {
        digest("fact", *key): group
        for key, group in groups.items()
        if key[1:] not in stated and len({memory.happened_at.date() for memory in group}) >= DAYS
    }


def _step(how: How, key: str, group: Sequence[Memory], made: Memory | None, past: Past) -> Step | None:
    known = frozenset[str]()
    if made is not None and how == "fact":
        known = past.sources.get(made.id, frozenset()).union(made.provenance.sources)
    fresh = tuple(memory for memory in group if memory.id not in known)
    if not fresh or (made is None and len(fresh) < 2):
        return None
    return Step(how, key, made.text if made else fresh[0].text, fresh, made)


def _topics(memories: Sequence[Memory], past: Past) -> list[list[Memory]]:
    """Clusters of what happened that no summary has yet, the largest first."""
    events = [memory for memory in memories if memory.kind in SUMMARISED]
    used = past.declined.union(*past.sources.values())
    found = topics([memory.text for memory in events], {n for n, memory in enumerate(events) if memory.id in used})
    return [[events[number] for number in cluster][:NAMED] for cluster in found]


def topics(texts: Sequence[str], used: Collection[int] = frozenset()) -> list[list[int]]:
    """Texts by what they are about, as their numbers in order; `used` ones say what is common, but belong nowhere.

    A topic is two telling words that enough different texts share, wherever in them. Words that most of these have are
    what the topic is about as well: whoever has two of all these belongs to it.
    """
    states = [statement(text) for text in texts]
    words = [frozenset(query_terms(" ".join(state))) - _GENERAL for state in states]
    holders = Counter(word for own in words for word in own if not word.isdecimal())
    most = max(COMMON * len(texts), FEW)
    telling = {word for word, count in holders.items() if CLUSTER <= count <= most}
    having, sharing = defaultdict[str, list[int]](list), defaultdict[tuple[str, str], list[int]](list)
    for number, own in enumerate(words):
        if number not in used:
            rarest = sorted(own & telling, key=lambda word: (holders[word], word))[:MOST_WORDS]
            for word in rarest:
                having[word].append(number)
            for pair in combinations(sorted(rarest), 2):
                sharing[pair].append(number)
    waiting = [
        (-len(several), pair)
        for pair, several in sharing.items()
        if len(several) >= max(CLUSTER, TIED * min(holders[word] for word in pair))
    ]
    heapq.heapify(waiting)
    taken, found = set[int](), list[list[int]]()
    while waiting:
        count, pair = heapq.heappop(waiting)
        several = [number for number in sharing[pair] if number not in taken]
        if len({states[number] for number in several}) < CLUSTER:
            continue
        if len(several) < -count:  # others have taken some of them meanwhile
            heapq.heappush(waiting, (-len(several), pair))
            continue
        counts = Counter(word for number in several for word in words[number] & telling)
        core = {word for word, times in counts.items() if 2 * times >= len(several)}
        near = {number for word in core for number in having[word] if len(core & words[number]) > 1}
        found.append(sorted(near - taken))
        taken |= near
    return found


def _summary(group: Sequence[Memory]) -> Step:
    text = summarise([Utterance("", memory.text) for memory in group], SUMMARY_TOKENS)
    return Step("summary", digest("summary", *(memory.id for memory in group)), text, tuple(group))


def described(step: Step, agent: str, id: str | None = None) -> Consolidation:
    """A step as a user sees it."""
    sources = tuple(memory.id for memory in step.sources)
    return Consolidation(id=id, agent=agent, how=step.how, text=step.text, sources=sources, reason=step.reason)


def make(step: Step, desk: Desk, now: datetime) -> Consolidation:
    """Make what a step says, then note its sources, then end those that it replaces; each is committed by itself.

    Stopped in between, it is finished by doing it again.
    """
    entries = [prepare(draft, desk.scope, desk.redactor, desk.sources)[0] for draft in drafts(step)]
    entries = entries if step.made else [*desk.embed(entries[:1])[0], *entries[1:]]
    id = None if step.made is None else step.made.id
    for some in batched(entries, PAGE):
        receipts = desk.store.add(desk.scope, some)
        id = id or receipts[0].id
    if id is None:
        raise Conflict("what was consolidated is kept under another key; run it again")
    for events in batched([_event(step, id, source, now) for source in step.sources], PAGE):
        desk.store.append(desk.scope, events)
    for source in step.sources if step.how == "merge" else ():
        _annotate(desk, source.id, now)
    return described(step, desk.scope.agent, id)


def drafts(step: Step) -> list[Draft]:
    """The new memory first, and then evidence for it: all that its sources had."""
    if step.how == "summary":
        return [_draft(step, step.sources[0], "")]
    return [
        _draft(step, source, f" {source.id} {number}")
        for source in step.sources
        for number in range(min(source.evidence, MOST_EVIDENCE))
    ]


def undo(id: str, desk: Desk) -> Consolidation:
    """Take back what was made: its sources are valid again, it is gone, and it will not be made again.

    That it is to be taken back is written first: stopped in between, the next consolidation finishes it. Raises
    `NotFound` if nothing was consolidated under this id, `Conflict` if all its sources are gone, and `NotAllowed` if it
    is held.
    """
    (made,) = desk.store.get(desk.scope, [id])
    said = {} if made is None else made.metadata.get(MARK)
    if made is None or not isinstance(said, dict) or not made_by(made):
        raise NotFound(f"nothing was consolidated as {id}", hint=Hint(f"memory list --tag {MARK}", "shows what was"))
    holds.refuse_if_held(desk.store, desk.scope, [made])
    how = _how.validate_python(said.get("how"))
    events = [event for event in desk.store.events_of(desk.scope, [id]) if event.kind == CONSOLIDATED]
    sources = tuple(str(event.body.get("source")) for event in events) or made.provenance.sources
    there = [source for source in desk.store.get(desk.scope, sources) if source is not None]
    if how == "merge" and not there:
        raise Conflict(
            f"nothing is left of what {id} was made of", hint=Hint(f"memory forget {id}", "lets go of it, too")
        )
    body: dict[str, JsonValue] = {"how": how, "sources": [*sources]}
    key = made_by(made)
    desk.store.append(desk.scope, [Event(f"{UNDONE}:{key}", UNDONE, desk.sources.now(), "", key, body)])
    for source in there if how == "merge" else ():
        if source.valid_until is not None:
            _annotate(desk, source.id, FOREVER)
    desk.store.forget(desk.scope, [id])
    return Consolidation(id=id, agent=made.agent, how=how, text=made.text, sources=sources, reason="taken back")


def _draft(step: Step, source: Memory, suffix: str) -> Draft:
    """What is kept for one source; of the first draft, all that the sources have together."""
    first = source is step.sources[0] and step.made is None
    word = _word_of(step, source)
    mark: dict[str, JsonValue] = {"how": step.how, "key": step.key}
    return Draft(
        step.text,
        kind=MemoryType.REFLECTION if step.how == "summary" else MemoryType.KNOWLEDGE,
        tags=(MARK, *(tag for tag in source.tags if tag != MARK))[:MOST_TAGS],
        at=max(each.happened_at for each in step.sources) if first else source.happened_at,
        importance=max(each.importance for each in step.sources) if first else source.importance,
        confidence=max(each.confidence for each in step.sources) if first else source.confidence,
        key=f"consolidation {step.key}{suffix}",
        metadata={MARK: mark},
        context="" if step.how == "summary" else source.context,
        content=_content(step, source),
        sources=tuple(each.id for each in step.sources[:NAMED]) if first else (source.id,),
        origin=word.provenance.origin,
        trust=word.trust,
        valid_from=min(each.valid_from for each in step.sources) if first else None,
    )


def _word_of(step: Step, source: Memory) -> Memory:
    """On whose word it is: a statement is whoever's says it; what only several make is the least trusted one's."""
    return source if step.how == "merge" else min(step.sources, key=lambda each: each.trust)


def _content(step: Step, source: Memory) -> dict[str, JsonValue]:
    """What tells what is made from its sources, which a statement of the same words would otherwise join."""
    if step.how == "summary":
        return {}
    own = source.content.model_dump(mode="json", exclude_defaults=True) if step.how == "merge" else {}
    return own | {"kind": MemoryType.KNOWLEDGE, "knowledge_type": f"{own.get('knowledge_type', '')} {MARK}".strip()}


def _event(step: Step, made: str, source: Memory, now: datetime) -> Event:
    body: dict[str, JsonValue] = {"source": source.id, "how": step.how}
    return Event(f"{CONSOLIDATED}:{made}:{source.id}", CONSOLIDATED, now, made, step.key, body)


def _annotate(desk: Desk, id: str, until: datetime) -> None:
    """Say until when a source is valid, if it still exists."""
    with suppress(NotFound):
        desk.store.annotate(desk.scope, id, Changes(valid_until=until), None)
