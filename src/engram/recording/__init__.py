"""Record memories: check and redact drafts, embed them, store them."""
