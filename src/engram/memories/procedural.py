"""Procedural memory: versioned skills, matched to requests and rated by their outcomes.

Every version is an immutable memory of kind procedure. Its uses are recorded as decisions with the action
`skill:NAME@VERSION`, from which its success rate is computed.
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
from engram.memories.skills import check_skill, escape_template, match_pattern, read_skill, render_steps
from engram.model import ForgetReceipt, Memory, MemoryType, Recall, Receipt, SuccessPattern
from engram.model.skill import Skill, SkillDefinition, SkillMatch, SkillOrigin, SkillStep, Triggers
from engram.ports import unstorable
from engram.ports.arguments import count
from engram.text.terms import index_terms, query_terms

TAG = "skill"
MAX_VERSIONS = 10_000
MAX_REQUEST = 10_000
SIMILAR_LIMIT = 50
"""Number of similar skills considered for a request."""

OTHER_VERSION_WEIGHT = 0.5
"""Weight of a use of another version in the rate of a version."""
MAX_PATTERN_WEIGHT = 4
"""Maximum weight, in attempts, of the success pattern that a skill was made from."""

PHRASE_SCORE, PATTERN_SCORE, SIMILARITY_SCORE = 0.9, 0.8, 0.7
MIN_SHARED, MIN_SIMILARITY, MIN_MARGIN = 0.2, 0.25, 0.15
"""A skill is similar if it shares this part of the request's terms, or if its similarity exceeds the minimum and, by
the margin, the median of all skills.
"""

Memories = list[Memory]

_TRIES = 20
_ACTION = re.compile(r"skill:([a-z0-9-]{1,64})@([0-9]{1,9})")
_NOT_NAME = re.compile(r"[^a-z0-9]+")


Uses = Mapping[int, tuple[int, float]]
"""Number of uses and sum of outcomes, by version."""


class ActionRates(Protocol):
    """The learning interface that skills need."""

    def rates(self) -> Mapping[str, tuple[int, float]]:
        """Return the number of attempts and the sum of outcomes of each action."""
        ...


class ProceduralAgent(Protocol):
    """The methods of an agent that procedural memory needs."""

    @property
    def learning(self) -> ActionRates:
        """The agent's learning interface."""
        ...

    def remember(self, text: str, **fields: Any) -> Receipt:
        """Store a text."""
        ...

    def recall(self, query: str, k: int = 5, *, kinds: str = "", tags: str = "") -> Recall:
        """Return the memories that answer a query."""
        ...

    def list(self, *, limit: int = 50, kinds: str = "", tags: str = "") -> Memories:
        """Return the memories of a kind with a tag."""
        ...

    def get(self, id: str) -> Memory | None:
        """Return the memory with this id."""
        ...

    def annotate(self, id: str, *, valid_until: datetime | None = None) -> Memory:
        """Change the end of a memory's validity."""
        ...

    def forget(self, id: str) -> ForgetReceipt:
        """Delete a memory."""
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
        """Record an action and its outcome."""
        ...


