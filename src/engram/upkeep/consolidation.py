"""Consolidate memories: merge equal statements, turn repeated observations into facts, summarise topics.

Results are derived and name their sources. A result is committed before its sources change, no source is deleted,
everything can be undone, and repeating a consolidation makes nothing new.

Statements are compared by their words, not by vectors: for an embedder, "enabled" and "disabled" are nearer to each
other than most synonyms.
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
from engram.recording.input import prepare
from engram.system import batched
from engram.text.terms import digest, normal_form, query_terms

CONSOLIDATED, UNDONE = "consolidated", "consolidation-undone"
"""Kinds of events: a source of a result, and a result that was undone and must not be made again."""
MARK = "consolidated"
"""Tag and metadata key of results."""
FOREVER = datetime(9999, 12, 31, tzinfo=UTC)
MIN_DAYS = 3
"""Number of different days on which an observation must have been made to become a fact."""
MIN_WORDS = 3
MIN_CLUSTER = 5
"""Minimum number of texts about a topic for a summary."""
MAX_TERM_SHARE = 0.25
"""A word in a greater share of all texts does not characterise a topic, unless there are few texts."""
MIN_TERM_LIMIT = 50
MIN_PAIR_SHARE = 0.25
"""Minimum share of the texts with the rarer of two words that must have both: in many texts, any two words meet by
chance.
"""
MAX_WORDS = 16
"""Number of words considered in a text: the rarest of those that occur in others."""
MAX_SOURCES = 100
"""Number of sources that a memory can name; events name the others."""
MAX_EVIDENCE = 100
MAX_TAGS = 100
SUMMARY_TOKENS = 150
PAGE = 500

SUMMARISED = frozenset({MemoryType.OBSERVATION, MemoryType.RESULT})
_IGNORED_WORDS = frozenset("a an the do does really actually basically simply".split())
"""Words that do not change a statement; `is`, `was`, `can`, `only`, `just` and `very` are not among them."""
_TEMPORARY_WORDS = frozenset("today yesterday tomorrow tonight now currently this ago last next again still".split())
"""Words that make a statement about a moment, which is no lasting fact."""
_GENERAL_WORDS = frozenset(
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
"""Words that do not characterise a topic: they fit many things, or name a time."""
_SYNONYMS = {
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
"""Words with the same meaning in every statement; `run` and `use`, for example, are not."""
_LEFT, _RIGHT = "\"'`“”‘’«»([{", "\"'`“”‘’«»)]},;:!.…"
_CANNOT = re.compile(r"\bcan(?:not|[’']t)\b", re.IGNORECASE)
_WILL_NOT = re.compile(r"\bwon[’']t\b", re.IGNORECASE)
_NOT = re.compile(r"n[’']t\b", re.IGNORECASE)
_OPENING = re.compile(r"\s*(?:please )?note that ", re.IGNORECASE)

T = TypeVar("T")
_how: TypeAdapter[How] = TypeAdapter(How)


@dataclass(frozen=True, slots=True)
class ConsolidationContext:
    """The store and scope of one agent, with the functions that consolidation needs."""

    store: Store
    scope: Scope
    redactor: Redactor
    sources: Sources
    embed: Callable[[Sequence[Entry]], tuple[list[Entry], str | None]]


@dataclass(frozen=True, slots=True)
class ConsolidationHistory:
    """Earlier consolidations: the sources of each result, and the undone ones."""

    sources: Mapping[str, frozenset[str]] = field(default_factory=dict)
    undone: frozenset[str] = frozenset()
    """Keys of undone steps."""
    declined: frozenset[str] = frozenset()
    """Sources of undone summaries."""


@dataclass(frozen=True, slots=True)
class ConsolidationStep:
    """A result to make, or to add evidence to, with its sources, oldest first."""

    how: How
    key: str
    text: str
    sources: tuple[Memory, ...]
    made: Memory | None = None
    """The existing result that the sources add evidence to."""

    @property
    def reason(self) -> str:
        """The reason for the step, for users."""
        count = len(self.sources)
        if self.how == "summary":
            return f"{count} memories about one topic"
        if self.how == "fact":
            days = len({source.happened_at.date() for source in self.sources})
            return f"observed {count} more times" if self.made else f"observed {count} times on {days} days"
        return f"{count} more that say the same" if self.made else f"{count} statements say the same"


def statement(text: str) -> tuple[str, ...]:
    """Normalise a text to a tuple of words, which is equal for differently worded equal statements.

    Case, articles, punctuation, contracted negations and some synonyms are ignored; numbers, names, negations, word
    order and all other words count.
    """
    spelt = _NOT.sub(" not", _WILL_NOT.sub("will not", _CANNOT.sub("can not", text)))
    opening = _OPENING.match(spelt)
    words = [_normal_word(word) for word in normal_form(spelt[opening.end() :] if opening else spelt).split()]
    found = tuple(word for word in words if word and word not in _IGNORED_WORDS)
    return (*found, "?") if text.rstrip().endswith(("?", "？")) else found


def _normal_word(word: str) -> str:
    bare = word.lstrip(_LEFT).rstrip(_RIGHT).removesuffix("?").rstrip(_RIGHT)
    return _SYNONYMS.get(bare, bare)


def history_of(events: Iterable[Event]) -> ConsolidationHistory:
    """Collect earlier consolidations from an agent's events."""
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
    return ConsolidationHistory(kept, frozenset(undone), frozenset(declined))


