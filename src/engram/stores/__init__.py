"""The stores: SQLite, PostgreSQL, Redis and in-memory.

- `sqlite`, `postgres`: what differs between the SQL stores; what they share is in `sql`, their tables in `schema`,
  their migrations in `migrate` and `migrations`. `fts` is full-text search (BM25) in SQLite, `neighbours` the queries
  for the surroundings of a memory.
- `redis`: the Redis and Valkey store. `memory`: the in-memory store, with which all others are compared.
- `vectors`: vector indexes in this process, and clients of vector databases.
- `rules`: filters, merging and scores, the same in every store; `rows` converts memories to table rows and back.
- Encryption: `sealing` encrypts single rows, `rekey` all rows of a database, `file_encryption` whole SQLite files,
  for which `drivers` chooses the SQLite module.
- `expiring`: values with a time to live, for working memory. `audit_entries`: entries of the audit trail.
- `raw`: the bytes of a database file, to verify that deleted content is gone.

`engram.wiring` chooses the store of a URL, by entry point.
"""
