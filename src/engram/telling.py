"""Which records the results of calls are about, for telemetry."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from engram.model import ForgetReceipt, Hit, Memory, Receipt


def stored(receipts: Receipt | Sequence[Receipt]) -> list[str]:
    """The memories that were stored or merged."""
    several = [receipts] if isinstance(receipts, Receipt) else receipts
    return [receipt.id for receipt in several if receipt.ok and receipt.id is not None]


def found(hits: Sequence[Hit]) -> list[str]:
    """The memories that were recalled."""
    return [hit.id for hit in hits]


def contents(hits: Sequence[Hit]) -> list[dict[str, Any]]:
    """What was recalled, for those who switched that on."""
    return [{"id": hit.id, "content": hit.memory.text, "score": round(hit.score, 4)} for hit in hits]


def changed(memory: Memory) -> list[str]:
    """The memory that was changed."""
    return [memory.id]


def gone(receipt: ForgetReceipt) -> list[str]:
    """The memory that was forgotten."""
    return [receipt.id] if receipt.forgotten else []