def sources_by_result(events: Iterable[Event]) -> dict[str, set[str]]:
    """Return the sources of each result."""
    return {made: set(sources) for made, sources in history_of(events).sources.items()}


def merged_results(events: Iterable[Event]) -> set[str]:
    """Return the results of merges, which have ended their sources."""
    return {event.subject for event in events if event.kind == CONSOLIDATED and event.body.get("how") == "merge"}


def consolidated_keys(events: Iterable[Event]) -> set[str]:
    """Return the keys of all existing results."""
    return {event.topic for event in events if event.kind == CONSOLIDATED and event.topic}


def unfinished_undos(memories: Iterable[Memory], past: ConsolidationHistory) -> list[str]:
    """Return the results whose undoing was interrupted."""
    return [memory.id for memory in memories if step_key(memory) in past.undone]


def plan(memories: Iterable[Memory], past: ConsolidationHistory, now: datetime) -> list[ConsolidationStep]:
    """Plan the consolidation of one agent's memories, in a deterministic order."""
    ordered = sorted(memories, key=lambda memory: (memory.happened_at, memory.id))
    made = {key: memory for memory in ordered if _valid(memory, now) and (key := step_key(memory))}
    rest = [memory for memory in ordered if not _is_consolidated(memory)]
    same, facts = _merge_groups(rest, now), _fact_groups(rest, now)
    steps = [_make_step("merge", key, group, made.get(key), past) for key, group in same.items()]
    steps += [_make_step("fact", key, group, made.get(key), past) for key, group in facts.items()]
    steps += [_summary_step(group) for group in _topic_groups(rest, past)]
    return [step for step in steps if step is not None and step.key not in past.undone]


def _is_consolidated(memory: Memory) -> bool:
    return MARK in memory.metadata


def step_key(memory: Memory) -> str:
    """Return the key of the step that made a memory; empty if it is no result."""
    said = memory.metadata.get(MARK)
    return str(said.get("key", "")) if isinstance(said, dict) else ""


def _valid(memory: Memory, now: datetime) -> bool:
    return memory.valid_from < now and memory.valid_until in {None, FOREVER}


def _merge_groups(memories: Iterable[Memory], now: datetime) -> dict[str, list[Memory]]:
    """Group plain statements by their meaning, the most trusted first; facts with a subject are excluded."""
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


def _fact_groups(memories: Sequence[Memory], now: datetime) -> dict[str, list[Memory]]:
    """Group observations made on enough days and not stated yet; derived observations are excluded."""
    groups, stated = defaultdict[tuple[str, ...], list[Memory]](list), set[tuple[str, ...]]()
    for memory in memories:
        if memory.kind == MemoryType.KNOWLEDGE and _valid(memory, now):
            stated.add(statement(memory.text))
        elif memory.kind == MemoryType.OBSERVATION and not memory.provenance.sources:
            words = statement(memory.text)
            if len(words) >= MIN_WORDS and words[-1] != "?" and not _TEMPORARY_WORDS & set(words):
                groups[(normal_form(memory.context), *words)].append(memory)
    return {
        digest("fact", *key): group
        for key, group in groups.items()
        if key[1:] not in stated and len({memory.happened_at.date() for memory in group}) >= MIN_DAYS
    }


