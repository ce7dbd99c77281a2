"""Situations: kinds of contexts that mean the same, in other words and with other ids and numbers.

A context belongs to the situation of its wording, which is its text without ids and long numbers. A new wording joins
the situation whose contexts use the same words, else it starts a new one; wordings whose words fit several situations
share one. Two situations are merged when what is done in both, and how it goes, shows that they are the same; a wording
in which other things are done is split off. Edits by users are events; everything else follows from the decisions, so
folding the events again gives the same situations. Situations are known by their wordings, so that they remain when
some decisions are deleted.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, NamedTuple

from pydantic import JsonValue

from engram.learning import events
from engram.learning.situations import behaviour
from engram.learning.situations.behaviour import ActionCounts
from engram.learning.situations.nearness import Habits, Nearness
from engram.learning.situations.wordings import WordGroups, wording_key
from engram.model.situation import Situation
from engram.ports import Event
from engram.text.terms import normal_form

TEXTS, SHOWN = 100, 12
"""Wordings whose text is kept per situation, the first, and how many of them are shown, the commonest."""
LONGEST = 300
"""Characters shown of a longer context."""
RECENT = 128
"""Decisions found by their situation, the newest."""
SURELY, LIKELY = 0.72, 0.85
"""Closeness above which a context is of the situation of its nearest neighbour, or else the probability needed."""
LEAST_PAIRS = 40
"""Pairs of decisions in contexts with the same words needed to measure how alike they are."""
MOST_NAMING = 50
"""Wordings by which an event names a situation, so that it is found when others are deleted."""
ENOUGH = 4
"""Decisions a situation needs before what is done in it is compared with others."""
MOSTLY = 4
"""Factor by which a situation needs more contexts than the other candidates to get contexts with new numbers."""
ONE, OWN = 8.0, 3.0
"""Log odds above which two situations are merged, and those that their habit is not what is done everywhere."""
VARIED, FILLERS = 2.0, 3
"""Log odds above which the words in one place of a context are irrelevant, and the variants needed for that."""
APART, FEWEST = -2.0, 3
"""Log odds below which a wording is split off its situation, and the decisions needed for that."""
COMPARED, VISITED = 32, 256
"""Situations compared with one at most, and visited for that by each action, the newest."""


class Neighbour(NamedTuple):
    """A context near the one asked about, and its closeness (1 is the same)."""

    context: str
    closeness: float


@dataclass(slots=True)
class _SituationState:
    id: str
    name: str = ""
    pinned: bool = False
    texts: dict[str, str] = field(default_factory=dict)
    """By wording: its first text."""
    wordings: dict[str, ActionCounts] = field(default_factory=dict)
    """By wording: what was done."""
    counts: ActionCounts = field(default_factory=ActionCounts)
    """The sum of these."""
    groups: dict[int, ActionCounts] = field(default_factory=dict)
    """By word group: what was done."""
    recent: list[tuple[str, str]] = field(default_factory=list)
    """The newest decisions, each with its wording; sometimes more than `RECENT`."""

    def times(self, key: str) -> int:
        return self.wordings[key].decisions


class Situations:
    """The situations of one agent, folded from its events."""

    def __init__(self) -> None:
        self._kinds: dict[str, _SituationState] = {}
        self._by_wording: dict[str, str] = {}
        """By wording: the id of its situation."""
        self._merged: dict[str, str] = {}
        self._taken: Counter[str] = Counter()
        """Number of decisions by action, in all situations."""
        self.decisions = 0
        """Decisions in all situations."""
        self._by_action: dict[str, list[str]] = {}
        """By action: the sorted ids of the situations in which it was taken."""
        self._words = WordGroups()
        self._of_group: dict[int, str] = {}
        """By word group: the id of its situation."""
        self._group: dict[str, int] = {}
        """By wording: its word group; missing for one without words."""
        self._shared: set[int] = set()
        """Groups of new wordings whose words fit several situations."""

    def fold(self, event: Event) -> None:
        """Learn from one event: a decision, its outcome, or an edit by a user."""
        if event.kind == events.SITUATION:
            self._apply_edit(event)
            return
        context, action = events.text(event, "context").strip(), normal_form(events.text(event, "action"))
        quality = events.number(event, "quality")
        if event.kind == events.OUTCOME and quality is not None and (key := wording_key(context)) in self._by_wording:
            before = events.number(event, "before")
            for each in self._counts(key):
                each.count_outcome(action, quality, before)
        if event.kind != events.DECISION or not context:
            return
        key = wording_key(context)
        if key not in self._by_wording:
            self._begin(key, context, event)
        kind = self._kinds[self._by_wording[key]]
        if len(kind.texts) < TEXTS:
            kind.texts.setdefault(key, context[:LONGEST])
        for each in self._counts(key):
            each.count_decision(action)
            if quality is not None:
                each.count_outcome(action, quality, None)
        kind.recent.append((key, event.subject))
        if len(kind.recent) > 2 * RECENT:
            del kind.recent[:-RECENT]
        self._taken[action] += 1
        self.decisions += 1
        self._index_action(action, kind.id)
        self._maybe_split(kind, key)
        self._join_variants(self._kinds[self._by_wording[key]], key)
        self._merge_alike(self._kinds[self._by_wording[key]])

    def _begin(self, key: str, context: str, event: Event) -> None:
        """Find the situation of a new wording, or start one."""
        id = self.current(events.text(event, "situation"))
        ambiguous = len(self.find_by_words(context)) > 1
        group = self._shared_group(context) if ambiguous else self._words.add(context)
        if id is None and group is not None:
            id = self.current(self._of_group.get(group, ""))
        id = id or self._new_id(key)
        kind = self._kinds.setdefault(id, _SituationState(id))
        self._by_wording[key], kind.wordings[key] = id, ActionCounts()
        if group is not None and self._of_group.setdefault(group, id) == id:
            self._group[key] = group
            kind.groups.setdefault(group, ActionCounts())

    def _shared_group(self, context: str) -> int | None:
        """Return the group of wordings that fit any situation with these words, a new one if there is none."""
        group = self._find_shared_group(context)
        if group is None and (group := self._words.split(context)) is not None:
            self._shared.add(group)
        return group

    def _find_shared_group(self, context: str) -> int | None:
        """Return the group that wordings with these words share, `None` if there is none yet."""
        known = (each for each in self._words.best_matches(context) if each in self._shared)
        return next((each for each in known if self.current(self._of_group.get(each, "")) is not None), None)

    def _new_id(self, key: str) -> str:
        """Return an id for a situation that a wording starts."""
        ids = (f"{key}{number or ''}" for number in count())
        return next(id for id in ids if id not in self._kinds and id not in self._merged)

    def _counts(self, key: str) -> Iterable[ActionCounts]:
        """Yield the counts that include a wording: its own, that of its situation, and that of its group."""
        kind = self._kinds[self._by_wording[key]]
        group = kind.groups.get(self._group.get(key, -1))
        return (kind.wordings[key], kind.counts, *(() if group is None else (group,)))

    def of(self, context: str) -> str | None:
        """Return the id of the situation of a context, `None` for a new wording."""
        return self._by_wording.get(wording_key(context))

    def id_of_wording(self, wording: str) -> str | None:
        """Return the id of the situation that has a wording."""
        return self._by_wording.get(wording)

    def find_like(self, context: str) -> str | None:
        """Return the id of the situation of a context, or of contexts that use the same words.

        Where only numbers distinguish several, this is the one that new numbers share.
        """
        if (id := self.of(context)) is not None:
            return id
        found = self.find_by_words(context)
        if len(found) > 1 and (group := self._find_shared_group(context)) is not None:
            return self.current(self._of_group[group])
        return found[0] if len(found) == 1 else None

    def find_by_words(self, context: str) -> list[str]:
        """Return the situations whose words a context has; only one if most contexts with these words are of it.

        Only numbers distinguish several of them: the context may be of any.
        """
        sizes = Counter[str]()
        for group in self._words.best_matches(context):
            if (id := self.current(self._of_group.get(group, ""))) is not None:
                sizes[id] += self._words.size(group)
        ranked = sizes.most_common()
        most = ranked[0][1] if ranked else 0
        return [id for id, _ in ranked[: 1 if most >= MOSTLY * (sizes.total() - most) else None]]

    def names(self) -> dict[str, str]:
        """Return the names of all situations, by id."""
        return {id: self.name(id) for id in self._kinds}

    def sample(self, most: int) -> list[str]:
        """Return some contexts, spread over all situations."""
        texts = [text for kind in self._kinds.values() for _, text in sorted(kind.texts.items())]
        return texts[:: max(1, -(-len(texts) // most))]

    def recent(self, id: str) -> list[str]:
        """Return the newest decisions of a situation."""
        return [subject for _, subject in self._kinds[id].recent[-RECENT:]]

    def latest(self, id: str) -> list[str]:
        """Return the wordings of the newest decisions of a situation, newest first."""
        return list(dict.fromkeys(key for key, _ in reversed(self._kinds[id].recent)))

    def wordings(self, id: str) -> set[str]:
        """Return the keys of all wordings of a situation."""
        return set(self._kinds[id].wordings)

    def key(self, id: str, context: str) -> str | None:
        """Return the wording key of a context of a situation, as recorded or as displayed; `None` for others."""
        kind, key = self._kinds[id], wording_key(context)
        if key in kind.wordings:
            return key
        return next((own for own, text in sorted(kind.texts.items()) if text == context), None)

    def naming_wordings(self, id: str) -> list[str]:
        """Return the wordings by which an event names a situation."""
        return sorted(self._kinds[id].wordings)[:MOST_NAMING]

    def different_from(self, id: str, others: Iterable[str]) -> set[str]:
        """Return which of these situations certainly differ from one: by a user's edit, or by what is done in them."""
        kind = self._kinds[id]
        return {other for other in others if other != id and (kind.pinned or self._are_apart(kind, self._kinds[other]))}

    def _are_apart(self, kind: _SituationState, other: _SituationState) -> bool:
        if other.pinned:
            return True
        if min(kind.counts.decisions, other.counts.decisions) < FEWEST:
            return False
        usual = self._usual_shares(kind.counts, other.counts)
        return behaviour.log_odds_same(kind.counts, other.counts, usual) <= APART

    def name(self, id: str) -> str:
        """Return the name a user gave it, else its commonest wording."""
        kind = self._kinds[id]
        return kind.name or next((text for _, text in _texts(kind)), id)

    def nearest(self, near: Iterable[Neighbour], nearness: Nearness) -> str | None:
        """Return the situation of the nearest decision, if it is close enough to be the same."""
        first = next(iter(near), None)
        if first is None or (first.closeness < SURELY and nearness.worth(first.closeness) < LIKELY):
            return None
        return self.of(first.context)

    def have_same_words(self, one: str, other: str) -> bool:
        """Return whether two recorded contexts use the same words."""
        first, second = wording_key(one), wording_key(other)
        return first == second or self._group.get(first, first) == self._group.get(second, second)

    def agreement(self, one: str, other: str) -> float:
        """Return the probability that decisions in the words of two recorded contexts take the same action."""
        first, second = self._in_words(one), self._in_words(other)
        both = sum(record.taken * second.taken(action) for action, record in first.records.items())
        return both / max(first.decisions * second.decisions, 1)

    def _in_words(self, context: str) -> ActionCounts:
        """Return what was done in contexts with the words of a recorded one."""
        key = wording_key(context)
        kind = self._kinds[self._by_wording[key]]
        return kind.groups.get(self._group.get(key, -1), kind.wordings[key])

    def habits(self) -> Habits:
        """Return how likely two decisions take the same action, in the same words and anywhere."""
        same = pairs = 0
        for kind in self._kinds.values():
            for done in kind.groups.values():
                same += sum(record.taken * (record.taken - 1) for record in done.records.values())
                pairs += done.decisions * (done.decisions - 1)
        chance = sum(taken * taken for taken in self._taken.values()) / max(self.decisions, 1) ** 2
        return Habits(same / pairs if pairs >= LEAST_PAIRS else chance, chance)

    def find(self, name: str) -> str | None:
        """Return the id of the situation with this id, name or context, or with the words of this context."""
        return self.find_exact(name) or self.find_like(name)

    def find_exact(self, name: str) -> str | None:
        """Return the id of the situation with this id, name or recorded context."""
        return self.current(name) or self.id_by_name(name) or self.of(name)

    def id_by_name(self, name: str) -> str | None:
        """Return the id of the only situation with this name."""
        wanted = normal_form(name)
        named = [kind.id for kind in self._kinds.values() if normal_form(self.name(kind.id)) == wanted]
        return named[0] if len(named) == 1 else None

    def list_all(self) -> list[Situation]:
        """Return the situations, those with most decisions first."""
        kinds = sorted(self._kinds.values(), key=lambda kind: (-kind.counts.decisions, kind.id))
        return [self.to_model(kind.id) for kind in kinds]

    def to_model(self, id: str) -> Situation:
        """Return one situation as a model."""
        kind = self._kinds[id]
        return Situation(
            id=id,
            name=self.name(id),
            pinned=kind.pinned,
            decisions=kind.counts.decisions,
            wordings=len(kind.wordings),
            contexts=tuple(text for _, text in _texts(kind)[:SHOWN]),
            actions={action: taken for taken, action in _commonest_first(kind.counts)},
        )

    def dump(self) -> JsonValue:
        """Return the state as JSON."""
        return {
            "kinds": [
                [
                    kind.id,
                    kind.name,
                    kind.pinned,
                    dict(sorted(kind.texts.items())),
                    {key: one.dump() for key, one in sorted(kind.wordings.items())},
                    {key: self._group[key] for key in sorted(kind.wordings) if key in self._group},
                    [[*one] for one in kind.recent],
                ]
                for kind in self._kinds.values()
            ],
            "merged": dict(sorted(self._merged.items())),
            "groups": {str(group): id for group, id in sorted(self._of_group.items())},
            "shared": [*sorted(self._shared)],
            "words": self._words.dump(),
        }

    @classmethod
    def load(cls, state: Mapping[str, Any]) -> Situations:
        """Restore from the output of `dump`."""
        found = cls()
        for id, name, pinned, texts, wordings, groups, recent in state["kinds"]:
            parts = {key: ActionCounts.load(one) for key, one in wordings.items()}
            kind = _SituationState(id, name, pinned, dict(texts), parts, behaviour.sum_counts(parts.values()))
            for key, group in groups.items():
                kind.groups.setdefault(group, ActionCounts()).merge(parts[key])
            found._group |= groups
            kind.recent.extend((key, subject) for key, subject in recent)
            found._kinds[id] = kind
            found._by_wording |= dict.fromkeys(wordings, id)
            for action, record in kind.counts.records.items():
                found._taken[action] += record.taken
                found.decisions += record.taken
                found._index_action(action, id)
        found._merged = dict(state["merged"])
        found._of_group = {int(group): id for group, id in state["groups"].items()}
        found._shared = set(state["shared"])
        found._words = WordGroups.load(state["words"])
        return found

    def current(self, id: str) -> str | None:
        """Return the id that a situation has after merges, `None` if it is gone."""
        while id in self._merged:
            id = self._merged[id]
        return id if id in self._kinds else None

    def _index_action(self, action: str, id: str) -> None:
        known = self._by_action.setdefault(action, [])
        place = bisect_left(known, id)
        if known[place : place + 1] != [id]:
            known.insert(place, id)

    def _unindex_action(self, action: str, id: str) -> None:
        known = self._by_action[action]
        place = bisect_left(known, id)
        if known[place : place + 1] == [id]:
            del known[place]

    def _usual_shares(self, *several: ActionCounts) -> dict[str, float]:
        """Return the share of each of their actions among all decisions."""
        actions = {action for each in several for action in each.records}
        everything = self.decisions + len(self._taken)
        return {action: (self._taken[action] + 1) / everything for action in actions}

    def _maybe_split(self, kind: _SituationState, key: str) -> None:
        """Move a wording, or all with its words, into a new situation, if other things are done there."""
        if kind.pinned:
            return
        group = self._group.get(key, -1)
        if len(kind.groups) > 1 and group in kind.groups and self._differs_from_rest(kind, kind.groups[group]):
            id = self._new_id(key)
            for each in sorted(each for each in kind.wordings if self._group.get(each) == group):
                self._move(each, id)
        elif len(kind.wordings) > 1 and self._differs_from_rest(kind, kind.wordings[key]):
            self._move(key, self._new_id(key))
            self._own_group(key)

    def _differs_from_rest(self, kind: _SituationState, own: ActionCounts) -> bool:
        """Return whether other things are done in a part of a situation than in the rest."""
        decisions = own.decisions
        if decisions < FEWEST or (decisions > ENOUGH and not _is_due(decisions)):
            return False
        rest = kind.counts.without(own)
        return rest.decisions >= FEWEST and behaviour.log_odds_same(own, rest, self._usual_shares(own, rest)) <= APART

    def _join_variants(self, kind: _SituationState, key: str) -> None:
        """Merge contexts that differ in one place only, if the same is done whatever stands there."""
        group = self._group.get(key, -1)
        if group not in kind.groups or not _is_due(kind.groups[group].decisions) or not self._may_be_joined(group):
            return
        for others in self._words.variants(group):
            groups = [group, *(other for other in others if self._may_be_joined(other))]
            parts = [self._kinds[self._of_group[each]].groups[each] for each in groups]
            if len(groups) >= FILLERS and behaviour.log_odds_all_same(parts, self._usual_shares(*parts)) >= VARIED:
                self._join(groups)
                return

    def _may_be_joined(self, group: int) -> bool:
        """Return whether a word group may be merged with another."""
        kind = self._kinds.get(self._of_group.get(group, ""))
        return kind is not None and group in kind.groups and not kind.pinned

    def _join(self, groups: Sequence[int]) -> None:
        """Merge word groups, and their situations."""
        ids = sorted({self._of_group[group] for group in groups})
        for id in ids[1:]:
            self._merge(id, ids[0])
        kind, into = self._kinds[ids[0]], self._words.join(groups)
        gone = {group for group in groups if group != into}
        for group in sorted(gone):
            kind.groups[into].merge(kind.groups.pop(group))
            del self._of_group[group]
        self._group |= {key: into for key in kind.wordings if self._group.get(key) in gone}

    def _merge_alike(self, kind: _SituationState) -> None:
        """Merge a situation with another, if the same is done in both, with the same success."""
        decisions = kind.counts.decisions
        if kind.pinned or decisions < ENOUGH or not _is_due(decisions):
            return
        best: tuple[float, str] | None = None
        for id in self._alike(kind):
            other = self._kinds[id]
            usual = self._usual_shares(kind.counts, other.counts)
            odds = behaviour.log_odds_same(kind.counts, other.counts, usual)
            if odds >= ONE and (best is None or (odds, id) > best):
                both = behaviour.sum_counts((kind.counts, other.counts))
                if behaviour.log_odds_unusual(both, usual) >= OWN:
                    best = odds, id
        if best is not None:
            first, second = sorted((kind.id, best[1]))
            self._merge(second, first)

    def _alike(self, kind: _SituationState) -> list[str]:
        """Return situations in which some of the same is done, those that share the rarest actions first."""
        found = dict[str, None]()
        for action in sorted(kind.counts.records, key=lambda action: (len(self._by_action[action]), action)):
            found |= dict.fromkeys(
                id
                for id in reversed(self._by_action[action][-VISITED:])
                if id != kind.id and not self._kinds[id].pinned and self._kinds[id].counts.decisions >= ENOUGH
            )
            if len(found) >= COMPARED:
                break
        return list(found)[:COMPARED]

    def _apply_edit(self, event: Event) -> None:
        """Apply a user's edit: split, merge, rename or pin; what is gone meanwhile is skipped."""
        id = self._situation_of_event(event, "situation", "wordings")
        split = events.text(event, "split")
        for key in _keys(event, "contexts") if split else ():
            if key in self._by_wording and (id is None or self._by_wording[key] == id):
                self._move(key, split)
                self._own_group(key)
        if split in self._kinds:
            self._kinds[split].pinned = True
        if id is None or (id := self.current(id)) is None:
            return
        twin = self._situation_of_event(event, "twin", "twin_wordings")
        if twin is not None:
            self._merge(twin, id)
        kind = self._kinds[id]
        kind.name = events.text(event, "name") or kind.name
        kind.pinned = bool(event.body.get("pinned", kind.pinned))

    def _situation_of_event(self, event: Event, field: str, wordings: str) -> str | None:
        """Return the situation that an event names by its id, or else by its wordings."""
        known = (self._by_wording[key] for key in _keys(event, wordings) if key in self._by_wording)
        return self.current(events.text(event, field)) or next(known, None)

    def _move(self, key: str, id: str) -> None:
        """Move a wording into another situation, which may be new."""
        old, new = self._kinds[self._by_wording[key]], self._kinds.setdefault(id, _SituationState(id))
        if old is new:
            return
        if len(old.wordings) == 1:
            self._merge(old.id, id)
            return
        own, group = old.wordings.pop(key), self._group.get(key, -1)
        old.counts = old.counts.without(own)
        new.counts.merge(own)
        new.wordings[key] = own
        self._by_wording[key] = id
        for action in own.records:
            self._index_action(action, id)
            if not old.counts.taken(action):
                self._unindex_action(action, old.id)
        if group in old.groups:
            old.groups[group] = old.groups[group].without(own)
            new.groups.setdefault(group, ActionCounts()).merge(own)
            if not any(self._group.get(each) == group for each in old.wordings):
                del old.groups[group]
                self._of_group[group] = id
        if key in old.texts:
            new.texts[key] = old.texts.pop(key)
        moved = [one for one in old.recent if one[0] == key]
        old.recent = [one for one in old.recent if one[0] != key]
        new.recent = _newest([*new.recent, *moved])

    def _own_group(self, key: str) -> None:
        """Give a wording a word group of its own in its present situation."""
        kind, group = self._kinds[self._by_wording[key]], self._group.get(key, -1)
        if group not in kind.groups or self._of_group.get(group) == kind.id:
            return
        kind.groups[group] = kind.groups[group].without(kind.wordings[key])
        if not any(self._group.get(each) == group for each in kind.wordings if each != key):
            del kind.groups[group]
        own = self._words.split(kind.texts[key]) if key in kind.texts else None
        if own is None:
            del self._group[key]
            return
        self._group[key], self._of_group[own] = own, kind.id
        kind.groups[own] = kind.wordings[key].copy()

    def _merge(self, gone: str, into: str) -> None:
        if gone == into:
            return
        old, kind = self._kinds.pop(gone), self._kinds[into]
        kind.wordings |= old.wordings
        kind.counts.merge(old.counts)
        for group, counts in old.groups.items():
            kind.groups.setdefault(group, ActionCounts()).merge(counts)
            self._of_group[group] = into
        for key in sorted(old.texts):
            if len(kind.texts) < TEXTS:
                kind.texts[key] = old.texts[key]
        kind.recent = _newest([*kind.recent, *old.recent])
        self._by_wording |= dict.fromkeys(old.wordings, into)
        for action in old.counts.records:
            self._unindex_action(action, gone)
            self._index_action(action, into)
        self._merged[gone] = into


def _commonest_first(done: ActionCounts) -> list[tuple[int, str]]:
    counts = [(record.taken, action) for action, record in done.records.items()]
    return sorted(counts, key=lambda one: (-one[0], one[1]))


def _is_due(decisions: int) -> bool:
    """Return whether a comparison is repeated at this number of decisions: more and more rarely."""
    return not decisions & (decisions - 1) or decisions % 8 == 0


def _newest(recent: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the newest decisions; ids of memories are ordered by time."""
    return sorted(recent, key=lambda one: one[1])[-RECENT:]


def _texts(kind: _SituationState) -> list[tuple[int, str]]:
    """Return the texts of a situation with their counts, the commonest and then the shortest first."""
    known = [(kind.times(key), text) for key, text in kind.texts.items()]
    return sorted(known, key=lambda one: (-one[0], len(one[1]), one[1]))


def _keys(event: Event, field: str) -> list[str]:
    named = event.body.get(field)
    return [key for key in named if isinstance(key, str)] if isinstance(named, list) else []
