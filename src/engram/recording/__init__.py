"""Record memories: check and redact drafts, embed them, store them.

- `record`: the pipeline from a draft to a stored memory and updated patterns.
- `input`: check and redact everything that callers pass in; drafts become entries for the store.
- `embedding`: embed memories, queries and contexts; if the model fails, the memory is stored without a vector.
- `quarantine`: list, release or delete memories that are held for review.
- `agent_context`: the objects that recording, recall and learning need for one agent.
"""