def _make_step(
    how: How, key: str, group: Sequence[Memory], made: Memory | None, past: ConsolidationHistory
) -> ConsolidationStep | None:
    known = frozenset[str]()
    if made is not None and how == "fact":
        known = past.sources.get(made.id, frozenset()).union(made.provenance.sources)
    fresh = tuple(memory for memory in group if memory.id not in known)
    if not fresh or (made is None and len(fresh) < 2):
        return None
    return ConsolidationStep(how, key, made.text if made else fresh[0].text, fresh, made)


def _topic_groups(memories: Sequence[Memory], past: ConsolidationHistory) -> list[list[Memory]]:
    """Return groups of events about a topic that are in no summary yet, the largest first."""
    events = [memory for memory in memories if memory.kind in SUMMARISED]
    used = past.declined.union(*past.sources.values())
    found = topics([memory.text for memory in events], {n for n, memory in enumerate(events) if memory.id in used})
    return [[events[number] for number in cluster][:MAX_SOURCES] for cluster in found]


def topics(texts: Sequence[str], used: Collection[int] = frozenset()) -> list[list[int]]:
    """Cluster texts by topic, as lists of their numbers; `used` ones count for word frequencies only.

    A topic begins with two characteristic words that enough different texts share. Words that most of these texts have
    belong to the topic, too, and a text with any two of its words belongs to it.
    """
    states = [statement(text) for text in texts]
    words = [frozenset(query_terms(" ".join(state))) - _GENERAL_WORDS for state in states]
    holders = Counter(word for own in words for word in own if not word.isdecimal())
    most = max(MAX_TERM_SHARE * len(texts), MIN_TERM_LIMIT)
    telling = {word for word, count in holders.items() if MIN_CLUSTER <= count <= most}
    having, sharing = defaultdict[str, list[int]](list), defaultdict[tuple[str, str], list[int]](list)
    for number, own in enumerate(words):
        if number not in used:
            rarest = sorted(own & telling, key=lambda word: (holders[word], word))[:MAX_WORDS]
            for word in rarest:
                having[word].append(number)
            for pair in combinations(sorted(rarest), 2):
                sharing[pair].append(number)
    waiting = [
        (-len(several), pair)
        for pair, several in sharing.items()
        if len(several) >= max(MIN_CLUSTER, MIN_PAIR_SHARE * min(holders[word] for word in pair))
    ]
    heapq.heapify(waiting)
    taken, found = set[int](), list[list[int]]()
    while waiting:
        count, pair = heapq.heappop(waiting)
        several = [number for number in sharing[pair] if number not in taken]
        if len({states[number] for number in several}) < MIN_CLUSTER:
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


def _summary_step(group: Sequence[Memory]) -> ConsolidationStep:
    text = summarise([Utterance("", memory.text) for memory in group], SUMMARY_TOKENS)
    return ConsolidationStep("summary", digest("summary", *(memory.id for memory in group)), text, tuple(group))


def to_report(step: ConsolidationStep, agent: str, id: str | None = None) -> Consolidation:
    """Convert a step to its report."""
    sources = tuple(memory.id for memory in step.sources)
    return Consolidation(id=id, agent=agent, how=step.how, text=step.text, sources=sources, reason=step.reason)


def carry_out(step: ConsolidationStep, context: ConsolidationContext, now: datetime) -> Consolidation:
    """Store the result of a step, then its sources, then the end of replaced sources, each in its own transaction.

    After an interruption, it can be repeated.
    """
    entries = [prepare(draft, context.scope, context.redactor, context.sources)[0] for draft in make_drafts(step)]
    entries = entries if step.made else [*context.embed(entries[:1])[0], *entries[1:]]
    id = None if step.made is None else step.made.id
    for some in batched(entries, PAGE):
        receipts = context.store.add(context.scope, some)
        id = id or receipts[0].id
    if id is None:
        raise Conflict("the result is already stored under another key; run it again")
    for events in batched([_event(step, id, source, now) for source in step.sources], PAGE):
        context.store.append(context.scope, events)
    for source in step.sources if step.how == "merge" else ():
        _set_end(context, source.id, now)
    return to_report(step, context.scope.agent, id)


