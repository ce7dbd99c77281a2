"""The REST server: requests are authenticated, converted to operations of `engram.api`, and answered as JSON.

- `app` builds the application, `run` starts and stops it, `openapi` completes its OpenAPI document.
- `routes` has the routes; most are made from the table of operations.
- `middleware` checks each request: host, origin, API key, rate and size; `connections` closes slow ones.
- `parameters`: parameters that routes share. `problems`: errors as responses. `idempotency`: repeated writes.
- `event_stream`: live changes as server-sent events. `logs`: one line for each request.
"""
