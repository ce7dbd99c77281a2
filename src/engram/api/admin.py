"""Grants, groups, policies and holds as callers name them: what they say is checked, and then one call is made."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from engram.engine import Engram
from engram.errors import InvalidInput
from engram.model.retention import LegalHold, RetentionPolicy, RetentionReport
from engram.model.wire import GroupChange, GroupView, NewHold, Policy, RetentionRun, Terms
from engram.ports import arguments, unstorable


def named(text: str) -> str:
    """A name that can be stored. Raises `InvalidInput`."""
    if not text.strip():
        raise InvalidInput("a name is empty; say who or what is meant")
    if reason := unstorable(text):
        raise InvalidInput(f"a name cannot be used: {reason}")
    return text


def terms(asked: Terms) -> dict[str, Any]:
    """The terms of a grant, as `Grants` takes them; without rights, the usual ones are meant. Raises `InvalidInput`."""
    given = asked.model_dump(include=set(Terms.model_fields))
    for text in (*asked.memories, *asked.patterns):
        named(text)
    return given if asked.rights else {name: value for name, value in given.items() if name != "rights"}


def groups(brain: Engram) -> list[GroupView]:
    """The groups that knowledge can be shared with, by name."""
    known = sorted(brain.sharing.ledger.groups().items())
    return [GroupView(name=name, members=tuple(sorted(members))) for name, members in known]


def regroup(brain: Engram, name: str, change: GroupChange) -> GroupView:
    """Change who is in a group. Raises `InvalidInput`."""
    added = [brain.agent(each).name for each in change.add]
    members = brain.sharing.ledger.regroup(named(name), add=added, remove=change.remove, redactor=brain.redactor)
    return GroupView(name=name, members=tuple(sorted(members)))


def policies(brain: Engram) -> list[Policy]:
    """The policies in force, in the order in which they run."""
    return [*map(_told, brain.retention.policies())]


def set_policy(brain: Engram, policy: Policy) -> Policy:
    """Set a policy, instead of the one of this name. Raises `InvalidInput`."""
    age = None if policy.older_than_days is None else timedelta(days=policy.older_than_days)
    _storable(policy.name, *policy.tags)
    agent = None if policy.agent is None else brain.agent(policy.agent).name
    tags = tuple(map(brain.clean, policy.tags))
    fields = policy.model_dump(exclude={"name", "older_than_days", "agent", "tags"})
    return _told(brain.retention.set(policy.name, agent=agent, tags=tags, older_than=age, **fields))


def remove_policy(brain: Engram, name: str) -> Policy:
    """Give a policy up. Raises `NotFound`."""
    return _told(brain.retention.remove(name))


def hold(brain: Engram, wanted: NewHold) -> LegalHold:
    """Keep memories, whoever wants to forget them. Raises `InvalidInput`."""
    _storable(wanted.reason, *wanted.memories, *wanted.tags, *wanted.sessions)
    agent = None if wanted.agent is None else brain.agent(wanted.agent).name
    return brain.retention.hold(agent=agent, **wanted.model_dump(exclude={"agent"}))


def run(brain: Engram, wanted: RetentionRun) -> RetentionReport:
    """Let go of what fulfils a policy that forgets; what is pinned or held stays."""
    agents = None if wanted.agents is None else [brain.agent(name).name for name in wanted.agents]
    return brain.retention.run(agents=agents, dry_run=wanted.dry_run)


def _told(policy: RetentionPolicy) -> Policy:
    age = None if policy.older_than is None else policy.older_than / timedelta(days=1)
    return Policy(**policy.model_dump(exclude={"older_than"}), older_than_days=age)


def _storable(*texts: str) -> None:
    for text in texts:
        if not arguments.is_id(text):
            raise InvalidInput(f"a text cannot be used: {unstorable(text)}")
