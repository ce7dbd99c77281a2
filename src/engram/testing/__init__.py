"""Contract tests for stores, vector stores and embedders, also of plugins: subclass one and provide its fixture."""

import pytest

pytest.register_assert_rewrite(
    "engram.testing.audit",
    "engram.testing.embedders",
    "engram.testing.erasing",
    "engram.testing.expiring",
    "engram.testing.stores",
    "engram.testing.vectors",
)

from engram.testing.audit import AuditContract  # noqa: E402 - so that a failing assert shows its values
from engram.testing.embedders import EmbedderContract  # noqa: E402
from engram.testing.expiring import ExpiringStoreContract  # noqa: E402
from engram.testing.factories import FixedSources, Maker  # noqa: E402
from engram.testing.stores import DurableStoreContract, MemoryStoreContract  # noqa: E402
from engram.testing.vectors import VectorStoreContract  # noqa: E402

__all__ = [
    "AuditContract",
    "DurableStoreContract",
    "EmbedderContract",
    "ExpiringStoreContract",
    "FixedSources",
    "Maker",
    "MemoryStoreContract",
    "VectorStoreContract",
]
