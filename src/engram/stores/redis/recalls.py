"""Outcomes of recalls in Redis, and counts of how often each memory helped."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from engram.ports import Credit, Scope
from engram.stores.redis.address import RedisAddress
from engram.stores.redis.batch import Batch
from engram.stores.redis.layout import MOMENT, RecallRow, agents_key, members_of
from engram.stores.redis.server import Command, Server, chunks
from engram.stores.redis.transactions import Transactions
from engram.stores.rows import to_credit, to_recall


class RecallLog:
    """Store credits in the order of time; each is one write together with its counts."""

    def __init__(self, server: Server, transactions: Transactions, address: RedisAddress) -> None:
        self._server = server
        self._transactions = transactions
        self._agents = agents_key(address.prefix)

    def credit(self, scope: Scope, credit: Credit) -> bool:
        """Store a credit and count it for existing memories; return `False` if its id is known or the scope empty."""
        keys, row = self._transactions.keys(scope), to_recall(scope, credit)
        counts = dict.fromkeys(credit.helped, (1.0, 0.0)) | dict.fromkeys(credit.hindered, (0.0, 1.0))
        reads: list[Command] = [
            ("ZSCORE", self._agents, scope.agent),
            ("ZRANGEBYLEX", keys.recalls, *members_of(credit.id)),
        ]
        for some in chunks(list(counts)):
            reads += [("HMGET", keys.cards, *some), ("HMGET", keys.helped, *some)]

        def plan(batch: Batch, answers: list[Any]) -> bool:
            enrolled, known, *found = answers
            if enrolled is None or known:
                return False
            batch.recall(RecallRow(row["id"], row["at"], row["detail"]))
            cards, before = _joined(found[::2]), _joined(found[1::2])
            for (id, (helped, hindered)), card, said in zip(counts.items(), cards, before, strict=True):
                if card is not None:
                    good, bad = (0.0, 0.0) if said is None else json.loads(said)
                    batch.help(id, good + helped, bad + hindered)
            return True

        return self._transactions.write(scope, reads, plan, renews=True)

    def credits(self, scope: Scope, limit: int) -> list[Credit]:
        """Return the newest credits, the oldest of them first."""
        keys, found = self._transactions.keys(scope), list[Credit]()
        if limit <= 0:
            return []
        (newest,) = self._server.ask(("ZRANGE", keys.recalled, -limit, -1))
        for some in chunks(newest):
            ids = [member.decode()[MOMENT:] for member in some]
            for members in self._server.ask(*(("ZRANGEBYLEX", keys.recalls, *members_of(id)) for id in ids)):
                found += [to_credit(RecallRow.read(member)._asdict()) for member in members]
        return found


def _joined(answers: Sequence[list[bytes | None]]) -> list[bytes | None]:
    return [one for some in answers for one in some]
