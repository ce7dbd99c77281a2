"""The history of the schema: append-only, each step in one transaction with the row that says it ran."""