class ProceduralMemory:
    """The skills of one agent."""

    def __init__(self, agent: ProceduralAgent) -> None:
        self._agent = agent

    def add(self, skill: str | Path | Mapping[str, JsonValue] | SkillDefinition) -> Skill:
        """Store a skill from YAML, a file, a mapping or a definition; a changed one becomes a new version.

        Raises `InvalidInput`, and stores nothing, if it is unsafe, invalid or contains a secret.
        """
        definition = check_skill(skill) if isinstance(skill, SkillDefinition) else read_skill(skill)
        return self._add(definition, None, ())

    def skills(self) -> list[Skill]:
        """Return the newest version of each skill, by name."""
        uses = self._uses()
        newest = [versions[-1] for _, versions in sorted(self._versions(TAG).items())]
        return [_rated(skill, uses.get(skill.name, {})) for skill in newest]

    def get(self, name: str, version: int | None = None) -> Skill | None:
        """Return the newest or the given version of a skill; `None` if there is none."""
        skill = self._find(name, version)
        return None if skill is None else _rated(skill, self._uses().get(name, {}))

    def history(self, name: str) -> list[Skill]:
        """Return all versions of a skill, oldest first."""
        uses = self._uses().get(name, {})
        return [_rated(skill, uses) for skill in self._all_versions(name)]

    def match(self, request: str, k: int = 3) -> list[SkillMatch]:
        """Return the skills that match a request, best first.

        Phrases in the request count most, then patterns, then similarity; each is weighted by the skill's success rate.
        """
        most = count("k", k)
        if not isinstance(request, str) or not request.strip():
            raise InvalidInput("the request is empty; give its text")
        if reason := unstorable(request):
            raise InvalidInput(f"the request cannot be used: {reason}")
        request = request[:MAX_REQUEST]
        known = self.skills()
        terms = index_terms(request)
        found = [match for skill in known if (match := _triggered(skill, request, terms)) is not None]
        called = {match.skill.name for match in found}
        if len(called) < len(known):
            found += self._similar_skills(request, [skill for skill in known if skill.name not in called])
        return sorted(found, key=lambda match: (-match.score, match.skill.name))[:most]

    def render(
        self, name: str, parameters: Mapping[str, Any] | None = None, *, version: int | None = None
    ) -> list[str]:
        """Render the steps of a skill with parameters. Raises `NotFound` and `InvalidInput`."""
        return render_steps(self._require(name, version), parameters or {})

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
        """Record a use of a skill and its outcome, which may be reported later by the id of the receipt.

        `context` is the request; `fields` are those of a decision.
        """
        skill = self._require(name, version)
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
        """Make a skill from a success pattern, with the steps that the successful runs share.

        The same pattern gives the same skill, or a new version if the steps have changed. Raises `Conflict` if the name
        belongs to a skill from another source.
        """
        wanted = _NOT_NAME.sub("-", (name or pattern.name).lower()).strip("-")[:64].strip("-")
        if not wanted:
            raise InvalidInput("the name of the pattern cannot be used for a skill; give another name")
        taken = self._find(wanted)
        if taken is not None and (taken.origin is None or taken.origin.pattern_id != pattern.pattern_id):
            raise Conflict(f"there is another skill {wanted} already; give another name")
        steps = pattern.replication_steps or (pattern.successful_approach,)
        definition = SkillDefinition(
            name=wanted,
            description=f"{pattern.successful_approach}, for {pattern.context_signature}"[:2000],
            triggers=Triggers(examples=tuple(one for one in (pattern.context_signature.strip()[:200],) if one)),
            steps=tuple(SkillStep(action=escape_template(step)) for step in steps[:50]),
        )
        origin = SkillOrigin(
            pattern_id=pattern.pattern_id, success_rate=pattern.success_rate, attempts=pattern.attempts
        )
        return self._add(check_skill(definition), origin, pattern.episodes[-100:])

    def remove(self, name: str) -> int:
        """Delete all versions of a skill and return their number; the records of its uses are kept."""
        return sum(self._agent.forget(skill.id).forgotten for skill in self._all_versions(name))

    def _all_versions(self, name: str) -> list[Skill]:
        """Return all versions of a skill, oldest first, without statistics."""
        return self._versions(f"{TAG}:{name}").get(name, []) if isinstance(name, str) and name.strip() else []

    def _find(self, name: str, version: int | None = None) -> Skill | None:
        return next((one for one in reversed(self._all_versions(name)) if version in {None, one.version}), None)

    def _require(self, name: str, version: int | None) -> Skill:
        skill = self._find(name, version)
        if skill is None:
            which = "" if version is None else f" in version {version}"
            raise NotFound(f"there is no skill {name!r}{which}", hint=Hint("skill list", "shows all skills"))
        return skill

    def _add(self, definition: SkillDefinition, origin: SkillOrigin | None, sources: Sequence[str]) -> Skill:
        last = self._find(definition.name)
        if last is not None and last.definition == definition:
            return _rated(last, self._uses().get(last.name, {}))
        first = 1 if last is None else last.version + 1
        for version in range(first, first + _TRIES):
            memory = self._store_version(definition, version, origin, sources)
            skill = None if memory is None else _to_skill(memory)
            if skill is not None and skill.version == version and skill.definition == definition:
                if last is not None:
                    with suppress(Unsupported):
                        self._agent.annotate(last.id, valid_until=skill.added_at)
                return _rated(skill, self._uses().get(skill.name, {}))
        raise Conflict(f"other processes keep adding versions of the skill {definition.name}; try again")

    def _store_version(
        self, definition: SkillDefinition, version: int, origin: SkillOrigin | None, sources: Sequence[str]
    ) -> Memory | None:
        """Store a new version; returns `None` if the version number is taken. Raises `InvalidInput`."""
        written: dict[str, JsonValue] = {
            "version": version,
            "definition": definition.model_dump(mode="json", exclude_defaults=True),
        }
        if origin is not None:
            written["origin"] = origin.model_dump(mode="json")
        receipt = self._agent.remember(
            _memory_text(definition, version),
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
            raise InvalidInput(f"the skill {definition.name} was not stored: {receipt.reason}")
        if receipt.redacted:
            if receipt.status == "stored":
                self._agent.forget(receipt.id)
            what = ", ".join(receipt.redacted)
            raise InvalidInput(f"the skill {definition.name} holds what looks like a secret ({what}); use a parameter")
        return self._agent.get(receipt.id)

    def _versions(self, tag: str) -> dict[str, list[Skill]]:
        """Return the versions of each skill with a tag, oldest first."""
        found: defaultdict[str, list[Skill]] = defaultdict(list)
        for memory in self._agent.list(limit=MAX_VERSIONS, kinds=MemoryType.PROCEDURE, tags=tag):
            skill = _to_skill(memory)
            if skill is not None:
                found[skill.name].append(skill)
        return {name: sorted(versions, key=lambda one: one.version) for name, versions in found.items()}

    def _uses(self) -> dict[str, dict[int, tuple[int, float]]]:
        """Return the uses of each version of each skill, from the learned rates."""
        found: defaultdict[str, dict[int, tuple[int, float]]] = defaultdict(dict)
        for action, tried in self._agent.learning.rates().items():
            if match := _ACTION.fullmatch(action):
                found[match[1]][int(match[2])] = tried
        return dict(found)

    def _similar_skills(self, request: str, skills: Iterable[Skill]) -> list[SkillMatch]:
        """Return the skills that share terms with a request, or are clearly nearer in meaning than others."""
        hits = self._agent.recall(request, SIMILAR_LIMIT, kinds=MemoryType.PROCEDURE, tags=TAG)
        near = {hit.id: max(0.0, min(1.0, float(hit.why.get("similarity", 0.0)))) for hit in hits}
        terms = set(query_terms(request))
        found = []
        for skill in skills:
            if skill.id not in near:
                continue
            others = [value for id, value in near.items() if id != skill.id]
            ahead = near[skill.id] - median(others) if len(others) > 1 else 0.0
            shared = len(terms & set(index_terms(_search_text(skill)))) / len(terms) if terms else 0.0
            if shared >= MIN_SHARED or (near[skill.id] >= MIN_SIMILARITY and ahead >= MIN_MARGIN):
                strength = SIMILARITY_SCORE * (shared + near[skill.id]) / 2
                found.append(_make_match(skill, strength, "similarity", "it is like what the skill is for", {}))
        return found


def _to_skill(memory: Memory) -> Skill | None:
    """Convert a memory to a version of a skill, or return `None`."""
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
    """Add success statistics: own uses in full, other versions and the original pattern with reduced weight."""
    weight = good = 0.0
    for version, (attempts, quality) in uses.items():
        each = 1.0 if version == skill.version else OTHER_VERSION_WEIGHT
        weight += each * attempts
        good += each * quality
    if skill.origin is not None:
        before = min(skill.origin.attempts, MAX_PATTERN_WEIGHT)
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


def _triggered(skill: Skill, request: str, terms: Sequence[str]) -> SkillMatch | None:
    """Match a request with a skill's phrases and patterns."""
    phrases = [(len(words), phrase) for phrase in skill.triggers.phrases if (words := _phrase_words(phrase, terms))]
    fits = match_pattern(skill, request)
    told = {} if fits is None else fits[1]
    if phrases:
        length, phrase = max(phrases)
        strength = PHRASE_SCORE + (1 - PHRASE_SCORE) * min(1.0, length / len(terms))
        return _make_match(skill, strength, "phrase", f"it says {phrase!r}", told)
    if fits is not None:
        return _make_match(skill, PATTERN_SCORE, "pattern", f"it fits the pattern {fits[0]!r}", told)
    return None


def _phrase_words(phrase: str, terms: Sequence[str]) -> list[str]:
    """Return the words of a phrase if they occur consecutively in a request."""
    words = index_terms(phrase)
    places = range(len(terms) - len(words) + 1)
    return words if any(terms[at : at + len(words)] == words for at in places) else []


def _make_match(skill: Skill, strength: float, by: Any, why: str, told: Mapping[str, JsonValue]) -> SkillMatch:
    rate = 0.5 if skill.success_rate is None else skill.success_rate
    worked = "" if skill.success_rate is None else f"; expected to go well {rate:.0%} of the time"
    return SkillMatch(skill=skill, score=strength * (0.5 + rate / 2), by=by, why=why + worked, parameters=told)


def _search_text(skill: SkillDefinition) -> str:
    return " ; ".join((skill.name, skill.description, *skill.triggers.phrases, *skill.triggers.examples))


def _memory_text(skill: SkillDefinition, version: int) -> str:
    """Make the text of a version's memory, which is unique among versions."""
    uses = "; ".join((*skill.triggers.phrases, *skill.triggers.examples))
    said = f"Skill {skill.name}, version {version}: {skill.description}"
    return f"{said}\nFor: {uses}" if uses else said
