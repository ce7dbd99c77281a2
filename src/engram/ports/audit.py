"""The actions recorded in the audit trail, and on whose behalf they are made."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from pydantic import JsonValue

principal: ContextVar[str] = ContextVar("engram_principal", default="")
"""On whose behalf calls are made: the id of a key, `cli:` and a user's name, or nobody in particular."""


@dataclass(frozen=True, slots=True)
class AuditAction:
    """Something to put on record: who did what to whose memory. Ids, counts and hashes, never content."""

    action: str
    actor: str = ""
    agent: str = ""
    target: str = ""
    grant: str = ""
    count: int = 1
    detail: Mapping[str, JsonValue] = field(default_factory=dict)


doing: ContextVar[AuditAction | None] = ContextVar("engram_doing", default=None)
"""What the calls of a thread or task are part of, if somebody has said so; see `acting`."""


@contextmanager
def acting(actor: str, action: str = "", *, agent: str = "", grant: str = "") -> Iterator[None]:
    """Say who does what the calls inside put on record; without it, the agent whose scope it is.

    `actor` is empty for whoever looks after the database, `action` if the calls themselves say what is done; `agent` is
    whose memory a reserved scope belongs to. Within another one, the actor is that of the outermost.
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
    """Put on record what agents did before, and is only written now, as their own actions, whoever is acting."""
    token = doing.set(None)
    try:
        yield
    finally:
        doing.reset(token)
