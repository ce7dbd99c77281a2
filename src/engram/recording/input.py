"""Check and redact what callers give: texts, queries and names, and drafts, which become entries."""

from __future__ import annotations

import json
import re
import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from pydantic import JsonValue, TypeAdapter, ValidationError

from engram.clock import Sources
from engram.errors import EngramError, InvalidInput
from engram.learning.events import Circumstances
from engram.model import (
    KNOWLEDGE_LIKE,
    Clean,
    Content,
    Draft,
    Hit,
    Memory,
    MemoryType,
    Origin,
    Provenance,
    Receipt,
    comparable_content,
    describe_error,
)
from engram.model.bundle import MAX_LABEL, MAX_TEXT
from engram.model.content import texts_in
from engram.ports import Cleaned, Entry, Filter, Redactor, Scope, arguments, unstorable
from engram.ports.arguments import When
from engram.privacy import clean_json
from engram.text.terms import digest, normal_form

MAX_JSON = 100_000
MAX_TAGS = 100
FIRST_TRUST = {Origin.SELF: 1.0, Origin.TOOL: 0.5, Origin.SHARED: 0.3, Origin.IMPORTED: 0.3}
"""Trust in a memory by its origin, unless the draft sets it."""

USUAL_ROLES = frozenset({"user", "assistant", "system", "tool"})
"""Roles that only tell who spoke."""

REMEMBERED = 5000
LEAST_WORDS = 4
"""Number of words below which a text may be repeated by chance."""

Kinds = str | Iterable[str]
_content: TypeAdapter[Content] = TypeAdapter(Content)
_TOLD_APART = re.compile(r"\[(?:secret|personal):[a-z0-9-]+:[0-9a-f]{8}\]")
"""A placeholder that already differs for different values."""


class InputCleaner:
    """Check and redact arguments. Every method raises `InvalidInput` for values that cannot be used."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor

    def clean(self, name: str, text: str) -> Clean:
        """Redact a text that must not be empty; `name` is its name in error messages."""
        if not isinstance(text, str):
            raise InvalidInput(f"the {name} must be a text, not {type(text).__name__}")
        if not text.strip():
            raise InvalidInput(f"the {name} is empty; say what is meant")
        if reason := unstorable(text):
            raise InvalidInput(f"the {name} cannot be used: {reason}")
        return self._redactor.clean([text])[0].text

    def maybe(self, name: str, text: str) -> Clean:
        """Redact a text that may be empty."""
        return Clean("") if text is None or text == "" else self.clean(name, text)

    def handle(self, name: str, text: str) -> Clean:
        """Redact a name; different names stay different without their secrets."""
        self.clean(name, text)
        return handle(self._redactor, text).text

    def tags(self, tags: str | Iterable[str]) -> list[Clean]:
        """Redact tags, in the form in which they are stored."""
        return [self.clean("tag", tag.strip()) for tag in arguments.several("tags", tags)]

    def around(self, environment: str, tool: str, task_type: str, tags: str | Iterable[str]) -> Circumstances:
        """Redact the circumstances of an action."""
        labels = tuple(self.clean("tag", tag) for tag in arguments.several("tags", tags))
        where, by = self.maybe("environment", environment), self.maybe("tool", tool)
        return Circumstances(where, by, self.maybe("task_type", task_type), labels)

    def filter(
        self,
        kinds: Kinds,
        tags: str | Iterable[str],
        since: When | None,
        until: When | None,
        as_of: When | None,
        session: str | None,
    ) -> Filter:
        """Return the filter for these arguments."""
        return Filter(
            kinds=frozenset(arguments.kind(kind) for kind in arguments.several("kinds", kinds)),
            tags=frozenset(self.tags(tags)),
            since=arguments.moment("since", since),
            until=arguments.moment("until", until),
            as_of=arguments.moment("as_of", as_of),
            session=None if session is None else self.handle("session", session),
        )


def prepare(draft: Draft, scope: Scope, redactor: Redactor, sources: Sources) -> tuple[Entry, tuple[str, ...]]:
    """Return the entry to store for a draft, and the rules that redacted secrets in it. Raises `InvalidInput`."""
    _refuse_flaws(draft)
    said = _Redaction(redactor)
    text, context = said.of(draft.text), said.of(draft.context)
    tags = tuple(dict.fromkeys(said.of(tag.strip()) for tag in draft.tags))
    now = sources.now()
    happened = draft.at or now
    valid_from = draft.valid_from or min(happened, now)
    if draft.valid_until is not None and draft.valid_until <= valid_from:
        raise InvalidInput("valid_until must lie after the time it is valid from")
    content, in_content = clean_json(redactor, {**draft.content}) if draft.content else ({}, ())
    typed = _typed(draft.kind, cast(dict[str, Any], content))
    metadata, in_metadata = clean_json(redactor, {**draft.metadata}) if draft.metadata else ({}, ())
    said.found += (*in_content, *in_metadata)
    memory = Memory(
        id=sources.new_id(),
        agent=scope.agent,
        kind=draft.kind,
        text=text,
        content=typed,
        context=context,
        tags=tags,
        metadata=cast(dict[str, JsonValue], metadata),
        provenance=Provenance(
            author=said.of(scope.agent),
            session=said.handle(draft.session),
            role=said.maybe(draft.role),
            speaker=said.maybe(draft.speaker),
            sources=tuple(said.of(source) for source in draft.sources),
            origin=_origin(draft),
        ),
        importance=draft.importance,
        confidence=draft.confidence,
        trust=_trust(draft),
        created_at=now,
        happened_at=happened,
        valid_from=valid_from,
        valid_until=draft.valid_until,
    )
    memory = memory.model_copy(update={"success_rate": getattr(memory.content, "outcome_quality", None)})
    entry = Entry(memory, key=said.handle(draft.key), merge_key=merge_key(memory))
    return entry, tuple(dict.fromkeys(said.found))


def _origin(draft: Draft) -> Origin:
    """Return the origin of a draft; the output of a tool is never the agent's own word."""
    return Origin.TOOL if draft.origin == Origin.SELF and draft.role == "tool" else draft.origin