def make_drafts(step: ConsolidationStep) -> list[Draft]:
    """Make the drafts of a step: the result, followed by the evidence of its sources."""
    if step.how == "summary":
        return [_draft(step, step.sources[0], "")]
    return [
        _draft(step, source, f" {source.id} {number}")
        for source in step.sources
        for number in range(min(source.evidence, MAX_EVIDENCE))
    ]


def undo(id: str, context: ConsolidationContext) -> Consolidation:
    """Undo a consolidation: its sources are valid again, the result is deleted, and it is not made again.

    The intention is stored first: after an interruption, the next consolidation completes it. Raises `NotFound` if the
    id is no result, `Conflict` if all its sources are gone, and `NotAllowed` if it is under a legal hold.
    """
    (made,) = context.store.get(context.scope, [id])
    said = {} if made is None else made.metadata.get(MARK)
    if made is None or not isinstance(said, dict) or not step_key(made):
        raise NotFound(
            f"{id} is no result of a consolidation", hint=Hint(f"memory list --tag {MARK}", "shows the results")
        )
    holds.refuse_if_held(context.store, context.scope, [made])
    how = _how.validate_python(said.get("how"))
    events = [event for event in context.store.events_of(context.scope, [id]) if event.kind == CONSOLIDATED]
    sources = tuple(str(event.body.get("source")) for event in events) or made.provenance.sources
    there = [source for source in context.store.get(context.scope, sources) if source is not None]
    if how == "merge" and not there:
        raise Conflict(f"all sources of {id} were deleted", hint=Hint(f"memory forget {id}", "deletes it, too"))
    body: dict[str, JsonValue] = {"how": how, "sources": [*sources]}
    key = step_key(made)
    context.store.append(context.scope, [Event(f"{UNDONE}:{key}", UNDONE, context.sources.now(), "", key, body)])
    for source in there if how == "merge" else ():
        if source.valid_until is not None:
            _set_end(context, source.id, FOREVER)
    context.store.forget(context.scope, [id])
    return Consolidation(id=id, agent=made.agent, how=how, text=made.text, sources=sources, reason="taken back")


def _draft(step: ConsolidationStep, source: Memory, suffix: str) -> Draft:
    """Make the draft for one source; the first draft combines all sources."""
    first = source is step.sources[0] and step.made is None
    word = _trusted_source(step, source)
    mark: dict[str, JsonValue] = {"how": step.how, "key": step.key}
    return Draft(
        step.text,
        kind=MemoryType.REFLECTION if step.how == "summary" else MemoryType.KNOWLEDGE,
        tags=(MARK, *(tag for tag in source.tags if tag != MARK))[:MAX_TAGS],
        at=max(each.happened_at for each in step.sources) if first else source.happened_at,
        importance=max(each.importance for each in step.sources) if first else source.importance,
        confidence=max(each.confidence for each in step.sources) if first else source.confidence,
        key=f"consolidation {step.key}{suffix}",
        metadata={MARK: mark},
        context="" if step.how == "summary" else source.context,
        content=_content(step, source),
        sources=tuple(each.id for each in step.sources[:MAX_SOURCES]) if first else (source.id,),
        origin=word.provenance.origin,
        trust=word.trust,
        valid_from=min(each.valid_from for each in step.sources) if first else None,
    )


def _trusted_source(step: ConsolidationStep, source: Memory) -> Memory:
    """Return the memory whose trust applies: for a merge the source, otherwise the least trusted one."""
    return source if step.how == "merge" else min(step.sources, key=lambda each: each.trust)


def _content(step: ConsolidationStep, source: Memory) -> dict[str, JsonValue]:
    """Return content that keeps the result from being merged with equal statements."""
    if step.how == "summary":
        return {}
    own = source.content.model_dump(mode="json", exclude_defaults=True) if step.how == "merge" else {}
    return own | {"kind": MemoryType.KNOWLEDGE, "knowledge_type": f"{own.get('knowledge_type', '')} {MARK}".strip()}


def _event(step: ConsolidationStep, made: str, source: Memory, now: datetime) -> Event:
    body: dict[str, JsonValue] = {"source": source.id, "how": step.how}
    return Event(f"{CONSOLIDATED}:{made}:{source.id}", CONSOLIDATED, now, made, step.key, body)


def _set_end(context: ConsolidationContext, id: str, until: datetime) -> None:
    """Set the end of a source's validity, if it still exists."""
    with suppress(NotFound):
        context.store.annotate(context.scope, id, Changes(valid_until=until), None)
