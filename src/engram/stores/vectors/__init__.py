"""Vector indexes: exact and approximate search in this process, and adapters of external vector databases."""
