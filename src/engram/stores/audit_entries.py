"""Build the audit entry of each store call that changes something, and convert entries to and from table rows.

Housekeeping is not recorded: access counts, logged recalls, the state of an external vector database, learned state (it
is derived), times of background tasks.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from pydantic import JsonValue

from engram.clock import from_micros, micros
from engram.errors import InvalidInput
from engram.model import AuditEntry, Checkpoint, ForgetReceipt, Memory, Receipt
from engram.model.audit import canonical_json, sha256_hex
from engram.ports import (
    RESERVED,
    AuditAction,
    Changes,
    Credit,
    Entry,
    Event,
    LoggedRecall,
    Placed,
    Scope,
    doing,
    principal,
    reserved,
    unstorable,
)
from engram.stores.rows import Row

HOUSEKEEPING = ("background:", "copying", "forgetting:", "learned:", "nearness:", "pushed:", "vector_space")
"""Prefixes of the names of settings whose changes are housekeeping and are not recorded."""
PRUNING = "audit_pruning"
"""The setting with the last entry that triggers allow to delete; it exists within one transaction only."""
MOST_IDS = 20
REPLAYED = "replayed"
"""The code of a receipt for a memory that was stored before under the same key."""
_SAID = ("by", "agent", "owner", "receiver", "state", "action", "grant")
_BEGUN = {"requested": "grant.request", "offered": "grant.offer", "granted": "grant.share"}
_DECIDED = {"granted": "grant.approve", "denied": "grant.deny", "revoked": "grant.revoke"}
_KEPT = {
    "hold": "hold.set",
    "hold-released": "hold.release",
    "policy": "policy.set",
    "policy-removed": "policy.remove",
}


@dataclass(slots=True)
class PendingEntries:
    """The audit entries of a transaction; they are written last, since appending locks the trail for others."""

    actions: list[AuditAction] = field(default_factory=list)
    recalls: Mapping[tuple[str, str], LoggedRecall] = field(default_factory=dict)
    """The logged recalls that are written in the same transaction, by agent and id."""
    closed: bool = False


class Sealing(NamedTuple):
    """The row of an entry whose number in the chain is not known yet, and the parts of the text that is hashed."""

    row: Row
    before: str
    middle: str
    after: str

    def at(self, seq: int, prev: str) -> Row:
        """Return the complete row, with its number and the hash of the previous entry."""
        sealed = f"{self.before}{prev}{self.middle}{seq}{self.after}".encode("utf-8", "surrogatepass")
        return self.row | {"seq": seq, "prev": prev, "hash": hashlib.sha256(sealed).hexdigest()}


def attributed(action: AuditAction) -> AuditAction:
    """Fill in the actor of the current context, and replace reserved scope names."""
    by, apart = doing.get(), action.agent.startswith(RESERVED)
    if by is None:
        if not (apart or action.actor.startswith(RESERVED) or action.target.startswith(RESERVED)):
            return action
        by = AuditAction("", "" if reserved(action.actor) else action.actor)
    place, several, _ = action.agent.removeprefix(RESERVED).partition(":")
    detail = {**action.detail, "in": place} if apart and several else action.detail
    agent, grant = by.agent if apart else action.agent, action.grant or by.grant
    target = action.target.removeprefix(RESERVED)
    return AuditAction(by.action or action.action, by.actor, agent, target, grant, action.count, detail)


def sealing(action: AuditAction, now: datetime) -> Sealing:
    """Return the entry of an action, with the current actor and principal."""
    action = attributed(action)
    behalf, at, grant = principal.get(), micros(now), action.grant
    row: Row = {
        "at": at,
        "actor": action.actor,
        "principal": behalf,
        "action": action.action,
        "agent": action.agent,
        "target": action.target,
        "grant_id": grant,
        "count": action.count,
        "detail": canonical_json(action.detail),
    }
    said: dict[str, JsonValue] = {
        "action": action.action,
        "actor": action.actor,
        "agent": action.agent,
        "at": at,
        "count": action.count,
    }
    before = f'{canonical_json(said)[:-1]},"detail":{row["detail"]},"grant":{canonical_json(grant)},"prev":"'
    return Sealing(
        row, before, f'","principal":{canonical_json(behalf)},"seq":', f',"target":{canonical_json(action.target)}}}'
    )


def refuse_unstorable(actions: Sequence[AuditAction]) -> None:
    """Raise `InvalidInput` if no database could keep these actions."""
    for action in actions:
        for text in (
            action.action,
            action.actor,
            action.agent,
            action.target,
            action.grant,
            canonical_json(action.detail),
        ):
            if reason := unstorable(text):
                raise InvalidInput(f"this cannot be recorded in the audit trail: {reason}")


def to_entry(row: Any) -> AuditEntry:
    """Read an entry from a row, also from an invalid one, whose hash will then not match."""
    try:
        detail = json.loads(row["detail"])
        if not isinstance(detail, dict) or canonical_json(detail) != row["detail"]:
            detail = {"unreadable": str(row["detail"])}
    except (TypeError, ValueError, RecursionError):
        detail = {"unreadable": str(row["detail"])}
    return AuditEntry.model_construct(
        seq=row["seq"],
        at=_moment(row["at"]),
        actor=_text(row["actor"]),
        principal=_text(row["principal"]),
        action=_text(row["action"]),
        agent=_text(row["agent"]),
        target=_text(row["target"]),
        grant=_text(row["grant_id"]),
        count=row["count"] if isinstance(row["count"], int) else -1,
        detail=detail,
        prev=_text(row["prev"]),
        hash=_text(row["hash"]),
    )


def to_checkpoint(row: Any) -> Checkpoint:
    """Read a checkpoint from a row."""
    return Checkpoint.model_construct(
        seq=row["seq"],
        at=_moment(row["at"]),
        hash=_text(row["hash"]),
        key_id=_text(row["key_id"]),
        signature=_text(row["signature"]),
    )


def to_checkpoint_row(checkpoint: Checkpoint) -> Row:
    """Return the row of a checkpoint."""
    return checkpoint.model_dump(exclude={"at"}) | {"at": micros(checkpoint.at)}


def wrote(scope: Scope, entries: Sequence[Entry], receipts: Sequence[Receipt]) -> AuditAction:
    """Return the action of storing memories."""
    detail: dict[str, JsonValue] = dict(
        Counter(receipt.code if receipt.code == REPLAYED else receipt.status for receipt in receipts)
    )
    pairs = zip(entries, receipts, strict=True)
    if events := sum(len(entry.events) for entry, receipt in pairs if receipt.code != REPLAYED):
        detail["events"] = events
    action = "replay" if detail.keys() == {REPLAYED} else "write"
    return _about(scope, action, [receipt.id or "" for receipt in receipts], detail)


def forgot(scope: Scope, receipts: Sequence[ForgetReceipt]) -> AuditAction:
    """Return the action of deleting memories."""
    detail: dict[str, JsonValue] = {"forgotten": sum(receipt.forgotten for receipt in receipts)}
    return _about(scope, "forget", [receipt.id for receipt in receipts], detail)


def annotated(scope: Scope, memory: Memory, changes: Changes) -> AuditAction:
    """Return the action of changing annotations of a memory."""
    names: list[JsonValue] = [name for name in changes.__slots__ if getattr(changes, name) is not None]
    return _about(scope, "annotate", [memory.id], {"changed": names, "version": memory.version})


def recorded(scope: Scope, events: Sequence[Event], fresh: Sequence[bool]) -> AuditAction:
    """Return the action of recording events, of which some may have been known already."""
    kinds: dict[str, JsonValue] = dict(Counter(event.kind for event, new in zip(events, fresh, strict=True) if new))
    subjects = {event.subject for event in events}
    target = subjects.pop() if len(subjects) == 1 else ""
    if len(events) == 1 and fresh[0] and (told := _told(scope, events[0])) is not None:
        return told
    return AuditAction("event", scope.agent, scope.agent, target, count=sum(fresh), detail={"kinds": kinds})


def _told(scope: Scope, event: Event) -> AuditAction | None:
    """Return the action of an event that has one of its own: grants, imported sources, retention, agent definitions."""
    if event.kind == "definition" and not reserved(scope.agent):
        return AuditAction("agent.define", "", scope.agent, event.id)
    if not reserved(scope.agent):
        return None
    said = {name: str(event.body.get(name) or "") for name in _SAID}
    if event.kind == "use":
        count = event.body.get("count")
        number = count if isinstance(count, int) else 1
        return AuditAction("use", said["agent"], said["owner"], said["action"], event.subject, count=number)
    if event.kind == "grant":
        action = (_BEGUN if event.body.get("version") == 1 else _DECIDED).get(said["state"], "grant.change")
        return AuditAction(action, said["by"], said["owner"], said["receiver"], event.subject)
    if event.kind == "annex":
        gone, apart = event.body.get("gone"), event.body.get("quarantined")
        action = "annex.remove" if gone else "annex.quarantine" if apart else "annex.add"
        return AuditAction(action, said["receiver"], said["receiver"], event.subject, said["grant"])
    if event.kind == "group":
        return AuditAction("group.change", "", scope.agent, event.subject)
    return AuditAction(_KEPT[event.kind], "", said["agent"], event.subject) if event.kind in _KEPT else None


def unrecorded(scope: Scope, events: Sequence[Event]) -> AuditAction:
    """Return the action of deleting events."""
    kinds: dict[str, JsonValue] = dict(Counter(event.kind for event in events))
    return AuditAction("event.forget", scope.agent, scope.agent, count=len(events), detail={"kinds": kinds})


def credited(scope: Scope, credit: Credit, fresh: bool) -> AuditAction:
    """Return the action of reporting the outcome of a recall."""
    detail: dict[str, JsonValue] = {"helped": len(credit.helped), "shown": len(credit.order)}
    return AuditAction("credit", scope.agent, scope.agent, credit.id, count=int(fresh), detail=detail)


def embedded(vectors: Sequence[tuple[Scope, str, Placed]], count: int) -> AuditAction:
    """Return the action of adding vectors to memories."""
    agents = {scope.agent for scope, _, _ in vectors}
    ids = list(dict.fromkeys(id for _, id, _ in vectors))
    detail: dict[str, JsonValue] = {"agents": len(agents), "embedders": _sorted(v.embedder for _, _, v in vectors)}
    return AuditAction("embed", "", agents.pop() if len(agents) == 1 else "", count=count, detail=detail | _listed(ids))


def unembedded(keep: str, count: int) -> AuditAction:
    """Return the action of dropping the vectors of other embedders."""
    return AuditAction("unembed", count=count, detail={"kept": keep})


def administrative(name: str) -> bool:
    """Return True if changing this setting is an administrative action, and not housekeeping."""
    return not name.startswith(HOUSEKEEPING)


def checked(checkpoint: Checkpoint) -> AuditAction:
    """Return the action of making a checkpoint."""
    detail: dict[str, JsonValue] = {"hash": checkpoint.hash, "key": checkpoint.key_id, "sealed": checkpoint.digest}
    return AuditAction("checkpoint", target=str(checkpoint.seq), detail=detail)


def pruned(checkpoint: Checkpoint, count: int) -> AuditAction:
    """Return the action of pruning the entries up to a checkpoint."""
    return AuditAction("prune", target=str(checkpoint.seq), count=count, detail={"hash": checkpoint.hash})


def _about(scope: Scope, action: str, ids: Sequence[str], detail: dict[str, JsonValue]) -> AuditAction:
    target = ids[0] if len(ids) == 1 else ""
    more = {} if target else _listed(ids)
    return AuditAction(action, scope.agent, scope.agent, target, count=len(ids), detail=detail | more)


def _listed(ids: Sequence[str]) -> dict[str, JsonValue]:
    """Return the ids, or a hash of them if there are many."""
    return {"ids": list(ids)} if len(ids) <= MOST_IDS else {"ids_sha256": sha256_hex("\n".join(ids))}


def _sorted(names: Any) -> JsonValue:
    return sorted(set(names))


def _text(value: object) -> str:
    return value if isinstance(value, str) else repr(value)


def _moment(value: object) -> datetime:
    """Return the time of a number of microseconds; an invalid number gives that of -1."""
    try:
        return from_micros(int(value) if isinstance(value, int) else -1)
    except OverflowError:
        return from_micros(-1)
