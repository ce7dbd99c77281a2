"""The Redis and Valkey store: shared by many processes, optionally with a time to live for each entry.

All keys of a scope (an agent) have the scope as their hash tag, so that they are in one slot of a Redis Cluster and one
script can write everything that a call changes, all or nothing. `store` is composed of `adding`, `search`, `events`,
`recalls` and `copying`; `layout` names the keys, `transactions` and `batch` commit writes, `server` is the connection,
`address` parses URLs, and `expiring` stores working memory.
"""

from __future__ import annotations

from engram.stores.redis.address import parse
from engram.stores.redis.expiring import RedisExpiring
from engram.stores.redis.store import RedisStore, open_store

__all__ = ["RedisExpiring", "RedisStore", "open_store", "parse"]
