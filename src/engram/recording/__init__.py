"""Record memories: check and redact drafts, embed them, store them.

- `record`: the pipeline from a draft to a stored memory and updated patterns.
- `draft`, `input`: check and redact what callers pass in.
- `embedding`: embed memories, queries and contexts.
- `quarantine`: memories held for review.
- `agent_context`: what all agents of a memory share, and the context of one agent.
"""
