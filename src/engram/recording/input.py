"""The way in for what callers say: checked, and without its secrets, since queries are kept in logs."""

from __future__ import annotations

from collections.abc import Iterable

from engram.errors import InvalidInput
from engram.learning.events import Circumstances
from engram.model import Clean
from engram.ports import Filter, Redactor, arguments, unstorable
from engram.ports.arguments import When
from engram.recording.draft import handle

Kinds = str | Iterable[str]


class InputCleaner:
    """Makes texts clean by one redactor. Everything raises `InvalidInput` for what cannot be used."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor

    def clean(self, name: str, text: str) -> Clean:
        """A text that says something, without its secrets; `name` says in errors what it is."""
        if not isinstance(text, str):
            raise InvalidInput(f"the {name} must be a text, not {type(text).__name__}")
        if not text.strip():
            raise InvalidInput(f"the {name} is empty; say what is meant")
        if reason := unstorable(text):
            raise InvalidInput(f"the {name} cannot be used: {reason}")
        return self._redactor.clean([text])[0].text

    def maybe(self, name: str, text: str) -> Clean:
        """The same, where nothing need be said."""
        return Clean("") if text is None or text == "" else self.clean(name, text)

    def handle(self, name: str, text: str) -> Clean:
        """A name by which things are told apart: different ones stay different without their secrets."""
        self.clean(name, text)
        return handle(self._redactor, text).text

    def tags(self, tags: str | Iterable[str]) -> list[Clean]:
        """Labels, as they are kept."""
        return [self.clean("tag", tag.strip()) for tag in arguments.several("tags", tags)]

    def around(self, environment: str, tool: str, task_type: str, tags: str | Iterable[str]) -> Circumstances:
        """The circumstances of an action."""
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
        """Which memories are meant."""
        return Filter(
            kinds=frozenset(arguments.kind(kind) for kind in arguments.several("kinds", kinds)),
            tags=frozenset(self.tags(tags)),
            since=arguments.moment("since", since),
            until=arguments.moment("until", until),
            as_of=arguments.moment("as_of", as_of),
            session=None if session is None else self.handle("session", session),
        )
