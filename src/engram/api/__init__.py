"""Every operation of Engram, described once for REST, gRPC and the clients.

- `operations`: the table: right, request, response, HTTP route and function of each operation.
- `requests`: request models; more are in `engram.model.wire`. `paging`: pages of lists and their cursors.
- `call`: the context of one call: the open memory, the API key and the agent.
- `limits`: limits of rate, size and time. `problems`: errors, as callers may see them.
- `live`: the stream of changes. `invalidation`: forget cached responses that contain deleted memories.
"""
