"""Errors that interfaces raise themselves."""

from __future__ import annotations

from engram.errors import EngramError
from engram.model import Receipt


class Refused(EngramError):
    """A draft was not stored; its receipt says why."""

    def __init__(self, receipt: Receipt) -> None:
        super().__init__(receipt.reason)
        self.receipt = receipt
