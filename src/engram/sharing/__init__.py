"""Share knowledge between agents, with the consent of its owner.

- `grants`: an agent requests, offers, shares, approves, denies and revokes access.
- `ledger`: the append-only log of grants, groups and imported sources.
- `lenders`: the sources an agent may use now, their trust, and the log of their use.
- `lens`: a read-only view of another agent's memories, limited to what a grant covers.
- `patterns`: failure patterns, success patterns, templates and checks that others share.
- `api_keys`: keys that clients of the servers authenticate with.
"""
