"""Delete memories: retention policies, archives, and complete erasure."""
