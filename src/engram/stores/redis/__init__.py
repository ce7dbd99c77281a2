"""Memories and expiring values in Redis or Valkey: shared by many processes, each entry with a time to live.

Every key of a scope has the scope as its hash tag, so that a scope is in one slot of a Redis Cluster and one script can
write everything that a call changes, all or nothing.
"""

from __future__ import annotations

from engram.stores.redis.address import parse
from engram.stores.redis.expiring import RedisExpiring
from engram.stores.redis.store import RedisStore, open_store

__all__ = ["RedisExpiring", "RedisStore", "open_store", "parse"]
