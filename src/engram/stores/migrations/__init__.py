"""The schema migrations: append-only, each runs in one transaction with the row that records it."""