def _trust(draft: Draft) -> float:
    return FIRST_TRUST[_origin(draft)] if draft.trust is None else draft.trust


def rejected(error: EngramError) -> Receipt:
    """Return the receipt of a draft that was not stored because of an error."""
    return Receipt(id=None, status="rejected", reason=str(error), code=error.code)


def with_source(memory: Memory, source: str) -> Memory:
    """Return the memory with another one among its sources."""
    sources = tuple(dict.fromkeys((*memory.provenance.sources, source)))
    return memory.model_copy(update={"provenance": memory.provenance.model_copy(update={"sources": sources})})


def readable(memory: Memory) -> tuple[str, ...]:
    """Return all texts of a memory that others may have written and a model may be shown, in order."""
    said, content = memory.provenance, memory.content.model_dump(mode="json", exclude={"kind"}, exclude_defaults=True)
    labels = (said.speaker, said.session, None if said.role in USUAL_ROLES else said.role)
    told_ = (*texts_in([*content.values()], names=True), *texts_in(dict(memory.metadata), names=True))
    whole = (memory.text, memory.context, *told_, *memory.tags, *labels, *said.sources)
    return tuple(dict.fromkeys(text for text in whole if text))


def merge_key(memory: Memory) -> str | None:
    """Return a key that is equal for equal statements in one context; `None` for kinds that never merge."""
    if memory.kind not in KNOWLEDGE_LIKE:
        return None
    content = json.dumps(comparable_content(memory.content), sort_keys=True)
    return digest(memory.kind, normal_form(memory.text), normal_form(memory.context), content)


def handle(redactor: Redactor, name: str) -> Cleaned:
    """Redact the name of a session or a key; a fingerprint in place of a secret keeps names different."""
    (cleaned,) = redactor.clean([name])
    if not cleaned.found or _TOLD_APART.search(cleaned.text):
        return cleaned
    (marked,) = redactor.clean([f"{cleaned.text} #{digest(name)[:12]}"])
    return Cleaned(marked.text, cleaned.found)


