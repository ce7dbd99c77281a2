"""The context of one call: the open memory, the caller's key, and the agent that the call is for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from engram.api.operations import no_agent
from engram.engine import AgentHandle, Engram
from engram.errors import InvalidInput, NotAllowed
from engram.model import AuditEntry, AuditVerification, EvaluationReport
from engram.model.api_key import EVERYONE, ApiKey
from engram.ports import reserved, unstorable
from engram.retention.policies import Retention
from engram.transfer import Knowledge


@dataclass(frozen=True, slots=True)
class Call:
    """Who is calling, and for which agent: both come from the key, never from the body of a request."""

    brain: Engram
    key: ApiKey
    named: str | None = None
    """The agent that the request names in its header or metadata, percent-encoded."""
    repeat_key: str | None = None
    """The Idempotency-Key of the request, where it came beside the request and not in it."""

    @property
    def agent(self) -> AgentHandle:
        """The agent that the call is for; one outside the key's reach is reported as not found."""
        return self.brain.agent(self.agent_name())

    def agent_name(self) -> str:
        """The name of that agent. Raises `NotFound`, and `InvalidInput` if none is named and the key is for several."""
        if self.named is None:
            if len(self.key.agents) == 1 and self.key.agents[0] != EVERYONE:
                return self.key.agents[0]
            raise InvalidInput("the key is not for just one agent; name one in the metadata engram-agent")
        try:
            name = unquote(self.named, errors="strict")
        except UnicodeDecodeError:
            raise no_agent() from None
        if reserved(name) or not self.key.may_act_for(name):
            raise no_agent()
        return name

    def for_all(self) -> None:
        """Raise `NotAllowed` unless the key is for all agents."""
        if EVERYONE not in self.key.agents:
            raise NotAllowed("this is about all agents, and the key is for some; ask for one that is for all")

    def agents(self) -> list[str]:
        """The names of the existing agents within the key's reach."""
        return [name for name in self.brain.agents() if self.key.may_act_for(name) and not reserved(name)]

    @staticmethod
    def check_name(text: str) -> str:
        """Return a name that can be stored. Raises `InvalidInput`."""
        if not text.strip():
            raise InvalidInput("a name is empty; say who or what is meant")
        if reason := unstorable(text):
            raise InvalidInput(f"a name cannot be used: {reason}")
        return text

    @staticmethod
    def is_storable(text: str) -> bool:
        """Whether every store can keep a text unchanged."""
        return unstorable(text) is None

    @staticmethod
    def check_storable(*texts: str) -> None:
        """Raise `InvalidInput` for text that no store can keep unchanged."""
        for text in texts:
            if reason := unstorable(text):
                raise InvalidInput(f"a text cannot be used: {reason}")

    # Parts of the memory ------------------------------------------------------------------------------

    @property
    def retention(self) -> Retention:
        """Policies, holds and runs of retention."""
        return self.brain.retention

    @property
    def knowledge(self) -> Knowledge:
        """Export, import and merge for the agent."""
        return self.agent.knowledge

    def evaluate(self, **query: Any) -> EvaluationReport:
        """Measure how well memory serves the agent."""
        return self.brain.upkeep.evaluate([self.agent.name], **query)

    def trail(self, after: int, limit: int, **filters: Any) -> list[AuditEntry]:
        """Entries of the audit trail: of all agents only for a key that is for all, if the request names none."""
        everyone = EVERYONE in self.key.agents and self.named is None
        return self.brain.audit.find(after, limit, agent=None if everyone else self.agent_name(), **filters)

    def verify_trail(self) -> AuditVerification:
        """Check every entry of the audit trail."""
        return self.brain.audit.verify()
