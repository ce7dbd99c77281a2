"""The stores: SQLite, PostgreSQL, Redis and in-memory, with their vector databases, encryption and migrations."""
