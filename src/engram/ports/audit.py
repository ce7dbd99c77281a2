"""Actions for the audit trail, and the context that names their actor."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from pydantic import JsonValue

principal: ContextVar[str] = ContextVar("engram_principal", default="")
"""The principal of the current calls: the id of an API key, `cli:` and a user's name, or empty."""


@dataclass(frozen=True, slots=True)
class AuditAction:
    """An action to record in the audit trail, with its actor and agent: ids, counts and hashes, never content."""

    action: str
    actor: str = ""
    agent: str = ""
    target: str = ""
    grant: str = ""
    count: int = 1
    detail: Mapping[str, JsonValue] = field(default_factory=dict)


doing: ContextVar[AuditAction | None] = ContextVar("engram_doing", default=None)
"""The action that the calls of a thread or task are part of, if `acting` has set one."""


@contextmanager
def acting(actor: str, action: str = "", *, agent: str = "", grant: str = "") -> Iterator[None]:
    """Set the actor of the audit entries that calls inside this context make; the default is the agent of the scope.

    An empty `actor` stands for the administrator of the database; with an empty `action`, each call names its own.
    `agent` is the agent that a reserved scope belongs to. In nested contexts, the actor of the outermost applies.
    """
    outer = doing.get()
    if outer is not None:
        actor, action = outer.actor, action or outer.action
        agent, grant = agent or outer.agent, grant or outer.grant
    token = doing.set(AuditAction(action, actor, agent, grant=grant))
    try:
        yield
    finally:
        doing.reset(token)


@contextmanager
def as_agents() -> Iterator[None]:
    """Attribute pending actions of agents, which are only written now, to these agents instead of the current actor."""
    token = doing.set(None)
    try:
        yield
    finally:
        doing.reset(token)
