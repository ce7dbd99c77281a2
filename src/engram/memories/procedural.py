"""Procedural memory: skills that are kept in versions, found by what is asked, and judged by how they did.

Every version is a memory of kind procedure and never changes; a changed skill is a new version. What it did is told as
decisions whose action is `skill:NAME@VERSION`, from which its success rate is derived.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from statistics import median
from typing import Any, Protocol

from pydantic import JsonValue, ValidationError

from engram.errors import Conflict, Hint, InvalidInput, NotFound, Unsupported
from engram.learning.decisions.beta import Beta
from engram.memories.skills import captured, checked, literal, read_skill, rendered
from engram.model import ForgetReceipt, Memory, MemoryType, Recall, Receipt, SuccessPattern
from engram.model.skill import Skill, SkillDefinition, SkillMatch, SkillOrigin, SkillStep, Triggers
from engram.ports import unstorable
from engram.ports.arguments import count
from engram.text.terms import index_terms, query_terms

TAG = "skill"
MOST_VERSIONS = 10_000
LONGEST_REQUEST = 10_000
LIKE = 50
"""How many skills are looked at that are like a request."""

OTHER_VERSION = 0.5
"""What a use of another version counts for the rate of a version."""
MOST_BEFORE = 4
"""How many attempts the past of a success pattern counts for at most."""

PHRASE, PATTERN, SIMILARITY = 0.9, 0.8, 0.7
LEAST_SHARED, LEAST_NEAR, LEAST_AHEAD = 0.2, 0.25, 0.15
"""What is offered by likeness shares so many telling words, or is so near, and so much nearer than most skills."""

Memories = list[Memory]

_TRIES = 20
_ACTION = re.compile(r"skill:([a-z0-9-]{1,64})@([0-9]{1,9})")
_NO_NAME = re.compile(r"[^a-z0-9]+")


Uses = Mapping[int, tuple[int, float]]
"""By version: how often it was used, and the sum of how well that went each time."""


class Learns(Protocol):
    """What an agent has learned, as far as skills need it."""

    def rates(self) -> Mapping[str, tuple[int, float]]:
        """How often each action was tried and how well that went, summed up."""
        ...


class Practises(Protocol):
    """The agent, as far as its skills need it."""

    @property
    def learning(self) -> Learns:
        """What it has learned."""
        ...

    def remember(self, text: str, **fields: Any) -> Receipt:
        """Remember a text."""
        ...

    def recall(self, query: str, k: int = 5, *, kinds: str = "", tags: str = "") -> Recall:
        """The memories that answer a query."""
        ...

    def list(self, *, limit: int = 50, kinds: str = "", tags: str = "") -> Memories:
        """The memories of some kinds that have a tag."""
        ...

    def get(self, id: str) -> Memory | None:
        """The memory with this id."""
        ...

    def annotate(self, id: str, *, valid_until: datetime | None = None) -> Memory:
        """Say how long a memory is valid."""
        ...

    def forget(self, id: str) -> ForgetReceipt:
        """Remove a memory."""
        ...

    def record_decision(
        self,
        /,
        *,
        context: str,
        action: str,
        outcome: str | float | None = None,
        error: str | BaseException = "",
        duration: float | None = None,
        cost: float | None = None,
        **fields: Any,
    ) -> Receipt:
        """Remember what was done and how it went."""
        ...


class ProceduralMemory:
    """The skills of one agent."""

    def __init__(self, agent: Practises) -> None:
        self._agent = agent

    def add(self, skill: str | Path | Mapping[str, JsonValue] | SkillDefinition) -> Skill:
        """Keep a skill: YAML, a file, a mapping or a definition. A changed one is a new version, the same one is not.

        Raises `InvalidInput` if it is unsafe, does not fit, or holds a secret; then nothing is kept.
        """
        definition = checked(skill) if isinstance(skill, SkillDefinition) else read_skill(skill)
        return self._add(definition, None, ())

    def skills(self) -> list[Skill]:
        """The newest version of each skill, by name."""
        uses = self._uses()
        newest = [versions[-1] for _, versions in sorted(self._versions(TAG).items())]
        return [_rated(skill, uses.get(skill.name, {})) for skill in newest]

    def get(self, name: str, version: int | None = None) -> Skill | None:
        """A skill in its newest version, or in the one that is asked for; `None` if there is none."""
        skill = self._found(name, version)
        return None if skill is None else _rated(skill, self._uses().get(name, {}))

    def history(self, name: str) -> list[Skill]:
        """All versions of a skill, the oldest first."""
        uses = self._uses().get(name, {})
        return [_rated(skill, uses) for skill in self._all(name)]

    def match(self, request: str, k: int = 3) -> list[SkillMatch]:
        """The skills that fit a request, best first; none if nothing does.

        A phrase in the request counts most, then a pattern that it fits, then what it is like; and all of that counts
        more, the more often the skill went well.
        """
        most = count("k", k)
        if not isinstance(request, str) or not request.strip():
            raise InvalidInput("the request is empty; say what is asked for")
        if reason := unstorable(request):
            raise InvalidInput(f"the request cannot be used: {reason}")
        request = request[:LONGEST_REQUEST]
        known = self.skills()
        terms = index_terms(request)
        found = [match for skill in known if (match := _called(skill, request, terms)) is not None]
        called = {match.skill.name for match in found}
        if len(called) < len(known):
            found += self._alike(request, [skill for skill in known if skill.name not in called])
        return sorted(found, key=lambda match: (-match.score, match.skill.name))[:most]

    def render(
        self, name: str, parameters: Mapping[str, Any] | None = None, *, version: int | None = None
    ) -> list[str]:
        """The text of each step of a skill, with the parameters filled in. Raises `NotFound` and `InvalidInput`."""
        return rendered(self._known(name, version), parameters or {})

    def used(
        self,
        /,
        name: str,
        outcome: str | float | None = None,
        *,
        context: str = "",
        version: int | None = None,
        error: str | BaseException = "",
        duration: float | None = None,
        cost: float | None = None,
        **fields: Any,
    ) -> Receipt:
        """Record that a skill was used, and how it went; without an outcome, tell it later by the id of the receipt.

        `context` is what was asked for; `fields` are those of a decision.
        """
        skill = self._known(name, version)
        return self._agent.record_decision(
            context=context or skill.description,
            action=skill.action,
            outcome=outcome,
            error=error,
            duration=duration,
            cost=cost,
            **fields,
        )

    def promote(self, pattern: SuccessPattern, *, name: str | None = None) -> Skill:
        """Make a skill of what worked again and again; its steps are those that the good runs have in common.

        The same pattern gives the same skill, and a new version of it when the steps have changed. Raises `Conflict` if
        the name belongs to a skill that was not made from this pattern.
        """
        wanted = _NO_NAME.sub("-", (name or pattern.name).lower()).strip("-")[:64].strip("-")
        if not wanted:
            raise InvalidInput("the pattern has no name that a skill can have; give one")
        taken = self._found(wanted)
        if taken is not None and (taken.origin is None or taken.origin.pattern_id != pattern.pattern_id):
            raise Conflict(f"there is another skill {wanted} already; give another name")
        steps = pattern.replication_steps or (pattern.successful_approach,)
        definition = SkillDefinition(
            name=wanted,
            description=f"{pattern.successful_approach}, for {pattern.context_signature}"[:2000],
            triggers=Triggers(examples=tuple(one for one in (pattern.context_signature.strip()[:200],) if one)),
            steps=tuple(SkillStep(action=literal(step)) for step in steps[:50]),
        )
        origin = SkillOrigin(
            pattern_id=pattern.pattern_id, success_rate=pattern.success_rate, attempts=pattern.attempts
        )
        return self._add(checked(definition), origin, pattern.episodes[-100:])

    def remove(self, name: str) -> int:
        """Forget all versions of a skill; how many there were. What is known of its uses stays."""
        return sum(self._agent.forget(skill.id).forgotten for skill in self._all(name))

    def _all(self, name: str) -> list[Skill]:
        """All versions of a skill, the oldest first, without how they did."""
        return self._versions(f"{TAG}:{name}").get(name, []) if isinstance(name, str) and name.strip() else []

    def _found(self, name: str, version: int | None = None) -> Skill | None:
        return next((one for one in reversed(self._all(name)) if version in {None, one.version}), None)

    def _known(self, name: str, version: int | None) -> Skill:
        skill = self._found(name, version)
        if skill is None:
            which = "" if version is None else f" in version {version}"
            raise NotFound(f"there is no skill {name!r}{which}", hint=Hint("skill list"))
        return skill

    def _add(self, definition: SkillDefinition, origin: SkillOrigin | None, sources: Sequence[str]) -> Skill:
        last = self._found(definition.name)
        if last is not None and last.definition == definition:
            return _rated(last, self._uses().get(last.name, {}))
        first = 1 if last is None else last.version + 1
        for version in range(first, first + _TRIES):
            memory = self._kept(definition, version, origin, sources)
            skill = None if memory is None else _skill(memory)
            if skill is not None and skill.version == version and skill.definition == definition:
                if last is not None:
                    with suppress(Unsupported):
                        self._agent.annotate(last.id, valid_until=skill.added_at)
                return _rated(skill, self._uses().get(skill.name, {}))
        raise Conflict(f"others keep adding versions of the skill {definition.name}; try again")

    def _kept(
        self, definition: SkillDefinition, version: int, origin: SkillOrigin | None, sources: Sequence[str]
    ) -> Memory | None:
        """The memory of a new version, or `None` if that version is taken. Raises `InvalidInput`."""
        written: dict[str, JsonValue] = {
            "version": version,
            "definition": definition.model_dump(mode="json", exclude_defaults=True),
        }
        if origin is not None:
            written["origin"] = origin.model_dump(mode="json")
        receipt = self._agent.remember(
            _said(definition, version),
            kind=MemoryType.PROCEDURE,
            tags=(TAG, f"{TAG}:{definition.name}"),
            content={"steps": [step.template for step in definition.steps]},
            metadata={TAG: written},
            key=f"{TAG} {definition.name}@{version}",
            sources=tuple(sources),
        )
        if receipt.id is None:
            if receipt.code == Conflict.code:
                return None
            raise InvalidInput(f"the skill {definition.name} was not kept: {receipt.reason}")
        if receipt.redacted:
            if receipt.status == "stored":
                self._agent.forget(receipt.id)
            what = ", ".join(receipt.redacted)
            raise InvalidInput(f"the skill {definition.name} holds what looks like a secret ({what}); use a parameter")
        return self._agent.get(receipt.id)

    def _versions(self, tag: str) -> dict[str, list[Skill]]:
        """The skills with a tag, each with its versions, the oldest first."""
        found: defaultdict[str, list[Skill]] = defaultdict(list)
        for memory in self._agent.list(limit=MOST_VERSIONS, kinds=MemoryType.PROCEDURE, tags=tag):
            skill = _skill(memory)
            if skill is not None:
                found[skill.name].append(skill)
        return {name: sorted(versions, key=lambda one: one.version) for name, versions in found.items()}

    def _uses(self) -> dict[str, dict[int, tuple[int, float]]]:
        """How often each version of each skill was used, and how well that went, from what is learned anyway."""
        found: defaultdict[str, dict[int, tuple[int, float]]] = defaultdict(dict)
        for action, tried in self._agent.learning.rates().items():
            if match := _ACTION.fullmatch(action):
                found[match[1]][int(match[2])] = tried
        return dict(found)

    def _alike(self, request: str, skills: Iterable[Skill]) -> list[SkillMatch]:
        """The skills that share telling words with a request, or whose meaning is nearer to it than that of others."""
        hits = self._agent.recall(request, LIKE, kinds=MemoryType.PROCEDURE, tags=TAG)
        near = {hit.id: max(0.0, min(1.0, float(hit.why.get("similarity", 0.0)))) for hit in hits}
        terms = set(query_terms(request))
        found = []
        for skill in skills:
            if skill.id not in near:
                continue
            others = [value for id, value in near.items() if id != skill.id]
            ahead = near[skill.id] - median(others) if len(others) > 1 else 0.0
            shared = len(terms & set(index_terms(_about(skill)))) / len(terms) if terms else 0.0
            if shared >= LEAST_SHARED or (near[skill.id] >= LEAST_NEAR and ahead >= LEAST_AHEAD):
                strength = SIMILARITY * (shared + near[skill.id]) / 2
                found.append(_matched(skill, strength, "similarity", "it is like what the skill is for", {}))
        return found


def _skill(memory: Memory) -> Skill | None:
    """The version of a skill that a memory holds, or `None` if it holds none."""
    written = memory.metadata.get(TAG)
    if not isinstance(written, dict) or not isinstance(written.get("definition"), dict):
        return None
    rest = {"version": written.get("version"), "origin": written.get("origin")}
    try:
        return Skill.model_validate(
            {**dict(written["definition"]), **rest, "id": memory.id, "added_at": memory.created_at}  # type: ignore[arg-type]
        )
    except ValidationError:  # it was not written by us
        return None


def _rated(skill: Skill, uses: Uses) -> Skill:
    """The skill with what its uses say: its own in full, those of other versions in part, and its past as a pattern."""
    weight = good = 0.0
    for version, (attempts, quality) in uses.items():
        each = 1.0 if version == skill.version else OTHER_VERSION
        weight += each * attempts
        good += each * quality
    if skill.origin is not None:
        before = min(skill.origin.attempts, MOST_BEFORE)
        weight += before
        good += before * skill.origin.success_rate
    if not weight:
        return skill
    believed = Beta(1 + good, 1 + max(0.0, weight - good))
    known = {"attempts": uses.get(skill.version, (0, 0.0))[0], "success_rate": believed.mean}
    return skill.model_copy(update=known | {"interval": _interval(believed)})


@lru_cache(maxsize=4096)
def _interval(believed: Beta) -> tuple[float, float]:
    return believed.interval()


def _called(skill: Skill, request: str, terms: Sequence[str]) -> SkillMatch | None:
    """How a request, and its terms, call for a skill by a phrase or a pattern, if they do."""
    phrases = [(len(words), phrase) for phrase in skill.triggers.phrases if (words := _within(phrase, terms))]
    fits = captured(skill, request)
    told = {} if fits is None else fits[1]
    if phrases:
        length, phrase = max(phrases)
        strength = PHRASE + (1 - PHRASE) * min(1.0, length / len(terms))
        return _matched(skill, strength, "phrase", f"it says {phrase!r}", told)
    if fits is not None:
        return _matched(skill, PATTERN, "pattern", f"it fits the pattern {fits[0]!r}", told)
    return None


def _within(phrase: str, terms: Sequence[str]) -> list[str]:
    """The words of a phrase, if they stand in a request one after the other."""
    words = index_terms(phrase)
    places = range(len(terms) - len(words) + 1)
    return words if any(terms[at : at + len(words)] == words for at in places) else []


def _matched(skill: Skill, strength: float, by: Any, why: str, told: Mapping[str, JsonValue]) -> SkillMatch:
    rate = 0.5 if skill.success_rate is None else skill.success_rate
    worked = "" if skill.success_rate is None else f"; expected to go well {rate:.0%} of the time"
    return SkillMatch(skill=skill, score=strength * (0.5 + rate / 2), by=by, why=why + worked, parameters=told)


def _about(skill: SkillDefinition) -> str:
    return " ; ".join((skill.name, skill.description, *skill.triggers.phrases, *skill.triggers.examples))


def _said(skill: SkillDefinition, version: int) -> str:
    """What the memory of a version says, by which it is found; no two versions say the same."""
    uses = "; ".join((*skill.triggers.phrases, *skill.triggers.examples))
    said = f"Skill {skill.name}, version {version}: {skill.description}"
    return f"{said}\nFor: {uses}" if uses else said