class _Redaction:
    """Redact the parts of one draft and collect the rules that matched."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self.found: list[str] = []

    def of(self, text: str) -> Clean:
        (cleaned,) = self._redactor.clean([text])
        self.found += cleaned.found
        return cleaned.text

    def maybe(self, text: str | None) -> Clean | None:
        return None if text is None else self.of(text)

    def handle(self, name: str | None) -> Clean | None:
        """Redact a name; different names stay different without their secrets."""
        if name is None:
            return None
        cleaned = handle(self._redactor, name)
        self.found += cleaned.found
        return cleaned.text


def _typed(kind: MemoryType, given: dict[str, Any]) -> Content:
    """Return the content of a memory of a kind. Raises `InvalidInput`."""
    if given.setdefault("kind", kind) != kind:
        raise InvalidInput(f"the content is of kind {given['kind']}, the draft of kind {kind}; make them agree")
    try:
        return _content.validate_python(given)
    except ValidationError as error:
        raise InvalidInput(f"content: {describe_error(error)}") from None


def _refuse_flaws(draft: Draft) -> None:
    if not draft.text.strip():
        raise InvalidInput("the text is empty; say what is to be remembered")
    if len(draft.text) > MAX_TEXT:
        raise InvalidInput(
            f"the text has {len(draft.text):,} characters, {MAX_TEXT:,} are the limit; "
            "split it, or store a file and remember where it is"
        )
    labels = {"session": draft.session, "role": draft.role, "speaker": draft.speaker, "key": draft.key}
    for name, value in labels.items():
        _refuse_label(name, value)
    for name, values in {"tags": draft.tags, "sources": draft.sources}.items():
        refuse_list(name, values)
    if reason := unstorable(draft.text) or unstorable(draft.context):
        raise InvalidInput(f"the text cannot be kept as it is: {reason}")
    if len(draft.context) > MAX_TEXT:
        raise InvalidInput(f"the context has {len(draft.context):,} characters, {MAX_TEXT:,} are the limit")
    _refuse_json("metadata", draft.metadata)
    _refuse_json("content", draft.content)


def _refuse_label(name: str, value: str | None) -> None:
    if value is None:
        return
    if not value.strip() or len(value) > MAX_LABEL:
        raise InvalidInput(f"{name} must have 1 to {MAX_LABEL} characters; leave it out if there is none")
    if reason := unstorable(value):
        raise InvalidInput(f"{name} cannot be kept as it is: {reason}")


def refuse_list(name: str, values: Sequence[str]) -> None:
    """Raise `InvalidInput` for labels that cannot be stored."""
    if len(values) > MAX_TAGS:
        raise InvalidInput(f"{len(values)} {name} were given, {MAX_TAGS} are the limit")
    for value in values:
        _refuse_label(f"each of {name}", value)


def _refuse_json(name: str, value: Mapping[str, JsonValue]) -> None:
    try:
        encoded = json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (ValueError, TypeError, RecursionError) as error:
        raise InvalidInput(f"{name} must be plain JSON: {error}") from None
    if len(encoded) > MAX_JSON:
        raise InvalidInput(f"{name} has {len(encoded):,} characters as JSON, {MAX_JSON:,} are the limit")
    if reason := unstorable(encoded):
        raise InvalidInput(f"{name} cannot be kept as it is: {reason}")
    if "\\u0000" in encoded.replace("\\\\", ""):  # two backslashes are one that the text has, and no escape
        raise InvalidInput(f"{name} has a NUL character; remove it")


class RecentRecalls:
    """The texts that were recalled lately; an agent that repeats one of them has observed nothing new."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[Scope, str], str] = OrderedDict()
        self._lock = threading.Lock()

    def note(self, scope: Scope, hits: Iterable[Hit]) -> None:
        """Note the hits that an agent was shown."""
        with self._lock:
            for hit in hits:
                self._known[scope, _text_key(hit.memory)] = hit.id
            while len(self._known) > REMEMBERED:
                self._known.popitem(last=False)

    def was_shown(self, scope: Scope, id: str) -> bool:
        """Return true if a memory was recalled lately."""
        with self._lock:
            return any(known == id and owner == scope for (owner, _), known in self._known.items())

    def source_of(self, scope: Scope, memory: Memory) -> str | None:
        """Return the id of the recalled memory that this one repeats, if it does."""
        if not self._known or len(memory.text.split()) < LEAST_WORDS:
            return None
        with self._lock:
            return self._known.get((scope, _text_key(memory)))


def _text_key(memory: Memory) -> str:
    return digest(normal_form(memory.text))
